"""The joint audit on toys: every truth is tried, and nothing is called proven or certified that is not."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilba.attack.refinement import Joined, Words
from ilba.attack.together import _audit
from ilba.design.design import MASKED, Design
from ilba.design.population import Population
from ilba.methods import masking

FINE = {"town.x": [[0], [1], [2], [3]], "town": [[0, 1], [2, 3]], "all.x": [[0, 2], [1, 3]], "all": [[0, 1, 2, 3]]}
"""tables over two towns with two values of x, and which of the four cells each of their cells holds"""
MARGINS = ["town", "all.x", "all"]
COARSE = {"town": [[0, 1], [2, 3]], "all": [[0, 1, 2, 3]]}
"""the same people without x: masked by themselves"""


def masked(counts, at, K):
    """The masked counts of cells, where `at` says which small ones become K; and which worlds allow that."""
    small = counts <= K
    allowed = (small | ~at).all(1) & ((counts > 0) | ~at).all(1) & ((counts != K) | at).all(1)
    return np.where(small, K * at, counts), allowed


def shown(counts, at, cells, method, K, reading):
    """What a release shows for one cell of a table that consists of these own finest cells."""
    part, mask = counts[:, cells], at[cells]
    small = part <= K
    if method == "sca-sums":
        return np.where(small, K * mask, part).sum(1)
    counted = small & (part > 0) if reading == "observed" else small
    sums = np.where(small, part, 0).sum(1)
    alone = masking.ilba(counted.sum(1), (small & mask).sum(1), sums, K).sum_masked
    return alone + np.where(small, 0, part).sum(1)


class Toy:
    """One release of four people's cells, by its method, K, reading and tables."""

    def __init__(self, rng, method, K, reading, tables, coarse=False):
        self.method, self.K, self.reading = method, K, reading
        self.design = Design.of(["town"], [] if coarse else ["x"], K, reading)
        everything = COARSE if coarse else FINE
        self.coarse = coarse
        self.tables = {name: everything[name] for name in tables}
        self.rng = rng

    def own(self, worlds):
        return np.stack([worlds[:, :2].sum(1), worlds[:, 2:].sum(1)], axis=1) if self.coarse else worlds

    def groups(self, cells):
        """The own finest cells of a cell."""
        return sorted({cell // 2 for cell in cells}) if self.coarse else cells

    def publish(self, truth, again=None):
        """The release of a truth, with masks of its own or `again` with those of another one."""
        own = self.own(truth[None, :])
        at = (own[0] <= self.K) & (self.rng.random(own.shape[1]) * self.K < own[0]) if again is None else again.at
        self.at = at
        self.values = {name: self.table(own, at, groups)[0] for name, groups in self.tables.items()}
        frames = {}
        for name, values in self.values.items():
            labels = {"town": ["a", "b"], "all.x": [0, 1], "all": [None], "town.x": ["a", "a", "b", "b"]}[name]
            frame = {} if name == "all" else {"x" if name == "all.x" else "town": labels}
            if name == "town.x":
                frame["x"] = [0, 1, 0, 1]
            frames[name] = pl.DataFrame({**frame, MASKED: values})
        lists = [pl.DataFrame({"town": ["a", "b"]})] + ([] if self.coarse else [pl.DataFrame({"x": ["0", "1"]})])
        return Joined(f"{self.method}{self.K}", self.design, tuple(lists), Population(), self.method, frames)

    def table(self, own, at, groups):
        return np.stack(
            [shown(own, at, self.groups(cells), self.method, self.K, self.reading) for cells in groups], axis=1
        )

    def fits(self, worlds):
        """The truths that can have led to this release."""
        own = self.own(worlds)
        fitting = np.zeros(len(worlds), dtype=bool)
        for bits in itertools.product((False, True), repeat=own.shape[1]):
            at = np.array(bits)
            _, good = masked(own, at, self.K)
            for name, groups in self.tables.items():
                good = good & (self.table(own, at, groups) == self.values[name]).all(1)
            fitting |= good
        return fitting


def tried(toys, truth, K):
    """The least and the largest count of each cell over all truths that fit every release."""
    worlds = np.array(list(itertools.product(range(K + 3), repeat=4)))
    fitting = np.logical_and.reduce([toy.fits(worlds) for toy in toys])
    assert fitting[(worlds == truth).all(1)].all()
    found = worlds[fitting]
    return found.min(0), found.max(0), found


PAIRS = {
    "two masks": lambda rng: [
        Toy(rng, "sca-sums", 3, "observed", FINE),
        Toy(rng, "sca-sums", 3, "observed", ["town.x"]),
    ],
    "ilba beside sums": lambda rng: [Toy(rng, "ilba", 3, "grid", FINE), Toy(rng, "sca-sums", 3, "observed", FINE)],
    "ilba, observed, beside sums": lambda rng: [
        Toy(rng, "ilba", 3, "observed", FINE),
        Toy(rng, "sca-sums", 3, "observed", FINE),
    ],
    "two readings": lambda rng: [Toy(rng, "ilba", 3, "observed", FINE), Toy(rng, "ilba", 3, "grid", FINE)],
    "K 3 and 5": lambda rng: [Toy(rng, "sca-sums", 3, "observed", FINE), Toy(rng, "sca-sums", 5, "observed", FINE)],
    "ilba with K 3 and 5": lambda rng: [Toy(rng, "ilba", 3, "grid", FINE), Toy(rng, "ilba", 5, "observed", FINE)],
    "with and without x": lambda rng: [
        Toy(rng, "sca-sums", 3, "observed", FINE),
        Toy(rng, "sca-sums", 3, "observed", COARSE, coarse=True),
    ],
    "ilba without x": lambda rng: [
        Toy(rng, "sca-sums", 3, "observed", FINE),
        Toy(rng, "ilba", 3, "observed", COARSE, coarse=True),
    ],
    "without the finest table": lambda rng: [
        Toy(rng, "ilba", 3, "observed", ["town", "all.x"]),
        Toy(rng, "sca-sums", 3, "observed", ["town.x"]),
    ],
    "no finest table at all": lambda rng: [
        Toy(rng, "ilba", 3, "grid", ["town", "all.x"]),
        Toy(rng, "sca-sums", 3, "observed", ["town", "all.x"]),
    ],
    "two masks without the finest table": lambda rng: [Toy(rng, "sca-sums", 3, "observed", MARGINS) for _ in range(2)],
    "K 3 and 5 without the finest table": lambda rng: [Toy(rng, "sca-sums", K, "observed", MARGINS) for K in (3, 5)],
}
NOT_COMPLETE = {pair for pair in PAIRS if pair.endswith("without the finest table")} | {"no finest table at all"}
"""there the present audit of one release misses much too"""


def checked(pair, rounds):
    """Compare joint audits of a pair with all truths; how many cells are provable, and how many of them are missed."""
    rng = np.random.default_rng(len(pair))
    provable = missed = 0
    for _ in range(rounds):
        toys = PAIRS[pair](rng)
        K = max(toy.K for toy in toys)
        truth = rng.poisson(K / 2.5, 4).clip(0, K + 2)
        report = _audit([toy.publish(truth) for toy in toys], [], Words({}, {}), 0, None)
        low, high, worlds = tried(toys, truth, K)
        ours = report.ranges.sort("town", "x")
        assert (ours["low"].to_numpy() <= low).all()
        assert (high <= ours["high"].to_numpy()).all()
        proven = (ours["low"].to_numpy() >= 1) & (ours["high"].to_numpy() < K)
        always = (low >= 1) & (high < K)
        assert not (proven & ~always).any()
        assert report.cells_disclosed == proven.sum()
        assert report.cells_exact == (proven & (ours["low"].to_numpy() == ours["high"].to_numpy())).sum()
        provable, missed = provable + int(always.sum()), missed + int((always & ~proven).sum())
        if report.exhausted:
            assert (proven == always).all()
        if report.certificate:  # one world in which nothing is small
            assert ((worlds == 0) | (worlds >= K)).all(1).any()
    assert not missed or pair in NOT_COMPLETE
    assert missed <= 0.6 * provable or rounds < 12 or "ilba" in {toy.method for toy in toys}
    return provable


@pytest.mark.long
def test_on_a_few_toys_the_joint_audit_proves_only_what_holds_in_every_world():
    assert sum(checked(pair, 2) for pair in PAIRS) >= 20


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS)
def test_on_toys_the_joint_audit_proves_and_certifies_only_what_holds_in_every_world(pair):
    assert checked(pair, 12) > 0


TABLES = st.lists(st.sampled_from(list(FINE)), min_size=1, unique=True)


@given(
    seed=st.integers(0, 10**6),
    truth=st.lists(st.integers(0, 5), min_size=4, max_size=4).map(np.array),
    other=TABLES,
    more=st.lists(TABLES, min_size=1, max_size=2),
)
def test_releases_with_more_tables_of_the_same_masks_prove_only_what_holds_in_every_world(seed, truth, other, more):
    rng = np.random.default_rng(seed)
    first, *toys = (Toy(rng, "sca-sums", 3, "observed", names) for names in (["town.x"], other, *more))
    releases = [first.publish(truth), toys[0].publish(truth), *(toy.publish(truth, first) for toy in toys[1:])]
    ours = _audit(releases, [], Words({}, {}), 0, None).ranges.sort("town", "x")
    low, high, _ = tried([first, *toys], truth, 3)
    assert (ours["low"].to_numpy() <= low).all()
    assert (high <= ours["high"].to_numpy()).all()
