"""What leaves the house cannot leak: every file of every release is walked."""

from __future__ import annotations

import datetime
import hashlib
import inspect
import itertools
import json
import os
import signal
import stat
import subprocess
import sys
import time
import warnings

import polars as pl
import pyarrow.parquet as pq
import pytest

import ilba
from conftest import HKEY, ILBA, KEY, population
from ilba import FinestTable, PublishedTables, Release, Secret
from ilba.release import MANIFEST

KEYBYTES = bytes(range(32))
FORBIDDEN = {"N", "n", "type1", "type2", "loss", "Loss", "true", "count"}


def walk_for_leaks(release: Release) -> None:
    """Fail on any column, value, row, word or byte that a public release must not hold."""
    K = release.manifest["threshold"]
    files = [file for file in release.path.rglob("*") if file.is_file()]
    assert {file.suffix for file in files} <= {".parquet", ".json", ".csv", ".geojson"}
    for file in files:
        content = file.read_bytes()
        assert KEYBYTES not in content, file
        assert KEYBYTES.hex().encode() not in content, file
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
    for folder in (release.path, *(one for one in release.path.rglob("*") if one.is_dir())):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    for table in release.tables.values():
        frame = pl.read_parquet(release.path / table.file)
        assert frame.columns == [*table.columns, "N_masked"]
        assert not FORBIDDEN & set(frame.columns)
        assert frame.filter(pl.col("N_masked").is_between(1, K - 1)).is_empty(), table.name
        assert not table.columns or frame.select(table.columns).is_unique().all()
        assert frame.height == table.rows
        if release.manifest["rows"] == "nonzero":
            assert frame.filter(pl.col("N_masked") == 0).is_empty(), table.name
        else:
            sizes = [frame.select(c).n_unique() for c in grouped(release, table.columns)]
            assert frame.height == (pl.Series(sizes).product() if sizes else 1), table.name
    said = json.dumps(release.manifest)
    for word in ("loss", "bound", "fingerprint", "secret", "true_", "records"):
        assert word not in said.lower().replace('"absent"', "")
    release.verify()


def every_code(people, hkey=HKEY, key=KEY):
    """A code list of all codes of some people, as an agency would declare it."""
    rows = []
    for parent, column in [*zip([None, *hkey], hkey, strict=False), *((None, name) for name in key)]:
        pairs = people.select(column, *([parent] if parent else [])).unique().sort(column)
        rows += [(column, str(pair[0]), pair[1] if parent else None) for pair in pairs.iter_rows()]
    return pl.DataFrame(rows, schema=["variable", "code", "parent"], orient="row")


def grouped(release, columns):
    """The columns of a table by dimension."""
    for hierarchy in release.design.hierarchies:
        there = [c for c in hierarchy.columns if c in columns]
        if there:
            yield there
    yield from ([key] for key in release.design.keys if key in columns)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "cells", "rows"), list(itertools.product((3, 5, 10), ("observed", "grid"), ("nonzero", "grid")))
)
def test_no_file_of_a_release_leaks(people, tmp_path, K, cells, rows):
    finest = ilba.build(people, HKEY, KEY, K, secret=Secret(KEYBYTES), cells=cells, labels=every_code(people))
    release = finest.release(tmp_path / "out", rows=rows, **ILBA)
    assert len(release.tables) == 32
    walk_for_leaks(release)
    for name, table in release.tables.items():
        published = release.table(name).filter(pl.col("N_masked") > 0)
        assert published.equals(finest.table(table.levels, table.keys).public())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["census", "kr_estab", "nl_grid", "us_acs"])
