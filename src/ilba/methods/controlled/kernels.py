"""Flip masks between 0 and K until every sum lies near its truth: compiled loops over integers.

Cells and sums are plain numbers here. A cell j has a true count x in 1..K-1 and a mask K z with z = 0 or 1. A set is
the small cells of one aggregate; its error is the sum of K z - x over them. `ptr` and `sets` list the sets of each
cell, `first` and `cells` the cells of each set. All values are integers in a fixed order, so the result is the same on
every machine: costs are exact, chances are compared in fixed point, and a chance is a keyed function of the cell and
the step. The loops release the GIL; each works on its own block.
"""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import event

F = TypeVar("F", bound=Callable[..., Any])

BITS = 16
"""Binary digits after the point of chances and fields."""
CHANCES = 4096
"""The number of different chances."""
WEIGHT = 8
"""The initial weight of a set; it grows while the set stays over its cap."""
_HEAVIEST = 60 * WEIGHT
_WEIGHTS = 9  # bits of a weight in the second number of a set's state; one bit says whether squares count
_TOP = 2**21 - 1  # the largest cap
_GROWTH = 3
_NEAR, _OVER = 20, 5  # the price of a squared error, and of an eighth of a broken bound, in 32nds
_UNIT = 32
_NEVER = np.int32(2**31 - 1)
_DEAR = 2**30 - 2
_FAR = 2**38
_GOLD = np.uint64(0x9E3779B97F4A7C15)
_TIMES, _PLUS = np.uint64(6364136223846793005), np.uint64(1442695040888963407)  # Knuth's, for numbers modulo 2^64
_SMALLEST = 6  # a second cell comes from the smallest of this many sets of a cell


