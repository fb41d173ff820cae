"""The publication file, `publication.toml`: everything that a person declares about a publication.

It goes into a repository, so it never contains values of the data: it names files of code lists, recodes, hierarchies
and maps. `proposed` lists the entries that were proposed from the data, until a person removes them.
`publication.schema.json` beside this module is the JSON Schema for editors; it is made from these types, and a test
compares the two.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct, field

from ilba.data.plain import checked
from ilba.data.recipe import ColumnRecipe, Whole
from ilba.errors import InputError, nearest

FORMAT = 1
NAME = "publication.toml"
SCHEMA = "publication.schema.json"
Path_: TypeAlias = str | os.PathLike[str]
Name: TypeAlias = Annotated[str, Meta(min_length=1)]
Language: TypeAlias = Annotated[str, Meta(pattern="^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$")]
Words: TypeAlias = Annotated[
    str | dict[Language, str], Meta(description='a text, or one per language: {en = "..", fr = ".."}')
]
Format: TypeAlias = Literal["csv", "parquet", "xlsx", "json-stat", "sdmx-csv", "sdmx-ml", "px"]

Header: TypeAlias = Annotated[
    int, Meta(ge=0, le=1000, description="the line with the column names; by default the first")
]
Notes: TypeAlias = Annotated[Literal["", "drop"], Meta(description="drop: leave out titles, footnotes, repeated names")]


class SourceEntry(Struct, frozen=True):
    """The file of records."""

    file: Annotated[Name, Meta(description="csv, xlsx, parquet, SPSS, Stata, SAS or R; {wave} is the wave")]
    encoding: Annotated[str, Meta(description="of a csv file: utf-8, utf-16, cp949, cp1252, latin-1")] = ""
    separator: Annotated[str, Meta(description="of a csv file: a letter, or tab")] = ""
    decimal: Annotated[Literal["", ".", ","], Meta(description="how numbers are written; ',' also reads 1.530,55")] = ""
    sheet: Annotated[str, Meta(description="of a workbook")] = ""
    header: Header = 0
    notes: Notes = ""
    together: Annotated[
        str, Meta(description="the column of folders such as day=2026-11-01 that have different people, to be added up")
    ] = ""
    record_key: Annotated[str, Meta(description="with cell keys: the column of record keys")] = ""
    missing: Annotated[
        Literal["drop", "category"], Meta(description="records with a missing value: left out, or a category")
    ] = "drop"


class PopulationFields(Struct, frozen=True):
    """The population of the records."""

    name: Annotated[str, Meta(description="the same for all data about the same people")] = ""
    wave: Annotated[str, Meta(description="the name of this count of them")] = ""
    period: Annotated[str, Meta(description="the reference time of the data; {wave} stands for the wave")] = ""
    unit: Annotated[Words, Meta(description="the unit of a record, such as persons")] = ""


class AboutEntry(Struct, frozen=True):
    """Information for readers."""

    title: Words = "Frequency tables"
    description: Words = ""
    source: Annotated[Words, Meta(description="where the data comes from")] = ""
    licence: Annotated[str, Meta(description="its name or address")] = ""


class FileEntry(Struct, frozen=True):
    """A file of columns."""

    file: Name
    sheet: str = ""
    encoding: str = ""
    separator: str = ""
    header: Header = 0
    notes: Notes = ""


class CodeListFields(FileEntry, frozen=True):
    """The code list of a column: all codes and their labels."""

    code: Annotated[str, Meta(description="the column of codes; by default the first")] = ""
    label: Annotated[Words, Meta(description='the column of labels, or one per language: {en = "name"}')] = ""
    parent: Annotated[str, Meta(description="the column of the code one level up")] = ""
    pad: Annotated[Whole | None, Meta(description="add leading zeros to its codes up to this length")] = None


class MapFields(Struct, frozen=True):
    """The map of an area column."""

    file: Annotated[Name, Meta(description="GeoJSON, GeoPackage, shapefile")]
    code: Annotated[str, Meta(description="the property with the code; by default id")] = "id"
    layer: str = ""
    pad: Annotated[Whole | None, Meta(description="add leading zeros to its codes up to this length")] = None


class HierarchyFields(Struct, frozen=True):
    """A hierarchy over one column of codes: from a file, or from the first letters of the codes."""

    column: Annotated[Name, Meta(description="the finest column")]
    levels: Annotated[list[Name], Meta(description="names of the levels above it, from coarse to fine", min_length=1)]
    file: Annotated[str, Meta(description=".hrc, or a table with a parent of each code")] = ""
    code: Annotated[str, Meta(description="in a table: the column of codes")] = ""
    parent: Annotated[str, Meta(description="in a table: the column of parents")] = ""
    prefixes: Annotated[list[int], Meta(description="the number of letters of a code at each level")] = []
    sheet: str = ""
    encoding: str = ""
    separator: str = ""
    header: Header = 0
    notes: Notes = ""
    pad: Annotated[Whole | None, Meta(description="add leading zeros to its codes up to this length")] = None


class TablesEntry(Struct, frozen=True):
    """Which tables are published."""

    names: Annotated[list[Name], Meta(description="tables such as town.sex.age; by default all")] = []
    levels: Annotated[list[str | int], Meta(description="only these levels")] = []
    keys: Annotated[list[Name], Meta(description="only subsets of these keys")] = []
    max_keys: Annotated[Annotated[int, Meta(ge=0)] | None, Meta(description="at most this many keys in a table")] = None
    plan: Annotated[list[Name], Meta(description="tables for which masks are chosen; by default all")] = []
    rows: Literal["nonzero", "grid"] = "nonzero"


class OutputsEntry(Struct, frozen=True):
    """The output folders, relative to this file."""

    release: Annotated[Name, Meta(description="the public folder; {wave} stands for the wave")] = "release"
    exports: Annotated[str, Meta(description="the public folder of exported tables; {wave} is the wave")] = "exports"
    formats: Annotated[list[Format], Meta(description="formats of exported tables")] = []
    languages: Annotated[list[Language], Meta(min_length=1, description="of exports; pages are in en or ko")] = field(
        default_factory=lambda: ["en"]
    )
    spreadsheet: Annotated[bool, Meta(description="csv files for Excel: byte order mark, no formulas")] = True
    pdf: Annotated[bool, Meta(description="also write the decision page as PDF, with the extra pdf")] = False
    confidential: Annotated[Name, Meta(description="the folder of store, secret, ledger and reports")] = "confidential"


class PublicationFile(Struct, frozen=True):
    """A publication: its source, content and method."""

    source: SourceEntry
    hierarchies: Annotated[dict[str, list[Name] | HierarchyFields], Meta(min_length=1)]
    format: Literal[1] = 1
    proposed: Annotated[list[str], Meta(description="entries that were proposed from the data and not confirmed")] = []
    keys: list[Name] = []
    mask_thr: Annotated[int, Meta(ge=3, description="the threshold K")] = 5
    method: Annotated[str, Meta(description="controlled, ilba, or one with parameters: cell-key:D=5,V=3,js=2")] = (
        "controlled"
    )
    cells: Literal["observed", "grid"] = "observed"
    bound: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="with controlled: the largest loss that masks are chosen for"),
    ] = None
    sweeps: Annotated[
        Annotated[int, Meta(ge=10)] | None,
        Meta(description="with controlled: the work spent on sums nearer to the truth"),
    ] = None
    move: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="with controlled: how far large counts may move; published")
    ] = None
    noise: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | None,
        Meta(description="with controlled: for this share of small cells the target is one off; published"),
    ] = None
    accept_risk: Annotated[
        bool, Meta(description="with another method than controlled: publish tables that are not found safe")
    ] = False
    budget: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="with noise: the epsilon of all publications together")
    ] = None
    secret: Annotated[str, Meta(description="the secret file; by default beside the store")] = ""
    ledger: Annotated[str, Meta(description="the ledger; by default ILBA_LEDGER, else beside the secret")] = ""
    population: PopulationFields = field(default_factory=PopulationFields)
    about: AboutEntry = field(default_factory=AboutEntry)
    recipe: dict[str, Any] = field(default_factory=dict)
    codes: Annotated[dict[str, CodeListFields], Meta(description="for a column its code list")] = field(
        default_factory=dict
    )
    lists: Annotated[list[Name], Meta(description="code lists of variable, code, label_en, label_ko, parent")] = []
    maps: Annotated[dict[str, MapFields], Meta(description="for an area column its map")] = field(default_factory=dict)
    labels: Annotated[dict[str, Words], Meta(description="the names of columns")] = field(default_factory=dict)
    tables: TablesEntry = field(default_factory=TablesEntry)
    outputs: OutputsEntry = field(default_factory=OutputsEntry)


class _RecipeFields(Struct):
    """Entries of [recipe] that are not columns."""

    trim: Annotated[bool, Meta(description="drop blanks around all values")] = True
    missing: Annotated[list[str], Meta(description="spellings of a missing value in every column")] = []
    where: Annotated[dict[str, list[str]], Meta(description="count only records with these values")] = {}
    without: Annotated[dict[str, list[str]], Meta(description="do not count records with these values: totals")] = {}


def found_at(path: Path_ | None = None) -> Path:
    """The publication file: as given, in the given folder, or in the current folder."""
    file = Path(path or NAME)
    if file.is_dir():
        file = file / NAME
    if not file.is_file():
        folder = file.parent if file.parent.is_dir() else Path()
        near = nearest(file.name, (one.name for one in folder.glob("*.toml")))
        raise InputError(f"there is no publication file {str(file)!r}.{near} `ilba init FILE...` writes one.")
    return file


def load(file: Path) -> PublicationFile:
    """Read a publication file; refuse unknown or misspelt entries."""
    try:
        plain = tomllib.loads(file.read_text("utf-8-sig"))
    except tomllib.TOMLDecodeError as problem:
        hint = " Write paths with / instead." if "\\" in str(problem) else ""
        hint = " Write texts in quotes." if str(problem).startswith("Invalid value") else hint
        raise InputError(f"{str(file)!r} is not TOML: {problem}.{hint}") from None
    except UnicodeDecodeError:
        raise InputError(f"{str(file)!r} is not UTF-8. Save it as UTF-8.") from None
    for name in ("source", "hierarchies"):
        if name not in plain:
            raise InputError(f"{str(file)!r} has no [{name}].{nearest(name, plain)} `ilba init FILE...` writes one.")
    _refuse_below(plain, file.name)
    found = checked(plain, PublicationFile, file.name)
    columns = {name: entry for name, entry in found.recipe.items() if name not in _RecipeFields.__struct_fields__}
    rest = {name: entry for name, entry in found.recipe.items() if name not in columns}
    checked(rest, _RecipeFields, "recipe")
    for name, entry in columns.items():
        if not isinstance(entry, dict):
            raise InputError(
                f"recipe.{name} is not a table of steps.{nearest(name, _RecipeFields.__struct_fields__)} "
                f"Write for example recipe.{name} = {{case = 'lower'}}."
            )
        checked(entry, ColumnRecipe, f"recipe.{name}")
    return found


def _refuse_below(plain: Mapping[str, Any], name: str) -> None:
    """Refuse an entry of the whole file that stands below a heading: TOML takes it as one of that table."""
    kinds = {one.name: one.type for one in msgspec.structs.fields(PublicationFile)}
    own = {
        heading: kind.__struct_fields__
        for heading, kind in (kinds | {"recipe": _RecipeFields}).items()
        if isinstance(kind, type) and issubclass(kind, Struct)
    }
    own |= {"codes": (), "maps": ()}  # columns; their entries are tables
    top = kinds.keys() - own.keys() - {"labels", "hierarchies"}
    for heading, fields in own.items():
        table = plain.get(heading)
        for entry, value in table.items() if isinstance(table, Mapping) else ():
            if entry in top and entry not in fields and not isinstance(value, Mapping):
                raise InputError(
                    f"{name}.{heading}.{entry}: `{entry}` stands at the top of the file, before the first [heading]. "
                    f"Move it there."
                )


def words(given: str | dict[Any, str], lang: str = "en") -> str:
    """A text in a language, or else in any other."""
    if isinstance(given, str):
        return given
    return given.get(lang) or next(iter(given.values()), "")


def toml(value: Any) -> str:
    """A value as a publication file spells it; blanks that nobody sees are spelled out.

    >>> print(toml({"replace": {"  ": " ", "\\u00a0": " "}}))
    {replace = {"  " = " ", "\\u00a0" = " "}}
    """
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_name(key)} = {toml(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    return re.sub(r"[^\S ]", lambda blank: f"\\u{ord(blank[0]):04x}", json.dumps(value, ensure_ascii=False))


def toml_name(key: str) -> str:
    """The name of an entry, in quotes if it needs them."""
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else toml(key)


def schema() -> dict[str, Any]:
    """The JSON Schema of a publication file."""
    (_, _), parts = msgspec.json.schema_components([PublicationFile, ColumnRecipe], ref_template="#/$defs/{name}")
    (_,), more = msgspec.json.schema_components([_RecipeFields], ref_template="#/$defs/{name}")
    for part in parts.values():
        part["additionalProperties"] = False
    recipe = {**more["_RecipeFields"], "additionalProperties": {"$ref": "#/$defs/ColumnRecipe"}}
    recipe["title"] = "Recipe"
    recipe["description"] = "How columns of the data are cleaned before they become labels."
    parts["PublicationFile"]["properties"]["recipe"] = {"$ref": "#/$defs/Recipe"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "ilba publication file",
        "$ref": "#/$defs/PublicationFile",
        "$defs": {**parts, "Recipe": recipe},
    }


def schema_text() -> str:
    """The JSON Schema as it is written to a file."""
    return json.dumps(schema(), indent=1, ensure_ascii=False) + "\n"
