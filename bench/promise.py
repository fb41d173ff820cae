"""Figures of the promise: two publications of the same people, what a shown count tells, and shared attributes.

    python bench/promise.py [--people 200000]

The data are a synthetic census, LA1 to LA3 by gender, age and marital status, K = 5; a small cell has 1 to 4 people.
Printed are

- the share of small cells that anybody proves by comparing two publications, with masks of their own, of all tables;
- what an outsider believes, what an insider who lacks one cell proves, and what three exact margins prove;
- how often a shown 0 or 5 of the finest table is truly something else, for two designs;
- the groups of LA3 by gender and age that show only one marital status, and how many truly have one.

More about the outsider of one release, registers and insiders: `bench/attackers.py`, `bench/audit_policies.py` and
`bench/nation.py --insider 20`.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from pathlib import Path
from typing import Any

import polars as pl

import ilba

AREAS = ["LA1", "LA2", "LA3"]
KEYS = ["gender", "age", "mar"]
PAIRS = [("gender", "age"), ("gender", "mar"), ("age", "mar")]
K = 5
FIRST, SECOND = (ilba.Secret(bytes([number]) * 32) for number in (1, 2))


class Publications:
    """Publications of the same people as they come about without a ledger: each with masks of its own."""

    def __init__(self, people: pl.DataFrame, folder: Path) -> None:
        self.people, self.folder = people, folder
        self.store = self.built()

    def built(
        self,
        people: pl.DataFrame | None = None,
        *,
        key: list[str] = KEYS,
        threshold: int = K,
        secret: ilba.Secret = FIRST,
    ) -> ilba.FinestTable:
        return ilba.build(self.people if people is None else people, AREAS, key, threshold, secret=secret)

    def release(self, name: str, finest: ilba.FinestTable, **how: Any) -> ilba.Release:
        return finest.release(self.folder / name, ledger=False, **{"method": "controlled", **how})


def compared(name: str, one: ilba.Release, two: ilba.Release, *stores: ilba.FinestTable, **words: Any) -> None:
    """Print what two releases prove together, and of which table if one of them has coarser cells."""
    report = ilba.audit([one, two], stores=list(stores), explanations=0, **words)
    exactly = f", exactly {report.share_exact:.0%}" if report.share_exact > 0.005 else ""
    print(f"{name:<44}{report.share:>6.0%} of {report.cells_small:,} small cells{exactly}", flush=True)
    if len(two.design.keys) < len(one.design.keys):
        coarse = two.find("LA3", two.design.keys)
        row = report.tables.filter(pl.col("release") == two.path.name, pl.col("table") == coarse.name)
        small, proven = row["small"][0], row["disclosed"][0]
        print(f"{'  of its own finest cells':<44}{proven / small:>6.0%} of {small:,} small cells", flush=True)


def two_publications(people: pl.DataFrame, folder: Path) -> None:
    made = Publications(people, folder)
    first = made.release("first", made.store)
    again = made.built(secret=SECOND)
    compared("another choice of masks", first, made.release("second", again), made.store)
    ilba_ = made.release("ilba", again, method="ilba", accept_risk=True)
    compared("iLBA and controlled", ilba_, first, made.store)
    for threshold in (3, 10):
        other = made.release(f"K{threshold}", made.built(threshold=threshold))
        compared(f"K = 5 and K = {threshold}", first, other, made.store)
    renamed = made.built(people.rename({"gender": "sex"}), key=["sex", *KEYS[1:]])
    other = made.release("renamed", renamed)
    compared("a column renamed", first, other, made.store, rename={"sex": "gender"})
    ages = people["age"].unique().sort().to_list()
    groups = {str(age): f"group {place // 3}" for place, age in enumerate(ages)}
    grouped = people.with_columns(pl.col("age").cast(pl.String).replace_strict(groups))
    other = made.release("regrouped", made.built(grouped))
    compared("ages regrouped by three", first, other, made.store, regroup={"age": groups})
    other = made.release("fewer", made.built(key=KEYS[:2]))
    compared("with and without a key", first, other, made.store)


def more_knowledge(people: pl.DataFrame) -> None:
    """What an outsider believes, what an insider proves, and what three exact two-way margins prove."""
    margins = {f"LA3.{one}.{two}": people.group_by([*AREAS, one, two]).agg(N=pl.len()) for one, two in PAIRS}
    finest = ilba.build(people, AREAS, KEYS, K, secret=FIRST)
    for method in ("sca-sums", "controlled", "ilba"):
        report = ilba.risk(finest, ["outsider", ilba.Insider(secrets=0), ilba.Register(margins)], method=method)
        outsider, insider = report.row("outsider"), report.row("insider")
        register = report.rows.row(-1, named=True)
        by_insider, by_margins = (row["proven"] / row["small"] for row in (insider, register))
        print(
            f"{method:<12} outsider above .95 {outsider['likely_share']:.1%}; insider proves {by_insider:.1%}; "
            f"three exact margins prove {by_margins:.1%}",
            flush=True,
        )


def shown(people: pl.DataFrame) -> None:
    """How often a shown 0 or K is truly something else."""
    for level in (AREAS, [*AREAS, "OA"]):
        finest = ilba.build(people, level, KEYS, K, secret=FIRST)
        frame = finest.controlled(secret=FIRST).frame
        cells = 1
        for column in (level[-1], *KEYS):
            cells *= people[column].n_unique()
        five = frame.filter(pl.col("N_masked") == K)["N"]
        empty = cells - frame.height
        hidden = frame.filter(pl.col("N_masked") == 0).height
        print(
            f"{level[-1]} by {', '.join(KEYS)}: a shown {K} is truly 1..{K - 1} in {(five < K).mean():.2f}, "
            f"1 in {(five == 1).mean():.2f}; a shown 0 is truly above 0 in {hidden / (hidden + empty):.2f}",
            flush=True,
        )


def attributes(people: pl.DataFrame) -> None:
    finest = ilba.build(people, AREAS, KEYS, K, secret=FIRST).controlled(secret=FIRST)
    report = ilba.risk(finest, ["attribute"])
    row = report.groups.filter(pl.col("variable") == "mar", pl.col("table") == "LA3.gender.age.mar").row(0, named=True)
    print(
        f"LA3 by gender and age: {row['shown_groups']:,} groups ({row['shown_people']:,} people) show one marital "
        f"status; {row['groups']:,} ({row['people']:,}) where this is not usual, truly so in {row['pure']:.0%}, "
        f"{row['gain']:,.0f} people more than expected"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--people", type=int, default=200_000)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    people = ilba.datasets.census(given.people)
    with tempfile.TemporaryDirectory() as folder:
        two_publications(people, Path(folder))
    more_knowledge(people)
    shown(people)
    attributes(people)


if __name__ == "__main__":
    main()
