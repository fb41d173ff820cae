"""What files are: columns, near-duplicates, hierarchies, and how code lists and maps match."""

from __future__ import annotations

import json
import sys
import tomllib
import warnings

import polars as pl
import pytest
import xlsxwriter

import ilba
from ilba.data import inspecting
from ilba.data.columns import facts_of
from ilba.publication.proposing import init
from support import messy
from support.commands import run
from support.rwriting import labelled_frame

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return messy.write(tmp_path_factory.mktemp("messy") / "data")


@pytest.fixture(scope="module")
def found(folder):
    return ilba.inspect(folder)


def test_a_file_says_how_it_is_written(found):
    facts = {one.path.rpartition("/")[2]: one for one in found.files}
    records = facts["people.csv"]
    assert (records.what, records.reading.encoding, records.reading.separator) == ("records", "cp1252", ";")
    assert (records.decimal, records.records, records.is_part) == (",", 4000, False)
    assert (facts["towns.xlsx"].what, facts["towns.xlsx"].sheets) == ("code list", ("Gemeinden",))
    assert facts["towns.gpkg"].about == "a map of 16 shapes, in the projection EPSG:25832"


def test_each_column_gets_its_kind(found):
    kinds = dict(found.columns.select("column", "kind").rows())
    assert kinds == {
        "person_id": "identifier",
        "AGS": "category",
        "Ort": "category",
        "Geschlecht": "category",
        "Alter": "age",
        "Beruf": "category",
        "Einkommen": "decimal",
    }


def test_values_that_are_nearly_the_same_are_named(found):
    column = found.records.column
    assert column("Geschlecht").alike == ((" f", "F", "female"), ("M", "m", "male"))
    assert column("Geschlecht").values == 2
    assert column("AGS").pad == 5
    assert column("Beruf").spellings == ("NA",)


def test_code_lists_and_maps_match_by_any_column_and_suggest_leading_zeros(found):
    assert [(m.column, m.by, m.padded, m.pad, m.extra) for m in found.matches] == [
        ("AGS", "gem_key", 1.0, 5, 1),
        ("AGS", "Schluessel", 1.0, 5, 1),
    ]
    assert all(match.share < 1 for match in found.matches)


def test_a_name_beside_its_code_is_no_key_and_identifiers_and_quantities_are_none(found):
    assert found.records.same == (("AGS", "Ort"),)
    assert found.keys == ("Geschlecht", "Alter", "Beruf")
    assert found.hierarchies == (("AGS",),)


def test_no_value_of_an_identifier_is_shown(found):
    for text in (str(found), json.dumps(found.to_json()), found._repr_html_()):
        assert "P000" not in text


def test_numbers_of_records_below_K_are_not_shown(tmp_path):
    rows = ["a,f"] * 30 + ["a,NA"] * 3 + [" a,m"] * 4 + ["b,m"] * 10
    (tmp_path / "p.csv").write_text("town,sex\n" + "\n".join(rows) + "\n")
    found = ilba.inspect(tmp_path / "p.csv")
    sex, town = (found.records.column(name).to_json(5) for name in ("sex", "town"))
    assert sex["missing"] == "<5"
    assert town["blanks"] == "<5"
    assert "<5 missing (spelled 'NA')" in str(found)
    assert ilba.inspect(tmp_path / "p.csv", mask_thr=3).records.column("sex").to_json(3)["missing"] == 3


@pytest.mark.parametrize(("twice", "said"), [(7, "7 records of"), (2, "<5 records of"), (0, "")])
def test_records_that_are_in_a_file_twice_are_told_if_it_has_an_identifier(tmp_path, twice, said):
    people = pl.DataFrame({"id": [f"R{n}" for n in range(60)], "town": list("abc") * 20, "sex": list("fm") * 30})
    file = tmp_path / "p.csv"
    pl.concat([people, people.head(twice)]).write_csv(file)
    found = ilba.inspect(file)
    assert ("are the same as another one" in str(found)) == bool(twice)
    assert found.repetition.startswith(said)
    assert "2 records" not in found.repetition
    assert any("repeats in" in one for one in found.records.column("id").remarks(5)) == bool(twice)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        init(file, out=tmp_path / "publication.toml")
    assert ("would count twice" in " ".join(str(one.message) for one in told)) == bool(twice)
    people.select("town", "sex").write_csv(file)
    assert not ilba.inspect(file).repetition, "different people may be alike"


