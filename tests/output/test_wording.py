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
from ilba.output.wording import LANGUAGES, WORDS, Labels, WordedTable
from support.people import ILBA

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


def test_both_languages_say_the_same_things_with_the_same_gaps():
    assert set(WORDS) == set(LANGUAGES)
    assert len({frozenset(words) for words in WORDS.values()}) == 1
    for name in WORDS["en"]:
        assert len({frozenset(re.findall(r"{\w+}", WORDS[lang][name])) for lang in LANGUAGES}) == 1, name


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
    named = worded(release, "town.sex.age").named()
    assert named.columns == ["region", "region_label", "town", "sex", "sex_label", "age", "N_masked"]
    pairs = named.select(pl.col("region", "region_label").cast(pl.String)).unique().rows()
    assert dict(pairs).get("1", dict(pairs).get("01")) == "North"
    assert set(named.select("sex", "sex_label").unique().rows()) == {("m", "Male"), ("f", "Female")}


def test_a_reader_is_told_of_the_masks_of_absent_rows_and_of_sums(release):
    notes = worded(release, "all.sex").notes(dense=False)
    absent = WORDS["en"]["absent"] in notes
    assert notes[0] == "Counts are masked for confidentiality (iLBA, K=5): each is 0 or at least 5."
    assert absent == (release.manifest["rows"] != "grid")
    assert notes[-1] == WORDS["en"]["loose"]
    assert WORDS["en"]["absent"] not in worded(release, "all.sex").notes(dense=True)
