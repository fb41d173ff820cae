"""The cost of protection, as plain functions of true and published counts."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
LARGE = 100
"""counts from this value on are large"""


class Neighbours(NamedTuple):
    """Pairs of neighbouring areas of a table: how well their difference and order are preserved."""

    pairs: int
    """the number of compared pairs"""
    off: int
    """the sum of absolute errors of their differences"""
    turned: int
    """the number of differing pairs that are published in another order, or as equal"""
    differing: int
    """the number of pairs that truly differ"""


def mean(values: npt.NDArray[np.generic]) -> float:
    """The mean; 0 for an empty array.

    >>> mean(np.array([1, 2]))
    1.5
    """
    return float(values.mean()) if len(values) else 0.0


def by_size(count: IntArray, loss: IntArray, K: int) -> tuple[float | None, float | None, float | None]:
    """The mean loss of counts below K, from K to 99, and from 100 on; None if there are none.

    >>> by_size(np.array([1, 7]), np.array([2, 1]), K=5)
    (2.0, 1.0, None)
    """
    small, large = count < K, count >= max(LARGE, K)
    below, middle, above = (mean(loss[which]) if which.any() else None for which in (small, ~small & ~large, large))
    return below, middle, above


def neighbours(packed: IntArray, width: int, count: IntArray, value: IntArray) -> Neighbours:
    """Compare each cell with the same cell of the next area; cells are numbered by area, `width` per area.

    >>> neighbours(np.array([0, 1, 2]), 1, np.array([5, 3, 3]), np.array([5, 5, 0]))
    Neighbours(pairs=2, off=7, turned=1, differing=1)
    """
    place = np.searchsorted(packed, packed + width)
    there = place < len(packed)
    there[there] = packed[place[there]] == packed[there] + width
    here, next_ = np.flatnonzero(there), place[there]
    true, shown = count[next_] - count[here], value[next_] - value[here]
    differ = true != 0
    turned = differ & (np.sign(true) != np.sign(shown))
    return Neighbours(len(here), int(np.abs(true - shown).sum()), int(turned.sum()), int(differ.sum()))


def likely(count: IntArray, value: IntArray, empty: int, K: int, sure: float = 0.95) -> float:
    """The share of counts below K behind a number that nearly always hides a count of 1..K-1.

    An attacker who knows how often each true count is behind each number is then that sure of it. The `empty` unlisted
    cells are truly 0, and published as 0.

    >>> likely(np.array([1, 2, 2, 9]), np.array([5, 5, 0, 9]), empty=3, K=5)
    0.6666666666666666
    """
    small = (count > 0) & (count < K)
    if not small.any():
        return 0.0
    values, place = np.unique(value, return_inverse=True)
    of_small = np.bincount(place, weights=small, minlength=len(values))
    of_all = np.bincount(place, minlength=len(values)) + np.where(values == 0, empty, 0)
    return mean((of_small / of_all > sure)[place[small]])


def guessed(count: IntArray, value: IntArray, empty: int, K: int) -> float:
    """The share of counts below K that are the most frequent true count behind their published number.

    The `empty` unlisted cells are truly 0, and published as 0.

    >>> guessed(np.array([1, 1, 2, 9]), np.array([5, 5, 5, 9]), empty=3, K=5)
    0.6666666666666666
    """
    small = (count > 0) & (count < K)
    if not small.any():
        return 0.0
    pairs, times = np.unique(np.column_stack([value, count]), axis=0, return_counts=True)
    pairs = np.vstack([pairs, [[0, 0]]])
    times = np.append(times, empty)
    order = np.lexsort((pairs[:, 1], -times, pairs[:, 0]))
    values, first = np.unique(pairs[order, 0], return_index=True)
    best = pairs[order][first, 1]
    right = best[np.searchsorted(values, value[small])] == count[small]
    return mean(right)
