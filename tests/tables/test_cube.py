"""The cube: every table once, each equal to the table asked for alone, resumable and bounded."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time

import polars as pl
import pytest
from hypothesis import given, settings

import ilba
from ilba.design.tables import selections
from ilba.tables import store
from ilba.tables.cube import Cube
from support.people import HKEY, KEY, population
from support.size import tries
from support.stores import stores


@pytest.mark.slow
@settings(max_examples=tries(40), deadline=None)
@given(stores())
def test_every_table_of_a_cube_equals_the_table_asked_for_alone(made):
    finest, _ = made
    cube = finest.cube()
    depths = [len(h.columns) + 1 for h in finest.design.hierarchies]
    assert len(cube) == len(set(cube.selections)) == int(pl.Series(depths).product()) * 2 ** len(finest.design.keys)
    made_tables = list(cube)
    assert {table.selection for table in made_tables} == set(cube.selections)
    for table in made_tables:
        names = [h.name for h in finest.design.hierarchies]
        level = dict(zip(names, table.selection.levels, strict=True))
        assert table.detail.equals(finest.table(level, table.selection.keys).detail)


def test_a_cube_is_cut_to_levels_keys_and_their_number(finest):
    assert {s.name for s in finest.cube(levels=["town"], keys=["sex", "age"], max_keys=1).selections} == {
        "town",
        "town.sex",
        "town.age",
    }
    assert len(finest.cube(max_keys=2)) == 4 * 7
    assert [t.selection.name for t in finest.cube(levels=0, keys=[])] == ["all"]
    for table in finest.cube(levels=[1, "block"], keys=["job", "sex"]):
        assert table.detail.equals(finest.table(table.selection.levels[0], table.selection.keys).detail)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"levels": [9]}, "level=9"),
        ({"levels": ["twon"]}, "Did you mean 'town'"),
        ({"keys": ["sxe"]}, "Did you mean 'sex'"),
        ({"max_keys": -1}, "max_keys=-1"),
        ({"max_key": 1}, "Did you mean 'max_keys'"),
    ],
)
def test_a_wrong_cube_is_refused(finest, options, says):
    with pytest.raises(ilba.InputError, match=says):
        finest.cube(**options)


def test_a_cube_reads_every_cell_for_a_checksum_only_when_it_is_written(finest, tmp_path, monkeypatch):
    asked = []
    whole = store.checksum
    monkeypatch.setattr(store, "checksum", lambda *given: asked.append(1) or whole(*given))
    assert len(list(finest.cube(max_keys=1))) == 16
    assert not asked
    finest.cube(max_keys=0).write(tmp_path / "cube")
    assert asked == [1]
    assert json.loads((tmp_path / "cube" / "cube.json").read_bytes()) == {"store": finest._meta()["crc32"]}


def test_table_names_never_collide():
    odd = ilba.Design.of({"a": ["all", "x.y", "x+y"], "b": ["x", "y"]}, ["k", "x.k", "all.k", "a/b", "한"])
    names = [selection.name for selection in selections(odd)]
    assert len(set(names)) == len(names) == 4 * 3 * 2**5
    assert not any("/" in name for name in names)


def test_a_written_cube_is_private_labelled_and_can_go_on(finest, tmp_path):
    folder = tmp_path / "cube"
    steps = []
    finest.cube().write(folder, progress=lambda step: steps.append((step.done, step.total)))
    files = sorted(folder.glob("*.parquet"))
    assert len(files) == 32
    assert steps[-1] == (32, 32)
    for path in (*files, folder / "cube.json"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pl.read_parquet(folder / "town.sex.age.parquet").equals(finest.table("town", ["sex", "age"]).frame)
    before = {path: path.stat().st_mtime_ns for path in files}
    for gone in files[::5]:
        gone.unlink()
    finest.cube().write(folder)
    after = {path: path.stat().st_mtime_ns for path in files}
    assert {path for path in files if before[path] != after[path]} == set(files[::5])


def test_a_table_of_a_cube_that_was_cut_or_changed_is_made_again(finest, tmp_path):
    folder = finest.cube(max_keys=1).write(tmp_path / "cube")
    whole = {file: file.read_bytes() for file in folder.glob("*.parquet")}
    changed, cut, empty, *_ = files = sorted(whole)
    content = bytearray(whole[changed])
    content[len(content) // 3] ^= 1
    changed.write_bytes(content)
    cut.write_bytes(whole[cut][:-20])
    empty.write_bytes(b"")
    before = {file: file.stat().st_mtime_ns for file in files}
    finest.cube(max_keys=1).write(folder)
    assert {file: file.read_bytes() for file in files} == whole
    assert {file for file in files if file.stat().st_mtime_ns != before[file]} == {changed, cut, empty}


@pytest.mark.long
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_cube_that_was_killed_before_it_had_a_name_does_not_block_the_next_one(finest, tmp_path, call):
    store = finest.save(tmp_path / "s.parquet")
    owner = {"fsync": "os", "replace": "pathlib.Path"}[call]
    script = (
        f"import os, pathlib, signal, ilba\ncube = ilba.open_store({str(store)!r}).cube(max_keys=0)\n"
        f"{owner}.{call} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"cube.write({str(tmp_path / 'cube')!r})"
    )
    killed = subprocess.run([sys.executable, "-c", script], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [path.suffix for path in (tmp_path / "cube").iterdir()] == [".tmp"]
    finest.cube(max_keys=0).write(tmp_path / "cube")
    assert {path.suffix for path in (tmp_path / "cube").iterdir()} == {".json", ".parquet"}


@pytest.mark.parametrize("said", [b"{", b"", b"\xff\xfe"])
def test_a_damaged_cube_json_is_told(finest, tmp_path, said):
    finest.cube(max_keys=0).write(tmp_path / "cube")
    (tmp_path / "cube" / "cube.json").write_bytes(said)
    with pytest.raises(ilba.StoreError, match=r"cube\.json' is damaged.*Choose a new folder"):
        finest.cube(max_keys=0).write(tmp_path / "cube")


def test_a_folder_with_something_else_is_refused(finest, people, tmp_path):
    finest.cube(max_keys=0).write(tmp_path / "cube")
    other = ilba.build(people, HKEY, KEY, secret=ilba.Secret(bytes(32)))
    with pytest.raises(ilba.InputError, match="another store"):
        other.cube(max_keys=0).write(tmp_path / "cube")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").touch()
    with pytest.raises(ilba.InputError, match="not empty"):
        finest.cube().write(tmp_path / "mine")
    with pytest.raises(ilba.InputError, match="is a file"):
        finest.cube().write(tmp_path / "mine" / "notes.txt")


@pytest.mark.slow
def test_a_killed_cube_goes_on_and_ends_the_same(tmp_path, secret):
    finest = ilba.build(population(60_000, 3), HKEY, KEY, secret=secret)
    store = finest.save(tmp_path / "s.parquet")
    whole = finest.cube().write(tmp_path / "whole")
    command = [sys.executable, "-m", "ilba", "cube", str(store), "--out", str(tmp_path / "cut")]
    seen = set()
    for _ in range(40):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        there = len(list((tmp_path / "cut").glob("*.parquet"))) if (tmp_path / "cut").exists() else 0
        while process.poll() is None:
            now = len(list((tmp_path / "cut").glob("*.parquet"))) if (tmp_path / "cut").exists() else 0
            if now > there + 5:
                os.kill(process.pid, signal.SIGKILL)
                break
            time.sleep(0.001)
        if process.wait() == 0:
            break
        seen.add(now)
        for path in (tmp_path / "cut").glob("*.parquet"):
            assert path.read_bytes() == (whole / path.name).read_bytes()
    assert len(seen) >= 2
    done = subprocess.run([*command, "--json"], capture_output=True, text=True, check=True)
    assert len(json.loads(done.stdout)["tables"]) == 32
    assert {p.name for p in whole.glob("*.parquet")} == {p.name for p in (tmp_path / "cut").glob("*.parquet")}
    for path in whole.glob("*.parquet"):
        assert (tmp_path / "cut" / path.name).read_bytes() == path.read_bytes()


def test_a_cube_says_what_it_is(finest):
    assert isinstance(finest.cube(), Cube)
    assert "32 tables" in repr(finest.cube())
    assert "confidential" in repr(finest.cube())
