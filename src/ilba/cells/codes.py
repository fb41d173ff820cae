"""Code lists, and cells as packed integers.

The labels of each variable are listed once, sorted; an area is its whole path. A cell is a few small numbers, its
digits, packed into one 64-bit integer by mixed radix, with the hierarchies in the high digits. A table with more than
2^63 possible cells needs several integers. Areas are numbered in the order of their paths on every level. So a coarser
area is a run of finer ones, and sorting cells by their integers sorts a table by its labels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.design.design import Design, Selection
from ilba.design.labels import Label, label_text
from ilba.errors import InputError, listing, nearest

IntArray: TypeAlias = npt.NDArray[np.int64]
_WORD = 2**63 - 1
_WHOLE, _LARGE = r"^(0|-?[1-9][0-9]{0,17})$", 10**18  # whole numbers of up to 18 digits


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


def label_type(codes: pl.Series) -> Any:
    """The type of a public column, by its codes alone: whole numbers if all codes are spelled as such, otherwise text.

    The type of the column in the data could disclose codes that are not published.

    >>> label_type(pl.Series(["1", "10", None])), label_type(pl.Series(["01", "2"]))
    (Int64, String)
    """
    if codes.dtype == pl.Int64:
        return (
            pl.Int64
            if bool(codes.drop_nulls().is_between(-_LARGE, _LARGE, "none").all()) and codes.count()
            else pl.String
        )
    texts = codes.drop_nulls().unique()
    return pl.Int64 if len(texts) and bool(texts.str.contains(_WHOLE).all()) else pl.String


def typed_labels(labels: pl.DataFrame) -> pl.DataFrame:
    """Label columns, each in the type that `label_type` gives its codes."""
    return labels.with_columns(column.cast(label_type(column)) for column in labels.get_columns())


@dataclass(frozen=True)
class CodeList:
    """The code list of one dimension: a key (one column) or a hierarchy (a path of columns), sorted.

    Level 0 is the total, level `depth` the finest; a key has the levels 0 and 1.
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
        """The number of the node above each finest label, for each level."""
        changed = np.zeros(len(self), dtype=bool)
        numbers: list[IntArray] = [np.zeros(len(self), dtype=np.int64)]
        for runs in self.labels.select(pl.all().rle_id()).get_columns():
            changed[1:] |= np.diff(runs.to_numpy()) != 0
            numbers.append(np.cumsum(changed, dtype=np.int64))
        return numbers

    @cached_property
    def starts(self) -> list[IntArray]:
        """The place of each node's first finest label, for each level."""
        return [np.flatnonzero(np.diff(numbers, prepend=-1)) for numbers in self.nodes]

    def size(self, level: int) -> int:
        """The number of nodes of a level; 1 for an empty list, so that sizes can be multiplied."""
        return max(len(self.starts[level]), 1)

    def below(self, level: int) -> IntArray:
        """The number of finest labels below each node of a level."""
        return np.diff(self.starts[level], append=len(self)).astype(np.int64)

    def parents(self, level: int, above: int) -> IntArray:
        """The node on the level `above` that contains each node of a level."""
        return self.nodes[above][self.starts[level]]

    def named(self, level: int, nodes: IntArray) -> list[pl.Series]:
        """The label columns down to `level` for the given nodes."""
        first = (
            nodes if level == self.depth else self.starts[level][nodes]
        )  # on the finest level, a node is its own first label
        rows = pl.Series(first.astype(np.uint32))  # the type that polars gathers by
        return self.labels.select(self.columns[:level])[rows].get_columns()

    def node(self, path: Sequence[object]) -> int | None:
        """The number of the node with this path of labels; None if the labels are known but not this combination."""
        wanted = tuple(label_text(canonical(value)) for value in path)
        found = self._index(len(path)).get(wanted)
        if found is None:
            for column, text, value in zip(self.labels.get_columns(), wanted, path, strict=False):
                known = column.unique(maintain_order=True).to_list()
                if text not in {label_text(label) for label in known}:
                    raise InputError(
                        f"{value!r} is not a value of {column.name!r}.{nearest(value, known)} "
                        f"Its values are {listing('(missing)' if v is None else v for v in known)}."
                    )
        return found

    def _index(self, level: int) -> dict[tuple[str | None, ...], int]:
        if level not in self._indices:
            first = self.starts[level].tolist()
            columns = [self.labels[name].gather(first) for name in self.columns[:level]]
            texts = [[label_text(label) for label in column.to_list()] for column in columns]
            self._indices[level] = {path: node for node, path in enumerate(zip(*texts, strict=True))}
        return self._indices[level]

    @cached_property
    def _indices(self) -> dict[int, dict[tuple[str | None, ...], int]]:
        return {}

    def numbers(self, labels: pl.DataFrame) -> IntArray:
        """The number of each row of labels in this list; -1 if absent. Labels are equal if their texts are equal.

        >>> CodeList(pl.DataFrame({"age": [1, 2, 10]})).numbers(pl.DataFrame({"age": ["10", "3", "1"]})).tolist()
        [2, -1, 0]
        """
        here = self.labels.cast(pl.String).with_row_index("\0")
        given = labels.select(self.columns).cast(pl.String)
        found = given.join(here, on=self.columns, how="left", nulls_equal=True, maintain_order="left")["\0"]
        return found.cast(pl.Int64).fill_null(-1).to_numpy()

    def recurring(self) -> dict[str, list[str]]:
        """Columns in which codes have different parents, with these codes."""
        found = {}
        for level in range(2, self.depth + 1):
            codes = self.labels[self.columns[level - 1]].gather(self.starts[level])
            if codes.n_unique() < len(codes):
                found[codes.name] = (
                    codes.filter(codes.is_duplicated()).cast(pl.String).drop_nulls().unique().sort().to_list()
                )
        return found


