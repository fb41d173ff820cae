"""A publication file checked against the data: recipe, design, code lists and maps."""

from __future__ import annotations

import os
import re
import shlex
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
import polars as pl

from ilba.data.reading import Reading
from ilba.data.recipe import ColumnRecipe, Recipe
from ilba.data.shapes import read_shapes
from ilba.design.design import Design, Selection
from ilba.design.tables import wanted_tables
from ilba.errors import InputError, listing, nearest
from ilba.files import writable_folder
from ilba.methods.controlled.search import bound_of, move_of, noise_of, sweeps_of
from ilba.methods.lab import method_of
from ilba.methods.method import Method
from ilba.output import pdf
from ilba.output.export import require
from ilba.output.wording import languages
from ilba.publication.codelists import DeclaredLists, paths_in
from ilba.publication.file import NAME, HierarchyFields, PublicationFile, found_at, load, words
from ilba.publication.matching import Matched, matched
from ilba.secret.secret import Secret, given_secret
from ilba.tables.beside import secret_beside, secret_for, secret_path
from ilba.tables.engine import AnyFinestTable

Path_: TypeAlias = str | os.PathLike[str]
METHODS = ("controlled", "ilba")
HOW = ("bound", "sweeps", "move", "noise")
"""entries that say how masks are chosen jointly"""


