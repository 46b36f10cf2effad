"""Treatment bias: estimates, tests, verdicts, and bad input."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from scipy import stats

import isonomy as iso
from isonomy.errors import DataError, MissingValues, NotBinary, UnknownColumn, UsageError, WrongType
from isonomy.results import Status, Verdict
from support.tables import broken, experiment, observed, uplift

POOLED = iso.arm_means(rest="pooled")
ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


@pytest.mark.parametrize(
    "options",
    [
        {"method": iso.bootstrap()},
        {"method": iso.bootstrap(300, over="rows")},
        {"estimator": iso.regression(["x"])},
        {"estimator": iso.aipw("x")},
        {"measure": iso.relative("normalized", "baseline")},
        {"measure": iso.relative("positives_inverse")},
    ],
)
def test_every_option_estimates_the_same_error(options: dict[str, Any]) -> None:
    made = experiment(8_000, error={"b": 0.3})
    plain, other = iso.treatment_bias(made, **ROLES), iso.treatment_bias(made, **ROLES, **options, rng=3)
    assert (np.abs(other.estimate - plain.estimate) < plain.error_se).all()
    np.testing.assert_allclose(other.error_se, plain.error_se, rtol=0.15)
    np.testing.assert_allclose(other.standard_error, plain.standard_error, rtol=0.15)


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_adjusting_for_what_predicts_the_outcome_narrows_the_interval(measure: str) -> None:
    rng = np.random.default_rng(1)
    n = 2_400
    x = rng.normal(size=n)
    t = rng.integers(0, 2, n)
    y = 5 + 2 * x + np.sin(3 * x) + t * 0.5 + 0.3 * rng.normal(size=n)
    made = {"g": rng.integers(0, 3, n), "x": x, "t": t, "y": y, "f": np.full(n, 1.1 if measure == "relative" else 0.5)}
    roles: dict[str, Any] = {"effect": "f", "treatment": "t", "outcome": "y", "groups": "g", "measure": measure}
    plain = iso.treatment_bias(made, **roles)
    for estimator in (iso.regression(["x"]), iso.aipw(["x"])):
        adjusted = iso.treatment_bias(made, **roles, estimator=estimator, rng=2)
        assert (adjusted.error_se < 0.5 * plain.error_se).all()
        truth = (1.1 - (5.5 / 5)) if measure == "relative" else 0.0
        assert (np.abs(adjusted.estimate - truth) < 4 * adjusted.error_se).all()


def test_an_independent_split_is_random_or_a_column() -> None:
    made = experiment(40_000)
    made["half"] = np.arange(40_000) % 2
    column = iso.treatment_bias(made, **ROLES, estimator=observed("half"))
    again = iso.treatment_bias(made, **ROLES, estimator=observed("half"), rng=9)
    np.testing.assert_allclose(column.estimate, again.estimate, rtol=1e-9)
    random = iso.treatment_bias(made, **ROLES, estimator=observed("independent"), rng=1)
    same = iso.treatment_bias(made, **ROLES, estimator=observed("independent"), rng=1)
    np.testing.assert_allclose(random.estimate, same.estimate, rtol=1e-9)
    assert not np.allclose(
        random.estimate,
        iso.treatment_bias(made, **ROLES, estimator=observed("independent"), rng=2).estimate,
    )
    whole = iso.treatment_bias(made, **ROLES)
    np.testing.assert_allclose(random.error_se / whole.error_se, np.sqrt(2), rtol=0.1)
    # Predicted effects come only from the prediction half, observed effects only from the estimation half.
    first = iso.treatment_bias({k: v[made["half"] == 0] for k, v in made.items()}, **ROLES)
    second = iso.treatment_bias({k: v[made["half"] == 1] for k, v in made.items()}, **ROLES)
    np.testing.assert_allclose(column.predicted, first.predicted)
    np.testing.assert_allclose(column.observed, second.observed)


def test_conditions_cuts_and_intersections() -> None:
    made = experiment(30_000)
    result = iso.treatment_bias(made, **{**ROLES, "groups": ["group", iso.cut("x", [0.5])]}, depth=2)
    assert len(result.groups) == 3 + 2 + 6
    named = iso.treatment_bias(made, **{**ROLES, "groups": iso.where("upper half", iso.col("x") >= 0.5)})
    halves = iso.treatment_bias(made, **{**ROLES, "groups": iso.cut("x", [0.5])})
    assert named.disparity[0] == pytest.approx(halves.disparity[1])  # the rest is everybody outside the condition
    assert named.groups[0].label == "upper half"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"effect": "efect"}, UnknownColumn, "Did you mean 'effect'"),
        ({"estimator": observed(5)}, UsageError, "observed_effects: 5; give a mapping"),
        ({"estimator": iso.aipw(["xx"])}, UnknownColumn, "Did you mean 'x'"),
        ({"estimator": observed("halves")}, UnknownColumn, "observed_effects"),
        ({"estimator": observed({"a": 1.0})}, UsageError, "standard error"),
        (
            {"estimator": observed({"group=a": (1.2, 0.1), "group=bb": (1.2, 0.1)})},
            UsageError,
            "there is no group 'group=bb'.*Did you mean 'group=b'",
        ),
        ({"outcome": "group"}, WrongType, "numbers"),
    ],
)
def test_bad_calls(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.treatment_bias(experiment(500), **{**ROLES, **change})


def test_bad_data() -> None:
    made = experiment(500)
    with pytest.raises(NotBinary, match="treatment"):
        iso.treatment_bias({**made, "treatment": np.arange(500) % 3}, **ROLES)
    holes = made["effect"].copy()
    holes[:7] = np.nan
    with pytest.raises(MissingValues, match=r"effect.*7 rows"):
        iso.treatment_bias({**made, "effect": holes}, **ROLES)
    dropped = iso.treatment_bias({**made, "effect": holes}, **ROLES, missing="drop")
    assert dropped.n.sum() == 493
    assert dropped.provenance.dropped == {"effect": 7}
    aipw = iso.treatment_bias({**made, "effect": holes}, **ROLES, missing="drop", estimator=iso.aipw("x"), rng=1)
    assert aipw.n.sum() == 493
    zero = made["effect"].copy()
    zero[np.flatnonzero((made["outcome"] == 1) & (made["treatment"] == 1))[0]] = 0
    with pytest.raises(DataError, match="divides by it"):
        iso.treatment_bias({**made, "effect": zero}, **ROLES, measure=iso.relative("positives_inverse"))


def test_positives_alone_with_the_sizes_of_the_arms() -> None:
    """Zero outcomes have no weight in the default collapse, so that one line per group and arm can represent them."""
    made = experiment()
    everything = iso.treatment_bias(made, **ROLES)
    positive = made["outcome"] == 1
    kept = {name: list(values[positive]) for name, values in made.items()}
    kept["count"] = [1] * int(positive.sum())
    for g in "abc":
        for t in (0, 1):
            here = (made["group"] == g) & (made["treatment"] == t) & ~positive
            line = {
                "group": g,
                "x": 0.0,
                "treatment": t,
                "outcome": 0,
                "effect": 1.0,
                "baseline": 0.0,
                "count": here.sum(),
            }
            for name, value in line.items():
                kept[name].append(value)
    result = iso.treatment_bias(kept, **ROLES, count="count")
    for name in ("n", "predicted", "observed", "error_se", "ci_low", "adjusted_pvalue"):
        np.testing.assert_allclose(getattr(result, name), getattr(everything, name), rtol=1e-9)


def test_one_test_for_all_groups_together() -> None:
    none, some = (iso.treatment_bias(uplift(error=e), **ROLES) for e in (0.0, {"b": 0.6}))
    assert none.families == ("group",)
    assert none.omnibus_pvalue[0] > 0.05 > 1e-4 > some.omnibus_pvalue[0]
    assert any("errors of all groups by group are equal" in sentence for sentence in some.findings())
    both = iso.treatment_bias(uplift(), **{**ROLES, "groups": ["group", iso.cut("x", [0.5])]}, depth=2)
    assert both.families == ("group", "x", "group & x")


@pytest.mark.parametrize("rows", [1_500, 60_000])
@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_the_omnibus_test_of_two_groups_is_that_of_their_bias(rows: int, measure: Any) -> None:
    made = experiment(rows, measure=measure, groups=["a", "b"], baseline=0.2)
    result = iso.treatment_bias(made, **ROLES, measure=measure)
    assert result.omnibus_pvalue[0] == pytest.approx(result.pvalue[0], rel=1e-9)
    assert result.omnibus_statistic[0] == pytest.approx(result.statistic[0] ** 2, rel=1e-9)


def test_tolerance_decides_between_three_verdicts() -> None:
    made = experiment(200_000, error={"a": 0.2, "b": 0.2, "c": 0.8})
    result = iso.treatment_bias(made, **ROLES, tolerance=0.45)
    assert result.verdicts == (Verdict.WITHIN_TOLERANCE, Verdict.WITHIN_TOLERANCE, Verdict.VIOLATION)
    near = iso.treatment_bias(experiment(2_000), **ROLES, tolerance=0.01)
    assert set(near.verdicts) == {Verdict.INCONCLUSIVE}
    wide = iso.treatment_bias(made, **ROLES, tolerance=5.0)
    assert wide.verdict is Verdict.WITHIN_TOLERANCE


def test_the_floor_of_events_grows_with_the_number_of_groups() -> None:
    """log(2 groups / alpha) is 4.8 for three groups and 6.7 for twenty; about 5.5 events are expected in each arm."""
    made = experiment(3_000, baseline=0.011, effect=1.0)
    three = iso.treatment_bias(made, **ROLES)
    assert set(three.status) == {Status.OK}
    made["group"] = np.array([f"{name}{i % 7}" for i, name in enumerate(made["group"])])
    many = iso.treatment_bias({k: np.tile(v, 7) for k, v in made.items()}, **ROLES)
    assert Status.FEW_EVENTS in many.status
    assert any("because fewer than 6." in warning for warning in many.warnings)
    untested = np.array([s is Status.FEW_EVENTS for s in many.status])
    assert np.isnan(many.adjusted_pvalue[untested]).all()
    assert np.isfinite(many.ci_low[untested]).all()
    assert not any("Inconclusive" in w for w in iso.treatment_bias(made, **ROLES, method="welch").warnings)


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
    """With the same heavy tail in arms of equal size, the difference of the means is not skewed."""
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
    assert any("look like ratios" in warning for warning in warnings)


def test_a_control_mean_near_zero_leaves_the_interval_open() -> None:
    t, y = np.repeat([0, 1], 50), np.zeros(100)
    y[[0, 60, 61]] = 1
    made = {
        "g": np.repeat(["a", "b"], 100),
        "t": np.tile(t, 2),
        "y": np.r_[y, np.tile([0, 1], 50)],
        "f": np.linspace(1, 2, 200),
    }
    result = iso.treatment_bias(made, effect="f", treatment="t", outcome="y", groups="g", method="welch")
    assert result.status[0] is Status.UNBOUNDED
    assert np.isinf(result.error_high[0])
    assert np.isfinite(result.error_high[1])


def test_differences_named_ratios_are_noticed() -> None:
    made = dict(iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3, measure="difference").columns)
    taken, said = iso.treatment_bias(made, **ROLES, measure="relative"), "look like differences"
    assert any(said in warning for warning in taken.warnings)
    right = iso.treatment_bias(made, **ROLES, measure="difference")
    assert not any(said in warning for warning in right.warnings)


def test_lost_resamples_are_reported() -> None:
    made = {"group": ["a"] * 40 + ["b"] * 400, "effect": np.linspace(1, 1.4, 440), "outcome": np.arange(440) // 2 % 2}
    made["treatment"] = np.where(np.arange(440) < 40, np.arange(440) >= 37, np.arange(440) % 2).astype(int)
    result = iso.treatment_bias(made, **ROLES, method=iso.bootstrap(), rng=1)
    assert any("had an empty arm" in warning for warning in result.warnings)


def distinct(result: iso.TreatmentBiasResult, hypotheses: list[list[int]]) -> np.ndarray[Any, Any]:
    """Holm's adjustment by hand; each hypothesis is given by the positions of the groups that share it."""
    p = np.array([result.pvalue[places[0]] for places in hypotheses])
    order = np.argsort(p)
    adjusted = np.minimum(np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)), 1.0)
    expected = np.empty(len(result.groups))
    for value, hypothesis in zip(adjusted, order, strict=True):
        expected[hypotheses[hypothesis]] = value
    return expected


