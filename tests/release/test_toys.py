"""Releases of a toy whose masks are set by hand: what is told, kept and refused."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import FinestTable, InputError, Ledger, Release, Secret, UnsafeRelease
from ilba.errors import Conflict
from ilba.methods.controlled.search import Chosen
from ilba.tables.engine import KnownMasks
from ilba.tables.words import read_words

COUNTS = pl.DataFrame({"town": list("aabb"), "sex": ["f", "m"] * 2, "N": [60, 40, 3, 80]})
TABLE = ["town.sex"]
CODES = pl.DataFrame({"variable": ["town", "town", "sex", "sex"], "code": list("abfm"), "label_en": list("ABFM")})
NOISE = {"tables": TABLE, "method": "noise:epsilon=1", "labels": CODES}


def plain(agency, counts=COUNTS, key=("sex",)):
    return FinestTable.from_counts(counts, ["town"], list(key), secret=agency / "agency.secret")


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
    made = chosen(agency, [60, 40, 5, 80]).release(agency / "out", tables=TABLE, title="Toy")
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


def test_a_secret_is_the_one_of_the_masks(agency):
    other = Secret(bytes(32)).to_file(agency / "other.secret")
    with pytest.raises(ilba.SecretError, match="another secret"):
        plain(agency).release(agency / "out", tables=TABLE, secret=other)
    assert not (agency / "out").exists()
