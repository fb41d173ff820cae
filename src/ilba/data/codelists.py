"""The agency's code list: all codes and their labels.

A csv or json file, or a frame, of `variable, code, label_en, label_ko, parent`, and `label_fr` and so on for further
languages; a row without a code names the variable, or a hierarchy.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from ilba.cells.codes import CodeLists, canonical
from ilba.data.csvfiles import scan_csv
from ilba.data.letters import as_listed, form_of
from ilba.design.design import Design
from ilba.design.labels import label_text
from ilba.errors import InputError, listing

CODE_COLUMNS = ("variable", "code", "label_en", "label_ko", "parent")
LANGUAGE_TAG = "[a-z]{2,3}(?:-[A-Za-z0-9]{2,8})*"
"""a language as BCP 47 spells it, such as fr or pt-BR"""
_LABEL = re.compile(f"label_({LANGUAGE_TAG})")


def code_columns(given: Iterable[str]) -> list[str]:
    """The columns of a code list: the five, with the labels of further languages before the parent."""
    more = [column for column in given if _LABEL.fullmatch(column) and column not in CODE_COLUMNS]
    return [*CODE_COLUMNS[:-1], *more, CODE_COLUMNS[-1]]


def label_languages(codes: pl.DataFrame) -> list[str]:
    """The languages in which a code list has labels."""
    found = [column for column in codes.columns if _LABEL.fullmatch(column)]
    return [column.removeprefix("label_") for column in found if codes[column].null_count() < codes.height]


def read_labels(labels: Any, design: Design) -> pl.DataFrame:
    """A code list in its columns, with only the variables of a design; empty if there is none."""
    return no_code_list() if labels is None else of_design(read_list(labels, design), design)


def read_list(labels: Any, design: Design) -> pl.DataFrame:
    """A code list in its columns, as text, with all variables."""
    frame = _read(Path(labels)) if isinstance(labels, str | os.PathLike) else _given(labels)
    for column in ("variable", "code"):
        if column not in frame.columns:
            raise InputError(
                f"the code list has no column {column!r}. Its columns are {listing(CODE_COLUMNS)}; "
                f"label_en, label_ko and parent may be left out."
            )
    frame = frame.with_columns(pl.lit(None, pl.String).alias(c) for c in CODE_COLUMNS if c not in frame.columns)
    columns = code_columns(frame.columns)
    for column in columns:
        if frame.schema[column].is_nested():
            raise InputError(f"the code list has lists or objects in the column {column!r}. It must be text.")
    frame = frame.select(pl.col(columns).cast(pl.String))
    variables = pl.Series([*design.columns, *(hierarchy.name for hierarchy in design.hierarchies)])
    labels = (frame[f"label_{lang}"].str.normalize("NFC") for lang in label_languages(frame))
    return frame.with_columns(as_listed(frame["variable"], variables), *labels)


def of_design(frame: pl.DataFrame, design: Design) -> pl.DataFrame:
    """The rows of a code list that are about the variables of a design."""
    names = [hierarchy.name for hierarchy in design.hierarchies if hierarchy.name not in design.columns]
    wanted = pl.col("variable").is_in(design.columns) | (pl.col("variable").is_in(names) & pl.col("code").is_null())
    return frame.filter(wanted).unique(maintain_order=True)


def as_spelled(labels: pl.DataFrame, codes: CodeLists) -> pl.DataFrame:
    """A code list with the codes of each column in the form of Unicode of the data: masks belong to those labels."""
    for listed in codes.lists:
        for column, below in zip(listed.columns, [*listed.columns[1:], ""], strict=True):
            own = labels.filter(pl.col("variable") == column)["code"]
            if form := form_of(own, listed.labels[column].cast(pl.String)):
                labels = labels.with_columns(
                    pl.when(pl.col("variable") == variable)
                    .then(pl.col(name).str.normalize(form))
                    .otherwise(name)
                    .alias(name)
                    for variable, name in ((column, "code"), (below, "parent"))
                )
    return labels


def no_code_list() -> pl.DataFrame:
    """The five columns of a code list, without a code."""
    return pl.DataFrame(schema=dict.fromkeys(CODE_COLUMNS, pl.String))


def _read(file: Path) -> pl.DataFrame:
    """The columns of a csv or json file as text."""
    try:
        if file.suffix.lower() != ".json":
            return scan_csv([file])[0].collect()
        rows = json.loads(file.read_text("utf-8-sig"))
    except (OSError, ValueError, RecursionError, pl.exceptions.PolarsError) as problem:
        reason = f" {problem}" if isinstance(problem, InputError) else ""
        raise InputError(f"the code list {str(file)!r} cannot be read as csv or json.{reason}") from problem
    if isinstance(rows, dict):  # columns by their names
        return _given(rows)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(
            f"the code list {str(file)!r} is not a list of objects. Write it so: "
            f'[{{"variable": "sex", "code": "m", "label_en": "Male"}}].'
        )
    names = dict.fromkeys(name for row in rows for name in row)
    return _given({name: [row.get(name) for row in rows] for name in names})


def _given(columns: Any) -> pl.DataFrame:
    """A code list as a frame; mixed values in a column of codes become text."""
    if isinstance(columns, dict):
        ours = code_columns(columns)
        columns = {name: _texts(values) if name in ours else values for name, values in columns.items()}
    try:
        return pl.DataFrame(columns, strict=False)
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise InputError(
            f"the code list is not a table. Give a frame, or a csv or json file, of {listing(CODE_COLUMNS)}."
        ) from None


def _texts(values: Any) -> Any:
    plain = isinstance(values, list) and all(isinstance(one, str | int | float | None) for one in values)
    return [label_text(canonical(one)) for one in values] if plain else values


_PARENT = "\0parent"  # a column of the data may be called parent


def listed_paths(codes: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """The paths of a dimension in a code list, as text; an area is found by its chain of parents."""
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


def worded(frame: pl.DataFrame, codes: pl.DataFrame, columns: Sequence[str], lang: str = "en") -> pl.DataFrame:
    """A table with labels instead of codes and with names of variables; codes without labels stay."""
    if lang not in ("en", "ko"):
        raise InputError(f"lang={lang!r} is not known. It is 'en' or 'ko'.")
    other = "ko" if lang == "en" else "en"
    label = pl.coalesce(pl.col(f"label_{lang}"), pl.col(f"label_{other}"))
    names = dict(codes.filter(pl.col("code").is_null()).select("variable", label.alias("label")).rows())
    above = {column: columns[place - 1] for place, column in enumerate(columns) if place}
    found = []
    for column in columns:
        listed = codes.filter(pl.col("variable") == column).drop_nulls("code")
        known = listed.select(pl.col("code").alias(column), pl.col("parent").alias(_PARENT), label.alias("label"))
        texts = frame.select(pl.col(column).cast(pl.String))
        is_reused = known[column].n_unique() < known.height
        if is_reused and column in above:  # a code with several parents
            on = [column, _PARENT]
            texts = texts.with_columns(frame[above[column]].cast(pl.String).alias(_PARENT))
        else:
            on, known = [column], known.drop(_PARENT).unique(column, keep="first", maintain_order=True)
        joined = texts.join(known, on=on, how="left", nulls_equal=True, maintain_order="left")
        found.append(joined.select(pl.coalesce("label", column).alias(names.get(column) or column)).to_series())
    if len({column.name for column in found}) < len(found):
        found = [column.alias(name) for column, name in zip(found, columns, strict=True)]
    return pl.DataFrame([*found, *(frame[name] for name in frame.columns if name not in columns)])
