"""The aggregates of the released tables to which each small cell of a block belongs.

Nothing is sorted. The aggregates of a cell are computed from its digits: an aggregate is an area on some level, and a
*name* for the codes of all other dimensions. Cells are in the order of the areas, so an area of any level is a range of
cells. For each area, a scratch table counts the cells of each name and adds up their marks. Sets with equal marks are
equal and become one. An aggregate that reaches beyond the block is also a set, and comes last: its error is carried
from block to block under its name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.methods.controlled.kernels import compiled, mixed

IntArray: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = npt.NDArray[np.uint64]


class Named(NamedTuple):
    """The names of the aggregates of some cells, one for each pattern of codes."""

    combination: npt.NDArray[np.int32]
    """the combination of codes of each cell"""
    places: npt.NDArray[np.int32]
    """the place in `names` of each combination, for each pattern"""
    names: Names
    """the different names"""


def named(whole: Names, columns: Callable[[IntArray], Names]) -> Named:
    """Number the names of cells: `whole` names all codes of a cell; `columns` names the codes of each pattern."""
    _, first, combination = np.unique(whole, return_index=True, return_inverse=True)
    places, names = _numbered(columns(first))
    return Named(combination.astype(np.int32), places, names)


@compiled
def _numbered(columns: Any) -> Any:
    """Give equal names the same number, in order of appearance."""
    most = columns.size
    capacity = 16
    while capacity < 2 * most:
        capacity *= 2
    table = np.full(capacity, -1, np.int32)
    names = np.empty(most, np.uint64)
    places = np.empty(columns.shape, np.int32)
    last = np.uint64(capacity - 1)
    found = 0
    for i in range(columns.shape[0]):
        for p in range(columns.shape[1]):
            name = columns[i, p]
            at = (name ^ (name >> np.uint64(32))) & last
            while table[at] >= 0 and names[table[at]] != name:
                at = (at + np.uint64(1)) & last
            if table[at] < 0:
                table[at] = found
                names[found] = name
                found += 1
            places[i, p] = table[at]
    return places, names[:found].copy()


@dataclass(frozen=True)
class Sets:
    """The sets of each small cell of a block, and the cells of each set; sets from `n_local` on reach beyond it."""

    ptr: IntArray
    """where in `sets` the sets of each cell begin"""
    sets: npt.NDArray[np.int32]
    first: IntArray
    """where in `cells` the cells of each set begin"""
    cells: npt.NDArray[np.int32]
    times: npt.NDArray[np.int32]
    """the number of tables in which each set is an aggregate"""
    alone: npt.NDArray[np.int32]
    """the number of tables in which each cell is the only small cell of its aggregate"""
    n_local: int
    carried: tuple[npt.NDArray[np.int32], ...]
    """for each carried part of the tables: the places of the names of its sets, which are consecutive"""

    @property
    def n_sets(self) -> int:
        """The number of sets."""
        return len(self.times)


def sets_of(
    named: Named,
    local: Sequence[tuple[IntArray, npt.NDArray[np.int32]]],
    carried: Sequence[npt.NDArray[np.int32]],
) -> Sets:
    """The sets of a block.

    `local` holds for each level where its areas begin, and the number of tables with each pattern. `carried` holds the
    latter for each area that reaches beyond the block.
    """
    n = len(named.combination)
    own = _scattered(n)  # a set's mark is the sum of its cells' marks: equal sums are equal sets (up to 2^-64)
    wide = np.empty((n, sum(int((times > 0).sum()) for times in [*(one for _, one in local), *carried])), np.int32)
    degree, alone = np.zeros(n, np.int32), np.zeros(n, np.int32)
    most = sum(n * int((times > 0).sum()) for _, times in local) // 2 + 1
    table = np.full(1 << max(4, int(2 * most - 1).bit_length()), -1, np.int32)
    marks, times = np.empty(most, np.uint64), np.zeros(most, np.int32)
    n_sets = 0
    for starts, wanted in local:
        n_sets = _level(starts, *named, own, wanted, wide, degree, alone, table, marks, times, n_sets)
    times = times[:n_sets]
    del table, marks
    n_local, beyond = n_sets, []
    for wanted in carried:
        seen, counted = _beyond(*named, wanted, wide, degree, n_sets)
        beyond.append(seen)
        times = np.concatenate((times, counted))
        n_sets += len(seen)
    ptr = np.concatenate(([0], np.cumsum(degree, dtype=np.int64)))
    sets = _packed(wide, degree, ptr)
    first, cells = turned(ptr, sets, n_sets)
    return Sets(ptr, sets, first, cells, times, alone, n_local, tuple(beyond))


@compiled
def _scattered(n: int) -> Any:
    out = np.empty(n, np.uint64)
    for i in range(n):
        out[i] = mixed(np.uint64(i + 1) * np.uint64(0x9E3779B97F4A7C15))
    return out


@compiled
def _level(
    starts: Any, combination: Any, places: Any, names: Any, own: Any, wanted: Any, wide: Any, degree: Any,
    alone: Any, table: Any, marks: Any, times: Any, n_sets: int,
) -> int:  # fmt: skip
    """The sets of one level: area by area, with a scratch table of all names."""
    size = np.zeros(len(names), np.int32)
    mark = np.zeros(len(names), np.uint64)
    tables = np.zeros(len(names), np.int32)
    slot = np.full(len(names), -1, np.int32)
    last = np.uint64(len(table) - 1)
    for area in range(len(starts) - 1):
        for j in range(starts[area], starts[area + 1]):
            for p in range(len(wanted)):
                if wanted[p]:
                    a = places[combination[j], p]
                    size[a] += 1
                    mark[a] += own[j]
                    tables[a] = wanted[p]
        for j in range(starts[area], starts[area + 1]):
            for p in range(len(wanted)):
                if not wanted[p]:
                    continue
                a = places[combination[j], p]
                if size[a] == 1:
                    alone[j] += wanted[p]
                elif size[a] > 1:  # first visit: number it, or find an equal set
                    at = (mark[a] ^ (mark[a] >> np.uint64(29))) & last
                    while table[at] >= 0 and marks[table[at]] != mark[a]:
                        at = (at + np.uint64(1)) & last
                    if table[at] < 0:
                        table[at] = n_sets
                        marks[n_sets] = mark[a]
                        slot[a] = n_sets
                        n_sets += 1
                    times[table[at]] += tables[a]
                    size[a] = 0
                if slot[a] >= 0:
                    wide[j, degree[j]] = slot[a]
                    degree[j] += 1
        for j in range(starts[area], starts[area + 1]):
            for p in range(len(wanted)):
                a = places[combination[j], p]
                size[a], mark[a], slot[a] = 0, np.uint64(0), -1
    return n_sets


@compiled
def _beyond(combination: Any, places: Any, names: Any, wanted: Any, wide: Any, degree: Any, n_sets: int) -> Any:
    """The sets of an area that reaches beyond the block: one for every name."""
    slot = np.full(len(names), -1, np.int32)
    seen = np.empty(len(names), np.int32)
    times = np.empty(len(names), np.int32)
    found = 0
    for j in range(len(combination)):
        for p in range(len(wanted)):
            if not wanted[p]:
                continue
            a = places[combination[j], p]
            if slot[a] < 0:
                slot[a] = n_sets + found
                seen[found] = a
                times[found] = wanted[p]
                found += 1
            wide[j, degree[j]] = slot[a]
            degree[j] += 1
    return seen[:found].copy(), times[:found].copy()


@compiled
def _packed(wide: Any, degree: Any, ptr: Any) -> Any:
    sets = np.empty(ptr[-1], np.int32)
    for j in range(len(degree)):
        for i in range(degree[j]):
            sets[ptr[j] + i] = wide[j, i]
    return sets


@compiled
def turned(ptr: Any, sets: Any, n_sets: int) -> Any:
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


class Errors:
    """The errors of an area that are carried from block to block: an integer for each name."""

    def __init__(self) -> None:
        self._table = np.full(1024, -1, np.int32)
        self._names = np.empty(512, np.uint64)
        self._errors = np.zeros(512, np.int64)
        self._times = np.zeros(512, np.int32)
        self._size = 0

    def of(self, names: Names) -> IntArray:
        """The error of each of these names; 0 if nothing was added yet."""
        place = _found(names, self._table, self._names)
        return np.where(place < 0, 0, self._errors[place])

    def add(self, names: Names, errors: IntArray, times: npt.NDArray[np.int32]) -> None:
        """Add to the errors of different names; `times` is the number of tables of each."""
        room = self._size + len(names)
        if room > len(self._names):
            capacity = 1 << (2 * room - 1).bit_length()
            more = np.zeros(capacity // 2 - len(self._names), np.int64)
            self._names = np.concatenate((self._names, more.astype(np.uint64)))
            self._errors = np.concatenate((self._errors, more))
            self._times = np.concatenate((self._times, more.astype(np.int32)))
            self._table = np.full(capacity, -1, np.int32)
            _placed(self._names, self._size, self._table)
        self._size = _added(names, errors, times, self._table, self._names, self._errors, self._times, self._size)

    def over(self, bound: int) -> tuple[int, int]:
        """The number of counts over a bound, and the largest error."""
        errors = np.abs(self._errors[: self._size])
        return int(self._times[: self._size][errors > bound].sum()), int(errors.max(initial=0))


@compiled
def _found(names: Any, table: Any, known: Any) -> Any:
    last = np.uint64(len(table) - 1)
    place = np.empty(len(names), np.int64)
    for i in range(len(names)):
        at = (names[i] ^ (names[i] >> np.uint64(32))) & last
        while table[at] >= 0 and known[table[at]] != names[i]:
            at = (at + np.uint64(1)) & last
        place[i] = table[at]
    return place


@compiled
def _added(names: Any, errors: Any, times: Any, table: Any, known: Any, total: Any, tables: Any, size: int) -> int:
    last = np.uint64(len(table) - 1)
    for i in range(len(names)):
        at = (names[i] ^ (names[i] >> np.uint64(32))) & last
        while table[at] >= 0 and known[table[at]] != names[i]:
            at = (at + np.uint64(1)) & last
        if table[at] < 0:
            table[at] = size
            known[size] = names[i]
            tables[size] = times[i]
            size += 1
        total[table[at]] += errors[i]
    return size


@compiled
def _placed(names: Any, size: int, table: Any) -> None:
    last = np.uint64(len(table) - 1)
    for i in range(size):
        at = (names[i] ^ (names[i] >> np.uint64(32))) & last
        while table[at] >= 0:
            at = (at + np.uint64(1)) & last
        table[at] = i
