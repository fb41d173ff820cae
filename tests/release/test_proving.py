"""The proof that a folder depends on nothing else, and the lists that would tell who is there, one step at a time."""

from __future__ import annotations

import polars as pl
import pytest

import ilba
from ilba import FinestTable
from ilba.design.design import Origins
from ilba.design.population import Population
from ilba.design.tables import wanted_tables
from ilba.release.folder import Declared
from ilba.release.proving import _equal, tell_of_lists_from_the_data


@pytest.mark.parametrize("size", [0, 1, 2**20, 3 * 2**20 + 1])
def test_files_are_equal_if_every_byte_is(tmp_path, size):
    content = bytearray(size)
    (tmp_path / "one").write_bytes(content)
    (tmp_path / "two").write_bytes(content)
    assert _equal(tmp_path / "one", tmp_path / "two")
    for place in (0, size - 1) if size else ():
        content[place] ^= 1
        (tmp_path / "two").write_bytes(content)
        assert not _equal(tmp_path / "one", tmp_path / "two")
        content[place] ^= 1
    (tmp_path / "two").write_bytes(content + b"\0")
    assert not _equal(tmp_path / "one", tmp_path / "two")


def listed(*towns):
    return pl.DataFrame({"variable": ["town"] * len(towns), "code": list(towns)}, schema=dict.fromkeys(LIST, pl.String))


def shapes(*towns, **more):
    features = [{"type": "Feature", "id": town, "properties": None} for town in towns]
    return {"town": {"type": "FeatureCollection", "features": features, **more}}


LIST = ("variable", "code")
TOLD = "the {} of 'town' has a {} whose counts are all 0 after masking"
NAMED = [{"properties": {"code": "a"}}, {"id": "b", "properties": {"code": "nobody"}}, {"type": "Feature"}]


@pytest.mark.parametrize(
    ("given", "maps", "told"),
    [
        (listed(), {}, []),
        (listed("a"), shapes("a"), []),
        (listed("b"), {}, [("code list", "code")]),
        (listed("a", "b"), {}, [("code list", "code")]),
        (listed("a", "b", "nobody"), shapes("a", "b", "nobody"), []),
        (listed("a", "b", "c", "nobody"), shapes("b"), [("map", "shape for an area")]),
        (listed("a", "b", "c"), shapes("a", "b", "c"), [("code list", "code"), ("map", "shape for an area")]),
        (listed(), shapes(features=NAMED), [("map", "shape for an area")]),
        (listed(), {"town": {"type": "FeatureCollection"}}, []),
    ],
)
def test_a_list_or_map_that_names_no_empty_area_tells_that_somebody_is_there(given, maps, told, recwarn):
    counts = pl.DataFrame(
        {"town": ["a", "b", "c", None], "x": [1, 1, 1, 1], "N": [9, 1, 2, 3], "N_masked": [9, 0, 0, 0]}
    )
    finest = FinestTable.from_counts(counts, ["town"], ["x"], missing="category")
    design = finest.design
    declared = Declared(
        design, tuple(wanted_tables(design)), "controlled", "nonzero", "", "", "", "", {}, Population(), given, maps,
        Origins(), None, False, "",
    )  # fmt: skip
    shown = {"town": pl.Series(["a"]), "x": pl.Series(["1"])}
    tell_of_lists_from_the_data(finest, declared, shown)
    assert len(recwarn) == len(told)
    for one, words in zip(recwarn, told, strict=True):
        assert issubclass(one.category, ilba.Notice)
        assert TOLD.format(*words) in str(one.message)
    tell_of_lists_from_the_data(finest, declared, {"x": shown["x"]})  # no table shows a town
    assert len(recwarn) == len(told)
