"""Masks chosen jointly: legal, unbiased, near the truth in every table, and no proof of a small count."""

from __future__ import annotations

import itertools
import os
import stat
import subprocess
import sys
import zlib
from collections import defaultdict

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from ilba import FinestTable, Secret
from ilba.design.tables import wanted_tables
from ilba.methods.controlled.search import (
    FREE_WAY,
    Chosen,
    Control,
    How,
    behind,
    bound_of,
    declared_bound,
    extra_bound,
    mean_masks,
    move_of,
    noise_of,
    rules_of,
    sweeps_of,
)
from ilba.methods.loss import loss_summary, usual_bound
from ilba.progress import ProgressStep
from ilba.tables.engine import class_means
from ilba.tables.store import About
from support.people import HKEY, KEY, population
from support.size import few, tries

ZERO = Secret(bytes(32))


@pytest.fixture(scope="module")
def chosen(finest, secret):
    return finest.controlled(secret=secret)


@st.composite
def stores(draw):
    """Small finest tables of every shape, most of their counts small."""
    K = draw(st.integers(3, 11))
    n = draw(st.integers(1, 60))
    pick = st.lists(st.integers(0, 2), min_size=n, max_size=n)
    counts = st.lists(st.integers(1, K + 2), min_size=n, max_size=n)
    frame = pl.DataFrame({name: draw(pick) for name in ("a", "b", "c", "x", "y")} | {"N": draw(counts)})
    hkey = draw(st.sampled_from([["a"], ["a", "b"], ["b", "a", "c"], {"one": ["a", "b"], "two": ["c"]}]))
    flat = list(itertools.chain(*hkey.values())) if isinstance(hkey, dict) else hkey
    key = [name for name in ("x", "y") if draw(st.booleans())]
    frame = frame.group_by([*flat, *key]).agg(pl.col("N").sum()).sort(pl.all())
    cells = draw(st.sampled_from(["observed", "grid"]))
    return FinestTable.from_counts(frame, hkey, key, K, secret=ZERO, cells=cells), frame, hkey, key


@pytest.mark.slow
@settings(max_examples=tries(60), deadline=None)
@given(stores(), st.data())
def test_masks_are_legal_sums_are_0_or_at_least_K_and_the_report_is_true(made, data):
    finest, *_ = made
    K = finest.design.threshold
    bound = data.draw(st.sampled_from([None, K - 1, 2 * K]))
    chosen = finest.controlled(bound=bound, secret=ZERO)
    count, masked = chosen.frame["N"].to_numpy(), chosen.frame["N_masked"].to_numpy()
    assert np.where(count >= K, masked == count, (masked == 0) | (masked == K)).all()
    assert chosen.frame.drop("N_masked").equals(finest.frame.drop("N_masked"))
    tables = list(chosen.cube())
    worst = over = 0
    for table in tables:
        detail = table.detail
        assert ((detail["N_masked"] == 0) | (detail["N_masked"] >= K)).all()
        assert (detail["type1"] == 0).all()
        assert (detail["type2"] == 0).all()
        assert (detail["loss"] == detail["N_masked"] - detail["N"]).all()
        assert detail["N_masked"].sum() == masked.sum()
        losses = detail["loss"].abs()
        worst, over = max(worst, int(losses.max())), over + int((losses > chosen.control.bound).sum())
    assert (chosen.control.reached, chosen.control.over) == (worst, over)
    extra = extra_bound(ZERO.derived("controlled bound").number, K)
    assert chosen.control.bound == (usual_bound(K) + extra if bound is None else bound)
    assert chosen.control.held == (worst <= chosen.control.bound) == chosen.chosen.held
    assert chosen.control.tables == len(tables)
    if bound is None:
        assert chosen.control.held  # tables this small never need more


@pytest.mark.slow
@settings(max_examples=tries(25), deadline=None)
@given(stores(), st.randoms(use_true_random=False))
def test_neither_the_order_of_rows_and_columns_nor_the_type_of_labels_changes_a_mask(made, random):
    finest, frame, hkey, key = made
    columns = frame.drop("N").columns
    chosen = finest.controlled(secret=ZERO)
    turned = FinestTable.from_counts(
        frame.sample(fraction=1, shuffle=True, seed=random.randrange(100)).with_columns(
            pl.col(columns).cast(pl.String) if random.random() < 0.5 else pl.col(columns)
        ),
        hkey,
        key[::-1],
        finest.design.threshold,
        secret=ZERO,
    ).controlled(secret=ZERO)
    as_text = [pl.col(column).cast(pl.String) for column in columns]
    here, there = (f.frame.select(*as_text, "N_masked").sort(columns) for f in (chosen, turned))
    assert here.equals(there)


def test_the_choice_does_not_care_for_labels_that_sort_differently_as_text(secret):
    rng = np.random.default_rng(8)
    counts = pl.DataFrame({"t": rng.integers(0, 30, 900), "x": rng.integers(0, 30, 900), "N": rng.integers(1, 9, 900)})
    counts = counts.unique(["t", "x"])
    chosen = [
        FinestTable.from_counts(frame, ["t"], ["x"], secret=secret).controlled(secret=secret)
        for frame in (counts, counts.with_columns(pl.col("t", "x").cast(pl.String)))
    ]
    frames = [c.frame.with_columns(pl.col("t", "x").cast(pl.String)).sort("t", "x") for c in chosen]
    assert frames[0].equals(frames[1])


