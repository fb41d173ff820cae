"""What an attack proves holds in every world: every small world is tried, and an exact solver is asked."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from ilba import FinestTable, PublishedTables, Secret
from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import Conditions, Worlds
from ilba.attack.intervals import Intervals, at, open_cells
from ilba.attack.kernels import parts_of_rows
from ilba.attack.published import POLICIES, whole_range
from ilba.design.tables import selections
from ilba.methods import masking
from support.size import tries
from support.stores import stores, toy

SHAPES = {
    "1x2": (2, [(0,), (1,), (0, 1)], [("t0", 0), ("t0", 1)]),
    "1x3": (3, [(0,), (1,), (2,), (0, 1, 2)], [("t0", 0), ("t0", 1), ("t0", 2)]),
    "2x2": (4, [(0, 1), (2, 3), (0, 2), (1, 3), (0, 1, 2, 3)], [("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)]),
    "chain": (3, [(1, 2), (0, 1, 2)], [("a", "a"), ("bc", "b"), ("bc", "c")]),
}


def worlds(n: int, K: int):
    """All truths up to one above K with all their draws."""
    cell = [(f, m) for f in range(K + 2) for m in ([f] if f in (0, K, K + 1) else [0, K])]
    if n == 4 and K == 5:
        cell = [
            one for one in cell if one[0] <= K
        ]  # a large cell only takes itself out; keep the number of worlds down
    all_of_them = np.array(list(itertools.product(cell, repeat=n)))
    return all_of_them[:, :, 0], all_of_them[:, :, 1]


def views(shape: str, K: int, reading: str):
    """What is published in each world: the masked finest table and the aggregates."""
    n, aggregates, _ = SHAPES[shape]
    f, masked = worlds(n, K)
    columns = [masked]
    for cells in aggregates:
        part, at = f[:, cells], masked[:, cells]
        small = part <= K
        counted = small & (part > 0) if reading == "observed" else small
        value = masking.ilba(counted.sum(1), (small & (at == K)).sum(1), np.where(small, part, 0).sum(1), K).sum_masked
        columns.append((value + np.where(small, 0, part).sum(1))[:, None])
    seen, first, view = np.unique(np.hstack(columns), axis=0, return_index=True, return_inverse=True)
    low, high = np.full((len(seen), n), 99), np.full((len(seen), n), -1)
    np.minimum.at(low, view.reshape(-1), f)
    np.maximum.at(high, view.reshape(-1), f)
    return f[first], masked[first], low, high


def proven(published: PublishedTables):
    """The bounds of the finest cells, area by area."""
    base, found = published.lattice.base, []
    for block in Attack(published).run().blocks():
        if base in block.own:
            found.append([side[base].reshape(-1, side[base].shape[-1]).T for side in _sides(block)])
    return [np.concatenate(side) for side in zip(*found, strict=True)]


def _sides(block):
    return block.kinds[0].low, block.kinds[0].high


def release(shape: str, K: int, reading: str, f, masked) -> PublishedTables:
    """All the views side by side: one top area for each."""
    labels = SHAPES[shape][2]
    number = np.repeat(np.arange(len(f)), f.shape[1])
    frame = pl.DataFrame({"view": number, "N": f.reshape(-1), "N_masked": masked.reshape(-1)})
    first, second = (pl.Series([pair[i] for pair in labels] * len(f)) for i in (0, 1))
    if shape == "chain":
        frame = frame.with_columns(part=first, cell=second)
        finest = FinestTable.from_counts(frame, ["view", "part", "cell"], [], K, cells=reading)
        return PublishedTables.of(finest, "ilba", selections(finest.design, levels=[1, 2, 3]))
    frame = frame.with_columns(t=first, x=second)
    finest = FinestTable.from_counts(frame, ["view", "t"], ["x"], K, cells=reading)
    return PublishedTables.of(finest, "ilba", selections(finest.design, levels=[1, 2]))


@pytest.mark.slow
@pytest.mark.parametrize("reading", ["observed", "grid"])
@pytest.mark.parametrize("K", [3, 5])
@pytest.mark.parametrize("shape", SHAPES)
def test_on_all_toys_the_attack_proves_only_what_holds_in_every_world(shape, K, reading):
    f, masked, low, high = views(shape, K, reading)
    published = release(shape, K, reading, f, masked)
    ours_low, ours_high = (side.reshape(f.shape) for side in proven(published))
    large = masked > K
    ours_low, ours_high = np.where(large, masked, ours_low), np.where(large, masked, ours_high)
    assert (ours_low <= low).all()
    assert (ours_high >= high).all()
    ours, theirs = (ours_low >= 1) & (ours_high < K), (low >= 1) & (high < K)
    assert not (ours & ~theirs).any()
    # On these toys nothing is missed either: the gap to trying every world is 0 cells. It is not 0 in general.
    assert (ours == theirs).all()
    assert ours.any() == (reading == "observed" or shape in ("2x2", "chain"))
    assert ((ours_low == low) & (ours_high == high)).mean() > (0.99 if shape == "chain" else 0.999)

    safe = np.zeros(f.size, dtype=bool)
    safe[with_another_truth(published)] = True
    assert not (safe.reshape(f.shape) & theirs).any()
    assert safe.any()


def with_another_truth(published: PublishedTables) -> np.ndarray:
    """The small cells for which another truth is found that gives the same tables."""
    rows = published.base
    packed, low, high = open_cells(Attack(published).run())
    counts = at(rows.packed, np.where(rows.truth.sum_large > 0, 0, rows.truth.sum_small), packed)
    known = Intervals.of(published, (packed, low, high))
    own = counts[low < high]
    targets = np.flatnonzero((own > 0) & (own < published.K))
    worlds = Worlds(Conditions.of(known), own, known.at_k.astype(np.int64))
    worlds.search(targets)
    return known.packed[targets[worlds.safe[targets]]]


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("K", [3, 4, 5])
def test_what_a_value_can_stand_for_without_the_finest_table_is_what_trying_every_truth_gives(K, cells):
    values = np.arange(2 * K + 2 + K // 2)
    for n in (1, 2, 3) if K > 3 else (1, 2, 3, 4):
        low, high = np.full(len(values), 99), np.full(len(values), -1)
        f = np.array(list(itertools.product(range(len(values)), repeat=n)))
        small = f <= K
        for masks in itertools.product((0, 1), repeat=n):
            at = np.array(masks, dtype=bool)
            fits = (small | ~at).all(1) & ((f > 0) | ~at).all(1) & ((f != K) | at).all(1)
            count, within = f[fits], small[fits]
            counted = within & (count > 0) if cells == "observed" else within
            sums = np.where(within, count, 0).sum(1)
            value = masking.ilba(counted.sum(1), (within & at).sum(1), sums, K).sum_masked
            value += np.where(within, 0, count).sum(1)
            true, shown = count.sum(1), value < len(values)
            np.minimum.at(low, value[shown], true[shown])
            np.maximum.at(high, value[shown], true[shown])
        ours = whole_range(values, np.full(len(values), n), K, cells)
        possible = low <= high
        assert (ours[0][~possible] > ours[1][~possible]).all()
        for side, tried in zip(ours, (low, high), strict=True):
            assert side[possible].tolist() == tried[possible].tolist(), (n, cells)


@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_a_larger_value_or_K_is_bounded_by_how_far_a_count_is_moved(cells):
    rng = np.random.default_rng(1)
    for K in (5, 10, 60):
        count = rng.integers(0, 2 * K, (20_000, 6)) * (rng.random((20_000, 6)) < 0.7)
        small = count <= K
        at = small & (count > 0) & ((count == K) | (rng.random(count.shape) * K < count))
        counted = small & (count > 0) if cells == "observed" else small
        sums = np.where(small, count, 0).sum(1)
        value = masking.ilba(counted.sum(1), at.sum(1), sums, K).sum_masked + np.where(small, 0, count).sum(1)
        low, high = whole_range(value, np.full(len(value), 6), K, cells)
        assert set(high[value == 0]) <= {0 if cells == "grid" else K - 1}
        assert ((low <= count.sum(1)) & (count.sum(1) <= high)).all()


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("K", [3, 5, 60])
def test_a_value_of_at_least_n_cells_can_stand_for_what_any_such_number_allows(K, cells):
    values = np.array([0, K, *range(K + 1 + K // 2, 4 * K)])
    numbers = np.arange(1, 4 * K)[:, None] + np.zeros_like(values)
    low, high = whole_range(values + np.zeros_like(numbers), numbers, K, cells)
    for least in (1, 2, 5):
        some = whole_range(values, np.full(len(values), least), K, cells, or_more=True)
        possible = np.where(low <= high, low, 10**6)[least - 1 :].min(axis=0) < 10**6
        assert (some[0] <= np.where(low <= high, low, 10**6)[least - 1 :].min(axis=0))[possible].all()
        assert (some[1] >= np.where(low <= high, high, -1)[least - 1 :].max(axis=0))[possible].all()


@pytest.mark.parametrize(("tables", "people"), [(["all.x", "all.y"], 12), (["town", "all.x"], 80)])
def test_sums_of_many_cells_masked_to_0_do_not_exclude_the_truth(tables, people):
    rows = [(town, x, y, 4, 0) for town in "abc" for x in range(20) for y in range(20)]
    counts = pl.DataFrame(rows, schema=["town", "x", "y", "N", "N_masked"], orient="row")
    report = ilba.audit(FinestTable.from_counts(counts, ["town"], ["x", "y"]), "sca-sums", tables)
    assert report.safe
    assert set(report.ranges["high"]) == {people}  # as many as there are


def test_without_the_finest_table_small_aggregates_are_proven_too():
    counts = pl.DataFrame(
        {"town": ["a", "a", "b", "b"], "x": [0, 1, 0, 1], "N": [0, 1, 0, 2], "N_masked": [0, 0, 0, 3]}
    )
    finest = FinestTable.from_counts(counts, ["town"], ["x"], 3, cells="grid")
    report = ilba.audit(finest, tables=["town", "all"])
    assert report.ranges.select("low", "high").rows() == [(1, 2), (1, 2)]
    assert report.cells_disclosed == 2
    assert ilba.audit(finest, tables=["town"]).ranges.select("low", "high").rows() == [(1, 5), (1, 5)]


def exact_ranges(published: PublishedTables):
    """The least and the largest count of each finest cell over all truths that fit, by integer programming."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    lattice, base = published.lattice, published.lattice.base
    known = {}
    for level in lattice.levels:
        known |= published.knowledge(level, 0, published.codes.lists[0].size(level))
    size = known[base].low.size
    rows, lows, highs = [], [], []
    number = np.arange(size).reshape(known[base].low.shape)
    for node, one in known.items():
        if node == base:
            continue
        inside = {tuple(index): [] for index in np.ndindex(one.low.shape)}
        for index in np.ndindex(number.shape):
            *keys, area = index
            digits = [area, *keys]
            to = [
                int(listed.parents(fine, coarse)[digit])
                for listed, fine, coarse, digit in zip(published.codes.lists, base, node, digits, strict=True)
            ]
            inside[(*to[1:], to[0])].append(number[index])
        for index, cells in inside.items():
            row = np.zeros(size)
            row[cells] = 1
            rows.append(row)
            lows.append(one.low[index])
            highs.append(one.high[index])
    within = Bounds(known[base].low.reshape(-1), known[base].high.reshape(-1))
    fit = LinearConstraint(np.array(rows), lows, highs)
    ends = []
    for sign in (1, -1):
        found = []
        for cell in range(size):
            aim = np.zeros(size)
            aim[cell] = sign
            solved = milp(aim, constraints=fit, bounds=within, integrality=np.ones(size))
            assert solved.success
            found.append(round(sign * solved.fun))
        ends.append(np.array(found).reshape(number.shape))
    return ends


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_an_exact_solver_confirms_every_proof_and_every_counterexample(seed):
    rng = np.random.default_rng(seed)
    K = (3, 5)[seed % 2]
    cells = list(itertools.product(range(2), range(2), range(3), range(2)))
    frame = pl.DataFrame(cells, schema=["a", "b", "x", "y"], orient="row")
    frame = frame.with_columns(N=pl.Series(rng.poisson(K / 3, len(cells))))
    finest = FinestTable.from_counts(frame, ["a", "b"], ["x", "y"], K, cells="grid", secret=Secret(bytes([seed]) * 32))
    published = PublishedTables.of(finest)
    attack = Attack(published).run()
    base = published.lattice.base
    low, high = (side[base] for side in _sides(attack.whole))
    exact_low, exact_high = exact_ranges(published)
    assert (low <= exact_low).all()
    assert (high >= exact_high).all()
    ours, theirs = (low >= 1) & (high < K), (exact_low >= 1) & (exact_high < K)
    assert not (ours & ~theirs).any()
    assert ours.sum() >= 0.8 * theirs.sum()  # the gap, on tables of 24 cells with every margin
    where = np.zeros(low.size, dtype=bool)
    where[with_another_truth(published)] = True
    safe = where.reshape(low.shape[-1], -1).T.reshape(low.shape)
    assert not (safe & theirs).any()


