"""What a publication file means: hierarchies from files, code lists and maps that match or stop."""

from __future__ import annotations

import html
import json
import re
import shlex
import unicodedata
import warnings

import polars as pl
import pytest

import ilba
from ilba.design.tables import wanted_tables
from ilba.errors import Notice
from ilba.publication.doubts import doubts
from ilba.publication.planning import counted
from ilba.publication.prepared import Prepared
from support.commands import run

HEAD = 'keys = ["sex"]\n[source]\nfile = "p.csv"\n'


@pytest.fixture
def folder(tmp_path):
    rows = [f"{town},{sex}" for town in ("01001", "01002", "02001") for sex in "fm" for _ in range(9)]
    (tmp_path / "p.csv").write_text("town,sex\n" + "\n".join(rows) + "\n")
    (tmp_path / "towns.csv").write_text("AGS,name,이름,RS\n01001,One,하나,01\n01002,Two,둘,01\n02001,Three,셋,02\n")
    square = {"type": "Polygon", "coordinates": [[[0, 0], [0, 1], [1, 1], [0, 0]]]}
    features = [
        {"type": "Feature", "properties": {"key": key, "k": int(key)}, "geometry": square}
        for key in ("01001", "01002", "02001", "02002")
    ]
    (tmp_path / "t.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return tmp_path


def finest_of(folder, text, before=""):
    (folder / "publication.toml").write_text(before + HEAD + text, encoding="utf-8")
    prepared = Prepared(folder)
    return prepared, counted(prepared)[0]


def matched(folder, text):
    prepared, finest = finest_of(folder, text)
    return prepared.matched(finest)


def paths(finest):
    return finest.frame.select(finest.design.hierarchies[0].columns).unique().sort(pl.all()).rows()


EXPECTED = [("01", "01001"), ("01", "01002"), ("02", "02001")]


@pytest.mark.slow
def test_a_second_publication_file_plans_with_the_secret_that_it_will_publish_with(folder, monkeypatch):
    monkeypatch.delenv("ILBA_LEDGER", raising=False)
    text = '[hierarchies]\narea = ["town"]\n[population]\nname = "p"\n'
    (folder / "publication.toml").write_text(HEAD + text)
    with pytest.warns(Notice, match="a new one was made"):
        ilba.publish(folder)
    (folder / "k3.toml").write_text("mask_thr = 3\n" + HEAD + text)
    assert Prepared(folder / "k3.toml").secret() == Prepared(folder).secret()
    with pytest.warns(Notice, match="using the secret .*publication.secret"):
        planned = ilba.plan(folder / "k3.toml")
    assert "conflicts with an earlier publication" in planned.ledger
    assert not planned.is_possible
    assert "no secret" not in str(planned)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cell-key:D=2,V=1", "rounding:3", "small-count-rounding"])
def test_the_decision_page_tells_of_the_published_numbers(folder, monkeypatch, method):
    monkeypatch.delenv("ILBA_LEDGER", raising=False)
    rows = [f"{town},{sex},{n % 256}" for n, (town, sex) in enumerate(zip("aab" * 30, "fmmfmff" * 13, strict=False))]
    (folder / "p.csv").write_text("town,sex,key\n" + "\n".join(rows) + "\n")
    (folder / "kept").mkdir()
    ilba.Secret(bytes(32)).to_file(folder / "kept" / "agency.secret")
    head = f'method = "{method}"\naccept_risk = true\nsecret = "kept/agency.secret"\n{HEAD}record_key = "key"\n'
    text = '[hierarchies]\narea = ["town"]\n[outputs]\nlanguages = ["en", "ko"]\nformats = []\n'
    (folder / "publication.toml").write_text(head + text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ilba.publish(folder)
    store, release = folder / "confidential" / "publication.parquet", folder / "release"
    finest = ilba.open_store(store).with_method(method, folder / "kept" / "agency.secret")
    made = finest.tables(wanted_tables(finest.design))
    loss = pl.concat([table.detail["loss"].abs().cast(pl.Int64) for table in made])
    english, korean = ((folder / "confidential" / f"decision.{lang}.html").read_text("utf-8") for lang in ("en", "ko"))
    row = f'<em class="tag calm">this publication</em></th><td>{loss.mean():.2f}</td>'
    assert row in english
    shown = re.findall(r"0 or at least</t[dh]>\s*<td[^>]*>(\d+)", english)
    assert shown == {"cell-key:D=2,V=1": [], "rounding:3": ["3"], "small-count-rounding": ["5"]}[method]
    assert ("other masks under the same codes only where counts changed" in english) == (method == "rounding:3")
    assert ("even if their count did not" in english) == ("같은 사람들이면" in korean) == method.startswith("cell-key")
    command = shlex.split(html.unescape(re.search(r"before you decide: ([^<]*)", english)[1]))
    assert command[:3] == ["ilba", "risk", str(release)]
    assert "ilba risk" in korean
    assert f"method='{method.partition(':')[0]}'" in run(*command[1:], "--attacker", "proof", cwd=folder).stdout


def test_a_level_is_made_from_the_first_letters_of_codes(folder):
    text = '[hierarchies]\narea = {column = "town", levels = ["region"], prefixes = [2]}\n'
    assert paths(finest_of(folder, text)[1]) == EXPECTED


def test_a_level_is_looked_up_in_a_file_of_hierarchies(folder):
    (folder / "t.hrc").write_text("01\n@01001\n@01002\n02\n@02001\n")
    text = '[hierarchies]\narea = {column = "town", levels = ["region"], file = "t.hrc"}\n'
    assert paths(finest_of(folder, text)[1]) == EXPECTED


def test_a_level_is_looked_up_in_a_table_of_parents(folder):
    (folder / "edges.csv").write_text("code,parent\n01,\n02,\n01001,01\n01002,01\n02001,02\n")
    text = '[hierarchies]\narea = {column = "town", levels = ["region"], file = "edges.csv", code = "code"}\n'
    assert paths(finest_of(folder, text)[1]) == EXPECTED
    (folder / "edges.csv").write_text("Areas\n\ncode;above\n1001;01\n1002;01\n2001;02\n")
    with pytest.raises(ilba.InputError, match=r"one column here, not codes and parents\. Name its sheet or h"):
        finest_of(folder, text.replace(', code = "code"', ""))
    text = text.replace('"code"}', '"code", parent = "above", header = 3, pad = 5}')
    assert [row[1] for row in paths(finest_of(folder, text)[1])] == ["01001", "01002", "02001"]


def test_a_level_that_is_not_named_is_missed(folder):
    (folder / "t.hrc").write_text("0\n@01\n@@01001\n")
    text = '[hierarchies]\narea = {column = "town", levels = ["region"], file = "t.hrc"}\n'
    with pytest.raises(ilba.InputError, match=r"2 levels above the finest, and 1 is named \(region\). Name each"):
        finest_of(folder, text)


def test_a_code_list_of_any_column_names_gives_labels_and_parents(folder):
    text = (
        '[hierarchies]\narea = {column = "town", levels = ["region"], prefixes = [2]}\n'
        '[codes]\ntown = {file = "towns.csv", code = "AGS", label = {en = "name", ko = "이름"}}\n'
        '[labels]\nsex = {en = "Sex", ko = "성별"}\n'
    )
    prepared, finest = finest_of(folder, text)
    rows = prepared.lists.labels.rows()
    assert ("town", "01001", "One", "하나", "01") in rows
    assert ("region", "02", None, None, None) in rows
    assert ("sex", None, "Sex", "성별", None) in rows
    (match,) = prepared.matched(finest)
    assert str(match) == "town: the code list towns.csv has 3 codes of the data"


def test_a_list_of_towns_names_each_region_as_often_as_it_has_towns(folder):
    areas = '[hierarchies]\narea = {column = "town", levels = ["region"], prefixes = [2]}\n'
    text = areas + '[codes]\nregion = {file = "towns.csv", code = "RS", label = "RS"}\n'
    rows = finest_of(folder, text)[0].lists.labels.filter(pl.col("variable") == "region").rows()
    assert rows == [("region", "01", "01", None, None), ("region", "02", "02", None, None)]
    with pytest.raises(ilba.InputError, match="has 01 twice in 'RS', with different labels or parents"):
        finest_of(folder, text.replace('label = "RS"', 'label = "name"'))
    with pytest.raises(ilba.InputError, match="has 01 twice in 'RS', with different labels or parents"):
        finest_of(folder, text.replace('label = "RS"', 'label = "RS", parent = "AGS"'))


def test_a_map_by_any_property_matches_and_says_what_is_without(folder):
    text = '[hierarchies]\narea = ["town"]\n[maps]\ntown = {file = "t.geojson", code = "key"}\n'
    prepared, finest = finest_of(folder, text)
    assert [one["id"] for one in prepared.maps["town"]["features"]] == ["01001", "01002", "02001", "02002"]
    assert str(prepared.matched(finest)[0]) == "town: the map t.geojson has 3 codes of the data; 1 code more"


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            '[maps]\ntown = {file = "t.geojson", code = "k"}',
            r"has no code of 'town': the data has 01001, .* write pad = 5 beside its file",
        ),
        ('[maps]\ntown = {file = "t.geojson"}', r"no property 'id'"),
        ('[maps]\ntown = {file = "t.geojso"}', r"there is no map .* Did you mean 't.geojson'"),
        ('[codes]\ntown = {file = "towns.csv", code = "name"}', r"Name another column or property with code = '..'"),
        ('[codes]\ntown = {file = "towns.csv", code = "AG"}', r"the file does not have. Did you mean 'AGS'"),
        ('[codes]\ntown = {file = "towns.csv", code = "RS"}', r"has 01 twice in 'RS'"),
    ],
)
def test_what_matches_nothing_stops_and_says_what_to_type(folder, entry, says):
    with pytest.raises(ilba.InputError, match=says):
        matched(folder, '[hierarchies]\narea = ["town"]\n' + entry + "\n")


