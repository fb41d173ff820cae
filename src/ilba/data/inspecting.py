"""Inspection of files: columns, hierarchies, matching code lists and maps. Confidential.

Only a part of a large file is read, and the result says so. It is a proposal for a person to confirm.
"""

from __future__ import annotations

import csv
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba import notebook
from ilba.data.columns import AREAS, ColumnFacts, as_codes, facts_of, few, few_text, last_total
from ilba.data.csvfiles import guessed, known_encoding, read_head, read_tail
from ilba.data.hierarchies import read_hierarchy
from ilba.data.letters import folded_in
from ilba.data.reading import (
    LABELLED,
    STATISTICAL,
    WORKBOOKS,
    Reading,
    column_labels,
    header_of_sheet,
    is_names,
    is_note,
    kind_of,
    parts_of,
    scan,
    sheets_of,
    time_folders,
    told,
)
from ilba.data.recipe import as_text
from ilba.data.shapes import Shapes, is_map, read_shapes
from ilba.data.shorter import refuse_shorter
from ilba.errors import IlbaError, InputError, listing, nearest, some

Path_: TypeAlias = str | os.PathLike[str]
SAMPLE = 200_000
PIECES = 100
"""the number of places from which records of a large parquet file are read"""
_SEPARATORS = (",", ";", "\t", "|", "^")
LEAVES = "finest codes"
"""the name of the codes at the bottom of a hierarchy"""
NAMELESS = "Its first line looks like a record: write the names of the columns into a line above it"
_GUESS = " (a guess: if letters look wrong, --encoding NAME)"
AMONG_NOTES = (
    "A line among its footnotes is read as a record, because it has text in several columns: remove it, or leave it "
    "out by a value that it alone has, under [recipe]: without = {COLUMN = [VALUE]}"
)
_STRAY = 0.05
"""the largest share of records with another parent in a column that is nearly a level above"""
_NEEDED = 0.5
"""the share of the codes of a column that a matching code list or map must have"""
_NEARLY_ALL = 0.9
"""the share of the values of a column that a hierarchy or code list has, if they are codes whatever they look like; and
of the records in which an identifier repeats, if these are repeated whole"""
_CONTRARY = 0.2
"""the largest share of records whose code and name a code list does not have together"""


@dataclass(frozen=True)
class FileFacts:
    """The facts of one file. Confidential."""

    path: str
    what: str
    """"records", "code list", "map", "hierarchy" or "unreadable" """
    about: str
    records: int = 0
    is_part: bool = False
    """whether only a part was read"""
    reading: Reading = field(default_factory=Reading)
    decimal: str = "."
    sheets: tuple[str, ...] = ()
    columns: tuple[ColumnFacts, ...] = ()
    nests: tuple[tuple[str, str], ...] = ()
    """pairs of a coarser column and a finer one that is nested in it"""
    same: tuple[tuple[str, str], ...] = ()
    """pairs of equivalent columns: a code and its name"""
    nearly: tuple[tuple[str, str, int], ...] = ()
    """pairs of a coarser column and a finer one that is nested in it but for some records, with their number"""
    repeated: int = 0
    """records that are the same as an earlier one in all columns, also in one that looks like an identifier"""
    depth: int = 0
    """the number of levels of a hierarchy"""
    frame: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False, compare=False)
    problem: IlbaError | None = field(default=None, repr=False, compare=False)
    """the error of a file that cannot be read"""

    def column(self, name: str) -> ColumnFacts:
        """The facts of a column."""
        return next(one for one in self.columns if one.name == name)


@dataclass(frozen=True)
class Match:
    """How the codes of a column match a code list or a map."""

    column: str
    file: str
    by: str
    """the column of the list, or the property of the map"""
    share: float
    """the share of the codes of the data that it has, from 0 to 1"""
    padded: float = 0.0
    """the share with leading zeros"""
    pad: int = 0
    """the length of the codes then"""
    extra: int = 0
    """codes of the list or map that the data does not have"""
    name: str = ""
    """the column of the data with the names of the codes, if the list or map has them, too"""
    contrary: int = 0
    """records with another code than the list or map has for their name"""

    @property
    def best(self) -> float:
        """The share that can be reached."""
        return max(self.share, self.padded)

    def __str__(self) -> str:
        zeros = f"; with leading zeros (pad = {self.pad}) {self.padded:.0%}" if self.padded > self.share else ""
        return f"{self.column}: {self.share:.0%} of its codes are in {self.by!r} of {Path(self.file).name}{zeros}"


