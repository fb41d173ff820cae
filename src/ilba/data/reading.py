"""Read files of records, of every kind. Nothing is read before it is needed.

A csv file has no types, so every column is text: the code 01 must not become the number 1. The same holds for sheets
of a workbook. A `Reading` declares what cannot be recognised with certainty, such as the encoding.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import polars as pl

from ilba.data.csvfiles import known_encoding, longer_line, not_utf8, open_quote, scan_csv
from ilba.data.letters import name_in
from ilba.data.rfiles import read_r_frame, read_r_labels
from ilba.errors import IlbaError, InputError, MissingExtra, listing, nearest

Schema: TypeAlias = Mapping[str, Any]
Path_: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")

READ = (
    "csv, csv.gz, tsv, parquet, arrow, feather, ipc, xlsx, xls, xlsb, xlsm, ods, sav, zsav, por, dta, sas7bdat, xpt, "
    "rds, RData, a folder of parquet parts"
)
WORKBOOKS = ("xlsx", "xls", "xlsb", "xlsm", "ods")
STATISTICAL = ("sav", "zsav", "por", "dta", "sas7bdat", "xpt")
R_FILES = ("rds", "rdata", "rda")
LABELLED = (*STATISTICAL, *R_FILES)
"""kinds of files that may have labels of columns and codes"""
_TYPES: dict[Any, Any] = {"int": pl.Int64, "text": pl.String, int: pl.Int64, str: pl.String}
_UNNAMED = "__UNNAMED__"
"""how a workbook's column without a name is called"""
_TIME = re.compile(
    r"(?:(?:ref|reference|snapshot|survey|census)_)?(?:year|quarter|month|week|day|date|wave|period)=([^_].*)", re.I
)
"""the name of a folder that is a time, and the time in it"""
_HINTS = {
    "more fields": " A line has more fields than the line of names.",
    "quote": " A quotation mark is not closed.",
    "escaped": " A quotation mark is not closed.",
    "malformed": " A quotation mark is not closed.",
}


@dataclass(frozen=True)
class Reading:
    """What a person declares about a file."""

    encoding: str = ""
    """the encoding of a csv file; by default UTF-8 or UTF-16"""
    separator: str = ""
    """the separator of a csv file; by default comma, semicolon, tab or bar, found in the first line"""
    sheet: str = ""
    """the sheet of a workbook; by default the first"""
    header: int = 0
    """the line with the column names, in a csv file or a workbook; by default the first"""
    notes: str = ""
    """"drop" leaves out titles and footnotes (text only in the first column) and repeated column names"""

    def __post_init__(self) -> None:
        known_encoding(self.encoding)
        if not isinstance(self.header, int) or isinstance(self.header, bool) or not 0 <= self.header <= 1000:
            raise InputError(f"header={self.header!r} is not the number of a line. Write 4 for the fourth line.")
        if self.notes not in ("", "drop"):
            raise InputError(f"notes={self.notes!r} is not known. Write 'drop' to leave out titles and footnotes.")
        if self.separator not in ("", "tab") and len(self.separator.encode()) != 1:
            raise InputError(f"separator={self.separator!r} is not one letter. Write ';' or '|', or 'tab'.")

    @classmethod
    def of(cls, given: Reading | Mapping[str, Any] | None) -> Reading:
        """Read the argument of a user: a mapping with some of the names."""
        if given is None or isinstance(given, Reading):
            return given or cls()
        known = list(cls.__dataclass_fields__)
        for name, value in given.items():
            if name not in known:
                raise InputError(f"read names {name!r}.{nearest(name, known)} It takes {listing(known)}.")
            if not isinstance(value, str) and name != "header":
                raise InputError(f"read gives {name}={value!r}, which is not text.")
        return cls(**given)


def scan(path: Path_, schema: Schema | None = None, reading: Reading | None = None) -> pl.LazyFrame:
    """The records of a file, a folder of parts, or the files that match a pattern."""
    reading = reading or Reading()
    return _without_notes(_scan(os.fspath(path), schema, reading), reading)


