"""A publication file checked against the data: recipe, design, code lists and maps."""

from __future__ import annotations

import copy
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import msgspec
import polars as pl

from ilba.data.codelists import code_columns, no_code_list, read_labels
from ilba.data.csvfiles import other_separator
from ilba.data.hierarchies import read_hierarchy
from ilba.data.reading import Reading, scan
from ilba.data.recipe import ColumnRecipe, Recipe, as_text
from ilba.data.shapes import read_shapes
from ilba.design.design import COUNT, Design, Selection
from ilba.design.tables import wanted_tables
from ilba.errors import InputError, listing, nearest, some
from ilba.files import writable_folder
from ilba.methods.controlled.search import bound_of, move_of, noise_of, sweeps_of
from ilba.methods.lab import method_of
from ilba.methods.method import Method
from ilba.publication.file import NAME, FileEntry, HierarchyFields, PublicationFile, found_at, load, words
from ilba.secret.secret import Secret, given_secret
from ilba.tables.beside import secret_beside, secret_for, secret_path
from ilba.tables.engine import AnyFinestTable

Path_: TypeAlias = str | os.PathLike[str]
METHODS = ("controlled", "ilba")
HOW = ("bound", "sweeps", "move", "noise")
"""entries that say how masks are chosen jointly"""


@dataclass(frozen=True)
class Matched:
    """How the codes of a column match its code list or map (confidential)."""

    column: str
    what: str
    """"the code list" or "the map" """
    file: str
    found: int
    without: tuple[str, ...]
    """codes of the data that it does not have"""
    extra: int
    """its codes that the data does not have"""
    strays: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """levels of the same hierarchy, with the codes among these that the data has there"""
    orphans: tuple[str, ...] = ()
    """parents in the code list that are no codes of the level above"""

    def __str__(self) -> str:
        text = f"{self.column}: {self.what} {self.file} has {some(self.found, 'code')} of the data"
        if self.without:
            text += f", and not {listing(self.without, 5)}"
        text += f"; {some(self.extra, 'code')} more" if self.extra else ""
        text += (
            f", with parents that are no codes of the level above: {listing(self.orphans, 5)}" if self.orphans else ""
        )
        return text + "".join(f", with codes of {level}: {listing(codes, 5)}" for level, codes in self.strays)


