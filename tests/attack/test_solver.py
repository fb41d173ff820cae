"""The exact solver against trying every truth: no wrong verdict, and nothing provable is missed."""

from __future__ import annotations

import builtins
import itertools
import re

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import MissingExtra
from ilba.attack.counterexamples import Conditions
from ilba.attack.deciding import Asked
from ilba.attack.fewcells import NO_TIME, NOT_ASKED
from ilba.attack.intervals import Intervals
from ilba.attack.solver import Aggregate, BlockSums, Outside, Program, Target, WholeRule, available, clock, leaving
from ilba.design.tables import wanted_tables
from ilba.methods import masking
from support.people import HKEY
from support.worlds import Toy


def _solved(toy):
    rule = WholeRule(
        toy.K,
        toy.reading,
        toy.largest.tolist(),
        [Aggregate(group, value) for group, value in zip(toy.groups, toy.values, strict=True)],
        toy.masks,
    )
    return rule.cover(toy.sets, 20.0)


@pytest.mark.slow
@pytest.mark.parametrize("with_finest", [True, False], ids=["with the finest table", "without it"])
def test_the_solver_proves_what_trying_every_truth_proves(with_finest):
    seen = 0
    for seed in range(12):
        toy = Toy(seed, with_finest)
        worlds = toy.worlds()
        if worlds is None:
            continue
        assert (worlds == toy.x).all(axis=1).any()
        truth = toy.provable(worlds)
        _, cannot, left = _solved(toy)
        assert not left
        assert sorted(cannot) == np.flatnonzero(truth).tolist(), seed
        report = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0)
        assert report.cells_disclosed <= truth[: len(toy.x)].sum()
        seen += 1
    assert seen >= 6


def test_a_notice_says_where_the_time_for_the_solver_has_no_effect(recwarn):
    finest = Toy(0, with_finest=False).finest
    ilba.audit(finest, "rounding:3", ["town"], solver_seconds=0)
    assert not recwarn.list
    with pytest.warns(ilba.Notice, match=r"\(--solver-seconds\) has no effect here: the solver works for iLBA only"):
        ilba.audit(finest, "rounding:3", ["town"], solver_seconds=1)


def test_a_sum_that_leaves_no_room_proves_its_cells():
    low, high = np.array([0, 0]), np.array([4, 4])
    each = [Target([0]), Target([1])]
    both = BlockSums([np.array([0, 1])], np.array([6]), np.array([8]))
    assert leaving(5, low, high, both, each, 5.0).said == "none"
    loose = BlockSums([np.array([0, 1])], np.array([3]), np.array([8]))
    said, values = leaving(5, low, high, loose, each, 5.0)
    assert said == "found"
    assert 0 in values.tolist()
    assert values.sum() >= 3


def test_a_cell_masked_to_k_leaves_upwards():
    low, high, each = np.array([1, 1]), np.array([5, 5]), [Target([0]), Target([1])]
    said, values = leaving(5, low, high, BlockSums([np.array([0, 1])], np.array([2]), np.array([6])), each, 5.0)
    assert said == "found"
    assert sorted(values.tolist()) == [1, 5]
    tight = BlockSums([np.array([0, 1])], np.array([2]), np.array([5]))
    assert leaving(5, low, high, tight, each, 5.0).said == "none"


def test_an_aggregate_leaves_with_what_lies_beside_it():
    low, high = np.array([0, 0]), np.array([4, 4])
    sums = BlockSums([np.array([0, 1])], np.array([0]), np.array([3]))
    assert leaving(5, low, high, sums, [Target([0, 1])], 5.0).said == "found"  # to 0
    assert leaving(5, low, high, sums, [Target([0, 1], beside=1)], 5.0).said == "none"  # 1..4 whatever they are
    assert leaving(5, low, high, sums, [Target([0, 1], beside=2)], 5.0).values.sum() == 3  # up to K


def test_without_the_solver_it_is_said_what_to_install(monkeypatch):
    real = builtins.__import__

    def no_ortools(name, *rest):
        if name.startswith("ortools"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_ortools)
    assert not available()
    with pytest.raises(MissingExtra, match="solver"):
        Program()


