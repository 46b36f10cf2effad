"""The one-parameter curves against a direct minimisation, and against the general joint likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from isonomy.groups.likelihood.joint import Functions, Patterns
from isonomy.groups.likelihood.means import Binary, Means, Real
from isonomy.groups.likelihood.profile import Euclidean, Kind, ProfileLikelihood
from isonomy.numerics.tails import chi2_isf
from support.groups import against_others, real, skewed

EVERY = np.arange(3)


def directly(kind: Kind, own: Means, other: Means, j: int, disparity: float) -> float:
    one, n, m = np.array([j]), own.n[j], other.n[j]

    def total(x: np.ndarray) -> float:
        theta, share = x
        shift = disparity
        cost = 0.0
        if kind is Kind.NESTED:
            if not 0 < share < 1:
                return 1e9
            shift = disparity / (1 - share)
            cost = float(Binary([n + m], [n]).statistic(np.array([share]), np.array([0]))[0])
        return cost + float((own.statistic(theta + shift + 0 * one, one) + other.statistic(theta + 0 * one, one))[0])

    best = minimize(
        total,
        [other.mean[j], n / (n + m)],
        method="Nelder-Mead",
        options={"xatol": 1e-8, "fatol": 1e-10},
    )
    return float(best.fun)


GROUPS: dict[str, Binary | Real] = {"binary": Binary([30, 70, 20], [10, 30, 0]), "real": real(skewed()[1], skewed()[0])}


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
@pytest.mark.parametrize("name", ["binary", "real"])
def test_the_curve_reaches_the_minimum_over_the_reference(kind: Kind, name: str) -> None:
    problem = against_others(kind, GROUPS[name])
    assert problem.other is not None
    result = problem.statistic(0.12)
    for j in range(3) if name == "binary" else (2,):
        expected = directly(kind, problem.groups, problem.other, j, 0.12)
        assert result[j] == pytest.approx(expected, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
@pytest.mark.parametrize("name", ["binary", "real"])
def test_the_statistic_at_an_interval_end_is_the_critical_value(kind: Kind, name: str) -> None:
    problem = against_others(kind, GROUPS[name])
    for alpha in (0.5, 0.05, 1e-6):
        level = float(chi2_isf(alpha, 1))
        for end in problem.interval(level):
            assert problem.statistic(end) == pytest.approx(level, rel=1e-9)


def test_a_fixed_reference_of_only_zeros_has_a_one_sided_interval() -> None:
    problem = ProfileLikelihood(Kind.FIXED, Binary([50], [0]), np.array([0]), theta=np.array([0.0]))
    low, high = problem.interval(3.84)
    assert low[0] == 0.0
    assert high[0] == pytest.approx(1 - np.exp(-3.84 / 100), rel=1e-10)


def test_the_population_curve_is_the_general_joint_likelihood() -> None:
    codes, values = skewed()
    data = Patterns(codes, 3, (values,), None)
    problem = against_others(Kind.NESTED, GROUPS["real"])
    euclidean = Euclidean(problem, float(values.size))
    for j in range(3):
        member = np.equal(EVERY, j).astype(float)
        slope = np.stack([member, np.ones(3)], axis=1)[:, :, None]
        for disparity in (0.0, -0.2):
            offset = np.stack([member * disparity, np.zeros(3)], axis=1)
            functions = Functions(slope, slope, offset)
            start = np.array([values.mean()])
            assert problem.statistic(disparity)[j] == pytest.approx(
                data.likelihood(functions, start).statistic, rel=1e-9
            )
            assert euclidean.statistic(disparity)[j] == pytest.approx(
                data.euclidean(functions, start).statistic, rel=1e-7
            )


def test_perfectly_separated_groups_have_a_finite_binomial_statistic() -> None:
    counts = Binary([30, 40], [0, 40])
    both = np.arange(2)
    problem = ProfileLikelihood(Kind.NESTED, counts, both, other=counts.rest(), partner=both)
    pooled = 2 * (30 * np.log(70 / 30) + 40 * np.log(70 / 40))
    assert problem.statistic(0.0) == pytest.approx(pooled)
    low, high = problem.interval(3.84)
    assert (low < problem.value).all()
    assert (problem.value < high).all()


def test_the_standard_error_agrees_with_the_curvature() -> None:
    for kind in (Kind.DISJOINT, Kind.NESTED):
        problem = against_others(kind, GROUPS["real"])
        step = 1e-3 * problem.standard_error
        assert problem.statistic(problem.value + step) == pytest.approx(1e-6, rel=5e-3)
