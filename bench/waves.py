"""The cost of never changing a published mask: waves of a census in which a few people change each time.

python bench/waves.py [--people 100000] [--waves 6] [--moved 0.01]

Each wave is published through the ledger, with all tables in view. The script prints the small counts without a
published mask, the largest error, the counts more than 7 off and the mean loss; the last two also for the totals, which
are the tables of at most one variable; and how many masks of unchanged counts differ from the first ones.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import ilba

HKEY, KEY = ["LA1", "LA2", "LA3"], ["gender", "age", "edu"]


def moved(people: pl.DataFrame, share: float, seed: int) -> pl.DataFrame:
    """The people of the next wave: some have changed places with others in all their keys."""
    rng = np.random.default_rng(seed)
    chosen = np.flatnonzero(rng.random(people.height) < share)
    order = np.arange(people.height)
    order[chosen] = rng.permutation(chosen)
    return people.select(*HKEY).hstack(people.select(KEY)[order])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--waves", type=int, default=6)
    parser.add_argument("--moved", type=float, default=0.01)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ilba.Notice)
    people = ilba.datasets.census(asked.people).select(*HKEY, *KEY)
    waves = [people]
    for seed in range(asked.waves // 2):
        waves.append(moved(waves[-1], asked.moved, seed))
    waves += waves[-2::-1]  # and back again
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        secret = ilba.Secret(bytes(range(32)))
        secret.to_file(home / "agency.secret")
        first: dict[tuple[object, ...], int] = {}
        print(
            f"{'wave':>4} {'free cells':>11} {'largest':>8} {'over 7':>8} {'mean loss':>10} {'totals':>7} "
            f"{'over 7':>7} {'mean loss':>10} {'differ from first':>18}"
        )
        for number, wave in enumerate(waves):
            finest = ilba.build(wave, HKEY, KEY, secret=home / "agency.secret", population="register", wave=str(number))
            release = finest.release(home / "out")
            shown = {row[:-1]: row[-1] for row in release.table("LA3.gender.age.edu").rows()}
            cells = finest.frame.select(*HKEY, *KEY, "N").rows()
            small = [row for row in cells if row[-1] < finest.design.threshold]
            differ = sum(row in first and first[row] != shown.get(row[:-1], 0) for row in small)
            free = sum(row not in first for row in small)
            for row in small:
                first.setdefault(row, shown.get(row[:-1], 0))
            losses, of_totals = [], []
            for table in finest.cube():
                columns = list(table.selection.columns)
                there = release.table(table.selection.name).rename({"N_masked": "shown"})
                if columns:
                    texts = dict.fromkeys(columns, pl.String)
                    both = table.detail.cast(texts).join(there.cast(texts), on=columns, how="left", nulls_equal=True)
                else:
                    both = pl.concat([table.detail, there], how="horizontal")
                losses.append((both["shown"].fill_null(0) - both["N"]).abs().to_numpy())
                if bool(table.selection.finest) + len(table.selection.keys) <= 1:
                    of_totals.append(losses[-1])
            every, totals = np.concatenate(losses), np.concatenate(of_totals)
            print(
                f"{number:>4} {free:>11,} {every.max():>8} {(every > 7).sum():>8,} {every.mean():>10.2f} "
                f"{len(totals):>7} {(totals > 7).sum():>7} {totals.mean():>10.2f} {differ:>18}"
            )


if __name__ == "__main__":
    main()
