"""Errors of Spark become sentences, and files that Spark passes over are found, without a Spark."""

from __future__ import annotations

from datetime import datetime

import polars as pl
import pytest

import ilba
from ilba.spark.problems import UNLIKE, refuse_empty, refuse_unlike, telling

READ = "An error occurred while calling o9.x.\n: SparkException: awaitResult\n\tat a.b\nCaused by: SparkException: "
FAILED = "[FAILED_READ_FILE.{}] Encountered error while reading file file:///lake/r=1/p%201.parquet. {}SQLSTATE: KD001"
LOST = READ + "Job aborted: Task 0 failed 1 times, most recent failure: Lost task 0.0 in stage 1.0 (TID 1) (host): {}"
BOUNDS = "java.lang.ArrayIndexOutOfBoundsException: Index 90 out of bounds for length 2"
STACK = "\n\tat {}(X.java:1)\n\tat org.apache.spark.scheduler.Task.run(Task.scala:147)\n\nDriver stacktrace:\n\tat a.b"
PAGE = STACK.format(
    "org.apache.parquet.column.values.dictionary.PlainValuesDictionary$PlainLongDictionary.decodeToLong"
)
VECTOR = STACK.format(
    "java.base/java.util.Objects.checkIndex(O.java:3)\n\tat org.apache.spark.sql.execution.vectorized.X"
)
TOLD = {
    **{
        LOST.format(problem): (ilba.InputError, "one of the files of the data: it is damaged.*enableVectorizedReader=")
        for problem in (
            BOUNDS + PAGE,
            BOUNDS + VECTOR,
            "java.lang.NegativeArraySizeException: -9" + PAGE,
            "java.lang.ArrayIndexOutOfBoundsException\n\nDriver stacktrace:\n\tat a.b",  # Java left out the frames
        )
    },
    READ + FAILED.format("NO_HINT", ""): (ilba.InputError, "could not read '/lake/r=1/p 1.parquet': it is damaged"),
    FAILED.format("NO_HINT", "") + "\nCaused by: x.AccessControlException: no": (ilba.InputError, "may not read it"),
    FAILED.format("FILE_NOT_EXIST", "File does not exist. It may "): (
        ilba.InputError,
        "1.parquet': it has",
    ),
    FAILED.format("PARQUET_COLUMN_DATA_TYPE_MISMATCH", "Types. "): (
        ilba.InputError,
        "1.parquet': a column has another type",
    ),
    FAILED.format("PARQUET_COLUMN_DATA_TYPE_MISMATCH", "Types when reading Parquet column [my job]. Expected "): (
        ilba.InputError,
        "1.parquet': the column 'my job' has another type there, or no value",
    ),
    "file:/a.parquet is not a Parquet file": (ilba.InputError, "Spark could not read the data: it is damaged"),
    "SparkException: EOFException occurred while reading the port number from pyspark.daemon's stdout.": (
        ilba.IlbaError,
        "a worker of Spark was killed or ran out of memory",
    ),
    "ilba.errors.SecretError: '/x' holds another secret.\n\n\tat org.apache": (ilba.SecretError, "^'/x' holds another"),
}


@pytest.mark.parametrize("text", TOLD)
def test_an_error_of_a_job_is_one_sentence(text):
    kind, says = TOLD[text]
    with pytest.raises(kind, match=says) as told, telling("Nothing is left."):
        raise RuntimeError(text)
    assert "\n" not in str(told.value)
    assert type(told.value) is kind


def test_an_error_that_nobody_has_met_stays_whole():
    with pytest.raises(RuntimeError, match="another"), telling():
        raise RuntimeError("another")
    with pytest.raises(ilba.StoreError, match="ExecutorLostFailure"), telling():
        raise ilba.StoreError("ExecutorLostFailure")


@pytest.mark.parametrize(
    "problem",
    [
        "java.lang.OutOfMemoryError: Java heap space" + PAGE,
        "java.io.IOException: No space" + STACK.format("org.apache.parquet.hadoop.ParquetFileWriter.end"),
        BOUNDS + STACK.format("org.apache.spark.sql.execution.joins.LongToUnsafeRowMap.get"),
        "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\nKeyError: 'cell0'\n" + PAGE,
    ],
)
def test_a_mistake_of_our_own_a_full_disk_or_heap_is_not_called_a_damaged_file(problem):
    with pytest.raises(RuntimeError), telling():
        raise RuntimeError(LOST.format(problem))


