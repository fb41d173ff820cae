"""The answers of the API: from what was asked to plain values. Nothing here knows of HTTP.

A variable that is left out is answered from the table that was published without it, never by a sum of masked counts;
where tables add up, the service can sum them beforehand, and then that table is offered as any other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import polars as pl

from ilba import __version__
from ilba.design.design import MASKED, Hierarchy, Selection, plain_name
from ilba.errors import InputError, listing, nearest, some
from ilba.output.export import json_stat
from ilba.output.wording import COUNT, LANGUAGES, Dimension, Measure, WordedTable, told, words
from ilba.service.asked import MOST_TEXT, Codes, ValueFilter, folded, variable
from ilba.service.catalog import Catalog, ServedRelease, TableEntry
from ilba.service.measures import measure_asked
from ilba.service.measures import values as measured
from ilba.service.on_demand import DemandRules, of_all
from ilba.service.work import still_wanted

API = "/api/v2"
MISSING = "(missing)"  # how a label that is missing is written
FORMATS = {
    "json-stat2": ("json-stat", "application/json", "json"),
    "csv": ("csv", "text/csv; charset=utf-8", "csv"),
    "xlsx": ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    "parquet": ("parquet", "application/vnd.apache.parquet", "parquet"),
    "px": ("px", "application/octet-stream", "px"),
}
_NO_ROWS = pl.DataFrame()


class TooManyError(InputError):
    """More cells are asked for than one answer may hold."""


class UnknownError(InputError):
    """There is no such thing here."""


@dataclass(frozen=True)
class Settings:
    """What the operator decides about answers."""

    max_cells: int = 100_000
    license: str = ""
    languages: tuple[str, ...] = ()
    """those that are offered, the usual one first; all that there are where none is named"""
    address: str = ""
    """where the service is for its readers, such as https://stats.example.org; as it is called where none is named"""
    rules: DemandRules = field(default_factory=DemandRules)
    """what was declared about tables on demand"""


def offered_languages(catalog: Catalog, settings: Settings) -> list[str]:
    """The languages that can be asked for, the usual one first."""
    return list(settings.languages) or catalog.languages


def rehearse(served: ServedRelease) -> None:
    """Say everything about a release once, so that a manifest that cannot be put into words is noticed at once."""
    about, design = served.release.manifest, served.release.design
    names = ("title", "description", "source", "method", "cells", "rows", "software", "created")
    texts = [*(about[name] for name in names), *design.columns]
    numbers = [about["threshold"], about["absent"] or 0, about["additive"]]
    if not all(isinstance(text, str) for text in texts) or not all(isinstance(number, int) for number in numbers):
        raise TypeError("a field of the manifest is not of its type")
    for lang in served.languages:
        _release(served, lang)
        for entry in served.entries.values():
            _entry(entry, lang)


def config(catalog: Catalog, settings: Settings) -> dict[str, Any]:
    """What a client has to know beforehand."""
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


def language_name(lang: str) -> str:
    """What a language calls itself, as far as we have words in it."""
    return words(lang)["name"] if lang in LANGUAGES else lang


def releases(catalog: Catalog, lang: str) -> dict[str, Any]:
    """What is published: the design of each release in words, and the tables that can be asked for."""
    return {"language": lang, "releases": [_release(served, lang) for served in catalog.releases]}


def _release(served: ServedRelease, lang: str) -> dict[str, Any]:
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
            }
            for entry in served.entries.values()
        ],
    }


def tables(
    catalog: Catalog,
    lang: str,
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
        "tables": [_entry(entry, lang) for entry in shown],
        "page": {
            "pageNumber": page_number,
            "pageSize": page_size,
            "totalElements": len(found),
            "totalPages": pages,
            "links": [_link("self", lang, "/tables")],
        },
        "links": [_link("self", lang, "/tables")],
    }


