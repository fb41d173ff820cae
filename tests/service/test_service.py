"""The service answers from releases alone, as the clients of statistical offices expect it."""

from __future__ import annotations

import concurrent.futures
import io
import itertools
import json
import math
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import polars as pl
import pytest

import ilba
from ilba import Secret
from ilba.service.asked import Codes, split
from ilba.service.catalog import Recent
from support.people import HKEY, ILBA, KEY, population
from support.serving import serving

pytestmark = pytest.mark.slow

LABELS = pl.DataFrame(
    {
        "variable": ["town", "sex", "sex", "sex", "age", "region"],
        "code": [None, None, "f", "m", None, "01"],
        "label_en": ["Town", "Sex", "Women", "Men", "value", "North"],
        "label_ko": ["읍면동", "성별", "여자", "남자", "나이", "북부"],
    }
)
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
MAP = {"type": "FeatureCollection", "features": [{"type": "Feature", "id": "01", "properties": {}, "geometry": SQUARE}]}


@pytest.fixture(scope="module")
def releases(tmp_path_factory, finest):
    """All tables; two tables only; and a controlled release of the finest table alone."""
    home = tmp_path_factory.mktemp("releases")
    finest.release(home / "people", title="People", labels=LABELS, geometry={"region": MAP}, **ILBA)
    finest.release(home / "few", tables=["town.sex.age", "town"], labels=LABELS, **ILBA)
    return home


@pytest.fixture(scope="module")
def server(releases):
    with serving(
        releases / "people", options=("--max-cells", "400", "--license", "https://example.org/licence")
    ) as one:
        yield one


@pytest.fixture(scope="module")
def client(server):
    with server.client() as one:
        yield one


def rows_of(dataset, show="code"):
    """The cells of a JSON-stat dataset by their codes."""
    axes = []
    for name in dataset["id"]:
        category = dataset["dimension"][name]["category"]
        codes = sorted(category["index"], key=category["index"].get)
        axes.append(codes if show == "code" else [category["label"][code] for code in codes])
    return dict(zip(itertools.product(*axes), dataset["value"], strict=True))


def released(folder, name):
    """The rows of a released table by the finest code of each dimension."""
    release = ilba.Release(folder)
    table = release.tables[name]
    axes = [h.columns[table.levels[h.name] - 1] for h in release.design.hierarchies if table.levels[h.name]]
    frame = release.table(name).select(pl.col([*axes, *table.keys]).cast(pl.String), "N_masked")
    return {row[:-1]: row[-1] for row in frame.iter_rows()}


def assert_equal_where_listed(answered, expected):
    assert {cell: count for cell, count in answered.items() if count} == expected


