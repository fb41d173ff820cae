"""All that was ever published from the same people is one publication."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
import stat
import tempfile
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ilba
from ilba import InputError, Ledger, Secret, StoreError, UnsafeRelease
from ilba.errors import Advice, Conflict, WriteError
from ilba.release.examining import examine
from ilba.tables.words import read_words
from support.ledgers import BEGIN, INTENT, ONE, log_of, logged
from support.places import ROOT
from support.size import LARGE, tries

HKEY, KEY = ["LA1", "LA2", "LA3"], ["gender", "age"]
BANDS = {str(age): f"{(age - 1) // 6}" for age in range(1, 40)}


@pytest.fixture(scope="module")
def census():
    return ilba.datasets.census(20_000)


def built(people, agency, hkey=HKEY, key=KEY, **more):
    return ilba.build(people, hkey, key, secret=agency / "agency.secret", **more)


def masks_of(release, name="LA3.gender.age"):
    return {tuple(row[:-1]): row[-1] for row in release.table(name).rows()}


# --- masks are chosen once


@pytest.mark.slow
def test_every_list_of_tables_shows_the_same_masks(census, agency):
    finest = built(census, agency)
    few = finest.release(agency / "a", tables=["LA3.gender.age", "LA2"])
    every = finest.release(agency / "b")
    again = built(census, agency).release(agency / "c", max_keys=1)
    for release in (few, again):
        for name in release.tables:
            assert release.table(name).equals(every.table(name)), name


def test_a_plan_is_what_masks_are_chosen_for_and_other_tables_are_sums_of_them(census, agency):
    finest = built(census, agency)
    with pytest.warns(ilba.Notice, match="not in that plan"):
        planned = finest.release(agency / "a", tables=["LA3.gender", "LA2.age"], plan=["LA3.gender"])
    fine = finest.release(agency / "b", tables=["LA3.gender.age"]).table("LA3.gender.age")
    summed = fine.group_by("LA1", "LA2", "LA3", "gender").agg(pl.col("N_masked").sum()).sort(pl.all())
    assert summed.equals(planned.table("LA3.gender").sort(pl.all()))


def test_a_wave_with_its_keys_in_another_order_has_the_same_tables_and_says_what_to_write(agency):
    people = ilba.datasets.census(1_000)
    built(people, agency, HKEY[:1], ["gender", "age"], population="p", wave="1").release(agency / "a")
    turned = built(people, agency, HKEY[:1], ["age", "gender"], population="p", wave="2")
    with pytest.warns(ilba.Notice, match=r'keys in another order.*Write keys = \["gender", "age"\]') as told:
        turned.release(agency / "b")
    assert not any("not in that plan" in str(one.message) for one in told)


def test_the_release_says_what_was_declared_of_the_population_and_nothing_of_the_ledger(census, agency):
    finest = built(census, agency, population="census-2026", wave="2026", period="2026-07-01", unit="persons")
    release = finest.release(agency / "a", licence="CC BY 4.0", max_keys=1)
    told = {"name": "census-2026", "wave": "2026", "period": "2026-07-01", "unit": "persons"}
    assert release.manifest["population"] == told
    assert release.manifest["licence"] == "CC BY 4.0"
    text = (release.path / "release.json").read_text()
    ledger = Ledger(agency / "agency.ledger")
    hidden = {entry["digest"] for entry in ledger.entries} | {ledger.publications[0].data, ledger.publications[0].masks}
    assert not any(word in text for word in hidden)
    store = finest.save(agency / "s.parquet")
    assert ilba.open_store(store).population == finest.population


@pytest.mark.long
def test_the_masks_that_were_published_can_be_looked_at(census, agency):
    finest = built(census, agency, output_path=agency / "s.parquet")
    with pytest.raises(InputError, match="never published"):
        finest.published()
    release = finest.release(agency / "a")
    looked = ilba.open_store(agency / "s.parquet").published()
    assert looked.method == "controlled"
    assert looked.table("LA3", ["gender"]).public().equals(release.table("LA3.gender"))
    with pytest.raises(UnsafeRelease, match="cannot be published as a trial"):
        finest.release(agency / "b", ledger=False)


@pytest.mark.long
def test_a_release_is_audited_with_the_store_that_it_was_made_from(census, agency, tmp_path):
    """The store keeps the masks that were drawn; those that were chosen are in the release or in the ledger."""
    finest = built(census, agency, output_path=agency / "s.parquet")
    whole, coarse = finest.release(agency / "a"), finest.release(agency / "b", max_keys=1)
    small = int((finest.frame["N"] < 5).sum())
    for release in (whole, coarse):
        report = ilba.audit(release, store=ilba.open_store(agency / "s.parquet"))
        assert (report.cells_small, report.safe) == (report.cells_certified, True)
    assert ilba.audit(whole, store=finest).cells_small == small
    assert ilba.risk(whole, attackers=["proof"], store=finest).rows["small"].to_list() == [small]
    lost = ilba.FinestTable.from_counts(finest.frame, hkey=["LA1", "LA2", "LA3"], key=["gender", "age"])
    with pytest.raises(InputError, match=r"in a ledger that was not found.*published\(secret="):
        ilba.audit(coarse, store=lost)


# --- what conflicts


def other_publications(census, agency):
    """The second of two publications of the same people, each as somebody would make it without a thought."""
    yield "ilba", built(census, agency), {"method": "ilba", "accept_risk": True}
    yield "K=3", built(census, agency, mask_thr=3), {}
    yield "K=10", built(census, agency, mask_thr=10), {}
    yield "renamed", built(census.rename({"gender": "sex"}), agency, key=["sex", "age"]), {}
    yield "a parent left out", built(census, agency, hkey=["LA1", "LA3"]), {}
    padded = census.with_columns(pl.col("age").cast(pl.String).str.zfill(2))
    yield "01 for 1", built(padded, agency), {}
    yield "a key left out", built(census, agency, key=["gender"]), {}
    yield "a key more", built(census, agency, key=[*KEY, "mar"]), {}
    regrouped = census.with_columns(pl.col("age").cast(pl.String).replace_strict(BANDS).alias("age"))
    yield "ages regrouped", built(regrouped, agency), {}
    yield (
        "another secret",
        ilba.build(census, HKEY, KEY, secret=Secret(bytes(32))),
        {"ledger": agency / "agency.ledger"},
    )


@pytest.mark.slow
@pytest.mark.parametrize("population", ["", "census"])
def test_a_second_publication_of_the_same_people_is_the_same_or_refused(census, agency, population):
    declared = {"population": population} if population else {}
    built(census, agency, **declared).release(agency / "a")
    before = (agency / "agency.ledger" / "log.jsonl").read_bytes()
    for name, finest, options in other_publications(census, agency):
        if name == "another secret" and not population:
            continue  # two secrets have nothing in common that could be compared
        if population:
            finest.declared_as(ilba.Population(population))
        with pytest.raises(Conflict, match="nothing was published"):
            finest.release(agency / "b", **options)
        assert not (agency / "b").exists(), name
    assert (agency / "agency.ledger" / "log.jsonl").read_bytes() == before


@pytest.mark.slow
def test_people_who_are_declared_as_others_are_recognised(census, agency):
    built(census, agency, population="census").release(agency / "a", max_keys=1)
    for other in (census, census.sample(fraction=0.9, seed=1), census.rename({"gender": "sex"})):
        key = ["sex" if "sex" in other.columns else "gender", "age"]
        with pytest.raises(Conflict, match="look like the people of the population 'census'"):
            built(other, agency, key=key, population="survey").release(agency / "b", max_keys=1)
    strangers = ilba.datasets.census(20_000, seed=7)
    built(strangers, agency, population="survey").release(agency / "b", max_keys=1)


@pytest.mark.long
def test_a_part_of_the_people_who_are_declared_as_others_is_recognised(census, agency):
    built(census, agency, population="census").release(agency / "a", max_keys=1)
    area = census["LA2"].mode()[0]
    women = pl.col("gender") == 2
    for name, key, part in [
        ("women", ["age"], census.filter(women)),
        ("an age", ["gender"], census.filter(pl.col("age") == 10)),
        ("an area", KEY, census.filter(pl.col("LA2") == area)),
    ]:
        with pytest.raises(Conflict, match="look like a part of the people of the population 'census'"):
            built(part, agency, key=key, population=name).release(agency / "b", max_keys=1)
        assert not (agency / "b").exists()
    others = ilba.datasets.census(20_000, seed=7)
    built(others.filter(women), agency, key=["age"], population="women").release(agency / "b", max_keys=1)
    with pytest.raises(Conflict, match="a part of the people of the population 'women'"):
        built(others, agency, population="others").release(agency / "c", max_keys=1)


@pytest.mark.slow
def test_a_conflict_is_accepted_once_and_recorded_with_what_it_gives_away(census, agency):
    finest = built(census, agency)
    finest.release(agency / "a")
    risky = {"method": "ilba", "accept_risk": True, "tables": ["LA3.gender.age"]}
    with pytest.raises(Conflict) as refused:
        finest.release(agency / "b", **risky)
    name = refused.value.id
    assert name in str(refused.value)
    with pytest.raises(Conflict, match="was for another conflict, or was used"):
        finest.release(agency / "b", **risky, accept_conflict="0123456789")
    with pytest.warns(ilba.Notice, match=r"proves [1-9][0-9,]* small counts"):
        finest.release(agency / "b", **risky, accept_conflict=name)
    noted = [entry for entry in Ledger(agency / "agency.ledger").entries if entry["kind"] == "conflict"]
    assert [entry["accepted"] for entry in noted] == [name]
    with pytest.raises(InputError, match="there is no conflict"):
        finest.release(agency / "c", tables=["LA2"], accept_conflict=name)
    other = built(census, agency, mask_thr=3)
    with pytest.raises(Conflict, match="or was used"):
        other.release(agency / "c", accept_conflict=name)


@pytest.mark.long
def test_masks_chosen_by_hand_do_not_follow_others(census, agency):
    finest = built(census, agency)
    finest.release(agency / "a")
    with pytest.raises(Conflict, match="other masks"):
        finest.controlled(["LA3.gender"], 9).release(agency / "b")


@pytest.mark.long
def test_masks_chosen_by_hand_are_kept_when_they_come_first(census, agency):
    finest = built(census, agency)
    chosen = finest.controlled(["LA3.gender", "LA3.gender.age"], 9)
    first = chosen.release(agency / "a", tables=["LA3.gender.age"])
    assert masks_of(finest.release(agency / "b")) == masks_of(first)


# --- coarser designs


@pytest.mark.slow
def test_a_coarser_design_is_published_as_sums_of_the_finer_masks(census, agency):
    fine = built(census, agency)
    fine.save(agency / "fine.parquet")
    published = fine.release(agency / "a").table("LA3.gender.age").with_columns(pl.col("age").cast(pl.String))
    bands = census.with_columns(pl.col("age").cast(pl.String).replace_strict(BANDS))
    coarse = built(bands, agency)
    release = coarse.release(agency / "b", from_ledger=agency / "fine.parquet", regroup={"age": BANDS})
    expected = published.with_columns(pl.col("age").replace_strict(BANDS).cast(pl.Int64))
    expected = expected.group_by(*HKEY, *KEY).agg(pl.col("N_masked").sum()).sort(*HKEY, *KEY)
    assert release.table("LA3.gender.age").sort(*HKEY, *KEY).equals(expected)
    women = built(census.filter(pl.col("gender") == 2), agency, key=["age"])
    release = women.release(agency / "c", from_ledger=fine, where={"gender": 2})
    expected = published.filter(pl.col("gender") == 2).select(*HKEY, pl.col("age").cast(pl.Int64), "N_masked")
    assert release.table("LA3.age").sort(*HKEY, "age").equals(expected.sort(*HKEY, "age"))
    renamed = built(census.rename({"gender": "sex"}), agency, key=["sex"])
    release = renamed.release(agency / "d", from_ledger=fine, rename={"sex": "gender"})
    expected = published.group_by(*HKEY, "gender").agg(pl.col("N_masked").sum()).rename({"gender": "sex"})
    assert release.table("LA3.sex").sort(*HKEY, "sex").equals(expected.sort(*HKEY, "sex"))
    assert [one.sums for one in Ledger(agency / "agency.ledger").publications] == [False, True, True, True]
    assert release.manifest["sums"] is True
    with pytest.raises(InputError, match="sums of the published counts of a finer table"):
        ilba.audit(release)
    together = ilba.audit([ilba.Release(agency / "a"), release], rename={"sex": "gender"})
    assert together.cells_disclosed == 0
    assert any("tells nothing more" in note for note in together.notes)
    with pytest.raises(Conflict):
        coarse.release(agency / "e")


@pytest.mark.long
def test_a_coarser_design_that_does_not_fit_is_refused_with_the_reason(census, agency):
    fine = built(census, agency)
    women = built(census.filter(pl.col("gender") == 2), agency, key=["age"])
    with pytest.raises(UnsafeRelease, match="was not published in this form"):
        women.release(agency / "b", from_ledger=fine, where={"gender": 2})
    fine.release(agency / "a")
    with pytest.raises(InputError, match="counts other people or another time"):
        women.release(agency / "b", from_ledger=fine)
    bands = built(census.with_columns(pl.col("age").cast(pl.String).replace_strict(BANDS)), agency)
    with pytest.raises(InputError, match="labels of age differ"):
        bands.release(agency / "b", from_ledger=fine)
    with pytest.raises(InputError, match="does not say where the codes"):
        bands.release(agency / "b", from_ledger=fine, regroup={"age": {"1": "0"}})
    with pytest.raises(InputError, match="has no column mar"):
        built(census, agency, key=["mar"]).release(agency / "b", from_ledger=fine)
    with pytest.raises(InputError, match="go with from_ledger"):
        fine.release(agency / "b", where={"gender": 2})


# --- waves


def small_counts(year):
    """Twelve small cells, of which most have the same count each year, and four large ones."""
    drawn = np.random.default_rng(year)
    small = [int(drawn.integers(1, 5)) if drawn.random() < 0.4 else 1 + n % 4 for n in range(12)]
    towns = [f"t{n:02}" for n in range(16)]
    return pl.DataFrame({"town": towns, "sex": "f", "job": "x", "N": [*small, 50, 60, 70, 80 + year]})


PUBLISHED = st.tuples(
    st.sampled_from(["ilba", "controlled"]),
    st.sampled_from([5, 5, 5, 4]),  # K
    st.sampled_from("aaab"),  # the secret
    st.sampled_from([["sex", "job"], ["sex", "job"], ["job", "sex"], ["sex"]]),
    st.integers(1, 4),  # the records
    st.integers(1, 4),  # the name of the wave
    st.sampled_from(["publish", "publish", "accept", "accept", "adopt"]),
)


@pytest.mark.slow
@settings(max_examples=tries(60))
@given(st.lists(PUBLISHED, min_size=3, max_size=8))
def test_without_a_conflict_each_count_shows_the_mask_of_all_waves_since_the_last_accepted_one(steps):
    """Held against the last publication of each wave since the last new wave with a conflict, and what was adopted.

    The same records in the way in which their wave was published show the same numbers again.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(action="ignore", category=ilba.Notice):
        for name, first in (("a", 0), ("b", 1)):
            Secret(bytes(range(first, first + 32))).to_file(Path(folder, f"{name}.secret"))
        book, series, as_shown, waves = Path(folder, "agency.ledger"), {}, {}, set()
        for number, (method, K, secret, keys, year, wave, action) in enumerate(steps):
            counts, given_secret = small_counts(year).drop({"sex", "job"} - {*keys}), Path(folder, f"{secret}.secret")
            declared = {"population": "p", "wave": str(wave), "secret": given_secret}
            finest = ilba.FinestTable.from_counts(counts, ["town"], keys, K, **declared)
            name, out = finest.design.finest.name, Path(folder, str(number))
            is_past = accepted = action == "adopt" and method == "ilba" and book.exists()
            options = {"tables": [name], "accept_risk": method == "ilba", "ledger": not is_past and book}
            was = method, K, secret, frozenset(keys), year, wave
            if is_past:
                release = finest.release(out, method, **options)
                past = {"releases": [release], "store": finest, "secret": Secret.from_file(given_secret)}
                try:
                    Ledger(book).adopt(**past)
                except Conflict as refused:
                    Ledger(book).adopt(**past, accept_conflict=refused.id)
            else:
                try:
                    release = finest.release(out, method, **options)
                except Conflict as refused:
                    if action != "accept":
                        continue
                    accepted = True
                    release = finest.release(out, method, accept_conflict=refused.id, **options)
            masks = dict(release.table(name).select("town", "N_masked").rows())
            shown = {(town, N): masks.get(town, 0) for town, N in counts.select("town", "N").rows()}
            for one in [] if accepted else [as_shown[was]] if was in as_shown else series.values():
                assert {cell: one[cell] for cell in shown if cell in one and one[cell] != shown[cell]} == {}
            if accepted and not is_past and wave not in waves:
                series.clear()
            if was not in as_shown:
                series[("past", number) if is_past else wave] = shown
            as_shown.setdefault(was, shown)
            waves.add(wave)


