"""No file of a release holds a true count, a flag, a loss or the name of somebody who was masked away."""

from __future__ import annotations

import itertools

import polars as pl
import pytest

import ilba
from ilba import Secret
from support.leaks import RAW_SECRET, every_code, walk_for_leaks
from support.people import HKEY, ILBA, KEY
from support.size import LARGE, few


def unless_audited(monkeypatch, audited):
    """Leave out the audit of a release by iLBA, which takes most of the time and writes no file."""
    if not audited:
        monkeypatch.setattr("ilba.attack.audit.BUDGET", 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("K", "cells", "rows"),
    few(
        [
            *((5, cells, rows) for cells, rows in itertools.product(("observed", "grid"), ("nonzero", "grid"))),
            *itertools.product((3, 10), ("grid", "observed"), ("grid", "nonzero")),
        ],
        5,
    ),
)
def test_no_file_of_a_release_leaks(people, tmp_path, monkeypatch, K, cells, rows):
    unless_audited(monkeypatch, LARGE or (K, cells, rows) == (5, "grid", "grid"))
    finest = ilba.build(people, HKEY, KEY, K, secret=Secret(RAW_SECRET), cells=cells, labels=every_code(people))
    release = finest.release(tmp_path / "out", rows=rows, **ILBA)
    assert len(release.tables) == 32
    walk_for_leaks(release)
    for name, table in release.tables.items():
        published = release.table(name).filter(pl.col("N_masked") > 0)
        assert published.equals(finest.table(table.levels, table.keys).public())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "K"),
    itertools.product(["census", "kr_estab", "nl_grid", "us_acs"], [3, 5, 10])
    if LARGE
    else [("census", 5), ("kr_estab", 10), ("nl_grid", 10), ("us_acs", 3)],
)
def test_no_file_of_a_real_release_leaks(request, tmp_path, monkeypatch, name, K):
    unless_audited(monkeypatch, LARGE or name == "kr_estab")
    designs = {
        "census": (["LA1", "LA2", "LA3", "OA"], ["gender", "age", "edu", "mar", "htype"], None),
        "kr_estab": (["CP_CD", "CDW_CD", "ZONE_CD"], ["RPRSNTV_SEXDSTN", "AGE_FACTOR", "BR_ACT", "BR_JOJIK"], None),
        "nl_grid": (["g5km", "g1km", "g500m", "g100m"], ["cons_q", "unemployed"], None),
        "us_acs": (["STATE", "PUMA"], ["SEX", "MSP", "RAC1P", "EDU", "HOUSING_TYPE"], 3),
    }
    hkey, key, max_keys = designs[name]
    data = (
        ilba.datasets.census(50_000 if LARGE else 6_000)
        if name == "census"
        else (request.getfixturevalue("shared") / "data" / f"{name}.parquet")
    )
    labels = ilba.datasets.census_codes() if name == "census" else None
    finest = ilba.build(data, hkey, key, K, secret=Secret(RAW_SECRET))
    walk_for_leaks(finest.release(tmp_path / "ilba", max_keys=max_keys, labels=labels, **ILBA))
    again = ilba.build(data, hkey, key, K, secret=Secret(RAW_SECRET))
    walk_for_leaks(
        again.release(
            tmp_path / "controlled", max_keys=max_keys, labels=labels, bound=3 * K, ledger=tmp_path / "c.ledger"
        )
    )


@pytest.mark.long
def test_the_leak_test_itself_finds_leaks(finest, tmp_path):
    release = finest.release(tmp_path / "out", max_keys=1)
    file = release.path / "tables" / "town.sex.parquet"
    good = file.read_bytes()
    for spoil in (
        lambda f: f.with_columns(type1=0),
        lambda f: f.with_columns(pl.lit(3, pl.Int64).alias("N_masked")),
        lambda f: f.with_columns(pl.lit(0, pl.Int64).alias("N_masked")),
    ):
        spoil(release.table("town.sex")).write_parquet(file)
        with pytest.raises(AssertionError):
            walk_for_leaks(release)
        file.write_bytes(good)
    (release.path / "note.csv").write_bytes(RAW_SECRET.hex().encode())
    with pytest.raises(AssertionError):
        walk_for_leaks(release)


@pytest.mark.slow
def test_a_controlled_release_adds_up_leaks_nothing_and_the_audit_certifies_it(people, tmp_path):
    finest = ilba.build(people, HKEY, KEY, secret=Secret(RAW_SECRET))
    release = finest.release(tmp_path / "out", method="controlled", secret=Secret(RAW_SECRET))
    walk_for_leaks(release)
    assert release.additive
    assert "bound" not in release.manifest
    whole = release.table("block.sex.age.job")
    for name, table in release.tables.items():
        columns = list(table.columns)
        summed = (
            whole.group_by(columns).agg(pl.col("N_masked").sum()) if columns else whole.select(pl.col("N_masked").sum())
        )
        assert summed.sort(columns or "N_masked").equals(release.table(name)), name
    store = finest.controlled(secret=Secret(RAW_SECRET))
    report = ilba.audit(release, store=store)
    assert report.certificate
    assert report.safe
    assert report.cells_disclosed == 0
    with pytest.raises(ilba.InputError, match="were chosen jointly: its method is 'controlled'"):
        store.release(tmp_path / "other", method="ilba")
