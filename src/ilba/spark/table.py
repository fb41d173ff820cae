"""One masked table on Spark."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import polars as pl

from ilba.cells.codes import CodeLists
from ilba.design.design import COUNT, MASKED, Selection
from ilba.errors import InputError
from ilba.files import replacing, writable
from ilba.spark import frames
from ilba.spark.frames import Frame, as_polars, label_types, labelled, mapped, pieces
from ilba.spark.sessions import pyspark, quoted
from ilba.spark.tasks import Shipped, word_names
from ilba.tables.sealed import seal
from ilba.tables.table import AS_R, Table, loss_frame, tell_unaudited, write_pieces

Path_: TypeAlias = str | os.PathLike[str]

_DETAIL = [COUNT, MASKED, "type1", "type2", "loss"]
_PARQUET: Any = {"compression": "lz4", "statistics": False}


class SparkTable:
    """Counts at one level by some keys, masked, on Spark. Confidential: `public()` is what may leave the house."""

    def __init__(self, codes: CodeLists, shipped: Shipped, selection: Selection, sums: Frame, plain: bool) -> None:
        self.design = codes.design
        self.selection = selection
        self._codes = codes
        self._shipped = shipped
        self._sums = sums
        self._plain = plain

    @cached_property
    def detail(self) -> Frame:
        """Labels, N, N_masked, type1, type2, loss, sorted: all there is to know (confidential). A Spark DataFrame."""
        cell_index = self._codes.cell_index(self.selection)
        names = word_names(cell_index)
        if cell_index.grid <= frames.KEPT:
            ordered = self._sums.repartition(1).sortWithinPartitions(*names)
        else:
            ordered = self._sums.orderBy(*names)
        schema = labelled(self._codes, cell_index, _DETAIL)
        return mapped(ordered, schema, "show", self._shipped, self.selection, self._plain)

    @property
    def frame(self) -> Frame:
        """Labels, N_masked, type1, type2 as a Spark DataFrame (confidential)."""
        return self.detail.select(*map(quoted, (*self.selection.columns, MASKED, "type1", "type2")))

    def public(self) -> Frame:
        """Select what the public may see: labels and N_masked, without a row that is 0.

        Returns
        -------
        pyspark.sql.DataFrame
            The rows, on Spark.
        """
        F = pyspark("sql.functions")
        return self.detail.where(F.col(MASKED) > 0).select(*map(quoted, (*self.selection.columns, MASKED)))

    @cached_property
    def loss(self) -> pl.DataFrame:
        """The distribution of the information loss, masked minus true: Loss, n, perc and a Total row (confidential)."""
        found = as_polars(self.detail.groupBy("loss").count().toArrow()).sort("loss")
        return loss_frame(found["loss"].to_numpy(), found["count"].to_numpy())

    def collect(self) -> Table:
        """Bring the same table into the memory of the driver.

        Returns
        -------
        Table
            The table. Confidential.
        """
        whole = pl.concat(pieces(self.detail, self._empty(_DETAIL)))
        return Table(self.design, self.selection, whole, self._plain)

    def public_parts(self) -> Iterator[pl.DataFrame]:
        """Give what `public()` holds, piece after piece, on the driver.

        Returns
        -------
        iterator of polars.DataFrame
            The pieces, in the order of the table.
        """
        return pieces(self.public(), self._empty([MASKED]))

    def _frame_parts(self) -> Iterator[pl.DataFrame]:
        return pieces(self.frame, self._empty([MASKED, "type1", "type2"]))

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

    def write_csv(self, path: Path_, loss_path: Path_ | None = None, *, public: bool = False) -> None:
        """Write `frame` as one CSV file on the driver, or with `public` only what the public may see.

        Parameters
        ----------
        path : path
            Where to write the table.
        loss_path : path, optional
            Where to write `loss` (confidential). Left out, it is not written.
        public : bool, default False
            Write `public()` instead of `frame`. A notice tells that an iLBA table was not audited by this.

        Raises
        ------
        InputError
            Both paths are the same.
        """
        if loss_path is not None and writable(path) == writable(loss_path):
            raise InputError("the table and its loss would go to the same file. Give two names.")
        if public and not self._plain:
            tell_unaudited()
        with replacing(path) as temporary:
            write_pieces(self.public_parts() if public else self._frame_parts(), temporary, **AS_R)
        if loss_path is not None:
            self.write_loss(loss_path)

    def write_loss(self, path: Path_) -> None:
        """Write `loss` as CSV (confidential).

        Parameters
        ----------
        path : path
            Where to write.
        """
        with replacing(path) as temporary:
            self.loss.write_csv(temporary, **AS_R)

    @property
    def title(self) -> str:
        """The variables of the table in words."""
        return " x ".join(self.selection.columns) or "Total"

    def __len__(self) -> int:
        return int(self._sums.count())

    def __repr__(self) -> str:
        return f"SparkTable({self.title}; K={self.design.threshold}; confidential)"
