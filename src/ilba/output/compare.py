"""The same tables under every method, side by side: what each gives away, and what it costs. Confidential."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.attack.audit import audit, in_percent, losses
from ilba.design.design import Level, Names
from ilba.design.tables import Tables, wanted_tables
from ilba.errors import InputError, suggesting
from ilba.files import replacing, writable
from ilba.methods.controlled.search import loss_summary
from ilba.output import charts
from ilba.progress import Progress, ProgressStep, silent, within
from ilba.secret.secret import Secret
from ilba.tables.engine import class_means
from ilba.tables.finest import FinestTable

Path_: TypeAlias = str | os.PathLike[str]

_STYLE = """body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:0 auto;padding:1rem;color:#222}
.mark{background:#b00020;color:#fff;text-align:center;font-weight:700;padding:.3rem;position:sticky;top:0}
table{border-collapse:collapse;width:100%}th,td{padding:.35rem .6rem;text-align:right;border-bottom:1px solid #ddd}
th:first-child,td:first-child{text-align:left}@media print{.mark{position:fixed;left:0;right:0}}"""


@dataclass(frozen=True)
class Comparison:
    """A row per method: loss, bias, additivity, and what everybody can prove (confidential)."""

    rows: pl.DataFrame
    """shares (`within_half_K`, `over_bound`, `provable`, `exact`) run from 0 to 1"""
    title: str

    def to_html(self, path: Path_) -> Path:
        """Write the comparison with its chart of risk against loss: one file, for its owner alone."""
        target = writable(path)
        rows = in_percent(self.rows)
        head = "".join(f"<th>{html.escape(name.replace('_', ' '))}</th>" for name in rows.columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(_shown(value))}</td>" for value in row) + "</tr>"
            for row in rows.iter_rows()
        )
        page = (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(self.title)}</title>'
            f"<style>{_STYLE}</style><div class=mark>CONFIDENTIAL</div><h1>{html.escape(self.title)}</h1>"
            f"<p>Loss is the absolute difference between masked and true counts. Provable is the share of "
            f"the finest cells with a true count in 1..K-1 of which everybody who has all tables can prove that; it "
            f"is a lower bound. Bias is the largest of the mean masked counts minus their true count 1..K-1.</p>"
            f"{charts.svg(charts.risk(self.rows))}<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></html>"
        )
        with replacing(target) as temporary:
            temporary.write_text(page, encoding="utf-8")
        return target


@suggesting
def compare(
    finest: FinestTable,
    tables: Tables = "all",
    *,
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    secret: Secret | Path_ | None = None,
    bound: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare the methods on the same counts and tables. Nothing is released.

    The store is one whose masks were drawn by SCA; `secret` is its key, which choosing masks jointly needs.
    """
    if finest.method != "ilba":
        raise InputError("the masks of this store were chosen jointly already. Compare from the store that was built.")
    wanted = wanted_tables(finest.design, tables, levels, keys, max_keys)
    names = [table.name for table in wanted]
    K, tell = finest.design.threshold, progress or silent

    def candidates() -> Iterator[tuple[str, FinestTable, str]]:
        yield "sums of SCA", finest, "sca-sums"
        yield "SCA on each aggregate", finest, "sca-aggregates"
        yield "iLBA, as R writes it", finest.with_cells("observed"), "r-file"
        yield "iLBA, observed cells", finest.with_cells("observed"), "ilba"
        yield "iLBA, all cells of the grid", finest.with_cells("grid"), "ilba"
        chosen = finest.controlled(wanted, bound, secret=secret, progress=within(progress, "controlled"))
        yield "controlled", chosen, "controlled"

    rows: list[dict[str, Any]] = []
    for done, (name, masked, method) in enumerate(candidates(), 1):
        report = audit(masked, method, names, explanations=0, progress=within(progress, name))
        loss = loss_summary([losses(report.published)], K, bound)
        means = class_means(masked)
        rows.append(
            {
                "method": name,
                "mean_loss": loss.mean,
                "p99_loss": loss.p99,
                "max_loss": loss.max,
                "within_half_K": loss.within,
                "over_bound": loss.over,
                "bias": max((abs(mean - x) for x, mean in means.items()), default=0.0),
                "adds_up": method in ("sca-sums", "controlled"),
                "provable": report.share,
                "exact": report.share_exact,
                "aggregates": report.aggregates,
                "safe": report.safe,
            }
        )
        tell(ProgressStep("comparing", done, 6))
    return Comparison(pl.DataFrame(rows), f"Methods compared on {len(wanted)} tables, K={K}")


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