class Prepared:
    """A publication file with its recipe, design and lists. Files are read when they are needed."""

    def __init__(self, path: Path_ | None = None) -> None:
        self.file = found_at(path)
        self.folder = self.file.parent
        self.said: PublicationFile = _with_wave(load(self.file))
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

    def check_places(self) -> None:
        """Refuse output folders that cannot be written, before anything is counted."""
        written = {"release": self.release, "confidential": self.confidential}
        if self.said.outputs.formats and self.said.outputs.exports:
            written["exports"] = self.exports
        for entry, folder in written.items():
            try:
                writable_folder(folder)
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
        """The argument of a command that names this publication file."""
        return "" if self.file == Path(NAME) else f" {shlex.quote(str(self.file))}"

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
                file = self.place(hierarchy.file)
                recipe.climb(hierarchy.column, hierarchy.levels, self._paths_in(hierarchy, file), file.name)
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

    # --- code lists and maps

    @cached_property
    def labels(self) -> pl.DataFrame:
        """The declared code list, in five columns."""
        parts = [read_labels(self.place(name), self.design) for name in self.said.lists]
        for column in self.said.codes:
            self._require(column, "codes")
            parts.append(self._codes(column))
        for column, bands in self.recipe.declared_bands().items():
            if column in self.design.columns and column not in self.said.codes:
                parts.append(_rows(column, [code for code, _ in bands], en=[label for _, label in bands]))
        for column, given in self.said.labels.items():
            self._require(column, "labels", [*self.design.columns, *(h.name for h in self.design.hierarchies)])
            named = {"en": given} if isinstance(given, str) else dict(given)
            parts.append(_rows(column, [None], **{lang: [text] for lang, text in named.items()}))
        both = pl.concat([no_code_list(), *parts], how="diagonal")
        return both.select(code_columns(both.columns)).unique(maintain_order=True)

    def _require(self, column: str, entry: str, known: Iterable[str] | None = None) -> None:
        names = list(known or self.design.columns)
        if column not in names:
            raise InputError(
                f"{entry}.{column} names no column of the hierarchies and keys.{nearest(column, names)} "
                f"They are {listing(names, 30)}."
            )

    def _codes(self, column: str) -> pl.DataFrame:
        """The code list of a column, and of the levels above that are made from its codes."""
        entry = self.said.codes[column]
        frame, code, codes = self._listed(column)
        named = {"en": entry.label} if isinstance(entry.label, str) else dict(entry.label)
        chosen = {
            lang: self._chosen(frame, name, f"codes.{column}.label", 1)
            for lang, name in named.items()
            if name or (lang == "en" and frame.width > 1)
        }
        # A list of towns repeats each district, with the same name.
        told = [*chosen.values(), *([entry.parent] if entry.parent in frame.columns else [])]
        lines = pl.DataFrame([codes.alias(""), *(frame[one] for one in dict.fromkeys(told))])
        is_first = lines.select(pl.struct(pl.all().str.strip_chars()).is_first_distinct()).to_series()
        frame, codes = frame.filter(is_first), codes.filter(is_first)
        if codes.n_unique() < len(codes):
            twice = codes.filter(codes.is_duplicated()).unique().sort()
            raise InputError(
                f"codes.{column}: {entry.file!r} has {listing(twice, 4)} twice in {code!r}, with different labels or "
                f"parents. Keep one of them."
            )
        labels = {lang: frame[one].str.strip_chars().to_list() for lang, one in chosen.items()}
        listed = frame[code].str.strip_chars().to_list()
        parents: list[Any] = [None] * len(codes)
        rows = []
        if entry.parent:
            parents = frame[self._chosen(frame, entry.parent, f"codes.{column}.parent", 0)].str.strip_chars().to_list()
            paths, uppers = self._climbed(column, listed, codes.to_list(), parents) or (None, set())
        else:
            paths, uppers = self._paths(column, codes), set()
        if entry.parent and paths is None:
            parents = self._spelled(self._levels_above(column)[-1:], column, codes)(parents)
        if paths is not None:
            above = paths.columns
            spelled = self._spelled(above if entry.parent else [], column, codes)
            uppers = uppers or _uppers(dict(zip(listed, paths[above[-1]].to_list(), strict=True)))
            finest = [code if one not in uppers else one for code, one in zip(codes, listed, strict=True)]
            named_above = {
                lang: {
                    one: text
                    for names in (finest, listed, spelled(listed))
                    for one, text in zip(names, texts, strict=True)
                }
                for lang, texts in labels.items()
                if uppers
            }
            is_own = pl.Series([one not in uppers for one in listed], dtype=pl.Boolean)
            paths, codes, frame = paths.filter(is_own), codes.filter(is_own), frame.filter(is_own)
            labels = {lang: frame[one].str.strip_chars().to_list() for lang, one in chosen.items()}
            parents = spelled(paths[above[-1]].to_list())
            for upper, level in zip([None, *above], above, strict=False):
                if level in self.said.codes:
                    continue
                known = paths.select(level, *([upper] if upper else [])).unique(maintain_order=True)
                known = known.drop_nulls(level if entry.parent else None)
                names = {lang: [texts.get(one) for one in known[level]] for lang, texts in named_above.items()}
                further = spelled(known[upper].to_list()) if upper else None
                rows.append(_rows(level, spelled(known[level].to_list()), further, **names))
        rows.append(_rows(column, codes.to_list(), parents, **labels))
        return pl.concat(rows, how="diagonal")

    def _listed(self, column: str) -> tuple[pl.DataFrame, str, pl.Series]:
        """The rows of a code list that have a code, the name of its column of codes, and the codes."""
        entry = self.said.codes[column]
        frame = self._table(entry)
        code = self._chosen(frame, entry.code, f"codes.{column}", 0)
        codes = frame[code].str.strip_chars()
        codes = codes.str.zfill(entry.pad) if entry.pad else codes
        kept = codes.is_not_null() & (codes != "")
        return frame.filter(kept), code, codes.filter(kept)

    def _spelled(self, above: Sequence[str], column: str, codes: pl.Series) -> Callable[[list[Any]], list[Any]]:
        """How parents of a column are spelled as the codes of the levels above: a list that lost zeros lost theirs."""
        known: set[str] = set()
        tree = self._tree(column)
        paths = self._paths(column, codes) if tree is None else tree
        for level in above:
            if level in self.said.codes:
                known |= set(self._listed(level)[2])
            elif paths is not None and level in paths.columns:
                known |= set(paths[level].cast(pl.String).drop_nulls())
        alike: dict[str, list[str]] = {}
        for one in known:
            alike.setdefault(one.lstrip("0"), []).append(one)

        def spelling(one: str | None) -> str | None:
            same = alike.get(one.lstrip("0"), []) if one and one not in known else []
            return same[0] if len(same) == 1 else one

        return lambda parents: [spelling(one) for one in parents]

    def _levels_above(self, column: str) -> list[str]:
        """The levels above a column in its hierarchy, from coarse to fine."""
        chain = self._levels(column)
        return list(chain[: chain.index(column)]) if column in chain else []

    def _levels(self, column: str) -> tuple[str, ...]:
        """The levels of the column's hierarchy, from coarse to fine; none for a key."""
        return next((h.columns for h in self.design.hierarchies if column in h.columns), ())

    def _above(self, column: str) -> list[str]:
        """The levels above a column that are made from the same column of the data."""
        upper = self._levels_above(column)
        origin = self.recipe.made_from(column)
        return upper if all(self.recipe.made_from(one) == origin for one in upper) else []

    def _climbed(
        self, column: str, listed: list[str], codes: list[str], parents: list[str | None]
    ) -> tuple[pl.DataFrame, set[str]] | None:
        """The levels above each code of a list of all levels for the finest column, and its codes of other levels.

        The file of the hierarchy places the codes, else the declared parents do. None for other lists.
        """
        levels, above = self._levels(column), dict(zip(listed, parents, strict=True))
        others = _uppers(above)
        if column not in levels[1:] or column != levels[-1] or not others:
            return None
        tree, size = self._tree(column), len(levels) - 1
        leaves = {} if tree is None else {path[-1]: path[:-1] for path in tree.rows()}
        placed = {one: leaves[code] for one, code in zip(listed, codes, strict=True) if code in leaves}
        rows: list[Sequence[str | None]] = []
        for one, code in zip(listed, codes, strict=True):
            path: list[str | None] = [one]
            while upper := above.get(path[0] or ""):
                path.insert(0, upper)
            if any(upper in placed for upper in path[:-1]):
                others.add(one)  # it is finer than the hierarchy
            if tree is None:
                rows.append([*[None] * size, *path[:-1]][-size:])
            else:
                rows.append(placed.get(one) or [*path[:-1], *[code] * size][:size])
        return pl.DataFrame(rows, dict.fromkeys(levels[:-1], pl.String), orient="row"), others - set(placed)

    def _tree(self, column: str) -> pl.DataFrame | None:
        """The paths of the finest codes in the file of a column's hierarchy; None if it has none."""
        for given in self.said.hierarchies.values():
            if isinstance(given, HierarchyFields) and given.file and given.column == column:
                paths = self._paths_in(given, self.place(given.file))
                levels = [*given.levels, column]
                return (
                    paths.rename(dict(zip(paths.columns, levels, strict=True))) if paths.width == len(levels) else None
                )
        return None

    def _paths(self, column: str, codes: pl.Series) -> pl.DataFrame | None:
        """Apply the recipe to declared codes, level by level; None if it does not make the levels above."""
        above = self._above(column)
        if not above:
            return None
        recipe = copy.copy(self.recipe)
        recipe.changes = []
        own, uppers = recipe.columns.get(column), [(level, recipe.columns.get(level)) for level in above]
        heads = {level: one.prefix for level, one in uppers if own and one and _differ_in_prefix(one, own)}
        if len(heads) == len(above):  # the steps of the finest column, such as pad, are not for these shorter codes
            return pl.DataFrame([codes.str.head(letters or 0).alias(level) for level, letters in heads.items()])
        values = pl.DataFrame({recipe.made_from(column): codes, COUNT: [1] * len(codes)})
        try:
            made = recipe.applied(values, [*above, column])
        except InputError:  # a code of the list that the recipe does not know: its parent is not declared
            return None
        is_finest = column == self._levels(column)[-1]
        return made.select(above) if is_finest or made[column].equals(codes.alias(column)) else None

    def _paths_in(self, given: HierarchyFields, file: Path) -> pl.DataFrame:
        """The path of each finest code, one column per level."""
        if file.suffix.lower() == ".hrc":
            return read_hierarchy(file).paths
        frame = self._table(given)
        if frame.width < 2:
            raise InputError(
                f"{file.name!r} has one column here, not codes and parents. Name its sheet or header line."
            )
        names = [
            self._chosen(frame, name, f"the hierarchy of {given.column!r}", place)
            for place, name in enumerate((given.code, given.parent))
        ]
        pairs = frame.select(pl.col(name).str.strip_chars() for name in names)
        return _paths_of_edges(pairs.select(pl.all().str.zfill(given.pad)) if given.pad else pairs, file)

    def _table(self, entry: FileEntry | HierarchyFields) -> pl.DataFrame:
        reading = Reading(entry.encoding, entry.separator, entry.sheet, entry.header, entry.notes)
        frame = scan(self.place(entry.file), None, reading).collect()
        columns = [as_text(column) for column in frame.get_columns()]
        return pl.DataFrame([column for column in columns if column is not None])

    def _chosen(self, frame: pl.DataFrame, name: str, where: str, place: int) -> str:
        if name and name not in frame.columns:
            raise InputError(
                f"{where} names the column {name!r}, which the file does not have."
                f"{other_separator(frame.columns) or nearest(name, frame.columns)} It has {listing(frame.columns, 20)}."
            )
        return name or frame.columns[place]

    @cached_property
    def maps(self) -> dict[str, Any]:
        """GeoJSON for each area column that has a map."""
        areas = [column for hierarchy in self.design.hierarchies for column in hierarchy.columns]
        found = {}
        for column, entry in self.said.maps.items():
            self._require(column, "maps", areas)
            found[column] = read_shapes(self.place(entry.file), entry.layer).geojson(entry.code)
            if pad := entry.pad:
                for one in found[column]["features"]:
                    one["id"] = str(one["id"]).zfill(pad)
        return found

    def matched(self, finest: AnyFinestTable) -> list[Matched]:
        """How code lists and maps match the data; one that matches nothing is refused."""
        codes = {
            name: set(frame[name].cast(pl.String).drop_nulls())
            for listed, used in zip(finest.codes.lists, finest.occurring(), strict=True)
            for frame in [listed.labels[used]]
            for name in frame.columns
        }
        found = []
        for column, entry in self.said.codes.items():
            listed = set(self.labels.filter(pl.col("variable") == column)["code"].drop_nulls())
            match = self._match(column, "the code list", entry.file, codes[column], listed)
            own = {level: codes[level] - codes[column] for level in self._levels(column) if level != column}
            here = {level: tuple(sorted(listed & others)) for level, others in own.items()}
            for level, strays in here.items():
                if 2 * len(strays) > len(own[level]):
                    raise InputError(self._of_all_levels(column, entry.file, level, strays))
            strange = tuple((level, strays) for level, strays in here.items() if strays)
            found.append(replace(match, strays=strange, orphans=self._orphans(column, codes)))
        for column, shape in self.maps.items():
            drawn = {str(one["id"]) for one in shape["features"]}
            found.append(self._match(column, "the map", self.said.maps[column].file, codes[column], drawn))
        return found

    def _match(self, column: str, what: str, file: str, codes: set[str], listed: set[str]) -> Matched:
        common = codes & listed
        if not common:
            entry = self.recipe.columns.get(column)
            hint = _hint(codes, listed, column, entry is not None and entry.recode is not None)
            raise InputError(
                f"{what} {file!r} has no code of {column!r}: the data has {listing(sorted(codes), 3)}, {what} has "
                f"{listing(sorted(listed), 3)}.{hint}"
            )
        return Matched(column, what, file, len(common), tuple(sorted(codes - listed)), len(listed - codes))

    def _orphans(self, column: str, codes: Mapping[str, set[str]]) -> tuple[str, ...]:
        """The declared parents of a code list that are no codes of the level above; refused if all are."""
        entry, above = self.said.codes[column], self._levels_above(column)
        if not entry.parent or not above:
            return ()
        upper = above[-1]
        rows = self.labels.filter(pl.col("variable").is_in([column, upper]))
        parents = set(rows.filter(pl.col("variable") == column)["parent"].drop_nulls()) - {""}
        known = codes[upper] | set(rows.filter(pl.col("variable") == upper)["code"].drop_nulls())
        if parents and not parents & known:
            shown = f"it has {listing(sorted(parents), 3)}, and {upper!r} has {listing(sorted(known), 3)}"
            plain = {one.lstrip("0") for one in known}
            width = max(map(len, known))
            cure = f"Name the column with the codes of {upper!r}, or leave parent out."
            if any(one.lstrip("0") in plain for one in parents):
                cure = f"It lost leading zeros. Declare the code list of {upper!r}, too, so that they are known: codes."
                cure += f"{upper} = {{file = {entry.file!r}, code = {entry.parent!r}, pad = {width}}}."
            raise InputError(
                f"codes.{column}: no parent in {entry.parent!r} of {entry.file!r} is a code of {upper!r}: "
                f"{shown}. {cure}"
            )
        return tuple(sorted(parents - known))

    def _of_all_levels(self, column: str, file: str, level: str, strays: Sequence[str]) -> str:
        """Why a code list with the codes of another level is refused, and what to type."""
        finest = self._levels(column)[-1]
        told = f"codes.{column}: {file!r} also has codes of {level!r}: {listing(strays, 5)}. "
        told += f"They would be published as empty areas of {column!r}. "
        other = self.said.codes.get(finest)
        if column != finest and other and other.file == file and other.parent:
            told += (
                f"Remove codes.{column}: codes.{finest} has the same list with its parents, and names this level, too."
            )
            return told
        if column != finest:
            told += f"Declare it for {finest!r} instead, where codes of upper levels name these levels: "
            told += f"codes.{finest} = {{file = {file!r}, code = '..', parent = '..'}}. Or keep only the codes of "
            told += f"{column!r} in it."
        elif not self.said.codes[column].parent:
            told += "Write parent = '..' beside its file, the column of the code one level up, or keep only the codes "
            told += f"of {column!r} in it."
        else:
            told += f"Keep only the codes of {column!r} in it."
        told += (
            f" If {column!r} has these codes, too, name them in a file of variable, code, label_en and parent, at the "
        )
        return told + "top: lists = ['codes.csv']."

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
        raise InputError(f"{entry} = {text!r} needs the wave. Write wave = '..' under [population].")
    return text.replace("{wave}", wave)


