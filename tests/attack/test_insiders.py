"""Insiders on toys: every place of the missing people is tried, and what is proven holds in each."""

from __future__ import annotations

import numpy as np
import pytest

from ilba import PublishedTables
from ilba.attack.attackers import Known, everything_but_one, everything_but_some, insider_beliefs
from ilba.attack.insiders import everybody_but
from ilba.attack.intervals import at
from ilba.design.tables import wanted_tables
from support.stores import toy as counted
from support.worlds import Toy


@pytest.fixture(scope="module")
def toys():
    """Toys, all truths that fit them, what everybody knows of their release, and the true counts of its cells."""
    found = []
    for seed in range(50):
        toy = Toy(seed, with_finest=True)
        if toy.K ** int((toy.t <= toy.K).sum()) > 20_000:
            continue
        published = PublishedTables.of(toy.finest, "ilba", wanted_tables(toy.finest.design, toy.tables))
        known, rows = Known.of(published), published.base
        counts = at(rows.packed, rows.truth.sum_small + rows.truth.sum_large, known.packed)
        assert (counts == toy.x[known.packed]).all()
        found.append((toy, toy.worlds(), known, counts))
    return found


def _left(toy, worlds, missing):
    """The worlds of an insider who lacks these people: the others stay where they are, and nobody is new."""
    return worlds[(worlds >= toy.x - missing).all(1) & (worlds.sum(1) == toy.x.sum())]


def _of(toy, cell):
    return np.where(np.arange(len(toy.x)) == cell, toy.x, 0)


@pytest.mark.long
def test_an_insider_who_lacks_one_person_proves_exactly_what_trying_every_place_proves(toys):
    seen = {0: 0, 1: 0}
    for toy, worlds, known, counts in toys:
        (packed, own, low, high), certified = everybody_but(known, counts, 1)
        assert packed.tolist() == np.flatnonzero(toy.x == 1).tolist()
        assert (own == 1).all()
        for place, cell in enumerate(packed.tolist()):
            values = _left(toy, worlds, _of(toy, cell))[:, cell]
            assert (low[place], high[place]) == (values.min(), values.max()), (toy.x, toy.t, cell)
            assert certified[place] == (values.min() == 0)
            seen[int(values.min())] += 1
    assert min(seen.values()) >= 10


@pytest.mark.long
def test_a_person_whom_two_crossing_sums_hold_back_is_named():
    """Each town and each value has two people, shown as 5. One alone would be shown as 0."""
    x = [1, 0, 1, 1, 1, 0, 0, 1, 1]
    known = Known.of(PublishedTables.of(counted(x, [0] * 9, 5, "observed", areas=3), "ilba"))
    (packed, _, low, high), certified = everybody_but(known, np.array(x)[known.packed], 1)
    assert packed.tolist() == np.flatnonzero(x).tolist()
    assert low.tolist() == high.tolist() == [1] * 6
    assert not certified.any()


@pytest.mark.long
def test_people_who_all_fit_into_one_other_cell_certify_their_own(toys):
    seen = {True: 0, False: 0}
    for toy, worlds, known, counts in toys:
        (packed, own, _, _), certified = everybody_but(known, counts, toy.K - 1)
        assert packed.tolist() == np.flatnonzero((toy.x > 0) & (toy.x < toy.K)).tolist()
        for cell, people, said in zip(packed.tolist(), own.tolist(), certified.tolist(), strict=True):
            moved = _left(toy, worlds, _of(toy, cell))
            moved = moved[moved[:, cell] == 0]
            together = ((moved - toy.x).max(1) == people).any()
            assert said == together, (toy.x, toy.t, cell)
            seen[said] += 1
    assert min(seen.values()) >= 10


@pytest.mark.long
@pytest.mark.parametrize("whole_area", [False, True], ids=["the cell", "the whole area"])
def test_an_insider_who_lacks_several_people_proves_nothing_that_some_place_of_theirs_denies(toys, whole_area):
    proven = provable = loose = 0
    for toy, worlds, known, counts in toys:
        width = known.view.lattice.width(known.view.lattice.base)
        (packed, own, low, high), _ = everybody_but(known, counts, 10 * toy.K if whole_area else 2)
        for place, cell in enumerate(packed.tolist()):
            if not whole_area and own[place] != 2:
                continue  # somebody else is missing too
            area = np.arange(len(toy.x)) // width == cell // width
            missing = np.where(area & (toy.t <= toy.K), toy.x, 0) if whole_area else _of(toy, cell)
            values = _left(toy, worlds, missing)[:, cell]
            assert low[place] <= values.min() <= values.max() <= high[place], (toy.x, toy.t, cell)
            proven += bool(low[place] >= 1)
            provable += bool(values.min() >= 1)
            loose += int(high[place] - values.max())
    assert proven >= 0.8 * provable > 20
    assert loose <= 8


