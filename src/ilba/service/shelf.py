"""The releases that are served: their tables by name, loaded when they are asked for.

A release that is replaced while it is served, as every night, is noticed and opened anew. A file that does not fit the
checksums of its manifest is never answered from.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cube import selections
from ilba.design import MASKED
from ilba.errors import InputError, StoreError
from ilba.release import MANIFEST, PublicTable, Release
from ilba.service.asked import Codes
from ilba.wording import LANGUAGES, Dimension, Labels, WordedTable

IntArray: TypeAlias = npt.NDArray[np.int64]
Kept = TypeVar("Kept")

_LOOK_AGAIN = 1.0  # seconds between two looks at whether a release was replaced
_MOST_PLACES = 2**62


class ChangedError(StoreError):
    """A file of a release is not the one that its manifest lists: it is being replaced, or was damaged."""


class Memory(Generic[Kept]):
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


@dataclass
class Loaded:
    """A table in memory: its axes in each language, and the places and counts of its rows in the complete grid."""

    worded: dict[str, WordedTable]
    place: IntArray
    count: IntArray

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

    def values(self, places: Sequence[Sequence[int]]) -> IntArray:
        """The counts at some places of each axis, the last axis fastest; a cell without a row is 0."""
        wanted = np.zeros(1, dtype=np.int64)
        for dimension, chosen in zip(self.dimensions, places, strict=True):
            wanted = (wanted[:, None] * len(dimension) + np.asarray(chosen, dtype=np.int64)[None, :]).ravel()
        if not len(self.place):
            return np.zeros(len(wanted), dtype=np.int64)
        found = np.minimum(np.searchsorted(self.place, wanted), len(self.place) - 1)
        return np.where(self.place[found] == wanted, self.count[found], 0)


@dataclass(frozen=True)
class Offer:
    """A table that can be asked for: stored in the release, or summed from a stored one where tables add up."""

    id: str
    served: Served
    table: PublicTable
    source: PublicTable

    @property
    def release(self) -> Release:
        """The release that it belongs to."""
        return self.served.release


@dataclass
class Served:
    """One release that is served."""

    id: str
    release: Release
    digest: str
    labels: dict[str, Labels]
    offers: dict[str, Offer] = field(default_factory=dict)

    def offer(self, levels: Mapping[str, int], keys: Iterable[str]) -> Offer | None:
        """The table at these levels by these keys, if there is one."""
        return self.offers.get(_name(self.release, levels, keys))

    def size(self, column: str) -> int:
        """How many codes of a variable were published."""
        return int(self._sizes.get(column, 0))

    def axes(self, table: PublicTable) -> list[str]:
        """The columns that name the axes of a table: the finest of each hierarchy, then the keys."""
        hierarchies = self.release.design.hierarchies
        return [*(h.columns[table.levels[h.name] - 1] for h in hierarchies if table.levels[h.name]), *table.keys]

    def cells(self, table: PublicTable) -> int:
        """How many cells the complete grid of a table has by the code lists."""
        return math.prod(max(1, self.size(column)) for column in self.axes(table))

    def __post_init__(self) -> None:
        codes = self.release.codes.drop_nulls("code").select("variable", "code", "parent").unique()
        self._sizes = dict(codes.group_by("variable").len().iter_rows())


def _name(release: Release, levels: Mapping[str, int], keys: Iterable[str]) -> str:
    wanted = set(keys)
    return release.design.select(dict(levels), [key for key in release.design.keys if key in wanted]).name


class Shelf:
    """Release folders, opened and kept open while they are replaced."""

    def __init__(self, paths: Sequence[str | Path], table_memory: int = 256 * 2**20) -> None:
        if not paths:
            raise InputError("name at least one release folder to serve.")
        self.paths = [Path(path) for path in paths]
        self._memory: Memory[Loaded] = Memory(table_memory)
        self._files: Memory[tuple[bytes, bytes]] = Memory(64 * 2**20)
        self._lock = threading.RLock()
        self._opened: list[Served] = []
        self._marks: list[tuple[int, int, int]] = []
        self._looked = 0.0
        self._open()

    def _open(self) -> None:
        names = _identifiers(self.paths)
        marks = [_mark(path) for path in self.paths]
        opened = [_opened(name, path, alone=len(names) == 1) for name, path in zip(names, self.paths, strict=True)]
        self._opened, self._marks, self._looked = opened, marks, time.monotonic()

    @property
    def releases(self) -> list[Served]:
        """The releases as they are now."""
        if time.monotonic() - self._looked > _LOOK_AGAIN:
            with self._lock:
                self._looked = time.monotonic()
                if [_mark(path) for path in self.paths] != self._marks:
                    self._open()
        return self._opened

    def look_again(self) -> None:
        """Open everything anew: something was replaced in the middle of an answer."""
        with self._lock:
            self._open()

    @property
    def digest(self) -> str:
        """Changes when any release does."""
        return hashlib.sha256("".join(served.digest for served in self.releases).encode()).hexdigest()

    def find(self, name: str) -> Offer | None:
        """The table with this id."""
        for served in self.releases:
            prefix = "" if len(self._opened) == 1 else f"{served.id}:"
            if name.startswith(prefix) and (offer := served.offers.get(name.removeprefix(prefix))):
                return offer
        return None

    def load(self, offer: Offer) -> Loaded:
        """A table, from memory or from its file."""
        name = (offer.served.digest, offer.table.name)
        kept = self._memory.get(name)
        if kept is None:
            kept = _loaded(offer)
            self._memory.put(name, kept, _size(kept))
        return kept

    def is_loaded(self, offer: Offer) -> bool:
        """Whether a table is in memory."""
        return self._memory.get((offer.served.digest, offer.table.name)) is not None

    def geometry(self, served: Served, column: str) -> tuple[bytes, bytes, str] | None:
        """The map of a column as GeoJSON, plain and compressed, with its checksum."""
        for entry in served.release.manifest["geometry"]:
            if entry["column"] == column:
                kept = self._files.get(entry["sha256"])
                if kept is None:
                    plain = _content(served.release, entry["file"], entry["sha256"])
                    kept = plain, gzip.compress(plain, 6, mtime=0)
                    self._files.put(entry["sha256"], kept, len(kept[0]) + len(kept[1]))
                return *kept, entry["sha256"]
        return None


def _identifiers(paths: Sequence[Path]) -> list[str]:
    """A short name for each release, from its folder's."""
    names: list[str] = []
    for path in paths:
        plain = re.sub(r"[^A-Za-z0-9_-]+", "-", path.resolve().name).strip("-") or "release"
        name, number = plain, 2
        while name in names:
            name, number = f"{plain}-{number}", number + 1
        names.append(name)
    return names