@dataclass(frozen=True)
class Inspection:
    """The facts of some files and how they match. Confidential."""

    files: tuple[FileFacts, ...]
    """the facts of each file"""
    matches: tuple[Match, ...]
    """how code lists and maps match the records"""
    mask_thr: int = 5
    """the threshold: smaller numbers of records are not shown"""

    @property
    def records(self) -> FileFacts | None:
        """The file of records; None if there is none."""
        return next((one for one in self.files if one.what == "records"), None)

    @property
    def columns(self) -> pl.DataFrame:
        """A row for each column of the records: name, kind, values, missing, remarks."""
        return pl.DataFrame(
            list(self._rows(self.records)) if self.records else [],
            schema={"column": pl.String, "kind": pl.String, "values": pl.Int64, "remarks": pl.String},
            orient="row",
        )

    def _rows(self, one: FileFacts) -> Iterator[tuple[str, str, int, str]]:
        for column in one.columns:
            yield column.name, column.kind, column.values, "; ".join(column.remarks(self.mask_thr, is_part=one.is_part))

    @property
    def hierarchies(self) -> tuple[tuple[str, ...], ...]:
        """Hierarchies that are proposed: columns from coarse to fine."""
        return _chains(self.records, self.matches) if self.records else ()

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys that are proposed."""
        if self.records is None:
            return ()
        inside = {column for chain in self.hierarchies for column in chain}
        names = _names(self.records, self.matches)
        names |= {coarse for coarse, fine, _ in self.records.nearly if fine in inside}
        return tuple(
            one.name for one in self.records.columns if one.is_key and one.name not in inside and one.name not in names
        )

    @property
    def contradictions(self) -> tuple[str, ...]:
        """For each code list or map that contradicts the codes and names of the records, a sentence."""
        return tuple(
            f"{one.column} and {one.name} contradict {Path(one.file).name} in "
            f"{few_text(one.contrary, self.mask_thr)} records: correct their codes or names"
            for one in self.matches
            if one.contrary
        )

    @property
    def repetition(self) -> str:
        """A sentence on records that are probably in the file twice; empty if there are none."""
        if self.records is None or not self.records.repeated:
            return ""
        return (
            f"{few_text(self.records.repeated, self.mask_thr)} records of {Path(self.records.path).name} are the same "
            f"as another one in all columns, also in the identifier, and would count twice: remove them from the file"
        )

    def to_json(self) -> dict[str, Any]:
        """Give everything as plain values, for a program.

        Returns
        -------
        dict
            Files, matches and proposals; numbers of records below K are hidden.
        """
        K = self.mask_thr
        files = [
            {
                "path": one.path, "what": one.what, "about": one.about, "records": one.records, "is_part": one.is_part,
                "repeated": few(one.repeated, K),
                "encoding": one.reading.encoding or None, "separator": one.reading.separator or None,
                "decimal": one.decimal, "sheets": list(one.sheets),
                "columns": [column.to_json(K) for column in one.columns],
                "nests": [list(pair) for pair in one.nests], "same": [list(pair) for pair in one.same],
                "nearly": [[coarse, fine, few(astray, K)] for coarse, fine, astray in one.nearly],
            }
            for one in self.files
        ]  # fmt: skip
        matches = [
            {
                "column": m.column, "file": m.file, "by": m.by, "share": m.share, "padded": m.padded,
                "pad": m.pad or None, "name": m.name or None, "contrary": few(m.contrary, K),
            }
            for m in self.matches
        ]  # fmt: skip
        proposed = {"hierarchies": [list(chain) for chain in self.hierarchies], "keys": list(self.keys)}
        return {"confidential": True, "files": files, "matches": matches, "proposed": proposed}

    def __str__(self) -> str:
        lines = []
        named = [{match.column, match.name} for match in self.matches if match.name]
        for one in self.files:
            lines.append(f"{one.path}: {one.about}")
            wide = max((len(column.name) for column in one.columns), default=0)
            for name, kind, values, remarks in self._rows(one) if one.what not in ("map", "hierarchy") else ():
                lines.append(f"  {name:<{wide}}  {kind:<10} {some(values, 'value'):>14}  {remarks}".rstrip())
            for coarse, fine in one.nests:
                if {coarse, fine} not in named:
                    lines.append(f"  each {fine} lies in one {coarse}")
            for code, name in one.same:
                lines.append(f"  {code} and {name} are equivalent: a code and its name")
            for coarse, fine, astray in one.nearly:
                if {coarse, fine} not in named:
                    lines.append(
                        f"  each {fine} lies in one {coarse}, except in {few_text(astray, self.mask_thr)} records: "
                        f"correct them, or take {coarse} from a code list"
                    )
        lines += [f"  {self.repetition}"] if self.repetition else []
        lines += [f"  {match}" for match in self.matches]
        lines += [f"  {text}" for text in self.contradictions]
        if unread := [one.path for one in self.files if one.what == "unreadable"]:
            lines.append(f"Nothing is proposed before {listing(unread, 5)} can be read (confidential)")
        elif self.records is not None:
            chains = "; ".join(" > ".join(chain) for chain in self.hierarchies) or "none"
            lines.append(f"Proposed: hierarchies {chains}; keys {listing(self.keys, 20) or 'none'} (confidential)")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The files in a notebook."""
        parts = []
        for one in self.files:
            said = f"{one.path}: {one.about}"
            parts.append(notebook.table(["column", "kind", "values", "remarks"], self._rows(one), said))
        parts += [
            notebook.note(text) for text in (self.repetition, *map(str, self.matches), *self.contradictions) if text
        ]
        chains = "; ".join(" > ".join(chain) for chain in self.hierarchies) or "none"
        parts.append(notebook.note(f"Proposed: hierarchies {chains}; keys {listing(self.keys, 20) or 'none'}"))
        return notebook.page("Inspection", some(len(self.files), "file"), *parts)


