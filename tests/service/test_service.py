"""The service answers from releases alone, as the clients of statistical offices expect it."""

from __future__ import annotations

import io
import itertools
import math
from urllib.parse import quote, unquote

import httpx
import polars as pl
import pytest

import ilba
from ilba.service.asked import Codes, split
from ilba.service.catalog import Recent
from support.people import HKEY, ILBA, KEY, MAP
from support.serving import PLAIN, problem, serving

pytestmark = pytest.mark.slow


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
    assert csv.columns == ["읍면동", "성별", "빈도"]
    assert csv["빈도"].cast(pl.Int64).to_list() == values
    assert csv["성별"].unique().sort().to_list() == ["남자", "여자"]
    assert csv["읍면동"][0] == "0101", "codes keep their zeros"
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


def test_the_page_opens_whatever_stands_behind_its_address(server):
    for path in ("", "?lang=ko", "?from=mail#view"):
        answer = httpx.get(server.address + path, **PLAIN)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"


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
        told = problem(client.get("/tables/town"), 404)
        assert told == "There is no table 'town'. Did you mean 'few:town'? /api/v2/tables lists all tables."
        told = problem(client.get("/tables/few:town/data", params={"valuecodes[town]": "Harbour"}), 400)
        assert told.endswith("The metadata of the table have their labels.")
        shared = client.get(f"{server.address}table/town")  # an address from when one release was served alone
        assert shared.status_code == 200
        assert "/table/few:town?" in shared.text
        assert client.get(f"{server.address}table/nowhere").status_code == 404


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


def test_a_file_has_the_readable_name_of_its_table_and_errors_propose_such_names(tmp_path, secret):
    people = pl.DataFrame({"Δήμος": ["α", "β"] * 40, "Φύλο": ["Θ", "Θ", "Α", "Α"] * 20, "a.b": ["1", "2"] * 40})
    finest = ilba.build(people, ["Δήμος"], ["Φύλο", "a.b"], secret=secret)
    for name in ("one", "two"):
        finest.release(tmp_path / name, ledger=False)

    def named(client, table):
        told = client.get(f"/tables/{table}/data", params={"outputFormat": "csv"}).headers["Content-Disposition"]
        return unquote(told.removeprefix("attachment; filename*=UTF-8''"))

    with serving(tmp_path / "one") as server, server.client() as client:
        assert named(client, "Δήμος.Φύλο") == "Δήμος.Φύλο.csv"
        assert named(client, quote(quote("Δήμος") + ".a%2Eb")) == "Δήμος.a.b.csv"
        assert "Did you mean 'Δήμος.Φύλο'?" in problem(client.get("/tables/Δήμος.Φίλο"), 404)
        assert "Did you mean 'all.a%2Eb'?" in problem(client.get("/tables/all.a.b"), 404)
    with serving(tmp_path / "one", tmp_path / "two") as server, server.client() as client:
        assert named(client, "two:Δήμος.Φύλο") == "two.Δήμος.Φύλο.csv"
        assert "Did you mean 'two:Δήμος'?" in problem(client.get("/tables/Δήμος"), 404)
