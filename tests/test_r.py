"""The R names: arguments, defaults, console output, and equality with the Python names."""

from __future__ import annotations

import inspect
import stat

import polars as pl
import pytest

import ilba
from support.people import HKEY, KEY
from support.places import GOLDEN, golden_bytes


@pytest.fixture
def here(tmp_path, monkeypatch, people, secret, capsys):
    monkeypatch.chdir(tmp_path)
    ilba.save_full_tb(people, HKEY, KEY, secret=secret)
    capsys.readouterr()
    return tmp_path


def test_the_signatures_are_the_contracts():
    def shown(function):
        return [
            f"{p.name}={p.default}" if p.default is not p.empty else p.name
            for p in inspect.signature(function).parameters.values()
        ]

    assert shown(ilba.apply_SCA) == ["freq", "mask_thr", "draws=None"]
    assert shown(ilba.apply_iLBA) == ["iLBA_inputs", "mask_thr"]
    assert shown(ilba.save_full_tb) == [
        "data",
        "hkey",
        "key=None",
        "mask_thr=5",
        "hkey_rank=None",
        "key_thr=100",
        "output_path=full_tb.parquet",
        "secret=None",
    ]
    assert shown(ilba.save_agg_tb) == [
        "hkey_level",
        "key",
        "input_path=full_tb.parquet",
        "output_tb_path=agg_tb.csv",
        "output_iL_path=info_loss.csv",
    ]
    assert shown(ilba.get_agg_freq) == [
        "hkey_level",
        "key",
        "hkey_value",
        "key_value",
        "input_path=full_tb.parquet",
    ]


def test_save_full_tb_prints_the_levels_the_keys_the_threshold_and_the_path(people, tmp_path, capsys, secret):
    path = tmp_path / "x.parquet"
    ilba.save_full_tb(
        people, ["town", "region", "block"], ["sex"], mask_thr=3, hkey_rank=[2, 1, 3], output_path=path, secret=secret
    )
    printed = capsys.readouterr().out
    assert "1:region | 2:town | 3:block" in printed
    assert "Key variables: sex" in printed
    assert "threshold: 3" in printed
    assert str(path) in printed
    assert ilba.open_store(path).design.threshold == 3


def test_keys_with_too_many_values_are_left_out_as_in_r(people, here, secret):
    with pytest.warns(ilba.Notice, match=r"more than 10 different values \(key_thr\): age"):
        finest = ilba.save_full_tb(people, HKEY, KEY, key_thr=10, secret=secret, output_path="few.parquet")
    assert finest.design.keys == ("sex", "job")
    with pytest.raises(ilba.UnknownArgument, match=r"ilba\.build makes the same store and has 'population'"):
        ilba.save_full_tb(people, HKEY, KEY, population="people")


def test_save_agg_tb_prints_and_writes_the_table_and_its_loss(here, finest, capsys):
    table = ilba.save_agg_tb(2, ["sex", "age"])
    printed = capsys.readouterr().out
    assert "Header of aggregated masked table via iLBA" in printed
    assert "region   town    sex   age N_masked type1 type2" in printed
    assert "<char> <char> <char> <int>    <int> <int> <int>" in printed
    assert "Distribution of Information Loss" in printed
    assert "Total 144 100.00" in printed
    written = pl.read_csv("agg_tb.csv", schema_overrides={"region": pl.String, "town": pl.String})
    assert written.equals(finest.table(2, ["sex", "age"]).frame)
    assert written.equals(table.frame)
    loss = pl.read_csv("info_loss.csv", schema_overrides={"perc": pl.Float64})
    assert loss.equals(table.loss)
    assert loss["Loss"].to_list()[-1] == "Total"
    assert loss["n"].to_list()[-1] == sum(loss["n"].to_list()[:-1]) == 144
    for name in ("agg_tb.csv", "info_loss.csv"):
        assert stat.S_IMODE((here / name).stat().st_mode) == 0o600


def test_get_agg_freq_equals_the_tables_entry(here, capsys):
    table = ilba.save_agg_tb(2, ["sex", "job"])
    for region, town, sex, job, masked, _, _ in table.frame.rows():
        assert ilba.get_agg_freq(2, ["sex", "job"], [region, town], [sex, job]) == masked
    assert "combination" not in capsys.readouterr().err


def test_get_agg_freq_is_0_with_a_message_for_a_combination_that_does_not_occur(here, capsys):
    assert ilba.get_agg_freq(2, ["sex"], ["01", "0203"], ["f"]) == 0
    assert "does not occur" in capsys.readouterr().err


@pytest.mark.slow
def test_r_names_read_the_r_packages_own_file(tmp_path, capsys):
    rds = GOLDEN / "us_acs" / "full_tb.rds"
    table = ilba.save_agg_tb(1, ["SEX", "MSP"], rds, tmp_path / "t.csv", tmp_path / "l.csv")
    assert (tmp_path / "t.csv").read_bytes() == golden_bytes(rds.with_name("agg_L1_SEX-MSP.csv"))
    row = table.frame.row(3)
    assert ilba.get_agg_freq(1, ["SEX", "MSP"], [row[0]], row[1:3], rds) == row[3]


@pytest.mark.parametrize("level", [0, "town", True, 4, -1, 1.5])
def test_hkey_level_is_a_number_from_1(here, level):
    with pytest.raises(ilba.InputError, match="level"):
        ilba.save_agg_tb(level, ["sex"])
    assert not (here / "agg_tb.csv").exists()


def test_two_outputs_in_one_file_are_refused(here):
    with pytest.raises(ilba.InputError, match="same file"):
        ilba.save_agg_tb(1, ["sex"], output_iL_path="agg_tb.csv")
    assert not (here / "agg_tb.csv").exists()


def test_a_missing_store_is_told(tmp_path):
    with pytest.raises(ilba.StoreError, match="cannot open"):
        ilba.get_agg_freq(1, [], ["01"], [], tmp_path / "none.parquet")


def test_a_loop_over_cells_reads_the_store_once_until_it_changes(here, people, secret, monkeypatch):
    read: list[str] = []
    monkeypatch.setattr("ilba.r.open_store", lambda file: read.append(file.name) or ilba.open_store(file))
    table = ilba.open_store("full_tb.parquet").table(1, ["sex"]).frame
    for region, sex, masked, *_ in table.rows():
        assert ilba.get_agg_freq(1, ["sex"], [region], [sex]) == masked
    assert read == ["full_tb.parquet"]
    ilba.save_full_tb(people.head(40), HKEY, KEY, secret=secret)
    fewer = ilba.open_store("full_tb.parquet").table(1, ["sex"]).frame
    for region, sex, masked, *_ in fewer.rows():
        assert ilba.get_agg_freq(1, ["sex"], [region], [sex]) == masked
    assert len(read) == 2
