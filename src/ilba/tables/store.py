"""A store on disk: the packed cells of a finest table, and what they mean.

There are two forms. A *file* is Parquet with everything else as JSON in its metadata; one machine writes it in one
step. A *dataset* is a folder with the cells in many Parquet files, written by many machines, and the same JSON in a
file beside them. That file is written last; without it the folder is not a store.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CodeLists
from ilba.data.codelists import no_code_list, read_labels
from ilba.design.design import COUNT, MASKED, Design, Origins
from ilba.design.labels import Label, label_text
from ilba.design.population import Population
from ilba.design.recordkeys import RECORD_KEY, RecordKeys
from ilba.errors import InputError, StoreError, nearest
from ilba.methods.controlled.search import Chosen
from ilba.secret.secret import PRF
from ilba.tables import sealed

Path_: TypeAlias = str | os.PathLike[str]
IntArray: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

FORMAT = 3
META = "ilba"
ABOUT, CELLS = "ilba.json", "cells"
# The error that polars raises depends on the damaged bytes; its panics are not even an Exception.
UNREADABLE = (Exception, pl.exceptions.PanicException)
OF_R = (".rds", ".rdata", ".rda")
"""the endings of R's files"""
_OTHERS = (*OF_R, ".csv", ".gz", ".tsv", ".txt", ".json", ".xlsx", ".xls", ".sav", ".dta", ".sas7bdat", ".arrow")


class ForeignError(StoreError):
    """A Parquet file or a folder that is not a store."""


@dataclass(frozen=True)
class About:
    """What a store says about its cells."""

    codes: CodeLists
    labels: pl.DataFrame = field(default_factory=no_code_list)
    """the agency's code list with its labels; empty if none was given"""
    fingerprint: str | None = None
    """the fingerprint of the secret that drew the masks; None if they came with the counts"""
    chosen: Chosen | None = None
    """the tables for which the masks were chosen jointly; None if each mask was drawn by itself"""
    origins: Origins = field(default_factory=Origins)
    population: Population = field(default_factory=Population)
    record_keys: RecordKeys | None = None
    """the origin of the record keys; None if the cells have none"""

    @property
    def words(self) -> list[str]:
        """The columns that hold the packed cells."""
        return [f"cell{place}" for place in range(len(self.codes.finest.words))]

    @property
    def columns(self) -> list[str]:
        """All columns of the cells."""
        return [*self.words, COUNT, MASKED, *([RECORD_KEY] if self.record_keys else [])]

    def to_json(self, rows: int) -> dict[str, Any]:
        """Plain values, for a file."""
        meta: dict[str, Any] = {
            # A program that knows only format 1 would apply iLBA to masks that were chosen for sums.
            # One that knows only format 2 would not look for the column of record keys.
            "format": 3 if self.record_keys else 2 if self.chosen else 1,
            "rows": rows,
            "design": self.codes.design.to_json(),
            "codes": self.codes.to_json(),
            "prf": PRF if self.fingerprint else None,
            "fingerprint": self.fingerprint,
            "labels": self.labels.to_dict(as_series=False),
        }
        if self.chosen:
            meta["controlled"] = self.chosen.to_json()
        if self.origins != Origins():
            meta["origins"] = self.origins.to_json()
        if self.population != Population():
            meta["population"] = self.population.to_json()
        if self.record_keys:
            meta["record_keys"] = self.record_keys.to_json()
        return meta

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], said: str) -> About:
        """Read it from plain values."""
        if plain["format"] > FORMAT:
            raise StoreError(
                f"{said!r} has the store format {plain['format']}; this version of ilba reads up to {FORMAT}. "
                f"Type: pip install --upgrade ilba"
            )
        design = Design.from_json(plain["design"])
        given = pl.DataFrame(plain["labels"]) if plain["labels"]["variable"] else None
        chosen = Chosen.from_json(plain["controlled"]) if "controlled" in plain else None
        origins = Origins.from_json(plain["origins"]) if "origins" in plain else Origins()
        population = Population.from_json(plain.get("population", {}))
        codes = CodeLists.from_json(design, plain["codes"])
        keys = RecordKeys.from_json(plain["record_keys"]) if "record_keys" in plain else None
        return cls(codes, read_labels(given, design), plain["fingerprint"], chosen, origins, population, keys)


