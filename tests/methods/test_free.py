"""Large counts may move and the search goes on for longer: the promise is the same, and sums come nearer."""

from __future__ import annotations

import functools
import itertools
import zlib
from collections import defaultdict

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, Secret
from ilba.methods.controlled import free
from ilba.methods.controlled.search import Chosen
from ilba.methods.loss import loss_summary
from support.people import HKEY, KEY, population
from support.size import few

ZERO = Secret(bytes(32))
SUMS = ["region.sex", "town.job", "region.age", "town", "region"]


def legal(chosen, move, K=5):
    """Whether every masked count is one that its true count may become."""
    count, masked = chosen.frame["N"].to_numpy(), chosen.frame["N_masked"].to_numpy()
    small = (masked == 0) | ((masked >= K) & (masked <= K + move))
    large = (masked >= K) & (np.abs(masked - count) <= move)
    return bool(np.where(count < K, small, large | ((masked == 0) & (count <= move))).all())


@pytest.fixture(scope="module")
def moved(finest, secret):
    return finest.controlled(SUMS, secret=secret, move=2)


CHAIN = pl.DataFrame({"part": ["A", "B", "B"], "place": ["a", "b", "c"]}), ["part", "place"]
SQUARE = pl.DataFrame({"row": ["1", "1", "2", "2"], "column": ["1", "2", "1", "2"]}), ["row"]
# move, size of a block, sweeps and noise
FAST = ((1, 200_000, 12, 0.5),)
ASKED = (2, 1, 12, 1), (0, 200_000, 12, 0), (2, 200_000, 12, 0), (0, 200_000, 10, 1), (0, 1, 10, 0.5)
SLOW = [*((*CHAIN, *one) for one in few(ASKED, 3)), *((*SQUARE, *one) for one in few((*FAST, *ASKED), 0))]


@pytest.mark.long
@pytest.mark.parametrize(
    ("cells", "hkey", "move", "block", "sweeps", "noise"),
    [*((*CHAIN, *one) for one in FAST), *(pytest.param(*one, marks=pytest.mark.slow) for one in SLOW)],
)
def test_no_view_of_a_toy_lets_anybody_conclude_that_a_count_is_small(
    cells, hkey, move, block, sweeps, noise, monkeypatch
):
    """Every truth, the method and the secret fully known: what each view leaves possible for every union of cells."""
    monkeypatch.setattr("ilba.methods.controlled.plan.BLOCK", block)
    K, key = 3, [column for column in cells.columns if column not in hkey]

    @functools.cache
    def view(truth):
        if not any(truth):
            return tuple(truth)
        finest = FinestTable.from_counts(cells.with_columns(N=pl.Series(truth)), hkey, key, K, secret=ZERO)
        chosen = finest.controlled(levels=[0, 1], max_keys=0, secret=ZERO, move=move, sweeps=sweeps, noise=noise)
        shown = {row[:-1]: row[-1] for row in chosen.frame.drop("N").iter_rows()}
        return tuple(shown.get(labels, 0) for labels in cells.iter_rows())

    truths = defaultdict(list)
    top = K + 1 + move if cells.height == 3 else K + 1
    for truth in itertools.product(range(top + 1), repeat=cells.height):
        truths[view(truth)].append(truth)
    sums = [s for size in range(1, cells.height + 1) for s in itertools.combinations(range(cells.height), size)]
    for seen, possible in truths.items():
        assert all(value == 0 or value >= K for value in seen)
        assert seen == view(seen)  # the world in which the masked table is the truth looks the same
        for places in sums:
            assert not all(0 < sum(truth[i] for i in places) < K for truth in [*possible, seen])
    assert len(truths) < sum(map(len, truths.values()))


