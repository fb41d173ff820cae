"""What an office does next year: a new file, a correction, a second publication file in the same folder."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

import ilba
from ilba.publication.days import days_kept, recorded_now
from ilba.publication.planning import counted
from ilba.publication.prepared import Prepared
from ilba.publication.publishing import released_by
from support.commands import run
from support.people import population

FILE = """
keys = ["sex"]
method = "controlled"
[source]
file = "people_2025.csv"
[population]
name = "people"
wave = "2025"
[about]
title = {en = "People", de = "Leute"}
source = {en = "Register", de = "Melderegister"}
[hierarchies]
area = ["region", "town"]
[labels]
sex = {en = "Sex", de = "Geschlecht"}
[outputs]
release = "release-{wave}"
exports = "exports-{wave}"
formats = ["json-stat"]
languages = ["de", "en"]
"""


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The folder of an office that has published one wave, and its ledger."""
    folder, people = tmp_path_factory.mktemp("office"), population().select("region", "town", "sex")
    people.head(2000).write_csv(folder / "people_2025.csv")
    people.tail(2000).write_csv(folder / "people_2026.csv")
    (folder / "publication.toml").write_text(FILE)
    with contextlib.chdir(folder):
        ilba.publish()
    return folder, Path(os.environ["ILBA_LEDGER"])


@pytest.fixture
def office(published, tmp_path, monkeypatch):
    folder, ledger = published
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    shutil.copytree(ledger, os.environ["ILBA_LEDGER"])
    monkeypatch.chdir(tmp_path)
    return tmp_path


def edit(office, *changes, file="publication.toml"):
    text = (office / "publication.toml").read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (office / file).write_text(text)


@pytest.mark.slow
def test_other_records_under_a_published_wave_are_refused_unless_they_correct_it(office):
    before = (office / "release-2025" / "release.json").read_bytes()
    edit(office, ("people_2025.csv", "people_2026.csv"))
    planned = ilba.plan()
    assert not planned.is_possible
    assert ["not the records that were published as wave '2025'" in reason for reason in planned.refused] == [True]
    assert "Next: a new wave under [population], or for a correction: ilba publish --correction" in str(planned)
    assert "REFUSED    these are not the records" in run("plan", cwd=office, code=1).stdout
    with pytest.raises(ilba.Conflict, match="needs a new wave"):
        ilba.publish()
    assert "To correct that wave: ilba publish --correction" in run("publish", cwd=office, code=2).stderr
    assert (office / "release-2025" / "release.json").read_bytes() == before
    ilba.publish(correction=True)
    assert (office / "release-2025" / "release.json").read_bytes() != before
    assert ilba.publish().is_unchanged


@pytest.mark.slow
def test_a_new_wave_gets_folders_of_its_own_and_both_are_served(office):
    edit(office, ("people_2025.csv", "people_2026.csv"), ('wave = "2025"', 'wave = "2026"'))
    assert not ilba.plan().refused
    ilba.publish()
    assert [place.name for place in released_by()] == ["release-2025", "release-2026"]
    assert {place.name for place in office.glob("exports-*")} == {"exports-2025", "exports-2026"}
    waves = [ilba.Release(place).manifest["population"]["wave"] for place in released_by()]
    assert waves == ["2025", "2026"]
    manifest = ilba.Release(released_by()[0]).manifest
    assert (manifest["title"], manifest["source"]) == ("People", "Register")
    assert manifest["texts"] == {"de": {"title": "Leute", "source": "Melderegister"}}


def test_a_wave_on_the_command_line_takes_the_place_of_that_of_the_file_everywhere(office):
    edit(office, ("people_2025.csv", "people_{wave}.csv"))
    before = (office / "publication.toml").read_bytes()
    planned = run("plan", "--wave", "2026", cwd=office).stdout
    assert "Next: ilba publish --wave 2026" in planned
    run("publish", "--wave", "2026", cwd=office)
    assert "nothing has changed" in run("publish", "--wave", "2026", cwd=office).stdout
    assert (office / "publication.toml").read_bytes() == before
    assert [place.name for place in released_by()] == ["release-2025", "release-2026"]  # as `ilba serve` finds them
    manifest = ilba.Release("release-2026").manifest
    assert manifest["population"]["wave"] == "2026"
    assert (office / "exports-2026").is_dir()
    pl.read_csv("people_2026.csv").head(1000).write_csv("people_2026.csv")
    wrong = run("publish", "--wave", "2026", cwd=office, code=2).stderr
    assert "not the records that were published as wave '2026'" in wrong
    assert "To correct that wave: ilba publish --wave 2026 --correction" in wrong
    edit(office, ("release-{wave}", "release-2025"))
    with pytest.raises(ilba.UnsafeRelease, match="holds the release of wave '2025', and this is wave '2026'"):
        ilba.publish(wave="2026")


