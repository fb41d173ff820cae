"""The attack: an attacker has all released tables and can add and subtract.

Each cell of each table has two bounds on the sum of its small cells. In the observed reading it has two more on the
number of its occupied small cells. The bounds start from what each table says by itself. They are then propagated: the
lows of the parts add up to a low of the whole, and the high of the whole minus the lows of the other parts is a high of
a part. When no bound moves any more, the bounds are proven.

A small release is kept as arrays. A large one is kept as rows of areas, which store little more than the uncommon cases
(`closing`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.closing import Closing, Rows, Said, close_block, farness
from ilba.attack.lattice import Array, Edge, Lattice, Node, Region, Step, collapse, spread
from ilba.attack.published import CellBounds, Positive, PublishedTables
from ilba.errors import InputError
from ilba.progress import Progress, ProgressStep, silent

IntArray: TypeAlias = npt.NDArray[np.int64]

_BUDGET = 3_000_000
"""up to this many cells of all tables are kept as arrays; more are kept as rows of areas"""
_AREAS = 256
"""the number of finest areas whose tables are bounded together"""
_FEW = 0.2
"""up to this share of moved parents, only their own children are visited, one by one"""


@dataclass
class Bounds:
    """Low and high for each table: of the sums of small cells, or of the number of occupied cells."""

    low: dict[Node, Array] = field(default_factory=dict)
    high: dict[Node, Array] = field(default_factory=dict)


class Event(NamedTuple):
    """One step of the attack, kept for explanations: which bounds of a table moved, and along which edge."""

    step: int
    """a step rests on earlier steps only"""
    kind: int
    """0 for sums, 1 for numbers of occupied cells"""
    node: Node
    is_high: bool
    place: IntArray
    value: IntArray
    edge: Edge | None
    """None where the sum and the number of occupied cells bounded each other"""


class Block:
    """Some areas of some tables, with their bounds and the edges between the tables."""

    def __init__(self, lattice: Lattice, rows: dict[int, tuple[int, int]], own: Sequence[Node], edges: Sequence[Edge]):
        self.lattice = lattice
        self.rows = rows
        self.own = list(own)
        self.edges = list(edges)
        self.kinds: list[Bounds] = []
        self.listed: dict[Node, Positive] = {}
        self.large: dict[Node, IntArray] = {}
        """the places of cells that hold a large cell and so are not small themselves"""
        self.events: list[Event] | None = None
        self.start: list[Bounds] = []
        """with events: the bounds before the attack"""
        self.gap = 1
        """every number is 0 or at least this"""
        self._step = 0
        self._steps: dict[Edge, list[Step]] = {}

    def steps(self, edge: Edge) -> list[Step]:
        """How the child of an edge is summed, in the areas of this block."""
        if edge not in self._steps:
            self._steps[edge] = self.lattice.steps(edge, self.rows)
        return self._steps[edge]

    def close(self, K: int, moved: set[Node] | None = None) -> set[Node]:
        """Run the attack inside the block to its fixpoint; takes and returns the tables that moved."""
        if self.events is None:
            return close_block(self, K, moved)
        return self._close_recorded(K, moved)

    def _close_recorded(self, K: int, moved: set[Node] | None = None) -> set[Node]:
        """The same in array operations, which record their steps."""
        clock = 1
        stamp = {node: int(moved is None or node in moved) for bounds in self.kinds[:1] for node in bounds.low}
        seen = dict.fromkeys(self.edges, 0)
        ruled = dict.fromkeys(stamp, 0)
        changed: set[Node] = set()
        order = [*self.edges, *reversed(self.edges)]
        busy = True
        while busy:
            busy = False
            if len(self.kinds) == 2:
                for node in self.own:
                    if stamp[node] > ruled[node]:
                        clock += 1
                        ruled[node] = clock
                        if self._occupied(node, K):
                            clock += 1
                            stamp[node] = clock
                            changed.add(node)
                            busy = True
            for edge in order:
                if max(stamp[edge.parent], stamp[edge.child]) <= seen[edge]:
                    continue
                clock += 1
                seen[edge] = clock
                moves = [self._settle(kind, edge) for kind in range(len(self.kinds))]
                clock += 1
                for node, moved_now in zip(edge, map(any, zip(*moves, strict=True)), strict=True):
                    if moved_now:
                        stamp[node] = clock
                        changed.add(node)
                        busy = True
                if stamp[edge.child] < clock:  # a parent with its children's sums has nothing new for them
                    seen[edge] = clock
        return changed

    def sums(self, kind: int, edge: Edge) -> tuple[Array, Array]:
        """The sums of the children's lows and highs in this block."""
        bounds, steps = self.kinds[kind], self.steps(edge)
        dtype = bounds.low[edge.parent].dtype
        return (
            collapse(bounds.low[edge.child], steps, dtype),
            collapse(bounds.high[edge.child], steps, dtype),
        )

    def _settle(self, kind: int, edge: Edge) -> tuple[bool, bool]:
        """Propagate bounds between a parent and its children; return whether each of them moved."""
        bounds, steps = self.kinds[kind], self.steps(edge)
        self._step += 1
        parent_low, parent_high = bounds.low[edge.parent], bounds.high[edge.parent]
        low, high = bounds.low[edge.child], bounds.high[edge.child]
        sum_low, sum_high = self.sums(kind, edge)
        up = self._raise(kind, edge.parent, sum_low, edge) | self._lower(kind, edge.parent, sum_high, edge)

        # The children can only gain where the parent has tighter bounds than their sum,
        if not ((parent_low > sum_low).any() or (parent_high < sum_high).any()):
            return up, False
        # and then only the widest child, when its width exceeds the slack that the others leave.
        widest = collapse(high - low, steps, parent_low.dtype, np.maximum)
        self._step += 1
        low_left, high_left = parent_low - sum_high, parent_high - sum_low
        active = np.flatnonzero((widest > -low_left) | (widest > high_left))
        if not len(active):
            return up, False
        if len(active) > _FEW * parent_low.size:
            before = low.copy()
            down = self._raise(kind, edge.child, spread(low_left, steps) + high, edge)
            return up, down | self._lower(kind, edge.child, spread(high_left, steps) + before, edge)
        place, parent = _children(active, parent_low.shape, low.shape, steps)
        flat_low, flat_high = low.reshape(-1), high.reshape(-1)
        now_low, now_high = flat_low[place], flat_high[place]
        new_low = np.minimum(low_left.reshape(-1)[parent] + now_high, now_high + 1)
        new_high = np.maximum(high_left.reshape(-1)[parent] + now_low, -1)
        for flat, new, better, is_high in (
            (flat_low, new_low, new_low > now_low, False),
            (flat_high, new_high, new_high < now_high, True),
        ):
            where = place[better]
            flat[where] = new[better]
            self._record(kind, edge.child, is_high, where, new[better], edge)
        return up, True

    def narrow(self, node: Node, low: Array, high: Array) -> bool:
        """Apply bounds on the sums of a table from elsewhere; return whether they tightened anything."""
        self._step += 1
        return self._raise(0, node, low, None) | self._lower(0, node, high, None)

    def _raise(self, kind: int, node: Node, new: Array, edge: Edge | None) -> bool:
        bounds = self.kinds[kind]
        low = bounds.low[node]
        better = new > low
        if not better.any():
            return False
        # A low above the high is a contradiction. High + 1 is enough to show it, and fits the type.
        np.copyto(low, np.minimum(new, bounds.high[node] + 1), where=better, casting="unsafe")
        if self.events is not None:
            where = np.flatnonzero(better)
            self._record(kind, node, False, where, low.reshape(-1)[where], edge)
        return True

    def _lower(self, kind: int, node: Node, new: Array, edge: Edge | None) -> bool:
        high = self.kinds[kind].high[node]
        better = new < high
        if not better.any():
            return False
        np.copyto(high, np.maximum(new, -1), where=better, casting="unsafe")
        if self.events is not None:
            where = np.flatnonzero(better)
            self._record(kind, node, True, where, high.reshape(-1)[where], edge)
        return True

    def _record(self, kind: int, node: Node, is_high: bool, place: IntArray, value: Array, edge: Edge | None) -> None:
        if self.events is not None:
            self.events.append(Event(self._step, kind, node, is_high, place, value.astype(np.int64), edge))

    def _occupied(self, node: Node, K: int) -> bool:
        """Propagate bounds between the sum of small cells and the number of occupied cells."""
        low, high = self.kinds[0].low[node], self.kinds[0].high[node]
        least, most = self.kinds[1].low[node], self.kinds[1].high[node]
        moved = False
        self._step += 1
        moved |= self._raise(1, node, (low > 0).astype(low.dtype), None)
        self._step += 1
        moved |= self._raise(0, node, least, None)
        self._step += 1
        moved |= self._lower(1, node, high, None)
        self._step += 1
        moved |= self._lower(0, node, np.where(most == 0, 0, high), None)
        self._step += 1
        if node not in self.listed:
            return moved
        place, at_k, block_end, most_shifted = self.listed[node]
        parts = [part.reshape(-1) for part in (low, high, least, most)]
        lo, hi, few, many = (part[place].astype(np.int64) for part in parts)
        # f <= |S_K| + (K-1)|S|; f lies beyond its own block only if |S| is small enough for a type 2 shift.
        shifted = np.minimum(many, most_shifted)
        top = np.where(shifted >= few, np.maximum(at_k + (K - 1) * shifted, block_end), block_end)
        new_high = np.minimum(hi, np.minimum(top, at_k + (K - 1) * many))
        new_few = np.maximum(few, -((at_k - lo) // (K - 1)))
        new_many = np.where(lo > block_end, np.minimum(many, most_shifted), many)
        for kind, is_high, part, new, now in (
            (0, True, parts[1], new_high, hi),
            (1, False, parts[2], new_few, few),
            (1, True, parts[3], new_many, many),
        ):
            better = np.flatnonzero(new != now)
            if len(better):
                part[place[better]] = new[better]
                self._record(kind, node, is_high, place[better], new[better], None)
                moved = True
        return moved

    def contradicts(self) -> bool:
        """Whether no truth fits the bounds."""
        return any(bool((b.low[node] > b.high[node]).any()) for b in self.kinds for node in b.low)

    def proven(self, node: Node, K: int) -> Proven:
        """The cells of a table that are proven to lie in 1..K-1."""
        lo, hi = (side[node].reshape(-1, side[node].shape[-1]) for side in (self.kinds[0].low, self.kinds[0].high))
        known = (lo >= 1) & (hi < K)
        if node in self.large:
            known.reshape(-1)[self.large[node]] = False
        cell, area = np.nonzero(known)
        low, high = lo[cell, area].astype(np.int64), hi[cell, area].astype(np.int64)
        return Proven((area + self.rows[node[0]][0]) * len(lo) + cell, low, high, int((lo > 0).sum()))

    def at(self, node: Node, area: IntArray, cell: IntArray) -> tuple[IntArray, IntArray]:
        """Low and high of some cells of a table; areas are numbered from the first one here."""
        lo, hi = (side[node].reshape(-1, side[node].shape[-1]) for side in (self.kinds[0].low, self.kinds[0].high))
        return lo[cell, area].astype(np.int64), hi[cell, area].astype(np.int64)


class Proven(NamedTuple):
    """What is proven about a table: cells in 1..K-1 as integers, with low and high, and how many are occupied."""

    packed: IntArray
    low: IntArray
    high: IntArray
    occupied: int


class Portion(Protocol):
    """Some areas of some tables, and what is proven about them."""

    rows: dict[int, tuple[int, int]]
    own: list[Node]

    def proven(self, node: Node, K: int) -> Proven:
        """The cells of a table that are proven to lie in 1..K-1."""

    def at(self, node: Node, area: IntArray, cell: IntArray) -> tuple[IntArray, IntArray]:
        """Low and high of some cells of a table; areas are numbered from the first one here."""


class _Level:
    """All tables of a level, kept as rows."""

    def __init__(self, rows: Rows, level: int, ends: tuple[int, int], large: dict[Node, IntArray]) -> None:
        self._rows, self._large = rows, large
        self.rows = {level: ends}
        self.own = rows.families.nodes
        self._listed = rows.by_table()

    def proven(self, node: Node, K: int) -> Proven:
        place, low, high = self._listed[node]
        cells = self._rows.families.cells(node)
        packed = place + self.rows[node[0]][0] * (cells.stop - cells.start)
        known = (low >= 1) & (high < K)
        if node in self._large:
            known &= ~np.isin(packed, self._large[node], assume_unique=True)
        return Proven(packed[known], low[known], high[known], int((low > 0).sum()))

    def at(self, node: Node, area: IntArray, cell: IntArray) -> tuple[IntArray, IntArray]:
        cells = self._rows.families.cells(node)
        high = self._rows.row[area, cell + cells.start].astype(np.int64)
        low = np.zeros(len(high), np.int64)
        there = np.flatnonzero(high == self._rows.mark)
        place, lows, highs = self._listed[node]
        spot = np.searchsorted(place, area[there] * (cells.stop - cells.start) + cell[there])
        low[there], high[there] = lows[spot], highs[spot]
        return low, high


class Attack:
    """The attack on a release, or on the part of it that lies below one area."""

    def __init__(
        self, published: PublishedTables, within: Region | None = None, *, budget: int = _BUDGET, record: bool = False
    ) -> None:
        self.published = published
        self.lattice = lattice = published.lattice
        self.misfits: dict[Node, int] = {}
        self.rows = (within or Region(0, 0)).rows(lattice)
        self.finest = max(self.rows)
        nodes = [node for node in lattice.nodes if node[0] in self.rows]
        self._edges = [edge for edge in lattice.edges if edge.parent[0] in self.rows]
        cells = sum(lattice.width(node) * (self.rows[node[0]][1] - self.rows[node[0]][0]) for node in nodes)
        self._budget = budget
        self.chunks: list[tuple[int, int]] = []
        """runs of finest areas, where there are too many for one pass"""
        self.whole = Block(lattice, self.rows, (), ())
        """the block of a small release, with every table"""
        self._large: dict[Node, IntArray] = {}
        self._closing: Closing | None = None
        if cells > budget and not record:
            self._closing = self._of_rows(nodes)
            return
        self.whole = self._block(self.rows, nodes, self._edges)
        if record:
            self.whole.events = []
            copies = [
                ({n: a.copy() for n, a in b.low.items()}, {n: a.copy() for n, a in b.high.items()})
                for b in self.whole.kinds
            ]
            self.whole.start = [Bounds(low, high) for low, high in copies]

    def _cut(self, level: int) -> list[tuple[int, int]]:
        """Runs of areas of a level that are processed together."""
        first, last = self.rows[level]
        width = sum(self.lattice.width(node) for node in self.lattice.nodes if node[0] == level)
        most = max(1, self._budget // width)
        return [(start, min(start + most, last)) for start in range(first, last, most)]

    def _of_rows(self, nodes: Sequence[Node]) -> Closing:
        """The bounds of each table by itself, as rows of areas."""
        published, lattice = self.published, self.lattice

        def steps(edge: Edge) -> list[Step]:
            return lattice.steps(edge, self.rows)

        closing = Closing(lattice, self._edges, steps, published.K, published.counted, published.gap)
        for level in sorted(self.rows):
            first, last = self.rows[level]
            rows = closing.add(level, [node for node in nodes if node[0] == level], last - first)
            if not self._hear_some(rows, level):
                self._hear_all(rows, level)
            rows.ready(published.K)
        self.chunks = self._cut(self.finest)
        return closing

    def _hear_some(self, rows: Rows, level: int) -> bool:
        """Store the bounds of the cells that hold a listed finest cell; return False if all cells are needed."""
        first, last = self.rows[level]
        for start in range(first, last, _AREAS):
            end = min(start + _AREAS, last)
            found = self.published.touched(level, start, end)
            if found is None:
                return False
            heard = list(found)
            if start == first:
                rows.begin(farness(_said(one.otherwise) for one in heard))
            run = slice(start - first, end - first)
            for node, area, cell, said, otherwise in heard:
                self._keep(node, said, area + start, cell)
                some = _said(said)
                if not rows.fill(node, _said(otherwise), run):  # a row cannot hold all other cells of an area
                    some, area, cell = _spread_out(some, _said(otherwise), area, cell, end - start)
                rows.hear(node, some, area + run.start, cell)
        return True

    def _hear_all(self, rows: Rows, level: int) -> None:
        """Store the bounds of every cell."""
        first, _ = self.rows[level]
        base = self.lattice.base
        for start, end in self._cut(level):
            known = self.published.knowledge(level, start, end)
            said = {node: _said(one) for node, one in known.items()}
            if base in said and base not in self.published.tables:
                # The base is not published, so all its cells would have far bounds. Its parents bound it.
                high = said[base].high
                for edge in self._edges:
                    if edge.child == base and edge.parent in said:
                        above = spread(said[edge.parent].high, self.lattice.steps(edge, {level: (start, end)}))
                        high = np.minimum(high, above)
                said[base] = said[base]._replace(high=high)
            if start == first:
                rows.begin(farness(said.values()))
            for node, one in said.items():
                cell, area = (part.reshape(-1) for part in np.indices((self.lattice.width(node), end - start)))
                rows.hear(node, one, area + (start - first), cell)
                self._keep(node, known[node], area + start, cell)

    def _keep(self, node: Node, known: CellBounds, area: IntArray, cell: IntArray) -> None:
        """Keep the cells that hold a large one, and how many cells would differ if the masks were the truth."""
        self.misfits[node] = self.misfits.get(node, 0) + known.misfits
        if known.large is not None:
            some = np.flatnonzero(known.large)
            packed = area[some] * self.lattice.width(node) + cell[some]
            self._large[node] = np.union1d(self._large.get(node, packed[:0]), packed)

    def _block(self, rows: dict[int, tuple[int, int]], nodes: Sequence[Node], edges: Sequence[Edge]) -> Block:
        """A block with the bounds of each of its tables by itself."""
        block = Block(self.lattice, dict(rows), nodes, edges)
        block.gap = self.published.gap
        block.kinds = [Bounds(), Bounds()] if self.published.counted else [Bounds()]
        for level in sorted({node[0] for node in nodes}):
            for node, known in self.published.knowledge(level, *rows[level]).items():
                self.misfits[node] = self.misfits.get(node, 0) + known.misfits
                block.kinds[0].low[node], block.kinds[0].high[node] = known.low, known.high
                if known.least is not None and known.most is not None:
                    block.kinds[1].low[node], block.kinds[1].high[node] = known.least, known.most
                if known.listed is not None:
                    block.listed[node] = known.listed
                if known.large is not None:
                    block.large[node] = np.flatnonzero(known.large)
        inside = [edge for edge in edges if edge.parent in block.kinds[0].low]
        longest = max((_longest(block, edge) for edge in inside), default=1)
        for bounds in block.kinds:
            # The smallest integer type that holds the sums along every edge saves memory traffic.
            peak = max((int(high.max(initial=0)) for high in bounds.high.values()), default=0) + 1
            dtype = next((t for t in (np.int16, np.int32) if peak * longest <= np.iinfo(t).max), np.int64)
            for side in (bounds.low, bounds.high):
                side.update({node: np.ascontiguousarray(values, dtype=dtype) for node, values in side.items()})
        return block

    def run(self, progress: Progress | None = None) -> Attack:
        """Propagate until no bound moves."""
        tell = progress or silent
        done = 1
        if self._closing is None:
            self.whole.close(self.published.K)
            wrong = self.whole.contradicts()
        else:

            def told(closed: int, of: int) -> None:
                nonlocal done
                done = closed
                tell(ProgressStep("attacking", closed, of))

            self._closing.run(told)
            wrong = any(rows.contradicts() for rows in self._closing.levels.values())
        if wrong:
            raise InputError(
                f"the tables contradict each other: no data gives all of them with method="
                f"{self.published.policy.name!r}, K={self.published.K} and cells={self.published.cells!r}. Give the "
                f"method, the threshold and the reading with which they were made."
            )
        tell(ProgressStep("attacking", done, done))
        return self

    def parts(self) -> Iterator[Portion]:
        """Yield what is proven, part by part; each table of each area belongs to exactly one part."""
        if self._closing is None:
            yield self.whole
            return
        for level, rows in self._closing.levels.items():
            yield _Level(rows, level, self.rows[level], self._large)

    def blocks(self, levels: Container[int] | None = None) -> Iterator[Block]:
        """Yield all bounds as arrays, some areas at a time; each table of each area belongs to exactly one block.

        Parameters
        ----------
        levels : container of int, optional
            Only these levels are needed. By default, all levels.

        Yields
        ------
        Block
            Some areas of some tables.
        """
        if self._closing is None:
            yield self.whole
            return
        for level, rows in self._closing.levels.items():
            for start, end in self.areas(level) if levels is None or level in levels else ():
                yield self._dense(rows, level, start, end)

    def areas(self, level: int) -> list[tuple[int, int]]:
        """Runs of areas of a level whose cells fit into memory together."""
        return [self.rows[level]] if self._closing is None else self._cut(level)

    def cells(self, node: Node, first: int, last: int) -> tuple[Array, Array]:
        """Low and high of a table in some of its areas, as arrays of cells by areas."""
        if self._closing is not None:
            begin = self.rows[node[0]][0]
            low, high, *_ = self._closing.levels[node[0]].dense(node, first - begin, last - begin)
            return low, high
        begin, width = self.whole.rows[node[0]][0], self.lattice.width(node)
        sides = self.whole.kinds[0].low[node], self.whole.kinds[0].high[node]
        low, high = (side.reshape(width, -1)[:, first - begin : last - begin] for side in sides)
        return low, high

    def _dense(self, rows: Rows, level: int, start: int, end: int) -> Block:
        block = Block(self.lattice, {level: (start, end)}, rows.families.nodes, ())
        block.kinds = [Bounds(), Bounds()] if rows.counted else [Bounds()]
        first = self.rows[level][0]
        for node in block.own:
            shape, width = (*self.lattice.shape(node), end - start), self.lattice.width(node)
            sides = iter(rows.dense(node, start - first, end - first))
            for bounds in block.kinds:
                bounds.low[node], bounds.high[node] = next(sides).reshape(shape), next(sides).reshape(shape)
            if node in self._large:
                inside = slice(*np.searchsorted(self._large[node], [start * width, end * width]))
                area, cell = np.divmod(self._large[node][inside], width)
                block.large[node] = cell * (end - start) + area - start
        return block


def _said(known: CellBounds) -> Said:
    return Said(known.low, known.high, known.least, known.most, None if known.listed is None else tuple(known.listed))


def _spread_out(
    some: Said, otherwise: Said, area: IntArray, cell: IntArray, areas: int
) -> tuple[Said, IntArray, IntArray]:
    """The bounds of every cell, from those of some cells and the common bounds of all others."""
    place = cell * areas + area
    sides = []
    for own, other in zip(some[:4], otherwise[:4], strict=True):
        side = None if own is None or other is None else np.repeat(other, areas)
        if side is not None:
            side[place] = own
        sides.append(side)
    low, high, least, most = sides
    assert low is not None and high is not None  # noqa: S101, PT018 - both are always said
    rules = None if some.rules is None else (place[some.rules[0]], *some.rules[1:])
    if rules is not None:
        order = np.argsort(rules[0])
        rules = tuple(part[order] for part in rules)
    every = np.arange(len(low))
    return Said(low, high, least, most, rules), every % areas, every // areas


def _longest(block: Block, edge: Edge) -> int:
    """The largest number of children of one parent."""
    longest = 1
    for axis, starts, _, _ in block.steps(edge):
        shape = (*block.lattice.shape(edge.child), block.rows[edge.child[0]][1] - block.rows[edge.child[0]][0])
        longest *= shape[axis] if starts is None else int(np.diff(starts, append=shape[axis]).max())
    return longest


def _children(
    parents: IntArray, parent_shape: tuple[int, ...], shape: tuple[int, ...], steps: Sequence[Step]
) -> tuple[IntArray, IntArray]:
    """The places of the children of some parents, each with the place of its parent."""
    place, of = np.unravel_index(parents, parent_shape), parents
    coordinates = list(place)
    for axis, starts, _, order in steps:
        if starts is None:
            first, number = np.zeros(len(of), dtype=np.int64), np.full(len(of), shape[axis])
        else:
            first = starts[coordinates[axis]]
            number = np.diff(starts, append=shape[axis])[coordinates[axis]]
        again = np.repeat(np.arange(len(of)), number)
        running = np.arange(len(again)) - np.repeat(np.cumsum(number) - number, number)
        coordinates = [values[again] for values in coordinates]
        coordinates[axis] = first[again] + running if order is None else order[first[again] + running]
        of = of[again]
    return np.ravel_multi_index(coordinates, shape).astype(np.int64, copy=False), of
