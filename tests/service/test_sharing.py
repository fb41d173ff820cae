"""Addresses that are shared, and what search engines, portals and tools read, over HTTP."""

from __future__ import annotations

import html
import itertools
import json
import re
import struct
import xml.etree.ElementTree as ElementTree
from importlib import resources
from urllib.parse import quote

import httpx
import numpy as np
import polars as pl
import pytest

import ilba
from ilba.output.wording import LANGUAGES, WordedTable
from ilba.service import pictures
from ilba.service.outlines import Outlines
from ilba.service.places import Pyramid
from ilba.service.sharing import _foot
from support.people import ILBA, reformed
from support.serving import PLAIN, problem, serving

pytestmark = pytest.mark.slow

MARKUP = '<script>alert("1")</script>'


@pytest.fixture(scope="module")
def web(server):
    with httpx.Client(base_url=server.address, **PLAIN) as one:
        yield one


def head(page: str) -> dict[str, str]:
    """What a page says to those who pass it on."""
    found = re.findall(r'<meta (?:property|name)="([^"]+)" content="([^"]*)">', page)
    return {name: html.unescape(text) for name, text in found}


def rows(page: str, table: int) -> list[list[str]]:
    body = re.findall(r"<tbody>(.*?)</tbody>", page, re.S)[table]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.S) for row in re.findall(r"<tr>(.*?)</tr>", body, re.S)]
    return [[html.unescape(cell) for cell in row] for row in found]


@pytest.mark.parametrize("lang", ["en", "ko", "fr", "es"])
def test_a_table_has_an_address_with_a_title_and_a_picture(web, client, lang):
    answer = web.get("/table/town.sex", params={"lang": lang})
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    told = head(answer.text)
    label = client.get("/tables/town.sex", params={"lang": lang}).json()["label"]
    assert html.unescape(re.search("<title>(.*?)</title>", answer.text)[1]) == told["og:title"] == label
    assert told["og:url"] == f"{str(web.base_url).rstrip('/')}/table/town.sex?lang={lang}"
    picture = web.get(told["og:image"])
    assert picture.headers["content-type"] == "image/png"
    assert struct.unpack(">II", picture.content[16:24]) == (1200, 630)
    assert f'<html lang="{lang}"' in answer.text


def test_a_shared_address_may_carry_what_others_added_and_speaks_the_language_of_the_reader(web):
    answer = web.get("/table/town.sex?utm_source=x&fbclid=y", headers={"Accept-Language": "de, ko-KR;q=0.8"})
    assert answer.status_code == 200
    assert '<html lang="ko"' in answer.text
    assert "Accept-Language" in answer.headers["vary"]


def test_the_page_of_a_place_says_what_is_published_about_it(web, releases, finest):
    page = web.get("/place/people/town/0101?lang=en").text
    told = head(page)
    towns = finest.table("town", []).public()
    count = towns.filter(town="0101")["N_masked"].item()
    rank = 1 + (towns["N_masked"] > count).sum()
    assert f'<p class="single">{count:,}</p>' in page
    assert f"Number {rank} of {towns.height} by size" in page
    assert told["og:title"] == "0101 – People"
    assert f"{count:,}" in told["og:description"]
    assert f"between {count - 7:,} and {count + 7:,}" in page, "the range that iLBA is known for"
    pyramid = finest.table("town", ["sex", "age"]).public().filter(town="0101")
    shown = rows(page, 0)
    for n, sex in enumerate("fm", 1):
        ages = dict(pyramid.filter(sex=sex).select("age", "N_masked").iter_rows())
        assert [int(row[n]) for row in shown] == [ages.get(int(row[0]), 0) for row in shown]
    by_sex = finest.table("town", ["sex"]).public().filter(town="0101")["N_masked"].to_list()
    assert [row[1] for row in rows(page, 1)] == [f"{n:,}" for n in by_sex]
    assert [row[2] for row in rows(page, 1)] == [f"{100 * n / count:.1f}%" for n in by_sex]
    assert 'href="/place/people/region/01?lang=en">North</a>' in page, "the way up"
    assert '<a href="/?lang=en#release=people&amp;about=1">About these numbers</a>' in page
    assert 'href="/place/people/town/0102?lang=en"' in page, "others of the region, where there is no map"


