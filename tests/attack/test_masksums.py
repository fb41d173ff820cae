"""Sums of masks without the finest table: what propagation proves, held against every mask and count that fits."""

from __future__ import annotations

import itertools
import random

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import PublishedTables, methods
from ilba.attack.attackers import Known, Register, exact_rows
from ilba.attack.bounds import Attack
from ilba.attack.field import MethodTables
from ilba.attack.intervals import Brought
from ilba.attack.lattice import table_of
from ilba.attack.masksums import behind_sums, masks_of
from ilba.design.tables import selections, wanted_tables
from support.stores import toy

SHAPES = [(1, 2, 2, 2), (2, 2, 2), (2, 2, 1, 2), (1, 2, 3), (3, 2), (2, 3)]


def _masks(count, K, move):
    """The masks that a count may have."""
    if not count:
        return {0}
    own = set(range(K, K + move + 1)) if count < K else set(range(max(K, count - move), count + move + 1))
    return own | {0} if count <= max(K - 1, move) else own


class Hidden:
    """A random design of at most eight finest cells, some of its coarser tables, and a table that a register has."""

    def __init__(self, seed, move=0):
        rng = random.Random(seed)
        self.K, self.move = rng.choice([3, 3, 5]), move
        shape = rng.choice(SHAPES)
        self.names = ["town", "x", "y", "z"][: len(shape)]
        self.cells = list(itertools.product(*[range(size) for size in shape]))
        K = self.K
        self.x = np.array([rng.choice([0, 1, 1, 2, K - 1, K, K + 1, K + 2]) for _ in self.cells])
        self.t = np.array([rng.choice(sorted(_masks(x, K, move))) for x in self.x.tolist()])
        cells = pl.DataFrame(self.cells, schema=self.names, orient="row")
        many = cells.with_columns(N=pl.lit(K), N_masked=pl.lit(K))
        codes = ilba.FinestTable.from_counts(many, ["town"], self.names[1:], K, cells="grid").codes
        coarser = [one.name for one in selections(codes.design) if one.name != ".".join(self.names)]
        tables = rng.sample(coarser, rng.randint(2, len(coarser)))
        self.owner = {name: self._groups(name) for name in coarser}
        self.sums = [(group, int(self.t[group].sum())) for name in tables for group in self.owner[name]]
        frames = {name: self._frame(cells, name, N_masked=self.t) for name in tables}
        self.published = PublishedTables.from_frames(codes, frames, "controlled", move)
        self.is_told_apart = self.published.lattice.base == self.published.finest
        self.register = rng.choice(coarser)
        self.exact = Register({self.register: self._frame(cells, self.register, N=self.x)})

    def _columns(self, table):
        return [name for name in self.names if name in table.split(".")]

    def _groups(self, table):
        places = [self.names.index(name) for name in self._columns(table)]
        found = {}
        for number, cell in enumerate(self.cells):
            found.setdefault(tuple(cell[place] for place in places), []).append(number)
        return list(found.values())

    def _frame(self, cells, table, **values):
        ((name, counts),) = values.items()
        frame, columns = cells.with_columns(pl.Series(name, counts)), self._columns(table)
        return frame.group_by(columns).agg(pl.col(name).sum()) if columns else frame.select(pl.col(name).sum())

    def worlds(self):
        """All masks that lead to the published tables."""
        of = [[place for place, (group, _) in enumerate(self.sums) if i in group] for i in range(len(self.cells))]
        left, found, own = [total for _, total in self.sums], [], []

        def add(i):
            if i == len(self.cells):
                found.append(tuple(own))
                return
            most = min((left[place] for place in of[i]), default=0)
            for mask in [0, *range(self.K, most + 1)]:
                for place in of[i]:
                    left[place] -= mask
                if all(left[place] == 0 or self.sums[place][0][-1] > i for place in of[i]):
                    own.append(mask)
                    add(i + 1)
                    own.pop()
                for place in of[i]:
                    left[place] += mask

        add(0)
        return np.array(found)

    def behind(self, masks):
        """The smallest and the largest count behind each mask."""
        counts = {mask: [] for mask in np.unique(masks).tolist()}
        for count in range(int(masks.max()) + self.move + 1 + self.K):
            for mask in _masks(count, self.K, self.move) & counts.keys():
                counts[mask].append(count)
        return tuple(np.vectorize({m: end(of) for m, of in counts.items()}.get)(masks) for end in (min, max))

    def with_register(self, worlds):
        """The same counts if the sums of the register hold, too, over all masks that fit them."""
        low, high = self.behind(worlds)
        fits = np.ones(len(worlds), bool)
        least, most = low.copy(), high.copy()
        for group in self.owner[self.register]:
            total = self.x[group].sum()
            lows, highs = low[:, group].sum(1), high[:, group].sum(1)
            fits &= (lows <= total) & (total <= highs)
            least[:, group] = np.maximum(low[:, group], total - highs[:, None] + high[:, group])
            most[:, group] = np.minimum(high[:, group], total - lows[:, None] + low[:, group])
        return least[fits].min(0), most[fits].max(0)

    def proven(self, brought=None):
        """Low and high of every cell by the attack."""
        known = Known.of(self.published, brought)
        low, high = np.zeros((2, len(self.cells)), np.int64)
        low[known.packed], high[known.packed] = known.low, known.high
        return low, high


