"""The numbers by which the masks of a block are chosen. The masks depend on each of them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from ilba.methods.controlled.block import Share, _Problem, log_odds, thresholds
from ilba.methods.controlled.kernels import BITS, CHANCES


def test_chances_and_odds_are_logarithms_in_fixed_point():
    u = (2 * np.arange(CHANCES) + 1) / (2 * CHANCES)
    assert len(thresholds()) == CHANCES
    assert np.abs(thresholds() + np.log(u) * 2**BITS).max() < 0.51
    for K in (3, 5, 11):
        for x in range(1, K):
            assert abs(log_odds(x, K) - np.log(x / (K - x)) * 2**BITS) < 0.51


@pytest.mark.parametrize(
    ("K", "bound", "far", "blocks", "cap"),
    [
        (5, 7, False, 1, 7),
        (5, 7, True, 1, 14),
        (5, 7, True, 2, 10),
        (5, 7, False, 2, 5),
        (5, 9, False, 3, 7),
        (5, 18, False, 2, 14),
        (5, 5, False, 2, 4),
    ],
)
def test_blocks_side_by_side_leave_less_in_the_area_around_them(K, bound, far, blocks, cap):
    problem = object.__new__(_Problem)
    problem.K, problem.bound = K, bound
    assert problem._cap(far, blocks) == cap


def test_the_shares_of_the_blocks_of_a_round_add_up():
    errors = np.array([-7, -1, 0, 1, 8, 9])
    shares = [
        Share(SimpleNamespace(of=lambda names: errors), place, 3).of(np.zeros(6, np.uint64)) for place in range(3)
    ]
    assert sum(shares).tolist() == errors.tolist()
    assert np.ptp(shares, axis=0).max() == 1
