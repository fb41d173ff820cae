"""What a client asks for: which variables, which of their values, as PxWebApi 2 spells it.

    valuecodes[age]=1,2          codes; one that holds a comma stands in [ ]
    valuecodes[LA3]=0104*        patterns: *, x*, *x, *x*, and ? for one letter
    valuecodes[age]=TOP(3)       TOP(n), BOTTOM(n), RANGE(a,b), FROM(a), TO(b)

The work is bounded: a pattern is read once per code, and there are at most `MOST_PATTERNS` of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ilba.errors import InputError, listing, nearest

MOST_PATTERNS = 200
MOST_TEXT = 1000
_JOINED = 8  # pieces between commas that may together be one code

_SPAN = re.compile(r"(TOP|BOTTOM|RANGE|FROM|TO)\((.*)\)", re.IGNORECASE | re.DOTALL)
_NUMBERS = re.compile(r"\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?")
_PARAMETER = re.compile(r"(valuecodes|codelist|outputvalues)\[(.*)\]", re.IGNORECASE | re.DOTALL)


@dataclass
class Wish:
    """What is asked of one variable; no values at all means that it was only named."""

    values: list[str] | str = field(default_factory=list)
    codelist: str | None = None
    single: bool = False


def from_query(pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, Wish], dict[str, str]]:
    """The wishes per variable in a query string, and its other parameters in lower case."""
    wishes: dict[str, Wish] = {}
    others: dict[str, str] = {}
    for name, value in pairs:
        found = _PARAMETER.fullmatch(name)
        if found is None:
            if name.lower() in others:
                raise InputError(f"the parameter {_short(name)} is given twice.")
            others[name.lower()] = value
            continue
        wish = wishes.setdefault(found[2], Wish())
        match found[1].lower():
            case "valuecodes":
                if wish.values:
                    raise InputError(f"valuecodes[{_short(found[2])}] is given twice. Separate the codes by commas.")
                wish.values = value
            case "codelist":
                wish.codelist = value or None
            case _:
                wish.single = _is_single(value)
    return wishes, others


def from_body(body: Any) -> dict[str, Wish]:
    """The wishes per variable in the body of a POST."""
    if not isinstance(body, Mapping) or not isinstance(selection := body.get("selection", []), list):
        raise InputError('the body is not of the form {"selection": [{"variableCode": "...", "valueCodes": ["..."]}]}.')
    unknown = [name for name in body if name not in ("selection", "placement")]
    if unknown:
        raise InputError(f"the body holds {_short(str(unknown[0]))!r}; it may hold 'selection' and 'placement'.")
    if not isinstance(body.get("placement"), Mapping | None):
        raise InputError("placement is not an object.")
    wishes: dict[str, Wish] = {}
    for entry in selection:
        if not isinstance(entry, Mapping) or not isinstance(variable := entry.get("variableCode"), str):
            raise InputError("an entry of the selection has no variableCode.")
        if variable in wishes:
            raise InputError(f"the selection names {_short(variable)!r} twice.")
        values = entry.get("valueCodes") or []
        codelist = entry.get("codelist") or entry.get("codeList") or None
        output = entry.get("outputValues") or "aggregated"
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise InputError(f"valueCodes of {_short(variable)!r} is not a list of texts.")
        if not (codelist is None or isinstance(codelist, str)) or not isinstance(output, str):
            raise InputError(f"codelist and outputValues of {_short(variable)!r} have to be texts.")
        wishes[variable] = Wish(list(values), codelist, _is_single(output))
    return wishes


def _is_single(value: str) -> bool:
    if value.lower() not in ("aggregated", "single"):
        raise InputError(f"outputValues is {_short(value)!r}. It is 'aggregated' or 'single'.")
    return value.lower() == "single"


def variable(name: str, known: Sequence[str]) -> str:
    """The variable that is meant; upper and lower case are not told apart unless they have to be."""
    if name in known:
        return name
    alike = [one for one in known if one.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    raise InputError(
        f"{_short(name)!r} is not a variable of this table.{nearest(name, known)} It has {listing(known)}."
    )


class Codes:
    """The codes of one variable, and which of them an expression means."""

    def __init__(self, variable: str, codes: Sequence[str]) -> None:
        self.variable = variable
        self.codes = codes
        self.place = {code: place for place, code in enumerate(codes)}

    def chosen(self, values: list[str] | str) -> list[int]:
        """The places of the codes that are asked for, in the order of the code list, each once."""
        texts = self._pieces(values) if isinstance(values, str) else values
        found: set[int] = set()
        patterns = 0
        for text in texts:
            exact = self._exact(text)
            if exact is not None:
                found.add(exact)
                continue
            patterns += 1
            if patterns > MOST_PATTERNS:
                raise InputError(f"more than {MOST_PATTERNS} patterns for {self.variable!r}. Name the codes instead.")
            found.update(self._span(text))
        if not found:
            raise InputError(f"the values asked for of {self.variable!r} match none of its {len(self.codes)} codes.")
        return sorted(found)

    def _exact(self, text: str) -> int | None:
        place = self.place.get(text)
        if place is None and text.startswith("[") and text.endswith("]"):
            place = self.place.get(text[1:-1])
        return place

    def _pieces(self, text: str) -> list[str]:
        """A list that is separated by commas, where codes and expressions may hold commas themselves."""
        parts = text.split(",")
        texts, start = [], 0
        while start < len(parts):
            for end in range(start + 1, min(len(parts), start + _JOINED) + 1):
                joined = ",".join(parts[start:end])
                if self._exact(joined) is not None or _SPAN.fullmatch(joined):
                    break
            else:
                joined, end = parts[start], start + 1
            texts.append(joined)
            start = end
        return texts

    def _span(self, text: str) -> Iterable[int]:
        if text == "*":
            return range(len(self.codes))
        if found := _SPAN.fullmatch(text):
            return self._between(found[1].upper(), found[2])
        if len(text) > MOST_TEXT or ("*" not in text and "?" not in text):
            raise self._unknown(text)
        inner = text[text.startswith("*") : len(text) - (text.endswith("*") and len(text) > 1)]
        if "*" in inner:
            raise InputError(f"{_short(text)!r}: a * stands at the beginning or the end of a pattern, not inside it.")
        letters = "".join("." if letter == "?" else re.escape(letter) for letter in inner)
        before = ".*" if text.startswith("*") else ""
        after = ".*" if text.endswith("*") else ""
        pattern = re.compile(f"{before}{letters}{after}", re.DOTALL)
        return [place for place, code in enumerate(self.codes) if pattern.fullmatch(code)]

    def _between(self, verb: str, inside: str) -> Iterable[int]:
        last = len(self.codes)
        if verb in ("TOP", "BOTTOM"):
            numbers = _NUMBERS.fullmatch(inside)
            if numbers is None:
                raise InputError(f"{verb}({_short(inside)}): give a whole number, such as {verb}(3).")
            many, skip = int(numbers[1]), int(numbers[2] or 0)
            if verb == "TOP":
                return range(min(skip, last), min(skip + many, last))
            return range(max(last - skip - many, 0), max(last - skip, 0))
        if verb == "FROM":
            return range(self._end(inside), last)
        if verb == "TO":
            return range(self._end(inside) + 1)
        for cut in (place for place, letter in enumerate(inside) if letter == ","):
            low, high = self._exact(inside[:cut].strip()), self._exact(inside[cut + 1 :].strip())
            if low is not None and high is not None:
                return range(low, high + 1)
        raise InputError(f"RANGE({_short(inside)}): give two codes of {self.variable!r}, such as RANGE(a,b).")

    def _end(self, text: str) -> int:
        place = self._exact(text.strip())
        if place is None:
            raise self._unknown(text.strip())
        return place

    def _unknown(self, text: str) -> InputError:
        return InputError(
            f"{_short(text)!r} is not a value of {self.variable!r}.{nearest(text[:50], self.codes[:2000])} "
            f"Its values are {listing(self.codes, 8)}."
        )


def _short(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:50]}..."
