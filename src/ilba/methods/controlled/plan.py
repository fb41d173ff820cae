"""Where the cells of a design lie, and the blocks and rounds in which their masks are chosen.

Blocks run along one dimension: the hierarchy with the most areas, or the key with the most codes if no hierarchy has
more than one area. A block is a run of areas with a limited number of small cells. Tables whose areas lie inside one
block belong to the block. The errors of coarser tables are carried from block to block. The blocks of a round are
processed in parallel, each against its share of the errors so far. Blocks and rounds follow from the counts, never from
the number of processes, so the masks are the same on every machine. They are part of the method: other blocks give
other masks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CodeList, CodeLists
from ilba.design.design import Selection
from ilba.design.labels import label_text
from ilba.methods.controlled.sets import Named, named

IntArray: TypeAlias = npt.NDArray[np.int64]
Names: TypeAlias = npt.NDArray[np.uint64]
Node: TypeAlias = tuple[int, int]

BLOCK = 200_000
"""The most small cells in a block, unless one area of the finest level has more."""
LANES = 2
"""The number of areas with their own coarse tables that are processed in parallel, or 1/32 of the remaining ones."""
ALONE = 2
"""The number of blocks at the end of an area that are processed one by one, each against all of its errors."""
FAR = 8
"""An area with more blocks is far: its counts may lie twice as far from the truth while blocks are still to come."""


class Carried(NamedTuple):
    """An area that reaches beyond a block, so that its errors are carried."""

    node: Node
    """the coarsest level of the area along the dimension of the blocks, and its number there"""
    times: npt.NDArray[np.int32]
    """the number of tables with each pattern there"""
    far: bool


@dataclass(frozen=True)
class MaskBlock:
    """A run of areas whose masks are chosen together."""

    number: int
    first: int
    """the place of the block's first finest area in the order of the labels"""
    last: int
    size: int
    """the number of small cells"""
    levels: tuple[int, ...]
    """the levels whose areas lie inside the block, the finest first"""
    carried: tuple[Carried, ...]
    """the surrounding coarse areas, the largest first"""
    lane: Node
    """the surrounding area that one lane processes from its first block to its last"""


class Layout:
    """The wanted tables, the dimension of the blocks, and the order and the names of cells."""

    def __init__(self, codes: CodeLists, wanted: Sequence[Selection]) -> None:
        self.codes = codes
        self.wanted = tuple(wanted)
        design = codes.design
        several = [place for place in range(len(design.hierarchies)) if len(codes.lists[place]) > 1]
        places = several or range(len(codes.lists))
        # The order of the columns of a design must not matter.
        self.along = min(places, key=lambda place: (-len(codes.lists[place]), codes.lists[place].columns))
        self.areas = codes.lists[self.along]
        dimensions = [tuple(listed.columns) for listed in codes.lists]
        found: dict[tuple[tuple[str, ...], ...], dict[int, int]] = {}
        for table in wanted:
            levels = [*table.levels, *(int(key in table.keys) for key in design.keys)]
            rest = [columns[:level] for columns, level in zip(dimensions, levels, strict=True)]
            level = levels[self.along]
            rest[self.along] = ()
            pattern = found.setdefault(tuple(rest), {})
            pattern[level] = pattern.get(level, 0) + 1
        self.patterns = sorted(found, key=lambda rest: sorted(rest))
        """the levels of all other dimensions in the wanted tables, as columns"""
        self.times = np.zeros((self.areas.depth + 1, len(self.patterns)), dtype=np.int32)
        """the number of tables with each pattern, by level"""
        for number, pattern_ in enumerate(self.patterns):
            for level, times in found[pattern_].items():
                self.times[level, number] = times

    @cached_property
    def ranks(self) -> list[IntArray]:
        """For each dimension, the place of each label in an order that depends on texts only, not on their types.

        As text "10" comes before "9", as a number after it. The same data must give one result from any source, so
        there is one order.
        """
        return [_ranks(listed) for listed in self.codes.lists]

    @cached_property
    def _in_order(self) -> list[int]:
        """The dimensions in the sorting order of cells, the dimension of the blocks first."""
        first_key = len(self.codes.design.hierarchies)
        rest = [place for place in range(len(self.codes.lists)) if place != self.along]
        return [self.along, *sorted(rest, key=lambda place: (place >= first_key, self.codes.lists[place].columns))]

    @cached_property
    def _words(self) -> list[list[Names]]:
        """A 64-bit number for each node of each dimension and level; names are made from them."""
        return [
            [_scattered(place, level, listed.size(level)) for level in range(listed.depth + 1)]
            for place, listed in enumerate(self.codes.lists)
        ]

    def order(self, digits: Sequence[IntArray]) -> IntArray:
        """The processing order of cells with these digits."""
        packed, room, keys = np.zeros(len(digits[0]), dtype=np.int64), 2**62, []
        for place in self._in_order:
            size = len(self.codes.lists[place])
            if size > room:
                keys.append(packed)
                packed, room = np.zeros(len(digits[0]), dtype=np.int64), 2**62
            packed = packed * size + self.ranks[place][digits[place]]
            room //= max(size, 1)
        keys.append(packed)
        return np.argsort(packed, kind="stable") if len(keys) == 1 else np.lexsort(keys[::-1])

    def named(self, digits: Sequence[IntArray]) -> Named:
        """The names of cells with these digits, in every pattern."""
        rows = len(digits[0])
        whole = self._name(digits, [listed.columns for listed in self.codes.lists], rows)
        return named(whole, lambda first: self._columns([digit[first] for digit in digits]))

    def _columns(self, digits: Sequence[IntArray]) -> Names:
        columns = np.empty((len(digits[0]), len(self.patterns)), dtype=np.uint64)
        for number, pattern in enumerate(self.patterns):
            columns[:, number] = self._name(digits, pattern, len(digits[0]))
        return columns

    def _name(self, digits: Sequence[IntArray], pattern: Sequence[Sequence[str]], rows: int) -> Names:
        name = np.zeros(rows, dtype=np.uint64)
        for place, columns in enumerate(pattern):
            if columns and place != self.along:
                listed, level = self.codes.lists[place], len(columns)
                name += self._words[place][level][listed.nodes[level]][digits[place]]
        return name

    def blocks(self, sizes: IntArray) -> list[MaskBlock]:
        """The blocks, from the number of small cells of each finest area."""
        order = np.argsort(self.ranks[self.along])
        size = sizes[order]
        nodes = [numbers[order] for numbers in self.areas.nodes]
        within = [np.bincount(node, weights=size).astype(np.int64) for node in nodes]
        depth = self.areas.depth
        level = next((one for one in range(depth) if within[one].max(initial=0) <= BLOCK), depth)
        runs = _runs(size, nodes[level], nodes[max(level - 1, 0)])
        first_areas = [first for first, _, _ in runs]
        many = [np.bincount(node[first_areas], minlength=len(one)) for node, one in zip(nodes, within, strict=True)]
        blocks = []
        for number, (first, last, here) in enumerate(runs):
            around = [(one, int(nodes[one][first])) for one in range(level)]
            whole = [one for one, node in around if within[one][node] == here]
            carried = []
            for _, same in groupby(around[: level - len(whole)], key=lambda at: within[at[0]][at[1]]):
                alike = list(same)  # an area with a single area below it is the same area
                times = self.times[[one for one, _ in alike]].sum(axis=0, dtype=np.int32)
                top, node = alike[0]
                if times.any():
                    carried.append(Carried((top, node), times, bool(many[top][node] > FAR)))
            near = [one.node for one in carried if not one.far]
            levels = (*range(depth, level - 1, -1), *reversed(whole))
            blocks.append(
                MaskBlock(number, first, last, here, levels, tuple(carried), near[0] if near else (-1, number))
            )
        return blocks


