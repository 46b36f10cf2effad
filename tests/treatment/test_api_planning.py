"""Risk of corrections, and rows that a pilot asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UnknownOption, UsageError
from isonomy.results import Status
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def test_risk_as_specified() -> None:
    risk = iso.correction_risk([0.0, 1.0, 2.0, 3.0])
    published: dict[str, list[float]] = {
        "positive_part": [0.33, 0.86, 1.45, 1.41],
        "mse_plus": [0.47, 0.78, 1.18, 1.24],
        "significant": [0.28, 1.26, 2.43, 1.95],
        "none": [0, 1, 4, 9],
        "mean": [1, 1, 1, 1],
    }
    for name, numbers in published.items():
        np.testing.assert_allclose(risk[name], numbers, atol=0.011)


def test_no_strategy_dominates() -> None:
    risk = iso.correction_risk()
    names = [name for name in risk if name not in ("ratio", "mse_minus")]
    for one in names:
        for two in names:
            assert one == two or (risk[one] < risk[two] - 1e-6).any()


def test_unknown_names() -> None:
    with pytest.raises(UnknownOption, match="strategies"):
        iso.correction_risk([0.0], ["shrink"])
    with pytest.raises(UnknownOption, match="loss"):
        iso.correction_risk([0.0], loss="cubic")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="alpha"):
        iso.correction_risk([0.0], alpha=1.0)


def test_a_pilot_of_few_events_asks_for_more() -> None:
    """However large the bias: as many rows as bring the events without which there is no verdict."""
    made = experiment(3_000, baseline=0.01, effect=1.0)
    pilot = iso.treatment_bias(made, **ROLES)
    sizes = iso.bias_sample_size(50.0, pilot=pilot)
    np.testing.assert_array_equal(sizes["rows"], np.ceil(pilot.n * pilot.least_events / pilot.events))
    assert pilot.least_events == pytest.approx(np.log(2 * 3 / 0.05))
    large = iso.bias_sample_size(0.2, pilot=pilot)
    assert (np.asarray(large["rows"]) > np.asarray(sizes["rows"])).all()


def test_a_pilot_with_an_arm_of_no_event_is_not_precise() -> None:
    made = experiment(6_000, measure="difference", baseline=0.1, effect=0.0, heterogeneity=0.0)
    small = (made["group"] == "a") & (np.arange(6_000) % 30 > 0)
    kept = {name: values[~small] for name, values in made.items()}
    kept["outcome"] = kept["outcome"] * ((kept["group"] != "a") | (kept["treatment"] == 0))
    pilot = iso.treatment_bias(kept, **ROLES, measure="difference")
    assert pilot.status[0] is Status.FEW_EVENTS
    sizes = np.asarray(iso.bias_sample_size(0.05, pilot=pilot)["rows"])
    wald = np.ceil(pilot.n * (2.394 + 0.842) ** 2 * pilot.bias_se**2 / 0.05**2)
    assert sizes[0] > 1.2 * wald[0]
    np.testing.assert_allclose(sizes[1:], wald[1:], rtol=0.05)


def test_two_groups_are_one_hypothesis_to_plan_for() -> None:
    """(z_alpha/2 + z_power)^2 variance / bias^2 by hand, the variance of a group's error and of its rest's."""
    m0, m1 = 0.1, 0.125
    variance = 2 * (m1 * (1 - m1) + 1.25**2 * m0 * (1 - m0)) / m0**2
    rows = {}
    for groups, alpha in ((2, 0.05), (3, 0.05 / 3)):
        normal = stats.norm.isf(alpha / 2) + stats.norm.isf(0.2)
        rows[groups] = np.ceil(variance * (1 + 1 / (groups - 1)) * (normal / 0.2) ** 2)
        sizes = iso.bias_sample_size(0.2, baseline=0.1, effect=1.25, groups=groups)
        np.testing.assert_allclose(np.asarray(sizes["rows"]), rows[groups])
    few = iso.bias_sample_size(50.0, baseline=0.1, effect=1.25, groups=2)
    np.testing.assert_allclose(np.asarray(few["rows"]), np.ceil(np.log(2 / 0.05) / 0.05))


def test_a_pilot_of_two_groups_is_one_hypothesis() -> None:
    made = dict(iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3).columns)
    pilot = iso.treatment_bias(made, **ROLES)
    normal = stats.norm.isf(0.025) + stats.norm.isf(0.2)
    sizes = iso.bias_sample_size(0.05, pilot=pilot)
    np.testing.assert_allclose(np.asarray(sizes["rows"]), pilot.n * (normal * pilot.bias_se / 0.05) ** 2, rtol=0.01)
    again = iso.bias_sample_size(0.05, pilot=iso.from_json(pilot.to_json()))
    np.testing.assert_array_equal(sizes["rows"], again["rows"])
