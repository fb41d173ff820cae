"""Tables by any method: its numbers for the cells of a finest table, drawn by the secret.

A method works on the true counts of all tables that are published together. The draws of published numbers are a
function of the secret. Draws by cell also depend on labels and count, so the same cell has the same number in every
publication. Draws by table also depend on all true counts, so the same data gives the same numbers and other data gives
others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.cells.codes import CellIndex, CodeLists
from ilba.design.design import COUNT, MASKED, Selection
from ilba.errors import InputError, SecretError
from ilba.methods.exact import ByteStream
from ilba.methods.method import Chance, CountedTables, Method, Shown, TableCells
from ilba.methods.noise import CountedGrid
from ilba.secret.secret import Secret, draws
from ilba.tables.rollup import Sums
from ilba.tables.table import Table

IntArray: TypeAlias = npt.NDArray[np.int64]
GRID = 20_000_000
"""the largest grid that is filled, for a method that gives numbers to empty cells"""


@dataclass(frozen=True)
class KeyedChance(Chance):
    """Draws from the secret."""

    secret: Secret | None
    """the secret, derived for the method with its parameters; None if not available"""
    codes: CodeLists
    data: str
    """a checksum of everything that decides a joint draw: the true counts, the wave and the list of tables"""
    index: Mapping[str, CellIndex]
    """the cell numbering of each table"""

    def _derived(self, purpose: str) -> Secret:
        if self.secret is None:
            raise SecretError(
                "this method draws by the secret of the store, which is not at hand. Give secret= (--secret), the "
                "path of the secret file, or set ILBA_SECRET."
            )
        return self.secret.derived(purpose)

    def rng(self, purpose: str) -> np.random.Generator:
        """The generator for a purpose."""
        raw = self._derived(f"{purpose} {self.data}").to_bytes()
        return np.random.Generator(np.random.Philox(key=np.frombuffer(raw[:16], dtype=np.uint64)))

    def draws(self, table: TableCells, purpose: str) -> IntArray:
        """A draw for each cell of a table, by its labels and its count."""
        index, labels = self.index[table.name], {}
        for (dimension, level, _), nodes in zip(index.places, index.digits([table.place]), strict=True):
            listed = self.codes.lists[dimension]
            for above in range(1, level + 1):
                names = listed.named(above, np.arange(listed.size(above)))[-1].to_list()
                here = nodes if above == level else listed.parents(level, above)[nodes]
                labels[listed.columns[above - 1]] = (names, here)
        return draws(self._derived(purpose), labels, table.count)

    def noise(self, spread: Any, purpose: str, size: int) -> IntArray:
        """Exact draws from a distribution."""
        stream = ByteStream(self._derived(f"{purpose} {self.data}").to_bytes())
        drawn: IntArray = spread.exact(stream, size)
        return drawn


@dataclass(frozen=True)
class MadeTables:
    """What a method publishes of some tables, together with their true counts (confidential)."""

    method: Method
    codes: CodeLists
    sums: Mapping[Selection, Sums]
    shown: Mapping[Selection, Shown]

    def tables(self) -> Iterator[Table]:
        """The tables, in the usual form."""
        for selection in self.sums:
            yield self.table(selection)

    def table(self, selection: Selection) -> Table:
        """One table with its losses; N_masked and loss are null for a blank."""
        sums, shown = self.sums[selection], self.shown[selection]
        true = np.concatenate([sums.count, np.zeros(len(shown.invented), dtype=np.int64)])
        value = np.concatenate([shown.value, shown.invented])
        packed = [np.concatenate([sums.packed[0], shown.places])] if len(shown.places) else sums.packed
        none = np.zeros(len(true), dtype=np.int64)
        numbers = {COUNT: true, MASKED: value, "type1": none, "type2": none, "loss": value - true}
        made = pl.DataFrame(
            [*self.codes.labels(sums.cell_index, packed), *(pl.Series(name, one) for name, one in numbers.items())]
        )
        if shown.blank is not None:
            hidden = pl.Series(np.concatenate([shown.blank, np.zeros(len(shown.invented), dtype=bool)]))
            made = made.with_columns(pl.when(~hidden).then(pl.col(name)).alias(name) for name in (MASKED, "loss"))
        if len(shown.invented):
            made = made[pl.Series(np.argsort(packed[0], kind="stable").astype(np.uint32))]
        table = Table(self.codes.design, selection, made, self.method.additive)
        table.lists_blanks = self.method.blanks and not self.method.absent_blank
        return table

    def mark(self, secret: Secret) -> str:
        """A keyed checksum of all published numbers."""
        parts = []
        for selection in sorted(self.shown, key=lambda one: one.name):
            shown = self.shown[selection]
            blank = [] if shown.blank is None else [shown.blank]
            parts += [selection.name.encode(), *(part.tobytes() for part in (shown.value, *blank, shown.invented))]
        text = hashlib.sha256(b"\0".join(parts)).hexdigest()
        return f"{int(secret.derived('published numbers').hashes([text])[0]):016x}"


def made_by(
    method: Method,
    codes: CodeLists,
    cells: tuple[Sequence[IntArray], IntArray],
    sums: Mapping[Selection, Sums],
    chance: Callable[[Mapping[str, CellIndex]], Chance],
) -> MadeTables:
    """Let a method publish tables. `cells` are the packed finest cells and their counts."""
    words, inner = cells
    tables = []
    for selection, made in sums.items():
        if len(made.packed) > 1:
            raise InputError(
                f"the table {selection.name!r} has more than 2^63 possible cells: {method.name} takes fewer columns."
            )
        if method.fills and made.cell_index.grid > GRID:
            raise InputError(
                f"{method.name} gives a number to every cell, and the table {selection.name!r} could have "
                f"{made.cell_index.grid:,}; up to {GRID:,} are filled. Take tables with fewer variables."
            )

        def find(made: Sums = made) -> IntArray:
            return np.searchsorted(made.packed[0], codes.finest.project(words, made.cell_index, codes.lists)[0])

        tables.append(TableCells(selection.name, made.count, made.cell_index.grid, find, made.packed[0]))
    fits = codes.finest.grid <= GRID
    counted = CountedTables(
        codes.design.threshold,
        inner,
        tables,
        chance({selection.name: made.cell_index for selection, made in sums.items()}),
        (lambda: _grid(codes, words, inner, sums)) if fits else None,
    )
    shown = method.publish(counted)
    _check(method, tables, shown)
    return MadeTables(method, codes, sums, dict(zip(sums, shown, strict=True)))


def _check(method: Method, tables: Sequence[TableCells], shown: Sequence[Shown]) -> None:
    """Refuse results that contradict what the method says about itself: releases and attackers rely on it."""
    if len(shown) != len(tables):
        raise InputError(f"{method.name} published {len(shown)} tables of {len(tables)}.")
    for table, one in zip(tables, shown, strict=True):
        if np.shape(one.value) != np.shape(table.count) or not np.issubdtype(np.asarray(one.value).dtype, np.integer):
            raise InputError(f"{method.name} has to publish a whole number for each cell of {table.name!r}.")
        if one.blank is not None and bool(np.any(one.blank)) and not method.blanks:
            raise InputError(f"{method.name} leaves counts blank and does not say so: set blanks = True.")
        if len(one.invented) and not method.fills:
            raise InputError(f"{method.name} gives numbers to empty cells and does not say so: set fills = True.")


def _grid(codes: CodeLists, words: Sequence[IntArray], inner: IntArray, sums: Mapping[Selection, Sums]) -> CountedGrid:
    """The whole grid of the finest table, and the function that makes tables from it."""
    areas = codes.lists[0]
    size = codes.finest.grid
    count = np.zeros(size, dtype=np.int64)
    count[words[0]] = inner
    parents = [areas.parents(level, level - 1) for level in range(1, areas.depth + 1)]

    def tables(fitted: IntArray) -> list[Shown]:
        flat, place = fitted.reshape(-1), [np.arange(size)]
        found = []
        for made in sums.values():
            cell = codes.finest.project(place, made.cell_index, codes.lists)[0]
            every = np.bincount(cell, weights=flat, minlength=made.cell_index.grid).astype(np.int64)
            value = every[made.packed[0]]
            every[made.packed[0]] = 0
            places = np.flatnonzero(every)
            found.append(Shown(value, None, every[places], places))
        return found

    return CountedGrid(count.reshape(len(areas), -1), parents, tables)