def test_records_are_not_in_a_file_twice_where_another_column_has_nearly_as_many_values(tmp_path):
    days = [f"day {n % 40}-{n % 31}" for n in range(2000)]
    pl.DataFrame({"day": days, "town": [f"t{n // 7 % 3}" for n in range(2000)]}).write_csv(tmp_path / "p.csv")
    found = ilba.inspect(tmp_path / "p.csv")
    assert found.records.column("day").kind == "identifier"
    assert found.records.frame.n_unique() < found.records.records
    assert not found.repetition


@pytest.mark.parametrize("word", ["Összesen", "Mindösszesen", "Ukupno", "Укупно", "Kokku", "Iš viso", "Σύνολο", 'סה"כ'])
def test_a_line_of_totals_is_found_by_the_words_of_many_languages(word):
    assert facts_of(pl.Series("town", [*(["a", "b"] * 30), word])).totals == (word,)


@pytest.mark.parametrize(
    ("last", "totals"),
    [
        ("Qwxz;;;;3000", {"id": ("Qwxz",)}),
        ("301;Qwxz;;;3000", {"town": ("Qwxz",)}),
        ("301;a;;;3000", {}),
        ("301;Qwxz;f;;3000", {}),
        ("301;;;;3000", {}),
        ("301;;x;NA;3000", {"sex": ("x",)}),
        ("301;;NA;;3000", {}),
        ("301;0107;;;3000", {}),
    ],
)
def test_a_last_record_with_a_single_word_is_a_line_of_totals_in_any_language(tmp_path, last, totals):
    people = "".join(f"{n};{'abc'[n % 3]};{'fm'[n % 2]};{'vw'[n % 4 // 2]};{n % 90 + 10}\n" for n in range(300))
    (tmp_path / "p.csv").write_text(f"id;town;sex;job;income\n{people}{last}\n")
    records = ilba.inspect(tmp_path / "p.csv").records
    assert {one.name: one.totals for one in records.columns if one.totals} == totals
    assert records.records == 301 - len(totals)
    (tmp_path / "p.csv").write_text(f"id;town;sex;job;income\n{people}{last}\nSource: office;;;;\n")
    records = ilba.inspect(tmp_path / "p.csv").records
    assert {one.name: one.totals for one in records.columns if one.totals} == totals, "also above a footnote"


def test_no_name_is_shown_as_a_line_of_totals(tmp_path):
    people = "".join(f"{chr(97 + n % 26) * (n // 26 + 2)},a,f,v\n" for n in range(100))
    (tmp_path / "p.csv").write_text(f"name,town,sex,job\n{people}Miller,,,\n")
    found = ilba.inspect(tmp_path / "p.csv")
    assert found.records.column("name").kind == "identifier"
    assert "Miller" not in str(found)


@pytest.mark.parametrize(
    ("codes", "pad"),
    [
        (range(13), 0),
        (["0", "00", *range(1, 13)], 2),
        (["01", *range(2, 13)], 2),
        (["1", "01", *range(2, 13)], 2),
        (["01", "011", *range(20, 30)], 0),
    ],
)
def test_leading_zeros_are_proposed_only_where_some_codes_have_them(codes, pad):
    assert facts_of(pl.Series("rooms", [str(code) for code in codes] * 30)).pad == pad


