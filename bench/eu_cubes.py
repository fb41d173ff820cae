"""The 103 cubes of the EU census of 2021 as one plan of tables: count, choose masks, publish, audit, compare.

    ILBA_SHARED=.. python bench/eu_cubes.py [--people 100000] [--compare] [--methods rounding:3,..] [--group 1]

The variables, their levels and the cubes are those of the reference data. People are made up: few are very old, of each
variable few codes are frequent and most are seldom, and which ones they are depends on age. So nearly everybody is
alone in the finest table of all 19 variables, and cubes of few variables have small counts. Each cube is a table at
its own breakdown; no lattice of all levels is made. `--compare` lets the same attacker loose on all of them by each
method. `--group` takes the cubes of one group alone, with all their margins at all levels. Printed is the time of each
step by the clock and by the processor, and how many published counts are small.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import ilba
from ilba.design.design import Selection
from ilba.progress import ProgressStep

SECRET = ilba.Secret(bytes(range(32)))
LEVELS = {"lpw": "nl"}  # of the others the finest level is h; geo_n is the whole country
NO_HIERARCHY = {"har": 3, "yat": 12}
METHODS = [
    "controlled",
    "ilba",
    "sca",
    "cell-key:D=2;V=1",
    "cell-key:D=5;V=3;js=2;pstay=0.5",
    "rounding:3",
    "rounding:5",
    "small-count-rounding:5",
    "suppression:kind=primary",
    "noise:1",
]
MEASURES = ["mean_loss", "p99_loss", "max_loss", "provable_counts", "aggregates", "blank", "seconds"]


def hierarchies(folder: Path) -> dict[str, pl.DataFrame]:
    """For each variable the path of each leaf, a column for each level; a short path repeats its last code."""
    found = {}
    for (name,), rows in pl.read_csv(folder / "hierarchies.csv", infer_schema=False).group_by(
        "hierarchy", maintain_order=True
    ):
        parent = dict(zip(rows["code"], rows["parent"], strict=True))
        depth = max(map(int, rows["depth"]))
        paths = []
        for leaf in rows.filter(pl.col("is_leaf") == "TRUE")["code"]:
            path = [leaf]
            while parent[path[0]] != "Total":
                path.insert(0, parent[path[0]])
            paths.append([*path, *[leaf] * (depth - len(path))])
        letters = LEVELS.get(str(name), {1: "", 2: "lh", 3: "lmh"}[depth])
        columns = [f"{name}_{letter}" for letter in letters] or [str(name)]
        found[str(name)] = pl.DataFrame(paths, schema=columns, orient="row")
    for name, codes in NO_HIERARCHY.items():
        found[name] = pl.DataFrame({name: [str(code) for code in range(1, codes + 1)]})
    return found


def people(variables: dict[str, pl.DataFrame], number: int) -> pl.DataFrame:
    """Made-up people with these variables.

    Were each variable drawn by itself, cubes of few variables would have no small count among 100,000 people: methods
    that touch small counts alone would then change nothing.
    """
    rng = np.random.default_rng(2021)
    years = np.arange(variables["age"].height) if "age" in variables else np.zeros(1)
    living = 1 / (1 + np.exp((years - 78) / 6))
    age = rng.choice(len(years), number, p=living / living.sum())
    decade = age // 10
    parts = []
    for name, paths in variables.items():
        if name == "age":
            parts.append(paths[age])
            continue
        common = 1 / (1 + rng.permutation(paths.height)) if name != "sex" else np.ones(paths.height)
        spread = 0 if name in ("sex", "geo") else 2
        weight = common * np.exp(spread * rng.standard_normal((decade.max() + 1, paths.height)))
        upper = np.cumsum(weight / weight.sum(axis=1, keepdims=True), axis=1)[decade]
        drawn = (rng.random(number)[:, None] > upper).sum(axis=1)
        parts.append(paths[np.minimum(drawn, paths.height - 1)])
    return pl.concat(parts, how="horizontal")


def built(variables: dict[str, pl.DataFrame], number: int) -> ilba.FinestTable:
    """The finest table of all variables."""
    deep = {name: paths.columns for name, paths in variables.items() if paths.width > 1}
    first = dict(sorted(deep.items(), key=lambda one: one[0] != "geo"))  # areas are the first hierarchy, where they are
    keys = [name for name, paths in variables.items() if paths.width == 1]
    return ilba.build(people(variables, number), first, keys, secret=SECRET)


def cubes(finest: ilba.FinestTable, folder: Path) -> list[Selection]:
    """Each cube as a table at its own breakdown."""
    rows = pl.read_csv(folder / "hypercube_variables.csv", infer_schema=False).with_columns(
        pl.col("level").fill_null("")
    )
    found = []
    for _, cube in rows.group_by("cube", maintain_order=True):
        level, keys = {}, []
        for variable, letter in cube.select("variable", "level").rows():
            if (variable, letter) == ("geo", "n"):
                continue
            if variable in finest.design.keys:
                keys.append(variable)
            else:
                level[variable] = f"{variable}_{letter}"
        found.append(finest.design.select(level, keys))
    return list(dict.fromkeys(found))


def margins(finest: ilba.FinestTable, folder: Path, group: str) -> list[Selection]:
    """The cubes of a group with all their margins, each hierarchy at all its levels."""
    rows = pl.read_csv(folder / "hypercube_variables.csv", infer_schema=False)
    levels = {one.name: ["", *one.columns] for one in finest.design.hierarchies}
    found = []
    for (name,), cube in rows.group_by("cube", maintain_order=True):
        if str(name).split(".")[0] != group:
            continue
        variables = [one for one in cube["variable"] if one in levels]
        keys = [one for one in cube["variable"] if one in finest.design.keys]
        for chosen in itertools.product(*(levels[one] for one in variables)):
            level = {one: column for one, column in zip(variables, chosen, strict=True) if column}
            for some in itertools.product([False, True], repeat=len(keys)):
                kept = [key for key, there in zip(keys, some, strict=True) if there]
                found.append(finest.design.select(level or 0, kept))
    return list(dict.fromkeys(found))


def of_group(variables: dict[str, pl.DataFrame], folder: Path, group: str) -> dict[str, pl.DataFrame]:
    """The variables of the cubes of a group."""
    rows = pl.read_csv(folder / "hypercube_variables.csv", infer_schema=False)
    used = rows.filter(pl.col("cube").str.split(".").list.first() == group, pl.col("level").fill_null("") != "n")
    return {name: paths for name, paths in variables.items() if name in set(used["variable"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--compare", action="store_true")
    parser.add_argument("--methods", default=",".join(METHODS), help="with ; between the parameters of one")
    parser.add_argument("--group", help="all margins of the cubes of one group")
    asked = parser.parse_args()
    warnings.simplefilter("ignore", ilba.Notice)
    folder = Path(os.environ.get("ILBA_SHARED", "../shared")) / "outside" / "08_eu_2021"
    start = time.perf_counter()

    def told(text: str) -> None:
        print(f"{time.perf_counter() - start:7.1f} s, {time.process_time():6.1f} s CPU  {text}", flush=True)

    variables = hierarchies(folder)
    if asked.group:
        variables = of_group(variables, folder, asked.group)
    finest = built(variables, asked.people)
    told(f"{asked.people:,} people counted: {len(finest):,} cells of {len(finest.design.columns)} columns")
    wanted = margins(finest, folder, asked.group) if asked.group else cubes(finest, folder)
    counts = np.concatenate([table.detail["N"].to_numpy() for table in finest.tables(wanted)])
    small = int((counts < finest.design.threshold).sum())
    told(f"{len(wanted)} tables: {len(counts):,} cells that occur, {small:,} of them below K={finest.design.threshold}")
    if not asked.compare:
        masked = finest.controlled(wanted)
        told(f"masks chosen jointly: {masked.control}")
        with tempfile.TemporaryDirectory() as home:
            release = masked.release(Path(home) / "cubes", tables=wanted, ledger=False)
            told(f"published: {release}, each folder proven to be a function of its masked counts")
        report = ilba.audit(masked, tables=wanted, explanations=0)
        told(f"audited: {report.verdict}")
        return
    chosen = [one.replace(";", ",") for one in asked.methods.split(",")]

    def tell(step: ProgressStep) -> None:
        if step.stage == "comparing":
            told(f"{chosen[step.done - 1]} done")

    compared = ilba.compare(finest, methods=chosen, tables=wanted, plan=wanted, secret=SECRET, progress=tell)
    told(f"{compared.title}:")
    print(compared.text(MEASURES))
    print("\n".join(compared.remarks))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{memory:.2f} GB at most")


if __name__ == "__main__":
    main()
