"""Methods side by side: the numbers are those that the audit and the tables give, and the page is its owner's alone."""

from __future__ import annotations

import re
import stat

import polars as pl
import pytest

import ilba
from ilba.attack.audit import losses
from ilba.output.compare import Comparison, compare
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
    controlled = small.controlled(bound=12, secret=secret, **WANTED)
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
