"""Percent, rate, index and change over HTTP: made from published counts, the same in every format."""

from __future__ import annotations

import io

import polars as pl
import pytest

import ilba
from ilba import Secret
from ilba.output.wording import LANGUAGES
from support.people import HKEY, LABELS, population, reformed
from support.serving import problem, serving

pytestmark = pytest.mark.slow


TABLES = ["town.sex.age", "town.sex", "town", "region.sex", "all.sex", "all"]


def released(home, wave, n, tables=TABLES):
    counted = {"secret": Secret(bytes(range(32))), "population": "towns", "wave": wave, "unit": "persons"}
    finest = ilba.build(population(n, seed=n), HKEY[:2], ["sex", "age"], **counted)
    return finest.release(home / wave, "controlled", tables, title="Towns", labels=LABELS, ledger=False)


@pytest.fixture(scope="module")
def waves(tmp_path_factory):
    home = tmp_path_factory.mktemp("waves")
    return [released(home, "2021", 900), released(home, "2026", 1200)]


@pytest.fixture(scope="module")
def client(waves):
    with serving(*(one.path for one in waves), options=("--no-access-log",)) as running, running.client() as one:
        yield one


def asked(client, table, **given):
    answer = client.get(f"/tables/{table}/data", params=given)
    assert answer.status_code == 200, answer.text
    return answer.json()


def counts(release, table) -> pl.DataFrame:
    return release.table(table)


def test_a_percentage_divides_by_the_published_table_of_what_both_have(client, waves):
    told = asked(client, "2026:town.sex", measure="percent", of="town")
    towns = dict(counts(waves[1], "town").select("town", "N_masked").rows())
    cells = {(town, sex): n for _, town, sex, n in counts(waves[1], "town.sex").rows()}
    names = [list(told["dimension"][axis]["category"]["index"]) for axis in told["id"]]
    expected = [round(100 * cells.get((town, sex), 0) / towns[town], 3) for town in names[0] for sex in names[1]]
    assert told["value"] == pytest.approx(expected)
    assert told["extension"]["ilba"]["of"] == ["town"]
    everybody = asked(client, "2026:town.sex", measure="rate", of="")
    total = counts(waves[1], "all")["N_masked"].item()
    assert everybody["value"] == pytest.approx(
        [round(1000 * cells.get((town, sex), 0) / total, 2) for town in names[0] for sex in names[1]]
    )


def test_an_index_is_100_where_an_area_is_like_all_together(client, waves):
    told = asked(client, "2026:region.sex", measure="index")
    women = {region: n for region, sex, n in counts(waves[1], "region.sex").rows() if sex == "f"}
    regions = counts(waves[1], "region.sex").group_by("region").agg(pl.col("N_masked").sum())
    totals, all_sex = dict(regions.rows()), dict(counts(waves[1], "all.sex").rows())
    overall = all_sex["f"] / sum(all_sex.values())
    assert told["value"][0] == pytest.approx(100 * (women["01"] / totals["01"]) / overall, abs=0.06)
    assert "has no areas" in problem(client.get("/tables/2026:all.sex/data", params={"measure": "index"}), 400)


@pytest.mark.parametrize(
    ("table", "of"),
    [("towns:town.time", None), ("2026:town", None), ("2026:town.sex", ""), ("2026:town.sex", "town,sex")],
)
def test_an_index_needs_a_share_inside_each_area(client, table, of):
    given = {"measure": "index"} if of is None else {"measure": "index", "of": of}
    said = problem(client.get(f"/tables/{table}/data", params=given), 400)
    assert "the share of a group inside each area" in said


