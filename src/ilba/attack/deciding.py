"""Decide what the attack leaves open: counterexamples by mending, then an exact solver, block by block.

Blocks with most open cells come first, and the work ends when its time is over. What is still open then is undecided.
The report gives the number of these cells and the reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack
from ilba.attack.counterexamples import LOOKS, Conditions, Worlds
from ilba.attack.fewcells import (
    NOT_ASKED,
    NOT_KNOWN,
    Decided,
    Numbers,
    decide_everything,
    few,
    without_the_finest,
)
from ilba.attack.intervals import FAR, Intervals, at, open_cells
from ilba.attack.lattice import Node
from ilba.attack.published import PublishedTables
from ilba.attack.solver import BlockSums, Target, clock, leaving
from ilba.attack.unmasked import Open, open_parts, stated, true_counts
from ilba.errors import notice

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

MOST_OPEN = 15_000_000
"""the most open cells times tables in memory during a search for counterexamples"""
_PARTS = 4
"""the most parts of a large release that are searched"""
_BLOCK = 400
"""the number of open cells in one question to the solver"""
_LARGE = 800
"""the same when only a few cells are left"""
_PATIENCE = 5.0
"""seconds for one question; four times as many when only a few cells are left"""
_FIRST = 0.6
"""the share of the time for the search for other worlds, before proofs"""
_MENDING = 0.3
"""the share of the time for mending where the finest table is not released"""
_AROUND = (100, 300, 1000, 4000)
"""the number of cells around a single target that is still open at the end"""
_AGAIN = 4
"""how often open cells are mended and asked about again, from another world"""
_FEW_LEFT = 50
"""up to this many open cells, the solver is first asked whether they can leave 1..K-1 at all"""
_NOTHING: IntArray = np.zeros(0, np.int64)
MOST_SEARCHED = "the release is large: only {:,} of its {:,} areas were searched for counterexamples"


def decide(attack: Attack, seconds: float, proven: Numbers) -> Decided | None:
    """Look for counterexamples, then ask the solver about the rest for `seconds`.

    Parameters
    ----------
    attack : Attack
        An attack that has run.
    seconds : float
        How long to ask the solver; 0 skips it.
    proven : dict of table to array of int
        The cells that the attack proved small: finest cells, and cells of the other tables.

    Returns
    -------
    Decided or None
        What else is proven, what has a counterexample, and why the rest is open. None without the truth.
    """
    published = attack.published
    rows = published.base
    if rows is None or rows.truth is None:
        return None
    decided = Decided(_small(published, proven))
    if not seconds:
        decided.otherwise = NOT_ASKED
    if published.split:
        _with_the_finest(attack, decided, seconds)
    elif stated(published) and published.whole is not None:
        end = clock() + seconds
        parts = open_parts(published, open_cells(attack), _cells_at_once(published))
        for number, part in enumerate(parts):
            until = end - seconds * (1 - _MENDING * (number + 1) / len(parts)) if seconds else 0.0
            _mended(part(), decided, LOOKS // len(parts), until)
        if seconds and decided.open:
            ask = decide_everything if few(published) else without_the_finest
            ask(published, decided, end - clock())
    else:
        decided.otherwise = NOT_KNOWN
        if seconds:
            notice("solver_seconds (--solver-seconds) has no effect here: the solver works for iLBA only.")
    return decided


def _small(published: PublishedTables, proven: Numbers) -> dict[Node, IntArray]:
    """The small cells of each table that are not proven."""
    found = {}
    for node in published.looked_at:
        rows = published.base if node == published.lattice.base else published.tables[node]
        assert rows is not None  # noqa: S101 - asked before
        true = true_counts(rows)
        found[node] = np.setdiff1d(rows.packed[(true > 0) & (true < published.K)], proven.get(node, []))
    return found


def _cells_at_once(published: PublishedTables) -> int:
    return max(MOST_OPEN // max(len(published.tables), 1), 1)


def _mended(part: Open, decided: Decided, looks: int, until: float) -> None:
    """Find counterexamples without the finest table: cells first, then sums."""
    worlds = Worlds(part.conditions, part.counts, part.masks)
    places = {node: part.places(node, decided.left(node)) for node in decided.small}
    finest = [node for node in places if node not in part.nodes]
    for wanted, share in ((finest, 1), (part.nodes, 2)):
        targets = np.concatenate([places[node] for node in wanted if node in places] or [_NOTHING])
        worlds.search(targets[targets >= 0], looks // share, until)
    for node, place in places.items():
        seen = (place >= 0) & worlds.safe[place]
        decided.safe[node] |= set(decided.left(node)[seen].tolist())


def _with_the_finest(attack: Attack, decided: Decided, seconds: float) -> None:
    base = attack.lattice.base
    parts, searched = _searched(attack, decided)
    areas = attack.published.codes.lists[0].size(base[0])
    if searched < areas:
        decided.otherwise = MOST_SEARCHED.format(searched, areas)
    end = clock() + seconds
    for part in parts:
        _search(attack.published, decided, part, LOOKS // len(parts), end if seconds else 0.0, proofs=len(parts) == 1)


def _search(
    published: PublishedTables, decided: Decided, part: tuple[IntArray, ...], looks: int, end: float, proofs: bool
) -> None:
    """Search counterexamples for some open cells, then ask the solver until `end`; proofs need all open cells."""
    rows, base = published.base, published.lattice.base
    assert rows is not None and rows.truth is not None  # noqa: S101, PT018 - asked before
    packed, low, high = part
    true = np.where(rows.truth.sum_large > 0, 0, rows.truth.sum_small)
    outside = (true > 0) & ~np.isin(rows.packed, packed)  # these cells keep their true counts
    settled = true[outside].astype(np.int64)
    cells = np.concatenate([packed, rows.packed[outside]])
    order = np.argsort(cells)
    lows, highs = np.concatenate([low, settled]), np.concatenate([high, settled])
    known = Intervals.of(published, (cells[order], lows[order], highs[order]))
    own = at(rows.packed, true, packed)
    worlds = Worlds(Conditions.of(known), own, known.at_k.astype(np.int64))
    targets = np.isin(known.packed, decided.left(base))
    sums = _sums(known, decided)
    worlds.search(np.flatnonzero(targets), looks)
    worlds.search(len(own) + np.flatnonzero(sums), looks // 2)
    _note(decided.safe, base, known, worlds.safe & np.concatenate([targets, sums]))
    if not end or not decided.open:
        return
    if few(published) and stated(published):
        decide_everything(published, decided, end - clock())
        return
    asked = Asked(known, worlds.counts, targets & ~worlds.safe[: len(own)], sums & ~worlds.safe[len(own) :], end)
    asked.ask(proofs)
    for _ in range(_AGAIN):
        if not asked.over:
            asked.walk_on(worlds.conditions)
            asked.look_around(proofs)
    for into, which in (
        (decided.safe, asked.safe), (decided.proven, asked.proven),
        (decided.tried, asked.tried), (decided.late, asked.late),
    ):  # fmt: skip
        _note(into, base, known, which)


def _searched(attack: Attack, decided: Decided) -> tuple[list[tuple[IntArray, ...]], int]:
    """The open cells in parts that fit into memory, with low and high, and the number of areas that are all in them.

    Areas with most small cells come first. A part holds whole areas, if they fit.
    """
    lattice, size = attack.lattice, _cells_at_once(attack.published)
    base = lattice.base
    small = np.bincount(
        decided.left(base) // lattice.width(base), minlength=attack.published.codes.lists[0].size(base[0])
    )
    found: list[tuple[IntArray, ...]] = []
    number = cells = 0
    for area in np.argsort(-small, kind="stable").tolist():
        if cells >= _PARTS * size:
            break
        packed, low, high = open_cells(attack, [area])
        is_open = low < high
        found.append((packed[is_open], low[is_open], high[is_open]))
        cells, number = cells + int(is_open.sum()), number + 1
    together = [np.concatenate(column)[: _PARTS * size] for column in zip(*found, strict=True)]
    parts = []
    for first in range(0, len(together[0]), size):
        part = [column[first : first + size] for column in together]
        order = np.argsort(part[0])
        parts.append(tuple(column[order] for column in part))
    return parts, number - (cells > _PARTS * size)


def _sums(known: Intervals, decided: Decided) -> BoolArray:
    """Which sums are small and open."""
    found: BoolArray = np.zeros(len(known.least), dtype=bool)
    for number, node in enumerate(known.tables):
        if node in decided.small:
            inside = slice(int(known.first[number]), int(known.first[number + 1]))
            found[inside] = np.isin(known.cell[inside], decided.left(node))
    return found & (known.beside >= 0)


def _note(into: dict[Node, set[int]], base: Node, known: Intervals, which: BoolArray) -> None:
    """Record what was found out about cells, followed by sums."""
    cells, sums = which[: len(known.packed)], which[len(known.packed) :]
    into[base] |= set(known.packed[cells].tolist())
    for number, node in enumerate(known.tables):
        if node in into:
            inside = slice(int(known.first[number]), int(known.first[number + 1]))
            into[node] |= set(known.cell[inside][sums[inside]].tolist())


class Asked:
    """Blocks of open cells, and the solver's answers about them and about small sums over them."""

    def __init__(self, known: Intervals, world: IntArray, cells: BoolArray, sums: BoolArray, end: float) -> None:
        self.known, self.world, self.end = known, world.copy(), end
        self.n = len(world)
        self.targets: BoolArray = np.concatenate([cells, sums])
        """the cells, followed by the sums, that are open"""
        self.safe, self.proven, self.tried, self.late = (np.zeros(len(self.targets), dtype=bool) for _ in range(4))
        self._patience = _PATIENCE
        self._members = [np.argsort(known.member[:, table], kind="stable") for table in range(known.member.shape[1])]
        self._size = np.bincount(known.member.reshape(-1), minlength=len(known.least))
        self._kept: dict[str, tuple[IntArray, IntArray]] = {}

    @property
    def left(self) -> BoolArray:
        """The cells, followed by the sums, that are still open."""
        return self.targets & ~self.safe & ~self.proven

    def ask(self, proofs: bool) -> None:
        """Look for worlds in which cells leave, then for proofs, then for worlds in which aggregates leave as well."""
        start = clock()
        few_left = int(self.left[: self.n].sum()) <= _FEW_LEFT
        tables = self._tables(_LARGE if few_left else _BLOCK)
        self._patience = _PATIENCE * (4 if few_left else 1)
        if not tables:
            return
        if few_left:
            if proofs:
                self.prove(self.blocks(tables[0]), self.end)
        else:  # cells alone are easier to move, and each world found speaks about the aggregates, too
            until = start + (self.end - start) * _FIRST if proofs else self.end
            for table in tables:
                self.certify(self.blocks(table), until, aggregates=False)
            if proofs:
                self.prove(self.blocks(tables[0]), self.end)
        for table in tables:
            self.certify(self.blocks(table), self.end)
        self.look_around(proofs)

    def look_around(self, proofs: bool) -> None:
        """Ask about each open target together with the cells around it."""
        for size in _AROUND:
            if not self.over:
                self.certify(self.around(size), self.end)
            if proofs and not self.over:
                self.prove(self.around(size), self.end)

    def walk_on(self, conditions: Conditions) -> None:
        """Mend again, from the last world that was reached."""
        worlds = Worlds(conditions, self.world, self.known.at_k.astype(np.int64))
        worlds.search(np.flatnonzero(self.left), LOOKS // 5)
        self.safe |= worlds.safe & self.targets
        self.world = worlds.counts

    @property
    def over(self) -> bool:
        """Whether the time is over or nothing is open."""
        return clock() >= self.end or not self.left.any()

    def _tables(self, largest: int) -> list[int]:
        """The tables whose aggregates make blocks: tables with the largest blocks that fit come first."""
        known = self.known
        sizes = [
            int(np.bincount(known.member[:, table] - known.first[table]).max(initial=0))
            for table in range(known.member.shape[1])
        ]
        fitting = sorted((size, table) for table, size in enumerate(sizes) if 1 < size <= largest)
        return [table for _, table in reversed(fitting)]

    def blocks(self, table: int) -> list[IntArray]:
        """The open cells of each aggregate of a table, the aggregates with most open targets first."""
        order = self._members[table]
        own = self.known.member[order, table]
        found = np.split(order, np.flatnonzero(np.diff(own)) + 1)
        return sorted(found, key=lambda block: -int(self.left[block].sum()))

    def _sums(self, block: IntArray, low: IntArray, high: IntArray) -> tuple[IntArray, BlockSums]:
        """The sums that touch a block, and the room they leave to it when the outside lies in low..high."""
        known = self.known
        member = known.member[block]
        used, place = np.unique(member.astype(np.int64), return_inverse=True)
        place = place.reshape(-1)
        order = np.argsort(place, kind="stable")
        cells = np.split(order // max(member.shape[1], 1), np.cumsum(np.bincount(place))[:-1])
        own = [
            np.bincount(place, np.repeat(values[block], member.shape[1]), minlength=len(used)).astype(np.int64)
            for values in (low, high)
        ]
        rest_low, rest_high = self._total("low", low)[used] - own[0], self._total("high", high)[used] - own[1]
        return used, BlockSums(cells, known.least[used] - rest_high, known.most[used] - rest_low)

    def _total(self, name: str, counts: IntArray) -> IntArray:
        """Sums of counts over every aggregate, kept while the counts are the same."""
        if name not in self._kept or self._kept[name][0] is not counts:
            self._kept[name] = counts, self.known.sums(counts)
        return self._kept[name][1]

    def _wanted(self, block: IntArray, used: IntArray, sums: BlockSums, aggregates: bool = True) -> list[Target]:
        """The open targets of a block: its cells, and the sums whose open cells all lie in it."""
        left = self.left
        found = [Target([int(i)], 0, int(block[i])) for i in np.flatnonzero(left[block])]
        for a, cells in zip(used.tolist(), sums.cells, strict=True) if aggregates else ():
            if left[self.n + a] and len(cells) == self._size[a]:
                found.append(Target([int(i) for i in cells], int(self.known.beside[a]), self.n + a))
        return found

    def prove(self, blocks: Iterable[IntArray], end: float) -> None:
        """Ask for proofs: only proven bounds hold outside the block, so "no solution" is a proof."""
        known, K = self.known, self.known.K
        for block in blocks:
            used, sums = self._sums(block, known.low, known.high)
            left = self._wanted(block, used, sums)
            while left:
                seconds = end - clock()
                if seconds <= 0:
                    return
                said, values = leaving(K, known.low[block], known.high[block], sums, left, min(seconds, self._patience))
                if said == "none":
                    self.proven[[one.number for one in left]] = True
                    break
                if said == "time":
                    self.late[[one.number for one in left]] = True
                    break
                staying = _small_in(left, values, K)
                if len(staying) == len(left):
                    break
                left = staying

    def certify(self, blocks: Iterable[IntArray], end: float, aggregates: bool = True) -> None:
        """Ask for other worlds: the outside is fixed as in a world that fits, so every solution is another world."""
        for block in blocks:
            while self._leave(block, end, aggregates):
                pass
            if clock() >= end:
                return

    def _leave(self, block: IntArray, end: float, aggregates: bool) -> bool:
        """Look for a world in which a target of the block is not small; return whether to ask again."""
        known, K = self.known, self.known.K
        used, sums = self._sums(block, self.world, self.world)
        targets, seconds = self._wanted(block, used, sums, aggregates), end - clock()
        if not targets or seconds <= 0:
            return False
        said, values = leaving(
            K, known.low[block], known.high[block], sums, targets, min(seconds, self._patience), self.world[block]
        )
        asked = [one.number for one in targets]
        if said != "found":
            (self.late if said == "time" else self.tried)[asked] = True
            return False
        other = self.world.copy()
        other[block] = values
        if not known.fits(other):  # the program does not hold the number of occupied cells
            self.tried[asked] = True
            return False
        self.world = other
        before = self.safe.sum()
        counts = np.concatenate([other, self._total("low", other) + known.beside])
        self.safe |= self.targets & ((counts == 0) | (counts >= K))
        return bool(self.safe.sum() > before)

    def around(self, size: int) -> Iterator[IntArray]:
        """For each open target, the `size` cells that share most with it; small sums weigh more than large ones.

        The most suspicious targets come first: those to which the sums leave least room.
        """
        known = self.known
        weight = 1 / np.maximum(self._size, 1)
        room = known.most - known.least
        order = np.concatenate([np.minimum.reduce(room[known.member], axis=1, initial=FAR), room])
        for target in sorted(np.flatnonzero(self.left).tolist(), key=lambda target: int(order[target])):
            if not self.left[target]:  # it was decided together with another one
                continue
            own = known.member[[target]] if target < self.n else known.member[self._cells_of(target - self.n)]
            near = np.zeros(self.n)
            for table in range(known.member.shape[1]):
                shared = np.unique(own[:, table])
                column = known.member[:, table]
                near += np.where(np.isin(column, shared), weight[column], 0.0)
            yield np.sort(np.argsort(-near, kind="stable")[:size])

    def _cells_of(self, a: int) -> IntArray:
        """The open cells of a sum."""
        table = int(np.searchsorted(self.known.first, a, side="right")) - 1
        return np.flatnonzero(self.known.member[:, table] == a)


def _small_in(targets: list[Target], values: IntArray, K: int) -> list[Target]:
    """The targets that are small in a world."""
    return [one for one in targets if 0 < int(values[list(one.cells)].sum()) + one.beside < K]
