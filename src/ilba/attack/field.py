"""Tables of any method as an attacker sees them: what its public description says of each number, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.lattice import Array, Lattice, Node, node_of, table_of
from ilba.attack.published import CellBounds, Policy, PublishedRows, PublishedTables, Truth
from ilba.cells.codes import CodeLists
from ilba.design.design import Selection
from ilba.errors import InputError
from ilba.methods.method import FAR, CountedTables, Method, Shown, TableCells
from ilba.methods.moves import BLANK
from ilba.methods.noise import CountedGrid
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.rollup import Sums, released

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
GRID = 20_000_000
"""up to so many cells the whole grid is filled, for a method that fits noisy counts"""


class MethodTables(PublishedTables):
    """Tables published by a method, with the truth for the methodologist. Confidential."""

    def __init__(
        self,
        codes: CodeLists,
        method: Method,
        tables: Mapping[Node, PublishedRows],
        shown: Mapping[Node, Shown],
        base: PublishedRows | None,
    ) -> None:
        super().__init__(
            codes, Policy(method.name, "sca", False, False, method.about), codes.design.cells, tables, base=base
        )
        self.method = method
        self.shown = dict(shown)
        self.split = False  # each number is read by itself: nobody is told which part of it lies in small cells

    @classmethod
    def made_by(
        cls, method: Method, finest: FinestTable, wanted: Sequence[Selection], seed: int = 2010
    ) -> MethodTables:
        """Publish tables of a finest table by a method; what is drawn is the same on every run."""
        return cls._made(method, finest, wanted, lambda sums: method.publish(counted_tables(finest, sums, seed)))

    @classmethod
    def of_keys(cls, finest: AnyFinestTable, wanted: Sequence[Selection]) -> MethodTables:
        """Show the tables of a finest table whose counts are moved by cell keys, as a release would show them."""
        moves = finest.moves
        if finest.keyed is None or moves is None:
            raise InputError("this finest table has no cell keys. Take with_method('cell-key') of it.")

        def shown(sums: Mapping[Selection, Sums]) -> list[Shown]:
            found = []
            for made in sums.values():
                value, _ = released(finest.codes, made, False, moves=moves)
                blank = value == BLANK
                found.append(Shown(np.where(blank, 0, value), blank if moves.threshold else None))
            return found

        return cls._made(finest.keyed, finest, wanted, shown)

    @classmethod
    def from_release(
        cls, method: Method, codes: CodeLists, frames: Mapping[str | Selection, pl.DataFrame]
    ) -> MethodTables:
        """Read tables that a method published, as an outsider has them."""
        read = PublishedTables.from_frames(codes, frames, "sca-aggregates")
        return cls(codes, method, read.tables, {node: Shown(rows.value) for node, rows in read.tables.items()}, None)

    @classmethod
    def _made(
        cls,
        method: Method,
        finest: AnyFinestTable,
        wanted: Sequence[Selection],
        publish: Callable[[Mapping[Selection, Sums]], list[Shown]],
    ) -> MethodTables:
        design, codes = finest.design, finest.codes
        chosen = [table_of(design, node) for node in dict.fromkeys(node_of(design, s) for s in wanted)]
        refined = table_of(design, Lattice(codes, [node_of(design, s) for s in chosen]).base)
        sums = dict(finest.sums(list(dict.fromkeys([*chosen, refined]))))
        shown = dict(zip(chosen, publish({selection: sums[selection] for selection in chosen}), strict=True))
        rows = {s: _rows(sums[s], shown[s].value if s in shown else None) for s in sums}
        return cls(
            codes,
            method,
            {node_of(design, s): rows[s] for s in chosen},
            {node_of(design, s): shown[s] for s in chosen},
            rows[refined],
        )

    def knowledge(self, level: int, first: int, last: int) -> dict[Node, CellBounds]:
        """Work out what each table of a level says by itself.

        Parameters
        ----------
        level : int
            The level of the first hierarchy.
        first : int
            The first area.
        last : int
            The area after the last one.

        Returns
        -------
        dict
            Bounds on the counts of each table at this level.
        """
        nodes = [node for node in self.lattice.nodes if node[0] == level]
        # An attacker's view of these tables is of another class, and reads them by the same words.
        return {node: MethodTables._bounds(self, node, first, last) for node in nodes}

    def _bounds(self, node: Node, first: int, last: int) -> CellBounds:
        shape = (*self.lattice.shape(node), last - first)
        if node not in self.tables:
            low, high = np.zeros(shape, np.int64), np.full(shape, FAR)
        else:
            value = self.dense(node, first, last, self.tables[node].value)
            low, high = self.method.preimage(value, self._finest_cells(node, first, last))
            blank = self.shown[node].blank
            if blank is not None:
                hidden = self.dense(node, first, last, blank.astype(np.int64)) > 0
                least, most = self.method.blank_range(self.K)
                low, high = np.where(hidden, least, low), np.where(hidden, most, high)
        return CellBounds(low, high, None, None, None, None, 0)


def counted_tables(finest: FinestTable, sums: Mapping[Selection, Sums], seed: int) -> CountedTables:
    """The counts of tables, as a method takes them."""
    codes = finest.codes
    words = [finest.cells[name].to_numpy() for name in finest.cells.columns[: len(codes.finest.words)]]
    tables = []
    for selection, made in sums.items():
        if len(made.packed) > 1:
            raise InputError(f"the table {selection.name!r} has more than 2^63 possible cells: compare fewer keys.")

        def find(made: Sums = made) -> IntArray:
            return np.searchsorted(made.packed[0], codes.finest.project(words, made.cell_index, codes.lists)[0])

        count = made.parts.sum_large + made.parts.sum_small
        tables.append(TableCells(selection.name, count, made.cell_index.grid - len(count), find))
    inner = finest.cells["N"].to_numpy()
    fits = codes.finest.grid <= GRID
    return CountedTables(
        codes.design.threshold, inner, tables, seed, (lambda: _grid(codes, words, inner, sums)) if fits else None
    )


def _grid(codes: CodeLists, words: Sequence[IntArray], inner: IntArray, sums: Mapping[Selection, Sums]) -> CountedGrid:
    """The whole grid of the finest table, and how its tables follow from it."""
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
            found.append(Shown(value, None, every[every != 0]))
        return found

    return CountedGrid(count.reshape(len(areas), -1), parents, tables)


def _rows(sums: Sums, value: Array | None) -> PublishedRows:
    parts = sums.parts
    truth = Truth(parts.n_small, parts.n_at_threshold, parts.sum_small, parts.sum_large)
    shown = parts.sum_small + parts.sum_large if value is None else value
    return PublishedRows(sums.packed[0], shown, None, None, truth)
