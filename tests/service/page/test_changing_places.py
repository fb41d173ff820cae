"""Places that come and go between waves, and waves that are unequally far apart, in a real browser."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest

import ilba
from support.browsing import Visitor, link, number, title
from support.people import reformed
from support.serving import serving

pytestmark = pytest.mark.slow

SIZES = {
    "2001": {"a1": 300, "a2": 200, "a3": 150},
    "2021": {"a1": 310, "a2": 250, "a3": 160},
    "2022": {"a1": 500, "a2": 240},
}
NEW = {"2001": {"b1": 400}, "2021": {"b1": 390}, "2022": {"b1": 300, "b2": 110}}
PROVINCES = {"a": "Airy", "b": "Blue"}
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def waves(tmp_path_factory):
    """Three waves of two provinces. One town went into another in 2022, and one was made."""
    home, found = tmp_path_factory.mktemp("changing"), {}
    for wave, old in SIZES.items():
        towns = old | NEW[wave]
        each = [(town, n) for town, size in towns.items() for n in range(size)]
        rows = [(town[0], town, "fm"[n % 2], "young" if n % 3 else "old") for town, n in each]
        people = pl.DataFrame(rows, schema=["province", "town", "sex", "age"], orient="row")
        listed = [("province", code, name, None) for code, name in PROVINCES.items()]
        listed += [("town", town, f"Town {town}", town[0]) for town in towns]
        codes = pl.DataFrame(listed, schema=["variable", "code", "label_en", "parent"], orient="row")
        told = {"population": "isle", "wave": wave, "unit": "persons", "labels": codes}
        finest = ilba.build(people, ["province", "town"], ["sex", "age"], secret=ilba.Secret(bytes(range(32))), **told)
        found[wave] = finest.release(home / wave, "controlled", title="Isle", labels=codes, ledger=False)
    return found


@pytest.fixture(scope="module")
def isle(waves):
    with serving(*(one.path for one in waves.values()), options=("--no-access-log",)) as running:
        yield running.address.rstrip("/")


@pytest.fixture
def isle_reader(browser, isle):
    visitor = Visitor(browser, isle)
    yield visitor
    visitor.close()


def view(by="sex", **state):
    return link(**{"level_area": "town", "by": by, "view": "chart", "colours": "none", **state})


def shown(page) -> dict[str, str]:
    names = page.locator(".bars .bar-label").all_inner_texts()
    return dict(zip(names, page.locator(".bars .bar-number").all_inner_texts(), strict=True))


def people(waves, wave, sex, province) -> int:
    table = waves[wave].table("province.sex")
    return table.filter(pl.col("province") == province, pl.col("sex") == sex)["N_masked"].item()


@pytest.mark.parametrize("state", [{}, {"measure": "change"}, {"measure": "percent", "of": "time"}])
@pytest.mark.parametrize(("towns", "wave", "lost"), [("a1,a3", "2022", "Town a3"), ("b1,b2", "2021", "Town b2")])
def test_a_sum_of_places_has_no_number_where_one_of_them_did_not_exist(isle_reader, towns, wave, lost, state):
    page = isle_reader.visit(view(only_town=towns + ",a2", bars="sex", pick_time=wave, **state))
    assert page.locator("#panel .empty").inner_text() == f"{lost}: not in {wave}."
    with page.expect_download() as download:
        page.locator("#get-sum").click()
    assert pl.read_csv(Path(download.value.path())).to_series(-1).to_list() == [None, None]


def test_the_change_of_a_sum_needs_both_times(isle_reader):
    page = isle_reader.visit(view(only_town="b1,b2,a1", bars="sex", pick_time="2022", measure="change"))
    assert page.locator("#panel .empty").inner_text() == "Town b2: not in 2021."
    isle_reader.go(page, view(only_town="b1,b2,a1", kind="lines"))
    assert page.locator("#drawn circle").count() == 1
    isle_reader.go(page, view(only_town="a1,a3", kind="lines"))
    assert page.locator("#drawn circle").count() == 2
    assert "Town a3: not in 2022" in page.locator("#drawn").text_content()


@pytest.mark.parametrize("province", PROVINCES)
def test_a_sum_of_all_places_inside_an_area_is_the_number_of_the_area(isle_reader, waves, province):
    inside = {"in_area": f"province:{province}", "bars": "sex", "order": "listed"}
    page = isle_reader.visit(view(pick_time="2022", **inside))
    now, before = ({sex: people(waves, wave, sex, province) for sex in "fm"} for wave in ("2022", "2021"))
    assert {sex: number(text) for sex, text in shown(page).items()} == now
    assert title(page) == f"{PROVINCES[province]}, 2022: persons by sex"
    isle_reader.go(page, view(pick_time="2022", measure="change", **inside))
    told = {sex: number(text.replace("−", "-").replace("+", "")) for sex, text in shown(page).items()}
    assert told == {sex: now[sex] - before[sex] for sex in "fm"}


def test_a_bar_that_is_stacked_has_no_sum_without_one_of_its_parts(isle_reader, waves):
    stacked = {"bars": "sex", "colours": "town", "pick_time": "2022"}
    page = isle_reader.visit(view(only_town="a1,a3", layout="stacked", **stacked))
    assert set(page.locator(".bars .bar-number").all_inner_texts()) == {"Town a3: not in 2022"}
    assert page.locator("#summary").inner_text() == "Town a3: not in 2022."
    isle_reader.go(page, view(only_town="a1,a3", layout="shares", **stacked))
    assert set(page.locator(".bars .bar-number").all_inner_texts()) == {"Town a3: not in 2022"}
    isle_reader.go(page, view(in_area="province:a", layout="stacked", **stacked))
    assert {number(text) for text in shown(page).values()} == {people(waves, "2022", sex, "a") for sex in "fm"}


def test_nothing_is_called_0_that_did_not_exist(isle_reader):
    page = isle_reader.visit(view(only_town="a3", bars="sex", pick_time="2022"))
    assert page.locator("#panel .empty").inner_text() == "Not in 2022."
    isle_reader.go(page, view(only_town="a3", bars="sex", pick_time="2022", lang="fr"))
    assert page.locator("#panel .empty").inner_text() == "N’existe pas en 2022."


def test_what_is_0_and_what_did_not_exist_are_told_apart_where_there_is_nothing_to_draw(browser, tmp_path):
    both = reformed(tmp_path)
    with serving(*(one.path for one in both)) as server:
        visitor = Visitor(browser, server.address.rstrip("/"))
        chosen = {"only_town": "2,4", "bars": "town", "colours": "none", "pick_time": "2026"}
        page = visitor.visit(link(release="reg", level_area="town", view="chart", **chosen))
        said = "There is nothing to draw: every count is 0. Old (not in 2026)."
        assert page.locator("#panel .empty").inner_text() == said
        visitor.close()


def test_areas_that_are_put_together_have_the_numbers_of_what_the_map_shows(isle_reader, waves):
    page = isle_reader.visit(view("sex,age", view="map", pick_sex="f", pick_age="old", pick_time="2021"))
    page.locator("#own summary").click()
    for codes in ("a1,b1", "a1,a3"):
        page.locator("#own-codes").fill(codes)
        page.locator("#own-add").click()
    cells = page.locator("#own-result tbody td.number:nth-child(3)")
    cells.nth(1).wait_for()

    def old_women(wave, *towns):
        chosen = pl.col("town").is_in(towns) & (pl.col("sex") == "f") & (pl.col("age") == "old")
        return str(waves[wave].table("town.sex.age").filter(chosen)["N_masked"].sum())

    assert cells.all_inner_texts() == [old_women("2021", "a1", "b1"), old_women("2021", "a1", "a3")]
    head = page.locator("#own-result th").nth(2)
    assert head.inner_text() == "persons, f, old, 2021"
    page.locator("#time").fill("2")
    page.locator("#own-result th", has_text="2022").wait_for()
    assert head.inner_text() == "persons, f, old, 2022"
    assert cells.all_inner_texts() == [old_women("2022", "a1", "b1"), "Town a3: not in 2022"]
    isle_reader.go(page, view("sex,age", view="map", pick_sex="", only_age="old", pick_time="2021"))
    assert title(page) == "Old, 2021: persons by town"


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_view_inside_an_area_names_it_wherever_its_title_goes(isle_reader, isle, kind):
    inside = view(view="map", in_area="province:a", pick_time="2022", measure="change", pick_sex="")
    page = isle_reader.visit(inside)
    said = "Airy, 2022: change since 2021, persons by town"
    assert title(page) == said
    assert said in page.locator("#cite-text").input_value()
    with page.expect_download() as download:
        page.locator(f"#picture-{kind}").click()
    assert download.value.suggested_filename == f"Airy-2022-change-since-2021-persons-by-town.{kind}"
    isle_reader.go(page, page.url.removeprefix(f"{isle}/").replace("table/", "embed/table/"))
    assert title(page) == said
    isle_reader.go(page, view(view="table", in_area="province:a"))
    assert title(page) == "Airy: persons by town, sex and Time"


def test_the_times_that_a_change_compares_are_named_in_title_column_and_file(isle_reader):
    page = isle_reader.visit(view("", view="table", measure="change"))
    assert title(page) == "Change since the time before (2001, 2021, 2022), persons by town and Time"
    isle_reader.go(page, view("", view="table", measure="change", only_time="2001,2022"))
    assert title(page) == "Change since 2001, persons by town and Time"
    assert "Change since 2001" in page.locator("thead").inner_text()
    assert "Change since 2001" in page.locator("#cite-text").input_value()
    with page.expect_download() as download:
        page.locator("#get-csv").click()
    assert pl.read_csv(Path(download.value.path())).columns[-1] == "change since 2001"


def test_a_change_at_the_first_time_is_called_a_change_without_a_time_before(isle_reader):
    page = isle_reader.visit(view("", view="map", measure="change", pick_time="2001"))
    assert title(page) == "2001: change, persons by town"
    assert "2001: change, persons by town" in page.locator("#cite-text").input_value()
    isle_reader.go(page, view("", view="table", measure="change", only_time="2001"))
    assert "since" not in title(page) + page.locator("thead").inner_text()
    isle_reader.go(page, view("", view="map", measure="change", pick_time="2001", lang="fr"))
    assert title(page) == "2001\u00a0: évolution, persons selon town"


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"colours": "town"}, "Town b2 (not in 2001) · Town b2 (not in 2021) · Town a3 (not in 2022)"),
        (
            {"colours": "sex", "multiples": "town"},
            "Town b2 (not in 2001) · Town b2 (not in 2021) · Town a3 (not in 2022)",
        ),
        ({"colours": "town", "lang": "ko"}, "Town b2 (2001에 없음) · Town b2 (2021에 없음) · Town a3 (2022에 없음)"),
        ({"only_town": "b2"}, "Not in 2001 · Not in 2021"),
        ({"only_town": "b1,b2"}, "Town b2: not in 2001 · Town b2: not in 2021"),
    ],
)
def test_lines_over_time_say_which_place_did_not_exist_when(isle_reader, state, said):
    page = isle_reader.visit(view(kind="lines", **state))
    assert page.locator("#panel .more").inner_text() == said
    with page.expect_download() as download:
        page.locator("#picture-svg").click()
    drawn = ElementTree.fromstring(Path(download.value.path()).read_bytes())
    texts = " ".join(text.text or "" for text in drawn.iter(f"{SVG}text"))
    assert " ".join(said.split()) in " ".join(texts.split())


@pytest.mark.parametrize("width", [390, 1280])
def test_times_stand_as_far_apart_as_they_are_and_their_names_hide_no_other(isle_reader, width):
    page = isle_reader.visit(view(colours="town", kind="lines"), viewport={"width": width, "height": 900})
    drawn = page.locator("#drawn circle").evaluate_all("all => all.map(one => Number(one.getAttribute('cx')))")
    first, second, third = sorted(set(drawn))
    assert (second - first) / (third - first) == pytest.approx(20 / 21)
    names = [one.bounding_box() for one in page.locator("#drawn text").all() if one.text_content() in SIZES]
    assert len(names) == 3
    for n, one in enumerate(names):
        for other in names[:n]:
            across, down = abs(one["x"] - other["x"]), abs(one["y"] - other["y"])
            assert across >= min(one["width"], other["width"]) or down >= 0.8 * one["height"]


def test_the_picture_of_a_map_says_which_areas_did_not_exist(browser, tmp_path):
    both = reformed(tmp_path)
    with serving(*(one.path for one in both)) as server:
        visitor = Visitor(browser, server.address.rstrip("/"))
        page = visitor.visit(link(release="reg", level_area="town", view="map", pick_time="2026"))
        with page.expect_download() as download:
            page.locator("#picture-svg").click()
        drawn = ElementTree.fromstring(Path(download.value.path()).read_bytes())
        assert "Not in 2026: Old." in " ".join(text.text or "" for text in drawn.iter(f"{SVG}text"))
        visitor.close()


def test_french_signs_that_follow_a_space_stay_on_the_line_of_their_word(isle_reader):
    page = isle_reader.visit(view(lang="fr", bars="sex", pick_time="2022"))
    assert title(page) == "2022\u00a0: persons selon sex"
    loose = "text => Object.values(text.default).filter((one) => / [:;?!»]|« /.test(one))"
    assert page.evaluate(f"async () => ({loose})(await import('/static/words/fr.js'))") == []
