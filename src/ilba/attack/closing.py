"""Run the attack on one block without writing its steps down: the block as rows of areas, for compiled loops."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from ilba.attack.kernels import add_up, close_areas, settle_levels, settle_mapped
from ilba.attack.lattice import Array, Edge, IntArray, Lattice, Node, Step, spread

_AREAS = 4
"""areas for each core that are worth a thread"""


class Families(NamedTuple):
    """The tables of one area: where each begins in a row, and which cells add up to which."""

    nodes: list[Node]
    at: IntArray
    parents: Array
    member_at: IntArray
    members: Array
    family_at: IntArray
    family_of: Array

    @classmethod
    def of(cls, lattice: Lattice, nodes: list[Node], edges: Iterable[tuple[Edge, list[Step]]]) -> Families:
        """List the families of the tables `nodes`, all of one level, along edges between them."""
        at = np.concatenate(([0], np.cumsum([lattice.width(node) for node in nodes]))).astype(np.int64)
        parents, sizes, members = [], [], []
        for edge, steps in edges:
            shapes = [(*lattice.shape(node), 1) for node in edge]
            place = spread(np.arange(math.prod(shapes[0])).reshape(shapes[0]), steps)
            place = np.broadcast_to(place, shapes[1]).reshape(-1)
            order = np.argsort(place, kind="stable")
            above, below = nodes.index(edge.parent), nodes.index(edge.child)
            parents.append(np.arange(math.prod(shapes[0])) + at[above])
            sizes.append(np.bincount(place, minlength=len(parents[-1])))
            members.append(order + at[below])
        if not parents:
            empty = np.zeros(0, np.int32)
            return cls(nodes, at, empty, np.zeros(1, np.int64), empty, np.zeros(int(at[-1]) + 1, np.int64), empty)
        parent, size, member = (np.concatenate(part) for part in (parents, sizes, members))
        family = np.arange(len(parent))
        cell = np.concatenate([parent, member])
        belongs = np.concatenate([family, np.repeat(family, size)])
        order = np.argsort(cell, kind="stable")
        return cls(
            nodes,
            at,
            parent.astype(np.int32),
            np.concatenate(([0], np.cumsum(size))),
            member.astype(np.int32),
            np.searchsorted(cell[order], np.arange(int(at[-1]) + 1)),
            belongs[order].astype(np.int32),
        )


class _Level:
    """All tables of one level: a row for each area, in it the cells of one table after the other."""

    def __init__(self, families: Families, kinds: Sequence[Any], listed: dict[Node, Any], dtype: Any) -> None:
        self.families = families
        nodes = families.nodes
        self.areas = kinds[0].low[nodes[0]].shape[-1]
        width = int(families.at[-1])
        self.kinds: list[tuple[Array, Array]] = []
        for bounds in kinds:
            rows = tuple(np.empty((self.areas, width), dtype=dtype) for _ in range(2))
            for side, into in zip((bounds.low, bounds.high), rows, strict=True):
                for node in nodes:
                    into[:, self.cells(node)] = side[node].reshape(-1, self.areas).T
            self.kinds.append((rows[0], rows[1]))
        self.dirty = np.zeros((self.areas, width), dtype=np.uint8)
        self.sums = np.zeros((self.areas, max(len(families.parents), 1), 6), dtype=dtype)
        """of each family of each area: sums of lows and highs, and the widest part, for both kinds of bounds"""
        self.stamp, self.looked = np.zeros(self.areas, np.int64), np.zeros(self.areas, np.int64)
        self.rule_of = np.full((self.areas, width if len(kinds) == 2 else 1), -1, dtype=np.int32)
        rules = [np.zeros((0, 3), dtype=dtype)]
        count = 0
        for node in nodes if len(kinds) == 2 else ():
            if node in listed:
                place, *limits = listed[node]
                cell = place // self.areas + families.at[nodes.index(node)]
                self.rule_of[place % self.areas, cell] = count + np.arange(len(place))
                rules.append(np.stack(limits, axis=1).astype(dtype))
                count += len(place)
        self.rules = np.concatenate(rules)

    def recall(self) -> None:
        """Add up the families of areas that were closed before."""
        add_up(tuple(side for kind in self.kinds for side in kind), self.families[2:5], self.sums)

    def cells(self, node: Node) -> slice:
        """Where the cells of a table stand in a row."""
        number = self.families.nodes.index(node)
        return slice(int(self.families.at[number]), int(self.families.at[number + 1]))


class _Between(NamedTuple):
    """An edge from one level to another, with the same cells in both."""

    edge: Edge
    place: IntArray
    starts: IntArray
    seen: list[IntArray]


class _Other(NamedTuple):
    """An edge along several axes at once: the parent's place of each cell of the child."""

    edge: Edge
    groups: IntArray
    seen: list[int]