@pytest.mark.long
def test_on_a_population_the_bound_holds_the_loss_falls_and_the_mean_of_each_count_stays(finest, chosen):
    assert chosen.control.held
    assert chosen.control.reached <= 7
    plain = FinestTable(About(finest.codes, chosen=chosen.chosen), finest._words, finest._count, finest._masked)
    before, after = (loss_summary((t.detail["loss"] for t in f.cube()), K=5) for f in (plain, chosen))
    assert after.max <= 7 < before.max
    assert after.mean < before.mean
    assert after.over == 0
    big = ilba.build(population(60_000, seed=4), HKEY, KEY, 10, secret=ZERO).controlled(secret=ZERO)
    assert big.control.held
    assert_each_mean_is_near(big)


def assert_each_mean_is_near(chosen):
    """One mask more or less moves the mean of n cells by K/n, so the nearest is at most half of that off.

    In tiny classes a chance rounds, to one of the two nearest; in large ones a hundredth is near enough.
    """
    K, count = chosen.design.threshold, chosen.frame["N"].to_numpy()
    sizes = np.bincount(count[count < K], minlength=K)
    assert sizes.max() > 3 * K
    for x, mean in class_means(chosen).items():
        assert abs(mean - x) <= max(0.01, K / sizes[x] / (2 if sizes[x] > 3 * K else 1)) + 1e-9, x


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "hkey", "key", "K"),
    [
        (
            "kr_estab",
            ["CP_CD", "CDW_CD", "ZONE_CD"],
            ["RPRSNTV_SEXDSTN", "AGE_FACTOR", "BR_ACT", "BR_JOJIK", "ORG_FORM_CD"],
            5,
        ),
        ("nl_grid", ["g5km", "g1km", "g500m", "g100m"], ["cons_q", "unemployed"], 3),
        ("us_acs", ["STATE", "PUMA"], ["SEX", "MSP", "RAC1P", "EDU", "HOUSING_TYPE"], 10),
    ],
)
def test_on_real_data_the_bound_holds_and_the_mean_of_each_count_is_as_near_as_its_cells_allow(
    name, hkey, key, K, shared, secret
):
    finest = ilba.build(shared / "data" / f"{name}.parquet", hkey, key, K, secret=secret)
    chosen = finest.controlled(secret=secret)
    assert chosen.control.held
    assert max(t.detail["loss"].abs().max() for t in chosen.cube()) <= usual_bound(K)
    assert_each_mean_is_near(chosen)


@pytest.mark.slow
def test_in_a_tiny_class_a_keyed_chance_rounds_the_number_of_masks(secret):
    """Four cells of 1 at K = 5 get 0.8 masks: 0 or 1, and over many secrets 0.8."""
    counts = pl.DataFrame({"t": list("aabb"), "x": [1, 2, 1, 2], "N": [1] * 4})
    secrets = [Secret(bytes([i]) * 32) for i in range(200)]
    masks = [FinestTable.from_counts(counts, ["t"], ["x"], secret=s).controlled(secret=s)._masked for s in secrets]
    up = np.array([int((mask == 5).sum()) for mask in masks])
    assert set(up.tolist()) == {0, 1}
    assert abs(up.mean() - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 200)


@pytest.mark.slow
def test_over_many_secrets_no_cell_of_a_tiny_table_is_fixed_or_far_off_its_mean():
    counts = pl.DataFrame(
        {"t": [t for t in "abcd" for _ in range(4)], "x": [1, 2, 3, 4] * 4, "N": [1, 2, 3, 4, 4, 3, 2, 1] * 2}
    )
    finest = [FinestTable.from_counts(counts, ["t"], secret=Secret(bytes([i]) * 32)) for i in range(250)]
    chosen = [f.controlled(secret=Secret(bytes([i]) * 32)) for i, f in enumerate(finest)]
    masks = np.array([c.frame["N_masked"].to_numpy() for c in chosen])
    x = counts["N"].to_numpy()
    off = masks.mean(axis=0) - x
    for value in range(1, 5):
        assert abs(off[x == value].mean()) < 0.15, value
    assert (np.abs(off) < 1).all()


def test_margins_add_up(chosen):
    fine = chosen.table("block", KEY).detail
    for level, keys in (("block", ["sex"]), ("town", ["age", "job"]), (0, ["sex"]), ("region", [])):
        table = chosen.table(level, keys)
        columns = list(table.selection.columns)
        summed = fine.group_by(columns).agg(pl.col("N_masked").sum()).sort(columns)
        assert table.detail.select(*columns, "N_masked").sort(columns).equals(summed)
        for row in table.frame.head(20).iter_rows():
            labels, at = row[: len(columns)], len(columns) - len(keys)
            assert chosen.cell(level, keys, labels[:at], labels[at:]) == row[len(columns)]


