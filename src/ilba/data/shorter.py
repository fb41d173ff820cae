"""Lines of csv files that have fewer fields than there are columns.

A missing field is read as an empty one, and a record that a line feed breaks is read as two. So the separators in the
text are counted, less those inside of fields, where the last column is ever empty.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl

from ilba.data.csvfiles import laid_out, scanned
from ilba.data.reading import Path_, Reading, is_note, kind_of, matching, named_columns, told
from ilba.errors import InputError, some


def refuse_shorter(path: Path_, reading: Reading) -> None:
    """Refuse lines of csv files with fewer fields than columns. Blank lines may be shorter, and notes to be dropped."""
    text = os.fspath(path)
    for file in [Path(text)] if Path(text).exists() else matching(text):
        if kind_of(file) == "csv" and file.is_file():
            told(lambda file=file: _refuse(file, reading), repr(str(file)))  # type: ignore[misc]


def _refuse(file: Path, reading: Reading) -> None:
    sources, separator = laid_out([file], reading.encoding, reading.separator, reading.header)
    records = scanned(sources, separator, reading.header)
    names = records.collect_schema().names()
    columns = named_columns(names, "_duplicated_")
    width, last = len(columns), pl.col(columns[-1])
    if width < 2 or not _asked(records.select(last.is_null().any())).item():
        return
    lines = scanned(sources, "\0", reading.header, has_header=False, quote_char=None, new_columns=["line"])
    line = pl.col("line").fill_null("")
    breaks = line.str.count_matches(separator, literal=True).cast(pl.Int64)
    inside, more = _within(separator).alias("inside"), _within("\n").alias("more")
    found, blank, quoted = _asked(
        lines.select(
            breaks.sum(),
            (line.str.strip_chars() == "").sum().alias("blank"),
            line.str.contains('"', literal=True).any().alias("quoted"),
        )
    ).row(0)
    sums = [inside.sum(), more.sum()] if quoted else [pl.lit(0).alias("inside"), pl.lit(0).alias("more")]
    number, held, wrapped = _asked(records.select(pl.len().alias("number"), *sums)).row(0)
    in_names = len(names) - 1 + sum(name.count(separator) for name in names)
    if not wrapped and found - in_names - held == (len(names) - 1) * (number - blank):
        return  # no line has more fields than there are names, so each has as many
    empty = pl.all_horizontal(pl.all().is_null())
    note = is_note(columns)
    kept = last.is_null() & ~empty & ~(note if reading.notes == "drop" else pl.lit(value=False))
    shape = _asked(records.select(inside, more, kept.alias("kept"), note.alias("note")))
    more_lines = shape["more"].to_numpy()
    total = np.concatenate(([0], np.cumsum(_asked(lines.select(breaks)).to_series().to_numpy())))
    ends = np.cumsum(more_lines + 1)
    ends += len(total) - 1 - ends[-1]  # the names are above
    starts = ends - more_lines - 1
    fields = total[ends] - total[starts] - shape["inside"].to_numpy() + 1
    short = np.flatnonzero(shape["kept"].to_numpy() & (fields < width))
    if not len(short):
        return
    first = short[0]
    are_notes = bool(shape["note"].to_numpy()[short].all())
    raise InputError(
        f"{str(file)!r} cannot be read: {some(len(short), 'line')} with too few fields. The first is line "
        f"{starts[first] + max(reading.header, 1)}, with {fields[first]} of {width}. Correct that; a field with a line "
        f"feed in it has to be in quotes."
        + are_notes
        * " Leave out notes with --notes drop (read={'notes': 'drop'}, or notes = \"drop\")."
    )


def _within(text: str) -> pl.Expr:
    """How often a text is inside of the fields of a record."""
    return pl.sum_horizontal(pl.all().str.count_matches(text, literal=True)).cast(pl.Int64)


def _asked(query: pl.LazyFrame) -> pl.DataFrame:
    return query.collect(engine="streaming")
