"""Files of R: what R itself saved comes in with its labels, and a damaged file is told in a sentence."""

from __future__ import annotations

import gzip
import os
import warnings
from datetime import date, datetime

import numpy as np
import pandas as pd
import pytest
import rdata
from hypothesis import given
from hypothesis import strategies as st

import ilba
from ilba.data import rfiles
from support.commands import called
from support.places import ROOT

FILES = ROOT / "tests" / "data" / "r"


@pytest.fixture(scope="module")
def people():
    return rfiles.read_r_frame(FILES / "people.rds")


def test_every_kind_of_column_comes_in_as_r_shows_it(people):
    first = people.row(0, named=True)
    assert first == {
        "region": "01",
        "town": "0101",
        "sex": "f",
        "job": "공무원",
        "owner": True,
        "age": 1,
        "rooms": 1.0,
        "share": 0.5,
        "since": date(2020, 1, 31),
        "seen": datetime(2020, 1, 31, 9),
        "line": 1,
        "mark": "1",
        "tags": None,
        "big": 2**32,
        "latin": "café",
        "nines": "123456789",
    }
    assert people["line"].to_list() == [int(text) for text in people["mark"]] == list(range(1, 41))
    assert people["town"].to_list() == [town for town in ("0101", "0102", "0201", "0202") for _ in range(10)]
    assert people["since"][3] == date(1969, 12, 31)
    assert people["seen"][1] == datetime(2021, 7, 1, 10, 30)
    assert people["job"].to_list()[:4] == ["공무원", "none", "café", "a text of more than sixteen bytes"]
    assert people["nines"].to_list()[:4] == ["123456789", "tab\tis 9", "", "NA"]
    missing = {"sex": 10, "owner": 10, "age": 8, "rooms": 10, "since": 10, "tags": 40}
    assert {name: people[name].null_count() for name in people.columns if people[name].null_count()} == missing


@pytest.mark.parametrize(
    "name", ["people-v2.rds", "people-xz.rds", "people-bz2.rds", "people-plain.rds", "people.RData"]
)
def test_every_version_compression_and_workspace_holds_the_same(people, name):
    assert rfiles.read_r_frame(FILES / name).equals(people)


def test_another_reader_reads_the_same_texts_and_numbers(people):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = rdata.read_rds(FILES / "people.rds")
    for name in ("region", "job", "latin", "nines", "mark"):
        assert people[name].to_list() == theirs[name].tolist(), name
    for name in ("share", "line"):
        assert people[name].to_list() == list(theirs[name]), name


@pytest.mark.parametrize("name", ["people.rds", "people.RData", "people-copy.rda"])
def test_microdata_of_r_are_built_like_any_other(people, secret, tmp_path, name):
    file = FILES / name
    if not file.exists():
        file = tmp_path / name
        file.write_bytes((FILES / "people.RData").read_bytes())
    options = {"missing": "category", "secret": secret}
    keys = ["sex", "owner", "age", "rooms", "share", "since", "seen"]
    built = ilba.build(file, ["region", "town"], keys, **options)
    assert built.frame.equals(ilba.build(people, ["region", "town"], keys, **options).frame)
    assert set(built.frame["since"]) == {"2020-01-31", "2021-12-01", "1969-12-31", None}
    assert set(built.frame["owner"]) == {"true", "false", None}
    assert set(built.frame["seen"]) == {"2020-01-31T09:00:00", "2021-07-01T10:30:00"}
    assert set(built.frame["rooms"]) == {1, 2, 10, None}


def test_a_finest_table_of_r_keeps_dates_factors_and_logical_values_as_documented():
    finest = ilba.read_rds(FILES / "full_tb.rds")
    assert finest.frame.rows() == [
        ("a", "2020-01-31", "small", "true", 3, 5),
        ("a", "2021-12-01", "large", "false", 8, 8),
        ("b", "2020-01-31", "small", "true", 1, 0),
        ("b", "2021-12-01", "small", "true", 6, 6),
    ]
    assert finest.cell("town", ["since"], ["a"], ["2020-01-31"]) == 5
    assert finest.cell("town", ["since"], ["a"], [date(2020, 1, 31)]) == 5