def table(entry: TableEntry, lang: str) -> dict[str, Any]:
    """One table of the list."""
    return {"language": lang, **_entry(entry, lang)}


def _entry(entry: TableEntry, lang: str) -> dict[str, Any]:
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
        "variableNames": variable_names(entry, lang),
        "paths": [[{"id": entry.served.id, "label": told(release, "title", lang)}]],
        "links": [
            _link("self", lang, f"/tables/{name}"),
            _link("metadata", lang, f"/tables/{name}/metadata"),
            _link("data", lang, f"/tables/{name}/data"),
        ],
    }


def variable_names(entry: TableEntry, lang: str) -> list[str]:
    """What the variables of a table are called."""
    labels = entry.served.labels[lang]
    return [labels.variable(column) for column in entry.served.axes(entry.table)]


def _link(relation: str, lang: str, path: str) -> dict[str, str]:
    return {"rel": relation, "hreflang": lang, "href": f"{API}{path}?lang={lang}"}


def utc(written: str) -> str:
    """A time as it is written in the world's time."""
    return datetime.fromisoformat(written).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def worded(entry: TableEntry, lang: str) -> WordedTable:
    """The words about a table, without its rows."""
    return WordedTable(entry.release, entry.table, _NO_ROWS, lang, entry.served.labels[lang])


def metadata(catalog: Catalog, entry: TableEntry, lang: str) -> dict[str, Any]:
    """A table without its numbers, as JSON-stat."""
    loaded = catalog.load(entry)
    found = json_stat(loaded.worded[lang], whole=False, data=False)
    for dimension in loaded.worded[lang].dimensions:
        described = found["dimension"][dimension.name]
        lists = [_code_list_entry(entry, coarser, lang) for coarser in _coarser(entry, dimension)]
        described["extension"] = {
            "elimination": _without(entry, dimension.name) is not None,
            "show": "value",
            "codelists": lists,
            "codeLists": lists,
            **({"ilba": _hierarchy(entry, dimension)} if _owner(entry, dimension.name) else {}),
        }
    return _described(found, entry, lang)


def _described(found: dict[str, Any], entry: TableEntry, lang: str) -> dict[str, Any]:
    """What PxWebApi adds to JSON-stat."""
    found["updated"] = utc(found["updated"])
    found["extension"]["px"] = {
        "tableid": entry.id,
        "language": lang,
        "decimals": found["extension"]["ilba"].get("decimals", 0),
        "aggregallowed": entry.release.additive and "of" not in found["extension"]["ilba"],
        "contents": told(entry.release, "title", lang),
    }
    return found


def _hierarchy(entry: TableEntry, dimension: Dimension) -> dict[str, Any]:
    """Which level this is, and the code above each code as the table one level coarser spells it."""
    owner = _owner(entry, dimension.name)
    above: dict[str, str] = {}
    if len(dimension.columns) > 1:
        paths = [path[:-1] for path in dimension.paths.fill_null("NA").iter_rows()]
        last = [path[-1] for path in dict.fromkeys(paths)]
        plain = len(set(last)) == len(last)
        spelled = [path[-1] if plain else "/".join(path) for path in paths]
        above = dict(zip(dimension.codes, spelled, strict=True))
    return {
        "hierarchy": owner.name if owner else "",
        "level": len(dimension.columns),
        "levels": list(dimension.columns),
        "parents": above,
    }


def _owner(entry: TableEntry, column: str) -> Hierarchy | None:
    return next((h for h in entry.release.design.hierarchies if column in h.columns), None)


def _without(entry: TableEntry, column: str) -> TableEntry | None:
    """The table that was published without a variable."""
    owner = _owner(entry, column)
    levels = {**entry.table.levels, **({owner.name: 0} if owner else {})}
    return entry.served.entry(levels, [key for key in entry.table.keys if key != column])


