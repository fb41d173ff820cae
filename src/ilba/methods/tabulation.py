"""Counted cells, and the published cells that are sums of them.

Methods that treat all tables jointly (rounding, suppression) and the cell keys of the European method use this
structure. Each counted (inner) cell lies in exactly one cell of every published table. So an integer array with a row
for each inner cell and a column for each table describes everything.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.errors import InputError, listing, nearest
from ilba.methods.masking import whole_numbers

IntArray: TypeAlias = npt.NDArray[np.int64]
Terms: TypeAlias = list[tuple[str, ...]]
TOTAL = "Total"
_COUNTS = ("N", "freq", "n", "count", "ant")


@dataclass(frozen=True)
class Tabulation:
    """Inner cells with their counts, and the published cells that are sums of them."""

    count: IntArray
    """the true count of each inner cell (confidential)"""
    member: IntArray
    """the number of the published cell that contains each inner cell (row), by table (column)"""
    labels: pl.DataFrame
    """the labels of the published cells, 'Total' where a variable is summed over"""
    inner: pl.DataFrame
    """the labels of the inner cells"""

    def __len__(self) -> int:
        return self.labels.height

    @cached_property
    def published(self) -> IntArray:
        """The true counts of the published cells (confidential)."""
        return self.sums(self.count)

    def sums(self, inner: IntArray) -> IntArray:
        """Sum values of the inner cells into the published cells."""
        total = np.zeros(len(self), dtype=np.int64)
        for column in self.member.T:
            total += np.rint(np.bincount(column, weights=inner, minlength=len(self))).astype(np.int64)
        return total

    def matrix(self) -> Any:
        """The published cells as equations: a sparse matrix, a row for each of them, a column for each inner cell."""
        from ilba.methods.solver import scipy_part

        sparse = scipy_part("sparse")
        n, tables = self.member.shape
        places = (self.member.ravel(), np.repeat(np.arange(n), tables))
        return sparse.csr_array((np.ones(n * tables), places), shape=(len(self), n))


def polars_frame(data: Any) -> pl.DataFrame:
    """Convert a frame of any kind to polars."""
    if isinstance(data, pl.DataFrame):
        return data
    if isinstance(data, pl.LazyFrame):
        return data.collect()
    try:
        eager = nw.from_native(data, eager_only=True)
    except TypeError:
        read = f" Read the file first: polars.read_csv({data!r})." if isinstance(data, str) else ""
        raise InputError(f"a frame is needed, not {data!r:.80}.{read}") from None
    return pl.DataFrame({name: pl.Series(name, eager[name].to_list(), strict=False) for name in eager.columns})


def terms_of(tables: Any, columns: Sequence[str]) -> Terms:
    """The published tables, each with all its margins, the total first.

    A table is a list of columns, or text such as "region*age". Several tables are a list, or text with "+" between them
    and brackets where needed.

    >>> terms_of("a*b + c", ["a", "b", "c"])
    [(), ('a',), ('b',), ('c',), ('a', 'b')]
    >>> terms_of([["a", "b"]], ["a", "b"])
    [(), ('a',), ('b',), ('a', 'b')]
    """
    if isinstance(tables, str):
        given = _Formula(tables, columns).terms()
    else:
        given = []
        for table in tables:
            given += _Formula(table, columns).terms() if isinstance(table, str) else [tuple(table)]
    found: dict[tuple[str, ...], None] = {(): None}
    for term in given:
        for name in term:
            if name not in columns:
                raise InputError(f"there is no column {name!r}.{nearest(name, columns)} It has {listing(columns)}.")
        unique = tuple(dict.fromkeys(term))
        for size in range(1, len(unique) + 1):
            for margin in itertools.combinations(unique, size):
                if not any(set(margin) == set(other) for other in found):
                    found[margin] = None
    return sorted(found, key=len)  # stable sort: terms of one size stay in order of appearance


class _Formula:
    """A text such as (region + county)*income, read from left to right."""

    def __init__(self, text: str, columns: Sequence[str]) -> None:
        if text in columns:  # a column name may contain such a character
            self._rest = [text]
        else:
            self._rest = re.findall(r"[()+*.:]|[^()+*.:\s]+(?:\s+[^()+*.:\s]+)*", text.replace("~", ""))
            if any(" x " in word for word in self._rest):
                self._rest = [part for word in self._rest for part in _crossed(word)]
        self._text = text

    def terms(self) -> Terms:
        found = self._sum()
        if self._rest:
            raise self._wrong()
        return found

    def _sum(self) -> Terms:
        found = self._product()
        while self._rest and self._rest[0] == "+":
            self._rest.pop(0)
            found = [*found, *self._product()]
        return found

    def _product(self) -> Terms:
        found = self._one()
        while self._rest and self._rest[0] in "*.:":
            self._rest.pop(0)
            others = self._one()
            found = [(*left, *right) for left in found for right in others]
        return found

    def _one(self) -> Terms:
        if not self._rest:
            raise self._wrong()
        word = self._rest.pop(0)
        if word == "(":
            inside = self._sum()
            if not self._rest or self._rest.pop(0) != ")":
                raise self._wrong()
            return inside
        if word in "+*.:)":
            raise self._wrong()
        return [(word,)]

    def _wrong(self) -> InputError:
        return InputError(f"{self._text!r} is not a list of tables. Write it as in 'region*age + county*age'.")


def _crossed(word: str) -> Iterable[str]:
    for number, part in enumerate(word.split(" x ")):
        if number:
            yield "*"
        yield part.strip()


def count_column(frame: pl.DataFrame, count: str | None) -> str:
    """The column of counts: the named one, or the only one with a usual name."""
    if count is not None:
        if count not in frame.columns:
            raise InputError(
                f"there is no column {count!r}.{nearest(count, frame.columns)} It has {listing(frame.columns)}."
            )
        return count
    found = [name for name in _COUNTS if name in frame.columns]
    if len(found) != 1:
        raise InputError(f"which column holds the counts? Give count=; the frame has {listing(frame.columns)}.")
    return found[0]


def tabulate(
    data: Any, tables: Any = None, count: str | None = None, total: str = TOTAL, *, complete: bool = False
) -> Tabulation:
    """Find the published cells of counted cells.

    `tables` is read by `terms_of`; by default, one table of all columns with its margins. Rows with the label of a
    total are margins: they must be the sums of the others, and are not counted again. `complete` also lists
    combinations that do not occur.
    """
    frame = polars_frame(data)
    number = count_column(frame, count)
    columns = [name for name in frame.columns if name != number]
    if tables is None:
        columns = [name for name in columns if not frame.schema[name].is_float()]
    terms = terms_of([columns] if tables is None else tables, columns)
    used = [name for name in columns if any(name in term for term in terms)]
    texts = frame.select(*(pl.col(name).cast(pl.String).fill_null("(missing)") for name in used), pl.col(number))
    margin = texts.select(pl.any_horizontal(pl.lit(False), *(pl.col(name) == total for name in used))).to_series()
    inner = texts.filter(~margin)
    made = _tabulated(inner, used, number, terms, total, complete)
    if margin.any():
        _check_margins(made, texts.filter(margin), number)
    return made


def _tabulated(
    inner: pl.DataFrame, used: list[str], number: str, terms: Terms, total: str, complete: bool
) -> Tabulation:
    coarser = _groupings(inner, used)
    finest = [name for name in used if not any(name in coarser[other] for other in used)]
    home = {name: next((finer for finer in finest if name in coarser[finer]), name) for name in used}
    shown = [name for name in used if home[name] == name]
    places: list[IntArray] = []
    labels: list[pl.DataFrame] = []
    seen: set[frozenset[str]] = set()
    size = 0
    for term in terms:
        names = [name for name in term if not any(name in coarser[other] for other in term)]
        if frozenset(names) in seen:  # the finer of two columns of one hierarchy is enough
            continue
        seen.add(frozenset(names))
        groups = _groups(inner, names, home if complete else None).sort(names) if names else pl.DataFrame({"": [total]})
        if names:
            numbered = groups.with_row_index("_at")
            place = inner.join(numbered, on=names, how="left", maintain_order="left")["_at"].cast(pl.Int64).to_numpy()
        else:
            place = np.zeros(inner.height, dtype=np.int64)
        labels.append(groups.select(_shown_as(name, names, home, total) for name in shown))
        places.append(place + size)
        size += groups.height
    counts = whole_numbers("count", inner[number].to_numpy())
    return Tabulation(counts, np.column_stack(places), pl.concat(labels), inner.select(used))


def _groups(inner: pl.DataFrame, names: list[str], home: dict[str, str] | None) -> pl.DataFrame:
    """The cells of a table: those that occur, or all combinations of codes."""
    if home is None:
        return inner.select(names).unique()
    found: pl.DataFrame | None = None
    for column in dict.fromkeys(home[name] for name in names):
        codes = inner.select(name for name in names if home[name] == column).unique()
        found = codes if found is None else found.join(codes, how="cross")
    return inner.select(names) if found is None else found.select(names)


def _shown_as(column: str, names: Sequence[str], home: dict[str, str], total: str) -> pl.Expr:
    """The labels of a table in one output column: those of its variable, or the total."""
    here = [name for name in names if home[name] == column]
    if not here:
        return pl.lit(total).alias(column)
    return pl.concat_str(here, separator=" x ").alias(column)


def _groupings(inner: pl.DataFrame, used: list[str]) -> dict[str, set[str]]:
    """For each column, the columns that are coarser groupings of it."""
    sizes = {name: inner[name].n_unique() for name in used}
    return {
        finer: {
            name for name in used if sizes[name] < sizes[finer] and inner.select(name, finer).n_unique() == sizes[finer]
        }
        for finer in used
    }


def _check_margins(made: Tabulation, margins: pl.DataFrame, number: str) -> None:
    """Refuse rows of totals that are not the sums of the other rows."""
    known = made.labels.with_columns(pl.Series("_sum", made.published))
    names = made.labels.columns
    joined = margins.join(known, on=names, how="inner")
    if (joined[number].cast(pl.Int64) != joined["_sum"]).any():
        raise InputError("a row of totals is not the sum of the other rows. Leave rows of totals out, or correct them.")
