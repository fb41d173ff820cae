"""A data.frame as R's `saveRDS` writes it, with what the package haven says of columns and codes."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

_OBJECT, _HAS_ATTRIBUTES, _HAS_TAG, _END = 1 << 8, 1 << 9, 1 << 10, 254


def labelled_frame(file: Path, codes: list[float], label: str, labels: dict[str, float], other: list[str]) -> None:
    """Write a frame of a labelled column `sex` and a column of text `town`."""
    named = _vector(14, list(labels.values()), {"names": _texts(list(labels))})
    sex = _vector(14, codes, {"label": _texts([label]), "labels": named, "class": _texts(["haven_labelled", "double"])})
    rows = _vector(13, [-(2**31), -len(codes)], {})
    about = {"names": _texts(["sex", "town"]), "row.names": rows, "class": _texts(["data.frame"])}
    frame = _ints(19 | _OBJECT | _HAS_ATTRIBUTES, 2) + sex + _texts(other) + _attributes(about)
    file.write_bytes(gzip.compress(b"X\n" + _ints(2, 0x030602, 0x020300) + frame))


def _ints(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def _text(text: str) -> bytes:
    written = text.encode()
    return _ints(0x8009, len(written)) + written


def _texts(texts: list[str]) -> bytes:
    return _ints(16, len(texts)) + b"".join(map(_text, texts))


def _vector(kind: int, values: list[float], about: dict[str, bytes]) -> bytes:
    is_object = _OBJECT if "class" in about else 0
    head = _ints(kind | is_object | (_HAS_ATTRIBUTES if about else 0), len(values))
    body = struct.pack(f">{len(values)}{'d' if kind == 14 else 'i'}", *values)
    return head + body + (_attributes(about) if about else b"")


def _attributes(about: dict[str, bytes]) -> bytes:
    return b"".join(_ints(2 | _HAS_TAG, 1) + _text(name) + value for name, value in about.items()) + _ints(_END)
