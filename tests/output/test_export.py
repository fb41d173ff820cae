"""Exports, opened by readers that others wrote: they hold the release's numbers, labels and nothing else."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import re
import shutil
import stat
import subprocess
import sys
import warnings

import openpyxl
import polars as pl
import pytest
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io import get_datasets, read_sdmx

import ilba
from ilba.output.export import FORMATS, export
from ilba.output.formats.sdmx import _code
from ilba.output.wording import WordedTable
from support.people import HKEY, ILBA

CODES = pl.DataFrame(
    {
        "variable": ["region", "region", "region", "town", "sex", "sex", "sex", "sex", "age"],
        "code": [None, "01", "02", None, None, "m", "f", "x", None],
        "label_en": ["Region", "North", "South", "Town", "Sex", "Male", "Female", "Other", "Age"],
        "label_ko": ["지역", "북부", "남부", "읍면동", "성별", "남자", "여자", "기타", "연령"],
        "parent": [None] * 9,
    }
)
NAMES = {"csv": "t.csv", "parquet": "t.parquet", "xlsx": "t.xlsx", "json-stat": "t.json", "px": "t.px"}
NAMES |= {"sdmx-csv": "t.sdmx.csv", "sdmx-ml": "t.xml"}
TABLES = ["all", "all.sex", "region", "town.sex.age", "block.sex.job"]
GRIDS = ["json-stat", "sdmx-csv", "sdmx-ml", "px"]


@pytest.fixture(scope="module")
def release(finest, tmp_path_factory):
    path = tmp_path_factory.mktemp("release") / "r"
    tables = [*TABLES, "town", "town.sex", "block.sex.age"]
    return finest.release(path, tables=tables, title="사람 people", source="통계청", labels=CODES, **ILBA)


def written(release, name, format, folder, **options):
    return export(release, name, format, folder / NAMES[format], **options)


def counts(release, name):
    """The release's own numbers: codes as text -> count."""
    frame = release.table(name)
    return {tuple(map(str, row[:-1])): row[-1] for row in frame.iter_rows()}


def dense(release, name):
    """The complete grid by hand: every published code of each dimension, 0 where the release has no row."""
    entry = release.tables[name]
    known = counts(release, name)
    columns = list(entry.columns)
    areas = [column for column in columns if column in HKEY]
    listed = {c: release.codes.filter((pl.col("variable") == c) & pl.col("code").is_not_null()) for c in columns}
    # In this population an area's code starts with its parents'.
    axes = [[(code,) for code in listed[areas[-1]]["code"]]] if areas else []
    axes += [[(code,) for code in listed[c]["code"]] for c in columns if c not in areas]
    lengths = {"region": 2, "town": 4, "block": 6}
    grid = {}
    for cell in itertools.product(*axes):
        codes = [part[0] for part in cell]
        path = [codes[0][: lengths[area]] for area in areas] + codes[1:] if areas else codes
        grid[tuple(codes)] = known.get(tuple(path), 0)
    assert sum(grid.values()) == sum(known.values())
    return grid


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_csv_and_parquet_hold_the_rows_of_the_release_and_their_labels(release, tmp_path, name):
    [path] = written(release, name, "csv", tmp_path, lang="ko")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = release.tables[name].columns
    assert {tuple(row[c] for c in columns): int(row["N_masked"]) for row in rows} == counts(release, name)
    [path] = written(release, name, "parquet", tmp_path, lang="ko")
    frame = pl.read_parquet(path)
    assert frame.select(*columns, "N_masked").equals(release.table(name))
    if "sex" in columns:
        assert {(row["sex"], row["sex_label"]) for row in rows} == {("m", "남자"), ("f", "여자")}
        assert set(frame["sex_label"]) == {"남자", "여자"}
    assert not any(column.startswith("job_label") for column in frame.columns)  # nobody named the jobs
    about = pl.read_parquet_metadata(path)
    assert about["threshold"] == "5"
    assert "ilba" not in about  # which would make it look like a store