def test_leading_zeros_are_suggested_where_they_make_codes_match(folder):
    (folder / "p.csv").write_text("town,sex\n1001,f\n1002,m\n")
    text = '[hierarchies]\narea = ["town"]\n[codes]\ntown = {file = "towns.csv", code = "AGS"}\n'
    prepared, finest = finest_of(folder, text)
    with pytest.raises(ilba.InputError, match=r"With leading zeros they match: write recipe.town = \{pad = 5\}"):
        prepared.matched(finest)
    prepared, finest = finest_of(folder, text + "[recipe]\ntown = {pad = 5}\n")
    assert prepared.matched(finest)[0].found == 2


def test_codes_that_a_list_does_not_have_are_named(folder):
    (folder / "towns.csv").write_text("AGS\n01001\n09009\n")
    text = '[hierarchies]\narea = ["town"]\n[codes]\ntown = {file = "towns.csv"}\n'
    prepared, finest = finest_of(folder, text)
    said = "town: the code list towns.csv has 1 code of the data, and not 01002, 02001; 1 code more"
    assert str(prepared.matched(finest)[0]) == said


def test_a_town_with_the_number_of_a_region_stays_a_town(folder):
    (folder / "own.csv").write_text("t,name,r\n1,One,1\n2,Two,1\n3,Three,2\n4,Four,2\n")
    recode = 'region = {from = "town", recode = {file = "own.csv", from = "t", to = "r"}}\n'
    text = f'[hierarchies]\narea = ["region", "town"]\n[recipe]\n{recode}[codes]\ntown = {{file = "own.csv"}}\n'
    (folder / "publication.toml").write_text(HEAD + text)
    labels = Prepared(folder).lists.labels
    assert labels.filter(variable="town")["label_en"].to_list() == ["One", "Two", "Three", "Four"]
    assert labels.filter(variable="region")["label_en"].to_list() == [None, None]


