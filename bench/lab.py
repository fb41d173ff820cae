"""Compare ten methods on the design of census A: a million people by three levels, gender, education and age.

`python bench/lab.py [RECORDS]` prints a line for each method with its time, then the whole comparison.
"""

from __future__ import annotations

import sys
import time

import ilba
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
]


def main(records: int) -> None:
    """Build the finest table, compare, print."""
    secret = ilba.Secret(bytes(range(32)))
    people = ilba.datasets.census(records)
    finest = ilba.build(people, ["LA1", "LA2", "LA3"], ["gender", "edu", "age"], secret=secret)
    start, cpu = time.perf_counter(), time.process_time()

    def tell(step: ProgressStep) -> None:
        if step.stage == "comparing":
            print(
                f"{step.done} of {step.total}: {time.perf_counter() - start:.1f} s wall clock, "
                f"{time.process_time() - cpu:.1f} s of processor time",
                flush=True,
            )

    compared = ilba.compare(finest, methods=METHODS, levels=[0, "LA2", "LA3"], secret=secret, progress=tell)
    for row in compared.rows.iter_rows(named=True):
        print(
            "{method:<32} loss {mean_loss:6.2f} p99 {p99_loss:4} max {max_loss:5} proven {provable:7.2%} "
            "exact {exact:7.2%} blank {blank:6.2%} invented {invented:8,} {seconds:7.1f} s".format(**row)
        )
    print(compared.title)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
