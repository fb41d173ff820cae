"""Charts: drawn from public frames only, of every size, and saved without a network."""

from __future__ import annotations

import json
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import altair
import polars as pl
import pytest

import ilba
from ilba import charts
from ilba.attack.choosing import what_if
from support.people import ILBA

pytestmark = pytest.mark.slow

HKEY = ["LA1", "LA2", "LA3", "OA"]
CODES = ilba.datasets.census_codes()


@pytest.fixture(scope="module")
def census(secret):
    return ilba.build(ilba.datasets.census(20_000), HKEY, ["gender", "age", "edu", "mar", "htype"], secret=secret)


def values_of(chart) -> list[dict]:
    """What a chart shows, from its specification."""
    spec = chart.to_dict()
    [name] = spec["datasets"]
    return spec["datasets"][name]


def marks(spec) -> set[str]:
    """The kinds of mark in a specification."""
    if isinstance(spec, list):
        return set().union(*map(marks, spec), set())
    if not isinstance(spec, dict):
        return set()
    own = {spec["mark"]["type"]} if isinstance(spec.get("mark"), dict) else set()
    return own.union(*(marks(value) for key, value in spec.items() if key not in ("datasets", "config")))


@pytest.mark.parametrize(
    ("level", "key", "kind"),
    [
        (0, [], "bar"),
        (0, ["mar"], "bar"),
        ("LA3", [], "bar"),
        (0, ["gender", "age"], "bar"),
        (0, ["age", "htype"], "rect"),
        ("LA3", ["age"], "rect"),
        ("LA2", ["gender", "age"], "bar"),
        ("LA2", ["age", "htype"], "rect"),
    ],
)
def test_a_table_is_drawn_with_every_public_row_and_nothing_else(census, level, key, kind):
    table = census.table(level, key)
    chart = table.chart()
    assert kind in marks(chart.to_dict())
    shown, public = values_of(chart), table.public()
    assert sorted(row["N_masked"] for row in shown) == sorted(public["N_masked"].to_list())
    wanted = {"N_masked"} | {f"axis{place}" for place in range((level != 0) + len(key))}
    assert set().union(*shown) == wanted
    columns = ([level] if level else []) + key
    codes = [[row[f"axis{place}"] for place in range(len(columns))] for row in shown]
    assert sorted(codes) == sorted([str(row[column]) for column in columns] for row in public.to_dicts())


def test_a_chart_of_a_table_by_itself_says_that_it_was_not_audited(census):
    with pytest.warns(ilba.Notice, match="masked by iLBA and was not audited"):
        census.table("LA2").chart()
    with pytest.warns(ilba.Notice, match="masked by iLBA and was not audited"):
        census.table("LA2").map(ilba.datasets.census_geometry("LA2"))


def test_codes_are_in_their_order_and_shown_by_their_labels(census):
    spec = census.table(0, ["age"]).chart(labels=CODES).to_dict()
    names = CODES.filter((pl.col("variable") == "age") & pl.col("code").is_not_null())["label_en"].to_list()
    assert spec["encoding"]["y"]["sort"] == names  # 1, 2, ..., 18, not 1, 10, 11
    assert spec["encoding"]["y"]["title"] == "Age group"
    korean = census.table(0, ["gender"]).chart(labels=CODES, lang="ko").to_dict()
    assert "남자" in json.dumps(korean, ensure_ascii=False)
    assert "K=5" in korean["title"]["subtitle"][0]


def test_the_chart_of_a_release_is_the_chart_of_the_table(census, tmp_path):
    release = census.release(tmp_path / "r", tables=["LA2.gender"], labels=CODES, **ILBA)
    ours = charts.bars(release.table("LA2.gender"), release.design, labels=release.codes)
    assert values_of(ours) == values_of(census.table("LA2", ["gender"]).chart(labels=CODES))


@pytest.mark.parametrize("level", ["LA2", "OA"])
def test_a_map_shows_every_area_and_zero_where_there_is_no_row(census, level):
    table = census.table(level)
    chart = table.map(ilba.datasets.census_geometry(level), labels=CODES)
    shown = {row["code"]: row["N_masked"] for row in values_of(chart)}
    public = {row[-2]: row[-1] for row in table.public().iter_rows()}
    assert len(shown) == {"LA2": 5, "OA": 2506}[level]
    assert shown == {code: public.get(code, 0) for code in shown}
    assert {row["name"] for row in values_of(chart)} >= {"LA2": {"Central district"}, "OA": set()}[level]


def test_a_map_has_the_proportions_of_the_land(census):
    chart = census.table("LA1").map(ilba.datasets.census_geometry("LA1"))
    [city] = values_of(chart)
    corners = city["geometry"]["coordinates"][0]
    wide, high = (max(axis) - min(axis) for axis in zip(*corners, strict=True))
    assert 0.9 < wide / high < 1.1  # the city is round; in degrees it is a quarter wider than high


def test_a_map_is_read_from_a_file_and_finds_codes_in_properties(census, tmp_path):
    shapes = ilba.datasets.census_geometry("LA2")
    for feature in shapes["features"]:
        del feature["id"]
    file = tmp_path / "districts.geojson"
    file.write_text(json.dumps(shapes), encoding="utf-8")
    assert len(values_of(census.table("LA2").map(file))) == 5


