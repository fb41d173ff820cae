"""How far masked counts lie from the truth: one summary, and the percent that the R package writes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ilba.methods.loss import loss_counts, loss_summary, percent


def test_the_losses_of_several_tables_are_summed_up():
    assert loss_summary([], K=5) == (0.0, 0, 0, 1.0, 0.0)
    losses = [np.array([0, -1, 2]), [3, -8], []]
    assert loss_summary(losses, K=5) == (14 / 5, 8, 8, 3 / 5, 1 / 5)
    assert loss_summary(losses, K=5, bound=8).over == 0
    rng = np.random.default_rng(1).integers(-20, 20, 1000)
    assert loss_summary([rng], K=5).p99 == sorted(abs(rng))[989]
    assert loss_summary([[0] * 98 + [5, 9]], K=5).p99 == 5
    for n in (1, 99, 100, 101, 200, 201):
        assert loss_summary([np.arange(n)], K=5).p99 == (99 * n + 99) // 100 - 1


@given(st.lists(st.integers(-20, 20), min_size=1, max_size=60))
def test_each_loss_is_counted_once_and_percent_have_two_digits(losses):
    values, n = loss_counts(losses)
    assert values.tolist() == sorted(set(losses))
    assert n.tolist() == [losses.count(value) for value in values]
    for one, of in zip(percent(n).tolist(), n.tolist(), strict=True):
        assert abs(one - 100 * of / len(losses)) <= 0.005 + 1e-9
        assert one == round(one, 2)


def test_percent_are_rounded_as_r_rounds():
    # 1 of 32 is 3.125 percent: R writes 3.12; 7 of 4000 is 0.175: R writes 0.18.
    assert percent([31, 1]).tolist() == [96.88, 3.12]
    assert percent([3993, 7]).tolist() == [99.83, 0.18]
