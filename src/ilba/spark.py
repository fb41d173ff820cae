"""The finest table on Spark: counted, masked, stored and asked where the data is, with the same numbers.

Nothing that grows with the records or with the finest table comes to the driver. What does: the code lists, the sums of
tables of up to a million cells, and published tables, piece after piece. Nothing is used that Spark Connect lacks.
"""

from __future__ import annotations

import io
import itertools
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import polars as pl

from ilba import store
from ilba.codes import CodeLists, Packing
from ilba.controlled import Chosen
from ilba.cube import Cube, Node, Tables, descend, selection_of, selections, tree, wanted_tables
from ilba.design import COUNT, MASKED, RESERVED, Design, Level, Names, Selection
from ilba.errors import InputError, SecretError, StoreError, WriteError, listing, suggesting
from ilba.files import PRIVATE, beside, exchange, replacing, writable
from ilba.finest import FinestTable, Values, nodes_of, save_beside, tell_recurring, warn_of_another_key
from ilba.masking import percent
from ilba.microdata import Missing, Source, Spelled, check_missing, no_labels
from ilba.publishing import Publishes
from ilba.rollup import Sums, released
from ilba.secret import Secret, given_secret
from ilba.session import place, pyspark, quoted
from ilba.table import AS_R, Table, detail, loss_frame, write_pieces
from ilba.tasks import PARTS, Key, Shipped, sums_of, word_names

if TYPE_CHECKING:
    pass

Frame: TypeAlias = Any
Path_: TypeAlias = str | os.PathLike[str]

_KEPT = 2**20  # the sums of a table of up to so many cells are taken to the driver, to make others from
_DETAIL = [COUNT, MASKED, "type1", "type2", "loss"]
_PARQUET: Any = {"compression": "lz4", "statistics": False}


def is_spark(data: object) -> bool:
    """Whether this is a DataFrame of Spark, of a classic session or of Connect. PySpark is not imported to know it."""
    return any(
        kind.__name__ == "DataFrame" and kind.__module__.startswith("pyspark.sql") for kind in type(data).__mro__
    )


@dataclass(frozen=True)
class SparkCounted:
    """Counted cells where they are, packed, and the code lists that name them."""

    codes: CodeLists
    cells: Frame