def test_a_map_finds_codes_in_the_property_of_the_area_column_as_a_release_does(census, tmp_path):
    shapes = ilba.datasets.census_geometry("LA2")
    codes = [feature.pop("id") for feature in shapes["features"]]
    for feature, code in zip(shapes["features"], codes, strict=True):
        feature["properties"] = {"LA2": code, "area": 1}
    table = census.table("LA2")
    for chart in (table.map(shapes), charts.areas(table.public().select("LA2", "N_masked"), shapes)):
        assert sorted(shape["code"] for shape in values_of(chart)) == sorted(codes)
    shapes["features"][0]["properties"] = {"area": 1}
    with pytest.raises(ilba.InputError, match=r"no `id`, and no property 'code' or 'LA2'\. Its properties: area\."):
        table.map(shapes)


def test_metres_are_not_stretched():
    square = {"type": "Polygon", "coordinates": [[[1e6, 2e6], [1e6 + 9, 2e6], [1e6 + 9, 2e6 + 9], [1e6, 2e6]]]}
    collection = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "a", "geometry": square}]}
    chart = charts.areas(pl.DataFrame({"town": ["a"], "N_masked": [7]}), collection)
    assert values_of(chart)[0]["geometry"] == square


def test_the_loss_chart_holds_the_distribution_and_says_confidential(census):
    table = census.table("LA3", ["gender", "age"])
    chart = charts.loss(table)
    shown = {row["loss"]: row["n"] for row in values_of(chart) if row["n"]}
    counted = table.detail.group_by("loss").len()
    assert shown == dict(counted.iter_rows())
    assert sum(row["share"] for row in values_of(chart)) == pytest.approx(1)
    assert "CONFIDENTIAL" in chart.to_dict()["title"]["subtitle"][0]


def test_the_risk_chart_has_a_labelled_point_per_method():
    frame = pl.DataFrame({"method": ["SCA", "iLBA"], "mean_loss": [7.5, 1.5], "provable": [0.0, 0.62]})
    chart = charts.risk(frame)
    assert pl.DataFrame(values_of(chart)).select(frame.columns).equals(frame)
    drawn = ET.fromstring(charts.svg(chart))
    words = {element.text for element in drawn.iter("{http://www.w3.org/2000/svg}text")}
    assert {"SCA", "iLBA"} <= words
    with pytest.raises(ilba.InputError, match="provable"):
        charts.risk(frame.drop("provable"))
    with pytest.raises(ilba.InputError, match=r"share: give 0\.25 for 25%"):
        charts.risk(frame.with_columns(provable=pl.Series([0.0, 62.0])))


def test_the_risk_chart_draws_what_if_as_it_is(census, secret):
    wanted = {"attackers": "proof", "secret": secret, "levels": [3], "max_keys": 2}
    rows = what_if(census, ["r-file", "sca-sums"], [5, 3], **wanted)
    assert rows["provable"].max() > 0.01
    drawn = pl.DataFrame(values_of(charts.risk(rows)))
    assert drawn["method"].to_list() == ["r-file K=5", "sca-sums K=5", "r-file K=3", "sca-sums K=3"]
    assert drawn["provable"].to_list() == rows["provable"].to_list()


def test_the_words_of_near_points_stand_above_each_other():
    names = ["as R", "masked", "masked, K=3", "far away"]
    frame = pl.DataFrame({"method": names, "mean_loss": [1.0, 1.0, 1.01, 3.0], "provable": [0.2, 0.2, 0.21, 0.2]})
    drawn = ET.fromstring(charts.svg(charts.risk(frame)))
    places = {
        element.text: float(re.search(r"translate\([\d.]+,([\d.]+)\)", element.get("transform"))[1])
        for element in drawn.iter("{http://www.w3.org/2000/svg}text")
        if element.text in names
    }
    assert places["as R"] - places["masked"] >= 13
    assert places["masked"] - places["masked, K=3"] >= 13
    assert places["far away"] == places["as R"]


