"""Notebook output: small HTML tables, every text escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_CELL = "padding:2px 10px;text-align:{}"


def escape(text: str) -> str:
    """Escape text for HTML."""
    import html  # loads the names of all characters, which a short command does not need

    return html.escape(text)


def page(title: str, about: str, *parts: str, confidential: bool = True) -> str:
    """Make the output of a cell: a title, a line about it, and HTML parts."""
    mark = ' · <b style="color:#B00020">confidential</b>' if confidential else ' · <b style="color:#2a7d46">public</b>'
    line = f'<p style="margin:4px 0"><b>{escape(title)}</b> · {escape(about)}{mark}</p>'
    return f"<div>{line}{''.join(parts)}</div>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """Make a table with numbers at the right; missing values are marked.

    >>> "1,234" in table(["n"], [[1234]])
    True
    """
    head = "".join(f'<th style="{_CELL.format("left")}">{escape(name)}</th>' for name in heads)
    body = "".join("<tr>" + "".join(map(_cell, row)) + "</tr>" for row in rows)
    above = f'<p style="margin:8px 0 2px"><b>{escape(caption)}</b></p>' if caption else ""
    return (
        f'{above}<table style="border-collapse:collapse;font-size:90%"><thead><tr style="border-bottom:1px solid">'
        f"{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def note(text: str) -> str:
    """A line in grey."""
    return f'<p style="margin:4px 0;color:#777">{escape(text)}</p>'


def _cell(value: object) -> str:
    right = isinstance(value, int | float) and not isinstance(value, bool)
    shown = "<i>missing</i>" if value is None else f"{value:,}" if right else escape(str(value))
    return f'<td style="{_CELL.format("right" if right else "left")}">{shown}</td>'