def _without_notes(frame: pl.LazyFrame, reading: Reading) -> pl.LazyFrame:
    if reading.notes != "drop":
        return frame
    columns = frame.collect_schema().names()
    return frame.filter(~is_note(columns), ~is_names(columns))


def is_names(columns: Sequence[str]) -> pl.Expr:
    """Whether a line repeats the column names, as printed lists do on each page; it is not a record."""
    again = [pl.col(name).cast(pl.String).str.strip_chars().fill_null("") == name.strip() for name in columns]
    return pl.all_horizontal(again) if len(columns) > 1 else pl.lit(value=False)


def is_note(columns: Sequence[str]) -> pl.Expr:
    """Whether a line has text only in its first column: a title or a footnote, not a record."""
    blank = [pl.col(name).is_null() | (pl.col(name).cast(pl.String).str.strip_chars() == "") for name in columns[1:]]
    return pl.all_horizontal(blank) if len(columns) > 2 else pl.lit(value=False)


def _scan(text: str, schema: Schema | None, reading: Reading) -> pl.LazyFrame:
    file = Path(text)
    if file.is_dir():
        parts = parts_of(file)
        if not parts:
            raise InputError(f"the folder {text!r} has no .parquet files.")
        # Folders named region=01 are a column, and its codes are text like any other.
        named = {part.partition("=")[0] for path in parts for part in path.relative_to(file).parts[:-1] if "=" in part}
        refuse_folders(named, repr(text))
        # polars takes the folders above as columns, too: they are none, unless the files have them.
        above = {part.partition("=")[0] for part in file.parts if "=" in part} if named else set()
        hive = dict.fromkeys(sorted(named | above), pl.String())

        def together() -> pl.LazyFrame:
            frame = pl.scan_parquet(parts, hive_partitioning=bool(hive), hive_schema=hive or None)
            return frame.drop(above - named - set(pl.read_parquet_schema(parts[0]))) if above else frame

        return _no_schema(schema, together)
    if not file.exists():
        if any(char in text for char in "*?["):
            parts = matching(text)
            if not parts:
                raise InputError(f"no file matches {text!r}.")
            kinds = {kind_of(part) for part in parts}
            if kinds == {"parquet"}:
                return _no_schema(schema, lambda: pl.scan_parquet(parts))
            if kinds == {"csv"}:
                return _scan_csv(parts, schema, text, reading)
            raise InputError(f"{text!r} matches files of different kinds ({listing(sorted(kinds))}). Give one kind.")
        folder = file.parent if file.parent.is_dir() else Path()
        raise InputError(f"there is no file {text!r}.{nearest(file.name, (p.name for p in folder.iterdir()))}")
    kind = kind_of(file)
    if kind == "csv":
        return _scan_csv([file], schema, text, reading)
    if kind == "parquet":
        return _no_schema(schema, lambda: pl.scan_parquet(file))
    if kind == "arrow":
        return _no_schema(schema, lambda: pl.scan_ipc(file))
    if kind in STATISTICAL:
        return _no_schema(schema, lambda: _read_statistical(file, kind))
    if kind in ("rds", "rdata", "rda"):
        return _no_schema(schema, lambda: read_r_frame(file).lazy())
    if kind in WORKBOOKS:
        return _no_schema(schema, lambda: read_sheet(file, reading.sheet, reading.header).lazy())
    raise InputError(f"{text!r} cannot be read: its ending is unknown. Known are: {READ}.")


def parts_of(folder: Path, pattern: str = "*.parquet") -> list[Path]:
    """The files of a kind in a folder and below, as Spark finds them: what begins with `_` or `.` is no data.

    Spark keeps failed and unfinished writes in such folders. A folder `_x=1` is a column, so it is data.
    """

    def is_data(name: str) -> bool:
        return not name.startswith(".") and (not name.startswith("_") or "=" in name)

    found = (part for part in folder.rglob(pattern) if all(map(is_data, part.relative_to(folder).parts)))
    return sorted(part for part in found if not part.is_dir())


