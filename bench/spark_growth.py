"""How the cost of a build and of a table grows with the records on Spark, and what stays on the driver.

    python bench/spark_growth.py                    1 and 10 million records
    python bench/spark_growth.py --millions 1,10,50 also 50: about a quarter of an hour on two cores, 4 GB of disk
    python bench/spark_growth.py --ratio 10,50      the ratio to the embedded engine's time: build, save, one table
    python bench/spark_growth.py --record           also write bench/results/spark/DATE.json, and the ratios in docs/do

For the growth, Spark runs as `local-cluster`: two workers with an executor process each, so that the driver is a
separate process and its memory can be measured alone. All of them share this machine. For the ratio, Spark runs as
`local[2]`: both engines have the same two cores. The session is already running, and has built a store of 20,000
records. The script asserts nothing.
"""

from __future__ import annotations

import argparse
import base64
import datetime
import json
import math
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import Any

import ilba

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "do" / "spark.md"
HKEY = ["LA1", "LA2", "LA3", "OA"]
KEY = ["gender", "age", "edu", "mar", "htype"]
MASTER = "local-cluster[2,1,3072]"
SECRET_HEX = bytes(range(32)).hex()

JOB = """
import json, os, resource, sys, time
import ilba
from ilba.spark import session

records, store, secret, log, master = sys.argv[1:]
start = time.perf_counter()
spark = session(master, conf={{
    "spark.driver.memory": "1g", "spark.executor.memory": "2g", "spark.ui.enabled": "false",
    "spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{{log}}",
    "spark.eventLog.compress": "false", "spark.sql.shuffle.partitions": "64",
}})
started = time.perf_counter()
people = spark.read.parquet(f"file://{{records}}")
partitions = people.rdd.getNumPartitions()
finest = ilba.build(people, {hkey}, {key}, secret=secret, output_path=store)
built = time.perf_counter()
finest.table("LA3", {key}).write_csv(store + ".csv")
done = time.perf_counter()
jvm = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
status = open(f"/proc/{{jvm}}/status").read()
heap = sum(p.getPeakUsage().getUsed() for p in spark.sparkContext._jvm.java.lang.management.ManagementFactory
           .getMemoryPoolMXBeans() if str(p.getType().name()) == "HEAP")
print(json.dumps({{
    "start": started - start, "build": built - started, "table": done - built, "partitions": partitions,
    "cells": len(finest), "python": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "jvm": int(status.split("VmHWM:")[1].split()[0]) * 1024, "heap": heap,
}}))
spark.stop()
"""

EMBEDDED = """
import json, sys, time
import ilba

def used():
    "The processor time of this process and of all below it."
    import os
    from pathlib import Path

    below, ticks = {{}}, {{}}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(words[1]), []).append(int(stat.parent.name))
        ticks[int(stat.parent.name)] = sum(map(int, words[11:15]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        one = waiting.pop()
        total += ticks.get(one, 0)
        waiting += below.get(one, [])
    return total / os.sysconf("SC_CLK_TCK")


records, store, secret = sys.argv[1:]
start, before = time.perf_counter(), used()
finest = ilba.build(records, {hkey}, {key}, secret=secret, output_path=store + ".parquet")
built = time.perf_counter()
finest.table("LA3", {key}).write_csv(store + ".csv")
done = time.perf_counter()
print(json.dumps({{"build": built - start, "table": done - built, "processor": used() - before}}))
"""

BESIDE = """
import json, sys, time
import ilba
from ilba.spark import session

def used():
    "The processor time of this process and of all below it."
    import os
    from pathlib import Path

    below, ticks = {{}}, {{}}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        below.setdefault(int(words[1]), []).append(int(stat.parent.name))
        ticks[int(stat.parent.name)] = sum(map(int, words[11:15]))
    total, waiting = 0, [os.getpid()]
    while waiting:
        one = waiting.pop()
        total += ticks.get(one, 0)
        waiting += below.get(one, [])
    return total / os.sysconf("SC_CLK_TCK")


records, store, secret = sys.argv[1:]
spark = session("local[2]", conf={{"spark.driver.memory": "3g", "spark.ui.enabled": "false"}})
small = spark.createDataFrame(ilba.datasets.census(20_000).to_arrow())
ilba.build(small, {hkey}, {key}, secret=secret, output_path=store + ".small").table("LA3", {key}).collect()
start, before = time.perf_counter(), used()
finest = ilba.build(spark.read.parquet(f"file://{{records}}"), {hkey}, {key}, secret=secret, output_path=store)
built = time.perf_counter()
finest.table("LA3", {key}).write_csv(store + ".spark.csv")
done = time.perf_counter()
print(json.dumps({{"build": built - start, "table": done - built, "processor": used() - before}}))
spark.stop()
"""
TARGETS = {10: 8, 50: 5}


