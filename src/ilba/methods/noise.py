"""Noise of differential privacy: discrete Laplace and Gaussian, and fits that make noisy counts consistent.

The noise is a whole number of either sign, without a limit. So a noisy count proves nothing. Epsilon bounds what one
person's record adds to anybody's knowledge, and epsilons add up over everything that is published.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError
from ilba.methods import exact
from ilba.methods.exact import ByteStream
from ilba.methods.method import Shown, documented_as

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
_REACH = 45  # sums and draws reach this many scales; the rest is below any float


class NoiseDistribution(ABC):
    """A distribution of whole numbers around 0."""

    def __init_subclass__(cls) -> None:
        """Complete the docstrings of a distribution."""
        documented_as(cls, NoiseDistribution, ("p", "exact"))

    @property
    @abstractmethod
    def scale(self) -> float:
        """The scale of the noise."""

    @abstractmethod
    def p(self, k: npt.ArrayLike) -> FloatArray:
        """Compute the chance of each whole number.

        Parameters
        ----------
        k : array_like of int
            Whole numbers.

        Returns
        -------
        array of float
            The chances.
        """

    @abstractmethod
    def exact(self, stream: ByteStream, size: int) -> IntArray:
        """Draw exact values for publication from random bytes.

        Parameters
        ----------
        stream : ByteStream
            The source of randomness.
        size : int
            The number of values.

        Returns
        -------
        array of int
            The values.
        """

    @cached_property
    def _support(self) -> IntArray:
        far = math.ceil(_REACH * self.scale) + 1
        return np.arange(-far, far + 1)

    @property
    def variance(self) -> float:
        """The variance."""
        return float((self._support.astype(np.float64) ** 2 * self.p(self._support)).sum())

    @property
    def mean_abs(self) -> float:
        """The mean absolute value: the mean loss of a count."""
        return float((np.abs(self._support) * self.p(self._support)).sum())

    def tail(self, m: int) -> float:
        """Compute the chance of an absolute value of at least m.

        Parameters
        ----------
        m : int
            At least 1.

        Returns
        -------
        float
            The chance.
        """
        far = self._support[self._support >= m]
        return float(2 * self.p(far)[::-1].sum())

    def draw(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw values in floating point, for comparisons of methods.

        Parameters
        ----------
        rng : numpy.random.Generator
            The source of randomness.
        size : int
            The number of values.

        Returns
        -------
        array of int
            The values.
        """
        ends = np.cumsum(self.p(self._support))
        drawn: IntArray = self._support[np.minimum(np.searchsorted(ends, rng.random(size)), len(ends) - 1)]
        return drawn


@dataclass(frozen=True)
class DiscreteLaplace(NoiseDistribution):
    """Two-sided geometric noise: P(k) = (1-a)/(1+a) a^abs(k) with a = exp(-epsilon / sensitivity).

    Parameters
    ----------
    epsilon : float
        The privacy loss of one count.
    sensitivity : float, default 1.0
        How much one person changes the counts in total: the number of tables in which a person is counted.

    Examples
    --------
    >>> round(DiscreteLaplace(epsilon=1.0).variance, 4)
    1.8413
    """

    epsilon: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or not self.sensitivity > 0:
            raise InputError("epsilon and sensitivity have to be above 0.")

    @property
    def scale(self) -> float:
        """Sensitivity over epsilon."""
        return self.sensitivity / self.epsilon

    @property
    def alpha(self) -> float:
        """The ratio of the chances of k + 1 and k."""
        return math.exp(-1 / self.scale)

    def p(self, k: npt.ArrayLike) -> FloatArray:
        """Compute the chance of each whole number, in closed form."""
        a = self.alpha
        chances: FloatArray = (1 - a) / (1 + a) * a ** np.abs(np.asarray(k, dtype=np.float64))
        return chances

    def exact(self, stream: ByteStream, size: int) -> IntArray:
        """Draw exact values for publication from random bytes."""
        return exact.laplace(stream, Fraction(str(self.sensitivity)) / Fraction(str(self.epsilon)), size)


@dataclass(frozen=True)
class DiscreteGaussian(NoiseDistribution):
    """Gaussian noise on whole numbers: P(k) is proportional to exp(-k^2 / 2 sigma^2).

    Parameters
    ----------
    sigma : float
        The scale, nearly the standard deviation.
    sensitivity : float, default 1.0
        The L2 sensitivity: the square root of the number of tables in which a person is counted.

    Examples
    --------
    >>> DiscreteGaussian(sigma=2.0).rho
    0.125
    """

    sigma: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        if not self.sigma > 0 or not self.sensitivity > 0:
            raise InputError("sigma and sensitivity have to be above 0.")

    @property
    def scale(self) -> float:
        """Sigma."""
        return self.sigma

    @property
    def rho(self) -> float:
        """The privacy loss in the sense of zero-concentrated differential privacy."""
        return self.sensitivity**2 / (2 * self.sigma**2)

    def epsilon(self, delta: float) -> float:
        """Compute epsilon for a given delta.

        Parameters
        ----------
        delta : float
            The chance that epsilon does not hold.

        Returns
        -------
        float
            The sum of rho and 2 sqrt(rho ln(1/delta)).
        """
        return self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))

    def p(self, k: npt.ArrayLike) -> FloatArray:
        """Compute the chance of each whole number."""
        whole = np.exp(-(self._support.astype(np.float64) ** 2) / (2 * self.sigma**2)).sum()
        chances: FloatArray = np.exp(-(np.asarray(k, dtype=np.float64) ** 2) / (2 * self.sigma**2)) / whole
        return chances

    def exact(self, stream: ByteStream, size: int) -> IntArray:
        """Draw values for publication from random bytes. The variance is rounded up to six digits."""
        return exact.gaussian(stream, Fraction(math.ceil(self.sigma**2 * 10**6), 10**6), size)


