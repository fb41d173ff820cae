"""Write tables of a release in the formats of statistical offices and their users.

`export` writes only labels and masked counts of a `Release`. Formats that list observations
(csv, parquet, xlsx) have the rows of the release; csv and xlsx in the order of its code lists. Formats in which an
absent value is unknown (JSON-stat, SDMX, PX) have the complete grid of the published codes, also zeros. A blank count
is NA in csv, empty in xlsx, null with a status in JSON-stat, ".." in PX, and has a status and no value in SDMX; so is a
value that did not exist.

In the latter formats a hierarchy is one dimension with the codes of the table's finest level. If a code has several
parents, the whole path is the code: 01/0101.
"""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from ilba.errors import InputError, listing, nearest, suggesting
from ilba.files import PUBLIC, replacing, writable
from ilba.output.formats import sdmx, xlsx
from ilba.output.formats.jsonstat import json_stat
from ilba.output.formats.px import px
from ilba.output.series import opened as opened_as_one
from ilba.output.wording import WordedTable, check_language, languages
from ilba.release import Release
from ilba.tables.table import csv_text

Format: TypeAlias = Literal["csv", "parquet", "xlsx", "json-stat", "sdmx-csv", "sdmx-ml", "px"]
Path_: TypeAlias = str | os.PathLike[str]

FORMATS: tuple[str, ...] = get_args(Format)
_SDMX = ("sdmx-csv", "sdmx-ml")


@suggesting
def export(
    release: Release | Path_ | Sequence[Release | Path_],
    table_name: str,
    format: str,
    path: Path_,
    lang: str = "en",
    *,
    agency: str = "ILBA",
    spreadsheet: bool = False,
) -> tuple[Path, ...]:
    """Write one table of a release in another format.

    Parameters
    ----------
    release : Release or path, or a sequence of them
        The release; or several waves of one population. Their tables have time as the last variable.
    table_name : str
        The name of the table, such as "LA3.gender".
    format : str
        "csv", "parquet", "xlsx", "json-stat", "sdmx-csv", "sdmx-ml" or "px". Both kinds of SDMX write their structure
        beside the data.
    path : path
        Where to write.
    lang : str, default "en"
        The language of labels and notes: en, ko, fr, es, or one that the code list has labels in. Codes are kept.
    agency : str, default "ILBA"
        The maintenance agency in SDMX identifiers.
    spreadsheet : bool, default False
        For a csv file that people open in Excel: it begins with a byte order mark, so Excel reads it as UTF-8, and a
        text that looks like a formula gets an apostrophe in front.

    Returns
    -------
    tuple of Path
        The files that were written.

    Raises
    ------
    InputError
        The release has no such table, or an argument is not known.
    StoreError
        The release is damaged.
    WriteError
        The file could not be written.
    """
    opened = opened_as_one(release)
    if format not in FORMATS:
        raise InputError(f"format={format!r} is not known.{nearest(format, FORMATS)} It is {listing(FORMATS)}.")
    check_language(lang, languages(opened.codes, opened.manifest))
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_\-]*(\.[A-Za-z][A-Za-z0-9_\-]*)*", agency):
        raise InputError(f"agency={agency!r} is not an SDMX agency: letters, digits, _ and -, starting with a letter.")
    if spreadsheet and format != "csv":
        raise InputError(
            f"spreadsheet=True is only for csv files, and format is {format!r}. An xlsx file does not need it."
        )
    found = opened.named(table_name)
    frame = opened.table(found.name)
    target = writable(path)
    table = WordedTable(opened, found, frame, lang)
    if format in _SDMX:
        sdmx.write(table, target, agency, format)
        return target, sdmx.structure_path(target)
    if format == "parquet":
        spare_store(target)
    content = spreadsheet_csv(table.named(table.by_codes)) if spreadsheet else rendered(table, format)
    with replacing(target, PUBLIC, instead_of=_MAGIC.get(format, b"")) as temporary:
        temporary.write_bytes(content)
    return (target,)


def require(formats: Collection[str]) -> None:
    """Raise an error before long work if a format needs an extra that is not installed."""
    if "xlsx" in formats:
        xlsx.require()
    if not set(_SDMX).isdisjoint(formats):
        sdmx.require()


def rendered(table: WordedTable, format: str) -> bytes:
    """The content of a table in one of the formats with a single file."""
    return _RENDERERS[format](table)


def _csv(table: WordedTable) -> bytes:
    return csv_text(table.named(table.by_codes)).encode()


def variables_csv(table: WordedTable, codes: bool, texts: bool, title: bool = False, separator: str = ",") -> bytes:
    """The complete grid with the variables of the table: their texts, their codes, or both; then the number.

    With only codes the header has the column names, for programs; else it has the labels, for people.
    """
    sizes = [len(dimension) for dimension in table.dimensions] or [1]
    places = np.unravel_index(np.arange(len(table.values)), sizes)
    axes = [(one.name, one.label, one.codes, one.labels) for one in table.dimensions]
    # A table has at least one variable, as in JSON-stat.
    axes = axes or [("measure", table.said["variable"], [table.value_column], [table.value_label])]
    columns = []
    for (name, label, known, said), place in zip(axes, places, strict=True):
        if codes:
            heading = f"{label} ({table.said['code']})" if texts else name
            columns.append(pl.Series(heading, known, dtype=pl.String).gather(place))
        if texts:
            columns.append(pl.Series(label, said, dtype=pl.String).gather(place))
    number = table.value_label if texts else table.value_column
    while number in {column.name for column in columns}:
        number += "_"
    columns.append(table.measure.whole(pl.Series(number, table.values)))
    for end, values in zip(("low", "high"), table.spans or (), strict=False):
        heading = f"{number} ({table.said[end]})" if texts else f"{number}_{end}"
        columns.append(table.measure.whole(pl.Series(heading, values)))
    written = pl.DataFrame(columns).write_csv(separator=separator, quote_style="non_numeric")
    head = '"' + table.title.replace('"', '""') + '"\n' if title else ""
    return (head + written).encode()


def spreadsheet_csv(frame: pl.DataFrame) -> bytes:
    """A frame as csv for spreadsheets: UTF-8 with a mark, and without formulas."""
    formula = r"^[=+\-@＝＋－＠\t\r\n]"
    guarded = frame.with_columns(pl.col(pl.String).str.replace(formula, "'$0"))
    guarded = guarded.rename(lambda name: f"'{name}" if re.match(formula, name) else name)
    return csv_text(guarded).encode("utf-8-sig")


def spare_store(path: Path) -> None:
    """Refuse to write a Parquet file over a store, which is a Parquet file too."""
    if path.is_file() and path.stat().st_size:
        try:
            known = pl.read_parquet_metadata(path)
        except pl.exceptions.PolarsError:
            known = {}
        if "ilba" in known:
            raise InputError(f"{str(path)!r} is a store, which this would destroy. Choose another name.")


def _parquet(table: WordedTable) -> bytes:
    about = {"title": table.title, "note": " ".join(table.notes(dense=False)), **table.about}
    file = io.BytesIO()
    table.named(table.listed).write_parquet(file, compression="zstd", metadata={k: str(v) for k, v in about.items()})
    return file.getvalue()


_MAGIC = {"parquet": b"PAR1", "xlsx": b"PK"}
_RENDERERS: dict[str, Callable[[WordedTable], bytes]] = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": xlsx.xlsx,
    "json-stat": lambda table: json.dumps(json_stat(table), ensure_ascii=False, separators=(",", ":")).encode(),
    "px": lambda table: px(table).replace("\n", "\r\n").encode(),
}
