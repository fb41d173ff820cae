"""Waves of one population as one: a table over time holds what the releases hold, in every format."""

from __future__ import annotations

import itertools
import json

import numpy as np
import openpyxl
import polars as pl
import pytest

import ilba
from ilba.errors import InputError
from ilba.output.series import Series, apart, frequency, opened, time_of, timeline, unlike
from ilba.output.wording import Dimension, _nonexistent_places, nonexistent
from support.people import population, reformed

pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning"
)
CODES = pl.DataFrame({"variable": ["sex", "sex"], "code": ["f", "m"], "label_en": ["Women", "Men"]})


@pytest.fixture(scope="module")
def waves(secret, tmp_path_factory):
    home = tmp_path_factory.mktemp("waves")
    found = []
    for wave, n in (("2026", 900), ("2021", 700)):
        finest = ilba.build(
            population(n, seed=n),
            ["region", "town"],
            ["sex"],
            secret=secret,
            population="towns",
            wave=wave,
            unit="persons",
        )
        given = {"title": f"People {wave}", "labels": CODES, "texts": {"fr": {"title": f"Habitants ({wave})"}}}
        found.append(finest.release(home / wave, method="controlled", ledger=False, **given))
    return found


def test_a_series_has_the_rows_of_its_waves_in_the_order_of_time(waves):
    series = Series(waves)
    assert list(series.waves) == ["2021", "2026"]
    assert set(series.tables) == {f"{name}.time" for name in waves[0].tables}
    whole = series.table("town.sex.time")
    assert whole.columns == ["region", "town", "sex", "time", "N_masked"]
    for release in waves:
        part = whole.filter(pl.col("time") == time_of(release)).drop("time")
        assert part.equals(release.table("town.sex"))
    assert series.manifest["title"] == "People"
    assert series.manifest["texts"]["fr"]["title"] == "Habitants"


def test_releases_that_are_no_waves_are_refused(waves, secret, tmp_path):
    with pytest.raises(InputError, match="two or more releases"):
        Series(waves[:1])
    with pytest.raises(InputError, match="are not a series: both are of '2026'"):
        Series([waves[0], waves[0]])
    other = ilba.build(
        population(500), ["region", "town"], ["sex", "age"], secret=secret, population="towns", wave="2031"
    )
    with pytest.raises(InputError, match=r"the keys are \['sex'\] in '2021' and \['sex', 'age'\] in '2031'\.$"):
        opened([*waves, other.release(tmp_path / "r", tables=["town.sex"], ledger=False)])


def test_waves_that_are_no_series_are_told_with_what_differs_and_the_cure(secret, tmp_path):
    def made(wave, areas, keys, K=5, name="towns"):
        given = {"secret": secret, "population": name, "wave": wave}
        finest = ilba.build(population(300), areas, keys, K, **given)
        return finest.release(tmp_path / f"{name}{wave}", tables=["all"], ledger=False)

    first, areas = made("2021", ["region", "town"], ["sex", "age"]), ["region", "town"]
    turned = made("2022", areas, ["age", "sex"])
    assert unlike(first, turned) == (
        "the keys are ['sex', 'age'] in '2021' and ['age', 'sex'] in '2022'. Release one of them again with its keys "
        "in the order of the other (ilba publish --correction); its masks stay."
    )
    assert unlike(first, made("2023", areas, ["sex", "age"], 7)) == "K is 5 in '2021' and 7 in '2023'."
    assert "hierarchies are [['region', 'town']] in '2021' and [['town']]" in unlike(
        first, made("2024", "town", ["sex"])
    )
    alike = made("2025", areas, ["sex", "age"])
    others = made("2026", areas, ["sex", "age"], name="others")
    assert unlike(first, others) == "the populations are 'towns' and 'others'."
    assert unlike(first, alike) == ""
    (told,) = apart([turned, others, first])
    assert told.startswith("the waves of 'towns' are not one series: the keys are")
    assert apart([first, first, alike, others]) == []