CHAIN = pl.DataFrame({"part": ["A", "B", "B"], "place": ["a", "b", "c"]})
SQUARE = pl.DataFrame({"row": ["1", "1", "2", "2"], "column": ["1", "2", "1", "2"]})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cells", "hkey", "K", "block"),
    [
        *((CHAIN, ["part", "place"], *one) for one in few(((3, 1), (5, 200_000), (3, 200_000)), 2)),
        *((SQUARE, ["row"], *one) for one in few(((3, 200_000), (3, 1), (5, 200_000)))),
    ],
)
def test_no_view_of_a_toy_lets_anybody_conclude_that_a_count_is_small(cells, hkey, K, block, monkeypatch):
    """Every truth, the method and the secret fully known: what each view leaves possible for every count released.

    As one block, and as many.
    """
    small_blocks(monkeypatch, block)
    key = [column for column in cells.columns if column not in hkey]

    def view(truth):
        if not any(truth):
            return tuple(truth)
        finest = FinestTable.from_counts(cells.with_columns(N=pl.Series(truth)), hkey, key, K, secret=ZERO)
        chosen = finest.controlled(secret=ZERO)
        # All tables are sums of the masked finest table: who sees it sees everything that is published.
        shown = {row[:-1]: row[-1] for row in chosen.frame.drop("N").iter_rows()}
        return tuple(shown.get(labels, 0) for labels in cells.iter_rows())

    top = K + 1 if cells is CHAIN or K == 3 else K
    truths = defaultdict(list)
    for truth in itertools.product(range(top + 1), repeat=cells.height):
        truths[view(truth)].append(truth)
    sums = [s for size in range(1, cells.height + 1) for s in itertools.combinations(range(cells.height), size)]
    for seen, possible in truths.items():
        assert seen in possible  # the world in which the masked table is the truth looks the same
        for places in sums:
            assert not all(0 < sum(truth[i] for i in places) < K for truth in possible)
    assert len(truths) < sum(map(len, truths.values()))


def test_tables_are_named_listed_or_all():
    design = ilba.Design.of({"area": ["region", "town"], "trade": ["branch"]}, ["sex", "age"])
    assert len(wanted_tables(design)) == 3 * 2 * 4
    names = ["town+branch.age.sex", "all", "branch.sex", "all"]
    tables = wanted_tables(design, names)
    assert [table.name for table in tables] == ["town+branch.sex.age", "all", "branch.sex"]
    assert wanted_tables(design, tables) == tables
    assert wanted_tables(design, "town.sex") == wanted_tables(design, [design.select("town", "sex")])
    assert [t.name for t in wanted_tables(design, levels=["town"], keys=["age"])] == ["town", "town.age"]


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"tables": ["twon.sex"]}, "Did you mean 'town'"),
        ({"tables": ["town.sxe"]}, "Did you mean 'sex'"),
        ({"tables": ["town+region"]}, "there is no table 'town\\+region'"),
        ({"tables": []}, "tables is empty"),
        ({"tables": [3]}, "neither a table nor the name of one"),
        ({"tables": ["town"], "max_keys": 1}, "leave out levels"),
        ({"bound": 3}, "bound=3 is not a whole number from 4 to"),
        ({"bound": True}, "bound=True"),
        ({"bound": 7.5}, "bound=7.5"),
        ({"previous": 3}, "previous is a int"),
        ({"boud": 7}, "Did you mean 'bound'"),
    ],
)
def test_a_wrong_question_gets_an_answer_that_names_the_fix(finest, secret, asked, says):
    with pytest.raises(ilba.InputError, match=says):
        finest.controlled(secret=secret, **asked)


def test_only_the_tables_asked_for_are_held_to_the_bound_and_the_choice_depends_on_them(finest, chosen, secret):
    some = finest.controlled(["town.age", "region"], secret=secret)
    assert some.control.tables == 2
    assert some.chosen.tables == ("town.age", "region")
    for level, keys in (("town", "age"), ("region", ())):
        assert some.table(level, keys).detail["loss"].abs().max() <= 7
    assert not some.frame.equals(chosen.frame)


@pytest.mark.slow
def test_the_key_is_the_one_of_the_build(finest, people, monkeypatch, tmp_path):
    opened = ilba.open_store(finest.save(tmp_path / "finest.parquet"))
    with pytest.raises(ilba.SecretError, match="needs the secret"):
        opened.controlled()
    with pytest.raises(ilba.SecretError, match="another secret"):
        opened.controlled(secret=ZERO)
    path = Secret(bytes(range(32))).to_file(tmp_path / "secret")
    expected = opened.controlled(secret=path).frame
    assert finest.controlled().frame.equals(expected), "a table knows the secret it was built with"
    monkeypatch.setenv("ILBA_SECRET", str(path))
    assert opened.controlled().frame.equals(expected)
    monkeypatch.delenv("ILBA_SECRET")
    path.rename(tmp_path / "finest.secret")
    assert opened.controlled().frame.equals(expected), "and finds the one beside its store"
    generated = ilba.build(people, HKEY, KEY)
    chosen = generated.controlled()
    chosen.save(tmp_path / "s.parquet")
    assert chosen.fingerprint == generated.fingerprint
    assert generated.controlled(secret=tmp_path / "s.secret").frame.equals(chosen.frame)


def checksum(chosen):
    """A published number is forever: a change of the algorithm shows here, and so does a machine that differs."""
    return zlib.crc32(chosen.frame["N_masked"].to_numpy().astype("<i8").tobytes())


def test_the_masks_of_this_version_are_these(chosen):
    assert checksum(chosen) == 4032455731


