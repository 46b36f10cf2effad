"""Comparison with independent programs: statsmodels for estimates and cluster variances, scikit-learn for the AUC."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

import isonomy as iso
from isonomy.scores import calibration_metrics, marginal_outcomes, predictive_parity
from isonomy.scores.smoothing.kernels import BINS

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    n = 1_200
    m = rng.integers(0, 300, n)
    g = np.where(m % 3 == 0, "a", "b")
    s = (np.floor(rng.beta(2, 2, n) * BINS) + 0.5) / BINS  # one score per bin of the axis, so that nothing is rounded
    return {"s": s, "g": g, "m": m, "y": (rng.random(n) < s).astype(float)}


def weighted_least_squares(design: Any, y: Any, weight: Any, user: Any) -> tuple[float, float]:
    """Intercept and its cluster-robust variance, without small-sample correction."""
    fit = sm.WLS(y, design, weights=weight).fit(
        cov_type="cluster", cov_kwds={"groups": user, "use_correction": False, "df_correction": False}
    )
    return float(fit.params[0]), float(fit.cov_params()[0, 0])


@pytest.mark.parametrize("level", ["user", "aggregate"])
@pytest.mark.parametrize("method", ["published", "residual"])
def test_curves_and_cluster_variance(columns: dict[str, Any], level: Any, method: Any) -> None:
    """Curves are intercepts of local constants (Nadaraya-Watson) or lines, with intervals from local parabolas."""
    result = predictive_parity(columns, **ROLES, user="m", method=iso.curves(method, level=level), rng=1)
    degrees = {"published": (0, 0), "residual": (1, 2)}  # of the curve, and of its interval
    each = np.bincount(columns["m"])[columns["m"]]
    checked = 0
    for g, name in enumerate("ab"):
        mine = columns["g"] == name
        curve, low, high = (getattr(result, f"{('estimate', 'reference')[g]}{end}") for end in ("", "_low", "_high"))
        for j, (point, width) in enumerate(zip(result.score, result.bandwidth, strict=True)):
            if np.isnan(curve[j]):
                continue
            u = (columns["s"][mine] - point) / width
            weight = np.exp(-0.5 * u**2) / (each[mine] if level == "user" else 1)
            line, parabola = (np.column_stack([u**k for k in range(d + 1)]) for d in degrees[method])
            value, _ = weighted_least_squares(line, columns["y"][mine], weight, columns["m"][mine])
            centre, variance = weighted_least_squares(parabola, columns["y"][mine], weight, columns["m"][mine])
            assert curve[j] == pytest.approx(np.clip(value, 0, 1), rel=1e-8)
            error = 1.959963984540054 * np.sqrt(variance)
            assert low[j] == pytest.approx(max(centre - error, 0), rel=1e-7)
            assert high[j] == pytest.approx(min(centre + error, 1), rel=1e-7)
            checked += 1
    assert checked > 20


def test_difference_and_its_variance(columns: dict[str, Any]) -> None:
    """The paper's difference at a point is the coefficient of the group dummy in one regression on both groups."""
    result = predictive_parity(columns, **ROLES, user="m", method="published", rng=1)
    each = np.bincount(columns["m"])[columns["m"]]
    for j in np.flatnonzero(np.abs(result.disparity) < 1):
        u = (columns["s"] - result.score[j]) / result.bandwidth[j]
        first = (columns["g"] == "a").astype(float)
        design = np.column_stack([first, np.ones(u.size)])
        value, variance = weighted_least_squares(design, columns["y"], np.exp(-0.5 * u**2) / each, columns["m"])
        assert result.disparity[j] == pytest.approx(value, rel=1e-8)
        assert result.se[j] ** 2 == pytest.approx(variance, rel=1e-8)


def test_the_published_pvalue(columns: dict[str, Any]) -> None:
    """The paper's test: normal p-values of the differences on a grid of scores, multiplied by their number."""
    grid = [0.2, 0.4, 0.6, 0.8]
    result = predictive_parity(columns, **ROLES, user="m", method=iso.curves("published", grid=grid), rng=1)
    each = np.bincount(columns["m"])[columns["m"]]
    rate = (np.unique(columns["m"]).size / 2) ** -0.2  # of the users in the average group
    pvalues = []
    for point in grid:
        width = max(1.06 * np.sqrt(point * (1 - point)) * rate, rate / 10)
        weight = np.exp(-0.5 * ((columns["s"] - point) / width) ** 2) / each
        design = np.column_stack([columns["g"] == "a", np.ones(each.size)]).astype(float)
        value, variance = weighted_least_squares(design, columns["y"], weight, columns["m"])
        pvalues.append(2 * norm.sf(abs(value) / np.sqrt(variance)))
    assert result.pvalue == pytest.approx(min(len(grid) * min(pvalues), 1), rel=1e-7)


@pytest.mark.parametrize(("method", "degree"), [("local-quadratic", 2), ("local-linear", 1), ("published", 0)])
def test_marginal_outcomes(columns: dict[str, Any], method: Any, degree: int) -> None:
    result = marginal_outcomes(columns, **ROLES, user="m", threshold=0.4, method=method)
    estimates = ((result.estimate[0], result.estimate_high[0]), (result.reference[0], result.reference_high[0]))
    above = columns["s"] >= 0.4
    each = np.bincount(columns["m"])[columns["m"]]  # the paper's n_m: all rows of the user, also below the threshold
    for g, name in enumerate("ab"):
        mine = (columns["g"] == name) & above
        u = (columns["s"][mine] - 0.4) / result.bandwidth[0]
        design = np.column_stack([u**k for k in range(degree + 1)])
        weight = np.exp(-0.5 * u**2) / each[mine]
        value, variance = weighted_least_squares(design, columns["y"][mine], weight, columns["m"][mine])
        estimate, high = estimates[g]
        assert estimate == pytest.approx(value, rel=1e-8)
        assert high - estimate == pytest.approx(1.959963984540054 * np.sqrt(variance), rel=1e-8)


def test_auc_and_ece(columns: dict[str, Any]) -> None:
    found = calibration_metrics(columns, outcome="y", score="s", groups="g")
    assert found.auc[0] == pytest.approx(roc_auc_score(columns["y"], columns["s"]), rel=1e-12)
    gap = columns["y"] - columns["s"]
    place = np.minimum((columns["s"] * 10).astype(int), 9)
    assert found.ece[0] == pytest.approx(sum(abs(gap[place == k].sum()) for k in range(10)) / 1_200, rel=1e-9)
    beyond = calibration_metrics(columns | {"s": columns["s"] + 1}, outcome="y", score="s", groups="g")
    order = np.argsort(columns["s"])  # no ties: ten bins of 120 rows
    ece = np.abs((gap - 1)[order].reshape(10, 120).sum(axis=1)).sum() / 1_200
    assert beyond.ece[0] == pytest.approx(ece, rel=1e-9)