def inspect(*paths: Path_, mask_thr: int = 5, encoding: str = "") -> Inspection:
    """Inspect files: their formats, their columns and how they match. Nothing is written.

    Only 200,000 records of a large file are read: the first, or of parquet some from everywhere. Values of a column
    that looks like an identifier are not shown, and a number of records below K is shown as `<K`.

    Parameters
    ----------
    *paths : path
        Files of records, code lists and maps, or folders of them.
    mask_thr : int, default 5
        The threshold K.
    encoding : str, default ""
        The encoding of csv files that are not UTF-8 or UTF-16, such as "cp1254". Left out, it is guessed.

    Returns
    -------
    Inspection
        What was found. Confidential.

    Raises
    ------
    InputError
        A file does not exist, or none was given.

    Examples
    --------
    >>> ilba.inspect("people.csv", "towns.csv", "towns.geojson")  # doctest: +SKIP
    """
    declared = known_encoding(encoding) if encoding else ""
    sheets = [_looked_at(file, declared) for file in _listed(paths)]
    tables = [one for parts in sheets for one in parts if one.columns and one.what == "table"]
    source = max(tables, key=lambda one: (one.records, len(one.columns)), default=None)
    if source is not None:
        others = [one for parts in sheets for one in parts if one.path != source.path]
        source = _related(_with_codes(replace(source, what="records"), others))
        source = replace(source, repeated=_repeated(source))
    matches: list[Match] = []
    found = []
    for parts in sheets:
        if source is not None and parts[0].path == source.path:
            found.append(source)
            continue
        one, match = _matching(source, parts)
        matches += [match] if match else []
        if one.what == "table":
            about = "" if match else ". It matches no column of the records"
            found.append(replace(one, what="code list" if match else "other", about=one.about + about))
        else:
            found.append(one)
    return Inspection(tuple(found), tuple(matches), mask_thr)


def _listed(paths: Sequence[Path_]) -> list[Path]:
    """The given files, and the readable files of a given folder."""
    if not paths:
        raise InputError("name at least one file, such as people.csv.")
    found: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir() and not parts_of(path):
            found += [file for file in sorted(path.iterdir()) if file.is_file() and _is_known(file)]
        elif path.exists():
            found.append(path)
        else:
            folder = path.parent if path.parent.is_dir() else Path()
            raise InputError(f"there is no file {str(path)!r}.{nearest(path.name, (p.name for p in folder.iterdir()))}")
    if not found:
        raise InputError(
            f"{listing(map(str, paths))} has no file that can be read: csv, xlsx, parquet, geojson and others."
        )
    return found