def bounds(published: PublishedTables, **options):
    """All bounds of an attack, put together from its parts."""
    found = {}
    for block in Attack(published, **options).run().blocks():
        for kind, of in enumerate(block.kinds):
            for node in block.own:
                for is_high, side in enumerate((of.low, of.high)):
                    found.setdefault((kind, node, is_high), []).append(side[node])
    return {key: np.concatenate(parts, axis=-1) for key, parts in found.items()}


@st.composite
def releases(draw):
    """Some tables of a small store, by any method."""
    finest, _ = draw(stores())
    everything = selections(finest.design)
    chosen = draw(st.one_of(st.just(everything), st.lists(st.sampled_from(everything), min_size=1, unique=True)))
    return PublishedTables.of(finest, draw(st.sampled_from(list(POLICIES))), chosen)


@pytest.mark.slow
@settings(max_examples=tries(150), deadline=None)
@given(releases(), st.integers(1, 60))
def test_the_truth_is_always_inside_and_working_in_parts_changes_nothing(published, budget):
    whole, parts = bounds(published), bounds(published, budget=budget)
    assert whole.keys() == parts.keys()
    for key, values in whole.items():
        assert (values == parts[key]).all()
    for node, rows in published.tables.items():
        true = rows.truth.sum_small + (0 if published.split else rows.truth.sum_large)
        dense = published.dense(node, 0, published.codes.lists[0].size(node[0]), true)
        assert (whole[0, node, 0] <= dense).all()
        assert (dense <= whole[0, node, 1]).all()


