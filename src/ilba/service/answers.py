"""The answers of the API: from requests to plain values. This module does not know HTTP."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any
from urllib.parse import quote

import numpy as np
import polars as pl

from ilba import __version__
from ilba.design.design import MASKED, Selection
from ilba.errors import InputError, listing, nearest, some
from ilba.output.formats.jsonstat import json_stat
from ilba.output.series import frequency
from ilba.output.wording import COUNT, LANGUAGES, Dimension, WordedTable, told, words
from ilba.service.asked import MOST_TEXT, Placement, UnknownError, ValueFilter, folded, variable
from ilba.service.catalog import Catalog
from ilba.service.choosing import Part, chosen, part
from ilba.service.codelists import coarser_columns, code_list_entry, link, owner_of
from ilba.service.folder import ServedRelease, TableEntry
from ilba.service.measures import bound_of, spans, timed
from ilba.service.measures import values as measured
from ilba.service.on_demand import DemandRules, of_all
from ilba.service.work import still_wanted

MISSING = "(missing)"  # how a missing label is written
FORMATS = {
    "json-stat2": ("json-stat", "application/json", "json"),
    "csv": ("csv", "text/csv; charset=utf-8", "csv"),
    "xlsx": ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    "parquet": ("parquet", "application/vnd.apache.parquet", "parquet"),
    "px": ("px", "application/octet-stream", "px"),
}
_NO_ROWS = pl.DataFrame()
NO_FILTERS: Mapping[str, ValueFilter] = MappingProxyType({})


@dataclass(frozen=True)
class Settings:
    """The operator's settings for answers."""

    max_cells: int = 100_000
    license: str = ""
    languages: tuple[str, ...] = ()
    """the offered languages, the default first; all available ones if none is named"""
    address: str = ""
    """the public address of the service, such as https://stats.example.org; by default, as clients call it"""
    rules: DemandRules = field(default_factory=DemandRules)
    """what was declared about tables on demand"""


def offered_languages(catalog: Catalog, settings: Settings) -> list[str]:
    """The languages that clients can request, the default first."""
    return list(settings.languages) or catalog.languages


def rehearse(served: ServedRelease) -> None:
    """Describe a release completely once, so that a broken manifest is noticed at once."""
    about, design = served.release.manifest, served.release.design
    names = ("title", "description", "source", "method", "cells", "rows", "software", "created")
    texts = [*(about[name] for name in names), *design.columns]
    numbers = [about["threshold"], about["absent"] or 0, about["additive"]]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError("a field of the manifest is not of its type")
    for lang in served.languages:
        _release(served, lang, DemandRules())
        for entry in served.entries.values():
            _entry(entry, lang, served.languages)


def config(catalog: Catalog, settings: Settings) -> dict[str, Any]:
    """What a client has to know in advance."""
    known = offered_languages(catalog, settings)
    return {
        "apiVersion": "2.0.0",
        "appVersion": __version__,
        "languages": [{"id": lang, "label": language_name(lang)} for lang in known],
        "defaultLanguage": known[0],
        "maxDataCells": settings.max_cells,
        "maxCallsPerTimeWindow": 0,
        "timeWindow": 1,
        "license": settings.license,
        "sourceReferences": [],
        "defaultMetadataFormat": "json-stat2",
        "defaultDataFormat": "json-stat2",
        "dataFormats": list(FORMATS),
        "features": [],
    }


def rules(settings: Settings, lang: str) -> dict[str, Any]:
    """The rules for tables on demand, as values and in words."""
    return {
        "maxDataCells": settings.max_cells,
        **of_all(settings.rules),
        "rules": settings.rules.told(lang, settings.max_cells),
    }


@cache
def _names() -> dict[str, str]:
    """The own names of languages in which we have no words, as CLDR has them."""
    found: dict[str, str] = json.loads((resources.files("ilba.service") / "languages.json").read_text("utf-8"))
    return found


def language_name(lang: str) -> str:
    """A language's own name, if it is known; otherwise its tag."""
    return words(lang)["name"] if lang in LANGUAGES else _names().get(lang, lang)


def releases(catalog: Catalog, lang: str, rules: DemandRules) -> dict[str, Any]:
    """What is published: the design of each release in words, and its tables."""
    return {"language": lang, "releases": [_release(served, lang, rules) for served in catalog.releases]}


