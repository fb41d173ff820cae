"""The attack on several releases together: each release bounds counts, and all bounds hold at once.

Methods, thresholds and readings may differ, so this attack bounds whole counts. Each end of each bound is kept with the
release that it came from. A release may also bound counts through the number of its occupied cells (iLBA, observed
reading). Its own attack works this out. It gets the bounds of the others and returns its own, until no bound moves.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.bounds import Attack, Block, Bounds, Event
from ilba.attack.explanations import EXACT, LARGEST, LONG, Bound, Explanation, Proof
from ilba.attack.lattice import Array, Edge, Node, collapse
from ilba.attack.refinement import JointLattice, Placed
from ilba.errors import InputError, listing, some
from ilba.methods.method import FAR
from ilba.progress import Progress, ProgressStep, silent

IntArray: TypeAlias = npt.NDArray[np.int64]

MOST_CELLS = 60_000_000
"""the most cells, over all tables, that are attacked; more would not fit into the memory of a small machine"""


class Statement(NamedTuple):
    """What one release says by itself about the counts of one table."""

    release: int
    table: Node
    """the table by its name in the release; two tables may have the same cells"""
    value: Array
    low: Array
    high: Array
    large: Array
    """the part of the value that is known to lie in cells above K"""


class Implied(NamedTuple):
    """What the tables of one release say together about cells that it does not show."""

    release: int
    low: Array
    high: Array


@dataclass
class Inner:
    """The own attack of a release whose number of occupied cells matters."""

    release: int
    attack: Attack
    large: dict[Node, Array]


class JointAttack:
    """Several releases, attacked together."""

    def __init__(self, placed: Sequence[Placed], *, record: bool = True) -> None:
        self.placed = list(placed)
        shown = [node for one in placed for node in one.nodes.values()]
        unshown = [node for one in placed for node in one.unshown.values()]
        for nodes in ([*shown, *unshown], shown):  # more is proven with cells that are not published, if they fit
            self.lattice = lattice = JointLattice(placed[0].dimensions, nodes)
            total = sum(lattice.cells(node) for node in lattice.nodes)
            if total <= MOST_CELLS:
                break
        if total > MOST_CELLS:
            raise InputError(
                f"the releases distinguish {total:,} cells, more than a joint audit can follow ({MOST_CELLS:,}). Audit "
                f"releases with fewer keys together."
            )
        self.said: dict[Node, list[Statement]] = defaultdict(list)
        self.implied: dict[Node, list[Implied]] = defaultdict(list)
        self.inner: list[Inner] = []
        self.heard: set[int] = set()
        """how far counts may have changed since each other wave whose bounds were applied"""
        for number, one in enumerate(placed):
            self._hear(number, one)
        self.repeats = self._repeats()
        """releases that are sums of the masked counts of another one and say nothing more; and that other one"""
        for node, said in self.said.items():
            self.said[node] = [one for one in said if one.release not in self.repeats]
        for node, implied in self.implied.items():
            self.implied[node] = [one for one in implied if one.release not in self.repeats]
        self.block = Block(lattice, {}, lattice.nodes, lattice.edges)
        self.block.kinds = [self._start()]
        if record and total <= LARGEST:
            self.block.events = []
            start = self.block.kinds[0]
            self.block.start = [Bounds(*({n: a.copy() for n, a in side.items()} for side in (start.low, start.high)))]

    def _hear(self, number: int, one: Placed) -> None:
        """Store what a release says."""
        published, large_of = one.published, {}
        for level in published.lattice.levels:
            areas = published.codes.lists[0].size(level)
            for node, known in published.knowledge(level, 0, areas).items():
                if one.unshown.get(node) in self.lattice.nodes:
                    ends = (one.to_common(node, side, self.lattice) for side in (known.low, known.high))
                    self.implied[one.unshown[node]].append(Implied(number, *ends))
                if node not in one.nodes:
                    continue
                rows = published.tables[node]
                dense = published.dense(node, 0, areas, rows.value)
                large = np.zeros_like(dense) if known.large is None else known.large
                large_of[node] = large
                parts = (dense, known.low + large, known.high + large, large)
                said = Statement(number, node, *(one.to_common(node, part, self.lattice) for part in parts))
                if int(said.value.sum()) != int(rows.value.sum()):
                    raise InputError(
                        f"{one.source.name} shows counts for a combination of labels that no code list holds. Give a "
                        f"store that holds it: stores= (--store)."
                    )
                self.said[one.nodes[node]].append(said)
        if published.counted and one.straight:
            self.inner.append(Inner(number, Attack(published, budget=sys.maxsize), large_of))

    def _repeats(self) -> dict[int, int]:
        """The releases that only repeat the masked counts of another one: each table is a sum of its finest table.

        A coarser release may be published as sums of finer masks; its manifest says so. Its counts above K are then not
        exact. It adds nothing to the finer release, so it can always be left out.
        """
        sums = [number for number, one in enumerate(self.placed) if one.source.sums]
        found = dict.fromkeys(sums, -1)
        finest = {
            number: self._finest(number)
            for number, one in enumerate(self.placed)
            if one.published.policy.scheme == "sums" and one.published.split
        }
        for number, one in enumerate(self.placed):
            if one.published.policy.scheme != "sums" or number in found:
                continue
            for other, (base, value) in finest.items():
                if other in found or other == number or self.placed[other].published.K != one.published.K:
                    continue
                same = number in finest and finest[number][0] == base
                if not (same and other > number) and self._is_sum(number, base, value):
                    found[number] = other
                    break
        kept = [number for number in range(len(self.placed)) if number not in found]
        if not kept:
            raise InputError(
                "these releases hold sums of the published counts of a finer table, and tell nothing more than those. "
                "Audit them together with the finer release."
            )
        found |= dict.fromkeys(sums, kept[0])
        for number in found:
            while found[number] in found:
                found[number] = found[found[number]]
        return found

    def _finest(self, number: int) -> tuple[Node, Array]:
        """The finest table of a release, and its published counts."""
        one = self.placed[number]
        table = one.published.lattice.base
        node = one.nodes[table]
        return node, next(said.value for said in self.said[node] if (said.release, said.table) == (number, table))

    def _is_sum(self, number: int, base: Node, value: Array) -> bool:
        """Whether every table of a release is a sum of these counts."""
        lattice = self.lattice
        for node in set(self.placed[number].nodes.values()):
            if not lattice.finer(base, node):
                return False
            summed = collapse(value, lattice.steps(Edge(node, base), {}), np.int64)
            if not all((summed == said.value).all() for said in self.said[node] if said.release == number):
                return False
        return True

    def _start(self) -> Bounds:
        bounds = Bounds()
        # Every table counts everybody once, so no count is above the sum of its highs. Sums of this fit into 64 bits.
        far = min(FAR, 2**62 // self.lattice.cells(self.lattice.base))
        sums = (said.high.sum(dtype=np.float64) for every in self.said.values() for said in every)
        largest = int(min(far, *sums))
        for node in self.lattice.nodes:
            shape = self.lattice.full_shape(node)
            low, high = np.zeros(shape, np.int64), np.full(shape, largest, np.int64)
            for said in (*self.said.get(node, ()), *self.implied.get(node, ())):
                low, high = np.maximum(low, said.low), np.minimum(high, said.high)
            bounds.low[node], bounds.high[node] = low, high
        return bounds

    def check(self, truth: Array) -> None:
        """Raise an error if the counts of a store are not those of the releases."""
        for node in self.lattice.nodes:
            true = self.summed(truth, node)
            for said in (*self.said.get(node, ()), *self.implied.get(node, ())):
                if (true < said.low).any() or (true > said.high).any():
                    raise InputError(
                        f"the counts of the store are not those of {self.placed[said.release].source.name}: it counts "
                        f"other people, other times or labels of another meaning, or it was published as sums of a "
                        f"finer table. Give its own store; a release of sums is audited together with the finer one."
                    )

    def summed(self, base: Array, node: Node) -> Array:
        """Counts of the base, summed for another table."""
        return collapse(base, self.lattice.steps(Edge(node, self.lattice.base), {}), np.int64)

    def run(self, progress: Progress | None = None, moved: set[Node] | None = None) -> JointAttack:
        """Propagate until no bound moves; a repeated run starts from the tables that moved since."""
        tell, done = progress or silent, 0
        self._contradict()
        while moved is None or moved:
            self.block.close(0, moved)
            self._contradict()
            moved = set()
            for inner in self.inner:
                moved |= self._within(inner)
            done += 1
            tell(ProgressStep("attacking", done, done + bool(moved)))
        return self

    def hear(self, other: JointAttack, changed: int) -> set[Node]:
        """Apply the bounds of another wave, widened by `changed`; return the tables that moved."""
        moved = set()
        for node in set(self.lattice.nodes) & set(other.lattice.nodes):
            known = other.block.kinds[0]
            if self.block.narrow(node, known.low[node] - changed, known.high[node] + changed):
                moved.add(node)
        if moved:
            self.heard.add(changed)
        return moved

    def apart(self, other: JointAttack, mine: Array, theirs: Array) -> int:
        """The largest difference between the counts of two bases, in any table of both attacks."""
        nodes = set(self.lattice.nodes) & set(other.lattice.nodes)
        return max((int(np.abs(self.summed(mine, n) - other.summed(theirs, n)).max()) for n in nodes), default=0)

    def _within(self, inner: Inner) -> set[Node]:
        """Run the own attack of a release with the bounds of all, and apply its result."""
        one, bounds, own = self.placed[inner.release], self.block.kinds[0], inner.attack.whole
        for node, common in one.nodes.items():
            large = inner.large[node]
            own.narrow(
                node,
                one.from_common(node, bounds.low[common]) - large,
                one.from_common(node, bounds.high[common]) - large,
            )
        own.close(one.published.K)
        moved = set()
        for node, common in one.nodes.items():
            large, known = inner.large[node], own.kinds[0]
            low, high = (
                one.to_common(node, side[node].astype(np.int64) + large, self.lattice)
                for side in (known.low, known.high)
            )
            if self.block.narrow(common, low, high):
                moved.add(common)
        self._contradict(own)
        return moved

    def _contradict(self, block: Block | None = None) -> None:
        if (block or self.block).contradicts():
            names = listing(one.source.name for one in self.placed) if len(self.placed) > 1 else "the releases"
            raise InputError(
                f"{names} contradict each other: no counts give all of them. They count different people or times, "
                f"or equal labels have different meanings. Releases of two waves are audited together with "
                f"unchanged=True (--unchanged) only where nothing changed, and with changed=N (--changed N) only where "
                f"no count changed by more than N."
            )

    @property
    def exact(self) -> bool:
        """Whether the bounds are complete: nobody can know more, so a cell that is not disclosed is safe.

        This holds if all releases are sums of masked counts, each shows its finest table, and of any two finest tables
        one is a sum of the other. Then each mask bounds one cell alone, these cells are nested, and every count between
        the ends is possible.
        """
        finest = []
        for number, one in enumerate(self.placed):
            if number in self.repeats:
                continue
            if one.published.policy.scheme != "sums" or not one.published.split:
                return False
            finest.append(one.nodes[one.published.lattice.base])
        nested = all(self.lattice.finer(a, b) or self.lattice.finer(b, a) for a in finest for b in finest)
        return nested and self.lattice.base in finest

    @property
    def is_one_of_sums(self) -> bool:
        """Whether this is one release of sums: its masked finest table, shown or not, is a possible truth."""
        return len(self.placed) == 1 and self.placed[0].published.policy.scheme == "sums"

    @property
    def world(self) -> Array | None:
        """A masked finest table that, taken as the truth, leads to every release; None if there is none."""
        K = max(one.published.K for one in self.placed)
        for number, one in enumerate(self.placed):
            if (
                number not in self.repeats
                and one.published.K == K
                and one.published.split
                and one.nodes[one.published.lattice.base] == self.lattice.base
                and all(self._follows_from(number, other) for other in range(len(self.placed)))
            ):
                return self._finest(number)[1]
        return None

    def _follows_from(self, world: int, number: int) -> bool:
        """Whether a release would be the same if the masked finest table of release `world` were the truth."""
        if number in self.repeats:
            return True
        one, (base, value) = self.placed[number].published, self._finest(world)
        if one.policy.scheme == "sums":
            return self._is_sum(number, base, value)
        # iLBA counts the small cells of its own finest table, so that table has to be the world itself.
        if not one.split or one.K != self.placed[world].published.K:
            return False
        node, own = self._finest(number)
        if node != base or not (own == value).all():
            return False
        levels = [(level, one.codes.lists[0].size(level)) for level in one.lattice.levels]
        return not sum(k.misfits for level, areas in levels for k in one.knowledge(level, 0, areas).values())


class JointProof(Proof):
    """The steps of a joint attack; each published number is shown with the name of its release."""

    _few = 8

    def __init__(self, attack: JointAttack) -> None:
        self.joint = attack
        self.block = attack.block
        self._events = defaultdict(list)
        for event in self.block.events or ():
            self._events[event.kind, event.node, event.is_high].append(event)

    def name(self, node: Node, place: int) -> str:
        """A cell in words."""
        return self.joint.lattice.name(node, place)

    def _exact(self, exact: list[str]) -> str:
        number = Counter(text.partition(": ")[0] for text in exact)
        where = ", ".join(f"{some(many, 'cell')} in {name}" for name, many in number.items())
        return f"{len(exact)} other cells are published above K, so they are exact: {where}."

    def _given(self, bound: Bound) -> str:
        """What is published about a cell, by which release, and what this means by itself."""
        node, place = bound.node, bound.place
        name, start = self.name(node, place), self.block.start[0]
        wanted = int((start.high if bound.is_high else start.low)[node].reshape(-1)[place])
        for said in self.joint.said.get(node, ()):
            value, low, high, large = (int(part.reshape(-1)[place]) for part in said[2:])
            if (high if bound.is_high else low) != wanted:
                continue
            one = self.joint.placed[said.release]
            if value > one.published.K and low == high:
                return f"{one.source.name}: {name}: {value} published{EXACT}"
            part = f", {large} of it in cells above K={one.published.K};" if 0 < large < value else ""
            return f"{one.source.name}: {name}: {value} published{part} means {low}..{high}."
        for implied in self.joint.implied.get(node, ()):
            low, high = (int(side.reshape(-1)[place]) for side in (implied.low, implied.high))
            if (high if bound.is_high else low) == wanted:
                source = self.joint.placed[implied.release].source.name
                return f"{source}: {name} is not published; the masks of its other tables mean {low}..{high}."
        return f"{name} is not published."

    def _rests_on(self, bound: Bound, event: Event) -> Iterator[Bound]:
        return iter(()) if event.edge is None else super()._rests_on(bound, event)

    def _follows(self, bound: Bound, value: int, event: Event, rests: list[Bound]) -> str:
        if event.edge is not None:
            return super()._follows(bound, value, event, rests)
        end, names = "at most" if bound.is_high else "at least", []
        if self.joint.heard and not self.joint.inner:
            return (
                f"{self.name(bound.node, bound.place)}: {end} {value}, because another wave shows it and no count "
                f"changed by more than {max(self.joint.heard)}."
            )
        for inner in self.joint.inner:
            if bound.node in self.joint.placed[inner.release].nodes.values():
                names.append(self.joint.placed[inner.release].source.name)
        return (
            f"{' or '.join(names)}: {self.name(bound.node, bound.place)}: {end} {value}, by the number of cells that "
            f"can be occupied there."
        )


def explain_jointly(
    attack: JointAttack, places: IntArray, low: IntArray, high: IntArray, most: int
) -> list[Explanation]:
    """Explain the first disclosed cells; cells with short derivations take the place of those with long ones."""
    if attack.block.events is None or not most:
        return []
    proof, base = JointProof(attack), attack.lattice.base
    short: list[Explanation] = []
    long: list[Explanation] = []
    for place, lowest, highest in zip(places[: 4 * most].tolist(), low.tolist(), high.tolist(), strict=False):
        why = proof.sentences(base, place)
        found = Explanation(proof.name(base, place), lowest, highest, why)
        (short if len(why) <= LONG else long).append(found)
        if len(short) == most:
            break
    return [*short, *long][:most]