def unaware(published):
    """The same tables without what the store told: the attack counts for itself which counts would differ."""
    other = copy.copy(published)
    other.misfits = None
    return other


@pytest.mark.slow
@settings(max_examples=tries(60), deadline=None)
@given(releases())
def test_every_small_cell_is_counted_once_and_ranges_hold_the_truth(published):
    report = ilba.audit(published, explanations=2)
    K = published.K
    assert report.cells_small == report.cells_disclosed + report.cells_certified + report.cells_undecided
    assert 0 <= report.cells_exact <= report.cells_disclosed
    assert report.cells_undecided >= 0
    small = report.ranges.filter((pl.col("low") >= 1) & (pl.col("high") < K))
    assert small.height == report.cells_disclosed
    base = published.base
    low, high = (report.ranges[side].to_numpy()[base.packed] for side in ("low", "high"))
    true = base.truth.sum_small + base.truth.sum_large
    assert ((low <= true) & (true <= high)).all()
    found, node = bounds(published), published.lattice.base
    small = true <= K if published.split else true >= 0  # a large cell's count is public where the finest table is
    for side, ours in enumerate((low, high)):
        attacked = found[0, node, side]
        assert (ours == attacked.reshape(-1, attacked.shape[-1]).T.reshape(-1)[base.packed])[small].all()
    if published.split:
        assert (low == high)[~small].all()
    if published.split:  # counted from the store, and again from the public numbers alone
        assert (report.misfits == 0) == (not any(Attack(unaware(published)).misfits.values()))
    if report.certificate:
        assert (report.cells_disclosed, report.aggregates) == (0, 0)
    for one in report.worst:
        assert 1 <= one.low <= one.high < K
        assert one.why[-1].startswith(f"So {one.cell} ")


