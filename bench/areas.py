"""The audit by areas: time, memory and growth with the number of cities.

    python bench/areas.py                             1, 4 and 10 cities of a million people, gender, edu and age
    python bench/areas.py --cities 4,10 --keys 5      all 160 tables
    python bench/areas.py --method controlled         sums of masks, which need no attack
    python bench/areas.py --release FOLDER            a release of sums, as left by `bench/nation_release.py --keep`
    python bench/areas.py --folder FOLDER             the folder of the stores; missing ones are made

Each number of cities runs in a separate process, so that its memory is its own. "beyond" is the peak of the memory
during the audit, minus the memory of the process before it, with the store open (Linux).
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import ilba
from ilba.attack.areas import VISITS
from nation import AREAS, KEYS, SECRET, built, peak


def memory(what: str) -> float:
    """The memory of this process in GB: `VmRSS` now, or its peak `VmHWM`."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 2**20


def before_audit() -> float:
    """Begin a new peak; return the memory in use."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def audited(cities: int, keys: int, method: str, folder: Path) -> dict[str, Any]:
    finest = built(cities, folder)
    if keys < len(KEYS):  # a smaller finest table of the same people
        counts = finest.table("OA", KEYS[:keys]).detail.select(*AREAS, *KEYS[:keys], "N")
        finest = ilba.FinestTable.from_counts(counts, AREAS, KEYS[:keys], secret=SECRET)
        del counts
    before, wall, cpu = before_audit(), time.perf_counter(), time.process_time()
    report = ilba.audit(finest, method, areas=True, explanations=0)
    return {
        "cities": cities, "tables": len(report.published.tables), "cells": len(finest), "small": report.cells_small,
        "proven": report.cells_disclosed, "cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall,
        "GB": memory("VmHWM"), "beyond": memory("VmHWM") - before,
    }  # fmt: skip


def of_release(folder: Path) -> None:
    release = ilba.Release(folder)
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    report = ilba.audit(release, areas=True)
    rows = sum(table.rows for table in release.tables.values())
    print(
        f"{len(release.tables)} tables, {rows:,} rows: {report.verdict} {time.process_time() - cpu:.0f} s of the "
        f"processor, {time.perf_counter() - wall:.0f} s on the wall; {peak():.2f} GB, {before:.2f} before"
    )


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("--cities", default="1,4,10")
    asked.add_argument("--keys", type=int, default=3)
    asked.add_argument("--method", default="ilba")
    asked.add_argument("--release", type=Path)
    asked.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "ilba-nation")
    asked.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.release:
        of_release(given.release)
        return 0
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.one:
        print(json.dumps(audited(given.one, given.keys, given.method, given.folder)))
        return 0
    rows = []
    print(f"at most {VISITS} visits to an area")
    for cities in map(int, given.cities.split(",")):
        command = [sys.executable, __file__, "--one", cities, "--keys", given.keys, "--method", given.method]
        command += ["--folder", given.folder]
        said = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
        row = json.loads(said.stdout.splitlines()[-1])
        rows.append(row)
        print(
            f"{row['cities']:3} cities, {row['tables']} tables, {row['cells']:,} cells: {row['proven']:,} of "
            f"{row['small']:,} small cells proven; {row['cpu']:.0f} s of the processor, {row['wall']:.0f} s on the "
            f"wall; {row['GB']:.2f} GB, {row['beyond']:.2f} beyond the store",
            flush=True,
        )
    for a, b in pairwise(rows):
        grown = math.log(b["cpu"] / a["cpu"]) / math.log(b["cells"] / a["cells"])
        more = math.log(b["beyond"] / a["beyond"]) / math.log(b["cells"] / a["cells"])
        print(
            f"growth from {a['cities']} to {b['cities']} cities: processor time with exponent {grown:.2f}, memory "
            f"beyond the store {more:.2f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
