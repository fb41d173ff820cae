"""The attack on toys: every truth is tried, and all ways to run the attack prove the same."""

from __future__ import annotations

import functools
import itertools
import re

import numpy as np
import pytest

import ilba
from ilba import PublishedTables
from ilba.attack.attackers import errors_within
from ilba.attack.bounds import Attack, _spread_out
from ilba.attack.closing import Said
from ilba.attack.field import MethodTables
from ilba.attack.intervals import AttackerView, Brought, ExactRows, Intervals, open_cells
from ilba.attack.kernels import CELL, HIGH, LEAST, LOW, MOST, add_part
from ilba.attack.lattice import Region, collapse, spread, table_of
from ilba.attack.unmasked import projected
from ilba.design.tables import wanted_tables
from ilba.methods import masking
from ilba.methods.lab import SmallCountRounding, method_of
from support.stores import toy as toy_of
from support.worlds import Toy

METHODS = ["ilba", "r-file", "r-rows", "sca-aggregates", "sca-sums"]


def _published(toy, method):
    return PublishedTables.of(toy.finest, method, wanted_tables(toy.finest.design, toy.tables))


def _cells(attack):
    """Low and high of every cell of every table."""
    found = {}
    for node in attack.lattice.nodes:
        if node[0] in attack.rows:
            found[node] = [side.tolist() for side in attack.cells(node, *attack.rows[node[0]])]
    return found


def _blocks(attack):
    """The same from arrays, and the cells that hold a large one."""
    found, large = {}, {}
    for block in attack.blocks():
        for node in block.own:
            first, last = block.rows[node[0]]
            for area in range(last - first):
                sides = (block.kinds[0].low[node], block.kinds[0].high[node])
                found[node, first + area] = [side.reshape(-1, last - first)[:, area].tolist() for side in sides]
            cell, area = np.divmod(block.large.get(node, np.zeros(0, int)), last - first)
            places = zip((area + first).tolist(), cell.tolist(), strict=True)
            large[node] = sorted([*large.get(node, []), *places])
    return found, large


def _proven(attack, K):
    """What is proven about each table."""
    found = {}
    for part in attack.parts():
        for node in part.own:
            packed, low, high, occupied = part.proven(node, K)
            width, (first, last) = attack.lattice.width(node), part.rows[node[0]]
            area, cell = np.divmod(np.arange((last - first) * width), width)
            everything = [side.tolist() for side in part.at(node, area, cell)]
            rows = sorted(zip(packed.tolist(), low.tolist(), high.tolist(), strict=True))
            found[node] = rows, occupied, everything
    return found


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_arrays_rows_of_areas_and_recorded_steps_prove_the_same(method):
    proven = 0
    for seed in range(8):
        toy, _ = _toy(seed, seed % 4 > 0)
        published = _published(toy, method)
        regions = [None, *(Region(1, area) for area in range(published.codes.lists[0].size(1)))]
        for region in regions if seed % 2 else regions[:1]:
            arrays = Attack(published, region).run()
            rows, recorded = Attack(published, region, budget=1).run(), Attack(published, region, record=True).run()
            assert rows.chunks
            assert not arrays.chunks
            assert _cells(arrays) == _cells(rows) == _cells(recorded)
            assert _blocks(arrays) == _blocks(rows) == _blocks(recorded)
            assert _proven(arrays, toy.K) == _proven(rows, toy.K) == _proven(recorded, toy.K)
            assert arrays.misfits == rows.misfits == recorded.misfits
            assert {node[0] for block in rows.blocks([1]) for node in block.own} <= {1}
            proven += sum(len(told[0]) for told in _proven(arrays, toy.K).values())
    assert proven or method == "sca-sums"


