"""Choosing the masks of all cells, where little or nothing has to be searched."""

from __future__ import annotations

import contextlib
from typing import NamedTuple

import numpy as np
import polars as pl
import pytest

from ilba import FinestTable, Secret
from ilba.methods.controlled.choosing import _Crew
from ilba.methods.controlled.plan import MaskBlock
from ilba.tables.engine import KnownMasks

SECRET = Secret(bytes(32))


@pytest.mark.parametrize(("move", "shown"), [(0, [5, 60, 7]), (5, [0, 61, 7])])
def test_where_no_count_is_small_only_counts_that_moved_before_differ_from_the_truth(move, shown):
    finest = FinestTable.from_counts(pl.DataFrame({"town": list("abc"), "N": [5, 60, 7]}), ["town"], secret=SECRET)
    before = KnownMasks(np.array([0, 61, -1]), 0, 0)
    masked = finest.controlled(secret=SECRET, previous=before, move=move)
    assert masked.frame["N_masked"].to_list() == shown
    assert finest.controlled(secret=SECRET, move=move).frame["N_masked"].to_list() == [5, 60, 7]


@pytest.mark.parametrize(("cores", "threads"), [(None, 1), (0, 1), (1, 1), (3, 3)])
def test_there_is_a_thread_for_each_core_and_at_least_one(cores, threads, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    with _Crew(None, None, None, 1) as crew:
        assert crew._pool._max_workers == threads


def test_steps_name_the_block_only_if_there_are_several():
    told = []
    with _Crew(None, None, told.append, 1) as crew:
        crew._told("sweep", 1200, 3, 11)
    with _Crew(None, None, told.append, 4000) as crew:
        crew._done = 1999
        crew._told("sweep", 0, 3, 11)
    assert [tuple(step)[:4] for step in told] == [
        ("choosing masks", 3, 11, "sweep: 1,200 over the bound"),
        ("choosing masks", 1999, 4000, "sweep: 0 over the bound, block 2,000 of 4,000"),
    ]


def test_known_masks_stay_where_they_are():
    counts = pl.DataFrame({"town": list("abcd"), "N": [1, 4, 2, 60]})
    finest = FinestTable.from_counts(counts, ["town"], secret=SECRET)
    for first, second in ((0, 5), (5, 0), (0, 0), (5, 5)):
        before = KnownMasks(np.array([first, second, -1, 60]), 0, 0)
        masked = finest.controlled(secret=SECRET, previous=before)
        assert masked.frame["N_masked"].to_list()[:2] == [first, second]
        assert masked.control.kept == 2


class Made(NamedTuple):
    """What a block gives."""

    interrupted: bool = False


def solved(made, before, told):
    """A block that tells one step; an interruption in this moment is noticed by the crew alone."""
    with contextlib.suppress(KeyboardInterrupt):
        told("sweep", 0, 1, 2)
    return made + before, Made()


@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_blocks_of_a_round_give_their_results_in_order_and_all_know_of_an_interruption(blocks):
    turn = [MaskBlock(n, n, n + 1, 1, (1,), (), (0, n)) for n in range(blocks)]
    told = []
    with _Crew(lambda block: 10 * block.number, solved, told.append, 5) as crew:
        assert crew.work(turn, list(range(blocks)), turn) == [(11 * n, Made()) for n in range(blocks)]
        assert crew.work(turn, [7] * blocks, []) == [(10 * n + 7, Made()) for n in range(blocks)]
    assert [step.done for step in told] == [0] * blocks + [blocks] * blocks
    if blocks > 1:

        def stop(step):
            raise KeyboardInterrupt

        with _Crew(lambda block: block.number, solved, stop, 5) as crew:
            assert crew.work(turn, [0] * blocks, []) == [(n, Made(interrupted=True)) for n in range(blocks)]


@pytest.mark.parametrize(("tables", "reached"), [(["all"], 0), (["all", "town"], 2)])
def test_the_largest_error_is_that_of_a_count_in_the_tables(tables, reached):
    finest = FinestTable.from_counts(pl.DataFrame({"town": ["a", "b"], "N": [2, 3]}), ["town"], secret=SECRET)
    masked = finest.controlled(tables, secret=SECRET, previous=KnownMasks(np.array([0, 5]), 0, 0))
    assert masked.frame["N_masked"].to_list() == [0, 5]
    assert masked.control.reached == reached


def test_where_most_masks_are_known_repairs_stop_after_a_fixed_number_of_passes(monkeypatch):
    towns = [f"t{n:02}" for n in range(30)]
    finest = FinestTable.from_counts(pl.DataFrame({"town": towns, "N": [4] * 30}), ["town"], secret=SECRET)
    known = KnownMasks(np.array([0] * 15 + [-1] * 15), 0, 0)
    for passes, told in ((0, 0), (1, 1)):
        monkeypatch.setattr("ilba.methods.controlled.block._KNOWN", passes)
        steps = []
        finest.controlled(secret=SECRET, previous=known, progress=steps.append)
        assert sum(step.detail.startswith("repair") for step in steps) == told