@pytest.mark.slow
def test_six_waves_forth_and_back_show_the_first_masks_again(census, agency):
    rng = np.random.default_rng(5)
    waves = [census]
    for _ in range(3):
        people = waves[-1]
        moved = rng.random(people.height) < 0.01
        other = people["age"].shuffle(seed=int(rng.integers(1000)))
        waves.append(people.with_columns(pl.when(moved).then(other).otherwise(pl.col("age")).alias("age")))
    waves += waves[-2::-1]
    known: dict[tuple, int] = {}
    for number, people in enumerate(waves):
        finest = built(people, agency, population="register", wave=str(number))
        shown = masks_of(finest.release(agency / "out", tables=["LA3.gender.age"]))
        for *cell, count in finest.frame.select(*HKEY, *KEY, "N").rows():
            masked = shown.get(tuple(cell), 0)
            assert known.setdefault((*cell, count), masked) == masked
    assert len(Ledger(agency / "agency.ledger").publications) == 7


@pytest.mark.long
def test_a_later_wave_states_no_bound_and_one_that_did_not_hold_bars_the_next(census, agency):
    finest = built(census, agency, population="register", wave="1")
    with pytest.raises(UnsafeRelease, match="does not hold"):
        finest.release(agency / "a", stated_bound=4, plan=["LA1"])
    with pytest.raises(UnsafeRelease, match="did not hold"):
        finest.release(agency / "a", stated_bound=30)
    finest.release(agency / "a")
    later = built(census.sample(fraction=0.99, seed=1), agency, population="other", wave="2")
    later.declared_as(ilba.Population("register", "2"))
    with pytest.raises(UnsafeRelease, match=r"did not hold|A later wave"):
        later.release(agency / "b", stated_bound=40)