def _tried(seeds, move=0):
    for seed in seeds:
        hidden = Hidden(seed, move)
        if hidden.is_told_apart:
            yield hidden, hidden.worlds()


@pytest.mark.long
@pytest.mark.parametrize(("move", "share"), [(0, 0.95), (1, 0.95)])
def test_a_neighbour_without_the_finest_table_proves_nearly_what_trying_every_mask_proves(move, share):
    found = provable = 0
    for hidden, worlds in _tried(range(160), move):
        least, most = (end(side, axis=0) for end, side in zip((np.min, np.max), hidden.behind(worlds), strict=True))
        low, high = hidden.proven()
        assert (low <= least).all(), hidden.sums
        assert (most <= high).all(), hidden.sums
        small = (hidden.x > 0) & (hidden.x < hidden.K)
        found += int((high[small] < hidden.K).sum())
        provable += int((most[small] < hidden.K).sum())
    assert found >= share * provable > 50


@pytest.mark.long
@pytest.mark.parametrize(("move", "share"), [(0, 0.9), (1, 0.9)])
def test_a_register_without_the_finest_table_proves_nearly_what_trying_every_mask_and_count_proves(move, share):
    found = provable = 0
    for hidden, worlds in _tried(range(160), move):
        least, most = hidden.with_register(worlds)
        low, high = hidden.proven(Brought(exact_rows(hidden.published, hidden.exact)))
        assert (low <= least).all(), (hidden.sums, hidden.register)
        assert (most <= high).all(), (hidden.sums, hidden.register)
        found += int(((low > 0) & (high < hidden.K)).sum())
        provable += int(((least > 0) & (most < hidden.K)).sum())
    assert found >= share * provable > 20


def test_nobody_without_further_knowledge_proves_a_small_count_from_sums_of_masks():
    for hidden, _ in _tried(range(40)):
        attack = Attack(hidden.published).run()
        for part in attack.parts():
            assert not any(len(part.proven(node, hidden.K).packed) for node in part.own)


def test_rows_of_areas_prove_what_arrays_prove_of_sums_of_masks():
    for hidden, _ in _tried(range(30)):
        arrays, rows = Attack(hidden.published).run(), Attack(hidden.published.masks, budget=1).run()
        for node in hidden.published.lattice.nodes:
            ends = hidden.published.masks._attack.cells(node, *arrays.rows[node[0]])
            for one, other in zip(ends, rows.cells(node, *rows.rows[node[0]]), strict=True):
                assert one.tolist() == other.tolist()


