"""Flipping masks between 0 and K until every sum lies near its truth: compiled loops over integers.

Cells and sums are plain numbers here. A cell j has a true count x in 1..K-1 and a mask K z, z = 0 or 1; a set is the
small cells of one aggregate, and its error is the sum of K z - x over them. `ptr` and `sets` list the sets of each
cell, `first` and `cells` the cells of each set. Everything is whole numbers in a fixed order, so that a result is the
same on every machine: costs are exact, chances are compared in fixed point, and a chance is a keyed function of the
cell and the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np

from ilba.errors import MissingExtra

try:
    import numba
except ModuleNotFoundError:
    raise MissingExtra('choosing masks jointly needs numba. Type: pip install "ilba[controlled]"') from None

F = TypeVar("F", bound=Callable[..., Any])

BITS = 16
"""Digits behind the point of chances and fields."""
CHANCES = 4096
"""How many different chances there are."""
WEIGHT = 8
"""The weight with which a set starts; it grows while the set stays over it."""
_HEAVIEST = 60 * WEIGHT
_GROWTH = 3
_NEAR, _OVER = 20, 5  # the price of an error squared, and of an eighth of a bound broken, in 32nds
_UNIT = 32
_NEVER = np.int32(2**31 - 1)
_DEAR = 2**30 - 2
_FAR = 2**38
_GOLD = np.uint64(0x9E3779B97F4A7C15)


def compiled(function: F) -> F:
    """Compile a function, and keep the result on disk where that is possible."""
    try:
        return cast("F", numba.njit(cache=True)(function))
    except RuntimeError:  # no folder for the cache: compile anew in each process
        return cast("F", numba.njit(function))


@compiled
def mixed(h: Any) -> Any:
    """The finaliser of splitmix64: from a number to one that looks drawn."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@compiled
def _field(log_odds: Any, error: Any, size: Any, stiff: Any) -> Any:
    """What draws a mask to K: the log odds x : K-x, less what the class is off its mean."""
    off = (error << BITS) // size
    return log_odds - stiff * min(max(off, -(1 << BITS)), 1 << BITS)


@compiled
def _within(cost: Any) -> Any:
    """A cost that is still a number of 64 bits when it is moved behind the point; so large a one decides anyway."""
    return min(max(cost, -_FAR), _FAR)


@compiled
def place(
    ptr: Any, sets: Any, error: Any, z: Any, x: Any, kind: Any, free: Any, key: Any, K: int, heat: int,
    threshold: Any, log_odds: Any, kind_error: Any, kind_size: Any, stiff: Any,
) -> None:  # fmt: skip
    """Choose the masks of the free cells one after the other, each against the errors that those before it left.

    This is the self-balancing walk of discrepancy theory: a cell goes up with odds x : K-x, shifted by the sum of the
    errors of its sets. One walk gets nearer than dozens of sweeps over independent draws. `error` holds what the
    cells that are not free have left.
    """
    for j in range(len(z)):
        if not free[j]:
            continue
        total = np.int64(0)
        for i in range(ptr[j], ptr[j + 1]):
            total += error[sets[i]]
        v = kind[j]
        pull = _field(log_odds[v], kind_error[v], kind_size[v], stiff[v])
        drawn = np.int64(mixed(key[j]) >> np.uint64(52))
        odds = threshold[CHANCES - 1 - drawn] - threshold[drawn]  # the logistic of a uniform number
        up = _within(2 * np.int64(K) * total) << (BITS + 8) < (pull + odds) * heat
        z[j] = up
        d = np.int64(K) * up - x[j]
        kind_error[v] += d
        for i in range(ptr[j], ptr[j + 1]):
            error[sets[i]] += np.int32(d)


@compiled
def errors_of(ptr: Any, sets: Any, z: Any, x: Any, counted: Any, K: int, n_sets: int) -> Any:
    """The error of each set, from the cells that are to be counted."""
    error = np.zeros(n_sets, np.int32)
    for j in range(len(z)):
        if not counted[j]:
            continue
        d = np.int32(K * np.int64(z[j]) - x[j])
        for i in range(ptr[j], ptr[j + 1]):
            error[sets[i]] += d
    return error


