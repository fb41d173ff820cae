"""The methodologist's report: what masking cost, table by table, in one page. Confidential.

The page carries its charts and styles with it and loads nothing. It is written for its owner alone, and says
CONFIDENTIAL on the screen and on every printed page.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ilba.design.design import COUNT, Level, Names, Selection
from ilba.design.tables import selections
from ilba.errors import some, suggesting
from ilba.files import replacing, writable
from ilba.methods.controlled.search import LossSummary
from ilba.output import charts
from ilba.tables.finest import FinestTable
from ilba.tables.table import Table

Path_: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Loss:
    """What masking did to one table, or to several together. Confidential.

    Parameters
    ----------
    name : str
        The name of the table; empty for several together.
    title : str
        The variables of the table in words.
    cells : int
        The number of its cells.
    K : int
        The threshold.
    small : int
        Cells with a true count of at most K.
    type1 : int
        Cells that iLBA shifted up.
    type2 : int
        Cells that iLBA shifted down.
    by_loss : dict of int to int
        How many cells have which loss, masked minus true.
    """

    name: str
    title: str
    cells: int
    K: int
    small: int
    """cells with a true count of at most K"""
    type1: int
    type2: int
    by_loss: Mapping[int, int]
    """how many cells have which loss, masked minus true"""

    @classmethod
    def of(cls, table: Table) -> Loss:
        """Measure a table.

        Parameters
        ----------
        table : Table
            The table.

        Returns
        -------
        Loss
            What masking did to it.
        """
        values, n = np.unique(table.detail["loss"].to_numpy(), return_counts=True)
        return cls(
            table.selection.name,
            " x ".join((*table.selection.finest, *table.selection.keys)) or "Total",
            table.detail.height,
            table.design.threshold,
            int((table.detail[COUNT] <= table.design.threshold).sum()),
            int(table.detail["type1"].sum()),
            int(table.detail["type2"].sum()),
            dict(zip(values.tolist(), n.tolist(), strict=True)),
        )

    @classmethod
    def together(cls, losses: Sequence[Loss]) -> Loss:
        """Add up several tables.

        Parameters
        ----------
        losses : sequence of Loss
            The tables, all with the same K.

        Returns
        -------
        Loss
            What masking did to them together.
        """
        by_loss: dict[int, int] = {}
        for one in losses:
            for loss, n in one.by_loss.items():
                by_loss[loss] = by_loss.get(loss, 0) + n
        cells, small, type1, type2 = (
            sum(getattr(one, name) for one in losses) for name in ("cells", "small", "type1", "type2")
        )
        (K,) = {one.K for one in losses}
        return cls("", some(len(losses), "table"), cells, K, small, type1, type2, dict(sorted(by_loss.items())))

    @cached_property
    def summary(self) -> LossSummary:
        """Mean, 99%, largest and near losses, as `compare` and `what_if` have them."""
        size, n = (np.array(list(part), dtype=np.int64) for part in (self.by_loss.keys(), self.by_loss.values()))
        counted = np.zeros(np.abs(size).max(initial=0) + 1, dtype=np.int64)
        np.add.at(counted, np.abs(size), n)
        return LossSummary.of(counted, self.K)


@suggesting
def report(
    finest: FinestTable,
    path: Path_,
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
) -> Path:
    """Write the confidential report on the tables of a store: one HTML file that only its owner can read.

    Parameters
    ----------
    finest : FinestTable
        The finest table.
    path : path
        Where to write the report.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. Left out, of all keys.
    max_keys : int, optional
        At most so many keys in a table. Left out, any number.
    progress : callable, optional
        Called with the number of tables that are done and the number of all.

    Returns
    -------
    Path
        Where it was written.

    Raises
    ------
    MissingExtra
        The extra `charts` is not installed.
    """
    target = writable(path)
    charts.require()
    wanted = selections(finest.design, levels, keys, max_keys)
    measured: dict[Selection, Loss] = {}
    for done, table in enumerate(finest.tables(wanted), 1):
        measured[table.selection] = Loss.of(table)
        if progress:
            progress(done, len(wanted))
    page = _page(finest, {selection: measured[selection] for selection in wanted})
    with replacing(target) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return target


def _page(finest: FinestTable, losses: Mapping[Selection, Loss]) -> str:
    design = finest.design
    K = design.threshold
    every = Loss.together(list(losses.values()))
    bound = K // 2 + K if finest.method == "ilba" else None  # the paper's, and only for its method
    areas = " · ".join(" > ".join(h.columns) for h in design.hierarchies)
    facts = {
        "Tables": f"{len(losses):,}",
        "Cells": f"{every.cells:,}",
        "Threshold K": f"{K}",
        "Reading of S": design.cells,
        "Mean absolute loss": f"{every.summary.mean:.3f}",
        "99% of cells within": f"{every.summary.p99}",
        "Largest loss": f"{every.summary.max}",
        **({"Bound": f"{bound}"} if bound else {"Method": finest.method}),
        f"Within {K // 2}": _percent(every.summary.within),
        f"True count at most {K}": _percent(every.small / every.cells if every.cells else 0),
    }
    tiles = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>" for name, value in facts.items())
    drawn = [
        charts.loss_shares(every.by_loss, K, f"Information loss over {some(len(losses), 'table')}"),
        *_scatter(losses, design.threshold),
    ]
    pictures = "".join(f"<figure>{_inline(chart, place)}</figure>" for place, chart in enumerate(drawn))
    tables = "".join(_section(one, K, bound) for one in losses.values())
    promise = (
        f"Masking with K={K} keeps every loss within {bound}; with at most one small cell behind it, within {K - 1}."
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>CONFIDENTIAL: information loss report</title>
<style>{_STYLE}</style>
</head>
<body>
<div class="mark">CONFIDENTIAL · true counts can be derived from this page</div>
<main>
<h1>Information loss report</h1>
<p class="about">{escape(areas)}; keys {escape(", ".join(design.keys)) or "none"}. Loss is the masked minus the true
count. {promise if bound else ""}</p>
<dl class="tiles">{tiles}</dl>
<h2>At a glance {_CONFIDENTIAL}</h2>
<div class="figures">{pictures}</div>
<h2>All tables {_CONFIDENTIAL}</h2>
{_overview(losses, K)}
<h2>Table by table {_CONFIDENTIAL}</h2>
<p class="about">Open a table to see how its loss is distributed. All are open in print.</p>
{tables}
</main>
</body>
</html>
"""


