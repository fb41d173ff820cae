"""Maps of any kind become GeoJSON in WGS 84 that a page can carry."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ilba
from ilba.data import shapes
from support import messy


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return messy.write(tmp_path_factory.mktemp("messy") / "data", records=100)


def test_a_geopackage_in_a_national_projection_is_turned_into_degrees(folder):
    plain = shapes.read_shapes(folder / "towns.gpkg").geojson("gem_key")
    assert [one["id"] for one in plain["features"]] == [*messy.TOWNS, "02099"]
    points = np.array(plain["features"][0]["geometry"]["coordinates"][0])
    assert np.all((points[:, 0] > 8.9) & (points[:, 0] < 9.2) & (points[:, 1] > 49) & (points[:, 1] < 50))
    assert all(one["properties"] == {} for one in plain["features"])


def test_a_shapefile_is_the_same_map(folder, tmp_path):
    import pyogrio

    about, _, geometry, fields = pyogrio.raw.read(folder / "towns.gpkg")
    pyogrio.raw.write(tmp_path / "t.shp", geometry, fields, about["fields"], geometry_type="Polygon", crs=about["crs"])
    ours = shapes.read_shapes(tmp_path / "t.shp").geojson("gem_key")
    assert [one["id"] for one in ours["features"]] == [*messy.TOWNS, "02099"]


def test_geojson_needs_no_extra_and_stays_as_it_is(tmp_path):
    square = {"type": "Polygon", "coordinates": [[[0, 0], [0, 1], [1, 1], [0, 0]]]}
    features = [{"type": "Feature", "id": 7, "properties": {"AGS": 1.0, "n": "x"}, "geometry": square}]
    (tmp_path / "t.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    found = shapes.read_shapes(tmp_path / "t.geojson")
    assert found.properties.row(0, named=True) == {"id": "7", "AGS": "1", "n": "x"}
    assert found.geojson("AGS")["features"] == [{"type": "Feature", "id": "1", "properties": {}, "geometry": square}]


def test_a_heavy_map_is_made_simpler_and_neighbours_keep_their_border(monkeypatch, tmp_path):
    import shapely

    monkeypatch.setattr(shapes, "_CARRIED", 300)
    wave = [(np.sin(y / 20) / 20 + 1, y / 500) for y in range(501)]
    left = shapely.Polygon([(0, 0), *wave, (0, 1)])
    right = shapely.Polygon([(2, 0), *wave, (2, 1)])
    features = [
        {"type": "Feature", "id": name, "properties": {}, "geometry": json.loads(shapely.to_geojson(one))}
        for name, one in (("l", left), ("r", right))
    ]
    (tmp_path / "t.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    plain = shapes.read_shapes(tmp_path / "t.geojson").geojson("id")
    one, other = (shapely.from_geojson(json.dumps(f["geometry"])) for f in plain["features"])
    assert shapely.get_num_coordinates(one) < 200
    assert shapely.intersection(one, other).area < 1e-4
    assert abs(shapely.union(one, other).area - shapely.union(left, right).area) < 1e-2


@pytest.mark.parametrize(
    ("code", "says"),
    [("gem_kei", "no property 'gem_kei'. Did you mean 'gem_key'"), ("gen2", "no property 'gen2'. Did you mean 'gen'")],
)
def test_a_property_that_is_not_there_is_answered_with_the_nearest(folder, code, says):
    with pytest.raises(ilba.InputError, match=says):
        shapes.read_shapes(folder / "towns.gpkg").geojson(code)


def test_a_property_that_is_not_unique_is_no_code(tmp_path):
    features = [{"type": "Feature", "properties": {"c": "a"}, "geometry": None}] * 2
    (tmp_path / "t.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    with pytest.raises(ilba.InputError, match=r"is the same for several shapes \(a\)"):
        shapes.read_shapes(tmp_path / "t.geojson").geojson("c")


@pytest.mark.parametrize("text", ["{", "[]", '{"features": 3}', '{"features": [1]}'])
def test_what_is_no_map_is_refused(text, tmp_path):
    (tmp_path / "t.geojson").write_text(text)
    with pytest.raises(ilba.InputError, match="cannot be read as GeoJSON"):
        shapes.read_shapes(tmp_path / "t.geojson")
