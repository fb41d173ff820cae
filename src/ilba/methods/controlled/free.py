"""A free inner table for one block: any table without small cells whose sums lie near the truth.

The proof in `docs/understand/controlled.md` needs two things: the result has no small cell, and a table without small
cells is returned unchanged. So a small cell may become 0, K or a little more, and a large one may move by up to `move`.
With `move` 0 these are masks of 0 or K, searched longer. The search anneals: cells change often at first, then ever
less. A cell may change alone, or together with a cell of one of its sums that changes the other way. Then sums over the
bound are mended, and the table is polished within the bound. Integers and keyed chances decide, as in `kernels`.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.errors import InputError, some
from ilba.methods.controlled.block import Before, Done, Ready, Told, log_odds, thresholds
from ilba.methods.controlled.kernels import BITS, compiled, mixed
from ilba.methods.controlled.noise import target_noise
from ilba.methods.controlled.search import Rules
from ilba.methods.controlled.sets import Sets, turned

IntArray: TypeAlias = npt.NDArray[np.int64]

# Tuned on a census of 200,000 people. The masks depend on each of these numbers.
_HEATS = Decimal("1.5"), Decimal("0.5")  # temperature at the beginning and at the end, per sum of a cell
_MOVE_HEATS = Decimal(2), Decimal("0.15")  # the same if large counts may move: a change by one costs little
_FINE = 5  # the weight of a count of the finest areas; one of coarser areas weighs 1
_UNIT = 256  # costs and fields are in units of 1/256
_PULL = 100  # growth of a field per sweep for a mean error of one, in parts of a unit
_LEAD = 2  # the same for the cells of one count: the heat divided by this
_PRICE = 8  # price of a squared error beyond the bound, per weight
_STRONGEST = 64 * _UNIT  # largest field
_MENDING = 400  # most passes over the sums over their caps, for each cap
_WINDOW = 40  # caps are lowered no further when so many passes do not mend a quarter of the sums over them,
_FEW = 8  # and more than so many are left
_DEARER = 40  # the least price while mending, and its growth when a sum stays over
_HEAVY = 64  # how often it grows
_NEAR = 8  # so many cells with much in common are kept for each cell
_LOOKS = 32  # of so many that are looked at
_SECOND = 3  # so many second cells are tried with each first one
_POLISH = 10  # for so many sweeps one more is made after mending,
_LEAST = 20  # at least so many
_EAGER = 3  # growth of the pull of a mean error in each sweep of polishing, in units of the heat
_HARD = 2**20  # price of a sum beyond its cap while polishing: no pull outweighs it
_ERROR, _LINE, _WEIGHT, _CAP, _DEAR, _SEEN = range(6)  # the state of a sum
_FAR = 2**45
_GOLD = np.uint64(0x9E3779B97F4A7C15)


def choose_values(ready: Ready, before: Before, rules: Rules, told: Told) -> Done:
    """Choose the masked counts of all cells of a block, small and large; values in `known` stay."""
    block, order, cells, area, names, sets = ready
    carried, known = ready.carried(before), cells.known
    far = np.concatenate(
        [np.zeros(0, bool), *(np.full(len(e), c.far) for e, c in zip(carried, block.carried, strict=True))]
    )
    search = _Search(sets, rules, area, cells.count, cells.drawn, cells.number, known)
    search.start(np.concatenate([np.zeros(0, np.int64), *carried]), far, before)
    search.solve(told)
    values = np.empty(len(order), dtype=np.int64)
    values[order] = search.t
    final = search.errors()
    added, at = [], sets.n_local
    for seen in sets.carried:
        end = at + len(seen)
        added.append((names[seen], final[at:end], sets.times[at:end]))
        at = end
    inside, own = np.abs(final[: sets.n_local]), np.abs(search.t - search.x)[sets.alone > 0]
    over = int(sets.times[: sets.n_local][inside > rules.bound].sum())
    return Done(
        up=(values > 0).astype(np.int8),
        errors=tuple(added),
        classes=search.classes(),
        over=over + int(sets.alone[np.abs(search.t - search.x) > rules.bound].sum()),
        reached=max(int(inside.max(initial=0)), int(own.max(initial=0))),
        kept=0 if known is None else int(((known >= 0) & (search.x < rules.K)).sum()),
        interrupted=search.interrupted,
        values=values,
    )


class _Search:
    """The masked counts of the cells of a block, and the steps that change them."""

    def __init__(
        self,
        sets: Sets,
        rules: Rules,
        area: IntArray,
        x: IntArray,
        drawn: npt.NDArray[np.bool_],
        number: npt.NDArray[np.uint64],
        known: IntArray | None,
    ) -> None:
        K, move = rules.K, rules.move
        if int(x.sum()) + len(x) * (K + move) >= 2**30:
            raise InputError(f"{some(len(x), 'cell')} of one area are too many to choose masks for jointly.")
        self.sets, self.rules, self.area, self.x, self.number = sets, rules, area, x, number
        small = x < K
        self.target = x
        """the target counts of the sums"""
        if rules.noise:
            self.target = x + target_noise(sets, small, number, rules.noise, thresholds())
        self.t = np.where(small, K * drawn, x)
        self.low = np.where(small, K, np.maximum(K, x - move)).astype(np.int32)
        self.top = np.where(small, K, x).astype(np.int32) + np.int32(move)
        self.zero = small | (x <= move)
        """which cells may be 0; other values lie in low..top"""
        self.free = small | (move > 0)
        if known is not None:
            self.t = np.where(known >= 0, known, self.t)
            self.free &= known < 0
        self.kind = np.minimum(x, K).astype(np.int16) - 1
        self.kind_size = np.bincount(self.kind, minlength=K).astype(np.int64)
        # The count of a single cell is also a sum; it comes after the others.
        self.ptr, self.of = _with_own(sets.ptr, sets.sets, sets.alone, sets.n_sets)
        self.first, self.cells = turned(self.ptr, self.of, sets.n_sets + int((sets.alone > 0).sum()))
        self.fine = _fine_sets(self.ptr, self.of, self.first, self.cells, area)
        self.heats = _MOVE_HEATS if move else _HEATS
        self.interrupted = False

    def start(self, carried: IntArray, far: npt.NDArray[np.bool_], before: Before) -> None:
        """Set the carried errors, and the target of each sum."""
        K, sets, bound = self.rules.K, self.sets, self.rules.bound
        own = sets.alone > 0
        own_times = sets.alone[own]
        inside = sets.n_local
        self.times = np.concatenate((sets.times, own_times)).astype(np.int64)
        true = _summed(self.ptr, self.of, self.x, len(self.times))
        beyond = slice(inside, sets.n_sets)
        true[beyond] = K  # unknown for a sum that reaches beyond the block
        self.kinds = np.minimum(true, K).astype(np.int16)
        self.counted = self.times.copy()
        self.counted[beyond] = 0
        self.base = np.zeros(len(self.times), dtype=np.int64)
        self.base[beyond] = carried
        self.line = np.where(true < K, _UNIT * (2 * true - K), 0)
        one_area = _one_area(self.first, self.cells, self.area)
        weight = self.times * np.where(one_area, _FINE, 1)
        cap = np.full(len(self.times), bound)
        cap[beyond][far] = 2 * bound
        self.state = np.zeros((len(self.times), 8), dtype=np.int32)
        self.state[:, _ERROR] = self.base + self._off(self.target)
        self.state[:, _WEIGHT] = weight
        self.state[:, _CAP] = cap
        self.state[:, _DEAR] = _PRICE * weight
        self.state[:, _SEEN] = -1
        self.near = _kindred(self.ptr, self.of, self.first, self.cells, self.fine, self.state, self.free, self.number)
        self.share = max(1, int(weight[self.of].sum()) // max(len(self.x), 1))
        self.field = np.zeros(K + 1, dtype=np.int64)
        self.pull = np.zeros(K, dtype=np.int64)
        self.kind_field = self.pull
        self.odds = np.array([*(log_odds(v, K) for v in range(1, K)), 0], dtype=np.int64)
        self.before: IntArray = np.append(before.classes, 0)

    def solve(self, told: Told) -> None:
        """Anneal, mend sums over the bound, polish within it. After an interruption the counts so far remain."""
        sweeps, (hot, cold) = self.rules.sweeps, self.heats
        try:
            for step in range(1, sweeps + 1):
                heat = hot * ((cold / hot).ln() * (step - 1) / max(sweeps - 1, 1)).exp()
                self._lead(self._heat(heat))
                _sweep(*(*self._arrays, step, self._heat(heat), False, self._class_errors()))
                told("sweep", self._over(), step, sweeps)
            for over in self._mend():
                told("mend", over, 0, None)
            self.state[:, _DEAR] = _HARD
            last = max(-(-sweeps // _POLISH), _LEAST)
            for step in range(1, last + 1):
                self._polish(step, self._heat(cold / 2))
                told("polish", self._over(), step, last)
        except KeyboardInterrupt:
            self.interrupted = True

    @property
    def _arrays(self) -> Any:
        return (
            self.ptr, self.of, self.first, self.cells, self.fine, self.near, self.state, self.t, self.low, self.top,
            self.zero, self.free, self.kind, self.kind_field, self.number, self.rules.K, thresholds(),
        )  # fmt: skip

    def _lead(self, heat: int) -> None:
        """Pull the mean error of the counts of each size to 0, and that of the cells of each size.

        A small cell is K with odds x : K-x, unless its sums pull it elsewhere.
        """
        sums, sizes = _by_kind(self.state, self.kinds, self.counted, self.rules.K)
        self.field += sums * _PULL // np.maximum(sizes, 1)
        self.field = np.clip(self.field, -_STRONGEST, _STRONGEST)
        self.field[0] = 0
        self.state[:, _LINE] = self.line + self.field[self.kinds]
        self.pull += heat * self._class_errors() // (_LEAD * np.maximum(self.kind_size, 1))
        self.pull = np.clip(self.pull, -self.share * _STRONGEST, self.share * _STRONGEST)
        self.drawn = heat * self.odds // self.rules.K >> BITS
        self.kind_field = self.pull - self.drawn

    def _mend(self) -> Iterator[int]:
        """Lower the caps one by one, from the largest error to the bound, as far as sums over them can be mended.

        The price of a sum that stays over grows. Counts that were changed for a cap out of reach are taken back.
        """
        h = mixed(self.number.sum(dtype=np.uint64))
        self.state[:, _DEAR] = np.maximum(self.state[:, _DEAR], _DEARER)
        bounds = self.state[:, _CAP].copy()
        ease = max(0, int((np.abs(self.state[:, _ERROR]) - bounds).max(initial=0)))
        while ease > 0:
            ease -= 1
            held, least = (self.t.copy(), self.state.copy()), len(bounds)
            self.state[:, _CAP] = bounds + ease
            for turn in range(_MENDING):
                over = self._over_caps()
                if not over:
                    break
                if turn % _WINDOW == 0:
                    if over > max(least * 3 // 4, _FEW):
                        break
                    least = over
                heat = self._heat(self.heats[1] / 2)
                self._pull_means(heat)
                h = _mend(*(*self._arrays, heat, np.uint64(h)))
                yield self._over()
            if self._over_caps() > _FEW:
                self.t, self.state = held
                return

    def _polish(self, step: int, heat: int) -> None:
        """Sweep within the caps; the mean error of the cells of each size may only fall, and is pulled ever more."""
        off = self._pull_means(_EAGER * step * heat)
        _sweep(*(*self._arrays, self.rules.sweeps + step, heat, True, off))

    def _pull_means(self, strength: int) -> IntArray:
        """Pull the cells of each size against their total error, which is returned, if a flip brings it nearer to 0."""
        off = self._class_errors()
        far = 2 * np.abs(off) > self.rules.K
        self.kind_field = self.pull - self.drawn + np.sign(off) * far * strength
        return off

    def _class_errors(self) -> IntArray:
        """The total error of the cells of each size, those of earlier blocks included."""
        off = np.bincount(self.kind, weights=self.t - self.x, minlength=self.rules.K)
        return off.astype(np.int64) + self.before

    def _over_caps(self) -> int:
        return int((np.abs(self.state[:, _ERROR]) > self.state[:, _CAP]).sum())

    def _over(self) -> int:
        return int((np.abs(self.state[:, _ERROR]) > self.rules.bound).sum())

    def _off(self, target: IntArray) -> IntArray:
        found: IntArray = _summed(self.ptr, self.of, self.t - target, len(self.times))
        return found

    def errors(self) -> IntArray:
        """What the block adds to the error of each sum, computed anew."""
        return self._off(self.x)[: self.sets.n_sets]

    def classes(self) -> IntArray:
        """The total error of the cells of each small count."""
        return (self._class_errors() - self.before)[:-1]

    def _heat(self, heat: Decimal) -> int:
        return int((heat * _UNIT * self.share).to_integral_value())


@compiled
def _with_own(ptr: Any, sets: Any, alone: Any, n_sets: int) -> Any:
    """The sums of each cell, with the cell's own count as one more sum."""
    n = len(alone)
    more = 0
    for j in range(n):
        more += alone[j] > 0
    begins = np.empty(n + 1, np.int64)
    out = np.empty(len(sets) + more, np.int32)
    at, own = 0, n_sets
    for j in range(n):
        begins[j] = at
        for i in range(ptr[j], ptr[j + 1]):
            out[at] = sets[i]
            at += 1
        if alone[j] > 0:
            out[at] = own
            own += 1
            at += 1
    begins[n] = at
    return begins, out


