"""Intervals on the sums of open cells, and what an attacker brings, on tables of eight cells."""

from __future__ import annotations

import numpy as np
import pytest

from ilba import PublishedTables
from ilba.attack.bounds import Attack
from ilba.attack.field import MethodTables
from ilba.attack.intervals import AttackerView, Brought, ExactRows, Intervals, at, open_cells
from ilba.design.tables import wanted_tables
from ilba.methods.lab import method_of
from support.stores import toy

COUNTS = np.array([2, 9, 1, 0, 3, 5, 0, 4])
"""two towns by four values of x"""
MASKS = np.array([0, 9, 5, 0, 5, 5, 0, 0])
ABOVE = {(0, 0): lambda cell: 0 * cell, (0, 1): lambda cell: cell % 4, (1, 0): lambda cell: cell // 4}


def _published(method, reading="grid", counts=COUNTS, masks=MASKS, K=5):
    return PublishedTables.of(toy(counts, masks, K, reading, areas=2), method)


def _small(counts=COUNTS, masks=MASKS, settled=(), K=5):
    """The cells that may be small with what their masks say; the counts of some are settled."""
    packed = np.flatnonzero(masks <= K)
    low = np.where(np.isin(packed, settled), counts[packed], masks[packed] == K)
    return packed, low, np.where(np.isin(packed, settled), counts[packed], low + K - 1)


def _exact(node):
    """The true counts of a table."""
    total = np.bincount(ABOVE[node](np.arange(8)), COUNTS).astype(np.int64)
    return {node: ExactRows(np.flatnonzero(total), total[total > 0])}


@pytest.mark.long
@pytest.mark.parametrize("reading", ["grid", "observed"])
@pytest.mark.parametrize("method", ["ilba", "r-file", "r-rows", "sca-aggregates"])
def test_open_cells_have_the_intervals_of_their_tables_without_what_is_settled(method, reading):
    rng = np.random.default_rng(5)
    for K in (5, 6, 5, 6):
        counts = rng.integers(0, 9, 8)
        masks = np.where(counts < K, K * (K * rng.random(8) < counts), counts)
        settled = rng.permutation(8)[:3]
        published = _published(method, reading, counts, masks, K)
        known = Intervals.of(published, _small(counts, masks, settled, K))
        assert known.packed.tolist() == [cell for cell in range(8) if masks[cell] <= K and cell not in settled]
        assert known.at_k.tolist() == (masks[known.packed] == K).tolist()
        assert set(known.tables) == set(ABOVE)
        assert known.fits(counts[known.packed]) or method == "sca-aggregates"
        for number, node in enumerate(known.tables):
            above, begin, end = ABOVE[node], *known.first[number : number + 2]
            assert known.cell[known.member[:, number]].tolist() == above(known.packed).tolist()
            bounds = published.knowledge(node[0], 0, 2 if node[0] else 1)[node]
            low, high = (side.reshape(-1, side.shape[-1]).T.ravel() for side in (bounds.low, bounds.high))
            for place in range(begin, end):
                cells = np.flatnonzero(above(np.arange(8)) == known.cell[place])
                beside = sum(counts[cell] for cell in cells if cell in settled and masks[cell] <= K)
                assert known.least[place] == low[known.cell[place]] - beside
                assert known.most[place] == high[known.cell[place]] - beside
                assert known.beside[place] == (-1 if (masks[cells] > K).any() else beside)


def test_a_table_that_is_published_and_known_exactly_states_two_things():
    cells = _small(settled=[4])
    known = Intervals.of(AttackerView(_published("ilba"), Brought(_exact((1, 0)))), cells)
    assert known.tables == [(1, 0), (0, 1), (0, 0), (1, 0)]
    assert known.least[:2].tolist() == known.most[:2].tolist() == [3, 9]  # without the large cell and the settled one
    assert known.beside[:2].tolist() == [-1, -1]
    assert known.fits(COUNTS[known.packed])
    assert not known.fits(COUNTS[known.packed] - [1, 0, 0, 0, 0, 0])
    # Sums of masks say nothing by themselves, unless their errors are bounded.
    sums = _published("sca-sums")
    nothing = Intervals.of(sums, cells)
    assert (nothing.tables, nothing.member.shape, nothing.least.tolist()) == ([], (6, 0), [])
    assert Intervals.of(AttackerView(sums, Brought(_exact((1, 0)))), cells).tables == [(1, 0)]
    bounded = Intervals.of(AttackerView(sums, Brought(bound=6)), cells, [(0, 0)])
    assert (bounded.tables, bounded.least.tolist(), bounded.most.tolist()) == ([(0, 0)], [6], [18])


def test_what_an_attacker_brings_narrows_its_own_table_alone():
    sums = _published("sca-sums")
    plain, bounded = (one.knowledge(1, 0, 2) for one in (sums, AttackerView(sums, Brought(bound=2))))
    assert plain[(1, 0)].low.tolist() == [[1, 2]]
    # The masks of the small cells add up to 5 and 10.
    assert (bounded[(1, 0)].low.tolist(), bounded[(1, 0)].high.tolist()) == ([[3, 8]], [[7, 12]])
    assert bounded[(1, 1)].low.tolist() == plain[(1, 1)].low.tolist()
    ilba = _published("ilba")
    exact = AttackerView(ilba, Brought(_exact((1, 0)), bound=2)).knowledge(1, 0, 2)
    assert exact[(1, 0)].low.tolist() == exact[(1, 0)].high.tolist() == [[3, 12]]
    assert exact[(1, 1)].low.tolist() == ilba.knowledge(1, 0, 2)[(1, 1)].low.tolist()
    rounded = MethodTables.made_by(method_of("rounding:3"), toy(COUNTS, MASKS, 5, "grid", 2), _wanted(ilba))
    exact = AttackerView(rounded, Brought(_exact((1, 0)))).knowledge(1, 0, 2)
    assert exact[(1, 0)].low.tolist() == exact[(1, 0)].high.tolist() == [[12, 12]]


def _wanted(published):
    return wanted_tables(published.design)


def test_only_touched_cells_are_looked_at_where_nothing_from_elsewhere_says_more():
    def touched(level=1, published=None, **brought):
        return AttackerView(published or _published("ilba"), Brought(**brought)).touched(level, 0, 2) is not None

    assert touched()
    assert not touched(0)
    assert touched(exact=_exact((0, 1)))  # says nothing about towns
    assert not touched(exact=_exact((1, 0)))
    assert not touched(bound=2)
    finest = toy(COUNTS, MASKS, 5, "grid", 2)
    unpublished = PublishedTables.of(finest, "ilba", wanted_tables(finest.design, ["town.x", "all"]))
    assert touched(published=unpublished)
    assert not touched(published=unpublished, exact=_exact((1, 0)))
    assert not touched(published=MethodTables.made_by(method_of("rounding:3"), finest, _wanted(unpublished)))


def test_small_cells_that_may_hold_somebody_are_told_in_order_and_for_some_areas():
    attack = Attack(_published("sca-sums")).run()
    packed, low, high = open_cells(attack)
    assert (packed.tolist(), low.tolist(), high.tolist()) == tuple(one.tolist() for one in _small())
    assert [one.tolist() for one in open_cells(attack, [1])] == [
        one[packed >= 4].tolist() for one in (packed, low, high)
    ]
    assert [len(one) for one in open_cells(attack, [])] == [0, 0, 0]


def test_a_number_that_is_not_known_has_the_value_0():
    known, values = np.array([2, 5, 9]), np.array([7, 8, 4])
    assert at(known, values, np.array([9, 1, 2, 10, 5, 6])).tolist() == [4, 0, 7, 0, 8, 0]
    assert at(known[:0], values[:0], known).tolist() == [0, 0, 0]
