"""The compiled attack proves what the array operations prove that are written down for explanations."""

from __future__ import annotations

import numpy as np
import pytest

import ilba
from ilba import PublishedTables
from ilba.attack.bounds import Attack
from ilba.design.tables import wanted_tables
from support.people import HKEY, KEY, population

pytestmark = pytest.mark.slow

AREAS = {"area": ["region", "town"], "work": ["job"]}
SOME = ["block.sex.age.job", "town.sex", "region.age", "town.job", "all"]
UPPER = ["town.sex", "town.job", "region.sex.age", "block"]


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file", "sca-aggregates"])
@pytest.mark.parametrize("names", ["all", SOME, UPPER], ids=["all", "some", "without the finest"])
def test_both_ways_prove_the_same(secret, cells, method, names):
    finest = ilba.build(population(500), HKEY, KEY, secret=secret, cells=cells)
    published = PublishedTables.of(finest, method, wanted_tables(finest.design, names))
    fast, slow = Attack(published).run(), Attack(published, record=True).run()
    for one, other in zip(fast.whole.kinds, slow.whole.kinds, strict=True):
        for node in other.low:
            assert np.array_equal(one.low[node], other.low[node]), node
            assert np.array_equal(one.high[node], other.high[node]), node


def test_two_hierarchies_prove_the_same_both_ways(secret):
    finest = ilba.build(population(500), AREAS, ["sex", "age"], secret=secret)
    published = PublishedTables.of(finest)
    fast, slow = Attack(published).run(), Attack(published, record=True).run()
    for node in slow.whole.kinds[0].low:
        assert np.array_equal(fast.whole.kinds[0].high[node], slow.whole.kinds[0].high[node]), node
        assert np.array_equal(fast.whole.kinds[0].low[node], slow.whole.kinds[0].low[node]), node


@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_areas_that_are_worked_on_at_the_same_time_prove_the_same(secret, cells, monkeypatch):
    finest = ilba.build(population(500), HKEY, KEY, secret=secret, cells=cells)
    published = PublishedTables.of(finest, "ilba", wanted_tables(finest.design, SOME))
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        found.append(Attack(published).run().whole.kinds)
    for one, other in zip(*found, strict=True):
        for node in other.low:
            assert np.array_equal(one.low[node], other.low[node]), node
            assert np.array_equal(one.high[node], other.high[node]), node


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file", "sca-aggregates", "sca-sums"])
@pytest.mark.parametrize("names", ["all", SOME, UPPER], ids=["all", "some", "without the finest"])
def test_rows_of_areas_prove_what_arrays_prove(secret, cells, method, names):
    finest = ilba.build(population(200), HKEY, KEY, secret=secret, cells=cells)
    published = PublishedTables.of(finest, method, wanted_tables(finest.design, names))
    small, large = Attack(published).run(), Attack(published, budget=100).run()
    assert len(large.chunks) > 2
    found = {}
    for block in large.blocks():
        for kind, bounds in enumerate(block.kinds):
            for node in block.own:
                for is_high, side in enumerate((bounds.low, bounds.high)):
                    found.setdefault((kind, node, is_high), []).append(side[node])
    for kind, bounds in enumerate(small.whole.kinds):
        for node in bounds.low:
            for is_high, side in enumerate((bounds.low, bounds.high)):
                assert np.array_equal(np.concatenate(found[kind, node, is_high], axis=-1), side[node]), node
    # What is counted is the same too, with the cells that hold a large one left out.
    for one in small.parts():
        for node in one.own:
            proven = [part.proven(node, published.K) for part in large.parts() if node in part.own]
            packed = np.concatenate([part.packed for part in proven])
            assert np.array_equal(np.sort(packed), np.sort(one.proven(node, published.K).packed))
            assert sum(part.occupied for part in proven) == one.proven(node, published.K).occupied
