"""The page in a real browser, served by `ilba serve`: what a reader picks, sees, takes along and is told."""

from __future__ import annotations

import io
import json
import re
import shutil
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, urlsplit

import httpx
import polars as pl
import pytest

import ilba
from ilba import Secret
from ilba.service.asked import folded
from support.people import HKEY, ILBA, KEY, population
from support.serving import serving

pytestmark = pytest.mark.slow

AREAS = ["LA1", "LA2", "LA3", "OA"]
MARKUP = "<b onclick=alert(1)>Married & co</b>"
VIEWS = ("map", "chart", "table")


@pytest.fixture(scope="module")
def census(tmp_path_factory):
    codes = ilba.datasets.census_codes().with_columns(
        pl.when((pl.col("variable") == "mar") & (pl.col("code") == "2"))
        .then(pl.lit(MARKUP))
        .otherwise(pl.col("label_en"))
        .alias("label_en")
    )
    finest = ilba.build(ilba.datasets.census(20_000), AREAS, ["gender", "age", "mar"], secret=Secret(bytes(range(32))))
    return finest.release(
        tmp_path_factory.mktemp("page") / "census",
        max_keys=2,
        title="Census of Hanul City",
        source="Synthetic census",
        labels=codes,
        geometry={column: ilba.datasets.census_geometry(column) for column in AREAS},
        **ILBA,
    )


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """A release whose tables add up, with no map and codes that hold commas; and one on a grid."""
    home, secret = tmp_path_factory.mktemp("others"), Secret(bytes(range(32)))
    finest = ilba.build(population(), HKEY, KEY, secret=secret)
    towns = finest.release(home / "towns", method="controlled", title="Towns", max_keys=2)
    rows = [(f"1kmN{n // 10}E{e // 10}", f"100mN{n}E{e}") for n in range(4700, 4720) for e in range(1490, 1505)]
    cells = pl.DataFrame(rows * 8, schema=["g1km", "g100m"], orient="row").with_columns(kind=pl.lit("home"))
    grid = ilba.build(cells, ["g1km", "g100m"], ["kind"], secret=secret).release(home / "grid", title="Grid", **ILBA)
    return towns, grid


@pytest.fixture(scope="module")
def server(census, others):
    with serving(*(release.path for release in (census, *others)), options=("--no-access-log",)) as running:
        yield running.address.rstrip("/")


@dataclass
class Visitor:
    """Somebody with a browser. What must never happen is noted on the way and held against us at the end."""

    browser: object
    server: str

    def __post_init__(self):
        self.contexts, self.wrong, self.asked, self.forgiven = [], [], [], []

    def visit(self, hash="", *, wait=True, **settings):
        settings = {"viewport": {"width": 1280, "height": 900}, "locale": "en-GB", **settings}
        context = self.browser.new_context(**settings)
        context.set_default_timeout(15_000)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and self.wrong.append(said.text))
        page.on("pageerror", lambda problem: self.wrong.append(str(problem)))
        page.on("request", self._note)
        self.go(page, hash, wait=wait)
        return page

    def go(self, page, hash, *, wait=True):
        page.goto("about:blank")
        page.goto(f"{self.server}/{hash}")
        if wait:
            settled(page)

    def _note(self, request):
        self.asked.append(request.url)
        if not request.url.startswith((self.server, "blob:", "about:")):
            self.wrong.append(f"asked another host: {request.url}")

    def close(self):
        for context in self.contexts:
            context.close()
        assert [said for said in self.wrong if not any(word in said for word in self.forgiven)] == []


@pytest.fixture
def visitor(browser, server):
    visitor = Visitor(browser, server)
    yield visitor
    visitor.close()


def settled(page):
    page.wait_for_selector("#panel[aria-busy=false]")


def link(**state) -> str:
    """The part of an address that describes a view, as a reader may have been sent it."""
    return "#" + "&".join(f"{name.replace('_', '.', 1)}={quote(value)}" for name, value in state.items())


def title(page) -> str:
    return page.locator("h1").inner_text()


def cells(page):
    """The rows of the table as text."""
    script = "rows => rows.map(row => [...row.cells].map(cell => cell.firstChild.textContent))"
    return page.locator("#panel tbody tr").evaluate_all(script)