@pytest.fixture
def of_all_levels(folder):
    """Records with both levels, and a list of both."""
    rows = [f"{town[:2]},{town},{sex}\n" for town in ("01001", "01002", "02001") for sex in "fm" for _ in range(9)]
    (folder / "p.csv").write_text("region,town,sex\n" + "".join(rows))
    uppers = "01,North,\n02,South,\n"
    (folder / "all.csv").write_text(f"code,name,above\n{uppers}01001,One,01\n01002,Two,01\n02001,Three,02\n")
    return folder


AREAS = '[hierarchies]\narea = ["region", "town"]\n[codes]\n'


@pytest.mark.parametrize("cells", ["observed", "grid"])
@pytest.mark.parametrize(
    ("entry", "says"),
    [
        (
            'region = {file = "all.csv"}',
            r"has codes of 'town': 01001, 01002, 02001\. They would be published as empty areas of 'region'\. Declare "
            r"it for 'town' instead, .* codes\.town = \{file = 'all\.csv', code = '\.\.', parent = '\.\.'\}",
        ),
        ('town = {file = "all.csv"}', r"has codes of 'region': 01, 02\. .* Write parent = '\.\.' beside its file"),
    ],
)
def test_a_list_of_all_levels_for_one_level_is_refused_with_what_to_type(of_all_levels, entry, says, cells):
    prepared, finest = finest_of(of_all_levels, f"{AREAS}{entry}\n", f'cells = "{cells}"\n')
    with pytest.raises(ilba.InputError, match=says + r".* too, name them in a file of .*: lists = \['codes.csv'\]"):
        prepared.matched(finest)