@pytest.mark.parametrize("name", TABLES)
def test_a_workbook_reads_as_a_table_with_a_title_notes_and_codes(release, tmp_path, name):
    [path] = written(release, name, "xlsx", tmp_path, lang="ko")
    book = openpyxl.load_workbook(path)
    sheet, codes = book.worksheets
    assert sheet["A1"].value.startswith("사람 people: ")
    assert "K=5" in sheet["A2"].value
    assert "표에 없는 조합의 값은 0" in sheet["A3"].value
    assert "통계청" in "".join(str(sheet.cell(row, 1).value) for row in range(1, 7))
    top = int(sheet.freeze_panes.removeprefix("A")) - 1
    heads = [cell.value for cell in sheet[top]]
    assert heads[-1] == "빈도"
    columns = release.tables[name].columns
    labelled = [column in ("region", "sex") for column in columns]  # a label stands after the code
    kept = [place + sum(labelled[:place]) for place in range(len(columns))]
    found = {}
    for row in sheet.iter_rows(min_row=top + 1, values_only=True):
        assert all(isinstance(value, str) for value in row[:-1])  # a code is text: 01 stays 01
        found[tuple(row[place] for place in kept)] = row[-1]
    assert found == counts(release, name)
    if "sex" in columns:
        assert "성별" in heads
        listed = {row[1]: row[2] for row in codes.iter_rows(min_row=2, values_only=True) if row[0] == "sex"}
        assert list(listed.values()) == ["성별", "남자", "여자", "기타"]
    if columns:
        assert sheet.column_dimensions["A"].width >= 12


@pytest.mark.parametrize("name", TABLES)
def test_json_stat_keeps_its_rules_and_holds_every_cell_of_the_grid(release, tmp_path, name):
    [path] = written(release, name, "json-stat", tmp_path, lang="ko")
    data = json.loads(path.read_text("utf-8"))
    assert (data["version"], data["class"]) == ("2.0", "dataset")
    assert len(data["id"]) == len(data["size"]) == len(data["dimension"])
    assert len(data["value"]) == math.prod(data["size"])
    for name_, size in zip(data["id"], data["size"], strict=True):
        category = data["dimension"][name_]["category"]
        assert sorted(category["index"].values()) == list(range(size))
        assert category["label"].keys() == category["index"].keys()
    assert all(isinstance(value, int) for value in data["value"])
    assert set(data["role"]) <= {"geo", "metric"}
    assert data["extension"]["ilba"]["K"] == 5
    expected = dense(release, name)
    codes = [list(data["dimension"][d]["category"]["index"]) for d in data["id"][:-1]]
    assert dict(zip(itertools.product(*codes), data["value"], strict=True)) == expected
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # pyjstat warns of itself
        read = pyjstat.Dataset.read(path.read_text("utf-8")).write("dataframe", naming="id")
    assert {tuple(row[:-2]): row[-1] for row in read.itertuples(index=False, name=None)} == expected


