"""What masking did to tables is the same, whether they are made or only measured block by block."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.design.tables import wanted_tables
from ilba.tables import losses


@pytest.fixture(scope="module")
def people():
    made = np.random.default_rng(5)
    town = made.integers(0, 40, 6_000)
    trade = made.integers(0, 9, 6_000)
    return pl.DataFrame(
        {
            "part": (town // 20).astype(str),
            "town": town,
            "section": trade // 3,
            "trade": trade,
            "sex": made.integers(0, 2, 6_000),
            "age": made.integers(0, 6, 6_000),
        }
    )


AREAS = {"area": ["part", "town"], "industry": ["section", "trade"]}


@pytest.mark.long
@pytest.mark.parametrize("hkey", [["part", "town"], AREAS, {"industry": ["section", "trade"]}])
@pytest.mark.parametrize("block", [2**21, 3_000, 200, pytest.param(1, marks=pytest.mark.slow)])
def test_measured_losses_are_those_of_the_tables(people, secret, monkeypatch, hkey, block):
    monkeypatch.setattr(losses, "BLOCK", block)
    finest = ilba.build(people, hkey, ["sex", "age"], secret=secret)
    for masked in (finest, finest.with_method("cell-key:D=3,V=2,js=1", secret), finest.with_cells("grid")):
        wanted = wanted_tables(finest.design, "all")
        steps = []
        found = masked.losses(wanted, lambda done, total, steps=steps: steps.append((done, total)))
        assert list(found) == wanted
        assert steps == [(step, len(steps)) for step in range(1, len(steps) + 1)]
        for table in masked.tables(wanted):
            told, detail = found[table.selection], table.detail
            assert told.by_loss == dict(detail.group_by("loss").len().iter_rows())
            assert (told.cells, told.small) == (detail.height, (detail["N"] <= 5).sum())
            assert (told.type1, told.type2) == (detail["type1"].sum(), detail["type2"].sum())
        assert masked.largest_loss(wanted) == max(table.detail["loss"].abs().max() for table in masked.tables(wanted))


def test_blocks_are_whole_areas_that_cover_every_cell(people, secret, monkeypatch):
    finest = ilba.build(people, ["part", "town"], ["sex", "age"], secret=secret)
    for block in (10_000, 300, 50, 1):
        monkeypatch.setattr(losses, "BLOCK", block)
        level, ends = losses.blocks(finest.codes, finest._source)
        assert ends == sorted(set(ends))
        assert ends[-1] == len(finest)
        areas = finest.frame.select(["part", "town"][:level]).rows()
        assert not {area for first in ends[:-1] for area in [areas[first]] if areas[first - 1] == area}
        assert level == (1 if block >= 300 else 2)