@compiled
def _fine_sets(ptr: Any, of: Any, first: Any, cells: Any, area: Any) -> Any:
    """The number of sums of each cell that lie inside one finest area and hold several cells."""
    fine = np.zeros(len(ptr) - 1, np.int32)
    for j in range(len(fine)):
        for i in range(ptr[j], ptr[j + 1]):
            a = of[i]
            if first[a + 1] - first[a] < 2 or area[cells[first[a]]] != area[cells[first[a + 1] - 1]]:
                break
            fine[j] += 1
    return fine


@compiled
def _kindred(ptr: Any, of: Any, first: Any, cells: Any, fine: Any, state: Any, free: Any, number: Any) -> Any:
    """For each cell a few others of its area that share the heaviest sums with it, of those that are looked at."""
    near = np.empty((len(fine), _NEAR), np.int32)
    shared = np.empty(_NEAR, np.int64)
    for j in range(len(fine)):
        near[j] = j
        if not free[j] or fine[j] == 0:
            continue
        shared[:] = -1
        for i in range(ptr[j], ptr[j + 1]):
            state[of[i], _SEEN] = j
        h = mixed(number[j] ^ _GOLD)
        for _ in range(_LOOKS):
            a = of[ptr[j]]
            for r in range(3):  # the smallest of three sums
                h = mixed(h + _GOLD)
                b = of[ptr[j] + np.int64((h >> np.uint64(8)) % np.uint64(fine[j]))]
                if r == 0 or first[b + 1] - first[b] < first[a + 1] - first[a]:
                    a = b
            c = cells[first[a] + np.int64((h >> np.uint64(20)) % np.uint64(first[a + 1] - first[a]))]
            if c == j or not free[c]:
                continue
            together, known = np.int64(0), False
            for r in range(_NEAR):
                known |= near[j, r] == c
            if known:
                continue
            for i in range(ptr[c], ptr[c + 1]):
                if state[of[i], _SEEN] == j:
                    together += state[of[i], _WEIGHT]
            least = np.argmin(shared)
            if together > shared[least]:
                shared[least], near[j, least] = together, c
    return near


