"""One masked table on Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl

from ilba.cells.codes import CodeLists
from ilba.design.design import COUNT, MASKED, Selection
from ilba.files import replacing
from ilba.methods.moves import KeyedMoves
from ilba.spark.frames import Frame, Piped, as_polars, label_types, labelled, pieces, size
from ilba.spark.sessions import pyspark, quoted
from ilba.spark.tasks import Shipped
from ilba.tables.sealed import seal
from ilba.tables.table import AS_R, AnyTable, Table, loss_frame, write_pieces

Path_: TypeAlias = str | os.PathLike[str]

_DETAIL = [COUNT, MASKED, "type1", "type2", "loss"]
_PARQUET: Any = {"compression": "lz4", "statistics": False}


class SparkTable(AnyTable):
    """Counts at one level by some keys, masked, on Spark. Confidential: a release has what may be given out."""

    def __init__(
        self,
        codes: CodeLists,
        shipped: Shipped,
        selection: Selection,
        sums: Piped,
        plain: bool,
        moves: KeyedMoves | None = None,
    ) -> None:
        self.design, self.selection, self.additive = codes.design, selection, plain
        self._codes = codes
        self._shipped = shipped
        self._sums = sums
        self._moves = moves

    @cached_property
    def detail(self) -> Frame:
        """Labels, N, N_masked, type1, type2, loss, sorted, as a Spark DataFrame (confidential)."""
        return self._made.frame(labelled(self._codes, self._codes.cell_index(self.selection), _DETAIL))

    @property
    def _made(self) -> Piped:
        return self._sums.then("show", self._shipped, self.selection, self.additive, self._moves)

    @property
    def frame(self) -> Frame:
        """Labels, N_masked, type1, type2 as a Spark DataFrame (confidential)."""
        return self.detail.select(*map(quoted, (*self.selection.columns, MASKED, "type1", "type2")))

    def public(self) -> Frame:
        """Select labels and N_masked, without rows that are 0: see `Table.public`.

        Returns
        -------
        pyspark.sql.DataFrame
            The rows, on Spark.
        """
        self._tell_other_numbers()
        F = pyspark("sql.functions")
        return self.detail.where(F.col(MASKED) > 0).select(*map(quoted, (*self.selection.columns, MASKED)))

    @cached_property
    def loss(self) -> pl.DataFrame:
        """The distribution of the information loss, masked minus true: Loss, n, perc and a Total row (confidential)."""
        found = as_polars(self.detail.groupBy("loss").count()).drop_nulls().sort("loss")
        return loss_frame(found["loss"].to_numpy(), found["count"].to_numpy())

    def collect(self) -> Table:
        """Bring the same table into the memory of the driver.

        Returns
        -------
        Table
            The table. Confidential.
        """
        whole = pl.concat(pieces(self._made, self._empty(_DETAIL)))
        table = Table(self.design, self.selection, whole, self.additive)
        table.finest = self.finest
        return table

    def public_parts(self) -> Iterator[pl.DataFrame]:
        """Give the rows of `public()` piece by piece, on the driver.

        Returns
        -------
        iterator of polars.DataFrame
            The pieces, in the order of the table.
        """
        return self._parts([MASKED], public=True)

    def _frame_parts(self) -> Iterator[pl.DataFrame]:
        return self._parts([MASKED, "type1", "type2"], public=False)

    def _parts(self, counts: Sequence[str], public: bool) -> Iterator[pl.DataFrame]:
        columns = [*self.selection.columns, *counts]
        return pieces(self._made.then("pick", columns, public), self._empty(counts))

    def _empty(self, counts: Sequence[str]) -> pl.DataFrame:
        labels = label_types(self._codes, self._codes.cell_index(self.selection))
        return pl.DataFrame(schema={**labels, **dict.fromkeys(counts, pl.Int64)})

    def write_parquet(self, path: Path_) -> None:
        """Write `frame` as one Parquet file on the driver (confidential). `frame.write` writes many, on the workers.

        Parameters
        ----------
        path : path
            Where to write. Only a Parquet file is replaced.
        """
        with replacing(path, instead_of=b"PAR1") as temporary:
            write_pieces(self._frame_parts(), temporary, **_PARQUET)
            seal(temporary)

    def _write_rows(self, path: Path_, public: bool) -> None:
        with replacing(path) as temporary:
            write_pieces(self.public_parts() if public else self._frame_parts(), temporary, **AS_R)

    def __len__(self) -> int:
        return size(self.detail)

    def __repr__(self) -> str:
        return f"SparkTable({self.title}; K={self.design.threshold}; confidential)"