@pytest.mark.long
@pytest.mark.parametrize("reading", ["observed", "grid"])
def test_rows_of_areas_prove_what_arrays_prove_where_counts_do_not_fit_into_a_byte(reading):
    counts = [120, 0, 299, 40, 700, 0, 3, 250, 0, 10, 299, 5]
    masks = [0, 0, 300, 0, 700, 0, 0, 300, 0, 300, 0, 0]
    published = PublishedTables.of(toy_of(counts, masks, 300, reading, areas=3), "ilba")
    for region in (None, Region(1, 0), Region(1, 1), Region(1, 2)):
        arrays, rows = Attack(published, region).run(), Attack(published, region, budget=1).run()
        assert _cells(arrays) == _cells(rows)
        assert _proven(arrays, 300) == _proven(rows, 300)


def test_rows_of_areas_prove_what_arrays_prove_where_few_counts_do_not_fit_into_a_byte(monkeypatch):
    monkeypatch.setattr("ilba.attack.bounds._AREAS", 2)
    small, masks = np.zeros((2, 3, 70), int)
    small[1, 2] = small[2, 5] = 2
    small[2, 1] = masks[2, 1] = small[0, 3] = masks[0, 3] = 9
    masks[2, 6], small[2, 6] = 5, 3
    published = PublishedTables.of(toy_of(small.ravel(), masks.ravel(), 5, "grid", areas=3), "sca-sums")
    arrays, rows = Attack(published).run(), Attack(published, budget=1).run()
    assert rows.chunks
    assert max(arrays.cells((1, 0), 0, 3)[1].ravel()) > 255  # 70 cells of at most 4
    assert _cells(arrays) == _cells(rows)
    assert _proven(arrays, 5) == _proven(rows, 5)


@pytest.mark.parametrize("cores", [None, 1, 3])
def test_any_number_of_cores_proves_the_same(cores, monkeypatch):
    published = _published(_toy(1, True)[0], "ilba")
    expected = _cells(Attack(published, record=True).run())
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert _cells(Attack(published, budget=1).run()) == expected


@pytest.mark.parametrize("straight", [True, False])
def test_each_bound_of_an_area_is_added_to_the_cell_of_the_coarser_area_it_belongs_to(straight):
    rng, mark = np.random.default_rng(1), np.uint8(255)
    row = rng.integers(0, 4, 12).astype(np.uint8)
    listed = np.zeros((3, 8), np.int32)
    listed[:, CELL] = [1, 4, 10]
    for column in (LOW, HIGH, LEAST, MOST):
        listed[:, column] = rng.integers(1, 9, 3)
    row[listed[:, CELL]] = mark
    place = np.arange(12, dtype=np.int32) if straight else rng.integers(-1, 5, 12).astype(np.int32)
    sums = np.ones((4, 12), np.int64)
    add_part(row, listed, place, straight, sums, mark)
    expected = np.ones((4, 12), np.int64)
    for cell, to in enumerate(place.tolist()):
        own = [0, int(row[cell]), 0, int(row[cell] > 0)]  # an empty cell has at most one occupied cell
        for one in listed[listed[:, CELL] == cell]:
            own = [int(one[column]) for column in (LOW, HIGH, LEAST, MOST)]
        if to >= 0:
            expected[:, to] += own
    assert sums.tolist() == expected.tolist()


@pytest.mark.parametrize("counted", [True, False])
def test_bounds_of_some_cells_and_of_all_others_are_spread_over_the_areas(counted):
    area, cell = np.array([0, 2, 1]), np.array([1, 0, 3])
    some = np.array([[1, 2, 3], [6, 7, 8], [1, 1, 2], [2, 3, 4]])
    rules = tuple(np.array(part) for part in ([0, 1, 2], [0, 1, 2], [9, 5, 7], [4, 6, 5]))
    others = np.array([[0, 0, 0, 0], [10, 20, 30, 40], [0, 0, 0, 0], [1, 2, 3, 4]])
    told = Said(*some, rules) if counted else Said(*some[:2], None, None, None)
    otherwise = Said(*others, None) if counted else Said(*others[:2], None, None, None)
    found, areas, cells = _spread_out(told, otherwise, area, cell, 3)
    assert sorted(zip(areas, cells, strict=True)) == list(itertools.product(range(3), range(4)))
    own = {(1, 0): 0, (0, 2): 1, (3, 1): 2}
    for place, (where, which) in enumerate(zip(areas.tolist(), cells.tolist(), strict=True)):
        number = own.get((which, where))
        expected = others[:, which] if number is None else some[:, number]
        assert [side[place] for side in found[:4] if side is not None] == expected[: 4 if counted else 2].tolist()
    if counted:
        ruled = [(int(cells[place]), int(areas[place])) for place in found.rules[0]]
        assert found.rules[0].tolist() == sorted(found.rules[0])
        for number, (_, *limits) in enumerate(zip(*rules, strict=True)):
            place = ruled.index((cell[number], area[number]))
            assert [part[place] for part in found.rules[1:]] == limits
    else:
        assert found[2:] == (None, None, None)