def _with_wave(said: PublicationFile) -> PublicationFile:
    """The same file with the wave in place of `{wave}` in its days: the period, and those on which ages are counted."""
    people = said.population
    period = _named_by(people.wave, people.period, "population.period")
    recipe = {
        name: entry | {"age_on": _named_by(people.wave, entry["age_on"], f"recipe.{name}.age_on")}
        if isinstance(entry, dict) and isinstance(entry.get("age_on"), str)
        else entry
        for name, entry in said.recipe.items()
    }
    return msgspec.structs.replace(said, population=msgspec.structs.replace(people, period=period), recipe=recipe)


def _hint(codes: set[str], listed: set[str], column: str, is_recoded: bool) -> str:
    """Say what to type so that codes match."""
    widths = {len(code) for code in listed}
    if len(widths) == 1 and any(code.zfill(width) in listed for code in codes for width in widths):
        entry = f"recode = {{.., pad_to = {min(widths)}}}" if is_recoded else f"pad = {min(widths)}"
        return f" With leading zeros they match: write recipe.{column} = {{{'.., ' * is_recoded}{entry}}}."
    longer = {len(code) for code in codes}
    if len(longer) == 1 and any(code.zfill(width) in codes for code in listed for width in longer):
        return f" It has no leading zeros: write pad = {next(iter(longer))} beside its file."
    shorter = {code.lstrip("0") for code in listed}
    if codes & shorter:
        return " The data has no leading zeros. Write pad in the recipe of the column."
    for case in ("lower", "upper"):
        if any(getattr(code, case)() in listed for code in codes):
            return f" In {case} case they match: write recipe.{column} = {{case = {case!r}}}."
    return " Name another column or property with code = '..'; `ilba inspect` shows what matches."


