"""Releases of a toy whose masks are set by hand: what is told, kept and refused."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import Design, FinestTable, InputError, Ledger, Release, Secret, UnsafeRelease, methods
from ilba.attack.risk import ALL
from ilba.design.design import Origins
from ilba.errors import Advice, Conflict
from ilba.methods.controlled.search import Chosen
from ilba.output.charts import shapes_by_code
from ilba.release import writing
from ilba.release.replacing import free_folder, spelled, way
from ilba.tables.engine import KnownMasks
from ilba.tables.words import read_words

COUNTS = pl.DataFrame({"town": list("aabb"), "sex": ["f", "m"] * 2, "N": [60, 40, 3, 80]})
TABLE = ["town.sex"]
CODES = pl.DataFrame({"variable": ["town", "town", "sex", "sex"], "code": list("abfm"), "label_en": list("ABFM")})
NOISE = {"tables": TABLE, "method": "noise:epsilon=1", "labels": CODES}


def plain(agency, counts=COUNTS, key=("sex",), K=5):
    return FinestTable.from_counts(counts, ["town"], list(key), K, secret=agency / "agency.secret")


def chosen(agency, masked, **how):
    """The toy with these masks, as if they had been chosen jointly for its finest table."""
    return plain(agency).with_masks(KnownMasks(np.array(masked), 0, 0), Chosen(tuple(TABLE), None, held=True, **how))


def rows(release, name="town.sex"):
    return release.table(name).sort(pl.all())["N_masked"].to_list()


def test_counts_that_moved_are_told_kept_and_shown_again(agency):
    moved = chosen(agency, [61, 40, 6, 78], way=6, sweeps=200, move=2)
    first = moved.release(agency / "a", tables=TABLE)
    assert (first.manifest["parameters"], first.move, first.noise) == ({"move": 2}, 2, 0.0)
    assert rows(first) == [61, 40, 6, 78]
    book = Ledger(agency / "agency.ledger")
    assert [(one.move, one.parameters, one.audit) for one in book.publications] == [(2, "move=2", "certified")]
    assert len(read_words(book.parts("unnamed-1 controlled 5 move 2"))) == 4
    again = plain(agency).release(agency / "a", tables=TABLE)  # in its place; how far counts move is in the ledger
    assert (rows(again), again.manifest["parameters"]) == ([61, 40, 6, 78], {"move": 2})
    with pytest.warns(
        ilba.Notice, match=r"1 table of this release were not in that plan: there a count is up to 1 off"
    ):
        town = plain(agency).release(agency / "b", tables=["town"])
    assert rows(town, "town") == [101, 84]
    looked = plain(agency).published()
    assert (looked.move, looked.frame["N_masked"].to_list()) == (2, [61, 40, 6, 78])
    with pytest.raises(Conflict, match=r"parameters move=2 .*Publish as before"):
        plain(agency).release(agency / "c", tables=TABLE, move=0)
    with pytest.raises(UnsafeRelease, match="by another method, K or reading"):
        chosen(agency, [60, 40, 5, 80]).release(agency / "a", tables=TABLE, ledger=agency / "new.ledger")


def test_how_far_counts_move_is_that_of_the_masks(agency):
    moved = chosen(agency, [61, 40, 6, 78], way=6, sweeps=200, move=2)
    for options, says in (
        ({"move": 1}, "were chosen with move=2. Leave it out"),
        ({"move": 6}, "move=6 is not a whole number from 0 to K=5"),
        ({"noise": 0.5}, "were chosen with 0.0. Leave it out"),
        ({"method": "ilba"}, "its method is 'controlled'"),
        ({"method": "cell-key:D=2,V=1"}, "its method is 'controlled'"),
    ):
        with pytest.raises(InputError, match=says):
            moved.release(agency / "a", tables=TABLE, **options)
    for options, says in (
        ({"move": 1}, "move goes with method='controlled'"),
        ({"noise": 0.5}, "noise= goes with method='controlled'"),
        ({"stated_bound": 9}, "stated_bound goes with method='controlled'"),
        ({"budget": 1.0}, "budget goes with noise"),
        ({"from_ledger": moved}, "sums of a finer table are published with method='controlled'"),
    ):
        with pytest.raises(InputError, match=says):
            plain(agency).release(agency / "a", tables=TABLE, method="ilba", **options)
    assert moved.release(agency / "a", tables=TABLE, move=2, noise=0.0).move == 2


def test_noise_in_the_target_is_told_and_kept(agency):
    first = chosen(agency, [60, 40, 5, 80], noise=0.4).release(agency / "a", tables=TABLE)
    assert (first.manifest["parameters"], first.noise, first.move) == ({"noise": 0.4}, 0.4, 0)
    assert plain(agency).release(agency / "a", tables=TABLE).noise == 0.4
    assert plain(agency).release(agency / "a", tables=TABLE, noise=0.4).noise == 0.4
    with pytest.raises(InputError, match=r"published with 0\.4, and keeps it"):
        plain(agency).release(agency / "b", tables=TABLE, noise=0.2)
    assert plain(agency).published().noise == 0.4


def test_women_alone_are_published_as_sums_of_what_was_published_of_all(agency):
    women = plain(agency, COUNTS.filter(pl.col("sex") == "f").drop("sex"), ())
    fine = plain(agency)
    options = {"from_ledger": fine, "where": {"sex": "f"}}
    with pytest.raises(UnsafeRelease, match="was not published in this form"):
        women.release(agency / "b", **options)
    chosen(agency, [61, 40, 6, 78], way=6, sweeps=200, move=2).release(agency / "a", tables=TABLE)
    summed = women.release(agency / "b", **options)
    assert rows(summed, "town") == [61, 6]
    assert (summed.manifest["sums"], summed.move) == (True, 2)
    assert [(one.sums, one.move) for one in Ledger(agency / "agency.ledger").publications] == [(False, 2), (True, 2)]


@pytest.mark.parametrize("budget", [0, -1, float("inf"), float("nan"), True])
def test_a_budget_is_a_number_above_0(agency, budget):
    with pytest.raises(InputError, match="is not a number above 0"):
        plain(agency).release(agency / "a", budget=budget, **NOISE)


def test_noise_is_never_called_safe(agency):
    with pytest.raises(InputError, match="noise is never called safe"):
        plain(agency).release(agency / "a", budget=1, require_safe=True, **NOISE)


def test_a_bound_is_stated_if_it_holds_in_every_table(agency):
    masked = chosen(agency, [60, 40, 0, 80])
    with pytest.raises(InputError, match="bound=3 is not a whole number from 4"):
        masked.release(agency / "a", tables=TABLE, stated_bound=3)
    stated = masked.release(agency / "a", tables=[*TABLE, "town"], stated_bound=4)
    assert stated.manifest["bound"] == 4
    assert [one.stated_bound for one in Ledger(agency / "agency.ledger").publications] == [4]


def test_what_a_release_is_read_from_is_what_was_written(agency):
    told = []
    made = chosen(agency, [60, 40, 5, 80]).release(agency / "out", tables=TABLE, title="Toy", progress=told.append)
    assert [step[:3] for step in told] == [("writing tables", done, 2) for done in range(3)]
    opened = Release(agency / "out")
    assert repr(opened) == "Release('Toy', 1 table, controlled, K=5)"
    assert opened.find("town", "sex").name == "town.sex"
    assert (opened.find("town", ["sex"]).file, opened.find(1, ["sex"]).rows) == ("tables/town.sex.parquet", 4)
    assert (opened.additive, opened.has_blanks, opened.geometry("town")) == (True, False, None)
    with pytest.raises(InputError, match=r"this release has no table 'town'\. It has town.sex"):
        opened.find("town")
    with pytest.raises(InputError, match=r"Did you mean 'town\.sex'"):
        opened.table("town.sx")
    shown = opened._repr_html_()
    assert "1 table · controlled · K=5" in shown
    assert "more" not in shown
    assert set(opened.digests) == {"codes.csv", "tables/town.sex.parquet"}
    made.verify()
    opened.tables = dict.fromkeys(map(str, range(23)), opened.tables["town.sex"])
    shown = opened._repr_html_()
    assert (shown.count(">town.sex<"), "and 3 more" in shown) == (20, True)
    (agency / "out" / "tables" / "notes.txt").touch()
    with pytest.raises(ilba.StoreError, match=r"holds files that do not belong to it: tables/notes.txt"):
        opened.verify()
    (agency / "out" / "codes.csv").unlink()
    with pytest.raises(ilba.StoreError, match=r"'codes.csv' of the release .* is missing or was changed"):
        opened.verify()
    with pytest.raises(ilba.StoreError, match=r"there is no release .*Did you mean 'out'"):
        Release(agency / "outt")
    with pytest.raises(ilba.StoreError, match="it holds no release"):
        Release(agency)
    with pytest.raises(ilba.StoreError, match="is a file, not a release"):
        Release(agency / "agency.secret")


def test_maps_are_read_as_they_were_given(agency):
    shape = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "가", "geometry": None}]}
    made = chosen(agency, [60, 40, 5, 80]).release(agency / "out", tables=TABLE, geometry={"town": shape})
    assert (made.geometry("town"), made.geometry("sex")) == (shape, None)
    assert set(made.digests) == {"codes.csv", "tables/town.sex.parquet", "geometry/town.geojson"}
    made.verify()


def test_a_map_may_name_areas_by_the_column_and_a_map_that_names_none_is_refused(agency):
    def shape(**feature):
        return {"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": None, **feature}]}

    def published(given):
        options = {"tables": TABLE, "geometry": {"town": given}}
        return chosen(agency, [60, 40, 5, 80]).release(agency / "out", **options).geometry("town")

    for properties in ({"town": "a"}, {"code": "a", "town": "A"}, {"town": "a", "id": "A"}):
        for more in ({}, {"id": None}):
            (code,) = shapes_by_code(published(shape(properties=properties, **more)))
            assert code == "a"
    by_code = shape(properties={"code": "a"})
    assert published(by_code) == by_code
    for properties, said in (({"ort": "a", "area": 1}, "ort, area"), ({"town": None}, "town"), (None, "none")):
        with pytest.raises(
            InputError, match=rf"properties: {said}\. Call the one with the code 'town'.* town = {{file"
        ):
            published(shape(properties=properties))


def test_audit_and_risk_get_the_store_and_every_option(agency, monkeypatch):
    made = chosen(agency, [60, 40, 5, 80]).release(agency / "out", tables=TABLE)
    for name in ("audit", "risk"):
        monkeypatch.setattr(f"ilba.attack.{name}.{name}", lambda *given, **options: (*given, options))
    assert made.audit() == (made, {"store": None})
    assert made.audit("its store", explanations=0) == (made, {"store": "its store", "explanations": 0})
    assert made.risk() == (made, ALL, {"store": None})
    assert made.risk("proof", "its store", cells=9) == (made, "proof", {"store": "its store", "cells": 9})


def test_a_secret_is_the_one_of_the_masks(agency):
    other = Secret(bytes(32)).to_file(agency / "other.secret")
    with pytest.raises(ilba.SecretError, match="another secret"):
        plain(agency).release(agency / "out", tables=TABLE, secret=other)
    assert not (agency / "out").exists()


# --- the proof, and the release that is already there


def written(folder):
    """A file that nothing accounts for."""
    (folder / "tables" / "notes.parquet").touch()


def lost(folder):
    (folder / "codes.csv").unlink()


def turned(folder):
    """A letter changed, with the same number of bytes."""
    content = bytearray((folder / "codes.csv").read_bytes())
    content[-2] ^= 1
    (folder / "codes.csv").write_bytes(content)


def longer(folder):
    with (folder / "codes.csv").open("a") as file:
        file.write("sex,x,x,,\n")


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, {"method": "ilba", "accept_risk": True}], ids=["controlled", "ilba"])
@pytest.mark.parametrize("leak", [written, lost, turned, longer])
def test_a_folder_that_is_not_made_again_byte_by_byte_is_not_published(agency, monkeypatch, leak, options):
    fill = writing.fill

    def leaking(folder, *given):
        shown = fill(folder, *given)
        leak(folder)
        return shown

    monkeypatch.setattr(writing, "fill", leaking)
    finest = plain(agency) if options else chosen(agency, [60, 40, 5, 80])
    with pytest.raises(UnsafeRelease, match="depends on more than the masked counts"):
        finest.release(agency / "a", tables=TABLE, ledger=False, **options)
    assert [file.name for file in agency.iterdir()] == ["agency.secret"]
    monkeypatch.setattr(writing, "fill", fill)
    made = finest.release(agency / "a", tables=TABLE, ledger=False, **options)
    assert sorted(file.name for file in made.path.rglob("*")) == [
        "codes.csv",
        "release.json",
        "tables",
        "town.sex.parquet",
    ]


def test_only_a_release_and_nothing_else_is_replaced(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    (tmp_path / "file").touch()
    for name in ("new", "empty"):
        assert free_folder(tmp_path / name) == tmp_path / name
    for name in ("mine", "file"):
        with pytest.raises(InputError, match="exists and is not a release; this would destroy it"):
            free_folder(tmp_path / name)
    with pytest.raises(InputError, match="no folder"):
        free_folder(tmp_path / "no" / "out")
    for name in ("release.json", "codes.csv", "tables/town.parquet", "geometry/town.geojson"):
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).touch()
    assert free_folder(tmp_path / "out") == tmp_path / "out"
    strangers = ["a.csv", "tables/a.csv", "geometry/a.parquet", "geometry/deep/a.geojson", "a.parquet"]
    for name in strangers:
        (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "out" / name).touch()
        with pytest.raises(InputError, match=f"holds {name}, which belongs to no release"):
            free_folder(tmp_path / "out")
        (tmp_path / "out" / name).unlink()


def other_publications(agency):
    """The same columns published in other ways, in the place of jointly chosen masks."""
    yield plain(agency), {"method": "ilba", "accept_risk": True}
    yield plain(agency), {"method": "cell-key:D=2,V=1", "accept_risk": True}
    yield FinestTable.from_counts(COUNTS, ["town"], ["sex"], 7, secret=agency / "agency.secret"), {}
    yield chosen(agency, [61, 40, 6, 78], way=6, sweeps=200, move=2), {}


@pytest.mark.long
def test_a_release_is_not_replaced_by_one_of_another_method_or_k(agency):
    before = chosen(agency, [60, 40, 5, 80]).release(agency / "a", tables=TABLE, ledger=False)
    for finest, options in other_publications(agency):
        with pytest.raises(UnsafeRelease, match="shows the same columns by another method, K or reading"):
            finest.release(agency / "a", tables=TABLE, ledger=False, **options)
    before.verify()
    chosen(agency, [60, 40, 0, 80], noise=0.4).release(agency / "a", tables=TABLE, ledger=False)
    chosen(agency, [60, 40, 0, 80]).release(agency / "a", tables=TABLE, ledger=False)  # noise is no other way
    plain(agency, COUNTS.rename({"sex": "job"}), ["job"]).release(
        agency / "a", tables=["town.job"], ledger=False, method="ilba", accept_risk=True
    )
    (agency / "a" / "release.json").write_text("{")  # nobody reads a damaged one
    for _ in range(2):
        plain(agency).release(agency / "a", tables=TABLE, ledger=False, method="cell-key:D=2,V=1", accept_risk=True)
    for other in ("cell-key:D=3,V=1", "ilba"):
        with pytest.raises(UnsafeRelease, match="by another method, K or reading"):
            plain(agency).release(agency / "a", tables=TABLE, ledger=False, method=other, accept_risk=True)


def test_the_reading_of_s_belongs_to_the_way_of_ilba_alone():
    designs = [Design.of(["town"], ["sex"], 5, cells) for cells in ("observed", "grid")]
    assert [way("ilba", design) for design in designs] == [("ilba", 5, "observed"), ("ilba", 5, "grid")]
    assert [way("controlled", design) for design in designs] == [("controlled", 5, "")] * 2
    assert way("controlled", designs[0], None, 2) == ("controlled", 5, "move=2")
    assert way("ilba", designs[1], None, 2) == ("ilba", 5, "grid")
    keys, noise = methods.CellKey(D=2, V=1.0), methods.Noise(epsilon=1.0)
    assert way("cell-key", designs[0], keys) == ("cell-key", 5, spelled(keys.parameters))
    assert way("noise", designs[0], noise) == ("noise", 5, "observed")  # epsilons are added up
    assert spelled({"D": 2, "V": 1.0}) == "D=2,V=1.0"


@pytest.mark.long
def test_other_tables_of_the_same_data_are_not_shown_with_other_masks(agency):
    sexes = ["f", "m", "f", None, "f", "m"]
    counts = pl.DataFrame({"town": list("abcdef"), "sex": sexes, "N": [60, 40, 3, 80, 2, 90]})
    place = agency / "wave[1]"

    def masked(masks, data=counts, wave="1"):
        made = FinestTable.from_counts(data, ["town"], ["sex"], secret=agency / "agency.secret", missing="category")
        made = made.with_masks(KnownMasks(np.array(masks), 0, 0), Chosen(("town.sex",), None, held=True))
        return made.declared_as(ilba.Population("p", wave))

    one = masked([60, 40, 5, 80, 0, 90])
    one.release(place, tables=["town.sex", "town"], ledger=False)
    with pytest.raises(UnsafeRelease, match=r"most counts of 'town.*' are equal, some are not"):
        masked([60, 40, 0, 80, 5, 90]).release(place, tables=["town.sex"], ledger=False)
    one.release(place, tables=["town.sex"], ledger=False)
    strangers = masked([61, 41, 5, 81, 0, 91], counts.with_columns(N=pl.Series([61, 41, 3, 81, 2, 91])))
    strangers.release(place, tables=["town.sex", "town"], ledger=False)
    assert rows(Release(place)) == [61, 41, 5, 81, 91]
    one.release(agency / "b", tables=["town.sex", "town"])  # a ledger carries the masks to the next wave
    later = masked([60, 40, 5, 80, 9, 90], counts.with_columns(N=pl.Series([60, 40, 3, 80, 9, 90])), "2")
    assert rows(later.release(agency / "b", tables=["town.sex"])) == [60, 40, 5, 80, 9, 90]


def test_masks_chosen_jointly_are_compared_with_such_masks_alone(agency):
    jobs = plain(agency, COUNTS.rename({"sex": "job"}), ["job"])
    drawn = rows(jobs.release(agency / "a", "ilba", ["town.job", "town"], accept_risk=True, ledger=False), "town")
    masked = [60, 40, 0 if drawn == [100, 85] else 5, 80]
    made = chosen(agency, masked).release(agency / "a", tables=["town.sex", "town"], ledger=False)
    assert rows(made, "town")[0] == drawn[0] == 100
    assert rows(made, "town") != drawn


# --- what is decided before anything is written


def test_a_key_that_was_dropped_because_of_the_data_bars_a_release(agency):
    finest = plain(agency).declared_by(Origins("proposed", ("income",)))
    for publish in (lambda: finest.release(agency / "a", tables=TABLE), lambda: finest.publishable("town")):
        with pytest.raises(UnsafeRelease, match="income was left out when the store was built"):
            publish()
    assert not (agency / "agency.ledger").exists()


def test_ilba_is_published_if_the_audit_finds_it_safe_or_with_the_risk_accepted(agency):
    small = pl.DataFrame({"town": ["a", "a"], "sex": ["0", "1"], "N": [2, 1]})
    risky = plain(agency, small)
    tables = {"tables": ["town", *TABLE], "method": "ilba"}
    for options in ({}, {"require_safe": True}):
        with pytest.raises(UnsafeRelease, match="the audit does not find these tables safe, so nothing was published"):
            risky.release(agency / "a", **tables, **options)
    risky.release(agency / "a", accept_risk=True, **tables)
    with pytest.raises(UnsafeRelease, match=r"safe, so nothing was published\. Publish fewer tables, or with accept"):
        risky.release(agency / "a", **tables)  # controlled would be a conflict
    safe = plain(agency, COUNTS.filter(pl.col("N") > 5))
    safe.release(agency / "b", ledger=agency / "b.ledger", **tables)
    found = [Ledger(agency / f"{name}.ledger").publications[0] for name in ("agency", "b")]
    assert [(one.audit, one.accepted_risk) for one in found] == [("not safe", True), ("safe", False)]


def test_what_is_too_large_for_the_audit_is_published_with_the_risk_accepted_alone(agency, monkeypatch):
    monkeypatch.setattr("ilba.attack.audit.BUDGET", 3)
    options = {"tables": TABLE, "method": "ilba"}
    with pytest.raises(UnsafeRelease, match=r"not audited: they have \d+ cells, and the audit takes up to 3"):
        plain(agency).release(agency / "a", **options)
    with pytest.raises(InputError, match="no report of the audit can be written"):
        chosen(agency, [60, 40, 5, 80]).release(agency / "a", tables=TABLE, audit=agency / "audit.html")
    plain(agency).release(agency / "a", accept_risk=True, **options)
    assert [one.audit for one in Ledger(agency / "agency.ledger").publications] == ["not audited"]


def test_a_single_table_is_entered_and_binds_the_next_one(agency):
    finest = plain(agency)
    finest.publishable("town", ["sex"], remember=False)
    assert not Ledger(agency / "agency.ledger").publications
    finest.publishable("town", ["sex"])
    (entered,) = Ledger(agency / "agency.ledger").publications
    assert (entered.method, entered.tables, entered.place, entered.audit) == ("ilba", ("town.sex",), "", "safe")
    assert finest.published().frame.equals(finest.frame)
    with pytest.raises(Conflict, match="method='ilba'"):
        finest.release(agency / "a", tables=TABLE)


def test_a_single_table_after_a_release_shows_its_masks(agency):
    chosen(agency, [60, 40, 0, 80]).release(agency / "a", tables=TABLE)
    with pytest.warns(ilba.Notice, match="not in that plan"):
        shown = plain(agency).publishable("town")
    assert (shown.method, shown.frame["N_masked"].to_list()) == ("controlled", [60, 40, 0, 80])
    assert [one.tables for one in Ledger(agency / "agency.ledger").publications] == [("town.sex",), ("town",)]


def test_a_single_table_in_conflict_is_refused_before_its_masks_are_chosen(agency, monkeypatch):
    chosen(agency, [60, 40, 0, 80]).release(agency / "a", tables=TABLE)
    monkeypatch.setattr(writing, "_jointly_masked", None)
    with pytest.raises(Conflict, match="this store has K=7"):
        FinestTable.from_counts(COUNTS, ["town"], ["sex"], 7, secret=agency / "agency.secret").publishable("town")


def test_after_a_release_by_another_method_or_k_a_table_says_that_its_numbers_are_others(agency):
    finest = plain(agency)
    before = finest.table("town", ["sex"])
    drawn = before.public()
    assert drawn["N_masked"].to_list() in ([60, 40, 80], [60, 40, 5, 80])
    release = chosen(agency, [60, 40, 5, 80]).release(agency / "a", tables=TABLE)
    csv = agency / "t.csv"
    others = (finest, finest.with_method("rounding:5"), finest.with_threshold(7, agency / "agency.secret"))
    for table in (before, *(one.table("town", ["sex"]) for one in others)):
        for show in (table.public, table.chart, lambda t=table: t.write_csv(csv, public=True)):
            with pytest.warns(ilba.Notice, match=r"published with method='controlled' and K=5.*finest\.published\(\)"):
                show()
    for same in (finest.published(), finest.publishable("town", ["sex"], remember=False)):
        assert same.table("town", ["sex"]).public().equals(release.table("town.sex"))


def test_a_wave_by_ilba_shows_its_numbers_after_a_wave_by_another_method(agency):
    def wave(name, counts=COUNTS):
        return plain(agency, counts).declared_as(ilba.Population("p", name))

    first, second = wave("1"), wave("2", COUNTS.with_columns(pl.col("N") + 1))
    options = {"tables": TABLE, "secret": agency / "agency.secret"}
    published = first.release(agency / "a", method="ilba", **options)
    assert second.table("town").public().height == 2, "iLBA is how these people were published"
    with pytest.raises(Conflict) as refused:
        second.release(agency / "b", **options)
    second.release(agency / "b", accept_conflict=refused.value.id, **options)
    for same in (first, first.publishable("town", ["sex"], remember=False)):
        assert same.table("town", ["sex"]).public().equals(published.table("town.sex"))
    with pytest.warns(ilba.Notice, match="published with method='controlled'"):
        second.table("town").public()


def test_other_records_under_a_published_wave_are_told_with_the_wave_to_give(agency):
    def wave(name, more):
        return plain(agency, COUNTS.with_columns(pl.col("N") + more)).declared_as(ilba.Population("p", name))

    options = {"tables": TABLE, "plan": TABLE}
    wave("1", 1).release(agency / "a", **options)
    told = r"^wave '1' of 'p' was published from other records\.{} Unless this release .*a wave of their own.*wave="
    with pytest.warns(Advice, match=told.format(" Unchanged counts keep their masks\\.")):
        wave("1", 2).release(agency / "b", **options)
    with warnings.catch_warnings(action="error"):
        for again in (wave("1", 1), wave("1", 2), wave("2", 3)):
            again.release(agency / "c", **options)
    other = plain(agency, COUNTS.with_columns(pl.col("N") + 7), K=7).declared_as(ilba.Population("p", "1"))
    with pytest.raises(Conflict) as refused:
        other.release(agency / "d", **options)
    with pytest.warns(Advice, match=told.format("")):  # with another K no mask needs to stay
        other.release(agency / "d", accept_conflict=refused.value.id, **options)


def test_masks_that_were_never_published_are_not_found(agency):
    with pytest.raises(InputError, match="masks of these counts were never published"):
        plain(agency).published()


def test_masks_that_came_with_their_counts_are_kept_or_replaced_as_the_agency_says(agency, recwarn):
    came = FinestTable.from_counts(COUNTS.with_columns(N_masked=pl.Series([60, 40, 5, 80])), ["town"], ["sex"])
    options = {"tables": TABLE, "secret": agency / "agency.secret"}
    with pytest.raises(InputError, match=r"came with its counts, so say how to publish"):
        came.release(agency / "a", **options)
    kept = came.release(agency / "a", method="ilba", accept_risk=True, **options)
    assert rows(kept) == [60, 40, 5, 80]
    other = FinestTable.from_counts(COUNTS.with_columns(N_masked=pl.Series([60, 40, 0, 80])), ["town"], ["sex"])
    again = other.release(agency / "again", method="ilba", accept_risk=True, **options)
    assert rows(again) == [60, 40, 5, 80]  # as published
    assert not recwarn.list
    with pytest.warns(ilba.Notice, match="came with its counts, and new ones are chosen now"):
        came.release(agency / "b", method="controlled", ledger=agency / "b.ledger", **options)


def test_tables_that_are_too_many_to_list_are_named_and_so_is_the_plan_of_new_masks(agency, monkeypatch):
    monkeypatch.setattr("ilba.design.tables.MOST_TABLES", 3)
    made = chosen(agency, [60, 40, 5, 80]).release(agency / "a", tables=TABLE, ledger=False)
    assert made.manifest["created"][19:] == "+00:00"
    with pytest.raises(InputError, match=r"4 tables, too many to list.*plan="):
        plain(agency).release(agency / "b", tables=TABLE, ledger=False)
    plain(agency).release(agency / "b", tables=TABLE, plan=TABLE, ledger=False)


@dataclass(frozen=True)
class Endless(methods.Method):
    """Numbers behind which any count may stand."""

    name = "endless"
    about = "any number is shown"
    strong = "nothing is proven"
    weak = "nothing is told"
    bounded = False

    def publish(self, cells):
        return [methods.Shown(table.count + 1) for table in cells.tables]

    def preimage(self, value, size):
        return np.zeros_like(value), np.full_like(value, 99)


@dataclass(frozen=True)
class Together(methods.Method):
    """A method whose tables depend on each other."""

    name = "together"
    about = "counts are shown as they are"
    strong = "useful"
    weak = "unsafe"
    joint = True

    def publish(self, cells):
        return [methods.Shown(table.count) for table in cells.tables]

    def preimage(self, value, size):
        return value, value


def test_numbers_without_a_limit_are_published_with_the_risk_accepted_alone(agency):
    with pytest.raises(UnsafeRelease, match="the numbers of endless have no limit, so no audit can find it safe"):
        plain(agency).release(agency / "a", Endless(), TABLE)
    with pytest.raises(InputError, match="there is no audit report for endless"):
        plain(agency).release(agency / "a", Endless(), TABLE, accept_risk=True, audit=agency / "audit.html")
    plain(agency).release(agency / "a", Endless(), TABLE, accept_risk=True)
    assert [one.audit for one in Ledger(agency / "agency.ledger").publications] == ["not audited"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "method", "together"),
    [
        ("ilba", "ilba", ["town", "town.sex"]),
        ("cell-key:D=2,V=1", "ilba", ["town"]),
        (Together(), Together(), ["town"]),
    ],
)
def test_tables_are_audited_with_those_published_before_by_the_same_method_unless_they_depend_on_each_other(
    agency, monkeypatch, before, method, together
):
    asked, options = [], {"accept_risk": True, "ledger": agency / "b.ledger"}
    sized = ilba.attack.audit.cells_to_attack
    monkeypatch.setattr("ilba.attack.audit.cells_to_attack", lambda *given: [asked.append(given[1]), sized(*given)][1])
    plain(agency).release(agency / "a", before, TABLE, **options)
    try:
        plain(agency).release(agency / "b", method, ["town"], **options)
    except Conflict as refused:
        plain(agency).release(agency / "b", method, ["town"], accept_conflict=refused.id, **options)
    assert [[table.name for table in tables] for tables in asked] == [TABLE, together]
