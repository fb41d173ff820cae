"""One masked table: what the methodologist may see of it, and what the public may see."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl
from polars.io.plugins import register_io_source

from ilba import notebook
from ilba.cells.codes import CellIndex, CodeLists, typed_labels
from ilba.data.codelists import no_code_list, read_labels, worded
from ilba.design.design import COUNT, MASKED, Design, Selection
from ilba.errors import InputError, MissingExtra, WriteError, notice, some, suggesting
from ilba.files import replacing, writable
from ilba.methods.loss import loss_counts, percent
from ilba.methods.moves import BLANK, KeyedMoves
from ilba.tables.rollup import Sums, released
from ilba.tables.sealed import seal

if TYPE_CHECKING:
    from ilba.tables.engine import AnyFinestTable

Path_: TypeAlias = str | os.PathLike[str]
IntArray: TypeAlias = npt.NDArray[np.int64]
_SHOWN = 20  # rows in a notebook
AS_R: Any = {"quote_style": "non_numeric", "null_value": "NA", "float_scientific": False}


class AnyTable(ABC):
    """What a masked table can do on either engine. Confidential."""

    design: Design
    """the design of the store"""
    selection: Selection
    """the selection of the table: its levels, keys, columns and name"""
    additive: bool
    """whether its counts are sums of jointly chosen masks"""
    finest: AnyFinestTable | None = None
    """the finest table that it was made from; None if that is not known"""

    @property
    @abstractmethod
    def frame(self) -> Any:
        """Labels, N_masked, type1, type2 (confidential)."""

    @property
    @abstractmethod
    def loss(self) -> pl.DataFrame:
        """The distribution of the information loss (confidential)."""

    @property
    def title(self) -> str:
        """The variables of the table in words."""
        return " x ".join(self.selection.columns) or "Total"

    @abstractmethod
    def public(self) -> Any:
        """Labels and N_masked, without rows that are 0."""

    @abstractmethod
    def public_parts(self) -> Iterator[pl.DataFrame]:
        """The rows of `public()`, piece by piece."""

    @abstractmethod
    def collect(self) -> Table:
        """The same table in the memory of this process."""

    @abstractmethod
    def write_parquet(self, path: Path_) -> None:
        """Write `frame` as a Parquet file with its checksum (confidential)."""

    def write_csv(self, path: Path_, loss_path: Path_ | None = None, *, public: bool = False) -> None:
        """Write `frame` as one CSV file, or with `public` only the public columns and rows.

        Parameters
        ----------
        path : path
            Where to write the table.
        loss_path : path, optional
            Where to write `loss` (confidential). By default, it is not written.
        public : bool, default False
            Write `public()` instead of `frame`. A notice says that an iLBA table was not audited.

        Raises
        ------
        InputError
            Both paths are the same.
        """
        if loss_path is not None and writable(path) == writable(loss_path):
            raise InputError("the table and its loss would go to the same file. Give two names.")
        if public:
            self._tell_other_numbers()
            self._tell_unaudited()
        self._write_rows(path, public)
        if loss_path is not None:
            self.write_loss(loss_path)

    def _tell_other_numbers(self) -> None:
        """Give a notice if the ledger at hand has these people published with other numbers."""
        if self.finest is not None:
            from ilba.release import tell_other_numbers

            tell_other_numbers(self.finest)

    def _tell_unaudited(self) -> None:
        """Give a notice that a single iLBA table does not tell whether it may be published."""
        if not self.additive:
            notice(
                "this table is masked by iLBA and was not audited. `release` and `publishable` decide what may be "
                "published."
            )

    @abstractmethod
    def _write_rows(self, path: Path_, public: bool) -> None:
        """Write `frame` or `public()` as CSV."""

    def write_loss(self, path: Path_) -> None:
        """Write `loss` as CSV (confidential).

        Parameters
        ----------
        path : path
            Where to write.
        """
        write_csv(self.loss, path)

    @abstractmethod
    def __len__(self) -> int: ...


@dataclass(frozen=True)
class PackedRows:
    """The rows of a table before they have labels: packed cells and N, N_masked, type1, type2, loss (confidential).

    Labels take longer than numbers, so they are made only when they are asked for.
    """

    codes: CodeLists
    cell_index: CellIndex
    packed: list[IntArray]
    numbers: pl.DataFrame

    @classmethod
    def of(cls, codes: CodeLists, sums: Sums, plain: bool, moves: KeyedMoves | None = None) -> PackedRows:
        """Mask the sums of a table; N_masked and loss are null where a count is left blank."""
        masked, flags = released(codes, sums, plain, moves=moves)
        true = sums.count
        columns = {COUNT: true, MASKED: masked, "type1": flags.type1, "type2": flags.type2, "loss": masked - true}
        made = pl.DataFrame(columns)
        if moves is not None and moves.threshold:
            shown = pl.col(MASKED) != BLANK
            made = made.with_columns(pl.when(shown).then(pl.col(name)).alias(name) for name in (MASKED, "loss"))
        return cls(codes, sums.cell_index, sums.packed, made)

    @property
    def detail(self) -> pl.DataFrame:
        """All there is to know of the cells: labels and numbers."""
        return pl.DataFrame([*self.codes.labels(self.cell_index, self.packed), *self.numbers.get_columns()])

    def head(self, n: int) -> PackedRows:
        """The first rows."""
        return replace(self, packed=[word[:n] for word in self.packed], numbers=self.numbers.head(n))

    @property
    def quoted(self) -> pl.DataFrame:
        """Labels, N_masked, type1, type2 in few columns, quoted and named as the lines of a csv file have them."""
        labels = self.codes.texts(self.cell_index, self.packed, _quoted, ",")
        return pl.DataFrame([*labels, *_spelled(self.numbers)])


def _spelled(numbers: pl.DataFrame) -> list[pl.Series]:
    """N_masked, type1, type2 as the lines of a csv file have them; as one column if few combinations occur."""
    columns = [numbers[name].alias(f'"{name}"') for name in (MASKED, "type1", "type2")]
    if not len(numbers) or columns[0].null_count():
        return columns
    masked, type1, type2 = (column.to_numpy() for column in columns)
    above = int(masked.max()) + 1
    if masked.min() < 0 or above * 4 > len(numbers) // 8:
        return columns
    flags = pl.Series([",0,0", ",0,1", ",1,0", ",1,1"])
    texts = pl.Series(np.repeat(np.arange(above), 4)).cast(pl.String) + flags[np.tile(np.arange(4), above)]
    found = texts[pl.Series((masked * 4 + type1 * 2 + type2).astype(np.uint32))]
    return [found.alias(",".join(column.name for column in columns))]


def _quoted(labels: pl.Series) -> pl.Expr:
    """Labels and their name as `csv_text` spells them."""
    texts = pl.col(labels.name).cast(pl.String)
    if labels.dtype == pl.String:
        texts = '"' + texts.str.replace_all('"', '""', literal=True) + '"'
    name = labels.name.replace('"', '""')
    return texts.fill_null("NA").alias(f'"{name}"')


class Table(AnyTable):
    """Counts at one level by some keys, masked. Confidential: a release has what may be given out."""

    def __init__(
        self, design: Design, selection: Selection, rows: pl.DataFrame | PackedRows, additive: bool = False
    ) -> None:
        self.design, self.selection, self.additive = design, selection, additive
        self._rows = rows
        self.codes = no_code_list()
        """the agency's code list with its labels; empty if none was given"""
        self.lists_blanks = False
        """whether a blank is shown as such; otherwise it is left out like a 0"""

    @cached_property
    def detail(self) -> pl.DataFrame:
        """Labels, N, N_masked, type1, type2, loss: all there is to know (confidential)."""
        return self._rows.detail if isinstance(self._rows, PackedRows) else self._rows

    @property
    def _numbers(self) -> pl.DataFrame:
        return self._rows.numbers if isinstance(self._rows, PackedRows) else self._rows

    def head(self, n: int = 6) -> pl.DataFrame:
        """Give the first rows of `frame` (confidential).

        Parameters
        ----------
        n : int, default 6
            How many rows at most.

        Returns
        -------
        polars.DataFrame
            Labels, N_masked, type1, type2.
        """
        rows = self._rows.head(n)
        shown = rows.detail if isinstance(rows, PackedRows) else rows
        return shown.select(*self.selection.columns, MASKED, "type1", "type2")

    @property
    def frame(self) -> pl.DataFrame:
        """Labels, N_masked, type1, type2, as the R package writes them (confidential)."""
        return self.detail.select(*self.selection.columns, MASKED, "type1", "type2")

    @cached_property
    def loss(self) -> pl.DataFrame:
        """The distribution of the information loss, masked minus true: Loss, n, perc and a Total row (confidential)."""
        return loss_frame(*loss_counts(self._numbers["loss"].drop_nulls().to_numpy()))

    def public(self) -> pl.DataFrame:
        """Select labels and N_masked, without rows that are 0: the form in which a table is published.

        A listed 0 would say "somebody is here, fewer than K", because a combination that never occurs is not listed. A
        missing row means 0. If a method leaves counts blank and shows it, N_masked is null there.

        The numbers are those of this table, not of a release. `FinestTable.release` and `publishable` decide whether
        they may be published. A notice says so if the ledger at hand has these people published by another method, K
        or masks, because both numbers together reveal small counts.

        Returns
        -------
        polars.DataFrame
            Labels and N_masked, with types and order that depend on these labels alone.
        """
        self._tell_other_numbers()
        return self._public()

    def _public(self) -> pl.DataFrame:
        labels = list(self.selection.columns)
        (shown,) = self.public_parts()
        typed = shown.with_columns(typed_labels(shown.select(labels)))
        return shown if typed.schema == shown.schema else typed.sort(labels)

    def public_parts(self) -> Iterator[pl.DataFrame]:
        """Give the rows of `public()` piece by piece, with the labels as in the store.

        Yields
        ------
        polars.DataFrame
            Here one piece. Other engines give many.
        """
        shown = pl.col(MASKED) > 0
        if self.lists_blanks:
            shown = shown | pl.col(MASKED).is_null()
        yield self.detail.filter(shown).select(*self.selection.columns, MASKED)

    def collect(self) -> Table:
        """Give this table, which is already in the memory of this process.

        Returns
        -------
        Table
            The table itself. Confidential.
        """
        return self

    def labelled(self, lang: str = "en", labels: Any = None) -> pl.DataFrame:
        """Give `frame` with labels instead of codes (confidential).

        Parameters
        ----------
        lang : {"en", "ko"}, default "en"
            The language. A missing label is taken from the other language.
        labels : path or frame, optional
            A code list. By default, the one with which the store was built.

        Returns
        -------
        polars.DataFrame
            Labels, N_masked, type1, type2. A code without a label stays unchanged.
        """
        codes = self.codes if labels is None else read_labels(labels, self.design)
        return worded(self.frame, codes, self.selection.columns, lang)

    def to_pandas(self) -> Any:
        """Give `frame` as a pandas frame (confidential).

        Returns
        -------
        pandas.DataFrame
            Labels, N_masked, type1, type2.

        Raises
        ------
        MissingExtra
            The extra `formats` is not installed.
        """
        try:
            return self.frame.to_pandas()
        except ModuleNotFoundError as problem:
            raise MissingExtra(f"this needs {problem.name}. Type: pip install 'ilba[formats]'") from None

    def write_parquet(self, path: Path_) -> None:
        """Write `frame` as a Parquet file with its checksum (confidential).

        Parameters
        ----------
        path : path
            Where to write. Only a Parquet file is replaced.
        """
        with replacing(path, instead_of=b"PAR1") as temporary:
            self.frame.write_parquet(temporary, compression="lz4", statistics=False)
            seal(temporary)

    def _write_rows(self, path: Path_, public: bool) -> None:
        if not public and isinstance(self._rows, PackedRows) and len(self):
            write_csv(self._rows.quoted, path, quote_style="never")
        else:
            write_csv(self._public() if public else self.frame, path)

    @suggesting
    def chart(self, labels: Any = None, lang: str = "en", title: str = "") -> Any:
        """Draw `public()` as bars or a heat map. A notice says that an iLBA table was not audited.

        Parameters
        ----------
        labels : path or frame, optional
            The code list with labels, such as `release.codes`. By default, codes are shown.
        lang : str, default "en"
            The language of labels and words.
        title : str, default ""
            The title. By default, one made from the variables of the table.

        Returns
        -------
        altair.Chart
            The chart; `charts.save` writes it.

        Raises
        ------
        InputError
            The table has more than three variables, or too many codes for bars.
        MissingExtra
            The extra `charts` is not installed.

        Examples
        --------
        >>> finest.table("LA2", ["gender"]).chart()  # doctest: +SKIP
        """
        from ilba.output import charts

        chart = charts.bars(self.public(), self.design, labels=labels, lang=lang, title=title)
        self._tell_unaudited()
        return chart

    @suggesting
    def map(self, geometry: Mapping[str, Any] | Path_, labels: Any = None, lang: str = "en", title: str = "") -> Any:
        """Draw `public()` as a map. A notice says that an iLBA table was not audited.

        Parameters
        ----------
        geometry : dict or path
            GeoJSON, a dictionary or a file. Its features have the code of the area as `id`, or as the property `code`
            or that of the column, such as `LA3`.
        labels : path or frame, optional
            The code list with labels, such as `release.codes`. By default, codes are shown.
        lang : str, default "en"
            The language of labels and words.
        title : str, default ""
            The title. By default, one made from the variables of the table.

        Returns
        -------
        altair.Chart
            The map; `charts.save` writes it.

        Raises
        ------
        InputError
            The table has variables other than the area, or an area has no shape.
        MissingExtra
            The extra `charts` is not installed.

        Examples
        --------
        >>> finest.table("LA3").map(ilba.datasets.census_geometry("LA3"))  # doctest: +SKIP
        """
        from ilba.output import charts

        chart = charts.areas(self.public(), geometry, self.design, labels=labels, lang=lang, title=title)
        self._tell_unaudited()
        return chart

    def __len__(self) -> int:
        return self._numbers.height

    def __repr__(self) -> str:
        return f"{self.title} (K={self.design.threshold}, confidential)\n{self.frame}"

    def _repr_html_(self) -> str:
        """The first rows as a compact table, with labels if there are any."""
        shown = self.labelled() if self.codes.height else self.frame
        shown = shown.with_columns(pl.nth(range(len(self.selection.columns))).cast(pl.String))  # a code is not a number
        head = f"{some(shown.height, 'row')} · K={self.design.threshold}"
        more = shown.height - _SHOWN
        rest = notebook.note(f"and {some(more, 'more row')}") if more > 0 else ""
        return notebook.page(self.title, head, notebook.table(shown.columns, shown.head(_SHOWN).iter_rows()), rest)


