"""How likely each count is: priors by hand, messages and beliefs by trying every combination of counts."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from scipy.stats import nbinom, norm

from ilba import FinestTable, PublishedTables
from ilba.attack import posterior
from ilba.design.tables import wanted_tables
from support.stores import ZERO, toy


def _said(chance, places, least, most):
    """What a sum between two ends says about each of its cells, by trying all counts of the others."""
    K = chance.shape[1] - 1
    found = np.zeros((len(places), K + 1))
    for i, v in itertools.product(range(len(places)), range(K + 1)):
        others = [place for j, place in enumerate(places) if j != i]
        for counts in itertools.product(range(K + 1), repeat=len(others)):
            if least <= v + sum(counts) <= most:
                found[i, v] += np.prod([chance[place, count] for place, count in zip(others, counts, strict=True)])
    return found


def test_an_aggregate_tells_its_cells_what_trying_every_count_of_the_others_tells():
    rng = np.random.default_rng(3)
    K = 3
    chance = rng.dirichlet(np.ones(K + 1), 10)
    chance[:4, 1] = 0
    chance = chance / chance.sum(axis=1, keepdims=True)
    order = rng.permutation(10)
    starts = np.array([0, 4, 4, 5, 8, 10])  # the second aggregate has no cell
    for least, most in (([4, 9, 1, 2, -3], [6, 9, 2, 99, 4]), ([0, 9, 0, 9, 0], [1, 9, 3, 9, 0])):
        said = np.full((10, K + 1), -1.0)
        posterior._tell(chance, starts, order, np.array(least), np.array(most), K, said)
        for a, (low, high) in enumerate(zip(least, most, strict=True)):
            own = order[starts[a] : starts[a + 1]]
            assert said[own] == pytest.approx(_said(chance, own, low, high), abs=1e-12), (a, low, high)
            if len(own):  # compiled code would not notice a place outside of an array
                again = np.zeros_like(said)
                posterior._tell_exactly.py_func(chance, own, low, high, K, again)
                assert again[own] == pytest.approx(said[own])


def test_a_sum_of_more_than_sixteen_cells_is_taken_as_normal():
    rng = np.random.default_rng(4)
    K, n = 4, 17
    chance = rng.dirichlet(np.ones(K + 1), n + 1)
    chance[1] = np.eye(K + 1)[2]
    order, count = rng.permutation(n + 1), np.arange(K + 1)
    mean = chance @ count
    variance = chance @ count**2 - mean**2
    for least, most in ((30, 36), (0, 12), (60, 68), (33, 33)):
        said = np.full((n + 1, K + 1), -1.0)
        starts, ends = np.array([0, n, n + 1]), (np.array([least, 0]), np.array([most, K]))
        posterior._tell(chance, starts, order, *ends, K, said)
        own = order[:n]
        for cell in own:
            others = own[own != cell]
            middle, wide = mean[others].sum(), np.sqrt(variance[others].sum())
            upper, lower = (norm.cdf((end - count - middle) / wide) for end in (most + 0.5, least - 0.5))
            tails = norm.sf((least - 0.5 - count - middle) / wide) - norm.sf((most + 0.5 - count - middle) / wide)
            expected = np.where(least - 0.5 - count > middle, tails, upper - lower)
            assert said[cell] == pytest.approx(expected, rel=1e-9, abs=1e-300)
    exact = np.zeros((16, K + 1))
    posterior._tell(chance, np.array([0, 16]), np.arange(16), np.array([0]), np.array([0]), K, exact)
    first = [np.prod(np.delete(chance[:16, 0], i)) for i in range(16)]
    assert exact[:, 0] == pytest.approx(first, rel=1e-12)  # sixteen cells are few enough to be exact
    # Where the others are certain, their sum is still taken to spread a little.
    sure = np.tile(np.eye(K + 1)[1], (n, 1))
    said = np.zeros((n, K + 1))
    posterior._tell(sure, np.array([0, n]), np.arange(n), np.array([17]), np.array([17]), K, said)
    wide = np.sqrt(0.05)
    expected = norm.cdf((17.5 - 16 - count) / wide) - norm.cdf((16.5 - 16 - count) / wide)
    assert said[3, :3] == pytest.approx(expected[:3], rel=1e-6)


def test_the_prior_is_a_negative_binomial(monkeypatch):
    mean, r, K = np.array([1e-4, 0.3, 2.0, 40.0]), 1.7, 6
    count = np.arange(K + 1)
    expected = nbinom.logpmf(count, r, r / (r + mean[:, None]))
    assert posterior._negative_binomial(mean, r, K) == pytest.approx(expected)
    grid = np.array([[0, 3, 5], [1, 0, 2], [0, 0, 0], [4, 40, 400]])
    wanted = nbinom.logpmf(grid, r, r / (r + mean[:, None]))
    assert posterior.negative_binomial(mean, r, grid) == pytest.approx(wanted)
    none = posterior.negative_binomial(mean, r, np.zeros((4, 0), np.int64))
    assert none.shape == (4, 0)
    monkeypatch.setattr(posterior, "_TABLE", 40)  # beyond it the coefficient of the last count is taken
    short = posterior.negative_binomial(mean, r, grid)
    assert short[:, :2] == pytest.approx(wanted[:, :2])
    last = wanted[3, 1] - 40 * np.log(mean[3] / (r + mean[3])) + 400 * np.log(mean[3] / (r + mean[3]))
    assert short[3, 2] == pytest.approx(last)


def test_masks_are_read_as_draws_with_the_share_of_a_count():
    log = np.log(np.full((2, 5), 0.2))
    found = np.exp(posterior.with_masks(log, np.array([True, False]), 4))
    assert found == pytest.approx(0.2 * np.array([[0, 0.25, 0.5, 0.75, 1], [1, 0.75, 0.5, 0.25, 0]]))


def test_logarithms_become_chances_row_by_row():
    log = np.array([[-1000.0, -1000 + np.log(3), -np.inf], [np.log(2), np.log(2), 0.0], [-np.inf] * 3])
    found = posterior.normalised(log)
    assert found == pytest.approx(np.array([[0.25, 0.75, 0], [0.4, 0.4, 0.2], [0, 0, 0]]))
    assert posterior.normalised(np.zeros((2, 0))).shape == (2, 0)


def _sums(K, low, high, member, first, least, most):
    return SimpleNamespace(
        K=K, low=np.array(low), high=np.array(high), member=np.array(member, np.int32), first=np.array(first),
        least=np.array(least), most=np.array(most),
    )  # fmt: skip


def test_beliefs_settle_where_each_message_counts_half():
    """One table of two sums: what is left of a message after many rounds is its square root."""
    rng = np.random.default_rng(6)
    K = 3
    prior = rng.dirichlet(np.ones(K + 1), 4)
    known = _sums(K, [0, 1, 0, 0], [3, 3, 2, 3], [[0], [0], [1], [1]], [0, 2], [2, 4], [3, 4])
    count = np.arange(K + 1)
    own = np.where((count >= known.low[:, None]) & (count <= known.high[:, None]), prior, 0)
    own = own / own.sum(axis=1, keepdims=True)
    said = np.vstack([_said(own, [0, 1], 2, 3), _said(own, [2, 3], 4, 4)])
    expected = own * np.sqrt(said)
    steps = []
    found = posterior.beliefs(known, np.log(prior), steps.append)
    assert [(step.done, step.total) for step in steps] == [(done, 15) for done in range(1, 16)]
    assert found == pytest.approx(expected / expected.sum(axis=1, keepdims=True), abs=1e-4)
    once = own * np.maximum(said, 1e-12) ** 0.25  # one round goes half of the way
    assert posterior.beliefs(known, np.log(prior), rounds=1) == pytest.approx(
        once / once.sum(axis=1, keepdims=True), abs=1e-6
    )


def test_beliefs_hear_every_table_without_what_they_told_it():
    """Two tables over two cells each: every round by hand."""
    rng = np.random.default_rng(7)
    K = 2
    prior = rng.dirichlet(np.ones(K + 1), 4)
    member = [[0, 2], [0, 3], [1, 2], [1, 3]]
    known = _sums(K, [0] * 4, [2] * 4, member, [0, 2, 4], [1, 2, 2, 1], [2, 3, 2, 3])
    total, told = np.log(prior), [np.zeros((4, K + 1)), np.zeros((4, K + 1))]
    groups = [[[0, 1], [2, 3]], [[0, 2], [1, 3]]]
    for _ in range(3):
        for table in range(2):
            own = posterior.normalised(total - told[table])
            new = np.zeros((4, K + 1))
            for number, places in enumerate(groups[table]):
                a = 2 * table + number
                new[places] = _said(own, places, known.least[a], known.most[a])
            new = 0.5 * np.log(np.maximum(new, 1e-12))
            new = 0.5 * told[table] + 0.5 * (new - new.max(axis=1, keepdims=True))
            total = total + new - told[table]
            told[table] = new
    found = posterior.beliefs(known, np.log(prior), rounds=3)
    assert found == pytest.approx(posterior.normalised(total), abs=1e-5)


def test_expected_counts_scale_the_nearest_region_of_several_areas_to_each_area():
    """Structure preserving estimation by hand: two hierarchy levels above the areas, two keys."""
    labels = [
        (region, town, x, y)
        for region, town in (("p", "a"), ("p", "b"), ("p", "c"), ("q", "d"))
        for x in range(2)
        for y in range(3)
    ]
    rng = np.random.default_rng(8)
    # Towns that differ from their region, whose two keys nearly say the same: scaling takes many rounds.
    counts = rng.integers(1, 20, len(labels)) + [200 * (x == y) * (town != "c") for _, town, x, y in labels]
    frame = pl.DataFrame(labels, schema=["region", "town", "x", "y"], orient="row").with_columns(N=pl.Series(counts))
    finest = FinestTable.from_counts(frame, ["region", "town"], ["x", "y"], 5, secret=ZERO, cells="grid")
    view = PublishedTables.of(finest, "ilba")
    areas = np.array([0, 2, 3])
    asked = []

    def middles(node, shown):
        asked.append(node)
        return shown.astype(float) + 0.5

    found = posterior.expected_counts(view, areas, middles)
    assert set(asked) == {(0, 1, 1), (1, 1, 1), (2, 0, 0), (2, 1, 0), (2, 0, 1)}

    def told(node, size):  # x, y, area
        rows = view.tables[node]
        cells = np.zeros(size)
        for cell, value in zip(rows.packed.tolist(), rows.value.tolist(), strict=True):
            width = size[0] * size[1]
            inner = cell % width
            cells[inner // size[1], inner % size[1], cell // width] = value
        return cells + 0.5

    region, whole = told((1, 1, 1), (2, 3, 2)), told((0, 1, 1), (2, 3, 1))
    # town d is the whole of its region, so all towns together stand for it
    start = np.stack([(region[..., 0] + 0.06) / 3] * 2 + [(whole[..., 0] + 0.08) / 4], axis=-1)
    margins = {
        node: told(node, size)[..., areas]
        for node, size in {(2, 1, 0): (2, 1, 4), (2, 0, 1): (1, 3, 4), (2, 0, 0): (1, 1, 4)}.items()
    }
    order = [node for node in view.tables if node in margins]
    for _ in range(20):
        for node in order:
            axes = tuple(i for i, level in enumerate(node[1:]) if not level)
            cells = 6 / margins[node][..., 0].size
            start = start * (margins[node] + 0.02 * cells) / start.sum(axis=axes, keepdims=True)
    assert found == pytest.approx(start.reshape(6, 3), rel=1e-9)


def test_without_a_table_of_a_region_expected_counts_begin_with_the_mean():
    finest = toy([7, 0, 9, 12, 8, 0], [7, 0, 9, 12, 8, 0], 5, "grid", areas=2)
    view = PublishedTables.of(finest, "ilba", wanted_tables(finest.design, ["town.x"]))
    found = posterior.expected_counts(view, np.array([0, 1]), lambda _, shown: shown.astype(float))
    assert found == pytest.approx(np.full((3, 2), 36 / 6))
    empty = toy([1, 1, 1, 1], [0, 0, 0, 0], 5, "grid", areas=2)
    view = PublishedTables.of(empty, "ilba", wanted_tables(empty.design, ["town.x"]))
    assert posterior.expected_counts(view, np.array([1]), lambda _, shown: shown.astype(float)) == pytest.approx(
        np.full((2, 1), 1e-3)
    )


def test_released_numbers_are_read_by_their_middle():
    finest = toy([2, 7], [0, 7], 5, "grid")
    shown = np.array([-2, 0, 5, 8])
    assert posterior._middles(PublishedTables.of(finest, "ilba"), shown).tolist() == [0, 0, 3, 8]
    assert posterior._middles(PublishedTables.of(finest, "controlled"), shown).tolist() == [0, 0, 5, 8]


def test_the_spread_of_the_prior_makes_the_published_masks_likeliest():
    rng = np.random.default_rng(9)
    K = 5
    counts = nbinom.rvs(1.0, 1.0 / 5.0, size=60, random_state=rng)
    masks = np.where(counts >= K, counts, np.where(rng.random(60) < counts / K, K, 0))
    finest = toy(counts.tolist(), masks.tolist(), K, "grid", areas=6)
    view = PublishedTables.of(finest, "ilba")
    areas = np.array([1, 2, 3, 4, 5])
    fitted = posterior.prior(view, areas)
    assert (fitted.width, fitted.areas.tolist()) == (10, areas.tolist())
    assert fitted.expected == pytest.approx(
        posterior.expected_counts(view, areas, lambda _, shown: posterior._middles(view, shown))
    )
    shown = masks.reshape(6, 10)[1:]
    small = np.arange(K + 1)

    def likelihood(r):
        total = 0.0
        for area, cell in itertools.product(range(5), range(10)):
            mean = fitted.expected[cell, area]
            chance = nbinom.pmf(small, r, r / (r + mean))
            mask = shown[area, cell]
            parts = {0: (chance * (1 - small / K)).sum(), K: (chance * small / K).sum()}
            total += np.log(parts.get(int(mask), max(1 - chance.sum(), 1e-9)))
        return total

    tried = np.geomspace(0.3, 100, 14)
    assert fitted.spread == pytest.approx(max(tried, key=likelihood))
    assert 0.3 < fitted.spread < 100
    for r in tried[[0, 7]]:
        own = posterior._likelihood(fitted.expected, shown.T, float(r), K)
        assert own == pytest.approx(likelihood(r))
    packed = np.array([12, 25, 59])
    expected = fitted.expected[[2, 5, 9], [0, 1, 4]]
    assert fitted.means(packed).tolist() == expected.tolist()
    r = fitted.spread
    assert posterior.coarse_only(view, fitted, packed) == pytest.approx(
        nbinom.pmf(small, r, r / (r + expected[:, None]))
    )


def test_as_many_areas_are_sampled_as_have_the_cells_asked_for():
    finest = toy([1] * 24, [0] * 24, 5, "grid", areas=8)
    view = PublishedTables.of(finest, "ilba")
    for cells, areas in ((24, 8), (25, 8), (23, 7), (6, 2), (5, 1), (0, 1)):
        found = posterior.sampled_areas(view, cells)
        assert len(set(found.tolist())) == len(found) == areas
        assert found.tolist() == sorted(found.tolist())
    one, other = (posterior.sampled_areas(view, 12, seed).tolist() for seed in (1, 2))
    assert one != other
    assert posterior.sampled_areas(view, 12).tolist() == posterior.sampled_areas(view, 12, 2010).tolist()
