"""Methods side by side: the numbers are those that the audit and the tables give, and the page is its owner's alone."""

from __future__ import annotations

import re
import stat
import warnings
from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

import ilba
from ilba import methods
from ilba.attack.audit import losses
from ilba.methods.utility import neighbours
from ilba.output.compare import MEASURES, Comparison, compare, measures_of
from support.people import HKEY

pytestmark = pytest.mark.slow
WANTED = {"levels": [1, 2], "max_keys": 1}


@pytest.fixture(scope="module")
def small(people, secret):
    return ilba.build(people.head(300), HKEY[:2], ["sex", "job"], secret=secret)


@pytest.fixture(scope="module")
def compared(small, secret):
    told = []
    made = compare(small, **WANTED, bound=12, secret=secret, progress=told.append)
    assert [step[1:3] for step in told if step.stage == "comparing"] == [(done, 6) for done in range(1, 7)]
    return made


def test_every_method_has_a_row_with_the_numbers_of_its_own_audit(small, compared, secret):
    rows = {row["method"]: row for row in compared.rows.iter_rows(named=True)}
    controlled = small.controlled(bound=12, secret=secret)  # for all tables, as a release chooses them
    ways = {
        "sums of SCA": (small, "sca-sums"),
        "SCA on each aggregate": (small, "sca-aggregates"),
        "iLBA, as R writes it": (small, "r-file"),
        "iLBA, observed cells": (small, "ilba"),
        "iLBA, all cells of the grid": (small.with_cells("grid"), "ilba"),
        "controlled": (controlled, "controlled"),
    }
    assert list(rows) == list(ways)
    for name, (finest, method) in ways.items():
        report = ilba.audit(finest, method, explanations=0, **WANTED)
        size = losses(report.published)
        row = rows[name]
        assert (row["provable"], row["exact"], row["safe"]) == (report.share, report.share_exact, report.safe), name
        assert (row["mean_loss"], row["max_loss"]) == (size.mean(), size.max()), name
        assert row["over_bound"] == (size > 12).mean(), name
        assert row["aggregates"] == report.aggregates, name


def test_shares_are_fractions_and_only_plain_sums_add_up(compared):
    for share in ("within_half_K", "over_bound", "provable", "exact"):
        assert compared.rows[share].is_between(0, 1).all()
    assert compared.rows.filter("adds_up")["method"].to_list() == ["sums of SCA", "controlled"]
    assert compared.rows.filter(pl.col("method") == "controlled")["over_bound"].item() == 0


def test_the_page_is_its_owners_alone_says_so_and_loads_nothing(compared, tmp_path):
    path = compared.to_html(tmp_path / "compare.html")
    page = path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "CONFIDENTIAL" in page
    assert not re.findall(r"<script|<link|<img|src=|url\(|@import", page)
    for method in compared.rows["method"]:
        assert f'<th scope="row">{method}</th>' in page
    provable = compared.rows["provable"][0]
    assert f"<td>{100 * provable:.2f}</td>" in page


def test_turned_ranks_are_those_in_the_wrong_order_or_equal_and_the_page_says_so(compared, tmp_path):
    found = neighbours(np.arange(4), 1, np.array([5, 6, 9, 9]), np.array([6, 6, 5, 0]))  # equal, turned, a true tie
    assert (found.turned, found.differing) == (2, 2)
    page = compared.to_html(tmp_path / "compare.html").read_text(encoding="utf-8")
    assert "with different true counts that are published in the wrong order or as equal" in page


def test_words_cannot_write_into_the_page(compared, tmp_path):
    path = Comparison(compared.rows, "<b>&").to_html(tmp_path / "compare.html")
    assert "<h1>&lt;b&gt;&amp;</h1>" in path.read_text(encoding="utf-8")


def test_a_store_whose_masks_were_chosen_and_a_wrong_word_are_refused(small, secret):
    chosen = small.controlled(bound=12, secret=secret, **WANTED)
    with pytest.raises(ilba.InputError, match="Compare from the store that was built"):
        compare(chosen, **WANTED)
    with pytest.raises(ilba.InputError, match="Did you mean 'max_keys'"):
        compare(small, max_key=1)
    with pytest.raises(ilba.InputError, match="there is no table 'twon'"):
        compare(small, ["twon"])


@pytest.fixture(scope="module")
def lab(small, secret):
    names = ["controlled", "rounding:3", "rounding:5", "cell-key:D=2,V=1", "suppression", "noise:2"]
    return compare(small, methods=names, **WANTED, secret=secret)


