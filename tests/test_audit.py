"""The audit: what it calls proven is true in every world that fits, and what it calls safe has a witness."""

from __future__ import annotations

import itertools

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from conftest import HKEY, ILBA, KEY, population
from ilba import FinestTable, InputError, PublishedTables, Secret
from ilba.attack.audit import losses, what_if
from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import _World, witnessed
from ilba.attack.published import POLICIES, whole_range
from ilba.cells.codes import CodeLists
from ilba.design.tables import selections, wanted_tables
from ilba.methods import masking
from ilba.output.report import Loss
from test_finest import stores

# ---------------------------------------------------------------------------------------------------------------------
# Toys: every truth with every draw, exhaustively. Each view (all that is published) is one area of a single release, so
# that one attack answers them all.

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


def proven(published: PublishedTables):
    """The bounds of the finest cells, area by area."""
    base, found = published.lattice.base, []
    for block in Attack(published).run().blocks():
        if base in block.own:
            found.append([side[base].reshape(-1, side[base].shape[-1]).T for side in _sides(block)])
    return [np.concatenate(side) for side in zip(*found, strict=True)]


def _sides(block):
    return block.kinds[0].low, block.kinds[0].high


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

    rows = published.tables[published.lattice.base]
    safe = np.zeros(f.size, dtype=bool)
    safe[rows.packed] = witnessed(published)
    assert not (safe.reshape(f.shape) & theirs).any()
    assert safe.any()


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


def test_without_the_finest_table_small_aggregates_are_proven_too():
    counts = pl.DataFrame(
        {"town": ["a", "a", "b", "b"], "x": [0, 1, 0, 1], "N": [0, 1, 0, 2], "N_masked": [0, 0, 0, 3]}
    )
    finest = FinestTable.from_counts(counts, ["town"], ["x"], 3, cells="grid")
    report = ilba.audit(finest, tables=["town", "all"])
    assert report.ranges.select("low", "high").rows() == [(1, 2), (1, 2)]
    assert report.cells_disclosed == 2
    assert ilba.audit(finest, tables=["town"]).ranges.select("low", "high").rows() == [(1, 5), (1, 5)]


# ---------------------------------------------------------------------------------------------------------------------
# Larger: an exact solver, random populations, parts of the lattice


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
def test_an_exact_solver_confirms_every_proof_and_every_witness(seed):
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
    rows = published.tables[base]
    where = np.zeros(low.size, dtype=bool)
    where[rows.packed] = witnessed(published)
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
@settings(max_examples=150, deadline=None)
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


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
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
        assert (report.misfits == 0) == (not any(Attack(published).misfits.values()))
    if report.certificate:
        assert (report.cells_disclosed, report.aggregates) == (0, 0)
    for one in report.worst:
        assert 1 <= one.low <= one.high < K
        assert one.why[-1].startswith(f"So {one.cell} ")


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_ranges_list_every_cell_of_the_grid_with_its_labels(secret, cells):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret, cells=cells)
    report = ilba.audit(finest)
    ranges = report.ranges
    assert ranges.columns == [*HKEY, *KEY, "low", "high"]
    assert ranges.height == finest.codes.finest.grid
    joined = ranges.join(finest.frame, on=[*HKEY, *KEY], how="left").with_columns(pl.col("N").fill_null(0))
    assert (joined["low"] <= joined["N"]).all()
    assert (joined["N"] <= joined["high"]).all()
    assert report.cells_small == finest.frame.filter(pl.col("N") < 5).height
    assert 0 < report.cells_disclosed < report.cells_small


def test_ranges_are_of_counts_and_not_of_occupied_cells(secret):
    finest = ilba.build(population(1500), HKEY, KEY, secret=secret)
    ranges = ilba.audit(finest, explanations=0).ranges.join(finest.frame, on=[*HKEY, *KEY])
    several = ranges.filter(pl.col("low") >= 2, pl.col("N") <= 5)
    assert several.height > 10
    assert several.select((pl.col("low") <= pl.col("N")) & (pl.col("N") <= pl.col("high"))).to_series().all()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ilba", "r-file"])
