"""Write tables of a release in the formats of statistical offices and their users.

`export` writes only labels and masked counts of a `Release`. Formats that list observations
(csv, parquet, xlsx) have the rows of the release. Formats in which an absent value is unknown (JSON-stat,
SDMX, PX) have the complete grid of the published codes, also zeros. A blank count is NA in csv, empty in xlsx,
null with a status in JSON-stat, ".." in PX, and has a status and no value in SDMX.

In the latter formats a hierarchy is one dimension with the codes of the table's finest level. If a code has several
parents, the whole path is the code: 01/0101.
"""

from __future__ import annotations

import io
import json
import os
import re
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import polars as pl

from ilba.design.design import MASKED
from ilba.errors import InputError, MissingExtra, listing, nearest, some, suggesting
from ilba.files import replacing, writable
from ilba.output.series import Series, frequency
from ilba.output.series import opened as opened_as_one
from ilba.output.wording import Dimension, WordedTable, check_language, languages
from ilba.release import Release
from ilba.tables.table import csv_text

Format: TypeAlias = Literal["csv", "parquet", "xlsx", "json-stat", "sdmx-csv", "sdmx-ml", "px"]
Path_: TypeAlias = str | os.PathLike[str]

Axis: TypeAlias = tuple[str, str, list[str], list[str]]

FORMATS: tuple[str, ...] = get_args(Format)
PUBLIC = 0o644
_SHEET_ROWS = 2**20  # the limit of Excel
_SDMX = ("sdmx-csv", "sdmx-ml")
_STATUS = {"OBS_STATUS": "A", "CONF_STATUS": "F"}  # the same for every cell, so it discloses nothing
_AT_ONCE = 2**16


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
    frame = opened.table(table_name)
    target = writable(path)
    table = WordedTable(opened, opened.tables[table_name], frame, lang)
    if format in _SDMX:
        _sdmx(table, target, agency, format)
        return target, structure_path(target)
    if format == "parquet":
        spare_store(target)
    content = spreadsheet_csv(table.named()) if spreadsheet else rendered(table, format)
    with replacing(target, PUBLIC, instead_of=_MAGIC.get(format, b"")) as temporary:
        temporary.write_bytes(content)
    return (target,)


def rendered(table: WordedTable, format: str) -> bytes:
    """The content of a table in one of the formats with a single file."""
    return _RENDERERS[format](table)


def structure_path(path: Path_) -> Path:
    """Where the structure of an SDMX file goes: beside it."""
    return Path(path).with_suffix(".structure.xml")


def _csv(table: WordedTable) -> bytes:
    return csv_text(table.named()).encode()


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
    about = {"title": table.title, "note": " ".join(table.notes(dense=False)), **_about(table)}
    file = io.BytesIO()
    table.named().write_parquet(file, compression="zstd", metadata={k: str(v) for k, v in about.items()})
    return file.getvalue()


def _about(table: WordedTable) -> dict[str, Any]:
    """Information about a release for programs, under the names of its manifest."""
    told = table.release.manifest
    names = ("method", "threshold", "cells", "additive", "absent", "source", "software", "created")
    return {"table": table.table.name, **{name: told[name] for name in names}}


def _xlsx(table: WordedTable) -> bytes:
    notes = table.notes(dense=False)
    if table.told("source"):
        notes.append(table.said["source"].format(source=table.told("source")))
    if table.release.manifest.get("licence"):
        notes.append(table.said["licence"].format(licence=table.release.manifest["licence"]))
    about = {"title": table.title, "comments": " ".join(notes), "created": table.created}
    file = io.BytesIO()
    with _workbook(file, about) as book:
        decimals, head = table.measure.decimals, _headings(table)
        _table_sheet(book, table.table.name, table.title, notes, head, table.named(), 1, table.pulse, decimals)
        _code_sheet(book, table)
    return file.getvalue()


def workbook(frame: pl.DataFrame, name: str, title: str, notes: Sequence[str], numbers: int) -> bytes:
    """A frame as an Excel file with one sheet; this many last columns are numbers, the others are labels."""
    file = io.BytesIO()
    with _workbook(file, {"title": title}) as book:
        _table_sheet(book, name, title, notes, frame.columns, frame, numbers)
    return file.getvalue()