class SparkMicrodata(Source):
    """Records in a DataFrame of Spark. Nothing is read until they are counted."""

    def __init__(self, frame: Frame) -> None:
        pyspark("sql")
        super().__init__(frame.columns, "the data")
        self._frame = frame

    def categories(self, columns: Sequence[str]) -> dict[str, int]:
        """How many different values each column has."""
        if not columns:
            return {}
        F = pyspark("sql.functions")
        # Missing counts as a value, as everywhere; count_distinct would leave it out.
        each = [
            (F.count_distinct(quoted(c)) + F.max(F.col(quoted(c)).isNull().cast("int"))).alias(f"n{i}")
            for i, c in enumerate(columns)
        ]
        row = self._frame.agg(*each).collect()[0]
        return {column: int(row[place] or 0) for place, column in enumerate(columns)}

    def count(
        self,
        design: Design,
        *,
        missing: Missing = "drop",
        missing_values: Iterable[object] = (),
        known: Sequence[pl.DataFrame] | None = None,
    ) -> SparkCounted:
        """Each observed combination of the design's columns with its number of records.

        One pass finds the labels of each dimension, which come to the driver as code lists; another packs every record
        into a cell and counts equal ones. Records with missing values take one more pass per dimension.
        """
        check_missing(missing)
        columns = {name: f"v{place}" for place, name in enumerate(design.columns)}
        records = self._frame.select(*(self._plain(name).alias(short) for name, short in columns.items()))
        dimensions = CodeLists.dimensions(design)
        raw = []
        for names in dimensions:
            counted = records.groupBy(*(columns[name] for name in names)).count().toArrow()
            raw.append(_polars(counted).rename(dict(zip(counted.column_names, [*names, COUNT], strict=True))))
        spelled = Spelled.of(design, raw, missing, missing_values, known, self._said)
        codes, digits = spelled.codes, [spelled.digits(i).fill_null(-1) for i in range(len(dimensions))]
        if not spelled.complete:
            kept = self._encoded(records, raw, digits, columns)
            used = [_polars(kept.groupBy(f"d{place}").count().toArrow()) for place in range(len(dimensions))]
            spelled.tell_left_out(int(used[0]["count"].sum()))
            codes, moved = spelled.only([frame[f"d{place}"].to_numpy() for place, frame in enumerate(used)])
            places = zip((digit.to_numpy() for digit in digits), moved, strict=True)
            digits = [pl.Series(np.where(digit < 0, -1, move[digit])) for digit, move in places]
        packed = self._encoded(records, raw, digits, columns)
        F = pyspark("sql.functions")
        words = []
        for number, word in enumerate(codes.finest.words):
            cell = F.lit(0).cast("long")
            for at in word:
                cell = cell * F.lit(codes.finest.places[at].size).cast("long") + F.col(f"d{at}")
            words.append(cell.alias(f"cell{number}"))
        names = word_names(codes.finest)
        return SparkCounted(codes, packed.select(*words).groupBy(*names).agg(F.count(F.lit(1)).alias(COUNT)))

    def _plain(self, name: str) -> Any:
        """A column whose values are labels, without what Spark knows of it beyond its values."""
        kind = self._frame.schema[name].dataType.typeName()
        column = self._frame[quoted(name)]
        if kind in ("array", "map", "struct", "binary", "variant", "interval") or "interval year" in kind:
            raise no_labels(name, kind)
        # Text may carry a collation, in which "A" and "a" are equal; labels are what is written.
        return column.cast("string") if kind in ("string", "void", "char", "varchar") else column

    def _encoded(
        self, records: Frame, raw: Sequence[pl.DataFrame], digits: Sequence[pl.Series], columns: Mapping[str, str]
    ) -> Frame:
        """The records that are kept, with the digit of each dimension as d0, d1, ..."""
        F, types = pyspark("sql.functions"), pyspark("sql.types")
        spark = records.sparkSession
        frame = records
        for number, (spelling, digit) in enumerate(zip(raw, digits, strict=True)):
            names = spelling.columns[:-1]
            finest = spelling[names[-1]]
            if finest.n_unique() == len(finest) and not finest.null_count() and not _has_nan(finest):
                names = names[-1:]  # the finest column alone tells the whole path
            keys = {columns[name]: f"k{number}_{columns[name]}" for name in names}
            schema = types.StructType(
                [
                    *(types.StructField(key, records.schema[short].dataType) for short, key in keys.items()),
                    types.StructField(f"d{number}", types.LongType()),
                ]
            )
            mapping = spelling.select(pl.col(name).alias(keys[columns[name]]) for name in names)
            mapping = mapping.with_columns(digit.alias(f"d{number}"))
            with _quiet():
                listed = F.broadcast(spark.createDataFrame(mapping.to_arrow(), schema))
            same = [F.col(short).eqNullSafe(F.col(key)) for short, key in keys.items()]
            frame = frame.join(listed, same, "left").drop(*keys.values())
        changed = F.raise_error(F.lit("the data changed while it was counted: a label is new. Count it again."))
        found = [
            F.when(F.col(f"d{i}").isNull(), changed.cast("long")).otherwise(F.col(f"d{i}")).alias(f"d{i}")
            for i in range(len(raw))
        ]
        frame = frame.select(*found)
        for number, digit in enumerate(digits):
            if (digit < 0).any():
                frame = frame.where(F.col(f"d{number}") >= 0)
        return frame


def _has_nan(column: pl.Series) -> bool:
    return column.dtype.is_float() and bool(column.is_nan().any())