def dump(meta: Mapping[str, Any]) -> str:
    """The JSON of a store, always in the same spelling."""
    return json.dumps(meta, ensure_ascii=False, separators=(",", ":"))


def checksum(meta: Mapping[str, Any], cells: pl.DataFrame) -> int:
    """A checksum of everything in a store: a flipped bit on the disk must not become a count."""
    total = zlib.crc32(dump(meta).encode())
    for column in cells.get_columns():
        total = zlib.crc32(column.to_numpy().astype("<i8", copy=False).data, total)
    return total


def read(path: Path_, within: object = None) -> tuple[About, pl.DataFrame]:
    """The description of a store and its sorted cells; `within` is a top-level area of the first hierarchy."""
    place = Path(path)
    if place.is_dir():
        return _read_dataset(place, within)
    about, cells = _read_file(place)
    return (about, cells) if within is None else cut(about, cells, TopArea.of(about.codes, within))


def _read_file(file: Path) -> tuple[About, pl.DataFrame]:
    if file.suffix.lower() in OF_R:
        raise StoreError(f"{str(file)!r} is a file of R. Open it with ilba.read_rds, or type: ilba convert {file} OUT")
    try:
        content = file.read_bytes()  # read once, so that a store replaced meanwhile cannot mix in
        is_checked = sealed.is_sealed(content)
    except OSError as problem:
        raise _unopened(file, problem) from None
    except sealed.BrokenSeal:
        raise damaged(file) from None
    plain = _file_json(content, str(file))
    try:
        about = About.from_json(plain, str(file))
        cells = _cells(content, about.columns)
        if not is_checked and plain.pop("crc32") != checksum(plain, cells):  # a store of an older version
            raise ValueError
        return about, cells
    except StoreError:
        raise
    except UNREADABLE:
        raise damaged(file) from None


def _cells(content: bytes, columns: Sequence[str]) -> pl.DataFrame:
    """Columns of a Parquet file, each contiguous; read one by one, so that only one is in memory twice."""
    return pl.DataFrame(
        [pl.read_parquet(io.BytesIO(content), columns=[name]).to_series().rechunk() for name in columns]
    )


def read_about(file: Path) -> tuple[About, int]:
    """The description of a store and its number of cells, without reading the cells."""
    if file.is_dir():
        dataset = dataset_of(file)
        return dataset.about, dataset.rows
    try:
        content = sealed.footer(file)
    except OSError as problem:
        raise _unopened(file, problem) from None
    except sealed.BrokenSeal:
        raise damaged(file) from None
    plain = _file_json(content, str(file))
    try:
        return About.from_json(plain, str(file)), int(plain["rows"])
    except StoreError:
        raise
    except UNREADABLE:
        raise damaged(file) from None


def is_one_file(file: Path) -> bool:
    """Whether a file is a store that can be read."""
    try:
        read_about(file)
    except StoreError:
        return False
    return True


def _unopened(file: Path, problem: OSError) -> StoreError:
    absent = isinstance(problem, FileNotFoundError) and file.parent.is_dir()
    near = nearest(file.name, (p.name for p in file.parent.iterdir())) if absent else ""
    return StoreError(f"cannot open {str(file)!r}: {problem.strerror}.{near}")


def write(file: Path, meta: Mapping[str, Any], cells: pl.DataFrame) -> None:
    """Write a one-file store."""
    # A higher level takes longer and makes the file no smaller.
    cells.write_parquet(file, metadata={META: dump(meta)}, compression_level=1, statistics=False)
    sealed.seal(file)


def _file_json(content: bytes, said: str) -> dict[str, Any]:
    """The JSON in the metadata of a one-file store, from its bytes or those of its footer."""
    try:
        meta = pl.read_parquet_metadata(io.BytesIO(content))
    except UNREADABLE:
        raise StoreError(
            f"{said!r} is not a store, or a damaged one: it does not read as Parquet. `ilba build` makes a store. For "
            f"a publication file: `ilba plan`; after `ilba publish` its store is in the folder confidential."
        ) from None
    if META not in meta:
        raise ForeignError(
            f"{said!r} is a Parquet file, but not a store of ilba. "
            f"Counted cells come in through FinestTable.from_counts, single records through ilba.build."
        )
    try:
        plain: dict[str, Any] = json.loads(meta[META])
        return plain
    except ValueError:
        raise damaged(said) from None