class Prepared:
    """A publication file with its recipe, design and lists. Files are read when they are needed."""

    def __init__(self, path: Path_ | None = None, wave: str = "") -> None:
        self.file = found_at(path)
        self.folder = self.file.parent
        self._wave = wave
        self.said: PublicationFile = _with_wave(load(self.file), wave)
        if "://" in self.said.source.file:
            raise InputError(
                f"source.file is the URL {self.said.source.file!r}, and a publication reads files of this machine. "
                f"Mount the storage, or type: ilba build URL --engine spark .., then ilba release"
            )
        self._hierarchies()  # refuse contradictions before anything is read
        if self.by is None and self.said.method not in METHODS:
            raise InputError(
                f"{self.file.name}.method: {self.said.method!r} does not publish.{nearest(self.said.method, METHODS)} "
                f"Write one of {listing(METHODS)}, or a method of `ilba compare`, such as 'cell-key:D=5,V=3'."
            )
        self._check_how()

    @property
    def how(self) -> dict[str, Any]:
        """How masks are chosen jointly: `bound`, `sweeps`, `move` and `noise`, where the file names them."""
        named = {name: getattr(self.said, name) for name in HOW}
        return {name: value for name, value in named.items() if value is not None}

    def _check_how(self) -> None:
        """Refuse what cannot be chosen for, before anything is counted."""
        how, K = self.how, self.said.mask_thr
        if how and (self.by is not None or self.said.method != "controlled"):
            raise InputError(f"{self.file.name}: {listing(how)}: only with method = 'controlled'.")
        try:
            move = move_of(how.get("move", 0), K)
            noise_of(how.get("noise", 0))
            sweeps_of(how.get("sweeps"), move)
            if "bound" in how:
                bound_of(how["bound"], K)
        except InputError as problem:
            raise InputError(f"{self.file.name}: {problem}") from None

    # --- places

    def place(self, name: str) -> Path:
        """A file that the publication file names."""
        return self.folder / name

    @property
    def source(self) -> Path:
        """The file of records."""
        return self.place(self.said.source.file)

    @property
    def confidential(self) -> Path:
        """The folder of confidential files."""
        return self.place(self.said.outputs.confidential)

    @property
    def store(self) -> Path:
        """The store."""
        return self.confidential / f"{self.file.stem}.parquet"

    @property
    def state(self) -> Path:
        """The record of publishing."""
        return self.confidential / f"{self.file.stem}.json"

    @property
    def release(self) -> Path:
        """The public folder."""
        return self._of_wave("release")

    @property
    def exports(self) -> Path:
        """The public folder of exported tables."""
        return self._of_wave("exports")

    def check_outputs(self) -> None:
        """Refuse, before anything is counted, outputs that could not be written after the release."""
        self._check_places()
        outputs = self.said.outputs
        if outputs.pdf:
            pdf.require()
        if not outputs.formats:
            return
        require(outputs.formats)
        known = languages(self.lists.labels, {"texts": self.texts})
        for lang in outputs.languages:
            if lang not in known:
                raise InputError(
                    f"outputs.languages: there are no words in {lang!r}. It is {listing(known)}. Another language "
                    f"needs labels or a title in it: label.{lang} = '..' under [codes], title.{lang} = '..' under "
                    f"[about]."
                )

    def _check_places(self) -> None:
        written = {"release": self.release, "confidential": self.confidential}
        if self.said.outputs.formats and self.said.outputs.exports:
            written["exports"] = self.exports
        for entry, folder in written.items():
            try:
                writable_folder(folder, is_replaced=entry != "confidential")
            except InputError as problem:
                raise InputError(f"outputs.{entry}: {problem}") from None

    def _of_wave(self, entry: str) -> Path:
        """An output folder, with the name of the wave in place of `{wave}`."""
        name, wave = getattr(self.said.outputs, entry), self.said.population.wave
        return self.place(_named_by(quote(wave, safe=" "), name, f"outputs.{entry}"))

    def page(self, name: str) -> Path:
        """A confidential page. Each publication file in a folder has its own pages."""
        return self.confidential / (name if self.file.name == NAME else f"{self.file.stem}-{name}")

    @property
    def typed(self) -> str:
        """The arguments of a command that name this publication file and the wave, if it was given beside the file."""
        file = "" if self.file == Path(NAME) else f" {shlex.quote(str(self.file))}"
        return f"{file} --wave {shlex.quote(self._wave)}" if self._wave else file

    @property
    def risk_command(self) -> str:
        """The command that measures attackers on the release."""
        typed = ["ilba", "risk", str(self.release), "--store", str(self.store)]
        if self.said.secret and (self.by is not None or not self.said.ledger):
            typed += ["--secret", str(self.place(self.said.secret))]
        if "ptable=" in self.said.method:  # a release holds only the checksum of its p-table
            typed += ["--method", self._method]
        return shlex.join(typed)

    @property
    def _method(self) -> str:
        """The method, with the place of its p-table."""
        return re.sub(r"(?<=ptable=)[^,\s]+", lambda file: str(self.place(file[0])), self.said.method)

    def secret(self) -> Secret | None:
        """The secret, if there is one already: as the file says, of the environment or beside the store."""
        if self.said.secret:
            return given_secret(self.place(self.said.secret))
        found = given_secret(None)
        if found is not None:
            return found
        beside = secret_beside(self.store)
        return None if beside is None else Secret.from_file(beside)

    def tell_of_secret(self) -> None:
        """Say that the secret of another publication in the folder is used, if nothing names a secret."""
        if not self.said.secret and given_secret(None) is None and not secret_path(self.store).exists():
            secret_for(self.store)

    @property
    def ledger(self) -> Path | None:
        """The ledger that the file names."""
        return self.place(self.said.ledger) if self.said.ledger else None

    def files(self) -> list[Path]:
        """Every file that is read, the source first."""
        said = self.said
        named = [one.file for one in said.codes.values()] + list(said.lists) + [one.file for one in said.maps.values()]
        named += [h.file for h in said.hierarchies.values() if isinstance(h, HierarchyFields) and h.file]
        for entry in self._columns().values():
            if entry.recode is not None:
                named.append(entry.recode if isinstance(entry.recode, str) else entry.recode.file)
        return [self.source, *dict.fromkeys(self.place(name) for name in named)]

    # --- the design

    @property
    def reading(self) -> Reading:
        """The encoding, separator and sheet of the file of records."""
        source = self.said.source
        return Reading(source.encoding, source.separator, source.sheet, source.header, source.notes)

    def _columns(self) -> dict[str, ColumnRecipe]:
        given = self.said.recipe.items()
        plain = {name: entry for name, entry in given if isinstance(entry, dict) and name not in ("where", "without")}
        made = Recipe(plain).columns
        for hierarchy in self.said.hierarchies.values():
            if isinstance(hierarchy, HierarchyFields):
                for place, level in enumerate(hierarchy.levels):
                    prefix = hierarchy.prefixes[place] if hierarchy.prefixes else None
                    made[level] = ColumnRecipe(source=hierarchy.column, prefix=prefix, recode=hierarchy.file or None)
        return made

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the columns."""
        said = self.said.recipe
        recipe = Recipe(
            self._columns(),
            trim=said.get("trim", True),
            missing=said.get("missing", ()),
            where=said.get("where"),
            without=said.get("without"),
            decimal=self.said.source.decimal,
            folder=self.folder,
        )
        for hierarchy in self.said.hierarchies.values():
            if isinstance(hierarchy, HierarchyFields) and hierarchy.file:
                paths = paths_in(hierarchy, self.folder)
                recipe.climb(hierarchy.column, hierarchy.levels, paths, Path(hierarchy.file).name)
        return recipe

    def _hierarchies(self) -> dict[str, list[str]]:
        found = {}
        for name, given in self.said.hierarchies.items():
            if isinstance(given, list):
                found[name] = list(given)
                continue
            if bool(given.file) == bool(given.prefixes):
                raise InputError(f"hierarchies.{name} needs either file or prefixes.")
            if given.prefixes and len(given.prefixes) != len(given.levels):
                raise InputError(
                    f"hierarchies.{name} has a different number of prefixes and levels. Give one prefix for each level."
                )
            found[name] = [*given.levels, given.column]
        return found

    @cached_property
    def design(self) -> Design:
        """The hierarchies, the keys, K and the reading of S."""
        return Design.of(self._hierarchies(), self.said.keys, self.said.mask_thr, self.said.cells)

    @cached_property
    def by(self) -> Method | None:
        """The method, unless it is one of the two that choose or draw masks."""
        found = method_of(self._method)
        return found if found.policy is None else None

    @cached_property
    def wanted(self) -> list[Selection]:
        """The tables to be published."""
        tables = self.said.tables
        if tables.names:
            return wanted_tables(self.design, tables.names)
        return wanted_tables(self.design, "all", tables.levels or None, tables.keys or None, tables.max_keys)

    @property
    def planned(self) -> list[Selection]:
        """The tables for which masks are chosen."""
        return wanted_tables(self.design, list(self.said.tables.plan) or "all")

    # --- code lists and maps

    @cached_property
    def lists(self) -> DeclaredLists:
        """The declared code lists."""
        return DeclaredLists(self.said, self.folder, self.design, self.recipe)

    @cached_property
    def maps(self) -> dict[str, Any]:
        """GeoJSON for each area column that has a map."""
        areas = [column for hierarchy in self.design.hierarchies for column in hierarchy.columns]
        found = {}
        for column, entry in self.said.maps.items():
            self.lists.require(column, "maps", areas)
            found[column] = read_shapes(self.place(entry.file), entry.layer).geojson(entry.code)
            shapes = found[column]["features"]
            drawn = pl.Series([str(one["id"]).zfill(entry.pad or 0) for one in shapes], dtype=pl.String)
            for one, code in zip(shapes, self.recipe.renamed(drawn, column), strict=True):
                one["id"] = code
        return found

    def matched(self, finest: AnyFinestTable) -> list[Matched]:
        """How code lists and maps match the data; one that matches nothing is refused."""
        return matched(self.lists, self.maps, finest)

    @property
    def title(self) -> str:
        """The title of the release."""
        return words(self.said.about.title)

    @property
    def texts(self) -> dict[str, dict[str, str]]:
        """For each declared language but English, the title, description, source and unit of the release."""
        about, unit = self.said.about, self.said.population.unit
        given = {"title": about.title, "description": about.description, "source": about.source, "unit": unit}
        told = {name: text for name, text in given.items() if isinstance(text, dict)}
        languages = sorted({lang for text in told.values() for lang in text} - {"en"})
        return {lang: {name: text[lang] for name, text in told.items() if lang in text} for lang in languages}


def _named_by(wave: str, text: str, entry: str) -> str:
    """An entry with the wave in place of `{wave}`."""
    if "{wave}" in text and not wave:
        raise InputError(f"{entry} = {text!r} needs the wave. Type --wave, or write wave = '..' under [population].")
    return text.replace("{wave}", wave)


def _with_wave(said: PublicationFile, wave: str) -> PublicationFile:
    """The same file with the wave in place of `{wave}` in its files, the period, and the days of ages.

    A wave that is given takes the place of the one in the file.
    """
    people, source = msgspec.structs.replace(said.population, wave=wave or said.population.wave), said.source
    source = msgspec.structs.replace(source, file=_named_by(people.wave, source.file, "source.file"))
    period = _named_by(people.wave, people.period, "population.period")

    def named(entry: Any, of: str) -> Any:
        return msgspec.structs.replace(entry, file=_named_by(people.wave, entry.file, f"{of}.file"))

    return msgspec.structs.replace(
        said,
        source=source,
        population=msgspec.structs.replace(people, period=period),
        recipe={name: _entry_of(people.wave, entry, f"recipe.{name}") for name, entry in said.recipe.items()},
        codes={column: named(entry, f"codes.{column}") for column, entry in said.codes.items()},
        maps={column: named(entry, f"maps.{column}") for column, entry in said.maps.items()},
        lists=[_named_by(people.wave, file, "lists") for file in said.lists],
        hierarchies={
            name: entry if isinstance(entry, list) else named(entry, f"hierarchies.{name}")
            for name, entry in said.hierarchies.items()
        },
    )


def _entry_of(wave: str, entry: Any, of: str) -> Any:
    """An entry of the recipe with the wave in place of `{wave}` in its day of ages and its recode file."""
    if not isinstance(entry, dict):
        return entry
    found = dict(entry)
    for name in ("age_on", "recode"):
        given = found.get(name)
        if isinstance(given, str):
            found[name] = _named_by(wave, given, f"{of}.{name}")
        elif isinstance(given, dict) and isinstance(given.get("file"), str):
            found[name] = given | {"file": _named_by(wave, given["file"], f"{of}.{name}.file")}
    return found
