"""The audit by areas on toys: it proves what the attack on everything proves, and sums are checked to be sums."""

from __future__ import annotations

import hashlib
import itertools
import json
import time

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.attack.areas import _narrow, audit_by_areas
from ilba.design.tables import wanted_tables
from ilba.release.manifest import dump
from support.people import ILBA, population
from support.stores import ZERO
from support.worlds import Toy

TABLES = ["town.sex", "town", "all.sex", "all"]


def _by_areas(finest, names, method, visits=50, listed=()):
    return audit_by_areas(finest, method, lambda codes: wanted_tables(codes.design, names), 2, None, visits, listed)


@pytest.mark.long
@pytest.mark.parametrize("method", ["ilba", "r-file", "sca-sums"])
def test_one_area_after_the_other_proves_what_all_at_once_prove_on_toys(method):
    more = 0
    for seed in (1, 2, 3, 5, 31):
        toy = Toy(seed, with_finest=True)
        top = toy.columns[0]
        areas = sorted({cell[0] for cell in toy.cells})
        whole = ilba.audit(toy.finest, method, explanations=2, brief=True)
        parts = _by_areas(toy.finest, "all", method, listed=areas)
        proven = ["table", "level", "small", "disclosed", "exact"]
        assert parts.tables.select(proven).equals(whole.tables.select(proven))
        for name in ("cells_small", "cells_disclosed", "cells_exact", "certificate"):
            assert getattr(parts, name) == getattr(whole, name), name
        assert parts.misfits == (0 if method == "sca-sums" else whole.misfits)
        assert parts.ranges.equals(whole.ranges)
        last = _by_areas(toy.finest, "all", method, listed=areas[-1:]).ranges
        assert last.equals(whole.ranges.filter(pl.col(top) == areas[-1]))
        once = _by_areas(toy.finest, "all", method, 1, areas)
        assert (once.ranges["low"] <= whole.ranges["low"]).all()
        assert (once.ranges["high"] >= whole.ranges["high"]).all()
        assert len(parts.worst) == min(2, once.cells_disclosed)
        certified = parts.cells_small if parts.certificate else 0
        assert parts.cells_certified == certified
        assert parts.cells_undecided == sum(parts.why.values()) == parts.cells_small - parts.cells_disclosed - certified
        more += parts.cells_disclosed - once.cells_disclosed
    assert more > 0 or method != "ilba"


@pytest.mark.long
@pytest.mark.parametrize("method", ["ilba", "sca-sums"])
def test_some_tables_by_areas_prove_only_what_holds_in_every_truth_that_fits(method):
    proven = 0
    for seed in range(11):
        toy = Toy(seed, with_finest=seed % 2 > 0)
        worlds = toy.worlds() if toy.K ** len(toy.x) < 3000 else None
        if worlds is None or all(name.startswith("all") for name in toy.tables):
            continue
        report = _by_areas(toy.finest, toy.tables, method)
        whole = ilba.audit(toy.finest, method, toy.tables, explanations=0, brief=True)
        assert (report.cells_small, report.cells_exact) == (whole.cells_small, whole.cells_exact)
        assert report.cells_disclosed >= whole.cells_disclosed
        assert len(report.worst) == min(2, _by_areas(toy.finest, toy.tables, method, 1).cells_disclosed)
        for _, small, provable, said_small, disclosed, _ in toy.verdicts(report, worlds):
            assert said_small == small
            assert disclosed <= provable
            proven += disclosed
    assert proven > 0 or method != "ilba"