@compiled
def sweep(
    ptr: Any, sets: Any, error: Any, z: Any, kind: Any, free: Any, key: Any, step: int, K: int, heat: int,
    threshold: Any, log_odds: Any, kind_error: Any, kind_size: Any, stiff: Any,
) -> int:  # fmt: skip
    """Offer every free cell one flip. The cost is the sum of squared errors, `heat` is K^2 T in 256ths."""
    flipped = 0
    salt = np.uint64(step) * _GOLD
    for j in range(len(z)):
        if not free[j]:
            continue
        total = np.int64(0)
        for i in range(ptr[j], ptr[j + 1]):
            total += error[sets[i]]
        d = np.int64(K) if z[j] == 0 else np.int64(-K)
        cost = 2 * d * total + np.int64(K) * K * (ptr[j + 1] - ptr[j])
        v = kind[j]
        pull = _field(log_odds[v], kind_error[v], kind_size[v], stiff[v])
        chance = threshold[np.int64(mixed(key[j] + salt) >> np.uint64(52))]
        if _within(cost) << (BITS + 8) > (chance + (pull if d > 0 else -pull)) * heat:
            continue
        z[j] = 1 - z[j]
        kind_error[v] += d
        flipped += 1
        for i in range(ptr[j], ptr[j + 1]):
            error[sets[i]] += np.int32(d)
    return flipped


@compiled
def _price(over: Any, K: Any) -> Any:
    return K * (K + over) if over > 0 else np.int64(0)


@compiled
def _cost(j: int, d: Any, ptr: Any, sets: Any, state: Any, bound: Any, K: Any) -> Any:
    """What flipping a cell costs: errors squared as in a sweep, and bounds broken times the weight of the set."""
    errors = np.int64(0)
    broken = np.int64(0)
    for i in range(ptr[j], ptr[j + 1]):
        e = np.int64(state[sets[i], 0])
        w = state[sets[i], 1]
        errors += e
        before, after = abs(e) - bound, abs(e + d) - bound
        if before > 0 or after > 0:
            broken += np.int64(w) * (_price(after, K) - _price(before, K))
    return _within(_NEAR * (2 * d * errors + K * K * (ptr[j + 1] - ptr[j])) + _OVER * broken)


@compiled
def _seen(cost: Any, z: int, free: int) -> Any:
    """A cost and a mask in one number, so that choosing among cells reads one place of memory for each."""
    if not free:
        return np.int32(_NEVER)
    return np.int32(min(max(cost, -_DEAR), _DEAR) << 1 | z)


@compiled
def over(state: Any, bound: int) -> int:
    """How many sets are over the bound."""
    found = 0
    for a in range(len(state)):
        found += abs(state[a, 0]) > bound
    return found


