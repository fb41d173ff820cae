"""Find the part of a table that a request means: the table with the named variables, and the places of their values.

If a variable is left out, the answer comes from the table that was published without it, never from a sum of masked
counts. If tables add up, the service can sum them in advance, and then offers that table like any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ilba.errors import InputError, listing, nearest
from ilba.output.wording import COUNT, Measure
from ilba.service.asked import TooManyError, ValueFilter, variable
from ilba.service.catalog import Catalog
from ilba.service.codelists import inside, level_of, owner_of
from ilba.service.folder import TableEntry
from ilba.service.measures import bound_of, measure_asked


@dataclass(frozen=True)
class Part:
    """The requested part of a table, found but not yet answered."""

    entry: TableEntry
    places: list[list[int]]
    called: list[str]
    measure: Measure = COUNT
    has_range: bool = False

    @property
    def cells(self) -> int:
        """The number of its cells."""
        return math.prod(len(places) for places in self.places)


def part(
    catalog: Catalog,
    entry: TableEntry,
    filters: Mapping[str, ValueFilter],
    most: int,
    asked: Mapping[str, str] | None = None,
) -> Part:
    """Find what is requested: the table with the named variables, and the places of their values."""
    axes = entry.served.axes(entry.table)
    named = {variable(name, axes): filter_ for name, filter_ in filters.items()}
    if len(named) < len(filters):
        raise InputError("a variable is named twice.")
    if not any(filter_.values for filter_ in named.values()):
        if any(filter_.codelist for filter_ in named.values()):
            raise InputError("a code list was named without values. Add valuecodes, such as *.")
        found = Part(entry, _default(catalog, entry, most), axes)
    else:
        found = chosen(catalog, entry, {name: filter_ for name, filter_ in named.items() if filter_.values})
    if found.cells > most:
        raise TooManyError(
            f"{found.cells:,} cells are asked for; one answer holds at most {most:,}. "
            f"Ask for fewer values, or in several parts."
        )
    given = asked or {}
    if given.get("range", "false").lower() not in ("true", "false"):
        raise InputError("range is 'true' or 'false'.")
    if has_range := given.get("range", "").lower() == "true":
        if given.get("outputformat", "json-stat2").lower() not in ("json-stat2", "csv"):
            raise InputError("ranges are written as json-stat2 and csv. Ask for one of them.")
        if bound_of(found.entry) is None:
            raise InputError("no bound is stated for this table, so its numbers have no range. Leave range out.")
    return replace(found, measure=measure_asked(found.entry, given), has_range=has_range)


def _default(catalog: Catalog, entry: TableEntry, most: int) -> list[list[int]]:
    """Everything; if that is too much, the first codes of the longest variables."""
    sizes = [len(dimension) for dimension in catalog.load(entry).dimensions]
    while math.prod(sizes) > most:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        others = math.prod(size for place, size in enumerate(sizes) if place != longest)
        sizes[longest] = max(1, min(sizes[longest] - 1, most // max(1, others)))
    return [list(range(size)) for size in sizes]


def chosen(catalog: Catalog, entry: TableEntry, named: Mapping[str, ValueFilter]) -> Part:
    """The named values, in the table with exactly these variables."""
    levels = dict.fromkeys(entry.table.levels, 0)
    keys, called, coarse = [], [], {}
    for name in entry.served.axes(entry.table):
        if name not in named:
            continue
        owner = owner_of(entry, name)
        filter_ = named[name]
        if owner is None:
            keys.append(name)
            if filter_.codelist:
                raise InputError(f"{name!r} has no code list {filter_.codelist[:60]!r}.")
        else:
            levels[owner.name] = entry.table.levels[owner.name]
            if filter_.codelist:
                coarse[name] = level_of(entry, owner, name, filter_.codelist)
                if not filter_.single:
                    levels[owner.name] = coarse[name]
        called.append(name)
    target = entry.served.entry(levels, keys)
    if target is None:
        time = entry.served.time
        if time is not None and time not in called and entry.served.entry(levels, [*keys, time]) is not None:
            raise InputError(f"waves are not added up. Name values for {time} too: valuecodes[{time}]=* takes all.")
        raise InputError(
            f"a table by {listing(called)} alone was not published, and masked counts are not summed here. "
            f"Name values for {listing(name for name in entry.served.axes(entry.table) if name not in named)} too."
        )
    places = []
    loaded = catalog.load(target)
    for name, dimension, codes in zip(called, loaded.dimensions, loaded.codes, strict=True):
        filter_ = named[name]
        if name in coarse and filter_.single:
            places.append(inside(catalog, entry, name, coarse[name], filter_.values, dimension))
        else:
            places.append(codes.chosen(filter_.values))
    return Part(target, places, called)


def csv_asked(parameters: str) -> dict[str, Any]:
    """The csv options of PxWebApi 2; by default, texts and commas."""
    known: dict[str, dict[str, Any]] = {
        "usecodes": {"codes": True, "texts": False},
        "usetexts": {"codes": False, "texts": True},
        "usecodesandtexts": {"codes": True, "texts": True},
        "includetitle": {"title": True},
        "separatortab": {"separator": "\t"},
        "separatorspace": {"separator": " "},
        "separatorsemicolon": {"separator": ";"},
    }
    found: dict[str, Any] = {"codes": False, "texts": True}
    for name in parameters.split(",") if parameters else ():
        if name.strip().lower() not in known:
            spelled = ("UseCodes", "UseTexts", "UseCodesAndTexts", "IncludeTitle", "SeparatorTab", "SeparatorSpace")
            said = f"It is {listing([*spelled, 'SeparatorSemicolon'], 7)}."
            raise InputError(f"outputFormatParams holds {name[:50]!r}.{nearest(name[:50], spelled)} {said}")
        found |= known[name.strip().lower()]
    return found