@pytest.mark.parametrize("sweeps", [None, 40])
def test_a_table_without_a_small_cell_comes_back_untouched(secret, sweeps):
    counts = population(400).group_by(HKEY + KEY).len("N").with_columns(pl.col("N") + 4)
    finest = FinestTable.from_counts(counts, HKEY, KEY, secret=secret)
    chosen = finest.controlled(SUMS, secret=secret, move=2, sweeps=sweeps)
    assert chosen.frame["N_masked"].equals(chosen.frame["N"].rename("N_masked"))
    assert (chosen.control.cells, chosen.control.reached) == (0, 0)


def test_counts_move_as_far_as_was_declared_sums_come_nearer_and_the_report_is_true(finest, secret, moved):
    wanted = [table for table in moved.cube() if table.selection.name in moved.chosen.tables]
    usual = finest.controlled(SUMS, secret=secret)
    loss = [
        loss_summary((t.detail["loss"] for t in f.cube() if t.selection.name in moved.chosen.tables), K=5)
        for f in (usual, moved)
    ]
    assert legal(moved, 2)
    assert not legal(moved, 1)
    assert loss[1].mean < loss[0].mean
    errors = pl.concat([table.detail["loss"].abs() for table in wanted])
    assert (moved.control.reached, moved.control.over) == (errors.max(), (errors > moved.control.bound).sum())
    assert moved.control.held
    for table in wanted:
        columns = list(table.selection.columns)
        sums = moved.frame.group_by(columns).agg(pl.col("N", "N_masked").sum()).sort(columns)
        assert table.detail.select(*columns, "N", "N_masked").sort(columns).equals(sums)
        assert ((table.detail["N_masked"] == 0) | (table.detail["N_masked"] >= 5)).all()
    row = moved.table("town", "job").detail.row(3, named=True)
    assert moved.cell("town", "job", [row["region"], row["town"]], row["job"]) == row["N_masked"]


def test_a_longer_search_with_today_s_masks_leaves_large_counts_alone(finest, secret):
    assert legal(finest.controlled(secret=secret, sweeps=30), 0)


@pytest.mark.long
def test_a_bound_out_of_reach_leaves_no_larger_errors_than_one_that_is_held():
    people = ilba.datasets.census(20_000)
    finest = ilba.build(people, ["LA1", "LA2"], ["gender", "age", "edu", "mar"], secret=ZERO)
    tight, wide = (finest.controlled(secret=ZERO, sweeps=30, bound=bound) for bound in (4, 6))
    assert (tight.control.held, wide.control.held) == (False, True)
    assert tight.control.reached <= wide.control.reached


def test_the_counts_of_a_version_of_the_longer_search_stay(finest, secret):
    longer = finest.controlled(secret=secret, sweeps=30)
    moved = finest.controlled(SUMS, secret=secret, sweeps=30, move=2)
    assert longer.chosen.way == moved.chosen.way == 8
    marks = [zlib.crc32(one.frame["N_masked"].to_numpy().astype("<i8").tobytes()) for one in (longer, moved)]
    assert marks == [3492733872, 2218101114]


@pytest.mark.long
def test_block_by_block_and_on_any_number_of_cores_the_counts_are_legal_and_the_same(people, secret, monkeypatch):
    monkeypatch.setattr("ilba.methods.controlled.plan.BLOCK", 60)
    made = []
    for cores, rows in ((1, people), (3, people.sample(fraction=1, shuffle=True, seed=1))):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        made.append(ilba.build(rows, HKEY, KEY, secret=secret).controlled(secret=secret, move=1, sweeps=20))
    assert made[0].frame.equals(made[1].frame)
    assert legal(made[0], 1)
    errors = pl.concat([table.detail["loss"].abs() for table in made[0].cube()])
    assert made[0].control.reached == errors.max()
    assert made[0].control.over == (errors > made[0].control.bound).sum()


def test_counts_that_did_not_change_keep_their_masked_count_in_the_next_wave(people, secret, moved):
    later = ilba.build(pl.concat([people.tail(-60), population(90, seed=9)]), HKEY, KEY, secret=secret)
    wave = later.controlled(SUMS, secret=secret, previous=moved, move=2, sweeps=20)
    both = wave.frame.join(moved.frame, on=[*HKEY, *KEY, "N"], suffix="_before")
    assert both["N_masked"].equals(both["N_masked_before"].rename("N_masked"))
    assert legal(wave, 2)