def test_only_a_data_file_of_no_bytes_is_refused(tmp_path):
    names = ["full.parquet", "empty é.parquet", "empty.csv", "gone.parquet"]
    for name in names[:3]:
        (tmp_path / name).write_bytes(b"x" if "full" in name else b"")
    refuse_empty([(tmp_path / name).as_uri() for name in ("full.parquet", "empty.csv", "gone.parquet")])
    refuse_empty(["s3a://bucket/empty.parquet"])
    with pytest.raises(ilba.InputError, match=r"'/.*/empty é\.parquet' cannot be read: a file of 0 bytes is damaged"):
        refuse_empty([(tmp_path / name).as_uri() for name in names])


def test_only_parts_with_other_columns_are_unlike(tmp_path):
    people = pl.DataFrame({"town": ["a"], "age": [1]})
    parts = {
        "plain.parquet": people,
        "order.parquet": people.select("age", "town"),
        "town=a é/p.parquet": people.drop("town"),
    }
    (tmp_path / "town=a é").mkdir()
    for name, part in parts.items():
        part.write_parquet(tmp_path / name)
    (tmp_path / "damaged.parquet").write_bytes(b"x")
    alike = [(tmp_path / name).as_uri() for name in parts if "/" not in name]
    refuse_unlike([*alike, (tmp_path / "damaged.parquet").as_uri(), "file:/gone.parquet", "s3a://b/p.parquet"], "'p'")
    folders = [(tmp_path / name).as_uri() for name in ("town=a é/p.parquet", "town=b/p.parquet")]
    (tmp_path / "town=b").mkdir()
    people.write_parquet(tmp_path / "town=b" / "p.parquet")
    refuse_unlike(folders, "'p'")
    with pytest.raises(ilba.InputError, match=r"^'p' has parts with different columns or types\. Write all parts with"):
        refuse_unlike([*alike, folders[0]], "'p'")


def test_columns_with_another_type_in_a_part_are_marked_and_a_part_without_values_is_none(tmp_path):
    people = pl.DataFrame({"town": ["a"], "age": [1], "job": ["x"]}).cast({"job": pl.Enum(["x", "y"])})
    parts = [people, people.cast({"age": pl.Int32, "job": pl.String}), people.with_columns(age=None, town=None)]
    for number, part in enumerate(parts):
        part.write_parquet(tmp_path / f"{number}.parquet")
    told = refuse_unlike([file.as_uri() for file in sorted(tmp_path.iterdir())], "'p'")
    assert told["town"] == {}
    assert f"'age' is Int64 in '{tmp_path}/0.parquet' and Int32 in '{tmp_path}/1.parquet'. Write" in told["age"][UNLIKE]
    assert "'job' is Enum in '" in told["job"][UNLIKE]  # its categories are labels of the data


def test_parts_whose_columns_differ_by_case_or_time_zone_are_unlike_as_in_memory(tmp_path):
    people = pl.DataFrame({"town": ["a"], "at": [datetime(2026, 1, 1)]}).cast({"at": pl.Datetime("us", "UTC")})
    others = {
        "case": people.rename({"town": "Town"}),
        "zone": people.with_columns(pl.col("at").dt.convert_time_zone("Asia/Seoul")),
        "unit": people.cast({"at": pl.Datetime("ms", "UTC")}),
    }
    for name, other in others.items():
        (tmp_path / name).mkdir()
        files = [tmp_path / name / "1.parquet", tmp_path / name / "2.parquet"]
        people.write_parquet(files[0])
        other.write_parquet(files[1])
        with pytest.raises(ilba.InputError, match="parts with different columns or types"):
            ilba.build(tmp_path / name, ["town"], ["at"], secret=ilba.Secret(bytes(32)))
        with pytest.raises(ilba.InputError, match="parts with different columns or types"):
            refuse_unlike([file.as_uri() for file in files], "'p'")