@pytest.mark.parametrize("adjust", ["holm", "by"])
@pytest.mark.parametrize("options", [{}, {"estimator": POOLED}, {"method": iso.bootstrap()}, {"tolerance": 0.01}])
def test_two_groups_are_one_hypothesis(adjust: Any, options: dict[str, Any]) -> None:
    """bias_1 = -bias_2: the paper adjusts only for more than two groups."""
    made = dict(iso.simulate.uplift(9_000, 6, groups=["a", "b"], baseline=0.3, error={"b": 0.2}).columns)
    result = iso.treatment_bias(made, **ROLES, adjust=adjust, **options, rng=1)
    np.testing.assert_allclose(result.disparity[0], -result.disparity[1], rtol=1e-9)
    np.testing.assert_allclose(result.adjusted_pvalue, result.pvalue, rtol=1e-9)
    errors = np.maximum.accumulate(np.sort(result.error_pvalue) * [2, 1])  # the two errors are two hypotheses
    if adjust == "holm":
        np.testing.assert_allclose(np.sort(result.error_adjusted_pvalue), np.minimum(errors, 1))


def test_the_verdict_on_two_groups_is_that_of_their_interval() -> None:
    """For some seed, 0.025 < p < 0.05; twice the p-value would contradict the interval and the omnibus test."""
    between = 0
    for seed in range(36):
        made = dict(iso.simulate.uplift(3_000, seed, groups=["a", "b"], baseline=0.3, error={"b": 0.3}).columns)
        result = iso.treatment_bias(made, **ROLES)
        excluded = not result.ci_low[0] <= 0 <= result.ci_high[0]
        assert (result.verdict is Verdict.VIOLATION) == excluded
        between += bool(0.025 < result.pvalue[0] <= 0.05)
    assert between


