"""Write files completely or not at all, confidential ones readable only for their owner."""

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

try:
    import fcntl
except ModuleNotFoundError:  # a system without these locks: temporary files of killed processes stay
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PRIVATE = 0o600
PUBLIC = 0o644


def on_disk(path: str | os.PathLike[str]) -> str:
    """A path or URL as text; of a `file:` URL the path that it names, as Hadoop reads it."""
    return re.sub(r"^file:(//)?(?=/)", "", os.fspath(path), flags=re.IGNORECASE)


def writable(path: str | os.PathLike[str], mark: str = "") -> Path:
    """The path with links resolved, after checking that a file can be written there.

    A long task calls this first, so that it does not fail at the end. A folder can be replaced if it has a file `mark`.
    """
    target = Path(os.path.realpath(path))
    folder = target.parent
    if not folder.is_dir():
        raise InputError(f"cannot write {os.fspath(path)!r}: there is no folder {str(folder)!r}. Create it first.")
    if target.is_dir():
        if not (mark and (target / mark).exists()):
            raise InputError(f"cannot write {os.fspath(path)!r}: it is a folder. Give the name of a file.")
    elif target.exists() and not target.is_file():
        raise InputError(f"cannot write {os.fspath(path)!r}: it is a device, not a file. Give the name of a file.")
    _check_access(path, folder)
    return target


def writable_folder(path: str | os.PathLike[str], *, is_replaced: bool = True) -> Path:
    """The same for a folder that is created, or else replaced by one that is made beside it."""
    target = Path(os.path.realpath(path))
    if not target.is_dir():
        return writable(path)
    _check_access(path, target)
    if is_replaced:
        _check_access(path, target.parent)
    return target


def _check_access(path: str | os.PathLike[str], folder: Path) -> None:
    if not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"cannot write {os.fspath(path)!r}: the folder {str(folder)!r} is not writable for you.")


@contextlib.contextmanager
def replacing(
    path: str | os.PathLike[str], mode: int = PRIVATE, instead_of: bytes = b"", mark: str = ""
) -> Iterator[Path]:
    """Give a temporary path beside `path`; on success it replaces `path` in one step.

    An existing file is replaced only if it begins with `instead_of`, and never if it is a secret. A text file
    (`instead_of` empty) does not replace Parquet. A folder is replaced only if it has a file `mark`. So a typing error
    cannot destroy a store.

    If the block fails, or the process is killed, `path` is unchanged. The temporary file has `mode` from its first
    byte on.
    """
    target = writable(path, mark)
    _spare(target, os.fspath(path), instead_of)
    with _on_disk(path), _held(target, mode) as temporary:
        yield temporary
        _sync(temporary)
        if target.is_dir():
            exchange(temporary, target)
        else:
            temporary.replace(target)
        _sync_folder(target.parent)


@contextlib.contextmanager
def creating(path: str | os.PathLike[str], mode: int = PRIVATE) -> Iterator[Path]:
    """As `replacing`, but raise FileExistsError if `path` exists."""
    target = writable(path)
    with _on_disk(path), _held(target, mode) as temporary:
        yield temporary
        _sync(temporary)
        _link(temporary, target)
        _sync_folder(target.parent)


@contextlib.contextmanager
def making(target: Path) -> Iterator[Path]:
    """Give a temporary folder beside `target`, readable only for its owner; on success it replaces `target`.

    Its content is on the disk before the exchange, so after a power cut there is the old or the new folder.
    """
    with _on_disk(target), _held(target, None) as temporary:
        yield temporary
        for folder, _, files in os.walk(temporary, topdown=False):
            for name in files:
                _sync(Path(folder, name))
            _sync_folder(Path(folder))
        exchange(temporary, target)


@contextlib.contextmanager
def _held(target: Path, mode: int | None) -> Iterator[Path]:
    """A new temporary file beside `target`, or a folder if there is no mode, locked until the block ends.

    The lock shows that a process uses it. A process number does not, because other machines and containers have
    their own numbers. A temporary file without a lock is from a killed process. It is removed, because it may contain
    true counts.
    """
    sweep(target.parent, target.name)
    while True:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        if mode is None:
            temporary.mkdir(mode=0o700)
        else:
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        with _locked(temporary, wait=True) as is_ours:
            if not is_ours:
                continue  # removed before it was locked
            try:
                yield temporary
            finally:
                _remove(temporary)
            return