def _release(served: ServedRelease, lang: str, rules: DemandRules) -> dict[str, Any]:
    about, labels = served.release.manifest, served.labels[lang]
    maps = {entry["column"] for entry in about["geometry"]}
    first = next(iter(served.entries.values()))
    return {
        "id": served.id,
        **{name: told(served.release, name, lang) for name in ("title", "description", "source", "unit")},
        **{name: about[name] for name in ("method", "threshold", "cells", "additive")},
        "licence": about.get("licence", ""),
        "population": about.get("population", {}).get("name", ""),
        "wave": "" if served.members else next(iter(served.times), ""),
        "time": served.time,
        "series": served.series,
        "bound": about.get("bound"),
        "parameters": about.get("parameters", {}),
        "created": utc(about["created"]),
        "notes": worded(first, lang).notes(dense=True),
        "hierarchies": [
            {
                "name": hierarchy.name,
                "label": labels.variable(hierarchy.name),
                "levels": [
                    {
                        "code": column,
                        "label": labels.variable(column),
                        "size": served.size(column),
                        "geometry": column in maps,
                    }
                    for column in hierarchy.columns
                ],
            }
            for hierarchy in served.release.design.hierarchies
        ],
        "keys": [
            {"code": key, "label": labels.variable(key), "size": served.size(key)} for key in served.release.design.keys
        ],
        "tables": [
            {
                "id": entry.id,
                "levels": dict(entry.table.levels),
                "keys": list(entry.table.keys),
                "cells": served.cells(entry.table),
                "bound": bound_of(entry),
                "excluded": list(rules.excludes(entry)),
            }
            for entry in served.entries.values()
        ],
    }


def tables(
    catalog: Catalog,
    lang: str,
    spoken: Sequence[str],
    query: str = "",
    page_number: int = 1,
    page_size: int = 20,
    past_days: int | None = None,
) -> dict[str, Any]:
    """A page of the list of tables."""
    words = folded(query).split()
    since = datetime.now(UTC) - timedelta(days=past_days) if past_days is not None else None
    found = []
    for served in catalog.releases:
        if since and datetime.fromisoformat(served.release.manifest["created"]).astimezone(UTC) < since:
            continue
        for entry in served.entries.values():
            if words:
                still_wanted()
                text = folded(" ".join([entry.id, worded(entry, lang).title, *variable_names(entry, lang)]))
            if all(word in text for word in words):
                found.append(entry)
    pages = max(1, math.ceil(len(found) / page_size))
    if page_number > pages:
        raise UnknownError(f"there is no page {page_number}; the last one is {pages}.")
    shown = found[(page_number - 1) * page_size : page_number * page_size]
    return {
        "language": lang,
        "tables": [_entry(entry, lang, spoken) for entry in shown],
        "page": {
            "pageNumber": page_number,
            "pageSize": page_size,
            "totalElements": len(found),
            "totalPages": pages,
            "links": [link("self", lang, "/tables")],
        },
        "links": [link("self", lang, "/tables")],
    }


def navigation(catalog: Catalog, lang: str, spoken: Sequence[str], folder: str | None) -> dict[str, Any]:
    """The content of a folder: each release is a folder, and the waves of a series are inside it."""
    if folder is None:
        inside = [_shelf(served, lang) for served in catalog.releases if served.series is None]
        return _folder(lang, dict.fromkeys(("id", "label", "description")), inside, "/navigation")
    found = catalog.named(folder)
    if found is None:
        names = [served.id for served in catalog.releases]
        raise UnknownError(f"there is no folder {folder[:60]!r}.{nearest(folder[:60], names)}")
    waves = [_shelf(served, lang) for served in found.members.values()]
    held = [_entry(entry, lang, spoken) for entry in found.entries.values()]
    about = {name: text for name, text in _shelf(found, lang).items() if name not in ("type", "links")}
    return _folder(lang, about, [*waves, *held], f"/navigation/{quote(found.id, safe='')}")


def _folder(lang: str, about: Mapping[str, Any], inside: list[dict[str, Any]], path: str) -> dict[str, Any]:
    return {"language": lang, **about, "folderContents": inside, "links": [link("self", lang, path)]}


def _shelf(served: ServedRelease, lang: str) -> dict[str, Any]:
    """A release as an item of a folder."""
    return {
        "type": "FolderInformation",
        "id": served.id,
        "label": told(served.release, "title", lang),
        "description": told(served.release, "description", lang),
        "links": [link("self", lang, f"/navigation/{quote(served.id, safe='')}")],
    }


def table(entry: TableEntry, lang: str, spoken: Sequence[str]) -> dict[str, Any]:
    """One table of the list."""
    return {"language": lang, **_entry(entry, lang, spoken)}


