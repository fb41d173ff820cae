"""Records in a Spark DataFrame, counted where they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CodeLists
from ilba.data.letters import forms
from ilba.data.microdata import LabelMap, Missing, Source, check_missing, no_labels
from ilba.design.design import COUNT, RESERVED, Design
from ilba.design.recordkeys import KEY_RANGE, RECORD_KEY, RecordKeys
from ilba.errors import InputError
from ilba.spark.frames import Frame, as_polars, mapped, rows, whole_numbers
from ilba.spark.problems import CHANGED, TIME, UNLIKE, refuse_empty
from ilba.spark.sessions import check_running, pyspark, quiet, quoted

IntArray: TypeAlias = npt.NDArray[np.int64]


def check_names(design: Design) -> None:
    """Refuse names that Spark does not distinguish: for Spark, `Age` and `age` are one column."""
    seen: dict[str, str] = {name.casefold(): name for name in RESERVED}
    for name in design.columns:
        if name.casefold() in seen:
            raise InputError(
                f"Spark does not distinguish the columns {seen[name.casefold()]!r} and {name!r}. Rename one of them."
            )
        seen[name.casefold()] = name


@dataclass(frozen=True)
class SparkRecords:
    """Records on Spark, each packed into a cell but not counted yet, and their code lists."""

    codes: CodeLists
    packed: Frame
    weights: list[IntArray]
    """the number of records of each label, for each dimension"""
    total: int
    record_keys: RecordKeys | None = None
    """the kind of record keys that go with the records"""


class SparkMicrodata(Source):
    """Records in a Spark DataFrame. Nothing is read until they are counted."""

    def __init__(self, frame: Frame) -> None:
        pyspark("sql")
        check_running(frame.sparkSession)
        super().__init__(frame.columns, "the data")
        self._frame = frame
        refuse_empty(frame.inputFiles())

    def require(self, columns: Iterable[str], argument: str) -> None:
        """Refuse columns that the data does not have, and those that `ilba.spark.read` found with different types."""
        wanted = list(columns)
        super().require(wanted, argument)
        filtered = (*self.recipe.where, *self.recipe.without) if self.recipe else ()
        schema = self._frame.schema
        for name in (*self.spelled_in(wanted), *filtered):
            if UNLIKE in schema[name].metadata:
                raise InputError(schema[name].metadata[UNLIKE])

    def categories(self, columns: Sequence[str]) -> dict[str, int]:
        """The number of different values of each column."""
        if self.recipe is not None:
            return {name: self._made(name).to_series(0).n_unique() for name in columns}
        if not columns:
            return {}
        F = pyspark("sql.functions")
        # A missing value counts as a value, as everywhere; count_distinct would leave it out.
        each = [
            (F.count_distinct(quoted(c)) + F.max(F.col(quoted(c)).isNull().cast("int"))).alias(f"n{i}")
            for i, c in enumerate(columns)
        ]
        row = rows(self._frame.agg(*each))[0]
        return {column: int(row[place] or 0) for place, column in enumerate(columns)}

    def count(
        self,
        design: Design,
        *,
        missing: Missing = "drop",
        missing_values: Iterable[object] = (),
        known: Sequence[pl.DataFrame] | None = None,
        record_key: str | None = None,
    ) -> SparkRecords:
        """The records as cells, for `SparkFinestTable.drawn` to count.

        One job finds the labels of each dimension, which come to the driver as code lists. If records are left out, a
        second job finds the remaining labels. Counting reads the records once more.
        """
        check_missing(missing)
        columns = {name: f"v{place}" for place, name in enumerate(self.spelled_in(design.columns))}
        keys, beside = self._keys(record_key)
        records = self._kept().select(
            *(self._plain(name).alias(short) for name, short in columns.items()),
            *(one.alias(RECORD_KEY) for one in beside),
        )
        dimensions = CodeLists.dimensions(design)
        found = self._distinct(records, list(map(self.spelled_in, dimensions)), columns)
        raw = [self.as_labels(self._in_zones(values), names) for values, names in zip(found, dimensions, strict=True)]
        spelled = LabelMap.of(design, raw, missing, missing_values, known, self._said)
        codes, digits = spelled.codes, [spelled.digits(i).fill_null(-1) for i in range(len(dimensions))]
        total = spelled.total
        if not spelled.complete:
            used, total = self._used(self._encoded(records, found, digits, columns), len(dimensions))
            spelled.tell_left_out(total)
            codes, moved = spelled.only(used)
            places = zip((digit.to_numpy() for digit in digits), moved, strict=True)
            digits = [pl.Series(np.where(digit < 0, -1, move[digit])) for digit, move in places]
        weights = [
            np.bincount(digit.to_numpy()[kept], one[COUNT].to_numpy()[kept], len(listed)).astype(np.int64)
            for digit, one, listed in zip(digits, found, codes.lists, strict=True)
            for kept in [(digit >= 0).to_numpy()]
        ]
        encoded = self._encoded(records, found, digits, columns)
        F = pyspark("sql.functions")
        words = []
        for number, word in enumerate(codes.finest.words):
            cell = F.lit(0).cast("long")
            for at in word:
                cell = cell * F.lit(codes.finest.places[at].size).cast("long") + F.col(f"d{at}")
            words.append(cell.alias(f"cell{number}"))
        packed = encoded.select(*words, *([RECORD_KEY] if beside else []))
        return SparkRecords(codes, packed, weights, total, keys)

    def _distinct(
        self, records: Frame, dimensions: Sequence[Sequence[str]], columns: Mapping[str, str]
    ) -> list[pl.DataFrame]:
        """The combinations of each dimension as spelled in the data, with their numbers of records, in one job."""
        F, schema = pyspark("sql.functions"), records.schema
        branches = []
        for place, names in enumerate(dimensions):
            here = [columns[name] for name in names]
            absent = {short: F.lit(None).cast(schema[short].dataType).alias(short) for short in columns.values()}
            told = [F.col(short) if short in here else none for short, none in absent.items()]
            one = records.groupBy(*here).agg(F.count(F.lit(1)).alias(COUNT))
            branches.append(one.select(F.lit(place).alias("place"), *told, COUNT))
        counted = as_polars(reduce(lambda one, other: one.unionAll(other), branches))
        return [
            counted.filter(pl.col("place") == place).select(
                *(pl.col(columns[name]).alias(name) for name in names), COUNT
            )
            for place, names in enumerate(dimensions)
        ]

    def _used(self, encoded: Frame, dimensions: int) -> tuple[list[IntArray], int]:
        """The digits of each dimension in the kept records, and the number of kept records."""
        F = pyspark("sql.functions")
        counted = mapped(encoded, whole_numbers(["place", "digit", "size"]), "used_labels", dimensions)
        used = as_polars(counted.groupBy("place", "digit").agg(F.sum("size").alias("size")))
        digits = [used.filter(pl.col("place") == place)["digit"].to_numpy() for place in range(dimensions)]
        return digits, int(used.filter(pl.col("place") == 0)["size"].sum())

    def _keys(self, column: str | None) -> tuple[RecordKeys | None, list[Any]]:
        """The kind of record keys in a column, and that column as whole numbers."""
        if column is None:
            return None, []
        F = pyspark("sql.functions")
        number = F.expr(f"try_cast(replace(trim(cast({quoted(column)} as string)), ',', '.') as double)")
        split = F.max((number != F.rint(number)).cast("int"))
        missing = F.sum((number.isNull() | F.isnan(number)).cast("long"))
        row = rows(self._kept().agg(F.count(F.lit(1)), F.min(number), F.max(number), missing, split))[0]
        keys = RecordKeys.of_column(column, row[0], row[1], row[2], int(row[3] or 0), bool(row[4]))
        whole = F.rint(number * KEY_RANGE) if row[4] else number
        return keys, [whole.cast("long")]

    def _kept(self) -> Frame:
        """The records that the recipe keeps."""
        F, frame = pyspark("sql.functions"), self._frame
        for name, values in (self.recipe.where if self.recipe else {}).items():
            frame = frame.where(self._as_text(name).isin(forms(values)))
        for name, values in (self.recipe.without if self.recipe else {}).items():
            named = self._as_text(name).isin(forms(values))
            frame = frame.where(~F.coalesce(named, F.lit(False)))
        return frame

    def _as_text(self, name: str) -> Any:
        """A column as `where` and `without` compare it."""
        if self._frame.schema[name].dataType.typeName() in ("timestamp", "timestamp_ntz"):
            raise InputError(
                f"where and without name {name!r}, a time, which Spark writes in another way than memory does. Write "
                f"it as text, or filter the data before."
            )
        F = pyspark("sql.functions")
        return F.trim(F.col(quoted(name)).cast("string"))

    def _made(self, name: str) -> pl.DataFrame:
        """The different values of a column made by a recipe."""
        columns = self.spelled_in([name])
        counted = self._kept().select(*(self._plain(one) for one in columns)).groupBy(*map(quoted, columns)).count()
        values = as_polars(counted)
        values = values.rename(dict(zip(values.columns, [*columns, COUNT], strict=True)))
        return self.as_labels(self._in_zones(values), [name])

    def _in_zones(self, values: pl.DataFrame) -> pl.DataFrame:
        """Values of the data, with each time in the unit and the zone that its files name, as in memory."""
        for name in values.columns:
            kind = self._time(name) if isinstance(values.schema[name], pl.Datetime) else None
            if kind is not None and values.schema[name] != kind:
                time = values[name].cast(pl.Datetime(kind.time_unit, "UTC"))
                values = values.with_columns(
                    time.dt.convert_time_zone(kind.time_zone) if kind.time_zone else time.dt.replace_time_zone(None)
                )
        return values

    def _time(self, name: str) -> pl.Datetime | None:
        """The unit and the zone of a time in the files from which `ilba.spark.read` read it; None if they are unknown.

        Spark keeps neither: it has the moment, and shows it in the zone of the session.
        """
        unit, zone = self._frame.schema[name].metadata.get(TIME, (None, None))
        return None if unit is None else pl.Datetime(unit, zone or None)

    def _plain(self, name: str) -> Any:
        """A column of labels, without Spark's metadata beyond its values."""
        kind = self._frame.schema[name].dataType.typeName()
        column = self._frame[quoted(name)]
        if kind in ("array", "map", "struct", "binary", "variant", "interval") or "interval year" in kind:
            raise no_labels(name, kind)
        if kind == "timestamp" and self._time(name) is None:
            self._refuse_unless_utc(name)
        # Text may have a collation in which "A" and "a" are equal; labels are compared as written.
        return column.cast("string") if kind in ("string", "void", "char", "varchar") else column

    def _refuse_unless_utc(self, name: str) -> None:
        """Refuse a time in an unknown zone, unless the session names UTC."""
        if self._frame.sparkSession.conf.getAll.get("spark.sql.session.timeZone") not in ("UTC", "Etc/UTC"):
            raise InputError(
                f"{name!r} is a time whose zone Spark does not tell, so its labels are not known. For UTC: --conf "
                f"spark.sql.session.timeZone=UTC (spark.conf.set in Python). For the day and hour that Spark shows: "
                f"frame.withColumn({name!r}, frame[{name!r}].cast('timestamp_ntz')). Or write it as text."
            )

    def _encoded(
        self, records: Frame, raw: Sequence[pl.DataFrame], digits: Sequence[pl.Series], columns: Mapping[str, str]
    ) -> Frame:
        """The kept records, with the digit of each dimension as d0, d1, ..."""
        F, types = pyspark("sql.functions"), pyspark("sql.types")
        spark = records.sparkSession
        frame = records
        changed = F.raise_error(F.lit(CHANGED))
        found = []
        for number, (spelling, digit) in enumerate(zip(raw, digits, strict=True)):
            names = spelling.columns[:-1]
            finest = spelling[names[-1]]
            if finest.n_unique() == len(finest) and not finest.null_count() and not _has_nan(finest):
                names = names[-1:]  # the finest column determines the whole path
                if (first := _without_a_gap(finest, digit)) is not None:
                    value = F.col(columns[names[0]])
                    known = value.between(first, first + len(finest) - 1)
                    place = F.when(known, value.cast("long") - first).otherwise(changed.cast("long"))
                    found.append(place.alias(f"d{number}"))
                    continue
            keys = {columns[name]: f"k{number}_{columns[name]}" for name in names}
            schema = types.StructType(
                [
                    *(types.StructField(key, records.schema[short].dataType) for short, key in keys.items()),
                    types.StructField(f"d{number}", types.LongType()),
                ]
            )
            mapping = spelling.select(pl.col(name).alias(keys[columns[name]]) for name in names)
            mapping = mapping.with_columns(digit.alias(f"d{number}"))
            with quiet():
                listed = F.broadcast(spark.createDataFrame(mapping.to_arrow(), schema))
            same = [
                # If nothing is missing, equality is enough, and Spark joins whole numbers several times faster.
                F.col(short).eqNullSafe(F.col(key)) if spelling[name].null_count() else F.col(short) == F.col(key)
                for name, (short, key) in zip(names, keys.items(), strict=True)
            ]
            frame = frame.join(listed, same, "left").drop(*keys.values())
            place = F.col(f"d{number}")
            found.append(F.when(place.isNull(), changed.cast("long")).otherwise(place).alias(f"d{number}"))
        frame = frame.select(*found, *(name for name in [RECORD_KEY] if name in records.columns))
        for number, digit in enumerate(digits):
            if (digit < 0).any():
                frame = frame.where(F.col(f"d{number}") >= 0)
        return frame


def _without_a_gap(values: pl.Series, digit: pl.Series) -> int | None:
    """The first value, if values and digits are consecutive whole numbers in the same order; otherwise None."""
    if not values.dtype.is_integer() or values.dtype == pl.UInt64:
        return None
    offset = (values.cast(pl.Int64) - digit).unique()
    return int(offset[0]) if len(offset) == 1 and sorted(digit) == list(range(len(values))) else None


def _has_nan(column: pl.Series) -> bool:
    return column.dtype.is_float() and bool(column.is_nan().any())
