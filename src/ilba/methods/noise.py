"""Noise of differential privacy on counts: discrete Laplace and Gaussian, and fits that make noisy counts consistent.

The noise is a whole number, of either sign and without a limit. So a noisy count proves nothing. What one person's
record adds to what anybody learns is bounded by epsilon, and epsilons add up over everything that is published.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
_REACH = 40  # standard deviations that are summed or drawn: what lies beyond is less than any float


class Noise(ABC):
    """A distribution of whole numbers around 0."""

    @abstractmethod
    def p(self, k: npt.ArrayLike) -> FloatArray:
        """The chance of each whole number."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """The variance."""

    @property
    @abstractmethod
    def mean_abs(self) -> float:
        """The mean absolute value: the mean loss of a count."""

    @abstractmethod
    def tail(self, m: int) -> float:
        """The chance of a value of at least m on either side, m at least 1."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw values, to compare methods with. Publishing needs a sampler that is exact to the last bit."""


@dataclass(frozen=True)
class DiscreteLaplace(Noise):
    """Two-sided geometric noise: P(k) = (1-a)/(1+a) a^abs(k) with a = exp(-epsilon / sensitivity).

    Parameters
    ----------
    epsilon : float
        The privacy loss of one count.
    sensitivity : float, default 1.0
        How much one person changes the counts in all: the number of tables that a person is counted in.

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
        a = self.alpha
        chances: FloatArray = (1 - a) / (1 + a) * a ** np.abs(np.asarray(k, dtype=np.float64))
        return chances

    @property
    def variance(self) -> float:
        """The variance, 2a/(1-a)^2."""
        return 2 * self.alpha / (1 - self.alpha) ** 2

    @property
    def mean_abs(self) -> float:
        """The mean absolute value, 2a/(1-a^2)."""
        return 2 * self.alpha / (1 - self.alpha**2)

    def tail(self, m: int) -> float:
        """Compute the chance of a value of at least m on either side.

        Parameters
        ----------
        m : int
            At least 1.

        Returns
        -------
        float
            2a^m/(1+a).
        """
        return 2 * self.alpha**m / (1 + self.alpha)

    def draw(self, rng: np.random.Generator, size: int) -> IntArray:
        """Draw values, to compare methods with.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where randomness comes from.
        size : int
            How many.

        Returns
        -------
        array of int
            The values.
        """
        chance = 1 - self.alpha
        drawn: IntArray = rng.geometric(chance, size) - rng.geometric(chance, size)
        return drawn


@dataclass(frozen=True)
class DiscreteGaussian(Noise):
    """Gaussian noise on whole numbers: P(k) is proportional to exp(-k^2 / 2 sigma^2).

    Parameters
    ----------
    sigma : float
        The scale, nearly the standard deviation.
    sensitivity : float, default 1.0
        The L2 sensitivity: the square root of the number of tables that a person is counted in.

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
    def rho(self) -> float:
        """The privacy loss in the sense of zero-concentrated differential privacy."""
        return self.sensitivity**2 / (2 * self.sigma**2)

    def epsilon(self, delta: float) -> float:
        """Compute epsilon for a given delta.

        Parameters
        ----------
        delta : float
            The chance with which epsilon need not hold.

        Returns
        -------
        float
            The sum of rho and 2 sqrt(rho ln(1/delta)).
        """
        return self.rho + 2 * math.sqrt(self.rho * math.log(1 / delta))

    @property
    def _support(self) -> IntArray:
        far = math.ceil(_REACH * self.sigma) + 1
        return np.arange(-far, far + 1)

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
        whole = np.exp(-(self._support.astype(np.float64) ** 2) / (2 * self.sigma**2)).sum()
        chances: FloatArray = np.exp(-(np.asarray(k, dtype=np.float64) ** 2) / (2 * self.sigma**2)) / whole
        return chances

    @property
    def variance(self) -> float:
        """The variance."""
        return float((self._support.astype(np.float64) ** 2 * self.p(self._support)).sum())

    @property
    def mean_abs(self) -> float:
        """The mean absolute value."""
        return float((np.abs(self._support) * self.p(self._support)).sum())

    def tail(self, m: int) -> float:
        """Compute the chance of a value of at least m on either side.

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
        """Draw values, to compare methods with.

        Parameters
        ----------
        rng : numpy.random.Generator
            Where randomness comes from.
        size : int
            How many.

        Returns
        -------
        array of int
            The values.
        """
        ends = np.cumsum(self.p(self._support))
        drawn: IntArray = self._support[np.minimum(np.searchsorted(ends, rng.random(size)), len(ends) - 1)]
        return drawn


def fit_to_parent(noisy: npt.ArrayLike, parent: float) -> tuple[FloatArray, IntArray]:
    """Fit noisy children to a fixed parent: the nearest point that is not negative and adds up, then whole numbers.

    As in TopDown, where each level is fitted to the level above. For whole numbers the largest fractions go up until
    the sum holds; of equal ones the first child.

    Parameters
    ----------
    noisy : array_like of float
        The noisy counts of the children.
    parent : float
        What they have to add up to, at least 0.

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
        raise InputError("children are fitted to a parent of at least 0, and there has to be one child.")
    falling = np.sort(given)[::-1]
    over = (np.cumsum(falling) - parent) / np.arange(1, len(given) + 1)
    kept = int(np.flatnonzero(falling - over > 0)[-1]) if parent > 0 else 0
    near: FloatArray = np.maximum(given - over[kept], 0) if parent > 0 else np.zeros(len(given))
    low = np.floor(near + 1e-9).astype(np.int64)
    missing = round(parent - int(low.sum()))
    fraction = np.round(near - low, 9)
    low[np.argsort(-fraction, kind="stable")[:missing]] += 1
    return near, low


def fit_least_squares(root: float, children: npt.ArrayLike) -> tuple[float, FloatArray]:
    """Fit a noisy root and its noisy children to each other where all have the same variance; signs are free.

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
