"""One form for the knowledge of every attacker: the open finest cells, and intervals on the sums of their counts.

An attacker knows a list of intervals `least <= sum of small counts <= most`, one for each cell of each table. An
interval holds the sums that a published value can stand for, or a published value plus or minus a stated bound. Its
ends are equal for a table that is known exactly from elsewhere, and for cells that an insider knows. `Brought` is what
an attacker has besides the release; `AttackerView` is the release together with it. After the attack, `Intervals` holds
what is left open, as flat arrays. The search for other worlds, the solver and the probabilities all start from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack
from ilba.attack.lattice import Array, Lattice, Node, table_of
from ilba.attack.published import CellBounds, PublishedRows, PublishedTables, Touched
from ilba.methods import masking

if TYPE_CHECKING:
    from ilba.attack.masksums import MaskSums

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

FAR = 2**40
"""a bound that says nothing"""


class ExactRows(NamedTuple):
    """True counts of one table from elsewhere: cells as sorted integers. A cell without a row counts 0."""

    packed: IntArray
    counts: IntArray


@dataclass(frozen=True)
class Brought:
    """What an attacker has besides the release."""

    exact: Mapping[Node, ExactRows] = field(default_factory=dict)
    """tables that are known exactly"""
    bound: int | None = None
    """the largest distance of a released sum from the truth, where sums of masks are released"""


class AttackerView(PublishedTables):
    """A release together with the attacker's own knowledge."""

    def __init__(self, published: PublishedTables, brought: Brought) -> None:
        self.__dict__.update(published.__dict__)
        self.__dict__.pop("_largest", None)
        self.__dict__.pop("masks", None)
        self._published = published
        self.brought = brought
        self._read_by = type(published)  # tables of other methods are read differently
        lattice = published.lattice
        self.lattice = Lattice(published.codes, [*lattice.nodes, *brought.exact])

    @cached_property
    def masks(self) -> MaskSums:
        """The same as of the release, unless tables from elsewhere tell more cells apart."""
        same = self.lattice.nodes == self._published.lattice.nodes
        return self._published.masks if same else super().masks

    def knowledge(self, level: int, first: int, last: int) -> dict[Node, CellBounds]:
        """Bound each table of a level by itself and by what is known from elsewhere."""
        known = self._read_by.knowledge(self, level, first, last)
        return {node: self._narrowed(node, first, last, bounds) for node, bounds in known.items()}

    def touched(self, level: int, first: int, last: int) -> Iterator[Touched] | None:
        """Bound only the cells that hold a listed finest cell; None where outside knowledge matters."""
        nodes = [node for node in self.lattice.nodes if node[0] == level]
        narrowed = any(node in self.brought.exact or node not in self.tables for node in nodes)
        if narrowed or self.brought.bound is not None or not self.split or level != self.lattice.base[0]:
            return None
        return self._touched(level, first, last) if self._read_by is PublishedTables else None

    def _small_sum(
        self, node: Node, first: int, last: int, at_k: Array, n_large: Array, large: Array, n_listed: Array
    ) -> CellBounds:
        if node in self.tables:
            return super()._small_sum(node, first, last, at_k, n_large, large, n_listed)
        n = n_listed if self.policy.listed else self.lattice.sizes(node, first, last) - n_large
        low, high = at_k, self.K * at_k + (self.K - 1) * (n - at_k)
        least, most = (at_k, n) if self.counted else (None, None)
        return CellBounds(low, high, least, most, None, large, 0)

    def _narrowed(self, node: Node, first: int, last: int, known: CellBounds) -> CellBounds:
        large = 0 if known.large is None else known.large
        low, high = known.low, known.high
        bound = self.brought.bound
        if bound is not None and node in self.tables and node != self.lattice.base and self.policy.scheme == "sums":
            value = self.dense(node, first, last, self.tables[node].value) - large
            low, high = np.maximum(low, value - bound), np.minimum(high, value + bound)
        if node in self.brought.exact:
            rows = self.brought.exact[node]
            exact = self._spread(node, first, last, rows) - large
            low, high = np.maximum(low, exact), np.minimum(high, exact)
            if (low > high).any():
                raise self._contradiction(node)
        return known._replace(low=low, high=high)

    def _spread(self, node: Node, first: int, last: int, rows: ExactRows) -> Array:
        inside, area, cell = self.place(node, PublishedRows(*rows), first, last)
        cells = np.zeros((self.lattice.width(node), last - first), dtype=np.int64)
        cells[cell, area] = rows.counts[inside]
        return cells.reshape(*self.lattice.shape(node), last - first)