@pytest.mark.parametrize("K", [3, 5, 10])
def test_no_file_of_a_real_release_leaks(request, tmp_path, name, K):
    designs = {
        "census": (["LA1", "LA2", "LA3", "OA"], ["gender", "age", "edu", "mar", "htype"], None),
        "kr_estab": (["CP_CD", "CDW_CD", "ZONE_CD"], ["RPRSNTV_SEXDSTN", "AGE_FACTOR", "BR_ACT", "BR_JOJIK"], None),
        "nl_grid": (["g5km", "g1km", "g500m", "g100m"], ["cons_q", "unemployed"], None),
        "us_acs": (["STATE", "PUMA"], ["SEX", "MSP", "RAC1P", "EDU", "HOUSING_TYPE"], 3),
    }
    hkey, key, max_keys = designs[name]
    data = (
        ilba.datasets.census(200_000)
        if name == "census"
        else (request.getfixturevalue("shared") / "data" / f"{name}.parquet")
    )
    labels = ilba.datasets.census_codes() if name == "census" else None
    finest = ilba.build(data, hkey, key, K, secret=Secret(KEYBYTES))
    walk_for_leaks(finest.release(tmp_path / "ilba", max_keys=max_keys, labels=labels, **ILBA))
    again = ilba.build(data, hkey, key, K, secret=Secret(KEYBYTES))
    walk_for_leaks(again.release(tmp_path / "controlled", max_keys=max_keys, labels=labels, bound=3 * K))


def test_the_leak_test_itself_finds_leaks(finest, tmp_path):
    release = finest.release(tmp_path / "out", max_keys=1)
    file = release.path / "tables" / "town.sex.parquet"
    good = file.read_bytes()
    for spoil in (
        lambda f: f.with_columns(type1=0),
        lambda f: f.with_columns(pl.lit(3, pl.Int64).alias("N_masked")),
        lambda f: f.with_columns(pl.lit(0, pl.Int64).alias("N_masked")),
    ):
        spoil(release.table("town.sex")).write_parquet(file)
        with pytest.raises(AssertionError):
            walk_for_leaks(release)
        file.write_bytes(good)
    (release.path / "note.csv").write_bytes(KEYBYTES.hex().encode())
    with pytest.raises(AssertionError):
        walk_for_leaks(release)


def test_a_code_whose_counts_were_all_masked_to_0_is_not_listed_unless_the_agency_gave_it(tmp_path):
    counts = pl.DataFrame({"t": ["a", "a", "b"], "x": ["p", "rare", "p"], "N": [9, 1, 2], "N_masked": [9, 0, 0]})
    finest = FinestTable.from_counts(counts, ["t"])
    bare = finest.release(tmp_path / "bare", **ILBA)
    assert set(bare.codes["code"]) == {"a", "p"}
    assert b"rare" not in b"".join(f.read_bytes() for f in bare.path.rglob("*") if f.is_file())
    given = pl.DataFrame(
        {"variable": ["x", "x", "x"], "code": ["p", "rare", "never"], "label_en": ["P", "Rare", "Never"]}
    )
    with pytest.warns(ilba.Notice, match="does not name 1 code of the tables: t a"):
        told = finest.release(tmp_path / "told", labels=given, **ILBA)
    assert set(told.codes["code"]) == {"a", "p", "rare", "never"}


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
    bare = finest.release(tmp_path / "bare", **ILBA)
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
        told = finest.release(tmp_path / "told", labels=given, **ILBA)
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
        again = finest.release(tmp_path / "again", labels=whole, **ILBA)
    assert again.codes.equals(bare.codes)


def test_in_the_grid_reading_all_codes_are_public_unless_masks_were_chosen_jointly(tmp_path):
    counts = pl.DataFrame({"t": ["a", "a", "b", "b"], "x": ["p", "rare", "p", "never"], "N": [9, 1, 2, 0]})
    finest = FinestTable.from_counts(counts, ["t"], cells="grid", secret=Secret(KEYBYTES))
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
    finest = FinestTable.from_counts(counts, ["t"], cells="grid", secret=Secret(KEYBYTES))
    chosen = finest.release(tmp_path / "chosen")
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
@pytest.mark.parametrize("rows", ["nonzero", "grid"])
def test_rows_stand_in_the_order_of_their_labels(finest, tmp_path, rows):
    release = finest.release(tmp_path / "out", rows=rows, max_keys=2)
    for name, table in release.tables.items():
        frame = release.table(name)
        assert frame.equals(frame.sort(table.columns or "N_masked")), name


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


