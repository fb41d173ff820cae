"""The time of cell keys and of iLBA: 20 tables on a million records, all counted from the same store.

`python bench/cell_keys.py [RECORDS]` prints the time of each method and their ratio, as wall time and as processor
time, since the machine may be busy. Drawing the record keys is part of the time of cell keys.
"""

from __future__ import annotations

import itertools
import sys
import time

import ilba
from ilba import methods

SECRET = ilba.Secret(bytes(range(32)))
LEVELS = ["LA1", "LA2", "LA3", "OA"]
KEYS = ["gender", "edu", "age", "mar"]
SUITE = [(level, list(keys)) for level in LEVELS for keys in itertools.combinations(KEYS, 2)][:20]
METHODS = {"ilba": "ilba", "cell-key": methods.CellKey(D=5, V=3.0, js=2, pstay=0.5)}
TIMES = 5


def suite(finest: ilba.FinestTable, method: methods.Method | str) -> tuple[float, float]:
    """Make the tables of the suite from a store that nothing was asked of yet."""
    wall, cpu = time.perf_counter(), time.process_time()
    masked = finest.with_method(method)
    for level, keys in SUITE:
        _ = masked.table(level, keys).frame
    return time.perf_counter() - wall, time.process_time() - cpu


def main(records: int) -> None:
    """Measure both, in turn, and take the best of each."""
    people = ilba.datasets.census(records)
    built = ilba.build(people, LEVELS, KEYS, secret=SECRET)
    METHODS["cell-key"].moves  # noqa: B018 - the p-table is made once, before any table
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in METHODS}
    for _ in range(TIMES):
        for name, method in METHODS.items():
            built._drawn = ("", None)  # keys are drawn anew
            found[name].append(suite(built, method))
    best = {name: tuple(min(one) for one in zip(*times, strict=True)) for name, times in found.items()}
    for name, (wall, cpu) in best.items():
        print(f"{name:<10} {len(SUITE)} tables of {records:,} records: {wall:.2f} s, {cpu:.2f} s of processor time")
    wall, cpu = (best["cell-key"][place] / best["ilba"][place] for place in (0, 1))
    print(f"cell-key / ilba: {wall:.2f} by the clock, {cpu:.2f} by processor time")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