class Closing:
    """The attack inside one block, to its fixpoint."""

    def __init__(self, block: Any, K: int, moved: set[Node] | None) -> None:
        self.block, self.K = block, K
        lattice: Lattice = block.lattice
        kinds = block.kinds
        self.counted = len(kinds) == 2
        tables = list(kinds[0].low)
        edges = [edge for edge in block.edges if edge.parent in kinds[0].low]
        self.dtype = self._type(edges)
        self.levels: dict[int, _Level] = {}
        for level in sorted({node[0] for node in tables}):
            nodes = [node for node in tables if node[0] == level]
            inner = [edge for edge in edges if edge.parent[0] == edge.child[0] == level]
            key = (tuple(nodes), tuple(inner))
            if key not in lattice.families:  # the same for every block
                lattice.families[key] = Families.of(lattice, nodes, [(edge, block.steps(edge)) for edge in inner])
            self.levels[level] = _Level(lattice.families[key], kinds, block.listed, self.dtype)
        self.clock = 1
        for rows in self.levels.values():
            rows.stamp[:] = 1
            if moved is None:
                continue
            rows.looked[:] = 1  # looked at before; only what moved since is looked at again
            rows.stamp[:] = int(any(node in moved for node in rows.families.nodes)) * 2
            for node in rows.families.nodes:
                rows.dirty[:, rows.cells(node)] = node in moved
            rows.recall()
        self.clock = 2
        self.between: list[_Between] = []
        self.others: list[_Other] = []
        for edge in edges:
            if edge.parent[0] == edge.child[0]:
                continue
            steps = block.steps(edge)
            parent, child = self.levels[edge.parent[0]], self.levels[edge.child[0]]
            side_by_side = len(steps) == 1 and steps[0].order is None
            if side_by_side and steps[0].axis == len(lattice.shape(edge.child)):
                ends = np.append(np.array([0]) if steps[0].starts is None else steps[0].starts, child.areas)
                here, there = parent.cells(edge.parent), child.cells(edge.child)
                place = np.array([here.start, there.start, here.stop - here.start])
                seen = [np.zeros(parent.areas, dtype=np.int64) for _ in kinds]
                self.between.append(_Between(edge, place, ends.astype(np.int64), seen))
            else:
                shapes = [kinds[0].low[node].shape for node in edge]
                places = spread(np.arange(math.prod(shapes[0])).reshape(shapes[0]), steps)
                groups = np.ascontiguousarray(np.broadcast_to(places, shapes[1])).reshape(-1)
                self.others.append(_Other(edge, groups, [0]))
        self.work = np.zeros(
            (4, max((int(rows.families.at[-1]) for rows in self.levels.values()), default=0)), dtype=self.dtype
        )

    def _type(self, edges: list[Edge]) -> Any:
        """Integers in which the sums along any edge fit."""
        kinds, block = self.block.kinds, self.block
        peak = max((int(high.max(initial=0)) for bounds in kinds for high in bounds.high.values()), default=0) + 1
        beside = max((int(np.abs(part).max(initial=0)) for pair in block.outside.values() for part in pair), default=0)
        longest = 1
        for edge in edges:
            shape = kinds[0].low[edge.child].shape
            longest = max(longest, math.prod(_longest(shape, step) for step in block.steps(edge)))
        return np.int32 if 2 * (peak * longest + beside) < 2**31 else np.int64

    def run(self) -> set[Node]:
        """Until nothing moves; which tables moved."""
        newest = -1
        while True:
            for rows in self.levels.values():
                self._close_areas(rows)
            for one in self.between:
                self._settle_levels(one)
            for other in self.others:
                self._settle_mapped(other)
            now = max((int(rows.stamp.max(initial=0)) for rows in self.levels.values()), default=0)
            if now == newest:
                break
            newest = now
        return self._written()

    def _close_areas(self, rows: _Level) -> None:
        """Close each area of a level. An area touches no other one, so some are worked on at the same time."""
        own, number = rows.families, max(len(rows.families.parents), 1)
        kinds = rows.kinds if self.counted else rows.kinds * 2

        def close(areas: slice) -> int:
            return close_areas(
                tuple(side[areas] for kind in kinds for side in kind),
                self.counted,
                self.K,
                own[2:5],
                own[5:7],
                (rows.rule_of[areas], rows.rules),
                (rows.dirty[areas], rows.stamp[areas], rows.looked[areas], self.clock),
                (np.empty(number, np.int32), np.zeros(number, np.uint8)),
                (np.zeros((int(own.at[-1]), 4), self.dtype), rows.sums[areas]),
            )

        cores = os.cpu_count() or 1
        waiting = np.flatnonzero(rows.stamp > rows.looked)
        if cores == 1 or len(waiting) < _AREAS * cores:
            self.clock = close(slice(None))
            return
        cuts = [0, *(int(waiting[len(waiting) * i // cores]) for i in range(1, cores)), rows.areas]
        with ThreadPoolExecutor(cores) as pool:
            # Stamps of different areas may be the same: each is compared with what was looked at before.
            self.clock = max(pool.map(close, (slice(*ends) for ends in itertools.pairwise(cuts))))

    def _settle_levels(self, one: _Between) -> None:
        edge = one.edge
        parent, child = self.levels[edge.parent[0]], self.levels[edge.child[0]]
        marks = parent.dirty, parent.stamp, child.dirty, child.stamp
        for kind, (above, below) in enumerate(zip(parent.kinds, child.kinds, strict=True)):
            beside = self.block.outside.get((kind, edge))
            others = [np.zeros((0, 0), np.int64)] * 2
            if beside is not None:
                others = [np.ascontiguousarray(part.reshape(-1, parent.areas).T, dtype=np.int64) for part in beside]
            self.clock = settle_levels(
                above, below, one.place, one.starts, tuple(others), marks, one.seen[kind], self.clock, self.work
            )

    def _settle_mapped(self, one: _Other) -> None:
        parent, child = self.levels[one.edge.parent[0]], self.levels[one.edge.child[0]]
        if max(int(rows.stamp.max(initial=0)) for rows in (parent, child)) <= one.seen[0]:
            return
        cells = parent.cells(one.edge.parent), child.cells(one.edge.child)
        self.clock += 1
        one.seen[0] = self.clock
        for kind, (above, below) in enumerate(zip(parent.kinds, child.kinds, strict=True)):
            beside = self.block.outside.get((kind, one.edge))
            others = [np.zeros(0, np.int64)] * 2
            if beside is not None:
                others = [np.ascontiguousarray(part, dtype=np.int64).reshape(-1) for part in beside]
            flat = [
                tuple(side[:, where].T.copy().reshape(-1) for side in sides)
                for sides, where in zip((above, below), cells, strict=True)
            ]
            moved = settle_mapped(flat[0], flat[1], one.groups, tuple(others))
            sides_of = (above, below)
            for rows, sides, where, new, did in zip((parent, child), sides_of, cells, flat, moved, strict=True):
                if not did:
                    continue
                self.clock += 1
                for side, values in zip(sides, new, strict=True):
                    now = values.reshape(-1, rows.areas).T
                    differs = side[:, where] != now
                    rows.dirty[:, where] |= differs
                    rows.stamp[differs.any(axis=1)] = self.clock
                    side[:, where] = now

    def _written(self) -> set[Node]:
        """Put the bounds back into the block."""
        changed: set[Node] = set()
        for rows in self.levels.values():
            for node in rows.families.nodes:
                for bounds, sides in zip(self.block.kinds, rows.kinds, strict=True):
                    for side, values in zip((bounds.low, bounds.high), sides, strict=True):
                        new = values[:, rows.cells(node)].T.reshape(side[node].shape)
                        if not np.array_equal(new, side[node]):
                            changed.add(node)
                            side[node][...] = new
        return changed


def _longest(shape: tuple[int, ...], step: Step) -> int:
    """How many cells are summed into one along an axis, at most."""
    if step.starts is None:
        return shape[step.axis]
    return int(np.diff(step.starts, append=shape[step.axis]).max())
