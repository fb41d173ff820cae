"""The time to open a finest table saved by R, here and in R: writes the figures into docs/do/coming-from-r.md.

    python bench/rfiles.py

Needs R (Debian: r-base-core). Each reading runs in a separate process.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import ilba

PAGE = Path(__file__).parent.parent / "docs" / "do" / "coming-from-r.md"
HKEY, KEY = ["LA1", "LA2", "LA3", "OA"], ["gender", "age", "edu", "mar", "htype"]
SAVE = """
d <- read.csv("counts.csv", colClasses = "character")
d$N <- as.integer(d$N)
d$N_masked <- as.integer(d$N_masked)
hkey <- c("LA1", "LA2", "LA3", "OA")
key <- c("gender", "age", "edu", "mar", "htype")
values <- function(names) lapply(names, function(name) unique(d[[name]]))
saveRDS(list(full_tb = d, mask_thr = 5L, hkey = hkey, hkey_values = values(hkey), key = key,
             key_values = values(key)), "full_tb.rds")
"""
READ_R = """
took <- min(sapply(1:3, function(i) system.time(readRDS("full_tb.rds"))[["elapsed"]]))
peak <- grep("VmHWM", readLines("/proc/self/status"), value = TRUE)
cat(took, as.integer(gsub("[^0-9]", "", peak)) / 1024)
"""
READ = """
import re, time, ilba
from pathlib import Path
took = []
for _ in range(3):
    start = time.perf_counter(); ilba.read_rds("full_tb.rds"); took.append(time.perf_counter() - start)
print(min(took), int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def run(*command: str, folder: Path) -> list[float]:
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    return [float(number) for number in said.split()]


def main() -> None:
    if shutil.which("Rscript") is None:
        sys.exit("this needs R: apt-get install r-base-core")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        finest = ilba.build(ilba.datasets.census(1_000_000), HKEY, KEY, secret=ilba.Secret(bytes(32)))
        finest.frame.write_csv(folder / "counts.csv")
        run("Rscript", "-e", SAVE, folder=folder)
        rows = {
            "`readRDS` in R": run("Rscript", "-e", READ_R, folder=folder),
            "`ilba.read_rds`": run(sys.executable, "-c", READ, folder=folder),
        }
    lines = [f"| {len(finest):,} cells | seconds | MB |", "|---|--:|--:|"]
    lines += [f"| {name} | {seconds:.1f} | {megabytes:.0f} |" for name, (seconds, megabytes) in rows.items()]
    made_of = "(`python bench/rfiles.py`, the best of three, the memory of the whole process; two cores)"
    text = "\n".join([*lines, "", made_of])
    print(text)
    page = PAGE.read_text("utf-8")
    marks = r"(<!-- made by bench/rfiles.py -->\n).*?(<!-- end -->)"
    PAGE.write_text(re.sub(marks, lambda m: f"{m[1]}{text}\n{m[2]}", page, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    main()
