"""Strangers' stops and silent mistakes: each is answered with a sentence that says what to type."""

from __future__ import annotations

import json

import polars as pl
import pytest

import ilba
from ilba.errors import Advice, IlbaError, MissingExtra
from ilba.publication.doubts import doubts
from ilba.publication.planning import counted
from ilba.publication.prepared import Prepared
from support.commands import run

TOWNS = ["101", "102", "103", "104"]


@pytest.fixture
def folder(tmp_path):
    people = pl.DataFrame({"AGS": TOWNS * 30, "name": [f"T{code}" for code in TOWNS] * 30, "sex": ["f", "m", "f"] * 40})
    people.write_csv(tmp_path / "p.csv")
    pl.DataFrame({"AGS": [f"0{code}" for code in TOWNS], "name": list("abcd")}).write_csv(tmp_path / "towns.csv")
    point = {"type": "Point", "coordinates": [1, 2]}
    shapes = [
        {"type": "Feature", "properties": {"gem": code, "other": f"X{code}"}, "geometry": point} for code in TOWNS
    ]
    (tmp_path / "m.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
    return tmp_path


def asked(folder, *, keys='"sex"', source='file = "p.csv"', more=""):
    text = f'keys = [{keys}]\n[source]\n{source}\n[hierarchies]\narea = ["AGS"]\n{more}\n'
    (folder / "publication.toml").write_text(text, encoding="utf-8")
    prepared = Prepared(folder)
    finest, _ = counted(prepared)
    prepared.matched(finest)
    return doubts(finest)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ('[codes]\nAGS = {file = "towns.csv", code = "AGS", label.en = "name"}', "write recipe.AGS = {pad = 4}"),
        ('[maps]\nAGS = {file = "m.geojson", code = "AGS"}', "has no property 'AGS'. It has gem, other"),
        ('[maps]\nAGS = {file = "m.geojson", code = "other"}', "Name another column or property with code = '..'"),
        ("[recipe]\nsex = {width = 5}", "width = 5, top = 85"),
        ("[tables]\nmax_key = 2", "Did you mean 'max_keys'?"),
    ],
)
def test_what_used_to_be_silent_stops_and_says_what_to_type(folder, more, says):
    with pytest.raises(IlbaError) as stop:
        asked(folder, more=more)
    assert says in str(stop.value)


@pytest.mark.parametrize(
    ("recipe", "says"),
    [
        ('without = {name = ["Totale"]}', 'It has \'TOTALE\': write without = {name = ["Totale", "TOTALE"]}'),
        ('without = {name = ["Sum"]}', "no record has 'Sum' in name, as without names it. If the data has such a line"),
        ('where = {sex = ["F", "m"]}', "no record has 'F' in sex, as where names it. It has 'f': write where = "),
        ('without = {name = ["Totale", "TOTALE"]}', ""),
        ('where = {sex = ["f", "x"]}', ""),
    ],
)
def test_a_value_of_without_that_no_record_has_is_a_doubt_with_its_near_spelling(folder, recipe, says):
    with (folder / "p.csv").open("a") as file:
        file.write(",TOTALE,\n")
    (folder / "publication.toml").write_text(
        f'keys = ["sex"]\n[source]\nfile = "p.csv"\n[hierarchies]\narea = ["AGS"]\n[recipe]\n{recipe}\n'
    )
    planned = ilba.plan(folder)
    told = [one for one in planned.stops if one.startswith("no record has")]
    assert [says in one for one in told] == ([True] if says else [])
    if says:
        refused = run("--strict", "publish", cwd=folder, code=1).stderr
        assert says in refused
        assert not (folder / "release").exists()


def test_the_plan_shows_how_many_records_where_and_without_leave_out(folder):
    (folder / "publication.toml").write_text(
        'keys = ["sex"]\n[source]\nfile = "p.csv"\n[hierarchies]\narea = ["AGS"]\n[recipe]\n'
        'where = {sex = ["f"]}\nwithout = {name = ["T101", "T102"]}\n'
    )
    planned = ilba.plan(folder)
    assert [tuple(one) for one in planned.changes] == [("sex", "where", 40), ("name", "without", 60)]
    assert "sex: where leaves out 40 records" in str(planned)
    (folder / "publication.toml").write_text((folder / "publication.toml").read_text().replace('"f"', '"f", "m"'))
    assert "sex: where leaves out 0 records" in str(ilba.plan(folder))


def test_a_name_that_is_one_to_one_with_its_code_is_no_key(folder):
    (doubt,) = asked(folder, keys='"sex", "name"')
    assert doubt.startswith("name and AGS are equivalent")
    assert "Remove name from the keys" in doubt
    assert asked(folder) == []


