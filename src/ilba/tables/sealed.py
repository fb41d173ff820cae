"""A Parquet file that carries its own checksums, so that no reader ever parses damaged bytes.

A Parquet file is data, a footer, the footer's length and `PAR1`. Readers find the footer from the end and the data by
offsets from the start, so no reader sees bytes between the two. The seal is there::

    data | 16 bytes that name the seal | SHA-256 of data | SHA-256 of seal so far and footer | footer | length | PAR1

The two parts are checked separately: the footer alone tells what a file is, without reading its data.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# Not text in any encoding that we write, so no label can look like it.
_NAME = b"\xff\xfeilba seal 1\xfe\xff\x00"
_SUM = 32
_SIZE = len(_NAME) + 2 * _SUM
_TAIL = 8


class BrokenSeal(ValueError):  # noqa: N818 - it names what was found
    """The bytes of a file are not those that were written."""


def seal(file: Path) -> None:
    """Write the checksums of a Parquet file into it."""
    with file.open("rb+") as handle:
        end = handle.seek(0, 2)
        handle.seek(end - _TAIL)
        cut = end - _TAIL - int.from_bytes(handle.read(4), "little")
        data = hashlib.sha256()
        handle.seek(0)
        for first in range(0, cut, 2**20):
            data.update(handle.read(min(2**20, cut - first)))
        footer = handle.read()
        handle.seek(cut)
        begun = _NAME + data.digest()
        handle.write(begun + hashlib.sha256(begun + footer).digest() + footer)


def is_sealed(content: bytes) -> bool:
    """Whether the bytes of a file have a seal; raises `BrokenSeal` if it does not match them."""
    place = content.rfind(_NAME)
    if place < 0:
        return False
    view = memoryview(content)
    begun, rest = view[place : place + _SIZE - _SUM], view[place + _SIZE :]
    kept = view[place + len(_NAME) : place + _SIZE]
    if kept != hashlib.sha256(view[:place]).digest() + hashlib.sha256(bytes(begun) + bytes(rest)).digest():
        raise BrokenSeal
    return True


def footer(file: Path) -> bytes:
    """The footer of a Parquet file, as a file without data; checked if the file is sealed."""
    with file.open("rb") as handle:
        end = handle.seek(0, 2)
        handle.seek(max(0, end - _TAIL))
        tail = handle.read()
        length = int.from_bytes(tail[:4], "little") + _TAIL
        handle.seek(max(0, end - length - _SIZE))
        content = handle.read()
    sealed, found = content[: max(0, len(content) - length)], content[-length:]
    if sealed.startswith(_NAME) and hashlib.sha256(sealed[:-_SUM] + found).digest() != sealed[-_SUM:]:
        raise BrokenSeal
    return b"PAR1" + found
