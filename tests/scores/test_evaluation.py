"""Calibrators compared on users that they have not seen, and the errors of measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import isonomy as iso
from isonomy.errors import UnknownOption, UsageError
from isonomy.scores import GroupCalibrator, calibration_metrics, evaluate_calibrators

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def rows(n: int = 2_000, seed: int = 0) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    s, g = rng.beta(2, 2, n), np.repeat(["a", "b"], n // 2)
    return {"s": s, "g": g, "y": (rng.random(n) < np.where(g == "a", s, s**2)).astype(int), "m": np.arange(n) // 2}


def test_one_split_is_calibrated_and_measured_by_hand() -> None:
    data = rows()
    result = evaluate_calibrators(data, **ROLES, calibrators=["isotonic"], splits=1, rng=7)
    half = np.random.default_rng(7).spawn(1)[0].permutation(2_000)
    calibrated = np.empty(2_000)
    X = pd.DataFrame({"s": data["s"], "g": data["g"]})
    for fit, test in ((half[:1_000], half[1_000:]), (half[1_000:], half[:1_000])):
        model = GroupCalibrator("isotonic", score_column="s", groups="g").fit(X.iloc[fit], data["y"][fit])
        calibrated[test] = model.predict(X.iloc[test])
    by_hand = calibration_metrics(
        data | {"c": calibrated}, outcome="y", score={"none": "s", "isotonic": "c"}, groups="g"
    )
    assert result.group == by_hand.group
    assert result.score == by_hand.score
    for name in ("calibration_error", "parity_error", "ece", "auc", "calibration_error_se", "auc_se"):
        np.testing.assert_allclose(getattr(result, name), getattr(by_hand, name), rtol=1e-10)


def test_calibration_by_group_reduces_the_parity_error() -> None:
    for options in ({}, {"user": "m"}, {"method": "published", "splits": 5}):
        result = evaluate_calibrators(rows(4_000), **ROLES, **({"splits": 2, "rng": 1} | options))
        changes = result.changes(backend="pandas").query("group == 'overall' and measure == 'parity_error'")
        assert list(changes["score"]) == ["near_unbiased", "published", "platt", "isotonic"]
        assert (changes["ci_high"] < 0).all()
        assert (changes["pvalue"] < 0.01).all()


def test_errors_are_those_of_a_jackknife_by_hand() -> None:
    """The standard error of AUC, leaving out every fiftieth row in turn."""
    data = rows()
    result = calibration_metrics(data, **ROLES)
    part = np.arange(2_000) % 50
    left = []
    for k in range(50):
        kept = {name: values[part != k] for name, values in data.items()}
        left.append(calibration_metrics(kept, **ROLES).auc)
    by_hand = np.sqrt(49 / 50 * np.sum((np.array(left) - np.mean(left, axis=0)) ** 2, axis=0))
    np.testing.assert_allclose(result.auc_se, by_hand, rtol=2e-3)


def test_rows_of_a_user_are_left_out_together() -> None:
    data = rows(1_000)
    twice = {name: np.repeat(values, 2) for name, values in data.items()} | {"m": np.repeat(np.arange(1_000), 2)}
    once = calibration_metrics(data | {"m": np.arange(1_000)}, **ROLES, user="m", method=iso.curves(bandwidth=0.1))
    same = calibration_metrics(twice, **ROLES, user="m", method=iso.curves(bandwidth=0.1))
    np.testing.assert_allclose(same.ece_se, once.ece_se, rtol=1e-8)


def test_changes_are_paired() -> None:
    data = rows()
    data["t"] = np.clip(0.99 * data["s"], 0, 1)
    result = calibration_metrics(data, outcome="y", score=["s", "t"], groups="g")
    changes = result.changes(backend="pandas").query("measure == 'calibration_error' and group == 'overall'").iloc[0]
    assert changes["estimate"] == pytest.approx(result.calibration_error[3] - result.calibration_error[0])
    assert changes["se"] < 0.5 * np.hypot(result.calibration_error_se[3], result.calibration_error_se[0])
    back = result.changes("t", backend="pandas").query("measure == 'calibration_error' and group == 'overall'").iloc[0]
    assert back["estimate"] == pytest.approx(-changes["estimate"])
    with pytest.raises(UsageError, match="against: there is no score 'u'"):
        result.changes("u")


def test_an_evaluation_is_checked() -> None:
    data = rows(400)
    with pytest.raises(UsageError, match=r"calibrators: .*names \(other than 'none'\)"):
        evaluate_calibrators(data, **ROLES, calibrators={"none": GroupCalibrator()})
    with pytest.raises(UsageError, match="count: 'm' cannot be used here"):
        evaluate_calibrators(data, **ROLES, count="m")
    with pytest.raises(UnknownOption):
        evaluate_calibrators(data, **ROLES, calibrators=["spline"])
