"""Counterexamples: other truths that would have led to the same release, in which a small count is not small.

The search begins at the known truth. It pushes a small cell to 0 or K, or a small sum to 0 or at least K. This breaks
some sums, which are mended one by one: a cell of a broken sum moves by one, or its mask flips if nobody knows it. The
search takes the move that breaks least, and avoids a cell that moved just before. When no sum is broken, a new world is
found. Every count that is not small in it is safe, and the search continues from there. Each round ends by adding up
the world anew. A counterexample shows that nobody can prove the count small. A search without a result shows nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.intervals import FAR, Intervals
from ilba.attack.mending import mend
from ilba.attack.solver import clock
from ilba.methods import masking

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

LOOKS = 100_000_000
"""the number of sums that a search evaluates: some seconds, and the same result on every machine"""
_IDLE = 24
"""the search gives up after this many rounds without a new counterexample"""
_LITTLE = 20_000_000
"""the number of sums per round, where the clock limits the search"""
_STEPS = 1600
"""the largest number of cells that move for one counterexample"""

NOTHING, INTERVAL, RULE = 0, 1, 2
"""what a sum states: nothing, an interval for the sum of counts, or the value that iLBA released"""


@dataclass(frozen=True)
class Conditions:
    """The conditions on a world: open cells, and sums over them with what each states."""

    K: int
    low: IntArray
    high: IntArray
    is_free: BoolArray
    """whether nobody knows the mask of a cell"""
    member: npt.NDArray[np.int32]
    """the sum of each cell in each table"""
    kind: npt.NDArray[np.int8]
    least: IntArray
    most: IntArray
    """INTERVAL: the ends of the sum over the open cells and the fixed small cells"""
    released: IntArray
    """RULE: what was released for all small cells of the sum"""
    people: IntArray
    """people in the fixed small cells of each sum"""
    small: IntArray
    """the number of fixed small cells"""
    at_k: IntArray
    """how many of them are masked to K"""
    alone: BoolArray
    """whether a sum holds only small cells, so that it can be small itself"""
    occupied: bool
    """whether only occupied cells count as small cells, or all cells of the grid"""

    @classmethod
    def of(cls, known: Intervals) -> Conditions:
        """The conditions of a release with its finest table, where everybody knows the masks."""
        size, rule = len(known.least), known.occupancy
        nothing: IntArray = np.zeros(size, np.int64)
        kind = np.full(size, INTERVAL, np.int8)
        released = small = at_k = nothing
        people = np.maximum(known.beside, 0)
        if rule is not None:
            kind = np.where(rule.exact, INTERVAL, RULE).astype(np.int8)
            people = rule.sum_settled
            released, small = rule.released, rule.n_settled
            at_k = rule.at_k - known.sums(known.at_k.astype(np.int64))
        return cls(
            known.K,
            known.low,
            known.high,
            np.zeros(len(known.low), dtype=bool),
            known.member,
            kind,
            np.clip(known.least, -FAR, FAR) + people,
            np.clip(known.most, -FAR, FAR) + people,
            released,
            people,
            small,
            at_k,
            known.beside >= 0,
            rule is not None,
        )

    def sums(self, values: IntArray) -> IntArray:
        """Add up values of the open cells in each sum."""
        total = np.zeros(len(self.kind), np.int64)
        for place in self.member.T:
            total += np.bincount(place, values, minlength=len(total)).astype(np.int64)
        return total

    def parts(self, counts: IntArray, masks: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """People, small cells and masks of K in each sum."""
        number = self.small + (self.sums((counts > 0).astype(np.int64)) if self.occupied else 0)
        return self.people + self.sums(counts), number, self.at_k + self.sums(masks)

    def fits(self, counts: IntArray, masks: IntArray) -> bool:
        """Add up and mask a world anew; return whether it leads to everything that was published."""
        if (counts < self.low).any() or (counts > self.high).any():
            return False
        free = self.is_free
        if ((masks[free] == 1) & (counts[free] == 0)).any() or ((masks[free] == 0) & (counts[free] >= self.K)).any():
            return False
        total, number, at_k = self.parts(counts, masks)
        inside = (self.least <= total) & (total <= self.most)
        rule = self.kind == RULE
        shown = masking.ilba(number[rule], at_k[rule], total[rule], self.K).sum_masked
        return bool(inside[self.kind == INTERVAL].all() and (shown == self.released[rule]).all())


class Worlds:
    """A walk through the truths that fit what an attacker knows, starting from one that fits."""

    def __init__(self, conditions: Conditions, counts: IntArray, masks: IntArray) -> None:
        """Start at these counts of the open cells; masks are 1 for K, 0 for 0."""
        self.conditions = known = conditions
        self.counts, self.masks = (values.astype(np.int64).copy() for values in (counts, masks))
        if not known.fits(self.counts, self.masks):
            raise AssertionError(
                "the truth does not fit what was published. This is a mistake in ilba: please report it."
            )
        self._sums: Any = (*known.parts(self.counts, self.masks), np.zeros(len(known.kind), np.int64))
        flat = known.member.reshape(-1)
        order = np.argsort(flat, kind="stable")
        first = np.searchsorted(flat[order], np.arange(len(known.kind) + 1))
        self._sets = first, (order // max(known.member.shape[1], 1)).astype(np.int64)
        self.safe: BoolArray = np.zeros(len(counts) + len(known.kind), dtype=bool)
        """the cells, followed by the sums, that are not small in some world found so far"""
        self._seed = 0

    def round(self, targets: IntArray, steps: int, seed: int, looks: int = LOOKS) -> int:
        """Try each target once: a cell, or a sum numbered after the last cell. Return how many sums were evaluated."""
        known = self.conditions
        order = np.random.default_rng(seed).permutation(targets)
        looked = mend(
            (self.counts, self.masks),
            (known.low, known.high, known.is_free),
            known.member,
            self._sets,
            self._sums,
            (known.kind, (known.least, known.most, known.released), known.alone),
            order,
            self.safe,
            (steps, seed, known.K, known.occupied, looks),
        )
        if not known.fits(self.counts, self.masks):
            raise AssertionError("a counterexample does not fit. This is a mistake in ilba: please report it.")
        return int(looked)

    def search(self, targets: IntArray, looks: int = LOOKS, until: float = 0.0) -> None:
        """Look for worlds in which the targets are not small, until nothing new is found or `looks` is used up.

        `until` extends the search beyond `looks`, up to a time of `clock`.
        """
        steps, idle = 50, 0
        while idle < _IDLE and (looks > 0 or clock() < until):
            left = targets[~self.safe[targets]]
            if not len(left):
                return
            self._seed += 1
            looks -= max(self.round(left, steps, self._seed, max(looks, _LITTLE)), 1)
            idle = 0 if int(self.safe[left].sum()) else idle + 1
            steps = min(2 * steps, _STEPS)
