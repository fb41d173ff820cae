"""What a joint audit of several releases found, as numbers, text, JSON and a page.

Confidential in every form: it says which cells are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from ilba.attack.explanations import Explanation
from ilba.attack.verdict import MOST_DRAWN, Judged, shares
from ilba.errors import some


@dataclass(frozen=True)
class JointReport(Judged):
    """What an attacker can prove from several releases together. Confidential: it says which cells are small."""

    releases: pl.DataFrame
    """each release: its method, K, reading, wave and number of tables, whether it shows its finest table, and by its
    own K how many cells are truly small (null without a store), how many are proven small, and how many exactly"""
    tables: pl.DataFrame
    """the same for each table of each release, by `threshold`"""
    threshold: int
    """the largest K: small means a true count in 1..K-1, which covers the promise of every release"""
    cells_small: int | None
    """cells of the common refinement with a small true count; None without a store"""
    cells_disclosed: int
    """of these, the cells that anybody who has all releases can prove small"""
    cells_exact: int
    """of the disclosed, the cells whose exact count is proven"""
    cells_certified: int | None
    """cells that nobody can prove small by any means"""
    cells_undecided: int | None
    """the rest, about which this audit says nothing"""
    aggregates: int
    """the number of cells of coarser tables that are proven small"""
    certificate: bool
    """whether a masked finest table, taken as the truth, leads to every release, so that everything is safe"""
    exhausted: bool
    """whether nobody can prove more about the finest cells than this audit does"""
    ranges: pl.DataFrame
    """the labels of each finest cell, and the low and high that an attacker knows for its count"""
    worst: list[Explanation]
    """how the disclosed cells are proven; each number with its release"""
    folder: tuple[str, ...]
    """what the folders tell beyond their counts, in sentences"""
    notes: tuple[str, ...]
    """notes for the reader of this audit, in sentences"""
    assumed: tuple[str, ...] = ()
    """the assumptions"""
    seconds: float = 0.0
    """how long the audit took"""

    @classmethod
    def of(cls, reports: Sequence[JointReport], assumed: tuple[str, ...], seconds: float) -> JointReport:
        """Merge the reports of several waves that were audited one by one.

        Parameters
        ----------
        reports : sequence of JointReport
            One for each wave.
        assumed : tuple of str
            The assumptions.
        seconds : float
            How long it took.

        Returns
        -------
        JointReport
            The sums of all reports.
        """
        if len(reports) == 1:
            return replace(reports[0], assumed=assumed, seconds=seconds)

        def total(name: str) -> int | None:
            numbers = [getattr(one, name) for one in reports]
            return None if None in numbers else sum(numbers)

        waves = [pl.lit(one.releases["wave"][0]).alias("wave") for one in reports]
        return cls(
            releases=pl.concat([one.releases for one in reports]),
            tables=pl.concat([one.tables for one in reports]),
            threshold=max(one.threshold for one in reports),
            cells_small=total("cells_small"),
            cells_disclosed=total("cells_disclosed") or 0,
            cells_exact=total("cells_exact") or 0,
            cells_certified=total("cells_certified"),
            cells_undecided=total("cells_undecided"),
            aggregates=total("aggregates") or 0,
            certificate=all(one.certificate for one in reports),
            exhausted=all(one.exhausted for one in reports),
            ranges=pl.concat(
                [one.ranges.select(wave, pl.all()) for one, wave in zip(reports, waves, strict=True)],
                how="diagonal_relaxed",
            ),
            worst=[proof for one in reports for proof in one.worst],
            folder=tuple(text for one in reports for text in one.folder),
            notes=tuple(text for one in reports for text in one.notes),
            assumed=assumed,
            seconds=seconds,
        )

    @property
    def safe(self) -> bool:
        """Whether nobody can prove a small count, neither from the counts nor from the folders around them."""
        return self.certificate and not self.folder

    @property
    def verdict(self) -> str:
        """The result, as a sentence."""
        if self.certificate and self.folder:
            return "Not safe: no count gives anybody away, but the folders around the tables tell more than they do."
        if self.certificate:
            return "Safe: one masked finest table for each wave, taken as the truth, leads to all these releases."
        if self.cells_disclosed or self.aggregates:
            return (
                "Not safe: everybody who has these releases can prove small counts. Withdraw one of them, and publish "
                "its tables again as sums of the masks of the other."
            )
        if self.exhausted:
            return "No finest cell can be proven small. Whether a coarser count can be was not decided."
        return "Nothing was proven, but not everything is certified: nothing is known about the undecided cells."

    @property
    def why_undecided(self) -> str:
        """Why cells are undecided, as a sentence; empty if none are."""
        if self.exhausted:
            return ""
        reasons = []
        if (self.releases["method"] == "ilba").any():
            reasons.append("iLBA tables are among the releases")
        if not self.releases["finest"].all():
            reasons.append("not every release shows its finest table")
        reason = " and ".join(reasons) or "the finest tables of the releases cross each other"
        return f"Undecided, because {reason}: an attacker who tries all truths may prove more than this audit."

    def to_dict(self) -> dict[str, Any]:
        """Give the report as plain values, without the ranges of single cells.

        Returns
        -------
        dict
            Names and numbers as in the JSON of `ilba audit --json` (confidential).
        """
        return {
            "confidential": True,
            "releases": self.releases.to_dicts(),
            "assumed": list(self.assumed),
            "threshold": self.threshold,
            "cells_small": self.cells_small,
            "cells_disclosed": self.cells_disclosed,
            "cells_exact": self.cells_exact,
            "cells_certified": self.cells_certified,
            "cells_undecided": self.cells_undecided,
            "aggregates_disclosed": self.aggregates,
            "certificate": self.certificate,
            "exhausted": self.exhausted,
            "why_undecided": self.why_undecided,
            "safe": self.safe,
            "verdict": self.verdict,
            "folder": list(self.folder),
            "notes": list(self.notes),
            "tables": self.tables.to_dicts(),
            "worst": [one._asdict() for one in self.worst],
            "seconds": round(self.seconds, 2),
        }

    def _title(self) -> str:
        return f"Joint audit of {some(self.releases.height, 'release')} (confidential)"

    def _lines(self) -> list[str]:
        """One line for each release."""
        return [
            f"{row['release']}: {some(row['tables'], 'table')}, method={row['method']!r}, K={row['K']}, "
            f"cells={row['cells']!r}" + (f", wave {row['wave']}" if row["wave"] else "")
            for row in self.releases.to_dicts()
        ]

    def _facts(self) -> dict[str, Any]:
        """The facts that the page shows."""
        measures = pl.col("small", "disclosed", "exact")
        by_release = self.tables.group_by(name="release", maintain_order=True).agg(measures.sum()).to_dicts()
        rows = self.tables.with_columns(name=pl.format("{}: {}", "release", "table")).to_dicts()
        shown = sorted((row for row in rows if row["small"] or row["disclosed"]), key=lambda row: -row["disclosed"])
        return {
            "title": "What several releases prove together",
            "report": self,
            "K": self.threshold,
            "audited": self._title(),
            "policy": "; ".join([*self._lines(), f"assumed: {'; '.join(self.assumed)}", *self.notes]).rstrip("."),
            "figures": [[text.strip() for text in line] for line in self.figures(self.threshold, self.aggregates)],
            "levels": shares(by_release),
            "tables": shares(shown[:MOST_DRAWN]),
            "rows": rows,
            "judged": False,
            "coarser": [],
        }

    def __str__(self) -> str:
        lines = [self._title(), *(f"  {line}" for line in self._lines()), f"Assumed: {'; '.join(self.assumed)}."]
        lines += self._lines_of_figures(self.threshold, self.aggregates)
        lines += ["", self.verdict, *(f"  {sentence}" for sentence in (*self.folder, *self.notes))]
        if self.why_undecided:
            lines.append(self.why_undecided)
        return "\n".join([*lines, *self._proofs()])

    def __repr__(self) -> str:
        small = "?" if self.cells_small is None else f"{self.cells_small:,}"
        return (
            f"JointReport({some(self.releases.height, 'release')}; {self.cells_disclosed:,} of {small} small cells "
            f"disclosed; confidential)"
        )
