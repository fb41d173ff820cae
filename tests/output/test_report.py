"""The methodologist's report: its numbers are those of the tables, and nobody else can read it."""

from __future__ import annotations

import re
import stat
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.methods.loss import loss_summary
from ilba.output.report import Loss, report

pytestmark = pytest.mark.slow


class Page(HTMLParser):
    """What a report says: its overview row by row, its sections, and what it would make a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.sections: dict[str, list[list[str]]] = {}
        self.tags: dict[str, int] = {}
        self.overview: list[list[str]] = []
        self.words = ""
        self._rows: list[list[str]] | None = None
        self._open = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.loads += [given[name] for name in ("src", "srcset", "data", "xlink:href") if given.get(name)]
        if tag in ("link", "base") or (tag != "a" and given.get("href")):
            self.loads.append(given.get("href") or "")
        if tag == "details":
            self._rows = self.sections[given["id"]] = []
        if tag == "table" and given.get("class") == "all":
            self._rows = self.overview
        if tag == "tr" and self._rows is not None:
            self._rows.append([])
        if tag in ("td", "th") and self._rows is not None:
            self._rows[-1].append("")
            self._open = True

    def handle_endtag(self, tag):
        if tag in ("td", "th"):
            self._open = False

    def handle_data(self, data):
        self.words += data
        if self._open and self._rows:
            self._rows[-1][-1] += data


@pytest.fixture(scope="module")
def made(finest, tmp_path_factory):
    path = report(finest, tmp_path_factory.mktemp("report") / "report.html")
    return path, Page(path.read_text("utf-8"))


def test_a_report_is_for_its_owner_alone_and_says_so_everywhere(made):
    path, page = made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text("utf-8")
    assert "<title>CONFIDENTIAL" in text
    body = text.partition("<body>")[2].lstrip()
    assert body.startswith('<div class="mark">CONFIDENTIAL')
    for heading in re.findall(r"<h2>(.*?)</h2>", text):
        assert "CONFIDENTIAL" in heading
    for summary in re.findall(r"<summary>(.*?)</summary>", text, re.DOTALL):
        assert "CONFIDENTIAL" in summary
    assert re.search(r"@page\s*\{[^}]*@top-center\s*\{\s*content:\s*\"CONFIDENTIAL\"", text)
    assert page.tags["details"] == 32


def test_a_report_loads_nothing(made):
    path, page = made
    assert page.loads == []
    assert "script" not in page.tags
    text = path.read_text("utf-8")
    assert not re.search(r"url\(\s*['\"]?(https?:|//)|@import", text)
    assert page.tags["svg"] >= 3


def test_names_inside_the_charts_do_not_meet_each_other(made):
    text = made[0].read_text("utf-8")
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    for used in re.findall(r"url\(#([^)]+)\)", text):
        assert used in names


def test_the_overview_has_a_row_per_table_with_the_numbers_of_its_cells(finest, made):
    _, page = made
    assert len(page.overview) == 1 + 32
    rows = {row[0]: row[1:] for row in page.overview[1:]}
    for table in finest.cube():
        detail = table.detail
        size = detail["loss"].abs().to_numpy()
        title = " x ".join([*table.selection.finest, *table.selection.keys]) or "Total"
        assert rows[title] == [
            f"{len(detail):,}",
            f"{(detail['N'] <= 5).mean():.1%}",
            f"{detail['type1'].sum():,}",
            f"{detail['type2'].sum():,}",
            f"{size.mean():.3f}",
            str(np.quantile(size, 0.99, method="inverted_cdf")),
            str(size.max()),
            f"{(size <= 2).mean():.1%}",
        ], title


def test_each_section_holds_the_distribution_of_the_loss(finest, made):
    _, page = made
    for table in finest.cube():
        rows = page.sections[f"table-{table.selection.name}"]
        start = next(place for place, row in enumerate(rows) if row[:3] == ["Loss", "Cells", "Share"])
        found = {int(row[0]): (int(row[1].replace(",", "")), row[2]) for row in rows[start + 1 :]}
        counted = dict(table.detail.group_by("loss").len().iter_rows())
        assert found == {loss: (n, f"{n / len(table):.2%}") for loss, n in counted.items()}
        facts = {row[0]: row[1] for row in rows[:start]}
        assert facts["cells"] == f"{len(table):,}"
        assert facts["type 1 (shifted up)"] == f"{table.detail['type1'].sum():,}"
        assert facts["largest absolute loss"] == f"{table.detail['loss'].abs().max()} of at most 7"


def test_tables_together_are_the_sum_of_the_tables(finest):
    tables = list(finest.cube(max_keys=1))
    every = Loss.together([Loss.of(table) for table in tables])
    loss = pl.concat([table.detail["loss"] for table in tables]).to_numpy()
    assert every.cells == len(loss)
    assert every.summary == loss_summary((table.detail["loss"] for table in tables), K=5)
    assert every.summary.mean == pytest.approx(np.abs(loss).mean())
    assert every.summary.p99 == np.quantile(np.abs(loss), 0.99, method="inverted_cdf")
    assert every.summary.max == np.abs(loss).max()
    assert every.summary.within == pytest.approx((np.abs(loss) <= 2).mean())
    assert every.summary.over == pytest.approx((np.abs(loss) > 7).mean())
    assert sum(every.by_loss.values()) == every.cells


def test_a_report_is_cut_to_levels_and_keys(finest, tmp_path):
    steps = []
    path = report(
        finest,
        tmp_path / "r.html",
        ["town"],
        ["sex", "age"],
        1,
        progress=lambda step: steps.append((step.done, step.total)),
    )
    page = Page(path.read_text("utf-8"))
    assert list(page.sections) == ["table-town", "table-town.sex", "table-town.age"]
    assert steps == [(1, 3), (2, 3), (3, 3)]


def test_names_of_variables_cannot_write_into_the_page(secret, tmp_path):
    people = pl.DataFrame({"<b>town": ["a"] * 9, 'k"><script>': ["x"] * 9})
    finest = ilba.build(people, ["<b>town"], ['k"><script>'], secret=secret)
    text = report(finest, tmp_path / "r.html").read_text("utf-8")
    page = Page(text)
    assert "script" not in page.tags
    assert "<b>town" not in text
    assert "<b>town x" in page.words


def test_a_wrong_report_is_refused_before_the_work(finest, tmp_path):
    for options, says in [
        ({"levels": ["twon"]}, "Did you mean 'town'"),
        ({"keys": ["sxe"]}, "Did you mean 'sex'"),
        ({"maxkeys": 1}, "Did you mean 'max_keys'"),
    ]:
        with pytest.raises(ilba.InputError, match=says):
            report(finest, tmp_path / "r.html", **options)
    with pytest.raises(ilba.InputError, match="Create it first"):
        report(finest, tmp_path / "no" / "r.html")
    store = finest.save(tmp_path / "s.parquet")
    with pytest.raises(ilba.InputError, match="would destroy"):
        report(finest, store, max_keys=0)
