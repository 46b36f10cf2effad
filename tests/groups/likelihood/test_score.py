"""The score statistic of rates with few cases: another program's, its level by enumeration, and its inversion."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize_scalar
from statsmodels.stats.proportion import test_proportions_2indep as two_rates

import isonomy as iso
from isonomy.groups.likelihood.means import IDENTITY, LOG, LOGIT, Binary, Link, linked
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood, odds_in_whole
from isonomy.numerics.tails import chi2_isf

COUNTS = Binary([100, 60, 100, 40], [5, 4, 0, 1]), Binary([1_000, 300, 500, 2_000], [20, 3, 10, 0])
EVERY = np.arange(4)


def pairs(kind: Kind = Kind.DISJOINT, link: Link = IDENTITY) -> ProfileLikelihood:
    own, other = COUNTS
    if kind is Kind.NESTED and link is LOGIT:
        return odds_in_whole(own, EVERY, other, EVERY).scoring_few()
    return ProfileLikelihood(kind, linked(own, link), EVERY, other=linked(other, link), partner=EVERY).scoring_few()


@pytest.mark.parametrize(("compare", "link", "at"), [("diff", IDENTITY, 0.0), ("ratio", LOG, 1.5)])
def test_the_root_before_its_skewness_is_counted_is_statsmodels(compare: str, link: Link, at: float) -> None:
    own, other = COUNTS
    problem = pairs(link=link)
    for j in (0, 1):
        counts = own.ones[j], own.n[j], other.ones[j], other.n[j]
        expected = two_rates(*counts, value=at, compare=compare, method="score", correction=False).statistic
        z = np.sqrt(problem.statistic(float(link.delta(at)))[j])
        assert z + _bend(counts, at, compare) * (z**2 - 1.0) * (z > 1) == pytest.approx(abs(expected), rel=1e-6)


def test_a_difference_that_is_not_0_has_the_score_at_the_likeliest_rates() -> None:
    """Maximised directly: statsmodels' own rates are not the likeliest there, and its score differs by 1e-3."""
    own, other = COUNTS
    for j in (0, 1):
        counts = own.ones[j], own.n[j], other.ones[j], other.n[j]
        (mine, theirs), z = _fitted(*counts, 0.01, "diff"), np.sqrt(pairs().statistic(0.01)[j])
        error = np.sqrt(mine * (1 - mine) / own.n[j] + theirs * (1 - theirs) / other.n[j])
        expected = abs(own.mean[j] - other.mean[j] - 0.01) / error
        assert z + _bend(counts, 0.01, "diff") * (z**2 - 1.0) * (z > 1) == pytest.approx(expected, rel=1e-6)


def _bend(counts: tuple[float, float, float, float], at: float, compare: str) -> float:
    """A sixth of the score's skewness, away from the hypothesis."""
    sides = list(
        zip((1.0, -1.0 if compare == "diff" else -at), _fitted(*counts, at, compare), counts[1::2], strict=True)
    )
    variance = sum(s**2 * p * (1 - p) / n for s, p, n in sides)
    third = sum(s**3 * p * (1 - p) * (1 - 2 * p) / n**2 for s, p, n in sides)
    away = counts[0] / counts[1] - (counts[2] / counts[3] + at if compare == "diff" else counts[2] / counts[3] * at)
    return float(np.sign(away) * third / variance**1.5 / 6.0)


def _fitted(k: float, n: float, others: float, m: float, at: float, compare: str) -> tuple[float, float]:
    """The likeliest two rates that differ by ``at``."""

    def rates(q: float) -> tuple[float, float]:
        return (q + at, q) if compare == "diff" else (q * at, q)

    def cost(q: float) -> float:
        mine, theirs = rates(q)
        return -float(stats.binom.logpmf(k, n, mine) + stats.binom.logpmf(others, m, theirs))

    top = 1.0 - at if compare == "diff" else 1.0 / at
    best = minimize_scalar(cost, bounds=(1e-12, min(top, 1.0) - 1e-12), method="bounded", options={"xatol": 1e-13})
    return rates(float(best.x))


