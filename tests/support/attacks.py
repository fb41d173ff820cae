"""What an audit is compared with: the public part of a store, and the truth of a table."""

from __future__ import annotations

import polars as pl

from ilba import FinestTable
from ilba.design.tables import wanted_tables


def public_release(finest: FinestTable, names) -> dict[str, pl.DataFrame]:
    tables = wanted_tables(finest.design, names)
    return {one.name: finest.table(one.levels[0], one.keys).public() for one in tables}


def true_table(finest, selection):
    """The true and the released counts of a table."""
    columns = list(selection.columns)
    shown = finest.table(selection.levels[0], selection.keys).frame
    if not columns:
        return shown.with_columns(N=pl.lit(finest.frame["N"].sum()))
    return finest.frame.group_by(columns).agg(pl.col("N").sum()).join(shown, on=columns, how="full", coalesce=True)
