"""What the ledger costs: its size on disk, and the seconds that it adds to a publication.

python bench/ledger.py [--people 1000000] [--cities 1,4]

For copies of a census city the ledger does the same as in a publication: it finds the population, reads and compares
the published masks, keeps the new ones, and writes its entries. The script chooses no masks and writes no tables. The
first publication keeps every mask, the second finds each of them.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import polars as pl

import ilba
from ilba.release import recognising

HKEY, KEY = ["LA1", "LA2", "LA3", "OA"], ["gender", "age", "edu", "mar", "htype"]


def size(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def built(people: pl.DataFrame, cities: int, secret: Path) -> ilba.FinestTable:
    """The finest table of some copies of a city."""
    areas = [[pl.format(f"{n:02d}{{}}", pl.col(c)).alias(c) for c in HKEY] for n in range(cities)]
    everybody = pl.concat([people.with_columns(names) for names in areas])
    return ilba.build(everybody, HKEY, KEY, secret=secret, population="nation")


def published(finest: ilba.FinestTable, ledger: Path) -> float:
    """The seconds that the ledger takes for one publication."""
    told = {"method": "ilba", "threshold": 5, "cells": "grid", "columns": [*HKEY, *KEY], "tables": ["all"]}
    start = time.perf_counter()
    own = finest.own_secret()
    with recognising.opened(finest, own, recognising.ledger_of(ledger, own, False)) as here:
        here.check(finest, ("ilba", 5, "grid"), None)
        here.keep_masks(finest)
        here.enter({**told, "masks": finest.marks()[1], "audit": "not audited"})
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=1_000_000)
    parser.add_argument("--cities", default="1,4")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ilba.Notice)
    people = ilba.datasets.census(asked.people).select(*HKEY, *KEY)
    print(f"{'people':>11} {'cells':>11} {'small':>11} {'first s':>8} {'second s':>9} {'MB':>7} {'bytes a cell':>13}")
    for cities in map(int, asked.cities.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            home = Path(folder)
            ilba.Secret(bytes(range(32))).to_file(home / "agency.secret")
            finest = built(people, cities, home / "agency.secret")
            small = int((finest.cells["N"] < 5).sum())
            first, second = (published(finest, home / "agency.ledger") for _ in range(2))
            disk = size(home / "agency.ledger")
            print(
                f"{cities * len(people):>11,} {len(finest):>11,} {small:>11,} {first:>8.2f} {second:>9.2f} "
                f"{disk / 1e6:>7.1f} {disk / small:>13.2f}"
            )


if __name__ == "__main__":
    main()
