"""The releases that are served: their tables by name, loaded on demand.

A thread checks the folders once a second; no request waits for it. A replaced release (for example every night) is
opened anew. If the replacement cannot be read, the old release is still answered from files that are held open. A
removed release is no longer answered, nor is a file that does not match its checksum.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.design.design import MASKED
from ilba.errors import InputError, listing
from ilba.output.series import Series, population_of, time_of, unlike
from ilba.output.wording import LANGUAGES, Dimension, Labels, Values, WordedTable
from ilba.output.wording import nonexistent as missing_at
from ilba.service.asked import Codes, UnknownError
from ilba.service.folder import (
    GRACE,
    ByLanguage,
    ChangedError,
    Check,
    DamagedError,
    Folder,
    ServedRelease,
    TableEntry,
)

IntArray: TypeAlias = npt.NDArray[np.int64]
Kept = TypeVar("Kept")

_LOOK_AGAIN = 1.0  # seconds between two checks for a replaced release
_log = logging.getLogger("ilba.service")


class Recent(Generic[Kept]):
    """A cache of recent results, up to a number of bytes."""

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
        """Keep a value; the least recently used ones are dropped."""
        if size > self._most:
            return
        with self._lock:
            if name in self._kept:
                self._held -= self._kept.pop(name)[1]
            self._kept[name] = (value, size)
            self._held += size
            while self._held > self._most:
                self._held -= self._kept.popitem(last=False)[1][1]


@dataclass
class Loaded:
    """A table in memory: its axes in each language, and the places and counts of its rows in the complete grid."""

    worded: ByLanguage[WordedTable]
    place: IntArray
    count: npt.NDArray[Any]
    absent: float = 0
    """the count of a cell without a row: 0, or NaN if it is left blank"""

    @property
    def dimensions(self) -> list[Dimension]:
        """The axes; their codes are the same in every language."""
        return self.worded[LANGUAGES[0]].dimensions

    @cached_property
    def codes(self) -> list[Codes]:
        """The codes of each axis."""
        return [Codes(dimension.name, dimension.codes) for dimension in self.dimensions]

    @cached_property
    def index(self) -> list[dict[tuple[str | None, ...], int]]:
        """The place of each path on its axis."""
        return [{path: place for place, path in enumerate(one.paths.iter_rows())} for one in self.dimensions]

    def values(self, places: Sequence[Sequence[int]], nonexistent: float = np.nan) -> Values:
        """The counts at some places of each axis, the last axis fastest; a cell without a row is 0.

        Blanks are NaN. Cells without a row are also NaN if the release says that they are blank. `nonexistent` stands
        for the count of what did not exist at its time.
        """
        wanted = np.zeros(1, dtype=np.int64)
        for dimension, chosen in zip(self.dimensions, places, strict=True):
            wanted = (wanted[:, None] * len(dimension) + np.asarray(chosen, dtype=np.int64)[None, :]).ravel()
        if not len(self.place):
            empty: Values = np.full(len(wanted), self.absent)
            return empty
        found = np.minimum(np.searchsorted(self.place, wanted), len(self.place) - 1)
        values: Values = np.where(self.place[found] == wanted, self.count[found], self.absent)
        gone = missing_at([one.some(list(some)) for one, some in zip(self.dimensions, places, strict=True)])
        if gone is not None and gone.any():
            values = np.where(gone, nonexistent, values)
        return values if values.dtype.kind == "f" else values.astype(np.int64, copy=False)


class Catalog:
    """Release folders, kept open while they are replaced."""

    def __init__(
        self, paths: Sequence[str | Path], check: Check = lambda served: None, table_memory: int = 512 * 2**20
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
        """The current releases; an error if all are gone."""
        there = [served for folder in self._folders.values() if (served := folder.served())]
        if not there:
            raise _gone()
        return [*self._series(there), *there]

    def _series(self, there: list[ServedRelease]) -> list[ServedRelease]:
        """The series of these releases; made again when one of them is replaced."""
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
                if not any(unlike(one.release, served.release) for one in group):
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
            except Exception:  # the waves are still served
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
        """The languages of any of the releases; if all are gone, the last known ones."""
        with contextlib.suppress(DamagedError):
            self._languages = list(dict.fromkeys(lang for served in self.releases for lang in served.languages))
        return self._languages

    @property
    def missing(self) -> list[str]:
        """The names of the releases that are gone, or cannot be read."""
        return [name for name, folder in self._folders.items() if folder.served() is None]

    @property
    def stale(self) -> list[str]:
        """The names of the releases with an unreadable replacement, which are answered from the old files."""
        return [name for name, folder in self._folders.items() if folder.is_stale]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Watch the folders, in a separate thread."""
        thread = threading.Thread(target=self._watch, name="releases", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()
            thread.join(GRACE)

    def _watch(self) -> None:
        while not self._stopped.wait(_LOOK_AGAIN):
            for folder in self._folders.values():
                try:
                    folder.look()
                    folder.look_over()
                except Exception:  # the next check may succeed
                    _log.exception("the release %r could not be looked at", folder.name)

    @property
    def damaged(self) -> list[str]:
        """The damaged files that were found so far."""
        found = [(folder, file) for folder in self._folders.values() for file in folder.damaged]
        return [file if self.alone else f"{folder.name}/{file}" for folder, file in found]

    @property
    def digest(self) -> str:
        """A digest that changes when any release changes."""
        return hashlib.sha256("".join(served.digest for served in self.releases).encode()).hexdigest()

    def named(self, name: str) -> ServedRelease | None:
        """The release with this id, if there is one; an error if it is gone."""
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

    def last(self, table: str) -> TableEntry | None:
        """The table of this name in the last release that has one."""
        found = [served.entries.get(table) for served in reversed(self.releases) if not served.members]
        return next((entry for entry in found if entry), None)

    def load(self, entry: TableEntry) -> Loaded:
        """A table, from memory or from its file."""
        name = (entry.served.digest, entry.table.name)
        kept = self._memory.get(name)
        if kept is None:
            try:
                kept = _loaded(entry, self._frame(entry))
            except (ChangedError, DamagedError):
                raise
            except Exception as problem:  # the checksum matches, but it is not the table of the manifest
                _log.error("the table %r cannot be read: %s", entry.id, problem)
                raise DamagedError(
                    f"the table {entry.id!r} is damaged on this server. Its operator has to restore it."
                ) from None
            self._memory.put(name, kept, _size(kept))
        return kept

    def _frame(self, entry: TableEntry) -> pl.DataFrame:
        """The rows of a table: from its file, summed if the table is not stored, or from all waves."""
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

    def geometry(self, served: ServedRelease, column: str, digest: str) -> tuple[bytes, bytes]:
        """The map of a column as GeoJSON, plain and compressed; for a series, that of the last wave."""
        kept = self._files.get(digest)
        if kept is None:
            content = self.map_content(served, column)
            kept = content, gzip.compress(content, 6, mtime=0)
            self._files.put(digest, kept, len(kept[0]) + len(kept[1]))
        return kept

    def drawn_by(self, served: ServedRelease, column: str, time: str) -> ServedRelease:
        """The release with the map of a column at a time: the wave of this time, otherwise what is served."""
        if time and time not in served.times:
            raise UnknownError(f"there is no time {time[:60]!r}. It is {listing(served.times)}.")
        wave = served.members.get(time)
        return wave if wave and self.map_digest(wave, column) else served

    def map_digest(self, served: ServedRelease, column: str) -> str | None:
        """The checksum of the map of a column; None if there is no map."""
        found = _map_entry(served, column)
        return None if found is None else str(found[1]["sha256"])

    def map_content(self, served: ServedRelease, column: str) -> bytes:
        """The map of a column as published; it is not cached, because national maps are large."""
        found = _map_entry(served, column)
        if found is None:
            raise InputError(f"there is no map of {column!r}.")
        owner, entry = found
        return self._content(owner, entry["file"], entry["sha256"], f"the map of {column!r}")


def _map_entry(served: ServedRelease, column: str) -> tuple[ServedRelease, dict[str, Any]] | None:
    if served.members:
        served = next(reversed(served.members.values()))
    maps = served.release.manifest["geometry"]
    return next(((served, entry) for entry in maps if entry["column"] == column), None)


def _gone(name: str = "") -> DamagedError:
    which = f"the release {name!r}" if name else "the release"
    return DamagedError(f"{which} is not on this server now, or cannot be read. Its operator has to restore it.")


def _identifiers(paths: Sequence[Path], taken: Sequence[str] = ()) -> list[str]:
    """A short name for each release, from the name of its folder."""
    names: list[str] = []
    for path in paths:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", path.resolve().name).strip("-") or "release"
        name, number = plain, 2
        while name in (*names, *taken):
            name, number = f"{plain}-{number}", number + 1
        names.append(name)
    return names


def _loaded(entry: TableEntry, frame: pl.DataFrame) -> Loaded:
    first = LANGUAGES[0]
    worded = WordedTable(entry.release, entry.table, frame, first, entry.served.labels[first])
    has_blanks = entry.release.has_blanks
    places, counts = worded.places(), frame[MASKED].cast(pl.Float64 if has_blanks else pl.Int64).to_numpy()
    if not has_blanks and len(counts) and int(counts.max()) < 2**31:
        counts = counts.astype(np.int32)  # the tables of a nation have millions of rows
    if len(places) > 1 and not bool((places[1:] > places[:-1]).all()):
        order = np.argsort(places, kind="stable")
        places, counts = places[order], counts[order]
    worded.forget_rows()  # from here on they are kept as places and counts
    by_language = ByLanguage(lambda lang: worded.translated(lang, entry.served.labels[lang]))
    by_language[first] = worded
    return Loaded(by_language, places, counts, 0 if entry.release.manifest["absent"] == 0 else np.nan)


def _size(loaded: Loaded) -> int:
    codes = sum(len(dimension) for dimension in loaded.dimensions)
    return int(loaded.place.nbytes + loaded.count.nbytes + 1000 * codes)