def test_two_small_cells_whose_total_is_released_as_K_are_given_away_in_the_observed_reading():
    report = ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
    assert (report.cells_small, report.cells_disclosed, report.cells_exact) == (2, 2, 0)
    assert report.ranges.select("low", "high").rows() == [(1, 4), (1, 4)]
    assert report.worst[0].why == [
        "town 0: 5 published means 1..8 in 2 occupied cells.",
        "town 0, x 1: 0 published means 0..4.",
        "town 0, x 0: 0 published means 0..4.",
        "town 0, x 0: at least 1 occupied cell, because town 0 has at least 2 occupied and its other parts are at most "
        "1 in town 0, x 1.",
        "town 0, x 0: at least 1, because somebody is there.",
        "So town 0, x 0 lies in 1..4.",
    ]
    assert ilba.audit(toy([2, 3], [0, 0], 5, "grid")).cells_disclosed == 0


def test_a_chain_of_three_cells_gives_one_away_in_the_grid_reading():
    frame = pl.DataFrame({"part": ["a", "bc", "bc"], "cell": ["a", "b", "c"], "N": [2, 0, 0], "N_masked": [0, 0, 0]})
    report = ilba.audit(FinestTable.from_counts(frame, ["part", "cell"], [], 5, cells="grid"))
    assert report.ranges.select("low", "high").rows() == [(1, 4), (0, 0), (0, 0)]
    assert report.worst[0].why == [
        "the total: 5 published means 1..5.",
        "part bc: 0 published means 0..0.",
        "cell a: 0 published means 0..4.",
        "part a: at least 1, because the total is at least 1 and its other parts are 0.",
        "cell a: at least 1, because part a is at least 1 and its other parts are 0.",
        "So cell a lies in 1..4.",
    ]