@pytest.mark.long
@pytest.mark.parametrize(
    ("K", "count", "cells", "masks"),
    [(5, 1, 14, {2, 3}), (5, 1, 15, {3}), (5, 1, 17, {3}), (6, 3, 19, {10}), (6, 2, 19, {6}), (6, 4, 19, {13})],
)
def test_the_number_of_masks_of_a_count_is_a_draw_only_where_few_cells_have_it(K, count, cells, masks):
    """Up to 3K cells, the nearest number would tell the mask of somebody who knows the others."""
    counts = pl.DataFrame({"t": range(cells), "N": [count] * cells})
    secrets = [Secret(number.to_bytes(32, "big")) for number in range(8)]
    tables = [FinestTable.from_counts(counts, ["t"], [], K, secret=s).controlled(secret=s) for s in secrets]
    assert {int((table.frame["N_masked"] > 0).sum()) for table in tables} == masks


def test_another_secret_gives_other_masks(people, chosen):
    other = ilba.build(people, HKEY, KEY, secret=ZERO).controlled(secret=ZERO)
    assert not other.frame.equals(chosen.frame)


def test_a_store_opens_as_controlled_and_an_sca_store_stays_as_it_was(finest, chosen, secret, tmp_path):
    asked = finest.controlled(["town.age"], bound=9, secret=secret)
    opened = ilba.open_store(asked.save(tmp_path / "c.parquet"))
    assert opened.method == asked.method == "controlled"
    assert opened.chosen == asked.chosen
    assert (opened.chosen.tables, opened.chosen.bound, opened.chosen.held) == (("town.age",), 9, True)
    assert opened.frame.equals(asked.frame)
    assert opened.table("town", "age").detail.equals(asked.table("town", "age").detail)
    assert opened.control is None  # what was reached is told, not kept
    assert chosen.chosen.bound is None
    assert "controlled" in repr(opened)
    plain = ilba.open_store(finest.save(tmp_path / "s.parquet"))
    assert plain.method == "ilba"
    assert plain.chosen is None
    about = [pl.read_parquet_metadata(tmp_path / name)["ilba"] for name in ("s.parquet", "c.parquet")]
    assert '"format":1,' in about[0]
    assert "controlled" not in about[0]
    assert '"format":2,' in about[1]  # a program that would apply iLBA to these masks has to refuse them
    with pytest.raises(ilba.InputError, match="chosen jointly already"):
        opened.controlled(secret=secret)


def test_counts_that_did_not_change_keep_their_mask_in_the_next_wave(people, chosen, secret):
    later = ilba.build(pl.concat([people.tail(-60), population(90, seed=9)]), HKEY, KEY, secret=secret)
    wave = later.controlled(secret=secret, previous=chosen)
    alone = later.controlled(secret=secret)
    labels = HKEY + KEY
    small = pl.col("N") < 5
    both = wave.frame.filter(small).join(chosen.frame, on=[*labels, "N"], suffix="_before")
    assert (wave.control.kept, wave.control.moved) == (both.height, 0)
    assert both["N_masked"].equals(both["N_masked_before"])
    assert wave.control.reached <= 14
    fresh = alone.frame.filter(small).join(chosen.frame, on=[*labels, "N"], suffix="_before")
    assert int((fresh["N_masked"] != fresh["N_masked_before"]).sum()) > 50
    same = later.controlled(secret=secret, previous=wave)
    assert same.frame.equals(wave.frame)
    assert same.control.moved == 0
    assert f"0 of {same.control.kept:,} unchanged cells moved" in str(same.control)
    with pytest.raises(ilba.InputError, match="other columns or another threshold"):
        later.controlled(secret=secret, previous=ilba.build(people, HKEY, KEY, 3, secret=secret))


def test_masks_of_a_wave_never_move_and_the_bound_gives_way(finest, secret):
    """Every count has its old mask, but all of them were 0: the sums are far too low, and stay so."""
    none = np.where(finest._count < 5, 0, finest._count)
    wave = finest.controlled(
        secret=secret, previous=FinestTable(About(finest.codes), finest._words, finest._count, none)
    )
    assert (wave._masked == none).all()
    assert wave.control.kept == wave.control.cells
    assert wave.control.reached == finest._count[finest._count < 5].sum()


@pytest.mark.long
@pytest.mark.parametrize("stage", ["walk", "sweep", "repair", "settle"])
def test_after_an_interruption_the_best_masks_so_far_are_kept(stage, people, secret):
    finest = ilba.build(population(20_000, seed=2), HKEY, KEY, 10, secret=secret)
    seen: list[ProgressStep] = []

    def progress(step):
        seen.append(step)
        if step.detail.startswith(stage):
            raise KeyboardInterrupt

    with pytest.warns(ilba.Notice, match="best masks so far"):
        chosen = finest.controlled(secret=secret, progress=progress)
    assert chosen.control.interrupted
    assert "interrupted" in str(chosen.control)
    assert seen[-1].detail.startswith(stage)
    count, masked = chosen.frame["N"].to_numpy(), chosen.frame["N_masked"].to_numpy()
    assert np.where(count >= 10, masked == count, (masked == 0) | (masked == 10)).all()
    drawn = loss_summary((t.detail["N_masked"] - t.detail["N"] for t in _plain(finest).cube()), K=10)
    assert loss_summary((t.detail["loss"] for t in chosen.cube()), K=10).mean < drawn.mean


def _plain(finest):
    about = About(finest.codes, chosen=Chosen((), None, False))
    return FinestTable(about, finest._words, finest._count, finest._masked)


