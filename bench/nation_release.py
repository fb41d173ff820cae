"""A release of a nation: the cost of publishing, reporting and serving all its tables, and its growth.

    python bench/nation_release.py --cities 4,10            these numbers of cities, each of a million people
    python bench/nation_release.py --cities 50 --folder F   keep the stores in a folder from run to run
    python bench/nation_release.py --cities 4 --keep        also keep the releases there

All 160 tables of four levels and five keys are published with the ledger and with the proof of the folder: each table
is made in both worlds and compared. If F holds `chosen-N.parquet`, the store with jointly chosen masks
(`bench/nation.py`), it is published. Otherwise the masks of SCA take their place: choosing is another benchmark, and
the files have the same size. Each step runs in a separate process, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import ilba
from ilba.design.tables import wanted_tables

sys.path.insert(0, str(Path(__file__).parent))
from nation import SECRET, built

STEPS = ("release", "again", "report", "serve")
TOLD = {
    "release": "publish all tables, with a new ledger",
    "again": "publish once more, with the masks of the ledger",
    "report": "report on the loss in all tables",
    "serve": "open it in the service",
}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def masked(cities: int, folder: Path) -> ilba.FinestTable:
    """The store with masks that may be summed: chosen jointly where they are at hand, else those of SCA."""
    chosen = folder / f"chosen-{cities}.parquet"
    if chosen.exists():
        return ilba.open_store(chosen)
    stand_in = folder / f"stand-in-{cities}.parquet"
    if not stand_in.exists():
        store = built(cities, folder)
        names = tuple(table.name for table in wanted_tables(store.design, "all"))
        about = replace(store._about, chosen=ilba.Chosen(names, None, True))
        ilba.FinestTable.of_cells(about, store.cells).save(stand_in)
    return ilba.open_store(stand_in)


def timed(work: Any) -> dict[str, Any]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "GB": peak()}


def one(step: str, cities: int, folder: Path) -> dict[str, Any]:
    """One step in this process."""
    target, ledger = folder / f"release-{cities}", folder / f"ledger-{cities}"
    if step == "serve":
        return served(target)
    finest = masked(cities, folder)
    finest.place = None  # a trial: nothing is written beside the store
    opened = {"opened": peak(), "cells": len(finest)}
    if step == "report":
        return {**opened, **timed(lambda: finest.report(folder / f"report-{cities}.html"))}
    if step == "release":
        shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(ledger, ignore_errors=True)
    found = timed(lambda: finest.release(target, secret=SECRET, ledger=ledger, title="A nation"))
    written = [file.stat().st_size for file in target.rglob("*.parquet")]
    rows = sum(table.rows for table in ilba.Release(target).tables.values())
    return {**opened, **found, "rows": rows, "tables": len(written), "written": sum(written) / 2**30}


def served(release: Path) -> dict[str, Any]:
    """Start the service on a release, and ask: from the start to the first answer, then single questions."""
    import httpx

    began = time.perf_counter()
    command = [sys.executable, "-m", "ilba", "serve", "--port", "0", "--no-access-log", str(release)]
    process = subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"at (http://\S+/) ", line):
                break
        else:
            raise SystemExit("the service did not start")
        with httpx.Client(base_url=f"{found[1]}api/v2", timeout=600) as client:
            client.get("/config").raise_for_status()
            opened = time.perf_counter() - began
            asked = {}
            for name, query in QUESTIONS.items():
                for again in ("", ", again"):
                    clock = time.perf_counter()
                    answer = client.get(query)
                    asked[name + again] = time.perf_counter() - clock
                    answer.raise_for_status()
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8")
        memory = int(status.split("VmHWM:")[1].split()[0]) / 2**20
        spent = Path(f"/proc/{process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        cpu = (int(spent[11]) + int(spent[12])) / 100
    finally:
        process.terminate()
        process.wait(60)
    return {"wall": opened, "cpu": cpu, "GB": memory, "asked": asked}


QUESTIONS = {
    "one cell of OA by five keys": (
        "/cell?level=OA&key=gender,edu,age,mar,htype&hkey_value=01,0101,010101,01010101&key_value=1,1,1,9,21"
    ),
    "one cell of LA3 by two": "/cell?level=LA3&key=gender,age&hkey_value=01,0101,010101&key_value=1,1",
    "a table of LA1 by two": "/tables/LA1.gender.age/data",
    "the list of tables": "/tables",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cities", default="1")
    parser.add_argument("--steps", default=",".join(STEPS))
    parser.add_argument("--folder", type=Path, help="where stores are kept from run to run")
    parser.add_argument("--keep", action="store_true", help="leave the releases in the folder")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(one(asked.one, int(asked.cities), asked.folder)), flush=True)
        return
    before: dict[str, dict[str, Any]] = {}
    print(f"{'cities':>6}  {'step':<50}{'wall s':>8}{'cpu s':>8}{'GB':>6}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for cities in map(int, asked.cities.split(",")):
            masked(cities, folder)  # made here, so that no step pays for it
            for step in asked.steps.split(","):
                command = [sys.executable, __file__, "--one", step, "--cities", str(cities), "--folder", str(folder)]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found = {"cities": cities, **json.loads(done.stdout.strip().splitlines()[-1])}
                print(shown(step, found), flush=True)
                if step in before:
                    print(f"{'':>8}growth exponents: {growth(before[step], found)}", flush=True)
                before[step] = found
            if not asked.keep:
                for place in (f"release-{cities}", f"ledger-{cities}"):
                    shutil.rmtree(folder / place, ignore_errors=True)


def shown(step: str, found: dict[str, Any]) -> str:
    text = f"{found['cities']:>6}  {TOLD[step]:<50}{found['wall']:>8.1f}{found['cpu']:>8.1f}{found['GB']:>6.2f}"
    if "opened" in found:
        text += f"  ({found['opened']:.2f} GB with the store open, {found['cells']:,} cells)"
    if "rows" in found:
        text += f"\n{'':>8}{found['tables']} tables, {found['rows']:,} rows, {found['written']:.2f} GB"
    for name, seconds in found.get("asked", {}).items():
        text += f"\n{'':>8}{name:<50}{1000 * seconds:>6.0f} ms"
    return text


def growth(less: dict[str, Any], more: dict[str, Any]) -> str:
    times = math.log(more["cities"] / less["cities"])
    return ", ".join(f"{name} {math.log(more[name] / less[name]) / times:.2f}" for name in ("wall", "cpu", "GB"))


if __name__ == "__main__":
    main()
