"""Mending on toys: every world is tried, and every value that iLBA may release."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ilba.attack.counterexamples import INTERVAL, RULE, Conditions, Worlds
from ilba.attack.mending import amiss, ends, outside
from ilba.methods import masking


@pytest.mark.parametrize("masks_are_known", [True, False])
def test_on_toys_another_world_is_found_for_each_count_that_is_not_small_in_every_world(masks_are_known):
    rng, K, seen = np.random.default_rng(1), 3, {True: 0, False: 0}
    member = np.array([[0, 2], [0, 2], [1, 2], [1, 2]], np.int32)  # two sums of two cells, and their total
    inside = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1]])
    nothing = np.zeros(3, np.int64)
    every = np.array(list(itertools.product([(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (3, 1)], repeat=4)))
    counts, masks = every[:, :, 0], every[:, :, 1]
    for number in range(24):
        x, z = every[rng.integers(len(every))].T.copy()
        occupied = not masks_are_known and number % 2 == 0  # whether empty cells are no small cells
        small = nothing if masks_are_known or occupied else np.array([2, 2, 4])
        n = (counts > 0) @ inside if occupied else np.tile(small, (len(every), 1))
        shown = masking.ilba(n, masks @ inside, counts @ inside, K).sum_masked
        truth = (counts == x).all(1) & (masks == z).all(1)
        least, most = x @ inside - rng.integers(0, 2, 3), x @ inside + rng.integers(0, 2, 3)
        told = Conditions(
            K,
            z if masks_are_known else np.zeros(4, np.int64),
            K - 1 + z if masks_are_known else np.full(4, K),
            np.full(4, not masks_are_known),
            member,
            np.full(3, INTERVAL if masks_are_known else RULE, np.int8),
            least, most, shown[truth][0], nothing, small, nothing, np.ones(3, bool), occupied,
        )  # fmt: skip
        if masks_are_known:
            fits = (masks == z).all(1) & ((least <= counts @ inside) & (counts @ inside <= most)).all(1)
        else:
            fits = (shown == shown[truth]).all(1)
        values = np.hstack([counts, counts @ inside])
        targets = np.flatnonzero(((values > 0) & (values < K))[truth][0])
        expected = ((values == 0) | (values >= K))[fits].any(0)[targets].tolist()
        for target, safe in zip(targets.tolist(), expected, strict=True):
            worlds = Worlds(told, x, z)
            for seed in range(400 if safe else 9):
                worlds.round(np.array([target]), 60, seed)
                if worlds.safe[target]:
                    break
            assert worlds.safe[target] == safe, (x, z, told, target)
            now = np.concatenate([worlds.counts, worlds.counts @ inside])[target]
            assert (now == 0 or now >= K) == safe, "the world that shows it is kept"
            seen[safe] += 1
    assert all(seen.values())


def test_a_number_outside_an_interval_is_as_far_from_it_as_from_its_nearest_number():
    for least, most in itertools.combinations_with_replacement(range(5), 2):
        for total in range(8):
            assert outside(total, least, most) == min(abs(total - inside) for inside in range(least, most + 1))


@pytest.mark.parametrize("K", [3, 5, 10])
def test_nothing_is_amiss_exactly_where_ilba_releases_the_value(K):
    for n in range(5):
        for at_k in range(n + 1):
            for total in range(at_k, K * at_k + (K - 1) * (n - at_k) + 1):
                parts = (np.array([part]) for part in (n, at_k, total))
                shown = int(masking.ilba(*parts, K).sum_masked[0])
                for released in (0, K, *range(K + 1 + K // 2, 4 * K + 5, K)):
                    assert (amiss(released, total, n, at_k, K) == 0) == (shown == released), (released, n, at_k, total)


@pytest.mark.parametrize("K", [3, 5, 10])
def test_the_compiled_preimage_is_the_one_of_the_paper(K):
    n, at_k = np.meshgrid(np.arange(9), np.arange(9), indexing="ij")
    inside = at_k <= n
    for released in range(4 * K + 5):
        low, high = masking.preimage(np.full_like(n, released), n, at_k, K)
        for i, j in np.argwhere(inside):
            assert ends(released, int(i), int(j), K) == (low[i, j], high[i, j]), (released, i, j)