def compiled(function: F) -> F:
    """Compile a function, and cache the result on disk.

    The cache is beside this file, otherwise in the user's cache, otherwise in a private folder among temporary files.
    """
    try:
        return cast("F", numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:  # numba tried the first two places
        if not _own_cache():
            return cast("F", numba.njit(nogil=True)(function))  # compile anew in each process
        return cast("F", numba.njit(cache=True, nogil=True)(function))


def _own_cache() -> bool:
    """Set a cache folder that nobody else can write to, because code from a cache is run."""
    folder = Path(tempfile.gettempdir()) / f"ilba-{os.getuid() if hasattr(os, 'getuid') else 'cache'}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        there = folder.lstat()
    except OSError:
        return False
    if not stat.S_ISDIR(there.st_mode) or there.st_mode & 0o077 or there.st_uid != os.getuid():
        return False
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    return True


def is_compiled(loop: Any) -> bool:
    """Whether a loop starts at once: it was compiled in this process, or its cache is newer than its source."""
    if getattr(loop, "signatures", True):  # a plain function, where compiling is switched off
        return True
    code, folder = loop.py_func.__code__, loop.stats.cache_path
    source = Path(code.co_filename)
    name = f"{source.stem}.{loop.py_func.__name__}-{code.co_firstlineno}.py{sys.version_info[0]}{sys.version_info[1]}*"
    found = Path(folder).glob(f"{name}.nbi") if folder else ()
    return any(one.stat().st_mtime >= source.stat().st_mtime for one in found)


@contextmanager
def compiling() -> Iterator[list[float]]:
    """List the seconds of compilation, known at the end; a later run does not need them."""
    seconds: list[float] = []
    with event.install_timer("numba:compile", seconds.append):
        yield seconds


@compiled
def mixed(h: Any) -> Any:
    """The finaliser of splitmix64: maps a number to one that looks random."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


@compiled
def _next(h: Any) -> Any:
    """The next number of a sequence whose upper half looks random."""
    return h * _TIMES + _PLUS


@compiled
def _place(h: Any, size: Any) -> Any:
    """A place below `size`, which has at most 32 bits; no division."""
    return np.int64((h >> np.uint64(32)) * np.uint64(size) >> np.uint64(32))


@compiled
def _kindred(j: int, h: Any, ptr: Any, sets: Any, first: Any) -> Any:
    """The smallest of a few sets of a cell: its cells share many sets, so a second flip balances more."""
    degree = ptr[j + 1] - ptr[j]
    c = sets[ptr[j] + _place(h, degree)]
    size = first[c + 1] - first[c]
    for _ in range(_SMALLEST - 1):
        h = _next(h)
        other = sets[ptr[j] + _place(h, degree)]
        if first[other + 1] - first[other] < size:
            c, size = other, first[other + 1] - first[other]
    return c, h


@compiled
def _field(log_odds: Any, error: Any, size: Any, stiff: Any) -> Any:
    """The field that pulls a mask to K: the log odds x : K-x, minus the pull of the class to its mean."""
    off = (error << BITS) // size
    return log_odds - stiff * min(max(off, -(1 << BITS)), 1 << BITS)


@compiled
def _within(cost: Any) -> Any:
    """A cost, clipped so that it fits into 64 bits in fixed point; so large a cost decides in any case."""
    return min(max(cost, -_FAR), _FAR)


@compiled
def self_balancing_walk(
    ptr: Any, sets: Any, error: Any, z: Any, x: Any, kind: Any, free: Any, number: Any, K: int, heat: int,
    threshold: Any, log_odds: Any, kind_error: Any, kind_size: Any, stiff: Any,
) -> None:  # fmt: skip
    """Choose the masks of the free cells one by one, each against the errors that the cells before it left.

    This is the self-balancing walk of discrepancy theory: a cell goes up with odds x : K-x, shifted by the sum of the
    errors of its sets. One walk gets nearer than dozens of sweeps over independent draws. `error` holds the errors of
    the cells that are not free.
    """
    for j in range(len(z)):
        if not free[j]:
            continue
        total = np.int64(0)
        for i in range(ptr[j], ptr[j + 1]):
            total += error[sets[i]]
        v = kind[j]
        pull = _field(log_odds[v], kind_error[v], kind_size[v], stiff[v])
        drawn = np.int64(mixed(number[j]) >> np.uint64(52))
        odds = threshold[CHANCES - 1 - drawn] - threshold[drawn]  # a logistic random number
        up = _within(2 * np.int64(K) * total) << (BITS + 8) < (pull + odds) * heat
        z[j] = up
        d = np.int64(K) * up - x[j]
        kind_error[v] += d
        for i in range(ptr[j], ptr[j + 1]):
            error[sets[i]] += np.int32(d)


@compiled
def errors_of(ptr: Any, sets: Any, z: Any, x: Any, counted: Any, K: int, n_sets: int) -> Any:
    """The error of each set, over the cells in `counted`."""
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
    ptr: Any, sets: Any, error: Any, z: Any, kind: Any, free: Any, number: Any, step: int, K: int, heat: int,
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
        chance = threshold[np.int64(mixed(number[j] + salt) >> np.uint64(52))]
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
def state_of(error: Any, cap: Any, square: Any) -> Any:
    """The state of each set: its error; and in one number its cap, whether its square has a price, and its weight."""
    state = np.empty((len(error), 2), np.int32)
    for a in range(len(error)):
        state[a, 0] = error[a]
        limit: Any = min(np.int64(cap[a]), np.int64(_TOP))
        state[a, 1] = limit << (_WEIGHTS + 1) | np.int64(square[a]) << _WEIGHTS | WEIGHT
    return state


@compiled
def _cap(info: Any) -> Any:
    return np.int64(info) >> (_WEIGHTS + 1)


@compiled
def _cost(j: int, d: Any, ptr: Any, sets: Any, state: Any, K: Any) -> Any:
    """The cost of flipping a cell: squared errors as in a sweep, and broken caps times the weight of the set."""
    errors = np.int64(0)
    counted = np.int64(0)
    broken = np.int64(0)
    for i in range(ptr[j], ptr[j + 1]):
        e = np.int64(state[sets[i], 0])
        info = np.int64(state[sets[i], 1])
        square = info >> _WEIGHTS & 1
        errors += e * square
        counted += square
        cap = info >> (_WEIGHTS + 1)
        before, after = abs(e) - cap, abs(e + d) - cap
        if before > 0 or after > 0:
            broken += (info & ((1 << _WEIGHTS) - 1)) * (_price(after, K) - _price(before, K))
    return _within(_NEAR * (2 * d * errors + K * K * counted) + _OVER * broken)


@compiled
def _strays(v: int, u: int, d: Any, kind_error: Any, aim: Any) -> Any:
    """Whether moving class v by d (and class u by -d, unless it is -1) takes them away from their aims."""
    if u == v:
        return False
    now, then = abs(kind_error[v] - aim[v]), abs(kind_error[v] + d - aim[v])
    if u >= 0:
        now, then = now + abs(kind_error[u] - aim[u]), then + abs(kind_error[u] - d - aim[u])
    return then > now


@compiled
def _seen(cost: Any, z: int, free: int) -> Any:
    """A cost and a mask in one number, so that choosing among cells reads memory once per cell."""
    if not free:
        return np.int32(_NEVER)
    return np.int32(min(max(cost, -_DEAR), _DEAR) << 1 | z)


@compiled
def over(state: Any) -> int:
    """The number of sets over their caps."""
    found = 0
    for a in range(len(state)):
        found += abs(np.int64(state[a, 0])) > _cap(state[a, 1])
    return found


@compiled
def repair(
    ptr: Any, sets: Any, first: Any, cells: Any, state: Any, z: Any, kind: Any, free: Any, K_: int,
    threshold: Any, log_odds: Any, kind_error: Any, kind_size: Any, stiff: Any, aim: Any,
    level: bool, h: Any, passes: int, look: Any, worn: bool, widest: int,
) -> Any:  # fmt: skip
    """Go through the sets over their caps `passes` times: flip a cell of each, and another one to balance it.

    The weight of a set that stays over its cap grows. `look` holds the last computed cost of each flip, which is good
    enough to choose by; `worn` marks costs that are too old. With `level`, no class may stray from its `aim`: flips
    come in pairs within one class.
    """
    K = np.int64(K_)
    unit = _UNIT * K * K
    n, N = len(z), len(state)
    bad = np.empty(N, np.int32)
    broken = np.empty(widest, np.int32)
    looked, before = (3 * n, -3 * n) if worn else (0, 0)
    for _ in range(passes):
        n_bad = 0
        for a in range(N):
            if abs(np.int64(state[a, 0])) > _cap(state[a, 1]):
                bad[n_bad] = a
                n_bad += 1
        if n_bad == 0:
            break
        if looked > 2 * n:
            before += looked
            looked = 0
            for j in range(n):
                look[j] = _NEVER
                if free[j]:
                    look[j] = _seen(_cost(j, K if z[j] == 0 else -K, ptr, sets, state, K), z[j], 1)
        for b in range(n_bad):
            a = bad[b]
            if abs(np.int64(state[a, 0])) <= _cap(state[a, 1]):
                continue
            want = 1 if state[a, 0] > 0 else 0
            sign = -1 if want == 1 else 1
            d = sign * K
            size = first[a + 1] - first[a]
            effort = (state[a, 1] & ((1 << _WEIGHTS) - 1)) // WEIGHT
            tries, partners = min(12, 2 + effort), min(64, 6 + 4 * effort)
            done = False
            for _t in range(tries):
                # The cheapest of twelve cells of the set that go the right way.
                j, least = -1, _NEVER
                for _r in range(12):
                    h = _next(h)
                    k = cells[first[a] + _place(h, size)]
                    if (look[k] & 1) == want and look[k] < least:
                        least = look[k]
                        j = k
                if j < 0:
                    continue
                cost = _cost(j, d, ptr, sets, state, K)
                looked += 1
                look[j] = _seen(cost + unit // 2, want, 1)
                v = kind[j]
                gain = sign * _field(log_odds[v], kind_error[v], kind_size[v], stiff[v])
                h = _next(h)
                chance = threshold[np.int64(h >> np.uint64(52))]
                n_broken = 0
                for i in range(ptr[j], ptr[j + 1]):
                    c = sets[i]
                    state[c, 0] += np.int32(d)
                    if sign * np.int64(state[c, 0]) > _cap(state[c, 1]):
                        broken[n_broken] = c
                        n_broken += 1
                z[j] = 1 - want
                if cost << BITS <= (chance + gain) * unit and not (level and _strays(v, -1, d, kind_error, aim)):
                    kind_error[v] += d
                    done = True
                    look[j] = _seen(-cost, 1 - want, 1)
                    break
                for q in range(partners):
                    # A second flip the other way: in a set that the first flip broke, or in a small set of its cell.
                    h = _next(h)
                    if n_broken > 0 and (q & 1) == 0:
                        c = broken[_place(h, n_broken)]
                    else:
                        c, h = _kindred(j, h, ptr, sets, first)
                    inside = first[c + 1] - first[c]
                    k, least = -1, _NEVER
                    for _r in range(16):
                        h = _next(h)
                        other = cells[first[c] + _place(h, inside)]
                        if (look[other] & 1) != want and look[other] < least and other != j:
                            if level and _strays(v, kind[other], d, kind_error, aim):
                                continue
                            least = look[other]
                            k = other
                    if k < 0:
                        continue
                    back = _cost(k, -d, ptr, sets, state, K)
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
            weight = state[a, 1] & ((1 << _WEIGHTS) - 1)
            if abs(np.int64(state[a, 0])) > _cap(state[a, 1]) and weight < _HEAVIEST:
                state[a, 1] += _GROWTH
    return over(state), h, before + looked


@compiled
def _fits(j: int, d: Any, ptr: Any, sets: Any, state: Any) -> Any:
    """Whether a flip keeps every error that it enlarges within its cap."""
    for i in range(ptr[j], ptr[j + 1]):
        e = np.int64(state[sets[i], 0])
        if abs(e + d) > _cap(state[sets[i], 1]) and abs(e + d) > abs(e):
            return False
    return True


@compiled
def match_class_mean(
    ptr: Any, sets: Any, state: Any, z: Any, kind: Any, free: Any, number: Any, K_: int, heat: int,
    threshold: Any, kind_error: Any, wanted: int, short: int, forced: bool,
) -> int:  # fmt: skip
    """Flip cells of one class, the cheapest first, until `short` flips up (if negative: flips down) are done.

    A flip that breaks a cap is skipped unless `forced`. Returns how many flips are missing.
    """
    K = np.int64(K_)
    d = K if short > 0 else -K
    place = np.empty(len(z), np.int32)
    cost = np.empty(len(z), np.int64)
    n = 0
    for j in range(len(z)):
        if kind[j] != wanted or not free[j] or (z[j] == 0) != (d > 0):
            continue
        if not forced and not _fits(j, d, ptr, sets, state):
            continue
        total = np.int64(0)
        for i in range(ptr[j], ptr[j + 1]):
            total += state[sets[i], 0]
        chance = threshold[np.int64(mixed(number[j] ^ _GOLD) >> np.uint64(52))]
        cost[n] = _within(2 * d * total + K * K * (ptr[j + 1] - ptr[j])) - (chance * heat >> (BITS + 8))
        place[n] = j
        n += 1
    left = abs(short)
    for i in np.argsort(cost[:n], kind="mergesort"):
        if left == 0:
            break
        j = place[i]
        if forced or _fits(j, d, ptr, sets, state):
            z[j] = 1 - z[j]
            kind_error[wanted] += d
            for s in range(ptr[j], ptr[j + 1]):
                state[sets[s], 0] += np.int32(d)
            left -= 1
    return left
