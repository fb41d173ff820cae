"""Reading: frames and files of every kind, counted into observed combinations.

Whatever comes in leaves as a polars frame of labels and a count `N`. Labels are whole numbers or text; missing is
null. Polars frames and files are streamed; pandas and pyarrow frames, DuckDB relations and other lazy frames come
in through narwhals, the lazy ones counted where they live.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import narwhals as nw
import polars as pl

from ilba.codes import canonical
from ilba.design import COUNT, MASKED
from ilba.errors import IlbaError, InputError, MissingExtra, listing, nearest, notice

Missing: TypeAlias = Literal["drop", "category"]
Schema: TypeAlias = Mapping[str, Any]

_TYPES: dict[Any, Any] = {"int": pl.Int64, "text": pl.String, int: pl.Int64, str: pl.String}
T = TypeVar("T")
_READ = "csv, csv.gz, tsv, parquet, arrow, feather, ipc, sav, zsav, por, dta, sas7bdat, xpt, a folder of parquet parts"


class Microdata:
    """A source of records that can be counted. Nothing is read until it is."""

    def __init__(self, source: pl.LazyFrame | nw.LazyFrame[Any], said: str) -> None:
        self._source = source
        self._said = said
        self.columns: list[str] = list(_told(lambda: source.collect_schema().names(), said))

    @classmethod
    def open(cls, data: Any, *, schema: Schema | None = None) -> Microdata:
        """Open a frame, a relation or a path."""
        if isinstance(data, str | os.PathLike):
            return cls(_scan(data, schema), repr(os.fspath(data)))
        if schema is not None:
            raise InputError("schema goes with csv files; a frame has types already.")
        if isinstance(data, pl.DataFrame | pl.LazyFrame):
            return cls(data.lazy(), "the data")
        try:
            frame = nw.from_native(data)
        except TypeError:
            raise InputError(
                f"data is a {type(data).__module__}.{type(data).__name__}. Give a polars, pandas or pyarrow frame, "
                f"a DuckDB relation, or the path of a file ({_READ})."
            ) from None
        if isinstance(frame, nw.LazyFrame):
            return cls(frame, "the data")
        return cls(_polars_of(frame), "the data")

    def require(self, columns: Iterable[str], argument: str) -> None:
        """Refuse columns that the data does not have."""
        for column in columns:
            if column not in self.columns:
                raise InputError(
                    f"{argument} names {column!r}, which {self._said} does not have."
                    f"{nearest(column, self.columns)} Its columns are {listing(self.columns, 30)}."
                )

    def refuse_counted(self) -> None:
        """Refuse records that carry a column N or N_masked: they look counted already."""
        for column in (COUNT, MASKED):
            if column in self.columns:
                raise InputError(
                    f"{self._said} has a column called {column!r}. If its rows are counted already, use "
                    f"FinestTable.from_counts; if they are single records, rename or drop that column."
                )

    def categories(self, columns: Sequence[str]) -> dict[str, int]:
        """How many different values each column has."""
        if not columns:
            return {}
        if isinstance(self._source, pl.LazyFrame):
            query = self._source.select(pl.col(c).n_unique() for c in columns)
            frame = _told(lambda: query.collect(engine="streaming"), self._said)
        else:
            source = self._source
            frame = _told(lambda: source.select(nw.col(*columns).n_unique()).collect("polars").to_native(), self._said)
        return {column: int(frame[column][0]) for column in columns}

    def count(
        self, columns: Sequence[str], *, missing: Missing = "drop", missing_values: Iterable[object] = ()
    ) -> pl.DataFrame:
        """Each observed combination of the columns with its number of records `N`."""
        if missing not in get_args(Missing):
            raise InputError(f"missing={missing!r} is not known. It is 'drop' or 'category'.")
        names = list(columns)
        if isinstance(self._source, pl.LazyFrame):
            grouped = self._source.group_by(names).agg(pl.len().alias(COUNT))
            counted = _told(lambda: grouped.collect(engine="streaming"), self._said)
        else:
            source = self._source
            counted = _told(
                lambda: source.group_by(*names).agg(nw.len().alias(COUNT)).collect("polars").to_native(),
                self._said,
            )
        if counted.is_empty():
            raise InputError(f"{self._said} has no rows. There is nothing to count.")
        absent = list(missing_values)
        spelled_once = not absent and all(_spelled_once(counted.schema[name]) for name in names)
        counted = labelled(counted, names, absent).with_columns(pl.col(COUNT).cast(pl.Int64))
        if missing == "drop":
            counted = _without_missing(counted, names)
        if not spelled_once:  # NaN beside null, or a value listed as missing: one label by now
            counted = counted.group_by(names).agg(pl.col(COUNT).sum())
        return counted

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """The columns as they are, for data that is counted already."""
        if isinstance(self._source, pl.LazyFrame):
            query = self._source.select(columns)
            return _told(lambda: query.collect(engine="streaming"), self._said)
        source = self._source
        frame: pl.DataFrame = _told(lambda: source.select(*columns).collect("polars").to_native(), self._said)
        return frame


def labelled(frame: pl.DataFrame, columns: Sequence[str], missing_values: Iterable[object] = ()) -> pl.DataFrame:
    """The frame with its label columns as whole numbers or text, missing as null."""
    absent = [str(canonical(value)) for value in missing_values]
    made = []
    for name in columns:
        column = _labels(frame[name])
        if absent:
            column = column.set(column.cast(pl.String).is_in(absent).fill_null(False), None)
        made.append(column.alias(name))
    return frame.with_columns(made)


def _spelled_once(dtype: pl.DataType) -> bool:
    """Whether different values of a type are always different labels."""
    return dtype.is_integer() or dtype in (pl.String, pl.Boolean, pl.Categorical, pl.Enum)


def _labels(column: pl.Series) -> pl.Series:
    dtype = column.dtype
    if dtype == pl.String:
        return column
    if dtype.is_integer():
        try:
            return column.cast(pl.Int64)
        except pl.exceptions.PolarsError:
            return column.cast(pl.String)
    if dtype in (pl.Boolean, pl.Categorical, pl.Enum, pl.Null):
        return column.cast(pl.String)
    if dtype.is_float():
        column = column.fill_nan(None)
        if not column.is_infinite().any() and bool((column == column.round()).fill_null(True).all()):
            return column.cast(pl.Int64)
    if dtype.is_float() or dtype.is_decimal() or dtype.is_temporal():
        # Few distinct values for many rows: write each of them once.
        distinct = column.unique()
        texts = pl.Series([canonical(value) for value in distinct.to_list()], strict=False, dtype=pl.String)
        return column.replace_strict(distinct, texts, return_dtype=pl.String)
    raise InputError(
        f"the column {column.name!r} is of the type {dtype}, which has no labels. "
        f"Turn it into text or whole numbers, or leave it out."
    )


def _without_missing(counted: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    whole = counted.drop_nulls(columns)
    if whole.height == counted.height:
        return counted
    dropped = int(counted[COUNT].sum()) - int(whole[COUNT].sum())
    where = listing(
        f"{name} {counted.filter(pl.col(name).is_null())[COUNT].sum():,}"
        for name in columns
        if counted[name].null_count()
    )
    if whole.is_empty():
        raise InputError(f"every row has a missing value in the selected columns ({where}). Select fewer columns.")
    notice(
        f"{dropped:,} of {counted[COUNT].sum():,} rows have a missing value in the selected columns and were left out "
        f"({where}). missing='category' keeps them as a category of their own."
    )
    return whole


def _polars_of(frame: nw.DataFrame[Any]) -> pl.LazyFrame:
    """An eager frame of another library as a polars frame, column by column."""
    return pl.LazyFrame([_polars_column(frame[name]).alias(name) for name in frame.columns])


def _polars_column(column: nw.Series[Any]) -> pl.Series:
    native = column.to_native()
    if column.dtype == nw.Object and hasattr(native, "factorize"):
        # A pandas column of mixed objects, such as 1 beside "1" beside None: spell each distinct value once.
        codes, distinct = native.factorize()
        texts = [canonical(value) for value in distinct]
        values = pl.Series([None if text is None else str(text) for text in texts], dtype=pl.String)
        places = pl.Series(codes).cast(pl.Int64)
        return values.gather(places.set(places < 0, None))
    try:
        return column.to_polars()
    except ModuleNotFoundError as problem:
        raise _missing_extra(problem, "frames of this kind") from None


def _scan(path: str | os.PathLike[str], schema: Schema | None) -> pl.LazyFrame:
    text = os.fspath(path)
    file = Path(text)
    if file.is_dir():
        parts = sorted(part for part in file.rglob("*.parquet") if not part.name.startswith((".", "_")))
        if not parts:
            raise InputError(f"the folder {text!r} holds no .parquet files.")
        return _no_schema(schema, lambda: pl.scan_parquet(parts, hive_partitioning=True))
    if not file.exists():
        if any(char in text for char in "*?["):
            parts = sorted(Path(part) for part in glob.glob(text, recursive=True))  # noqa: PTH207 - absolute patterns
            if not parts:
                raise InputError(f"no file fits {text!r}.")
            kinds = {_kind(part) for part in parts}
            if kinds == {"parquet"}:
                return _no_schema(schema, lambda: pl.scan_parquet(parts))
            if kinds == {"csv"}:
                return _scan_csv([str(part) for part in parts], schema, text)
            raise InputError(f"{text!r} fits files of different kinds ({listing(sorted(kinds))}). Give one kind.")
        folder = file.parent if file.parent.is_dir() else Path()
        raise InputError(f"there is no file {text!r}.{nearest(file.name, (p.name for p in folder.iterdir()))}")
    kind = _kind(file)
    if kind == "csv":
        return _scan_csv(file, schema, text)
    if kind == "parquet":
        return _no_schema(schema, lambda: pl.scan_parquet(file))
    if kind == "arrow":
        return _no_schema(schema, lambda: pl.scan_ipc(file))
    if kind in ("sav", "zsav", "por", "dta", "sas7bdat", "xpt"):
        return _no_schema(schema, lambda: _read_statistical(file, kind))
    if kind == "rds":
        raise InputError(
            f"{text!r} is a file of R. Open a saved finest table with ilba.read_rds; for microdata use csv."
        )
    raise InputError(f"{text!r} is of a kind that is not read. These are: {_READ}.")


def _kind(file: Path) -> str:
    ending = file.suffix.lower().removeprefix(".")
    if ending == "gz":
        ending = Path(file.stem).suffix.lower().removeprefix(".")
    return {"tsv": "csv", "txt": "csv", "feather": "arrow", "ipc": "arrow", "pq": "parquet"}.get(ending, ending)


def _no_schema(schema: Schema | None, scan: Callable[[], pl.LazyFrame]) -> pl.LazyFrame:
    if schema is not None:
        raise InputError("schema goes with csv files; this file has types already.")
    return scan()


def _scan_csv(path: Any, schema: Schema | None, text: str) -> pl.LazyFrame:
    # Everything as text: the code 01 must not become the number 1.
    types: dict[str, Any] = {}
    for column, kind in (schema or {}).items():
        named = _TYPES.get(kind, kind)
        if isinstance(named, str):
            raise InputError(f"schema gives {column!r} the type {kind!r}. Types are 'int' and 'text'.")
        types[column] = named
    tabs = ".tsv" in text.lower()
    frame = pl.scan_csv(path, infer_schema=False, separator="\t" if tabs else ",")
    if types:
        known = _told(frame.collect_schema, repr(text)).names()
        for column in types:
            if column not in known:
                raise InputError(f"schema names {column!r}, which {text!r} does not have.{nearest(column, known)}")
        frame = frame.with_columns(pl.col(name).cast(kind) for name, kind in types.items())
    return frame


def _read_statistical(file: Path, kind: str) -> pl.LazyFrame:
    try:
        import pyreadstat
    except ModuleNotFoundError as problem:
        raise _missing_extra(problem, f"{kind} files") from None
    reader = {
        "sav": "sav",
        "zsav": "sav",
        "por": "por",
        "dta": "dta",
        "sas7bdat": "sas7bdat",
        "xpt": "xport",
    }[kind]
    try:
        frame, _ = getattr(pyreadstat, f"read_{reader}")(file, output_format="polars")
    except Exception as problem:  # pyreadstat raises its own kinds, which differ between versions
        raise InputError(f"{str(file)!r} could not be read as a {kind} file: {problem}") from problem
    # These programs have no null for text: an empty string is what they write for a missing value.
    result: pl.DataFrame = frame.with_columns(pl.col(pl.String).replace("", None))
    return result.lazy()


def _missing_extra(problem: ModuleNotFoundError, what: str) -> MissingExtra:
    return MissingExtra(f"reading {what} needs {problem.name}. Type: pip install 'ilba[formats]'")


def _told(read: Callable[[], T], said: str) -> T:
    """Run a query; when the source cannot be read, say which one and why, without showing records."""
    try:
        return read()
    except IlbaError:
        raise
    except ModuleNotFoundError as problem:
        raise _missing_extra(problem, "this kind of data") from None
    except pl.exceptions.InvalidOperationError as problem:
        raise InputError(f"{said} holds values that do not fit the schema given for it.") from problem
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as problem:
        hint = " Text files have to be UTF-8." if "utf" in str(problem).lower() else ""
        raise InputError(f"{said} cannot be read: it is damaged or not what its name says.{hint}") from problem
