"""Weights and clusters against statsmodels: weighted and cluster-robust regressions of an indicator on a group."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso

linear = pytest.importorskip("statsmodels.regression.linear_model")


@pytest.fixture(scope="module")
def table() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    n = 2_000
    person = rng.integers(0, 120, n)
    lean = rng.normal(size=120)[person]
    return {
        "g": rng.choice(["a", "b"], n),
        "p": (rng.normal(size=n) + lean > 0.3).astype(int),
        "x": rng.normal(size=n) + lean,
        "w": np.exp(0.7 * rng.normal(size=n)),
        "c": person,
    }


@pytest.mark.parametrize("column", ["p", "x"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_a_regression_on_the_group(table: dict[str, Any], column: str, weighted: bool, clustered: bool) -> None:
    """The slope and its sandwich error, without statsmodels' factor (n - 1) / (n - k)."""
    if not (weighted or clustered):
        pytest.skip("without a design there is no sandwich")
    n = len(table["g"])
    weights = table["w"] if weighted else np.ones(n)
    design = np.column_stack([np.ones(n), table["g"] == "b"]).astype(float)
    model = linear.WLS(table[column].astype(float), design, weights=weights)
    if clustered:
        fit, factor = model.fit(cov_type="cluster", cov_kwds={"groups": table["c"]}), (n - 1) / (n - 2)
    else:
        fit, factor = model.fit(cov_type="HC0"), (n - 1) / n
    reading: dict[str, Any] = ({"weight": "w"} if weighted else {}) | ({"cluster": "c"} if clustered else {})
    metric = "selection_rate" if column == "p" else "mean_prediction"
    result = iso.flag(table, metric=metric, prediction=column, groups="g", reference={"g": "a"}, **reading)
    assert result.disparity[1] == pytest.approx(fit.params[1], rel=1e-9)
    assert result.standard_error[1] == pytest.approx(fit.bse[1] / np.sqrt(factor), rel=1e-9)
    assert result.pvalue[1] == pytest.approx(fit.pvalues[1], abs=0.02)
