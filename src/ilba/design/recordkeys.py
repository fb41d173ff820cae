"""Record keys: numbers that were drawn once for each person, the same in all tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ilba.errors import InputError, notice

RECORD_KEY = "record_key"
"""the column of a store with the sums of record keys"""
KEY_RANGE = 10**8
"""record keys are whole numbers modulo this, a multiple of 256, so their sums serve both layouts"""
KINDS = "whole numbers from 0 to 255 or from 0 to 99,999,999, or numbers from 0 to 1"
_ONS = 256
_CHANCE = 1e-9  # what random keys do less often than this is another range


@dataclass(frozen=True)
class RecordKeys:
    """Where the record keys of a store come from."""

    parts: int = KEY_RANGE
    """the number of different keys: 256 for the ONS, otherwise 10^8"""
    column: str = ""
    """their column in the data; empty if they were drawn"""

    def to_json(self) -> dict[str, Any]:
        """Plain values, for a file."""
        return {"parts": self.parts, "column": self.column}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> RecordKeys:
        """Read it from plain values."""
        return cls(int(plain["parts"]), str(plain["column"]))

    @classmethod
    def of_column(
        cls, name: str, number: int, least: float | None, most: float | None, missing: int, split: bool
    ) -> RecordKeys:
        """Recognise keys by their number, the smallest, the largest, those missing, and whether any has decimals."""
        if missing or least is None or most is None:
            raise InputError(
                f"the column {name!r} has missing keys, or keys that are not numbers. Every record needs one. Keys are "
                f"{KINDS}."
            )
        if least < 0 or (split and most > 1):
            raise InputError(
                f"the record keys in {name!r} have numbers below 0, or decimals and numbers above 1. Keys are {KINDS}."
            )
        if most >= KEY_RANGE:
            raise InputError(
                f"the record keys in {name!r} have numbers above {KEY_RANGE - 1:,}. Keys are {KINDS}. Correct them, or "
                f"if yours have another range, divide them by its size, such as 4,294,967,296 for 0 to 4,294,967,295."
            )
        parts = _ONS if most < _ONS and not split else KEY_RANGE
        low, high, size, largest = (*hundredths(least, most), 1) if split else (least, most, parts, parts - 1)
        if narrow(size, number, low, high) or (parts == KEY_RANGE and not fill(size, number, 0, high)):
            if most == _ONS:
                raise InputError(
                    f"the record keys in {name!r} go up to 256, but keys of the ONS are 0 to 255. Write 0 for 256, "
                    f"which is the same modulo 256."
                )
            raise InputError(
                f"the record keys in {name!r} are not spread over 0 to {largest:,}: small counts would all change in "
                f"one direction. Keys are {KINDS}. If yours have another range, divide them by its size, such as "
                f"16,777,216 for 0 to 16,777,215. If it has fewer than 100 numbers, draw new keys."
            )
        if not fill(size, number, low, high):
            notice(
                f"the record keys in {name!r} are not spread over 0 to {largest:,}, so small counts change in one "
                f"direction more often than the p-table says. If yours have another range, divide them by its size."
            )
        return cls(parts, name)


def hundredths(least: float, most: float) -> tuple[int, int, int]:
    """Keys from 0 to 1 as whole hundredths, with their number: keys may be rounded, and a rounded key may be 1."""
    return int(least * 100), min(int(most * 100), 99), 100


def fill(parts: int, number: int, least: float, most: float) -> bool:
    """Whether random whole keys below `parts` may have this smallest and this largest one.

    All of `number` keys are at most m with a chance of ((m + 1) / parts) ** number. Few keys may well be low.

    >>> fill(10**8, 1000, 20_000, 2**26 - 1), fill(10**8, 10, 20_000, 2**26 - 1), fill(10**8, 1000, 0, 2**32 - 1)
    (False, True, False)
    """
    share = min(most + 1, parts - least) / parts
    return most < parts and share**number >= _CHANCE


def narrow(parts: int, number: int, least: float, most: float) -> bool:
    """Whether whole keys are not random ones below `parts`, and lie within less than a quarter of them.

    The sums of two such keys lie within less than half of the range. P-tables have decreases in one half and increases
    in the other, so counts of 1 and of 2 hardly change in both directions. With a larger part they do.

    >>> narrow(256, 1000, 0, 62), narrow(256, 1000, 0, 63), narrow(256, 2, 0, 9)
    (True, False, False)
    """
    return not fill(parts, number, least, most) and 4 * (most - least + 1) < parts
