"""Releases in which large counts may have moved: one masked count per cell and count, for ever, and the same proof."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import ilba
from ilba import FinestTable, InputError, Ledger
from ilba.cli import commands
from ilba.errors import Conflict
from ilba.tables.words import read_words

pytestmark = pytest.mark.slow

HKEY, KEY = ["LA1", "LA2", "LA3"], ["gender", "age"]
PLAN = ["LA3.gender", "LA2.age", "LA1"]
FINEST = "LA3.gender.age"


@pytest.fixture(scope="module")
def census():
    return ilba.datasets.census(8_000)


def built(people, agency, **more):
    return ilba.build(people, HKEY, KEY, secret=agency / "agency.secret", **more)


def test_every_release_of_a_population_shows_the_counts_that_were_first_published(census, agency):
    first = built(census, agency).release(agency / "a", tables=PLAN, plan=PLAN, move=2, sweeps=20)
    assert first.manifest["parameters"] == {"move": 2}
    assert first.move == 2
    finest = built(census, agency)
    with pytest.warns(ilba.Notice, match="not in that plan"):
        every = finest.release(agency / "b")  # move is left out: it is what the ledger says
    for name in PLAN:
        assert every.table(name).equals(first.table(name))
    assert every.manifest["parameters"] == {"move": 2}
    shown = finest.published()
    assert shown.move == 2
    masked = shown.frame.filter(pl.col("N_masked") > 0).sort(*HKEY, *KEY)
    assert masked.drop("N").equals(every.table(FINEST).sort(*HKEY, *KEY))
    large = shown.frame.filter(pl.col("N") >= 5)
    assert (large["N"] != large["N_masked"]).any()
    publication = Ledger(agency / "agency.ledger").publications[-1]
    assert (publication.move, publication.parameters) == (2, "move=2")
    words = read_words(Ledger(agency / "agency.ledger").parts("unnamed-1 controlled 5 move 2"))
    assert len(words) == finest.frame.height  # one for each cell, and nothing was kept twice
    audited = ilba.audit(every)
    assert audited.certificate
    assert (audited.cells_disclosed, audited.aggregates) == (0, 0)


def test_another_move_of_the_same_people_is_a_conflict(census, agency):
    built(census, agency).release(agency / "a", tables=PLAN, plan=PLAN)
    with pytest.raises(Conflict, match="Publish as before"):
        built(census, agency).release(agency / "b", tables=PLAN, plan=PLAN, move=1)
    with pytest.raises(InputError, match="move goes with method='controlled'"):
        built(census, agency).release(agency / "b", method="ilba", move=1)
    chosen = built(census, agency).controlled(PLAN, secret=agency / "agency.secret", sweeps=10, move=1)
    with pytest.raises(InputError, match="were chosen with move=1"):
        chosen.release(agency / "b", move=2)


def test_waves_forth_and_back_keep_each_masked_count(census, agency):
    rng = np.random.default_rng(5)
    moved = rng.random(census.height) < 0.02
    other = census.with_columns(
        pl.when(moved).then(census["age"].shuffle(seed=3)).otherwise(pl.col("age")).alias("age")
    )
    known: dict[tuple, int] = {}
    for number, people in enumerate([census, other, census]):
        finest = built(people, agency, population="register", wave=str(number))
        release = finest.release(agency / "out", tables=[FINEST], plan=PLAN, move=1, sweeps=10)
        shown = {tuple(row[:-1]): row[-1] for row in release.table(FINEST).rows()}
        for *cell, count in finest.frame.select(*HKEY, *KEY, "N").rows():
            masked = shown.get(tuple(cell), 0)
            assert known.setdefault((*cell, count), masked) == masked


def test_the_world_in_which_the_masked_counts_are_the_truth_is_published_alike(census, agency, monkeypatch):
    monkeypatch.setattr("ilba.release.writing._time", lambda: "2026-11-17T00:00:00+00:00")
    finest = built(census, agency)
    chosen = finest.controlled(PLAN, secret=agency / "agency.secret", move=2, sweeps=20)
    ours = chosen.release(agency / "ours", tables=PLAN, ledger=False)
    counts = chosen.frame.filter(pl.col("N_masked") > 0).select(*HKEY, *KEY, N="N_masked")
    world = FinestTable.from_counts(counts, HKEY, KEY, secret=agency / "agency.secret")
    theirs = world.release(agency / "theirs", tables=PLAN, plan=PLAN, move=2, sweeps=20, ledger=False)
    for file in ("release.json", "codes.csv", *(table.file for table in ours.tables.values())):
        assert (ours.path / file).read_bytes() == (theirs.path / file).read_bytes(), file


def test_a_coarser_design_is_published_as_sums_of_counts_that_moved(census, agency):
    fine = built(census, agency)
    published = fine.release(agency / "a", tables=[FINEST], plan=PLAN, move=1, sweeps=10).table(FINEST)
    women = ilba.build(census.filter(pl.col("gender") == 2), HKEY, ["age"], secret=agency / "agency.secret")
    release = women.release(agency / "b", from_ledger=fine, where={"gender": 2})
    expected = published.filter(pl.col("gender") == 2).select(*HKEY, "age", "N_masked").sort(*HKEY, "age")
    assert release.table("LA3.age").sort(*HKEY, "age").equals(expected)
    assert release.move == 1


def test_noise_in_the_target_is_told_kept_and_proven_like_everything_else(census, agency):
    finest = built(census, agency)
    finest.save(agency / "s.parquet")
    words = [str(agency / "s.parquet"), "--out", str(agency / "a"), "--secret", str(agency / "agency.secret")]
    for asked, code in ((["--noise", "1.4"], 2), (["--noise", "0.4"], 0)):
        assert CliRunner().invoke(commands, ["release", *words, *asked]).exit_code == code
    first = ilba.Release(agency / "a")
    assert first.manifest["parameters"] == {"noise": 0.4}
    assert first.noise == 0.4
    again = built(census, agency).release(agency / "a")  # in its place; noise is left out: the ledger says it
    assert again.noise == 0.4
    assert again.table(FINEST).equals(first.table(FINEST))
    with pytest.raises(InputError, match=r"published with 0\.4, and keeps it"):
        built(census, agency).release(agency / "b", noise=0.2)
    with pytest.raises(InputError, match="goes with method='controlled'"):
        built(census, agency).release(agency / "b", method="ilba", noise=0.4)
    chosen = finest.published()
    assert chosen.noise == 0.4
    with pytest.raises(InputError, match=r"were chosen with 0\.4"):
        chosen.release(agency / "b", noise=0.2)
    counts = chosen.frame.filter(pl.col("N_masked") > 0).select(*HKEY, *KEY, N="N_masked")
    world = FinestTable.from_counts(counts, HKEY, KEY, secret=agency / "agency.secret")
    theirs = world.release(agency / "theirs", noise=0.4, ledger=False)
    for table in again.tables.values():
        assert (again.path / table.file).read_bytes() == (theirs.path / table.file).read_bytes()
    assert again.manifest["parameters"] == theirs.manifest["parameters"]
    assert ilba.audit(again).certificate
