"""Explanations of disclosed cells, sentence by sentence, on tables of eight cells."""

from __future__ import annotations

import numpy as np
import pytest

import ilba
from ilba import PublishedTables
from ilba.attack.bounds import Attack, Event
from ilba.attack.explanations import Bound, Proof, explain
from ilba.output import korean
from support.stores import toy

FLAGS = [4, 9, 5, 4, 3, 0, 0, 5], [5, 9, 5, 0, 0, 0, 0, 5]
"""counts and masks of two towns by four values of x, K=5"""


def _published(counts, masks, method, reading):
    return PublishedTables.of(toy(counts, masks, 5, reading, areas=2), method)


def _explained(published, low, high, *cells, **how):
    return explain(published, [(published.lattice.base, cell, low, high) for cell in cells], **how)


def test_a_proof_in_the_grid_quotes_what_it_needs_and_adds_up_what_is_exact():
    published = _published([3, 7, 7, 0, 7, 3, 3, 0], [0, 7, 7, 0, 7, 0, 5, 0], "ilba", "grid")
    first, second = _explained(published, 1, 4, 0, 5)
    assert first == ("town 0, x 0", 1, 4, [
        "town 0: 19 published, 14 of it in cells above K=5; 5 means 1..8.",
        "x 3: 0 published means 0..0.",
        "town 0, x 0: 0 published means 0..4.",
        "2 other cells are published above K=5, so they are exact and not small.",
        "town 0, x 3: at most 0, because x 3 is at most 0 and its other parts are 0 or more.",
        "town 0, x 0: at least 1, because town 0 is at least 1 and its other parts are 0.",
        "So town 0, x 0 lies in 1..4.",
    ])  # fmt: skip
    assert second == ("town 1, x 1", 1, 4, [
        "town 1: 15 published, 7 of it in cells above K=5; 8 means 6..13.",
        "town 1, x 0: 7 published is above K, so it is exact.",
        "town 1, x 2: 5 published means 1..5.",
        "x 3: 0 published means 0..0.",
        "town 1, x 1: 0 published means 0..4.",
        "town 1, x 3: at most 0, because x 3 is at most 0 and its other parts are 0 or more.",
        "town 1, x 1: at least 1, because town 1 is at least 6 and its other parts are at most 5 in town 1, x 2.",
        "So town 1, x 1 lies in 1..4.",
    ])  # fmt: skip
    assert _explained(published, 1, 4, 0, 5, most=1) == [first]
    assert _explained(published, 1, 4, 0, 5, most=2) == [first, second]
    assert _explained(published, 1, 4, 6, 0, most=1) == [first]  # a cell that is not proven is skipped


def test_a_proof_by_the_number_of_occupied_cells_says_how_many_there_are():
    published = _published([7, 7, 0, 4, 3, 2, 3, 3], [7, 7, 0, 5, 5, 0, 0, 5], "ilba", "observed")
    first, second = _explained(published, 1, 4, 3, 5)
    assert first == ("town 0, x 3", 1, 4, [
        "town 0, x 3: 5 published means 1..5.",
        "town 0: 19 published, 14 of it in cells above K=5; 5 means 1..9 in 1..2 occupied cells.",
        "town 1: 13 published means 11..18 in 4 occupied cells.",
        "x 0: 12 published, 7 of it in cells above K=5; 5 means 1..5 in 1 occupied cell.",
        "x 1: 7 published, 7 of it in cells above K=5; 0 means 0..4 in 0..1 occupied cells.",
        "x 2: 0 published means 0..4 in 0..1 occupied cells.",
        "x 3: 8 published means 2..10 in 2 occupied cells.",
        "the total: at least 5 occupied cells, the sum of its parts (5 = 1 in town 0 + 4 in town 1).",
        "the total: at most 5 occupied cells, the sum of its parts (5 = 1 in x 0 + 1 in x 1 + 1 in x 2 + 2 in x 3).",
        "the total: at most 15, because it has 5..5 occupied cells.",
        "town 0: at most 4, because the total is at most 15 and its other parts are at least 11 in town 1.",
        "town 0, x 3: at most 4, because town 0 is at most 4 and its other parts are 0 or more.",
        "So town 0, x 3 lies in 1..4.",
    ])  # fmt: skip
    assert second.why[-3:] == [
        "town 1, x 1: at least 1 occupied cell, because town 1 has at least 4 occupied and its other parts are at most "
        "3 = 1 in town 1, x 0 + 1 in town 1, x 2 + 1 in town 1, x 3.",
        "town 1, x 1: at least 1, because somebody is there.",
        "So town 1, x 1 lies in 1..4.",
    ]
    proof = Proof(Attack(published, record=True).run())
    bound = Bound(1, (1, 0), False, 1)
    step = Event(0, 1, (1, 0), False, np.array([1]), np.array([4]), None)
    rests = list(proof._rests_on(bound, step))
    assert rests == [Bound(0, (1, 0), False, 1)]
    told = proof._follows(bound, 4, step, rests)
    assert told == "town 1: at least 4 occupied cells, because its small cells sum to at least 11."


