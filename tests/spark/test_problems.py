"""Errors of Spark become sentences, and empty files are found, without a Spark."""

from __future__ import annotations

import pytest

import ilba
from ilba.spark.problems import refuse_empty, telling

READ = "An error occurred while calling o9.x.\n: SparkException: awaitResult\n\tat a.b\nCaused by: SparkException: "
FAILED = "[FAILED_READ_FILE.{}] Encountered error while reading file file:///lake/r=1/p%201.parquet. {}SQLSTATE: KD001"
TOLD = {
    READ + FAILED.format("NO_HINT", ""): (ilba.InputError, "could not read '/lake/r=1/p 1.parquet': it is damaged"),
    FAILED.format("NO_HINT", "") + "\nCaused by: x.AccessControlException: no": (ilba.InputError, "may not read it"),
    FAILED.format("FILE_NOT_EXIST", "File does not exist. It may "): (
        ilba.InputError,
        "1.parquet': it has",
    ),
    FAILED.format("PARQUET_COLUMN_DATA_TYPE_MISMATCH", "Types. "): (
        ilba.InputError,
        "1.parquet': a column",
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


def test_only_a_data_file_of_no_bytes_is_refused(tmp_path):
    names = ["full.parquet", "empty é.parquet", "empty.csv", "gone.parquet"]
    for name in names[:3]:
        (tmp_path / name).write_bytes(b"x" if "full" in name else b"")
    refuse_empty([(tmp_path / name).as_uri() for name in ("full.parquet", "empty.csv", "gone.parquet")])
    refuse_empty(["s3a://bucket/empty.parquet"])
    with pytest.raises(ilba.InputError, match=r"'/.*/empty é\.parquet' cannot be read: a file of 0 bytes is damaged"):
        refuse_empty([(tmp_path / name).as_uri() for name in names])
