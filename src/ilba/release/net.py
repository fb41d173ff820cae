"""Recognise the same people under another name, by keyed hashes of what the data looks like. Confidential.

Three sketches of each published data are kept. The first one is of its columns: the number of people with each label,
if that number is unique in its column, hashed with and without the label. It finds people whose columns or labels have
other names. The second one is of the small cells with their labels and counts, which most corrections and filters do
not change. The third one is of the columns of parts, such as the women: it finds a part that is published without the
column that defines it. The smallest hashes of each sketch are kept. Labels are kept as hashes, too, with and without
leading zeros and capital letters, to notice a later wave that spells them otherwise. Without the secret all is noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.design.design import Design, Selection

if TYPE_CHECKING:
    from ilba.cells.codes import CodeLists
    from ilba.secret.secret import Secret

Words: TypeAlias = npt.NDArray[np.uint64]
IntArray: TypeAlias = npt.NDArray[np.int64]
Part: TypeAlias = tuple[Words, ...]

SKETCH = 256
_SKETCH_OF_PART = 8
_LABELS = 2**16
"""labels of a column with more of them are not compared"""
_PARTS = 128
"""a column with more labels divides the people into parts that are too small to tell"""
_PART_CELLS = 2**20
"""tables of two columns with more possible cells are left out"""
_WITHIN = 16
"""fewer small cells than this do not tell whether one sketch is a part of the other"""
_TELLING = 30
"""smaller numbers of people are too often equal by chance"""
_EQUAL = 1 / 3
"""the least share of equal hashes in two sketches together: at least half of each are equal"""
_BITS = 16
"""how unlikely a match by chance must be, in bits"""
_CELLS = 100
"""fewer small cells than this allow no conclusion"""
_LIKE = 4
"""data with this many times as many small cells may have none in common with other data by chance"""
_OTHERWISE = 5
"""if one in this many equal numbers of a column has another label, labels are spelled differently"""
_PURPOSE = "ledger net"
_MISSING = f" {''!r}"
"""how a text of a label ends if the label is missing"""


@dataclass(frozen=True)
class Net:
    """The sketches of some data.

    Parameters
    ----------
    columns
        Pairs of hashes for each column: of a number of people, and of that number with its label.
    cells
        Hashes of small cells with their labels and counts.
    size
        The number of small cells.
    worth
        The evidence of each matching hash of a number, in bits: known for the current data only.
    parts
        The people with one label of one column: for each other column, the smallest hashes of its numbers of people.
    labels
        For each column with few labels, pairs of hashes: of a label as it would be without leading zeros and capital
        letters, and of the label.
    texts
        Column and label of each pair by its second hash: known for the current data only.
    records
        For each column, the true counts of its labels: known for the current data only.
    """

    columns: tuple[Words, ...]
    cells: Words
    size: int
    worth: Mapping[int, float]
    parts: tuple[Part, ...] = ()
    labels: tuple[Words, ...] = ()
    texts: Mapping[int, str] = field(default_factory=dict)
    records: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values for the ledger. The number of small cells is rounded to a power of two."""
        return {
            "columns": [_hex(column) for column in self.columns],
            "cells": _hex(self.cells),
            "size": 2 ** int(math.log2(self.size)) if self.size else 0,
            "parts": [[_hex(column) for column in part] for part in self.parts],
            "labels": [_hex(column) for column in self.labels],
        }

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Net:
        """Read it from plain values."""
        columns = tuple(_words(column).reshape(-1, 2) for column in plain["columns"])
        parts = tuple(tuple(map(_words, part)) for part in plain.get("parts", ()))  # earlier versions kept none
        labels = tuple(_words(column).reshape(-1, 2) for column in plain.get("labels", ()))
        return cls(columns, _words(plain["cells"]), int(plain["size"]), {}, parts, labels)

    def catches(self, before: Net) -> bool:
        """Whether this data looks like the same people as `before`."""
        return (min(self.size, before.size) >= _CELLS and self.same_cells(before)) or self.same_columns(before)

    def part_of(self, before: Net) -> bool:
        """Whether this data looks like a part of the same people as `before`, or those like a part of these."""
        if _within(self.cells, before.cells):
            return True
        here, there = ([column[:, 0] for column in one.columns] for one in (self, before))
        tried = [*((here, part) for part in before.parts), *((part, there) for part in self.parts)]
        chance = math.log2(len(tried) + 1)
        return any(self._same_numbers(now, then, _SKETCH_OF_PART, _BITS + chance) for now, then in tried)

    def same_cells(self, before: Net) -> bool:
        """Whether half or more of the small cells are the same, with labels and counts."""
        return _is_like(self.cells, before.cells)

    def no_cells(self, before: Net) -> bool:
        """Whether not one small cell is the same, though both have many: no label is spelled as before."""
        few, many = sorted((self.size, before.size))
        return few >= _CELLS and many < _LIKE * few and not len(np.intersect1d(self.cells, before.cells))

    def same_columns(self, before: Net) -> bool:
        """Whether half or more of the columns, under any names, have the same numbers of people."""
        here, there = ([column[:, 0] for column in one.columns] for one in (self, before))
        return self._same_numbers(here, there, SKETCH, _BITS)

    def _same_numbers(self, now: Sequence[Words], before: Sequence[Words], most: int, bits: float) -> bool:
        few = min(sum(bool(len(column)) for column in columns) for columns in (now, before))
        alike = [(column, [other for other in before if _is_like(column, other, most)]) for column in now]
        alike = [(column, likes) for column, likes in alike if likes]
        equal = {number for column, likes in alike for other in likes for number in np.intersect1d(column, other)}
        return 2 * len(alike) >= few and self._bits(map(int, equal)) >= bits

    def labelled_otherwise(self, before: Net) -> bool:
        """Whether the same people appear under other labels: spelled differently, or in other groups."""
        if (self.size or before.size) and self.same_columns(before) and not self.same_cells(before):
            return True
        for pairs in self._alike(before):
            moved = [number for number, is_labelled_so in pairs if not is_labelled_so]
            if self._bits(moved) >= _BITS and _OTHERWISE * len(moved) >= len(pairs):
                return True
        return False

    def respelled(self, before: Sequence[Net]) -> list[str]:
        """The labels that no earlier data spells so, though it has them with other zeros or other letters' cases."""
        known: dict[int, set[int]] = {}
        for one in before:
            for plain, label in (pair for column in one.labels for pair in column.tolist()):
                known.setdefault(plain, set()).add(label)
        pairs = (pair for column in self.labels for pair in column.tolist())
        return sorted(self.texts[label] for plain, label in pairs if label not in known.get(plain, {label}))

    def newly_missing(self, before: Sequence[Net]) -> list[str]:
        """The columns with missing values that no earlier data has there, where it has few enough labels to tell."""
        found = []
        for column in self.labels:
            here = set(column[:, 1].tolist())
            missing = [label for label in here if self.texts[label].endswith(_MISSING)]
            known = [set(other[:, 1].tolist()) for one in before for other in one.labels if len(other) < SKETCH]
            alike = [labels for labels in known if labels & here]
            found += [
                self.texts[label].removesuffix(_MISSING)
                for label in missing
                if alike and not any(label in labels for labels in alike)
            ]
        return found

    def no_longer_missing(self, last: Net, secret: Secret) -> list[str]:
        """The columns without missing values in which the last data has some."""
        if not last.labels:
            return []
        known = np.concatenate([column[:, 1] for column in last.labels])
        return [
            name
            for name, labels in self.records.items()
            if "" not in labels and labels_among(known, name, [""], secret)
        ]

    def turned_over(self, before: Sequence[Net]) -> dict[str, tuple[Words, Words]]:
        """For each column, the hashes of labels that no earlier data has, and of those that only the last one has.

        Columns with too many labels to tell are left out.
        """
        found = {}
        for name, column in zip(self.records, self.labels, strict=True):
            here = column[:, 1]
            there = [one[:, 1] for net in before for one in net.labels if np.isin(one[:, 1], here).any()]
            last = [one[:, 1] for one in before[-1].labels if np.isin(one[:, 1], here).any()]
            if last and max(map(len, (here, *there))) < SKETCH:
                found[name] = np.setdiff1d(here, np.concatenate(there)), np.setdiff1d(last[0], here)
        return found

    def _bits(self, numbers: Iterable[int]) -> float:
        return sum(self.worth.get(number, 0) for number in numbers)

    def _alike(self, before: Net) -> list[list[tuple[int, bool]]]:
        """The equal numbers of each column that has a match, each with whether its label is also equal."""
        found = []
        for column in self.columns:
            likes = [other for other in before.columns if _is_like(column[:, 0], other[:, 0])]
            if likes:
                labels = {(int(number), int(label)) for other in likes for number, label in other}
                numbers = {number for number, _ in labels}
                found.append([(int(n), (int(n), int(label)) in labels) for n, label in column if int(n) in numbers])
        return found


