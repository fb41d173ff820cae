"""Finest tables: of every small shape, and of counts written down by hand."""

from __future__ import annotations

import itertools

import polars as pl
from hypothesis import strategies as st

from ilba import FinestTable, Secret

ZERO = Secret(bytes(32))


@st.composite
def stores(draw):
    """Small finest tables of every shape: K 3..12, both readings, one or two hierarchies, keys or none."""
    K = draw(st.integers(3, 12))
    cells = draw(st.sampled_from(["observed", "grid"]))
    n = draw(st.integers(1, 40))
    pick = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    columns = {name: draw(pick) for name in ("a", "b", "c", "x", "y")}
    frame = pl.DataFrame(columns).with_columns(
        pl.col("a").cast(pl.String), pl.Series("N", draw(st.lists(st.integers(0, 3 * K), min_size=n, max_size=n)))
    )
    frame = pl.concat([frame, frame.head(1).with_columns(N=pl.lit(1, pl.Int64))])
    hkey = draw(st.sampled_from([["a"], ["a", "b"], ["b", "a", "c"], {"one": ["a", "b"], "two": ["c"]}]))
    flat = list(itertools.chain(*hkey.values())) if isinstance(hkey, dict) else hkey
    key = [name for name in ("x", "y") if draw(st.booleans())]
    frame = frame.group_by([*flat, *key]).agg(pl.col("N").sum())
    return FinestTable.from_counts(frame, hkey, key, K, secret=ZERO, cells=cells), frame


def toy(counts, masked, K, cells, areas=1):
    labels = [(area, x) for area in range(areas) for x in range(len(counts) // areas)]
    frame = pl.DataFrame(labels, schema=["town", "x"], orient="row").with_columns(
        N=pl.Series(counts), N_masked=pl.Series(masked)
    )
    return FinestTable.from_counts(frame, ["town"], ["x"], K, cells=cells)
