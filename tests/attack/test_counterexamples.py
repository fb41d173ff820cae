"""Certificates and witnesses: another world with the same release shows that a cell is not given away."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, PublishedTables
from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import Worlds, ends
from ilba.attack.intervals import Intervals, at, open_cells
from ilba.design.tables import wanted_tables
from ilba.methods import masking
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
    return published, known, at(published.base.packed, published.base.truth.sum_small, known.packed)


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file"])
def test_every_world_that_is_walked_through_leads_to_the_same_release(secret, cells, method):
    finest = ilba.build(population(700), HKEY, KEY, secret=secret, cells=cells)
    published, known, counts = _started(finest, method)
    K = finest.design.threshold
    worlds = Worlds(known, counts)
    targets = np.flatnonzero((counts > 0) & (counts < K))
    for seed in range(3):
        worlds.round(targets, 100, seed)
    assert (worlds.counts != counts).sum() > 10
    index = finest.codes.cell_index(finest.design.finest)
    labels = pl.DataFrame(finest.codes.labels(index, [known.packed])).with_columns(world=pl.Series(worlds.counts))
    masked = pl.when(pl.col("N_masked").is_null()).then(0).otherwise(pl.col("N_masked"))
    # A cell that became empty keeps its labels in the code lists, through its row with N = 0.
    frame = finest.frame.join(labels, on=[*HKEY, *KEY], how="full", coalesce=True).select(
        *HKEY, *KEY, N=pl.coalesce("world", "N"), N_masked=masked
    )
    other = FinestTable.from_counts(frame, HKEY, KEY, K, cells=cells)
    again = PublishedTables.of(other, method)
    for node, rows in published.tables.items():
        areas = published.codes.lists[0].size(node[0])
        assert (
            again.dense(node, 0, areas, again.tables[node].value) == published.dense(node, 0, areas, rows.value)
        ).all()


def test_a_world_that_does_not_fit_is_refused(secret):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret, cells="grid")
    _, known, counts = _started(finest, "ilba")
    assert known.fits(counts)
    assert not known.fits(np.where(counts == counts.max(), known.high + 1, counts))
    with pytest.raises(AssertionError, match="mistake in ilba"):
        Worlds(known, known.high + 1)


@pytest.mark.parametrize("K", [3, 5, 10])
def test_the_compiled_preimage_is_the_one_of_the_paper(K):
    n, at_k = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
    inside = at_k <= n
    for released in range(4 * K + 5):
        low, high = masking.preimage(np.full_like(n, released), n, at_k, K)
        for i, j in np.argwhere(inside):
            assert ends(released, int(i), int(j), K) == (low[i, j], high[i, j]), (released, i, j)


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_a_search_in_parts_certifies_no_more_than_the_whole_and_something(secret, cells, monkeypatch):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret, cells=cells)
    whole = ilba.audit(finest, explanations=0)
    monkeypatch.setattr("ilba.attack.deciding.MOST_OPEN", 30 * len(whole.published.tables))
    parts = ilba.audit(finest, explanations=0)
    assert 0 < parts.cells_certified <= whole.cells_certified