def test_a_rank_that_several_places_have_is_said_to_be_shared(tmp_path, secret):
    sizes = {"a": {"f": 40, "m": 20}, "b": {"f": 30, "m": 30}, "c": {"f": 20}, "d": {"f": 40, "m": 20}}
    people = [(town, sex) for town, sexes in sizes.items() for sex, n in sexes.items() for _ in range(n)]
    finest = ilba.build(pl.DataFrame(people, schema=["town", "sex"], orient="row"), ["town"], ["sex"], secret=secret)
    finest.release(tmp_path / "towns", title="Towns", ledger=False)
    with serving(tmp_path / "towns") as server, httpx.Client(base_url=server.address, **PLAIN) as web:
        pages = {town: web.get(f"/place/towns/town/{town}?lang=en").text for town in sizes}
    assert "<li>Number 1 of 4 by size (shared by 3)</li>" in pages["b"]
    assert "<li>Number 4 of 4 by size</li>" in pages["c"]
    assert [row[-1] for row in rows(pages["a"], 0)] == ["≈2 =", "≈2 ="]


def test_a_rank_that_masking_may_decide_is_marked_and_said_also_beside_a_second_place(tmp_path, secret):
    sizes = {"a": {"f": 100, "m": 100}, "b": {"f": 171, "m": 19}, "c": {"f": 60, "m": 40}, "d": {"f": 400, "m": 0}}
    people = [(town, sex) for town, sexes in sizes.items() for sex, n in sexes.items() for _ in range(n)]
    finest = ilba.build(pl.DataFrame(people, schema=["town", "sex"], orient="row"), ["town"], ["sex"], secret=secret)
    finest.release(tmp_path / "towns", title="Towns", ledger=False)
    with serving(tmp_path / "towns") as server, httpx.Client(base_url=server.address, **PLAIN) as web:
        pages = {town: web.get(f"/place/towns/town/{town}?lang=en").text for town in sizes}
        both = web.get("/place/towns/town/a?lang=en&with=c").text
    doubt = ", but others are so close that masking may decide it"  # up to 15 between counts of K=5
    assert f"<li>Number 2 of 4 by size{doubt}</li>" in pages["a"]
    assert f"Number 2 of 4 by size{doubt}" in head(pages["a"])["og:description"]
    assert "<li>Number 4 of 4 by size</li>" in pages["c"]
    assert (f"<li>Number 2 of 4 by size{doubt}</li>" in both, "<li>Number 4 of 4 by size</li>" in both) == (True, True)
    # 7.5 of 200 and of 100 are 3.75 and 7.5 points: 50% and 60% are close, 90% and 100% are not.
    ranks = {town: [row[-1] for row in rows(page, 0)] for town, page in pages.items()}
    assert ranks == {"a": ["≈4", "≈1"], "b": ["2", "3"], "c": ["≈3", "≈2"], "d": ["1", "4"]}
    assert "With ≈, others are so close that masking may decide it." in pages["a"]


def test_places_without_people_are_not_counted_among_those_that_have_a_rank(tmp_path, secret):
    people = pl.DataFrame({"town": ["a"] * 20 + ["b"] * 30, "sex": ["f", "m"] * 25})
    labels = pl.DataFrame({"variable": ["town"] * 3, "code": ["a", "b", "empty"]})
    finest = ilba.build(people, ["town"], ["sex"], secret=secret, labels=labels)
    finest.release(tmp_path / "towns", title="Towns", labels=labels, ledger=False)
    with serving(tmp_path / "towns") as server, httpx.Client(base_url=server.address, **PLAIN) as web:
        page = web.get("/place/towns/town/a?lang=en").text
        empty = web.get("/place/towns/town/empty?lang=en").text
    assert ">Rank of 2</th>" in page
    assert {row[-1] for row in rows(empty, 0)} == {"–"}


