"""Cell keys: the sum of the random keys of the people in a cell decides how its count is moved.

The same people give the same count in every table. There are two versions: the ONS adds whole numbers modulo 256,
European offices add numbers in [0, 1). Here both are whole numbers modulo the number of keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.design.recordkeys import KEY_RANGE, fill, hundredths, narrow
from ilba.errors import InputError, listing, nearest, suggesting
from ilba.methods.masking import whole_numbers
from ilba.methods.moves import perturbation
from ilba.methods.ptables import read_ptable
from ilba.methods.tabulation import polars_frame, tabulate

IntArray: TypeAlias = npt.NDArray[np.int64]


def _names(value: Any) -> list[str]:
    if value is None or (isinstance(value, str) and not value):
        return []
    return [value] if isinstance(value, str) else [str(name) for name in value]


def _check_columns(frame: pl.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise InputError(
                f"there is no column {name!r}.{nearest(name, frame.columns)} It has {listing(frame.columns)}."
            )


def whole_keys(values: Any, parts: int) -> IntArray:
    """Record keys as whole numbers below `parts`: unchanged, or scaled if they lie in [0, 1)."""
    given = np.asarray(values)
    if given.dtype.kind not in "iuf" or (given.dtype.kind == "f" and not np.isfinite(given).all()):
        raise InputError("the record keys are not all numbers. Give each record a key.")
    if given.dtype.kind == "f" and given.size and not (given == np.rint(given)).all():
        if given.min() < 0 or given.max() > 1:
            raise InputError("record keys that are not whole numbers have to lie in [0, 1].")
        low, high, size = hundredths(given.min(), given.max())
        if not fill(size, len(given), low, high):
            raise InputError(
                "the record keys are not spread over 0 to 1: small counts would all change in one direction. If yours "
                "have another range, divide them by its size. If it has fewer than 100 numbers, draw new keys."
            )
        keys: IntArray = np.rint(given * parts).astype(np.int64) % parts
        return keys
    whole = whole_numbers("record_key", given)
    most = whole.max(initial=0)
    if parts == KEY_RANGE and 0 < most < parts and not fill(parts, len(whole), whole.min(), most):
        raise InputError(
            f"record keys from 0 to {most} would change all counts in one direction: this p-table is for keys "
            f"in [0, 1). Divide them by their number, such as 256, or give a p-table with pcv, ckey and pvalue."
        )
    kept: IntArray = whole % parts
    if kept.size and narrow(parts, len(kept), kept.min(), kept.max()):
        raise InputError(
            f"the record keys are not spread over 0 to {parts - 1:,}: small counts would all change in one direction. "
            f"Draw random keys over this range, or from 0 to 1."
        )
    return kept


@suggesting
def create_perturbed_table(
    data: Any,
    ptable: Any,
    geog: str | Sequence[str] | None = None,
    tab_vars: str | Sequence[str] | None = None,
    record_key: str = "record_key",
    threshold: int = 10,
) -> pl.DataFrame:
    """Count records and perturb the counts by cell keys, as the ONS function of this name does.

    All combinations of the values in the columns are listed, including empty cells.

    Parameters
    ----------
    data : frame
        One row per record.
    ptable : frame or path
        The p-table in the layout of the ONS: pcv, ckey, pvalue.
    geog : str or sequence of str, optional
        The column of the area.
    tab_vars : str or sequence of str, optional
        The columns to tabulate.
    record_key : str, default "record_key"
        The column with the key of each record, a whole number.
    threshold : int, default 10
        Counts below it after perturbation are null. 0 keeps all counts.

    Returns
    -------
    polars.DataFrame
        The labels, pre_sdc_count, ckey, pcv, pvalue and count. Confidential: only labels and count may be published.

    Raises
    ------
    InputError
        A column is missing, or the p-table has another layout.

    Examples
    --------
    >>> moves = pl.DataFrame({"pcv": [1, 1, 2, 2], "ckey": [0, 1, 0, 1], "pvalue": [-1, 1, 0, 1]})
    >>> people = pl.DataFrame({"sex": ["f", "f", "m"], "record_key": [0, 1, 0]})
    >>> create_perturbed_table(people, moves, None, "sex", "record_key", 0)["count"].to_list()
    [3, 0]
    """
    frame = polars_frame(data)
    names = [*_names(geog), *_names(tab_vars)]
    if not names:
        raise InputError("give geog= or tab_vars=: the columns of the table.")
    _check_columns(frame, [*names, record_key])
    table = read_ptable(ptable)
    keyed = frame.select(*names, pl.Series(record_key, whole_keys(frame[record_key].to_numpy(), table.parts)))
    counted = keyed.group_by(names).agg(pre_sdc_count=pl.len().cast(pl.Int64), ckey=pl.col(record_key).sum())
    grid = frame.select(pl.col(names[0]).unique().sort())
    for name in names[1:]:
        grid = grid.join(frame.select(pl.col(name).unique().sort()), how="cross")
    cells = grid.join(counted, on=names, how="left", nulls_equal=True, maintain_order="left").with_columns(
        pl.col("pre_sdc_count", "ckey").fill_null(0)
    )
    count = cells["pre_sdc_count"].to_numpy()
    key = cells["ckey"].to_numpy() % table.parts
    change = table.changes(count, key)
    shown = count + change
    return cells.with_columns(
        ckey=pl.Series(key),
        pcv=pl.Series(table.row(count)),
        pvalue=pl.Series(change),
        count=pl.Series(shown).set(pl.Series(shown < threshold), None) if threshold > 0 else pl.Series(shown),
    )


@suggesting
def cell_key_table(
    data: Any, ptable: Any, tables: Any, record_key: str = "record_key", *, closed: str = "left"
) -> pl.DataFrame:
    """Count records in tables with their margins and perturb the counts by cell keys, as European offices do.

    Margins and totals are separate cells, so the result does not add up.

    Parameters
    ----------
    data : frame
        One row per record.
    ptable : frame or path
        The p-table: i, j and p or upper, as `ptable` makes it; or one in the layout of the ONS.
    tables : str or list
        What is counted, as in `small_count_rounding`: "region*sex" or a list of tables, each with its margins.
    record_key : str, default "record_key"
        The column with the key of each record, from 0 to 1.
    closed : {"left", "right"}, default "left"
        Where a key on a bound belongs: to the interval above it ("left"), or to the one below ("right", as in the
        Handbook).

    Returns
    -------
    polars.DataFrame
        The labels, uwc (count), ckey, pert and puwc (perturbed count). Only labels and puwc may be published.

    Raises
    ------
    InputError
        A column is missing, or the p-table has another layout.

    Examples
    --------
    >>> moves = pl.DataFrame({"i": [0, 1, 1], "j": [0, 0, 2], "p": [1.0, 0.5, 0.5]})
    >>> people = pl.DataFrame({"sex": ["f", "m", "m"], "record_key": [0.75, 0.5, 0.25]})
    >>> cell_key_table(people, moves, "sex")["puwc"].to_list()
    [4, 2, 3]
    """
    frame = polars_frame(data)
    _check_columns(frame, [record_key])
    table = read_ptable(ptable, closed=closed)
    columns = [name for name in frame.columns if name != record_key]
    keys = pl.Series("_key", whole_keys(frame[record_key].to_numpy(), table.parts))
    grouped = frame.with_columns(keys).group_by(columns, maintain_order=True)
    counted = grouped.agg(_count=pl.len().cast(pl.Int64), _key=pl.col("_key").sum())
    cells = tabulate(counted.drop("_key"), tables, "_count", complete=True)
    count, key = cells.published, cells.sums(counted["_key"].to_numpy() % table.parts) % table.parts
    change = perturbation(count, key, table)
    return cells.labels.with_columns(
        uwc=pl.Series(count),
        ckey=pl.Series(key / table.parts),
        pert=pl.Series(change),
        puwc=pl.Series(count + change),
    )
