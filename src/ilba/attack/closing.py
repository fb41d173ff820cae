"""Run the attack without recording its steps: every area is a row of cells, for compiled loops.

The tables of a level are the same for all its areas, so the families of cells are listed once. Each area has a row with
one small number per cell, and a list of the few cells with further bounds (`kernels`). Areas of a level affect each
other only through coarser areas, so several are processed in parallel.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ilba.attack.kernels import (
    AT,
    CELL,
    END,
    HIGH,
    LEAST,
    LOW,
    MOST,
    add_part,
    close_area,
    leap,
    rule,
    settle_whole,
    tell_part,
)
from ilba.attack.lattice import Array, Edge, IntArray, Lattice, Node, Step, spread

T = TypeVar("T")

_TOGETHER = 8
"""the number of areas that a thread gets at a time"""
_FAR = 0.02
"""rows use a wider number type if more than this share of the empty cells needs one"""
_HUGE = 2**30
"""lists use four-byte numbers up to this value"""
_NARROW, _WIDE = (np.uint8, np.int32), (np.int64, np.int64)
"""the number types of a row and of its lists; only these two pairs, since loops are compiled for each"""


class Families(NamedTuple):
    """The tables of one area: where each begins in a row, and which cells add up to which."""

    nodes: list[Node]
    at: IntArray
    parents: Array
    member_at: IntArray
    members: Array
    runs: tuple[IntArray, IntArray, IntArray]
    """where the families of two tables begin, the coarser table, and the finer table"""

    @classmethod
    def of(cls, lattice: Lattice, nodes: list[Node], edges: Iterable[tuple[Edge, list[Step]]]) -> Families:
        """List the families of the tables `nodes`, all of one level, along the edges between them."""
        at = np.concatenate(([0], np.cumsum([lattice.width(node) for node in nodes]))).astype(np.int64)
        none = np.zeros(0, np.int64)
        parents, sizes, members, above, below = [none], [none], [none], [], []
        for edge, steps in edges:
            place = _place(lattice, edge, steps)
            above.append(nodes.index(edge.parent))
            below.append(nodes.index(edge.child))
            parents.append(np.arange(lattice.width(edge.parent)) + at[above[-1]])
            sizes.append(np.bincount(place, minlength=len(parents[-1])))
            members.append(np.argsort(place, kind="stable") + at[below[-1]])
        first = np.cumsum([len(part) for part in parents])
        return cls(
            nodes,
            at,
            np.concatenate(parents).astype(np.uint32),  # unsigned: no place counts from the end, so loops are faster
            np.concatenate(([0], np.cumsum(np.concatenate(sizes)))),
            np.concatenate(members).astype(np.uint32),
            (first, np.array(above, dtype=np.int64), np.array(below, dtype=np.int64)),
        )

    def cells(self, node: Node) -> slice:
        """Where the cells of a table are in a row."""
        number = self.nodes.index(node)
        return slice(int(self.at[number]), int(self.at[number + 1]))


def _place(lattice: Lattice, edge: Edge, steps: Sequence[Step]) -> IntArray:
    """The parent's cell for each cell of an edge's child, within one area."""
    shapes = [(*lattice.shape(node), 1) for node in edge]
    inside = [step for step in steps if step.axis < len(shapes[0]) - 1]
    place = spread(np.arange(math.prod(shapes[0])).reshape(shapes[0]), inside)
    return np.broadcast_to(place, shapes[1]).reshape(-1)


class Said(NamedTuple):
    """What one table says about some of its cells: bounds on sums and on numbers of occupied cells, and its rules."""

    low: Array
    high: Array
    least: Array | None
    most: Array | None
    rules: tuple[Array, ...] | None
    """which of the cells have a released sum above 0, and of those |S_K|, the end of the block, how many are shifted"""


class Rows:
    """All tables of one level: a row and a list of cells for each area."""

    def __init__(self, families: Families, areas: int, counted: bool) -> None:
        self.families, self.areas, self.counted = families, areas, counted
        self.width = int(families.at[-1])
        self.row: Array = np.zeros((0, 0), np.uint8)
        self.mark: Any = 0
        self.lists: list[Array] = []
        self.moved = np.ones((areas, len(families.nodes)), np.uint8)
        self.stamp = np.ones(areas, np.int64)
        self._heard: list[tuple[IntArray, Array]] = []

    def begin(self, far: float) -> None:
        """Allocate the rows: one byte per cell unless `far`, the share of highs that need more, is too large."""
        self._hold(np.empty((self.areas, self.width), (_WIDE if far > _FAR else _NARROW)[0]))

    def _hold(self, row: Array) -> None:
        self.row = row
        self.mark = row.dtype.type(np.iinfo(row.dtype).max)  # of the row's type, so that loops compare bytes

    def _empty(self, said: Said) -> tuple[Array, Array]:
        """Which cells a row alone can hold, and the values it holds for them."""
        empty: Array = (said.low == 0) & (said.high >= 0) & (said.high < self.mark)
        if said.least is None or said.most is None:
            return empty, said.high
        empty &= (said.least == 0) & (np.minimum(said.most, said.high) <= 1)
        return empty, np.where(said.most > 0, said.high, 0)

    def fill(self, node: Node, said: Said, areas: slice) -> bool:
        """Store the common bounds of a table for every area; return whether rows can hold them."""
        empty, top = self._empty(said)
        if not empty.all():
            return False
        self.row[areas, self.families.cells(node)] = top.reshape(-1)
        return True

    def hear(self, node: Node, said: Said, area: IntArray, cell: IntArray) -> None:
        """Store the bounds of a table for some cells."""
        at = self.families.cells(node).start
        empty, top = (part.reshape(-1) for part in self._empty(said))
        if said.rules is not None:
            empty[said.rules[0]] = False
        self.row[area, at + cell] = np.where(empty, top, self.mark)
        where = np.flatnonzero(~empty)
        listed = np.zeros((len(where), 8), np.int64)
        listed[:, CELL] = cell[where] + at
        listed[:, END] = -1
        for column, side in zip((LOW, HIGH, LEAST, MOST), said[:4], strict=True):
            if side is not None:
                listed[:, column] = side.reshape(-1)[where]
        if said.rules is not None:
            ruled, *limits = said.rules
            listed[np.searchsorted(where, ruled), AT:] = np.stack(limits, axis=1)
        if len(listed):
            small = int(np.abs(listed).max()) < _HUGE
            self._heard.append((area[where], listed.astype(_NARROW[1]) if small else listed))

    def ready(self, K: int) -> None:
        """Put the stored bounds into the lists of the areas."""
        if self.row.dtype == _NARROW[0] and any(listed.dtype == _WIDE[1] for _, listed in self._heard):
            is_listed = self.row == self.mark
            self._hold(self.row.astype(_WIDE[0]))
            self.row[is_listed] = self.mark
        dtype = (_NARROW if self.row.dtype == _NARROW[0] else _WIDE)[1]  # an empty cell may be listed later
        empty = np.zeros((0, 8), dtype)
        number = np.concatenate([np.zeros(0, np.int64), *(part for part, _ in self._heard)])
        listed = np.concatenate([empty, *(part.astype(dtype, copy=False) for _, part in self._heard)])
        self._heard = []
        order = np.argsort(number, kind="stable")
        listed = listed[order]
        if self.counted:
            rule(listed, K)
        ends = np.searchsorted(number[order], np.arange(1, self.areas))
        self.lists = [part.copy() for part in np.split(listed, ends)]

    def dense(self, node: Node, first: int, last: int) -> list[Array]:
        """Low and high (in the observed reading also least and most) of a table in some of its areas, cells first."""
        cells = self.families.cells(node)
        top = self.row[first:last, cells].T
        place, number, listed = self.found(node, first, last)
        high = np.where(top == self.mark, 0, top).astype(np.int64)
        sides = [np.zeros_like(high), high]
        if self.counted:
            sides += [np.zeros_like(high), (high > 0).astype(np.int64)]
        for side, column in zip(sides, (LOW, HIGH, LEAST, MOST), strict=False):
            side[place, number] = listed[:, column]
        return sides

    def found(self, node: Node, first: int, last: int) -> tuple[IntArray, IntArray, Array]:
        """The listed cells of a table in some areas: cell, area numbered from the first one, and list entries."""
        cells = self.families.cells(node)
        lists = self.lists[first:last]
        if not lists:
            return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 8), np.int64)
        listed = np.concatenate(lists)
        number = np.repeat(np.arange(len(lists)), [len(one) for one in lists])
        inside = (listed[:, CELL] >= cells.start) & (listed[:, CELL] < cells.stop)
        listed = listed[inside]
        return listed[:, CELL].astype(np.int64) - cells.start, number[inside], listed

    def by_table(self) -> dict[Node, tuple[IntArray, IntArray, IntArray]]:
        """The listed cells of each table, sorted: areas times cells, with low and high."""
        own, at = [listed[:, : HIGH + 1] for listed in self.lists], self.families.at
        listed = np.concatenate([np.zeros((0, HIGH + 1), np.int64), *own]).astype(np.int64)
        number = np.repeat(np.arange(len(own)), [len(one) for one in own])
        table = np.searchsorted(at, listed[:, CELL], side="right") - 1
        place = number * np.diff(at)[table] + listed[:, CELL] - at[table]
        order = np.lexsort((place, table))
        ends = np.searchsorted(table[order], np.arange(len(at)))
        found = {}
        for node, first, last in zip(self.families.nodes, ends[:-1], ends[1:], strict=True):
            these = order[first:last]
            found[node] = place[these], listed[these, LOW], listed[these, HIGH]
        return found

    def contradicts(self) -> bool:
        """Whether no truth fits the bounds."""
        kinds = ((LOW, HIGH), (LEAST, MOST)) if self.counted else ((LOW, HIGH),)
        return any(bool((listed[:, lo] > listed[:, hi]).any()) for listed in self.lists for lo, hi in kinds)


class _Link(NamedTuple):
    """The link between a level and a finer one: the coarser cell and area of each finer cell and area."""

    above: int
    below: int
    place: Array
    has: Array
    """which cells of the coarser row have parts here"""
    starts: IntArray
    areas: IntArray
    """the finer areas of each coarser one"""
    over: IntArray
    """the coarser area of each finer one"""
    seen: IntArray


class Closing:
    """The attack on rows of areas, to its fixpoint."""

    def __init__(
        self,
        lattice: Lattice,
        edges: Sequence[Edge],
        steps: Callable[[Edge], list[Step]],
        K: int,
        counted: bool,
        gap: int = 1,
    ) -> None:
        self.lattice, self.K, self.counted, self.gap = lattice, K, counted, gap
        self.levels: dict[int, Rows] = {}
        self.links: list[_Link] = []
        self._edges, self._steps = edges, steps
        self._clock = 2
        self._own = threading.local()

    def add(self, level: int, nodes: list[Node], areas: int) -> Rows:
        """Make room for the tables of a level."""
        inner = [edge for edge in self._edges if edge.parent[0] == edge.child[0] == level]
        key = (tuple(nodes), tuple(inner))
        if key not in self.lattice.families:  # the same for every area
            listed = [(edge, self._steps(edge)) for edge in inner]
            self.lattice.families[key] = Families.of(self.lattice, nodes, listed)
        self.levels[level] = Rows(self.lattice.families[key], areas, self.counted)
        return self.levels[level]

    def link(self) -> None:
        """Find the cells of finer areas that add up to each cell of a coarser area."""
        for edge in self._edges:
            if edge.parent[0] == edge.child[0]:
                continue
            steps = self._steps(edge)
            above, below = edge.parent[0], edge.child[0]
            upper, lower = self.levels[above].families, self.levels[below].families
            here, there = upper.cells(edge.parent), lower.cells(edge.child)
            along = [step for step in steps if step.axis == len(self.lattice.shape(edge.child))]
            over = along[0].spread if along else None
            over = np.zeros(self.levels[below].areas, np.int64) if over is None else over
            for link in self.links:
                fits = (link.above, link.below) == (above, below) and np.array_equal(link.over, over)
                if fits and not link.has[here].any() and (link.place[there] < 0).all():
                    break
            else:
                order = np.argsort(over, kind="stable")
                starts = np.searchsorted(over[order], np.arange(self.levels[above].areas + 1))
                link = _Link(
                    above, below, np.full(int(lower.at[-1]), -1, np.int32), np.zeros(int(upper.at[-1]), bool),
                    starts, order, over, np.zeros(self.levels[above].areas, np.int64),
                )  # fmt: skip
                self.links.append(link)
            link.place[there] = _place(self.lattice, edge, steps) + here.start
            link.has[here] = True

    def run(self, tell: Callable[[int, int], None] | None = None) -> None:
        """Propagate until no bound moves. `tell` gets the number of finest areas that are closed, and of all."""
        self.link()
        self._tell, self._done = tell, 0
        with ThreadPoolExecutor(os.cpu_count() or 1) as self._pool:
            order = sorted(self.levels)
            if order:
                self._converge(order, len(order) - 1)
            while self._leap():
                self._converge(order, len(order) - 1)

    def _converge(self, order: list[int], last: int) -> None:
        """Close the levels up to `last`, coarse levels first, because their bounds save work on finer ones."""
        links = [link for link in self.links if link.below == order[last]]
        rows = self.levels[order[last]]
        while True:
            if last:
                self._converge(order, last - 1)
            for link in links:
                self._settle(link, down=True)
            if not rows.moved.any():
                if not any(self.levels[level].moved.any() for level in order[:last]):
                    return
                continue
            self._close(order[last], finest=last == len(self.levels) - 1)
            if not last:
                return
            for link in links:
                self._settle(link, down=False)

    def _leap(self) -> bool:
        """Narrow numbers that are 0 or at least `gap`; return whether any moved."""
        if self.gap == 1:
            return False
        self._clock += 1
        before = self._clock
        for rows in self.levels.values():
            for a in range(rows.areas):
                if leap(rows.row[a], rows.lists[a], rows.families.at, self.gap, rows.moved[a], rows.mark):
                    rows.stamp[a] = self._clock
        return any((rows.stamp == before).any() for rows in self.levels.values())

    def _close(self, level: int, finest: bool) -> None:
        """Close the areas of a level in which something moved."""
        rows = self.levels[level]
        own = rows.families
        families = own.parents, own.member_at, own.members

        def close(areas: IntArray) -> int:
            listed, at = self._work(rows)
            for a in areas:
                kept = rows.lists[a]
                number, changed = close_area(
                    rows.row[a], kept, listed, at, families, own.runs, rows.moved[a], self.K, self.counted, rows.mark
                )
                if number > len(kept):
                    rows.lists[a] = listed[:number].copy()
                if changed:
                    rows.stamp[a] = self._clock
            return len(areas)

        self._clock += 1
        waiting = np.flatnonzero(rows.moved.any(axis=1))
        for number in self._each(close, waiting):
            if finest and self._tell is not None:
                self._done += number
                self._tell(self._done, max(rows.areas, self._done + 1))

    def _settle(self, link: _Link, down: bool) -> None:
        """Propagate sums of finer areas to the coarser areas; with `down`, propagate the rest back."""
        upper, lower = self.levels[link.above], self.levels[link.below]
        newest = upper.stamp.copy()
        np.maximum.at(newest, link.over, lower.stamp)
        waiting = np.flatnonzero(newest > link.seen)
        self._clock += 1
        if down:
            link.seen[waiting] = self._clock
        self._clock += 1

        straight = bool((link.place == np.arange(upper.width)).all()) if upper.width == lower.width else False

        def settle(areas: IntArray) -> int:
            listed, at = self._work(upper)
            sums, limit = np.empty((4, upper.width), np.int64), np.empty(upper.width, lower.row.dtype)
            for g in areas:
                parts = link.areas[link.starts[g] : link.starts[g + 1]]
                sums[:] = 0
                sums[0, ~link.has] = -1
                limit[:] = lower.mark - 1
                for a in parts:
                    add_part(lower.row[a], lower.lists[a], link.place, straight, sums, lower.mark)
                number, changed = settle_whole(
                    upper.row[g], upper.lists[g], listed, at, upper.families.at, sums, limit, int(lower.mark) - 1,
                    upper.moved[g], self.K, self.counted, upper.mark,
                )  # fmt: skip
                if number > len(upper.lists[g]):
                    upper.lists[g] = listed[:number].copy()
                if changed:
                    upper.stamp[g] = self._clock
                more, place = self._work(lower)
                for a in parts if down else ():
                    number, changed = tell_part(
                        lower.row[a], lower.lists[a], more, place, lower.families.at, link.place, straight, sums, limit,
                        lower.moved[a], self.K, self.counted, lower.mark,
                    )  # fmt: skip
                    if number > len(lower.lists[a]):
                        lower.lists[a] = more[:number].copy()
                    if changed:
                        lower.stamp[a] = self._clock
            return len(areas)

        for _ in self._each(settle, waiting):
            pass

    def _each(self, work: Callable[[IntArray], T], areas: IntArray) -> Iterable[T]:
        """Process some areas, on all cores where it pays."""
        cores = os.cpu_count() or 1
        if cores == 1 or len(areas) < 2:
            return [work(areas)] if len(areas) else []
        pieces = max(-(-len(areas) // _TOGETHER), min(cores, len(areas)))
        return self._pool.map(work, np.array_split(areas, pieces))

    def _work(self, rows: Rows) -> tuple[Array, Array]:
        """Working memory of one thread: the list of one area, and the place of each cell in it."""
        dtype = rows.lists[0].dtype if rows.lists else np.dtype(_NARROW[1])
        key = f"{dtype}-{rows.width}"
        if not hasattr(self._own, key):
            setattr(self._own, key, (np.empty((rows.width, 8), dtype), np.empty(rows.width, np.int32)))
        found: tuple[Array, Array] = getattr(self._own, key)
        return found


def close_block(block: Any, K: int, moved: set[Node] | None) -> set[Node]:
    """Run the attack on one block of dense arrays; takes the tables that moved before, returns those that move now."""
    kinds, lattice = block.kinds, block.lattice
    counted = len(kinds) == 2
    tables = list(kinds[0].low)
    edges = [edge for edge in block.edges if edge.parent in kinds[0].low]
    closing = Closing(lattice, edges, block.steps, K, counted, block.gap)
    for level in sorted({node[0] for node in tables}):
        nodes = [node for node in tables if node[0] == level]
        rows = closing.add(level, nodes, kinds[0].low[nodes[0]].shape[-1])
        said = {node: _said(block, node) for node in nodes}
        rows.begin(farness(said.values()))
        for node, one in said.items():
            cell, area = (part.reshape(-1) for part in np.indices((lattice.width(node), rows.areas)))
            rows.hear(node, one, area, cell)
        rows.ready(K)
        if moved is not None:
            rows.moved[:] = [node in moved for node in nodes]
    closing.run()
    changed: set[Node] = set()
    for rows in closing.levels.values():
        for node in rows.families.nodes:
            sides = iter(rows.dense(node, 0, rows.areas))
            for bounds in kinds:
                for side in (bounds.low[node], bounds.high[node]):
                    new = next(sides).reshape(side.shape)
                    if not np.array_equal(new, side):
                        changed.add(node)
                        side[...] = new
    return changed


def farness(said: Iterable[Said]) -> float:
    """The share of empty cells whose high does not fit into one byte."""
    far = number = 0
    for one in said:
        high = one.high[one.low == 0]
        far += int((high >= np.iinfo(np.uint8).max).sum())
        number += high.size
    return far / max(number, 1)


def _said(block: Any, node: Node) -> Said:
    low, high = block.kinds[0].low[node], block.kinds[0].high[node]
    if len(block.kinds) == 1:
        return Said(low, high, None, None, None)
    rules = block.listed.get(node)
    return Said(low, high, block.kinds[1].low[node], block.kinds[1].high[node], None if rules is None else tuple(rules))
