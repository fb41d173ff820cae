"""The finest table on Spark: masked, stored and queried where the cells are."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from ilba.cells.codes import CellIndex
from ilba.cells.lookup import nodes_of
from ilba.cells.tree import walk
from ilba.design.design import COUNT, MASKED, Level, Names, Origins, Selection
from ilba.design.recordkeys import RECORD_KEY, RecordKeys
from ilba.errors import InputError, SecretError, StoreError, suggesting
from ilba.files import on_disk
from ilba.methods.controlled.search import Chosen, How, extra_bound
from ilba.progress import Progress
from ilba.secret.secret import ENVIRONMENT, Secret, given_secret
from ilba.spark import frames
from ilba.spark.frames import Frame, Piped, as_polars, labelled, mapped, pieces, rows, size, whole_numbers
from ilba.spark.parts import UNKNOWN, CellParts, sent
from ilba.spark.problems import telling
from ilba.spark.records import SparkRecords
from ilba.spark.saving import free_place, marked, read_cells, save_folder, save_url
from ilba.spark.sessions import check_running, place, pyspark, quiet, watched
from ilba.spark.table import SparkTable
from ilba.spark.tasks import SecretSource, Shipped, sum_names, sums_of, word_names
from ilba.tables import store
from ilba.tables.beside import beside_url, save_beside, secret_path, warn_of_another_secret
from ilba.tables.engine import AnyFinestTable, IntArray, KnownMasks, Path_, Values
from ilba.tables.finest import FinestTable, tell_recurring
from ilba.tables.rollup import Sums, roll_up
from ilba.tables.table import PackedRows, Table
from ilba.tables.words import WORD, MaskCode, Words, read_words, write_words

if TYPE_CHECKING:
    from ilba.methods.method import Method

_WORDS_IN_A_FILE = 4_000_000


class SparkFinestTable(AnyFinestTable):
    """The finest table on Spark: every observed cell with N and N_masked, where the data is. Confidential.

    Made by `ilba.build` from a Spark DataFrame, or by `ilba.open_store(path, spark=session)`. It has the methods of
    `FinestTable` and gives the same numbers. A release is a folder on the driver, with the same bytes as from a
    `FinestTable`. Public tables come to the driver piece by piece, so no table has to fit into memory.
    """

    _source: SecretSource | None = None
    _made: Piped | None = None  # how the workers make the cells, before anything is cached

    def __init__(self, about: store.About, cells: Frame, *, rows: int | None = None, most: int | None = None) -> None:
        super().__init__(about if RECORD_KEY in cells.columns else replace(about, record_keys=None))
        self._cells = cells
        self._rows = rows
        self._most = most if rows is None else rows  # an upper bound on the number of cells

    @property
    def cells(self) -> Frame:
        """A Spark DataFrame of packed cells, N and N_masked, as a store holds them (confidential)."""
        check_running(self._cells.sparkSession)
        return self._cells

    @classmethod
    def drawn(
        cls,
        records: SparkRecords,
        secret: Secret | None,
        given: object,
        labels: pl.DataFrame,
        origins: Origins = Origins(),  # noqa: B008 - it never changes
    ) -> SparkFinestTable:
        """Count cells and mask them with a secret, on the workers.

        Parameters
        ----------
        records : SparkRecords
            Records on Spark, each packed into a cell, and code lists.
        secret : Secret, optional
            The secret that draws the masks. None makes a new one, which `save` writes beside the store.
        given : object
            The secret as the user gave it: for a path, each worker reads the file.
        labels : polars.DataFrame
            The agency's code list with its labels.
        origins : Origins, optional
            The parts of the design that a person declared.

        Returns
        -------
        SparkFinestTable
            The finest table; nothing is computed yet.
        """
        codes, chosen = records.codes, secret or Secret.new()
        source, shipped = SecretSource.of(chosen, given if secret else chosen), Shipped.of(codes)
        about = store.About(codes, labels, chosen.fingerprint, None, origins, record_keys=records.record_keys)
        # A part is a run of areas, so that a table, an area or a cell finds its data together.
        parts = CellParts.of(codes.finest, records.weights, records.total)
        counted = sent(Piped(records.packed).then("count_cells", shipped, parts), parts)
        made = counted.then("put_together", shipped).then("mask", shipped, source)
        finest = cls(about, made.frame(whole_numbers(about.columns)), most=records.total)
        finest._made = made
        finest._unsaved_secret = None if secret else chosen
        finest._source = source
        tell_recurring(codes, lambda: records.weights, are_all=not labels.height)
        return finest

    @classmethod
    def open(cls, path: Path_, spark: Any) -> SparkFinestTable:
        """Open a store on Spark: see `ilba.open_store`.

        Parameters
        ----------
        path : path
            A file, a folder that driver and workers share, or a URL.
        spark : SparkSession
            The session that reads it.

        Returns
        -------
        SparkFinestTable
            The finest table; its cells stay on Spark.

        Raises
        ------
        StoreError
            There is no such store, or it is damaged.
        """
        pyspark("sql")
        check_running(spark)
        text = on_disk(path)
        if "://" not in text and not Path(text).is_dir():
            if not Path(text).is_file():
                raise StoreError(f"there is no store {text!r}.")
            about, here = store.read(text)  # this also checks it
            cells = spark.read.parquet(place(text)).select(*about.columns)
            if size(cells) != len(here):
                raise store.damaged(text)
            return cls(about, cells, rows=len(here))
        try:
            if "://" in text:
                lines = rows(spark.read.text(f"{text}/{store.ABOUT}", wholetext=True))
                told = store.Dataset.from_text("".join(row[0] for row in lines).strip(), text)
            else:
                told = store.dataset_of(Path(text))
        except pyspark("errors").AnalysisException:
            raise StoreError(f"{text!r} is not a store: it holds no {store.ABOUT}.") from None
        cells = read_cells(spark, f"{place(text)}/{store.CELLS}").select(*told.about.columns)
        try:
            is_whole = marked(cells, told.about) == (told.rows, told.mark)
        except Exception as problem:
            if not isinstance(problem, InputError) and "UNABLE_TO_INFER_SCHEMA" not in str(problem):
                raise
            is_whole = False
        if not is_whole:
            raise store.damaged(text) from None
        opened = cls(told.about, cells, rows=told.rows)
        opened.place = None if "://" in text else Path(os.path.realpath(text))
        return opened

    @property
    def frame(self) -> Frame:
        """Labels, N, N_masked as a Spark DataFrame (confidential)."""
        schema = labelled(self.codes, self.codes.finest, [COUNT, MASKED])
        return mapped(self.cells, schema, "name_cells", self._shipped)

    def within(self, label: object) -> FinestTable:
        """Bring one top-level area of the first hierarchy into the memory of the driver.

        Parameters
        ----------
        label : object
            The label of the area.

        Returns
        -------
        FinestTable
            The cells of the area, with unchanged code lists of the keys. Confidential.
        """
        area = store.TopArea.of(self.codes, label)
        inside = self.cells.filter(f"cell0 >= {area.low}" + ("" if area.high is None else f" AND cell0 < {area.high}"))
        cells = pl.concat(pieces(Piped(inside), pl.DataFrame(schema=dict.fromkeys(self._about.columns, pl.Int64))))
        return FinestTable.of_cells(*store.cut(self._about, cells.sort(self._about.words), area))

    def collect(self) -> FinestTable:
        """Bring the table into the memory of the driver, for work that Spark cannot do.

        Returns
        -------
        FinestTable
            The table. Confidential.
        """
        cells = pl.concat(pieces(Piped(self.cells), pl.DataFrame(schema=dict.fromkeys(self._about.columns, pl.Int64))))
        finest = FinestTable.of_cells(self._about, cells.sort(self._about.words))
        finest.place, finest.control, finest.by = self.place, self.control, self.by
        finest.remember_secret(self.secret_at_hand(), unsaved=self.unsaved)
        return finest

    def at_hand(self) -> AnyFinestTable:
        """The same table in the memory of the driver if it is small enough, otherwise this one (confidential)."""
        return self.collect() if len(self) <= frames.KEPT else self

    def secret_at_hand(self) -> Secret | None:
        """The secret that drew the masks, if this table was built with it and the driver can open it."""
        return self._source.at_hand() if self._source else None

    def keep(self) -> None:
        """Cache the counted cells, so that they are not counted again for each query."""
        self._cells, self._made = self.cells.persist(), None

    def as_truth(self, kind: Callable[[str, pl.Series], Any]) -> SparkFinestTable:
        """Make the world in which the masked counts are the truth: see `FinestTable.as_truth`.

        Parameters
        ----------
        kind : callable
            Gives the type of a label column from its name and its codes as text.

        Returns
        -------
        SparkFinestTable
            A finest table whose N and N_masked are the masked counts of this one.
        """
        F = pyspark("sql.functions")
        names = word_names(self.codes.finest)
        shown = self.cells.where(F.col(MASKED) > 0)
        codes, moved = self.codes.shown(self._used(shown), kind)
        new = word_names(codes.finest)
        cells = mapped(shown, whole_numbers([*new, COUNT, MASKED]), "move", self._shipped, Shipped.of(codes), moved)
        about = replace(self._about, codes=codes, fingerprint=None)
        if len(new) == len(names) and all(bool((np.diff(move[move >= 0]) > 0).all()) for move in moved):
            return SparkFinestTable(about, cells, most=self._most)
        ordered = cells.repartitionByRange(*new).sortWithinPartitions(*new)
        return SparkFinestTable(about, ordered, most=self._most)

    def occurring(self) -> list[IntArray]:
        """List the labels that occur in each dimension (confidential).

        Returns
        -------
        list of array
            The numbers of the labels of each dimension, in the order of its code list.
        """
        return self._used(self.cells)

    def _used(self, cells: Frame) -> list[IntArray]:
        digits = mapped(cells, whole_numbers(["place", "digit"]), "used_digits", self._shipped).distinct()
        found = as_polars(digits).sort("digit")
        return [found.filter(pl.col("place") == place)["digit"].to_numpy() for place in range(len(self.codes.lists))]

    def marks(self, columns: Sequence[str] = ()) -> tuple[str, str]:
        """Checksums of the true counts and of the masks, independent of order, types and lists (confidential)."""
        F = pyspark("sql.functions")
        names = [f"path{place}" for place in range(len(self.codes.lists))]
        beside = [COUNT, MASKED, *([RECORD_KEY] if self.record_keys else [])]
        paths = mapped(self.cells, whole_numbers([*names, *beside]), "mark_paths", self._shipped)
        names = [names[place] for place in self.codes.order(columns or self.design.columns)]
        count = F.bit_xor(F.xxhash64(*names, COUNT))
        masks = F.bit_xor(F.when(F.col(MASKED) > 0, F.xxhash64(*names, MASKED)).otherwise(F.lit(0).cast("long")))
        if self.by is not None:
            masks = F.bit_xor(F.xxhash64(*names, RECORD_KEY))
        row = rows(paths.agg(count, masks))[0]
        one, other = (f"{int(mark or 0) & (2**64 - 1):016x}" for mark in row)
        return one, other

    def class_means(self) -> dict[int, float]:
        """The mean masked count of the cells with each true count in 1..K-1 (confidential): see `ilba.class_means`."""
        F = pyspark("sql.functions")
        small = self.cells.where(F.col(COUNT).between(1, self.design.threshold - 1))
        return {int(x): float(mean) for x, mean in sorted(rows(small.groupBy(COUNT).agg(F.avg(MASKED))))}

    @cached_property
    def _shipped(self) -> Shipped:
        return Shipped.of(self.codes)

    @suggesting
    def table(self, level: Level = 0, key: Names | None = (), *, method: Method | str | None = None) -> SparkTable:
        """Select the masked table at a level by some keys. It is made when it is read.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order of its columns.
        method : Method or str, optional
            A method with its parameters, as `with_method` takes it. By default, the method of this table.

        Returns
        -------
        SparkTable
            The table with its flags and losses. Confidential.

        Raises
        ------
        InputError
            The store has no such level or key.
        """
        if method is not None:
            return self.with_method(method).table(level, key)
        selection = self.design.select(level, key)
        return self._table(selection, self._sums(self.cells, None, selection))

    def _table(self, selection: Selection, sums: Piped) -> SparkTable:
        joint = self.method == "controlled"
        table = SparkTable(self.codes, self._shipped, selection, sums, joint, self.moves)
        table.finest = self
        return table

    def _sums(self, source: Frame, finer: Selection | None, selection: Selection) -> Piped:
        """The summed parts of a table in its order, from the finest cells or from the sums of a finer one."""
        cell_index = self.codes.cell_index(selection)
        parts = CellParts.of_table(self.codes, cell_index, UNKNOWN if self._most is None else self._most)
        pieces = self._added(source, finer, selection, parts)
        return sent(pieces, parts).then("put_together", self._shipped, selection)

    def _added(self, source: Frame, finer: Selection | None, selection: Selection, parts: CellParts | None) -> Piped:
        """What each worker's cells add to the cells of a table."""
        if self.moves is None and finer is None:
            source = source.select(*self._about.words, COUNT, MASKED)
        return Piped(source).then("sum_up", self._shipped, finer, selection, parts)

    def _sums_schema(self, selection: Selection) -> Any:
        return whole_numbers(sum_names(self.codes.cell_index(selection), self.moves is not None))

    def lookup(
        self, level: Level = 0, key: Names | None = (), hkey_value: Any = (), key_value: Values = ()
    ) -> tuple[int, bool]:
        """Look up the masked count of one cell, and whether it occurs at all (confidential).

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in the order of its columns.
        hkey_value : sequence or dict, default ()
            The labels of the area: the whole path from the coarsest level down to `level`. With several hierarchies a
            mapping from their names, or all paths one after the other.
        key_value : label or sequence of labels, default ()
            One label for each of `key`. None stands for a missing label.

        Returns
        -------
        tuple of int and bool
            The result of `cell`, and whether the cell occurs in the data.

        Raises
        ------
        InputError
            The store has no such level or key, or the number of values is wrong.
        """
        F = pyspark("sql.functions")
        selection = self.design.select(level, key)
        nodes = nodes_of(self.codes, selection, hkey_value, key_value)
        if any(node is None for node in nodes):
            return 0, False
        cell_index = self.codes.cell_index(selection)
        wanted = [int(word[0]) for word in cell_index.pack([np.array([node]) for node in nodes], 1)]
        inside = self.cells
        if cell_index.places and cell_index.places[0].dimension == 0:
            # Files with other areas are not read, because cells are sorted by finest areas and an area is a run of
            # them.
            areas, (_, depth, _), node = self.codes.lists[0], cell_index.places[0], nodes[0] or 0
            first, below = int(areas.starts[depth][node]), int(areas.below(depth)[node])
            stride = self.codes.finest.stride(0)
            last = (first + below) * stride - 1
            inside = inside.where(F.col("cell0").between(first * stride, last))
        sums = self._added(inside, None, selection, None).frame(self._sums_schema(selection))
        for name, word in zip(word_names(cell_index), wanted, strict=True):
            sums = sums.where(F.col(name) == word)
        found = _taken(sums, cell_index)
        if not len(found):
            return 0, False
        return self._released_cell(found), True

    def content_mark(self) -> object:
        """A checksum of everything in the store, as plain values (confidential)."""
        rows, mark = marked(self.cells, self._about)
        return f"{rows} {mark:016x}"

    def tables(self, wanted: Sequence[Selection]) -> Iterator[SparkTable | Table]:
        """Make several tables: large ones on Spark, small ones on the driver.

        Parameters
        ----------
        wanted : sequence of Selection
            The tables, their keys in the order of the design.

        Yields
        ------
        SparkTable or Table
            One table at a time, in the cheapest order.
        """
        if len(self) <= frames.KEPT:
            yield from self.collect().tables(wanted)
            return
        joint, moves = self.method == "controlled", self.moves
        for selection, sums in self._walk(wanted):
            if isinstance(sums, Sums):
                table = Table(self.design, selection, PackedRows.of(self.codes, sums, joint, moves), joint)
                table.finest = self
                yield table
            else:
                yield self._table(selection, Piped(sums))

    def sums(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Sums]]:
        """The summed parts of several tables on the driver, where each of them has to fit (confidential)."""
        for selection, sums in self._walk(wanted):
            yield selection, sums if isinstance(sums, Sums) else _taken(sums, self.codes.cell_index(selection))

    def _walk(self, wanted: Sequence[Selection]) -> Iterator[tuple[Selection, Frame | Sums]]:
        """The sums of the wanted tables: large ones on Spark, small ones and all below them on the driver."""

        def rolled(source: Frame | Sums, finer: Selection | None, target: Selection) -> Frame | Sums:
            cell_index = self.codes.cell_index(target)
            if isinstance(source, Sums):
                return roll_up(self.codes, source, cell_index)
            sums = self._sums(source, finer, target).frame(self._sums_schema(target))
            if target == self.design.finest:
                return sums
            if cell_index.grid <= frames.KEPT:
                return _taken(sums, cell_index)
            sums = sums.persist()
            if size(sums) > frames.KEPT:
                return sums
            try:
                return _taken(sums, cell_index)
            finally:
                sums.unpersist()

        def release(sums: Frame | Sums) -> None:
            if not isinstance(sums, Sums):
                sums.unpersist()

        return walk(self.codes, wanted, self.cells, rolled, release)

    def _controlled(
        self,
        wanted: Sequence[Selection],
        bound: int | None,
        secret: Secret | Path_ | None,
        previous: AnyFinestTable | KnownMasks | None,
        progress: Progress | None,
        how: How,
    ) -> SparkFinestTable:
        from ilba.spark.choosing import choose_on_spark

        source = self._secret_of(secret)
        cells = self.cells if previous is None else self._fixed(previous)
        opened = source.open().derived("controlled bound")
        extra = extra_bound(opened.number, self.design.threshold)
        cells, control = choose_on_spark(cells, self.codes, source, wanted, bound, progress, (extra, how))
        tables, asked = tuple(table.name for table in wanted), None if bound is None else int(bound)
        told = how.chosen(tables, asked, control.held)
        result = self._masked_by(cells, source.fingerprint, told)
        result.control = control
        return result

    def _masked_by(self, cells: Frame, fingerprint: str | None, chosen: Chosen | None) -> SparkFinestTable:
        """The same counts with other masks, and with everything else that is known about this table."""
        about = replace(self._about, fingerprint=fingerprint, chosen=chosen)
        result = SparkFinestTable(about, cells, rows=self._rows, most=self._most)
        result._unsaved_secret, result._source, result.place = self._unsaved_secret, self._source, self.place
        return result

    def _drawing(self, secret: Secret | Path_ | None) -> SparkFinestTable:
        """Refuse: methods that treat tables jointly need the memory of one process."""
        raise InputError(
            "on Spark tables are masked by 'controlled', 'ilba' or 'cell-key'. For another method take "
            "collect(), which brings the cells into memory; release does so by itself."
        )

    def _masks_as_they_are(self) -> SparkFinestTable:
        return self._masked_by(self.cells, self.fingerprint, self.chosen)

    def _with_keys(self, secret: Secret | Path_ | None) -> SparkFinestTable:
        """This table with record keys: its own, or drawn by its secret, on the workers."""
        if self.record_keys:
            return self._masks_as_they_are()
        about = replace(self._about, record_keys=RecordKeys())
        if secret is None and self._source is not None:
            source = self._source
        else:
            source = SecretSource.of(found := self._key_secret(secret), secret or found)
        cells = mapped(self.cells, whole_numbers(about.columns), "key_cells", self._shipped, source)
        result = SparkFinestTable(about, cells, rows=self._rows, most=self._most)
        result._unsaved_secret, result._source, result.place = self._unsaved_secret, self._source, self.place
        return result

    def with_masks_of(self, previous: AnyFinestTable) -> SparkFinestTable | None:
        """The same counts with the masks of another table; None if the counts differ."""
        F = pyspark("sql.functions")
        self._check_wave(previous)
        if len(previous) != len(self):
            return None
        beside = self._beside(previous).persist()
        if rows(beside.where(F.col("previous") < 0).limit(1)):
            beside.unpersist()
            return None
        cells = beside.select(*self._about.words, COUNT, F.col("previous").alias(MASKED))
        return self._masked_by(cells, previous.fingerprint, previous.chosen)

    def _fixed(self, previous: AnyFinestTable | KnownMasks) -> Frame:
        """The cells with the masked counts that stay, and -1 for masks to choose."""
        if isinstance(previous, KnownMasks):
            return previous.masked.select(*self._about.columns, "previous")
        return self._beside(previous)

    def _tagged(self, secret: Secret, purpose: str, below: int | None) -> Frame:
        """The cells, whether each is small, and the keyed tags of small cells, as signed numbers."""
        source = SecretSource.of(secret, secret.place or secret)
        schema = whole_numbers([*self._about.columns, "small", "tag"])
        return mapped(self.cells, schema, "tag_cells", self._shipped, source, purpose, below)

    def smallest_tags(self, secret: Secret, purpose: str, most: int) -> tuple[Words, int]:
        """The smallest keyed tags of small cells, and the number of small cells (confidential)."""
        F = pyspark("sql.functions")
        small = self._tagged(secret, purpose, self.design.threshold).where("small = 1").select("tag").persist()
        ordered = small.orderBy(F.col("tag").bitwiseXOR(F.lit(-(2**63)))).limit(most)  # as unsigned numbers
        tags, number = as_polars(ordered)["tag"].to_numpy().view(np.uint64), size(small)
        small.unpersist()
        return tags, number

    def known_masks(self, secret: Secret, purpose: str, parts: Sequence[Path], code: MaskCode) -> KnownMasks:
        """The masks of this table's cells that are known from files of `write_masks`."""
        F = pyspark("sql.functions")
        at, last = F.shiftrightunsigned(WORD, code.bits).alias("at"), F.lit(2**code.bits - 1)
        there = _words(self.cells.sparkSession, parts).select(at, F.col(WORD).bitwiseAND(last).alias("bits"))
        tagged = self._tagged(secret, purpose, code.below).withColumn("at", F.shiftrightunsigned("tag", code.bits))
        joined = tagged.join(there, "at", "left")
        number = F.col("tag").bitwiseAND(last).bitwiseXOR(F.col("bits"))
        value = F.when(number == 0, F.lit(0)).otherwise(_lowest(code) + number - 1)
        masked = F.when(F.col("small") == 0, F.col(COUNT)).otherwise(F.coalesce(value, F.lit(-1)))
        return self._as_known(joined.withColumn("previous", masked).select(*self._about.columns, "previous", "tag"))

    def _as_known(self, masked: Frame) -> KnownMasks:
        F = pyspark("sql.functions")
        cells = masked.persist()
        unknown = F.sum((F.col("previous") < 0).cast("long"))
        differing = F.sum(((F.col("previous") >= 0) & (F.col("previous") != F.col(MASKED))).cast("long"))
        row = rows(cells.agg(unknown, differing))[0]
        return KnownMasks(cells, int(row[0] or 0), int(row[1] or 0))

    def either(self, first: KnownMasks, second: KnownMasks) -> KnownMasks:
        """The first known masks, and of small cells without one the second."""
        F = pyspark("sql.functions")
        words = self._about.words
        others = second.masked.select(*words, F.col("previous").alias("other"))
        lacking = (F.col("previous") < 0) & (F.col(COUNT) < self.design.threshold)
        value = F.when(lacking, F.col("other")).otherwise(F.col("previous"))
        joined = first.masked.join(others, list(words)).withColumn("previous", value)
        return self._as_known(joined.select(*self._about.columns, "previous", "tag"))

    def write_masks(self, folder: Path, secret: Secret, purpose: str, known: KnownMasks, code: MaskCode) -> int:
        """Write the masks that are not known yet as Parquet files to a folder, and return their number.

        The workers write the files if the driver can read what they write; otherwise the masks come to the driver in
        pieces.
        """
        if not known.unknown:
            return 0
        F = pyspark("sql.functions")
        number = F.when(F.col(MASKED) == 0, F.lit(0)).otherwise(F.col(MASKED) - _lowest(code) + 1)
        word = F.col("tag").bitwiseXOR(number.cast("long")).alias(WORD)
        files = -(-known.unknown // _WORDS_IN_A_FILE)
        new = known.masked.where("previous < 0").select(word).repartition(files, WORD).sortWithinPartitions(WORD)
        with telling():
            new.write.mode("append").option("compression", "zstd").parquet(place(str(folder)))
        if _rows_in(folder) != known.unknown:
            for file in folder.iterdir():
                file.unlink()
            for number, piece in enumerate(pieces(Piped(new), pl.DataFrame(schema={WORD: pl.Int64}))):
                write_words(piece[WORD].to_numpy().view(np.uint64), folder / f"{number:06d}.parquet")
        return known.unknown

    def with_masks(self, known: KnownMasks, chosen: Chosen | None) -> SparkFinestTable:
        """The same counts with the known masks; the others stay."""
        F = pyspark("sql.functions")
        masked = F.when(F.col("previous") < 0, F.col(MASKED)).otherwise(F.col("previous")).alias(MASKED)
        cells = known.masked.select(
            *self._about.words, COUNT, masked, *self._about.columns[len(self._about.words) + 2 :]
        )
        return self._masked_by(cells, self.fingerprint, chosen)

    def _beside(self, previous: AnyFinestTable) -> Frame:
        """The cells with the masked count `previous` of another table if it has the same count there, otherwise -1."""
        self._check_wave(previous)
        spark, names = self.cells.sparkSession, [*self._about.words, COUNT]
        cells = previous.cells
        if not isinstance(previous, SparkFinestTable):
            with quiet():
                cells = spark.createDataFrame(cells.to_arrow())
        schema = whole_numbers([*names, "previous"])
        there = mapped(cells, schema, "masks_before", Shipped.of(previous.codes), self._shipped)
        joined = self.cells.join(there, names, "left").fillna(-1, ["previous"])
        words = self._about.words
        return joined.select(*self._about.columns, "previous").repartitionByRange(*words).sortWithinPartitions(*words)

    def _secret_of(self, secret: Secret | Path_ | None) -> SecretSource:
        """The secret that drew the masks, in the form that workers open."""
        if secret is None and self._source is not None:
            return self._source
        if secret is None and not os.environ.get(ENVIRONMENT) and self.place and secret_path(self.place).exists():
            secret = secret_path(self.place)
        chosen = given_secret(secret)
        if chosen is None:
            raise SecretError(
                "choosing masks jointly needs the secret that drew them. Give secret= (--secret), the path of "
                "the secret file, or set ILBA_SECRET."
            )
        self._check_secret(chosen.fingerprint)
        return SecretSource.of(chosen, secret)

    def save(self, path: Path_, progress: Progress | None = None) -> Path_:
        """Write the store: a folder of Parquet files, by the workers. Then this table is read from there.

        Parameters
        ----------
        path : path or str
            A path that driver and workers share, or a URL such as s3a://bucket/store. Only the workers write to a URL,
            and an existing store at a URL is never replaced. A `file:` URL is the path that it names.
        progress : callable, optional
            Called with each `ProgressStep`.

        Returns
        -------
        Path or str
            The path of the store.

        Raises
        ------
        InputError
            The path holds something else, or the URL holds anything.
        SecretError
            The masks were drawn with a new secret, which cannot be kept beside a URL.
        WriteError
            The workers do not write where the driver reads.
        """
        text = on_disk(path)
        spark = self.cells.sparkSession
        with watched(spark, "writing", progress):
            if "://" in text:
                saved: Path_ = text
                self._check_saved_secret()
                self._rows = save_url(self.cells, self._about, text)
            else:
                saved = target = free_place(text)
                self._save_secret(target)
                self._rows = save_folder(self._made or Piped(self.cells), self._about, target)
                self.place = target
        self._cells = read_cells(spark, f"{place(os.fspath(saved))}/{store.CELLS}").select(*self._about.columns)
        self._made, self._most = None, self._rows
        return saved

    def _save_secret(self, target: Path) -> None:
        """Write a new secret beside the store, before the store."""
        if target.exists():
            with contextlib.suppress(StoreError):  # an empty folder, or a damaged store, which may be replaced
                before, _ = store.read_about(target)
                warn_of_another_secret(target, before.fingerprint, self.fingerprint)
        if self._unsaved_secret is not None:
            save_beside(self._unsaved_secret, target)
            self._unsaved_secret = None

    def _check_saved_secret(self) -> None:
        if self._unsaved_secret is not None:
            raise beside_url()

    def __len__(self) -> int:
        if self._rows is None:
            self._rows = size(self.cells)
        return self._rows

    def _size(self) -> int | None:
        return self._rows


def _taken(sums: Frame, cell_index: CellIndex) -> Sums:
    """The sums of a small table on the driver, sorted; partial sums are added up."""
    names = word_names(cell_index)
    table = as_polars(sums).group_by(names).agg(pl.all().sum()).sort(names)
    return sums_of(cell_index, {name: table[name].to_numpy() for name in table.columns})


def _lowest(code: MaskCode) -> Any:
    """The lowest masked count above 0 that a cell can have."""
    F = pyspark("sql.functions")
    return F.when(F.col(COUNT) < code.K, F.lit(code.K)).otherwise(F.col(COUNT) - code.move)


def _words(spark: Any, files: Sequence[Path]) -> Frame:
    """The words in files of this machine: read by the workers if they see the files, otherwise sent to them."""
    if files:
        try:
            words = read_cells(spark, *(place(str(file)) for file in files))
            if words.schema[WORD].dataType.simpleString() == "bigint" and words.count():
                return words
        except pyspark("errors").PySparkException:
            pass  # the workers have other disks
    plain = pl.DataFrame({WORD: read_words(files).view(np.int64)})
    with quiet():
        return spark.createDataFrame(plain.to_arrow())


def _rows_in(folder: Path) -> int:
    """The number of rows of the Parquet files in a folder of this machine."""
    files = sorted(folder.glob("*.parquet"))
    return int(pl.scan_parquet(files).select(pl.len()).collect().item()) if files else 0