class SparkFinestTable(Publishes):
    """The finest table on Spark: every observed cell with N and N_masked, where the data is. Confidential.

    Made by `ilba.build` from a Spark DataFrame, or by `ilba.open_store(path, spark=session)`. It has the verbs of
    `FinestTable`, and gives the same numbers. A release is a folder on the driver, with the same bytes that a
    `FinestTable` publishes: public tables come there piece after piece, and none has to fit into memory.
    """

    def __init__(self, about: store.About, cells: Frame, *, rows: int | None = None) -> None:
        self._about = about
        self.cells = cells
        """a Spark DataFrame of packed cells, N and N_masked, as a store holds them (confidential)"""
        self._rows = rows
        self._unsaved_secret: Secret | None = None
        self._key: Key | None = None

    @classmethod
    def drawn(
        cls, counted: SparkCounted, secret: Secret | None, given: object, labels: pl.DataFrame
    ) -> SparkFinestTable:
        """Mask counted cells with the key, or with a new one; `given` is how the user gave it."""
        codes, chosen = counted.codes, secret or Secret.new()
        key = Key.of(chosen, given if secret else chosen)
        names = word_names(codes.finest)
        # Sorted by area, so that a table, an area or a cell finds what it needs side by side.
        ordered = counted.cells.repartitionByRange(*names).sortWithinPartitions(*names)
        shipped = Shipped.of(codes)
        cells = _mapped(ordered, _longs([*names, COUNT, MASKED]), "mask", shipped, key)
        finest = cls(store.About(codes, labels, chosen.fingerprint, None), cells)
        finest._unsaved_secret = None if secret else chosen
        finest._key = key
        tell_recurring(codes)
        return finest

    @classmethod
    def open(cls, path: Path_, spark: Any) -> SparkFinestTable:
        """See `ilba.open_store`."""
        pyspark("sql")
        text = os.fspath(path)
        if "://" not in text and not Path(text).is_dir():
            plain = store.file_json(Path(text), text) if Path(text).is_file() else None
            if plain is None:
                raise StoreError(f"there is no store {text!r}.")
            about, rows = store.About.from_json(plain, text), int(plain["rows"])
            cells = spark.read.parquet(place(text)).select(*about.columns)
            if cells.count() != rows:
                raise store.damaged(text)
            return cls(about, cells, rows=rows)
        try:
            if "://" in text:
                lines = spark.read.text(f"{text}/{store.ABOUT}", wholetext=True).collect()
                told = "".join(row[0] for row in lines).strip()
            else:
                told = store.about_text(Path(text))
        except pyspark("errors").AnalysisException:
            raise StoreError(f"{text!r} is not a store: it holds no {store.ABOUT}.") from None
        about, rows, mark = store.parse_dataset(told, text)
        cells = spark.read.parquet(f"{place(text)}/{store.CELLS}").select(*about.columns)
        if _marked(cells, about) != (rows, mark):
            raise store.damaged(text)
        return cls(about, cells, rows=rows)

    @property
    def codes(self) -> CodeLists:
        """The code lists, on the driver."""
        return self._about.codes

    @property
    def design(self) -> Design:
        """The hierarchies, the keys, the threshold and the reading of S."""
        return self.codes.design

    @property
    def labels(self) -> pl.DataFrame:
        """The agency's code list with its labels; empty when none was given."""
        return self._about.labels

    @property
    def fingerprint(self) -> str | None:
        """Tells which key drew the masks; None when they came with the counts."""
        return self._about.fingerprint

    @property
    def chosen(self) -> Chosen | None:
        """For which tables the masks were chosen jointly; None when each was drawn by itself."""
        return self._about.chosen

    @property
    def method(self) -> Literal["ilba", "controlled"]:
        """How its tables are masked: by iLBA, or as sums of masks that were chosen jointly."""
        return "controlled" if self.chosen else "ilba"

    @property
    def frame(self) -> Frame:
        """Labels, N, N_masked as a Spark DataFrame (confidential)."""
        schema = _labelled(self.codes, self.codes.finest, [COUNT, MASKED])
        return _mapped(self.cells, schema, "name_cells", self._shipped)

    def collect(self) -> FinestTable:
        """The same table in the memory of the driver, for what Spark cannot do, such as an audit (confidential)."""
        cells = pl.concat(_pieces(self.cells, pl.DataFrame(schema=dict.fromkeys(self._about.columns, pl.Int64))))
        cells = cells.sort(self._about.words)
        columns = [cells[name].to_numpy() for name in self._about.columns]
        finest = FinestTable(self.codes, columns[:-2], *columns[-2:], fingerprint=self.fingerprint, chosen=self.chosen)
        finest.labels = self.labels
        finest._unsaved_secret = self._unsaved_secret
        return finest

    @cached_property
    def _shipped(self) -> Shipped:
        return Shipped.of(self.codes)

    @suggesting
    def table(self, level: Level = 0, key: Names | None = ()) -> SparkTable:
        """The masked table at a level (a number, a column name, 0 for none) by the keys named. Not made yet."""
        selection = self.design.select(level, key)
        return self._table(selection, self._sums(self.cells, None, selection))

    def _table(self, selection: Selection, sums: Frame) -> SparkTable:
        return SparkTable(self.codes, self._shipped, selection, sums, bool(self.chosen))

    def _sums(self, source: Frame, finer: Selection | None, selection: Selection) -> Frame:
        """The summed parts of a table, from the finest cells or from the sums of a finer one."""
        F = pyspark("sql.functions")
        names = word_names(self.codes.packing(selection))
        added = _mapped(source, _longs([*names, *PARTS]), "sum_up", self._shipped, finer, selection)
        if finer is None and set(selection.columns) == set(self.design.columns):
            return added  # every finest cell is a cell of this table
        return added.groupBy(*names).agg(*(F.sum(part).alias(part) for part in PARTS))

    @suggesting
    def cell(self, level: Level = 0, key: Names | None = (), hkey_value: Any = (), key_value: Values = ()) -> int:
        """The masked count of one cell: the entry of the table for it, or 0 where it does not occur."""
        masked, _ = self.lookup(level, key, hkey_value, key_value)
        return masked

    def lookup(
        self, level: Level = 0, key: Names | None = (), hkey_value: Any = (), key_value: Values = ()
    ) -> tuple[int, bool]:
        """As `cell`, and whether the cell occurs at all (confidential)."""
        F = pyspark("sql.functions")
        selection = self.design.select(level, key)
        nodes = nodes_of(self.codes, selection, hkey_value, key_value)
        if any(node is None for node in nodes):
            return 0, False
        packing = self.codes.packing(selection)
        wanted = [int(word[0]) for word in packing.pack([np.array([node]) for node in nodes], 1)]
        inside = self.cells
        if packing.places and packing.places[0].dimension == 0:
            # Files with other areas are not read: an area is a run of finest areas, and cells are sorted by them.
            areas, (_, depth, _), node = self.codes.lists[0], packing.places[0], nodes[0] or 0
            first, below = int(areas.starts[depth][node]), int(areas.below(depth)[node])
            stride = self.codes.finest.stride(0)
            last = (first + below) * stride - 1
            inside = inside.where(F.col("cell0").between(first * stride, last))
        sums = self._sums(inside, None, selection)
        for name, word in zip(word_names(packing), wanted, strict=True):
            sums = sums.where(F.col(name) == word)
        found = _taken(sums, packing)
        if not len(found):
            return 0, False
        masked, _ = released(self.codes, found, bool(self.chosen))
        return int(masked[0]), True

    @suggesting
    def cube(
        self, levels: Iterable[Level] | None = None, keys: Names | None = None, max_keys: int | None = None
    ) -> Cube:
        """All tables of these levels (left out: all, 0 included) by all subsets of these keys, at most `max_keys` each.

        Large tables are Spark jobs, each from a finer one; from a million cells down they are made on the driver.
        """
        wanted = selections(self.design, levels, keys, max_keys)
        return Cube(wanted, self.tables, about={"store": self._mark})

    @cached_property
    def _mark(self) -> str:
        rows, mark = _marked(self.cells, self._about)
        return f"{rows} {mark:016x}"

    def tables(self, wanted: Sequence[Selection]) -> Iterator[SparkTable | Table]:
        """The wanted tables (keys in the order of the design): large ones on Spark, small ones on the driver."""
        if len(self) <= _KEPT:
            yield from self.collect().tables(wanted)
            return
        asked = {(selection.levels, selection.keys) for selection in wanted}
        root, children = tree(self.codes, wanted)
        yield from self._descend(asked, children, root, self.cells)

    def _descend(
        self, asked: set[Node], children: Mapping[Node, Sequence[Node]], node: Node, source: Frame
    ) -> Iterator[SparkTable | Table]:
        """A table and those that hang on it; `source` holds its sums, or at the root the finest cells."""
        root = source is self.cells
        here = selection_of(self.design, node)
        if node in asked:
            yield self._table(here, self._sums(source, None, here) if root else source)
        for child in children.get(node, []):
            below = selection_of(self.design, child)
            packing = self.codes.packing(below)
            sums = self._sums(source, None if root else here, below).persist()
            try:
                if packing.grid <= _KEPT or sums.count() <= _KEPT:
                    for selection, small in descend(self.codes, asked, children, child, _taken(sums, packing)):
                        yield Table(self.design, selection, detail(self.codes, small, bool(self.chosen)))
                else:
                    yield from self._descend(asked, children, child, sums)
            finally:
                sums.unpersist()

    @suggesting
    def controlled(
        self,
        tables: Tables = "all",
        bound: int | None = None,
        *,
        levels: Iterable[Level] | None = None,
        keys: Names | None = None,
        max_keys: int | None = None,
        secret: Secret | Path_ | None = None,
    ) -> SparkFinestTable:
        """The same counts with masks chosen jointly, top-level area by top-level area, each in one task.

        The tables must all stand below the top level of the first hierarchy: then no count of theirs holds cells of
        two areas, and choosing area by area leaves nothing out. Tables above are sums of them, without a bound.
        """
        if self.chosen:
            raise InputError(
                "the masks of this table were chosen jointly already. Start from the table that was built."
            )
        wanted = wanted_tables(self.design, tables, levels, keys, max_keys)
        above = [table.name for table in wanted if not table.levels[0]]
        if above:
            top = self.design.hierarchies[0].columns[0]
            raise InputError(
                f"on Spark masks are chosen for one {top} at a time, and {listing(above, 4)} cross them. Leave these "
                f"tables out, with levels= from {top!r} on; they can be summed from the others."
            )
        key = self._key_of(secret)
        shipped, names = self._shipped, self._about.columns
        area = _mapped(self.cells, _longs([*names, "area"]), "with_area", shipped)

        def choose(area: Any) -> Any:
            from ilba import tasks

            return tasks.choose_area(area, shipped, key, wanted, bound)

        with _quiet():
            cells = area.groupBy("area").applyInArrow(choose, _longs([*names, "over"]))
        cells = cells.persist()
        F = pyspark("sql.functions")
        held = not cells.agg(F.max("over")).collect()[0][0]
        told = Chosen(tuple(table.name for table in wanted), None if bound is None else int(bound), held)
        about = store.About(self.codes, self.labels, key.fingerprint, told)
        result = SparkFinestTable(about, cells.select(*names), rows=self._rows)
        result._unsaved_secret, result._key = self._unsaved_secret, self._key
        return result

    def _key_of(self, secret: Secret | Path_ | None) -> Key:
        """The key that drew the masks, however a worker comes by it."""
        if secret is None and self._key is not None:
            return self._key
        chosen = given_secret(secret)
        if chosen is None:
            raise SecretError(
                "choosing masks jointly needs the key that drew them. Give secret=, the path of the key file, "
                "or set ILBA_SECRET."
            )
        if self.fingerprint and chosen.fingerprint != self.fingerprint:
            raise SecretError(
                f"this table was masked with another key (fingerprint {self.fingerprint}). Give that one."
            )
        return Key.of(chosen, secret)

    def save(self, path: Path_) -> Path_:
        """Write the store: a folder of Parquet files, by the workers. Then this table is read from there.

        A path has to be one that driver and workers share. A URL, such as s3a://bucket/store, is written by the
        workers alone, and what stands there is never replaced.
        """
        text = os.fspath(path)
        spark = self.cells.sparkSession
        if "://" in text:
            self._save_remote(text, spark)
            saved: Path_ = text
        else:
            saved = self._save_local(free_place(text), spark)
        self.cells = spark.read.parquet(f"{place(os.fspath(saved))}/{store.CELLS}").select(*self._about.columns)
        return saved

    def _save_local(self, target: Path, spark: Any) -> Path:
        if (target / store.ABOUT).exists():
            before, _, _ = store.parse_dataset(store.about_text(target), str(target))
            warn_of_another_key(target, before.fingerprint, self.fingerprint)
        if self._unsaved_secret is not None:
            save_beside(self._unsaved_secret, target)
            self._unsaved_secret = None
        temporary = beside(target)
        temporary.mkdir(mode=0o700)
        try:
            folder = place(str(temporary / store.CELLS))
            self.cells.write.parquet(folder)
            rows, mark = _marked(spark.read.parquet(folder), self._about)
            parts = store.parts_of(temporary)
            here = pl.scan_parquet(parts).select(pl.len()).collect().item() if parts else 0
            if here != rows:
                raise WriteError(
                    f"the workers of Spark do not write where the driver reads {str(target)!r}. Give a path that all "
                    f"of them share, or a URL such as hdfs://... or s3a://..."
                )
            with replacing(temporary / store.ABOUT) as about:
                about.write_text(store.dataset_json(self._about, rows, mark), encoding="utf-8")
            for file in temporary.rglob("*"):
                file.chmod(0o700 if file.is_dir() else PRIVATE)
            exchange(temporary, target)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        self._rows = rows
        return target

    def _save_remote(self, url: str, spark: Any) -> None:
        if self._unsaved_secret is not None:
            raise SecretError(
                "no secret was given, and beside a URL none is kept. Make one with `ilba secret new PATH` and build "
                "with secret=PATH: the same key gives the same masks tomorrow."
            )
        try:
            self.cells.write.mode("errorifexists").parquet(f"{url}/{store.CELLS}")
        except pyspark("errors").AnalysisException as problem:
            if "EXISTS" not in str(problem).upper():
                raise
            raise InputError(f"{url!r} exists, and a store at a URL is not replaced. Choose another name.") from None
        self._rows, mark = _marked(spark.read.parquet(f"{url}/{store.CELLS}"), self._about)
        text = store.dataset_json(self._about, self._rows, mark)
        # The cells are a store only from here on.
        spark.createDataFrame([(text,)], "value string").coalesce(1).write.text(f"{url}/{store.ABOUT}")

    def __len__(self) -> int:
        if self._rows is None:
            self._rows = int(self.cells.count())
        return self._rows

    def __repr__(self) -> str:
        design = self.design
        areas = "; ".join(" > ".join(hierarchy.columns) for hierarchy in design.hierarchies)
        return (
            f"SparkFinestTable({areas}; keys {listing(design.keys) or '(none)'}; K={design.threshold}; "
            f"cells={design.cells!r}; {'controlled; ' if self.chosen else ''}confidential)"
        )


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
        packing = self._codes.packing(self.selection)
        names = word_names(packing)
        if packing.grid <= _KEPT:
            ordered = self._sums.repartition(1).sortWithinPartitions(*names)
        else:
            ordered = self._sums.orderBy(*names)
        schema = _labelled(self._codes, packing, _DETAIL)
        return _mapped(ordered, schema, "show", self._shipped, self.selection, self._plain)

    @property
    def frame(self) -> Frame:
        """Labels, N_masked, type1, type2 as a Spark DataFrame (confidential)."""
        return self.detail.select(*map(quoted, (*self.selection.columns, MASKED, "type1", "type2")))

    def public(self) -> Frame:
        """Labels and N_masked, without a row that is 0, as a Spark DataFrame."""
        F = pyspark("sql.functions")
        return self.detail.where(F.col(MASKED) > 0).select(*map(quoted, (*self.selection.columns, MASKED)))

    @cached_property
    def loss(self) -> pl.DataFrame:
        """The distribution of the information loss, masked minus true: Loss, n, perc and a Total row (confidential)."""
        found = _polars(self.detail.groupBy("loss").count().toArrow()).sort("loss")
        n = found["count"].to_numpy()
        return loss_frame(found["loss"].to_numpy(), n, percent(n))

    def collect(self) -> Table:
        """The same table in the memory of the driver."""
        return Table(self.design, self.selection, pl.concat(_pieces(self.detail, self._empty(_DETAIL))))

    def public_parts(self) -> Iterator[pl.DataFrame]:
        """What `public()` holds, piece after piece, on the driver."""
        return _pieces(self.public(), self._empty([MASKED]))

    def _frame_parts(self) -> Iterator[pl.DataFrame]:
        return _pieces(self.frame, self._empty([MASKED, "type1", "type2"]))

    def _empty(self, counts: Sequence[str]) -> pl.DataFrame:
        labels = _label_types(self._codes, self._codes.packing(self.selection))
        return pl.DataFrame(schema={**labels, **dict.fromkeys(counts, pl.Int64)})

    def write_parquet(self, path: Path_) -> None:
        """Write `frame` as one Parquet file on the driver (confidential). `frame.write` writes many, on the workers."""
        with replacing(path, instead_of=b"PAR1") as temporary:
            write_pieces(self._frame_parts(), temporary, **_PARQUET)

    def write_csv(self, path: Path_, loss_path: Path_ | None = None, *, public: bool = False) -> None:
        """Write `frame` as one CSV file on the driver, or with `public` what the public may see; and `loss`."""
        if loss_path is not None and writable(path) == writable(loss_path):
            raise InputError("the table and its loss would go to the same file. Give two names.")
        with replacing(path) as temporary:
            write_pieces(self.public_parts() if public else self._frame_parts(), temporary, **AS_R)
        if loss_path is not None:
            self.write_loss(loss_path)

    def write_loss(self, path: Path_) -> None:
        """Write `loss` as CSV."""
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