@pytest.mark.long
@pytest.mark.parametrize("with_finest", [True, False], ids=["with the finest table", "without it"])
def test_an_audit_with_the_solver_decides_every_count_as_trying_every_truth_does(with_finest):
    """So few cells are one block: nothing is missed, of cells and of aggregates; nor is anything wrong without it."""
    more = 0
    for seed in range(100, 110) if with_finest else (6, 19, 27, 29, 30, 31, 95, 125):
        toy = Toy(seed, with_finest)
        worlds = toy.worlds()
        if worlds is None:
            continue
        plain = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0)
        asked = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0, solver_seconds=30)
        assert toy.wrong(plain, worlds) == toy.wrong(asked, worlds) == []
        assert toy.missed(asked, worlds) == (0, 0)
        assert (asked.cells_undecided, asked.aggregates_undecided) == (0, 0)
        assert asked.why == asked.why_aggregates == {}
        assert plain.cells_undecided == sum(plain.why.values()) == plain.undecided.height
        assert plain.aggregates_undecided == sum(plain.why_aggregates.values()) == plain.undecided_aggregates.height
        more += asked.cells_disclosed - plain.cells_disclosed
    assert more >= (0 if with_finest else 4)


@pytest.mark.long
def test_blocks_with_the_finest_table_say_nothing_that_is_not_so(monkeypatch):
    monkeypatch.setattr("ilba.attack.deciding.few", lambda published: False)
    monkeypatch.setattr("ilba.attack.deciding.LOOKS", 0)
    certified = 0
    for seed in range(100, 110):
        toy = Toy(seed, with_finest=True)
        worlds = toy.worlds()
        if worlds is None:
            continue
        asked = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0, solver_seconds=20)
        assert toy.wrong(asked, worlds) == []
        if not asked.certificate:
            certified += asked.cells_certified + asked.aggregates_certified
            assert asked.cells_undecided == sum(asked.why.values())
            assert asked.aggregates_undecided == sum(asked.why_aggregates.values())
    assert certified >= 10


def test_five_and_two_zeros_name_two_cells_in_the_observed_reading():
    """The example of the docs: each sex has at most one occupied cell, masked to 0, and the 5 needs two."""
    labels = [(0, sex, mar) for sex in (1, 2) for mar in (1, 2, 3)]
    counts = [0, 2, 0, 0, 1, 0]
    frame = pl.DataFrame(labels, schema=["town", "sex", "mar"], orient="row").with_columns(
        N=pl.Series(counts), N_masked=pl.Series([0] * 6)
    )
    finest = ilba.FinestTable.from_counts(frame, ["town"], ["sex", "mar"], 5)
    names = ["town", "town.sex", "town.mar"]
    plain = ilba.audit(finest, "ilba", names, explanations=0)
    asked = ilba.audit(finest, "ilba", names, explanations=0, solver_seconds=20)
    assert (plain.cells_disclosed, asked.cells_disclosed) == (0, 2)
    assert plain.why == {NOT_ASKED: 2}
    assert plain.why_aggregates == {NOT_ASKED: 2}
    assert "2 cells because the solver was not asked" in plain.why_undecided
    assert "2 aggregates because" in plain.why_undecided
    assert plain.why_undecided in str(plain)
    assert plain.undecided.select("sex", "mar").rows() == [(1, 2), (2, 2)]
    assert asked.why == {}
    assert asked.undecided.is_empty()
    proven = asked.ranges.filter(pl.col("low") >= 1)
    assert proven.select("sex", "mar", "low", "high").rows() == [(1, 2, 1, 4), (2, 2, 1, 4)]


