"""Counted combinations, with or without masked counts: checked, and packed into cells."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.data.microdata import Counted, Microdata, Missing, check_missing, labelled
from ilba.design.design import COUNT, MASKED, Cells, Design, HKey, Names, Origins, hierarchies_of
from ilba.errors import InputError, notice, some
from ilba.methods import masking

IntArray: TypeAlias = npt.NDArray[np.int64]


def read_counts(
    frame: Any, hkey: HKey, key: Names | None, mask_thr: int, cells: Cells, missing: Missing
) -> tuple[Counted, Origins]:
    """The cells of a frame with a column N and perhaps N_masked: see `FinestTable.from_counts`."""
    check_missing(missing)
    source = Microdata.open(frame)
    if COUNT not in source.columns:
        raise InputError(f"the data has no column {COUNT!r}. Single records are counted by ilba.build.")
    areas = [column for hierarchy in hierarchies_of(hkey) for column in hierarchy.columns]
    rest = [column for column in source.columns if column not in (*areas, COUNT, MASKED)]
    design = Design.of(hkey, rest if key is None else key, mask_thr, cells)
    source.require(areas, "hkey")
    source.require(design.keys, "key")
    masks = [MASKED] if MASKED in source.columns else []
    rows = labelled(source.read([*design.columns, COUNT, *masks]), design.columns)
    rows = rows.with_columns(_whole_column(rows[name]) for name in (COUNT, *masks))
    whole = rows.drop_nulls(design.columns) if missing == "drop" else rows
    if whole.height < rows.height:
        notice(f"{some(rows.height - whole.height, 'row')} with a missing label left out.")
    seen = int((whole[COUNT] > 0).sum())
    if not seen:
        raise InputError("the data has no row with a count above 0. There is nothing to mask.")
    counted = Microdata.open(whole).count(
        design, missing="category", weight=COUNT, carry=MASKED if masks else None, keep_codes=True
    )
    origins = Origins("proposed" if key is None else "declared")
    if counted.carried is None:
        if len(counted.count) < seen:
            notice(
                f"{some(seen, 'row')} are added up into {some(len(counted.count), 'cell')}. {COUNT} has to be a "
                f"number of people: with survey weights one person would count as many, and not be masked."
            )
        return counted, origins
    if len(counted.count) < seen:
        raise InputError(
            f"two rows are for the same cell, each with its own {MASKED}. Name every column that distinguishes "
            f"cells in hkey or key, or drop {MASKED} to have the rows added up and masked anew."
        )
    _check_masks(whole[COUNT].to_numpy(), whole[MASKED].to_numpy(), design.threshold)
    return counted, origins


def _whole_column(column: pl.Series) -> pl.Series:
    """A column of counts, checked; text from a csv file is converted."""
    if column.dtype == pl.String:
        column = column.cast(pl.Int64, strict=False)
    if column.null_count() or not column.dtype.is_numeric():
        raise InputError(f"the column {column.name} holds something that is not a whole number, or is missing.")
    numbers = (column.cast(pl.Float64) if column.dtype.is_decimal() else column).to_numpy()
    if numbers.dtype.kind == "f" and np.isfinite(numbers).all() and (numbers % 1).any():
        raise InputError(
            f"the column {column.name} holds something that is not a whole number. Counts are numbers of people; "
            f"survey weights are not. Count the records with ilba.build, without their weights."
        )
    return pl.Series(column.name, masking.whole_numbers(f"the column {column.name}", numbers))


def _check_masks(count: IntArray, masked: IntArray, K: int) -> None:
    right = np.where((count >= K) | (count == 0), masked == count, (masked == 0) | (masked == K))
    if not right.all():
        raise InputError(
            f"{MASKED} does not fit {COUNT} with K={K} in {some(int((~right).sum()), 'row')}: a count below K becomes "
            f"0 or K, and a larger one stays. Give the mask_thr with which it was masked."
        )