def test_columns_that_lie_in_each_other_are_proposed_as_hierarchies(tmp_path, people):
    towns = pl.DataFrame({"x": range(6000)}).select(
        (pl.col("x") % 4).cast(pl.String).alias("country"),
        (pl.col("x") % 12).cast(pl.String).alias("region"),
        (pl.col("x") % 60).cast(pl.String).alias("town"),
        (pl.col("x") // 7 % 2).cast(pl.String).alias("sex"),
    )
    towns.write_parquet(tmp_path / "p.parquet")
    found = ilba.inspect(tmp_path / "p.parquet")
    assert found.hierarchies == (("country", "region", "town"),)
    assert found.keys == ("sex",)


def test_of_a_large_file_the_first_part_is_read_and_that_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(inspecting, "SAMPLE", 100)
    people = pl.DataFrame({"town": ["a", "b"] * 200, "sex": ["f", "", "f", " m"] * 100})
    people.write_csv(tmp_path / "p.csv")
    found = ilba.inspect(tmp_path / "p.csv")
    (facts,) = found.files
    assert facts.is_part
    assert "the first 100 records" in facts.about
    assert "25 missing among those read; blanks around values in 25 records among those read" in str(found)
    people.head(100).write_csv(tmp_path / "p.csv")
    assert "25 missing; blanks around values in 25 records\n" in str(ilba.inspect(tmp_path / "p.csv"))


def test_of_large_parquet_partitioned_by_region_all_regions_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(inspecting, "SAMPLE", 200)
    for region in ("01", "02", "03"):
        (tmp_path / f"lake/region={region}").mkdir(parents=True)
        towns = pl.DataFrame({"town": [f"{region}1", f"{region}2"] * 200, "sex": ["f", "m", "m", "f"] * 100})
        towns.write_parquet(tmp_path / f"lake/region={region}/part-0.parquet")
    found = ilba.inspect(tmp_path / "lake")
    assert found.hierarchies == (("region", "town"),)
    assert "200 of 1,200 records" in str(found)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1990-01-31", "2001-12-01"] * 30, "date"),
        (["31.01.1990", "01.12.2001"] * 30, "date"),
        (["31.1.90", "1.12.01"] * 30, "date"),
        (["31.01.1990", "1990-01-31", "31/01/90"] * 20, "date"),
        (["1980.05.17.", "2001.12.01."] * 30, "date"),
        (["1980. 5. 17.", "2001. 12. 1."] * 30, "date"),
        (["1980.05.17", "2001. 12. 01"] * 30, "date"),
        (["17.05.1980.", "1. 12. 2001."] * 30, "date"),
        (["31/01/1990", "01/31/1990"] * 30, "category"),
        (["x"] * 60, "constant"),
        ([None, "NA", "n.d.", "NR"] * 20, "empty"),
        ([str(i * 7) for i in range(40)] * 30, "category"),
        ([f"{i / 7:.3f}" for i in range(300)] * 2, "decimal"),
        ([f"K{i:03d}" for i in range(300)] * 4, "code"),
        ([f"some words {i}" for i in range(300)] * 4, "text"),
    ],
)
def test_a_kind_follows_from_the_values(values, kind, tmp_path):
    pl.DataFrame({"x": values, "y": ["a", "b"] * (len(values) // 2)}).write_csv(tmp_path / "p.csv")
    assert ilba.inspect(tmp_path / "p.csv").records.column("x").kind == kind


def test_words_for_no_data_are_missing_values_in_any_case(tmp_path):
    words = ["b/d", "Brak danych", "nie ustalono", "Neuvedeno", "não informado", "ΔΞ/ΔΑ", "keine Angabe"]
    pl.DataFrame({"town": list("abcd") * 60, "status": [*words, "?"] + ["single", "married"] * 116}).write_csv(
        tmp_path / "p.csv"
    )
    status = ilba.inspect(tmp_path / "p.csv").records.column("status")
    assert (status.values, status.missing) == (2, 8)
    assert set(status.spellings) == {*words, "?"}


def test_two_letters_are_a_missing_value_unless_the_others_are_codes_of_two_letters(tmp_path):
    rows = [
        f"{'ab'[n % 2]},{['m', 'f', 'NR'][n % 3]},{['NR', 'NZ', 'FJ'][n % 3]},{['N/R', 'x', 'y'][n % 3]}\n"
        for n in range(90)
    ]
    (tmp_path / "p.csv").write_text("town,sex,born_in,job\n" + "".join(rows))
    found = ilba.inspect(tmp_path / "p.csv").records
    assert {one.name: (one.values, one.spellings) for one in found.columns} == {
        "town": (2, ()), "sex": (2, ("NR",)), "born_in": (3, ()), "job": (2, ("N/R",)),
    }  # fmt: skip
    said = tomllib.loads(init(tmp_path, out=tmp_path / "publication.toml").read_text("utf-8"))
    assert said["recipe"] == {"missing": ["N/R"], "sex": {"missing": ["NR"]}}  # Nauru stays a country
    (tmp_path / "sexes.csv").write_text("code,name\nm,Male\nf,Female\nNR,Not reported\n")
    with_list = init(tmp_path / "p.csv", tmp_path / "sexes.csv", out=tmp_path / "listed.toml").read_text("utf-8")
    assert "sex" not in tomllib.loads(with_list)["recipe"]  # its code list has the code
    assert {"recipe.missing", "recipe.sex"} <= set(said["proposed"])


def test_a_file_that_cannot_be_read_does_not_stop_the_others(tmp_path):
    (tmp_path / "p.csv").write_text("a,b\n1,2\n")
    (tmp_path / "q.parquet").write_bytes(b"nothing")
    (tmp_path / "h.hrc").write_text("A\n@B\n")
    found = ilba.inspect(*tmp_path.iterdir())
    assert str(found).endswith("q.parquet can be read (confidential)")  # it may hold the records
    whats = {one.path.rpartition("/")[2]: one.what for one in found.files}
    assert whats == {"p.csv": "records", "q.parquet": "unreadable", "h.hrc": "hierarchy"}


def test_the_command_shows_all_files_and_exits_with_2_if_one_cannot_be_read(tmp_path):
    (tmp_path / "p.csv").write_text("a,b\n1,2\n")
    (tmp_path / "q.parquet").write_bytes(b"nothing")
    done = run("inspect", "q.parquet", "p.csv", cwd=tmp_path, code=2)
    assert "p.csv: csv with commas" in done.stdout
    assert done.stderr == "error: 'q.parquet' cannot be read: it is damaged or not what its name says.\n"
    files = json.loads(run("inspect", "q.parquet", "p.csv", "--json", cwd=tmp_path, code=2).stdout)["files"]
    assert [one["what"] for one in files] == ["unreadable", "records"]


def test_a_missing_package_is_no_wrong_file_and_exits_with_1(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    (tmp_path / "p.sav").write_bytes(b"")
    assert "pip install" in run("inspect", "p.sav", cwd=tmp_path, code=1).stderr


def test_shortened_words_with_a_dot_are_the_same_as_their_word(tmp_path):
    values = ["weiblich", "weibl.", "W", "w.", "männlich", "männl.", "ver.", "verh", "verw"] * 20
    pl.DataFrame({"sex": values, "y": ["a", "b"] * 90}).write_csv(tmp_path / "p.csv")
    column = ilba.inspect(tmp_path / "p.csv").records.column("sex")
    assert column.recode == {"weiblich": "w", "weibl.": "w", "w.": "w", "männl.": "männlich"}
    assert column.values == 5  # w, männlich, and three that may be anything


def test_a_missing_file_is_answered_with_the_nearest(tmp_path):
    (tmp_path / "people.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ilba.InputError, match=r"Did you mean 'people\.csv'"):
        ilba.inspect(tmp_path / "peple.csv")


def test_the_command_prints_text_or_json(folder):
    assert "AGS and Ort are equivalent" in run("inspect", str(folder), cwd=folder).stdout
    plain = json.loads(run("inspect", "people.csv", "towns.gpkg", "--json", cwd=folder).stdout)
    assert plain["confidential"] is True
    assert plain["proposed"] == {"hierarchies": [["AGS"]], "keys": ["Geschlecht", "Alter", "Beruf"]}


def test_what_r_says_of_columns_and_codes_becomes_a_code_list(tmp_path):
    sex = [1.0, 2.0] * 30
    labelled_frame(tmp_path / "p.rds", sex, "Sex at birth", {"male": 1.0, "female": 2.0}, ["a", "b", "c"] * 20)
    found = ilba.inspect(tmp_path / "p.rds")
    assert found.records.column("sex").label == "Sex at birth"
    assert "called 'Sex at birth'" in str(found)
    file = init(tmp_path / "p.rds", out=tmp_path / "publication.toml")
    said = tomllib.loads(file.read_text("utf-8"))
    codes = (tmp_path / said["codes"]["sex"]["file"]).read_text("utf-8")
    assert "1,male" in codes
    assert "2,female" in codes


def test_of_a_workbook_the_sheet_that_matches_is_taken(tmp_path):
    pl.DataFrame({"town": ["01", "02", "03"] * 20, "sex": ["f", "m"] * 30}).write_csv(tmp_path / "people.csv")
    with xlsxwriter.Workbook(tmp_path / "towns.xlsx") as book:
        for name, rows in {
            "Read me": [["Agency"], ["of statistics"]],
            "Towns": [["key", "name"], ["01", "A"], ["02", "B"], ["03", "C"]],
        }.items():
            sheet = book.add_worksheet(name)
            for number, row in enumerate(rows):
                sheet.write_row(number, 0, row)
    found = ilba.inspect(tmp_path)
    assert [(one.by, one.share) for one in found.matches] == [("key", 1.0)]
    assert "the sheet 'Towns' of a workbook (Read me, Towns)" in str(found)
    said = tomllib.loads(init(tmp_path, out=tmp_path / "publication.toml").read_text("utf-8"))
    assert said["codes"]["town"] == {"file": "towns.xlsx", "code": "key", "label": {"en": "name"}, "sheet": "Towns"}


def test_dates_that_are_nearly_all_different_are_dates_and_none_is_shown(tmp_path):
    born = [f"{1 + n % 28:02d}/{1 + n % 12:02d}/{1930 + n}" for n in range(80)]
    pl.DataFrame({"town": ["a", "b"] * 40, "born": born}).write_csv(tmp_path / "p.csv")
    found = ilba.inspect(tmp_path / "p.csv")
    assert (found.records.column("born").kind, found.records.column("born").date) == ("date", "%d/%m/%Y")
    assert "born" not in found.keys
    assert not any(one in str(found) for one in born)


def test_numbers_with_dots_before_three_digits_are_asked_about_and_decimal_commas_may_have_them():
    asked = facts_of(pl.Series("income", ["2.611", "667", "1.999"] * 20))
    assert (asked.kind, asked.thousands) == ("decimal", True)
    assert "thousands or decimals?" in asked.remarks(5)[0]
    read = facts_of(pl.Series("income", ["1.530,55", "605,17", "2.000"] * 20))
    assert (read.kind, read.comma, read.thousands) == ("decimal", True, False)
    assert not facts_of(pl.Series("share", ["0.125", "2.611"] * 20)).thousands


@pytest.mark.parametrize(
    ("values", "recode"),
    [
        (["H", "M", "Masculino", "Feminino"], {}),
        (["H.", "M.", "Masculino", "Feminino"], {}),
        (["H", "M", "Masculino"], {}),
        (["H", "M", "Homem", "Masculino", "Feminino"], {"homem": "h"}),
        (["H", "M", "Hombre", "Mujer"], {"hombre": "h", "mujer": "m"}),
        (["H", "M", "High", "Medium", "Low"], {"high": "h", "medium": "m"}),
        (["F", "M", "Female", "Male", "X", "Unknown"], {"female": "f", "male": "m"}),
        (["M", "Z", "Muž", "Žena"], {}),
        (["M.", "Masculino", "F", "Feminino"], {"m.": "masculino", "feminino": "f"}),
    ],
)
def test_a_letter_that_may_stand_for_another_value_is_not_merged_with_a_word(values, recode):
    assert facts_of(pl.Series("sexo", values * 20)).recode == recode


def test_init_prints_the_values_that_a_proposed_recode_merges(tmp_path):
    rows = {"town": ["01", "02", "03"] * 40, "sex": ["F", "M", "Female", "Male"] * 30}
    pl.DataFrame(rows).write_csv(tmp_path / "p.csv")
    assert "sex: 'female' becomes 'f', 'male' becomes 'm'. Is this right?" in run("init", "p.csv", cwd=tmp_path).stdout
    plain = json.loads(run("init", "p.csv", "-o", "q.toml", "--json", cwd=tmp_path).stdout)
    assert plain["recodes"] == {"sex": {"female": "f", "male": "m"}}


def test_unknown_is_a_missing_value_and_empty_fields_are_told_beside_it():
    facts = facts_of(pl.Series("race", ["White", "Unknown", "Asian", None, "not stated"] * 9))
    assert facts.spellings == ("Unknown", "not stated")
    assert facts.remarks(5) == ["27 missing (empty, or spelled 'Unknown', 'not stated')"]
    assert facts_of(pl.Series("race", ["White", "Unknown", "Asian"])).remarks(1) == ["1 missing (spelled 'Unknown')"]


def test_portuguese_and_spanish_words_for_missing_values_are_known():
    words = ["s/d", "Ignorado", "ignorada", "Sin datos", "SEM DADOS"]
    assert facts_of(pl.Series("x", [*words, "a", "b"] * 20)).spellings == tuple(sorted(words))


def test_values_that_differ_only_by_blanks_inside_are_nearly_the_same():
    facts = facts_of(pl.Series("race", ["White", " White", "two  or more", "two\u00a0or more", "two or more"] * 9))
    assert facts.values == 2
    assert facts.replace == {"  ": " ", "\u00a0": " "}
    assert not facts.case
    (said,) = facts.remarks(5)
    assert said.startswith("nearly the same: 'two  or more'/'two or more'/'two\\xa0or more', "), "trim mends the others"


def test_turkish_spellings_that_differ_by_the_capital_of_an_i_are_nearly_the_same():
    words = ["KADIN", "Kadın", "kadın", "Erkek", "ERKEK", "BİLİNMİYOR", "Belirtilmemiş"]
    sex = facts_of(pl.Series("cinsiyet", words * 20))
    assert sex.alike == (("ERKEK", "Erkek"), ("KADIN", "Kadın", "kadın"))
    blanks = facts_of(pl.Series("cinsiyet", [f"KADIN{' ' * n}" for n in range(9)] + ["Kadın", "x"] * 9))
    assert "'KADIN'/'Kadın'/'KADIN '" in "".join(blanks.remarks(5))
    assert (sex.values, sex.case, sex.spellings) == (2, "lower-tr", ("Belirtilmemiş", "BİLİNMİYOR"))
    assert facts_of(pl.Series("x", ["EVLI", "Evli", "DİN", "Kır"] * 20)).case == "lower"  # capitals without dots
    assert facts_of(pl.Series("x", ["k", "KADIN", "Kadın", "e", "Erkek"] * 20)).recode == {"kadın": "k", "erkek": "e"}
    assert facts_of(pl.Series("x", ["Irak", "IRAK", "Wien"] * 20)).case == "lower"


def test_names_in_turkish_capitals_are_names_of_their_codes(tmp_path):
    towns = [("1", "Dinar"), ("2", "Sandıklı"), ("3", "İhsaniye")]
    upper = str.maketrans({"i": "İ", "ı": "I"})
    rows = [(code, name.translate(upper).upper() if n % 3 else name) for n in range(40) for code, name in towns]
    pl.DataFrame(rows, schema=["code", "name"], orient="row").write_csv(tmp_path / "p.csv")
    assert ilba.inspect(tmp_path / "p.csv").records.same == (("code", "name"),)
