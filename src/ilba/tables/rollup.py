"""Sum the four additive parts of cells into the cells of a coarser table.

A table, a single cell and a cube need the same work: project packed cells and add up their parts. Any finer table can
be the source, because parts add up; masked numbers are never summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CellIndex, CodeList, CodeLists, sorted_order
from ilba.cells.tree import walk
from ilba.design.design import Cells, Selection
from ilba.design.recordkeys import KEY_RANGE
from ilba.methods.masking import Masked, Parts, ilba
from ilba.methods.moves import KeyedMoves

IntArray: TypeAlias = npt.NDArray[np.int64]

_CHUNK = 2**20
_EXACT = 2**53


@dataclass(frozen=True)
class Sums:
    """The occurring cells of a table, sorted, with their summed parts and the number of finest cells in each."""

    cell_index: CellIndex
    packed: list[IntArray]
    parts: Parts
    observed: IntArray
    keys: IntArray | None = None
    """the sums of the record keys of each cell, if the finest table has them"""

    def __len__(self) -> int:
        return len(self.observed)

    @property
    def count(self) -> IntArray:
        """The true counts (confidential)."""
        return self.parts.total

    def part(self, first: int, last: int) -> Sums:
        """A part of the cells."""
        keys = None if self.keys is None else self.keys[first:last]
        parts = Parts(*(part[first:last] for part in self.parts))
        return Sums(self.cell_index, [word[first:last] for word in self.packed], parts, self.observed[first:last], keys)

    def project(self, first: int, last: int, target: CellIndex, lists: Sequence[CodeList]) -> list[IntArray]:
        """The cells of a coarser table to which some of the cells belong."""
        return self.cell_index.project([word[first:last] for word in self.packed], target, lists)

    def chunk(self, first: int, last: int) -> list[IntArray]:
        """A chunk of the summands: the parts and the number of cells; with record keys, counts and keys instead."""
        added = [*self.parts] if self.keys is None else [self.count, self.keys]
        return [part[first:last] for part in (*added, self.observed)]


@dataclass(frozen=True)
class Finest:
    """The finest cells as a source of sums; their parts are made chunk by chunk while they are added up."""

    cell_index: CellIndex
    packed: list[IntArray]
    parts: Callable[[int, int], Parts]
    keys: IntArray | None = None

    def __len__(self) -> int:
        return len(self.packed[0])

    def project(self, first: int, last: int, target: CellIndex, lists: Sequence[CodeList]) -> list[IntArray]:
        """The cells of a coarser table to which some of the cells belong."""
        if self.cell_index.runs(target) <= 2:
            return self.cell_index.project([word[first:last] for word in self.packed], target, lists)
        digits = []
        for dimension, level, _ in target.places:
            values: npt.NDArray[Any] = self.digit(dimension)[first:last]
            listed = lists[dimension]
            digits.append(values if level == listed.depth else listed.nodes[level][values])
        return target.pack(digits, last - first)

    def part(self, first: int, last: int) -> Finest:
        """A part of the cells, as a separate source."""
        keys = None if self.keys is None else self.keys[first:last]
        words = [word[first:last] for word in self.packed]
        return Finest(self.cell_index, words, lambda begin, end: self.parts(first + begin, first + end), keys)

    def digit(self, dimension: int) -> npt.NDArray[Any]:
        """A digit of all cells in as few bytes as possible: extracted once, then cheap to use again."""
        if dimension not in self._digits:
            small = np.min_scalar_type(max(self.cell_index.places[dimension].size - 1, 0))
            self._digits[dimension] = self.cell_index.block(self.packed, dimension, dimension).astype(small)
        return self._digits[dimension]

    @cached_property
    def _digits(self) -> dict[int, npt.NDArray[Any]]:
        return {}

    def chunk(self, first: int, last: int) -> list[IntArray]:
        """A chunk of the summands, as for `Sums`."""
        parts, ones = self.parts(first, last), np.ones(last - first, dtype=np.int64)
        return [*parts, ones] if self.keys is None else [parts.total, self.keys[first:last], ones]


def roll_up(codes: CodeLists, source: Sums | Finest, target: CellIndex) -> Sums:
    """The sums of a coarser table."""
    pieces = []
    for first in range(0, max(len(source), 1), _CHUNK):
        last = min(first + _CHUNK, len(source))
        packed = source.project(first, last, target, codes.lists)
        pieces.append(added_up(target, packed, source.chunk(first, last)))
    packed, sums = pieces[0] if len(pieces) == 1 else _merged(target, pieces)
    return _made(target, packed, sums, source.keys is not None)


def _made(target: CellIndex, packed: list[IntArray], sums: Sequence[IntArray], keyed: bool) -> Sums:
    """Sums from the added columns. With keys a count is one number, not split into parts."""
    if not keyed:
        return Sums(target, packed, Parts(*sums[:4]), sums[4])
    count, keys, observed = sums
    return Sums(target, packed, Parts.whole(count), observed, keys % KEY_RANGE)


def together(sums: Sequence[Sums]) -> Sums:
    """The sums of one table over several sets of finest cells."""
    first = sums[0]
    packed, values = _merged(first.cell_index, [(one.packed, one.chunk(0, len(one))) for one in sums])
    return _made(first.cell_index, packed, values, first.keys is not None)


def _merged(
    target: CellIndex, pieces: Sequence[tuple[list[IntArray], list[IntArray]]]
) -> tuple[list[IntArray], list[IntArray]]:
    words = [np.concatenate(parts) for parts in zip(*(piece[0] for piece in pieces), strict=True)]
    return added_up(target, words, [np.concatenate(x) for x in zip(*(p[1] for p in pieces), strict=True)])


def sums_of_tables(codes: CodeLists, source: Finest, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
    """The sums of the wanted tables, each from a small finer one."""

    def rolled(finer: Sums | Finest, _: Selection | None, target: Selection) -> Sums | Finest:
        return roll_up(codes, finer, codes.cell_index(target))

    finest: Sums | Finest = source
    for selection, sums in walk(codes, wanted, finest, rolled):
        assert isinstance(sums, Sums)  # noqa: S101 - told to the type checker: only the source is no sums
        yield selection, sums


def small_cells(codes: CodeLists, sums: Sums, cells: Cells) -> IntArray:
    """|S|, the number of small cells in each aggregate: those that occur, or all small cells of the grid.

    Empty cells of the grid are small cells masked to 0. Their exact number only matters while max(D) can be reached,
    far below the cap that keeps K * |S| inside 64 bits.
    """
    if cells == "observed":
        return sums.parts.n_small
    size = codes.grid(sums.cell_index, sums.packed, most=2**61 // codes.design.threshold)
    empty: IntArray = np.maximum(size - sums.observed, 0)
    return sums.parts.n_small + empty


def released(
    codes: CodeLists, sums: Sums, plain: bool, cells: Cells | None = None, moves: KeyedMoves | None = None
) -> tuple[IntArray, Masked]:
    """The released counts of aggregates with summed parts: by iLBA, or `plain` sums if masks were chosen jointly.

    `cells` is the reading of S; by default, that of the design. With `moves`, cell keys move the counts instead.
    """
    K = codes.design.threshold
    if moves is not None:
        assert sums.keys is not None  # noqa: S101 - a table has keys before it has moves
        none = np.zeros_like(sums.observed)
        return moves.published(sums.count, sums.keys), Masked(none, none, none)
    if plain:
        chosen = K * sums.parts.n_at_threshold
        none = np.zeros_like(chosen)
        return sums.parts.sum_large + chosen, Masked(chosen, none, none)
    n_small = small_cells(codes, sums, cells or codes.design.cells)
    masked = ilba(n_small, sums.parts.n_at_threshold, sums.parts.sum_small, K)
    return sums.parts.sum_large + masked.sum_masked, masked


def added_up(
    target: CellIndex, packed: Sequence[IntArray], values: Sequence[IntArray]
) -> tuple[list[IntArray], list[IntArray]]:
    """Add up the values of equal cells; the result is sorted by cell."""
    if len(packed) > 1:
        return _by_hash(packed, values)
    (cells,) = packed
    if len(cells) < 2 or bool((cells[1:] >= cells[:-1]).all()):
        return _by_runs(cells, values)
    if target.grid <= 2 * len(cells) + 2**16 and all(int(value.max()) < _EXACT // len(cells) for value in values):
        return _by_place(target.grid, cells, values)
    order = sorted_order(cells, target.grid)
    return _by_runs(cells[order], [value[order] for value in values])


def _by_runs(cells: IntArray, values: Iterable[IntArray]) -> tuple[list[IntArray], list[IntArray]]:
    differs = cells[1:] != cells[:-1]
    if bool(differs.all()):
        return [cells], list(values)
    # The sum of a run is a difference of running totals, which is several times faster than reduceat for short runs.
    ends = np.append(np.flatnonzero(differs), len(cells) - 1)
    return [cells[ends]], [np.diff(value.cumsum()[ends], prepend=0) for value in values]


def _by_place(grid: int, cells: IntArray, values: Iterable[IntArray]) -> tuple[list[IntArray], list[IntArray]]:
    # bincount adds in floating point: exact, because no sum reaches 2^53 here.
    sums = [np.bincount(cells, weights=value, minlength=grid) for value in values]
    found = np.flatnonzero(sums[-1])
    return [found], [value[found].astype(np.int64) for value in sums]


def _by_hash(packed: Sequence[IntArray], values: Sequence[IntArray]) -> tuple[list[IntArray], list[IntArray]]:
    names = [f"w{i}" for i in range(len(packed))]
    sums = [f"v{i}" for i in range(len(values))]
    frame = pl.DataFrame(dict(zip([*names, *sums], [*packed, *values], strict=True)))
    frame = frame.group_by(names).agg(pl.col(sums).sum()).sort(names)
    return [frame[name].to_numpy() for name in names], [frame[name].to_numpy() for name in sums]