def _mark(path: Path) -> tuple[int, int, int]:
    """What changes when a release takes the place of another."""
    try:
        told = (path / MANIFEST).stat()
    except OSError:
        return 0, 0, 0
    return told.st_ino, told.st_mtime_ns, told.st_size


def _opened(name: str, path: Path, alone: bool) -> Served:
    release = Release(path)
    release.verify()
    digest = hashlib.sha256(json.dumps(release.manifest, sort_keys=True).encode()).hexdigest()
    served = Served(name, release, digest, {lang: Labels(release.codes, lang) for lang in LANGUAGES})
    prefix = "" if alone else f"{name}:"
    for table, source in _offered(served):
        served.offers[table.name] = Offer(prefix + table.name, served, table, source)
    if not served.offers:
        raise StoreError(f"{str(path)!r} has no table that could be served.")
    return served


def _offered(served: Served) -> Iterator[tuple[PublicTable, PublicTable]]:
    """The stored tables, and where tables add up all that can be summed from them, each with the stored one."""
    release = served.release
    for table in release.tables.values():
        if served.cells(table) < _MOST_PLACES:
            yield table, table
    for wanted in selections(release.design) if release.additive else ():
        levels = {h.name: level for h, level in zip(release.design.hierarchies, wanted.levels, strict=True)}
        finer = [one for one in release.tables.values() if _is_finer(one, levels, wanted.keys)]
        if finer and wanted.name not in release.tables:
            source = min(finer, key=lambda one: one.rows)
            table = PublicTable(wanted.name, levels, wanted.keys, wanted.columns, source.rows, source.sha256)
            if served.cells(table) < _MOST_PLACES:
                yield table, source


def _is_finer(table: PublicTable, levels: Mapping[str, int], keys: Sequence[str]) -> bool:
    return {*keys} <= {*table.keys} and all(table.levels[name] >= level for name, level in levels.items())


def _content(release: Release, file: str, digest: str) -> bytes:
    try:
        content = (release.path / file).read_bytes()
    except OSError:
        raise ChangedError("the release is being replaced, or is damaged.") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise ChangedError("the release is being replaced, or is damaged.")
    return content


def _loaded(offer: Offer) -> Loaded:
    frame = pl.read_parquet(io.BytesIO(_content(offer.release, offer.source.file, offer.source.sha256)))
    if offer.source is not offer.table:
        columns = list(offer.table.columns)
        summed = frame.group_by(columns).agg(pl.col(MASKED).sum()) if columns else frame.select(pl.col(MASKED).sum())
        frame = summed.select([*columns, MASKED])
    first = LANGUAGES[0]
    worded = WordedTable(offer.release, offer.table, frame, first, offer.served.labels[first])
    places, counts = worded.places(), frame[MASKED].to_numpy()
    order = np.argsort(places, kind="stable")
    worded.forget_rows()  # they are held as places and counts from here on
    others = {lang: worded.translated(lang, offer.served.labels[lang]) for lang in LANGUAGES if lang != first}
    return Loaded({first: worded, **others}, places[order], counts[order])


def _size(loaded: Loaded) -> int:
    codes = sum(len(dimension) for dimension in loaded.dimensions)
    return int(loaded.place.nbytes + loaded.count.nbytes + 1000 * codes)
