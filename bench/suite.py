"""Speed and memory against floors measured in the same run.

    python bench/suite.py             the census of a million: about a minute
    python bench/suite.py --large     also 10 and 50 million records: some minutes and 2 GB of disk
    python bench/suite.py --record    also write bench/results/DATE.json

A machine is noisy, so a figure is the best of several interleaved repetitions, and a ratio to the time of a plainer job
on the same machine: polars' group_by, or reading and writing the same bytes. The script asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.metadata
import io
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import ilba

HKEY = ["LA1", "LA2", "LA3", "OA"]
KEY = ["gender", "age", "edu", "mar", "htype"]
SUITE = [(level, ["gender", "mar", "edu", "age", "htype"][:n]) for level in range(1, 5) for n in range(1, 6)]
SECRET = ilba.Secret(bytes(range(32)))
ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "bench" / "results"
PAGE = ROOT / "docs" / "understand" / "speed.md"


def best(*jobs: Callable[[], Any], repeat: int = 5) -> list[float]:
    """The shortest time of each job, taken in turns so that a disturbance hits all of them."""
    times = [math.inf] * len(jobs)
    for _ in range(repeat):
        for place, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            times[place] = min(times[place], time.perf_counter() - start)
    return times


class Report:
    """Rows of the benchmark, printed as they come."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        print(f"{'job':<58}{'time':>11}{'floor':>11}{'ratio':>8}{'target':>9}  ")

    def ratio(self, job: str, seconds: float, floor: float, target: float) -> None:
        value = seconds / floor
        self._add(
            job, f"{seconds * 1e3:.1f} ms", f"{floor * 1e3:.1f} ms", f"{value:.2f}x", f"{target}x", value <= target
        )

    def value(self, job: str, value: float, unit: str, target: float) -> None:
        self._add(job, f"{value:.3g} {unit}", "", "", f"{target:g} {unit}", value <= target)

    def faster(self, job: str, times: float, target: float) -> None:
        """A ratio that is to be large."""
        self._add(job, "", "", f"{times:.1f}x", f"{target}x", times >= target)

    def note(self, job: str, text: str) -> None:
        self._add(job, text, "", "", "", None)

    def _add(self, job: str, took: str, floor: str, ratio: str, target: str, hit: bool | None) -> None:
        mark = {True: "hit", False: "MISS", None: ""}[hit]
        self.rows.append({"job": job, "time": took, "floor": floor, "ratio": ratio, "target": target, "result": mark})
        print(f"{job:<58}{took:>11}{floor:>11}{ratio:>8}{target:>9}  {mark}", flush=True)


def million(report: Report, folder: Path) -> None:
    people = ilba.datasets.census()
    store = folder / "full_tb.parquet"

    def floor_build() -> None:
        people.group_by(HKEY + KEY).len().write_parquet(folder / "floor.parquet")

    def build() -> None:
        ilba.build(people, HKEY, KEY, secret=SECRET, output_path=store)

    took_build, floor_b = best(build, floor_build, repeat=9)
    report.ratio("build with keyed draws / group_by count + parquet", took_build, floor_b, 1.5)

    finest = ilba.open_store(store)
    K = finest.design.threshold
    n, masked = pl.col("N"), pl.col("N_masked")
    labelled = finest.frame.select(
        *HKEY,
        *KEY,
        sum_large=pl.when(n > K).then(n).otherwise(0),
        n_small=(n <= K).cast(pl.Int64),
        n_at_threshold=((n <= K) & (masked == K)).cast(pl.Int64),
        sum_small=pl.when(n <= K).then(n).otherwise(0),
    )

    def floor_suite() -> None:
        for level, keys in SUITE:
            labelled.group_by(HKEY[:level] + keys).agg(
                pl.col("sum_large", "n_small", "n_at_threshold", "sum_small").sum()
            )

    def suite() -> None:
        opened = ilba.open_store(store)
        for level, keys in SUITE:
            opened.table(level, keys).write_csv(folder / "agg.csv", folder / "loss.csv")

    def r_names() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            for level, keys in SUITE:
                ilba.save_agg_tb(level, keys, store, folder / "agg.csv", folder / "loss.csv")

    took_20, floor_20, took_r = best(suite, floor_suite, r_names, repeat=9)
    report.ratio("20 tables: iLBA, loss, sort, CSV / 20 group_by of 4 sums", took_20, floor_20, 0.7)
    report.ratio("20 tables through the R names / 20 group_by of 4 sums", took_r, floor_20, 0.7)

    largest = finest.table(4, KEY).frame

    def floor_largest() -> None:
        pl.read_parquet(store)
        largest.write_csv(folder / "floor.csv")

    def table() -> None:
        ilba.open_store(store).table(4, KEY).write_csv(folder / "agg.csv")

    took_largest, floor = best(table, floor_largest, repeat=15)
    report.ratio(f"level 4 x 5 keys, {largest.height:,} rows / read store + write CSV", took_largest, floor, 1.6)

    def cube() -> None:
        shutil.rmtree(folder / "cube", ignore_errors=True)
        finest.cube().write(folder / "cube")

    (took,) = best(cube, repeat=3)
    report.ratio("cube of 160 tables, labelled Parquet / 20 group_by", took, floor_20, 3)

    question = ("LA3", ["gender", "age", "htype"], ["01", "0104", "010407"], [2, 4, 21])
    finest.cell(*question)
    (took,) = best(lambda: [finest.cell(*question) for _ in range(200)])
    report.value("one cell, warm (LA3 x 3 keys)", took / 200 * 1e3, "ms", 0.2)
    words = [str(store), "--level", "LA3", "--key", "gender,age,htype", "--hkey-value", "01,0104,010407"]
    asked = ["-m", "ilba", "cell", *words, "--key-value", "2,4,21"]
    kept = folder / "compiled"
    took, bare = best(lambda: run(*asked, compiled=kept), lambda: run("-c", "pass", compiled=kept), repeat=15)
    report.value("`ilba cell`, cold process", took, "s", 0.35)
    took, polars = best(
        lambda: run("-c", "import polars, ilba", compiled=kept),
        lambda: run("-c", "import polars", compiled=kept),
        repeat=7,
    )
    report.value("import ilba beyond polars", took - polars, "s", 0.12)
    report.note("python itself, for comparison", f"{bare * 1e3:.0f} ms")
    by_r(
        report,
        folder,
        people,
        {
            "build": (took_build, floor_b),
            "tables": (took_20, floor_20),
            "r names": (took_r, floor_20),
            "largest": (took_largest, floor_20),
        },
    )


