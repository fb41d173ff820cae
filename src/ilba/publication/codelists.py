"""The code lists that a publication file declares: which codes each level has, their labels and parents."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import polars as pl

from ilba.data.codelists import CODE_COLUMNS, code_columns, no_code_list, of_design, read_list
from ilba.data.csvfiles import other_separator
from ilba.data.hierarchies import read_hierarchy
from ilba.data.letters import name_in
from ilba.data.reading import Reading, scan
from ilba.data.recipe import ColumnRecipe, Recipe, as_text
from ilba.design.design import COUNT, Design
from ilba.errors import InputError, listing, nearest
from ilba.publication.file import FileEntry, HierarchyFields, PublicationFile


class _Lines(NamedTuple):
    """The lines of a code list, without blanks around their texts."""

    column: str
    codes: pl.Series
    """with the zeros that `pad` restores"""
    listed: list[str]
    """the codes as the file has them"""
    parents: list[str | None]
    labels: dict[str, list[str | None]]


class DeclaredLists:
    """The declared code lists. A list of all levels is placed by the hierarchy; files are read when they are needed.

    Parameters
    ----------
    said
        What the publication file says.
    folder
        The folder of the files that it names.
    design
        The hierarchies and keys.
    recipe
        The recipe of the columns, which also makes upper levels from listed codes.
    """

    def __init__(self, said: PublicationFile, folder: Path, design: Design, recipe: Recipe) -> None:
        self.said = said
        self.folder = folder
        self.design = design
        self.recipe = recipe

    @cached_property
    def labels(self) -> pl.DataFrame:
        """The declared code list, in five columns."""
        parts = [of_design(frame, self.design) for frame in self.whole.values()]
        for column in self.said.codes:
            self.require(column, "codes")
            parts.append(self._codes(column))
        for column, bands in self.recipe.declared_bands().items():
            if column in self.design.columns and column not in self.said.codes:
                parts.append(_rows(column, [code for code, _ in bands], en=[label for _, label in bands]))
        for column, given in self.said.labels.items():
            self.require(column, "labels", [*self.design.columns, *(h.name for h in self.design.hierarchies)])
            named = {"en": given} if isinstance(given, str) else dict(given)
            parts.append(_rows(column, [None], **{lang: [text] for lang, text in named.items()}))
        both = pl.concat([no_code_list(), *parts], how="diagonal")
        return both.select(code_columns(both.columns)).unique(maintain_order=True)

    @cached_property
    def whole(self) -> dict[str, pl.DataFrame]:
        """The files of `lists`, with all their variables. Those of an agency may have more than are published."""
        found = {name: self._renamed(read_list(self.folder / name, self.design)) for name in self.said.lists}
        named = {*self.said.codes, *self.recipe.declared_bands()}
        named |= {one for frame in found.values() for one in frame["variable"]}
        bare = [column for column in self.design.columns if column not in named]
        for name, frame in found.items():
            strange = self.strange(frame)
            near = {one: nearest(one, bare) for one in strange}
            wrong = [one for one in strange if near[one]]
            if strange and len(strange) == frame["variable"].drop_nulls().n_unique():
                wrong = wrong or strange
            if wrong:
                raise InputError(
                    f"lists: {name!r} has codes of {wrong[0]!r}, which is no column of the hierarchies and keys."
                    f"{near[wrong[0]]} They are {listing(self.design.columns, 30)}."
                )
        return found

    def _renamed(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A code list of several variables with the codes and parents that the recipe makes of them."""
        for columns in (
            *(hierarchy.columns for hierarchy in self.design.hierarchies),
            *([key] for key in self.design.keys),
        ):
            for column, below in zip(columns, [*columns[1:], ""], strict=True):
                for variable, name in ((column, "code"), (below, "parent")):
                    own = frame["variable"].eq_missing(variable)
                    new = self.recipe.renamed(frame[name].set(~own, None), column)
                    frame = frame.with_columns(new.zip_with(own, frame[name]))
        return frame

    def strange(self, frame: pl.DataFrame) -> list[str]:
        """The variables of a code list that are no columns here, and no hierarchies."""
        known = {*self.design.columns, *(hierarchy.name for hierarchy in self.design.hierarchies)}
        return [one for one in frame["variable"].drop_nulls().unique(maintain_order=True) if one not in known]

    def require(self, column: str, entry: str, known: Iterable[str] | None = None) -> None:
        """Refuse an entry about a column that is not among those of the design, or of `known`."""
        names = list(known or self.design.columns)
        if column not in names:
            raise InputError(
                f"{entry}.{column} names no column of the hierarchies and keys.{nearest(column, names)} "
                f"They are {listing(names, 30)}."
            )

    def _codes(self, column: str) -> pl.DataFrame:
        """The code list of a column, and of the levels above that are made from its codes."""
        entry, lines = self.said.codes[column], self._lines(column)
        if not entry.parent:
            paths = self._paths(column, lines.codes)
            return _rows(column, lines.codes.to_list(), **lines.labels) if paths is None else self._placed(lines, paths)
        climbed = self._climbed(lines)
        if climbed is not None:
            return self._placed(lines, *climbed)
        spelled = self._spelled(dict.fromkeys(self.levels_above(column)[-1:], lines.parents), column, lines.codes)
        return _rows(column, lines.codes.to_list(), spelled(lines.parents), **lines.labels)

    def _lines(self, column: str) -> _Lines:
        """The lines of a column's code list, each once: a list of towns repeats each district, with the same name."""
        entry = self.said.codes[column]
        frame, code, codes = self._listed(column)
        if set(CODE_COLUMNS[:2]) <= set(frame.columns) and len({*frame["variable"]} & {*self.design.columns}) > 1:
            raise InputError(
                f"codes.{column}: {entry.file!r} lists the codes of several variables. Remove this entry, and write "
                f"at the top: lists = [{entry.file!r}]"
            )
        named = {"en": entry.label} if isinstance(entry.label, str) else dict(entry.label)
        chosen = {
            lang: _chosen(frame, name, f"codes.{column}.label", 1)
            for lang, name in named.items()
            if name or (lang == "en" and frame.width > 1)
        }
        above = name_in(entry.parent, frame.columns)
        told = [*chosen.values(), *([above] if above in frame.columns else [])]
        lines = pl.DataFrame([codes.alias(""), *(frame[one] for one in dict.fromkeys(told))])
        is_first = lines.select(pl.struct(pl.all().str.strip_chars()).is_first_distinct()).to_series()
        frame, codes = frame.filter(is_first), codes.filter(is_first)
        if codes.n_unique() < len(codes):
            twice = codes.filter(codes.is_duplicated()).unique().sort()
            raise InputError(
                f"codes.{column}: {entry.file!r} has {listing(twice, 4)} twice in {code!r}, with different labels or "
                f"parents. Keep one of them."
            )
        parent = _chosen(frame, entry.parent, f"codes.{column}.parent", 0) if entry.parent else ""

        def texts(name: str) -> list[Any]:
            return frame[name].str.strip_chars().to_list()

        labels = {lang: texts(name) for lang, name in chosen.items()}
        return _Lines(column, codes, texts(code), texts(parent) if parent else [None] * len(codes), labels)

    def _placed(self, lines: _Lines, paths: pl.DataFrame, others: set[str] | None = None) -> pl.DataFrame:
        """The code list of a column and of the levels above it.

        `paths` has the codes above each line, and `others` the listed codes that belong to another level.
        """
        above, is_declared = paths.columns, bool(self.said.codes[lines.column].parent)
        spelled = self._spelled(paths.to_dict(as_series=False) if is_declared else {}, lines.column, lines.codes)
        others = others or upper_codes(dict(zip(lines.listed, paths[above[-1]].to_list(), strict=True)))
        finest = [one if one in others else code for code, one in zip(lines.codes, lines.listed, strict=True)]
        spellings = (finest, lines.listed, spelled(lines.listed)) if others else ()
        named = {
            lang: {one: text for names in spellings for one, text in zip(names, texts, strict=True)}
            for lang, texts in lines.labels.items()
        }
        rows = []
        is_own = [one not in others for one in lines.listed]
        paths = paths.filter(pl.Series(is_own, dtype=pl.Boolean))
        for upper, level in zip([None, *above], above, strict=False):
            if level not in self.said.codes:
                known = paths.select(level, *([upper] if upper else [])).unique(maintain_order=True)
                known = known.drop_nulls(level if is_declared else None)
                labels = {lang: [texts.get(one) for one in known[level]] for lang, texts in named.items() if others}
                parents = spelled(known[upper].to_list()) if upper else None
                rows.append(_rows(level, spelled(known[level].to_list()), parents, **labels))
        codes = list(compress(lines.codes, is_own))
        labels = {lang: list(compress(texts, is_own)) for lang, texts in lines.labels.items()}
        rows.append(_rows(lines.column, codes, spelled(paths[above[-1]].to_list()), **labels))
        return pl.concat(rows, how="diagonal")

    def _listed(self, column: str) -> tuple[pl.DataFrame, str, pl.Series]:
        """The rows of a code list that have a code, the name of its column of codes, and the codes."""
        entry = self.said.codes[column]
        frame = _table(entry, self.folder)
        code = _chosen(frame, entry.code, f"codes.{column}", 0)
        codes = frame[code].str.strip_chars()
        codes = codes.str.zfill(entry.pad) if entry.pad else codes
        kept = codes.is_not_null() & (codes != "")
        return frame.filter(kept), code, self.recipe.renamed(codes.filter(kept), column)

    def _spelled(
        self, above: Mapping[str, Sequence[Any]], column: str, codes: pl.Series
    ) -> Callable[[list[Any]], list[Any]]:
        """How parents of a column are spelled as the codes of the levels above: a list that lost zeros lost theirs.

        `above` has the parents on each level, as they are listed.
        """
        known: set[str] = set()
        renamed: dict[str | None, str] = {}
        tree = self._tree(column)
        paths = self._paths(column, codes) if tree is None else tree
        for level, listed in above.items():
            parents = pl.Series(listed, dtype=pl.String)
            renamed |= dict(zip(parents, self.recipe.renamed(parents, level), strict=True))
            own = self.recipe.columns.get(level)
            if level in self.said.codes:
                known |= set(self._listed(level)[2])
            elif paths is not None and level in paths.columns:
                known |= set(paths[level].cast(pl.String).drop_nulls())
            elif own and own.pad:
                known |= {one.zfill(own.pad) for one in listed if one}
        alike: dict[str, list[str]] = {}
        for one in known:
            alike.setdefault(one.lstrip("0"), []).append(one)

        def spelling(one: str | None) -> str | None:
            one = renamed.get(one, one)
            same = alike.get(one.lstrip("0"), []) if one and one not in known else []
            return same[0] if len(same) == 1 else one

        return lambda parents: [spelling(one) for one in parents]

    def levels_above(self, column: str) -> list[str]:
        """The levels above a column in its hierarchy, from coarse to fine."""
        chain = self.levels(column)
        return list(chain[: chain.index(column)]) if column in chain else []

    def levels(self, column: str) -> tuple[str, ...]:
        """The levels of the column's hierarchy, from coarse to fine; none for a key."""
        return next((h.columns for h in self.design.hierarchies if column in h.columns), ())

    def _above(self, column: str) -> list[str]:
        """The levels above a column that are made from the same column of the data."""
        upper = self.levels_above(column)
        origin = self.recipe.made_from(column)
        return upper if all(self.recipe.made_from(one) == origin for one in upper) else []

    def _climbed(self, lines: _Lines) -> tuple[pl.DataFrame, set[str]] | None:
        """The levels above each code of a list of all levels for the finest column, and its codes of other levels.

        The file of the hierarchy places the codes, else the declared parents do. None for other lists.
        """
        column, listed, codes = lines.column, lines.listed, lines.codes.to_list()
        levels, above = self.levels(column), dict(zip(listed, lines.parents, strict=True))
        others = upper_codes(above)
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
                paths = paths_in(given, self.folder)
                levels = [*given.levels, column]
                if paths.width != len(levels):
                    return None
                paths = paths.rename(dict(zip(paths.columns, levels, strict=True)))
                return paths.with_columns(self.recipe.renamed(paths[column], column))
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
        is_finest = column == self.levels(column)[-1]
        return made.select(above) if is_finest or made[column].equals(codes.alias(column)) else None


