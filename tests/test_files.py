"""Files appear whole or not at all, are their owner's alone, and never cost somebody a store or a key."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ilba import InputError
from ilba.errors import WriteError
from ilba.files import creating, exchange, making, replacing, sweep, working_in, writable, writable_folder


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def half_done(writing: AbstractContextManager[Path], write: Callable[[Path], object]) -> None:
    """Begin, and fail before the end."""
    with writing as temporary:
        write(temporary)
        raise KeyError


@pytest.mark.slow
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=50).filter(lambda text: not text.startswith((b"PAR1", b"ilba-secret"))), min_size=1))
def test_the_last_that_was_written_whole_is_there(tmp_path, contents):
    for content in contents:
        with replacing(tmp_path / "file") as temporary:
            temporary.write_bytes(content)
    assert (tmp_path / "file").read_bytes() == contents[-1]
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("write", [replacing, creating])
def test_a_file_is_its_owners_alone_from_the_first_byte_whatever_the_mask_of_the_process(tmp_path, write):
    before = os.umask(0)
    try:
        with write(tmp_path / "file") as temporary:
            assert mode(temporary) == 0o600
            assert temporary.parent == tmp_path
            temporary.write_text("secret")
    finally:
        os.umask(before)
    assert mode(tmp_path / "file") == 0o600


def test_a_public_file_is_for_anybody_when_that_is_asked_for(tmp_path):
    with replacing(tmp_path / "file", mode=0o644) as temporary:
        temporary.touch()
    assert mode(tmp_path / "file") == 0o644


@pytest.mark.parametrize("there", [None, b"old"])
def test_what_fails_halfway_leaves_what_was_there_and_nothing_else(tmp_path, there):
    target = tmp_path / "file"
    if there is not None:
        target.write_bytes(there)
    with pytest.raises(KeyError):
        half_done(replacing(target), lambda temporary: temporary.write_bytes(b"half"))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == ({} if there is None else {"file": there})


def test_a_full_disk_is_told_in_words_with_the_path(tmp_path):
    (tmp_path / "file").write_text("old")
    says = r"could not write .*file': No space left on device\. Nothing was changed"
    with pytest.raises(WriteError, match=says), replacing(tmp_path / "file"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert (tmp_path / "file").read_text() == "old"


def test_a_disk_that_is_full_at_the_last_bytes_of_a_parquet_file_is_told_too(tmp_path):
    says = r"could not write .*file': the disk is full, or failed\. Nothing was changed"
    with pytest.raises(WriteError, match=says), replacing(tmp_path / "file"):
        raise pl.exceptions.ComputeError("parquet: File out of specification: Invalid thrift: transport error")
    assert names(tmp_path) == []


@pytest.mark.parametrize("closed", ["release", "."])
def test_a_folder_that_cannot_be_replaced_is_told_before_the_work(tmp_path, monkeypatch, closed):
    """Root may write everywhere but on a read-only disk, so the system's answer is set."""
    folder = tmp_path / "release"
    folder.mkdir()
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path / closed)
    with pytest.raises(InputError) as refused:
        writable_folder(folder)
    assert str(refused.value) == (
        f"cannot write {str(folder)!r}: the folder {str(tmp_path / closed)!r} is not writable for you."
    )
    if closed == ".":
        assert writable_folder(folder, is_replaced=False) == folder


def test_creating_never_replaces(tmp_path):
    with creating(tmp_path / "key") as temporary:
        temporary.write_text("first")
    with pytest.raises(FileExistsError), creating(tmp_path / "key") as temporary:
        temporary.write_text("second")
    assert (tmp_path / "key").read_text() == "first"
    assert names(tmp_path) == ["key"]


@pytest.mark.parametrize(
    ("there", "instead_of", "says"),
    [
        (b"PAR1...", b"", "exists and is a Parquet file"),
        (b"ilba-secret-1:", b"", "exists and is a secret"),
        (b"ilba-secret-1:", b"PAR1", "exists and is a secret"),
        (b"a,b\n1,2\n", b"PAR1", "exists and is another kind of file"),
    ],
)
def test_a_file_of_another_kind_is_not_destroyed(tmp_path, there, instead_of, says):
    (tmp_path / "file").write_bytes(there)
    with pytest.raises(InputError, match=says), replacing(tmp_path / "file", instead_of=instead_of):
        pytest.fail("the work begins only when it may be written")
    assert (tmp_path / "file").read_bytes() == there


