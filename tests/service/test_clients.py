"""Readers of other people read what is served: in JavaScript a generated client, jsonstat-toolkit and px, and R's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import polars as pl
import pytest

import ilba
from support.places import ROOT

pytestmark = pytest.mark.slow

PACKAGES = ("jsonstat-toolkit@2.2.2", "px@0.1.2", "openapi-typescript-codegen@0.31.0", "esbuild@0.28.2")
PXWEB = msgspec.yaml.decode((ROOT / "tests/data/pxwebapi2.yaml").read_bytes())
# The names that the definition gives its operations, which become those of the client's functions.
NAMES = {
    "GET /config": "GetApiConfiguration",
    "GET /navigation": "GetNavigationRoot",
    "GET /navigation/{id}": "GetNavigationById",
    "GET /tables": "ListAllTables",
    "GET /tables/{id}": "GetTableById",
    "GET /tables/{id}/metadata": "GetMetadataById",
    "GET /tables/{id}/defaultselection": "GetDefaultSelection",
    "GET /codelists/{id}": "GetTableCodeListById",
    "GET /tables/{id}/data": "GetTableData",
    "POST /tables/{id}/data": "GetTableDataByPost",
    "POST /savedqueries": "CreateSaveQuery",
    "GET /savedqueries/{id}": "GetSaveQuery",
    "GET /savedqueries/{id}/data": "RunSaveQuery",
    "GET /savedqueries/{id}/selection": "GetSavedSelection",
}
TEXTS = {"type": "array", "items": {"type": "string"}}
KINDS = {
    "valuecodes": {"type": "object", "additionalProperties": TEXTS},
    "codelist": {"type": "object", "additionalProperties": {"type": "string"}},
    "pageNumber": {"type": "integer"},
    "pageSize": {"type": "integer"},
    "pastDays": {"type": "integer"},
    "includeDiscontinued": {"type": "boolean"},
    "defaultSelection": {"type": "boolean"},
    "outputFormatParams": TEXTS,
    "stub": TEXTS,
    "heading": TEXTS,
}


def definition() -> dict[str, Any]:
    """PxWebApi 2 as an OpenAPI document, from the names of the published definition."""
    paths: dict[str, Any] = {}
    for name, told in PXWEB["operations"].items():
        method, path = name.split(" ")
        given = [(place, one) for place in ("path", "query") for one in told.get(place, [])]
        operation: dict[str, Any] = {
            "operationId": NAMES[name],
            "parameters": [
                {"name": one, "in": place, "required": place == "path", "schema": KINDS.get(one, {"type": "string"})}
                for place, one in given
            ],
            "responses": {"200": {"description": "", "content": {"application/json": {"schema": {"type": "object"}}}}},
        }
        if "takes" in told:
            operation["requestBody"] = {"content": {"application/json": {"schema": {"type": "object"}}}}
        paths.setdefault(path, {})[method.lower()] = operation
    return {"openapi": "3.0.2", "info": {"title": "PxWebApi", "version": "2"}, "paths": paths}


def run(folder: Path, *command: str, **environment: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def node(tmp_path_factory) -> Path:
    """A folder with the packages; they come over the network, so where there is none the tests are left out."""
    if not shutil.which("npm"):
        pytest.skip("npm is not installed")
    folder = tmp_path_factory.mktemp("node")
    (folder / "package.json").write_text('{"private": true, "type": "module"}')
    told = ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline", *PACKAGES]
    if subprocess.run(told, cwd=folder, capture_output=True, timeout=300).returncode:
        pytest.skip("the packages cannot be installed")
    return folder


@pytest.fixture(scope="session")
def asked(node, server) -> dict[str, Any]:
    """What the client of PxWeb 2 was told."""
    (node / "definition.json").write_text(json.dumps(definition()))
    run(node, "npx", "--offline", "openapi", "--input", "definition.json", "--output", "generated", "--client", "fetch")
    bundled = ["generated/index.ts", "--bundle", "--format=esm", "--platform=node", "--outfile=client.mjs"]
    run(node, "npx", "--offline", "esbuild", *bundled)
    told = {"TABLE": "town.sex", "AREA": "town", "LIST": "town.region"}
    script = str(Path(__file__).parent / "clients" / "pxweb.mjs")
    environment = {"CLIENT": str(node / "client.mjs"), "SERVICE": f"{server.address}api/v2", **told}
    return json.loads(run(node, "node", script, **environment))


def counts(releases: Path, name: str, *columns: str) -> dict[tuple[str, ...], int]:
    frame = ilba.Release(releases / "people").table(name).select(pl.col(columns).cast(pl.String), "N_masked")
    return {row[:-1]: row[-1] for row in frame.iter_rows()}


def test_a_generated_client_finds_tables_by_list_search_and_folder(asked, releases):
    every = set(ilba.Release(releases / "people").tables)
    assert {one["id"] for one in asked["tables"]} == every
    assert set(asked["found"]) == {name for name in every if "sex" in name.split(".")}
    (only,) = asked["root"]["folderContents"]
    assert (only["type"], only["id"], only["label"]) == ("FolderInformation", "people", "People")
    assert {one["id"] for one in asked["folder"]["folderContents"]} == every
    spoken = {one["hreflang"] for one in asked["table"]["links"] if one["rel"] in ("self", "alternate")}
    assert spoken == {one["id"] for one in asked["config"]["languages"]}, "the languages to switch to"
    assert asked["table"]["subjectCode"] == asked["table"]["paths"][0][0]["id"]
    assert asked["problem"]["status"] == 404


def test_a_generated_client_shows_the_default_selection_and_turns_it(asked, releases):
    expected = counts(releases, "town.sex", "town", "sex")
    shown = asked["shown"]
    axes = [one["codes"] for one in shown["variables"]]
    cells = [(town, sex) for town in axes[0] for sex in axes[1]]
    assert shown["value"] == [expected.get(cell, 0) for cell in cells]
    assert [one["kind"] for one in asked["metadata"]["variables"]] == ["geo", ""]
    assert (shown["stub"], shown["heading"]) == (["town"], ["sex"]), "without these the interface draws nothing"
    assert (asked["turned"]["stub"], asked["turned"]["heading"]) == (["sex"], ["town"])
    assert asked["turned"]["value"] == shown["value"]
    assert [one["codes"] for one in asked["some"]["variables"]] == [axes[0][:2], axes[1][:2]], "values given repeatedly"
    assert asked["some"]["heading"] == ["town"]
    lines = asked["csv"].splitlines()
    assert lines[0] == '"town";"sex";"N_masked"'
    assert len(lines) == 5


def test_a_generated_client_chooses_by_code_list_and_saves_that(asked, releases):
    regions = [one["code"] for one in asked["list"]["values"]]
    listed, whole = asked["listed"]["variables"], asked["metadata"]["variables"]
    assert whole[0]["lists"] == ["town.region"]
    assert listed[0]["codes"] == regions, "a code list takes the place of the values"
    assert listed[1] == whole[1]
    expected = counts(releases, "region.sex", "region", "sex")
    cells = [(region, sex) for region in regions for sex in whole[1]["codes"]]
    assert asked["regions"]["value"] == [expected.get(cell, 0) for cell in cells]
    assert asked["opened"]["savedQuery"]["tableId"] == "town.sex"
    assert [one.get("codelist") for one in asked["reopened"]["selection"]] == ["town.region", None]
    assert asked["again"]["variables"] == listed
    assert asked["run"]["value"] == asked["regions"]["value"]


def r(script: str, *packages: str) -> str:
    """What a script in R prints; left out where R or a package is missing (on Debian r-cran-rsdmx, r-cran-jsonlite)."""
    if not shutil.which("Rscript"):
        pytest.skip("R is not installed")
    wanted = ", ".join(f"'{name}'" for name in packages)
    known = f"if (!all(sapply(c({wanted}), requireNamespace, quietly = TRUE))) quit(status = 3)\n"
    done = subprocess.run(["Rscript", "-e", known + script], capture_output=True, text=True, timeout=120)
    if done.returncode == 3:
        pytest.skip(f"R has no package {wanted}")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_rsdmx_reads_the_numbers_and_the_code_lists(server, releases):
    base = f"{server.address}sdmx/2.1"
    told = r(
        f"""
        data <- as.data.frame(rsdmx::readSDMX("{base}/data/DF_TOWN_SEX/all"))
        write.csv(data[c("town", "sex", "obsValue")], row.names = FALSE)
        flow <- rsdmx::readSDMX("{base}/dataflow/PEOPLE/DF_TOWN_SEX")
        cat("lists", length(flow@codelists@codelists))
        """,
        "rsdmx",
    )
    rows, _, lists = told.rpartition("lists ")
    read = pl.read_csv(rows.encode(), schema_overrides={"town": pl.String})
    expected = counts(releases, "town.sex", "town", "sex")
    assert {row[:2]: row[2] for row in read.iter_rows() if row[2]} == expected
    assert int(lists) >= 2


def test_jsonlite_reads_json_stat_and_base_r_the_csv(server, releases):
    address = f"{server.address}api/v2/tables/town.sex/data"
    told = r(
        f"""
        stat <- jsonlite::fromJSON("{address}")
        cells <- expand.grid(rev(lapply(stat$dimension, function(one) names(one$category$index))))
        cells$value <- stat$value
        table <- read.csv("{address}?outputFormat=csv&outputFormatParams=UseCodes", colClasses = c(town = "character"))
        stopifnot(identical(as.integer(cells$value), as.integer(table$N_masked)))
        stopifnot(identical(as.character(cells$town), table$town))
        cat(cells$value)
        """,
        "jsonlite",
    )
    expected = counts(releases, "town.sex", "town", "sex")
    assert [int(n) for n in told.split() if int(n)] == list(expected.values())


def test_jsonstat_toolkit_and_px_read_the_same_numbers(node, server, releases):
    address = f"{server.address}api/v2/tables/town.sex/data"
    script = """
        import JSONstat from "jsonstat-toolkit";
        import { createRequire } from "node:module";
        const address = process.env.ADDRESS;
        const stat = JSONstat(await (await fetch(address)).json());
        const towns = stat.Dimension("town").id, sexes = stat.Dimension("sex").id;
        const cells = towns.flatMap((town) => sexes.map((sex) => [town, sex, stat.Data({ town, sex }).value]));
        const Px = createRequire(import.meta.url)("px");
        // What stands after the last number is empty, and px keeps it.
        const px = new Px(await (await fetch(`${address}?outputFormat=px`)).text());
        const data = px.data.filter(Boolean).map(Number);
        console.log(JSON.stringify({ cells, data, values: px.valCounts(), geo: stat.role.geo }));
    """
    (node / "read.mjs").write_text(script)
    told = json.loads(run(node, "node", "read.mjs", ADDRESS=address))
    expected = counts(releases, "town.sex", "town", "sex")
    assert [value for *_, value in told["cells"]] == [expected.get((town, sex), 0) for town, sex, _ in told["cells"]]
    assert told["data"] == [value for *_, value in told["cells"]]
    assert told["geo"] == ["town"]
    assert sorted(told["values"]) == sorted([2, len(told["cells"]) // 2])
