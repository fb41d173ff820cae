"""What an audit found, in words, numbers and pictures: the same in each, and marked as confidential."""

from __future__ import annotations

import dataclasses
import html
import itertools
import json
import re
import time

import polars as pl
import pytest
from markupsafe import escape

import ilba
from ilba import PublishedTables
from ilba.attack.lattice import table_of
from ilba.attack.verdict import _facts, shares
from ilba.design.tables import selections
from ilba.output.pages import filled
from support.stores import toy


@pytest.mark.long
def test_the_report_is_one_confidential_page_that_fetches_nothing(finest, tmp_path):
    report = ilba.audit(finest, "r-file")
    path = report.to_html(tmp_path / "audit.html")
    page = path.read_text("utf-8")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "<title>CONFIDENTIAL" in page
    assert page.partition("<body>")[2].lstrip().startswith('<div class="mark">CONFIDENTIAL')
    assert re.search(r"@page\s*\{[^}]*@top-center\s*\{\s*content:\s*\"CONFIDENTIAL\"", page)
    assert not re.search(r"(src|href)=|url\(|https?://|@import", page)
    assert page.count('<table class="shares">') == 2
    assert "the &#34;other&#34;, job" in page
    for one in report.worst:
        assert one.cell.partition(",")[0] in page


@pytest.mark.long
def test_the_report_speaks_json_and_text(finest, audited):
    report = audited
    plain = json.loads(report.to_json())
    assert plain["confidential"] is True
    assert plain["cells_disclosed"] == report.cells_disclosed
    assert {row["table"] for row in plain["tables"]} == {one.name for one in selections(finest.design)}
    assert plain["worst"][0]["why"]
    assert "Not safe" in str(report)
    assert "confidential" in str(report)
    assert "confidential" in repr(report)
    row = report.tables.filter(pl.col("table") == "block.sex.age.job").to_dicts()[0]
    assert (row["small"], row["disclosed"], row["exact"]) == (
        report.cells_small,
        report.cells_disclosed,
        report.cells_exact,
    )


def page_of(report):
    return filled("audit.html", **_facts(report))


def bars_of(page: str):
    """The lines of each picture of bars: name, label, and the percent that the light and the dark bar take up."""
    line = (
        r'<tr><th scope="row">(.*?)</th><td><span class="bar red" style="--share:(.*?)%;--part:(.*?)%"></span></td>'
        r"<td>(.*?)</td></tr>"
    )
    pictures = re.findall(r'<table class="shares">(.*?)</table>', page, re.DOTALL)
    assert len(pictures) == 2
    assert [picture.count("<tr>") for picture in pictures] == [len(re.findall(line, picture)) for picture in pictures]
    return [
        [
            (html.unescape(name), text, float(light), float(dark))
            for name, light, dark, text in re.findall(line, picture)
        ]
        for picture in pictures
    ]


def test_bars_show_the_share_of_small_cells_and_numbers_where_it_is_unknown():
    def bars(*rows):
        lines = shares([dict(zip(("name", "small", "disclosed", "exact"), row, strict=True)) for row in rows])
        return [(line["name"], line["text"], line["share"], line["exact"]) for line in lines]

    assert bars(("a<b", 2000, 1000, 500), ("n" * 33, 8, 8, 0), ("m", 0, 0, 0)) == [
        ("a<b", "50.0% of 2,000", 0.5, 0.25),
        ("n" * 33, "100.0% of 8", 1, 0),
        ("m", "0.0% of 0", 0, 0),
    ]
    assert bars(("a", None, 4000, 1000), ("b", None, 1000, 0)) == [("a", "4,000", 1, 0.25), ("b", "1,000", 0.25, 0)]
    assert bars(("a", None, 1, 0)) == [("a", "1", 1, 0)]
    assert bars(("a", None, 0, 0)) == [("a", "0", 0, 0)]
    assert bars() == []