def problem(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert set(told) == {"type", "title", "status", "detail", "instance"}
    assert told["status"] == status
    return told["detail"]


def test_every_table_is_answered_as_it_was_released(server, releases):
    with server.client() as client:
        listed = client.get("/tables", params={"pageSize": 1000}).json()
        assert {entry["id"] for entry in listed["tables"]} == set(ilba.Release(releases / "people").tables)
        for entry in listed["tables"]:
            answer = client.get(f"/tables/{entry['id']}/data").json()
            if entry["id"] == "all":
                assert answer["value"] == [released(releases / "people", "all")[()]]
                continue
            expected = released(releases / "people", entry["id"])
            cells = rows_of(answer)
            assert cells == {cell: expected.get(cell, 0) for cell in cells}
            if math.prod(client.get(f"/tables/{entry['id']}/metadata").json()["size"]) <= 400:
                assert_equal_where_listed(cells, expected)


def test_an_unmodified_client_of_statistical_offices_reads_the_release(server, releases):
    from pxweb import PxApi

    api = PxApi(f"{server.address}api/v2", disable_cache=True)
    assert api.number_of_tables == 32
    labelled = api.get_table_data("town.sex")
    assert set(labelled[0]) == {"Town", "Sex", "value"}
    assert {row["Sex"] for row in labelled} == {"Women", "Men"}
    # More cells than one answer holds: the client asks in parts.
    everything = {name: ["*"] for name in ("block", "sex", "age", "job")}
    rows = api.get_table_data("block.sex.age.job", value_codes=everything, show="code")
    assert len(rows) > 400
    found = {tuple(row[name] for name in ("block", "Sex", "value (age)", "job")): row["value"] for row in rows}
    assert_equal_where_listed(found, released(releases / "people", "block.sex.age.job"))
    towns = api.get_table_data(
        "block.sex", value_codes={"block": ["*"], "sex": ["f"]}, code_list={"block": "block.town"}
    )
    women = {cell[:1]: n for cell, n in released(releases / "people", "town.sex").items() if cell[1] == "f"}
    assert_equal_where_listed({(row["Town"],): row["value"] for row in towns}, women)
    assert api.get_code_list("block.region")["values"][0]["label"] == "North"
    assert api.get_table_variables("town.sex")["sex"]["category"]["label"]["f"] == "Women"
    assert api.search(query="sex job")["page"]["totalElements"] == 8


@pytest.mark.parametrize(
    ("asked", "codes"),
    [
        ("*", [str(age) for age in range(1, 13)]),
        ("1*", ["1", "10", "11", "12"]),
        ("*1", ["1", "11"]),
        ("*1*", ["1", "10", "11", "12"]),
        ("?", [str(age) for age in range(1, 10)]),
        ("1?", ["10", "11", "12"]),
        ("top(2)", ["1", "2"]),
        ("TOP(2,1)", ["2", "3"]),
        ("Bottom(2)", ["11", "12"]),
        ("RANGE(3,5)", ["3", "4", "5"]),
        ("from(11)", ["11", "12"]),
        ("TO(2)", ["1", "2"]),
        ("2,[3],12", ["2", "3", "12"]),
        ("12,2,2", ["2", "12"]),
        ("TOP(1),RANGE(2,3),1?", ["1", "2", "3", "10", "11", "12"]),
    ],
)
def test_expressions_choose_codes_in_the_order_of_the_list(client, asked, codes):
    by_address = client.get("/tables/all.age/data", params={"ValueCodes[age]": asked}).json()
    assert list(by_address["dimension"]["age"]["category"]["index"]) == codes
    texts = [asked] if "(" in asked and asked.count("(") == 1 else asked.split(",") if "(" not in asked else None
    if texts:
        body = {"selection": [{"variableCode": "age", "valueCodes": texts}]}
        assert client.post("/tables/all.age/data", json=body).json() == by_address


def test_codes_that_hold_commas_and_brackets_are_found():
    codes = Codes("age", ["[0,25)", "[25,60)", "[60,83]", "a,b", "a", "b", "*", "TOP(1)"])
    assert codes.chosen("[60,83]") == [2]
    assert codes.chosen("[0,25),[60,83]") == [0, 2]
    assert codes.chosen("[[0,25)]") == [0]
    assert codes.chosen("a,b") == [4, 5]
    assert codes.chosen("[a,b]") == [3]
    assert codes.chosen(["a,b"]) == [3]
    assert codes.chosen("*") == [6], "a code that is spelled like an expression is that code"
    assert codes.chosen("RANGE([60,83],b)") == [2, 3, 4, 5]


def test_a_variable_left_out_is_answered_from_the_table_published_without_it(client, releases):
    answer = client.get("/tables/town.sex.age/data", params={"valuecodes[town]": "*", "valuecodes[sex]": "*"}).json()
    assert answer["id"] == ["town", "sex"]
    assert_equal_where_listed(rows_of(answer), released(releases / "people", "town.sex"))
    summed = client.get("/tables/town.sex/data").json()["value"]
    assert sum(summed) != client.get("/tables/all/data").json()["value"][0], "the masked counts would not add up"


def test_what_was_not_published_is_refused_and_not_summed(releases):
    with serving(releases / "few") as server, server.client() as client:
        told = client.get("/tables/town.sex.age/metadata").json()["dimension"]
        assert [told[name]["extension"]["elimination"] for name in ("town", "sex", "age")] == [False, False, False]
        asked = {"valuecodes[town]": "*", "valuecodes[sex]": "*"}
        said = problem(client.get("/tables/town.sex.age/data", params=asked), 400)
        assert "not published" in said
        assert client.get("/tables/town.sex.age/data", params={"valuecodes[town]": "*"}).status_code == 200
        assert "not published" in problem(client.get("/cell", params={"key": "sex", "key_value": "f"}), 400)


def test_where_tables_add_up_every_table_is_answered_from_the_finest(tmp_path, people, secret):
    chosen = ilba.build(people, HKEY, KEY[:2], secret=secret).controlled(secret=secret)
    chosen.release(tmp_path / "sums", tables=["block.sex.age"])
    with serving(tmp_path / "sums") as server, server.client() as client:
        listed = client.get("/tables", params={"pageSize": 100}).json()["tables"]
        assert len(listed) == 16
        for entry in listed:
            answer = client.get(f"/tables/{entry['id']}/data").json()
            table = chosen.table(*_asked(entry["id"])).public()
            assert sum(answer["value"]) == table["N_masked"].sum()
            assert sorted(n for n in answer["value"] if n) == sorted(table["N_masked"].to_list())
        assert client.get("/cell").json()["N_masked"] == chosen.cell()


def _asked(name):
    area, *keys = name.split(".")
    return (0 if area == "all" else area), keys


def test_single_cells_are_those_of_the_release(client, finest):
    table = finest.table("town", ["sex", "age"]).public()
    for row in table.head(20).iter_rows():
        asked = {"level": "town", "key": "sex,age", "hkey_value": ",".join(row[:2]), "key_value": f"{row[2]},{row[3]}"}
        told = client.get("/cell", params=asked).json()
        assert told["N_masked"] == row[-1]
        assert told["table"] == "town.sex.age"
    by_number = {"level": "1", "hkey_value": "01"}
    assert client.get("/cell", params=by_number).json()["N_masked"] == finest.cell(1, [], ["01"])
    other = {"level": "town", "hkey_value": "02,0101"}
    assert client.get("/cell", params=other).json()["N_masked"] == 0, "known labels that are nowhere together"
    strange = {"level": "1", "key": "job", "hkey_value": "01", "key_value": '[the "other", job]'}
    assert client.get("/cell", params=strange).json()["N_masked"] == finest.cell(
        1, ["job"], ["01"], ['the "other", job']
    )
    quoted = {**strange, "key_value": '"the ""other"", job"'}
    assert client.get("/cell", params=quoted).json() == client.get("/cell", params=strange).json()
    for wrong in ({"level": "1", "hkey_value": "99"}, {"level": "9"}, {"key": "sexx"}, {"level": "1"}, {"keys": "sex"}):
        problem(client.get("/cell", params=wrong), 400)


def test_values_of_cells_are_split_as_on_the_command_line():
    assert split("") == []
    assert split("a,b") == ["a", "b"]
    assert split('"a,b",c') == ["a,b", "c"]
    assert split('c,"[60,83]"') == ["c", "[60,83]"]
    assert split("[[60,83]],[a,b],c") == ["[60,83]", "a,b", "c"]
    assert split('a,,"",[],b"c"') == ["a", "", "", "", 'b"c"']
    assert split('"a""b",x') == ['a"b', "x"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"level": "town"}, "hkey_value is missing. Give 2 values with commas between: region, town."),
        ({"level": "town", "hkey_value": "01"}, "hkey_value has 1 value. Give 2 values"),
        ({"hkey_value": "01"}, "hkey_value is given, and no level is."),
        ({"key": "sex,age", "key_value": "f"}, "key_value has 1 value. Give 2 values with commas between: sex, age."),
        ({"key_value": "f"}, "key_value is given, and no key is."),
        ({"level": "9"}, "level=9 is not in this release."),
        ({"key": "colour"}, "'colour' is not a key of this release."),
        ({"level": "region,town"}, "level names 'region' and 'town', of the same hierarchy."),
    ],
)
def test_a_wrong_cell_is_told_in_the_words_of_its_address(client, asked, said):
    told = problem(client.get("/cell", params=asked), 400)
    assert told.startswith(said)
    assert "store" not in told