def test_an_insider_who_lacks_several_people_is_measured_on_as_many_cells_as_asked(toys):
    toy, _, known, counts = next(one for one in toys if (one[0].x == 1).sum() > 2)
    several, one = everybody_but(known, counts, 2, cells=2), everybody_but(known, counts, 1, cells=2)
    assert len(several.insight.packed) == 2
    assert (np.diff(several.insight.packed) > 0).all()
    assert len(one.insight.packed) == (toy.x == 1).sum()
    small = ((toy.x == 1) | (toy.x == 2)).sum()
    assert len(everybody_but(known, counts, 2).insight.packed) == small


def _but(toy, worlds, cells):
    """The worlds of an insider who knows every count except those of these cells."""
    known = np.delete(np.arange(len(toy.x)), cells)
    return worlds[(worlds[:, known] == toy.x[known]).all(1)]


def test_an_insider_who_lacks_one_cell_proves_exactly_what_trying_every_count_proves(toys):
    seen = {True: 0, False: 0}
    for toy, worlds, known, _ in toys:
        insight = everything_but_one(known.view)
        assert insight.packed.tolist() == np.flatnonzero((toy.x > 0) & (toy.x < toy.K)).tolist()
        assert insight.counts.tolist() == toy.x[insight.packed].tolist()
        for place, cell in enumerate(insight.packed.tolist()):
            values = _but(toy, worlds, [cell])[:, cell]
            provable = bool(values.min() >= 1 and values.max() < toy.K)
            assert 0 <= insight.low[place] <= values.min() <= values.max() <= insight.high[place]
            assert insight.proven(toy.K)[place] == provable, (toy.x, toy.t, cell)
            seen[provable] += 1
    assert min(seen.values()) >= 10


@pytest.mark.long
def test_an_insider_who_lacks_two_cells_of_an_area_proves_nothing_that_other_counts_of_theirs_deny(toys):
    proven = provable = 0
    for toy, worlds, known, _ in toys:
        width = known.view.lattice.width(known.view.lattice.base)
        small = np.flatnonzero((toy.x > 0) & (toy.x < toy.K))
        insight = everything_but_some(known.view, 2, cells=5)
        if np.bincount(small // width, minlength=1).max() < 2:
            assert not len(insight.packed)
            continue
        assert len(insight.packed) == 6
        assert set(insight.packed.tolist()) <= set(small.tolist())
        for pair in np.split(np.arange(6), 3):
            cells = insight.packed[pair]
            assert cells[0] // width == cells[1] // width
            values = _but(toy, worlds, cells)[:, cells]
            assert (insight.low[pair] <= values.min(0)).all()
            assert (values.max(0) <= insight.high[pair]).all()
            proven += int(insight.proven(toy.K)[pair].sum())
            provable += int(((values.min(0) >= 1) & (values.max(0) < toy.K)).sum())
    assert proven >= 0.5 * provable > 20


def _believed(x, masks, tables=None):
    """How likely each count 0..5 of the cells of two towns is to an insider who knows all others."""
    view = PublishedTables.of(counted(x, masks, 5, "grid", areas=2), "controlled")
    at_k = np.array(masks) // 5
    return insider_beliefs(view, (np.arange(len(x)), at_k, 4 + at_k), np.array(x), np.zeros((len(x), 6)), tables)


@pytest.mark.parametrize(("mask", "way"), [(0, -1), (5, 1)], ids=["masked to 0", "masked to K"])
def test_an_insider_believes_that_counts_lie_where_the_sums_of_masks_are(mask, way):
    """All cells hold 2 people, so sums of masks are all too low or all too high."""
    told, alone = (_believed([2] * 8, [mask] * 8, tables) @ np.arange(6) for tables in (None, []))
    assert (way * (told - alone) > 0).all()
    assert told == pytest.approx(told[0])


def test_an_insider_finds_the_counts_where_all_sums_of_masks_are_true():
    x = [1, 4, 4, 1, 4, 1, 1, 4]
    told = _believed(x, [0, 5, 5, 0, 5, 0, 0, 5])
    assert told.argmax(1).tolist() == x
    assert (told.max(1) > 0.9).all()