@pytest.mark.parametrize(("rows", "others"), [(100, 1_000), (50, 500), (100, 100), (1_000, 100)])
def test_the_level_of_rare_rates_by_enumeration(rows: int, others: int) -> None:
    """All tables of two groups with a rate of 0.02: the likelihood ratio rejects up to 0.095 at 0.05."""
    k, c = (np.arange(int(stats.binom.isf(1e-6, n, 0.02)) + 1) for n in (rows, others))
    chance = np.outer(stats.binom.pmf(k, rows, 0.02), stats.binom.pmf(c, others, 0.02)).ravel()
    ones, cases = (each.ravel() for each in np.meshgrid(k, c, indexing="ij"))
    every = np.arange(ones.size)
    own, other = Binary(np.full(ones.size, rows), ones), Binary(np.full(ones.size, others), cases)
    problem = ProfileLikelihood(Kind.DISJOINT, own, every, other=other, partner=every)
    plain, scored = (
        float(chance[one.statistic(0.0) >= chi2_isf(0.05, 1)].sum()) for one in (problem, problem.scoring_few())
    )
    assert scored <= 0.05
    if rows != others and min(rows, others) == 100:
        assert plain > 0.09


@pytest.mark.parametrize("kind", [Kind.DISJOINT, Kind.NESTED])
@pytest.mark.parametrize("link", [IDENTITY, LOG, LOGIT], ids=lambda link: link.name)
@pytest.mark.parametrize("alpha", [0.5, 0.05, 0.001])
def test_the_statistic_at_an_interval_end_is_the_critical_value(kind: Kind, link: Link, alpha: float) -> None:
    problem, level = pairs(kind, link), float(chi2_isf(alpha, 1))
    for end in problem.interval(level):
        inside = np.isfinite(end)
        assert inside.sum() >= 2
        assert problem.statistic(np.where(inside, end, 0.0))[inside] == pytest.approx(level, rel=1e-6)


def test_a_known_reference_has_wilsons_interval_but_for_the_skewness() -> None:
    counts = Binary([80], [6])
    problem = ProfileLikelihood(Kind.FIXED, counts, np.array([0]), theta=np.array([0.0])).scoring_few()
    low, high = problem.interval(1.0)  # at one standard error nothing is counted
    z, n, p = 1.0, 80, 6 / 80
    middle, half = (p + z**2 / 2 / n) / (1 + z**2 / n), z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / 4 / n**2)
    assert (low[0], high[0]) == pytest.approx((middle - half, middle + half), rel=1e-6)


def test_many_cases_keep_the_likelihood_ratio() -> None:
    many = ProfileLikelihood(
        Kind.DISJOINT, Binary([200], [30]), np.array([0]), other=Binary([400], [90]), partner=np.array([0])
    )
    assert many.scoring_few().statistic(0.0) == many.statistic(0.0)
    few = ProfileLikelihood(Kind.FIXED, Binary([100, 100, 100], [19, 20, 81]), np.arange(3), theta=np.zeros(3))
    assert few.scoring_few().scored.tolist() == [True, False, True]


def test_flag_tests_rates_of_few_cases_by_their_score_unless_asked_not_to() -> None:
    data = {"g": np.repeat(["a", "b"], [100, 1_000]), "p": np.r_[np.zeros(100), np.ones(20), np.zeros(980)]}
    options: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g", "reference": {"g": "b"}}
    ours, paper = iso.flag(data, **options), iso.flag(data, **options, method=iso.likelihood(correction=None))
    assert paper.pvalue[0] < 0.05 < ours.pvalue[0]
    assert paper.ci_high[0] < 0 < ours.ci_high[0]
    plugin = iso.flag(data, **options, method="published")
    assert plugin.statistic[0] == pytest.approx(-200 * np.log(0.98))