@pytest.mark.slow
def test_a_new_wave_with_missing_values_as_a_category_is_told_in_plan_and_publication(office):
    people = pl.read_csv("people_2026.csv", infer_schema=False)
    people.with_columns(pl.when(pl.int_range(pl.len()) % 20 > 0).then("sex").alias("sex")).write_csv("people_2026.csv")
    edit(
        office,
        ('file = "people_2025.csv"', 'file = "people_2026.csv"\nmissing = "category"'),
        ('wave = "2025"', 'wave = "2026"'),
    )
    (told,) = [note for note in ilba.plan().stops if "missing values as a category" in note]
    assert told.startswith("sex has")
    with pytest.warns(ilba.Notice, match="sex has missing values as a category, and no earlier publication"):
        ilba.publish()
    page = (office / "confidential" / "decision.en.html").read_text("utf-8")
    assert "finds other masks under the same codes only where counts changed" in page
    assert "conflict" not in page


@pytest.mark.slow
def test_missing_values_that_were_a_category_and_are_dropped_now_are_told_in_plan_and_publication(office):
    people = pl.read_csv("people_2026.csv", infer_schema=False)
    people = people.with_columns(pl.when(pl.int_range(pl.len()) % 20 > 0).then("sex").alias("sex"))
    people.write_csv("people_2026.csv")
    people.tail(-7).write_csv("people_2027.csv")
    kept = 'missing = "category"'
    edit(
        office,
        ('file = "people_2025.csv"', f'file = "people_{{wave}}.csv"\n{kept}'),
        ('wave = "2025"', 'wave = "2026"'),
    )
    ilba.publish()
    edit(office, ('wave = "2026"', 'wave = "2027"'))
    assert not [note for note in ilba.plan().stops if "no missing values now" in note]
    edit(office, (kept, 'missing = "drop"'))
    (told,) = [note for note in ilba.plan().stops if "no missing values now" in note]
    assert told.startswith("sex has no missing values now, and the last publication of the population")
    with pytest.warns(ilba.Notice, match="sex has no missing values now"):
        ilba.publish()


@pytest.mark.slow
def test_an_area_with_a_new_code_is_told_and_a_recode_to_the_old_code_keeps_its_masks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(n % 6, n * n % 17, n**3 % 11) for n in range(1200)]
    people = pl.DataFrame(rows, schema=["town", "age", "cit"], orient="row").with_columns(pl.all().cast(pl.String))
    people.write_csv("p_2025.csv")
    people.with_columns(pl.col("town").replace("3", "13")).write_csv("p_2026.csv")
    said = FILE.replace("people_2025", "p_{wave}").replace('"sex"', '"age", "cit"').replace('"region", ', "")
    said = "\n".join(line for line in said.splitlines() if not line.startswith(("sex =", "[labels]")))
    file = tmp_path / "publication.toml"
    file.write_text(said)
    ilba.publish()
    file.write_text(later := said.replace('wave = "2025"', 'wave = "2026"'))
    told = "town: 1 code of wave '2025' is gone ('3'), 1 is new ('13'). Where only the code changed"
    (stop,) = ilba.plan().stops
    assert stop.startswith(told)
    assert told in run("--strict", "publish", cwd=tmp_path, code=1).stderr
    (tmp_path / "codes-2026.csv").write_text("new,old\n13,3\n")
    file.write_text(later + '\n[recipe]\ntown = {recode = "codes-2026.csv", unmatched = "keep"}\n')
    assert not ilba.plan().stops
    ilba.publish()
    before, now = (ilba.Release(f"release-{wave}").table("town.age.cit") for wave in ("2025", "2026"))
    assert (people.group_by(pl.all()).len()["len"] < 5).sum() > 0
    assert now.equals(before)
    page = (tmp_path / "confidential" / "decision.en.html").read_text("utf-8")
    assert "new codes for the same people can prove small counts" in page