def _is_known(file: Path) -> bool:
    if file.name.startswith(".") or file.suffix.lower() in (".json", ".toml", ".md", ".html"):
        return file.suffix.lower() == ".json" and not file.name.startswith(".") and is_map(file)
    kinds = {"csv", "parquet", "arrow", "rds", "rdata", "rda", "hrc", *WORKBOOKS, *STATISTICAL}
    return kind_of(file) in kinds or is_map(file)


def _matching(source: FileFacts | None, sheets: list[FileFacts]) -> tuple[FileFacts, Match | None]:
    """The sheet of a workbook that matches the records best, else the longest; with its match."""
    longest = max(sheets, key=lambda one: (one.records, len(one.columns)))
    if source is None or longest.what not in ("table", "map", "hierarchy"):
        return longest, None
    found = [(one, match) for one in sheets for match in _matches(source, [one])]
    return max(found, key=lambda pair: (pair[1].best, pair[0].records), default=(longest, None))


def _looked_at(file: Path, encoding: str) -> list[FileFacts]:
    """The facts of one file, or of each sheet of a workbook.

    If one cannot be read, its facts say why, and the others are still inspected.
    """
    try:
        if file.is_file() and kind_of(file) in WORKBOOKS:
            return [_table(file, sheet) for sheet in sheets_of(file)]
        return [_one_file(file, encoding)]
    except (IlbaError, OSError, pl.exceptions.PolarsError) as problem:
        unread = f"{str(file)!r} cannot be read: "
        why = str(problem).removeprefix(unread)
        error = problem if isinstance(problem, IlbaError) else InputError(unread + why)
        return [FileFacts(str(file), "unreadable", f"cannot be read: {why}", problem=error)]


def _one_file(file: Path, encoding: str) -> FileFacts:
    """The facts of a file that is not a workbook."""
    if file.suffix.lower() == ".hrc":
        tree = read_hierarchy(file)
        about = f"a hierarchy of {some(tree.tree.height, 'code')} on {some(tree.depth, 'level')}"
        leaves = pl.DataFrame({LEAVES: tree.tree.filter("is_leaf")["code"]})
        facts = tuple(facts_of(column) for column in leaves.get_columns())
        return FileFacts(str(file), "hierarchy", about, leaves.height, columns=facts, frame=leaves, depth=tree.depth)
    if file.is_file() and is_map(file):
        shapes = read_shapes(file)
        about = f"a map of {some(shapes.properties.height, 'shape')}, {_projection(shapes)}"
        facts = tuple(facts_of(column) for column in shapes.properties.get_columns())
        return FileFacts(str(file), "map", about, shapes.properties.height, columns=facts, frame=shapes.properties)
    return _table(file, encoding=encoding)


def _projection(shapes: Shapes) -> str:
    return "in WGS 84" if shapes.projection == "EPSG:4326" else f"in the projection {shapes.projection[:40]}"


