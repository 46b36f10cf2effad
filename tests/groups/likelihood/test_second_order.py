"""Whether a joint test needs a small-sample correction, and what it does without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.groups.likelihood.means import Binary, Real
from isonomy.groups.likelihood.profile import Kind, ProfileLikelihood, lopsided
from isonomy.groups.likelihood.region import Region, automatic_factor, second_order_term
from isonomy.numerics.ragged import Ragged

VALUE = iso.Metric("v", value=iso.col("v"))


def grouped(values: Any) -> dict[str, Any]:
    groups, size = values.shape
    return {"g": np.repeat(np.arange(groups), size), "v": values.ravel()}


def test_many_small_groups_are_corrected_and_large_ones_are_not() -> None:
    rng = np.random.default_rng(1)
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", "rng": 1}
    quick = iso.likelihood(resamples=100)
    small = iso.certify(table := grouped(rng.lognormal(size=(20, 20))), **options, method=quick)
    plain = iso.certify(table, **options, method=iso.likelihood(correction=None))
    forced = iso.certify(table, **options, method=iso.likelihood("el", "bartlett", 100))
    assert small.statistic < plain.statistic
    assert small.statistic == forced.statistic
    assert any("divided by" in sentence for sentence in small.warnings)
    assert small.provenance.seed is not None
    large = iso.certify(table := grouped(rng.lognormal(size=(3, 2_000))), **options, method=quick)
    assert large.statistic == iso.certify(table, **options, method=iso.likelihood(correction=None)).statistic


def test_the_term_is_the_mean_of_the_groups_own() -> None:
    rng = np.random.default_rng(2)
    table = grouped(rng.exponential(size=(4, 50)))
    region = iso.certify(table, metric=VALUE, groups="g").region
    assert isinstance(region, Region)
    terms = []
    for x in table["v"].reshape(4, 50):
        m2, m3, m4 = (np.mean((x - x.mean()) ** k) for k in (2, 3, 4))
        terms.append((m4 / (2 * m2**2) - m3**2 / (3 * m2**3)) / 50)
    assert second_order_term(region) == pytest.approx(np.mean(terms), rel=1e-9)
    factor = automatic_factor(region, region.test(0.0), np.zeros(4), 0.05, 100, rng)
    assert (factor != 1) is bool(stats.chi2.sf(stats.chi2.isf(0.05, 3) / (1 + np.mean(terms)), 3) > 0.055)


def test_skewed_groups_against_a_number_decide_nothing() -> None:
    table = grouped(np.random.default_rng(3).lognormal(size=(20, 20)))
    result = iso.certify(table, metric=VALUE, groups="g", reference=float(np.exp(0.5)))
    assert result.verdict == "inconclusive"
    assert any("the joint test has no verdict" in sentence for sentence in result.warnings)
    plain = iso.certify(table, metric=VALUE, groups="g", reference=1.0, method=iso.likelihood(correction=None))
    assert plain.verdict == "violation"


def test_no_verdict_rests_on_few_skewed_rows() -> None:
    rng = np.random.default_rng(5)
    table = {"g": np.repeat(["a", "b", "c"], [300, 60, 2_000]), "v": rng.exponential(size=2_360)}
    table["v"][:300] = rng.normal(1.0, 0.05, size=300)
    table["v"][300:360] = np.append(np.full(58, 0.7) + 0.01 * rng.random(58), [9.0, 12.0])
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", "reference": 1.0, "adjust": "none"}
    result = iso.flag(table, **options, tolerance=2.0)
    assert result.status == ("ok", "skewed", "ok")
    assert [str(verdict) for verdict in result.verdicts] == ["within_tolerance", "inconclusive", "within_tolerance"]
    assert any("too skewed" in sentence and "g=b" in sentence for sentence in result.warnings)
    assert iso.certify(table, metric=VALUE, groups="g", reference=1.0, tolerance=2.0).verdict == "inconclusive"
    # Overwhelming evidence decides nevertheless.
    assert iso.flag(table, **(options | {"reference": -9.0})).verdicts[1] == "violation"


def test_both_sides_of_a_difference_count() -> None:
    x = np.random.default_rng(6).lognormal(size=(2, 40))
    means = Real(Ragged.from_codes(np.repeat([0, 1], 40), 2, x.ravel()))
    pair = ProfileLikelihood(Kind.DISJOINT, means, np.array([0]), other=means, partner=np.array([1]))
    least = abs(stats.skew(x[0]))  # of the tested group, which the reference is taken to have too
    third = sum(max(abs(stats.skew(each)), least) * np.var(each) ** 1.5 / 40**2 for each in x)
    variance = sum(np.var(each) / 40 for each in x)
    assert lopsided(pair).tolist() == [30 * third**2 > variance**3]
    assert not lopsided(ProfileLikelihood(Kind.FIXED, Binary([50], [1]), np.array([0]), theta=np.zeros(1))).any()


def test_groups_are_as_skewed_as_all_of_them_and_many_need_more_rows() -> None:
    rng, every = np.random.default_rng(7), np.arange(40)
    for rows, alone, together in ((100, True, True), (250, False, True), (600, False, False)):
        x = rng.exponential(size=(40, rows))
        means = Real(Ragged.from_codes(np.repeat(every, rows), 40, x.ravel()))
        problem = ProfileLikelihood(Kind.FIXED, means, every, theta=np.ones(40))
        quiet = 30 * stats.skew(x, axis=1) ** 2 < rows  # by their own rows many would do
        assert quiet.sum() > 10
        assert lopsided(problem)[quiet].all() == alone
        assert lopsided(problem, 0.05, 40)[quiet].all() == together
