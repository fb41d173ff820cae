"""The cost of a recipe: the same records, once clean, once messy with a recipe that cleans them.

    python bench/recipe.py [RECORDS]

Prints the seconds of `build` on clean records, of `build` with a recipe on messy ones, and their difference, as wall
and processor time, the best of three. Both builds give the same cells.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import ilba

SECRET = ilba.Secret(bytes(range(32)))
HKEY, KEY = ["region", "town"], ["sex", "age", "job"]


def records(number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Clean records, and the same as people write them."""
    random = np.random.default_rng(1)
    town, age = random.integers(1, 2001, number), random.integers(0, 100, number)
    sex, job, blank = random.integers(0, 2, number), random.integers(0, 8, number), random.random(number) < 0.2
    frame = pl.DataFrame({"t": town, "a": age, "s": sex, "j": job, "b": blank})
    code = pl.col("t").cast(pl.String)
    band = pl.when(pl.col("a") >= 85).then(85).otherwise(pl.col("a") // 5 * 5)
    low, high = band.cast(pl.String).str.zfill(2), (band + 4).cast(pl.String).str.zfill(2)
    clean = frame.select(
        code.str.zfill(5).str.head(2).alias("region"),
        code.str.zfill(5).alias("town"),
        pl.when(pl.col("s") == 0).then(pl.lit("f")).otherwise(pl.lit("m")).alias("sex"),
        pl.when(band == 85).then(pl.lit("85+")).otherwise(low + "-" + high).alias("age"),
        ("j" + pl.col("j").cast(pl.String)).alias("job"),
    )
    messy = frame.select(
        pl.when("b").then(code).otherwise(code.str.zfill(5)).alias("town"),
        pl.when("b").then(pl.when(pl.col("s") == 0).then(pl.lit(" F")).otherwise(pl.lit("male")))
        .otherwise(pl.when(pl.col("s") == 0).then(pl.lit("f")).otherwise(pl.lit("m"))).alias("sex"),
        pl.col("a").cast(pl.String).alias("age"),
        pl.when("b").then("J" + pl.col("j").cast(pl.String)).otherwise("j" + pl.col("j").cast(pl.String)).alias("job"),
    )  # fmt: skip
    return clean, messy


def timed(does, times: int = 3):
    """The result, and the best wall clock and processor time of several runs."""
    walls, works = [], []
    for _ in range(times):
        wall, work = time.perf_counter(), time.process_time()
        result = does()
        walls.append(time.perf_counter() - wall)
        works.append(time.process_time() - work)
    return result, min(walls), min(works)


def main(number: int) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        clean, messy = records(number)
        clean.write_parquet(place / "clean.parquet")
        messy.write_parquet(place / "messy.parquet")
        clean.write_csv(place / "clean.csv")
        messy.write_csv(place / "messy.csv")
        del clean, messy
        (place / "sex.csv").write_text("value,becomes\nmale,m\n")
        recipe = ilba.Recipe(
            {
                "town": {"pad": 5},
                "region": {"from": "town", "prefix": 2},
                "sex": {"case": "lower", "recode": "sex.csv", "unmatched": "keep"},
                "age": {"width": 5, "top": 85},
                "job": {"case": "lower"},
            },
            folder=place,
        )
        for kind in ("parquet", "csv"):
            plain, wall, work = timed(lambda k=kind: ilba.build(place / f"clean.{k}", HKEY, KEY, secret=SECRET))
            cleaned, wall2, work2 = timed(
                lambda k=kind: ilba.build(place / f"messy.{k}", HKEY, KEY, secret=SECRET, recipe=recipe)
            )
            assert cleaned.frame.equals(plain.frame)
            print(
                f"{number:,} records, {kind}: build of clean records {wall:.2f} s ({work:.2f} s of processors); with "
                f"the recipe on messy ones {wall2:.2f} s ({work2:.2f} s); it costs {work2 / work - 1:+.0%} of build "
                f"in processor time, {wall2 / wall - 1:+.0%} on the clock"
            )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
