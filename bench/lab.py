"""Compare the methods of the lab: on the design of census A, or on group 1 of the EU's census cubes of 2021.

`python bench/lab.py [RECORDS]` takes a million people by three levels, gender, education and age.
`ILBA_SHARED=.. python bench/lab.py eu` takes the 10,000 people of the reference data in four linked cubes.
Both print the time when a method is done, then a line for each method.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl

import ilba
from ilba.design.tables import wanted_tables
from ilba.progress import ProgressStep

METHODS = [
    "sca",
    "ilba",
    "controlled",
    "cell-key:D=2,V=1",
    "cell-key:D=5,V=3,js=2,pstay=0.5",
    "rounding:3",
    "rounding:5",
    "small-count-rounding:5",
    "suppression",
    "noise:1",
    "noise:epsilon=1,fit=true",
    "suppression:kind=optimal,seconds=60",
]
MEASURES = ["mean_loss", "p99_loss", "max_loss", "provable", "provable_counts", "blank", "invented", "seconds"]


SECRET = ilba.Secret(bytes(range(32)))


def census(records: int) -> tuple[ilba.FinestTable, dict[str, Any]]:
    """The finest table of census A, and which of its tables are compared."""
    people = ilba.datasets.census(records)
    finest = ilba.build(people, ["LA1", "LA2", "LA3"], ["gender", "edu", "age"], secret=SECRET)
    return finest, {"levels": [0, "LA2", "LA3"]}


def eu_cubes(folder: Path) -> tuple[ilba.FinestTable, dict[str, Any]]:
    """Group 1 of the EU's cubes: age, marital status, household and family status at all their levels, by sex."""
    frame = pl.read_csv(folder / "group1_synthetic.csv", infer_schema=False).with_columns(
        N=pl.col("freq").cast(pl.Int64)
    )
    levels = {"age": "lmh", "lms": "lh", "hst": "lmh", "fst": "lmh"}
    hkey = {name: [f"{name}_{level}" for level in deep] for name, deep in levels.items()}
    finest = ilba.FinestTable.from_counts(frame.drop("freq"), hkey, ["sex"], secret=SECRET)
    tables = []
    for cube in (("age", "lms"), ("age", "hst"), ("age", "fst"), ("lms", "hst")):
        for one, other in itertools.product(["", *hkey[cube[0]]], ["", *hkey[cube[1]]]):
            area = "+".join(filter(None, [one, other])) or "all"
            tables += [area, f"{area}.sex"]
    return finest, {"tables": list(dict.fromkeys(tables))}


def main(what: str) -> None:
    """Build the finest table, compare, print."""
    shared = Path(os.environ.get("ILBA_SHARED", "../shared"))
    finest, wanted = eu_cubes(shared / "outside" / "08_eu_2021") if what == "eu" else census(int(what))
    start, cpu = time.perf_counter(), time.process_time()

    def tell(step: ProgressStep) -> None:
        if step.stage == "comparing":
            print(
                f"{step.done} of {step.total}: {time.perf_counter() - start:.1f} s wall clock, "
                f"{time.process_time() - cpu:.1f} s of processor time",
                flush=True,
            )

    plan = wanted_tables(finest.design, **wanted)
    compared = ilba.compare(finest, methods=METHODS, secret=SECRET, plan=plan, progress=tell, **wanted)
    print(compared.title)
    print(compared.text(MEASURES))
    print("\n".join(compared.remarks))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "1000000")