def _table(file: Path, sheet: str = "", encoding: str = "") -> FileFacts:
    """A file of columns, or a sheet of a workbook."""
    kind = kind_of(file) if file.is_file() else "parquet"
    reading, said = Reading(), kind
    sheets: tuple[str, ...] = ()
    if kind == "csv":
        guess = guessed(file)
        is_guess = not encoding and not guess.startswith("utf")
        encoding = guess if guess.startswith("utf") else encoding or guess
        separator, header = _layout(read_head(file, encoding))
        reading = Reading(encoding, "tab" if separator == "\t" else separator, header=header)
        named = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}.get(separator, repr(separator))
        said = f"csv with {named} in {encoding}{_GUESS if is_guess else ''}"
    elif kind in WORKBOOKS:
        sheets = tuple(sheets_of(file))
        named = f"the sheet {sheet!r} of " if len(sheets) > 1 else ""
        reading = Reading(sheet=sheet, header=header_of_sheet(file, sheet))
        said = f"{named}a workbook ({listing(sheets, 5)})"
    records = told(lambda: scan(file, None, reading), repr(str(file)))
    frame = told(lambda: records.head(SAMPLE + 1).collect(), repr(str(file)))
    is_part = frame.height > SAMPLE
    size = f"the first {SAMPLE:,} records" if is_part else ""
    if is_part and kind == "parquet":  # its records are often sorted or partitioned by area
        frame, size = told(lambda: _spread(records), repr(str(file)))
    frame = frame.head(SAMPLE)
    if reading.header:
        said += f", names in line {reading.header}"
    is_written = kind == "csv" or kind in WORKBOOKS
    frame, repeated = _without_names(frame) if is_written else (frame, 0)
    if repeated:
        reading = replace(reading, notes="drop")
        said += ", names repeated" if is_part else f", names repeated in {some(repeated, 'line')}"
    frame = _texts(frame)
    notes, ends = 0, frame.tail(30)
    if is_written:
        frame, notes = _without_notes(frame)
        if notes or (is_part and kind == "csv" and _ends_in_notes(file, reading)):
            reading = replace(reading, notes="drop")
            said += ", with lines of notes" if is_part else f", {some(notes, 'line')} of notes"
    if kind == "csv" and not is_part:
        refuse_shorter(file, reading)
    labels = _labels(file, kind)
    columns = tuple(facts_of(column, labels.get(column.name, "")) for column in frame.get_columns())
    totals = {one.name: one.totals for one in columns if one.totals}
    if not totals and not is_part and not (notes and _is_record_among_notes(ends)):
        totals = last_total(frame, columns)
    if totals:
        sums = [pl.col(name).str.strip_chars().is_in(texts).fill_null(value=False) for name, texts in totals.items()]
        frame = frame.filter(~pl.any_horizontal(sums))  # the entries of a line of totals are not values of a column
        ends = ends.filter(~pl.any_horizontal(sums))
        facts = (facts_of(column, labels.get(column.name, "")) for column in frame.get_columns())
        columns = tuple(replace(one, totals=totals.get(one.name, ())) for one in facts)
    decimal = "," if any(one.comma for one in columns) else "."
    about = f"{said}, {size or some(frame.height, 'record')}, {some(frame.width, 'column')}"
    if times := [] if file.is_file() else list(dict.fromkeys(one.name for one in time_folders(file))):
        about += f". {listing(times, 3)} look like several counts of the same people: publish each as a wave"
    if is_written and _is_nameless(frame):
        about += f". {NAMELESS}"
    if notes and not is_part and _is_record_among_notes(ends):
        about += f". {AMONG_NOTES}"
    return FileFacts(str(file), "table", about, frame.height, is_part, reading, decimal, sheets, columns, frame=frame)


