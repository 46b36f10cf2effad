"""Metrics as functions of the threshold, and the thresholds where all agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.calibration.smoothing.targets import (
    RATIOS,
    blocks_of,
    common_value,
    metrics_of,
    one_way,
    ratio,
    responses,
    within,
)
from support.cells import groups


def by_hand(metric: str, s: np.ndarray, y: np.ndarray, t: float) -> float:
    chosen = s >= t
    return {
        "selection_rate": chosen.mean(),
        "tpr": chosen[y == 1].mean(),
        "fpr": chosen[y == 0].mean(),
        "predictive_value": y[chosen].mean(),
    }[metric]


@pytest.mark.parametrize("metric", RATIOS)
def test_metrics_are_the_rows(metric: str) -> None:
    scores, outcomes, both = groups()
    numerator, denominator = ratio(both, metric)
    for place in (both.bins.before, both.bins.before + 100, both.bins.before - 1_000):
        for g in range(2):
            expected = by_hand(metric, scores[g], outcomes[g], both.bins.edges[place])
            assert numerator[g, place] / denominator[g, place] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("target", [*RATIOS, "equalized_odds"])
def test_all_agree_and_as_many_are_selected(target: Any) -> None:
    scores, outcomes, both = groups()
    curves = responses(both, target)
    wanted = sum(curve.positives(0.5) for curve in curves)
    value, reached = common_value(curves, wanted)
    assert reached
    thresholds = [curve.threshold(value) for curve in curves]
    assert sum((s >= t).sum() for s, t in zip(scores, thresholds, strict=True)) == pytest.approx(wanted, abs=5)
    for g, t in enumerate(thresholds):
        assert curves[g].at(t) == pytest.approx(value)
        measured = np.mean([by_hand(m, scores[g], outcomes[g], t) for m in metrics_of(target)])
        assert measured == pytest.approx(value, abs=0.005 if target == "predictive_value" else 5e-4)


def test_two_groups_have_the_smallest_largest_difference_of_odds() -> None:
    scores, outcomes, both = groups()
    curves = responses(both, "equalized_odds")
    wanted = sum(curve.positives(0.5) for curve in curves)
    value, _ = common_value(curves, wanted)

    def largest(first: float) -> float:
        rates = responses(both, "selection_rate")
        second = rates[1].threshold((wanted - rates[0].positives(first)) / scores[1].size)
        return max(
            abs(by_hand(m, scores[0], outcomes[0], first) - by_hand(m, scores[1], outcomes[1], second))
            for m in ("tpr", "fpr")
        )

    ours = largest(curves[0].threshold(value))
    assert ours <= min(largest(t) for t in np.linspace(0.2, 0.6, 81)) + 2e-3


def test_one_way() -> None:
    _, _, both = groups()
    for target, raised in (("tpr", min), ("predictive_value", max)):
        curves = responses(both, target)  # type: ignore[arg-type]
        now = [curve.at(0.5) for curve in curves]
        assert one_way(curves, 0.5, "raise") == raised(now)
    assert [within(t, 0.5, "raise") for t in (0.4, 0.6)] == [0.5, 0.6]
    assert [within(t, 0.5, "lower") for t in (0.4, 0.6)] == [0.4, 0.5]


def test_groups_that_do_not_differ_share_a_block() -> None:
    apart = np.zeros((4, 4), dtype=bool)
    apart[0, 2] = apart[2, 0] = True
    value, known = np.array([0.1, 0.2, 0.3, 0.25]), np.array([True, True, True, False])
    assert blocks_of(value, apart, known).tolist() == [0, 0, 1, -1]
    assert blocks_of(value, ~np.eye(4, dtype=bool), known).tolist() == [0, 1, 2, -1]
    assert blocks_of(value, np.zeros((4, 4), dtype=bool), known).tolist() == [0, 0, 0, -1]