def number(text: str) -> int:
    return int(text.replace(",", ""))


def labels(release, variable: str, lang: str = "en") -> dict[str, str]:
    known = release.codes.filter(pl.col("variable") == variable).drop_nulls("code")
    return dict(known.select("code", f"label_{lang}").iter_rows())


def drawing(page) -> str:
    """The picture of the map."""
    return page.locator("#map canvas").first.evaluate("canvas => canvas.toDataURL()")


def colours(page) -> int:
    """How many colours the map has: more than a few when areas were drawn."""
    return page.locator("#map canvas").first.evaluate(
        """canvas => {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            const found = new Map();
            for (let i = 0; i < data.length; i += 4) {
                if (data[i + 3] < 255) continue;
                const colour = (data[i] << 16) + (data[i + 1] << 8) + data[i + 2];
                found.set(colour, (found.get(colour) ?? 0) + 1);
            }
            return [...found.values()].filter(pixels => pixels > 200).length;
        }"""
    )


def test_the_first_view_is_a_map_of_the_areas_and_needs_few_questions(visitor, census):
    page = visitor.visit()
    assert page.title() == "Count by Town – Census of Hanul City"
    assert page.locator("#tab-map").get_attribute("aria-selected") == "true"
    assert colours(page) >= 5
    asked = [urlsplit(url).path for url in visitor.asked if "/api/" in url]
    assert len(asked) <= 8, asked
    counts = census.table("LA3")["N_masked"]
    assert f"{counts.max():,}" in page.locator("#summary").inner_text()
    assert f"{counts.min():,}" in page.locator("#summary").inner_text()


def test_levels_and_variables_are_chosen_in_words_and_the_table_shows_the_released_numbers(visitor, census):
    page = visitor.visit()
    page.get_by_role("radio", name="District").check()
    page.get_by_role("checkbox", name="Sex").check()
    page.get_by_role("tab", name="Table").click()
    page.wait_for_selector("#panel table")
    assert title(page) == "Count by District and Sex"
    assert page.locator("caption").inner_text() == title(page)
    assert page.locator("thead th[scope=col]").count() == 3
    assert page.locator("tbody th[scope=row]").count() == 10
    district, sex = labels(census, "LA2"), labels(census, "gender")
    released = census.table("LA2.gender").select("LA2", "gender", "N_masked").rows()
    assert cells(page) == [[district[a], sex[str(b)], f"{n:,}"] for a, b, n in released]
    page.get_by_label("Last variable across").check()
    page.wait_for_selector("th[scope=colgroup]")
    assert cells(page)[0] == [district["0101"], *(f"{n:,}" for _, _, n in released[:2])]


def test_the_table_sorts_searches_and_pages(visitor, census):
    page = visitor.visit(link(level_area="LA3", by="gender,age", view="table"))
    every = 78 * 2 * 18
    assert page.locator("#summary").inner_text() == f"{every:,} rows."
    assert len(cells(page)) == 50
    first = cells(page)[0]
    page.get_by_role("button", name="Next").click()
    assert cells(page)[0] != first
    page.get_by_role("button", name="Count", exact=False).last.click()
    largest = census.table("LA3.gender.age")["N_masked"].max()
    assert number(cells(page)[0][-1]) == largest
    assert page.locator("th[aria-sort=descending]").count() == 1
    town = labels(census, "LA3")["010101"]
    page.get_by_label("Search in the table").fill(f"{town.lower()} female")
    assert page.locator("#summary").inner_text() == f"18 of {every:,} rows."
    assert {row[0] for row in cells(page)} == {town}
    page.get_by_label("Search in the table").fill("nowhere at all")
    assert "Nothing fits" in page.locator("#panel").inner_text()
    assert "q=nowhere" in page.url