@compiled
def _one_area(first: Any, cells: Any, area: Any) -> Any:
    """Whether all cells of a sum lie in one finest area; cells are in the order of areas."""
    found = np.zeros(len(first) - 1, np.bool_)
    for a in range(len(found)):
        found[a] = area[cells[first[a]]] == area[cells[first[a + 1] - 1]]
    return found


@compiled
def _summed(ptr: Any, of: Any, values: Any, n: int) -> Any:
    """The total of some values over the cells of each sum."""
    total = np.zeros(n, np.int64)
    for j in range(len(ptr) - 1):
        for i in range(ptr[j], ptr[j + 1]):
            total[of[i]] += values[j]
    return total


@compiled
def _by_kind(state: Any, kinds: Any, counted: Any, K: int) -> Any:
    """The total error of the counts of each true size 0..K, and their number."""
    sums, sizes = np.zeros(K + 1, np.int64), np.zeros(K + 1, np.int64)
    for a in range(len(state)):
        sums[kinds[a]] += counted[a] * np.int64(state[a, _ERROR])
        sizes[kinds[a]] += counted[a]
    return sums, sizes


@compiled
def _price(e: Any, d: Any, cap: Any) -> Any:
    before, after = max(abs(e) - cap, 0), max(abs(e + d) - cap, 0)
    return after * after - before * before


