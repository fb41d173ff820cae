"""One summary of how far masked counts lie from the truth, for every report. Confidential.

Shares run from 0 to 1. Percentages are for display: `percent` writes them as the R package does.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]


def usual_bound(K: int) -> int:
    """The bound of iLBA on a single aggregate, floor(K/2) + K.

    >>> usual_bound(5)
    7
    """
    return K // 2 + K


def not_quite_all(share: float, digits: int) -> float:
    """A share to be shown with so many digits: one below 1 is not rounded up to 1.

    >>> not_quite_all(0.9997, 3), not_quite_all(0.98, 3), not_quite_all(1.0, 3)
    (0.999, 0.98, 1.0)
    """
    return min(share, 1 - 10.0**-digits) if share < 1 else share


class LossSummary(NamedTuple):
    """How far the counts of some tables lie from the truth (confidential)."""

    mean: float
    """the mean absolute loss"""
    p99: int
    """the smallest loss that at least 99% of the counts do not exceed"""
    max: int
    within: float
    """the share of counts with a loss of at most floor(K/2)"""
    over: float
    """the share of counts with a loss above the bound"""

    @classmethod
    def of(cls, counted: IntArray, K: int, bound: int | None = None) -> LossSummary:
        """Summarize a distribution: the numbers of counts with a loss of 0, 1, 2, ..."""
        total = int(counted.sum())
        if not total:
            return cls(0.0, 0, 0, 1.0, 0.0)
        limit = usual_bound(K) if bound is None else bound
        return cls(
            mean=float(counted @ np.arange(len(counted))) / total,
            p99=int(np.searchsorted(np.cumsum(counted), -(-99 * total // 100))),
            max=int(np.flatnonzero(counted)[-1]),
            within=float(counted[: K // 2 + 1].sum()) / total,
            over=float(counted[limit + 1 :].sum()) / total,
        )


def loss_summary(table_losses: Iterable[npt.ArrayLike], K: int, bound: int | None = None) -> LossSummary:
    """Summarize the losses of the counts of several tables.

    Parameters
    ----------
    table_losses : iterable of arrays
        The losses of each table, such as `table.detail["loss"]` of each table of a cube. Signs do not matter.
    K : int
        The threshold.
    bound : int, optional
        The bound. By default, floor(K/2) + K.

    Returns
    -------
    LossSummary
        The mean, the 99th percentile and the largest loss; the shares of counts with a loss of at most K/2 (`within`)
        and above the bound (`over`), from 0 to 1. Confidential.

    Examples
    --------
    >>> loss_summary([[0, 1, -2], [9]], K=5)
    LossSummary(mean=3.0, p99=9, max=9, within=0.75, over=0.25)
    """
    counted = np.zeros(0, dtype=np.int64)
    for losses in table_losses:
        more = np.bincount(np.abs(np.asarray(losses, dtype=np.int64)))
        if len(more) > len(counted):
            counted, more = more.astype(np.int64), counted
        counted[: len(more)] += more
    return LossSummary.of(counted, K, bound)


def loss_counts(loss: npt.ArrayLike) -> tuple[IntArray, IntArray]:
    """The losses that occur, and how often.

    >>> [column.tolist() for column in loss_counts([0, 0, 1, -2])]
    [[-2, 0, 1], [1, 2, 1]]
    """
    values, n = np.unique(np.asarray(loss, dtype=np.int64), return_counts=True)
    return values, n.astype(np.int64)


def percent(n: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Compute the share of each number in their sum, in percent, rounded to two digits as R rounds.

    Parameters
    ----------
    n : array_like of int
        Numbers of cells.

    Returns
    -------
    array of float
        The shares.

    Examples
    --------
    >>> percent([1, 2, 1]).tolist()
    [25.0, 50.0, 25.0]
    """
    number = np.asarray(n, dtype=np.int64)
    share = number / number.sum() * 100
    below = np.floor(share * 100)
    down, up = below / 100, np.ceil(share * 100) / 100
    nearer_down = (share - down < up - share) | ((share - down == up - share) & (below % 2 == 0))
    rounded: npt.NDArray[np.float64] = np.where(nearer_down, down, up)
    return rounded
