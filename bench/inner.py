"""Sums nearer to the truth with the same promise: the effect of a longer search and of moving large counts.

`python bench/inner.py` prints loss, largest error, bias and processor time for LA1 to LA3 by at most two and at most
three of five keys (200,000 people, K = 5), with the usual masks and with `move` 0, 1, 2 and K. `--oa` does the same for
all 160 tables down to output areas (`--people 1000000` is a city). `--sweeps` sets the number of sweeps.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Sequence

import numpy as np

import ilba
from ilba import FinestTable, Secret
from ilba.design.design import Selection
from ilba.design.tables import selections

KEYS = ["gender", "age", "edu", "mar", "htype"]
K = 5
SECRET = Secret(bytes(32))
MANY = 1_000  # cells of one count; the mean of fewer is left to chance


def row(name: str, finest: FinestTable, wanted: Sequence[Selection], sweeps: int | None, move: int) -> None:
    """Choose masks for some tables, and print how near their counts are."""
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ilba.Notice)
        chosen = finest.controlled(wanted, secret=SECRET, sweeps=sweeps, move=move)
    spent = time.process_time() - began
    true, error, levels = [], [], {}
    for table in chosen.tables(wanted):
        count = table.detail["N"].to_numpy()
        off = table.detail["loss"].to_numpy()[count > 0]
        true.append(count[count > 0])
        error.append(off)
        levels.setdefault(table.selection.name.split(".")[0], []).append(np.abs(off))
    size, off = np.minimum(np.concatenate(true), K), np.concatenate(error)
    bias = " ".join(f"{off[size == x].mean():+.2f}" if (size == x).any() else "-" for x in range(1, K + 1))
    by_level = " ".join(f"{level} {np.concatenate(losses).mean():.2f}" for level, losses in levels.items())
    inner = chosen.frame.select(off=(chosen.frame["N_masked"] - chosen.frame["N"]).abs())["off"].mean()
    sizes = chosen.frame["N"].to_numpy()
    means = [abs(mean - x) for x, mean in chosen.class_means().items() if (sizes == x).sum() >= MANY]
    control = chosen.control
    print(
        f"{name} | {chosen.chosen.sweeps} sweeps, move {move} | loss {np.abs(off).mean():.2f} | "
        f"largest {np.abs(off).max()}, "
        f"{control.over} over {control.bound} | bias {bias} | {by_level} | finest cells {inner:.2f} off, means within "
        f"{max(means, default=0):.3f} | {spent:.0f} s of processor time",
        flush=True,
    )


def main() -> None:
    """Print the rows that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=200_000)
    parser.add_argument("--sweeps", type=int, default=300)
    parser.add_argument("--moves", default="0,1,2,5")
    parser.add_argument("--keys", default="2,3", help="at most so many keys in a table")
    parser.add_argument("--oa", action="store_true", help="all tables of a city, down to output areas")
    given = parser.parse_args()
    moves = [int(move) for move in given.moves.split(",")]
    if given.oa:
        finest = ilba.build(ilba.datasets.census(given.people), ["LA1", "LA2", "LA3", "OA"], KEYS, K, secret=SECRET)
        wanted = selections(finest.design)
        row("OA by 5 keys", finest, wanted, None, 0)
        for move in moves:
            row("OA by 5 keys", finest, wanted, given.sweeps, move)
        return
    finest = ilba.build(ilba.datasets.census(given.people), ["LA1", "LA2", "LA3"], KEYS, K, secret=SECRET)
    for most in (int(most) for most in given.keys.split(",")):
        wanted = [
            finest.design.select(level, list(keys))
            for level in ("LA1", "LA2", "LA3")
            for number in range(most + 1)
            for keys in itertools.combinations(KEYS, number)
        ]
        name = f"LA1 to LA3 by at most {most} keys"
        row(name, finest, wanted, None, 0)
        for move in moves:
            row(name, finest, wanted, given.sweeps, move)


if __name__ == "__main__":
    main()