def _spread(records: pl.LazyFrame) -> tuple[pl.DataFrame, str]:
    """As many records as are inspected, in pieces at equal distances, and their number in words."""
    height = records.select(pl.len()).collect().item()
    starts = [(height - SAMPLE // PIECES) * piece // (PIECES - 1) for piece in range(PIECES)]
    frame = pl.concat(pl.collect_all([records.slice(start, SAMPLE // PIECES) for start in starts]))
    return frame, f"{SAMPLE:,} of {height:,} records"


def _is_nameless(frame: pl.DataFrame) -> bool:
    """Whether the column names look like a record: most of them are values of their own columns."""
    if frame.height < 20 or frame.width < 2:
        return False
    values = [bool(column.is_in([column.name]).any()) for column in frame.get_columns()]
    return sum(values) > 0.5 * len(values)


def _texts(frame: pl.DataFrame) -> pl.DataFrame:
    columns = [as_text(column) for column in frame.get_columns()]
    return pl.DataFrame([column for column in columns if column is not None])


def _labels(file: Path, kind: str) -> dict[str, str]:
    """The labels of columns in files of SPSS, Stata, SAS and R."""
    return column_labels(file, kind) if kind in LABELLED else {}


def _layout(head: str) -> tuple[str, int]:
    """The separator, and the line with the column names if it is not the first.

    The separator gives the same number of columns, more than one, in most lines. Titles above the names fill at most
    half of the columns. If each record ends in a separator, the line of the names may lack it.
    """
    lines = head.splitlines(keepends=True)[:80]
    best, reached, header = ",", (False, 1.0), 0
    for separator in _SEPARATORS:
        rows = list(_numbered(lines, separator))
        widths = Counter(len(row) for _, row in rows)
        width = widths.most_common(1)[0][0] if widths else 1
        least = width - all(not row[-1].strip() for _, row in rows if len(row) == width)
        named = [n for n, row in rows if least <= len(row) <= width and 2 * sum(bool(c.strip()) for c in row) > width]
        below = [row for number, row in rows if named and number >= named[0]]
        share = sum(len(row) == width for row in below) / max(len(below), 1)
        if width > 1 and share > 0.5 and (share >= 0.9, width * share) > reached:
            best, reached, header = separator, (share >= 0.9, width * share), named[0]
    return best, header if header > 1 else 0


def _numbered(lines: Sequence[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not blank, each with its number; an entry in quotes may go on in the next line."""
    reader, number = csv.reader(lines, delimiter=separator), 1
    for row in reader:
        if len(row) > 1 or "".join(row).strip():
            yield number, row
        number = reader.line_num + 1


def _without_notes(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The records, and the number of notes: lines with text only in the first column, at most one in twenty."""
    records = frame.filter(~is_note(frame.columns)) if frame.width > 2 else frame
    notes = frame.height - records.height
    return (records, notes) if notes <= max(5, frame.height // 20) else (frame, 0)


def _without_names(frame: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """The records, and the number of lines that repeat the names; none if the names are a record themselves."""
    records = frame.filter(~is_names(frame.columns))
    return (frame, 0) if _is_nameless(records) else (records, frame.height - records.height)


def _is_record_among_notes(ends: pl.DataFrame) -> bool:
    """Whether a line below the first footnote is not a note, but most of its columns are empty."""
    blank = pl.sum_horizontal(pl.all().str.strip_chars().fill_null("") == "")
    lines = ends.select(is_note(ends.columns).alias("note"), (2 * blank > ends.width).alias("hollow"))
    below = lines.filter(pl.col("note").cum_max())
    return bool((below["hollow"] & ~below["note"]).any())


def _ends_in_notes(file: Path, reading: Reading) -> bool:
    """Whether the last lines of a large file are notes."""
    separator = "\t" if reading.separator == "tab" else reading.separator
    lines = [line for line in read_tail(file, reading.encoding) if line.strip()][-5:]
    return any(line.count(separator) < 2 or not line.partition(separator)[2].strip(separator) for line in lines)


# --- how columns belong together


def _with_codes(source: FileFacts, others: Sequence[FileFacts]) -> FileFacts:
    """The records; a column with the codes of a given hierarchy or code list is one of codes, not of quantities.

    A list of households has their numbers, too: only a hierarchy makes codes of identifiers, ages and dates.
    """
    leaves = [other.frame[LEAVES] for other in others if other.what == "hierarchy"]
    listed = [
        other.frame[column.name]
        for other in others
        if other.what == "table" and other.columns and other.records < source.records
        for column in other.columns
        if column.kind != "decimal" or column.name == other.columns[0].name
    ]
    known = {"decimal": [*leaves, *listed], "number": [*leaves, *listed]}
    known |= dict.fromkeys(("identifier", "age", "date"), leaves)
    columns = []
    for column in source.columns:
        found = None
        if (codes := known.get(column.kind)) and column.values > 1:
            values = _codes_in(source, column)
            found = next((m for one in codes if (m := _match("", values, "", one)) and m.best >= _NEARLY_ALL), None)
        columns.append(as_codes(column) if found else column)
    decimal = "," if any(one.comma for one in columns) else "."
    return replace(source, columns=tuple(columns), decimal=decimal)


def _codes_in(source: FileFacts, column: ColumnFacts) -> set[str]:
    """The different values of a column, without those that are missing values."""
    values = source.frame[column.name].unique().str.strip_chars().drop_nulls()
    return set((values.filter(~values.is_in(column.spellings))).str.normalize("NFC")) - {""}


def _repeated(one: FileFacts) -> int:
    """How many records are the same as an earlier one. Without an identifier they may be different people.

    An identifier repeats hardly ever elsewhere: other columns may have nearly as many values, such as days.
    """
    again = [column.records - column.missing - column.values for column in one.columns if column.kind == "identifier"]
    repeated = one.frame.height - one.frame.n_unique() if again else 0
    return repeated if repeated >= _NEARLY_ALL * min(again, default=0) else 0


def _related(one: FileFacts) -> FileFacts:
    """Find columns that are nested, and columns that are equivalent."""
    kinds = ("category", "code", "text")
    candidates = [c for c in one.columns if c.kind in kinds and c.values > 1 and not c.is_hollow][:40]
    width = {c.name: c.pad for c in candidates}
    numbers = {
        c.name: one.frame.select(
            folded_in(pl.col(c.name).str.strip_chars()).str.zfill(width[c.name]).rank("dense").cast(pl.Int64)
        ).to_series()
        for c in candidates
    }
    sizes = {name: int(column.max() or 0) for name, column in numbers.items()}  # type: ignore[arg-type]
    nests: list[tuple[str, str]] = []
    same: list[tuple[str, str]] = []
    nearly: list[tuple[str, str, int]] = []
    for a, b in itertools.combinations(sorted(candidates, key=lambda c: sizes[c.name]), 2):
        coarse, fine = a.name, b.name
        if sizes[fine] * 3 > one.records or sizes[coarse] < 2:
            continue
        both = (numbers[coarse] * (sizes[fine] + 1) + numbers[fine]).drop_nulls()
        different = both.n_unique()
        if different != numbers[fine].filter(numbers[coarse].is_not_null()).drop_nulls().n_unique():
            if sizes[coarse] < sizes[fine] and (astray := _astray(numbers[coarse], numbers[fine], sizes[coarse])):
                nearly.append((coarse, fine, astray))
            continue
        (same if sizes[coarse] == sizes[fine] else nests).append((coarse, fine))
    return replace(one, nests=tuple(nests), same=tuple(same), nearly=tuple(nearly))


def _astray(coarse: pl.Series, fine: pl.Series, parents: int) -> int:
    """The number of records that lie not in the usual parent of their code; 0 if it is no level above at all.

    Each parent must be the usual one of some code. So a value that nearly everybody has is no parent.
    """
    both = pl.DataFrame({"coarse": coarse, "fine": fine}).drop_nulls()
    counted = both.group_by("fine", "coarse").len().sort("len", descending=True)
    usual = counted.unique("fine", keep="first", maintain_order=True)
    astray = both.height - int(usual["len"].sum())
    return astray if astray <= _STRAY * both.height and usual["coarse"].n_unique() == parents else 0


def _name_of(one: FileFacts, pair: tuple[str, str], matches: Sequence[Match]) -> str:
    """Which of two equivalent columns is the name: the one that no list matches, or the longer one."""
    listed = {match.column for match in matches}
    first, second = pair
    if (first in listed) != (second in listed):
        return second if first in listed else first
    return _longer(one, pair)


def _longer(one: FileFacts, pair: tuple[str, str]) -> str:
    """Which of two columns has the longer values."""
    first, second = pair
    length = {name: one.frame[name].str.len_chars().mean() or 0 for name in pair}
    return second if length[second] >= length[first] else first  # type: ignore[operator]


def _names(one: FileFacts, matches: Sequence[Match]) -> set[str]:
    """The columns that only name the codes of another one."""
    return {_name_of(one, pair, matches) for pair in one.same} | {match.name for match in matches if match.name}


def _chains(one: FileFacts, matches: Sequence[Match]) -> tuple[tuple[str, ...], ...]:
    """Hierarchies of nested columns; else the column that a map or list matches; else the largest."""
    names = _names(one, matches)
    above: dict[str, set[str]] = {}
    for coarse, fine in one.nests:
        if not names & {coarse, fine}:
            above.setdefault(fine, set()).add(coarse)
    inside = set().union(*above.values()) if above else set()
    chains = []
    for fine in [fine for fine in above if fine not in inside]:
        chain, level = [fine], above[fine]
        while level:
            finest = max(level, key=lambda name: one.column(name).values)
            chain.insert(0, finest)
            level = {name for name in level if name in above.get(finest, set())}
        chains.append(tuple(chain))
    taken: set[str] = set()
    apart = []
    known = {match.column for match in matches}
    for whole in sorted(chains, key=lambda chain: (len(chain), chain[-1] in known), reverse=True):
        rest = tuple(name for name in whole if name not in taken)
        taken |= set(rest)
        if len(rest) > 1:
            apart.append(rest)
    listed = [match.column for match in matches if match.column not in taken and one.column(match.column).kind != "age"]
    areas = [match.column for match in matches if match.file.lower().endswith((".geojson", ".gpkg", ".shp", ".json"))]
    trees = {match.column for match in matches if match.by == LEAVES}
    for column in dict.fromkeys([*areas, *listed]):
        if column not in taken and (column in trees or not apart):
            apart.append((column,))
            taken.add(column)
    if not apart:
        possible = [c for c in one.columns if c.kind in ("category", "code") and c.values > 1 and c.name not in names]
        largest = max(possible, key=lambda c: (bool(AREAS.search(c.name)), c.values), default=None)
        apart += [(largest.name,)] if largest else []
    return tuple(apart)


def _matches(source: FileFacts, others: Sequence[FileFacts]) -> list[Match]:
    """For each code list and map the matching column of the data, and its own column of codes."""
    found = []
    for other in others:
        ranked: list[tuple[tuple[float, int], Match]] = []
        for column in source.columns:
            if (
                column.kind in ("identifier", "decimal", "weight", "date", "empty", "constant", "age")
                or column.values < 2
            ):
                continue
            codes = _codes_in(source, column)
            for candidate in other.frame.get_columns():
                match = _match(column.name, codes, other.path, candidate)
                if match and match.best >= _NEEDED:
                    ranked.append(((round(match.best, 2), len(codes)), match))
        if ranked:
            ranked.sort(key=lambda pair: pair[0], reverse=True)
            found.append(_with_names(source, other, [match for _, match in ranked]))
    return found


def _with_names(source: FileFacts, other: FileFacts, ranked: Sequence[Match]) -> Match:
    """The best match; if the list also has the names of its codes, that of the codes, with the column of the names."""
    best = ranked[0]
    for one in ranked[1:]:
        if one.column == best.column or one.by == best.by:
            continue
        pair = (best.column, one.column)
        is_name = round(one.best, 2) >= round(best.best, 2) and _longer(source, pair) == best.column
        code, name = (one, best) if is_name else (best, one)
        contrary = _contrary(source, other, code, name)
        if contrary is not None:
            return replace(code, name=name.column, contrary=contrary)
    return best


def _contrary(source: FileFacts, other: FileFacts, code: Match, name: Match) -> int | None:
    """The number of records with another code than the list has for their name; None if they are many."""
    known = other.frame.select(
        pl.col(name.by).str.strip_chars().str.zfill(name.pad).alias("name"),
        pl.col(code.by).str.strip_chars().str.zfill(code.pad).alias("listed"),
    )
    records = source.frame.select(
        pl.col(name.column).str.strip_chars().str.zfill(name.pad).alias("name"),
        pl.col(code.column).str.strip_chars().str.zfill(code.pad).alias("code"),
    )
    both = records.drop_nulls().join(known.drop_nulls().unique("name", keep="none"), on="name")
    contrary = int((both["code"] != both["listed"]).sum())
    return contrary if both.height and contrary <= _CONTRARY * both.height else None


def _match(column: str, codes: set[str], file: str, candidate: pl.Series) -> Match | None:
    known = candidate.str.strip_chars().str.normalize("NFC").drop_nulls()
    listed = set(known)
    if len(listed) < max(2, 0.9 * len(candidate)):  # a code list has each code once
        return None
    share = len(codes & listed) / len(codes)
    widths = {len(code) for code in listed if code.isdecimal()}
    padded, pad = 0.0, 0
    if widths and (width := max([*widths, *(len(code) for code in codes if code.isdecimal())])) > 1:
        longer = {code.zfill(width) for code in codes}
        padded, pad = len(longer & {code.zfill(width) for code in listed}) / len(longer), width
    if padded <= share:
        return Match(column, file, candidate.name, share, extra=len(listed - codes))
    extra = {code.zfill(pad) for code in listed} - {code.zfill(pad) for code in codes}
    return Match(column, file, candidate.name, share, padded, pad, len(extra))