def fit_to_parent(noisy: npt.ArrayLike, parent: float) -> tuple[FloatArray, IntArray]:
    """Fit noisy children to a fixed parent: the nearest point that is not negative and adds up, then whole numbers.

    As in TopDown, each level is fitted to the level above. For whole numbers, the largest fractions go up until the sum
    holds; among equal fractions the first child goes up.

    Parameters
    ----------
    noisy : array_like of float
        The noisy counts of the children.
    parent : float
        The required sum, at least 0.

    Returns
    -------
    tuple of two arrays
        The nearest point, and whole numbers near it.

    Raises
    ------
    InputError
        The parent is negative, or there is no child.

    Examples
    --------
    >>> fit_to_parent([12.0, -3.0, 5.0, 9.0], 25)[1]
    array([12,  0,  5,  8])
    """
    given = np.asarray(noisy, dtype=np.float64)
    if parent < 0 or not len(given):
        raise InputError("the parent must be at least 0, and there must be at least one child.")
    near, whole = fit_columns(given[:, None], np.array([parent], dtype=np.float64))
    return near[:, 0], whole[:, 0]


def fit_columns(noisy: FloatArray, parents: FloatArray) -> tuple[FloatArray, IntArray]:
    """`fit_to_parent` for many parents at once: a column for each, a row for each child."""
    rows = np.arange(len(noisy))[:, None]
    falling = -np.sort(-noisy, axis=0)
    over = (np.cumsum(falling, axis=0) - parents) / (rows + 1)
    kept = np.where(falling > over, rows, 0).max(axis=0)
    near: FloatArray = np.maximum(noisy - np.take_along_axis(over, kept[None, :], axis=0), 0)
    near[:, parents == 0] = 0
    low = np.floor(near + 1e-9).astype(np.int64)
    missing = np.rint(parents - low.sum(axis=0)).astype(np.int64)
    order = np.argsort(-np.round(near - low, 9), axis=0, kind="stable")
    np.put_along_axis(low, order, np.take_along_axis(low, order, axis=0) + (rows < missing), axis=0)
    return near, low


def fit_least_squares(root: float, children: npt.ArrayLike) -> tuple[float, FloatArray]:
    """Fit a noisy root and its noisy children to each other; all have the same variance, and signs are free.

    Parameters
    ----------
    root : float
        The noisy count of the whole.
    children : array_like of float
        The noisy counts of its parts.

    Returns
    -------
    tuple of float and array
        The fitted root and the fitted children, which add up to it.

    Examples
    --------
    >>> fit_least_squares(103.0, [30.0, 41.0, 20.0])[1]
    array([33., 44., 23.])
    """
    given = np.asarray(children, dtype=np.float64)
    fitted: FloatArray = given + (root - given.sum()) / (len(given) + 1)
    return float(fitted.sum()), fitted


@dataclass(frozen=True)
class CountedGrid:
    """The true counts of a whole grid: areas of the first hierarchy by all other variables (confidential)."""

    count: IntArray
    """a row for each finest area, a column for each combination of the other variables"""
    parents: Sequence[IntArray]
    """for each level from the top down, the area above each of its areas"""
    tables: Callable[[IntArray], list[Shown]]
    """computes the counts of each table from counts of the grid"""

    @property
    def levels(self) -> int:
        """The number of measured levels, including the whole."""
        return len(self.parents) + 1

    def fitted(self, noise: Callable[[int, int], IntArray]) -> IntArray:
        """Counts of the finest areas, measured with noise at each level and fitted from the top down.

        `noise` draws a number of values for a level. The total is kept, as the United States keeps that of each state.
        """
        sums = [self.count]
        for above in reversed(self.parents):
            up = np.zeros((int(above.max(initial=0)) + 1, self.count.shape[1]), dtype=np.int64)
            np.add.at(up, above, sums[0])
            sums.insert(0, up)
        noisy = [true + noise(level, true.size).reshape(true.shape) for level, true in enumerate(sums)]
        _, top = fit_columns(noisy[0].reshape(-1, 1).astype(np.float64), np.array([float(self.count.sum())]))
        fitted = top.reshape(1, -1)
        for level, above in enumerate(self.parents, 1):
            here = np.zeros_like(sums[level])
            for area in range(len(fitted)):
                inside = np.flatnonzero(above == area)
                _, here[inside] = fit_columns(noisy[level][inside].astype(np.float64), fitted[area].astype(np.float64))
            fitted = here
        return fitted
