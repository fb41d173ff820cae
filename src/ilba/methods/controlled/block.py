"""The masks of one block, given the errors that other blocks left in the surrounding areas.

The steps are a walk, sweeps, the repair of sums over their caps, and flips that bring each class of counts to its mean.
Each step is a fixed amount of work, so the masks are a function of the block's cells, the carried errors and the
secret.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError, some
from ilba.methods.controlled import kernels
from ilba.methods.controlled.kernels import BITS, CHANCES
from ilba.methods.controlled.noise import target_noise
from ilba.methods.controlled.plan import Layout, MaskBlock
from ilba.methods.controlled.search import SWEEPS, Rules
from ilba.methods.controlled.sets import Sets, sets_of

IntArray: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]
Told: TypeAlias = Callable[[str, int, int, int | None], None]

# Tuned on a census of a million people. The masks depend on each of these numbers.
_WALK_HEAT = Decimal(4)
_HEATS = Decimal(4), Decimal("0.5")
_STIFFNESS = 5  # pull of a class towards its mean, per set of an average cell
_WORK = 100  # evaluated flips per cell before the bound gives way
_PASSES = 2000  # passes over the remaining sums
_SHARED = 7, 9  # the part (7/9) of the bound that each of several parallel blocks may leave in a surrounding area
_KNOWN = 200  # passes if most masks are known
_TRIES = 3  # tries to give a class its number of masks
_AFTER = 20  # evaluated flips per cell for each further step of the bound
NEAR_ENOUGH = 100
"""A mean within one part in this many of the count is near enough: no bound is broken for it."""


@dataclass(frozen=True)
class Cells:
    """The small cells of a block, in any order."""

    digits: Sequence[IntArray]
    """the number of the cell's label in each dimension"""
    count: IntArray
    number: Words
    """a keyed number for each cell, the source of all its random decisions"""
    drawn: npt.NDArray[np.bool_]
    """whether the cell's own draw masks it to K"""
    known: npt.NDArray[Any] | None = None
    """1 and 0 for a known mask of K or 0, which stays; otherwise -1. With free counts: the known value, which stays"""


class Share(NamedTuple):
    """The share of an area's errors that a block sees; the shares of all blocks of a round add up to the errors."""

    errors: Any
    place: int
    blocks: int

    def of(self, names: Words) -> IntArray:
        """The share of the error under each name."""
        share: IntArray = (self.errors.of(names) + self.place) // self.blocks
        return share


class Before(NamedTuple):
    """What other blocks left behind."""

    shares: tuple[Share, ...]
    """the errors of each carried area"""
    classes: IntArray
    """the total error of the masks of each count 1..K-1"""
    aims: IntArray | None = None
    """the final error at which each class aims: for the last block"""
    sizes: IntArray | None = None
    """the number of cells of each class in all blocks"""


class Done(NamedTuple):
    """The masks of a block, and the errors it leaves."""

    up: npt.NDArray[np.int8]
    """whether each cell is masked to K, in the given order of the cells"""
    errors: tuple[tuple[Words, IntArray, npt.NDArray[np.int32]], ...]
    """for each carried area: names, what the block adds to their errors, and in how many tables they are"""
    classes: IntArray
    """what the block adds to the errors of the classes"""
    over: int
    """the number of counts inside the block that are over the bound"""
    reached: int
    kept: int
    interrupted: bool
    values: IntArray | None = None
    """the masked counts of all cells, if values other than 0 and K are possible"""


class Ready(NamedTuple):
    """A block that is ready for the choice of masks: its cells in the order of the labels, and their sets.

    It does not depend on other blocks, so it can be made before they are done.
    """

    block: MaskBlock
    order: IntArray
    """the place of each cell in the given order"""
    cells: Cells
    area: IntArray
    """the finest area of each cell, along the dimension of the blocks"""
    names: Words
    """the different names of coarse sets"""
    sets: Sets

    @classmethod
    def of(cls, layout: Layout, block: MaskBlock, cells: Cells) -> Ready:
        """Make the cells of a block ready, in any given order."""
        order = layout.order(cells.digits)
        digits = [digit[order] for digit in cells.digits]
        named = layout.named(digits)
        area = digits[layout.along]
        local = []
        for level in block.levels:
            starts = np.flatnonzero(np.diff(layout.areas.nodes[level][area], prepend=-1))
            if layout.times[level].any():
                local.append((np.append(starts, len(area)), layout.times[level]))
        sets = sets_of(named, local, [one.times for one in block.carried])
        known = None if cells.known is None else cells.known[order]
        sorted_ = Cells(digits, cells.count[order], cells.number[order], cells.drawn[order], known)
        return cls(block, order, sorted_, area, named.names, sets)

    def carried(self, before: Before) -> list[IntArray]:
        """The errors that other blocks left in the sets that reach beyond this block, for each surrounding area."""
        return [share.of(self.names[seen]) for share, seen in zip(before.shares, self.sets.carried, strict=True)]