def _overview(losses: Mapping[Selection, Loss], K: int) -> str:
    heads = ["Table", "Cells", f"Count ≤ {K}", "Type 1", "Type 2", "Mean", "99%", "Max", f"Within {K // 2}"]
    # The head comes again on every printed page, and the mark with it, where a browser knows no running header.
    head = "".join(f"<th>{escape(name)}</th>" for name in heads).replace("</th>", f" {_CONFIDENTIAL}</th>", 1)
    rows = []
    for one in losses.values():
        share = one.small / one.cells if one.cells else 0
        within = one.summary.within
        cells = [
            f'<a href="#{_anchor(one)}">{escape(one.title)}</a>',
            f"{one.cells:,}",
            _bar(share, _percent(share), "warm"),
            f"{one.type1:,}",
            f"{one.type2:,}",
            f"{one.summary.mean:.3f}",
            f"{one.summary.p99}",
            f"{one.summary.max}",
            _bar(within, _percent(within), "cool"),
        ]
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<table class="all"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def _section(one: Loss, K: int, bound: int | None) -> str:
    near = K // 2
    top = max(one.by_loss.values(), default=1)
    rows = "".join(
        f"<tr><td>{loss:+d}</td><td>{n:,}</td><td>{n / one.cells:.2%}</td>"
        f"<td>{_bar(n / top, '', 'cool' if abs(loss) <= near else 'warm')}</td></tr>"
        for loss, n in one.by_loss.items()
    ).replace("<td>+0</td>", "<td>0</td>")
    facts = {
        "cells": f"{one.cells:,}",
        f"true count at most {K}": f"{one.small:,} ({_percent(one.small / one.cells if one.cells else 0)})",
        "type 1 (shifted up)": f"{one.type1:,}",
        "type 2 (shifted down)": f"{one.type2:,}",
        "mean absolute loss": f"{one.summary.mean:.3f}",
        "99% within": f"{one.summary.p99}",
        "largest absolute loss": f"{one.summary.max} of at most {bound}" if bound else f"{one.summary.max}",
        f"within {near}": _percent(one.summary.within),
    }
    told = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts.items())
    return (
        f'<details id="{_anchor(one)}"><summary><b>{escape(one.title)}</b> <span>{some(one.cells, "cell")}, mean '
        f"{one.summary.mean:.3f}, max {one.summary.max}</span>{_CONFIDENTIAL}</summary>"
        f'<div class="pair"><table class="facts">{told}</table>'
        f'<table class="loss"><thead><tr><th>Loss</th><th>Cells</th><th>Share</th><th></th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )


def _scatter(losses: Mapping[Selection, Loss], K: int) -> list[Any]:
    """How the loss depends on the size and the level of a table."""
    rows = pl.DataFrame(
        {
            "table": [one.title for one in losses.values()],
            "level": [" + ".join(selection.finest) or "none" for selection in losses],
            "cells": [max(one.cells, 1) for one in losses.values()],
            "mean": [one.summary.mean for one in losses.values()],
            "within": [one.summary.within for one in losses.values()],
            "small": [one.small / max(one.cells, 1) for one in losses.values()],
        }
    )
    return [
        charts.points(rows, "mean", "mean absolute loss", f"Mean loss by size of table, K={K}"),
        charts.points(rows, "within", "share of cells", f"Cells at most {K // 2} away from the true count", "%"),
        charts.points(rows, "small", "share of cells", f"Cells with a true count of at most {K}", "%"),
    ]


def _inline(chart: Any, place: int) -> str:
    """A chart as SVG inside the page; names inside are made unique, because the page holds several."""
    drawn = charts.svg(chart)
    drawn = re.sub(r"<\?xml[^>]*>|<!DOCTYPE[^>]*>", "", drawn)
    return re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>f{place}-", drawn)


def _anchor(one: Loss) -> str:
    return escape(f"table-{one.name}", quote=True)


def _bar(share: float, text: str, colour: str) -> str:
    return f'<span class="bar {colour}" style="--w:{100 * min(max(share, 0), 1):.2f}%">{text}</span>'


def _percent(share: float) -> str:
    return f"{share:.1%}"


_CONFIDENTIAL = '<em class="tag">CONFIDENTIAL</em>'
_STYLE = """
:root{--ink:#1b1b1b;--soft:#666;--line:#ddd;--cool:#0072B2;--warm:#E69F00;--red:#B00020}
*{box-sizing:border-box}
body{margin:0;color:var(--ink);background:#fff;font:15px/1.45 Helvetica,Arial,"Noto Sans KR","Malgun Gothic",sans-serif}
.mark{position:sticky;top:0;z-index:2;background:var(--red);color:#fff;text-align:center;padding:6px;font-weight:bold;
 letter-spacing:.06em}
main{max-width:1200px;margin:0 auto;padding:16px 24px 64px}
h1{margin:.4em 0 .2em}h2{margin:2em 0 .6em;border-bottom:1px solid var(--line);padding-bottom:.3em}
.about{color:var(--soft);max-width:70em}
.tag{font-style:normal;font-weight:bold;font-size:11px;letter-spacing:.06em;color:var(--red);
 border:1px solid var(--red);border-radius:3px;padding:1px 5px;margin-left:8px;vertical-align:middle}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(170px,1fr));gap:10px;margin:18px 0}
.tiles div{border:1px solid var(--line);border-radius:6px;padding:10px 12px}
.tiles dt{color:var(--soft);font-size:13px}.tiles dd{margin:2px 0 0;font-size:22px;font-weight:bold}
.figures{display:grid;grid-template-columns:repeat(auto-fit,minmax(440px,1fr));gap:8px 16px}
figure{margin:0;max-width:100%}figure svg{max-width:100%;height:auto}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}
th{text-align:right;font-weight:600;color:var(--soft)}td{text-align:right}
th,td{padding:3px 10px;border-bottom:1px solid #eee;white-space:nowrap}
.all{width:100%;font-size:14px}
.all th:first-child,.all td:first-child{text-align:left;white-space:normal}
.all thead th{position:sticky;top:34px;background:#fff;box-shadow:0 1px 0 var(--line)}
.all th:nth-child(3),.all td:nth-child(3),.all th:last-child,.all td:last-child{width:130px}
.all tr:hover td{background:#f6f9fb}
a{color:var(--cool);text-decoration:none}a:hover{text-decoration:underline}
.bar{display:block;position:relative;min-height:1.3em;padding:0 4px;z-index:0}
.bar::before{content:"";position:absolute;inset:1px auto 1px 0;width:var(--w);z-index:-1;border-radius:2px;
 background:var(--cool);opacity:.28}
.bar.warm::before{background:var(--warm);opacity:.45}
details{border:1px solid var(--line);border-radius:6px;margin:6px 0;padding:0 12px;scroll-margin-top:48px}
summary{cursor:pointer;padding:7px 0}summary span{color:var(--soft);font-size:13px;margin-left:8px}
.pair{display:flex;flex-wrap:wrap;gap:32px;padding:6px 0 14px;align-items:flex-start}
.facts th{text-align:left}.loss{flex:1;min-width:340px}.loss td:last-child{width:70%}
.loss .bar::before{opacity:.85}
details:target{border-color:var(--cool)}
@page{margin:22mm 14mm 16mm;@top-center{content:"CONFIDENTIAL";color:#B00020;font:bold 12pt Helvetica,Arial,sans-serif}}
@media print{
 .mark{position:static}
 main{max-width:none;padding:0}
 .all thead th{position:static}
 details{break-inside:avoid}details::details-content{content-visibility:visible;display:block;height:auto}
 .bar::before{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
"""
