"""Scales: T is the same on all of them, and what they report is what an independent search says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import expit, logit, xlogy

import isonomy as iso
from isonomy.groups.likelihood.means import IDENTITY, LOG, LOGIT, Binary, Link, Linked, Real
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood, odds_in_whole
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.tails import chi2_isf

# Ones and rows of a group and of its reference; none and all of the rows too.
COUNTS = np.array(
    [(30, 100, 60, 150), (0, 50, 20, 80), (100, 100, 60, 90), (60, 90, 100, 100), (3, 40, 1, 500), (50, 50, 70, 70)]
)
GROUP, REFERENCE = Binary(COUNTS[:, 1], COUNTS[:, 0]), Binary(COUNTS[:, 3], COUNTS[:, 2])
EVERY = np.arange(len(COUNTS))
CRITICAL = float(chi2_isf(0.05, 1))


def pairs(kind: Kind, link: Link) -> ProfileLikelihood:
    return ProfileLikelihood(kind, Linked(GROUP, link), EVERY, other=Linked(REFERENCE, link), partner=EVERY)


def deviance(ones: float, n: float, rate: Any) -> Any:
    best = xlogy(ones, ones / n) + xlogy(n - ones, 1 - ones / n)
    return 2 * (best - xlogy(ones, rate) - xlogy(n - ones, 1 - rate))


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.0, 1.3])
def test_a_ratio_of_two_rates_is_the_least_over_the_references_rate(ratio: float) -> None:
    theta = np.linspace(1e-7, 1 - 1e-7, 200_001)
    found = pairs(Kind.DISJOINT, LOG).statistic(np.log(ratio))
    for j, (k, n, c, m) in enumerate(COUNTS):
        mean = np.where(ratio * theta <= 1, ratio * theta, np.nan)
        with np.errstate(invalid="ignore"):
            expected = np.nanmin(deviance(k, n, mean) + deviance(c, m, theta))
        assert found[j] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("ratio", [0.5, 0.9, 1.0, 1.3])
def test_an_odds_ratio_of_two_rates_is_the_least_over_the_references_rate(ratio: float) -> None:
    theta = np.linspace(1e-7, 1 - 1e-7, 200_001)
    found = pairs(Kind.DISJOINT, LOGIT).statistic(np.log(ratio))
    for j, (k, n, c, m) in enumerate(COUNTS[:-1]):
        expected = np.min(deviance(k, n, expit(logit(theta) + np.log(ratio))) + deviance(c, m, theta))
        assert found[j] == pytest.approx(expected, abs=2e-3)


@pytest.mark.parametrize("ratio", [0.7, 1.2])
def test_a_ratio_to_the_whole_is_the_least_over_share_and_rate(ratio: float) -> None:
    found = pairs(Kind.NESTED, LOG).statistic(np.log(ratio))
    theta, share = np.linspace(1e-5, 1 - 1e-5, 1501)[:, None], np.linspace(1e-3, 1 - 1e-3, 1501)
    for j, (k, n, c, m) in enumerate(COUNTS):
        mean = ratio * (1 - share) / (1 - ratio * share) * theta
        mean = np.where((mean >= 0) & (mean <= 1), mean, np.nan)
        with np.errstate(invalid="ignore"):
            expected = np.nanmin(deviance(k, n, mean) + deviance(c, m, theta) + deviance(n, n + m, share))
        assert found[j] == pytest.approx(expected, rel=2e-3, abs=2e-2)


def test_odds_in_the_whole_are_the_least_over_share_and_rates() -> None:
    """The four cells' probabilities, searched over a grid, against the ratio of two shares."""
    k, n, c, m = COUNTS[0]
    problem = odds_in_whole(GROUP, EVERY[:1], REFERENCE, EVERY[:1])
    assert np.exp(problem.value[0]) == pytest.approx((k / (n - k)) / ((k + c) / (n + m - k - c)))
    theta, share = np.linspace(0.2, 0.5, 1201)[:, None], np.linspace(0.2, 0.6, 1201)
    for odds in (0.7, 1.3):
        # The group's share among the rows with 0, v, and among those with 1, odds v; the whole's rate is theta.
        ones, zeros = theta * odds * share, (1 - theta) * share
        cells = (ones, zeros, theta - ones, 1 - theta - zeros)
        counts = (k, n - k, c, m - c)
        with np.errstate(invalid="ignore"):
            cost = 2 * sum(a * np.log(a / (n + m) / q) for a, q in zip(counts, cells, strict=True))
        assert problem.statistic(np.log(odds))[0] == pytest.approx(np.nanmin(cost), abs=2e-3)


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
def test_intervals_end_where_the_test_says(kind: Kind) -> None:
    problem = pairs(kind, LOG)
    for end in problem.interval(CRITICAL):
        inner = np.isfinite(end)
        assert problem.statistic(end)[inner] == pytest.approx(CRITICAL, rel=1e-6)