def test_waves_are_one_table_over_time_with_the_change_between_them(client, waves):
    told = asked(client, "towns:town.time")
    assert told["role"] == {"time": ["time"], "geo": ["town"]}
    by_wave = [dict(counts(one, "town").select("town", "N_masked").rows()) for one in waves]
    towns = list(told["dimension"]["town"]["category"]["index"])
    assert told["value"] == [wave.get(town, 0) for town in towns for wave in by_wave]
    change = asked(client, "towns:town.time", measure="change")["value"]
    assert change[::2] == [None] * len(towns)
    assert change[1::2] == [by_wave[1].get(town, 0) - by_wave[0].get(town, 0) for town in towns]
    entry = client.get("/tables/towns:town.time").json()
    assert (entry["firstPeriod"], entry["lastPeriod"]) == ("2021", "2026")
    assert client.get("/tables/2021:town").json()["lastPeriod"] == "2021"
    assert "has no time" in problem(client.get("/tables/2021:town/data", params={"measure": "change"}), 400)
    share = asked(client, "towns:town.sex.time", measure="percent")
    assert share["value"][0] + share["value"][2] == pytest.approx(100, abs=0.01)


def test_a_change_is_since_a_time_that_is_shown_or_for_a_single_one_since_the_wave_before(tmp_path):
    waves = [released(tmp_path, wave, n, ["all.sex"]) for wave, n in (("2024", 400), ("2025", 700), ("2026", 500))]
    women, men = ([dict(counts(one, "all.sex").rows())[sex] for one in waves] for sex in "fm")
    with serving(*(one.path for one in waves), options=("--no-access-log",)) as running, running.client() as client:

        def change(times):
            given = {"measure": "change", "valuecodes[time]": times, "valuecodes[sex]": "*"}
            return asked(client, "towns:all.sex.time", **given)["value"]

        assert change("2024,2026") == [None, women[2] - women[0], None, men[2] - men[0]]
        assert change("2026") == [women[2] - women[1], men[2] - men[1]]
        assert change("2024") == [None, None]
        assert change("*") == [None, women[1] - women[0], women[2] - women[1], None, men[1] - men[0], men[2] - men[1]]


def test_the_heading_of_a_change_names_the_times_that_are_compared(tmp_path):
    waves = [released(tmp_path, wave, 400, ["all.sex"]) for wave in ("2024", "2025", "2026")]
    with serving(*(one.path for one in waves), options=("--no-access-log",)) as running, running.client() as client:

        def heading(times, lang="en"):
            given = {"measure": "change", "valuecodes[time]": times, "valuecodes[sex]": "*", "outputFormat": "csv"}
            text = client.get("/tables/towns:all.sex.time/data", params={**given, "lang": lang}).text
            return text.splitlines()[0].rpartition(',"')[2].strip('"')

        assert heading("2026") == "change since 2025"
        assert heading("2024,2026") == "change since 2024"
        assert heading("*") == "change since the time before (2024, 2025, 2026)"
        assert heading("2026", "fr") == "évolution depuis 2025"
        assert [heading("2024", lang) for lang in LANGUAGES] == ["change", "증감", "évolution", "variación"]


def test_the_series_is_described_with_its_waves(client):
    told = {one["id"]: one for one in client.get("/releases").json()["releases"]}
    assert list(told) == ["towns", "2021", "2026"]
    assert told["towns"]["time"] == "time"
    assert [told[name]["series"] for name in told] == [None, "towns", "towns"]
    meta = client.get("/tables/towns:town.time/metadata").json()
    assert meta["dimension"]["time"]["extension"]["elimination"] is False