def time_of(folder: Path) -> str:
    """The time in the name of a folder such as `year=2026`; empty if it has none."""
    found = _TIME.fullmatch(folder.name)
    return found[1] if found else ""


def time_folders(source: Path) -> list[Path]:
    """The folders of records that are named by different times, the last time last; none if there is only one.

    They look like several counts of the same people. Of years and months in them, the years are given.
    """
    parts = parts_of(source) if source.is_dir() else [] if source.exists() else matching(str(source))
    inside = {folder for part in parts for folder in part.parents if time_of(folder)} - {source, *source.parents}
    columns: dict[str, list[Path]] = {}
    for folder in sorted(inside, key=lambda one: (len(one.parts), *_in_order(time_of(one)), str(one))):
        columns.setdefault(folder.name.partition("=")[0], []).append(folder)
    return next((folders for folders in columns.values() if len({one.name for one in folders}) > 1), [])


def _in_order(time: str) -> tuple[list[int], str]:
    """A key to sort times: 9 is before 10."""
    return list(map(int, re.findall("[0-9]+", time))), time


def matching(pattern: str) -> list[Path]:
    """The files that match a pattern, each once; a folder `x.parquet` stands for its parquet files."""
    found = [Path(one) for one in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - absolute patterns
    folders = {one for one in found if one.is_dir() and kind_of(one) == "parquet"}
    return sorted({*found} - folders | {part for one in folders for part in parts_of(one)})


def kind_of(file: Path) -> str:
    """The kind of a file by the ending of its name; equivalent endings give the same kind."""
    ending = file.suffix.lower().removeprefix(".")
    if ending == "gz":
        ending = Path(file.stem).suffix.lower().removeprefix(".")
    return {"tsv": "csv", "txt": "csv", "feather": "arrow", "ipc": "arrow", "pq": "parquet"}.get(ending, ending)


def _no_schema(schema: Schema | None, scan: Callable[[], pl.LazyFrame]) -> pl.LazyFrame:
    if schema is not None:
        raise InputError("schema is only for csv files; this file already has types.")
    return scan()


def _scan_csv(paths: Sequence[Path], schema: Schema | None, text: str, reading: Reading) -> pl.LazyFrame:
    # Everything as text: the code 01 must not become the number 1.
    types: dict[str, Any] = {}
    for column, kind in (schema or {}).items():
        named = _TYPES.get(kind, kind)
        if isinstance(named, str):
            raise InputError(f"schema gives {column!r} the type {kind!r}. Types are 'int' and 'text'.")
        types[column] = named
    frame, known = told(lambda: scan_csv(paths, reading.encoding, reading.separator, reading.header), repr(text))
    if (named := named_columns(known, "_duplicated_")) != known:
        frame, known = frame.select(named), named
    for column in known:
        twice = column.partition("_duplicated_")[0]
        if twice != column and twice in known and not twice:
            raise InputError(
                f"{text!r} has columns without names. If the names are in another line, give its number N: --header N "
                f"(read={{'header': N}}, or header = N beside its `file` in publication.toml). `ilba inspect` finds it."
            )
        if twice != column and twice in known:
            places = known.index(twice) + 1, known.index(column) + 1
            raise InputError(
                f"{text!r} has two columns called {twice!r}, number {places[0]} and number {places[1]}. Rename one of "
                f"them in the line of the column names."
            )
    if types:
        for column in types:
            if column not in known:
                raise InputError(f"schema names {column!r}, which {text!r} does not have.{nearest(column, known)}")
        # A repeated name is no number, so it is left out first.
        frame = _without_notes(frame, reading).with_columns(pl.col(name).cast(kind) for name, kind in types.items())
    return frame


def named_columns(names: Sequence[str], nameless: str) -> list[str]:
    """The names of columns without nameless ones at the end, as spreadsheets write them; all if most are nameless."""
    ends = len(names)
    while ends and (not names[ends - 1] or names[ends - 1].startswith(nameless)):
        ends -= 1
    return list(names[:ends] if 2 * ends > len(names) else names)


def sheets_of(file: Path) -> list[str]:
    """The names of the sheets of a workbook."""
    return list(_workbook(file).sheet_names)


def header_of_sheet(file: Path, sheet: str = "") -> int:
    """The first line of a sheet in which each column has a name; 0 if it is the first, or there is none."""
    book = _workbook(file)
    for line in range(30):
        try:
            names = book.load_sheet(sheet or 0, dtypes="string", header_row=line, n_rows=1).to_polars().columns
        except Exception:  # the library raises many kinds of errors
            return 0
        if names and not any(name.startswith(_UNNAMED) for name in named_columns(names, _UNNAMED)):
            return line + 1 if line else 0
    return 0


def read_sheet(file: Path, sheet: str = "", header: int = 0) -> pl.DataFrame:
    """A sheet of a workbook, every cell as text without its format, without empty lines."""
    book = _workbook(file)
    names = list(book.sheet_names)
    sheet = name_in(sheet, names)
    if sheet and sheet not in names:
        raise InputError(f"{str(file)!r} has no sheet {sheet!r}.{nearest(sheet, names)} It has {listing(names)}.")
    try:
        frame: pl.DataFrame = book.load_sheet(sheet or 0, dtypes="string", header_row=max(header - 1, 0)).to_polars()
    except Exception as problem:
        raise InputError(f"the sheet {sheet or names[0]!r} of {str(file)!r} cannot be read: {problem}") from None
    frame = frame.select(named_columns(frame.columns, _UNNAMED))
    return frame.filter(~pl.all_horizontal(pl.all().is_null())) if frame.width else frame


def _workbook(file: Path) -> Any:
    try:
        import fastexcel
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, "workbooks") from None
    try:
        return fastexcel.read_excel(file)
    except Exception:  # the library raises many kinds of errors
        raise InputError(
            f"{str(file)!r} cannot be read as a workbook: it is damaged or not what its name says."
        ) from None


