"""No client delays another's answer: lengths come first, every wait has an end, and work ends with its client."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import socket
import sys
import time
import tomllib
from pathlib import Path

import anyio
import httpx
import polars as pl
import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

import ilba
from ilba.errors import IlbaError, InputError
from ilba.output.export import rendered
from ilba.service.answers import answered, rehearse
from ilba.service.asked import Codes, folded, from_body, split
from ilba.service.catalog import Catalog
from ilba.service.choosing import part
from ilba.service.connection import Connection
from ilba.service.work import BusyError, GoneError, Lanes, Room, still_wanted
from support.people import ILBA, KEY, population
from support.places import ROOT
from support.serving import PLAIN, serving

sys.path.insert(0, str(ROOT / "bench"))


# What is asked for is read once from left to right. A test that never ends has found a place where it is not.


@pytest.mark.parametrize("text", [",[", ',"', '["', '""', ",", "[,", '"a', '",'])
def test_a_list_of_two_million_letters_is_split(text):
    assert split(text * 1_000_000)


@given(st.text('a,"[]', max_size=12))
def test_a_list_is_split_as_its_grammar_says(text):
    grammar = r'(?:^|,)(?:"((?:[^"]|"")*)"(?=,|$)|\[(.*?)\](?=,|$)|([^,]*))'
    said = [quoted.replace('""', '"') or inside or plain for quoted, inside, plain in re.findall(grammar, text)]
    assert split(text) == (said if text else [])


pytestmark = pytest.mark.slow

CODES = Codes("age", [str(age) for age in range(5000)])


@pytest.mark.parametrize("verb", ["RANGE", "TOP", "BOTTOM", "FROM", "TO"])
@pytest.mark.parametrize("text", [",", " ", "1,", "(", "x"])
def test_an_expression_of_two_million_letters_is_refused(verb, text):
    with pytest.raises(InputError, match="longer than any two codes") as said:
        CODES.chosen([f"{verb}({text * (2_000_000 // len(text))})"])
    assert len(str(said.value)) < 300


@pytest.mark.parametrize("values", [["*"] * 500_000, ["1"] * 500_000, ["?", "1*"] * 250_000, ",".join(["1"] * 500_000)])
def test_values_that_are_repeated_are_looked_for_once(values):
    assert CODES.chosen(values)


def test_patterns_are_compared_with_a_limited_number_of_codes():
    many = Codes("square", [f"{number:07}" for number in range(1_000_000)])
    with pytest.raises(InputError, match="more than 5 patterns for the 1,000,000 codes"):
        many.chosen([f"*{number}" for number in range(200)])
    assert len(CODES.chosen([f"{number}*" for number in range(1, 10)])) == 4999


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 2_000_000,
        b'{"selection":' * 150_000,
        b'{"selection":[' + b"{}," * 600_000 + b"{}]}",
        b'{"selection":[' + b'{"variableCode":"a"},' * 90_000 + b'{"variableCode":"b"}]}',
        b'{"selection":[{"variableCode":"a","valueCodes":[' + b"[]," * 600_000 + b"1]}]}",
        b'{"placement":' + b"[" * 1_900_000,
    ],
    ids=lambda body: body[:24].decode(),
)
def test_a_body_of_two_megabytes_is_refused_in_a_sentence(body):
    with pytest.raises(InputError) as said:
        from_body(body)
    assert len(str(said.value)) < 300


def test_a_name_of_two_megabytes_is_answered_in_a_sentence(tmp_path, finest):
    finest.release(tmp_path / "r", tables=["town.sex"], **ILBA)
    catalog = Catalog([tmp_path / "r"], rehearse)
    wishes = from_body(b'{"selection":[{"variableCode":"%s","valueCodes":["1"]}]}' % (b"sex" * 600_000))
    with pytest.raises(InputError, match="is not a variable") as said:
        part(catalog, catalog.find("town.sex"), wishes, 100_000)
    assert len(str(said.value)) < 300


# Work has an end.


async def leaves():
    return {"type": "http.disconnect"}


async def stays():
    await anyio.sleep(60)
    return {"type": "http.disconnect"}


def endless():
    while True:
        still_wanted()


def test_work_ends_when_its_client_has_gone():
    with pytest.raises(GoneError):
        anyio.run(Lanes(60).run, leaves, endless)


def test_work_ends_when_its_time_is_over():
    with pytest.raises(BusyError):
        anyio.run(Lanes(0.1).run, stays, endless)


def test_long_work_does_not_stand_before_short_work():
    async def both():
        lanes, found = Lanes(60), []
        async with anyio.create_task_group() as group:
            for lane in ("long", "long", "long", "sheet", "sheet"):
                group.start_soon(lanes.run, stays, endless, lane)
            found.append(await lanes.run(stays, lambda: "short"))
            group.cancel_scope.cancel()
        return found

    assert anyio.run(both) == ["short"]


def test_a_spreadsheet_is_not_written_to_its_end_for_nobody(tmp_path, finest):
    finest.release(tmp_path / "r", tables=["block.sex.age"], **ILBA)
    catalog = Catalog([tmp_path / "r"], rehearse)
    entry = catalog.find("block.sex.age")
    table = answered(catalog, part(catalog, entry, {}, 100_000), "en")
    seen = []
    table.pulse = lambda: seen.append(1)
    rendered(table, "xlsx")
    assert len(seen) == (table.frame.height + 5) // 500


def test_where_memory_for_bodies_is_full_the_slowest_has_to_go():
    async def crowd():
        room, ended = Room(100), []

        async def body(name, sizes):
            with room.hold() as more:
                for size in sizes:
                    more(size)
                    await anyio.sleep(0.01)
                ended.append(name)
                return
            ended.append(f"{name} had to go")

        async with anyio.create_task_group() as group:
            group.start_soon(body, "slow", [60, *[0] * 200])
            await anyio.sleep(0.05)
            group.start_soon(body, "quick", [50, 10])
        return ended

    assert set(anyio.run(crowd)) == {"slow had to go", "quick"}


def test_only_what_uvicorn_has_is_overridden_and_its_versions_are_bounded():
    ours = {name for name in vars(Connection) if not name.startswith("_")}
    assert ours <= set(vars(HttpToolsProtocol))
    for name in ("cycle", "pipeline", "connections", "app_state", "transport", "loop", "url", "app"):
        assert name in HttpToolsProtocol.__init__.__code__.co_names or name == "url"
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert next(one for one in extras["serve"] if one.startswith("uvicorn")) == "uvicorn>=0.54,<0.55"
    assert uvicorn.__version__.startswith("0.54.")


# Connections, over real sockets.


@pytest.fixture(scope="module")
def folder(tmp_path_factory, finest):
    home = tmp_path_factory.mktemp("hostile")
    finest.release(home / "people", title="Peuplé", tables=["town.sex.age", "town", "all.sex", "all"], **ILBA)
    return home / "people"


@pytest.fixture(scope="module")
def hasty(folder):
    """A service whose patience is a second."""
    with serving(folder, options=("--timeout", "1", "--max-connections", "6")) as server:
        yield server


def connected(server):
    host, port = server.address.removeprefix("http://").rstrip("/").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answer(raw):
    content = b"".join(iter(lambda: raw.recv(65536), b""))
    head, _, body = content.partition(b"\r\n\r\n")
    return head.decode(), body


def is_ended(raw):
    raw.setblocking(False)
    try:
        return raw.recv(1) == b""
    except ConnectionResetError:
        return True
    except BlockingIOError:
        return False


POST = b"POST /api/v2/tables/town/data HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("begin", "then", "said"),
    [
        (b"", b"", None),
        (b"\r\n", b"\r\n", None),
        (b"GET / HTTP/1.1\r\n", b"", "head"),
        (b"GET / HTTP/1.1\r\nX: ", b"x", "head"),
        (POST, b"", "body"),
        (POST, b" ", "body"),
    ],
)
def test_a_request_that_does_not_arrive_in_time_is_ended(hasty, begin, then, said):
    with connected(hasty) as raw:
        raw.sendall(begin)
        raw.settimeout(0.3)
        content = b""
        while True:  # ends when the server does, whatever is sent meanwhile
            try:
                piece = raw.recv(65536)
                content += piece
                if not piece:
                    break
            except TimeoutError:
                raw.sendall(then)
            except ConnectionResetError:
                break
    if said:
        head, _, body = content.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 ")
        assert json.loads(body)["detail"] == f"The {said} of the request took longer than 1 seconds."
    else:
        assert not content


@pytest.mark.slow
def test_an_answer_that_nobody_takes_is_not_kept(tmp_path, secret, monkeypatch):
    monkeypatch.setattr("ilba.attack.audit.BUDGET", 0)  # this is not about what the release discloses
    frame = pl.DataFrame(
        {"area": [f"area {n % 300:03}" for n in range(3000)], "kind": [f"{n // 10}" for n in range(3000)]}
    )
    ilba.build(frame, ["area"], ["kind"], secret=secret, key_thr=1000).release(tmp_path / "r", rows="grid", **ILBA)
    ask = b"GET /api/v2/tables/area.kind/data?outputFormat=csv HTTP/1.1\r\nHost: x\r\n\r\n"
    with serving(tmp_path / "r", options=("--timeout", "2")) as server, socket.socket() as raw:
        host, port = server.address.removeprefix("http://").rstrip("/").split(":")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # before it is connected, else the system takes all
        raw.connect((host, int(port)))
        raw.sendall(ask * 15)
        gone = eventually(lambda: not open_sockets(server.process.pid, raw.getsockname()[1]), 20)
    assert gone


def open_sockets(process, port):
    """Whether a process holds a connection to one of our ports."""
    held = {str(one.readlink()) for one in Path(f"/proc/{process}/fd").iterdir() if one.is_symlink()}
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[2].rpartition(":")[2], 16) == port and f"socket:[{fields[9]}]" in held:
            return True
    return False


@pytest.mark.slow
def test_above_the_cap_there_is_an_honest_503_and_idle_connections_give_way(folder):
    with serving(folder, options=("--max-connections", "4", "--timeout", "30")) as server:
        busy = [connected(server) for _ in range(4)]
        for raw in busy:
            raw.sendall(POST)
        head, body = "", b""

        def is_full():
            nonlocal head, body
            with connected(server) as raw:
                raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                head, body = answer(raw)
            return head.startswith("HTTP/1.1 503 ")

        assert eventually(is_full)
        assert "retry-after: 1" in head.lower()
        assert json.loads(body)["detail"].startswith("There are too many connections")
        for raw in busy:
            raw.close()
        assert eventually(lambda: not is_full())
        idle = [connected(server) for _ in range(4)]
        assert eventually(lambda: not is_full() and any(map(is_ended, idle))), "those that send nothing give way"
        for raw in idle:
            raw.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "said"),
    [
        (b"", "The request has no Host headers. Send one."),
        (b"Host: a\r\nHost: b\r\n", "The request has 2 Host headers. Send one."),
        (b"Host: a/b?c#\r\n", "The Host header is not the name of a machine."),
    ],
)
def test_a_request_names_one_host(hasty, head, said):
    with connected(hasty) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\n" + head + b"Connection: close\r\n\r\n")
        told, body = answer(raw)
    assert told.startswith("HTTP/1.1 400 ")
    assert json.loads(body)["detail"] == said


@pytest.mark.slow
def test_hosts_of_every_kind_are_taken(hasty):
    for version, host in ((b"1.0", b""), (b"1.1", b"Host: [::1]:80\r\n"), (b"1.1", b"Host: a.b-c.example\r\n")):
        with connected(hasty) as raw:
            raw.sendall(b"GET /health HTTP/" + version + b"\r\n" + host + b"Connection: close\r\n\r\n")
            assert answer(raw)[0].startswith("HTTP/1.1 200 ")


@pytest.mark.slow
def test_more_headers_or_more_waiting_requests_than_anybody_needs_are_refused(hasty):
    with connected(hasty) as raw:
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" + b"a:\r\n" * 5000 + b"\r\n")
        assert answer(raw)[0].startswith("HTTP/1.1 431 ")
    answered = 0
    with connected(hasty) as raw, contextlib.suppress(OSError):
        raw.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n" * 20_000)
        while piece := raw.recv(65536):
            answered += piece.count(b"HTTP/1.1 200")
    assert answered < 1000
    assert httpx.get(f"{hasty.address}health", **PLAIN).status_code == 200


@pytest.mark.slow
def test_every_operation_bears_hostile_input_and_honest_clients_notice_nothing(folder):
    import hostile

    with serving(folder, options=("--no-access-log", "--timeout", "1")) as server:
        rows = hostile.attack(server, 200_000, every=9)
        failed, _, _, ended = hostile.beside(server, honest=1000, slow=20)
    statuses = {status for row in rows.values() for status in row.statuses}
    assert statuses <= {"200", "400", "404", "408", "414", "431", "closed"}
    assert {operation for operation, _ in rows} >= {"GET /cell", "GET /tables", "POST /tables/{id}/data"}
    assert failed == 0
    assert set(ended) >= {"half a head", "half a body"}
    assert not [line for line in server.lines if "Traceback" in line]
    assert hostile.table(rows).count("\n") == len(rows)


# A release that is replaced by something else.


def health(server):
    told = httpx.get(f"{server.address}health", **PLAIN)
    return told.status_code, told.json()


def eventually(true, seconds=30.0):
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.slow
def test_a_release_replaced_by_a_broken_one_is_answered_as_it_was(tmp_path, folder):
    here = shutil.copytree(folder, tmp_path / "people")
    with serving(here) as server, server.client() as client:
        before = ilba.Release(folder).table("town.sex.age")["N_masked"].sum()
        # Everything of it is gone, and nothing of it was asked for before.
        here.rename(tmp_path / "old")
        shutil.rmtree(tmp_path / "old")
        (here / "tables").mkdir(parents=True)
        (here / "release.json").write_text('{"format": 1, "tables": 3}')
        assert eventually(lambda: health(server)[1]["stale"] == ["people"])
        for _ in range(3):
            status, told = health(server)
            assert (status, told["status"], told["releases"]) == (200, "damaged", 1)
            assert told["detail"].startswith("The replacement of the release 'people' cannot be read; the")
            assert str(tmp_path) not in json.dumps(told)
            assert sum(client.get("/tables/town.sex.age/data").json()["value"]) == before
            assert client.get("/releases").status_code == 200
            assert client.get("/cell").status_code == 200
        assert len([line for line in server.lines if "The earlier release is served" in line]) == 1
        assert not [line for line in server.lines if "Traceback" in line]
        shutil.rmtree(here)
        shutil.copytree(folder, here)
        assert eventually(lambda: health(server)[1]["status"] == "ok")
        assert health(server)[1]["detail"] == "Every release can be read."


def broken(manifest, random_):
    """A manifest in which one thing is another."""
    told = json.loads(json.dumps(manifest))
    places = []

    def walk(value, hold):
        places.append(hold)
        items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for name, one in items:
            walk(one, (value, name))

    walk(told, None)
    hold = random_.choice([place for place in places if place])
    other = random_.choice([None, 3, -1, 2.5, "x", "", "../../etc", [], {}, [1], {"a": 1}, True, 10**30, "DELETE"])
    if other == "DELETE":
        del hold[0][hold[1]]
    else:
        hold[0][hold[1]] = other
    return told


def sentence(problem):
    return str(problem).endswith(".") and "Traceback" not in str(problem)


@pytest.mark.parametrize("seed", range(2))
def test_a_manifest_of_any_shape_is_opened_or_refused_in_a_sentence(tmp_path, finest, seed):
    finest.release(tmp_path / "r", tables=["town.sex", "town"], **ILBA)
    told = json.loads((tmp_path / "r" / "release.json").read_text())
    random_ = random.Random(seed)
    for _ in range(40):
        (tmp_path / "r" / "release.json").write_text(json.dumps(broken(told, random_)))
        said = []
        try:
            catalog = Catalog([tmp_path / "r"], rehearse)
            for entry in [entry for served in catalog.releases for entry in served.entries.values()]:
                table = answered(catalog, part(catalog, entry, {}, 100_000), "ko")
                for format in ("csv", "xlsx", "px", "parquet"):
                    rendered(table, format)
        except IlbaError as problem:
            said.append(problem)
        assert all(map(sentence, said))


# Smaller things.


@pytest.mark.slow
def test_an_empty_label_is_told_from_a_missing_one(tmp_path, secret):
    frame = pl.DataFrame({"town": ["a"] * 60, "kind": [""] * 10 + [None] * 20 + ["x"] * 30})
    ilba.build(frame, ["town"], ["kind"], secret=secret, missing="category").release(tmp_path / "r", **ILBA)
    with serving(tmp_path / "r") as server, server.client() as client:
        for asked, count in (("", 10), ('""', 10), ("[]", 10), ("(missing)", 20), ("x", 30)):
            told = client.get("/cell", params={"key": "kind", "key_value": asked})
            assert told.json()["N_masked"] == count, asked
        both = {"level": "town", "hkey_value": "a", "key": "kind"}
        assert client.get("/cell", params={**both, "key_value": ""}).json()["N_masked"] == 10
        said = client.get("/cell", params={**both, "key_value": "y"}).json()["detail"]
        assert said == "'y' is not a value of 'kind'. A missing value is written (missing)."
        blank = {"level": "", "key": "", "hkey_value": "", "key_value": ""}
        assert client.get("/cell", params=blank).json() == client.get("/cell").json()


@pytest.mark.slow
def test_columns_with_a_slash_have_maps_tables_and_code_lists(tmp_path, secret):
    frame = population().rename({"region": "land/region", "town": "land/town"})
    columns = ["land/region", "land/town"]
    square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    area = {"type": "Feature", "id": "01", "properties": {}, "geometry": square}
    shapes = {"type": "FeatureCollection", "features": [area]}
    finest = ilba.build(frame, columns, KEY[:1], secret=secret)
    finest.release(tmp_path / "r", geometry={"land/region": shapes}, **ILBA)
    with serving(tmp_path / "r") as server, server.client() as client:
        assert client.get("/geometry/r/land%2Fregion").json() == shapes
        listed = client.get("/tables", params={"pageSize": 100}).json()["tables"]
        assert len(listed) == 6
        for entry in listed:
            for link in entry["links"]:
                assert client.get(link["href"].removeprefix("/api/v2")).status_code == 200
        lists = client.get("/tables/land%252Ftown/metadata").json()["dimension"]["land/town"]["extension"]["codelists"]
        assert client.get(lists[0]["links"][0]["href"].removeprefix("/api/v2")).status_code == 200


@pytest.mark.parametrize(
    ("there", "typed"),
    [
        ("Łódź", "lodz"),
        ("ÅRHUS", "århus"),
        ("Straße", "STRASSE"),
        ("ΟΔΟΣ", "οδός"),
        ("İstanbul", "istanbul"),
        ("한국", "한국"),
        ("Ёлка", "ёлка"),
        ("مُحَمَّد", "محمد"),
        ("Việt Nam", "viet nam"),
    ],
)
def test_case_and_accents_do_not_matter_to_a_search(there, typed):
    assert folded(typed) == folded(there)
    assert folded("각") != folded("가"), "a letter of its own is no accent"


@pytest.mark.slow
def test_the_list_of_tables_is_searched_without_accents(hasty):
    with hasty.client() as client:
        for typed in ("peuple", "PEUPLÉ town", "peuplé"):
            assert client.get("/tables", params={"query": typed}).json()["page"]["totalElements"] > 0, typed
        assert client.get("/tables", params={"query": "peoples"}).json()["page"]["totalElements"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_service_forgets_a_secret_in_its_environment(folder, workers):
    secret = "ilba-secret-1:" + "5a" * 32
    options = ("--workers", workers, "--no-access-log")
    with serving(folder, options=options, environment={"ILBA_SECRET": secret}) as server:
        family = [server.process.pid, *children(server.process.pid)]
        assert len(family) >= int(workers)
        for process in family:
            assert secret.encode() not in Path(f"/proc/{process}/environ").read_bytes()
        for process in family[1:]:
            assert b"ILBA_SECRET" not in Path(f"/proc/{process}/environ").read_bytes()


def children(process):
    told = Path(f"/proc/{process}/task/{process}/children")
    return [int(one) for one in told.read_text().split()] if told.exists() else []