@pytest.mark.parametrize("names", ["all", ["town.sex.age", "block.sex", "all"]])
def test_a_release_audited_in_parts_gives_the_same_report(secret, monkeypatch, method, names):
    finest = ilba.build(population(800), HKEY, ["sex", "age"], 3, secret=secret)
    whole = ilba.audit(finest, method, names, explanations=3)
    parts = []

    def in_parts(published):
        parts.append(Attack(published, budget=100))
        return parts[-1]

    monkeypatch.setattr("ilba.attack.audit.Attack", in_parts)
    report = ilba.audit(finest, method, names, explanations=3)
    assert len(parts[0].chunks) > 2
    assert report.ranges.equals(whole.ranges)
    assert report.tables.equals(whole.tables)
    assert {**report.to_dict(), "seconds": 0} == {**whole.to_dict(), "seconds": 0}


@pytest.mark.slow
def test_a_large_grid_lists_the_cells_of_the_store(secret, monkeypatch):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret)
    whole = ilba.audit(finest)
    monkeypatch.setattr("ilba.attack.audit.COMPLETE", 10)
    report = ilba.audit(finest)
    assert report.ranges.select(HKEY + KEY).equals(finest.frame.select(HKEY + KEY))
    assert report.ranges.equals(whole.ranges.join(report.ranges.select(HKEY + KEY), on=HKEY + KEY, how="semi"))


# ---------------------------------------------------------------------------------------------------------------------
# The smallest counterexamples, found and explained


