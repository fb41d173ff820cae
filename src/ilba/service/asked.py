"""What a client requests: variables and their values, in the form of PxWebApi 2.

    valuecodes[age]=1,2          codes; a code with a comma is in [ ]
    valuecodes[LA3]=0104*        patterns: *, x*, *x, *x*, and ? for one letter
    valuecodes[age]=TOP(3)       TOP(n), BOTTOM(n), RANGE(a,b), FROM(a), TO(b)

The work is bounded: lengths are checked before anything is searched, every text is read once from left to right, and
the patterns of a variable are compared with at most `MOST_COMPARED` codes. Long loops check whether the answer is still
wanted.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from ilba.errors import InputError, listing, nearest
from ilba.service.work import still_wanted

MOST_PATTERNS = 200
MOST_COMPARED = 5_000_000  # comparisons of codes with all patterns of one variable
MOST_TEXT = 1000  # letters of a pattern
MOST_VARIABLES = 200  # entries of a selection
_JOINED = 8  # pieces between commas that may form one code
_OFTEN = 4096  # pieces of work between two checks whether the answer is still wanted

_LETTERS = str.maketrans(
    {"ø": "o", "ł": "l", "đ": "d", "ð": "d", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
)  # letters that Unicode does not decompose

_VERB = re.compile(r"(TOP|BOTTOM|RANGE|FROM|TO)\(", re.IGNORECASE)
# Parameters that are lists: separated by commas, or given several times, as generated clients send them.
LISTS = ("outputformatparams", "stub", "heading")
_NUMBERS = re.compile(r"\s*(\d{1,9})\s*(?:,\s*(\d{1,9})\s*)?")
_PARAMETER = re.compile(r"(valuecodes|codelist|outputvalues)\[(.*)\]", re.IGNORECASE | re.DOTALL)


class TooManyError(InputError):
    """A request for more cells than one answer may hold."""


class UnknownError(InputError):
    """A request for something that does not exist here."""


@dataclass
class ValueFilter:
    """The request for one variable; no values means that it was only named."""

    values: list[str] | str = field(default_factory=list)
    codelist: str | None = None
    single: bool = False


class _Entry(msgspec.Struct, rename="camel"):
    """One variable of a selection."""

    variable_code: str
    value_codes: list[str] | None = None
    codelist: str | None = None
    code_list: str | None = None
    output_values: str | None = None


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a POST."""

    selection: list[_Entry] = []
    placement: msgspec.Raw = msgspec.Raw(b"null")  # read by `placed`


def folded(text: str) -> str:
    """Text for searching: without case and accents, in any script. `search.js` does the same on the page."""
    plain = "".join(one for one in unicodedata.normalize("NFKD", text) if not unicodedata.combining(one))
    return unicodedata.normalize("NFKC", plain.casefold().translate(_LETTERS))


def spaced(text: str) -> str:
    """A name as it is searched for: folded, with one space for hyphens and other signs. `search.js` does the same."""
    return " ".join("".join(" " if unicodedata.category(one)[0] in "PSZ" else one for one in folded(text)).split())


def split(text: str) -> list[str]:
    """A list separated by commas; a value with a comma is in quotes, or in [ ]."""
    if not text:
        return []
    found: list[str] = []
    start, closes = 0, True
    while start <= len(text):
        if len(found) % _OFTEN == 0:
            still_wanted()
        end = -1
        if text.startswith('"', start):
            end = _end_of_quotes(text, start)
            value = text[start + 1 : end - 1].replace('""', '"')
        elif closes and text.startswith("[", start):
            end = text.find("],", start) + 1 or (len(text) if text.endswith("]") and len(text) > start + 1 else -1)
            closes = end > 0  # if no bracket closes here, none closes further on
            value = text[start + 1 : end - 1]
        if end < 0:
            comma = text.find(",", start)
            end = len(text) if comma < 0 else comma
            value = text[start:end]
        found.append(value)
        start = end + 1
    return found


def _end_of_quotes(text: str, start: int) -> int:
    """Where a value in quotes ends (quotes inside are doubled); -1 if it is not one."""
    place = start + 1
    while (quote := text.find('"', place)) >= 0:
        if not text.startswith('"', quote + 1):
            return quote + 1 if quote + 1 == len(text) or text[quote + 1] == "," else -1
        place = quote + 2
    return -1


def from_query(pairs: Iterable[tuple[str, str]]) -> tuple[dict[str, ValueFilter], dict[str, str]]:
    """The filters by variable in a query string, and its other parameters in lower case."""
    filters: dict[str, ValueFilter] = {}
    others: dict[str, str] = {}
    for name, value in pairs:
        found = _PARAMETER.fullmatch(name)
        if found is None:
            put(others, name, value)
            continue
        filter_ = filters.setdefault(found[2], ValueFilter())
        match found[1].lower():
            case "valuecodes":
                filter_.values = ",".join(filter(None, (str(filter_.values or ""), value)))
            case "codelist":
                filter_.codelist = value or None
            case _:
                filter_.single = _is_single(value)
    return filters, others


def put(others: dict[str, str], name: str, value: str) -> None:
    """Keep a parameter; only lists may be given several times."""
    known = name.lower()
    if known not in others:
        others[known] = value
    elif known in LISTS:
        others[known] += f",{value}"
    else:
        raise InputError(f"the parameter {_short(name)} is given twice.")