def test_a_release_whose_code_list_is_empty_needs_its_store_for_an_audit(finest, tmp_path):
    release = finest.release(tmp_path / "out", tables=["town", "all"], **ILBA)
    with pytest.raises(ilba.InputError, match=r"does not name region, town, block\. Give the store too"):
        ilba.audit(release)
    assert ilba.audit(release, store=finest).published.tables.keys() == {(2, 0, 0, 0), (0, 0, 0, 0)}
    with pytest.raises(ilba.InputError, match=r"this release has no table 'all\.sex'\. It has town, all"):
        release.find(key="sex")


def test_the_same_store_and_request_give_the_same_bytes_apart_from_the_time(people, finest, tmp_path, secret):
    again = ilba.build(people.sample(fraction=1, shuffle=True, seed=9), HKEY, KEY, secret=secret)
    one = finest.release(tmp_path / "one", title="T", max_keys=2)
    two = again.release(tmp_path / "two", title="T", max_keys=2)
    files = {f.relative_to(one.path) for f in one.path.rglob("*") if f.is_file()}
    assert files == {f.relative_to(two.path) for f in two.path.rglob("*") if f.is_file()}
    for file in files:
        if file.name != MANIFEST:
            assert (one.path / file).read_bytes() == (two.path / file).read_bytes()
    assert {k: v for k, v in one.manifest.items() if k != "created"} == {
        k: v for k, v in two.manifest.items() if k != "created"
    }


def test_the_manifest_says_what_a_reader_needs_and_nothing_else(finest, tmp_path):
    before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    shape = {"type": "FeatureCollection", "features": []}
    release = finest.release(
        tmp_path / "out",
        tables=["town.sex", "all"],
        title="People",
        description="Of a 마을",
        source="Office",
        geometry={"town": shape},
        **ILBA,
    )

    def sha256(name):
        return hashlib.sha256((release.path / name).read_bytes()).hexdigest()

    told = json.loads((release.path / "release.json").read_text("utf-8"))
    created = datetime.datetime.fromisoformat(told.pop("created"))
    assert before <= created <= datetime.datetime.now(datetime.UTC)
    assert created.microsecond == 0
    assert len(told.pop("checksum")) == 64
    assert told == {
        "format": 2,
        "title": "People",
        "description": "Of a 마을",
        "source": "Office",
        "method": "ilba",
        "hierarchies": [{"name": "area", "columns": HKEY}],
        "keys": KEY,
        "threshold": 5,
        "cells": "observed",
        "rows": "nonzero",
        "absent": 0,
        "additive": False,
        "origins": {
            "hierarchies": "declared",
            "keys": "declared",
            "codes": dict.fromkeys([*HKEY, *KEY], "published"),
        },
        "tables": [
            {
                "name": "town.sex",
                "file": "tables/town.sex.parquet",
                "levels": {"area": 2},
                "keys": ["sex"],
                "columns": ["region", "town", "sex"],
                "rows": release.table("town.sex").height,
                "sha256": sha256("tables/town.sex.parquet"),
            },
            {
                "name": "all",
                "file": "tables/all.parquet",
                "levels": {"area": 0},
                "keys": [],
                "columns": [],
                "rows": 1,
                "sha256": sha256("tables/all.parquet"),
            },
        ],
        "codes": {"file": "codes.csv", "sha256": sha256("codes.csv")},
        "geometry": [{"column": "town", "file": "geometry/town.geojson", "sha256": sha256("geometry/town.geojson")}],
        "software": f"ilba {ilba.__version__}",
    }
    files = {file.relative_to(release.path).as_posix() for file in release.path.rglob("*") if file.is_file()}
    assert files == {
        "release.json",
        "codes.csv",
        "tables/town.sex.parquet",
        "tables/all.parquet",
        "geometry/town.geojson",
    }
    assert release.geometry("town") == shape
    assert release.geometry("region") is None
    assert not release.additive
    assert release.find("town", "sex").name == "town.sex"
    assert repr(release) == "Release('People', 2 tables, ilba, K=5)"
    bare = finest.release(tmp_path / "bare", tables=["all"], **ILBA).manifest
    assert (bare["title"], bare["description"], bare["source"]) == ("Frequency tables", "", "")