def test_a_list_of_all_levels_with_parents_names_every_level(of_all_levels):
    prepared, finest = finest_of(of_all_levels, AREAS + 'town = {file = "all.csv", parent = "above"}\n')
    assert prepared.matched(finest)[0].extra == 0
    assert prepared.lists.labels.select("variable", "code", "label_en", "parent").rows() == [
        ("region", "01", "North", None), ("region", "02", "South", None),
        ("town", "01001", "One", "01"), ("town", "01002", "Two", "01"), ("town", "02001", "Three", "02"),
    ]  # fmt: skip


def test_a_list_that_the_finest_column_has_already_is_not_advised_for_it_again(of_all_levels):
    both = 'town = {file = "all.csv", parent = "above"}\nregion = {file = "all.csv"}\n'
    with pytest.raises(
        ilba.InputError, match=r"of 'region'\. Remove codes\.region: codes\.town has .*names this level"
    ) as e:
        matched(of_all_levels, AREAS + both)
    assert "instead" not in str(e.value)


@pytest.mark.parametrize("zeros", [True, False])
@pytest.mark.parametrize("file", ["nace.hrc", "edges.csv"])
def test_the_file_of_a_hierarchy_places_the_codes_of_a_list_of_all_levels_also_short_paths(folder, file, zeros):
    edges = [("A", ""), ("01", "A"), ("011", "01"), ("012", "01"), ("E", ""), ("036", "E")]
    (folder / "nace.hrc").write_text("A\n@01\n@@011\n@@012\nE\n@036\n")
    (folder / "edges.csv").write_text("code,above\n" + "".join(f"{code},{above}\n" for code, above in edges))
    more = [("0111", "011"), ("038", "E")]  # finer than the hierarchy, and not in it
    lines = [(code, f"Name {code}", above) for code, above in [*edges, *more]]
    if not zeros:
        lines = [(code.lstrip("0"), name, above.lstrip("0")) for code, name, above in lines]
    (folder / "all.csv").write_text("code,name,above\n" + "".join(",".join(line) + "\n" for line in lines))
    (folder / "p.csv").write_text("nace,sex\n" + "".join(f"{code},{s}\n" * 9 for code in ("011", "036") for s in "fm"))
    text = f'[hierarchies]\nh = {{column = "nace", levels = ["section", "division"], file = "{file}"}}\n[codes]\n'
    text += f'nace = {{file = "all.csv", parent = "above"{"" if zeros else ", pad = 3"}}}\n'
    prepared, finest = finest_of(folder, text)
    assert prepared.lists.labels.select("variable", "code", "label_en", "parent").rows() == [
        ("section", "A", "Name A", None), ("section", "E", "Name E", None),
        ("division", "01", "Name 01", "A"), ("division", "036", "Name 036", "E"), ("division", "038", "Name 038", "E"),
        ("nace", "011", "Name 011", "01"), ("nace", "012", "Name 012", "01"), ("nace", "036", "Name 036", "036"),
        ("nace", "038", "Name 038", "038"),
    ]  # fmt: skip
    (match,) = prepared.matched(finest)
    assert (match.without, match.orphans, match.strays) == ((), (), ())


