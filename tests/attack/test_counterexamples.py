"""Certificates and counterexamples: another world with the same release shows that a cell is not given away."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, PublishedTables
from ilba.attack.counterexamples import _World
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


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file"])
def test_every_world_that_counterexamples_walk_through_leads_to_the_same_release(secret, cells, method):
    finest = ilba.build(population(700), HKEY, KEY, secret=secret, cells=cells)
    published = PublishedTables.of(finest, method)
    frame, K = finest.frame, finest.design.threshold
    small = (frame["N"] <= K).to_numpy()
    count = frame["N"].to_numpy().copy()
    world = _World(published, published.base.packed[small], count[small], frame["N_masked"].to_numpy()[small] == K)
    for seed in range(40):
        world.walk(np.random.default_rng(seed))
    assert (world.count != count[small]).sum() > 10
    count[small] = world.count
    # A cell that became empty keeps its labels in the code lists, through its row with N = 0.
    other = FinestTable.from_counts(frame.with_columns(N=pl.Series(count)), HKEY, KEY, K, cells=cells)
    again = PublishedTables.of(other, method)
    for node, rows in published.tables.items():
        areas = published.codes.lists[0].size(node[0])
        assert (
            again.dense(node, 0, areas, again.tables[node].value) == published.dense(node, 0, areas, rows.value)
        ).all()


def test_a_counterexample_for_what_is_proven_is_a_mistake_and_is_told(monkeypatch):
    monkeypatch.setattr(
        "ilba.attack.audit.with_counterexample", lambda published, proven: np.ones(len(proven), dtype=bool)
    )
    with pytest.raises(AssertionError, match="has a counterexample"):
        ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
    monkeypatch.setattr("ilba.attack.audit.with_counterexample", lambda published, proven: np.arange(len(proven)) == 0)
    with pytest.raises(AssertionError, match="has a counterexample"):
        ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
