"""Finding places and taking numbers along, in a real browser."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys

import httpx
import polars as pl
import pytest

from support.browsing import labels, link, settled, title

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("lang", ["en", "ko"])
def test_a_place_is_found_by_its_name_in_any_script_and_shown_on_the_map(reader, waves, lang):
    page = reader.visit(link(lang=lang, level_area="LA2", by="gender", view="table"))
    name = labels(waves[0], "LA3", lang)["010203"]
    page.locator("#place").fill(name)
    page.locator("#places button").first.wait_for()
    assert name in page.locator("#places button").first.inner_text()
    page.keyboard.press("Enter")
    page.wait_for_selector("#map")
    settled(page)
    assert page.locator("#map-spoken").text_content().startswith(f"{name}: ")
    assert "place=010203" in page.url, "the address leads others to the same place"
    assert page.locator("#level-area-2").is_checked()


def test_on_a_phone_a_place_that_was_chosen_is_in_sight(reader):
    page = reader.visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.locator("#place").fill("westren distrct")  # without opening the choices
    page.locator("#places button").first.tap()
    page.locator("h1", has_text="District").wait_for()
    settled(page)
    assert page.locator("#levels-area").is_hidden()
    assert page.locator("#map-spoken").text_content().startswith("Western district: ")
    assert page.locator("h1").bounding_box()["y"] < 844


def test_a_place_that_is_large_on_the_map_leaves_the_map_whole(reader):
    page = reader.visit(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)

    def nearer(share: float) -> float:
        """How far the map is zoomed in to an area that takes a share of its width and height."""
        return page.evaluate(
            """async (share) => {
                const { AreaCanvas } = await import('/static/canvas.js');
                const area = (side) => {
                    const path = new Path2D();
                    path.rect(0, 0, side, side);
                    return { path, box: [0, 0, side, side], centre: [side / 2, side / 2], corners: 4 };
                };
                const host = document.createElement('div');
                host.style.cssText = 'width: 300px; height: 300px';
                document.body.append(host);
                const map = new AreaCanvas(host, { point() {}, open() {}, up() {} });
                const areas = new Map([['whole', area(1000)], ['one', area(1000 * share)]]);
                map.place(areas, [...areas.keys()], (code) => code);
                map.fly('one');
                const { k } = map.turn;
                map.close();
                host.remove();
                return k;
            }""",
            share,
        )

    assert nearer(0.2) == 1, "a little nearer would only cut it off"
    assert nearer(0.05) > 3


def test_slips_of_the_fingers_are_forgiven_but_not_all(reader, waves):
    page = reader.visit(link(level_area="LA2", by="", view="table"))
    name = labels(waves[0], "LA3")["010203"].lower()
    swapped = name[:2] + name[3] + name[2] + name[4:]
    accented = name[0] + "\u0301" + name[1:]
    for typed in (name, swapped, name[:4] + name[5:], accented, name.upper()):
        found = page.evaluate(
            """async ([typed, name]) => {
                const { fitness, spaced } = await import('/static/search.js');
                return fitness(spaced(typed), spaced(name));
            }""",
            [typed, name],
        )
        assert found <= 2, typed
    page.locator("#place").fill("qqqqqq")
    page.get_by_text("Nothing matches").wait_for()
    assert page.locator("#places button").count() == 0


def found(page, typed):
    """The names of the places that are found."""
    page.locator("#place").fill("")
    page.locator("#place").fill(typed)
    page.locator("#places li").first.wait_for()
    return page.locator("#places button > :first-child").all_inner_texts()


@pytest.mark.parametrize("typed", ["l hopital saint eloi", "eloi le", "Saint-Éloi", "L’Hôpital", "éloi - le!"])
def test_hyphens_and_other_signs_do_not_matter_to_the_search_for_a_place(communes, typed):
    page = communes.visit(link(lang="en", level_area="commune", by="", view="table"))
    assert found(page, typed) == ["L'Hôpital-Saint-Éloi-le-Vieux"]
    there = httpx.get(f"{communes.server}/place/brume/commune/0", params={"lang": "en", "with": typed}).text
    assert '<section class="side" aria-label="L&#39;Hôpital-Saint-Éloi-le-Vieux">' in there, "as for a comparison"


def test_a_place_is_found_by_its_name_in_another_language_and_named_in_that_of_the_page(reader, waves):
    page = reader.visit(link(lang="en", level_area="LA2", by="", view="table"))
    assert found(page, labels(waves[0], "LA3", "ko")["010203"])[0] == labels(waves[0], "LA3")["010203"]


def test_the_snippets_run_and_give_the_numbers_that_are_shown(reader, waves, tmp_path):
    page = reader.visit(link(level_area="LA2", by="gender", view="table", only_gender="2"))
    page.locator("#programs summary").click()
    code = page.locator("#snippet-python").text_content()
    run = [sys.executable, "-c", f"{code}\nprint(table.write_csv(), end='')"]
    printed = subprocess.run(run, check=True, capture_output=True, timeout=60).stdout
    columns = [wave.table("LA2.gender").filter(gender=2)["N_masked"] for wave in waves]
    shown = [n for row in zip(*columns, strict=True) for n in row]
    assert pl.read_csv(io.BytesIO(printed))["N_masked"].to_list() == shown
    assert b"0101,2,2016," in printed, "codes keep their zeros"
    command = page.locator("#snippet-curl").text_content()
    assert command.startswith('curl -g -o table.csv "http')
    subprocess.run(["bash", "-c", command], check=True, cwd=tmp_path, capture_output=True, timeout=60)
    assert pl.read_csv(tmp_path / "table.csv")["N_masked"].to_list() == shown
    if shutil.which("Rscript"):
        told = f"{page.locator('#snippet-r').text_content()}\ncat(table$N_masked)\nstopifnot(table$LA2[1] == '0101')"
        printed = subprocess.run(["Rscript", "-e", told], check=True, capture_output=True, text=True, timeout=60).stdout
        assert [int(n) for n in printed.split()] == shown
    cited = page.locator("#cite-text").input_value()
    for part in ("Synthetic census", "People of Hanul", title(page), "CC BY 4.0", "Counts are masked", page.url):
        assert part in cited
