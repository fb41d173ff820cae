"""Excel files: a table with its notes, and its codes on a second sheet."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl

from ilba.errors import InputError, some
from ilba.output.formats import missing_extra
from ilba.output.naming import sheet_name
from ilba.output.wording import WordedTable

_SHEET_ROWS = 2**20  # the limit of Excel


def xlsx(table: WordedTable) -> bytes:
    """A table as an Excel file."""
    notes = table.notes(dense=False)
    if table.told("source"):
        notes.append(table.said["source"].format(source=table.told("source")))
    if table.release.manifest.get("licence"):
        notes.append(table.said["licence"].format(licence=table.release.manifest["licence"]))
    about = {"title": table.title, "comments": " ".join(notes), "created": table.created}
    file = io.BytesIO()
    with _workbook(file, about) as book:
        decimals, head = table.measure.decimals, _headings(table)
        name = sheet_name(table.table.name, [table.said["codes"]])
        _table_sheet(book, name, table.title, notes, head, table.named(table.by_codes), 1, table.pulse, decimals)
        _code_sheet(book, table)
    return file.getvalue()


def workbook(frame: pl.DataFrame, name: str, title: str, notes: Sequence[str], numbers: int) -> bytes:
    """A frame as an Excel file with one sheet named after a table; this many last columns are numbers, not labels."""
    file = io.BytesIO()
    with _workbook(file, {"title": title}) as book:
        _table_sheet(book, sheet_name(name), title, notes, frame.columns, frame, numbers)
    return file.getvalue()


def require() -> Any:
    """Load XlsxWriter, or say what to install."""
    try:
        return importlib.import_module("xlsxwriter")
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, "an xlsx file") from None


@contextmanager
def _workbook(file: io.BytesIO, about: dict[str, Any]) -> Iterator[Any]:
    book = require().Workbook(file, {"constant_memory": True, "strings_to_formulas": False})
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
            f"{title!r} has {some(rows.height, 'row')}, more than an Excel sheet can have. "
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
    sheet = book.add_worksheet(name)
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


def _width(column: pl.Series) -> float:
    texts = column.unique().head(5000).cast(pl.String).drop_nulls().to_list()
    return min(50, max([12, *(_cells_wide(text) + 2 for text in texts)]))


def _cells_wide(text: str) -> int:
    """The width of a text in Latin letters; a Korean letter is two wide."""
    return sum(2 if ord(letter) > 0x10FF else 1 for letter in text)
