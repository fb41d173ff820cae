"""Suppression against the results of GaussSuppression and of full enumeration: folder 06."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.methods import suppress

pytestmark = pytest.mark.slow  # the first run compiles

GAUSS = {
    "g0": ("region*hovedint", 3, False),
    "g1": ("region*main_income", 1, False),
    "g2": ("(region + county + size)*main_income", 2, False),
    "g3": ("region*main_income", 3, True),
    "g4": ("rows*cols", 3, False),
    "g5": ("row*col", 1, False),
}


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "outside" / "06_suppression"


@pytest.mark.parametrize("case", GAUSS)
def test_the_blanks_and_the_ranges_of_the_gaussian_way_are_those_of_the_r_package(folder, case):
    tables, max_n, zeros = GAUSS[case]
    expected = pl.read_csv(folder / f"{case}_expected.csv")
    found = suppress(pl.read_csv(folder / f"{case}_in.csv"), max_n, tables, zeros=zeros, intervals=True)
    labels = found.columns[:2]
    both = expected.with_columns(pl.col(labels).cast(pl.String)).join(found, on=labels, how="full", suffix="_ours")
    assert both.height == expected.height == found.height
    for column in ("primary", "suppressed"):
        assert both[column].equals(both[f"{column}_ours"].alias(column))
    for column in ("attack_lo", "attack_hi"):
        assert both[column].is_null().equals(both[f"{column}_ours"].is_null().alias(column))
        assert (both[column] - both[f"{column}_ours"]).abs().max() < 1e-6


@pytest.mark.parametrize(
    ("case", "most", "width", "cells", "total"), [("s1", 3, 4, 3, 43), ("s2", 3, 5, 3, 26), ("s3", 2, 3, 4, 27)]
)
def test_the_optimal_pattern_is_that_of_full_enumeration(folder, case, most, width, cells, total):
    expected = pl.read_csv(folder / f"optimal_{case}.csv")
    found = suppress(expected.select("row", "col", "freq"), most, method="optimal", width=width, intervals=True)
    both = expected.join(found, on=["row", "col"], suffix="_ours")
    assert both.height == expected.height
    assert both["suppressed"].equals(both["suppressed_optimal"].alias("suppressed"))
    blank = both.filter("suppressed")
    for column in ("attack_lo", "attack_hi"):
        assert (blank[column] - blank[f"{column}_ours"]).abs().max() < 1e-6
    secondary = found.filter(pl.col("suppressed") & ~pl.col("primary"))
    assert (secondary.height, secondary["count"].sum()) == (cells, total)


def test_primary_suppression_alone_leaves_blanks_that_can_be_computed(folder):
    found = suppress(pl.read_csv(folder / "g0_in.csv"), 3, "region*hovedint", method="primary", intervals=True)
    blank = found.filter("suppressed")
    assert blank["primary"].all()
    assert (blank["attack_lo"] == blank["attack_hi"]).any()


def test_a_method_that_is_not_known_is_refused(folder):
    with pytest.raises(ilba.InputError, match="'gauss', 'optimal' or 'primary'"):
        suppress(pl.read_csv(folder / "g0_in.csv"), 3, "region*hovedint", method="best")


@pytest.mark.parametrize("seed", range(6))
def test_optimal_blanks_are_no_more_than_the_gaussian_ones_where_those_protect_as_well(seed):
    """Random tables: each primary cell is guarded, at no more than the cost of any other pattern that guards."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame({"row": np.repeat(list("abcd"), 4), "col": list("wxyz") * 4, "freq": rng.poisson(6, 16)})
    for width in (1, 3):
        found = suppress(frame, 3, method="optimal", width=width, intervals=True, seconds=30)
        hidden = found.filter("primary", pl.col("count") > 0)
        assert (hidden["attack_hi"] - hidden["attack_lo"] >= width - 1e-6).all()
        gauss = suppress(frame, 3, intervals=True)
        guards = gauss.filter("primary").select((pl.col("attack_hi") - pl.col("attack_lo") >= width).all()).item()
        if guards and not gauss.filter(pl.col("suppressed") & (pl.col("count") == 0)).height:
            assert found["suppressed"].sum() <= gauss["suppressed"].sum()


