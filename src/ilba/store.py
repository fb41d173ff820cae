"""What a store is on disk: the cells of a finest table, packed, and what they mean.

Two shapes of the same thing. A *file* is Parquet with everything else as JSON in its metadata; one machine writes it in
one step. A *dataset* is a folder with the cells as many Parquet files, written by many machines, and the same JSON in a
file beside them; it is a store only when that file is there, which is written last.
"""

from __future__ import annotations

import io
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.codes import CodeLists
from ilba.controlled import Chosen
from ilba.design import COUNT, MASKED, Design, Origins
from ilba.errors import InputError, StoreError, nearest
from ilba.labels import read_labels
from ilba.secret import PRF

Path_: TypeAlias = str | os.PathLike[str]
IntArray: TypeAlias = npt.NDArray[np.int64]
Words: TypeAlias = npt.NDArray[np.uint64]

FORMAT = 2
META = "ilba"
ABOUT, CELLS = "ilba.json", "cells"
# Which error polars raises depends on which bytes are wrong; its panics are not even an Exception.
UNREADABLE = (Exception, pl.exceptions.PanicException)
_OTHERS = (".rds", ".csv", ".gz", ".tsv", ".txt", ".json", ".xlsx", ".xls", ".sav", ".dta", ".sas7bdat", ".arrow")


class ForeignError(StoreError):
    """A Parquet file or a folder that is not a store."""


