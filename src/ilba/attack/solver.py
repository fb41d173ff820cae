"""Ask an exact solver what propagation leaves open: CP-SAT of OR-tools.

The solver gets two kinds of questions about a block of cells. *Certify* fixes everything outside the block as in a
world that fits; each solution is a counterexample for every cell that is not small in it. *Prove* uses only proven
bounds outside the block; if no cell of the block can leave 1..K-1, all of them are proven small. A block that takes too
long stays open.

Without the finest table the masks are unknown too. `WholeRule` then states the whole rule of iLBA: for each cell its
count, and whether it is large, occupied and masked to K; for each aggregate its number of small cells, its block and
its shifts. It is meant for blocks of about ten cells.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import MissingExtra

IntArray: TypeAlias = npt.NDArray[np.int64]
Terms: TypeAlias = Sequence[tuple[int, int]]
"""(factor, variable)"""
When: TypeAlias = Sequence[tuple[int, bool]]
"""(a 0-1 variable, its required value)"""

_GAP = 0.3
"""a world is good enough if nearly the largest possible number of cells leave 1..K-1"""


class Solution(NamedTuple):
    """The solver's answer: "found" with values, "none" if there is no solution, "time" if it gave up."""

    said: str
    values: IntArray


class Program:
    """An integer program, built line by line."""

    def __init__(self) -> None:
        self._cp: Any = _ortools()
        self.model: Any = self._cp.CpModel()
        self._variables: list[Any] = []

    def variable(self, low: int, high: int) -> int:
        """Add an integer variable between two ends; return its number."""
        self._variables.append(self.model.new_int_var(int(low), int(high), ""))
        return len(self._variables) - 1

    def yes(self) -> int:
        """Add a 0-1 variable; return its number."""
        self._variables.append(self.model.new_bool_var(""))
        return len(self._variables) - 1

    def line(self, terms: Terms, low: int | None = None, high: int | None = None, when: When = ()) -> None:
        """Add low <= sum of factor times variable <= high, if all of `when` holds; terms are (factor, variable)."""
        total = self._cp.LinearExpr.weighted_sum([self._variables[v] for _, v in terms], [f for f, _ in terms])
        least = -(2**40) if low is None else int(low)
        most = 2**40 if high is None else int(high)
        stated = self.model.add_linear_constraint(total, least, most)
        if when:
            own = self._variables
            stated.only_enforce_if(*(own[v] if wanted else own[v].negated() for v, wanted in when))

    def most(self, wanted: Sequence[int], seconds: float, hint: Iterable[tuple[int, int]] = ()) -> Solution:
        """Find values that set as many of the wanted 0-1 variables to 1 as possible, at least one."""
        self.model.clear_hints()
        for variable, value in hint:
            self.model.add_hint(self._variables[variable], int(value))
        self.model.clear_objective()
        own = [self._variables[v] for v in wanted]
        if own:
            self.model.maximize(self._cp.LinearExpr.sum(own))
        solver = self._cp.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = max(float(seconds), 0.01)
        solver.parameters.relative_gap_limit = _GAP
        solver.parameters.random_seed = 2010
        said = solver.solve(self.model)
        if said in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return Solution("found", np.array([solver.value(v) for v in self._variables], dtype=np.int64))
        return Solution("none" if said == self._cp.INFEASIBLE else "time", np.zeros(0, np.int64))


def clock() -> float:
    """Seconds of the processor that this process has used: a budget in them is the same on a busy machine."""
    return time.process_time()


def available() -> bool:
    """Whether the solver is installed."""
    try:
        _ortools()
    except MissingExtra:
        return False
    return True


def _ortools() -> Any:
    try:
        from ortools.sat.python import cp_model
    except ModuleNotFoundError:
        raise MissingExtra("the exact solver needs OR-tools. Type: pip install 'ilba[solver]'") from None
    return cp_model


class BlockSums(NamedTuple):
    """Sums over cells of a block: their places, and the interval of each."""

    cells: Sequence[IntArray]
    least: IntArray
    most: IntArray


class Target(NamedTuple):
    """A count that should leave 1..K-1: cells of a block, a constant that is added, and the number of an aggregate."""

    cells: Sequence[int]
    beside: int = 0
    number: int = -1