def _runs(size: IntArray, area: IntArray, above: IntArray) -> list[tuple[int, int, int]]:
    """Areas with small cells, joined while they share the area above and stay small enough: first, last, size."""
    starts = np.flatnonzero(np.diff(area, prepend=-1)).tolist()
    runs: list[tuple[int, int, int]] = []
    for first, last in pairwise([*starts, len(size)]):
        here = int(size[first:last].sum())
        if here and runs and above[runs[-1][0]] == above[first] and runs[-1][2] + here <= BLOCK:
            runs[-1] = runs[-1][0], last, runs[-1][2] + here
        elif here:
            runs.append((first, last, here))
    return runs


def rounds(blocks: Sequence[MaskBlock]) -> Iterator[list[MaskBlock]]:
    """The blocks that are processed in parallel, round by round.

    Each lane takes the areas with coarse tables one by one, from their first block to their last. Towards the end there
    are fewer lanes, because the national errors that many parallel blocks leave must be mended by later ones. If fewer
    areas are left than lanes, a lane takes several blocks of its area at once. The last blocks of an area run alone:
    they see all of its errors, and keep them within the bound.
    """
    waiting = [list(lane) for _, lane in groupby(blocks, key=lambda block: block.lane)]
    working: list[list[MaskBlock]] = []
    while waiting or working:
        lanes = max(LANES, (len(waiting) + len(working)) // 32)
        while waiting and len(working) < lanes:
            working.append(waiting.pop(0))
        turn, spare = [], lanes - len(working)
        for lane in working[:lanes]:
            more = max(0, min(spare, len(lane) - ALONE - 1))
            turn += lane[: 1 + more]
            del lane[: 1 + more]
            spare -= more
        yield turn
        working = [lane for lane in working if lane]


def _ranks(listed: CodeList) -> IntArray:
    columns = [[label_text(label) for label in column.to_list()] for column in listed.labels.get_columns()]
    paths = [tuple((text is not None, text or "") for text in path) for path in zip(*columns, strict=True)]
    rank = np.empty(len(paths), dtype=np.int64)
    rank[sorted(range(len(paths)), key=paths.__getitem__)] = np.arange(len(paths))
    return rank


def _scattered(place: int, level: int, size: int) -> Names:
    """64-bit numbers that look random, different for each dimension, level and node."""
    with np.errstate(over="ignore"):
        h = np.arange(size, dtype=np.uint64) + np.uint64(((place + 1) << 52) + ((level + 1) << 44))
        for _ in range(2):
            h = (h + np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
            h = (h ^ (h >> np.uint64(30))) * np.uint64(0x94D049BB133111EB)
            h ^= h >> np.uint64(31)
    return h
