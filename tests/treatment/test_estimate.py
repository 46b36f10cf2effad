"""Estimates against the truth, and groups that cannot be answered beside those that can."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.results import Status, Verdict
from support.tables import broken, experiment

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def test_estimates_are_near_the_truth() -> None:
    made = iso.simulate.uplift(60_000, groups=["a", "b", "c"], baseline=0.3, error={"b": 0.4}, treated={"a": 0.3})
    result = iso.treatment_bias(made.columns, **ROLES)
    for i, group in enumerate(result.groups):
        truth = made.truth["groups"][group.label]
        assert abs(result.error[i] - truth["error"]) < 4 * result.error_se[i]
        assert abs(result.bias[i] - truth["bias"]) < 4 * result.bias_se[i]
    assert result.verdict is Verdict.VIOLATION
    assert result.verdicts[1] is Verdict.VIOLATION


def test_two_groups_have_opposite_biases_and_equal_pvalues() -> None:
    result = iso.treatment_bias(experiment(groups=["a", "b"], error={"a": 0.1}), **ROLES)
    assert result.bias[0] == pytest.approx(-result.bias[1])
    assert result.bias_pvalue[0] == pytest.approx(result.bias_pvalue[1], rel=1e-9)
    assert result.bias_low[0] == pytest.approx(-result.bias_high[1])


def test_pooling_the_rest_is_confounded_and_standardising_is_not() -> None:
    # Two groups make up the rest of "c"; both have effect 1.2, with treated shares 0.8 and 0.2 and unequal base rates.
    made = experiment(
        200_000, groups=["a", "b", "c"], treated={"a": 0.8, "b": 0.2}, baseline={"a": 0.05, "b": 0.5}, effect=1.2,
        heterogeneity=0.0, trend=0.0,
    )  # fmt: skip
    apart, pooled = (iso.treatment_bias(made, **ROLES, rest=rest) for rest in ("standardised", "pooled"))
    observed_rest = {name: r.predicted[2] - r.error[2] + r.bias[2] for name, r in (("s", apart), ("p", pooled))}
    assert abs(apart.bias[2]) < 4 * apart.bias_se[2]
    assert abs(observed_rest["s"] - 1.2) < 0.05
    # 0.8 * 0.06 + 0.2 * 0.6 over 0.2 * 0.05 + 0.8 * 0.5: the pooled ratio is 0.41
    assert abs(pooled.bias[2]) > 0.5
    assert any("confounded" in w for w in pooled.warnings)


def test_the_detectable_bias_is_found_with_the_stated_power() -> None:
    result = iso.treatment_bias(experiment(), **ROLES, power=0.9, test="welch")
    np.testing.assert_allclose(result.detectable_bias / result.bias_se, 1.959964 + 1.281552, atol=1e-5)


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_the_detectable_bias_of_few_events_is_that_of_their_law(measure: Any) -> None:
    """As far as the limit at z_alpha/2 in one direction and at z_power in the other, whichever way round is more."""
    made = experiment(30_000, 3, measure=measure, baseline=0.1, heterogeneity=0.0, trend=0.0)
    keep = (made["group"] != "b") | (np.arange(30_000) % 25 == 0)
    few = {name: values[keep] for name, values in made.items()}
    result = iso.treatment_bias(few, **ROLES, measure=measure)
    inner = iso.treatment_bias(few, **ROLES, measure=measure, alpha=0.4)
    sides = (inner.bias_high - result.bias_low, result.bias_high - inner.bias_low)
    assert result.detectable_bias[1] == pytest.approx(np.maximum(*sides)[1], rel=1e-6)
    np.testing.assert_allclose(result.detectable_bias[::2], (1.96 + 0.842) * result.bias_se[::2], rtol=0.05)
    empty = {name: values[:900] for name, values in {**few, "outcome": few["outcome"] * (few["x"] > 0.98)}.items()}
    nothing = iso.treatment_bias(empty, **ROLES, measure=measure)
    assert set(nothing.status) <= {Status.FEW_EVENTS, Status.CONSTANT, Status.ZERO_BASELINE, Status.UNBOUNDED}
    assert np.isnan(nothing.detectable_bias).all()
    assert np.isnan(nothing.critical_bias).all()


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("variance", ["bootstrap", "bootstrap_rows"])
def test_few_events_are_counted_whatever_the_variance(measure: Any, variance: Any) -> None:
    made = experiment(900, measure=measure, baseline=0.1)
    counts, drawn = (
        iso.treatment_bias(made, **ROLES, measure=measure, variance=v, resamples=60, rng=1)
        for v in ("influence", variance)
    )
    np.testing.assert_allclose(drawn.bias_pvalue, counts.bias_pvalue, rtol=1e-7)
    np.testing.assert_allclose(drawn.bias_low, counts.bias_low, rtol=1e-7)
    assert (drawn.bias_se != counts.bias_se).all()


@pytest.mark.parametrize(
    "options",
    [
        {"estimator": "regression", "features": ["x"]},
        {"estimator": "aipw", "features": ["x"]},
        {"split": "independent"},
        {"rest": "pooled"},
        {"collapse": "average"},
        {"weight": "w"},
    ],
)
def test_options_without_the_law_of_counts_need_more_events(options: dict[str, Any]) -> None:
    """8 (z / 1.96)^6 events in the smaller arm: 26 for three groups. With about 12 a reason is given, no verdict."""
    made = experiment(300, baseline=0.2)
    made["w"] = 1.0 + np.arange(300) % 2
    plain, other = (iso.treatment_bias(made, **ROLES, rng=1, **o) for o in ({}, options))
    assert set(plain.status) == {Status.OK}
    assert set(other.status) == {Status.FEW_EVENTS}
    assert other.verdict is Verdict.INCONCLUSIVE
    assert other.least_events == pytest.approx(8 * (stats.norm.isf(0.025 / 3) / stats.norm.isf(0.025)) ** 6)
    assert any("rest on means that are nearly normal" in warning for warning in other.warnings)
    assert np.isfinite(other.bias_low).all()


def test_few_rows_without_the_event_are_few_events() -> None:
    """Nearly everybody has it: 6 of 900 have not, and 500 events do not make the arms well known."""
    made = experiment(3_000, measure="difference", effect=0.0, heterogeneity=0.0)
    made["effect"] = 0.001 * made["x"]
    rare = np.flatnonzero(made["group"] == "a")[:6]
    made["outcome"] = np.ones(3_000, dtype=int)
    made["outcome"][rare] = 0
    some = np.flatnonzero(made["group"] != "a")
    made["outcome"][some[::8]] = 0
    result = iso.treatment_bias(made, **ROLES, measure="difference")
    assert [status is Status.FEW_EVENTS for status in result.status] == [True, False, False]
    turned = iso.treatment_bias(
        {**made, "outcome": 1 - made["outcome"], "effect": -made["effect"]}, **ROLES, measure="difference"
    )
    np.testing.assert_allclose(turned.bias_pvalue, result.bias_pvalue, rtol=1e-6)
    np.testing.assert_allclose(turned.events, result.events, rtol=1e-9)


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("test", ["automatic", "welch"])
def test_the_critical_bias_is_that_of_the_test(measure: Any, test: Any) -> None:
    """An estimate beyond it rejects, on every table, and predictions moved so far that it is reached have p = alpha."""
    for seed in range(20):
        made = experiment(1_500, seed, measure=measure, baseline=0.2)
        result = iso.treatment_bias(made, **ROLES, measure=measure, test=test)
        np.testing.assert_array_equal(np.abs(result.bias) >= result.critical_bias, result.bias_pvalue <= 0.05)
    moved = made["effect"] + (made["group"] == "b") * np.sign(result.bias[1]) * (
        result.critical_bias[1] - np.abs(result.bias[1])
    )
    again = iso.treatment_bias({**made, "effect": moved}, **ROLES, measure=measure, test=test)
    assert again.bias_pvalue[1] == pytest.approx(0.05, abs=0.0005)


def test_no_event_in_an_arm_is_not_certainty() -> None:
    """0 of 8 treated positive: Welch's law takes the variance of that arm for 0, the law of the counts does not."""
    made = experiment(6_000, baseline=0.4, effect=1.1)
    few = np.flatnonzero(made["group"] == "a")
    treated = few[made["treatment"][few] == 1]
    keep = np.setdiff1d(np.arange(6_000), treated[8:])
    made["outcome"][treated[:8]] = 0
    kept = {name: values[keep] for name, values in made.items()}
    for measure in ("relative", "difference"):
        kept["effect"] = (1.1 if measure == "relative" else 0.04) + 0.01 * kept["x"]
        welch, counts = (iso.treatment_bias(kept, **ROLES, measure=measure, test=t) for t in ("welch", "automatic"))
        assert welch.adjusted_pvalue[0] < 1e-6
        assert counts.bias_pvalue[0] > 0.003
        assert counts.verdicts[0] is Verdict.INCONCLUSIVE
        assert counts.status[0] is Status.FEW_EVENTS
    # One prediction for everybody: nothing varies, up to rounding, and nothing is shown.
    constant = iso.treatment_bias({**kept, "effect": np.full(len(keep), 1.1)}, **ROLES, test="welch")
    assert constant.status[0] is Status.CONSTANT


