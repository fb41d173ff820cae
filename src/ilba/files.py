"""Writing files so that nobody ever meets half of one, and confidential ones are for the owner alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ilba.errors import InputError, WriteError

if TYPE_CHECKING:
    from collections.abc import Iterator

PRIVATE = 0o600


def writable(path: str | os.PathLike[str]) -> Path:
    """The path with links resolved, after checking that a file can be written there.

    Long work calls this first: an hour of counting should not end in "no such folder".
    """
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {os.fspath(path)!r}: there is no folder {str(folder)!r}. Create it first.")
    if target.is_dir():
        raise InputError(f"cannot write {os.fspath(path)!r}: it is a folder. Give the name of a file.")
    if target.exists() and not target.is_file():
        raise InputError(f"cannot write {os.fspath(path)!r}: it is not a file but a device. Give the name of a file.")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {os.fspath(path)!r}: the folder {str(folder)!r} is not writable for you.")
    return target


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], mode: int = PRIVATE, instead_of: bytes = b"") -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it takes the place of `path` in one step.

    A file that stands there is only replaced when it begins with `instead_of`, and never when it is a key; a text
    file (`instead_of` empty) does not take the place of Parquet. A slip of the pen must not cost somebody a store.

    When the block fails, or the process is killed, `path` is as it was before. The temporary file carries
    `mode` from its first byte on.
    """
    target = writable(path)
    _spare(target, os.fspath(path), instead_of)
    temporary = beside(target)
    try:
        with _on_disk(path):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
            _sync_folder(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def making(target: Path) -> Iterator[Path]:
    """Give a temporary folder beside `target`, for the owner alone; on success it takes the place of `target`."""
    temporary = beside(target)
    try:
        with _on_disk(target):
            temporary.mkdir(mode=0o700)
            yield temporary
            exchange(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def _on_disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say in our words what the disk did not take. Polars tells of it in errors of its own."""
    try:
        yield
    except WriteError:
        raise
    except Exception as problem:
        told = re.search(r"([^:\n]+) \(os error \d+\)", str(problem))
        if isinstance(problem, OSError):
            reason = problem.strerror or str(problem)
        elif told:
            reason = told[1].strip()
        else:
            raise
        raise WriteError(f"could not write {os.fspath(path)!r}: {reason}. Nothing was changed there.") from problem


def exchange(made: Path, target: Path) -> None:
    """Let a finished folder take the place of another in one step; the old one is removed afterwards."""
    if not target.exists():
        made.replace(target)
        _sync_folder(target.parent)
        return
    if not _swap(made, target):
        # No exchange on this system: for a moment the old folder has another name, but is whole.
        aside = made.with_suffix(".old")
        target.rename(aside)
        made.rename(target)
        aside.rename(made)
    _sync_folder(target.parent)
    shutil.rmtree(made)


def _swap(one: Path, other: Path) -> bool:
    """Linux exchanges two names in one system call."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        return bool(library.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0)
    except (OSError, AttributeError):
        return False


def _spare(target: Path, said: str, instead_of: bytes) -> None:
    if not target.exists() or not target.stat().st_size:
        return
    with target.open("rb") as file:
        begins = file.read(11)
    kind = next((kind for magic, kind in _KINDS.items() if begins.startswith(magic)), "another kind of file")
    allowed = begins.startswith(instead_of) if instead_of else not begins.startswith(tuple(_KINDS))
    if not allowed:
        raise InputError(f"{said!r} exists and is {kind}, which this would destroy. Choose another name.")


_KINDS = {b"PAR1": "a Parquet file", b"ilba-secret": "a key"}


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder; the rename itself is atomic
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def beside(target: Path) -> Path:
    """A temporary name beside `target`, after removing what killed processes left there: it may hold true counts."""
    for left in target.parent.glob(f".{_escaped(target.name)}.*.tmp"):
        process = left.name.removesuffix(".tmp").rpartition(".")[2].partition("-")[0]
        if process.isdigit() and not _running(int(process)):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)
    return target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")


def _escaped(name: str) -> str:
    return "".join(f"[{char}]" if char in "*?[" else char for char in name)


def _running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