@pytest.mark.long
def test_the_page_shows_levels_tables_and_proofs_in_order(audited):
    page = page_of(audited)
    assert not re.search(r"</(tr|details)>[^<\s]", page)
    by_level, by_table = bars_of(page)
    rows = audited.tables.to_dicts()
    levels = list(dict.fromkeys(row["level"] for row in rows))
    assert [line[0] for line in by_level] == levels
    for line in by_level:
        small, disclosed, exact = (
            sum(r[c] for r in rows if r["level"] == line[0]) for c in ("small", "disclosed", "exact")
        )
        assert line[1:] == (
            f"{100 * disclosed / max(small, 1):.1f}% of {small:,}",
            *(pytest.approx(100 * number / max(small, 1), abs=0.01) for number in (disclosed, exact)),
        )
    shown = sorted((row for row in rows if row["small"] or row["disclosed"]), key=lambda row: -row["disclosed"])
    assert 0 < len(shown) < len(rows)
    assert [line[0] for line in by_table] == [row["table"] for row in shown]
    for row in rows:
        name = f'<th scope="row">{row["table"]}</th>'
        numbers = [row[column] for column in ("small", "disclosed", "exact", "certified", "undecided")]
        assert f"<tr>{name}{''.join(f'<td>{number:,}</td>' for number in numbers)}</tr>" in page
    proofs = re.findall(r"<details( open)?><summary>([^<]*): ([^<]*)</summary>\n<ol>\n(.*?)</ol>", page, re.DOTALL)
    assert [bool(one[0]) for one in proofs] == [True] * 3 + [False] * 7
    for (_, cell, count, why), one in zip(proofs, audited.worst, strict=True):
        assert html.unescape(cell) == one.cell
        assert count == (str(one.low) if one.low == one.high else f"{one.low}..{one.high}")
        assert [html.unescape(w) for w in re.findall(r"<li>(.*?)</li>", why)] == one.why
        assert why == "".join(f"<li>{escape(w)}</li>\n" for w in one.why)
    for name, number, of in (
        ("finest cells truly in 1..4", audited.cells_small, None),
        ("proven", audited.cells_disclosed, audited.cells_small),
        ("exactly", audited.cells_exact, audited.cells_small),
        ("certified safe", audited.cells_certified, audited.cells_small),
        ("undecided", audited.cells_undecided, audited.cells_small),
        ("aggregates truly in 1..4", audited.aggregates_small, None),
        ("aggregates proven", audited.aggregates, audited.aggregates_small),
        ("aggregates certified safe", audited.aggregates_certified, audited.aggregates_small),
        ("aggregates undecided", audited.aggregates_undecided, audited.aggregates_small),
    ):
        percent = "" if of is None else f"{100 * number / of:.1f}%"
        assert f'<tr><th scope="row">{name}</th><td>{number:,}</td><td>{percent}</td></tr>' in page


@pytest.mark.long
def test_without_the_store_the_truth_is_called_unknown_and_numbers_are_drawn(finest):
    tables = {table.selection.name: table.public() for table in finest.tables(selections(finest.design))}
    report = ilba.audit(PublishedTables.from_frames(finest.codes, tables))
    assert report.cells_disclosed > 0
    lines = str(report).splitlines()
    assert lines[1] == "  finest cells truly in 1..4           unknown"
    assert lines[2] == f"{'    disclosed':<34}{report.cells_disclosed:>12,}"
    assert lines[4] == f"{'    certified safe':<34}     unknown"
    page = page_of(report)
    _, by_table = bars_of(page)
    shown = report.tables.filter(pl.col("disclosed") > 0).sort("disclosed", descending=True, maintain_order=True)
    assert [(line[0], line[1]) for line in by_table] == [
        (row["table"], f"{row['disclosed']:,}") for row in shown.to_dicts()
    ]


@pytest.mark.long
def test_a_page_about_many_tables_draws_forty_and_lists_all(audited):
    many = pl.DataFrame(
        {
            "table": [f"t{n}" for n in range(50)],
            "level": "l",
            "small": [9] * 50,
            "disclosed": [n % 5 for n in range(50)],
            "exact": [0] * 50,
            "certified": [None] * 50,
            "undecided": [None] * 50,
        }
    )
    page = page_of(dataclasses.replace(audited, tables=many, worst=[]))
    _, by_table = bars_of(page)
    order = sorted(range(50), key=lambda n: -(n % 5))
    assert [line[0] for line in by_table] == [f"t{n}" for n in order[:40]]
    assert all(f'<th scope="row">t{n}</th><td>' in page for n in range(50))
    assert "No proof is explained here." in page
    assert "Nothing was proven." not in page
    assert "aggregates undecided" not in page
    nothing = many.with_columns(disclosed=pl.lit(0))
    assert "Nothing was proven." in page_of(dataclasses.replace(audited, tables=nothing, cells_disclosed=0, worst=[]))