def test_tables_are_found_by_level_and_keys_in_any_order(finest, tmp_path):
    release = finest.release(tmp_path / "out")
    assert release.find(2, ["job", "sex"]).name == "town.sex.job"
    assert release.find().name == "all"
    assert release.find(key="sex").name == "all.sex"
    with pytest.raises(ilba.InputError, match=r"Did you mean 'town\.sex'"):
        release.table("town.sxe")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tables": ["town.sxe"]}, "'sxe' is not a key of this store. Did you mean 'sex'"),
        ({"tables": []}, "tables is empty"),
        ({"rows": "all"}, "rows='all'"),
        ({"method": "contrlled"}, "Did you mean 'controlled'"),
        ({"require_safe": True, "accept_risk": True}, "contradict each other"),
        ({"stated_bound": 3}, "bound=3 is not a whole number from 4"),
        ({"stated_bound": 9, "method": "ilba"}, "stated_bound goes with method='controlled'"),
        ({"levels": ["twon"]}, "Did you mean 'town'"),
        ({"labels": pl.DataFrame({"code": ["a"]})}, "no column 'variable'"),
        ({"labels": "no.csv"}, "cannot be read"),
        ({"geometry": {"twon": {}}}, "Did you mean 'town'"),
        ({"geometry": {"town": {"type": "Point"}}}, "not a GeoJSON FeatureCollection"),
        ({"geometry": {"town": []}}, "not a GeoJSON FeatureCollection"),
        ({"geometry": {"town": "no.geojson"}}, "cannot be read as GeoJSON"),
        ({"geometry": {"town": __file__}}, "cannot be read as GeoJSON"),
        ({"titel": "x"}, "Did you mean 'title'"),
    ],
)
def test_a_wrong_release_is_refused_and_nothing_is_written(finest, tmp_path, options, says):
    with pytest.raises((ilba.InputError, ilba.SecretError), match=says):
        finest.release(tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_only_a_release_is_replaced(finest, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for name in ("mine", "file"):
        with pytest.raises(ilba.InputError, match="not a release"):
            finest.release(tmp_path / name)
    with pytest.raises(ilba.InputError, match="no folder"):
        finest.release(tmp_path / "no" / "out")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "mine"
    assert (tmp_path / "file").read_text() == "mine"
    finest.release(tmp_path / "out", title="old", max_keys=1)
    assert finest.release(tmp_path / "out", title="new", max_keys=0).manifest["title"] == "new"
    (tmp_path / "empty").mkdir()
    finest.release(tmp_path / "empty", max_keys=0).verify()
    assert {p.name for p in tmp_path.iterdir()} == {"mine", "file", "out", "empty"}


def test_a_release_that_fails_halfway_leaves_the_old_one_and_nothing_else(finest, tmp_path):
    finest.release(tmp_path / "out", title="old", max_keys=0)

    def stop(step):
        if step.stage == "writing tables":
            raise KeyboardInterrupt

    for name in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            finest.release(tmp_path / name, title="new", max_keys=0, progress=stop)
    Release(tmp_path / "out").verify()
    assert Release(tmp_path / "out").manifest["title"] == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_progress_tells_of_the_choice_of_masks_and_then_counts_every_table(finest, tmp_path):
    told = []
    finest.release(tmp_path / "out", max_keys=1, progress=told.append)
    stages = list(dict.fromkeys(step.stage for step in told))
    assert stages == ["choosing masks", "writing tables"]
    tables = [step[1:3] for step in told if step.stage == "writing tables"]
    assert tables == [(n, 32) for n in range(33)]  # in both worlds


def test_progress_tells_of_the_audit_before_a_release_by_ilba(finest, tmp_path):
    told = []
    finest.release(tmp_path / "out", "ilba", max_keys=0, accept_risk=True, progress=told.append)
    assert list(dict.fromkeys(step.stage for step in told)) == ["attacking", "writing tables"]


def test_release_hands_over_every_argument_that_it_takes():
    from ilba.release import release

    asked = [name for name in inspect.signature(FinestTable.release).parameters if name != "self"]
    assert sorted([*asked, "finest", "memory"]) == sorted(inspect.signature(release).parameters)


def test_a_release_can_be_read_by_all_whatever_the_umask(finest, tmp_path):
    before = os.umask(0o077)
    try:
        walk_for_leaks(finest.release(tmp_path / "out", max_keys=0))
    finally:
        os.umask(before)


@pytest.mark.parametrize("said", ["{", "[]", "null", "{}", '{"format": "1"}', '{"format": 1}', b"\xff"])
def test_a_damaged_manifest_is_told(tmp_path, said):
    (tmp_path / MANIFEST).write_bytes(said if isinstance(said, bytes) else said.encode())
    with pytest.raises(ilba.StoreError, match="damaged"):
        Release(tmp_path)


def test_a_manifest_that_cannot_be_opened_is_told(tmp_path):
    (tmp_path / MANIFEST).mkdir()
    with pytest.raises(ilba.StoreError, match="damaged"):
        Release(tmp_path)


def test_a_release_of_a_newer_format_is_refused_with_what_to_type(finest, tmp_path):
    release = finest.release(tmp_path / "out", max_keys=0)
    (release.path / MANIFEST).write_text(json.dumps(release.manifest | {"format": 3}))
    with pytest.raises(ilba.StoreError, match=r"newer format\. Type: pip install --upgrade ilba"):
        Release(release.path)


def test_a_release_that_is_changed_or_damaged_is_told(finest, tmp_path):
    release = finest.release(tmp_path / "out", max_keys=1)
    file = release.path / "tables" / "town.parquet"
    good = file.read_bytes()
    file.write_bytes(good + b" ")
    with pytest.raises(ilba.StoreError, match="was changed"):
        release.verify()
    file.unlink()
    with pytest.raises(ilba.StoreError, match=r"'tables/town.parquet' of the release .* is missing or was changed"):
        release.verify()
    file.write_bytes(good)
    release.verify()
    (release.path / "tables" / "extra.txt").touch()
    with pytest.raises(ilba.StoreError, match=r"files of no release: tables/extra.txt\.$"):
        release.verify()
    (release.path / "tables" / "extra.txt").unlink()
    good = (release.path / "codes.csv").read_bytes()
    (release.path / "codes.csv").write_bytes(good + b"sex,x,x,,\n")
    with pytest.raises(ilba.StoreError, match=r"'codes.csv' .* was changed"):
        release.verify()
    (release.path / MANIFEST).write_text("{")
    with pytest.raises(ilba.StoreError, match="damaged"):
        Release(release.path)
    with pytest.raises(ilba.StoreError, match=r"is not a release: it holds no release\.json"):
        Release(tmp_path)
    with pytest.raises(ilba.StoreError, match=r"there is no release '.*/ou'\. Did you mean 'out'\?"):
        Release(tmp_path / "ou")
    store = finest.save(tmp_path / "s.parquet")
    with pytest.raises(ilba.StoreError, match="ilba release"):
        Release(store)


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
    finest = FinestTable.from_counts(counts, ["r", "t"], secret=Secret(KEYBYTES))
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
    release = FinestTable.from_counts(counts, ["t"], ["x"]).release(tmp_path / "out", rows="grid", **ILBA)
    assert release.table("t.x").rows() == [("a", "p", 9), ("b", "p", 9)]
    assert "rare" not in (release.path / "codes.csv").read_text("utf-8")


@pytest.mark.slow
def test_the_files_of_a_release_have_groups_of_a_fixed_number_of_rows(tmp_path):
    number = pl.int_range(0, 300_000, eager=True)
    counts = pl.DataFrame({"place": number // 2, "x": number % 2, "N": 7 + number % 3})
    release = FinestTable.from_counts(counts, ["place"], ["x"], secret=Secret(KEYBYTES)).release(tmp_path / "out")
    file = pq.ParquetFile(release.path / "tables" / "place.x.parquet")
    groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [131_072, 131_072, 37_856]
    assert {group.column(0).compression for group in groups} == {"ZSTD"}


def test_without_a_code_list_nothing_is_said_of_one(finest, tmp_path, recwarn):
    finest.release(tmp_path / "out", max_keys=1)
    assert [str(one.message) for one in recwarn] == []


def test_the_given_code_list_keeps_its_order(tmp_path):
    towns = [f"{place * 7919 % 1000:03}" for place in range(1000)]
    counts = pl.DataFrame({"town": towns, "x": ["y"] * 1000, "N": [9] * 1000})
    given = pl.DataFrame({"variable": ["x"] + ["town"] * 1000, "code": ["y", *towns]})
    finest = FinestTable.from_counts(counts, ["town"], ["x"], secret=Secret(KEYBYTES))
    release = finest.release(tmp_path / "out", labels=given)
    assert release.codes["code"].to_list() == [*towns, "y"]


def test_a_list_or_a_map_of_what_occurs_alone_is_told(tmp_path, recwarn):
    def shapes(*names):
        features = [{"type": "Feature", "id": name, "geometry": None} for name in names]
        return {"town": {"type": "FeatureCollection", "features": features}}

    def listed(*names):
        return pl.DataFrame({"variable": [*["town"] * len(names), "x"], "code": [*names, "1"]})

    counts = pl.DataFrame({"town": ["a", "b"], "x": [1, 1], "N": [9, 1], "N_masked": [9, 0]})
    finest = FinestTable.from_counts(counts, ["town"], ["x"])
    properties = {"town": {"type": "FeatureCollection", "features": [{"properties": {"code": "b"}}]}}
    finest.release(tmp_path / "published", geometry=shapes("a"), labels=listed("a"), **ILBA)
    finest.release(
        tmp_path / "everything", geometry=shapes("a", "b", "nobody"), labels=listed("a", "b", "nobody"), **ILBA
    )
    finest.release(tmp_path / "not asked", geometry=shapes("a", "b"), tables=["all.x"], labels=listed("a", "b"), **ILBA)
    assert [str(one.message) for one in recwarn] == []
    for geometry in (shapes("a", "b"), properties):
        with pytest.warns(ilba.Notice, match="the map of 'town' has a shape for an area whose counts are all 0"):
            finest.release(tmp_path / "told", geometry=geometry, **ILBA)
    with pytest.warns(ilba.Notice, match="the code list of 'town' has a code whose counts are all 0 after masking"):
        finest.release(tmp_path / "told", labels=listed("a", "b"), **ILBA)


@pytest.mark.slow
def test_killing_a_release_at_any_moment_leaves_the_old_one_or_the_new_one_whole(tmp_path, secret):
    store = ilba.build(population(100_000), HKEY, KEY, secret=secret).save(tmp_path / "s.parquet")
    out = tmp_path / "out"

    def command(title):
        opened = f"import ilba; finest = ilba.open_store({str(store)!r})"
        script = f"{opened}; finest.release({str(out)!r}, title={title!r}, secret=ilba.Secret(bytes(range(32))))"
        return [sys.executable, "-c", script]

    start = time.monotonic()
    subprocess.run(command("old"), check=True)
    needed = time.monotonic() - start
    for attempt in range(15):
        process = subprocess.Popen(command(f"new {attempt}"))
        time.sleep(needed * (0.5 + 0.6 * attempt / 15))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        release = Release(out)
        release.verify()
        assert len(release.tables) == 32
    subprocess.run(command("last"), check=True)
    assert Release(out).manifest["title"] == "last"
    kept = {"s.masks.parquet", "s.parquet", "s.published.json", "out"}
    assert {p.name for p in tmp_path.iterdir()} == kept, "what killed runs left is swept"


def test_a_controlled_release_adds_up_leaks_nothing_and_the_audit_certifies_it(people, tmp_path):
    finest = ilba.build(people, HKEY, KEY, secret=Secret(KEYBYTES))
    release = finest.release(tmp_path / "out", method="controlled", secret=Secret(KEYBYTES))
    walk_for_leaks(release)
    assert release.additive
    assert "bound" not in release.manifest
    whole = release.table("block.sex.age.job")
    for name, table in release.tables.items():
        columns = list(table.columns)
        summed = (
            whole.group_by(columns).agg(pl.col("N_masked").sum()) if columns else whole.select(pl.col("N_masked").sum())
        )
        assert summed.sort(columns or "N_masked").equals(release.table(name)), name
    store = finest.controlled(secret=Secret(KEYBYTES))
    report = ilba.audit(release, store=store)
    assert report.certificate
    assert report.safe
    assert report.cells_disclosed == 0
    with pytest.raises(ilba.InputError, match="were chosen jointly: its method is 'controlled'"):
        store.release(tmp_path / "other", method="ilba")


def test_a_complete_grid_can_be_published_where_every_count_of_a_numeric_key_is_masked_to_0(tmp_path):
    counts = pl.DataFrame({"town": ["a", "a"], "age": [1, 2], "N": [1, 1], "N_masked": [0, 0]})
    codes = pl.DataFrame({"variable": ["town", "age", "age", "age"], "code": ["a", "1", "2", "3"]})
    finest = FinestTable.from_counts(counts, ["town"], ["age"], 5)
    release = finest.release(tmp_path / "r", rows="grid", labels=codes, **ILBA)
    assert release.table("town.age").rows() == [("a", 1, 0), ("a", 2, 0), ("a", 3, 0)]
    walk_for_leaks(release)


def test_what_does_not_belong_to_a_release_is_not_destroyed_with_it(finest, tmp_path, secret):
    finest.release(tmp_path / "out", max_keys=0)
    store = finest.save(tmp_path / "out" / "full_tb.parquet")
    with pytest.raises(ilba.InputError, match=r"full_tb\.parquet, full_tb\.published\.json, which belongs to no"):
        finest.release(tmp_path / "out", max_keys=0)
    for ending in (".parquet", ".masks.parquet", ".published.json"):
        (store.parent / f"full_tb{ending}").rename(tmp_path / f"s{ending}")
    finest.place = tmp_path / "s.parquet"
    for name in ("mine.csv", "tables/mine.csv", "geometry/deep/a.geojson"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
        with pytest.raises(ilba.InputError, match="which belongs to no release"):
            finest.release(tmp_path / "out", max_keys=0)
        (tmp_path / "out" / name).unlink()
    finest.release(tmp_path / "out", max_keys=0)


def test_a_release_with_a_key_that_nobody_keeps_is_told(people, tmp_path, recwarn):
    finest = ilba.build(people, HKEY, KEY)
    with pytest.warns(ilba.Notice, match="the key of these masks is not kept"):
        finest.release(tmp_path / "out", max_keys=0)
    finest.save(tmp_path / "s.parquet")
    recwarn.clear()
    finest.release(tmp_path / "out", max_keys=0)
    assert [str(one.message) for one in recwarn] == []


def test_long_names_in_any_script_and_a_column_called_parent_are_published(tmp_path, secret):
    keys = ["성별", "연령대", "교육정도", "혼인상태", "가구유형", "주거형태", "경제활동", "x" * 260]
    people = pl.DataFrame({"parent": ["a"] * 9 + ["b"] * 9, "읍면동": ["c"] * 9 + ["d"] * 9} | dict.fromkeys(keys, "1"))
    finest = ilba.build(people, ["parent", "읍면동"], keys, secret=secret)
    design = finest.design
    wanted = [design.select("읍면동", keys), design.select("읍면동", keys[:7]), design.select("parent", keys[7:])]
    release = finest.release(tmp_path / "out", rows="grid", tables=wanted)
    walk_for_leaks(release)
    assert list(release.tables) == [table.name for table in wanted]
    assert all(len(file.name) < 255 for file in release.path.rglob("*"))
    assert Release(release.path).find("읍면동", keys).rows == 2
    finest.cube(levels=["parent"], keys=keys[7:]).write(tmp_path / "cube")
    assert len(list((tmp_path / "cube").glob("*.parquet"))) == 2
