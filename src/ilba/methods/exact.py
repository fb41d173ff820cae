"""Exact noise from a stream of random bytes: published noise must not depend on rounding.

Noise made in floating point has gaps that tell the true count (Mironov 2012). Here every chance is a fraction of whole
numbers, and every decision compares whole numbers, after Canonne, Kamath and Steinke (2020). One chance of the Gaussian
noise is a fraction of 2^40 parts, rounded; this adds less than 10^-12 to its delta.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
_BLOCK = 2**20  # bytes made at a time
_FINE = 2**20
"""the resolution of a scale; scales are rounded up, so that there is more noise, not less"""


class ByteStream:
    """Random whole numbers from a key: SHAKE-256 of the key and a counter."""

    def __init__(self, key: bytes) -> None:
        self._key, self._number, self._left = key, 0, np.zeros(0, dtype=np.uint64)

    def words(self, size: int) -> npt.NDArray[np.uint64]:
        """The next 64-bit numbers."""
        found = [self._left]
        have = len(self._left)
        while have < size:
            block = hashlib.shake_256(self._key + self._number.to_bytes(8, "big")).digest(_BLOCK)
            self._number += 1
            found.append(np.frombuffer(block, dtype="<u8"))
            have += len(found[-1])
        every = np.concatenate(found)
        self._left = every[size:]
        return every[:size]

    def below(self, limit: IntArray) -> IntArray:
        """A uniform whole number from 0 to limit - 1, for each limit."""
        top = limit.astype(np.uint64)
        found = np.zeros(len(top), dtype=np.uint64)
        left = np.arange(len(top))
        while len(left):
            word, most = self.words(len(left)) >> np.uint64(1), top[left]
            usable = np.uint64(2**63) // most * most
            good = word < usable
            found[left[good]] = word[good] % most[good]
            left = left[~good]
        return found.astype(np.int64)

    def happens(self, part: IntArray, whole: IntArray) -> BoolArray:
        """Whether an event with the chance part / whole happens."""
        return self.below(whole) < part

    def halves(self, part: IntArray, whole: IntArray) -> BoolArray:
        """Whether an event with the chance exp(-part / whole) happens, for part <= whole."""
        times = np.ones(len(part), dtype=np.int64)
        left = np.arange(len(part))
        while len(left):
            goes_on = self.happens(part[left], whole[left] * times[left])
            left = left[goes_on]
            times[left] += 1
        is_odd: BoolArray = times % 2 == 1
        return is_odd

    def fades(self, part: IntArray, whole: IntArray) -> BoolArray:
        """Whether an event with the chance exp(-part / whole) happens, for any part >= 0."""
        one = np.ones(1, dtype=np.int64)
        is_alive = np.ones(len(part), dtype=bool)
        turns = part // whole
        while (left := np.flatnonzero(is_alive & (turns > 0))).size:
            is_alive[left] = self.halves(np.broadcast_to(one, left.shape), np.broadcast_to(one, left.shape))
            turns[left] -= 1
        left = np.flatnonzero(is_alive)
        is_alive[left] = self.halves((part % whole)[left], whole[left])
        return is_alive


def laplace(stream: ByteStream, scale: Fraction, size: int) -> IntArray:
    """Discrete Laplace noise: P(k) is proportional to exp(-abs(k) / scale)."""
    wide, fine = _rational(scale)
    found = np.zeros(size, dtype=np.int64)
    left = np.arange(size)
    while len(left):
        top = np.full(len(left), wide, dtype=np.int64)
        start = stream.below(top)
        kept = stream.halves(start, top)
        left_here, start = left[kept], start[kept]
        runs = _runs(stream, len(start))
        value = (start + wide * runs) // fine
        negative = stream.below(np.full(len(start), 2)) == 1
        good = ~(negative & (value == 0))
        found[left_here[good]] = np.where(negative, -value, value)[good]
        done = np.zeros(size, dtype=bool)
        done[left_here[good]] = True
        left = left[~done[left]]
    return found


def gaussian(stream: ByteStream, variance: Fraction, size: int) -> IntArray:
    """Discrete Gaussian noise: P(k) is proportional to exp(-k^2 / (2 variance)), by rejection from Laplace noise."""
    up, down = _rational(variance)
    wide = int((up / down) ** 0.5) + 1
    found = np.zeros(size, dtype=np.int64)
    left = np.arange(size)
    # exp(-(abs(y) - variance / wide)^2 / (2 variance)), with variance = up / down
    whole = 2 * up * down * wide * wide
    while len(left):
        value = laplace(stream, Fraction(wide), len(left))
        off = np.abs(value) * (wide * down) - up
        good = _fades_large(stream, off, whole)
        found[left[good]] = value[good]
        left = left[~good]
    return found


def _fades_large(stream: ByteStream, off: IntArray, whole: int) -> BoolArray:
    """Whether an event with the chance exp(-off^2 / whole) happens; the squares may exceed 64 bits."""
    squares = [int(one) ** 2 for one in off.tolist()]
    most = 2**40
    part = np.array([min(-(-square * most // whole), 2**62) for square in squares], dtype=np.int64)
    return stream.fades(part, np.full(len(part), most, dtype=np.int64))


def _runs(stream: ByteStream, size: int) -> IntArray:
    """How often in a row an event with the chance 1/e happens."""
    found = np.zeros(size, dtype=np.int64)
    left = np.arange(size)
    while len(left):
        one = np.ones(len(left), dtype=np.int64)
        left = left[stream.halves(one, one)]
        found[left] += 1
    return found


def _rational(scale: Fraction) -> tuple[int, int]:
    """A fraction of small numbers that is not smaller."""
    if scale.numerator < 2**31 and scale.denominator < 2**31:
        return scale.numerator, scale.denominator
    return -(-scale.numerator * _FINE // scale.denominator), _FINE
