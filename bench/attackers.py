"""Named attackers: the design note's figures and ours, toys against brute force, calibration on real data.

    python bench/attackers.py                         every part below, then the table of all figures
    python bench/attackers.py table                   the table of the last recorded figures

    python bench/attackers.py toys [FIRST [NUMBER]]   random designs, with and without the finest table
    python bench/attackers.py solver [3|4] [SECONDS]  the finest table is released: what is proven and certified
    python bench/attackers.py without [SECONDS [READING]]   3 keys, tables of up to 2: the same without the finest table
    python bench/attackers.py census [3|4]            what each attacker learns from a census of 200,000 people
    python bench/attackers.py registers [3|4]         the same for exact tables from elsewhere
    python bench/attackers.py insiders [3|4]          insiders who lack one cell, some cells, some people
    python bench/attackers.py real                    calibration on shared real data
    python bench/attackers.py sample                  OA x 4 keys: a larger design by a sample of areas
    python bench/attackers.py propagation [LA3|OA] [grid|observed]   time and memory of the audit with 5 keys
    python bench/attackers.py whole [LA3|OA] [grid|observed]         the same with the search for counterexamples

Each part prints its figures and writes them to bench/results/attackers.json, with the date and the machine. Seconds are
processor time; if there are two numbers, the second is wall time.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import polars as pl

import ilba
from ilba.attack.bounds import Attack
from ilba.attack.published import PublishedTables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
AREAS = ["LA1", "LA2", "LA3"]
KEYS = {3: ["gender", "age", "mar"], 4: ["gender", "age", "mar", "edu"]}
SECRET = ilba.Secret.from_text("ilba-secret-1:" + "2a" * 32)
SHARED = Path(os.environ.get("ILBA_SHARED", Path(__file__).parents[2] / "shared"))
RESULTS = Path(__file__).parent / "results" / "attackers.json"
SEEDS = 260
"""random designs of each kind: some are too large to try every truth of them"""

NOTE = {
    "toys, with the finest table: designs": "147",
    "toys, with the finest table: wrong verdicts": "0",
    "toys, with the finest table: provable counts, missed": "283, 0",
    "toys, without it: designs": "235",
    "toys, without it: wrong verdicts": "0",
    "toys, without it: provable counts, missed": "71, 0",
    "3 keys, iLBA: cells proven": "966 of 2,000",
    "3 keys, iLBA: cells certified": "1,034",
    "3 keys, iLBA: cells left open": "0",
    "4 keys, iLBA: cells proven": "7,876 of 14,948",
    "4 keys, iLBA: open cells decided": "6 to 8 % in 60 s",
    "3 keys, at most 2 in a table, grid: cells proven": "138",
    "3 keys, at most 2 in a table, grid: cells certified": "30",
    "3 keys, at most 2 in a table, grid: aggregates proven": "118 (with the solver 113 more)",
    "3 keys, at most 2 in a table, grid: aggregates certified": "10",
    "3 keys, at most 2 in a table, observed: cells proven": "105",
    "3 keys, at most 2 in a table, observed: cells certified": "51",
    "3 keys, at most 2 in a table, observed: aggregates proven": "50",
    "3 keys, at most 2 in a table, observed: aggregates certified": "10",
    "3 keys, ilba: outsider above .95 (right)": "65.9 % (.998)",
    "3 keys, controlled: outsider above .95 (right)": "12.8 % (.996)",
    "4 keys, ilba: outsider above .95 (right)": "72.7 % (.998)",
    "4 keys, controlled: outsider above .95 (right)": "16.7 % (.985)",
    "3 keys, ilba: insider who lacks a cell, proven (exactly)": "99.7 % (96.8 %)",
    "4 keys, ilba: insider who lacks a cell, proven (exactly)": "100 %",
    "3 keys, controlled, bound 7: insider who lacks a cell, proven": "34.7 to 44.4 % over 5 secrets",
    "4 keys, controlled, bound 7: insider who lacks a cell, proven": "56.8 to 67.5 % over 5 secrets",
    "3 keys, controlled, bound 7: insider who lacks 5 cells, proven": "26 %",
    "4 keys, controlled, bound 7: insider who lacks 5 cells, proven": "53 %",
    "3 keys, controlled, bound 7: insider who lacks 20 cells, proven": "8 %",
    "4 keys, controlled, bound 7: insider who lacks 20 cells, proven": "41 %",
    "3 keys, ilba: register LA3.gender.age, proven (exactly), above .95": "77.0 (50.4), 86.2 %",
    "3 keys, ilba: register LA3.gender.age + LA3.mar, proven (exactly), above .95": "81.1 (57.2), 90.3 %",
    "3 keys, ilba: register LA2.gender.age.mar, proven (exactly), above .95": "52.1 (4.1), 67.8 %",
    "3 keys, controlled: register LA3.gender.age, proven (exactly), above .95": "29.8 (3.8), 52.4 %",
    "3 keys, controlled: register LA3.gender.age + LA3.mar, proven (exactly), above .95": "44.9 (15.3), 65.2 %",
    "3 keys, controlled: register LA2.gender.age.mar, proven (exactly), above .95": "1.9 (0.8), 14.8 %",
    "4 keys, ilba: register LA3.gender.age, proven (exactly), above .95": "54.8 (8.3), 74.4 %",
}
"""the figures of the note that these attackers were built from"""


def record(what: str, ours: str, cpu: float | None = None) -> None:
    """Print a figure, and keep it with the date and the machine."""
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    today, machine = datetime.date.today().isoformat(), f"{os.cpu_count()} cores, {platform.machine()}"
    kept[what] = {"ours": ours, "cpu": None if cpu is None else round(cpu, 1), "date": today, "machine": machine}
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    time_ = "" if cpu is None else f" ({cpu:.1f} s of the processor)"
    print(f"{what}: {ours}{time_}; note: {NOTE.get(what, '-')}", flush=True)


def table() -> None:
    """The figures that were recorded last, beside those of the note."""
    kept = json.loads(RESULTS.read_text())
    print("| what | note | ours | processor |\n|---|---|---|--:|")
    order = {what: place for place, what in enumerate(NOTE)}
    for what in sorted(kept, key=lambda what: (order.get(what, len(order)), what)):
        one = kept[what]
        cpu = "" if one["cpu"] is None else f"{one['cpu']:.0f} s"
        print(f"| {what} | {NOTE.get(what, '')} | {one['ours']} | {cpu} |")
    print(*sorted({f"({one['date']}, {one['machine']})" for one in kept.values()}))


def toys(first: int = 0, number: int = SEEDS) -> None:
    from support.worlds import Toy

    for with_finest in (True, False):
        seen = dict.fromkeys(("designs", "wrong", "provable", "missed", "small", "uncertified", "propagation"), 0)
        start = time.process_time()
        for seed in range(first, first + number):
            toy = Toy(seed, with_finest)
            worlds = toy.worlds()
            if worlds is None:
                continue
            plain = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0)
            asked = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0, solver_seconds=60)
            seen["designs"] += 1
            seen["wrong"] += len(toy.wrong(plain, worlds)) + len(toy.wrong(asked, worlds))
            for one, line in zip(toy.verdicts(plain, worlds), toy.verdicts(asked, worlds), strict=True):
                seen["small"] += line[1]
                seen["provable"] += line[2]
                seen["propagation"] += one[4]
            missed = toy.missed(asked, worlds)
            seen["missed"] += missed[0]
            seen["uncertified"] += missed[1]
        cpu = time.process_time() - start
        name = f"toys, {'with the finest table' if with_finest else 'without it'}:"
        record(f"{name} designs", f"{seen['designs']}", cpu)
        record(f"{name} wrong verdicts", f"{seen['wrong']}")
        record(f"{name} provable counts, missed", f"{seen['provable']}, {seen['missed']}")
        others = seen["small"] - seen["provable"]
        record(f"{name} other small counts, not certified", f"{others}, {seen['uncertified']}")
        record(f"{name} proven by propagation alone", f"{seen['propagation']}")


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


def share(number: float | None) -> str:
    return "-" if number is None else f"{100 * number:.1f} %"


def attackers(keys: int) -> None:
    for method in ("ilba", "controlled"):
        _, finest = census(keys, method)
        start = time.process_time()
        report = ilba.risk(finest, levels=[1, 2, 3])
        cpu = time.process_time() - start
        told(f"{keys} keys, {method}", report, cpu)
        outsider, insider = report.row("outsider"), report.row("insider")
        name = f"{keys} keys, {method}"
        record(f"{name}: ilba risk, all attackers, on the wall", f"{report.seconds:.0f} s", cpu)
        right = f"{outsider['likely_right']:.3f}".lstrip("0")
        record(f"{name}: outsider above .95 (right)", f"{share(outsider['likely_share'])} ({right})")
        if method == "ilba":
            ours = f"{share(insider['proven'] / insider['small'])} ({share(insider['exactly'] / insider['small'])})"
            record(f"{name}: insider who lacks a cell, proven (exactly)", ours)


def registers(keys: int) -> None:
    sets = [["LA3.gender.age"], ["LA3.gender.age", "LA3.mar"], ["LA2.gender.age.mar"]]
    for method in ("ilba", "controlled"):
        people, finest = census(keys, method)
        for names in sets if keys == 3 else sets[:1]:
            tables = {}
            for name in names:
                level, *columns = name.split(".")
                tables[name] = people.group_by(AREAS[: AREAS.index(level) + 1] + columns).agg(N=pl.len())
            start = time.process_time()
            row = ilba.risk(finest, ilba.Register(tables), levels=[1, 2, 3]).rows.row(0, named=True)
            proven, exactly = (f"{100 * row[what] / row['small']:.1f}" for what in ("proven", "exactly"))
            record(
                f"{keys} keys, {method}: register {' + '.join(names)}, proven (exactly), above .95",
                f"{proven} ({exactly}), {share(row['likely_share'])}",
                time.process_time() - start,
            )


def insiders(keys: int) -> None:
    """Who lacks a cell, over five secrets; some cells; some people."""
    people = ilba.datasets.census(200_000)
    found, coarse = [], []
    start = time.process_time()
    for number in range(5):
        secret = ilba.Secret.from_text("ilba-secret-1:" + f"{17 * (number + 1):02x}" * 32)
        finest = ilba.build(people, AREAS, KEYS[keys], 5, secret=secret, cells="grid")
        finest = finest.controlled(levels=[1, 2, 3], secret=secret, bound=7)
        report = ilba.risk(finest, ilba.Insider(secrets=0), levels=[1, 2, 3], bound=7)
        row, detail = report.row("insider"), report.detail
        found.append(row["proven"] / row["small"])
        coarse.append(detail["proven"][0] / row["small"])
    name = f"{keys} keys, controlled, bound 7: insider who lacks"
    cpu = time.process_time() - start
    ours = f"{share(min(found))[:-2]} to {share(max(found))} over 5 secrets"
    record(f"{name} a cell, proven", ours, cpu)
    record(f"{name} a cell, from LA1 tables alone", f"{share(min(coarse))[:-2]} to {share(max(coarse))} over 5 secrets")
    for one in (ilba.Insider(cells=5), ilba.Insider(cells=20), *(ilba.Insider(n, secrets=0) for n in (1, 2, 5))):
        for method in ("controlled", "ilba"):
            if one.unknown is None and method == "ilba":
                continue
            made = (
                finest
                if method == "controlled"
                else ilba.build(people, AREAS, KEYS[keys], 5, secret=SECRET, cells="grid")
            )
            start = time.process_time()
            row = ilba.risk(made, one, levels=[1, 2, 3], bound=7).rows.row(0, named=True)
            cpu, proven = time.process_time() - start, share(row["proven"] / max(row["small"], 1))
            who = f"{one.cells} cells" if one.unknown is None else f"{one.unknown} people"
            ours = (
                proven
                if one.unknown is None
                else (f"{proven} of {row['small']:,}, certified {row['certified']:,}, undecided {row['undecided']:,}")
            )
            about = f"{keys} keys, {method}, bound 7" if method == "controlled" else f"{keys} keys, ilba"
            record(f"{about}: insider who lacks {who}, proven", ours, cpu)


def audited(name: str, finest: ilba.FinestTable, seconds: float, **chosen: Any) -> Any:
    start, wall = time.process_time(), time.perf_counter()
    report = ilba.audit(finest, "ilba", levels=[1, 2, 3], explanations=0, solver_seconds=seconds, **chosen)
    cpu = time.process_time() - start
    record(f"{name}: cells proven", f"{report.cells_disclosed:,} of {report.cells_small:,}", cpu)
    record(f"{name}: cells certified", f"{report.cells_certified:,}")
    record(f"{name}: cells left open", f"{report.cells_undecided:,}")
    record(f"{name}: aggregates proven", f"{report.aggregates:,} of {report.aggregates_small:,}")
    record(f"{name}: aggregates certified", f"{report.aggregates_certified:,}")
    record(f"{name}: aggregates left open", f"{report.aggregates_undecided:,}")
    print(f"{seconds:.0f} s given, {time.perf_counter() - wall:.0f} s on the wall. {report.why_undecided}", flush=True)
    return report


def without(seconds: float, readings: tuple[str, ...] = ("grid", "observed")) -> None:
    for cells in readings:
        _, finest = census(3, "ilba", cells)
        audited(f"3 keys, at most 2 in a table, {cells}", finest, seconds, max_keys=2)


def solver(keys: int, seconds: float) -> None:
    _, finest = census(keys, "ilba")
    start = time.process_time()
    before = ilba.audit(finest, "ilba", levels=[1, 2, 3], explanations=0, brief=True)
    report = audited(f"{keys} keys, iLBA", finest, seconds)
    was = before.cells_small - before.cells_disclosed
    decided = was - report.cells_undecided
    ours = f"{decided:,} of {was:,}, {share(decided / was)} in {seconds:.0f} s"
    record(f"{keys} keys, iLBA: open cells decided", ours, time.process_time() - start)


def calibrated(name: str, report: ilba.RiskReport) -> None:
    """What the outsider said beside what is true, by bins, as one line."""
    bins = report.calibration.filter(pl.col("event") == "1..K-1", pl.col("attacker") == "outsider")
    row = report.row("outsider")
    ours = " ".join(f"{b['said']:.2f}/{b['true']:.2f}" for b in bins.to_dicts())
    right = "-" if row["likely_right"] is None else f"{row['likely_right']:.4f}"
    record(f"{name}: above .95, right", f"{row['likely']:,}, {right}")
    record(f"{name}: said/true", ours)


def real() -> None:
    travel = ["SUBREGCluster", "SUBREG_GRP", "SUBREG"]
    designs = [
        ("census", AREAS, KEYS[3]),
        ("us_acs.parquet", ["STATE", "PUMA"], ["SEX", "MSP", "RAC1P"]),
        ("us_travel_reused_codes.parquet", travel, ["PGender", "PEmp", "PAge"]),
        ("kr_estab.parquet", ["CP_CD", "CDW_CD", "ZONE_CD"], None),
    ]
    for name, hkey, key in designs:
        frame = ilba.datasets.census(200_000) if name == "census" else pl.read_parquet(SHARED / "data" / name)
        if key is None:
            key = [c for c in frame.columns if c not in hkey and frame[c].n_unique() <= 30][:3]
        if "PAge" in key:
            frame = frame.with_columns(pl.col("PAge").cast(pl.Int64, strict=False) // 10)
        finest = ilba.build(frame, hkey, key, 5, secret=SECRET, cells="grid")
        for method in ("ilba", "controlled"):
            made = finest.controlled(secret=SECRET) if method == "controlled" else finest
            calibrated(f"calibration, {name.split('.')[0]}, {method}", ilba.risk(made, ["outsider"]))


def sample(people: int = 1_000_000) -> None:
    """All attackers on OA x 4 keys: probabilities by a sample of areas."""
    frame = ilba.datasets.census(people)
    finest = ilba.build(frame, [*AREAS, "OA"], KEYS[4], 5, secret=SECRET, cells="grid")
    del frame
    start = time.process_time()
    report = ilba.risk(finest)
    cpu, row = time.process_time() - start, report.row("outsider")
    assert report.sample is not None
    name = f"OA x 4 keys, {people:,} people, iLBA"
    record(f"{name}: ilba risk, all attackers, on the wall", f"{report.seconds:.0f} s", cpu)
    record(
        f"{name}: outsider above .95, by a sample",
        f"{row['likely_share']:.1%} ± {row['likely_error']:.1%} ({report.sample[0]} of {report.sample[1]} areas)",
    )


def five_keys(level: str, cells: str, n: int) -> tuple[list[str], ilba.FinestTable]:
    keys = ["gender", "age", "mar", "edu", "job"]
    people = ilba.datasets.census(n)
    keys = [key for key in keys if key in people.columns] + [
        c for c in people.columns if c not in (*AREAS, "OA", *keys)
    ]
    hkey = [*AREAS, "OA"][: [*AREAS, "OA"].index(level) + 1]
    # compile, with a small release
    few = ilba.build(people.head(2000), hkey, keys[:2], 5, secret=SECRET, cells=cells)
    Attack(PublishedTables.of(few, "ilba"), budget=100).run()
    return keys[:5], ilba.build(people, hkey, keys[:5], 5, secret=SECRET, cells=cells)


def propagation(level: str = "LA3", cells: str = "observed", n: int = 1_000_000) -> None:
    keys, finest = five_keys(level, cells, n)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for what in ("tables", "attack"):
        cpu, wall = time.process_time(), time.perf_counter()
        if what == "tables":
            published = PublishedTables.of(finest, "ilba")
        else:
            Attack(published).run()
        print(
            f"{level} x {', '.join(keys)}, {cells}, {len(published.tables)} tables, {n:,} people: {what} "
            f"{time.process_time() - cpu:.1f} s of the processor, {time.perf_counter() - wall:.1f} s on the wall",
            flush=True,
        )
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak memory {before / 2**20:.2f} GB before, {after / 2**20:.2f} GB after", flush=True)


def whole(level: str = "OA", cells: str = "observed", n: int = 1_000_000) -> None:
    """The whole audit of all tables with 5 keys, with the search for counterexamples."""
    keys, finest = five_keys(level, cells, n)
    start = time.process_time()
    report = ilba.audit(finest, "ilba", explanations=0)
    cpu = time.process_time() - start
    name = f"{level} x {len(keys)} keys, {n:,} people, iLBA, {cells}: the whole audit"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    record(f"{name}, peak memory", f"{memory:.2f} GB", cpu)
    open_ = f"{report.cells_undecided:,} cells and {report.aggregates_undecided:,} aggregates"
    listed = f"{report.undecided.height:,} and {report.undecided_aggregates.height:,}"
    record(f"{name}, undecided", f"{open_}; listed {listed}")
    print(report.why_undecided)


PARTS: dict[str, Any] = {
    "toys": lambda *rest: toys(*map(int, rest)),
    "solver": lambda keys="3", seconds="60": solver(int(keys), float(seconds)),
    "without": lambda seconds="90", *readings: without(float(seconds), *([readings] if readings else [])),
    "census": lambda keys="3": attackers(int(keys)),
    "registers": lambda keys="3": registers(int(keys)),
    "insiders": lambda keys="3": insiders(int(keys)),
    "real": real,
    "sample": sample,
    "propagation": propagation,
    "whole": whole,
    "table": table,
}
EVERYTHING = [
    ["toys"], ["solver", "3", "60"], ["solver", "4", "600"], ["without", "90"], ["census", "3"], ["census", "4"],
    ["registers", "3"], ["registers", "4"], ["insiders", "3"], ["insiders", "4"], ["real"], ["sample"], ["table"],
]  # fmt: skip


def main(asked: list[str]) -> int:
    warnings.simplefilter("ignore")
    if asked and asked[0] not in PARTS:
        print(__doc__)
        return 2
    for what, *rest in [asked] if asked else EVERYTHING:
        PARTS[what](*rest)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
