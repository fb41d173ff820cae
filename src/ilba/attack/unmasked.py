"""The conditions on other worlds if the finest table is not released and nobody knows the masks.

A world holds all cells of the design's finest table, even if the released tables are coarser. Large cells keep their
true counts. Small cells may take any count up to K with any mask that SCA could have drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.counterexamples import NOTHING, RULE, Conditions
from ilba.attack.intervals import at
from ilba.attack.lattice import Node, table_of
from ilba.attack.published import PublishedRows, PublishedTables

IntArray: TypeAlias = npt.NDArray[np.int64]

_GRID = 2**22
"""up to this many finest cells, empty cells may also be filled"""


def stated(published: PublishedTables) -> bool:
    """Whether the solver knows the whole rule of the released numbers: iLBA without flags and without listed rows."""
    policy = published.policy
    return policy.scheme == "ilba" and not policy.listed and not policy.flags and not published.move


def projected(published: PublishedTables, packed: IntArray, node: Node) -> IntArray:
    """The cell of a table that contains each finest cell."""
    codes = published.codes
    target = codes.cell_index(table_of(codes.design, node))
    if not target.places:
        return np.zeros(len(packed), np.int64)
    return codes.cell_index(codes.design.finest).project([packed], target, codes.lists)[0]


def true_counts(rows: PublishedRows) -> IntArray:
    """The true counts of the rows of a table (confidential)."""
    assert rows.truth is not None  # noqa: S101 - made from a store
    return rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large


class Open(NamedTuple):
    """The small finest cells of a release without its finest table, with the conditions on a world."""

    packed: IntArray
    counts: IntArray
    masks: IntArray
    nodes: list[Node]
    """the tables of the sums"""
    first: IntArray
    """where the sums of each table begin"""
    cell: IntArray
    """the number of each sum in its table"""
    conditions: Conditions

    def places(self, node: Node, cells: IntArray) -> IntArray:
        """The targets of cells of a table; -1 for a cell without open cells."""
        if node not in self.nodes:
            known, behind = self.packed, 0
        else:
            number = self.nodes.index(node)
            known = self.cell[self.first[number] : self.first[number + 1]]
            behind = len(self.packed) + int(self.first[number])
        place = np.minimum(np.searchsorted(known, cells), max(len(known) - 1, 0))
        found = known[place] == cells if len(known) else np.zeros(len(cells), dtype=bool)
        return np.where(found, place + behind, -1)


def open_parts(
    published: PublishedTables, ranges: tuple[IntArray, IntArray, IntArray], most: int
) -> list[Callable[[], Open]]:
    """The small cells and their sums, in parts of at most `most` cells; cells outside a part keep their true counts.

    Parameters
    ----------
    published : PublishedTables
        Tables made from a store, without the finest table.
    ranges : tuple of three arrays
        The proven bounds: cells of the common refinement that may be occupied, with low and high.
    most : int
        The largest number of cells in a part.

    Returns
    -------
    list of callable
        The parts. Each is made when it is called, because together they may be too large.
    """
    rows, K = published.whole, published.K
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - the caller has asked
    grid = published.codes.cell_index(published.design.finest).grid
    packed = np.arange(grid) if grid <= _GRID else rows.packed
    true = at(rows.packed, true_counts(rows), packed)
    above = (
        packed if published.finest == published.lattice.base else projected(published, packed, published.lattice.base)
    )
    high = np.minimum(at(ranges[0], ranges[2], above), K)
    low = at(ranges[0], ranges[1], packed) if above is packed else np.zeros(len(packed), np.int64)
    is_open = (true <= K) & (high > 0)
    packed, true, low, high = (part[is_open] for part in (packed, true, low, high))
    masks = at(rows.packed, rows.truth.n_at_threshold, packed)
    cells = packed, true, masks, low, high
    return [
        partial(_open, published, tuple(values[first : first + most] for values in cells))
        for first in range(0, len(packed), most)
    ]


def _open(published: PublishedTables, cells: tuple[IntArray, ...]) -> Open:
    packed, counts, masks, low, high = cells
    observed = published.cells == "observed"
    nodes = [node for node in published.looked_at if node != published.finest]
    member, columns, first = [], [], [0]
    for node in nodes:
        numbers, of = np.unique(projected(published, packed, node), return_inverse=True)
        of = of.reshape(-1)
        table = published.tables.get(node, published.base)
        assert table is not None and table.truth is not None  # noqa: S101, PT018 - made from a store
        parts = [at(table.packed, part, numbers) for part in table.truth]
        if not observed:  # an empty cell has no row
            parts[0] = np.where(np.isin(numbers, table.packed), parts[0], sizes_of(published, node, numbers))

        def besides(part: IntArray, own: IntArray, of: IntArray = of, size: int = len(numbers)) -> IntArray:
            return part - np.bincount(of, own, minlength=size).astype(np.int64)

        released = at(table.packed, table.value, numbers) - parts[3]
        small = besides(parts[0], (counts > 0).astype(np.int64)) if observed else parts[0]
        kind = np.full(len(numbers), RULE if node in published.tables else NOTHING)
        columns.append((
            numbers, kind, released, besides(parts[2], counts), small, besides(parts[1], masks), parts[3] == 0
        ))  # fmt: skip
        member.append((of + first[-1]).astype(np.int32))
        first.append(first[-1] + len(numbers))
    cell, kind, released, people, small, at_k, alone = (np.concatenate(part) for part in zip(*columns, strict=True))
    nothing = np.zeros(len(cell), np.int64)
    conditions = Conditions(
        published.K, low, high, np.ones(len(packed), dtype=bool), np.ascontiguousarray(np.stack(member, axis=1)),
        kind.astype(np.int8), nothing, nothing, released, people, small, at_k, alone.astype(bool), observed,
    )  # fmt: skip
    return Open(packed, counts, masks, nodes, np.array(first), cell, conditions)


def sizes_of(published: PublishedTables, node: Node, cells: IntArray) -> IntArray:
    """The number of cells of the design's finest table in each of the given cells of a table."""
    index = published.codes.cell_index(table_of(published.design, node))
    size: IntArray = np.ones(len(cells), dtype=np.int64)
    digits = iter(index.digits([cells]) if index.places else [])
    for listed, level in zip(published.codes.lists, node, strict=True):
        below = np.bincount(listed.parents(listed.depth, level), minlength=listed.size(level))
        size = size * (below[next(digits)] if level else int(below.sum()))
    return size