def columns_of(design: Design) -> list[Selection]:
    """The tables of single columns: each level of each hierarchy, and each key."""
    levels = [0] * len(design.hierarchies)
    tables = []
    for place, hierarchy in enumerate(design.hierarchies):
        for level in range(1, len(hierarchy.columns) + 1):
            tables.append(design.at([level if place == other else 0 for other in range(len(levels))], ()))
    return [*tables, *(design.at(levels, (key,)) for key in design.keys)]


def parts_of(codes: CodeLists) -> list[tuple[Selection, int, int]]:
    """The tables of two columns that tell how parts look, each with the dimension and level that divides the people.

    A part has one label of a key, or is one area of the first level that has several.
    """
    columns = columns_of(codes.design)
    found, divided = [], set()
    for by in columns:
        dimension, level, size = codes.cell_index(by).places[0]
        if dimension in divided or size < 2:
            continue
        divided.add(dimension)
        for column in columns if size <= _PARTS else ():
            levels = [max(pair) for pair in zip(by.levels, column.levels, strict=True)]
            table = codes.design.at(levels, [*by.keys, *(key for key in column.keys if key not in by.keys)])
            if table != by and codes.cell_index(table).grid <= _PART_CELLS:
                found.append((table, dimension, level))
    return found


def net(
    columns: Sequence[tuple[Sequence[str], IntArray]],
    tags: Words,
    small: int,
    secret: Secret,
    parts: Iterable[Sequence[IntArray]] = (),
    names: Sequence[str] = (),
) -> Net:
    """The net of some data: labels and true counts of its columns, and the smallest tags of its `small` small cells.

    `parts` has the true counts of the columns of each part; `names` are the names of the columns.
    """
    own = secret.derived(_PURPOSE)
    kept, worth = [], {}
    for labels, counts in columns:
        alone = _alone(counts)
        numbers = [int(n) for n in counts[alone]]
        texts = (f"{n} {labels[place]}" for n, place in zip(numbers, alone.tolist(), strict=True))
        pairs = np.stack([own.hashes(map(str, numbers)), own.hashes(texts)], axis=1).reshape(-1, 2)
        worth.update({int(h): _bits_of(n) for h, n in zip(pairs[:, 0], numbers, strict=True)})
        kept.append(pairs[np.argsort(pairs[:, 0])][:SKETCH])
    sketches = []
    for part in parts:
        telling = [counts[_alone(counts)] for counts in part]
        hashes = [own.hashes(map(str, numbers.tolist())) for numbers in telling]
        bits = {
            int(h): _bits_of(int(n))
            for one, numbers in zip(hashes, telling, strict=True)
            for h, n in zip(one, numbers, strict=True)
        }
        if sum(bits.values()) >= _BITS:
            worth.update(bits)
            sketches.append(tuple(np.sort(one)[:_SKETCH_OF_PART] for one in hashes if len(one)))
    spelled = [_spelled(name, labels, own) for name, (labels, _) in zip(names, columns, strict=False)]
    told = {label: text for one, _ in spelled for label, text in one.items()}
    pairs_of = tuple(pairs for _, pairs in spelled)
    records = {name: _records(*column) for name, column in zip(names, columns, strict=False)}
    return Net(tuple(kept), np.sort(tags)[:SKETCH], small, worth, tuple(sketches), pairs_of, told, records)


