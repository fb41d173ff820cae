"""Noise of differential privacy against closed forms and OpenDP's samples: folder 10."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

import ilba
from ilba.methods import DiscreteGaussian, DiscreteLaplace, fit_least_squares, fit_to_parent

SAMPLE = 400_000


@pytest.fixture(scope="module")
def folder(shared):
    return shared / "outside" / "10_dp"


def test_discrete_laplace_noise_has_the_moments_of_the_rule_and_of_opendps_samples(folder):
    for row in pl.read_csv(folder / "discrete_laplace.csv").iter_rows(named=True):
        noise = DiscreteLaplace(row["epsilon"])
        assert noise.scale == pytest.approx(row["scale"])
        assert noise.alpha == pytest.approx(row["alpha"])
        assert float(noise.p(0)) == pytest.approx(row["p_zero"])
        assert noise.mean_abs == pytest.approx(row["mean_abs"])
        assert noise.variance == pytest.approx(row["variance"])
        assert noise.tail(5) == pytest.approx(row["p_abs_ge_5"])
        error = 6 * math.sqrt(noise.variance / SAMPLE)
        assert noise.mean_abs == pytest.approx(row["opendp_mean_abs_400k"], abs=error)
        assert noise.epsilon == pytest.approx(row["opendp_epsilon_of_scale"])


def test_discrete_gaussian_noise_has_the_moments_of_the_rule(folder):
    for row in pl.read_csv(folder / "discrete_gaussian.csv").iter_rows(named=True):
        noise = DiscreteGaussian(row["sigma"])
        assert noise.rho == pytest.approx(row["rho_formula"])
        assert noise.rho == pytest.approx(row["opendp_rho"])
        assert float(noise.p(0)) == pytest.approx(row["p_zero"])
        assert noise.mean_abs == pytest.approx(row["mean_abs"])
        assert noise.variance == pytest.approx(row["variance"])
        assert noise.tail(5) == pytest.approx(row["p_abs_ge_5"], rel=1e-6, abs=1e-30)
        assert noise.epsilon(1e-10) == pytest.approx(row["epsilon_at_delta_1e-10"])


@pytest.mark.parametrize("noise", [DiscreteLaplace(0.5), DiscreteGaussian(2.0)])
def test_what_is_drawn_has_the_variance_and_the_tail_of_the_distribution(noise):
    drawn = noise.draw(np.random.default_rng(2010), SAMPLE)
    assert drawn.mean() == pytest.approx(0, abs=6 * math.sqrt(noise.variance / SAMPLE))
    assert drawn.var() == pytest.approx(noise.variance, rel=0.03)
    assert (np.abs(drawn) >= 5).mean() == pytest.approx(noise.tail(5), abs=6 * math.sqrt(noise.tail(5) / SAMPLE))


def test_one_person_in_many_tables_costs_as_much_more():
    assert DiscreteLaplace(1.0, sensitivity=16).scale == 16
    assert DiscreteGaussian(2.0, sensitivity=math.sqrt(16)).rho == pytest.approx(16 * 0.125)


def test_children_are_fitted_to_their_parent_as_in_the_rule(folder):
    for case in pl.read_csv(folder / "consistency_fixed_parent.csv").partition_by("case"):
        near, whole = fit_to_parent(case["noisy"], case["parent_total"][0])
        assert near.tolist() == pytest.approx(case["projected"].to_list(), abs=1e-6)
        assert whole.tolist() == case["integer"].to_list()


def test_root_and_children_are_fitted_to_each_other_as_in_the_rule(folder):
    for case in pl.read_csv(folder / "consistency_least_squares.csv").partition_by("case"):
        root, children = fit_least_squares(case["noisy_root"][0], case["noisy_child"])
        assert children.tolist() == pytest.approx(case["fitted_child"].to_list())
        assert root == pytest.approx(case["fitted_root"][0])


def test_a_privacy_loss_of_zero_is_refused():
    with pytest.raises(ilba.InputError, match="above 0"):
        DiscreteLaplace(0)
    with pytest.raises(ilba.InputError, match="at least 0"):
        fit_to_parent([1.0], -1)


def test_opendp_gives_noise_of_the_same_size_for_the_same_epsilon():
    """An outside check that needs OpenDP; its own draws cannot be repeated, so moments are compared."""
    dp = pytest.importorskip("opendp.prelude", reason="OpenDP is not installed: pip install opendp")
    dp.enable_features("contrib")
    numbers, n = dp.vector_domain(dp.atom_domain(T="i64")), 20_000
    for epsilon, tables in ((0.5, 1), (1.0, 3)):
        ours = DiscreteLaplace(epsilon, tables)
        theirs = dp.m.make_laplace(numbers, dp.l1_distance(T="i64"), scale=ours.scale)
        assert theirs.map(tables) == pytest.approx(epsilon)
        drawn = np.abs(theirs([0] * n))
        assert drawn.mean() == pytest.approx(ours.mean_abs, abs=6 * drawn.std() / math.sqrt(n))
    gaussian = DiscreteGaussian(3.0, math.sqrt(2))
    theirs = dp.m.make_gaussian(numbers, dp.l2_distance(T=float), scale=3.0)
    assert theirs.map(math.sqrt(2)) == pytest.approx(gaussian.rho)
    drawn = np.square(theirs([0] * n))
    assert drawn.mean() == pytest.approx(gaussian.variance, abs=6 * drawn.std() / math.sqrt(n))