def leaving(
    K: int,
    low: IntArray,
    high: IntArray,
    sums: BlockSums,
    targets: Sequence[Target],
    seconds: float,
    hint: IntArray | None = None,
) -> Solution:
    """Find counts that fit all sums and make as many targets as possible not small, at least one.

    Parameters
    ----------
    K : int
        The threshold: a target leaves when it is 0, or at least K.
    low : array of int
        The least count of each cell.
    high : array of int
        The largest count of each cell.
    sums : BlockSums
        The known intervals of sums of cells.
    targets : sequence of Target
        The counts that should leave 1..K-1.
    seconds : float
        How long to look.
    hint : array of int, optional
        Counts to begin with.

    Returns
    -------
    Solution
        "none" is a proof that no target can leave. The values are the counts of the cells.
    """
    program = Program()
    cells = [program.variable(a, b) for a, b in zip(low, high, strict=True)]
    for places, least, most in zip(*sums, strict=True):
        program.line([(1, cells[i]) for i in places], int(least), int(most))
    switches = [
        leaves
        for one in targets
        for leaves in _leaves(program, [cells[i] for i in one.cells], K - one.beside, one.beside == 0)
    ]
    if not switches:
        return Solution("none", np.zeros(0, np.int64))
    program.line([(1, switch) for switch in switches], low=1)
    start = () if hint is None else zip(cells, hint.tolist(), strict=True)
    said, values = program.most(switches, seconds, start)
    return Solution(said, values[: len(cells)])


def _leaves(program: Program, cells: Sequence[int], most: int, may_empty: bool) -> list[int]:
    """The 0-1 variables that make a sum 0, or at least `most`."""
    total = [(1, cell) for cell in cells]
    found = []
    if may_empty:
        found.append(program.yes())
        program.line(total, high=0, when=[(found[-1], True)])
    found.append(program.yes())
    program.line(total, low=most, when=[(found[-1], True)])
    return found


class Outside(NamedTuple):
    """What an aggregate holds outside a block, in a world that fits."""

    n_small: int
    at_k: int
    sum_small: int
    sum_large: int


class Aggregate(NamedTuple):
    """A released count over some cells of a block."""

    cells: Sequence[int]
    value: int
    outside: Outside = Outside(0, 0, 0, 0)


