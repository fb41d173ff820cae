"""The attack: somebody who has all released tables and can add and subtract.

For each cell of each table two numbers are kept, between which the sum of its small cells must lie (in the observed
reading two more for how many of its small cells are occupied). They start from what the table says by itself. Then,
over and over: a cell is at least the sum of what its parts are at least, and a part is at most what is left of the
whole when the other parts are at least what they are. When nothing moves any more, what stands there is proven.

Tables of the finest areas are worked on a few areas at a time; between two visits only what is not the common case is
kept of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.lattice import Array, Edge, Lattice, Node, Region, Step, collapse, spread
from ilba.attack.published import Positive, PublishedTables
from ilba.errors import InputError
from ilba.progress import Progress, ProgressStep, silent

IntArray: TypeAlias = npt.NDArray[np.int64]

_BUDGET = 3_000_000
"""cells of all tables that are worked on together: small enough for the processor's caches"""
_FEW = 0.2
"""up to this share of the parents, only their own children are looked at, one by one"""


@dataclass
class Bounds:
    """Low and high for each table: of the sums of small cells, or of the number of occupied ones."""

    low: dict[Node, Array] = field(default_factory=dict)
    high: dict[Node, Array] = field(default_factory=dict)


class Event(NamedTuple):
    """One step of the attack, kept for explanations: which bounds of a table moved, and along which edge."""

    step: int
    """what is said in one step rests on earlier steps only"""
    kind: int
    """0 for sums, 1 for numbers of occupied cells"""
    node: Node
    is_high: bool
    place: IntArray
    value: IntArray
    edge: Edge | None
    """None where the number of occupied cells and their sum told of each other"""


