"""The store on disk: private, whole or not there, and recognised for what it is."""

from __future__ import annotations

import json
import os
import random
import stat
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.parquet
import pytest

import ilba
from ilba import Secret, files
from ilba.tables import sealed
from support import killing
from support.people import HKEY, KEY, population

ILBA = [sys.executable, "-m", "ilba"]


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_store_is_for_its_owner_alone_and_holds_its_metadata_but_not_the_key(finest, tmp_path, secret):
    old_mask = os.umask(0)
    try:
        path = finest.save(tmp_path / "full_tb.parquet")
    finally:
        os.umask(old_mask)
    assert mode(path) == 0o600
    meta = json.loads(pl.read_parquet_metadata(path)["ilba"])
    assert meta["format"] == 1
    assert meta["prf"] == "ilba-prf-1"
    assert meta["fingerprint"] == secret.fingerprint
    assert meta["design"]["threshold"] == 5
    assert [d["columns"] for d in meta["codes"]] == [HKEY, ["sex"], ["age"], ["job"]]
    content = path.read_bytes()
    raw = bytes(range(32))
    assert raw not in content
    assert raw.hex().encode() not in content
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_data_and_secret_give_the_same_bytes(people, finest, secret, tmp_path):
    again = ilba.build(people.sample(fraction=1, shuffle=True, seed=5), HKEY, KEY, secret=secret)
    one, two = finest.save(tmp_path / "one.parquet"), again.save(tmp_path / "two.parquet")
    assert one.read_bytes() == two.read_bytes()


def test_without_a_secret_one_is_made_beside_the_store_told_and_used_again(people, tmp_path):
    store = tmp_path / "full_tb.parquet"
    with pytest.warns(ilba.Notice, match=r"a new one was made and saved as .*full_tb.secret"):
        first = ilba.build(people, HKEY, KEY, output_path=store)
    secret = tmp_path / "full_tb.secret"
    assert mode(secret) == 0o600
    with pytest.warns(ilba.Notice, match="using the secret"):
        second = ilba.build(people, HKEY, KEY, output_path=store)
    assert second.frame.equals(first.frame)
    assert ilba.build(people, HKEY, KEY, secret=secret).frame.equals(first.frame)


def test_a_table_built_in_memory_brings_its_new_secret_along_when_saved(people, tmp_path):
    finest = ilba.build(people, HKEY, KEY)
    with pytest.warns(ilba.Notice, match="a new one was made"):
        finest.save(tmp_path / "a.parquet")
    again = ilba.build(people, HKEY, KEY, secret=tmp_path / "a.secret")
    assert again.frame.equals(finest.frame)
    with pytest.raises(ilba.SecretError, match="holds another secret"):
        ilba.build(people, HKEY, KEY).save(tmp_path / "a.parquet")
    assert ilba.open_store(tmp_path / "a.parquet").frame.equals(finest.frame)


def test_replacing_a_store_that_another_secret_masked_is_told(people, finest, tmp_path):
    path = finest.save(tmp_path / "s.parquet")
    with pytest.warns(ilba.Notice, match="masked with another secret"):
        ilba.build(people, HKEY, KEY, secret=Secret(bytes(32))).save(path)


@pytest.mark.parametrize("keep", [0, 3, 4, 100, 0.5, -8, -1])
def test_a_truncated_store_is_refused(finest, tmp_path, keep):
    path = finest.save(tmp_path / "s.parquet")
    content = path.read_bytes()
    size = int(len(content) * keep) if isinstance(keep, float) else keep
    path.write_bytes(content[:size])
    with pytest.raises(ilba.StoreError, match="damaged"):
        ilba.open_store(path)


@pytest.mark.slow
def test_a_store_with_changed_bytes_is_refused_or_opens_unchanged(finest, tmp_path):
    path = finest.save(tmp_path / "s.parquet")
    content = path.read_bytes()
    rng = random.Random(1)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            opened = ilba.open_store(path)
        except ilba.StoreError:
            continue
        assert opened.frame.equals(finest.frame)


def test_foreign_and_newer_files_are_refused_with_the_way_out(finest, tmp_path, people):
    people.write_parquet(tmp_path / "foreign.parquet")
    with pytest.raises(ilba.StoreError, match="from_counts"):
        ilba.open_store(tmp_path / "foreign.parquet")
    path = finest.save(tmp_path / "s.parquet")
    meta = json.loads(pl.read_parquet_metadata(path)["ilba"]) | {"format": 99}
    pl.read_parquet(path).write_parquet(path, metadata={"ilba": json.dumps(meta)})
    with pytest.raises(ilba.StoreError, match=r"format 99.*upgrade"):
        ilba.open_store(path)
    with pytest.raises(ilba.StoreError, match=r"No such file.*Did you mean 's.parquet'"):
        ilba.open_store(tmp_path / "ss.parquet")
    with pytest.raises(ilba.StoreError, match="read_rds"):
        ilba.open_store(tmp_path / "full_tb.rds")
    with pytest.raises(ilba.StoreError):
        ilba.open_store(tmp_path)
    (tmp_path / "x.rds").write_bytes(b"nonsense")
    with pytest.raises(ilba.StoreError, match="not a finest table saved by the R package"):
        ilba.read_rds(tmp_path / "x.rds")
    with pytest.raises(ilba.StoreError, match=r"there is no file .*y\.rds'\. Did you mean 'x\.rds'"):
        ilba.read_rds(tmp_path / "y.rds")


