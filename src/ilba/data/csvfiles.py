"""Text files of columns: their encoding and separator.

Files are UTF-8 with commas. UTF-16, semicolons, tabs and bars are recognised. Other encodings cannot be recognised
with certainty, because most bytes are letters in each of them. So a person declares them: `guessed` gives a guess, and
the error says what to type.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import shlex
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from ilba.errors import InputError, listing, nearest

Source: TypeAlias = Path | io.BytesIO
Path_: TypeAlias = str | os.PathLike[str]

_HEAD = 2**20
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_CENTRAL = re.compile(rb"[A-Za-z\x80-\xff][\xb3\xb9\xbf][a-z]")
"""inside a word of cp1250 ł, ą or ż; cp1252 has the signs ³, ¹ and ¿ there"""
_TURKISH = "ĞİŞğış".encode("cp1254")
"""where Turkish has these letters, cp1252 has those of Icelandic, ÐÝÞðýþ"""
_NOT_TURKISH = bytes(byte for byte in range(192, 256) if byte not in "ÇĞİÖŞÜÂÎÛçğıöşüâîû×÷".encode("cp1254"))
"""letters of other languages that cp1252 has, such as á é í ó ú æ of Icelandic"""
_GREEK_VOWELS = "ΑΕΗΙΟΥΩαεηιουωάέήίόύώ".encode("cp1253")
_NOT_GREEK = b"\xc0\xd2\xe0\xff"
"""hardly a letter of Greek, but frequent ones of Cyrillic, Hebrew, Arabic and Thai"""
_HIGH = bytes(range(0xC0, 0x100))
_SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def scan_csv(
    paths: Sequence[Path_], encoding: str = "", separator: str = "", header: int = 0
) -> tuple[pl.LazyFrame, list[str]]:
    """The lines of csv files with the same columns, as text, and the column names."""
    sources, separator = laid_out([Path(path) for path in paths], encoding, separator, header)
    frame = scanned(sources, separator, header)
    return frame, frame.collect_schema().names()


def laid_out(files: Sequence[Path], encoding: str, separator: str, header: int) -> tuple[list[Source], str]:
    """Csv files in UTF-8, and their separator."""
    sources = [_readable(file, encoding) for file in files]
    if any(not isinstance(source, Path) for source in sources):  # then all are read into memory
        sources = [io.BytesIO(_content(one)) if isinstance(one, Path) else one for one in sources]
    if separator:
        return sources, "\t" if separator == "tab" else separator
    tabs = Path(files[0].name.removesuffix(".gz")).suffix.lower() == ".tsv"
    names = [] if tabs else scanned(sources, ",", header).collect_schema().names()
    if tabs or len(names) > 1:
        return sources, "\t" if tabs else ","
    found = [separator for separator in _SEPARATORS if separator in names[0]]
    if len(found) > 1:
        raise InputError(
            f"{str(files[0])!r} has no commas between its columns, and its first line has "
            f"{' and '.join(_SEPARATORS[one] for one in found)}. Say which it is: --separator "
            f"{shlex.quote(found[0])} (read={{'separator': {found[0]!r}}}), or write it with commas."
        )
    return sources, found[0] if found else ","


def scanned(sources: Sequence[Source], separator: str, header: int, **options: Any) -> pl.LazyFrame:
    """The records of csv files, as text."""
    given: Any = sources[0] if len(sources) == 1 else list(sources)
    return pl.scan_csv(given, infer_schema=False, separator=separator, skip_lines=max(header - 1, 0), **options)


def other_separator(names: Sequence[str]) -> str:
    """Say that a file has another separator than the declared one; nothing if its only column does not show one."""
    known = {**_SEPARATORS, ",": "commas"}
    found = max(known, key=names[0].count) if len(names) == 1 else ""
    if not found or found not in names[0]:
        return ""
    typed = "tab" if found == "\t" else found
    return (
        f" The file seems to be separated by {known[found]}, not by the declared separator: leave separator out, or "
        f"write separator = {typed!r}."
    )


def known_encoding(name: str) -> str:
    """Python's name of an encoding; an unknown one is refused."""
    try:
        return codecs.lookup(name or "utf-8").name
    except LookupError:
        usual = ("utf-8", "utf-16", "cp949", "cp1252", "cp1250", "cp1253", "cp1254", "latin-1")
        raise InputError(
            f"encoding={name!r} is not known.{nearest(name, usual)} Usual ones are {listing(usual)}."
        ) from None


