"""Masks as words in Parquet files: what a ledger keeps. Without the secret a word is noise.

A word is a 64-bit number: a keyed tag of a cell and its count, with the mask in its last bit, or in its last bits if
large counts may move. The files hold it as a signed number, which every Parquet reader knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

WORD = "word"
Words: TypeAlias = npt.NDArray[np.uint64]
IntArray: TypeAlias = npt.NDArray[np.int64]


class MaskCode(NamedTuple):
    """The code of a mask as a small number: 0 for a mask of 0; 1, 2, ... for the lowest possible other count and up.

    >>> code = MaskCode(K=5, move=2)
    >>> count, masked = np.array([1, 3, 9]), np.array([0, 6, 8])
    >>> code.bits, code.of(count, masked).tolist(), code.masked(count, code.of(count, masked)).tolist()
    (3, [0, 2, 2], [0, 6, 8])
    """

    K: int
    move: int = 0

    @property
    def bits(self) -> int:
        """The number of bits of the code, the last ones of a word."""
        return (2 * self.move + 1).bit_length()

    @property
    def below(self) -> int | None:
        """Cells with a count below this have a word; None for all cells. Other cells are unchanged by masking."""
        return None if self.move else self.K

    def of(self, count: IntArray, masked: IntArray) -> Words:
        """The code of each mask."""
        return np.where(masked == 0, 0, masked - self._lowest(count) + 1).astype(np.uint64)

    def masked(self, count: IntArray, number: npt.NDArray[np.int64] | Words) -> IntArray:
        """The masked counts of the given codes."""
        numbers = number.astype(np.int64)
        return np.where(numbers == 0, 0, self._lowest(count) + numbers - 1)

    def _lowest(self, count: IntArray) -> IntArray:
        return np.where(count < self.K, self.K, count - self.move)


def write_words(words: Words, file: Path) -> None:
    """Write words in numerical order, which says nothing about the cells."""
    frame = pl.DataFrame({WORD: np.sort(words).view(np.int64)})
    frame.write_parquet(file, compression="zstd", statistics=False)


def read_words(files: Sequence[Path]) -> Words:
    """The words of some files, sorted."""
    parts = [pl.read_parquet(file)[WORD].to_numpy().view(np.uint64) for file in files]
    return np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *parts]))
