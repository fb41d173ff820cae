"""Text files of columns: in which encoding they are, and what stands between their columns.

Files are UTF-8 with commas. What can be told for certain is read as well: UTF-16, and semicolons, tabs or bars. Other
encodings cannot be told for certain (most bytes are letters in each of them), so the error says what to type.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import shlex
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.errors import InputError

Source: TypeAlias = Path | io.BytesIO
Path_: TypeAlias = str | os.PathLike[str]

_HEAD = 2**20
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def scan_csv(paths: Sequence[Path_]) -> tuple[pl.LazyFrame, list[str]]:
    """The lines of csv files of the same columns as text, and the names of these columns."""
    files = [Path(path) for path in paths]
    sources = [_readable(file) for file in files]
    if any(not isinstance(source, Path) for source in sources):  # in memory then, all of them
        sources = [io.BytesIO(_content(one)) if isinstance(one, Path) else one for one in sources]
    tabs = Path(files[0].name.removesuffix(".gz")).suffix.lower() == ".tsv"
    frame = _scanned(sources, "\t" if tabs else ",")
    names = frame.collect_schema().names()
    if len(names) > 1 or tabs:
        return frame, names
    found = [separator for separator in _SEPARATORS if separator in names[0]]
    if len(found) > 1:
        raise InputError(
            f"{str(files[0])!r} has no commas between its columns, and its first line holds "
            f"{' and '.join(_SEPARATORS[one] for one in found)}. Write it with commas."
        )
    if found:
        frame = _scanned(sources, found[0])
        names = frame.collect_schema().names()
    return frame, names


def _scanned(sources: Sequence[Source], separator: str) -> pl.LazyFrame:
    given: Any = sources[0] if len(sources) == 1 else list(sources)
    return pl.scan_csv(given, infer_schema=False, separator=separator)


def not_utf8(path: Path_) -> str:
    """What to do with a file in another encoding; the one that is named is a guess."""
    file = Path(path)
    name = "CP949" if file.is_file() and _looks_korean(_content(file)) else "CP1252"
    unpacked = f"gunzip -c {shlex.quote(str(file))} | " if file.suffix.lower() == ".gz" else ""
    given = "" if unpacked else f"{shlex.quote(str(file))} "
    return (
        f"{str(file)!r} is not UTF-8. Turn it into UTF-8 from its own encoding, such as {name}: "
        f"{unpacked}iconv -f {name} -t UTF-8 {given}> utf8.csv"
    )


def _readable(file: Path) -> Source:
    """The file itself where it begins as UTF-8, or the content of a UTF-16 file turned into it."""
    with _opened(file) as begins:
        head = begins.read(_HEAD)
    encoding = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), _unmarked(head))
    if encoding == "utf-8":
        return file
    if not encoding:
        raise InputError(not_utf8(file))
    try:
        text = _content(file).decode(encoding)
    except UnicodeDecodeError:
        raise InputError(f"{str(file)!r} begins as {encoding.upper()} and is damaged further on.") from None
    return io.BytesIO(text.encode("utf-8"))


def _unmarked(head: bytes) -> str:
    """The encoding of a file without a mark; empty where it is another one than UTF-8 or UTF-16."""
    if b"\0" in head:  # no text has such a letter, but every second byte of Latin letters in UTF-16 is one
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return ""
    return "utf-8"


def _looks_korean(content: bytes) -> bool:
    """Whether this may be Korean of Windows: read so, it has Korean syllables and no letters of other scripts."""
    try:
        odd = {letter for letter in content.decode("cp949") if ord(letter) > 127}
    except UnicodeDecodeError:
        return False
    letters = {letter for letter in odd if unicodedata.category(letter).startswith("L")}
    return bool(letters) and all("가" <= letter <= "힣" for letter in letters)


def _opened(file: Path) -> Any:
    return gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb")


def _content(file: Path) -> bytes:
    with _opened(file) as content:
        whole: bytes = content.read()
    return whole