def label_hashes(name: str, labels: Iterable[str], own: Secret) -> Words:
    """The hashes of labels of a column, as in the pairs of a net."""
    return own.hashes(f"label {name}\0{one}" for one in labels)


def labels_among(hashes: Words, name: str, labels: Iterable[str], secret: Secret) -> set[str]:
    """The labels of a column whose hashes are among these."""
    listed = list(labels)
    is_one = np.isin(label_hashes(name, listed, secret.derived(_PURPOSE)), hashes)
    return {label for label, found in zip(listed, is_one.tolist(), strict=True) if found}


def _records(paths: Sequence[str], counts: IntArray) -> dict[str, int]:
    """The true count of each label of a column."""
    found: dict[str, int] = {}
    for path, count in zip(paths, counts.tolist(), strict=True):
        label = path.rpartition("\0")[2]
        found[label] = found.get(label, 0) + count
    return found


def _spelled(name: str, paths: Sequence[str], own: Secret) -> tuple[dict[int, str], Words]:
    """The pairs of hashes of the labels of a column, the smallest ones, and the text of each label."""
    labels: dict[str, list[str]] = {}
    for label in dict.fromkeys(path.rpartition("\0")[2] for path in paths) if len(paths) <= _LABELS else ():
        labels.setdefault(label.strip().casefold().lstrip("0"), []).append(label)
    alone = {plain: spelled[0] for plain, spelled in labels.items() if len(spelled) == 1}  # 1 beside 01 is another one
    plain = own.hashes(f"plain {name}\0{one}" for one in alone)
    exact = label_hashes(name, alone.values(), own)
    order = np.argsort(plain)[:SKETCH]
    texts = list(alone.values())
    return (
        {int(exact[n]): f"{name} {texts[n]!r}" for n in order.tolist()},
        np.stack([plain, exact], axis=1).reshape(-1, 2)[order],
    )