def test_a_region_with_the_number_of_a_town_is_named_and_stays_a_region(of_all_levels):
    towns = ["1", "2", "3", "4", "5"]
    (of_all_levels / "p.csv").write_text("region,town,sex\n" + "".join(f"1,{town},f\n" * 9 for town in towns))
    (of_all_levels / "regions.csv").write_text("code,name\n1,North\n2,South\n")
    (match,) = matched(of_all_levels, AREAS + 'region = {file = "regions.csv"}\n')
    said = "region: the code list regions.csv has 1 code of the data; 1 code more, with codes of town: 2"
    assert str(match) == said
    (of_all_levels / "own.csv").write_text("variable,code\nregion,1\nregion,2\nregion,3\n")
    prepared, finest = finest_of(of_all_levels, AREAS.removesuffix("[codes]\n"), 'lists = ["own.csv"]\n')
    (match,) = prepared.matched(finest)
    assert str(match) == "region: the code list own.csv has 1 code of the data; 2 codes more"
    assert prepared.lists.labels["code"].to_list() == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("sxe,f,Women\nsxe,m,Men", "codes of 'sxe', which is no column .* Did you mean 'sex'"),
        ("job,1,Work\njob,2,School", "codes of 'job', which is no column .* They are town, sex"),
        ("sex,1,Women\nsex,2,Men", "has no code of 'sex': the data has f, m, the code list has 1, 2. Correct the"),
        ("sex,F,Women\nsex,M,Men", "In upper case they match: write recipe.sex = "),
    ],
)
def test_a_list_of_several_variables_that_names_none_of_the_data_is_refused(folder, rows, says):
    (folder / "codes.csv").write_text(f"variable,code,label_en\n{rows}\n")
    (folder / "publication.toml").write_text(f'lists = ["codes.csv"]\n{HEAD}[hierarchies]\narea = ["town"]\n')
    with pytest.raises(ilba.InputError, match=says):
        ilba.plan(folder)


