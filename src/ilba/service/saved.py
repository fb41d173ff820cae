"""Saved queries of PxWebApi 2 without storage: the id of a query is the query itself.

So any worker on any host can answer an id as long as the table is published, and nobody can fill a disk.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from typing import Any

import msgspec

from ilba.errors import InputError
from ilba.service.addresses import API
from ilba.service.asked import UnknownError

_LONGEST = 1500  # letters of an id, which has to fit into an address
_MOST_BYTES = 100_000  # of an unpacked query


class SavedQuery(msgspec.Struct, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """What is saved: a table, a selection, a language and a format."""

    table_id: str
    selection: dict[str, Any]
    language: str
    output_format: str = ""
    output_format_params: list[str] = []
    id: str | None = None

    @property
    def body(self) -> bytes:
        """The selection as the body of a question for data."""
        return msgspec.json.encode(self.selection)


def from_body(content: bytes) -> SavedQuery:
    """The query that somebody wants to save."""
    try:
        query = msgspec.json.decode(content, type=SavedQuery)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise InputError(
            'the body is not of the form {"tableId": "...", "language": "en", "selection": {"selection": '
            '[{"variableCode": "...", "valueCodes": ["..."]}]}}.'
        ) from None
    query.id = None
    return query


def named(query: SavedQuery) -> str:
    """The id of a query."""
    packed = zlib.compress(msgspec.json.encode(query, order="sorted"), 9)
    name = base64.urlsafe_b64encode(packed).decode().rstrip("=")
    if len(name) > _LONGEST:
        raise InputError("the selection is too long to be saved. Name values by patterns, such as * or 01*.")
    return name


def opened(name: str) -> SavedQuery:
    """The query that an id stands for."""
    unknown = UnknownError(f"there is no saved query {name[:60]!r}.")
    if len(name) > _LONGEST or not name.isascii():
        raise unknown
    try:
        packed = base64.b64decode(name + "=" * (-len(name) % 4), altchars=b"-_", validate=True)
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(packed, _MOST_BYTES)
        if not unpacking.eof:
            raise unknown
        query = msgspec.json.decode(content, type=SavedQuery)
    except (binascii.Error, ValueError, zlib.error, msgspec.DecodeError, RecursionError):
        raise unknown from None
    return query


def told(query: SavedQuery, lang: str) -> dict[str, Any]:
    """A saved query as it is answered."""
    name = named(query)
    links = [("self", ""), ("data", "/data"), ("selection", "/selection")]
    return {
        "language": lang,
        "id": name,
        "savedQuery": {"id": name, **json.loads(msgspec.json.encode(query)), "language": query.language or lang},
        "links": [
            {"rel": relation, "hreflang": lang, "href": f"{API}/savedqueries/{name}{path}"} for relation, path in links
        ],
    }