@compiled
def _cost(j: int, d: Any, ptr: Any, of: Any, state: Any) -> Any:
    """The cost of changing a cell by d.

    A true count of K or more costs its squared error. A true count of 1..K-1 that is shown as t costs t(t-K), so 0 and
    K cost the same. Both are quadratic in the error.
    """
    total = np.int64(0)
    for i in range(ptr[j], ptr[j + 1]):
        a = of[i]
        e, cap = np.int64(state[a, _ERROR]), np.int64(state[a, _CAP])
        one = d * (_UNIT * (2 * e + d) + np.int64(state[a, _LINE]))
        if abs(e) > cap or abs(e + d) > cap:
            total += _UNIT * np.int64(state[a, _DEAR]) * _price(e, d, cap)
        total += one * np.int64(state[a, _WEIGHT])
        state[a, _SEEN] = j
    return min(max(total, -_FAR), _FAR)


@compiled
def _beside(k: int, d: Any, j: int, ptr: Any, of: Any, state: Any) -> Any:
    """The cost of changing a second cell by d, after the cost of changing the first one, `j`, by -d.

    A sum with both cells stays the same, so its cost is taken back.
    """
    total = np.int64(0)
    for i in range(ptr[k], ptr[k + 1]):
        a = of[i]
        way = -d if state[a, _SEEN] == j else d
        e, cap = np.int64(state[a, _ERROR]), np.int64(state[a, _CAP])
        one = way * (_UNIT * (2 * e + way) + np.int64(state[a, _LINE])) * np.int64(state[a, _WEIGHT])
        if abs(e) > cap or abs(e + way) > cap:
            one += _UNIT * np.int64(state[a, _DEAR]) * _price(e, way, cap)
        total += one if way == d else -one
    return min(max(total, -_FAR), _FAR)


