"""Tolerances: one number, by rate, by group, by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.transport.program.tolerance import tolerated
from support.tables import decided

KEYS = [("tpr", "g=b"), ("tpr", "g=c"), ("fpr", "g=b"), ("fpr", "g=c")]
INF = np.inf


@pytest.mark.parametrize(
    ("tolerance", "side", "low", "high"),
    [
        (None, "both", [0.0] * 4, [0.0] * 4),
        (0.1, "both", [-0.1] * 4, [0.1] * 4),
        (0.1, "upper", [-INF] * 4, [0.1] * 4),
        (0.1, "lower", [-0.1] * 4, [INF] * 4),
        ({"tpr": 0.1, "fpr": 0.2}, "both", [-0.1, -0.1, -0.2, -0.2], [0.1, 0.1, 0.2, 0.2]),
        ({"g=b": 0.1, "g=c": {"above": 0.2}}, "both", [-0.1, -INF, -0.1, -INF], [0.1, 0.2, 0.1, 0.2]),
        ({"below": 0.1, "above": 0.3}, "both", [-0.1] * 4, [0.3] * 4),
        (
            {"tpr": {"g=b": {"below": 0.1}, "g=c": 0.2}, "fpr": 0.3},
            "both",
            [-0.1, -0.2, -0.3, -0.3],
            [INF, 0.2, 0.3, 0.3],
        ),
    ],
)
def test_limits(tolerance: Any, side: Any, low: list[float], high: list[float]) -> None:
    null = tolerated(tolerance, side, KEYS)
    assert null.low.tolist() == low
    assert null.high.tolist() == high


@pytest.mark.parametrize(
    ("tolerance", "error", "message"),
    [
        ({}, errors.UsageError, "empty mapping"),
        ({"tpr": 5}, errors.UsageError, "written 0.05"),
        ({"tpr": -1}, errors.UsageError, "tolerance: .* is not allowed"),
        ({"group=b": {"c": {"d": {"e": 1}}}}, errors.UsageError, "tolerance"),
        ({"group=z": 0.1}, errors.UnknownOption, "tolerance: 'group=z'"),
        ({"group=b": 0.1}, errors.UsageError, "nothing is said about tpr of group=c"),
        ({"tpr": "wide"}, errors.UsageError, "tolerance"),
        ({"tpr": 0.1, "group=b": 0.2}, errors.UsageError, "tpr, group=b stand side by side"),
        ({"tpr": 0.1, "below": 0.2}, errors.UsageError, "tpr, below stand side by side"),
        ({"above": {"tpr": 0.1}}, errors.UsageError, "'above' takes a number"),
    ],
)
def test_wrong_tolerances(tolerance: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        iso.project(
            decided(), outcome="y", prediction="c", score="score", threshold=0.2, groups="group", tolerance=tolerance
        )


def test_sides_are_named_once() -> None:
    with pytest.raises(errors.UsageError, match="names sides itself"):
        iso.project(
            decided(),
            outcome="y",
            prediction="c",
            score="score",
            threshold=0.2,
            groups="group",
            tolerance={"below": 0.1},
            tolerance_side="upper",
        )


def test_a_mapping_of_equal_limits_is_the_number() -> None:
    data = decided(shift=0.4)
    options: dict[str, Any] = {"outcome": "y", "prediction": "c", "score": "score", "threshold": 0.2, "rng": 1}
    for criterion, mapping in (
        ("equalized_odds", {"tpr": 0.05, "fpr": 0.05}),
        ("statistical_parity", {"group=b": 0.05, "group=c": {"below": 0.05, "above": 0.05}}),
    ):
        one, many = (
            iso.project(data, groups="group", criterion=criterion, tolerance=t, **options)  # type: ignore[arg-type]
            for t in (0.05, mapping)
        )
        assert many.pvalue == one.pvalue
        assert many.statistic == one.statistic
        assert many.equivalence_pvalue == one.equivalence_pvalue
        assert "the tolerance (" in many.null
        assert iso.from_json(many.to_json()).tolerance == mapping


def test_each_comparison_is_held_to_its_own_limits() -> None:
    """Group b is selected more often by about 0.15: tolerated above without limit, and not below."""
    data = decided(6_000, shift=0.4)
    options: dict[str, Any] = {"prediction": "c", "score": "score", "threshold": 0.2, "rng": 1, "groups": "group"}
    wide, narrow = (
        iso.project(data, criterion="statistical_parity", tolerance={"group=b": b, "group=c": 0.1}, **options)
        for b in ({"below": 0.05}, {"above": 0.05})
    )
    assert wide.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert narrow.verdict is iso.Verdict.VIOLATION
    assert wide.statistic == 0 < narrow.statistic
    b = narrow.group.index("group=b")
    assert (narrow.tolerated_low[b], narrow.tolerated_high[b]) == (-np.inf, 0.05)
