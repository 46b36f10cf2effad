"""What remains after corrections: halves and swaps, groups without an answer, and size where nothing is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.results import Status
from support.sampling import binomial_margin

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def uplift(rows: int = 30_000, **design: Any) -> dict[str, Any]:
    return dict(iso.simulate.uplift(rows, **{"groups": 6, "baseline": 0.3, **design}).columns)


def test_a_swap_is_the_other_half() -> None:
    """Both halves together: without correction, the two errors of a split average to about the error of all rows."""
    made = uplift(60_000)
    result = iso.evaluate_corrections(made, **ROLES, splits=4, resamples=10, rng=2, strategies=["none"])
    whole = iso.treatment_bias(made, **ROLES)
    averaged = result.error[0].reshape(4, 2, -1).mean(1)
    np.testing.assert_allclose(averaged, np.tile(whole.error, (4, 1)), atol=0.02)


def test_what_remains_after_the_mean_correction_is_the_difference_of_halves() -> None:
    result = iso.evaluate_corrections(uplift(), **ROLES, splits=2, resamples=10, rng=3, strategies=["none", "mean"])
    none, mean = result.error
    # Detection half and held-out half swap roles, so the remainder of one run is minus that of the other.
    np.testing.assert_allclose(mean[0], none[0] - none[1], atol=1e-12)
    np.testing.assert_allclose(mean[0], -mean[1], atol=1e-12)


def test_groups_that_cannot_be_answered_leave_the_others_alone() -> None:
    made = uplift()
    extra = {name: np.concatenate([v, v[:50]]) for name, v in made.items()}
    extra["group"] = extra["group"].astype("<U2")
    extra["group"][-50:] = "zz"
    extra["treatment"][-50:] = 1
    result = iso.evaluate_corrections(extra, **ROLES, splits=2, resamples=10, rng=1)
    assert result.status[-1] is Status.NO_CONTROL
    assert np.isnan(result.bias[..., -1]).all()
    assert np.isfinite(result.bias[..., :-1]).all()
    assert any("group=zz" in w for w in result.warnings)


def beside_a_small_group(rng: np.random.Generator, treated: int, measure: str) -> dict[str, Any]:
    """No error anywhere, predictions nearly constant: two groups of 2,000, one with few treated rows."""
    group = np.repeat(["a", "b", "z"], [2_000, 2_000, 200 + treated])
    arm = np.r_[np.tile([0, 1], 2_000), np.ones(treated, dtype=int), np.zeros(200, dtype=int)]
    outcome = (rng.random(group.size) < np.where(arm == 1, 0.25, 0.2)).astype(int)
    effect = (1.25 if measure == "relative" else 0.05) + 0.001 * rng.random(group.size)
    return {"group": group, "treatment": arm, "outcome": outcome, "effect": effect}


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("cluster", [None, "who"])
def test_an_arm_without_events_is_not_certainty(measure: Any, cluster: str | None) -> None:
    """0 of 8 treated in both halves: its estimated variance is 0, and correcting it would look like a sure gain."""
    table = beside_a_small_group(np.random.default_rng(0), 8, measure)
    table["outcome"][4_000:4_008] = 0
    table["who"] = np.arange(table["outcome"].size)
    result = iso.evaluate_corrections(
        table,
        **ROLES,
        measure=measure,
        splits=3,
        resamples=20,
        rng=1,
        cluster=cluster,
    )
    assert not any(result.shown)
    assert result.status == (Status.OK, Status.OK, Status.FEW_EVENTS)
    assert np.isnan(result.bias[..., 2]).all()
    assert np.isfinite(result.bias[..., :2]).all()
    assert any("group=z: too few outcomes" in warning for warning in result.warnings)


@pytest.mark.parametrize(("treated", "measure"), [(8, "relative"), (60, "difference")])
def test_the_size_of_less_bias_beside_a_group_of_few_events(treated: int, measure: Any) -> None:
    """About 2 and about 15 treated events in the small group, so 1 and 7 in a half; 20 tables."""
    rng, tables = np.random.default_rng(7), 20
    shown = [
        any(
            iso.evaluate_corrections(
                beside_a_small_group(rng, treated, measure), **ROLES, measure=measure, splits=3, resamples=20, rng=rng
            ).shown
        )
        for _ in range(tables)
    ]
    assert np.mean(shown) <= 0.05 + binomial_margin(0.05, tables)


def test_amounts_that_nobody_spent_are_no_certainty_either() -> None:
    table = beside_a_small_group(np.random.default_rng(0), 8, "difference")
    table["outcome"] = table["outcome"] * np.random.default_rng(1).exponential(10, table["outcome"].size)
    table["outcome"][4_000:4_008] = 0
    result = iso.evaluate_corrections(table, **ROLES, measure="difference", splits=2, resamples=20, rng=1)
    assert result.status[2] is Status.FEW_EVENTS
    assert not any(result.shown)


def test_a_group_that_has_nobody_to_be_compared_with_is_not_short_of_events() -> None:
    table = uplift(3_000, groups=["a", "b"])
    table["treatment"] = np.where(table["group"] == "a", 1, table["treatment"])
    result = iso.evaluate_corrections(table, **ROLES, splits=2, resamples=10, rng=1)
    assert result.status == (Status.NO_CONTROL, Status.OK)
    assert result.headline().startswith("Not answered")


def test_what_is_said_of_treated_shares() -> None:
    table = uplift(3_000)
    alike, differ = (
        iso.evaluate_corrections({**table, "treatment": t}, **ROLES, splits=2, resamples=10, rng=1)
        for t in (table["treatment"], np.where(table["group"] == "a", np.arange(3_000) % 5 > 0, table["treatment"]))
    )
    assert "no more than 5 points" in alike.assumptions()[0][1]
    assert "more than chance explains, which the standardised comparison allows for" in differ.assumptions()[0][1]


def test_ratios_given_for_differences_are_noticed() -> None:
    result = iso.evaluate_corrections(uplift(3_000), **ROLES, measure="difference", splits=2, resamples=10, rng=1)
    assert any("they look like ratios" in warning for warning in result.warnings)


def test_differences_are_not_taken_for_ratios() -> None:
    made = dict(iso.simulate.uplift(8_000, 3, groups=3, measure="difference", error={"b": 0.05}).columns)
    with pytest.raises(UsageError, match=r'measure: none given.*measure="difference".*measure="relative"'):
        iso.evaluate_corrections(made, **ROLES, splits=2, rng=1)
    with pytest.raises(UsageError, match="measure: none given"):
        iso.evaluate_corrections(made | {"who": np.arange(8_000) // 2}, **ROLES, splits=2, rng=1, cluster="who")
    named = iso.evaluate_corrections(made, **ROLES, splits=2, rng=1, measure="difference")
    assert named.provenance.options["measure"] == "difference"
