"""Euclidean likelihood: closed forms, intervals, and the minimum over the reference on every scale."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups.likelihood.means import Binary, Real
from isonomy.groups.likelihood.profile import Euclidean, Kind, ProfileLikelihood
from isonomy.numerics.ragged import Ragged
from support.groups import against_others, real, skewed

M = iso.Metric("m", iso.col("x"))
VALUE: dict[str, Any] = {"metric": M, "groups": "g"}
# One group that varies beside 30 equal rows; and two of them.
ONE = {"x": np.r_[np.linspace(-1, 1, 30), np.full(30, 0.25)], "g": ["a"] * 30 + ["b"] * 30}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


def test_euclidean_numbers_of_a_reference_of_equal_rows() -> None:
    """Tu = n² 0.25² / Σ (x - 0.25)² = 4.477, T = Tu / (1 - Tu/60)."""
    result = iso.flag(ONE, reference={"g": "b"}, method="eel", **VALUE)
    z = ONE["x"][:30] - 0.25
    tu = z.sum() ** 2 / (z**2).sum()
    assert result.statistic[0] == pytest.approx(tu / (1 - tu / 60), rel=1e-12)
    assert (result.ci_low[0], result.ci_high[0]) == pytest.approx((-0.471, -0.029), abs=5e-4)


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
@pytest.mark.parametrize("spread", [0.0, 1e-6, 1e-3, 1.0])
def test_the_euclidean_minimum_is_found_on_every_scale(kind: Kind, spread: float) -> None:
    """Against a search over θ that is fine near every place where a block fits."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(0.2, 1.0, size=50), 0.1 + spread * rng.normal(size=40)
    means = Real(Ragged.from_codes(np.repeat([0, 1], [50, 40]), 2, np.r_[x, y]))
    problem = ProfileLikelihood(kind, means, np.array([0]), other=means, partner=np.array([1]))
    result = Euclidean(problem, 90.0)
    near = np.r_[0.0, np.geomspace(1e-12, 10.0, 6000)]
    for null in (0.0, 0.003, -0.2, 0.6):
        fits = (x.mean() - null, means.mean[1], means.mean[1] + 50 * null / 40, problem.reference[0])
        theta = np.concatenate([fit + sign * near for fit in fits for sign in (-1.0, 1.0)])
        index = np.zeros(theta.size, dtype=np.intp)
        tu = float(result._uncentered(np.full(theta.size, null), theta, index).min())
        # The search steps by 0.5 %, which a minimum notices in the square.
        assert result.statistic(null)[0] == pytest.approx(tu / (1 - tu / 90), rel=1e-4)


def test_euclidean_statistic_of_disjoint_groups_is_centred_over_all_rows(lender: dict[str, Any]) -> None:
    result = iso.certify(lender, reference=1.0, method="eel", **LOSS)
    tu = 0.0
    for g in "abc":
        z = lender["loss"][lender["race"] == g] - 1.0
        tu += z.sum() ** 2 / (z**2).sum()
    assert result.statistic == pytest.approx(tu / (1 - tu / 600), rel=1e-10)


GROUPS: dict[str, Binary | Real] = {"binary": Binary([30, 70, 20], [10, 30, 0]), "real": real(skewed()[1], skewed()[0])}


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
def test_the_euclidean_statistic_at_an_interval_end_is_the_critical_value(kind: Kind) -> None:
    problem = Euclidean(against_others(kind, GROUPS["real"]), 150.0)
    for end in problem.interval(3.84):
        assert problem.statistic(end) == pytest.approx(3.84, rel=1e-8)


def test_a_euclidean_interval_without_an_end_is_infinite() -> None:
    problem = Euclidean(ProfileLikelihood(Kind.FIXED, Binary([3], [1]), np.array([0]), theta=np.array([0.5])), 10.0)
    low, high = problem.interval(10.0)
    assert low[0] == -np.inf
    assert high[0] == np.inf
