"""How likely each count is to an attacker who has everything published and a model of the rest.

The prior of a finest cell is a negative binomial around the count that coarse published tables suggest. Its spread
maximises the likelihood of the published masks. The mask adds what SCA says about 0 and K. Then aggregates and cells
send messages: each aggregate tells each of its open cells how likely each count is, given the beliefs about its other
cells. Tables overlap and say similar things twice, so messages count half. Every report compares the beliefs with the
truth, by bins.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.intervals import Intervals
from ilba.attack.lattice import Array, Edge, Node, collapse, spread
from ilba.attack.published import PublishedTables
from ilba.methods.controlled.kernels import compiled
from ilba.progress import Progress, ProgressStep, silent

FloatArray: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]

ROUNDS = 15
POWER = 0.5
"""messages count half, because tables overlap: with full weight, beliefs are overconfident"""
_DAMPING = 0.5
_EXACT = 16
"""up to this many open cells the sum of an aggregate is computed exactly, above it by a normal approximation"""
_SMOOTH = 0.02
_TABLE = 2_000_000
"""logarithms are stored up to this count; larger counts are not small"""


class Prior(NamedTuple):
    """The expected counts of the finest cells of some areas, from coarse tables."""

    areas: IntArray
    """the areas, sorted"""
    width: int
    """the number of cells of one area"""
    expected: FloatArray
    """cells x areas"""
    spread: float
    """the size parameter of the negative binomial: a smaller value spreads wider"""

    def means(self, packed: IntArray) -> FloatArray:
        """The expected counts of some cells."""
        return self.expected[packed % self.width, np.searchsorted(self.areas, packed // self.width)]

    def log(self, packed: IntArray, K: int) -> FloatArray:
        """The log-probability of each count 0..K for some cells."""
        return _negative_binomial(self.means(packed), self.spread, K)


def prior(view: PublishedTables, areas: IntArray) -> Prior:
    """Fit the prior of the finest cells of some areas to the published coarse tables, with its spread."""
    base, K = view.lattice.base, view.K
    expected = expected_counts(view, areas, lambda _, shown: _middles(view, shown))
    everywhere, width = view.codes.lists[0].size(base[0]), view.lattice.width(base)
    value = np.take(view.dense(base, 0, everywhere, view.tables[base].value), areas, axis=-1).reshape(width, -1)
    tried = np.geomspace(0.3, 100, 14)
    best = max(tried, key=lambda r: _likelihood(expected, value, float(r), K))
    return Prior(np.asarray(areas), width, expected, float(best))


def expected_counts(view: PublishedTables, areas: IntArray, middles: Callable[[Node, Array], FloatArray]) -> FloatArray:
    """The expected counts of the finest cells of some areas, from coarse tables, as cells x areas.

    The region's table by all keys is scaled to the tables of each area by one key (structure preserving estimation). A
    region of a single area says no more than the mask, so a coarser region takes its place. `middles` gives the mean
    counts behind the numbers of a whole table.
    """
    lattice, base = view.lattice, view.lattice.base
    listed, everywhere = view.codes.lists[0], view.codes.lists[0].size(base[0])
    width = lattice.width(base)
    above = [level for level in range(base[0] - 1, -1, -1) if (level, *base[1:]) in view.tables]
    shape = (*lattice.shape(base), len(areas))
    expected = np.full(shape, max(float(view.tables[base].value.sum()) / (width * everywhere), 1e-3))
    for level in reversed(above):  # the nearest region last
        node = (level, *base[1:])
        parents = listed.parents(base[0], level)
        below = np.bincount(parents, minlength=listed.size(level))
        region = middles(node, view.dense(node, 0, listed.size(level), view.tables[node].value))
        several = below[parents[areas]] > 1
        if several.any():
            expected[..., several] = np.take((region + _SMOOTH * below) / below, parents[areas][several], axis=-1)
    rows = {base[0]: (0, len(areas))}
    margins: list[tuple[Any, Array]] = []
    for node in view.tables:
        if node[0] != base[0] or sum(level > 0 for level in node[1:]) > 1 or node == base:
            continue
        if any(level not in (0, finest) for level, finest in zip(node[1:], base[1:], strict=True)):
            continue
        steps = lattice.steps(Edge(node, base), rows)
        shown = np.take(middles(node, view.dense(node, 0, everywhere, view.tables[node].value)), areas, axis=-1)
        margins.append((steps, shown + _SMOOTH * width / lattice.width(node)))
    for _ in range(20):
        for steps, shown in margins:
            expected = expected * spread(shown / np.maximum(collapse(expected, steps, np.float64), 1e-12), steps)
    return np.asarray(np.maximum(expected.reshape(width, len(areas)), 1e-4))


def _middles(view: PublishedTables, shown: Array) -> FloatArray:
    """The mean counts behind released numbers: iLBA shows sums of 1..K as K, and larger sums by their middle."""
    if view.policy.scheme == "ilba":
        return np.where(shown == view.K, (1 + view.K) / 2, np.maximum(shown, 0))
    return np.asarray(np.maximum(shown, 0), dtype=np.float64)


def _likelihood(expected: FloatArray, value: IntArray, r: float, K: int) -> float:
    """The log-likelihood of the published masks for a given spread."""
    mean, shown = expected.reshape(-1), value.reshape(-1)
    at, masked = np.exp(_negative_binomial(mean, r, K)), np.arange(K + 1) / K
    to_k = at @ masked
    large = np.maximum(1 - at.sum(axis=1), 1e-9)
    chance = np.where(shown == 0, at @ (1 - masked), np.where(shown == K, to_k, large))
    return float(np.log(np.maximum(chance, 1e-12)).sum())


def _negative_binomial(mean: FloatArray, r: float, K: int) -> FloatArray:
    """Log-probabilities of 0..K."""
    count = np.arange(K + 1)
    first = [math.lgamma(v + r) - math.lgamma(r) - math.lgamma(v + 1) for v in count]
    total = np.log(r + mean)[:, None]
    return np.asarray(np.array(first) + r * (math.log(r) - total) + count * (np.log(mean)[:, None] - total))


def negative_binomial(mean: FloatArray, r: float, count: IntArray) -> FloatArray:
    """The log-probabilities of a row of counts for each mean."""
    top = int(min(count.max(initial=0), _TABLE))
    steps = np.arange(top, dtype=np.float64)
    first = np.concatenate([[0.0], np.cumsum(np.log(steps + r) - np.log(steps + 1))])  # log of (r)_v / v!
    total = np.log(r + mean)[:, None]
    return np.asarray(
        first[np.minimum(count, top)] + r * (math.log(r) - total) + count * (np.log(mean)[:, None] - total)
    )


def with_masks(log: FloatArray, at_k: npt.NDArray[np.bool_], K: int) -> FloatArray:
    """Add what the masks say: SCA sets a count v to K with probability v / K, else to 0."""
    share = np.arange(K + 1) / K
    with np.errstate(divide="ignore"):
        return log + np.where(at_k[:, None], np.log(share), np.log(1 - share))


def normalised(log: FloatArray) -> FloatArray:
    """Probabilities from their logarithms up to a constant, row by row."""
    top = log.max(axis=1, keepdims=True, initial=-np.inf) if log.shape[1] else log
    chance = np.exp(log - np.where(np.isfinite(top), top, 0))
    return np.asarray(chance / np.maximum(chance.sum(axis=1, keepdims=True), 1e-300))


def beliefs(known: Intervals, log: FloatArray, progress: Progress | None = None, rounds: int = ROUNDS) -> FloatArray:
    """Compute how likely each count of each open cell is.

    Parameters
    ----------
    known : Intervals
        What the attacker knows.
    log : array of float
        The prior log-probability of each count 0..K of each open cell.
    progress : callable, optional
        Called after each round.
    rounds : int, default ROUNDS
        How often every table sends its messages.

    Returns
    -------
    array of float
        A row for each open cell, a column for each count.
    """
    tell = progress or silent
    count = np.arange(known.K + 1)
    possible = (count >= known.low[:, None]) & (count <= known.high[:, None])
    total = np.where(possible, log, -np.inf)
    n, tables = known.member.shape
    messages = np.zeros((tables, n, known.K + 1), np.float32)
    sets = []
    for table in range(tables):
        own = known.member[:, table] - known.first[table]
        order = np.argsort(own, kind="stable")
        sets.append((np.searchsorted(own[order], np.arange(known.first[table + 1] - known.first[table] + 1)), order))
    for done in range(1, rounds + 1):
        for table, (starts, order) in enumerate(sets):
            inside = slice(known.first[table], known.first[table + 1])
            p = normalised(total - messages[table])
            said = np.empty_like(p)
            _tell(p, starts, order, known.least[inside], known.most[inside], known.K, said)
            new = np.log(np.maximum(said, 1e-12))
            new = POWER * (new - new.max(axis=1, keepdims=True))
            new = (_DAMPING * messages[table] + (1 - _DAMPING) * new).astype(np.float32)
            total += new - messages[table]
            messages[table] = new
        tell(ProgressStep("believing", done, rounds))
    return normalised(total)


@compiled
def _tell(p: Any, starts: Any, cells: Any, least: Any, most: Any, K: int, out: Any) -> None:
    """The message of each aggregate of a table to its cells: how likely the others leave room for each count."""
    for a in range(len(starts) - 1):
        first, n = starts[a], starts[a + 1] - starts[a]
        if n > _EXACT:
            _tell_roughly(p, cells[first : first + n], least[a], most[a], K, out)
        elif n > 0:
            _tell_exactly(p, cells[first : first + n], least[a], most[a], K, out)


@compiled
def _tell_exactly(p: Any, cells: Any, least: int, most: int, K: int, out: Any) -> None:
    n = len(cells)
    size = int(max(min(K * n, most), 0)) + 1  # larger sums leave no room
    after = np.zeros((n + 1, size))
    after[n, 0] = 1.0
    for i in range(n - 1, 0, -1):
        for s in range(size):
            if after[i + 1, s] > 0:
                for v in range(min(K + 1, size - s)):
                    after[i, s + v] += after[i + 1, s] * p[cells[i], v]
    upto = np.zeros((n + 1, size + 1))
    for i in range(1, n + 1):
        for s in range(size):
            upto[i, s + 1] = upto[i, s] + after[i, s]
    before = np.zeros(size)
    before[0] = 1.0
    for i in range(n):
        for v in range(K + 1):
            chance = 0.0
            for s in range(size):
                if before[s] > 0:
                    high, low = min(most - v - s, size - 1), max(least - v - s, 0)
                    if high >= low:
                        chance += before[s] * (upto[i + 1, high + 1] - upto[i + 1, low])
            out[cells[i], v] = chance
        new = np.zeros(size)
        for s in range(size):
            if before[s] > 0:
                for v in range(min(K + 1, size - s)):
                    new[s + v] += before[s] * p[cells[i], v]
        before = new


@compiled
def _tell_roughly(p: Any, cells: Any, least: int, most: int, K: int, out: Any) -> None:
    mean = np.zeros(len(cells))
    variance = np.zeros(len(cells))
    for i in range(len(cells)):
        for v in range(K + 1):
            mean[i] += v * p[cells[i], v]
        for v in range(K + 1):
            variance[i] += (v - mean[i]) ** 2 * p[cells[i], v]
    all_mean, all_variance = mean.sum(), variance.sum()
    for i in range(len(cells)):
        middle = all_mean - mean[i]
        wide = math.sqrt(2 * max(all_variance - variance[i], 0.05))
        for v in range(K + 1):
            low, high = (least - v - 0.5 - middle) / wide, (most - v + 0.5 - middle) / wide
            if low > 0:  # use the other tail, which keeps precision
                low, high = -high, -low
            out[cells[i], v] = 0.5 * (math.erfc(-high) - math.erfc(-low))


def coarse_only(view: PublishedTables, fitted: Prior, packed: IntArray) -> FloatArray:
    """The baseline: beliefs from coarse tables alone, without masks and without the finest table."""
    return np.exp(fitted.log(packed, view.K))


def sampled_areas(view: PublishedTables, most_cells: int, seed: int = 2010) -> IntArray:
    """The areas for which probabilities are computed: all, or as many as fit, drawn at random."""
    base: Node = view.lattice.base
    everywhere = view.codes.lists[0].size(base[0])
    most = max(1, most_cells // max(view.lattice.width(base), 1))
    if everywhere <= most:
        return np.arange(everywhere)
    return np.sort(np.random.default_rng(seed).choice(everywhere, most, replace=False))
