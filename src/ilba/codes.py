"""Code lists, and cells as packed integers.

The labels of each variable are listed once, sorted; an area is its whole path. A cell is then a few small numbers,
packed into one 64-bit integer by mixed radix, the hierarchies in the high digits (into several integers where the
grid has more than 2^63 cells). Finest areas are numbered in the order of their paths, so that every coarser area
is a run of them and sorting cells by their integer sorts a table by its labels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.design import Design, Selection
from ilba.errors import InputError, listing, nearest
from ilba.secret import Label, label_text

IntArray: TypeAlias = npt.NDArray[np.int64]
_WORD = 2**63 - 1
_PLACE = "\0place"  # cannot be the name of a column that came out of a file


@dataclass(frozen=True)
class Listed:
    """The code list of one dimension: a key (one column) or a hierarchy (a path of columns), sorted.

    Level 0 is everything together, level `depth` the finest; a key has the levels 0 and 1.
    """

    labels: pl.DataFrame

    def __len__(self) -> int:
        return self.labels.height

    @property
    def columns(self) -> list[str]:
        """The columns of the dimension, coarse to fine."""
        return self.labels.columns

    @property
    def depth(self) -> int:
        """The number of the finest level."""
        return self.labels.width

    @cached_property
    def nodes(self) -> list[IntArray]:
        """For each level the number of the node above each finest label."""
        changed = np.zeros(len(self), dtype=bool)
        numbers: list[IntArray] = [np.zeros(len(self), dtype=np.int64)]
        for column in self.labels.get_columns():
            differs = column.ne_missing(column.shift(1)).to_numpy().copy()
            differs[:1] = False
            changed = changed | differs
            numbers.append(np.cumsum(changed, dtype=np.int64))
        return numbers

    @cached_property
    def starts(self) -> list[IntArray]:
        """For each level the place of each node's first finest label."""
        return [np.flatnonzero(np.diff(numbers, prepend=-1)) for numbers in self.nodes]

    def size(self, level: int) -> int:
        """How many nodes a level has."""
        return len(self.starts[level])

    def below(self, level: int) -> IntArray:
        """How many finest labels lie below each node of a level."""
        return np.diff(self.starts[level], append=len(self)).astype(np.int64)

    def named(self, level: int, nodes: IntArray) -> list[pl.Series]:
        """The label columns down to `level` for the given nodes."""
        rows = self.starts[level][nodes]
        return [column.gather(rows) for column in self.labels.get_columns()[:level]]

    def encode(self, frame: pl.DataFrame) -> IntArray:
        """The place of each row's labels in the list; -1 for labels that are not in it."""
        known = self.labels.with_row_index(_PLACE)
        found = frame.select(self.columns).join(
            known, on=self.columns, how="left", nulls_equal=True, maintain_order="left"
        )
        return found[_PLACE].cast(pl.Int64).fill_null(-1).to_numpy()

    def node(self, path: Sequence[object]) -> int | None:
        """The number of the node with this path of labels; None when the labels are known but not together."""
        matches = np.ones(len(self), dtype=bool)
        for column, wanted in zip(self.labels.get_columns(), path, strict=False):
            same = _equal(column, wanted)
            if not same.any():
                known = column.unique(maintain_order=True).to_list()
                raise InputError(
                    f"{wanted!r} is not a value of {column.name!r}.{nearest(wanted, known)} "
                    f"Its values are {listing('(missing)' if v is None else v for v in known)}."
                )
            matches &= same
        places = np.flatnonzero(matches)
        return int(self.nodes[len(path)][places[0]]) if len(places) else None

    def recurring(self) -> dict[str, int]:
        """Columns in which a code stands under different parents, with the number of such codes."""
        found = {}
        for level in range(2, self.depth + 1):
            paths = self.labels.select(self.columns[:level]).unique()
            repeated = paths.height - paths[self.columns[level - 1]].n_unique()
            if repeated:
                counts = paths[self.columns[level - 1]].value_counts()
                found[self.columns[level - 1]] = int((counts["count"] > 1).sum())
        return found


def _equal(column: pl.Series, wanted: object) -> npt.NDArray[np.bool_]:
    """Where a column holds a value, compared as labels: 1 is "1", whichever way the file was read."""
    value = canonical(wanted)
    if value is None:
        return column.is_null().to_numpy()
    if column.dtype == pl.Int64:
        text = label_text(value)
        number = int(text) if text is not None and _is_number(text) else None
        if number is None or not -(2**63) <= number < 2**63:
            return np.zeros(len(column), dtype=bool)
        return (column == number).fill_null(False).to_numpy()
    return (column == label_text(value)).fill_null(False).to_numpy()