def test_a_list_of_methods_gives_a_row_each_with_the_loss_of_its_own_tables(lab):
    rows = {row["method"]: row for row in lab.rows.iter_rows(named=True)}
    assert list(rows) == [
        "controlled",
        "rounding base=3",
        "rounding base=5",
        "cell-key D=2 V=1",
        "suppression",
        "noise epsilon=2",
    ]
    assert rows["rounding base=5"]["max_loss"] <= 4
    assert rows["cell-key D=2 V=1"]["max_loss"] <= 2
    assert rows["suppression"]["max_loss"] == 0
    assert rows["suppression"]["blank"] > 0
    assert rows["suppression"]["loss_below_K"] is None, "a size of which no count is shown has no loss"
    assert not rows["noise epsilon=2"]["safe"]
    assert rows["controlled"]["safe"]
    assert rows["controlled"]["lost"] > 0
    assert [name for name, row in rows.items() if row["adds_up"]] == ["controlled"]


def test_a_row_of_our_own_method_is_the_one_of_the_variants(lab, small, secret):
    (ours,) = compare(small, methods=["ilba"], **WANTED).rows.to_dicts()
    variants = {row["method"]: row for row in compare(small, **WANTED, secret=secret).rows.iter_rows(named=True)}
    same = [name for name in ours if name not in ("method", "family", "seconds")]
    assert {name: ours[name] for name in same} == {name: variants["iLBA, observed cells"][name] for name in same}


def test_the_rows_go_to_csv_for_their_owner_alone_and_to_a_notebook(lab, tmp_path):
    path = lab.to_csv(tmp_path / "lab.csv")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pl.read_csv(path)["method"].to_list() == lab.rows["method"].to_list()
    page = lab._repr_html_()
    assert "confidential" in page
    assert "rounding base=3" in page


def test_the_page_names_strong_and_weak_points_of_each_method_ours_included(lab, tmp_path):
    page = lab.to_html(tmp_path / "lab.html").read_text(encoding="utf-8")
    assert "proves no small count, from any number of tables" in page
    assert "many blanks; small cells remain visible" in page


def test_an_attacker_that_is_not_known_here_and_an_empty_list_are_refused(small):
    with pytest.raises(ilba.InputError, match="attacker 'thief' is not known"):
        compare(small, methods=["rounding"], attackers=["thief"], **WANTED)
    with pytest.raises(ilba.InputError, match="methods is empty"):
        compare(small, methods=[], **WANTED)


@pytest.mark.slow
def test_named_attackers_learn_what_risk_says_they_learn(small, secret):
    attackers = ["proof", "outsider", "neighbour", "insider", "attribute"]
    found = compare(small, methods=["ilba", "rounding:3", "noise:1"], attackers=attackers, secret=secret, **ALL)
    own, rounded, noise = found.rows.to_dicts()
    report = ilba.risk(small, attackers[1:], **ALL)
    by = {row["attacker"]: row for row in report.rows.iter_rows(named=True)}
    for name in ("outsider", "neighbour", "insider"):
        assert own[f"{name}: proven"] == by[name]["proven"] / by[name]["small"], name
    assert own["outsider: likely"] == by["outsider"]["likely_share"]
    assert own["attribute: groups"] == by["attribute"]["groups"]
    assert rounded["neighbour: proven"] >= rounded["provable"]
    for row, name in ((rounded, "rounding:3"), (noise, "noise:1")):
        by = {one["attacker"]: one for one in ilba.risk(small, attackers[1:], method=name, **ALL).rows.to_dicts()}
        for attacker in ("outsider", "neighbour", "insider"):
            right = by[attacker]["likely_share"] if by[attacker]["likely"] else 0
            assert row[f"{attacker}: likely"] == right, (name, attacker, "only right guesses count")
    assert noise["neighbour: proven"] == noise["insider: proven"] == 0
    assert noise["attribute: groups"] is None
    assert noise["invented"] > 0
    assert own["invented"] == rounded["invented"] == 0
    assert "outsider: likely %" in found.in_words().columns


ALL = {"levels": [0, 1, 2]}


