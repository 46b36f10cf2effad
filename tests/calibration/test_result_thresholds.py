"""Thresholds as they are returned: units, and the outcomes at the margin by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy import Labels, from_json, open_source
from isonomy.calibration import equalize_thresholds
from isonomy.errors import NotEnoughData, UsageError
from isonomy.results.theme import specification

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5, "rng": 0, "resamples": 100}


def test_rates_are_in_percent_and_outcomes_if_they_are_shares(columns: dict[str, Any]) -> None:
    margin = equalize_thresholds(columns, **ROLES)
    assert margin.units()["marginal_after"] == "%"
    assert margin.units()["marginal_se"] == "points"
    assert f"Common outcome at the margin: {100 * margin.target:.1f} %." in margin.findings()[0]
    money = equalize_thresholds(columns | {"y": 7.0 * columns["y"]}, **ROLES)
    assert not [name for name in money.units() if name.startswith("marginal")]
    assert f"Common outcome at the margin: {money.target:.2f}." in money.findings()[0]
    rates = equalize_thresholds(columns, **ROLES, target="tpr")
    assert rates.units()["tpr_before"] == rates.units()["rate_after"] == "%"
    assert set(rates.units()) <= {*rates.table(), "probability"}


def test_outcomes_at_the_margin_are_there_if_these_were_made_equal(columns: dict[str, Any]) -> None:
    margin, rates = (equalize_thresholds(columns, **ROLES, target=t) for t in ("outcome_at_margin", "fpr"))
    np.testing.assert_array_equal(margin.marginal_before, margin.before[0])
    assert np.isnan(rates.marginal_after).all()


def test_metrics_have_the_readers_words(columns: dict[str, Any]) -> None:
    words = Labels(metrics={"tpr": "approved among those who repaid", "selection_rate": "approved", "ppv": "precision"})
    told = equalize_thresholds(open_source(columns, labels=words), **ROLES, target="tpr", change="all")
    share = "share approved among those who repaid"
    assert f"the {share} is the same in all groups" in told.null
    assert told.findings()[0].startswith(f"Common {share}: ")
    assert f"; {share} from " in told.findings()[1]
    assert "; share approved from " in told.findings()[1]
    assert "more approved (95 % interval" in " ".join(told.findings())
    assert told.headings()["tpr_before"] == f"{share} before"
    assert told.headings()["rate_after"] == "share approved after"
    assert share.capitalize() in str(specification(told.plot()))
    again = from_json(told.to_json())
    assert again.findings() == told.findings()
    ours = equalize_thresholds(columns, **ROLES, target="tpr").summary()
    assert "true positive rate" not in " ".join(told.summary().split())
    assert "true positive rate" in " ".join(ours.split())
    value = equalize_thresholds(open_source(columns, labels=words), **ROLES, target="predictive_value")
    assert "Common precision: " in value.findings()[0]  # under the metric's other name


def _of_the_selected(seed: int = 0) -> dict[str, Any]:
    """Outcomes of those with a score of one half or more alone."""
    rng = np.random.default_rng(seed)
    score, group = rng.random(4_000), np.repeat(["a", "b"], 2_000)
    outcome = (rng.random(4_000) < score).astype(float)
    return {"s": score, "g": group, "y": np.where(score < 0.5, np.nan, outcome)}


def test_outcomes_known_of_the_selected_alone_are_told() -> None:
    asked: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5, "groups": "g", "rng": 0}
    data = _of_the_selected()
    result = equalize_thresholds(data, **asked)
    known = float(np.mean(data["s"] >= 0.5))
    assert f"The outcome is known of {100 * known:.1f} % of everybody." in result.warnings[0]
    assert "accuracy is not known" in result.warnings[0]
    keeps = f"Every group keeps the present threshold; selected of everybody: {100 * known:.1f} %."
    assert result.findings()[0] == keeps
    with pytest.raises(UsageError, match=r"known of nobody with a score below 0.5.*outcome_at_margin"):
        equalize_thresholds(data, target="tpr", missing="drop", **asked)


def test_a_rate_of_those_whose_outcome_is_known_says_so() -> None:
    data = _of_the_selected()
    data["y"] = np.where(np.arange(4_000) % 2 == 0, data["s"] > 0.4, data["y"])
    asked: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5, "groups": "g", "rng": 0}
    result = equalize_thresholds(data, target="tpr", missing="drop", **asked)
    left_out = int(np.isnan(data["y"]).sum())
    assert result.warnings[0].startswith(f"{left_out:,} rows without an outcome were left out")
    unasked = {**asked, "outcome": None, "target": "selection_rate"}
    assert equalize_thresholds(data, **unasked).warnings == ()
    data["s"][:50] = np.nan
    assert not any("outcome" in told for told in equalize_thresholds(data, missing="drop", **unasked).warnings)


def test_too_few_rows_are_told_in_words() -> None:
    data = {"s": np.tile([0.4, 0.6], 8), "g": np.repeat(["a", "b"], 8), "y": np.tile([0, 1], 8)}
    with pytest.raises(NotEnoughData, match=r"to know the outcome at the margin at 0.5.*join small groups"):
        equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g")


def test_groups_that_share_a_threshold_are_named() -> None:
    rng = np.random.default_rng(0)
    score, group = rng.random(9_000), np.repeat(["a", "b", "c"], 3_000)
    data = {"s": np.where(group == "c", score**2, score), "g": group, "y": rng.random(9_000) < score}
    result = equalize_thresholds(
        data, outcome="y", score="s", threshold=0.5, groups="g", target="tpr", resamples=100, rng=0
    )
    assert result.findings()[1] == "Not shown to differ, and so with one threshold together: g=a and g=b."
