"""Files of every version and kind are looked at: what they are, what is wrong, what to type."""

from __future__ import annotations

import json
import re
import shutil

import polars as pl
import pytest

import ilba
from ilba import FinestTable, Secret
from ilba.design.design import Origins
from ilba.release import MANIFEST, Release, manifest
from ilba.release.examining import examine
from ilba.release.reading import digest
from support.ledgers import BEGIN, ONE, logged
from support.places import FORMATS, GOLDEN, ROOT
from support.stores import ZERO


def told(*paths):
    return [(one.kind, one.text, one.remedy, one.problem) for one in examine(list(paths))]


def problems(*paths):
    return [(text, remedy) for _, text, remedy, problem in told(*paths) if problem]


@pytest.fixture
def store(tmp_path):
    counts = pl.DataFrame({"town": ["a", "b"], "N": [7, 80]})
    return FinestTable.from_counts(counts, ["town"], [], secret=ZERO).save(tmp_path / "s.parquet")


@pytest.fixture
def release(tmp_path):
    return shutil.copytree(FORMATS / "v2" / "release-controlled", tmp_path / "release")


def changed(folder, other=None, table="town", **fields):
    """A copy of a release with other fields in its manifest, and other counts in a table."""
    made = folder if other is None else shutil.copytree(folder, folder.with_name(other))
    plain = json.loads((made / MANIFEST).read_text(encoding="utf-8")) | fields
    if other is not None:
        entry = next(one for one in plain["tables"] if one["name"] == table)
        file = made / entry["file"]
        pl.read_parquet(file).with_columns(pl.col("N_masked") + 1).write_parquet(file)
        entry["sha256"] = digest(file)
    (made / MANIFEST).write_text(manifest.dump(plain), encoding="utf-8")
    return made


