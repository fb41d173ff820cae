"""What the service refuses, and that no answer gives more than was asked and published."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from ilba import Secret
from support.serving import PLAIN, eventually, problem
from support.size import LARGE

pytestmark = pytest.mark.slow


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
        ("/tables", {"lang": "xx"}, "lang is 'xx'."),
        ("/tables", {"pagesize": "0"}, "pageSize is '0'."),
        ("/tables", {"colour": "red"}, "The parameter 'colour' is not known here."),
    ]:
        assert client.get(path, params=asked).json()["detail"].startswith(said)


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
        ("/tables/town.sex/data", {"lang": "xx"}, 400),
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


def test_a_browser_that_asks_beforehand_is_told_that_any_page_may_ask(client, server):
    ask = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    for path in ("/tables/town.sex/data", "/tables", "/cell", "/config", "/geometry/people/region", "/codelists/x"):
        told = client.options(path, headers={**ask, "Access-Control-Request-Headers": "content-type"})
        assert told.status_code == 200
        assert told.headers["access-control-allow-origin"] == "*"
        assert "POST" in told.headers["access-control-allow-methods"]
        assert "content-type" in told.headers["access-control-allow-headers"].lower()
        assert int(told.headers["access-control-max-age"]) > 0
    refused = client.options("/tables", headers={**ask, "Access-Control-Request-Headers": "x-other"})
    assert refused.status_code == 400
    assert httpx.options(server.address, headers=ask).status_code == 405, "the page is for its own address"


def test_a_page_of_another_address_reads_the_data_and_the_refusals_and_not_the_page(client, server):
    asks = {"Origin": "https://a.example"}
    for path in ("/config", "/tables/town.sex/data", "/geometry/people/region", "/tables/nothing", "/nothing"):
        answer = client.get(path, headers=asks)
        assert answer.headers["access-control-allow-origin"] == "*", path
        assert "ETag" in answer.headers["access-control-expose-headers"]
        assert answer.headers["cross-origin-resource-policy"] == "cross-origin"
        if answer.status_code == 200:  # what a cache keeps for one client it must not give to the other kind
            for said in (answer.headers["vary"], client.get(path).headers["vary"]):
                assert {"Accept-Encoding", "Origin"} == set(said.split(", ")), path
    assert client.get("/tables", params={"x": "y" * 61_000}, headers=asks).headers["access-control-allow-origin"] == "*"
    for path in ("", "static/app.js", "health", "nothing"):
        answer = httpx.get(f"{server.address}{path}", headers=asks, **PLAIN)
        assert "access-control-allow-origin" not in answer.headers, path
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_the_files_of_the_page_are_packed_and_not_sent_twice(server):
    with httpx.Client(base_url=server.address, **PLAIN) as client:
        for path, media in (("", "text/html"), ("static/app.js", "text/javascript"), ("static/page.css", "text/css")):
            packed = client.get(path)
            assert packed.headers["content-encoding"] == "gzip"
            assert packed.headers["content-type"] == f"{media}; charset=utf-8"
            assert packed.headers["cache-control"] == "no-cache"
            assert client.get(path, headers={"Accept-Encoding": "identity"}).content == packed.content
            again = client.get(path, headers={"If-None-Match": packed.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
            assert client.head(path).status_code == 200
        assert client.get("static/words").status_code == 404
        assert client.post("static/app.js").status_code == 405


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


def test_every_answer_carries_the_security_headers_and_no_cookie(server):
    with httpx.Client(base_url=server.address, **PLAIN) as client:
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


def test_fuzzing_by_the_openapi_document_finds_nothing(server, tmp_path):
    # A request that fits the schema may still name a variable that no table has: to refuse it is right.
    command = [
        sys.executable, "-m", "schemathesis.cli", "run", f"{server.address}api/v2/openapi.json",
        "--exclude-checks", "positive_data_acceptance", "--seed", "1", "--no-color",
        "--max-examples", "200" if LARGE else "8",
    ]  # fmt: skip
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=600)
    assert run.returncode == 0, run.stdout[-4000:]
    assert "Tested: 19" in run.stdout


def test_the_secret_and_the_truth_are_in_no_answer(server, finest):
    key = Secret(bytes(range(32)))
    with server.client() as client:
        names = [entry["id"] for entry in client.get("/tables", params={"pageSize": 100}).json()["tables"]]
        K = finest.design.threshold
        for name in names:
            text = client.get(f"/tables/{name}/data")
            assert all(count == 0 or count >= K for count in text.json()["value"])
            assert bytes(range(32)).hex() not in text.text
            assert str(key) not in text.text