@dataclass(frozen=True)
class About:
    """What a store says of its cells."""

    codes: CodeLists
    labels: pl.DataFrame
    fingerprint: str | None
    chosen: Chosen | None
    origins: Origins = field(default_factory=Origins)

    @property
    def words(self) -> list[str]:
        """The columns that hold the packed cells."""
        return [f"cell{place}" for place in range(len(self.codes.finest.words))]

    @property
    def columns(self) -> list[str]:
        """All columns of the cells."""
        return [*self.words, COUNT, MASKED]

    def to_json(self, rows: int) -> dict[str, Any]:
        """As plain values, for a file."""
        meta: dict[str, Any] = {
            # A program that knows only format 1 would apply iLBA to masks that were chosen to be summed.
            "format": FORMAT if self.chosen else 1,
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
        return meta

    @classmethod
    def from_json(cls, plain: Mapping[str, Any], said: str) -> About:
        """Take it back from plain values."""
        if plain["format"] > FORMAT:
            raise StoreError(
                f"{said!r} has the store format {plain['format']}; this version of ilba reads up to {FORMAT}. "
                f"Type: pip install --upgrade ilba"
            )
        design = Design.from_json(plain["design"])
        given = pl.DataFrame(plain["labels"]) if plain["labels"]["variable"] else None
        chosen = Chosen.from_json(plain["controlled"]) if "controlled" in plain else None
        origins = Origins.from_json(plain["origins"]) if "origins" in plain else Origins()
        codes = CodeLists.from_json(design, plain["codes"])
        return cls(codes, read_labels(given, design), plain["fingerprint"], chosen, origins)


def dump(meta: Mapping[str, Any]) -> str:
    """The JSON of a store, always spelled the same."""
    return json.dumps(meta, ensure_ascii=False, separators=(",", ":"))


def checksum(meta: Mapping[str, Any], cells: pl.DataFrame) -> int:
    """Over everything in a store: a bit that turns on the disk must not become a count."""
    total = zlib.crc32(dump(meta).encode())
    for column in cells.get_columns():
        total = zlib.crc32(column.to_numpy().astype("<i8", copy=False).data, total)
    return total


def read(path: Path_, within: object = None) -> tuple[About, pl.DataFrame]:
    """What a store says, and its cells, sorted; `within` is a top-level area of the first hierarchy."""
    place = Path(path)
    if place.is_dir():
        return _read_dataset(place, within)
    about, cells = _read_file(place)
    return (about, cells) if within is None else _cut(about, cells.lazy(), within)


def _read_file(file: Path) -> tuple[About, pl.DataFrame]:
    if file.suffix.lower() == ".rds":
        raise StoreError(f"{str(file)!r} is a file of R. Open it with ilba.read_rds, or type: ilba convert {file} OUT")
    try:
        content = io.BytesIO(file.read_bytes())  # read once: a store that is replaced meanwhile cannot mix in
    except OSError as problem:
        absent = isinstance(problem, FileNotFoundError) and file.parent.is_dir()
        near = nearest(file.name, (p.name for p in file.parent.iterdir())) if absent else ""
        raise StoreError(f"cannot open {str(file)!r}: {problem.strerror}.{near}") from None
    plain = file_json(content, str(file))
    try:
        about = About.from_json(plain, str(file))
        content.seek(0)
        cells = pl.read_parquet(content).select(about.columns)
        if plain.pop("crc32") != checksum(plain, cells):
            raise ValueError
        return about, cells
    except StoreError:
        raise
    except UNREADABLE:
        raise damaged(file) from None


def file_json(content: Any, said: str) -> dict[str, Any]:
    """The JSON in the metadata of a store that is one file: of its bytes, or of its path."""
    try:
        meta = pl.read_parquet_metadata(content)
    except UNREADABLE:
        raise StoreError(
            f"{said!r} is not a store, or a damaged one: it does not read as Parquet. `ilba build` makes a store."
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
    """Refuse a name that promises another kind of file."""
    if path.suffix.lower() in _OTHERS:
        raise InputError(f"{str(path)!r}: a store is a Parquet file. Give a name such as 'full_tb.parquet'.")


def damaged(path: object) -> StoreError:
    """What is said of a store that does not hold what was written."""
    return StoreError(f"{str(path)!r} is a damaged store. Build it again.")


# --- datasets


def dataset_json(about: About, rows: int, mark: int) -> str:
    """The JSON beside the cells of a dataset, with a checksum of its own."""
    meta = {**about.to_json(rows), "mark": f"{mark & (2**64 - 1):016x}"}
    return dump({**meta, "crc32": zlib.crc32(dump(meta).encode())})


def parse_dataset(text: str, said: str) -> tuple[About, int, int]:
    """What a dataset says of itself, its number of cells and their mark."""
    try:
        plain = json.loads(text)
        total = plain.pop("crc32")
        if total != zlib.crc32(dump(plain).encode()):
            raise ValueError
        return About.from_json(plain, said), int(plain["rows"]), int(plain["mark"], 16)
    except StoreError:
        raise
    except (ValueError, KeyError, TypeError, InputError):
        raise damaged(said) from None


def about_text(folder: Path) -> str:
    """The JSON beside the cells. An engine that writes to an object store leaves it as a folder with one text in it."""
    place = folder / ABOUT
    files = [place] if place.is_file() else sorted(f for f in place.glob("part-*") if f.is_file())
    if not files and (folder / "release.json").is_file():
        raise ForeignError(f"{str(folder)!r} is a release, which is public. Give the store that it was made from.")
    if not files:
        raise ForeignError(
            f"{str(folder)!r} is not a store: it holds no {ABOUT}. A store is a Parquet file or a folder from Spark."
        )
    return "".join(file.read_text(encoding="utf-8") for file in files)


def parts_of(folder: Path) -> list[Path]:
    """The files with the cells of a dataset."""
    return sorted((folder / CELLS).glob("*.parquet"))


def _read_dataset(folder: Path, within: object) -> tuple[About, pl.DataFrame]:
    about, rows, mark = parse_dataset(about_text(folder), str(folder))
    try:
        scan = pl.scan_parquet(parts_of(folder)).select(about.columns)
        if within is not None:
            # One area is read without the others, so that the mark of the whole cannot be checked.
            return _cut(about, scan, within)
        cells = scan.collect()
        if len(cells) != rows or marked([cells[name].to_numpy() for name in about.columns]) != mark:
            raise ValueError
    except (StoreError, InputError):
        raise
    except UNREADABLE:
        raise damaged(folder) from None
    return about, cells.sort(about.words)


def _cut(about: About, cells: pl.LazyFrame, within: object) -> tuple[About, pl.DataFrame]:
    """The cells of one top-level area, renumbered, with the code lists of the keys as they are."""
    codes = about.codes
    areas = codes.lists[0]
    node = areas.node([within])
    assert node is not None  # noqa: S101 - on the top level each label is a node
    first, below = int(areas.starts[1][node]), int(areas.below(1)[node])
    stride = codes.finest.stride(0)
    inside = pl.col("cell0") >= first * stride
    if first + below < len(areas):
        inside &= pl.col("cell0") < (first + below) * stride
    kept = cells.filter(inside).sort(about.words).collect()
    keep = [np.ones(len(listed), dtype=bool) for listed in codes.lists]
    keep[0] = np.zeros(len(areas), dtype=bool)
    keep[0][first : first + below] = True
    fewer = codes.only(keep)
    digits = codes.finest.digits([kept[name].to_numpy() for name in about.words])
    digits[0] = digits[0] - first
    cut = replace(about, codes=fewer)
    words = dict(zip(cut.words, fewer.finest.pack(digits, kept.height), strict=True))
    return cut, pl.DataFrame({**words, COUNT: kept[COUNT], MASKED: kept[MASKED]})


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
    """The mark of a dataset: the XOR of a hash of each row, the same in any order and any division into files.

    The hash is XXH64 of the row's numbers, one seeded by the other, which is what Spark's `xxhash64` computes.

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
    """XXH64 of numbers of 8 bytes, each with a seed of its own."""
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