@pytest.mark.parametrize(("there", "instead_of"), [(b"PAR1...", b"PAR1"), (b"", b"PAR1"), (b"a,b\n", b"")])
def test_a_file_of_the_same_kind_or_an_empty_one_is_replaced(tmp_path, there, instead_of):
    (tmp_path / "file").write_bytes(there)
    with replacing(tmp_path / "file", instead_of=instead_of) as temporary:
        temporary.write_bytes(b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def test_where_nothing_can_be_written_is_told_before_the_work(tmp_path):
    (tmp_path / "folder").mkdir()
    for place, says in [
        (tmp_path / "nowhere" / "file", "there is no folder"),
        (tmp_path / "folder", "it is a folder"),
        (Path("/dev/null"), "it is a device, not a file"),
    ]:
        with pytest.raises(InputError, match=says):
            writable(place)


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "file")
    assert writable(tmp_path / "link") == tmp_path / "real" / "file"
    with replacing(tmp_path / "link") as temporary:
        assert temporary.parent == tmp_path / "real"
        temporary.write_text("text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "file").read_text() == "text"


def test_a_file_takes_the_place_of_a_folder_only_if_the_mark_is_in_it(tmp_path):
    (tmp_path / "store").mkdir()
    with pytest.raises(InputError, match="it is a folder"), replacing(tmp_path / "store", mark="mark"):
        pytest.fail("the work begins only when it may be written")
    (tmp_path / "store" / "mark").touch()
    with replacing(tmp_path / "store", mark="mark") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "store").read_text() == "new"
    assert names(tmp_path) == ["store"]


def test_a_folder_takes_the_place_of_another_whole(tmp_path):
    for content in ("old", "new"):
        with making(tmp_path / "folder") as temporary:
            assert mode(temporary) == 0o700
            (temporary / "below").mkdir()
            (temporary / "below" / content).write_text(content)
    assert [path.name for path in (tmp_path / "folder").rglob("*")] == ["below", "new"]
    with pytest.raises(KeyError):
        half_done(making(tmp_path / "folder"), lambda temporary: (temporary / "half").touch())
    assert [path.name for path in (tmp_path / "folder").rglob("*")] == ["below", "new"]
    assert names(tmp_path) == ["folder"]


def test_folders_are_exchanged_also_where_the_system_cannot_do_it_in_one_step(tmp_path, monkeypatch):
    monkeypatch.setattr("ilba.files._swap", lambda *_: False)
    for name in ("made", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange(tmp_path / "made", tmp_path / "target")
    assert names(tmp_path) == ["target"]
    assert names(tmp_path / "target") == ["made"]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_folder_takes_the_place_of_a_file_and_nothing_is_left(tmp_path, monkeypatch, at_once):
    if not at_once:
        monkeypatch.setattr("ilba.files._swap", lambda *_: False)
    (tmp_path / "store").write_text("old")
    with making(tmp_path / "store") as temporary:
        (temporary / "new").touch()
        assert (tmp_path / "store").read_text() == "old"
    assert names(tmp_path) == ["store"]
    assert names(tmp_path / "store") == ["new"]


def test_what_killed_processes_left_is_removed_and_what_is_at_work_is_not(tmp_path):
    left, other, held = (tmp_path / f".{name}.tmp" for name in ("store.0a", "cube.1b", "store.2c"))
    left.touch()
    other.mkdir()
    held.touch()
    (tmp_path / "store").touch()
    with held.open("rb+") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert sweep(tmp_path, "store") == [held]
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([other.name, held.name, "store"])
        assert sweep(tmp_path) == [held]
    assert sweep(tmp_path) == []
    assert names(tmp_path) == ["store"]


def test_of_two_processes_one_works_in_a_folder_while_the_other_waits(tmp_path):
    folder, told, seen = tmp_path / "confidential", threading.Event(), []

    def second():
        with working_in(folder, told.set):
            seen.append(names(tmp_path))

    with working_in(folder, lambda: pytest.fail("nobody else is at work")):
        assert mode(folder) == 0o700
        other = threading.Thread(target=second)
        other.start()
        assert told.wait(30)
        assert not seen
    other.join(30)
    # The first one removed the empty folder, so the second one made it anew.
    assert seen == [["confidential"]]
    assert not folder.exists()
    with working_in(folder, lambda: None):
        (folder / "store").touch()
    assert names(folder) == ["store"]