class Occupancy(NamedTuple):
    """Observed reading: what the interval of an aggregate depends on, apart from the number of its occupied cells."""

    released: IntArray
    at_k: IntArray
    sum_settled: IntArray
    n_settled: IntArray
    exact: BoolArray
    """whether the sum is known from elsewhere, so that the number of occupied cells does not matter"""


@dataclass(frozen=True)
class Intervals:
    """The open finest cells, and an interval for the sum of each aggregate over them."""

    K: int
    packed: IntArray
    """the open cells: small, with more than one possible count"""
    low: IntArray
    high: IntArray
    at_k: BoolArray
    """whether a cell is masked to K (otherwise to 0)"""
    tables: list[Node]
    """the tables that say something about them"""
    first: IntArray
    """where the aggregates of each table begin, and their total number"""
    member: npt.NDArray[np.int32]
    """the aggregate of each cell in each table"""
    least: IntArray
    most: IntArray
    cell: IntArray
    """the number of each aggregate in its table"""
    beside: IntArray
    """the count of each aggregate outside the open cells; -1 where that is not a small count"""
    occupancy: Occupancy | None = None
    """in the observed reading: the intervals depend on the number of occupied cells"""

    @classmethod
    def of(
        cls, view: PublishedTables, cells: tuple[IntArray, IntArray, IntArray], tables: Sequence[Node] | None = None
    ) -> Intervals:
        """Collect the open cells and the intervals on their sums.

        Parameters
        ----------
        view : PublishedTables
            A release with its finest table, or an `AttackerView`.
        cells : tuple of three arrays
            Finest cells as integers, sorted, with low and high: all small cells that may hold somebody.
        tables : sequence of tuple of int, optional
            Use only these tables. By default, all tables.

        Returns
        -------
        Intervals
            The cells with low < high, and the aggregates over them.
        """
        return _Collector(view, *cells).collect(tables)

    @property
    def alternative(self) -> IntArray:
        """The count that makes a cell not small: K for a cell masked to K, otherwise 0."""
        return np.where(self.at_k, self.K, 0)

    def sums(self, counts: IntArray) -> IntArray:
        """Add up counts of the open cells in each aggregate."""
        total = np.zeros(len(self.least), np.int64)
        for place in self.member.T:
            total += np.bincount(place, counts, minlength=len(total)).astype(np.int64)
        return total

    def fits(self, counts: IntArray) -> bool:
        """Whether these counts agree with everything the attacker knows."""
        if (counts < self.low).any() or (counts > self.high).any():
            return False
        total = self.sums(counts)
        if self.occupancy is None:
            return bool(((self.least <= total) & (total <= self.most)).all())
        rule = self.occupancy
        n = self.sums((counts > 0).astype(np.int64)) + rule.n_settled
        low, high = masking.preimage(rule.released, n, rule.at_k, self.K)
        low, high = (
            np.where(rule.exact, end, way - rule.sum_settled)
            for end, way in zip((self.least, self.most), (low, high), strict=True)
        )
        return bool(((low <= total) & (total <= high)).all())