def check_name(path: Path) -> None:
    """Refuse a name that belongs to another kind of file."""
    if path.suffix.lower() in _OTHERS:
        raise InputError(f"{str(path)!r}: a store is a Parquet file. Give a name such as 'full_tb.parquet'.")


def damaged(path: object) -> StoreError:
    """The error for a store that does not hold what was written."""
    return StoreError(f"{str(path)!r} is a damaged store. Build it again.")


# --- datasets


class DatasetPart(NamedTuple):
    """One file with cells of a dataset: the range of its cells, and its checksum."""

    file: str
    rows: int
    first: int
    """the smallest `cell0` in it"""
    last: int
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """The description of a dataset."""

    about: About
    rows: int
    mark: int
    parts: tuple[DatasetPart, ...] | None
    """None in datasets of older versions"""

    def to_text(self) -> str:
        """The JSON beside the cells, with its own checksum."""
        meta = {**self.about.to_json(self.rows), "mark": f"{self.mark & (2**64 - 1):016x}"}
        meta["parts"] = [part._asdict() for part in self.parts or ()]
        return dump({**meta, "crc32": zlib.crc32(dump(meta).encode())})

    @classmethod
    def from_text(cls, text: str, said: str) -> Dataset:
        """Read it from the JSON."""
        try:
            plain = json.loads(text)
            total = plain.pop("crc32")
            if total != zlib.crc32(dump(plain).encode()):
                raise ValueError
            parts = tuple(DatasetPart(**part) for part in plain["parts"]) if "parts" in plain else None
            return cls(About.from_json(plain, said), int(plain["rows"]), int(plain["mark"], 16), parts)
        except StoreError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, InputError):
            raise damaged(said) from None


def dataset_of(folder: Path) -> Dataset:
    """The description of the dataset in a folder."""
    place = folder / ABOUT  # an engine that writes to an object store leaves a folder with one text file
    files = [place] if place.is_file() else sorted(f for f in place.glob("part-*") if f.is_file())
    if not files and (folder / "release.json").is_file():
        raise ForeignError(f"{str(folder)!r} is a release, which is public. Give the store that it was made from.")
    if not files:
        raise ForeignError(
            f"{str(folder)!r} is not a store: it holds no {ABOUT}. A store is a Parquet file or a folder from Spark."
        )
    content = b"".join(file.read_bytes() for file in files)
    return Dataset.from_text(content.decode("utf-8", errors="replace"), str(folder))


def parts_of(folder: Path) -> list[Path]:
    """The files with the cells of a dataset."""
    return sorted(file for file in (folder / CELLS).glob("*.parquet") if not file.name.startswith("."))


def _read_dataset(folder: Path, within: object) -> tuple[About, pl.DataFrame]:
    dataset = dataset_of(folder)
    about = dataset.about
    inside = None if within is None else TopArea.of(about.codes, within)
    try:
        if dataset.parts is None:  # an older version with one mark for all cells, which are read together
            cells = pl.concat([pl.read_parquet(io.BytesIO(f.read_bytes())) for f in parts_of(folder)])
            cells = cells.select(about.columns)
            if len(cells) != dataset.rows or marked([cells[name].to_numpy() for name in about.columns]) != dataset.mark:
                raise ValueError
        else:
            if {part.file for part in dataset.parts} != {file.name for file in parts_of(folder)}:
                raise ValueError
            wanted = [part for part in dataset.parts if inside is None or inside.meets(part)]
            empty = pl.DataFrame(schema=dict.fromkeys(about.columns, pl.Int64))
            cells = pl.concat([empty, *(_read_part(folder, part, about.columns) for part in wanted)])
    except UNREADABLE:
        raise damaged(folder) from None
    cells = cells.sort(about.words)
    return (about, cells) if inside is None else cut(about, cells, inside)


