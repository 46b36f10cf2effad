"""Thresholds as they are returned: units, and the outcomes at the margin by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.calibration import equalize_thresholds

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