def test_a_place_has_no_number_rank_or_change_in_a_wave_in_which_it_did_not_exist(tmp_path):
    both = reformed(tmp_path)
    with serving(*(one.path for one in both)) as server, httpx.Client(base_url=server.address, **PLAIN) as web:

        def read(town, **asked):
            return web.get(f"/place/reg/town/{town}", params={"lang": "en", **asked}).text

        early, late, east = read("3", time="2025"), read("3"), read("1", time="2025")
        assert '<p class="single">not in 2025</p>' in early
        assert '<ul class="facts"></ul>' in early
        assert "<li>not in 2025</li>" in late
        assert "since" not in late.partition("</ul>")[0]
        assert "Number 1 of 3 by size" in late
        assert "<li>±0 since 2025 (such a change may come from masking alone)</li>" in read("4")
        assert "Number 2 of 3 by size" in east, "of the towns of 2025"
        assert "New" not in east.partition('class="neighbours"')[2].partition("</section>")[0]
        assert "n’existe pas en 2025" in web.get("/place/reg/town/3", params={"lang": "fr", "time": "2025"}).text
        beside = read("3", time="2025", **{"with": "1"})
        assert "not in 2025" in beside
        assert '<section class="side" aria-label="East">' in beside
        assert web.get("/picture/place/reg/town/3", params={"time": "2025"}).status_code == 200


def test_two_places_stand_side_by_side_by_code_or_by_name(web):
    for wanted in ("0102", " 0102 "):
        page = web.get("/place/people/town/0101", params={"with": wanted, "lang": "en"}).text
        assert re.findall(r'<section class="side" aria-label="([^"]+)"', page) == ["0101", "0102"]
    apart = [web.get(f"/place/people/town/{code}", params={"lang": "en"}).text for code in ("0101", "0102")]
    alone = [[row[:3] for row in rows(one, 1)] for one in apart]
    together = [row[:5] for row in rows(page, 2)]
    assert together == [[*one, *other[1:]] for one, other in zip(*alone, strict=True)], "one row for both"
    drawn = re.findall(r'<rect x="[\d.]+" y="[\d.]+" width="([\d.]+)"', page)
    assert max(map(float, drawn)) < 200, "both are drawn in one scale, inside the picture"
    several = web.get("/place/people/town/0101", params={"with": "01", "lang": "en"}).text
    assert re.findall(r'<section class="side" aria-label="([^"]+)"', several) == ["0101"]
    others = [code for code in re.findall(r'<option value="([^"]+)"', page) if code.startswith("01") and code != "0101"]
    assert f"Several places fit 01: {', '.join(others)}." in several, "the place itself is none of them"
    nowhere = web.get("/place/people/town/0101", params={"with": MARKUP, "lang": "en"}).text
    assert "There is no place" in nowhere
    assert MARKUP not in nowhere
    assert html.escape(MARKUP, quote=False) in nowhere.replace("&#34;", '"')


def test_the_preview_of_two_places_has_the_numbers_of_both_and_leads_to_both(tmp_path):
    with serving(*(one.path for one in reformed(tmp_path))) as server, httpx.Client(**PLAIN) as web:
        asked = {"with": "New", "lang": "en", "time": "2026"}
        page = web.get(f"{server.address}place/reg/town/1", params=asked).text
        told = head(page)
        sizes = re.findall(r'<p class="single">([^<]*)</p>', page)
        assert told["description"] == told["og:description"] == f"2026 · East: {sizes[0]}; New: {sizes[1]}"
        own = f"{server.address}place/reg/town/1"
        assert told["og:url"] == f"{own}?lang=en&with=3&time=2026"
        assert f'<link rel="canonical" href="{html.escape(told["og:url"])}">' in page
        assert f'hreflang="fr" href="{own}?lang=fr&amp;with=3&amp;time=2026">' in page
        assert told["og:title"] == "East and New, 2026 – Towns"
        assert told["og:image:alt"] == "East, 2026 – Towns", "the picture shows the first place"
        gone = head(web.get(f"{own}?lang=fr&with=3&time=2025").text)["og:description"]
        assert re.fullmatch("2025 · East\u00a0: [0-9]+; New\u00a0: n’existe pas en 2025", gone)
        assert head(web.get(f"{own}?lang=en&with=nowhere").text)["og:url"] == f"{own}?lang=en"


