"""What leaves the house cannot leak: every file of every release is walked."""

from __future__ import annotations

import datetime
import hashlib
import json
import os

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

import ilba
from ilba import FinestTable, Release, Secret
from ilba.design.design import shown_name
from ilba.release import MANIFEST
from support import killing
from support.leaks import RAW_SECRET, walk_for_leaks
from support.people import HKEY, ILBA, KEY


@pytest.mark.slow
@pytest.mark.parametrize("rows", ["nonzero", "grid"])
def test_rows_stand_in_the_order_of_their_labels(finest, tmp_path, rows):
    release = finest.release(tmp_path / "out", rows=rows, max_keys=2)
    for name, table in release.tables.items():
        frame = release.table(name)
        assert frame.equals(frame.sort(table.columns or "N_masked")), name


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_names_in_paths_are_percent_encoded_as_the_page_of_files_says(tmp_path, secret):
    people = pl.DataFrame({"town/part": ["a", "b"] * 40, "age group": ["0-9", "10+"] * 40})
    finest = ilba.build(people, ["town/part"], ["age group"], secret=secret)
    shape = {"type": "FeatureCollection", "features": []}
    names = ["town/part.age group", "all.age group"]
    release = finest.release(tmp_path / "out", tables=names, geometry={"town/part": shape}, ledger=False)
    files = {file.relative_to(release.path).as_posix() for file in release.path.rglob("*.*")}
    assert files - {"codes.csv", MANIFEST} == {
        "tables/town%2Fpart.age%20group.parquet", "tables/all.age%20group.parquet", "geometry/town%2Fpart.geojson",
    }  # fmt: skip


def test_a_table_is_found_by_its_name_in_readable_letters(tmp_path, secret):
    people = pl.DataFrame({"Δήμος": ["α", "β"] * 40, "Φύλο": ["Θ", "Α"] * 40, "age.band": [1, 1, 2, 2] * 20})
    finest = ilba.build(people, ["Δήμος"], ["Φύλο", "age.band"], secret=secret)
    release = finest.release(tmp_path / "out", max_keys=2, ledger=False)
    for shown, name in {shown_name(name): name for name in release.tables}.items():
        assert release.named(shown) == release.named(name) == release.tables[name]
        assert release.table(shown).equals(release.table(name))
    assert release.labelled("Δήμος.age.band.Φύλο").columns == ["Δήμος", "Φύλο", "age.band", "N_masked"]
    [file] = ilba.export.export(release, "Δήμος.Φύλο", "csv", tmp_path / "t.csv")
    assert pl.read_csv(file).height == release.table("Δήμος.Φύλο").height
    with pytest.raises(ilba.InputError, match=r"no table 'Δήμος\.Φίλο'\. Did you mean 'Δήμος\.Φύλο'\?"):
        release.table("Δήμος.Φίλο")
    few = finest.release(tmp_path / "few", tables=["Δήμος.Φύλο"], ledger=False)
    with pytest.raises(ilba.InputError, match=r"no table 'Δήμος'. It has Δήμος.Φύλο\.$"):
        few.find("Δήμος")
    with pytest.raises(ilba.InputError, match=r"Write the table as 'Δήμος\.Φύλο'"):
        finest.release(tmp_path / "no", tables=["all.Φύλο.Δήμος"], ledger=False)


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


@pytest.mark.long
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


