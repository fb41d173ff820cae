"""Which codes a release names, in which order, and what its complete grids hold."""

from __future__ import annotations

import itertools
import json
import sys
import warnings

import polars as pl
import pytest

import ilba
from ilba import FinestTable, PublishedTables, Secret
from support.leaks import RAW_SECRET, every_code, walk_for_leaks
from support.people import HKEY, ILBA, KEY

KEPT = {**ILBA, "secret": Secret(RAW_SECRET)}
"""for masks that came with their counts: the ledger keeps them under a secret"""


def test_a_code_whose_counts_were_all_masked_to_0_is_not_listed_unless_the_agency_gave_it(tmp_path):
    counts = pl.DataFrame({"t": ["a", "a", "b"], "x": ["p", "rare", "p"], "N": [9, 1, 2], "N_masked": [9, 0, 0]})
    finest = FinestTable.from_counts(counts, ["t"])
    bare = finest.release(tmp_path / "bare", **KEPT)
    assert set(bare.codes["code"]) == {"a", "p"}
    assert b"rare" not in b"".join(f.read_bytes() for f in bare.path.rglob("*") if f.is_file())
    given = pl.DataFrame(
        {"variable": ["x", "x", "x"], "code": ["p", "rare", "never"], "label_en": ["P", "Rare", "Never"]}
    )
    with pytest.warns(ilba.Notice, match="does not name 1 code of the tables: t a"):
        told = finest.release(tmp_path / "told", labels=given, **KEPT)
    assert set(told.codes["code"]) == {"a", "p", "rare", "never"}


@pytest.mark.long
def test_strict_stops_at_an_unknown_code_of_a_listed_column_and_not_at_a_column_without_a_list(tmp_path):
    counts = pl.DataFrame({"t": ["a", "b"], "x": ["p", "q"], "N": [9, 8], "N_masked": [9, 8]})
    finest = FinestTable.from_counts(counts, ["t"])
    given = pl.DataFrame({"variable": ["t", "t"], "code": ["a", "b"], "label_en": ["A", "B"]})
    with pytest.warns(ilba.Advice, match="does not name 2 codes of the tables: x p, x q"):
        finest.release(tmp_path / "one", labels=given, **KEPT)
    with pytest.warns(ilba.Notice, match="does not name 3 codes of the tables: t b, x p, x q") as told:
        finest.release(tmp_path / "two", labels=given.head(1), **KEPT)
    assert not any(issubclass(one.category, ilba.Advice) for one in told)
    named = pl.concat([given, pl.DataFrame({"variable": ["t"], "code": [""], "label_en": ["Town"]})])
    with pytest.warns(ilba.Advice, match="empty text as a code of t, .* leave its code missing"):
        finest.release(tmp_path / "three", labels=named, **KEPT)


@pytest.mark.long
def test_the_code_list_names_what_the_agency_gave_then_what_stands_in_a_table_with_its_parent(tmp_path):
    counts = pl.DataFrame(
        {
            "r": ["A", "A", "B", "B"],
            "t": ["a1", "a2", "b1", "b2"],
            "x": [10, 9, 9, 7],
            "N": [9, 8, 7, 1],
            "N_masked": [9, 8, 7, 0],
        }
    )
    finest = FinestTable.from_counts(counts, ["r", "t"])
    bare = finest.release(tmp_path / "bare", **KEPT)
    assert bare.codes.columns == ["variable", "code", "label_en", "label_ko", "parent"]
    assert bare.codes.rows() == [
        ("r", "A", "A", None, None),
        ("r", "B", "B", None, None),
        ("t", "a1", "a1", None, "A"),
        ("t", "a2", "a2", None, "A"),
        ("t", "b1", "b1", None, "B"),
        ("x", "9", "9", None, None),
        ("x", "10", "10", None, None),
    ]
    given = pl.DataFrame(
        {
            "variable": ["x", "x", "t", "t", "r"],
            "code": [None, "10", "a2", "c1", "A"],
            "label_en": ["The x", "ten", "A two", "C one", "a"],
            "label_ko": ["엑스", "십", None, None, None],
            "parent": [None, None, "A", "C", None],
        }
    )
    with pytest.warns(ilba.Notice, match="does not name 4 codes of the tables: r B, t a1, t b1, x 9"):
        told = finest.release(tmp_path / "told", labels=given, **KEPT)
    assert told.codes.rows() == [
        ("r", "A", "a", None, None),
        ("r", "B", "B", None, None),
        ("t", "a2", "A two", None, "A"),
        ("t", "c1", "C one", None, "C"),
        ("t", "a1", "a1", None, "A"),
        ("t", "b1", "b1", None, "B"),
        ("x", None, "The x", "엑스", None),
        ("x", "10", "ten", "십", None),
        ("x", "9", "9", None, None),
    ]
    whole = pl.DataFrame(bare.codes)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = finest.release(tmp_path / "again", labels=whole, **KEPT)
    assert again.codes.equals(bare.codes)