def test_what_a_declared_list_of_a_wave_does_not_have_is_missing_and_not_0(tmp_path):
    both = reformed(tmp_path)
    [file] = ilba.export.export(both, "town.time", "json-stat", tmp_path / "t.json")
    told = json.loads(file.read_text("utf-8"))
    towns = list(told["dimension"]["town"]["category"]["index"])
    values = {town: told["value"][2 * at : 2 * at + 2] for at, town in enumerate(towns)}
    assert values["2"][1] is None
    assert values["2"][0] > 0
    assert values["3"][0] is None
    assert values["3"][1] > 0
    assert values["4"] == [0, 0], "it existed, and its people may be masked"
    assert None not in values["NA"]
    gone = {str(2 * towns.index("2") + 1), str(2 * towns.index("3"))}
    assert told["status"] == dict.fromkeys(gone, "z")
    [file] = ilba.export.export(both, "town.sex.time", "px", tmp_path / "t.px")
    assert file.read_text("utf-8").count('".."') == 4
    ilba.export.export(both, "town.time", "sdmx-csv", tmp_path / "t.csv")
    rows = pl.read_csv(tmp_path / "t.csv", infer_schema=False)
    missing = rows.filter(pl.col("OBS_VALUE").is_null())
    assert missing.select("town", "TIME_PERIOD", "OBS_STATUS", "CONF_STATUS").sort("town").rows() == [
        ("2", "2026", "M", "F"),
        ("3", "2025", "M", "F"),
    ]


@pytest.mark.parametrize("name", ["town.time", "town.sex.time"])
def test_a_listing_has_a_row_without_a_number_where_the_grid_has_the_status_of_what_did_not_exist(tmp_path, name):
    both = reformed(tmp_path)
    [file] = ilba.export.export(both, name, "json-stat", tmp_path / "t.json")
    told = json.loads(file.read_text("utf-8"))
    codes = [list(told["dimension"][one]["category"]["index"]) for one in told["id"][:-1]]
    cells = list(itertools.product(*codes))
    gone = {cells[int(place)] for place in told["status"]}
    counts = {cell: value for cell, value in zip(cells, told["value"], strict=True) if value}
    wanted = {**dict.fromkeys(gone, ""), **{cell: str(value) for cell, value in counts.items()}}

    [file] = ilba.export.export(both, name, "csv", tmp_path / "t.csv")
    listed = pl.read_csv(file, infer_schema=False)
    [file] = ilba.export.export(both, name, "parquet", tmp_path / "t.parquet")
    frames = {"csv": listed.with_columns(pl.col("N_masked").replace("NA", "")), "parquet": pl.read_parquet(file)}
    for kind, frame in frames.items():
        rows = frame.select(*told["id"][:-1], "N_masked").with_columns(pl.all().cast(pl.String)).rows()
        found = {tuple(one or "NA" for one in row[:-1]): row[-1] or "" for row in rows}
        assert found == wanted, kind
        assert len(rows) == len(found), kind
        assert frame["time"].is_sorted(), kind

    [file] = ilba.export.export(both, name, "xlsx", tmp_path / "t.xlsx")
    sheet = openpyxl.load_workbook(file).worksheets[0]
    rows = list(sheet.iter_rows(min_row=int(sheet.freeze_panes.removeprefix("A")), values_only=True))
    assert sum(row[-1] is None for row in rows) == len(gone)
    assert len(rows) == len(wanted)
    notes = [row[0] for row in sheet.iter_rows(max_row=6, values_only=True) if row[0]]
    assert "An area or value that did not exist at a time is listed without a number." in notes
    assert "A combination that is not listed is 0." in notes