def test_two_towns_are_two_blocks_that_prove_no_more_than_both_together(monkeypatch):
    labels = [(town, sex, mar) for town in (0, 1) for sex in (1, 2) for mar in (1, 2, 3)]
    frame = pl.DataFrame(labels, schema=["town", "sex", "mar"], orient="row").with_columns(
        N=pl.Series([0, 2, 0, 0, 1, 0, 3, 2, 4, 2, 3, 4]), N_masked=pl.Series([0] * 6 + [5, 0, 5, 0, 5, 5])
    )
    finest = ilba.FinestTable.from_counts(frame, ["town"], ["sex", "mar"], 5)
    names = ["town", "town.sex", "town.mar", "all.mar"]
    whole = ilba.audit(finest, "ilba", names, explanations=0, solver_seconds=20)
    monkeypatch.setattr("ilba.attack.fewcells._FEW", 6)
    monkeypatch.setattr("ilba.attack.deciding.LOOKS", 0)
    monkeypatch.setattr("ilba.attack.deciding._MENDING", 0.0)
    parts = ilba.audit(finest, "ilba", names, explanations=0, solver_seconds=20)

    def proven(report):
        return set(report.ranges.filter(pl.col("low") >= 1, pl.col("high") < 5).select("town", "sex", "mar").rows())

    assert (whole.cells_small, whole.cells_undecided) == (8, 0)
    assert {(0, 1, 2), (0, 2, 2)} <= proven(parts) <= proven(whole)
    assert 0 < parts.cells_certified <= whole.cells_certified
    assert parts.aggregates <= whole.aggregates
    assert parts.cells_undecided == sum(parts.why.values())


def test_what_lies_outside_a_block_is_part_of_its_counts():
    """A total of 6 with 3 people outside: the block holds what iLBA would show as 6 together with them."""
    K, beside = 5, Outside(n_small=1, at_k=0, sum_small=3, sum_large=0)
    values = set()
    for count in range(11):
        rule = WholeRule(K, "grid", [10], [Aggregate([0], 8, beside)], None)
        rule.program.line([(1, rule.count[0])], count, count)
        if rule.program.most([], 5.0).said == "found":
            values.add(count)
    # By the rule itself: two small cells with sum 3 + x, or one small and a large one of x.
    expected = set()
    for count in range(11):
        for at_k in (0, 1) if 0 < count <= K else (0,):
            small = count <= K
            if small and count == K and not at_k:
                continue
            parts = (2, at_k, 3 + count) if small else (1, 0, 3)
            shown = int(masking.ilba(*(np.array([part]) for part in parts), K).sum_masked[0]) + (0 if small else count)
            if shown == 8:
                expected.add(count)
    assert values == expected
    assert values


def _parts(counts, masks, K, reading):
    """The small cells, those masked to K, and the sums of small and of large cells."""
    small = counts <= K
    counted = small if reading == "grid" else small & (counts > 0)
    return counted.sum(), (small & masks).sum(), counts[small].sum(), counts[~small].sum()


def _masks(counts, K):
    """All masks that SCA may draw for these counts."""
    each = [(False,) if count == 0 or count > K else (True,) if count == K else (False, True) for count in counts]
    return [np.array(masks, bool) for masks in itertools.product(*each)]


