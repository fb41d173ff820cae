"""Which small cells lie in which aggregates of the tables to be released.

Aggregates with fewer than two small cells have nothing to choose, and aggregates of different tables often hold the
very same small cells: what is left is the *sets*, each once, with the cells of a set and the sets of a cell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CellIndex, CodeLists, sorted_order
from ilba.cells.tree import TreeNode, tree
from ilba.design.design import Selection
from ilba.errors import InputError, some
from ilba.methods.controlled.kernels import compiled, mixed

IntArray: TypeAlias = npt.NDArray[np.int64]
_MOST = 2**32  # cells times tables: 16 GB of places


@dataclass(frozen=True)
class Incidence:
    """The sets of small cells whose sums are released."""

    ptr: IntArray
    """where in `sets` the sets of each cell begin"""
    sets: npt.NDArray[np.int32]
    first: IntArray
    """where in `cells` the cells of each set begin"""
    cells: npt.NDArray[np.int32]
    times: npt.NDArray[np.int32]
    """in how many tables each set is an aggregate"""
    alone: npt.NDArray[np.int32]
    """in how many tables each cell is the only small cell of its aggregate"""

    @property
    def n_sets(self) -> int:
        """How many sets there are."""
        return len(self.times)


def incidence(codes: CodeLists, words: Sequence[IntArray], wanted: Sequence[Selection]) -> Incidence:
    """The sets of small cells (packed, in the order in which they are worked on) in the wanted tables."""
    rows = len(words[0])
    if rows * len(wanted) > _MOST:
        raise InputError(
            f"{some(rows, 'small cell')} in {some(len(wanted), 'table')} are too many to choose masks for jointly. "
            f"Release fewer tables: give max_keys, levels or tables."
        )
    partitions: dict[tuple[int, int], _Partition] = {}
    alone = np.zeros(rows, dtype=np.int32)
    for name, table in _tables(codes, words, wanted):
        alone += (table.size == 1)[table.place]
        several = table.size > 1
        mark = table.mark[several]
        # Two tables with the same sets (a country is its only region) are one table, counted twice.
        same = (len(mark), int(_scattered(mark).sum(dtype=np.uint64)))
        if same not in partitions:
            number = np.where(several, np.cumsum(several) - 1, -1).astype(np.int32)
            partitions[same] = _Partition(number[table.place], mark, [])
        partitions[same].names.append(name)
    # In the order of their names: how the columns of a design stand must not matter.
    return _joined(sorted(partitions.values(), key=lambda one: min(one.names)), alone)


class _Partition(NamedTuple):
    """The sets into which a table divides the small cells (-1: the cell is alone), their marks, and tables like it."""

    column: npt.NDArray[np.int32]
    marks: npt.NDArray[np.uint64]
    names: list[tuple[str, ...]]


@dataclass(frozen=True)
class _Table:
    """The aggregates of one table: where each small cell lies, how many lie in each, and a mark of which ones."""

    cell_index: CellIndex
    packed: list[IntArray]
    place: npt.NDArray[np.int32]
    size: IntArray
    mark: npt.NDArray[np.uint64]


def _tables(
    codes: CodeLists, words: Sequence[IntArray], wanted: Sequence[Selection]
) -> Iterator[tuple[tuple[str, ...], _Table]]:
    """The wanted tables with their sorted columns, each made from a finer one; one branch of the tree is in memory."""
    design, rows = codes.design, len(words[0])
    names = [hierarchy.name for hierarchy in design.hierarchies]
    asked = {(selection.levels, selection.keys): tuple(sorted(selection.columns)) for selection in wanted}
    root, children = tree(codes, wanted)
    # The mark of a set is the sum of its cells' random numbers: equal sums, equal sets (but for a chance of 2^-64).
    number = _scattered(np.arange(1, rows + 1, dtype=np.uint64))
    finest = _Table(codes.finest, list(words), np.arange(rows, dtype=np.int32), np.ones(rows, dtype=np.int64), number)

    def descend(node: TreeNode, table: _Table) -> Iterator[tuple[tuple[str, ...], _Table]]:
        if node in asked:
            yield asked[node], table
        for child in children.get(node, []):
            levels, keys = child
            target = codes.cell_index(design.select(dict(zip(names, levels, strict=True)), keys))
            yield from descend(child, _rolled_up(codes, table, target))

    return descend(root, finest)


def _rolled_up(codes: CodeLists, table: _Table, target: CellIndex) -> _Table:
    packed = table.cell_index.project(table.packed, target, codes.lists)
    joined, grid = packed[0], target.grid
    for word in packed[1:]:  # cells of several words are numbered first, to be sorted by one
        joined, grid = _numbered(joined) * len(word) + _numbered(word), len(word) ** 2
    order = sorted_order(joined, grid)
    ranked = joined[order]
    new = np.ones(len(ranked), dtype=bool)
    new[1:] = ranked[1:] != ranked[:-1]
    starts = np.flatnonzero(new)
    parent = np.empty(len(order), dtype=np.int32)
    parent[order] = np.cumsum(new) - 1
    if not len(order):
        return _Table(target, packed, parent[table.place], table.size, table.mark)
    return _Table(
        target,
        [word[order[starts]] for word in packed],
        parent[table.place],
        np.add.reduceat(table.size[order], starts),
        np.add.reduceat(table.mark[order], starts),
    )


def _numbered(values: IntArray) -> IntArray:
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


@compiled
def _scattered(values: Any) -> Any:
    out = np.empty_like(values)
    for i in range(len(values)):
        out[i] = mixed(values[i] * np.uint64(0x9E3779B97F4A7C15))
    return out


def _joined(partitions: list[_Partition], alone: npt.NDArray[np.int32]) -> Incidence:
    """Sets that occur in several tables become one, and the tables one list of sets per cell."""
    sizes = [len(one.marks) for one in partitions]
    every = np.concatenate([np.zeros(0, dtype=np.uint64), *(one.marks for one in partitions)])
    counted = np.repeat(np.array([len(one.names) for one in partitions], dtype=np.int32), sizes)
    order = np.argsort(every, kind="stable")
    ranked = every[order]
    new = np.ones(len(ranked), dtype=bool)
    new[1:] = ranked[1:] != ranked[:-1]
    starts = np.flatnonzero(new)
    times = np.add.reduceat(counted[order], starts).astype(np.int32) if len(starts) else counted
    number = np.full(len(every), -1, dtype=np.int32)
    number[order[starts]] = np.arange(len(starts), dtype=np.int32)  # the first table keeps the set, others drop it
    del every, counted, order, ranked, new
    degree = np.zeros(len(alone), dtype=np.int64)
    columns: list[npt.NDArray[np.int32]] = []
    for end in reversed(np.cumsum(sizes).tolist()):
        column, marks, _ = partitions.pop()  # from memory, too: the columns are the largest thing here
        own = np.append(number[end - len(marks) : end], np.int32(-1))
        columns.append(own[column])  # -1, no set, picks the last
        degree += columns[-1] >= 0
    ptr = np.concatenate(([0], np.cumsum(degree)))
    sets = np.empty(int(ptr[-1]), dtype=np.int32)
    free = ptr[:-1].copy()
    while columns:
        _fill(sets, free, columns.pop())
    renamed = _renumber(sets, len(times))
    ordered = np.empty_like(times)
    ordered[renamed] = times
    first, cells = _turned(ptr, sets, len(times))
    return Incidence(ptr, sets, first, cells, ordered, alone)


@compiled
def _fill(sets: Any, free: Any, column: Any) -> None:
    for j in range(len(column)):
        if column[j] >= 0:
            sets[free[j]] = column[j]
            free[j] += 1


@compiled
def _renumber(sets: Any, n_sets: int) -> Any:
    """Number the sets as the cells meet them, so that a walk over neighbouring cells stays in neighbouring memory."""
    renamed = np.full(n_sets, -1, np.int32)
    found = 0
    for i in range(len(sets)):
        a = sets[i]
        if renamed[a] < 0:
            renamed[a] = found
            found += 1
        sets[i] = renamed[a]
    return renamed


@compiled
def _turned(ptr: Any, sets: Any, n_sets: int) -> Any:
    """The cells of each set, from the sets of each cell."""
    first = np.zeros(n_sets + 1, np.int64)
    for i in range(len(sets)):
        first[sets[i] + 1] += 1
    for a in range(n_sets):
        first[a + 1] += first[a]
    free = first[:-1].copy()
    cells = np.empty(len(sets), np.int32)
    for j in range(len(ptr) - 1):
        for i in range(ptr[j], ptr[j + 1]):
            cells[free[sets[i]]] = j
            free[sets[i]] += 1
    return first, cells
