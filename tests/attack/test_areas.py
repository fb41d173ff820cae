"""The audit by areas: one top-level area after the other proves what the attack on everything at once proves."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.attack.areas import audit_by_areas
from ilba.attack.bounds import Attack
from ilba.design.tables import wanted_tables
from ilba.release.manifest import dump
from support.people import HKEY, ILBA, KEY, population

pytestmark = pytest.mark.slow

NAMES = ["block.sex.age.job", "town.sex.age", "town.sex", "town.job", "all.age", "all"]
SOME = ["block.sex.age.job", "town.sex", "region.age", "town.job", "all", "all.sex.job"]
WITHOUT = ["town.sex", "town.age", "region.sex.age", "all.sex", "all.age"]


def by_areas(finest, names, visits=50, method="ilba", listed=()):
    return audit_by_areas(finest, method, lambda codes: wanted_tables(codes.design, names), 0, None, visits, listed)


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize("method", ["ilba", "r-file"])
@pytest.mark.parametrize("names", ["all", SOME, WITHOUT], ids=["all", "some", "without the finest"])
def test_one_area_after_the_other_proves_what_all_at_once_prove(secret, cells, method, names):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret, cells=cells)
    whole = ilba.audit(finest, method, names, explanations=0)
    parts = by_areas(finest, names, method=method)
    if names == "all":
        looked = ["certified", "undecided"]  # by areas no counterexamples are looked for
        assert parts.tables.drop(looked).equals(whole.tables.drop(looked))
        assert parts.certificate or parts.aggregates_undecided is None
        assert (parts.cells_disclosed, parts.cells_exact) == (whole.cells_disclosed, whole.cells_exact)
    # Tables of areas that are not published stand between the two, so that a little more may be proven.
    assert parts.cells_disclosed >= whole.cells_disclosed
    assert (parts.tables["disclosed"] >= whole.tables["disclosed"]).all()
    assert parts.tables["small"].equals(whole.tables["small"])
    assert (parts.cells_small, parts.misfits) == (whole.cells_small, whole.misfits)
    assert parts.published.lattice.base == whole.published.lattice.base


@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_the_ranges_of_named_areas_are_those_of_the_whole_attack(secret, cells):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret, cells=cells)
    whole = ilba.audit(finest, "ilba", explanations=0, brief=True).ranges
    regions = whole["region"].unique().sort().to_list()
    assert by_areas(finest, "all", listed=regions).ranges.equals(whole)
    last = whole.filter(pl.col("region") == regions[-1])
    assert by_areas(finest, "all", listed=regions[-1:]).ranges.equals(last)
    early = ilba.audit(finest, "ilba", areas=regions[-1], explanations=0).ranges  # two visits: sound, perhaps wider
    assert early.drop("low", "high").equals(last.drop("low", "high"))
    assert (early["low"] <= last["low"]).all()
    assert (early["high"] >= last["high"]).all()
    assert ilba.audit(finest, "ilba", areas=True, explanations=0).ranges.is_empty()
    with pytest.raises(ilba.InputError, match="moon"):
        ilba.audit(finest, "ilba", areas=["moon"])


def test_the_ranges_of_an_area_of_sums_are_what_its_masks_say(secret):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret)
    whole = ilba.audit(finest, "sca-sums", explanations=0).ranges
    region = whole["region"][0]
    found = ilba.audit(finest, "sca-sums", areas=[region], explanations=0).ranges
    assert found.equals(whole.filter(pl.col("region") == region))


def test_tables_of_the_whole_tell_areas_something(secret):
    """Otherwise the test above would show nothing about what is shared."""
    people = population(400)
    for seed in range(6):
        finest = ilba.build(people.sample(120, seed=seed), HKEY, KEY, secret=secret, cells="grid")
        once, often = by_areas(finest, "all", visits=1), by_areas(finest, "all")
        assert once.cells_disclosed <= often.cells_disclosed
        if once.cells_disclosed < often.cells_disclosed:
            assert "could still be tightened" in once.why_undecided
            return
    pytest.fail("no population in which the whole tells an area something")


def test_the_method_that_publishes_sums_is_safe_and_its_small_cells_are_counted(secret):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret).controlled(secret=secret)
    whole, parts = ilba.audit(finest), ilba.audit(finest, areas=True)
    assert parts.safe
    assert parts.certificate
    assert parts.tables.equals(whole.tables)
    assert parts.cells_certified == whole.cells_small


def test_a_store_on_disk_is_audited_by_its_path(secret, tmp_path):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret)
    finest.save(tmp_path / "people.parquet")
    found = ilba.audit(tmp_path / "people.parquet", "ilba", areas=True, explanations=2)
    assert found.tables.equals(ilba.audit(finest, "ilba", areas=True).tables)
    assert found.cells_disclosed > 0
    assert len(found.worst) == 2
    assert found.cells_undecided == found.cells_small - found.cells_disclosed
    assert "counterexamples" in found.why_undecided


def test_one_area_holds_its_own_cells_alone(secret):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret)
    labels = finest.frame[HKEY[0]].unique(maintain_order=True).to_list()
    parts = [finest.within(label).frame for label in labels]
    assert pl.concat(parts).equals(finest.frame)
    with pytest.raises(ilba.InputError):
        finest.within("nowhere")


def test_what_does_not_go_with_areas_is_refused(secret):
    finest = ilba.build(population(100), HKEY, KEY, secret=secret)
    for wrong in ({"solver_seconds": 1}, {"tables": ["all.sex"]}, {"method": "rounding:3"}):
        with pytest.raises(ilba.InputError):
            ilba.audit(finest, areas=True, **wrong)
    with pytest.raises(ilba.InputError, match="areas=True"):
        ilba.audit(ilba.PublishedTables.of(finest), areas=True)


def test_the_bounds_of_a_later_visit_are_those_of_the_whole_attack(secret):
    """Of the national tables themselves every bound is the same, not only the numbers that the report shows."""
    finest = ilba.build(population(300), HKEY, KEY, secret=secret)
    attack = Attack(ilba.PublishedTables.of(finest, "ilba")).run()
    parts = by_areas(finest, "all")
    K = finest.design.threshold
    for node, (low, high) in {
        n: (attack.whole.kinds[0].low[n], attack.whole.kinds[0].high[n]) for n in attack.whole.own
    }.items():
        if node[0] == 0:
            name = next(
                s.name
                for s in wanted_tables(finest.design, "all")
                if not s.levels[0] and tuple(int(k in s.keys) for k in finest.design.keys) == node[1:]
            )
            large = np.zeros(low.size, bool)
            large[attack.whole.large.get(node, [])] = True
            proven = ((low >= 1) & (high < K)).reshape(-1) & ~large
            assert int(proven.sum()) == parts.tables.filter(pl.col("table") == name)["disclosed"][0]


def test_a_release_of_sums_is_decided_by_the_theorem_and_its_folder(secret, tmp_path):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret)
    for number, names in enumerate((NAMES, ["block.job", *NAMES[1:]])):
        release = finest.release(tmp_path / f"sums{number}", tables=names, ledger=False)
        whole, parts = ilba.audit(release), ilba.audit(release, areas=True)
        assert parts.safe == whole.safe
        assert parts.certificate
        assert parts.tables.equals(whole.tables)
        assert parts.folder == whole.folder
        assert parts.ranges.is_empty()
        assert parts.ranges.schema == whole.ranges.schema


@pytest.mark.parametrize(("name", "by"), [("town.sex", 5), ("all", 5), ("block.sex.age.job", -3)])
def test_a_release_whose_tables_are_no_sums_is_not_called_safe(secret, tmp_path, name, by):
    finest = ilba.build(population(400), HKEY, KEY, secret=secret)
    release = finest.release(tmp_path / "sums", tables=NAMES, ledger=False)
    file = release.path / release.tables[name].file
    rows = release.table(name)
    first = rows["N_masked"].arg_max()
    rows = rows.with_row_index("\0").with_columns(
        pl.when(pl.col("\0") == first).then(pl.col("N_masked") + by).otherwise(pl.col("N_masked")).alias("N_masked")
    )
    rows.drop("\0").write_parquet(file)
    told = json.loads((release.path / "release.json").read_bytes())
    for entry in told["tables"]:
        if entry["name"] == name:
            entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (release.path / "release.json").write_text(dump(told))
    with pytest.raises(ilba.InputError, match="not sums of one masked table"):
        ilba.audit(ilba.Release(release.path), areas=True)


def test_a_release_that_needs_an_attack_is_sent_back_to_its_store(secret, tmp_path):
    finest = ilba.build(population(300), HKEY, KEY, secret=secret)
    release = finest.release(tmp_path / "out", tables=["town.sex"], **ILBA)
    with pytest.raises(ilba.InputError, match="Give its store"):
        ilba.audit(release, areas=True)
    sums = finest.release(tmp_path / "sums", tables=["town.sex"], ledger=False)
    with pytest.raises(ilba.InputError, match="as it is"):
        ilba.audit(sums, areas=True, max_keys=1)
