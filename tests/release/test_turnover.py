"""Codes that came while others went: what the ledger, the last release and its code list each contribute."""

from __future__ import annotations

import shutil

import polars as pl
import pytest

import ilba
from ilba.release.recognising import looked_up

MANY = [f"{n:03}" for n in range(300)]
"""more codes than the ledger compares"""


@pytest.fixture
def wave(tmp_path, agency):
    """Make a wave of people in some towns, published or not; what is told of its codes."""
    ledger = ilba.Ledger.create(agency / "agency.ledger")

    def made(name, towns, sexes="fm", *, publish=False, **options):
        people = pl.DataFrame({"town": towns}).join(pl.DataFrame({"sex": [*sexes]}), how="cross")
        people = pl.concat([people, people.head(int(name))])  # never the same counts
        told = {"secret": agency / "agency.secret", "population": "p", "wave": name, "missing": "category"}
        finest = ilba.build(people, ["town"], ["sex"], **told)
        if publish:
            finest.release(tmp_path / name, ledger=ledger, **options)
            return tmp_path / name
        chapter = looked_up(finest, finest.own_secret(None), ledger)
        doubts = chapter.doubts(finest.design, ("controlled", 5, ""))
        return [one.split(". Where")[0] for one in doubts if "Where only the code" in one]

    return made


def test_the_last_release_has_the_names_of_codes_that_went(wave):
    place = wave("1", [*"abc"] * 30, publish=True)
    assert wave("2", [*"abx"] * 30) == ["town: 1 code of wave '1' is gone ('c'), 1 is new ('x')"]
    shutil.rmtree(place)
    assert wave("2", [*"abx"] * 30) == ["town: 1 code of wave '1' is gone, 1 is new ('x')"]


def test_a_release_that_took_the_place_of_the_last_one_has_no_say(wave):
    place = wave("1", [*"abc"] * 30, publish=True)
    other = wave("2", [*"abc"] * 31, publish=True)
    shutil.rmtree(other)
    shutil.copytree(place, other)
    assert wave("3", [*"abx"] * 30) == ["town: 1 code of wave '2' is gone, 1 is new ('x')"]


def test_missing_values_that_are_gone_are_no_code(wave):
    place = wave("1", [*"ab"] * 30, ["f", "m", "n", None], publish=True)
    shutil.rmtree(place)
    assert wave("2", [*"ab"] * 30, ["f", "x"]) == ["sex: 2 codes of wave '1' are gone, 1 is new ('x')"]


@pytest.mark.parametrize(("records", "told"), [(10, 1), (9, 0)])
def test_a_code_that_came_beside_many_others_has_at_least_2K_records(wave, records, told):
    wave("1", MANY * 6, "f", publish=True)
    assert len(wave("2", MANY[1:] * 6 + ["new"] * records, "f")) == told


def test_a_code_that_was_declared_before_did_not_come(wave):
    wave("1", MANY * 6, publish=True, labels=pl.DataFrame({"variable": "town", "code": [*MANY, "new"]}))
    assert wave("2", MANY[1:] * 6 + ["new"] * 8) == []
    assert wave("2", MANY[1:] * 6 + ["other"] * 8) == ["town: 1 code of wave '1' is gone ('000'), 1 is new ('other')"]


def test_a_row_of_0_in_a_grid_is_no_published_count(wave):
    codes = pl.DataFrame({"variable": "town", "code": [*MANY, "empty"]})
    place = wave("1", MANY * 6, publish=True, rows="grid", labels=codes)
    zero = ilba.Release(place).table("town").filter(pl.col("N_masked") == 0)
    assert zero["town"].to_list() == ["empty"]
    assert wave("2", MANY * 6 + ["new"] * 8) == []


def test_a_published_1_is_a_count(wave):
    few = [f"few {n}" for n in range(30)]
    method = "cell-key:D=5,V=3,js=0"
    place = wave("1", MANY * 6 + few, "f", publish=True, method=method, accept_risk=True)
    gone = ilba.Release(place).table("town").filter(pl.col("N_masked") == 1)["town"][0]
    left = [town for town in few if town != gone]
    assert wave("2", MANY * 6 + left + ["new"] * 20, "f") == [
        f"town: 1 code of wave '1' is gone ('{gone}'), 1 is new ('new')"
    ]


def test_codes_are_taken_from_the_smallest_table_and_from_none_that_is_damaged(wave):
    place = wave("1", MANY * 6, publish=True)
    changed = MANY[1:] * 6 + ["new"] * 8
    told = ["town: 1 code of wave '1' is gone ('000'), 1 is new ('new')"]
    (place / "tables" / "town.sex.parquet").write_bytes(b"damaged")
    assert wave("2", changed) == told
    (place / "tables" / "town.parquet").write_bytes(b"damaged")
    assert wave("2", changed) == []
