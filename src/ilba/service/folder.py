"""One release folder: its tables by name, and whether its files are still the published ones.

A replaced release (for example every night) is opened anew. If the replacement cannot be read, the old release is still
answered from files that are held open. A file that does not match its checksum is never used.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import math
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TypeAlias, TypeVar

import polars as pl

from ilba.design.tables import coarser
from ilba.errors import IlbaError, StoreError
from ilba.output.naming import file_names
from ilba.output.series import Series, time_of
from ilba.output.wording import Labels, languages
from ilba.release import MANIFEST, PublicTable, Release
from ilba.release.reading import fitting

Mark: TypeAlias = tuple[int, int, int]
Kept = TypeVar("Kept")

_READ_AGAIN = 10.0  # seconds until a damaged file is read again, even if it looks unchanged
GRACE = 3.0  # seconds that a replacement may take before a mismatch counts as damage
_MOST_PLACES = 2**62
_MOST_HELD = 4096  # files of a release that are held open
_NOWHERE = (0, 0, 0)
_log = logging.getLogger("ilba.service")


class ChangedError(StoreError):
    """A file of a release is not the one in its manifest; it is probably being replaced."""


class DamagedError(StoreError):
    """A release or a part of it must be restored. The text is public, so it names no path."""


class ByLanguage(dict[str, Kept]):
    """A value for each language, made on first use."""

    def __init__(self, make: Callable[[str], Kept]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, lang: str) -> Kept:
        return self.setdefault(lang, self._make(lang))


@dataclass(frozen=True)
class TableEntry:
    """A table that clients can request: stored in the release, or summed from a stored one if tables add up."""

    id: str
    served: ServedRelease
    table: PublicTable
    source: PublicTable

    @property
    def release(self) -> Release:
        """The release that it belongs to."""
        return self.served.release

    @property
    def file(self) -> str:
        """The name of its file for readers, without the ending."""
        prefix = self.id.removesuffix(self.table.name).replace(":", ".")
        return prefix + self.served.files[self.table.name]

    @property
    def is_stored(self) -> bool:
        """Whether the table itself was published (for a series, in every wave); otherwise it is summed here."""
        if not self.served.members:
            return self.source is self.table
        keys = [key for key in self.table.keys if key != self.served.time]
        waves = [one.entry(self.table.levels, keys) for one in self.served.members.values()]
        return all(wave is not None and wave.is_stored for wave in waves)


@dataclass
class ServedRelease:
    """One release that is served."""

    id: str
    release: Release
    digest: str
    labels: ByLanguage[Labels]
    entries: dict[str, TableEntry] = field(default_factory=dict)
    members: dict[str, ServedRelease] = field(default_factory=dict)
    """the waves by their times, if this is a series"""
    series: str | None = None
    """the series to which this wave belongs"""

    @property
    def time(self) -> str | None:
        """The variable that distinguishes waves, if this is a series."""
        return self.release.time if isinstance(self.release, Series) else None

    @property
    def times(self) -> list[str]:
        """The reference times, in order; empty if none was declared."""
        own = time_of(self.release) if not self.members else ""
        return list(self.members) or ([own] if own else [])

    def entry(self, levels: Mapping[str, int], keys: Iterable[str]) -> TableEntry | None:
        """The table at these levels by these keys, if there is one."""
        return self.entries.get(_name(self.release, levels, keys))

    def size(self, column: str) -> int:
        """The number of published codes of a variable."""
        return int(self._sizes.get(column, 0))

    @cached_property
    def files(self) -> dict[str, str]:
        """By the names of tables, the names of their files for readers, without the ending."""
        return file_names(self.entries)

    @cached_property
    def languages(self) -> list[str]:
        """The languages of the release."""
        return languages(self.release.codes, self.release.manifest)

    def axes(self, table: PublicTable) -> list[str]:
        """The columns that name the axes of a table: the finest of each hierarchy, then the keys."""
        return [path[-1] for path in table.selection.paths]

    def cells(self, table: PublicTable) -> int:
        """The number of cells of a table's complete grid, by the code lists."""
        return math.prod(max(1, self.size(column)) for column in self.axes(table))

    def __post_init__(self) -> None:
        codes = self.release.codes.drop_nulls("code").select("variable", "code", "parent").unique()
        self._sizes = dict(codes.group_by("variable").len().iter_rows())
        self._held: dict[str, int] = {}

    def hold(self, files: Iterable[str]) -> None:
        """Keep files open, so that they can be read after they are replaced."""
        if os.name == "nt":  # an open file cannot be replaced there
            return
        with contextlib.suppress(OSError):  # as many as the system allows
            for file in list(files)[:_MOST_HELD]:
                self._held[file] = os.open(self.release.path / file, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, _close, list(self._held.values()))

    def held(self, file: str) -> bytes | None:
        """The content of a file that was kept open."""
        if file not in self._held:
            return None
        return os.pread(self._held[file], os.fstat(self._held[file]).st_size, 0)