def test_effects_brought_by_the_caller() -> None:
    made = experiment(30_000, error={"b": 0.5})
    known = {"a": (1.29, 0.02), "group=b": (1.29, 0.02), "c": (1.29, 0.03)}
    roles: dict[str, Any] = {"effect": "effect", "groups": "group", "baseline": "baseline"}
    result = iso.treatment_bias(made, **roles, observed_effects=known)
    np.testing.assert_allclose(result.observed, 1.29)
    np.testing.assert_allclose(result.error_se, [0.02, 0.02, 0.03], rtol=0.05)
    assert result.error[1] == pytest.approx(0.5, abs=0.02)
    # Standardised with the baseline: groups of one base rate and one size have equal weights.
    assert result.bias[1] == pytest.approx(result.error[1] - (result.error[0] + result.error[2]) / 2, abs=0.005)
    assert result.treated.sum() == 0
    with_outcomes = iso.treatment_bias(made, **ROLES, observed_effects=known)
    np.testing.assert_allclose(with_outcomes.error, result.error, atol=0.03)
    difference = iso.treatment_bias(made, effect="effect", groups="group", measure="difference", observed_effects=known)
    assert np.isfinite(difference.bias).all()


def test_a_group_without_a_brought_effect_is_not_answered() -> None:
    result = iso.treatment_bias(
        experiment(),
        effect="effect",
        groups="group",
        baseline="baseline",
        observed_effects={"a": (1, 0.1), "b": (1, 0.1)},
    )
    assert result.status[2] is Status.UNSUPPORTED
    assert np.isfinite(result.bias[:2]).all()


