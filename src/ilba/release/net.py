"""Recognise the same people under another name, by keyed hashes of what the data looks like. Confidential.

Two sketches of each published data are kept. The first one is of its columns: the number of people with each label, if
that number is unique in its column, hashed with and without the label. It finds people whose columns or labels have
other names. The second one is of the small cells with their labels and counts, which most corrections and filters do
not change. The 256 smallest hashes of each sketch are kept. Without the secret they are noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.design.design import Design, Selection

if TYPE_CHECKING:
    from ilba.secret.secret import Secret

Words: TypeAlias = npt.NDArray[np.uint64]
IntArray: TypeAlias = npt.NDArray[np.int64]

SKETCH = 256
_TELLING = 30
"""smaller numbers of people are too often equal by chance"""
_EQUAL = 1 / 3
"""the least share of equal hashes in two sketches together: at least half of each are equal"""
_BITS = 16
"""how unlikely a match by chance must be, in bits"""
_CELLS = 100
"""fewer small cells than this allow no conclusion"""
_LIKE = 4
"""data with this many times as many small cells may have none in common with other data by chance"""
_OTHERWISE = 5
"""if one in this many equal numbers of a column has another label, labels are spelled differently"""


@dataclass(frozen=True)
class Net:
    """The sketches of some data.

    Parameters
    ----------
    columns
        Pairs of hashes for each column: of a number of people, and of that number with its label.
    cells
        Hashes of small cells with their labels and counts.
    size
        The number of small cells.
    worth
        The evidence of each matching hash of a number, in bits: known for the current data only.
    """

    columns: tuple[Words, ...]
    cells: Words
    size: int
    worth: Mapping[int, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values for the ledger. The number of small cells is rounded to a power of two."""
        return {
            "columns": [_hex(column) for column in self.columns],
            "cells": _hex(self.cells),
            "size": 2 ** int(math.log2(self.size)) if self.size else 0,
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Net:
        """Read it from plain values."""
        columns = tuple(_words(column).reshape(-1, 2) for column in plain["columns"])
        return cls(columns, _words(plain["cells"]), int(plain["size"]), {})

    def catches(self, before: Net) -> bool:
        """Whether this data looks like the same people as `before`."""
        return (min(self.size, before.size) >= _CELLS and self.same_cells(before)) or self.same_columns(before)

    def same_cells(self, before: Net) -> bool:
        """Whether half or more of the small cells are the same, with labels and counts."""
        return _shared(self.cells, before.cells) >= _EQUAL

    def no_cells(self, before: Net) -> bool:
        """Whether not one small cell is the same, though both have many: no label is spelled as before."""
        few, many = sorted((self.size, before.size))
        return few >= _CELLS and many < _LIKE * few and not len(np.intersect1d(self.cells, before.cells))

    def same_columns(self, before: Net) -> bool:
        """Whether half or more of the columns, under any names, have the same numbers of people."""
        telling = sum(bool(len(column)) for column in self.columns)
        others = sum(bool(len(column)) for column in before.columns)
        few = min(telling, others)
        alike = self._alike(before)
        equal = {number for pairs in alike for number, _ in pairs}
        return 2 * len(alike) >= few and self._bits(equal) >= _BITS

    def labelled_otherwise(self, before: Net) -> bool:
        """Whether the same people appear under other labels: spelled differently, or in other groups."""
        if (self.size or before.size) and self.same_columns(before) and not self.same_cells(before):
            return True
        for pairs in self._alike(before):
            moved = [number for number, is_labelled_so in pairs if not is_labelled_so]
            if self._bits(moved) >= _BITS and _OTHERWISE * len(moved) >= len(pairs):
                return True
        return False

    def _bits(self, numbers: Iterable[int]) -> float:
        return sum(self.worth.get(number, 0) for number in numbers)

    def _alike(self, before: Net) -> list[list[tuple[int, bool]]]:
        """The equal numbers of each column that has a match, each with whether its label is also equal."""
        found = []
        for column in self.columns:
            likes = [other for other in before.columns if _shared(column[:, 0], other[:, 0]) >= _EQUAL]
            if likes:
                labels = {(int(number), int(label)) for other in likes for number, label in other}
                numbers = {number for number, _ in labels}
                found.append([(int(n), (int(n), int(label)) in labels) for n, label in column if int(n) in numbers])
        return found


def columns_of(design: Design) -> list[Selection]:
    """The tables of single columns: each level of each hierarchy, and each key."""
    levels = [0] * len(design.hierarchies)
    tables = []
    for place, hierarchy in enumerate(design.hierarchies):
        for level in range(1, len(hierarchy.columns) + 1):
            tables.append(design.at([level if place == other else 0 for other in range(len(levels))], ()))
    return [*tables, *(design.at(levels, (key,)) for key in design.keys)]


def net(columns: Sequence[tuple[Sequence[str], IntArray]], tags: Words, small: int, secret: Secret) -> Net:
    """The net of some data: labels and true counts of its columns, and the smallest tags of its `small` small cells."""
    own = secret.derived("ledger net")
    kept, worth = [], {}
    for labels, counts in columns:
        alone = _alone(counts)
        numbers = [int(n) for n in counts[alone]]
        texts = (f"{n} {labels[place]}" for n, place in zip(numbers, alone.tolist(), strict=True))
        pairs = np.stack([own.hashes(map(str, numbers)), own.hashes(texts)], axis=1).reshape(-1, 2)
        worth.update({int(h): math.log2(n) / 2 + 1 for h, n in zip(pairs[:, 0], numbers, strict=True)})
        kept.append(pairs[np.argsort(pairs[:, 0])][:SKETCH])
    return Net(tuple(kept), np.sort(tags)[:SKETCH], small, worth)


def _alone(counts: IntArray) -> IntArray:
    """The places of numbers that are unlikely to repeat by chance: large, and far from other numbers."""
    order = np.argsort(counts)
    gaps = np.diff(counts[order].astype(np.float64), prepend=-np.inf, append=np.inf)
    room = np.minimum(gaps[:-1], gaps[1:])
    value = counts[order]
    return order[(value >= _TELLING) & (room > np.sqrt(value) / 4)]


def _shared(one: Words, other: Words) -> float:
    """The share of equal hashes among all, estimated from two sketches."""
    union = np.union1d(one, other)[:SKETCH]
    return len(np.intersect1d(np.intersect1d(one, other), union)) / len(union) if len(union) else 0.0


def _hex(words: Words) -> str:
    return words.astype(">u8").tobytes().hex()


def _words(text: str) -> Words:
    return np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64)
