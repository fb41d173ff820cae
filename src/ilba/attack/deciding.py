"""Decide what the attack leaves open: counterexamples by mending, then an exact solver, block by block.

Blocks with most open cells come first, and the work ends when its time is over. What is then still open is undecided,
and the report says how many cells that are, and why.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import LOOKS, with_counterexample
from ilba.attack.fewcells import FEW_SEEN, NO_TIME, NOT_ASKED, TOO_LONG, Decided, without_the_finest
from ilba.attack.intervals import Intervals, at, open_cells
from ilba.attack.lattice import Node
from ilba.attack.solver import BlockSums, Target, leaving

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MOST_OPEN = 30_000_000
"""open cells times tables that are kept at once while counterexamples are looked for"""
_BLOCK = 300
"""open cells that the solver is asked about at once"""
_LARGE = 800
"""the same where only a few cells are left"""
_PATIENCE = 5.0
"""seconds for one question, and four times as many where only a few cells are left"""
_FIRST = 0.6
"""the share of the time in which other worlds are looked for before proofs"""
_FEW_LEFT = 50
"""so few open cells are asked about first: whether they can leave at all"""

_NOTHING: IntArray = np.zeros(0, np.int64)


def decide(attack: Attack, seconds: float = 0.0, disclosed: IntArray = _NOTHING) -> Decided:
    """Look for counterexamples, and for `seconds` ask the solver about the rest.

    Parameters
    ----------
    attack : Attack
        An attack that has run.
    seconds : float, default 0
        How long the solver may be asked; 0 for not at all.
    disclosed : array of int, default none
        Finest cells that the attack has proven to be small.

    Returns
    -------
    Decided
        What is proven, what is certified, and why the rest is open.
    """
    rows = attack.published.base
    if rows is None or rows.truth is None:
        return Decided(_NOTHING, _NOTHING, {}, {})
    if not attack.published.split:
        return without_the_finest(attack.published, seconds, disclosed)
    return _with_the_finest(attack, seconds)


def _with_the_finest(attack: Attack, seconds: float) -> Decided:
    published = attack.published
    rows, K = published.base, published.K
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
    packed, low, high = open_cells(attack)
    counts = at(rows.packed, np.where(rows.truth.sum_large > 0, 0, rows.truth.sum_small), packed)
    part = max(MOST_OPEN // max(len(published.tables), 1), 1)
    is_open = np.flatnonzero(low < high)
    safe_cells, proven = [_NOTHING], [_NOTHING]
    aggregates: dict[Node, list[int]] = {}
    why: Counter[str] = Counter()
    end = time.monotonic() + seconds
    for first in range(0, len(is_open), part):  # what lies outside a part stays as it truly is
        inside = np.zeros(len(packed), dtype=bool)
        inside[is_open[first : first + part]] = True
        known = Intervals.of(published, (packed, np.where(inside, low, counts), np.where(inside, high, counts)))
        own = counts[inside]
        targets = (own > 0) & (own < K) & ~((known.low >= 1) & (known.high < K))
        safe, world = with_counterexample(known, own, targets, LOOKS // (1 + len(is_open) // part))
        left = targets & ~safe
        if seconds:
            asked = Asked(known, world, left, end)
            asked.ask(proofs=len(is_open) <= part)  # proofs need all open cells at hand
            safe |= asked.safe
            proven.append(known.packed[asked.proven])
            left = asked.left
            for node, cells in asked.proven_sums().items():
                aggregates.setdefault(node, []).extend(cells)
            why += asked.why()
        elif left.any():
            why[NOT_ASKED] += int(left.sum())
        safe_cells.append(known.packed[safe])
    return Decided(
        np.concatenate(proven),
        np.concatenate(safe_cells),
        {node: np.array(sorted(cells), dtype=np.int64) for node, cells in aggregates.items()},
        dict(why),
    )


class Asked:
    """Blocks of open cells, and what the solver says about them."""

    def __init__(self, known: Intervals, world: IntArray, targets: BoolArray, end: float) -> None:
        self.known, self.world, self.targets, self.end = known, world.copy(), targets, end
        self.safe: BoolArray = np.zeros(len(world), dtype=bool)
        self.proven: BoolArray = np.zeros(len(world), dtype=bool)
        self.tried: BoolArray = np.zeros(len(world), dtype=bool)
        """the cells of blocks that the solver finished, without a proof and without another world"""
        self.late: BoolArray = np.zeros(len(world), dtype=bool)
        """the cells of blocks that took too long"""
        self._proven_sums: set[int] = set()
        self._patience = _PATIENCE
        self._members = [np.argsort(known.member[:, table], kind="stable") for table in range(known.member.shape[1])]
        self._size = np.bincount(known.member.reshape(-1), minlength=len(known.least))
        self._kept: dict[str, tuple[IntArray, IntArray]] = {}

    @property
    def left(self) -> BoolArray:
        """The cells that are still open."""
        return self.targets & ~self.safe & ~self.proven

    def why(self) -> Counter[str]:
        """How many cells are left open, by reason."""
        left, late = self.left, self.late & ~self.tried
        numbers = {
            FEW_SEEN: int((left & self.tried).sum()),
            TOO_LONG: int((left & late).sum()),
            NO_TIME: int((left & ~self.tried & ~late).sum()),
        }
        return Counter({reason: number for reason, number in numbers.items() if number})

    def ask(self, proofs: bool) -> None:
        """Look for other worlds, then for proofs, then again for other worlds in blocks of other shapes."""
        start = time.monotonic()
        few = int(self.left.sum()) <= _FEW_LEFT
        tables = self._tables(_LARGE if few else _BLOCK)
        self._patience = _PATIENCE * (4 if few else 1)
        if not tables:
            return
        if proofs and few:
            self.prove(tables[0], self.end)
        self.certify(tables[0], self.end if few or not proofs else start + (self.end - start) * _FIRST)
        if proofs and not few:
            self.prove(tables[0], self.end)
        for table in tables[1:]:
            if not self.left.any() or time.monotonic() >= self.end:
                return
            self.certify(table, self.end)

    def _tables(self, largest: int) -> list[int]:
        """The tables whose aggregates make blocks, those of the largest blocks that are not too large first."""
        known = self.known
        sizes = [
            int(np.bincount(known.member[:, table] - known.first[table]).max(initial=0))
            for table in range(known.member.shape[1])
        ]
        fitting = sorted((size, table) for table, size in enumerate(sizes) if 1 < size <= largest)
        return [table for _, table in reversed(fitting)]

    def blocks(self, table: int, every: bool = False) -> list[IntArray]:
        """The open cells of each aggregate of a table that has open targets, or of every one; those with most first."""
        order = self._members[table]
        own = self.known.member[order, table]
        found = np.split(order, np.flatnonzero(np.diff(own)) + 1)
        return sorted((b for b in found if every or self.left[b].any()), key=lambda b: -int(self.left[b].sum()))

    def _sums(self, block: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, BlockSums]:
        """The sums that touch a block, and what they leave to it when the outside lies between sums of low and high."""
        known = self.known
        member = known.member[block]
        used, place = np.unique(member.astype(np.int64), return_inverse=True)
        place = place.reshape(-1)
        order = np.argsort(place, kind="stable")
        cells = np.split(order // max(member.shape[1], 1), np.cumsum(np.bincount(place))[:-1])
        own = [
            np.bincount(place, np.repeat(values[block], member.shape[1]), minlength=len(used)).astype(np.int64)
            for values in (low, high)
        ]
        rest_low, rest_high = self._total("low", low)[used] - own[0], self._total("high", high)[used] - own[1]
        return used, BlockSums(cells, known.least[used] - rest_high, known.most[used] - rest_low)

    def _total(self, name: str, counts: IntArray) -> IntArray:
        """Sums of counts over every aggregate, kept while the counts are the same."""
        if name not in self._kept or self._kept[name][0] is not counts:
            self._kept[name] = counts, self.known.sums(counts)
        return self._kept[name][1]

    def prove(self, table: int, end: float) -> None:
        """Of the outside only what is proven: no solution is a proof."""
        known, K = self.known, self.known.K
        for block in self.blocks(table, every=True):  # some have no open cell, but an open aggregate
            used, sums = self._sums(block, known.low, known.high)
            left = [Target([int(i)]) for i in np.flatnonzero(self.left[block])]
            left += self._small_sums(block, used, sums)
            while left:
                seconds = end - time.monotonic()
                if seconds <= 0:
                    return
                said, values = leaving(K, known.low[block], known.high[block], sums, left, min(seconds, self._patience))
                if said == "none":
                    self.proven[[block[one.cells[0]] for one in left if one.number < 0]] = True
                    self._proven_sums |= {one.number for one in left if one.number >= 0}
                    break
                if said == "time":
                    self.late[block] = True
                    break
                total = [int(values[list(one.cells)].sum()) + one.beside for one in left]
                staying = [one for one, number in zip(left, total, strict=True) if 0 < number < K]
                if len(staying) == len(left):
                    break
                left = staying

    def _small_sums(self, block: IntArray, used: IntArray, sums: BlockSums) -> list[Target]:
        """Aggregates whose open cells lie in a block, that are small in the world at hand and not known to be."""
        known, K, found = self.known, self.known.K, []
        for a, cells in zip(used.tolist(), sums.cells, strict=True):
            beside = int(known.beside[a])
            if beside < 0 or len(cells) != self._size[a] or len(cells) < 2:
                continue
            now = int(self.world[block[cells]].sum()) + beside
            least = max(int(known.low[block[cells]].sum()), int(known.least[a])) + beside
            most = min(int(known.high[block[cells]].sum()), int(known.most[a])) + beside
            if 0 < now < K and not (least >= 1 and most < K):
                found.append(Target([int(i) for i in cells], beside, a))
        return found

    def proven_sums(self) -> dict[Node, list[int]]:
        """The cells of coarser tables that are proven to be small, by table."""
        found: dict[Node, list[int]] = {}
        for a in self._proven_sums:
            table = int(np.searchsorted(self.known.first, a, side="right")) - 1
            found.setdefault(self.known.tables[table], []).append(int(self.known.cell[a]))
        return found

    def certify(self, table: int, end: float) -> None:
        """The outside as it is in a world that fits: what is found is another world."""
        known, K = self.known, self.known.K
        for block in self.blocks(table):
            while True:
                targets = np.flatnonzero(self.left[block])
                seconds = end - time.monotonic()
                if not len(targets):
                    break
                if seconds <= 0:
                    return
                _, sums = self._sums(block, self.world, self.world)
                said, values = leaving(
                    K, known.low[block], known.high[block], sums, [Target([int(i)]) for i in targets],
                    min(seconds, self._patience), self.world[block],
                )  # fmt: skip
                if said != "found":
                    (self.late if said == "time" else self.tried)[block] = True
                    break
                other = self.world.copy()
                other[block] = values
                if not known.fits(other):  # the number of occupied cells is not part of the program
                    self.tried[block] = True
                    break
                before = int(self.left.sum())
                self.world = other
                self.safe |= self.targets & (other == known.alternative)
                if int(self.left.sum()) == before:
                    break
