"""Tables made on demand, for areas that readers combine, within declared rules.

A sum of published counts tells nothing that the published counts do not tell. So this is offered only if tables add up.
The rules use published counts alone. Rules that exclude combinations are courtesy, not protection: anybody who has the
release can add up its counts without this service.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, listing, nearest, some
from ilba.output.wording import Dimension, WordedTable, nonexistent, whole, words
from ilba.service.catalog import Catalog, Loaded
from ilba.service.folder import TableEntry
from ilba.service.outlines import Maps, Outlines
from ilba.service.work import still_wanted

IntArray: TypeAlias = npt.NDArray[np.int64]
MOST_AREAS = 100
MOST_CORNERS = 1000
_MOST_NAME = 200
_MOST_NAMED = 6  # areas in a note
OWN = "own_area"


class RuleError(InputError):
    """A request that breaks a declared rule."""


class DemandRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agency's declared rules for tables on demand. Each rule uses published counts alone."""

    largest_share_of_zeros: float = 1.0
    """how sparse an answer may be"""
    excluded: tuple[tuple[str, ...], ...] = ()
    """variables that are not offered together"""

    def told(self, lang: str, most: int) -> list[str]:
        """The rules in words."""
        said = words(lang)
        found = [said["rule_cells"].format(n=whole(most, said))]
        if self.largest_share_of_zeros < 1:
            found.append(said["rule_zeros"].format(n=round(100 * self.largest_share_of_zeros)))
        return [*found, *(said["rule_excluded"].format(list=", ".join(some)) for some in self.excluded)]

    def excludes(self, entry: TableEntry) -> tuple[str, ...]:
        """The variables of a table that are not offered together; none for a published table."""
        return () if not self.excluded or entry.is_stored else self._together(entry.table.columns)

    def _together(self, columns: Sequence[str]) -> tuple[str, ...]:
        return next((some for some in self.excluded if set(some) <= set(columns)), ())

    def check_variables(self, columns: Sequence[str]) -> None:
        """Refuse variables that are not offered together."""
        if together := self._together(columns):
            raise RuleError(f"{listing(together)} are not offered together. Leave one of them out.")

    def check_counts(self, counts: npt.NDArray[Any]) -> None:
        """Refuse a table that is mostly 0."""
        share = float((counts == 0).mean()) if len(counts) else 0.0
        if share > self.largest_share_of_zeros:
            raise RuleError(
                f"{share:.0%} of the cells are 0, and at most {self.largest_share_of_zeros:.0%} may be. "
                f"Combine larger areas, or leave a variable out."
            )