def _read_statistical(file: Path, kind: str) -> pl.LazyFrame:
    frame, _ = _statistical(file, kind)
    # These programs have no null for text: an empty string is what they write for a missing value.
    result: pl.DataFrame = frame.with_columns(pl.col(pl.String).replace("", None))
    return result.lazy()


def column_labels(file: Path, kind: str) -> dict[str, str]:
    """The labels of columns in a file of SPSS, Stata, SAS or R."""
    if kind in R_FILES:
        return {name: label for name, (label, _) in read_r_labels(file).items() if label}
    _, about = _statistical(file, kind, metadataonly=True)
    return {name: str(label) for name, label in about.column_names_to_labels.items() if label}


def value_labels(file: Path, kind: str) -> dict[str, dict[str, str]]:
    """The labels of codes, by column, in a file of SPSS, Stata, SAS or R."""
    if kind in R_FILES:
        return {name: codes for name, (_, codes) in read_r_labels(file).items() if codes}
    _, about = _statistical(file, kind, metadataonly=True)
    found = {}
    for name, labels in about.variable_value_labels.items():
        codes = {str(int(c)) if isinstance(c, float) and c.is_integer() else str(c): str(t) for c, t in labels.items()}
        found[name] = codes
    return found


def _statistical(file: Path, kind: str, **options: Any) -> tuple[Any, Any]:
    try:
        import pyreadstat
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, f"{kind} files") from None
    reader = {"zsav": "sav", "xpt": "xport"}.get(kind, kind)
    try:
        found: tuple[Any, Any] = getattr(pyreadstat, f"read_{reader}")(file, output_format="polars", **options)
    except Exception as problem:  # pyreadstat raises its own kinds, which differ between versions
        raise InputError(f"{str(file)!r} could not be read as a {kind} file: {problem}") from problem
    return found


