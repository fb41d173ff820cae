"""Noise in the target: masks are chosen for counts that are one off here and there, and the promise is the same."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError
from ilba.methods.controlled import noise as target
from ilba.methods.controlled.block import thresholds
from ilba.methods.controlled.search import Chosen
from ilba.methods.controlled.sets import Sets, turned
from ilba.methods.loss import loss_summary
from support.people import HKEY, KEY, population


@pytest.fixture(scope="module")
def noisy(finest, secret):
    return finest.controlled(secret=secret, noise=0.5)


def many_sets(n: int = 20_000) -> Sets:
    """Cells in a set of all, one of a hundred, one of ten, and one of two."""
    own = np.arange(n)[:, None] // np.array([n, 100, 10, 2])
    sets = (own + np.cumsum([0, 1, n // 100, n // 10])).astype(np.int32)
    ptr, n_sets = 4 * np.arange(n + 1), int(sets.max()) + 1
    first, cells = turned(ptr, sets.reshape(-1), n_sets)
    times = np.ones(n_sets, np.int32)
    return Sets(ptr, sets.reshape(-1), first, cells, times, np.zeros(n, np.int32), n_sets, ())


@pytest.mark.parametrize("share", [0.25, 1.0])
def test_noise_is_one_for_the_declared_share_of_small_cells_with_even_odds_and_does_not_add_up(share, monkeypatch):
    sets, rng = many_sets(), np.random.default_rng(7)
    number = rng.integers(0, 2**63, 20_000).astype(np.uint64)
    small = np.arange(20_000) % 3 > 0
    noise = target.target_noise(sets, small, number, share, thresholds())
    assert not noise[~small].any()
    assert set(noise[small].tolist()) == ({-1, 1} if share == 1 else {-1, 0, 1})
    assert abs(np.abs(noise[small]).mean() - share) < 0.02
    sums = np.add.reduceat(noise[sets.cells].astype(np.int64), sets.first[:-1])
    assert abs(sums[0]) <= 10  # of all cells: 58 to 115 is one standard deviation where each is drawn for itself
    assert np.abs(sums).max() <= 20
    pairs = sums[-10_000:][small[0::2] & small[1::2] & (noise[0::2] != 0) & (noise[1::2] != 0)]
    assert 0.3 < (pairs == 0).mean() < 0.7  # what one cell has tells little of its neighbour
    monkeypatch.setattr(target, "HEAT", 2**20)
    alone = target.target_noise(sets, small, number, share, thresholds())
    assert (np.abs(alone) == np.abs(noise)).all()  # the same cells: the secret says which
    assert (alone != noise).any()


@pytest.mark.parametrize("asked", [{}, {"sweeps": 40}, {"move": 2, "sweeps": 12}])
def test_a_table_without_a_small_cell_comes_back_untouched(secret, asked):
    counts = population(400).group_by(HKEY + KEY).len("N").with_columns(pl.col("N") + 4)
    finest = FinestTable.from_counts(counts, HKEY, KEY, secret=secret)
    chosen = finest.controlled(secret=secret, noise=1, **asked)
    assert chosen.frame["N_masked"].equals(chosen.frame["N"].rename("N_masked"))


@pytest.mark.long
def test_masks_are_0_or_k_errors_are_those_of_the_true_counts_and_means_stay(finest, secret, noisy):
    usual = finest.controlled(secret=secret)
    small = noisy.frame.filter(pl.col("N") < 5)
    assert set(small["N_masked"].to_list()) == {0, 5}
    assert noisy.frame.filter(pl.col("N") >= 5).select((pl.col("N") == pl.col("N_masked")).all()).item()
    assert not noisy.frame.equals(usual.frame)
    errors = pl.concat([table.detail["loss"].abs() for table in noisy.cube()])
    assert (noisy.control.reached, noisy.control.over) == (errors.max(), (errors > noisy.control.bound).sum())
    loss = [loss_summary((table.detail["loss"] for table in one.cube()), K=5).mean for one in (usual, noisy)]
    assert loss[0] < loss[1] < 1.3 * loss[0]
    assert all(abs(mean - x) < 0.1 for x, mean in noisy.class_means().items())


def test_the_masks_are_the_same_for_any_order_of_rows_and_number_of_cores(people, secret, monkeypatch):
    monkeypatch.setattr("ilba.methods.controlled.plan.BLOCK", 60)
    made = []
    for cores, rows in ((1, people), (3, people.sample(fraction=1, shuffle=True, seed=1))):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        made.append(ilba.build(rows, HKEY, KEY, secret=secret).controlled(secret=secret, noise=0.3))
    assert made[0].frame.equals(made[1].frame)
    errors = pl.concat([table.detail["loss"].abs() for table in made[0].cube()])
    assert made[0].control.reached == errors.max()


def test_counts_that_did_not_change_keep_their_masks_in_the_next_wave(people, secret, noisy):
    later = ilba.build(pl.concat([people.tail(-60), population(90, seed=9)]), HKEY, KEY, secret=secret)
    wave = later.controlled(secret=secret, previous=noisy, noise=0.5)
    both = wave.frame.join(noisy.frame, on=[*HKEY, *KEY, "N"], suffix="_before")
    assert both["N_masked"].equals(both["N_masked_before"].rename("N_masked"))


def test_the_store_keeps_the_share_and_an_insider_is_given_no_bound(noisy, tmp_path):
    opened = ilba.open_store(noisy.save(tmp_path / "c.parquet"))
    assert (opened.noise, opened.chosen) == (0.5, noisy.chosen)
    assert "noise" not in Chosen(("all",), None, held=True).to_json()  # as an earlier version wrote it
    report = ilba.risk(noisy, ["insider"])
    assert report.rows["proven"].to_list() == [0]
    assert "50% of the small cells" in report.notes[0]


@pytest.mark.parametrize("noise", [-0.1, 1.5, True, float("nan"), "0.4", None])
def test_a_share_that_makes_no_sense_is_refused(finest, secret, noise):
    with pytest.raises(InputError, match="is not a share from 0 to 1"):
        finest.controlled(secret=secret, noise=noise)