def test_hypotheses_are_counted_once_over_several_columns() -> None:
    made = experiment(30_000, error={"b": 0.1})
    made |= {"sex": np.where(made["x"] < 0.4, "f", "m")}
    both = iso.treatment_bias(made, **{**ROLES, "groups": ["sex", "group"]})
    np.testing.assert_allclose(both.adjusted_pvalue, distinct(both, [[0, 1], [2], [3], [4]]))
    assert both.least_events == pytest.approx(np.log(2 * 4 / 0.05))
    women, men = iso.where("women", iso.col("sex") == "f"), iso.where("men", iso.col("sex") == "m")
    named = iso.treatment_bias(made, **{**ROLES, "groups": [women, men]})
    np.testing.assert_allclose(named.adjusted_pvalue, named.pvalue)
    # Everybody in group a is in region 1, so a and its intersection with the region are the same people.
    made["region"] = np.where(made["group"] == "a", 1, 2)
    nested = iso.treatment_bias(made, **{**ROLES, "groups": ["group", "region"]}, depth=2)
    assert [group.label for group in nested.groups[5:]] == [
        "group=a & region=1",
        "group=b & region=2",
        "group=c & region=2",
    ]
    np.testing.assert_allclose(nested.adjusted_pvalue, distinct(nested, [[0, 5], [1, 6], [2, 7], [3, 4]]))