def test_side_files_match_records_in_any_form_of_unicode_and_labels_of_records_stay(folder):
    def written(form, people_form):
        rows = [f"{town},{sex},{n % 3}" for n, (town, sex) in enumerate([("01", "Άνδρες"), ("02", "Γυναίκες")] * 20)]
        (folder / "p.csv").write_text(unicodedata.normalize(people_form, "town,sex,mar\n" + "\n".join(rows) + "\n"))
        codes = "variable,code,label_el\nΦύλο,,Φύλο\nΦύλο,Άνδρες,Άρρεν\nΦύλο,Γυναίκες,Θήλυ\nΦύλο,Λοιπά,Λοιπά\n"
        (folder / "codes.csv").write_text(unicodedata.normalize(form, codes), encoding="utf-8")
        recode = "παλαιά,νέα κατηγορία\nΆνδρες,1\nΓυναίκες,2\n"
        (folder / "recode.csv").write_text(unicodedata.normalize(form, recode), encoding="utf-8")
        pl.DataFrame({"κωδικός": ["01", "02"], "όνομα": ["Ένα", "Δύο"]}).select(
            pl.all().name.map(lambda name: unicodedata.normalize(form, name)), above=pl.lit(None, pl.String)
        ).write_excel(folder / "towns.xlsx", unicodedata.normalize(form, "Δήμοι"))
        text = (
            '[hierarchies]\narea = ["town"]\n[recipe]\n"Φύλο" = {from = "sex"}\n'
            'g = {from = "sex", recode = {file = "recode.csv", from = "παλαιά", to = "νέα κατηγορία"}}\n'
            '[codes]\ntown = {file = "towns.xlsx", sheet = "Δήμοι", code = "κωδικός", label = {el = "όνομα"}}\n'
        )
        (folder / "publication.toml").write_text(
            'keys = ["Φύλο", "g"]\nlists = ["codes.csv"]\n[source]\nfile = "p.csv"\n' + text, encoding="utf-8"
        )
        prepared = Prepared(folder)
        finest = counted(prepared)[0]
        assert [(one.found, one.without, one.extra) for one in prepared.matched(finest)] == [(2, (), 1), (2, (), 0)]
        return finest

    for people_form in ("NFC", "NFD"):
        same = written("NFC", people_form)
        own = unicodedata.normalize(people_form, "Άνδρες")
        assert own in same.frame["Φύλο"].to_list()
        assert own in same.labels["code"].to_list()
        assert unicodedata.is_normalized("NFC", "".join(same.labels["label_el"].drop_nulls()))
        other = written("NFD", people_form)
        assert other.labels.equals(same.labels)
        assert [one.labels.rows() for one in other.codes.lists] == [one.labels.rows() for one in same.codes.lists]


def test_values_that_differ_only_by_the_form_of_unicode_are_told_and_a_recode_mends_them(folder):
    forms = [unicodedata.normalize(form, "Άνδρες") for form in ("NFC", "NFD")]
    pl.DataFrame({"town": ["01", "02"] * 30, "sex": [*forms, "x", "y", "y"] * 12}).write_csv(folder / "p.csv")
    facts = ilba.inspect(folder / "p.csv").records.column("sex")
    assert (facts.values, facts.case, facts.recode) == (3, "", {forms[1]: forms[0]})
    finest = finest_of(folder, '[hierarchies]\narea = ["town"]\n')[1]
    (doubt,) = doubts(finest)
    assert "'Άνδρες'" in doubt
    assert "(decomposed Unicode, NFD)" in doubt
    assert 'sex = {recode = "FILE.csv", unmatched = "keep"}' in doubt
    (folder / "publication.toml").unlink()
    asked = run("init", "p.csv", cwd=folder).stdout
    assert f"sex: {forms[1]!r} (decomposed Unicode, NFD) becomes {forms[0]!r}. Is this right?" in asked
    mended = counted(Prepared(folder))[0]
    assert doubts(mended) == []
    assert mended.codes.lists[1].labels["sex"].to_list() == sorted([forms[0], "x", "y"])


@pytest.mark.parametrize("name", ["Φύλο", "Mã xã"])
@pytest.mark.parametrize("named", ['keys = ["{}"]\n', 'keys = ["x"]\n[recipe]\nx = {{from = "{}"}}\n'])
def test_a_column_name_in_another_form_of_unicode_is_named_as_such(folder, name, named):
    (folder / "p.csv").write_text(unicodedata.normalize("NFD", f"town,{name}\n01,f\n"), encoding="utf-8")
    more = '[source]\nfile = "p.csv"\n[hierarchies]\nh = ["town"]\n'
    (folder / "publication.toml").write_text(named.format(name) + more, encoding="utf-8")
    with pytest.raises(ilba.InputError, match="the same letters in another form of Unicode: copy the name from there"):
        counted(Prepared(folder))