def test_a_method_that_cannot_publish_these_tables_is_named_and_the_others_are_compared(small, secret):
    @dataclass(frozen=True)
    class Never(methods.Method):
        """Refuses."""

        name, about, strong, weak = "never", "-", "-", "-"

        def publish(self, cells):
            raise ilba.InputError("it cannot be done.")

        def preimage(self, value, size):
            return value, value

    found = compare(small, methods=["rounding:3", Never()], **WANTED)
    assert found.rows["method"].to_list() == ["rounding base=3"]
    assert found.remarks == ("never: not compared: it cannot be done.",)
    before = warnings.filters
    with pytest.raises(ilba.InputError, match="it cannot be done") as refused:
        compare(small, methods=[Never()], **WANTED)
    assert warnings.filters is before, (
        refused.traceback
    )  # else later notices would be recorded, and nobody would see them


def test_chosen_measures_are_a_line_for_each_method_within_80_columns(lab):
    text = lab.text(["mean_loss", "max_loss", "provable", "blank"])
    assert [line.split("  ")[0] for line in text.splitlines()[-6:]] == lab.rows["method"].to_list()
    assert "max loss" in text
    assert "blank %" in text
    assert max(map(len, text.splitlines())) <= 80
    assert max(map(len, lab.text().splitlines())) <= 80
    with pytest.raises(ilba.InputError, match="Did you mean 'mean_loss'"):
        lab.text(["mean_los"])


def test_names_of_any_length_fit_80_columns_whole_and_in_as_many_lines_as_they_need(lab):
    names = ["controlled", "noise epsilon=1 fit=True", "suppression", "cell-key D=5 V=3 js=2 pstay=0.5"]
    names += ["small-count-rounding base=5", "rounding base=5 kind=controlled"]
    text = Comparison(lab.rows.with_columns(method=pl.Series(names)), "").text()
    assert max(map(len, text.splitlines())) <= 80
    heads = " ".join(text.split("mean loss")[0].split())
    for word in ("small-", "count-", "rounding", "base=5", "pstay=0.5"):
        assert word in heads or word in text
    assert "rounding base=5" not in heads, "a head is wrapped, not put together again beyond its width"
    assert "\n\n\n" not in text


def test_a_column_that_cannot_be_measured_is_empty_and_a_remark_says_why(small, secret):
    named = ["outsider", "neighbour", "insider", "attribute"]
    compared = compare(small, methods=["noise:epsilon=2,fit=true", "ilba"], attackers=named, secret=secret)
    noise, ours = compared.rows.to_dicts()
    assert [noise[f"{one}: likely"] for one in named[:3]] == [None] * 3
    assert (noise["attribute: groups"], ours["insider: likely"]) == (None, None)
    for words in ("fitted to each other", "attribute: Not measured", "what is likely is measured for sums of masks"):
        assert sum(words in text for text in compared.remarks) == 1, words


def test_over_tables_whose_finest_cells_are_too_many_no_finest_cell_is_called_unproven(small, secret, monkeypatch):
    monkeypatch.setattr("ilba.attack.lattice.WIDEST", 0)
    monkeypatch.setattr("ilba.attack.published.WIDEST", 10**6)
    named = ["outsider", "neighbour", "insider", "attribute"]
    tables = [f"{HKEY[1]}.sex", f"{HKEY[0]}.job"]
    compared = compare(
        small, tables, methods=["suppression:kind=primary", "controlled"], attackers=named, secret=secret
    )
    blanks, ours = compared.rows.to_dicts()
    assert compared.rows.columns == [
        "method",
        "family",
        *MEASURES[:-1],
        *measures_of(named)[len(MEASURES) :],
        "seconds",
    ]
    for row in (blanks, ours):
        assert (row["provable"], row["exact"]) == (None, None)
        assert row["attribute: groups"] is not None
    assert blanks["provable_counts"] == 1
    assert blanks["loss_of_totals"] is None, "no table has one variable alone"
    assert blanks["neighbour: proven"] is None, "it is about finest cells"
    assert (ours["neighbour: proven"], ours["outsider: likely"]) == (None, None)
    assert sum("No single finest cell was looked at" in text for text in compared.remarks) == 1
    assert sum(text.startswith("controlled: neighbour: Not measured") for text in compared.remarks) == 1
    report = ilba.audit(small, "suppression:kind=primary", tables)
    assert ("finest cells", "not looked at", "") in report.figures(5, report.aggregates)
    assert "No single finest cell was looked at" in str(report)
    assert ilba.risk(small, ["proof"], tables=tables, method="suppression:kind=primary").rows["proven"].item() is None
