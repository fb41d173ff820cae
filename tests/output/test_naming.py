"""The names of files and sheets: readable, possible everywhere, and never the same for two tables."""

from __future__ import annotations

import io
import unicodedata

import openpyxl
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ilba.design.design import file_name, plain_name
from ilba.output.formats.xlsx import workbook
from ilba.output.naming import file_names, sheet_name

ODD = st.text(st.sampled_from("aAäÄΑα\u0301ίΐςΣ가İıßẞKK𐐀.:/\\?*\"<>|\x00\x1f\u2028%+~[]' "), min_size=1, max_size=150)


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("LA3.gender.age", "LA3.gender.age"),
        ("area+job_2.x-y~z", "area+job_2.x-y~z"),
        (f"{plain_name('Κοινότητα')}.{plain_name('Φύλο')}.time", "Κοινότητα.Φύλο.time"),
        (f"all.{plain_name('age group')}.{plain_name('1/2: a|b?')}", "all.age group.1_2_ a_b_"),
        (plain_name(".hidden"), "_hidden"),
        (plain_name(unicodedata.normalize("NFD", "Δήμος")), unicodedata.normalize("NFC", "Δήμος")),
    ],
)
def test_the_name_of_a_file_has_readable_letters_without_what_file_systems_forbid(table, name):
    assert file_names([table]) == {table: name}


@given(st.lists(st.lists(ODD, min_size=1, max_size=3), min_size=1, max_size=8))
def test_two_tables_never_have_the_same_file_and_every_file_can_be_made(columns):
    tables = dict.fromkeys(".".join(map(plain_name, one)) for one in columns)
    found = file_names(tables)
    assert list(found) == list(tables)
    for alike in (str.casefold, str.upper, lambda name: unicodedata.normalize("NFD", name).casefold()):
        assert len(set(map(alike, found.values()))) == len(tables)
    for name in found.values():
        assert len(f".{name}.zh-Hant.structure.xml.1a2b3c4d.tmp".encode()) <= 255
        assert not set(name) & set('<>:"/\\|?*\x00\x1f\u2028')
        assert not name.startswith(".")
        assert unicodedata.is_normalized("NFC", name)


def test_a_name_of_plain_letters_is_kept_and_the_other_table_gets_a_mark():
    dotted, every = f"town.{plain_name('age.band')}", plain_name("all")
    found = file_names([dotted, "town.age.band", every, "all", "long." * 50])
    assert found["town.age.band"] == "town.age.band"
    assert found["all"] == "all"
    assert found[dotted].startswith("town.age.band~")
    assert found[every].startswith("all~")
    assert found["long." * 50] == file_name("long." * 50), "as earlier versions named it"


@given(ODD)
def test_excel_takes_the_name_of_every_sheet(column):
    name = sheet_name(plain_name(column), ["Codes", "Σα"])
    assert 0 < len(name.encode("utf-16-le")) // 2 <= 31
    assert not set(name) & set("[]:*?/\\")
    assert name.strip("'") == name
    assert name.casefold() not in ("codes", "σα", "history")


def test_a_sheet_is_named_in_readable_letters():
    table = ".".join(map(plain_name, ("Κοινότητα", "Φύλο's", "Ηλικία")))
    content = workbook(pl.DataFrame({"a": ["x"], "n": [5]}), table, "T", [], 1)
    book = openpyxl.load_workbook(io.BytesIO(content))
    assert book.sheetnames == ["Κοινότητα.Φύλο's.Ηλικία"]
    assert sheet_name("LA3.gender.age.marital_status.nationality") == "LA3.gender.age.marital_status.n"
    assert [sheet_name("codes", ["Codes"]), sheet_name("History")] == ["codes_", "History_"]
