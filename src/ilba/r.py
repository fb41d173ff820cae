"""The R package's functions under their R names: the same arguments, defaults and console output.

This module only translates; 'Coming from R' in the docs lists every difference.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import polars as pl

from ilba.design.design import Names
from ilba.errors import InputError, suggesting
from ilba.methods.masking import apply_iLBA, apply_SCA
from ilba.secret.secret import Secret
from ilba.tables.building import build
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store, read_rds
from ilba.tables.store import OF_R
from ilba.tables.table import Table

__all__ = ["apply_SCA", "apply_iLBA", "get_agg_freq", "save_agg_tb", "save_full_tb"]

Path_ = str | os.PathLike[str]


@partial(suggesting, fuller=build)
def save_full_tb(
    data: Any,
    hkey: Names,
    key: Names | None = None,
    mask_thr: int = 5,
    hkey_rank: Sequence[float] | None = None,
    key_thr: int = 100,
    output_path: Path_ = "full_tb.parquet",
    *,
    secret: Secret | Path_ | None = None,
) -> FinestTable:
    """Count microdata into the finest table, mask it with SCA and save it as a store.

    A notice says if these people were published with other masks.

    Parameters
    ----------
    data : frame or path
        The microdata, as `ilba.build` takes them.
    hkey : str or sequence of str
        The columns of the hierarchy from coarse to fine.
    key : str or sequence of str, optional
        The categorical variables. Left out, all other columns with at most `key_thr` different values.
    mask_thr : int, default 5
        The threshold K, at least 3.
    hkey_rank : sequence of float, optional
        The rank of each column of `hkey`, if they are not in the order from coarse to fine.
    key_thr : int, default 100
        Leave out keys with more different values than this, also those that `key` names.
    output_path : path, default "full_tb.parquet"
        Where to save the store.
    secret : Secret or path, optional
        A `Secret` or the path of a secret file. Left out, ILBA_SECRET, then the secret beside the store, then a new
        one.

    Returns
    -------
    FinestTable
        The finest table. Confidential.
    """
    finest: FinestTable = build(
        data,
        hkey,
        key,
        mask_thr,
        secret=secret,
        hkey_rank=hkey_rank,
        key_thr=key_thr,
        output_path=output_path,
    )
    for hierarchy in finest.design.hierarchies:
        ranks = " | ".join(f"{rank}:{column}" for rank, column in enumerate(hierarchy.columns, 1))
        several = f" ({hierarchy.name})" if len(finest.design.hierarchies) > 1 else ""
        print(f"Hierarchical variables{several}: {ranks}")
    print("Key variables:", ", ".join(finest.design.keys) or "(none)")
    print("Masking threshold:", finest.design.threshold)
    print(f"Finest table saved to '{os.fspath(output_path)}'")
    print("This file is confidential: it contains true counts.", file=sys.stderr)
    finest.tell_other_numbers()  # later calls may not find the secret
    return finest


@suggesting
def save_agg_tb(
    hkey_level: int,
    key: Names | None,
    input_path: Path_ = "full_tb.parquet",
    output_tb_path: Path_ = "agg_tb.csv",
    output_iL_path: Path_ = "info_loss.csv",
) -> Table:
    """Write a table masked by iLBA and the distribution of its information loss as CSV files.

    Both files are confidential, because flags and losses disclose counts. Publish `Table.public` or a release. A notice
    says if these people were published with other masks.

    Parameters
    ----------
    hkey_level : int
        The level of the table, a number from 1.
    key : str, sequence of str or None
        The keys of the table.
    input_path : path, default "full_tb.parquet"
        The store, or an .rds file of the R package.
    output_tb_path : path, default "agg_tb.csv"
        Where to write labels, N_masked, type1 and type2.
    output_iL_path : path, default "info_loss.csv"
        Where to write Loss, n, perc and a Total row.

    Returns
    -------
    Table
        The table. Confidential.
    """
    finest = _opened(input_path)
    table = finest.table(_level(hkey_level), key)
    finest.tell_other_numbers()
    table.write_csv(output_tb_path, output_iL_path)
    print("Header of aggregated masked table via iLBA")
    print(_console(table.head(6), types=True))
    print("\nDistribution of Information Loss")
    print(_console(table.loss.with_columns(pl.col("perc").map_elements(lambda x: f"{x:.2f}", pl.String))))
    print(f"\nAggregated table saved to '{os.fspath(output_tb_path)}'")
    print(f"Information loss saved to '{os.fspath(output_iL_path)}'")
    print("Both files are confidential: they contain flags and losses. `release` publishes.", file=sys.stderr)
    return table


@suggesting
def get_agg_freq(
    hkey_level: int, key: Names | None, hkey_value: Any, key_value: Any, input_path: Path_ = "full_tb.parquet"
) -> int:
    """Look up the masked count of one cell, equal to the entry of the table.

    Parameters
    ----------
    hkey_level : int
        The level of the table, a number from 1.
    key : str, sequence of str or None
        The keys of the table.
    hkey_value : sequence
        The labels of the area: the whole path from the coarsest level down.
    key_value : label or sequence of labels
        One label for each key.
    input_path : path, default "full_tb.parquet"
        The store, or an .rds file of the R package.

    Returns
    -------
    int
        The masked count by the masks of the store; 0 with a message if the cell does not occur. A notice says if these
        people were published with other masks: those are in the release and in `FinestTable.published`.
    """
    finest = _opened(input_path)
    masked, occurs = finest.lookup(_level(hkey_level), key, hkey_value, key_value)
    if not occurs:
        print(
            "This combination does not occur. If it should, check hkey_value and key_value.",
            file=sys.stderr,
        )
    finest.tell_other_numbers()
    return masked


def _opened(path: Path_) -> FinestTable:
    file = Path(path)
    if not file.is_file():  # a folder may change inside; a missing file is an error
        return _read(file)
    seen = file.stat()
    return _kept(file.absolute(), seen.st_ino, seen.st_size, seen.st_mtime_ns)


@lru_cache(maxsize=1)
def _kept(file: Path, *_seen: int) -> FinestTable:
    """Keep the last file until it changes: R's functions name it in every call, and a loop reads it once."""
    return _read(file)


def _read(file: Path) -> FinestTable:
    return read_rds(file) if file.suffix.lower() in OF_R else open_store(file)


def _level(hkey_level: object) -> Any:
    """Check a level: a number from 1, as in R."""
    if isinstance(hkey_level, bool | str) or hkey_level == 0:
        raise InputError(
            f"hkey_level={hkey_level!r} is not a number from 1. FinestTable.table also takes names, and 0 for no level."
        )
    return hkey_level


def _console(frame: pl.DataFrame, *, types: bool = False) -> str:
    """Format columns right-aligned under their names, as R prints a table."""
    columns = []
    for series in frame.get_columns():
        head = [series.name] + (["<char>" if series.dtype == pl.String else "<int>"] if types else [])
        texts = head + ["NA" if value is None else str(value) for value in series.to_list()]
        width = max(map(len, texts))
        columns.append([text.rjust(width) for text in texts])
    return "\n".join(" " + " ".join(row) for row in zip(*columns, strict=True))
