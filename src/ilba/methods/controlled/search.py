"""Controlled SCA: masks are chosen jointly, so that plain sums of the masked finest table stay near the truth.

SCA draws each mask by itself, so the errors of a large sum add up. Here the masks of the counts 1..K-1 are chosen with
all tables of the release in view. Each is still 0 or K and right on average for each count, but the error of every
aggregate stays within a bound. The publication is a function of the masked finest table alone, which makes it safe;
`docs/understand/controlled.md` has the proof.
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
"""The version of the search. Version 1 searched all cells at once; 2 goes block by block; 3 looks for second flips
among cells that share many sets, with lower caps for parallel blocks."""
FREE_WAY = 8
"""The version of the longer search, which weighs errors and may move large counts; version 4 mended less, 5 neither
polished nor looked for second cells that share many sums, 6 mended for a bound that was out of reach, and 7 left some
mean errors of small counts."""
SWEEPS = 10
"""The number of sweeps over the cells of a block, unless more are requested."""
FREE_SWEEPS = 200
"""The same if large counts may move."""
_LARGE = 50_000_000  # small cells times tables: above this, only 2K-1 can be held
_FEW = 20  # one in this many secrets has a larger bound
_LARGEST = 1_000  # a larger K would overflow the fixed-point numbers


@dataclass(frozen=True)
class Chosen:
    """The record of a joint choice of masks that a store keeps: the tables and the requested bound."""

    tables: tuple[str, ...]
    """the names of the tables"""
    bound: int | None
    """as requested; None if no bound was requested"""
    held: bool
    """whether the requested bound (otherwise the usual one) holds for every count of these tables"""
    way: int = WAY
    """the version of the search: the same version, counts and secret give the same masks"""
    sweeps: int = SWEEPS
    """the requested number of sweeps"""
    move: int = 0
    """how far a large count may have moved; with 0, small counts are masked to 0 or K and all others stay"""
    noise: float = 0.0
    """the share of small cells whose target was shifted by one"""

    def to_json(self) -> dict[str, Any]:
        """Convert the record to plain values, for a file.

        Returns
        -------
        dict
            The bound, whether it is held, the names of the tables, the version of the search, and the requested number
            of sweeps.
        """
        plain: dict[str, Any] = {"bound": self.bound, "held": self.held, "tables": list(self.tables)}
        if self.way > 1:  # a store of version 1 does not name its version
            plain |= {"way": self.way, "sweeps": self.sweeps}
        if self.move:
            plain["move"] = self.move
        if self.noise:
            plain["noise"] = self.noise
        return plain

    @classmethod
    def from_json(cls, plain: dict[str, Any]) -> Chosen:
        """Read the record from plain values.

        Parameters
        ----------
        plain : dict
            The result of `to_json`.

        Returns
        -------
        Chosen
            The record.
        """
        bound = None if plain["bound"] is None else int(plain["bound"])
        more = int(plain.get("way", 1)), int(plain.get("sweeps", SWEEPS)), int(plain.get("move", 0))
        noise = float(plain.get("noise", 0))
        return cls(tuple(str(name) for name in plain["tables"]), bound, bool(plain["held"]), *more, noise)


@dataclass(frozen=True)
class Control:
    """The quality of a choice of masks, for the methodologist. Confidential: no part of it may be published.

    If the masked table were the truth, all errors would be 0. So a reached bound, a loss or a number of moved cells
    would tell that world from the real one. The proof of safety needs both to look the same.
    """

    tables: int
    """the number of tables for which masks were chosen"""
    cells: int
    """the number of cells with a count of 1..K-1, whose masks could be chosen"""
    bound: int
    """the bound that the search aimed at"""
    reached: int
    """the largest error of a count in the tables"""
    over: int
    """the number of counts in the tables that are over the bound"""
    kept: int = 0
    """the number of cells with the same count in the previous wave"""
    moved: int = 0
    """how many of these had to change their mask"""
    interrupted: bool = False
    """whether the search was interrupted; the same call would then give other masks"""

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
    """The user's bound, checked: a whole number that can be held."""
    if isinstance(bound, bool) or not isinstance(bound, int | np.integer) or not K - 1 <= bound < 2**15:
        raise InputError(
            f"bound={bound!r} is not a whole number from {K - 1} to 32,767. With K={K} a single small cell may "
            f"be off by K-1; the usual bound is {usual_bound(K)}."
        )
    return int(bound)


class How(NamedTuple):
    """The user's options for the choice of masks, apart from the bound."""

    sweeps: int = SWEEPS
    """the number of sweeps over the cells of a block"""
    move: int = 0
    """how far a large count may move"""
    noise: float = 0.0
    """the share of small cells whose target is shifted by one"""

    @property
    def free(self) -> bool:
        """Whether the longer search of `free` is used."""
        return self.move > 0 or self.sweeps > SWEEPS

    def chosen(self, tables: tuple[str, ...], bound: int | None, held: bool) -> Chosen:
        """The record of such a choice that a store keeps."""
        return Chosen(tables, bound, held, FREE_WAY if self.free else WAY, *self)