def missing_extra(problem: ModuleNotFoundError, what: str) -> MissingExtra:
    """The error for a missing optional package."""
    return MissingExtra(f"reading {what} needs {problem.name}. Type: pip install 'ilba[formats]'")


def refuse_folders(columns: Iterable[str], said: str) -> None:
    """Refuse folders whose columns differ only by case, such as `region=01` and `Region=02`: for Spark they are one."""
    seen: dict[str, str] = {}
    for name in sorted(columns):
        if seen.setdefault(name.casefold(), name) != name:
            raise InputError(
                f"{said} has folders named {seen[name.casefold()]}=.. and {name}=.., which differ only by upper and "
                f"lower case. Name them alike."
            )


def unlike_parts(said: str) -> str:
    """The error for a source whose parts differ."""
    return f"{said} has parts with different columns or types. Write all parts with the same columns and types."


def told(read: Callable[[], T], said: str) -> T:
    """Run a query. If the source cannot be read, the error names it and the reason, but shows no records."""
    try:
        return read()
    except IlbaError:
        raise
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, "this kind of data") from None
    except pl.exceptions.InvalidOperationError as problem:
        column = re.search(r"in column '([^']*)'", str(problem))
        where = f" in the column {column[1]!r}" if column else ""
        raise InputError(f"{said} has values{where} that do not match its schema.") from None
    except pl.exceptions.NoDataError as problem:
        raise InputError(f"{said} is empty.") from problem
    except (pl.exceptions.SchemaError, pl.exceptions.ColumnNotFoundError) as problem:
        raise InputError(unlike_parts(said)) from problem
    except (pl.exceptions.PolarsError, OSError, UnicodeError) as problem:
        if "utf" in str(problem).lower():
            raise InputError(not_utf8(said.strip("'"))) from problem
        hint = next((hint for word, hint in _HINTS.items() if word in str(problem).lower()), "")
        if "more fields" in str(problem).lower():
            hint = longer_line(said.strip("'")) or hint
        elif "quotation" in hint:
            hint = open_quote(said.strip("'")) or hint
        part = _damaged_part(said.strip("'"))
        named = said if part is None else f"{str(part)!r}, a part of {said},"
        if _is_old_feather(Path(said.strip("'"))):
            raise InputError(
                f"{named} is a feather file of version 1, which ilba does not read. Write it as version 2 "
                f"(arrow::write_feather in R) or as parquet."
            ) from None
        raise InputError(f"{named} cannot be read: it is damaged or not what its name says.{hint}") from problem
    except Exception as problem:
        engine = type(problem).__module__.partition(".")[0].lstrip("_")
        if engine != "duckdb":
            raise
        raise InputError(f"{said} cannot be read: DuckDB fails ({type(problem).__name__}). Run it there.") from None


def _is_old_feather(file: Path) -> bool:
    """Whether a file has the first format of feather, which the R package of this name writes."""
    if not file.is_file():
        return False
    with file.open("rb") as content:
        return content.read(4) == b"FEA1"


def _damaged_part(text: str) -> Path | None:
    """The first parquet file of a folder or pattern that cannot be read; None if there is none."""
    if Path(text).is_dir():
        parts = parts_of(Path(text))
    else:
        parts = [] if Path(text).exists() else [part for part in matching(text) if kind_of(part) == "parquet"]
    # First the ends of all files, where most damage shows, then what is in them.
    for read in (pl.read_parquet_schema, _all_of):
        for part in parts:
            try:
                read(part)
            except (pl.exceptions.PolarsError, OSError):
                return part
    return None


def _all_of(part: Path) -> None:
    rows = pl.scan_parquet(part, glob=False, hive_partitioning=False)
    rows.select(pl.all().is_not_null().sum()).collect(engine="streaming")