@pytest.mark.long
@pytest.mark.parametrize("reading", ["observed", "grid"])
def test_the_solver_allows_exactly_the_counts_for_which_ilba_releases_the_value(reading):
    rng = np.random.default_rng(7)
    seen = {True: 0, False: 0}
    for _ in range(120):
        K, n = int(rng.choice([3, 5])), int(rng.integers(1, 4))
        counts, outside = rng.integers(0, K + 3, n), rng.integers(0, K + 1, int(rng.integers(0, 3)))
        beside = Outside(*map(int, _parts(outside, _masks(outside, K)[-1], K, reading)))
        shown = set()
        for masks in _masks(counts, K):
            n_small, at_k, small, large = map(sum, zip(_parts(counts, masks, K, reading), beside, strict=True))
            masked = masking.ilba(*(np.array([part]) for part in (n_small, at_k, small)), K).sum_masked
            shown.add(int(masked[0] + large))
        near = [min(shown) + K, max(min(shown) - K, 0), 0, K]
        value = int(rng.choice([*shown, *near]))
        rule = WholeRule(K, reading, [K + 4] * n, [Aggregate(list(range(n)), value, beside)], None)
        for place, count in enumerate(counts.tolist()):
            rule.program.line([(1, rule.count[place])], count, count)
        said = rule.program.most([], 60.0).said
        assert said == ("found" if value in shown else "none"), (K, counts, beside, value, shown)
        seen[value in shown] += 1
    assert min(seen.values()) > 30
    # Every value, of counts that lie at K or beside the ends of a block.
    for counts in (np.array([3, 1]), np.array([3, 3]), np.array([2, 2, 3])):
        parts = [_parts(counts, masks, 3, reading)[:3] for masks in _masks(counts, 3)]
        shown = {int(masking.ilba(*(np.array([part]) for part in one), 3).sum_masked[0]) for one in parts}
        for value in range(13):
            rule = WholeRule(3, reading, [7] * len(counts), [Aggregate(list(range(len(counts))), value)], None)
            for place, count in enumerate(counts.tolist()):
                rule.program.line([(1, rule.count[place])], count, count)
            assert rule.program.most([], 60.0).said == ("found" if value in shown else "none"), (counts, value)


@pytest.mark.slow
def test_a_solver_without_time_says_so_of_every_open_count(people, secret, monkeypatch):
    finest = ilba.build(people.head(400), HKEY, ["sex", "age"], secret=secret, cells="grid")
    monkeypatch.setattr("ilba.attack.deciding.LOOKS", 0)  # nothing is mended
    monkeypatch.setattr("ilba.attack.deciding._MENDING", 0.0)
    report = ilba.audit(finest, "ilba", max_keys=1, explanations=0, solver_seconds=1e-9)
    assert 0 < report.cells_undecided == report.why[NO_TIME] == report.undecided.height
    assert 0 < report.aggregates_undecided == report.why_aggregates[NO_TIME] == report.undecided_aggregates.height
    asked = ilba.audit(finest, "ilba", max_keys=1, explanations=0, solver_seconds=4)
    assert asked.cells_undecided == sum(asked.why.values()) < report.cells_undecided
    assert asked.cells_disclosed >= report.cells_disclosed
    assert asked.cells_certified > 0
    monkeypatch.undo()
    mended = ilba.audit(finest, "ilba", max_keys=1, explanations=0)
    assert mended.cells_certified > asked.cells_certified
    assert mended.aggregates_certified > 0


def test_the_most_suspicious_undecided_counts_are_listed_and_all_are_counted(people, secret, monkeypatch):
    finest = ilba.build(people.head(400), HKEY, ["sex", "age"], secret=secret, cells="grid")
    monkeypatch.setattr("ilba.attack.deciding.LOOKS", 0)
    whole = ilba.audit(finest, "ilba", explanations=0)
    assert whole.undecided.height == whole.cells_undecided > 5
    assert whole.undecided_aggregates.height == whole.aggregates_undecided > 5
    labels = whole.undecided.columns
    ranges = whole.undecided.join(whole.ranges, on=labels, how="left", maintain_order="left")
    room = (ranges["high"] - ranges["low"]).to_list()
    assert room == sorted(room)
    assert room[0] < room[-1]
    coarser = whole.undecided_aggregates
    assert (coarser["low"] <= 4).all(), "each is truly in 1..4"
    assert (coarser["high"] >= 1).all()
    assert (coarser["high"] - coarser["low"]).is_sorted()
    monkeypatch.setattr("ilba.attack.audit.LISTED", 5)
    short = ilba.audit(finest, "ilba", explanations=0)
    assert short.undecided.equals(whole.undecided.head(5))
    assert short.undecided_aggregates.equals(whole.undecided_aggregates.head(5))
    assert (short.cells_undecided, short.why, short.why_aggregates) == (
        whole.cells_undecided,
        whole.why,
        whole.why_aggregates,
    )