def test_a_rest_of_one_group_and_a_rest_of_several_are_not_the_same() -> None:
    """The rest of a is b and c, each with its own effect; the rest of the condition is one group of both."""
    made = experiment(30_000, error={"b": 0.1}, treated={"b": 0.2})
    result = iso.treatment_bias(made, **{**ROLES, "groups": ["group", iso.where("only a", iso.col("group") == "a")]})
    np.testing.assert_allclose(result.adjusted_pvalue, distinct(result, [[0], [1], [2], [3]]))


def test_a_third_group_that_cannot_be_compared_leaves_one_hypothesis() -> None:
    made = experiment(9_000, error={"b": 0.2})
    made["treatment"] = np.where(made["group"] == "c", 0, made["treatment"])
    result = iso.treatment_bias(made, **ROLES)
    assert result.status[2] is Status.NO_TREATED
    np.testing.assert_allclose(result.adjusted_pvalue[:2], result.pvalue[:2], rtol=1e-9)
    made["outcome"] = np.where((made["group"] == "c") & (made["treatment"] == 0), 0, experiment(9_000)["outcome"])
    made["treatment"] = experiment(9_000)["treatment"]
    in_rest = iso.treatment_bias(made, **ROLES)  # no relative effect, but part of the rest of the others
    assert in_rest.status[2] is Status.ZERO_BASELINE
    np.testing.assert_allclose(in_rest.adjusted_pvalue[:2], distinct(in_rest, [[0], [1]])[:2])