def test_problems_are_sentences_that_leave_names_as_they_are_typed(client):
    for path, asked, said in [
        ("/nothing", {}, "There is nothing at this address."),
        ("/tables", {"lang": "fr"}, "lang is 'fr'."),
        ("/tables", {"pagesize": "0"}, "pageSize is '0'."),
        ("/tables", {"colour": "red"}, "The parameter 'colour' is not known here."),
    ]:
        assert client.get(path, params=asked).json()["detail"].startswith(said)


def test_code_lists_lead_to_the_coarser_table_or_to_what_lies_inside(client, releases):
    told = client.get("/tables/block.sex/metadata").json()["dimension"]["block"]["extension"]
    assert told["codelists"] == told["codeLists"]
    assert [one["id"] for one in told["codelists"]] == ["block.region", "block.town"]
    assert told["ilba"]["parents"]["010101"] == "0101"
    values = client.get("/codelists/block.town").json()["values"]
    assert values[0]["valueMap"] == ["010101", "010102", "010103"]
    asked = {"valuecodes[block]": "0101", "codelist[block]": "block.town", "valuecodes[sex]": "*"}
    coarse = rows_of(client.get("/tables/block.sex/data", params=asked).json())
    assert coarse == {c: n for c, n in released(releases / "people", "town.sex").items() if c[0] == "0101"}
    inside = client.get("/tables/block.sex/data", params={**asked, "outputValues[block]": "single"}).json()
    assert list(inside["dimension"]["block"]["category"]["index"]) == ["010101", "010102", "010103"]
    problem(client.get("/codelists/nothing"), 404)
    problem(client.get("/tables/block.sex/data", params={**asked, "codelist[block]": "block.street"}), 400)
    problem(client.get("/tables/block.sex/data", params={"valuecodes[sex]": "*", "codelist[sex]": "block.town"}), 400)