def test_json_stat_names_areas_parents_and_korean_labels(release, tmp_path):
    [path] = written(release, "town.sex", "json-stat", tmp_path, lang="ko")
    data = json.loads(path.read_text("utf-8"))
    assert data["role"]["geo"] == ["town"]
    assert data["dimension"]["town"]["extension"]["above"]["0203"] == ["02"]
    assert data["dimension"]["sex"]["label"] == "성별"
    # The order is the agency's; a code that it lists and nobody has is there with zeros.
    assert data["dimension"]["sex"]["category"]["label"] == {"m": "남자", "f": "여자", "x": "기타"}
    assert data["value"][2::3] == [0] * (len(data["value"]) // 3)
    assert data["source"] == "통계청"


@pytest.mark.parametrize("name", TABLES)
def test_px_is_read_back_with_every_cell_of_the_grid(release, tmp_path, name):
    [path] = written(release, name, "px", tmp_path, lang="ko")
    read = pyaxis.parse(str(path), encoding="utf-8")
    told = read["METADATA"]
    for keyword in ("MATRIX", "SUBJECT-CODE", "SUBJECT-AREA", "CONTENTS", "UNITS", "DECIMALS", "TITLE", "NOTEX"):
        assert told[keyword], keyword
    assert told["CODEPAGE"] == ["utf-8"]
    assert told["AXIS-VERSION"] == ["2013"]
    assert told["AGGREGALLOWED"] == "NO"
    expected = dense(release, name)
    values = [int(value) for value in read["DATA"]["DATA"]]
    if name == "all":
        assert values == list(expected.values())
        return
    variables = [*told["STUB"], *told.get("HEADING", [])]
    codes = [told[f"CODES({variable})"] for variable in variables]
    assert [len(told[f"VALUES({variable})"]) for variable in variables] == [len(one) for one in codes]
    spelled = {tuple(code.replace('"', "'") for code in cell): n for cell, n in expected.items()}
    assert dict(zip(itertools.product(*codes), values, strict=True)) == spelled
    if "sex" in name:
        assert "성별" in variables
        assert told["VALUES(성별)"] == ["남자", "여자", "기타"]
    # A strict reader joins the lines of the data to one, and parts its numbers at blanks.
    joined = path.read_bytes().decode("utf-8").partition("DATA=")[2].replace("\r\n", "").rstrip(";")
    assert [int(number) for number in joined.split(" ") if number] == values
    lines = path.read_bytes().decode("utf-8").split("\r\n")
    assert max(len(line) for line in lines[: lines.index("DATA=")]) <= 256


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sdmx-csv", "sdmx-ml"])
@pytest.mark.parametrize("name", TABLES)
def test_sdmx_data_and_structure_fit_each_other_and_the_schema(release, tmp_path, name, kind):
    data, structure = written(release, name, kind, tmp_path, lang="ko", agency="KOSTAT")
    message = read_sdmx(structure, validate=True)  # against the official schema
    lists = {one.id: one for one in message.get_codelists()}
    [table] = get_datasets(data, structure, validate=True)
    assert table.short_urn.startswith("Dataflow=KOSTAT:DF_")
    assert table.attributes == {"OBS_STATUS": "A", "CONF_STATUS": "F"}
    expected = dense(release, name)
    assert [int(value) for value in table.data["OBS_VALUE"]] == list(expected.values())
    dimensions = [component.id for component in table.structure.components.dimensions]
    if kind == "sdmx-csv":  # the data reader of pysdmx drops leading zeros
        with data.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["CONF_STATUS"] for row in rows} == {"F"}
    else:
        rows = table.data.to_dict("records")
    cells = [tuple(row[dimension] for dimension in dimensions) for row in rows]
    if name != "all":
        assert cells == [tuple(map(_code, cell)) for cell in expected]
    for dimension in dimensions:
        ids = {code.id for code in lists[f"CL_{dimension.upper()}"]}
        assert {row[dimension] for row in rows} == ids
    if "sex" in name:
        assert [code.name for code in lists["CL_SEX"]] == ["남자", "여자", "기타"]
        assert table.structure.components["sex"].concept.name == "성별"


@pytest.mark.long
@pytest.mark.parametrize("name", TABLES)
def test_sdmx1_reads_the_structure_and_the_data(release, tmp_path, name):
    import sdmx  # with pandas it takes a second to load, in every process that collects tests

    data, structure = written(release, name, "sdmx-ml", tmp_path, lang="ko", agency="KOSTAT")
    with structure.open("rb") as file:
        message = sdmx.read_sdmx(file)
    [definition] = message.structure.values()
    if "sex" in name:
        assert [str(code.name.localizations["ko"]) for code in message.codelist["CL_SEX"]] == ["남자", "여자", "기타"]
    with data.open("rb") as file:
        read = sdmx.to_pandas(sdmx.read_sdmx(file, structure=definition))
    expected = dense(release, name)
    assert read.tolist() == list(expected.values())
    if name != "all":
        keys = [key if isinstance(key, tuple) else (key,) for key in read.index]
        assert keys == [tuple(map(_code, cell)) for cell in expected]


R_READS = """
suppressMessages(library(rsdmx))
given <- commandArgs(trailingOnly = TRUE)
rows <- as.data.frame(readSDMX(given[1], isURL = FALSE))
lists <- slot(readSDMX(given[2], isURL = FALSE), "codelists")
codes <- sapply(slot(lists, "codelists"), function(one) slot(one, "id"))
write.csv(rows, given[3], row.names = FALSE, fileEncoding = "UTF-8")
cat(codes, as.data.frame(lists, codelistId = "CL_SEX")$label.ko)
"""


@pytest.fixture(scope="module")
def _rsdmx():
    asked = ["Rscript", "-e", "library(rsdmx)"]
    if shutil.which("Rscript") is None or subprocess.run(asked, capture_output=True, check=False).returncode:
        pytest.skip("R with the package rsdmx is not installed (Debian: r-cran-rsdmx)")