def _coarser(entry: TableEntry, dimension: Dimension) -> list[str]:
    """The coarser columns of a hierarchy at which the same table was published."""
    owner = _owner(entry, dimension.name)
    if owner is None:
        return []
    levels = range(1, len(dimension.columns))
    published = [entry.served.entry({**entry.table.levels, owner.name: n}, entry.table.keys) for n in levels]
    return [owner.columns[n - 1] for n, one in zip(levels, published, strict=True) if one is not None]


def _code_list_id(served: ServedRelease, fine: str, coarse: str, alone: bool) -> str:
    return f"{'' if alone else served.id + ':'}{plain_name(fine)}.{plain_name(coarse)}"


def _code_list_entry(entry: TableEntry, coarse: str, lang: str) -> dict[str, Any]:
    fine = next(h.columns[entry.table.levels[h.name] - 1] for h in [_owner(entry, coarse)] if h)
    name = _code_list_id(entry.served, fine, coarse, ":" not in entry.id)
    return {
        "id": name,
        "label": entry.served.labels[lang].variable(coarse),
        "type": "Aggregation",
        "links": [_link("metadata", lang, f"/codelists/{quote(name, safe='')}")],
    }


def code_list(catalog: Catalog, name: str, lang: str) -> dict[str, Any]:
    """The areas of a coarser level, each with the finer ones inside it."""
    if not catalog.alone:
        catalog.named(name.partition(":")[0])  # one that is gone for now is not one that is unknown
    for served in catalog.releases:
        for hierarchy in served.release.design.hierarchies:
            for level, fine in enumerate(hierarchy.columns, 1):
                for above, coarse in enumerate(hierarchy.columns[: level - 1], 1):
                    if _code_list_id(served, fine, coarse, catalog.alone) == name:
                        return _code_list(catalog, served, hierarchy.name, (above, level), name, lang)
    raise UnknownError(f"there is no code list {name[:60]!r}.")


def _code_list(
    catalog: Catalog, served: ServedRelease, hierarchy: str, pair: tuple[int, int], name: str, lang: str
) -> dict[str, Any]:
    areas, finer = (axis_of(catalog, served, hierarchy, level, lang) for level in pair)
    inside: dict[tuple[Any, ...], list[str]] = {}
    for path, code in zip(finer.paths.iter_rows(), finer.codes, strict=True):
        inside.setdefault(path[: pair[0]], []).append(code)
    return {
        "id": name,
        "label": areas.label,
        "language": lang,
        "languages": served.languages,
        "type": "Aggregation",
        "elimination": False,
        "values": [
            {"code": code, "label": label, "valueMap": inside.get(path, [])}
            for path, code, label in zip(areas.paths.iter_rows(), areas.codes, areas.labels, strict=True)
        ],
        "links": [_link("self", lang, f"/codelists/{quote(name, safe='')}")],
    }


def axis_of(catalog: Catalog, served: ServedRelease, hierarchy: str, level: int, lang: str) -> Dimension:
    """The areas of a level, from the smallest table that has them."""
    having = [entry for entry in served.entries.values() if entry.table.levels[hierarchy] == level]
    if not having:
        raise UnknownError("no table of this level was published.")
    smallest = min(having, key=lambda entry: served.cells(entry.table))
    names = served.axes(smallest.table)
    owner = next(h for h in served.release.design.hierarchies if h.name == hierarchy)
    return catalog.load(smallest).worded[lang].dimensions[names.index(owner.columns[level - 1])]


@dataclass(frozen=True)
class Part:
    """The part of a table that is asked for, found but not yet answered."""

    entry: TableEntry
    places: list[list[int]]
    called: list[str]
    measure: Measure = COUNT

    @property
    def cells(self) -> int:
        """How many cells it has."""
        return math.prod(len(places) for places in self.places)