def test_every_format_holds_the_same_numbers(client, tmp_path):
    import openpyxl
    from pyaxis import pyaxis

    asked = {"valuecodes[town]": "TOP(4)", "valuecodes[sex]": "*", "lang": "ko"}
    values = client.get("/tables/town.sex/data", params=asked).json()["value"]

    def answer(kind):
        found = client.get("/tables/town.sex/data", params={**asked, "outputFormat": kind})
        assert found.status_code == 200
        assert f"town.sex.{kind}" in found.headers["content-disposition"]
        return found.content

    csv = pl.read_csv(answer("csv"), infer_schema=False)
    assert csv["N_masked"].cast(pl.Int64).to_list() == values
    assert csv["sex_label"].unique().sort().to_list() == ["남자", "여자"]
    assert csv["town"][0] == "0101", "codes keep their zeros"
    assert pl.read_parquet(answer("parquet"))["N_masked"].to_list() == values
    sheet = openpyxl.load_workbook(io.BytesIO(answer("xlsx"))).worksheets[0]
    counts = [row[-1] for row in sheet.iter_rows(values_only=True) if isinstance(row[-1], int | float)]
    assert counts == values
    (tmp_path / "t.px").write_bytes(answer("px"))
    px = pyaxis.parse(str(tmp_path / "t.px"), encoding="utf-8")
    assert [int(n) for n in px["DATA"]["DATA"]] == values


def test_labels_come_in_both_languages_and_are_unlike_each_other(client):
    english, korean = (client.get("/tables/town.sex.age/metadata", params={"lang": lang}) for lang in ("en", "ko"))
    assert [english.json()["dimension"][name]["label"] for name in ("town", "sex", "age")] == [
        "Town",
        "Sex",
        "value (age)",
    ]
    assert korean.json()["dimension"]["sex"]["category"]["label"] == {"f": "여자", "m": "남자"}
    assert korean.headers["content-language"] == "ko"
    assert client.get("/releases", params={"lang": "ko"}).json()["releases"][0]["keys"][0]["label"] == "성별"


def test_the_list_of_tables_has_pages_and_can_be_searched(client):
    first = client.get("/tables").json()
    assert first["page"] == {**first["page"], "pageNumber": 1, "pageSize": 20, "totalElements": 32, "totalPages": 2}
    second = client.get("/tables", params={"pageNumber": 2}).json()["tables"]
    assert len(second) == 12
    assert not {t["id"] for t in second} & {t["id"] for t in first["tables"]}
    problem(client.get("/tables", params={"pageNumber": 3}), 404)
    assert client.get("/tables", params={"query": "zzz"}).json()["page"]["totalPages"] == 1
    assert client.get("/tables", params={"pastDays": 1}).json()["page"]["totalElements"] == 32
    entry = client.get("/tables/town.sex").json()
    assert entry["variableNames"] == ["Town", "Sex"]
    assert entry["paths"] == [[{"id": "people", "label": "People"}]]
    for link in entry["links"]:
        assert client.get(link["href"].removeprefix("/api/v2")).status_code == 200


def test_the_configuration_says_what_clients_need(client):
    told = client.get("/config").json()
    assert told["apiVersion"] == "2.0.0"
    assert told["maxDataCells"] == 400
    assert told["license"] == "https://example.org/licence"
    assert set(told["dataFormats"]) == {"json-stat2", "csv", "xlsx", "parquet", "px"}


def test_no_answer_holds_more_cells_than_allowed(client):
    asked = {f"valuecodes[{name}]": "*" for name in ("block", "sex", "age")}
    assert "at most 400" in problem(client.get("/tables/block.sex.age/data", params=asked), 403)
    unasked = client.get("/tables/block.sex.age/data").json()
    assert 0 < len(unasked["value"]) <= 400
    chosen = client.get("/tables/block.sex.age/defaultselection").json()
    assert client.post("/tables/block.sex.age/data", json={"selection": chosen["selection"]}).json() == unasked