def test_groups_that_cannot_be_answered_say_why_and_others_are_answered() -> None:
    result = iso.treatment_bias(broken(), **ROLES)
    status = {group.label.split("=")[1]: s for group, s in zip(result.groups, result.status, strict=True)}
    assert status["no control"] is Status.NO_CONTROL
    assert status["no treated"] is Status.NO_TREATED
    assert status["no event"] is Status.ZERO_BASELINE
    assert status["constant"] is Status.CONSTANT
    assert status["one each"] is Status.TOO_SMALL
    sound = np.array([s is Status.OK for s in result.status])
    assert sound.sum() == 3
    for name in ("error", "error_pvalue", "bias", "bias_low", "adjusted_pvalue", "detectable_bias"):
        assert np.isfinite(getattr(result, name)[sound]).all(), name
        assert np.isnan(getattr(result, name)[~sound]).all(), name
    alone = iso.treatment_bias(experiment(12_000), **ROLES)
    np.testing.assert_allclose(result.error[sound], alone.error)
    assert len(result.warnings) >= 5
    # A difference has no denominator: the group without control events is answered.
    difference = iso.treatment_bias(broken(), **ROLES, measure="difference")
    answered = {g.label.split("=")[1]: s for g, s in zip(difference.groups, difference.status, strict=True)}
    assert answered["no event"] is Status.CONSTANT  # outcomes are a function of treatment here
    others: list[dict[str, Any]] = [{"variance": "bootstrap"}, {"rest": "pooled"}, {"split": "independent"}]
    for options in others:
        again = iso.treatment_bias(broken(), **ROLES, **options, rng=1, resamples=50)
        assert np.isfinite(again.bias_se[sound]).all()


def test_one_group_has_an_error_and_no_bias() -> None:
    result = iso.treatment_bias(experiment(groups=1), **ROLES)
    assert np.isfinite(result.error).all()
    assert np.isnan(result.bias).all()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("Nothing to compare" in w for w in result.warnings)


def differences(**design: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"groups": ["a", "b", "c"], "baseline": 0.1, "measure": "difference"}
    return dict(iso.simulate.uplift(20_000, 3, **{**usual, **design}).columns)


OTHER_WAYS: list[dict[str, Any]] = [
    {"split": "independent"},
    {"variance": "bootstrap"},
    {"rest": "pooled"},
    {"weight": "w"},
]


