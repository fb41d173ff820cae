"""The exact solver against trying every truth: no wrong verdict, and nothing provable is missed."""

from __future__ import annotations

import builtins

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import MissingExtra
from ilba.attack.solver import Aggregate, BlockSums, Program, WholeRule, available, leaving
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


def test_a_sum_that_leaves_no_room_proves_its_cells():
    low, high, away = np.array([0, 0]), np.array([4, 4]), np.array([0, 0])
    both = BlockSums([np.array([0, 1])], np.array([6]), np.array([8]))
    assert leaving(low, high, both, np.array([0, 1]), away, 5.0).said == "none"
    loose = BlockSums([np.array([0, 1])], np.array([3]), np.array([8]))
    said, values = leaving(low, high, loose, np.array([0, 1]), away, 5.0)
    assert said == "found"
    assert 0 in values.tolist()
    assert values.sum() >= 3


def test_a_cell_masked_to_k_leaves_upwards():
    low, high, away = np.array([1, 1]), np.array([5, 5]), np.array([5, 5])
    said, values = leaving(
        low, high, BlockSums([np.array([0, 1])], np.array([2]), np.array([6])), np.array([0, 1]), away, 5.0
    )
    assert said == "found"
    assert sorted(values.tolist()) == [1, 5]
    tight = BlockSums([np.array([0, 1])], np.array([2]), np.array([5]))
    assert leaving(low, high, tight, np.array([0, 1]), away, 5.0).said == "none"


def test_without_the_solver_it_is_said_what_to_install(monkeypatch):
    real = builtins.__import__

    def no_scipy(name, *rest):
        if name.startswith("scipy"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", no_scipy)
    assert not available()
    with pytest.raises(MissingExtra, match="solver"):
        Program().most([], 1.0)


@pytest.mark.slow
@pytest.mark.parametrize("with_finest", [True, False], ids=["with the finest table", "without it"])
def test_an_audit_with_the_solver_calls_nothing_proven_or_safe_that_is_not(with_finest):
    more = 0
    for seed in range(100, 112) if with_finest else (6, 19, 27, 29, 30, 31, 95, 125):
        toy = Toy(seed, with_finest)
        worlds = toy.worlds()
        if worlds is None:
            continue
        n = len(toy.x)
        truth = toy.provable(worlds)
        plain = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0)
        asked = ilba.audit(toy.finest, "ilba", toy.tables, explanations=0, solver_seconds=30)
        if not asked.certificate and asked.published.lattice.base == tuple(c.depth for c in toy.finest.codes.lists):
            assert plain.cells_disclosed <= asked.cells_disclosed <= truth[:n].sum()
            assert asked.cells_certified <= (~truth[:n] & (toy.x > 0) & (toy.x < toy.K)).sum()
            assert asked.tables["disclosed"].sum() <= truth.sum() + (0 if with_finest else truth[:n].sum())
            more += asked.cells_disclosed - plain.cells_disclosed
            if with_finest:
                assert asked.cells_undecided <= plain.cells_undecided
            else:  # so few cells are one block, and nothing is missed
                assert asked.cells_disclosed == truth[:n].sum()
    assert more >= (0 if with_finest else 4)


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
    proven = asked.ranges.filter(pl.col("low") >= 1)
    assert proven.select("sex", "mar", "low", "high").rows() == [(1, 2, 1, 4), (2, 2, 1, 4)]