def test_case_and_accents_do_not_matter_to_a_search(visitor, census):
    page = visitor.visit(link(level_area="LA3", by="gender,age", view="table"))
    town = labels(census, "LA3")["010101"]
    page.get_by_label("Search in the table").fill(f"{town.upper()} fémàle")
    assert page.locator("#summary").inner_text() == f"18 of {78 * 2 * 18:,} rows."
    page.locator("#filter-LA3 summary").click()
    page.get_by_label("Find in Town").fill("".join(f"{letter}\u0301" for letter in town))
    assert page.locator("#checks-LA3").get_by_label(town).count() == 1
    words = [
        "Łódź",
        "ÅRHUS",
        "Straße",
        "ΟΔΟΣ οδός",
        "İstanbul",
        "한국 각",
        "Ёлка",
        "مُحَمَّد",
        "Việt Nam",
        "ﬁn",
        "Tromsø",
        "が",
    ]
    script = "async (words) => words.map((await import('/static/search.js')).folded)"
    assert page.evaluate(script, words) == [folded(word) for word in words], "the page searches as the API does"


def test_values_of_a_long_list_are_found_and_chosen(visitor, census):
    page = visitor.visit(link(level_area="LA3", by="age", view="table"))
    page.locator("#filter-LA3 summary").click()
    town = labels(census, "LA3")["010203"]
    page.get_by_label("Find in Town").fill(town)
    page.locator("#checks-LA3").get_by_label(town).check()
    page.wait_for_selector("#clear-LA3")
    assert {row[0] for row in cells(page)} == {town}
    assert page.locator("#find-LA3").input_value() == town
    assert "1 of 78" in page.locator("#filter-LA3 summary").inner_text()
    page.get_by_role("button", name="Show all values").click()
    page.wait_for_selector("#clear-LA3", state="detached")
    assert len(cells(page)) == 50


def test_only_what_is_published_can_be_chosen_and_a_link_to_something_else_says_so(visitor):
    page = visitor.visit(link(level_area="LA2", by="gender,age", view="table"))
    assert page.get_by_role("checkbox", name="Marital status").is_disabled()
    assert "not published together" in page.locator("#not-published").inner_text()
    page.get_by_role("checkbox", name="Sex").uncheck()
    settled(page)
    assert page.get_by_role("checkbox", name="Marital status").is_enabled()
    visitor.go(page, link(level_area="LA2", by="gender,age,mar"))
    assert "This combination is not published" in page.locator("#panel").inner_text()
    page.get_by_role("button", name="Show a published table").click()
    page.wait_for_selector("#map")


