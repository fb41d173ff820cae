"""How cell keys move counts: a p-table that is ready for look-ups, and the look-up itself."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BLANK = -1
"""stands for a count that is left blank"""


@dataclass(frozen=True)
class KeyedTable:
    """A p-table, read from the ONS layout or the European layout, ready for look-ups."""

    parts: int
    """the number of cell keys: 256 in the ONS layout, 10^8 in the European one"""
    change: IntArray
    """what is added, by row of the p-table and by interval"""
    upper: IntArray
    """the key after the last one of each interval, by row and interval; the last one is `parts`"""
    last: int
    """the last row; larger counts cycle through the last `again` rows"""
    again: int
    """the number of last rows that repeat"""

    def row(self, count: IntArray) -> IntArray:
        """The row of the p-table for each count (the ONS calls it pcv)."""
        beyond = self.last - self.again + 1 + (count - 1) % self.again if self.again > 1 else self.last
        return np.where(count <= self.last, count, beyond)

    def changes(self, count: IntArray, key: IntArray) -> IntArray:
        """What is added to each count, by its cell key. An empty cell stays empty."""
        row = self.row(count)
        width = self.change.shape[1]
        if width == self.parts:  # an interval for each key
            place = row * width + key
        else:  # one look-up for all rows: keys of row r come after those of earlier rows
            place = np.searchsorted(self._ends, row * self.parts + key, side="right")
        found: IntArray = np.where(count == 0, 0, self.change.ravel()[place])
        return found

    @cached_property
    def _ends(self) -> IntArray:
        """The upper ends of all intervals of all rows, one after the other."""
        every: IntArray = (np.arange(self.last + 1)[:, None] * self.parts + self.upper).ravel()
        return every

    @cached_property
    def mark(self) -> str:
        """A checksum of the table's effect."""
        wide = np.ascontiguousarray(self.change), np.ascontiguousarray(self.upper)
        numbers = np.array([self.parts, self.last, self.again, *self.change.shape])
        return hashlib.sha256(b"".join(part.astype("<i8").tobytes() for part in (numbers, *wide))).hexdigest()[:16]

    def chance(self, value: IntArray, count: IntArray) -> FloatArray:
        """The chance that each count is published as a value, over all cell keys."""
        top = self._chances.shape[1] // 2
        away = value - count
        near = np.abs(away) <= top
        row = self.row(np.maximum(count, 0))
        return np.where(near & (count >= 0), self._chances[row, np.where(near, away, 0) + top], 0.0)

    @cached_property
    def _chances(self) -> FloatArray:
        """The chance of each change, by row of the p-table; no change is in the middle."""
        top = int(np.abs(self.change).max())
        found = np.zeros((self.last + 1, 2 * top + 1))
        wide = np.diff(self.upper, axis=1, prepend=0) / self.parts
        rows = np.broadcast_to(np.arange(self.last + 1)[:, None], self.change.shape)
        np.add.at(found, (rows, self.change + top), wide)
        found[0] = 0
        found[0, top] = 1
        return found

    def reach(self, value: IntArray) -> tuple[IntArray, IntArray]:
        """The smallest and the largest count that can be published as a value."""
        happens = self._chances > 0
        top = happens.shape[1] // 2
        low, high = np.full(value.shape, np.iinfo(np.int64).max), np.full(value.shape, -1)
        for away in range(-top, top + 1):
            count = value - away
            can = (count >= 0) & happens[self.row(np.maximum(count, 0)), away + top]
            low, high = np.where(can, np.minimum(low, count), low), np.where(can, np.maximum(high, count), high)
        return low, high


@dataclass(frozen=True)
class KeyedMoves:
    """How the sums of record keys move counts."""

    table: KeyedTable
    """the p-table"""
    keys: int
    """the number of record keys: 256, or 10^8"""
    threshold: int = 0
    """counts below it are left blank"""

    def published(self, count: IntArray, sums: IntArray) -> IntArray:
        """The published counts; `BLANK` if one is below the threshold.

        If the p-table has another number of keys, keys are scaled to it.
        """
        key = sums % self.keys
        if self.keys != self.table.parts:
            key = key * self.table.parts // self.keys
        value = count + perturbation(count, key, self.table)
        return np.where(value < self.threshold, BLANK, value) if self.threshold else value


def perturbation(count: IntArray, key: IntArray, table: KeyedTable) -> IntArray:
    """The changes of counts by their cell keys, in pieces that fit the processor's caches."""
    pieces = [table.changes(count[at : at + 2**16], key[at : at + 2**16]) for at in range(0, max(len(count), 1), 2**16)]
    return np.concatenate(pieces)
