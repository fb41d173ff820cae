"""What `init` proposes from what the files are."""

from __future__ import annotations

import json
import os
import tomllib
import unicodedata
import warnings

import polars as pl
import pyreadstat
import pytest
import xlsxwriter

import ilba
from ilba.publication.planning import counted
from ilba.publication.prepared import Prepared
from support.commands import run


def proposed(folder):
    return tomllib.loads((folder / "publication.toml").read_text("utf-8"))


def test_labels_of_spss_become_a_code_list_and_names_of_columns(tmp_path):
    people = pl.DataFrame({"region": [1.0, 2.0, 3.0, 4.0] * 50, "sex": [1.0] * 70 + [2.0] * 130})
    pyreadstat.write_sav(
        people,
        tmp_path / "p.sav",
        column_labels={"sex": "Sex of person"},
        variable_value_labels={"sex": {1: "Male", 2: "Female"}},
    )
    ilba.init(tmp_path / "p.sav", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["labels"] == {"sex": {"en": "Sex of person"}}
    assert plain["codes"]["sex"] == {"file": "codes-sex.csv", "code": "code", "label": {"en": "label"}}
    assert ("sex", "1", "Male", None, None) in Prepared(tmp_path).lists.labels.rows()


def test_a_population_that_was_typed_is_not_proposed(tmp_path):
    (tmp_path / "p.csv").write_text("town,sex\n" + "a,f\nb,m\n" * 30)
    for typed in ("", "register"):
        ilba.init(tmp_path / "p.csv", out=tmp_path / f"{typed}.toml", population=typed)
        plain = tomllib.loads((tmp_path / f"{typed}.toml").read_text("utf-8"))
        assert ("population.name" in plain["proposed"]) == (not typed)


def test_columns_that_nest_become_a_hierarchy_and_at_most_six_keys_are_proposed(tmp_path):
    place = pl.DataFrame({"x": range(2000)})
    keys = {f"k{n}": (pl.col("x") // (n + 3)) % 3 for n in range(8)}
    place.select((pl.col("x") % 5).alias("region"), (pl.col("x") % 40).alias("town"), **keys).write_parquet(
        tmp_path / "p.parquet"
    )
    ilba.init(tmp_path / "p.parquet", out=tmp_path, mask_thr=10, wave="2026")
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["region", "town"]}
    assert plain["keys"] == ["k0", "k1", "k2", "k3", "k4", "k5"]
    assert (plain["mask_thr"], plain["population"]["wave"], plain["tables"]["max_keys"]) == (10, "2026", 3)
    assert "tables.max_keys" in plain["proposed"]  # it leaves out the finest table
    assert "Possible further keys: k6, k7" in (tmp_path / "publication.toml").read_text("utf-8")


@pytest.mark.parametrize(("tract", "pads"), [("", {"county": 5, "tract": 8}), ("9", {"county": 5})])
def test_codes_that_begin_with_codes_above_without_zeros_get_them_too(tmp_path, tract, pads):
    counties = ["6001", "6003", "6013", "6041", "6051"]
    tracts = [f"{tract}{county}{number}" for county in counties for number in (401, 402, 403)]
    people = {
        "county": [code for code in counties for _ in range(3)] * 20,
        "tract": tracts * 20,
        "sex": list("fm") * 150,
    }
    pl.DataFrame(people).write_csv(tmp_path / "p.csv")
    listed = [f"0{code}" for code in [*counties, "6099"]]
    pl.DataFrame({"FIPS": listed, "name": list("abcdef")}).write_csv(tmp_path / "counties.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "counties.csv", out=tmp_path / "publication.toml")
    assert proposed(tmp_path)["hierarchies"] == {"area": ["county", "tract"]}
    assert {name: steps["pad"] for name, steps in proposed(tmp_path)["recipe"].items()} == pads


def test_blanks_inside_values_are_proposed_to_be_one_blank(tmp_path):
    kinds = ["two  or more", "two\u00a0or more", "two or more", "one"]
    pl.DataFrame({"town": list("abcde") * 40, "kind of": kinds * 50}).write_csv(tmp_path / "p.csv")
    file = ilba.init(tmp_path / "p.csv", out=tmp_path / "publication.toml")
    assert '"kind of" = {replace = {"  " = " ", "\\u00a0" = " "}}' in file.read_text()
    finest, _ = counted(Prepared(file))
    assert sorted(finest.frame["kind of"].unique()) == ["one", "two or more"]


def test_quantities_alone_are_refused(tmp_path):
    pl.DataFrame({"income": [i / 7 for i in range(500)]}).write_csv(tmp_path / "p.csv")
    with pytest.raises(ilba.InputError, match="looks like an area or another level"):
        ilba.init(tmp_path / "p.csv", out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["p.csv"]


def test_names_of_columns_with_odd_letters_are_written_so_that_they_are_read_back(tmp_path):
    pl.DataFrame({"시 군": ["a", "b"] * 50, "a.b = c": ["x", "y", "z", "x"] * 25}).write_csv(tmp_path / "p.csv")
    ilba.init(tmp_path / "p.csv", out=tmp_path)
    assert {*Prepared(tmp_path).design.columns} == {"시 군", "a.b = c"}
    assert "tables.max_keys" not in proposed(tmp_path)["proposed"]  # it leaves out nothing


TITLES = "Register of Böblingen, 2025\n31.12.2025\n\n"
FOOTNOTES = "\nInsgesamt;;;;\nSource: office, own figures\n* without second homes\n"


@pytest.mark.long
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_titles_footnotes_and_totals_of_an_office_file_are_not_records(tmp_path, encoding):
    records = [f"0{n % 4};{'fm'[n % 3 % 2]};{n % 91};k.A.;x" for n in range(300)]
    body = "AGS;sex;age;job;Größe\n" + "\n".join(records) + "\nTotal;;300;;\nTotal;m;100;;"
    (tmp_path / "p.csv").write_bytes((TITLES + body + FOOTNOTES).encode(encoding))
    with xlsxwriter.Workbook(tmp_path / "towns.xlsx") as book:
        sheet = book.add_worksheet()
        rows = ["Towns", "", "AGS", "00", "01", "02", "03", "04", "Source: office"]
        for place, word in enumerate(rows):
            sheet.write_row(
                place + 1, 0, [word, *(("name", "area") if word == "AGS" else ("T", 1) if word.isdigit() else ())]
            )
    found = ilba.inspect(tmp_path / "p.csv", tmp_path / "towns.xlsx")
    assert found.records.records == 300
    assert "names in line 4, 3 lines of notes" in found.records.about
    assert "'Total' looks like a line of totals" in str(found)
    ilba.init(tmp_path / "p.csv", tmp_path / "towns.xlsx", out=tmp_path)
    plain = proposed(tmp_path)
    assert (plain["source"]["header"], plain["source"]["notes"]) == (4, "drop")
    assert plain["recipe"]["without"] == {"AGS": ["Total"]}
    assert (plain["codes"]["AGS"]["header"], plain["codes"]["AGS"]["notes"]) == (4, "drop")
    prepared = Prepared(tmp_path)
    codes = prepared.lists.labels.filter(pl.col("variable") == "AGS")["code"]
    assert codes.drop_nulls().to_list() == ["00", "01", "02", "03", "04"]
    assert counted(prepared)[0].frame.group_by("AGS").agg(pl.col("N").sum())["N"].to_list() == [75] * 4


@pytest.mark.parametrize("spelled", [["999"], ["-1"], ["n.v."], ["n.v.", "999"]])
def test_a_frequent_value_of_an_age_column_that_is_no_age_is_proposed_as_missing(tmp_path, spelled):
    ages = [*(str(n % 91) for n in range(900)), *(spelled[n % len(spelled)] for n in range(40))]
    codes = [("999", "1", "2")[n % 3] for n in range(940)]
    people = pl.DataFrame({"town": ["a", "b"] * 470, "code": codes, "Alter": ages})
    people.write_csv(tmp_path / "p.csv")
    assert f"40 missing (spelled {', '.join(map(repr, sorted(spelled)))})" in str(ilba.inspect(tmp_path / "p.csv"))
    ilba.init(tmp_path / "p.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["recipe"] == {"Alter": {"missing": sorted(spelled), "width": 5, "top": 85}}
    assert "Alter" in plain["keys"]
    frame = counted(Prepared(tmp_path))[0].frame
    assert frame.filter(pl.col("Alter").is_null())["N"].sum() == 40
    assert frame.filter(pl.col("code") == "999")["N"].sum() == codes.count("999")


@pytest.mark.parametrize("strange", [["999"] * 9, ["Mr Miller"], ["7 years"] * 40, ["x", "y", "z"] * 20, ["130"] * 40])
def test_rare_and_other_values_of_an_age_column_are_not_taken_for_missing_ones(tmp_path, strange):
    ages = [*(str(n % 91) for n in range(900)), *strange]
    pl.DataFrame({"age": ages, "town": ["a"] * len(ages)}).write_csv(tmp_path / "p.csv")
    column = ilba.inspect(tmp_path / "p.csv").records.column("age")
    assert (column.missing, column.no_age) == (0, ())


def test_ages_of_mothers_are_ages_and_a_grand_total_is_none_of_them(tmp_path):
    lines = "".join(f"a{n % 3};{n % 28 + 1}/3/26;{n % 35 + 15}\n" for n in range(600))
    (tmp_path / "p.csv").write_text(f"comune;nato;Età madre\n{lines}Totale\nTotale generale;;600\n", "utf-8")
    records = ilba.inspect(tmp_path / "p.csv").records
    assert (records.column("Età madre").kind, records.column("nato").date) == ("age", "%d/%m/%y")
    assert records.column("comune").totals == ("Totale generale",)
    assert "footnotes" not in records.about


def test_all_levels_of_a_list_get_names_in_one_language(tmp_path):
    places = [(f"{n // 12:02}", f"{n // 4:03}", f"{n:04}") for n in range(36)]
    rows = [(a, f"M{a}", f"County {a}", b, f"Long név {b}", f"D {b}", c, f"T{c}", f"Place {c}") for a, b, c in places]
    names = ["Megye kód", "Megye", "County", "Járás kód", "Járás", "District", "KSH kód", "Település", "Settlement"]
    towns = pl.DataFrame(rows, schema=names, orient="row")
    towns.write_csv(tmp_path / "towns.csv")
    people = {"town": towns["KSH kód"].to_list() * 10, "sex": ["f", "m", "m", "f", "m"] * 72}
    pl.DataFrame(people).write_csv(tmp_path / "p.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "towns.csv", out=tmp_path)
    labels = [entry["label"]["en"] for entry in proposed(tmp_path)["codes"].values()]
    assert labels == ["Settlement", "County", "District"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("word", ["Tổng cộng", "Tổng", "Tổng số", "TỔNG CỘNG", "Tong cong"])
def test_a_line_of_totals_in_vietnamese_is_found_in_any_form_of_unicode(tmp_path, word, form):
    word = unicodedata.normalize(form, word)
    lines = "".join(f"{n % 3},{'ab'[n % 2]}\n" for n in range(60))
    (tmp_path / "p.csv").write_text(f"xa,sex\n{lines}{word},60\n", "utf-8")
    assert ilba.inspect(tmp_path / "p.csv").records.column("xa").totals == (word,)


def test_a_file_whose_names_are_in_the_first_line_is_read_as_before(tmp_path):
    (tmp_path / "p.csv").write_text(",town,sex\n" + "".join(f"{n},a{n % 3},f\n" for n in range(60)))
    records = ilba.inspect(tmp_path / "p.csv").records
    assert (records.reading.header, records.reading.notes, records.records) == (0, "", 60)
    (tmp_path / "q.csv").write_text("code;name\n1;Aa, Bb\n2;Cc, Dd\n3;Ee\n")
    assert ilba.inspect(tmp_path / "q.csv").records.reading.separator == ";"


def test_titles_of_two_entries_and_entries_of_two_lines_do_not_hide_the_names(tmp_path):
    lines = "".join(f'0{n % 4};"a,\r\n b";{n},5;x\r\n' for n in range(60))
    (tmp_path / "p.csv").write_text(
        f"Office;;;\r\nmade: 2.10.;;by: me;\r\n;;;\r\ntown;job;size;y\r\n{lines}", newline=""
    )
    records = ilba.inspect(tmp_path / "p.csv").records
    assert (records.reading.separator, records.reading.header, records.records) == (";", 4, 60)
    assert "among its footnotes" not in records.about


@pytest.mark.parametrize("first", ["Nr", ""])
def test_column_names_repeated_on_each_page_are_no_records(tmp_path, secret, first):
    pages = [[f"{n};0{n % 4};{'fm'[n % 3 % 2]};{n % 91}" for n in range(page, page + 100)] for page in (0, 100, 200)]
    names = f"{first};AGS;sex;age"
    lines = ["Register;;;", *(line for page in pages for line in (names, *page)), "Source: office;;;"]
    (tmp_path / "p.csv").write_text("\n".join(lines) + "\n")
    records = ilba.inspect(tmp_path / "p.csv").records
    assert "names in line 2, names repeated in 2 lines, 1 line of notes, 300 records" in records.about
    assert "looks like a record" not in records.about
    ilba.init(tmp_path / "p.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert (plain["source"]["header"], plain["source"]["notes"], plain["keys"]) == (2, "drop", ["sex", "age"])
    assert counted(Prepared(tmp_path))[0].frame["N"].sum() == 300
    read = {"separator": ";", "header": 2, "notes": "drop"}
    whole = ilba.build(tmp_path / "p.csv", ["AGS"], ["age"], read=read, schema={"age": "int"}, secret=secret)
    assert whole.frame["N"].sum() == 300


def test_records_equal_to_the_first_line_of_a_nameless_file_are_no_repeated_names(tmp_path):
    (tmp_path / "p.csv").write_text("".join(f"{n % 4},{'fm'[n % 3 % 2]},{n % 11 + 5}\n" for n in range(600)))
    records = ilba.inspect(tmp_path / "p.csv").records
    assert (records.records, records.reading.notes) == (599, "")


def test_a_footnote_with_a_separator_in_it_is_told(tmp_path):
    lines = "".join(f"0{n % 4};{'fm'[n % 3 % 2]};x{n % 5};a;b\n" for n in range(60))
    text = f"town;sex;job;u;v\n{lines}Signs:;;;;\n99 = unknown; - = none;;;\nSource: office;;;;\n"
    (tmp_path / "p.csv").write_text(text)
    with pytest.warns(ilba.Notice, match="A line among its footnotes is read as a record"):
        ilba.init(tmp_path / "p.csv", out=tmp_path)
    (tmp_path / "p.csv").write_text(text.replace("; - =", ", - ="))
    assert "footnotes" not in str(ilba.inspect(tmp_path / "p.csv"))


def test_of_a_list_of_all_levels_the_parent_becomes_the_level_above(tmp_path):
    towns = [f"{region}{town:02d}" for region in "123" for town in range(1, 5)]
    pl.DataFrame({"town": [f"0{one}" for one in towns] * 9, "sex": ["ffmfm"[n % 5] for n in range(108)]}).write_csv(
        tmp_path / "p_2026-09.csv"
    )
    rows = [("0", "City", None, "0"), *((r, f"Region {r}", "0", "1") for r in "123")]
    rows += [(one, f"Town {one}", one[0], "2") for one in towns]
    pl.DataFrame(rows, ["key", "name", "above", "depth"], orient="row").write_csv(tmp_path / "areas.csv")
    ilba.init(tmp_path / "p_2026-09.csv", tmp_path / "areas.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["above", "town"]}
    assert plain["population"] == {"name": "p", "wave": "2026-09"}
    labels = Prepared(tmp_path).lists.labels
    assert labels.filter(variable="town")["code"].to_list() == [f"0{one}" for one in towns]
    assert labels.filter(variable="above").select("code", "label_en").rows() == [(r, f"Region {r}") for r in "123"]


def test_a_fitting_file_of_tau_argus_becomes_the_hierarchy(tmp_path):
    (tmp_path / "nace.hrc").write_text("A\n@A01\n@@011\n@@012\nB\n@B05\n@@051\n")
    pl.DataFrame({"branch": ["11", "12", "51"] * 40, "size": ["s", "l"] * 60}).write_csv(tmp_path / "p.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "nace.hrc", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {
        "branch": {"column": "branch", "levels": ["branch_1", "branch_2"], "file": "nace.hrc"}
    }
    assert (plain["keys"], plain["recipe"]) == (["size"], {"branch": {"pad": 3}})
    assert counted(Prepared(tmp_path))[0].table("branch_1").frame["N_masked"].to_list() == [80, 40]


def test_the_hierarchy_of_areas_is_called_so_and_levels_are_named_as_in_a_code_list(tmp_path):
    (tmp_path / "nace.hrc").write_text("A\n@A01\n@@011\n@@012\nB\n@B05\n@@051\n")
    (tmp_path / "nuts.hrc").write_text("X\n@X1\n@X2\nY\n@Y1\n")
    listed = {"section": ["A", "B"], "division": ["A01", "B05", "C10"], "kind": ["s", "l"]}
    rows = [(variable, code) for variable, codes in listed.items() for code in codes]
    pl.DataFrame(rows, ["variable", "code"], orient="row").write_csv(tmp_path / "codes.csv")
    people = {"nace": ["011", "012", "051"] * 40, "nuts3": ["X1", "X2", "Y1", "Y1"] * 30, "kind": ["s", "l"] * 60}
    pl.DataFrame(people).write_csv(tmp_path / "p.csv")
    ilba.init(*(tmp_path / name for name in ("p.csv", "nace.hrc", "nuts.hrc", "codes.csv")), out=tmp_path)
    assert proposed(tmp_path)["hierarchies"] == {
        "area": {"column": "nuts3", "levels": ["nuts3_1"], "file": "nuts.hrc"},
        "hierarchy2": {"column": "nace", "levels": ["section", "nace_2"], "file": "nace.hrc"},
    }
    both = {"nace": people["nace"], "legal": ["SOLE", "LTD", "PLC"] * 40, "kind": people["kind"]}
    pl.DataFrame(both).write_csv(tmp_path / "q.csv")
    (tmp_path / "legal.hrc").write_text("P\n@SOLE\n@LTD\nQ\n@PLC\n")
    folder = tmp_path / "q"
    folder.mkdir()
    ilba.init(*(tmp_path / name for name in ("q.csv", "nace.hrc", "legal.hrc")), out=folder)
    assert list(proposed(folder)["hierarchies"]) == ["hierarchy1", "hierarchy2"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("own.hrc", "R11\nR12\nR21\nR22\n", "but it has no code above another"),
        ("own.hrc", "R1\n@R11\n@R12\nR2\n@R21\n@R22\n", r"whose parents are in the data \(nuts\)"),
        ("own.hrc", "X\n@R11\n@R21\nY\n@R12\n@R22\n", r'area = \{column = "region", levels = .* under \[hierarchies\]'),
        (
            "a.csv",
            "code\nR11\nR12\nR21\nR22\n",
            r'for which towns\.csv is proposed.* region = \{file = "a\.csv", .* under \[codes\]',
        ),
    ],
)
def test_a_file_of_a_column_whose_parents_are_in_the_data_is_told_what_is_true(tmp_path, name, content, said):
    people = [(f"R{n % 2 + 1}", f"R{n % 2 + 1}{n // 2 % 2 + 1}", "smml"[n % 3]) for n in range(240)]
    pl.DataFrame(people, ["nuts", "region", "size"], orient="row").write_csv(tmp_path / "p.csv")
    (tmp_path / name).write_text(content)
    pl.DataFrame({"code": ["R11", "R12", "R21", "R22"]}).write_csv(tmp_path / "towns.csv")
    with pytest.warns(ilba.Notice, match=rf"^nothing of \S*{name} is used\. .*ts codes match region, .*{said}"):
        ilba.init(*(tmp_path / one for one in ("p.csv", name, "towns.csv")), out=tmp_path)
    assert proposed(tmp_path)["hierarchies"] == {"area": ["nuts", "region"]}


@pytest.mark.parametrize("codes", [["01.1", "01.2", "36"], ["10.1", "10.2", "36"]])
def test_codes_of_a_given_hierarchy_are_codes_although_they_look_like_decimals(tmp_path, codes):
    first, second, short = codes
    (tmp_path / "nace.hrc").write_text(f"A\n@{first[:2]}\n@@{first}\n@@{second}\nE\n@{short}\n")
    upper = [("A", "", "Farms"), ("E", "", "Water"), (first[:2], "A", "Crops")]
    rows = [*upper, (first, first[:2], "Rye"), (second, first[:2], "Rice"), (short, "E", "Supply")]
    pl.DataFrame(rows, ["code", "above", "name"], orient="row").write_csv(tmp_path / "names.csv")
    pl.DataFrame({"nace": codes * 40, "size": ["s", "l"] * 60}).write_csv(tmp_path / "p.csv")
    pl.DataFrame({"code": ["x", "y"]}).write_csv(tmp_path / "other.csv")
    with pytest.warns(ilba.Notice, match=r"^nothing of \S*other\.csv is used"):
        ilba.init(*(tmp_path / name for name in ("p.csv", "nace.hrc", "names.csv", "other.csv")), out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"]["nace"] == {"column": "nace", "levels": ["nace_1", "nace_2"], "file": "nace.hrc"}
    assert plain["codes"]["nace"] == {"file": "names.csv", "code": "code", "parent": "above", "label": {"en": "name"}}
    assert plain["keys"] == ["size"]
    assert Prepared(tmp_path).matched(counted(Prepared(tmp_path))[0])


def test_a_column_for_each_given_hierarchy_is_proposed(tmp_path):
    (tmp_path / "nace.hrc").write_text("A\n@10.1\n@10.2\n")
    (tmp_path / "nuts.hrc").write_text("AT1\n@AT11\n@AT12\n")
    pl.DataFrame({"nace": ["10.1", "10.2"] * 40, "nuts": ["AT11"] * 50 + ["AT12"] * 30}).write_csv(tmp_path / "p.csv")
    found = ilba.inspect(*(tmp_path / name for name in ("p.csv", "nuts.hrc", "nace.hrc")))
    assert found.hierarchies == (("nuts",), ("nace",))


def test_identifiers_that_a_code_list_has_too_stay_identifiers(tmp_path):
    pl.DataFrame({"pid": range(1000, 1100), "sex": ["f", "m"] * 50}).write_csv(tmp_path / "p.csv")
    pl.DataFrame({"pid": range(1000, 1090), "street": [f"s{n}" for n in range(90)]}).write_csv(tmp_path / "homes.csv")
    found = ilba.inspect(tmp_path / "p.csv", tmp_path / "homes.csv")
    assert [one.kind for one in found.records.columns] == ["identifier", "category"]


def test_a_hierarchy_goes_to_the_column_with_most_of_its_codes_not_to_the_first(tmp_path):
    (tmp_path / "isced.hrc").write_text("low\n@1\n@2\nhigh\n@3\n@4\n")
    level = [code for code in "1234" for _ in range(30)]
    pl.DataFrame({"sex": ["1", "2"] * 60, "level": level}).write_csv(tmp_path / "p.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "isced.hrc", out=tmp_path)
    plain = proposed(tmp_path)
    assert (plain["hierarchies"]["level"]["column"], plain["keys"]) == ("level", ["sex"])


def test_a_named_file_that_cannot_be_read_is_refused_and_never_replaced_by_a_code_list(tmp_path):
    (tmp_path / "p.parquet").write_bytes(b"PAR1 damaged")
    pl.DataFrame({"code": ["1", "2", "3"] * 9, "name": ["a", "b", "c"] * 9}).write_csv(tmp_path / "towns.csv")
    with pytest.raises(ilba.InputError, match=r"p\.parquet cannot be read.* leave it out"):
        ilba.init(tmp_path / "p.parquet", tmp_path / "towns.csv", out=tmp_path)
    assert not (tmp_path / "publication.toml").exists()


def test_a_column_called_like_an_area_is_the_area_where_nothing_else_tells(tmp_path):
    people = [f"{n % 4 + 1},{'fm'[n % 3 % 2]},{n % 11 + 1}\n" for n in range(600)]
    (tmp_path / "p.csv").write_text("town,sex,educ\n" + "".join(people))
    ilba.init(tmp_path / "p.csv", out=tmp_path)
    assert proposed(tmp_path)["hierarchies"] == {"area": ["town"]}
    assert proposed(tmp_path)["keys"] == ["sex", "educ"]


def test_a_file_without_names_is_not_published_under_the_values_of_its_first_person(tmp_path):
    (tmp_path / "p.csv").write_text("".join(f"{n % 4},{'fm'[n % 3 % 2]},{n % 11 + 5}\n" for n in range(600)))
    with pytest.raises(ilba.InputError, match="Its first line looks like a record"):
        ilba.init(tmp_path / "p.csv", out=tmp_path)
    assert "looks like a record" in str(ilba.inspect(tmp_path / "p.csv"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Title\n\na,b\n1,2\n", r"Line 3 has 2 fields, the first line 1\. .*--header 3 "),
        ("a;b\n" + "1;2;\n" * 40, r"Line 2 has 3 fields, the first line 2\. It ends in ';': end the line of the col"),
        ("a,b\n" + "1,2\n" * 40 + "1,2,3\n", r"Line 42 has 3 fields, the first line 2\. Correct that line\."),
        ("a,b,c\n1,2,3\n\n1,2\n1,\n", r"2 lines with too few fields\. The first is line 4, with 2 of 3\. Correct"),
        ('a;b;c\r\n1;"x\r\ny;z";\r\n1;2\r\n', r"1 line with too few fields\. The first is line 4, with 2 of 3\."),
        ("a,b,c\n1,2,\nSource: x\n", r"line 3, with 1 of 3\..* --notes drop "),
        ('a;b\n"x\ny";2\n1;"2\n' + "1;2\n" * 40, r"A quotation mark in line 4 is not closed\."),
        ('a;b\n1;2\n1";2\n' + "1;2\n" * 40, r"A quotation mark in line 3 is not closed\."),
        ("a,,,d,e,\n1,2,3,4,5,\n", r"columns without names\."),
        ("Title,,\nx,,\na,b,c\n1,2,3\n", r"columns without names\. .*--header N "),
    ],
)
def test_a_line_that_does_not_fit_is_named(tmp_path, secret, text, says):
    (tmp_path / "p.csv").write_text(text)
    with pytest.raises(ilba.InputError, match=says):
        ilba.build(tmp_path / "p.csv", ["a"], ["b"], secret=secret)


@pytest.mark.parametrize(
    "text",
    [
        'a,b,c\n1,2,\n\n1,2,"x,\n\ny"\n1,"2,3",\n,,\n\n',
        "Title\na,b,c,\n1,2,\n3,4,",
        "a,b,c\n1,2,3\nSource: x\n",
    ],
)
def test_empty_fields_and_line_feeds_in_quotes_are_no_missing_fields(tmp_path, secret, text):
    (tmp_path / "p.csv").write_text(text)
    read = {"header": 2 if text.startswith("Title") else 0, "notes": "drop" if "Source" in text else ""}
    ilba.build(tmp_path / "p.csv", ["a"], ["b"], secret=secret, read=read)


def test_a_line_with_too_few_fields_is_refused_when_files_are_inspected_and_in_parts(tmp_path, secret):
    (tmp_path / "p.csv").write_text("a;b;c\n" + "1;2;3\n" * 40 + "1;2\n")
    (tmp_path / "o.csv").write_text("a;b;c\n" + "1;2;3\n" * 40)
    with pytest.raises(ilba.InputError, match=r"The first is line 42, with 2 of 3\."):
        ilba.init(tmp_path / "p.csv", out=tmp_path)
    with pytest.raises(ilba.InputError, match=r"p\.csv' cannot be read: 1 line with too few"):
        ilba.build(tmp_path / "*.csv", ["a"], ["b"], secret=secret)


def test_a_folder_of_parquet_files_may_be_called_csv(tmp_path, secret):
    (tmp_path / "p.csv").mkdir()
    pl.DataFrame({"a": ["1", "2"], "b": ["x", None]}).write_parquet(tmp_path / "p.csv" / "1.parquet")
    assert len(ilba.build(tmp_path / "p.csv", ["a"], ["b"], missing="category", secret=secret)) == 2


@pytest.mark.long
def test_a_workbook_made_for_readers_is_proposed_as_records(tmp_path):
    with xlsxwriter.Workbook(tmp_path / "p.xlsx") as book:
        sheet = book.add_worksheet()
        sheet.write_row(0, 0, ["Population register"])
        sheet.write_row(2, 0, ["District", "Town", "Sex", "Age"])
        for n in range(400):  # a merged cell has its value in its first line
            district = [f"D{n // 100}"] if n % 100 == 0 else [None]
            age = "85+" if n % 9 == 0 else n % 85
            sheet.write_row(n + 3, 0, [*district, f"T{n // 50}", "fm"[n % 3 % 2], age])
        sheet.write_row(403, 0, ["Total", None, None, 400])
        sheet.write(5, 5, " ")  # a stray cell
    towns = pl.DataFrame({"code": [f"T{n}" for n in range(8)], "District": [f"D{n // 2}" for n in range(8)]})
    towns.with_columns(pl.format("District {}", "District").alias("long")).write_csv(tmp_path / "towns.csv")
    found = ilba.inspect(tmp_path / "p.xlsx", tmp_path / "towns.csv")
    assert "nearly empty: if cells are merged, fill in each line; 'Total' looks like" in str(found)
    ilba.init(tmp_path / "p.xlsx", tmp_path / "towns.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["District", "Town"]}
    assert plain["keys"] == ["Sex", "Age"]
    assert plain["recipe"]["Age"] == {"width": 5, "top": 85}
    assert plain["recipe"]["without"] == {"District": ["Total"]}
    assert plain["codes"]["District"] == {"file": "towns.csv", "code": "District", "label": {"en": "long"}}
    finest, _ = counted(Prepared(tmp_path))
    assert finest.frame.group_by("District").agg(pl.col("N").sum()).sort("District").rows() == [
        (f"D{n}", 100) for n in range(4)
    ]
    assert ("District", "D1", "District D1", None, None) in Prepared(tmp_path).lists.labels.rows()


def test_parents_that_disagree_are_told_and_taken_from_the_code_list(tmp_path):
    rows = [
        (f"c{n % 4 // 2}" if n % 100 else "c1", f"t{n % 4}", "fm"[n % 3 % 2], "a" if n % 50 else "b")
        for n in range(1000)
    ]
    lines = [",".join(row) + ",,\n" for row in rows]
    (tmp_path / "p.csv").write_text("county,town,sex,rare,,\n" + "".join(lines))  # two columns without names
    (tmp_path / "towns.csv").write_text("town,county\n" + "".join(f"t{n},c{n // 2}\n" for n in range(4)))
    found = ilba.inspect(tmp_path / "p.csv", tmp_path / "towns.csv")
    assert found.records.nearly == (("county", "town", 10),)  # a value that nearly everybody has is no parent
    assert "each town lies in one county, except in 10 records" in str(found)
    assert "county" not in found.keys
    ilba.init(tmp_path / "p.csv", tmp_path / "towns.csv", out=tmp_path)
    finest, _ = counted(Prepared(tmp_path))
    assert finest.frame.select("county", "town").unique().sort("town").rows() == [
        (f"c{n // 2}", f"t{n}") for n in range(4)
    ]


def test_a_list_that_a_spreadsheet_robbed_of_its_zeros_matches_the_data(tmp_path):
    pl.DataFrame({"AGS": ["08111", "8111", "8115", "10001"] * 60, "sex": ["f", "m", "m"] * 80}).write_csv(
        tmp_path / "p.csv"
    )
    listed = pl.DataFrame(
        {"key": ["8111", "8115", "10001", "8119"], "name": list("ABCD"), "land": ["08", "08", "10", "08"]}
    )
    listed.write_csv(tmp_path / "towns.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "towns.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["recipe"]["AGS"] == {"pad": 5}
    assert plain["codes"]["AGS"]["pad"] == plain["recipe"]["land"]["recode"]["pad"] == 5
    prepared = Prepared(tmp_path)
    finest, _ = counted(prepared)
    assert finest.frame.group_by("land", "AGS").agg(pl.col("N").sum()).sort("AGS").rows() == [
        ("08", "08111", 120), ("08", "08115", 60), ("10", "10001", 60),
    ]  # fmt: skip
    assert [(one.found, one.without, one.extra) for one in prepared.matched(finest)] == [(3, (), 1)]
    file = tmp_path / "publication.toml"
    file.write_text(file.read_text().replace(", pad = 5", ""))
    with pytest.raises(ilba.InputError, match=r"no leading zeros\. Write recode = \{file = \.\., pad = 5\}"):
        counted(Prepared(tmp_path))


@pytest.mark.parametrize("nested", [True, False])
def test_levels_that_a_spreadsheet_robbed_of_their_zeros_get_them_back(tmp_path, nested):
    towns = [f"{region}{district}{town}" for region in ("02", "16") for district in ("03", "11") for town in "123"]
    pl.DataFrame({"AGS": towns * 20, "sex": list("ffmfm") * 48}).write_csv(tmp_path / "p.csv")
    rows = [(int(one), f"Town {one}", one[:4], f"District {one[:4]}", one[:2], f"Region {one[:2]}") for one in towns]
    if not nested:
        rows = [(*row[:2], str(7 + 5 * towns.index(f"{row[2]}1") // 3), *row[3:]) for row in rows]
    listed = pl.DataFrame(rows, ["key", "name", "dist", "district", "reg", "region"], orient="row")
    listed.with_columns(pl.col("dist", "reg").cast(pl.Int64)).write_csv(tmp_path / "towns.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "towns.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["reg", "dist", "AGS"]}
    assert plain["recipe"]["reg"] == {"from": "AGS", "prefix": 2}
    assert (plain["codes"]["reg"]["pad"], plain["codes"]["dist"]["pad"]) == (2, 4 if nested else 2)
    if not nested:
        recode = {"file": "towns.csv", "from": "key", "to": "dist", "pad": 5, "pad_to": 2}
        assert plain["recipe"]["dist"] == {"from": "AGS", "recode": recode}
    prepared = Prepared(tmp_path)
    finest, _ = counted(prepared)
    districts = ["0203", "0211", "1603", "1611"] if nested else ["07", "12", "17", "22"]
    assert finest.frame["dist"].unique().sort().to_list() == districts
    assert [(one.without, one.orphans) for one in prepared.matched(finest)] == [((), ())] * 3
    above = dict(prepared.lists.labels.filter(variable="dist").select("code", "parent").rows())
    assert above == dict(zip(districts, ["02", "02", "16", "16"], strict=True))


def test_a_list_with_the_level_above_gives_the_parents_of_its_codes(tmp_path):
    towns = [(f"t{n}", f"r{n // 4}") for n in range(12)]
    rows = [f"{region},{town},{'fm'[n % 2]}\n" for n in range(50) for town, region in towns]
    (tmp_path / "lfs_2026q1.csv").write_text("region,town,sex\n" + "".join(rows))
    listed = [f"{town},Town {town},{region}\n" for town, region in towns]
    (tmp_path / "towns.csv").write_text("town,name,region\n" + "".join(listed))
    ilba.init(tmp_path / "lfs_2026q1.csv", tmp_path / "towns.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["codes"]["town"]["parent"] == "region"
    assert plain["population"] == {"name": "lfs", "wave": "2026q1"}


@pytest.mark.parametrize("columns", ["town,sex", "region,town,sex"])
def test_the_upper_codes_of_a_proposed_list_of_all_levels_are_no_towns(tmp_path, columns):
    towns = [(f"t{n}", f"r{n // 4}") for n in range(12)]
    rows = [f"{region},{town},{'fm'[n % 2]}\n" for n in range(50) for town, region in towns]
    start = 0 if columns.startswith("region") else 3
    (tmp_path / "p.csv").write_text(f"{columns}\n" + "".join(row[start:] for row in rows))
    upper = "".join(f"r{n},Region {n},\n" for n in range(3))
    listed = "".join(f"{town},Town {town},{region}\n" for town, region in towns)
    (tmp_path / "areas.csv").write_text(f"code,name,region\n{upper}{listed}")
    ilba.init(tmp_path / "p.csv", tmp_path / "areas.csv", out=tmp_path)
    prepared = Prepared(tmp_path)
    finest, _ = counted(prepared)
    assert [(one.column, one.found, one.extra) for one in prepared.matched(finest)] == [("town", 12, 0)]
    regions = prepared.lists.labels.filter(variable="region").select("code", "label_en").rows()
    assert regions == [(f"r{n}", f"Region {n}") for n in range(3)]


TOWNS = [("003", "Bled", "R1"), ("052", "Kranj", "R1"), ("050", "Koper", "R2"), ("109", "Semič", "R2")] + [
    (f"{code}", f"Town {code}", f"R{code % 2 + 1}") for code in range(200, 216)
]


@pytest.mark.parametrize("wrong", [8, 100], ids=["some records", "a whole town"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1250"])
def test_a_wrong_code_beside_the_right_name_leaves_the_levels_of_the_code_list_and_is_told(tmp_path, wrong, encoding):
    rows = [(code, name, str(n % 2)) for code, name, _ in TOWNS for n in range(100)]
    rows = [("050" if n - 100 in range(wrong) else code, name, sex) for n, (code, name, sex) in enumerate(rows)]
    pl.DataFrame(rows, schema=["code", "town", "sex"], orient="row").write_csv(tmp_path / "people.csv")
    (tmp_path / "towns.csv").write_text("\n".join(["nr,title,region", *map(",".join, TOWNS)]), encoding=encoding)
    found = ilba.inspect(tmp_path / "people.csv", tmp_path / "towns.csv")
    told = f"code and town contradict towns.csv in {wrong} records: correct their codes or names"
    assert told in str(found)
    assert "lies in one" not in str(found)
    assert found.to_json()["matches"][0]["contrary"] == wrong
    with pytest.warns(ilba.Notice, match=told):
        ilba.init(tmp_path / "people.csv", tmp_path / "towns.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["region", "code"]}
    assert plain["keys"] == ["sex"]
    text = (tmp_path / "publication.toml").read_text("utf-8")
    assert ("# The encoding is a guess" in text) == (encoding == "cp1250")


def test_names_of_other_towns_than_those_of_the_codes_stay_a_key(tmp_path):
    rows = [(TOWNS[n % 20][0], TOWNS[n * 7 % 20][1] if n % 3 else TOWNS[n % 20][1]) for n in range(2000)]
    pl.DataFrame(rows, schema=["code", "born_in"], orient="row").write_csv(tmp_path / "people.csv")
    pl.DataFrame(TOWNS, schema=["nr", "title", "region"], orient="row").write_csv(tmp_path / "towns.csv")
    ilba.init(tmp_path / "people.csv", tmp_path / "towns.csv", out=tmp_path)
    assert proposed(tmp_path)["hierarchies"] == {"area": ["region", "code"]}
    assert proposed(tmp_path)["keys"] == ["born_in"]


def test_dates_of_birth_get_a_line_that_makes_ages_of_them(tmp_path):
    rows = [("ab"[n % 2], f"{n % 28 + 1}. {n % 12 + 1}. {1930 + n % 90}") for n in range(500)]
    pl.DataFrame(rows, schema=["town", "born"], orient="row").write_csv(tmp_path / "people.csv")
    ilba.init(tmp_path / "people.csv", out=tmp_path)
    file = tmp_path / "publication.toml"
    text = file.read_text("utf-8").replace("# age = ", "age = ").replace("keys = []", 'keys = ["age"]')
    file.write_text(text, "utf-8")
    assert "05-09" in counted(Prepared(tmp_path))[0].frame["age"].to_list()


def test_the_error_of_a_recode_file_that_is_not_utf8_names_a_place_that_mends_it(tmp_path):
    (tmp_path / "people.csv").write_text("town\n" + "1\n2\n" * 30)
    (tmp_path / "towns.csv").write_bytes("nr,name\n1,Tržič\n2,Bled\n".encode("cp1250"))
    text = 'keys = []\n[source]\nfile = "people.csv"\n[population]\nname = "p"\n[hierarchies]\narea = ["town"]\n'
    entry = '[recipe]\ntown = {recode = {file = "towns.csv"}}\n'
    (tmp_path / "publication.toml").write_text(text + entry)
    with pytest.raises(ilba.InputError, match="encoding = 'cp1252' beside its `file`"):
        counted(Prepared(tmp_path))
    (tmp_path / "publication.toml").write_text(text + entry.replace('.csv"', '.csv", encoding = "cp1250"'), "utf-8")
    assert counted(Prepared(tmp_path))[0].frame["town"].to_list() == ["Bled", "Tržič"]


def test_a_declared_encoding_is_used_for_files_that_are_not_utf_8_and_is_written_down(tmp_path):
    rows = "".join(f"{'şı'[n % 2]};{'km'[n % 3 % 2]}\n" for n in range(90))
    (tmp_path / "p.csv").write_bytes(f"İlçe;sex\n{rows}".encode("iso8859-9"))
    (tmp_path / "codes.csv").write_text("kod;ad\nş;Şuhut\nı;Işık\nx;İhsaniye\n", "utf-8")
    told = run("inspect", "p.csv", "codes.csv", "--encoding", "latin5", cwd=tmp_path).stdout
    assert "in iso8859-9, 90 records" in told
    assert "in utf-8, 3 records" in told
    run("init", "p.csv", "codes.csv", "--encoding", "latin5", cwd=tmp_path)
    text = (tmp_path / "publication.toml").read_text("utf-8")
    assert 'encoding = "iso8859-9"\n' in text
    assert proposed(tmp_path)["codes"]["İlçe"] == {
        "file": "codes.csv", "separator": ";", "code": "kod", "label": {"en": "ad"}
    }  # fmt: skip
    counted(Prepared(tmp_path))
    with pytest.raises(ilba.InputError, match="is not CP949"):
        ilba.init(tmp_path / "p.csv", out=tmp_path / "q.toml", encoding="cp949")


DISTRICTS = [f"03{district:02d}" for district in range(1, 5)]
PARTS = [f"{district}{part:03d}" for district in DISTRICTS for part in range(1, 4)]


def of_all_levels(folder, *, zeros):
    """Records with two levels, a list of three levels with repeating names, and a map without zeros."""
    rows = [(part[:4], part, "fm"[n % 3 % 2]) for n in range(30) for part in PARTS]
    pl.DataFrame(rows, ["ilce", "mahalle", "sex"], orient="row").write_csv(folder / "p.csv")
    listed = [("03", "Afyon", ""), *((one, f"District {one}", "03") for one in DISTRICTS)]
    listed += [(part, f"Part {part[4:]}", part[:4]) for part in PARTS]
    frame = pl.DataFrame(listed, ["Kod", "Ad", "Üst kod"], orient="row")
    lost = pl.col("Kod", "Üst kod").str.strip_chars_start("0")
    (frame if zeros else frame.with_columns(lost)).write_csv(folder / "codes.csv")
    point = {"type": "Point", "coordinates": [1, 2]}
    shapes = [{"type": "Feature", "properties": {"id": int(one)}, "geometry": point} for one in PARTS]
    (folder / "m.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))


@pytest.mark.parametrize("zeros", [True, False])
def test_upper_codes_of_a_list_of_all_levels_are_not_padded_and_a_level_of_the_data_is_not_made_twice(tmp_path, zeros):
    of_all_levels(tmp_path, zeros=zeros)
    ilba.init(tmp_path / "p.csv", tmp_path / "codes.csv", tmp_path / "m.geojson", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["hierarchies"] == {"area": ["ilce", "mahalle"]}
    entry = {"file": "codes.csv", "code": "Kod", "parent": "Üst kod", "label": {"en": "Ad"}}
    assert plain["codes"] == {"mahalle": entry if zeros else entry | {"pad": 7}}
    assert plain["maps"] == {"mahalle": {"file": "m.geojson", "code": "id", "pad": 7}}
    prepared = Prepared(tmp_path)
    finest, _ = counted(prepared)
    assert [(one.found, one.extra, one.orphans) for one in prepared.matched(finest)] == [(12, 0, ())] * 2
    labels = prepared.lists.labels
    assert labels.filter(variable="ilce").select("code", "label_en").rows() == [(d, f"District {d}") for d in DISTRICTS]
    assert labels.filter(variable="mahalle").select("code", "parent").rows() == [(part, part[:4]) for part in PARTS]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ("pad = 7", "also has codes of 'ilce': 0000301, 0000302, 0000303, 0000304.*Write parent = "),
        ("pad = 7, parent = 'Üst kod'", r"without leading zeros: 0301, .* Write recipe\.ilce = {pad = 4}"),
    ],
)
def test_upper_codes_that_would_be_published_as_other_areas_are_refused(tmp_path, typed, says):
    of_all_levels(tmp_path, zeros=False)
    (tmp_path / "publication.toml").write_text(
        f"""keys = ["sex"]\nsource.file = "p.csv"\nhierarchies.area = ["ilce", "mahalle"]
        codes.mahalle = {{file = "codes.csv", code = "Kod", {typed}}}""",
        "utf-8",
    )
    prepared = Prepared(tmp_path)
    with pytest.raises(ilba.InputError, match=says):
        prepared.matched(counted(prepared)[0])


def test_a_level_of_a_list_that_is_coarser_than_those_of_the_data_goes_above_them(tmp_path):
    rows = [(f"d{n % 12 // 3}", f"t{n % 12}", "fm"[n % 5 % 2]) for n in range(360)]
    pl.DataFrame(rows, ["district", "town", "sex"], orient="row").write_csv(tmp_path / "p.csv")
    listed = [(f"t{n}", f"r{n // 6}", f"D{n // 3}", f"k{n % 2}") for n in range(12)]
    pl.DataFrame(listed, ["code", "region", "kreis", "kind"], orient="row").write_csv(tmp_path / "towns.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "towns.csv", out=tmp_path)
    assert proposed(tmp_path)["hierarchies"] == {"area": ["region", "district", "town"]}


def test_of_two_finest_columns_the_one_that_files_match_is_the_level(tmp_path):
    rows = [(part[:4], f"{part[:4]}{'ab'[n % 2]}", part, "fm"[n % 3 % 2]) for n in range(40) for part in PARTS]
    pl.DataFrame(rows, ["ilce", "name", "mahalle", "sex"], orient="row").write_csv(tmp_path / "p.csv")
    pl.DataFrame({"kod": PARTS, "ad": [f"Part {one}" for one in PARTS]}).write_csv(tmp_path / "codes.csv")
    assert ilba.inspect(tmp_path / "p.csv", tmp_path / "codes.csv").hierarchies == (("ilce", "mahalle"),)


def test_a_file_that_matches_and_is_not_used_is_told_with_what_to_write(tmp_path):
    # Towns and blocks cross each other, and blocks have more levels above them.
    rows = [(f"r{n % 3}", f"d{n % 6}", f"b{n % 18}", f"{n % 3}{n % 7}", "fm"[n % 4 % 2]) for n in range(900)]
    pl.DataFrame(rows, ["region", "district", "block", "town", "sex"], orient="row").write_csv(tmp_path / "p.csv")
    point = {"type": "Point", "coordinates": [1, 2]}
    shapes = [
        {"type": "Feature", "properties": {"id": f"0{n}{m}"}, "geometry": point} for n in range(3) for m in range(7)
    ]
    (tmp_path / "m.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    says = (
        r'match town, which is in no .* write town = {file = "m.geojson", code = "id"} under \[maps\]; town = {pad = 3}'
    )
    with pytest.warns(ilba.Notice, match=says):
        ilba.init(tmp_path / "p.csv", tmp_path / "m.geojson", out=tmp_path)
    assert not [one for one in proposed(tmp_path)["proposed"] if one.startswith("maps")]


def test_a_code_list_of_several_variables_is_proposed_whole_and_makes_no_level(tmp_path):
    towns = [(d, f"{d}{n}") for d in "EMW" for n in range(4)]
    rows = [(*towns[n % 12], "MF"[n % 5 > 2], "SMW"[n // 7 % 3]) for n in range(600)]
    pl.DataFrame(rows, ["district", "town", "sex", "marital"], orient="row").write_csv(tmp_path / "p.csv")
    codes = [("district", d, f"District {d}", None) for d in "EMW"]
    codes += [("town", t, f"Town {t}", d) for d, t in towns]
    codes += [("sex", "M", "men", None), ("sex", "F", "women", None)]
    codes += [("marital", "S", "single", None), ("marital", "M", "married", None), ("marital", "W", "widowed", None)]
    names = ["variable", "code", "label_en", "parent"]
    pl.DataFrame(codes, names, orient="row").write_csv(tmp_path / "codes.csv")
    ilba.init(tmp_path / "p.csv", tmp_path / "codes.csv", out=tmp_path)
    plain = proposed(tmp_path)
    assert plain["lists"] == ["codes.csv"]
    assert "lists" in plain["proposed"]
    assert plain["hierarchies"] == {"area": ["district", "town"]}
    assert "codes" not in plain
    assert ("marital", "M", "married", None, None) in Prepared(tmp_path).lists.labels.rows()
    entry = 'lists = ["codes.csv"]\n'
    file = tmp_path / "publication.toml"
    text = file.read_text("utf-8").replace(entry, "")
    file.write_text(f'{text}\n[codes]\ntown = {{file = "codes.csv", code = "code"}}\n', encoding="utf-8")
    with pytest.raises(ilba.InputError, match=r"several variables\. Remove this entry, .*: lists = \['codes.csv'\]"):
        _ = Prepared(tmp_path).lists.labels


def lake(folder, *years):
    people = pl.DataFrame({"town": ["a", "b", "c"] * 40, "sex": ["f", "m"] * 60})
    for year in years:
        (folder / "lake" / year).mkdir(parents=True)
        people.write_parquet(folder / "lake" / year / "p.parquet")
    return folder / "lake"


def test_of_folders_that_are_years_the_last_is_proposed_as_a_wave_and_it_is_said(tmp_path):
    people = lake(tmp_path, "year=2025", "year=2026")
    assert "year=2025, year=2026 look like several counts of the same people" in str(ilba.inspect(people))
    with pytest.warns(ilba.Notice, match="several counts of the same people, so only year=2026 is proposed"):
        ilba.init(people, out=tmp_path)
    plain = proposed(tmp_path)
    assert (plain["source"]["file"], plain["population"]) == ("lake/year=2026", {"name": "lake", "wave": "2026"})
    assert (plain["keys"], plain["outputs"]["release"]) == (["sex"], "release-{wave}")
    assert not [note for note in ilba.plan(tmp_path).notes if "several counts" in note]


def test_the_named_wave_is_proposed_and_the_ninth_month_is_before_the_tenth(tmp_path):
    people = lake(tmp_path, "year=2025/month=10", "year=2026/month=9", "year=2026/month=10")
    for wave, file, shown in (("", "year=2026/month=10", "2026-10"), ("2025", "year=2025", "2025")):
        with pytest.warns(ilba.Notice, match="several counts"):
            ilba.init(people, out=tmp_path / f"p{wave}.toml", wave=wave, population="people")
        plain = tomllib.loads((tmp_path / f"p{wave}.toml").read_text("utf-8"))
        assert (plain["source"]["file"], plain["population"]["wave"]) == (f"lake/{file}", shown)


@pytest.mark.parametrize(
    "folders", [("region=1", "region=2"), ("year=2026/a", "year=2026/b"), ("birth_year=1", "birth_year=2")]
)
def test_folders_that_are_no_times_or_one_time_are_counted_together(tmp_path, folders):
    people = lake(tmp_path, *folders)
    ilba.init(people, out=tmp_path)
    assert proposed(tmp_path)["source"]["file"] == "lake"


@pytest.mark.parametrize(
    ("file", "more", "doubts"),
    [
        ("lake", "", 1),
        ("lake/*/*.parquet", "", 1),
        ("lake/year={wave}", "", 0),
        ("lake", '[source]\ntogether = "year"\n', 0),
        ("lake", '[source]\ntogether = "day"\n', 1),
        ("lake", '[recipe]\nwhere = {year = ["2026"]}\n', 0),
    ],
)
def test_a_plan_doubts_years_that_are_added_together(tmp_path, file, more, doubts):
    lake(tmp_path, "year=2025", "year=2026")
    source = more if more.startswith("[source]\n") else "[source]\n"
    text = f'keys = ["sex"]\n{source}file = "{file}"\n[population]\nname = "p"\nwave = "2026"\n'
    (tmp_path / "publication.toml").write_text(text + '[hierarchies]\narea = ["town"]\n' + more.replace(source, ""))
    found = ilba.plan(tmp_path)
    assert len([note for note in found.notes if "year=2025, year=2026" in note]) == doubts
    assert len([stop for stop in found.stops if "added together" in stop]) == doubts
    assert found.records == (120 if "{wave}" in file or "where" in more else 240)


@pytest.mark.parametrize(
    ("years", "where", "named"),
    [
        (("year=2025", "year=2026"), "", "file = 'lake/year={wave}' under"),
        (("year=2025", "year=2026"), "below", "file = '../lake/year={wave}' under"),
        (("town=1/year=2025", "town=2/year=2026"), "", "each as a wave: wave = '..' under"),
    ],
)
def test_the_doubt_names_what_to_type_and_stops_a_strict_run_before_the_work(tmp_path, years, where, named):
    people = lake(tmp_path, *years)
    folder = tmp_path / where
    folder.mkdir(exist_ok=True)
    source = os.path.relpath(people, folder)
    text = f'keys = ["sex"]\n[source]\nfile = "{source}"\n[hierarchies]\narea = ["town"]\n'
    (folder / "publication.toml").write_text(text)
    with warnings.catch_warnings(action="error"), pytest.raises(ilba.Notice) as told:
        ilba.publish(folder)
    assert named in str(told.value)
    assert "write together = 'year' under [source]" in str(told.value)
    assert not list(folder.rglob("publication.parquet"))  # nothing was counted
    (folder / "publication.toml").write_text(text.replace("[source]", '[source]\ntogether = "year"'))
    ilba.publish(folder)


def test_what_init_says_of_years_is_what_publishes_them_together(tmp_path):
    people = lake(tmp_path, "year=2025", "year=2026")
    (tmp_path / "below").mkdir()
    with pytest.warns(ilba.Notice, match="together, write file = '../lake' and together = 'year' under"):
        ilba.init(people, out=tmp_path / "below")


def test_a_source_named_by_the_wave_needs_one(tmp_path):
    (tmp_path / "publication.toml").write_text('[source]\nfile = "p{wave}.csv"\n[hierarchies]\narea = ["town"]\n')
    with pytest.raises(ilba.InputError, match=r"source\.file = 'p\{wave\}\.csv' needs the wave"):
        Prepared(tmp_path)


def test_the_moment_at_which_records_were_loaded_is_no_key(tmp_path):
    loaded = [f"2026-11-0{n // 7 % 3 + 1} 03:10:00" for n in range(120)]
    people = pl.DataFrame({"town": ["a", "b", "c"] * 40, "sex": ["f", "m"] * 60, "loaded": loaded})
    people.with_columns(pl.col("loaded").str.to_datetime()).write_parquet(tmp_path / "p.parquet")
    ilba.init(tmp_path / "p.parquet", out=tmp_path)
    assert proposed(tmp_path)["keys"] == ["sex"]
