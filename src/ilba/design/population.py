"""The population of the data, and one of its waves. Declared by a person, and public."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ilba.errors import InputError

_LONGEST = 200


@dataclass(frozen=True)
class Population:
    """The people, dwellings or firms in the records, at one time.

    Parameters
    ----------
    name : str, default ""
        The same for all data about the same people: "census-2026". Empty if not declared.
    wave : str, default ""
        The name of this count of them, such as "2026" or "2026-W14".
    period : str, default ""
        The reference time, such as "2026-07-01" or "2026-Q3".
    unit : str, default ""
        The unit of a record, such as "persons".

    Examples
    --------
    >>> Population("census-2026", wave="2026", unit="persons").to_json()
    {'name': 'census-2026', 'wave': '2026', 'unit': 'persons'}
    """

    name: str = ""
    wave: str = ""
    period: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        for field, given in asdict(self).items():
            text = "" if given is None else given
            if isinstance(text, int) and not isinstance(text, bool):
                text = str(text)  # wave=2026
            if not isinstance(text, str) or len(text) > _LONGEST or re.search(r"[\x00-\x1f\x7f]", text):
                raise InputError(f"{field}={given!r} is not a short text without line breaks.")
            object.__setattr__(self, field, unicodedata.normalize("NFC", text.strip()))
        if (self.wave or self.period) and not self.name:
            raise InputError("a wave or period belongs to a population: give population= (--population) too.")

    @property
    def declared(self) -> bool:
        """Whether a person gave the population a name."""
        return bool(self.name)

    def to_json(self) -> dict[str, str]:
        """The given values, for a file."""
        return {field: text for field, text in asdict(self).items() if text}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Population:
        """Read it from plain values."""
        return cls(**{field: str(plain.get(field, "")) for field in ("name", "wave", "period", "unit")})

    def __str__(self) -> str:
        return f"{self.name!r}" + (f", wave {self.wave!r}" if self.wave else "")
