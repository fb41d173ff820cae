"""The methodologist's report: the loss of every table, in one page. Confidential.

The page contains its charts and styles and loads nothing. Only its owner can read it, and it says
CONFIDENTIAL on the screen and on every printed page.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ilba.design.design import Level, Names, Selection
from ilba.design.tables import selections
from ilba.errors import some, suggesting
from ilba.files import writable
from ilba.methods.loss import LossSummary
from ilba.output import drawing, loss_charts
from ilba.output.pages import inline, percent, write
from ilba.progress import Progress, ProgressStep, silent
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.losses import TableLoss
from ilba.tables.table import Table

Path_: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Loss:
    """The loss of one table, or of several together. Confidential.

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
        The number of cells with each loss, masked minus true.
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
    """the number of cells with each loss, masked minus true"""

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
            Its loss.
        """
        return cls._of(table.selection, table.design.threshold, TableLoss.of(table))

    @classmethod
    def _of(cls, selection: Selection, K: int, one: TableLoss) -> Loss:
        title = " x ".join((*selection.finest, *selection.keys)) or "Total"
        by_loss = dict(sorted(one.by_loss.items()))
        return cls(selection.name, title, one.cells, K, one.small, one.type1, one.type2, by_loss)

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
            Their loss together.
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

    @property
    def small_share(self) -> float:
        """The share of cells with a true count of at most K, from 0 to 1."""
        return self.small / self.cells if self.cells else 0.0

    @property
    def most(self) -> int:
        """The number of cells with the most frequent loss."""
        return max(self.by_loss.values(), default=1)

    @cached_property
    def summary(self) -> LossSummary:
        """Mean, 99%, largest and near losses, as `compare` and `what_if` have them."""
        size, n = (np.array(list(part), dtype=np.int64) for part in (self.by_loss.keys(), self.by_loss.values()))
        counted = np.zeros(np.abs(size).max(initial=0) + 1, dtype=np.int64)
        np.add.at(counted, np.abs(size), n)
        return LossSummary.of(counted, self.K)


@suggesting
def report(
    finest: AnyFinestTable,
    path: Path_,
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    *,
    lang: str = "en",
    progress: Progress | None = None,
) -> Path:
    """Write the confidential report on the tables of a store: one HTML file that only its owner can read.

    Parameters
    ----------
    finest : FinestTable or SparkFinestTable
        The finest table.
    path : path
        Where to write the report.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. Left out, of all keys.
    max_keys : int, optional
        At most this many keys in a table. Left out, any number.
    lang : {"en", "ko"}, default "en"
        The language. Texts in charts are English.
    progress : callable, optional
        Called with the number of finished tables and of all tables.

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
    drawing.require()
    finest = finest.collect()
    wanted = selections(finest.design, levels, keys, max_keys)
    tell = progress or silent
    measured = finest.losses(wanted, lambda done, total: tell(ProgressStep("tables", done, total)))
    K = finest.design.threshold
    facts = _facts(finest, {selection: Loss._of(selection, K, measured[selection]) for selection in wanted})
    return write(target, "report.html", lang=lang, **facts)


def _facts(finest: FinestTable, losses: Mapping[Selection, Loss]) -> dict[str, Any]:
    """The content of the page."""
    design = finest.design
    K = design.threshold
    every = Loss.together(list(losses.values()))
    bound = K // 2 + K if finest.method == "ilba" else None  # the bound of the paper, only for its method
    drawn = [
        loss_charts.loss_shares(every.by_loss, K, f"Information loss over {some(len(losses), 'table')}"),
        *_scatter(losses, K),
    ]
    return {
        "title": "Information loss report",
        "K": K,
        "bound": bound,
        "areas": " · ".join(" > ".join(h.columns) for h in design.hierarchies),
        "keys": ", ".join(design.keys),
        "tiles": {
            "Tables": f"{len(losses):,}",
            "Cells": f"{every.cells:,}",
            "Threshold K": f"{K}",
            "Reading of S": design.cells,
            "Mean absolute loss": f"{every.summary.mean:.3f}",
            "99% of cells within": f"{every.summary.p99}",
            "Largest loss": f"{every.summary.max}",
            "Method": finest.method,
            **({"Bound": f"{bound}"} if bound else {}),
            f"Within {K // 2}": percent(every.summary.within),
            f"True count at most {K}": percent(every.small_share),
        },
        "pictures": [inline(drawing.svg(chart), place) for place, chart in enumerate(drawn)],
        "losses": list(losses.values()),
    }


def _scatter(losses: Mapping[Selection, Loss], K: int) -> list[Any]:
    """How the loss depends on the size and the level of a table."""
    rows = pl.DataFrame(
        {
            "table": [one.title for one in losses.values()],
            "level": [" + ".join(selection.finest) or "none" for selection in losses],
            "cells": [max(one.cells, 1) for one in losses.values()],
            "mean": [one.summary.mean for one in losses.values()],
            "within": [one.summary.within for one in losses.values()],
            "small": [one.small_share for one in losses.values()],
        }
    )
    return [
        loss_charts.points(rows, "mean", "mean absolute loss", f"Mean loss by size of table, K={K}"),
        loss_charts.points(rows, "within", "share of cells", f"Cells with a loss of at most {K // 2}", "%"),
        loss_charts.points(rows, "small", "share of cells", f"Cells with a true count of at most {K}", "%"),
    ]
