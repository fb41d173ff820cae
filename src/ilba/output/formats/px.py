"""PC-Axis files."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence

from ilba.design.design import MASKED
from ilba.output.series import frequency, time_column
from ilba.output.wording import WordedTable


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
        *_time(axes, time_column(table)),
        ("LAST-UPDATED", created),
        *([("SOURCE", table.told("source"))] if table.told("source") else []),
        ("NOTEX", "#".join(table.notes(dense=True))),  # a # is a new line
    ]
    width = len(axes[-1][2]) if heading else 1
    # A blank after each number, also at the end of a line: some readers join the lines to one.
    spelled = str if values.dtype.kind == "i" else _number
    data = "\n".join(" ".join(map(spelled, row)) + " " for row in values.reshape(-1, width).tolist())
    return "".join(f"{keyword}={_value(value)};\n" for keyword, value in lines) + f"DATA=\n{data}\n;\n"


class _Spelled(str):
    """A value that is written without change."""


def _time(axes: Sequence[tuple[str, str, list[str], list[str]]], time: str | None) -> Iterator[tuple[str, str]]:
    """The time variable, and the times in the spelling of the format, if it has one."""
    for name, column, codes, _ in axes:
        found = frequency(codes) if column == time else None
        if found:
            listed = ",".join(f'"{code}"' for code in found[1])
            yield f'TIMEVAL("{_bare(name)}")', _Spelled(f"TLIST({found[0]}),{listed}")


def _number(value: float) -> str:
    """A number that is not a count; two dots if it cannot be computed."""
    return f"{value:.10g}" if value == value else '".."'


def _bare(text: str) -> str:
    """A text for quotes: the format allows neither quotes nor line breaks inside."""
    return " ".join(text.replace('"', "'").split()) or " "


def _value(value: str | bool | int | Sequence[str]) -> str:
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
