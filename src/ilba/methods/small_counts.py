"""Small count rounding: only small inner cells are rounded, and published cells are sums of the result.

After Langsrud and Heldal (2018). The inner cells in small published cells become 0 or the base. They are chosen jointly
so that the published sums stay near the truth. The publication adds up, and holds no count from 1 to base - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, suggesting
from ilba.methods.controlled.kernels import compiled
from ilba.methods.tabulation import Tabulation, tabulate

IntArray: TypeAlias = npt.NDArray[np.int64]
_EXCHANGES = 20  # for each candidate, at most


@dataclass(frozen=True)
class RoundedCounts:
    """The result of small count rounding (confidential: it also holds the true counts)."""

    inner: pl.DataFrame
    """the inner cells: labels, original, rounded, difference"""
    publish: pl.DataFrame
    """the published cells: labels, original, rounded, difference"""

    @property
    def metrics(self) -> dict[str, float]:
        """How far the published cells lie from the truth: maxdiff, meanAbsDiff, rootMeanSquare, HDutility."""
        original = self.publish["original"].to_numpy().astype(np.float64)
        rounded = self.publish["rounded"].to_numpy().astype(np.float64)
        away = np.abs(rounded - original)
        distance = np.sqrt(((np.sqrt(original) - np.sqrt(rounded)) ** 2).sum() / 2)
        return {
            "maxdiff": float(away.max()),
            "meanAbsDiff": float(away.mean()),
            "rootMeanSquare": float(np.sqrt((away**2).mean())),
            "HDutility": float(1 - distance / np.sqrt(original.sum())),
        }


@suggesting
def small_count_rounding(
    frame: Any,
    base: int = 3,
    tables: Any = None,
    *,
    max_round: int | None = None,
    identify_new: bool | None = True,
    zero_candidates: bool = False,
    count: str | None = None,
    at_once: int | None = 1000,
    seed: int = 0,
) -> RoundedCounts:
    """Round small counts so that no published count lies strictly between 0 and the base, and all sums hold.

    Parameters
    ----------
    frame : frame
        The inner cells: labels and a column of counts.
    base : int, default 3
        Small counts become 0 or this number.
    tables : str or list, optional
        What is published: text such as "region*age + county*age", or a list of tables, each a list of columns. A table
        is published with its margins, and the total is always published. By default, one table of all columns.
    max_round : int, optional
        Published counts up to this number are small. By default, base - 1.
    identify_new : bool or None, default True
        Round again if rounding made new small counts. None checks only for counts below the base.
    zero_candidates : bool, default False
        Empty inner cells may be raised too.
    count : str, optional
        The column of counts. By default, the one called N, freq, n, count or ant.
    at_once : int or None, default 1000
        Choose for this many inner cells at a time, in a random order, as the R package SmallCountRounding does (its
        maxIterRows). With None, all together: sums lie nearer to the truth on average, but single sums may lie further
        away.
    seed : int, default 0
        Orders cells that are equally good.

    Returns
    -------
    RoundedCounts
        The inner and the published cells with true and rounded counts, and `metrics`. Confidential.

    Raises
    ------
    InputError
        The base is not a whole number of at least 2, or a column is missing.

    Examples
    --------
    >>> counts = pl.DataFrame({"town": ["a", "a", "b"], "sex": ["f", "m", "f"], "freq": [2, 1, 7]})
    >>> small_count_rounding(counts, base=3).publish["rounded"].to_list()
    [10, 3, 7, 10, 0, 3, 0, 7]
    """
    if isinstance(base, bool) or not isinstance(base, int) or base < 2:
        raise InputError(f"base={base!r} is not a whole number of at least 2.")
    cells = tabulate(frame, tables, count)
    rounded = round_small(
        cells,
        base,
        base - 1 if max_round is None else max_round,
        identify_new,
        zero_candidates,
        np.random.default_rng(seed),
        at_once,
    )
    return RoundedCounts(
        _beside(cells.inner, cells.count, rounded), _beside(cells.labels, cells.published, cells.sums(rounded))
    )


def _beside(labels: pl.DataFrame, original: IntArray, rounded: IntArray) -> pl.DataFrame:
    return labels.with_columns(
        original=pl.Series(original), rounded=pl.Series(rounded), difference=pl.Series(rounded - original)
    )


def round_small(
    cells: Tabulation,
    base: int,
    most: int,
    identify_new: bool | None,
    zero_candidates: bool,
    rng: np.random.Generator,
    at_once: int | None = None,
) -> IntArray:
    """The rounded counts of the inner cells."""
    true = cells.published
    now = cells.count.copy()
    wanted = _in_small(cells, (true > 0) & (true <= most))
    while True:
        candidates = np.flatnonzero(wanted & (now <= most) & ((now % base > 0) | (zero_candidates & (now == 0))))
        order = rng.permutation(candidates)
        size = at_once or max(len(order), 1)
        for first in range(0, len(order), size):
            _round(cells, true, now, order[first : first + size], base)
        shown = cells.sums(now)
        if identify_new is False:
            return now
        wanted = _in_small(cells, _left(shown, base, most, identify_new)) & (now % base > 0) & (now <= most)
        if not wanted.any():
            wanted = _read_off(cells, shown) & (now > 0) & (now <= most) & (now % base > 0)
            if not wanted.any():
                return now
        zero_candidates = False


def _left(shown: IntArray, base: int, most: int, identify_new: bool | None) -> npt.NDArray[np.bool_]:
    """The published cells that are still small."""
    end = base - 1 if identify_new is None else max(most, base - 1)
    return (shown > 0) & (shown <= end) & (shown % base > 0)


def _in_small(cells: Tabulation, small: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """The inner cells that lie in one of some published cells."""
    return np.asarray(small[cells.member].any(axis=1))


def _round(cells: Tabulation, true: IntArray, now: IntArray, order: IntArray, base: int) -> None:
    """Move each candidate's remainder to 0 or to the base, so that published sums stay near the truth."""
    remainder = now[order] % base
    shown = cells.sums(now)
    total = int(cells.count.sum() - now.sum())
    raised_number = min(max(round((int(remainder.sum()) + total) / base), 0), len(order))
    member = cells.member[order]
    inside = np.bincount(member.ravel(), minlength=len(cells))
    used = (inside > 0) & (inside < len(order))
    residual = np.where(used, true - shown, 0)
    for column in member.T:
        residual += np.where(used, np.bincount(column, weights=remainder, minlength=len(cells)), 0).astype(np.int64)
    table = np.where(used[member], member, -1)
    score = np.where(table >= 0, residual[member], 0).sum(axis=1)
    # The candidates of each published cell, as consecutive lists: a move changes the scores of all candidates in its
    # cells.
    flat = table.ravel()
    listed = np.argsort(flat, kind="stable")
    starts = np.searchsorted(flat[listed], np.arange(len(cells) + 1))
    up = _chosen(table, starts, listed // table.shape[1], score, raised_number, base, _EXCHANGES * len(score))
    now[order] += np.where(up, base - remainder, -remainder)


@compiled
def _chosen(table: Any, starts: Any, listed: Any, score: Any, number: int, base: int, exchanges: int) -> Any:
    """Choose the raised candidates: the best one by one, then exchanges until the last raised one is the worst."""
    size = len(score)
    up = np.zeros(size, dtype=np.bool_)
    last = -1
    for _ in range(number):
        last = _raise_best(table, starts, listed, score, up, base)
    if number == 0 or number == size:
        return up
    for _ in range(exchanges):
        worst = -1
        for one in range(size):
            if up[one] and (worst < 0 or score[one] < score[worst]):
                worst = one
        if worst == last:
            break
        _moved(table, starts, listed, score, worst, base)
        up[worst] = False
        last = _raise_best(table, starts, listed, score, up, base)
    return up


@compiled
def _raise_best(table: Any, starts: Any, listed: Any, score: Any, up: Any, base: int) -> int:
    """Raise the best candidate that is not raised yet, the first among equals, and return it."""
    best = -1
    for one in range(len(score)):
        if not up[one] and (best < 0 or score[one] > score[best]):
            best = one
    _moved(table, starts, listed, score, best, -base)
    up[best] = True
    return best


@compiled
def _moved(table: Any, starts: Any, listed: Any, score: Any, which: int, by: int) -> None:
    """Change the scores of the candidates that share published cells with a moved one."""
    for cell in table[which]:
        if cell >= 0:
            for at in range(starts[cell], starts[cell + 1]):
                score[listed[at]] += by


def _read_off(cells: Tabulation, shown: IntArray) -> npt.NDArray[np.bool_]:
    """The inner cells whose counts follow from published ones: inside a zero, or the only unknown; repeated."""
    known: npt.NDArray[np.bool_] = (shown == 0)[cells.member].any(axis=1)
    while True:
        left = np.bincount(cells.member[~known].ravel(), minlength=len(cells))
        more = (left == 1)[cells.member].any(axis=1) & ~known
        if not more.any():
            return known
        known |= more
