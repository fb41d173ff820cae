"""The page in a real browser, served by `ilba serve`: what a reader picks, sees, takes along and is told."""

from __future__ import annotations

import io
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest

import ilba
from ilba.service.asked import folded, spaced
from support.browsing import Visitor, cells, drawing, labels, link, number, settled, title
from support.people import HKEY, KEY, population
from support.serving import serving
from support.size import few

pytestmark = pytest.mark.slow


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
    assert "Nothing matches" in page.locator("#panel").inner_text()
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
        " Saint-Louis-du-Ha!\u00a0Ha! – l’Île + 1",
    ]
    for own in (folded, spaced):
        script = f"async (words) => words.map((await import('/static/search.js')).{own.__name__})"
        assert page.evaluate(script, words) == [own(word) for word in words], "the page searches as the API does"


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


def test_excluded_combinations_are_greyed_with_the_reason_and_refused_in_words(browser, finest, tmp_path):
    """Only the finest table is stored, so that all others are made on demand, within the rules."""
    release = finest.release(tmp_path / "people", tables=["block.sex.age.job"], ledger=False)
    (tmp_path / "rules.toml").write_text('excluded = [["age", "job"]]')
    with serving(release.path, options=("--rules", str(tmp_path / "rules.toml"), "--no-access-log")) as running:
        other = Visitor(browser, running.address.rstrip("/"))
        page = other.visit(link(level_area="town", by="age", view="table"))
        job = page.get_by_role("checkbox", name="job")
        assert job.is_disabled()
        reason = page.locator(f"#{job.get_attribute('aria-describedby')}").inner_text()
        assert reason == "By a rule of the publisher, age and job are not offered together. Leave one of them out."
        assert page.get_by_role("checkbox", name="sex").is_enabled()
        other.go(page, link(level_area="town", by="age,job", view="table"))
        assert reason in page.locator("#panel").inner_text()
        page.get_by_role("checkbox", name="age").uncheck()
        page.wait_for_selector("#panel table")
        other.close()


def test_the_chart_draws_the_released_numbers_side_by_side(visitor, census):
    page = visitor.visit(link(level_area="LA2", by="gender", view="chart", order="listed"))
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
    assert page.locator("#layout").count() == 0
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
    assert title(page) == "Count in total"
    assert cells(page) == [[total]]
    page.get_by_role("tab", name="Chart").click()
    page.wait_for_selector(".single")
    assert page.locator(".single").inner_text() == total
    page.get_by_role("tab", name="Map").click()
    page.get_by_text("A map needs areas").wait_for()


def test_tables_that_add_up_can_be_stacked_and_are_explained_so(visitor, others):
    towns, _ = others
    page = visitor.visit(link(release="towns", level_area="region", by="sex", view="chart", order="listed"))
    page.locator("#layout").select_option("stacked")
    page.wait_for_selector(".bars.stacked")
    totals = [number(text) for text in page.locator(".bars .bar-number").all_inner_texts()]
    assert totals == towns.table("region")["N_masked"].to_list()
    assert "Totals add up." in page.locator("#note").inner_text()
    page.get_by_role("button", name="Why?").click()
    assert "add up to the published total" in page.locator("#explain").inner_text()


def test_the_explanation_says_that_no_largest_difference_is_published_where_none_is(visitor):
    page = visitor.visit(link(release="towns", level_area="region", by="sex"))
    page.get_by_role("button", name="About these numbers").click()
    said = page.locator("#explain").inner_text()
    assert "may differ from the true count by several, also one that looks rounded. How far is not published" in said
    assert "at most" not in said


@pytest.mark.parametrize("lang", few(["en", "fr", "es", "ko"]))
def test_the_note_says_that_a_number_of_K_may_stand_for_fewer_or_more(visitor, lang):
    page = visitor.visit(link(release="towns", level_area="region", by="sex", lang=lang))
    said = {"en": "fewer or more", "fr": "moins ou plus", "es": "menos o más", "ko": "적거나 많을"}[lang]
    for place in ("#note", "#explain"):
        assert said in page.locator(place).text_content()
    assert said in page.locator("#cite-text").input_value()


