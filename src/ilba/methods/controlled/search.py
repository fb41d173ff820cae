"""Controlled SCA: masks chosen jointly, so that plain sums of the masked finest table stay near the truth.

SCA draws each mask by itself; the errors of a large sum add up. Here the masks of the counts 1..K-1 are chosen with
all tables in view that are to be released: still 0 or K each, still right on average for each count, but such that
the error of every aggregate stays within a bound. What is published is a function of the masked finest table alone,
and that is what makes it safe; `docs/understand/controlled.md` has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError, some
from ilba.methods.loss import usual_bound

IntArray: TypeAlias = npt.NDArray[np.int64]

WAY = 3
"""The version of the way of choosing. 1 was one search over all cells; 2 goes block by block, and 3 looks for second
flips among cells that have much in common, with nearer caps for blocks side by side."""
FREE_WAY = 5
"""The same of the longer search, which weighs errors and may move large counts; 4 mended less over the bound."""
SWEEPS = 10
"""How many sweeps are made over the cells of a block, unless more are asked for."""
FREE_SWEEPS = 200
"""The same where large counts may move."""
_LARGE = 50_000_000  # small cells times tables: from here on 2K-1 is what can be held
_FEW = 20  # one secret of so many works with a larger bound
_LARGEST = 1_000  # a larger K would leave the range of the fixed-point numbers


@dataclass(frozen=True)
class Chosen:
    """For which tables masks were chosen jointly, and the bound that was asked for: what a store keeps of it."""

    tables: tuple[str, ...]
    """the names of the tables"""
    bound: int | None
    """as asked for; None when nobody asked"""
    held: bool
    """whether the bound asked for (or else the usual one) holds for every count of these tables"""
    way: int = WAY
    """the version of the way of choosing: the same counts and secret give the same masks in the same way"""
    sweeps: int = SWEEPS
    """how many sweeps were asked for"""
    move: int = 0
    """how far a large count may have moved; with 0 small counts are masked to 0 or K and all others stay"""
    noise: float = 0.0
    """for what share of the small cells the target was one off"""

    def to_json(self) -> dict[str, Any]:
        """Give it as plain values, for a file.

        Returns
        -------
        dict
            The bound, whether it is held, the names of the tables, the version of the way of choosing, and
            how many sweeps were asked for.
        """
        plain: dict[str, Any] = {"bound": self.bound, "held": self.held, "tables": list(self.tables)}
        if self.way > 1:  # a store of the first way does not say so
            plain |= {"way": self.way, "sweeps": self.sweeps}
        if self.move:
            plain["move"] = self.move
        if self.noise:
            plain["noise"] = self.noise
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Chosen:
        """Take it back from plain values.

        Parameters
        ----------
        plain : dict
            What `to_json` gave.

        Returns
        -------
        Chosen
            The same as before.
        """
        bound = None if plain["bound"] is None else int(plain["bound"])
        more = int(plain.get("way", 1)), int(plain.get("sweeps", SWEEPS)), int(plain.get("move", 0))
        noise = float(plain.get("noise", 0))
        return cls(tuple(str(name) for name in plain["tables"]), bound, bool(plain["held"]), *more, noise)


@dataclass(frozen=True)
class Control:
    """What the methodologist should know of a choice of masks. Confidential: no part of it may be published.

    If the masked table were the truth, all errors were 0. A reached bound, a loss or a number of moved cells would
    tell that world from the real one, and the proof of safety needs the two to look the same.
    """

    tables: int
    """for how many tables masks were chosen"""
    cells: int
    """cells with a count of 1..K-1, whose masks could be chosen"""
    bound: int
    """the bound that was worked for"""
    reached: int
    """the largest error of a count in the tables"""
    over: int
    """how many counts in the tables are over the bound"""
    kept: int = 0
    """cells that had the same count in the previous wave"""
    moved: int = 0
    """those of them whose mask had to change all the same"""
    interrupted: bool = False
    """whether the work was broken off; the same call would then give other masks"""

    @property
    def held(self) -> bool:
        """Whether every count is within the bound."""
        return self.over == 0

    def __str__(self) -> str:
        text = f"{some(self.tables, 'table')}, {some(self.cells, 'small cell')}: bound {self.bound} "
        text += "held" if self.held else f"not held by {some(self.over, 'count')}; {self.reached} reached"
        if self.kept:
            text += f"; {self.moved:,} of {some(self.kept, 'unchanged cell')} moved"
        return text + ("; interrupted" if self.interrupted else "") + " (confidential)"


def bound_of(bound: object, K: int) -> int:
    """A bound given by the user as a whole number that can be held at all."""
    if isinstance(bound, bool) or not isinstance(bound, int | np.integer) or not K - 1 <= bound < 2**15:
        raise InputError(
            f"bound={bound!r} is not a whole number from {K - 1} to 32,767. A small cell alone is up to K-1 off; "
            f"the usual bound is {usual_bound(K)}."
        )
    return int(bound)


class How(NamedTuple):
    """How masks are chosen, besides the bound: what a user may decide."""

    sweeps: int = SWEEPS
    """how many sweeps are made over the cells of a block"""
    move: int = 0
    """how far a large count may move"""
    noise: float = 0.0
    """for what share of the small cells the target is one off"""

    @property
    def free(self) -> bool:
        """Whether errors are weighed in a longer search: see `free`."""
        return self.move > 0 or self.sweeps > SWEEPS

    def chosen(self, tables: tuple[str, ...], bound: int | None, held: bool) -> Chosen:
        """What a store keeps of a choice that was made so."""
        return Chosen(tables, bound, held, FREE_WAY if self.free else WAY, *self)


@dataclass(frozen=True)
class Rules:
    """What is asked for."""

    K: int
    bound: int
    """how far a count may lie from the truth"""
    sweeps: int = SWEEPS
    move: int = 0
    noise: float = 0.0

    @property
    def free(self) -> bool:
        """Whether errors are weighed in a longer search: see `free`."""
        return How(self.sweeps, self.move).free


def move_of(move: object, K: int) -> int:
    """How far a large count may move, given by the user."""
    if isinstance(move, bool) or not isinstance(move, int | np.integer) or not 0 <= move <= K:
        raise InputError(f"move={move!r} is not a whole number from 0 to K={K}. 0 leaves large counts as they are.")
    return int(move)


def noise_of(noise: object) -> float:
    """For what share of the small cells the target is one off, given by the user."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 <= noise <= 1:
        raise InputError(f"noise={noise!r} is not a share from 0 to 1, such as 0.4. 0 draws sums to the true counts.")
    return float(noise)