@pytest.mark.long
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
    with pytest.raises(ilba.StoreError, match=r"files that do not belong to it: tables/extra.txt\.$"):
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
def test_the_files_of_a_release_have_groups_of_a_fixed_number_of_rows(tmp_path):
    number = pl.int_range(0, 300_000, eager=True)
    counts = pl.DataFrame({"place": number // 2, "x": number % 2, "N": 7 + number % 3})
    release = FinestTable.from_counts(counts, ["place"], ["x"], secret=Secret(RAW_SECRET)).release(tmp_path / "out")
    file = pq.ParquetFile(release.path / "tables" / "place.x.parquet")
    groups = [file.metadata.row_group(place) for place in range(file.metadata.num_row_groups)]
    assert [group.num_rows for group in groups] == [131_072, 131_072, 37_856]
    assert {group.column(0).compression for group in groups} == {"ZSTD"}


@pytest.mark.slow
def test_killing_a_release_at_any_write_leaves_the_old_one_or_the_new_one_whole(tmp_path):
    killing.release(1, str(tmp_path / "out"), "old")
    shown = []
    for _ in killing.killed(8, killing.release, 2, str(tmp_path / "out"), "new"):
        release = Release(tmp_path / "out")
        release.verify()
        assert len(release.tables) == 3
        shown.append(release.manifest["title"])
    assert sorted(shown, reverse=True) == shown, "once the new one is there it stays"
    assert len(shown) > 4
    assert set(shown) == {"old", "new"}
    assert [p.name for p in tmp_path.iterdir()] == ["out"], "what killed runs left is swept"


@pytest.mark.long
def test_what_does_not_belong_to_a_release_is_not_destroyed_with_it(finest, tmp_path, secret):
    finest.release(tmp_path / "out", max_keys=0)
    store = finest.save(tmp_path / "out" / "full_tb.parquet")
    with pytest.raises(ilba.InputError, match=r"full_tb\.parquet, which belongs to no"):
        finest.release(tmp_path / "out", max_keys=0)
    finest.place = store.rename(tmp_path / "s.parquet")
    for name in ("mine.csv", "tables/mine.csv", "geometry/deep/a.geojson"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
        with pytest.raises(ilba.InputError, match="which belongs to no release"):
            finest.release(tmp_path / "out", max_keys=0)
        (tmp_path / "out" / name).unlink()
    finest.release(tmp_path / "out", max_keys=0)


def test_a_release_with_a_secret_that_nobody_keeps_is_refused(people, tmp_path, recwarn):
    finest = ilba.build(people, HKEY, KEY)
    with pytest.raises(ilba.UnsafeRelease, match="the secret of these masks is not saved"):
        finest.release(tmp_path / "out", max_keys=0)
    finest.save(tmp_path / "s.parquet")
    recwarn.clear()
    finest.release(tmp_path / "out", max_keys=0)
    assert [str(one.message) for one in recwarn] == []


@pytest.mark.long
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


@pytest.mark.long
@pytest.mark.parametrize("numbers", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize("method", ["controlled", "ilba"])
def test_the_pieces_in_which_a_release_is_made_do_not_change_a_byte(tmp_path, secret, monkeypatch, numbers, method):
    made = np.random.default_rng(3)
    town, age = made.integers(1, 30, 4_000), made.integers(1, 19, 4_000)
    people = pl.DataFrame({"part": town // 8, "town": town, "age": age}).cast({"part": pl.String, "town": pl.String})
    if not numbers:  # areas keep their order in both worlds, ages do not
        people = people.with_columns(pl.col("part", "town") + "x")
    monkeypatch.setattr("ilba.release.writing._time", lambda: "2026-11-17T00:00:00+00:00")
    finest = ilba.build(people, ["part", "town"], ["age"], secret=secret)
    folders = []
    for size in (2**20, 64, 7):
        monkeypatch.setattr("ilba.release.folder._PIECE", size)
        monkeypatch.setattr("ilba.tables.finest._PIECE", size)
        monkeypatch.setattr("ilba.tables.finest._CHUNK", 8 * size)
        finest.__dict__.pop("_marks", None)
        folder = tmp_path / str(size)
        finest.release(folder, method=method, accept_risk=method == "ilba", ledger=tmp_path / f"{size}.ledger")
        found = sorted(file for file in folder.rglob("*") if file.is_file())
        folders.append({str(file.relative_to(folder)): file.read_bytes() for file in found})
    assert folders[0] == folders[1] == folders[2]
    masks = [pl.read_parquet(next((tmp_path / f"{size}.ledger" / "masks").rglob("*.parquet"))) for size in (64, 7)]
    assert masks[0].equals(masks[1])
