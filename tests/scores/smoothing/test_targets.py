"""Rows by bins of the score, responses to a threshold, and lotteries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.scores.smoothing.targets import (
    COARSE,
    FINE,
    SUMS,
    ScoreCells,
    above,
    blocks_of,
    common_value,
    equal_odds,
    join_bins,
    metrics_of,
    ratio,
    resampled,
    responses,
    split_tie,
    threshold_bins,
)
from support.cells import cells, groups


@pytest.mark.parametrize(
    ("low", "high", "present"), [(0.0, 1.0, 0.3), (-5.0, 3.0, 2.9), (0.0, 1.0, 7.0), (2.0, 2.0, 2.0)]
)
def test_the_present_threshold_is_an_edge(low: float, high: float, present: float) -> None:
    bins = threshold_bins(low, high, present)
    for one in (bins, join_bins(bins)):
        assert one.edges[one.before] == present
        assert one.edges[0] <= low
        assert one.edges[-1] >= high
        assert one.edges.size == one.size + 1 == one.centers.size + 1
    assert (bins.size, join_bins(bins).size) == (FINE, COARSE)


def test_sums_from_each_edge_up() -> None:
    assert above(np.array([[1.0, 2.0, 4.0]])).tolist() == [[7.0, 6.0, 4.0, 0.0]]


def test_joined_and_pooled_cells_have_the_same_rows() -> None:
    rng = np.random.default_rng(0)
    one = cells(rng.random(500), rng.integers(0, 2, 500).astype(float))
    two = ScoreCells(one.bins, *(np.concatenate([getattr(one, name)] * 2) for name in SUMS))
    for name in SUMS:
        np.testing.assert_allclose(getattr(two.joined, name).sum(axis=-1), getattr(two, name).sum(axis=-1))
        np.testing.assert_allclose(getattr(two.pooled(np.array([0, 0])), name), 2 * getattr(one, name))
        np.testing.assert_allclose(getattr(two.pooled(np.array([-1, 0])), name), getattr(one, name))


@pytest.mark.parametrize("binary", [True, False])
def test_samples_vary_as_rows_do(binary: bool) -> None:
    """The mean outcome of samples drawn again has the standard error of a mean."""
    rng = np.random.default_rng(0)
    score = rng.random(2_000)
    outcome = (rng.random(2_000) < score).astype(float) if binary else rng.normal(score, 2.0)
    means = [float(c.total.sum() / c.known.sum()) for c in resampled(cells(score, outcome), None, 400, rng)]
    assert np.mean(means) == pytest.approx(outcome.mean(), abs=0.2 * outcome.std() / np.sqrt(2_000))
    assert np.std(means) == pytest.approx(outcome.std() / np.sqrt(2_000), rel=0.12)


def test_parts_are_drawn_as_wholes() -> None:
    rng = np.random.default_rng(0)
    each = [cells(rng.random(20), np.full(20, float(k % 2))).joined for k in range(50)]
    parts = ScoreCells(each[0].bins, *(np.stack([getattr(one, name) for one in each]) for name in SUMS))
    means = [float(c.total.sum() / c.known.sum()) for c in resampled(each[0], parts, 400, rng)]
    assert np.std(means) == pytest.approx(0.5 / np.sqrt(50), rel=0.12)  # 50 parts, not 1,000 rows


METRICS = ("selection_rate", "tpr", "fpr", "predictive_value")


def by_hand(metric: str, s: np.ndarray, y: np.ndarray, t: float) -> float:
    chosen = s >= t
    return {
        "selection_rate": chosen.mean(),
        "tpr": chosen[y == 1].mean(),
        "fpr": chosen[y == 0].mean(),
        "predictive_value": y[chosen].mean(),
    }[metric]


@pytest.mark.parametrize("metric", METRICS)
def test_metrics_are_the_rows(metric: str) -> None:
    scores, outcomes, both = groups()
    selected = both.above
    numerator, denominator = (
        np.broadcast_to(part, selected[0].shape) for part in ratio(metric, selected, selected[..., :1])
    )
    for place in (both.bins.before, both.bins.before + 100, both.bins.before - 1_000):
        for g in range(2):
            expected = by_hand(metric, scores[g], outcomes[g], both.bins.edges[place])
            assert numerator[g, place] / denominator[g, place] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("target", [*METRICS, "equalized_odds"])
def test_all_agree_and_as_many_are_selected(target: Any) -> None:
    scores, outcomes, both = groups()
    curves = responses(both, target)
    wanted = sum(curve.positives(0.5) for curve in curves)
    value, reached = common_value(curves, wanted)
    assert reached
    thresholds = [curve.threshold(value) for curve in curves]
    assert sum((s >= t).sum() for s, t in zip(scores, thresholds, strict=True)) == pytest.approx(wanted, abs=5)
    for g, t in enumerate(thresholds):
        assert curves[g].metric(t) == pytest.approx(value)
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


def test_groups_that_do_not_differ_share_a_block() -> None:
    apart = np.zeros((4, 4), dtype=bool)
    apart[0, 2] = apart[2, 0] = True
    value, known = np.array([0.1, 0.2, 0.3, 0.25]), np.array([True, True, True, False])
    assert blocks_of(value, apart, known).tolist() == [0, 0, 1, -1]
    assert blocks_of(value, ~np.eye(4, dtype=bool), known).tolist() == [0, 1, 2, -1]
    assert blocks_of(value, np.zeros((4, 4), dtype=bool), known).tolist() == [0, 0, 0, -1]


def test_equal_odds_by_lot() -> None:
    scores, outcomes, both = groups()
    wanted = float(sum((s >= 0.5).sum() for s in scores))
    rules, pair, reached = equal_odds(both, wanted)
    assert reached
    chances = []
    for rule, s, y in zip(rules, scores, outcomes, strict=True):
        low, high, probability = rule
        assert low <= high
        assert 0 <= probability <= 1
        chance = np.where(s >= high, 1.0, np.where(s >= low, probability, 0.0))
        np.testing.assert_allclose([chance[y == 1].mean(), chance[y == 0].mean()], pair, atol=5e-4)
        chances.append(chance.sum())
    assert sum(chances) == pytest.approx(wanted, abs=10)


def test_ties_are_cut_up_by_lot_or_taken_whole() -> None:
    score = np.repeat([0.1, 0.6, 0.8], [50, 40, 10])
    (curve,) = responses(cells(score, np.zeros(100)), "selection_rate")
    half = curve.threshold(0.4)
    low, high, probability = split_tie(half, curve, randomize=True)
    assert low <= 0.6 < high
    assert probability == pytest.approx(0.75)  # 10 for certain and three quarters of 40
    assert (score >= split_tie(half, curve, randomize=False)[0]).sum() == 50
    assert (score >= split_tie(curve.threshold(0.2), curve, randomize=False)[0]).sum() == 10


def test_single_scores_are_no_tie() -> None:
    (curve,) = responses(cells(np.linspace(0, 1, 1_000), np.zeros(1_000)), "selection_rate")
    assert split_tie(0.5123, curve, randomize=True) == (0.5123, 0.5123, 1.0)