OLD, NEW = "15292", "15999"
TWO_LEVELS = """[hierarchies]
area = ["county", "town"]
[recipe]
county = """
LOOKUP = TWO_LEVELS + '{from = "town", recode = {file = "towns_{wave}.csv", from = "code", to = "county"}}'
TREE = """[hierarchies]
area = {column = "town", levels = ["county"], file = "towns_{wave}.csv"}
[recipe]"""
LISTED = 'town = {file = "towns_{wave}.csv", code = "code", label = {en = "name"}}'


@pytest.mark.parametrize(
    ("area", "lists", "codes"),
    [
        (LOOKUP, "", LISTED.replace("label", 'parent = "county", label')),
        (TWO_LEVELS + '{from = "town", prefix = 2}', "", LISTED),
        (TREE, "", LISTED),
        (LOOKUP, 'lists = ["codes_{wave}.csv"]', ""),
    ],
    ids=["a list makes the county", "the first letters", "a hierarchy", "a list of all variables"],
)
def test_the_files_of_a_year_may_have_the_new_code_that_a_recode_makes_the_old_one(tmp_path, area, lists, codes):
    text = f"""keys = ["sex"]
{lists}
[source]
file = "p_{{wave}}.csv"
[population]
name = "people"
{area}
town = {{recode = "recode_{{wave}}.csv", unmatched = "keep"}}
[codes]
{codes}
[maps]
town = {{file = "map_{{wave}}.geojson", code = "k"}}
"""
    (tmp_path / "publication.toml").write_text(text)
    seen = []
    for wave, code, recode in (("2025", OLD, ""), ("2026", NEW, f"{NEW},{OLD}\n")):
        towns = ["11111", "12222", code]
        people = "".join(f"{town},{sex}\n" for town in towns for sex in "fm")
        listed = "".join(f"town,{town},N{town},{town[:2]}\n" for town in towns)
        files = {
            f"p_{wave}.csv": f"town,sex\n{people * 9}",
            f"towns_{wave}.csv": "code,county,name\n" + "".join(f"{town},{town[:2]},N{town}\n" for town in towns),
            f"codes_{wave}.csv": f"variable,code,label_en,parent\n{listed}",
            f"recode_{wave}.csv": f"new,old\n{recode}",
        }
        for name, lines in files.items():
            (tmp_path / name).write_text(lines)
        point = {"type": "Point", "coordinates": [1, 2]}
        shapes = [{"type": "Feature", "properties": {"k": town}, "geometry": point} for town in towns]
        (tmp_path / f"map_{wave}.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": shapes}))
        prepared = Prepared(tmp_path, wave)
        finest, _ = counted(prepared)
        assert not any(one.without or one.extra for one in prepared.matched(finest))
        ((label, parent),) = prepared.lists.labels.filter(pl.col("code") == OLD).select("label_en", "parent").rows()
        assert label == f"N{code}"
        drawn = [one["id"] for one in prepared.maps["town"]["features"]]
        seen.append((finest.frame.select("county", "town").rows(), parent, drawn))
    assert seen[0] == seen[1]