@pytest.mark.parametrize(
    ("path", "asked", "status"),
    [
        ("/tables/nothing", {}, 404),
        ("/tables/nothing/data", {}, 404),
        ("/nothing", {}, 404),
        ("/tables/town.sex/data", {"valuecodes[colour]": "red"}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": "x"}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": "zz*"}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": "f*m*"}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": "TOP(x)"}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": "RANGE(f)"}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": ",".join(f"q{n}*" for n in range(300))}, 400),
        ("/tables/town.sex/data", {"valuecodes[sex]": "f", "valuecodes[SEX]": "m"}, 400),
        ("/tables/town.sex/data", {"outputFormat": "docx"}, 400),
        ("/tables/town.sex/data", {"lang": "fr"}, 400),
        ("/tables/town.sex/data", {"colour": "red"}, 400),
        ("/tables", {"pageSize": "0"}, 400),
        ("/tables", {"pageSize": "-1"}, 400),
        ("/tables", {"pageNumber": "x"}, 400),
        ("/tables", {"query": "x" * 2000}, 400),
        ("/geometry/people/town", {}, 404),
        ("/geometry/..%2f..%2fetc/passwd", {}, 404),
    ],
)
def test_a_wrong_question_is_answered_by_a_problem(client, path, asked, status):
    assert problem(client.get(path, params=asked), status)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'"x"',
        b"[" * 100_000,
        b'{"selection": 3}',
        b'{"selection": [3]}',
        b'{"selection": [{}]}',
        b'{"selections": []}',
        b'{"placement": 3}',
        b'{"selection": [{"variableCode": "sex", "valueCodes": "f"}]}',
        b'{"selection": [{"variableCode": "sex", "valueCodes": [1]}]}',
        b'{"selection": [{"variableCode": "sex"}, {"variableCode": "sex"}]}',
        b'{"selection": [{"variableCode": "sex", "valueCodes": ["f"], "outputValues": "none"}]}',
        b"\xff\xfe",
    ],
)
def test_a_wrong_body_is_answered_by_a_problem(client, body):
    assert problem(
        client.post("/tables/town.sex/data", content=body, headers={"content-type": "application/json"}), 400
    )


def test_too_much_is_refused_before_it_is_read(client, server):
    assert problem(client.get("/tables/town.sex/data", params={"valuecodes[sex]": "f" * 61_000}), 414)
    assert problem(client.post("/tables/town.sex/data", content=b" " * 3_000_000), 413)
    assert problem(client.put("/tables/town.sex/data"), 405)
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n")
        with pytest.raises(OSError):  # noqa: PT012 - the connection is closed somewhere on the way
            for _ in range(1000):
                raw.sendall(b"X-Long: " + b"x" * 60_000 + b"\r\n")
            raise OSError if b"400" in raw.recv(100) else AssertionError
    assert client.get("/config").status_code == 200, "and the others are served on"


@pytest.mark.parametrize("length", [61_000, 66_000, 90_000])
@pytest.mark.parametrize(
    "begin", ["/api/v2/tables/town.sex/data?valuecodes[sex]=", "/", "/" + "%ED%95%9C" * 600 + "?x="]
)
def test_an_address_that_is_too_long_is_refused_in_words_and_logged_in_short(server, begin, length):
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    before = len(server.lines)
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(f"GET {begin + 'f' * length} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        head, _, body = b"".join(iter(lambda: raw.recv(65536), b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 414")
    assert json.loads(body)["detail"].startswith("The address is longer than 60,000 letters.")
    assert b"content-security-policy" in head
    assert eventually(lambda: any(" 414" in line for line in server.lines[before:]))
    assert max(map(len, server.lines)) < 1000


def test_a_body_that_arrives_with_its_head_is_read(server):
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    body = b'{"selection": []' + b" " * 250_000 + b"}"
    head = f"POST /api/v2/tables/town/data HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\nConnection: close\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(head.encode() + b"\r\n" + body)
        assert raw.recv(100).startswith(b"HTTP/1.1 200")