def test_progress_tells_each_step_and_how_many_aggregates_are_left(finest, secret):
    steps: list[ProgressStep] = []
    finest.controlled(secret=secret, progress=steps.append)
    assert {step.stage for step in steps} == {"choosing masks"}
    assert [step.detail.partition(":")[0] for step in steps[:11]] == ["walk"] + ["sweep"] * 10
    assert [(step.done, step.total) for step in steps[:11]] == [(done, 11) for done in range(1, 12)]
    assert {(step.done, step.total) for step in steps[11:]} == {(0, None)}
    assert steps[-1].detail.endswith(": 0 over the bound")


def small_blocks(monkeypatch, size=40):
    """Blocks of so few cells that a small table has many."""
    monkeypatch.setattr("ilba.methods.controlled.plan.BLOCK", size)


@pytest.mark.long
def test_block_by_block_the_masks_are_legal_the_bounds_hold_and_the_report_is_true(finest, secret, monkeypatch):
    small_blocks(monkeypatch)
    steps: list[ProgressStep] = []
    chosen = finest.controlled(secret=secret, progress=steps.append)
    assert {step.total for step in steps} == {steps[0].total} != {1}
    assert steps[0].total > 8
    count, masked = chosen.frame["N"].to_numpy(), chosen.frame["N_masked"].to_numpy()
    assert np.where(count >= 5, masked == count, (masked == 0) | (masked == 5)).all()
    losses = {table.selection.levels: [] for table in chosen.cube()}
    for table in chosen.cube():
        losses[table.selection.levels].append(table.detail["loss"].abs())
    every = pl.concat([loss for group in losses.values() for loss in group])
    assert chosen.control.reached == every.max()
    assert chosen.control.over == (every > chosen.control.bound).sum()
    assert max(loss.max() for level, group in losses.items() if level[0] for loss in group) <= 10
    assert max(loss.max() for loss in losses[0,]) <= 20
    assert checksum(chosen) == 2089579401


@pytest.mark.long
def test_blocks_side_by_side_stay_nearer_in_the_area_around_them_since_errors_add_up(finest, secret, monkeypatch):
    from ilba.methods.controlled.carry import Carry

    small_blocks(monkeypatch, 90)
    left, together = [], []
    take, before = Carry.take, Carry.before
    monkeypatch.setattr(Carry, "before", lambda self, turn: [together.append(len(turn)), before(self, turn)][1])
    monkeypatch.setattr(Carry, "take", lambda self, block, done: [left.append(done.errors), take(self, block, done)][1])
    chosen = finest.controlled(secret=secret, bound=6)
    assert together[0] == 2  # nothing was carried yet, so what these two leave is what they see in the end
    assert together[-2:] == [1, 1]
    assert max(np.abs(errors).max() for block in left[:2] for _, errors, _ in block) <= 4  # 7/9 of 6
    assert chosen.control.held
    assert checksum(chosen) == 1446047790


@pytest.mark.long
def test_the_number_of_threads_and_the_order_of_rows_change_no_mask(people, secret, monkeypatch):
    small_blocks(monkeypatch)
    masks = []
    for cores, rows in ((1, people), (3, people.sample(fraction=1, shuffle=True, seed=1))):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        masks.append(ilba.build(rows, HKEY, KEY, secret=secret).controlled(secret=secret).frame)
    assert masks[0].equals(masks[1])


@pytest.mark.parametrize(
    ("hkey", "masks"),
    [({"one": ["region", "town"], "two": ["sex", "job"]}, 2699747468), (["region", "block"], 3801865999)],
    ids=["two", "one"],
)
def test_blocks_go_along_the_largest_hierarchy_of_any_design(people, secret, monkeypatch, hkey, masks):
    small_blocks(monkeypatch)
    key = ["age"] if isinstance(hkey, dict) else KEY
    chosen = ilba.build(people, hkey, key, secret=secret).controlled(secret=secret)
    worst = max(table.detail["loss"].abs().max() for table in chosen.cube())
    assert chosen.control.reached == worst <= 20
    assert checksum(chosen) == masks
    if isinstance(hkey, dict):
        turned = ilba.build(people, dict(reversed(hkey.items())), key, secret=secret).controlled(secret=secret)
        columns = [*itertools.chain(*hkey.values()), *key]
        assert turned.frame.select(chosen.frame.columns).sort(columns).equals(chosen.frame.sort(columns))


def test_without_areas_there_is_one_block_up_to_a_size_and_above_it_they_go_by_the_largest_key(
    people, secret, monkeypatch
):
    country = people.with_columns(country=pl.lit("here")).drop("region", "block")
    finest = ilba.build(country, ["country"], ["sex", "town", "job"], secret=secret)
    one: list[ProgressStep] = []
    finest.controlled(secret=secret, progress=one.append)
    assert not any("block" in step.detail for step in one)
    small_blocks(monkeypatch)
    many: list[ProgressStep] = []
    chosen = finest.controlled(secret=secret, progress=many.append)
    assert many[0].total > 2
    worst = {table.selection.name: table.detail["loss"].abs().max() for table in chosen.cube()}
    assert chosen.control.reached == max(worst.values()) <= 20
    assert max(loss for name, loss in worst.items() if "town" in name) <= 10
    assert checksum(chosen) == 126350972
    turned = ilba.build(country.reverse(), ["country"], ["town", "job", "sex"], secret=secret).controlled(secret=secret)
    columns = ["town", "sex", "job"]
    assert turned.frame.select(chosen.frame.columns).sort(columns).equals(chosen.frame.sort(columns))