@contextmanager
def _workbook(file: io.BytesIO, about: dict[str, Any]) -> Iterator[Any]:
    try:
        import xlsxwriter
    except ModuleNotFoundError as problem:
        raise _missing_extra(problem, "an xlsx file") from None
    book = xlsxwriter.Workbook(file, {"constant_memory": True, "strings_to_formulas": False})
    book.set_properties(about)
    yield book
    book.close()


def _head_format(book: Any) -> Any:
    return book.add_format({"bold": True, "bottom": 1, "bg_color": "#E8EEF4", "text_wrap": True, "valign": "top"})


def _table_sheet(
    book: Any,
    name: str,
    title: str,
    notes: Sequence[str],
    headings: Sequence[str],
    rows: pl.DataFrame,
    numbers: int,
    pulse: Callable[[], object] = lambda: None,
    decimals: int = 0,
) -> None:
    """Title, notes and the table, its header frozen, with a filter."""
    top = len(notes) + 2
    if rows.height + top + 1 > _SHEET_ROWS:
        raise InputError(
            f"{name!r} has {some(rows.height, 'row')}, more than an Excel sheet can have. "
            f"Use csv or parquet, or a table with fewer variables."
        )
    bold, count, note = (
        book.add_format(given)
        for given in (
            {"bold": True, "font_size": 14},
            {"num_format": "#,##0" + (f".{'0' * decimals}" if decimals else "")},
            {"italic": True, "font_color": "#444444"},
        )
    )
    head = _head_format(book)
    labels = rows.width - numbers
    sheet = book.add_worksheet(_sheet_name(name))
    for place, column in enumerate(rows.get_columns()):
        sheet.set_column(place, place, _width(column), count if place >= labels else None)
    sheet.write_string(0, 0, title, bold)
    for place, text in enumerate(notes, 1):
        sheet.write_string(place, 0, text, note)
    for place, heading in enumerate(headings):
        sheet.write_string(top, place, heading, head)
    for place, row in enumerate(rows.iter_rows(), top + 1):
        if place % 500 == 0:
            pulse()
        for across, value in enumerate(row[:labels]):
            # A code is text even if it looks like a number: 01 must not become 1.
            sheet.write_string(place, across, "" if value is None else str(value))
        for across, value in enumerate(row[labels:], labels):
            if value is not None:  # a value that cannot be computed is empty
                sheet.write_number(place, across, value, count)
    sheet.freeze_panes(top + 1, 0)
    if rows.height:
        sheet.autofilter(top, 0, top + rows.height, rows.width - 1)
    sheet.set_landscape()
    sheet.repeat_rows(top)
    sheet.fit_to_pages(1, 0)


def _headings(table: WordedTable) -> list[str]:
    """The header of a sheet: the name of the variable over the labels, the name of the column over the codes."""
    names = []
    for column in table.table.columns:
        word = table.labels.variable(column)
        if table.labels.has(column):
            names += [f"{word} ({table.said['code']})", word]
        else:
            names.append(word)
    return [*names, table.value_label]


def _code_sheet(book: Any, table: WordedTable) -> None:
    head = _head_format(book)
    sheet = book.add_worksheet(table.said["codes"])
    heading = [table.said[name] for name in ("variable", "code", "label", "parent")]
    codes = table.release.codes.filter(pl.col("variable").is_in(table.table.columns))
    rows = []
    for row in codes.iter_rows(named=True):
        if row["code"] is None:
            label = table.labels.variable(row["variable"])
        else:
            label = table.labels.code(row["variable"], row["code"], row["parent"])
        rows.append([row["variable"], row["code"] or "", label, row["parent"] or ""])
    for place, name in enumerate(heading):
        sheet.set_column(place, place, min(60, max(12, *(_cells_wide(row[place]) for row in [heading, *rows])) + 2))
        sheet.write_string(0, place, name, head)
    for number, texts in enumerate(rows, 1):
        for place, text in enumerate(texts):
            sheet.write_string(number, place, text)
    sheet.freeze_panes(1, 0)


def _sheet_name(name: str) -> str:
    return re.sub(r"[\[\]:*?/\\]", "_", name)[:31].strip("'") or "table"


