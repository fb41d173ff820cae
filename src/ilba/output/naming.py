"""Names of tables for people: of exported and downloaded files, and of sheets, in readable letters.

Inside a release the names of tables and files stay as they are.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable

from ilba.design.design import shown_name

_MOST_BYTES = 200  # of the 255 of a file system: languages, endings and temporary names are added
_SHEET_LETTERS = 31  # of UTF-16, the limit of Excel


def file_names(tables: Iterable[str]) -> dict[str, str]:
    """The names of the files of some tables without the ending, different on every file system.

    A name that has only plain letters is kept. If two are alike for a file system, the other one gets a mark.

    >>> file_names(["all.%CE%97%CE%BB", "town.age%20group"])
    {'all.%CE%97%CE%BB': 'all.Ηλ', 'town.age%20group': 'town.age group'}
    """
    readable = {table: _readable(table, r'<>:"/\\|?*') for table in tables}
    found, taken = {}, set()
    for table, name in sorted(readable.items(), key=lambda one: one[0] != one[1]):
        mark = f"~{hashlib.sha256(table.encode()).hexdigest()[:16]}"
        is_long = len(name.encode()) > _MOST_BYTES
        if is_long or _alike(name) in taken:
            name = _beginning(name, 150, lambda letter: len(letter.encode())) + mark
        taken.add(_alike(name))
        found[table] = name
    return {table: found[table] for table in readable}


def sheet_name(table: str, others: Iterable[str] = ()) -> str:
    """The name of the sheet of a table, beside other sheets.

    >>> sheet_name("all.%CE%97%CE%BB"), sheet_name("codes", ["Codes"])
    ('all.Ηλ', 'codes_')
    """
    text = _readable(table, r"\[\]:*?/\\")
    name = _beginning(text, _SHEET_LETTERS, _utf16).strip("'") or "table"
    reserved = {_alike(one) for one in (*others, "History")}
    return f"{_beginning(name, _SHEET_LETTERS - 1, _utf16)}_" if _alike(name) in reserved else name


def _readable(table: str, forbidden: str) -> str:
    """The name of a table in readable letters; a forbidden one becomes _, and so does a dot that would hide a file."""
    text = unicodedata.normalize("NFC", shown_name(table))
    return re.sub(rf"[{forbidden}\x00-\x1f\x7f-\x9f\u2028\u2029]|^\.", "_", text)


def _alike(name: str) -> str:
    """A name without the differences that some file systems ignore: case and normal form."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).upper().casefold())


def _beginning(text: str, most: int, size: Callable[[str], int]) -> str:
    """As much of a text as has this size, without cutting a letter from its accents."""
    total = 0
    for end, letter in enumerate(text):
        total += size(letter)
        if total > most:
            while end and unicodedata.combining(text[end]):
                end -= 1
            return text[:end]
    return text


def _utf16(letter: str) -> int:
    return len(letter.encode("utf-16-le")) // 2
