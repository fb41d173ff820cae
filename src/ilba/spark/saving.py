"""Stores written by the workers, and their reports on the written files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ilba.errors import InputError, WriteError
from ilba.files import PRIVATE, making, replacing, writable_folder
from ilba.spark.frames import Frame, Piped, rows
from ilba.spark.problems import telling
from ilba.spark.sessions import pyspark
from ilba.spark.tasks import PART
from ilba.tables import store
from ilba.tables.engine import Path_


def free_place(path: Path_) -> Path:
    """The checked place for a dataset: free, or an existing store that it replaces."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        is_free = (target / store.ABOUT).exists() or not any(target.iterdir())
    else:
        is_free = not target.is_file() or store.is_one_file(target)
    if not is_free:
        raise InputError(f"{os.fspath(path)!r} exists and is not a store; this would destroy it. Choose another name.")
    writable_folder(target)
    return target


def save_folder(made: Piped, about: store.About, target: Path) -> int:
    """Write a store to a folder that driver and workers share, and return its number of cells.

    The workers write each part of the cells while they make it, in one job. They report what they wrote; nothing is
    read back.
    """
    with making(target) as temporary:
        folder = temporary / store.CELLS
        folder.mkdir(mode=0o700)
        told = rows(made.then("write_part", str(folder), about.columns).frame(PART))
        parts, mark = [], 0
        for file, here, first, last, marked, digest in sorted(told):
            parts.append(store.DatasetPart(file, here, first, last, digest))
            mark ^= int(marked, 16)
        named = {part.file for part in parts}
        if "" in named or not named <= {file.name for file in folder.iterdir()}:
            raise WriteError(
                f"the workers of Spark do not write where the driver reads {str(target)!r}. Give a path that all "
                f"of them share, or a URL such as hdfs://... or s3a://..."
            )
        for file in folder.iterdir():
            if file.name not in named:  # from a lost attempt
                file.unlink()
        written = store.Dataset(about, sum(part.rows for part in parts), mark, tuple(parts))
        with replacing(temporary / store.ABOUT) as text:
            text.write_text(written.to_text(), encoding="utf-8")
        for file in temporary.rglob("*"):
            file.chmod(0o700 if file.is_dir() else PRIVATE)
    return written.rows


def save_url(cells: Frame, about: store.About, url: str) -> int:
    """Write a store to a URL, which only Spark itself can do, and return its number of cells."""
    spark = cells.sparkSession
    try:
        with telling(f"What is at {url!r} now is no store. Remove it, and run it again."):
            cells.write.mode("error").parquet(f"{url}/{store.CELLS}")
    except pyspark("errors").AnalysisException as problem:
        if "EXISTS" not in str(problem).upper():
            raise
        raise InputError(f"{url!r} exists, and a store at a URL is not replaced. Choose another name.") from None
    written = _dataset(spark, f"{url}/{store.CELLS}", about)
    # The cells become a store only here.
    spark.createDataFrame([(written.to_text(),)], "value string").coalesce(1).write.text(f"{url}/{store.ABOUT}")
    return written.rows


def read_cells(spark: Any, *paths: str) -> Frame:
    """The content of Parquet files. Spark checks each page that it reads: a file may be damaged after opening."""
    return spark.read.option("parquet.page.verify-checksum.enabled", "true").parquet(*paths)


def marked(cells: Frame, about: store.About) -> tuple[int, int]:
    """The number of cells and their mark, as `store.marked` computes it."""
    F = pyspark("sql.functions")
    number, mark = rows(cells.agg(F.count(F.lit(1)), F.bit_xor(F.xxhash64(*about.columns))))[0]
    return int(number), int(mark or 0) & (2**64 - 1)


def _dataset(spark: Any, folder: str, about: store.About) -> store.Dataset:
    """The description of the cells that were written to a URL. The workers read them back."""
    F = pyspark("sql.functions")
    ends = F.count(F.lit(1)), F.min("cell0"), F.max("cell0"), F.bit_xor(F.xxhash64(*about.columns))
    by_file = rows(read_cells(spark, folder).groupBy("_metadata.file_name").agg(*ends))
    found = {file: told for file, *told in by_file}
    content = spark.read.format("binaryFile").option("pathGlobFilter", "*.parquet").load(folder)
    parts, number, mark = [], 0, 0
    for file, digest in sorted(rows(content.select("_metadata.file_name", F.sha2("content", 256)))):
        here, first, last, hashed = found.get(file, (0, 0, 0, 0))
        parts.append(store.DatasetPart(file, here, first, last, digest))
        number, mark = number + here, mark ^ hashed
    return store.Dataset(about, number, mark & (2**64 - 1), tuple(parts))