def not_utf8(path: Path_) -> str:
    """The error for a file in another encoding, with a guess."""
    file = Path(path)
    name = guessed(file) if file.is_file() else "cp1252"
    unpacked = f"gunzip -c {shlex.quote(str(file))} | " if file.suffix.lower() == ".gz" else ""
    given = "" if unpacked else f"{shlex.quote(str(file))} "
    return (
        f"{str(file)!r} is not UTF-8. Say which encoding it has, perhaps {name}: --encoding {name} "
        f"(read={{'encoding': {name!r}}}, or encoding = {name!r} beside its `file` in publication.toml). "
        f"Or turn it into UTF-8: {unpacked}iconv -f {name.upper()} -t UTF-8 {given}> utf8.csv"
    )


def longer_line(path: Path_) -> str:
    """Name the line of a csv file with more fields than the first, and say what to do; nothing if it is far down."""
    file = Path(path)
    if not file.is_file():
        return ""
    lines = read_head(file, guessed(file), 2**24).splitlines()
    separator = max([",", *_SEPARATORS], key=lines[0].count) if lines else ","
    if lines and separator not in lines[0]:  # a title; the separator is that of most lines
        separator = max([",", *_SEPARATORS], key=lambda one: sum(one in line for line in lines[:100]))
    rows = csv.reader(lines, delimiter=separator)
    width = len(next(rows, []))
    longer = next((row for row in rows if len(row) > width), None)
    if longer is None:
        return ""
    number = rows.line_num
    told = f" Line {number} has {len(longer)} fields, the first line {width}."
    if width > 1 and not "".join(longer[width:]).strip():
        return f"{told} It ends in {separator!r}: end the line of the column names so, too."
    if number > 30:
        return f"{told} Correct that line."
    return (
        f"{told} If the names of the columns are there, say so: --header {number} (read={{'header': {number}}}, or "
        f"header = {number} beside its `file` in publication.toml). Else correct that line."
    )


def open_quote(path: Path_) -> str:
    """Name the line of a csv file with a quotation mark that is not closed; nothing if it is far down."""
    file = Path(path)
    if not file.is_file():
        return ""
    lines = read_head(file, guessed(file), 2**24).splitlines(keepends=True)
    separator = max([",", *_SEPARATORS], key=lines[0].count)
    rows, number, spans = csv.reader(lines, delimiter=separator), 1, [(0, 0)]
    try:
        for _ in rows:
            spans.append((rows.line_num - number, -number))
            number = rows.line_num + 1
    except csv.Error:  # the field is too large for this reader
        spans.append((rows.line_num - number, -number))
    wrapped, first = max(spans)
    odd = next((place for place, line in enumerate(lines, 1) if line.count('"') % 2), 0)
    found = -first if wrapped else odd
    return f" A quotation mark in line {found} is not closed." if found else ""


def guessed(file: Path) -> str:
    """Guess the encoding of a file. Only UTF-8 and UTF-16 are certain."""
    with _opened(file) as begins:
        head = begins.read(_HEAD)
    encoding = _told_by(head)
    if encoding == "utf-8" and head.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if encoding == "utf-8" and len(head) == _HEAD:  # further on it may be another one
        whole = _content(file)
        return "utf-8" if _is_utf8(whole) else _of_letters(whole)
    return encoding or _of_letters(head)


def _of_letters(content: bytes) -> str:
    if _looks_korean(content):
        return "cp949"
    others = _greek(content) or (["cp1254"] if _looks_turkish(content) else [])
    for name in (*others, *(("cp1250", "cp1252") if _CENTRAL.search(content) else ("cp1252", "cp1250"))):
        try:
            content.decode(name)
        except UnicodeDecodeError:  # in each, five or more bytes have no letter; in Latin-1 every byte has one
            continue
        return name
    return "latin-1"


