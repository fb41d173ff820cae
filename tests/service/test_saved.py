"""Saved queries, as PxWebApi 2 has them: the id is the query, and nothing is kept."""

from __future__ import annotations

import base64
import json
import zlib

import pytest

from support.serving import problem

pytestmark = pytest.mark.slow

QUERY = {
    "tableId": "town.sex",
    "language": "ko",
    "selection": {
        "selection": [{"variableCode": "town", "valueCodes": ["01*"]}, {"variableCode": "sex", "valueCodes": ["f"]}]
    },
    "outputFormat": "csv",
    "outputFormatParams": ["UseCodes"],
}


def asked(**values: str) -> dict:
    return {"selection": [{"variableCode": name, "valueCodes": text.split(",")} for name, text in values.items()]}


@pytest.fixture(scope="module")
def saved(client):
    answer = client.post("/savedqueries", json=QUERY)
    assert answer.status_code == 201
    return answer.json()


def test_what_was_saved_is_given_back(client, saved):
    again = client.get(f"/savedqueries/{saved['id']}").json()
    assert again["savedQuery"] == {**QUERY, "id": saved["id"]} == saved["savedQuery"]
    assert client.post("/savedqueries", json={**QUERY, "id": "mine"}).json()["id"] == saved["id"]
    for link in saved["links"]:
        assert client.get(link["href"].removeprefix("/api/v2")).status_code == 200


def test_a_saved_query_answers_as_the_same_question_does(client, saved):
    asked = {"lang": "ko", "outputFormat": "csv", "outputFormatParams": "UseCodes"}
    direct = client.post("/tables/town.sex/data", params=asked, json=QUERY["selection"])
    answer = client.get(f"/savedqueries/{saved['id']}/data")
    assert answer.headers["content-type"] == direct.headers["content-type"]
    assert answer.content == direct.content
    other = client.get(f"/savedqueries/{saved['id']}/data", params={"lang": "en", "outputFormat": "json-stat2"}).json()
    assert other["id"] == ["town", "sex"]
    assert other["extension"]["px"]["language"] == "en"


def test_the_selection_names_the_codes_that_patterns_stand_for(client, saved):
    told = client.get(f"/savedqueries/{saved['id']}/selection").json()
    towns = client.get("/tables/town/metadata").json()["dimension"]["town"]["category"]["index"]
    inside = [code for code in towns if code.startswith("01")]
    assert told["selection"] == [
        {"variableCode": "town", "valueCodes": inside},
        {"variableCode": "sex", "valueCodes": ["f"]},
    ]


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({"tableId": "nothing"}, 404, "no table"),
        ({"language": "xx"}, 400, "lang is"),
        ({"outputFormat": "html5"}, 400, "outputFormat"),
        ({"outputFormatParams": ["Nice"]}, 400, "outputFormatParams"),
        ({"selection": {"selection": [{"variableCode": "sex", "valueCodes": ["x"]}]}}, 400, "x"),
        ({"selection": []}, 400, "not of the form"),
        ({"more": 1}, 400, "not of the form"),
        ({"tableId": "block.sex.age.job", "selection": asked(block="*", sex="*", age="*", job="*")}, 403, "cells"),
        ({"tableId": "block", "selection": asked(block=",".join(map(str, range(3000))))}, 400, "block"),
    ],
)
def test_what_could_not_be_answered_is_not_saved(client, change, status, said):
    assert said in problem(client.post("/savedqueries", json={**QUERY, **change}), status)


def test_an_id_that_nobody_was_given_is_unknown_and_costs_nothing(client):
    def packed(content: bytes) -> str:
        return base64.urlsafe_b64encode(zlib.compress(content, 9)).decode().rstrip("=")

    bomb = packed(b" " * 900_000)
    assert len(bomb) < 1500
    broken = [bomb, "x", "####", "a" * 1600, packed(b"{}"), packed(b"[" * 50_000), packed(b"\xff\xfe")]
    for name in broken:
        for more in ("", "/data", "/selection"):
            assert "no saved query" in problem(client.get(f"/savedqueries/{name}{more}".replace("#", "%23")), 404)
    lost = packed(json.dumps({**QUERY, "tableId": "nothing"}).encode())
    assert "no table" in problem(client.get(f"/savedqueries/{lost}/data"), 404)
