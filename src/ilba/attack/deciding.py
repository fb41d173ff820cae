"""Decide what the attack leaves open: counterexamples by mending, then an exact solver, block by block.

Blocks with most open cells come first, and the work ends when its time is over. What is then still open is undecided,
and the report says how many cells that are.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import LOOKS, with_counterexample
from ilba.attack.intervals import Intervals, at, open_cells
from ilba.attack.lattice import Node, table_of
from ilba.attack.published import PublishedTables
from ilba.attack.solver import Aggregate, BlockSums, WholeRule, leaving

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MOST_OPEN = 30_000_000
"""open cells times tables that are kept at once while counterexamples are looked for"""
_BLOCK = 300
"""open cells that the solver is asked about at once"""
_FEW = 12
"""cells of a block where the masks are unknown too"""


class Decided(NamedTuple):
    """What was found out about the small cells that propagation left open."""

    proven: IntArray
    """finest cells that the solver proved to be small, as integers"""
    certified: int
    """small cells with a counterexample"""
    aggregates: dict[Node, IntArray]
    """cells of coarser tables that the solver proved to be small"""
    late: int
    """blocks that the solver gave up, or never came to"""


def decide(attack: Attack, seconds: float = 0.0) -> Decided:
    """Look for counterexamples, and for `seconds` ask the solver about the rest.

    Parameters
    ----------
    attack : Attack
        An attack that has run.
    seconds : float, default 0
        How long the solver may be asked; 0 for not at all.

    Returns
    -------
    Decided
        What is proven, what is certified, and what was given up.
    """
    rows = attack.published.base
    if rows is None or rows.truth is None:
        return Decided(np.zeros(0, np.int64), 0, {}, 0)
    if not attack.published.split:
        return _without_the_finest(attack, seconds)
    return _with_the_finest(attack, seconds)


def _with_the_finest(attack: Attack, seconds: float) -> Decided:
    published = attack.published
    rows, K = published.base, published.K
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
    packed, low, high = open_cells(attack)
    counts = at(rows.packed, np.where(rows.truth.sum_large > 0, 0, rows.truth.sum_small), packed)
    part = max(MOST_OPEN // max(len(published.tables), 1), 1)
    is_open = np.flatnonzero(low < high)
    certified, late, proven = 0, 0, []
    end = time.monotonic() + seconds
    for first in range(0, len(is_open), part):  # what lies outside a part stays as it truly is
        inside = np.zeros(len(packed), dtype=bool)
        inside[is_open[first : first + part]] = True
        known = Intervals.of(published, (packed, np.where(inside, low, counts), np.where(inside, high, counts)))
        own = counts[inside]
        targets = (own > 0) & (own < K) & ~((known.low >= 1) & (known.high < K))
        safe, world = with_counterexample(known, own, targets, LOOKS // (1 + len(is_open) // part))
        if seconds:
            asked = _Asked(known, world, targets & ~safe, end)
            if len(is_open) <= part:  # proofs need all open cells at hand
                asked.prove()
            asked.certify()
            safe |= asked.safe
            proven.append(known.packed[asked.proven])
            late += asked.late
        certified += int(safe.sum())
    return Decided(np.concatenate(proven) if proven else np.zeros(0, np.int64), certified, {}, late)


class _Asked:
    """Blocks of open cells, and what the solver says about them."""

    def __init__(self, known: Intervals, world: IntArray, targets: BoolArray, end: float) -> None:
        self.known, self.world, self.targets, self.end = known, world.copy(), targets, end
        self.safe: BoolArray = np.zeros(len(world), dtype=bool)
        self.proven: BoolArray = np.zeros(len(world), dtype=bool)
        self.late = 0

    @property
    def left(self) -> BoolArray:
        """The cells that are still open."""
        return self.targets & ~self.safe & ~self.proven

    def blocks(self) -> list[IntArray]:
        """Cells that share an aggregate of moderate size, those with most open targets first."""
        known, found = self.known, []
        best: tuple[int, int] = (0, 0)
        for table in range(known.member.shape[1]):
            size = np.bincount(known.member[:, table] - known.first[table])
            largest = int(size.max(initial=0))
            if largest <= _BLOCK and largest > best[0]:
                best = largest, table
        if known.member.shape[1]:
            own = known.member[:, best[1]]
            order = np.argsort(own, kind="stable")
            found = np.split(order, np.flatnonzero(np.diff(own[order])) + 1)
        return sorted((b for b in found if self.left[b].any()), key=lambda b: -int(self.left[b].sum()))

    def _sums(self, block: IntArray, rest_low: IntArray, rest_high: IntArray) -> BlockSums:
        """The sums that touch a block; `rest` is what lies outside of it."""
        known = self.known
        inside = np.zeros(len(self.world), dtype=bool)
        inside[block] = True
        member = known.member[block]
        used = np.unique(member)
        cells = [np.flatnonzero((member == a).any(axis=1)) for a in used]
        return BlockSums(cells, known.least[used] - rest_high[used], known.most[used] - rest_low[used])

    def prove(self) -> None:
        """Of the outside only what is proven: no solution is a proof."""
        known = self.known
        for block in self.blocks():
            maybe: set[int] = set()
            while True:
                targets = np.array([i for i in np.flatnonzero(self.left[block]) if i not in maybe], dtype=np.int64)
                if not len(targets):
                    break
                left = self.end - time.monotonic()
                if left <= 0:
                    self.late += 1
                    return
                outside = np.ones(len(self.world), dtype=np.int64)
                outside[block] = 0
                sums = self._sums(block, known.sums(known.low * outside), known.sums(known.high * outside))
                said, values = leaving(
                    known.low[block], known.high[block], sums, targets, known.alternative[block], min(left, 5.0)
                )
                if said == "found":
                    gone = {int(i) for i in targets if values[i] == known.alternative[block[i]]}
                    maybe |= gone
                    if gone:
                        continue
                elif said == "none":
                    self.proven[block[targets]] = True
                else:
                    self.late += 1
                break

    def certify(self) -> None:
        """The outside as it is in a world that fits: what is found is another world."""
        known = self.known
        for block in self.blocks():
            while True:
                targets = np.flatnonzero(self.left[block])
                left = self.end - time.monotonic()
                if not len(targets) or left <= 0:
                    break
                outside = self.world.copy()
                outside[block] = 0
                rest = known.sums(outside)
                said, values = leaving(
                    known.low[block], known.high[block], self._sums(block, rest, rest), targets,
                    known.alternative[block], min(left, 5.0),
                )  # fmt: skip
                if said != "found":
                    self.late += said == "time"
                    break
                other = self.world.copy()
                other[block] = values
                if not known.fits(other):  # the number of occupied cells is not part of the program
                    break
                before = int(self.left.sum())
                self.world = other
                self.safe |= self.targets & (other == known.alternative)
                if int(self.left.sum()) == before:
                    break


def _without_the_finest(attack: Attack, seconds: float) -> Decided:
    """The masks are unknown: the whole rule, for blocks of a few cells and the aggregates inside them."""
    published = attack.published
    nothing = Decided(np.zeros(0, np.int64), 0, {}, 0)
    finest = tuple(listed.depth for listed in published.codes.lists)
    if not seconds or published.lattice.base != finest or published.policy.scheme != "ilba" or published.policy.listed:
        return nothing
    end = time.monotonic() + seconds
    proven: list[int] = []
    aggregates: dict[Node, list[int]] = {}
    late = 0
    for block in _small_blocks(published):
        left = end - time.monotonic()
        if left <= 0:
            late += 1
            continue
        rule = WholeRule(published.K, published.cells, block.largest, block.aggregates, None)
        _, cannot, unknown = rule.cover([target for target, _, _ in block.targets], min(left, 2.0))
        late += bool(unknown)
        for number in cannot:
            _, node, cell = block.targets[number]
            if node == finest:
                proven.append(cell)
            else:
                aggregates.setdefault(node, []).append(cell)
    return Decided(
        np.array(sorted(proven), dtype=np.int64), 0, {n: np.array(sorted(c)) for n, c in aggregates.items()}, late
    )


class _FewCells(NamedTuple):
    largest: list[int]
    aggregates: list[Aggregate]
    targets: list[tuple[list[int], Node, int]]
    """cells of each target, its table and its number in that table"""
    total: int


def _small_blocks(published: PublishedTables) -> list[_FewCells]:
    """The cells of an area with the same values of some keys, the smallest published totals first."""
    lattice, base = published.lattice, published.lattice.base
    if lattice.width(base) * published.codes.lists[0].size(base[0]) <= _FEW:
        return list(_everything(published))
    shape = lattice.shape(base)
    own = [node for node in published.tables if node[0] == base[0]]
    best: tuple[int, tuple[int, ...]] | None = None
    for number in range(len(shape) + 1):
        for fixed in itertools.combinations(range(len(shape)), number):
            free = math.prod(size for d, size in enumerate(shape) if d not in fixed)
            inside = sum(all(node[d + 1] == base[d + 1] for d in fixed) for node in own)
            if free <= _FEW and inside >= 2 and (best is None or inside > best[0]):
                best = inside, fixed
        if best is not None:
            break
    if best is None:
        return []
    nodes = [node for node in own if all(node[d + 1] == base[d + 1] for d in best[1])]
    return sorted(_filled(published, nodes, best[1]), key=lambda block: block.total)


def _everything(published: PublishedTables) -> Iterator[_FewCells]:
    """All cells as one block, with every released table."""
    rows, codes, base = published.base, published.codes, published.lattice.base
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
    cells = np.arange(published.lattice.width(base) * codes.lists[0].size(base[0]))
    true = at(rows.packed, rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large, cells)
    index = codes.cell_index(table_of(codes.design, base))
    groups, shown = [], {}
    for node, table in published.tables.items():
        target = codes.cell_index(table_of(codes.design, node))
        places = index.project([cells], target, codes.lists)[0] if target.places else np.zeros(len(cells), np.int64)
        shown[node] = at(table.packed, table.value, np.arange(int(places.max()) + 1))[:, None]
        groups += [(node, int(place), np.flatnonzero(places == place).tolist()) for place in np.unique(places)]
    yield from _block(published, true, cells, groups, shown, 0, 0, published.K)


def _filled(published: PublishedTables, nodes: list[Node], fixed: tuple[int, ...]) -> Iterator[_FewCells]:
    """Each block with its released values, its largest possible counts and what could be proven of it."""
    lattice, base, K = published.lattice, published.lattice.base, published.K
    rows = published.base
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
    areas, shape = published.codes.lists[0].size(base[0]), lattice.shape(base)
    true: Any = np.zeros((lattice.width(base), areas), dtype=np.int64)
    _, area, cell = published.place(base, rows, 0, areas)
    true[cell, area] = rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large
    true = true.reshape(*shape, areas)
    shown = {node: published.dense(node, 0, areas, published.tables[node].value) for node in nodes}
    width = lattice.width(base)
    numbers = np.arange(width).reshape(shape)
    for values in itertools.product(*(range(shape[d]) for d in fixed)):
        cut: list[Any] = [slice(None)] * len(shape)
        for d, value in zip(fixed, values, strict=True):
            cut[d] = slice(value, value + 1)
        cells = numbers[tuple(cut)].reshape(-1)
        places = np.array(np.unravel_index(cells, shape))
        groups = []
        for node in nodes:
            parents = [
                published.codes.lists[d + 1].parents(base[d + 1], node[d + 1])[places[d]] for d in range(len(shape))
            ]
            flat = np.ravel_multi_index(parents, lattice.shape(node)) if shape else np.zeros(len(cells), int)
            groups += [(node, int(g), np.flatnonzero(flat == g).tolist()) for g in np.unique(flat)]
        for a in range(areas):
            yield from _block(published, true[(*tuple(cut), a)].reshape(-1), cells, groups, shown, a, width, K)


def _block(
    published: PublishedTables,
    true: IntArray,
    cells: IntArray,
    groups: list[Any],
    shown: Any,
    a: int,
    width: int,
    K: int,
) -> Iterator[_FewCells]:
    if not ((true > 0) & (true < K)).any():
        return
    lattice, base = published.lattice, published.lattice.base
    largest = np.full(len(cells), 2**20)
    aggregates, targets = [], [([i], base, int(a * width + cells[i])) for i in range(len(cells)) if 0 < true[i] < K]
    total = 0
    for node, group, members in groups:
        value = int(shown[node].reshape(-1, shown[node].shape[-1])[group, a])
        aggregates.append(Aggregate(members, value))
        largest[members] = np.minimum(largest[members], value + 2 * K)
        total = max(total, value)
        if 0 < true[members].sum() < K:
            targets.append((members, node, a * lattice.width(node) + group))
    yield _FewCells(largest.tolist(), aggregates, targets, total)