def test_in_the_grid_reading_all_codes_are_public_unless_masks_were_chosen_jointly(tmp_path):
    counts = pl.DataFrame({"t": ["a", "a", "b", "b"], "x": ["p", "rare", "p", "never"], "N": [9, 1, 2, 0]})
    finest = FinestTable.from_counts(counts, ["t"], cells="grid", secret=Secret(RAW_SECRET))
    everything = {"a", "b", "p", "rare", "never"}
    for labels in (None, every_code(counts.head(3), ["t"], ["x"])):
        with pytest.raises(
            ilba.InputError, match=r"needs a declared code list for .: .* build with labels= \(--labels\)"
        ):
            finest.release(tmp_path / "out", labels=labels, **ILBA)
    release = finest.release(tmp_path / "out", rows="grid", labels=every_code(counts, ["t"], ["x"]), **ILBA)
    assert set(release.codes["code"]) == everything
    assert release.table("t.x").select("t", "x").rows() == list(itertools.product("ab", ["never", "p", "rare"]))
    # With masks chosen jointly the cells that nobody is in play no part, so the code lists need not be public.
    finest = FinestTable.from_counts(counts, ["t"], cells="grid", secret=Secret(RAW_SECRET))
    chosen = finest.release(tmp_path / "chosen", ledger=tmp_path / "another.ledger")
    shown = {code for table in chosen.tables for row in chosen.table(table).drop("N_masked").rows() for code in row}
    assert set(chosen.codes["code"]) == shown
    assert shown < everything


@pytest.mark.slow
def test_a_grid_that_is_too_large_is_refused_and_one_that_just_fits_is_not(finest, tmp_path, monkeypatch):
    whole = finest.release(tmp_path / "whole", rows="grid", max_keys=1)
    most = max(table.rows for table in whole.tables.values())
    monkeypatch.setattr(sys.modules["ilba.release.folder"], "_MOST_ROWS", most)
    finest.release(tmp_path / "fits", rows="grid", max_keys=1)
    monkeypatch.setattr(sys.modules["ilba.release.folder"], "_MOST_ROWS", most - 1)
    with pytest.raises(ilba.InputError, match=f"has more than {most - 1:,} rows"):
        finest.release(tmp_path / "out", rows="grid", max_keys=1)
    assert {p.name for p in tmp_path.iterdir()} == {"whole", "fits"}


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_the_code_lists_of_a_release_are_what_an_outsider_knows_of_the_cells(people, tmp_path, cells, secret):
    given = every_code(people.head(400)) if cells == "grid" else None
    finest = ilba.build(people.head(400), HKEY, KEY, secret=secret, cells=cells, labels=given)
    release = finest.release(tmp_path / "out", max_keys=1, **ILBA)
    lists = release.code_lists()
    for ours, theirs in zip(lists.lists, finest.codes.lists, strict=True):
        assert ours.labels.schema == theirs.labels.schema
        known = theirs.labels.rows() if cells == "grid" else seen(release, theirs.columns)
        assert sorted(ours.labels.rows()) == sorted(known)
    frames = {name: release.table(name) for name in release.tables}
    outside = ilba.audit(PublishedTables.from_frames(lists, frames))
    alone = ilba.audit(release)
    assert alone.ranges.equals(outside.ranges)
    assert alone.cells_small is None
    if cells == "grid":
        assert alone.ranges.equals(ilba.audit(release, store=finest).ranges)


def seen(release, columns):
    """The labels of a dimension that stand in the tables which have all its columns."""
    frames = [release.table(name) for name, table in release.tables.items() if set(columns) <= set(table.columns)]
    return pl.concat([frame.select(columns) for frame in frames]).unique().rows()


@pytest.mark.parametrize("method", ["controlled", "ilba", "suppression", "rounding:3", "small-count-rounding:5"])
def test_an_outsider_audits_a_release_that_shows_neither_the_finest_level_nor_every_key(
    people, finest, tmp_path, method
):
    wanted = ["town.sex", "town.age", "region"]
    release = finest.release(tmp_path / "out", method, wanted, accept_risk=True, ledger=False)
    assert sorted(release.code_lists().unlisted) == ["block", "job"]
    report = ilba.audit(release)
    assert report.cells_small is None
    assert report.safe == (method == "controlled")
    labels = ["region", "town", "sex", "age"]
    found = report.ranges.join(people.group_by(labels).len("N"), on=labels, how="left").fill_null(0)
    assert found["N"].sum() == people.height
    assert found.filter(pl.col("N").is_between("low", "high")).height == found.height
    if method == "controlled":
        assert ilba.audit(release, areas=True).safe