class WholeRule:
    """The whole rule of iLBA for a few cells, with or without their masks: which counts and masks give these values."""

    def __init__(
        self, K: int, reading: str, largest: Sequence[int], aggregates: Sequence[Aggregate], masks: Sequence[int] | None
    ) -> None:
        """Take the largest possible count of each cell, and the masks if the finest table is released."""
        self.K, self.reading = K, reading
        self.program = p = Program()
        self.count = [p.variable(0, most) for most in largest]
        self.large = [p.yes() for _ in largest]
        self.at_k = [p.yes() for _ in largest]
        self.occupied = [p.yes() for _ in largest]
        self.small = [p.variable(0, K) for _ in largest]
        for i in range(len(largest)):
            self._cell(i, None if masks is None else int(masks[i]))
        for one in aggregates:
            self._aggregate(one)

    def _cell(self, i: int, mask: int | None) -> None:
        p, K = self.program, self.K
        x, b, m, o, s = self.count[i], self.large[i], self.at_k[i], self.occupied[i], self.small[i]
        p.line([(1, x)], low=K + 1, when=[(b, True)])  # a large count is above K
        p.line([(1, s)], high=0, when=[(b, True)])
        p.line([(1, x)], high=K, when=[(b, False)])
        p.line([(1, s), (-1, x)], 0, 0, when=[(b, False)])
        p.line([(1, x)], low=1, when=[(o, True)])
        p.line([(1, x)], high=0, when=[(o, False)])
        p.line([(1, m), (1, b)], high=1)
        p.line([(1, m), (-1, o)], high=0)
        p.line([(1, x)], high=K - 1, when=[(m, False), (b, False)])  # a count of K is always masked to K
        if mask is not None:
            p.line([(1, b)], int(mask > K), int(mask > K))
            if mask > K:
                p.line([(1, x)], mask, mask)
            else:
                p.line([(1, m)], int(mask == K), int(mask == K))

    def _aggregate(self, one: Aggregate) -> None:
        p, K, cells, beside = self.program, self.K, one.cells, one.outside
        v = int(one.value) - beside.sum_large
        most = K * len(cells) + beside.sum_small
        # F, A and N are the paper's f_S, |S_K| and |S|; R is the released value for the small cells.
        F, R = p.variable(0, most), p.variable(0, max(v, 0))
        p.line([(1, F), *((-1, self.small[i]) for i in cells)], beside.sum_small, beside.sum_small)
        p.line([(1, R), *((1, self.count[i]) for i in cells), *((-1, self.small[i]) for i in cells)], v, v)
        A = [(1, self.at_k[i]) for i in cells]
        N, n = [(-1, self.large[i]) for i in cells], beside.n_small
        if self.reading == "grid":
            n += len(cells)
        else:
            N += [(1, self.occupied[i]) for i in cells]
        a = beside.at_k
        empty, single, several = p.yes(), p.yes(), p.yes()
        p.line([(1, empty), (1, single), (1, several)], 1, 1)
        p.line([(1, F)], high=0, when=[(empty, True)])
        p.line([(1, R)], high=0, when=[(empty, True)])
        p.line([(1, F)], low=1, when=[(empty, False)])
        p.line(N, 1 - n, 1 - n, when=[(single, True)])
        p.line([(1, R), *((-K, i) for _, i in A)], K * a, K * a, when=[(single, True)])
        p.line(N, low=2 - n, when=[(several, True)])
        if len(cells) + beside.n_small < 2:
            p.line([(1, several)], 0, 0)
            return
        block, shifted = p.variable(0, most // K + 1), p.variable(0, most // K + 2)
        up, short, down, first = p.yes(), p.yes(), p.yes(), p.yes()
        many = (several, True)
        p.line([(1, F), (-K, block)], 1, K, when=[many])
        # Type 1: the block begins below |S_K|. Type 2: it ends beyond |S_K| + (K-1)|S|.
        p.line([*A, (-K, block)], low=2 - a, when=[(up, True), many])
        p.line([*A, (-K, block)], high=1 - a, when=[(up, False), many])
        top, reach = [*A, *(((K - 1) * f, i) for f, i in N), (-K, block)], a + (K - 1) * n
        p.line(top, high=K - 1 - reach, when=[(short, True), many])
        p.line(top, low=K - reach, when=[(short, False), many])
        p.line([(1, down), (-1, short)], high=0)
        p.line([(1, down), (1, up)], high=1)
        p.line([(1, down), (1, up), (-1, short)], low=0)
        p.line([(1, shifted), (-1, block), (-1, up), (1, down)], 0, 0)
        p.line([(1, shifted)], high=0, when=[(first, True)])
        p.line([(1, shifted)], low=1, when=[(first, False)])
        p.line([(1, R)], K, K, when=[many, (first, True)])
        p.line([(1, R), (-K, shifted)], 1 + K // 2, 1 + K // 2, when=[many, (first, False)])

    def cover(
        self, sets: Sequence[Sequence[int]], seconds: float, hint: Sequence[int] | None = None
    ) -> tuple[set[int], set[int], set[int]]:
        """Find the sums of cells that can leave 1..K-1, those that cannot and so are proven small, and the open ones.

        Parameters
        ----------
        sets : sequence of sequence of int
            The cells of each sum.
        seconds : float
            How long to look for each world.
        hint : sequence of int, optional
            Counts to begin with.

        Returns
        -------
        tuple of three sets
            The numbers of the sums that can leave, of those that cannot, and of those that are open.
        """
        p, K = self.program, self.K
        switches = [_leaves(p, [self.count[i] for i in cells], K, may_empty=True) for cells in sets]
        can: set[int] = set()
        left = set(range(len(sets)))
        while left:
            wanted = [one for i in sorted(left) for one in switches[i]]
            p.line([(1, one) for one in wanted], low=1)  # sums that left before are not asked for again
            start = () if hint is None else zip(self.count, hint, strict=True)
            said, values = p.most(wanted, seconds, start)
            if said != "found":
                return can, left if said == "none" else set(), left if said == "time" else set()
            counts = [int(values[v]) for v in self.count]
            gone = {i for i in left if not 0 < sum(counts[j] for j in sets[i]) < K}
            if not gone:
                return can, set(), left
            can, left, hint = can | gone, left - gone, counts
        return can, set(), set()