def rules_of(path: str) -> DemandRules:
    """The rules in a TOML file."""
    try:
        given = tomllib.loads(Path(path).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        raise InputError(f"the rules {path!r} cannot be read as TOML.") from None
    try:
        rules = msgspec.convert(given, DemandRules)
    except msgspec.ValidationError as problem:
        known = "largest_share_of_zeros (from 0 to 1) and excluded (lists of variables)"
        raise InputError(f"the rules {path!r}: {problem}. They hold {known}.") from None
    if not 0 <= rules.largest_share_of_zeros <= 1:
        raise InputError("largest_share_of_zeros is a share, from 0 to 1.")
    return rules


class _OwnArea(msgspec.Struct, forbid_unknown_fields=True):
    """An area defined by a reader: codes, or a polygon in the coordinates of the map."""

    name: str
    codes: list[str] = []
    polygon: list[tuple[float, float]] = []


class _OwnAreas(msgspec.Struct, forbid_unknown_fields=True):
    """A request for several areas at once."""

    areas: list[_OwnArea]


def own_areas(content: bytes) -> list[_OwnArea]:
    """The areas that the body of a request defines."""
    try:
        areas = msgspec.json.decode(content, type=_OwnAreas).areas
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError(
            'the body is not of the form {"areas": [{"name": "...", "codes": ["..."]}, {"name": "...", "polygon": '
            "[[x, y], ...]}]}."
        ) from None
    names = [one.name for one in areas]
    if not 1 <= len(areas) <= MOST_AREAS:
        raise InputError(f"the body has {some(len(areas), 'area')}. Give 1 to {MOST_AREAS}.")
    if len(set(names)) < len(names) or not all(0 < len(name) <= _MOST_NAME for name in names):
        raise InputError(f"every area needs a name of its own, of up to {_MOST_NAME} letters.")
    for one in areas:
        if bool(one.codes) == bool(one.polygon):
            raise InputError(f"the area {one.name[:50]!r} needs either codes or a polygon.")
        if one.polygon and not 3 <= len(one.polygon) <= MOST_CORNERS:
            raise InputError(f"the polygon of {one.name[:50]!r} needs 3 to {MOST_CORNERS:,} corners.")
    return areas


@dataclass(frozen=True)
class OwnTable:
    """A table of areas defined by a reader."""

    table: WordedTable
    inside: list[int]
    """the number of published areas in each"""


def summed(
    catalog: Catalog, maps: Maps, entry: TableEntry, areas: Sequence[_OwnArea], rules: DemandRules, most: int, lang: str
) -> OwnTable:
    """The counts of own areas: sums of the published counts of the areas in them."""
    if not entry.release.additive:
        raise InputError(
            "the tables of this release do not add up, so areas are not combined here. Ask for published areas."
        )
    loaded = catalog.load(entry)
    dimensions = loaded.worded[lang].dimensions
    axis = next((n for n, one in enumerate(dimensions) if _is_area(entry, one)), None)
    if axis is None:
        raise InputError("this table has no areas. Ask for one at a level of areas.")
    rules.check_variables([one.name for one in dimensions])
    sizes = [len(one) for one in dimensions]
    cells = len(areas) * int(np.prod(sizes, dtype=np.int64)) // sizes[axis]
    if cells > most:
        raise RuleError(
            f"{cells:,} cells are asked for; one answer holds at most {most:,}. Ask for fewer areas at once."
        )
    outlines = maps.of(entry.served, dimensions[axis].name) if any(one.polygon for one in areas) else None
    chosen = [_places(one, dimensions[axis], outlines) for one in areas]
    counts = _sums(loaded, sizes, axis, chosen)
    rules.check_counts(counts.ravel())
    names = [one.name for one in areas]
    said = words(lang)
    own = Dimension(OWN, said["own_areas"], (OWN,), pl.DataFrame({OWN: names}), names, names, False)
    # A sum without one of its areas would be of another area, so it has no number at a time in which one did not exist.
    lacking = _lacking(dimensions[axis], chosen)
    own = replace(
        own, nonexistent={time: np.array([len(some) > 0 for some in lists]) for time, lists in lacking.items()}
    )
    shown = [own if n == axis else one for n, one in enumerate(dimensions)]
    gone = nonexistent(shown)
    values = counts.ravel()
    table = loaded.worded[lang].cut(
        [list(range(size)) for size in sizes], values if gone is None else np.where(gone, np.nan, values)
    )
    table.dimensions = shown
    table.heading = [one.label for one in shown]
    table.more_notes = [
        said["own_lacking"].format(name=name, time=time, list=_named(dimensions[axis], some))
        for time, lists in lacking.items()
        for name, some in zip(names, lists, strict=True)
        if len(some)
    ]
    return OwnTable(table, [len(some) for some in chosen])


def _lacking(dimension: Dimension, chosen: Sequence[IntArray]) -> dict[str, list[IntArray]]:
    """By time, the places in each own area that did not exist then; a time in which all existed is left out."""
    found = {time: [places[flags[places]] for places in chosen] for time, flags in dimension.nonexistent.items()}
    return {time: lists for time, lists in found.items() if any(map(len, lists))}


def _named(dimension: Dimension, places: IntArray) -> str:
    named = [dimension.labels[at] for at in places[:_MOST_NAMED].tolist()]
    return ", ".join([*named, *["…"] * (len(places) > _MOST_NAMED)])


def _is_area(entry: TableEntry, dimension: Dimension) -> bool:
    return any(dimension.name in hierarchy.columns for hierarchy in entry.release.design.hierarchies)


def _places(area: _OwnArea, dimension: Dimension, outlines: Outlines | None) -> IntArray:
    """The places of the published areas of an own area on the axis, each once."""
    if area.polygon:
        if outlines is None:
            raise InputError("there is no map of these areas, so a polygon cannot be used. Name codes.")
        inside = outlines.within(area.polygon)
        found = [at for at, code in enumerate(dimension.codes) if outlines.own(code) in inside]
        if not found:
            raise InputError(f"no area has its middle inside the polygon of {area.name[:50]!r}. Draw a larger one.")
        return np.array(found, dtype=np.int64)
    index = {code: at for at, code in enumerate(dimension.codes)}
    for code in area.codes:
        if code not in index:
            said = nearest(code[:50], dimension.codes[:2000])
            raise InputError(f"{code[:50]!r} is not a value of {dimension.name!r}.{said}")
    return np.unique(np.array([index[code] for code in area.codes], dtype=np.int64))


def _sums(loaded: Loaded, sizes: Sequence[int], axis: int, chosen: Sequence[IntArray]) -> IntArray:
    """The sums of the counts over the places of each area; all other axes are unchanged."""
    after = int(np.prod(sizes[axis + 1 :], dtype=np.int64))
    before = int(np.prod(sizes[:axis], dtype=np.int64))
    rest = (loaded.place // (after * sizes[axis])) * after + loaded.place % after
    where = loaded.place // after % sizes[axis]
    found = np.zeros((len(chosen), before * after), dtype=np.int64)
    for n, places in enumerate(chosen):
        still_wanted()
        is_inside = np.zeros(sizes[axis], dtype=bool)
        is_inside[places] = True
        rows = is_inside[where]
        np.add.at(found[n], rest[rows], loaded.count[rows])
    return np.ascontiguousarray(np.moveaxis(found.reshape(len(chosen), before, after), 0, 1))


def of_all(rules: DemandRules) -> dict[str, Any]:
    """The rules as plain values."""
    return {"largestShareOfZeros": rules.largest_share_of_zeros, "excluded": [list(one) for one in rules.excluded]}
