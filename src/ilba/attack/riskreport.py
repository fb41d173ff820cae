"""What named attackers learn, as a table, text, JSON and a page. Confidential in every form."""

from __future__ import annotations

import html
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from ilba.attack.explanations import Explanation
from ilba.attack.published import POLICIES, PublishedTables
from ilba.errors import some
from ilba.methods.loss import not_quite_all

_UNDECIDED = 1000  # the most undecided cells whose labels JSON holds
_GROUPS = 15  # lines of groups on the page


@dataclass(frozen=True)
class RiskReport:
    """What named attackers learn from a release. Confidential: it is compared with the truth."""

    published: PublishedTables
    """the tables that were attacked"""
    rows: pl.DataFrame
    """a row for each attacker: what they know; the number of small cells; how many are proven small, known exactly,
    certified, undecided; how many are believed small (`likely`) or believed to hold one person (`alone`) with
    probability above .95, and the share of these beliefs that is right; the share of small cells that is rightly
    believed small (`likely_share`); groups and people shown with one value; the
    bound of errors on which an insider relies"""
    calibration: pl.DataFrame
    """calibration by attacker and event: the cells in each bin of probability, the mean probability, the true share"""
    detail: pl.DataFrame
    """what is proven, by table or by level"""
    groups: pl.DataFrame
    """the groups that are shown with one value, for each table and variable, the largest gain first"""
    worst: list[Explanation]
    """explanations of some proven cells"""
    cells: pl.DataFrame
    """the outsider's probabilities for the finest cells, or for those of the table that a note names; the likeliest
    first"""
    undecided: pl.DataFrame
    """the small cells that the proof left undecided, ranked by the outsider's belief that they are small"""
    notes: list[str]
    """what was assumed, tried or left out, in sentences"""
    sample: tuple[int, int] | None
    """if probabilities are from a sample: the number of sampled areas, and of all areas"""
    seconds: float
    """how long it took"""

    def row(self, attacker: str) -> dict[str, Any]:
        """Give the row of one attacker.

        Parameters
        ----------
        attacker : str
            The name in the column `attacker`.

        Returns
        -------
        dict
            The row.
        """
        return self.rows.row(by_predicate=pl.col("attacker") == attacker, named=True)

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain values, without the probabilities of single cells.

        Returns
        -------
        dict
            Names and numbers as in the JSON of `ilba risk --json` (confidential).
        """
        return {
            "confidential": True,
            "method": self.published.policy.name,
            "threshold": self.published.K,
            "cells": self.published.cells,
            "tables_released": len(self.published.tables),
            "finest_released": self.published.split,
            "attackers": self.rows.to_dicts(),
            "calibration": self.calibration.to_dicts(),
            "detail": self.detail.to_dicts(),
            "groups": self.groups.to_dicts(),
            "undecided": self.undecided.head(_UNDECIDED).to_dicts(),
            "worst": [one._asdict() for one in self.worst],
            "notes": list(self.notes),
            "sample": None if self.sample is None else {"areas": self.sample[0], "of": self.sample[1]},
            "seconds": round(self.seconds, 2),
        }

    def to_json(self) -> str:
        """Give the report as JSON text (confidential).

        Returns
        -------
        str
            What `to_dict` gives, as JSON.
        """
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_html(self, path: str | os.PathLike[str], lang: str = "en") -> Path:
        """Write the report as one self-contained page, for its owner alone.

        Parameters
        ----------
        path : path
            The file to write.
        lang : {"en", "ko"}, default "en"
            The language.

        Returns
        -------
        Path
            The file that was written.
        """
        from ilba.output.pages import write

        return write(path, "risk.html", lang=lang, **_facts(self))

    def __str__(self) -> str:
        lines = [_title(self), ""]
        width = max(len(str(name)) for name in self.rows["attacker"])
        heads = [head for head, _ in _cells(self.rows.row(0, named=True))]
        table = [[text for _, text in _cells(row)] for row in self.rows.iter_rows(named=True)]
        wide = [max(len(text) for text in column) for column in zip(heads, *table, strict=True)]
        named = ["", *(str(name) for name in self.rows["attacker"])]
        for name, line in zip(named, [heads, *table], strict=True):
            cells = "  ".join(f"{text:>{size}}" for text, size in zip(line, wide, strict=True))
            lines.append(f"{name:<{width}}  {cells}".rstrip())
        lines += ["", *(f"{row['attacker']}: {row['knows']}." for row in self.rows.iter_rows(named=True))]
        if self.sample:
            lines.append(f"Probabilities are from a sample of {self.sample[0]:,} of {self.sample[1]:,} areas.")
        lines += self.notes
        return "\n".join(lines)

    def __repr__(self) -> str:
        tables = some(len(self.published.tables), "table")
        return f"RiskReport({some(self.rows.height, 'attacker')}, {tables}; confidential)"

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _title(report: RiskReport) -> str:
    published = report.published
    return (
        f"Risk of {some(len(published.tables), 'table')}: method={published.policy.name!r}, K={published.K} "
        f"(confidential)"
    )


def _cells(row: dict[str, Any]) -> list[tuple[str, str]]:
    """One row of the table, formatted."""
    small = row["small"]

    def share(number: int | None) -> str:
        if number is None:
            return "-"
        return f"{number:,} ({number / small:.1%})" if small else f"{number:,}"

    def right(number: int | None, part: float | None) -> str:
        if number is None:
            return "-"
        return f"{number:,}" + ("" if part is None else f" ({not_quite_all(part, 3):.3f} right)")

    likely = "-" if row["likely_share"] is None else f"{row['likely_share']:.1%}"
    if row["likely_error"] is not None:
        likely += f" ± {row['likely_error']:.1%}"
    return [
        ("small", "-" if small is None else f"{small:,}"),
        ("proven", share(row["proven"])),
        ("exactly", share(row["exactly"])),
        ("undecided", share(row["undecided"])),
        ("P > .95 small", right(row["likely"], row["likely_right"])),
        ("of small", likely),
        ("P > .95 alone", right(row["alone"], row["alone_right"])),
        ("groups", "-" if row["groups"] is None else f"{row['groups']:,}"),
    ]


def _facts(report: RiskReport) -> dict[str, Any]:
    """The facts that the page shows."""
    rows = list(report.rows.iter_rows(named=True))
    groups = [
        {**row, "table": unquote(row["table"])}
        for row in report.groups.head(_GROUPS).iter_rows(named=True)
        if row["groups"]
    ]
    return {
        "title": "Who could learn what from these tables",
        "report": report,
        "K": report.published.K,
        "about": _title(report),
        "policy": POLICIES[report.published.policy.name].about,
        "heads": [head for head, _ in _cells(rows[0])],
        "lines": [(row["attacker"], row["knows"], [text for _, text in _cells(row)]) for row in rows],
        "bars": [
            (
                row["attacker"],
                (row["proven"] or 0) / row["small"],
                (row["exactly"] or 0) / row["small"],
                row["likely_share"],
            )
            for row in rows
            if row["small"] and row["proven"] is not None
        ],
        "bins": [
            (name, [row for row in report.calibration.iter_rows(named=True) if row["attacker"] == name])
            for name in report.calibration["attacker"].unique(maintain_order=True)
        ],
        "detail": [{**row, "what": unquote(row["what"])} for row in report.detail.iter_rows(named=True)],
        "groups": groups,
        "all_groups": sum(bool(row["groups"]) for row in report.groups.iter_rows(named=True)),
    }
