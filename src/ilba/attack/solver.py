"""Ask an exact solver what propagation leaves open: HiGHS, through scipy.

Two questions are put, each about a block of cells. *Certify*: everything outside the block is as it truly is; a world
that is found is a counterexample for every cell that is not small in it. *Prove*: of the outside only what is proven is
used; when no cell of the block can leave 1..K-1, all of them are proven small. A block that takes too long stays open.

Without the finest table the masks are unknown too. `WholeRule` then states the whole rule of iLBA: for each cell its
count, whether it is large, occupied and masked to K; for each aggregate how many small cells it has, its block and its
shifts. It is meant for blocks of some ten cells.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import MissingExtra

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


class Solution(NamedTuple):
    """What the solver said: "found" with values, "none" where there is no solution, "time" where it gave up."""

    said: str
    values: IntArray


class Program:
    """An integer program that is put together line by line."""

    def __init__(self) -> None:
        self._low: list[int] = []
        self._high: list[int] = []
        self._lines: list[tuple[dict[int, int], float, float]] = []

    def variable(self, low: int, high: int) -> int:
        """A whole number between two ends; its number."""
        self._low.append(int(low))
        self._high.append(int(high))
        return len(self._low) - 1

    def yes(self) -> int:
        """A 0 or 1."""
        return self.variable(0, 1)

    def line(self, terms: Iterable[tuple[int, int]], low: float = -np.inf, high: float = np.inf) -> None:
        """Low <= sum of factor times variable <= high; terms are (factor, variable)."""
        summed: dict[int, int] = {}
        for factor, variable in terms:
            summed[variable] = summed.get(variable, 0) + factor
        self._lines.append((summed, low, high))

    def most(self, wanted: Sequence[int], seconds: float) -> Solution:
        """Find values with as many of the wanted 0 or 1 variables at 1 as possible."""
        milp, constraints, bounds, sparse = _scipy()
        n = len(self._low)
        cost = np.zeros(n)
        cost[list(wanted)] = -1
        number = [i for i, (terms, _, _) in enumerate(self._lines) for _ in terms]
        column = [v for terms, _, _ in self._lines for v in terms]
        factor = [f for terms, _, _ in self._lines for f in terms.values()]
        limits = []
        if self._lines:
            matrix = sparse.csr_array((factor, (number, column)), shape=(len(self._lines), n))
            limits = [constraints(matrix, [low for _, low, _ in self._lines], [high for _, _, high in self._lines])]
        found = milp(
            cost,
            integrality=np.ones(n),
            bounds=bounds(self._low, self._high),
            constraints=limits,
            options={"time_limit": seconds, "mip_rel_gap": 0.3},
        )
        if found.x is not None:
            return Solution("found", np.rint(found.x).astype(np.int64))
        return Solution("none" if found.status == 2 else "time", np.zeros(0, np.int64))


def available() -> bool:
    """Whether the solver is installed."""
    try:
        _scipy()
    except MissingExtra:
        return False
    return True


def _scipy() -> tuple[Any, Any, Any, Any]:
    try:
        from scipy import sparse
        from scipy.optimize import Bounds, LinearConstraint, milp
    except ModuleNotFoundError:
        raise MissingExtra("the exact solver needs scipy. Type: pip install 'ilba[solver]'") from None
    return milp, LinearConstraint, Bounds, sparse


class BlockSums(NamedTuple):
    """BlockSums over cells of a block: their places, and between what each lies."""

    cells: list[IntArray]
    least: IntArray
    most: IntArray


def leaving(
    low: IntArray, high: IntArray, sums: BlockSums, targets: IntArray, alternative: IntArray, seconds: float
) -> Solution:
    """Find counts within all sums in which as many targets as possible have their alternative count, at least one.

    Parameters
    ----------
    low : array of int
        The least count of each cell.
    high : array of int
        The largest count of each cell.
    sums : BlockSums
        What is known of sums of them.
    targets : array of int
        The places of cells that should leave 1..K-1.
    alternative : array of int
        The count, 0 or K, that each cell would leave to.
    seconds : float
        How long to look.

    Returns
    -------
    Solution
        "none" is a proof that no target can leave. The values are the counts of the cells.
    """
    program = Program()
    cells = [program.variable(a, b) for a, b in zip(low, high, strict=True)]
    for places, least, most in zip(*sums, strict=True):
        program.line([(1, cells[i]) for i in places], int(least), int(most))
    leaves = []
    for i in targets:
        if not low[i] <= alternative[i] <= high[i]:
            continue
        switch = program.yes()
        if alternative[i] <= low[i]:  # x <= high when off, and the alternative when on
            program.line([(1, cells[i]), (int(high[i] - alternative[i]), switch)], high=int(high[i]))
        else:
            program.line([(1, cells[i]), (int(low[i] - alternative[i]), switch)], low=int(low[i]))
        leaves.append(switch)
    if not leaves:
        return Solution("none", np.zeros(0, np.int64))
    program.line([(1, switch) for switch in leaves], low=1)
    said, values = program.most(leaves, seconds)
    return Solution(said, values[: len(cells)])


class Aggregate(NamedTuple):
    """A released count over some cells of a block."""

    cells: Sequence[int]
    value: int


class WholeRule:
    """The whole rule of iLBA for a few cells, with or without their masks: what counts and masks give these values?"""

    def __init__(
        self, K: int, reading: str, largest: Sequence[int], aggregates: Sequence[Aggregate], masks: Sequence[int] | None
    ) -> None:
        """Each cell has a largest possible count; masks are given where the finest table is released."""
        self.K, self.reading = K, reading
        self.program = p = Program()
        self.count = [p.variable(0, most) for most in largest]
        self.large = [p.yes() for _ in largest]
        self.at_k = [p.yes() for _ in largest]
        self.occupied = [p.yes() for _ in largest]
        self.small = [p.variable(0, K) for _ in largest]
        self.largest = [max(int(most), K + 1) for most in largest]
        for i in range(len(largest)):
            self._cell(i, None if masks is None else int(masks[i]))
        for one in aggregates:
            self._aggregate(one)

    def _cell(self, i: int, mask: int | None) -> None:
        p, K, most = self.program, self.K, self.largest[i]
        x, b, m, o, s = self.count[i], self.large[i], self.at_k[i], self.occupied[i], self.small[i]
        p.line([(1, x), (-(K + 1), b)], low=0)  # large means more than K
        p.line([(1, x), (-(most - K), b)], high=K)
        p.line([(1, s), (-1, x)], high=0)  # s is x, or 0 where x is large
        p.line([(1, s), (-1, x), (most, b)], low=0)
        p.line([(1, s), (K, b)], high=K)
        p.line([(1, m), (1, b)], high=1)
        p.line([(1, m), (-1, o)], high=0)
        p.line([(1, x), (-1, m), (-most, b)], high=K - 1)  # K itself is always masked to K
        p.line([(1, x), (-1, o)], low=0)
        p.line([(1, x), (-most, o)], high=0)
        if mask is not None:
            p.line([(1, b)], int(mask > K), int(mask > K))
            if mask > K:
                p.line([(1, x)], mask, mask)
            else:
                p.line([(1, m)], int(mask == K), int(mask == K))

    def _aggregate(self, one: Aggregate) -> None:
        p, K, cells = self.program, self.K, one.cells
        F = [(1, self.small[i]) for i in cells]
        rest = [(-1, self.count[i]) for i in cells] + F  # value + rest is what is released for the small cells
        A = [(1, self.at_k[i]) for i in cells]
        if self.reading == "grid":
            N, none = [(-1, self.large[i]) for i in cells], len(cells)  # number of small cells, less `none`
        else:
            N, none = [(1, self.occupied[i]) for i in cells] + [(-1, self.large[i]) for i in cells], 0
        v, far = int(one.value), 4 * K * (len(cells) + 2) + 4 * int(one.value)
        empty, single, several = p.yes(), p.yes(), p.yes()
        p.line([(1, empty), (1, single), (1, several)], 1, 1)
        p.line(rest, low=-v)
        p.line([*F, (far, empty)], high=far)
        p.line([*rest, (far, empty)], high=far - v)
        p.line([*F, (1, empty)], low=1)
        p.line([*N, (far, single)], high=far + 1 - none)
        p.line([*N, (-far, single)], low=1 - none - far)
        masked = [(-K, i) for _, i in A]
        p.line([*rest, *masked, (far, single)], high=far - v)
        p.line([*rest, *masked, (-far, single)], low=-far - v)
        p.line([*N, (-2, several)], low=-none)
        if not cells or len(cells) == 1:
            p.line([(1, several)], 0, 0)
            return
        block = p.variable(0, len(cells) + 1)
        up, short, down, first = p.yes(), p.yes(), p.yes(), p.yes()
        in_block = [*F, (-K, block)]
        p.line([*in_block, (-far, several)], low=1 - far)
        p.line([*in_block, (far, several)], high=K + far)
        # Type 1: the block begins below |S_K|. Type 2: it ends beyond |S_K| + (K-1)|S|.
        p.line([*A, (-K, block), (-far, up), (-far, several)], low=2 - 2 * far)
        p.line([*A, (-K, block), (-far, up), (far, several)], high=1 + far)
        top = [*A, *(((K - 1) * f, i) for f, i in N), (-K, block)]
        p.line([*top, (far, short), (far, several)], high=K - 1 + 2 * far - (K - 1) * none)
        p.line([*top, (far, short), (-far, several)], low=K - far - (K - 1) * none)
        p.line([(1, down), (-1, short)], high=0)
        p.line([(1, down), (1, up)], high=1)
        p.line([(1, down), (1, up), (-1, short)], low=0)
        moved = [(1, block), (1, up), (-1, down)]
        p.line([*moved, (far, first)], high=far)
        p.line([*moved, (1, first)], low=1)
        p.line([*rest, (far, several), (far, first)], high=K - v + 2 * far)
        p.line([*rest, (-far, several), (-far, first)], low=K - v - 2 * far)
        apart = [*rest, *((-K * f, i) for f, i in moved)]
        p.line([*apart, (far, several), (-far, first)], high=1 + K // 2 - v + far)
        p.line([*apart, (-far, several), (far, first)], low=1 + K // 2 - v - far)

    def cover(self, sets: Sequence[Sequence[int]], seconds: float) -> tuple[set[int], set[int], set[int]]:
        """Which sums of cells can leave 1..K-1, which cannot and so are proven small, and which are open.

        Parameters
        ----------
        sets : sequence of sequence of int
            The cells of each sum.
        seconds : float
            How long to look for each world.

        Returns
        -------
        tuple of three sets
            Numbers of sums: those that can, those that cannot, and those of which nothing is known.
        """
        p, K, switches = self.program, self.K, []
        for cells in sets:
            leaves, up = p.yes(), p.yes()
            total = [(1, self.count[i]) for i in cells]
            far = sum(self.largest[i] for i in cells) + K
            p.line([*total, (far, leaves), (-far, up)], high=far)  # down to 0
            p.line([*total, (-far, leaves), (-far, up)], low=K - 2 * far)  # or up to K
            switches.append(leaves)
        can: set[int] = set()
        left = set(range(len(sets)))
        while left:
            p.line([(1, switches[i]) for i in left], low=1)
            said, values = p.most([switches[i] for i in left], seconds)
            p._lines.pop()
            if said != "found":
                return can, left if said == "none" else set(), left if said == "time" else set()
            gone = {i for i in left if not 0 < sum(int(values[self.count[j]]) for j in sets[i]) < K}
            if not gone:
                return can, set(), left
            can |= gone
            left -= gone
        return can, set(), set()