def loss_frame(values: IntArray, n: IntArray) -> pl.DataFrame:
    """The frequency of each loss, as the R package writes it: Loss, n, perc and a Total row."""
    return pl.DataFrame(
        {
            "Loss": [*(str(value) for value in values), "Total"],
            "n": np.append(n, n.sum()),
            "perc": np.append(percent(n), 100.0),
        }
    )


def write_pieces(pieces: Iterator[pl.DataFrame], file: Path, **options: Any) -> None:
    """Write Parquet, or csv if `options` describe it, from a table in one piece or in many.

    The bytes are the same in both cases (for the same rows per group), and only some pieces are in memory.
    """
    first = next(pieces)

    def again(*_: object) -> Iterator[pl.DataFrame]:
        yield first
        yield from pieces

    frame = register_io_source(again, schema=first.schema, is_pure=True)
    frame.sink_csv(file, **options) if "quote_style" in options else frame.sink_parquet(file, **options)


def csv_text(frame: pl.DataFrame) -> str:
    """A frame in the CSV form of R: text quoted, numbers bare and short, a missing label as NA."""
    text: str = frame.write_csv(**AS_R)
    return text


def write_csv(frame: pl.DataFrame, path: Path_, **options: Any) -> None:
    """Write a frame as `csv_text`, readable by its owner alone, in one step."""
    with replacing(path) as temporary:
        try:
            frame.write_csv(temporary, **{**AS_R, **options})
        except pl.exceptions.PolarsError as problem:
            raise WriteError(f"could not write {os.fspath(path)!r}: {problem}") from None
