"""Tables as nodes of a lattice: which table adds up to which, and the arithmetic of going from one to the other.

A node is a table: the level of each dimension, the hierarchies first and then the keys (a key has the levels 0 and 1).
The cells of a node are a dense array with one axis for each dimension but the first, and the areas of the first
hierarchy as the last axis. So a few areas can be worked on at a time, and sums over a key run over long contiguous
stretches.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeLists
from ilba.design.design import Design, Selection

Node: TypeAlias = tuple[int, ...]
AreaRanges: TypeAlias = Mapping[int, tuple[int, int]]
Array: TypeAlias = npt.NDArray[Any]
IntArray: TypeAlias = npt.NDArray[np.int64]


WIDEST = 50_000_000
"""cells of one area that can be followed"""
MANY = 2**40
"""where more cells are counted than this, nobody asks how many"""


class Edge(NamedTuple):
    """A table and a finer one that adds up to it, with no table of the lattice between the two."""

    parent: Node
    child: Node


class Step(NamedTuple):
    """Summing along one axis: into one (`starts` is None), or into runs that begin at `starts`.

    Where the parts of a whole do not stand side by side, `order` puts them so.
    """

    axis: int
    starts: IntArray | None
    spread: IntArray | None
    order: IntArray | None = None


def node_of(design: Design, selection: Selection) -> Node:
    """The node of a table."""
    return (*selection.levels, *(int(key in selection.keys) for key in design.keys))


def table_of(design: Design, node: Node) -> Selection:
    """The table of a node, its keys in the order of the design."""
    areas = len(design.hierarchies)
    return design.at(node[:areas], [key for key, level in zip(design.keys, node[areas:], strict=True) if level])


class Lattice:
    """The released tables, and what ties them to each other.

    That is their common refinement `base`, whether it is released or not. Where that has more cells than can be
    followed, as that of many tables of few variables each, it is their common margins instead: any two tables have to
    agree in what both add up to.
    """

    def __init__(self, codes: CodeLists, nodes: Iterable[Node]) -> None:
        self.codes = codes
        released = list(dict.fromkeys(nodes))
        self.base: Node = tuple(max(levels) for levels in zip(*released, strict=True))
        self.wide = self.width(self.base) > WIDEST
        """whether the common refinement is too large to be followed, and common margins take its place"""
        between = meets(released) if self.wide else {self.base}
        # Finest first: a table can then be summed from one that stands before it.
        self.nodes = sorted({*released, *between}, key=lambda node: (sum(node), node), reverse=True)

    @cached_property
    def families(self) -> dict[Any, Any]:
        """Which cells of an area add up to which, by tables: kept for all areas once it was listed."""
        return {}

    @cached_property
    def edges(self) -> list[Edge]:
        """The cover relation, finest children first."""
        levels = np.array(self.nodes)
        below: Array = np.all(levels[:, None, :] <= levels[None, :, :], axis=2)
        np.fill_diagonal(below, False)
        reach: Array = below.astype(np.float32)
        between = (reach @ reach) > 0
        found = np.argwhere(below & ~between)
        edges = [Edge(self.nodes[parent], self.nodes[child]) for parent, child in found]
        return sorted(edges, key=lambda edge: (sum(edge.child), sum(edge.parent), edge), reverse=True)

    @property
    def levels(self) -> list[int]:
        """The levels of the first hierarchy at which there are tables, coarse to fine."""
        return sorted({node[0] for node in self.nodes})

    def shape(self, node: Node) -> tuple[int, ...]:
        """The size of each dimension but the first."""
        return tuple(listed.size(level) for listed, level in zip(self.codes.lists[1:], node[1:], strict=True))

    def width(self, node: Node) -> int:
        """How many cells a table has for one area."""
        return math.prod(self.shape(node))

    def areas(self, level: int, above: int, first: int, last: int) -> tuple[int, int]:
        """The run of areas at `level` that lie below the areas first..last of the level `above`."""
        ends = np.searchsorted(self.codes.lists[0].parents(level, above), [first, last])
        return int(ends[0]), int(ends[1])

    def over(self, level: int, above: int, first: int, last: int) -> tuple[int, int]:
        """The run of areas at the level `above` that lie above the areas first..last of `level`."""
        parents = self.codes.lists[0].parents(level, above)
        return int(parents[first]), int(parents[last - 1]) + 1

    def steps(self, edge: Edge, rows: AreaRanges) -> list[Step]:
        """How the child's cells are summed into the parent's, for a part of the areas."""
        steps = []
        for dimension, (above, level) in enumerate(zip(edge.parent, edge.child, strict=True)):
            if above == level:
                continue
            listed = self.codes.lists[dimension]
            spread = listed.parents(level, above)
            if dimension == 0:
                first, last = rows[level]
                spread = spread[first:last] - rows[above][0]
                axis = len(self.codes.lists) - 1
            else:
                axis = dimension - 1
            whole = dimension > 0 and above == 0
            starts = None if whole else np.flatnonzero(np.diff(spread, prepend=-1)).astype(np.int64)
            steps.append(Step(axis, starts, None if whole else spread))
        return steps

    def sizes(self, node: Node, first: int, last: int) -> IntArray:
        """How many cells of the base lie in each cell of a table, for some of its areas; `MANY` where it is more."""
        size: npt.NDArray[np.float64] = np.ones((1,) * len(self.codes.lists))
        for dimension, (listed, level, finest) in enumerate(zip(self.codes.lists, node, self.base, strict=True)):
            below = np.bincount(listed.parents(finest, level), minlength=listed.size(level))
            if dimension > 0:
                below = np.expand_dims(below, tuple(i for i in range(size.ndim) if i != dimension - 1))
            size = np.minimum(size * (below[first:last] if dimension == 0 else below), MANY)
        return size.astype(np.int64)


def meets(nodes: Sequence[Node]) -> set[Node]:
    """The common margins of tables: what any of them have in common, each variable at the coarser of their levels."""
    found = set(nodes)
    new = found
    while new:
        new = {tuple(map(min, one, other)) for one in new for other in nodes} - found
        found |= new
    return found


def collapse(values: Array, steps: Sequence[Step], dtype: Any, how: np.ufunc = np.add) -> Array:
    """Sum a finer table's cells into a coarser one's (or take the largest of them, with np.maximum)."""
    for axis, starts, _, order in steps:
        if order is not None:
            values = np.take(values, order, axis=axis)
        if starts is None:
            values = how.reduce(values, axis=axis, keepdims=True, dtype=dtype)
        else:
            values = how.reduceat(values, starts, axis=axis, dtype=dtype)
    return values


def spread(values: Array, steps: Sequence[Step]) -> Array:
    """Repeat a coarser table's cells for the finer one's, as far as broadcasting does not do it."""
    for axis, _, places, _ in steps:
        if places is not None:
            values = np.take(values, places, axis=axis)
    return values


@dataclass(frozen=True)
class Region:
    """The areas that an attack looks at: everything below one area of one level."""

    level: int
    area: int

    def rows(self, lattice: Lattice) -> dict[int, tuple[int, int]]:
        """The run of areas for each level of the lattice that lies inside."""
        inside = [level for level in lattice.levels if level >= self.level]
        return {level: lattice.areas(level, self.level, self.area, self.area + 1) for level in inside}
