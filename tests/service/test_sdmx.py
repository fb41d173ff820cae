"""SDMX REST, as sdmx1 asks for it."""

from __future__ import annotations

import pytest
import sdmx

from support.serving import problem

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def agency(server):
    source = {"id": "PEOPLE", "name": "The service", "url": f"{server.address}sdmx/2.1", "data_content_type": "XML"}
    sdmx.add_source(source, override=True)
    return sdmx.Client("PEOPLE")


def test_sdmx1_finds_the_dataflows_and_the_structure_of_one(agency):
    flows = agency.dataflow(resource_id="all", params={"references": "none"}).dataflow
    assert {"DF_TOWN_SEX", "DF_ALL"} <= set(flows)
    message = agency.dataflow("DF_TOWN_SEX", agency_id="PEOPLE")
    assert [one.id for one in message.structure["DSD_TOWN_SEX"].dimensions] == ["town", "sex"]
    assert {code.id for code in message.codelist["CL_SEX"]} == {"f", "m"}


@pytest.mark.parametrize(("key", "towns"), [("all", None), ("0101+0102.f", ["0101", "0102"])])
def test_sdmx1_reads_the_numbers_at_a_key(agency, finest, key, towns):
    definition = agency.dataflow("DF_TOWN_SEX", agency_id="PEOPLE").structure["DSD_TOWN_SEX"]
    read = sdmx.to_pandas(agency.get("data", "DF_TOWN_SEX", key=key, dsd=definition)).to_dict()
    table = finest.table("town", ["sex"]).public()
    expected = {
        (town, sex): count
        for town, sex, count in table.select("town", "sex", "N_masked").iter_rows()
        if towns is None or (town in towns and sex == "f")
    }
    assert {cell: count for cell, count in read.items() if count} == expected


def test_what_cannot_be_answered_is_said(server, client):
    base = f"{server.address}sdmx/2.1"
    assert "Did you mean" in problem(client.get(f"{base}/data/DF_TOWN_SEXX/all"), 404)
    assert "dimensions are" in problem(client.get(f"{base}/data/DF_TOWN_SEX/f"), 400)
    assert "not a code of sex" in problem(client.get(f"{base}/data/PEOPLE,DF_TOWN_SEX,1.0/.x"), 404)
    assert "at most 400" in problem(client.get(f"{base}/data/DF_BLOCK_SEX_AGE/all"), 403)
    assert "no agency" in problem(client.get(f"{base}/dataflow/NOBODY/all"), 404)