def _width(column: pl.Series) -> float:
    texts = column.unique().head(5000).cast(pl.String).drop_nulls().to_list()
    return min(50, max([12, *(_cells_wide(text) + 2 for text in texts)]))


def _cells_wide(text: str) -> int:
    """The width of a text in Latin letters; a Korean letter is two wide."""
    return sum(2 if ord(letter) > 0x10FF else 1 for letter in text)


def _json_stat(table: WordedTable) -> bytes:
    return json.dumps(json_stat(table), ensure_ascii=False, separators=(",", ":")).encode()


def json_stat(table: WordedTable, whole: bool = True, data: bool = True) -> dict[str, Any]:
    """A table as a JSON-stat 2.0 dataset; without `data` only its description.

    A whole dataset also has a metric dimension, with the one thing that is counted, and the codes above each area. The
    service gives both elsewhere.
    """
    values = _plain(table) if data else []
    measure, column = "measure", table.value_column
    while measure in table.table.columns:
        measure += "_"
    axes: dict[str, Any] = {
        dimension.name: {
            "label": dimension.label,
            "category": {
                "index": {code: place for place, code in enumerate(dimension.codes)},
                "label": dict(zip(dimension.codes, dimension.labels, strict=True)),
            },
            # The parents are not categories of this table, so `child` is not used.
            **({"extension": _parents(dimension)} if whole and len(dimension.columns) > 1 else {}),
        }
        for dimension in table.dimensions
    }
    metric = whole or not axes
    if metric:
        axes[measure] = {
            "label": table.said["count"],
            "category": {
                "index": {column: 0},
                "label": {column: table.value_label},
                "unit": {column: {"base": table.unit, "decimals": table.measure.decimals}},
            },
        }
    geo = [dimension.name for dimension in table.dimensions if dimension.geo]
    time = [dimension.name for dimension in table.dimensions if dimension.name == time_column(table)]
    told = table.release.manifest
    return {
        "version": "2.0",
        "class": "dataset",
        "label": table.title,
        **({"source": table.told("source")} if told["source"] else {}),
        "updated": told["created"],
        "note": [*([table.told("description")] if told["description"] else []), *table.notes(dense=True)],
        "id": list(axes),
        "size": [len(dimension) for dimension in table.dimensions] + [1] * metric,
        "role": {
            **({"time": time} if time else {}),
            **({"geo": geo} if geo else {}),
            **({"metric": [measure]} if metric else {}),
        },
        "dimension": axes,
        "value": values,
        **_status(table, values),
        "extension": {"ilba": {"K": told["threshold"], "lang": table.lang, **_about(table), **_measured(table)}},
    }


def _plain(table: WordedTable) -> list[float | int | None]:
    """The numbers of a table as plain values, None for a blank; counts are whole."""
    if table.values.dtype.kind == "i":  # most tables: nothing is blank
        return list(table.values.tolist())
    is_whole = table.measure.decimals == 0
    return [None if value != value else int(value) if is_whole else value for value in table.values.tolist()]


def _status(table: WordedTable, values: Sequence[object]) -> dict[str, Any]:
    """The status of blank counts: c, Eurostat's flag for confidential."""
    if not values or not table.release.has_blanks or table.measure.name != "count":
        return {}
    return {"status": {str(place): "c" for place, value in enumerate(values) if value is None}}


def time_column(table: WordedTable) -> str | None:
    """The time variable of a table, if it has one."""
    return table.release.time if isinstance(table.release, Series) else None


def _measured(table: WordedTable) -> dict[str, Any]:
    """The measure of the numbers, if they are not counts."""
    one = table.measure
    if one.name == "count":
        return {}
    return {"measure": one.name, "of": list(one.of), "unit": table.unit, "decimals": one.decimals}


def _parents(dimension: Dimension) -> dict[str, Any]:
    """The levels of a hierarchy and, for each code, the codes above it from the coarsest."""
    above = dimension.paths.select(dimension.columns[:-1]).rows()
    return {
        "levels": list(dimension.columns),
        "above": dict(zip(dimension.codes, (list(path) for path in above), strict=True)),
    }


def _px(table: WordedTable) -> bytes:
    return px(table).replace("\n", "\r\n").encode()