def test_a_table_of_two_by_two_without_a_released_zero_gives_a_cell_away():
    report = ilba.audit(toy([0, 1, 2, 0], [0, 0, 3, 0], 3, "grid", areas=2))
    assert (report.cells_disclosed, report.cells_exact) == (1, 0)
    assert report.worst[0].why == [
        "town 1, x 0: 3 published means 1..3.",
        "the total: 3 published means 1..3.",
        "x 1: 3 published means 1..4.",
        "x 0: at most 2, because the total is at most 3 and its other parts are at least 1 in x 1.",
        "town 1, x 0: at most 2, because x 0 is at most 2 and its other parts are 0 or more.",
        "So town 1, x 0 lies in 1..2.",
    ]


def test_flags_name_both_counts_of_two_cells():
    finest = toy([2, 2], [0, 0], 3, "observed")
    assert ilba.audit(finest, "r-file", tables=["town", "town.x"]).cells_exact == 2
    assert ilba.audit(finest, "r-rows", tables=["town", "town.x"]).cells_exact == 0


def test_a_listed_zero_is_a_small_cell():
    report = ilba.audit(toy([2, 9], [0, 9], 5, "observed"), "r-rows", tables=["town.x"])
    assert report.cells_disclosed == 1
    assert report.worst[0].why == ["town 0, x 0: 0 published means 1..4.", "So town 0, x 0 lies in 1..4."]


