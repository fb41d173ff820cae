"""How much all tables together prove, by release policy: the share of truly small finest cells.

    python bench/audit_policies.py              designs A K=3, 5, 10 and B to E K=5
    python bench/audit_policies.py A:5 F:5      these designs with this K

Each number is the percentage of the finest cells with a true count in 1..K-1 that anybody can prove to lie there; in
brackets, the percentage whose exact count is proven. Then come the number of certified cells, the seconds of the audit
and the peak memory of its process. Designs: A, C, E are LA1 > LA2 > LA3 by 3, 4, 5 keys; B, D, F go down to OA. Level 0
is released too.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import ilba
from ilba.datasets import census

AREAS = ["LA1", "LA2", "LA3", "OA"]
KEYS = ["gender", "edu", "age", "mar", "htype"]
DESIGNS = {"A": (3, 3), "B": (4, 3), "C": (3, 4), "D": (4, 4), "E": (3, 5), "F": (4, 5)}
DEFAULT = ["A:3", "A:5", "A:10", "B:5", "C:5", "D:5", "E:5"]
POLICIES = {
    "SCA applied to each aggregate": ("sca-aggregates", "grid"),
    "iLBA, observed rows listed": ("r-rows", "observed"),
    "iLBA, observed rows and flags": ("r-file", "observed"),
    "iLBA, observed reading": ("ilba", "observed"),
    "iLBA, grid reading": ("ilba", "grid"),
    "sums of the masked finest table": ("sca-sums", "grid"),
}


def one(design: str, K: int, policy: str) -> None:
    levels, keys = DESIGNS[design]
    method, cells = POLICIES[policy]
    # A fixed secret, so that the table prints the same on every run.
    secret = ilba.Secret.from_text("ilba-secret-1:" + "5e" * 32)
    finest = ilba.build(census(), AREAS[:levels], KEYS[:keys], K, secret=secret, cells=cells)
    start = time.perf_counter()
    report = ilba.audit(finest, method)
    seconds = time.perf_counter() - start
    safe = 100 * (report.cells_certified or 0) / (report.cells_small or 1)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{design} K={K:<3} {policy:<32}{100 * report.share:6.1f} ({100 * report.share_exact:.1f})".ljust(58)
        + f"certified {safe:5.1f}   {len(report.published.tables):>4} tables {seconds:7.1f} s {memory:5.2f} GB",
        flush=True,
    )


def main(wanted: list[str]) -> int:
    for design, K in (name.split(":") for name in wanted or DEFAULT):
        for policy in POLICIES:  # each in a process of its own, so that its peak memory is its own
            done = subprocess.run([sys.executable, "-W", "ignore", __file__, "--one", design, K, policy])
            if done.returncode:
                return done.returncode
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(sys.argv[2], int(sys.argv[3]), sys.argv[4])
    else:
        sys.exit(main(sys.argv[1:]))
