"""Numbers made from published counts: percent, rate, index, change.

The denominator of a percentage is the published table with fewer variables. For a percentage of the women in a town, it
is the table by town and sex. It is never a sum of masked counts, unless the release is additive; there such tables are
offered like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError, listing, nearest
from ilba.output.wording import COUNT, MASKING, MEASURES, Measure
from ilba.service.asked import split, variable
from ilba.service.catalog import Catalog
from ilba.service.folder import TableEntry

FloatArray: TypeAlias = npt.NDArray[np.float64]
_FACTORS = {"percent": 100.0, "rate": 1000.0}


def measure_asked(entry: TableEntry, asked: Mapping[str, str]) -> Measure:
    """The measure that `measure` and `of` request; by default, counts."""
    name = asked.get("measure", COUNT.name).lower()
    if name not in MEASURES:
        raise InputError(f"measure is {name[:50]!r}.{nearest(name[:50], MEASURES)} It is {listing(MEASURES)}.")
    if name in ("count", "change"):
        if "of" in asked:
            raise InputError(f"of goes with percent, rate and index; measure is {name!r}.")
        return COUNT if name == "count" else Measure(name)
    axes = entry.served.axes(entry.table)
    if "of" in asked:
        wanted = [variable(one, axes) for one in split(asked["of"])]
        return Measure(name, tuple(one for one in axes if one in wanted))
    return Measure(name, tuple(one for one in axes if one in _areas(entry)))


def timed(catalog: Catalog, entry: TableEntry, places: list[list[int]], measure: Measure) -> Measure:
    """The measure with the times that it compares, if it is a change."""
    axes = entry.served.axes(entry.table)
    if measure.name != "change" or entry.served.time not in axes:
        return measure
    axis = axes.index(entry.served.time)
    codes = catalog.load(entry).dimensions[axis].codes
    return replace(measure, times=tuple(codes[at] for at in _known_times(places[axis])))


def values(catalog: Catalog, entry: TableEntry, places: list[list[int]], measure: Measure) -> FloatArray:
    """The numbers at some places of each axis, the last axis fastest; NaN if there is none."""
    axes = entry.served.axes(entry.table)
    counts = _counts(catalog, entry, places)
    time = entry.served.time
    if measure.name == "change":
        if time is None or time not in axes:
            raise InputError("a change needs a table over time. This one has no time.")
        return (counts - _before(catalog, entry, places, axes.index(time))).ravel()
    kept = {*measure.of, *([time] if time in axes else [])}
    with np.errstate(divide="ignore", invalid="ignore"):
        share = counts / _projected(catalog, entry, places, kept)
        if measure.name == "index":
            areas = _areas(entry)
            if not areas & set(axes):
                raise InputError("an index compares areas with all areas together, and this table has no areas.")
            rest = set(axes) - areas
            if not areas & set(axes) <= kept or rest <= kept:
                raise InputError(
                    "an index compares the share of a group inside each area. So the table needs a variable besides "
                    "its areas. `of` must name the areas, but not that variable."
                )
            whole = _projected(catalog, entry, places, rest) / _projected(catalog, entry, places, kept - areas)
            share = 100 * share / whole
        found = share * _FACTORS.get(measure.name, 1.0)
    return np.where(np.isfinite(found), np.round(found, measure.decimals), np.nan).ravel()


def bound_of(entry: TableEntry) -> int | None:
    """How far a count of a table may be from the truth; None if no bound is stated.

    The bound is stated for published tables. Sums that the service makes may be further off.
    """
    return _stated(entry) if entry.is_stored else None


def _stated(entry: TableEntry) -> int | None:
    manifest, threshold = entry.release.manifest, int(entry.release.manifest["threshold"])
    if manifest["method"] == "ilba":
        return threshold + threshold // 2
    if manifest["method"] == "cell-key":
        return int(manifest["parameters"]["D"])
    return int(manifest["bound"]) if manifest.get("bound") else None


def doubt_of(entry: TableEntry) -> int | None:
    """The largest difference of two counts that masking alone may make; None if there is no rule.

    It is twice the bound if one is stated. Otherwise, for masks, it is the rule of thumb 3K that the page names.
    """
    bound, manifest = _stated(entry), entry.release.manifest
    if bound is not None:
        return 2 * bound
    return 3 * int(manifest["threshold"]) if manifest["method"] in MASKING else None


def spans(
    catalog: Catalog, entry: TableEntry, places: list[list[int]], measure: Measure
) -> tuple[FloatArray, FloatArray]:
    """The smallest and largest possible value of each number by the stated bound; NaN if there is none."""
    axes, time, bound = entry.served.axes(entry.table), entry.served.time, bound_of(entry)
    if bound is None:
        raise InputError("no bound is stated for this table, so its numbers have no range.")
    counts = _counts(catalog, entry, places)
    if measure.name in ("count", "change"):
        wide = bound
        if measure.name == "change":
            before = _before(catalog, entry, places, axes.index(time)) if time in axes else np.nan
            counts, wide = counts - before, 2 * bound
        low = counts - wide
        return (np.maximum(low, 0) if measure == COUNT else low).ravel(), (counts + wide).ravel()
    kept = {*measure.of, *([time] if time in axes else [])}
    low, high = _shares(counts, _divisor(catalog, entry, places, kept), bound)
    if measure.name == "index":
        areas = _areas(entry)
        whole = _divisor(catalog, entry, places, set(axes) - areas)
        least, largest = _shares(whole, _divisor(catalog, entry, places, kept - areas), bound)
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = 100 * low / largest, 100 * high / least
    factor = _FACTORS.get(measure.name, 1.0)
    ends = [np.broadcast_to(factor * end, counts.shape) for end in (low, high)]
    found = [np.where(np.isfinite(end), np.round(end, measure.decimals), np.nan).ravel() for end in ends]
    return found[0], found[1]


def _divisor(catalog: Catalog, entry: TableEntry, places: list[list[int]], kept: Iterable[str]) -> FloatArray:
    """The counts in the denominator, if a bound is stated for them too."""
    target = _projection(entry, kept)
    if bound_of(target) is None:
        raise InputError("no bound is stated for what is divided by, so there is no range.")
    return _projected(catalog, entry, places, kept)


def _shares(part: FloatArray, whole: FloatArray, bound: int) -> tuple[FloatArray, FloatArray]:
    """The smallest and largest share that two counts allow, since the part cannot exceed the whole."""
    low = np.maximum(part - bound, 0) / np.maximum(whole + bound, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        high = np.where(whole > bound, (part + bound) / (whole - bound), 1.0)
    return low, np.minimum(high, 1.0)


def _areas(entry: TableEntry) -> set[str]:
    return {column for hierarchy in entry.release.design.hierarchies for column in hierarchy.columns}


def _counts(catalog: Catalog, entry: TableEntry, places: list[list[int]]) -> FloatArray:
    counts = catalog.load(entry).values(places).astype(np.float64)
    return counts.reshape([len(one) for one in places])


def _before(catalog: Catalog, entry: TableEntry, places: list[list[int]], axis: int) -> FloatArray:
    """The counts of the time before each of several times, or of the wave before a single one; NaN for the first.

    So the change of a time is always since one that is shown beside it, or that the title names.
    """
    known = _known_times(places[axis])
    rank = np.searchsorted(known, places[axis])
    earlier = [*places]
    earlier[axis] = [known[max(0, one - 1)] for one in rank.tolist()]
    shape = [-1 if place == axis else 1 for place in range(len(places))]
    return np.where((rank == 0).reshape(shape), np.nan, _counts(catalog, entry, earlier))


def _known_times(asked: Sequence[int]) -> list[int]:
    """The places of the times that are compared: several asked ones, or a single one and the wave before it."""
    times = sorted(set(asked))
    return times if len(times) != 1 else [*range(times[0])[-1:], *times]


def _projection(entry: TableEntry, kept: Iterable[str]) -> TableEntry:
    """The table with only some of the variables."""
    kept, axes = set(kept), entry.served.axes(entry.table)
    owners = {h.name: h.columns for h in entry.release.design.hierarchies}
    levels = {name: n if n and owners[name][n - 1] in kept else 0 for name, n in entry.table.levels.items()}
    target = entry.served.entry(levels, [key for key in entry.table.keys if key in kept])
    if target is None:
        by = listing(axis for axis in axes if axis in kept)
        raise InputError(
            f"the table {'by ' + by if by else 'of everybody'} was not published, so there is nothing to divide by. "
            f"Name other variables in of."
        )
    return target


def _projected(catalog: Catalog, entry: TableEntry, places: list[list[int]], kept: Iterable[str]) -> FloatArray:
    """The published counts of the table with only some of the variables; the other axes have length one."""
    kept = set(kept)
    axes = entry.served.axes(entry.table)
    target = _projection(entry, kept)
    loaded, whole = catalog.load(target), catalog.load(entry)
    wanted, known, shape = [], np.ones(1, dtype=bool), []
    there = iter(loaded.index)
    for axis, dimension, chosen in zip(axes, whole.dimensions, places, strict=True):
        if axis not in kept:
            shape.append(1)
            continue
        index, rows = next(there), dimension.paths.rows()
        found = [index.get(rows[place], -1) for place in chosen]
        wanted.append([max(0, place) for place in found])
        known = (known[:, None] & (np.array(found) >= 0)[None, :]).ravel()
        shape.append(len(chosen))
    counts = loaded.values(wanted).astype(np.float64)
    return np.where(known, counts, np.nan).reshape(shape)
