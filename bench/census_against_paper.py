"""The synthetic census compared with the paper's: rows of its tables, and the distribution of the loss.

    python bench/census_against_paper.py            the default census
    python bench/census_against_paper.py 1 2 3      the censuses of these seeds, worst deviations only

Exit code 0 if everything is within the limits: rows within 3%, exact below 100, loss classes within 1.5 percentage
points; for seeds other than the default, within 5% and 2 points.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import ilba
from ilba.datasets import census

SEED = 2010
HKEY = ["LA1", "LA2", "LA3", "OA"]
KEY = ["gender", "age", "edu", "mar", "htype"]
GROWING = ["gender", "mar", "edu", "age", "htype"]
LOSS_KEY = ["gender", "age", "htype"]

PAPER_ROWS = {
    1: (2, 10, 79, 777, 5140),
    2: (10, 50, 387, 3591, 21474),
    3: (156, 780, 5627, 37070, 145061),
    4: (5012, 24777, 116297, 370774, 617543),
}
PAPER_LOSS_ROWS = 36802
PAPER_LOSS = {
    -4: 0.00, -3: 0.00, -2: 9.48, -1: 23.86, 0: 14.04, 1: 16.39, 2: 19.05, 3: 11.34, 4: 4.65, 5: 0.77, 6: 0.42
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    what: str
    ours: float
    paper: float
    off: float
    unit: str
    passed: bool

    def __str__(self) -> str:
        digits = 0 if self.unit == "%" else 2
        mark = "pass" if self.passed else "MISS"
        counts = f"{self.ours:>10,.{digits}f}{self.paper:>10,.{digits}f}"
        return f"{self.what:<46}{counts}{self.off:>+9.2f} {self.unit:<3} {mark}"


def rows_line(what: str, ours: int, paper: int, limit: float) -> Line:
    off = 100 * (ours / paper - 1)
    passed = ours == paper if paper < 100 else abs(off) <= limit
    return Line(what, ours, paper, off, "%", passed)


def compare(seed: int) -> list[Line]:
    rows_limit, loss_limit = (3.0, 1.5) if seed == SEED else (5.0, 2.0)
    # A fixed secret, so that the comparison prints the same on every run.
    secret = ilba.Secret.from_text("ilba-secret-1:" + "5e" * 32)
    finest = ilba.build(census(seed=seed), hkey=HKEY, key=KEY, mask_thr=5, secret=secret)
    lines = []
    for level, counts in PAPER_ROWS.items():
        for last, paper in enumerate(counts, start=1):
            keys = GROWING[:last]
            ours = len(finest.table(level=level, key=keys))
            lines.append(rows_line(f"rows, {HKEY[level - 1]} x {', '.join(keys)}", ours, paper, rows_limit))
    distribution = finest.table(level=3, key=LOSS_KEY).loss
    n = dict(zip(distribution["Loss"].to_list(), distribution["n"].to_list(), strict=True))
    total = n.pop("Total")
    lines.append(rows_line(f"rows, LA3 x {', '.join(LOSS_KEY)}", total, PAPER_LOSS_ROWS, rows_limit))
    for value in sorted({*PAPER_LOSS, *(int(label) for label in n)}):
        ours_share, paper_share = 100 * n.get(str(value), 0) / total, PAPER_LOSS.get(value, 0.0)
        off = ours_share - paper_share
        lines.append(Line(f"loss {value:+d}, %", ours_share, paper_share, off, "pts", abs(off) <= loss_limit))
    return lines


def worst(lines: list[Line], unit: str) -> Line:
    return max((line for line in lines if line.unit == unit), key=lambda line: abs(line.off))


def main(seeds: list[int]) -> int:
    missed = 0
    if not seeds:
        start = time.perf_counter()
        census()
        print(f"census() took {time.perf_counter() - start:.2f} s\n")
        lines = compare(SEED)
        print(f"{'':<46}{'ours':>10}{'paper':>10}{'off':>9}")
        print(*lines, sep="\n")
        missed = sum(not line.passed for line in lines)
        print(f"\n{len(lines) - missed} pass, {missed} miss")
    for seed in seeds:
        lines = compare(seed)
        misses = [line for line in lines if not line.passed]
        missed += len(misses)
        rows, loss = worst(lines, "%"), worst(lines, "pts")
        print(f"seed {seed}: worst {rows.off:+.2f}% ({rows.what}), {loss.off:+.2f} points ({loss.what})")
        print(*(f"    {line}" for line in misses), sep="\n", end="\n" if misses else "")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main([int(seed) for seed in sys.argv[1:]]))