@pytest.mark.parametrize("link", [LOG, LOGIT])
def test_a_linked_mean_is_a_mean(link: Link) -> None:
    """Derivatives along the curve, dT/dφ = -2 n λ/φ', and the coordinate of a multiplier."""
    rng = np.random.default_rng(3)
    rows = Ragged.from_codes(np.repeat([0, 1], 50), 2, rng.beta(2, 3, 100))
    for natural in (GROUP, Real(rows)):
        means, index = Linked(natural, link), np.array([0, 0])
        at = np.array([0.05, -0.08])
        point, near = means.point(at, index), means.point(at + 1e-6, index)
        assert (near.mean - point.mean) / 1e-6 == pytest.approx(point.dmean, rel=1e-4)
        assert (near.multiplier - point.multiplier) / 1e-6 == pytest.approx(point.dmultiplier, rel=1e-4)
        slope = (near.statistic - point.statistic) / (near.mean - point.mean)
        assert slope == pytest.approx(-2 * means.n[index] * point.multiplier, rel=1e-4)
        assert means.coordinate(point.multiplier, index) == pytest.approx(at, rel=1e-9)
        assert means.locate(point.mean, index).statistic == pytest.approx(point.statistic, rel=1e-7)


def test_what_scales_report() -> None:
    assert LOG.compared([0.2, 0.2], [0.4, 0.0]) == pytest.approx([0.5, np.nan], nan_ok=True)
    assert LOGIT.compared([0.5, 0.5], [0.2, 1.0]) == pytest.approx([4.0, np.nan], nan_ok=True)
    assert IDENTITY.compared(0.2, 0.0) == 0.2
    assert LOG.reported(LOG.delta([0.0, 2.0])) == pytest.approx([0.0, 2.0])
    assert (LOG.equal, IDENTITY.equal) == (1.0, 0.0)


REFERENCES = ["population", "rest", {"race": "a"}, {"sex": "f"}, {"race": "a", "sex": "f"}, 0.5]


@pytest.mark.parametrize("reference", REFERENCES, ids=str)
def test_no_difference_has_one_p_value_on_every_scale(reference: Any) -> None:
    rng = np.random.default_rng(0)
    table = {
        "p": rng.integers(0, 2, 240),
        "x": rng.exponential(1.0, 240),
        "race": rng.choice(["a", "b", "c"], 240),
        "sex": rng.choice(["f", "m"], 240),
    }
    rate: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": ["race", "sex"]}
    mean: dict[str, Any] = {"metric": "mean_prediction", "prediction": "x", "groups": ["race", "sex"]}
    cases: list[tuple[dict[str, Any], Any]] = [(rate, ("ratio", "odds_ratio")), (mean, ("ratio",))]
    for asked, scales in cases:
        plain = iso.flag(table, **asked, reference=reference)
        for scale in scales:
            other = iso.flag(table, **asked, reference=reference, scale=scale)
            assert other.pvalue == pytest.approx(plain.pvalue, rel=1e-6, abs=1e-9, nan_ok=True)
            inside = (plain.ci_low <= 0) & (plain.ci_high >= 0)
            assert (((other.ci_low <= 1) & (other.ci_high >= 1)) == inside).all()
            again = iso.flag(table, **asked, reference=reference, scale=scale, null=float(other.ci_low[1]))
            assert again.pvalue[1] == pytest.approx(0.05, rel=1e-4, nan_ok=True)
