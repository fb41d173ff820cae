"""The page for everybody, in a real browser: by keyboard, on a phone, in the dark, in both languages."""

from __future__ import annotations

import json
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import product
from pathlib import Path

import httpx
import polars as pl
import pytest

import ilba
from ilba import Secret
from support.browsing import MARKUP, Visitor, cells, drawing, inside, labels, link, settled, title
from support.people import HKEY, ILBA, population
from support.places import ROOT
from support.serving import PLAIN, eventually, serving
from support.size import few

pytestmark = pytest.mark.slow


VIEWS = ("map", "chart", "table")


def test_the_language_is_switched_with_everything_in_it(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", view="table"))
    page.get_by_label("Language").select_option("ko")
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


def test_every_language_has_the_same_words_with_the_same_gaps(visitor):
    page = visitor.visit()
    spoken, known = page.evaluate(
        """async () => {
            const { SPOKEN } = await import('/static/words.js');
            const files = await Promise.all(SPOKEN.map(one => import(`/static/words/${one}.js`)));
            return [SPOKEN, files.map(one => one.default)];
        }"""
    )
    assert {file.stem for file in (ROOT / "src/ilba/service/page/words").glob("*.js")} == set(spoken)
    for lang, words in zip(spoken, known, strict=True):
        assert words.keys() == known[0].keys(), lang
        for name, text in words.items():
            gaps = [sorted(re.findall(r"\{(\w+)\}", one)) for one in (text, known[0][name])]
            assert gaps[0] == gaps[1], (lang, name)
    code = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src/ilba/service/page").glob("*.[jh]*"))
    used = set(re.findall(r'say\(\s*"(\w+)"', code)) | set(re.findall(r'data-word="(\w+)"', code))
    assert used <= set(known[0])


LONG = {"fr": "Effectif selon District et Sex", "es": "Recuento por District y Sex"}


@pytest.mark.parametrize("lang", LONG)
def test_numbers_dates_and_titles_are_written_as_the_language_does(visitor, census, lang):
    page = visitor.visit(link(lang=lang, level_area="LA2", by="gender", view="table"))
    assert title(page) == LONG[lang]
    assert page.locator("html").get_attribute("lang") == lang
    first = census.table("LA2.gender")["N_masked"][0]
    assert cells(page)[0][-1] == page.evaluate("([n, lang]) => n.toLocaleString(lang)", [first, lang])
    assert "Published" not in page.locator("#foot").inner_text()
    reader = visitor.visit(locale=f"{lang}-{lang.upper()}")
    assert reader.locator("html").get_attribute("lang") == lang, "the reader's own language is the first choice"


def test_a_language_from_right_to_left_does_not_break_the_page(browser, hebrew):
    with serving(hebrew.path, options=("--languages", "he,en")) as running:
        other = Visitor(browser, running.address.rstrip("/"))
        for width in (390, 1440):
            page = other.visit(viewport={"width": width, "height": 900}, locale="de-DE")
            assert page.locator("html").get_attribute("dir") == "rtl", "the first language is the usual one"
            for view in VIEWS:
                other.go(page, link(lang="he", level_area="region", by="sex", view=view))
                assert page.evaluate("document.documentElement.scrollWidth") == width, view
            assert [row[1] for row in cells(page)[:2]] == ["נשים", "גברים"]
            # English words around Hebrew labels: the sentence keeps its order, the number stands before "rows".
            summary = page.locator("#summary").inner_text()
            assert (summary[0], summary[-1]) == ("\u2066", "\u2069"), "the sentence is read from left to right"
            assert "\u2066" not in title(page), "a title that is all labels goes from right to left with them"
            assert page.locator("#mark").inner_text() == "תושבים"
            number, frame = (page.locator(one).first.bounding_box() for one in ("tbody td.number", "#scroll"))
            assert number["x"] - frame["x"] < 30, "the last column is on the left"
            assert page.get_by_label("Language").locator("option").all_inner_texts() == ["עברית", "English"]
            reader = other.visit("place/people/region/01?lang=en", wait=False)
            assert reader.locator(".lang-link").all_inner_texts() == ["עברית", "English"], "places say the same names"
            other.go(page, link(lang="he", level_area="region", by="sex", view="chart", kind="bars"))
            with page.expect_download() as taken:
                page.locator("#picture-svg").click()
            drawn = Path(taken.value.path()).read_text(encoding="utf-8")
            page.goto("about:blank")
            page.set_content(f"<html dir=rtl>{drawn}")
            sides = page.locator("svg text").evaluate_all("all => all.map(one => one.getBoundingClientRect().toJSON())")
            frame = page.locator("svg").bounding_box()
            assert all(frame["x"] <= one["x"] and one["right"] <= frame["x"] + frame["width"] for one in sides)
            assert sides[0]["right"] > frame["x"] + 0.9 * frame["width"], "the title begins on the right"
            other.go(page, "place/people/region/01?lang=he", wait=False)
            assert page.locator("html").get_attribute("dir") == "rtl"
            assert page.evaluate("document.documentElement.scrollWidth") == width
        other.close()


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
    assert walked == ["pick-gender", "measure", "box-range", "map"]
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
    page.locator("#place").focus()
    page.keyboard.type("Garam")
    page.locator("#places button").first.wait_for()
    press("ArrowDown")
    press("Enter")
    settled(page)
    assert focused() == "content", "a place that was found takes the focus to the numbers"
    page.locator("#open-explain").focus()
    press("Enter")
    assert page.locator("#explain").is_visible()
    press("Escape")
    assert focused() == "open-explain"
    page.locator("#key-age").focus()
    press("Space")
    page.locator("#pick-age").wait_for()  # the title names it only until the map is drawn
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


@pytest.mark.parametrize("lang", few(["fr", "ko", "en", "es"], 2))
def test_a_phone_needs_no_sideways_scrolling(visitor, lang):
    page = visitor.visit(viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True)
    assert page.locator("#levels-area").is_hidden()
    for view in VIEWS:
        visitor.go(page, link(lang=lang, level_area="LA3", by="gender,age", in_area="LA2:0103", view=view, across="1"))
        page.locator("#picker-toggle").click()
        assert page.locator("#levels-area").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 375, view
        small = page.locator("button:visible, select:visible, a.file").evaluate_all(
            "all => all.filter(one => one.getBoundingClientRect().height < 24).map(one => one.id)"
        )
        assert small == []


def test_a_phone_with_letters_twice_as_large_needs_none_either_and_shows_whole_rows(reader):
    page = reader.visit(viewport={"width": 195, "height": 422}, has_touch=True, is_mobile=True)
    views = [link(lang="en", level_area="LA3", by="", view=view) for view in VIEWS]
    for address in (*views, "place/hanul/LA3/010203?lang=fr", "place/hanul/LA3/010203?lang=ko&with=010204"):
        reader.go(page, address, wait=address.startswith("#"))
        page.locator(".mark > :last-child, h1, .single, .neighbours a:first-child").evaluate_all(
            "all => all.forEach(one => one.append(' Goyangsideogyanggu'))"
        )
        assert page.evaluate("document.documentElement.scrollWidth") == 195, address
        notes = page.locator(".place-part p").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
        assert max(notes, default=0) <= 195, "a note does not slide away with its table"
    tables = page.locator(".wide").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(tables) <= 195, "a wide table slides in its own box"
    for lang in ("en", "fr", "ko", "es"):
        reader.go(page, link(lang=lang, level_area="LA2", by="gender,age", view="table"))
        assert inside(page, "#panel tr > *") == (255, 255), "every name of a row is in sight beside its number"
        assert page.evaluate("document.documentElement.scrollWidth") == 195, lang


LINES = {"view": "chart", "kind": "lines"}


@pytest.mark.parametrize("width", [360, 390])
def test_letters_of_twice_the_size_never_make_the_page_wider_than_the_screen(communes, width):
    page = communes.visit(viewport={"width": width, "height": 844}, has_touch=True, is_mobile=True)
    table = {"level_area": "commune", "by": "age,sex"}
    for lang in few(["es", "fr", "en", "ko"], 2):
        views = [link(lang=lang, view=view, **table) for view in VIEWS]
        views += [link(lang=lang, **table, **more) for more in ({"view": "table", "across": "1"}, LINES)]
        views += [link(lang=lang, view="chart", bars="age", colours="sex", multiples="commune", kind="bars", **table)]
        for address in (*views, f"place/brume/commune/2?lang={lang}", f"place/brume/commune/2?lang={lang}&with=0"):
            communes.go(page, address, wait=address.startswith("#"))
            page.evaluate("document.documentElement.style.fontSize = '200%'")
            if address.startswith("#"):
                page.locator("#picker-toggle").click()
            assert page.evaluate("document.documentElement.scrollWidth") == width, address


def test_a_licence_that_is_an_address_is_a_link_and_wraps_on_a_phone_with_large_letters(browser, tmp_path):
    address = "https://creativecommons.org/licenses/by/4.0/deed.en?of=a&by=b"
    finest = ilba.build(population(), HKEY[:2], ["sex"], secret=Secret(bytes(range(32))))
    release = finest.release(tmp_path / "people", licence=address, source="A census", ledger=False, **ILBA)
    with serving(release.path) as running:
        other = Visitor(browser, running.address.rstrip("/"))
        page = other.visit(viewport={"width": 195, "height": 422}, has_touch=True, is_mobile=True)
        for there in (link(level_area="region", by=""), "place/people/region/01?lang=en"):
            other.go(page, there, wait=there.startswith("#"))
            assert page.get_by_role("link", name=address).get_attribute("href") == address
            assert page.evaluate("document.documentElement.scrollWidth") == 195, there
        assert page.locator("footer").inner_text().endswith(f"A census · Licence: {address}")
        other.close()


LLANFAIR = "Llanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogoch"


def test_a_name_of_one_long_word_wraps_on_a_phone_wherever_it_stands(browser, tmp_path):
    codes = pl.DataFrame({"variable": "town", "code": ["1", "2"], "label_en": [LLANFAIR, "Anglesey"]})
    people = pl.DataFrame({"town": ["1", "2"] * 30, "sex": ["f", "m", "m"] * 20})
    finest = ilba.build(people, ["town"], ["sex"], secret=Secret(bytes(range(32))))
    release = finest.release(tmp_path / "isle", labels=codes, ledger=False)
    with serving(release.path) as running:
        other = Visitor(browser, running.address.rstrip("/"))
        page = other.visit(viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
        views = [link(lang="en", level_area="town", by="", view=view) for view in VIEWS]
        place = "place/isle/town/1?lang=en"
        for there in (*views, f"embed/table/town{views[1]}", place, f"{place}&with=2"):
            other.go(page, there, wait="place" not in there)
            assert LLANFAIR in page.locator("body").inner_text() or there == views[0], there
            assert page.evaluate("document.documentElement.scrollWidth") == 360, there
        other.go(page, link(lang="en", level_area="town", by="sex", view="table", across="1"))
        assert page.locator("tbody th").first.evaluate("one => one.scrollWidth - one.clientWidth") <= 0
        page.locator("#place").fill(LLANFAIR)
        page.locator("#places button").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 360
        other.close()


SINGULAR = {
    "en": ("1 place matches.", "1 row."),
    "fr": ("1 lieu correspond.", "1 ligne."),
    "es": ("1 lugar coincide.", "1 fila."),
    "ko": ("맞는 지역 1곳.", "1행."),
}


@pytest.mark.parametrize("lang", SINGULAR)
def test_one_thing_is_said_in_the_singular(visitor, lang):
    page = visitor.visit(link(lang=lang, level_area="", by="", view="table"))
    place, row = SINGULAR[lang]
    assert page.locator("#summary").inner_text() == row
    page.locator("#place").fill("010203")
    page.get_by_text(place).wait_for(state="attached")


def test_all_values_are_offered_where_nothing_matches_only_if_some_are_left_out(visitor):
    page = visitor.visit(link(level_area="LA2", by="gender", view="table", q="qqqq"))
    assert page.locator("#panel .empty").inner_text() == "Nothing matches. Search for something else."
    visitor.go(page, link(level_area="LA2", by="gender", view="table", only_gender="1", q="Female"))
    page.locator("#panel .empty").get_by_role("button", name="Show all values").click()
    page.locator("#panel tbody tr").first.wait_for()
    assert {row[1] for row in cells(page)} == {"Female"}


@pytest.mark.parametrize(
    ("lang", "scheme", "width"),
    few([("ko", "dark", 320), ("en", "light", 390), *product(["en", "ko"], ["light", "dark"], [320, 390])], 2),
)
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


COVERED = """rows => rows.flatMap(row => {
    const sides = [...row.cells].map(cell => cell.getBoundingClientRect());
    return sides.filter((one, i) => sides.slice(i + 1).some(two =>
        Math.min(one.right, two.right) - Math.max(one.left, two.left) > 0.5 &&
        Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 0.5));
}).length"""


@pytest.mark.parametrize(("width", "letters"), [(360, "100%"), (390, "200%")])
def test_on_a_phone_no_column_of_a_table_hides_another_and_every_name_of_a_row_is_read(communes, width, letters):
    phone = {"viewport": {"width": width, "height": 740}, "has_touch": True, "is_mobile": True}
    page = communes.visit(link(lang="en", level_area="commune", by="sex,age", view="table", q="www"), **phone)
    page.evaluate(f"document.documentElement.style.fontSize = '{letters}'")
    page.locator("table.narrow").wait_for()
    assert inside(page, "#panel tr > *") == (205, 205)
    assert page.locator("#panel tr").evaluate_all(COVERED) == 0
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.evaluate("document.documentElement.style.fontSize = '100%'")
    page.set_viewport_size({"width": 1280, "height": 900})
    page.locator("table:not(.narrow)").wait_for()


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


def test_labels_are_text_and_never_markup(visitor):
    page = visitor.visit(link(level_area="LA2", by="mar", view="table"))
    assert MARKUP in {row[1] for row in cells(page)}
    for view in VIEWS:
        visitor.go(page, link(level_area="LA2", by="mar", view=view))
        page.locator("#filter-mar summary").click()
        assert page.get_by_text(MARKUP).count() >= 1
        assert page.locator("b").count() == 0


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
    assert title(page) == "Male: count by Town"


def test_a_problem_of_the_server_is_told_in_its_words(visitor, browser, census, tmp_path):
    broken = ilba.Release(shutil.copytree(census.path, tmp_path / "broken"))
    with serving(broken.path) as running:
        address = running.address.rstrip("/")
        (broken.path / "tables" / "LA2.gender.parquet").unlink()
        asked = f"{address}/api/v2/tables/LA2.gender/data"
        assert eventually(lambda: "damaged on this server" in httpx.get(asked, **PLAIN).json()["detail"], 20)
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
        offered = page.locator(".offers").get_by_role("button")
        assert offered.all_inner_texts() == list(labels(census, "LA3").values()), "the areas to look into are offered"
        offered.first.click()
        page.wait_for_selector("#panel table")
        assert page.locator("a.file").count() == 5
        other.close()


@pytest.mark.parametrize(("lang", "scheme"), few([("fr", "light"), ("ko", "dark"), ("en", "light"), ("es", "dark")], 2))
def test_axe_finds_nothing_to_complain_about(visitor, scheme, lang):
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    # The policy forbids scripts from elsewhere, and axe is one; it is lifted for this test only.
    page = visitor.visit(color_scheme=scheme, bypass_csp=True)
    found = {}
    for state in (
        {"level_area": "LA3", "by": "gender", "in_area": "LA2:0102", "view": "map", "measure": "share", "range": "1"},
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