def from_body(content: bytes) -> dict[str, ValueFilter]:
    """The filters by variable in the body of a POST."""
    if not content.strip():
        return {}
    try:
        body = msgspec.json.decode(content, type=_Body)
    except (msgspec.ValidationError, RecursionError) as problem:
        unknown, where = (re.search(words, str(problem)) for words in (r"unknown field `(.*)`", r"at `\$\.?(.*?)`$"))
        told = f" Look at {_short(where[1])}." if where and where[1] else ""
        if unknown:
            told = f" It holds {_short(unknown[1])!r}, and may hold 'selection' and 'placement'."
        raise InputError(
            'the body is not of the form {"selection": [{"variableCode": "...", "valueCodes": ["..."]}]}.' + told
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError("the body is not JSON.") from None
    if len(body.selection) > MOST_VARIABLES:
        raise InputError(f"the selection has {len(body.selection):,} entries; it may have {MOST_VARIABLES}.")
    filters: dict[str, ValueFilter] = {}
    for entry in body.selection:
        if entry.variable_code in filters:
            raise InputError(f"the selection names {_short(entry.variable_code)!r} twice.")
        single = _is_single(entry.output_values or "aggregated")
        filters[entry.variable_code] = ValueFilter(
            entry.value_codes or [], entry.codelist or entry.code_list or None, single
        )
    return filters


@dataclass(frozen=True)
class Placement:
    """The variables in the stub (beside the numbers), and in the heading (above them)."""

    stub: list[str] = field(default_factory=list)
    heading: list[str] = field(default_factory=list)

    def of(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """Stub and heading of a table with these variables; by default, the last one is in the heading."""
        heading = [name for name in dict.fromkeys(self.heading) if name in names]
        stub = [name for name in dict.fromkeys(self.stub) if name in names and name not in heading]
        rest = [name for name in names if name not in stub and name not in heading]
        if not heading and len(rest) + len(stub) > 1 and rest:
            heading = [rest.pop()]
        return [*stub, *rest], heading


class _Placed(msgspec.Struct):
    """The placement in the body of a POST."""

    stub: list[str] | None = None
    heading: list[str] | None = None


class _PlacedBody(msgspec.Struct):
    """The part of a body that holds the placement."""

    placement: _Placed | None = None


def placed(content: bytes, others: Mapping[str, str]) -> Placement:
    """The placement of variables, from the body or the address."""
    try:
        told = msgspec.json.decode(content, type=_PlacedBody).placement if content.strip() else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError("placement is not an object with lists of variables: stub and heading.") from None
    told = told or _Placed(split(others.get("stub", "")), split(others.get("heading", "")))
    return Placement(told.stub or [], told.heading or [])


def _is_single(value: str) -> bool:
    if value.lower() not in ("aggregated", "single"):
        raise InputError(f"outputValues is {_short(value)!r}. It is 'aggregated' or 'single'.")
    return value.lower() == "single"


def variable(name: str, known: Sequence[str]) -> str:
    """The variable with this name; case matters only if it has to."""
    if name in known:
        return name
    alike = [one for one in known if one.lower() == name.lower()]
    if len(alike) == 1:
        return alike[0]
    has = listing(known) or "none"
    raise InputError(f"{_short(name)!r} is not a variable of this table.{nearest(name[:50], known)} It has {has}.")


class Codes:
    """The codes of one variable, and the codes that an expression selects."""

    def __init__(self, variable: str, codes: Sequence[str]) -> None:
        self.variable = variable
        self.codes = codes
        self.place = {code: place for place, code in enumerate(codes)}
        self._longest = max(map(len, codes), default=0)
        self._commas = max((code.count(",") for code in codes), default=0)

    def chosen(self, values: list[str] | str) -> list[int]:
        """The places of the requested codes, in the order of the code list, each once."""
        texts = dict.fromkeys(self._pieces(values) if isinstance(values, str) else values)
        found: set[int] = set()
        others: list[str] = []
        most = min(MOST_PATTERNS, max(1, MOST_COMPARED // max(1, len(self.codes))))
        for number, text in enumerate(texts):
            if number % _OFTEN == 0:
                still_wanted()
            exact = self._exact(text)
            if exact is not None:
                found.add(exact)
            elif len(others) < most:
                others.append(text)
            else:
                raise InputError(
                    f"more than {most} patterns for the {len(self.codes):,} codes of {self.variable!r}. "
                    f"Name the codes instead."
                )
        for text in others:
            still_wanted()
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
        """A list separated by commas; codes and expressions may hold commas themselves."""
        parts = text.split(",")
        texts: list[str] = []
        start = 0
        while start < len(parts):
            if len(texts) % _OFTEN == 0:
                still_wanted()
            verb = _VERB.match(parts[start])
            most = min(_JOINED, 2 * self._commas + 2 if verb else self._commas + 1, len(parts) - start)
            for end in range(start + 1, start + most + 1):
                joined = ",".join(parts[start:end])
                if self._exact(joined) is not None or (verb and joined.endswith(")")):
                    break
            else:
                joined, end = parts[start], start + 1
            texts.append(joined)
            start = end
        return texts

    def _span(self, text: str) -> Iterable[int]:
        if text == "*":
            return range(len(self.codes))
        verb = _VERB.match(text)
        if verb and text.endswith(")"):
            return self._between(verb[1].upper(), text[verb.end() : -1])
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
        if len(inside) > 2 * self._longest + MOST_TEXT:  # longer than any two codes
            raise InputError(f"{verb}({_short(inside)}): this is longer than any two codes of {self.variable!r}.")
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
        for cut in [place for place, letter in enumerate(inside) if letter == ","][: 2 * self._commas + 1]:
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
            f"Its values are {listing(self.codes, 8)}. The metadata of the table have their labels."
        )


def _short(text: str) -> str:
    return text if len(text) <= 50 else f"{text[:50]}..."
