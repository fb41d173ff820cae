"""Explanations: how an attacker proves that a cell is small, in sentences that can be checked by hand.

The attack runs again on a small part of the release and records its steps. The explanation holds the steps on which the
result rests. Each step rests on earlier ones, down to published numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack, Block, Event
from ilba.attack.field import MethodTables
from ilba.attack.intervals import FAR
from ilba.attack.lattice import Edge, Node, Region
from ilba.attack.published import CellBounds, PublishedTables
from ilba.errors import some

IntArray: TypeAlias = npt.NDArray[np.int64]

LARGEST = 4_000_000
"""a part of a release with up to this many cells in all tables is attacked again for an explanation"""
_LARGER = 400_000
"""the same limit where a shorter proof of a wider range exists"""
EXACT = " is above K, so it is exact."
LONG = 40
"""an explanation with more sentences gives way to a shorter proof of a wider range"""


class Bound(NamedTuple):
    """One bound of one cell: of its small-cell sum (kind 0) or of its number of occupied cells (kind 1)."""

    kind: int
    node: Node
    is_high: bool
    place: int


class Proof:
    """The steps of a recorded attack, which tell why a bound holds."""

    _few = 1
    """up to this many sentences on cells above K are given one by one"""

    def __init__(self, attack: Attack) -> None:
        self.published = attack.published
        self.block: Block = attack.whole
        self._recurring = {column for listed in self.published.codes.lists for column in listed.recurring()}
        self._known: dict[int, dict[Node, CellBounds]] = {}
        self._events: dict[tuple[int, Node, bool], list[Event]] = defaultdict(list)
        for event in self.block.events or ():
            self._events[event.kind, event.node, event.is_high].append(event)

    def _last(self, bound: Bound, before: int) -> tuple[Event | None, int]:
        """The last step that set a bound before a given step, and its value; None for a published value."""
        for event in reversed(self._events[bound[:3]]):
            if event.step < before:
                at = np.flatnonzero(event.place == bound.place)
                if len(at):
                    return event, int(event.value[at[-1]])
        start = self.block.start[bound.kind]
        side = start.high if bound.is_high else start.low
        return None, int(side[bound.node].reshape(-1)[bound.place])

    def sentences(self, node: Node, place: int) -> list[str]:
        """Why the cell lies in its range: first what is published, then what follows from it."""
        said: dict[tuple[Bound, int], None] = {}
        lines: dict[str, None] = {}
        published: dict[str, None] = {}
        never = self.block.events[-1].step + 1 if self.block.events else 1

        def say(bound: Bound, before: int) -> None:
            event, value = self._last(bound, before)
            key = (bound, value)
            if key in said:
                return
            said[key] = None
            if event is None:
                published[self._given(bound)] = None
                return
            rests = list(self._rests_on(bound, event))
            for other in rests:
                say(other, event.step)
            lines[self._follows(bound, value, event, rests)] = None

        say(Bound(0, node, False, place), never)
        say(Bound(0, node, True, place), never)
        low, high = (self._last(Bound(0, node, end, place), never)[1] for end in (False, True))
        total = f"is exactly {low}" if low == high else f"lies in {low}..{high}"
        exact = [text for text in published if text.endswith(EXACT)]
        if len(exact) > self._few:  # all alike: these cells add nothing to sums of small cells
            published = dict.fromkeys(text for text in published if text not in exact)
            published[self._exact(exact)] = None
        return [*published, *lines, f"So {self.name(node, place)} {total}."]

    def _exact(self, exact: list[str]) -> str:
        return f"{len(exact)} other cells are published above K={self.published.K}, so they are exact and not small."

    def _rests_on(self, bound: Bound, event: Event) -> Iterator[Bound]:
        """The bounds from which a step followed, without those that add nothing."""
        if event.edge is None:
            if bound.kind == 0:
                yield bound._replace(kind=1, is_high=False)
                if bound.is_high:
                    yield bound._replace(kind=1)
            else:
                yield bound._replace(kind=0)
                if bound.is_high and bound.node in self.block.listed:
                    yield bound._replace(kind=0, is_high=False)
            return
        edge = event.edge
        if bound.node == edge.parent:
            for child in self._children(edge, bound.place):
                yield Bound(bound.kind, edge.child, bound.is_high, child)
            return
        parent = self._parent(edge, bound.place)
        yield Bound(bound.kind, edge.parent, bound.is_high, parent)
        for child in self._children(edge, parent):
            if child != bound.place:
                other = Bound(bound.kind, edge.child, not bound.is_high, child)
                # "At least 0" for another part adds nothing. "At most 0" has to be known.
                if not bound.is_high or self._last(other, event.step)[1] > 0:
                    yield other

    def _children(self, edge: Edge, parent: int) -> list[int]:
        """The places of the children of one parent."""
        shape = self.block.kinds[0].low[edge.child].shape
        where: list[IntArray] = [
            np.array([i]) for i in np.unravel_index(parent, self.block.kinds[0].low[edge.parent].shape)
        ]
        for axis, starts, spread, _ in self.block.steps(edge):
            if starts is None or spread is None:
                where[axis] = np.arange(shape[axis])
            else:
                where[axis] = np.flatnonzero(spread == where[axis][0])
        return [int(i) for i in np.ravel_multi_index(np.ix_(*where), shape).reshape(-1)]

    def _parent(self, edge: Edge, child: int) -> int:
        shape = self.block.kinds[0].low[edge.parent].shape
        where = [int(i) for i in np.unravel_index(child, self.block.kinds[0].low[edge.child].shape)]
        for axis, _, spread, _ in self.block.steps(edge):
            where[axis] = 0 if spread is None else int(spread[where[axis]])
        return int(np.ravel_multi_index(where, shape))

    def name(self, node: Node, place: int) -> str:
        """A cell in words: its area and its keys."""
        published = self.published
        shape = (*published.lattice.shape(node), self.block.rows[node[0]][1] - self.block.rows[node[0]][0])
        *keys, area = (int(i) for i in np.unravel_index(place, shape))
        nodes = [area + self.block.rows[node[0]][0], *keys]
        words = []
        for listed, level, number in zip(published.codes.lists, node, nodes, strict=True):
            if level:
                row = int(listed.starts[level][number])
                column = listed.columns[level - 1]
                # A code under several parents is identified only by its whole path.
                first = 0 if column in self._recurring else level - 1
                path = (listed.labels.item(row, step) for step in range(first, level))
                words.append(f"{column} {' > '.join('(missing)' if one is None else str(one) for one in path)}")
        return ", ".join(words) or "the total"

    def _given(self, bound: Bound) -> str:
        """What is published about a cell, and what this means by itself."""
        published, K = self.published, self.published.K
        node, place = bound.node, bound.place
        name = self.name(node, place)
        rows = published.tables.get(node)
        low, high = (int(side[node].reshape(-1)[place]) for side in (self.block.start[0].low, self.block.start[0].high))
        if rows is None:
            return f"{name} is not published."
        first, last = self.block.rows[node[0]]
        area, cell = place % (last - first) + first, place // (last - first)
        packed = area * published.lattice.width(node) + cell
        at = int(np.searchsorted(rows.packed, packed))
        there = at < len(rows.packed) and int(rows.packed[at]) == packed
        value = int(rows.value[at]) if there else 0
        if published.policy.listed and not there:
            return f"{name} is not listed: nobody is there."
        if isinstance(published, MethodTables) and published.is_blank(node, at if there else None):
            return f"{name}: a blank means {low} or more." if high >= FAR else f"{name}: a blank means {low}..{high}."
        if not published.split:
            return f"{name}: {value} published means {low}..{high}."
        if node == published.lattice.base:
            if value > K:
                return f"{name}: {value} published{EXACT}"
            return f"{name}: {value} published means {low}..{high}."
        large = self._large(node, place)
        flags = ""
        if rows.type1 is not None and rows.type2 is not None and there:
            flags = f" with type1={int(rows.type1[at])} and type2={int(rows.type2[at])}"
        text = f"{name}: {value} published{flags} means {low}..{high}"
        if large:
            text = f"{name}: {value} published{flags}, {large} of it in cells above K={K}; "
            text += f"{value - large} means {low}..{high}"
        if len(self.block.kinds) == 2:
            least, most = (
                int(side[node].reshape(-1)[place]) for side in (self.block.start[1].low, self.block.start[1].high)
            )
            text += f" in {some(least, 'occupied cell')}" if least == most else f" in {least}..{most} occupied cells"
        return text + "."

    def _large(self, node: Node, place: int) -> int:
        """The part of a count that lies in large cells, according to the finest table."""
        level = node[0]
        if level not in self._known:
            self._known[level] = self.published.knowledge(level, *self.block.rows[level])
        known = self._known[level][node].large
        return 0 if known is None else int(known.reshape(-1)[place])

    def _follows(self, bound: Bound, value: int, event: Event, rests: list[Bound]) -> str:
        """A step in words."""
        name, end = self.name(bound.node, bound.place), "at most" if bound.is_high else "at least"
        what = f"{value} occupied cell{'' if value == 1 else 's'}" if bound.kind else str(value)
        before = {other: self._last(other, event.step)[1] for other in rests}
        if event.edge is None:
            if bound.kind == 0:
                few, many = before[rests[0]], before[rests[-1]]
                if bound.node == self.published.lattice.base:
                    return f"{name}: {end} {what}, because {'somebody' if few else 'nobody'} is there."
                cells = f"{few}..{many} occupied cells" if bound.is_high else f"at least {some(few, 'occupied cell')}"
                return f"{name}: {end} {what}, because it has {cells}."
            return f"{name}: {end} {what}, because its small cells sum to {end} {before[rests[0]]}."
        if bound.node == event.edge.parent:
            return f"{name}: {end} {what}, the sum of its parts ({self._some(before)})."
        other_end = "at least" if bound.is_high else "at most"
        parent, *others = rests
        whole = f"{self.name(parent.node, parent.place)} is {end} {before[parent]}"
        if bound.kind:
            whole = f"{self.name(parent.node, parent.place)} has {end} {before[parent]} occupied"
        rest = {other: before[other] for other in others}
        if not sum(rest.values()):
            nothing = "0 or more" if bound.is_high else "0"
            return f"{name}: {end} {what}, because {whole} and its other parts are {nothing}."
        return f"{name}: {end} {what}, because {whole} and its other parts are {other_end} {self._some(rest)}."

    def _some(self, values: dict[Bound, int]) -> str:
        """A sum together with the cells it comes from."""
        terms = [f"{value} in {self.name(b.node, b.place)}" for b, value in values.items() if value]
        total = sum(values.values())
        if len(terms) == 1:
            return terms[0]
        shown = " + ".join(terms[:6]) + (f" + {len(terms) - 6} more" if len(terms) > 6 else "")
        return f"{total} = {shown}" if terms else "0"


class Explanation(NamedTuple):
    """A disclosed cell, what is proven about it, and why."""

    cell: str
    low: int
    high: int
    why: list[str]


def explain(
    published: PublishedTables, cells: Iterable[tuple[Node, int, int, int]], most: int = 10
) -> list[Explanation]:
    """Explain the first disclosed cells. Each is a table, a cell and the range that the whole attack proves.

    The part of the release that is attacked again grows from the cell's own area upwards, because a proof within one
    area is the easiest to follow. If the full range needs too many steps, a shorter proof of a wider range is given, as
    long as it shows that the cell is small. A cell without such a proof is skipped.
    """
    lattice = published.lattice
    proofs: dict[Region, Proof] = {}
    found: list[Explanation] = []
    for node, number, lowest, highest in cells:
        if len(found) == most or len(proofs) > 4 * most:
            break
        area, cell = divmod(number, lattice.width(node))
        best: Explanation | None = None
        for level in (level for level in reversed(lattice.levels) if level <= node[0]):
            region = Region(level, lattice.over(node[0], level, area, area + 1)[0])
            rows = region.rows(lattice)
            size = sum(lattice.width(n) * (rows[n[0]][1] - rows[n[0]][0]) for n in lattice.nodes if n[0] in rows)
            if size > (LARGEST if best is None and len(proofs) < most else _LARGER):
                break
            if region not in proofs:
                proofs[region] = Proof(Attack(published, region, record=True).run())
            proof = proofs[region]
            first, last = proof.block.rows[node[0]]
            place = cell * (last - first) + area - first
            lo, hi = (int(s[node].reshape(-1)[place]) for s in (proof.block.kinds[0].low, proof.block.kinds[0].high))
            if lo < 1 or hi >= published.K or (best is not None and (lo, hi) == (best.low, best.high)):
                continue
            why = proof.sentences(node, place)
            if best is None or len(why) <= LONG:
                best = Explanation(proof.name(node, place), lo, hi, why)
            if (lo, hi) == (lowest, highest):
                break
        if best is not None:
            found.append(best)
    return found