def toy(counts, masked, K, cells, areas=1):
    labels = [(area, x) for area in range(areas) for x in range(len(counts) // areas)]
    frame = pl.DataFrame(labels, schema=["town", "x"], orient="row").with_columns(
        N=pl.Series(counts), N_masked=pl.Series(masked)
    )
    return FinestTable.from_counts(frame, ["town"], ["x"], K, cells=cells)


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


# ---------------------------------------------------------------------------------------------------------------------
# The certificate


@pytest.mark.parametrize("method", ["controlled", "sca-sums"])
def test_sums_of_the_masked_finest_table_are_certified(finest, method):
    report = ilba.audit(finest, method)
    assert report.certificate
    assert report.safe
    assert (report.cells_certified, report.cells_undecided) == (report.cells_small, 0)
    assert ilba.audit(finest, method, levels=[1], max_keys=1).cells_certified is not None


def test_sums_are_certified_from_public_tables_alone_whether_the_finest_is_among_them_or_not(finest):
    for names, misfits in ((["block.sex.age.job", "town.sex"], 0), (["town.sex", "region.age"], None)):
        frames = {}
        for selection in wanted_tables(finest.design, names):
            columns = list(selection.columns)
            sums = finest.frame.group_by(columns).agg(pl.col("N_masked").sum()).filter(pl.col("N_masked") > 0)
            frames[selection.name] = sums
        report = ilba.audit(PublishedTables.from_frames(finest.codes, frames, "controlled"))
        assert report.misfits == misfits
        assert report.certificate
        assert report.safe


def test_ilba_without_the_finest_table_has_no_certificate_from_public_tables_alone(finest):
    report = ilba.audit(PublishedTables.from_frames(finest.codes, public_release(finest, ["town.sex", "region.age"])))
    assert report.misfits is None
    assert not report.certificate


def test_ilba_is_certified_where_the_masked_table_is_a_possible_truth():
    finest = toy([3, 0, 0, 9], [5, 0, 0, 9], 5, "observed")
    report = ilba.audit(finest)
    assert report.certificate
    assert report.misfits == 0
    assert (report.cells_small, report.cells_certified) == (1, 1)
    other = ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
    assert not other.certificate
    assert other.misfits > 0


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file"])
def test_every_world_that_witnesses_walk_through_leads_to_the_same_release(secret, cells, method):
    finest = ilba.build(population(700), HKEY, KEY, secret=secret, cells=cells)
    published = PublishedTables.of(finest, method)
    frame, K = finest.frame, finest.design.threshold
    small = (frame["N"] <= K).to_numpy()
    count = frame["N"].to_numpy().copy()
    world = _World(published, published.base.packed[small], count[small], frame["N_masked"].to_numpy()[small] == K)
    for seed in range(40):
        world.walk(np.random.default_rng(seed))
    assert (world.count != count[small]).sum() > 10
    count[small] = world.count
    # A cell that became empty keeps its labels in the code lists, through its row with N = 0.
    other = FinestTable.from_counts(frame.with_columns(N=pl.Series(count)), HKEY, KEY, K, cells=cells)
    again = PublishedTables.of(other, method)
    for node, rows in published.tables.items():
        areas = published.codes.lists[0].size(node[0])
        assert (
            again.dense(node, 0, areas, again.tables[node].value) == published.dense(node, 0, areas, rows.value)
        ).all()


# ---------------------------------------------------------------------------------------------------------------------
# Public tables alone, and what a user meets


def public_release(finest: FinestTable, names) -> dict[str, pl.DataFrame]:
    tables = wanted_tables(finest.design, names)
    return {one.name: finest.table(one.levels[0], one.keys).public() for one in tables}


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_public_tables_alone_prove_the_same(secret, cells):
    finest = ilba.build(population(600), HKEY, KEY, secret=secret, cells=cells)
    names = [table.name for table in selections(finest.design, levels=[1, 3])]
    codes = CodeLists.from_json(finest.design, finest.codes.to_json())
    public = ilba.audit(PublishedTables.from_frames(codes, public_release(finest, names)))
    store = ilba.audit(finest, tables=names)
    assert public.ranges.equals(store.ranges)
    assert public.cells_disclosed == store.cells_disclosed > 0
    assert public.cells_exact == store.cells_exact
    assert public.tables.drop("small").equals(store.tables.drop("small"))
    assert [one.why for one in public.worst] == [one.why for one in store.worst]
    assert (public.cells_small, public.cells_certified, public.cells_undecided) == (None, None, None)
    assert public.misfits > 0
    assert not public.certificate
    assert "unknown" in str(public)


def test_tables_of_another_release_are_refused(secret):
    finest = ilba.build(population(600), HKEY, KEY, secret=secret, cells="grid")
    frames = public_release(finest, ["block.sex.age.job", "town.sex"])
    changed = frames["town.sex"].with_columns(pl.col("N_masked") + 1)
    with pytest.raises(InputError, match=r"'town\.sex' holds numbers that method='ilba' with K=5"):
        ilba.audit(PublishedTables.from_frames(finest.codes, {**frames, "town.sex": changed}))
    with pytest.raises(InputError, match="labels in region, town that no code list holds"):
        PublishedTables.from_frames(
            finest.codes, {"town": pl.DataFrame({"region": "09", "town": "0901", "N_masked": 7})}
        )
    with pytest.raises(InputError, match="two rows for the same cell"):
        PublishedTables.from_frames(finest.codes, {"all": pl.DataFrame({"N_masked": [7, 8]})})
    with pytest.raises(InputError, match="no column N_masked"):
        PublishedTables.from_frames(finest.codes, {"all": pl.DataFrame({"N": [7]})})


def test_wrong_use_is_answered_with_what_to_type(finest):
    with pytest.raises(InputError, match="Did you mean 'controlled'"):
        ilba.audit(finest, "controled")
    with pytest.raises(InputError, match="Did you mean 'sex'"):
        ilba.audit(finest, tables=["town.sez"])
    with pytest.raises(InputError, match="leave out levels"):
        ilba.audit(finest, tables=["town.sex"], levels=[1])
    with pytest.raises(InputError, match="Name at least one"):
        ilba.audit(finest, tables=[])
    with pytest.raises(InputError, match="Did you mean 'tables'"):
        ilba.audit(finest, tabels=["town.sex"])
    with pytest.raises(InputError, match="takes a finest table"):
        ilba.audit(finest.frame)


def test_fewer_tables_prove_less(finest, audited):
    everything = audited
    few = ilba.audit(finest, tables=["block.sex.age.job", "town.sex", "all"])
    assert few.cells_small == everything.cells_small
    assert few.cells_disclosed < everything.cells_disclosed
    assert ilba.audit(finest, tables=["town.sex"]).published.split is False


def test_the_worst_comes_first_what_is_known_most_exactly_and_then_the_smallest(secret, monkeypatch):
    finest = ilba.build(population(500), ["region", "town"], ["sex", "age"], secret=secret)
    report = ilba.audit(finest, "r-file", explanations=10**6)
    found = report.ranges.filter((pl.col("low") >= 1) & (pl.col("high") < 5))
    assert {(1, 3), (3, 4)} <= set(found.select("low", "high").rows())  # the narrow one first, though it is larger
    assert len(report.worst) == found.height == report.cells_disclosed
    assert found.filter(pl.col("low") == pl.col("high")).height == report.cells_exact == 3
    assert report.tables.row(by_predicate=pl.col("table") == "town.sex.age")[-1] == 3
    assert report.tables["exact"].sum() == 5
    assert report.misfits == report.published.misfits
    rank = [(one.high - one.low, one.high) for one in report.worst]
    assert rank == sorted(rank) == sorted((high - low, high) for low, high in found.select("low", "high").rows())
    monkeypatch.setattr("ilba.attack.audit.MOST_WORST", 4)
    assert ilba.audit(finest, "r-file", explanations=10**6).worst == report.worst[:4]


@pytest.mark.slow
def test_a_release_alone_is_audited_as_its_public_tables_are(finest, tmp_path, secret):
    names = ["block.sex.age.job", "town.sex", "all"]
    release = finest.release(tmp_path / "out", tables=names, **ILBA)
    report = ilba.audit(release)
    frames = {name: release.table(name) for name in names}
    same = ilba.audit(PublishedTables.from_frames(release.code_lists(), frames, "ilba"))
    assert {**report.to_dict(), "seconds": 0} == {**same.to_dict(), "seconds": 0, "folder": []}
    assert (report.cells_small, report.cells_certified, report.cells_undecided) == (None, None, None)
    assert report.tables.schema["small"] == pl.Int64
    assert report.tables["small"].to_list() == [None] * 3
    assert not report.certificate
    with pytest.raises(InputError, match="not known without the store"):
        losses(report.published)
    finest._memory = None  # as if it were other data
    sums = finest.release(tmp_path / "sums", tables=names)
    assert ilba.audit(sums).certificate


def test_two_hierarchies_are_named_in_the_level_of_a_table(secret):
    hkey = {"area": ["region", "town"], "work": ["job"]}
    report = ilba.audit(ilba.build(population(300), hkey, ["sex"], secret=secret), explanations=0)
    assert set(report.tables["level"]) == {"all", "region", "town", "job", "region+job", "town+job"}


def test_a_table_of_the_report_counts_its_own_cells(finest, audited):
    report = audited
    K = finest.design.threshold
    by_name = {row["table"]: row for row in report.tables.to_dicts()}
    assert [*by_name][:: len(by_name) - 1] == ["all", "block.sex.age.job"]
    assert set(by_name) == {one.name for one in selections(finest.design)}
    for selection in selections(finest.design):
        row = by_name[selection.name]
        table = true_table(finest, selection)
        # Truly small is a cell without a large finest cell in it: a count below K cannot hold one.
        assert row["small"] == table.filter(pl.col("N").is_between(1, K - 1)).height, selection.name
        assert row["level"] == (HKEY[selection.levels[0] - 1] if selection.levels[0] else "all")
        assert 0 <= row["exact"] <= row["disclosed"] <= row["small"]
    assert report.aggregates == sum(row["disclosed"] for row in by_name.values()) - report.cells_disclosed > 0


def true_table(finest, selection):
    """The true and the released counts of a table."""
    columns = list(selection.columns)
    shown = finest.table(selection.levels[0], selection.keys).frame
    if not columns:
        return shown.with_columns(N=pl.lit(finest.frame["N"].sum()))
    return finest.frame.group_by(columns).agg(pl.col("N").sum()).join(shown, on=columns, how="full", coalesce=True)


def test_a_witness_for_what_is_proven_is_a_mistake_and_is_told(monkeypatch):
    monkeypatch.setattr("ilba.attack.audit.witnessed", lambda published, proven: np.ones(len(proven), dtype=bool))
    with pytest.raises(AssertionError, match="has a witness"):
        ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
    monkeypatch.setattr("ilba.attack.audit.witnessed", lambda published, proven: np.arange(len(proven)) == 0)
    with pytest.raises(AssertionError, match="has a witness"):
        ilba.audit(toy([2, 3], [0, 0], 5, "observed"))


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


@pytest.mark.slow
def test_a_release_of_another_store_is_refused(finest, people, tmp_path, secret):
    release = finest.release(tmp_path / "out", tables=["block.sex.age.job", "town.sex"], **ILBA)
    report = ilba.audit(release, store=finest)
    assert report.cells_small == finest.frame.filter(pl.col("N").is_between(1, 4)).height
    other = ilba.build(people.head(2990), HKEY, KEY, secret=secret)
    with pytest.raises(InputError, match=r"not made from this store: the table 'block\.sex\.age\.job' differs"):
        ilba.audit(release, store=other)
    grid = finest.release(tmp_path / "grid", tables=["block.sex.age.job", "town.sex"], rows="grid", **ILBA)
    assert ilba.audit(grid, store=finest).ranges.equals(report.ranges)


def test_a_large_grid_without_any_row_lists_no_cell(finest, monkeypatch):
    frames = public_release(finest, ["town.sex", "town.job"])
    everything = ilba.audit(PublishedTables.from_frames(finest.codes, frames))
    assert everything.ranges.height == 6 * 2 * 3
    monkeypatch.setattr("ilba.attack.audit.COMPLETE", everything.ranges.height)
    assert ilba.audit(PublishedTables.from_frames(finest.codes, frames)).ranges.equals(everything.ranges)
    monkeypatch.setattr("ilba.attack.audit.COMPLETE", everything.ranges.height - 1)
    report = ilba.audit(PublishedTables.from_frames(finest.codes, frames))
    assert report.ranges.columns == everything.ranges.columns
    assert report.ranges.is_empty()
    assert report.tables.equals(everything.tables)


@pytest.mark.parametrize("method", ["ilba", "controlled"])
def test_a_release_is_compared_with_its_store_while_the_tables_are_rolled_up_once(
    finest, secret, tmp_path, monkeypatch, method
):
    made = finest.controlled(max_keys=1, secret=secret) if method == "controlled" else finest
    release = made.release(tmp_path / "r", max_keys=1, **ILBA | {"method": method})
    rolled = []
    sums = FinestTable.sums
    monkeypatch.setattr(FinestTable, "sums", lambda self, wanted: rolled.append(len(wanted)) or sums(self, wanted))
    with_store = ilba.audit(release, store=made, explanations=0)
    assert rolled == [len(release.tables) + 1]  # and the finest cells that they tell apart
    assert with_store.cells_small == ilba.audit(made, tables=list(release.tables), explanations=0).cells_small


@pytest.mark.slow
def test_what_if_measures_each_method_and_threshold_as_the_audit_and_the_tables_do(people, secret):
    finest = ilba.build(people.head(500), HKEY, ["sex", "job"], secret=secret)

    steps = []
    rows = what_if(
        finest,
        ["ilba", "sca-sums", "r-file"],
        [5, 3],
        secret=secret,
        levels=[1, 3],
        keys=["sex", "job"],
        progress=steps.append,
    )
    assert [step[1:3] for step in steps if step.stage == "comparing"] == [(done, 6) for done in range(1, 7)]
    assert "r-file, K = 3: attacking" in {step.stage for step in steps}
    assert rows.select("K", "method").rows() == list(itertools.product([5, 3], ["ilba", "sca-sums", "r-file"]))
    assert what_if(finest, ["ilba"], [5], levels=[1, 3], keys=["sex", "job"]).row(0) == rows.row(0)
    wanted = wanted_tables(finest.design, "all", [1, 3], ["sex", "job"])
    for row in rows.to_dicts():
        masked = finest if row["K"] == 5 else finest.with_threshold(3, secret)
        report = ilba.audit(masked, row["method"], wanted)
        assert row["provable"] == pytest.approx(report.cells_disclosed / report.cells_small)
        assert row["exact"] == pytest.approx(report.cells_exact / report.cells_small)
        assert row["safe"] is report.safe
        if row["method"] == "ilba":
            frames = [true_table(masked, one).fill_null(0) for one in wanted]
            loss = np.concatenate([(frame["N_masked"] - frame["N"]).abs().to_numpy() for frame in frames])
            assert row["mean_loss"] == pytest.approx(loss.mean())
            assert row["max_loss"] == loss.max()
            assert row["p99_loss"] == np.quantile(loss, 0.99, method="inverted_cdf")
    assert rows.filter(method="ilba")["provable"].min() > 0
    assert rows.filter(method="sca-sums")["safe"].all()
    assert rows.filter(method="r-file")["exact"].max() > 0
    large = FinestTable.from_counts(pl.DataFrame({"t": ["a", "b"], "N": [9, 8], "N_masked": [9, 8]}), ["t"], [], 5)
    nobody = what_if(large, ["ilba"], [5]).row(0, named=True)
    assert (nobody["provable"], nobody["exact"], nobody["safe"]) == (0, 0, True)


def test_what_if_chooses_masks_where_it_says_controlled(people, secret, recwarn):
    finest = ilba.build(people.head(800), HKEY, ["sex", "age"], secret=secret)
    wanted = {"levels": [1, 2], "keys": ["sex", "age"]}
    rows = what_if(finest, ["controlled", "sca-sums"], [5, 3], secret=secret, **wanted)
    chosen = finest.controlled(secret=secret, **wanted)
    assert rows["max_loss"][0] == losses(ilba.audit(chosen, **wanted).published).max()
    assert what_if(chosen, ["controlled"], [5], secret=secret, **wanted).row(0) == rows.row(0)
    by_method = rows.partition_by("method", as_dict=True)
    assert (by_method["controlled",]["max_loss"] < by_method["sca-sums",]["max_loss"]).all()
    assert rows["safe"].all()
    # What is there needs no key, and a key that was made with the table is at hand.
    assert what_if(chosen, ["controlled"], [5], **wanted).row(0) == rows.row(0)
    assert what_if(finest, ["sca-sums"], [5], **wanted).row(0) == rows.row(1)
    fresh = ilba.build(people.head(800), HKEY, ["sex", "age"])
    assert what_if(fresh, ["ilba"], [3], **wanted).equals(what_if(fresh, ["ilba"], [3], **wanted))
    assert not [one for one in recwarn if issubclass(one.category, ilba.Notice)]
    # Without a key another one chooses, the same for all rows, and that is told once.
    with pytest.warns(ilba.Notice) as told:
        twice = what_if(finest, ["controlled", "ilba"], [5, 4, 4, 3], **wanted)
    assert [str(one.message).partition(":")[0] for one in told] == ["drawn with a key that is thrown away"]
    assert twice.slice(2, 2).equals(twice.slice(4, 2))
    assert twice.row(1) == what_if(finest, ["ilba"], [5], **wanted).row(0)


@pytest.mark.slow
def test_what_if_compare_and_the_report_sum_up_the_same_losses_alike(people, secret):
    finest = ilba.build(people.head(500), HKEY, ["sex", "job"], secret=secret)
    wanted = {"levels": [1, 3], "keys": ["sex", "job"]}
    tried = what_if(finest, ["ilba"], [5], **wanted).row(0, named=True)
    compared = (
        ilba.compare(finest, secret=secret, **wanted).rows.filter(method="iLBA, observed cells").row(0, named=True)
    )
    tables = list(finest.cube(**wanted))
    told = Loss.together([Loss.of(table) for table in tables]).summary
    assert (tried["mean_loss"], tried["p99_loss"], tried["max_loss"]) == told[:3]
    assert (
        tuple(compared[name] for name in ("mean_loss", "p99_loss", "max_loss", "within_half_K", "over_bound")) == told
    )
    size = np.concatenate([table.detail["loss"].abs().to_numpy() for table in tables])
    assert told.p99 == np.quantile(size, 0.99, method="inverted_cdf")
    for share in ("provable", "exact", "safe"):
        assert tried[share] == compared[share]
    assert 0 < tried["provable"] < 1
    assert 0 < compared["within_half_K"] < 1


def test_progress_is_told_to_its_end(finest):
    told = []
    ilba.audit(finest, explanations=0, max_keys=1, progress=lambda step: told.append((step.done, step.total)))
    assert told
    assert told[-1][0] == told[-1][1]


@pytest.mark.slow
def test_on_the_census_every_policy_but_sums_gives_cells_away_in_this_order():
    shares = {}
    for cells in ("observed", "grid"):
        finest = ilba.build(
            ilba.datasets.census(),
            ["LA1", "LA2", "LA3"],
            ["gender", "edu", "age"],
            cells=cells,
            secret=Secret(bytes(32)),
        )
        for method in ("ilba", "r-rows", "r-file", "sca-sums"):
            shares[method, cells] = ilba.audit(finest, method, explanations=0).share
    assert shares["r-file", "observed"] > 0.8 > shares["r-rows", "observed"] > 0.6
    assert 0.15 < shares["ilba", "grid"] < 0.30
    assert 0.15 < shares["ilba", "observed"] < 0.35
    assert shares["sca-sums", "observed"] == shares["sca-sums", "grid"] == 0
    # What the R package would write does not depend on the reading of the store.
    assert shares["r-file", "observed"] == shares["r-file", "grid"]
