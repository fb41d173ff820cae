"""The map of the page, in a real browser: areas are entered, tapped, drawn and counted in the legend."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import polars as pl
import pytest

import ilba
from support.browsing import Visitor, cells, colours, drawing, labels, link, number, settled, title
from support.people import ILBA, reformed
from support.serving import eventually, serving

pytestmark = pytest.mark.slow


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
    # While it is moved, the picture of very many areas is moved and not drawn; at rest all is as if it had been.
    page.locator("#map").focus()
    told = page.evaluate(
        """async () => {
            const base = document.querySelector('#map canvas'), still = base.toDataURL();
            const frame = () => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
            const at = { deltaY: -200, ctrlKey: true, clientX: 700, clientY: 600, bubbles: true, cancelable: true };
            document.querySelector('#map canvas:last-of-type').dispatchEvent(new WheelEvent('wheel', at));
            await frame();
            return [base.style.transform !== '', base.toDataURL() === still];
        }"""
    )
    assert told == [True, True]
    assert eventually(lambda: drawing(page) != before)
    assert page.locator("#map canvas").first.evaluate("one => one.style.transform") == ""
    assert page.locator("#map .back").is_hidden()


def test_a_share_is_the_count_in_the_published_total_of_the_area(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", view="map"))
    page.locator("#pick-gender").select_option("2")
    page.locator("#measure").select_option("percent")
    page.locator("h1", has_text="ercent").wait_for()
    settled(page)
    settled(page)
    page.locator("#map").hover(position={"x": 300, "y": 260})
    name, said = page.locator(".tooltip strong").inner_text(), page.locator(".tooltip span").inner_text()
    code = {label: code for code, label in labels(census, "LA2").items()}[name]
    women = census.table("LA2.gender").filter((pl.col("LA2") == code) & (pl.col("gender") == 2))["N_masked"].item()
    everybody = census.table("LA2").filter(pl.col("LA2") == code)["N_masked"].item()
    assert said == f"{100 * women / everybody:.1f}%"
    page.locator("#pick-gender").select_option("")
    page.locator("h1", has_text="everybody").wait_for()
    settled(page)
    assert page.locator("#of").count() == 0, "everybody is the only denominator of a total"


def test_areas_without_a_map_are_tiles_and_grid_codes_are_squares(visitor):
    page = visitor.visit(link(release="towns", level_area="town", by=""))
    assert "There is no map of town. Each tile is an area" in page.locator("#panel").inner_text()
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


def test_the_legend_says_that_a_zero_may_be_masked(visitor):
    page = visitor.visit(link(level_area="OA", by="gender,age", view="map"))
    assert page.locator(".legend li").first.inner_text().startswith("0, or masked to 0")
    page.locator("#measure").select_option("percent")
    page.locator("h1", has_text="ercent").wait_for()
    settled(page)
    settled(page)
    assert page.locator(".legend li").first.inner_text().startswith("0.0%, or masked to 0")
    visitor.go(page, link(lang="ko", level_area="OA", by="gender,age", view="map"))
    assert page.locator(".legend li").first.inner_text().startswith("0 또는 0으로 조정")


def test_a_place_that_fills_the_map_is_marked_and_nothing_is_moved_out_of_sight(visitor):
    page = visitor.visit(link(level_area="LA2", by="", view="map"))
    whole = drawing(page)
    visitor.go(page, link(level_area="LA2", by="", view="map", place="0103"))
    assert page.locator("#map-spoken").text_content()
    assert drawing(page) == whole


def test_a_tap_shows_an_area_and_a_second_one_opens_it(visitor):
    page = visitor.visit(
        link(level_area="LA2", by=""), viewport={"width": 375, "height": 740}, has_touch=True, is_mobile=True
    )
    page.locator("#map").tap(position={"x": 140, "y": 200})
    assert page.locator(".tooltip").is_visible()
    assert title(page) == "Count by District"
    page.locator("#map").tap(position={"x": 140, "y": 200})
    page.locator("h1", has_text="Town").wait_for()
    settled(page)
    page.go_back()
    page.locator("h1", has_text="District").wait_for()
    settled(page)
    page.locator("#map").tap(position={"x": 140, "y": 200})
    name = page.locator(".tooltip strong").inner_text()
    page.get_by_role("button", name=f"Open {name}").tap()
    page.locator("h1", has_text="Town").wait_for()
    settled(page)
    page.locator("#map").tap(position={"x": 140, "y": 200})
    name = page.locator(".tooltip strong").inner_text()
    page.get_by_role("link", name=f"Everything about {name}").tap()
    page.locator("h1", has_text=name).wait_for()


def test_no_name_on_the_map_hides_another(visitor):
    page = visitor.visit(wait=False)
    page.add_init_script(
        """window.names = [];
        const draw = CanvasRenderingContext2D.prototype.roundRect;
        CanvasRenderingContext2D.prototype.roundRect = function (...box) {
            window.names.push([this.canvas, box]);
            return draw.apply(this, box);
        };
        const clear = CanvasRenderingContext2D.prototype.clearRect;
        CanvasRenderingContext2D.prototype.clearRect = function (...box) {
            window.names = window.names.filter(([canvas]) => canvas !== this.canvas);
            return clear.apply(this, box);
        };"""
    )
    visitor.go(page, link(level_area="LA3", view="map", lang="ko"))
    boxes = page.evaluate("window.names.map(([, box]) => box)")
    assert len(boxes) > 20, "the names of towns fit in Korean"
    for place, (x, y, wide, high, _) in enumerate(boxes):
        for left, top, width, height, _ in boxes[:place]:
            assert x >= left + width or left >= x + wide or y >= top + height or top >= y + high


def test_enter_on_an_area_of_the_finest_level_goes_to_the_link_to_its_page(reader):
    page = reader.visit(link(lang="en", level_area="LA3", by="", view="map"))
    page.locator("#map").focus()
    for key in ("Home", "ArrowRight", "Enter"):
        page.keyboard.press(key)
    name = page.locator("#map-spoken").inner_text().partition(":")[0]
    assert page.evaluate("document.activeElement.textContent") == f"Everything about {name}"


@pytest.mark.parametrize("measure", ["count", "percent", "index"])
def test_those_that_share_the_highest_or_lowest_number_are_said_and_others_that_are_close(reader, waves, measure):
    names, towns = labels(waves[2], "LA3"), waves[2].table("LA3").select("LA3", n="N_masked")
    doubts = set()
    for age in ("3", "18"):
        page = reader.visit(link(lang="en", level_area="LA3", by="age", view="map", pick_age=age, measure=measure))
        part = waves[2].table("LA3.age").filter(pl.col("age").cast(pl.String) == age).select("LA3", "N_masked")
        rows = towns.join(part, on="LA3", how="left").with_columns(pl.col("N_masked").fill_null(0)).sort("LA3")
        everywhere = waves[2].table("all.age").filter(pl.col("age").cast(pl.String) == age)["N_masked"].item()
        average = everywhere / waves[2].table("all")["N_masked"].item() if measure == "index" else 1
        unit = 1.0 if measure == "count" else 100 / (rows["n"] * average)
        digits = 0 if measure == "index" else 1
        rows = rows.with_columns(value=(rows["N_masked"] * unit).round(digits), off=7.5 * unit)
        said = page.locator("#summary").inner_text()
        for word, sign in (("Highest", 1), ("Lowest", -1)):
            top = rows.filter(sign * pl.col("value") == (sign * pl.col("value")).max())
            first, *others = [names[code] for code in top["LA3"]]
            tied = f"{first} and {len(others)} more (" if len(others) > 1 else " and ".join([first, *others]) + " ("
            assert f"{word}: {tied}" in said
            edge = (sign * top["value"] - top["off"]).min()
            near = rows.filter(
                ~pl.col("LA3").is_in(top["LA3"].to_list()), sign * pl.col("value") + pl.col("off") >= edge
            )
            assert (word.lower() in said.partition("Others are so close")[2]) == bool(near.height)
            doubts.add(len(others) > 0)
    assert True in doubts, "some are shared"
    page = reader.visit(link(lang="en", level_area="LA2", by="", view="map"))
    assert "Others are so close" not in page.locator("#summary").inner_text(), "districts are far apart"


def test_people_without_a_stated_area_are_neither_highest_nor_lowest_nor_found_as_a_place(browser, tmp_path):
    sizes = {"a": 80, "b": 50, "c": 20, None: 5}
    people = pl.DataFrame({"town": [town for town, size in sizes.items() for _ in range(size)]})
    people = people.with_columns(sex=pl.Series([("f", "m")[n % 2] for n in range(people.height)]))
    finest = ilba.build(people, ["town"], ["sex"], secret=ilba.Secret(bytes(range(32))), missing="category")
    finest.release(tmp_path / "towns", ledger=False, **ILBA)
    with serving(tmp_path / "towns") as server:
        visitor = Visitor(browser, server.address.rstrip("/"))
        page = visitor.visit(link(level_area="town", by="", view="map"))
        assert page.locator("#summary").inner_text() == "town: 3 shown. Highest: a (80). Lowest: c (20)."
        page.locator("#place").fill("not stated")
        assert page.locator("#places .hint").inner_text()
        visitor.close()


def test_an_area_that_did_not_exist_is_said_and_neither_shown_nor_compared(browser, tmp_path):
    both = reformed(tmp_path)
    with serving(*(one.path for one in both)) as server:
        visitor = Visitor(browser, server.address.rstrip("/"))
        view = {"release": "reg", "level_area": "town"}
        page = visitor.visit(link(view="map", pick_time="2025", **view))
        told, panel = page.locator("#summary").inner_text(), page.locator("#panel").inner_text()
        assert told.startswith("town: 3 shown. Highest: Old (")
        assert "Lowest: Empty (0)" in told
        assert "Not in 2025: New." in panel
        assert "no shape" not in panel.replace("1 area has no shape", "")
        assert any("time=2025" in one for one in visitor.asked if "/geometry/" in one)
        sizes = [number(text) for text in page.locator(".legend .size").all_inner_texts()]
        assert sum(sizes) == 3, "the legend is about drawn areas"
        classes = [text.split("\n")[0] for text in page.locator(".legend li").all_inner_texts()]
        counts = dict(both[0].table("town").rows())
        assert classes == ["0, or masked to 0", f"{counts[1]} – {counts[2] - 1}", f"{counts[2]}"]
        visitor.go(page, link(view="map", pick_time="2026", measure="change", **view))
        assert "2 shown" in page.locator("#summary").inner_text()
        assert "not in 2025" in page.locator(".legend").inner_text()
        visitor.go(page, link(view="table", **view))
        rows = {(row[0], row[1]): row[2] for row in cells(page)}
        assert rows["New", "2025"] == "not in 2025"
        assert rows["Old", "2026"] == "not in 2026"
        assert rows["Empty", "2025"] == "0"
        visitor.go(page, link(view="chart", kind="bars", bars="town", colours="none", pick_time="2025", **view))
        assert page.locator("#summary").inner_text().startswith("4 bars.")
        assert "not in 2025" in page.locator(".bars").inner_text()
        visitor.go(page, link(view="map", pick_time="2025", lang="fr", **view))
        assert "N’existe pas en 2025" in page.locator("#panel").inner_text()
        visitor.close()