@pytest.mark.parametrize(
    ("codes", "cure"),
    [
        (["01", "1", "02"], "AGS = {pad = 2}"),
        (["a", "A", "b"], 'AGS = {case = "lower"}'),
        (["ADIYAMAN", "Adıyaman", "Bolu"], 'AGS = {case = "lower-tr"}'),
        (["two  or more", "two or more", "b"], 'AGS = {replace = {"  " = " "}}'),
        (["two\u00a0or", "Two or", "b"], 'AGS = {case = "lower", replace = {"\\u00a0" = " "}}'),
    ],
)
def test_codes_that_are_nearly_the_same_are_named_with_their_cure(folder, codes, cure):
    pl.DataFrame({"AGS": codes * 40, "sex": ["f", "m", "f"] * 40}).write_csv(folder / "p.csv")
    (doubt,) = asked(folder)
    assert "nearly the same" in doubt
    assert cure in doubt
    assert asked(folder, more=f"[recipe]\n{cure}") == []


def test_codes_that_a_lower_case_of_another_language_left_apart_are_named_with_their_cure(folder):
    pl.DataFrame({"AGS": ["101"] * 120, "sex": ["KADIN", "Kadın", "ERKEK"] * 40}).write_csv(folder / "p.csv")
    (doubt,) = asked(folder, more='[recipe]\nsex = {case = "lower"}')
    assert "'kadin'/'kadın'" in doubt
    assert 'sex = {case = "lower-tr"}' in doubt
    assert asked(folder, more='[recipe]\nsex = {case = "lower-tr"}') == []


@pytest.mark.parametrize(
    ("texts", "case", "says"),
    [
        (["Άρρεν", "ΑΡΡΕΝ", "Θήλυ", "ΘΗΛΥ"], "", ["'Άρρεν'/'ΑΡΡΕΝ'", "'ΘΗΛΥ'/'Θήλυ'"]),
        (["Άρρεν", "ΑΡΡΕΝ", "Θήλυ", "ΘΗΛΥ"], "lower", ["'άρρεν'/'αρρεν'", "'θήλυ'/'θηλυ'"]),
        (["Málaga", "MALAGA", "Cádiz"], "upper", ["'MALAGA'/'MÁLAGA'"]),
        (["έγγαμος", "ΕΓΓΑΜΟσ", "Χήρος"], "lower", ["'έγγαμος'/'εγγαμοσ'"]),
        (["Peña", "Pena", "Åre", "Are"], "", []),
        (["かき", "かぎ"], "", []),
    ],
)
def test_words_in_capitals_without_their_accents_are_nearly_the_same(folder, texts, case, says):
    pl.DataFrame({"AGS": ["101"] * 120, "sex": (texts * 120)[:120]}).write_csv(folder / "p.csv")
    found = asked(folder, more=f'[recipe]\nsex = {{case = "{case}"}}' if case else "")
    assert len(found) == bool(says)
    assert all(text in found[0] for text in says)
    pl.DataFrame({"old": texts, "new": [str(len(text)) for text in texts]}).write_csv(folder / "FILE.csv")
    for doubt in found:
        assert (cure := 'sex = {recode = "FILE.csv", unmatched = "keep"}') in doubt
        assert asked(folder, more=f"[recipe]\n{cure}") == []


def test_init_proposes_a_recode_of_words_that_capitals_left_without_accents(folder):
    texts = ["Άρρεν", "ΑΡΡΕΝ", "Θήλυ", "ΘΗΛΥ", "ΘΗΛΥσ", "Θήλυς"]
    pl.DataFrame({"AGS": TOWNS * 30, "sex": texts * 20}).write_csv(folder / "p.csv")
    facts = ilba.inspect(folder / "p.csv").records.column("sex")
    assert facts.values == 3
    assert "'Άρρεν'/'ΑΡΡΕΝ'" in facts.remarks(5)[0]
    assert facts.recode == {"αρρεν": "άρρεν", "θηλυ": "θήλυ", "θηλυσ": "θήλυς"}
    ilba.init(folder / "p.csv", out=folder)
    finest, _ = counted(Prepared(folder))
    assert finest.codes.lists[1].labels["sex"].to_list() == ["άρρεν", "θήλυ", "θήλυς"]
    assert doubts(finest) == []


def test_a_missing_value_that_was_padded_like_a_code_is_named_with_its_cure(folder):
    pl.DataFrame({"AGS": ["101", "b/d", "NA", "102"] * 30, "sex": list("ffmfm") * 24}).write_csv(folder / "p.csv")
    (doubt,) = asked(folder, more="[recipe]\nAGS = {pad = 5}")
    assert "'000NA' and '00b/d'" in doubt or "'000NA', '00b/d'" in doubt
    cure = "missing = ['NA', 'b/d']"
    assert cure in doubt
    assert asked(folder, more=f"[recipe]\n{cure}\nAGS = {{pad = 5}}") == []


