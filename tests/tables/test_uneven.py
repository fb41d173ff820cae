"""Uneven hierarchies: a leaf at a middle level stands at every level below it, under its own code."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import Secret
from ilba.data.hierarchies import read_hierarchy
from support.serving import serving

OUTLINE = """north
@n1
@@n1a
@@n1b
@n2
south
@s1
@@s1a
@@s1b
island
"""
SECRET = Secret(bytes(range(32)))


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    """People by leaf: n2 is a leaf of the second level, island one of the first."""
    file = tmp_path_factory.mktemp("uneven") / "areas.hrc"
    file.write_text(OUTLINE)
    paths = read_hierarchy(file).paths
    rng = np.random.default_rng(5)
    chosen = paths[rng.integers(0, paths.height, 400)]
    return chosen.with_columns(
        sex=pl.Series(rng.integers(1, 3, 400)),
        age=pl.Series(rng.integers(0, 9, 400)),
        job=pl.Series(rng.integers(0, 4, 400)),
    )


def test_a_short_path_is_one_area_at_each_level_with_the_same_counts(people):
    levels = people.columns[:3]
    assert people.filter(pl.col(levels[0]) == "island").select(levels).unique().rows() == [("island",) * 3]
    finest = ilba.build(people, levels, ["sex", "age"], secret=SECRET)
    for level in (1, 2, 3):
        table = finest.table(level, ["sex"]).detail.filter(pl.col(levels[level - 1]) == "island")
        assert (
            table["N"].to_list()
            == people.filter(pl.col(levels[0]) == "island").group_by("sex").len().sort("sex")["len"].to_list()
        )
    assert finest.cell(3, ["sex"], ["island"] * 3, [1]) == finest.cell(1, ["sex"], ["island"], [1])


@pytest.mark.slow
def test_uneven_areas_are_masked_jointly_released_and_audited(people, tmp_path):
    levels = people.columns[:3]
    finest = ilba.build(people, levels, ["sex", "age", "job"], secret=SECRET)
    masked = finest.controlled()
    release = masked.release(tmp_path / "r", ledger=False)
    shown = [release.table(f"{level}.sex.age.job") for level in levels]
    island = [
        table.filter(pl.col(levels[0]) == "island").select("sex", "age", "job", "N_masked").sort(pl.all())
        for table in shown
    ]
    assert island[0].equals(island[1])
    assert island[0].equals(island[2])
    report = ilba.audit(release, store=masked)
    assert report.safe
    assert not report.cells_disclosed
    assert ilba.audit(finest).cells_disclosed > 0  # iLBA's tables of the same people
    rows = ilba.compare(finest, methods=["controlled", "suppression", "rounding:3"], max_keys=1).rows
    assert rows.height == 3


@pytest.mark.slow
def test_a_design_with_more_tables_than_anybody_lists_asks_for_a_plan(tmp_path):
    """Eleven hierarchies have millions of tables. Those that are wanted are named."""
    people = pl.DataFrame(
        {f"v{n}_{level}": [f"{n}{row % 3}{level}" for row in range(60)] for n in range(11) for level in "lmh"}
    )
    hkey = {f"v{n}": [f"v{n}_{level}" for level in "lmh"] for n in range(11)}
    finest = ilba.build(people, hkey, [], secret=SECRET)
    with pytest.raises(ilba.InputError, match=r"has 4,194,304 tables, too many to list.*plan="):
        finest.cube()
    tables = ["v0_l+v3_m", "v1_h"]
    with pytest.raises(ilba.InputError, match="plan="):
        finest.release(tmp_path / "r", tables=tables, ledger=False)
    assert finest.release(tmp_path / "i", "ilba", tables=["v1_h"], accept_risk=True, ledger=False)  # it needs no plan
    with pytest.raises(ilba.InputError, match="there is no table 'v9_x'"):
        finest.release(tmp_path / "i", "ilba", tables=["v1_h"], plan=["v9_x"], accept_risk=True, ledger=False)
    release = finest.release(tmp_path / "r", tables=tables, plan=tables, ledger=False)
    assert list(release.tables) == tables
    with serving(release.path) as server, server.client() as client:
        served = {one["id"] for one in client.get("/tables", params={"pageSize": 100}).json()["tables"]}
    assert served == {"all", "v0_l", "v3_l", "v3_m", "v0_l+v3_l", "v0_l+v3_m", "v1_l", "v1_m", "v1_h"}