def test_what_is_nothing_of_ours_is_told(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("ilba")
    assert problems(tmp_path / "none") == [(f"there is no {str(tmp_path / 'none')!r}.", "")]
    (empty,) = problems(tmp_path / "empty")
    assert "is not a store, release or ledger, and holds none" in empty[0]
    assert [one.kind for one in examine([tmp_path / "notes.txt"])] == ["unknown"]


def test_a_secret_is_for_its_owner_and_the_only_one(tmp_path):
    path = Secret(bytes(32)).to_file(tmp_path / "my agency.secret")
    known = ("secret", f"a secret (fingerprint {ZERO.fingerprint}).", "", False)
    assert told(path) == [known]
    shutil.copy(path, tmp_path / "copy.secret")
    (tmp_path / "damaged.secret").write_text("ilba-secret-of-nobody")
    assert told(path) == [known]
    Secret(bytes(range(32))).to_file(tmp_path / "other.secret")
    path.chmod(0o640)
    assert told(path)[0] == known
    assert {kind for kind, _, _, _ in told(path)} == {"secret"}
    assert problems(path) == [
        ("others can read it.", f"chmod 600 '{path}'"),
        ("there are other secrets beside it (other.secret). Data about the same people needs one.", ""),
    ]


def test_a_store_is_for_its_owner_and_declares_its_population(store):
    undeclared = "a store of 2 cells, ilba, K=5. No population is declared."
    remedy = "{} --population NAME --wave WAVE (counts in Python: from_counts(..., population=, wave=))"
    assert told(store) == [("store", undeclared, remedy.format("ilba build ..."), False)]
    counts = pl.DataFrame({"town": ["a", "b"], "N": [7, 80], "N_masked": [7, 80]})  # no secret drew these masks
    place = FinestTable.from_counts(counts, ["town"], []).save(store.with_name("of_r.parquet"))
    assert told(place) == [("store", undeclared, remedy.format(f"ilba convert full_tb.rds {place}"), False)]
    store.chmod(0o604)
    assert problems(store) == [("others can read it.", f"chmod 600 {store}")]
    finest = ilba.open_store(store).declared_as(ilba.Population("census", "2026"))
    finest.save(store)
    assert [text for _, text, _, _ in told(store)] == [
        f"a store of 2 cells, ilba, K=5, population {finest.population}."
    ]


def test_a_store_whose_keys_the_data_decided_is_told(store):
    finest = ilba.open_store(store)
    finest.declared_by(Origins("proposed", ("income", "rent"))).save(store)
    assert problems(store) == [("income, rent was left out because of the data.", "ilba build ... --key A,B")]


def test_a_store_that_was_published_before_there_was_a_ledger_is_told(store):
    aside = store.with_name("s.published.json")
    aside.write_text('{"format": 2, "entry": 3}')
    assert problems(store) == []
    aside.write_bytes(b'\xff{"format": 1, "publications": []}')
    said, adopt = "it was published before there was a ledger.", f"ilba ledger adopt RELEASE --store {store}"
    assert problems(store) == [(said, adopt)]
    masks = store.with_name("s.masks.parquet")
    masks.touch()
    assert problems(store) == [(said, f"{adopt} --masks {masks}")]


def test_a_finest_table_of_r_is_told_with_how_to_convert_it(tmp_path):
    file = shutil.copy(GOLDEN / "census30k" / "full_tb.rds", tmp_path / "full tb.rds")
    shutil.copy(ROOT / "tests" / "data" / "r" / "people.rds", tmp_path / "people.rds")  # a frame is no finest table
    ((kind, text, convert, is_problem),) = told(tmp_path)
    assert (kind, is_problem) == ("store", False)
    assert re.fullmatch(r"a finest table of R with [\d,]+ cells, K=5\.", text)
    assert convert == f"ilba convert '{file}' '{tmp_path / 'full tb.parquet'}'"


def test_all_that_is_ours_in_a_folder_is_found(store, release, tmp_path):
    Secret(bytes(32)).to_file(tmp_path / "a.secret")
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"no")
    shutil.copy(store, tmp_path / "s.masks.parquet")
    shutil.copytree(release, tmp_path / ".hidden")
    (tmp_path / "deep" / "deeper" / "deepest").mkdir(parents=True)
    Secret(bytes(32)).to_file(tmp_path / "deep" / "deeper" / "deepest" / "b.secret")  # too deep to be looked for
    logged(tmp_path / "deep" / "deeper" / "x.ledger", BEGIN)
    (tmp_path / "empty").mkdir()
    found = [one for one in examine([tmp_path]) if one.kind != "unknown"]
    places = ["a.secret", "s.parquet", "deep/deeper/x.ledger", "release"]
    assert list(dict.fromkeys(one.path for one in found)) == [str(tmp_path / place) for place in places]
    assert not [one for one in examine([tmp_path]) if one.kind == "unknown"]


def test_a_release_is_told_with_what_is_old_or_damaged(release):
    text = "a release of 12 tables, controlled, K=5"
    assert told(release) == [("release", f"{text}.", "", False)]
    changed(release, population={"name": "census", "wave": "2026"})
    assert told(release) == [("release", f"{text}, population 'census'.", "", False)]
    (release / "tables" / "town.parquet").write_bytes(b"")
    assert any("is missing or was changed" in said for said, _ in problems(release))
    old = FORMATS / "v1" / "release-controlled"
    found = problems(old)
    assert (
        "format 1 is old: its manifest has no checksum of its own.",
        "ilba ledger adopt it, then release again",
    ) in found
    assert ("a bound is stated that was not checked for every table.", f"ilba audit {old} --store STORE") in found


def test_a_release_that_no_ledger_knows_is_told_when_a_ledger_is_given(release, tmp_path):
    known = {"checksum": digest(release / MANIFEST)}
    book = logged(tmp_path / "a.ledger", BEGIN, ONE | known)
    assert problems(release, book.path) == []
    (book.path / "log.jsonl").chmod(0o644)
    assert problems(release, book.path) == [("others can read it.", f"chmod 600 {book.path / 'log.jsonl'}")]
    book = logged(tmp_path / "a.ledger", BEGIN, ONE)
    adopt = f"ilba ledger adopt {release} --store STORE --ledger {book.path}"
    assert problems(release, book.path) == [("no ledger given here knows this release.", adopt)]


