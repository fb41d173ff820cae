"""Areas that readers put together, within declared rules, over HTTP."""

from __future__ import annotations

import io
import json

import polars as pl
import pytest

from ilba.errors import InputError
from ilba.service.on_demand import DemandRules, rules_of
from ilba.service.outlines import Outlines
from support.serving import problem, serving

pytestmark = pytest.mark.slow


def square(code, x, y):
    ring = [[x, y], [x + 1, y], [x + 1, y + 1], [x, y + 1], [x, y]]
    return {"type": "Feature", "id": code, "properties": {}, "geometry": {"type": "Polygon", "coordinates": [ring]}}


TOWNS = ["0101", "0102", "0103", "0201", "0202", "0203"]
MAP = {"type": "FeatureCollection", "features": [square(code, n % 3, n // 3) for n, code in enumerate(TOWNS)]}
RULES = """largest_share_of_zeros = 0.5
excluded = [["age", "job"]]
"""


@pytest.fixture(scope="module")
def additive(tmp_path_factory, finest):
    """A release whose tables add up: its finest table and one more are stored, the others are made on demand."""
    folder = tmp_path_factory.mktemp("on-demand")
    (folder / "rules.toml").write_text(RULES)
    tables = ["block.sex.age.job", "town.sex"]
    return finest.release(folder / "people", tables=tables, geometry={"town": MAP}, ledger=False)


@pytest.fixture(scope="module")
def asked(additive):
    options = ("--rules", str(additive.path.parent / "rules.toml"), "--max-cells", "2000", "--no-access-log")
    with serving(additive.path, options=options) as running, running.client() as one:
        yield one


def summed(additive, codes, *by):
    table = additive.table("town.sex").filter(pl.col("town").is_in(codes))
    return table.group_by(by or pl.lit(1)).agg(pl.col("N_masked").sum()).sort(by or "literal")["N_masked"].to_list()


def test_own_areas_are_sums_of_published_counts_and_several_are_answered_at_once(asked, additive):
    areas = [{"name": "West", "codes": ["0101", "0201", "0101"]}, {"name": "Rest, all", "codes": ["0102", "0203"]}]
    told = asked.post("/tables/town.sex/areas", json={"areas": areas}).json()
    assert told["id"] == ["own_area", "sex"]
    assert list(told["dimension"]["own_area"]["category"]["index"]) == ["West", "Rest, all"]
    assert told["value"] == [*summed(additive, areas[0]["codes"], "sex"), *summed(additive, areas[1]["codes"], "sex")]
    assert told["extension"]["ilba"]["inside"] == [2, 2], "a code that is named twice counts once"
    assert told["label"].endswith("Own areas, sex")
    file = asked.post("/tables/town.sex/areas", params={"outputFormat": "csv", "lang": "fr"}, json={"areas": areas})
    rows = pl.read_csv(io.BytesIO(file.content))
    assert rows.columns == ["Zones choisies", "sex", "Effectif"]
    assert rows["Effectif"].to_list() == told["value"]


def test_a_table_that_is_not_stored_is_made_for_own_areas_as_well(asked, additive):
    told = asked.post("/tables/town/areas", json={"areas": [{"name": "a", "codes": ["0101", "0102"]}]}).json()
    assert told["value"] == summed(additive, ["0101", "0102"])


def test_a_polygon_takes_the_areas_whose_middle_is_inside(asked, additive):
    polygon = [[0.2, 0.2], [1.8, 0.2], [1.8, 0.9], [0.2, 0.9]]
    told = asked.post("/tables/town/areas", json={"areas": [{"name": "drawn", "polygon": polygon}]}).json()
    assert told["value"] == summed(additive, ["0101", "0102"])
    outlines = Outlines(json.dumps(MAP).encode())
    assert outlines.within([(-1, -1), (4, -1), (4, 4), (-1, 4)]) == set(TOWNS)
    assert outlines.within([(0, 0), (0, 0), (0, 0)]) == set()
    assert outlines.within([(float("nan"), 0), (1, 1), (0, 1)]) == set()


@pytest.mark.parametrize(
    ("table", "areas", "status", "said"),
    [
        ("town", [{"name": "a", "codes": ["0109"]}], 400, "Did you mean"),
        ("town", [{"name": "a"}], 400, "codes or a polygon"),
        (
            "town",
            [{"name": "a", "codes": ["0101"], "polygon": [[0, 0], [1, 0], [1, 1]]}],
            400,
            "either codes or a polygon",
        ),
        ("town", [{"name": "a", "polygon": [[0, 0], [1, 0]]}], 400, "3 to 1,000 corners"),
        ("town", [{"name": "a", "polygon": [[8, 8], [9, 8], [9, 9]]}], 400, "Draw a larger one"),
        ("block", [{"name": "a", "polygon": [[0, 0], [1, 0], [1, 1]]}], 400, "no map"),
        ("town", [{"name": "a", "codes": ["0101"]}] * 2, 400, "name of its own"),
        ("town", [], 400, "1 to 100"),
        ("town", "all", 400, "not of the form"),
        ("all.sex", [{"name": "a", "codes": ["f"]}], 400, "no areas"),
        ("town.age.job", [{"name": "a", "codes": ["0101"]}], 403, "Leave one of them out"),
        ("block.sex.age", [{"name": str(n), "codes": ["010101"]} for n in range(99)], 403, "fewer areas at once"),
        ("block.sex.age", [{"name": "a", "codes": ["020302"]}], 403, "Combine larger areas"),
    ],
)
def test_what_is_refused_says_how_to_ask_better(asked, table, areas, status, said):
    assert said in problem(asked.post(f"/tables/{table}/areas", json={"areas": areas}), status)


def test_rules_are_shown_before_anything_is_asked_in_the_language_of_the_reader(asked):
    told = asked.get("/rules", params={"lang": "en"}).json()
    assert told["largestShareOfZeros"] == 0.5
    assert told["excluded"] == [["age", "job"]]
    assert any("2,000 cells" in rule for rule in told["rules"])
    assert any("50 percent" in rule for rule in told["rules"])
    assert any("age, job" in rule and "Leave one" in rule for rule in told["rules"])
    assert "2\u202f000" in asked.get("/rules", params={"lang": "fr"}).json()["rules"][0]


def test_excluded_combinations_hold_for_tables_on_demand_and_not_for_what_is_published(asked):
    assert "not offered together" in problem(asked.get("/tables/all.age.job/data"), 403)
    chosen = {"block": "010101", "sex": "f", "age": "*", "job": "*"}
    asked_for = {f"valuecodes[{name}]": codes for name, codes in chosen.items()}
    stored = asked.get("/tables/block.sex.age.job/data", params=asked_for)
    assert stored.status_code == 200
    told = {one["id"]: one["excluded"] for one in asked.get("/releases").json()["releases"][0]["tables"]}
    assert told["all.age.job"] == told["town.age.job"] == ["age", "job"], "known before anything is asked"
    assert told["block.sex.age.job"] == told["town.sex"] == told["all.age"] == []
    cell = {"level": "0", "key": "age,job", "key_value": "1,none"}
    assert "not offered together" in problem(asked.get("/cell", params=cell), 403)


def test_an_answer_on_demand_is_not_emptier_than_the_rules_say(asked):
    chosen = {"valuecodes[block]": "020302", "valuecodes[sex]": "*", "valuecodes[age]": "*"}
    assert "Combine larger areas" in problem(asked.get("/tables/block.sex.age/data", params=chosen), 403)
    full = {"valuecodes[region]": "*", "valuecodes[sex]": "*"}
    assert asked.get("/tables/region.sex/data", params=full).status_code == 200


def test_areas_are_asked_for_with_a_body_alone(asked):
    answer = asked.get("/tables/town/areas")
    assert "method" in problem(answer, 405)
    assert answer.headers["allow"] == "POST"


def test_areas_are_not_put_together_where_tables_do_not_add_up(client):
    areas = [{"name": "a", "codes": ["0101"]}]
    assert "do not add up" in problem(client.post("/tables/town/areas", json={"areas": areas}), 400)


@pytest.mark.parametrize("text", ["largest = 1", "largest_share_of_zeros = 2", "excluded = 1", "["])
def test_rules_that_cannot_be_understood_are_refused_before_anything_is_served(tmp_path, text):
    (tmp_path / "rules.toml").write_text(text)
    with pytest.raises(InputError, match=r"rules|share"):
        rules_of(str(tmp_path / "rules.toml"))
    assert len(DemandRules().told("en", 10)) == 1, "without rules there is the limit of cells alone"
