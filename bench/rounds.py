"""The rounds of the choice of masks for many areas: errors of the whole, time and traffic on a cluster.

    python bench/rounds.py                     1,000 areas
    python bench/rounds.py --areas 10,100      other numbers of areas
    python bench/rounds.py --areas 1 --cities 50   areas as large as 50 cities
    python bench/rounds.py --errors-to 250     choose masks for up to this many areas; for more, only plan

Two things are printed for each number of areas. *Errors* are real: the package chooses the masks of a population with
this number of areas. Each area is small, so blocks of 40 small cells are enough. Errors are computed anew from the
tables. *Cost* is planned: the blocks are those of cities of a million people, a round lasts as long as its largest
block, and a block takes the seconds per million small cells that `--pace` gives (measured by `bench/nation.py`).
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import polars as pl

import ilba
from ilba.methods.controlled import plan
from ilba.methods.controlled.plan import Carried, MaskBlock, rounds

SECRET = ilba.Secret(bytes(range(32)))
CITY = (118_573, 122_837, 173_020, 174_687)
"""small cells of the blocks of a city of a million people, all 160 tables"""
NAMES = 20_467
"""counts of the whole that are carried, in all tables, where blocks have small cells"""
BYTES = 8 + 8 + 4
"""a name, an error, and in how many tables it stands"""


def planned(areas: int, cities: int, pace: float, overhead: float) -> str:
    """What the rounds of so many areas cost, each as large as some cities."""
    sizes = CITY * cities
    none = np.zeros(0, dtype=np.int32)
    whole = Carried((0, 0), none, far=areas * len(sizes) > plan.FAR)
    blocks = [
        MaskBlock(area * len(sizes) + part, 0, 0, size, (), (whole, Carried((1, area), none, far=False)), (1, area))
        for area in range(areas)
        for part, size in enumerate(sizes)
    ]
    turns = list(rounds(blocks))
    wide = max(map(len, turns))
    work = pace * sum(block.size for block in blocks) / 1e6
    wall = sum(pace * max(block.size for block in turn) / 1e6 + overhead for turn in turns)
    traffic = sum(2 * len(turn) * 2 * NAMES * BYTES for turn in turns) / 1e9
    return (
        f"{areas:>6} areas: {len(turns):,} rounds of up to {wide} blocks, {work / 3600:.1f} core-hours, "
        f"{wall / 60:.0f} minutes on {wide} cores ({work / wall / wide:.0%} busy), "
        f"{traffic:.1f} GB to and from the driver"
    )


def chosen(areas: int) -> str:
    """What is reached for so many small areas."""
    rng = np.random.default_rng(areas)
    grid = pl.DataFrame({"area": np.arange(areas)})
    for name, size in (("part", 2), ("sex", 2), ("age", 6), ("job", 3)):
        grid = grid.join(pl.DataFrame({name: np.arange(size)}), how="cross")
    grid = grid.with_columns(town=pl.col("area") * 2 + pl.col("part")).drop("part")
    counts = grid.with_columns(N=pl.Series(rng.poisson(2.0, grid.height))).filter(pl.col("N") > 0)
    finest = ilba.FinestTable.from_counts(counts, ["area", "town"], ["sex", "age", "job"], secret=SECRET)
    began = time.process_time()
    result = finest.controlled(bound=7, secret=SECRET)
    took = time.process_time() - began
    reached: dict[int, int] = {}
    for table in result.cube():
        level = table.selection.levels[0]
        reached[level] = max(reached.get(level, 0), int(table.detail["loss"].abs().max()))  # type: ignore[arg-type]
    assert result.control is not None
    small = result.control.cells
    return (
        f"{areas:>6} areas: {small:,} small cells, bound 7: whole {reached[0]}, area {reached[1]}, town {reached[2]}; "
        f"{took:.1f} s of processor time"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--areas", default="1000")
    parser.add_argument("--cities", type=int, default=1, help="cities of a million people in an area, for the cost")
    parser.add_argument("--pace", type=float, default=28.0, help="seconds per million small cells")
    parser.add_argument("--overhead", type=float, default=3.0, help="seconds of a round besides its blocks")
    parser.add_argument("--errors-to", type=int, default=1000)
    asked = parser.parse_args()
    numbers = [int(areas) for areas in asked.areas.split(",")]
    for areas in numbers:
        print("cost  ", planned(areas, asked.cities, asked.pace, asked.overhead), flush=True)
    plan.BLOCK = 40
    for areas in numbers:
        if areas <= asked.errors_to:
            print("errors", chosen(areas), flush=True)


if __name__ == "__main__":
    main()
