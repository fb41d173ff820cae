"""What all addresses share: reading the parameters, and the content of an answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from ilba.errors import InputError, listing, nearest
from ilba.service.asked import put

API = "/api/v2"
_MOST_PAIRS = 2000


@dataclass(frozen=True)
class Answer:
    """The content of an answer, ready to send, and its headers."""

    body: bytes
    media: str
    headers: Mapping[str, str] = field(default_factory=dict)


Make: TypeAlias = Callable[[], Answer]


def plain(value: Any) -> bytes:
    """A value as JSON."""
    return msgspec.json.encode(value)


def as_json(value: Any, lang: str | None = None) -> Answer:
    """A value as the content of an answer."""
    return Answer(plain(value), "application/json", {"Content-Language": lang} if lang else {})


def pairs(request: Request) -> list[tuple[str, str]]:
    """The parameters of an address, as given."""
    try:
        query = request.scope["query_string"].decode("utf-8")
        return parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PAIRS, errors="strict", encoding="utf-8")
    except ValueError:
        raise InputError(f"the address has more than {_MOST_PAIRS} parameters, or is not UTF-8.") from None


def query(request: Request, known: tuple[str, ...]) -> dict[str, str]:
    """The parameters of an address, in lower case; an unknown one is refused."""
    found: dict[str, str] = {}
    for name, value in pairs(request):
        put(found, name, value)
    check_known(found, known)
    return found


def check_known(given: Mapping[str, str], known: tuple[str, ...]) -> None:
    """Refuse an unknown parameter."""
    for name in given:
        if name not in known:
            said = f"It takes {listing(known)}." if known else "It takes none."
            raise InputError(f"the parameter {name[:50]!r} is not known here.{nearest(name[:50], known)} {said}")


def number(asked: Mapping[str, str], name: str, least: int, most: int, otherwise: int = 0) -> int:
    """A whole number among the parameters."""
    text = asked.get(name.lower(), str(otherwise))
    if not re.fullmatch(r"[0-9]{1,10}", text) or not least <= int(text) <= most:
        raise InputError(f"{name} is {text[:50]!r}. It is a whole number from {least} on.")
    return int(text)
