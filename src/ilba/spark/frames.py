"""What Spark's frames need on the driver: tasks sent to the workers, schemas, and tables that come back in pieces."""

from __future__ import annotations

import io
import itertools
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import polars as pl

from ilba.cells.codes import CellIndex, CodeLists
from ilba.spark.sessions import pyspark

Frame: TypeAlias = Any

KEPT = 2**20
"""the sums of a table of up to so many cells are taken to the driver, to make others from"""


def mapped(frame: Frame, schema: Any, task: str, *known: Any) -> Frame:
    """A frame whose batches go through one of the functions in `ilba.tasks` on the workers."""

    def run(batches: Any) -> Any:
        from ilba.spark import tasks  # the workers' own: its caches last from task to task

        return getattr(tasks, task)(batches, *known)

    with quiet():
        return frame.mapInArrow(run, schema)


def quiet() -> Any:
    """PySpark warns of newer pandas wherever Arrow is used; no pandas frame is made here."""
    return warnings.catch_warnings(action="ignore", category=FutureWarning)


def whole_numbers(names: Sequence[str]) -> Any:
    """A schema of whole numbers."""
    types = pyspark("sql.types")
    return types.StructType([types.StructField(name, types.LongType()) for name in names])


def labelled(codes: CodeLists, cell_index: CellIndex, counts: Sequence[str]) -> Any:
    """A schema of label columns and counts."""
    types = pyspark("sql.types")
    labels = label_types(codes, cell_index).items()
    fields = [(name, types.StringType() if kind == pl.String else types.LongType()) for name, kind in labels]
    return types.StructType([*itertools.starmap(types.StructField, fields), *whole_numbers(counts).fields])


def label_types(codes: CodeLists, cell_index: CellIndex) -> dict[str, Any]:
    """The label columns of a table, each with its type: text, or whole numbers."""
    found: dict[str, Any] = {}
    for dimension, level, _ in cell_index.places:
        schema = codes.lists[dimension].labels.schema
        found |= {name: schema[name] for name in codes.lists[dimension].columns[:level]}
    return found


def as_polars(table: Any) -> pl.DataFrame:
    """A table of Arrow that came from Spark."""
    frame: pl.DataFrame = pl.DataFrame(table)
    # An instant is told in the time of the session; labels must not depend on it.
    zoned = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    return frame.with_columns(pl.col(zoned).dt.convert_time_zone("UTC")) if zoned else frame


def pieces(frame: Frame, empty: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """A frame on the driver, partition after partition: only one or two are in memory. At least one piece."""
    yield empty
    for row in mapped(frame, "piece binary", "enclose").toLocalIterator(prefetchPartitions=True):
        yield pl.read_ipc_stream(io.BytesIO(row[0])).cast(empty.schema)
