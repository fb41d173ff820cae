"""An opened release: what a reader of the folder finds in it. Public."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.codes import CodeLists
from ilba.design import Design, Level, Names, file_name
from ilba.errors import InputError, StoreError, listing, nearest, some
from ilba.labels import listed_paths

Path_: TypeAlias = str | os.PathLike[str]

FORMAT = 2
MANIFEST = "release.json"
CODES = "codes.csv"


@dataclass(frozen=True)
class PublicTable:
    """One table of a release: what it counts and where it is. It has no room for more."""

    name: str
    levels: Mapping[str, int]
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    rows: int
    sha256: str

    @property
    def file(self) -> str:
        """Its file inside the release."""
        return f"tables/{file_name(self.name)}.parquet"


class Release:
    """A release folder, opened for reading. Public."""

    def __init__(self, path: Path_) -> None:
        self.path = Path(path)
        file = self.path / MANIFEST
        try:
            manifest = json.loads(file.read_text(encoding="utf-8"))
            if manifest["format"] > FORMAT:
                raise StoreError(f"{str(self.path)!r} is a release of a newer format. Type: pip install --upgrade ilba")
            self.manifest: dict[str, Any] = manifest
            self.design = Design.from_json(manifest)
            self.tables = {
                table["name"]: PublicTable(
                    table["name"],
                    table["levels"],
                    tuple(table["keys"]),
                    tuple(table["columns"]),
                    table["rows"],
                    table["sha256"],
                )
                for table in manifest["tables"]
            }
        except FileNotFoundError:
            if not self.path.exists():
                near = nearest(self.path.name, (p.name for p in self.path.parent.glob("*") if (p / MANIFEST).exists()))
                raise StoreError(f"there is no release {str(self.path)!r}.{near}") from None
            raise StoreError(f"{str(self.path)!r} is not a release: it holds no {MANIFEST}.") from None
        except NotADirectoryError:
            raise StoreError(
                f"{str(self.path)!r} is a file, not a release. A store becomes one with `ilba release`."
            ) from None
        except (OSError, ValueError, KeyError, TypeError):
            raise StoreError(f"{str(file)!r} is damaged. Make the release again.") from None

    @property
    def additive(self) -> bool:
        """Whether tables add up, so that any coarser table may be summed from a finer one."""
        return bool(self.manifest["additive"])

    def find(self, level: Level = 0, key: Names | None = ()) -> PublicTable:
        """The table at a level by some keys, in whatever order."""
        selection = self.design.select(level, key)
        ordered = tuple(name for name in self.design.keys if name in selection.keys)
        levels = {h.name: n for h, n in zip(self.design.hierarchies, selection.levels, strict=True)}
        name = self.design.select(levels, ordered).name
        if name not in self.tables:
            raise InputError(f"this release has no table {name!r}. It has {listing(self.tables)}.")
        return self.tables[name]

    def table(self, name: str) -> pl.DataFrame:
        """The labels and masked counts of a table by its name."""
        if name not in self.tables:
            raise InputError(f"this release has no table {name!r}.{nearest(name, self.tables)}")
        return pl.read_parquet(self.path / self.tables[name].file)

    @cached_property
    def codes(self) -> pl.DataFrame:
        """The code lists: variable, code, label_en, label_ko, parent; a row without code names the variable."""
        return pl.read_csv(self.path / CODES, infer_schema=False)

    def code_lists(self) -> CodeLists:
        """The published code lists in the types of the tables: all that an outsider knows of which cells there are."""
        types: dict[str, pl.DataType] = {}
        for table in self.tables.values():
            types |= pl.read_parquet_schema(self.path / table.file)
        frames = []
        for columns in CodeLists.dimensions(self.design):
            kinds: Any = {column: types.get(column, pl.String()) for column in columns}
            listed = listed_paths(self.codes, columns).select(columns).cast(kinds, strict=False)
            frames.append(pl.concat([listed, *self._without_code(columns)]).unique())
        for columns, frame in zip(CodeLists.dimensions(self.design), frames, strict=True):
            if frame.is_empty():
                raise InputError(f"the code list of this release does not name {listing(columns)}. Give the store too.")
        return CodeLists.of(self.design, frames)

    def _without_code(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The paths in the tables with a label that is missing, which a code list cannot name."""
        for table in self.tables.values():
            if set(columns) <= set(table.columns):
                rows = pl.scan_parquet(self.path / table.file).select(columns)
                yield rows.filter(pl.any_horizontal(pl.all().is_null())).unique().sort(columns).collect()

    def geometry(self, column: str) -> dict[str, Any] | None:
        """The map of the areas in a column as GeoJSON, where the release has one."""
        for entry in self.manifest["geometry"]:
            if entry["column"] == column:
                found: dict[str, Any] = json.loads((self.path / entry["file"]).read_text(encoding="utf-8"))
                return found
        return None

    def verify(self) -> None:
        """Check every file against its checksum in the manifest, and that nothing else lies in the folder."""
        listed = {self.manifest["codes"]["file"]: self.manifest["codes"]["sha256"]}
        listed |= {entry["file"]: entry["sha256"] for entry in self.manifest["geometry"]}
        listed |= {table.file: table.sha256 for table in self.tables.values()}
        for name, expected in listed.items():
            file = self.path / name
            if not file.is_file() or digest(file) != expected:
                raise StoreError(f"{name!r} of the release {str(self.path)!r} is missing or was changed.")
        there = {file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file()}
        extra = there - set(listed) - {MANIFEST}
        if extra:
            raise StoreError(f"{str(self.path)!r} holds files of no release: {listing(sorted(extra))}.")

    def __repr__(self) -> str:
        told = self.manifest
        return f"Release({told['title']!r}, {some(len(self.tables), 'table')}, {told['method']}, K={told['threshold']})"


def digest(file: Path) -> str:
    """The checksum of a file as the manifest spells it."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
