"""Files as they come: encodings, separators, workbooks."""

from __future__ import annotations

import gzip
from datetime import datetime

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
    "cp1253": "Δήμος;Φύλο\nΆργος;Θήλυ\n",
    "iso8859-7": "Δήμος;Φύλο\nΆργος;Θήλυ\n",
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


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("город;пол\nМосква;женский\nСанкт-Петербург;мужской\n", "cp1251"),
        ("город;пол\nМосква;женский\nСанкт-Петербург;мужской\n", "koi8-r"),
        ("עיר;מין\nתל אביב;זכר\nירושלים;נקבה\nחיפה;נקבה\n", "cp1255"),
        ("المدينة;الجنس\nالقاهرة;ذكر\nالإسكندرية;أنثى\nالجيزة;أنثى\n", "cp1256"),
        ("commune;sexe\nÉpône;féminin\nVélizy;âgée\n", "cp1252"),
    ],
)
def test_other_letters_are_not_taken_for_greek(text, encoding, tmp_path):
    (tmp_path / "p.csv").write_bytes(text.encode(encoding))
    assert guessed(tmp_path / "p.csv") not in ("cp1253", "iso8859-7")


def test_the_line_of_a_guess_says_how_to_set_the_encoding(tmp_path):
    (tmp_path / "p.csv").write_bytes(("Δήμος;Φύλο\n" + "Άργος;Θήλυ\n" * 9).encode("cp1253"))
    about = ilba.inspect(tmp_path / "p.csv").records.about
    assert "in cp1253 (a guess: if letters look wrong, --encoding NAME)" in about


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


def test_dates_in_cells_of_a_workbook_are_found_and_read_as_days_and_other_times_are_refused(tmp_path, secret):
    with xlsxwriter.Workbook(tmp_path / "p.xlsx") as book:
        sheet, shown = book.add_worksheet(), book.add_format({"num_format": "d/m/yyyy"})
        sheet.write_row(0, 0, ["town", "born"])
        for day in range(1, 21):
            sheet.write(day, 0, "a")
            if day % 2:
                sheet.write_datetime(day, 1, datetime(1931, 4, day), shown)
            else:
                sheet.write(day, 1, f"{day}/4/1931")
    forms = ["%d/%m/%Y", "%Y-%m-%d"]
    assert sorted(ilba.inspect(tmp_path / "p.xlsx").records.column("born").date) == sorted(forms)
    finest = ilba.build(tmp_path / "p.xlsx", "town", "born", secret=secret, recipe={"born": {"date": forms}})
    assert finest.frame["born"].to_list() == [f"1931-04-{day:02}" for day in range(1, 21)]
    late = pl.DataFrame({"town": ["a"], "born": ["1931-04-19 10:05:00"]})
    with pytest.raises(ilba.InputError, match="not written as '%Y-%m-%d'"):
        ilba.build(late, "town", "born", secret=secret, recipe={"born": {"date": "%Y-%m-%d"}})


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