def test_whoever_names_no_time_is_told_that_it_is_missing_and_nothing_else(client):
    said = problem(client.get("/tables/towns:town.sex.time/data", params={"valuecodes[town]": "*"}), 400)
    assert "valuecodes[time]=* takes all" in said
    assert "sex" not in said, "a table by town alone was published for each wave"
    assert client.get(
        "/tables/towns:town.sex.time/data", params={"valuecodes[town]": "*", "valuecodes[time]": "*"}
    ).json()["id"] == ["town", "time"]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_measure_is_the_same_in_every_format(client):
    import openpyxl

    question = {"measure": "percent", "of": "town"}
    values = asked(client, "2026:town.sex", **question)["value"]

    def content(format):
        return client.get("/tables/2026:town.sex/data", params={**question, "outputFormat": format}).content

    csv = pl.read_csv(io.BytesIO(content("csv")))
    assert csv.columns == ["Town", "Sex", "percent of all with the same Town"]
    assert csv.to_series(2).to_list() == pytest.approx(values)
    assert pl.read_parquet(io.BytesIO(content("parquet")))["percent"].to_list() == pytest.approx(values)
    sheet = openpyxl.load_workbook(io.BytesIO(content("xlsx"))).worksheets[0]
    written = [row[-1] for row in sheet.iter_rows(values_only=True) if isinstance(row[-1], int | float)]
    assert written == pytest.approx(values)
    px = content("px").decode()
    assert "DECIMALS=3;" in px
    assert "AGGREGALLOWED=NO;" in px
    assert [float(n) for n in px.partition("DATA=")[2].replace(";", "").split()] == pytest.approx(values)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"measure": "percents"}, "Did you mean"),
        ({"measure": "percent", "of": "nothing"}, "not a variable"),
        ({"of": "town"}, "of goes with"),
    ],
)
def test_a_measure_that_cannot_be_made_is_refused_in_words(client, given, said):
    assert said in problem(client.get("/tables/2026:town.sex/data", params=given), 400)


@pytest.mark.slow
def test_what_was_not_published_is_not_divided_by(tmp_path):
    finest = ilba.build(population(900), HKEY[:2], ["sex", "age"], secret=Secret(bytes(range(32))))
    given = {"tables": ["town.sex", "all"], "method": "ilba", "accept_risk": True, "ledger": False}
    release = finest.release(tmp_path / "few", **given)
    with serving(release.path, options=("--no-access-log",)) as running, running.client() as client:
        asked_for = {"measure": "percent", "of": "town"}
        assert "was not published" in problem(client.get("/tables/town.sex/data", params=asked_for), 400)
        assert client.get("/tables/town.sex/data", params={"measure": "percent", "of": ""}).status_code == 200


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_what_cannot_be_computed_is_empty_in_files(client):
    import openpyxl

    question = {"measure": "change", "outputFormatParams": "UseCodes"}
    content = {
        format: client.get("/tables/towns:town.time/data", params={**question, "outputFormat": format}).content
        for format in ("csv", "xlsx", "parquet")
    }
    csv = pl.read_csv(io.BytesIO(content["csv"]), schema_overrides={"town": pl.String})
    assert csv.columns == ["town", "time", "change"]
    assert csv["change"].null_count() == csv.height // 2
    assert csv["change"].dtype == pl.Int64, "a change is a whole number"
    assert pl.read_parquet(io.BytesIO(content["parquet"]))["change"].to_list() == csv["change"].to_list()
    assert pl.read_parquet(io.BytesIO(content["parquet"]))["change"].dtype == pl.Int64
    sheet = openpyxl.load_workbook(io.BytesIO(content["xlsx"])).worksheets[0]
    assert len([row for row in sheet.iter_rows(values_only=True) if isinstance(row[-1], int)]) == csv.height // 2


def test_csv_is_written_as_pxwebapi_asks(client, waves):
    def lines(table="2026:region.sex", **given):
        answer = client.get(f"/tables/{table}/data", params={"outputFormat": "csv", **given})
        assert answer.status_code == 200, answer.text
        return answer.text.splitlines()

    first = waves[1].table("region.sex")["N_masked"][0]
    assert lines()[:2] == ['"region","Sex","Count"', f'"North","Women",{first}']
    assert lines(lang="fr")[0] == '"region","Sex","Effectif"'
    assert lines(outputFormatParams="UseCodes")[:2] == ['"region","sex","N_masked"', f'"01","f",{first}']
    both = lines(outputFormatParams="usecodesandtexts,separatorsemicolon,includetitle")
    assert both[0] == '"Towns: region, Sex (persons)"'
    assert both[2] == f'"01";"North";"f";"Women";{first}'
    total = waves[1].table("all")["N_masked"].item()
    assert lines("2026:all") == ['"variable","Count"', f'"Count",{total}']
    wrong = client.get("/tables/2026:all/data", params={"outputFormat": "csv", "outputFormatParams": "UseCode"})
    assert "Did you mean" in problem(wrong, 400)


