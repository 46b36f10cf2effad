"""Thresholds as they are returned: units, and the outcomes at the margin by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy import Labels, from_json, open_source
from isonomy.calibration import equalize_thresholds
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
