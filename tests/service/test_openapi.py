"""The OpenAPI document: it claims what PxWebApi 2 has, or marks it as ours, and says what the code says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from ilba.design.design import MASKED
from ilba.output.wording import LANGUAGES
from ilba.service.addresses import API
from ilba.service.answers import FORMATS
from support.places import ROOT

DOCUMENT = msgspec.yaml.decode((ROOT / "src/ilba/service/openapi.yaml").read_bytes())
PXWEB = msgspec.yaml.decode((ROOT / "tests/data/pxwebapi2.yaml").read_bytes())


def whole(part: dict[str, Any]) -> dict[str, Any]:
    """A part of the document, with what it refers to in its place."""
    while "$ref" in part:
        found: Any = DOCUMENT
        for step in part["$ref"].removeprefix("#/").split("/"):
            found = found[step]
        part = {**found, **{name: value for name, value in part.items() if name != "$ref"}}
    return part


def operations() -> Iterator[tuple[str, dict[str, Any], bool]]:
    """The name of each operation as PxWebApi has it, what is said about it, and whether it is ours alone."""
    for path, methods in DOCUMENT["paths"].items():
        for method in ("get", "post"):
            if method in methods:
                yield f"{method.upper()} {path.removeprefix(API)}", methods[method], methods.get("x-ilba", False)


SHARED = {name: operation for name, operation, ours in operations() if not ours}


def differences(schema: dict[str, Any], name: str, where: str) -> Iterator[str]:
    """What an object claims that PxWebApi does not have, and what PxWebApi requires that it does not have."""
    schema = whole(schema)
    while "properties" not in schema:  # a list of such objects, or one object for each variable
        schema = whole(schema["items"] if schema.get("type") == "array" else schema["additionalProperties"])
    known = PXWEB["objects"][name]
    fields = {*known.get("required", []), *known.get("optional", [])}
    for field, told in schema["properties"].items():
        if (field not in fields) != whole(told).get("x-ilba", False):
            yield f"{where}.{field} is in one of both, and is not marked so"
        if field in known.get("of", {}):
            yield from differences(told, known["of"][field], f"{where}.{field}")
    for field in set(known.get("required", [])) - set(schema["properties"]):
        yield f"{where}.{field} is required"


def test_every_operation_is_one_of_pxwebapi_or_marked_as_ours():
    ours = {name for name, _, is_ours in operations() if is_ours}
    assert set(SHARED) == set(PXWEB["operations"])
    assert not ours & set(PXWEB["operations"])


@pytest.mark.parametrize("name", SHARED)
def test_every_parameter_is_one_of_pxwebapi_or_marked_as_ours(name):
    known = {(place, one) for place in ("path", "query") for one in PXWEB["operations"][name].get(place, [])}
    parameters = [whole(one) for one in SHARED[name]["parameters"]]
    taken = {(one["in"], one["name"]) for one in parameters if not one.get("x-ilba")}
    ours = {(one["in"], one["name"]) for one in parameters if one.get("x-ilba")}
    assert taken == known
    assert not ours & known


@pytest.mark.parametrize("name", SHARED)
def test_every_field_is_one_of_pxwebapi_or_marked_as_ours(name):
    operation, known = SHARED[name], PXWEB["operations"][name]
    done = "201" if name == "POST /savedqueries" else "200"
    answered = whole(operation["responses"][done])["content"]["application/json"]["schema"]
    assert list(differences(answered, known["answers"], "answer")) == []
    for status, told in operation["responses"].items():
        if status != done:
            problem = whole(told)["content"]["application/problem+json"]["schema"]
            assert list(differences(problem, "Problem", status)) == []
    if "requestBody" in operation:
        asked = operation["requestBody"]["content"]["application/json"]["schema"]
        assert list(differences(asked, known["takes"], "body")) == []


def test_a_field_that_nobody_marked_is_noticed():
    link = {"type": "object", "properties": {"rel": {}, "href": {"x-ilba": True}, "mine": {}}}
    assert sorted(differences(link, "Link", "link")) == [
        "link.href is in one of both, and is not marked so",
        "link.hreflang is required",
        "link.mine is in one of both, and is not marked so",
    ]


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if "properties" in schema:
            yield schema
        for part in schema.values():
            yield from objects(part)


def test_what_is_answered_is_closed_so_that_the_fuzzer_notices_a_field_that_is_not_claimed():
    answers = {
        name: told
        for name, told in DOCUMENT["components"]["schemas"].items()
        if name not in ("Asked", "SavedQuery", "OwnAreas")
    }
    for schema in objects(answers):
        assert schema["additionalProperties"] is False, schema
        assert set(schema.get("required", [])) <= set(schema["properties"]), schema


def test_the_document_says_what_the_code_says():
    parameters, schemas = DOCUMENT["components"]["parameters"], DOCUMENT["components"]["schemas"]
    assert parameters["Lang"]["schema"]["enum"] == parameters["LangOfNothing"]["schema"]["enum"] == list(LANGUAGES)
    assert parameters["OutputFormat"]["schema"]["enum"] == list(FORMATS)
    assert set(FORMATS) <= set(PXWEB["formats"])
    assert MASKED in schemas["Cell"]["properties"]
    answered = SHARED["GET /tables/{id}/data"]["responses"]["200"]["content"]
    assert set(answered) == {media.partition(";")[0] for _, media, _ in FORMATS.values()}
    assert all(path.startswith(f"{API}/") for path in DOCUMENT["paths"])