def test_a_method_without_K_is_explained_by_the_notes_of_its_files(browser, tmp_path):
    finest = ilba.build(population(), HKEY, KEY, secret=ilba.Secret(bytes(range(32))))
    release = finest.release(tmp_path / "rounded", method="rounding", accept_risk=True, ledger=False)
    with serving(release.path) as server:
        visitor = Visitor(browser, server.address.rstrip("/"))
        page = visitor.visit(link(lang="en", level_area="region", by="sex"))
        assert "rounding: base=" in page.locator("#note").inner_text()
        assert "K is" not in page.locator("#explain").text_content()
        visitor.close()


def taken(page, format: str) -> tuple[bytes, str]:
    with page.expect_download() as download:
        page.locator(f"#get-{format}").click()
    return Path(download.value.path()).read_bytes(), download.value.suggested_filename


def opened(format: str, content: bytes, tmp_path: Path) -> list[int]:
    """The counts in a downloaded file, read by somebody else's program."""
    file = tmp_path / f"file.{format}"
    file.write_bytes(content)
    if format == "csv":
        assert content.startswith(b"\xef\xbb\xbf"), "Excel reads it as UTF-8"
        return pl.read_csv(file)["Count"].to_list()
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


def test_a_download_has_the_readable_name_of_its_table(browser, tmp_path, secret):
    people = pl.DataFrame({"Δήμος": ["α", "β"] * 40, "1/2": ["Θ", "Θ", "Α", "Α"] * 20})
    release = ilba.build(people, ["Δήμος"], ["1/2"], secret=secret).release(tmp_path / "r", ledger=False)
    with serving(release.path) as server:
        visitor = Visitor(browser, server.address.rstrip("/"))
        page = visitor.visit(f"table/{quote(quote('Δήμος.1/2', safe='.'))}?lang=en&view=table")
        for format in ("csv", "xlsx", "px", "json-stat2"):
            assert taken(page, format)[1] == f"Δήμος.1_2.{format.removesuffix('-stat2')}"
        visitor.close()


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
    assert found.filter(pl.col("Count") > 0)["Count"].to_list() == expected


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
    page.locator("#measure").select_option("percent")
    page.locator("h1", has_text="ercent").wait_for()
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


def test_the_explanation_says_what_K_means_and_that_totals_may_not_add_up(visitor):
    page = visitor.visit()
    page.get_by_role("button", name="About these numbers").click()
    said = page.locator("#explain").inner_text()
    assert "K is 5: every number is 0 or at least 5" in said
    assert "Do not add numbers up" in said
    assert "at most 7" in said
    page.get_by_role("button", name="Close").click()
    assert page.locator("#explain").is_hidden()


@pytest.mark.parametrize("lang", few(["en", "ko", "fr", "es"], 2))
def test_a_share_is_explained_as_one_of_the_same_group_which_need_not_be_an_area(visitor, lang):
    page = visitor.visit(link(lang=lang))
    said = {"en": "of the same group", "ko": "같은 집단의", "fr": "du même groupe", "es": "del mismo grupo"}[lang]
    assert said in page.locator("#explain").text_content()


def test_on_a_phone_the_explanation_is_closed_from_any_place_of_it_and_by_a_tap_beside_it(visitor):
    page = visitor.visit(link(lang="en"), viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True)
    for ends in (lambda: page.locator("#close-explain").tap(), lambda: page.touchscreen.tap(180, 10)):
        page.locator("#open-explain").tap()
        page.locator("#explain").evaluate("one => { one.scrollTop = 9999; }")
        close = page.locator("#close-explain").bounding_box()
        assert 0 <= close["y"] < 200
        page.locator("#explain .official").tap()
        assert page.locator("#explain").is_visible()
        ends()
        page.locator("#explain").wait_for(state="hidden")