def test_the_floor_of_events_counts_hypotheses() -> None:
    two = dict(iso.simulate.uplift(2_000, groups=["a", "b"], baseline=0.3).columns)
    assert iso.treatment_bias(two, **ROLES).least_events == pytest.approx(np.log(2 / 0.05))
    other = iso.treatment_bias(two, **ROLES, estimator=iso.regression(["x"]))
    assert other.least_events == pytest.approx(8)


def test_estimates_are_near_the_truth() -> None:
    made = iso.simulate.uplift(60_000, groups=["a", "b", "c"], baseline=0.3, error={"b": 0.4}, treated={"a": 0.3})
    result = iso.treatment_bias(made.columns, **ROLES)
    for i, group in enumerate(result.groups):
        truth = made.truth["groups"][group.label]
        assert abs(result.estimate[i] - truth["error"]) < 4 * result.error_se[i]
        assert abs(result.disparity[i] - truth["bias"]) < 4 * result.standard_error[i]
    assert result.verdict is Verdict.VIOLATION
    assert result.verdicts[1] is Verdict.VIOLATION


def test_pooling_the_rest_is_confounded_and_standardising_is_not() -> None:
    # Two groups make up the rest of "c"; both have effect 1.2, with treated shares 0.8 and 0.2 and unequal base rates.
    made = experiment(
        200_000, groups=["a", "b", "c"], treated={"a": 0.8, "b": 0.2}, baseline={"a": 0.05, "b": 0.5}, effect=1.2,
        heterogeneity=0.0, trend=0.0,
    )  # fmt: skip
    apart, pooled = (
        iso.treatment_bias(made, **ROLES, estimator=iso.arm_means(rest=rest)) for rest in ("standardized", "pooled")
    )
    observed_rest = {name: r.predicted[2] - r.estimate[2] + r.disparity[2] for name, r in (("s", apart), ("p", pooled))}
    assert abs(apart.disparity[2]) < 4 * apart.standard_error[2]
    assert abs(observed_rest["s"] - 1.2) < 0.05
    # 0.8 * 0.06 + 0.2 * 0.6 over 0.2 * 0.05 + 0.8 * 0.5: the pooled ratio is 0.41
    assert abs(pooled.disparity[2]) > 0.5
    assert any("confounded" in w for w in pooled.warnings)


