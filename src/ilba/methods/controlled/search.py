"""Controlled SCA: masks chosen jointly, so that plain sums of the masked finest table stay near the truth.

SCA draws each mask by itself; the errors of a large sum add up. Here the masks of the counts 1..K-1 are chosen with
all tables in view that are to be released: still 0 or K each, still right on average for each count, but such that
the error of every aggregate stays within a bound. What is published is a function of the masked finest table alone,
and that is what makes it safe; `docs/understand/controlled.md` has the proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeLists
from ilba.design.design import Selection
from ilba.design.labels import label_text
from ilba.errors import InputError, notice, some
from ilba.methods.loss import usual_bound
from ilba.progress import Progress, ProgressStep, silent

IntArray: TypeAlias = npt.NDArray[np.int64]

# Found by trial on a census of a million people; results depend on every one of them.
_WALK_HEAT = Decimal(4)
_SWEEPS = 10
_HEATS = Decimal(4), Decimal("0.5")
_STIFFNESS = 5  # pull of a class towards its mean, per set of an average cell
# Raise the bound after looking at so many flips per cell without getting on: few where many aggregates are left and
# it is hopeless, many where few are; or after so many passes over those aggregates.
_PATIENCE = 3, 20
_FEW = 200  # few: fewer than one for so many cells
_PASSES = 1000
_NEAR_ENOUGH = 100  # a mean within a hundredth of the count is not worth breaking bounds that have to be repaired
_TINY = 3  # a class of up to so many times K cells is too small for the same number of masks under every secret
_LARGEST = 1_000  # a larger K would leave the range of the fixed-point numbers


@dataclass(frozen=True)
class Chosen:
    """For which tables masks were chosen jointly, and the bound that was asked for: what a store keeps of it."""

    tables: tuple[str, ...]
    """the names of the tables"""
    bound: int | None
    """as asked for; None when nobody asked"""
    held: bool
    """whether the bound asked for (or else the usual one) holds for every count of these tables"""

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values, for a file.

        Returns
        -------
        dict
            The bound, whether it is held, and the names of the tables.
        """
        return {"bound": self.bound, "held": self.held, "tables": list(self.tables)}

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Chosen:
        """Take it back from plain values.

        Parameters
        ----------
        plain : dict
            What `to_json` gave.

        Returns
        -------
        Chosen
            The same as before.
        """
        bound = None if plain["bound"] is None else int(plain["bound"])
        return cls(tuple(str(name) for name in plain["tables"]), bound, bool(plain["held"]))


@dataclass(frozen=True)
class Control:
    """What the methodologist should know of a choice of masks. Confidential: no part of it may be published.

    If the masked table were the truth, all errors were 0. A reached bound, a loss or a number of moved cells would
    tell that world from the real one, and the proof of safety needs the two to look the same.
    """

    tables: int
    """for how many tables masks were chosen"""
    cells: int
    """cells with a count of 1..K-1, whose masks could be chosen"""
    bound: int
    """the bound that was worked for"""
    reached: int
    """the largest error of a count in the tables"""
    over: int
    """how many counts in the tables are over the bound"""
    kept: int = 0
    """cells that had the same count in the previous wave"""
    moved: int = 0
    """those of them whose mask had to change all the same"""
    interrupted: bool = False
    """whether the work was broken off; the same call would then give other masks"""

    @property
    def held(self) -> bool:
        """Whether every count is within the bound."""
        return self.over == 0

    def __str__(self) -> str:
        text = f"{some(self.tables, 'table')}, {some(self.cells, 'small cell')}: bound {self.bound} "
        text += "held" if self.held else f"not held by {some(self.over, 'count')}; {self.reached} reached"
        if self.kept:
            text += f"; {self.moved:,} of {some(self.kept, 'unchanged cell')} moved"
        return text + ("; interrupted" if self.interrupted else "") + " (confidential)"


