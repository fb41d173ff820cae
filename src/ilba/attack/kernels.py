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


@compiled
def _ruled(low: Any, high: Any, least: Any, most: Any, i: int, K: int, rules: Any, r: int) -> bool:
    """Let the sum of small cells and the number of occupied ones of a cell tell each other what they know.

    A rule, where a released sum is above 0, is |S_K|, the end of its block and how many cells may be shifted.
    """
    changed = False
    while True:
        lo, hi, few, many = low[i], high[i], least[i], most[i]
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
            few = max(few, -((at_k - lo) // (K - 1)))
            if lo > block_end:
                many = min(many, most_shifted)
        if lo == low[i] and hi == high[i] and few == least[i] and many == most[i]:
            return changed
        low[i], high[i], least[i], most[i] = lo, hi, few, many
        changed = True


@compiled
def _settle(low: Any, high: Any, parent: int, members: Any, moved: Any) -> int:
    """Let a cell and its parts tell each other what they know; `moved` is filled with those that moved."""
    sum_low = sum_high = 0
    for c in members:
        sum_low += low[c]
        sum_high += high[c]
    n = 0
    least, most = low[parent], high[parent]
    if sum_low > least or sum_high < most:
        # A low above the high is a contradiction; one more than the high is enough to show it.
        low[parent] = min(max(least, sum_low), max(most + 1, least))
        high[parent] = max(min(most, sum_high), -1)
        moved[0] = parent
        n = 1
    low_left, high_left = low[parent] - sum_high, high[parent] - sum_low
    # The parts can only gain where the whole knows more than their sum does.
    if low[parent] <= sum_low and high[parent] >= sum_high:
        return n
    for c in members:
        least, most = low[c], high[c]
        if least == most:
            continue
        new_least, new_most = low_left + most, high_left + least
        if new_least > least or new_most < most:
            if new_least > least:
                low[c] = min(new_least, most + 1)
            if new_most < most:
                high[c] = max(new_most, -1)
            moved[n] = c
            n += 1
    return n


@compiled
def close_areas(
    sides: Any, counted: bool, K: int, families: Any, of_cell: Any, rules: Any, marks: Any, queue: Any, waiting: Any
) -> int:
    """Let the tables of each area tell each other what they know until nothing moves; the clock is returned.

    sides: low and high of sums, then of numbers of occupied cells, areas x cells. families: the parents, and where the
    members of each are listed; of_cell: the families of each cell. rules: the number of each cell's rule, and the
    rules. marks: which cells moved from outside, when each area last moved, when it was last looked at, the clock.
    """
    parents, member_at, members = families
    family_at, family_of = of_cell
    rule_of, rule = rules
    dirty, stamp, looked, clock = marks
    width, number = sides[0].shape[1], len(parents)
    moved = np.empty(2 * (width + 2), np.int64)
    for a in range(len(sides[0])):
        if stamp[a] <= looked[a]:
            continue
        low, high, least, most = sides[0][a], sides[1][a], sides[2][a], sides[3][a]
        head = tail = 0
        changed = False
        first = looked[a] == 0
        if first:  # everything is new
            for i in range(width if counted else 0):
                _ruled(low, high, least, most, i, K, rule, rule_of[a, i])
            for f in range(number):
                queue[f] = f
                waiting[f] = 1
            tail = number
        else:
            for i in range(width):
                if dirty[a, i]:
                    if counted:
                        changed |= _ruled(low, high, least, most, i, K, rule, rule_of[a, i])
                    for k in range(family_at[i], family_at[i + 1]):
                        f = family_of[k]
                        if not waiting[f]:
                            waiting[f] = 1
                            queue[tail % number] = f
                            tail += 1
        dirty[a] = 0
        while head < tail:
            f = queue[head % number]
            head += 1
            waiting[f] = 0
            own = members[member_at[f] : member_at[f + 1]]
            n = _settle(low, high, parents[f], own, moved)
            if counted:
                n += _settle(least, most, parents[f], own, moved[n:])
            for m in range(n):
                c = moved[m]
                again = False
                if counted:
                    again = _ruled(low, high, least, most, c, K, rule, rule_of[a, c])
                for k in range(family_at[c], family_at[c + 1]):
                    g = family_of[k]
                    # A family that has just settled has nothing new to tell itself, unless a rule moved it.
                    if not waiting[g] and (g != f or again):
                        waiting[g] = 1
                        queue[tail % number] = g
                        tail += 1
            changed |= n > 0
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
