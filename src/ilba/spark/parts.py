"""Cells in parts: which cells belong together, and how they reach the worker that combines them.

A worker sends the cells of each part as one byte string, so Spark moves few rows instead of one per cell. The starts of
the parts are computed from code lists and marginal counts, without a pass over the data. They only decide how even the
parts are: the numbers are the same for any parts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.cells.codes import CellIndex, CodeLists
from ilba.spark.frames import Piped

IntArray: TypeAlias = npt.NDArray[np.int64]

ROWS = 2**20
"""about this many rows are combined at once, in the memory of one worker"""
UNKNOWN = 200 * ROWS
"""the assumed number of rows of a table that was not counted"""
_EVEN = 4  # only an area with more than 1/4 of a part is cut


@dataclass(frozen=True)
class CellParts:
    """Where the parts of a table begin, and a number for each part that Spark sends to a partition of its own."""

    begins: IntArray
    """the first `cell0` of each part except the first"""
    slots: IntArray

    def __len__(self) -> int:
        return len(self.slots)

    @classmethod
    def of(cls, cell_index: CellIndex, weights: Sequence[npt.NDArray[Any]], rows: int) -> CellParts:
        """Divide a table into parts of about `ROWS` rows each.

        Parameters
        ----------
        cell_index : CellIndex
            The packing of the cells.
        weights : sequence of arrays
            The number of rows of each label, or an estimate, for each place of the index.
        rows : int
            An upper limit for the number of rows.

        Returns
        -------
        CellParts
            The parts; they are even if the places are independent.
        """
        wanted = max(-(-rows // ROWS), 1)
        left = np.arange(1, wanted) / wanted
        begins, share = np.zeros(wanted - 1, dtype=np.int64), np.ones(wanted - 1)
        for place in cell_index.words[0]:
            shares = np.asarray(weights[place], dtype=float) / max(float(np.sum(weights[place])), 1.0)
            ends = np.cumsum(shares)
            digit = np.minimum(np.searchsorted(ends, left, side="right"), len(shares) - 1)
            begins += digit * cell_index.stride(place)
            share *= shares[digit]
            inside = (left - (ends - shares)[digit]) / np.maximum(shares[digit], 1e-300)
            left = np.where(share * wanted * _EVEN > 1, np.clip(inside, 0.0, 1.0), 0.0)
        begins = np.unique(begins[begins > 0])
        return cls(begins, _slots(len(begins) + 1))

    @classmethod
    def of_table(cls, codes: CodeLists, cell_index: CellIndex, rows: int) -> CellParts:
        """Divide a table of at most `rows` cells; the weight of an area is its number of finest areas."""
        weights = [codes.lists[dimension].below(level) for dimension, level, _ in cell_index.places]
        return cls.of(cell_index, weights, min(rows, cell_index.grid))


def sent(pieces: Piped, parts: CellParts) -> Piped:
    """Pieces of cells on the workers that combine them, with the parts in order."""
    return Piped(pieces.frame("slot int, piece binary").repartition(len(parts), "slot"))


def _slots(parts: int) -> IntArray:
    """A whole number for each partition that Spark's hash sends there: Murmur3 with the seed 42."""
    found = np.full(parts, -1, dtype=np.int64)
    tried = 0
    while (found < 0).any():
        numbers = np.arange(tried, tried + 64 + int(parts * (4 + math.log(parts))), dtype=np.uint32)
        found[_murmur(numbers).view(np.int32) % parts] = numbers
        tried = int(numbers[-1]) + 1
    return found


def _murmur(numbers: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    mixed = _turned(numbers * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    total = _turned(mixed ^ np.uint32(42), 13) * np.uint32(5) + np.uint32(0xE6546B64)
    total ^= np.uint32(4)
    total = (total ^ (total >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    total = (total ^ (total >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return total ^ (total >> np.uint32(16))


def _turned(value: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (value << np.uint32(bits)) | (value >> np.uint32(32 - bits))