@pytest.mark.parametrize("few", [0.0, 1.0], ids=["all children", "one by one"])
@pytest.mark.parametrize("method", ["ilba", "r-file"])
def test_each_recorded_step_tightens_a_bound_and_follows_from_earlier_steps(method, few, monkeypatch):
    monkeypatch.setattr("ilba.attack.bounds._FEW", few)
    steps = 0
    for seed in (*range(6), 31, 34):
        toy, _ = _toy(seed, seed % 4 > 0)
        block = Attack(_published(toy, method), record=True).run().whole
        now = [
            {side: {n: a.copy() for n, a in getattr(kind, side).items()} for side in ("low", "high")}
            for kind in block.start
        ]
        for _, events in itertools.groupby(block.events, key=lambda event: event.step):
            told = list(events)
            for event in told:
                if event.edge is not None:
                    assert _follows(block, now[event.kind], event)
            for event in told:
                flat = now[event.kind]["high" if event.is_high else "low"][event.node].reshape(-1)
                better = event.value < flat[event.place] if event.is_high else event.value > flat[event.place]
                assert better.all()
                flat[event.place] = event.value
                steps += len(event.place)
        assert [event.step for event in block.events] == sorted(event.step for event in block.events)
        for kind, bounds in zip(now, block.kinds, strict=True):
            for node in bounds.low:
                assert np.array_equal(kind["low"][node], bounds.low[node])
                assert np.array_equal(kind["high"][node], bounds.high[node])
    assert steps > 10


def _follows(block, known, event):
    """Whether a bound is what parents and children, as they were before, say along an edge."""
    (parent, child), steps = event.edge, block.steps(event.edge)
    sums = {side: collapse(known[side][child].astype(np.int64), steps, np.int64) for side in ("low", "high")}
    mine, other = ("high", "low") if event.is_high else ("low", "high")
    if event.node == parent:
        said = sums[mine]
    else:
        said = spread(known[mine][parent] - sums[other], steps) + known[other][child]
    return np.array_equal(said.reshape(-1)[event.place], event.value)


def test_a_table_that_becomes_known_exactly_moves_the_others_as_if_all_had_been_told():
    moved_at_all = 0
    for seed in range(8):
        toy, _ = _toy(seed, seed % 4 > 0)
        published = _published(toy, "ilba")
        node = published.lattice.nodes[-1]
        groups = toy.members(table_of(toy.finest.design, node))
        small = toy.t <= toy.K if published.split else np.ones(len(toy.t), bool)
        true = np.array([toy.x[group][small[group]].sum() for group in groups])
        found = []
        for record, start in ((True, {node}), (True, None), (False, {node}), (False, None)):
            attack = Attack(published, record=record).run()
            assert not attack.whole.close(toy.K, set())
            shape = attack.whole.kinds[0].low[node].shape
            exact = true.reshape(shape[-1], -1).T.reshape(shape)
            if attack.whole.narrow(node, exact, exact):
                moved_at_all += bool(attack.whole.close(toy.K, start))
            found.append(_cells(attack))
        assert found[0] == found[1] == found[2] == found[3]
    assert moved_at_all > 4