def test_the_preview_of_a_place_in_a_series_names_the_time(tmp_path):
    both = reformed(tmp_path)
    with serving(*(one.path for one in both)) as server, httpx.Client(base_url=server.address, **PLAIN) as web:

        def told(town, **asked):
            return head(web.get(f"/place/reg/town/{town}", params={"lang": "en", **asked}).text)

        for time, asked in (("2025", {"time": "2025"}), ("2026", {})):
            assert told("1", **asked)["og:title"] == told("1", **asked)["og:image:alt"] == f"East, {time} – Towns"
            assert re.match(f"{time}: [0-9]+ · ", told("1", **asked)["og:description"])
            assert re.match(f"{time}\u00a0: [0-9]+ · ", told("1", **asked, lang="fr")["og:description"])
        assert told("3", time="2025")["og:description"] == "not in 2025"
    with serving(both[0].path) as server:
        alone = head(httpx.get(f"{server.address}place/2025/town/1?lang=en").text)
        assert alone["og:title"] == "East – Towns"
        assert alone["og:description"].startswith("2025: ")


def test_what_is_not_there_is_said_with_the_nearest_name(web):
    assert "Did you mean '010" in problem(web.get("/place/people/town/010"), 404)
    assert "not a level" in problem(web.get("/place/people/sex/f"), 404)
    assert "no release" in problem(web.get("/place/nobody/town/0101"), 404)
    assert "no table" in problem(web.get("/table/towns.sex"), 404)
    problem(web.get("/picture/place/people/town/x"), 404)


def test_somebody_who_follows_an_old_link_reads_a_page_with_a_way_back(web):
    asked = {"Accept": "text/html,*/*;q=0.8", "Accept-Language": "ko-KR,ko;q=0.9,en;q=0.8"}
    answer = web.get("/table/" + MARKUP, headers=asked)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert '<html lang="ko">' in answer.text
    assert 'href="/?lang=ko"' in answer.text
    assert "no table" in answer.text
    assert MARKUP not in answer.text
    assert '<html lang="fr">' in web.get("/place/a/b/c?lang=fr", headers=asked).text
    problem(web.get("/api/v2/tables/nothing", headers=asked), 404)
    nothing = web.get("/nothing?lang=en", headers=asked).text
    assert nothing.split("<body>")[1].count("There is nothing at this address") == 1


def test_only_what_is_meant_for_it_stands_in_the_pages_of_others(web):
    for path in ("/", "/table/town.sex", "/place/people/town/0101"):
        said = web.get(path).headers
        assert "frame-ancestors 'none'" in said["content-security-policy"]
        assert said["x-frame-options"] == "DENY"
    for path in ("/embed/table/town.sex", "/embed/place/people/town/0101"):
        answer = web.get(path)
        assert answer.status_code == 200
        assert "frame-ancestors *" in answer.headers["content-security-policy"]
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        assert "x-frame-options" not in answer.headers
    assert "data-embed" in web.get("/embed/table/town.sex").text
    code = html.unescape(re.search("<pre[^>]*>(.*?)</pre>", web.get("/place/people/town/0101?lang=en").text)[1])
    assert web.get(re.search('src="([^"]+)"', code)[1]).status_code == 200


def test_a_declared_address_stands_in_what_is_shared_and_never_what_a_client_calls_us(releases):
    with serving(releases / "few", options=("--address", "https://stats.example.org/")) as running:
        page = httpx.get(f"{running.address}table/town", headers={"Host": "evil.example"}).text
        assert head(page)["og:url"].startswith("https://stats.example.org/table/town")
        assert "evil.example" not in page
        assert "Sitemap: https://stats.example.org/sitemap.xml" in httpx.get(f"{running.address}robots.txt").text


def test_the_sitemap_leads_to_every_table_and_place(web, client):
    tree = ElementTree.fromstring(web.get("/sitemap.xml").content)
    found = [one.text for one in tree.iter("{http://www.sitemaps.org/schemas/sitemap/0.9}loc")]
    tables = [one["id"] for one in client.get("/tables", params={"pageSize": 1000}).json()["tables"]]
    base = str(web.base_url).rstrip("/")
    assert {f"{base}/table/{name}" for name in tables} < set(found)
    assert {f"{base}/place/people/town/0101", f"{base}/place/people/block/010101"} < set(found)
    assert web.get(found[-1]).status_code == 200


