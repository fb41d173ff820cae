"""Tables as nodes of a lattice: which tables add up to which, and how to sum one into another.

A node is a table: the level of each dimension, first the hierarchies and then the keys (a key has the levels 0 and 1).
The cells of a node are a dense array with one axis for each dimension except the first; the areas of the first
hierarchy are the last axis. So a few areas can be processed at a time, and sums over a key run over long contiguous
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
"""the most cells of one area that the audit can follow"""
MANY = 2**40
"""numbers of cells above this are not counted exactly"""


class Edge(NamedTuple):
    """A table and a finer one that adds up to it, with no table of the lattice in between."""

    parent: Node
    child: Node


class Step(NamedTuple):
    """A sum along one axis: into one (`starts` is None), or into runs that begin at `starts`.

    If the parts of a whole are not adjacent, `order` makes them so.
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
    """The released tables and their common refinement `base`, which may or may not be released.

    If the common refinement has too many cells, as for many tables of few variables each, the common margins take its
    place: any two tables have to agree in the margins that they share.
    """

    def __init__(self, codes: CodeLists, nodes: Iterable[Node]) -> None:
        self.codes = codes
        released = list(dict.fromkeys(nodes))
        self.base: Node = tuple(max(levels) for levels in zip(*released, strict=True))
        self.wide = self.width(self.base) > WIDEST
        """whether the common refinement is too large, so that common margins take its place"""
        between = meets(released) if self.wide else {self.base}
        # Finest first: then each table can be summed from an earlier one.
        self.nodes = sorted({*released, *between}, key=lambda node: (sum(node), node), reverse=True)

    @property
    def baseless(self) -> bool:
        """Whether no finest cell is looked at: the common refinement is too large, and none of the tables itself."""
        return self.base not in self.nodes

    @cached_property
    def families(self) -> dict[Any, Any]:
        """The families of cells of an area, by tables: listed once, used for all areas."""
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
        """The levels of the first hierarchy that have tables, coarse to fine."""
        return sorted({node[0] for node in self.nodes})

    def shape(self, node: Node) -> tuple[int, ...]:
        """The size of each dimension except the first."""
        return tuple(listed.size(level) for listed, level in zip(self.codes.lists[1:], node[1:], strict=True))

    def width(self, node: Node) -> int:
        """The number of cells of a table in one area."""
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
        """The steps that sum the child's cells into the parent's, for a part of the areas."""
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
        """The number of base cells in each cell of a table, for some of its areas; at most `MANY`."""
        size: npt.NDArray[np.float64] = np.ones((1,) * len(self.codes.lists))
        for dimension, (listed, level, finest) in enumerate(zip(self.codes.lists, node, self.base, strict=True)):
            below = np.bincount(listed.parents(finest, level), minlength=listed.size(level))
            if dimension > 0:
                below = np.expand_dims(below, tuple(i for i in range(size.ndim) if i != dimension - 1))
            size = np.minimum(size * (below[first:last] if dimension == 0 else below), MANY)
        return size.astype(np.int64)


def meets(nodes: Sequence[Node]) -> set[Node]:
    """The common margins of tables: each variable at the coarsest of their levels, for all combinations of tables."""
    found = set(nodes)
    new = found
    while new:
        new = {tuple(map(min, one, other)) for one in new for other in nodes} - found
        found |= new
    return found


def collapse(values: Array, steps: Sequence[Step], dtype: Any, how: np.ufunc = np.add) -> Array:
    """Sum a finer table's cells into a coarser one's (with np.maximum, take the largest)."""
    for axis, starts, _, order in steps:
        if order is not None:
            values = np.take(values, order, axis=axis)
        if starts is None:
            values = how.reduce(values, axis=axis, keepdims=True, dtype=dtype)
        else:
            values = how.reduceat(values, starts, axis=axis, dtype=dtype)
    return values


def spread(values: Array, steps: Sequence[Step]) -> Array:
    """Repeat a coarser table's cells for the finer one's, where broadcasting is not enough."""
    for axis, _, places, _ in steps:
        if places is not None:
            values = np.take(values, places, axis=axis)
    return values


@dataclass(frozen=True)
class Region:
    """The areas of an attack: everything below one area of one level."""

    level: int
    area: int

    def rows(self, lattice: Lattice) -> dict[int, tuple[int, int]]:
        """The run of areas inside the region, for each level of the lattice."""
        inside = [level for level in lattice.levels if level >= self.level]
        return {level: lattice.areas(level, self.level, self.area, self.area + 1) for level in inside}
