"""Masks as words in Parquet files: what a ledger keeps. Without the secret a word is noise.

A word is a number of 64 bits: a keyed tag of a cell and its count, with the mask in its last bit. The files hold it as
a signed number, which every reader of Parquet knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

WORD = "word"
Words: TypeAlias = npt.NDArray[np.uint64]


def write_words(words: Words, file: Path) -> None:
    """Write words in the order of their numbers, which says nothing of the cells."""
    frame = pl.DataFrame({WORD: np.sort(words).view(np.int64)})
    frame.write_parquet(file, compression="zstd", statistics=False)


def read_words(files: Sequence[Path]) -> Words:
    """The words of some files, sorted."""
    parts = [pl.read_parquet(file)[WORD].to_numpy().view(np.uint64) for file in files]
    return np.sort(np.concatenate([np.empty(0, dtype=np.uint64), *parts]))
