"""Comparable people against statsmodels (Logit, GLM with robust errors, Oaxaca's decomposition) and a bootstrap."""

from __future__ import annotations

from math import comb
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from statsmodels.stats.oaxaca import OaxacaBlinder

import isonomy as iso
from studies.comparable import drawn

RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "y", "groups": "g", "reference": {"g": "r"}}
NAMES = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    x, y, group = drawn(np.random.default_rng(17), 400, 900, 0.4, "bent", 0.6, -0.4)
    return {**x, "y": y.astype(int), "amount": x["a"] + y + x["d"] ** 2, "g": np.where(group, "g", "r")}


def terms(data: dict[str, Any]) -> np.ndarray:
    """Restricted cubic splines as Harrell (2015) writes them, with knots at the observed 0.1, 0.5 and 0.9 quantiles."""
    columns = [np.ones(len(data["y"]))]
    for name in NAMES:
        x = np.asarray(data[name])
        columns.append(x)
        if len(np.unique(x)) > 2:
            t1, t2, t3 = np.quantile(x, [0.1, 0.5, 0.9], method="inverted_cdf")
            bend = np.clip(x - t1, 0, None) ** 3 - np.clip(x - t2, 0, None) ** 3 * (t3 - t1) / (t3 - t2)
            columns.append(bend + np.clip(x - t3, 0, None) ** 3 * (t2 - t1) / (t3 - t2))
    return np.column_stack(columns)


def by_hand(x: np.ndarray, y: np.ndarray, group: np.ndarray) -> tuple[float, float]:
    """The mean of comparable people: doubly robust, and Peters and Belson's."""
    m = sm.Logit(y[~group], x[~group]).fit(disp=0, tol=1e-12).predict(x)
    e = sm.Logit(group.astype(float), x).fit(disp=0, tol=1e-12).predict(x)
    odds = (e / (1 - e))[~group]
    return m[group].mean() + np.average((y - m)[~group], weights=odds), m[group].mean()


def flagged(table: dict[str, Any], model: str = "doubly_robust", **options: Any) -> Any:
    return iso.flag(table, **{**RATE, **options}, given=iso.comparable(*NAMES, model=model))


def test_means_agree_with_statsmodels(table: dict[str, Any]) -> None:
    robust, belson = by_hand(terms(table), table["y"], table["g"] == "g")
    assert flagged(table).reference_value[0] == pytest.approx(robust, rel=1e-8)
    assert flagged(table, "logistic").reference_value[0] == pytest.approx(belson, rel=1e-8)


def test_the_conditional_odds_ratio_agrees_with_a_robust_glm(table: dict[str, Any]) -> None:
    x = np.column_stack([table["g"] == "g", terms(table)]).astype(float)
    fitted = sm.GLM(table["y"], x, family=sm.families.Binomial()).fit(cov_type="HC0", tol=1e-12)
    result = flagged(table, "logistic")
    assert result.conditional_odds[0] == pytest.approx(np.exp(fitted.params[0]), rel=1e-7)
    ends = [result.conditional_odds_low[0], result.conditional_odds_high[0]]
    assert ends == pytest.approx(np.exp(fitted.conf_int()[0]), rel=1e-6)


def test_a_linear_comparison_is_the_unexplained_part_of_oaxaca(table: dict[str, Any]) -> None:
    group = table["g"] == "g"
    parts = OaxacaBlinder(table["amount"], np.column_stack([group, terms(table)[:, 1:]]), 0, hasconst=False)
    endowments, coefficients, interaction, whole = parts.three_fold().params
    result = flagged(table, "logistic", metric=iso.Metric("amount", value=iso.col("amount")), prediction=None)
    # statsmodels puts the group with the larger mean first.
    first = table["amount"][group].mean() >= table["amount"][~group].mean()
    expected = coefficients + interaction if first else -coefficients
    assert result.disparity[0] == pytest.approx(expected, rel=1e-8)
    assert result.unconditional[0] == pytest.approx(whole if first else -whole, rel=1e-8)
    assert result.accounted[0] == pytest.approx(endowments if first else -(endowments + interaction), rel=1e-7)


@pytest.mark.parametrize("place", [0, 1], ids=["doubly robust", "Peters-Belson"])
def test_errors_agree_with_a_bootstrap(table: dict[str, Any], place: int) -> None:
    """200 resamples have an error of 5 %; residuals over 1 minus their leverage add about 1 %."""
    rng, group, y, x = np.random.default_rng(3), table["g"] == "g", table["y"], terms(table)
    differences, accounted = [], []
    for _ in range(200):
        rows = np.concatenate([rng.choice(np.flatnonzero(side), side.sum()) for side in (group, ~group)])
        mean0 = by_hand(x[rows], y[rows], group[rows])[place]
        differences.append(y[rows][group[rows]].mean() - mean0)
        accounted.append(mean0 - y[rows][~group[rows]].mean())
    result = flagged(table, ("doubly_robust", "logistic")[place])
    assert result.standard_error[0] == pytest.approx(np.std(differences), rel=0.16)
    width = (result.accounted_high - result.accounted_low)[0] / 3.92
    assert width == pytest.approx(np.std(accounted), rel=0.16)


def test_fisher_and_standard_deviations_of_a_table() -> None:
    """Of 100 and 200 applicants, 30 and 90 were hired: whole numbers, counted out."""
    data = {"y": [1] * 30 + [0] * 70 + [1] * 90 + [0] * 110, "g": ["a"] * 100 + ["b"] * 200}
    result = iso.adverse_impact(data, prediction="y", groups="g", reference={"g": "b"})
    ways = [comb(100, k) * comb(200, 120 - k) for k in range(101)]
    exact = sum(number for number in ways if number <= ways[30]) / sum(ways)
    assert result.fisher_pvalue is not None
    assert result.deviations is not None
    assert result.fisher_pvalue[0] == pytest.approx(exact, rel=1e-9)
    mean = sum(k * number for k, number in enumerate(ways)) / sum(ways)
    variance = sum((k - mean) ** 2 * number for k, number in enumerate(ways)) / sum(ways)
    assert result.deviations[0] == pytest.approx((30 - mean) / variance**0.5, rel=1e-9)