# What the R package took beside these floors, in one run on one machine (R 4.2, 669,821 cells of a like census): the
# build 2.69 s where polars' group_by and writing took 0.274 s; 20 tables 61.4 s and level 4 x 5 keys 24.4 s where the
# 20 group_by took 1.06 s.
RECORDED = {"build": 2.69 / 0.274, "tables": 61.4 / 1.06, "r names": 61.4 / 1.06, "largest": 24.4 / 1.06}
FASTER = {
    "build": ("build and save", 12),
    "tables": ("20 tables through Python", 100),
    "r names": ("20 tables through the R names", 100),
    "largest": ("level 4 x 5 keys", 150),
}


def by_r(report: Report, folder: Path, people: pl.DataFrame, took: dict[str, tuple[float, float]]) -> None:
    """How many times faster than the R package: in this run where R has it, else by the recorded ratios to floors."""
    here = r_seconds(folder, people)
    report.note("the R package", "measured in this run" if here else "not here: recorded ratios to the same floors")
    for name, (job, target) in FASTER.items():
        seconds, floor = took[name]
        of_r = here[name] if here else RECORDED[name] * floor
        report.faster(f"{job}, times faster than R", of_r / seconds, target)


def rscript() -> str | None:
    """Where R is: on the PATH, in R_HOME, or where its packages put it."""
    places = [os.environ.get("R_HOME", ""), "/usr/lib/R", "/usr/local/lib/R", *map(str, Path("/opt/R").glob("*"))]
    found = [str(Path(place, "bin", "Rscript")) for place in places if place and Path(place, "bin", "Rscript").exists()]
    return shutil.which("Rscript") or next(iter(found), None)


def r_seconds(folder: Path, people: pl.DataFrame) -> dict[str, float] | None:
    """What the R package takes for the same work, where it is installed (R_LIBS says where else R looks)."""
    program = rscript()
    if program is None:
        return None
    people.write_csv(folder / "people.csv")
    calls = "\n".join(
        f'save_agg_tb({level}, c({", ".join(map(repr, keys))}), "f.rds", "a.csv", "l.csv")' for level, keys in SUITE
    )
    text = 'library(iLBA); d <- data.table::fread("people.csv", colClasses=list(character=1:4))\n'
    text += "s <- function() proc.time()[[3]]; t <- s()\n"
    text += 'save_full_tb(d, c("LA1","LA2","LA3","OA"), output_path="f.rds"); b <- s() - t; t <- s()\n'
    text += calls + "\nn <- s() - t; t <- s()\n" + calls.splitlines()[-1]
    text += "\ncat('seconds', b, n, s() - t)"
    done = subprocess.run([program, "-e", text], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    build, tables, largest = map(float, done.stdout.rpartition("seconds ")[2].split())
    return {"build": build, "tables": tables, "r names": tables, "largest": largest}


def run(*words: str, compiled: Path | None = None) -> str:
    """Run Python; with a folder for compiled modules, which an installed package has, whatever this shell says."""
    env = {**os.environ}
    if compiled is not None:
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env["PYTHONPYCACHEPREFIX"] = str(compiled)
    return subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True, env=env).stdout