def test_each_cell_that_did_not_exist_is_listed_once_also_if_two_of_its_values_did_not():
    def axis(name, codes, **gone):
        flags = {f"20{year}": np.array([code in said for code in codes]) for year, said in gone.items()}
        return Dimension(name, name, (name,), pl.DataFrame({name: codes}), codes, codes, False, flags)

    axes = [axis("a", list("xyz"), **{"25": "xy", "26": "z"}), axis("b", list("pq"), **{"25": "q"}), axis("c", ["1"])]
    axes.append(axis("time", ["2024", "2025", "2026"]))
    gone = {("x", "2025"), ("y", "2025"), ("z", "2026"), ("q", "2025")}
    cells = itertools.product(*(one.codes for one in axes))
    wanted = [any((code, cell[-1]) in gone for code in cell) for cell in cells]
    found = nonexistent(axes)
    assert found is not None
    assert found.tolist() == wanted
    places = np.concatenate(list(_nonexistent_places(axes)))
    assert len(places) == len(set(places.tolist())) == sum(wanted) == 7


def test_without_a_declared_list_a_missing_area_may_be_masked_to_0(tmp_path):
    both = reformed(tmp_path, declared=False)
    [file] = ilba.export.export(both, "town.time", "json-stat", tmp_path / "t.json")
    told = json.loads(file.read_text("utf-8"))
    assert None not in told["value"]
    assert told["value"].count(0) == 2
    assert "status" not in told


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (["2021", "2026"], ("A1", ["2021", "2026"])),
        (["2026-M02", "2026-M12"], ("M1", ["202602", "202612"])),
        (["2026-W07"], ("W1", ["202607"])),
        (["2026-07-01"], ("D1", ["20260701"])),
        (["2026", "before"], None),
    ],
)
def test_times_are_spelled_as_px_does_where_it_can(times, found):
    assert frequency(times) == found


@pytest.mark.long
def test_every_format_knows_the_time(waves, tmp_path):
    import sdmx
    from pyaxis import pyaxis
    from pyjstat import pyjstat

    name, expected = "region.sex.time", Series(waves).table("region.sex.time")
    total = expected["N_masked"].sum()
    [file] = ilba.export.export(waves, name, "px", tmp_path / "t.px")
    said = file.read_text(encoding="utf-8")
    assert 'TIMEVAL("Time")=TLIST(A1),"2021","2026";' in said
    assert 'UNITS="persons";' in said
    assert sum(int(n) for n in pyaxis.parse(str(file), encoding="utf-8")["DATA"]["DATA"]) == total
    [file] = ilba.export.export(waves, name, "json-stat", tmp_path / "t.json")
    read = pyjstat.Dataset.read(file.read_text(encoding="utf-8"))
    assert read["role"]["time"] == ["time"]
    assert read.write("dataframe")["value"].sum() == total
    data, structure = ilba.export.export(waves, name, "sdmx-ml", tmp_path / "t.xml")
    dsd = sdmx.read_sdmx(structure).structure["DSD_REGION_SEX_TIME"]
    assert [one.id for one in dsd.dimensions.components] == ["region", "sex", "TIME_PERIOD"]
    found = sdmx.to_pandas(sdmx.read_sdmx(data, structure=dsd))
    assert found.sum() == total
    [file, _] = ilba.export.export(waves, name, "sdmx-csv", tmp_path / "t.csv")
    assert pl.read_csv(file, schema_overrides={"TIME_PERIOD": pl.String})["TIME_PERIOD"].unique().sort().to_list() == [
        "2021",
        "2026",
    ]


@pytest.mark.parametrize(
    ("times", "places"),
    [
        (["2001", "2021", "2026"], [0, 0.8, 1]),
        (["2026-01", "2026-02", "2027-01"], [0, 1 / 12, 1]),
        (["2026-H1", "2026-H2", "2027-H2"], [0, 1 / 3, 1]),
        (["2026-01-01", "2026-01-11", "2026-04-11"], [0, 0.1, 1]),
        (["2026-02-30", "2026-02-31", "2026-03-01"], [0, 0.5, 1]),
        (["first", "second", "third"], [0, 0.5, 1]),
        (["2026"], [0]),
        ([], []),
    ],
)
def test_times_stand_where_their_dates_are_and_in_equal_steps_where_they_have_none(times, places):
    assert timeline(times) == pytest.approx(places)