def px(table: WordedTable) -> str:
    """A table as a PC-Axis file, version 2013: all dimensions but the last in the stub."""
    values = table.values
    axes = [(d.label, d.name, d.codes, d.labels) for d in table.dimensions]
    if not axes:  # a file has at least one variable
        axes = [(table.said["count"], MASKED, [MASKED], [table.said["all"]])]
    names = [name for name, *_ in axes]
    stub, heading = (names, []) if len(names) == 1 else (names[:-1], names[-1:])
    matrix = re.sub(r"[^A-Za-z0-9_.+\-]", "_", table.table.name)
    created = table.created.strftime("%Y%m%d %H:%M")
    lines: list[tuple[str, str | bool | int | Sequence[str]]] = [
        ("CHARSET", "ANSI"),  # the format's word for a file that is not for DOS; the encoding is in the code page
        ("AXIS-VERSION", "2013"),
        ("CODEPAGE", "utf-8"),
        ("LANGUAGE", table.lang),
        ("CREATION-DATE", created),
        ("DECIMALS", table.measure.decimals),
        ("SHOWDECIMALS", table.measure.decimals),
        ("MATRIX", matrix),
        ("AGGREGALLOWED", table.release.additive and table.measure.name in ("count", "change")),
        ("COPYRIGHT", False),
        ("SUBJECT-CODE", "ILBA"),
        ("SUBJECT-AREA", table.told("title")),
        ("DESCRIPTION", table.told("description") or table.title),
        ("TITLE", table.title),
        ("CONTENTS", table.value_label),
        ("UNITS", table.unit),
        ("STUB", stub),
        *([("HEADING", heading)] if heading else []),
        *((f'VALUES("{_bare(name)}")', labels) for name, _, _, labels in axes),
        *((f'VARIABLECODE("{_bare(name)}")', code) for name, code, _, _ in axes),
        *((f'CODES("{_bare(name)}")', codes) for name, _, codes, _ in axes),
        *_px_time(axes, time_column(table)),
        ("LAST-UPDATED", created),
        *([("SOURCE", table.told("source"))] if table.told("source") else []),
        ("NOTEX", "#".join(table.notes(dense=True))),  # a # is a new line
    ]
    width = len(axes[-1][2]) if heading else 1
    # A blank after each number, also at the end of a line: some readers join the lines to one.
    spelled = str if values.dtype.kind == "i" else _px_number
    data = "\n".join(" ".join(map(spelled, row)) + " " for row in values.reshape(-1, width).tolist())
    return "".join(f"{keyword}={_px_value(value)};\n" for keyword, value in lines) + f"DATA=\n{data}\n;\n"


class _Spelled(str):
    """A value that is written without change."""


def _px_time(axes: Sequence[tuple[str, str, list[str], list[str]]], time: str | None) -> Iterator[tuple[str, str]]:
    """The time variable, and the times in the spelling of the format, if it has one."""
    for name, column, codes, _ in axes:
        found = frequency(codes) if column == time else None
        if found:
            listed = ",".join(f'"{code}"' for code in found[1])
            yield f'TIMEVAL("{_bare(name)}")', _Spelled(f"TLIST({found[0]}),{listed}")


def _px_number(value: float) -> str:
    """A number that is not a count; two dots if it cannot be computed."""
    return f"{value:.10g}" if value == value else '".."'


def _bare(text: str) -> str:
    """A text for quotes: the format allows neither quotes nor line breaks inside."""
    return " ".join(text.replace('"', "'").split()) or " "


def _px_value(value: str | bool | int | Sequence[str]) -> str:
    if isinstance(value, bool):
        return "YES" if value else "NO"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, _Spelled):
        return str(value)
    if isinstance(value, str):
        # A line has at most 256 characters; a longer text continues in further quotes.
        wide = textwrap.TextWrapper(200, drop_whitespace=False, break_on_hyphens=False).wrap(_bare(value)) or [" "]
        return "\n".join(f'"{part}"' for part in wide)
    quoted = [f'"{_bare(text)}"' for text in value]
    lines, line = [], ""
    for place, text in enumerate(quoted):
        piece = text + ("," if place < len(quoted) - 1 else "")
        if line and len(line) + len(piece) > 250:
            lines.append(line)
            line = ""
        line += piece
    return "\n".join([*lines, line])