class Loads(HTMLParser):
    """What a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.found += [given[name] for name in ("src", "srcset", "data", "poster") if given.get(name)]
        if tag in ("link", "base"):
            self.found.append(given.get("href") or "")


def test_charts_are_saved_as_html_svg_and_png_that_need_nothing_else(census, tmp_path):
    chart = census.table("LA2", ["gender"]).chart(labels=CODES, lang="ko")
    page = charts.save(chart, tmp_path / "c.html").read_text("utf-8")
    loads = Loads()
    loads.feed(page)
    assert loads.found == []
    assert not re.search(r"\bimport\s*\(\s*['\"]https?:|@import|importScripts", page)
    assert "남자" in page or "\\ub0a8" in page
    drawn = charts.save(chart, tmp_path / "c.svg").read_text("utf-8")
    assert ET.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert "중구" in drawn
    assert not re.search(r"(href|src)=\"https?:", drawn)
    assert charts.save(chart, tmp_path / "c.png").read_bytes().startswith(b"\x89PNG\r\n")
    charts.save(chart, tmp_path / "c.png")  # again, in its place


def test_charts_are_made_where_there_is_no_network(tmp_path):
    script = (
        "import socket, sys\n"
        "def no(*_, **__): raise OSError('no network here')\n"
        "socket.socket.connect = socket.create_connection = socket.getaddrinfo = no\n"
        "import polars as pl\n"
        "from ilba import charts\n"
        "chart = charts.bars(pl.DataFrame({'town': ['a', 'b'], 'N_masked': [7, 9]}))\n"
        "for ending in ('html', 'svg', 'png'): charts.save(chart, f'{sys.argv[1]}/c.{ending}')\n"
    )
    nowhere = {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9", "PATH": "/usr/bin"}
    nowhere["PYTHONPATH"] = ":".join(sys.path)
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True, env=nowhere)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_confidential_chart_is_for_its_owner_alone_and_a_public_one_for_anybody(census, tmp_path):
    table = census.table("LA2")
    for name in ("c.svg", "c.html", "c.png"):
        assert stat.S_IMODE(charts.save(charts.loss(table), tmp_path / name).stat().st_mode) == 0o600
        assert stat.S_IMODE(charts.save(table.chart(), tmp_path / f"p{name}").stat().st_mode) == 0o644
    unknown = altair.Chart(table.detail.select("LA2", "N")).mark_bar().encode(x="LA2", y="N")
    assert stat.S_IMODE(charts.save(unknown, tmp_path / "own.svg").stat().st_mode) == 0o600


def test_what_cannot_be_drawn_is_refused_with_what_to_do(census, tmp_path):
    shapes = ilba.datasets.census_geometry("LA2")
    public = census.table("LA2").public()
    for draw, says in [
        (lambda: census.table("OA").chart(), "Use a coarser level, or a map"),
        (lambda: census.table(0, ["gender", "age", "edu", "mar"]).chart(), "up to three variables"),
        (lambda: census.table("LA3", ["age", "htype"]).chart(), "too many for panels"),
        (lambda: census.table("LA2").chart(lang="xx"), "en, ko"),
        (lambda: census.table("LA2").chart(titel="x"), "Did you mean 'title'"),
        (lambda: census.table("LA3").map(shapes), "no shape for 78 areas"),
        (lambda: census.table("LA2", ["gender"]).map(shapes), "a map shows one variable"),
        (lambda: census.table("LA2").map({"type": "Point"}), "FeatureCollection"),
        (lambda: census.table("LA2").map(tmp_path / "none.json"), "cannot be read"),
        (lambda: charts.bars(census.table("LA2").frame), "confidential"),
        (lambda: charts.bars(census.table("LA2").detail), "confidential"),
        (lambda: charts.areas(census.table("LA2").detail, shapes), "confidential"),
        (lambda: charts.bars(public.drop("N_masked")), "N_masked"),
        (lambda: charts.bars(public.rename({"LA2": "LX"}), census.design), "LX"),
        (lambda: charts.save(census.table("LA2").chart(), tmp_path / "c.pdf"), r"\.svg"),
    ]:
        with pytest.raises(ilba.InputError, match=says):
            draw()
    assert list(tmp_path.iterdir()) == []


def test_without_the_charting_library_the_extra_is_named():
    script = (
        "import sys\n"
        "sys.modules['altair'] = None\n"
        "import polars as pl, ilba\n"
        "from ilba import charts\n"
        "try: charts.bars(pl.DataFrame({'N_masked': [7]}))\n"
        "except ilba.MissingExtra as problem: print(problem)\n"
    )
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    assert "pip install 'ilba[charts]'" in said


def test_importing_ilba_does_not_load_the_charting_library():
    script = (
        "import sys, ilba, ilba.cli; print([m for m in ('altair', 'vl_convert', 'xlsxwriter') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


class Cells(HTMLParser):
    """The texts of the cells of a table, row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False

    def handle_starttag(self, tag, attrs):
        if tag == "tr":
            self.rows.append([])
        self._inside = tag in ("td", "th")
        if self._inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        self._inside = False

    def handle_data(self, data):
        if self._inside:
            self.rows[-1][-1] += data


def test_a_notebook_shows_the_head_of_a_table_and_that_it_is_confidential(finest):
    table = finest.table("town", ["sex", "job"])
    page = table._repr_html_()
    assert "confidential" in page
    assert "K=5" in page
    assert f"{len(table)} rows" in page
    read = Cells()
    read.feed(page)
    assert read.rows[0] == table.frame.columns
    expected = [[f"{v:,}" if c == "N_masked" else str(v) for c, v in row.items()] for row in table.frame.to_dicts()]
    assert read.rows[1:] == expected[:20]
    assert ("more rows" in page) == (len(table) > 20)


def test_a_label_cannot_write_into_the_notebook(secret):
    people = pl.DataFrame({"town": ["<script>alert(1)</script>"] * 9})
    page = ilba.build(people, ["town"], secret=secret).table(1)._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_a_terminal_shows_what_the_table_is(finest):
    text = repr(finest.table("town", ["sex"]))
    assert text.startswith("region x town x sex (K=5, confidential)\n")
