"""A table in words: its labels, its complete grid, and any part of it, in both languages with the same numbers."""

from __future__ import annotations

import itertools
import re

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ilba
from ilba.output.wording import LANGUAGES, Labels, WordedTable, languages
from ilba.output.wording import words as words_of
from ilba.release.texts import read_texts
from support.people import ILBA
from support.places import ROOT

CODES = pl.DataFrame(
    {
        "variable": ["region", "region", "sex", "sex", "sex"],
        "code": [None, "01", None, "m", "f"],
        "label_en": ["Region", "North", "Sex", "Male", "Female"],
        "label_ko": ["지역", "북부", "성별", "남자", "여자"],
    }
)
TABLES = ["all", "all.sex", "region", "town.sex.age"]


@pytest.fixture(scope="module", params=["nonzero", "grid"])
def release(request, people, secret, tmp_path_factory):
    finest = ilba.build(people.head(400), ["region", "town"], ["sex", "age"], secret=secret)
    folder = tmp_path_factory.mktemp("release") / "r"
    return finest.release(folder, rows=request.param, title="people", labels=CODES, tables=TABLES, **ILBA)


def worded(release, name, lang="en") -> WordedTable:
    return WordedTable(release, release.tables[name], release.table(name), lang)


def by_codes(table: WordedTable) -> dict[tuple[str, ...], int]:
    """The complete grid: codes of each axis -> count."""
    return dict(zip(itertools.product(*(one.codes for one in table.dimensions)), table.values.tolist(), strict=True))


def test_every_language_says_the_same_things_with_the_same_gaps():
    assert {file.stem for file in (ROOT / "src/ilba/output/words").glob("*.json")} == set(LANGUAGES)
    for lang in LANGUAGES:
        assert words_of(lang).keys() == words_of("en").keys(), lang
        for name, text in words_of(lang).items():
            gaps = [sorted(re.findall(r"{\w+}", one)) for one in (text, words_of("en")[name])]
            assert gaps[0] == gaps[1], (lang, name)


def test_labels_are_read_in_any_language_and_titles_told_in_it(people, secret, tmp_path):
    codes = CODES.with_columns(
        label_fr=pl.Series(["Région", "Nord", "Sexe", "Hommes", None]), label_ar=pl.lit(None, pl.String)
    )
    texts = {"fr": {"title": "Habitants", "unit": "personnes", "note": "Chiffres d’essai."}, "de": {"title": "Leute"}}
    finest = ilba.build(people.head(400), ["region", "town"], ["sex", "age"], secret=secret, unit="persons")
    release = finest.release(tmp_path / "r", title="People", labels=codes, texts=texts, tables=TABLES, **ILBA)
    assert languages(release.codes, release.manifest) == ["en", "ko", "fr", "es", "de"]
    french, german = worded(release, "all.sex", "fr"), worded(release, "all.sex", "de")
    assert french.title == "Habitants: Sexe (personnes)", "the unit stands in every title"
    assert french.dimensions[0].labels == ["Hommes", "Female"], "what has no label falls back to English"
    assert french.notes(dense=True)[-1] == "Chiffres d’essai."
    assert [one.told("unit") for one in (french, german)] == ["personnes", "persons"]
    assert german.title == "Leute: Sex (persons)"
    assert german.notes(dense=True)[0] == worded(release, "all.sex").notes(dense=True)[0]
    [file] = ilba.export.export(release, "all.sex", "px", tmp_path / "t.px", lang="fr")
    said = file.read_text(encoding="utf-8")
    for line in ('LANGUAGE="fr";', 'UNITS="personnes";', 'CONTENTS="Effectif";', '"Hommes","Female"'):
        assert line in said, line
    with pytest.raises(ilba.InputError, match="'xx' is not known"):
        ilba.export.export(release, "all.sex", "px", tmp_path / "t.px", lang="xx")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"french": {}}, "not a language"),
        ({"fr": {"titel": "x"}}, "Did you mean"),
        ({"fr": {"title": 5}}, "not a text"),
        ({"fr": "Habitants"}, "by language"),
        ("nowhere.toml", "cannot be read"),
    ],
)
def test_texts_of_another_form_are_refused_in_words(given, said):
    with pytest.raises(ilba.InputError, match=said):
        read_texts(given)