def test_people_without_a_stated_area_are_in_tables_and_are_no_place(tmp_path, secret):
    towns = [("a", "a1", 40), ("a", "a2", 30), ("b", "b1", 20), ("a", None, 60), (None, None, 90)]
    frame = pl.DataFrame({name: [row[n] for row in towns for _ in range(row[2])] for n, name in enumerate(("r", "t"))})
    frame = frame.with_columns(sex=pl.Series([("f", "m")[n % 2] for n in range(frame.height)]))
    made = ilba.build(frame, {"area": ["r", "t"]}, ["sex"], secret=secret, missing="category", population="x")
    made.release(tmp_path / "x", method="ilba", accept_risk=True)
    with serving(tmp_path / "x") as running, httpx.Client(base_url=running.address, **PLAIN) as web:
        page = web.get("/place/x/t/a%2Fa2?lang=en").text
        assert "Number 2 of 3 by size" in page
        assert "Number 2 of 2 in a" in page
        assert "not stated" not in page.lower()
        ranks = [int(row[4].removesuffix(" =")) for row in rows(web.get("/place/x/r/a?lang=en").text, 0)]
        assert max(ranks) <= 2, "of two regions"
        found = re.findall("<loc>.*?/place/x/(.*?)</loc>", web.get("/sitemap.xml").text)
        assert sorted(found) == ["r/a", "r/b", "t/a%2Fa1", "t/a%2Fa2", "t/b%2Fb1"]
        meta = httpx.get(f"{running.address}api/v2/tables/t/metadata").json()
        missing = meta["dimension"]["t"]["extension"]["ilba"]["missing"]
        assert len(missing) == 2
        for code in missing:
            assert "There is no place" in problem(web.get(f"/place/x/t/{quote(code, safe='')}"), 404)
            assert meta["dimension"]["t"]["category"]["label"][code].startswith("not stated")


def test_search_engines_find_a_dataset_with_its_files(web):
    page = web.get("/table/town.sex?lang=en").text
    told = json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', page)[1])
    assert (told["@context"], told["@type"]) == ("https://schema.org", "Dataset")
    assert len(told["description"]) >= 50
    assert [one["name"] for one in told["variableMeasured"]] == ["Town", "Sex"]
    for file in told["distribution"]:
        answer = web.get(file["contentUrl"])
        assert answer.headers["content-type"].startswith(file["encodingFormat"])
    front = json.loads(re.search(r'<script type="application/ld\+json">(.*?)</script>', web.get("/").text)[1])
    assert front["@type"] == "DataCatalog"
    assert [one["name"] for one in front["dataset"]] == ["People"]


def test_areas_touch_where_they_have_two_corners_in_common():
    def square(code, x, y):
        ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
        return {"type": "Feature", "id": code, "geometry": {"type": "Polygon", "coordinates": [ring]}}

    squares = [square("a", 0, 0), square("b", 1, 0), square("c", 1, 1), square("d", 5, 5)]
    outlines = Outlines(json.dumps({"type": "FeatureCollection", "features": squares}).encode())
    assert outlines.touching("a") == ["b"], "c has one corner in common with a, which is no border"
    assert outlines.touching("b") == ["a", "c"]
    assert outlines.touching("01/d") == outlines.touching("nowhere") == []
    assert set(outlines.paths(100, 100)) == {"a", "b", "c", "d"}


@pytest.mark.slow
def test_frictionless_validates_the_data_package_and_every_file_in_it(web, releases):
    from frictionless import Package, validate

    found = validate(f"{web.base_url}datapackage/people.json?lang=en", type="package")
    assert found.valid, found.flatten(["type", "message"])
    package = Package(f"{web.base_url}datapackage/people.json?lang=en")
    assert {"town-sex", "all-sex", "all"} <= {one.name for one in package.resources}
    rows = package.get_resource("all-sex").read_rows()
    assert [row["sex"] for row in rows] == ["f", "m"]
    assert all(isinstance(row["N_masked"], int) for row in rows)


@pytest.mark.filterwarnings("ignore:ConjunctiveGraph")
def test_the_catalogue_is_rdf_with_what_dcat_ap_requires(web):
    import rdflib

    graph = rdflib.Graph().parse(data=web.get("/catalog.jsonld").text, format="json-ld")
    dcat, dct = rdflib.Namespace("http://www.w3.org/ns/dcat#"), rdflib.Namespace("http://purl.org/dc/terms/")
    required = {
        dcat.Catalog: (dct.title, dct.description, dct.publisher, dcat.dataset),
        dcat.Dataset: (dct.title, dct.description),
        dcat.Distribution: (dcat.accessURL,),
        dcat.DataService: (dct.title, dcat.endpointURL),
    }
    for kind, properties in required.items():
        ones = list(graph.subjects(rdflib.RDF.type, kind))
        assert ones, kind
        for one in ones:
            for each in properties:
                assert graph.value(one, each, any=True) is not None, (one, each)
    assert {text.language for text in graph.objects(None, dct.title) if text.language} >= {"en", "ko", "fr", "es"}
    for file in list(graph.objects(None, dcat.downloadURL))[:3]:
        assert web.get(str(file)).status_code == 200


