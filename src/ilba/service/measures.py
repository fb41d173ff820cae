"""Numbers that are made from published counts: percent, rate, index, change.

The denominator of a percentage is the published table with fewer variables: of women in a town is the table by town and
sex. It is never a sum of masked counts, unless the release is additive, where such tables are offered like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError, listing, nearest
from ilba.output.wording import COUNT, MEASURES, Measure
from ilba.service.asked import split, variable
from ilba.service.catalog import Catalog
from ilba.service.folder import TableEntry

FloatArray: TypeAlias = npt.NDArray[np.float64]
_FACTORS = {"percent": 100.0, "rate": 1000.0}


def measure_asked(entry: TableEntry, asked: Mapping[str, str]) -> Measure:
    """What is asked of a table by `measure` and `of`; counts where nothing is said."""
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


def values(catalog: Catalog, entry: TableEntry, places: list[list[int]], measure: Measure) -> FloatArray:
    """The numbers at some places of each axis, the last axis fastest; NaN where there is none."""
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
            whole = _projected(catalog, entry, places, rest) / _projected(catalog, entry, places, kept - areas)
            share = 100 * share / whole
        found = share * _FACTORS.get(measure.name, 1.0)
    return np.where(np.isfinite(found), np.round(found, measure.decimals), np.nan).ravel()


def _areas(entry: TableEntry) -> set[str]:
    return {column for hierarchy in entry.release.design.hierarchies for column in hierarchy.columns}


def _counts(catalog: Catalog, entry: TableEntry, places: list[list[int]]) -> FloatArray:
    counts = catalog.load(entry).values(places).astype(np.float64)
    return counts.reshape([len(one) for one in places])


def _before(catalog: Catalog, entry: TableEntry, places: list[list[int]], axis: int) -> FloatArray:
    """The counts of the time before each; NaN before the first."""
    earlier = [*places]
    earlier[axis] = [max(0, place - 1) for place in places[axis]]
    found = _counts(catalog, entry, earlier)
    first = np.array([place == 0 for place in places[axis]])
    shape = [-1 if place == axis else 1 for place in range(len(places))]
    return np.where(first.reshape(shape), np.nan, found)


def _projected(catalog: Catalog, entry: TableEntry, places: list[list[int]], kept: Iterable[str]) -> FloatArray:
    """The published counts of the table with some of the variables only, one long along the others."""
    kept = set(kept)
    axes = entry.served.axes(entry.table)
    owners = {h.name: h.columns for h in entry.release.design.hierarchies}
    levels = {name: n if n and owners[name][n - 1] in kept else 0 for name, n in entry.table.levels.items()}
    target = entry.served.entry(levels, [key for key in entry.table.keys if key in kept])
    if target is None:
        by = listing(axis for axis in axes if axis in kept)
        raise InputError(
            f"the table {'by ' + by if by else 'of everybody'} was not published, so there is nothing to divide by. "
            f"Name other variables in of."
        )
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
