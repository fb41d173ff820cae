"""How likely each count is to an attacker who reads the tables of any method by its public description.

A method tells how likely each count is to be published as a given number (`Method.chance`) or left blank. The prior of
a finest cell is that of `posterior`, fitted to the coarse tables. The cell's own number is the first evidence. Then
each aggregate sends each of its cells a message: what its number leaves for the cell, given the current beliefs about
the others. Sums of many cells are treated as normal. Messages count half, because tables overlap. An insider needs no
messages: all other counts are known, so each number depends on the one unknown count alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack import posterior
from ilba.attack.attackers import NEEDS_TRUTH, Insight, Known
from ilba.attack.field import MethodTables
from ilba.attack.intervals import at
from ilba.attack.lattice import Node, table_of
from ilba.attack.published import PublishedRows
from ilba.errors import InputError
from ilba.methods.method import FAR
from ilba.progress import Progress, ProgressStep, silent

IntArray: TypeAlias = npt.NDArray[np.int64]
FloatArray: TypeAlias = npt.NDArray[np.float64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

ROUNDS = 8
WIDEST = 801
"""the most counts per cell that are distinguished; noise that spreads wider is not measured"""
WORK = 1_500_000
"""the most counts over all cells; for a larger design a sample of areas is used"""
_FITTED = (
    "What outsider, neighbour and insider believe is not measured: the numbers are fitted to each other, so no "
    "single one gives probabilities, and there is no formula for all of them together."
)
_SPREAD = (
    "What outsider, neighbour and insider believe is not measured: the noise spreads so far that too many counts may "
    "stand behind a number."
)
_DAMPING = 0.5
_ESTIMATES = 60  # rounds of the estimation of the shares of counts
_LEAST = 1e-300


class Read(NamedTuple):
    """The cells of one table that contain some finest cells, and what is published about them."""

    place: IntArray
    """for each finest cell the number of its cell here"""
    value: IntArray
    blank: BoolArray
    size: IntArray
    true: IntArray


class Guesses(NamedTuple):
    """Beliefs about some finest cells."""

    packed: IntArray
    counts: IntArray
    """the truth"""
    chance: FloatArray
    """columns 0..K-1, and a last column for K and more"""
    heavy: FloatArray
    """the mean count where it is K or more"""


def measured(published: MethodTables) -> MethodTables:
    """The tables from which probabilities are computed: all, or those that add up from the finest published one.

    If the common refinement of the tables is not published, the published table with most small cells takes its place.
    Then only tables that are sums of it are used. An attacker who uses all tables is at least as strong. Proofs use
    all tables.
    """
    base, tables = published.lattice.base, published.tables
    if base in tables:
        return published

    def below(node: Node, other: Node) -> bool:
        return all(level <= finer for level, finer in zip(node, other, strict=True))

    def small(rows: PublishedRows) -> int:
        if rows.truth is None:
            return len(rows.value)
        true = rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large
        return int(((true > 0) & (true < published.K)).sum())

    finest = [node for node in tables if not any(node != other and below(node, other) for other in tables)]
    top = max(finest, key=lambda node: small(tables[node]))
    chosen = {node: rows for node, rows in tables.items() if below(node, top)}
    return MethodTables(published.codes, published.method, chosen, published.shown, tables[top], published.number)


def read(view: MethodTables, packed: IntArray, node: Node) -> Read:
    """What is published about the cells of a table that contain some finest cells."""
    codes = view.codes
    index = codes.cell_index(table_of(codes.design, view.lattice.base))
    target = codes.cell_index(table_of(codes.design, node))
    above = index.project([packed], target, codes.lists)[0] if target.places else np.zeros_like(packed)
    cells, place = np.unique(above, return_inverse=True)
    rows, shown = view.tables[node], view.shown[node]
    value = at(rows.packed, rows.value, cells)
    if len(shown.places):
        order = np.argsort(shown.places)
        value = value + at(shown.places[order], shown.invented[order], cells)
    blank = np.zeros(len(cells), dtype=bool)
    if view.method.absent_blank:
        told = np.ones(len(rows.packed), dtype=np.int64) if shown.blank is None else 1 - shown.blank
        blank = at(rows.packed, told, cells) == 0
    elif shown.blank is not None:
        blank = at(rows.packed, shown.blank.astype(np.int64), cells) > 0
    true = np.zeros(len(cells), dtype=np.int64)
    if rows.truth is not None:
        true = at(rows.packed, rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large, cells)
    is_known = target.places and not codes.unlisted
    size = codes.grid(target, [cells], most=2**40) if is_known else np.full(len(cells), 2**40)
    return Read(place.reshape(-1), np.where(blank, 0, value), blank, size, true)


def proven_by_insider(view: MethodTables) -> Insight:
    """What an insider who lacks one small finest cell proves about it, from all tables.

    All other counts are known, so each number of a table depends on the one unknown count alone.
    """
    method, base = view.method, view.base
    if base is None or base.truth is None:
        raise InputError(NEEDS_TRUTH)
    counts = base.truth.sum_small.astype(np.int64) + base.truth.sum_large
    small = (counts > 0) & (counts < view.K)
    packed, counts = base.packed[small], counts[small]
    low, high = np.zeros(len(packed), np.int64), np.full(len(packed), FAR)
    seen = []
    for node in view.tables:
        one = read(view, packed, node)
        least, most = method.preimage(one.value, one.size)
        ends = method.blank_range(view.K)
        least, most = (np.where(one.blank, end, known) for end, known in zip(ends, (least, most), strict=True))
        beside = one.true[one.place] - counts
        low, high = np.maximum(low, least[one.place] - beside), np.minimum(high, most[one.place] - beside)
        seen.append((one, beside))
    # A number may also exclude counts between its ends.
    near = np.flatnonzero(high - low <= 2 * _reach(view))
    grid = low[near][:, None] + np.arange((high - low)[near].max(initial=0) + 1)
    possible = grid <= high[near][:, None]
    for one, beside in seen:
        place = one.place[near]
        value, size = (np.broadcast_to(part[place][:, None], grid.shape) for part in (one.value, one.size))
        said = method.chance(value, beside[near][:, None] + grid, size, view.number)
        if said is not None:
            possible &= one.blank[place][:, None] | (said > 0)
    low[near] = grid[:, 0] + possible.argmax(axis=1)
    high[near] = grid[:, -1] - possible[:, ::-1].argmax(axis=1)
    return Insight(packed, counts, low, high)


@dataclass
class Guessing:
    """Attackers who bet on what the tables of a method hide. Confidential: it holds the truth for comparison."""

    published: MethodTables
    known: Known | None
    """the proven bounds; None where numbers prove nothing"""
    areas: IntArray
    """the areas that are measured"""

    def __post_init__(self) -> None:
        view, base = self.published, self.published.lattice.base
        width = view.lattice.width(base)
        if self.known is None:
            packed = (self.areas[:, None] * width + np.arange(width)).ravel()
            low, high = np.zeros(len(packed), np.int64), np.full(len(packed), FAR)
        else:
            inside = np.isin(self.known.packed // width, self.areas)
            packed, low, high = self.known.packed[inside], self.known.low[inside], self.known.high[inside]
        self.packed: IntArray = packed
        self.own: FloatArray | None = None
        self.why_not = _SPREAD
        """why beliefs are not measured, where they are not"""
        if 2 * _reach(view) + 1 > WIDEST:
            return
        own = self._read(base)
        start, end = self._window(own, low, high)
        self.start = start
        self.wide = int(min(max((end - start).max(initial=0) + 1, view.K + 1), WIDEST))
        self.possible: BoolArray = (self.grid >= low[:, None]) & (self.grid <= high[:, None])
        self.own = self._chances(own)
        self.why_not = _FITTED

    @staticmethod
    def cells_to_follow(published: MethodTables) -> int:
        """The number of finest cells to measure, chosen so that every method takes the same work."""
        return WORK // (2 * _reach(published) + 1)

    @cached_property
    def grid(self) -> IntArray:
        """The counts that are distinguished, cell by cell."""
        return self.start[:, None] + np.arange(self.wide)

    def _read(self, node: Node) -> Read:
        """What is published about the cells of a table that contain the finest cells."""
        return read(self.published, self.packed, node)

    def _window(self, own: Read, low: IntArray, high: IntArray) -> tuple[IntArray, IntArray]:
        """The smallest and the largest count of each cell that are distinguished."""
        view, reach = self.published, _reach(self.published)
        value, blank = own.value[own.place], own.blank[own.place]
        first, last = np.maximum(value - reach, 0), value + reach
        first, last = np.where(blank, 0, first), np.where(blank, 6 * view.K, last)
        start = np.maximum(first, low)
        return start, np.maximum(np.minimum(last, high), start)

    def _log_chance(self, read: Read, count: IntArray) -> FloatArray | None:
        """The log-likelihood of the published number for each count; a row of counts for each finest cell."""
        method, K = self.published.method, self.published.K
        value, size = (np.broadcast_to(p[read.place][:, None], count.shape) for p in (read.value, read.size))
        said = method.chance(value, count, size, self.tables)
        if said is None:
            return None
        blank = read.blank[read.place]
        if blank.any():
            hidden = method.blank_chance(count, K)
            told = np.isfinite(hidden)
            open_ended = not told.all()
            share = self._further if open_ended else 1.0
            hidden = np.where(told, np.nan_to_num(hidden), share)
            said = np.where(blank[:, None], hidden, said * (1 - hidden) if open_ended else said)
        return np.log(np.maximum(said, _LEAST))

    @cached_property
    def _further(self) -> float:
        """How often a count is blank without need, estimated from the number of blanks beyond the necessary ones."""
        base = self.published.lattice.base
        rows, shown = self.published.tables[base], self.published.shown[base]
        if shown.blank is None or not len(rows.value):
            return 0.0
        blanks, seen = int(shown.blank.sum()), int((~shown.blank & (rows.value > 0)).sum())
        # A first guess is enough: the blanks that the prior does not explain by small counts are further ones.
        expected = np.exp(self.fitted.log(self.packed, self.published.K))
        least = self.published.method.blank_chance(np.arange(self.published.K + 1), self.published.K)
        sure = float((expected * np.nan_to_num(least)).sum()) * self._scale
        further = max(blanks - sure, 0.05 * blanks)
        return float(np.clip(further / max(further + seen, 1), 1e-3, 0.99))

    @property
    def _scale(self) -> float:
        return self.published.codes.lists[0].size(self.published.lattice.base[0]) / max(len(self.areas), 1)

    @property
    def tables(self) -> int:
        """The number of tables that are published together."""
        return self.published.number

    @cached_property
    def fitted(self) -> posterior.Prior:
        """The prior from the coarse tables; its spread maximises the likelihood of the published numbers."""
        view = self.published
        expected = posterior.expected_counts(view, self.areas, self._middles)
        width = view.lattice.width(view.lattice.base)
        found = posterior.Prior(self.areas, width, expected, 1.0)
        some = np.linspace(0, len(self.packed) - 1, min(len(self.packed), 20_000)).astype(np.int64)
        some = np.unique(some)
        if not len(some) or self.own_plain is None:
            return found
        grid, own = self.grid[some], self.own_plain[some]
        mean = found.means(self.packed[some])

        def score(spread: float) -> float:
            log = posterior.negative_binomial(mean, spread, grid) + own
            top = log.max(axis=1)
            return float((top + np.log(np.exp(log - top[:, None]).sum(axis=1))).sum())

        return found._replace(spread=float(max(np.geomspace(0.3, 100, 14), key=lambda r: score(float(r)))))

    @cached_property
    def own_plain(self) -> FloatArray | None:
        """The likelihood of each cell's own number, without blanks; it fits the spread of the prior."""
        read = self._read(self.published.lattice.base)
        plain = read._replace(blank=np.zeros_like(read.blank))
        found = self._log_chance(plain, self.grid)
        return None if found is None else np.where(read.blank[read.place][:, None], 0.0, found)

    def _middles(self, node: Node, shown: npt.NDArray[np.int64]) -> FloatArray:
        """The mean counts behind the numbers of a whole table."""
        view = self.published
        told = view.shown[node]
        areas = view.codes.lists[0].size(node[0])
        value = np.asarray(shown)
        if len(told.places):
            width = view.lattice.width(node)
            cells = np.zeros((width, areas), dtype=np.int64)
            cells[told.places % width, told.places // width] = told.invented
            value = value + cells.reshape(value.shape)
        blank = np.zeros(value.shape, dtype=bool)
        if told.blank is not None:
            seen = (~told.blank if view.method.absent_blank else told.blank).astype(np.int64)
            blank = (view.dense(node, 0, areas, seen) > 0) ^ view.method.absent_blank
        return self._on_average(value, blank)

    def _on_average(self, value: IntArray, blank: BoolArray) -> FloatArray:
        """The mean count behind each number. The frequency of each count is estimated from the numbers of the table.

        In a sparse table, a 0 nearly always stands for 0. In a rounded sparse table, a 5 stands for less than 5 on
        average. Larger numbers are taken as they are.
        """
        method, K, reach = self.published.method, self.published.K, _reach(self.published)
        most = min(4 * reach, WIDEST)
        numbers, counts = np.arange(most + 1), np.arange(most + reach + 1)
        grid = np.broadcast_to(counts, (most + 1, len(counts)))
        ones = np.ones_like(grid)
        said = method.chance(np.broadcast_to(numbers[:, None], grid.shape), grid, ones, self.tables)
        near = (value <= most) & ~blank
        if said is None:
            return np.where(blank, K / 2, value.astype(np.float64))
        hidden = np.nan_to_num(method.blank_chance(counts, K), nan=0.3)
        likely = np.vstack([said, hidden[None, :]])
        often = np.append(np.bincount(value[near], minlength=most + 1), blank.sum()).astype(np.float64)
        share = np.full(len(counts), 1 / len(counts))
        for _ in range(_ESTIMATES):
            share = share * ((often / np.maximum(likely @ share, _LEAST)) @ likely)
            share = np.maximum(share / max(share.sum(), _LEAST), 1e-12)
        each = likely * share
        mean = each @ counts / np.maximum(each.sum(axis=1), _LEAST)
        trusted = numbers[: max(most - reach, 1)]
        middle = value.astype(np.float64)
        inside = near & (value <= trusted[-1])
        middle[inside] = mean[value[inside]]
        return np.where(blank, mean[-1], middle)

    def _chances(self, own: Read) -> FloatArray | None:
        found = self._log_chance(own, self.grid)
        if found is None:
            return None
        return np.where(self.possible, found, -np.inf)

    def _prior(self) -> FloatArray:
        return posterior.negative_binomial(self.fitted.means(self.packed), self.fitted.spread, self.grid)

    def _informed(self) -> FloatArray:
        """The prior of an insider, who knows how far true counts lie from those that coarse tables suggest."""
        mean, counts = self.fitted.means(self.packed), self.counts
        tried = [(more, float(r)) for more in (0.0, 1e-3, 1e-2, 5e-2) for r in np.geomspace(0.1, 100, 16)]

        def score(one: tuple[float, float]) -> float:
            return float(posterior.negative_binomial(mean + one[0], one[1], counts[:, None]).sum())

        more, spread = max(tried, key=score)
        return posterior.negative_binomial(mean + more, spread, self.grid)

    def _messengers(self) -> list[Node]:
        """The tables that send messages: those of the finest areas, and the others if all areas are measured."""
        view, base = self.published, self.published.lattice.base
        everywhere = view.codes.lists[0].size(base[0]) == len(self.areas)
        return [node for node in view.tables if node != base and (everywhere or node[0] == base[0])]

    def outsider(self, progress: Progress | None = None, rounds: int = ROUNDS) -> Guesses | None:
        """The beliefs of an attacker who has all tables; None where the method states no chances."""
        if self.own is None:
            return None
        tell = progress or silent
        total = self._prior() + self.own
        heard = [one for one in map(self._sums, self._messengers()) if one is not None]
        told = [np.zeros((2, len(self.packed))) for _ in heard]
        grid = self.grid.astype(np.float64)
        for done in range(1, rounds + 1):
            for number, (place, middle, spread) in enumerate(heard):
                message = told[number]
                rest = total - _parabola(grid, message)
                mean, variance = _moments(rest, grid)
                size = len(middle)
                of_mean = np.bincount(place, mean, minlength=size)
                of_variance = np.bincount(place, variance, minlength=size)
                centre = (middle - of_mean)[place] + mean
                wide = np.maximum(spread[place] + of_variance[place] - variance, 0.05)
                precise = posterior.POWER / wide
                new = np.vstack([precise, precise * centre])
                told[number] = _DAMPING * message + (1 - _DAMPING) * new
                total = rest + _parabola(grid, told[number])
            tell(ProgressStep("believing", done, rounds))
        return self._guesses(total)

    def _sums(self, node: Node) -> tuple[IntArray, FloatArray, FloatArray] | None:
        """The mean and the variance of the sum behind each number, for the cells of a table that contain finest cells.

        A blank says next to nothing, so its variance is infinite.
        """
        read = self._read(node)
        method, reach = self.published.method, _reach(self.published)
        count = np.maximum(read.value[:, None] + np.arange(-reach, reach + 1), 0)
        size = np.broadcast_to(read.size[:, None], count.shape)
        said = method.chance(np.broadcast_to(read.value[:, None], count.shape), count, size, self.tables)
        if said is None:
            return None
        # A count that appears twice because the window is cut off at 0 counts once.
        said = np.where(np.diff(count, axis=1, prepend=-1) > 0, said, 0.0)
        whole = np.maximum(said.sum(axis=1), _LEAST)
        mean = (said * count).sum(axis=1) / whole
        variance = (said * (count - mean[:, None]) ** 2).sum(axis=1) / whole
        # A count at the edge of the window may also be larger.
        open_ended = (said[:, -1] > 0.2 * said.max(axis=1)) | read.blank
        return read.place, mean, np.where(open_ended, 1e12, variance)

    def insider(self) -> Guesses | None:
        """The beliefs of an insider about each cell, with all others known."""
        if self.own is None:
            return None
        total = self._informed() + self.own
        counts = self.counts
        possible = self.possible.copy()
        errors: list[IntArray] = []
        for node in self.published.tables:
            if node == self.published.lattice.base:
                continue
            read = self._read(node)
            beside = (read.true[read.place] - counts)[:, None]
            said = self._log_chance(read, beside + self.grid)
            if said is None:
                return None
            total = total + said
            possible &= said > np.log(_LEAST)
            errors.append(read.value[read.place] - read.true[read.place])
        if self.published.method.additive and errors:
            total = total - self._unlikely(np.where(possible, total, -np.inf), errors)
        return self._guesses(np.where(possible, total, -np.inf))

    def _unlikely(self, log: FloatArray, errors: list[IntArray]) -> FloatArray:
        """The log-probability that each count loses by larger errors of sums, if the method keeps sums near the truth.

        An insider estimates from the known cells how near: each table is weighted by the size of its errors, and one
        common scale is fitted to the known counts by maximum likelihood.
        """
        moved = (self.counts[:, None] - self.grid).astype(np.float64)
        cost = np.zeros(moved.shape)
        for error in errors:
            cost += (error[:, None] + moved) ** 2 / max(float((error.astype(np.float64) ** 2).mean()), 0.25)
        cost -= cost.min(axis=1, keepdims=True)
        place = np.clip(self.counts - self.start, 0, self.wide - 1)
        rows = np.arange(len(place))

        def score(scale: float) -> float:
            chance = posterior.normalised(log - cost / (2 * scale))[rows, place]
            return float(np.log(np.maximum(chance, 1e-12)).sum())

        return np.asarray(cost / (2 * max(np.geomspace(0.5, 3000, 16).tolist(), key=score)))

    @cached_property
    def counts(self) -> IntArray:
        """The truth."""
        read = self._read(self.published.lattice.base)
        return read.true[read.place]

    def _guesses(self, log: FloatArray) -> Guesses:
        K = self.published.K
        left: BoolArray = np.any(np.isfinite(log), axis=1, keepdims=True)
        p = posterior.normalised(np.where(left, log, 0.0))
        chance = np.zeros((len(p), K + 1))
        mean = np.zeros(len(p))
        for place in range(self.wide):
            count = self.start + place
            small = np.flatnonzero(count < K)
            chance[small, count[small]] += p[small, place]
            mean += np.where(count >= K, count * p[:, place], 0.0)
        chance[:, K] = np.maximum(1 - chance[:, :K].sum(axis=1), 0)
        heavy = np.maximum(mean / np.maximum(chance[:, K], 1e-12), K)
        return Guesses(self.packed, self.counts, chance, heavy)


def _reach(published: MethodTables) -> int:
    """How far the counts behind a number can lie from it."""
    method, K = published.method, published.K
    if not method.bounded:
        far = np.full(4 * WIDEST, 4 * WIDEST)
        said = method.chance(far, far - np.arange(4 * WIDEST), np.ones_like(far), published.number)
        if said is None:
            return K
        return max(int(np.flatnonzero(said > 1e-6 * said.max()).max()), K)
    tried = np.array([0, 1, K, 10 * K, 100 * K, 1000 * K])
    low, high = method.preimage(tried, np.ones_like(tried))
    near = np.concatenate([tried - low, high - tried])
    return int(min(max(near[near < FAR // 2].max(initial=1), 2), WIDEST // 2))


def _parabola(grid: FloatArray, message: FloatArray) -> FloatArray:
    """A normal message as log-chances; the message is its precision, and its precision times its mean."""
    return np.asarray(grid * (message[1][:, None] - 0.5 * message[0][:, None] * grid))


def _moments(log: FloatArray, grid: FloatArray) -> tuple[FloatArray, FloatArray]:
    p = posterior.normalised(log)
    mean = (p * grid).sum(axis=1)
    return mean, np.maximum((p * grid**2).sum(axis=1) - mean**2, 0.0)