class Place(NamedTuple):
    """A dimension of a table and its level there."""

    dimension: int
    level: int
    size: int


class CellIndex:
    """How the cells of one table are packed: its places in order, and which places share an integer."""

    def __init__(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self.words: list[list[int]] = [[]]
        room = _WORD
        for place, (_, _, size) in enumerate(self.places):
            if size > room:
                self.words.append([])
                room = _WORD
            self.words[-1].append(place)
            room //= max(size, 1)
        self._word = {place: word for word, places in enumerate(self.words) for place in places}

    @property
    def grid(self) -> int:
        """The number of possible cells of the table."""
        return math.prod(place.size for place in self.places)

    def stride(self, place: int) -> int:
        """How much a packed cell grows when one of its digits grows by one."""
        word = self.words[self._word[place]]
        return math.prod(self.places[later].size for later in word[word.index(place) + 1 :])

    def block(self, packed: Sequence[IntArray], first: int, last: int) -> IntArray:
        """The digits of the places `first` to `last`, which share a word, as one number."""
        number = self._word[last]
        stride = self.stride(last)
        above = packed[number] // stride if stride > 1 else packed[number]
        if first == self.words[number][0]:
            return above
        size = math.prod(self.places[place].size for place in range(first, last + 1))
        return above - above // size * size  # numpy has a fast division by a constant, but no fast remainder

    def digits(self, packed: Sequence[IntArray]) -> list[IntArray]:
        """The digit of each place."""
        return [self.block(packed, place, place) for place in range(len(self.places))]

    def pack(self, digits: Sequence[IntArray], rows: int) -> list[IntArray]:
        """The cells with these digits, one array per word."""
        return [self._joined([(digits[i], self.places[i].size) for i in word], rows) for word in self.words]

    def project(self, packed: Sequence[IntArray], target: CellIndex, lists: Sequence[CodeList]) -> list[IntArray]:
        """The cells of a coarser table to which these cells belong."""
        here = {place.dimension: number for number, place in enumerate(self.places)}
        rows = len(packed[0])
        words = []
        for word in target.words:
            blocks: list[tuple[IntArray, int]] = []
            for first, last in self._runs(word, target, here):
                source = here[target.places[first].dimension]
                values = self.block(packed, source, source + last - first)
                dimension, level, _ = target.places[first]
                if self.places[source].level != level:
                    values = lists[dimension].parents(self.places[source].level, level)[values]
                blocks.append((values, math.prod(target.places[i].size for i in range(first, last + 1))))
            words.append(self._joined(blocks, rows))
        return words

    def runs(self, target: CellIndex) -> int:
        """The number of moves that take the digits of a coarser table from these cells."""
        here = {place.dimension: number for number, place in enumerate(self.places)}
        return sum(len(self._runs(word, target, here)) for word in target.words)

    def _runs(self, word: Sequence[int], target: CellIndex, here: Mapping[int, int]) -> list[tuple[int, int]]:
        """The places of a target word in runs that are also adjacent here, so that they can be moved together."""
        runs: list[tuple[int, int]] = []
        for place in word:
            wanted = target.places[place]
            source = here[wanted.dimension]
            if runs:
                before = target.places[place - 1]
                joined = (
                    here[before.dimension] == source - 1
                    and self._word[source] == self._word[source - 1]
                    and self.places[source] == wanted
                    and self.places[source - 1] == before
                )
                if joined:
                    runs[-1] = (runs[-1][0], place)
                    continue
            runs.append((place, place))
        return runs

    @staticmethod
    def _joined(digits: Sequence[tuple[IntArray, int]], rows: int) -> IntArray:
        if not digits:
            return np.zeros(rows, dtype=np.int64)
        packed = digits[0][0].astype(np.int64, copy=False)
        for digit, size in digits[1:]:
            packed = packed * size
            packed += digit
        return packed


class CodeLists:
    """The code lists of a design, and the index of the cells of each of its tables."""

    def __init__(self, design: Design, lists: Sequence[CodeList], unlisted: Sequence[str] = ()) -> None:
        self.design = design
        self.unlisted = tuple(unlisted)
        """columns whose codes are unknown; one missing label stands for any number of them"""
        self.lists = tuple(lists)
        self._cell_indexes: dict[Selection, CellIndex] = {}
        self._spelled: dict[tuple[Any, ...], pl.Series] = {}
        self.finest = self.cell_index(design.finest)

    @classmethod
    def of(cls, design: Design, labels: Sequence[pl.DataFrame], unlisted: Sequence[str] = ()) -> CodeLists:
        """Make code lists from the labels that occur, a frame for each dimension."""
        return cls(design, [CodeList(frame.unique().sort(frame.columns)) for frame in labels], unlisted)

    @staticmethod
    def dimensions(design: Design) -> list[list[str]]:
        """The columns of each dimension: the hierarchies, then the keys."""
        return [list(hierarchy.columns) for hierarchy in design.hierarchies] + [[key] for key in design.keys]

    def order(self, columns: Sequence[str]) -> list[int]:
        """The places of the dimensions in the order in which another table has the same columns."""
        first = [columns.index(dimension[0]) for dimension in self.dimensions(self.design)]
        return sorted(range(len(first)), key=first.__getitem__)

    def cell_index(self, selection: Selection) -> CellIndex:
        """How the cells of a table are packed, in the order of its columns."""
        if selection not in self._cell_indexes:
            self._cell_indexes[selection] = self._cell_index(selection)
        return self._cell_indexes[selection]

    def _cell_index(self, selection: Selection) -> CellIndex:
        areas = [(place, level) for place, level in enumerate(selection.levels) if level]
        first_key = len(self.design.hierarchies)
        keys = [(first_key + self.design.keys.index(key), 1) for key in selection.keys]
        return CellIndex(
            [Place(dimension, level, self.lists[dimension].size(level)) for dimension, level in areas + keys]
        )

    def labels(self, cell_index: CellIndex, packed: Sequence[IntArray]) -> list[pl.Series]:
        """The label columns of packed cells."""
        columns: list[pl.Series] = []
        for (dimension, level, _), nodes in zip(cell_index.places, cell_index.digits(packed), strict=True):
            columns += self.lists[dimension].named(level, nodes)
        return columns

    def texts(
        self, cell_index: CellIndex, packed: Sequence[IntArray], spelled: Callable[[pl.Series], pl.Expr], between: str
    ) -> list[pl.Series]:
        """The labels of packed cells as text, in few columns: neighbouring dimensions are joined by `between`.

        `spelled` makes text of a label column and of its name. It spells each label once, not once for each cell, so
        dimensions are joined while they have far fewer combinations together than there are cells.
        """

        def joined(labels: Sequence[pl.Series], texts: Sequence[pl.Expr]) -> pl.Series:
            name = between.join(text.meta.output_name() for text in texts)
            return pl.DataFrame(labels).select(pl.concat_str(texts, separator=between).alias(name)).to_series()

        def text_of(place: Place) -> pl.Series:
            asked = place.dimension, place.level, spelled, between
            if asked not in self._spelled:  # the same for every table
                labels = self.lists[place.dimension].named(place.level, np.arange(place.size))
                self._spelled[asked] = joined(labels, [*map(spelled, labels)])
            return self._spelled[asked]

        columns: list[pl.Series] = []
        for word in cell_index.words:
            place, last = len(columns), len(word)
            while last:
                first = last - 1
                text = text_of(cell_index.places[word[first]])
                while first and len(text) * cell_index.places[word[first - 1]].size <= min(2**16, len(packed[0]) // 8):
                    first -= 1
                    before = text_of(cell_index.places[word[first]])
                    upper, lower = np.divmod(np.arange(len(before) * len(text), dtype=np.uint32), len(text))
                    pair = [before[pl.Series(upper)], text[pl.Series(lower)]]
                    text = joined(pair, [pl.col(half.name) for half in pair])
                block = cell_index.block(packed, word[first], word[last - 1])
                columns.insert(place, text[pl.Series(block.astype(np.uint32))])
                last = first
        return columns

    def grid(self, cell_index: CellIndex, packed: Sequence[IntArray], most: int) -> IntArray:
        """The number of cells of the finest grid in each of the packed cells, at most `most`.

        The grid is every finest area with every combination of keys. It is counted, never built.
        """
        chosen = {place.dimension: number for number, place in enumerate(cell_index.places)}
        rows = len(packed[0])
        size, exact = np.ones(rows), np.ones(rows, dtype=np.int64)
        for dimension, listed in enumerate(self.lists):
            factor: Any = len(listed)
            if dimension in chosen:
                place = chosen[dimension]
                factor = listed.below(cell_index.places[place].level)[cell_index.block(packed, place, place)]
            size = size * factor  # in floating point first, to see where the integers would overflow
            exact = np.where(size > most, most, exact * factor)
            size = np.minimum(size, float(most) + 1)
        return exact

    def cells_of(self, other: CodeLists, packed: Sequence[IntArray]) -> tuple[list[IntArray], IntArray]:
        """The finest cells of another design with the same columns, packed as here, and their row numbers there.

        Cells with a label that is not listed here are left out.
        """
        digits: list[IntArray] = []
        places = {tuple(listed.columns): place for place, listed in enumerate(other.lists)}
        for listed in self.lists:
            place = places.get(tuple(listed.columns))
            if place is not None:
                numbers = listed.numbers(other.lists[place].labels)
                digits.append(numbers[other.finest.block(packed, place, place)])
            else:  # the same columns in other hierarchies: row by row
                digits.append(listed.numbers(pl.DataFrame(other.labels(other.finest, packed))))
        found = np.flatnonzero(np.logical_and.reduce([digit >= 0 for digit in digits]))
        return self.finest.pack([digit[found] for digit in digits], len(found)), found

    def only(self, used: Sequence[npt.NDArray[np.bool_]]) -> CodeLists:
        """The lists without unused labels."""
        return CodeLists(
            self.design, [CodeList(one.labels.filter(keep)) for one, keep in zip(self.lists, used, strict=True)]
        )

    def shown(
        self, used: Sequence[IntArray], kind: Callable[[str, pl.Series], Any]
    ) -> tuple[CodeLists, list[IntArray]]:
        """The lists cut to the labels with these numbers, in other types; and the new number of each old one, or -1.

        `kind` gives the type of a column from its name and its codes, as text.
        """
        lists, moved = [], []
        for listed, kept in zip(self.lists, used, strict=True):
            texts = listed.labels[kept].cast(pl.String)
            labels = texts.with_columns(texts[name].cast(kind(name, texts[name])) for name in texts.columns)
            order = labels.with_row_index("\0").sort(labels.columns)["\0"].to_numpy()
            numbers = np.full(len(listed), -1, dtype=np.int64)
            numbers[kept[order]] = np.arange(len(kept))
            lists.append(CodeList(labels[order]))
            moved.append(numbers)
        return CodeLists(self.design, lists), moved

    def to_json(self) -> list[dict[str, Any]]:
        """The lists as plain values, for a file."""
        return [
            {
                "columns": listed.columns,
                "types": ["int" if dtype == pl.Int64 else "text" for dtype in listed.labels.dtypes],
                "labels": [column.to_list() for column in listed.labels.get_columns()],
            }
            for listed in self.lists
        ]

    @classmethod
    def from_json(cls, design: Design, plain: Iterable[Mapping[str, Any]]) -> CodeLists:
        """Read the lists from plain values."""
        lists = []
        for listed in plain:
            types = [pl.Int64 if kind == "int" else pl.String for kind in listed["types"]]
            columns = zip(listed["columns"], types, listed["labels"], strict=True)
            lists.append(
                CodeList(pl.DataFrame([pl.Series(name, values, dtype=kind) for name, kind, values in columns]))
            )
        return cls(design, lists)


def sorted_order(cells: IntArray, grid: int) -> IntArray:
    """The order that sorts the cells, stable for equal ones."""
    bits = len(cells).bit_length()
    if grid << bits < 2**63:
        # Sorting plain integers is several times faster than sorting an index, so carry the row number along.
        keyed = cells << bits
        keyed |= np.arange(len(cells))
        keyed.sort()
        keyed &= 2**bits - 1
        return keyed
    return np.argsort(cells, kind="stable")
