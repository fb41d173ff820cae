"""Record keys: numbers that were drawn once for each person, the same in all tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ilba.errors import InputError

RECORD_KEY = "record_key"
"""the column of a store with the sums of record keys"""
KEY_RANGE = 10**8
"""record keys are whole numbers modulo this, a multiple of 256, so their sums serve both layouts"""
_ONS = 256


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
    def of_column(cls, name: str, least: float | None, most: float | None, missing: int, split: bool) -> RecordKeys:
        """Recognise the keys by the smallest, the largest, the number missing, and whether any has decimals."""
        if missing or least is None or most is None:
            raise InputError(
                f"the column {name!r} has missing keys, or keys that are not numbers. Every record "
                f"needs a key: a whole number from 0 to 255, or a number from 0 to 1."
            )
        if split and least >= 0 and most <= 1:  # rounded keys may be 1, which counts as 0
            return cls(KEY_RANGE, name)
        if split or least < 0:
            raise InputError(
                f"the record keys in {name!r} are neither whole numbers from 0 to 255 nor numbers from 0 to 1."
            )
        # Read as shares of 10^8, smaller keys would all be near 0 and move counts one way.
        if most >= _ONS and not KEY_RANGE // 10 <= most < KEY_RANGE:
            raise InputError(
                f"the record keys in {name!r} are whole numbers above 255. They have to be from 0 to 255, or "
                f"numbers from 0 to 1: divide them by the number of different keys."
            )
        return cls(_ONS if most < _ONS else KEY_RANGE, name)