def test_the_detectable_bias_is_found_with_the_stated_power() -> None:
    result = iso.treatment_bias(experiment(), **ROLES, method="welch")
    np.testing.assert_allclose(result.detectable(0.9) / result.standard_error, 1.959964 + 1.281552, atol=1e-5)
    with pytest.raises(UsageError, match=r"power: 1\.0 is not allowed"):
        result.detectable(1.0)


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_the_detectable_bias_of_few_events_is_that_of_their_law(measure: Any) -> None:
    """The distance from the limit at z_alpha/2 on one side to that at z_power on the other, the larger of the two."""
    made = experiment(30_000, 3, measure=measure, baseline=0.1, heterogeneity=0.0, trend=0.0)
    keep = (made["group"] != "b") | (np.arange(30_000) % 25 == 0)
    few = {name: values[keep] for name, values in made.items()}
    result = iso.treatment_bias(few, **ROLES, measure=measure)
    inner = iso.treatment_bias(few, **ROLES, measure=measure, alpha=0.4)
    sides = (inner.ci_high - result.ci_low, result.ci_high - inner.ci_low)
    assert result.detectable()[1] == pytest.approx(np.maximum(*sides)[1], rel=1e-6)
    half = iso.treatment_bias(few, **ROLES, measure=measure, alpha=0.8)  # the limits at the quantile of power 0.6
    sides = (half.ci_high - result.ci_low, result.ci_high - half.ci_low)
    assert result.detectable(0.6)[1] == pytest.approx(np.maximum(*sides)[1], rel=0.01)
    np.testing.assert_allclose(result.detectable()[::2], (1.96 + 0.842) * result.standard_error[::2], rtol=0.05)
    empty = {name: values[:900] for name, values in {**few, "outcome": few["outcome"] * (few["x"] > 0.98)}.items()}
    nothing = iso.treatment_bias(empty, **ROLES, measure=measure)
    assert set(nothing.status) <= {Status.FEW_EVENTS, Status.CONSTANT, Status.ZERO_BASELINE, Status.UNBOUNDED}
    assert np.isnan(nothing.detectable()).all()
    assert np.isnan(nothing.critical_bias).all()


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("over", ["cells", "rows"])
def test_few_events_are_counted_whatever_the_variance(measure: Any, over: Any) -> None:
    made = experiment(900, measure=measure, baseline=0.1)
    counts, drawn = (
        iso.treatment_bias(made, **ROLES, measure=measure, method=method, rng=1)
        for method in ("automatic", iso.bootstrap(60, over))
    )
    np.testing.assert_allclose(drawn.pvalue, counts.pvalue, rtol=1e-7)
    np.testing.assert_allclose(drawn.ci_low, counts.ci_low, rtol=1e-7)
    assert (drawn.standard_error != counts.standard_error).all()


@pytest.mark.parametrize(
    "options",
    [
        {"estimator": iso.regression(["x"])},
        {"estimator": iso.aipw(["x"])},
        {"estimator": observed("independent")},
        {"estimator": POOLED},
        {"measure": iso.relative("average")},
        {"weight": "w"},
    ],
)
def test_options_without_the_law_of_counts_need_more_events(options: dict[str, Any]) -> None:
    """8 (z / 1.96)^6 events in the smaller arm, 26 for three groups; with about 12, there is a reason, no verdict."""
    made = experiment(300, baseline=0.2)
    made["w"] = 1.0 + np.arange(300) % 2
    plain, other = (iso.treatment_bias(made, **ROLES, rng=1, **o) for o in ({}, options))
    assert set(plain.status) == {Status.OK}
    assert set(other.status) == {Status.FEW_EVENTS}
    assert other.verdict is Verdict.INCONCLUSIVE
    assert other.least_events == pytest.approx(8 * (stats.norm.isf(0.025 / 3) / stats.norm.isf(0.025)) ** 6)
    assert any("require means that are nearly normal" in warning for warning in other.warnings)
    assert np.isfinite(other.ci_low).all()


