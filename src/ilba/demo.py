"""The demonstration: a census, its finest table, one masked table with its loss, and one cell, in a new folder."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from ilba import datasets
from ilba.attack.audit import audit, losses
from ilba.errors import InputError, MissingExtra, Notice
from ilba.methods.loss import loss_summary
from ilba.output import drawing, loss_charts
from ilba.progress import Progress, ProgressStep
from ilba.tables.beside import secret_path
from ilba.tables.building import build
from ilba.tables.finest import FinestTable
from ilba.tables.table import Table

HKEY = ["LA1", "LA2", "LA3", "OA"]
KEY = ["gender", "age", "edu", "mar", "htype"]
ASKED = ["gender", "age", "htype"]
LARGE = 300_000  # cells: from here on the tour uses a wider bound, which is faster
CELL = (["01", "0104", "010407"], [2, 4, 21])

Say = Callable[[str], object]
Show = Callable[[pl.DataFrame], object]


def run(
    folder: str | os.PathLike[str], say: Say, show: Show, progress: Progress, n: int = 1_000_000, command: str = "ilba"
) -> tuple[FinestTable, Table]:
    """Give a tour on `n` synthetic people; write everything to `folder`. It can be run again."""
    home = Path(folder)
    if home.exists() and not home.is_dir():
        raise InputError(f"{str(home)!r} is a file. Give the name of a folder.")
    home.mkdir(parents=True, exist_ok=True)
    store = home / "full_tb.parquet"

    progress(ProgressStep("generating"))
    clock = time.perf_counter()
    people = datasets.census(n)
    say(f"A census of {people.height:,} synthetic people, made in {time.perf_counter() - clock:.1f} s")
    show(people.head(4))

    clock = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # the tour prints where the secret is
        finest = build(people, HKEY, KEY, mask_thr=5, output_path=store, unit="persons", progress=progress)
    say(f"The finest table: {len(finest):,} cells counted, masked with SCA (K=5) and saved in {_since(clock)}")
    say(f"  {store}  the store, confidential")
    say(f"  {secret_path(store)}  its secret; only you can read it\n")

    progress(ProgressStep("masking"))
    clock = time.perf_counter()
    table = finest.table("LA3", ASKED)
    table.write_csv(home / "agg_tb.csv", home / "info_loss.csv")
    say(f"LA3 x gender x age x htype masked with iLBA: {len(table):,} rows in {_since(clock)}")
    show(table.public().head(6))
    say("Its information loss, masked minus true, as in the paper's figure")
    show(table.loss)
    say(f"  {home / 'agg_tb.csv'}, {home / 'info_loss.csv'}  both confidential\n")

    progress(ProgressStep("publishing"))
    clock = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)  # the tour prints that this is a trial
        release = finest.release(
            home / "release",
            title="Synthetic census",
            source="ilba.datasets.census: nobody in it is real",
            texts={"ko": {"unit": "명"}},
            labels=datasets.census_codes(),
            geometry={column: datasets.census_geometry(column) for column in HKEY},
            bound=10 if len(finest) > LARGE else None,
            ledger=False,
            progress=progress,
        )
    say(f"Published: all {len(release.tables)} tables with labels in two languages and a map, in {_since(clock)}")
    say("  Masks were chosen jointly (controlled): nobody can prove a small count from these tables.")
    say("  The folder was made twice, once as if the masked counts were the truth: both are equal byte by byte.")
    say("  This is a trial, without a ledger. A real publication keeps its masks in a ledger beside the secret.")
    say(f"  {home / 'release'}  public: masked counts only\n")

    progress(ProgressStep("attacking"))
    clock = time.perf_counter()
    small = build(people, HKEY[:3], ["gender", "edu", "age"], mask_thr=5, secret=secret_path(store))
    shown = [_risk("as the R package writes its files", small, "r-file"), _risk("masked by iLBA", small, "ilba")]
    shown.append(_risk("controlled: masks chosen jointly", small.controlled(), "controlled"))
    say(f"The audit of all 32 tables of LA3 x gender x edu x age, in {_since(clock)}: of the cells with 1..4 people")
    for point in shown:
        provable, loss = point["provable"], point["mean_loss"]
        say(f"  {provable:4.0%} can be proven small if tables are {point['method']:<34} (mean loss {loss:.2f})")
    with contextlib.suppress(MissingExtra):
        picture = drawing.save(loss_charts.risk(pl.DataFrame(shown)), home / "risk.svg")
        say(f"  {picture}  as a chart, confidential")
    say("")

    masked = finest.cell("LA3", ASKED, *CELL)
    say(f"One cell masked by iLBA, women of 16-20 living as couple and children in 010407: {masked}\n")
    path, values = (",".join(map(str, part)) for part in CELL)
    say("Next, type")
    say(f"  {command} table {store} --level LA2 --key gender,mar")
    say(f"  {command} cell {store} --level LA3 --key {','.join(ASKED)} --hkey-value {path} --key-value {values}")
    say("and for the page with tables, charts and maps")
    say(f"  {command} serve {home / 'release'}")
    return finest, table


def _risk(name: str, finest: FinestTable, method: str) -> dict[str, Any]:
    report = audit(finest, method, explanations=0, brief=True)
    loss = loss_summary([losses(report.published)], finest.design.threshold)
    return {"method": name, "mean_loss": loss.mean, "provable": report.share}


def _since(clock: float) -> str:
    return f"{time.perf_counter() - clock:.2f} s"
