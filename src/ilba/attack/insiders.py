"""Insiders: attackers who know everybody except n people, or every count except some, and what a release adds.

An insider who lacks n people knows the number of all other people in each cell, and that n are missing. Take a cell
whose people are all missing. The insider proves that it is not empty when these people fit nowhere else.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ilba.attack.attackers import Insight, Known
from ilba.attack.intervals import FAR, Intervals, at
from ilba.attack.masknumbers import MaskNumbers
from ilba.methods import masking
from ilba.methods.controlled.kernels import compiled

IntArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]

_PASSES = 3
"""the rounds of propagation between cells and sums, for an insider who lacks several people"""


class Missing(NamedTuple):
    """What an insider who lacks some people knows about small cells whose people are all missing."""

    insight: Insight
    certified: BoolArray
    """whether these people fit elsewhere with the same release"""


@compiled
def elsewhere(cells: Any, member: Any, sets: Any, fits: Any, state: Any, people: int) -> Any:
    """Whether all people of each cell would fit into some other cell.

    fits: for each sum, whether it may have `people` fewer, the same number or more, and one occupied cell fewer, the
    same number or more. state: counts, largest counts, whether masked to K, and by the mask of the cell, the count and
    the mask of the other one, whether the numbers of masks fit.
    """
    first, of_set = sets
    counts, high, at_k, moving = state
    tables = member.shape[1]
    found = np.zeros(len(cells), np.bool_)
    everybody = np.arange(member.shape[0])
    for i in range(len(cells)):
        c = cells[i]
        least, among = member.shape[0] + 1, everybody
        for k in range(tables):  # if a sum must not lose them, they have to stay in it
            a = member[c, k]
            size = first[a + 1] - first[a]
            if not fits[0, 0, a] and size < least:
                least, among = size, of_set[first[a] : first[a + 1]]
        begin = (i * 7919) % max(len(among), 1)
        for r in range(len(among)):
            j = among[(begin + r) % len(among)]
            if j == c or counts[j] + people > high[j] or not moving[at_k[c], counts[j], at_k[j]]:
                continue
            new = 1 if counts[j] == 0 else 0
            good = True
            for k in range(tables):
                a, b = member[c, k], member[j, k]
                good = fits[1, new, a] if a == b else fits[0, 0, a] and fits[2, 1 + new, b]
                if not good:
                    break
            if good:
                found[i] = True
                break
    return found


def everybody_but(
    known: Known,
    counts: IntArray,
    unknown: int,
    cells: int = 200,
    seed: int = 2010,
    numbers: MaskNumbers | None = None,
) -> Missing:
    """What an insider who lacks some people proves about the small cells whose people are all missing.

    For one person the answer is complete: the person is in this cell, or would fit into another one. For several
    people, intervals give proofs. A world in which all people of the cell are in another cell gives a certificate.

    Parameters
    ----------
    known : Known
        What everybody can prove from the release.
    counts : array of int
        The true count of each cell of it.
    unknown : int
        How many people are missing. Those outside the cell are from the same area.
    cells : int, default 200
        With several people: how many small cells are tried.
    seed : int, default 2010
        Selects the cells that are tried, and the other missing people.
    numbers : MaskNumbers, optional
        The numbers of masks that the insider counts, where a rule fixes them.

    Returns
    -------
    Missing
        Low and high of each tried cell, and whether a counterexample certifies it.
    """
    view, K = known.view, known.view.K
    masked = at(view.tables[view.lattice.base].packed, view.tables[view.lattice.base].value, known.packed) == K
    open_ = Intervals.of(view, (known.packed, masked.astype(np.int64), np.where(masked, K, K - 1)))
    own = at(known.packed, counts, open_.packed)
    tried = np.flatnonzero((own > 0) & (own < K) & (own <= unknown))
    rng = np.random.default_rng(seed)
    if unknown > 1 and len(tried) > cells:
        tried = np.sort(rng.choice(tried, cells, replace=False))
    may_leave = _may_leave(open_, own, tried, numbers)
    if unknown == 1:
        low, high = np.where(may_leave, 0, 1), np.ones(len(tried), np.int64)
    else:
        low, high = _proven(open_, own, tried, unknown, view.lattice.width(view.lattice.base), rng)
    return Missing(Insight(open_.packed[tried], own[tried], low, high), may_leave)


def _may_leave(known: Intervals, own: IntArray, tried: IntArray, numbers: MaskNumbers | None) -> BoolArray:
    """For each tried cell, whether all its people would fit into one other cell."""
    flat = known.member.reshape(-1)
    order = np.argsort(flat, kind="stable")
    first = np.searchsorted(flat[order], np.arange(len(known.least) + 1))
    sets = first, (order // max(known.member.shape[1], 1)).astype(np.int64)
    found: BoolArray = np.zeros(len(tried), dtype=bool)
    at_k, anywhere = known.at_k.astype(np.int64), np.ones((2, known.K + 1, 2), dtype=bool)
    for people in np.unique(own[tried]).tolist():
        which = (own[tried] == people) & (known.low[tried] == 0)  # a cell masked to K is occupied
        fits = _fitting(known, own, people)
        state = own, known.high, at_k, anywhere if numbers is None else numbers.moving(people)
        found[which] = elsewhere(tried[which], known.member, sets, fits, state, people)
    return found


def _fitting(known: Intervals, own: IntArray, people: int) -> BoolArray:
    """Whether each sum fits with `people` fewer, the same or more, by the change in occupied cells."""
    total, rule = known.sums(own), known.occupancy
    n = None if rule is None else known.sums((own > 0).astype(np.int64)) + rule.n_settled
    found: BoolArray = np.zeros((3, 3, len(total)), dtype=bool)
    for place, by in enumerate((-people, 0, people)):
        for other, change in enumerate((-1, 0, 1)):
            least, most = known.least, known.most
            if rule is not None and n is not None:
                ends = masking.preimage(rule.released, np.maximum(n + change, 0), rule.at_k, known.K)
                least, most = (
                    np.where(rule.exact, end, way - rule.sum_settled)
                    for end, way in zip((least, most), ends, strict=True)
                )
            found[place, other] = (least <= total + by) & (total + by <= most)
    return found


def _proven(
    known: Intervals, own: IntArray, tried: IntArray, unknown: int, width: int, rng: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Low and high of each tried cell for an insider who lacks its people and others of its area."""
    lows, highs = [], []
    everybody = np.full((len(own), 1), len(known.least), np.int32)
    member = np.concatenate([known.member, everybody], axis=1)
    total = np.append(known.sums(own), own.sum())
    least = np.append(np.maximum(known.least, -FAR), own.sum())
    most = np.append(np.minimum(known.most, FAR), own.sum())
    area = known.packed // width
    for c in tried.tolist():
        near = np.flatnonzero((area == area[c]) & (np.arange(len(own)) != c))
        people = np.repeat(near, own[near])
        others = rng.choice(people, min(unknown - int(own[c]), len(people)), replace=False)
        missing = np.bincount(np.append(others, np.full(int(own[c]), c)), minlength=len(own))
        low = np.maximum(own - missing, known.low)
        high = np.minimum(known.high, own - missing + int(missing.sum()))
        lacking = np.flatnonzero(missing)
        for _ in range(_PASSES):
            lost = np.zeros(len(total), np.int64)
            np.add.at(lost, member[lacking], (own - low)[lacking][:, None])
            room = most - total + lost  # how far the lows of a sum may grow
            high = np.minimum(high, low + np.minimum.reduce(room[member], axis=1))
            top = np.zeros(len(total), np.int64)
            for place in member.T:
                top += np.bincount(place, high, minlength=len(total)).astype(np.int64)
            need = (least - top)[member[lacking]].max(axis=1)  # what the others together cannot supply
            low[lacking] = np.maximum(low[lacking], need + high[lacking])
        lows.append(int(low[c]))
        highs.append(int(high[c]))
    return np.array(lows, dtype=np.int64), np.array(highs, dtype=np.int64)
