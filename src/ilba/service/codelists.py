"""Coarser levels of areas as code lists: which ones exist, their content, and which areas lie inside others."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from ilba.design.design import Hierarchy, plain_name
from ilba.errors import InputError, listing, nearest
from ilba.output.wording import LANGUAGES, Dimension
from ilba.service.addresses import API
from ilba.service.asked import Codes, UnknownError
from ilba.service.catalog import Catalog
from ilba.service.folder import ServedRelease, TableEntry


def link(relation: str, lang: str, path: str) -> dict[str, str]:
    """An address that belongs to an answer."""
    return {"rel": relation, "hreflang": lang, "href": f"{API}{path}?lang={lang}"}


def owner_of(entry: TableEntry, column: str) -> Hierarchy | None:
    """The hierarchy that a column belongs to."""
    return next((h for h in entry.release.design.hierarchies if column in h.columns), None)


def coarser_columns(entry: TableEntry, dimension: Dimension) -> list[str]:
    """The coarser columns of a hierarchy at which the same table was published."""
    owner = owner_of(entry, dimension.name)
    if owner is None:
        return []
    levels = range(1, len(dimension.columns))
    published = [entry.served.entry({**entry.table.levels, owner.name: n}, entry.table.keys) for n in levels]
    return [owner.columns[n - 1] for n, one in zip(levels, published, strict=True) if one is not None]


def _code_list_id(served: ServedRelease, fine: str, coarse: str, alone: bool) -> str:
    return f"{'' if alone else served.id + ':'}{plain_name(fine)}.{plain_name(coarse)}"


def code_list_entry(entry: TableEntry, coarse: str, lang: str) -> dict[str, Any]:
    """The entry of a code list in a table."""
    fine = next(h.columns[entry.table.levels[h.name] - 1] for h in [owner_of(entry, coarse)] if h)
    name = _code_list_id(entry.served, fine, coarse, ":" not in entry.id)
    return {
        "id": name,
        "label": entry.served.labels[lang].variable(coarse),
        "type": "Aggregation",
        "links": [link("metadata", lang, f"/codelists/{quote(name, safe='')}")],
    }


def code_list(catalog: Catalog, name: str, lang: str) -> dict[str, Any]:
    """The areas of a coarser level, each with the finer ones inside it."""
    if not catalog.alone:
        catalog.named(name.partition(":")[0])  # a release that is gone is not unknown
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
        "links": [link("self", lang, f"/codelists/{quote(name, safe='')}")],
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


def level_of(entry: TableEntry, owner: Hierarchy, name: str, code_list: str) -> int:
    """The level that a code list stands for."""
    alone = ":" not in entry.id
    columns = owner.columns[: entry.table.levels[owner.name] - 1]
    known = {_code_list_id(entry.served, name, column, alone): level for level, column in enumerate(columns, 1)}
    if code_list not in known:
        raise InputError(
            f"{name!r} has no code list {code_list[:60]!r}.{nearest(code_list[:60], known)} "
            f"It has {listing(known) or 'none'}."
        )
    return known[code_list]


def inside_of(catalog: Catalog, served: ServedRelease, column: str, coarse: str, code: str) -> list[str]:
    """The codes of a column inside one area of a coarser column."""
    for hierarchy in served.release.design.hierarchies:
        if column in hierarchy.columns and coarse in hierarchy.columns[: hierarchy.columns.index(column)]:
            above, level = (hierarchy.columns.index(name) + 1 for name in (coarse, column))
            areas = axis_of(catalog, served, hierarchy.name, above, LANGUAGES[0])
            if code not in areas.codes:
                break
            path = areas.paths.row(areas.codes.index(code))
            finer = axis_of(catalog, served, hierarchy.name, level, LANGUAGES[0])
            return [
                one for one, whole in zip(finer.codes, finer.paths.iter_rows(), strict=True) if whole[:above] == path
            ]
    raise UnknownError(f"{column[:60]!r} has no areas inside {coarse[:60]!r} {code[:60]!r}.")


def inside(
    catalog: Catalog, entry: TableEntry, name: str, level: int, values: list[str] | str, finer: Dimension
) -> list[int]:
    """The places of all areas inside the requested coarser ones."""
    owner = owner_of(entry, name)
    areas = axis_of(catalog, entry.served, owner.name if owner else "", level, LANGUAGES[0])
    wanted = areas.paths[Codes(name, areas.codes).chosen(values)]
    above = finer.paths.select(wanted.columns).with_row_index(" ")  # no column has this name
    return above.join(wanted, on=wanted.columns, how="semi", nulls_equal=True)[" "].sort().to_list()
