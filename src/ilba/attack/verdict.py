"""What an audit found, as numbers, text, JSON and a page.

Confidential in every form: it says which cells are small.
"""

from __future__ import annotations

import html
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import polars as pl

from ilba.attack.explanations import Explanation
from ilba.attack.lattice import table_of
from ilba.attack.published import PublishedTables
from ilba.errors import some

_LONG = 20  # lines: a longer proof is not printed with the report

UNSEEN = (
    "No single finest cell was looked at: all variables together have more cells than can be listed. Instead, the "
    "counts of the tables were examined, linked by their common margins."
)
MOST_DRAWN = 40  # the most tables with a bar, and of coarser counts that are listed, on the page
_MOST_LISTED = 1000  # the most coarser counts that JSON lists


class Judged(ABC):
    """What reports on one release and on several releases share: shares, figures, JSON and the page."""

    cells_small: int | None
    cells_disclosed: int
    cells_exact: int
    cells_certified: int | None
    cells_undecided: int | None
    worst: list[Explanation]

    @property
    def unseen(self) -> bool:
        """Whether the finest cells are too many to be listed, so that only the counts of tables were looked at."""
        return False

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain values."""

    @abstractmethod
    def _facts(self) -> dict[str, Any]:
        """The facts that the page shows."""

    @property
    def share(self) -> float:
        """The share of small cells that are disclosed, from 0 to 1."""
        return self.cells_disclosed / self.cells_small if self.cells_small else 0.0

    @property
    def share_exact(self) -> float:
        """The share of small cells whose exact count is proven, from 0 to 1."""
        return self.cells_exact / self.cells_small if self.cells_small else 0.0

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
            Where to write the page.
        lang : {"en", "ko"}, default "en"
            The language.

        Returns
        -------
        Path
            The written file.
        """
        from ilba.output.pages import write

        return write(path, "audit.html", lang=lang, **self._facts())

    def figures(
        self, K: int, aggregates: int, others: Sequence[int | None] = (), exact: int | None = None
    ) -> list[tuple[str, str, str]]:
        """List the main numbers.

        Parameters
        ----------
        K : int
            The threshold: counts in 1..K-1 are small.
        aggregates : int
            The number of cells of coarser tables that are proven small.
        others : sequence of int, default ()
            The numbers of small, certified and undecided cells of coarser tables, if known.
        exact : int, optional
            Of the proven cells of coarser tables, how many are proven exactly.

        Returns
        -------
        list of tuple
            Name, number, and share of the small cells, as text.
        """
        small = self.cells_small

        def line(name: str, number: int | None, of: int | None = small) -> tuple[str, str, str]:
            share = f"{100 * number / of:8.1f}%" if of and number is not None else ""
            return name, "unknown" if number is None else f"{number:,}", share

        exactly = [] if exact is None else [line("    aggregates exactly", exact, others[0] if others else None)]
        coarser = [("aggregates disclosed", f"{aggregates:,}", ""), *exactly]
        if others and None not in others:
            whole, certified, undecided = others
            coarser = [
                (f"aggregates truly in 1..{K - 1}", f"{whole:,}", ""),
                line("  aggregates disclosed", aggregates, whole),
                *exactly,
                line("  aggregates certified safe", certified, whole),
                line("  aggregates undecided", undecided, whole),
            ]
        if self.unseen:
            return [("finest cells", "not looked at", ""), *coarser]
        return [
            (f"finest cells truly in 1..{K - 1}", "unknown" if small is None else f"{small:,}", ""),
            line("  disclosed", self.cells_disclosed),
            line("    exactly", self.cells_exact),
            line("  certified safe", self.cells_certified),
            line("  undecided", self.cells_undecided),
            *coarser,
        ]

    def _lines_of_figures(
        self, K: int, aggregates: int, others: Sequence[int | None] = (), exact: int | None = None
    ) -> list[str]:
        return [f"  {name:<32}{text:>12}{rest}" for name, text, rest in self.figures(K, aggregates, others, exact)]

    def _proofs(self) -> list[str]:
        """The lines that explain the first disclosed cells."""
        if not self.worst:
            return []
        shown = [one for one in self.worst if len(one.why) <= _LONG][:3]
        if not shown:
            steps = min(len(one.why) for one in self.worst)
            return ["", f"The proofs are in report.worst and on the page of --out; the shortest has {steps} steps."]
        lines = ["", "How it is proven:"]
        for one in shown:
            lines += [f"  {one.cell}", *(f"    {sentence}" for sentence in one.why)]
        if more := len(self.worst) - len(shown):
            lines.append(f"  (and {more} more in report.worst and on the page of --out)")
        return lines

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class AuditReport(Judged):
    """What an attacker can prove from a release. Confidential: it says which cells are small."""

    published: PublishedTables
    """the tables that were attacked"""
    tables: pl.DataFrame
    """for each released table: its name, its level, how many of its cells are truly in 1..K-1 (null without the store),
    how many are proven to be, how many of those exactly, how many are certified, and how many are undecided (the last
    two are null if no counterexamples were searched)"""
    cells_small: int | None
    """finest cells with a true count in 1..K-1; None where the store was not given"""
    cells_disclosed: int
    """of these, the cells that anybody can prove to lie in 1..K-1"""
    cells_exact: int
    """of the disclosed, the cells whose exact count is proven"""
    cells_certified: int | None
    """cells that nobody can prove small: another truth in which they are not small leads to the same release"""
    cells_undecided: int | None
    """the rest, about which this audit says nothing"""
    certificate: bool
    """whether the masked finest table is itself a possible truth, so that everything is safe"""
    misfits: int | None
    """how many released counts would differ if the masked finest table were the truth; None if unknown"""
    ranges: pl.DataFrame
    """the labels of each finest cell, and the low and high that an attacker knows for its count"""
    worst: list[Explanation]
    """how the disclosed finest cells are proven, or if there are none the disclosed cells of coarser tables, the most
    exact first; at most the number requested"""
    seconds: float
    """how long the audit took"""
    folder: tuple[str, ...] | None = None
    """what the folder of a release tells beyond its counts, in sentences; None if no folder was audited"""
    why: dict[str, int] = field(default_factory=dict)
    """how many cells are undecided, by reason"""
    undecided: pl.DataFrame = field(default_factory=pl.DataFrame)
    """the labels of the undecided cells, those with the narrowest ranges first; at most 100,000 are listed"""
    why_aggregates: dict[str, int] = field(default_factory=dict)
    """how many small cells of coarser tables are undecided, by reason"""
    undecided_aggregates: pl.DataFrame = field(default_factory=pl.DataFrame)
    """the undecided cells of coarser tables, in the same order and at most as many: table, cell in words, low, high"""
    disclosed_aggregates: pl.DataFrame = field(default_factory=pl.DataFrame)
    """the disclosed cells of coarser tables, likewise; empty if areas are attacked one at a time"""

    @property
    def unseen(self) -> bool:
        """Whether the finest cells are too many to be listed, so that only the counts of tables were looked at."""
        return self.published.lattice.baseless

    @property
    def safe(self) -> bool:
        """Whether nothing is disclosed or undecided, neither by the counts nor by the folder around them."""
        return not self.folder and self._counts_safe

    @property
    def _counts_safe(self) -> bool:
        if not self.published.bounded:  # unbounded noise proves nothing, and is never called safe
            return False
        proven = self.cells_disclosed or self.aggregates
        return self.certificate or (not proven and self.cells_undecided == 0 and self.aggregates_undecided == 0)

    @property
    def aggregates(self) -> int:
        """The number of cells of coarser tables that are proven to lie in 1..K-1."""
        return self._of_aggregates("disclosed") or 0

    @property
    def aggregates_exact(self) -> int:
        """Of these, how many are proven exactly."""
        return self._of_aggregates("exact") or 0

    @property
    def aggregates_small(self) -> int | None:
        """The number of cells of coarser tables that are truly in 1..K-1; None without the store."""
        return self._of_aggregates("small")

    @property
    def aggregates_certified(self) -> int | None:
        """Of these, how many nobody can prove small; None if no counterexamples were searched."""
        return self._of_aggregates("certified")

    @property
    def aggregates_undecided(self) -> int | None:
        """Of these, how many are undecided; None if no counterexamples were searched."""
        return self._of_aggregates("undecided")

    def _of_aggregates(self, column: str) -> int | None:
        """The sum of a column over the tables except the finest."""
        base = table_of(self.published.design, self.published.lattice.base).name
        numbers = self.tables.filter(pl.col("table") != base)[column]
        return None if numbers.null_count() else int(numbers.sum())

    @property
    def share_of_counts(self) -> float:
        """The share of the small counts of all released tables that are proven small, from 0 to 1."""
        small = int(self.tables["small"].sum())
        return int(self.tables["disclosed"].sum()) / small if small else 0.0

    @property
    def share_exact_of_counts(self) -> float:
        """The share of the small counts of all released tables that are proven exactly, from 0 to 1."""
        small = int(self.tables["small"].sum())
        return int(self.tables["exact"].sum()) / small if small else 0.0

    @property
    def verdict(self) -> str:
        """The result, as a sentence."""
        if not self.published.bounded:
            return (
                "Unbounded noise proves nothing, but it is never called safe: it promises only its epsilon, which adds "
                "up over everything that is published."
            )
        if self._counts_safe and self.folder:
            return "Not safe: no count gives anybody away, but the folder around the tables tells more than they do."
        if self.certificate:
            where = "" if self.folder is None else " Codes, types and maps of the folder tell nothing more."
            return (
                f"Safe: the masked finest table is itself a possible truth, so nobody can prove a small count.{where}"
            )
        if self.cells_disclosed or self.aggregates:
            return (
                "Not safe: everybody who has these tables can prove small counts. Release fewer tables, or sums of "
                "masks that were chosen jointly (method='controlled')."
            )
        if self.safe:
            return "Safe: for each small cell there is another truth that leads to the same release."
        return "Nothing was proven, but not everything is certified: nothing is known about the undecided cells."

    @property
    def why_undecided(self) -> str:
        """Why cells are undecided or were not looked at, as a sentence; empty if none are."""
        parts = [f"{some(number, 'cell')} because {reason}" for reason, number in self.why.items()]
        parts += [f"{some(number, 'aggregate')} because {reason}" for reason, number in self.why_aggregates.items()]
        told = [f"Undecided: {'; '.join(parts)}."] if parts else []
        return " ".join([*told, *([UNSEEN] if self.unseen else [])])

    @property
    def _coarser(self) -> tuple[int | None, ...]:
        return self.aggregates_small, self.aggregates_certified, self.aggregates_undecided

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain values, without the ranges of single cells.

        Returns
        -------
        dict
            Names and numbers as in the JSON of `ilba audit --json` (confidential).
        """
        design = self.published.design
        return {
            "confidential": True,
            "method": self.published.policy.name,
            "threshold": design.threshold,
            "cells": self.published.cells,
            "tables_released": len(self.published.tables),
            "finest_released": self.published.split,
            "cells_small": self.cells_small,
            "cells_disclosed": self.cells_disclosed,
            "cells_exact": self.cells_exact,
            "cells_certified": self.cells_certified,
            "cells_undecided": self.cells_undecided,
            "why_undecided": self.why_undecided,
            "undecided_by_reason": dict(self.why),
            "aggregates_small": self.aggregates_small,
            "aggregates_disclosed": self.aggregates,
            "aggregates_exact": self.aggregates_exact,
            "aggregates_certified": self.aggregates_certified,
            "aggregates_undecided": self.aggregates_undecided,
            "aggregates_undecided_by_reason": dict(self.why_aggregates),
            "certificate": self.certificate,
            "misfits": self.misfits,
            "safe": self.safe,
            "verdict": self.verdict,
            "folder": None if self.folder is None else list(self.folder),
            "tables": self.tables.to_dicts(),
            "disclosed_aggregates": self.disclosed_aggregates.head(_MOST_LISTED).to_dicts(),
            "worst": [one._asdict() for one in self.worst],
            "seconds": round(self.seconds, 2),
        }

    def __str__(self) -> str:
        lines = [
            _title(self.published),
            *self._lines_of_figures(self.published.K, self.aggregates, self._coarser, self.aggregates_exact),
        ]
        lines += ["", self.verdict, *(f"  {sentence}" for sentence in self.folder or ())]
        if self.why_undecided:
            lines.append(self.why_undecided)
        return "\n".join([*lines, *self._proofs()])

    def _facts(self) -> dict[str, Any]:
        return _facts(self)

    def __repr__(self) -> str:
        small = "?" if self.cells_small is None else f"{self.cells_small:,}"
        return (
            f"AuditReport(method={self.published.policy.name!r}, {some(len(self.published.tables), 'table')}; "
            f"{self.cells_disclosed:,} of {small} small cells disclosed; confidential)"
        )


def _title(published: PublishedTables) -> str:
    design = published.design
    reading = "" if published.policy.scheme == "sums" else f", cells={published.cells!r}"
    return (
        f"Audit of {some(len(published.tables), 'table')}: method={published.policy.name!r}, K={design.threshold}"
        f"{reading} (confidential)"
    )


def _facts(report: AuditReport) -> dict[str, Any]:
    """The facts that the page shows."""
    measures = pl.col("small", "disclosed", "exact")
    by_level = report.tables.group_by(name="level", maintain_order=True).agg(measures.sum())
    rows = report.tables.with_columns(name=pl.col("table").map_elements(unquote, pl.String)).to_dicts()
    shown = sorted((row for row in rows if row["small"] or row["disclosed"]), key=lambda row: -row["disclosed"])
    return {
        "title": "What the released tables prove together",
        "report": report,
        "K": report.published.K,
        "audited": _title(report.published),
        "policy": report.published.policy.about,
        "figures": [
            [text.strip() for text in line]
            for line in report.figures(report.published.K, report.aggregates, report._coarser, report.aggregates_exact)
        ],
        "levels": shares(by_level.to_dicts()),
        "tables": shares(shown[:MOST_DRAWN]),
        "rows": rows,
        "judged": report.aggregates_undecided is not None,
        "coarser": [
            {**row, "table": unquote(row["table"])}
            for row in report.disclosed_aggregates.head(MOST_DRAWN).iter_rows(named=True)
        ],
    }


def shares(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lengths of bars: the shares of small cells disclosed and exact; numbers instead if the truth is unknown."""
    known = all(row["small"] is not None for row in rows)
    most = max([1, *(row["disclosed"] for row in rows)])
    lines = []
    for row in rows:
        of = (row["small"] or 1) if known else most
        share, exact = row["disclosed"] / of, row["exact"] / of
        text = f"{share:.1%} of {row['small']:,}" if known else f"{row['disclosed']:,}"
        lines.append({"name": row["name"], "share": share, "exact": exact, "text": text})
    return lines
