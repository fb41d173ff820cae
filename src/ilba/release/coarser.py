"""A coarser design, published as sums of the masks of a finer one.

Examples are age bands, fewer keys, or women only: each cell of the coarser table is a set of cells of the finer one.
Its count is published as the sum of their masked counts, so it shows nothing that the finer tables do not show.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.data.microdata import Microdata
from ilba.design.design import COUNT, MASKED
from ilba.errors import InputError, listing, nearest, some
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store

Path_: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Finer:
    """The finer table from which a coarser one is summed.

    Parameters
    ----------
    table
        The finer finest table.
    regroup
        For a column, the coarser label of each finer one: a mapping, or a csv file with two columns.
    where
        For a column of the finer table, the labels to count: a filter.
    rename
        For a column of the coarser table, its name in the finer one.
    """

    table: FinestTable
    regroup: Mapping[str, Any] = field(default_factory=dict)
    where: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    rename: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        table: FinestTable | Path_ | None,
        regroup: Mapping[str, Any] | None,
        where: Mapping[str, Any] | None,
        rename: Mapping[str, str] | None,
    ) -> Finer | None:
        """Check the arguments; None if no finer table is given."""
        if table is None:
            if regroup or where or rename:
                raise InputError("regroup, where and rename go with from_ledger, the finer store.")
            return None
        opened = table if isinstance(table, FinestTable) else open_store(table)
        known = opened.design.columns
        for argument, given in (("where", where), ("rename", dict.fromkeys((rename or {}).values(), ""))):
            for column in given or {}:
                if column not in known:
                    raise InputError(
                        f"{argument} names {column!r}, which the finer store does not have.{nearest(column, known)}"
                    )
        lists = {
            column: [values] if isinstance(values, str | int) else list(values)
            for column, values in (where or {}).items()
        }
        maps = {column: label_map(column, given) for column, given in (regroup or {}).items()}
        return cls(opened, maps, lists, dict(rename or {}))


def sums_of(coarse: FinestTable, finer: Finer, masked: FinestTable) -> FinestTable:
    """The coarser table whose counts are the sums of the finer masked counts.

    `masked` is the finer table with its published masks.
    """
    columns = list(coarse.design.columns)
    source = {column: finer.rename.get(column, column) for column in columns}
    known = masked.design.columns
    absent = [column for column in columns if source[column] not in known]
    if absent:
        raise InputError(
            f"the finer store has no column {listing(absent)}. It has {listing(known)}; rename= (--rename) says what a "
            f"column is called there."
        )
    rows = masked.frame.with_columns(pl.col(column).cast(pl.String) for column in known)
    for column, values in finer.where.items():
        rows = rows.filter(pl.col(column).is_in([str(value) for value in values]))
    labels = [_regrouped(rows[source[column]], column, finer.regroup.get(column)) for column in columns]
    rows = pl.DataFrame([*labels, rows[COUNT], rows[MASKED]])
    sums = rows.group_by(columns).agg(pl.col(COUNT).sum(), pl.col(MASKED).sum())
    here = coarse.frame.select(*(pl.col(column).cast(pl.String) for column in columns), COUNT)
    joined = here.join(sums, on=columns, how="left", nulls_equal=True, maintain_order="left", suffix="_finer")
    differ = joined.height - int((joined[COUNT] == joined[f"{COUNT}_finer"]).sum())
    if differ or sums.height != here.height:
        raise InputError(_why(here, sums, columns, max(differ, abs(sums.height - here.height))))
    return coarse.with_counts(joined[MASKED].to_numpy(), masked.chosen)


def _why(here: pl.DataFrame, sums: pl.DataFrame, columns: Sequence[str], differ: int) -> str:
    """Why the finer table does not give the coarser one: missing labels, or different people."""
    other = [column for column in columns if set(here[column]) != set(sums[column])]
    text = f"the finer store does not give the counts of this one ({some(differ, 'cell')} differ). "
    if other:
        return (
            text
            + f"The labels of {listing(other)} differ: regroup= (--regroup) says which finer label belongs to which."
        )
    return text + "It counts other people or another time; if a filter was used, give it with where= (--where)."


def _regrouped(column: pl.Series, name: str, mapping: Mapping[str, str] | None) -> pl.Series:
    if mapping is None:
        return column.rename(name)
    missing = [code for code in column.unique().to_list() if code is not None and code not in mapping]
    if missing:
        raise InputError(f"regroup does not say where the codes {listing(sorted(missing), 6)} of {name!r} belong.")
    return column.replace_strict(mapping, default=None, return_dtype=pl.String).rename(name)


def label_map(column: str, given: Any) -> dict[str, str]:
    """The coarser label of each finer one, from a mapping or a csv file with two columns."""
    if isinstance(given, Mapping):
        return {str(fine): str(coarse) for fine, coarse in given.items()}
    if isinstance(given, str | os.PathLike):
        source = Microdata.open(Path(given))
        if len(source.columns) != 2:
            raise InputError(
                f"{os.fspath(given)!r} has {some(len(source.columns), 'column')}; regroup= takes a file with two."
            )
        frame = source.read(list(source.columns)).cast(pl.String)
        return dict(zip(frame.to_series(0).to_list(), frame.to_series(1).to_list(), strict=True))
    raise InputError(f"regroup[{column!r}] is a {type(given).__name__}; give a mapping or the path of a csv file.")
