"""Translate the labels that a user names for one cell into nodes of the code lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ilba.cells.codes import CodeLists
from ilba.design.design import Selection
from ilba.errors import InputError, listing, nearest


def nodes_of(codes: CodeLists, selection: Selection, hkey_value: Any, key_value: Any) -> list[int | None]:
    """The nodes that the user's values name, in the order of the table's dimensions."""
    hierarchies = codes.design.hierarchies
    if isinstance(hkey_value, Mapping):
        known = [hierarchy.name for hierarchy in hierarchies]
        for name in hkey_value:
            if name not in known:
                raise InputError(f"hkey_value names {name!r}.{nearest(name, known)} It has {listing(known)}.")
        areas = [_listed(hkey_value.get(hierarchy.name, ())) for hierarchy in hierarchies]
    else:
        flat, areas = _listed(hkey_value), []
        wanted = sum(selection.levels)
        if len(flat) != wanted:
            raise InputError(_wrong_number("hkey_value", flat, selection.columns[:wanted]))
        for level in selection.levels:
            areas.append(flat[:level])
            flat = flat[level:]
    for hierarchy, level, path in zip(hierarchies, selection.levels, areas, strict=True):
        if len(path) != level:
            raise InputError(_wrong_number("hkey_value", path, hierarchy.columns[:level]))
    values = _listed(key_value)
    if len(values) != len(selection.keys):
        raise InputError(_wrong_number("key_value", values, selection.keys))
    paths = [path for path in areas if path] + [[value] for value in values]
    places = codes.cell_index(selection).places
    return [codes.lists[place.dimension].node(path) for place, path in zip(places, paths, strict=True)]


def _listed(values: Any) -> list[Any]:
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        return [] if values is None else [values]
    return list(values)


def _wrong_number(argument: str, given: Sequence[object], columns: Sequence[str]) -> str:
    return f"{argument} has {len(given)} values where {len(columns)} are needed: {listing(columns) or '(none)'}."