@pytest.fixture(scope="module")
def before_and_after(tmp_path_factory):
    both = reformed(tmp_path_factory.mktemp("reformed"))
    with serving(*(one.path for one in both), options=("--no-access-log",)) as running, running.client() as one:
        yield one, both


def test_an_area_has_no_number_and_no_change_in_a_wave_in_which_it_did_not_exist(before_and_after):
    client, _ = before_and_after
    for measure in ("count", "change", "percent"):
        of = {"of": ""} if measure == "percent" else {}
        told = asked(client, "reg:town.time", measure=measure, **of)
        towns = list(told["dimension"]["town"]["category"]["index"])
        values = {town: told["value"][2 * at : 2 * at + 2] for at, town in enumerate(towns)}
        assert values["2"][1] is None
        assert values["3"][0] is None
        assert (values["3"][1] is None) == (measure == "change")
        assert told["status"] == {str(2 * towns.index("2") + 1): "z", str(2 * towns.index("3")): "z"}
    text = client.get("/tables/reg:town.time/data", params={"outputFormat": "csv"}).text
    rows = pl.read_csv(io.StringIO(text), infer_schema=False).rows()
    assert ("New", "2025", None) in rows
    assert ("Old", "2026", None) in rows
    assert ("Empty", "2025", "0") in rows
    px = client.get("/tables/reg:town.time/data", params={"outputFormat": "px"}).text
    assert px.count('".."') == 2
    cell = {"release": "reg", "level": "town", "key": "time", "hkey_value": "3", "key_value": "2025"}
    assert client.get("/cell", params=cell).json()["N_masked"] is None
    known = client.get("/tables/reg:town.time/metadata").json()["dimension"]["town"]["extension"]["ilba"]
    assert known["nonexistent"] == {"2025": ["3"], "2026": ["2"]}


def test_an_own_area_has_no_number_at_a_time_in_which_a_part_of_it_did_not_exist(before_and_after):
    client, both = before_and_after
    codes = {"West": ["1", "2"], "East": ["1"], "All": ["1", "2", "3"]}
    areas = [{"name": name, "codes": some} for name, some in codes.items()]
    counts = [dict(one.table("town.sex").filter(pl.col("sex") == "f").drop("sex").rows()) for one in both]
    told = client.post("/tables/reg:town.sex.time/areas", json={"areas": areas}).json()
    women = [told["value"][at : at + 2] for at in range(0, len(told["value"]), 4)]
    assert women == [[counts[0][1] + counts[0][2], None], [counts[0][1], counts[1][1]], [None, None]]
    assert told["status"] == {str(place): "z" for place in (1, 3, 8, 9, 10, 11)}
    assert "West: no number in 2026; not in 2026: Old." in told["note"]
    assert "All: no number in 2025; not in 2025: New." in told["note"]
    assert not [note for note in told["note"] if note.startswith("East")]
    answer = client.post("/tables/reg:town.time/areas", params={"outputFormat": "csv"}, json={"areas": areas[:1]})
    assert answer.text.splitlines()[-1] == '"West","2026",'


def test_all_areas_together_are_counted_in_every_wave(before_and_after):
    client, both = before_and_after
    assert asked(client, "reg:all.time")["value"] == [one.table("all")["N_masked"].item() for one in both]


def test_the_map_of_a_time_is_that_of_its_own_wave(before_and_after):
    client, _ = before_and_after

    def shapes(**given):
        return [one["id"] for one in client.get("/geometry/reg/town", params=given).json()["features"]]

    assert shapes(time="2025") == ["1", "2", "4"]
    assert shapes(time="2026") == shapes() == ["1", "3", "4"]
    assert "It is 2025, 2026." in problem(client.get("/geometry/reg/town", params={"time": "2027"}), 404)
