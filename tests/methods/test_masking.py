"""The method: held by the R package's vectors, by the paper's example and by its properties for every K."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ilba
from ilba.methods import masking
from ilba.secret.secret import draws
from support.places import GOLDEN, golden_bytes
from support.size import tries

THRESHOLDS = range(3, 13)


def every_sum(K: int, most: int = 7):
    """n_small, n_at_threshold and every feasible sum for up to `most` small cells."""
    rows = [
        (n, at_k, total)
        for n in range(most + 1)
        for at_k in range(n + 1)
        for total in range(at_k, K * at_k + (K - 1) * (n - at_k) + 1)
    ]
    return np.array(rows).T


def test_ilba_equals_the_r_package_on_all_its_vectors():
    vectors = pl.read_csv(golden_bytes(GOLDEN / "apply_ilba_vectors.csv"))
    assert vectors.height == 7680
    for (K,), rows in vectors.group_by("mask_thr"):
        masked = ilba.apply_iLBA((rows["n_small"], rows["n_SCA_thr"], rows["sum_small"]), K)
        for ours, column in zip(masked, ("sum_masked", "type1", "type2"), strict=True):
            np.testing.assert_array_equal(ours, rows[column])


def test_the_papers_example_is_released_as_8_and_1328():
    f = [36, 284, 262, 1, 1, 2, 1, 1, 10, 9, 79, 124, 130, 106, 125, 77, 60, 18]
    f_sca = [36, 284, 262, 5, 5, 5, 5, 0, 10, 9, 79, 124, 130, 106, 125, 77, 60, 18]
    summed = [int(part.sum()) for part in masking.parts(f, f_sca, K=5)]
    assert summed == [1320, 5, 4, 6]
    sum_masked, type1, type2 = ilba.apply_iLBA(tuple(summed[1:]), 5)
    assert (sum_masked, type1, type2) == (8, 0, 0)
    assert summed[0] + sum_masked == 1328


@pytest.mark.parametrize("K", THRESHOLDS)
def test_a_released_small_cell_sum_is_0_or_at_least_K(K):
    n, at_k, total = every_sum(K)
    released = masking.ilba(n, at_k, total, K).sum_masked
    assert ((released == 0) | (released >= K)).all()


@pytest.mark.parametrize("K", THRESHOLDS)
def test_the_loss_stays_within_the_papers_bounds_and_reaches_them(K):
    n, at_k, total = every_sum(K)
    loss = np.abs(masking.ilba(n, at_k, total, K).sum_masked - total)
    bound = masking.loss_bound(n, total, K)
    assert (loss <= bound).all()
    assert loss[n == 1].max() == K - 1
    assert set(bound.tolist()) == {K - 1, K // 2 + K}


@pytest.mark.parametrize("K", THRESHOLDS)
def test_one_small_cell_or_none_is_bounded_by_K_less_1_and_several_by_K_and_a_half(K):
    n, total = np.array([0, 1, 1, 2, 2, 3, 3]), np.array([0, 0, 1, 0, 1, 0, 2])
    assert masking.loss_bound(n, total, K).tolist() == [K - 1, K - 1, K - 1, K - 1, K // 2 + K, K - 1, K // 2 + K]


@pytest.mark.parametrize("K", THRESHOLDS)
def test_without_shift_and_post_processing_the_loss_is_at_most_half_K(K):
    n, at_k, total = every_sum(K)
    masked = masking.ilba(n, at_k, total, K)
    plain = (n >= 2) & (total >= 1) & (masked.type1 + masked.type2 == 0) & (masked.sum_masked != K)
    assert plain.any()
    assert (np.abs(masked.sum_masked - total)[plain] <= K // 2).all()


@pytest.mark.parametrize("K", THRESHOLDS)
def test_the_closed_form_of_the_preimage_equals_enumeration(K):
    n, at_k, total = every_sum(K, most=5)
    released = masking.ilba(n, at_k, total, K).sum_masked
    wanted = range(0, int(released.max()) + 2 * K)
    for small, thr in {(int(a), int(b)) for a, b in zip(n, at_k, strict=True)}:
        here = (n == small) & (at_k == thr)
        for value in wanted:
            low, high = masking.preimage(value, small, thr, K)
            found = sorted(total[here & (released == value)].tolist())
            assert list(range(int(low), int(high) + 1)) == found, (K, small, thr, value)


@pytest.mark.parametrize("K", THRESHOLDS)
def test_every_value_released_for_several_cells_has_at_least_K_preimages(K):
    n, at_k, total = every_sum(K)
    released = masking.ilba(n, at_k, total, K).sum_masked
    low, high = masking.preimage(released, n, at_k, K)
    several = (n >= 2) & (total >= 1)
    assert (high - low + 1)[several].min() >= K
    assert ((low <= total) & (total <= high)).all()


@pytest.mark.parametrize("K", THRESHOLDS)
def test_the_shifted_candidates_lie_inside_the_feasible_interval(K):
    n, at_k, total = every_sum(K)
    masked = masking.ilba(n, at_k, total, K)
    several = (n >= 2) & (total >= 1)
    low, high = masking.candidates(total, K)
    shift = K * (masked.type1 - masked.type2)
    d_low, d_high = masking.feasible(n, at_k, K)
    assert (d_low <= low + shift)[several].all()
    assert (high + shift <= d_high)[several].all()
    assert masked.type1.sum() > 0
    assert masked.type2.sum() > 0


@given(
    st.integers(3, 12),
    st.lists(st.integers(0, 30), min_size=1, max_size=40),
    st.data(),
)
def test_parts_add_up_over_any_split(K, counts, data):
    f = np.array(counts)
    draw = np.array(data.draw(st.lists(st.integers(0, 2**53 - 1), min_size=len(f), max_size=len(f))))
    masked = masking.sca(f, draw, K)
    side = np.array(data.draw(st.lists(st.booleans(), min_size=len(f), max_size=len(f))))
    whole = [part.sum() for part in masking.parts(f, masked, K)]
    split = [
        masking.parts(f[side], masked[side], K)[i].sum() + masking.parts(f[~side], masked[~side], K)[i].sum()
        for i in range(4)
    ]
    assert whole == split
    assert whole[0] + whole[3] == f.sum()


def test_counts_in_one_byte_do_not_overflow():
    hundred = np.array([100], dtype=np.int8)
    assert [end.tolist() for end in masking.feasible(hundred, hundred, 5)] == [[100], [500]]
    assert masking.sca(hundred, [0], 1000).tolist() == [1000]
    assert [part.tolist() for part in masking.ilba(hundred, hundred, hundred, 5)] == [[103], [1], [0]]


@given(st.integers(3, 1000), st.integers(0, 1000), st.integers(0, 2**53 - 1))
def test_sca_compares_integers_and_never_rounds(K, f, draw):
    expected = f if f >= K else (K if draw * K < f * 2**53 else 0)
    assert masking.sca([f], [draw], K)[0] == expected


@given(st.integers(3, 1000), st.data())
def test_sca_turns_at_the_draw_that_makes_the_probability_f_over_K(K, data):
    f = data.draw(st.integers(1, K - 1))
    limit = -(-f * 2**53 // K)  # so many of the 2^53 draws give K
    assert masking.sca([f] * 4, [0, limit - 1, limit, 2**53 - 1], K).tolist() == [K, K, 0, 0]


@pytest.mark.slow
def test_sca_draws_K_with_probability_f_over_K(secret):
    """A fixed secret, many cells per count: a chi-square test of every share, and neighbours uncorrelated."""
    from scipy import stats

    cells = tries(200_000)
    labels = {"cell": ([str(i) for i in range(cells)], np.arange(cells)), "edu": (["1"], np.zeros(cells, int))}
    for K, counts in ((3, range(1, 3)), (5, range(1, 5)), (10, (1, 5, 9))):
        for f in counts:
            drawn = draws(secret, labels, np.full(cells, f))
            hit = masking.sca(np.full(cells, f), drawn, K) == K
            expected = [cells * f / K, cells * (1 - f / K)]
            assert stats.chisquare([hit.sum(), (~hit).sum()], expected).pvalue > 1e-4, (K, f)
            neighbours = np.corrcoef(hit[:-1], hit[1:])[0, 1]
            assert abs(neighbours) < 4 / np.sqrt(cells), (K, f)
    assert stats.kstest(drawn / 2**53, "uniform").pvalue > 1e-4


def test_apply_sca_takes_numbers_in_0_1_as_draws():
    assert ilba.apply_SCA([2, 2, 0, 5, 6], 5, draws=[0.4, np.nextafter(0.4, 0), 0.0, 0.99, 0.0]).tolist() == [
        0,
        5,
        0,
        5,
        6,
    ]


def test_draws_may_be_any_kind_of_number():
    for given_draws in ([0, 0], [Fraction(1, 3), Fraction(2, 5)], np.array([0.25, 0.5], dtype=np.float32)):
        exact = [5 if Fraction(float(draw)) < Fraction(2, 5) else 0 for draw in given_draws]
        assert ilba.apply_SCA([2, 2], 5, draws=given_draws).tolist() == exact


def test_an_error_names_the_argument():
    with pytest.raises(ilba.InputError, match=r"^freq holds"):
        ilba.apply_SCA([-1], 5)
    for place, name in enumerate(("n_small", "n_SCA_thr", "sum_small")):
        inputs = [0, 0, 0]
        inputs[place] = -1
        with pytest.raises(ilba.InputError, match=f"^{name} holds"):
            ilba.apply_iLBA(inputs, 5)


def test_apply_sca_without_draws_leaves_0_K_and_large_counts():
    assert ilba.apply_SCA([0, 5, 6, 10**12], 5).tolist() == [0, 5, 6, 10**12]
    assert set(ilba.apply_SCA(np.full(200, 2), 5).tolist()) == {0, 5}


def test_every_way_to_write_a_count_is_taken():
    for counts in ([0, 3, 9], (0.0, 3.0, 9.0), np.array([0, 3, 9], dtype=np.uint8), pl.Series([0, 3, 9]), [0, 3, 9.0]):
        taken = masking.whole_numbers("freq", counts)
        assert taken.dtype == np.int64
        assert taken.tolist() == [0, 3, 9]
    assert masking.whole_numbers("freq", np.array([2**63 - 1], dtype=np.uint64)).tolist() == [2**63 - 1]
    assert masking.whole_numbers("freq", 7).shape == ()
    for nothing in ([], np.array([], dtype=object), np.array([], dtype=str), np.array([], dtype=np.uint64)):
        assert masking.whole_numbers("freq", nothing).dtype == np.int64


@pytest.mark.parametrize(
    ("freq", "options", "says"),
    [
        ([1.5], {}, "not a whole number"),
        ([2, 2.5], {}, "not a whole number, or is missing"),
        ([float("inf")], {}, "not a whole number"),
        ([None], {}, "not a whole number"),
        ([True], {}, "not a whole number"),
        (np.array([1, 2**63], dtype=np.uint64), {}, "above"),
        ([0, -1], {}, "below 0"),
        ([1], {"draws": [-0.1]}, "outside"),
        ([1, 1], {"draws": [0.1, float("nan")]}, "outside"),
        ([1, 1], {"draws": 0.1}, "one draw for each count"),
        ([-1], {}, "below 0"),
        (["a"], {}, "not a whole number"),
        ([float("nan")], {}, "not a whole number"),
        ([1], {"draws": [1.0]}, "outside"),
        ([1], {"draws": [0.1, 0.2]}, "one draw for each count"),
    ],
)
def test_apply_sca_refuses_what_is_not_a_count_or_a_draw(freq, options, says):
    with pytest.raises(ilba.InputError, match=says):
        ilba.apply_SCA(freq, 5, **options)


@pytest.mark.parametrize(
    ("inputs", "says"),
    [
        ((1, 2), "these three"),
        (7, "these three"),
        ((1, 2, 3), "larger than n_small"),
        (([5, 1], [4, 2], [6, 3]), "larger than n_small"),
        (([5, 2], [4, 0], [6, 9]), "not possible"),
        (([5, 2], [4, 1], [6, 0]), "not possible"),
        ((2, 0, 9), "not possible"),
        ((2, 1, 0), "not possible"),
        (([1, 2], [0, 0, 0], [1, 1]), "different lengths"),
    ],
)
def test_apply_ilba_refuses_sums_that_cannot_be(inputs, says):
    with pytest.raises(ilba.InputError, match=says):
        ilba.apply_iLBA(inputs, 5)


def test_apply_ilba_answers_as_it_was_asked():
    for answer in (ilba.apply_iLBA((5, 4, 6), 5), ilba.apply_iLBA([np.int64(5), np.array(4), 6.0], 5)):
        assert answer == (8, 0, 0)
        assert [type(one) for one in answer] == [int, int, int]
    masked = ilba.apply_iLBA(([5, 2, 2], [4, 2, 0], [6, 2, 8]), 5)
    assert [one.tolist() for one in masked] == [[8, 8, 5], [0, 1, 0], [0, 0, 1]]
    many = ilba.apply_iLBA((5, 4, [4, 24]), 5)  # one number stands for all
    assert [one.tolist() for one in many] == [[8, 18], [1, 0], [0, 1]]


@pytest.mark.parametrize(("n", "at_k"), [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (3, 1)])
def test_apply_ilba_takes_every_possible_sum_and_no_other(n, at_k):
    low, high = at_k, 5 * at_k + 4 * (n - at_k)
    for total in range(low, high + 1):
        assert ilba.apply_iLBA((n, at_k, total), 5) == tuple(int(x) for x in masking.ilba(n, at_k, total, 5))
    for total in (low - 1, high + 1):
        with pytest.raises(ilba.InputError, match=r"not possible|below 0"):
            ilba.apply_iLBA((n, at_k, total), 5)


@pytest.mark.parametrize("K", [2, 0, -5, 4.5, "5", None, True, float("nan"), 2**40])
def test_a_threshold_below_3_or_not_whole_is_refused(K):
    with pytest.raises(ilba.InputError, match="mask_thr"):
        ilba.apply_iLBA((0, 0, 0), K)
