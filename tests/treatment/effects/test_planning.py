"""Rows needed: the formula by hand, the power they give, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.treatment.effects.planning import rows_for, sizes_from_pilot, sizes_from_rates

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def test_the_formula_by_hand() -> None:
    """Two groups are one hypothesis, at the whole error rate."""
    z = stats.norm.isf(0.025) + stats.norm.isf(0.2)
    assert rows_for(4.0, 0.1, 0.05, 0.8) == np.ceil(4 * (z / 0.1) ** 2)
    sizes = sizes_from_rates(0.02, "difference", 0.1, 0.05, 0.25, None, 2, 0.05, 0.8)
    variance = 2 * (0.15 * 0.85 / 0.25 + 0.1 * 0.9 / 0.75)  # two groups: the rest is as uncertain as the group
    np.testing.assert_array_equal(sizes["rows"], np.ceil(variance * (z / 0.02) ** 2))


def test_groups_of_their_own_rates() -> None:
    """Rarer outcomes need more rows; equal rates by name are one rate for all."""
    named = iso.bias_sample_size(0.2, baseline={"a": 0.1, "b": 0.1, "c": 0.1}, effect=1.25)
    plain = iso.bias_sample_size(0.2, baseline=0.1, effect=1.25, groups=3)
    np.testing.assert_allclose(np.asarray(named["rows"]), np.asarray(plain["rows"]))
    assert named["group"] == ["a", "b", "c"]
    rates = {"a": 0.1, "b": 0.05, "c": 0.2}
    sizes = sizes_from_rates(0.2, "relative", rates, {"c": 1.1, "b": 1.2, "a": 1.3}, 0.5, None, None, 0.05, 0.8)
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
    sizes = sizes_from_rates(5.0, "relative", 0.01, 1.2, 0.5, None, 30, 0.05, 0.8)
    assert sizes["rows"][0] == np.ceil(np.log(2 * 30 / 0.05) / 0.005)


def test_a_pilot_scales_by_its_own_intervals() -> None:
    table = iso.simulate.uplift(9_000, groups=3, baseline=0.2).columns
    pilot = iso.treatment_bias(table, **ROLES)
    sizes = iso.bias_sample_size(0.3, pilot=pilot)
    z = stats.norm.isf(0.025 / 3) + stats.norm.isf(0.2)
    half = (pilot.bias_high - pilot.bias_low) / 2 / stats.norm.isf(0.025)
    np.testing.assert_array_equal(sizes["rows"], np.ceil(pilot.n * (z * half / 0.3) ** 2))
    np.testing.assert_allclose(half, pilot.bias_se, rtol=0.02)
    assert sizes["group"] == ["group=a", "group=b", "group=c"]
    one = np.ones(1)
    with_nan = sizes_from_pilot(0.3, ["a"], one, one, np.full(1, np.nan), one, 4.0, 1, 0.05, 0.8)
    assert np.isnan(with_nan["rows"]).all()


def test_the_rows_have_the_power_they_promise() -> None:
    """Two groups, which are one hypothesis: power 0.8 without any adjustment; 100 tables."""
    rows = int(np.asarray(iso.bias_sample_size(0.5, baseline=0.2, effect=1.25, groups=2)["rows"])[0])
    found = 0
    for seed in range(100):
        made = iso.simulate.uplift(2 * rows, seed, groups=2, baseline=0.2, error={"b": 0.5}, trend=0.0)
        found += iso.treatment_bias(made.columns, **ROLES).adjusted_pvalue[1] <= 0.05
    assert 0.8 - 3 * np.sqrt(0.16 / 100) <= found / 100 <= 0.95


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "a pilot"),
        ({"baseline": 0.9, "effect": 1.25}, "strictly between 0 and 1"),
        ({"baseline": 0.1, "effect": 1.25, "groups": 1}, "2 or more"),
        ({"baseline": {"a": 0.1, "b": 0.2}, "effect": {"a": 1.1, "c": 1.2}}, "not of the same groups"),
        ({"baseline": {"a": 0.1, "b": 0.2}, "effect": 1.1, "groups": 3}, "not of the same groups"),
        ({"baseline": {"a": 0.1, "b": 0.9}, "effect": 1.2}, "they give b mean outcomes of 0.9 and 1.08"),
        ({"baseline": -1.0, "effect": 1.25, "spread": 2.0}, "above 0"),
    ],
)
def test_bad_calls(options: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        iso.bias_sample_size(0.2, **options)


def test_what_no_number_of_rows_shows_is_refused() -> None:
    with pytest.raises(UsageError, match="bias: 1e-300 is not allowed; no number of rows"):
        iso.bias_sample_size(1e-300, baseline=0.1, effect=1.0, groups=2)
    with pytest.raises(UsageError, match="groups: 1000000000000000000 is not allowed"):
        iso.bias_sample_size(0.1, baseline=0.1, effect=1.0, groups=10**18)


@pytest.mark.parametrize("spread", [1e308, 1e-308])
def test_spreads_beyond_all_numbers_are_refused(spread: float) -> None:
    with pytest.raises(UsageError, match="baseline, effect, spread: too large or too small"):
        iso.bias_sample_size(0.2, baseline=1.0, effect=0.1, measure="difference", spread=spread)