@pytest.mark.parametrize(
    ("side", "cell", "value"),
    [("low", 0, 3), ("high", 0, 1), ("low", 2, 1)],
    ids=["above the truth", "below the truth", "somebody where nobody is"],
)
def test_an_attack_that_excludes_the_truth_is_a_mistake_and_is_told(monkeypatch, side, cell, value):
    counts = pl.DataFrame({"town": [0, 0, 1], "x": [0, 1, 1], "N": [2, 9, 7], "N_masked": [0, 9, 7]})
    finest = FinestTable.from_counts(counts, ["town"], ["x"], 5, cells="grid")
    run = Attack.run

    def wrong(self, progress=None):
        run(self, progress)
        base = self.published.lattice.base
        getattr(self.whole.kinds[0], side)[base].T.reshape(-1)[cell] = value
        bounds = getattr(self.whole.kinds[0], side)[base]
        bounds[np.unravel_index(cell, bounds.T.shape)[::-1]] = value
        return self

    ilba.audit(finest)
    monkeypatch.setattr(Attack, "run", wrong)
    with pytest.raises(AssertionError, match="excluded the truth"):
        ilba.audit(finest)


@pytest.mark.parametrize("method", ["ilba", "r-file"])
def test_misfits_are_the_counts_and_flags_that_differ_from_those_of_the_masked_table(method):
    rng, flagged = np.random.default_rng(4), 0
    for _ in range(6):
        x = rng.integers(0, 7, 8)
        t = np.where(x > 5, x, np.where(rng.random(8) < x / 5, 5, 0))
        view, masked = (PublishedTables.of(toy(n.tolist(), t.tolist(), 5, "observed", 2), method) for n in (x, t))
        misfits = 0
        for node, rows in view.tables.items():
            other = masked.tables[node]
            for place, cell in enumerate(rows.packed.tolist()):
                at = np.flatnonzero(other.packed == cell)
                misfits += rows.value[place] != (other.value[at[0]] if len(at) else 0)
                if method == "r-file":
                    flags = [
                        (int(part[place]), int(same[at[0]]) if len(at) else 0)
                        for part, same in ((rows.type1, other.type1), (rows.type2, other.type2))
                    ]
                    differ = any(own != same for own, same in flags)
                    flagged += differ
                    misfits += (not len(at)) + differ
        assert view.misfits == misfits
    assert flagged > 2 or method == "ilba"


def test_rows_without_a_listed_finest_cell_are_read_as_well(monkeypatch):
    """Compiled code would not notice that there is no room for them, so it runs as Python here."""
    cells = list(itertools.product("ab", range(8), range(2)))
    frame = pl.DataFrame(cells, schema=["town", "x", "y"], orient="row").with_columns(N=pl.lit(9))
    finest = FinestTable.from_counts(frame, ["town"], ["x", "y"], 5, secret=Secret(bytes(32)), cells="grid")
    one = frame.head(1).rename({"N": "N_masked"})
    some = frame.unique(["town", "x"], maintain_order=True).select(
        "town", "x", N_masked=pl.when(pl.int_range(pl.len()) == 0).then(9).otherwise(0)
    )
    published = PublishedTables.from_frames(finest.codes, {"town.x.y": one, "town.x": some})
    as_python = getattr(parts_of_rows, "py_func", parts_of_rows)
    monkeypatch.setattr("ilba.attack.published.parts_of_rows", as_python)
    (found,) = (told for told in published.touched(1, 0, 2) if told.node == (1, 1, 0))
    places = zip(found.area.tolist(), found.cell.tolist(), strict=True)
    assert sorted(places) == list(itertools.product(range(2), range(8)))
    assert found.said.large.tolist().count(9) == 1
