"""Files as they come: encodings, separators, workbooks."""

from __future__ import annotations

import gzip

import polars as pl
import pytest
import xlsxwriter

import ilba
from ilba.data.csvfiles import guessed

TEXTS = {
    "utf-8": "도시;성별\n서울;여\n",
    "utf-8-sig": "도시;성별\n서울;여\n",
    "utf-16": "도시;성별\n서울;여\n",
    "cp949": "도시;성별\n서울;여\n",
    "cp1252": "Ort;Geschl\nKöln – Süd;f\n",
    "cp1250": "gmina;płeć\nŁódź;k\n",
    "cp1254": "İlçe;Öğrenim\nŞuhut;ilköğretim\n",
}


@pytest.mark.parametrize("encoding", TEXTS)
@pytest.mark.parametrize("packed", [False, True])
def test_a_csv_in_a_declared_encoding_is_read(encoding, packed, tmp_path, secret):
    file = tmp_path / ("p.csv.gz" if packed else "p.csv")
    content = TEXTS[encoding].encode(encoding)
    file.write_bytes(gzip.compress(content) if packed else content)
    assert guessed(file) == encoding
    header, row = (
        (line.split(";") for line in TEXTS[encoding].split())
        if encoding != "cp1252"
        else (
            ["Ort", "Geschl"],
            ["Köln – Süd", "f"],
        )
    )
    finest = ilba.build(file, header[0], header[1], secret=secret, read={"encoding": encoding})
    assert finest.frame.select(header).row(0) == tuple(row)


def test_bytes_that_windows_has_no_letters_for_are_latin_1(tmp_path):
    (tmp_path / "p.csv").write_bytes(b"a,b\n\xe9\x81,x\n")
    assert guessed(tmp_path / "p.csv") == "latin-1"


def test_letters_of_icelandic_are_not_taken_for_turkish(tmp_path):
    (tmp_path / "p.csv").write_bytes("Landshluti;Kyn\nSuðurland;karl\nHöfuðborgarsvæðið;Þórður\n".encode("cp1252"))
    assert guessed(tmp_path / "p.csv") == "cp1252"


@pytest.mark.parametrize("separator", [";", "|", "tab", "^"])
def test_any_separator_can_be_declared(separator, tmp_path, secret):
    (tmp_path / "p.csv").write_text("a,x{0}b\n1,5{0}2\n".format("\t" if separator == "tab" else separator))
    finest = ilba.build(tmp_path / "p.csv", "a,x", "b", secret=secret, read={"separator": separator})
    assert finest.frame.select("a,x", "b").row(0) == ("1,5", "2")


def test_a_sheet_of_a_workbook_is_read_as_text(tmp_path, secret):
    with xlsxwriter.Workbook(tmp_path / "p.xlsx") as book:
        book.add_worksheet("notes")
        sheet = book.add_worksheet("people")
        for number, row in enumerate([["town", "age"], ["01", 7], [None, None], ["02", 8.0]]):
            sheet.write_row(number, 0, row)
    finest = ilba.build(tmp_path / "p.xlsx", "town", "age", secret=secret, read={"sheet": "people"})
    assert finest.frame.select("town", "age").rows() == [("01", "7"), ("02", "8")]
    with pytest.raises(ilba.InputError, match=r"no sheet 'peple'. Did you mean 'people'"):
        ilba.build(tmp_path / "p.xlsx", "town", "age", secret=secret, read={"sheet": "peple"})


@pytest.mark.parametrize(
    ("read", "says"),
    [
        ({"encoding": "cp94"}, "encoding='cp94' is not known. Did you mean 'cp949'"),
        ({"seperator": ";"}, "read names 'seperator'. Did you mean 'separator'"),
        ({"separator": ";;"}, "is not one letter"),
        ({"encoding": "cp949"}, "is not CP949"),
    ],
)
def test_what_cannot_be_declared_is_refused(read, says, tmp_path, secret):
    (tmp_path / "p.csv").write_bytes("a,b\nKöln,x\n".encode("cp1252"))
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(tmp_path / "p.csv", "a", "b", secret=secret, read=read)


@pytest.mark.parametrize(("marked", "said"), [("utf-16", "UTF-16"), ("utf-8-sig", "UTF-8")])
def test_a_file_that_begins_with_the_mark_of_another_encoding_is_refused(marked, said, tmp_path, secret):
    (tmp_path / "p.csv").write_bytes("a,b\nKöln,x\n".encode(marked))
    with pytest.raises(ilba.InputError, match=f"is {said}, not CP1252. Leave the encoding out"):
        ilba.build(tmp_path / "p.csv", "a", "b", secret=secret, read={"encoding": "cp1252"})


def test_a_frame_needs_no_reading(secret):
    with pytest.raises(ilba.InputError, match=r"read is only for files"):
        ilba.build(pl.DataFrame({"a": ["x"]}), "a", secret=secret, read={"encoding": "cp949"})