def test_texts_are_read_from_toml_and_json(tmp_path):
    wanted = {"fr": {"title": "Habitants"}}
    (tmp_path / "t.toml").write_text('[fr]\ntitle = "Habitants"\n', encoding="utf-8")
    (tmp_path / "t.json").write_text('{"fr": {"title": "Habitants"}}', encoding="utf-8")
    assert read_texts(tmp_path / "t.toml") == read_texts(tmp_path / "t.json") == wanted


def test_labels_fall_back_to_the_other_language_and_to_the_code():
    codes = pl.DataFrame(
        {
            "variable": ["sex", "sex", "sex", "town", "town"],
            "code": [None, "1", "2", "1", "1"],
            "label_en": ["Sex", "Male", None, "Up", "Down"],
            "label_ko": [None, "남자", None, None, None],
            "parent": [None, None, None, "A", "B"],
        }
    )
    korean = Labels(codes, "ko")
    assert [korean.variable("sex"), korean.variable("age")] == ["Sex", "age"]
    assert [korean.code("sex", code) for code in ("1", "2", "3")] == ["남자", "2", "3"]
    assert [korean.code("town", "1", parent) for parent in "AB"] == ["Up", "Down"]
    assert korean.code("sex", None) == "미상"
    assert (korean.has("sex"), korean.has("age")) == (True, False)


@pytest.mark.parametrize("name", TABLES)
def test_the_complete_grid_holds_every_row_in_its_place_and_0_elsewhere(release, name):
    table = worded(release, name)
    assert table.values.size == np.prod([len(one) for one in table.dimensions], dtype=int)
    assert table.values[table.places()].tolist() == table.frame["N_masked"].to_list()
    assert table.values.sum() == table.frame["N_masked"].sum()
    for one in table.dimensions:
        assert len(set(one.codes)) == len(set(one.labels)) == len(one) == one.paths.height


@pytest.mark.parametrize("name", TABLES)
def test_another_language_changes_words_and_no_number(release, name):
    english = worded(release, name)
    korean = english.translated("ko", Labels(release.codes, "ko"))
    assert by_codes(korean) == by_codes(english)
    assert korean.notes(dense=False) == worded(release, name, "ko").notes(dense=False)
    for one, other in zip(korean.dimensions, worded(release, name, "ko").dimensions, strict=True):
        assert (one.label, one.labels) == (other.label, other.labels)
    if name == "all.sex":
        assert english.title == "people: Sex"
        assert korean.title == "people: 성별"
        assert dict(zip(korean.dimensions[0].codes, korean.dimensions[0].labels, strict=True)) == {
            "m": "남자",
            "f": "여자",
        }


@pytest.mark.long
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_part_of_a_table_is_the_table_at_these_places(release, data):
    table = worded(release, "town.sex.age")
    places = [
        data.draw(st.lists(st.integers(0, len(one) - 1), min_size=1, max_size=3, unique=True))
        for one in table.dimensions
    ]
    grid = table.values.reshape([len(one) for one in table.dimensions])
    part = table.cut(places, grid[np.ix_(*places)].ravel())
    whole = by_codes(table)
    assert by_codes(part) == {codes: whole[codes] for codes in by_codes(part)}
    assert part.frame.schema == table.frame.schema
    shown = part.frame.filter(pl.col("N_masked") > 0)
    assert shown.sort(shown.columns).equals(
        table.frame.join(shown, on=shown.columns, how="semi").filter(pl.col("N_masked") > 0).sort(shown.columns)
    )
    assert part.notes(dense=False) == part.notes(dense=True)


def test_rows_are_named_beside_their_codes_where_a_code_has_a_name(release):
    table = worded(release, "town.sex.age")
    named = table.named(table.listed)
    assert named.columns == ["region", "region_label", "town", "sex", "sex_label", "age", "N_masked"]
    pairs = named.select(pl.col("region", "region_label").cast(pl.String)).unique().rows()
    assert dict(pairs).get("1", dict(pairs).get("01")) == "North"
    assert set(named.select("sex", "sex_label").unique().rows()) == {("m", "Male"), ("f", "Female")}


def test_a_reader_is_told_of_the_masks_of_absent_rows_and_of_sums(release):
    notes = worded(release, "all.sex").notes(dense=False)
    absent = words_of("en")["absent"] in notes
    assert notes[0] == (
        "Counts are masked (changed slightly) for confidentiality (iLBA, K=5): each is 0 or at least 5. "
        "A 0 may stand for a few, a 5 for fewer or more."
    )
    assert absent == (release.manifest["rows"] != "grid")
    assert notes[-1] == words_of("en")["loose"]
    assert words_of("en")["absent"] not in worded(release, "all.sex").notes(dense=True)
