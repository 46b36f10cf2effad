"""Groups beside their references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.groups.likelihood.disparity import null_pvalues
from isonomy.numerics.arrays import FloatArray

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}


def test_plugin_equals_a_fixed_number_and_is_warned_about(lender: dict[str, Any]) -> None:
    level = float(lender["selected"][lender["race"] == "a"].mean())
    plugin = iso.flag(lender, reference={"race": "a"}, uncertainty="plugin", **RATE)
    fixed = iso.flag(lender, reference=level, **RATE)
    assert plugin.statistic[1:] == pytest.approx(fixed.statistic[1:])
    assert any("plug-in" in warning for warning in plugin.warnings)
    assert plugin.otherwise == ()  # here both treatments of the reference conclude the same


@pytest.mark.parametrize("scale", ["difference", "ratio", "odds_ratio"])
@pytest.mark.parametrize("reference", ["population", "rest", "highest", {"race": "a"}])
def test_metrics_tested_at_once_have_the_numbers_of_each_alone(
    lender: dict[str, Any], scale: Any, reference: Any
) -> None:
    data = lender | {"repaid": (lender["loss"] < np.median(lender["loss"])).astype(int)}
    asked: dict[str, Any] = {"groups": ["race", "sex"], "prediction": "selected", "outcome": "repaid"}
    options = {**asked, "depth": 2, "scale": scale, "reference": reference}
    metrics = ["selection_rate", "tpr", "ppv"]
    result = iso.flag(data, metric=metrics, **options)
    alone = [iso.flag(data, metric=metric, **options) for metric in metrics]
    for name in ("disparity", "standard_error", "ci_low", "ci_high", "statistic", "pvalue", "planning_error"):
        np.testing.assert_allclose(getattr(result, name), np.concatenate([getattr(one, name) for one in alone]), 1e-12)
    assert result.status == tuple(status for one in alone for status in one.status)


def test_simultaneous_intervals_are_of_all_groups_and_metrics(lender: dict[str, Any]) -> None:
    """Of two metrics with three groups each, six: the level of each is 1 - 0.95^(1/6)."""
    data = lender | {"repaid": (lender["loss"] < np.median(lender["loss"])).astype(int)}
    asked: dict[str, Any] = {"groups": "race", "prediction": "selected", "outcome": "repaid"}
    wide = iso.flag(data, metric=["tpr", "fpr"], **asked, interval="simultaneous")
    each = iso.flag(data, metric="tpr", **asked, alpha=1 - 0.95 ** (1 / 6))
    np.testing.assert_allclose(wide.ci_low[:3], each.ci_low)


def test_the_dependence_of_several_metrics_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """One covariance of all metrics, by the rows: in place of a sentence that says the same of any table."""
    seen: list[FloatArray] = []

    def drawn(covariance: FloatArray, *others: Any, **options: Any) -> FloatArray:
        seen.append(covariance)
        return null_pvalues(covariance, *others, **options)

    monkeypatch.setattr("isonomy.groups.likelihood.families.null_pvalues", drawn)
    rng = np.random.default_rng(4)
    data = {"g": rng.choice(["a", "b", "c"], 900), "y": rng.integers(0, 2, 900), "p": rng.integers(0, 2, 900)}
    roles: dict[str, Any] = {"groups": "g", "outcome": "y", "prediction": "p", "reference": {"g": "c"}}
    result = iso.flag(data, metric=["tpr", "selection_rate"], **roles)
    values = []
    for among in (data["y"] == 1, np.ones(900, dtype=bool)):
        parts = {}
        for level in "abc":
            rows = among & (data["g"] == level)
            parts[level] = np.where(rows, data["p"] - data["p"][rows].mean(), 0.0) / rows.sum()
        values += [parts["a"] - parts["c"], parts["b"] - parts["c"]]
    psi = np.column_stack(values)
    np.testing.assert_allclose(seen[0], 900 / 899 * psi.T @ psi, rtol=1e-9)
    assert not any("Yekutieli" in warning for warning in result.warnings)


def test_the_dependence_of_hundreds_of_groups_is_measured() -> None:
    group = np.repeat(np.arange(300), 40)
    data = {"g": group, "p": np.arange(group.size) * 7 % 13 < 6}
    result = iso.flag(data, metric="selection_rate", prediction="p", groups="g")
    assert not any("Yekutieli" in warning for warning in result.warnings)
