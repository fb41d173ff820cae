"""Releases without the finest table: exact answers for a few cells at a time.

The masks are unknown then, and propagation proves little. A block is the cells of one area that share the values of
some keys, small enough for a solver that knows the whole rule. *Prove*: only aggregates that lie inside the block are
used, so what cannot leave 1..K-1 is proven. *Certify*: everything outside the block is as it truly is, with every
released table that touches it; what leaves in such a world has a counterexample. Blocks with the smallest published
totals come first.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.intervals import at, sizes
from ilba.attack.lattice import Node, table_of
from ilba.attack.published import PublishedTables
from ilba.attack.solver import Aggregate, Outside, WholeRule

IntArray: TypeAlias = npt.NDArray[np.int64]

_FEW = 12
"""cells of a block, where the tables allow it"""
_MORE = 60
"""cells of a block otherwise"""
_PATIENCE = 2.0
"""seconds for one question"""
_FAR = 2**20
"""a count that is larger than any"""

NOT_ASKED = "the solver was not asked (solver_seconds gives it time)"
NO_TIME = "the time was over before the solver came to them"
TOO_LONG = "their block took the solver too long"
NO_BLOCK = "the tables leave no block of a few cells that the solver could be asked about"
FEW_SEEN = "the solver, which sees one block of cells at a time, found neither a proof nor another world"


class Decided(NamedTuple):
    """What was found out about the small cells that propagation left open."""

    proven: IntArray
    """finest cells that the solver proved to be small, as integers"""
    safe: IntArray
    """small finest cells with a counterexample"""
    aggregates: dict[Node, IntArray]
    """cells of coarser tables that the solver proved to be small"""
    why: dict[str, int]
    """how many small cells are left open, by reason"""

    @property
    def certified(self) -> int:
        """How many small cells have a counterexample."""
        return len(self.safe)


class _Block(NamedTuple):
    largest: list[int]
    aggregates: list[Aggregate]
    targets: list[tuple[list[int], Node, int]]
    """cells of each target, its table and its number in that table"""
    total: int
    cells: IntArray
    """the numbers of its cells among the finest"""
    true: IntArray


def without_the_finest(published: PublishedTables, seconds: float, disclosed: IntArray) -> Decided:
    """Ask the solver about blocks of a few cells: first for proofs, then for other worlds.

    Parameters
    ----------
    published : PublishedTables
        Tables that were made from a store, the finest not among them.
    seconds : float
        How long to ask.
    disclosed : array of int
        Finest cells that propagation has proven to be small.

    Returns
    -------
    Decided
        What is proven and what is certified, and why the rest is open.
    """
    rows, K = published.base, published.K
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - the caller has asked
    true = rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large
    small = np.setdiff1d(rows.packed[(true > 0) & (true < K)], disclosed)
    nothing: IntArray = np.zeros(0, np.int64)
    base, finest = published.lattice.base, tuple(listed.depth for listed in published.codes.lists)
    stated = base == finest and published.policy.scheme == "ilba" and not published.policy.listed
    blocks = _blocks(published) if seconds and stated else []
    if not blocks:
        reason = NOT_ASKED if not seconds else NO_BLOCK
        return Decided(nothing, nothing, {}, {reason: len(small)} if len(small) else {})
    end = time.monotonic() + seconds
    proven: dict[Node, list[int]] = {}
    safe: list[int] = []
    left: list[tuple[_Block, list[int]]] = []
    late: set[int] = set()
    for block in blocks:
        until = end - time.monotonic()
        if until <= 0:
            break
        rule = WholeRule(K, published.cells, block.largest, block.aggregates, None)
        can, cannot, unknown = rule.cover(
            [target for target, _, _ in block.targets], min(until, _PATIENCE), block.true.tolist()
        )
        for number in cannot:
            _, node, cell = block.targets[number]
            proven.setdefault(node, []).append(cell)
        late |= {block.targets[number][2] for number in unknown if block.targets[number][1] == base}
        left.append((block, [number for number in sorted(can) if block.targets[number][1] == base]))
    around = _Around(published)
    tried: set[int] = set()
    for block, numbers in left:
        until = end - time.monotonic()
        if until <= 0:
            break
        if numbers:
            rule = WholeRule(K, published.cells, block.largest, around.aggregates(block), None)
            asked = [block.targets[number] for number in numbers]
            can, cannot, _ = rule.cover([cells for cells, _, _ in asked], min(until, _PATIENCE), block.true.tolist())
            safe += [asked[number][2] for number in can]
            tried |= {asked[number][2] for number in cannot}
    found = np.array(sorted(proven.pop(base, [])), dtype=np.int64)
    why = Counter[str]()
    for cell in np.setdiff1d(small, np.concatenate([found, np.array(safe, dtype=np.int64)])).tolist():
        why[FEW_SEEN if cell in tried else TOO_LONG if cell in late else NO_TIME] += 1
    return Decided(
        found,
        np.array(sorted(safe), dtype=np.int64),
        {node: np.array(sorted(cells), dtype=np.int64) for node, cells in proven.items()},
        dict(why),
    )


class _Around:
    """Every released count that touches a block, with what is truly there outside of it."""

    def __init__(self, published: PublishedTables) -> None:
        self.published = published
        codes = published.codes
        self._index = codes.cell_index(table_of(codes.design, published.lattice.base))

    def aggregates(self, block: _Block) -> list[Aggregate]:
        """The released counts over cells of a block."""
        published, K = self.published, self.published.K
        rows, codes = published.base, published.codes
        assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
        at_k = at(rows.packed, rows.truth.n_at_threshold, block.cells)
        small = block.true <= K
        counted = small if published.cells == "grid" else small & (block.true > 0)
        own = [counted.astype(np.int64), at_k, np.where(small, block.true, 0), np.where(small, 0, block.true)]
        found = []
        for node, table in published.tables.items():
            target = codes.cell_index(table_of(codes.design, node))
            place = np.zeros(len(block.cells), np.int64)
            if target.places:
                place = self._index.project([block.cells], target, codes.lists)[0]
            numbers, of = np.unique(place, return_inverse=True)
            value = at(table.packed, table.value, numbers)
            truth = table.truth
            assert truth is not None  # noqa: S101 - made from a store
            parts = [at(table.packed, part, numbers) for part in truth]
            if published.cells == "grid":  # a cell without anybody has no row
                empty = ~np.isin(numbers, table.packed)
                every = sizes(published, node, target.digits([numbers]) if target.places else [])
                parts[0] = np.where(empty, every, parts[0])
            rest = [
                part - np.bincount(of.reshape(-1), mine, minlength=len(numbers)).astype(np.int64)
                for part, mine in zip(parts, own, strict=True)
            ]
            for number in range(len(numbers)):
                outside = Outside(*(int(part[number]) for part in rest))
                found.append(Aggregate(np.flatnonzero(of.reshape(-1) == number).tolist(), int(value[number]), outside))
        return found


def _blocks(published: PublishedTables) -> list[_Block]:
    """The cells of an area with the same values of some keys, the smallest published totals first."""
    lattice, base = published.lattice, published.lattice.base
    if lattice.width(base) * published.codes.lists[0].size(base[0]) <= _FEW:
        return list(_everything(published))
    shape = lattice.shape(base)
    own = [node for node in published.tables if node[0] == base[0]]
    fixed = next((found for most in (_FEW, _MORE) if (found := _fixed(base, shape, own, most)) is not None), None)
    if fixed is None:
        return []
    nodes = [node for node in own if all(node[d + 1] == base[d + 1] for d in fixed)]
    return sorted(_filled(published, nodes, fixed), key=lambda block: block.total)


def _fixed(base: Node, shape: tuple[int, ...], own: list[Node], most: int) -> tuple[int, ...] | None:
    """As few keys as possible whose values a block has in common, so that at most so many cells are left."""
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


def _everything(published: PublishedTables) -> Iterator[_Block]:
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


def _filled(published: PublishedTables, nodes: list[Node], fixed: tuple[int, ...]) -> Iterator[_Block]:
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
) -> Iterator[_Block]:
    if not ((true > 0) & (true < K)).any():
        return
    lattice, base = published.lattice, published.lattice.base
    largest = np.full(len(cells), _FAR)
    aggregates, targets = [], [([i], base, int(a * width + cells[i])) for i in range(len(cells)) if 0 < true[i] < K]
    total = 0
    for node, group, members in groups:
        value = int(shown[node].reshape(-1, shown[node].shape[-1])[group, a])
        aggregates.append(Aggregate(members, value))
        largest[members] = np.minimum(largest[members], value + 2 * K)
        total = max(total, value)
        if 0 < true[members].sum() < K:
            targets.append((members, node, a * lattice.width(node) + group))
    numbers = (a * width + cells).astype(np.int64)
    yield _Block(largest.tolist(), aggregates, targets, total, numbers, true)