# --- the ledger itself


def test_a_ledger_is_for_its_owner_alone_and_small(census, agency):
    built(census, agency).release(agency / "a")
    folder = agency / "agency.ledger"
    for file in folder.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600)
    small = int((built(census, agency).frame["N"] < 5).sum())
    assert sum(file.stat().st_size for file in (folder / "masks").rglob("*.parquet")) < 9 * small + 2000


def test_a_changed_byte_of_a_ledger_is_noticed(census, agency):
    finest = built(census, agency)
    finest.release(agency / "a", tables=["LA2"])
    folder = agency / "agency.ledger"
    rng = np.random.default_rng(1)
    for file in (folder / "log.jsonl", next((folder / "masks").rglob("*.parquet"))):
        good = file.read_bytes()
        for place in rng.integers(0, len(good), 60):
            changed = bytearray(good)
            changed[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(changed)
            with pytest.raises(StoreError, match=r"damaged|missing"):
                Ledger(folder).verify()
        for cut in (len(good) // 2, len(good) - 3):
            file.write_bytes(good[:cut])
            if file.suffix == ".parquet":
                with pytest.raises(StoreError):
                    Ledger(folder).verify()
        file.write_bytes(good)
    lines = good_lines(folder)
    (folder / "log.jsonl").write_bytes(b"".join(lines[:2] + lines[3:]))
    with pytest.raises(StoreError, match="damaged in line"):
        Ledger(folder)


def good_lines(folder):
    return (folder / "log.jsonl").read_bytes().splitlines(keepends=True)


def test_what_a_power_cut_left_of_the_last_line_is_dropped(census, agency):
    finest = built(census, agency)
    finest.release(agency / "a", tables=["LA2"])
    log = agency / "agency.ledger" / "log.jsonl"
    good = log.read_bytes()
    log.write_bytes(good + b'{"before":"abc","kind":"int')
    assert len(Ledger(agency / "agency.ledger").publications) == 1
    finest.release(agency / "b", tables=["LA1"])
    assert log.read_bytes().startswith(good)
    assert Ledger(agency / "agency.ledger").verify() == len(good_lines(log.parent))


def test_an_older_copy_of_the_ledger_is_refused(census, agency):
    store = built(census, agency, output_path=agency / "s.parquet")
    store.release(agency / "a", tables=["LA2"])
    shutil.copytree(agency / "agency.ledger", agency / "backup")
    store.release(agency / "b", tables=["LA1"])
    shutil.rmtree(agency / "agency.ledger")
    (agency / "backup").rename(agency / "agency.ledger")
    with pytest.raises(StoreError, match="older copy"):
        ilba.open_store(agency / "s.parquet").release(agency / "c")
    assert not (agency / "c").exists()


@pytest.mark.long
def test_an_older_copy_catches_up_with_waves_that_show_no_finest_table(agency):
    people = ilba.datasets.census(600)
    few = {"hkey": HKEY[:2], "population": "p"}

    def wave(data, name):
        return built(data, agency, wave=name, output_path=agency / "s.parquet", **few)

    wave(people, "1").release(agency / "a", max_keys=1)
    shutil.copytree(agency / "agency.ledger", agency / "backup")
    second = wave(people.tail(-20), "2").release(agency / "b", max_keys=1)
    third = wave(people.tail(-20), "3").release(agency / "c")
    shutil.rmtree(agency / "agency.ledger")
    (agency / "backup").rename(agency / "agency.ledger")
    with pytest.raises(StoreError, match=r"ilba ledger adopt RELEASE --store STORE"):
        wave(people.tail(-20), "3").release(agency / "d")
    ledger = Ledger(agency / "agency.ledger")
    with pytest.raises(ilba.UnsafeRelease, match="build it again from the same records"):
        ledger.adopt([second], wave(people.tail(-60), "2"))
    ledger.adopt([second], wave(people.tail(-20), "2"))
    again = wave(people.tail(-20), "3").release(agency / "d")
    assert all(again.table(name).equals(third.table(name)) for name in third.tables)


@pytest.mark.slow
def test_after_a_kill_at_any_write_each_folder_has_its_entry_and_each_entry_its_folder(monkeypatch):
    """All of them: python bench/kills.py --kills 200."""
    monkeypatch.delenv("ILBA_LEDGER")
    monkeypatch.syspath_prepend(ROOT / "bench")
    import kills

    asked = 1000 if LARGE else 6
    assert kills.kills(asked, every=1 if LARGE else 8) == (asked, [])
    assert kills.at_once(100 if LARGE else 4) == []


def test_without_the_secret_the_masks_are_noise(census, agency):
    """Two ledgers of the same masks under two secrets share nothing, and each is even in every bit."""
    finest = built(census, agency)
    finest.release(agency / "a", tables=["LA2"])
    words = read_words(Ledger(agency / "agency.ledger").parts("unnamed-1 controlled 5"))
    other = ilba.build(census, HKEY, KEY, secret=Secret(bytes(32)))
    other.release(agency / "b", tables=["LA2"], ledger=agency / "other.ledger")
    others = read_words(Ledger(agency / "other.ledger").parts("unnamed-1 controlled 5"))
    assert len(words) == len(others) == int((finest.frame["N"] < 5).sum())
    assert not set(words.tolist()) & set(others.tolist())
    ones = np.unpackbits(words.view(np.uint8)).reshape(len(words), 64).mean(axis=0)
    assert np.abs(ones - 0.5).max() < 5 / (2 * np.sqrt(len(words)))
    log = (agency / "agency.ledger" / "log.jsonl").read_text()
    for line in log.splitlines():
        entry = json.loads(line)
        told = {name: value for name, value in entry.items() if name not in ("net",)}
        assert not {"N", "count", "counts", "over", "reached"} & set(told)


def test_looking_for_published_masks_makes_no_ledger(census, agency):
    finest = built(census, agency)
    before = sorted(file.name for file in agency.iterdir())
    with pytest.raises(InputError, match="never published"):
        finest.published()
    assert sorted(file.name for file in agency.iterdir()) == before


def test_a_trial_is_published_without_a_ledger_alone(census, agency):
    unsaved = ilba.build(census, HKEY, KEY)
    with pytest.raises(UnsafeRelease, match="ledger=False"):
        unsaved.release(agency / "a", tables=["LA2"])
    in_memory = ilba.build(census, HKEY, KEY, secret=Secret(bytes(32)))
    with pytest.raises(UnsafeRelease, match=r"only in memory.*ledger=False"):
        in_memory.release(agency / "a", tables=["LA2"])
    for finest in (unsaved, in_memory):
        with pytest.warns(ilba.Notice, match="this is a trial"):
            finest.release(agency / "a", tables=["LA2"], ledger=False)
    assert not list(agency.glob("*.ledger"))


def test_a_store_with_another_name_gets_the_secret_of_the_folder(census, tmp_path, monkeypatch):
    monkeypatch.delenv("ILBA_LEDGER")
    first = ilba.build(census, HKEY, KEY, output_path=tmp_path / "one.parquet")
    with pytest.warns(ilba.Notice, match=r"using the secret .*one\.secret"):
        second = ilba.build(census, HKEY, ["gender"], output_path=tmp_path / "two.parquet")
    assert second.fingerprint == first.fingerprint
    assert [file.name for file in tmp_path.glob("*.secret")] == ["one.secret"]
    Secret.new().to_file(tmp_path / "another.secret")
    with pytest.raises(ilba.SecretError, match="several secrets"):
        ilba.build(census, HKEY, ["age"], output_path=tmp_path / "three.parquet")


def test_a_publication_that_nobody_saw_can_be_withdrawn_for_good(census, agency):
    finest = built(census, agency)
    finest.release(agency / "a", tables=["LA2"])
    book = Ledger(agency / "agency.ledger")
    (number,) = [one.number for one in book.publications]
    with book.writing():
        book.withdraw(number, reason="wrong month")
    assert [one.withdrawn for one in Ledger(book.path).publications] == [True]
    with pytest.raises(Conflict):
        finest.release(agency / "b", method="ilba", accept_risk=True)
    with book.writing():
        book.withdraw(number, unseen=True)
    assert Ledger(book.path).publications == ()
    finest.release(agency / "b", method="ilba", accept_risk=True, tables=["LA2"])
    with book.writing(), pytest.raises(InputError, match="no publication 99"):
        book.withdraw(99)


@pytest.mark.slow
def test_a_lost_or_restored_ledger_is_noticed_by_data_that_is_built_anew(census, agency):
    """Nobody saved a store here: the file beside the secret says how far the ledger was."""
    built(census, agency).release(agency / "a", tables=["LA2"], plan=["LA2"])
    shutil.copytree(agency / "agency.ledger", agency / "backup")
    built(census, agency).release(agency / "b", tables=["LA1"], plan=["LA2"])
    shutil.rmtree(agency / "agency.ledger")
    with pytest.raises(StoreError, match="was lost or is an older copy"):
        built(census, agency).release(agency / "c", tables=["LA1"])
    assert not (agency / "agency.ledger").exists()
    shutil.copytree(agency / "backup", agency / "agency.ledger")
    with pytest.raises(StoreError, match="was lost or is an older copy"):
        built(census, agency).release(agency / "c", tables=["LA1"])
    (agency / "agency.ledgers.json").write_text("{")
    with pytest.raises(StoreError, match="damaged"):
        built(census, agency).release(agency / "c", tables=["LA1"])
    (agency / "agency.ledgers.json").unlink()
    built(census, agency).release(agency / "c", tables=["LA1"])
    assert stat.S_IMODE((agency / "agency.ledgers.json").stat().st_mode) == 0o600


def test_the_doctor_tells_a_correction_from_a_conflict_by_the_ledger(census, agency):
    built(census, agency, population="p", wave="1").release(agency / "a", tables=["LA2.age"], plan=["LA2.age"])
    corrected = census.tail(-5)
    built(corrected, agency, population="p", wave="1").release(agency / "b", tables=["LA2.age"], plan=["LA2.age"])
    alone = [one for one in examine([agency / "a", agency / "b"]) if one.problem]
    assert "show different counts" in alone[0].text
    known = examine([agency / "a", agency / "b", agency / "agency.ledger"])
    assert not [one for one in known if one.problem]
    assert any("one corrects the other" in one.text for one in known)


# --- the log, entry by entry


def kinds(book):
    return [(entry["kind"], entry.get("of")) for entry in Ledger(book.path).entries]


def test_a_log_of_the_first_version_is_read_and_one_of_a_newer_version_is_refused(tmp_path):
    keys, moved = {"method": "cell-key", "parameters": "D=2"}, {"parameters": "move=3"}
    told = [ONE, ONE | keys, ONE | moved, ONE | {"method": "ilba"}, ONE | keys | {"has_masks": True}]
    book = logged(tmp_path / "a", BEGIN, *told, {"kind": "withdrawn", "of": 2, "unseen": False})
    first = book.publications[0]
    assert (first.number, first.date, first.columns, first.tables) == (1, "2026-07-02", ("town", "sex"), ("town",))
    assert (first.accepted_risk, first.sums, first.adopted, first.stated_bound) == (False, False, False, None)
    assert [one.withdrawn for one in book.publications] == [False, True, False, False, False]
    assert [one.has_masks for one in book.publications] == [True, False, True, True, True]
    assert [one.move for one in book.publications] == [0, 0, 3, 0, 0]
    ways = [("controlled", 5, ""), ("cell-key", 5, "D=2"), ("controlled", 5, "move=3"), ("ilba", 5, "observed")]
    assert [one.way for one in book.publications] == [*ways, ways[1]]
    assert (book.verify(), repr(book)) == (7, f"Ledger({str(book.path)!r}, 5 publications, confidential)")
    assert [book.holds(number, book.tip["digest"]) for number in (5, 6, 7)] == [False, True, False]
    with pytest.raises(StoreError, match="is of a newer version"):
        logged(tmp_path / "a", BEGIN | {"format": 2})


def test_a_new_log_is_spelled_as_those_of_the_first_version(tmp_path):
    book = Ledger.create(tmp_path / "a")
    with book.writing():
        assert book.append("budget", population="Zürich", epsilon=1.5) == book.tip
    begun, told = ({"time": entry["time"]} for entry in book.entries)
    expected = log_of(BEGIN | begun, {"kind": "budget", "population": "Zürich", "epsilon": 1.5} | told)
    assert (book.path / "log.jsonl").read_bytes() == expected
    assert len(told["time"]) == len("2026-07-01T12:00:00+00:00")


@pytest.mark.parametrize(
    "line", [b"", b"{", b"{}", b"[]", b"null", b"\xff", b"[" * 100_000, b'{"n":1}', b'{"n":1,"before":"","digest":""}']
)
def test_a_line_that_is_no_entry_is_damage(tmp_path, line):
    book = logged(tmp_path / "a", BEGIN)
    with (book.path / "log.jsonl").open("ab") as log:
        log.write(line + b"\n")
    with pytest.raises(StoreError, match="damaged in line 2"):
        Ledger(book.path)


def test_entries_of_another_log_are_damage_also_with_right_checksums(tmp_path):
    with pytest.raises(StoreError, match="damaged in line 2"):
        logged(tmp_path / "a", BEGIN, ONE | {"n": 2})
    with pytest.raises(StoreError, match="damaged in line 3"):
        logged(tmp_path / "a", BEGIN, ONE, ONE | {"before": "0" * 64})
    for beginning in ((), (ONE,)):
        with pytest.raises(StoreError, match="has no beginning"):
            logged(tmp_path / "a", *beginning)


def test_what_a_kill_left_open_was_published_if_it_stands_and_was_not_if_it_does_not(tmp_path):
    book = Ledger.create(tmp_path / "a")
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "release.json").write_text("{}")
    (tmp_path / "table.csv").write_text("{}")
    (tmp_path / "other.csv").write_text("{ }")
    stands = hashlib.sha256(b"{}").hexdigest()
    with book.writing():
        for name in ("release", "table.csv", "other.csv", "never"):
            book.append("intent", place=str(tmp_path / name), checksum=stands, **INTENT)
    assert Ledger(book.path).publications == ()
    with Ledger(book.path).writing() as again:
        assert [one.number for one in again.publications] == [1, 2]
    assert kinds(book)[5:] == [("done", 1), ("done", 2), ("dropped", 3), ("dropped", 4)]
    with again.writing():
        pass
    assert len(kinds(book)) == 9


@pytest.mark.parametrize(("content", "kind"), [("{}", "done"), ("{ }", "dropped")])
def test_a_publication_that_fails_at_its_end_is_closed_by_what_stands(tmp_path, content, kind):
    book = Ledger.create(tmp_path / "a")
    stands = hashlib.sha256(b"{}").hexdigest()

    def fail():
        with book.publishing(tmp_path / "t.csv", stands, **INTENT):
            (tmp_path / "t.csv").write_text(content)
            raise OSError("full")

    with book.writing():
        with pytest.raises(OSError, match="full"):
            fail()
        with book.publishing(tmp_path / "u.csv", stands, **INTENT):
            pass
    assert book.entries[1]["place"] == str(tmp_path / "t.csv")
    assert kinds(book)[1:] == [("intent", None), (kind, 1), ("intent", None), ("done", 3)]


def test_masks_in_one_file_of_an_earlier_version_are_kept_and_checked(tmp_path):
    masks = tmp_path / "a" / "masks"
    masks.mkdir(parents=True)
    (masks / "old.parquet").write_bytes(b"masks")
    old = {"kind": "masks", "scope": "s", "file": "old.parquet", "sha256": hashlib.sha256(b"masks").hexdigest()}
    book = logged(tmp_path / "a", BEGIN, old)
    (masks / "left.parquet").touch()
    (masks / "folder").mkdir()
    (masks / ".hidden").touch()
    with pytest.warns(Advice, match="'folder' is in no entry of the ledger"):
        book.verify()
    with book.writing():
        assert [path.name for path in masks.iterdir()] == ["old.parquet"]
    assert (book.parts("s"), book.parts("t")) == ([masks / "old.parquet"], [])
    (masks / "old.parquet").write_bytes(b"Masks")
    for check in (book.verify, lambda: book.parts("s")):
        with pytest.raises(StoreError, match=r"old\.parquet.* is missing or damaged"):
            check()


def test_masks_are_kept_for_their_owner_and_none_leave_nothing(tmp_path):
    book = Ledger.create(tmp_path / "a")

    def write(folder):
        for name in ("b.parquet", "a.parquet", "notes.txt"):
            (folder / name).write_bytes(name.encode())
        return 2

    with book.writing():
        book.keep_masks("s", write, way="w")
        book.keep_masks("s", lambda folder: 0)
    entry = Ledger(book.path).tip
    assert (entry["kind"], entry["scope"], entry["rows"], entry["way"]) == ("masks", "s", 2, "w")
    assert [path.name for path in book.parts("s")] == ["a.parquet", "b.parquet"]
    kept = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (book.path / "masks").rglob("*")}
    assert kept == {"000001": 0o700, "a.parquet": 0o600, "b.parquet": 0o600}