@pytest.mark.parametrize(
    "design",
    [
        {},
        {"error": 0.08},  # a model that is wrong, but not about the measure
        {"effect": 0.0},
        {"effect": -0.05},
        {"outcome": "real", "baseline": 20.0, "effect": 5.0},
    ],
)
def test_differences_are_not_taken_for_ratios(design: dict[str, Any]) -> None:
    made = differences(**design)
    with pytest.raises(UsageError, match=r'measure: none given.*measure="difference".*measure="relative"'):
        iso.treatment_bias(made, **ROLES)
    for further in OTHER_WAYS:
        with pytest.raises(UsageError, match="measure: none given"):
            iso.treatment_bias(made | {"w": np.ones(20_000)}, **ROLES, **further, rng=1)
    named = iso.treatment_bias(made, **ROLES, measure="relative")  # whoever names it is obeyed
    assert named.measure == "relative"
    assert iso.treatment_bias(made, **ROLES, measure="difference").measure == "difference"


def test_the_refusal_says_what_was_seen() -> None:
    made = differences()
    arms = [made["outcome"][made["treatment"] == arm].mean() for arm in (0, 1)]
    with pytest.raises(UsageError) as caught:
        iso.treatment_bias(made, **ROLES)
    numbers = [float(number) for number in re.findall(r"-?\d+\.\d+", str(caught.value))]
    expected = [made["effect"].mean(), arms[1] - arms[0], arms[1] / arms[0]]
    np.testing.assert_allclose(numbers, expected, rtol=0.1)  # shares of groups and weights differ a little


def test_brought_effects_are_compared_by_the_predicted_baseline() -> None:
    made = differences()
    brought = dict.fromkeys("abc", (1.5, 0.05))
    roles: dict[str, Any] = {"effect": "effect", "groups": "group", "baseline": "baseline", "observed_effects": brought}
    with pytest.raises(UsageError, match="measure: none given"):
        iso.treatment_bias(made, **roles)
    ratios = made | {"effect": 1 + made["effect"] / made["baseline"]}
    assert iso.treatment_bias(ratios, **roles).measure == "relative"


@pytest.mark.parametrize(
    "design",
    [
        {"effect": 0.05, "baseline": 0.0526},  # differences of -0.05
        {"effect": 0.05, "baseline": 0.5},
        {"effect": 0.05, "baseline": 0.0526, "error": 0.1},
        {"effect": 0.05, "baseline": 0.5, "error": 0.3},
        {"effect": 1.5, "baseline": 0.1, "error": -0.9},
        {"effect": 4.0, "baseline": 0.05, "error": -2.5},
        {"effect": 1.1, "baseline": 11.0, "outcome": "real", "error": 0.05},  # differences of 1.1 too
        {"effect": 1.1, "baseline": 11.0, "outcome": "real", "error": 0.8},
        {"effect": 1.9, "baseline": 2.0, "outcome": "real", "error": -0.1},  # and of 1.8
    ],
)
@pytest.mark.parametrize("rows", [120, 2_000, 20_000])
def test_ratios_are_never_refused(design: dict[str, Any], rows: int) -> None:
    for seed in range(3):
        made = iso.simulate.uplift(rows, seed, groups=["a", "b", "c"], heterogeneity=0.1, **design).columns
        assert iso.treatment_bias(made, **ROLES).measure == "relative"


def test_ratios_of_noisy_small_tables_are_not_refused() -> None:
    """Up to a few hundred rows: the observed ratio may be far from the true one, which is predicted up to an error."""
    rng = np.random.default_rng(5)
    for _ in range(100):
        rows, (control, treated) = int(rng.integers(20, 400)), rng.uniform(0.02, 0.9, 2)
        made = {"group": rng.integers(0, 4, rows), "treatment": rng.random(rows) < rng.uniform(0.05, 0.5)}
        wrong = np.exp(rng.normal(0, 0.5, 4))[made["group"]] * np.exp(rng.normal(0, 0.3, rows))
        made |= {"outcome": rng.random(rows) < np.where(made["treatment"] == 1, treated, control)}
        iso.treatment_bias(made | {"effect": treated / control * wrong}, **ROLES)


def test_an_arm_of_a_few_rows_is_no_clear_evidence() -> None:
    """Four treated rows that all have the event: without spread the observed ratio of 1.6 would look certain."""
    made = {
        "group": np.tile(["a", "b"], 37),
        "treatment": np.repeat([1, 0], [4, 70]),
        "outcome": np.r_[np.ones(4), np.arange(70) // 2 % 8 < 5],
    }
    iso.treatment_bias(made | {"effect": np.linspace(0.35, 0.45, 74)}, **ROLES)


def test_negative_predictions_are_no_ratios() -> None:
    made = differences()
    made["effect"] = -np.asarray(made["effect"])
    with pytest.raises(UsageError, match="measure: none given, and predicted effects average -"):
        iso.treatment_bias(made, **ROLES)
