"""The rows of `what_if` on a page, to choose K, bound and method. Confidential."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import polars as pl

from ilba.attack.attackers import KNOWS, RELIES
from ilba.attack.audit import in_percent
from ilba.errors import listing
from ilba.files import writable
from ilba.methods.controlled.search import declared_bound
from ilba.output import drawing, loss_charts
from ilba.output.pages import inline, write

_NUMBERS = (
    "method", "K", "bound", "small", "mean_loss", "p99_loss", "max_loss", "safe", "groups", "outsider_right",
    "insider_bound",
)  # fmt: skip
_KNOWS = {
    "provable": "proof",
    "outsider": "outsider",
    "neighbour": "neighbour",
    "insider": "insider",
    "groups": "attribute",
}
MEANING = (
    "Loss is the absolute difference between masked and true counts. Small is the number of finest cells with a "
    "true count in 1..K-1, so it grows with K. Shares are of these cells: provable by everybody (safe: nothing is "
    "proven in any table, and every count is certified); believed by an outsider with more than .95, rightly; "
    "proven by a neighbour, by an insider who lacks one cell, or with a register. Provable counts is the share of the "
    f"small counts of all tables that everybody can prove. {RELIES} Insider bound is the bound that this insider uses: "
    "the larger it is, the less is proven. Do not choose K by the insider; before a first publication `ilba risk` also "
    "measures it for three other secrets. Outsider right is how often such a belief is right. Groups are groups of "
    "people that are shown with one value only. A dash means not measured: for outsider and insider the finest table "
    "must be among the tables. Under outsider right it also means that nothing was believed. Without the finest table, "
    "what neighbour and register prove is a lower bound."
)
"""what the columns mean"""
_LEARN = {
    "outsider": "an outsider is rightly sure of",
    "neighbour": "a neighbour proves",
    "insider": "an insider who knows all but one proves",
}


def in_words(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of `what_if` for paper and screen: shares in percent, a bound only if there is one.

    >>> in_words(pl.DataFrame({"method": ["ilba"], "bound": [None], "insider": [0.25]})).rows(named=True)
    [{'method': 'ilba', 'insider %': 25.0}]
    """
    if "bound" in rows.columns:
        no_bound = rows["bound"].is_null().all()
        rows = rows.drop("bound") if no_bound else rows.with_columns(loss_charts.bound_reached())
    if "insider_bound" in rows.columns and rows["insider_bound"].is_null().all():
        rows = rows.drop("insider_bound")
    return in_percent(rows, [name for name in rows.columns if name not in _NUMBERS])


def sentences(rows: pl.DataFrame) -> list[str]:
    """Describe each way to publish in sentences, for example for a memo.

    >>> row = {"method": "sca-sums", "K": 5, "mean_loss": 1.9, "max_loss": 7, "provable": 0.0, "safe": True}
    >>> print(sentences(pl.DataFrame([row | {"insider": 0.14}]))[0].replace(". ", ".\\n"))
    K=5, sca-sums: nobody can prove a count of 1 to 4 from the tables.
    The mean error of a count is 1.90, the largest 7.
    Of the finest cells with 1 to 4 an insider who knows all but one proves 14.0%.
    """
    return [_sentence(row) for row in rows.iter_rows(named=True)]


def _sentence(row: dict[str, Any]) -> str:
    small, cells = f"a count of 1 to {row['K'] - 1}", f"the finest cells with 1 to {row['K'] - 1}"
    bound = f", bound {row['bound']}" if row.get("bound") else ""
    is_held = not bound or row["max_loss"] <= row["bound"]
    if not is_held:
        bound += f" (not held, {row['max_loss']:,} reached)"
    if row["safe"]:
        proof = f"nobody can prove {small} from the tables."
    elif row["provable"]:
        proof = f"everybody who has the tables can prove {row['provable']:.1%} of {cells}."
    else:
        proof = f"the attack proves {small} in no finest cell, but does not find the tables safe."
    text = f"K={row['K']}, {row['method']}{bound}: {proof} "
    text += f"The mean error of a count is {row['mean_loss']:.2f}, the largest {row['max_loss']:,}."
    on = "the largest error" if not is_held else "the bound" if bound else _relied_on(row)
    relies = {"insider": f"an insider who knows all but one and relies on {on} proves, by this secret,"}
    who = _LEARN | (relies if row["method"] == "controlled" else {})
    who |= {name: f"somebody with the {name} proves" for name in row if name.startswith("register ")}
    learnt = [f"{one} {row[name]:.1%}" for name, one in who.items() if row.get(name) is not None]
    return f"{text} Of {cells} {', '.join(learnt)}." if learnt else text


def _relied_on(row: dict[str, Any]) -> str:
    """The bound on which an insider relies if none was given."""
    relied = row.get("insider_bound")
    if relied is None:
        return "no bound"
    return f"errors of at most {relied}" + (
        " (the usual bound does not hold)" if relied == declared_bound(row["K"]) else ""
    )


def write_page(rows: pl.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Write the rows of `what_if` with their chart as one self-contained page that only its owner can read."""
    shown = in_words(rows)
    thresholds = listing([str(K) for K in rows["K"].unique(maintain_order=True)])
    return write(
        writable(path),
        "choosing.html",
        title=f"What each attacker learns, and the loss: K = {thresholds}",
        meaning=MEANING,
        picture=inline(drawing.svg(loss_charts.attackers(rows))),
        heads=[name.replace("_", " ") for name in shown.columns],
        rows=[[_text(value) for value in row] for row in shown.iter_rows()],
        sentences=sentences(rows),
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
