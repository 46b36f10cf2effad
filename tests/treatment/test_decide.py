"""Verdicts, statuses and warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

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


def test_differences_named_ratios_are_noticed() -> None:
    made = dict(iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3, measure="difference").columns)
    taken, said = iso.treatment_bias(made, **ROLES, measure="relative"), "look like differences"
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


def distinct(result: iso.TreatmentBiasResult, hypotheses: list[list[int]]) -> np.ndarray[Any, Any]:
    """Holm's adjustment by hand over hypotheses, each given by the places of the groups that share it."""
    p = np.array([result.bias_pvalue[places[0]] for places in hypotheses])
    order = np.argsort(p)
    adjusted = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    expected = np.empty(len(result.groups))
    for value, hypothesis in zip(adjusted, order, strict=True):
        expected[hypotheses[hypothesis]] = value
    return expected


@pytest.mark.parametrize("adjust", ["holm", "bonferroni", "bh", "by"])
@pytest.mark.parametrize("options", [{}, {"rest": "pooled"}, {"variance": "bootstrap"}, {"tolerance": 0.01}])
def test_two_groups_are_one_hypothesis(adjust: Any, options: dict[str, Any]) -> None:
    """bias_1 = -bias_2: the paper adjusts for more than two groups only."""
    made = dict(iso.simulate.uplift(9_000, 6, groups=["a", "b"], baseline=0.3, error={"b": 0.2}).columns)
    result = iso.treatment_bias(made, **ROLES, adjust=adjust, **options, rng=1)
    np.testing.assert_allclose(result.bias[0], -result.bias[1], rtol=1e-9)
    np.testing.assert_allclose(result.adjusted_pvalue, result.bias_pvalue, rtol=1e-9)
    errors = np.maximum.accumulate(np.sort(result.error_pvalue) * [2, 1])  # the two errors are two hypotheses
    if adjust == "holm":
        np.testing.assert_allclose(np.sort(result.error_adjusted_pvalue), np.minimum(errors, 1))


def test_the_verdict_on_two_groups_is_that_of_their_interval() -> None:
    """Some seed has 0.025 < p < 0.05, where twice the p-value would contradict the interval and the omnibus test."""
    between = 0
    for seed in range(60):
        made = dict(iso.simulate.uplift(3_000, seed, groups=["a", "b"], baseline=0.3, error={"b": 0.3}).columns)
        result = iso.treatment_bias(made, **ROLES)
        excluded = not result.bias_low[0] <= 0 <= result.bias_high[0]
        assert (result.verdict is Verdict.VIOLATION) == excluded
        between += bool(0.025 < result.bias_pvalue[0] <= 0.05)
    assert between


def test_hypotheses_are_counted_once_over_several_columns() -> None:
    made = experiment(30_000, error={"b": 0.1})
    made |= {"sex": np.where(made["x"] < 0.4, "f", "m")}
    both = iso.treatment_bias(made, **{**ROLES, "groups": ["sex", "group"]})
    np.testing.assert_allclose(both.adjusted_pvalue, distinct(both, [[0, 1], [2], [3], [4]]))
    assert both.least_events == pytest.approx(np.log(2 * 4 / 0.05))
    women, men = iso.where("women", iso.col("sex") == "f"), iso.where("men", iso.col("sex") == "m")
    named = iso.treatment_bias(made, **{**ROLES, "groups": [women, men]})
    np.testing.assert_allclose(named.adjusted_pvalue, named.bias_pvalue)
    # Everybody in group a is in region 1: a and its intersection with the region are the same people.
    made["region"] = np.where(made["group"] == "a", 1, 2)
    nested = iso.treatment_bias(made, **{**ROLES, "groups": ["group", "region"]}, depth=2)
    assert [group.label for group in nested.groups[5:]] == [
        "group=a & region=1",
        "group=b & region=2",
        "group=c & region=2",
    ]
    np.testing.assert_allclose(nested.adjusted_pvalue, distinct(nested, [[0, 5], [1, 6], [2, 7], [3, 4]]))


def test_a_rest_of_one_group_and_a_rest_of_several_are_not_the_same() -> None:
    """The rest of a is b and c, each with its own effect; that of the condition is one group of both."""
    made = experiment(30_000, error={"b": 0.1}, treated={"b": 0.2})
    result = iso.treatment_bias(made, **{**ROLES, "groups": ["group", iso.where("only a", iso.col("group") == "a")]})
    np.testing.assert_allclose(result.adjusted_pvalue, distinct(result, [[0], [1], [2], [3]]))


def test_a_third_group_that_cannot_be_compared_leaves_one_hypothesis() -> None:
    made = experiment(9_000, error={"b": 0.2})
    made["treatment"] = np.where(made["group"] == "c", 0, made["treatment"])
    result = iso.treatment_bias(made, **ROLES)
    assert result.status[2] is Status.NO_TREATED
    np.testing.assert_allclose(result.adjusted_pvalue[:2], result.bias_pvalue[:2], rtol=1e-9)
    made["outcome"] = np.where((made["group"] == "c") & (made["treatment"] == 0), 0, experiment(9_000)["outcome"])
    made["treatment"] = experiment(9_000)["treatment"]
    in_rest = iso.treatment_bias(made, **ROLES)  # no relative effect of its own, but part of the others' rests
    assert in_rest.status[2] is Status.ZERO_BASELINE
    np.testing.assert_allclose(in_rest.adjusted_pvalue[:2], distinct(in_rest, [[0], [1]])[:2])


def test_the_floor_of_events_counts_hypotheses() -> None:
    two = dict(iso.simulate.uplift(2_000, groups=["a", "b"], baseline=0.3).columns)
    assert iso.treatment_bias(two, **ROLES).least_events == pytest.approx(np.log(2 / 0.05))
    other = iso.treatment_bias(two, **ROLES, estimator="regression", features=["x"])
    assert other.least_events == pytest.approx(8)


@pytest.mark.parametrize("seed", range(4))
def test_two_groups_with_few_events_have_mirrored_biases(seed: int) -> None:
    """Each is the other's rest, so the law of counts gives one p-value and intervals with the signs turned."""
    rng = np.random.default_rng(seed)
    group, treatment = rng.choice(["a", "b"], 1_200, p=[0.75, 0.25]), rng.integers(0, 2, 1_200)
    outcome = rng.binomial(1, np.where(treatment == 1, 0.2 + 0.1 * (group == "a"), 0.15)).astype(float)
    table = {"g": group, "t": treatment, "y": outcome, "e": 0.05 + rng.normal(0, 0.01, 1_200)}
    roles: dict[str, Any] = {"effect": "e", "groups": "g", "treatment": "t", "outcome": "y"}
    result = iso.treatment_bias(table, **roles, measure="difference", rng=0)
    assert result.bias_pvalue[0] == pytest.approx(result.bias_pvalue[1])
    assert result.bias_low[0] == pytest.approx(-result.bias_high[1])
    assert result.bias_high[0] == pytest.approx(-result.bias_low[1])
