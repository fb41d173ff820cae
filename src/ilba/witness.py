"""Witnesses: other truths that would have led to the same release, in which a small cell is not small.

Where the truth is known, the simplest ones are looked for: set one cell masked to 0 to 0 (one masked to K to K), and
either leave it at that, or let one other cell that differs in a single variable make up for it, so that every table
without this variable stays as it is. Such a world is checked against all released numbers. It shows that nobody can
prove the cell small; that none of these worlds fits shows nothing.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba import masking
from ilba.lattice import Node, selection_of
from ilba.published import Published, Rows, Truth

IntArray: TypeAlias = npt.NDArray[np.int64]


class Room(NamedTuple):
    """By how much the small-cell sum of each aggregate may change before its released value does."""

    down: IntArray
    up: IntArray
    down_fewer: IntArray
    """the same when one occupied cell becomes empty, which matters in the observed reading"""
    up_fewer: IntArray


def room(published: Published, node: Node, rows: Rows, truth: Truth) -> Room:
    """The room of each row of a table, from the true sums."""
    K, policy = published.K, published.policy
    n, at_k, f, large = (part.astype(np.int64) for part in truth)
    released = rows.value - large
    if policy.scheme == "sca":
        low = np.where(released == 0, 0, np.where(released == K, 1, released))
        high = np.where(released == 0, K - 1, released)
        return Room(low - f, high - f, low - f, high - f)
    low, high = masking.preimage(released, n, at_k, K)
    if rows.type1 is not None and rows.type2 is not None:
        block, _ = masking.candidates(f, K)
        several = (n >= 2) & (released > 0)
        low = np.where(several, np.maximum(low, block), low)
        high = np.where(several, np.minimum(high, block + K - 1), high)
    if policy.listed:  # an empty cell would not be listed, so no cell may become empty
        nothing = np.ones_like(f)
        return Room(low - f, high - f, nothing, -nothing)
    if published.cells == "grid":
        return Room(low - f, high - f, low - f, high - f)
    low_fewer, high_fewer = masking.preimage(released, n - 1, at_k, K)
    possible = low_fewer <= high_fewer
    return Room(low - f, high - f, np.where(possible, low_fewer - f, 1), np.where(possible, high_fewer - f, -1))


def witnessed(published: Published) -> npt.NDArray[np.bool_]:
    """For each row of the finest table whether a witness was found; only for rows with a true count in 1..K-1."""
    lattice, codes, K = published.lattice, published.codes, published.K
    rows = published.tables[lattice.base]
    assert rows.truth is not None  # noqa: S101 - callers ask for witnesses only where the truth is known
    found = np.zeros(len(rows.packed), dtype=bool)
    occupied = np.flatnonzero(rows.truth.sum_large == 0)  # cells of 1..K, which may take part in a change
    packed, count = rows.packed[occupied], rows.truth.sum_small[occupied].astype(np.int64)
    at_k = rows.value[occupied] == K
    packing = codes.packing(selection_of(codes.design, lattice.base))

    axes = range(len(codes.lists))
    far = np.int64(2**40)
    present = {d: [np.full(len(packed), sign * far) for sign in (-1, 1, -1, 1)] for d in (-1, *axes)}
    still = {d: np.ones(len(packed), dtype=bool) for d in axes}
    for node, table in published.tables.items():
        if node == lattice.base or table.truth is None:
            continue
        target = codes.packing(selection_of(codes.design, node))
        place = np.searchsorted(table.packed, packing.project([packed], target, codes.lists)[0])
        here = [part[place] for part in room(published, node, table, table.truth)]
        fits = (here[2] <= 0) & (here[3] >= 0)
        for d in (-1, *axes):
            if d == -1 or node[d] == lattice.base[d]:
                down, up, down_fewer, up_fewer = present[d]
                np.maximum(down, here[0], out=down)
                np.minimum(up, here[1], out=up)
                np.maximum(down_fewer, here[2], out=down_fewer)
                np.minimum(up_fewer, here[3], out=up_fewer)
            else:
                still[d] &= fits

    def alone(d: int) -> npt.NDArray[np.bool_]:
        """Whether the tables that have the variable d allow the cell to move to 0, or to K."""
        down, up, down_fewer, up_fewer = present[d]
        to_zero = ~at_k & (down_fewer <= -count) & (-count <= up_fewer)
        to_threshold = at_k & (down <= K - count) & (K - count <= up)
        either: npt.NDArray[np.bool_] = to_zero | to_threshold
        return either

    good = alone(-1)
    digits = packing.digits([packed])
    for d in axes:
        fibre = _fibres(published, digits, d)
        down, up, _, _ = present[d]
        gain = np.minimum(up, np.where(at_k, K, K - 1) - count)
        lose = np.minimum(-down, count - 1)
        partner = np.where(at_k, _best_other(fibre, lose) >= K - count, _best_other(fibre, gain) >= count)
        good |= alone(d) & partner & (at_k | still[d])
    found[occupied] = good & (count < K)
    return found


def _fibres(published: Published, digits: list[IntArray], axis: int) -> IntArray:
    """A number for the cells that differ in one variable only, inside the same next coarser released area."""
    lattice, lists = published.lattice, published.codes.lists
    coarser = [node[axis] for node in lattice.nodes if node[axis] < lattice.base[axis]]
    # The digits of the base, each with its dimension: a dimension that no table shows has none.
    shown = [d for d, level in enumerate(lattice.base) if level]
    fibre = np.zeros(len(digits[0]), dtype=np.int64)
    for d, digit in zip(shown, digits, strict=True):
        level = lattice.base[d]
        if d == axis:
            level = max(coarser, default=0)
            digit = lists[d].parents(lattice.base[d], level)[digit]
        fibre = fibre * lists[d].size(level) + digit
    return fibre


def _best_other(group: IntArray, value: IntArray) -> IntArray:
    """The largest value among the others of the same group."""
    order = np.lexsort((value, group))
    sorted_group, sorted_value = group[order], value[order]
    last = np.append(np.flatnonzero(np.diff(sorted_group)), len(group) - 1) if len(group) else np.zeros(0, np.int64)
    first = np.append(0, last[:-1] + 1) if len(last) else last
    lowest = np.iinfo(np.int64).min
    second = np.where(last > first, sorted_value[np.maximum(last - 1, 0)], lowest)
    sizes = last - first + 1
    best = np.repeat(sorted_value[last], sizes)
    best[last] = second
    out = np.empty_like(best)
    out[order] = best
    return out