def free_place(path: Path_) -> Path:
    """Where a dataset may be written: nothing stands there, or a store that it replaces."""
    target = Path(os.path.realpath(path))
    if target.is_file():
        raise InputError(f"{os.fspath(path)!r} is a file. On Spark a store is a folder: choose another name.")
    if target.is_dir() and any(target.iterdir()) and not (target / store.ABOUT).exists():
        raise InputError(
            f"{os.fspath(path)!r} exists and is not a store, which this would destroy. Choose another name."
        )
    writable(target / store.ABOUT) if target.is_dir() else writable(target)
    return target


def check_names(design: Design) -> None:
    """Refuse names that Spark does not tell apart: to it, `Age` and `age` are one column."""
    seen: dict[str, str] = {name.casefold(): name for name in RESERVED}
    for name in design.columns:
        if name.casefold() in seen:
            raise InputError(
                f"Spark does not tell the columns {seen[name.casefold()]!r} and {name!r} apart. Rename one of them."
            )
        seen[name.casefold()] = name


def _mapped(frame: Frame, schema: Any, task: str, *known: Any) -> Frame:
    """A frame whose batches go through one of the functions in `ilba.tasks` on the workers."""

    def run(batches: Any) -> Any:
        from ilba import tasks  # the workers' own: its caches last from task to task

        return getattr(tasks, task)(batches, *known)

    with _quiet():
        return frame.mapInArrow(run, schema)


