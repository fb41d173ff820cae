"""Turn plain values of a file, such as TOML, into types; refuse an unknown name and suggest the nearest."""

from __future__ import annotations

import re
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ilba.errors import InputError, listing, nearest

S = TypeVar("S", bound=msgspec.Struct)


def checked(plain: Any, kind: type[S], where: str) -> S:
    """Turn plain values into a struct; errors name them by `where`.

    >>> class Colour(msgspec.Struct):
    ...     red: int = 0
    >>> checked({"red": 2}, Colour, "colour").red
    2
    """
    _refuse_unknown(plain, kind, where)
    try:
        return msgspec.convert(plain, kind, strict=True)
    except msgspec.ValidationError as problem:
        raise InputError(_told(str(problem), where, kind)) from None


def _told(text: str, where: str, kind: type[msgspec.Struct]) -> str:
    """The error of msgspec as a sentence that names the entry."""
    said, _, place = text.partition(" - at ")
    entry = re.sub(r"\[\.\.\.\]", "", place.strip("`").removeprefix("$")).replace("key in ", "").lstrip(".")
    missing = re.search(r"missing required field `([^`]*)`", said)
    path = ".".join(part for part in (where, entry) if part)
    if missing:
        return f"{path} has no entry {missing[1]!r}. Add it."
    wrong = re.search(r"[Ii]nvalid enum value '?([^']*)'?", said)
    words = _words_at(kind, entry.split(".")) if wrong else []
    if wrong and words:
        return f"{path}: {wrong[1]!r} is not known.{nearest(wrong[1], words)} Write one of {listing(words, 20)}."
    said = (
        said.replace("`", "").replace("Expected", "expected").replace("Invalid", "invalid").replace("object", "table")
    )
    return f"{path}: {said}."


def _refuse_unknown(plain: Any, kind: Any, where: str) -> None:
    """Refuse names that a struct does not have, here and in the structs inside."""
    if isinstance(plain, list):
        inner = next(iter(typing.get_args(kind)), None)
        for one in plain:
            _refuse_unknown(one, inner, where)
    if not isinstance(plain, Mapping):
        return
    struct = _struct_in(kind)
    if struct is None:
        of_values = _values_in(kind)
        for name, value in plain.items():
            _refuse_unknown(value, of_values, f"{where}.{name}")
        return
    types = {field.encode_name: field.type for field in msgspec.structs.fields(struct)}
    for name, value in plain.items():
        if name not in types:
            raise InputError(
                f"{where} has the entry {name!r}, which is not known.{nearest(name, types)} "
                f"Entries here are {listing(types, 30)}."
            )
        _refuse_unknown(value, types[name], f"{where}.{name}")


def _words_at(kind: Any, entry: list[str]) -> list[str]:
    """The allowed words of an entry."""
    for name in entry:
        struct = _struct_in(kind)
        if struct is None:
            kind = _values_in(kind)
            continue
        kind = next((field.type for field in msgspec.structs.fields(struct) if field.encode_name == name), None)
    alternatives = (one for part in (kind, *_alternatives(kind)) for one in (part, *typing.get_args(part)))
    found = [typing.get_args(one) for one in alternatives if typing.get_origin(one) is typing.Literal]
    return [str(word) for word in found[0]] if found else []


def _struct_in(kind: Any) -> type[msgspec.Struct] | None:
    """The struct that a type holds: itself, or one of its alternatives."""
    for one in (kind, *_alternatives(kind)):
        if isinstance(one, type) and issubclass(one, msgspec.Struct):
            return one
    return None


def _values_in(kind: Any) -> Any:
    """The type of the values of a mapping."""
    for one in (kind, *_alternatives(kind)):
        if typing.get_origin(one) in (dict, Mapping):
            return typing.get_args(one)[1]
    return None


def _alternatives(kind: Any) -> list[Any]:
    found: list[Any] = []
    for one in typing.get_args(kind):
        found += [one, *(_alternatives(one) if typing.get_origin(one) not in (dict, list) else [])]
    return found if typing.get_origin(kind) not in (dict, list) else []
