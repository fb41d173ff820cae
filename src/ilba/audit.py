"""The audit: what everybody can prove from all released tables together, before they are released.

Sound, not complete: a cell that is called disclosed can be proven to lie in 1..K-1; a cell that is called certified
cannot, because a world was found in which it does not and everything published is the same. What is neither is
undecided.
"""

from __future__ import annotations

import html
import json
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack import Attack, Progress
from ilba.cube import Tables, wanted_tables
from ilba.design import MASKED, Level, Names, Selection
from ilba.errors import InputError, some, suggesting
from ilba.exposure import POLICIES, Exposure
from ilba.files import replacing
from ilba.finest import FinestTable
from ilba.lattice import Node, selection_of
from ilba.proof import Explanation, explain
from ilba.release import Release
from ilba.secret import Secret
from ilba.witness import witnessed

IntArray: TypeAlias = npt.NDArray[np.int64]

COMPLETE = 2**21
"""up to so many cells of the grid `ranges` lists all of them"""


@dataclass(frozen=True)
class AuditReport:
    """What an attacker can prove from a release. Confidential: it says which cells are small."""

    published: Exposure
    tables: pl.DataFrame
    """for each released table: its name, its level, how many of its cells are truly in 1..K-1 (null without the
    store), how many are proven to be, and how many of those exactly"""
    cells_small: int | None
    """finest cells with a true count in 1..K-1; None where the store was not given"""
    cells_disclosed: int
    """of these, the cells that everybody can prove to lie in 1..K-1"""
    cells_exact: int
    """of the disclosed, the cells whose count everybody can name"""
    cells_certified: int | None
    """cells for which nobody can: another truth in which they are not small leads to the same release"""
    cells_undecided: int | None
    """the rest, about which this audit says nothing"""
    certificate: bool
    """whether the masked finest table is itself a possible truth, so that everything is safe"""
    misfits: int | None
    """how many released counts would differ if the masked finest table were the truth; None where it is unknown"""
    ranges: pl.DataFrame
    """labels of each finest cell with low and high, between which an attacker knows its count to lie"""
    worst: list[Explanation] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def safe(self) -> bool:
        """Whether nothing is disclosed and nothing is left undecided."""
        return self.certificate or (self.cells_disclosed == 0 and self.cells_undecided == 0 and not self.aggregates)

    @property
    def aggregates(self) -> int:
        """How many cells of coarser tables are proven to lie in 1..K-1."""
        proven = int(self.tables["disclosed"].sum())
        return proven - self.cells_disclosed if self.published.lattice.base in self.published.tables else proven

    @property
    def share(self) -> float:
        """The share of small cells that is disclosed, in percent."""
        return 100 * self.cells_disclosed / self.cells_small if self.cells_small else 0.0

    @property
    def verdict(self) -> str:
        """The result in a sentence."""
        if self.certificate:
            return "Safe: the masked finest table is itself a possible truth, so nobody can prove a small count."
        if self.cells_disclosed or self.aggregates:
            return (
                "Not safe: everybody who has these tables can prove small counts. Release fewer tables, use a larger "
                "K, or release sums of masks that were chosen jointly (method='controlled')."
            )
        if self.safe:
            return "Safe: for each small cell there is another truth that leads to the same release."
        return "Nothing was proven, and not everything is certified: see the undecided cells."

    def to_dict(self) -> dict[str, Any]:
        """The report as plain values, without the ranges of all cells."""
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
            "aggregates_disclosed": self.aggregates,
            "certificate": self.certificate,
            "misfits": self.misfits,
            "safe": self.safe,
            "verdict": self.verdict,
            "tables": self.tables.to_dicts(),
            "worst": [one._asdict() for one in self.worst],
            "seconds": round(self.seconds, 2),
        }

    def to_json(self) -> str:
        """The report as JSON text (confidential)."""
        return json.dumps(self.to_dict(), ensure_ascii=False, indent=2)

    def to_html(self, path: str | os.PathLike[str]) -> Path:
        """Write the report as one self-contained page, for its owner alone."""
        with replacing(path) as temporary:
            temporary.write_text(_page(self), encoding="utf-8")
        return Path(path)

    def __str__(self) -> str:
        lines = [_title(self.published), *(f"  {name:<32}{text:>12}{rest}" for name, text, rest in _figures(self))]
        lines += ["", self.verdict]
        if self.worst:
            lines += ["", "How it is proven:"]
            for one in self.worst[:3]:
                lines += [f"  {one.cell}", *(f"    {sentence}" for sentence in one.why)]
            if len(self.worst) > 3:
                lines.append(f"  (and {len(self.worst) - 3} more in report.worst)")
        return "\n".join(lines)

    def __repr__(self) -> str:
        small = "?" if self.cells_small is None else f"{self.cells_small:,}"
        return (
            f"AuditReport(method={self.published.policy.name!r}, {some(len(self.published.tables), 'table')}; "
            f"{self.cells_disclosed:,} of {small} small cells disclosed; confidential)"
        )

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@suggesting
def audit(
    finest: FinestTable | Release | Exposure,
    method: str | None = None,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    explanations: int = 10,
    progress: Progress | None = None,
    store: FinestTable | None = None,
) -> AuditReport:
    """What everybody could prove from these tables, if they were released together.

    finest
        A finest table; or an `Exposure`, made from public tables alone.
    method
        How the tables are made; left out, as this finest table makes them. "ilba" is iLBA as this package publishes
        it; "controlled" and "sca-sums" are sums of the masked finest table. To see the difference there are "r-file"
        (the R package's files: observed rows, with flags), "r-rows" (the same without flags) and "sca-aggregates"
        (SCA drawn anew for each aggregate).
    tables
        "all", or names of tables such as "LA2.age" (`Selection.name`), or selections.
    levels, keys, max_keys
        Which of all tables, as for `FinestTable.cube`.
    explanations
        For how many of the disclosed cells to say how they are proven.
    progress
        Called with how many parts of the release were attacked, and of how many.
    store
        With a release: the store it was made from, to know how many cells are truly small. Without it the published
        code lists are taken for complete.

    >>> import polars as pl
    >>> counts = pl.DataFrame({"town": ["a", "a"], "sex": [1, 2], "N": [2, 3], "N_masked": [0, 0]})
    >>> report = audit(FinestTable.from_counts(counts, hkey=["town"]))
    >>> report.cells_small, report.cells_disclosed, report.cells_exact
    (2, 2, 0)
    """
    start = time.perf_counter()
    if isinstance(finest, Release):
        published = _released(finest, store)
    elif isinstance(finest, Exposure):
        published = finest
    elif isinstance(finest, FinestTable):
        published = Exposure.of(
            finest, method or finest.method, wanted_tables(finest.design, tables, levels, keys, max_keys)
        )
    else:
        raise InputError(f"audit() takes a finest table, a release or an Exposure, not a {type(finest).__name__}.")
    attack = Attack(published).run(progress)
    found = _Findings(attack)
    misfits = published.misfits
    if misfits is None and published.split:
        misfits = sum(attack.misfits.values())
    certificate = published.policy.scheme == "sums" or misfits == 0
    certified = undecided = None
    if found.small is not None:
        certified = found.small
        if not certificate:
            certified = _certified(published, found.proven) if published.split else 0
        undecided = found.small - found.disclosed - certified
    return AuditReport(
        published=published,
        tables=found.tables,
        cells_small=found.small,
        cells_disclosed=found.disclosed,
        cells_exact=found.exact,
        cells_certified=certified,
        cells_undecided=undecided,
        certificate=certificate,
        misfits=misfits,
        ranges=found.ranges,
        worst=explain(published, *found.worst, explanations) if explanations else [],
        seconds=time.perf_counter() - start,
    )


