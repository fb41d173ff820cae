"""A service that runs for long: releases are replaced, damaged and moved under it, workers die, and it ends quietly."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import signal
import subprocess
import sys
import time

import httpx
import pytest

import ilba
from support.people import HKEY, ILBA, KEY, population
from support.serving import PLAIN, eventually, problem, serving

pytestmark = pytest.mark.slow


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


def test_two_releases_of_one_population_and_wave_that_differ_are_told_at_the_start(tmp_path, people):
    for name, wave in (("one", "1"), ("two", "1"), ("three", "2")):
        secret = ilba.Secret(name.encode().ljust(32))
        finest = ilba.build(people, HKEY, KEY, secret=secret, population="people", wave=wave)
        finest.release(tmp_path / name, tables=["town.sex", "block.age"], ledger=False)
    with serving(*(tmp_path / name for name in ("one", "two", "three"))) as server:
        said = [line for line in server.lines if "show different counts" in line]
    assert len(said) == 1
    assert "one" in said[0]
    assert "two" in said[0]


def test_waves_that_cannot_be_one_series_are_told_at_the_start(tmp_path, people, secret):
    for wave, keys in (("1", KEY), ("2", KEY[::-1])):
        finest = ilba.build(people, HKEY, keys, secret=secret, population="people", wave=wave)
        finest.release(tmp_path / wave, tables=["town.sex"], ledger=False)
    with serving(tmp_path / "1", tmp_path / "2") as server:
        said = [line for line in server.lines if "are not one series: the keys are" in line]
    assert len(said) == 1


def health(server):
    told = httpx.get(f"{server.address}health", **PLAIN)
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
            with httpx.Client(**PLAIN) as client:  # a connection each, as from many people
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
