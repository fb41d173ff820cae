"""Mending, compiled: push a small count out of 1..K-1, then repair what breaks, one cell at a time.

A world is a count for each open cell. If the finest table is not released, it is also a mask of 0 or K for each cell.
Each sum over cells states nothing (0), an interval for the sum of counts (1), or the value that iLBA released for it
(2). That value depends on the sum, on the number of small cells and on how many of them are masked to K.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ilba.methods.controlled.kernels import compiled

_LOOK = 24
"""the number of cells of a broken sum that are compared"""
_BROKEN = 4096
"""a try is given up at this many broken sums"""


@compiled
def ends(released: int, n: int, at_k: int, K: int) -> tuple[int, int]:
    """The sums of n small cells that iLBA releases as one value: `masking.preimage` of one aggregate."""
    d_low, d_high = at_k, K * at_k + (K - 1) * (n - at_k)
    if n == 0:
        return (0, 0) if released == 0 else (0, -1)
    if n == 1:
        return (d_low, d_high) if released == K * at_k else (0, -1)
    if released == 0:
        return (0, 0) if at_k == 0 else (0, -1)
    q = 0 if released == K else (released - 1 - K // 2) // K
    low, high = q * K + 1, q * K + K
    known = released == K or (released > K and released == q * K + 1 + K // 2)
    if not known or d_low > low or high > d_high:
        return 0, -1
    if low - K < d_low:
        low = min(low, max(d_low, 1))
    if d_high < high + K:
        high = d_high
    return low, high


@compiled
def outside(total: int, least: int, most: int) -> int:
    """How far a sum lies outside its interval."""
    if total < least:
        return least - total
    return max(total - most, 0)


@compiled
def amiss(released: int, total: int, n: int, at_k: int, K: int) -> int:
    """How far n small cells with this sum, `at_k` of them masked to K, are from being released as this value.

    0 means that iLBA releases exactly this value. Otherwise the number falls as counts and masks come nearer.
    """
    if n == 0:
        return released
    if n == 1:
        wanted = 1 if released > 0 else 0
        return abs(wanted - at_k) + (released - K if released > K else 0)
    if released == 0:
        return total + at_k
    q = 0 if released == K else (released - 1 - K // 2) // K
    low, high = q * K + 1, q * K + K
    short = outside(at_k, 0, low) + outside(at_k + (K - 1) * n, high, 1 << 40)
    if short > 0:  # too many or too few masks of K for this block
        return short + outside(total, low, high)
    low, high = ends(released, n, at_k, K)
    return outside(total, low, high)


@compiled
def _off(kind: Any, stated: Any, a: int, total: int, n: int, at_k: int, K: int) -> int:
    """How far a sum is broken."""
    least, most, released = stated
    if kind[a] == 0:
        return 0
    if kind[a] == 1:
        return outside(total, least[a], most[a])
    return amiss(released[a], total, n, at_k, K)


@compiled
def _way(kind: Any, stated: Any, a: int, total: int, n: int, at_k: int, K: int) -> int:
    """Whether a broken sum has too few people (1) or too many (-1); 0 if masks are wrong as well."""
    least, _, released = stated
    if kind[a] == 1:
        return 1 if total < least[a] else -1
    if released[a] == 0 and n > 1:
        return -1
    low, high = ends(released[a], n, at_k, K)
    if low > high or n < 2:
        return 0
    return 1 if total < low else -1


@compiled
def _mask(x: int, z: int, by: int, K: int) -> int:
    """The mask of a cell after its count moved: 1 for K, 0 for 0. A count between 0 and K keeps its mask."""
    new = x + by
    if new == 0:
        return 0
    return 1 if new == K else z


@compiled
def mend(
    world: Any, cells: Any, member: Any, sets: Any, sums: Any, says: Any, targets: Any, safe: Any, how: Any
) -> int:
    """Try each target in turn, from the last world that fits; return how many sums were evaluated.

    world: counts and masks of the cells. cells: low, high, and whether the mask is free. sets: where the cells of each
    sum begin, and the cells. sums: people, small cells and masks of K in each sum, and how far it is broken. says: the
    kind of each sum, what it states, and whether it holds only small cells. targets: cells, and sums numbered after the
    last cell. safe: whether each target was not small in some world. how: steps, the seed, K, whether only occupied
    cells count as small cells, and how many sums to evaluate.
    """
    x, z = world
    low, high, is_free = cells
    first, of_set = sets
    S, N, Z, V = sums
    kind, stated, alone = says
    steps, seed, K, occupied_count, most_looks = how
    np.random.seed(seed)
    n_cells, tables = member.shape
    tabu, clock, looks = np.zeros(n_cells, np.int64), 0, 0
    bad, where = np.empty(_BROKEN, np.int64), np.full(len(S), -1, np.int64)
    log_cell = np.empty(steps + 3 * K + 8, np.int64)
    log_by, log_z = np.empty_like(log_cell), np.empty_like(log_cell)
    for target in targets:
        if safe[target]:
            continue
        if looks > most_looks:
            break
        whole = target - n_cells
        table = -1
        if whole >= 0:  # find the table of the sum
            member_cell = of_set[first[whole]]
            for k in range(tables):
                if member[member_cell, k] == whole:
                    table = k
        total = x[target] if whole < 0 else S[whole]
        up = np.random.randint(2) == 1
        if whole < 0 and not is_free[target]:  # a known mask leaves only one way out
            up = z[target] == 1
        moves = broken = 0
        full = stuck = False
        pushing = True
        step = 0
        while True:
            j, by, mask = -1, 0, 0
            if pushing:  # the target itself moves first
                if (up and total >= K) or (not up and total == 0):
                    pushing = False
                elif whole < 0:
                    j, by = target, (K if up else 0) - x[target]
                    if x[j] + by < low[j] or x[j] + by > high[j]:
                        stuck = True
                        break
                else:
                    size = first[whole + 1] - first[whole]
                    begin = np.random.randint(size)
                    for r in range(size):
                        c = of_set[first[whole] + (begin + r) % size]
                        if up and x[c] < high[c]:
                            j, by = c, 1 + np.random.randint(min(K - total, high[c] - x[c]))
                            break
                        if not up and x[c] > 0 and low[c] == 0:
                            j, by = c, -x[c]
                            break
                    if j < 0:
                        stuck = True
                        break
                if j >= 0:
                    mask = _mask(x[j], z[j], by, K) if is_free[j] else z[j]
            if not pushing:
                if broken == 0 or full or step >= steps:
                    break
                step += 1
                a = bad[np.random.randint(broken)]
                size = first[a + 1] - first[a]
                way = _way(kind, stated, a, S[a], N[a], Z[a], K)
                turning = way == 0 or (kind[a] == 2 and np.random.randint(4) == 0)
                best = 1 << 40
                clock += 1
                for r in range(min(_LOOK, size)):
                    c = of_set[first[a] + (np.random.randint(size) if size > _LOOK else r)]
                    if tabu[c] > clock and np.random.random() < 0.9:
                        continue
                    held = c == target if whole < 0 else member[c, table] == whole
                    for option in range(3):
                        if option < 2:
                            d = 1 if option == 0 else -1
                            if x[c] + d < low[c] or x[c] + d > high[c]:
                                continue
                            if d == -way:
                                continue
                            if held and ((not up and d > 0) or (up and total + d < K)):
                                continue
                            m = _mask(x[c], z[c], d, K) if is_free[c] else z[c]
                        else:
                            if not turning or not is_free[c] or x[c] == 0 or x[c] == K:
                                continue
                            d, m = 0, 1 - z[c]
                        occupied = int(x[c] + d > 0) - int(x[c] > 0) if occupied_count else 0
                        looks += tables
                        cost = 0
                        for k in range(tables):
                            b = member[c, k]
                            cost += _off(kind, stated, b, S[b] + d, N[b] + occupied, Z[b] + m - z[c], K) - V[b]
                        cost = cost * 8 + np.random.randint(8)
                        if cost < best:
                            best, j, by, mask = cost, c, d, m
                looks += tables
                if j < 0:
                    stuck = True
                    break
                tabu[j] = clock + 5 + np.random.randint(10)
            if j < 0:
                continue
            occupied = int(x[j] + by > 0) - int(x[j] > 0) if occupied_count else 0
            turned = mask - z[j]
            for k in range(tables):
                a = member[j, k]
                S[a] += by
                N[a] += occupied
                Z[a] += turned
                V[a] = _off(kind, stated, a, S[a], N[a], Z[a], K)
                if V[a] > 0 and where[a] < 0:
                    if broken == _BROKEN:
                        full = True
                    else:
                        where[a] = broken
                        bad[broken] = a
                        broken += 1
                elif V[a] == 0 and where[a] >= 0:
                    p = where[a]
                    broken -= 1
                    bad[p] = bad[broken]
                    where[bad[p]] = p
                    where[a] = -1
            if j == target or (whole >= 0 and member[j, table] == whole):
                total += by
            x[j] += by
            z[j] = mask
            log_cell[moves], log_by[moves], log_z[moves] = j, by, turned
            moves += 1
            if full:
                break
        if broken == 0 and not full and not stuck:
            for i in range(moves):
                c = log_cell[i]
                if x[c] == 0 or x[c] >= K:
                    safe[c] = True
                for k in range(tables):
                    a = member[c, k]
                    if alone[a] and (S[a] == 0 or S[a] >= K):
                        safe[n_cells + a] = True
            continue
        for i in range(broken):
            where[bad[i]] = -1
        for i in range(moves - 1, -1, -1):  # take everything back
            c = log_cell[i]
            occupied = int(x[c] - log_by[i] > 0) - int(x[c] > 0) if occupied_count else 0
            x[c] -= log_by[i]
            z[c] -= log_z[i]
            for k in range(tables):
                a = member[c, k]
                S[a] -= log_by[i]
                N[a] += occupied
                Z[a] -= log_z[i]
                V[a] = 0
    return looks