def test_the_plan_says_how_each_variable_of_a_list_matches(folder):
    (folder / "codes.csv").write_text("variable,code,label_en\nsex,,Sex\nsex,f,Women\nsex,x,Other\njob,1,Work\n")
    (folder / "more.csv").write_text("variable,code\nsex,m\ntown,01001\n")
    text = '[hierarchies]\narea = ["town"]\n'
    prepared, finest = finest_of(folder, text, 'lists = ["codes.csv", "more.csv"]\n')
    assert list(map(str, prepared.matched(finest))) == [
        "sex: the code list codes.csv has 1 code of the data; 1 code more; it also has variables that are no columns "
        "here: job",
        "sex: the code list more.csv has 1 code of the data",
        "town: the code list more.csv has 1 code of the data, and not 01002, 02001",
    ]


def test_a_url_as_the_file_of_records_is_refused_with_what_to_type(folder):
    text = HEAD.replace("p.csv", "s3a://lake/people") + '[hierarchies]\narea = ["town"]'
    (folder / "publication.toml").write_text(text)
    with pytest.raises(ilba.InputError, match="'s3a://lake/people', and a publication reads files of this machine"):
        Prepared(folder)


THREE = """[hierarchies]
area = {column = "town", levels = ["region", "district"], prefixes = [2, 4]}
[recipe]
town = {pad = 5}
[codes]
"""


@pytest.fixture
def spreadsheet(folder):
    """A list that lost its leading zeros, as a spreadsheet keeps it."""
    rows = "1001,One,100,North,1\n1002,Two,100,North,1\n2001,Three,200,South,2\n2002,Four,200,South,2\n"
    (folder / "lost.csv").write_text("t,tn,d,dn,r\n" + rows)
    return folder


@pytest.mark.parametrize("parents", [True, False])
@pytest.mark.parametrize("region", ["", 'region = {file = "lost.csv", code = "r", label = "dn", pad = 2}\n'])
def test_parents_that_lost_their_zeros_are_spelled_as_the_codes_of_the_level_above(spreadsheet, parents, region):
    text = 'town = {file = "lost.csv", pad = 5, parent = "d"}\n'
    text += 'district = {file = "lost.csv", code = "d", pad = 4, label = "dn", parent = "r"}\n' + region
    if not parents:
        text = text.replace(', parent = "d"', "").replace(', parent = "r"', "")
    prepared, finest = finest_of(spreadsheet, THREE + text)
    found = prepared.lists.labels.select("variable", "code", "parent").rows()
    assert ("town", "01001", "0100") in found
    assert ("district", "0200", "02") in found
    assert {parent for variable, _, parent in found if variable == "town"} == {"0100", "0200"}
    assert not any(one.orphans for one in prepared.matched(finest))


def test_a_parent_that_is_no_code_of_the_level_above_is_told_and_refused_if_none_is(spreadsheet):
    plain = THREE.replace("town = {pad = 5}", "")
    text = 'town = {file = "lost.csv", pad = 5, parent = "dn"}\n'
    with pytest.raises(
        ilba.InputError, match=r"no parent in 'dn' of 'lost.csv' is a code of 'district': it has North, "
    ):
        matched(spreadsheet, plain + text)
    lost = (spreadsheet / "lost.csv").read_text()
    (spreadsheet / "lost.csv").write_text(lost.replace("Four,200", "Four,9"))
    (match,) = matched(spreadsheet, plain + text.replace("dn", "d"))
    assert match.orphans == ("9",)
    assert "with parents that are no codes of the level above: 9" in str(match)