@pytest.mark.parametrize("encoding", ["cp949", "utf-16"])
@pytest.mark.parametrize("separator", [",", "|", ";"])
def test_files_in_other_encodings_and_with_other_separators_are_read_or_say_what_to_type(folder, encoding, separator):
    text = pl.DataFrame({"AGS": TOWNS * 30, "sex": ["여자", "남자", "여자"] * 40}).write_csv(separator=separator)
    (folder / "p.csv").write_bytes(text.encode(encoding))
    if encoding == "cp949":
        with pytest.raises(IlbaError, match=r"encoding = 'cp949' beside its `file` in publication.toml"):
            asked(folder)
    assert asked(folder, source=f'file = "p.csv"\nencoding = "{encoding}"') == []
    assert ilba.inspect(folder / "p.csv").records.reading.encoding == encoding


@pytest.mark.slow
def test_the_build_command_tells_them_too(folder):
    said = run("build", "p.csv", "--hkey", "AGS", "--key", "sex,name", "--out", "x.parquet", cwd=folder).stderr
    assert "name and AGS are equivalent" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("keys = [", "is not TOML"),
        ("", "has no [source]. `ilba init FILE...` writes one."),
        ("[source]\nfile='none.csv'\n[hierarchies]\na=['x']", "there is no file"),
    ],
)
def test_a_file_that_says_nothing_useful_is_answered_and_nothing_is_written(text, says, tmp_path):
    (tmp_path / "publication.toml").write_text(text)
    assert says in run("publish", cwd=tmp_path, code=2).stderr
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["publication.toml"]


@pytest.mark.parametrize(("kinds", "by"), [(range(20), "bands or width"), ("abcdefghijklmnopqrst", "a recode")])
def test_values_that_make_all_cells_small_are_told_how_they_are_grouped(folder, kinds, by):
    people = pl.DataFrame({"AGS": [f"{n}" for n in range(100, 120)]}).join(
        pl.DataFrame({"sex": list(kinds)}), how="cross"
    )
    people.write_csv(folder / "p.csv")
    assert f"sex has 20 values: group them with {by} in its recipe." in asked(folder)[-1]


def test_strict_stops_at_a_doubt_and_goes_on_with_advice(tmp_path):
    pl.DataFrame({"town": range(300), "sex": ["f", "m"] * 150}).write_parquet(tmp_path / "p.parquet")
    words = ["build", "p.parquet", "--hkey", "town", "--key", "sex", "--secret", "k"]
    run("secret", "new", "k", cwd=tmp_path)
    told = run("--strict", *words, cwd=tmp_path).stderr
    assert "note: a finest cell has fewer than 2 records on average" in told
    (tmp_path / "q.csv").write_text("town,sex\n1,f\n01,f\n")
    assert (
        "nearly the same"
        in run("--strict", *["q.csv" if w == "p.parquet" else w for w in words], cwd=tmp_path, code=1).stderr
    )


@pytest.mark.parametrize(
    ("written", "typed", "said"), [("\t", "tab", "tabs"), ("|", "|", "bars"), (",", ",", "commas")]
)
@pytest.mark.parametrize("more", ["", "[recipe]\nAGS = {pad = 4}"])
def test_a_file_with_another_separator_than_the_declared_one_is_told_so(folder, written, typed, said, more):
    pl.read_csv(folder / "p.csv").write_csv(folder / "q.txt", separator=written)
    with pytest.raises(ilba.InputError, match=f"separated by {said}, not by the declared.*leave separator out") as told:
        asked(folder, source='file = "q.txt"\nseparator = ";"', more=more)
    assert f"separator = {typed!r}" in str(told.value)
    asked(folder, source='file = "q.txt"', more=more)


@pytest.mark.long
def test_a_declared_key_that_no_table_has_is_named(folder):
    asked(folder, more="[tables]\nmax_keys = 0")
    assert "no table has 'sex'" in run("plan", cwd=folder).stdout
    assert "no table has 'sex'" in run("publish", cwd=folder).stderr
    asked(folder, more='[tables]\nnames = ["AGS.sex"]')
    assert "no table has" not in run("plan", cwd=folder).stdout


