"""The same tables under every method, side by side: what each gives away, and what it costs. Confidential."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba import notebook
from ilba.attack.audit import audit, in_percent, losses
from ilba.design.design import Level, Names
from ilba.design.tables import Tables, wanted_tables
from ilba.errors import InputError, suggesting
from ilba.files import writable
from ilba.methods.loss import loss_summary
from ilba.output import charts
from ilba.output.pages import inline, write
from ilba.progress import Progress, ProgressStep, silent, within
from ilba.secret.secret import Secret
from ilba.tables.engine import class_means
from ilba.tables.finest import FinestTable

Path_: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Comparison:
    """A row per method: loss, bias, additivity, and what everybody can prove (confidential)."""

    rows: pl.DataFrame
    """shares (`within_half_K`, `over_bound`, `provable`, `exact`) run from 0 to 1"""
    title: str
    """what was compared, in words"""

    def to_html(self, path: Path_) -> Path:
        """Write the comparison with its chart of risk against loss: one file, for its owner alone.

        Parameters
        ----------
        path : path
            Where to write the page.

        Returns
        -------
        Path
            Where it was written.
        """
        rows = in_percent(self.rows)
        return write(
            writable(path),
            "comparison.html",
            title=self.title,
            picture=inline(charts.svg(charts.risk(self.rows))),
            heads=[name.replace("_", " ") for name in rows.columns],
            rows=[[_shown(value) for value in row] for row in rows.iter_rows()],
        )

    def _repr_html_(self) -> str:
        """The comparison in a notebook."""
        rows = in_percent(self.rows)
        shown = ([_shown(value) for value in row] for row in rows.iter_rows())
        return notebook.page("Comparison", self.title, notebook.table(rows.columns, shown))


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

    Parameters
    ----------
    finest : FinestTable
        A finest table whose masks were drawn by SCA.
    tables : str or iterable of str, default "all"
        "all", cut down by `levels`, `keys` and `max_keys`; or names of tables such as "LA3.gender", or selections.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. Left out, of all keys.
    max_keys : int, optional
        At most so many keys in a table. Left out, any number.
    secret : Secret or path, optional
        Its secret, which choosing masks jointly needs. Left out, as for `FinestTable.controlled`.
    bound : int, optional
        The bound for controlled masks, and for `over_bound`. Left out, floor(K/2) + K.
    progress : callable, optional
        Called with the number of methods that are done and the number of all.

    Returns
    -------
    Comparison
        A row per method. Confidential.

    Raises
    ------
    InputError
        The masks of this table were chosen jointly already.
    SecretError
        The secret that drew the masks is not at hand, or it is another one.
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
