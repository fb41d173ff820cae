"""Summing parts: neither the way to a table nor the way of adding up equal cells changes a number."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ilba.cells.codes import CellIndex, Place
from ilba.design.tables import selections
from ilba.tables import rollup
from ilba.tables.rollup import Sums, released, roll_up
from support.stores import stores

PARTS = ["sum_large", "n_small", "n_at_threshold", "sum_small", "observed"]


def test_sums_are_the_same_whichever_way_they_are_added(finest, monkeypatch):
    """Runs, places, sorting and hashing are four ways to one result; small chunks add a second round."""
    wanted = [finest.codes.cell_index(s) for s in selections(finest.design)]
    reference = [roll_up(finest.codes, finest._source, cell_index) for cell_index in wanted]

    def same(a: Sums, b: Sums) -> bool:
        arrays = zip((*a.packed, *a.parts, a.observed), (*b.packed, *b.parts, b.observed), strict=True)
        return all((x == y).all() and len(x) == len(y) for x, y in arrays)

    by_hash = [rollup._by_hash(r.packed, [*r.parts, r.observed]) for r in reference]
    for r, (packed, sums) in zip(reference, by_hash, strict=True):
        assert same(r, Sums(r.cell_index, packed, type(r.parts)(*sums[:4]), sums[4]))
    with monkeypatch.context() as patch:
        patch.setattr(rollup, "_by_place", lambda grid, cells, values: rollup._by_hash([cells], list(values)))
        assert all(same(r, roll_up(finest.codes, finest._source, r.cell_index)) for r in reference)
    with monkeypatch.context() as patch:
        patch.setattr(rollup, "_EXACT", 0)  # never by place, always by sorting
        assert all(same(r, roll_up(finest.codes, finest._source, r.cell_index)) for r in reference)
    with monkeypatch.context() as patch:
        patch.setattr(rollup, "_CHUNK", 50)
        assert all(same(r, roll_up(finest.codes, finest._source, r.cell_index)) for r in reference)


def test_any_finer_table_is_a_source(finest):
    packings = {s: finest.codes.cell_index(s) for s in selections(finest.design)}
    sums = {s: roll_up(finest.codes, finest._source, p) for s, p in packings.items()}
    tried = 0
    for fine, coarse in itertools.permutations(packings, 2):
        if set(coarse.columns) <= set(fine.columns):
            again = roll_up(finest.codes, sums[fine], packings[coarse])
            assert (again.parts.sum_small == sums[coarse].parts.sum_small).all()
            assert (again.observed == sums[coarse].observed).all()
            tried += 1
    assert tried > 200


@pytest.mark.long
@settings(max_examples=20)
@given(stores(), st.data())
def test_the_sums_of_a_table_are_those_of_its_finest_cells_grouped_by_their_labels(made, data):
    finest, _ = made
    table = data.draw(st.sampled_from(selections(finest.design)))
    K = finest.design.threshold
    small = pl.col("N") <= K
    cells = finest.frame.select(
        *table.columns,
        sum_large=pl.when(small).then(0).otherwise("N"),
        n_small=small.cast(pl.Int64),
        n_at_threshold=(small & (pl.col("N_masked") == K)).cast(pl.Int64),
        sum_small=pl.when(small).then("N").otherwise(0),
        observed=pl.lit(1, pl.Int64),
    )
    if table.columns:
        expected = cells.group_by(table.columns).agg(pl.col(PARTS).sum()).sort(table.columns)
    else:
        expected = cells.select(pl.col(PARTS).sum())
    sums = roll_up(finest.codes, finest._source, finest.codes.cell_index(table))
    values = [pl.Series(name, part) for name, part in zip(PARTS, [*sums.parts, sums.observed], strict=True)]
    assert pl.DataFrame([*finest.codes.labels(sums.cell_index, sums.packed), *values]).equals(expected)
    plain, _ = released(finest.codes, sums, plain=True)
    assert plain.sum() == finest.frame["N_masked"].sum()


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 2**40)), min_size=1), st.sampled_from([9, 2**40]))
def test_equal_cells_are_added_up_exactly_and_come_out_sorted(rows, size):
    cells, values = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    once = np.ones_like(values)  # the last column counts the cells, so none of it is 0
    index = CellIndex([Place(0, 1, size)])
    expected = {cell: sum(value for other, value in rows if other == cell) for cell in sorted(set(cells.tolist()))}
    for cut in (cells, np.sort(cells)):
        order = np.argsort(cells, kind="stable") if cut is not cells else np.arange(len(cells))
        (found,), (total, times) = rollup.added_up(index, [cut], [values[order], once])
        assert dict(zip(found.tolist(), total.tolist(), strict=True)) == expected
        assert list(expected) == found.tolist()
        assert times.sum() == len(rows)
    (high, low), (total, _) = rollup.added_up(index, [cells // 3, cells % 3], [values, once])
    assert dict(zip((high * 3 + low).tolist(), total.tolist(), strict=True)) == expected