def canonical_order(codes: CodeLists, words: Sequence[IntArray]) -> IntArray:
    """An order of packed cells that only the labels decide, not their types or the order of the columns.

    Masks are chosen cell after cell. "10" stands before "9" as text and after it as a number; one result for the same
    data from any source needs one order.
    """
    design = codes.design
    digits = codes.finest.digits(words)
    ranks: dict[tuple[bool, tuple[str, ...]], IntArray] = {}
    for place, listed in enumerate(codes.lists):
        columns = [[label_text(label) for label in column.to_list()] for column in listed.labels.get_columns()]
        paths = [tuple((text is not None, text or "") for text in path) for path in zip(*columns, strict=True)]
        rank = np.empty(len(paths), dtype=np.int64)
        rank[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(len(paths))
        ranks[place >= len(design.hierarchies), tuple(listed.columns)] = rank[digits[place]]
    return np.lexsort([ranks[name] for name in sorted(ranks, reverse=True)])


def choose(
    codes: CodeLists,
    words: Sequence[IntArray],
    count: IntArray,
    masked: IntArray,
    numbers: Callable[[Sequence[IntArray], IntArray], IntArray],
    wanted: Sequence[Selection],
    bound: int | None = None,
    previous: IntArray | None = None,
    progress: Progress | None = None,
) -> tuple[IntArray, Control]:
    """The masked counts of all cells, with those of the counts 1..K-1 chosen jointly.

    `masked` are their keyed SCA draws, `numbers` gives each cell its keyed number, and `previous` its masked count in
    the wave before where its count was the same, else -1.
    """
    K = codes.design.threshold
    if K > _LARGEST:
        raise InputError(f"masks are chosen jointly for a threshold of up to {_LARGEST:,}; this one is {K:,}.")
    limit = usual_bound(K) if bound is None else bound_of(bound, K)
    small = np.flatnonzero(count < K)
    small = small[canonical_order(codes, [word[small] for word in words])]
    cells = [word[small] for word in words]
    from ilba.methods.controlled.incidence import incidence

    problem = _Problem(
        incidence(codes, cells, wanted), K, limit, count[small], masked[small] == K, numbers(cells, count[small])
    )
    if previous is not None:
        problem.keep(previous[small])
    problem.solve(progress)
    result = masked.copy()
    result[small] = K * problem.z.astype(np.int64)
    return result, problem.report(len(wanted))


def bound_of(bound: object, K: int) -> int:
    """A bound given by the user as a whole number that can be held at all."""
    if isinstance(bound, bool) or not isinstance(bound, int | np.integer) or not K - 1 <= bound < 2**15:
        raise InputError(
            f"bound={bound!r} is not a whole number from {K - 1} to 32,767. A small cell alone is up to K-1 off; "
            f"the usual bound is {usual_bound(K)}."
        )
    return int(bound)


class _Problem:
    """The masks of the small cells, and what is done to them."""

    def __init__(
        self,
        incidence: Any,
        K: int,
        bound: int,
        x: IntArray,
        drawn: npt.NDArray[np.bool_],
        number: IntArray,
    ) -> None:
        from ilba.methods.controlled import kernels

        if len(x) * K >= 2**31:
            raise InputError(f"{some(len(x), 'small cell')} are too many to choose masks for jointly.")
        self.flips = kernels
        self.incidence, self.K, self.bound = incidence, K, bound
        self.x = x.astype(np.int16)
        self.z = drawn.astype(np.int8)
        self.number = number.astype(np.uint64)
        degree = np.diff(incidence.ptr)
        # A cell that shares no aggregate with another small cell has nothing to make up for: its draw stands.
        self.free = (degree > 0).astype(np.int8)
        self.before: npt.NDArray[np.int8] | None = None
        counts, kind = np.unique(x, return_inverse=True)
        self.kind = kind.astype(np.int16)
        self.log_odds = np.array([_log_odds(int(v), K) for v in counts], dtype=np.int64)
        self.kind_size = np.bincount(kind, minlength=len(counts)).astype(np.int64)
        self.aim = self._aims(counts)
        # One flip in a small class must not decide the next one: it changes the pull by about one at most.
        self.stiff = np.clip(self.kind_size // K, 1, max(50, _STIFFNESS * len(incidence.sets) // max(len(x), 1)))
        self.widest = int(degree.max(initial=1))
        self.interrupted = False
        self.stay = 0
        self.error: Any = None

    def keep(self, previous: IntArray) -> None:
        """Take over the masks of the wave before (-1: none), which stay."""
        self.before = np.where(previous < 0, -1, previous > 0).astype(np.int8)
        kept = self.before >= 0
        self.z[kept] = self.before[kept]
        self.free[kept] = 0

    def solve(self, progress: Progress | None) -> None:
        """Walk, sweep, repair. After an interruption the best masks so far stand."""
        tell = progress or silent

        def told(part: str, over: int, done: int = 0, total: int | None = None) -> None:
            tell(ProgressStep("choosing masks", done, total, f"{part}: {over:,} over the bound"))

        best = self.z.copy()
        try:
            self._walk()
            best = self.z.copy()
            told("walk", self._over(), 1, 1 + _SWEEPS)
            for step in range(1, _SWEEPS + 1):
                self._sweep(step)
                told("sweep", self._over(), 1 + step, 1 + _SWEEPS)
            best = self.z.copy()
            fewest = self._over()
            for over in self._repair():
                if over <= fewest:
                    fewest, best = over, self.z.copy()
                told("repair", over)
            for over in self._settle():
                told("settle", over)
        except KeyboardInterrupt:
            self.interrupted = True
            self.z = best
            notice(
                "interrupted: these are the best masks so far. The whole work would choose others, and publishing "
                "both gives counts away. Let it finish before you publish."
            )

    def _walk(self) -> None:
        fixed = self.free == 0
        self.error = self.flips.errors_of(*self._cell_sets, self.z, self.x, fixed, self.K, self.incidence.n_sets)
        self.kind_error = self._classes(fixed)
        self.flips.self_balancing_walk(
            *self._cell_sets, self.error, self.z, self.x, self.kind, self.free, self.number, self.K,
            self._heat(_WALK_HEAT), thresholds(), self.log_odds, self.kind_error, self.kind_size, self.stiff,
        )  # fmt: skip
        self.kind_error = self._classes(np.ones(len(self.z), dtype=bool))

    def _sweep(self, step: int) -> None:
        first, last = _HEATS
        heat = first * ((last / first).ln() * (step - 1) / (_SWEEPS - 1)).exp()
        self.flips.sweep(
            *self._cell_sets, self.error, self.z, self.kind, self.free, self.number, step, self.K,
            self._heat(heat), thresholds(), self.log_odds, self.kind_error, self.kind_size, self.stiff,
        )  # fmt: skip
        if self.before is None:
            # What holds a class off its mean is still there in the next sweep: meet it with a lasting pull. (Where
            # most masks are kept they may be what holds it, and the few others could not make up for them.)
            one = 1 << self.flips.BITS
            self.log_odds -= self.stiff * np.clip(self.kind_error * one // self.kind_size, -one, one)

    def _repair(self) -> Iterator[int]:
        """Work on the aggregates over the bound until there are none, yielding how many there are.

        Where that does not get on, the bound is raised by one, or by an eighth of a large one. Only what is over the
        raised bound is worked on then, so most aggregates stay within the first one. Masks of the wave before never
        move.
        """
        self.state = np.empty((self.incidence.n_sets, 2), dtype=np.int32)
        self.state[:, 0], self.state[:, 1] = self.error, self.flips.WEIGHT
        self.error = self.state[:, 0]
        self.h = self.flips.mixed(self.number.sum(dtype=np.uint64))
        self.within = self.bound
        while True:
            yield from self._press()
            if not self.flips.over(self.state, self.within):
                return
            self.within += max(1, self.within // 8)

    def _press(self, level: bool = False) -> Iterator[int]:
        """Work on the aggregates over the bound until there are none or it does not get on."""
        incidence, n = self.incidence, len(self.z)
        home = np.full(n, -1, dtype=np.int8) if self.before is None else self.before
        look = np.zeros(n, dtype=np.int32)
        age = looked = passed = 0
        over = least = self.flips.over(self.state, self.within)
        worn = True
        while over:
            passes = max(1, min(20, 20_000 // over))
            over, self.h, flips = self.flips.repair(
                *self._cell_sets, incidence.first, incidence.cells, self.state, self.z, self.kind, self.free, home,
                self.stay, self.K, self.within, thresholds(), self.log_odds, self.kind_error, self.kind_size,
                self.stiff, self.aim, level, np.uint64(self.h), passes, look, worn, self.widest,
            )  # fmt: skip
            yield self._over()
            age = flips if worn else age + flips
            worn = age > 2 * n
            looked, passed = looked + flips, passed + passes
            if over < least - least // 10:
                least, looked, passed = over, 0, 0
            elif looked > _PATIENCE[over * _FEW < n] * n + 10_000 or passed > _PASSES:
                return

    def _settle(self) -> Iterator[int]:
        """Give each class the number of masks that it aims at, within the bound that was reached.

        Flips that break no bound come first. What is missing then is flipped all the same where the mean is not near
        enough, and repaired by pairs of one class, which leave all numbers as they are; a class for which that fails
        stays where it was.
        """
        if self.before is not None:
            # Masks of the wave before do not move for the sake of a mean.
            self.free = self.free & (self.before != self.z)
        for v in range(len(self.aim)):
            self._lead(v, forced=False)
        for v in range(len(self.aim)):
            near = _NEAR_ENOUGH * abs(self.kind_error[v]) <= self.kind_size[v]
            if near or self.kind_error[v] == self.aim[v]:
                continue
            z, state, kind_error = self.z.copy(), self.state.copy(), self.kind_error.copy()
            self._lead(v, forced=True)
            self.state[:, 1] = self.flips.WEIGHT
            yield from self._press(level=True)
            if self.flips.over(self.state, self.within):
                self.z, self.kind_error = z, kind_error
                self.state[:] = state
            yield self._over()

    def _lead(self, v: int, forced: bool) -> None:
        short = int(self.aim[v] - self.kind_error[v]) // self.K
        if short:
            self.flips.match_class_mean(
                *self._cell_sets, self.error, self.z, self.kind, self.free, self.number, self.K, self._heat(_HEATS[1]),
                self.within, thresholds(), self.kind_error, v, short, forced,
            )  # fmt: skip

    def _aims(self, counts: IntArray) -> IntArray:
        """The error of each class when x : K of its cells are masked to K, as nearly as its size allows.

        In a tiny class the nearest number would fix the masks of some cells; there a keyed chance rounds up or down, so
        that the expected number is exact.
        """
        aims = np.empty(len(counts), dtype=np.int64)
        for v, (x, size) in enumerate(zip(counts.tolist(), self.kind_size.tolist(), strict=True)):
            masks, rest = divmod(x * size, self.K)
            drawn = int(self.flips.mixed(self.number[self.kind == v].sum(dtype=np.uint64))) % self.K
            up = drawn < rest if size <= _TINY * self.K or 2 * rest == self.K else 2 * rest > self.K
            aims[v] = self.K * (masks + up) - x * size
        return aims

    @property
    def _cell_sets(self) -> tuple[Any, Any]:
        return self.incidence.ptr, self.incidence.sets

    def _over(self) -> int:
        return int((np.abs(self.error) > self.bound).sum())

    def _classes(self, counted: npt.NDArray[np.bool_]) -> IntArray:
        """By how much the masks of each true count are off together."""
        error = np.zeros(len(self.log_odds), dtype=np.int64)
        np.add.at(error, self.kind[counted], (self.K * self.z.astype(np.int64) - self.x)[counted])
        return error

    def _heat(self, temperature: Decimal) -> int:
        return int((temperature * self.K**2 * 256).to_integral_value())

    def report(self, tables: int) -> Control:
        """What came out, counted anew from the masks."""
        incidence = self.incidence
        every = np.ones(len(self.z), dtype=bool)
        error = np.abs(self.flips.errors_of(*self._cell_sets, self.z, self.x, every, self.K, incidence.n_sets))
        own = np.abs(self.K * self.z.astype(np.int64) - self.x)[incidence.alone > 0]
        kept = np.zeros(len(self.z), dtype=bool) if self.before is None else self.before >= 0
        return Control(
            tables=tables,
            cells=len(self.z),
            bound=self.bound,
            reached=max(int(error.max(initial=0)), int(own.max(initial=0))),
            over=int(incidence.times[error > self.bound].sum()),
            kept=int(kept.sum()),
            moved=0 if self.before is None else int((self.z[kept] != self.before[kept]).sum()),
            interrupted=self.interrupted,
        )


@cache
def thresholds() -> IntArray:
    """-ln(u) for the evenly spread chances u, in fixed point.

    Decimal logarithms are rounded the same everywhere, those of the machine are not.
    """
    from ilba.methods.controlled.kernels import BITS, CHANCES

    logs = [-(Decimal(2 * i + 1) / (2 * CHANCES)).ln() for i in range(CHANCES)]
    return np.array([int((log * 2**BITS).to_integral_value()) for log in logs], dtype=np.int64)


def _log_odds(x: int, K: int) -> int:
    from ilba.methods.controlled.kernels import BITS

    return int(((Decimal(x) / (K - x)).ln() * 2**BITS).to_integral_value())


def mean_masks(count: IntArray, masked: IntArray, K: int) -> dict[int, float]:
    """The mean masked count of the cells with each true count of 1..K-1 (confidential); unbiased masks give x for x.

    >>> mean_masks(np.array([1, 1, 2, 9]), np.array([0, 5, 0, 9]), K=5)
    {1: 2.5, 2: 0.0}
    """
    small = (count > 0) & (count < K)
    sizes = np.bincount(count[small])
    sums = np.bincount(count[small], weights=masked[small])
    return {int(x): float(sums[x] / sizes[x]) for x in np.flatnonzero(sizes)}
