"""Maps: the shapes of areas in GeoJSON, GeoPackage, shapefiles and others, for a page in WGS 84.

GeoJSON is read here. Other files, and GeoJSON in another projection, need the extra `maps`. A map with too
many points for a page is simplified; neighbours keep their common border.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.errors import InputError, MissingExtra, listing, nearest

Path_: TypeAlias = str | os.PathLike[str]
MAPS = ("geojson", "gpkg", "shp", "fgb", "gml", "kml", "topojson", "json")
_CARRIED = 120_000
"""the most points of a map on a page"""
_WORLD = ("EPSG:4326", "OGC:CRS84", "urn:ogc:def:crs:OGC:1.3:CRS84", "urn:ogc:def:crs:EPSG::4326")


@dataclass(frozen=True)
class Shapes:
    """The areas of a map: their properties and shapes."""

    file: str
    properties: pl.DataFrame
    """a row for each area, every property as text"""
    projection: str
    """the projection of the coordinates, such as EPSG:25832"""
    features: Any
    """GeoJSON features, or geometries of shapely"""

    def geojson(self, code: str) -> dict[str, Any]:
        """The map as GeoJSON in WGS 84; each feature has only the code of its area, as `id`."""
        if code not in self.properties.columns:
            raise InputError(
                f"the map {self.file!r} has no property {code!r}.{nearest(code, self.properties.columns)} "
                f"It has {listing(self.properties.columns, 20)}."
            )
        codes = self.properties[code].str.strip_chars()
        if codes.null_count() or codes.n_unique() < len(codes):
            twice = codes.filter(codes.is_duplicated()).unique().sort()
            fault = (
                f"is the same for several shapes ({listing(twice, 4)})" if len(twice) else "is missing for some shapes"
            )
            raise InputError(f"the property {code!r} of the map {self.file!r} {fault}. Name one that is unique.")
        geometry = self._in_degrees()
        features = [
            {"type": "Feature", "id": name, "properties": {}, "geometry": shape}
            for name, shape in zip(codes, geometry, strict=True)
        ]
        return {"type": "FeatureCollection", "features": features}

    def _in_degrees(self) -> list[Any]:
        """The geometries in WGS 84, simple enough for a page."""
        if isinstance(self.features, list):
            shapes = [feature.get("geometry") for feature in self.features]
            if self.projection in _WORLD and sum(map(_points, shapes)) <= _CARRIED:
                return shapes
            shapely = _extra("shapely", self.file)
            drawn = shapely.from_geojson([json.dumps(shape) for shape in shapes])
        else:
            shapely, drawn = _extra("shapely", self.file), self.features
        if self.projection not in _WORLD:
            drawn = _turned(drawn, self.projection, self.file)
        drawn = _simpler(shapely, drawn)
        return [json.loads(text) for text in shapely.to_geojson(shapely.set_precision(drawn, 1e-5, mode="pointwise"))]


def is_map(file: Path) -> bool:
    """Whether a file is a map, by its name; a .json file is one if it has features."""
    ending = file.suffix.lower().removeprefix(".")
    if ending == "json":
        with file.open("rb") as begins:
            return b"FeatureCollection" in begins.read(2000)
    return ending in MAPS


def read_shapes(path: Path_, layer: str = "") -> Shapes:
    """Read a map."""
    file = Path(path)
    if not file.is_file():
        folder = file.parent if file.parent.is_dir() else Path()
        raise InputError(f"there is no map {str(file)!r}.{nearest(file.name, (p.name for p in folder.iterdir()))}")
    if file.suffix.lower() in (".geojson", ".json"):
        return _geojson(file)
    pyogrio = _extra("pyogrio", str(file))
    layers = [str(name) for name, kind in pyogrio.list_layers(file) if kind is not None] or [file.stem]
    if layer and layer not in layers:
        raise InputError(
            f"the map {str(file)!r} has no layer {layer!r}.{nearest(layer, layers)} It has {listing(layers)}."
        )
    try:
        about, _, geometry, columns = pyogrio.raw.read(file, layer=layer or layers[0])
    except Exception as problem:  # GDAL raises many kinds of errors
        raise InputError(f"the map {str(file)!r} cannot be read: {problem}") from None
    if not about["crs"]:
        raise InputError(f"the map {str(file)!r} does not name its projection. A shapefile needs its .prj file.")
    named = zip(about["fields"], columns, strict=True)
    properties = pl.DataFrame([_texts(str(name), values.tolist()) for name, values in named])
    return Shapes(str(file), properties, str(about["crs"]), _extra("shapely", str(file)).from_wkb(geometry))


def with_code(feature: Mapping[str, Any], column: str = "code", instead: str = "") -> Mapping[str, Any]:
    """A feature that names its area: by `id`, a property `code`, or the property with the column's name.

    `instead` is what else to do if it has none.
    """
    given = feature.get("properties")
    properties = given if isinstance(given, Mapping) else {}
    if feature.get("id", properties.get("code")) is not None:
        return feature
    names = dict.fromkeys(("code", column))
    code = next((properties[name] for name in names if properties.get(name) is not None), None)
    if code is None:
        raise InputError(
            f"a feature of the geometry has no code: no `id`, and no property {' or '.join(map(repr, names))}. Its "
            f"properties: {listing(properties, 20) or 'none'}. Call the one with the code {column!r}.{instead}"
        )
    return {**feature, "id": code}


def _geojson(file: Path) -> Shapes:
    try:
        plain = json.loads(file.read_text("utf-8-sig"))
        features = plain["features"]
        rows = [dict(feature.get("properties") or {}) for feature in features]
        ids = [feature.get("id") for feature in features]
        named = ((plain.get("crs") or {}).get("properties") or {}).get("name") or _WORLD[0]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(f"the map {str(file)!r} cannot be read as GeoJSON: it has no list of features.") from None
    names = dict.fromkeys(name for row in rows for name in row)
    columns = [_texts(name, [row.get(name) for row in rows]) for name in names]
    if any(one is not None for one in ids) and "id" not in names:
        columns.insert(0, _texts("id", ids))
    return Shapes(str(file), pl.DataFrame(columns), str(named), features)


def _texts(name: str, values: list[Any]) -> pl.Series:
    def text(value: Any) -> str | None:
        if value is None or value != value:
            return None
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    return pl.Series(name, [text(value) for value in values], dtype=pl.String)


def _points(shape: Any) -> int:
    """How many points a geometry has."""
    inside = shape.get("coordinates") if isinstance(shape, dict) else shape
    if not isinstance(inside, list) or not inside:
        return 0
    return 1 if isinstance(inside[0], int | float) else sum(map(_points, inside))


def _turned(drawn: Any, projection: str, file: str) -> Any:
    shapely, pyproj = _extra("shapely", file), _extra("pyproj", file)
    try:
        turn = pyproj.Transformer.from_crs(projection, "EPSG:4326", always_xy=True)
    except pyproj.exceptions.CRSError:
        raise InputError(f"the map {file!r} has an unknown projection ({projection[:60]}).") from None
    return shapely.transform(drawn, turn.transform, interleaved=False)


def _simpler(shapely: Any, drawn: Any) -> Any:
    """Simplify shapes for a page, if they have too many points."""
    left, bottom, right, top = shapely.total_bounds(drawn)
    tolerance = max(right - left, top - bottom) / 20_000
    simple = drawn
    while shapely.get_num_coordinates(simple).sum() > _CARRIED and tolerance < max(right - left, top - bottom) / 20:
        simple = shapely.coverage_simplify(drawn, tolerance)
        tolerance *= 2
    return simple


def _extra(name: str, file: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        raise MissingExtra(f"reading the map {file!r} needs {name}. Type: pip install 'ilba[maps]'") from None
