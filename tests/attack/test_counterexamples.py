"""Certificates and witnesses: another world with the same release shows that a cell is not given away."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, PublishedTables
from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import NOTHING, Conditions, Worlds
from ilba.attack.intervals import Intervals, at, open_cells
from ilba.attack.lattice import table_of
from ilba.attack.published import POLICIES
from ilba.attack.unmasked import open_parts, projected, sizes_of, stated
from ilba.design.tables import wanted_tables
from support.attacks import public_release
from support.people import HKEY, KEY, population
from support.stores import toy


@pytest.mark.parametrize("method", ["controlled", "sca-sums"])
def test_sums_of_the_masked_finest_table_are_certified(finest, method):
    report = ilba.audit(finest, method)
    assert report.certificate
    assert report.safe
    assert (report.cells_certified, report.cells_undecided) == (report.cells_small, 0)
    assert ilba.audit(finest, method, levels=[1], max_keys=1).cells_certified is not None


def test_sums_are_certified_from_public_tables_alone_whether_the_finest_is_among_them_or_not(finest):
    for names, misfits in ((["block.sex.age.job", "town.sex"], 0), (["town.sex", "region.age"], None)):
        frames = {}
        for selection in wanted_tables(finest.design, names):
            columns = list(selection.columns)
            sums = finest.frame.group_by(columns).agg(pl.col("N_masked").sum()).filter(pl.col("N_masked") > 0)
            frames[selection.name] = sums
        report = ilba.audit(PublishedTables.from_frames(finest.codes, frames, "controlled"))
        assert report.misfits == misfits
        assert report.certificate
        assert report.safe


def test_ilba_without_the_finest_table_has_no_certificate_from_public_tables_alone(finest):
    report = ilba.audit(PublishedTables.from_frames(finest.codes, public_release(finest, ["town.sex", "region.age"])))
    assert report.misfits is None
    assert not report.certificate


def test_ilba_is_certified_where_the_masked_table_is_a_possible_truth():
    finest = toy([3, 0, 0, 9], [5, 0, 0, 9], 5, "observed")
    report = ilba.audit(finest)
    assert report.certificate
    assert report.misfits == 0
    assert (report.cells_small, report.cells_certified) == (1, 1)
    other = ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
    assert not other.certificate
    assert other.misfits > 0


def _started(finest, method):
    """What everybody knows of a release, and the true counts of the open cells."""
    published = PublishedTables.of(finest, method)
    known = Intervals.of(published, open_cells(Attack(published).run()))
    counts = at(published.base.packed, published.base.truth.sum_small, known.packed)
    return published, known, counts, Worlds(Conditions.of(known), counts, known.at_k.astype(np.int64))


def _released_anew(finest, published, cells):
    """Whether a store with other counts and masks of these cells publishes the same tables."""
    design = finest.design
    index = finest.codes.cell_index(design.finest)
    labels = pl.DataFrame(finest.codes.labels(index, [cells[0]])).with_columns(
        world=pl.Series(cells[1]), mask=pl.Series(cells[2])
    )
    # A cell that became empty keeps its labels in the code lists, through its row with N = 0.
    frame = finest.frame.join(labels, on=list(design.columns), how="full", coalesce=True).select(
        *design.columns, N=pl.coalesce("world", "N"), N_masked=pl.coalesce("mask", "N_masked")
    )
    other = FinestTable.from_counts(frame, HKEY, KEY, design.threshold, cells=design.cells)
    wanted = [table_of(design, node) for node in published.tables]
    again = PublishedTables.of(other, published.policy.name, wanted)
    for node in published.tables:
        areas = published.codes.lists[0].size(node[0])
        shown = (one.dense(node, 0, areas, one.tables[node].value) for one in (again, published))
        if not np.array_equal(*shown):
            return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file"])
def test_every_world_that_is_walked_through_leads_to_the_same_release(secret, cells, method):
    finest = ilba.build(population(700), HKEY, KEY, secret=secret, cells=cells)
    published, known, counts, worlds = _started(finest, method)
    K = finest.design.threshold
    targets = np.flatnonzero((counts > 0) & (counts < K))
    sums = len(counts) + np.flatnonzero(known.beside >= 0)
    for seed in range(3):
        worlds.round(targets, 100, seed)
        worlds.round(sums, 100, seed)
    assert (worlds.counts != counts).sum() > 10
    assert worlds.safe[sums].any()
    assert _released_anew(finest, published, (known.packed, worlds.counts, np.where(known.at_k, K, 0)))


@pytest.mark.long
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_without_the_finest_table_every_world_has_masks_of_its_own(secret, cells):
    finest = ilba.build(population(700), HKEY, KEY, secret=secret, cells=cells)
    published = PublishedTables.of(finest, "ilba", wanted_tables(finest.design, "all", None, None, 2))
    (made,) = open_parts(published, open_cells(Attack(published).run()), 10**9)
    part = made()
    worlds = Worlds(part.conditions, part.counts, part.masks)
    K = finest.design.threshold
    small = np.flatnonzero((part.counts > 0) & (part.counts < K))
    for seed in range(3):
        worlds.round(small, 100, seed)
    assert worlds.safe[small].sum() > 10
    assert (worlds.masks != part.masks).any()
    assert (worlds.masks[worlds.counts == 0] == 0).all()
    assert (worlds.masks[worlds.counts == K] == 1).all()
    assert _released_anew(finest, published, (part.packed, worlds.counts, K * worlds.masks))


def test_a_world_that_does_not_fit_is_refused(secret):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret, cells="grid")
    _, known, counts, worlds = _started(finest, "ilba")
    assert known.fits(counts)
    assert not known.fits(np.where(counts == counts.max(), known.high + 1, counts))
    for wrong in (known.high + 1, known.low - 1, known.high):
        with pytest.raises(AssertionError, match="mistake in ilba"):
            Worlds(worlds.conditions, wrong, worlds.masks)


def test_a_mask_that_sca_could_not_have_drawn_is_refused(secret):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret, cells="grid")
    published = PublishedTables.of(finest, "ilba", wanted_tables(finest.design, ["region"]))
    (made,) = open_parts(published, open_cells(Attack(published).run()), 10**9)
    part = made()
    assert part.conditions.fits(part.counts, part.masks)
    for count in (0, finest.design.threshold):
        wrong = np.where(part.counts == count, 1 - part.masks, part.masks)
        assert (wrong != part.masks).any()
        assert not part.conditions.fits(part.counts, wrong)


def test_a_mask_that_no_released_number_forbids_must_still_be_one_that_sca_draws():
    nothing = np.zeros(1, np.int64)
    conditions = Conditions(
        5, np.zeros(3, np.int64), np.full(3, 5), np.array([True, True, False]), np.zeros((3, 1), np.int32),
        np.array([NOTHING], np.int8), nothing, nothing, nothing, nothing, nothing, nothing, np.ones(1, bool), True,
    )  # fmt: skip
    for count in range(6):
        allowed = [mask for mask in (0, 1) if conditions.fits(np.array([count, 2, 2]), np.array([mask, 0, 1]))]
        assert allowed == ([0] if count == 0 else [1] if count == 5 else [0, 1])
    assert conditions.fits(np.array([1, 1, 0]), np.array([0, 0, 1])), "the mask of the third cell is known"
    assert not conditions.fits(np.array([1, 1, 6]), np.array([0, 0, 1]))


@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_the_solver_is_asked_only_about_tables_whose_whole_rule_it_knows(cells):
    finest = toy([3, 0, 2, 9], [5, 0, 0, 9], 5, cells)
    known = {method: stated(PublishedTables.of(finest, method)) for method in POLICIES}
    assert [method for method, says in known.items() if says] == ["ilba"]


def test_the_size_of_a_cell_is_the_number_of_finest_cells_in_it(finest):
    published = PublishedTables.of(finest, "ilba")
    cells = np.arange(finest.codes.finest.grid)
    for node in published.lattice.nodes:
        of = projected(published, cells, node)
        numbers = np.arange(of.max() + 1)
        assert sizes_of(published, node, numbers).tolist() == np.bincount(of).tolist(), node


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_a_search_in_parts_certifies_no_more_than_the_whole_and_something(secret, cells, monkeypatch):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret, cells=cells)
    whole = ilba.audit(finest, explanations=0)
    monkeypatch.setattr("ilba.attack.deciding.MOST_OPEN", 30 * len(whole.published.tables))
    parts = ilba.audit(finest, explanations=0)
    assert 0 < parts.cells_certified <= whole.cells_certified