def test_an_interruption_between_blocks_leaves_legal_masks(finest, secret, monkeypatch):
    small_blocks(monkeypatch)

    def progress(step):
        if step.done:
            raise KeyboardInterrupt

    with pytest.warns(ilba.Notice, match="best masks so far"):
        chosen = finest.controlled(secret=secret, progress=progress)
    assert chosen.control.interrupted
    count, masked = chosen.frame["N"].to_numpy(), chosen.frame["N_masked"].to_numpy()
    assert np.where(count >= 5, masked == count, (masked == 0) | (masked == 5)).all()


@pytest.mark.long
def test_masks_that_are_known_never_move_block_by_block(people, finest, secret, monkeypatch):
    small_blocks(monkeypatch)
    before = finest.controlled(secret=secret)
    later = ilba.build(pl.concat([people.tail(-60), population(90, seed=9)]), HKEY, KEY, secret=secret)
    wave = later.controlled(secret=secret, previous=before)
    both = wave.frame.filter(pl.col("N") < 5).join(before.frame, on=[*HKEY, *KEY, "N"], suffix="_before")
    assert both["N_masked"].equals(both["N_masked_before"])
    assert wave.control.kept == both.height
    assert checksum(wave) == 2714025294


def test_a_block_has_up_to_200_000_small_cells_and_areas_of_one_area_above(finest):
    """Blocks are part of the method: others give other masks."""
    from ilba.methods.controlled.plan import Layout

    layout = Layout(finest.codes, wanted_tables(finest.design))
    above = layout.areas.nodes[1][np.argsort(layout.ranks[layout.along])]
    pair = np.flatnonzero(above == above[0])[:2]
    other = np.flatnonzero(above != above[0])[:1]
    for where, sizes, expected in (
        (pair, (100_000, 100_000), [200_000]),
        (pair, (100_000, 100_001), [100_000, 100_001]),
        (pair, (300_000, 0), [300_000]),
        ([pair[0], other[0]], (100_001, 100_000), [100_001, 100_000]),
    ):
        small = np.zeros(len(layout.areas), dtype=np.int64)
        small[np.argsort(layout.ranks[layout.along])[where]] = sizes
        assert [block.size for block in layout.blocks(small)] == expected


def test_errors_are_carried_by_name_however_many_there_are():
    from ilba.methods.controlled.sets import Errors

    rng = np.random.default_rng(1)
    crowded = np.arange(700, dtype=np.uint64) << np.uint64(12)  # all in one place of the hash table
    every = np.concatenate([crowded, rng.integers(0, 2**63, 2000).astype(np.uint64)])
    tables = rng.integers(1, 4, len(every)).astype(np.int32)
    carried, expected = Errors(), np.zeros(len(every), dtype=np.int64)
    assert carried.over(0) == (0, 0)
    seen = np.zeros(len(every), dtype=bool)
    for size in (300, 212, 1, 900, 20):
        here = rng.choice(len(every), size, replace=False)
        errors = rng.integers(-9, 10, size)
        carried.add(every[here], errors, tables[here])
        expected[here] += errors
        seen[here] = True
        assert carried.of(every).tolist() == expected.tolist()
    for bound in (0, 9, 99):
        over = np.abs(expected) > bound
        assert carried.over(bound) == (tables[over].sum(), np.abs(expected).max())
    assert not seen.all()


def test_rounds_take_every_block_once_and_the_last_of_an_area_stand_alone(finest, monkeypatch):
    from ilba.methods.controlled.plan import Layout, rounds

    small_blocks(monkeypatch)
    layout = Layout(finest.codes, wanted_tables(finest.design))
    sizes = np.full(len(layout.areas), 7)
    blocks = layout.blocks(sizes)
    assert sum(block.size for block in blocks) == sizes.sum()
    assert all(block.size <= 40 for block in blocks)
    turns = list(rounds(blocks))
    assert sorted(block.number for turn in turns for block in turn) == list(range(len(blocks)))
    assert max(map(len, turns)) == 2
    assert [len(turn) for turn in turns[-2:]] == [1, 1]


@pytest.mark.slow
def test_rounds_of_many_areas_fall_so_that_errors_of_the_whole_are_mended(secret, monkeypatch):
    from ilba.methods.controlled import choosing, plan

    rng = np.random.default_rng(300)
    grid = pl.DataFrame({"area": np.arange(300)})
    for name, size in (("part", 2), ("sex", 2), ("age", 5), ("job", 2)):
        grid = grid.join(pl.DataFrame({name: np.arange(size)}), how="cross")
    grid = grid.with_columns(town=2 * pl.col("area") + pl.col("part"), N=pl.Series(rng.poisson(2.0, grid.height)))
    counts = grid.filter(pl.col("N") > 0).drop("part")
    finest = FinestTable.from_counts(counts, ["area", "town"], ["sex", "age", "job"], secret=secret)
    small_blocks(monkeypatch, 25)
    widths: list[int] = []

    def watched(blocks):
        for turn in plan.rounds(blocks):
            widths.append(len(turn))
            yield turn

    monkeypatch.setattr(choosing, "rounds", watched)
    chosen = finest.controlled(bound=7, secret=secret)
    assert max(widths) == 9
    assert widths[-2:] == [1, 1]
    assert all(later <= earlier + 1 for earlier, later in itertools.pairwise(widths))
    assert max(table.detail["loss"].abs().max() for table in chosen.cube(levels=[0])) <= 14