@compiled
def _change(j: int, d: Any, ptr: Any, of: Any, state: Any, t: Any) -> None:
    t[j] += d
    for i in range(ptr[j], ptr[j + 1]):
        state[of[i], _ERROR] += np.int32(d)


@compiled
def _fits(value: Any, j: int, low: Any, top: Any, zero: Any) -> Any:
    return (value == 0 and zero[j]) or (low[j] <= value <= top[j])


@compiled
def _proposed(j: int, h: Any, t: Any, low: Any, top: Any, zero: Any, K: Any) -> Any:
    """Propose a change of a cell to another allowed count; 0 if there is none."""
    a, lo = np.int64(t[j]), np.int64(low[j])
    u = np.int64(h & np.uint64(1023))
    if a == 0:
        d = lo
        if u >= 820 and top[j] > lo:
            d += 1 + np.int64((h >> np.uint64(10)) % np.uint64(min(3, top[j] - lo)))
        return d
    if a == lo and zero[j] and (u < 512 or top[j] == lo):
        return -a
    if a == lo or u < 410:
        d = np.int64(1)
    elif u < 820:
        d = np.int64(-1)
    elif zero[j] and a < 2 * K:
        d = -a
    else:
        d = np.int64(2) if u & 1 else np.int64(-2)
    return d if _fits(a + d, j, low, top, zero) else np.int64(0)


@compiled
def _sweep(
    ptr: Any, of: Any, first: Any, cells: Any, fine: Any, near: Any, state: Any, t: Any, low: Any, top: Any,
    zero: Any, free: Any, kind: Any, kind_field: Any, number: Any, K_: int, threshold: Any, step: int, heat: int,
    level: bool, off: Any,
) -> None:  # fmt: skip
    """Offer every free cell a change alone, and a change together with another cell of one of its sums.

    `off` is the total error of the cells of each count. With `level` no change may enlarge one of them.
    """
    K = np.int64(K_)
    for j in range(len(t)):
        if not free[j]:
            continue
        h = mixed(number[j] + np.uint64(2 * step) * _GOLD)
        d = _proposed(j, h, t, low, top, zero, K)
        v = kind[j]
        if d != 0 and not (level and abs(off[v] + d) >= abs(off[v])):
            cost = _cost(j, d, ptr, of, state) + d * kind_field[v]
            if cost << BITS <= threshold[np.int64(h >> np.uint64(52))] * heat:
                _change(j, d, ptr, of, state, t)
                off[v] += d
    for j in range(len(t)):
        if not free[j] or fine[j] == 0:
            continue
        h = mixed(number[j] + np.uint64(2 * step + 1) * _GOLD)
        d = _proposed(j, h, t, low, top, zero, K)
        if d == 0:
            continue
        cost = _cost(j, d, ptr, of, state) + d * kind_field[kind[j]]
        for _second in range(_SECOND):
            among = (h >> np.uint64(40)) & np.uint64(3) != 0
            k = -1
            for _ in range(6):
                h = mixed(h + _GOLD)
                if among:
                    c = near[j, np.int64((h >> np.uint64(8)) % np.uint64(_NEAR))]
                else:
                    a = of[ptr[j] + np.int64((h >> np.uint64(8)) % np.uint64(fine[j]))]
                    c = cells[first[a] + np.int64((h >> np.uint64(20)) % np.uint64(first[a + 1] - first[a]))]
                if c != j and free[c] and _fits(np.int64(t[c]) - d, c, low, top, zero):
                    v, w = kind[j], kind[c]
                    if level and v != w and (abs(off[v] + d) > abs(off[v]) or abs(off[w] - d) > abs(off[w])):
                        continue
                    k = c
                    break
            if k < 0:
                continue
            both = cost + _beside(k, -d, j, ptr, of, state) - d * kind_field[kind[k]]
            if both << BITS <= threshold[np.int64(h >> np.uint64(52))] * heat:
                _change(j, d, ptr, of, state, t)
                _change(k, -d, ptr, of, state, t)
                off[kind[j]] += d
                off[kind[k]] -= d
                break


