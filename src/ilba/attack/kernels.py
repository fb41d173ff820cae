"""Compiled loops of the attack: they propagate bounds between cells, one area at a time.

All tables of one level form one row of cells for each area. A *family* is a cell and the cells of a finer table that
add up to it; the families of two tables are adjacent. Nearly all cells of a small area are *empty*: nobody is proven to
be there, so only a high is known, and at most one of their small cells is occupied. The row keeps only the high of such
a cell. The other cells are *listed*: the row holds the mark instead (the largest number of its type), and the list of
the area holds their bounds. An empty cell that is proven to be occupied is listed from then on.

A family of empty cells is settled in one pass: no part exceeds the whole, and the whole does not exceed the sum of its
parts. Tables are settled up and down until nothing moves; only tables with a moved cell are visited. The numpy code in
`bounds` does the same in array operations. It records steps for explanations, and the tests compare these loops with
it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ilba.methods.controlled.kernels import compiled

CELL, LOW, HIGH, LEAST, MOST, AT, END, SHIFTED = range(8)
"""The columns of a list: the cell, the bounds of its sum, and the bounds of the number of its occupied cells. If a sum
above 0 is released, also |S_K|, the end of its block and how many cells may be shifted; otherwise the end is -1."""


@compiled
def _ruled(listed: Any, r: int, K: int) -> bool:
    """Propagate bounds between the sum of small cells and the number of occupied cells of one cell."""
    changed = False
    while True:
        lo, hi, few, many = listed[r, 1], listed[r, 2], listed[r, 3], listed[r, 4]
        if lo > 0 and few < 1:
            few = 1
        lo = max(lo, min(few, hi + 1))
        many = min(many, max(hi, -1))
        if many == 0 and hi > 0:
            hi = 0
        if listed[r, 6] >= 0:
            at_k, block_end, most_shifted = listed[r, 5], listed[r, 6], listed[r, 7]
            # f <= |S_K| + (K-1)|S|; f lies beyond its own block only if |S| is small enough for a type 2 shift.
            shifted = min(many, most_shifted)
            top = block_end
            if shifted >= few:
                top = max(at_k + (K - 1) * shifted, block_end)
            hi = min(hi, min(top, at_k + (K - 1) * many))
            if at_k + (K - 1) * few < lo:
                few = -((at_k - lo) // (K - 1))
            if lo > block_end:
                many = min(many, most_shifted)
        if lo == listed[r, 1] and hi == listed[r, 2] and few == listed[r, 3] and many == listed[r, 4]:
            return changed
        listed[r, 1], listed[r, 2], listed[r, 3], listed[r, 4] = lo, hi, few, many
        changed = True


@compiled
def _met(listed: Any, r: int, kind: int, low: int, high: int) -> bool:
    """Narrow the bounds of a listed cell; return whether they moved.

    A low above the high is a contradiction. High + 1 is enough to show it.
    """
    lo, hi = listed[r, kind], listed[r, kind + 1]
    if low <= lo and high >= hi:
        return False
    if low > lo:
        listed[r, kind] = max(lo, min(low, hi + 1))
    if high < hi:
        listed[r, kind + 1] = max(high, -1)
    return bool(listed[r, kind] != lo or listed[r, kind + 1] != hi)


@compiled
def _enlist(row: Any, listed: Any, number: int, at: Any, c: int, mark: int) -> int:
    """List a cell that was empty; return how many cells are listed then."""
    high = np.int64(row[c])
    listed[number, 0], listed[number, 1], listed[number, 2], listed[number, 3] = c, 0, high, 0
    listed[number, 4] = 1 if high > 0 else 0
    listed[number, 5], listed[number, 6], listed[number, 7] = 0, -1, 0
    at[c] = number
    row[c] = mark
    return number + 1


@compiled
def _told(
    row: Any, listed: Any, number: int, at: Any, c: int, left: Any, K: int, counted: bool, mark: int
) -> tuple[int, bool]:
    """Bound a part by the whole and the other parts; return how many cells are listed, and whether it moved."""
    low_left, high_left, few_left, many_left = left
    high = np.int64(row[c])
    if high != mark:
        if high == 0:
            return number, False
        top = min(high, high_left)
        if counted and many_left < 1:
            top = min(top, 0)
        if low_left + high <= 0 and not (counted and few_left >= 0) and top >= 0:
            if top == high:
                return number, False
            row[c] = top
            return number, True
        r = number
        number = _enlist(row, listed, number, at, c, mark)
        _met(listed, r, 1, low_left + high, top)
        if counted:
            _met(listed, r, 3, few_left + 1, min(many_left, 1))
            _ruled(listed, r, K)
        return number, True
    r = at[c]
    moved = _met(listed, r, 1, low_left + listed[r, 2], high_left + listed[r, 1])
    if counted:
        moved |= _met(listed, r, 3, few_left + listed[r, 4], many_left + listed[r, 3])
        if moved:
            _ruled(listed, r, K)
    return number, moved


@compiled
def _settled(
    row: Any, listed: Any, number: int, at: Any, p: int, parts: Any, members: Any, K: int, counted: bool, mark: int
) -> tuple[int, bool, bool]:
    """Propagate bounds between a listed whole and its parts; return how many cells are listed, and which moved."""
    s = at[p]
    least: Any = np.int64(0)
    most, few, many, wide, broad = least, least, least, least, least
    for k in range(parts[0], parts[1]):
        c = members[k]
        high = np.int64(row[c])
        if high != mark:
            most += high
            if high > 0:
                many += 1
                broad = max(broad, 1)
                wide = max(wide, high)
            continue
        r = at[c]
        least += listed[r, 1]
        most += listed[r, 2]
        wide = max(wide, listed[r, 2] - listed[r, 1])
        if counted:
            few += listed[r, 3]
            many += listed[r, 4]
            broad = max(broad, listed[r, 4] - listed[r, 3])
    up = _met(listed, s, 1, least, most)
    if counted:
        up |= _met(listed, s, 3, few, many)
        if up:
            _ruled(listed, s, K)
    left = (
        np.int64(listed[s, 1] - most),
        np.int64(listed[s, 2] - least),
        np.int64(listed[s, 3] - many),
        np.int64(listed[s, 4] - few),
    )
    down = False
    # Only the widest part gains, when its width exceeds the slack that the others leave.
    if wide > -left[0] or wide > left[1] or (counted and (broad > -left[2] or broad > left[3])):
        for k in range(parts[0], parts[1]):
            c = members[k]
            number, moved = _told(row, listed, number, at, c, left, K, counted, mark)
            down |= moved
    return number, up, down


@compiled
def close_area(
    row: Any, kept: Any, listed: Any, at: Any, families: Any, runs: Any, moved: Any, K: int, counted: bool, mark: int
) -> tuple[int, bool]:
    """Propagate bounds between the tables of an area until nothing moves.

    row, kept: the area's highs and its list. families: the wholes, and where the parts of each are. runs: where the
    families of two tables begin, and which two tables. moved: which tables moved since the area was closed; cleared
    afterwards. listed, at: working memory: the list, with room for every cell, and the place of each cell in it.
    Returns how many cells are listed, and whether anything moved. If no cell is added, `kept` is up to date; otherwise
    the list is in `listed`.
    """
    parents, member_at, members = families
    first, above, below = runs
    number = len(kept)
    changed = False
    for r in range(number):
        for column in range(8):
            listed[r, column] = kept[r, column]
        at[kept[r, 0]] = r
    stamp, seen = moved.astype(np.int64), np.zeros(len(above), np.int64)
    clock, busy, falling = 1, True, True
    while busy:
        busy = False
        for step in range(len(above)):
            e = len(above) - 1 - step if falling else step
            if max(stamp[above[e]], stamp[below[e]]) <= seen[e]:
                continue
            busy = True
            clock += 1
            seen[e] = clock
            up = down = False
            for f in range(first[e], first[e + 1]):
                p = parents[f]
                whole = np.int64(row[p])
                start, end = member_at[f], member_at[f + 1]
                if whole != mark:
                    total, empty = np.int64(0), True
                    for k in range(start, end):
                        c = members[k]
                        high = np.int64(row[c])
                        if high > whole:
                            if high == mark:
                                empty = False
                                break
                            high = whole
                            row[c] = high
                            down = True
                        total += high
                    if empty:
                        if total < whole:
                            row[p] = total
                            up = True
                        continue
                    number = _enlist(row, listed, number, at, p, mark)
                number, rose, fell = _settled(row, listed, number, at, p, (start, end), members, K, counted, mark)
                up |= rose
                down |= fell
            if up or down:
                clock += 1
                changed = True
                if up:
                    stamp[above[e]] = clock
                if down:
                    stamp[below[e]] = clock
        falling = not falling
    moved[:] = 0
    if number == len(kept):
        for r in range(number):
            for column in range(1, 5):
                kept[r, column] = listed[r, column]
    return number, changed


@compiled
def add_part(row: Any, kept: Any, place: Any, straight: bool, sums: Any, mark: int) -> None:
    """Add the bounds of an area's cells to those of the coarser area.

    place: the coarser cell of each cell, or -1; straight: every cell keeps its place.
    """
    high, number = sums[1], sums[3]
    if straight:
        for c in range(len(row)):
            some = 0 if row[c] == mark else row[c]
            high[c] += some
            number[c] += 1 if some > 0 else 0
    else:
        for c in range(len(row)):
            if row[c] != 0 and row[c] != mark and place[c] >= 0:
                high[place[c]] += row[c]
                number[place[c]] += 1
    for r in range(len(kept)):
        g = place[kept[r, 0]]
        if g >= 0:
            for side in range(4):
                sums[side, g] += kept[r, 1 + side]


@compiled
def settle_whole(
    row: Any, kept: Any, listed: Any, at: Any, tables: Any, sums: Any, limit: Any, far: int, moved: Any, K: int,
    counted: bool, mark: int,
) -> tuple[int, bool]:  # fmt: skip
    """Bound an area by the sums of its parts, and work out what it leaves to them.

    tables: where each table begins. sums: for each cell the sums of its parts' bounds, with a low of -1 where it has no
    parts; afterwards the bounds for a part. limit: afterwards the high up to which an empty part gains nothing; at most
    `far`. moved: which tables moved. Returns the same as `close_area`.
    """
    number, changed = len(kept), False
    for r in range(number):
        for column in range(8):
            listed[r, column] = kept[r, column]
        at[kept[r, 0]] = r
    for t in range(len(tables) - 1):
        rose = False
        for g in range(tables[t], tables[t + 1]):
            if sums[0, g] < 0:
                continue
            low, high, few, many = np.int64(0), np.int64(row[g]), np.int64(0), np.int64(1)
            if high != mark and (sums[0, g] > 0 or sums[2, g] > 0):
                number = _enlist(row, listed, number, at, g, mark)
                high = np.int64(mark)
            if high != mark:
                if sums[1, g] < high:
                    high = sums[1, g]
                    row[g] = high
                    rose = True
                many = np.int64(1 if high > 0 else 0)
            else:
                r = at[g]
                up = _met(listed, r, 1, sums[0, g], sums[1, g])
                if counted:
                    up |= _met(listed, r, 3, sums[2, g], sums[3, g])
                    if up:
                        _ruled(listed, r, K)
                rose |= up
                low, high = np.int64(listed[r, 1]), np.int64(listed[r, 2])
                few, many = np.int64(listed[r, 3]), np.int64(listed[r, 4])
            low_left, high_left = low - sums[1, g], high - sums[0, g]
            few_left, many_left = few - sums[3, g], many - sums[2, g]
            sums[0, g], sums[1, g], sums[2, g], sums[3, g] = low_left, high_left, few_left, many_left
            free = min(high_left, -low_left)
            if counted and (many_left < 1 or few_left >= 0):
                free = np.int64(0)
            limit[g] = max(np.int64(0), min(free, np.int64(far)))
        if rose:
            moved[t] = 1
            changed = True
    if number == len(kept):
        for r in range(number):
            for column in range(1, 5):
                kept[r, column] = listed[r, column]
    return number, changed


@compiled
def tell_part(
    row: Any, kept: Any, listed: Any, at: Any, tables: Any, place: Any, straight: bool, left: Any, limit: Any,
    moved: Any, K: int, counted: bool, mark: int,
) -> tuple[int, bool]:  # fmt: skip
    """Bound an area by what the coarser area leaves to it. Returns the same as `close_area`."""
    number, changed = len(kept), False
    for t in range(len(tables) - 1):
        fell = False
        if straight:  # most tables gain nothing, which is quick to see
            beyond = 0
            for c in range(tables[t], tables[t + 1]):
                beyond += (row[c] > limit[c]) & (row[c] != mark)
            if beyond == 0:
                continue
        for c in range(tables[t], tables[t + 1]):
            high = np.int64(row[c])
            if high == 0 or high == mark:
                continue
            g = place[c]
            if g < 0 or high <= limit[g]:
                continue
            rest = (left[0, g], left[1, g], left[2, g], left[3, g])
            number, one = _told(row, listed, number, at, c, rest, K, counted, mark)
            fell |= one
        if fell:
            moved[t] = 1
            changed = True
    for r in range(len(kept)):
        g = place[kept[r, 0]]
        if g < 0:
            continue
        one = _met(kept, r, 1, left[0, g] + kept[r, 2], left[1, g] + kept[r, 1])
        if counted:
            one |= _met(kept, r, 3, left[2, g] + kept[r, 4], left[3, g] + kept[r, 3])
            if one:
                _ruled(kept, r, K)
        if one:
            moved[np.searchsorted(tables, kept[r, 0], side="right") - 1] = 1
            changed = True
    if number > len(kept):
        listed[: len(kept)] = kept
    return number, changed


@compiled
def leap(row: Any, kept: Any, tables: Any, gap: int, moved: Any, mark: int) -> bool:
    """Narrow the bounds of an area's numbers, each of which is 0 or at least `gap`; return whether any moved.

    tables: where each table begins. moved: which tables moved.
    """
    changed = False
    for t in range(len(tables) - 1):
        for c in range(tables[t], tables[t + 1]):
            if row[c] > 0 and row[c] < gap and row[c] != mark:
                row[c] = 0
                moved[t] = 1
                changed = True
    for r in range(len(kept)):
        low = gap if kept[r, 1] > 0 and kept[r, 1] < gap else 0
        high = 0 if kept[r, 2] < gap else kept[r, 2]
        if _met(kept, r, 1, low, high):
            moved[np.searchsorted(tables, kept[r, 0], side="right") - 1] = 1
            changed = True
    return changed


@compiled
def rule(kept: Any, K: int) -> None:
    """Propagate bounds between sums and numbers of occupied cells, for all listed cells."""
    for r in range(len(kept)):
        _ruled(kept, r, K)


@compiled
def parts_of_rows(base: Any, up: Any, rows: Any, areas: int, K: int, found: Any, work: Any) -> int:
    """What the finest table says about each cell of a table that holds a listed finest cell or is listed itself.

    base: where the rows of each area begin in the finest table, their cells and values. up: the table's cell above each
    finest cell. rows: the same as base, for the table itself. found: area, cell, cells at K, large cells, their sum,
    listed small cells, the value, and the number of its row or -1. work: six numbers for each cell, all 0 except the
    last.
    """
    base_at, base_cell, base_value = base
    row_at, row_cell, row_value = rows
    number = 0
    for a in range(areas):
        start = number
        for i in range(base_at[a], base_at[a + 1]):
            c, value = up[base_cell[i]], base_value[i]
            if work[c, 5] < 0:
                work[c, 5] = number
                found[number, 0], found[number, 1] = a, c
                found[number, 7] = -1
                number += 1
            if value > K:
                work[c, 1] += 1
                work[c, 2] += value
            else:
                work[c, 3] += 1
                if value == K:
                    work[c, 0] += 1
        for i in range(row_at[a], row_at[a + 1]):
            c = row_cell[i]
            if work[c, 5] < 0:
                work[c, 5] = number
                found[number, 0], found[number, 1] = a, c
                number += 1
            work[c, 4] = row_value[i]
            found[work[c, 5], 7] = i
        for r in range(start, number):
            c = found[r, 1]
            for column in range(5):
                found[r, 2 + column] = work[c, column]
                work[c, column] = 0
            work[c, 5] = -1
    return number
