"""An opened release: what a reader of the folder finds in it. Public."""

from __future__ import annotations

import hashlib
import io
import json
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.cells.codes import CodeLists
from ilba.data.codelists import CODE_COLUMNS, listed_paths
from ilba.design.design import MASKED, Design, Level, Names, Selection, file_name
from ilba.errors import InputError, StoreError, listing, nearest, some
from ilba.release.manifest import NewerFormat, load
from ilba.tables.store import UNREADABLE

Path_: TypeAlias = str | os.PathLike[str]

MANIFEST = "release.json"
CODES = "codes.csv"


@dataclass(frozen=True)
class PublicTable:
    """One table of a release: what it counts and where it is. It has no room for more."""

    selection: Selection
    rows: int
    sha256: str

    @property
    def name(self) -> str:
        """Its name, such as "LA3.gender.age"."""
        return self.selection.name

    @property
    def levels(self) -> dict[str, int]:
        """Its level in each hierarchy, by the names of the hierarchies."""
        return self.selection.by_name

    @property
    def keys(self) -> tuple[str, ...]:
        """Its keys."""
        return self.selection.keys

    @property
    def columns(self) -> tuple[str, ...]:
        """Its label columns."""
        return self.selection.columns

    @property
    def file(self) -> str:
        """Its file inside the release."""
        return f"tables/{file_name(self.name)}.parquet"


class Release:
    """A release folder, opened for reading. Public.

    Everything is read through `content`: the bytes that are used are the bytes that were checked.
    """

    def __init__(self, path: Path_) -> None:
        self.path = Path(path)
        file = self.path / MANIFEST
        try:
            self.manifest: dict[str, Any] = load(file.read_bytes())
        except FileNotFoundError:
            if not self.path.exists():
                near = nearest(self.path.name, (p.name for p in self.path.parent.glob("*") if (p / MANIFEST).exists()))
                raise StoreError(f"there is no release {str(self.path)!r}.{near}") from None
            raise StoreError(f"{str(self.path)!r} is not a release: it holds no {MANIFEST}.") from None
        except NotADirectoryError:
            raise StoreError(
                f"{str(self.path)!r} is a file, not a release. A store becomes one with `ilba release`."
            ) from None
        except NewerFormat:
            raise StoreError(
                f"{str(self.path)!r} is a release of a newer format. Type: pip install --upgrade ilba"
            ) from None
        except OSError as problem:
            raise StoreError(f"{str(file)!r} is damaged ({problem.strerror}). Make the release again.") from None
        except ValueError as problem:
            raise StoreError(f"{str(file)!r} is damaged ({problem}). Make the release again.") from None
        self.design = Design.from_json(self.manifest)
        self.tables = {
            table["name"]: PublicTable(
                self.design.select(table["levels"], table["keys"]), table["rows"], table["sha256"]
            )
            for table in self.manifest["tables"]
        }
        self.digests: dict[str, str] = {
            entry["file"]: entry["sha256"]
            for entry in (self.manifest["codes"], *self.manifest["geometry"], *self.manifest["tables"])
        }
        """the checksum of each file of the release, the manifest itself left out"""

    @property
    def additive(self) -> bool:
        """Whether tables add up, so that any coarser table may be summed from a finer one."""
        return bool(self.manifest["additive"])

    def find(self, level: Level = 0, key: Names | None = ()) -> PublicTable:
        """The table at a level by some keys, in whatever order."""
        selection = self.design.select(level, key)
        name = self.design.at(selection.levels, selection.keys).name
        if name not in self.tables:
            raise InputError(f"this release has no table {name!r}. It has {listing(self.tables)}.")
        return self.tables[name]

    def content(self, file: str) -> bytes:
        """The bytes of a file of the release, after checking them against the manifest."""
        found = fitting(self.path / file, self.digests[file])
        if found is None:
            raise self._changed(file)
        return found

    def _changed(self, file: str) -> StoreError:
        return StoreError(f"{file!r} of the release {str(self.path)!r} is missing or was changed.")

    def table(self, name: str) -> pl.DataFrame:
        """The labels and masked counts of a table by its name."""
        if name not in self.tables:
            raise InputError(f"this release has no table {name!r}.{nearest(name, self.tables)}")
        return self.parsed(self.tables[name], self.content(self.tables[name].file))

    def parsed(self, table: PublicTable, content: bytes) -> pl.DataFrame:
        """The labels and masked counts of a table from the checked bytes of its file."""
        try:
            frame = pl.read_parquet(io.BytesIO(content))
            if frame.columns != [*table.columns, MASKED] or frame.height != table.rows:
                raise ValueError
            if not frame[MASKED].dtype.is_integer() or frame[MASKED].null_count():
                raise ValueError
            return frame
        except UNREADABLE:  # a manifest that lists the checksum of something else
            raise self._changed(table.file) from None

    @cached_property
    def codes(self) -> pl.DataFrame:
        """The code lists: variable, code, label_en, label_ko, parent; a row without code names the variable."""
        try:
            return pl.read_csv(io.BytesIO(self.content(CODES)), infer_schema=False).select(CODE_COLUMNS)
        except pl.exceptions.PolarsError:
            raise self._changed(CODES) from None

    def code_lists(self) -> CodeLists:
        """The published code lists in the types of the tables: all that an outsider knows of which cells there are."""
        types: dict[str, pl.DataType] = {}
        dimensions = CodeLists.dimensions(self.design)
        unnamed: list[list[pl.DataFrame]] = [[] for _ in dimensions]
        for table in self.tables.values():
            frame = self.table(table.name)
            types |= frame.schema
            # A code list cannot name a label that is missing: such paths stand only in the tables.
            for columns, found in zip(dimensions, unnamed, strict=True):
                if set(columns) <= set(table.columns):
                    rows = frame.select(columns).filter(pl.any_horizontal(pl.all().is_null()))
                    found.append(rows.unique().sort(columns))
        frames = []
        for columns, found in zip(dimensions, unnamed, strict=True):
            kinds: Any = {column: types.get(column, pl.String()) for column in columns}
            listed = listed_paths(self.codes, columns).select(columns).cast(kinds, strict=False)
            frames.append(pl.concat([listed, *found]).unique())
            if frames[-1].is_empty():
                raise InputError(f"the code list of this release does not name {listing(columns)}. Give the store too.")
        return CodeLists.of(self.design, frames)

    def geometry(self, column: str) -> dict[str, Any] | None:
        """The map of the areas in a column as GeoJSON, where the release has one."""
        for entry in self.manifest["geometry"]:
            if entry["column"] == column:
                try:
                    found: dict[str, Any] = json.loads(self.content(entry["file"]))
                except (ValueError, RecursionError):
                    raise self._changed(entry["file"]) from None
                return found
        return None

    def verify(self) -> None:
        """Check every file against its checksum in the manifest, and that nothing else lies in the folder."""
        for file, expected in self.digests.items():
            if not (self.path / file).is_file() or digest(self.path / file) != expected:
                raise self._changed(file)
        there = {file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file()}
        extra = there - set(self.digests) - {MANIFEST}
        if extra:
            raise StoreError(f"{str(self.path)!r} holds files of no release: {listing(sorted(extra))}.")

    def __repr__(self) -> str:
        told = self.manifest
        return f"Release({told['title']!r}, {some(len(self.tables), 'table')}, {told['method']}, K={told['threshold']})"


def fitting(file: Path, sha256: str) -> bytes | None:
    """The bytes of a file where they fit their checksum, or nothing."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def digest(file: Path) -> str:
    """The checksum of a file as the manifest spells it."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
