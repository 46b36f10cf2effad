"""Whether a joint test needs a small-sample correction, and what it does without one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.groups.likelihood.region import Region, automatic_factor, second_order_term
from isonomy.inference.designs import Contribution
from isonomy.inference.effect import combined, too_skewed

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


def contribution(x: Any) -> Contribution:
    """Groups of equal size, one row each."""
    n = np.full(len(x), float(x.shape[1]))
    away = x - x.mean(axis=1, keepdims=True)
    return Contribution.of_rows((away**3).sum(axis=1) / n**3, (away**2).sum(axis=1) / n**2, n)


def test_both_sides_of_a_difference_count() -> None:
    x = np.random.default_rng(6).lognormal(size=(2, 40))
    sides = [contribution(x[[0]]), contribution(x[[1]])]
    whole, skewness, variance = combined(sides), np.abs(stats.skew(x, axis=1)), np.var(x, axis=1)
    # Both count as at least as skewed and as variable as all rows.
    wide = np.maximum(variance, variance.mean())
    assert whole.third[0] == pytest.approx((skewness.max() * wide**1.5).sum() / 40**2)
    assert whole.variance[0] == pytest.approx(wide.sum() / 40)
    assert whole.effect[0] == pytest.approx(wide.sum() / variance.sum())
    welch = stats.ttest_ind(*x, equal_var=False)
    assert whole.df[0] == pytest.approx(welch.df, rel=1e-12)


def test_groups_are_as_skewed_as_all_of_them_and_many_need_more_rows() -> None:
    rng = np.random.default_rng(7)
    for rows, alone, together in ((100, True, True), (250, False, True), (600, False, False)):
        x = rng.exponential(size=(40, rows))
        third, variance = combined([contribution(x)])[:2]
        quiet = 30 * stats.skew(x, axis=1) ** 2 < rows  # by their own rows many would do
        assert quiet.sum() > 10
        assert too_skewed(third, variance)[quiet].all() == alone
        assert too_skewed(third, variance, 0.05, 40)[quiet].all() == together


SKEWED: dict[str, dict[str, Any]] = {
    "strata": {"reference": {"g": "c"}, "given": "s"},
    "best": {"reference": "highest"},
    "weights": {"reference": {"g": "c"}, "weight": "w"},
    "clusters": {"reference": {"g": "c"}, "cluster": "k"},
    "overlap": {"reference": {"h": "d"}, "groups": ["g", "h"]},
    "rest": {"reference": "rest"},
    "standardized": {"reference": {"g": "c"}, "scale": "standardized"},
}


@pytest.mark.parametrize("path", SKEWED)
def test_every_path_has_the_gate(path: str) -> None:
    rng = np.random.default_rng(8)
    n = 60 + 60 + 1_000
    table = {
        "g": np.repeat(["a", "b", "c"], [60, 60, 1_000]),
        "s": rng.integers(0, 3, n),
        "w": rng.uniform(0.5, 1.5, n),
    }
    table |= {"h": rng.choice(["d", "e"], n), "k": np.arange(n) // 2}
    options: dict[str, Any] = {"metric": VALUE, "groups": "g", **SKEWED[path]}
    for value, closed in ((np.exp(1.5 * rng.normal(size=n)), True), (rng.normal(size=n), False)):
        result = iso.flag(table | {"v": value}, **options)
        status = dict(zip(map(str, result.groups), result.status, strict=True))
        assert [status["g=a"], status["g=b"]] == (["skewed"] * 2 if closed else ["ok"] * 2)
        assert any("too skewed" in sentence for sentence in result.warnings) == closed
        assert closed <= (result.verdict == "inconclusive")


def test_means_of_few_rows_have_welch_degrees_of_freedom() -> None:
    rng = np.random.default_rng(9)
    table = {"g": np.repeat(["a", "c"], [12, 300]), "v": rng.normal(size=312)}
    result = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"})
    df = stats.ttest_ind(table["v"][:12], table["v"][12:], equal_var=False).df
    assert result.pvalue[0] == pytest.approx(stats.f.sf(result.statistic[0], 1, df), rel=1e-9)
    plain = iso.flag(table, metric=VALUE, groups="g", reference={"g": "c"}, method=iso.likelihood(correction=None))
    assert plain.statistic[0] == result.statistic[0]
    assert plain.pvalue[0] == pytest.approx(stats.chi2.sf(result.statistic[0], 1), rel=1e-9)
    assert plain.ci_high[0] < result.ci_high[0]


def test_skewed_groups_have_no_joint_verdict() -> None:
    rng = np.random.default_rng(11)
    amounts = np.where(rng.random(1_360) < 0.1, rng.lognormal(size=1_360), 0.0)
    table = {"g": np.repeat(np.arange(7), [1_000, *[60] * 6]), "v": amounts}
    result = iso.certify(table, metric=VALUE, groups="g", rng=0)
    assert result.verdict == "inconclusive"
    assert any("v is too skewed" in sentence for sentence in result.warnings)
    table["v"] = rng.normal(size=1_360)
    assert iso.certify(table, metric=VALUE, groups="g", rng=0).answered
