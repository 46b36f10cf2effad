"""The order of scores, composite scores, and measures from ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.scores import calibration_metrics, composite_parity, predictive_parity
from isonomy.scores.smoothing.comparisons import interval_means, ordering
from support.tables import measured, scored, two_scores
from support.votes import moments

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def means(value: list[list[float]], se: float = 0.02) -> dict[str, np.ndarray]:
    """Independent means of two intervals."""
    values = np.array(value)
    return {
        "score": np.array([0.2, 0.8]),
        "value": values,
        "effective": np.full(values.shape, 500.0),
        "covariance": se**2 * np.eye(values.size),
        "supported": np.ones(values.shape, dtype=bool),
        "shape": np.stack([np.zeros((2, *values.shape)), np.full((2, *values.shape), se**2)], axis=1),
    }


def judged(one: dict[str, np.ndarray], tolerance: float | None = None) -> Any:
    return ordering(one, ["a", "b"], tolerance, 0.05, 500, np.random.default_rng(0))


def test_a_reversed_order_is_detected() -> None:
    order = judged(means([[0.6, 0.7], [0.1, 0.3]]))
    assert [order[name] for name in ("better", "worse", "score", "higher_score")] == ["a", "b", 0.2, 0.8]
    assert order["difference"] == pytest.approx(0.3)
    assert order["pvalue"] < 0.01
    assert judged(means([[0.1, 0.7], [0.1, 0.7]]))["pvalue"] > 0.5


def test_a_tolerance_for_reversals() -> None:
    falling = means([[0.6, 0.55], [0.6, 0.55]], se=0.005)
    assert judged(falling)["pvalue"] < 0.01
    allowed = judged(falling, 0.1)
    assert allowed["pvalue"] == 1.0
    # The upper limit of the largest reversal: 0.05 and 1.65 standard errors of a difference.
    assert allowed["limit"] == pytest.approx(0.05 + 1.645 * 0.005 * np.sqrt(2), abs=1e-4)


def test_nothing_supported_is_nothing_tested() -> None:
    none = means([[0.2, 0.7], [0.2, 0.7]])
    none["supported"][:] = False
    assert np.isnan(judged(none)["pvalue"])
    assert np.isnan(judged(none)["limit"])


def test_means_of_intervals_are_means_of_rows() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.integers(0, 10, 3_000) / 10 + 0.05, rng.integers(0, 2, 3_000)
    y = rng.normal(size=3_000)
    one = interval_means(moments(g, 2, s, y, np.ones(3_000), binary=False))
    score = one["score"]
    assert np.all(np.diff(score) > 0)
    cell = np.argmin(np.abs(s[:, None] - score), axis=1)
    for k in range(2):
        for c in range(score.size):
            mine = (g == k) & (cell == c)
            assert one["value"][k, c] == pytest.approx(y[mine].mean())
            at = k * score.size + c
            assert one["covariance"][at, at] == pytest.approx(y[mine].var() / mine.sum(), rel=1e-6)


@pytest.mark.parametrize("tolerance", [None, 0.1])
def test_a_score_that_ranks_the_wrong_way_round_is_a_violation(tolerance: float | None) -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(20_000), np.repeat(["a", "b"], 10_000)
    y = (rng.random(20_000) < 0.8 - 0.6 * s).astype(int)
    result = predictive_parity({"s": s, "g": g, "y": y}, **ROLES, tolerance=tolerance, rng=1)
    assert result.parity_pvalue > 0.05
    assert result.ordering_verdict is iso.Verdict.VIOLATION
    assert result.verdict is iso.Verdict.VIOLATION
    assert "order of scores is reversed" in " ".join(result.summary().split())


def test_groups_without_a_common_score_are_answered_by_the_order() -> None:
    """The paper's own example: score 0 with an outcome of 0.8, score 1 with 0.6."""
    rng = np.random.default_rng(0)
    g = np.repeat(["a", "b"], 1_000)
    s = np.repeat([0.0, 1.0], 1_000)
    y = (rng.random(2_000) < np.where(g == "a", 0.8, 0.6)).astype(int)
    result = predictive_parity({"s": s, "g": g, "y": y}, **ROLES, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.answered
    right = predictive_parity({"s": 1 - s, "g": g, "y": y}, **ROLES, tolerance=0.1, rng=1)
    assert right.verdict is iso.Verdict.INCONCLUSIVE


@pytest.mark.parametrize("method", ["omnibus", "residual", "orthogonal", "published", "cumulative"])
@pytest.mark.parametrize("each", [1, 4])
def test_groups_that_are_copies_are_not_tested(method: Any, each: int) -> None:
    """Every user has the same rows in both groups: what is left of the variance is rounding, and no evidence."""
    one = scored(1_500)
    user = np.arange(1_500) // each
    columns = {"s": np.tile(one["s"][:1_500], 2), "y": np.tile(one["y"][:1_500], 2), "m": np.tile(user, 2)}
    data = columns | {"g": np.repeat(["a", "b"], 1_500)}
    result = predictive_parity(data, outcome="y", score="s", groups="g", user="m", method=method, rng=1)
    assert np.isnan(result.parity_pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


def test_outcomes_that_are_the_same_in_an_interval_have_no_variance_there() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(4_000), np.repeat([0, 1], 2_000)
    y = 0.1 + 1.6 * np.maximum(s - 0.5, 0)  # level, and not random, up to one half
    result = predictive_parity({"s": s, "g": g, "y": y}, outcome="y", score="s", groups="g", rng=1)
    assert result.ordering_verdict == "inconclusive"


SEVERAL: dict[str, Any] = {
    "outcomes": ["u", "v"],
    "scores": ["a", "b"],
    "groups": "g",
    "method": iso.curves(resamples=300),
}


@pytest.mark.parametrize("scores", [2, 3, 4])
def test_weights_cover_the_simplex(scores: int) -> None:
    names = ["a", "b", "a", "b"][:scores]
    result = composite_parity(
        two_scores(100), outcomes=names, scores=names, groups="g", method=iso.curves(resamples=100), rng=1
    )
    weights = np.unique(result.weights.T, axis=0)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert weights.min() == 0
    assert len({tuple(weight) for weight in weights.round(9)}) == len(weights) == result.weights.shape[1]
    assert len(weights) == {2: 11, 3: 21, 4: 20}[scores]


@pytest.mark.parametrize("tables", [8, pytest.param(40, marks=pytest.mark.validity)])
def test_the_law_is_for_all_weights(tables: int) -> None:
    """The p-value over all weights is above the smallest and at most their number times it; 1 of 20 may reject."""
    rejected = 0
    for seed in range(tables):
        result = composite_parity(two_scores(400, seed=seed), **SEVERAL, rng=seed)
        smallest = float(np.nanmin(result.pvalues))
        assert 0.9 * smallest <= result.pvalue <= 11.5 * smallest
        rejected += result.pvalue <= 0.05
    assert rejected <= 0.05 * tables + 3 * np.sqrt(0.05 * 0.95 * tables)


MEASURED: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def test_one_stray_score_counts_as_one_row() -> None:
    data = measured()
    data["s"][0] = 1.001
    before = calibration_metrics(data, **MEASURED).ece[0]
    data["s"][0] = 100.0
    # The row's own gap over the number of rows, and no more.
    assert calibration_metrics(data, **MEASURED).ece[0] == pytest.approx(100 / 4_000, abs=before + 0.001)
