"""The exact solver against trying every truth: no wrong verdict, and nothing provable is missed."""

from __future__ import annotations

import builtins

import numpy as np
import pytest

import ilba
from ilba import MissingExtra
from ilba.attack.solver import Aggregate, Program, Sums, WholeRule, available, leaving
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
    both = Sums([np.array([0, 1])], np.array([6]), np.array([8]))
    assert leaving(low, high, both, np.array([0, 1]), away, 5.0).said == "none"
    loose = Sums([np.array([0, 1])], np.array([3]), np.array([8]))
    said, values = leaving(low, high, loose, np.array([0, 1]), away, 5.0)
    assert said == "found"
    assert 0 in values.tolist()
    assert values.sum() >= 3


def test_a_cell_masked_to_k_leaves_upwards():
    low, high, away = np.array([1, 1]), np.array([5, 5]), np.array([5, 5])
    said, values = leaving(
        low, high, Sums([np.array([0, 1])], np.array([2]), np.array([6])), np.array([0, 1]), away, 5.0
    )
    assert said == "found"
    assert sorted(values.tolist()) == [1, 5]
    tight = Sums([np.array([0, 1])], np.array([2]), np.array([5]))
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