def eventually(true, seconds=20.0):
    """Whether something comes true in time."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def test_a_browser_that_asks_beforehand_is_told_that_any_page_may_ask(client, server):
    ask = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    for path in ("/tables/town.sex/data", "/tables", "/cell", "/config", "/geometry/people/region", "/codelists/x"):
        told = client.options(path, headers={**ask, "Access-Control-Request-Headers": "content-type"})
        assert told.status_code == 204
        assert not told.content
        assert told.headers["access-control-allow-origin"] == "*"
        assert "POST" in told.headers["access-control-allow-methods"]
        assert "content-type" in told.headers["access-control-allow-headers"].lower()
        assert int(told.headers["access-control-max-age"]) > 0
    assert httpx.options(server.address, headers=ask).status_code == 405, "the page is for its own address"


def test_no_address_reaches_the_files_of_the_machine(server, tmp_path):
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    for path in (
        "/static/../app.py",
        "/static/..%2fapp.py",
        "/static/%2e%2e/%2e%2e/app.py",
        "/static//etc/passwd",
        "//etc/passwd",
        "/api/v2/tables/..%2f..%2frelease.json/data",
        "/api/v2/tables/%00/data",
        "/static/..\\app.py",
    ):
        with socket.create_connection((host, int(port)), timeout=30) as raw:
            raw.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
            content = b"".join(iter(lambda raw=raw: raw.recv(65536), b""))
        assert content.split(b"\r\n")[0].split()[1] in (b"404", b"400"), path
        assert b"root:" not in content
        assert b"import" not in content


def test_the_page_opens_whatever_stands_behind_its_address(server):
    for path in ("", "?lang=ko", "?from=mail#view"):
        answer = httpx.get(server.address + path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


def test_every_answer_carries_the_security_headers_and_no_cookie(server):
    with httpx.Client(base_url=server.address) as client:
        answers = [client.get(path) for path in ("", "api/v2/config", "api/v2/nothing", "api/v2/tables/x", "static/x")]
        answers.append(client.get("api/v2/tables", params={"x": "y" * 61_000}))
    for answer in answers:
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "set-cookie" not in answer.headers
        assert "server" not in answer.headers
        assert str(Path.cwd()) not in answer.text


def test_what_a_client_has_already_is_not_sent_again(client, server):
    for path in ("/tables/town.sex/data", "/geometry/people/region", "/config", "/releases"):
        first = client.get(path)
        assert first.status_code == 200
        again = client.get(path, headers={"If-None-Match": first.headers["etag"]})
        assert again.status_code == 304
        assert not again.content
        assert again.headers["etag"] == first.headers["etag"]
        head = client.head(path)
        assert head.headers["etag"] == first.headers["etag"]
        assert not head.content
    plain = client.get("/tables/town.sex/data", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert plain.json() == client.get("/tables/town.sex/data", headers={"Accept-Encoding": "gzip"}).json()
    assert client.get("/geometry/people/region").json() == MAP


def test_a_release_that_is_replaced_is_served_without_a_restart(tmp_path, secret):
    def publish(seed):
        finest = ilba.build(population(seed=seed), HKEY, KEY[:1], secret=secret)
        finest.release(tmp_path / "nightly", **ILBA)
        return finest.cell()

    before = publish(1)
    with serving(tmp_path / "nightly") as server, server.client() as client:
        first = client.get("/tables/town/data")
        assert client.get("/cell").json()["N_masked"] == before
        after = publish(2)
        for _ in range(100):
            told = client.get("/tables/town/data", headers={"If-None-Match": first.headers["etag"]})
            if told.status_code == 200:
                break
            time.sleep(0.1)
        assert told.json()["value"] != first.json()["value"]
        assert client.get("/cell").json()["N_masked"] == after
        shutil.rmtree(tmp_path / "nightly" / "tables")
        said = [client.get(f"/tables/{name}/data") for name in ("block", "block.sex")]
        assert {answer.status_code for answer in said} == {503}
        assert str(tmp_path) not in said[0].text


def health(server):
    told = httpx.get(f"{server.address}health", timeout=60)
    said = told.json()
    assert said.pop("detail").endswith(".")
    return told.status_code, said


def test_a_damaged_table_is_told_apart_from_a_release_that_is_replaced(tmp_path, releases):
    folder = shutil.copytree(releases / "people", tmp_path / "people")
    file = folder / "tables" / "town.sex.parquet"
    whole = file.read_bytes()
    with serving(folder) as server, server.client() as client:
        assert health(server) == (200, {"status": "ok", "releases": 1, "missing": [], "stale": [], "damaged": []})
        file.write_bytes(whole + b"x")
        first = client.get("/tables/town.sex/data")
        assert "being replaced" in problem(first, 503)
        assert first.headers["retry-after"] == "1"
        asked = "/tables/town.sex/data"
        assert eventually(lambda: "damaged" in client.get(asked).json()["detail"])
        told = client.get(asked)
        said = problem(told, 503)
        assert said == "The table 'town.sex' is damaged on this server. Its operator has to restore it."
        assert int(told.headers["retry-after"]) > 1
        assert client.get("/tables/town/data").status_code == 200, "the others are answered"
        damaged = ["tables/town.sex.parquet"]
        told = {"status": "damaged", "releases": 1, "missing": [], "stale": [], "damaged": damaged}
        assert health(server) == (200, told)
        for _ in range(5):
            client.get(asked)
            client.get(asked, params={"lang": "ko"})
        lines = [line for line in server.lines if "is missing or was changed" in line]
        assert len(lines) == 1, "one line, however often it is asked for"
        assert "town.sex.parquet" in lines[0]
        file.write_bytes(whole)
        assert eventually(lambda: client.get(asked).status_code == 200)
        assert eventually(lambda: health(server)[1]["status"] == "ok")


def test_damage_that_nobody_asked_for_is_told_by_health(tmp_path, releases):
    folder = shutil.copytree(releases / "people", tmp_path / "people")
    with serving(folder, options=("--no-access-log", "--workers", "2")) as server:
        (folder / "tables" / "town.parquet").unlink()
        (folder / "tables" / "all.parquet").touch()  # looks changed, and is not
        assert eventually(lambda: health(server)[1]["damaged"] == ["tables/town.parquet"])
        assert eventually(lambda: any("town.parquet" in line for line in server.lines)), "also without an access log"


def test_a_release_that_is_moved_away_is_not_answered_any_more_until_it_is_back(tmp_path, releases):
    folder = shutil.copytree(releases / "people", tmp_path / "people")
    with serving(folder) as server, server.client() as client:
        paths = (
            "/tables/town/data",
            "/releases",
            "/tables",
            "/cell",
            "/geometry/people/region",
            "/codelists/block.town",
        )
        assert {client.get(path).status_code for path in paths} == {200}
        folder.rename(tmp_path / "away")
        assert eventually(lambda: health(server)[0] == 503)
        for _ in range(30):  # at every moment, and not only when it was just looked
            assert health(server) == (
                503,
                {"status": "damaged", "releases": 0, "missing": ["people"], "stale": [], "damaged": []},
            )
            for path in paths:
                assert "not on this server" in problem(client.get(path), 503)
            time.sleep(0.1)
        assert client.get("/config").status_code == 200
        assert len([line for line in server.lines if "there is no release" in line]) == 1
        (tmp_path / "away").rename(folder)
        assert eventually(lambda: health(server)[0] == 200)
        assert {client.get(path).status_code for path in paths} == {200}


def test_one_release_that_is_gone_leaves_the_others(tmp_path, releases):
    people, few = (shutil.copytree(releases / name, tmp_path / name) for name in ("people", "few"))
    with serving(people, few) as server, server.client() as client:
        few.rename(tmp_path / "away")
        assert eventually(lambda: health(server)[1]["missing"] == ["few"])
        assert health(server)[0] == 200
        assert client.get("/tables/people:town/data").status_code == 200
        assert [one["id"] for one in client.get("/releases").json()["releases"]] == ["people"]
        for path in ("/tables/few:town/data", "/cell?release=few", "/codelists/few:town.region"):
            assert "'few' is not on this server" in problem(client.get(path), 503)
        problem(client.get("/tables/nothing:town/data"), 404)
        problem(client.get("/tables/town/data"), 404)


def test_several_releases_stand_beside_each_other(releases):
    with serving(releases / "people", releases / "few") as server, server.client() as client:
        told = client.get("/releases").json()["releases"]
        assert [one["id"] for one in told] == ["people", "few"]
        assert client.get("/tables").json()["page"]["totalElements"] == 34
        assert (
            client.get("/tables/few:town/data").json()["value"]
            == client.get("/tables/people:town/data").json()["value"]
        )
        asked = {"valuecodes[block]": "*", "codelist[block]": "people:block.town"}
        assert client.get("/tables/people:block/data", params=asked).status_code == 200
        assert client.get("/cell", params={"release": "people"}).status_code == 200
        assert "people, few" in problem(client.get("/cell"), 400)
        problem(client.get("/tables/town"), 404)


def test_recurring_codes_missing_values_and_several_hierarchies_are_served(tmp_path, secret):
    frame = pl.DataFrame(
        {
            "county": ["A"] * 40 + ["B"] * 40,
            "town": ["1"] * 20 + ["2"] * 20 + ["1"] * 40,
            "branch": ["x"] * 30 + ["y"] * 50,
            "trade": ["x1"] * 30 + ["y1"] * 25 + ["y2"] * 25,
            "kind": ["a"] * 50 + [None] * 30,
        }
    )
    hkey = {"area": ["county", "town"], "industry": ["branch", "trade"]}
    words = {"variable": ["industry"], "code": [None], "label_en": ["Industry"], "label_ko": ["산업"]}
    ilba.build(frame, hkey, ["kind"], secret=secret, missing="category").release(tmp_path / "r", labels=words, **ILBA)
    with serving(tmp_path / "r") as server, server.client() as client:
        korean = client.get("/releases", params={"lang": "ko"}).json()["releases"][0]["hierarchies"]
        assert [one["label"] for one in korean] == ["area", "산업"]
        told = client.get("/tables/town+trade/metadata").json()
        assert list(told["dimension"]["town"]["category"]["index"]) == ["A/1", "A/2", "B/1"]
        assert told["dimension"]["town"]["extension"]["ilba"]["parents"] == {"A/1": "A", "A/2": "A", "B/1": "B"}
        assert rows_of(client.get("/tables/town/data").json()) == {("A/1",): 20, ("A/2",): 20, ("B/1",): 40}
        assert rows_of(client.get("/tables/all.kind/data").json()) == {("a",): 50, ("NA",): 30}
        asked = {"level": "town,branch", "hkey_value": "A,1,x", "key": "kind", "key_value": "a"}
        assert client.get("/cell", params=asked).json()["N_masked"] == 20
        coarse = {"valuecodes[town]": "*", "codelist[town]": "town.county", "valuecodes[trade]": "*"}
        assert client.get("/tables/town+trade/data", params=coarse).json()["size"] == [2, 3]


def test_a_store_is_refused_and_so_is_a_damaged_release(tmp_path, finest, releases):
    finest.save(tmp_path / "full_tb.parquet")
    damaged = shutil.copytree(releases / "few", tmp_path / "damaged")
    (damaged / "tables" / "town.parquet").write_bytes(b"PAR1")
    for folder, said in [
        (tmp_path / "full_tb.parquet", "is a file, not a release"),
        (tmp_path, "not a release"),
        (damaged, "missing or was changed"),
    ]:
        command = [sys.executable, "-m", "ilba", "serve", str(folder), "--port", "0"]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert run.returncode == 1
        assert said in run.stderr


def test_an_address_in_use_is_said_plainly(server, releases):
    port = server.address.rstrip("/").rpartition(":")[2]
    command = [sys.executable, "-m", "ilba", "serve", str(releases / "few"), "--port", port]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert "Choose another --port" in run.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_ends_it_quietly(releases, workers):
    with serving(releases / "few", options=("--no-access-log", "--workers", workers)) as server:
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
    assert len([line for line in server.lines if line.strip()]) == 1, server.lines


def test_the_access_log_can_be_off(releases):
    for options, logged in ((("--no-access-log",), False), ((), True)):
        with serving(releases / "few", options=options) as server, server.client() as client:
            client.get("/tables/town/data", params={"valuecodes[town]": "0101"})
        assert any("0101" in line for line in server.lines) == logged


def test_a_worker_killed_under_load_loses_only_its_requests_in_flight(releases):
    with serving(releases / "people", options=("--workers", "2", "--no-access-log")) as server:
        workers = _children(server.process.pid)
        assert len(workers) >= 2
        lost, answered = [], []

        def ask(number):
            with httpx.Client(timeout=60) as client:  # a connection each, as from many people
                try:
                    answer = client.get(
                        f"{server.address}api/v2/cell?level=1&hkey_value=01&lang={'en' if number % 2 else 'ko'}"
                    )
                    answered.append(answer.status_code)
                except httpx.HTTPError as problem:
                    lost.append(problem)

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            asked = [pool.submit(ask, number) for number in range(300)]
            time.sleep(0.3)
            os.kill(workers[-1], signal.SIGKILL)
            concurrent.futures.wait(asked)
        assert set(answered) == {200}
        assert len(lost) <= 8
        for _ in range(150):
            if len(set(_children(server.process.pid)) - {workers[-1]}) >= len(workers):
                break
            time.sleep(0.1)
        else:
            pytest.fail("the worker was not replaced")


def _children(process):
    """The worker processes, without the helper that multiprocessing keeps beside them."""
    told = subprocess.run(
        ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(process)], capture_output=True, text=True
    ).stdout
    return [int(line.split()[0]) for line in told.splitlines() if "spawn_main" in line]


def test_fuzzing_by_the_openapi_document_finds_nothing(server, tmp_path):
    # A request that fits the schema may still name a variable that no table has: to refuse it is right.
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{server.address}api/v2/openapi.json",
        "--exclude-checks", "positive_data_acceptance", "--max-examples", "60", "--seed", "1", "--no-color",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert run.returncode == 0, run.stdout[-4000:]
    assert "Tested: 11" in run.stdout


def test_memory_keeps_what_was_asked_for_last_within_its_size():
    memory: Recent[str] = Recent(100)
    for number in range(50):
        memory.put(number, str(number), 10)
        memory.get(0)
    assert memory.get(0) == "0"
    assert memory.get(1) is None
    assert memory.get(49) == "49"
    memory.put("large", "x", 101)
    assert memory.get("large") is None


def test_the_secret_and_the_truth_are_in_no_answer(server, finest):
    secret = Secret(bytes(range(32)))
    with server.client() as client:
        names = [entry["id"] for entry in client.get("/tables", params={"pageSize": 100}).json()["tables"]]
        K = finest.design.threshold
        for name in names:
            text = client.get(f"/tables/{name}/data")
            assert all(count == 0 or count >= K for count in text.json()["value"])
            assert bytes(range(32)).hex() not in text.text
            assert str(secret) not in text.text
