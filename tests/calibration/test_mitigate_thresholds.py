"""Thresholds that decide new rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from isonomy.calibration import (
    equalize_thresholds,
)
from isonomy.calibration.mitigate_thresholds import GroupThresholds
from isonomy.errors import (
    UsageError,
)
from support.scores import scored_rows


def thresholds(**options: Any) -> tuple[Any, pl.DataFrame, np.ndarray]:
    data = scored_rows(8_000)
    X = pl.DataFrame({k: data[k] for k in ("s", "g", "m")})
    named: dict[str, Any] = {"score_column": "s", "group_columns": "g", **options}
    return GroupThresholds(**named), X, data["y"]


def test_thresholds_decide_new_rows() -> None:
    rule, X, y = thresholds(target="tpr")
    rule.fit(X, y)
    result = equalize_thresholds(
        X.with_columns(y=y), outcome="y", score="s", groups="g", threshold=0.5, target="tpr", resamples=100
    )
    np.testing.assert_allclose(rule.thresholds_, result.thresholds)
    assert rule.groups_ == (("a",), ("b",))
    new = pl.DataFrame({"g": ["b", "a", "b"], "s": [rule.thresholds_[1], rule.thresholds_[0] - 1e-9, 0.0]})
    assert rule.predict(new).tolist() == [1, 0, 0]
    with pytest.warns(UserWarning, match=r"decided by the present threshold: z\.$"):
        assert rule.predict(pl.DataFrame({"g": ["z", "z"], "s": [0.5, 0.49]})).tolist() == [1, 0]
    strict = rule.set_params(unknown="error")
    with pytest.raises(UsageError, match="z were not there in the fit"):
        strict.predict(pl.DataFrame({"g": ["z"], "s": [0.5]}))


def test_a_lottery_is_drawn_for_those_in_between() -> None:
    # Not the seed of the rows: the lottery would draw the numbers that their groups were drawn by.
    rule, X, y = thresholds(target="equalized_odds", randomize=True, random_state=7)
    chance = rule.fit(X, y).predict_chance(X)
    drawn = (chance > 0) & (chance < 1)
    assert drawn.any()
    first = rule.predict(X)
    np.testing.assert_array_equal(first, rule.predict(X))  # an int decides the same rows alike
    assert first[drawn].mean() == pytest.approx(chance[drawn].mean(), abs=4 * 0.5 / np.sqrt(drawn.sum()))
    np.testing.assert_array_equal(first[~drawn], chance[~drawn])


def test_thresholds_from_numbers_weights_and_scores_alone() -> None:
    rule, X, y = thresholds(target="selection_rate")
    alone = rule.fit(X).thresholds_
    np.testing.assert_array_equal(rule.fit(X, y, sample_weight=np.full(8_000, 3.0)).thresholds_, alone)
    with pytest.raises(UsageError, match="group_columns: none given"):
        GroupThresholds().fit(X, y)
    with pytest.raises(ValueError, match="requires y"):
        thresholds()[0].fit(X)


@pytest.mark.parametrize("target", ["outcome_at_margin", "predictive_value"])
def test_groups_that_share_a_threshold_are_decided_alike(target: Any) -> None:
    """Two groups with the same outcomes, and below 0.5 with scores that never coincide; a third with worse outcomes."""
    rng = np.random.default_rng(0)
    g, s = np.repeat([0, 1, 2], 6_000), rng.random(18_000)
    s = np.where((s < 0.5) & (g != 2), np.floor(10 * s) / 10 + 0.05 * g, s)
    y = rng.random(18_000) < np.where(g == 2, 0.7 * s, 0.1 + 0.9 * s)
    rule = GroupThresholds(target, group_columns=1).fit(np.column_stack([s, g]), y)
    assert rule.thresholds_[0] == rule.thresholds_[1] < 0.5 < rule.thresholds_[2]
    new = np.linspace(0, 1, 1_001)
    first, second = (rule.predict(np.column_stack([new, np.full(new.size, group)])) for group in (0, 1))
    np.testing.assert_array_equal(first, second)