def beside(millions: int, folder: Path, data: Path | None) -> dict[str, Any]:
    """Both engines on the same records, one after the other: build, save and one table."""
    parts = (data or folder) / f"cities{millions}"
    if not parts.exists():
        ilba.datasets.census_parts(parts, scale=millions)
    secret = _secret(folder)
    words = [str(parts), str(folder / f"store{millions}"), str(secret)]
    row: dict[str, Any] = {"millions": millions}
    for name, script in (("embedded", EMBEDDED), ("spark", BESIDE)):
        told = _run(script.format(hkey=HKEY, key=KEY), words)
        row |= {f"{name} {part}": seconds for part, seconds in told.items()}
        row[name] = told["build"] + told["table"]
    same = [Path(f"{words[1]}{end}").read_bytes() for end in (".csv", ".spark.csv")]
    row["processor ratio"] = row["spark processor"] / row["embedded processor"]
    row |= {"ratio": row["spark"] / row["embedded"], "same bytes": same[0] == same[1], "target": TARGETS.get(millions)}
    shutil.rmtree(words[1])
    return row


def as_ratios(result: dict[str, Any]) -> str:
    """The two engines beside each other, in Markdown."""
    head = f"{result['date']}, {result['cores']} cores ({result['machine']}), PySpark {result['pyspark']}, `local[2]`, "
    head += "a session that runs already; build and save, and the table LA3 x 5 keys as csv:"
    columns = ["records", "embedded: build, table", "Spark: build, table", "ratio", "target"]
    columns += ["processor time", "its ratio", "the same bytes"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in result["ratios"]:
        target = row["target"]
        hit = "" if target is None else f"{target}x, {'hit' if row['ratio'] <= target else 'MISS'}"
        lines.append(
            f"| {row['millions']}M | {row['embedded build']:.1f} s, {row['embedded table']:.1f} s | "
            f"{row['spark build']:.1f} s, {row['spark table']:.1f} s | {row['ratio']:.1f}x | {hit} | "
            f"{row['embedded processor']:.0f} s, {row['spark processor']:.0f} s | {row['processor ratio']:.1f}x | "
            f"{'yes' if row['same bytes'] else 'NO'} |"
        )
    return textwrap.fill(head, 118) + "\n\n" + "\n".join(lines)


def _secret(folder: Path) -> Path:
    secret = folder / "agency.secret"
    if not secret.exists():
        ilba.Secret.from_text(f"ilba-secret-1:{SECRET_HEX}").to_file(secret)
    return secret


def _run(script: str, words: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told


def measured(millions: int, folder: Path) -> dict[str, Any]:
    """One size: the records are made, counted, masked and asked for a table; then everything is removed."""
    parts = ilba.datasets.census_parts(folder / f"cities{millions}", scale=millions)
    secret, log = _secret(folder), folder / f"log{millions}"
    log.mkdir()
    script = JOB.format(hkey=HKEY, key=KEY)
    words = [str(parts), str(folder / f"store{millions}"), str(secret), str(log), MASTER]
    row = _run(script, words)
    files = [file for file in log.rglob("*") if file.is_file()]
    row["log"] = sum(file.stat().st_size for file in files)
    raw = bytes.fromhex(SECRET_HEX)
    forms = [raw, SECRET_HEX.encode(), base64.b64encode(raw)]
    row["secret in log"] = any(form in file.read_bytes() for file in files for form in forms)
    row["store"] = sum(f.stat().st_size for f in (folder / f"store{millions}").rglob("*.parquet"))
    row["millions"] = millions
    for path in (*parts.rglob("*.parquet"), *(folder / f"store{millions}").rglob("*.parquet")):
        path.unlink()
    return row


def as_table(result: dict[str, Any]) -> str:
    """A recorded run in Markdown, with what it would come to for a billion records."""
    head = f"{result['date']}, {result['cores']} cores ({result['machine']}), PySpark {result['pyspark']}, "
    head += f"`{MASTER}`, a driver with a heap of 1 GB and two executors of 2 GB, on one shared machine:"
    columns = [
        "records",
        "partitions",
        "cells",
        "build",
        "table LA3 x 5 keys",
        "driver: Python",
        "driver: JVM (heap used)",
        "event log",
        "secret in the log",
    ]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for row in result["rows"]:
        lines.append(
            f"| {row['millions']}M | {row['partitions']} | {row['cells']:,} | {row['build']:.0f} s | "
            f"{row['table']:.0f} s | {row['python'] / 2**20:.0f} MB | {row['jvm'] / 2**20:.0f} MB "
            f"({row['heap'] / 2**20:.0f} MB) | {row['log'] / 2**20:.1f} MB | "
            f"{'YES' if row['secret in log'] else 'no'} |"
        )
    return f"\n{head}\n\n" + "\n".join(lines) + "\n\n" + extrapolated(result["rows"])


def extrapolated(rows: list[dict[str, Any]]) -> str:
    """A straight line through the two largest sizes, carried on to a billion: a guess, and called one."""
    if len(rows) < 2:
        return ""
    small, large = sorted(rows, key=lambda row: row["millions"])[-2:]
    step = large["millions"] - small["millions"]

    def at_billion(name: str) -> float:
        slope = (large[name] - small[name]) / step
        return float(large[name] + slope * (1000 - large["millions"]))

    exponent = math.log(large["build"] / small["build"]) / math.log(large["millions"] / small["millions"])
    hours = at_billion("build") / 3600
    return (
        f"**Extrapolated, not measured:** a straight line from {small['millions']}M through {large['millions']}M leads "
        f"to {hours:.1f} hours for a billion records on these two cores, that is {2 * hours:.0f} core-hours, and "
        f"{at_billion('cells') / 1e6:.0f} million cells in {at_billion('store') / 2**30:.0f} GB of store. The time "
        f"of a build grew with the exponent {exponent:.2f}. A cluster adds network to it and takes away the waiting "
        f"for two cores; how much of each, only a run there tells.\n\n"
    )


def record(result: dict[str, Any], path: Path, mark: str, text: str) -> None:
    """Keep a run as a file, and show it on the page between two marks, if the page has them."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    before, found, rest = PAGE.read_text(encoding="utf-8").partition(f"<!-- {mark} -->\n")
    if found:
        PAGE.write_text(f"{before}{found}{text}<!-- end -->{rest.partition('<!-- end -->')[2]}", encoding="utf-8")


def ratios(sizes: str, folder: Path, data: Path | None, machine: dict[str, Any]) -> dict[str, Any]:
    """The two engines beside each other at several sizes."""
    rows = []
    for millions in map(int, sizes.split(",")):
        rows.append(beside(millions, folder, data))
        print(json.dumps(rows[-1]), flush=True)
    result = {"date": datetime.date.today().isoformat(), **machine, "ratios": rows}
    print(as_ratios(result))
    return result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--millions", default="1,10")
    options.add_argument("--ratio", metavar="MILLIONS", help="compare the engines at these sizes instead")
    options.add_argument("--data", type=Path, help="with --ratio: keep the records here, and take them from here")
    options.add_argument("--record", action="store_true")
    chosen = options.parse_args()
    import pyspark

    machine = {"cores": os.cpu_count(), "machine": platform.machine(), "pyspark": pyspark.__version__}
    path = ROOT / "bench" / "results" / "spark" / f"{datetime.date.today().isoformat()}.json"
    with tempfile.TemporaryDirectory() as folder:
        if chosen.ratio:
            result = ratios(chosen.ratio, Path(folder), chosen.data, machine)
            mark, text, path = "ratios", f"\n{as_ratios(result)}\n\n", path.with_suffix(".ratios.json")
        else:
            result = {"date": path.stem, **machine, "rows": []}
            for millions in map(int, chosen.millions.split(",")):
                result["rows"].append(measured(millions, Path(folder)))
                print(json.dumps(result["rows"][-1]), flush=True)
            mark, text = "measured", as_table(result)
            print(text)
    if chosen.record:
        record(result, path, mark, text)


if __name__ == "__main__":
    main()