def test_releases_are_audited_together_only_if_all_codes_are_known(finest, tmp_path):
    first, second = (finest.release(tmp_path / name, tables=["town", "all"], **ILBA) for name in ("first", "second"))
    with pytest.raises(ilba.InputError, match=r"names no code of block, sex, age, job, which none of its tables shows"):
        ilba.audit([first, second])
    assert ilba.audit([first, second], stores=[finest]).cells_small is not None


def test_a_table_without_rows_leaves_its_codes_unknown_and_needs_the_store(tmp_path):
    counts = pl.DataFrame({"r": ["A"] * 3, "t": ["a", "b", "c"], "N": [3, 3, 3], "N_masked": [0, 0, 0]})
    finest = FinestTable.from_counts(counts, ["r", "t"], [])
    release = finest.release(tmp_path / "out", tables=["r", "t"], **KEPT)
    with pytest.raises(ilba.InputError, match=r"the tables by t are empty, and no code list names a code there"):
        ilba.audit(release)


def test_a_release_has_only_the_tables_that_were_asked_for(finest, tmp_path):
    release = finest.release(tmp_path / "out", tables=["town", "all"], **ILBA)
    assert ilba.audit(release, store=finest).published.tables.keys() == {(2, 0, 0, 0), (0, 0, 0, 0)}
    with pytest.raises(ilba.InputError, match=r"this release has no table 'all\.sex'\. It has town, all"):
        release.find(key="sex")


@pytest.mark.slow
def test_labels_and_maps_travel_with_a_release(tmp_path, secret):
    people = ilba.datasets.census(20_000)
    finest = ilba.build(people, ["LA1", "LA2", "LA3", "OA"], ["gender", "mar"], secret=secret)
    ilba.datasets.census_codes().write_csv(tmp_path / "codes.csv")
    shapes = {"LA2": ilba.datasets.census_geometry("LA2")}
    (tmp_path / "la3.geojson").write_text(json.dumps(ilba.datasets.census_geometry("LA3")))
    release = finest.release(
        tmp_path / "out", max_keys=1, labels=tmp_path / "codes.csv", geometry=shapes | {"LA3": tmp_path / "la3.geojson"}
    )
    walk_for_leaks(release)
    women = release.codes.filter((pl.col("variable") == "gender") & (pl.col("code") == "2"))
    assert women.select("label_en", "label_ko").row(0) == ("Female", "여자")
    assert release.geometry("LA3") == ilba.datasets.census_geometry("LA3")
    assert release.geometry("LA2") == ilba.datasets.census_geometry("LA2")
    assert release.geometry("OA") is None
    file = release.path / "geometry" / "LA3.geojson"
    file.write_text(file.read_text("utf-8") + " ")
    with pytest.raises(ilba.StoreError, match=r"'geometry/LA3.geojson' .* was changed"):
        release.verify()
    assert release.codes.filter(pl.col("variable") == "edu").is_empty()
    records = ilba.datasets.census_codes().to_dicts()
    (tmp_path / "codes.json").write_text(json.dumps(records))
    again = finest.release(tmp_path / "again", max_keys=1, labels=tmp_path / "codes.json")
    assert again.codes.equals(release.codes)


def test_a_grid_holds_the_given_codes_of_areas_and_keys_too(tmp_path):
    counts = pl.DataFrame({"r": ["A", "A"], "t": ["a1", "a2"], "x": [1, 2], "N": [9, 8]})
    finest = FinestTable.from_counts(counts, ["r", "t"], secret=Secret(RAW_SECRET))
    given = pl.DataFrame(
        {
            "variable": ["r", "r", "t", "t", "t", "x", "x", "x"],
            "code": ["A", "B", "a1", "a2", "b1", "1", "2", "3"],
            "parent": [None, None, "A", "A", "B", None, None, None],
        }
    )
    release = finest.release(tmp_path / "out", rows="grid", labels=given)
    walk_for_leaks(release)
    table = release.table("t.x")
    assert table.height == 3 * 3
    assert table.filter(pl.col("N_masked") > 0).rows() == [("A", "a1", 1, 9), ("A", "a2", 2, 8)]
    assert ("B", "b1", 3, 0) in table.rows()


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("hkey", [["town"], ["region", "town"]])
def test_people_whose_label_is_missing_stay_in_every_table(tmp_path, secret, cells, hkey):
    people = pl.DataFrame(
        {
            "region": ["r"] * 80,
            "town": ["a"] * 30 + ["b"] * 30 + [None] * 20,
            "sex": (["f"] * 10 + ["m"] * 10 + [None] * 10) * 2 + ["f"] * 20,
        }
    )
    finest = ilba.build(people, hkey, ["sex"], missing="category", cells=cells, secret=secret)
    if cells == "grid":
        with pytest.raises(ilba.InputError, match="'town' has missing labels, which no code list can declare"):
            finest.release(tmp_path / "no", **ILBA)
    method = {} if cells == "grid" else ILBA
    some = finest.release(tmp_path / "some", **method)
    grid = finest.release(tmp_path / "grid", rows="grid", **method)
    walk_for_leaks(grid)
    assert grid.table("town.sex").height == 3 * 3
    for name in some.tables:
        assert grid.table(name).filter(pl.col("N_masked") > 0).equals(some.table(name)), name
    report = ilba.audit(finest if method else finest.controlled())
    for release in (some, grid):
        outside = ilba.audit(release)
        assert outside.cells_disclosed == report.cells_disclosed
        assert outside.ranges.select("low", "high").sum().equals(report.ranges.select("low", "high").sum())

    alone = finest.release(tmp_path / "alone", tables=["town", "all.sex"], **method)
    assert ilba.audit(alone).ranges.height == 3 * 3


