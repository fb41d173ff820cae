"""What is published, and what each published number says to an attacker who knows the method.

`PublishedTables` is the attacker's view: the released tables, the code lists, K, the reading of S and the policy. It is
made from a finest table or from public tables alone. If it knows the truth, the truth only serves to count the small
cells and to search for counterexamples. The attack never reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.kernels import parts_of_rows
from ilba.attack.lattice import WIDEST, Array, Edge, Lattice, Node, collapse, meets, node_of, spread, table_of
from ilba.cells.codes import CellIndex, CodeLists
from ilba.design.design import MASKED, Cells, Design, Selection
from ilba.design.tables import selections, wanted_tables
from ilba.errors import InputError, listing, nearest
from ilba.methods import masking
from ilba.methods.controlled.search import behind
from ilba.methods.method import FAR, Method
from ilba.tables import rollup
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

if TYPE_CHECKING:
    from ilba.attack.masksums import MaskSums

IntArray: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Policy:
    """How the numbers of the released tables are made, and what is published beside them."""

    name: str
    scheme: Literal["ilba", "sca", "sums"]
    listed: bool
    flags: bool
    about: str


POLICIES = {
    policy.name: policy
    for policy in (
        Policy("ilba", "ilba", False, False, "iLBA; no flags, and a row that is 0 says nothing"),
        Policy("r-file", "ilba", True, True, "iLBA as the R package writes it: observed rows, with type1 and type2"),
        Policy("r-rows", "ilba", True, False, "iLBA as the R package writes it, without type1 and type2"),
        Policy("sca-aggregates", "sca", False, False, "SCA drawn anew for the small cells of each aggregate"),
        Policy("sca-sums", "sums", False, False, "sums of the masked finest table"),
        Policy("controlled", "sums", False, False, "sums of a finest table whose masks were chosen jointly"),
    )
}


def policy_of(method: str) -> Policy:
    """The policy with this name."""
    if method not in POLICIES:
        raise InputError(f"method={method!r} is not known.{nearest(method, POLICIES)} It is {listing(POLICIES)}.")
    return POLICIES[method]


def if_masked(policy: Policy, cells: Cells, n_grid: Array, at_k: Array, K: int) -> masking.Masked:
    """The released values for the small cells of aggregates if the masked finest table were the truth."""
    if policy.scheme == "ilba":
        return masking.ilba(at_k if cells == "observed" else n_grid, at_k, K * at_k, K)
    return masking.Masked(K * at_k, np.zeros_like(at_k), np.zeros_like(at_k))


class Truth(NamedTuple):
    """The true parts of the observed cells of a table (confidential; never read by the attack)."""

    n_small: IntArray
    n_at_threshold: IntArray
    sum_small: IntArray
    sum_large: IntArray


class PublishedRows(NamedTuple):
    """The rows of one table: cells as integers, sorted, with what was published for them."""

    packed: IntArray
    value: IntArray
    type1: IntArray | None = None
    type2: IntArray | None = None
    truth: Truth | None = None


class Positive(NamedTuple):
    """Observed reading: the aggregates with a released small-cell sum above 0, and what follows from it."""

    place: IntArray
    at_threshold: IntArray
    block_end: IntArray
    most_shifted: IntArray


class CellBounds(NamedTuple):
    """What one table says by itself about the sum of small cells in each of its cells."""

    low: Array
    high: Array
    least: Array | None
    """observed reading: bounds on the number of occupied cells"""
    most: Array | None
    listed: Positive | None
    large: Array | None
    """the part of the count that is public because it lies in large cells; None where it is unknown"""
    misfits: int
    """the number of cells that would differ if the masked finest table were the truth"""


class Touched(NamedTuple):
    """What one table says about the cells that hold a listed finest cell, and about any other cell of an area."""

    node: Node
    area: IntArray
    cell: IntArray
    said: CellBounds
    otherwise: CellBounds


def published_rows(
    codes: CodeLists, policy: Policy, cells: Cells, node: Node, sums: rollup.Sums
) -> tuple[PublishedRows, int]:
    """The published rows of a table with these sums, and how many counts would differ if its masks were the truth."""
    parts, K = sums.parts, codes.design.threshold
    n_grid, n_small = (rollup.small_cells(codes, sums, reading) for reading in ("grid", cells))
    type1 = type2 = None
    if policy.scheme != "sca":
        _, masked = rollup.released(codes, sums, policy.scheme == "sums", cells)
        value = masked.sum_masked
        if policy.flags:
            type1, type2 = _small(masked.type1), _small(masked.type2)
    else:
        # The audit only simulates the draws. They may be any draws, but should be the same on every run.
        rng = np.random.default_rng([2010, *node])
        draws = rng.integers(0, masking.DRAW_RANGE, len(sums))
        anew = masking.sca(parts.sum_small, draws, K)
        value = np.where(n_grid == 1, K * parts.n_at_threshold, anew)
    truth = Truth(*map(_small, (n_small, parts.n_at_threshold, parts.sum_small, parts.sum_large)))
    other = if_masked(policy, cells, n_grid, parts.n_at_threshold, K)
    misfits = int((other.sum_masked != value).sum())
    if policy.listed:
        misfits += int((parts.sum_large + parts.n_at_threshold == 0).sum())
    if type1 is not None and type2 is not None:
        misfits += int(((other.type1 != type1) | (other.type2 != type2)).sum())
    return PublishedRows(sums.packed[0], _small(value + parts.sum_large), type1, type2, truth), misfits


class PublishedTables:
    """Released tables as an attacker sees them."""

    reads_small_parts: ClassVar[bool] = True
    """whether the finest table, if it is released, shows which part of a count is in small cells"""
    gap: int = 1
    """every number that is bounded is 0 or at least this"""
    method: Method | None = None
    """the method, if it is not one of the audit's own"""

    def __init__(
        self,
        codes: CodeLists,
        policy: Policy,
        cells: Cells,
        tables: Mapping[Node, PublishedRows],
        *,
        base: PublishedRows | None = None,
        misfits: int | None = None,
        move: int = 0,
        whole: Callable[[], PublishedRows | None] | None = None,
    ) -> None:
        if not tables:
            raise InputError(_NOTHING)
        columns = {column for node in tables for column in table_of(codes.design, node).columns}
        if unlisted := [column for column in codes.unlisted if column in columns]:
            raise InputError(
                f"the tables by {listing(unlisted)} are empty, and no code list names a code there. Give the store, "
                f"too: store= (--store)."
            )
        self.codes = codes
        self.policy = policy
        self.cells: Cells = "observed" if policy.listed else cells
        self.tables = dict(tables)
        self.K = codes.design.threshold
        self.move = move
        """how far large counts may have moved; this is public"""
        self.split = self.reads_small_parts and self.finest in self.tables and not move
        """whether the finest table is released with exact large counts, so that the small part of counts is public"""
        # Without small parts, tables are tied only by their common margins, released or not.
        self.lattice = Lattice(codes, self.tables if self.split else meets(list(self.tables)))
        self.base = self.tables.get(self.lattice.base, base)
        """the rows of the common refinement: a released table, or taken from the store"""
        self._whole = whole
        self.misfits = misfits
        """with a store: how many released counts would differ if the masked finest table were the truth"""
        self.bounded = True
        """whether published numbers bound the counts; unbounded noise does not"""
        widest = max(map(self.lattice.width, self.lattice.nodes))
        if widest > WIDEST:
            raise InputError(
                f"the released tables distinguish {widest:,} cells per area, more than the audit can follow "
                f"({WIDEST:,}). Audit fewer keys at a time: keys=[...]."
            )

    @classmethod
    def of(
        cls, finest: AnyFinestTable, method: str = "ilba", wanted: Sequence[Selection] | None = None
    ) -> PublishedTables:
        """Make the published tables of a finest table, as a release would show them.

        Parameters
        ----------
        finest : FinestTable
            The counts and masks.
        method : str, default "ilba"
            How the tables are made, as in `audit`.
        wanted : sequence of Selection, optional
            The tables. By default, all tables.

        Returns
        -------
        PublishedTables
            The tables, together with the truth. Confidential.

        Raises
        ------
        InputError
            There is no table, or a table has too many possible cells.
        """
        policy, design = policy_of(method), finest.design
        chosen = selections(design) if wanted is None else list(wanted)
        if not chosen:
            raise InputError(_NOTHING)
        chosen = [table_of(design, node) for node in dict.fromkeys(node_of(design, s) for s in chosen)]
        cells: Cells = "observed" if policy.listed else design.cells
        tables = {}
        misfits = 0
        refined = refinement(finest.codes, chosen)
        for selection, sums in finest.sums(list(dict.fromkeys([*chosen, *refined]))):
            if len(sums.packed) > 1:
                raise InputError(f"the table {selection.name!r} has more than 2^63 possible cells: audit fewer keys.")
            node = node_of(design, selection)
            tables[node], unlike = published_rows(finest.codes, policy, cells, node, sums)
            misfits += unlike if selection in chosen else 0
        base = tables[node_of(design, refined[0])] if refined else None
        shown = {node_of(design, selection): tables[node_of(design, selection)] for selection in chosen}
        move = finest.move if policy.name == "controlled" else 0

        def whole() -> PublishedRows | None:
            ((_, sums),) = finest.sums([design.finest])
            if len(sums.packed) > 1:
                return None
            return published_rows(finest.codes, policy, cells, node_of(design, design.finest), sums)[0]

        known = whole if isinstance(finest, FinestTable) else None
        return cls(finest.codes, policy, cells, shown, base=base, misfits=misfits, move=move, whole=known)

    @classmethod
    def from_frames(
        cls, codes: CodeLists, frames: Mapping[str | Selection, pl.DataFrame], method: str = "ilba", move: int = 0
    ) -> PublishedTables:
        """Read a release from its public tables. A missing row counts as 0.

        Parameters
        ----------
        codes : CodeLists
            The code lists with the design, K and the reading of S, such as `release.code_lists()`.
        frames : dict of str to polars.DataFrame
            The labels and N_masked of each table, by its name.
        method : str, default "ilba"
            How the tables were made, as in `audit`.
        move : int, default 0
            How far large counts may have moved when masks were chosen jointly, as the release states.

        Returns
        -------
        PublishedTables
            The tables as an outsider has them.

        Raises
        ------
        InputError
            A column is missing, or two rows are for the same cell.
        """
        policy, design = policy_of(method), codes.design
        tables = {}
        for name, frame in frames.items():
            (selection,) = wanted_tables(design, [name])
            cell_index = codes.cell_index(selection)
            needed = [*selection.columns, MASKED, *(("type1", "type2") if policy.flags else ())]
            absent = [column for column in needed if column not in frame.columns]
            if absent:
                raise InputError(f"the table {selection.name!r} has no column {listing(absent)}.")
            packed = packed_cells(codes, cell_index, selection, frame)
            order = np.argsort(packed, kind="stable")
            if (np.diff(packed[order]) == 0).any():
                raise InputError(f"the table {selection.name!r} has two rows for the same cell.")
            columns = {
                name: masking.whole_numbers(name, frame[name].to_numpy())[order] for name in needed if name in _COUNTS
            }
            tables[node_of(design, selection)] = PublishedRows(
                packed[order], columns[MASKED], columns.get("type1"), columns.get("type2")
            )
        return cls(codes, policy, design.cells, tables, move=move)

    @property
    def design(self) -> Design:
        """The design of the code lists."""
        return self.codes.design

    @property
    def looked_at(self) -> list[Node]:
        """The released tables and their common refinement, finest first, without unreleased margins."""
        return [node for node in self.lattice.nodes if node in self.tables or node == self.lattice.base]

    @property
    def finest(self) -> Node:
        """The finest table of the design, released or not."""
        return tuple(listed.depth for listed in self.codes.lists)

    @cached_property
    def whole(self) -> PublishedRows | None:
        """The finest table of the store, even if the released tables are coarser; None without a store in memory."""
        if self.finest == self.lattice.base:
            return self.base
        return None if self._whole is None else self._whole()

    def place(self, node: Node, rows: PublishedRows, first: int, last: int) -> tuple[slice, IntArray, IntArray]:
        """Find the rows of a table for some of its areas.

        Parameters
        ----------
        node : tuple of int
            The table, by the level of each dimension.
        rows : PublishedRows
            The rows of the table.
        first : int
            The first area.
        last : int
            The area after the last one.

        Returns
        -------
        tuple of slice, array and array
            The rows, the area of each numbered from `first`, and its cell within the area.
        """
        packed, width = rows.packed, self.lattice.width(node)
        ends = np.searchsorted(packed, [first * width, last * width])
        inside = slice(int(ends[0]), int(ends[1]))
        area = packed[inside] // width
        return inside, area - first, packed[inside] - area * width

    def dense(self, node: Node, first: int, last: int, values: Array) -> Array:
        """Spread values of the rows of a table over all its cells.

        Parameters
        ----------
        node : tuple of int
            The table, by the level of each dimension.
        first : int
            The first area.
        last : int
            The area after the last one.
        values : array
            One value for each row of the table.

        Returns
        -------
        array
            An axis for each dimension except the first, then one for the areas; 0 where there is no row.
        """
        inside, area, cell = self.place(node, self.tables[node], first, last)
        cells = np.zeros((self.lattice.width(node), last - first), dtype=np.int64)
        cells[cell, area] = values[inside]
        return cells.reshape(*self.lattice.shape(node), last - first)

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
        if not self.split:
            return {node: self._total(node, first, last) for node in nodes}
        sums = self._public_parts(level, first, last, nodes)
        return {node: self._small_sum(node, first, last, *sums[node]) for node in nodes}

    def _public_parts(
        self, level: int, first: int, last: int, nodes: Sequence[Node]
    ) -> dict[Node, tuple[Array, Array, Array, Array]]:
        """What the finest table says about each aggregate: cells at K, large cells, their sum, listed small cells."""
        lattice, K = self.lattice, self.K
        base = lattice.base
        start, end = lattice.areas(base[0], level, first, last)
        inside, area, cell = self.place(base, self.tables[base], start, end)
        value = self.tables[base].value[inside]
        parents = self.codes.lists[0].parents(base[0], level)[start:end] - first
        wide, rows = lattice.width(base), last - first
        place = cell * rows + parents[area]

        def count(which: Array, weights: Array | None = None) -> Array:
            counted = np.bincount(place[which], None if weights is None else weights[which], minlength=wide * rows)
            return counted.astype(np.int64, copy=False).reshape(*lattice.shape(base), rows)

        large = value > K
        top = (level, *base[1:])
        made = {top: (count(value == K), count(large), count(large, value), count(~large))}
        for node in nodes:
            if node not in made:
                source = next((e.child for e in lattice.edges if e.parent == node and e.child in made), top)
                steps = lattice.steps(Edge(node, source), {level: (first, last)})
                at, many, amount, small = (collapse(part, steps, np.int64) for part in made[source])
                made[node] = (at, many, amount, small)
        return made

    def touched(self, level: int, first: int, last: int) -> Iterator[Touched] | None:
        """Bound the cells of the finest areas that hold a listed finest cell, and all other cells together.

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
        iterator of Touched or None
            One table at a time; None where only `knowledge` has the answer.
        """
        if not self.split or level != self.lattice.base[0] or type(self).knowledge is not PublishedTables.knowledge:
            return None
        return self._touched(level, first, last)

    def _touched(self, level: int, first: int, last: int) -> Iterator[Touched]:
        lattice, base, K = self.lattice, self.lattice.base, self.K

        def by_area(node: Node) -> tuple[tuple[IntArray, IntArray, IntArray], int]:
            inside, area, cell = self.place(node, self.tables[node], first, last)
            starts = np.searchsorted(area, np.arange(last - first + 1))
            return (starts, cell, self.tables[node].value[inside].astype(np.int64)), inside.start

        finest, _ = by_area(base)
        numbers: IntArray = np.arange(lattice.width(base))
        for node in (one for one in lattice.nodes if one[0] == level):
            rows, offset = by_area(node)
            width, shape = lattice.width(node), (*lattice.shape(node), 1)
            steps = lattice.steps(Edge(node, base), {level: (0, 1)})
            place = spread(numbers[:width].reshape(shape), steps)
            above = np.array(np.broadcast_to(place, (*lattice.shape(base), 1))).reshape(-1)
            work = np.zeros((width, 6), np.int64)
            work[:, 5] = -1
            found = np.empty((len(finest[1]) + len(rows[1]), 8), np.int64)
            found = found[: parts_of_rows(finest, above, rows, last - first, K, found, work)]
            area, cell, at_k, n_large, large, n_listed, value, row = np.ascontiguousarray(found.T)
            size = self._finest_cells(node, first, first + 1).reshape(-1)
            flags = None
            own = self.tables[node]
            if own.type1 is not None and own.type2 is not None:
                there = np.where(row >= 0, row + offset, 0)
                flags = [np.where(row >= 0, part[there], 0).astype(np.int64) for part in (own.type1, own.type2)]
            nothing: IntArray = np.zeros(width, np.int64)
            yield Touched(
                node,
                area,
                cell,
                self._of_small(node, value, size[cell], (at_k, n_large, large, n_listed), flags),
                self._of_small(node, nothing, size, (nothing,) * 4, None if flags is None else [nothing] * 2),
            )

    def _small_sum(
        self, node: Node, first: int, last: int, at_k: Array, n_large: Array, large: Array, n_listed: Array
    ) -> CellBounds:
        """The bounds on the sum of the small cells of each aggregate, where the finest table is released."""
        rows = self.tables[node]
        value, flags = self.dense(node, first, last, rows.value), None
        if rows.type1 is not None and rows.type2 is not None:
            flags = [self.dense(node, first, last, part) for part in (rows.type1, rows.type2)]
        size = self._finest_cells(node, first, last)
        return self._of_small(node, value, size, (at_k, n_large, large, n_listed), flags)

    def _of_small(
        self,
        node: Node,
        value: Array,
        size: Array,
        parts: tuple[Array, Array, Array, Array],
        flags: Sequence[Array] | None,
    ) -> CellBounds:
        """The same for any cells of a table, from the released values, the numbers of finest cells and their parts."""
        K, policy = self.K, self.policy
        at_k, n_large, large, n_listed = parts
        released = value - large
        if (released < 0).any():
            raise self._contradiction(node)
        n_grid = size - n_large
        n = n_listed if policy.listed else n_grid
        least = most = listed = None
        misfits = 0
        if self.misfits is None:
            other = if_masked(policy, self.cells, n_grid, at_k, K)
            misfits = int((other.sum_masked != released).sum())
        if self.misfits is None and flags is not None:
            misfits += sum(int((a != b).sum()) for a, b in zip(flags, other[1:], strict=True))
        if node == self.lattice.base:
            at = (released == K) & (n_large == 0)
            low, high = at.astype(np.int64), np.where(n_large > 0, 0, np.where(at, K, K - 1))
            if policy.listed:
                low, high = n_listed, np.where(n_listed > 0, high, 0)
                misfits += int(((n_listed > 0) & (released == 0)).sum())
            wrong = (released != 0) & ~at
        elif policy.scheme == "sums":
            low, high, wrong = at_k, K * at_k + (K - 1) * (n - at_k), released != K * at_k
        elif policy.scheme == "sca":
            low = np.where(released == 0, 0, np.where(released == K, 1, released))
            high = np.where(released == 0, K - 1, released)
            wrong = (released > 0) & (released < K)
        elif self.cells == "grid" or policy.listed:
            low, high = masking.preimage(released, n, at_k, K)
            if policy.flags:
                low, high = self._flagged(node, flags, released, n, low, high)
            wrong = low > high
        else:
            low, high, least, most, listed, wrong = self._unknown_number(released, n, at_k)
        if wrong.any():
            raise self._contradiction(node)
        if self.counted and least is None:
            least, most = low.clip(0, 1), high.clip(0, 1)
        return CellBounds(low, high, least, most, listed, large, misfits)

    @property
    def counted(self) -> bool:
        """Whether the number of occupied cells is unknown and gets bounds: iLBA in the observed reading."""
        return self.split and self.policy.scheme == "ilba" and self.cells == "observed" and not self.policy.listed

    def _flagged(
        self, node: Node, flags: Sequence[Array] | None, released: Array, n: Array, low: Array, high: Array
    ) -> tuple[Array, Array]:
        """The bounds where type1 and type2 are published, so that the block is known."""
        K = self.K
        if flags is None:
            raise InputError(f"the table {table_of(self.design, node).name!r} has no type1 and type2.")
        shift = flags[1] - flags[0]
        block = np.where(released == K, 0, (released - 1 - K // 2) // K) + shift
        several = (n >= 2) & (released > 0)
        low = np.where(several, np.maximum(low, block * K + 1), low)
        return low, np.where(several, np.minimum(high, block * K + K), high)

    def _unknown_number(
        self, released: Array, n: Array, at_k: Array
    ) -> tuple[Array, Array, Array, Array, Positive, Array]:
        """The bounds of iLBA in the observed reading, where only |S| >= |S_K| is public."""
        K = self.K
        zero, q = released == 0, np.where(released == K, 0, (released - 1 - K // 2) // K)
        known = zero | (released == K) | ((released > K) & (released == q * K + 1 + K // 2))
        # A 0 means no occupied small cell, or one masked to 0. Any other value means several, or one masked to K.
        alone = (released == K) & (at_k == 1)
        low = np.where(zero, 0, np.maximum(q * K + 1 - K * ((q >= 1) & ((q - 1) * K + 1 < at_k)), at_k))
        # Type 2 shifts reach down from at most one block above, and only if |S| is small enough.
        most_shifted = ((q + 2) * K - 1 - at_k) // (K - 1)
        block_end = (q + 1) * K
        high = np.where(zero, K - 1, np.maximum(block_end, at_k + (K - 1) * np.minimum(n, most_shifted)))
        high = np.minimum(high, K * at_k + (K - 1) * (n - at_k))
        least = np.where(zero, 0, np.where(alone, 1, np.maximum(2, -((at_k - block_end) // (K - 1)))))
        most = np.where(zero, np.minimum(n, 1), n)
        wrong = ~known | (zero & (at_k > 0)) | (least > most) | (low > high) | (~zero & (at_k > q * K + 1))
        place = np.flatnonzero(~zero)
        listed = Positive(place, *(part.ravel()[place] for part in (at_k, block_end, most_shifted)))
        return low, high, np.maximum(least, at_k), most, listed, wrong

    def _total(self, node: Node, first: int, last: int) -> CellBounds:
        """The bounds on whole counts where the finest table is not released, from the largest possible errors."""
        K, policy = self.K, self.policy
        if policy.scheme == "sums":
            low, high = self.masks.counts(node, first, last)
            return CellBounds(low, np.minimum(high, self._largest), None, None, None, None, 0)
        if node not in self.tables:  # the common refinement, or a common margin: other tables bound it
            shape = (*self.lattice.shape(node), last - first)
            return CellBounds(np.zeros(shape, np.int64), np.full(shape, self._largest), None, None, None, None, 0)
        _, area, cell = self.place(node, self.tables[node], first, last)
        value = self.dense(node, first, last, self.tables[node].value)
        n, unlisted = self._finest_cells(node, first, last), bool(self.codes.unlisted)
        if policy.scheme == "sca":
            low, high = value - (K - 1), np.where(value == K, K, value + (K - 1))
        else:
            low, high = whole_range(value, n, K, self.cells, unlisted)
            if (low > high).any():
                raise self._contradiction(node)
        low = np.where(value > 0, np.maximum(low, 1), 0)
        least, most = behind(value, K, self.move)
        if unlisted:  # each may be one cell alone
            low, high = np.minimum(low, least), np.maximum(high, most)
        else:
            low, high = np.where(n == 1, least, low), np.where(n == 1, most, high)
        if policy.listed:
            there: Array = np.zeros((self.lattice.width(node), last - first), dtype=bool)
            there[cell, area] = True
            there = there.reshape(value.shape)
            low, high = np.where(there, np.maximum(low, 1), 0), np.where(there, high, 0)
        if ((value > 0) & (value < K)).any():
            raise self._contradiction(node)
        return CellBounds(low, high, None, None, None, None, 0)

    def _finest_cells(self, node: Node, first: int, last: int) -> Array:
        """The number of finest cells in each cell of a table; the least number if columns are unlisted."""
        return np.broadcast_to(self._finest.sizes(node, first, last), (*self.lattice.shape(node), last - first))

    @cached_property
    def _finest(self) -> Lattice:
        return Lattice(self.codes, [self.finest])

    @property
    def may_miss(self) -> bool:
        """Whether what propagation proves about finest cells is a lower bound: no table shows these cells."""
        return self.bounded and self.lattice.base not in self.tables

    @property
    def by_masks(self) -> bool:
        """Whether counts are bounded by what all tables say about masks: sums of masks without the finest table."""
        if self.method is not None:
            none = np.zeros(1, np.int64)
            return self.lattice.base not in self.tables and self.method.behind(none, none, none + 1) is not None
        return self.policy.scheme == "sums" and not self.split

    @cached_property
    def masks(self) -> MaskSums:
        """What all tables together say about the sums of masks of every cell, where sums of masks are released."""
        from ilba.attack.masksums import MaskSums  # it attacks tables

        return MaskSums(self)

    @cached_property
    def _largest(self) -> int:
        """An upper limit for every count."""
        if self.policy.scheme == "sums" and self.codes.unlisted:
            return FAR
        cells = {node: self.lattice.width(node) * self.codes.lists[0].size(node[0]) for node in self.tables}
        if self.policy.scheme == "sums":  # each finest cell may have lost K - 1, or moved
            cells = dict.fromkeys(cells, self.codes.finest.grid)
        least = min(int(rows.value.sum()) + 2 * self.K * cells[node] for node, rows in self.tables.items())
        return min(least, FAR)

    def _contradiction(self, node: Node) -> InputError:
        return InputError(
            f"the table {table_of(self.design, node).name!r} holds numbers that method={self.policy.name!r} with "
            f"K={self.K} and cells={self.cells!r} cannot have released beside the other tables. Give the method, the "
            f"threshold, the reading and the code lists with which they were made."
        )


def refinement(codes: CodeLists, chosen: Sequence[Selection]) -> list[Selection]:
    """The common refinement of tables, unless it has too many cells."""
    lattice = Lattice(codes, [node_of(codes.design, selection) for selection in chosen])
    return [] if lattice.wide else [table_of(codes.design, lattice.base)]


def whole_range(value: Array, n: Array, K: int, cells: Cells, or_more: bool = False) -> tuple[Array, Array]:
    """The smallest and largest true count that iLBA releases as `value` for n unreleased finest cells, or more.

    The part of the value in large cells is not public. A value below 2K+1 leaves little room for them: with K = 5, a 5
    is a sum of small cells alone, and with many of them it means 1..5.

    >>> [end.tolist() for end in whole_range(np.array([5, 8, 100]), np.array([9, 9, 9]), 5, "grid")]
    [[1, 2, 94], [5, 10, 106]]
    """
    low, high = value - (K + K // 2 - 1), value + 2 * K - 2 - K // 2
    if K > _TRIED:
        empty = np.where((n > 1) & (cells == "grid") & (not or_more), 0, K - 1)
        return np.where(value > 0, low, 0), np.where(value > 0, high, empty)
    least, most = _tried(K, cells)
    if or_more:
        least = np.minimum.accumulate(least[:, ::-1], axis=1)[:, ::-1]
        most = np.maximum.accumulate(most[:, ::-1], axis=1)[:, ::-1]
    few, many = np.minimum(value, len(least) - 1), np.minimum(n, least.shape[1] - 1)
    near = value < len(least)
    return np.where(near, least[few, many], low), np.where(near, most[few, many], high)


@lru_cache(maxsize=16)
def _tried(K: int, cells: Cells) -> tuple[IntArray, IntArray]:
    """The same for small values, by trying every number and sum of large cells, and every mask of the rest."""
    top, wide = 2 * K + 2 + K // 2, 3 * K + 6  # above these, value and number change nothing
    # The possible sums of the small cells alone, by the released sum and their number.
    at_k, number = np.meshgrid(np.arange(wide), np.arange(wide), indexing="ij")
    inside = at_k <= number
    small = {}
    for released in (0, K, *range(K + 1 + K // 2, top, K)):
        below, above = masking.preimage(np.full_like(at_k, released), number, at_k, K)
        if cells == "observed":  # each of the cells is occupied
            below, above = np.maximum(below, number), np.where((number >= 2) & (released == 0), -1, above)
        fits = inside & (below <= above)
        ends = np.where(fits, below, _NEVER).min(axis=0), np.where(fits, above, -_NEVER).max(axis=0)
        if cells == "observed":  # and their number is not public
            ends = np.minimum.accumulate(ends[0]), np.maximum.accumulate(ends[1])
        small[released] = ends
    least, most = np.full((top, wide), _NEVER), np.full((top, wide), -_NEVER)
    for value in range(top):
        for released, (below, above) in small.items():
            in_large = value - released
            for large in range(in_large // (K + 1) + 1) if in_large > 0 else [0] * (in_large == 0):
                if (large == 0) != (in_large == 0):
                    continue
                cut = slice(0, wide - large)
                np.minimum(least[value, large:], in_large + below[cut], out=least[value, large:])
                np.maximum(most[value, large:], in_large + above[cut], out=most[value, large:])
    return least, most


_TRIED = 50
"""small values are tried up to this K; above it, the largest possible errors give the bounds"""
_NEVER = 2**40
_NOTHING = "no table is released, so there is nothing to audit. Name at least one."
_COUNTS = (MASKED, "type1", "type2")


def _small(values: IntArray) -> IntArray:
    """The values in four bytes where they fit, because a large release has many rows."""
    if len(values) and int(values.max()) >= 2**31:
        return values
    return values.astype(np.int32)


def packed_cells(codes: CodeLists, cell_index: CellIndex, selection: Selection, frame: pl.DataFrame) -> IntArray:
    """The cells of labelled rows as integers."""
    digits = []
    for dimension, level, size in cell_index.places:
        listed = codes.lists[dimension]
        index = pl.DataFrame([*listed.named(level, np.arange(size)), pl.Series("node", np.arange(size))])
        columns = listed.columns[:level]
        given = frame.select(pl.col(name).cast(index[name].dtype, strict=False) for name in columns)
        found = given.join(index, on=columns, how="left", nulls_equal=True, maintain_order="left")["node"]
        if found.null_count():
            raise InputError(f"the table {selection.name!r} has labels in {listing(columns)} that no code list holds.")
        digits.append(found.to_numpy())
    packed = cell_index.pack(digits, frame.height)
    if len(packed) > 1:
        raise InputError(f"the table {selection.name!r} has more than 2^63 possible cells: audit fewer keys.")
    return packed[0]
