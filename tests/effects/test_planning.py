"""The rows needed, and the risk of corrections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError
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


def test_the_oracle_knows_the_error() -> None:
    ratios = [0.0, 0.5, 1.0, 2.0, 4.0]
    squares = np.square(ratios)
    np.testing.assert_allclose(iso.correction_risk(ratios)["oracle"], squares / (1 + squares), atol=1e-4)
    absolute = iso.correction_risk([2.0], ["mean"], loss="absolute")

    def risk(share: float) -> float:  # the mean of a folded normal law
        mean, sd = 2.0 - share * 2.0, share
        return float(stats.foldnorm.mean(mean / sd, scale=sd))

    best = min(risk(share) for share in np.linspace(0.001, 1, 1_000))
    assert absolute["oracle"][0] == pytest.approx(best, abs=1e-3)
    assert absolute["mean"][0] == pytest.approx(np.sqrt(2 / np.pi), abs=1e-3)


def test_a_loss_of_ones_own() -> None:
    named = iso.correction_risk([0.0, 1.5], ["significant"])
    own = iso.correction_risk([0.0, 1.5], ["significant"], loss=lambda truth, subtracted: (truth - subtracted) ** 2)
    np.testing.assert_allclose(own["significant"], named["significant"])


def test_no_strategy_dominates() -> None:
    risk = iso.correction_risk()
    names = [name for name in risk if name not in ("ratio", "mse_minus", "oracle")]
    for one in names:
        for two in names:
            assert one == two or (risk[one] < risk[two] - 1e-6).any()


def test_a_pilot_of_few_events_asks_for_more() -> None:
    """Even for a large bias, the rows must bring the events that a verdict needs."""
    made = experiment(3_000, baseline=0.01, effect=1.0)
    pilot = iso.treatment_bias(made, **ROLES)
    sizes = iso.bias_sample_size(50.0, pilot)
    np.testing.assert_array_equal(sizes["rows"], np.ceil(pilot.n * pilot.least_events / pilot.events))
    assert pilot.least_events == pytest.approx(np.log(2 * 3 / 0.05))
    large = iso.bias_sample_size(0.2, pilot)
    assert (np.asarray(large["rows"]) > np.asarray(sizes["rows"])).all()


def test_a_pilot_with_an_arm_of_no_event_is_not_precise() -> None:
    made = experiment(6_000, measure="difference", baseline=0.1, effect=0.0, heterogeneity=0.0)
    small = (made["group"] == "a") & (np.arange(6_000) % 30 > 0)
    kept = {name: values[~small] for name, values in made.items()}
    kept["outcome"] = kept["outcome"] * ((kept["group"] != "a") | (kept["treatment"] == 0))
    pilot = iso.treatment_bias(kept, **ROLES, measure="difference")
    assert pilot.status[0] is Status.FEW_EVENTS
    sizes = np.asarray(iso.bias_sample_size(0.05, pilot)["rows"])
    wald = np.ceil(pilot.n * (2.394 + 0.842) ** 2 * pilot.standard_error**2 / 0.05**2)
    assert sizes[0] > 1.2 * wald[0]
    np.testing.assert_allclose(sizes[1:], wald[1:], rtol=0.05)


def test_two_groups_are_one_hypothesis_to_plan_for() -> None:
    """(z_alpha/2 + z_power)^2 variance / bias^2 by hand, with the variances of the error of a group and of its rest."""
    m0, m1 = 0.1, 0.125
    variance = 2 * (m1 * (1 - m1) + 1.25**2 * m0 * (1 - m0)) / m0**2
    rows = {}
    for groups, alpha in ((2, 0.05), (3, 0.05 / 3)):
        normal = stats.norm.isf(alpha / 2) + stats.norm.isf(0.2)
        rows[groups] = np.ceil(variance * (1 + 1 / (groups - 1)) * (normal / 0.2) ** 2)
        sizes = iso.bias_sample_size(0.2, iso.planned(0.1, 1.25, groups=groups))
        np.testing.assert_allclose(np.asarray(sizes["rows"]), rows[groups])
    few = iso.bias_sample_size(50.0, iso.planned(0.1, 1.25, groups=2))
    np.testing.assert_allclose(np.asarray(few["rows"]), np.ceil(np.log(2 / 0.05) / 0.05))


def test_a_pilot_of_two_groups_is_one_hypothesis() -> None:
    made = dict(iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3).columns)
    pilot = iso.treatment_bias(made, **ROLES)
    normal = stats.norm.isf(0.025) + stats.norm.isf(0.2)
    sizes = iso.bias_sample_size(0.05, pilot)
    expected = pilot.n * (normal * pilot.standard_error / 0.05) ** 2
    np.testing.assert_allclose(np.asarray(sizes["rows"]), expected, rtol=0.01)
    again = iso.bias_sample_size(0.05, iso.from_json(pilot.to_json()))
    np.testing.assert_array_equal(sizes["rows"], again["rows"])


def test_the_formula_by_hand() -> None:
    """Two groups are one hypothesis, at the whole error rate."""
    z = stats.norm.isf(0.025) + stats.norm.isf(0.2)
    sizes = iso.bias_sample_size(0.02, iso.planned(0.1, 0.05, treated=0.25, groups=2, measure="difference"))
    variance = 2 * (0.15 * 0.85 / 0.25 + 0.1 * 0.9 / 0.75)  # with two groups, the rest is as uncertain as the group
    np.testing.assert_array_equal(sizes["rows"], np.ceil(variance * (z / 0.02) ** 2))


def test_groups_of_their_own_rates() -> None:
    """Rarer outcomes need more rows; equal rates by group are the same as one rate for all."""
    named = iso.bias_sample_size(0.2, iso.planned({"a": 0.1, "b": 0.1, "c": 0.1}, 1.25))
    plain = iso.bias_sample_size(0.2, iso.planned(0.1, 1.25, groups=3))
    np.testing.assert_allclose(np.asarray(named["rows"]), np.asarray(plain["rows"]))
    assert named["group"] == ["a", "b", "c"]
    rates = {"a": 0.1, "b": 0.05, "c": 0.2}
    sizes = iso.bias_sample_size(0.2, iso.planned(rates, {"c": 1.1, "b": 1.2, "a": 1.3}))
    rows = np.asarray(sizes["rows"])
    assert rows[1] > rows[0] > rows[2]
    m0, r = np.array([0.1, 0.05, 0.2]), np.array([1.3, 1.2, 1.1])
    variance = (m0 * r * (1 - m0 * r) + r**2 * m0 * (1 - m0)) * 2 / m0**2
    for g in range(3):
        rest = np.delete(rows, g)
        bias = variance[g] / rows[g] + (rest**2 * np.delete(variance, g) / rest).sum() / rest.sum() ** 2
        power = stats.norm.cdf(0.2 / np.sqrt(bias) - stats.norm.isf(0.025 / 3))
        assert power == pytest.approx(0.8, abs=0.02)


def test_enough_events_are_asked_for() -> None:
    sizes = iso.bias_sample_size(5.0, iso.planned(0.01, 1.2, groups=30))
    assert sizes["rows"][0] == np.ceil(np.log(2 * 30 / 0.05) / 0.005)


def test_a_pilot_scales_by_its_own_intervals() -> None:
    table = iso.simulate.uplift(9_000, groups=3, baseline=0.2).columns
    pilot = iso.treatment_bias(table, **ROLES)
    sizes = iso.bias_sample_size(0.3, pilot)
    z = stats.norm.isf(0.025 / 3) + stats.norm.isf(0.2)
    half = (pilot.ci_high - pilot.ci_low) / 2 / stats.norm.isf(0.025)
    np.testing.assert_array_equal(sizes["rows"], np.ceil(pilot.n * (z * half / 0.3) ** 2))
    np.testing.assert_allclose(half, pilot.standard_error, rtol=0.02)
    assert sizes["group"] == ["group=a", "group=b", "group=c"]


@pytest.mark.parametrize("tables", [40, pytest.param(100, marks=pytest.mark.validity)])
def test_the_rows_have_the_power_they_promise(tables: int) -> None:
    """Two groups are one hypothesis: power 0.8 without adjustment."""
    rows = int(np.asarray(iso.bias_sample_size(0.5, iso.planned(0.2, 1.25, groups=2))["rows"])[0])
    found = 0
    for seed in range(tables):
        made = iso.simulate.uplift(2 * rows, seed, groups=2, baseline=0.2, error={"b": 0.5}, trend=0.0)
        found += iso.treatment_bias(made.columns, **ROLES).adjusted_pvalue[1] <= 0.05
    assert 0.8 - 3 * np.sqrt(0.16 / tables) <= found / tables <= 0.95


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"baseline": 0.1, "effect": 1.25, "groups": 1}, "2 or more"),
        ({"baseline": {"a": 0.1, "b": 0.2}, "effect": {"a": 1.1, "c": 1.2}}, "they name different groups"),
        ({"baseline": {"a": 0.1, "b": 0.2}, "effect": 1.1, "groups": 3}, "they name different groups"),
        ({"baseline": {"a": 0.1, "b": 0.9}, "effect": 1.2}, "they give b mean outcomes of 0.9 and 1.08"),
        ({"baseline": -1.0, "effect": 1.25, "spread": 2.0}, "above 0"),
    ],
)
def test_bad_calls(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        iso.bias_sample_size(0.2, iso.planned(**options))


def test_what_no_number_of_rows_shows_is_refused() -> None:
    with pytest.raises(UsageError, match="bias: 1e-300 is not allowed; no number of rows"):
        iso.bias_sample_size(1e-300, iso.planned(0.1, 1.0, groups=2))
    with pytest.raises(UsageError, match="groups: 1000000000000000000 is not allowed"):
        iso.bias_sample_size(0.1, iso.planned(0.1, 1.0, groups=10**18))


@pytest.mark.parametrize("spread", [1e308, 1e-308])
def test_spreads_beyond_all_numbers_are_refused(spread: float) -> None:
    with pytest.raises(UsageError, match="baseline, effect, spread: too large or too small"):
        iso.bias_sample_size(0.2, iso.planned(1.0, 0.1, measure="difference", spread=spread))
