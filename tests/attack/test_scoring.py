"""What attackers believe is scored by hand, and groups with a single value are counted one by one."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import PublishedTables
from ilba.attack.attributes import groups
from ilba.attack.scoring import Believed, TrueCells
from support.stores import toy

COUNTS = [1, 7, 2, 0, 3, 1, 9, 4]
"""four towns with two cells each; the first three towns are the sample"""


@pytest.fixture(scope="module")
def believed():
    finest = toy(COUNTS, [0, 7, 0, 0, 5, 0, 9, 5], 5, "grid", areas=4)
    chance = np.zeros((6, 6))
    chance[:, 1] = [0.97, 0, 0.1, 0, 0, 0.2]
    chance[:, 3] = [0, 0.96, 0.4, 0, 0.99, 0.1]
    chance[:, 0] = 1 - chance.sum(1)
    true = TrueCells.of(PublishedTables.of(finest, "ilba"))
    return Believed(true, np.arange(6), chance, np.array(COUNTS[:6]), np.arange(3))


def test_the_truth_is_that_of_the_finest_table_where_it_is_known(believed):
    assert (believed.true.small, believed.true.areas, believed.true.width) == (5, 4, 2)
    rows = believed.true.published.base
    public = PublishedTables.from_frames(
        believed.true.published.codes, {"all": pl.DataFrame({"N_masked": [rows.value.sum()]})}
    )
    unknown = TrueCells.of(public)
    assert (unknown.known, unknown.small, len(unknown.packed), len(unknown.counts)) == (False, None, 0, 0)
    blind = Believed(unknown, believed.packed, believed.chance, np.zeros(6, np.int64), believed.areas)
    assert blind.calibration("anybody") == []
    told = blind.figures()
    assert [told[name] for name in ("likely_right", "likely_share", "likely_error", "alone_right")] == [None] * 4


def test_bets_of_a_sample_are_counted_and_scaled_up(believed):
    """Three bets, two of them right; four cells of the sample are small, and three of four towns are in it."""
    assert believed.small == pytest.approx([0.97, 0.96, 0.5, 0, 0.99, 0.3])
    assert believed.alone == pytest.approx([0.97, 0, 0.1, 0, 0, 0.2])
    # Hits are 1, 0, 1 in the towns, and a half of 1, 1, 2 small cells was expected.
    error = np.sqrt((1 - 3 / 4) * (0.5**2 + 0.5**2) / 2 * 3) / 4
    assert believed.figures() == pytest.approx(
        {
            "likely": 4,
            "likely_right": 2 / 3,
            "likely_share": 2 / 4,
            "likely_error": error,
            "alone": 1,
            "alone_right": 1.0,
        }
    )
    two = Believed(believed.true, np.arange(4), believed.chance[:4], believed.counts[:4], np.arange(2))
    assert two.figures()["likely_error"] == pytest.approx(np.sqrt((1 - 2 / 4) * (0.5**2 + 0.5**2) / 1 * 2) / 2)
    chance = believed.chance.copy()
    chance[3, [0, 1]] = 0, 1  # sure of an empty cell
    wrong = Believed(believed.true, np.arange(6), chance, believed.counts, np.arange(3)).figures()
    assert (wrong["likely_right"], wrong["likely_share"], wrong["alone_right"]) == (2 / 4, 2 / 4, 1 / 2)
    unsure = Believed(believed.true, np.arange(6), believed.chance / 2, believed.counts, np.arange(3))
    told = unsure.figures()
    assert [told[name] for name in ("likely", "likely_right", "alone", "alone_right")] == [0, None, 0, None]
    one = Believed(believed.true, np.arange(2), believed.chance[:2], believed.counts[:2], np.arange(1))
    assert one.figures()["likely_error"] is None


def test_bins_hold_what_was_said_and_what_is_true_of_cells_and_of_people(believed):
    rows = believed.calibration("outsider")
    assert [(row["event"], row["cells"]) for row in rows] == [
        *(("1..K-1", cells) for cells in (1, 1, 1, 3)),
        *(("exactly 1", cells) for cells in (3, 1, 1, 1)),
    ]
    assert {row["attacker"] for row in rows} == {"outsider"}
    assert [row["said"] for row in rows] == pytest.approx([0, 0.3, 0.5, 2.92 / 3, 0, 0.1, 0.2, 0.97])
    assert [row["true"] for row in rows] == pytest.approx([0, 1, 1, 2 / 3, 0, 0, 1, 1])
    people = believed.calibration("neighbour", people=True)  # nobody is in the fourth cell
    assert [row["cells"] for row in people] == [1, 1, 3, 2, 1, 1, 1]
    assert people[2]["said"] == pytest.approx((0.97 + 7 * 0.96 + 3 * 0.99) / 11)
    assert people[2]["true"] == pytest.approx(4 / 11)


def test_the_likeliest_small_cells_are_listed_first(believed):
    frame = believed.frame()
    assert frame.columns == ["town", "x", "small", "one"]
    assert frame.select("town", "x").rows() == [(2, 0), (0, 0), (0, 1), (1, 0), (2, 1)]
    assert frame["one"].to_list() == pytest.approx([0, 0.97, 0, 0.1, 0.2])
    # A cell that is small with a chance of no more than 1 in 100 is not listed.
    chance = believed.chance.copy()
    chance[3, [0, 2]] = 0.99, 0.01
    hardly = Believed(believed.true, believed.packed, chance, believed.counts, believed.areas)
    assert hardly.frame().equals(frame)


def _by_hand(shown, true, K, variable, others):
    """The figures of one variable of a table by towns: group by group."""
    found = dict.fromkeys(("shown_groups", "shown_people", "groups", "people", "coalition_1", "coalition_2"), 0)
    right = pure = 0
    expected_people = 0.0
    values = sorted({row[variable] for row in shown})

    def count(rows, **labels):
        return sum(row["n"] for row in rows if all(row[name] == label for name, label in labels.items()))

    towns = sorted({(row["region"], row["town"]) for row in shown})
    for (region, town), *labels in itertools.product(towns, *({row[name] for row in shown} for name in others)):
        group = dict(zip(others, labels, strict=True))
        says = {value: count(shown, town=town, **group, **{variable: value}) for value in values}
        if sum(n > 0 for n in says.values()) != 1:
            continue
        top = max(says, key=says.get)
        near, far = (
            {v: count(shown, **where, **group, **{variable: v}) - says[v] for v in values}
            for where in ({"region": region}, {})
        )
        rest = near if sum(near.values()) >= 4 * K else far
        people = count(true, town=town, **group)
        have = count(true, town=town, **group, **{variable: top})
        share = (rest[top] + 0.5) / (sum(rest.values()) + 0.5 * len(values))
        found["shown_groups"] += 1
        found["shown_people"] += people
        if share < 0.8 and sum(rest.values()) > 0:
            found["coalition_1"] += people - have == 1 and have > 0
            found["coalition_2"] += people - have in (1, 2) and have > 0
            if share ** max(says[top], 1) < 0.05:
                found["groups"] += 1
                found["people"] += people
                pure += people == have and people > 0
                right += have
                expected_people += share * people
    found["pure"] = pure / found["groups"] if found["groups"] else None
    found["accuracy"] = right / found["people"] if found["people"] else None
    found["expected"] = expected_people / found["people"] if found["people"] else None
    found["gain"] = right - expected_people
    return found


def test_groups_shown_with_one_value_are_those_that_are_counted_one_by_one(secret, monkeypatch):
    rng = np.random.default_rng(3)
    cells = [(f"r{t // 4}", f"t{t}", x, y) for t in range(8) for x in "abc" for y in "uv"]
    frame = pl.DataFrame(cells, schema=["region", "town", "x", "y"], orient="row")
    frame = frame.with_columns(N=rng.choice([0, 0, 0, 0, 1, 2, 3, 9, 14], len(cells)))
    alone = pl.DataFrame([("r0", "t0", "a", "w", 14)], schema=frame.schema, orient="row")
    frame = pl.concat([frame, alone])  # nobody else has this value of y
    finest = ilba.FinestTable.from_counts(frame, ["region", "town"], ["x", "y"], 5, secret=secret)
    view = PublishedTables.of(finest, "ilba")
    found, left_out = groups(view)
    assert left_out == []
    assert set(found["table"]) == {f"{level}.{keys}" for level in ("region", "town") for keys in ("x", "y", "x.y")}
    assert found["gain"].is_sorted(descending=True)
    counted = 0
    for name, keys in (("town.x", ["x"]), ("town.y", ["y"]), ("town.x.y", ["x", "y"])):
        columns = ["region", "town", *keys]
        every = frame.select(columns).unique()
        shown = finest.table("town", keys).public().rename({"N_masked": "n"})
        true = frame.group_by(columns).agg(n=pl.col("N").sum())
        rows = [
            every.join(part.with_columns(pl.col(columns).cast(pl.String)), on=columns, how="left")
            .with_columns(pl.col("n").fill_null(0))
            .to_dicts()
            for part in (shown, true)
        ]
        for variable in keys:
            row = found.row(by_predicate=(pl.col("table") == name) & (pl.col("variable") == variable), named=True)
            expected = _by_hand(*rows, 5, variable, [key for key in keys if key != variable])
            assert {key: row[key] for key in expected} == pytest.approx(expected), (name, variable)
            counted += row["groups"]
    assert counted > 3
    monkeypatch.setattr("ilba.attack.attributes.MOST_CELLS", 24)  # towns by x have as many cells
    some, left_out = groups(view)
    assert left_out == ["town.x.y"]
    assert some.equals(found.filter(pl.col("table") != "town.x.y"))
    monkeypatch.setattr("ilba.attack.attributes.MOST_CELLS", 1)
    none, left_out = groups(view)
    assert none.is_empty()
    assert set(left_out) == set(found["table"])