def _says(method, reading, K, x, t):
    """What a table says of a cell with these finest cells, in each world."""
    small = x <= K
    if method == "sca-sums":
        return [np.where(small, K * (t == K), x).sum(1)]
    counted = small & (x > 0) if reading == "observed" or method != "ilba" else small
    masked = masking.ilba(counted.sum(1), (small & (t == K)).sum(1), np.where(small, x, 0).sum(1), K)
    shown = [masked.sum_masked + np.where(small, 0, x).sum(1)]
    if method != "ilba":
        shown.append(x.sum(1) > 0)  # there is a row
    return [*shown, masked.type1, masked.type2] if method == "r-file" else shown


def _may_say(K, x, t, value):
    """Whether SCA, drawn anew for the small cells of an aggregate, may show this value."""
    small = x <= K
    total, value = np.where(small, x, 0).sum(1), value - np.where(small, 0, x).sum(1)
    if x.shape[1] == 1 or (small.sum(1) == 1).all():
        return value == (K * (t == K)).sum(1)
    return np.where(value == 0, total < K, np.where(value == K, (total > 0) & (total <= K), value == total))


def _fitting(toy, method, published, x, t, bound=None):
    """Which of these counts and masks lead to everything that is published, with sums of masks within the bound."""
    fits = np.ones(len(x), bool)
    for node, rows in published.tables.items():
        for number, group in enumerate(toy.members(table_of(toy.finest.design, node))):
            own, masks = x[:, group], t[:, group]
            if method == "sca-aggregates":
                (value,) = rows.value[rows.packed == number] if number in rows.packed else [0]
                fits &= _may_say(toy.K, own, masks, value)
                continue
            told = _says(method, toy.reading, toy.K, own, masks)
            true = _says(method, toy.reading, toy.K, toy.x[None, group], toy.t[None, group])
            fits &= np.logical_and.reduce([a == b for a, b in zip(told, true, strict=True)])
            if bound is not None and node != published.lattice.base:
                fits &= np.abs(true[0] - own.sum(1)) <= bound
    return fits


@functools.cache
def _toy(seed, with_finest):
    """A toy and its worlds; None where they are many."""
    toy = Toy(seed, with_finest)
    few = toy.K ** int((toy.t <= toy.K).sum()) <= 1000
    return toy, toy.every() if few else None


def _tried(method):
    """Toys with few worlds, and what is published of them by a method."""
    for seed in range(18):
        toy, every = _toy(seed, method != "ilba" or seed % 4 > 0)
        if every is not None:
            yield toy, *every, _published(toy, method)


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_what_the_attack_proves_holds_in_every_truth_that_fits(method):
    proven = provable = 0
    for toy, x, t, published in _tried(method):
        attack = Attack(published).run()
        fits = _fitting(toy, method, published, x, t)
        assert fits[(x == toy.x).all(1)].any()
        of_small = np.where(t <= toy.K, x, 0) if published.split else x
        for node in published.lattice.nodes:
            low, high = (side.T.reshape(-1) for side in attack.cells(node, *attack.rows[node[0]]))
            for number, group in enumerate(toy.members(table_of(toy.finest.design, node))):
                values = of_small[fits][:, group].sum(1)
                assert low[number] <= values.min() <= values.max() <= high[number], (toy.x, toy.t, node, number)
                proven += low[number] >= 1 and high[number] < toy.K
                provable += values.min() >= 1 and values.max() < toy.K
    # On these toys nothing is missed either. It is not so in general.
    assert proven == provable
    assert proven > 5 or method == "sca-sums"


@pytest.mark.long
@pytest.mark.parametrize(("method", "bound"), [*((method, None) for method in METHODS), ("sca-sums", 2)])
def test_counts_fit_what_an_attacker_knows_exactly_where_they_lead_to_the_same_tables(method, bound):
    seen = {True: 0, False: 0}
    for toy, x, t, published in _tried(method):
        if not published.split or (bound is not None and not errors_within(published, bound)):
            continue
        view = AttackerView(published, Brought(bound=bound))
        packed, low, high = open_cells(Attack(view).run())
        known = Intervals.of(view, (packed, low, high))
        closed = np.setdiff1d(np.flatnonzero(toy.t <= toy.K), known.packed)
        settled = np.zeros(len(toy.x), int)
        settled[packed] = low
        same = (x[:, closed] == settled[closed]).all(1)
        expected = _fitting(toy, method, published, x, t, bound)
        assert not expected[~same].any()
        some = np.flatnonzero(same)
        some = np.union1d(some[expected[some]][:40], np.random.default_rng(1).permutation(some)[:60])
        for place in some.tolist():
            said = known.fits(x[place, known.packed])
            assert said == expected[place], (toy.x, toy.t, x[place])
            seen[said] += 1
    assert seen[True] > 20
    assert seen[False] > 20 or (method, bound) == ("sca-sums", None)