def test_init_without_keys_leaves_max_keys_out(tmp_path):
    pl.DataFrame({"town": ["01", "02", "03"] * 40}).write_csv(tmp_path / "p.csv")
    run("init", "p.csv", cwd=tmp_path)
    assert "\n# max_keys = 3\n" in (tmp_path / "publication.toml").read_text()
    assert Prepared(tmp_path).said.tables.max_keys is None


def test_a_code_that_a_spreadsheet_spoilt_is_noticed_by_inspection_and_plan(folder):
    codes = ["210080001", "2,1008E+08", "210080003", "210080004"] * 30
    pl.DataFrame({"AGS": codes, "sex": ["f", "m", "f"] * 40}).write_csv(folder / "p.csv", separator=";")
    assert "spoilt by a spreadsheet: '2,1008E+08'" in str(ilba.inspect(folder / "p.csv"))
    (told,) = asked(folder)
    assert told.startswith("AGS has codes that a spreadsheet wrote as large numbers: '2,1008E+08'. Correct them")


def test_dates_of_birth_that_make_nobody_s_age_are_noticed_by_plan_and_publication(folder, monkeypatch):
    born = ["01/01/1800", *["02/03/1970", "04/05/1905"] * 30, "06/07/1904"]
    pl.DataFrame({"AGS": ["101"] * 62, "born": born}).write_csv(folder / "p.csv")
    recipe = '[recipe]\nage = {from = "born", date = "%d/%m/%Y", age_on = "2025-12-31", width = 5, top = 85}'
    asked(folder, keys='"age"', more=recipe)
    monkeypatch.chdir(folder)
    told = "age has dates of birth that make people older than 120: 2 values ('01/01/1800', '06/07/1904')."
    (stop,) = ilba.plan().stops
    assert stop.startswith(told)
    run("--strict", "publish", cwd=folder, code=1)  # it made a secret
    assert told in run("--strict", "publish", cwd=folder, code=1).stderr
    later = recipe.replace("width", 'missing = ["01/01/1800", "06/07/1904"], width')
    asked(folder, keys='"age"', more=later)
    assert not ilba.plan().stops


def test_a_method_whose_extra_is_not_installed_is_no_doubt_about_the_publication(folder, monkeypatch):
    def absent(*_, **__):
        raise MissingExtra("this needs SciPy")

    monkeypatch.setattr("ilba.publication.choices.measured_method", absent)
    asked(folder)
    with pytest.warns(Advice, match="was left out of the comparison: this needs SciPy"):
        ilba.plan(folder)


@pytest.mark.parametrize("line", ["Qwxz,,,,9", ",,,,9", "NA,NA,NA,NA,9"])
@pytest.mark.parametrize("areas", ['area = ["AGS"]', 'area = ["AGS"]\nwork = ["job"]'])
def test_records_without_any_value_are_noticed_and_may_be_left_out(folder, line, areas):
    people = "".join(f"{n},{TOWNS[n % 4]},{'fm'[n % 2]},{'vw'[n % 4 // 2]},1\n" for n in range(60))
    (folder / "p.csv").write_text(f"id,AGS,sex,job,n\n{people}{line}\n")
    key = '"sex"' if "work" in areas else '"sex", "job"'
    recipe = 'work = ["job"]\n' * ("work" in areas) + '[recipe]\nmissing = ["NA"]\n'
    (doubt,) = asked(folder, keys=key, source='file = "p.csv"\nmissing = "category"', more=recipe)
    assert doubt.startswith("there are records without a value in all of AGS, ")
    assert not asked(folder, keys=key, source='file = "p.csv"\nmissing = "drop"', more=recipe)
    without = recipe + 'without = {n = ["9"]}'
    assert not asked(folder, keys=key, source='file = "p.csv"\nmissing = "category"', more=without)


def test_people_with_some_value_are_no_line_of_totals(folder):
    people = "".join(f"{TOWNS[n % 4]},{'fm'[n % 2]},{'vw'[n % 4 // 2]}\n" for n in range(60))
    (folder / "p.csv").write_text(f"AGS,sex,job\n{people}101,,\n,f,\n,,v\n")
    assert not asked(folder, keys='"sex", "job"', source='file = "p.csv"\nmissing = "category"')


def test_strict_stops_at_a_line_of_totals_in_a_language_that_nobody_knows(folder):
    people = "".join(f"{n},{TOWNS[n % 4]},{'fm'[n % 2]}\n" for n in range(60))
    (folder / "p.csv").write_text(f"id,AGS,sex\n{people}Qwxz,,\n")
    words = ["build", "p.csv", "--hkey", "AGS", "--key", "sex", "--secret", "k", "--missing", "category"]
    run("secret", "new", "k", cwd=folder)
    assert "lines of totals" in run("--strict", *words, cwd=folder, code=1).stderr