def sweeps_of(sweeps: int | None, move: int) -> int:
    """How many sweeps are made: as asked for, or as many as the way of choosing needs."""
    if sweeps is None:
        return SWEEPS if not move else FREE_SWEEPS
    if isinstance(sweeps, bool) or not isinstance(sweeps, int | np.integer) or not SWEEPS <= sweeps <= 100_000:
        raise InputError(f"sweeps={sweeps!r} is not a whole number from {SWEEPS} to 100,000.")
    return int(sweeps)


def rules_of(K: int, bound: int | None, work: int, extra: int = 0, how: How = How()) -> Rules:  # noqa: B008
    """What masks are chosen for: the bound asked for, or else the usual one of the design and the secret.

    `work` is the number of small cells times that of tables, and `extra` what the secret adds.
    """
    if K > _LARGEST:
        raise InputError(f"masks are chosen jointly for a threshold of up to {_LARGEST:,}; this one is {K:,}.")
    usual = (usual_bound(K) if work <= _LARGE else 2 * K - 1) + extra
    return Rules(K, usual if bound is None else bound_of(bound, K), *how)


def declared_bound(K: int) -> int:
    """The bound B that everybody may know: no worked bound is larger, unless a larger one is asked for.

    Masks are chosen for at most B-K+1 with most secrets, and for up to B with a few. Somebody who knows every count
    but one cannot tell which, and another value of that count moves no error by more than K-1.

    >>> declared_bound(5)
    13
    """
    return 3 * K - 2


def extra_bound(number: int, K: int) -> int:
    """What a secret adds to the usual bound, by a keyed number: nothing with 19 secrets of 20, else 1 to K-1.

    >>> [extra_bound(number, 5) for number in (1, 19, 20, 40, 80)]
    [0, 0, 2, 3, 1]
    """
    return 1 + number // _FEW % (K - 1) if number % _FEW == 0 else 0


def behind(masked: IntArray, K: int, move: int = 0) -> tuple[IntArray, IntArray]:
    """The smallest and the largest count that can stand behind a masked count of a finest cell.

    >>> [end.tolist() for end in behind(np.array([0, 5, 6, 9]), K=5)]
    [[0, 1, 6, 9], [4, 5, 6, 9]]
    >>> [end.tolist() for end in behind(np.array([0, 5, 6, 9]), K=5, move=1)]
    [[0, 1, 1, 8], [4, 6, 7, 10]]
    """
    low = np.where(masked == 0, 0, np.where(masked <= K + move, 1, masked - move))
    return low, np.where(masked == 0, max(K - 1, move), masked + move)


def mean_masks(count: IntArray, masked: IntArray, K: int) -> dict[int, float]:
    """The mean masked count of the cells with each true count of 1..K-1 (confidential); unbiased masks give x for x.

    >>> mean_masks(np.array([1, 1, 2, 9]), np.array([0, 5, 0, 9]), K=5)
    {1: 2.5, 2: 0.0}
    """
    small = (count > 0) & (count < K)
    sizes = np.bincount(count[small])
    sums = np.bincount(count[small], weights=masked[small])
    return {int(x): float(sums[x] / sizes[x]) for x in np.flatnonzero(sizes)}
