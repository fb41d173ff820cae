"""Addresses of tables and places, embedded views and own areas, in a real browser."""

from __future__ import annotations

import contextlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import axe_playwright_python
import httpx
import pytest

from support.browsing import Visitor, labels, link, settled, title
from support.serving import serving
from support.size import few

pytestmark = pytest.mark.slow
TOWN = "/place/hanul/LA3/010203"


def complaints(page) -> dict[str, list[str]]:
    page.evaluate((Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    answer = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
    return {one["id"]: [node["html"] for node in one["nodes"]] for one in answer["violations"]}


@contextlib.contextmanager
def elsewhere(text: str):
    """A page of another origin."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *given):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{other.server_port}/"
        other.shutdown()


def test_a_view_has_the_address_of_its_table_and_leads_others_to_it(reader, waves):
    page = reader.visit(link(lang="en", level_area="LA2", by="gender", view="chart"))
    assert "/table/hanul:LA2.gender.time?lang=en#" in page.url
    shown, address = title(page), page.url
    page.get_by_role("checkbox", name="Age").check()
    page.wait_for_url(f"{reader.server}/table/hanul:LA2.gender.age.time?lang=en*")
    settled(page)
    page.go_back()
    page.wait_for_url(address)
    settled(page)
    assert title(page) == shown
    assert not page.locator("#key-age").is_checked()
    other = reader.visit(address.removeprefix(f"{reader.server}/"))
    assert title(other) == shown
    plain = reader.visit("table/hanul:LA2.gender.time?lang=fr")
    assert plain.locator("html").get_attribute("lang") == "fr"
    assert plain.locator("#key-gender").is_checked()
    alone = reader.visit("table/LA2.gender?lang=en#view=table")  # as shared when one release was served alone
    assert title(alone) == "2026: persons by District and Sex", "the same table of the last wave, which is named"


def shared(page) -> dict[str, str]:
    """The address of a view as a reader takes it along: each without the server."""
    said = {name: page.locator(f"#{name}-text").input_value() for name in ("link", "cite", "embed")}
    said |= {"embed": re.search('src="([^"]+)"', said["embed"])[1].replace("&amp;", "&"), "bar": page.url}
    return {name: re.search(r"https?://[^/]+/(.*)", text)[1] for name, text in said.items()}


@pytest.mark.parametrize("view", ["map", "chart"])
@pytest.mark.parametrize("then", [["2016"], ["2016", "2021"]])
def test_what_was_shared_of_the_newest_time_shows_the_same_numbers_when_a_newer_one_is_published(
    browser, over_time, waves, view, then
):
    with serving(*(one.path for one in waves[: len(then)]), options=("--no-access-log",)) as running:
        early = Visitor(browser, running.address.rstrip("/"))
        page = early.visit(link(lang="en", level_area="LA2", by="", view=view))
        taken, shown, summary = shared(page), title(page), page.locator("#summary").inner_text()
        early.close()
    assert then[-1] in shown
    late = Visitor(browser, over_time)
    for name, address in taken.items():
        page = late.visit(address)
        assert (title(page), page.locator("#summary").inner_text()) == (shown, summary), name
    full = page.locator(".full-page a").get_attribute("href")
    assert title(late.visit(full.removeprefix(f"{over_time}/"))) == shown
    late.close()


@pytest.mark.parametrize("view", ["view=table", "view=chart&kind=lines"])
def test_what_was_shared_of_several_times_shows_no_others_when_a_newer_one_is_published(
    browser, over_time, waves, view
):
    old = f"table/hanul:LA2.time?lang=en#pick.time=2021&{view}"  # as links said that did not name the times
    with serving(*(one.path for one in waves[:2]), options=("--no-access-log",)) as running:
        early = Visitor(browser, running.address.rstrip("/"))
        page = early.visit(old)
        taken, shown = shared(page), (title(page), page.locator("#summary").inner_text())
        file = page.locator("#get-csv").get_attribute("href")
        early.close()
    assert "valuecodes[time]=2016,2021" in file
    late = Visitor(browser, over_time)
    for name, address in taken.items():
        page = late.visit(address)
        assert (title(page), page.locator("#summary").inner_text()) == shown, name
        assert page.locator("#get-csv").get_attribute("href") == file
    assert late.visit(old).locator("#summary").inner_text() != shown[1], "an old link shows all times"
    page.locator("#tab-map").click()
    page.locator("#time").wait_for()
    settled(page)
    assert title(page).startswith("2021: ")
    late.close()


def test_an_address_without_a_time_opens_the_newest_and_says_so_from_then_on(reader):
    for address in ("table/hanul:LA2.time?lang=en#view=map", link(lang="en", level_area="LA2", by="", view="chart")):
        page = reader.visit(address)
        assert title(page).startswith("2026: ")
        assert "pick.time=2026" in page.url
    page = reader.visit("table/hanul:LA2.time?lang=en#view=table")
    assert "pick.time" not in page.url, "all times are shown"


def test_an_embedded_view_shows_the_numbers_without_the_page_around_them(reader):
    page = reader.visit(link(lang="en", level_area="LA2", by="gender", view="table"))
    code = page.locator("#embed-text").input_value()
    source = re.search('src="([^"]+)"', code)[1].replace("&amp;", "&")
    reader.forgiven.append("asked another host")
    with elsewhere(
        f'<!doctype html><link rel=icon href=data:,><iframe id="frame" src="{source}" height="700">'
    ) as there:
        page.goto(there)
        frame = page.frame_locator("#frame")
        frame.locator("#panel table").wait_for()
        assert frame.locator("#picker").is_hidden()
        assert frame.locator("#take").is_hidden()
        assert "/embed/" not in frame.locator(".full-page a").get_attribute("href")


def test_a_place_that_was_found_leads_to_its_page_and_back_to_the_map(reader, waves):
    page = reader.visit(link(lang="en", level_area="LA3", by="", view="map", place="010203"))
    page.locator("#place-page").click()
    name = labels(waves[0], "LA3")["010203"]
    page.locator("h1", has_text=name).wait_for()
    assert page.url.endswith(f"{TOWN}?lang=en&time=2026"), "its address keeps the time that the map showed"
    assert page.locator(".kind").inner_text().endswith(" · 2026"), "a number to quote has its time"
    page.get_by_role("link", name="On the map").click()
    page.wait_for_selector("#map")
    settled(page)
    assert page.locator("#map-spoken").text_content().startswith(f"{name}: ")


def test_the_page_of_a_place_keeps_a_time_where_its_address_has_one(over_time, waves):
    def page(**more):
        return httpx.get(f"{over_time}{TOWN}", params={"lang": "en", **more}).text

    def count(wave):
        return wave.table("LA3").filter(LA3="010203")["N_masked"].item()

    newest, earlier = page(), page(time="2021")
    assert f'<p class="single">{count(waves[2]):,} persons</p>' in newest
    assert "embed/place/hanul/LA3/010203?lang=en&amp;time=2026" in newest, "what is embedded keeps its numbers"
    kept = re.search(r'href="([^"]+)">Link that keeps the numbers of 2026<', newest)[1].replace("&amp;", "&")
    assert httpx.get(f"{over_time}{kept}").status_code == 200
    assert f'<p class="single">{count(waves[1]):,} persons</p>' in earlier
    change, near = count(waves[1]) - count(waves[0]), 3 * waves[1].manifest["threshold"]
    doubt = " (such a change may come from masking alone)" if abs(change) <= near else ""
    assert f"<li>{change:+,} since 2016{doubt}</li>".replace("-", "−") in earlier
    assert "2026" not in earlier.replace(">Newer numbers: 2026<", ""), "but for the way to newer numbers"
    assert f'href="{TOWN}?lang=en">Newer numbers: 2026<' in earlier
    links = re.findall(r'href="(/place/[^"]+)"', earlier)
    assert sum("time=2021" not in one for one in links) == 1, "all other ways stay at this time"
    assert "pick.time=2021" in earlier, "also that to the map"
    wrong = httpx.get(f"{over_time}{TOWN}", params={"time": "2020"})
    assert (wrong.status_code, "It is 2016, 2021, 2026" in wrong.text) == (404, True)
    alone = httpx.get(f"{over_time}/place/w2016/LA3/010203", params={"lang": "en", "time": "2016"}).text
    assert "time=2016" not in alone, "the name of its release says it"


def test_two_places_are_compared_by_the_name_that_is_typed(reader, waves):
    page = reader.visit(f"{TOWN[1:]}?lang=en", wait=False)
    other = labels(waves[0], "LA3")["010204"]
    page.locator("#with").fill(other)
    page.keyboard.press("Enter")
    page.locator(".sides.two").wait_for()
    assert page.locator(".side h2").all_inner_texts() == [labels(waves[0], "LA3")["010203"], other]
    assert page.locator(".side .drawn svg").count() == 4, "a pyramid and a line each"


def test_a_part_of_a_name_is_enough_to_compare_if_one_place_has_it_and_else_they_are_listed(over_time, waves):
    def compared(part):
        page = httpx.get(f"{over_time}{TOWN}", params={"lang": "en", "with": part}).text
        return re.findall(r'<section class="side" aria-label="([^"]+)"', page)[1:], page

    own, *names = (name for _, name in sorted(labels(waves[0], "LA3").items(), key=lambda one: one[0] != "010203"))
    inner = next(name for name in names if not any(name[1:] in other for other in (own, *names) if other != name))
    assert compared(inner[1:].upper())[0] == [inner]
    shared_end = "deul-dong"
    fitting = [name for name in names if shared_end in name]
    found, page = compared(shared_end)
    assert (found, len(fitting) > 8) == ([], True)
    assert f"Several places fit {shared_end}: {', '.join(sorted(fitting, key=names.index)[:8])}, …." in page


@pytest.mark.parametrize(
    ("lang", "scheme", "width"),
    few([("en", "dark", 390), ("es", "light", 1440), ("ko", "dark", 1440), ("fr", "light", 390)]),
)
def test_axe_finds_nothing_on_the_page_of_a_place(reader, lang, scheme, width):
    shape = {"viewport": {"width": width, "height": 900}, "color_scheme": scheme, "bypass_csp": True}
    page = reader.visit(f"{TOWN[1:]}?with=010204&lang={lang}", wait=False, **shape)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert complaints(page) == {}
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(
    ("lang", "width", "blank"), [("en", 390, 4), ("es", 360, 1.92), ("fr", 320, 1.92), ("en", 1440, 8)]
)
def test_the_tables_of_a_place_are_narrow_on_a_phone(reader, lang, width, blank):
    page = reader.visit(f"{TOWN[1:]}?lang={lang}", wait=False, viewport={"width": width, "height": 844})
    cells = page.locator(".place-table td").evaluate_all(
        "all => all.map(one => getComputedStyle(one).paddingInlineStart)"
    )
    assert {float(cell.removesuffix("px")) for cell in cells} == {blank}
    assert page.evaluate("document.documentElement.scrollWidth") == width


@pytest.mark.parametrize(("lang", "scheme", "width"), [("en", "dark", 390), ("ko", "light", 1440)])
def test_areas_are_put_together_on_the_map_and_by_codes(reader, waves, lang, scheme, width):
    shape = {"viewport": {"width": width, "height": 1200}, "color_scheme": scheme, "bypass_csp": True}
    page = reader.visit(link(lang=lang, level_area="LA3", by="", view="map"), **shape)
    page.locator("#own summary").click()
    page.locator("#own-rules li").first.wait_for()
    page.locator("#own-name").fill("Two")
    page.locator("#own-codes").fill("010203, 010204")
    page.locator("#own-add").click()
    page.locator("#own-result tbody tr").first.wait_for()
    table = waves[-1].table("LA3")
    count = table.filter(table["LA3"].is_in(["010203", "010204"]))["N_masked"].sum()
    shown = page.locator("#own-result tbody tr").first.locator("th, td").all_inner_texts()
    assert shown[:3] == ["Two", "2", f"{count:,}"]
    page.locator("#own-draw").click()
    box = page.locator("#map").bounding_box()
    for x, y in ((0.02, 0.02), (0.98, 0.02), (0.98, 0.98), (0.02, 0.98)):
        page.locator("#map canvas").last.click(
            position={"x": x * (box["width"] - 60), "y": y * box["height"]}, force=True
        )
    page.locator("#own-draw").click()
    page.locator("#own-result tbody tr").nth(1).wait_for()
    drawn = page.locator("#own-result tbody tr").nth(1).locator("th, td").all_inner_texts()
    assert int(drawn[1]) > 10
    with page.expect_download() as taken:
        page.locator("#own-get").click()
    text = Path(taken.value.path()).read_text(encoding="utf-8")
    assert text.count("\n") == 1 + 2 * len(waves)
    assert complaints(page) == {}
    assert page.evaluate("document.documentElement.scrollWidth") == width


def test_the_catalogue_describes_itself_in_each_language_by_the_title_of_that_language(over_time):
    told = httpx.get(f"{over_time}/catalog.jsonld").json()
    for name in ("dct:title", "dct:description"):
        said = {one["@language"]: one["@value"] for one in told[name]}
        assert said["fr"].startswith("Habitants de Hanul"), name
        assert said["en"].startswith("People of Hanul"), name