def test_what_is_proven_of_optimal_blanks_is_nothing_where_they_are_wide_enough(secret):
    """Everybody knows that a blank is not 0 where zeros are published; the pattern takes it into account."""
    finest = ilba.build(ilba.datasets.census(600), ["LA2"], ["gender", "mar"], secret=secret)
    gauss, best = (
        ilba.compare(finest, methods=[name]).rows.to_dicts()[0]
        for name in ("suppression", "suppression:kind=optimal,seconds=3")
    )
    assert gauss["provable"] > 0
    assert (best["provable"], best["exact"]) == (0, 0)
    exact = ilba.compare(finest, methods=["suppression:kind=optimal,width=1,seconds=3"])
    assert exact.rows["exact"].item() == 0
    assert exact.rows["blank"].item() <= best["blank"]


def test_a_search_that_is_stopped_says_how_far_it_got(secret):
    finest = ilba.build(ilba.datasets.census(2000), ["LA2"], ["gender", "mar", "age"], secret=secret)
    found = ilba.compare(finest, methods=["suppression:kind=optimal,seconds=1"])
    assert any("small cells are protected by width" in text for text in found.remarks)


@pytest.mark.parametrize("freq", [[2], [1, 0, 0, 0]])
@pytest.mark.parametrize("zeros", [False, True])
def test_a_small_total_that_no_pattern_hides_is_refused(freq, zeros):
    frame = pl.DataFrame({"row": list("abcd")[: len(freq)], "freq": freq})
    with pytest.raises(ilba.InputError, match=r"no pattern hides.*total of all cells is primary.*Give method='gauss'"):
        suppress(frame, 3, method="optimal", zeros=zeros)
    assert suppress(frame, 3, zeros=zeros).filter("primary")["suppressed"].all()


def test_advice_to_leave_zeros_blank_is_given_only_where_some_are_published():
    frame = pl.DataFrame({"row": ["a", "b", "c"], "freq": [1, 0, 9]})
    with pytest.raises(ilba.InputError, match=r"Give a smaller width, or leave zeros blank too: zeros=True\.$"):
        suppress(frame, 3, method="optimal", width=11)
    with pytest.raises(ilba.InputError, match=r"Give a smaller width\.$"):
        suppress(frame, 3, method="optimal", width=11, zeros=True)


@pytest.mark.parametrize("seed", range(6))
def test_primary_zeros_are_blank_and_guarded_in_the_optimal_pattern(seed):
    rng = np.random.default_rng(seed)
    freq = np.where(np.arange(16) % 7, rng.poisson(3, 16), 0)
    frame = pl.DataFrame({"row": np.repeat(list("abcd"), 4), "col": list("wxyz") * 4, "freq": freq})
    for width in (1, 3):
        found = suppress(frame, 2, zeros=True, method="optimal", width=width, intervals=True, seconds=30)
        primary = found.filter("primary")
        assert primary["suppressed"].all()
        assert (primary["attack_hi"] - primary["attack_lo"] >= width - 1e-6).all()
        gauss = suppress(frame, 2, zeros=True, intervals=True)
        if gauss.filter("primary").select((pl.col("attack_hi") - pl.col("attack_lo") >= width).all()).item():
            assert found["suppressed"].sum() <= gauss["suppressed"].sum()


def test_a_row_of_zeros_is_blank_with_its_total_if_zeros_are_primary():
    frame = pl.DataFrame({"row": list("aaabbbccc"), "col": list("xyz") * 3, "freq": [0, 0, 0, 9, 8, 7, 6, 9, 8]})
    found = suppress(frame, 3, zeros=True, method="optimal", width=2, intervals=True)
    zeros = found.filter(pl.col("count") == 0)
    assert zeros.height == 4
    assert zeros["suppressed"].all()
    assert (zeros["attack_hi"] >= 2).all()