def sweep(folder: Path, name: str = "") -> list[Path]:
    """Remove temporary files of killed processes from a folder; return those that are still in use."""
    wanted = re.compile(rf"\.{re.escape(name) if name else '.+'}\.[0-9a-f-]+\.tmp")
    held = [path for path in folder.iterdir() if wanted.fullmatch(path.name)]
    for path in [*held] if fcntl is not None else ():
        with _locked(path, wait=False) as is_ours:
            if is_ours:
                _remove(path)
                held.remove(path)
    return held


@contextlib.contextmanager
def working_in(folder: Path, waiting: Callable[[], object]) -> Iterator[None]:
    """Be the only process that works in a private folder; another one waits, and its `waiting` is called first.

    The folder is made if it is missing, and removed at the end if it is empty.
    """
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with _locked(folder, wait=True, waiting=waiting) as is_ours:
            if not is_ours:
                continue  # the process before this one removed it
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    folder.rmdir()  # only if it is empty
            return


def lock(handle: int, waiting: Callable[[], object]) -> None:
    """Lock an open file or folder until it is closed. If another process has locked it, call `waiting`, and wait."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        waiting()
        fcntl.flock(handle, fcntl.LOCK_EX)


@contextlib.contextmanager
def _locked(path: Path, wait: bool, waiting: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Lock a file or folder while the block runs; tell whether it is locked and still exists.

    If the file system has no locks, a writer continues without one, and nothing is ever removed.
    """
    if fcntl is None:
        yield wait
        return
    try:
        handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    except OSError:  # already removed, or not readable
        yield False
        return
    try:
        try:
            if wait:
                lock(handle, waiting)
            else:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_locked = True
        except OSError:
            is_locked = wait
        yield is_locked and path.exists() and os.path.samestat(path.stat(), os.fstat(handle))
    finally:
        os.close(handle)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _on_disk(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of the disk, also those of polars, into a WriteError."""
    try:
        yield
    except (WriteError, FileExistsError):
        raise
    except Exception as problem:
        told = re.search(r"([^:\n]+) \(os error \d+\)", str(problem))
        if isinstance(problem, OSError):
            reason = problem.strerror or str(problem)
        elif told:
            reason = told[1].strip()
        elif str(problem).endswith("transport error"):  # polars, at the last bytes of a parquet file
            reason = "the disk is full, or failed"
        else:
            raise
        raise WriteError(f"could not write {os.fspath(path)!r}: {reason}. Nothing was changed there.") from problem


def exchange(made: Path, target: Path) -> None:
    """Replace a folder, or a file, by a finished one of either kind in one step; then remove the old one."""
    if not target.exists():
        made.replace(target)
        _sync_folder(target.parent)
        return
    if not _swap(made, target):
        # This system has no exchange: for a moment the old folder has another name, but is complete.
        aside = made.with_suffix(".old")
        target.rename(aside)
        made.rename(target)
        aside.rename(made)
    _sync_folder(target.parent)
    _remove(made)


def _link(made: Path, target: Path) -> None:
    """Give a finished file its name, unless the name is taken."""
    try:
        os.link(made, target)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: take the name first
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))
        made.replace(target)


def _swap(one: Path, other: Path) -> bool:
    """Linux exchanges two names in one system call."""
    try:
        library = ctypes.CDLL(None, use_errno=True)
        return bool(library.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2) == 0)
    except (OSError, AttributeError):
        return False


def _spare(target: Path, said: str, instead_of: bytes) -> None:
    if not target.is_file() or not target.stat().st_size:
        return
    with target.open("rb") as file:
        begins = file.read(11)
    kind = next((kind for magic, kind in _KINDS.items() if begins.startswith(magic)), "another kind of file")
    allowed = begins.startswith(instead_of) if instead_of else not begins.startswith(tuple(_KINDS))
    if not allowed:
        raise InputError(f"{said!r} exists and is {kind}, which this would destroy. Choose another name.")


_KINDS = {b"PAR1": "a Parquet file", b"ilba-secret": "a secret"}


def _sync(file: Path) -> None:
    with file.open("rb+") as handle:
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # some file systems cannot sync a folder; the rename itself is atomic
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