@dataclass(frozen=True)
class Rules:
    """The rules of a choice."""

    K: int
    bound: int
    """how far a count may lie from the truth"""
    sweeps: int = SWEEPS
    move: int = 0
    noise: float = 0.0

    @property
    def free(self) -> bool:
        """Whether the longer search of `free` is used."""
        return How(self.sweeps, self.move).free


def move_of(move: object, K: int) -> int:
    """The user's limit for moves of large counts, checked."""
    if isinstance(move, bool) or not isinstance(move, int | np.integer) or not 0 <= move <= K:
        raise InputError(f"move={move!r} is not a whole number from 0 to K={K}. 0 leaves large counts as they are.")
    return int(move)


def noise_of(noise: object) -> float:
    """The user's share of small cells whose target is shifted by one, checked."""
    if isinstance(noise, bool) or not isinstance(noise, int | float | np.number) or not 0 <= noise <= 1:
        raise InputError(f"noise={noise!r} is not a share from 0 to 1, such as 0.4. 0 adds no noise.")
    return float(noise)


def sweeps_of(sweeps: int | None, move: int) -> int:
    """The number of sweeps: as requested, or the default of the search."""
    if sweeps is None:
        return SWEEPS if not move else FREE_SWEEPS
    if isinstance(sweeps, bool) or not isinstance(sweeps, int | np.integer) or not SWEEPS <= sweeps <= 100_000:
        raise InputError(f"sweeps={sweeps!r} is not a whole number from {SWEEPS} to 100,000.")
    return int(sweeps)


def rules_of(K: int, bound: int | None, work: int, extra: int = 0, how: How = How()) -> Rules:  # noqa: B008
    """The rules of a choice: the requested bound, otherwise the usual bound of the design and the secret.

    `work` is the number of small cells times the number of tables, and `extra` is what the secret adds.
    """
    if K > _LARGEST:
        raise InputError(f"masks are chosen jointly for a threshold of up to {_LARGEST:,}; this one is {K:,}.")
    working = working_bound(K, work) + extra
    return Rules(K, working if bound is None else bound_of(bound, K), *how)


def working_bound(K: int, work: int) -> int:
    """The bound for which masks are chosen with 19 of 20 secrets: the usual bound, for large designs 2K-1.

    >>> working_bound(5, 1000), working_bound(5, 10**8)
    (7, 9)
    """
    return usual_bound(K) if work <= _LARGE else 2 * K - 1


def declared_bound(K: int) -> int:
    """The bound B that everybody may know: the search never aims at a larger one, unless a user requests it.

    With most secrets masks are chosen for at most B-K+1, with a few for up to B. An attacker who knows every count
    except one cannot tell which. Another value of that count changes no error by more than K-1.

    >>> declared_bound(5)
    13
    """
    return 3 * K - 2


def extra_bound(number: int, K: int) -> int:
    """What a secret adds to the usual bound, by a keyed number: nothing for 19 of 20 secrets, otherwise 1 to K-1.

    >>> [extra_bound(number, 5) for number in (1, 19, 20, 40, 80)]
    [0, 0, 2, 3, 1]
    """
    return 1 + number // _FEW % (K - 1) if number % _FEW == 0 else 0


def behind(masked: IntArray, K: int, move: int = 0) -> tuple[IntArray, IntArray]:
    """The smallest and the largest true count behind a masked count of a finest cell.

    >>> [end.tolist() for end in behind(np.array([0, 5, 6, 9]), K=5)]
    [[0, 1, 6, 9], [4, 5, 6, 9]]
    >>> [end.tolist() for end in behind(np.array([0, 5, 6, 9]), K=5, move=1)]
    [[0, 1, 1, 8], [4, 6, 7, 10]]
    """
    low = np.where(masked == 0, 0, np.where(masked <= K + move, 1, masked - move))
    return low, np.where(masked == 0, max(K - 1, move), masked + move)


def mean_masks(count: IntArray, masked: IntArray, K: int) -> dict[int, float]:
    """The mean masked count of the cells with each true count in 1..K-1 (confidential); x for x if unbiased.

    >>> mean_masks(np.array([1, 1, 2, 9]), np.array([0, 5, 0, 9]), K=5)
    {1: 2.5, 2: 0.0}
    """
    small = (count > 0) & (count < K)
    sizes = np.bincount(count[small])
    sums = np.bincount(count[small], weights=masked[small])
    return {int(x): float(sums[x] / sizes[x]) for x in np.flatnonzero(sizes)}
