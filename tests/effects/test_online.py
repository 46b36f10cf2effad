"""Corrections compared online, several treatments, and the criteria of Appendix A, against plain numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.inference.multiplicity import weighted_holm
from isonomy.numerics.arrays import FloatArray
from support.tables import observed

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}
DIFFERENCE: dict[str, Any] = {**ROLES, "measure": "difference"}


def online(first: dict[str, float], second: dict[str, float], rows: int = 6_000) -> pl.DataFrame:
    """People without correction, whose predictions have the first errors, and people with one, who have the second."""
    arms = []
    for i, (name, error) in enumerate((("none", first), ("corrected", second))):
        made = iso.simulate.uplift(rows, i, groups=3, measure="difference", baseline=0.3, error=error, noise=0.05)
        arms.append(made.frame().with_columns(arm=pl.lit(name)))
    return pl.concat(arms)


def squared_bias(table: pl.DataFrame) -> tuple[float, float]:
    """The mean squared bias of one arm without sampling error, and its variance, from means and variances by group."""
    errors, variances, sizes = [], [], []
    for name in ("a", "b", "c"):
        rows = table.filter(pl.col("group") == name)
        y, t, f = (rows[column].to_numpy().astype(float) for column in ("outcome", "treatment", "effect"))
        share = t.mean()
        treated, control = share * f[t == 1] - y[t == 1], (1 - share) * f[t == 0] + y[t == 0]
        errors.append(treated.mean() + control.mean())
        variances.append(treated.var(ddof=1) / treated.size + control.var(ddof=1) / control.size)
        sizes.append(len(rows))
    size, error = np.array(sizes, dtype=float), np.array(errors)
    contrast = np.eye(3)
    for i in range(3):
        others = [j for j in range(3) if j != i]
        contrast[i, others] = -size[others] / size[others].sum()
    bias, covariance = contrast @ error, contrast @ np.diag(variances) @ contrast.T
    noise = float(np.trace(covariance @ covariance))
    variance = max(4 * float(bias @ covariance @ bias) - 2 * noise, 2 * noise)
    return float((bias**2 - np.diag(covariance)).mean()), variance / 9


def test_an_online_comparison_is_that_of_two_quadratic_forms() -> None:
    table = online({"b": 0.2}, {"b": 0.05})
    result = iso.evaluate_corrections(table, **DIFFERENCE, method=iso.online("arm"))
    (before, one), (after, two) = (squared_bias(table.filter(pl.col("arm") == name)) for name in ("none", "corrected"))
    assert result.strategies == ("none", "corrected")
    assert result.pvalue[1] == pytest.approx(stats.norm.sf((before - after) / np.sqrt(one + two)), rel=0.02)
    # The library adds the multinomial variance of shares to that of the rest.
    np.testing.assert_allclose(result.estimate, np.sqrt([before, after]), rtol=0.02)
    assert result.shown.tolist() == [False, True]
    assert result.recommended == result.best == "corrected"
    assert "Recommended" in result.findings()[0]
    assert iso.from_json(result.to_json()).summary() == result.summary()
    assert result.plot("bias").to_dict()


def test_an_online_arm_that_leaves_as_much_is_not_recommended() -> None:
    result = iso.evaluate_corrections(online({"b": 0.1}, {"c": 0.1}), **DIFFERENCE, method=iso.online("arm"))
    assert not result.shown.any()
    assert result.recommended == "none"
    assert "leave the predictions as they are" in result.findings()[0]


def arms(rows: int = 6_000) -> pl.DataFrame:
    table = iso.simulate.uplift(rows, 3, groups=3, baseline=0.4, error={"b": 0.5}, treated=2 / 3).frame()
    mail = np.random.default_rng(0).random(rows) < 0.5
    names = np.where(table["treatment"].to_numpy() == 0, "none", np.where(mail, "mail", "call"))
    return table.with_columns(arm=pl.Series(names), right=pl.col("effect") - 0.5 * (pl.col("group") == "b"))


def test_several_treatments_are_single_ones_adjusted_together() -> None:
    table = arms()
    effects, treatment = {"mail": "effect", "call": "right"}, iso.arms("arm", control="none")
    roles: dict[str, Any] = {"outcome": "outcome", "groups": "group"}
    result = iso.treatment_bias(table, effect=effects, treatment=treatment, **roles)
    single = [
        iso.treatment_bias(
            table.filter(pl.col("arm").is_in([arm, "none"])), effect=effect, treatment="treatment", **roles
        )
        for arm, effect in effects.items()
    ]
    for name in ("estimate", "disparity", "ci_low", "pvalue"):
        np.testing.assert_allclose(getattr(result, name), np.concatenate([getattr(one, name) for one in single]))
    assert result.hypotheses == 6
    pvalue = np.sort(result.pvalue)
    np.testing.assert_allclose(
        np.sort(result.adjusted_pvalue), np.minimum(np.maximum.accumulate(pvalue * np.arange(6, 0, -1)), 1)
    )
    assert result.labels[0] == "arm=mail & group=a"
    assert result.families == ("group (arm=mail)", "group (arm=call)")
    assert result.provenance.rows == 6_000
    assert "the other groups combined" in result.findings()[1]


@pytest.mark.parametrize("estimator", [iso.arm_means("x"), observed({"a": (1.2, 0.1), "b": (1.2, 0.1)})])
def test_several_treatments_do_not_share_propensities_or_effects(estimator: iso.arm_means) -> None:
    roles: dict[str, Any] = {"effect": {"mail": "effect", "call": "right"}, "outcome": "outcome", "groups": "group"}
    with pytest.raises(UsageError, match="every treatment has its own"):
        iso.treatment_bias(arms(300), treatment=iso.arms("arm", control="none"), **roles, estimator=estimator)


def welch_anova(samples: list[tuple[float, float, float]]) -> float:
    """Welch's (1951) test of equal means from (mean, variance of the mean, degrees of freedom)."""
    mean, variance, df = np.array(samples).T
    weight = 1 / variance
    share, k = weight / weight.sum(), len(mean)
    slack = ((1 - share) ** 2 / df).sum()
    statistic = (weight * (mean - share @ mean) ** 2).sum() / (k - 1) / (1 + 2 * (k - 2) / (k**2 - 1) * slack)
    return float(stats.f.sf(statistic, k - 1, (k**2 - 1) / (3 * slack)))


