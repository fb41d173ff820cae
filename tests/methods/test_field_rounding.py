"""Rounding of the field against outside results: folders 03 (rounding), 04 and 05."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.methods import controlled_rounding, conventional_rounding, random_rounding, small_count_rounding

SMALL = {
    "c1": ("exPSD", 5, "rows + cols", {}),
    "c2": ("exPSD", 5, "rows + cols", {"identify_new": False}),
    "c3": ("exPSD", 5, "rows + cols", {"max_round": 7, "identify_new": None}),
    "c4": ("exPSD", 3, "rows + cols", {"max_round": 4}),
    "c5": ("e6", 3, "eu*year + geo*year", {}),
    "c6": ("z2", 3, "region + hovedint + fylke*hovedint + kostragr*hovedint", {}),
    "c7": ("z3", 5, "(region + hovedint + fylke*hovedint + kostragr*hovedint)*mnd", {}),
}


@pytest.fixture(scope="module")
def small(shared):
    return shared / "outside" / "04_small_count"


@pytest.mark.long
@pytest.mark.parametrize("case", SMALL)
def test_small_count_rounding_gives_a_solution_of_the_r_package_for_every_seed(small, case):
    source, base, tables, options = SMALL[case]
    frame = pl.read_csv(small / f"in_{source}.csv")
    (ranges,) = pl.read_csv(small / "seed_ranges.csv").filter(pl.col("case") == case).to_dicts()
    solutions = pl.read_csv(small / "solutions.csv").filter(pl.col("case") == case)["rounded_inner_in_file_order"]
    for seed in range(8):
        found = small_count_rounding(frame, base, tables, seed=seed, **options)
        assert " ".join(map(str, found.inner["rounded"])) in solutions.to_list()
        metrics = found.metrics
        assert ranges["maxdiff_min"] <= metrics["maxdiff"] <= ranges["maxdiff_max"]
        assert ranges["meanabsdiff_min"] - 1e-5 <= metrics["meanAbsDiff"] <= ranges["meanabsdiff_max"] + 1e-5
        assert ranges["hdutility_min"] - 1e-5 <= metrics["HDutility"] <= ranges["hdutility_max"] + 1e-5
        left = found.publish.filter(pl.col("rounded").is_between(1, base - 1)).height
        assert left <= ranges["small_published_after_max"]


@pytest.mark.parametrize("case", ["c3", "c4", "c5", "c6"])
def test_where_there_is_one_solution_the_published_table_is_that_of_the_r_package(small, case):
    source, base, tables, options = SMALL[case]
    found = small_count_rounding(pl.read_csv(small / f"in_{source}.csv"), base, tables, **options).publish
    expected = pl.read_csv(small / f"{case}_publish.csv", infer_schema=False)
    labels = found.columns[:-3]
    both = expected.join(found.select(pl.all().cast(pl.String)), on=labels, how="full", suffix="_ours")
    assert both.height == expected.height
    for column in ("original", "rounded", "difference"):
        assert both[column].equals(both[f"{column}_ours"].alias(column))


def test_tables_may_be_lists_and_carry_their_margins(small):
    frame = pl.read_csv(small / "in_e6.csv")
    by_text = small_count_rounding(frame, 3, "eu*year + geo*year").publish
    by_list = small_count_rounding(frame, 3, [["eu", "year"], ["geo", "year"]]).publish
    assert by_text.equals(by_list)


@pytest.mark.slow
def test_small_count_rounding_of_the_census_is_as_near_to_the_truth_as_that_of_the_r_package(small):
    columns = ["LA1", "LA2", "LA3", "gender", "edu", "age"]
    counts = ilba.datasets.census(1_000_000).group_by(columns).len("N").sort(columns)
    reference = pl.read_csv(small / "census_A_metrics.csv")
    tables = "(LA2+LA3)*gender*edu*age"
    made = [small_count_rounding(counts, 5, tables, seed=seed) for seed in range(4)]
    for found in made:
        assert found.publish.height == reference["cells"][0]
        assert found.publish.filter(pl.col("rounded").is_between(1, 4)).is_empty()
        assert found.publish["rounded"][0] == reference["total"][0]
        # R met 10 to 12 over five seeds; ours 9 to 12 over sixteen.
        assert 9 <= found.metrics["maxdiff"] <= reference["maxdiff"].max()
    for ours, name, near in (
        ([found.metrics["meanAbsDiff"] for found in made], "meanAbsDiff", 0.006),
        ([found.inner["difference"].abs().mean() for found in made], "inner_meanAbsDiff", 0.004),
        ([found.metrics["rootMeanSquare"] for found in made], "rootMeanSquare", 0.012),
        ([found.metrics["HDutility"] for found in made], "HDutility", 0.0002),
    ):
        assert np.mean(ours) == pytest.approx(reference[name].mean(), abs=near), name
    # All cells together: nearer to the truth on average than any result of R, and further at most.
    together = small_count_rounding(counts, 5, tables, at_once=None).metrics
    assert together["meanAbsDiff"] < reference["meanAbsDiff"].min()


@pytest.mark.parametrize(("case", "base"), [("k1", 5), ("k2", 3), ("k3", 5), ("k4", 3)])
def test_controlled_rounding_reaches_the_optimum(shared, case, base):
    folder = shared / "outside" / "05_rounding"
    expected = pl.read_csv(folder / f"controlled_{case}.csv")
    best = pl.read_csv(folder / "controlled_summary.csv").filter(pl.col("case") == case)["optimum_l1"][0]
    inner = expected.filter((pl.col("row") != "Total") & (pl.col("col") != "Total")).select("row", "col", "freq")
    for given in (inner, expected.select("row", "col", "freq")):  # with and without its margins
        found = controlled_rounding(given, base)
        assert (found["rounded"] - found["original"]).abs().sum() == best
        assert (found["rounded"] % base).sum() == 0
        assert ((found["rounded"] - found["original"]).abs() < base).all()
        assert adds_up(found)
    assert expected["conventional"].to_list() == conventional_rounding(expected["freq"], base).tolist()


def adds_up(table: pl.DataFrame) -> bool:
    inner = table.filter((pl.col("row") != "Total") & (pl.col("col") != "Total"))
    margins = table.filter((pl.col("row") == "Total") | (pl.col("col") == "Total"))
    for margin in margins.iter_rows(named=True):
        inside = inner
        for column in ("row", "col"):
            if margin[column] != "Total":
                inside = inside.filter(pl.col(column) == margin[column])
        if inside["rounded"].sum() != margin["rounded"]:
            return False
    return True


def test_a_margin_that_is_no_sum_is_refused():
    frame = pl.DataFrame({"row": ["a", "b", "Total"], "freq": [4, 3, 8]})
    with pytest.raises(ilba.InputError, match="not the sum"):
        controlled_rounding(frame, 5)


def test_random_rounding_has_the_chances_of_the_rule(shared):
    rows = pl.read_csv(shared / "outside" / "05_rounding" / "random_rounding.csv")
    draws = np.linspace(0, 2**53 - 1, 60_001).astype(np.int64)  # every chance alike
    for row in rows.iter_rows(named=True):
        count = np.full(len(draws), 10 * row["base"] + row["remainder"])
        change = random_rounding(count, row["base"], draws) - count
        assert (change > 0).mean() == pytest.approx(row["p_up"], abs=1e-4)
        assert (change**2).mean() == pytest.approx(row["variance"], abs=1e-3)
        assert np.abs(change).mean() == pytest.approx(row["mean_abs_change"], abs=1e-3)
        assert change.mean() == pytest.approx(0, abs=1e-3)


def test_the_handbooks_example_of_rounding(shared):
    table = pl.read_csv(shared / "outside" / "03_handbook" / "rounding.csv")
    assert conventional_rounding(table["count"], 5).tolist() == table["conventional_base5_by_the_rule"].to_list()
    shown = table["random_base5_one_draw"].to_numpy()
    count = table["count"].to_numpy()
    drawn = np.where(shown > count, 0, 2**53 - 1)  # draws that give the one that the Handbook prints, but for 32
    ours = random_rounding(count, 5, drawn)
    assert (ours == shown).all()
    inner = table.filter((pl.col("area") != "Total") & (pl.col("sex") != "Total")).select("area", "sex", "count")
    best = controlled_rounding(inner, 5)
    printed = (table["controlled_base5_one_solution"] - table["count"]).abs().sum()
    assert ((best["rounded"] - best["original"]).abs().sum(), printed) == (18, 22)


def test_a_base_below_two_is_refused():
    with pytest.raises(ilba.InputError, match="base=1"):
        conventional_rounding([1], 1)
    with pytest.raises(ilba.InputError, match="base=0"):
        small_count_rounding(pl.DataFrame({"a": ["x"], "freq": [1]}), 0)