def _entry(entry: TableEntry, lang: str, spoken: Sequence[str]) -> dict[str, Any]:
    about, release = entry.release.manifest, entry.release
    name = quote(entry.id, safe="")
    return {
        "type": "Table",
        "id": entry.id,
        "label": worded(entry, lang).title,
        "description": told(release, "description", lang),
        "updated": utc(about["created"]),
        "firstPeriod": next(iter(entry.served.times), None),
        "lastPeriod": next(reversed(entry.served.times), None),
        "category": "public",
        "discontinued": False,
        "source": told(release, "source", lang),
        **({"timeUnit": _time_unit(entry.served.times)} if entry.served.times else {}),
        "subjectCode": entry.served.id,
        "variableNames": variable_names(entry, lang),
        "paths": [[{"id": entry.served.id, "label": told(release, "title", lang)}]],
        "links": [
            link("self", lang, f"/tables/{name}"),
            link("metadata", lang, f"/tables/{name}/metadata"),
            link("data", lang, f"/tables/{name}/data"),
            *(link("alternate", other, f"/tables/{name}") for other in spoken if other != lang),
        ],
    }


def _time_unit(times: Sequence[str]) -> str:
    known = {"A1": "Annual", "Q1": "Quarterly", "M1": "Monthly", "W1": "Weekly"}
    found = frequency(times)
    return known.get(found[0], "Other") if found else "Other"


def variable_names(entry: TableEntry, lang: str) -> list[str]:
    """The names of the variables of a table."""
    labels = entry.served.labels[lang]
    return [labels.variable(column) for column in entry.served.axes(entry.table)]


def utc(written: str) -> str:
    """A time, written in UTC."""
    return datetime.fromisoformat(written).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def worded(entry: TableEntry, lang: str) -> WordedTable:
    """The words about a table, without its rows."""
    return WordedTable(entry.release, entry.table, _NO_ROWS, lang, entry.served.labels[lang])


def metadata(
    catalog: Catalog, entry: TableEntry, lang: str, filters: Mapping[str, ValueFilter] = NO_FILTERS
) -> dict[str, Any]:
    """A table without its numbers, as JSON-stat; a variable may have all its values, some, or those of a code list."""
    whole = catalog.load(entry).worded[lang]
    axes = entry.served.axes(entry.table)
    named = {variable(name, axes): one for name, one in filters.items()}
    shown = _part_of(catalog, entry, lang, named) if named else whole
    found = json_stat(shown, whole=False, data=False)
    for dimension, own in zip(shown.dimensions, whole.dimensions, strict=True):
        described = found["dimension"][dimension.name]
        known = [code_list_entry(entry, coarser, lang) for coarser in coarser_columns(entry, own)]
        has_level = bool(owner_of(entry, dimension.name)) and len(dimension.columns) == len(own.columns)
        described["extension"] = {
            "elimination": _without(entry, dimension.name) is not None,
            "show": "value",
            "codelists": known,
            "codeLists": known,
            **({"ilba": facts} if (facts := _facts(entry, dimension, has_level)) else {}),
        }
    return _described(found, entry, lang, Placement())


def _part_of(catalog: Catalog, entry: TableEntry, lang: str, named: Mapping[str, ValueFilter]) -> WordedTable:
    """The words about a part of a table; a variable that is not named has all of its values."""
    every = {axis: ValueFilter("*") for axis in entry.served.axes(entry.table)}
    filters = {name: replace(one, values=one.values or "*") for name, one in named.items()}
    found = chosen(catalog, entry, {**every, **filters})
    cut = catalog.load(found.entry).worded[lang].cut(found.places, np.zeros(0, dtype=np.int64))
    cut.dimensions = [replace(one, name=name) for one, name in zip(cut.dimensions, found.called, strict=True)]
    return cut


def _described(found: dict[str, Any], entry: TableEntry, lang: str, placement: Placement) -> dict[str, Any]:
    """What PxWebApi adds to JSON-stat."""
    stub, heading = placement.of(found["id"])
    found["updated"] = utc(found["updated"])
    found["extension"]["px"] = {
        "tableid": entry.id,
        "language": lang,
        "decimals": found["extension"]["ilba"].get("decimals", 0),
        "aggregallowed": entry.release.additive and "of" not in found["extension"]["ilba"],
        "contents": told(entry.release, "title", lang),
        "stub": stub,
        "heading": heading,
    }
    return found