def _sdmx(table: WordedTable, path: Path, agency: str, format: str) -> None:
    """The data, piece by piece, and the structure beside it: SDMX-ML 2.1, which most readers know."""
    try:
        import pysdmx.io.xml  # noqa: F401 - raises here if its own extra is missing
        from pysdmx.io import write_sdmx
        from pysdmx.io.format import Format as SdmxFormat
        from pysdmx.io.pd import PandasDataset
        from pysdmx.model import Organisation, Schema
        from pysdmx.model.message import Header
    except ImportError as problem:
        raise _missing_extra(problem, "SDMX") from None
    table.values  # noqa: B018 - refused before anything is written
    axes = sdmx_axes(table)
    structures, structure = _sdmx_structures(table, axes, agency)
    flow = structures[-1]
    identity = f"{flow.id}-{table.created:%Y%m%dT%H%M%S}"
    header = Header(id=identity, prepared=table.created, sender=Organisation(id=agency))
    described = _sdmx_written(structures, header, table.lang)
    with ExitStack() as files:
        data = files.enter_context(files.enter_context(replacing(path, PUBLIC)).open("wb"))
        beside = files.enter_context(replacing(structure_path(path), PUBLIC))
        beside.write_text(described, encoding="utf-8")
        if format == "sdmx-csv":
            told = {"STRUCTURE": "dataflow", "STRUCTURE_ID": f"{agency}:{flow.id}({flow.version})", "ACTION": "I"}
            before, after = ([pl.lit(text).alias(name) for name, text in one.items()] for one in (told, _STATUS))
            for first, rows in _sdmx_rows(table, axes):
                status = _sdmx_status() if table.release.has_blanks else after
                rows.select(*before, pl.all(), *status).write_csv(data, include_header=not first)
            return
        # The library writes a message without observations; they are inserted at the end of its data set.
        schema = Schema("dataflow", agency, flow.id, structure.components, structure.version)
        none = pl.DataFrame(schema=[*(name for name, *_ in axes), "OBS_VALUE"]).to_pandas()
        attributes = {} if table.release.has_blanks else dict(_STATUS)
        empty = PandasDataset(structure=schema, data=none, attributes=attributes)
        message = write_sdmx([empty], SdmxFormat.DATA_SDMX_ML_2_1_GEN, header=header) or ""
        begins, closing, ends = message.rpartition("</mes:DataSet>")
        data.write(begins.encode())
        for _, rows in _sdmx_rows(table, axes):
            data.write(_sdmx_observations(rows, [name for name, *_ in axes], table.release.has_blanks).encode())
        data.write((closing + ends).encode())


def _sdmx_status() -> list[pl.Expr]:
    """The status of each observation, if counts may be blank: Q is suppressed, C confidential."""
    blank = pl.col("OBS_VALUE").is_null()
    letters = {"OBS_STATUS": ("Q", "A"), "CONF_STATUS": ("C", "F")}
    return [pl.when(blank).then(pl.lit(no)).otherwise(pl.lit(yes)).alias(name) for name, (no, yes) in letters.items()]


def _sdmx_observations(rows: pl.DataFrame, axes: Sequence[str], blanks: bool) -> str:
    """Observations as generic SDMX-ML; a blank one has a status and no value."""
    key = "".join(f'<gen:Value id="{name}" value="{{}}"/>' for name in axes)
    whole = f'<gen:Obs><gen:ObsKey>{key}</gen:ObsKey><gen:ObsValue value="{{}}"/>'
    spelled = pl.format(f"{whole}</gen:Obs>\n", *rows.columns)
    if blanks:
        told = rows.with_columns(_sdmx_status())
        status = "".join(f'<gen:Value id="{name}" value="{{}}"/>' for name in _STATUS)
        ends = f"<gen:Attributes>{status}</gen:Attributes></gen:Obs>\n"
        shown = pl.format(whole + ends, *rows.columns, *_STATUS)
        blank = pl.format(f"<gen:Obs><gen:ObsKey>{key}</gen:ObsKey>{ends}", *axes, *_STATUS)
        return str(told.select(pl.when(pl.col("OBS_VALUE").is_null()).then(blank).otherwise(shown).str.join("")).item())
    return str(rows.select(spelled.str.join("")).item())


