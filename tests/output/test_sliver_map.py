"""The map of slivers, for the methodologist."""

from __future__ import annotations

import json

import polars as pl
import pytest

import ilba
from ilba import InputError, charts

pytestmark = pytest.mark.slow

PEOPLE = pl.DataFrame({"town": ["a", "a", "b", "c"], "square": ["x", "y", "y", "z"], "N": [40, 3, 60, 50]})


def squares(codes):
    """A row of squares, as GeoJSON."""
    corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "id": code,
                "properties": {},
                "geometry": {"type": "Polygon", "coordinates": [[[x + place, y] for x, y in corners]]},
            }
            for place, code in enumerate(codes)
        ],
    }


@pytest.fixture(scope="module")
def found():
    finest = ilba.FinestTable.from_counts(PEOPLE, {"a": ["town"], "b": ["square"]}, [], secret=ilba.Secret(bytes(32)))
    return ilba.slivers(finest, "town", "square", most=1, methods=["rounding:base=3,kind=conventional", "suppression"])


def shapes(chart):
    drawn = chart.to_dict()
    held = [layer.get("data", drawn.get("data")) for layer in drawn.get("layer", [drawn])]
    return [one["values"] if "values" in one else drawn["datasets"][one["name"]] for one in held]


def test_each_area_of_a_sliver_tells_how_few_people_differ(found):
    towns, outlines = shapes(ilba.sliver_map(found, squares("abc"), squares("xyz")))
    assert {one["code"]: one["fewest"] for one in towns} == {"a": 3, "b": 3, "c": None}
    assert len(outlines) == 3


def test_the_map_of_a_method_shows_what_everybody_proves_under_it(found):
    proven = found.filter(pl.col("suppression proven"))["set"].to_list()
    (towns,) = shapes(ilba.sliver_map(found, squares("abc"), method="suppression"))
    assert [one["code"] for one in towns if one["slivers"]] == sorted(set(proven))
    with pytest.raises(InputError, match="do not have the method 'noise'"):
        ilba.sliver_map(found, squares("abc"), method="noise")


def test_an_area_without_a_shape_is_refused_and_a_file_is_marked_confidential(found, tmp_path):
    with pytest.raises(InputError, match="no shape for 1 area of the slivers: b"):
        ilba.sliver_map(found, squares("ac"))
    (tmp_path / "towns.geojson").write_text(json.dumps(squares("abc")))
    chart = ilba.sliver_map(found, tmp_path / "towns.geojson")
    charts.save(chart, tmp_path / "map.html")
    assert (tmp_path / "map.html").stat().st_mode & 0o077 == 0
