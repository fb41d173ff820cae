"""Helpers for Spark frames on the driver: tasks for the workers, schemas, and tables that return in pieces."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from ilba.cells.codes import CellIndex, CodeLists
from ilba.spark.problems import telling
from ilba.spark.sessions import pyspark, quiet

Frame: TypeAlias = Any

KEPT = 2**20
"""the sums of a table of up to this many cells are taken to the driver, as a source of others"""


@dataclass(frozen=True)
class Piped:
    """Steps that the workers apply to the batches of a frame, one after the other, within their memory.

    A step is the name of a function in `ilba.spark.tasks` and its other arguments. Nothing is computed yet.
    """

    source: Frame
    steps: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    def then(self, task: str, *known: Any) -> Piped:
        """The same with one more step."""
        return Piped(self.source, (*self.steps, (task, known)))

    def frame(self, schema: Any) -> Frame:
        """The result of the last step, as a frame."""
        if not self.steps:
            return self.source
        steps = self.steps

        def run(batches: Any) -> Any:
            from ilba.spark import tasks  # the worker's own module: its caches last from task to task

            tasks.spare_modules()
            for task, known in steps:
                batches = getattr(tasks, task)(batches, *known)
            return batches

        with quiet():
            return self.source.mapInArrow(run, schema)


def mapped(frame: Frame, schema: Any, task: str, *known: Any) -> Frame:
    """A frame whose batches pass through a function of `ilba.spark.tasks` on the workers."""
    return Piped(frame).then(task, *known).frame(schema)


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


def rows(frame: Frame) -> list[Any]:
    """The few rows of a frame, on the driver."""
    with telling():
        found: list[Any] = frame.collect()
    return found


def size(frame: Frame) -> int:
    """The number of rows of a frame."""
    with telling():
        return int(frame.count())


def as_polars(result: Frame) -> pl.DataFrame:
    """The rows of a frame on the driver, as a polars frame."""
    with telling():
        table = result.toArrow()
    frame: pl.DataFrame = pl.DataFrame(table)
    # Spark gives a timestamp in the time zone of the session; labels must not depend on it.
    zoned = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    return frame.with_columns(pl.col(zoned).dt.convert_time_zone("UTC")) if zoned else frame


def pieces(made: Piped, empty: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """The result on the driver, partition by partition; only one or two are in memory. At least one piece."""
    yield empty
    with telling():
        for row in made.then("enclose").frame("piece binary").toLocalIterator(prefetchPartitions=True):
            yield pl.read_ipc_stream(io.BytesIO(row[0])).cast(empty.schema)