@pytest.mark.parametrize("move", [0, 1, 3])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_sum_of_masks_and_a_sum_of_counts_bound_each_other(n, move):
    K, top = 3, 8
    pairs = [(x, t) for x in range(top) for t in _masks(x, K, move)]
    seen = np.array([np.sum(cells, axis=0) for cells in itertools.product(pairs, repeat=n)])
    counts, masks = seen.T
    for sides, others, rule in ((masks, counts, behind_sums), (counts, masks, masks_of)):
        for low, high in itertools.product(np.unique(sides[sides < top - K]).tolist(), repeat=2):
            fits = others[(low <= sides) & (sides <= high)]
            if low > high or not len(fits):
                continue
            least, most = (int(end[0]) for end in rule(*(np.array([one]) for one in (low, high, n)), K, move))
            assert least <= fits.min()
            assert fits.max() <= most
            if not move:
                assert (least, most) == (fits.min(), fits.max()), (rule.__name__, low, high)


def test_a_published_0_shows_a_neighbour_that_all_cells_below_it_are_small():
    finest = toy([1, 0, 2, 6], [0, 0, 0, 6], 5, "observed", areas=2)
    report = ilba.risk(finest, ["neighbour"], ["town", "all.x"], method="sca-sums")
    assert report.row("neighbour")["proven"] == 2
    assert report.notes == ["neighbour: At least this is proven: the finest table is not among these tables."]


def _of(masked, K=5):
    """The published areas of four towns with these masks, without the finest table."""
    cells = pl.DataFrame({"area": ["a", "a", "b", "b"], "town": ["1", "2", "3", "4"], "N": K, "N_masked": K})
    finest = ilba.FinestTable.from_counts(cells, ["area", "town"], [], K, cells="grid")
    sums = cells.with_columns(N_masked=pl.Series(masked)).group_by("area", maintain_order=True)
    return PublishedTables.from_frames(finest.codes, {"area": sums.agg(pl.col("N_masked").sum())}, "controlled")


def test_a_published_sum_that_no_masks_have_is_a_contradiction():
    for alone in (1, 4):
        with pytest.raises(ilba.InputError, match="cannot have released"):
            Attack(_of([alone, 0, 5, 5])).run()
    Attack(_of([0, 0, 5, 5])).run()


def test_the_counts_of_some_areas_are_those_of_all_areas():
    masks = _of([0, 5, 7, 9]).masks
    node = masks.lattice.base
    whole, part = masks.counts(node, 0, 2), masks.counts(node, 1, 2)
    assert [side[..., 1:].tolist() for side in whole] == [side.tolist() for side in part]
    assert whole[0].tolist() != part[0].tolist()


