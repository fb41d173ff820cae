"""The proof that a folder depends on nothing else, and the lists that would tell who is there, one step at a time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import Design, FinestTable
from ilba.design.design import Origins
from ilba.design.population import Population
from ilba.design.tables import wanted_tables
from ilba.methods.controlled.search import Chosen
from ilba.release.folder import Declared
from ilba.release.proving import _equal, _shown_again, shown_rows, tell_of_lists_from_the_data
from ilba.tables.engine import KnownMasks


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


def test_rows_come_in_the_types_of_the_published_codes(agency):
    counts = pl.DataFrame({"town": ["1", "10", "2", "x"], "age": [1, 2, 3, 4], "N": [60, 40, 80, 1]})
    drawn = FinestTable.from_counts(counts, ["town"], ["age"], secret=agency / "agency.secret")
    finest = drawn.with_masks(KnownMasks(np.array([60, 40, 80, 0]), 0, 0), Chosen(("town.age",), None, held=True))
    declared, steps = declares(finest.design, listed("7")), []
    shown = {table.name: list(parts) for table, parts in shown_rows(finest, declared, lambda: steps.append(1))}
    assert set(shown) == {table.name for table in declared.wanted}
    assert pl.concat(shown["town.age"]).rows() == [(1, 1, 60), (2, 3, 80), (10, 2, 40)]
    assert len(steps) == 4


@pytest.mark.parametrize("blanks", [False, True])
def test_a_folder_is_made_again_from_its_rows_as_text_without_zeros(tmp_path, blanks):
    home, design, steps = tmp_path / "wave[1]", Design.of(["town"], []), []
    (home / "tables").mkdir(parents=True)
    pl.DataFrame({"N_masked": [99]}).write_parquet(home / "tables" / "all.parquet")
    town = pl.DataFrame({"town": [10, 9, 8, 7, 6], "N_masked": [1, 8, 0, None, 90]})
    town.write_parquet(home / "tables" / "town.parquet")
    declared = replace(declares(design, listed()), blanks=blanks)
    shown = [(table.name, *parts) for table, parts in _shown_again(home, declared, lambda: steps.append(1))]
    assert [(name, part.rows()) for name, part in shown] == [
        ("town", [("10", 1), ("6", 90), *([("7", None)] if blanks else []), ("9", 8)]),
        ("all", [(99,)]),
    ]
    assert len(steps) == 2


def declares(design, given, maps=None):
    return Declared(
        design, tuple(wanted_tables(design)), "controlled", "nonzero", "", "", "", "", {}, Population(), given,
        maps or {}, Origins(), None, False, "",
    )  # fmt: skip


def listed(*towns):
    return pl.DataFrame({"variable": ["town"] * len(towns), "code": list(towns)}, schema=dict.fromkeys(LIST, pl.String))


def shapes(*towns, **more):
    features = [{"type": "Feature", "id": town, "properties": None} for town in towns]
    return {"town": {"type": "FeatureCollection", "features": features, **more}}


LIST = ("variable", "code")
TOLD = "the {} of 'town' has a {} whose counts are all 0 after masking"
NAMED = [{"properties": {"code": "b"}}, {"id": "a", "properties": {"code": "nobody"}}, {"type": "Feature"}]


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
    declared = declares(finest.design, given, maps)
    shown = {"town": pl.Series(["a"]), "x": pl.Series(["1"])}
    tell_of_lists_from_the_data(finest, declared, shown)
    assert len(recwarn) == len(told)
    for one, words in zip(recwarn, told, strict=True):
        assert issubclass(one.category, ilba.Notice)
        assert TOLD.format(*words) in str(one.message)
    tell_of_lists_from_the_data(finest, declared, {"x": shown["x"]})  # no table shows a town
    assert len(recwarn) == len(told)