def test_few_rows_without_the_event_are_few_events() -> None:
    """All but 6 of 900 have the event, so 500 events do not make the arms precise."""
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
    np.testing.assert_allclose(turned.pvalue, result.pvalue, rtol=1e-6)
    np.testing.assert_allclose(turned.events, result.events, rtol=1e-9)


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("method", ["automatic", "welch"])
def test_the_critical_bias_is_that_of_the_test(measure: Any, method: Any) -> None:
    """An estimate beyond it rejects on every table, and predictions that are shifted exactly to it have p = alpha."""
    for seed in range(8):
        made = experiment(1_500, seed, measure=measure, baseline=0.2)
        result = iso.treatment_bias(made, **ROLES, measure=measure, method=method)
        np.testing.assert_array_equal(np.abs(result.disparity) >= result.critical_bias, result.pvalue <= 0.05)
    moved = made["effect"] + (made["group"] == "b") * np.sign(result.disparity[1]) * (
        result.critical_bias[1] - np.abs(result.disparity[1])
    )
    again = iso.treatment_bias({**made, "effect": moved}, **ROLES, measure=measure, method=method)
    assert again.pvalue[1] == pytest.approx(0.05, abs=0.0005)


def test_no_event_in_an_arm_is_not_certainty() -> None:
    """With 0 of 8 treated positive, Welch's test sets the variance of that arm to 0; the test of counts does not."""
    made = experiment(6_000, baseline=0.4, effect=1.1)
    few = np.flatnonzero(made["group"] == "a")
    treated = few[made["treatment"][few] == 1]
    keep = np.setdiff1d(np.arange(6_000), treated[8:])
    made["outcome"][treated[:8]] = 0
    kept = {name: values[keep] for name, values in made.items()}
    for measure in ("relative", "difference"):
        kept["effect"] = (1.1 if measure == "relative" else 0.04) + 0.01 * kept["x"]
        welch, counts = (iso.treatment_bias(kept, **ROLES, measure=measure, method=t) for t in ("welch", "automatic"))
        assert welch.adjusted_pvalue[0] < 1e-6
        assert counts.pvalue[0] > 0.003
        assert counts.verdicts[0] is Verdict.INCONCLUSIVE
        assert counts.status[0] is Status.FEW_EVENTS
    # With one prediction for everybody nothing varies, up to rounding, and nothing is shown.
    constant = iso.treatment_bias({**kept, "effect": np.full(len(keep), 1.1)}, **ROLES, method="welch")
    assert constant.status[0] is Status.CONSTANT


def test_effects_brought_by_the_caller() -> None:
    made = experiment(30_000, error={"b": 0.5})
    known = {"a": (1.29, 0.02), "group=b": (1.29, 0.02), "c": (1.29, 0.03)}
    roles: dict[str, Any] = {"effect": "effect", "groups": "group", "measure": iso.relative(baseline="baseline")}
    result = iso.treatment_bias(made, **roles, estimator=observed(known))
    np.testing.assert_allclose(result.observed, 1.29)
    np.testing.assert_allclose(result.error_se, [0.02, 0.02, 0.03], rtol=0.05)
    assert result.estimate[1] == pytest.approx(0.5, abs=0.02)
    # Standardized with the baseline, groups of equal base rate and size have equal weights.
    others = (result.estimate[0] + result.estimate[2]) / 2
    assert result.disparity[1] == pytest.approx(result.estimate[1] - others, abs=0.005)
    assert result.treated.sum() == 0
    with_outcomes = iso.treatment_bias(made, **ROLES, estimator=observed(known))
    np.testing.assert_allclose(with_outcomes.estimate, result.estimate, atol=0.03)
    difference = iso.treatment_bias(
        made, effect="effect", groups="group", measure="difference", estimator=observed(known)
    )
    assert np.isfinite(difference.disparity).all()