def _bits_of(number: int) -> float:
    """How unlikely it is that a number of people is equal by chance, in bits."""
    return math.log2(number) / 2 + 1


def _alone(counts: IntArray) -> IntArray:
    """The places of numbers that are unlikely to repeat by chance: large, and far from other numbers."""
    order = np.argsort(counts)
    gaps = np.diff(counts[order].astype(np.float64), prepend=-np.inf, append=np.inf)
    room = np.minimum(gaps[:-1], gaps[1:])
    value = counts[order]
    return order[(value >= _TELLING) & (room > np.sqrt(value) / 4)]


def _is_like(one: Words, other: Words, most: int = SKETCH) -> bool:
    """Whether enough of all hashes are equal, estimated from the `most` smallest of two sketches."""
    union = np.union1d(one[:most], other[:most])[:most]
    return bool(len(union)) and len(np.intersect1d(np.intersect1d(one, other), union)) >= _EQUAL * len(union)


def _within(one: Words, other: Words) -> bool:
    """Whether one of two sorted sketches is of a part of the other: most hashes that both would keep are equal."""
    last = min((int(cells[-1]) for cells in (one, other) if len(cells) == SKETCH), default=2**64 - 1)
    some, others = (cells[cells <= np.uint64(last)] for cells in (one, other))
    few = min(len(some), len(others))
    return few >= _WITHIN and 4 * len(np.intersect1d(some, others)) >= 3 * few


def _hex(words: Words) -> str:
    return words.astype(">u8").tobytes().hex()


def _words(text: str) -> Words:
    return np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64)