def _quiet() -> Any:
    """PySpark warns of newer pandas wherever Arrow is used; no pandas frame is made here."""
    return warnings.catch_warnings(action="ignore", category=FutureWarning)


def _longs(names: Sequence[str]) -> Any:
    types = pyspark("sql.types")
    return types.StructType([types.StructField(name, types.LongType()) for name in names])


def _labelled(codes: CodeLists, packing: Packing, counts: Sequence[str]) -> Any:
    """A schema of label columns and counts."""
    types = pyspark("sql.types")
    labels = _label_types(codes, packing).items()
    fields = [(name, types.StringType() if kind == pl.String else types.LongType()) for name, kind in labels]
    return types.StructType([*itertools.starmap(types.StructField, fields), *_longs(counts).fields])


def _label_types(codes: CodeLists, packing: Packing) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for dimension, level, _ in packing.places:
        schema = codes.lists[dimension].labels.schema
        found |= {name: schema[name] for name in codes.lists[dimension].columns[:level]}
    return found


def _polars(table: Any) -> pl.DataFrame:
    frame: pl.DataFrame = pl.DataFrame(table)
    # An instant is told in the time of the session; labels must not depend on it.
    zoned = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime) and kind.time_zone]
    return frame.with_columns(pl.col(zoned).dt.convert_time_zone("UTC")) if zoned else frame


def _pieces(frame: Frame, empty: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """A frame on the driver, partition after partition: only one or two are in memory. At least one piece."""
    yield empty
    for row in _mapped(frame, "piece binary", "enclose").toLocalIterator(prefetchPartitions=True):
        yield pl.read_ipc_stream(io.BytesIO(row[0])).cast(empty.schema)


def _taken(sums: Frame, packing: Packing) -> Sums:
    """The sums of a small table on the driver, sorted."""
    table = _polars(sums.toArrow()).sort(word_names(packing))
    return sums_of(packing, {name: table[name].to_numpy() for name in table.columns})


def _marked(cells: Frame, about: store.About) -> tuple[int, int]:
    """The number of cells and their mark, as `store.marked` computes it."""
    F = pyspark("sql.functions")
    rows, mark = cells.agg(F.count(F.lit(1)), F.bit_xor(F.xxhash64(*about.columns))).collect()[0]
    return int(rows), int(mark or 0) & (2**64 - 1)