def test_a_finest_table_of_r_without_masks_is_refused_since_new_ones_would_be_nobodys(tmp_path):
    whole = gzip.decompress((FILES / "full_tb.rds").read_bytes())
    assert b"N_masked" in whole
    (tmp_path / "full_tb.rds").write_bytes(gzip.compress(whole.replace(b"N_masked", b"N_hidden")))
    with pytest.raises(ilba.StoreError, match=r"no N_masked, so there are no masks by R.*FinestTable\.from_counts"):
        ilba.read_rds(tmp_path / "full_tb.rds")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("text.rds", "was saved as text"),
        ("numbers.rds", "has no data frame, but an object of the kind integer"),
        ("two.RData", r"several data frames \(people, others\)"),
        ("none.RData", "has no data frame, only numbers"),
        ("full_tb.rds", r"ilba table full_tb\.rds.* ilba\.read_rds"),
    ],
)
def test_a_file_without_one_data_frame_is_refused_with_what_to_do(name, says):
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(FILES / name, ["region"])


def test_a_column_of_lists_is_refused_as_a_key_and_ignored_elsewhere(secret):
    ilba.build(FILES / "people.rds", ["region"], ["share"], secret=secret)
    with pytest.raises(ilba.InputError, match="'tags' has the type"):
        ilba.build(FILES / "people.rds", ["region"], ["tags"], secret=secret)
    with pytest.raises(ilba.StoreError, match=r"not a finest table .* Records are counted by ilba\.build"):
        ilba.read_rds(FILES / "people.rds")


@pytest.mark.parametrize("command", ["table", "convert", "doctor"])
def test_a_finest_table_of_r_that_was_saved_in_another_way_is_told_with_what_to_type(tmp_path, command):
    table = pd.DataFrame({"town": ["a", "b"], "N": [3, 9], "N_masked": [5, 9]}).astype({"town": object})
    table = table.astype({"N": "int32", "N_masked": "int32"})
    saved = {"full_tb": table, "mask_thr": np.array([5], dtype="int32"), "hkey": np.array(["town"], dtype=object)}
    rdata.write_rda(tmp_path / "whole.RData", {"kept": saved})
    rdata.write_rda(tmp_path / "counts.rda", {"full_tb": table})
    rdata.write_rds(tmp_path / "counts.rds", table)
    for name, says in {
        "whole.RData": "saveRDS(kept, 'full_tb.rds')",
        "counts.rda": "ilba.FinestTable.from_counts('counts.rda', hkey=",
        "counts.rds": "ilba.FinestTable.from_counts('counts.rds', hkey=",
    }.items():
        done = called(command, name, *(["s.parquet"] if command == "convert" else []), cwd=tmp_path)
        assert done.returncode
        assert says in done.stdout + done.stderr
    kept = ilba.FinestTable.from_counts(tmp_path / "counts.rda", hkey=["town"], mask_thr=5)
    assert kept.frame["N_masked"].to_list() == [5, 9]


@pytest.mark.parametrize("code", [0, -1, 3])
def test_a_factor_with_a_code_that_is_none_of_its_levels_is_refused(tmp_path, code):
    whole = gzip.decompress((FILES / "full_tb.rds").read_bytes())
    before, after = (np.array([1, 2, number, 1], dtype=">i4").tobytes() for number in (1, code))
    assert whole.count(before) == 1
    (tmp_path / "full_tb.rds").write_bytes(gzip.compress(whole.replace(before, after)))
    with pytest.raises(
        ilba.StoreError, match=r"Its table has a factor, '.+', with a code that is none of its levels.*as text"
    ):
        ilba.read_rds(tmp_path / "full_tb.rds")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["people-plain.rds", "people.RData"])
def test_a_damaged_file_is_told_in_a_sentence(tmp_path, name):
    whole = (FILES / name).read_bytes()
    whole = whole if name.endswith("plain.rds") else gzip.decompress(whole)
    rng = np.random.default_rng(5)
    file = tmp_path / "damaged.rds"
    told = []
    for place in [*range(30), *rng.integers(0, len(whole), 40).tolist()]:
        for damaged in (whole[:place], whole[:place] + bytes([whole[place] ^ (1 << place % 8)]) + whole[place + 1 :]):
            file.write_bytes(damaged)
            try:
                rfiles.read_r_frame(file)  # a changed letter of a label may well be read
            except ilba.InputError as problem:
                told.append(str(problem))
    assert len(told) > 70
    assert all(text.startswith(repr(str(file))) for text in told)
    file.write_bytes(b"")
    with pytest.raises(ilba.StoreError, match="not a finest table"):
        ilba.read_rds(file)