@compiled
def repair(
    ptr: Any, sets: Any, first: Any, cells: Any, state: Any, z: Any, kind: Any, free: Any, K_: int, bound_: int,
    threshold: Any, log_odds: Any, kind_error: Any, kind_size: Any, stiff: Any, h: Any,
    passes: int, look: Any, worn: bool, widest: int,
) -> Any:  # fmt: skip
    """Go through the sets over the bound, `passes` times: flip a cell of each, and another one to make up for it.

    `state` holds error and weight of each set; the weight of one that stays over it grows. `look` holds the
    cost of each flip as it was when last looked at, good enough to choose by; `worn` says that it is too old for that.
    """
    K, bound = np.int64(K_), np.int64(bound_)
    unit = _UNIT * K * K
    n, N = len(z), len(state)
    bad = np.empty(N, np.int32)
    broken = np.empty(widest, np.int32)
    looked, before = (3 * n, -3 * n) if worn else (0, 0)
    for _ in range(passes):
        n_bad = 0
        for a in range(N):
            if abs(state[a, 0]) > bound:
                bad[n_bad] = a
                n_bad += 1
        if n_bad == 0:
            break
        if looked > 2 * n:
            before += looked
            looked = 0
            for j in range(n):
                look[j] = _seen(_cost(j, K if z[j] == 0 else -K, ptr, sets, state, bound, K), z[j], free[j])
        for b in range(n_bad):
            a = bad[b]
            if abs(state[a, 0]) <= bound:
                continue
            want = 1 if state[a, 0] > 0 else 0
            sign = -1 if want == 1 else 1
            d = sign * K
            size = np.uint64(first[a + 1] - first[a])
            effort = state[a, 1] // WEIGHT
            tries, partners = min(12, 2 + effort), min(64, 6 + 4 * effort)
            done = False
            for _t in range(tries):
                # The cheapest of twelve of the set's cells that go the right way.
                j, least = -1, _NEVER
                for _r in range(12):
                    h = mixed(h + _GOLD)
                    k = cells[first[a] + np.int64((h >> np.uint64(20)) % size)]
                    if (look[k] & 1) == want and look[k] < least:
                        least = look[k]
                        j = k
                if j < 0:
                    continue
                cost = _cost(j, d, ptr, sets, state, bound, K)
                looked += 1
                look[j] = _seen(cost + unit // 2, want, 1)
                v = kind[j]
                gain = sign * _field(log_odds[v], kind_error[v], kind_size[v], stiff[v])
                h = mixed(h + _GOLD)
                chance = threshold[np.int64(h >> np.uint64(52))]
                n_broken = 0
                for i in range(ptr[j], ptr[j + 1]):
                    c = sets[i]
                    state[c, 0] += np.int32(d)
                    if sign * state[c, 0] > bound:
                        broken[n_broken] = c
                        n_broken += 1
                z[j] = 1 - want
                if cost << BITS <= (chance + gain) * unit:
                    kind_error[v] += d
                    done = True
                    look[j] = _seen(-cost, 1 - want, 1)
                    break
                degree = np.uint64(ptr[j + 1] - ptr[j])
                for q in range(partners):
                    # A second flip the other way: in a set that the first one broke, or in any of its sets.
                    h = mixed(h + _GOLD)
                    if n_broken > 0 and (q & 1) == 0:
                        c = broken[np.int64((h >> np.uint64(20)) % np.uint64(n_broken))]
                    else:
                        c = sets[ptr[j] + np.int64((h >> np.uint64(20)) % degree)]
                    inside = np.uint64(first[c + 1] - first[c])
                    k, least = -1, _NEVER
                    for _r in range(16):
                        h = mixed(h + _GOLD)
                        other = cells[first[c] + np.int64((h >> np.uint64(20)) % inside)]
                        if (look[other] & 1) != want and look[other] < least and other != j:
                            least = look[other]
                            k = other
                    if k < 0:
                        continue
                    back = _cost(k, -d, ptr, sets, state, bound, K)
                    looked += 1
                    look[k] = _seen(back + unit // 2, 1 - want, 1)
                    u = kind[k]
                    both = gain - sign * _field(log_odds[u], kind_error[u], kind_size[u], stiff[u])
                    if (cost + back) << BITS <= (chance + both) * unit:
                        z[k] = want
                        kind_error[v] += d
                        kind_error[u] -= d
                        done = True
                        look[k] = _seen(-back, want, 1)
                        look[j] = _seen(-cost, 1 - want, 1)
                        for i in range(ptr[k], ptr[k + 1]):
                            state[sets[i], 0] -= np.int32(d)
                        break
                if done:
                    break
                z[j] = want
                for i in range(ptr[j], ptr[j + 1]):
                    state[sets[i], 0] -= np.int32(d)
            if abs(state[a, 0]) > bound and state[a, 1] < _HEAVIEST:
                state[a, 1] += _GROWTH
    return over(state, bound_), h, before + looked


@compiled
def _fits(j: int, d: Any, ptr: Any, sets: Any, error: Any, bound: Any) -> Any:
    """Whether a flip takes no error that it moves outwards over the bound."""
    for i in range(ptr[j], ptr[j + 1]):
        e = np.int64(error[sets[i]])
        if abs(e + d) > bound and abs(e + d) > abs(e):
            return False
    return True


@compiled
def _flip(j: int, d: Any, ptr: Any, sets: Any, error: Any, z: Any, kind: Any, kind_error: Any) -> None:
    z[j] = 1 - z[j]
    kind_error[kind[j]] += d
    for i in range(ptr[j], ptr[j + 1]):
        error[sets[i]] += np.int32(d)


@compiled
def _partner(
    j: int, d: Any, ptr: Any, sets: Any, first: Any, cells: Any, error: Any, z: Any, kind: Any, free: Any, K: Any,
    bound: Any, kind_error: Any, kind_size: Any,
) -> Any:  # fmt: skip
    """A cell of another class whose flip the other way makes up for the flip of a cell that broke a bound; or -1."""
    least = -1
    for i in range(ptr[j], ptr[j + 1]):
        a = sets[i]
        smaller = least < 0 or first[a + 1] - first[a] < first[least + 1] - first[least]
        if abs(error[a]) > bound and smaller:
            least = a
    if least < 0:
        return -1
    for i in range(first[least], first[least + 1]):
        k = cells[i]
        u = kind[k]
        if u == kind[j] or not free[k] or (z[k] == 0) != (d < 0):
            continue
        # The other class has to gain by it, too, or be so large that its mean stays within a hundredth.
        if 2 * abs(kind_error[u] - d) > max(K, 2 * abs(kind_error[u]), kind_size[u] // 50):
            continue
        if _fits(k, -d, ptr, sets, error, bound):
            # What the first flip broke must be whole again, not only no worse.
            whole = True
            _flip(k, -d, ptr, sets, error, z, kind, kind_error)
            for m in range(ptr[j], ptr[j + 1]):
                whole = whole and abs(error[sets[m]]) <= bound
            _flip(k, d, ptr, sets, error, z, kind, kind_error)
            if whole:
                return k
    return -1


@compiled
def balance(
    ptr: Any, sets: Any, first: Any, cells: Any, error: Any, z: Any, kind: Any, free: Any, K_: int, bound: int,
    wanted: int, most: int, kind_error: Any, kind_size: Any,
) -> int:  # fmt: skip
    """Flip cells of one class until its mean is as near as it gets, breaking no bound.

    The cheapest flip each time; where each would break a bound, one together with a flip of another class.
    """
    K = np.int64(K_)
    flipped = 0
    while flipped < most and 2 * abs(kind_error[wanted]) > K:
        d = K if kind_error[wanted] < 0 else -K
        best, least = -1, np.int64(1) << 62
        for j in range(len(z)):
            if kind[j] != wanted or not free[j] or (z[j] == 0) != (d > 0):
                continue
            total = np.int64(0)
            for i in range(ptr[j], ptr[j + 1]):
                total += error[sets[i]]
            cost = 2 * d * total + K * K * (ptr[j + 1] - ptr[j])
            if cost < least and _fits(j, d, ptr, sets, error, bound):
                best, least = j, cost
        if best >= 0:
            _flip(best, d, ptr, sets, error, z, kind, kind_error)
            flipped += 1
            continue
        for j in range(len(z)):
            if kind[j] != wanted or not free[j] or (z[j] == 0) != (d > 0):
                continue
            _flip(j, d, ptr, sets, error, z, kind, kind_error)
            k = _partner(j, d, ptr, sets, first, cells, error, z, kind, free, K, bound, kind_error, kind_size)
            if k >= 0:
                _flip(k, -d, ptr, sets, error, z, kind, kind_error)
                best = j
                break
            _flip(j, -d, ptr, sets, error, z, kind, kind_error)
        if best < 0:
            break
        flipped += 2
    return flipped
