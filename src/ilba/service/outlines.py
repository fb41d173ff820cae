"""The outlines of areas, read once: which areas touch, and how to draw them."""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ilba.service.catalog import Catalog, Recent
from ilba.service.folder import ServedRelease

Points: TypeAlias = npt.NDArray[np.float64]
IntArray: TypeAlias = npt.NDArray[np.int64]
_MOST_BYTES = 40 * 2**20  # of a map that is read for a picture or for neighbours
_SHARED = 2  # areas with this many common corners touch along a line


class Outlines:
    """The areas of a map: the points of their rings in one array, by the code of each."""

    def __init__(self, content: bytes) -> None:
        numbers, ends, codes = array("d"), [0], []
        first, read = [0], msgspec.json.Decoder(_DrawnFeature)
        for raw in msgspec.json.decode(content, type=_Collection).features:
            feature = read.decode(raw)  # one by one, so that few lists exist at once
            for ring in _rings(feature.geometry or {}):
                if len(ring) > 2:
                    for point in ring:
                        numbers.extend(point[:2])  # some maps also have heights
                    ends.append(len(numbers) // 2)
            codes.append(feature.code)
            first.append(len(ends) - 1)
        self._codes = codes
        self._at = {code: place for place, code in enumerate(codes)}
        self._points: Points = np.array(numbers, dtype=np.float64).reshape(-1, 2)
        self._ends = np.array(ends)
        """the start of each ring among the points, and the end of the last one"""
        self._first = np.array(first)
        """the start of the rings of each area"""
        self.size = 60 * len(self._points) + 200 * len(self._codes)
        """the approximate size in bytes"""

    def own(self, code: str) -> str:
        """The code as in the map: without the areas above, which a table may put before it."""
        return code if code in self._at else code.rpartition("/")[2]

    def rings(self, code: str) -> list[Points]:
        """The rings of an area."""
        at = self._at[code]
        return [self._points[self._ends[n] : self._ends[n + 1]] for n in range(self._first[at], self._first[at + 1])]

    @cached_property
    def _ring_areas(self) -> IntArray:
        """The area of each ring."""
        return np.repeat(np.arange(len(self._codes)), np.diff(self._first))

    @cached_property
    def _corners(self) -> IntArray:
        """A number for each point, equal for equal places."""
        x, y = np.round(self._points * 1e7).astype(np.int64).T
        return np.asarray(x * np.int64(0x1E3779B97F4A7C15) + y)

    def touching(self, code: str) -> list[str]:
        """The areas that share a border with the given one."""
        place = self._at.get(self.own(code))
        if place is None:
            return []
        own = self._corners[self._ends[self._first[place]] : self._ends[self._first[place + 1]]]
        there = np.flatnonzero(np.isin(self._corners, own))
        areas = self._ring_areas[np.searchsorted(self._ends, there, side="right") - 1]
        pairs = np.unique(np.stack([self._corners[there], areas]), axis=1)  # a corner of an area counts once
        shared = np.bincount(pairs[1], minlength=len(self._codes))
        shared[place] = 0
        return [self._codes[other] for other in np.flatnonzero(shared >= _SHARED)]

    def within(self, polygon: Sequence[tuple[float, float]]) -> set[str]:
        """The areas whose middle lies inside a polygon; the polygon is closed automatically."""
        corners = np.asarray(polygon, dtype=np.float64)
        if not np.isfinite(corners).all():
            return set()
        x, y = self._middles[:, 0], self._middles[:, 1]
        inside = np.zeros(len(x), dtype=bool)
        for (ax, ay), (bx, by) in zip(corners, np.roll(corners, -1, axis=0), strict=True):
            if ay != by:
                inside ^= ((ay > y) != (by > y)) & (x < (bx - ax) * (y - ay) / (by - ay) + ax)
        return {code for code, one in zip(self._codes, inside.tolist(), strict=True) if one}

    @cached_property
    def _middles(self) -> Points:
        """The centre of the largest ring of each area; NaN for an area without rings."""
        found = np.full((len(self._codes), 2), math.nan)
        if not len(self._points):
            return found
        ring = np.repeat(np.arange(len(self._ends) - 1), np.diff(self._ends))
        first = self._points[self._ends[:-1]]
        near = self._points - first[ring]  # small numbers, so that products lose little precision
        here, next_, of = near[:-1], near[1:], ring[:-1]
        cross = np.where(of == ring[1:], here[:, 0] * next_[:, 1] - next_[:, 0] * here[:, 1], 0.0)
        size = np.bincount(of, cross, minlength=len(first))
        with np.errstate(divide="ignore", invalid="ignore"):
            sums = [np.bincount(of, (here[:, n] + next_[:, n]) * cross, minlength=len(first)) for n in (0, 1)]
            middles = np.stack(sums, axis=1) / (3 * size)[:, None] + first
        order = np.lexsort((np.abs(size), self._ring_areas))
        order = order[size[order] != 0]  # the last ring written for an area is its largest
        found[self._ring_areas[order]] = middles[order]
        return found

    def paths(self, width: float, height: float) -> dict[str, str]:
        """Each area in a rectangle, as the `d` of an SVG path; degrees are projected by Mercator."""
        if not len(self._points):
            return {}
        is_degrees = bool((np.abs(self._points) <= (360, 90)).all())
        points = _projected(self._points, is_degrees)
        low, high = points.min(axis=0), points.max(axis=0)
        scale = min(width / max(high[0] - low[0], 1e-9), height / max(high[1] - low[1], 1e-9))
        shift = (np.array([width, height]) - scale * (high - low)) / 2
        points = np.round((points - low) * scale + shift, 1)
        rings = [_path(points[start:end]) for start, end in itertools.pairwise(self._ends.tolist())]
        spans = zip(self._codes, itertools.pairwise(self._first.tolist()), strict=True)
        return {code: "".join(rings[start:end]) for code, (start, end) in spans}


def _rings(shape: dict[str, Any]) -> Iterator[Any]:
    parts = shape.get("coordinates") or []
    if shape.get("type") == "Polygon":
        yield from parts
    elif shape.get("type") == "MultiPolygon":
        for part in parts:
            yield from part


def _projected(points: Points, is_degrees: bool) -> Points:
    x, y = points[:, 0], points[:, 1]
    if is_degrees:
        y = np.degrees(np.log(np.tan(math.pi / 4 + np.radians(np.clip(y, -85, 85)) / 2)))
    return np.stack([x, -y], axis=1)


def _path(ring: Points) -> str:
    moved = np.ones(len(ring), dtype=bool)
    moved[1:] = (ring[1:] != ring[:-1]).any(axis=1)  # skip corners equal to the previous one
    steps = " ".join(f"{x:g},{y:g}" for x, y in ring[moved].tolist())
    return f"M{steps}Z"


class _Feature(msgspec.Struct):
    """The part of a feature that identifies its area."""

    id: Any = None
    properties: dict[str, Any] | None = None

    @property
    def code(self) -> str:
        """The code of its area."""
        return str(self.id if self.id is not None else (self.properties or {}).get("code"))


class _DrawnFeature(_Feature):
    """A feature with its outline."""

    geometry: dict[str, Any] | None = None


class _Collection(msgspec.Struct):
    """The features of a map, as they are written."""

    features: list[msgspec.Raw]


class Maps:
    """The outlines that were read last."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._kept: Recent[Outlines] = Recent(128 * 2**20)
        self._written: Recent[dict[str, bytes]] = Recent(256 * 2**20)

    def of(self, served: ServedRelease, column: str) -> Outlines | None:
        """The outlines of a column's areas; None if there is no map, or if it is too large."""
        digest = self._catalog.map_digest(served, column)
        kept = self._kept.get(digest) if digest else None
        if digest is None or kept is not None:
            return kept
        content = self._catalog.map_content(served, column)
        if len(content) > _MOST_BYTES:
            return None
        kept = Outlines(content)
        self._kept.put(digest, kept, kept.size)
        return kept

    def inside(self, served: ServedRelease, column: str, codes: Sequence[str]) -> bytes:
        """The map of some areas of a column, as GeoJSON, because a national map is too large to send at once."""
        digest = self._catalog.map_digest(served, column)
        known = self._written.get(digest)
        if known is None:
            content = self._catalog.map_content(served, column)
            features = msgspec.json.decode(content, type=_Collection).features
            known = {msgspec.json.decode(one, type=_Feature).code: bytes(one) for one in features}
            self._written.put(digest, known, len(content) + 200 * len(known))
        some = (known.get(code) or known.get(code.rpartition("/")[2]) for code in codes)
        return b'{"type":"FeatureCollection","features":[%s]}' % b",".join(one for one in some if one)