@pytest.mark.slow
def test_the_decision_page_names_a_conflict_of_its_own_wave_and_waves_that_had_one(office):
    edit(
        office,
        ("people_2025.csv", "people_2026.csv"),
        ('wave = "2025"', 'wave = "2026"'),
        ("[source]", "mask_thr = 7\n[source]"),
    )
    with pytest.raises(ilba.Conflict) as refused:
        ilba.publish()
    ilba.publish(accept_conflict=refused.value.id)
    page = office / "confidential" / "decision.en.html"
    assert "may prove small counts; this conflict with the ledger was accepted" in page.read_text("utf-8")
    people = pl.read_csv("people_2026.csv", infer_schema=False)
    people.head(1900).write_csv("people_2027.csv")
    edit(office, ("people_2026.csv", "people_2027.csv"), ('wave = "2026"', 'wave = "2027"'))
    ilba.publish()
    assert "this conflict" not in page.read_text("utf-8")
    assert "the publication of 2026 had a conflict with the ledger" in page.read_text("utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("people", ["people_2025.csv", "people_2026.csv"], ids=["equal counts", "other counts"])
def test_the_plan_of_a_wave_by_a_joint_method_is_refused_as_the_publication_is(tmp_path, monkeypatch, people):
    monkeypatch.chdir(tmp_path)
    given = population().select("region", "town", "sex", "age")
    given.head(60).write_csv("people_2025.csv")
    given.tail(60).write_csv("people_2026.csv")
    by = 'method = "small-count-rounding:5"\naccept_risk = true'
    text = FILE.replace('method = "controlled"', by).replace('keys = ["sex"]', 'keys = ["sex", "age"]')
    Path("publication.toml").write_text(text)
    Path("confidential").mkdir(mode=0o700)
    ilba.Secret(bytes([3] * 32)).to_file(
        "confidential/publication.secret"
    )  # with some, both waves get the same numbers
    planned = ilba.plan()
    assert planned.is_possible
    assert "another wave, or a correction, gets other numbers for unchanged counts" in " ".join(planned.notes)
    ilba.publish()
    page = Path("confidential", "decision.en.html").read_text("utf-8")
    assert "finds other numbers or blanks in another wave or a correction" in page
    assert ilba.plan().is_possible, "the same numbers again"
    Path("publication.toml").write_text(text.replace("people_2025.csv", people))
    with pytest.raises(ilba.Conflict, match="chooses all numbers together") as refused:
        ilba.publish(wave="2026")
    assert list(ilba.plan(wave="2026").refused) == [str(refused.value)]
    run("plan", "--wave", "2026", cwd=tmp_path, code=1)
    ilba.publish(wave="2026", accept_conflict=refused.value.id)
    assert ilba.publish(wave="2026").is_unchanged
    assert ilba.plan(wave="2026").is_possible


@pytest.mark.slow
def test_a_plan_refuses_noise_beyond_the_budget_and_not_the_same_noise_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = population().select("region", "town", "sex")
    given.write_csv("people_2025.csv")
    codes = [("region", one, "") for one in given["region"].unique()] + [
        ("sex", one, "") for one in given["sex"].unique()
    ]
    codes += [("town", town, region) for region, town in given.select("region", "town").unique().rows()]
    pl.DataFrame(codes, schema=["variable", "code", "parent"], orient="row").write_csv("codes.csv")
    noise = 'method = "noise:0.6"\nbudget = 1.0\nlists = ["codes.csv"]'
    Path("publication.toml").write_text(FILE.replace('method = "controlled"', noise))
    ilba.publish()
    page = Path("confidential", "decision.en.html").read_text("utf-8")
    assert "Noise is never called safe" in page
    assert "finds new noise in another wave" in page
    assert ilba.plan().is_possible
    shutil.copy("people_2025.csv", "people_2026.csv")
    planned = ilba.plan(wave="2026")
    assert "0.6 of 1 is spent" in "".join(planned.refused)
    with pytest.raises(ilba.UnsafeRelease, match=r"0\.6 of 1 is spent"):
        ilba.publish(wave="2026")


@pytest.mark.slow
def test_a_correction_by_a_joint_method_is_planned_as_a_conflict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = population().select("region", "town", "sex")
    given.head(2000).write_csv("people_2025.csv")
    Path("publication.toml").write_text(
        FILE.replace('method = "controlled"', 'method = "suppression"\naccept_risk = true')
    )
    ilba.publish()
    given.tail(2000).write_csv("people_2025.csv")
    conflict, other = ilba.plan().refused
    assert "chooses all blanks together" in conflict
    assert "ilba publish --correction" in other
    with pytest.raises(ilba.Conflict, match="chooses all blanks together") as refused:
        ilba.publish(correction=True)
    ilba.publish(correction=True, accept_conflict=refused.value.id)


@pytest.mark.slow
def test_the_plan_of_a_new_wave_keeps_published_masks_as_the_release_does(office):
    people = ilba.datasets.census(3_000).select(region="LA2", town="LA3", sex="age")
    people.write_csv("people_2025.csv")
    people.tail(2_700).write_csv("people_2026.csv")
    edit(office, ('name = "people"', 'name = "others"'), ("release-{wave}", "others-{wave}"))
    ilba.publish()
    edit(office, ("people_2025.csv", "people_2026.csv"), ('wave = "2025"', 'wave = "2026"'))
    planned = ilba.plan().choices[0]
    ilba.publish()
    reached = ilba.losses(ilba.audit(ilba.open_store("confidential/publication.parquet").published()).published)
    assert (planned.method, planned.max_loss) == ("controlled", abs(reached).max())
    assert planned.mean_loss == pytest.approx(abs(reached).mean())


@pytest.mark.slow
def test_the_plan_of_a_wave_with_a_conflict_has_the_figures_of_the_publication_that_accepts_it(office):
    people = ilba.datasets.census(3_000).select(region="LA2", town="LA3", sex="age")
    people.write_csv("people_2025.csv")
    people.tail(2_700).write_csv("people_2026.csv")
    edit(office, ('name = "people"', 'name = "others"'), ("release-{wave}", "others-{wave}"))
    edit(office, ('method = "controlled"', 'method = "ilba"\naccept_risk = true'))
    ilba.publish()
    edit(office, ('method = "ilba"\naccept_risk = true', 'method = "controlled"'))
    edit(office, ("people_2025.csv", "people_2026.csv"), ('wave = "2025"', 'wave = "2026"'))
    planned = ilba.plan()
    with pytest.raises(ilba.Conflict) as refused:
        ilba.publish()
    assert list(planned.refused) == [str(refused.value)]
    ilba.publish(accept_conflict=refused.value.id)
    reached = ilba.losses(ilba.audit(ilba.open_store("confidential/publication.parquet").published()).published)
    assert planned.choices[0].max_loss == abs(reached).max()
    assert planned.choices[0].mean_loss == pytest.approx(abs(reached).mean())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (('wave = "2025"', 'wave = "2026"'), "wave '2025'"),
        (('name = "people"', 'name = "dogs"'), "release of 'people'"),
    ],
)
def test_a_folder_that_holds_another_wave_or_population_is_not_replaced(office, change, says):
    edit(office, change, ("release-{wave}", "release-2025"))
    before = (office / "release-2025" / "release.json").read_bytes()
    assert any(says in reason for reason in ilba.plan().refused)
    with pytest.raises(ilba.UnsafeRelease, match=says):
        ilba.publish()
    assert (office / "release-2025" / "release.json").read_bytes() == before