def test_after_an_interruption_the_counts_so_far_are_legal(finest, secret):
    def stop(step):
        if "sweep" in str(step.detail):
            raise KeyboardInterrupt

    with pytest.warns(ilba.Notice, match="interrupted"):
        chosen = finest.controlled(SUMS, secret=secret, move=1, progress=stop)
    assert chosen.control.interrupted
    assert legal(chosen, 1)


def test_the_store_keeps_how_far_counts_may_have_moved(moved, tmp_path):
    opened = ilba.open_store(moved.save(tmp_path / "c.parquet"))
    assert (opened.chosen.move, opened.chosen.sweeps) == (2, moved.chosen.sweeps)
    assert opened.frame.equals(moved.frame)
    assert "move" not in Chosen(("all",), None, held=True).to_json()  # as an earlier version wrote it


@pytest.mark.parametrize("move", [-1, 6, True, 1.5, "1"])
def test_a_move_that_makes_no_sense_is_refused(finest, secret, move):
    with pytest.raises(InputError, match="is not a whole number from 0 to K=5"):
        finest.controlled(secret=secret, move=move)


def test_the_audit_knows_how_far_counts_may_have_moved_and_proves_nothing(moved, finest, secret):
    report = moved.audit(tables=SUMS)
    assert report.certificate
    assert (report.cells_disclosed, report.aggregates) == (0, 0)
    everything = finest.controlled(secret=secret, move=1, sweeps=20).audit()  # the finest table is shown, too
    assert (everything.cells_disclosed, everything.aggregates) == (0, 0)
    assert everything.cells_small == int(finest.frame["N"].is_between(1, 4).sum())
    kept = {row["attacker"]: row for row in moved.risk(["proof", "outsider"], SUMS).rows.iter_rows(named=True)}
    assert kept["proof"]["proven"] == 0


def test_a_sum_over_its_cap_is_mended_by_two_cells_where_one_alone_would_spoil_another_sum():
    # Cell 0 may not change. Cell 1 is in both sums, cell 2 in the second, which is at its cap and weighs more.
    ptr, of = np.array([0, 1, 3, 4]), np.array([0, 0, 1, 1], np.int32)
    first, cells = np.array([0, 2, 4]), np.array([0, 1, 1, 2], np.int32)
    state = np.zeros((2, 8), np.int32)
    state[:, [free._ERROR, free._CAP, free._WEIGHT, free._DEAR]] = [[4, 3, 1, 40], [-3, 3, 3, 80]]
    t, low, top = np.array([5, 7, 7]), np.full(3, 5, np.int32), np.full(3, 9, np.int32)
    fine, near = np.zeros(3, np.int32), np.zeros((3, free._NEAR), np.int32)
    kind, kind_field, number = np.zeros(3, np.int16), np.zeros(5, np.int64), np.zeros(3, np.uint64)
    free._mend(
        ptr, of, first, cells, fine, near, state, t, low, top, np.zeros(3, bool), np.array([False, True, True]), kind,
        kind_field, number, 5, np.zeros(4096, np.int64), 0, np.uint64(1),
    )  # fmt: skip
    assert t.tolist() == [5, 6, 8]
    assert state[:, free._ERROR].tolist() == [3, -3]


def test_sums_inside_an_area_are_those_of_several_cells():
    # Cells 0 and 1 are one area, cell 2 another. Sums: 0 and 1; 0 alone; 1 and 2.
    ptr, of = np.array([0, 2, 4, 5]), np.array([0, 1, 0, 2, 2], np.int32)
    first, cells = np.array([0, 2, 3, 5]), np.array([0, 1, 0, 1, 2], np.int32)
    assert free._fine_sets(ptr, of, first, cells, np.array([0, 0, 1])).tolist() == [1, 1, 0]