def choose_masks(ready: Ready, before: Before, rules: Rules, told: Told) -> Done:
    """Choose the masks of a block."""
    block, order, cells, _, names, sets = ready
    known = cells.known
    problem = _Problem(sets, rules, cells.count, cells.drawn, cells.number, known)
    carried = ready.carried(before)
    problem.start(carried, [one.far for one in block.carried], before)
    problem.solve(told)
    up = np.empty(len(order), dtype=np.int8)
    up[order] = problem.z
    final = problem.final()
    added, at = [], sets.n_local
    for seen, error in zip(sets.carried, carried, strict=True):
        end = at + len(seen)
        added.append((names[seen], final[at:end] - error, sets.times[at:end]))
        at = end
    local_errors = np.abs(final[: sets.n_local])
    own = np.abs(rules.K * problem.z.astype(np.int64) - problem.x)[sets.alone > 0]
    return Done(
        up=up,
        errors=tuple(added),
        classes=problem.classes() - before.classes,
        over=int(sets.times[: sets.n_local][local_errors > rules.bound].sum()),
        reached=max(int(local_errors.max(initial=0)), int(own.max(initial=0))),
        kept=0 if known is None else int((known >= 0).sum()),
        interrupted=problem.interrupted,
    )


class _Problem:
    """The masks of the small cells of a block, and the steps that change them."""

    def __init__(
        self,
        sets: Sets,
        rules: Rules,
        x: IntArray,
        drawn: npt.NDArray[np.bool_],
        number: Words,
        known: npt.NDArray[np.int8] | None,
    ) -> None:
        if len(x) * rules.K >= 2**31:
            raise InputError(f"{some(len(x), 'small cell')} of one area are too many to choose masks for jointly.")
        self.sets, self.K, self.bound = sets, rules.K, rules.bound
        self.x = x.astype(np.int16)
        self.z = drawn.astype(np.int8)
        self.number = number
        self.target = self.x
        """the target counts of the sums"""
        if rules.noise:
            small = np.ones(len(x), dtype=bool)
            self.target = self.x + target_noise(sets, small, number, rules.noise, thresholds())
        degree = np.diff(sets.ptr)
        # A cell that shares no aggregate with another small cell has nothing to balance, so its draw stays.
        self.free = (degree > 0).astype(np.int8)
        self.mostly_known = known is not None and 2 * int((known >= 0).sum()) >= len(x) > 0
        if known is not None:
            self.z[known >= 0] = known[known >= 0]
            self.free[known >= 0] = 0
        self.kind = (x - 1).astype(np.int16)
        self.log_odds = np.array([log_odds(v, self.K) for v in range(1, self.K)], dtype=np.int64)
        own = np.bincount(self.kind, minlength=self.K - 1).astype(np.int64)
        self.there = np.flatnonzero(own).tolist()
        self.kind_size = np.maximum(own, 1)
        # In a small class one flip must not decide the next: it changes the pull by at most about one.
        self.stiff = np.clip(self.kind_size // self.K, 1, max(50, _STIFFNESS * len(sets.sets) // max(len(x), 1)))
        self.widest = int(degree.max(initial=1))
        self.interrupted = False
        self.state: Any = None

    def start(self, carried: Sequence[IntArray], far: Sequence[bool], before: Before) -> None:
        """Set the carried errors, the caps, and the aims of the classes."""
        self.base = np.concatenate([np.zeros(self.sets.n_local, np.int64), *carried])
        square = [np.ones(self.sets.n_local, np.int8)]
        cap = [np.full(self.sets.n_local, self.bound, np.int64)]
        for errors, is_far, (_, _, blocks) in zip(carried, far, before.shares, strict=True):
            cap.append(np.full(len(errors), self._cap(is_far, blocks)))
            square.append(np.full(len(errors), not is_far, np.int8))
        self.cap, self.square = np.concatenate(cap), np.concatenate(square)
        if self.mostly_known:  # few masks are free: a low cap would use them up in the wrong places
            self.cap = np.maximum(self.cap, 3 * self.K - 1)
        self.before_classes = before.classes
        self.aims = before.aims
        self.aim = np.zeros(self.K - 1, np.int64) if before.aims is None else before.aims
        self.sizes = before.sizes

    def _cap(self, far: bool, blocks: int) -> int:
        """How far the counts of a surrounding area may lie from the truth.

        The errors of parallel blocks add up, so each of them gets a lower cap.
        """
        if blocks == 1:
            return 2 * self.bound if far else self.bound
        return 3 * self.bound // 2 if far else max(_SHARED[0] * self.bound // _SHARED[1], self.K - 1)

    def solve(self, told: Told) -> None:
        """Walk, sweep, repair. After an interruption the best masks so far remain."""
        best = self.z.copy()
        try:
            self._walk()
            best = self.z.copy()
            told("walk", self._over(), 1, 1 + SWEEPS)
            for step in range(1, SWEEPS + 1):
                self._sweep(step)
                told("sweep", self._over(), 1 + step, 1 + SWEEPS)
            best = self.z.copy()
            fewest = self._over()
            for over in self._repair():
                if over <= fewest:
                    fewest, best = over, self.z.copy()
                told("repair", over, 0, None)
            for over in self._settle():
                told("settle", over, 0, None)
        except KeyboardInterrupt:
            self.interrupted = True
            self.z = best

    def _walk(self) -> None:
        fixed = self.free == 0
        error = kernels.errors_of(*self._cell_sets, self.z, self.target, fixed, self.K, self.sets.n_sets)
        self.error = (error + self.base).astype(np.int32)
        self.kind_error = self.before_classes + self._classes(fixed)
        kernels.self_balancing_walk(
            *self._cell_sets, self.error, self.z, self.target, self.kind, self.free, self.number, self.K,
            self._heat(_WALK_HEAT), thresholds(), self.log_odds, self.kind_error, self.kind_size, self.stiff,
        )  # fmt: skip
        self.kind_error = self.classes()  # a class aims at its true mean, whatever the target

    def _sweep(self, step: int) -> None:
        first, last = _HEATS
        heat = first * ((last / first).ln() * (step - 1) / (SWEEPS - 1)).exp()
        kernels.sweep(
            *self._cell_sets, self.error, self.z, self.kind, self.free, self.number, step, self.K,
            self._heat(heat), thresholds(), self.log_odds, self.kind_error, self.kind_size, self.stiff,
        )  # fmt: skip
        if not self.mostly_known:
            # A force that holds a class off its mean is still there in the next sweep, so the pull against it lasts.
            # (If most masks are kept, they may be this force, and the few others cannot make up for them.)
            one = 1 << BITS
            self.log_odds -= self.stiff * np.clip(self.kind_error * one // self.kind_size, -one, one)

    def _repair(self) -> Iterator[int]:
        """Work on sums over their caps; yield how many counts are over the bound.

        After a fixed amount of work the bound gives way. An area beyond the block keeps its stuck errors, because later
        blocks also have cells in it. Errors inside the block raise the caps of the whole block by one. Then only sums
        over the raised caps are worked on, so most counts stay within the first cap. If most masks are known, or
        nothing helps, stuck sums keep their errors.
        """
        self.h = kernels.mixed(self.number.sum(dtype=np.uint64))
        inside = self.sets.n_local
        yield from self._press(_WORK)
        for _ in range(self.bound):
            if not kernels.over(self.state) or self.mostly_known:
                break
            stuck = np.abs(self.error)
            self.cap[inside:] = np.maximum(self.cap[inside:], stuck[inside:])
            if (stuck[:inside] > self.cap[:inside]).any():
                self.cap[:inside] += 1
            yield from self._press(_AFTER)
        self.cap = np.maximum(self.cap, np.abs(self.error))
        self.state = kernels.state_of(self.error, self.cap, self.square)
        self.error = self.state[:, 0]

    def _press(self, work: int, level: bool = False) -> Iterator[int]:
        """Work on sums over their caps until none is left, or until the work is used up."""
        sets, n = self.sets, len(self.z)
        self.state = kernels.state_of(self.error, self.cap, self.square)
        self.error = self.state[:, 0]
        look = np.zeros(n, dtype=np.int32)
        age = looked = passed = 0
        over = kernels.over(self.state)
        worn = True
        while over and looked < work * n + 10_000 and passed < (_KNOWN if self.mostly_known else _PASSES):
            passes = max(1, min(20, 20_000 // over))
            over, self.h, flips = kernels.repair(
                *self._cell_sets, sets.first, sets.cells, self.state, self.z, self.kind, self.free, self.K,
                thresholds(), self.log_odds, self.kind_error, self.kind_size, self.stiff, self.aim, level,
                np.uint64(self.h), passes, look, worn, self.widest,
            )  # fmt: skip
            yield self._over()
            age = flips if worn else age + flips
            worn = age > 2 * n
            looked, passed = looked + flips, passed + passes
            if not flips:  # no free cell can flip
                return

    def _settle(self) -> Iterator[int]:
        """Give each class the number of masks that it aims at, within the reached caps.

        Flips that break no cap come first. In the last block, missing flips are made in any case if the mean is not
        near enough. They are repaired by pairs within one class, which keep all numbers. A class for which this fails
        stays as it was.
        """
        for v in self.there:
            self._lead(v, forced=False)
        if self.aims is None or self.sizes is None:
            return
        for v in [*self.there] * 2:  # the repair of one class may disturb another
            near = NEAR_ENOUGH * abs(self.kind_error[v]) <= self.sizes[v]
            if near or self.kind_error[v] == self.aim[v]:
                continue
            yield from self._force(v)

    def _force(self, v: int) -> Iterator[int]:
        """Give a class its number of masks, then repair what breaks. After a few failed tries it stays as it was."""
        for _ in range(_TRIES):
            z, state, kind_error = self.z.copy(), self.state.copy(), self.kind_error.copy()
            self._lead(v, forced=True)
            yield from self._press(_AFTER, level=True)
            if not kernels.over(self.state):
                return
            self.z, self.kind_error, self.state = z, kind_error, state
            self.error = self.state[:, 0]
            yield self._over()

    def _lead(self, v: int, forced: bool) -> None:
        short = (2 * int(self.aim[v] - self.kind_error[v]) + self.K) // (2 * self.K)
        if short:
            kernels.match_class_mean(
                *self._cell_sets, self.state, self.z, self.kind, self.free, self.number, self.K,
                self._heat(_HEATS[1]), thresholds(), self.kind_error, v, short, forced,
            )  # fmt: skip

    @property
    def _cell_sets(self) -> tuple[Any, Any]:
        return self.sets.ptr, self.sets.sets

    def _over(self) -> int:
        return int((np.abs(self.error) > self.bound).sum())

    def _classes(self, counted: npt.NDArray[np.bool_]) -> IntArray:
        """The total error of the masks of each true count."""
        error = np.zeros(self.K - 1, dtype=np.int64)
        np.add.at(error, self.kind[counted], (self.K * self.z.astype(np.int64) - self.x)[counted])
        return error

    def final(self) -> IntArray:
        """The errors of all sets, computed anew from the masks."""
        every = np.ones(len(self.z), dtype=bool)
        error: IntArray = kernels.errors_of(*self._cell_sets, self.z, self.x, every, self.K, self.sets.n_sets)
        return self.base + error

    def classes(self) -> IntArray:
        """The errors of all classes, computed anew from the masks."""
        return self.before_classes + self._classes(np.ones(len(self.z), dtype=bool))

    def _heat(self, temperature: Decimal) -> int:
        return int((temperature * self.K**2 * 256).to_integral_value())


@cache
def thresholds() -> IntArray:
    """-ln(u) for evenly spaced chances u, in fixed point.

    Decimal logarithms are rounded the same everywhere; those of the machine are not.
    """
    logs = [-(Decimal(2 * i + 1) / (2 * CHANCES)).ln() for i in range(CHANCES)]
    return np.array([int((log * 2**BITS).to_integral_value()) for log in logs], dtype=np.int64)


@cache
def log_odds(x: int, K: int) -> int:
    """ln(x : K-x) in fixed point."""
    return int(((Decimal(x) / (K - x)).ln() * 2**BITS).to_integral_value())