def _readable(file: Path, encoding: str) -> Source:
    """The file itself if it is UTF-8, else its content in UTF-8."""
    with _opened(file) as begins:
        head = begins.read(_HEAD)
    name = known_encoding(encoding) if encoding else _told_by(head)
    marks = {**_MARKS, codecs.BOM_UTF8: "utf-8"}
    marked = next((known for mark, known in marks.items() if head.startswith(mark)), "") if encoding else ""
    if not name.startswith(marked[:5]):  # utf-16-le is utf-16, too
        raise InputError(
            f"{str(file)!r} is {marked.upper()}, not {name.upper()}. Leave the encoding out: it is recognised."
        )
    if name in ("utf-8", "utf-8-sig"):
        return file
    if not name:
        raise InputError(not_utf8(file))
    decoder = codecs.getincrementaldecoder(name)()
    turned = io.BytesIO()
    try:
        with _opened(file) as content:
            while part := content.read(16 * _HEAD):
                turned.write(decoder.decode(part).encode("utf-8"))
            turned.write(decoder.decode(b"", final=True).encode("utf-8"))
    except UnicodeDecodeError:
        known = f"is not {name.upper()}" if encoding else f"begins as {name.upper()} and is damaged further on"
        raise InputError(f"{str(file)!r} {known}.") from None
    turned.seek(0)
    return turned


def _told_by(head: bytes) -> str:
    return next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), _unmarked(head))


def _unmarked(head: bytes) -> str:
    """The encoding of a file without a mark; empty if it is neither UTF-8 nor UTF-16."""
    if b"\0" in head:  # no text has such a letter, but every second byte of Latin letters in UTF-16 is one
        return "utf-16-le" if head[1::2].count(0) > head[::2].count(0) else "utf-16-be"
    return "utf-8" if _is_utf8(head) else ""


def _is_utf8(content: bytes) -> bool:
    """Whether this is UTF-8, or the beginning of it."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(content)
    except UnicodeDecodeError:
        return False
    return True


def _looks_korean(content: bytes) -> bool:
    """Whether this may be CP949: then it has Korean syllables and no letters of other scripts."""
    try:
        odd = {letter for letter in codecs.getincrementaldecoder("cp949")().decode(content) if ord(letter) > 127}
    except UnicodeDecodeError:
        return False
    letters = {letter for letter in odd if unicodedata.category(letter).startswith("L")}
    return bool(letters) and all("가" <= letter <= "힣" for letter in letters)


def _greek(content: bytes) -> list[str]:
    """The encodings of Greek, the likelier first, if this looks so: whole words of its letters, half of them vowels.

    The two differ in one letter: Ά is A2 in CP1253, and B6 in ISO 8859-7.
    """
    high, strange, vowels = (_number(content, letters) for letters in (_HIGH, _NOT_GREEK, _GREEK_VOWELS))
    in_words = sum(len(word[0]) for word in re.finditer(rb"[\xb8-\xff]{3,}", content)) if vowels > 0.35 * high else 0
    if in_words <= 0.5 * high or high <= 50 * strange:
        return []
    windows, iso = (len(re.findall(letter + rb"[\xc1-\xfe]", content)) for letter in (rb"\xa2", rb"\xb6"))
    return ["iso8859-7", "cp1253"] if iso > windows else ["cp1253", "iso8859-7"]


def _number(content: bytes, letters: bytes) -> int:
    return len(content) - len(content.translate(None, letters))


def _looks_turkish(content: bytes) -> bool:
    """Whether this may be CP1254: then it has letters of Turkish, and hardly any of other languages."""
    return _number(content, _TURKISH) > 20 * _number(content, _NOT_TURKISH)


def _opened(file: Path) -> Any:
    return gzip.open(file) if file.suffix.lower() == ".gz" else file.open("rb")


def _content(file: Path) -> bytes:
    with _opened(file) as content:
        whole: bytes = content.read()
    return whole


def read_head(file: Path, encoding: str, size: int = 2**16) -> str:
    """The beginning of a text file."""
    with _opened(file) as begins:
        return codecs.getincrementaldecoder(encoding)("replace").decode(begins.read(size))


def read_tail(file: Path, encoding: str) -> list[str]:
    """The last lines of a text file; nothing if it is compressed."""
    if file.suffix.lower() == ".gz":
        return []
    with file.open("rb") as content:
        size = content.seek(0, os.SEEK_END)
        content.seek(max(size - 2**14, 0) // 4 * 4)
        name = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)
        return content.read().decode(name, errors="ignore").splitlines()[1:]


def read_text(path: Path_, encoding: str = "") -> str:
    """A whole text file, in the declared encoding, else in UTF-8 or UTF-16."""
    file = Path(path)
    if not file.is_file():
        folder = file.parent if file.parent.is_dir() else Path()
        raise InputError(f"there is no file {str(file)!r}.{nearest(file.name, (p.name for p in folder.iterdir()))}")
    source = _readable(file, encoding)
    content = _content(source) if isinstance(source, Path) else source.getvalue()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(not_utf8(file)) from None
