"""Counterexamples: other truths that would have led to the same release, in which a small cell is not small.

Where the truth is known, the search begins at it. A small cell is pushed to 0 (one masked to K: to K). That breaks some
sums, which are mended one by one: another cell of a broken sum is moved by one, the one that breaks least, and not one
that was moved a moment ago. When nothing is broken any more, a new world is found. Every cell that is not small in
it is shown to be safe, and the search goes on from there. At the end of each round the sums are added up anew. A
counterexample shows that nobody can prove the cell small; that none was found shows nothing.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.intervals import FAR, Intervals
from ilba.methods.controlled.kernels import compiled

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

LOOKS = 100_000_000
"""how many sums are looked at for counterexamples: some seconds, and the same result on every machine"""
_IDLE = 8
"""rounds without a new counterexample after which the search gives up"""
_LOOK = 24
"""cells of a broken sum that are compared"""
_STEPS = 1600
"""cells that are moved for one counterexample, at most"""


@compiled
def ends(released: int, n: int, at_k: int, K: int) -> tuple[int, int]:
    """The sums of n small cells that iLBA releases as one value: `masking.preimage` of one aggregate."""
    d_low, d_high = at_k, K * at_k + (K - 1) * (n - at_k)
    if n == 0:
        return (0, 0) if released == 0 else (0, -1)
    if n == 1:
        return (d_low, d_high) if released == K * at_k else (0, -1)
    if released == 0:
        return (0, 0) if at_k == 0 else (0, -1)
    q = 0 if released == K else (released - 1 - K // 2) // K
    low, high = q * K + 1, q * K + K
    known = released == K or (released > K and released == q * K + 1 + K // 2)
    if not known or d_low > low or high > d_high:
        return 0, -1
    if low - K < d_low:
        low = min(low, max(d_low, 1))
    if d_high < high + K:
        high = d_high
    return low, high


@compiled
def _broken(total: int, least: int, most: int) -> int:
    """By how much a sum lies outside its interval."""
    if total < least:
        return least - total
    return max(total - most, 0)


@compiled
def _price(S: Any, N: Any, rule: Any, limits: Any, a: int, by: int, occupied: int, K: int) -> int:
    """By how much a sum would lie outside its interval after a move."""
    least, most = limits
    released, at_k, settled, n_settled, exact = rule
    if occupied == 0 or len(N) == 0 or exact[a]:
        return _broken(S[a] + by, least[a], most[a])
    low, high = ends(released[a], N[a] + occupied + n_settled[a], at_k[a], K)
    return _broken(S[a] + by, low - settled[a], high - settled[a])


@compiled
def mend(
    world: Any, cells: Any, member: Any, sets: Any, limits: Any, rule: Any, targets: Any, safe: Any, how: Any
) -> int:
    """Try each target in turn, from the last world that fits; how many sums were looked at.

    world: counts, sums and (observed reading) numbers of occupied cells. cells: low, high and the count that is not
    small. sets: where the cells of each sum begin, and the cells. limits: the ends of each sum, which in the observed
    reading follow the number of occupied cells by `rule`. how: steps, the seed, K, and how many sums to look at.
    """
    x, S, N = world
    low, high, alternative = cells
    first, of_set = sets
    least, most = limits
    released, at_k, settled, n_settled, exact = rule
    steps, seed, K, most_looks = how
    np.random.seed(seed)
    tables = member.shape[1]
    tabu, clock, looks = np.zeros(len(x), np.int64), 0, 0
    bad, where = np.empty(4096, np.int64), np.full(len(S), -1, np.int64)
    log_cell, log_by = np.empty(steps + 8, np.int64), np.empty(steps + 8, np.int64)
    for target in targets:
        if safe[target] or alternative[target] < low[target] or alternative[target] > high[target]:
            continue
        if looks > most_looks:
            break
        moves = broken = 0
        full = False
        j, by = target, alternative[target] - x[target]
        for _ in range(steps + 1):
            occupied = int(x[j] + by > 0) - int(x[j] > 0)
            for k in range(tables):
                a = member[j, k]
                S[a] += by
                if occupied != 0 and len(N):
                    N[a] += occupied
                    if not exact[a]:
                        a_low, a_high = ends(released[a], N[a] + n_settled[a], at_k[a], K)
                        least[a], most[a] = a_low - settled[a], a_high - settled[a]
                amiss = _broken(S[a], least[a], most[a]) > 0
                if amiss and where[a] < 0:
                    if broken == 4096:
                        full = True
                    else:
                        where[a] = broken
                        bad[broken] = a
                        broken += 1
                elif not amiss and where[a] >= 0:
                    p = where[a]
                    broken -= 1
                    bad[p] = bad[broken]
                    where[bad[p]] = p
                    where[a] = -1
            x[j] += by
            log_cell[moves], log_by[moves] = j, by
            moves += 1
            if broken == 0 or full or moves > steps:
                break
            a = bad[np.random.randint(broken)]
            by = 1 if S[a] < least[a] else -1
            size = first[a + 1] - first[a]
            best, j = 1 << 40, -1
            clock += 1
            looks += tables * (1 + min(_LOOK, size))
            for r in range(min(_LOOK, size)):
                c = of_set[first[a] + (np.random.randint(size) if size > _LOOK else r)]
                if c == target or x[c] + by < low[c] or x[c] + by > high[c]:
                    continue
                if tabu[c] > clock and np.random.random() < 0.9:
                    continue
                occupied = int(x[c] + by > 0) - int(x[c] > 0)
                cost = 0
                for k in range(tables):
                    b = member[c, k]
                    cost += _price(S, N, rule, limits, b, by, occupied, K) - _broken(S[b], least[b], most[b])
                cost = cost * 8 + np.random.randint(8)
                if cost < best:
                    best, j = cost, c
            if j < 0:
                break
            tabu[j] = clock + 5 + np.random.randint(10)
        if broken == 0 and not full:
            for i in range(moves):
                if x[log_cell[i]] == alternative[log_cell[i]]:
                    safe[log_cell[i]] = True
            continue
        for i in range(broken):
            where[bad[i]] = -1
        for i in range(moves - 1, -1, -1):  # take everything back
            c, back = log_cell[i], -log_by[i]
            occupied = int(x[c] + back > 0) - int(x[c] > 0)
            x[c] += back
            for k in range(tables):
                a = member[c, k]
                S[a] += back
                if occupied != 0 and len(N):
                    N[a] += occupied
                    if not exact[a]:
                        a_low, a_high = ends(released[a], N[a] + n_settled[a], at_k[a], K)
                        least[a], most[a] = a_low - settled[a], a_high - settled[a]
    return looks


class Worlds:
    """A walk through the truths that fit what an attacker knows, from one that does."""

    def __init__(self, intervals: Intervals, counts: IntArray) -> None:
        """Start at `counts` of the open cells."""
        self.intervals = intervals
        if not intervals.fits(counts):
            raise AssertionError(
                "the truth does not fit what was published. This is a mistake in ilba: please report it."
            )
        self.counts = counts.astype(np.int64).copy()
        self.sums = intervals.sums(self.counts)
        rule = intervals.occupancy
        self.least, self.most = (np.clip(end, -FAR, FAR).copy() for end in (intervals.least, intervals.most))
        nothing = np.zeros(0, np.int64)
        self.occupied = nothing
        self.rule: Any = (nothing, nothing, nothing, nothing, np.zeros(0, bool))
        if rule is not None:
            from ilba.methods import masking

            self.occupied = intervals.sums((self.counts > 0).astype(np.int64))
            self.rule = tuple(np.ascontiguousarray(part) for part in (*rule[:4], rule.exact))
            low, high = masking.preimage(rule.released, self.occupied + rule.n_settled, rule.at_k, intervals.K)
            self.least = np.where(rule.exact, self.least, low - rule.sum_settled)
            self.most = np.where(rule.exact, self.most, high - rule.sum_settled)
        flat = intervals.member.reshape(-1)
        order = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[order], np.arange(len(self.sums) + 1))
        self._sets = first, (order // max(intervals.member.shape[1], 1)).astype(np.int64)
        self.safe: BoolArray = self.counts == intervals.alternative
        """the cells that are not small in some world that was seen"""

    def round(self, targets: IntArray, steps: int, seed: int, looks: int = LOOKS) -> int:
        """Try each target once; how many sums were looked at."""
        known = self.intervals
        order = np.random.default_rng(seed).permutation(targets)
        looked = mend(
            (self.counts, self.sums, self.occupied),
            (known.low, known.high, known.alternative),
            known.member,
            self._sets,
            (self.least, self.most),
            self.rule,
            order,
            self.safe,
            (steps, seed, known.K, looks),
        )
        if not known.fits(self.counts):
            raise AssertionError("a counterexample does not fit. This is a mistake in ilba: please report it.")
        return int(looked)

    def search(self, targets: IntArray, looks: int = LOOKS) -> None:
        """Look for worlds in which the targets are not small, until nothing new is found or enough was looked at."""
        steps, idle, seed = 50, 0, 0
        while idle < _IDLE and looks > 0:
            left = targets[~self.safe[targets]]
            if not len(left):
                return
            seed += 1
            looks -= max(self.round(left, steps, seed, looks), 1)
            idle = 0 if int(self.safe[left].sum()) else idle + 1
            steps = min(2 * steps, _STEPS)


def with_counterexample(
    intervals: Intervals, counts: IntArray, targets: BoolArray, looks: int = LOOKS
) -> tuple[BoolArray, IntArray]:
    """Find counterexamples for small cells.

    Parameters
    ----------
    intervals : Intervals
        What the attacker knows.
    counts : array of int
        A truth that fits: the count of each open cell.
    targets : array of bool
        The open cells for which a counterexample is wanted.
    looks : int, default LOOKS
        How many sums to look at.

    Returns
    -------
    tuple of two arrays
        For each open cell whether a counterexample was found, and the last world that was reached.
    """
    worlds = Worlds(intervals, counts)
    worlds.search(np.flatnonzero(targets), looks)
    return worlds.safe & targets, worlds.counts
