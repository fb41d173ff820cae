"""A table of a release with its words, and its complete grid.

Exports and charts show a table in a language, with the labels of the code lists. Some need every cell of the grid of
the published codes. This module uses only the release.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, cached_property
from importlib import resources
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.data.codelists import label_languages
from ilba.design.design import MASKED, shown_name
from ilba.errors import InputError, listing
from ilba.release import PublicTable, Release

IntArray: TypeAlias = npt.NDArray[np.int64]
Values: TypeAlias = npt.NDArray[np.int64] | npt.NDArray[np.float64]
Flags: TypeAlias = npt.NDArray[np.bool_]

LANGUAGES: tuple[str, ...] = ("en", "ko", "fr", "es")
"""the languages with our own words; each is a file of `words/`"""
_MOST_CELLS = 20_000_000
_MOST_TIMES = 6  # that a heading names
_METHODS = {"ilba": "iLBA"}
MASKING = ("ilba", "controlled")
"""the methods whose counts are 0 or at least K"""


@cache
def words(lang: str) -> Mapping[str, str]:
    """Our own words in a language, such as "Count"; in English if the language has none."""
    if lang not in LANGUAGES:
        return words(LANGUAGES[0])
    file = resources.files("ilba.output") / "words" / f"{lang}.json"
    found: dict[str, str] = json.loads(file.read_text("utf-8"))
    return found


def whole(number: int, said: Mapping[str, str]) -> str:
    """A whole number as a language writes it, by its `words`.

    >>> whole(1305, words("es")), whole(1305, words("en")), whole(12000, words("es"))
    ('1305', '1,305', '12.000')
    """
    return f"{number:,}".replace(",", said["thousands"]) if abs(number) >= int(said["thousands_from"]) else str(number)


def languages(codes: pl.DataFrame | None, manifest: Mapping[str, Any] | None = None) -> list[str]:
    """The languages of tables: ours, then those of the labels and of the texts."""
    declared = [] if codes is None else label_languages(codes)
    return list(dict.fromkeys([*LANGUAGES, *declared, *((manifest or {}).get("texts") or {})]))


def check_language(lang: str, known: Sequence[str]) -> None:
    """Refuse an unknown language."""
    if lang not in known:
        raise InputError(f"lang={lang[:50]!r} is not known. It is {listing(known)}.")


def told(release: Release, name: str, lang: str) -> str:
    """The title, description, source, unit or note of a release in a language, else without a language."""
    manifest = release.manifest
    plain = manifest.get("population", {}).get("unit", "") if name == "unit" else manifest.get(name, "")
    text = manifest.get("texts", {}).get(lang, {}).get(name) or plain
    return str(text)


class Labels:
    """The labels of codes and variables in a language; a code without a label is its own label."""

    def __init__(self, codes: pl.DataFrame | None, lang: str = "en") -> None:
        self.lang = lang
        self._variables: dict[str, str] = {}
        self._codes: dict[tuple[str, str], str] = {}
        self._below: dict[tuple[str, str, str], str] = {}
        self._labelled: set[str] = set()
        others = languages(codes)
        wanted = [f"label_{one}" for one in dict.fromkeys([lang, lang.partition("-")[0], *others])]
        if codes is None:
            return
        said = {name: pl.col(name).replace("", None) for name in wanted if name in codes.columns}
        # A release lists a code without a label with the code as its only label, label_en.
        more = [one.is_not_null() & ((one != pl.col("code")) | (name != "label_en")) for name, one in said.items()]
        rows = codes.select(
            "variable",
            "code",
            "parent",
            label=pl.coalesce(*said.values(), pl.lit(None, pl.String)),
            is_labelled=pl.any_horizontal(*more, pl.lit(value=False)),
        )
        for variable, code, parent, label, is_labelled in rows.iter_rows():
            if code is None:
                self._variables[variable] = label or variable
                continue
            if is_labelled:
                self._labelled.add(variable)
            self._codes.setdefault((variable, code), label or code)
            if parent is not None:
                self._below.setdefault((variable, parent, code), label or code)

    def variable(self, column: str) -> str:
        """The name of a variable."""
        return self._variables.get(column, column)

    def code(self, column: str, code: str | None, parent: str | None = None) -> str:
        """The label of a code; the parent distinguishes equal codes."""
        if code is None:
            return words(self.lang)["missing"]
        found = self._below.get((column, parent, code)) if parent is not None else None
        return found or self._codes.get((column, code), code)

    def has(self, column: str) -> bool:
        """Whether a code list has labels of a variable in any language, also if they are equal to the codes here."""
        return column in self._labelled


@dataclass(frozen=True)
class Measure:
    """The measure of a table, if it is not the count: a function of published counts."""

    name: str
    of: tuple[str, ...] = ()
    """the common variables of numerator and denominator; none means everybody"""
    times: tuple[str, ...] = ()
    """of a change, the times that are compared, each with the one before"""

    @property
    def decimals(self) -> int:
        """The digits after the point that it is rounded to."""
        return {"percent": 3, "rate": 2, "index": 1}.get(self.name, 0)

    def whole(self, numbers: pl.Series) -> pl.Series:
        """Numbers for a file: counts and changes are whole, also where some are not there."""
        known = numbers.fill_nan(None) if numbers.dtype.is_float() else numbers
        return known.cast(pl.Int64) if self.decimals == 0 else known


COUNT = Measure("count")
MEASURES = ("count", "percent", "rate", "index", "change")


@dataclass(frozen=True)
class Dimension:
    """One axis of a dense table: a key, or a hierarchy at a level; its codes and labels are unique."""

    name: str
    label: str
    columns: tuple[str, ...]
    paths: pl.DataFrame
    codes: list[str]
    labels: list[str]
    geo: bool
    nonexistent: Mapping[str, Flags] = field(default_factory=dict)
    """by time, which values did not exist then; a time in which all existed is left out"""

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def stated(self) -> list[int]:
        """The places of all values but the category of missing values."""
        return self.paths[self.columns[-1]].is_not_null().arg_true().to_list()

    def some(self, places: list[int]) -> Dimension:
        """The same axis with only the values at some places."""
        if len(places) == len(self) and places == list(range(len(self))):
            return self
        codes, labels = [self.codes[place] for place in places], [self.labels[place] for place in places]
        flags = {time: flags[places] for time, flags in self.nonexistent.items()}
        return replace(self, paths=self.paths[places], codes=codes, labels=labels, nonexistent=flags)


def nonexistent(dimensions: Sequence[Dimension]) -> Flags | None:
    """Which cells have a value that did not exist at their time, the last dimension fastest; None if none has."""
    if not any(one.nonexistent for one in dimensions):
        return None
    found = np.zeros(math.prod(len(one) for one in dimensions), dtype=bool)
    for places in _nonexistent_places(dimensions):
        found[places] = True
    return found


def _nonexistent_places(dimensions: Sequence[Dimension]) -> Iterator[IntArray]:
    """The places of these cells in the complete grid, each once, in pieces. The time is the last dimension."""
    *others, time = dimensions
    size, found = [len(one) for one in dimensions], 0
    for at, code in enumerate(time.codes):
        whole = [np.arange(len(one)) for one in others]
        for axis, one in enumerate(others):
            if code not in one.nonexistent:
                continue
            flags = one.nonexistent[code]
            chosen = [*whole[:axis], np.flatnonzero(flags), *whole[axis + 1 :]]
            whole[axis] = np.flatnonzero(~flags)  # so that a cell with two such values is found once
            found += math.prod(map(len, chosen))
            if found > _MOST_CELLS:
                raise InputError(
                    f"more than {_MOST_CELLS:,} cells did not exist at their time, too many to list. Take a table with "
                    f"fewer variables."
                )
            yield np.ravel_multi_index(np.ix_(*chosen, np.array([at])), size).ravel()


class WordedTable:
    """A table of a release with its words."""

    def __init__(
        self,
        release: Release,
        table: PublicTable,
        frame: pl.DataFrame,
        lang: str = "en",
        labels: Labels | None = None,
    ) -> None:
        self.release = release
        self.table = table
        self._frame: pl.DataFrame | None = frame
        self._is_part = False  # whether the rows are places of the complete grid, in its order
        self._schema = frame.schema
        self.lang = lang
        self.labels = labels or Labels(release.codes, lang)
        self.said = words(lang)
        self.complete = release.manifest["rows"] == "grid"  # whether the rows have every combination
        self.measure = COUNT
        self.heading: list[str] | None = None  # special names of the variables in the title
        # the smallest and the largest value of each number, if requested
        self.spans: tuple[Values, Values] | None = None
        self.more_notes: list[str] = []  # what a reader has to know of this part
        self.pulse: Callable[[], object] = lambda: None  # called regularly during writing; may stop it

    @property
    def frame(self) -> pl.DataFrame:
        """The rows: labels and masked counts. Those of a part are made at first use."""
        if self._frame is None:
            self._frame = self._labelled(
                np.arange(len(self.values)), self.measure.whole(pl.Series(self.value_column, self.values))
            )
        return self._frame

    @cached_property
    def listed(self) -> pl.DataFrame:
        """The rows, and one without a number for each cell of the grid that did not exist at its time."""
        is_whole = self.complete or not self.release.nonexistent
        pieces = [] if is_whole else list(_nonexistent_places(self.dimensions))
        if not pieces:
            return self.frame
        gone = np.concatenate(pieces)
        blank = pl.Series(MASKED, [], dtype=self._schema[MASKED]).extend_constant(None, len(gone))
        existing = self.frame.filter(~np.isin(self.places(), gone))
        *columns, time = self.table.columns
        return pl.concat([existing, self._labelled(gone, blank)]).sort([time, *columns])

    def _labelled(self, places: IntArray, numbers: pl.Series) -> pl.DataFrame:
        """The rows at some places of the complete grid, with their numbers."""
        rows = numbers.to_frame()
        digits = np.unravel_index(places, [len(one) for one in self.dimensions] or [1])
        for one, digit in zip(self.dimensions, digits, strict=False):
            rows = rows.hstack(one.paths[pl.Series(digit.astype(np.uint32))])
        labels = {name: kind for name, kind in self._schema.items() if name != MASKED}
        return rows.select([*labels, numbers.name]).cast(pl.Schema(labels))

    @property
    def value_column(self) -> str:
        """The name of the column of numbers."""
        return MASKED if self.measure == COUNT else self.measure.name

    @property
    def value_label(self) -> str:
        """What the numbers are, in words."""
        name, times = self.measure.name, self.measure.times
        if name in ("count", "index"):
            return self.said[name]
        if name == "change":
            few = times if len(times) <= _MOST_TIMES else (times[0], "…", times[-1])
            word = ("change_alone", "change_since", "change")[min(len(times), 3) - 1]  # alone: no time is before it
            return self.said[word].format(time=times[0] if times else "", times=", ".join(few))
        shared = ", ".join(self.labels.variable(column) for column in self.measure.of)
        return self.said["of" if shared else "of_everybody"].format(measure=self.said[name], list=shared)

    @property
    def unit(self) -> str:
        """The unit of the numbers."""
        if self.measure.name in ("count", "change"):
            return self.told("unit") or self.said["number"]
        return self.said[self.measure.name]

    def forget_rows(self) -> None:
        """Keep the words and axes only."""
        self.dimensions  # noqa: B018 - computed from the rows before they are dropped
        self._frame = self.frame.clear()

    @property
    def title(self) -> str:
        """The title of the release, the variables of the table, the declared unit, and what is shown."""
        names = self.heading or [self.labels.variable(dimension[-1]) for dimension in self._dimension_columns()]
        shown = "" if self.measure == COUNT else self.value_label
        about = ", ".join(part for part in (self.told("unit"), shown) if part)
        return f"{self.told('title')}: {', '.join(names) or self.said['all']}" + (f" ({about})" if about else "")

    def told(self, name: str) -> str:
        """The title, description, source, unit or note of the release in the language of the table."""
        return told(self.release, name, self.lang)

    def notes(self, dense: bool) -> list[str]:
        """The notes for a reader."""
        about = self.release.manifest
        method, parameters = _METHODS.get(about["method"], about["method"]), about.get("parameters", {})
        exact = about["method"] == "suppression"
        if about["method"] in MASKING:
            each = f"{self.said['masked']} {self.said['small']}"
            notes = [each.format(method=method, K=about["threshold"])]
        elif "D" in parameters:
            notes = [self.said["moved"].format(method=method, D=parameters["D"])]
        else:
            told = ", ".join(f"{name}={value}" for name, value in parameters.items())
            word = "left_out" if exact else "protected"
            notes = [self.said[word].format(method=f"{method}: {told}" if told else method)]
        if self.release.has_blanks:
            notes.append(self.said["blank"])
        if self.release.nonexistent:
            notes.append(self.said["nonexistent"])
        if not dense and not self.complete:
            notes.append(self.said["absent" if about["absent"] == 0 else "absent_blank"])
        if not exact:  # exact counts add up, except for blanks
            notes.append(self.said["additive" if self.release.additive else "loose"])
        if self.measure != COUNT:
            notes.append(self.said["change_note" if self.measure.name == "change" else "ratio_note"])
        own = self.told("note")
        return [*notes, *self.more_notes, *([own] if own else [])]

    @property
    def created(self) -> datetime:
        """When the release was made."""
        return datetime.fromisoformat(self.release.manifest["created"])

    @property
    def about(self) -> dict[str, Any]:
        """Information about the release for programs, under the names of its manifest."""
        told = self.release.manifest
        names = ("method", "threshold", "cells", "additive", "absent", "source", "software", "created")
        return {"table": self.table.name, **{name: told[name] for name in names}}

    @property
    def by_codes(self) -> pl.DataFrame:
        """The rows in the order of the code lists; those of a series wave by wave. A part has this order already."""
        if self._is_part or not self.dimensions:
            return self.listed
        places = pl.DataFrame({one.name: self._digits(self.listed, one) for one in self.dimensions})
        order = sorted(places.columns, key=lambda name: name != getattr(self.release, "time", None))
        return self.listed[places.select(pl.arg_sort_by(order)).to_series()]

    def named(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows, such as `by_codes`, with a label column after each code column that has labels."""
        columns: list[pl.Series] = []
        for column in self.table.columns:
            columns.append(rows[column])
            if self.labels.has(column):
                columns.append(self._label_column(rows, column))
        return pl.DataFrame([*columns, rows[self.value_column]])

    def _label_column(self, rows: pl.DataFrame, column: str) -> pl.Series:
        above = self._above(column)
        on = [column] if above is None else [above, column]
        keys = rows.select(pl.col(on).cast(pl.String))
        pairs = keys.unique()
        label = [self.labels.code(column, row[-1], row[0] if above is not None else None) for row in pairs.iter_rows()]
        joined = keys.join(
            pairs.with_columns(pl.Series("\0label", label, dtype=pl.String)),
            on=on,
            how="left",
            nulls_equal=True,
            maintain_order="left",
        )
        return joined["\0label"].alias(self.label_name(column))

    def label_name(self, column: str) -> str:
        """The name of the label column of a code column."""
        name = f"{column}_label"
        while name in self.release.design.columns:
            name += "_"
        return name

    def _above(self, column: str) -> str | None:
        for hierarchy in self.release.design.hierarchies:
            place = hierarchy.columns.index(column) if column in hierarchy.columns else 0
            if place:
                return hierarchy.columns[place - 1]
        return None

    def _dimension_columns(self) -> list[tuple[str, ...]]:
        return list(self.table.selection.paths)

    @cached_property
    def dimensions(self) -> list[Dimension]:
        """The axes of the complete grid."""
        return self._named_apart([self._dimension(one, self._paths(one)) for one in self._dimension_columns()])

    def _named_apart(self, dimensions: list[Dimension]) -> list[Dimension]:
        """Make labels of variables unique: readers identify variables by them, and the numbers as "value"."""
        times = Counter([*(one.label.casefold() for one in dimensions), "value"])
        return [
            replace(one, label=f"{one.label} ({one.name})") if times[one.label.casefold()] > 1 else one
            for one in dimensions
        ]

    def _dimension(self, columns: tuple[str, ...], paths: pl.DataFrame) -> Dimension:
        maps = {entry["column"] for entry in self.release.manifest["geometry"]}
        areas = {
            c for h in self.release.design.hierarchies if h.name == "area" or maps & {*h.columns} for c in h.columns
        }
        finest = columns[-1]
        missing = "NA"
        while (paths == missing).select(pl.any_horizontal(pl.all().any())).item():
            missing = f"_{missing}"
        filled = paths.fill_null(missing)
        codes = filled[finest].to_list()
        if len(set(codes)) < len(codes):
            codes = ["/".join(path) for path in filled.iter_rows()]
        above = paths[columns[-2]].to_list() if len(columns) > 1 else [None] * len(codes)
        labels = [
            self.labels.code(finest, code, parent) for code, parent in zip(paths[finest].to_list(), above, strict=True)
        ]
        times = Counter(labels)
        labels = [f"{label} ({code})" if times[label] > 1 else label for label, code in zip(labels, codes, strict=True)]
        name, flags = self.labels.variable(finest), self._nonexistent(columns, paths)
        return Dimension(finest, name, columns, paths, codes, labels, finest in areas, flags)

    def _nonexistent(self, columns: tuple[str, ...], paths: pl.DataFrame) -> dict[str, Flags]:
        """By time, which paths have a code that did not exist."""
        found = {}
        for time, lacking in self.release.nonexistent.items():
            flags = np.zeros(paths.height, dtype=bool)
            for above, column in zip((None, *columns), columns, strict=False):
                pairs = lacking.filter(pl.col("variable") == column).select("code", "parent").rows()
                if pairs:
                    parents = paths[above].to_list() if above else [None] * paths.height
                    known = set(pairs)
                    flags |= [pair in known for pair in zip(paths[column].to_list(), parents, strict=True)]
            if flags.any():
                found[time] = flags
        return found

    def translated(self, lang: str, labels: Labels) -> WordedTable:
        """The same table in another language."""
        other = WordedTable(self.release, self.table, self.frame, lang, labels)
        other.dimensions = other._named_apart([other._dimension(one.columns, one.paths) for one in self.dimensions])
        return other

    def cut(self, places: Sequence[Sequence[int]], values: Values, measure: Measure = COUNT) -> WordedTable:
        """The part of the complete grid at some places of each dimension, also zeros; `values` are its numbers."""
        part = WordedTable(self.release, self.table, self.frame, self.lang, self.labels)
        part.measure = measure
        part._is_part = True
        part.complete = True
        part.dimensions = [one.some(list(chosen)) for one, chosen in zip(self.dimensions, places, strict=True)]
        part.values = values
        part._frame = None
        return part

    def _paths(self, columns: tuple[str, ...]) -> pl.DataFrame:
        """Every published path of a dimension, in the order of the code lists.

        In a release of complete grids the table has them all. Else they come from the code lists, which have the parent
        of each code. If a parent itself has several parents, only the tables know the paths.
        """
        paths = self.frame.select(columns).filter(_changes(self.frame, columns)).unique().cast(pl.String).unique()
        if self.release.manifest["rows"] != "grid":
            lists = {
                column: self.release.codes.filter(pl.col("variable") == column).drop_nulls("code") for column in columns
            }
            recur = any(lists[column]["code"].is_duplicated().any() for column in columns[1:-1])
            more = self._seen(columns) if recur else _listed_paths(lists)
            paths = pl.concat([paths, more]).unique()
        places = []
        for column in columns:
            order = (
                self.release.codes.filter(pl.col("variable") == column)
                .drop_nulls("code")
                .select(pl.col("code").alias(column))
                .unique(maintain_order=True)
                .with_row_index(f"\0{column}")
            )
            paths = paths.join(order, on=column, how="left")
            places += [f"\0{column}", column]
        return paths.sort(places, nulls_last=True).select(columns)

    def _seen(self, columns: tuple[str, ...]) -> pl.DataFrame:
        tables = [name for name, table in self.release.tables.items() if set(columns) <= set(table.columns)]
        return pl.concat(self.release.table(name).select(pl.col(columns).cast(pl.String)).unique() for name in tables)

    @cached_property
    def values(self) -> Values:
        """The counts of the complete grid, the last dimension fastest; NaN for a blank or what did not exist."""
        size = [len(dimension) for dimension in self.dimensions]
        cells = math.prod(size)
        if not cells:
            raise InputError(
                f"{shown_name(self.table.name)!r} has no published cell, so this format cannot be written."
            )
        if cells > _MOST_CELLS:
            raise InputError(
                f"the complete grid of {shown_name(self.table.name)!r} has {cells:,} cells; the limit is "
                f"{_MOST_CELLS:,}. Use parquet or csv, or a table with fewer variables."
            )
        if self.release.has_blanks:  # a blank count is not a number
            blank = np.zeros(cells) if self.release.manifest["absent"] == 0 else np.full(cells, np.nan)
            blank[self.places()] = self.frame[MASKED].cast(pl.Float64).to_numpy()
            return blank if self.nonexistent is None else np.where(self.nonexistent, np.nan, blank)
        values: Values = np.zeros(cells, dtype=np.int64)
        values[self.places()] = self.frame[MASKED].to_numpy()
        return values if self.nonexistent is None else np.where(self.nonexistent, np.nan, values)

    @property
    def nonexistent(self) -> Flags | None:
        """Which cells have a value that did not exist at their time; None if none has."""
        return nonexistent(self.dimensions)

    def places(self) -> IntArray:
        """The place of each row in the complete grid."""
        place = np.zeros(self.frame.height, dtype=np.int64)
        for dimension in self.dimensions:
            place *= len(dimension)
            place += self._digits(self.frame, dimension)
        return place

    def _digits(self, rows: pl.DataFrame, dimension: Dimension) -> IntArray:
        """The place of each row on an axis."""
        columns = list(dimension.columns)
        changes = _changes(rows, columns)
        heads = rows.select(columns).filter(changes)
        different = heads.unique()
        numbered = dimension.paths.with_row_index("\0place")
        spelled = different.cast(pl.String).join(
            numbered, on=columns, how="left", nulls_equal=True, maintain_order="left"
        )
        known = different.with_columns(spelled["\0place"].cast(pl.Int64))
        found = heads.join(known, on=columns, how="left", nulls_equal=True, maintain_order="left")["\0place"]
        digits: IntArray = found.to_numpy()[np.cumsum(changes.to_numpy(), dtype=np.int64) - 1]
        return digits


def _changes(rows: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Where labels differ from the row before. Rows are sorted, so an area seldom changes."""
    other = pl.any_horizontal(pl.col(one).ne_missing(pl.col(one).shift()) for one in columns)
    return rows.select((other | (pl.int_range(pl.len()) == 0)).alias("\0new")).to_series()


def _listed_paths(lists: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """The paths of codes in the code lists."""
    paths, above = pl.DataFrame(), ""
    for column, codes in lists.items():
        known = codes.select(pl.col("code").alias(column), "parent").unique(maintain_order=True)
        if above:
            paths = paths.join(known, left_on=above, right_on="parent", how="inner")
        else:
            paths = known.drop("parent").unique(maintain_order=True)
        above = column
    return paths.select(list(lists))