@pytest.mark.long
def test_by_areas_as_at_once_nobody_knows_the_finest_cells_that_are_too_many(monkeypatch):
    monkeypatch.setattr("ilba.attack.lattice.WIDEST", 4)
    cells = list(itertools.product("ab", range(3), range(3)))
    counts = np.random.default_rng(1).integers(0, 8, len(cells))
    frame = pl.DataFrame(cells, schema=["town", "x", "y"], orient="row").with_columns(N=pl.Series(counts))
    finest = ilba.FinestTable.from_counts(frame, ["town"], ["x", "y"], 5, secret=ZERO, cells="grid")
    names = ["town.x", "town.y", "town"]
    whole, parts = ilba.audit(finest, "ilba", names, explanations=0), _by_areas(finest, names, "ilba")
    assert whole.unseen
    assert parts.unseen
    for name in ("cells_small", "cells_disclosed", "cells_certified", "cells_undecided", "why", "safe"):
        assert getattr(parts, name) == getattr(whole, name), name
    assert parts.tables.equals(whole.tables)


def test_no_more_cells_are_explained_than_asked_for():
    """In the first area of this toy one cell is proven, in the next ones several."""
    toy = Toy(55, with_finest=True)
    report = _by_areas(toy.finest, "all", "r-file")
    assert report.cells_disclosed > len(report.worst) == 2


def test_bounds_are_kept_in_four_bytes_where_they_fit():
    for largest, dtype in ((2**31 - 1, np.int32), (2**31, np.int64), (2**40, np.int64)):
        for sign in (1, -1):
            side = np.array([[5, sign * largest]])
            found = _narrow(side)
            assert found.dtype == dtype
            assert found.tolist() == side.tolist()
    assert _narrow(np.zeros((0, 2), np.int64)).dtype == np.int32


@pytest.fixture
def sums(secret, tmp_path):
    """A small release of sums."""
    finest = ilba.build(population(90), ["town"], ["sex"], secret=secret)
    return finest.release(tmp_path / "sums", tables=TABLES, ledger=False)


@pytest.mark.long
def test_a_small_release_of_sums_is_decided_by_the_theorem(sums):
    told, start = [], time.perf_counter()
    whole, parts = ilba.audit(sums), ilba.audit(sums, areas=True, progress=told.append)
    assert 0 < parts.seconds < time.perf_counter() - start
    assert parts.safe
    assert parts.certificate
    assert parts.tables.equals(whole.tables)
    assert parts.folder == whole.folder
    assert parts.ranges.is_empty()
    assert parts.ranges.schema == whole.ranges.schema
    assert (parts.cells_disclosed, parts.cells_exact, parts.misfits, parts.worst) == (0, 0, 0, [])
    assert (parts.cells_small, parts.cells_certified, parts.cells_undecided) == (None, None, None)
    assert [step.done for step in told] == [1, 2, 3, 4]
    assert {step.total for step in told} == {4}


@pytest.mark.long
@pytest.mark.parametrize(("name", "by"), [("town", 5), ("all.sex", -5), ("all", 5), ("town.sex", None)])
def test_a_small_release_whose_tables_are_no_sums_is_not_called_safe(sums, name, by):
    """One count is changed, or the least count that is shown becomes 1, and the manifest tells the new file."""
    file, rows = sums.path / sums.tables[name].file, sums.table(name)
    place = rows["N_masked"].arg_min() if by is None else rows["N_masked"].arg_max()
    counts = rows["N_masked"].to_list()
    counts[place] = 1 if by is None else counts[place] + by
    rows.with_columns(N_masked=pl.Series(counts, dtype=rows["N_masked"].dtype)).write_parquet(file)
    told = json.loads((sums.path / "release.json").read_bytes())
    for entry in told["tables"]:
        if entry["name"] == name:
            entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (sums.path / "release.json").write_text(dump(told))
    with pytest.raises(ilba.InputError, match=f"the table '{name}' .* not sums of one masked table with K=5"):
        ilba.audit(ilba.Release(sums.path), areas=True)


def test_a_small_release_by_another_method_is_sent_back_to_its_store(secret, tmp_path):
    finest = ilba.build(population(90), ["town"], ["sex"], secret=secret)
    for number, how in enumerate((ILBA, {"method": "rounding:3", "accept_risk": True})):
        release = finest.release(tmp_path / f"r{number}", tables=["town"], ledger=False, **how)
        with pytest.raises(ilba.InputError, match="Give its store"):
            ilba.audit(release, areas=True)
