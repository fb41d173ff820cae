"""Cell keys as a method to publish with: record keys are one more part of the finest table that adds up."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import ilba
from ilba import InputError, Secret, UnsafeRelease, methods
from ilba.cli import commands
from ilba.design.recordkeys import KEY_RANGE, RecordKeys
from ilba.errors import Advice, Conflict
from ilba.export import export
from ilba.secret.secret import draws
from ilba.tables.store import About
from support.people import HKEY, KEY, population

SECRET = Secret(bytes(range(32)))
EU = methods.CellKey(D=2, V=1.0)


def ons_ptable(counts=12):
    """A small p-table in the layout of the ONS, whose moves depend on count and key."""
    cells = pl.DataFrame({"pcv": np.repeat(np.arange(1, counts + 1), 256), "ckey": np.tile(np.arange(256), counts)})
    move = pl.when(pl.col("pcv") == 1).then(pl.col("ckey") % 3 - 1).otherwise((pl.col("ckey") + pl.col("pcv")) % 5 - 2)
    return cells.with_columns(pvalue=move.cast(pl.Int64))


@pytest.fixture(scope="module")
def keyed_people():
    people = population()
    rng = np.random.default_rng(3)
    return people.with_columns(
        ons=pl.Series(rng.integers(0, 256, people.height)), eu=pl.Series(np.round(rng.random(people.height), 8))
    )


def built(people, record_key=None, **more):
    columns = [*HKEY, *KEY, *([record_key] if record_key else [])]
    return ilba.build(people.select(columns), HKEY, KEY, secret=SECRET, record_key=record_key, **more)


@pytest.fixture(scope="module")
def ons(keyed_people):
    return built(keyed_people, "ons")


@pytest.fixture(scope="module")
def drawn(keyed_people):
    return built(keyed_people)


@pytest.mark.parametrize("keys", [["sex"], [*KEY[:2]], []])
def test_tables_equal_the_function_of_the_ons_on_the_records(ons, keyed_people, keys):
    moves = ons_ptable()
    ours = ons.table(HKEY[-1], keys, method=methods.CellKey(moves))
    theirs = methods.create_perturbed_table(keyed_people, moves, HKEY[-1], keys, "ons", threshold=0)
    theirs = theirs.filter(pl.col("pre_sdc_count") > 0)
    ours = ours.detail.with_columns(pl.col(HKEY[-1]).cast(pl.String)).sort(HKEY[-1], *keys)
    theirs = theirs.with_columns(pl.col(HKEY[-1]).cast(pl.String)).sort(HKEY[-1], *keys)
    assert ours["N"].to_list() == theirs["pre_sdc_count"].to_list()
    assert ours["N_masked"].to_list() == theirs["count"].to_list()


def test_tables_equal_the_european_function_on_the_records(keyed_people):
    finest, moves = built(keyed_people, "eu"), methods.ptable(D=2, V=1.0)
    theirs = methods.cell_key_table(keyed_people.select("eu", "sex"), moves, "sex", "eu")
    ours = finest.table(0, ["sex"], method=methods.CellKey(moves)).frame
    assert ours["N_masked"].to_list() == theirs.filter(pl.col("sex") != "Total")["puwc"].to_list()
    assert finest.cell(method=methods.CellKey(moves)) == theirs.filter(pl.col("sex") == "Total")["puwc"].item()


def test_without_a_column_a_key_is_one_draw_for_labels_and_count(drawn):
    keys = drawn.with_method(EU).cells["record_key"].to_numpy()
    assert keys.dtype == np.int64
    first = drawn.frame.row(0, named=True)
    labels = {column: ([first[column]], np.array([0])) for column in drawn.design.columns}
    assert keys[0] == draws(SECRET.derived("cell keys"), labels, [first["N"]])[0] % KEY_RANGE
    assert 0.45 < (keys / KEY_RANGE).mean() < 0.55


def test_cell_keys_of_a_store_without_record_keys_come_with_advice(drawn, ons):
    with pytest.warns(Advice, match="has no record keys, so the secret draws one.*build with record_key="):
        drawn.with_method(EU)
    with warnings.catch_warnings(action="error"):
        ons.with_method(EU)
        drawn.with_method("rounding:3")


def test_keys_drawn_in_pieces_are_those_drawn_at_once(drawn, keyed_people, monkeypatch):
    monkeypatch.setattr("ilba.tables.keys._CHUNK", 7)
    expected = drawn.with_method(EU).cells["record_key"]
    assert built(keyed_people).with_method(EU).cells["record_key"].equals(expected)


def test_table_cell_and_cube_give_the_same_number(ons):
    moves = methods.CellKey(ons_ptable())
    table = ons.table(HKEY[-1], KEY, method=moves)
    row = table.frame.row(7)
    depth = len(HKEY)
    assert ons.cell(HKEY[-1], KEY, row[:depth], row[depth : depth + len(KEY)], method=moves) == row[depth + len(KEY)]
    cube = {one.selection.name: one.frame for one in ons.cube(max_keys=1, method=moves)}
    for name, frame in cube.items():
        level, _, key = name.partition(".")
        again = ons.table(0 if level == "all" else level, [key] if key else [], method=moves)
        assert frame.equals(again.frame), name


def test_counts_below_a_threshold_are_null_in_a_table_and_refused_as_a_cell(ons):
    blank = methods.CellKey(ons_ptable(), threshold=10)
    plain, cut = (ons.table(HKEY[-1], KEY, method=m).detail for m in (methods.CellKey(ons_ptable()), blank))
    small = plain["N_masked"] < 10
    assert small.any()
    assert cut.filter(small)["N_masked"].null_count() == int(small.sum())
    assert cut.filter(~small)["N_masked"].equals(plain.filter(~small)["N_masked"])
    table = ons.table(HKEY[-1], KEY, method=blank)
    assert table.public()["N_masked"].null_count() == 0
    assert table.loss["n"][-1] == int((~small).sum())
    first = plain.filter(small).row(0)
    with pytest.raises(InputError, match="below threshold=10"):
        ons.cell(HKEY[-1], KEY, first[: len(HKEY)], first[len(HKEY) : len(HKEY) + len(KEY)], method=blank)


def test_a_store_keeps_record_keys_and_says_so_by_its_format(ons, tmp_path):
    ons.save(tmp_path / "keys.parquet")
    again = ilba.open_store(tmp_path / "keys.parquet")
    assert again.record_keys == RecordKeys(256, "ons")
    moves = methods.CellKey(ons_ptable())
    assert again.table("town", method=moves).frame.equals(ons.table("town", method=moves).frame)
    assert json.loads(pl.read_parquet_metadata(tmp_path / "keys.parquet")["ilba"])["format"] == 3
    assert again.table("town").frame.equals(ons.table("town").frame)


def test_a_store_without_keys_and_without_a_secret_says_build_again(drawn):
    counts = ilba.FinestTable.from_counts(drawn.frame, HKEY, KEY)
    with pytest.raises(InputError, match="build again with record_key="):
        counts.table("region", method="cell-key")


def test_masks_and_ilba_tables_do_not_depend_on_record_keys(ons, drawn):
    assert ons.frame.equals(drawn.frame)
    assert ons.table("town", ["sex"]).frame.equals(drawn.table("town", ["sex"]).frame)
    assert About(ons.codes, record_keys=ons.record_keys).columns[-1] == "record_key"
    assert replace(ons._about, record_keys=None).columns == drawn._about.columns


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([0.5, None], "has missing keys"),
        ([0.5, 1.5], "decimals and numbers above 1"),
        ([-1, 3], "numbers below 0"),
        (["x", "1"], "not numbers"),
    ],
)
def test_record_keys_that_are_none_are_refused(values, said):
    people = pl.DataFrame({"town": ["a", "b"], "k": values})
    with pytest.raises(InputError, match=said):
        ilba.build(people, ["town"], [], secret=SECRET, record_key="k")


def test_record_keys_are_no_variable_of_a_table(keyed_people, tmp_path):
    with pytest.raises(InputError, match="is a column of the tables"):
        ilba.build(keyed_people, HKEY, ["ons"], secret=SECRET, record_key="ons")
    keyed_people.select("region", "sex", "eu").write_csv(tmp_path / "p.csv")
    from_csv = ilba.build(tmp_path / "p.csv", ["region"], secret=SECRET, record_key="eu")
    assert from_csv.design.keys == ("sex",)
    in_memory = ilba.build(
        keyed_people.select("region", "sex", "eu"), ["region"], ["sex"], secret=SECRET, record_key="eu"
    )
    assert from_csv.cells["record_key"].equals(in_memory.cells["record_key"])


def test_keys_of_european_files_may_have_decimal_commas_and_a_rounded_1_counts_as_0(tmp_path):
    (tmp_path / "comma.csv").write_text("town;k\na;0,25\na;0,5\nb;1\n")
    keyed = ilba.build(tmp_path / "comma.csv", ["town"], [], secret=SECRET, record_key="k")
    assert keyed.record_keys == RecordKeys(KEY_RANGE, "k")
    assert keyed.cells["record_key"].to_list() == [KEY_RANGE * 3 // 4, 0]


def test_records_that_fall_out_take_their_keys_with_them(keyed_people):
    cut = keyed_people.with_columns(sex=pl.when(pl.col("age") > 3).then("sex"))
    with pytest.warns(ilba.Notice, match="missing"):
        fewer = built(cut, "ons")
    moves = methods.CellKey(ons_ptable())
    whole = built(keyed_people.filter(pl.col("age") > 3), "ons")
    assert fewer.table("town", ["sex"], method=moves).frame["N_masked"].to_list() == (
        whole.table("town", ["sex"], method=moves).frame["N_masked"].to_list()
    )


# --- publishing


@pytest.fixture
def agency(tmp_path, monkeypatch):
    monkeypatch.delenv("ILBA_LEDGER", raising=False)
    SECRET.to_file(tmp_path / "agency.secret")
    return tmp_path


def published(agency, people, **more):
    people = people.select(*HKEY, *KEY, more["record_key"])
    return ilba.build(people, HKEY, KEY, secret=agency / "agency.secret", population="p", **more)


def test_a_release_holds_the_moved_counts_and_tells_the_parameters(keyed_people, agency):
    finest = published(agency, keyed_people, record_key="eu")
    with pytest.raises(UnsafeRelease, match="accept_risk"):
        finest.release(agency / "out", method=EU, tables=["block.age.job"])
    release = finest.release(agency / "out", method=EU, tables=["town.sex"], accept_risk=True)
    assert release.manifest["method"] == "cell-key"
    assert release.manifest["parameters"] == {"D": 2, "V": 1.0, "js": 0}
    assert not release.additive
    ours = finest.table("town", ["sex"], method=EU).public()
    assert release.table("town.sex")["N_masked"].to_list() == ours["N_masked"].to_list()
    assert "eu" not in (agency / "out" / "release.json").read_text()
    export(release.path, "town.sex", "json-stat", agency / "t.json")
    assert "changed slightly for confidentiality (cell-key), by at most 2" in str(
        json.loads((agency / "t.json").read_text())["note"]
    )


def test_a_release_by_an_own_ptable_is_audited_with_it(keyed_people, agency):
    moves, out = agency / "p.csv", str(agency / "out")
    ons_ptable().write_csv(moves)
    finest = published(agency, keyed_people, record_key="ons")
    finest.release(out, method=methods.CellKey(moves), tables=["town.sex"], accept_risk=True)
    asked = CliRunner().invoke(commands, ["audit", out])
    assert "--method cell-key:ptable=FILE" in str(asked.exception)
    store = str(finest.save(agency / "s.parquet"))
    told = CliRunner().invoke(commands, ["audit", out, "--store", store, "--method", f"cell-key:ptable={moves}"])
    assert "Audit of 1 table: method='cell-key'" in told.output
    other = f"cell-key:ptable={agency / 'q.csv'}"
    ons_ptable(9).write_csv(agency / "q.csv")
    for wrong in (other, "cell-key:D=2,V=1", "rounding:3"):
        for more in ([], ["--store", store]):
            refused = CliRunner().invoke(commands, ["audit", out, "--method", wrong, *more])
            assert "was made by 'cell-key ptable=" in str(refused.exception), wrong
    assert "audited unchanged" in str(CliRunner().invoke(commands, ["audit", out, "--mask-thr", "3"]).exception)
    for command in ("audit", "risk"):
        misspelt = CliRunner().invoke(commands, [command, f"{out}x", "--store", store])
        assert "cannot open" in str(misspelt.exception), "no word of a store"


def test_the_ledger_refuses_another_method_other_parameters_and_other_keys(keyed_people, agency):
    finest = published(agency, keyed_people, record_key="eu")
    finest.release(agency / "a", method=EU, tables=["town.sex"], accept_risk=True)
    finest.release(agency / "b", method="cell-key:D=2,V=1", tables=["region"], accept_risk=True)
    for method in (None, "ilba", "cell-key:D=3,V=1"):
        with pytest.raises(Conflict, match="was published with method='cell-key'"):
            finest.release(agency / "c", method=method, tables=["region"], accept_risk=True)
    other = published(agency, keyed_people, record_key="ons")
    with pytest.raises(Conflict, match="other record keys"):
        other.release(agency / "c", method=EU, tables=["region"], accept_risk=True)


def test_what_a_release_cannot_say_is_refused(drawn, tmp_path):
    with pytest.raises(InputError, match="is for comparison only"):
        drawn.release(tmp_path / "out", method="sca", ledger=False)
    with pytest.raises(InputError, match="depends on the other tables"):
        drawn.table("region", method="suppression")


def test_the_audit_attacks_the_numbers_that_a_release_shows(drawn):
    report = ilba.audit(drawn, "cell-key:D=2,V=1", tables=["town.sex", "region.sex"], explanations=0)
    shown = {rows.packed.size: rows.value for rows in report.published.tables.values()}
    for level in ("town", "region"):
        ours = drawn.table(level, ["sex"], method=EU).frame["N_masked"].to_numpy()
        assert np.array_equal(shown[len(ours)], ours)


def test_whole_keys_of_another_range_are_refused_since_they_would_all_move_counts_one_way(people):
    drawn = np.random.default_rng(1)
    for above in (300, 10**6, 2**24, 2 * 10**7, 2**26, 2**32):
        other = people.with_columns(other=pl.Series(drawn.integers(0, above, people.height)))
        with pytest.raises(InputError, match="divide them by its size"):
            built(other, "other")
    for least, above, parts in ((0, 100, 256), (1, 128, 256), (10**7, 10**8, 10**8)):
        other = people.with_columns(other=pl.Series(drawn.integers(least, above, people.height)))
        with pytest.warns(ilba.Notice, match=f"not spread over 0 to {parts - 1:,}, so small counts change in one "):
            assert built(other, "other").record_keys == RecordKeys(parts, "other")
    for records in (1, 2, 10, people.height):
        whole = people.head(records).with_columns(other=pl.Series(drawn.integers(0, 10**8, records)))
        assert built(whole, "other").record_keys == RecordKeys(10**8, "other")


def test_few_whole_keys_may_be_low_by_chance(people):
    few = people.head(3).with_columns(other=pl.Series([5, 70_000, 2_000_000]))
    assert built(few, "other").record_keys == RecordKeys(10**8, "other")
    with pytest.raises(InputError, match="from 0 to 255 or from 0 to 99,999,999, or numbers from 0 to 1"):
        built(few.with_columns(other=pl.Series([5, 700, 999])), "other")
