"""Exact answers for a few cells at a time: the solver with the whole rule of iLBA.

Without the finest table the masks are unknown, and propagation proves little. A block is the cells of one area that
share the values of some keys. It is small enough for a solver that knows the whole rule. *Prove* uses only aggregates
inside the block, so cells that cannot leave 1..K-1 are proven. *Certify* fixes everything outside the block as in a
world that fits, and uses every released table that touches the block; a cell that leaves has a counterexample. Blocks
with the smallest published totals come first. A design of a dozen cells is one block with every table. It is decided
completely, with the finest table or without it.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.intervals import at
from ilba.attack.lattice import Node
from ilba.attack.published import PublishedTables
from ilba.attack.solver import Aggregate, Outside, WholeRule, clock
from ilba.attack.unmasked import projected, sizes_of, true_counts

IntArray: TypeAlias = npt.NDArray[np.int64]
Numbers: TypeAlias = Mapping[Node, IntArray]
"""cells of tables, as integers, sorted"""

_FEW = 12
"""the size of a block, where the tables allow it"""
_MORE = 60
"""the size of a block otherwise"""
_PATIENCE = 2.0
"""seconds for one question"""
_FAR = 2**20
"""larger than any count"""
_NOTHING: IntArray = np.zeros(0, np.int64)

NOT_ASKED = "the solver was not asked (solver_seconds=60 or --solver-seconds 60)"
NO_TIME = "the time ran out before the solver reached them"
TOO_LONG = "their block took the solver too long"
NOT_KNOWN = "counterexamples are searched for iLBA only"
NO_BLOCK = "the tables give no block that is small enough for the solver"
FEW_SEEN = "the solver, which sees one block of cells at a time, found neither a proof nor another world"


class Decided:
    """The results for the small counts that propagation left open: which are proven and which are safe, by table."""

    def __init__(self, small: Numbers) -> None:
        """Begin with the small cells of each table that are not proven."""
        self.small = dict(small)
        self.proven: dict[Node, set[int]] = {node: set() for node in small}
        self.safe: dict[Node, set[int]] = {node: set() for node in small}
        """those with a counterexample"""
        self.tried: dict[Node, set[int]] = {node: set() for node in small}
        """those for which the solver found neither"""
        self.late: dict[Node, set[int]] = {node: set() for node in small}
        """those that took the solver too long"""
        self.otherwise = NO_TIME
        """why all other cells are open"""

    def left(self, node: Node) -> IntArray:
        """The small cells of a table that are still open."""
        settled = self.proven[node] | self.safe[node]
        if not settled:
            return self.small[node]
        return np.setdiff1d(self.small[node], np.fromiter(settled, np.int64, len(settled)))

    @property
    def open(self) -> bool:
        """Whether anything is open."""
        return any(len(self.left(node)) for node in self.small)

    def numbers(self, which: Mapping[Node, set[int]], node: Node) -> IntArray:
        """Some of the initially open cells of a table, sorted."""
        found = np.fromiter(which.get(node, ()), np.int64, len(which.get(node, ())))
        return np.intersect1d(found, self.small[node]) if node in self.small else _NOTHING

    def why(self, nodes: Mapping[Node, Any] | list[Node]) -> dict[str, int]:
        """The number of cells of some tables that are left open, by reason."""
        found: Counter[str] = Counter()
        for node in nodes:
            left = self.left(node)
            tried, late = (np.isin(left, self.numbers(which, node)) for which in (self.tried, self.late))
            found[FEW_SEEN] += int(tried.sum())
            found[TOO_LONG] += int((late & ~tried).sum())
            found[self.otherwise] += int((~late & ~tried).sum())
        return {reason: number for reason, number in found.items() if number}


class _Target(NamedTuple):
    cells: list[int]
    """its cells within the block"""
    node: Node
    number: int


class _Block(NamedTuple):
    largest: list[int]
    aggregates: list[Aggregate]
    targets: list[_Target]
    total: int
    cells: IntArray
    """the numbers of its cells among the finest"""
    true: IntArray


def few(published: PublishedTables) -> bool:
    """Whether the finest cells are few enough for one question to the solver."""
    return published.whole is not None and published.codes.cell_index(published.design.finest).grid <= _FEW


def decide_everything(published: PublishedTables, decided: Decided, seconds: float) -> None:
    """Decide a design of a few cells: one block, with every released table.

    Parameters
    ----------
    published : PublishedTables
        Tables made from a store.
    decided : Decided
        The open cells. The results are stored there.
    seconds : float
        How long to ask.
    """
    rows, K = published.whole, published.K
    assert rows is not None  # noqa: S101 - asked before
    cells = np.arange(published.codes.cell_index(published.design.finest).grid)
    true = at(rows.packed, true_counts(rows), cells)
    largest, aggregates, targets = np.full(len(cells), _FAR), [], []
    masks = at(rows.packed, rows.value, cells).tolist() if published.split else None
    for node in published.lattice.nodes:
        place = projected(published, cells, node)
        numbers, of = np.unique(place, return_inverse=True)
        members = [np.flatnonzero(of.reshape(-1) == number).tolist() for number in range(len(numbers))]
        if node in published.tables and not (published.split and node == published.finest):
            table = published.tables[node]
            values = at(table.packed, table.value, numbers)
            aggregates += [Aggregate(own, int(value)) for own, value in zip(members, values, strict=True)]
            largest = np.minimum(largest, values[of.reshape(-1)] + 2 * K)
        wanted = set(decided.left(node).tolist()) if node in decided.small else set()
        targets += [
            _Target(own, node, number)
            for own, number in zip(members, numbers.tolist(), strict=True)
            if number in wanted
        ]
    if not targets:
        return
    most = largest if masks is None else np.maximum(largest, masks)
    rule = WholeRule(K, published.cells, most.tolist(), aggregates, masks)
    can, cannot, unknown = rule.cover([target.cells for target in targets], seconds, true.tolist())
    for into, numbers_of in ((decided.safe, can), (decided.proven, cannot), (decided.late, unknown)):
        for number in numbers_of:
            into[targets[number].node].add(targets[number].number)


def without_the_finest(published: PublishedTables, decided: Decided, seconds: float) -> None:
    """Ask the solver about blocks of a few cells: for proofs, then for other worlds.

    Parameters
    ----------
    published : PublishedTables
        Tables made from a store, without the finest table.
    decided : Decided
        The open cells. The results are stored there.
    seconds : float
        How long to ask.
    """
    blocks = _blocks(published, decided) if published.finest == published.lattice.base else []
    if not blocks:
        decided.otherwise = NO_BLOCK
        return
    end, K = clock() + seconds, published.K
    for block in blocks:
        until = end - clock()
        if until <= 0:
            return
        rule = WholeRule(K, published.cells, block.largest, block.aggregates, None)
        can, cannot, unknown = rule.cover(
            [target.cells for target in block.targets], min(until, _PATIENCE), block.true.tolist()
        )
        for into, numbers in ((decided.proven, cannot), (decided.late, unknown)):
            for number in numbers:
                into[block.targets[number].node].add(block.targets[number].number)
        asked, until = [block.targets[number] for number in sorted(can)], end - clock()
        if not asked or until <= 0:
            continue
        rule = WholeRule(K, published.cells, block.largest, _around(published, block), None)
        can, cannot, unknown = rule.cover(
            [target.cells for target in asked], min(until, _PATIENCE), block.true.tolist()
        )
        for into, numbers in ((decided.safe, can), (decided.tried, cannot), (decided.late, unknown)):
            for number in numbers:
                into[asked[number].node].add(asked[number].number)


def _around(published: PublishedTables, block: _Block) -> list[Aggregate]:
    """Every released count that touches a block, with the true counts outside the block."""
    rows, K = published.whole, published.K
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
    at_k = at(rows.packed, rows.truth.n_at_threshold, block.cells)
    small = block.true <= K
    counted = small if published.cells == "grid" else small & (block.true > 0)
    own = [counted.astype(np.int64), at_k, np.where(small, block.true, 0), np.where(small, 0, block.true)]
    found = []
    for node, table in published.tables.items():
        numbers, of = np.unique(projected(published, block.cells, node), return_inverse=True)
        of = of.reshape(-1)
        value = at(table.packed, table.value, numbers)
        truth = table.truth
        assert truth is not None  # noqa: S101 - made from a store
        parts = [at(table.packed, part, numbers) for part in truth]
        if published.cells == "grid":  # an empty cell has no row
            parts[0] = np.where(np.isin(numbers, table.packed), parts[0], sizes_of(published, node, numbers))
        rest = [
            part - np.bincount(of, mine, minlength=len(numbers)).astype(np.int64)
            for part, mine in zip(parts, own, strict=True)
        ]
        for number in range(len(numbers)):
            outside = Outside(*(int(part[number]) for part in rest))
            found.append(Aggregate(np.flatnonzero(of == number).tolist(), int(value[number]), outside))
    return found


def _blocks(published: PublishedTables, decided: Decided) -> list[_Block]:
    """The cells of an area with the same values of some keys, the smallest published totals first."""
    lattice, base = published.lattice, published.lattice.base
    shape = lattice.shape(base)
    own = [node for node in published.tables if node[0] == base[0]]
    fixed = next((found for most in (_FEW, _MORE) if (found := _fixed(base, shape, own, most)) is not None), None)
    if fixed is None:
        return []
    nodes = [node for node in own if all(node[d + 1] == base[d + 1] for d in fixed)]
    return sorted(_filled(published, nodes, fixed, decided), key=lambda block: block.total)


def _fixed(base: Node, shape: tuple[int, ...], own: list[Node], most: int) -> tuple[int, ...] | None:
    """The fewest keys whose values a block shares, so that it has at most `most` cells."""
    for number in range(len(shape) + 1):
        best: tuple[int, tuple[int, ...]] = 1, ()
        for fixed in itertools.combinations(range(len(shape)), number):
            free = math.prod(size for d, size in enumerate(shape) if d not in fixed)
            inside = sum(all(node[d + 1] == base[d + 1] for d in fixed) for node in own)
            if free <= most and inside > best[0]:
                best = inside, fixed
        if best[0] > 1:
            return best[1]
    return None


def _filled(
    published: PublishedTables, nodes: list[Node], fixed: tuple[int, ...], decided: Decided
) -> Iterator[_Block]:
    """The blocks with open cells, with their released values and largest possible counts."""
    lattice, base = published.lattice, published.lattice.base
    rows = published.whole
    assert rows is not None  # noqa: S101 - asked before
    areas, shape, width = published.codes.lists[0].size(base[0]), lattice.shape(base), lattice.width(base)
    true: Any = np.zeros((width, areas), dtype=np.int64)
    _, area, cell = published.place(base, rows, 0, areas)
    true[cell, area] = true_counts(rows)
    shown = {
        node: published.dense(node, 0, areas, published.tables[node].value).reshape(lattice.width(node), areas)
        for node in nodes
    }
    wanted = {}
    for node in (base, *nodes):
        wanted[node] = np.zeros((lattice.width(node), areas), dtype=bool)
        left = decided.left(node) if node in decided.small else _NOTHING
        wanted[node][left % lattice.width(node), left // lattice.width(node)] = True
    for values in itertools.product(*(range(shape[d]) for d in fixed)):
        cut: list[Any] = [slice(None)] * len(shape)
        for d, value in zip(fixed, values, strict=True):
            cut[d] = slice(value, value + 1)
        cells = np.arange(width).reshape(shape)[tuple(cut)].reshape(-1)
        places = np.array(np.unravel_index(cells, shape))
        groups = []
        for node in nodes:
            parents = [
                published.codes.lists[d + 1].parents(base[d + 1], node[d + 1])[places[d]] for d in range(len(shape))
            ]
            flat = np.ravel_multi_index(parents, lattice.shape(node)) if shape else np.zeros(len(cells), int)
            groups += [(node, int(g), np.flatnonzero(flat == g).tolist()) for g in np.unique(flat)]
        for a in range(areas):
            targets = [
                _Target([int(i)], base, int(a * width + cells[i])) for i in np.flatnonzero(wanted[base][cells, a])
            ]
            targets += [
                _Target(members, node, a * lattice.width(node) + group)
                for node, group, members in groups
                if wanted[node][group, a]
            ]
            if not targets:
                continue
            counts = [int(shown[node][group, a]) for node, group, _ in groups]
            largest = np.full(len(cells), _FAR)
            for (_, _, members), value in zip(groups, counts, strict=True):
                largest[members] = np.minimum(largest[members], value + 2 * published.K)
            aggregates = [Aggregate(members, value) for (_, _, members), value in zip(groups, counts, strict=True)]
            yield _Block(
                largest.tolist(), aggregates, targets, max(counts), (a * width + cells).astype(np.int64), true[cells, a]
            )
