"""The method of the paper: SCA, the four additive parts, iLBA, and what a released value discloses.

The functions take and return columns: whole numbers or arrays of them. No function reads a file, draws a number or
knows an engine. The paper's symbols:

====================  =============================================================================
K                     the threshold
f                     a true count
f_S, f_L              the sums over the small (f <= K) and over the large cells of an aggregate
S_0, S_K              the small cells that SCA masked to 0 and to K; S is their union
====================  =============================================================================
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.design.design import threshold_of
from ilba.errors import InputError, suggesting

IntArray: TypeAlias = npt.NDArray[np.int64]
DRAW_RANGE = 2**53
"""Draws are integers below this: 53 bits, so that each draw is exactly a float in [0, 1)."""
_COUNTED = 2**16  # up to this threshold, counting is the fastest way


class Parts(NamedTuple):
    """The parts of an aggregate that iLBA needs. Each part adds up over any partition of the aggregate.

    Parameters
    ----------
    sum_large : array of int
        The sum of the counts above K.
    n_small : array of int
        The number of small cells, those with a count up to K.
    n_at_threshold : array of int
        The number of small cells that SCA masked to K.
    sum_small : array of int
        The sum of the counts of the small cells.
    """

    sum_large: IntArray
    n_small: IntArray
    n_at_threshold: IntArray
    sum_small: IntArray

    @property
    def total(self) -> IntArray:
        """The whole count."""
        return self.sum_large + self.sum_small

    @classmethod
    def whole(cls, count: npt.ArrayLike) -> Parts:
        """Take counts unchanged, for a method that does not distinguish small and large cells.

        Parameters
        ----------
        count : array_like of int
            The counts.

        Returns
        -------
        Parts
            The counts as sums of large cells.
        """
        total = np.asarray(count, dtype=np.int64)
        none = np.zeros_like(total)
        return cls(total, none, none, none)


class Masked(NamedTuple):
    """The released sum of the small cells, and whether it was shifted.

    Parameters
    ----------
    sum_masked : array of int
        The released sum of the small cells.
    type1 : array of int
        1 if it was shifted up, otherwise 0.
    type2 : array of int
        1 if it was shifted down, otherwise 0.
    """

    sum_masked: IntArray
    type1: IntArray
    type2: IntArray


def sca(f: npt.ArrayLike, draw: npt.ArrayLike, K: int) -> IntArray:
    """Mask counts by Small Cell Adjustment, eq. (1): a count up to K becomes K with probability f/K, else 0.

    The comparison is between integers, so there is no rounding: the probability is f/K to within 2^-53, and exactly 0
    for f = 0 and 1 for f = K.

    Parameters
    ----------
    f : array_like of int
        True counts.
    draw : array_like of int
        A number for each count, uniform on 0 .. 2^53 - 1.
    K : int
        The threshold.

    Returns
    -------
    array of int
        The masked counts. Counts above K are unchanged.

    Examples
    --------
    >>> sca([0, 2, 2, 5, 9], [0, 0, 2**53 - 1, 2**53 - 1, 0], K=5)
    array([0, 5, 0, 5, 9])
    """
    count, drawn = _ints(f), _ints(draw)
    # draw < f/K * 2^53, as a table of thresholds, because the product f * 2^53 would not fit into 64 bits.
    small = count < K
    few = count[small]
    present = np.unique(few) if K > _COUNTED else np.flatnonzero(np.bincount(few))
    limit = np.array([-(-int(x) * DRAW_RANGE // K) for x in present], dtype=np.int64)
    masked = count.copy()
    masked[small] = np.where(drawn[small] < limit[np.searchsorted(present, few)], K, 0)
    return masked


def parts(f: npt.ArrayLike, f_sca: npt.ArrayLike, K: int) -> Parts:
    """Compute the four additive parts of each cell, to be summed over the cells of an aggregate.

    Small includes f = K here, because after SCA a K may stand for any count from 1 to K. If counts were moved jointly
    to values other than 0 and K, the masked count is the large part, and the small part corrects it to the true count.
    So a true sum is always sum_large + sum_small, and a sum of masked counts is sum_large + K n_at_threshold.

    Parameters
    ----------
    f : array_like of int
        True counts of finest cells.
    f_sca : array_like of int
        The same counts masked by SCA.
    K : int
        The threshold.

    Returns
    -------
    Parts
        The parts, one number for each cell.

    Examples
    --------
    >>> parts([36, 1, 5], [36, 0, 5], K=5).n_small
    array([0, 1, 1])
    """
    count, masked = _ints(f), _ints(f_sca)
    small = (count <= K) & ((masked == 0) | (masked == K))
    return Parts(
        np.where(small, 0, masked),
        small.astype(np.int64),
        (small & (masked == K)).astype(np.int64),
        np.where(small, count, count - masked),
    )


def feasible(n_small: npt.ArrayLike, n_at_threshold: npt.ArrayLike, K: int) -> tuple[IntArray, IntArray]:
    """Compute the ends of D, eq. (B.1): the sums f_S that are possible given the masked finest table.

    Parameters
    ----------
    n_small : array_like of int
        The number of small cells of each aggregate.
    n_at_threshold : array_like of int
        The number of them that SCA masked to K.
    K : int
        The threshold.

    Returns
    -------
    tuple of two arrays
        The smallest and the largest possible sum.

    Examples
    --------
    >>> [int(end) for end in feasible(n_small=5, n_at_threshold=4, K=5)]
    [4, 24]
    """
    n, at_k = _ints(n_small), _ints(n_at_threshold)
    return at_k, K * at_k + (K - 1) * (n - at_k)


def candidates(sum_small: npt.ArrayLike, K: int) -> tuple[IntArray, IntArray]:
    """Compute the ends of C, eqs. (C.3) and (C.4): the block of K numbers in which f_S lies.

    Parameters
    ----------
    sum_small : array_like of int
        The true sum f_S of the small cells of each aggregate.
    K : int
        The threshold.

    Returns
    -------
    tuple of two arrays
        The first and the last number of the block.

    Examples
    --------
    >>> [int(end) for end in candidates(sum_small=6, K=5)]
    [6, 10]
    """
    total = _ints(sum_small)
    low = (total - 1) // K * K + 1  # f_S - mod(f_S - 1, K)
    return low, low + K - 1


def ilba(n_small: npt.ArrayLike, n_at_threshold: npt.ArrayLike, sum_small: npt.ArrayLike, K: int) -> Masked:
    """Mask the small cells of aggregates by Information-Loss-Bounded Aggregation: Algorithm 1, eqs. (C.1) to (C.8).

    Parameters
    ----------
    n_small : array_like of int
        The number of small cells of each aggregate.
    n_at_threshold : array_like of int
        The number of them that SCA masked to K.
    sum_small : array_like of int
        Their true sum f_S.
    K : int
        The threshold.

    Returns
    -------
    Masked
        The released sums of the small cells with their flags.

    Examples
    --------
    The paper's example has S_0 = {8}, S_K = {4, 5, 6, 7} and f_S = 6:

    >>> [int(x) for x in ilba(n_small=5, n_at_threshold=4, sum_small=6, K=5)]
    [8, 0, 0]
    """
    given = np.broadcast_arrays(_ints(n_small), _ints(n_at_threshold), _ints(sum_small))
    n, at_k, total = (part.ravel() for part in given)
    released = np.where(n == 1, K * at_k, 0)  # one small cell keeps its SCA value, eq. (C.2)
    type1, type2 = np.zeros_like(released), np.zeros_like(released)
    several = np.flatnonzero((n >= 2) & (total >= 1))  # few in a fine table, so the rest is computed for these alone

    c_low, c_high = candidates(total[several], K)  # steps 1 and 2
    d_low, d_high = feasible(n[several], at_k[several], K)  # step 3
    below = c_low < d_low
    above = ~below & (d_high < c_high)
    shifted = c_low + K // 2 + K * (below.astype(np.int64) - above)

    released[several] = np.where(shifted == 1 + K // 2, K, shifted)  # step 4, eq. (C.7)
    type1[several], type2[several] = below, above
    return Masked(*(part.reshape(given[0].shape) for part in (released, type1, type2)))


def preimage(
    released: npt.ArrayLike, n_small: npt.ArrayLike, n_at_threshold: npt.ArrayLike, K: int
) -> tuple[IntArray, IntArray]:
    """Compute the ends of the interval of sums f_S in D that iLBA releases as a given value.

    Parameters
    ----------
    released : array_like of int
        The released sums of the small cells.
    n_small : array_like of int
        The number of small cells of each aggregate.
    n_at_threshold : array_like of int
        The number of them that SCA masked to K.
    K : int
        The threshold.

    Returns
    -------
    tuple of two arrays
        The smallest and the largest sum. If no sum gives the value, the low end is above the high end.

    Examples
    --------
    >>> [int(end) for end in preimage(released=8, n_small=5, n_at_threshold=4, K=5)]
    [4, 10]
    """
    value, n, at_k = np.broadcast_arrays(_ints(released), _ints(n_small), _ints(n_at_threshold))
    d_low, d_high = feasible(n, at_k, K)

    # A released value above 0 names a block qK + 1 .. qK + K; K itself stands for the first one (C.7).
    q = np.where(value == K, 0, (value - 1 - K // 2) // K)
    known = (value == K) | ((value > K) & (value == q * K + 1 + K // 2))
    low, high = q * K + 1, q * K + K
    known &= (d_low <= low) & (high <= d_high)  # iLBA releases only blocks inside D
    # Neighbouring blocks that reach beyond D were shifted here: type 1 from below, type 2 from above.
    low = np.where(low - K < d_low, np.minimum(low, np.maximum(d_low, 1)), low)
    high = np.where(d_high < high + K, d_high, high)

    zero = (value == 0) & (at_k == 0)  # a sum of 0 needs every small cell at 0
    single = value == K * at_k
    low = np.where(n >= 2, np.where(zero, 0, low), np.where(n == 1, d_low, 0))
    high = np.where(n >= 2, np.where(zero, 0, high), np.where(n == 1, d_high, 0))
    possible = np.where(n >= 2, known | zero, np.where(n == 1, single, value == 0))
    return np.where(possible, low, 0), np.where(possible, high, -1)


def loss_bound(n_small: npt.ArrayLike, sum_small: npt.ArrayLike, K: int) -> IntArray:
    """Compute how far a released count can lie from the true count.

    Parameters
    ----------
    n_small : array_like of int
        The number of small cells of each aggregate.
    sum_small : array_like of int
        Their true sum f_S.
    K : int
        The threshold.

    Returns
    -------
    array of int
        Floor(K/2) + K, or K - 1 if there is at most one small cell or the sum is 0.

    Examples
    --------
    >>> [int(b) for b in loss_bound([5, 1], [6, 2], K=5)]
    [7, 4]
    """
    n, total = _ints(n_small), _ints(sum_small)
    return np.where((n >= 2) & (total >= 1), K // 2 + K, K - 1)


@suggesting
def apply_SCA(freq: npt.ArrayLike, mask_thr: int, *, draws: npt.ArrayLike | None = None) -> IntArray:
    """Mask counts with SCA, as the R function of this name does.

    Parameters
    ----------
    freq : array_like of int
        True counts.
    mask_thr : int
        The threshold K, at least 3.
    draws : array_like of float, optional
        Numbers in [0, 1), one for each count. Without them each call draws anew from the operating system. Use that
        only for trials, never for publication: two runs over the same data would disclose counts. `ilba.build` draws
        with a secret.

    Returns
    -------
    array of int
        The masked counts.

    Raises
    ------
    InputError
        A count is not a whole number of at least 0, or the draws do not match.

    Examples
    --------
    >>> apply_SCA([0, 2, 2, 5, 438], mask_thr=5, draws=[0.0, 0.39, 0.4, 0.9, 0.0])
    array([  0,   5,   0,   5, 438])
    """
    K = threshold_of(mask_thr)
    count = whole_numbers("freq", freq)
    if draws is None:
        drawn = np.random.default_rng().random(count.shape)
    else:
        drawn = np.asarray(draws, dtype=np.float64)
        if drawn.shape != count.shape:
            raise InputError(f"draws has the shape {drawn.shape} and freq {count.shape}. Give one draw for each count.")
        if not ((drawn >= 0) & (drawn < 1)).all():
            raise InputError("draws holds a number outside [0, 1).")
    return sca(count, np.floor(drawn * DRAW_RANGE).astype(np.int64), K)


@suggesting
def apply_iLBA(iLBA_inputs: Any, mask_thr: int) -> tuple[Any, Any, Any]:
    """Mask sums of small cells with iLBA, as the R function of this name does.

    Parameters
    ----------
    iLBA_inputs : sequence of three
        (n_small, n_SCA_thr, sum_small): the number of small cells, the number of them that SCA masked to K, and their
        true sum. Whole numbers, or arrays of them.
    mask_thr : int
        The threshold K, at least 3.

    Returns
    -------
    tuple of three
        (sum_masked, type1, type2): whole numbers if three numbers were given, otherwise arrays.

    Raises
    ------
    InputError
        The three do not match: such a sum is not possible with these cells.

    Examples
    --------
    >>> apply_iLBA((5, 4, 6), mask_thr=5)
    (8, 0, 0)
    """
    K = threshold_of(mask_thr)
    try:
        n_small, n_at_threshold, sum_small = iLBA_inputs
    except (TypeError, ValueError):
        raise InputError("iLBA_inputs is not (n_small, n_SCA_thr, sum_small): give these three.") from None
    n = whole_numbers("n_small", n_small)
    at_k = whole_numbers("n_SCA_thr", n_at_threshold)
    total = whole_numbers("sum_small", sum_small)
    try:
        np.broadcast_shapes(n.shape, at_k.shape, total.shape)
    except ValueError:
        raise InputError("n_small, n_SCA_thr and sum_small are of different lengths.") from None
    low, high = feasible(n, at_k, K)
    if (at_k > n).any():
        raise InputError("n_SCA_thr is larger than n_small: more cells were masked to K than there are small cells.")
    if ((total < low) | (total > high)).any():
        raise InputError(
            "sum_small is not possible with these cells: one masked to K holds 1..K, one masked to 0 holds 0..K-1."
        )
    masked = ilba(n, at_k, total, K)
    if masked.sum_masked.ndim == 0:
        return int(masked.sum_masked), int(masked.type1), int(masked.type2)
    return masked.sum_masked, masked.type1, masked.type2


def whole_numbers(name: str, values: npt.ArrayLike) -> IntArray:
    """The values as counts: whole, not negative, none missing."""
    given = np.asarray(values)
    if given.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            whole = given.astype(np.int64)
        if not (whole == given).all():
            raise InputError(f"{name} holds something that is not a whole number, or is missing.")
        given = whole
    if given.dtype.kind not in "iu" and given.size:
        raise InputError(f"{name} holds something that is not a whole number.")
    if given.size and (given.max() > np.iinfo(np.int64).max or given.min() < 0):
        raise InputError(f"{name} holds a number below 0 or above 2^63 - 1.")
    return given.astype(np.int64)


def _ints(values: npt.ArrayLike) -> IntArray:
    return np.asarray(values, dtype=np.int64)
