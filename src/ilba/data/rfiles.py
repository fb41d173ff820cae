"""Read files that `saveRDS` and `save` of R wrote, without R.

R writes one object after the other: its kind, its length, its values, its attributes (the XDR serialisation, versions
2 and 3). Numbers are read as arrays. Each text begins with its length, so a simple reader must read one text to find
the next. But a text of R has no zero byte, and the head of a text has one. So the heads of a whole block of texts are
found at once, and then checked to follow each other. Functions and environments are skipped.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, listing

Content: TypeAlias = IO[bytes] | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile
Array: TypeAlias = npt.NDArray[Any]
Path_: TypeAlias = str | os.PathLike[str]

_BLOCK = 2**21
_MISSING = np.iinfo(np.int32).min
# The kinds of objects, by R's own numbers.
_SYMBOL, _PAIRS, _CLOSURE, _ENVIRONMENT, _PROMISE, _CALL, _SPECIAL, _BUILTIN, _TEXT = range(1, 10)
_LOGICAL, _INTEGER, _DOUBLE, _COMPLEX, _TEXTS, _DOTS, _LIST, _EXPRESSION = 10, 13, 14, 15, 16, 17, 19, 20
_BYTECODE, _POINTER, _WEAK, _RAW, _S4 = 21, 22, 23, 24, 25
_ALTERNATIVE, _ATTRIBUTED_PAIRS, _ATTRIBUTED_CALL, _AGAIN, _KEPT = 238, 239, 240, 243, 244
_EMPTY = {241, 242, 250, 251, 252, 253, 254}  # NULL, the standard environments, and the like
_NAMED = {247, 248, 249}  # packages and namespaces
_REFERENCE = 255
_NUMBERS = {_LOGICAL: ">i4", _INTEGER: ">i4", _DOUBLE: ">f8", _COMPLEX: ">c16", _RAW: "u1"}
_KINDS = {_LOGICAL: "logical", _INTEGER: "integer", _DOUBLE: "double", _COMPLEX: "complex", _RAW: "raw"}
_COLUMNS = ("character", "double", "integer", "logical")
_OF_C = ("ANSI_X3.4-1968", "US-ASCII", "ASCII", "646")
"""what R in the locale C, as in a container or a nightly job, calls its encoding; its texts are as they were read"""
_NATIVE, _LATIN1, _UTF8, _ASCII = 0x9, 0x4009, 0x8009, 0x40009  # the heads of texts, by encoding
_HEADS = np.array([_NATIVE, 0x2009, _LATIN1, _UTF8, _ASCII])


class _DamagedError(Exception):
    """The bytes are not a file of R."""


@dataclass
class Value:
    """An object of R: its kind, its values, and its attributes such as names and class."""

    kind: str
    values: Any = None
    about: dict[str, Any] = field(default_factory=dict)

    @property
    def classes(self) -> list[str]:
        """The classes that R gave it."""
        given = self.about.get("class")
        return given.texts() if isinstance(given, Value) and given.kind == "character" else []

    @property
    def names(self) -> list[str]:
        """The names of its elements; empty if they have none."""
        given = self.about.get("names")
        return given.texts() if isinstance(given, Value) and given.kind == "character" else []

    @property
    def is_frame(self) -> bool:
        """Whether it is a data.frame; a data.table and a tibble are data.frames, too."""
        return self.kind == "list" and "data.frame" in self.classes

    def texts(self) -> list[str]:
        """The values of a vector of texts."""
        return [str(text) for text in self.values]

    def __getitem__(self, name: str) -> Any:
        """The element of a list by its name."""
        return self.values[self.names.index(name)]


def read_r(path: Path_) -> Value | dict[str, Value]:
    """The content of a file of R: the object of an .rds file, or the named objects of an .RData file."""
    file = Path(path)
    with _told(file), _decompressed(file) as content:
        return _read(content)


def read_r_frame(path: Path_) -> pl.DataFrame:
    """The data.frame in a file of R. An .RData file may have other objects beside it."""
    found = _held(path)
    with _told(Path(path)):
        return frame_of(found)


def read_r_labels(path: Path_) -> dict[str, tuple[str, dict[str, str]]]:
    """The label of each column and of its codes, as the packages haven and labelled keep them."""
    found = _held(path)
    labels = {}
    with _told(Path(path)):
        for name, column in zip(found.names, found.values, strict=True):
            about = column.about if isinstance(column, Value) else {}
            called, codes = about.get("label"), about.get("labels")
            words = called.texts()[0] if isinstance(called, Value) and called.kind == "character" else ""
            named = {}
            if isinstance(codes, Value) and codes.kind in _COLUMNS:
                named = dict(zip(map(_code, codes.values), codes.names, strict=True))
            labels[name] = words, named
    return labels


def _code(value: Any) -> str:
    """A code as text: 1.0 of R is 1."""
    return f"{value:.0f}" if isinstance(value, (float, np.floating)) and float(value).is_integer() else str(value)


def _held(path: Path_) -> Value:
    """The data.frame of a file, as an object of R."""
    held = read_r(path)
    with _told(Path(path)):
        if isinstance(held, dict):
            frames = {name: value for name, value in held.items() if value.is_frame}
            if len(frames) > 1:
                raise InputError(f"has several data frames ({listing(frames)}). Save one of them: saveRDS(x, 'x.rds').")
            if not frames:
                raise InputError(f"has no data frame, only {listing(held) or 'nothing'}.")
            [held] = frames.values()
        if "full_tb" in held.names and not held.is_frame:
            raise InputError(
                "is a finest table of the R package: counts, not records. All commands on stores take it: "
                f"ilba table {shlex.quote(Path(path).name)}. In Python: ilba.read_rds."
            )
        if not held.is_frame:
            raise InputError(f"has no data frame, but an object of the kind {listing(held.classes) or held.kind}.")
        return held


@contextlib.contextmanager
def _told(file: Path) -> Iterator[None]:
    """Name the file in errors. Any failure while reading means that it is not a file of R."""
    try:
        yield
    except InputError as problem:
        raise InputError(f"{str(file)!r} {problem}") from None
    except RecursionError:
        raise InputError(f"{str(file)!r} cannot be read: its objects are nested too deeply.") from None
    except Exception as problem:
        if isinstance(problem, OSError) and problem.errno is not None:
            raise  # the disk, not the file
        raise InputError(f"{str(file)!r} is damaged, or is not a file that R saved.") from problem


def frame_of(value: Value) -> pl.DataFrame:
    """A data.frame of R as a polars frame. A column of lists or matrices becomes an empty Binary column."""
    if len(set(value.names)) < len(value.names):
        twice = next(name for name in value.names if value.names.count(name) > 1)
        raise InputError(f"has two columns called {twice!r}. Rename one of them.")
    given = dict(zip(value.names, value.values, strict=True))
    heights = {len(one.values) for one in given.values() if _is_column(one)}
    if len(heights) > 1:
        raise InputError("has columns of different lengths. Save it again in R.")
    read = {name: _column(name, one) for name, one in given.items() if _is_column(one)}
    other = pl.Series([None] * max(heights, default=0), dtype=pl.Binary)
    return pl.DataFrame([read[name] if name in read else other.alias(name) for name in given])


def _is_column(value: Any) -> bool:
    return isinstance(value, Value) and value.kind in _COLUMNS and "dim" not in value.about


def _column(name: str, value: Any) -> pl.Series:
    """A vector of R as a column: factors are their text, dates are dates, NA is null."""
    values, classes = value.values, value.classes
    if isinstance(values, range):  # 1:n: R writes only its ends
        values = np.arange(values.start, values.stop, values.step)
    if "factor" in classes and value.kind == "integer":
        levels: pl.Series = value.about["levels"].values
        codes = pl.Series(values).cast(pl.Int64)
        if not ((codes == _MISSING) | codes.is_between(1, len(levels))).all():
            raise InputError(
                f"has a factor, {name!r}, with a code that is none of its levels. Some packages write missing values "
                f"of a factor in this way. Save the column as text."
            )
        return levels.gather((codes - 1).set(codes == _MISSING, None)).alias(name)
    if value.kind == "character":
        texts: pl.Series = values
        return texts.alias(name)
    if "integer64" in classes and value.kind == "double":
        whole = pl.Series(name, values.view(np.int64))
        return whole.set(whole == np.iinfo(np.int64).min, None)
    if value.kind == "double":
        column = pl.Series(name, values).fill_nan(None)
    else:
        column = pl.Series(name, values)
        column = column.set(column == _MISSING, None)
    if value.kind == "logical":
        return column.cast(pl.Boolean)
    if "Date" in classes:
        return column.cast(pl.Float64).floor().cast(pl.Int32).cast(pl.Date)
    if "POSIXct" in classes:
        return _times(column, value.about.get("tzone"))
    return column


def _times(seconds: pl.Series, zone: Any) -> pl.Series:
    """Points in time as R shows them: in their own time zone, else in UTC."""
    times = (seconds.cast(pl.Float64) * 1e6).round().cast(pl.Int64).cast(pl.Datetime("us"))
    named = zone.texts()[0] if isinstance(zone, Value) and zone.kind == "character" and len(zone.values) else ""
    if not named or named in ("UTC", "GMT"):
        return times
    try:
        return times.dt.replace_time_zone("UTC").dt.convert_time_zone(named).dt.replace_time_zone(None)
    except pl.exceptions.PolarsError:
        raise InputError(
            f"has a column {seconds.name!r} in the time zone {named!r}, which is not known. "
            f"Turn it into text in R: format(x)."
        ) from None


def _decompressed(file: Path) -> Content:
    with file.open("rb") as raw:
        begins = raw.read(6)
    if begins.startswith(b"\x1f\x8b"):
        return gzip.open(file)
    if begins.startswith(b"BZh"):
        return bz2.open(file)
    if begins.startswith((b"\xfd7zXZ", b"]\0\0")):
        return lzma.open(file)
    return file.open("rb")


def _read(content: Content) -> Value | dict[str, Value]:
    stream = _Stream(content)
    begins = bytes(stream.ahead(7)[:7])
    workspace = begins[:5] in (b"RDX2\n", b"RDX3\n")
    if workspace:
        stream.take(5)
    kind = stream.take(2)
    if begins.startswith((b"RDA", b"A\n")) or kind == b"A\n":
        raise InputError("was saved as text. Save it again in R without ascii=TRUE: saveRDS(x, file).")
    if kind != b"X\n":
        raise _DamagedError("not XDR")
    version = stream.number()
    stream.take(8)  # the versions of R that wrote it and that can read it
    if version not in (2, 3):
        raise InputError(
            f"has version {version} of R's files. Only versions 2 and 3 can be read: saveRDS(x, file, version=3)."
        )
    encoding = stream.take(stream.number()).decode("ascii") if version == 3 else "UTF-8"
    item = _Reader(stream, encoding).item()
    if not workspace:
        return item if isinstance(item, Value) else Value("NULL")
    return {name: one for name, one in item.about.items() if isinstance(one, Value)} if isinstance(item, Value) else {}


class _Stream:
    """The bytes of a file in order, with a look ahead."""

    def __init__(self, content: Content) -> None:
        self._content = content
        self._held = b""
        self._place = 0

    def ahead(self, number: int) -> memoryview:
        """At least this many of the next bytes; fewer only at the end of the file."""
        if len(self._held) - self._place < number:
            more = self._content.read(max(number - len(self._held) + self._place, _BLOCK))
            self._held = self._held[self._place :] + more
            self._place = 0
        return memoryview(self._held)[self._place :]

    def skip(self, number: int) -> None:
        self._place += number

    def take(self, number: int) -> bytes:
        taken = bytes(self.ahead(number)[:number]) if number >= 0 else b""
        if len(taken) != number:
            raise _DamagedError("ends too early")
        self._place += number
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def length(self) -> int:
        """The length of a vector; a long one takes three numbers."""
        length = self.number()
        if length == -1:
            length = (self.number() << 32) + (self.number() & 0xFFFFFFFF)
        if length < 0:
            raise _DamagedError("a length below 0")
        return length

    def array(self, number: int, kind: str) -> Array:
        """Read numbers in pieces, so that a wrong length ends the reading and does not fill the memory."""
        width, pieces = np.dtype(kind).itemsize, []
        while number:
            some = min(number, _BLOCK // width)
            pieces.append(np.frombuffer(self.take(some * width), kind).astype(np.dtype(kind).newbyteorder("=")))
            number -= some
        return np.concatenate(pieces) if pieces else np.empty(0, np.dtype(kind).newbyteorder("="))


class _Reader:
    """Read objects from a stream. Symbols and environments are written once and then referred to."""

    def __init__(self, stream: _Stream, encoding: str) -> None:
        self._stream = stream
        self._encoding = "UTF-8" if encoding in _OF_C else encoding
        self._seen: list[Any] = []

    def item(self) -> Any:
        """The next object: a `Value`, the text of a symbol, or None for NULL."""
        stream = self._stream
        flags = stream.number()
        kind, attributed, tagged = flags & 0xFF, bool(flags & 0x200), bool(flags & 0x400)
        if kind in _EMPTY:
            return None
        if kind == _REFERENCE:
            return self._seen[(flags >> 8 or stream.number()) - 1]
        if kind == _SYMBOL:
            return self._refer(self.item())
        if kind == _TEXT:
            return self._text(flags, stream.number())
        if kind in (_PAIRS, _CALL, _CLOSURE, _PROMISE, _DOTS):
            return self._pairs(kind, attributed, tagged)
        if kind == _ALTERNATIVE:
            return self._alternative()
        if kind in _NUMBERS:
            value = Value(_KINDS[kind], stream.array(stream.length(), _NUMBERS[kind]))
        elif kind == _TEXTS:
            value = Value("character", self._texts(stream.length()))
        elif kind in (_LIST, _EXPRESSION):
            value = Value("list", [self.item() for _ in range(stream.length())])
        else:
            return self._other(kind, attributed)
        if attributed:
            value.about = self._attributes()
        return value

    def _refer(self, value: Any) -> Any:
        self._seen.append(value)
        return value

    def _attributes(self) -> dict[str, Any]:
        given = self.item()
        return given.about if isinstance(given, Value) else {}

    def _pairs(self, kind: int, attributed: bool, tagged: bool) -> Value:
        """A pairlist; its tagged values get their names. A loop follows its links, because it may be long."""
        value, values = Value("pairlist" if kind == _PAIRS else "language", []), []
        while True:
            if attributed:
                self.item()
            tag = self.item() if tagged else None
            element = self.item()
            values.append(element)
            if isinstance(tag, str):
                value.about[tag] = element
            flags = int.from_bytes(self._stream.ahead(4)[:4], "big", signed=True)
            if flags & 0xFF != _PAIRS or kind not in (_PAIRS, _CALL):
                self.item()  # NULL, or the body of a function
                break
            self._stream.take(4)
            attributed, tagged = bool(flags & 0x200), bool(flags & 0x400)
        value.values = values
        return value

    def _alternative(self) -> Any:
        """Objects in a shorter form: 1:n, numbers that are not yet text, and wrapped vectors."""
        told, state, about = self.item(), self.item(), self._attributes()
        name = told.values[0]
        if name in ("compact_intseq", "compact_realseq"):
            number, first, step = state.values.tolist()
            whole = range(int(first), int(first + number * step), int(step))
            return Value("integer" if name == "compact_intseq" else "double", whole, about)
        if name == "deferred_string":
            return Value("character", _as_text(state.values[0]), about)
        if name.startswith("wrap_"):
            inner = state.values[0]
            return Value(inner.kind, inner.values, inner.about | about)
        raise InputError(f"has values in the form {name!r}, which only R can read. Save a copy: saveRDS(x[], file).")

    def _other(self, kind: int, attributed: bool) -> Value:
        """Skip what is not data."""
        stream, value = self._stream, Value("other")
        if kind == _ENVIRONMENT:
            stream.number()
            self._refer(value)
            for _ in range(4):
                self.item()
            return value
        if kind in _NAMED:
            stream.number()
            for _ in range(stream.number()):
                self.item()
            self._refer(value)
            return value
        if kind in (_SPECIAL, _BUILTIN):
            stream.take(stream.number())
        elif kind == _BYTECODE:
            stream.number()
            self._bytecode()
        elif kind == _POINTER:
            self._refer(value)
            self.item()
            self.item()
        elif kind == _WEAK:
            self._refer(value)
        elif kind != _S4:
            raise _DamagedError(f"kind {kind}")
        if attributed:
            self._attributes()
        return value

    def _bytecode(self) -> None:
        self.item()
        for _ in range(self._stream.number()):
            kind = self._stream.number()
            if kind == _BYTECODE:
                self._bytecode()
            else:
                self._call(kind)

    def _call(self, kind: int) -> None:
        """A call among the constants of a compiled function."""
        stream = self._stream
        if kind == _AGAIN:
            stream.number()
            return
        if kind == _KEPT:
            stream.number()
            kind = stream.number()
        if kind not in (_CALL, _PAIRS, _ATTRIBUTED_CALL, _ATTRIBUTED_PAIRS):
            self.item()
            return
        if kind in (_ATTRIBUTED_CALL, _ATTRIBUTED_PAIRS):
            self.item()
        self.item()
        self._call(stream.number())
        self._call(stream.number())

    def _text(self, flags: int, length: int) -> str | None:
        return None if length == -1 else self._decoded(self._stream.take(length), flags)

    def _decoded(self, text: bytes, flags: int) -> str:
        encoding = {_LATIN1: "cp1252", _UTF8: "utf-8", _ASCII: "ascii"}.get(flags & 0xFFFFF, self._encoding)
        try:
            return text.decode(encoding)
        except (LookupError, UnicodeDecodeError):
            raise InputError(
                f"has texts that are not {encoding}. Turn them into UTF-8 in R, from the encoding that they have, and "
                f"save again: x <- rapply(x, iconv, 'character', how='replace', from='CP949', to='UTF-8')"
            ) from None

    def _texts(self, number: int) -> pl.Series:
        """A vector of texts. Most are labels, so each different one is decoded once."""
        known: dict[str | None, int] = {}
        pieces, wide = [], _BLOCK
        while number:
            ahead = self._stream.ahead(wide)
            block = np.frombuffer(ahead, np.uint8)[: max(wide, _BLOCK)]
            starts, lengths, flags = _heads(block, number)
            if not len(starts):
                if len(ahead) < wide:
                    raise _DamagedError("ends too early")
                wide *= 2  # one text alone is longer than the block
                continue
            code, first = _alike(block, starts, lengths, flags)
            places = np.empty(len(first), np.int32)
            for place, at in enumerate(first.tolist()):
                start, length = int(starts[at]) + 8, int(lengths[at])
                text = None if length < 0 else self._decoded(block[start : start + length].tobytes(), int(flags[at]))
                places[place] = known.setdefault(text, len(known))
            pieces.append(places[code])
            number -= len(starts)
            self._stream.skip(int(starts[-1]) + 8 + max(int(lengths[-1]), 0))
        distinct = pl.Series(list(known), dtype=pl.String)
        return distinct.gather(np.concatenate(pieces)) if pieces else distinct


def _heads(block: npt.NDArray[np.uint8], most: int) -> tuple[Array, Array, Array]:
    """Where texts begin in a block that begins with one, how long they are, and the flags of their heads."""
    nines = np.flatnonzero(block[3 : max(len(block) - 4, 3)] == _TEXT)  # the last byte of each head, and others
    flags, lengths = _word(block, nines), _word(block, nines + 4)
    # Only heads have a zero byte. But a length of nine looks like the head of a text in R's own encoding, so such a
    # head is accepted only with the length of NA; a file with others is read one text after the other.
    head = np.where(flags == _NATIVE, lengths == -1, np.isin(flags, _HEADS) & (lengths >= 0))
    head &= nines + 8 + lengths <= len(block)
    starts = nines[head][:most]
    lengths, flags = lengths[head][:most], flags[head][:most]
    ends = starts + 8 + np.maximum(lengths, 0)
    follow = np.concatenate([[0], ends[:-1]])[: len(starts)] == starts
    right = len(starts) if follow.all() else int(follow.argmin())
    if (right and right == len(starts)) or right > 1000:
        return starts[:right], lengths[:right], flags[:right]
    return _heads_one_by_one(block, most)


def _heads_one_by_one(block: npt.NDArray[np.uint8], most: int) -> tuple[Array, Array, Array]:
    found: list[tuple[int, int, int]] = []
    place, data = 0, block.tobytes()
    while len(found) < most and place + 8 <= len(data):
        flags = int.from_bytes(data[place : place + 4], "big")
        length = int.from_bytes(data[place + 4 : place + 8], "big", signed=True)
        if flags & 0x7FF != _TEXT or length < -1:
            raise _DamagedError("not a text")
        if place + 8 + length > len(data):
            break
        found.append((place, length, flags))
        place += 8 + max(length, 0)
    columns = np.array(found, dtype=np.int64).reshape(-1, 3).T
    return columns[0], columns[1], columns[2]


def _word(block: npt.NDArray[np.uint8], places: Array) -> Array:
    """The whole number in the four bytes that begin at each place."""
    view = np.ndarray((max(len(block) - 3, 0),), ">i4", block, strides=(1,))
    return view[places].astype(np.int64)


def _alike(block: npt.NDArray[np.uint8], starts: Array, lengths: Array, flags: Array) -> tuple[Array, Array]:
    """Number equal texts alike: the number of each, and where each number occurs first."""
    padded = np.concatenate([block, np.zeros(8, np.uint8)])
    eights = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    kept = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
    code, first = _numbered(flags * 2 + (lengths < 0))
    for at in range(0, max(int(lengths.max()), 0), 8):
        inside = np.clip(lengths - at, 0, 8)
        words = eights[np.minimum(starts + 8 + at, len(eights) - 1)] & kept[inside]
        part, firsts = _numbered(words)
        if len(firsts) > 1:
            code, first = (part, firsts) if len(first) == 1 else _numbered(code * len(firsts) + part)
    return code, first


def _numbered(values: Array) -> tuple[Array, Array]:
    """Number equal values alike. Runs of equal values are handled at once, because area columns are sorted."""
    runs = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
    _, first, code = np.unique(values[runs], return_index=True, return_inverse=True)
    return np.repeat(code, np.diff(runs, append=len(values))), runs[first]


def _as_text(value: Value) -> pl.Series:
    """Numbers as `as.character` writes them: doubles with 15 significant digits."""
    column = _column("", value)
    if value.kind != "double":
        return column.cast(pl.String)
    distinct = column.unique().drop_nulls()
    texts = pl.Series([f"{number:.15g}" for number in distinct], dtype=pl.String)
    return column.replace_strict(distinct, texts, default=None, return_dtype=pl.String)
