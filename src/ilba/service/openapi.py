"""The OpenAPI 3.1 document of the service: written by hand, held to the truth by tests that fuzz with it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from ilba import __version__
from ilba.design.design import MASKED
from ilba.output.wording import LANGUAGES
from ilba.service.answers import API, FORMATS, Settings
from ilba.service.catalog import Catalog

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_TEXTS = {"type": "array", "items": _TEXT}


def document(settings: Settings, catalog: Catalog) -> dict[str, Any]:
    """What can be asked and what is answered, with examples from what is served."""
    written = _document(settings)
    examples = _examples(catalog)
    for path in written["paths"].values():
        for operation in path.values():
            for parameter in operation["parameters"]:
                if parameter["in"] == "path" and parameter["name"] in examples:
                    parameter["examples"] = {name: {"value": name} for name in examples[parameter["name"]]}
    return written


def _examples(catalog: Catalog) -> dict[str, list[str]]:
    served = catalog.releases[0]
    entries = sorted(served.entries.values(), key=lambda entry: served.cells(entry.table))
    columns = [column for h in served.release.design.hierarchies for column in h.columns]
    lists = [f"{fine}.{coarse}" for coarse, fine in pairwise(columns)]
    return {
        "table": [entry.id for entry in entries[len(entries) // 4 : len(entries) // 4 + 3]],
        "name": lists[:1],
        "release": [served.id],
        "column": [entry["column"] for entry in served.release.manifest["geometry"]][:1],
    }


def _document(settings: Settings) -> dict[str, Any]:
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Public frequency tables",
            "version": __version__,
            "summary": "PxWebApi 2 over releases of masked counts",
            "description": (
                "Every count is masked: it is 0 or at least the threshold of its release. A variable that is left out "
                "is answered from the table that was published without it. One answer holds at most "
                f"{settings.max_cells:,} cells."
            ),
            "license": {"name": "Apache-2.0 (the software)", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": {
            f"{API}/config": {"get": _get("config", "What a client has to know beforehand", [_lang()], "Config")},
            f"{API}/releases": {"get": _get("releases", "What is published, in words", [_lang()], "Releases")},
            f"{API}/tables": {
                "get": _get(
                    "tables",
                    "The list of tables",
                    [
                        _lang(),
                        _query("query", "Words that the table has to mention.", {"type": "string", "maxLength": 1000}),
                        _query("pastDays", "Only releases of so many days.", _whole(0, 36_500)),
                        _query("includeDiscontinued", "Taken, without effect.", {"type": "boolean"}),
                        _query("pageNumber", "The page, from 1.", _whole(1, 10**9)),
                        _query("pageSize", "Tables on a page.", _whole(1, 10**9)),
                    ],
                    "Tables",
                    missing=True,
                )
            },
            f"{API}/tables/{{table}}": {"get": _get("table", "One table", [_table(), _lang()], "Table", missing=True)},
            f"{API}/tables/{{table}}/metadata": {
                "get": _get(
                    "metadata",
                    "A table without its numbers, as JSON-stat",
                    [
                        _table(),
                        _lang(),
                        _query("outputFormat", "The format.", {"type": "string", "enum": ["json-stat2"]}),
                        _query("defaultSelection", "Taken, without effect.", {"type": "boolean"}),
                    ],
                    "Dataset",
                    missing=True,
                )
            },
            f"{API}/tables/{{table}}/defaultselection": {
                "get": _get(
                    "defaultSelection",
                    "What is answered when nothing is chosen",
                    [_table(), _lang()],
                    "Selection",
                    missing=True,
                )
            },
            f"{API}/tables/{{table}}/data": {
                "get": {
                    **_get("data", "The numbers of a table or of a part of it", [], "Dataset"),
                    "parameters": [
                        _table(),
                        _lang(),
                        _format(),
                        *_placement(),
                        _deep(
                            "valuecodes",
                            "Codes separated by commas, or *, x*, *x, TOP(n), BOTTOM(n), RANGE(a,b), FROM(a), TO(b).",
                        ),
                        _deep("codelist", "A code list of a coarser level, such as LA3.LA2."),
                        _deep(
                            "outputValues", "With a code list: its values, or those inside.", ["aggregated", "single"]
                        ),
                    ],
                    "responses": _data_responses(),
                },
                "post": {
                    "operationId": "dataByBody",
                    "summary": "The same, the selection in the body",
                    "parameters": [_table(), _lang(), _format(), *_placement()],
                    "requestBody": {
                        "required": False,
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Asked"}}},
                    },
                    "responses": {**_data_responses(), "413": _problem("The body is too large")},
                },
            },
            f"{API}/codelists/{{name}}": {
                "get": _get(
                    "codelist",
                    "The areas of a coarser level with the finer ones inside",
                    [_path("name", "The id of a code list, such as LA3.LA2."), _lang()],
                    "CodeList",
                    missing=True,
                )
            },
            f"{API}/geometry/{{release}}/{{column}}": {
                "get": {
                    "operationId": "geometry",
                    "summary": "The map of an area column as GeoJSON",
                    "parameters": [_path("release", "The id of a release."), _path("column", "An area column.")],
                    "responses": {
                        "200": {
                            "description": "A feature collection",
                            "content": {
                                "application/geo+json": {
                                    "schema": {"type": "object", "required": ["type", "features"]},
                                }
                            },
                        },
                        "400": _problem("A parameter is not known"),
                        "404": _problem("There is no such map"),
                    },
                }
            },
            f"{API}/cell": {
                "get": _get(
                    "cell",
                    "One masked count",
                    [
                        _query("release", "Needed where several releases are served.", _TEXT),
                        _query("level", "The level, as a number or a column; one for each hierarchy.", _TEXT),
                        _query("key", "Keys, separated by commas.", _TEXT),
                        _query(
                            "hkey_value",
                            "The path of the area, separated by commas; one with a comma in quotes.",
                            _TEXT,
                        ),
                        _query(
                            "key_value",
                            'The values of the keys, with commas between: "a,b" with one inside, (missing) for none.',
                            _TEXT,
                        ),
                        _lang(),
                    ],
                    "Cell",
                )
            },
        },
        "components": {"schemas": _schemas()},
    }


def _get(name: str, summary: str, parameters: list[Any], schema: str, missing: bool = False) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": summary,
                "content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{schema}"}}},
            },
            "400": _problem("Something asked for is not known"),
            **({"404": _problem("There is no such thing")} if missing else {}),
            "503": _problem("The release is being replaced, or is damaged on the server"),
        },
    }


def _data_responses() -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": "#/components/schemas/Dataset"}}}
    content |= {media.partition(";")[0]: {} for _, media, _ in FORMATS.values() if media not in content}
    return {
        "200": {"description": "The numbers", "content": content},
        "400": _problem("A variable, value or format is not known, or the combination was not published"),
        "403": _problem("More cells than one answer holds"),
        "404": _problem("There is no such table"),
        "414": _problem("The address is too long"),
        "503": _problem("The release is being replaced, or is damaged on the server"),
    }


def _problem(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {"application/problem+json": {"schema": schema}}}


def _lang() -> dict[str, Any]:
    return _query("lang", "The language of labels.", {"type": "string", "enum": list(LANGUAGES)})


def _format() -> dict[str, Any]:
    return _query("outputFormat", "The format of the answer.", {"type": "string", "enum": list(FORMATS)})


def _placement() -> list[dict[str, Any]]:
    return [_query(name, "Taken, without effect.", _TEXT) for name in ("outputFormatParams", "stub", "heading")]


def _query(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "description": description, "schema": schema}


def _deep(name: str, description: str, values: list[str] | None = None) -> dict[str, Any]:
    schema = {"type": "object", "additionalProperties": {"type": "string", **({"enum": values} if values else {})}}
    return {**_query(name, description, schema), "style": "deepObject", "explode": True}


def _path(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "description": description, "schema": _TEXT}


def _table() -> dict[str, Any]:
    return _path("table", "The id of a table, such as LA3.gender.age.")


def _whole(least: int, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": least, "maximum": most}


def _object(**properties: Any) -> dict[str, Any]:
    """An object that has all of these properties."""
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(of: Any) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> dict[str, Any]:
    either = {"type": ["string", "null"]}
    flag = {"type": "boolean"}
    table = {
        "id": _TEXT,
        "label": _TEXT,
        "updated": {"type": "string", "format": "date-time"},
        "firstPeriod": either,
        "lastPeriod": either,
        "variableNames": _TEXTS,
        "paths": _list(_list(_object(id=_TEXT, label=_TEXT))),
        "links": _list(_ref("Link")),
    }
    return {
        "Problem": _object(type=_TEXT, title=_TEXT, status={"type": "integer"}, detail=_TEXT, instance=_TEXT),
        "Link": _object(rel=_TEXT, hreflang=_TEXT, href=_TEXT),
        "Config": _object(
            apiVersion=_TEXT,
            appVersion=_TEXT,
            languages=_list(_object(id=_TEXT, label=_TEXT)),
            defaultLanguage=_TEXT,
            maxDataCells=_COUNT,
            maxCallsPerTimeWindow=_COUNT,
            timeWindow=_COUNT,
            license=_TEXT,
            defaultDataFormat=_TEXT,
            dataFormats=_TEXTS,
        ),
        "Releases": _object(language=_TEXT, releases=_list(_ref("Release"))),
        "Release": _object(
            id=_TEXT,
            title=_TEXT,
            description=_TEXT,
            source=_TEXT,
            method=_TEXT,
            threshold={"type": "integer", "minimum": 3},
            additive=flag,
            bound={"type": ["integer", "null"]},
            created={"type": "string", "format": "date-time"},
            notes=_TEXTS,
            hierarchies=_list(
                _object(
                    name=_TEXT, label=_TEXT, levels=_list(_object(code=_TEXT, label=_TEXT, size=_COUNT, geometry=flag))
                )
            ),
            keys=_list(_object(code=_TEXT, label=_TEXT, size=_COUNT)),
            tables=_list(_object(id=_TEXT, levels={"type": "object"}, keys=_TEXTS, cells=_COUNT)),
        ),
        "Tables": _object(
            language=_TEXT,
            tables=_list(_object(**table)),
            page=_object(pageNumber=_COUNT, pageSize=_COUNT, totalElements=_COUNT, totalPages=_COUNT),
        ),
        "Table": _object(language=_TEXT, **table),
        "Dataset": _object(
            version={"const": "2.0"},
            **{"class": {"const": "dataset"}},
            label=_TEXT,
            id=_TEXTS,
            size=_list(_COUNT),
            dimension={
                "type": "object",
                "additionalProperties": _object(
                    label=_TEXT,
                    category=_object(
                        index={"type": "object", "additionalProperties": _COUNT},
                        label={"type": "object", "additionalProperties": _TEXT},
                    ),
                ),
            },
            value=_list(_COUNT),
        ),
        "Asked": {
            "type": "object",
            "properties": {
                "selection": _list(
                    {
                        "type": "object",
                        "required": ["variableCode"],
                        "properties": {
                            "variableCode": _TEXT,
                            "valueCodes": _TEXTS,
                            "codelist": either,
                            "outputValues": {"enum": ["aggregated", "single", None]},
                        },
                    }
                ),
                "placement": {"type": ["object", "null"]},
            },
            "additionalProperties": False,
        },
        "Selection": _object(
            language=_TEXT, selection=_list(_object(variableCode=_TEXT, valueCodes=_TEXTS)), links=_list(_ref("Link"))
        ),
        "CodeList": _object(
            id=_TEXT,
            label=_TEXT,
            language=_TEXT,
            languages=_TEXTS,
            type={"enum": ["Aggregation", "Valueset"]},
            values=_list(_object(code=_TEXT, label=_TEXT, valueMap=_TEXTS)),
            links=_list(_ref("Link")),
        ),
        "Cell": _object(
            release=_TEXT,
            table=_TEXT,
            level=_TEXTS,
            key=_TEXTS,
            hkey_value=_TEXTS,
            key_value=_TEXTS,
            **{MASKED: _COUNT},
        ),
    }