def test_a_group_without_a_brought_effect_is_not_answered() -> None:
    result = iso.treatment_bias(
        experiment(),
        effect="effect",
        groups="group",
        measure=iso.relative(baseline="baseline"),
        estimator=observed({"a": (1, 0.1), "b": (1, 0.1)}),
    )
    assert result.status[2] is Status.UNSUPPORTED
    assert np.isfinite(result.disparity[:2]).all()


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
    for name in ("estimate", "error_pvalue", "disparity", "ci_low", "adjusted_pvalue"):
        assert np.isfinite(getattr(result, name)[sound]).all(), name
        assert np.isnan(getattr(result, name)[~sound]).all(), name
    alone = iso.treatment_bias(experiment(12_000), **ROLES)
    np.testing.assert_allclose(result.estimate[sound], alone.estimate)
    assert len(result.warnings) >= 5
    # A difference has no denominator, so the group without control events is tested.
    difference = iso.treatment_bias(broken(), **ROLES, measure="difference")
    answered = {g.label.split("=")[1]: s for g, s in zip(difference.groups, difference.status, strict=True)}
    assert answered["no event"] is Status.CONSTANT  # outcomes are a function of treatment here
    others: list[dict[str, Any]] = [
        {"method": iso.bootstrap()},
        {"estimator": POOLED},
        {"estimator": observed("independent")},
    ]
    for options in others:
        again = iso.treatment_bias(broken(), **ROLES, **options, rng=1)
        assert np.isfinite(again.standard_error[sound]).all()


def test_one_group_has_an_error_and_no_bias() -> None:
    result = iso.treatment_bias(experiment(groups=1), **ROLES)
    assert np.isfinite(result.estimate).all()
    assert np.isnan(result.disparity).all()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("nothing to compare" in w for w in result.warnings)


def differences(**design: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"groups": ["a", "b", "c"], "baseline": 0.1, "measure": "difference"}
    return dict(iso.simulate.uplift(20_000, 3, **{**usual, **design}).columns)


OTHER_WAYS: list[dict[str, Any]] = [
    {"estimator": observed("independent")},
    {"method": iso.bootstrap()},
    {"estimator": POOLED},
    {"weight": "w"},
]


@pytest.mark.parametrize(
    "design",
    [
        {},
        {"error": 0.08},  # a model that is wrong, but has the right measure
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
    named = iso.treatment_bias(made, **ROLES, measure="relative")  # an explicit measure is accepted
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
    roles: dict[str, Any] = {
        "effect": "effect",
        "groups": "group",
        "estimator": observed(brought),
    }
    roles["measure"] = iso.relative(baseline="baseline")
    assert any("look like differences" in text for text in iso.treatment_bias(made, **roles).warnings)
    ratios = made | {"effect": 1 + made["effect"] / made["baseline"]}
    assert not any("look like" in text for text in iso.treatment_bias(ratios, **roles).warnings)


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
    for seed in range(3 if rows == 120 else 1):
        made = iso.simulate.uplift(rows, seed, groups=["a", "b", "c"], heterogeneity=0.1, **design).columns
        assert iso.treatment_bias(made, **ROLES).measure == "relative"


def test_ratios_of_noisy_small_tables_are_not_refused() -> None:
    """Up to a few hundred rows, the observed ratio may be far from the true one, which is predicted with an error."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        rows, (control, treated) = int(rng.integers(20, 400)), rng.uniform(0.02, 0.9, 2)
        made = {"group": rng.integers(0, 4, rows), "treatment": rng.random(rows) < rng.uniform(0.05, 0.5)}
        wrong = np.exp(rng.normal(0, 0.5, 4))[made["group"]] * np.exp(rng.normal(0, 0.3, rows))
        made |= {"outcome": rng.random(rows) < np.where(made["treatment"] == 1, treated, control)}
        iso.treatment_bias(made | {"effect": treated / control * wrong}, **ROLES)


def test_an_arm_of_a_few_rows_is_no_clear_evidence() -> None:
    """Four treated rows all have the event: without spread, the observed ratio of 1.6 would look certain."""
    made = {
        "group": np.tile(["a", "b"], 37),
        "treatment": np.repeat([1, 0], [4, 70]),
        "outcome": np.r_[np.ones(4), np.arange(70) // 2 % 8 < 5],
    }
    iso.treatment_bias(made | {"effect": np.linspace(0.35, 0.45, 74)}, **ROLES)