LARGE = """
import json, resource, sys, time, ilba
clock = time.perf_counter()
finest = ilba.build(sys.argv[1], {hkey}, {key}, secret=ilba.Secret(bytes(range(32))), output_path=sys.argv[2])
built = time.perf_counter()
rows = len(finest.table(3, {key}))
done = time.perf_counter()
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
print(json.dumps([built - clock, done - built, peak, len(finest), rows]))
"""


def large(report: Report, folder: Path) -> None:
    seconds = {}
    for millions in (1, 10, 50):
        parts = ilba.datasets.census_parts(folder / f"cities{millions}", scale=millions)
        script = LARGE.format(hkey=HKEY, key=KEY)
        build, table, peak, cells, rows = json.loads(run("-c", script, str(parts), str(folder / "large.parquet")))
        shutil.rmtree(parts)
        seconds[millions] = build + table
        report.note(
            f"{millions}M records from {millions} parquet parts: build + LA3 x 5 keys",
            f"{build:.1f} + {table:.1f} s, {peak:.2f} GB, {cells:,} cells, {rows:,} rows",
        )
    report.value("peak memory at 50M records", peak, "GB", 3)
    report.value("time from 10M to 50M records", seconds[50] / seconds[10], "x", 5.5)
    report.note("growth exponent from 10M to 50M", f"{math.log(seconds[50] / seconds[10]) / math.log(5):.2f}")


def record(result: dict[str, Any], path: Path) -> None:
    """Keep a run as a file of its own, and show it on the page in the docs."""
    path.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.with_suffix(".svg").write_text(picture(result), encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- measured -->\n")
    PAGE.write_text(f"{before}<!-- measured -->\n{as_table(result)}<!-- end -->{rest.partition('<!-- end -->')[2]}")


def picture(result: dict[str, Any]) -> str:
    """How each job stands to its target, as SVG: below 1 is better than asked."""
    import altair as alt
    import vl_convert

    def number(text: str) -> float:
        return float(text.removesuffix("x").split()[0])

    def share_of(row: dict[str, Any]) -> float:
        share = number(row["ratio"] or row["time"]) / number(row["target"])
        return 1 / share if "times faster" in row["job"] else share

    shares = [{"job": row["job"].split(" / ")[0], "share": share_of(row)} for row in result["rows"] if row["target"]]
    for share in shares:
        share["text"] = f"{share['share']:.2f}"
    bars = alt.Chart(alt.Data(values=shares)).encode(
        y=alt.Y("job:N", sort=None, title=None, axis=alt.Axis(labelLimit=420))
    )
    colour = alt.condition("datum.share <= 1", alt.value("#0072b2"), alt.value("#e69f00"))
    share = alt.X("share:Q", title="measured / target (1 is the target)")
    chart = bars.mark_bar().encode(x=share, color=colour) + bars.mark_text(align="left", dx=4).encode(
        x=share, text="text:N"
    )
    chart += alt.Chart(alt.Data(values=[{"x": 1}])).mark_rule(strokeDash=[4, 3]).encode(x="x:Q")
    title = f"Speed against its targets, {result['date']}"
    return str(
        vl_convert.vegalite_to_svg(
            chart.properties(width=420, title=title, padding={"left": 30, "right": 20, "top": 5, "bottom": 5}).to_dict()
        )
    )


def as_table(result: dict[str, Any]) -> str:
    """A recorded run in Markdown."""
    head = f"{result['date']}, {result['cores']} cores ({result['machine']}), Python {result['python']}, "
    head += ", ".join(f"{name} {result[name]}" for name in ("polars", "numpy", "cryptography"))
    columns = ("job", "time", "floor", "ratio", "target", "result")
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    lines += ["| " + " | ".join(str(row[column]) for column in columns) + " |" for row in result["rows"]]
    return f"\n{head}:\n\n" + "\n".join(lines) + "\n\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--large", action="store_true")
    options.add_argument("--record", action="store_true")
    chosen = options.parse_args()
    versions = {name: importlib.metadata.version(name) for name in ("ilba", "polars", "numpy", "cryptography")}
    machine = {"python": platform.python_version(), "cores": os.cpu_count(), "machine": platform.machine(), **versions}
    print(datetime.date.today().isoformat(), " ".join(f"{name} {value}" for name, value in machine.items()), "\n")
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        million(report, Path(folder))
        if chosen.large:
            large(report, Path(folder))
    if chosen.record:
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{datetime.date.today().isoformat()}.json"
        record({"date": path.stem, **machine, "rows": report.rows}, path)
        print(f"\nrecorded in {path.relative_to(ROOT)} and {PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
