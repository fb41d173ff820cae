"""A report of risks says the same in every form: as text, as plain values and as the facts of its page."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

from ilba import PublishedTables
from ilba.attack.measuring import BIN_ROWS, DETAIL, ROWS
from ilba.attack.riskreport import RiskReport, _facts
from support.stores import toy


def _row(attacker, **values):
    return {**dict.fromkeys(ROWS), "attacker": attacker, "knows": f"knows what {attacker} knows", **values}


@pytest.fixture
def report():
    rows = [
        _row("proof", small=2000, proven=1500, exactly=20, certified=400, undecided=100),
        _row("outsider", small=2000, proven=1500, exactly=20, likely=1600, likely_right=0.99, likely_share=0.8,
             likely_error=0.015, alone=7, alone_right=0.5),
        _row("neighbour", small=2000, likely=3, likely_share=0.25),
        _row("nobody"),
        _row("nothing small", small=0, proven=0, exactly=0),
        _row("insider", small=40, proven=10, exactly=None, undecided=30),
        _row("attribute", small=2000, groups=1234, people=5000),
    ]  # fmt: skip
    bins = [
        {"attacker": name, "event": "1..K-1", "cells": 10, "said": 0.5, "true": 0.4}
        for name in ("outsider", "insider", "outsider")
    ]
    detail = [{"attacker": "proof", "what": "town%2Ex", "small": 3, "proven": 2, "exactly": 1}]
    found = {"variable": "x", "people": 20, "pure": 1.0, "accuracy": None, "expected": 0.5, "gain": 3.0}
    found |= {"coalition_1": 1, "coalition_2": 0}
    groups = [{"table": f"town%2E{i}", "groups": int(i != 3), **found} for i in range(20)]
    return RiskReport(
        published=PublishedTables.of(toy([2, 7], [0, 7], 5, "grid"), "controlled"),
        rows=pl.DataFrame(rows, schema=ROWS),
        calibration=pl.DataFrame(bins, schema=BIN_ROWS),
        detail=pl.DataFrame(detail, schema=DETAIL),
        groups=pl.DataFrame(groups),
        worst=[],
        cells=pl.DataFrame(),
        undecided=pl.DataFrame({"town": range(1005)}),
        notes=["a note.", "<another>"],
        sample=(1200, 3400),
        seconds=1.2345,
    )


def test_the_text_has_a_line_for_each_attacker_and_every_note(report):
    lines = str(report).splitlines()
    assert lines[:2] == ["Risk of 4 tables: method='controlled', K=5 (confidential)", ""]
    table = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines[2:10]]
    assert table == [
        ["small", "proven", "exactly", "undecided", "P > .95 small", "of small", "P > .95 alone", "groups"],
        ["proof", "2,000", "1,500 (75.0%)", "20 (1.0%)", "100 (5.0%)", "-", "-", "-", "-"],
        ["outsider", "2,000", "1,500 (75.0%)", "20 (1.0%)", "-", "1,600 (0.990 right)", "80.0% ± 1.5%",
         "7 (0.500 right)", "-"],
        ["neighbour", "2,000", "-", "-", "-", "3", "25.0%", "-", "-"],
        ["nobody", "-", "-", "-", "-", "-", "-", "-", "-"],
        ["nothing small", "0", "0", "0", "-", "-", "-", "-", "-"],
        ["insider", "40", "10 (25.0%)", "-", "30 (75.0%)", "-", "-", "-", "-"],
        ["attribute", "2,000", "-", "-", "-", "-", "-", "-", "1,234"],
    ]  # fmt: skip
    assert len({len(line) for line in lines[2:10]}) == 1  # right-aligned columns
    assert lines[5].startswith("neighbour" + " " * 4 + "  2,000  ")
    assert lines[10] == ""
    assert lines[11] == "proof: knows what proof knows."
    assert lines[18:] == ["Probabilities are from a sample of 1,200 of 3,400 areas.", "a note.", "<another>"]
    assert repr(report) == "RiskReport(7 attackers, 4 tables; confidential)"
    assert report._repr_html_().startswith("<pre>Risk of 4 tables: method=&#x27;controlled&#x27;")
    assert report._repr_html_().endswith("&lt;another&gt;</pre>")
    assert report.row("insider")["undecided"] == 30


def test_plain_values_are_the_whole_report_without_single_cells(report):
    told = report.to_dict()
    assert json.loads(report.to_json()) == told
    assert told.pop("attackers") == report.rows.to_dicts()
    assert told.pop("calibration") == report.calibration.to_dicts()
    assert told.pop("detail") == report.detail.to_dicts()
    assert told.pop("groups") == report.groups.to_dicts()
    assert [row["town"] for row in told.pop("undecided")] == list(range(1000))
    assert told == {
        "confidential": True,
        "method": "controlled",
        "threshold": 5,
        "cells": "grid",
        "tables_released": 4,
        "finest_released": True,
        "worst": [],
        "notes": ["a note.", "<another>"],
        "sample": {"areas": 1200, "of": 3400},
        "seconds": 1.23,
    }


def test_the_page_shows_bars_for_what_is_measured_and_groups_that_there_are(report, tmp_path):
    facts = _facts(report)
    assert facts["bars"] == [
        ("proof", 0.75, 0.01, None),
        ("outsider", 0.75, 0.01, 0.8),
        ("insider", 0.25, 0, None),
    ]
    assert [group["table"] for group in facts["groups"]] == [f"town.{i}" for i in range(15) if i != 3]
    assert [(name, len(rows)) for name, rows in facts["bins"]] == [("outsider", 2), ("insider", 1)]
    assert all(row["attacker"] == name for name, rows in facts["bins"] for row in rows)
    assert [row["what"] for row in facts["detail"]] == ["town.x"]
    assert (facts["K"], facts["report"]) == (5, report)
    assert facts["about"] == str(report).splitlines()[0]
    assert facts["heads"][0] == "small"
    assert facts["lines"][5][:2] == ("insider", "knows what insider knows")
    assert facts["lines"][5][2][1] == "10 (25.0%)"
    assert facts["policy"]
    page, own = (report.to_html(tmp_path / lang, lang=lang).read_text() for lang in ("en", "ko"))
    assert "These are the 14 lines with the largest gain, of 19." in page
    assert "전체 19줄 중 이득이 가장 큰 14줄입니다." in own
    whole = replace(report, groups=report.groups.head(15)).to_html(tmp_path / "whole").read_text()
    assert "lines with the largest gain" not in whole
    assert "knows what insider knows" in page
    assert 'lang="en"' in page
    assert 'lang="ko"' in own
    assert report.to_html(tmp_path / "default").read_text() == page