@compiled
def _nearer(j: int, sign: Any, h: Any, t: Any, low: Any, top: Any, zero: Any, K: Any) -> Any:
    """A change of a cell in one direction: a small step, or a step between 0 and the next value; 0 if there is none."""
    a, lo = np.int64(t[j]), np.int64(low[j])
    if a == 0:
        return lo if sign > 0 else np.int64(0)
    if _fits(a + sign, j, low, top, zero) and (a > lo or sign > 0 or not zero[j]):
        return np.int64(sign)
    if sign < 0 and zero[j] and a <= top[j]:
        return -a
    return np.int64(0)


@compiled
def _mend(
    ptr: Any, of: Any, first: Any, cells: Any, fine: Any, near: Any, state: Any, t: Any, low: Any, top: Any,
    zero: Any, free: Any, kind: Any, kind_field: Any, number: Any, K_: int, threshold: Any, heat: int, h: Any,
) -> Any:  # fmt: skip
    """Change cells of sums over their caps towards the caps, and other cells the other way to balance."""
    K = np.int64(K_)
    for a in range(len(state)):
        size = np.uint64(first[a + 1] - first[a])
        for _ in range(min(12 * state[a, _DEAR] // _DEARER, 60)):
            e = np.int64(state[a, _ERROR])
            if abs(e) <= state[a, _CAP]:
                break
            sign = np.int64(-1) if e > 0 else np.int64(1)
            j, d, least = -1, np.int64(0), np.int64(_FAR)
            for _r in range(4):  # the cheapest of four
                h = mixed(h + _GOLD)
                c = cells[first[a] + np.int64((h >> np.uint64(20)) % size)]
                if not free[c]:
                    continue
                one = _nearer(c, sign, h, t, low, top, zero, K)
                if one == 0:
                    continue
                cost = (_cost(c, one, ptr, of, state) + one * kind_field[kind[c]]) // abs(one)
                if cost < least:
                    j, d, least = c, one, cost
            if j < 0:
                continue
            cost = least * abs(d)
            h = mixed(h + _GOLD)
            chance = threshold[np.int64(h >> np.uint64(52))]
            if cost << BITS <= chance * heat:
                _change(j, d, ptr, of, state, t)
                continue
            cost = _cost(j, d, ptr, of, state) + d * kind_field[kind[j]]  # the last one looked at
            for _q in range(24):
                h = mixed(h + _GOLD)
                b = of[ptr[j] + np.int64((h >> np.uint64(8)) % np.uint64(ptr[j + 1] - ptr[j]))]
                h = mixed(h + _GOLD)
                k = cells[first[b] + np.int64((h >> np.uint64(20)) % np.uint64(first[b + 1] - first[b]))]
                if b == a or k == j or not free[k] or not _fits(np.int64(t[k]) - d, k, low, top, zero):
                    continue
                back = _beside(k, -d, j, ptr, of, state) - d * kind_field[kind[k]]
                if (cost + back) << BITS <= chance * heat:
                    _change(j, d, ptr, of, state, t)
                    _change(k, -d, ptr, of, state, t)
                    break
        if abs(np.int64(state[a, _ERROR])) > state[a, _CAP] and state[a, _DEAR] < _HEAVY * _DEARER:
            state[a, _DEAR] += _DEARER
    return h