def _certified(published: Exposure, proven: npt.NDArray[np.bool_]) -> int:
    safe = witnessed(published, proven)
    if (safe & proven).any():  # a witness and a proof cannot both be right: each checks the other
        raise AssertionError("a cell was proven small and has a witness. This is a mistake in ilba: please report it.")
    return int(safe.sum())


@suggesting
def what_if(
    finest: FinestTable,
    methods: Sequence[str],
    thresholds: Sequence[int],
    *,
    secret: Secret | str | os.PathLike[str] | None = None,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Risk and loss of the same tables for several methods and thresholds: a row each, nothing is released.

    Another threshold than the store's needs masks of its own, drawn with `secret` or with a throw-away key: good for
    choosing K, not for publishing.
    """
    rows = []
    steps = [(K, method) for K in thresholds for method in methods]
    wanted = wanted_tables(finest.design, tables, levels, keys, max_keys)
    for done, (K, method) in enumerate(steps, 1):
        masked = finest if finest.design.threshold == K else finest.with_threshold(K, secret)
        report = audit(masked, method, [table.name for table in wanted], explanations=0)
        loss = losses(report.published)
        rows.append(
            {
                "method": method,
                "K": K,
                "mean_loss": float(loss.mean()),
                "p99_loss": float(np.quantile(loss, 0.99, method="higher")),
                "max_loss": int(loss.max()),
                "provable": report.share,
                "exact": 100 * report.cells_exact / report.cells_small if report.cells_small else 0.0,
                "safe": report.safe,
            }
        )
        if progress:
            progress(done, len(steps))
    return pl.DataFrame(rows)


def losses(shown: Exposure) -> npt.NDArray[np.int64]:
    """How far each released count is from the truth, over all tables of an exposure that has seen the truth."""
    seen = [(rows.value.astype(np.int64), rows.truth) for rows in shown.tables.values() if rows.truth is not None]
    return np.concatenate([np.abs(value - truth.sum_small - truth.sum_large) for value, truth in seen])


def _released(release: Release, store: FinestTable | None) -> Exposure:
    """What a release shows; with its store, after checking that it is the one it was made from."""
    if store is None:
        frames: dict[str | Selection, pl.DataFrame] = {name: release.table(name) for name in release.tables}
        return Exposure.from_frames(release.code_lists(), frames, release.manifest["method"])
    wanted = wanted_tables(store.design, list(release.tables))
    for table in store.tables(wanted):
        shown = release.table(table.selection.name).filter(pl.col(MASKED) > 0)
        if not shown.equals(table.public()):
            raise InputError(f"the release was not made from this store: the table {table.selection.name!r} differs.")
    return Exposure.of(store, store.method, wanted)


class _Findings:
    """What stands at the end of an attack, counted."""

    def __init__(self, attack: Attack) -> None:
        self.published = published = attack.published
        lattice, self._base, K = published.lattice, published.lattice.base, published.K
        self._counts: dict[Node, list[int]] = {node: [0, 0, 0] for node in lattice.nodes}
        width = lattice.width(self._base)
        areas = published.codes.lists[0].size(self._base[0])
        rows = published.base
        self._complete = width * areas <= COMPLETE
        cells = np.arange(width * areas) if self._complete or rows is None else rows.packed
        if rows is None and not self._complete:
            cells = np.zeros(0, dtype=np.int64)
        self.proven = np.zeros(0 if rows is None else len(rows.packed), dtype=bool)
        low, high = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
        disclosed: list[tuple[IntArray, IntArray, IntArray]] = []
        for block in attack.blocks():
            for node in block.own:
                lo, hi = (side[node].reshape(-1, side[node].shape[-1]) for side in _sides(block))
                proven = (lo >= 1) & (hi < K)
                if node in block.large:
                    proven.reshape(-1)[block.large[node]] = False
                first, last = block.rows[node[0]]
                self._count(node, first, last, lo, hi, proven)
                if node != self._base:
                    continue
                cell, area = np.nonzero(proven)
                disclosed.append(((area + first) * width + cell, lo[cell, area], hi[cell, area]))
                ends = np.searchsorted(cells, [first * width, last * width])
                inside = slice(int(ends[0]), int(ends[1]))
                place = cells[inside] % width, cells[inside] // width - first
                low[inside], high[inside] = lo[place], hi[place]
        packed, lo, hi = (np.concatenate(parts) for parts in zip(*disclosed, strict=True))
        # The worst first: what is known most exactly, and of that the smallest counts.
        order = np.lexsort((packed, hi, hi - lo))[:1000]
        self.worst = packed[order], lo[order], hi[order]
        self.disclosed, self.exact = len(packed), int((lo == hi).sum())
        self.small = self._counts[self._base][0] if rows is not None and rows.truth is not None else None
        if rows is not None:
            self.proven = np.isin(rows.packed, packed)
            if published.split:  # a large cell's count is public
                at = np.searchsorted(cells, rows.packed)
                large = rows.value > K
                low[at[large]] = high[at[large]] = rows.value[large]
        packing = published.codes.packing(selection_of(published.design, self._base))
        labels = published.codes.labels(packing, [cells])
        self.ranges = pl.DataFrame([*labels, pl.Series("low", low), pl.Series("high", high)])

    def _count(self, node: Node, first: int, last: int, lo: IntArray, hi: IntArray, proven: Any) -> None:
        published, K = self.published, self.published.K
        counts = self._counts[node]
        counts[1] += int(proven.sum())
        counts[2] += int((proven & (lo == hi)).sum())
        rows = published.base if node == self._base else published.tables[node]
        if rows is None or rows.truth is None:
            return
        inside, area, cell = published.place(node, rows, first, last)
        small, large = rows.truth.sum_small[inside], rows.truth.sum_large[inside]
        true = small if published.split else small + large
        counts[0] += int(((large == 0) & (small > 0) & (small < K)).sum())
        # What is called a proof must hold for the truth; this is cheap, and worth more than trust in the code.
        below, above = lo[cell, area], hi[cell, area]
        if (true < below).any() or (true > above).any() or int((lo > 0).sum()) != int((below > 0).sum()):
            raise AssertionError("the attack excluded the truth. This is a mistake in ilba: please report it.")

    @property
    def tables(self) -> pl.DataFrame:
        """The counts of each released table."""
        published = self.published
        nodes = [node for node in reversed(published.lattice.nodes) if node in published.tables]
        chosen = [selection_of(published.design, node) for node in nodes]
        small = [self._counts[node][0] if published.tables[node].truth else None for node in nodes]
        return pl.DataFrame(
            {
                "table": [selection.name for selection in chosen],
                "level": ["+".join(selection.finest) or "all" for selection in chosen],
                "small": pl.Series(small, dtype=pl.Int64),
                "disclosed": [self._counts[node][1] for node in nodes],
                "exact": [self._counts[node][2] for node in nodes],
            }
        )


def _sides(block: Any) -> tuple[dict[Node, Any], dict[Node, Any]]:
    return block.kinds[0].low, block.kinds[0].high


def _title(published: Exposure) -> str:
    design = published.design
    reading = "" if published.policy.scheme == "sums" else f", cells={published.cells!r}"
    return (
        f"Audit of {some(len(published.tables), 'table')}: method={published.policy.name!r}, K={design.threshold}"
        f"{reading} (confidential)"
    )


def _figures(report: AuditReport) -> list[tuple[str, str, str]]:
    """The main numbers: name, number, share of the small cells."""
    small, K = report.cells_small, report.published.K

    def line(name: str, number: int | None) -> tuple[str, str, str]:
        share = f"{100 * number / small:8.1f}%" if small and number is not None else ""
        return name, "unknown" if number is None else f"{number:,}", share

    lines = [
        (f"finest cells truly in 1..{K - 1}", "unknown" if small is None else f"{small:,}", ""),
        line("  disclosed", report.cells_disclosed),
        line("    exactly", report.cells_exact),
        line("  certified safe", report.cells_certified),
        line("  undecided", report.cells_undecided),
        ("aggregates disclosed", f"{report.aggregates:,}", ""),
    ]
    return lines


def _page(report: AuditReport) -> str:
    """The report as a page that fetches nothing."""
    published, K = report.published, report.published.K
    figures = "".join(
        f"<tr><th>{html.escape(name.strip())}</th><td>{number}</td><td>{share.strip()}</td></tr>"
        for name, number, share in _figures(report)
    )
    by_level = report.tables.group_by("level", maintain_order=True).agg(pl.col("small", "disclosed", "exact").sum())
    worst = "".join(
        f"<details{' open' if place < 3 else ''}><summary>{html.escape(one.cell)}: "
        f"{one.low if one.low == one.high else f'{one.low}..{one.high}'}</summary><ol>"
        + "".join(f"<li>{html.escape(sentence)}</li>" for sentence in one.why)
        + "</ol></details>"
        for place, one in enumerate(report.worst)
    )
    rows = "".join(
        "<tr><th>{}</th>{}</tr>".format(
            html.escape(str(row["table"])),
            "".join(
                f"<td>{'' if row[c] is None else format(row[c], ',')}</td>" for c in ("small", "disclosed", "exact")
            ),
        )
        for row in report.tables.to_dicts()
    )
    shown = [row for row in report.tables.to_dicts() if row["small"] or row["disclosed"]]
    tables = sorted(shown, key=lambda row: -row["disclosed"])[:40]
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Audit (confidential)</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1b1b1b; }}
.confidential {{ background: #8a1c1c; color: #fff; padding: .3rem .8rem; font-weight: 600; }}
.verdict {{ border-left: .3rem solid {"#2a7d46" if report.safe else "#8a1c1c"}; padding-left: .8rem; }}
table {{ border-collapse: collapse; }} th {{ text-align: left; font-weight: 400; }}
td {{ text-align: right; padding-left: 1.5rem; font-variant-numeric: tabular-nums; }}
tr + tr > * {{ border-top: 1px solid #ddd; }} summary {{ cursor: pointer; }} svg {{ max-width: 100%; height: auto; }}
</style>
<p class="confidential">Confidential: this page says which counts are small.</p>
<h1>What the released tables prove together</h1>
<p>{html.escape(_title(published))}. {html.escape(POLICIES[published.policy.name].about)}.</p>
<p class="verdict">{html.escape(report.verdict)}</p>
<table>{figures}</table>
<p>Disclosed means: somebody who knows the method, K, the code lists and all these tables can prove that the count lies
in 1..{K - 1}. The audit adds and subtracts; a cleverer attacker may prove more, never less. Certified means that
another truth, in which the cell is not small, leads to the same tables.</p>
<h2>By level</h2>
{_bars([(str(r["level"]), r["small"], r["disclosed"], r["exact"]) for r in by_level.to_dicts()])}
<h2>By table</h2>
{_bars([(str(r["table"]), r["small"], r["disclosed"], r["exact"]) for r in tables])}
<details><summary>All tables as numbers</summary>
<table><tr><th>table</th><td>small</td><td>disclosed</td><td>exactly</td></tr>{rows}</table></details>
<h2>How it is proven</h2>
{worst or "<p>Nothing was proven.</p>"}
</html>
"""


def _bars(lines: list[tuple[str, int | None, int, int]]) -> str:
    """Bars of the share of small cells that is disclosed, and exactly so; of numbers where the truth is unknown."""
    known = all(small is not None for _, small, _, _ in lines)
    most = 1 if known else max((disclosed for _, _, disclosed, _ in lines), default=1) or 1
    left, right, step = 260, 340, 22
    parts = []
    for number, (name, small, disclosed, exact) in enumerate(lines):
        of = (small or 1) if known else most
        y = number * step
        share = f"{100 * disclosed / of:.1f}% of {small:,}" if known else f"{disclosed:,}"
        short = name if len(name) < 34 else name[:32] + "…"
        parts.append(
            f'<text x="{left - 8}" y="{y + 15}" text-anchor="end"><title>{html.escape(name)}</title>'
            f'{html.escape(short)}</text><rect x="{left}" y="{y + 3}" width="{right}" height="15" fill="#eee"/>'
            f'<rect x="{left}" y="{y + 3}" width="{right * disclosed / of:.1f}" height="15" fill="#d98880"/>'
            f'<rect x="{left}" y="{y + 3}" width="{right * exact / of:.1f}" height="15" fill="#8a1c1c"/>'
            f'<text x="{left + right + 8}" y="{y + 15}">{share}</text>'
        )
    height = len(lines) * step + 4
    return (
        f'<svg role="img" aria-label="share of small cells disclosed" viewBox="0 0 760 {height}" width="760" '
        f'height="{height}" font-size="12">{"".join(parts)}</svg>'
        f"<p>Light: proven to lie in 1..K-1. Dark: proven exactly.</p>"
    )