@pytest.mark.slow
def test_a_folder_named_by_the_wave_needs_one(office):
    edit(office, ('wave = "2025"', 'wave = ""'))
    with pytest.raises(ilba.InputError, match="needs the wave"):
        ilba.plan()


@pytest.mark.slow
def test_labels_and_exports_are_in_any_language_and_pages_in_one_that_there_is(office):
    assert "Geschlecht" in (office / "exports-2025" / "town.sex.de.json").read_text("utf-8")
    assert (office / "confidential" / "decision.en.html").exists()
    assert not (office / "confidential" / "decision.de.html").exists()


@pytest.mark.long
def test_a_second_publication_file_has_pages_and_recodes_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = pl.DataFrame({"town": ["a", "b"] * 60, "sex": ["F", " f", "female", "M", "m", "male"] * 20})
    people.write_csv("survey_2025.csv")
    ilba.init("survey_2025.csv", out="y1.toml")
    recode = tmp_path / "confidential" / "recode-sex.csv"
    mine = recode.read_text() + "w,f\n"
    recode.write_text(mine)
    ilba.init("survey_2025.csv", out="y2.toml")
    assert recode.read_text() == mine
    assert "recode-sex-2.csv" in (tmp_path / "y2.toml").read_text()
    texts = [(tmp_path / name).read_text() for name in ("y1.toml", "y2.toml")]
    assert 'name = "survey"' in texts[0]
    assert 'wave = "2025"' in texts[0]
    assert 'release = "y1-release-{wave}"' in texts[0]
    assert 'release = "y2-release-{wave}"' in texts[1]
    assert "Next: ilba publish y1.toml" in str(ilba.plan("y1.toml"))
    ilba.publish("y1.toml")
    assert (tmp_path / "confidential" / "y1-decision.en.html").exists()


@pytest.mark.slow
def test_a_word_that_is_not_known_gets_the_nearest_one_and_the_choices(office):
    edit(office, ('method = "controlled"', 'method = "controled"'))
    with pytest.raises(ilba.InputError, match=r"no method 'controled'. Did you mean 'controlled'"):
        ilba.plan()
    edit(office, ('method = "controled"', 'cells = "observd"'))
    with pytest.raises(ilba.InputError, match=r"cells: 'observd' is not known. Did you mean 'observed'.*grid"):
        ilba.plan()