def _facts(entry: TableEntry, dimension: Dimension, has_level: bool) -> dict[str, Any]:
    """The hierarchy of a variable, and which of its codes did not exist at a time."""
    found = _hierarchy(entry, dimension) if has_level else {}
    gone = {
        time: [dimension.codes[at] for at in np.flatnonzero(flags).tolist()]
        for time, flags in dimension.nonexistent.items()
    }
    return {**found, **({"nonexistent": gone} if gone else {})}


def _hierarchy(entry: TableEntry, dimension: Dimension) -> dict[str, Any]:
    """The level of a variable, and the parent of each code, as the table one level coarser spells it."""
    owner = owner_of(entry, dimension.name)
    above: dict[str, str] = {}
    if len(dimension.columns) > 1:
        paths = [path[:-1] for path in dimension.paths.fill_null("NA").iter_rows()]
        last = [path[-1] for path in dict.fromkeys(paths)]
        plain = len(set(last)) == len(last)
        spelled = [path[-1] if plain else "/".join(path) for path in paths]
        above = dict(zip(dimension.codes, spelled, strict=True))
    missing = sorted(set(range(len(dimension))) - set(dimension.stated))
    return {
        "hierarchy": owner.name if owner else "",
        "level": len(dimension.columns),
        "levels": list(dimension.columns),
        "parents": above,
        **({"missing": [dimension.codes[at] for at in missing]} if missing else {}),
    }


def _without(entry: TableEntry, column: str) -> TableEntry | None:
    """The table that was published without a variable."""
    owner = owner_of(entry, column)
    levels = {**entry.table.levels, **({owner.name: 0} if owner else {})}
    return entry.served.entry(levels, [key for key in entry.table.keys if key != column])


def default_selection(catalog: Catalog, entry: TableEntry, lang: str, settings: Settings) -> dict[str, Any]:
    """The selection that is answered by default."""
    return selection(catalog, entry, {}, lang, settings)


def selection(
    catalog: Catalog, entry: TableEntry, filters: Mapping[str, ValueFilter], lang: str, settings: Settings
) -> dict[str, Any]:
    """The codes of each variable that a request names; without filters, the default selection."""
    found = part(catalog, entry, filters, settings.max_cells)
    dimensions = catalog.load(found.entry).dimensions
    axes = entry.served.axes(entry.table)
    lists = {variable(name, axes): one.codelist for name, one in filters.items() if one.codelist and not one.single}
    return {
        "language": lang,
        "selection": [
            {
                "variableCode": name,
                "valueCodes": [one.codes[place] for place in some],
                **({"codeList": lists[name], "codelist": lists[name]} if name in lists else {}),
            }
            for name, one, some in zip(found.called, dimensions, found.places, strict=True)
        ],
        "links": [link("self", lang, f"/tables/{quote(entry.id, safe='')}/defaultselection")],
    }


def answered(catalog: Catalog, found: Part, lang: str) -> WordedTable:
    """The part with its numbers and words."""
    loaded = catalog.load(found.entry)
    still_wanted()
    if found.measure == COUNT:
        cut = loaded.worded[lang].cut(found.places, loaded.values(found.places))
    else:
        numbers = measured(catalog, found.entry, found.places, found.measure)
        cut = loaded.worded[lang].cut(found.places, numbers, timed(catalog, found.entry, found.places, found.measure))
    if found.has_range:
        cut.spans = spans(catalog, found.entry, found.places, found.measure)
    cut.pulse = still_wanted
    cut.dimensions = [replace(one, name=name) for one, name in zip(cut.dimensions, found.called, strict=True)]
    return cut


def data(table: WordedTable, entry: TableEntry, placement: Placement) -> dict[str, Any]:
    """A part of a table as JSON-stat."""
    found = json_stat(table, whole=False)
    for dimension in found["dimension"].values():
        dimension["extension"] = {"show": "value"}
    if table.spans:
        low, high = ([one if one == one else None for one in end.tolist()] for end in table.spans)
        found["extension"]["ilba"]["range"] = {"low": low, "high": high}
    return _described(found, entry, table.lang, placement)


@dataclass(frozen=True)
class Question:
    """A request for one cell: its table is found, but nothing is read yet."""

    entry: TableEntry
    selection: Selection
    hkey_value: list[str]
    key_value: list[str]