def test_the_criteria_of_appendix_a() -> None:
    made = iso.simulate.uplift(4_000, 5, groups=4, measure="difference", outcome="real", error={"b": 0.02}, noise=0.3)
    table = made.frame()
    result = iso.treatment_bias(table, **DIFFERENCE, method="welch")
    criteria = result.criteria()
    assert criteria["criterion"] == ["independence", "separation", "sufficiency"]
    assert all("." in str(meaning) for meaning in criteria["meaning"])
    samples = []
    for name in ("a", "b", "c", "d"):
        rows = table.filter(pl.col("group") == name)
        f, t = rows["effect"].to_numpy(), rows["treatment"].to_numpy()
        there = [t == arm for arm in (0, 1)]
        parts = [(rows.mean() ** 2 * f[rows].var(ddof=1) / rows.sum(), rows.sum()) for rows in there]
        variance = sum(part for part, _ in parts)
        samples.append((f.mean(), variance, variance**2 / sum(part**2 / (n - 1) for part, n in parts)))
    pvalue = np.asarray(criteria["pvalue"])
    assert pvalue[0] == pytest.approx(welch_anova(samples), rel=1e-6)
    assert pvalue[1] == result.omnibus_pvalue[0]
    z: FloatArray = stats.norm.isf(result.error_pvalue / 2)
    assert pvalue[2] == pytest.approx(stats.chi2.sf((z**2).sum(), 4), rel=1e-6)


def test_small_groups_are_not_tested() -> None:
    table = iso.simulate.uplift(6_000, 1, groups={"a": 0.6, "b": 0.35, "c": 0.05}, baseline=0.4).frame()
    every, large = (iso.treatment_bias(table, **ROLES, min_size=least) for least in (1, 1_000))
    assert [status.value for status in large.status] == ["ok", "ok", "too_small"]
    np.testing.assert_allclose(
        large.disparity[:2], every.disparity[:2], rtol=1e-12
    )  # they stay in the rest of the others
    assert np.isnan(large.pvalue[2])
    quick = iso.heldout(2, 20)
    result = iso.evaluate_corrections(table, **ROLES, min_size=1_000, method=quick, strategies=["mean"], rng=1)
    assert np.isnan(result.bias[:, :, 2]).all()
    assert np.isfinite(result.bias[:, :, :2]).all()


def test_weighted_holm_is_the_closed_test() -> None:
    """A hypothesis is rejected if every intersection that contains it is, by a weighted Bonferroni test."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        pvalue, weight = rng.random(4) ** 3, np.array([3.0, 1.0, 1.0, 1.0])
        expected = []
        for i in range(4):
            sets = [[j for j in range(4) if j == i or code >> j & 1] for code in range(16)]
            local = [min(min(pvalue[j] * weight[s].sum() / weight[j] for j in s), 1.0) for s in sets]
            expected.append(max(local))
        np.testing.assert_allclose(weighted_holm(pvalue, weight), expected)
    assert np.isnan(weighted_holm(np.array([np.nan, 0.1]), np.ones(2))[0])