def sdmx_data(table: WordedTable, agency: str) -> bytes:
    """The numbers of a table as generic SDMX-ML."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.xml"
        _sdmx(table, path, agency, "sdmx-ml")
        return path.read_bytes()


def sdmx_structure(table: WordedTable, agency: str) -> bytes:
    """The structure of a table with its concepts and code lists, as SDMX-ML."""
    from pysdmx.model import Organisation
    from pysdmx.model.message import Header

    axes = sdmx_axes(table)
    structures, _ = _sdmx_structures(table, axes, agency)
    header = Header(id=structures[-1].id, prepared=table.created, sender=Organisation(id=agency))
    return _sdmx_written(structures, header, table.lang).encode()


def _sdmx_written(structures: Sequence[Any], header: Any, lang: str) -> str:
    from pysdmx.io import write_sdmx
    from pysdmx.io.format import Format as SdmxFormat

    written = write_sdmx(structures, SdmxFormat.STRUCTURE_SDMX_ML_2_1, header=header) or ""
    return written.replace('xml:lang="en"', f'xml:lang="{lang}"')


def sdmx_flow_id(name: str) -> str:
    """The identifier of the dataflow of a table."""
    return f"DF_{re.sub(r'[^A-Za-z0-9_]', '_', name).upper()}"


def sdmx_flows(tables: Sequence[tuple[WordedTable, str]]) -> bytes:
    """The dataflows of some tables, each with its agency, without their structures."""
    from pysdmx.model import Dataflow, Organisation
    from pysdmx.model.message import Header

    flows = [
        Dataflow(
            id=sdmx_flow_id(table.table.name),
            name=table.title,
            agency=agency,
            version="1.0.0",
            structure="urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure="
            f"{agency}:{sdmx_flow_id(table.table.name).replace('DF_', 'DSD_', 1)}(1.0.0)",
        )
        for table, agency in tables
    ]
    header = Header(id="dataflows", prepared=tables[0][0].created, sender=Organisation(id=tables[0][1]))
    return _sdmx_written(flows, header, tables[0][0].lang).encode()


def _sdmx_rows(table: WordedTable, axes: Sequence[Axis]) -> Iterator[tuple[int, pl.DataFrame]]:
    """The observations of the complete grid, in pieces: the place of the first, then codes and counts."""
    codes = [pl.Series(name, codes, dtype=pl.String) for name, _, codes, _ in axes]
    for first in range(0, len(table.values), _AT_ONCE):
        values = table.values[first : first + _AT_ONCE]
        places = np.unravel_index(np.arange(first, first + len(values)), [len(known) for known in codes])
        columns = [known.gather(place) for known, place in zip(codes, places, strict=True)]
        number = pl.Series("OBS_VALUE", values).fill_nan(None)
        number = number.cast(pl.Int64) if table.measure.decimals == 0 else number
        yield first, pl.DataFrame([*columns, number])


def sdmx_axes(table: WordedTable) -> list[Axis]:
    """Identifier, name, codes and labels of each dimension, spelled with the letters that SDMX allows."""
    axes: list[Axis] = []
    taken = {"STRUCTURE", "STRUCTURE_ID", "ACTION", "OBS_VALUE", "OBS_STATUS", "CONF_STATUS", "TIME_PERIOD"}
    for place, dimension in enumerate(table.dimensions, 1):
        name = re.sub(r"[^A-Za-z0-9_]", "_", dimension.name)
        if not re.match(r"[A-Za-z]", name):
            name = f"D{place}{name}".rstrip("_")
        while name in taken:
            name += "_"
        if dimension.name == time_column(table):
            axes.append(("TIME_PERIOD", dimension.label, dimension.codes, dimension.labels))
            continue
        taken.add(name)
        axes.append((name, dimension.label, [_sdmx_code(code) for code in dimension.codes], dimension.labels))
    # A structure has at least one dimension; _T is the usual code of a total.
    return axes or [("TOTAL", table.said["all"], ["_T"], [table.said["all"]])]


def _sdmx_code(code: str) -> str:
    """A code in the letters that SDMX allows; any other letter becomes $ and its bytes, like %20 in an address.

    >>> _sdmx_code("01/0101"), _sdmx_code("A-1")
    ('01$2F0101', 'A-1')
    """
    return re.sub(r"[^A-Za-z0-9_@\-]", lambda odd: "".join(f"${byte:02X}" for byte in odd[0].encode()), code) or "$"


def _sdmx_structures(table: WordedTable, axes: Sequence[Axis], agency: str) -> tuple[list[Any], Any]:
    """The code lists, the concepts, the data structure and the dataflow; and the data structure by itself."""
    from pysdmx.model import (
        Code,
        Codelist,
        Component,
        Components,
        Concept,
        ConceptScheme,
        Dataflow,
        DataStructureDefinition,
        DataType,
        ItemReference,
        Role,
    )

    version = "1.0.0"
    name = re.sub(r"[^A-Za-z0-9_]", "_", table.table.name).upper()
    english = {"OBS_STATUS": {"A": "Normal value"}, "CONF_STATUS": {"F": "Free (free for publication)"}}
    has_blanks = table.release.has_blanks
    if has_blanks:
        english["OBS_STATUS"]["Q"] = "Missing value; suppressed"
        english["CONF_STATUS"]["C"] = "Confidential statistical information"
    lists = [
        Codelist(
            id=f"CL_{axis.upper()}",
            name=label,
            agency=agency,
            version=version,
            items=[Code(id=code, name=text) for code, text in zip(codes, labels, strict=True)],
        )
        for axis, label, codes, labels in axes
        if axis != "TIME_PERIOD"
    ]
    lists += [
        Codelist(
            id=f"CL_{axis}",
            name=axis,
            agency=agency,
            version=version,
            items=[Code(id=code, name=text) for code, text in codes.items()],
        )
        for axis, codes in english.items()
    ]
    names = {axis: label for axis, label, _, _ in axes} | {"OBS_VALUE": table.said["count"]}
    names |= {"OBS_STATUS": "Observation status", "CONF_STATUS": "Confidentiality status"}
    scheme = ConceptScheme(
        id=f"CS_{name}",
        name=table.title,
        agency=agency,
        version=version,
        items=[Concept(id=axis, name=label) for axis, label in names.items()],
    )

    def component(axis: str, role: Role, **more: Any) -> Component:
        concept = ItemReference("Concept", agency, scheme.id, version, axis)
        urn = f"urn:sdmx:org.sdmx.infomodel.codelist.Codelist={agency}:CL_{axis.upper()}({version})"
        reference = None if role == Role.MEASURE or axis == "TIME_PERIOD" else urn
        if axis == "TIME_PERIOD":
            more["local_dtype"] = DataType.PERIOD
        return Component(id=axis, required=True, role=role, concept=concept, local_enum_ref=reference, **more)

    structure = DataStructureDefinition(
        id=f"DSD_{name}",
        name=table.title,
        agency=agency,
        version=version,
        components=Components(
            [
                *(component(axis, Role.DIMENSION) for axis, *_ in axes),
                component("OBS_VALUE", Role.MEASURE, local_dtype=DataType.LONG),
                *(component(axis, Role.ATTRIBUTE, attachment_level="O" if has_blanks else "D") for axis in english),
            ]
        ),
    )
    flow = Dataflow(
        id=f"DF_{name}",
        name=table.title,
        description=" ".join(table.notes(dense=True)),
        agency=agency,
        version=version,
        structure=f"urn:sdmx:org.sdmx.infomodel.datastructure.DataStructure={agency}:{structure.id}({version})",
    )
    return [*lists, scheme, structure, flow], structure


def _missing_extra(problem: ImportError, what: str) -> MissingExtra:
    return MissingExtra(f"writing {what} needs {problem.name or 'more packages'}. Type: pip install 'ilba[formats]'")


_MAGIC = {"parquet": b"PAR1", "xlsx": b"PK"}
_RENDERERS: dict[str, Callable[[WordedTable], bytes]] = {
    "csv": _csv,
    "parquet": _parquet,
    "xlsx": _xlsx,
    "json-stat": _json_stat,
    "px": _px,
}