def _close(held: list[int]) -> None:
    for one in held:
        os.close(one)


def _is_past(since: float | None) -> bool:
    """Whether something has lasted longer than a replacement takes."""
    return since is not None and time.monotonic() - since > GRACE


def _misshapen(path: Path) -> StoreError:
    return StoreError(f"{str(path / MANIFEST)!r} is not the manifest of a release. Make the release again.")


def _name(release: Release, levels: Mapping[str, int], keys: Iterable[str]) -> str:
    wanted = set(keys)
    return release.design.select(dict(levels), [key for key in release.design.keys if key in wanted]).name


Check: TypeAlias = Callable[[ServedRelease], object]


class Folder:
    """One release folder: the release that was opened last, and what is wrong with the present files."""

    def __init__(self, name: str, path: Path, alone: bool, check: Check) -> None:
        self.name = name
        self.path = path
        self._alone = alone
        self._check = check
        self._lock = threading.RLock()
        self._told: set[tuple[object, ...]] = set()
        self._next = self._swept = 0.0
        self._open()

    def _open(self) -> None:
        mark = _mark(self.path / MANIFEST)
        served = _opened(self.name, self.path, self._alone)
        digests = served.release.digests
        try:
            self._check(served)
        except Exception:
            raise _misshapen(self.path) from None
        self._fits = {file: _mark(self.path / file) for file in digests}
        self._wrong: dict[str, tuple[Mark, float, float]] = {}  # the mark of a file, since when, and when it was read
        served.hold(digests)
        self._served, self._digests, self._manifest = served, digests, mark
        self._away: float | None = None  # since when the folder is missing
        self._broken: float | None = None  # since when the folder cannot be opened

    def served(self) -> ServedRelease | None:
        """The release; None if it has been missing for longer than a replacement takes."""
        return None if _is_past(self._away) else self._served

    @property
    def is_stale(self) -> bool:
        """Whether the replacement cannot be read, so that the old release is answered."""
        return self._away is None and _is_past(self._broken)

    def look(self) -> None:
        """Open the folder if it holds another release than before."""
        with self._lock:
            began = time.monotonic()
            mark = _mark(self.path / MANIFEST)
            if mark == self._manifest:
                self._away = self._broken = None
            elif mark == _NOWHERE:
                self._broken = None
                self._away = began if self._away is None else self._away
                if _is_past(self._away):
                    self._tell(f"there is no release {str(self.path)!r} any more. Nothing of it is answered.", mark)
            elif began >= self._next:
                try:
                    self._open()
                except (IlbaError, OSError, pl.exceptions.PolarsError) as problem:
                    ended = time.monotonic()
                    self._next = ended + 10 * (ended - began)  # failed reads never take most of the time
                    if not _is_past(self._away):  # a removed release does not come back
                        self._away = None
                    self._broken = began if self._broken is None else self._broken
                    if _is_past(self._broken):
                        answered = "Nothing" if self._away is not None else "The earlier release"
                        self._tell(f"{problem} {answered} is served until it is restored.", mark)

    def content(self, served: ServedRelease, file: str, digest: str, what: str) -> bytes:
        """A file of the release, as published."""
        wrong = self._wrong.get(file)
        known = wrong and wrong[0] == _mark(self.path / file) and time.monotonic() - wrong[2] < _READ_AGAIN
        content = None if known else self._read(file, digest)
        if content is not None:
            return content
        self.look()
        if served is not self._served or self._away is not None or self._broken is not None:
            content = served.held(file)  # it was replaced, or is about to be
            if content is not None and hashlib.sha256(content).hexdigest() == digest:
                return content
        wrong = self._wrong.get(file)
        if served is not self._served or self._away is not None or not wrong or not _is_past(wrong[1]):
            raise ChangedError("the release is being replaced, or is damaged.")
        self._tell_damage(file)
        raise DamagedError(f"{what} is damaged on this server. Its operator has to restore it.")

    def _read(self, file: str, digest: str) -> bytes | None:
        """A file if it matches its checksum, otherwise None; the result is recorded."""
        mark, now = _mark(self.path / file), time.monotonic()
        content = fitting(self.path / file, digest)
        if self._digests.get(file) == digest:  # otherwise another release was opened in the meantime
            if content is not None:
                self._fits[file] = mark
                self._wrong.pop(file, None)
            else:
                since = self._wrong[file][1] if file in self._wrong else now
                self._wrong[file] = mark, since, now
        return content

    def look_over(self) -> None:
        """Check every file, and read those that changed. This never takes most of the time."""
        began = time.monotonic()
        if began < self._swept or self._away is not None or self._broken is not None:
            return
        for file, digest in self._digests.items():
            mark, wrong = _mark(self.path / file), self._wrong.get(file)
            if wrong[0] != mark or began - wrong[2] > _READ_AGAIN if wrong else mark != self._fits.get(file):
                self._read(file, digest)
        for file in self.damaged:
            self._tell_damage(file)
        ended = time.monotonic()
        self._swept = ended + 10 * (ended - began)

    @property
    def damaged(self) -> list[str]:
        """The checked files that do not match their checksums."""
        return sorted(file for file, (_, since, _) in list(self._wrong.items()) if _is_past(since))

    def _tell_damage(self, file: str) -> None:
        said = f"{file!r} of the release {str(self.path)!r} is missing or was changed"
        self._tell(f"{said}, and is not served. Make the release again, or restore it.", self._manifest, file)

    def _tell(self, text: str, *about: object) -> None:
        """Log a line for the operator, once for each problem."""
        with self._lock:
            if about not in self._told:
                self._told.add(about)
                _log.error(text)