def test_the_bound_that_is_worked_for_is_a_keyed_mixture_below_the_declared_one(people):
    assert declared_bound(5) == 13
    bounds = []
    for i in range(400):
        number = Secret(i.to_bytes(32, "big")).derived("controlled bound").number
        bounds.append(9 + extra_bound(number, 5))
    assert set(bounds) == {9, 10, 11, 12, 13}
    assert 0.9 < bounds.count(9) / 400 < 0.99
    rare = next(
        s
        for s in (Secret(i.to_bytes(32, "big")) for i in range(400))
        if extra_bound(s.derived("controlled bound").number, 5) == 4
    )
    chosen = ilba.build(people, HKEY, KEY, secret=rare).controlled(secret=rare)
    assert chosen.control.bound == 11
    assert chosen.chosen.bound is None


@pytest.mark.long
def test_more_sweeps_bring_sums_nearer_and_the_store_keeps_how_many(finest, chosen, secret, tmp_path):
    longer = finest.controlled(secret=secret, sweeps=200)
    losses = [loss_summary((t.detail["loss"] for t in f.cube()), K=5) for f in (chosen, longer)]
    assert losses[1].mean < losses[0].mean
    assert longer.control.held
    assert ilba.open_store(longer.save(tmp_path / "c.parquet")).chosen.sweeps == 200
    with pytest.raises(ilba.InputError, match="sweeps=3 is not a whole number from 10"):
        finest.controlled(secret=secret, sweeps=3)


def test_the_record_of_a_choice_is_kept_as_plain_values_and_earlier_ones_are_read():
    usual = {"bound": None, "held": True, "tables": ["all"], "way": 3, "sweeps": 10}
    assert Chosen(("all",), None, True).to_json() == How().chosen(("all",), None, True).to_json() == usual
    longer = usual | {"way": FREE_WAY, "sweeps": 11}
    assert How(sweeps=11).chosen(("all",), None, True).to_json() == longer
    moved = usual | {"bound": 7, "held": False, "way": FREE_WAY, "move": 1, "noise": 0.25}
    assert How(move=1, noise=0.25).chosen(("all",), 7, False).to_json() == moved
    first = {"bound": 9, "held": True, "tables": ["all", "town"]}
    for plain in (usual, longer, moved, first):
        assert Chosen.from_json(plain).to_json() == plain
    assert Chosen.from_json(first) == Chosen(("all", "town"), 9, True, way=1, sweeps=10, move=0, noise=0.0)


def test_what_is_asked_of_a_choice_is_taken_to_its_limits_and_refused_beyond_them():
    assert [bound_of(4, 5), bound_of(np.int64(32_767), 5), move_of(0, 5), move_of(5, 5)] == [4, 32_767, 0, 5]
    assert [noise_of(0), noise_of(1), sweeps_of(10, 0), sweeps_of(100_000, 1)] == [0.0, 1.0, 10, 100_000]
    assert (sweeps_of(None, 0), sweeps_of(None, 1)) == (10, 200)
    for check, values in (
        (lambda given: bound_of(given, 5), (3, 32_768, 7.0, True)),
        (lambda given: move_of(given, 5), (-1, 6, 1.0, True)),
        (noise_of, (-0.1, 1.1, "0.4", True)),
        (lambda given: sweeps_of(given, 0), (9, 100_001, 20.0, True)),
    ):
        for value in values:
            with pytest.raises(ilba.InputError, match=f"={value!r} is not a "):
                check(value)


def test_the_bound_that_is_worked_for_follows_from_the_size_and_the_secret():
    assert [rules_of(5, None, work).bound for work in (0, 50_000_000, 50_000_001)] == [7, 7, 9]
    assert [rules_of(5, bound, 10**9, extra=3).bound for bound in (None, 6)] == [12, 6]
    assert rules_of(5, None, 0, 0, How(20, 2, 0.5)) == rules_of(5, 7, 0, 4, How(20, 2, 0.5))
    assert [rules_of(5, None, 0, 0, how).free for how in (How(), How(11), How(10, 1))] == [False, True, True]
    assert [extra_bound(number, 5) for number in (0, 1, 19, 20, 21, 40, 60, 80)] == [1, 0, 0, 2, 0, 3, 4, 1]


def test_what_can_stand_behind_a_masked_count():
    masked = np.array([0, 5, 6, 9])
    assert [end.tolist() for end in behind(masked, K=5)] == [[0, 1, 6, 9], [4, 5, 6, 9]]
    assert [end.tolist() for end in behind(masked, K=5, move=1)] == [[0, 1, 1, 8], [4, 6, 7, 10]]
    assert [end.tolist() for end in behind(masked, K=5, move=5)] == [[0, 1, 1, 1], [5, 10, 11, 14]]
    count = np.array([0, 1, 1, 4, 5, 9])
    assert mean_masks(count, np.array([0, 0, 5, 5, 5, 9]), K=5) == {1: 2.5, 4: 5.0}


