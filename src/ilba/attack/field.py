"""The tables of any method as an attacker sees them: only what the method's public description says of each number."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.intervals import at
from ilba.attack.lattice import MANY, Node, node_of, table_of
from ilba.attack.published import CellBounds, Policy, PublishedRows, PublishedTables, Truth, refinement
from ilba.cells.codes import CodeLists
from ilba.design.design import MASKED, Selection
from ilba.errors import InputError
from ilba.methods.method import FAR, Method, SeededChance, Shown
from ilba.methods.moves import BLANK
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.rollup import Sums, released

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]


OTHER_STORE = "the release was not made from this store: the table {!r} differs."


class MethodTables(PublishedTables):
    """Tables published by a method, together with the truth. Confidential."""

    reads_small_parts = False  # each number is read by itself
    method: Method

    def __init__(
        self,
        codes: CodeLists,
        method: Method,
        tables: Mapping[Node, PublishedRows],
        shown: Mapping[Node, Shown],
        base: PublishedRows | None,
        number: int | None = None,
    ) -> None:
        super().__init__(
            codes, Policy(method.name, "sca", False, False, method.about), codes.design.cells, tables, base=base
        )
        self.method = method
        self.shown = {node: shown[node] for node in tables}
        self.number = len(tables) if number is None else number
        """how many tables were published together"""
        self.bounded = method.bounded

    @classmethod
    def made_by(
        cls, method: Method, finest: FinestTable, wanted: Sequence[Selection], seed: int = 2010
    ) -> MethodTables:
        """Publish tables of a finest table by a method, with the same draws on every run."""
        return cls._made(method, finest, wanted, lambda sums: finest.made(method, sums, SeededChance(seed)).shown)

    @classmethod
    def as_released(
        cls,
        method: Method,
        finest: AnyFinestTable,
        wanted: Sequence[Selection],
        secret: Secret | str | os.PathLike[str] | None = None,
    ) -> MethodTables:
        """Publish tables as a release of this store shows them: by its record keys and its secret.

        If neither is at hand, the draws are the same on every run, and a release shows other numbers.
        """
        own = finest.own_secret(secret)
        if secret is None and own is not None and finest.fingerprint not in (None, own.fingerprint):
            own = None  # ILBA_SECRET belongs to another store
        if own is None and not (method.keyed and finest.record_keys):
            return cls.made_by(method, finest.collect(), wanted)
        return cls.published_by((finest if method.keyed else finest.collect()).with_method(method, own), wanted)

    @classmethod
    def published_by(cls, finest: AnyFinestTable, wanted: Sequence[Selection]) -> MethodTables:
        """Show the tables of a finest table by its own method, as a release would show them."""
        if finest.by is None:
            raise InputError("this finest table publishes its masks. Take with_method(...) of it.")
        method, moves = finest.by, finest.moves

        def shown(sums: Mapping[Selection, Sums]) -> Mapping[Selection, Shown]:
            if moves is None:
                return finest.collect().made(method, sums).shown
            found = {}
            for selection, made in sums.items():
                value, _ = released(finest.codes, made, False, moves=moves)
                blank = value == BLANK
                found[selection] = Shown(np.where(blank, 0, value), blank if moves.threshold else None)
            return found

        return cls._made(method, finest, wanted, shown)

    @classmethod
    def from_release(
        cls, method: Method, codes: CodeLists, frames: Mapping[str | Selection, pl.DataFrame]
    ) -> MethodTables:
        """Read the tables that a method published, as an outsider has them."""
        number = pl.col(MASKED)
        filled = {name: frame.with_columns(number.fill_null(0)) for name, frame in frames.items()}
        blank = {name: frame.with_columns(number.is_null().cast(pl.Int64)) for name, frame in frames.items()}
        read, hidden = (PublishedTables.from_frames(codes, one, "sca-aggregates").tables for one in (filled, blank))
        shown = {
            node: Shown(rows.value, hidden[node].value > 0 if method.blanks else None) for node, rows in read.items()
        }
        return cls(codes, method, read, shown, None)

    def with_truth(self, finest: AnyFinestTable) -> MethodTables:
        """The same numbers beside the counts of a store, which have to be possible counts behind these numbers."""
        codes, method, absent = self.codes, self.method, self.method.absent_blank
        chosen = [table_of(codes.design, node) for node in self.tables]
        refined = refinement(codes, chosen)
        sums = dict(finest.sums(list(dict.fromkeys([*chosen, *refined]))))
        tables, shown = {}, {}
        for (node, rows), selection in zip(self.tables.items(), chosen, strict=True):
            true, hidden = _rows(sums[selection], None), self.shown[node].blank
            packed = np.union1d(true.packed, rows.packed)
            value = at(rows.packed, rows.value, packed)
            blank = ~np.isin(packed, rows.packed) & absent
            if hidden is not None:
                blank |= at(rows.packed, hidden.astype(np.int64), packed) > 0
            index = codes.cell_index(selection)
            size = codes.grid(index, [packed], MANY) if index.places else np.full(len(packed), MANY)
            low, high = method.preimage(value, size)
            least, most = method.blank_range(self.K)
            count = at(true.packed, true.value, packed)
            if ((count < np.where(blank, least, low)) | (count > np.where(blank, most, high))).any():
                raise InputError(OTHER_STORE.format(selection.name))
            parts = Truth(*(at(true.packed, part, packed) for part in true.truth or ()))
            tables[node] = PublishedRows(packed, value, None, None, parts)
            shown[node] = Shown(value, blank if method.blanks else None)
        return MethodTables(codes, method, tables, shown, _rows(sums[refined[0]], None) if refined else None)

    @classmethod
    def _made(
        cls,
        method: Method,
        finest: AnyFinestTable,
        wanted: Sequence[Selection],
        publish: Callable[[Mapping[Selection, Sums]], Mapping[Selection, Shown]],
    ) -> MethodTables:
        design, codes = finest.design, finest.codes
        chosen = [table_of(design, node) for node in dict.fromkeys(node_of(design, s) for s in wanted)]
        refined = refinement(codes, chosen)
        sums = dict(finest.sums(list(dict.fromkeys([*chosen, *refined]))))
        shown = publish({selection: sums[selection] for selection in chosen})
        rows = {s: _rows(sums[s], shown.get(s)) for s in sums}
        return cls(
            codes,
            method,
            {node_of(design, s): rows[s] for s in chosen},
            {node_of(design, s): shown[s] for s in chosen},
            rows[refined[0]] if refined else None,
        )

    def is_blank(self, node: Node, row: int | None) -> bool:
        """Whether a row of a table is blank; None stands for a cell without a row."""
        blank = self.shown[node].blank
        return self.method.absent_blank if row is None else blank is not None and bool(blank[row])

    def knowledge(self, level: int, first: int, last: int) -> dict[Node, CellBounds]:
        """Bound the counts of each table of a level by itself.

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
        # An `AttackerView` of these tables is another class, but reads them by this function.
        return {node: MethodTables._bounds(self, node, first, last) for node in nodes}

    def _bounds(self, node: Node, first: int, last: int) -> CellBounds:
        shape = (*self.lattice.shape(node), last - first)
        if node not in self.tables:
            low, high = np.zeros(shape, np.int64), np.full(shape, FAR)
        else:
            value = self.dense(node, first, last, self.tables[node].value)
            size = self._finest_cells(node, first, last)
            low, high = self.method.preimage(value, size)
            if self.codes.unlisted:
                of_many = self.method.preimage(value, np.full_like(value, MANY))
                low, high = np.minimum(low, of_many[0]), np.maximum(high, of_many[1])
            blank = self.shown[node].blank
            if blank is not None or self.method.absent_blank:
                if self.method.absent_blank:  # a cell without a row is also blank
                    seen = np.ones(len(self.tables[node].value), dtype=np.int64) if blank is None else 1 - blank
                    hidden = self.dense(node, first, last, seen) == 0
                else:
                    hidden = self.dense(node, first, last, np.asarray(blank, dtype=np.int64)) > 0
                least, most = self.method.blank_range(self.K)
                low, high = np.where(hidden, least, low), np.where(hidden, most, high)
        if self.by_masks:
            fewest, highest = self.masks.counts(node, first, last)
            low, high = np.maximum(low, fewest), np.minimum(high, highest)
        return CellBounds(low, high, None, None, None, None, 0)


def _rows(sums: Sums, shown: Shown | None) -> PublishedRows:
    """The rows of a table, with 0 for a blank count, so that no code reads the count by mistake."""
    parts = sums.parts
    truth = Truth(parts.n_small, parts.n_at_threshold, parts.sum_small, parts.sum_large)
    value = sums.count if shown is None else shown.value
    if shown is not None and shown.blank is not None:
        value = np.where(shown.blank, 0, value)
    return PublishedRows(sums.packed[0], value, None, None, truth)