def test_a_proof_calls_a_blank_a_blank():
    finest = toy([1, 2, 9, 9], [0, 5, 9, 9], 5, "observed", areas=2)
    why = ilba.audit(finest, "suppression:max_n=2", tables=["town", "town.x"]).worst[0].why
    assert "town 0, x 0: a blank means 1 or more." in why
    assert "town 0: 3 published means 3..3." in why
    assert korean.said("town 0, x 0: a blank means 1 or more.", "ko").endswith("빈칸은 1 이상을(를) 뜻합니다.")
    primary = ilba.audit(finest, "suppression:max_n=2,kind=primary", tables=["town.x"])
    assert primary.worst[0].why[0] == "town 0, x 0: a blank means 1..2."


def test_small_counts_of_coarser_tables_that_are_known_exactly_are_counted(tmp_path):
    finest = toy([1, 3, 9, 9], [0, 5, 9, 9], 5, "observed", areas=2)
    report = ilba.audit(finest, "suppression:max_n=0", tables=["town", "town.x"])
    assert (report.aggregates, report.aggregates_exact, report.to_dict()["aggregates_exact"]) == (1, 1, 1)
    assert "    aggregates exactly                     1" in str(report)
    assert "aggregates proven exactly" in report.to_html(tmp_path / "audit.html").read_text("utf-8")
    assert report.share_exact_of_counts == 1
    (row,) = ilba.compare(finest, ["town"], methods=["suppression:max_n=0"]).rows.to_dicts()
    assert row["exact_counts"] == 1


@pytest.mark.parametrize(("long", "ends"), [(40, (2, 4)), (9, (2, 4)), (8, (1, 4)), (1, (1, 4))])
def test_a_shorter_proof_of_a_wider_range_takes_the_place_of_a_long_one(monkeypatch, long, ends):
    monkeypatch.setattr("ilba.attack.explanations.LONG", long)
    (one,) = _explained(_published(*FLAGS, "r-file", "observed"), 2, 4, 3)
    assert (one.cell, one.low, one.high) == ("town 0, x 3", *ends)
    whole = [
        "the total: 27 published with type1=0 and type2=1, 9 of it in cells above K=5; 18 means 21..23.",
        "x 0: 5 published with type1=0 and type2=1 means 6..9.",
        "x 1: 9 published with type1=0 and type2=0, 9 of it in cells above K=5; 0 means 0..0.",
        "x 2: 5 published with type1=0 and type2=0 means 1..5.",
        "town 1, x 3: 5 published means 1..5.",
        "town 0, x 3: 0 published means 1..4.",
        "x 3: at least 7, because the total is at least 21 and its other parts are at most 14 = 9 in x 0 + 5 in x 2.",
        "town 0, x 3: at least 2, because x 3 is at least 7 and its other parts are at most 5 in town 1, x 3.",
        "So town 0, x 3 lies in 2..4.",
    ]
    assert one.why == (whole if one.low == 2 else [whole[5], "So town 0, x 3 lies in 1..4."])