@pytest.mark.long
@pytest.mark.parametrize("method", ["ilba", "r-file", "sca-aggregates"])
def test_exact_tables_from_elsewhere_prove_only_what_holds_in_every_truth_that_fits_them_too(method):
    more = 0
    for toy, x, t, published in _tried(method):
        node = published.lattice.nodes[-1]
        groups = toy.members(table_of(toy.finest.design, node))
        if not published.split or node == published.lattice.base:
            continue
        true = np.array([toy.x[group].sum() for group in groups])
        there = np.flatnonzero(true)
        view = AttackerView(published, Brought({node: ExactRows(there, true[there])}))
        plain, attack, rows = Attack(published).run(), Attack(view).run(), Attack(view, budget=1).run()
        assert _cells(attack) == _cells(rows)
        nobody = AttackerView(published, Brought())
        assert _cells(plain) == _cells(Attack(nobody).run()) == _cells(Attack(nobody, budget=1).run())
        fits = _fitting(toy, method, published, x, t)
        for group, count in zip(groups, true, strict=True):
            fits &= x[:, group].sum(1) == count
        values = np.where(t <= toy.K, x, 0)[fits]
        base = published.lattice.base
        for found, no_more in ((attack, True), (plain, False)):
            low, high = (side.T.reshape(-1) for side in found.cells(base, *found.rows[base[0]]))
            assert (low <= values.min(0)).all()
            assert (values.max(0) <= high).all()
            more += (1 if no_more else -1) * int(((low >= 1) & (high < toy.K)).sum())
    assert more > 0


def _are_rounded(x, toy, published, base):
    """Which truths have numbers of the finest cells, small ones 0, the base or as they are, that give the tables."""
    found = np.zeros(len(x), bool)
    for kinds in itertools.product([0, base, None], repeat=x.shape[1]):
        numbers, fits = x.copy(), np.ones(len(x), bool)
        for cell, kind in enumerate(kinds):
            if kind is not None:
                fits &= (x[:, cell] > 0) & (x[:, cell] < base)
                numbers[:, cell] = kind
        for node, rows in published.tables.items():
            for number, group in enumerate(toy.members(table_of(toy.finest.design, node))):
                fits &= numbers[:, group].sum(1) == rows.value[rows.packed == number].sum()
        found |= fits
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["rounding:3", "cell-key:D=2,V=1", "small-count-rounding:3", "suppression:kind=primary", "suppression:max_n=2"],
)
def test_numbers_of_other_methods_prove_only_what_holds_in_every_truth_they_stand_for(name):
    method, most, narrow = method_of(name), 12, 0
    for seed in range(5):
        toy, _ = _toy(seed, False)  # at most four cells
        published = MethodTables.made_by(method, toy.finest, wanted_tables(toy.finest.design, toy.tables))
        x = np.array(list(itertools.product(range(most + 1), repeat=len(toy.x))))
        for node, rows in published.tables.items():
            blank = published.shown[node].blank
            for number, group in enumerate(toy.members(table_of(toy.finest.design, node))):
                place = np.flatnonzero(rows.packed == number)
                hidden = bool(blank[place].any()) if blank is not None else False
                if hidden or (not len(place) and method.absent_blank):
                    low, high = method.blank_range(toy.K)
                else:
                    value = rows.value[place] if len(place) else np.zeros(1, np.int64)
                    low, high = (int(end[0]) for end in method.preimage(value, np.array([len(group)])))
                total = x[:, group].sum(1)
                x = x[(low <= total) & (total <= high)]
        if isinstance(method, SmallCountRounding):
            x = x[_are_rounded(x, toy, published, method.base)]
        assert (x == toy.x).all(1).any() or toy.x.max() > most
        attack = Attack(published).run()
        for node in published.lattice.nodes:
            low, high = (side.T.reshape(-1) for side in attack.cells(node, *attack.rows[node[0]]))
            for number, group in enumerate(toy.members(table_of(toy.finest.design, node))):
                values = x[:, group].sum(1)
                assert low[number] <= values.min(), (toy.x, node, number)
                assert values.max() <= high[number], (toy.x, node, number)
                narrow += low[number] > 0 or high[number] < most
    assert narrow > 5