def test_pages_and_pictures_agree_on_what_is_read_from_right_to_left():
    script = (resources.files("ilba.service") / "page" / "words.js").read_text("utf-8")
    (listed,) = re.findall(r"RIGHT_TO_LEFT = /\^\((.*)\)", script)
    assert all(pictures.is_rtl(lang) for lang in listed.split("|"))
    assert [lang for lang in ("HE-il", "ar-EG", "en", "ko", "ku", "arn", "es") if pictures.is_rtl(lang)] == [
        "HE-il",
        "ar-EG",
    ]


def test_a_pyramid_of_millions_keeps_its_numbers_inside_the_picture():
    counts = np.array([[1_234_567, 1_234_567], [900, 12]])
    drawing, width, height = pictures.pyramid(
        Pyramid(("f", "m"), ["old", "young"], counts), 1_234_567, "{:,}".format, True
    )
    texts = re.findall(r'x="([\d.]+)"[^>]*text-anchor="(start|end)"[^>]*>1,234,567<', drawing.svg(width, height, ""))
    assert [anchor for _, anchor in texts] == ["end", "start"]
    needed = 9 * 7.2  # as wide as digits of the widest of the usual fonts are in letters of 12
    assert all(needed < (float(x) if anchor == "end" else width - float(x)) for x, anchor in texts)


@pytest.mark.parametrize("age", ["65 years and over", "연령 미상 또는 응답 없음"])
def test_a_pyramid_writes_whole_names_of_ages_between_its_bars(age):
    drawing, width, height = pictures.pyramid(
        Pyramid(("f", "m"), ["young", age], np.array([[5, 5], [90, 90]])), 90, "{:,}".format, True
    )
    drawn = drawing.svg(width, height, "")
    assert f">{age}<" in drawn
    left, right = (float(x) for x in re.findall(r'<rect x="([\d.]+)"', drawn)[:2])
    long = float(re.search(r'<rect [^>]*width="([\d.]+)"', drawn)[1])
    assert right - left - long > 13 * sum(0.54 if one.isascii() else 1 for one in age)


def test_a_preview_says_what_small_counts_may_stand_for_where_there_is_room(people, secret, tmp_path):
    finest = ilba.build(people, ["region", "town"], ["sex"], secret=secret)
    for source, has_room in (("A census", True), ("A census of many words " * 9, False)):
        release = finest.release(tmp_path / source[:30], source=source, tables=["town"], ledger=False, **ILBA)
        for lang in LANGUAGES:
            table = WordedTable(release, release.tables["town"], release.table("town"), lang)
            card = pictures.card("T", "", "", _foot(table), None, lang)
            said = " ".join(re.findall(r'font-size="20"[^>]*>([^<]*)<', card)[::-1])
            assert (table.said["small"].format(K=5) in said) == has_room
            assert table.said["chart_note"].format(K=5) in said, "is there in any case"


def test_a_line_over_time_has_the_distances_of_its_times_and_no_number_hides_another():
    times = [("2001", 3000), ("2002", 3900), ("2021", 4800), ("2022", None), ("2023", 4950)]
    drawing, width, height = pictures.lines(times, 4950, str, True)
    svg = drawing.svg(width, height, "")
    texts = re.findall(r'<text x="([\d.]+)" y="([\d.]+)"[^>]*>(\d+)</text>', svg)
    at = {text: (float(x), float(y)) for x, y, text in texts}
    assert set(at) == {name for name, _ in times} | {str(n) for _, n in times if n}
    assert (at["2021"][0] - at["2001"][0]) / (at["2023"][0] - at["2001"][0]) == pytest.approx(20 / 22, abs=0.001)
    for (x, y), (other, high) in itertools.combinations(at.values(), 2):
        assert abs(x - other) > 29 or abs(y - high) > 13