@pytest.mark.long
def test_a_plan_measures_the_own_ptable_and_says_that_there_are_no_record_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    population().select("region", "town", "sex").write_csv("people_2025.csv")
    pl.DataFrame({"i": [0, 1, 1], "j": [0, 0, 2], "p": [1.0, 0.5, 0.5]}).write_csv("p.csv")
    text = FILE.replace('method = "controlled"', 'method = "cell-key:ptable=p.csv"\naccept_risk = true')
    (tmp_path / "publication.toml").write_text(text)
    plan = ilba.plan()
    assert [one.max_loss for one in plan.choices if one.method == "cell-key"] == [1]
    assert any("this store has no record keys" in note for note in plan.notes)
    (tmp_path / "publication.toml").write_text(text.replace("cell-key:ptable=p.csv", "rounding:3"))
    assert [one.max_loss for one in ilba.plan().choices if one.method == "rounding"] == [2]


@pytest.mark.long
def test_a_publication_file_takes_cell_keys_with_the_keys_of_the_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = population().select("region", "town", "sex").with_row_index("key")
    people.with_columns(pl.col("key") * 37 % 256).write_csv("people_2025.csv")
    text = FILE.replace('method = "controlled"', 'method = "cell-key:D=3,V=1.5,js=1"\naccept_risk = true')
    text = text.replace('file = "people_2025.csv"', 'file = "people_2025.csv"\nrecord_key = "key"')
    (tmp_path / "publication.toml").write_text(text)
    assert not ilba.plan().refused
    release = ilba.publish().release
    assert release.manifest["method"] == "cell-key"
    keyed = ilba.build("people_2025.csv", ["region", "town"], ["sex"], record_key="key", secret=ilba.Secret(bytes(32)))
    shown = keyed.with_method("cell-key:D=3,V=1.5,js=1").table("town", ["sex"]).public()
    assert release.table("town.sex")["N_masked"].to_list() == shown["N_masked"].to_list()
    assert ilba.publish().is_unchanged


def test_a_plan_says_what_its_attackers_know_and_where_nearly_everybody_is_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people = pl.DataFrame(
        {"town": ["a", "b"] * 200, "year": [str(1900 + i % 100) for i in range(400)], "n": range(400)}
    )
    people.with_columns(pl.col("n") % 7).write_csv("people.csv")
    ilba.init("people.csv")
    text = (tmp_path / "publication.toml").read_text()
    start = text.index("[hierarchies]")
    text = text[:start] + '[hierarchies]\narea = ["town"]\n' + text[text.index("# How columns") :]
    text = text.replace(text[text.index("keys = ") :].splitlines()[0], 'keys = ["year", "n"]')
    (tmp_path / "publication.toml").write_text(text)
    told = str(ilba.plan())
    assert "neighbour (who knows one member of the cell): proves" in told
    assert "year has 100 values: group them" in told


@pytest.mark.long
def test_how_masks_are_chosen_is_planned_published_and_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    population().select("region", "town", "sex").head(2000).write_csv("people_2025.csv")
    asked = 'method = "controlled"\nbound = 8\nsweeps = 20\nmove = 1\nnoise = 0.4'
    (tmp_path / "publication.toml").write_text(FILE.replace('method = "controlled"', asked))
    planned = ilba.plan()
    assert planned.how == planned.to_json()["how"] == {"bound": 8, "sweeps": 20, "move": 1, "noise": 0.4}
    assert "controlled, K=5, bound=8, sweeps=20, move=1, noise=0.4" in str(planned)
    made = ilba.publish().release
    assert made.manifest["parameters"] == {"move": 1, "noise": 0.4}
    kept = ilba.open_store("confidential/publication.parquet").published().chosen
    assert (kept.bound, kept.sweeps, kept.move, kept.noise) == (8, 20, 1, 0.4)
    assert ilba.publish().is_unchanged
    edit(tmp_path, ("move = 1\n", "move = 2\n"))
    planned = ilba.plan()
    assert not planned.is_possible
    assert "move was 1 and is 2" in planned.against_last
    with pytest.raises(ilba.UnsafeRelease, match="by another method, K or reading"):
        ilba.publish()


