"""What is published about one place: its count, rank, change, groups and neighbours.

Every number is a published count or made from published counts. This module does not know HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from ilba.design.design import Hierarchy
from ilba.errors import listing, nearest
from ilba.output.wording import LANGUAGES, Dimension
from ilba.service.asked import UnknownError, spaced
from ilba.service.catalog import Catalog
from ilba.service.codelists import axis_of
from ilba.service.folder import ServedRelease
from ilba.service.measures import doubt_of
from ilba.service.outlines import Maps, Outlines

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]

_SEX = re.compile(r"(sex|gender|sexe|sexo|genre|género|genero|성별|geschlecht)", re.I)
_AGE = re.compile(r"(age|âge|edad|연령|나이|alter)", re.I)
_MOST_GROUPS = 40  # listed values of a variable
_MOST_CELLS = 5_000_000  # of a table that is read for ranks
_MOST_NEIGHBOURS = 24


@dataclass(frozen=True)
class Locality:
    """An area of a level of a release."""

    served: ServedRelease
    hierarchy: Hierarchy
    level: int
    at: int
    areas: Dimension

    @property
    def code(self) -> str:
        """The code of the place, as in the tables of its level."""
        return self.areas.codes[self.at]

    @property
    def name(self) -> str:
        """The name of the place."""
        return self.areas.labels[self.at]

    @property
    def path(self) -> tuple[str | None, ...]:
        """The codes from the coarsest area down to it."""
        return self.areas.paths.row(self.at)

    @property
    def address(self) -> str:
        """The address of its page."""
        return place_address(self.served, self.areas.name, self.code)


@dataclass(frozen=True)
class Rank:
    """The rank of a place, the highest first, and how many places share it (with itself)."""

    number: int
    shared: int
    is_close: bool
    """whether another number is so close that masking may decide the rank"""


@dataclass(frozen=True)
class Group:
    """One value of a variable in a place; shares are fractions, ranks are by share among all areas of the level."""

    label: str
    count: int
    share: float | None
    everywhere: float | None
    rank: Rank | None


@dataclass(frozen=True)
class Pyramid:
    """Counts by age (rows, the youngest first) and sex (two columns)."""

    sexes: tuple[str, str]
    ages: list[str]
    counts: IntArray


@dataclass(frozen=True)
class Neighbour:
    """Another area of the same level."""

    name: str
    code: str
    address: str
    count: int | None


@dataclass(frozen=True)
class PlaceFacts:
    """Everything that is shown about a place."""

    place: Locality
    time: str
    """the time of its numbers, empty if none was declared"""
    is_there: bool
    """whether it existed at this time"""
    above: list[tuple[str, str]]
    count: int | None
    rank: Rank | None
    areas: int
    peopled: int
    """the areas with people: those that have shares, and a rank by them"""
    rank_inside: Rank | None
    areas_inside: int
    share_above: float | None
    share_of_all: float | None
    times: list[tuple[str, int | None]]
    """the counts of the times up to this one; None if it did not exist"""
    pyramid: Pyramid | None
    groups: list[tuple[str, list[Group]]]
    neighbours: list[Neighbour]
    is_touching: bool
    """whether the neighbours share a border with it; otherwise they are in the same area above"""


def place_address(served: ServedRelease, column: str, code: str) -> str:
    """The address of the page of a place."""
    return f"/place/{quote(served.id, safe='')}/{quote(column, safe='')}/{quote(code, safe='')}"


def find(catalog: Catalog, release: str, column: str, code: str, lang: str) -> Locality:
    """The place that an address names."""
    served = catalog.named(release)
    if served is None:
        raise UnknownError(f"there is no release {release[:60]!r}.")
    for hierarchy in served.release.design.hierarchies:
        if column in hierarchy.columns:
            level = hierarchy.columns.index(column) + 1
            areas = axis_of(catalog, served, hierarchy.name, level, lang)
            known = {areas.codes[at]: at for at in areas.stated}  # "not stated" is no place
            if code not in known:
                raise UnknownError(f"there is no place {code[:60]!r}.{nearest(code[:60], list(known)[:2000])}")
            return Locality(served, hierarchy, level, known[code], areas)
    raise UnknownError(f"{column[:60]!r} is not a level of areas.")


def at_time(place: Locality, wanted: str) -> str:
    """The time that an address names, otherwise the newest; empty if none was declared."""
    known = place.served.times
    if wanted and known and wanted not in known:
        raise UnknownError(f"there is no time {wanted[:60]!r}. It is {listing(known)}.")
    return wanted if wanted in known else next(reversed(known), "")


def beside(place: Locality, wanted: str) -> list[Locality]:
    """The place of the same level with this code or name; otherwise the others whose names begin with it or have it."""
    areas, plain = place.areas, spaced(wanted)
    names = {at: spaced(areas.labels[at]) for at in areas.stated}
    found = [at for at in names if areas.codes[at] == wanted] or [at for at, name in names.items() if name == plain][:1]
    if not found:
        having = [at for at, name in names.items() if plain and plain in name and at != place.at]
        found = [at for at in having if names[at].startswith(plain)] or having
    return [Locality(place.served, place.hierarchy, place.level, at, areas) for at in found]


def _exists(dimension: Dimension, at: int, time: str) -> bool:
    return time not in dimension.nonexistent or not dimension.nonexistent[time][at]


class _Counts:
    """Published counts by names of variables, at one time if there are several."""

    def __init__(self, catalog: Catalog, place: Locality, lang: str, when: str) -> None:
        self._catalog, self._place, self._lang, self._when = catalog, place, lang, when
        self._served = place.served
        self.time = place.served.time
        doubt = doubt_of(next(iter(self._served.entries.values())))
        self.off = None if doubt is None else doubt / 2
        """how far a count may lie from its true value, by the rule for counts; None if there is none"""

    def table(
        self,
        level: int,
        keys: Sequence[str],
        chosen: Mapping[str, Sequence[int]] | None = None,
        up_to_time: bool = False,
    ) -> tuple[list[Dimension], IntArray] | None:
        """The counts at a level by some keys, with their axes; None if that was not published."""
        levels = {h.name: 0 for h in self._served.release.design.hierarchies} | {self._place.hierarchy.name: level}
        entry = self._served.entry(levels, [*keys, *([self.time] if self.time else [])])
        if entry is None:
            return None
        loaded = self._catalog.load(entry)
        dimensions = loaded.worded[self._lang].dimensions
        places = [list((chosen or {}).get(one.name, range(len(one)))) for one in dimensions]
        for axis, one in enumerate(dimensions):
            if one.name == self.time:
                at = one.codes.index(self._when)
                places[axis] = list(range(at + 1)) if up_to_time else [at]
            elif one.name != self._place.areas.name:
                places[axis] = [at for at in places[axis] if _exists(one, at, self._when)]
                dimensions = [*dimensions[:axis], one.some(places[axis]), *dimensions[axis + 1 :]]
            elif one.codes != self._place.areas.codes:
                return None  # other areas; no release of ours has this
        sizes = [len(some) for some in places]
        if int(np.prod(sizes, dtype=np.int64)) > _MOST_CELLS:
            return None
        counts = loaded.values(places, nonexistent=0).reshape(sizes)
        if np.isnan(counts).any():  # tables with blanks are not shown here
            return None
        counts = counts.astype(np.int64)
        if self.time and not up_to_time:
            axis = [one.name for one in dimensions].index(self.time)
            counts = np.asarray(counts.take(0, axis=axis))
            dimensions = [one for one in dimensions if one.name != self.time]
        return dimensions, counts


def about(catalog: Catalog, maps: Maps, place: Locality, lang: str, time: str) -> PlaceFacts:
    """What is published about a place, as it was at a time of its release."""
    counts = _Counts(catalog, place, lang, time)
    at, is_there = place.at, _exists(place.areas, place.at, time)
    found = counts.table(place.level, [])
    everybody = found[1] if found else None
    own = everybody if is_there else None
    parents = place.areas.paths.select(place.areas.columns[:-1]).rows() if place.level > 1 else []
    stated = [other for other in place.areas.stated if _exists(place.areas, other, time)]
    inside = [other for other in stated if parents and parents[other] == parents[at]]
    outlines = maps.of(catalog.drawn_by(place.served, place.areas.name, time), place.areas.name)
    neighbours, is_touching = _neighbours(outlines, place, stated, inside, everybody)
    return PlaceFacts(
        place=place,
        time=time,
        is_there=is_there,
        above=_above(catalog, place, lang),
        count=int(own[at]) if own is not None else None,
        rank=_rank(own, at, stated, counts.off),
        areas=len(stated),
        peopled=len(stated) if everybody is None else int((everybody[stated] > 0).sum()),
        rank_inside=_rank(own, at, inside, counts.off) if inside else None,
        areas_inside=len(inside),
        share_above=_share(own, at, _parent_count(counts, place)),
        share_of_all=_share(own, at, _whole(counts)),
        times=_times(counts, place),
        pyramid=_pyramid(counts, place) if is_there else None,
        groups=_groups(counts, place, stated, everybody) if is_there else [],
        neighbours=neighbours,
        is_touching=is_touching,
    )


def _rank(
    numbers: IntArray | FloatArray | None, at: int, among: Sequence[int], off: float | FloatArray | None
) -> Rank | None:
    """The rank of a number among some; `off` is how far each may lie from its true value."""
    if numbers is None or not np.isfinite(numbers[at]):
        return None
    others, own = numbers[among], numbers[at]
    reach = np.broadcast_to(0.0 if off is None else off, numbers.shape)
    is_close = (others != own) & (np.abs(others - own) <= reach[among] + reach[at])
    return Rank(1 + int((others > own).sum()), int((others == own).sum()), bool(is_close.any()))


def _share(counts: IntArray | None, at: int, whole: int | None) -> float | None:
    return float(counts[at]) / whole if counts is not None and whole else None


def _whole(counts: _Counts) -> int | None:
    found = counts.table(0, [])
    return int(found[1]) if found else None


def _parent_count(counts: _Counts, place: Locality) -> int | None:
    found = counts.table(place.level - 1, []) if place.level > 1 else None
    if found is None:
        return None
    rows = found[0][0].paths.rows()
    return int(found[1][rows.index(place.path[:-1])]) if place.path[:-1] in rows else None


def _above(catalog: Catalog, place: Locality, lang: str) -> list[tuple[str, str]]:
    """The areas above it, from the coarsest, as name and address; levels without a table are left out."""
    found = []
    for level in range(1, place.level):
        try:
            areas = axis_of(catalog, place.served, place.hierarchy.name, level, lang)
        except UnknownError:
            continue
        rows = areas.paths.rows()
        if place.path[:level] in rows and place.path[level - 1] is not None:
            at = rows.index(place.path[:level])
            found.append((areas.labels[at], place_address(place.served, areas.name, areas.codes[at])))
    return found


def _times(counts: _Counts, place: Locality) -> list[tuple[str, int | None]]:
    if counts.time is None:
        return []
    found = counts.table(place.level, [], {place.areas.name: [place.at]}, up_to_time=True)
    if found is None:
        return []
    times = next(one for one in found[0] if one.name == counts.time)
    numbers = found[1].ravel().tolist()
    return [
        (label, number if _exists(place.areas, place.at, code) else None)
        for code, label, number in zip(times.codes, times.labels, numbers, strict=False)
    ]


def _pyramid(counts: _Counts, place: Locality) -> Pyramid | None:
    """Counts by sex and age, if two variables have such names."""
    labels = place.served.labels[LANGUAGES[0]]
    keys = place.served.release.design.keys

    def called(pattern: re.Pattern[str]) -> list[str]:
        return [key for key in keys if pattern.match(key) or pattern.match(labels.variable(key))]

    for sex in called(_SEX):
        for age in called(_AGE):
            found = counts.table(place.level, [sex, age], {place.areas.name: [place.at]}) if sex != age else None
            if found is None:
                continue
            axes = {one.name: one for one in found[0]}
            if len(axes[sex]) != 2 or len(axes[age]) < 3:
                continue
            names = [one.name for one in found[0]]
            table = np.moveaxis(found[1], [names.index(age), names.index(sex)], [0, 1]).reshape(len(axes[age]), 2)
            return Pyramid((axes[sex].labels[0], axes[sex].labels[1]), axes[age].labels, table)
    return None


def _groups(
    counts: _Counts, place: Locality, stated: Sequence[int], everybody: IntArray | None
) -> list[tuple[str, list[Group]]]:
    """The values of each variable: the count here, its share, the share everywhere and the rank of the share."""
    found = []
    for key in place.served.release.design.keys:
        if key == counts.time or place.served.size(key) > _MOST_GROUPS:
            continue
        table, whole, all_of_them = counts.table(place.level, [key]), counts.table(0, [key]), _whole(counts)
        if table is None:
            continue
        values = table[1]  # areas, then the values of the key
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = values / everybody[:, None] if everybody is not None else np.full(values.shape, np.nan)
            off = None if counts.off is None or everybody is None else counts.off / everybody
        here = shares[place.at]
        rows = [
            Group(
                label,
                int(values[place.at, n]),
                float(here[n]) if np.isfinite(here[n]) else None,
                float(whole[1][n]) / all_of_them if whole and all_of_them else None,
                _rank(shares[:, n], place.at, stated, off),
            )
            for n, label in enumerate(table[0][1].labels)
        ]
        found.append((table[0][1].label, rows))
    return found


def _neighbours(
    outlines: Outlines | None,
    place: Locality,
    stated: Sequence[int],
    inside: Sequence[int],
    everybody: IntArray | None,
) -> tuple[list[Neighbour], bool]:
    """The areas with a common border, otherwise those of the same area above; the largest first."""
    column = place.areas.name
    coded = [(at, place.areas.codes[at]) for at in stated]
    where = {outlines.own(code) if outlines else code: at for at, code in coded}
    touching = [where[code] for code in outlines.touching(place.code) if code in where] if outlines else []
    wanted = touching or [at for at in inside if at != place.at]
    ordered = sorted(wanted, key=lambda at: (-int(everybody[at]) if everybody is not None else 0, at))
    found = [
        Neighbour(
            place.areas.labels[at],
            place.areas.codes[at],
            place_address(place.served, column, place.areas.codes[at]),
            int(everybody[at]) if everybody is not None else None,
        )
        for at in ordered[:_MOST_NEIGHBOURS]
    ]
    return found, bool(touching)