def test_a_release_too_large_to_search_says_how_much_of_it_was_searched(people, secret, monkeypatch):
    finest = ilba.build(people.head(400), HKEY, ["sex", "age"], secret=secret, cells="grid")
    tables = len(ilba.PublishedTables.of(finest, "ilba").tables)
    monkeypatch.setattr("ilba.attack.deciding.MOST_OPEN", 20 * tables)
    monkeypatch.setattr("ilba.attack.deciding._PARTS", 2)
    report = ilba.audit(finest, "ilba", explanations=0)
    (reason,) = report.why
    assert re.search(r"only \d+ of its \d+ areas", reason)
    assert report.why[reason] == report.cells_undecided
    assert reason in report.why_undecided


def square(least, most):
    """Four cells masked to 0 in a square: the sums of its rows (numbers 0 and 1) and columns (2 and 3) are known."""
    zeros = np.zeros(4, np.int64)
    return Intervals(
        5, np.arange(4), zeros, zeros + 4, np.zeros(4, bool), [(0, 1), (1, 0)], np.array([0, 2, 4]),
        np.array([[0, 2], [0, 3], [1, 2], [1, 3]], np.int32), np.array(least), np.array(most), zeros, zeros,
    )  # fmt: skip


def asked_about(known, world, sums=False, seconds=60.0):
    everything = np.ones(4, bool)
    return Asked(known, np.array(world), everything, everything & sums, clock() + seconds)


def test_cells_that_cannot_leave_are_proven_and_those_that_can_are_safe():
    first_row = [np.array([0, 1])]
    tight = asked_about(square([7, 0, 0, 0], [8, 8, 8, 8]), [4, 4, 1, 1])
    tight.prove(first_row, tight.end)
    assert tight.proven.tolist() == [True, True, *[False] * 6]
    tight.certify(first_row, tight.end)
    assert not tight.safe.any()
    both = asked_about(square([7, 0, 0, 0], [8, 8, 8, 8]), [4, 4, 1, 1])
    both.prove([np.arange(4)], both.end)  # the second row leaves, and then the first is asked about alone
    assert both.proven.tolist() == tight.proven.tolist()
    assert not both.late.any()
    loose = asked_about(square([4, 0, 0, 0], [8, 8, 8, 8]), [2, 2, 1, 1], sums=True)
    loose.prove(first_row, loose.end)
    assert not loose.proven.any()
    loose.certify(first_row, clock() - 1)  # no time
    assert not loose.safe.any()
    loose.certify(loose.blocks(0), loose.end)
    assert loose.safe[:4].all()
    assert loose.safe[5]  # the second row can be empty
    assert loose.known.fits(loose.world)


def test_a_walk_from_the_last_world_certifies_as_well():
    known = square([4, 0, 0, 0], [8, 8, 8, 8])
    asked = asked_about(known, [2, 2, 1, 1])
    asked.walk_on(Conditions.of(known))
    assert asked.safe[:4].sum() >= 3
    assert known.fits(asked.world)
    assert not asked.safe[4:].any()  # sums were not asked about


def test_the_cells_around_a_sum_are_its_own_and_blocks_are_as_large_as_allowed():
    asked = asked_about(square([4, 0, 0, 0], [8, 1, 8, 8]), [2, 2, 1, 0], sums=True)
    asked.safe[:4] = True
    assert next(asked.around(2)).tolist() == [2, 3]  # the second row has least room
    assert asked._tables(2) == [1, 0]
    assert asked._tables(1) == []


@pytest.mark.long
def test_without_the_finest_table_parts_of_a_search_certify_nothing_that_is_provable(monkeypatch):
    certified = 0
    for seed in (6, 19, 27, 29, 30, 31, 95, 125):
        toy = Toy(seed, with_finest=False)
        worlds = toy.worlds()
        if worlds is None:
            continue
        tables = len(ilba.PublishedTables.of(toy.finest, "ilba", wanted_tables(toy.finest.design, toy.tables)).tables)
        monkeypatch.setattr("ilba.attack.deciding.MOST_OPEN", tables)  # one cell at a time
        report = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0)
        assert toy.wrong(report, worlds) == []
        certified += report.cells_certified or 0
    assert certified