@pytest.mark.slow
def test_a_file_that_says_nothing_of_how_masks_are_chosen_has_the_mark_that_it_had(office):
    edit(office, ('method = "controlled"', 'method = "controlled"\nsweeps = 20'))
    assert ilba.publish().done[0] == "release"
    edit(office, ("sweeps = 20\n", ""))
    assert "release" in ilba.publish().done
    assert ilba.publish().is_unchanged


@pytest.mark.long
def test_spark_does_not_start_if_nothing_has_changed_and_the_time_is_told(office, monkeypatch):
    monkeypatch.setattr("ilba.cli.planning.session_of", lambda engine: pytest.fail("Spark was started"))
    done = run("publish", "--engine", "spark", cwd=office)
    assert "Nothing was done" in done.stdout
    assert re.fullmatch(r"took \d+ s\n", done.stderr)


@pytest.mark.long
def test_spark_does_not_start_for_the_report_of_a_store_that_is_known_to_be_large(office):
    file = office / "confidential" / "publication.json"
    state = json.loads(file.read_text("utf-8"))
    state["steps"]["large"] = state["steps"]["count"]
    file.write_text(json.dumps(state), "utf-8")
    (office / "confidential" / "report.html").unlink()
    assert ilba.publish(spark=lambda: pytest.fail("Spark was started")).is_unchanged


@pytest.mark.parametrize(
    ("more", "says"), [("", "no secret was given"), ('proposed = ["keys"]', "not confirmed: keys. Check them")]
)
def test_a_strict_publication_without_secret_or_confirmation_fails_before_spark_starts(
    tmp_path, monkeypatch, more, says
):
    monkeypatch.delenv("ILBA_SECRET", raising=False)
    monkeypatch.setattr("ilba.cli.planning.session_of", lambda engine: pytest.fail("Spark was started"))
    (tmp_path / "publication.toml").write_text(more + FILE)
    (tmp_path / "people_2025.csv").write_text("region,town,sex\na,b,f\n")
    assert says in run("--strict", "publish", "--engine", "spark", cwd=tmp_path, code=1).stderr


@pytest.mark.long
def test_a_strict_publication_that_made_a_secret_says_to_run_it_again_and_then_works(tmp_path, monkeypatch):
    monkeypatch.delenv("ILBA_SECRET", raising=False)
    monkeypatch.delenv("ILBA_LEDGER", raising=False)
    (tmp_path / "publication.toml").write_text(FILE)
    (tmp_path / "people_2025.csv").write_text("region,town,sex\n" + "a,b,f\n" * 9)
    assert "Run it again: `ilba publish` finds it" in run("--strict", "publish", cwd=tmp_path, code=1).stderr
    run("--strict", "publish", cwd=tmp_path)


@pytest.mark.long
@pytest.mark.parametrize(("towns", "code"), [("b\nc\nd\n", 1), ("b\nc\nd\nempty\n", 0)])
def test_a_strict_plan_stops_at_a_code_list_at_which_a_strict_publication_stops(tmp_path, monkeypatch, towns, code):
    monkeypatch.delenv("ILBA_SECRET", raising=False)
    monkeypatch.delenv("ILBA_LEDGER", raising=False)
    (tmp_path / "publication.toml").write_text(FILE + '\n[codes]\ntown = {file = "towns.csv", code = "town"}\n')
    (tmp_path / "people_2025.csv").write_text("region,town,sex\n" + "a,b,f\n" * 99 + "a,c,f\n" + "a,d,f\n" * 50)
    (tmp_path / "towns.csv").write_text("town\n" + towns)
    (tmp_path / "confidential").mkdir()
    ilba.Secret(bytes([4] * 32)).to_file(tmp_path / "confidential" / "publication.secret")  # it masks c with 0
    planned = run("--strict", "plan", cwd=tmp_path, code=code)
    published = run("--strict", "publish", cwd=tmp_path, code=code)
    for done in (planned, published):
        assert ("it looks as if it was made from the data" in done.stderr) == bool(code)
    run("plan", cwd=tmp_path)


@pytest.mark.slow
def test_a_changed_file_of_a_pattern_is_counted_again(office):
    edit(office, ("people_2025.csv", "people_202[5].csv"))
    assert "count" in ilba.publish().done
    assert ilba.publish().is_unchanged
    people = pl.read_csv("people_2025.csv", infer_schema=False)
    people.head(1000).write_csv("people_2025.csv")
    with pytest.raises(ilba.UnsafeRelease, match="not the records that were published"):
        ilba.publish()