def test_the_report_of_a_choice_tells_what_was_not_held_and_what_moved():
    assert str(Control(1, 20, 7, 6, 0)) == "1 table, 20 small cells: bound 7 held (confidential)"
    told = str(Control(2, 1, 7, 9, 3, kept=1_500, moved=1_001, interrupted=True))
    assert told == (
        "2 tables, 1 small cell: bound 7 not held by 3 counts; 9 reached; 1,001 of 1,500 unchanged cells moved; "
        "interrupted (confidential)"
    )


def test_the_version_of_the_way_of_choosing_is_kept(finest, secret, tmp_path):
    chosen = finest.controlled(["town.age"], secret=secret)
    assert chosen.chosen.way == 3
    assert ilba.open_store(chosen.save(tmp_path / "c.parquet")).chosen.way == 3
    assert Chosen.from_json({"bound": None, "held": True, "tables": ["all"]}).way == 1  # a store of an earlier version


def test_nothing_small_nothing_to_do(secret):
    counts = pl.DataFrame({"t": ["a", "b"], "N": [7, 80]})
    finest = FinestTable.from_counts(counts, ["t"], [], secret=secret)
    chosen = finest.controlled(secret=secret)
    assert chosen.frame.equals(finest.frame)
    assert (chosen.control.cells, chosen.control.reached, chosen.control.held) == (0, 0, True)


@pytest.mark.long
@pytest.mark.parametrize("K", [pytest.param(100, marks=pytest.mark.slow), 1000])
def test_large_thresholds(K):
    rng = np.random.default_rng(5)
    counts = pl.DataFrame({"t": np.repeat(np.arange(60), 12), "x": list(range(12)) * 60, "N": rng.integers(1, K, 720)})
    finest = FinestTable.from_counts(counts, ["t"], ["x"], K, secret=ZERO)
    chosen = finest.controlled(secret=ZERO)
    assert chosen.control.held
    worse = np.where(finest._count < K, 0, finest._count)
    wave = finest.controlled(
        secret=ZERO, previous=FinestTable(About(finest.codes), finest._words, finest._count, worse)
    )
    assert wave.control.reached == finest._count[finest._count < K].sum()
    huge = FinestTable.from_counts(counts, ["t"], ["x"], 1001, secret=ZERO)
    with pytest.raises(ilba.InputError, match="up to 1,000"):
        huge.controlled(secret=ZERO)


def test_grids_beyond_63_bits(secret):
    rng = np.random.default_rng(3)
    names = [f"k{i}" for i in range(14)]
    data = pl.DataFrame({"t": rng.integers(0, 40, 300)} | {name: rng.integers(0, 60, 300) for name in names})
    chosen = ilba.build(data, ["t"], names, secret=secret).controlled(max_keys=1, secret=secret)
    assert len(chosen._words) == 2
    worst = max(t.detail["loss"].abs().max() for t in chosen.cube(max_keys=1))
    assert chosen.control.reached == worst <= 7
    assert checksum(chosen) == 3355441429


@pytest.mark.slow
def test_compiled_code_is_kept_in_a_folder_of_ones_own_where_no_other_can_be_written(tmp_path):
    script = (
        "import os, tempfile\n"
        "from numba.core import caching\n"
        "for one in vars(caching).values():\n"
        "    if any(name in getattr(one, '__name__', '') for name in ('InTree', 'UserWide')):\n"
        "        one.from_function = classmethod(lambda *_: None)\n"
        "from ilba.methods.controlled import kernels\n"
        "print(kernels.mixed(kernels._GOLD), len(os.listdir(tempfile.gettempdir())))"
    )
    command = [sys.executable, "-c", script]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    (own,) = tmp_path.iterdir()
    assert stat.S_IMODE(own.stat().st_mode) == 0o700
    assert list(own.rglob("*.nbi"))
    own.chmod(0o777)  # others could put code there: it is not used
    for file in own.rglob("*.nbi"):
        file.write_bytes(b"")
    again = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    assert again.stdout == done.stdout
    assert not any(file.stat().st_size for file in own.rglob("*.nbi"))


def test_no_message_of_the_report_holds_a_key(chosen, secret):
    assert secret.to_bytes().hex() not in str(chosen.control) + repr(chosen.control) + repr(chosen.chosen)
    assert "confidential" in str(chosen.control)


@pytest.mark.slow
@pytest.mark.parametrize(("levels", "keys", "mean"), [(3, 3, 1.05), (4, 3, 2.0), (3, 4, 1.9)], ids=["A", "B", "C"])
def test_on_the_census_no_count_of_any_table_is_more_than_7_off(levels, keys, mean, secret):
    census = ilba.datasets.census()
    names = ["gender", "edu", "age", "mar", "htype"][:keys]
    finest = ilba.build(census, ["LA1", "LA2", "LA3", "OA"][:levels], names, secret=secret)
    chosen = finest.controlled(secret=secret)
    assert chosen.control.held
    losses = loss_summary((table.detail["loss"] for table in chosen.cube()), K=5)
    assert losses.max <= 7
    assert losses.mean <= mean
    assert_each_mean_is_near(chosen)


def test_a_usual_bound_that_is_not_held_is_told_without_saying_how_far(people, secret, monkeypatch):
    monkeypatch.setattr("ilba.methods.controlled.search.usual_bound", lambda K: 1)
    finest = ilba.build(people, HKEY, KEY, secret=secret)
    with pytest.warns(ilba.Notice, match=r"^the usual bound could not be held everywhere[^0-9]*$"):
        finest.controlled(secret=secret, max_keys=1)
