"""Invariance to relabeled groups, permuted rows, renamed users, doubled rows and shifted score axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import isonomy as iso
from isonomy.scores import equalize_thresholds, predictive_parity
from isonomy.scores.calibrators import GroupCalibrator
from isonomy.scores.smoothing.kernels import KERNELS, kernel

ROLES: dict[str, Any] = {
    "outcome": "y",
    "score": "s",
    "groups": "g",
    "user": "m",
    "method": iso.curves(resamples=200),
    "rng": 1,
}
SEEDS = st.integers(0, 10_000)


def scored_rows(seed: int, n: int = 500) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    s = rng.beta(2, 2, n)
    g = rng.integers(0, 2, n)
    return {"s": s, "g": g, "m": rng.integers(0, 200, n), "y": (rng.random(n) < s).astype(int)}


def numbers(columns: dict[str, Any], **options: Any) -> dict[str, Any]:
    result = predictive_parity(columns, **(ROLES | options))
    return {
        "curve": np.stack([result.estimate, result.reference]),
        "effective": np.stack([result.effective_n, result.reference_effective_n]),
        "difference": result.disparity,
        "se": result.se,
        "statistic": np.abs(result.disparity / result.se),
    }


def assert_same(a: dict[str, Any], b: dict[str, Any], sign: int = 1) -> None:
    for name, value in a.items():
        other = b[name][::-1] if sign < 0 and name in ("curve", "effective") else b[name]
        np.testing.assert_allclose(value, sign * other if name == "difference" else other, rtol=1e-8, atol=1e-12)


@given(SEEDS)
@settings(max_examples=8)
def test_order_of_rows_and_names_of_users(seed: int) -> None:
    data = scored_rows(seed)
    order = np.random.default_rng(seed).permutation(500)
    moved = {name: values[order] for name, values in data.items()} | {"m": 7 * data["m"][order] + 3}
    assert_same(numbers(data), numbers(moved))


@given(SEEDS)
@settings(max_examples=8)
def test_swapping_the_groups_flips_the_difference(seed: int) -> None:
    data = scored_rows(seed)
    assert_same(numbers(data), numbers(data | {"g": 1 - data["g"]}), sign=-1)


@given(SEEDS)
@settings(max_examples=8)
def test_each_row_twice_changes_nothing_at_user_level(seed: int) -> None:
    data = scored_rows(seed)
    assert_same(numbers(data), numbers({name: np.repeat(values, 2) for name, values in data.items()}))


@given(SEEDS, st.floats(0.5, 50), st.floats(-20, 20))
@settings(max_examples=8)
def test_outcomes_can_be_rescaled(seed: int, scale: float, shift: float) -> None:
    data = scored_rows(seed)
    data["y"] = data["y"] + np.random.default_rng(seed).normal(size=500)
    plain, moved = (numbers(data | {"y": y}) for y in (data["y"], shift + scale * data["y"]))
    np.testing.assert_allclose(moved["difference"], scale * plain["difference"], rtol=1e-6, atol=1e-9 * scale)
    np.testing.assert_allclose(moved["statistic"], plain["statistic"], rtol=1e-6)


def test_kernels_have_the_moments_they_promise() -> None:
    u = np.linspace(-12, 12, 20_001)
    for order, name in ((2, "gaussian"), (4, "gaussian4"), (6, "gaussian6")):
        assert name in KERNELS
        k = kernel(u, name)
        assert abs(np.trapezoid(k, u) - np.sqrt(2 * np.pi)) < 1e-9
        for power in range(2, order, 2):
            assert abs(float(np.trapezoid(k * u**power, u))) < 1e-8
        assert abs(float(np.trapezoid(k * u**order, u))) > 0.1


@given(SEEDS)
@settings(max_examples=8)
def test_weights_count_rows(seed: int) -> None:
    data = scored_rows(seed)
    X = np.column_stack([data["s"], data["g"]])
    weight = np.random.default_rng(seed).integers(0, 4, 500)
    for method in ("near_unbiased", "binning", "isotonic", "platt"):
        model = GroupCalibrator(method, groups=1)
        weighted = model.fit(X, data["y"], sample_weight=weight).predict(X)
        repeated = model.fit(np.repeat(X, weight, axis=0), np.repeat(data["y"], weight)).predict(X)
        np.testing.assert_allclose(weighted, repeated, rtol=1e-4 if method == "platt" else 1e-9)


@given(SEEDS, st.sampled_from(["outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds"]))
@settings(max_examples=5)
def test_thresholds_do_not_depend_on_order_names_or_scale(seed: int, target: Any) -> None:
    data = scored_rows(seed, 3_000)
    ask: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "target": target, "change": "all"}
    ask |= {"method": iso.curves(resamples=100), "rng": 0}
    plain = equalize_thresholds(data, threshold=0.5, **ask)
    order = np.random.default_rng(seed).permutation(3_000)
    moved = {name: values[order] for name, values in data.items()} | {"g": 1 - data["g"][order]}
    np.testing.assert_allclose(equalize_thresholds(moved, threshold=0.5, **ask).thresholds[::-1], plain.thresholds)
    counted = equalize_thresholds(data | {"n": np.full(3_000, 2)}, threshold=0.5, count="n", **ask)
    if target != "outcome_at_margin":  # its bandwidth depends on the number of rows
        np.testing.assert_allclose(counted.thresholds, plain.thresholds)
        assert counted.pvalue <= plain.pvalue
    scaled = equalize_thresholds(data | {"s": 8.0 * data["s"]}, threshold=4.0, **ask)
    np.testing.assert_allclose(scaled.thresholds / 8.0, plain.thresholds, atol=2e-3)
