"""Jointly chosen masks for a nation: time, memory, what is reached on each level, and growth.

    python bench/nation.py                          one city of a million people, without a bound
    python bench/nation.py --cities 1,4,10,50       these numbers of cities, and how the cost grows
    python bench/nation.py --cities 4 --bound 10    with a requested bound
    python bench/nation.py --cities 4 --spark       also on Spark (local-cluster): the same checksum
    python bench/nation.py --folder F --keep        keep the store there, and the chosen one as chosen-1.parquet
    python bench/nation.py --insider 20             what an insider who lacks one cell proves (--keys 2: fewer cells)

Each number of cities runs in a separate process, so that its peak memory is its own. Errors are computed anew from the
tables. "beyond" is the peak memory minus the memory of the process with the store open.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import ilba
from ilba.design.tables import selections
from ilba.methods.controlled.search import declared_bound, extra_bound
from ilba.methods.loss import LossSummary
from ilba.tables.engine import class_means

AREAS, KEYS = ["LA1", "LA2", "LA3", "OA"], ["gender", "edu", "age", "mar", "htype"]
SECRET = ilba.Secret(bytes(range(32)))
SPARK = "local-cluster[2,1,4096]"


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def built(cities: int, folder: Path) -> ilba.FinestTable:
    place = folder / f"nation-{cities}.parquet"
    if not place.exists():
        parts = ilba.datasets.census_parts(folder / f"cities-{cities}", scale=cities)
        ilba.build(parts, AREAS, KEYS, secret=SECRET).save(place)
    return ilba.open_store(place)


def compiled() -> None:
    small = ilba.build(pl.DataFrame({"t": ["a", "b", "b"], "x": [1, 1, 2]}), ["t"], ["x"], secret=SECRET)
    small.controlled(secret=SECRET)


def errors(finest: ilba.FinestTable) -> Iterator[tuple[tuple[int, ...], np.ndarray[Any, Any]]]:
    """How many counts of each level are 0, 1, 2, ... off."""
    for table, found in finest.losses(selections(finest.design)).items():
        counted = np.zeros(found.largest + 1, np.int64)
        for off, counts in found.by_loss.items():
            counted[abs(off)] += counts
        yield table.levels, counted


def embedded(cities: int, bound: int | None, folder: Path, keep: bool) -> dict[str, Any]:
    compiled()
    finest = built(cities, folder)
    before, wall, cpu = peak(), time.perf_counter(), time.process_time()
    chosen = finest.controlled(bound=bound, secret=SECRET)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory, control = peak(), chosen.control
    assert control is not None
    if keep:
        chosen.save(folder / f"chosen-{cities}.parquet")
    by_level: dict[int, Any] = {}
    for (level, *_), found in errors(chosen):
        both = [by_level.get(level, np.zeros(0, np.int64)), found]
        both.sort(key=len)
        both[1][: len(both[0])] += both[0]
        by_level[level] = both[1]
    names = ["nation", *AREAS]
    whole = np.zeros(max(map(len, by_level.values())), np.int64)
    for found in by_level.values():
        whole[: len(found)] += found
    bias = max(abs(mean - x) for x, mean in class_means(chosen).items())
    return {
        "cities": cities, "cells": len(finest), "small": control.cells, "bound": control.bound, "over": control.over,
        "wall": wall, "cpu": cpu, "GB": memory, "beyond": memory - before,
        "reached": {names[level]: len(found) - 1 for level, found in sorted(by_level.items())},
        "loss": LossSummary.of(whole, 5).mean, "bias": bias, "masks": chosen.marks()[1],
    }  # fmt: skip


def on_spark(cities: int, bound: int | None, folder: Path) -> dict[str, Any]:
    from ilba.spark import session

    built(cities, folder)
    # Workers run the Python of this process, wherever the PATH leads.
    spark = session(SPARK, conf={"spark.ui.enabled": "false", "spark.pyspark.python": sys.executable})
    try:
        finest = ilba.open_store(folder / f"nation-{cities}.parquet", spark=spark)
        began = time.perf_counter()
        chosen = finest.controlled(bound=bound, secret=SECRET)
        wall, control = time.perf_counter() - began, chosen.control
        assert control is not None
        return {
            "cities": cities, "cells": len(finest), "small": control.cells, "bound": control.bound,
            "over": control.over, "wall": wall, "reached": {"all": control.reached}, "masks": chosen.marks()[1],
        }  # fmt: skip
    finally:
        spark.stop()


def insider(secrets: int, keys: int) -> None:
    """What an insider who lacks one cell proves: by counting masks, with the largest bound, and with the worked one."""
    K, people = 5, ilba.datasets.census(200_000)
    B = declared_bound(K)
    print(f"proven %, mean and worst: by the numbers of masks alone; also with B={B}; also with the worked bound")
    print(f"{'worked':>7}{'secrets':>8}{'loss':>7}{'small':>7}")
    rows: dict[int, list[tuple[float, float, float, float]]] = {}
    for i in range(secrets):
        secret = ilba.Secret(i.to_bytes(32, "big"))
        usual = extra_bound(secret.derived("controlled bound").number, K)
        finest = ilba.build(people, AREAS[:3], KEYS[:keys], K, secret=secret)
        small = finest.frame.filter(pl.col("N") < K).height
        for extra in sorted({usual, i % K}):
            chosen = finest.controlled(bound=7 + extra, secret=secret)
            shares = proven(chosen, 2**20), proven(chosen, B), proven(chosen, 7 + extra)
            rows.setdefault(7 + extra, []).append((*shares, _mean_loss(chosen)))
    for worked, found in sorted(rows.items()):
        *shares, loss = (np.array(column) for column in zip(*found, strict=True))
        said = ";".join(f"{share.mean():5.1f} {share.max():5.1f}" for share in shares)
        print(f"{worked:>7}{len(found):>8}{loss.mean():>7.3f}{small:>7,}   {said}", flush=True)


def _mean_loss(chosen: ilba.FinestTable) -> float:
    counted = [np.abs(table.detail["loss"].to_numpy()) for table in chosen.cube()]
    return float(np.concatenate(counted).mean())


def proven(chosen: ilba.FinestTable, bound: int) -> float:
    """The share of small cells, in per cent, that an insider who lacks only that cell proves to be small."""
    row = ilba.risk(chosen, ilba.Insider(secrets=0), bound=bound).row("insider")
    return 100 * row["proven"] / row["small"]


def shown(found: dict[str, Any]) -> str:
    reached = " ".join(f"{name} {number}" for name, number in found["reached"].items())
    text = f"{found['cities']:>4} {found['cells']:>11,}{found['small']:>11,}{found['bound']:>6}{found['over']:>7,}"
    text += f"{found['wall']:>8.1f}" + (f"{found['cpu']:>8.1f}" if "cpu" in found else " " * 8)
    if "GB" in found:
        text += f"{found['GB']:>6.2f}{found['beyond']:>7.2f}{found['loss']:>7.3f}{found['bias']:>7.4f}"
    else:
        text += f"{'on Spark':>27}"
    return f"{text}  {found['masks']}  {reached}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cities", default="1")
    parser.add_argument("--bound", type=int)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--folder", type=Path, help="where stores are kept from run to run")
    parser.add_argument("--keep", action="store_true", help="keep the chosen stores there, too")
    parser.add_argument("--insider", type=int, help="over so many secrets")
    parser.add_argument("--keys", type=int, default=3, help="of the insider's tables")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.insider:
        insider(asked.insider, asked.keys)
        return
    if asked.one:
        cities, bound, folder = int(asked.one), asked.bound, asked.folder
        found = on_spark(cities, bound, folder) if asked.spark else embedded(cities, bound, folder, asked.keep)
        print(json.dumps(found), flush=True)
        return
    print("cities     cells      small bound   over    wall     cpu    GB beyond   loss   bias  masks  reached")
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        for cities in asked.cities.split(","):
            for engine in [[], ["--spark"]] if asked.spark else [[]]:
                command = [sys.executable, __file__, "--one", cities, "--folder", str(folder), *engine]
                command += ["--bound", str(asked.bound)] if asked.bound else []
                command += ["--keep"] if asked.keep else []
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                found = json.loads(done.stdout.strip().splitlines()[-1])
                print(shown(found), flush=True)
                if not engine:
                    rows.append(found)
    for less, more in pairwise(rows):
        ratio = math.log(more["small"] / less["small"])
        growth = {name: math.log(more[name] / less[name]) / ratio for name in ("wall", "cpu", "GB")}
        told = ", ".join(f"{name} {exponent:.2f}" for name, exponent in growth.items())
        print(f"growth exponents from {less['cities']} to {more['cities']} cities: {told}")


if __name__ == "__main__":
    main()
