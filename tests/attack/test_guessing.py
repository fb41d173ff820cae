"""Bets on the tables of the field's methods: chances that are chances, Bayes by hand, beliefs that hold."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import methods
from ilba.attack.field import MethodTables
from ilba.attack.guessing import Guessing, measured
from ilba.design.tables import wanted_tables
from ilba.methods.lab import method_of

ONE = np.ones(1, dtype=np.int64)


@pytest.fixture(scope="module")
def census(secret):
    people = ilba.datasets.census(3000)
    return ilba.build(people, ["LA2", "LA3"], ["gender", "age"], secret=secret)


@pytest.mark.parametrize(
    "method",
    [
        methods.CellKey(D=2, V=1.0),
        methods.CellKey(D=5, V=3.0, js=2, pstay=0.5),
        methods.Rounding(3),
        methods.Rounding(5, "conventional"),
        methods.SmallCountRounding(5),
        methods.Noise(1.0),
        methods.Noise(2.0, "gaussian"),
    ],
    ids=str,
)
def test_the_chances_of_all_numbers_of_a_count_add_up_to_one(method):
    value = np.arange(400)
    for count in (0, 1, 2, 4, 5, 7, 40):
        said = method.chance(value, np.full_like(value, count), np.ones_like(value), 1)
        if getattr(method, "kind", "") == "conventional":  # numbers that are never published are not asked for
            said = said[value % 5 == 0]
        assert said.sum() == pytest.approx(1, abs=1e-6), count


def test_blanks_of_cell_keys_have_the_chance_to_fall_below_the_threshold():
    method = methods.CellKey(D=2, V=1.0, threshold=3)
    count = np.arange(8)
    value = np.arange(12)
    shown = [method.chance(value, np.full_like(value, one), np.ones_like(value), 1)[3:].sum() for one in count]
    assert method.blank_chance(count, 5) == pytest.approx(1 - np.array(shown), abs=1e-9)


def test_where_a_blank_may_hide_a_large_count_its_chance_is_left_open():
    assert methods.Suppression(kind="primary").blank_chance(np.array([0, 1, 4, 5]), 5).tolist() == [0, 1, 1, 0]
    open_ended = methods.Suppression().blank_chance(np.array([0, 1, 4, 5]), 5)
    assert open_ended[:3].tolist() == [0, 1, 1]
    assert np.isnan(open_ended[3])


def test_an_insider_believes_what_bayes_says(secret):
    """Two cells and their sum, rounded to 3: the chances of the first are those of the two numbers it is in."""
    counts = pl.DataFrame({"town": ["a", "b"], "N": [2, 7]})
    finest = ilba.FinestTable.from_counts(counts, ["town"], [], secret=secret)
    method = methods.Rounding(3)
    made = MethodTables.made_by(method, finest, wanted_tables(finest.design))
    from ilba.attack.attackers import Known

    guessing = Guessing(made, Known.of(made), np.arange(2))
    found = guessing.insider()
    shown, whole = made.tables[(1,)].value[0], made.tables[(0,)].value[0]
    prior = np.exp(guessing._informed()[0])
    count = guessing.grid[0]
    by_hand = prior * np.maximum(1 - np.abs(shown - count) / 3, 0) * np.maximum(1 - np.abs(whole - 7 - count) / 3, 0)
    expected = by_hand / by_hand.sum()
    for place, one in enumerate(count):
        if one < 5:
            assert found.chance[0, one] == pytest.approx(expected[place], abs=1e-9)
    possible = count[expected > 0]
    assert (found.low[0], found.high[0]) == (possible.min(), possible.max())


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["rounding:3", "rounding:5", "cell-key:D=2,V=1", "cell-key:D=5,V=3,js=2,threshold=4", "noise:12",
     "suppression", "small-count-rounding:5"],
)  # fmt: skip
def test_beliefs_hold_against_the_truth_bin_by_bin(census, name):
    report = ilba.risk(census, ["outsider", "insider"], method=name)
    rows = {row["attacker"]: row for row in report.rows.iter_rows(named=True)}
    assert rows["outsider"]["likely"] is not None
    assert rows["insider"]["likely"] is not None
    if rows["outsider"]["likely"] > 30:
        assert rows["outsider"]["likely_right"] > 0.93
    assert rows["insider"]["proven"] >= rows["outsider"]["proven"]
    bins = report.calibration.filter(pl.col("event") == "1..K-1", pl.col("cells") >= 30)
    assert bins.height
    for row in bins.filter(pl.col("attacker") == "outsider").iter_rows(named=True):
        chance = 3 * (row["said"] * (1 - row["said"]) / row["cells"]) ** 0.5
        assert row["said"] == pytest.approx(row["true"], abs=0.16 + chance), row


def test_noise_that_is_fitted_tells_no_chances_and_the_report_says_so(census):
    report = ilba.risk(census, ["outsider", "insider"], method="noise:epsilon=1,fit=true", keys=["gender"])
    assert report.rows["likely"].to_list() == [None, None]
    assert any("fitted to each other" in note for note in report.notes)


def test_where_the_common_refinement_is_not_published_the_largest_table_takes_its_place(census):
    wanted = ["LA3.gender", "LA3.age", "LA2", "LA3"]
    made = MethodTables.made_by(method_of("rounding:3"), census, wanted_tables(census.design, wanted))
    view = measured(made)
    assert view.lattice.base in made.tables
    assert view.number == 4
    assert set(view.tables) == {(2, 0, 1), (1, 0, 0), (2, 0, 0)}
    report = ilba.risk(made, ["outsider"])
    assert report.rows["likely"][0] is not None
    assert any("LA3.age" in note for note in report.notes)