def test_tables_cover_each_other_and_hold_as_many_cells_and_areas_as_counting_gives(finest):
    published = PublishedTables.of(finest, "ilba")
    lattice, areas = published.lattice, published.codes.lists[0]
    nodes = lattice.nodes
    assert nodes == sorted(set(nodes), key=lambda node: (sum(node), node), reverse=True)

    def above(one, other):
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    cover = {
        (one, other)
        for one, other in itertools.permutations(nodes, 2)
        if above(one, other) and not any(above(one, node) and above(node, other) for node in nodes)
    }
    assert {tuple(edge) for edge in lattice.edges} == cover
    assert len(lattice.edges) == len(cover)
    cells = np.arange(finest.codes.finest.grid)
    for node in nodes:
        several = lattice.sizes(node, 0, areas.size(node[0]))
        shape = (*lattice.shape(node), areas.size(node[0]))
        by_area = np.moveaxis(np.broadcast_to(several, shape), -1, 0).reshape(-1)
        assert by_area.tolist() == np.bincount(projected(published, cells, node)).tolist(), node
    for level, top in itertools.combinations(range(areas.depth, -1, -1), 2):
        parents = areas.parents(level, top)
        for first, last in itertools.combinations(range(areas.size(top) + 1), 2):
            inside = np.flatnonzero((parents >= first) & (parents < last))
            assert lattice.areas(level, top, first, last) == (inside[0], inside[-1] + 1)
            assert lattice.over(level, top, int(inside[0]), int(inside[-1]) + 1) == (first, last)


def _names(toy):
    """The published value of each cell of a toy's tables, by the words for the cell."""
    found, areas = {}, len(toy.finest.design.hierarchies[0].columns)
    tables = {one.name: one for one in wanted_tables(toy.finest.design, toy.tables)}
    for group, owner, value in zip(toy.groups, toy.owner, toy.values, strict=True):
        columns = [*tables[owner].columns]
        level = sum(column in toy.columns[:areas] for column in columns)
        label = dict(zip(toy.columns, toy.cells[group[0]], strict=True))
        words = [f"{column} {label[column]}" for column in columns[max(level - 1, 0) :]]
        found[", ".join(words) or "the total"] = value
    return found


@pytest.mark.long
def test_an_explanation_quotes_what_is_published_and_ends_with_what_is_proven():
    explained = 0
    for seed in range(24):
        toy, _ = _toy(seed, seed % 4 > 0)
        report = ilba.audit(toy.finest, "ilba", toy.tables, explanations=3, brief=True)
        assert len(report.worst) == min(3, report.cells_disclosed or report.aggregates)
        values = _names(toy)
        for one in report.worst:
            *why, so = one.why
            ends = f"is exactly {one.low}" if one.low == one.high else f"lies in {one.low}..{one.high}"
            assert so == f"So {one.cell} {ends}."
            assert one.low >= 1
            assert one.high < toy.K
            quoted = [re.match(r"(.*): (\d+) published", line) for line in why]
            assert any(quoted)
            for match in filter(None, quoted):
                assert values[match[1]] == int(match[2]), match[0]
            for line in why:
                if line.endswith("is not published."):
                    assert line.removesuffix(" is not published.") not in values
            explained += 1
    assert explained > 3