def test_an_unwritable_path_is_refused_before_any_work(people, tmp_path):
    (tmp_path / "file").touch()
    for path, says in {
        tmp_path / "no" / "s.parquet": "no folder",
        tmp_path / "file" / "s.parquet": "no folder",
        tmp_path: "it is a folder",
        tmp_path / "full_tb.rds": "a store is a Parquet file",
    }.items():
        with pytest.raises(ilba.InputError, match=says):
            ilba.build(people, HKEY, KEY, output_path=path)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


@pytest.mark.long
def test_a_disk_that_fills_up_leaves_the_old_store(people, finest, tmp_path):
    """A real limit of the operating system on the size of a file stands in for the full disk."""
    store = finest.save(tmp_path / "s.parquet")
    before = store.read_bytes()
    script = f"""
import resource, polars as pl, ilba
finest = ilba.open_store({str(store)!r})
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
save = lambda: finest.save({str(store)!r})
table = lambda: finest.table(3, ["sex", "age"]).write_csv({str(tmp_path / "t.csv")!r})
for write in (save, table):
    try:
        write()
    except ilba.WriteError as problem:
        print("refused:", problem)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert run.stdout.count("refused: could not write") == 2, run.stderr
    assert store.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.parquet"]


def test_a_device_is_not_replaced_by_a_file(finest, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ilba.InputError, match="it is a device, not a file"):
        finest.table(1).write_csv(tmp_path / "pipe")
    assert [path.is_fifo() for path in tmp_path.iterdir()] == [True]


def test_nothing_takes_the_place_of_a_file_of_another_kind(people, finest, tmp_path, secret):
    store = finest.save(tmp_path / "s.parquet")
    kept = secret.to_file(tmp_path / "k")
    people.write_parquet(tmp_path / "p.parquet")
    people.write_csv(tmp_path / "p.csv")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    table = finest.table(1)
    for write, path in (
        (table.write_csv, store),
        (table.write_loss, kept),
        (finest.save, kept),
        (finest.save, tmp_path / "p.parquet"),
    ):
        with pytest.raises(ilba.InputError, match="would destroy"):
            write(path)
    with pytest.raises(ilba.InputError, match="a store is a Parquet file"):
        finest.save(tmp_path / "p.csv")
    with pytest.raises(ilba.InputError, match="same file"):
        table.write_csv(tmp_path / "t.csv", tmp_path / "t.csv")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_damaged_store_may_be_replaced(finest, tmp_path):
    path = finest.save(tmp_path / "s.parquet")
    path.write_bytes(path.read_bytes()[:100])
    finest.save(path)
    assert ilba.open_store(path).frame.equals(finest.frame)


def test_what_a_killed_process_left_is_removed_whatever_its_number(finest, tmp_path):
    """A number says nothing: process 1 always runs, and another container has numbers of its own."""
    (tmp_path / ".s.parquet.1-0a1b2c3d.tmp").write_bytes(b"true counts")
    (tmp_path / ".r.1-0a1b2c3d.tmp").mkdir()
    (tmp_path / ".r.1-0a1b2c3d.tmp" / "table").write_bytes(b"true counts")
    finest.save(tmp_path / "s.parquet")
    finest.release(tmp_path / "r", max_keys=0)
    kept = ["r", "s.parquet", "s.published.json"]
    assert sorted(path.name for path in tmp_path.iterdir()) == kept


@pytest.mark.long
def test_what_another_container_is_writing_is_left_alone(finest, tmp_path):
    """There this process has no number; a lock is seen all the same."""
    new = ["unshare", "--pid", "--fork"]
    if subprocess.run([*new, "true"], capture_output=True, check=False).returncode:
        pytest.skip("a process namespace is needed, which this user cannot make: run the tests as root")
    store = finest.save(tmp_path / "s.parquet")
    script = f"import ilba; ilba.open_store({str(store)!r}).save({str(store)!r})"
    with files.replacing(store, instead_of=b"PAR1") as temporary, files.making(tmp_path / "s.folder") as folder:
        temporary.write_bytes(store.read_bytes())
        subprocess.run([*new, sys.executable, "-c", script], check=True)
        assert temporary.exists()
        assert folder.exists()
        with files.making(tmp_path / "s.folder"):
            assert folder.exists()
    assert ilba.open_store(store).frame.equals(finest.frame)


def test_a_release_is_on_the_disk_before_it_takes_its_place(finest, tmp_path, monkeypatch):
    synced, exchanged, real, change = set(), [], os.fsync, files.exchange

    def watched(handle):
        real(handle)
        synced.add(Path(f"/proc/self/fd/{handle}").readlink())

    def noted(made, target):
        exchanged.append({path.relative_to(made) for path in [made, *made.rglob("*")] if path not in synced})
        change(made, target)

    monkeypatch.setattr(os, "fsync", watched)
    monkeypatch.setattr(files, "exchange", noted)
    finest.release(tmp_path / "r", max_keys=0)
    assert exchanged == [set(), set()]  # the masks in the ledger, and then the release
    assert tmp_path in synced


def test_a_link_is_followed_and_stays_a_link(finest, tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "s.parquet"
    link.symlink_to(tmp_path / "real" / "s.parquet")
    finest.save(link)
    assert link.is_symlink()
    assert ilba.open_store(link).frame.equals(finest.frame)


@pytest.mark.slow
def test_killing_a_build_at_any_write_leaves_the_old_store_or_the_new_one(tmp_path, secret):
    data, store = tmp_path / "p.parquet", tmp_path / "full_tb.parquet"
    frames = [ilba.build(population(seed=seed), HKEY, KEY, secret=secret).frame for seed in (1, 2)]
    population(seed=1).write_parquet(data)
    killing.build(str(data), str(store))
    population(seed=2).write_parquet(data)
    seen = []
    for _ in killing.killed(1, killing.build, str(data), str(store)):
        assert mode(store) == 0o600
        found = ilba.open_store(store).frame
        seen.append(next(number for number, frame in enumerate(frames) if frame.equals(found)))
        for left in tmp_path.glob(".*.tmp"):
            assert mode(left) == 0o600
    assert sorted(seen) == seen, "once the new one is there it stays"
    assert len(seen) > 3
    assert set(seen) == {0, 1}
    assert not list(tmp_path.glob(".*.tmp")), "what a killed run left behind is swept by the next one"


@pytest.mark.slow
@pytest.mark.parametrize("cells", ["observed", "grid"])
def test_below_the_top_level_the_audits_of_the_areas_together_are_the_audit_of_the_whole(tmp_path, secret, cells):
    ilba.build(population(), HKEY, KEY, secret=secret, cells=cells).save(tmp_path / "s.parquet")
    wanted = {"levels": ["region", "town", "block"]}
    whole = ilba.audit(ilba.open_store(tmp_path / "s.parquet"), **wanted)
    areas = [ilba.audit(ilba.open_store(tmp_path / "s.parquet", within=area), **wanted) for area in ("01", "02")]
    assert whole.cells_disclosed
    for number in ("cells_small", "cells_disclosed", "cells_exact"):
        assert sum(getattr(area, number) for area in areas) == getattr(whole, number), number
    columns = [*HKEY, *KEY]
    assert pl.concat(area.ranges for area in areas).sort(columns).equals(whole.ranges.sort(columns))


def test_one_area_of_a_store_is_that_area_with_all_keys_and_others_are_refused_by_name(finest, tmp_path):
    finest.save(tmp_path / "s.parquet")
    area = ilba.open_store(tmp_path / "s.parquet", within="02")
    assert area.frame.equals(finest.frame.filter(pl.col("region") == "02"))
    assert [len(listed) for listed in area.codes.lists[1:]] == [len(listed) for listed in finest.codes.lists[1:]]
    assert area.table("region", ["job"]).detail.equals(
        finest.table("region", ["job"]).detail.filter(pl.col("region") == "02")
    )
    with pytest.raises(ilba.InputError, match="'03' is not a value of 'region'"):
        ilba.open_store(tmp_path / "s.parquet", within="03")


def test_a_store_is_checked_before_polars_sees_it(finest, tmp_path, capfd):
    """What a library makes of damaged bytes is its own affair: an error, a panic, or other numbers."""
    path = finest.save(tmp_path / "s.parquet")
    content = path.read_bytes()
    rng = random.Random(2)
    for _ in range(200):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            assert ilba.open_store(path).frame.equals(finest.frame)
        except ilba.StoreError:
            continue
    assert capfd.readouterr() == ("", "")


def test_readers_made_by_others_read_a_sealed_store(finest, tmp_path):
    path = finest.save(tmp_path / "s.parquet")
    assert sealed.is_sealed(path.read_bytes())
    ours = pl.read_parquet(path)
    assert pl.from_arrow(pyarrow.parquet.read_table(path)).equals(ours)
    assert duckdb.sql(f"from '{path}'").pl().equals(ours)


def test_saving_over_a_store_reads_only_what_the_old_one_says(people, finest, tmp_path):
    """So a store whose cells cannot be read still tells which secret masked it."""
    path = ilba.build(people, HKEY, KEY, secret=Secret(bytes(32))).save(tmp_path / "s.parquet")
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ilba.StoreError, match="damaged"):
        ilba.open_store(path)
    with pytest.warns(ilba.Notice, match="masked with another secret"):
        finest.save(path)