def told(report, certificate=False, disclosed=0, aggregates=0, undecided=0, small=10, sums=0):
    """The same report with other findings."""
    finest = table_of(report.published.design, report.published.lattice.base).name
    table = pl.col("table")
    found = pl.when(table == "all").then(aggregates).when(table == finest).then(disclosed).otherwise(0)
    return dataclasses.replace(
        report,
        tables=report.tables.with_columns(
            disclosed=found.cast(pl.Int64), undecided=pl.when(table == "all").then(sums).otherwise(0).cast(pl.Int64)
        ),
        certificate=certificate,
        cells_small=small,
        cells_disclosed=disclosed,
        cells_undecided=undecided,
    )


def test_a_release_is_safe_with_a_certificate_or_where_nothing_is_proven_and_nothing_open():
    audited = ilba.audit(toy([2, 3], [0, 0], 5, "observed"))
    for certificate, disclosed, aggregates, undecided in itertools.product(
        (False, True), (0, 1, 3), (0, 1, 2), (0, 1, None)
    ):
        report = told(audited, certificate, disclosed, aggregates, undecided)
        assert report.aggregates == aggregates
        assert report.share == disclosed / 10
        nothing = disclosed == 0 and aggregates == 0
        assert report.safe is (certificate or (nothing and undecided == 0))
        if certificate:
            expected = "Safe: the masked finest table is itself"
        elif not nothing:
            expected = "Not safe: everybody"
        elif undecided == 0:
            expected = "Safe: for each small cell"
        else:
            expected = "Nothing was proven, but not everything is certified"
        assert report.verdict.startswith(expected)
        page = page_of(report)
        assert f'<p class="verdict {"safe" if report.safe else "unsafe"}">{escape(report.verdict)}</p>' in page
    for sums in (1, None):  # what is left open of a coarser table is open, too
        report = told(audited, sums=sums)
        assert report.aggregates_undecided == sums
        assert not report.safe
        assert report.verdict.startswith("Nothing was proven, but not everything is certified")


def test_without_the_finest_table_every_proven_cell_of_a_table_is_an_aggregate(finest):
    report = ilba.audit(finest, tables=["town", "region.sex", "all"])
    assert not report.published.split
    assert report.cells_undecided == report.cells_small - report.cells_disclosed - report.cells_certified
    assert told(report, aggregates=4).aggregates == 4
    for small in (0, None):
        assert told(report, small=small).share == told(report, small=small).share_exact == 0


@pytest.mark.slow
def test_what_is_told_as_plain_values_is_what_was_found_and_nothing_is_left_out(finest):
    start = time.perf_counter()
    report = ilba.audit(finest, "r-file", tables=["block.sex.age.job", "town", "all"], explanations=2)
    assert 0 < report.seconds <= time.perf_counter() - start
    assert len(report.worst) == 2
    assert report.to_dict() == {
        "confidential": True,
        "method": "r-file",
        "threshold": 5,
        "cells": "observed",
        "tables_released": 3,
        "finest_released": True,
        "folder": None,
        "why_undecided": report.why_undecided,
        "undecided_by_reason": report.why,
        "cells_small": report.cells_small,
        "cells_disclosed": report.cells_disclosed,
        "cells_exact": report.cells_exact,
        "cells_certified": report.cells_certified,
        "cells_undecided": report.cells_undecided,
        "aggregates_small": report.aggregates_small,
        "aggregates_disclosed": report.aggregates,
        "aggregates_exact": report.aggregates_exact,
        "aggregates_certified": report.aggregates_certified,
        "aggregates_undecided": report.aggregates_undecided,
        "aggregates_undecided_by_reason": report.why_aggregates,
        "certificate": False,
        "misfits": report.misfits,
        "safe": False,
        "verdict": report.verdict,
        "tables": report.tables.to_dicts(),
        "disclosed_aggregates": report.disclosed_aggregates.to_dicts(),
        "worst": [{"cell": o.cell, "low": o.low, "high": o.high, "why": o.why} for o in report.worst],
        "seconds": round(report.seconds, 2),
    }
    assert json.loads(report.to_json()) == report.to_dict()
    assert ilba.audit(finest, explanations=0).worst == []


