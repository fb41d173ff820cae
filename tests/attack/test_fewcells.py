"""Blocks of a few cells: what the solver says of a part is compared with what it says of the whole."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable
from ilba.attack.fewcells import FEW_SEEN, NO_TIME, TOO_LONG, Decided, _fixed


def test_each_open_count_is_listed_under_one_reason():
    cells, sums = (1, 1), (1, 0)
    decided = Decided({cells: np.arange(9), sums: np.arange(3)})
    decided.proven[cells] |= {0, 1}
    decided.safe[cells] |= {2}
    decided.tried[cells] |= {0, 2, 3}  # two of them were settled later
    decided.late[cells] |= {3, 4, 5}
    assert decided.why([cells]) == {FEW_SEEN: 1, TOO_LONG: 2, NO_TIME: 3}
    assert decided.why([sums]) == {NO_TIME: 3}
    assert decided.why([cells, sums]) == {FEW_SEEN: 1, TOO_LONG: 2, NO_TIME: 6}
    assert decided.open
    decided.safe[cells] |= set(range(9))
    decided.proven[sums] |= set(range(3))
    assert not decided.open
    assert decided.why([cells, sums]) == {}


@pytest.fixture
def audited(monkeypatch):
    """Audit with the solver alone, in blocks of at most so many cells."""
    monkeypatch.setattr("ilba.attack.deciding.LOOKS", 0)
    monkeypatch.setattr("ilba.attack.deciding._MENDING", 0.0)
    monkeypatch.setattr("ilba.attack.fewcells._PATIENCE", 60.0)

    def ask(finest, names, most):
        monkeypatch.setattr("ilba.attack.fewcells._FEW", most)
        monkeypatch.setattr("ilba.attack.fewcells._MORE", most)
        return ilba.audit(finest, "ilba", names, explanations=0, solver_seconds=600)

    return ask


def _store(seed, towns, keys, reading):
    """Random counts below 5 with K = 3, in some towns by some keys of two values each."""
    rng, names = np.random.default_rng(seed), ["x", "y", "z"][:keys]
    frame = pl.DataFrame(itertools.product(range(towns), *[range(2)] * keys), schema=["town", *names], orient="row")
    x = rng.choice([0, 0, 1, 1, 2, 3, 4], frame.height)
    t = np.where(x > 3, x, np.where((x > 0) & (rng.random(frame.height) < x / 3), 3, 0))
    return FinestTable.from_counts(
        frame.with_columns(N=pl.Series(x), N_masked=pl.Series(t)), ["town"], names, 3, cells=reading
    )


def _verdicts(report):
    """The finest cells that are proven, and those that are open."""
    labels = list(report.published.design.columns)
    proven = set(report.ranges.filter(pl.col("low") >= 1, pl.col("high") < 3).select(labels).rows())
    assert len(proven) == report.cells_disclosed
    left = set(report.undecided.select(labels).rows()) if report.undecided.height else set()
    assert len(left) == report.cells_undecided == sum(report.why.values())
    return proven, left


CUBE = ["town", "town.x", "town.y", "town.z", "town.x.y", "town.x.z", "town.y.z"]
TOWNS = ["town", "town.x", "town.y", "all.x.y"]


@pytest.mark.long
@pytest.mark.parametrize("reading", ["observed", "grid"])
@pytest.mark.parametrize(
    ("towns", "keys", "names", "seeds", "least"),
    [
        (1, 3, CUBE, (6, 14, 19, 21), {"observed": (6, 10), "grid": (8, 19)}),
        (3, 2, TOWNS, (1, 2, 3), {"observed": (6, 14), "grid": (4, 17)}),
    ],
    ids=["with the same value of a key", "of one town"],
)
def test_cells_by_themselves_say_nothing_that_all_cells_together_deny(
    audited, towns, keys, names, seeds, least, reading
):
    disclosed = certified = 0
    for seed in seeds:
        finest = _store(seed, towns, keys, reading)
        parts, whole = audited(finest, names, 4), audited(finest, names, 12)
        (proven, left), (provable, none) = _verdicts(parts), _verdicts(whole)
        assert not none
        assert proven <= provable
        assert provable - proven <= left  # so none of them is certified
        assert parts.aggregates <= whole.aggregates
        assert parts.aggregates_certified <= whole.aggregates_certified
        disclosed += parts.cells_disclosed + parts.aggregates
        certified += parts.cells_certified + parts.aggregates_certified
    assert disclosed >= least[reading][0]
    assert certified >= least[reading][1]


def test_a_block_shares_the_fewest_keys_that_leave_few_cells_and_several_tables():
    base, shape = (1, 1, 1, 1), (2, 3, 5)
    every = [(1, *levels) for levels in itertools.product((0, 1), repeat=3)]
    assert _fixed(base, shape, every, 30) == ()
    assert _fixed(base, shape, every, 29) == (0,)  # leaves 15; the other keys leave 10 and 6
    assert _fixed(base, shape, every, 14) == (1,)
    assert _fixed(base, shape, every, 9) == (2,)
    assert _fixed(base, shape, every, 5) == (0, 1)
    assert _fixed(base, shape, every, 2) == (1, 2)
    assert _fixed(base, shape, every, 1) is None  # one table alone has all keys
    # Of keys that leave few enough cells, those that most tables have.
    assert _fixed(base, shape, [(1, 0, 0, 1), (1, 1, 0, 1), (1, 1, 1, 0), (1, 0, 0, 0)], 15) == (0,)
    assert _fixed(base, shape, [(1, 0, 0, 1), (1, 1, 0, 1), (1, 0, 1, 1), (1, 1, 1, 0)], 15) == (2,)
    assert _fixed(base, shape, [(1, 1, 0, 0), (1, 0, 1, 0)], 15) is None
