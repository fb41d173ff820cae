"""Choosing the masks of all cells, where little or nothing has to be searched."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from ilba import FinestTable, Secret
from ilba.methods.controlled.choosing import _Crew
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
