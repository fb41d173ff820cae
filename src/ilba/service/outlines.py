"""The outlines of areas, read once: which areas touch, and how they are drawn in a picture."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from ilba.service.catalog import Catalog, Recent
from ilba.service.folder import ServedRelease

Points: TypeAlias = npt.NDArray[np.float64]
_MOST_BYTES = 40 * 2**20  # of a map that is read for a picture or for neighbours
_SHARED = 2  # corners that two areas have in common from which on they touch along a line


class Outlines:
    """The areas of a map: their rings as points, by the code of each."""

    def __init__(self, content: bytes) -> None:
        collection = json.loads(content)
        self.rings: dict[str, list[Points]] = {}
        for feature in collection["features"]:
            code = feature.get("id", (feature.get("properties") or {}).get("code"))
            found = [np.asarray(ring, dtype=np.float64)[:, :2] for ring in _rings(feature.get("geometry") or {})]
            self.rings[str(code)] = [ring for ring in found if len(ring) > 2]
        self._codes = list(self.rings)
        flat = [ring for rings in self.rings.values() for ring in rings]
        points = np.concatenate(flat) if flat else np.zeros((0, 2))
        sizes = [sum(len(ring) for ring in rings) for rings in self.rings.values()]
        self._area = np.repeat(np.arange(len(sizes)), sizes)
        self._corner = np.unique(np.round(points, 7), axis=0, return_inverse=True)[1].ravel()
        self.size = 80 * len(points) + 200 * len(sizes)
        """about how many bytes it takes"""

    def own(self, code: str) -> str:
        """The code as the map spells it: without the areas above, where the table has them before it."""
        return code if code in self.rings else code.rpartition("/")[2]

    def touching(self, code: str) -> list[str]:
        """The areas that have a border with one."""
        if self.own(code) not in self.rings:
            return []
        place = self._codes.index(self.own(code))
        pairs = np.unique(np.stack([self._corner, self._area]), axis=1)
        there = np.isin(pairs[0], self._corner[self._area == place])
        shared = np.bincount(pairs[1][there], minlength=len(self._codes))
        shared[place] = 0
        return [self._codes[other] for other in np.flatnonzero(shared >= _SHARED)]

    def within(self, polygon: Sequence[tuple[float, float]]) -> set[str]:
        """The areas whose middle lies inside a polygon, which is closed by itself."""
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
        """The centre of the largest ring of each area; nowhere for an area without one."""
        return np.array([_middle(rings) for rings in self.rings.values()]).reshape(-1, 2)

    def paths(self, width: float, height: float) -> dict[str, str]:
        """How each area is drawn in a rectangle, as the `d` of an SVG path; degrees in Mercator's projection."""
        flat = [ring for rings in self.rings.values() for ring in rings]
        if not flat:
            return {}
        points = np.concatenate(flat)
        is_degrees = bool((np.abs(points[:, 0]) <= 360).all() and (np.abs(points[:, 1]) <= 90).all())
        drawn = {code: [_projected(ring, is_degrees) for ring in rings] for code, rings in self.rings.items()}
        points = _projected(points, is_degrees)
        low, high = points.min(axis=0), points.max(axis=0)
        scale = min(width / max(high[0] - low[0], 1e-9), height / max(high[1] - low[1], 1e-9))
        shift = (np.array([width, height]) - scale * (high - low)) / 2
        found = {}
        for code, rings in drawn.items():
            placed = [np.round((ring - low) * scale + shift, 1) for ring in rings]
            found[code] = "".join(_path(ring) for ring in placed)
        return found


def _middle(rings: list[Points]) -> tuple[float, float]:
    best, found = -1.0, (math.nan, math.nan)
    for ring in rings:
        near = ring - ring[0]  # small numbers, so that little is lost where they are multiplied
        cross = near[:-1, 0] * near[1:, 1] - near[1:, 0] * near[:-1, 1]
        size = float(cross.sum())
        if abs(size) > best and size:
            best = abs(size)
            x, y = (((near[:-1] + near[1:]) * cross[:, None]).sum(axis=0) / (3 * size) + ring[0]).tolist()
            found = (x, y)
    return found


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
    moved[1:] = (ring[1:] != ring[:-1]).any(axis=1)  # corners that fall on the one before are left out
    steps = " ".join(f"{x:g},{y:g}" for x, y in ring[moved].tolist())
    return f"M{steps}Z"


class _Feature(msgspec.Struct):
    """What of a feature says which area it is."""

    id: Any = None
    properties: dict[str, Any] | None = None

    @property
    def code(self) -> str:
        """The code of its area."""
        return str(self.id if self.id is not None else (self.properties or {}).get("code"))


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
        """The outlines of a column's areas; none where there is no map, or one too large to be drawn here."""
        found = self._catalog.geometry(served, column)
        if found is None or len(found[0]) > _MOST_BYTES:
            return None
        kept = self._kept.get(found[2])
        if kept is None:
            kept = Outlines(found[0])
            self._kept.put(found[2], kept, kept.size)
        return kept

    def inside(self, served: ServedRelease, column: str, codes: Sequence[str]) -> bytes:
        """The map of some areas of a column, as GeoJSON: of a nation nobody needs all of it at once."""
        found = self._catalog.geometry(served, column)
        if found is None:
            return b'{"type":"FeatureCollection","features":[]}'
        known = self._written.get(found[2])
        if known is None:
            features = msgspec.json.decode(found[0], type=_Collection).features
            known = {msgspec.json.decode(one, type=_Feature).code: bytes(one) for one in features}
            self._written.put(found[2], known, len(found[0]) + 200 * len(known))
        some = (known.get(code) or known.get(code.rpartition("/")[2]) for code in codes)
        return b'{"type":"FeatureCollection","features":[%s]}' % b",".join(one for one in some if one)
