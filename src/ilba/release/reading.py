"""An opened release, as a reader of the folder sees it. Public."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import polars as pl

from ilba import notebook
from ilba.cells.codes import CodeLists
from ilba.data.codelists import code_columns, listed_paths, worded
from ilba.design.design import MASKED, Design, Level, Names, Selection, file_name, shown_name
from ilba.design.tables import wanted_tables
from ilba.errors import InputError, StoreError, listing, nearest, some
from ilba.release.manifest import NewerFormat, load
from ilba.tables.store import UNREADABLE

Path_: TypeAlias = str | os.PathLike[str]

MANIFEST = "release.json"
CODES = "codes.csv"


@dataclass(frozen=True)
class PublicTable:
    """One table of a release: what it counts and where it is.

    Parameters
    ----------
    selection : Selection
        The selection of the table: its levels, keys, columns and name.
    rows : int
        The number of its rows.
    sha256 : str
        The checksum of its file.
    """

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

    Everything is read through `content`, so only checked bytes are used.

    Parameters
    ----------
    path : path
        The folder.

    Raises
    ------
    StoreError
        The folder is not a release, is damaged, or was written by a newer version.
    """

    nonexistent: Mapping[str, pl.DataFrame] = MappingProxyType({})
    """by time, the codes that did not exist then; only a series has times"""

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
        """the checksum of each file of the release, except the manifest"""

    @property
    def additive(self) -> bool:
        """Whether tables add up, so that any coarser table is a sum of a finer one."""
        return bool(self.manifest["additive"])

    @property
    def noise(self) -> float:
        """The share of small cells whose target was shifted by one when masks were chosen jointly; otherwise 0."""
        told = self.manifest.get("parameters", {}) if self.manifest["method"] == "controlled" else {}
        return float(told.get("noise", 0))

    @property
    def move(self) -> int:
        """How far large counts may have moved when masks were chosen jointly: as declared."""
        return int(self.manifest.get("parameters", {}).get("move", 0))

    @property
    def has_blanks(self) -> bool:
        """Whether counts may be left blank: as a null N_masked, or as a missing row."""
        return bool(self.manifest.get("blanks")) or self.manifest["absent"] is None

    def find(self, level: Level = 0, key: Names | None = ()) -> PublicTable:
        """Find the table at a level by some keys, in any order.

        Parameters
        ----------
        level : int, str or dict, default 0
            A number from 1 (the coarsest), the name of a column, or 0 for no level. With several hierarchies the name
            of a column, or a mapping from their names such as {"area": 2, "industry": "section"}.
        key : str or sequence of str, default ()
            The keys of the table, in any order.

        Returns
        -------
        PublicTable
            The table; `table(found.name)` reads its rows.

        Raises
        ------
        InputError
            The release has no such table.
        """
        selection = self.design.select(level, key)
        name = self.design.at(selection.levels, selection.keys).name
        if name not in self.tables:
            shown = listing(map(shown_name, self.tables))
            raise InputError(f"this release has no table {shown_name(name)!r}. It has {shown}.")
        return self.tables[name]

    def named(self, name: str) -> PublicTable:
        """Find a table by its name.

        Parameters
        ----------
        name : str
            The name as in `tables`, or with its columns as they are, such as "Δήμος.Φύλο".

        Returns
        -------
        PublicTable
            The table.

        Raises
        ------
        InputError
            The release has no table of this name.
        """
        if name in self.tables:
            return self.tables[name]
        with contextlib.suppress(InputError):  # a part of it is no column
            [wanted] = wanted_tables(self.design, [name])
            if wanted.name in self.tables:
                return self.tables[wanted.name]
        shown = shown_name(str(name))
        near = nearest(shown, map(shown_name, self.tables))
        raise InputError(f"this {type(self).__name__.lower()} has no table {shown!r}.{near}")

    def content(self, file: str) -> bytes:
        """Read a file of the release, after checking it against the manifest.

        Parameters
        ----------
        file : str
            The path inside the folder, as in `digests`.

        Returns
        -------
        bytes
            The checked bytes.

        Raises
        ------
        StoreError
            The file is missing or was changed.
        """
        found = fitting(self.path / file, self.digests[file])
        if found is None:
            raise self._changed(file)
        return found

    def _changed(self, file: str) -> StoreError:
        return StoreError(f"{file!r} of the release {str(self.path)!r} is missing or was changed.")

    def table(self, name: str) -> pl.DataFrame:
        """Read a table by its name.

        Parameters
        ----------
        name : str
            The name, such as "LA3.gender"; `tables` lists them, and `named` finds it.

        Returns
        -------
        polars.DataFrame
            Labels and N_masked. N_masked is null for a blank.

        Raises
        ------
        InputError
            The release has no table of this name.
        StoreError
            The file of the table is missing or was changed.
        """
        found = self.named(name)
        return self.parsed(found, self.content(found.file))

    def parsed(self, table: PublicTable, content: bytes) -> pl.DataFrame:
        """Read a table from the checked bytes of its file.

        Parameters
        ----------
        table : PublicTable
            The table.
        content : bytes
            The result of `content` for its file.

        Returns
        -------
        polars.DataFrame
            Labels and N_masked.

        Raises
        ------
        StoreError
            The bytes are not this table.
        """
        try:
            frame = pl.read_parquet(io.BytesIO(content))
            if frame.columns != [*table.columns, MASKED] or frame.height != table.rows:
                raise ValueError
            if not frame[MASKED].dtype.is_integer() or (frame[MASKED].null_count() and not self.has_blanks):
                raise ValueError
            return frame
        except UNREADABLE:  # the manifest lists the checksum of something else
            raise self._changed(table.file) from None

    @cached_property
    def codes(self) -> pl.DataFrame:
        """The code lists: variable, code, label_en, label_ko and further languages, parent.

        A row without code names the variable.
        """
        try:
            codes = pl.read_csv(io.BytesIO(self.content(CODES)), infer_schema=False)
            return codes.select(code_columns(codes.columns))
        except pl.exceptions.PolarsError:
            raise self._changed(CODES) from None

    def code_lists(self) -> CodeLists:
        """Give the published code lists, in the types of the tables.

        They are all that an outsider knows about the existing cells. Codes of a column that no table shows may be
        unknown.

        Returns
        -------
        CodeLists
            The code lists with the design, for `PublishedTables.from_frames`.
        """
        types: dict[str, Any] = {}
        unnamed = []
        for name in self.tables:
            frame = self.table(name).drop(MASKED)
            types |= frame.schema
            # A code list cannot name a missing label: such paths are only in the tables.
            unnamed.append(frame.filter(pl.any_horizontal(pl.all().is_null())) if frame.width else frame)
        frames, unlisted = [], []
        for every in CodeLists.dimensions(self.design):
            columns = list(every)
            while columns and (known := self._paths(columns, types, unnamed)).is_empty():
                unlisted.append(columns.pop())
            if not columns:
                known = pl.DataFrame({"": [None]})
            finer = [pl.lit(None, pl.String).alias(name) for name in every[len(columns) :]]
            frames.append(known.select(*columns, *finer))
        return CodeLists.of(self.design, frames, unlisted)

    def _paths(self, columns: list[str], types: Mapping[str, Any], unnamed: Sequence[pl.DataFrame]) -> pl.DataFrame:
        """The paths of labels in the code list, and those with a missing label."""
        kinds: Any = {column: types.get(column, pl.String()) for column in columns}
        found = [listed_paths(self.codes, columns).select(columns).cast(kinds, strict=False)]
        for rows in unnamed:
            if set(columns) <= set(rows.columns):
                found.append(rows.select(columns).filter(pl.any_horizontal(pl.all().is_null())).unique().sort(columns))
        return pl.concat(found).unique()

    def geometry(self, column: str) -> dict[str, Any] | None:
        """Read the map of the areas in a column.

        Parameters
        ----------
        column : str
            The column, such as "LA3".

        Returns
        -------
        dict or None
            GeoJSON; None if the release has no map of this column.

        Raises
        ------
        StoreError
            The map is missing or was changed.
        """
        for entry in self.manifest["geometry"]:
            if entry["column"] == column:
                try:
                    found: dict[str, Any] = json.loads(self.content(entry["file"]))
                except (ValueError, RecursionError):
                    raise self._changed(entry["file"]) from None
                return found
        return None

    def verify(self) -> None:
        """Check every file against its checksum in the manifest, and that the folder holds nothing else.

        Raises
        ------
        StoreError
            A file is missing, was changed, or does not belong to the release.
        """
        for file, expected in self.digests.items():
            if not (self.path / file).is_file() or digest(self.path / file) != expected:
                raise self._changed(file)
        there = {file.relative_to(self.path).as_posix() for file in self.path.rglob("*") if file.is_file()}
        extra = there - set(self.digests) - {MANIFEST}
        if extra:
            raise StoreError(f"{str(self.path)!r} holds files that do not belong to it: {listing(sorted(extra))}.")

    def labelled(self, name: str, lang: str = "en") -> pl.DataFrame:
        """Read a table by its name, with labels instead of codes.

        Parameters
        ----------
        name : str
            The name of the table, such as "LA3.gender".
        lang : {"en", "ko"}, default "en"
            The language. A missing label is taken from the other language.

        Returns
        -------
        polars.DataFrame
            Labels and N_masked. A code without a label stays unchanged.
        """
        return worded(self.table(name), self.codes, self.named(name).columns, lang)

    def audit(self, store: Any = None, **options: Any) -> Any:
        """Find out what anybody can prove from all tables together: see `ilba.audit` (confidential).

        Parameters
        ----------
        store : FinestTable, optional
            The store from which it was made. By default, nothing is compared with the truth.
        **options
            Other arguments of `ilba.audit`.

        Returns
        -------
        AuditReport
            What was found. Confidential.
        """
        from ilba.attack.audit import audit

        return audit(self, store=store, **options)

    def risk(self, attackers: Any = None, store: Any = None, **options: Any) -> Any:
        """Measure what named attackers learn from all tables together: see `ilba.risk` (confidential).

        Parameters
        ----------
        attackers : str, Register, Insider or iterable of them, optional
            The attackers. By default, all attackers that need no outside data.
        store : FinestTable, optional
            The store from which it was made. By default, nothing is compared with the truth.
        **options
            Other arguments of `ilba.risk`.

        Returns
        -------
        RiskReport
            A row for each attacker. Confidential.
        """
        from ilba.attack.risk import ALL, risk

        return risk(self, ALL if attackers is None else attackers, store=store, **options)

    def serve(self, port: int = 8000) -> subprocess.Popen[bytes]:
        """Serve the release in a separate process, as `ilba serve` does.

        Parameters
        ----------
        port : int, default 8000
            The port on this machine.

        Returns
        -------
        subprocess.Popen
            The process; `terminate()` stops it.
        """
        return subprocess.Popen([sys.executable, "-m", "ilba", "serve", str(self.path), "--port", str(port)])  # noqa: S603

    def _repr_html_(self) -> str:
        """The release in a notebook."""
        rows = ((one.name, ", ".join(one.columns), one.rows) for one in self.tables.values())
        about = f"{some(len(self.tables), 'table')} · {self.manifest['method']} · K={self.design.threshold}"
        shown = notebook.table(["table", "columns", "rows"], itertools.islice(rows, 20))
        rest = notebook.note(f"and {len(self.tables) - 20} more") if len(self.tables) > 20 else ""
        return notebook.page(self.manifest["title"], about, shown, rest, confidential=False)

    def __repr__(self) -> str:
        told = self.manifest
        return f"Release({told['title']!r}, {some(len(self.tables), 'table')}, {told['method']}, K={told['threshold']})"


def fitting(file: Path, sha256: str) -> bytes | None:
    """The bytes of a file if they match their checksum, otherwise None."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    return content if hashlib.sha256(content).hexdigest() == sha256 else None


def digest(file: Path) -> str:
    """The checksum of a file as the manifest spells it."""
    with file.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()