def paths_in(given: HierarchyFields, folder: Path) -> pl.DataFrame:
    """The path of each finest code in the file of a hierarchy, one column per level."""
    file = folder / given.file
    if file.suffix.lower() == ".hrc":
        return read_hierarchy(file).paths
    frame = _table(given, folder)
    if frame.width < 2:
        raise InputError(f"{file.name!r} has one column here, not codes and parents. Name its sheet or header line.")
    names = [
        _chosen(frame, name, f"the hierarchy of {given.column!r}", place)
        for place, name in enumerate((given.code, given.parent))
    ]
    pairs = frame.select(pl.col(name).str.strip_chars() for name in names)
    return _paths_of_edges(pairs.select(pl.all().str.zfill(given.pad)) if given.pad else pairs, file)


def _table(entry: FileEntry | HierarchyFields, folder: Path) -> pl.DataFrame:
    reading = Reading(entry.encoding, entry.separator, entry.sheet, entry.header, entry.notes)
    frame = scan(folder / entry.file, None, reading).collect()
    columns = [as_text(column) for column in frame.get_columns()]
    return pl.DataFrame([column for column in columns if column is not None])


def _chosen(frame: pl.DataFrame, name: str, where: str, place: int) -> str:
    name = name_in(name, frame.columns)
    if name and name not in frame.columns:
        raise InputError(
            f"{where} names the column {name!r}, which the file does not have."
            f"{other_separator(frame.columns) or nearest(name, frame.columns)} It has {listing(frame.columns, 20)}."
        )
    return name or frame.columns[place]


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


def upper_codes(above: Mapping[str, str | None]) -> set[str]:
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