class Rounded:
    """A random design of at most six finest cells, and coarser tables of it by small count rounding."""

    def __init__(self, seed):
        rng = random.Random(seed)
        base, shape = rng.choice([3, 3, 4, 5]), rng.choice([(2, 2), (3, 2), (2, 3), (1, 2, 2), (1, 2, 3)])
        names = ["town", "x", "y"][: len(shape)]
        self.base = base
        self.cells = list(itertools.product(*[range(size) for size in shape]))
        self.x = np.array([rng.choice([0, 1, 1, 2, base - 1, base, base + 1]) for _ in self.cells])
        counts = pl.DataFrame(self.cells, schema=names, orient="row").with_columns(N=pl.Series(self.x))
        self.finest = ilba.FinestTable.from_counts(counts, ["town"], names[1:], base, cells="grid")
        coarser = [one for one in selections(self.finest.design) if one.name != ".".join(names)]
        wanted = rng.sample(coarser, rng.randint(2, len(coarser)))
        self.published = MethodTables.made_by(methods.SmallCountRounding(base), self.finest, wanted, seed)
        self.sums = []
        for node, rows in self.published.tables.items():
            chosen = table_of(self.finest.design, node)
            places = [names.index(name) for name in chosen.columns]
            index = self.finest.codes.cell_index(chosen)
            value = dict(zip(rows.packed.tolist(), rows.value.tolist(), strict=True))
            cells = [np.array([cell[place] for cell in self.cells]) for place in places]
            digits = [cells[chosen.columns.index(self.finest.codes.lists[d].columns[-1])] for d, _, _ in index.places]
            packed = index.pack(digits, len(self.cells))[0] if digits else np.zeros(len(self.cells), np.int64)
            self.sums += [(packed == one, value.get(one, 0)) for one in np.unique(packed).tolist()]

    def ends(self):
        """The smallest and the largest count of each cell, over all numbers of the cells that give the tables."""
        found, own = [], []

        def add(i, left):
            if i == len(self.cells):
                found.append(tuple(own))
                return
            for number in range(min(left[s] for s, (inside, _) in enumerate(self.sums) if inside[i]) + 1):
                rest = [total - number * int(inside[i]) for total, (inside, _) in zip(left, self.sums, strict=True)]
                if any(total and not inside[i + 1 :].any() for total, (inside, _) in zip(rest, self.sums, strict=True)):
                    continue
                own.append(number)
                add(i + 1, rest)
                own.pop()

        add(0, [total for _, total in self.sums])
        numbers = np.array(found)
        low = np.where(numbers == self.base, 1, numbers)
        high = np.where(numbers == 0, self.base - 1, numbers)
        return low.min(0), high.max(0)


@pytest.mark.long
def test_a_neighbour_proves_of_small_count_rounding_nearly_what_trying_every_number_of_the_cells_proves():
    found = provable = 0
    for seed in range(200):
        one = Rounded(seed)
        if one.published.lattice.base in one.published.tables or one.published.lattice.base != one.published.finest:
            continue
        (least, most), known = one.ends(), Known.of(one.published)
        low, high = np.zeros((2, len(one.cells)), np.int64)
        low[known.packed], high[known.packed] = known.low, known.high
        assert (low <= least).all(), (seed, one.sums)
        assert (most <= high).all(), (seed, one.sums)
        assert (low <= one.x).all(), seed
        assert (one.x <= high).all(), seed
        small = (one.x > 0) & (one.x < one.base)
        found += int((high[small] < one.base).sum())
        provable += int((most[small] < one.base).sum())
    assert found >= 0.95 * provable > 50, (found, provable)


def test_a_published_0_of_small_count_rounding_shows_a_neighbour_that_all_cells_below_it_are_small():
    cells = {"town": [*"aabb"], "x": [0, 1] * 2, "N": [1, 1, 9, 8]}
    finest = ilba.FinestTable.from_counts(pl.DataFrame(cells), ["town"], ["x"], 5, cells="grid")
    wanted = wanted_tables(finest.design, ["town", "all.x"])
    tables = MethodTables.made_by(methods.SmallCountRounding(5), finest, wanted)
    report = ilba.risk(tables, ["neighbour"])
    assert tables.tables[1, 0].value.tolist() == [0, 17]
    assert report.row("neighbour")["proven"] == 2


@pytest.mark.parametrize("n", [1, 2, 3])
def test_what_a_range_of_rounded_sums_stands_for_is_what_trying_every_cell_finds(n):
    base, top = 3, 8
    pairs = [(x, r) for x in range(top) for r in ({0, base, x} if 0 < x < base else {x})]
    counts, sums = np.array([np.sum(cells, axis=0) for cells in itertools.product(pairs, repeat=n)]).T
    for low, high in itertools.combinations_with_replacement(range(top - base), 2):
        fits = counts[(low <= sums) & (sums <= high)]
        least, most = methods.SmallCountRounding(base).behind(*(np.array([one]) for one in (low, high, n)))
        assert least[0] <= fits.min()
        assert fits.max() <= most[0]