def _mark(path: Path) -> Mark:
    """A mark that changes when a file is replaced."""
    try:
        told = path.stat()
    except OSError:
        return 0, 0, 0
    return told.st_ino, told.st_mtime_ns, told.st_size


def _opened(name: str, path: Path, alone: bool) -> ServedRelease:
    try:
        return _read_release(name, path, alone)
    except (IlbaError, OSError):
        raise
    except Exception:  # a manifest may have any form
        raise _misshapen(path) from None


def _read_release(name: str, path: Path, alone: bool) -> ServedRelease:
    release = Release(path)
    release.verify()
    digest = hashlib.sha256(json.dumps(release.manifest, sort_keys=True).encode()).hexdigest()
    served = ServedRelease(name, release, digest, ByLanguage(lambda lang: Labels(release.codes, lang)))
    prefix = "" if alone else f"{name}:"
    for table, source in _offered(served):
        served.entries[table.name] = TableEntry(prefix + table.name, served, table, source)
    if not served.entries:
        raise StoreError(f"{str(path)!r} has no table that could be served.")
    return served


def _offered(served: ServedRelease) -> Iterator[tuple[PublicTable, PublicTable]]:
    """The stored tables and, if tables add up, all sums of them; each with its stored source."""
    release = served.release
    for table in release.tables.values():
        if served.cells(table) < _MOST_PLACES:
            yield table, table
    stored = [table.selection for table in release.tables.values()]
    for wanted in coarser(release.design, stored) if release.additive else ():
        finer = [one for one in release.tables.values() if wanted.is_within(one.selection)]
        if finer and wanted.name not in release.tables:
            source = min(finer, key=lambda one: one.rows)
            table = PublicTable(wanted, source.rows, source.sha256)
            if served.cells(table) < _MOST_PLACES:
                yield table, source
