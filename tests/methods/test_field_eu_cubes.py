"""Group 1 of the EU census 2021: four linked hypercubes with uneven hierarchies, against R (folder 08)."""

from __future__ import annotations

import polars as pl
import pytest

from ilba.methods import small_count_rounding, suppress
from ilba.methods.tabulation import tabulate

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "outside" / "08_eu_2021"


@pytest.fixture(scope="module")
def people(folder):
    return pl.read_csv(folder / "group1_synthetic.csv", infer_schema=False).with_columns(pl.col("freq").cast(pl.Int64))


@pytest.fixture(scope="module")
def cubes(folder):
    listed = pl.read_csv(folder / "hypercubes.csv", infer_schema=False).filter(pl.col("group") == "1")
    return {cube: full.replace("geo_n * ", "") for cube, full in listed.select("cube", "full").iter_rows()}


def test_the_cells_of_each_cube_and_of_all_together_are_counted_once(folder, people, cubes):
    for cube, *expected in pl.read_csv(folder / "group1_expected_counts.csv", infer_schema=False).iter_rows():
        made = tabulate(people, " + ".join(cubes.values()) if cube == "union" else cubes[cube])
        cells = made.labels.with_columns(n=pl.Series(made.published)).unique().filter(pl.col("n") > 0)["n"]
        assert [cells.len(), (cells == 1).sum(), (cells <= 2).sum(), (cells <= 3).sum()] == [int(x) for x in expected]


def test_the_blanks_of_all_cubes_are_those_of_the_r_package(folder, people, cubes):
    found = suppress(people, 3, list(cubes.values()))
    expected = pl.read_parquet(folder / "group1_gauss_maxN3.parquet")
    labels = found.columns[:-3]
    assert found.height == expected["repeats"].sum() == 9408
    assert found.group_by(labels).agg(pl.col("suppressed").n_unique())["suppressed"].max() == 1
    both = expected.join(found.unique(labels), on=labels, how="left", suffix="_ours")
    assert both.height == 6749
    assert both["suppressed"].equals(both["suppressed_ours"].alias("suppressed"))
    assert both["primary"].equals(both["primary_ours"].alias("primary"))


def test_small_count_rounding_of_all_cubes_lies_in_the_range_of_the_r_package(folder, people, cubes):
    ranges = {
        name: (low, high) for name, low, _, high in pl.read_csv(folder / "group1_pls_base3_ranges.csv").iter_rows()
    }
    made = [small_count_rounding(people, 3, list(cubes.values()), seed=seed) for seed in range(10)]
    for found in made:
        assert found.publish.height == 9408
        assert found.publish.filter(pl.col("rounded").is_between(1, 2)).is_empty()
        # R met 6 to 8 over 20 seeds. Ours meets 5 to 9 over 200, and 9 in 5 of them: 20 seeds would rather miss it.
        assert 5 <= found.metrics["maxdiff"] <= 9
    for name, (low, high) in ranges.items():
        ours = sum(found.metrics[name] for found in made) / len(made)
        assert low <= ours <= high, name