def test_of_two_writers_one_waits_until_the_other_is_done(tmp_path):
    book, other = Ledger.create(tmp_path / "a"), Ledger(tmp_path / "a")
    with contextlib.ExitStack() as first:
        first.enter_context(book.writing())
        with warnings.catch_warnings():
            warnings.simplefilter("error", Advice)
            with pytest.raises(Advice, match="Waiting until it is done"):
                other.writing().__enter__()
        book.append("budget", population="p", epsilon=1)
        with other.writing(first.close):
            assert kinds(other) == [("begin", None), ("budget", None)]
            other.append("budget", population="p", epsilon=2)
    assert Ledger(book.path).budgets == {"p": 1.0}


def test_noise_with_the_same_numbers_is_spent_once(tmp_path):
    noise = [ONE | {"epsilon": epsilon, "masks": masks} for epsilon, masks in ((0.5, "m"), (0.5, "m"), (0.25, "n"))]
    other = ONE | {"epsilon": 1, "population": "q"}
    assert logged(tmp_path / "a", BEGIN, ONE, *noise, other).spent == {"p": 0.75, "q": 1}


def test_a_ledger_is_made_where_nothing_else_is(tmp_path):
    with pytest.raises(StoreError, match="there is no ledger"):
        Ledger(tmp_path / "a")
    with pytest.raises(StoreError, match="it holds no log"):
        Ledger(tmp_path)
    with pytest.raises(InputError, match="Create it first"):
        Ledger.create(tmp_path / "no" / "a")
    (tmp_path / "photo.jpg").touch()
    with pytest.raises(InputError, match="is a file, not a ledger"):
        Ledger.create(tmp_path / "photo.jpg")
    with pytest.raises(InputError, match="holds other things"):
        Ledger.create(tmp_path)
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / ".log.jsonl.1234").touch()
    (tmp_path / "killed" / "lock").touch()
    first = Ledger.create(tmp_path / "killed")
    assert Ledger.create(tmp_path / "killed").entries == first.entries
    fresh = Ledger.create(tmp_path / "new")
    assert stat.S_IMODE(fresh.path.stat().st_mode) == stat.S_IMODE((fresh.path / "masks").stat().st_mode) == 0o700
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "masks").touch()
    with pytest.raises(WriteError, match=r"odd' cannot be written.* Nothing was published"):
        Ledger.create(tmp_path / "odd")