def part(
    catalog: Catalog,
    entry: TableEntry,
    filters: Mapping[str, ValueFilter],
    settings: Settings,
    asked: Mapping[str, str] | None = None,
) -> Part:
    """Find what is asked for: the table with the variables that are named, and the places of their values."""
    axes = entry.served.axes(entry.table)
    named = {variable(name, axes): filter_ for name, filter_ in filters.items()}
    if len(named) < len(filters):
        raise InputError("a variable is named twice.")
    if not any(filter_.values for filter_ in named.values()):
        if any(filter_.codelist for filter_ in named.values()):
            raise InputError("a code list was named without values. Add valuecodes, such as *.")
        found = Part(entry, _default(catalog, entry, settings.max_cells), axes)
    else:
        found = _chosen(catalog, entry, {name: filter_ for name, filter_ in named.items() if filter_.values})
    if found.cells > settings.max_cells:
        raise TooManyError(
            f"{found.cells:,} cells are asked for; one answer holds at most {settings.max_cells:,}. "
            f"Ask for fewer values, or in several parts."
        )
    return replace(found, measure=measure_asked(found.entry, asked or {}))


def _default(catalog: Catalog, entry: TableEntry, most: int) -> list[list[int]]:
    """Everything, or where that is too much the first codes of the longest variables."""
    sizes = [len(dimension) for dimension in catalog.load(entry).dimensions]
    while math.prod(sizes) > most:
        longest = max(range(len(sizes)), key=sizes.__getitem__)
        others = math.prod(size for place, size in enumerate(sizes) if place != longest)
        sizes[longest] = max(1, min(sizes[longest] - 1, most // max(1, others)))
    return [list(range(size)) for size in sizes]


def default_selection(catalog: Catalog, entry: TableEntry, lang: str, settings: Settings) -> dict[str, Any]:
    """What is answered when nothing is chosen."""
    return selection(catalog, entry, {}, lang, settings)


def selection(
    catalog: Catalog, entry: TableEntry, filters: Mapping[str, ValueFilter], lang: str, settings: Settings
) -> dict[str, Any]:
    """Which codes of each variable a question names; without filters those that are answered by default."""
    found = part(catalog, entry, filters, settings)
    dimensions = catalog.load(found.entry).dimensions
    return {
        "language": lang,
        "selection": [
            {"variableCode": name, "valueCodes": [one.codes[place] for place in chosen]}
            for name, one, chosen in zip(found.called, dimensions, found.places, strict=True)
        ],
        "links": [_link("self", lang, f"/tables/{quote(entry.id, safe='')}/defaultselection")],
    }


def _chosen(catalog: Catalog, entry: TableEntry, named: Mapping[str, ValueFilter]) -> Part:
    levels = dict.fromkeys(entry.table.levels, 0)
    keys, called, coarse = [], [], {}
    for name in entry.served.axes(entry.table):
        if name not in named:
            continue
        owner = _owner(entry, name)
        filter_ = named[name]
        if owner is None:
            keys.append(name)
            if filter_.codelist:
                raise InputError(f"{name!r} has no code list {filter_.codelist[:60]!r}.")
        else:
            levels[owner.name] = entry.table.levels[owner.name]
            if filter_.codelist:
                coarse[name] = _level_of(entry, owner, name, filter_.codelist)
                if not filter_.single:
                    levels[owner.name] = coarse[name]
        called.append(name)
    target = entry.served.entry(levels, keys)
    if target is None:
        raise InputError(
            f"a table by {listing(called)} alone was not published, and masked counts are not summed here. "
            f"Name values for {listing(name for name in entry.served.axes(entry.table) if name not in named)} too."
        )
    places = []
    loaded = catalog.load(target)
    for name, dimension, codes in zip(called, loaded.dimensions, loaded.codes, strict=True):
        filter_ = named[name]
        if name in coarse and filter_.single:
            places.append(_inside(catalog, entry, name, coarse[name], filter_.values, dimension))
        else:
            places.append(codes.chosen(filter_.values))
    return Part(target, places, called)


def _level_of(entry: TableEntry, owner: Hierarchy, name: str, code_list: str) -> int:
    alone = ":" not in entry.id
    columns = owner.columns[: entry.table.levels[owner.name] - 1]
    known = {_code_list_id(entry.served, name, column, alone): level for level, column in enumerate(columns, 1)}
    if code_list not in known:
        raise InputError(
            f"{name!r} has no code list {code_list[:60]!r}.{nearest(code_list[:60], known)} "
            f"It has {listing(known) or 'none'}."
        )
    return known[code_list]


def _inside(
    catalog: Catalog, entry: TableEntry, name: str, level: int, values: list[str] | str, finer: Dimension
) -> list[int]:
    """The places of all areas inside the coarser ones that are asked for."""
    owner = _owner(entry, name)
    areas = axis_of(catalog, entry.served, owner.name if owner else "", level, LANGUAGES[0])
    rows = areas.paths.rows()
    wanted = {rows[place] for place in Codes(name, areas.codes).chosen(values)}
    return [place for place, path in enumerate(finer.paths.iter_rows()) if path[:level] in wanted]


def csv_asked(parameters: str) -> dict[str, Any]:
    """How a csv file is written, as PxWebApi 2 spells it; texts, with commas, where nothing is said."""
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


def answered(catalog: Catalog, found: Part, lang: str) -> WordedTable:
    """The part with its numbers and words."""
    loaded = catalog.load(found.entry)
    still_wanted()
    if found.measure == COUNT:
        cut = loaded.worded[lang].cut(found.places, loaded.values(found.places))
    else:
        numbers = measured(catalog, found.entry, found.places, found.measure)
        cut = loaded.worded[lang].cut(found.places, numbers, found.measure)
    cut.pulse = still_wanted
    cut.dimensions = [replace(one, name=name) for one, name in zip(cut.dimensions, found.called, strict=True)]
    return cut


def data(table: WordedTable, entry: TableEntry) -> dict[str, Any]:
    """A part of a table as JSON-stat."""
    found = json_stat(table, whole=False)
    for dimension in found["dimension"].values():
        dimension["extension"] = {"show": "value"}
    return _described(found, entry, table.lang)


@dataclass(frozen=True)
class Question:
    """One cell that is asked for, its table found but nothing read yet."""

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
    """What is asked of one cell, with the words of the seed's get_agg_freq."""
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
    except InputError as problem:  # a release speaks through the words of the store that it came from
        said = str(problem).replace("this store", "this release").replace("This store", "This release")
        raise InputError(said) from None
    areas = selection.columns[: sum(selection.levels)]
    hkey_value, key_value = _blank(hkey_value, areas), _blank(key_value, selection.keys)
    _fits("hkey_value", hkey_value, areas, "level")
    _fits("key_value", key_value, selection.keys, "key")
    entry = served.entry(selection.by_name, selection.keys)
    if entry is None:
        raise InputError(f"the table {selection.name!r} was not published.")
    return Question(entry, selection, list(hkey_value), list(key_value))


def cell(catalog: Catalog, asked: Question) -> dict[str, Any]:
    """One masked count; 0 where the cell does not occur, and nothing where it is left blank."""
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
    """An empty text is the empty label where one value is expected, and no value where none is."""
    return [] if not columns and list(given) == [""] else given


def _fits(name: str, given: Sequence[str], columns: Sequence[str], chosen_by: str) -> None:
    if len(given) == len(columns):
        return
    if not columns:
        raise InputError(f"{name} is given, and no {chosen_by} is. Say what it is a value of: {chosen_by}=...")
    held = "is missing" if not given else f"has {some(len(given), 'value')}"
    raise InputError(
        f"{name} {held}. Give {some(len(columns), 'value')} with commas between: {listing(columns)}. "
        'A value that holds a comma stands in quotes: "a,b".'
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
    """The levels as a design takes them: one, or a column of each hierarchy."""
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