def test_parents_without_zeros_of_a_level_that_nothing_declares_are_told_what_to_type(spreadsheet):
    rows = [f"{town[:2]},{town},{sex}" for town in ("01001", "01002", "02001") for sex in "fm" for _ in range(9)]
    (spreadsheet / "p.csv").write_text("region,town,sex\n" + "\n".join(rows) + "\n")
    text = '[hierarchies]\narea = ["region", "town"]\n[codes]\ntown = {file = "lost.csv", pad = 5, parent = "r"}\n'
    with pytest.raises(ilba.InputError, match=r"codes.region = {file = 'lost.csv', code = 'r', pad = 2}"):
        matched(spreadsheet, text)
    more = "region = {file = 'lost.csv', code = 'r', label = 'dn', pad = 2}\n"
    assert [one.orphans for one in matched(spreadsheet, text + more)] == [(), ()]


def test_the_unit_is_a_text_or_one_per_language_as_the_title_is(folder):
    area = '[hierarchies]\narea = {column = "town", levels = ["region"], prefixes = [2]}\n[population]\nname = "p"\n'
    prepared, finest = finest_of(folder, area + 'unit = {en = "persons", fr = "personnes"}\n')
    assert finest.population.unit == "persons"
    assert prepared.texts == {"fr": {"unit": "personnes"}}
    prepared, finest = finest_of(folder, area + 'unit = "homes"\n[about]\ntitle = {en = "Homes", fr = "Foyers"}\n')
    assert finest.population.unit == "homes"
    assert prepared.texts == {"fr": {"title": "Foyers"}}


def test_every_file_that_the_publication_file_names_may_be_named_by_the_wave(tmp_path):
    text = """
keys = ["sex"]
lists = ["lists_{wave}.csv"]
[source]
file = "p_{wave}.csv"
[population]
wave = "2026"
[hierarchies]
area = {column = "town", levels = ["region"], file = "areas_{wave}.hrc"}
[recipe]
sex = {recode = "sex_{wave}.csv"}
town = {recode = {file = "towns_{wave}.csv", from = "old"}}
[codes]
town = {file = "codes_{wave}.xlsx"}
[maps]
town = {file = "map_{wave}.gpkg"}
"""
    (tmp_path / "publication.toml").write_text(text)
    stems = {file.stem for file in Prepared(tmp_path).files()}
    assert stems >= {f"{name}_2026" for name in ("p", "lists", "areas", "sex", "codes", "map")}
    for entry in ("lists", "hierarchies.area.file", "recipe.sex.recode", "codes.town.file", "maps.town.file"):
        name = {"lists": "lists_{wave}", "hierarchies.area.file": "areas_{wave}", "recipe.sex.recode": "sex_{wave}"}
        name |= {"codes.town.file": "codes_{wave}", "maps.town.file": "map_{wave}"}
        plain = text.replace(name[entry], "@").replace("{wave}", "2026").replace("@", name[entry])
        (tmp_path / "publication.toml").write_text(plain.replace('wave = "2026"', ""))
        with pytest.raises(ilba.InputError, match=f"{re.escape(entry)} = .* needs the wave"):
            Prepared(tmp_path)


def test_a_list_names_parents_by_a_new_code_that_a_recode_makes_the_old_one(folder):
    (folder / "p.csv").write_text("county,town,sex\n" + "01,a,f\n05,b,m\n" * 9)
    (folder / "t.csv").write_text("code,county\na,01\nb,05\n")
    (folder / "c.csv").write_text("code,name\n01,One\n05,New name\n")
    (folder / "recode.csv").write_text("new,old\n05,02\n")
    lists = '[codes]\ntown = {file = "t.csv", code = "code", parent = "county"}\n'
    text = '[hierarchies]\narea = ["county", "town"]\n[recipe]\ncounty = {recode = "recode.csv", unmatched = "keep"}\n'
    for known in ("", 'county = {file = "c.csv", code = "code", label.en = "name"}\n'):
        prepared, finest = finest_of(folder, text + lists + known)
        assert not any(one.without or one.extra or one.orphans for one in prepared.matched(finest))
        rows = prepared.lists.labels.select("variable", "code", "label_en", "parent").rows()
        assert ("town", "b", None, "02") in [(*row[:2], None, row[3]) for row in rows]
    assert ("county", "02", "New name", None) in rows
