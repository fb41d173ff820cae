"""The rows of `what_if` on a page, to choose K, bound and method. Confidential."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl

from ilba.attack.attackers import KNOWS
from ilba.attack.audit import in_percent
from ilba.errors import listing
from ilba.files import writable
from ilba.output import charts
from ilba.output.pages import inline, write

_NUMBERS = ("method", "K", "bound", "mean_loss", "p99_loss", "max_loss", "safe", "groups", "outsider_right")
_KNOWS = {
    "provable": "proof",
    "outsider": "outsider",
    "neighbour": "neighbour",
    "insider": "insider",
    "groups": "attribute",
}


def in_words(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `what_if` for paper and screen: shares in percent, a bound only if one was given.

    >>> in_words(pl.DataFrame({"method": ["ilba"], "bound": [None], "insider": [0.25]})).rows(named=True)
    [{'method': 'ilba', 'insider %': 25.0}]
    """
    if "bound" in rows.columns and rows["bound"].is_null().all():
        rows = rows.drop("bound")
    return in_percent(rows, [name for name in rows.columns if name not in _NUMBERS])


def write_page(rows: pl.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write the rows of `what_if` with their picture as one self-contained page, for its owner alone."""
    shown = in_words(rows)
    thresholds = listing([str(K) for K in rows["K"].unique(maintain_order=True)])
    return write(
        writable(path),
        "choosing.html",
        title=f"What each attacker learns, and what it costs: K = {thresholds}",
        picture=inline(charts.svg(charts.attackers(rows))),
        heads=[name.replace("_", " ") for name in shown.columns],
        rows=[[_text(value) for value in row] for row in shown.iter_rows()],
        knows=[
            (name, KNOWS[attacker])
            for name, attacker in _KNOWS.items()
            if name in rows.columns
        ],
    )  # fmt: skip


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