def _rows(variable: str, codes: list[Any], parents: list[Any] | None = None, **labels: list[Any]) -> pl.DataFrame:
    columns: dict[str, Any] = {
        "variable": [variable] * len(codes),
        "code": codes,
        **{f"label_{lang}": texts for lang, texts in labels.items()},
        "parent": parents or [None] * len(codes),
    }
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


def _differ_in_prefix(one: ColumnRecipe, other: ColumnRecipe) -> bool:
    """Whether two columns are the first letters of the same codes."""
    return bool(one.prefix and other.prefix) and msgspec.structs.replace(one, prefix=other.prefix) == other


def _uppers(above: Mapping[str, str | None]) -> set[str]:
    """The codes of upper levels in a list of all levels: each parent is a code of the list, and each path ends."""
    parents = {one for one in above.values() if one}
    for one in parents:
        path: list[str] = []
        upper: str | None = one
        while upper:
            if upper not in above or upper in path:
                return set()
            path.append(upper)
            upper = above[upper]
    return parents


def _paths_of_edges(pairs: pl.DataFrame, file: Path) -> pl.DataFrame:
    """The paths of leaves in a table of codes and their parents; a short path repeats its last code."""
    above: Mapping[str, str | None] = dict(pairs.rows())
    parents = {one for one in above.values() if one}
    rows: list[list[str]] = []
    for leaf in (one for one in above if one not in parents):
        path = [leaf]
        while upper := above.get(path[0]):
            if upper in path:
                raise InputError(f"{file.name!r}: {upper!r} is its own ancestor. Correct its parents.")
            path.insert(0, upper)
        rows.append(path)
    depth = max(map(len, rows))
    return pl.DataFrame([[*row, *[row[-1]] * (depth - len(row))] for row in rows], orient="row")