def _is_number(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdecimal() and str(int(text)) == text


def canonical(value: object) -> Label:
    """One value as a label: whole numbers as int, missing as None, everything else as text.

    >>> canonical(1.0), canonical(True), canonical("01"), canonical(float("nan"))
    (1, 'true', '01', None)
    """
    if value is None or value.__class__.__name__ in ("NAType", "NaTType") or value != value:
        return None
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return int(value) if float(value).is_integer() else repr(float(value))
    iso = getattr(value, "isoformat", None)
    return str(iso()) if iso is not None else str(value)


class CodeLists:
    """The code lists of a design, and the packing of its cells."""

    def __init__(self, design: Design, dimensions: Sequence[Listed]) -> None:
        self.design = design
        self.dimensions = tuple(dimensions)
        self._words = _split([len(dimension) for dimension in self.dimensions])

    @classmethod
    def of(cls, design: Design, frame: pl.DataFrame) -> CodeLists:
        """The labels that occur in a frame, each list sorted."""
        groups = [list(hierarchy.columns) for hierarchy in design.hierarchies] + [[key] for key in design.keys]
        return cls(design, [Listed(frame.select(group).unique().sort(group)) for group in groups])

    def encode(self, frame: pl.DataFrame) -> list[IntArray]:
        """The digits of each row's cell, one array per dimension."""
        return [dimension.encode(frame) for dimension in self.dimensions]

    def pack(self, digits: Sequence[IntArray]) -> list[IntArray]:
        """The cells as integers, one array per word."""
        return [_join([(digits[i], len(self.dimensions[i])) for i in word]) for word in self._words]

    def digit(self, words: Sequence[IntArray], dimension: int) -> IntArray:
        """One digit of packed cells."""
        place = next(place for place, word in enumerate(self._words) if dimension in word)
        stride = self.stride(dimension)
        above = words[place] // stride if stride > 1 else words[place]
        return above if dimension == self._words[place][0] else above % len(self.dimensions[dimension])

    def stride(self, dimension: int) -> int:
        """By how much a packed cell grows when one of its digits grows by one."""
        word = next(word for word in self._words if dimension in word)
        return math.prod(len(self.dimensions[later]) for later in word[word.index(dimension) + 1 :])

    def levels(self, selection: Selection) -> list[tuple[int, int]]:
        """The dimensions of a table as (dimension, level), in the order of its columns."""
        areas = [(place, level) for place, level in enumerate(selection.levels) if level]
        first_key = len(self.design.hierarchies)
        return areas + [(first_key + self.design.keys.index(key), 1) for key in selection.keys]

    def project(self, words: Sequence[IntArray], selection: Selection) -> list[IntArray]:
        """The cells of a table to which packed finest cells belong, packed again."""
        digits = [self.dimensions[d].nodes[level][self.digit(words, d)] for d, level in self.levels(selection)]
        sizes = self._sizes(selection)
        rows = len(words[0]) if words else 0
        if not digits:
            return [np.zeros(rows, dtype=np.int64)]
        return [_join([(digits[i], sizes[i]) for i in word]) for word in _split(sizes)]

    def unproject(self, packed: Sequence[IntArray], selection: Selection) -> list[IntArray]:
        """The digits of a table's packed cells: the node of each of its dimensions."""
        sizes = self._sizes(selection)
        digits: list[IntArray] = []
        for values, word in zip(packed, _split(sizes), strict=False):
            rest, taken = values, []
            for i in reversed(word):
                taken.append(rest % sizes[i])
                rest = rest // sizes[i]
            digits += reversed(taken)
        return digits

    def labels(self, digits: Sequence[IntArray], selection: Selection) -> list[pl.Series]:
        """The label columns of a table's cells."""
        columns: list[pl.Series] = []
        for (dimension, level), nodes in zip(self.levels(selection), digits, strict=True):
            columns += self.dimensions[dimension].named(level, nodes)
        return columns

    def grid(self, digits: Sequence[IntArray], selection: Selection, rows: int, most: int) -> IntArray:
        """How many cells of the finest grid lie in each cell of a table, at most `most`.

        The grid is every finest area with every combination of keys. It is counted, never made.
        """
        chosen = dict(self.levels(selection))
        size = np.full(rows, 1.0)
        exact = np.full(rows, 1, dtype=np.int64)
        order = [dimension for dimension, _ in self.levels(selection)]
        for place, dimension in enumerate(self.dimensions):
            factor: Any = len(dimension)
            if place in chosen:
                factor = dimension.below(chosen[place])[digits[order.index(place)]]
            size = size * factor  # in floating point first, to see where the integers would overflow
            exact = np.where(size > most, most, exact * factor)
            size = np.minimum(size, float(most) + 1)
        return exact

    def to_json(self) -> list[dict[str, Any]]:
        """The lists as plain values, for a file."""
        return [
            {
                "columns": dimension.columns,
                "types": ["int" if dtype == pl.Int64 else "text" for dtype in dimension.labels.dtypes],
                "labels": [column.to_list() for column in dimension.labels.get_columns()],
            }
            for dimension in self.dimensions
        ]

    @classmethod
    def from_json(cls, design: Design, plain: Iterable[Mapping[str, Any]]) -> CodeLists:
        """Take the lists back from plain values."""
        dimensions = []
        for dimension in plain:
            types = [pl.Int64 if kind == "int" else pl.String for kind in dimension["types"]]
            columns = zip(dimension["columns"], types, dimension["labels"], strict=True)
            dimensions.append(Listed(pl.DataFrame([pl.Series(n, values, dtype=t) for n, t, values in columns])))
        return cls(design, dimensions)

    def _sizes(self, selection: Selection) -> list[int]:
        return [self.dimensions[dimension].size(level) for dimension, level in self.levels(selection)]


def _split(sizes: Sequence[int]) -> list[list[int]]:
    """Which dimensions share a word: as many as fit into 63 bits, in order."""
    words: list[list[int]] = [[]]
    room = _WORD
    for place, size in enumerate(sizes):
        if max(size, 1) > room:
            words.append([])
            room = _WORD
        words[-1].append(place)
        room //= max(size, 1)
    return words


def _join(digits: Sequence[tuple[IntArray, int]]) -> IntArray:
    packed = digits[0][0]
    for digit, size in digits[1:]:
        packed = packed * size + digit
    return packed