def test_the_chart_draws_the_released_numbers_side_by_side(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", view="chart"))
    drawn = page.locator(".bars li").evaluate_all(
        """rows => rows.map(row => [row.querySelector('.bar-label').textContent,
             ...[...row.querySelectorAll('.bar-number')].map(one => one.textContent),
             ...[...row.querySelectorAll('.bar')].map(one => one.getBoundingClientRect().width)])"""
    )
    released = census.table("LA2.gender")
    most, widest = released["N_masked"].max(), max(max(row[3:]) for row in drawn)
    for code, (name, men, women, *widths) in zip(labels(census, "LA2"), drawn, strict=True):
        numbers = released.filter(pl.col("LA2") == code)["N_masked"].to_list()
        assert [name, men, women] == [labels(census, "LA2")[code], *(f"{n:,}" for n in numbers)]
        assert widths == pytest.approx([widest * n / most for n in numbers], abs=1)
    # Where tables do not add up, stacking would show a sum that was never published.
    assert page.get_by_role("button", name="Stacked").count() == 0
    page.get_by_label("Order").select_option("largest")
    settled(page)
    totals = [
        max(number(a), number(b))
        for a, b in page.locator(".bars li").evaluate_all(
            "rows => rows.map(row => [...row.querySelectorAll('.bar-number')].map(one => one.textContent))"
        )
    ]
    assert totals == sorted(totals, reverse=True)


def test_a_table_without_variables_is_one_number_in_every_view(visitor, census):
    total = f"{census.table('all')['N_masked'].item():,}"
    page = visitor.visit(link(level_area="", by="", view="table"))
    assert title(page) == "Total count"
    assert cells(page) == [[total]]
    page.get_by_role("tab", name="Chart").click()
    page.wait_for_selector(".single")
    assert page.locator(".single").inner_text() == total
    page.get_by_role("tab", name="Map").click()
    page.get_by_text("A map needs areas").wait_for()


def test_tables_that_add_up_can_be_stacked_and_are_explained_so(visitor, others):
    towns, _ = others
    page = visitor.visit(link(release="towns", level_area="region", by="sex", view="chart"))
    page.get_by_role("button", name="Stacked").click()
    page.wait_for_selector(".bars.stacked")
    totals = [number(text) for text in page.locator(".bars .bar-number").all_inner_texts()]
    assert totals == towns.table("region")["N_masked"].to_list()
    assert "Totals add up." in page.locator("#note").inner_text()
    page.get_by_role("button", name="Why?").click()
    assert "gives the published total" in page.locator("#explain").inner_text()


def test_the_map_is_entered_area_by_area_down_to_the_finest_and_left_again(visitor, census):
    page = visitor.visit(link(level_area="LA1", by="gender", view="map"))
    centre = {"position": {"x": 300, "y": 260}}
    for level, name in (("LA2", "District"), ("LA3", "Town"), ("OA", "Output area")):
        page.locator("#map").click(**centre)
        page.locator("h1", has_text=name).wait_for()
        settled(page)
        inside = re.search(r"in\.area=(\w+)%3A(\d+)", page.url)
        known = census.codes.filter((pl.col("variable") == level) & (pl.col("parent") == inside[2]))
        assert page.locator("#summary").inner_text().startswith(f"{name}: {known.height} shown.")
        assert colours(page) >= 1
    assert page.locator("#crumbs li").count() == 4
    assert "This is the finest level" in page.locator("#panel").inner_text()
    district = page.locator("#crumbs li").nth(2).inner_text()
    page.locator("#crumbs").get_by_role("button", name=district).click()
    page.locator("h1", has_text="Town").wait_for()
    settled(page)
    assert page.locator("#crumbs [aria-current]").inner_text() == district
    page.go_back()
    page.locator("h1", has_text="Output area").wait_for()
    page.get_by_role("button", name="Everywhere").click()
    page.locator("h1", has_text="City").wait_for()
    settled(page)
    assert page.locator("#crumbs").is_hidden()


def eventually(true, seconds: float = 5) -> bool:
    """Whether something comes true; drawings follow the frames of the screen."""
    for _ in range(int(20 * seconds)):
        if true():
            return True
        time.sleep(0.05)
    return False


def test_all_2506_areas_are_drawn_and_counted_in_the_legend(visitor, census):
    page = visitor.visit(link(level_area="OA", by="", view="map"))
    sizes = [number(text) for text in page.locator(".legend .size").all_inner_texts()]
    published = census.codes.filter(pl.col("variable") == "OA").drop_nulls("code").height
    assert sum(sizes) == published == 2506
    before = drawing(page)
    page.get_by_role("button", name="Zoom in").click()
    assert eventually(lambda: drawing(page) != before)
    page.get_by_role("button", name="Show everything").click()
    assert eventually(lambda: drawing(page) == before)


def test_a_share_is_the_count_in_the_published_total_of_the_area(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", view="map"))
    page.locator("#pick-gender").select_option("2")
    page.get_by_role("button", name="Share").click()
    page.wait_for_selector("#choose-share[aria-pressed=true]")
    settled(page)
    page.locator("#map").hover(position={"x": 300, "y": 260})
    name, said = page.locator(".tooltip strong").inner_text(), page.locator(".tooltip span").inner_text()
    code = {label: code for code, label in labels(census, "LA2").items()}[name]
    women = census.table("LA2.gender").filter((pl.col("LA2") == code) & (pl.col("gender") == 2))["N_masked"].item()
    everybody = census.table("LA2").filter(pl.col("LA2") == code)["N_masked"].item()
    assert said == f"{100 * women / everybody:.1f}% ({women:,} of {everybody:,})"
    page.locator("#pick-gender").select_option("")
    page.wait_for_selector("#choose-count[aria-pressed=true]")
    assert page.locator("#choose-share").is_disabled()


def test_areas_without_a_map_are_tiles_and_grid_codes_are_squares(visitor):
    page = visitor.visit(link(release="towns", level_area="town", by=""))
    assert "has no map. Each tile is an area" in page.locator("#panel").inner_text()
    assert colours(page) >= 3
    visitor.go(page, link(release="grid", level_area="g100m", by=""))
    assert "placed by its code" in page.locator("#panel").inner_text()
    # 20 rows of 15 cells: the drawing is taller than wide by 4 to 3, or nearly, with its lines.
    wide, high = page.locator("#map canvas").first.evaluate(
        """canvas => {
            const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
            let [left, top, right, bottom] = [1e9, 1e9, 0, 0];
            for (let y = 0; y < canvas.height; y += 1) for (let x = 0; x < canvas.width; x += 1)
                if (data[4 * (y * canvas.width + x) + 3] > 128) {
                    left = Math.min(left, x); right = Math.max(right, x);
                    top = Math.min(top, y); bottom = Math.max(bottom, y);
                }
            return [right - left, bottom - top];
        }"""
    )
    assert high / wide == pytest.approx(20 / 15, rel=0.02)


def test_the_language_is_switched_with_everything_in_it(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", view="table"))
    page.get_by_role("button", name="한국어").click()
    page.wait_for_selector("html[lang=ko]")
    page.locator("h1", has_text="빈도").wait_for()
    settled(page)
    assert title(page) == "구, 성별에 따른 빈도"
    assert cells(page)[0][:2] == [labels(census, "LA2", "ko")["0101"], labels(census, "gender", "ko")["1"]]
    assert page.get_by_role("tab").all_inner_texts() == ["지도", "그래프", "표"]
    words = "[data-word], #picker legend, #take h2, #take h3, #note"
    for text in page.locator(words).all_inner_texts():
        assert not text or re.search("[가-힣]", text), text
    assert page.locator("#get-csv").get_attribute("href").count("lang=ko") == 1


def test_both_languages_have_the_same_words(visitor):
    page = visitor.visit()
    known = page.evaluate(
        "() => Promise.all(['en', 'ko'].map(async one => (await import(`/static/words/${one}.js`)).default))"
    )
    assert known[0].keys() == known[1].keys()
    for name in known[0]:
        gaps = [sorted(re.findall(r"\{(\w+)\}", words[name])) for words in known]
        assert gaps[0] == gaps[1], name


def taken(page, format: str) -> tuple[bytes, str]:
    with page.expect_download() as download:
        page.locator(f"#get-{format}").click()
    return Path(download.value.path()).read_bytes(), download.value.suggested_filename


def opened(format: str, content: bytes, tmp_path: Path) -> list[int]:
    """The counts in a downloaded file, read by somebody else's program."""
    file = tmp_path / f"file.{format}"
    file.write_bytes(content)
    if format == "csv":
        return pl.read_csv(file)["N_masked"].to_list()
    if format == "parquet":
        return pl.read_parquet(file)["N_masked"].to_list()
    if format == "xlsx":
        import openpyxl

        book = openpyxl.load_workbook(file)
        rows = [row for row in book.worksheets[0].iter_rows(values_only=True) if isinstance(row[-1], int)]
        book.close()
        return [row[-1] for row in rows]
    if format == "px":
        from pyaxis import pyaxis

        return [int(n) for n in pyaxis.parse(str(file), encoding="utf-8")["DATA"]["DATA"]]
    from pyjstat import pyjstat

    return [int(n) for n in pyjstat.Dataset.read(content.decode()).write("dataframe")["value"]]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
def test_what_is_selected_is_downloaded_in_every_format(visitor, census, tmp_path):
    page = visitor.visit(link(level_area="LA3", by="age,gender", in_area="LA2:0104", only_gender="2", view="table"))
    frame = census.table("LA3.gender.age").filter((pl.col("LA2") == "0104") & (pl.col("gender") == 2))
    counts = sorted(frame["N_masked"].to_list())
    for format in ("csv", "xlsx", "parquet", "px", "json-stat2"):
        content, name = taken(page, format)
        found = opened(format, content, tmp_path)
        assert sorted(n for n in found if n) == counts, format
        assert name.startswith("census"), name


def test_codes_that_look_like_expressions_are_asked_for_and_downloaded_too(visitor, others):
    towns, _ = others
    code = 'the "other", job'
    page = visitor.visit(
        link(release="towns", level_area="region", by="job", only_job=quote(code, safe=""), view="table")
    )
    expected = towns.table("region.job").filter(pl.col("job") == code)["N_masked"].to_list()
    assert [number(row[-1]) for row in cells(page) if row[-1] != "0"] == expected
    content, _ = taken(page, "csv")
    found = pl.read_csv(io.BytesIO(content))
    assert found.filter(pl.col("N_masked") > 0)["N_masked"].to_list() == expected


def test_the_address_for_programs_gives_the_numbers_that_are_shown(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", in_area="LA1:01", view="table"))
    page.locator("#programs summary").click()
    address = page.locator("#api-text").input_value()
    answer = page.request.get(address)
    assert answer.json()["value"] == census.table("LA2.gender")["N_masked"].to_list()


def test_a_link_brings_somebody_else_to_the_same_view(visitor):
    page = visitor.visit(link(level_area="LA3", by="gender,age", view="map"))
    page.locator("#within-area").select_option(label="Western district")
    settled(page)
    page.locator("#pick-age").select_option(label="31-35")
    settled(page)
    page.get_by_role("button", name="Share").click()
    page.wait_for_selector("#choose-share[aria-pressed=true]")
    settled(page)
    shared = page.locator("#link-text").input_value()
    assert shared == page.url
    other = visitor.visit(shared[len(visitor.server) + 1 :])
    for place in ("h1", "#summary", "#crumbs", ".legend", "#picker"):
        assert other.locator(place).inner_text() == page.locator(place).inner_text(), place
    assert other.locator("#pick-age").input_value() == page.locator("#pick-age").input_value()
    assert drawing(other) == drawing(page)


def test_a_copied_link_is_the_address(visitor):
    page = visitor.visit(permissions=["clipboard-read", "clipboard-write"])
    page.locator("#copy-link").click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == page.url


def test_everything_can_be_done_by_keyboard(visitor):
    page = visitor.visit(link(level_area="LA2", by="gender"))
    press, focused = page.keyboard.press, lambda: page.evaluate("document.activeElement.id")
    press("Tab")
    assert focused() == "skip"
    press("Enter")
    assert focused() == "content"
    press("Tab")
    assert focused() == "tab-map"
    press("ArrowRight")
    page.wait_for_selector(".bars")
    assert focused() == "tab-chart"
    press("End")
    page.wait_for_selector("#panel table")
    press("Home")
    page.wait_for_selector("#map")
    settled(page)
    walked = []
    while focused() != "map" and len(walked) < 10:
        press("Tab")
        walked.append(focused())
    assert walked == ["pick-gender", "choose-count", "choose-share", "map"]
    press("ArrowRight")
    first = page.locator("#map-spoken").inner_text()
    press("ArrowDown")
    assert re.fullmatch(r"[\w ]+: [\d,]+", page.locator("#map-spoken").inner_text())
    assert page.locator("#map-spoken").inner_text() != first
    press("Enter")
    page.locator("h1", has_text="Town").wait_for()
    settled(page)
    assert focused() == "map"
    press("Escape")
    page.locator("h1", has_text="District").wait_for()
    settled(page)
    page.locator("#open-explain").focus()
    press("Enter")
    assert page.locator("#explain").is_visible()
    press("Escape")
    assert focused() == "open-explain"
    page.locator("#key-age").focus()
    press("Space")
    page.locator("h1", has_text="Age").wait_for()
    settled(page)
    assert focused() == "key-age"


def ground(page) -> int:
    """How light the page is, from 0 to 255."""
    return max(
        map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.documentElement).backgroundColor")))
    )


def test_the_dark_theme_follows_the_system_and_a_choice_is_kept(visitor):
    page = visitor.visit(color_scheme="dark")
    assert ground(page) < 60
    assert page.locator("#theme").get_attribute("aria-pressed") == "true"
    before = drawing(page)
    page.locator("#theme").click()
    assert ground(page) > 200
    assert drawing(page) != before
    page.reload()
    settled(page)
    assert ground(page) > 200
    light = visitor.visit(color_scheme="light")
    assert ground(light) > 200


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_phone_needs_no_sideways_scrolling(visitor, lang):
    page = visitor.visit(viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True)
    assert page.locator("#picker").is_hidden()
    for view in VIEWS:
        visitor.go(page, link(lang=lang, level_area="LA3", by="gender,age", in_area="LA2:0103", view=view, across="1"))
        page.locator("#picker-toggle").click()
        assert page.locator("#picker").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 375, view
        small = page.locator("button:visible, select:visible, a.file").evaluate_all(
            "all => all.filter(one => one.getBoundingClientRect().height < 24).map(one => one.id)"
        )
        assert small == []


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 320])
def test_on_a_phone_the_counts_of_a_table_are_in_sight(visitor, scheme, lang, width):
    phone = {"viewport": {"width": width, "height": 844}, "has_touch": True, "is_mobile": True, "color_scheme": scheme}
    page = visitor.visit(link(lang=lang, level_area="LA3", by="gender,age", view="table"), **phone)
    assert inside(page, "#panel tr > :last-child") == (51, 51)
    wide = page.locator("#scroll").evaluate("one => one.scrollWidth - one.clientWidth")
    assert wide == 0 or width < 390
    # Across there is more than fits: the areas stay while the numbers are moved.
    visitor.go(page, link(lang=lang, level_area="LA3", by="gender,age", view="table", across="1"))
    page.locator("#scroll").evaluate("one => { one.scrollLeft = 500; }")
    assert inside(page, "#panel tbody tr > :first-child") == (50, 50)
    grounds = page.locator("#panel tbody tr > :first-child").evaluate_all(
        "all => [...new Set(all.map(one => getComputedStyle(one).backgroundColor))]"
    )
    assert "rgba(0, 0, 0, 0)" not in grounds, "what slides below does not shine through"


def inside(page, cells: str) -> tuple[int, int]:
    """How many of some cells are between the left and the right edge of the table's frame, and how many there are."""
    return tuple(
        page.locator(cells).evaluate_all(
            """all => {
                const frame = document.getElementById('scroll').getBoundingClientRect();
                const sides = all.map(one => one.getBoundingClientRect());
                return [sides.filter(one => one.left >= frame.left && one.right <= frame.right).length, all.length];
            }"""
        )
    )


def test_the_legend_says_that_a_zero_may_be_masked(visitor):
    page = visitor.visit(link(level_area="OA", by="gender,age", view="map"))
    assert page.locator(".legend li").first.inner_text().startswith("0, or masked to 0")
    page.locator("#choose-share").click()
    page.wait_for_selector("#choose-share[aria-pressed=true]")
    settled(page)
    assert page.locator(".legend li").first.inner_text().startswith("0.0%, or masked to 0")
    visitor.go(page, link(lang="ko", level_area="OA", by="gender,age", view="map"))
    assert page.locator(".legend li").first.inner_text().startswith("0 또는 0으로 조정")


class Elsewhere(BaseHTTPRequestHandler):
    """A page of another origin, with nothing on it."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><link rel=icon href=data:,>")

    def log_message(self, *given):
        pass


def test_a_page_of_another_origin_may_ask_with_a_body(browser, server, census):
    with ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        page = browser.new_page()
        page.goto(f"http://127.0.0.1:{other.server_port}/")
        told = page.evaluate(
            """async address => {
                const body = JSON.stringify({ selection: [{ variableCode: 'gender', valueCodes: ['*'] }] });
                const headers = { 'Content-Type': 'application/json' };
                const answer = await fetch(address, { method: 'POST', headers, body });
                return [answer.status, (await answer.json()).value, answer.headers.get('etag')];
            }""",
            f"{server}/api/v2/tables/census:all.gender/data",
        )
        page.close()
        other.shutdown()
    assert told[:2] == [200, census.table("all.gender")["N_masked"].to_list()]
    assert told[2]


def test_a_tap_shows_an_area_and_a_second_one_opens_it(visitor):
    page = visitor.visit(
        link(level_area="LA2", by=""), viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True
    )
    page.locator("#map").tap(position={"x": 140, "y": 200})
    assert page.locator(".tooltip").is_visible()
    assert title(page) == "Count by District"
    page.locator("#map").tap(position={"x": 140, "y": 200})
    page.locator("h1", has_text="Town").wait_for()


def test_labels_are_text_and_never_markup(visitor):
    page = visitor.visit(link(level_area="LA2", by="mar", view="table"))
    assert MARKUP in {row[1] for row in cells(page)}
    for view in VIEWS:
        visitor.go(page, link(level_area="LA2", by="mar", view=view))
        page.locator("#filter-mar summary").click()
        assert page.get_by_text(MARKUP).count() >= 1
        assert page.locator("b").count() == 0


def test_the_explanation_says_what_K_means_and_that_totals_may_not_add_up(visitor):
    page = visitor.visit()
    page.get_by_role("button", name="About these numbers").click()
    said = page.locator("#explain").inner_text()
    assert "K is 5: every number is 0 or at least 5" in said
    assert "Do not add numbers up" in said
    assert "at most 7" in said
    page.get_by_role("button", name="Close").click()
    assert page.locator("#explain").is_hidden()


def test_a_server_that_cannot_be_reached_is_said_and_tried_again(visitor):
    visitor.forgiven.append("ERR_INTERNET_DISCONNECTED")
    page = visitor.visit()
    page.context.set_offline(True)
    page.get_by_role("checkbox", name="Sex").check()
    page.wait_for_selector(".problem")
    assert "cannot be reached" in page.locator(".problem").inner_text()
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#map")
    assert title(page) == "Count by Town and Sex"


def test_a_problem_of_the_server_is_told_in_its_words(visitor, browser, census, tmp_path):
    broken = ilba.Release(shutil.copytree(census.path, tmp_path / "broken"))
    with serving(broken.path) as running:
        address = running.address.rstrip("/")
        (broken.path / "tables" / "LA2.gender.parquet").unlink()
        asked = f"{address}/api/v2/tables/LA2.gender/data"
        assert eventually(lambda: "damaged on this server" in httpx.get(asked).json()["detail"], 20)
        other = Visitor(browser, address)
        other.forgiven.append("Failed to load resource")
        page = other.visit(link(level_area="LA2", by="gender", view="table"))
        problem = page.locator(".problem")
        assert problem.get_attribute("role") == "alert"
        answer = page.request.get(asked)
        assert answer.status == 503
        assert answer.json()["detail"] in problem.inner_text()
        page.get_by_role("checkbox", name="Sex").uncheck()
        page.wait_for_selector("#panel table")
        other.close()


def test_more_numbers_than_are_served_at_once_are_refused_with_advice(browser, census):
    with serving(census.path, options=("--max-cells", "2000")) as running:
        other = Visitor(browser, running.address.rstrip("/"))
        page = other.visit(link(level_area="OA", by="gender,age", view="table"))
        assert "at most 2,000" in page.locator("#panel").inner_text()
        assert page.locator("a.file").count() == 0
        page.locator("#within-area").select_option(label=labels(census, "LA3")["010101"])
        page.wait_for_selector("#panel table")
        assert page.locator("a.file").count() == 5
        other.close()


@pytest.mark.parametrize("lang", ["en", "ko"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_to_complain_about(visitor, scheme, lang):
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    # The policy forbids scripts from elsewhere, and axe is one; it is lifted for this test only.
    page = visitor.visit(color_scheme=scheme, bypass_csp=True)
    found = {}
    for state in (
        {"level_area": "LA3", "by": "gender", "in_area": "LA2:0102", "view": "map", "measure": "share"},
        {"level_area": "", "by": "gender,age", "view": "chart", "bars": "gender", "colours": "age"},
        {"level_area": "LA2", "by": "mar,gender", "view": "table", "across": "1"},
        {"level_area": "LA2", "by": "gender,age,mar", "view": "table"},
    ):
        visitor.go(page, link(lang=lang, **state))
        page.locator("#filter-gender, #programs").evaluate_all("all => all.forEach(one => { one.open = true; })")
        page.evaluate(axe)
        found |= complaints(page, json.dumps(state))
    page.locator("#open-explain").click()
    found |= complaints(page, "explanation")
    assert found == {}


def complaints(page, where: str) -> dict[str, list[str]]:
    answer = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return {f"{where} {one['id']}": [node["html"] for node in one["nodes"]] for one in answer["violations"]}
