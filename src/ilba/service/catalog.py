"""The releases that are served: their tables by name, loaded when they are asked for.

A thread looks at the folders once a second; no request waits for it. A release that is replaced, as every night, is
opened anew. One that is replaced by something that cannot be read is answered as it was: its files are held open. A
release that was taken away is no longer answered, and neither is a file that does not fit its checksum.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import json
import logging
import math
import os
import re
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.design.design import MASKED
from ilba.design.tables import coarser
from ilba.errors import IlbaError, InputError, StoreError
from ilba.output.series import Series, fits, population_of, time_of
from ilba.output.wording import LANGUAGES, Dimension, Labels, Values, WordedTable, languages
from ilba.release import MANIFEST, PublicTable, Release
from ilba.release.reading import fitting
from ilba.service.asked import Codes

IntArray: TypeAlias = npt.NDArray[np.int64]
Mark: TypeAlias = tuple[int, int, int]
Kept = TypeVar("Kept")

_LOOK_AGAIN = 1.0  # seconds between two looks at whether a release was replaced
_READ_AGAIN = 10.0  # seconds after which a file that does not fit is read once more, though it looks the same
_GRACE = 3.0  # seconds that a replacement may take before what does not fit is called damaged
_MOST_PLACES = 2**62
_MOST_HELD = 4096  # files of a release that are held open
_NOWHERE = (0, 0, 0)
_log = logging.getLogger("ilba.service")


class ChangedError(StoreError):
    """A file of a release is not the one that its manifest lists: it is being replaced, as it seems."""


class DamagedError(StoreError):
    """Somebody has to restore a release, or a part of it. Its text is for everybody: it names no path."""


class Recent(Generic[Kept]):
    """What was made last, up to a number of bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held = 0
        self._kept: OrderedDict[object, tuple[Kept, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: object) -> Kept | None:
        """What is kept under a name."""
        with self._lock:
            found = self._kept.get(name)
            if found is None:
                return None
            self._kept.move_to_end(name)
            return found[0]

    def put(self, name: object, value: Kept, size: int) -> None:
        """Keep a value; what was not asked for longest has to go."""
        if size > self._most:
            return
        with self._lock:
            if name in self._kept:
                self._held -= self._kept.pop(name)[1]
            self._kept[name] = (value, size)
            self._held += size
            while self._held > self._most:
                self._held -= self._kept.popitem(last=False)[1][1]


class ByLanguage(dict[str, Kept]):
    """What is made for each language when it is first asked for."""

    def __init__(self, make: Callable[[str], Kept]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, lang: str) -> Kept:
        return self.setdefault(lang, self._make(lang))


@dataclass
class Loaded:
    """A table in memory: its axes in each language, and the places and counts of its rows in the complete grid."""

    worded: ByLanguage[WordedTable]
    place: IntArray
    count: Values
    absent: float = 0
    """what a cell without a row counts: 0, or NaN where it is left blank"""

    @property
    def dimensions(self) -> list[Dimension]:
        """The axes; their codes are the same in any language."""
        return self.worded[LANGUAGES[0]].dimensions

    @cached_property
    def codes(self) -> list[Codes]:
        """The codes of each axis."""
        return [Codes(dimension.name, dimension.codes) for dimension in self.dimensions]

    @cached_property
    def index(self) -> list[dict[tuple[str | None, ...], int]]:
        """Where each path stands on its axis."""
        return [{path: place for place, path in enumerate(one.paths.iter_rows())} for one in self.dimensions]

    def values(self, places: Sequence[Sequence[int]]) -> Values:
        """The counts at some places of each axis, the last axis fastest; a cell without a row is 0.

        Where counts may be left blank, they are NaN there, and so are cells without a row of a release that says so.
        """
        wanted = np.zeros(1, dtype=np.int64)
        for dimension, chosen in zip(self.dimensions, places, strict=True):
            wanted = (wanted[:, None] * len(dimension) + np.asarray(chosen, dtype=np.int64)[None, :]).ravel()
        if not len(self.place):
            return np.full(len(wanted), self.absent, dtype=self.count.dtype)  # type: ignore[return-value]
        found = np.minimum(np.searchsorted(self.place, wanted), len(self.place) - 1)
        values: Values = np.where(self.place[found] == wanted, self.count[found], self.absent)
        return values


@dataclass(frozen=True)
class TableEntry:
    """A table that can be asked for: stored in the release, or summed from a stored one where tables add up."""

    id: str
    served: ServedRelease
    table: PublicTable
    source: PublicTable

    @property
    def release(self) -> Release:
        """The release that it belongs to."""
        return self.served.release


@dataclass
class ServedRelease:
    """One release that is served."""

    id: str
    release: Release
    digest: str
    labels: ByLanguage[Labels]
    entries: dict[str, TableEntry] = field(default_factory=dict)
    members: dict[str, ServedRelease] = field(default_factory=dict)
    """the waves by their times, where this is a series"""
    series: str | None = None
    """the series that this is a wave of"""

    @property
    def time(self) -> str | None:
        """The variable that tells waves apart, where this is a series of them."""
        return self.release.time if isinstance(self.release, Series) else None

    @property
    def times(self) -> list[str]:
        """The times of which it tells, from the first; empty where none was declared."""
        own = time_of(self.release) if not self.members else ""
        return list(self.members) or ([own] if own else [])

    def entry(self, levels: Mapping[str, int], keys: Iterable[str]) -> TableEntry | None:
        """The table at these levels by these keys, if there is one."""
        return self.entries.get(_name(self.release, levels, keys))

    def size(self, column: str) -> int:
        """How many codes of a variable were published."""
        return int(self._sizes.get(column, 0))

    @property
    def languages(self) -> list[str]:
        """The languages in which it can be told."""
        return languages(self.release.codes, self.release.manifest)

    def axes(self, table: PublicTable) -> list[str]:
        """The columns that name the axes of a table: the finest of each hierarchy, then the keys."""
        return [path[-1] for path in table.selection.paths]

    def cells(self, table: PublicTable) -> int:
        """How many cells the complete grid of a table has by the code lists."""
        return math.prod(max(1, self.size(column)) for column in self.axes(table))

    def __post_init__(self) -> None:
        codes = self.release.codes.drop_nulls("code").select("variable", "code", "parent").unique()
        self._sizes = dict(codes.group_by("variable").len().iter_rows())
        self._held: dict[str, int] = {}

    def hold(self, files: Iterable[str]) -> None:
        """Keep files open, so that they can be read after others have taken their place."""
        if os.name == "nt":  # nothing takes the place of an open file there
            return
        with contextlib.suppress(OSError):  # as many as can be open at once
            for file in list(files)[:_MOST_HELD]:
                self._held[file] = os.open(self.release.path / file, os.O_RDONLY | os.O_CLOEXEC)
        weakref.finalize(self, _close, list(self._held.values()))

    def held(self, file: str) -> bytes | None:
        """What is in a file that was kept open."""
        if file not in self._held:
            return None
        return os.pread(self._held[file], os.fstat(self._held[file]).st_size, 0)


def _close(held: list[int]) -> None:
    for one in held:
        os.close(one)


def _is_past(since: float | None) -> bool:
    """Whether something lasts longer than a replacement takes."""
    return since is not None and time.monotonic() - since > _GRACE


def _misshapen(path: Path) -> StoreError:
    return StoreError(f"{str(path / MANIFEST)!r} is not the manifest of a release. Make the release again.")


def _name(release: Release, levels: Mapping[str, int], keys: Iterable[str]) -> str:
    wanted = set(keys)
    return release.design.select(dict(levels), [key for key in release.design.keys if key in wanted]).name


Check: TypeAlias = Callable[[ServedRelease], object]


class Folder:
    """One release folder: what was opened last, and what is wrong with what is there now."""

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
        self._wrong: dict[str, tuple[Mark, float, float]] = {}  # how a file looks, since when, and when it was read
        served.hold(digests)
        self._served, self._digests, self._manifest = served, digests, mark
        self._away: float | None = None  # since when there is nothing in this place
        self._broken: float | None = None  # since when there is something else that cannot be opened

    def served(self) -> ServedRelease | None:
        """The release; none when it was taken away longer ago than a replacement takes."""
        return None if _is_past(self._away) else self._served

    @property
    def is_stale(self) -> bool:
        """Whether another release is in this place that cannot be read, so that the one before is answered."""
        return self._away is None and _is_past(self._broken)

    def look(self) -> None:
        """Open what is there if it is another release than before."""
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
                    self._next = ended + 10 * (ended - began)  # reading it in vain is never most of the work
                    if not _is_past(self._away):  # what was taken away does not come back
                        self._away = None
                    self._broken = began if self._broken is None else self._broken
                    if _is_past(self._broken):
                        answered = "Nothing" if self._away is not None else "The release before it"
                        self._tell(f"{problem} {answered} is answered until it is restored.", mark)

    def content(self, served: ServedRelease, file: str, digest: str, what: str) -> bytes:
        """A file of the release as it was published."""
        wrong = self._wrong.get(file)
        known = wrong and wrong[0] == _mark(self.path / file) and time.monotonic() - wrong[2] < _READ_AGAIN
        content = None if known else self._read(file, digest)
        if content is not None:
            return content
        self.look()
        if served is not self._served or self._away is not None or self._broken is not None:
            content = served.held(file)  # another release is in its place, or about to be
            if content is not None and hashlib.sha256(content).hexdigest() == digest:
                return content
        wrong = self._wrong.get(file)
        if served is not self._served or self._away is not None or not wrong or not _is_past(wrong[1]):
            raise ChangedError("the release is being replaced, or is damaged.")
        self._tell_damage(file)
        raise DamagedError(f"{what} is damaged on this server. Its operator has to restore it.")

    def _read(self, file: str, digest: str) -> bytes | None:
        """A file that fits its checksum, or nothing; and a note of which it was."""
        mark, now = _mark(self.path / file), time.monotonic()
        content = fitting(self.path / file, digest)
        if self._digests.get(file) == digest:  # otherwise another release was opened meanwhile
            if content is not None:
                self._fits[file] = mark
                self._wrong.pop(file, None)
            else:
                since = self._wrong[file][1] if file in self._wrong else now
                self._wrong[file] = mark, since, now
        return content

    def look_over(self) -> None:
        """Look at every file, and read those that changed. It is never most of the work."""
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
        """The files that do not fit their checksums, as far as they were looked at."""
        return sorted(file for file, (_, since, _) in list(self._wrong.items()) if _is_past(since))

    def _tell_damage(self, file: str) -> None:
        said = f"{file!r} of the release {str(self.path)!r} is missing or was changed"
        self._tell(f"{said}, and is not answered from. Make the release again, or restore it.", self._manifest, file)

    def _tell(self, text: str, *about: object) -> None:
        """A line for the operator, once for the same thing."""
        with self._lock:
            if about not in self._told:
                self._told.add(about)
                _log.error(text)


class Catalog:
    """Release folders, opened and kept open while they are replaced."""

    def __init__(
        self, paths: Sequence[str | Path], check: Check = lambda served: None, table_memory: int = 256 * 2**20
    ) -> None:
        if not paths:
            raise InputError("name at least one release folder to serve.")
        self.paths = [Path(path) for path in paths]
        self.alone = len(paths) == 1
        self._check = check
        self._known_series: tuple[tuple[str, ...], list[ServedRelease]] = ((), [])
        self._languages = ["en"]
        self._memory: Recent[Loaded] = Recent(table_memory)
        self._files: Recent[tuple[bytes, bytes]] = Recent(64 * 2**20)
        names = _identifiers(self.paths)
        self._folders = {
            name: Folder(name, path, self.alone, check) for name, path in zip(names, self.paths, strict=True)
        }
        self._stopped = threading.Event()

    @property
    def releases(self) -> list[ServedRelease]:
        """The releases as they are now. Where all are gone there is nothing to answer."""
        there = [served for folder in self._folders.values() if (served := folder.served())]
        if not there:
            raise _gone()
        return [*self._series(there), *there]

    def _series(self, there: list[ServedRelease]) -> list[ServedRelease]:
        """The series that these releases make; made again when one of them is replaced."""
        mark = tuple(served.digest for served in there)
        if self._known_series[0] != mark:
            self._known_series = mark, self._make_series(there)
        return self._known_series[1]

    def _make_series(self, there: list[ServedRelease]) -> list[ServedRelease]:
        groups: list[list[ServedRelease]] = []
        for served in there:
            served.series = None
            if not population_of(served.release) or not time_of(served.release):
                continue
            for group in groups:
                if all(fits(served.release, one.release) for one in group):
                    group.append(served)
                    break
            else:
                groups.append([served])
        taken, found = [*self._folders], []
        for group in (group for group in groups if len(group) > 1):
            release = Series([served.release for served in group])
            name = _identifiers([Path(population_of(release))], taken)[0]
            taken.append(name)
            try:
                found.append(self._one_series(name, release, group))
            except Exception:  # the waves are served all the same
                _log.exception("the series %r could not be made", name)
        return found

    def _one_series(self, name: str, release: Series, group: list[ServedRelease]) -> ServedRelease:
        members = dict(sorted((time_of(one.release), one) for one in group))
        digest = hashlib.sha256("".join(one.digest for one in members.values()).encode()).hexdigest()
        series = ServedRelease(name, release, digest, ByLanguage(lambda lang: Labels(release.codes, lang)), {}, members)
        for plain, entry in next(reversed(members.values())).entries.items():
            if all(plain in one.entries for one in members.values()):
                table = release.selected(entry.table)
                series.entries[table.name] = TableEntry(f"{name}:{table.name}", series, table, table)
        self._check(series)
        for one in group:
            one.series = name
        return series

    @property
    def languages(self) -> list[str]:
        """The languages in which any of the releases can be told; where all are gone, those of before."""
        with contextlib.suppress(DamagedError):
            self._languages = list(dict.fromkeys(lang for served in self.releases for lang in served.languages))
        return self._languages

    @property
    def missing(self) -> list[str]:
        """The names of the releases that are gone, or cannot be read."""
        return [name for name, folder in self._folders.items() if folder.served() is None]

    @property
    def stale(self) -> list[str]:
        """The names of the releases that were replaced by something that cannot be read, and are answered as before."""
        return [name for name, folder in self._folders.items() if folder.is_stale]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look after the folders, in a thread of its own."""
        thread = threading.Thread(target=self._watch, name="releases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(_GRACE)

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_AGAIN):
            for folder in self._folders.values():
                try:
                    folder.look()
                    folder.look_over()
                except Exception:  # the next look may find it better
                    _log.exception("the release %r could not be looked at", folder.name)

    @property
    def damaged(self) -> list[str]:
        """The files that somebody has to restore, as far as they were looked at."""
        found = [(folder, file) for folder in self._folders.values() for file in folder.damaged]
        return [file if self.alone else f"{folder.name}/{file}" for folder, file in found]

    @property
    def digest(self) -> str:
        """Changes when any release does."""
        return hashlib.sha256("".join(served.digest for served in self.releases).encode()).hexdigest()

    def named(self, name: str) -> ServedRelease | None:
        """The release with this id, if there is one; that it is gone is an error."""
        folder = self._folders.get(name)
        if folder is None:
            return next((served for served in self.releases if served.id == name), None)
        served = folder.served()
        if served is None:
            raise _gone(name)
        return served

    def find(self, name: str) -> TableEntry | None:
        """The table with this id."""
        release, _, table = (next(iter(self._folders)), "", name) if self.alone else name.partition(":")
        served = self.named(release)
        return served.entries.get(table) if served else None

    def load(self, entry: TableEntry) -> Loaded:
        """A table, from memory or from its file."""
        name = (entry.served.digest, entry.table.name)
        kept = self._memory.get(name)
        if kept is None:
            try:
                kept = _loaded(entry, self._frame(entry))
            except (ChangedError, DamagedError):
                raise
            except Exception as problem:  # it fits its checksum, and is not the table that the manifest describes
                _log.error("the table %r cannot be read: %s", entry.id, problem)
                raise DamagedError(
                    f"the table {entry.id!r} is damaged on this server. Its operator has to restore it."
                ) from None
            self._memory.put(name, kept, _size(kept))
        return kept

    def _frame(self, entry: TableEntry) -> pl.DataFrame:
        """The rows of a table: of its file, summed where the table itself is not stored, or of all waves."""
        release = entry.release
        if isinstance(release, Series):
            keys = [key for key in entry.table.keys if key != release.time]
            waves = {time: one.entry(entry.table.levels, keys) for time, one in entry.served.members.items()}
            return release.joined({time: self._frame(wave) for time, wave in waves.items() if wave})
        source, columns = entry.source, list(entry.table.columns)
        content = self._content(entry.served, source.file, source.sha256, f"the table {entry.id!r}")
        frame = release.parsed(source, content)
        if source is entry.table:
            return frame
        summed = frame.group_by(columns).agg(pl.col(MASKED).sum()) if columns else frame.select(pl.col(MASKED).sum())
        return summed.select([*columns, MASKED])

    def _content(self, served: ServedRelease, file: str, digest: str, what: str) -> bytes:
        return self._folders[served.id].content(served, file, digest, what)

    def is_loaded(self, entry: TableEntry) -> bool:
        """Whether a table is in memory."""
        return self._memory.get((entry.served.digest, entry.table.name)) is not None

    def geometry(self, served: ServedRelease, column: str) -> tuple[bytes, bytes, str] | None:
        """The map of a column as GeoJSON, plain and compressed, with its checksum; of a series its last wave's."""
        if served.members:
            served = next(reversed(served.members.values()))
        for entry in served.release.manifest["geometry"]:
            if entry["column"] == column:
                kept = self._files.get(entry["sha256"])
                if kept is None:
                    plain = self._content(served, entry["file"], entry["sha256"], f"the map of {column!r}")
                    kept = plain, gzip.compress(plain, 6, mtime=0)
                    self._files.put(entry["sha256"], kept, len(kept[0]) + len(kept[1]))
                return *kept, entry["sha256"]
        return None


def _gone(name: str = "") -> DamagedError:
    which = f"the release {name!r}" if name else "the release"
    return DamagedError(f"{which} is not on this server now, or cannot be read. Its operator has to restore it.")


def _identifiers(paths: Sequence[Path], taken: Sequence[str] = ()) -> list[str]:
    """A short name for each release, from its folder's."""
    names: list[str] = []
    for path in paths:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", path.resolve().name).strip("-") or "release"
        name, number = plain, 2
        while name in (*names, *taken):
            name, number = f"{plain}-{number}", number + 1
        names.append(name)
    return names


def _mark(path: Path) -> Mark:
    """What changes when a file takes the place of another."""
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
    except Exception:  # a manifest may be of any shape
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
    """The stored tables, and where tables add up all that can be summed from them, each with the stored one."""
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


def _loaded(entry: TableEntry, frame: pl.DataFrame) -> Loaded:
    first = LANGUAGES[0]
    worded = WordedTable(entry.release, entry.table, frame, first, entry.served.labels[first])
    has_blanks = entry.release.has_blanks
    places, counts = worded.places(), frame[MASKED].cast(pl.Float64 if has_blanks else pl.Int64).to_numpy()
    order = np.argsort(places, kind="stable")
    worded.forget_rows()  # they are held as places and counts from here on
    by_language = ByLanguage(lambda lang: worded.translated(lang, entry.served.labels[lang]))
    by_language[first] = worded
    absent = 0 if entry.release.manifest["absent"] == 0 else np.nan
    return Loaded(by_language, places[order], counts[order], absent)


def _size(loaded: Loaded) -> int:
    codes = sum(len(dimension) for dimension in loaded.dimensions)
    return int(loaded.place.nbytes + loaded.count.nbytes + 1000 * codes)
