"""What readers compare, in a real browser: measures with their denominators, waves, charts and pictures of them."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

from support.browsing import cells, labels, link, number, settled, title
from support.size import few

pytestmark = pytest.mark.slow


def legend(page) -> list[str]:
    return page.locator(".legend li span:nth-child(2)").all_inner_texts()


def test_women_over_85_of_all_women_here_now_and_five_years_ago(reader, waves):
    page = reader.visit(link(level_area="LA2", by="gender,age", view="map", pick_gender="2", pick_age="18"))
    assert title(page) == "Female, over 85, 2026: persons by District", "unit, values and time stand in the title"
    page.locator("#measure").select_option("percent")
    page.locator("h1", has_text="ercent").wait_for()
    page.locator("#of").select_option(label="all persons (Female) of each District")
    page.locator("h1", has_text="(Female)").wait_for()
    settled(page)
    for place, wave in ((2, "2026"), (1, "2021")):
        slider = page.locator("#time")
        slider.fill(str(place))
        page.locator("h1", has_text=wave).wait_for()
        settled(page)
        said = f"Female, over 85, {wave}: percent of all persons (Female) of each District"
        assert title(page) == said, "what is of each district is not also by district"
        chosen = (pl.col("LA2") == "0101") & (pl.col("gender") == 2)
        old = waves[place].table("LA2.gender.age").filter(chosen & (pl.col("age") == 18))["N_masked"].sum()
        women = waves[place].table("LA2.gender").filter(chosen)["N_masked"].item()
        page.locator("#map").focus()
        page.keyboard.press("Home")
        name = labels(waves[0], "LA2")["0101"]
        assert page.locator("#map-spoken").inner_text() == f"{name}: {100 * old / women:.1f}%"
    page.get_by_role("tab", name="Table").click()
    page.wait_for_selector("#panel table")
    href = page.locator("#get-csv").get_attribute("href")
    assert "measure=percent&of=LA2%2Cgender" in href, "the download is what is shown"
    assert page.locator("thead").inner_text().count("Percent of all persons of each District and Sex") == 1


def test_values_that_were_chosen_are_shown_together_where_tables_add_up(reader, visitor, waves):
    ages = ["14", "15", "16", "17", "18"]
    page = reader.visit(link(level_area="LA2", by="gender,age", view="map", only_gender="2", only_age=",".join(ages)))
    assert title(page) == "Female, 66-70 + 71-75 + 76-80 + 81-85 + over 85, 2026: persons by District"
    women = waves[2].table("LA2.gender.age").filter((pl.col("LA2") == "0101") & (pl.col("gender") == 2))
    old = women.filter(pl.col("age").is_in([int(age) for age in ages]))["N_masked"].sum()
    name = labels(waves[2], "LA2")["0101"]

    def spoken() -> str:
        settled(page)
        page.locator("#map").focus()
        page.keyboard.press("Home")
        return page.locator("#map-spoken").inner_text()

    assert spoken() == f"{name}: {old}"
    assert page.locator("#pick-age option").first.inner_text() == "5 together"
    page.locator("#measure").select_option("percent")
    page.locator("h1", has_text="ercent").wait_for()
    page.locator("#of").select_option(label="all persons (Female) of each District")
    page.locator("h1", has_text="(Female)").wait_for()
    assert spoken() == f"{name}: {100 * old / women['N_masked'].sum():.1f}%"
    page.locator("#of").select_option(value="LA2,age")
    page.locator("h1", has_text="all persons (66-70 + 71-75 + 76-80 + 81-85 + over 85) of each District").wait_for()
    people = waves[2].table("LA2.age").filter(pl.col("LA2") == "0101", pl.col("age").is_in([int(age) for age in ages]))
    assert spoken() == f"{name}: {100 * old / people['N_masked'].sum():.1f}%"
    assert "Index" not in page.locator("#measure").inner_text(), "an index of a sum is not published"
    page.locator("#measure").select_option("change")
    page.locator("h1", has_text="hange").wait_for()
    before = waves[1].table("LA2.gender.age").filter((pl.col("LA2") == "0101") & (pl.col("gender") == 2))
    fewer = before.filter(pl.col("age").is_in([int(age) for age in ages]))["N_masked"].sum()
    assert spoken().endswith(f"{abs(old - fewer)}")
    reader.go(page, link(level_area="LA2", by="gender,age", view="chart", only_age=",".join(ages), colours="none"))
    assert page.locator("#pick-age").input_value() == ""
    # Tables of iLBA do not add up: one value is shown, as the title says.
    page = visitor.visit(link(level_area="LA2", by="gender,age", view="map", only_gender="2", only_age=",".join(ages)))
    assert title(page) == "Female, 66-70: count by District"


def test_an_index_is_offered_only_where_there_is_a_share_to_compare(reader):
    page = reader.visit(link(level_area="LA2", by="", view="map", measure="index"))
    assert "Index" not in page.locator("#measure").inner_text()
    assert page.locator("#measure").input_value() == "count", "as every measure that is not there"
    reader.go(page, link(level_area="LA2", by="gender", view="map", measure="index", pick_gender="2", of=""))
    assert page.locator("#measure").input_value() == "index"
    assert page.locator("#of").count() == 0, "of everybody it would be each area's part of all"
    reader.go(page, link(level_area="LA2", by="gender", view="map", measure="index", pick_gender=""))
    assert page.locator("#measure").input_value() == "count"


def test_the_map_names_the_table_only_where_its_numbers_are_there(reader):
    same = "The same numbers are in the table."
    page = reader.visit(link(level_area="LA2", by="age", view="map", pick_age="14"))
    assert same in page.locator("#map-help").text_content()
    for state in ({"only_age": "14,15"}, {"pick_age": ""}):
        reader.go(page, link(level_area="LA2", by="age", view="map", **state))
        assert same not in page.locator("#map-help").text_content(), state


def test_no_line_of_a_title_ends_inside_a_band(reader):
    page = reader.visit(
        link(level_area="LA2", by="age", view="map", only_age="14,15"), viewport={"width": 390, "height": 844}
    )
    bands = page.locator("#title .band")
    assert bands.all_inner_texts() == ["66-70", "71-75"]
    assert bands.evaluate_all("all => all.map((one) => one.getClientRects().length)") == [1, 1]


def test_the_first_of_several_times_is_no_number_of_a_change(reader):
    page = reader.visit(link(level_area="", by="", view="chart", kind="lines", measure="change"))
    assert page.locator("#summary").inner_text().startswith("2 numbers.")


def test_the_files_have_what_is_shown_also_a_sum(reader, waves, tmp_path):
    ages = [14, 15, 16, 17, 18]
    chosen = {"level_area": "LA2", "by": "age", "only_age": ",".join(map(str, ages)), "measure": "percent"}
    page = reader.visit(link(lang="en", view="map", **chosen))
    with page.expect_download() as download:
        page.locator("#get-sum").click()
    assert download.value.suggested_filename.endswith(".sum.csv"), "the file with the single values has the other name"
    found = pl.read_csv(Path(download.value.path()))
    assert page.locator("#get-sum").inner_text() == f"CSV, added up as shown · {found.height} numbers"
    assert "numbers" not in page.locator("#take h3").first.inner_text(), "the files hold different numbers"
    assert found.columns == ["District", "Time", "Age group", "Percent of all persons of each District"]
    old = waves[2].table("LA2.age").filter(pl.col("age").is_in(ages)).group_by("LA2").agg(pl.col("N_masked").sum())
    both = waves[2].table("LA2").join(old, on="LA2", suffix="_old").sort("LA2")
    assert found["District"].to_list() == [labels(waves[2], "LA2")[code] for code in both["LA2"]]
    assert found[found.columns[-1]].to_list() == pytest.approx(
        (100 * both["N_masked_old"] / both["N_masked"]).to_list(), abs=0.001
    )
    assert set(found["Time"]) == {2026}
    assert "have the added values one by one" in page.locator("#files-hint").inner_text()
    assert "valuecodes[age]=14,15,16,17,18&valuecodes[time]=2026" in page.locator("#get-csv").get_attribute("href")
    page.locator("#pick-age").select_option("16")
    page.locator("h1", has_text="76-80, 2026").wait_for()
    settled(page)
    assert "valuecodes[age]=16&valuecodes[time]=2026" in page.locator("#get-csv").get_attribute("href")
    assert page.locator("#get-sum").count() == 0


LOOKS = [("count", "sea", "6"), ("percent", "viridis", "5e"), ("rate", "grey", "3"), ("index", "sea", "4e")]


@pytest.mark.parametrize("level", few(["LA3", "LA2"]))
def test_a_legend_never_shows_a_number_twice_whatever_is_coloured(reader, level):
    page = reader.visit()
    colours = set()
    for measure, palette, cuts in [*LOOKS, ("change", "viridis", "6")]:
        chosen = {"pick_gender": "2", "pick_age": "4", "measure": measure, "palette": palette, "cuts": cuts}
        reader.go(page, link(level_area=level, by="gender,age", view="map", **chosen))
        texts = [text for text in legend(page) if "masked" not in text]
        numbers = re.findall(r"[\d.,]+", " ".join(texts))
        assert len(numbers) == len(set(numbers)) or measure == "change", texts
        assert len(texts) == len(set(texts))
        assert len(texts) <= int(cuts[0]) + (measure == "change")
        assert sum(map(int, page.locator(".legend .size").all_inner_texts())) == {"LA2": 5, "LA3": 78}[level]
        assert page.locator(".legend").get_attribute("data-palette") == palette
        swatches = page.locator(".legend .swatch").evaluate_all(
            "all => all.map(one => getComputedStyle(one).backgroundColor)"
        )
        assert len(set(swatches)) == len(swatches), "each class has a colour of its own"
        colours.add(swatches[-1])
        if palette == "grey":
            shades = [re.findall(r"\d+", colour)[:3] for colour in swatches[1:]]
            assert all(len(set(shade)) == 1 for shade in shades), "printed in grey it is the same"
    assert len(colours) >= 3, "palettes differ"


NAMES = {"count": "persons", "percent": "ercent of", "rate": "er 1,000 of", "index": "ndex", "change": "hange since"}


def test_titles_always_say_what_is_coloured_of_whom_and_when(reader):
    page = reader.visit()
    for view in ("map", "chart"):
        for measure, said in NAMES.items():
            chosen = {"pick_gender": "2", "pick_age": "18", "measure": measure}
            reader.go(page, link(level_area="LA2", by="gender,age", view=view, **chosen))
            for part in (said, "Female", "over 85", "2026", "District"):
                assert part in title(page), (view, measure, part)
    # One value that was ticked is shown as if it was picked, never the total of all.
    ticked = {"only_gender": "2", "only_age": "18", "measure": "percent", "of": "LA2,gender"}
    reader.go(page, link(level_area="LA2", by="gender,age", view="chart", kind="lines", **ticked))
    assert title(page) == "Female, over 85: percent of all persons (Female) of each District, by Time"
    reader.go(page, link(level_area="LA2", by="gender,age", view="table", **ticked))
    assert title(page).startswith("Female, over 85: percent of all persons (Female) of each District, by Time")
    assert len(cells(page)) == 5 * 3


def test_small_multiples_are_drawn_on_one_scale_with_the_published_numbers(reader, waves):
    page = reader.visit(link(level_area="LA2", by="gender", view="chart", multiples="gender", order="listed"))
    assert title(page) == "2026: persons by District and Sex"
    parts = page.locator(".panel-part")
    assert parts.locator("h2").all_inner_texts() == ["Male", "Female"]
    released = waves[-1].table("LA2.gender")
    most = released["N_masked"].max()
    drawn = parts.evaluate_all(
        """all => all.map(one => [...one.querySelectorAll('.bars li')].map(row =>
             [row.querySelector('.bar-number').textContent,
              row.querySelector('.bar').style.getPropertyValue('--share')]))"""
    )
    for gender, rows in zip((1, 2), drawn, strict=True):
        counts = released.filter(gender=gender)["N_masked"].to_list()
        assert [number(text) for text, _ in rows] == counts
        assert [float(share) for _, share in rows] == pytest.approx([n / most for n in counts])
    reader.go(page, link(level_area="", by="gender,age", view="chart", kind="pyramid", multiples="time"))
    assert page.locator("#drawn text[font-weight='600']").all_text_contents()[:6:3] == ["2016", "2021"]
    assert page.locator("#drawn rect").count() == 3 * 2 * 18
    with page.expect_download() as taken:
        page.locator("#picture-svg").click()
    drawn = ElementTree.fromstring(Path(taken.value.path()).read_bytes())
    assert len(list(drawn.iter("{http://www.w3.org/2000/svg}rect"))) == 1 + 3 * 2 * 18


def test_stacked_to_100_percent_writes_the_shares(reader, waves):
    page = reader.visit(link(level_area="LA2", by="gender", view="chart", layout="shares", order="listed"))
    released = waves[-1].table("LA2.gender").group_by("LA2", maintain_order=True).agg("N_masked")["N_masked"].to_list()
    shown = page.locator(".bars li > .lines > .bar-number").all_inner_texts()
    assert shown == [f"{100 * a / (a + b):.0f}% · {100 * b / (a + b):.0f}%" for a, b in released]


def test_a_change_says_what_masking_can_do_to_it(reader, waves):
    page = reader.visit(link(level_area="LA2", by="", view="table", measure="change"))
    assert title(page) == "Change since the time before (2016, 2021, 2026), persons by District and Time"
    towns = [one.table("LA2")["N_masked"].to_list() for one in waves]
    first = [row[-1] for row in cells(page)[:3]]
    assert first[0] == "–"
    assert [number(text.replace("+", "").replace("−", "-")) for text in first[1:]] == [
        towns[1][0] - towns[0][0],
        towns[2][0] - towns[1][0],
    ]
    assert "may come from masking alone" in page.locator("#panel").inner_text()


SVG = "{http://www.w3.org/2000/svg}"


def test_losses_and_gains_go_to_the_two_sides_of_a_line_at_0_also_in_the_picture(reader, waves):
    page = reader.visit(link(lang="en", level_area="LA3", by="", view="chart", measure="change"))
    after, before = (one.table("LA3")["N_masked"].to_list() for one in (waves[2], waves[1]))
    changes = sorted((now - then for now, then in zip(after, before, strict=True)), key=abs, reverse=True)
    shown = page.locator(".bars li").evaluate_all(
        """rows => rows.map(row => {
            const frame = row.querySelector('.lines');
            const { left, right } = row.querySelector('.bar').getBoundingClientRect();
            const zero = frame.getBoundingClientRect().left + parseFloat(getComputedStyle(frame, '::before').left);
            return [row.querySelector('.bar-number').textContent, left - zero, right - zero];
        })"""
    )
    signed = [int(text.replace("−", "-")) for text, _, _ in shown]
    assert [abs(n) for n in signed] == [abs(n) for n in changes[: len(signed)]]
    assert min(signed) < 0 < max(signed)
    scale = max((right - left) / abs(n) for n, (_, left, right) in zip(signed, shown, strict=True) if abs(n) > 9)
    for n, (_, left, right) in zip(signed, shown, strict=True):
        assert (left, right) == pytest.approx((min(0, n * scale), max(0, n * scale)), abs=1.1)
    said = page.locator("#summary").inner_text()
    assert f"({shown[0][0]})" in said.partition("Longest: ")[2]
    assert "highest" not in said.partition("Others")[2]
    with page.expect_download() as taken:
        page.locator("#picture-svg").click()
    drawn = ElementTree.fromstring(Path(taken.value.path()).read_bytes()).find(f"{SVG}g")
    bars = [(float(one.get("x")), float(one.get("width"))) for one in drawn.iter(f"{SVG}rect")]
    zero = float(drawn.find(f"{SVG}line").get("x1"))
    for n, (start, wide) in zip(signed, bars, strict=True):
        assert (start + wide if n < 0 else start) == pytest.approx(zero, abs=0.01)
        assert wide / abs(n or 1) == pytest.approx(bars[0][1] / abs(signed[0]) if n else 0)


def test_a_pyramid_has_no_side_left_for_losses_and_is_not_offered_for_a_change(reader):
    page = reader.visit(link(level_area="", by="gender,age", view="chart", measure="change", kind="pyramid"))
    assert page.locator("#kind option").evaluate_all("all => all.map(one => one.value)") == ["bars", "lines"]
    assert page.locator(".bars").count() == 1


@pytest.mark.parametrize("view", ["map", "chart", "table"])
def test_a_change_at_the_first_time_says_that_there_is_none_before_it(reader, view):
    page = reader.visit(link(level_area="LA2", by="", view=view, measure="change", pick_time="2016", only_time="2016"))
    why = "There is no time before 2016 to compare with. Choose a later time."
    assert why in page.locator("#panel").inner_text()
    assert "total" not in page.locator("main").inner_text().lower().replace("totals", "")
    if view == "map":
        assert page.locator("#summary").inner_text() == why
        page.locator("#map").focus()
        page.keyboard.press("Home")
        assert page.locator("#map-spoken").text_content().endswith(": no number")


def test_the_choice_stays_when_the_time_or_the_view_changes(reader):
    page = reader.visit(link(level_area="LA3", by="gender", in_area="LA2:0102", view="map", pick_gender="2"))
    page.locator("#time").fill("0")
    page.locator("h1", has_text="2016").wait_for()
    settled(page)
    assert page.locator("#pick-gender").input_value() == "2"
    assert "in.area=LA2%3A0102" in page.url
    page.get_by_role("tab", name="Chart").click()
    page.wait_for_selector(".bars")
    settled(page)
    assert "2016" in title(page)


def test_a_pyramid_and_lines_are_drawn_from_the_published_numbers(reader, waves):
    page = reader.visit(link(level_area="", by="gender,age", view="chart"))
    texts = page.locator("#drawn text").evaluate_all("all => all.map(one => one.textContent)")
    shown = waves[-1].table("all.gender.age")["N_masked"].to_list()
    assert sorted(number(text) for text in texts if re.fullmatch(r"[\d,]+", text)) == sorted(
        [*shown, *[0] * (36 - len(shown))]
    )
    page.locator("#kind").select_option("lines")
    page.locator("h1", has_text="by Time").wait_for()
    settled(page)
    assert page.locator("#drawn circle").count() == 2 * 3
    assert page.locator("#drawn circle title").evaluate_all("all => all.map(one => one.textContent)") == [
        f"{n:,}"
        for sex in (1, 2)
        for n in (one.table("all.gender").filter(gender=sex)["N_masked"].item() for one in waves)
    ]


WITHIN = """all => all.flatMap(one => {
    const [text, frame] = [one, one.closest('svg, .chart')].map(each => each.getBoundingClientRect());
    return text.left < frame.left || text.right > frame.right || text.bottom > frame.bottom ? [one.textContent] : [];
})"""


@pytest.mark.parametrize("lang", few(["fr", "en", "ko", "es"]))
@pytest.mark.parametrize("width", [360, 390, 1280])
def test_lines_cut_names_and_never_a_number(communes, lang, width):
    page = communes.visit(viewport={"width": width, "height": 844})
    for state in ({"by": ""}, {"by": "sex", "multiples": "sex"}, {"by": "", "measure": "rate", "of": ""}):
        communes.go(page, link(lang=lang, level_area="commune", view="chart", kind="lines", colours="commune", **state))
        texts = page.locator("#drawn text")
        assert texts.evaluate_all(WITHIN) == [], state
        assert any("… " in text for text in texts.all_text_contents()) or width > 390, "a name is too long here"


@pytest.mark.parametrize("width", [360, 1280])
def test_ranges_beside_bars_stay_inside_the_chart(visitor, width):
    page = visitor.visit(viewport={"width": width, "height": 844})
    for by, kind in (("", "bars"), ("gender", "bars"), ("gender,age", "pyramid")):
        visitor.go(page, link(level_area="LA2", by=by, view="chart", range="1", kind=kind))
        assert page.locator(".bar-number, #drawn text").evaluate_all(WITHIN) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        with page.expect_download() as taken:
            page.locator("#picture-svg").click()
        other = page.context.new_page()
        other.set_content(Path(taken.value.path()).read_text(encoding="utf-8"))
        assert other.locator("text").evaluate_all(WITHIN) == [], "the picture is whole, too"
        other.close()


def test_the_doubt_about_a_highest_sum_grows_with_the_counts_that_are_added(communes, brume):
    published = brume[1].table("commune.age").with_columns(pl.col("age").cast(pl.String))
    for ages, limit in ((["0"], 15), (["0", "1", "2", "3"], 30)):
        page = communes.visit(link(lang="en", level_area="commune", by="age", view="map", only_age=",".join(ages)))
        sums = published.filter(pl.col("age").is_in(ages)).group_by("commune").agg(pl.col("N_masked").sum())
        second, first = sums["N_masked"].sort()[-2:]
        assert 15 < first - second <= 30, "one limit for every sum would not tell these from each other"
        said = page.locator("#summary").inner_text()
        assert f"Highest: Crécy ({first:,})" in said
        assert ("highest" in said.partition("Others are so close")[2]) == (first - second <= limit)
    page.locator("#open-explain").click()
    assert "of up to 15 between two numbers" in page.locator("#explain").inner_text()
    assert "For sums of four values both are twice as large" in page.locator("#explain").inner_text()


def test_bars_are_sorted_where_they_are_areas_and_stack_to_a_hundred(reader, waves):
    page = reader.visit(link(level_area="LA2", by="gender", view="chart", layout="shares"))
    widths = page.locator(".bars li").evaluate_all(
        """rows => rows.map(row => [...row.querySelectorAll('.bar')]
             .reduce((sum, one) => sum + 100 * one.style.getPropertyValue('--share'), 0))"""
    )
    assert widths == pytest.approx([100] * 5)
    told = page.locator(".bars li > .lines > .bar-number").all_inner_texts()
    assert all(99 <= sum(int(share) for share in re.findall(r"(\d+)%", text)) <= 101 for text in told)
    page = reader.visit(link(level_area="LA2", by="gender", view="chart", layout="stacked"))
    totals = [number(text) for text in page.locator(".bars li > .lines > .bar-number").all_inner_texts()]
    assert totals == sorted(waves[-1].table("LA2")["N_masked"].to_list(), reverse=True)


@pytest.mark.parametrize("view", ["map", "chart"])
def test_a_picture_carries_title_unit_caveat_source_and_licence(reader, view):
    page = reader.visit(link(level_area="LA2", by="gender", view=view, measure="change"))
    assert "2026: change since 2021, persons by District" in title(page), "with one time it is known since when"
    found = {}
    for kind in ("svg", "png"):
        with page.expect_download() as download:
            page.locator(f"#picture-{kind}").click()
        found[kind] = Path(download.value.path()).read_bytes()
        assert download.value.suggested_filename.endswith(f".{kind}")
    drawn = ElementTree.fromstring(found["svg"])
    said = " ".join(text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text"))
    for part in (title(page), "persons", "may come from masking alone", "Synthetic census", "CC BY 4.0"):
        assert part in said, part
    assert found["png"].startswith(b"\x89PNG")
    assert len(found["png"]) > 10_000


def test_a_drawing_that_leaves_series_or_bars_out_says_so_and_keeps_the_largest(reader, waves):
    page = reader.visit(link(level_area="", by="age", view="chart", kind="lines", colours="age"))
    drawn = page.locator("#drawn").inner_text()
    newest = waves[-1].table("all.age").sort("N_masked", descending=True)
    largest = [labels(waves[-1], "age")[str(code)] for code in newest["age"]]
    assert page.locator("#drawn path").count() == 8
    assert largest[0] in drawn, "the summary names the largest, so it is drawn"
    assert page.locator(".chart .more").inner_text() == "Age group: 8 of 18 shown"
    for state, said in (
        ({"level_area": "", "by": "age", "kind": "lines", "colours": "age"}, "Age group: 8 of 18 shown"),
        ({"level_area": "LA3", "by": "", "kind": "bars"}, "Town: 40 of 78 shown"),
    ):
        reader.go(page, link(view="chart", **state))
        with page.expect_download() as download:
            page.locator("#picture-svg").click()
        svg = ElementTree.fromstring(Path(download.value.path()).read_bytes())
        assert said in " ".join(text.text or "" for text in svg.iter("{http://www.w3.org/2000/svg}text"))


def test_ranges_are_shown_where_a_bound_is_known_and_nowhere_else(reader, visitor, census):
    page = reader.visit(link(level_area="LA2", by="", view="table"))
    assert page.get_by_label("Show ranges").count() == 0
    other = visitor.visit(link(level_area="LA2", by="", view="table"))
    other.get_by_label("Show ranges").check()
    n = census.table("LA2")["N_masked"][0]
    other.get_by_text(f"{n:,} ({n - 7:,} – {n + 7:,})").wait_for()
    visitor.go(other, link(level_area="LA2", by="gender", view="chart", measure="percent", range="1", order="listed"))
    men = census.table("LA2.gender")["N_masked"][0]
    low, high = 100 * (men - 7) / (n + 7), 100 * (men + 7) / (n - 7)
    assert f"{100 * men / n:.1f}% ({low:.1f}% – {high:.1f}%)" in other.locator(".bars").inner_text()
    visitor.go(other, link(level_area="LA2", by="", view="map", range="1"))
    other.locator("#map").focus()
    other.keyboard.press("Home")
    assert other.locator("#map-spoken").inner_text().endswith(f"{n:,} ({n - 7:,} – {n + 7:,})")
    assert "range=true" in other.locator("#get-csv").get_attribute("href"), "downloads have it, too"


PLACES = [("es", "dark", 390), ("en", "light", 390), ("ko", "dark", 1440), ("fr", "light", 1440)]


@pytest.mark.parametrize(("lang", "scheme", "width"), few(PLACES))
def test_axe_finds_nothing_in_the_views_over_time(reader, lang, scheme, width):
    import axe_playwright_python

    axe = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
    page = reader.visit(color_scheme=scheme, viewport={"width": width, "height": 900}, bypass_csp=True)
    for state in (
        {"level_area": "LA3", "by": "gender", "view": "map", "measure": "change"},
        {"level_area": "", "by": "gender,age", "view": "chart"},
        {"level_area": "LA2", "by": "", "view": "chart", "kind": "lines", "measure": "index"},
    ):
        reader.go(page, link(lang=lang, **state))
        page.locator("#look").evaluate_all("all => all.forEach(one => { one.open = true; })")
        page.evaluate(axe)
        told = page.evaluate(
            "axe.run().then(({ violations }) => violations.map(({ id, nodes }) => [id, nodes[0].html]))"
        )
        assert told == [], state
        assert page.evaluate("document.documentElement.scrollWidth") == width, state