def test_a_complete_grid_does_not_name_what_is_masked_everywhere(tmp_path):
    counts = pl.DataFrame({"t": ["a", "a", "b"], "x": ["p", "rare", "p"], "N": [9, 1, 9], "N_masked": [9, 0, 9]})
    release = FinestTable.from_counts(counts, ["t"], ["x"]).release(tmp_path / "out", rows="grid", **KEPT)
    assert release.table("t.x").rows() == [("a", "p", 9), ("b", "p", 9)]
    assert "rare" not in (release.path / "codes.csv").read_text("utf-8")


@pytest.mark.long
def test_without_a_code_list_nothing_is_said_of_one(finest, tmp_path, recwarn):
    # Another test may have saved the shared secret, and a secret in a file knows the ledgers that used it.
    finest.release(tmp_path / "out", max_keys=1, secret=Secret(RAW_SECRET))
    assert [str(one.message) for one in recwarn] == []


def test_the_given_code_list_keeps_its_order(tmp_path):
    towns = [f"{place * 7919 % 1000:03}" for place in range(1000)]
    counts = pl.DataFrame({"town": towns, "x": ["y"] * 1000, "N": [9] * 1000})
    given = pl.DataFrame({"variable": ["x"] + ["town"] * 1000, "code": ["y", *towns]})
    finest = FinestTable.from_counts(counts, ["town"], ["x"], secret=Secret(RAW_SECRET))
    release = finest.release(tmp_path / "out", labels=given)
    assert release.codes["code"].to_list() == [*towns, "y"]


@pytest.mark.slow
def test_a_list_or_a_map_of_what_occurs_alone_is_told(tmp_path, recwarn):
    def shapes(*names):
        features = [{"type": "Feature", "id": name, "geometry": None} for name in names]
        return {"town": {"type": "FeatureCollection", "features": features}}

    def listed(*names):
        return pl.DataFrame({"variable": [*["town"] * len(names), "x"], "code": [*names, "1"]})

    counts = pl.DataFrame({"town": ["a", "b"], "x": [1, 1], "N": [9, 1], "N_masked": [9, 0]})
    finest = FinestTable.from_counts(counts, ["town"], ["x"])
    properties = {"town": {"type": "FeatureCollection", "features": [{"properties": {"code": "b"}}]}}
    finest.release(tmp_path / "published", geometry=shapes("a"), labels=listed("a"), **KEPT)
    finest.release(
        tmp_path / "everything", geometry=shapes("a", "b", "nobody"), labels=listed("a", "b", "nobody"), **KEPT
    )
    finest.release(tmp_path / "not asked", geometry=shapes("a", "b"), tables=["all.x"], labels=listed("a", "b"), **KEPT)
    assert [str(one.message) for one in recwarn] == []
    for geometry in (shapes("a", "b"), properties):
        with pytest.warns(ilba.Notice, match="the map of 'town' has a shape for an area whose counts are all 0"):
            finest.release(tmp_path / "told", geometry=geometry, **KEPT)
    with pytest.warns(ilba.Notice, match="the code list of 'town' has a code whose counts are all 0 after masking"):
        finest.release(tmp_path / "told", labels=listed("a", "b"), **KEPT)


def test_a_complete_grid_can_be_published_where_every_count_of_a_numeric_key_is_masked_to_0(tmp_path):
    counts = pl.DataFrame({"town": ["a", "a"], "age": [1, 2], "N": [1, 1], "N_masked": [0, 0]})
    codes = pl.DataFrame({"variable": ["town", "age", "age", "age"], "code": ["a", "1", "2", "3"]})
    finest = FinestTable.from_counts(counts, ["town"], ["age"], 5)
    release = finest.release(tmp_path / "r", rows="grid", labels=codes, **KEPT)
    assert release.table("town.age").rows() == [("a", 1, 0), ("a", 2, 0), ("a", 3, 0)]
    walk_for_leaks(release)
