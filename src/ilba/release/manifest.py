"""The manifest of a release: its required content, and its own checksum.

The reader checks the types below. `manifest.schema.json` beside this file says the same as JSON Schema, for other
readers. It is generated from these types, and a test compares the two.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ilba.design.design import LARGEST, Design, file_name
from ilba.errors import InputError

_SUMS = {"controlled": True, "ilba": False, "cell-key": False}
"""whether tables add up, for the methods for which it is known"""
FORMAT = 2
"""format 1 has no checksum of the manifest itself and no origins"""

Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Count: TypeAlias = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Digest: TypeAlias = Annotated[str, Meta(pattern="^[0-9a-f]{64}$", description="SHA-256 of the file, in hexadecimal")]


class HierarchyEntry(Struct):
    """A hierarchy: its columns from coarse to fine."""

    name: Name
    columns: Annotated[list[Name], Meta(min_length=1)]


class TableFile(Struct):
    """One table of the release."""

    name: Name
    file: Annotated[str, Meta(pattern=r"^tables/[^/\\]+\.parquet$")]
    levels: Annotated[dict[str, Count], Meta(description="the level of each hierarchy; 0 is none")]
    keys: list[Name]
    columns: list[Name]
    rows: Count
    sha256: Digest


class CodesEntry(Struct):
    """The code lists."""

    file: Literal["codes.csv"]
    sha256: Digest


class MapEntry(Struct):
    """The map of an area column."""

    column: Name
    file: Annotated[str, Meta(pattern=r"^geometry/[^/\\]+\.geojson$")]
    sha256: Digest


class OriginsEntry(Struct):
    """Which parts of the release a person declared, and which follow from the data or from the tables."""

    hierarchies: Literal["declared", "proposed"]
    keys: Literal["declared", "proposed"]
    codes: dict[str, Literal["declared", "published"]]


class PopulationEntry(Struct):
    """The people or units that the tables count, and when."""

    name: Annotated[str, Meta(description="the same in all releases about the same people")] = ""
    wave: str = ""
    period: str = ""
    unit: Annotated[str, Meta(description="what one record stands for")] = ""


class TextsEntry(Struct):
    """The texts for readers in one language; a missing text is shown as in the release without a language."""

    title: str = ""
    description: str = ""
    source: str = ""
    unit: str = ""
    note: Annotated[str, Meta(description="a sentence of the agency beside the notes on masking")] = ""


class Manifest(Struct):
    """The manifest of a release of frequency tables."""

    format: Literal[1, 2]
    title: str
    description: str
    source: str
    method: Annotated[
        str,
        Meta(min_length=1, max_length=100, description="ilba, controlled, cell-key or any other method, by its name"),
    ]
    hierarchies: Annotated[list[HierarchyEntry], Meta(min_length=1)]
    keys: list[Name]
    threshold: Annotated[int, Meta(ge=3, le=LARGEST)]
    cells: Literal["observed", "grid"]
    rows: Literal["nonzero", "grid"]
    absent: Annotated[
        Literal[0, None], Meta(description="the count of a combination without a row; null if it is left blank")
    ]
    additive: bool
    tables: list[TableFile]
    codes: CodesEntry
    geometry: list[MapEntry]
    software: str
    created: Annotated[datetime.datetime, Meta(tz=True)]
    origins: OriginsEntry | UnsetType = UNSET
    bound: Annotated[int, Meta(ge=1)] | UnsetType = UNSET
    parameters: (
        Annotated[dict[str, float | str | bool], Meta(description="the public parameters of the method")] | UnsetType
    ) = UNSET
    licence: Annotated[str, Meta(description="the licence of the tables, its name or address")] | UnsetType = UNSET
    sums: Annotated[bool, Meta(description="whether all counts are sums of the published counts of a finer table")] = (
        False
    )
    blanks: Annotated[bool, Meta(description="whether rows without a number stand for counts that are left blank")] = (
        False
    )
    population: PopulationEntry | UnsetType = UNSET
    texts: Annotated[dict[str, TextsEntry], Meta(description="by language, such as fr or pt-BR")] | UnsetType = UNSET
    checksum: (
        Annotated[
            str,
            Meta(
                pattern="^[0-9a-f]{64}$",
                description="SHA-256 of the manifest without this field, as JSON with sorted names and no blanks",
            ),
        ]
        | UnsetType
    ) = UNSET


class NewerFormat(ValueError):  # noqa: N818 - it names what was found
    """A manifest that a later version wrote."""


def dump(manifest: dict[str, Any]) -> str:
    """The text of a manifest, including its checksum."""
    told = {name: value for name, value in manifest.items() if name != "checksum"}
    return json.dumps({**told, "checksum": _checksum(told)}, ensure_ascii=False, indent=1) + "\n"


def load(text: str | bytes) -> dict[str, Any]:
    """Read a manifest from its text, check it and remove its checksum; any mistake is a `ValueError`.

    Unknown fields are kept: they add information and change nothing.
    """
    try:
        told = json.loads(text, parse_constant=_refused)
        json.dumps(told, ensure_ascii=False).encode()  # JSON can spell half a character, which is an error here
        found = told.get("format") if isinstance(told, dict) else None
        if isinstance(found, int) and not isinstance(found, bool) and found > FORMAT:
            raise NewerFormat(f"format {found}")
        manifest = msgspec.convert(told, Manifest)
        kept = told.pop("checksum", None)
        if (manifest.format > 1 or kept is not None) and kept != _checksum(told):
            raise ValueError("its checksum does not fit")
        _check(manifest, Design.from_json(told))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except InputError as problem:
        raise ValueError(str(problem)) from None
    except msgspec.ValidationError as problem:
        raise ValueError(str(problem)) from None
    checked: dict[str, Any] = told
    return checked


def schema() -> dict[str, Any]:
    """The JSON Schema of a manifest."""
    _, parts = msgspec.json.schema_components([Manifest], ref_template="#/$defs/{name}")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **parts.pop("Manifest"), "$defs": parts}


def _refused(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _checksum(told: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _check(manifest: Manifest, design: Design) -> None:
    """Check what the types do not say: that the parts of a manifest agree."""
    if manifest.method in _SUMS and manifest.additive != _SUMS[manifest.method]:
        raise ValueError("method and additive do not fit")
    if manifest.additive and (manifest.blanks or manifest.absent is None):
        raise ValueError("tables with blanks do not add up")
    names = [hierarchy.name for hierarchy in design.hierarchies]
    if len(manifest.hierarchies) != len(names):
        raise ValueError("two hierarchies have the same name")
    for table in manifest.tables:
        if {*table.levels} != {*names}:
            raise ValueError(f"the levels of {table.name!r} are not those of the hierarchies")
        selection = design.select(dict(table.levels), table.keys)
        expected = (selection.name, list(selection.columns), f"tables/{file_name(selection.name)}.parquet")
        if (table.name, table.columns, table.file) != expected:
            raise ValueError(f"the entry of {table.name!r} does not fit its levels and keys")
    areas = [column for hierarchy in design.hierarchies for column in hierarchy.columns]
    for entry in manifest.geometry:
        if entry.column not in areas:
            raise ValueError(f"the map of {entry.column!r} is not of an area column")
    for what, found in (("table", [t.name for t in manifest.tables]), ("map", [m.column for m in manifest.geometry])):
        if len(set(found)) < len(found):
            raise ValueError(f"it holds a {what} twice")