def question(
    catalog: Catalog,
    release: str | None,
    level: Sequence[str],
    key: Sequence[str],
    hkey_value: Sequence[str],
    key_value: Sequence[str],
) -> Question:
    """Read a request for one cell, with the argument names of get_agg_freq in R."""
    served = _served(catalog, release)
    design = served.release.design
    for name, given in {"level": level, "key": key, "hkey_value": hkey_value, "key_value": key_value}.items():
        if len(given) > len(design.columns):
            raise InputError(
                f"{name} has {len(given):,} values; this release has {some(len(design.columns), 'column')}."
            )
    level, key = [text[:MOST_TEXT] for text in level], [text[:MOST_TEXT] for text in key]
    try:
        selection = design.select(_levels(served, level), list(key))
    except InputError as problem:  # the error names the store, so it is reworded for a release
        said = str(problem).replace("this store", "this release").replace("This store", "This release")
        raise InputError(said) from None
    areas = selection.columns[: sum(selection.levels)]
    hkey_value, key_value = _blank(hkey_value, areas), _blank(key_value, selection.keys)
    _fits("hkey_value", hkey_value, areas, "level")
    _fits("key_value", key_value, selection.keys, "key")
    entry = served.entries.get(selection.name)
    if entry is None:
        raise InputError(f"the table {selection.name!r} was not published.")
    return Question(entry, selection, list(hkey_value), list(key_value))


def cell(catalog: Catalog, asked: Question) -> dict[str, Any]:
    """One masked count; 0 if the cell does not occur, null if it is left blank or did not exist at its time."""
    selection = asked.selection
    given = dict(zip(selection.columns, [*asked.hkey_value, *asked.key_value], strict=True))
    loaded = catalog.load(asked.entry)
    places: list[list[int]] = []
    for dimension, index in zip(loaded.dimensions, loaded.index, strict=True):
        path = tuple(given[column] for column in dimension.columns)
        place = index.get(path)
        if place is None and MISSING in path:  # as on the command line, unless it is a label
            place = index.get(tuple(None if text == MISSING else text for text in path))
        for column, text in zip(dimension.columns, path, strict=True) if place is None else ():
            listed = dimension.paths[column].unique(maintain_order=True).to_list()
            if text not in listed and not (text == MISSING and None in listed):
                aside = f" A missing value is written {MISSING}." if None in listed else ""
                said = text[:50]
                raise InputError(f"{said!r} is not a value of {column!r}.{nearest(said, listed[:2000])}{aside}")
        places.append([] if place is None else [place])
    values = loaded.values(places).tolist()
    number = values[0] if values else 0
    return {
        "release": asked.entry.served.id,
        "table": asked.entry.id,
        "level": list(selection.finest),
        "key": list(selection.keys),
        "hkey_value": asked.hkey_value,
        "key_value": asked.key_value,
        MASKED: int(number) if number == number else None,
    }


def _blank(given: Sequence[str], columns: Sequence[str]) -> Sequence[str]:
    """Empty text is the empty label if one value is expected, and no value if none is."""
    return [] if not columns and list(given) == [""] else given


def _fits(name: str, given: Sequence[str], columns: Sequence[str], chosen_by: str) -> None:
    if len(given) == len(columns):
        return
    if not columns:
        raise InputError(f"{name} is given, and no {chosen_by} is. Say what it is a value of: {chosen_by}=...")
    held = "is missing" if not given else f"has {some(len(given), 'value')}"
    raise InputError(
        f"{name} {held}. Give {some(len(columns), 'value')} with commas between: {listing(columns)}. "
        'Put a value with a comma in quotes: "a,b".'
    )


def _served(catalog: Catalog, name: str | None) -> ServedRelease:
    opened = catalog.releases
    if name is None and catalog.alone:
        return opened[0]
    served = catalog.named(name or "")
    if served is None:
        raise InputError(f"say which release: it is one of {listing(served.id for served in opened)}.")
    return served


def _levels(served: ServedRelease, level: Sequence[str]) -> Any:
    """The levels in the form of a design: one, or a column of each hierarchy."""
    hierarchies = served.release.design.hierarchies
    if not level or level == ["0"]:
        return 0
    if len(hierarchies) == 1 and len(level) == 1:
        return level[0]
    found: dict[str, str] = {}
    for column in level:
        owner = next((h.name for h in hierarchies if column in h.columns), None)
        columns = [one for h in hierarchies for one in h.columns]
        if owner is None:
            raise InputError(
                f"level={column[:50]!r} is not a column of a hierarchy.{nearest(column[:50], columns)} "
                f"Give one of {listing(columns)}, or one of each hierarchy with commas between."
            )
        if owner in found:
            raise InputError(f"level names {found[owner]!r} and {column!r}, of the same hierarchy. Give one of them.")
        found[owner] = column
    return found
