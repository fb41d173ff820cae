"""Groups that are shown with a single value: attribute disclosure about people whose count need not be small.

A table with the columns G and a shows the distribution of a in each group of G. A group is shown with one value when
only one value of a is above 0. The expected share of that value comes from the rest of the region, or from the country
where the region is too small. A group is counted when the value is neither a matter of course nor likely by chance.
Confidential: the report also counts whether the group truly has one value.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from ilba.attack.lattice import Array, Node, table_of
from ilba.attack.published import PublishedTables

EXPECTED = 0.8
"""a value is a matter of course if a larger share of the rest of the region has it"""
CHANCE = 0.05
"""a group counts only if it would show one value by chance with a smaller probability"""
MOST_CELLS = 5_000_000
"""tables with a larger grid are left out, and the report says so"""


def groups(view: PublishedTables) -> tuple[pl.DataFrame, list[str]]:
    """Measure every variable of every released table.

    Parameters
    ----------
    view : PublishedTables
        Released tables, made from a store so that the truth is known.

    Returns
    -------
    tuple of polars.DataFrame and list of str
        A row for each table and variable, the largest gain first; and the tables that were too large.
    """
    rows: list[dict[str, Any]] = []
    left_out = []
    for node, published in view.tables.items():
        name = table_of(view.design, node).name
        if node[0] == 0 or published.truth is None or sum(level > 0 for level in node[1:]) == 0:
            continue
        areas = view.codes.lists[0].size(node[0])
        if view.lattice.width(node) * areas > MOST_CELLS:
            left_out.append(name)
            continue
        shown = view.dense(node, 0, areas, published.value)
        true = view.dense(node, 0, areas, published.truth.sum_small + published.truth.sum_large)
        for dimension, level in enumerate(node[1:]):
            if level:
                variable = view.codes.lists[dimension + 1].columns[level - 1]
                rows.append({"table": name, "variable": variable, **_measured(view, node, shown, true, dimension)})
    frame = pl.DataFrame(rows, schema=_SCHEMA)
    return frame.sort("gain", descending=True), left_out


_SCHEMA = {
    "table": pl.String, "variable": pl.String, "shown_groups": pl.Int64, "shown_people": pl.Int64,
    "groups": pl.Int64, "people": pl.Int64, "pure": pl.Float64, "accuracy": pl.Float64, "expected": pl.Float64,
    "gain": pl.Float64, "coalition_1": pl.Int64, "coalition_2": pl.Int64,
}  # fmt: skip


def _measured(view: PublishedTables, node: Node, shown: Array, true: Array, axis: int) -> dict[str, Any]:
    """Measure one variable of one table."""
    K, level = view.K, node[0]
    shown, true = np.moveaxis(shown, axis, 0), np.moveaxis(true, axis, 0)  # values x groups, areas last
    parents = view.codes.lists[0].parents(level, level - 1)
    starts = np.flatnonzero(np.diff(parents, prepend=-1))
    region = np.take(np.add.reduceat(shown, starts, axis=-1), parents, axis=-1) - shown
    country = shown.sum(axis=-1, keepdims=True) - shown
    rest = np.where(region.sum(axis=0) >= 4 * K, region, country)
    compared = rest.sum(axis=0) > 0  # there are other people to compare with
    one = (shown > 0).sum(axis=0) == 1
    top = shown.argmax(axis=0)[None]
    # From here on only the groups that are shown with one value, as flat arrays.
    said, people = shown.sum(axis=0)[one], true.sum(axis=0)[one]
    have = np.take_along_axis(true, top, axis=0)[0][one]
    share = (np.take_along_axis(rest, top, axis=0)[0] + 0.5) / (rest + 0.5).sum(axis=0)
    expected = share[one]
    surprising = (expected < EXPECTED) & compared[one]
    counted = surprising & (expected ** np.maximum(said, 1) < CHANCE)
    others = people - have
    in_counted = int(people[counted].sum())
    return {
        "shown_groups": int(one.sum()),
        "shown_people": int(people.sum()),
        "groups": int(counted.sum()),
        "people": in_counted,
        "pure": float(((others == 0) & (people > 0))[counted].mean()) if counted.any() else None,
        "accuracy": float(have[counted].sum() / in_counted) if in_counted else None,
        "expected": float((expected * people)[counted].sum() / in_counted) if in_counted else None,
        "gain": float((have - expected * people)[counted].sum()),
        "coalition_1": int((surprising & (others == 1) & (have > 0)).sum()),
        "coalition_2": int((surprising & (others > 0) & (others <= 2) & (have > 0)).sum()),
    }