texts = st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20))


def serialized(values: list[str | None]) -> bytes:
    """A vector of texts as R writes it, one after the other."""
    written = b"X\n" + bytes([0, 0, 0, 3, 0, 4, 2, 2, 0, 3, 5, 0, 0, 0, 0, 5]) + b"UTF-8"
    written += (16).to_bytes(4, "big") + len(values).to_bytes(4, "big")
    for text in values:
        if text is None:
            written += (9).to_bytes(4, "big") + b"\xff" * 4
        else:
            head = 0x40009 if text.isascii() else 0x8009
            written += head.to_bytes(4, "big") + len(text.encode()).to_bytes(4, "big") + text.encode()
    return written


@pytest.mark.slow
@given(st.lists(texts, max_size=30), st.integers(1, 3))
def test_texts_of_any_length_are_found_whatever_they_hold(tmp_path_factory, values, times):
    file = tmp_path_factory.getbasetemp() / "texts.rds"
    file.write_bytes(serialized(values * times))
    assert rfiles.read_r(file).values.to_list() == values * times


def test_texts_longer_than_a_block_and_in_the_encoding_of_windows_are_read(tmp_path, monkeypatch):
    file = tmp_path / "texts.rds"
    monkeypatch.setattr(rfiles, "_BLOCK", 64)
    values = ["a" * 500, "b", None, "c" * 70, *"de" * 50, "123456789"]
    file.write_bytes(serialized(values))
    assert rfiles.read_r(file).values.to_list() == values
    # R before 4.2 wrote Korean texts on Windows in the code page, which the head of the file names.
    korean = serialized(["x", "y", "x"]).replace(b"\x05UTF-8", b"\x05CP949").replace(
        b"\0\x04\0\x09\0\0\0\x01y", b"\0\0\0\x09\0\0\0\x04" + "서울".encode("cp949")
    )  # fmt: skip
    file.write_bytes(korean)
    assert rfiles.read_r(file).values.to_list() == ["x", "서울", "x"]
    # R in the locale C, as in a container, calls its texts ASCII and keeps the bytes that it read.
    of_c = korean.replace(b"\x05CP949", b"\x0eANSI_X3.4-1968").replace(
        b"\x04" + "서울".encode("cp949"), b"\x06" + "서울".encode()
    )
    file.write_bytes(of_c)
    assert rfiles.read_r(file).values.to_list() == ["x", "서울", "x"]
    file.write_bytes(korean.replace(b"\x05CP949", b"\x05UTF-8"))
    with pytest.raises(ilba.InputError, match=r"not UTF-8.*x <- rapply.x, iconv, 'character', how='replace'"):
        rfiles.read_r(file)


def test_the_r_names_read_a_file_of_r_once_until_it_changes(tmp_path, monkeypatch, capsys):
    file = tmp_path / "full_tb.rds"
    file.write_bytes((FILES / "full_tb.rds").read_bytes())
    read = []
    monkeypatch.setattr("ilba.r.read_rds", lambda path: read.append(path) or ilba.read_rds(path))
    for _ in range(3):
        assert ilba.get_agg_freq(1, ["size"], ["a"], ["small"], file) == 5
    assert len(read) == 1
    os.utime(file, ns=(1, 1))
    assert ilba.get_agg_freq(1, ["size"], ["a"], ["small"], file) == 5
    assert len(read) == 2
    file.unlink()
    with pytest.raises(ilba.StoreError, match="there is no file"):
        ilba.get_agg_freq(1, ["size"], ["a"], ["small"], file)


def test_the_masks_of_r_are_compared_without_a_secret():
    with pytest.warns(ilba.Notice, match="a throw-away secret"):
        compared = ilba.compare(ilba.read_rds(FILES / "full_tb.rds"), ["town"])
    assert "controlled" in compared.rows["method"].to_list()
