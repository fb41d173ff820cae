"""Figures of jointly chosen masks: what is reached, how far counts are off, and what it costs.

    python bench/controlled_figures.py                 the census, all runs
    python bench/controlled_figures.py A C D F:10      these runs; F:10 sets the bound 10, D@3 sets K = 3
    python bench/controlled_figures.py FOLDER          the three data sets kr_estab, nl_grid and us_acs in a folder
    python bench/controlled_figures.py --steps E:8     one run, with the aggregates left over the bound after each step

Each run is in a separate process, so that its peak memory is its own. Times are processor times (one core), without
loading numba's code.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path

import polars as pl

import ilba
from ilba.methods.loss import loss_summary
from ilba.progress import Progress
from ilba.tables.engine import class_means
from ilba.tables.store import About

AREAS = ["LA1", "LA2", "LA3", "OA"]
KEYS = ["gender", "edu", "age", "mar", "htype"]
CENSUS = {"A": (3, 3), "B": (4, 3), "C": (3, 4), "D": (4, 4), "E": (3, 5), "F": (4, 5)}
OTHERS = {
    "kr_estab": (
        ["CP_CD", "CDW_CD", "ZONE_CD"],
        ["RPRSNTV_SEXDSTN", "AGE_FACTOR", "BR_ACT", "BR_JOJIK", "ORG_FORM_CD"],
        5,
    ),
    "nl_grid": (["g5km", "g1km", "g500m", "g100m"], ["cons_q", "unemployed"], 3),
    "us_acs": (["STATE", "PUMA"], ["SEX", "MSP", "RAC1P", "EDU", "HOUSING_TYPE"], 10),
}
ALL = ["A", "B", "C", "D", "D@3", "D@10", "E:9", "F:12", "F:10", "F:9"]
SECRET = ilba.Secret(bytes(range(32)))
HEAD = f"{'run':<10}{'K':>3}{'tables':>7}{'cells':>9}{'bound':>6}{'reached':>8}{'over':>7}"
HEAD += f"{'mean':>7}{'p99':>5}{'max':>5}{'<=K/2':>7}{'bias':>7}{'s':>7}{'GB':>6}   plain SCA sums: mean, max"


def built(run: str) -> ilba.FinestTable:
    name, _, K = run.partition("@")
    if name in CENSUS:
        levels, keys = CENSUS[name]
        return ilba.build(ilba.datasets.census(), AREAS[:levels], KEYS[:keys], int(K or 5), secret=SECRET)
    hkey, key, thr = OTHERS[Path(name).stem]
    return ilba.build(name, hkey, key, int(K or thr), secret=SECRET)


def line(asked: str, progress: Progress | None = None) -> str:
    run, _, bound = asked.partition(":")
    small = ilba.build(pl.DataFrame({"t": ["a", "b", "b"], "x": [1, 1, 2]}), ["t"], ["x"], secret=SECRET)
    small.controlled(secret=SECRET)  # compiles
    finest = built(run)
    began = time.process_time()
    chosen = finest.controlled(bound=int(bound) if bound else None, secret=SECRET, progress=progress)
    took = time.process_time() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    K, control = finest.design.threshold, chosen.control
    assert control is not None
    losses = loss_summary((table.detail["loss"] for table in chosen.cube()), K, control.bound)
    about = About(finest.codes, chosen=chosen.chosen)
    drawn = ilba.FinestTable(about, finest._words, finest._count, finest._masked)
    plain = loss_summary((table.detail["loss"] for table in drawn.cube()), K)
    bias = max((abs(mean - x) for x, mean in class_means(chosen).items()), default=0.0)
    return (
        f"{Path(run).stem:<10}{K:>3}{control.tables:>7}{control.cells:>9,}{control.bound:>6}{control.reached:>8}"
        f"{control.over:>7,}{losses.mean:>7.3f}{losses.p99:>5}{losses.max:>5}{100 * losses.within:>6.1f}%"
        f"{bias:>7.3f}{took:>7.1f}{peak:>6.2f}   {plain.mean:.2f}, {plain.max:,}"
    )


def main(asked: list[str]) -> None:
    if asked[:1] == ["--one"]:
        print(line(asked[1]), flush=True)
        return
    if asked[:1] == ["--steps"]:
        print(line(asked[1], lambda step: print(*step, flush=True)))
        return
    runs = []
    for one in asked or ALL:
        runs += [str(Path(one) / f"{name}.parquet") for name in OTHERS] if Path(one).is_dir() else [one]
    print(HEAD, flush=True)
    for run in runs:
        subprocess.run([sys.executable, __file__, "--one", run], check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
