"""Named attackers: toys against brute force, the two census designs of the note, and calibration on real data.

    python bench/attackers.py toys [FIRST [NUMBER]]   random designs, with and without the finest table
    python bench/attackers.py census [3|4]            what each attacker learns from a census of 200,000 people
    python bench/attackers.py registers [3|4]         the same for exact tables from elsewhere
    python bench/attackers.py without [SECONDS [READING]]   3 keys, tables of up to 2: what the solver proves
    python bench/attackers.py solver [3|4] [SECONDS]  what the solver decides where the finest table is released
    python bench/attackers.py real                    calibration on shared real data
    python bench/attackers.py propagation [LA3|OA] [grid|observed]   time and memory of the audit with 5 keys

Seconds are of the processor and, behind them, on the wall.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import ilba
from ilba.attack.solver import Aggregate, WholeRule
from ilba.design.tables import wanted_tables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
AREAS = ["LA1", "LA2", "LA3"]
KEYS = {3: ["gender", "age", "mar"], 4: ["gender", "age", "mar", "edu"]}
SECRET = ilba.Secret.from_text("ilba-secret-1:" + "2a" * 32)
SHARED = Path(os.environ.get("ILBA_SHARED", Path(__file__).parents[2] / "shared"))


def toys(first: int = 0, number: int = 200) -> None:
    from support.worlds import Toy

    for with_finest in (True, False):
        seen = {
            "toys": 0,
            "provable": 0,
            "propagation": 0,
            "solver": 0,
            "audit": 0,
            "audit_of": 0,
            "wrong": 0,
            "missed": 0,
        }
        sums = {"provable": 0, "solver": 0, "wrong": 0, "missed": 0}
        start = time.process_time()
        for seed in range(first, first + number):
            toy = Toy(seed, with_finest)
            worlds = toy.worlds()
            if worlds is None:
                continue
            truth, n = toy.provable(worlds), len(toy.x)
            every = [Aggregate(group, value) for group, value in zip(toy.groups, toy.values, strict=True)]
            rule = WholeRule(toy.K, toy.reading, toy.largest.tolist(), every, toy.masks)
            _, cannot, left = rule.cover(toy.sets, 20.0)
            said = np.isin(np.arange(len(truth)), sorted(cannot))
            for into, part in ((seen, slice(0, n)), (sums, slice(n, None))):
                into["provable"] += int(truth[part].sum())
                into["solver"] += int(said[part].sum())
                into["wrong"] += int((said & ~truth)[part].sum())
                into["missed"] += int((truth & ~said)[part].sum())
            seen["toys"] += 1
            plain = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0)
            asked = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0, solver_seconds=20)
            # Where the tables tell fewer cells apart than there are, the audit counts those.
            if plain.published.lattice.base == tuple(listed.depth for listed in toy.finest.codes.lists):
                seen["propagation"] += plain.cells_disclosed
                seen["audit"] += asked.cells_disclosed
                seen["audit_of"] += int(truth[:n].sum())
            assert not left
        print("with" if with_finest else "without", "the finest table: cells", seen, "aggregates", sums, end=" ")
        print(f"{time.process_time() - start:.0f} s", flush=True)


def census(keys: int, method: str, cells: str = "grid", n: int = 200_000) -> tuple[pl.DataFrame, ilba.FinestTable]:
    people = ilba.datasets.census(n)
    finest = ilba.build(people, AREAS, KEYS[keys], 5, secret=SECRET, cells=cells)
    return people, finest.controlled(levels=[1, 2, 3], secret=SECRET) if method == "controlled" else finest


def told(name: str, report: ilba.RiskReport, cpu: float) -> None:
    print(f"== {name}: {cpu:.1f} s of the processor, {report.seconds:.1f} s on the wall")
    print(report)
    bins = report.calibration.filter(pl.col("event") == "1..K-1", pl.col("attacker") == "outsider")
    print(
        "outsider, said/true (cells):", *(f"{b['said']:.2f}/{b['true']:.2f} ({b['cells']:,})" for b in bins.to_dicts())
    )
    if report.groups.height:
        print("groups:", report.groups.filter(pl.col("table").str.starts_with("LA3")).head(3).to_dicts())
    sys.stdout.flush()


def attackers(keys: int) -> None:
    for method in ("ilba", "controlled"):
        _, finest = census(keys, method)
        start = time.process_time()
        report = ilba.risk(finest, levels=[1, 2, 3])
        told(f"{keys} keys, {method}", report, time.process_time() - start)


def registers(keys: int) -> None:
    sets = [["LA3.gender.age"], ["LA3.gender.age", "LA3.mar"], ["LA2.gender.age.mar"]]
    for method in ("ilba", "controlled"):
        people, finest = census(keys, method)
        for names in sets:
            tables = {}
            for name in names:
                level, *columns = name.split(".")
                tables[name] = people.group_by(AREAS[: AREAS.index(level) + 1] + columns).agg(N=pl.len())
            row = ilba.risk(finest, ilba.Register(tables), levels=[1, 2, 3]).rows.row(0, named=True)
            print(
                f"{keys} keys, {method}, {' + '.join(names)}: proven {row['proven'] / row['small']:.1%} "
                f"exactly {row['exactly'] / row['small']:.1%}; P > .95 {row['likely_share']:.1%}, "
                f"right {row['likely_right']:.3f}",
                flush=True,
            )


def without(seconds: float, readings: tuple[str, ...] = ("grid", "observed")) -> None:
    for cells in readings:
        _, finest = census(3, "ilba", cells)
        for given in (0.0, seconds):
            start = time.process_time()
            report = ilba.audit(finest, "ilba", levels=[1, 2, 3], max_keys=2, explanations=0, solver_seconds=given)
            print(
                f"3 keys, at most 2 in a table, {cells}, solver {given:.0f} s: {report.cells_disclosed} of "
                f"{report.cells_small} cells, {report.aggregates} aggregates proven, {report.cells_certified} cells "
                f"certified; {time.process_time() - start:.0f} s of the processor. {report.why_undecided}",
                flush=True,
            )


def solver(keys: int, seconds: float) -> None:
    _, finest = census(keys, "ilba")
    start = time.process_time()
    report = ilba.audit(finest, "ilba", levels=[1, 2, 3], explanations=0, solver_seconds=seconds)
    print(
        f"{keys} keys, solver {seconds:.0f} s: small {report.cells_small}, proven {report.cells_disclosed}, certified "
        f"{report.cells_certified}, undecided {report.cells_undecided}; {time.process_time() - start:.0f} s. "
        f"{report.why_undecided}",
        flush=True,
    )


def real() -> None:
    travel = ["SUBREGCluster", "SUBREG_GRP", "SUBREG"]
    designs = [
        ("us_acs.parquet", ["STATE", "PUMA"], ["SEX", "MSP", "RAC1P"]),
        ("us_travel_reused_codes.parquet", travel, ["PGender", "PEmp", "PAge"]),
        ("kr_estab.parquet", ["CP_CD", "CDW_CD", "ZONE_CD"], None),
    ]
    for name, hkey, key in designs:
        frame = pl.read_parquet(SHARED / "data" / name)
        if key is None:
            key = [c for c in frame.columns if c not in hkey and frame[c].n_unique() <= 30][:3]
        if "PAge" in key:
            frame = frame.with_columns(pl.col("PAge").cast(pl.Int64, strict=False) // 10)
        finest = ilba.build(frame, hkey, key, 5, secret=SECRET, cells="grid")
        for method in ("ilba", "controlled"):
            made = finest.controlled(secret=SECRET) if method == "controlled" else finest
            start = time.process_time()
            told(f"{name}, {method}", ilba.risk(made, ["proof", "outsider", "insider"]), time.process_time() - start)


def propagation(level: str = "LA3", cells: str = "observed", n: int = 1_000_000) -> None:
    import resource

    from ilba.attack.bounds import Attack
    from ilba.attack.published import PublishedTables

    keys = ["gender", "age", "mar", "edu", "job"]
    people = ilba.datasets.census(n)
    keys = [key for key in keys if key in people.columns] + [
        c for c in people.columns if c not in (*AREAS, "OA", *keys)
    ]
    hkey = [*AREAS, "OA"][: [*AREAS, "OA"].index(level) + 1]
    finest = ilba.build(people, hkey, keys[:5], 5, secret=SECRET, cells=cells)
    del people
    Attack(PublishedTables.of(finest, "ilba", wanted_tables(finest.design, ["LA1"]))).run()  # compile
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for what in ("tables", "attack"):
        cpu, wall = time.process_time(), time.perf_counter()
        if what == "tables":
            published = PublishedTables.of(finest, "ilba")
        else:
            Attack(published).run()
        print(
            f"{level} x {', '.join(keys[:5])}, {cells}, {len(published.tables)} tables, {n:,} people: {what} "
            f"{time.process_time() - cpu:.1f} s of the processor, {time.perf_counter() - wall:.1f} s on the wall",
            flush=True,
        )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory {before / 2**20:.2f} GB before, {after / 2**20:.2f} GB after", flush=True)


def main(asked: list[str]) -> int:
    warnings.simplefilter("ignore")
    what, *rest = asked or ["census", "3"]
    if what == "toys":
        toys(*map(int, rest))
    elif what == "census":
        attackers(int(rest[0]) if rest else 3)
    elif what == "registers":
        registers(int(rest[0]) if rest else 3)
    elif what == "without":
        without(float(rest[0]) if rest else 60.0, *([(rest[1],)] if len(rest) > 1 else []))
    elif what == "solver":
        solver(int(rest[0]) if rest else 3, float(rest[1]) if len(rest) > 1 else 60.0)
    elif what == "real":
        real()
    elif what == "propagation":
        propagation(*rest[:2])
    else:
        print(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
