"""Tolerances by number, rate, group and side, and the tolerance curve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy import errors
from isonomy.projection.program.law import tolerated
from support.tables import decided

KEYS = [("tpr", "g=b"), ("tpr", "g=c"), ("fpr", "g=b"), ("fpr", "g=c")]
INF = np.inf


@pytest.mark.parametrize(
    ("tolerance", "low", "high"),
    [
        (None, [0.0] * 4, [0.0] * 4),
        (0.1, [-0.1] * 4, [0.1] * 4),
        ({"above": 0.1}, [-INF] * 4, [0.1] * 4),
        ({"below": 0.1}, [-0.1] * 4, [INF] * 4),
        ({"tpr": 0.1, "fpr": 0.2}, [-0.1, -0.1, -0.2, -0.2], [0.1, 0.1, 0.2, 0.2]),
        ({"g=b": 0.1, "g=c": {"above": 0.2}}, [-0.1, -INF, -0.1, -INF], [0.1, 0.2, 0.1, 0.2]),
        ({"below": 0.1, "above": 0.3}, [-0.1] * 4, [0.3] * 4),
        (
            {"tpr": {"g=b": {"below": 0.1}, "g=c": 0.2}, "fpr": 0.3},
            [-0.1, -0.2, -0.3, -0.3],
            [INF, 0.2, 0.3, 0.3],
        ),
    ],
)
def test_limits(tolerance: Any, low: list[float], high: list[float]) -> None:
    null = tolerated(tolerance, KEYS)
    assert null.low.tolist() == low
    assert null.high.tolist() == high


@pytest.mark.parametrize(
    ("tolerance", "error", "message"),
    [
        ({"tpr": -1}, errors.UsageError, "tolerance: .* is not allowed"),
        ({"group=b": {"c": {"d": {"e": 1}}}}, errors.UsageError, "tolerance"),
        ({"group=z": 0.1}, errors.UnknownOption, "tolerance: 'group=z'"),
        ({"group=b": 0.1}, errors.UsageError, "there is no entry for tpr of group=c"),
        ({"tpr": "wide"}, errors.UsageError, "tolerance"),
        ({"tpr": 0.1, "group=b": 0.2}, errors.UsageError, "tpr, group=b are at the same level"),
        ({"tpr": 0.1, "below": 0.2}, errors.UsageError, "tpr, below are at the same level"),
        ({"above": {"tpr": 0.1}}, errors.UsageError, "'above' takes a number"),
    ],
)
def test_wrong_tolerances(tolerance: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        iso.project(
            decided(), outcome="y", prediction="c", score="score", threshold=0.2, groups="group", tolerance=tolerance
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
    """Group b is selected more often by about 0.15; its tolerance has a limit only below, or only above."""
    data = decided(6_000, shift=0.4)
    options: dict[str, Any] = {"prediction": "c", "score": "score", "threshold": 0.2, "rng": 1, "groups": "group"}
    wide, narrow = (
        iso.project(data, criterion="statistical_parity", tolerance={"group=b": b, "group=c": 0.1}, **options)
        for b in ({"below": 0.05}, {"above": 0.05})
    )
    assert wide.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert narrow.verdict is iso.Verdict.VIOLATION
    assert wide.statistic == 0 < narrow.statistic
    b = narrow.labels.index("group=b")
    assert (narrow.tolerated_low[b], narrow.tolerated_high[b]) == (-np.inf, 0.05)


ROLES: dict[str, Any] = {"prediction": "c", "score": "score", "threshold": 0.2, "criterion": "statistical_parity"}


@pytest.mark.parametrize(("groups", "side"), [("sex", "both"), ("group", "above")])
def test_the_limits_are_those_of_single_tests(groups: str, side: Any) -> None:
    data = decided(4_000, shift=0.5)
    data["score"] = data["score"] + 0.4 * (data["sex"] == "F")
    data["c"] = (data["score"] >= 0.2).astype(int)
    options = ROLES | {"groups": groups, "rng": 5}

    def limit(tolerance: float) -> Any:
        return tolerance if side == "both" else {side: tolerance}

    options["reference"] = {groups: {"sex": "M", "group": "a"}[groups]}
    curve = iso.project(data, tolerance=limit(0.0), method=iso.corrected(curve=True), **options).curve
    assert curve is not None
    assert 0 < curve.least < curve.most < 1
    below, above = (iso.project(data, tolerance=limit(curve.least + step), **options) for step in (-0.003, 0.003))
    assert below.pvalue <= 0.05 < above.pvalue
    before, after = (iso.project(data, tolerance=limit(curve.most + step), **options) for step in (-0.003, 0.003))
    assert after.equivalence_pvalue <= 0.05 < before.equivalence_pvalue
    assert np.all(np.diff(curve.pvalue) >= -0.01)
    assert np.all(np.diff(curve.within_pvalue[1:]) <= 1e-9)


def test_without_a_difference_nothing_is_said_from_below() -> None:
    result = iso.project(decided(), groups="sex", method=iso.corrected(curve=True), **ROLES)
    assert result.curve is not None
    assert result.curve.least == 0.0
    assert "No positive lower bound for the largest difference can be given" in " ".join(result.findings())
    again = iso.from_json(result.to_json())
    assert again.curve.most == result.curve.most
    again.plot()


def test_rates_that_are_equal_to_the_row_have_an_upper_limit() -> None:
    score = np.tile(np.linspace(-1.0, 1.0, 200) + 1e-4, 2)
    data = {"sex": np.repeat(["F", "M"], 200), "score": score, "c": (score >= 0).astype(int)}
    result = iso.project(data, groups="sex", method=iso.corrected(curve=True), **ROLES | {"threshold": 0.0})
    assert result.curve is not None
    assert 0.07 < result.curve.most < 0.09  # 1.645 standard errors of 0.05
    assert "by more than 0.08" in result.summary()


@pytest.mark.parametrize("why", ["constant", "few clusters"])
def test_what_cannot_be_tested_has_no_limits(why: str) -> None:
    data = decided()
    if why == "constant":
        data |= {"c": np.ones(2_000, dtype=int)}
    result = iso.project(
        data | {"d": np.ones(2_000), "branch": np.arange(2_000) // 400},
        prediction="c",
        groups="sex",
        distance="d",
        criterion="statistical_parity",
        method=iso.corrected(curve=True),
        cluster="branch" if why == "few clusters" else None,
    )
    assert result.curve is not None
    assert np.isnan(result.curve.least)
    assert result.curve.most == np.inf
    assert np.isnan(result.curve.within_pvalue).all()
    assert "No tolerance could be tested" in result.summary()