def test_plain_values_and_pages_hold_what_the_report_holds(tmp_path):
    report = ilba.audit(toy([2, 3, 9], [0, 0, 9], 5, "observed"), explanations=1)
    plain = report.to_dict()
    same = ["cells_small", "cells_disclosed", "cells_exact", "cells_certified", "cells_undecided", "why_undecided"]
    same += ["aggregates_small", "aggregates_certified", "aggregates_undecided", "certificate", "misfits", "safe"]
    same += ["verdict", "folder"]
    assert {name: plain[name] for name in same} == {name: getattr(report, name) for name in same}
    assert plain["aggregates_disclosed"] == report.aggregates
    assert (plain["undecided_by_reason"], plain["aggregates_undecided_by_reason"]) == (
        report.why,
        report.why_aggregates,
    )
    assert report.share_of_counts == report.tables["disclosed"].sum() / report.tables["small"].sum() > 0
    for lang in ("en", "ko"):
        assert f'lang="{lang}"' in report.to_html(tmp_path / f"{lang}.html", lang=lang).read_text("utf-8")


def test_the_text_of_a_report_is_this():
    report = ilba.audit(toy([2, 3, 9], [0, 0, 9], 5, "observed"), explanations=1)
    why = "".join(f"\n    {sentence}" for sentence in report.worst[0].why)
    assert str(report) == (
        "Audit of 4 tables: method='ilba', K=5, cells='observed' (confidential)\n"
        "  finest cells truly in 1..4                 2\n"
        "    disclosed                                2   100.0%\n"
        "      exactly                                0     0.0%\n"
        "    certified safe                           0     0.0%\n"
        "    undecided                                0     0.0%\n"
        "  aggregates truly in 1..4                   2\n"
        "    aggregates disclosed                     2   100.0%\n"
        "      aggregates exactly                     0     0.0%\n"
        "    aggregates certified safe                0     0.0%\n"
        "    aggregates undecided                     0     0.0%\n"
        "\n"
        f"{report.verdict}\n"
        "\n"
        "How it is proven:\n"
        f"  town 0, x 0{why}"
    )
    assert repr(report) == ("AuditReport(method='ilba', 4 tables; 2 of 2 small cells disclosed; confidential)")
    assert report._repr_html_() == f"<pre>{html.escape(str(report))}</pre>"
    sums = ilba.audit(toy([2, 3, 9], [0, 0, 9], 5, "observed"), "sca-sums")
    assert str(sums).startswith("Audit of 4 tables: method='sca-sums', K=5 (confidential)\n")
    assert "proven:" not in str(sums)
    assert "0 of 2 small cells" in repr(sums)
    assert "0 of ? small cells" in repr(told(sums, small=None))


def test_the_text_shows_three_proofs_and_says_how_many_more_there_are(finest):
    audited = ilba.audit(finest, "r-file", ["block.sex.age.job", "region"], explanations=5)
    for number, more in ((2, False), (3, False), (4, True), (5, True)):
        report = dataclasses.replace(audited, worst=audited.worst[:number])
        assert str(report).count("\n    So ") == min(number, 3)
        assert (f"(and {number - 3} more in report.worst and on the page of --out)" in str(report)) is more
    long = [one._replace(why=[*one.why, *["a step"] * 21]) for one in audited.worst]
    report = dataclasses.replace(audited, worst=[*long[:2], *audited.worst[2:]])
    assert str(report).count("\n    So ") == 3
    assert "(and 2 more in report.worst and on the page of --out)" in str(report)
    report = dataclasses.replace(audited, worst=long)
    assert "How it is proven" not in str(report)
    assert f"the shortest has {min(len(one.why) for one in long)} steps." in str(report)
