"""Counterexamples: other truths that would have led to the same release, in which a small cell is not small.

Where the truth is known, worlds near it are looked at. In each of them the simplest changes are tried for each cell:
set it to 0 (one masked to K: to K), and either leave it at that, or let one other cell that differs in a single
variable make up for it, so that every table without this variable stays as it is. Each world is reached from the one
before by changes of the same kind that leave every released number as it is. A counterexample shows that nobody can
prove the cell small; that none was found shows nothing.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.lattice import table_of
from ilba.attack.published import PublishedRows, PublishedTables, Truth
from ilba.methods import masking

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_LOOKS = 40_000_000
"""how many released numbers are looked at while walking from world to world: a few seconds"""


class SumLimits(NamedTuple):
    """Between which sums of small cells the released value of each aggregate stays the same."""

    low: IntArray
    high: IntArray
    low_fewer: IntArray
    """the same when one occupied cell becomes empty, which matters in the observed reading"""
    high_fewer: IntArray


def limits(published: PublishedTables, rows: PublishedRows, truth: Truth) -> SumLimits:
    """The limits of each row of a table."""
    K, policy = published.K, published.policy
    n, at_k, f, large = (part.astype(np.int64) for part in truth)
    released = rows.value - large
    if policy.scheme == "sca":
        low = np.where(released == 0, 0, np.where(released == K, 1, released))
        high = np.where(released == 0, K - 1, released)
        return SumLimits(low, high, low, high)
    low, high = masking.preimage(released, n, at_k, K)
    if rows.type1 is not None and rows.type2 is not None:
        block, _ = masking.candidates(f, K)
        several = (n >= 2) & (released > 0)
        low = np.where(several, np.maximum(low, block), low)
        high = np.where(several, np.minimum(high, block + K - 1), high)
    if published.cells == "grid" or policy.listed:
        return SumLimits(low, high, low, high)
    return SumLimits(low, high, *masking.preimage(released, n - 1, at_k, K))


class _World:
    """A truth that fits everything released: the counts of the occupied small cells, and the sums of all aggregates."""

    def __init__(self, published: PublishedTables, packed: IntArray, count: IntArray, at_k: BoolArray) -> None:
        lattice, codes = published.lattice, published.codes
        cell_index = codes.cell_index(table_of(codes.design, lattice.base))
        self.K, self.count, self.at_k = published.K, count.copy(), at_k
        self.may_vanish = not published.policy.listed  # an empty cell would not be listed
        # Whether a cell is occupied is free only where nobody counts occupied cells.
        may_empty = published.cells == "grid" or published.policy.scheme != "ilba"
        self.least = np.where(at_k, 1, 0 if may_empty else 1)
        self.most = np.where(at_k, self.K, self.K - 1)
        nodes = [node for node in published.tables if node != lattice.base]
        member, parts, sums, offset = [], [], [], 0
        for node in nodes:
            table = published.tables[node]
            assert table.truth is not None  # noqa: S101 - counterexamples are only looked for where the truth is known
            target = codes.cell_index(table_of(codes.design, node))
            place = np.searchsorted(table.packed, cell_index.project([packed], target, codes.lists)[0])
            member.append((place + offset).astype(np.int32))
            parts.append(limits(published, table, table.truth))
            sums.append(table.truth.sum_small.astype(np.int64))
            offset += len(table.packed)
        self.member = np.array(member, dtype=np.int32).reshape(len(nodes), len(packed))
        empty = np.zeros(0, np.int64)
        self.limits = (
            SumLimits(*(np.concatenate(part) for part in zip(*parts, strict=True)))
            if parts
            else SumLimits(*[empty] * 4)
        )
        self.sums = np.concatenate(sums) if sums else empty
        self.axes = range(len(codes.lists))
        self.shows = [np.array([node[d] == lattice.base[d] for node in nodes], dtype=bool) for d in self.axes]
        digits = cell_index.digits([packed])
        self.fibre = [_fibres(published, digits, d) for d in self.axes]

    def counterexamples(self) -> BoolArray:
        """For which cells this world, or one simple change of it, shows that they need not be small."""
        K, count, at_k, size = self.K, self.count, self.at_k, len(self.count)
        far = np.int64(2**40)
        fresh = (np.full(size, sign * far) for _ in (-1, *self.axes) for sign in (-1, 1, -1, 1))
        room = {d: [next(fresh) for _ in range(4)] for d in (-1, *self.axes)}
        still = {d: np.ones(size, dtype=bool) for d in self.axes}
        for table, place in enumerate(self.member):
            here = [end[place] - self.sums[place] for end in self.limits]
            fits = (here[2] <= 0) & (here[3] >= 0)
            for d in (-1, *self.axes):
                if d == -1 or self.shows[d][table]:
                    for end, (mine, other) in enumerate(zip(room[d], here, strict=True)):
                        (np.minimum if end % 2 else np.maximum)(mine, other, out=mine)
                else:
                    still[d] &= fits

        def alone(d: int) -> BoolArray:
            """Whether the tables that have the variable d allow the cell to move to 0, or to K."""
            down, up, down_fewer, up_fewer = room[d]
            to_zero = self.may_vanish & ~at_k & (down_fewer <= -count) & (-count <= up_fewer)
            either: BoolArray = to_zero | (at_k & (down <= K - count) & (K - count <= up))
            return either

        found: BoolArray = alone(-1) | (count == np.where(at_k, K, 0))
        for d in self.axes:
            down, up, _, _ = room[d]
            gain, lose = np.minimum(up, self.most - count), np.minimum(-down, count - self.least)
            lend = np.where(
                at_k, _best_other(self.fibre[d], lose) >= K - count, _best_other(self.fibre[d], gain) >= count
            )
            found |= alone(d) & lend & (at_k | still[d])
        return found

    def walk(self, rng: np.random.Generator) -> None:
        """To a neighbouring world: pairs of cells give and take, where every released number stays the same."""
        d = int(rng.integers(-1, len(self.axes)))
        size = len(self.count)
        if d == -1:
            first = rng.permutation(size)
            second = first
            shown = self.member
        else:
            order = np.lexsort((rng.random(size), self.fibre[d]))
            same = np.flatnonzero(self.fibre[d][order[:-1]] == self.fibre[d][order[1:]])
            first, second = order[same], order[same + 1]
            shown = self.member[self.shows[d]]
        # Half of the time to the end that would be a counterexample, else by one: small steps open the way.
        end = np.where(self.at_k[first], self.K, 0) - self.count[first]
        step = np.where(rng.random(len(first)) < 0.5, end, rng.choice([-1, 1], len(first)))
        pair = second is not first

        def allowed(which: IntArray) -> BoolArray:
            one, other, by = first[which], second[which], step[which]
            new = self.count[one] + by
            good: BoolArray = (by != 0) & (self.least[one] <= new) & (new <= self.most[one])
            if pair:
                left = self.count[other] - by
                good &= (self.least[other] <= left) & (left <= self.most[other])
            for cell, change in ((one, by), (other, -by)) if pair else ((one, by),):
                sums = self.sums[shown[:, cell]] + change
                good &= ((self.limits.low[shown[:, cell]] <= sums) & (sums <= self.limits.high[shown[:, cell]])).all(
                    axis=0
                )
            return good

        for number in np.flatnonzero(allowed(np.arange(len(first)))):
            if not allowed(np.array([number]))[0]:  # one before it took the room
                continue
            for cell, change in ((first[number], step[number]), (second[number], -step[number]))[: 1 + pair]:
                self.count[cell] += change
                self.sums[shown[:, cell]] += change


def with_counterexample(published: PublishedTables, proven: BoolArray | None = None, looks: int = _LOOKS) -> BoolArray:
    """For each row of the finest table whether a counterexample was found; only for rows with a true count in 1..K-1.

    `proven` are rows that are proven small, for which there is none.
    """
    rows = published.tables[published.lattice.base]
    assert rows.truth is not None  # noqa: S101 - counterexamples are only looked for where the truth is known
    found = np.zeros(len(rows.packed), dtype=bool)
    occupied = np.flatnonzero(rows.truth.sum_large == 0)  # cells of 1..K, which may take part in a change
    if not len(occupied):
        return found
    count = rows.truth.sum_small[occupied].astype(np.int64)
    world = _World(published, rows.packed[occupied], count, rows.value[occupied] == published.K)
    good = world.counterexamples()
    rng = np.random.default_rng(2010)  # any walk will do; the same on every run is best
    open_ = count < published.K
    if proven is not None:
        open_ &= ~proven[occupied]
    for step in range(min(300, looks // max(world.member.size, 1))):
        if not (open_ & ~good).any():
            break
        world.walk(rng)
        if step % 5 == 4:
            good |= world.counterexamples()
    found[occupied] = good & (count < published.K)
    return found


def _fibres(published: PublishedTables, digits: list[IntArray], axis: int) -> IntArray:
    """A number for the cells that differ in one variable only, inside the same next coarser released area."""
    lattice, lists = published.lattice, published.codes.lists
    coarser = [node[axis] for node in lattice.nodes if node[axis] < lattice.base[axis]]
    # The digits of the base, each with its dimension: a dimension that no table shows has none.
    shown = [d for d, level in enumerate(lattice.base) if level]
    fibre = np.zeros(len(digits[0]), dtype=np.int64)
    for d, digit in zip(shown, digits, strict=True):
        level = lattice.base[d]
        if d == axis:
            level = max(coarser, default=0)
            digit = lists[d].parents(lattice.base[d], level)[digit]
        fibre = fibre * lists[d].size(level) + digit
    return fibre


def _best_other(group: IntArray, value: IntArray) -> IntArray:
    """The largest value among the others of the same group."""
    order = np.lexsort((value, group))
    sorted_group, sorted_value = group[order], value[order]
    last = np.append(np.flatnonzero(np.diff(sorted_group)), len(group) - 1)
    first = np.append(0, last[:-1] + 1)
    second = np.where(last > first, sorted_value[np.maximum(last - 1, 0)], np.iinfo(np.int64).min)
    best = np.repeat(sorted_value[last], last - first + 1)
    best[last] = second
    out = np.empty_like(best)
    out[order] = best
    return out