def _read_part(folder: Path, part: DatasetPart, columns: Sequence[str]) -> pl.DataFrame:
    content = (folder / CELLS / part.file).read_bytes()
    if hashlib.sha256(content).hexdigest() != part.sha256:
        raise ValueError
    return pl.read_parquet(io.BytesIO(content)).select(columns)


class TopArea(NamedTuple):
    """A top-level area of the first hierarchy: its finest areas, and the range of `cell0` of its cells."""

    first: int
    below: int
    low: int
    high: int | None
    """the first value beyond it; None at the end"""

    @classmethod
    def of(cls, codes: CodeLists, label: object) -> TopArea:
        """The area with this label."""
        areas = codes.lists[0]
        node = areas.node([label])
        assert node is not None  # noqa: S101 - on the top level each label is a node
        first, below = int(areas.starts[1][node]), int(areas.below(1)[node])
        stride = codes.finest.stride(0)
        return cls(first, below, first * stride, (first + below) * stride if first + below < len(areas) else None)

    def meets(self, part: DatasetPart) -> bool:
        """Whether a file may hold cells of the area."""
        return part.rows > 0 and part.last >= self.low and (self.high is None or part.first < self.high)


def cut(about: About, cells: pl.DataFrame, area: TopArea) -> tuple[About, pl.DataFrame]:
    """The cells of one top-level area, renumbered, with unchanged code lists of the keys."""
    codes = about.codes
    inside = pl.col("cell0") >= area.low
    if area.high is not None:
        inside &= pl.col("cell0") < area.high
    kept = cells.filter(inside)
    keep = [np.ones(len(listed), dtype=bool) for listed in codes.lists]
    keep[0] = np.zeros(len(codes.lists[0]), dtype=bool)
    keep[0][area.first : area.first + area.below] = True
    fewer = codes.only(keep)
    digits = codes.finest.digits([kept[name].to_numpy() for name in about.words])
    digits[0] = digits[0] - area.first
    cut = replace(about, codes=fewer)
    words = dict(zip(cut.words, fewer.finest.pack(digits, kept.height), strict=True))
    rest = about.columns[len(about.words) :]
    return cut, pl.DataFrame({**words, **{name: kept[name] for name in rest}})


_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(prime)
    for prime in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def marked(columns: Sequence[IntArray]) -> int:
    """The mark of a dataset: the XOR of a hash of each row, independent of order and division into files.

    The hash is XXH64 of the row's numbers, each seeded by the hash of the one before, as Spark's `xxhash64` computes
    it.

    >>> hex(marked([np.array([1, 2]), np.array([3, 4])])) == hex(marked([np.array([2, 1]), np.array([4, 3])]))
    True
    """
    if not len(columns[0]):
        return 0
    hashed: Words = np.full(len(columns[0]), 42, dtype=np.uint64)
    for column in columns:
        hashed = _xxh64(np.ascontiguousarray(column).view(np.uint64), hashed)
    return int(np.bitwise_xor.reduce(hashed))


def _xxh64(value: Words, seed: Words) -> Words:
    """XXH64 of 8-byte numbers, each with its own seed."""
    total = seed + _P5 + np.uint64(8)
    total ^= _turned(value * _P2, 31) * _P1
    total = _turned(total, 27) * _P1 + _P4
    total ^= total >> np.uint64(33)
    total *= _P2
    total ^= total >> np.uint64(29)
    total *= _P3
    return total ^ (total >> np.uint64(32))


def _turned(value: Words, bits: int) -> Words:
    return (value << np.uint64(bits)) | (value >> np.uint64(64 - bits))


def path_marks(codes: CodeLists) -> list[IntArray]:
    """A number for each path of labels of each dimension, independent of types and of other labels."""
    return [
        np.array([path_mark(listed.columns, path) for path in listed.labels.rows()], dtype=np.uint64).view(np.int64)
        for listed in codes.lists
    ]


def path_mark(columns: Sequence[str], path: Sequence[Label]) -> int:
    """A number for a path of labels and the names of its columns."""
    parts = [
        text.encode() for name, label in zip(columns, path, strict=True) for text in (name, label_text(label) or "")
    ]
    missing = bytes(label is None for label in path)
    return int.from_bytes(hashlib.blake2b(b"\0".join([*parts, missing]), digest_size=8).digest())