@pytest.mark.slow
@pytest.mark.usefixtures("_rsdmx")
@pytest.mark.parametrize("name", ["all.sex", "town.sex.age"])
def test_rsdmx_reads_the_structure_and_the_data(release, tmp_path, name):
    data, structure = written(release, name, "sdmx-ml", tmp_path, lang="ko")
    words = ["Rscript", "-e", R_READS, str(data), str(structure), str(tmp_path / "r.csv")]
    said = subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    assert said.stdout.split()[-3:] == ["남자", "여자", "기타"]
    assert "CL_CONF_STATUS" in said.stdout
    with (tmp_path / "r.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    read = {tuple(row[:-1]): int(row[-1]) for row in rows}
    assert read == {tuple(map(_code, cell)): count for cell, count in dense(release, name).items()}


@pytest.mark.parametrize("kind", ["sdmx-csv", "sdmx-ml"])
def test_sdmx_is_written_in_pieces(release, tmp_path, monkeypatch, kind):
    whole = written(release, "block.sex.job", kind, tmp_path)[0].read_bytes()
    monkeypatch.setattr("ilba.output.formats.sdmx._AT_ONCE", 7)
    assert written(release, "block.sex.job", kind, tmp_path)[0].read_bytes() == whole


def test_a_csv_for_spreadsheets_has_a_mark_and_runs_no_formula(secret, tmp_path):
    jobs = ["=1+1", "+82", "-5", "@SUM(A1)", "\tx", "a=b", "공무원", ""]
    people = pl.DataFrame({"town": ["a"] * 8 * 9, "=job": jobs * 9})
    release = ilba.build(people, ["town"], ["=job"], secret=secret).release(tmp_path / "r")
    name = max(release.tables, key=len)
    [plain] = export(release, name, "csv", tmp_path / "t.csv")
    assert '"=1+1"' in plain.read_text("utf-8")
    [path] = export(release, name, "csv", tmp_path / "s.csv", spreadsheet=True)
    assert path.read_bytes().startswith(b"\xef\xbb\xbf")
    with path.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["town", "'=job", "N_masked"]
    guarded = {"'=1+1", "'+82", "'-5", "'@SUM(A1)", "'\tx", "a=b", "공무원", ""}
    assert {(row[1], row[2]) for row in rows} == {(job, "9") for job in guarded}
    with pytest.raises(ilba.InputError, match="is only for csv"):
        export(release, name, "px", tmp_path / "t.px", spreadsheet=True)


def test_codes_have_only_allowed_letters_and_stay_apart():
    codes = ["01", "01/02", "01-02", "공무원", 'the "other", job', "$2F", "/", "a b", ""]
    spelled = [_code(code) for code in codes]
    assert len(set(spelled)) == len(codes)
    assert all(
        set(code) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@$-") for code in spelled
    )
    assert spelled[0] == "01"


@pytest.mark.parametrize("format", FORMATS)
def test_every_export_is_for_anybody_holds_no_small_count_and_no_confidential_column(release, tmp_path, format):
    for path in written(release, "block.sex.age", format, tmp_path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
    if format in ("csv", "parquet"):
        frame = pl.read_csv(path) if format == "csv" else pl.read_parquet(path)
        assert not {"N", "type1", "type2", "loss"} & set(frame.columns)
    if format == "json-stat":
        assert not set(json.loads(path.read_text("utf-8"))["value"]) & {1, 2, 3, 4}
    if format == "px":
        data = path.read_text("utf-8").rpartition("DATA=")[2]
        assert not set(data.split()) & {"1", "2", "3", "4"}


@pytest.mark.parametrize("format", FORMATS)
def test_an_export_is_the_same_bytes_whenever_it_is_made(release, tmp_path, format):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = [path.read_bytes() for path in written(release, "town.sex", format, tmp_path / "a")]
    assert first == [path.read_bytes() for path in written(release, "town.sex", format, tmp_path / "b")]


@pytest.mark.long
@pytest.mark.parametrize("format", GRIDS)
def test_a_release_of_grids_exports_as_one_of_rows_does(finest, release, tmp_path, format):
    options = {"title": "사람 people", "source": "통계청", "labels": CODES, "rows": "grid"}
    grid = finest.release(tmp_path / "grid", tables=["town.sex", "region"], **options, **ILBA)
    assert grid.table("town.sex").height > release.table("town.sex").height
    [path, *_] = written(grid, "town.sex", format, tmp_path)
    ours = path.read_text("utf-8")
    [path, *_] = written(release, "town.sex", format, tmp_path)
    theirs = path.read_text("utf-8")
    if format == "json-stat":
        assert json.loads(ours)["value"] == json.loads(theirs)["value"]
    elif format == "px":
        assert ours.partition("DATA=")[2] == theirs.partition("DATA=")[2]
    elif format == "sdmx-ml":
        assert ours.partition("<gen:Obs>")[2] == theirs.partition("<gen:Obs>")[2]
    else:
        assert ours == theirs


def recurring():
    """Towns 1 and 2 in both regions, streets a and b in each town, but street c in one town only."""
    rows = [(r, t, s) for r in "AB" for t in "12" for s in "ab"] + [("B", "2", "c")]
    return pl.DataFrame(
        {
            "region": [r for r, _, _ in rows],
            "town": [t for _, t, _ in rows],
            "street": [s for _, _, s in rows],
            "N": range(10, 10 + len(rows)),
        }
    )


def test_a_code_under_several_parents_is_known_by_its_whole_path(secret, tmp_path):
    finest = ilba.FinestTable.from_counts(recurring(), ["region", "town", "street"], secret=secret)
    release = finest.release(tmp_path / "r")
    [path] = export(release, "street", "json-stat", tmp_path / "t.json")
    data = json.loads(path.read_text("utf-8"))
    index = data["dimension"]["street"]["category"]["index"]
    assert list(index) == ["A/1/a", "A/1/b", "A/2/a", "A/2/b", "B/1/a", "B/1/b", "B/2/a", "B/2/b", "B/2/c"]
    assert data["value"] == list(range(10, 19))
    [path] = export(release, "town", "px", tmp_path / "t.px")
    assert pyaxis.parse(str(path), encoding="utf-8")["METADATA"]["CODES(town)"] == ["A/1", "A/2", "B/1", "B/2"]
    data, structure = export(release, "street", "sdmx-csv", tmp_path / "t.csv")
    read_sdmx(structure, validate=True)
    assert "B$2F2$2Fc" in data.read_text("utf-8")


def test_a_missing_label_has_a_code_of_its_own(secret, tmp_path):
    people = pl.DataFrame({"town": ["a"] * 20 + ["b"] * 20, "job": (["NA"] * 8 + ["x"] * 6 + [None] * 6) * 2})
    finest = ilba.build(people, ["town"], ["job"], secret=secret, missing="category")
    release = finest.release(tmp_path / "r")
    [path] = export(release, "all.job", "json-stat", tmp_path / "t.json")
    data = json.loads(path.read_text("utf-8"))
    labels = data["dimension"]["job"]["category"]["label"]
    assert labels == {"NA": "NA", "x": "x", "_NA": "not stated"}
    known = {row[0]: row[1] for row in release.table("all.job").iter_rows()}
    assert dict(zip(labels, data["value"], strict=True)) == {"NA": known["NA"], "x": known["x"], "_NA": known[None]}


def test_equal_labels_are_told_apart_by_their_codes(secret, tmp_path):
    people = pl.DataFrame({"town": ["a"] * 9 + ["b"] * 9 + ["c"] * 9})
    codes = pl.DataFrame({"variable": ["town"] * 3, "code": ["a", "b", "c"], "label_en": ["Same", "Same", "Other"]})
    release = ilba.build(people, ["town"], secret=secret).release(tmp_path / "r", labels=codes)
    [path] = export(release, "town", "px", tmp_path / "t.px")
    read = pyaxis.parse(str(path), encoding="utf-8")
    assert read["METADATA"]["VALUES(town)"] == ["Same (a)", "Same (b)", "Other"]


@pytest.fixture(scope="module")
def listed(secret, tmp_path_factory):
    people = pl.DataFrame({"town": ["1", "2", "2"] * 40, "edu": ["high", "low", "mid", None] * 30})
    codes = pl.DataFrame(
        {
            "variable": ["town"] * 2 + ["edu"] * 3,
            "code": ["2", "1", "low", "mid", "high"],
            "label_it": [None, None, "low", "mid", "high"],
        }
    )
    finest = ilba.build(people, ["town"], ["edu"], secret=secret, missing="category")
    return finest.release(tmp_path_factory.mktemp("listed") / "r", labels=codes)


def test_csv_and_xlsx_have_the_rows_in_the_order_of_the_code_list_and_parquet_those_of_the_release(listed, tmp_path):
    order = [(town, edu) for town in (2, 1) for edu in ("low", "mid", "high", None)]
    [path] = written(listed, "town.edu", "csv", tmp_path, lang="it")
    assert pl.read_csv(path, null_values="NA").select("town", "edu").rows() == order
    [path] = written(listed, "town.edu", "xlsx", tmp_path, lang="it")
    sheet = openpyxl.load_workbook(path).worksheets[0]
    rows = list(sheet.iter_rows(min_row=int(sheet.freeze_panes.removeprefix("A")), values_only=True))
    assert [(int(row[0]), row[1] or None) for row in rows] == order
    [path] = written(listed, "town.edu", "parquet", tmp_path, lang="it")
    assert pl.read_parquet(path).select("town", "edu", "N_masked").equals(listed.table("town.edu"))


def test_a_missing_value_has_its_label_where_the_other_labels_are_equal_to_their_codes(listed, tmp_path):
    [path] = written(listed, "all.edu", "csv", tmp_path, lang="it")
    read = pl.read_csv(path, null_values="NA")
    assert read.columns == ["edu", "edu_label", "N_masked"]
    assert read["edu_label"].to_list() == ["low", "mid", "high", "not stated"]
    [path] = written(listed, "all.edu", "xlsx", tmp_path, lang="it")
    assert [cell.value for cell in list(openpyxl.load_workbook(path).worksheets[0])[-1]][:2] == ["", "not stated"]


def test_codes_that_nobody_labelled_have_no_label_column(listed, tmp_path):
    [path] = written(listed, "town", "csv", tmp_path)
    assert pl.read_csv(path).columns == ["town", "N_masked"]


def test_a_wrong_export_is_refused(release, tmp_path):
    for name, format, options, says in [
        ("twon", "csv", {}, "Did you mean 'town'"),
        ("town", "json_stat", {}, "Did you mean 'json-stat'"),
        ("town", "cvs", {}, "Did you mean 'csv'"),
        ("town", "csv", {"lang": "xx"}, "en, ko"),
        ("town", "sdmx-csv", {"agency": "통계청"}, "agency"),
        ("town", "csv", {"langue": "en"}, "Did you mean 'lang'"),
    ]:
        with pytest.raises(ilba.InputError, match=says):
            export(release, name, format, tmp_path / "out", **options)
    with pytest.raises(ilba.InputError, match="Create it first"):
        export(release, "town", "csv", tmp_path / "no" / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_an_export_never_takes_the_place_of_a_store_or_a_secret(finest, release, secret, tmp_path):
    store = finest.save(tmp_path / "store.parquet")
    before = store.read_bytes()
    for format in FORMATS:
        with pytest.raises(ilba.InputError, match="would destroy"):
            export(release, "town", format, store)
    assert store.read_bytes() == before
    kept = tmp_path / "my.secret"
    secret.to_file(kept)
    for format in FORMATS:
        with pytest.raises(ilba.InputError, match="would destroy"):
            export(release, "town", format, kept)


def test_a_grid_or_a_sheet_that_is_too_large_is_refused(release, tmp_path, monkeypatch):
    monkeypatch.setattr("ilba.output.wording._MOST_CELLS", 100)
    for format in GRIDS:
        with pytest.raises(ilba.InputError, match="Use parquet or csv"):
            written(release, "block.sex.age", format, tmp_path)
    monkeypatch.setattr("ilba.output.formats.xlsx._SHEET_ROWS", 50)
    with pytest.raises(ilba.InputError, match="Excel"):
        written(release, "block.sex.age", "xlsx", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_any_published_cell_is_refused_where_the_format_needs_one(secret, tmp_path):
    counts = pl.DataFrame({"town": ["a", "b"], "N": [1, 1], "N_masked": [0, 0]})
    release = ilba.FinestTable.from_counts(counts, ["town"]).release(
        tmp_path / "r", tables=["town"], secret=secret, **ILBA
    )
    assert release.table("town").height == 0
    with pytest.raises(ilba.InputError, match="no published cell"):
        export(release, "town", "px", tmp_path / "t.px")
    [path] = export(release, "town", "csv", tmp_path / "t.csv")
    assert path.read_text("utf-8").splitlines() == ['"town","N_masked"']


@pytest.mark.long
def test_a_missing_package_is_named_with_what_to_type(release, tmp_path):
    script = (
        "import sys\n"
        "class No:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name in ('xlsxwriter', 'pysdmx'): raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, No())\n"
        "import ilba\n"
        "from ilba.output.export import export\n"
        "for format in ('xlsx', 'sdmx-csv', 'sdmx-ml'):\n"
        "    try: export(sys.argv[1], 'town', format, sys.argv[2])\n"
        "    except ilba.MissingExtra as problem: print(problem)\n"
        "print(export(sys.argv[1], 'town', 'px', sys.argv[2])[0].name)\n"
    )
    command = [sys.executable, "-c", script, str(release.path), str(tmp_path / "t")]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line.split(". ")[1] for line in said[:3]] == ["Type: pip install 'ilba[formats]'"] * 3
    assert said[3] == "t"


@pytest.mark.long
def test_the_census_exports_with_its_korean_names(secret, tmp_path):
    people = ilba.datasets.census(20_000)
    finest = ilba.build(people, ["LA1", "LA2", "LA3", "OA"], ["gender", "age"], secret=secret)
    release = finest.release(
        tmp_path / "r",
        tables=["OA", "LA3.gender.age"],
        labels=ilba.datasets.census_codes(),
        geometry={"LA3": ilba.datasets.census_geometry("LA3")},
    )
    table = WordedTable(release, release.tables["OA"], release.table("OA"), "ko")
    # Every area of the code list is there, whether or not anybody was counted in it.
    assert len(table.values) == 2506 > release.table("OA").height
    [path] = export(release, "LA3.gender.age", "px", tmp_path / "t.px", lang="ko")
    read = pyaxis.parse(str(path), encoding="utf-8")["DATA"]
    assert read.shape == (78 * 2 * 18, 4)
    assert list(read.iloc[0])[:3] == ["해내동", "남자", "0-5세"]


def published_values(path, kind) -> tuple[set[str], list[int]]:
    """The column names and every count in an exported file, read without our own code."""
    if kind == "parquet":
        frame = pl.read_parquet(path)
        return set(frame.columns), frame["N_masked"].to_list()
    if kind == "xlsx":
        sheet = openpyxl.load_workbook(path).worksheets[0]
        rows = [[cell.value for cell in row if cell.value is not None] for row in sheet.iter_rows()]
        words = {value for row in rows for value in row if isinstance(value, str)}
        return words, [row[-1] for row in rows if row and isinstance(row[-1], int)]
    if kind == "json-stat":
        plain = json.loads(path.read_text(encoding="utf-8"))
        return set(plain["id"]) | set(plain), plain["value"]
    if kind == "px":
        head, _, data = path.read_text(encoding="utf-8").partition("DATA=")
        return set(head.split('"')), [int(number) for number in data.replace(";", " ").split()]
    if kind == "sdmx-ml":
        text = path.read_text(encoding="utf-8")
        words = set(re.findall(r'(?:id|value)="([^"]*)"', text.partition("<gen:Obs>")[0]))
        return words, [int(number) for number in re.findall(r'<gen:ObsValue value="(\d+)"/>', text)]
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    column = "OBS_VALUE" if kind == "sdmx-csv" else list(rows[0])[-1]
    return set(rows[0]), [int(row[column]) for row in rows]


@pytest.fixture(scope="module")
def of_two_keys(finest, tmp_path_factory):
    return finest.release(tmp_path_factory.mktemp("two") / "release", max_keys=2, ledger=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FORMATS)
def test_no_export_of_any_table_leaks(of_two_keys, tmp_path, kind):
    release = of_two_keys
    for name in release.tables:
        first, *_ = export(release, name, kind, tmp_path / f"{name}.{kind}")
        words, values = published_values(first, kind)
        assert not {"N", "type1", "type2", "loss", "Loss"} & words, name
        assert len(values) >= release.tables[name].rows, name
        assert not [value for value in values if 1 <= value < 5], name
        assert sum(values) == release.table(name)["N_masked"].sum(), name
        assert bytes(range(32)).hex().encode() not in first.read_bytes()


def test_the_notes_of_suppressed_tables_say_that_the_counts_are_exact(secret, tmp_path):
    counted = pl.DataFrame({"town": ["a", "a", "b"], "sex": ["f", "m", "f"], "N": [40, 3, 60]})
    finest = ilba.FinestTable.from_counts(counted, ["town"], secret=secret)
    made = finest.release(tmp_path / "blank", "suppression:kind=primary", ["town.sex"], accept_risk=True, ledger=False)
    [path] = written(made, "town.sex", "px", tmp_path)
    notes = " ".join(path.read_text("utf-8").replace('"\n"', "").split("NOTEX=")[1].split(";\nDATA")[0].split())
    assert "Published counts are exact" in notes
    assert "changed" not in notes
    assert "add up" not in notes
