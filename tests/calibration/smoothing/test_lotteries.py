"""Lotteries between two thresholds."""

from __future__ import annotations

import numpy as np
import pytest

from isonomy.calibration.smoothing.lotteries import cut_up, equal_odds
from isonomy.calibration.smoothing.targets import responses
from support.cells import cells, groups


def test_equal_odds_by_lot() -> None:
    scores, outcomes, both = groups()
    wanted = float(sum((s >= 0.5).sum() for s in scores))
    rules, pair, reached = equal_odds(both, wanted)
    assert reached
    chances = []
    for rule, s, y in zip(rules, scores, outcomes, strict=True):
        assert rule.low <= rule.high
        assert 0 <= rule.probability <= 1
        chance = np.where(s >= rule.high, 1.0, np.where(s >= rule.low, rule.probability, 0.0))
        np.testing.assert_allclose([chance[y == 1].mean(), chance[y == 0].mean()], pair, atol=5e-4)
        chances.append(chance.sum())
    assert sum(chances) == pytest.approx(wanted, abs=10)


def test_ties_are_cut_up_by_lot_or_taken_whole() -> None:
    score = np.repeat([0.1, 0.6, 0.8], [50, 40, 10])
    (curve,) = responses(cells(score, np.zeros(100)), "selection_rate")
    half = curve.threshold(0.4)
    rule = cut_up(half, curve, randomize=True)
    assert rule.low <= 0.6 < rule.high
    assert rule.probability == pytest.approx(0.75)  # 10 for certain and three quarters of 40
    assert (score >= cut_up(half, curve, randomize=False).low).sum() == 50
    assert (score >= cut_up(curve.threshold(0.2), curve, randomize=False).low).sum() == 10


def test_single_scores_are_no_tie() -> None:
    (curve,) = responses(cells(np.linspace(0, 1, 1_000), np.zeros(1_000)), "selection_rate")
    rule = cut_up(0.5123, curve, randomize=True)
    assert rule.low == rule.high == 0.5123