class _Collector:
    """Makes `Intervals` from public rows, without spreading them over the grid."""

    def __init__(self, view: PublishedTables, packed: IntArray, low: IntArray, high: IntArray) -> None:
        self.view, self.codes, self.K = view, view.codes, view.K
        self.base = view.tables[view.lattice.base]
        self.index = self.codes.cell_index(table_of(self.codes.design, view.lattice.base))
        free = low < high
        self.packed, self.low, self.high = packed[free], low[free], high[free]
        settled = ~free & (high > 0)
        self.settled, self.count = packed[settled], low[settled]
        self.large = self.base.value > self.K

    def collect(self, tables: Sequence[Node] | None) -> Intervals:
        """All of it."""
        view, K = self.view, self.K
        brought = view.brought if isinstance(view, AttackerView) else Brought()
        speaks = view.policy.scheme != "sums" or brought.bound is not None
        nodes = [node for node in view.lattice.nodes if node != view.lattice.base]
        nodes = [node for node in nodes if node in brought.exact or (speaks and node in view.tables)]
        if tables is not None:
            nodes = [node for node in nodes if node in set(tables)]
        entries = [(node, node in brought.exact) for node in nodes]
        # A table that is published and known exactly states two things.
        entries += [(node, False) for node, exact in entries if exact and speaks and node in view.tables]
        at = np.searchsorted(self.base.packed, self.packed)
        there = np.minimum(at, max(len(self.base.packed) - 1, 0))
        found = self.base.packed[there] == self.packed if len(self.base.packed) else np.zeros(len(self.packed), bool)
        at_k = found & (self.base.value[there] == K) if len(self.base.packed) else found
        member, parts = [], []
        offset, first = 0, [0]
        for node, exact in entries:
            place, size, part = self._table(node, brought, exact)
            member.append((place + offset).astype(np.int32))
            parts.append(part)
            offset += size
            first.append(offset)
        stacked = np.stack(member, axis=1) if member else np.zeros((len(self.packed), 0), np.int32)
        columns = (
            [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [np.zeros(0, np.int64)] * 9
        )
        occupancy = None
        if view.counted:
            occupancy = Occupancy(columns[2], columns[3], columns[4], columns[5], columns[6].astype(bool))
        return Intervals(
            K,
            self.packed,
            self.low,
            self.high,
            at_k,
            [node for node, _ in entries],
            np.array(first),
            np.ascontiguousarray(stacked),
            columns[0],
            columns[1],
            columns[7],
            columns[8],
            occupancy,
        )

    def _table(self, node: Node, brought: Brought, exact: bool) -> tuple[IntArray, int, list[IntArray]]:
        """For one table: the aggregate of each open cell, the number of aggregates, and what is known about them."""
        view, K = self.view, self.K
        target = self.codes.cell_index(table_of(self.codes.design, node))

        def above(packed: IntArray) -> IntArray:
            return (
                self.index.project([packed], target, self.codes.lists)[0]
                if target.places
                else np.zeros(len(packed), np.int64)
            )

        aggregates, place = np.unique(above(self.packed), return_inverse=True)
        size = len(aggregates)
        of_rows = _where(aggregates, above(self.base.packed))

        def add(which: BoolArray, weights: IntArray | None = None) -> IntArray:
            inside = which & (of_rows >= 0)
            return np.bincount(of_rows[inside], None if weights is None else weights[inside], minlength=size).astype(
                np.int64
            )

        at_k, n_large = add(self.base.value == K), add(self.large)
        large = add(self.large, self.base.value)
        n = sizes(view, node, target.digits([aggregates]) if target.places else []) - n_large
        if view.policy.listed:
            n = add(~self.large)
        of_settled = _where(aggregates, above(self.settled))
        inside = of_settled >= 0
        settled = np.bincount(of_settled[inside], self.count[inside], minlength=size).astype(np.int64)
        n_settled = np.bincount(of_settled[inside], minlength=size).astype(np.int64)
        released = np.zeros(size, np.int64)
        if exact:
            rows = brought.exact[node]
            least = most = at(rows.packed, rows.counts, aggregates) - large
        else:
            shown = view.tables[node]
            released = at(shown.packed, shown.value, aggregates) - large
            least, most = self._stated(node, aggregates, released, n, at_k, brought)
        return (
            place.reshape(-1),
            size,
            [
                least - settled,
                most - settled,
                released,
                at_k,
                settled,
                n_settled,
                np.full(size, exact),
                aggregates,
                np.where((n_large > 0) | exact, -1, settled),
            ],
        )

    def _stated(
        self, node: Node, aggregates: IntArray, released: IntArray, n: IntArray, at_k: IntArray, brought: Brought
    ) -> tuple[IntArray, IntArray]:
        """The interval for the sum of the small cells of each aggregate, from the table's own value."""
        view, K, policy = self.view, self.K, self.view.policy
        if policy.scheme == "sums":
            bound = FAR if brought.bound is None else brought.bound
            return released - bound, released + bound
        if policy.scheme == "sca":
            return np.where(released == 0, 0, np.where(released == K, 1, released)), np.where(
                released == 0, K - 1, released
            )
        if view.counted:
            low, high, *_ = view._unknown_number(released, n, at_k)
            return low, high
        low, high = masking.preimage(released, n, at_k, K)
        shown = view.tables[node]
        if policy.flags and shown.type1 is not None and shown.type2 is not None:
            shift = at(shown.packed, shown.type2, aggregates) - at(shown.packed, shown.type1, aggregates)
            block = np.where(released == K, 0, (released - 1 - K // 2) // K) + shift
            several = (n >= 2) & (released > 0)
            low = np.where(several, np.maximum(low, block * K + 1), low)
            high = np.where(several, np.minimum(high, block * K + K), high)
        return low, high


def open_cells(
    attack: Attack, areas: Sequence[int] | None = None, table: Node | None = None
) -> tuple[IntArray, IntArray, IntArray]:
    """The small finest cells that may be occupied after an attack: as sorted integers, with low and high.

    Parameters
    ----------
    attack : Attack
        An attack that has run.
    areas : sequence of int, optional
        Only the cells of these finest areas. By default, of all areas.
    table : tuple of int, optional
        The cells of this table. By default, of the finest one of the attack.

    Returns
    -------
    tuple of three arrays
        Cells, lows and highs.
    """
    base = table or attack.lattice.base
    width = attack.lattice.width(base)
    found: list[tuple[IntArray, Array, Array]] = [(np.zeros(0, np.int64),) * 3]
    runs = attack.areas(base[0]) if areas is None else [(area, area + 1) for area in areas]
    for first, last in runs:
        low, high = attack.cells(base, first, last)
        cell, area = np.nonzero(high > 0)
        found.append(((area + first) * width + cell, low[cell, area], high[cell, area]))
    packed, low, high = (np.concatenate(parts).astype(np.int64) for parts in zip(*found, strict=True))
    order = np.argsort(packed)
    return packed[order], low[order], high[order]


def _where(known: IntArray, asked: IntArray) -> IntArray:
    """The index of each asked number among the sorted known ones; -1 where it is absent."""
    if not len(known):
        return np.full(len(asked), -1)
    place = np.minimum(np.searchsorted(known, asked), len(known) - 1)
    return np.where(known[place] == asked, place, -1)


def at(known: IntArray, values: IntArray, asked: IntArray) -> IntArray:
    """The value of each asked number; 0 where there is none."""
    place = _where(known, asked)
    return np.where(place >= 0, values[place] if len(values) else 0, 0).astype(np.int64)


def sizes(view: PublishedTables, node: Node, digits: Sequence[IntArray]) -> IntArray:
    """The number of finest cells in each of the given cells of a table; cells are given by their digits."""
    lattice, numbers = view.lattice, iter(digits)
    size: IntArray = np.ones(len(digits[0]) if digits else 1, dtype=np.int64)
    for listed, level, finest in zip(view.codes.lists, node, lattice.base, strict=True):
        below = np.bincount(listed.parents(finest, level), minlength=listed.size(level))
        size = size * (below[next(numbers)] if level else int(below.sum()))
    return size
