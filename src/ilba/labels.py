"""The agency's code list: which codes exist and what they are called.

A csv or json file, or a frame, of `variable, code, label_en, label_ko, parent`; a row without a code names the
variable, or a hierarchy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ilba.design import Design
from ilba.errors import InputError, listing

CODE_COLUMNS = ("variable", "code", "label_en", "label_ko", "parent")


def read_labels(labels: Any, design: Design) -> pl.DataFrame:
    """A code list in its five columns, cut to the variables of a design; empty when there is none."""
    if labels is None:
        return pl.DataFrame(schema=dict.fromkeys(CODE_COLUMNS, pl.String))
    if isinstance(labels, str | os.PathLike):
        file = Path(labels)
        try:
            frame = pl.read_json(file) if file.suffix.lower() == ".json" else pl.read_csv(file, infer_schema=False)
        except (OSError, pl.exceptions.PolarsError) as problem:
            raise InputError(f"the code list {str(file)!r} cannot be read as csv or json.") from problem
    else:
        frame = pl.DataFrame(labels)
    for column in ("variable", "code"):
        if column not in frame.columns:
            raise InputError(
                f"the code list has no column {column!r}. Its columns are {listing(CODE_COLUMNS)}; "
                f"label_en, label_ko and parent may be left out."
            )
    frame = frame.with_columns(pl.lit(None, pl.String).alias(c) for c in CODE_COLUMNS if c not in frame.columns)
    frame = frame.select(pl.col(CODE_COLUMNS).cast(pl.String))
    names = [hierarchy.name for hierarchy in design.hierarchies if hierarchy.name not in design.columns]
    wanted = pl.col("variable").is_in(design.columns) | (pl.col("variable").is_in(names) & pl.col("code").is_null())
    return frame.filter(wanted).unique(maintain_order=True)


_PARENT = "\0parent"  # a column of the data may be called parent


def listed_paths(codes: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The paths of a dimension that a code list holds, as text; an area is found by its chain of parents."""
    paths = pl.DataFrame({"": [None]}, schema={"": pl.String})
    for column, above in zip(columns, ["", *columns], strict=False):
        known = (
            codes.filter(pl.col("variable") == column)
            .drop_nulls("code")
            .select(pl.col("code").alias(column), pl.col("parent").alias(_PARENT))
        )
        if above:
            paths = paths.join(known, left_on=above, right_on=_PARENT, how="inner")
        else:
            paths = paths.join(known.drop(_PARENT), how="cross")
    return paths.select(columns)
