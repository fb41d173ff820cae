"""Compiled loops of the attack: cells that tell each other what they know, one area after the other.

All tables of one level are kept as one row of whole numbers for each area: a table's cells are a run in it. A *family*
is a cell and the cells of a finer table that add up to it. Inside an area only families are looked at of which a cell
has moved, in the order in which they were called. Areas tell their region, and the region them, from row to row. The
numpy code in `bounds` says the same in array operations; it writes down steps for explanations, and is the oracle of
these loops in the tests.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ilba.methods.controlled.kernels import compiled

_RARE = 20
"""families are called one by one when fewer than one cell in so many moves"""


@compiled
def _ruled(x: Any, i: int, K: int, rule_of: Any, rules: Any, a: int) -> bool:
    """Let the sum of small cells and the number of occupied ones of a cell tell each other what they know.

    A rule, where a released sum is above 0, is |S_K|, the end of its block and how many cells may be shifted.
    """
    changed = False
    r = rule_of[a, i]
    while True:
        lo, hi, few, many = x[i, 0], x[i, 1], x[i, 2], x[i, 3]
        if lo > 0 and few < 1:
            few = 1
        lo = max(lo, min(few, hi + 1))
        many = min(many, max(hi, -1))
        if many == 0 and hi > 0:
            hi = 0
        if r >= 0:
            at_k, block_end, most_shifted = rules[r, 0], rules[r, 1], rules[r, 2]
            # f <= |S_K| + (K-1)|S|, and beyond its own block only while |S| is small enough for a type 2 shift.
            shifted = min(many, most_shifted)
            top = block_end
            if shifted >= few:
                top = max(at_k + (K - 1) * shifted, block_end)
            hi = min(hi, min(top, at_k + (K - 1) * many))
            if at_k + (K - 1) * few < lo:
                few = -((at_k - lo) // (K - 1))
            if lo > block_end:
                many = min(many, most_shifted)
        if lo == x[i, 0] and hi == x[i, 1] and few == x[i, 2] and many == x[i, 3]:
            return changed
        x[i, 0], x[i, 1], x[i, 2], x[i, 3] = lo, hi, few, many
        changed = True


@compiled
def _acts(x: Any, sums: Any, p: int, f: int, kinds: int) -> bool:
    """Whether a family has something to tell: its parts to the whole, or the whole to the widest of its parts."""
    for kind in range(kinds):
        low, high, least, most = x[p, 2 * kind], x[p, 2 * kind + 1], sums[f, 3 * kind], sums[f, 3 * kind + 1]
        widest = sums[f, 3 * kind + 2]
        if least > low or most < high or widest > most - low or widest > high - least:
            return True
    return False


@compiled
def _called(
    x: Any, sums: Any, parents: Any, family_at: Any, family_of: Any, queue: Any, waiting: Any, c: int, old: Any,
    tail: int, kinds: int,
) -> int:  # fmt: skip
    """Add what a cell moved by to the sums of its families, and call those that have something to tell."""
    for k in range(family_at[c], family_at[c + 1]):
        f = family_of[k]
        p = parents[f]
        if p != c:
            for kind in range(kinds):
                sums[f, 3 * kind] += x[c, 2 * kind] - old[2 * kind]
                sums[f, 3 * kind + 1] += x[c, 2 * kind + 1] - old[2 * kind + 1]
        if waiting[f] == 0 and _acts(x, sums, p, f, kinds):
            waiting[f] = 1
            queue[tail % len(queue)] = f
            tail += 1
    return tail


@compiled
def _summed(x: Any, sums: Any, member_at: Any, members: Any, f: int, kinds: int) -> None:
    """Of a family the sums of lows and of highs of its parts, and how wide the widest part is."""
    for kind in range(kinds):
        least = most = widest = 0
        for k in range(member_at[f], member_at[f + 1]):
            low, high = x[members[k], 2 * kind], x[members[k], 2 * kind + 1]
            least += low
            most += high
            widest = max(widest, high - low)
        sums[f, 3 * kind], sums[f, 3 * kind + 1], sums[f, 3 * kind + 2] = least, most, widest


@compiled
def _first_called(
    x: Any, sums: Any, parents: Any, member_at: Any, members: Any, family_at: Any, family_of: Any, queue: Any,
    waiting: Any, dirty: Any, a: int, first: bool, kinds: int,
) -> int:  # fmt: skip
    """Call the families that have something to tell: of all of them, or of those in which a cell moved from outside."""
    tail = 0
    if first:
        for f in range(len(parents)):
            _summed(x, sums, member_at, members, f, kinds)
            if _acts(x, sums, parents[f], f, kinds):
                waiting[f] = 1
                queue[tail] = f
                tail += 1
        return tail
    for i in range(len(x)):
        if dirty[a, i]:
            dirty[a, i] = 0
            for k in range(family_at[i], family_at[i + 1]):
                f = family_of[k]
                if waiting[f] == 0:
                    waiting[f] = 1
                    queue[tail] = f
                    tail += 1
    left = 0
    for t in range(tail):
        f = queue[t]
        _summed(x, sums, member_at, members, f, kinds)
        if _acts(x, sums, parents[f], f, kinds):
            queue[left] = f
            left += 1
        else:
            waiting[f] = 0
    return left


@compiled
def _swept(
    x: Any, parents: Any, member_at: Any, members: Any, K: int, rule_of: Any, rules: Any, a: int, kinds: int, down: bool
) -> int:
    """Settle every family once, from the finest tables up or down to them; how many times a cell moved."""
    moved, number = 0, len(parents)
    for step in range(number):
        f = number - 1 - step if down else step
        p, first, last = parents[f], member_at[f], member_at[f + 1]
        for kind in range(kinds):
            lo, hi = 2 * kind, 2 * kind + 1
            least = most = widest = 0
            for k in range(first, last):
                c = members[k]
                low, high = x[c, lo], x[c, hi]
                least += low
                most += high
                widest = max(widest, high - low)
            was_low, was_high = x[p, lo], x[p, hi]
            if least > was_low or most < was_high:
                # A low above the high is a contradiction; one more than the high is enough to show it.
                x[p, lo] = min(max(was_low, least), max(was_high + 1, was_low))
                x[p, hi] = max(min(was_high, most), -1)
                moved += 1
                if kinds == 2:
                    _ruled(x, p, K, rule_of, rules, a)
            low_left, high_left = x[p, lo] - most, x[p, hi] - least
            if widest <= -low_left and widest <= high_left:
                continue
            for k in range(first, last):
                c = members[k]
                low, high = x[c, lo], x[c, hi]
                if low_left + high > low or high_left + low < high:
                    x[c, lo] = max(low, min(low_left + high, high + 1))
                    x[c, hi] = min(high, max(high_left + low, -1))
                    moved += 1
                    if kinds == 2:
                        _ruled(x, c, K, rule_of, rules, a)
    return moved


@compiled
def add_up(sides: Any, families: Any, room: Any) -> None:
    """For each area and family the sums of lows and of highs of the parts, and how wide the widest part is."""
    _, member_at, members = families
    for kind in range(len(sides) // 2):
        low, high = sides[2 * kind], sides[2 * kind + 1]
        for a in range(len(low)):
            for f in range(len(member_at) - 1):
                least = most = widest = 0
                for k in range(member_at[f], member_at[f + 1]):
                    c = members[k]
                    least += low[a, c]
                    most += high[a, c]
                    widest = max(widest, high[a, c] - low[a, c])
                room[a, f, 3 * kind], room[a, f, 3 * kind + 1], room[a, f, 3 * kind + 2] = least, most, widest


@compiled
def close_areas(
    sides: Any, counted: bool, K: int, families: Any, of_cell: Any, rules: Any, marks: Any, line: Any, room: Any
) -> int:
    """Let the tables of each area tell each other what they know until nothing moves; the clock is returned.

    sides: low and high of sums, then of numbers of occupied cells, areas x cells. families: the parents, and where the
    members of each are listed; of_cell: the families of each cell. rules: the number of each cell's rule, and the
    rules. marks: which cells moved from outside, when each area last moved, when it was last looked at, the clock.
    line, room: to work in: the families that wait, the bounds of each cell, and for each area the sums of each family,
    which are kept until it is looked at again.
    """
    parents, member_at, members = families
    family_at, family_of = of_cell
    rule_of, rule = rules
    dirty, stamp, looked, clock = marks
    queue, waiting = line
    x, room_of = room
    low, high, least, most = sides
    width, number, kinds = low.shape[1], len(parents), 2 if counted else 1
    old = np.zeros(4, np.int64)
    for a in range(len(low)):
        if stamp[a] <= looked[a]:
            continue
        first, changed, sums = looked[a] == 0, False, room_of[a]
        for i in range(width):
            x[i, 0], x[i, 1] = low[a, i], high[a, i]
            if counted:
                x[i, 2], x[i, 3] = least[a, i], most[a, i]
                if first or dirty[a, i]:
                    changed |= _ruled(x, i, K, rule_of, rule, a)
        if first:  # most cells move then, and one after the other is quicker than in the order of their calls
            moves, down = width, True
            while moves * _RARE > width:
                moves = _swept(x, parents, member_at, members, K, rule_of, rule, a, kinds, down)
                down, changed = not down, True
        head, tail = (
            0,
            _first_called(
                x, sums, parents, member_at, members, family_at, family_of, queue, waiting, dirty, a, first, kinds
            ),
        )
        while head < tail:
            f = queue[head % number]
            head += 1
            p, moved = parents[f], False
            for kind in range(kinds):
                lo, hi = 2 * kind, 2 * kind + 1
                was_low, was_high = x[p, lo], x[p, hi]
                if sums[f, 3 * kind] > was_low or sums[f, 3 * kind + 1] < was_high:
                    for side in range(4):
                        old[side] = x[p, side]
                    # A low above the high is a contradiction; one more than the high is enough to show it.
                    x[p, lo] = min(max(was_low, sums[f, 3 * kind]), max(was_high + 1, was_low))
                    x[p, hi] = max(min(was_high, sums[f, 3 * kind + 1]), -1)
                    if x[p, lo] != was_low or x[p, hi] != was_high:
                        moved = True
                        if counted:
                            _ruled(x, p, K, rule_of, rule, a)
                        tail = _called(x, sums, parents, family_at, family_of, queue, waiting, p, old, tail, kinds)
                widest = sums[f, 3 * kind + 2]
                if widest <= sums[f, 3 * kind + 1] - x[p, lo] and widest <= x[p, hi] - sums[f, 3 * kind]:
                    continue
                widest = 0
                for k in range(member_at[f], member_at[f + 1]):
                    c = members[k]
                    was_low, was_high = x[c, lo], x[c, hi]
                    if was_low == was_high:
                        continue
                    new_low = x[p, lo] - sums[f, 3 * kind + 1] + was_high
                    new_high = x[p, hi] - sums[f, 3 * kind] + was_low
                    if new_low > was_low or new_high < was_high:
                        moved = True
                        for side in range(4):
                            old[side] = x[c, side]
                        if new_low > was_low:
                            x[c, lo] = min(new_low, was_high + 1)
                        if new_high < was_high:
                            x[c, hi] = max(new_high, -1)
                        if counted:
                            _ruled(x, c, K, rule_of, rule, a)
                        tail = _called(x, sums, parents, family_at, family_of, queue, waiting, c, old, tail, kinds)
                    widest = max(widest, x[c, hi] - x[c, lo])
                sums[f, 3 * kind + 2] = widest
            waiting[f] = 0
            changed |= moved
            if moved and _acts(x, sums, p, f, kinds):
                waiting[f] = 1
                queue[tail % number] = f
                tail += 1
        if changed:
            for i in range(width):
                low[a, i], high[a, i] = x[i, 0], x[i, 1]
                if counted:
                    least[a, i], most[a, i] = x[i, 2], x[i, 3]
        clock += 1
        if changed or first:
            stamp[a] = clock
        looked[a] = clock
    return int(clock)


@compiled
def settle_levels(
    parent: Any, child: Any, place: Any, starts: Any, beside: Any, marks: Any, seen: Any, clock: int, work: Any
) -> int:
    """Let the same table of coarser and of finer areas tell each other what they know; the clock is returned.

    place: where the cells begin in the parent's row and in the child's, and how many they are. beside: what lies in
    other parts of the same parents, or nothing. marks: the cells that moved and the stamps, of parents and children.
    """
    parent_low, parent_high = parent
    low, high = child
    beside_low, beside_high = beside
    parent_dirty, parent_stamp, child_dirty, child_stamp = marks
    here, there, width = place[0], place[1], place[2]
    sum_low, sum_high, low_left, high_left = work[0], work[1], work[2], work[3]
    for g in range(len(parent_low)):
        first, last = starts[g], starts[g + 1]
        newest = parent_stamp[g]
        for a in range(first, last):
            newest = max(newest, child_stamp[a])
        if newest <= seen[g]:
            continue
        clock += 1
        for i in range(width):
            sum_low[i] = beside_low[g, i] if beside_low.size else 0
            sum_high[i] = beside_high[g, i] if beside_high.size else 0
        for a in range(first, last):
            for i in range(width):
                sum_low[i] += low[a, there + i]
                sum_high[i] += high[a, there + i]
        up = tighter = False
        for i in range(width):
            least, most = parent_low[g, here + i], parent_high[g, here + i]
            if sum_low[i] > least or sum_high[i] < most:
                parent_low[g, here + i] = min(max(least, sum_low[i]), max(most + 1, least))
                parent_high[g, here + i] = max(min(most, sum_high[i]), -1)
                parent_dirty[g, here + i] = 1
                up = True
            low_left[i] = parent_low[g, here + i] - sum_high[i]
            high_left[i] = parent_high[g, here + i] - sum_low[i]
            tighter |= parent_low[g, here + i] > sum_low[i] or parent_high[g, here + i] < sum_high[i]
        if up:
            parent_stamp[g] = clock
        seen[g] = clock
        for a in range(first, last if tighter else first):
            down = False
            for i in range(width):
                least, most = low[a, there + i], high[a, there + i]
                if low_left[i] + most > least:
                    low[a, there + i] = min(low_left[i] + most, most + 1)
                    child_dirty[a, there + i] = 1
                    down = True
                if high_left[i] + least < most:
                    high[a, there + i] = max(high_left[i] + least, -1)
                    child_dirty[a, there + i] = 1
                    down = True
            if down:
                clock += 1
                child_stamp[a] = clock
    return clock


@compiled
def settle_mapped(parent: Any, child: Any, groups: Any, beside: Any) -> tuple[bool, bool]:
    """Let any two tables tell each other what they know: `groups` is the parent's place of each child's cell."""
    parent_low, parent_high = parent
    low, high = child
    beside_low, beside_high = beside
    sum_low, sum_high = np.zeros(len(parent_low), np.int64), np.zeros(len(parent_low), np.int64)
    if beside_low.size:
        sum_low += beside_low
        sum_high += beside_high
    for i in range(len(low)):
        sum_low[groups[i]] += low[i]
        sum_high[groups[i]] += high[i]
    up = down = tighter = False
    for g in range(len(parent_low)):
        least, most = parent_low[g], parent_high[g]
        up |= (sum_low[g] > least) | (sum_high[g] < most)
        parent_low[g] = min(max(least, sum_low[g]), max(most + 1, least))
        parent_high[g] = max(min(most, sum_high[g]), -1)
        tighter |= (parent_low[g] > sum_low[g]) | (parent_high[g] < sum_high[g])
    for i in range(len(low) if tighter else 0):
        g = groups[i]
        least, most = low[i], high[i]
        if parent_low[g] - sum_high[g] + most > least:
            low[i] = min(parent_low[g] - sum_high[g] + most, most + 1)
            down = True
        if parent_high[g] - sum_low[g] + least < most:
            high[i] = max(parent_high[g] - sum_low[g] + least, -1)
            down = True
    return up, down
