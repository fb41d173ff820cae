"""The cost of exporting a large table: seconds, memory of the whole process and size, for each format.

    python bench/exports.py

Each export runs in a separate process.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import ilba
from ilba.output.export import FORMATS
from ilba.output.wording import WordedTable

HKEY, KEY = ["LA1", "LA2", "LA3", "OA"], ["gender", "age", "edu", "mar", "htype"]
NAME = "LA3.gender.age.edu.mar.htype"
RUN = """
import re, sys, time
from pathlib import Path
from ilba.output.export import export
start = time.perf_counter()
first, *_ = export(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4])
took = time.perf_counter() - start
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
print(f"| {sys.argv[3]} | {took:.1f} | {peak:.0f} | {first.stat().st_size / 2**20:.0f} |")
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        finest = ilba.build(ilba.datasets.census(1_000_000), HKEY, KEY, secret=ilba.Secret(bytes(32)))
        release = finest.release(folder / "release", tables=[NAME], method="ilba", accept_risk=True, ledger=False)
        cells = len(WordedTable(release, release.tables[NAME], release.table(NAME)).values)
        print(f"| {release.tables[NAME].rows:,} rows, {cells:,} cells | seconds | MB of memory | MB of file |")
        print("|---|--:|--:|--:|")
        for kind in FORMATS:
            command = [sys.executable, "-c", RUN, str(release.path), NAME, kind, str(folder / f"table.{kind}")]
            print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="", flush=True)


if __name__ == "__main__":
    main()
