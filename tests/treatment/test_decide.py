"""Verdicts, statuses and warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import isonomy as iso
from isonomy.results import Status, Verdict
from isonomy.treatment.decide import decide
from isonomy.treatment.estimate import estimate
from isonomy.treatment.plan import plan
from isonomy.treatment.tally import tally
from support.tables import experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def test_tolerance_decides_between_three_verdicts() -> None:
    made = experiment(200_000, error={"a": 0.2, "b": 0.2, "c": 0.8})
    result = iso.treatment_bias(made, **ROLES, tolerance=0.45)
    assert result.verdicts == (Verdict.WITHIN_TOLERANCE, Verdict.WITHIN_TOLERANCE, Verdict.VIOLATION)
    near = iso.treatment_bias(experiment(2_000), **ROLES, tolerance=0.01)
    assert set(near.verdicts) == {Verdict.INCONCLUSIVE}
    wide = iso.treatment_bias(made, **ROLES, tolerance=5.0)
    assert wide.verdict is Verdict.WITHIN_TOLERANCE


def test_the_floor_of_events_grows_with_the_number_of_groups() -> None:
    """log(2 groups / alpha): 4.8 for three groups, 6.7 for twenty; about 5.5 events are expected in each arm."""
    made = experiment(3_000, baseline=0.011, effect=1.0)
    three = iso.treatment_bias(made, **ROLES)
    assert set(three.status) == {Status.OK}
    made["group"] = np.array([f"{name}{i % 7}" for i, name in enumerate(made["group"])])
    many = iso.treatment_bias({k: np.tile(v, 7) for k, v in made.items()}, **ROLES)
    assert Status.FEW_EVENTS in many.status
    assert any("Inconclusive, because fewer than 6." in warning for warning in many.warnings)
    untested = np.array([s is Status.FEW_EVENTS for s in many.status])
    assert np.isnan(many.adjusted_pvalue[untested]).all()
    assert np.isfinite(many.bias_low[untested]).all()
    assert not any("Inconclusive" in w for w in iso.treatment_bias(made, **ROLES, test="welch").warnings)


def test_a_heavy_tail_makes_few_events_of_many_rows() -> None:
    rng = np.random.default_rng(0)
    made = experiment(6_000, measure="difference", treated=0.05)
    revenue = np.exp(2 * rng.standard_normal(6_000))
    heavy = iso.treatment_bias({**made, "outcome": revenue}, **ROLES, measure="difference")
    assert set(heavy.status) == {Status.FEW_EVENTS}
    assert any("so skewed" in warning for warning in heavy.warnings)
    normal = iso.treatment_bias({**made, "outcome": rng.standard_normal(6_000)}, **ROLES, measure="difference")
    assert set(normal.status) == {Status.OK}


def test_the_tails_of_equal_arms_cancel_out() -> None:
    """The same heavy tail in arms of one size: the difference of their means is not skewed."""
    revenue = np.exp(1.2 * np.random.default_rng(0).standard_normal(6_000))
    half = {**experiment(6_000, measure="difference"), "outcome": np.repeat(revenue[::2], 2)}
    half["treatment"] = np.tile([0, 1], 3_000)
    half["group"] = np.repeat(np.array(["a", "b", "c"]), 2_000)
    result = iso.treatment_bias(half, **ROLES, measure="difference")
    assert set(result.status) == {Status.OK}
    few = {name: np.concatenate([values[at : at + 6] for at in (0, 2_000, 4_000)]) for name, values in half.items()}
    assert set(iso.treatment_bias(few, **ROLES, measure="difference").status) == {Status.FEW_EVENTS}


def test_ratios_given_for_differences_are_noticed() -> None:
    made = experiment(6_000)  # ratios
    warnings = iso.treatment_bias(made, **ROLES, measure="difference").warnings
    assert any("they look like ratios" in warning for warning in warnings)


def test_a_control_mean_near_zero_leaves_the_interval_open() -> None:
    t, y = np.repeat([0, 1], 50), np.zeros(100)
    y[[0, 60, 61]] = 1
    made = {
        "g": np.repeat(["a", "b"], 100),
        "t": np.tile(t, 2),
        "y": np.r_[y, np.tile([0, 1], 50)],
        "f": np.linspace(1, 2, 200),
    }
    result = iso.treatment_bias(made, effect="f", treatment="t", outcome="y", groups="g", test="welch")
    assert result.status[0] is Status.UNBOUNDED
    assert np.isinf(result.error_high[0])
    assert np.isfinite(result.error_high[1])


def test_differences_taken_for_ratios_are_noticed() -> None:
    made = dict(iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3, measure="difference").columns)
    taken, said = iso.treatment_bias(made, **ROLES), "look like differences"
    assert any(said in warning for warning in taken.warnings)
    right = iso.treatment_bias(made, **ROLES, measure="difference")
    assert not any(said in warning for warning in right.warnings)


def test_verdicts_are_at_most_alpha_of_adjusted_pvalues() -> None:
    """Both families are adjusted: a bias is within the tolerance if its adjusted p-value is at most alpha."""
    source = iso.open_source(experiment(40_000, error={"c": 0.3}))
    asked = plan(source, **ROLES, tolerance=0.2, adjust="bonferroni")
    rng = np.random.default_rng(0)
    estimates = estimate(tally(source, asked, rng), asked, rng)
    pvalues = np.array([0.05 / 3, 0.5, 0.5]), np.array([1.0, 0.05 / 3, 0.05 / 3 + 1e-9])
    at_the_edge = replace(estimates, bias_pvalue=pvalues[0], within_pvalue=pvalues[1])
    decisions = decide(at_the_edge, asked)
    assert decisions.verdicts == (Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
    assert decisions.verdict is Verdict.VIOLATION
    np.testing.assert_allclose(decisions.adjusted_pvalue, np.minimum(3 * pvalues[0], 1))
    without = decide(at_the_edge, replace(asked, tolerance=None))
    assert without.verdicts[1] is Verdict.INCONCLUSIVE


def test_resamples_that_were_lost_are_told() -> None:
    made = {"group": ["a"] * 40 + ["b"] * 400, "effect": np.linspace(1, 1.4, 440), "outcome": np.arange(440) // 2 % 2}
    made["treatment"] = np.where(np.arange(440) < 40, np.arange(440) >= 37, np.arange(440) % 2).astype(int)
    result = iso.treatment_bias(made, **ROLES, variance="bootstrap", rng=1)
    assert any("had an empty arm" in warning for warning in result.warnings)