def test_a_population_that_was_published_in_two_ways_is_told(tmp_path):
    people = {"kind": "population", "population": "p"}
    book = logged(tmp_path / "a.ledger", BEGIN, people, ONE, ONE | {"method": "ilba", "population": "q"})
    assert told(book.path) == [("ledger", "a ledger of 2 publications, as written.", "", False)]
    book = logged(tmp_path / "a.ledger", BEGIN, people, ONE, ONE | {"method": "ilba"})
    two = "the population 'p' was published in 2 ways, which reveals small counts"
    ways = "controlled with K=5, ilba with K=5 (observed)"
    assert problems(book.path) == [(f"{two}: {ways}.", f"ilba ledger show {book.path}")]


def test_waves_by_controlled_that_keep_the_masks_of_ilba_are_no_problem_and_another_k_is(tmp_path):
    people = {"kind": "population", "population": "p", "fingerprint": "a"}
    drawn = ONE | {"method": "ilba", "data": "a", "wave": "1", "masks": "a"}
    chosen = ONE | {"data": "b", "wave": "2", "masks": "b"}

    def problem(*entries):
        return [text for text, _ in problems(logged(tmp_path / "a.ledger", BEGIN, people, *entries).path)]

    assert problem(drawn, chosen, chosen | {"data": "c", "wave": "3"}, drawn) == []
    kept = "the population 'p' was published by ilba, then by controlled, which keeps ilba's masks."
    assert ("ledger", kept, "", False) in told(tmp_path / "a.ledger")
    (other,) = problem(drawn | {"threshold": 10}, chosen)
    assert other.endswith("in 2 ways, which reveals small counts: ilba with K=10 (observed), controlled with K=5.")
    for entries in [
        (chosen, drawn),
        (drawn, chosen, drawn | {"data": "c", "wave": "3", "masks": "c"}),
        (drawn, chosen | {"data": "a"}),
        (drawn, chosen | {"wave": "1"}),
        (drawn, chosen | {"parameters": "move=2"}),
        (people | {"fingerprint": "b"}, drawn, chosen),
    ]:
        assert "which reveals small counts" in "".join(problem(*entries))


@pytest.mark.long
def test_releases_of_one_population_and_wave_show_the_same_counts_or_one_corrects_the_other(release, tmp_path):
    people = {"population": {"name": "p", "wave": "1"}}
    one, other = changed(release, **people), changed(release, "other", **people)
    ((said, audit),) = problems(one, other)
    assert "the same population and wave ('p') and show different counts in 'town'" in said
    assert audit == f"ilba audit {one} {other} --store STORE"
    assert problems(one, one) == []
    for name in ("", "q"):
        assert problems(one, changed(other, population={"name": name, "wave": "1"})) == []
    assert problems(one, changed(other, population={"name": "p", "wave": "2"})) == []
    assert problems(one, changed(other, sums=True, **people)) == [], "a part of the people has other counts"
    changed(other, sums=False)
    changed(other, **people)
    marks = [{"checksum": digest(path / MANIFEST)} for path in (one, other)]
    for more, corrects in (({"data": "e"}, True), ({}, False), ({"data": "e", "method": "ilba"}, False)):
        book = logged(tmp_path / "a.ledger", BEGIN, ONE | marks[0], ONE | marks[1] | more)
        found = told(one, other, book.path)
        assert any("where a count is the same, its mask is" in text for _, text, _, _ in found) is corrects
        assert any("show different counts" in text for _, text, _, _ in found) is not corrects
    assert Release(other).tables["town"].sha256 != Release(one).tables["town"].sha256