class Block:
    """Some areas of some tables with their bounds, and the edges between them."""

    def __init__(self, lattice: Lattice, rows: dict[int, tuple[int, int]], own: Sequence[Node], edges: Sequence[Edge]):
        self.lattice = lattice
        self.rows = rows
        self.own = list(own)
        self.edges = list(edges)
        self.kinds: list[Bounds] = []
        self.listed: dict[Node, Positive] = {}
        self.outside: dict[tuple[int, Edge], tuple[Array, Array]] = {}
        """what lies in other blocks of the same parents: sums of lows and of highs"""
        self.large: dict[Node, IntArray] = {}
        """the places of cells that hold a large cell, and so are not small themselves"""
        self.events: list[Event] | None = None
        self.start: list[Bounds] = []
        """with events: the bounds before the attack"""
        self._step = 0
        self._steps: dict[Edge, list[Step]] = {}

    def steps(self, edge: Edge) -> list[Step]:
        """How the child of an edge is summed, in the areas of this block."""
        if edge not in self._steps:
            self._steps[edge] = self.lattice.steps(edge, self.rows)
        return self._steps[edge]

    def close(self, K: int, moved: set[Node] | None = None) -> set[Node]:
        """Run the attack inside the block to its fixpoint; which tables moved is given and returned."""
        if self.events is None:
            from ilba.attack.closing import Closing

            return Closing(self, K, moved).run()
        return self._close_recorded(K, moved)

    def _close_recorded(self, K: int, moved: set[Node] | None = None) -> set[Node]:
        """The same in array operations, which write their steps down."""
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
                if stamp[edge.child] < clock:  # a parent that took its children's sums has nothing new to tell them
                    seen[edge] = clock
        return changed

    def sums(self, kind: int, edge: Edge) -> tuple[Array, Array]:
        """The sums of the lows and highs of the children in this block."""
        bounds, steps = self.kinds[kind], self.steps(edge)
        dtype = bounds.low[edge.parent].dtype
        return (
            collapse(bounds.low[edge.child], steps, dtype),
            collapse(bounds.high[edge.child], steps, dtype),
        )

    def _settle(self, kind: int, edge: Edge) -> tuple[bool, bool]:
        """Let a parent and its children tell each other what they know; whether each of them moved."""
        bounds, steps = self.kinds[kind], self.steps(edge)
        self._step += 1
        parent_low, parent_high = bounds.low[edge.parent], bounds.high[edge.parent]
        low, high = bounds.low[edge.child], bounds.high[edge.child]
        sum_low, sum_high = self.sums(kind, edge)
        if (kind, edge) in self.outside:
            beside_low, beside_high = self.outside[kind, edge]
            sum_low, sum_high = sum_low + beside_low, sum_high + beside_high
        up = self._raise(kind, edge.parent, sum_low, edge) | self._lower(kind, edge.parent, sum_high, edge)

        # The children can only gain where the parent knows more than their sum does,
        if not ((parent_low > sum_low).any() or (parent_high < sum_high).any()):
            return up, False
        # and then only the widest of them, when the slack that the others leave is smaller than it is wide.
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
        """Take over what somebody else knows about the sums of a table; whether that is more than was known here."""
        self._step += 1
        return self._raise(0, node, low, None) | self._lower(0, node, high, None)

    def _raise(self, kind: int, node: Node, new: Array, edge: Edge | None) -> bool:
        bounds = self.kinds[kind]
        low = bounds.low[node]
        better = new > low
        if not better.any():
            return False
        # A low above the high is a contradiction; one more than the high is enough to show it, and fits the type.
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
        """Let the sum of small cells and the number of occupied ones tell each other what they know."""
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
        # f <= |S_K| + (K-1)|S|, and beyond its own block only while |S| is small enough for a type 2 shift.
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
        """Whether no truth is left."""
        return any(bool((b.low[node] > b.high[node]).any()) for b in self.kinds for node in b.low)


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
        edges = [edge for edge in lattice.edges if edge.parent[0] in self.rows]
        cells = sum(lattice.width(node) * (self.rows[node[0]][1] - self.rows[node[0]][0]) for node in nodes)
        self.chunks: list[tuple[int, int]] = []
        self.whole = Block(lattice, self.rows, (), ())
        """the tables that are always at hand: all of them in a small release, else those above the finest areas"""
        self._bottom = [node for node in nodes if node[0] == self.finest]
        self._inner = [edge for edge in edges if edge.child[0] == self.finest]
        self._kept: dict[int, _Kept] = {}
        self._totals: dict[tuple[int, Edge], tuple[Array, Array]] = {}
        self._complete = False
        if cells <= budget or record:
            self.whole = self._block(self.rows, nodes, edges)
            if record:
                self.whole.events = []
                copies = [
                    ({n: a.copy() for n, a in b.low.items()}, {n: a.copy() for n, a in b.high.items()})
                    for b in self.whole.kinds
                ]
                self.whole.start = [Bounds(low, high) for low, high in copies]
            return
        upper = {level: ends for level, ends in self.rows.items() if level < self.finest}
        self.chunks = self._cut(upper, budget)
        above = [node for node in nodes if node[0] in upper]
        self.whole = self._block(upper, above, [edge for edge in edges if edge.child[0] in upper])
        for edge in self._inner:
            if edge.parent[0] in upper and self._splits(edge):
                shape = self.whole.kinds[0].low[edge.parent].shape
                for kind in range(len(self.whole.kinds)):
                    self._totals[kind, edge] = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def _cut(self, upper: dict[int, tuple[int, int]], budget: int) -> list[tuple[int, int]]:
        """Runs of finest areas, each within the budget, whole parents together where they fit."""
        lattice, (first, last) = self.lattice, self.rows[self.finest]
        most = max(1, budget // sum(lattice.width(node) for node in self._bottom))
        ends: Any = np.arange(first, last + 1)
        if upper:
            parents = lattice.codes.lists[0].parents(self.finest, max(upper))[first:last]
            ends = np.append(first + np.flatnonzero(np.diff(parents, prepend=-1)), last)
        chunks, start = [], first
        while start < last:
            fitting = ends[(ends > start) & (ends <= start + most)]
            end = int(fitting[-1]) if len(fitting) else min(start + most, int(ends[ends > start][0]))
            chunks.append((start, end))
            start = end
        return chunks

    def _splits(self, edge: Edge) -> bool:
        """Whether a parent of this edge has children in several chunks."""
        parents = self.lattice.codes.lists[0].parents(self.finest, edge.parent[0])
        return any(parents[end - 1] == parents[end] for _, end in self.chunks[:-1])

    def _block(self, rows: dict[int, tuple[int, int]], nodes: Sequence[Node], edges: Sequence[Edge]) -> Block:
        """A block that knows what each of its tables says by itself."""
        block = Block(self.lattice, dict(rows), nodes, edges)
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
            # The smallest integers in which the sums along any edge fit: less to move through memory.
            peak = max((int(high.max(initial=0)) for high in bounds.high.values()), default=0) + 1
            dtype = next((t for t in (np.int16, np.int32) if peak * longest <= np.iinfo(t).max), np.int64)
            for side in (bounds.low, bounds.high):
                side.update({node: np.ascontiguousarray(values, dtype=dtype) for node, values in side.items()})
        return block

    def run(self, progress: Progress | None = None) -> Attack:
        """Attack until nothing moves any more."""
        tell = progress or silent
        touched: set[Node] | None = None  # None stands for every table
        done = 0
        while True:
            visited = 0
            for number in range(len(self.chunks)):
                if number in self._kept and self._kept[number].saw == self._sees(number):
                    continue
                up = self._visit(number)
                touched = None if touched is None else touched | up
                visited += 1
                done += 1
                tell(ProgressStep("attacking", done, max(len(self.chunks), done + 1)))
            self._complete = True
            if not visited and touched is not None and not touched:
                break
            self.whole.close(self.published.K, touched)
            touched = set()
        self._check(self.whole)
        tell(ProgressStep("attacking", max(done, 1), max(done, 1)))
        return self

    def _guests(self, number: int) -> Iterator[tuple[int, Node, tuple[Any, ...]]]:
        """The parents of a chunk's cells in coarser areas: kind, table, and which of its areas."""
        first, last = self.chunks[number]
        for node in dict.fromkeys(edge.parent for edge in self._inner if edge.parent[0] != self.finest):
            start, end = self.lattice.over(self.finest, node[0], first, last)
            offset = self.rows[node[0]][0]
            for kind in range(len(self.whole.kinds)):
                yield kind, node, (..., slice(start - offset, end - offset))

    def _sees(self, number: int) -> tuple[int, ...]:
        """A signature of what a chunk is told from outside: bounds only ever tighten, so sums tell of any change."""
        seen: list[int] = []
        for kind, node, where in self._guests(number):
            bounds = self.whole.kinds[kind]
            seen += [int(bounds.low[node][where].sum()), int(bounds.high[node][where].sum())]
            for (of, edge), totals in self._totals.items():
                if of == kind and edge.parent == node:
                    seen += [int(total[where].sum()) for total in totals]
        return (*seen, int(self._complete and bool(self._totals)))

    def block(self, number: int) -> Block:
        """A chunk with its bounds as they stand."""
        first, last = self.chunks[number]
        rows = {self.finest: (first, last)}
        if number not in self._kept:
            return self._block(rows, self._bottom, self._inner)
        block = Block(self.lattice, rows, self._bottom, self._inner)
        kept = self._kept[number]
        block.kinds = [
            Bounds(*({node: _unpack(v) for node, v in side.items()} for side in kind)) for kind in kept.kinds
        ]
        block.listed, block.large = kept.listed, kept.large
        return block

    def _visit(self, number: int) -> set[Node]:
        """Attack a chunk, with its parents in coarser areas as guests; which of those moved."""
        first, last = self.chunks[number]
        block, new = self.block(number), number not in self._kept
        for kind, node, where in self._guests(number):
            block.rows[node[0]] = self.lattice.over(self.finest, node[0], first, last)
            guest, home = block.kinds[kind], self.whole.kinds[kind]
            # Sums over many areas are added up in the parent's type, so it must be a wide one.
            guest.low[node] = home.low[node][where].astype(np.int64)
            guest.high[node] = home.high[node][where].astype(np.int64)
        places = {node: where for _, node, where in self._guests(number)}
        before = {}
        for (kind, edge), totals in self._totals.items():
            before[kind, edge] = (0, 0) if new else block.sums(kind, edge)
            block.outside[kind, edge] = tuple(
                total[places[edge.parent]] - own for total, own in zip(totals, before[kind, edge], strict=True)
            )
        if not self._complete:  # what lies in chunks that were not looked at yet is not known
            block.edges = [edge for edge in block.edges if (0, edge) not in self._totals]
        block.close(self.published.K, None if new else set(places))
        self._check(block)
        for key, own in before.items():
            for total, old, now in zip(self._totals[key], own, block.sums(*key), strict=True):
                total[places[key[1].parent]] += now - old
        moved = set()
        for kind, node, where in self._guests(number):
            guest, home = block.kinds[kind], self.whole.kinds[kind]
            if (guest.low[node] > home.low[node][where]).any() or (guest.high[node] < home.high[node][where]).any():
                home.low[node][where], home.high[node][where] = guest.low[node], guest.high[node]
                moved.add(node)
        kinds = [tuple({n: _pack(side[n]) for n in self._bottom} for side in (b.low, b.high)) for b in block.kinds]
        self._kept[number] = _Kept(kinds, block.listed, block.large, self._sees(number))
        return moved

    def _check(self, block: Block) -> None:
        if block.contradicts():
            raise InputError(
                f"the tables contradict each other: no data gives all of them with method="
                f"{self.published.policy.name!r}, K={self.published.K} and cells={self.published.cells!r}. Give the "
                f"method, the threshold and the reading with which they were made."
            )

    def blocks(self) -> Iterator[Block]:
        """All bounds, a part at a time; each table of each area is one block's own."""
        if self.whole.own:
            yield self.whole
        for number in range(len(self.chunks)):
            yield self.block(number)


class _Kept(NamedTuple):
    kinds: list[Any]
    listed: dict[Node, Positive]
    large: dict[Node, IntArray]
    saw: tuple[int, ...]


def _longest(block: Block, edge: Edge) -> int:
    """How many children are summed into one parent, at most."""
    longest = 1
    for axis, starts, _, _ in block.steps(edge):
        shape = (*block.lattice.shape(edge.child), block.rows[edge.child[0]][1] - block.rows[edge.child[0]][0])
        longest *= shape[axis] if starts is None else int(np.diff(starts, append=shape[axis]).max())
    return longest


def _children(
    parents: IntArray, parent_shape: tuple[int, ...], shape: tuple[int, ...], steps: Sequence[Step]
) -> tuple[IntArray, IntArray]:
    """The places of the children of some parents, and beside each the place of its parent."""
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


def _pack(values: Array) -> Any:
    """An array as the places where it is not the common value, when these are few; else in one byte where that does."""
    flat = values.reshape(-1)
    common = flat[len(flat) // 2]
    for fill in {0, int(common)}:
        other = np.flatnonzero(flat != fill)
        if len(other) * 3 < len(flat):
            return values.shape, values.dtype, fill, other.astype(np.int32), flat[other]
    if values.dtype != np.int8 and flat.size and int(flat.min()) >= -128 and int(flat.max()) < 128:
        return values.dtype, values.astype(np.int8)
    return values


def _unpack(kept: Any) -> Array:
    if isinstance(kept, np.ndarray):
        return kept
    if len(kept) == 2:
        return np.asarray(kept[1].astype(kept[0]))
    shape, dtype, fill, place, values = kept
    flat = np.full(int(np.prod(shape)), fill, dtype=dtype)
    flat[place] = values
    return flat.reshape(shape)