AGES = """
keys = ["age"]
[source]
file = "born.csv"
[population]
name = "people"
wave = "2025"
period = "2025-12-31"
[hierarchies]
area = ["town"]
[recipe]
age = {from = "born", date = "%Y-%m-%d", age_on = "2025-12-31", width = 40, top = 80}
[outputs]
release = "release-{wave}"
"""


@pytest.mark.long
def test_a_later_wave_that_keeps_the_days_of_an_earlier_one_is_told_so(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    born = [f"{1930 + n % 90}-06-15" for n in range(400)]
    pl.DataFrame({"town": ["a", "b"] * 200, "born": born}).write_csv("born.csv")
    (tmp_path / "publication.toml").write_text(AGES)
    ilba.publish()
    edit(tmp_path, ("[outputs]", "[tables]\nmax_keys = 1\n[outputs]"))  # the same wave again
    assert not [note for note in ilba.plan().notes if "as in wave" in note]
    edit(tmp_path, ('wave = "2025"', 'wave = "2026"'))
    kept = [note for note in ilba.plan().notes if "as in wave" in note]
    assert kept == [
        f"{entry} is '2025-12-31', as in wave '2025'. Set the time of wave '2026' ('{{wave}}-12-31' follows it)."
        for entry in ("population.period", "recipe.age.age_on")
    ]
    told = run("--strict", "publish", cwd=tmp_path, code=1).stderr
    assert kept[0] in told
    assert not (tmp_path / "release-2026").exists()
    edit(tmp_path, ("2025-12-31", "{wave}-12-31"))
    assert not [note for note in ilba.plan().notes if "as in wave" in note]
    prepared = Prepared()
    assert prepared.said.population.period == "2026-12-31"
    assert prepared.recipe.columns["age"].age_on == "2026-12-31"


def test_waves_that_are_no_times_may_count_the_same_day(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    days = {"population.period": "2025-12-31", "recipe.age.age_on": "2025-12-31"}
    (tmp_path / "confidential").mkdir()
    for earlier, wave, doubts in (("final", "provisional", 0), ("2025", "2026", 2), ("2026", "2025", 0)):
        (tmp_path / "confidential" / "publication.json").write_text(json.dumps({"waves": {earlier: days}}))
        (tmp_path / "publication.toml").write_text(AGES.replace('wave = "2025"', f'wave = "{wave}"'))
        assert len(days_kept(Prepared())) == doubts


@pytest.mark.parametrize(("people", "doubts"), [("people", 1), ("others", 0)])
def test_days_that_another_publication_file_of_the_same_people_recorded_are_told(tmp_path, monkeypatch, people, doubts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "confidential").mkdir()
    (tmp_path / "publication.toml").write_text(AGES.replace('"people"', f'"{people}"'))
    (tmp_path / "confidential" / "publication.json").write_text(json.dumps({"waves": recorded_now(Prepared())}))
    later = AGES.replace('wave = "2025"', 'wave = "2026"').replace('period = "2025', 'period = "2026')
    (tmp_path / "people-2026.toml").write_text(later)
    told = days_kept(Prepared("people-2026.toml"))
    assert len(told) == doubts
    assert all("recipe.age.age_on is '2025-12-31', as in wave '2025'" in one for one in told)


@pytest.mark.parametrize("entry", ["population.period", "recipe.age.age_on"])
def test_a_day_named_by_the_wave_needs_one(tmp_path, entry):
    name = entry.rpartition(".")[2]
    text = AGES.replace('wave = "2025"', "").replace(f'{name} = "2025', f'{name} = "{{wave}}')
    (tmp_path / "publication.toml").write_text(text)
    with pytest.raises(ilba.InputError, match=f"{entry} = '{{wave}}-12-31' needs the wave"):
        Prepared(tmp_path)


@pytest.mark.slow
def test_a_release_folder_elsewhere_is_found_for_every_wave(office, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("public")
    (office / "release-2025").rename(elsewhere / "release-2025")
    edit(office, ("release-{wave}", f"{elsewhere}/release-{{wave}}"))
    assert released_by() == [elsewhere / "release-2025"]
