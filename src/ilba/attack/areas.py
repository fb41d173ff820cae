"""Audit a nation one top-level area at a time. The tables of the whole nation share bounds between the areas.

Each area is attacked by itself, in memory. Only the bounds on the tables of the area as a whole are kept. They are
combined with the tables that count all areas together: a national count is the sum over the areas, so the total and the
other areas bound each area. An area that gains tighter bounds in this way is attacked again, up to a fixed number of
times. Bounds only tighten, so it is sound to stop after any visit. When no bound moves any more, the result equals that
of an attack on everything at once.

The attack needs memory for one area and for the bounds of all areas as wholes. Its time is linear in the number of
areas.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.audit import Findings, counted, in_tables
from ilba.attack.bounds import Attack
from ilba.attack.explanations import Explanation, explain
from ilba.attack.intervals import AttackerView, Brought
from ilba.attack.lattice import Array, Lattice, Node, node_of, table_of
from ilba.attack.published import (
    POLICIES,
    CellBounds,
    Policy,
    PublishedRows,
    PublishedTables,
    Touched,
    Truth,
    policy_of,
    published_rows,
)
from ilba.attack.verdict import AuditReport
from ilba.cells.codes import CodeLists
from ilba.design.design import Selection
from ilba.errors import InputError
from ilba.methods.masking import Parts
from ilba.progress import Progress, ProgressStep, silent
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable
from ilba.tables.opening import open_store
from ilba.tables.rollup import Sums

IntArray: TypeAlias = npt.NDArray[np.int64]
Ends: TypeAlias = tuple[Array, ...]
"""low and high (in the observed reading also least and most) of all cells of a table in one area"""

VISITS = 2
"""the largest number of attacks on one area: first by itself, then with the bounds from the other areas"""
NOT_LOOKED = "no counterexamples are searched when areas are audited one at a time"


class ByAreas(NamedTuple):
    """A finest table, opened one top-level area at a time."""

    codes: CodeLists
    method: str
    labels: list[Any]
    part: Callable[[Any], FinestTable]

    @classmethod
    def of(cls, source: AnyFinestTable | str | os.PathLike[str]) -> ByAreas:
        """Take a finest table in memory or on Spark, or a store. From a folder, only the files of one area are read."""
        if isinstance(source, AnyFinestTable):
            found = source
        elif Path(source).is_dir():
            from ilba.tables.store import dataset_of

            codes = dataset_of(Path(source)).about.codes
            labels = _labels(codes)
            method = open_store(source, within=labels[0]).method
            return cls(codes, method, labels, lambda label: open_store(source, within=label))
        else:  # a single file was written from memory, so it fits into memory
            found = open_store(source)
        return cls(found.codes, found.method, _labels(found.codes), found.within)


def _labels(codes: CodeLists) -> list[Any]:
    areas = codes.lists[0]
    return list(areas.named(1, np.arange(areas.size(1)))[0])


class _Told(AttackerView):
    """What is published about one area, with the bounds from the tables of all areas."""

    def __init__(
        self,
        published: PublishedTables,
        besides: Sequence[Node],
        told: Mapping[Node, Ends],
        base: PublishedRows | None,
    ) -> None:
        super().__init__(published, Brought())
        self.lattice = Lattice(published.codes, [*published.lattice.nodes, *besides])
        self.base = None if self.lattice.baseless else base
        self.told = told

    def knowledge(self, level: int, first: int, last: int) -> dict[Node, CellBounds]:
        """Bound each table of a level by itself, then apply the bounds from the whole."""
        known = super().knowledge(level, first, last)
        return {node: self._with(node, bounds) for node, bounds in known.items()}

    def touched(self, level: int, first: int, last: int) -> Iterator[Touched] | None:
        """Bound only the cells that hold a listed finest cell; None where the whole bounds this level."""
        return None if any(node[0] == level for node in self.told) else super().touched(level, first, last)

    def _with(self, node: Node, known: CellBounds) -> CellBounds:
        told = self.told.get(node)
        if told is None:
            return known
        known = known._replace(low=np.maximum(known.low, told[0]), high=np.minimum(known.high, told[1]))
        if known.least is None or known.most is None or len(told) < 4:
            return known
        return known._replace(least=np.maximum(known.least, told[2]), most=np.minimum(known.most, told[3]))


class _Whole(PublishedTables):
    """The tables that count all areas together, with the bounds on each area as a whole."""

    def __init__(self, codes: CodeLists, policy: Policy, cells: Any, tables: Mapping[Node, PublishedRows], split: bool):
        self.codes, self.policy, self.cells = codes, policy, cells
        self.tables, self.split, self.K = dict(tables), split, codes.design.threshold
        self.lattice = shared_lattice(codes, list(tables))
        self.base, self.misfits = None, 0
        self.move, self.bounded = 0, True  # only sums of masks move, and they are not attacked here
        self.parts: dict[Node, tuple[Array, ...]] = {}
        """what the finest table shows of each table: cells at K, large cells, their sum, listed small cells"""
        self.ends: dict[Node, Ends] = {}
        """the proven bounds of each table by areas; the areas are the last axis"""

    def knowledge(self, level: int, first: int, last: int) -> dict[Node, CellBounds]:
        """Bound each table by itself; for tables by areas, use what was proven there."""
        if level == 0 and self.split:
            return {node: self._small_sum(node, 0, 1, *self.parts[node]) for node in self.tables}
        if level == 0:
            return {node: self._total(node, 0, 1) for node in self.tables}
        found = {}
        for node in (one for one in self.lattice.nodes if one[0]):
            sides = [side[..., first:last] for side in self.ends[node]]
            least, most = sides[2:] if self.counted else (None, None)
            found[node] = CellBounds(sides[0], sides[1], least, most, None, None, 0)
        return found


def shared_lattice(codes: CodeLists, above: Sequence[Node]) -> Lattice:
    """The lattice of the tables of the whole and of the tables by areas that add up to them."""
    return Lattice(codes, [*above, *(below(node) for node in above)])


def below(node: Node) -> Node:
    """The table by areas that adds up to a table of the whole."""
    return (1, *node[1:])


def audit_by_areas(
    source: AnyFinestTable | str | os.PathLike[str],
    method: str | None,
    wanted: Callable[[CodeLists], Sequence[Selection]],
    explanations: int,
    progress: Progress | None,
    visits: int = VISITS,
    listed: Sequence[object] = (),
) -> AuditReport:
    """Audit the tables of a finest table that may exceed memory, one top-level area at a time.

    Parameters
    ----------
    source : FinestTable, SparkFinestTable or path
        The counts and masks, or the store that holds them.
    method : str or None
        How the tables are made: one of the audit's own methods.
    wanted : callable
        Takes the code lists and returns the tables.
    explanations : int
        The number of disclosed cells to explain.
    progress : callable or None
        Called with each `ProgressStep`.
    visits : int, default VISITS
        The largest number of attacks on one area.
    listed : sequence of labels, default ()
        The areas whose cells `ranges` holds.

    Returns
    -------
    AuditReport
        As from `audit`, with the ranges of the cells of these areas alone.

    Raises
    ------
    InputError
        The method is not one of the audit's own, or no table is by areas.
    """
    start = time.perf_counter()
    areas = ByAreas.of(source)
    name = method or areas.method
    if name not in POLICIES:
        raise InputError(f"areas are audited one after the other for {', '.join(POLICIES)}, not for {name!r}.")
    work = _Work(areas, policy_of(name), list(wanted(areas.codes)), explanations, progress or silent)
    work.ranges = {int(areas.codes.lists[0].node([label]) or 0): None for label in listed}
    work.run(visits)
    return work.report(time.perf_counter() - start)


class _Work:
    """The state that is kept between areas."""

    def __init__(
        self, areas: ByAreas, policy: Policy, wanted: list[Selection], explanations: int, tell: Progress
    ) -> None:
        self.areas, self.policy, self.tell, self.explanations = areas, policy, tell, explanations
        self.design = areas.codes.design
        nodes = list(dict.fromkeys(node_of(self.design, selection) for selection in wanted))
        self.above = [node for node in nodes if node[0] == 0]
        self.own = [node for node in nodes if node[0] > 0]
        if not self.own:
            raise InputError("no table is by areas, so there is nothing to audit by areas. Leave out areas=True.")
        self.nodes = nodes
        self.base = Lattice(areas.codes, nodes).base
        self.shared = [n for n in shared_lattice(areas.codes, self.above).nodes if n[0]] if self.above else []
        """the tables by areas through which an area and the whole exchange bounds"""
        self.cells = "observed" if policy.listed else self.design.cells
        self.split = tuple(listed.depth for listed in areas.codes.lists) in nodes
        self.by_area: list[dict[Node, Sequence[int]]] = [{} for _ in areas.labels]
        self.found: list[tuple[int, int, int]] = [(0, 0, 0) for _ in areas.labels]
        self.ends: list[dict[Node, Ends]] = [{} for _ in areas.labels]
        self.worst: list[Explanation] = []
        self.ranges: dict[int, pl.DataFrame | None] = {}
        """the ranges of the cells of some areas, as the last visit left them"""
        self.misfits = 0
        self.left = 0
        """the number of areas that could still be tightened after the last visit"""
        self._sums: dict[Node, Sums] = {}
        self._parts: dict[Node, tuple[Array, ...]] = {}
        self._done = 0
        self.counts: dict[Node, list[int]] = {node: [0, 0, 0] for node in nodes}

    def run(self, visits: int) -> None:
        """Attack every area, then the whole, then again the areas whose bounds this tightened."""
        told: list[dict[Node, Ends]] = [{} for _ in self.areas.labels]
        pending = list(range(len(told)))
        whole: _Whole | None = None
        for visit in range(visits):
            for number in pending:
                self._visit(number, told[number], first=visit == 0)
            if not self.above:
                return
            if whole is None:
                whole = self._whole()
            if self.policy.scheme == "sums":
                self._count(whole, None)
                return
            attack = self._shared(whole)
            self._count(whole, attack)
            told = self._tell_areas(attack)
            pending = [number for number, one in enumerate(told) if one]
            self.left = len(pending)
            if not pending:
                return

    def _visit(self, number: int, told: Mapping[Node, Ends], first: bool) -> None:
        part = self.areas.part(self.areas.labels[number])
        if first:
            self._add_up(part)
        if self.policy.scheme == "sums":  # sums of masks prove nothing: only the small cells are counted
            self._count_small(number, part)
            if number in self.ranges:
                self.ranges[number] = Findings(Attack(self._published(part)).run()).ranges
        else:
            published = self._published(part)
            view = _Told(published, self.shared, told, self._base_rows(part, published))
            self._attack(number, view, published, first)
        self._done += 1
        self.tell(ProgressStep("auditing areas", self._done, max(len(self.areas.labels), self._done)))

    def _published(self, part: FinestTable) -> PublishedTables:
        """The tables of one area."""
        return PublishedTables.of(part, self.policy.name, [table_of(part.design, node) for node in self.own])

    def _base_rows(self, part: FinestTable, published: PublishedTables) -> PublishedRows | None:
        """The cells of one area that all tables together tell apart; tables of the whole may tell apart more."""
        if published.lattice.base == self.base or published.lattice.wide:
            return published.base
        ((_, sums),) = part.sums([table_of(part.design, self.base)])
        return published_rows(part.codes, self.policy, self.cells, self.base, sums)[0]

    def _add_up(self, part: FinestTable) -> None:
        """Add an area to the tables of the whole."""
        design = part.design
        for selection, sums in part.sums([table_of(design, node) for node in self.above]):
            node = node_of(design, selection)
            before = [self._sums[node]] if node in self._sums else []
            self._sums[node] = _added(self.areas.codes, selection, [*before, sums])

    def _show(self, view: _Told) -> None:
        """Add what the finest table shows of one area to the totals of the whole."""
        for node, own in view._public_parts(1, 0, 1, [below(node) for node in self.above]).items():
            top = (0, *node[1:])
            if top in self.above:
                before = self._parts.get(top)
                self._parts[top] = own if before is None else tuple(a + b for a, b in zip(before, own, strict=True))

    def _attack(self, number: int, view: _Told, published: PublishedTables, first: bool) -> None:
        if first:
            self.misfits += published.misfits or 0
            if self.split and self.above:
                self._show(view)
        attack = Attack(view).run()
        found = Findings(attack, ranges=number in self.ranges)
        if number in self.ranges:
            self.ranges[number] = found.ranges
        self.by_area[number] = {node: found.counts[node] for node in self.own}
        self.found[number] = found.small or 0, found.disclosed, found.exact
        if first and len(self.worst) < self.explanations:  # explained from what is published about this area alone
            told_apart = published if published.lattice.base == self.base else view
            self.worst += explain(told_apart, found.worst, self.explanations - len(self.worst))
        for block in attack.blocks([1]) if self.shared else ():
            for node in block.own:
                if node in self.shared:
                    sides = [side[node] for kind in block.kinds for side in (kind.low, kind.high)]
                    self.ends[number][node] = tuple(_narrow(side) for side in sides)

    def _count_small(self, number: int, part: FinestTable) -> None:
        design, K = part.design, part.design.threshold
        base = self.base
        counts: dict[Node, Sequence[int]] = {}
        for selection, sums in part.sums([table_of(design, node) for node in dict.fromkeys([*self.own, base])]):
            parts = sums.parts
            small = (parts.sum_large == 0) & (parts.sum_small > 0) & (parts.sum_small < K)
            counts[node_of(design, selection)] = int(small.sum()), 0, 0
        self.found[number] = counts[base][0], 0, 0
        self.by_area[number] = {node: counts[node] for node in self.own}

    def _whole(self) -> _Whole:
        """The tables of the whole, from the sums of all areas."""
        codes, tables = self.areas.codes, {}
        for node in self.above:
            sums = self._sums.pop(node)
            tables[node], unlike = published_rows(codes, self.policy, self.cells, node, sums)
            self.misfits += unlike if self.policy.scheme != "sums" else 0
        whole = _Whole(codes, self.policy, self.cells, tables, self.split)
        whole.parts = self._parts
        return whole

    def _shared(self, whole: _Whole) -> Attack:
        """Attack the tables of the whole with what is known of each area."""
        for node in self.shared:
            sides = zip(*(ends[node] for ends in self.ends), strict=True)
            whole.ends[node] = tuple(np.concatenate(side, axis=-1) for side in sides)
        return Attack(whole).run()

    def _tell_areas(self, attack: Attack) -> list[dict[Node, Ends]]:
        """The bounds from the whole for each area, where they are tighter than its own."""
        found: list[dict[Node, Ends]] = [{} for _ in self.ends]
        for block in attack.blocks([1]):
            for node in (one for one in block.own if one[0]):
                sides = [side[node] for kind in block.kinds for side in (kind.low, kind.high)]
                for place, number in enumerate(range(*block.rows[1])):
                    now = tuple(_narrow(side[..., place : place + 1]) for side in sides)
                    if any((a != b).any() for a, b in zip(now, self.ends[number][node], strict=True)):
                        found[number][node] = now
        # Each area is attacked from the beginning, so it gets all bounds again.
        for number, told in enumerate(found):
            if told:
                found[number] = {**self.ends[number], **told}
        return found

    def _count(self, whole: _Whole, attack: Attack | None) -> None:
        """Count the small and the proven cells in the tables of the whole."""
        K = whole.K
        if attack is None:
            for node in self.above:
                truth = whole.tables[node].truth
                assert truth is not None  # noqa: S101 - made from a store
                small = (truth.sum_large == 0) & (truth.sum_small > 0) & (truth.sum_small < K)
                self.counts[node] = [int(small.sum()), 0, 0]
            return
        for part in attack.parts():
            for node in (one for one in part.own if not one[0]):
                self.counts[node] = list(counted(whole, part, node, whole.tables[node], part.proven(node, K)))

    def report(self, seconds: float) -> AuditReport:
        """The report on all areas and the whole together."""
        nothing: IntArray = np.zeros(0, np.int64)
        empty = PublishedRows(nothing, nothing, truth=Truth(nothing, nothing, nothing, nothing))
        about = PublishedTables(
            self.areas.codes, self.policy, self.cells, dict.fromkeys(self.nodes, empty), misfits=self.misfits
        )
        for one in self.by_area:
            for node, numbers in one.items():
                self.counts[node] = [a + b for a, b in zip(self.counts[node], numbers, strict=True)]
        small, disclosed, exact = (sum(column) for column in zip(*self.found, strict=True))
        certificate = self.policy.scheme == "sums" or self.misfits == 0
        certified = small if certificate else 0
        left = small - disclosed - certified
        seen = not about.lattice.baseless  # otherwise nobody knows how many finest cells are small
        why = {NOT_LOOKED: left} if left else {}
        if self.left and left:
            why = {f"{NOT_LOOKED}, and {self.left} areas could still be tightened by the tables of the whole": left}
        return AuditReport(
            published=about,
            tables=in_tables(about, self.counts, {n: of[0] for n, of in self.counts.items()} if certificate else None),
            cells_small=small if seen else None,
            cells_disclosed=disclosed,
            cells_exact=exact,
            cells_certified=certified if seen else None,
            cells_undecided=left if seen else None,
            certificate=certificate,
            misfits=self.misfits,
            ranges=pl.concat([Findings.no_ranges(about), *(one for one in self.ranges.values() if one is not None)]),
            worst=self.worst,
            seconds=seconds,
            why=why,
        )


def _narrow(side: Array) -> Array:
    """A copy in four bytes where the values fit, because the bounds of all areas stay in memory."""
    return side.astype(np.int64 if side.size and int(np.abs(side).max()) >= 2**31 else np.int32)


def _added(codes: CodeLists, selection: Selection, parts: Sequence[Sums]) -> Sums:
    """The sums of a table of the whole, from the sums of all areas."""
    if any(len(one.packed) > 1 for one in parts):
        raise InputError(f"the table {selection.name!r} has more than 2^63 possible cells: audit fewer keys.")
    packed, place = np.unique(np.concatenate([one.packed[0] for one in parts]), return_inverse=True)

    def add(columns: Iterator[IntArray]) -> IntArray:
        total = np.zeros(len(packed), np.int64)
        np.add.at(total, place.reshape(-1), np.concatenate(list(columns)))
        return total

    summed = Parts(*(add(one.parts[i] for one in parts) for i in range(4)))
    return Sums(codes.cell_index(selection), [packed], summed, add(one.observed for one in parts))
