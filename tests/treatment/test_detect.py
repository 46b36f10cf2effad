"""`treatment_bias`: what it returns, its options, groups that cannot be answered, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import (
    DataError,
    MissingRole,
    MissingValues,
    NotBinary,
    UnknownColumn,
    UnknownOption,
    UsageError,
    WrongType,
)
from isonomy.results import Status, Verdict

ROLES = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def simulated(rows: int = 20_000, **design: Any) -> dict[str, Any]:
    design = {"groups": ["a", "b", "c"], "baseline": 0.3, **design}
    return dict(iso.simulate.uplift(rows, **design).columns)


def test_the_table_has_the_documented_columns() -> None:
    columns = iso.treatment_bias(simulated(), **ROLES).to_frame().columns
    expected = (
        "group n predicted observed error error_se error_low error_high error_pvalue "
        "bias bias_se bias_low bias_high bias_pvalue adjusted_pvalue verdict status"
    )
    assert " ".join(columns[:17]) == expected


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
    result = iso.treatment_bias(simulated(groups=["a", "b"], error={"a": 0.1}), **ROLES)
    assert result.bias[0] == pytest.approx(-result.bias[1])
    assert result.bias_pvalue[0] == pytest.approx(result.bias_pvalue[1], rel=1e-9)
    assert result.bias_low[0] == pytest.approx(-result.bias_high[1])


def test_pooling_the_rest_is_confounded_and_standardising_is_not() -> None:
    # Two groups make up the rest of "c"; both have effect 1.2, with treated shares 0.8 and 0.2 and unequal base rates.
    made = simulated(
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


@pytest.mark.parametrize(
    "options",
    [
        {"variance": "bootstrap"},
        {"variance": "bootstrap_rows", "resamples": 300},
        {"estimator": "regression", "features": ["x"]},
        {"estimator": "aipw", "features": "x"},
        {"collapse": "normalised", "baseline": "baseline"},
        {"collapse": "positives_inverse"},
    ],
)
def test_every_option_estimates_the_same_error(options: dict[str, Any]) -> None:
    made = simulated(8_000, error={"b": 0.3})
    plain, other = iso.treatment_bias(made, **ROLES), iso.treatment_bias(made, **ROLES, **options, rng=3)
    assert (np.abs(other.error - plain.error) < plain.error_se).all()
    np.testing.assert_allclose(other.error_se, plain.error_se, rtol=0.15)
    np.testing.assert_allclose(other.bias_se, plain.bias_se, rtol=0.15)


@pytest.mark.parametrize("measure", ["relative", "difference"])
def test_adjusting_for_what_predicts_the_outcome_narrows_the_interval(measure: str) -> None:
    rng = np.random.default_rng(1)
    n = 2_400
    x = rng.normal(size=n)
    t = rng.integers(0, 2, n)
    y = 5 + 2 * x + np.sin(3 * x) + t * 0.5 + 0.3 * rng.normal(size=n)
    made = {"g": rng.integers(0, 3, n), "x": x, "t": t, "y": y, "f": np.full(n, 1.1 if measure == "relative" else 0.5)}
    roles = {"effect": "f", "treatment": "t", "outcome": "y", "groups": "g", "measure": measure}
    plain = iso.treatment_bias(made, **roles)
    for estimator in ("regression", "aipw"):
        adjusted = iso.treatment_bias(made, **roles, estimator=estimator, features=["x"], rng=2)
        assert (adjusted.error_se < 0.5 * plain.error_se).all()
        truth = (1.1 - (5.5 / 5)) if measure == "relative" else 0.0
        assert (np.abs(adjusted.error - truth) < 4 * adjusted.error_se).all()


def test_an_independent_split_is_random_or_a_column() -> None:
    made = simulated(40_000)
    made["half"] = np.arange(40_000) % 2
    column = iso.treatment_bias(made, **ROLES, split="half")
    again = iso.treatment_bias(made, **ROLES, split="half", rng=9)
    np.testing.assert_allclose(column.error, again.error, rtol=1e-9)
    random = iso.treatment_bias(made, **ROLES, split="independent", rng=1)
    same = iso.treatment_bias(made, **ROLES, split="independent", rng=1)
    np.testing.assert_allclose(random.error, same.error, rtol=1e-9)
    assert not np.allclose(random.error, iso.treatment_bias(made, **ROLES, split="independent", rng=2).error)
    whole = iso.treatment_bias(made, **ROLES)
    np.testing.assert_allclose(random.error_se / whole.error_se, np.sqrt(2), rtol=0.1)
    # The prediction half alone gives the predicted effects, the estimation half the observed ones.
    first = iso.treatment_bias({k: v[made["half"] == 0] for k, v in made.items()}, **ROLES)
    second = iso.treatment_bias({k: v[made["half"] == 1] for k, v in made.items()}, **ROLES)
    np.testing.assert_allclose(column.predicted, first.predicted)
    np.testing.assert_allclose(column.observed, second.observed)


def test_tolerance_decides_between_three_verdicts() -> None:
    made = simulated(200_000, error={"a": 0.2, "b": 0.2, "c": 0.8})
    result = iso.treatment_bias(made, **ROLES, tolerance=0.45)
    assert result.verdicts == (Verdict.WITHIN_TOLERANCE, Verdict.WITHIN_TOLERANCE, Verdict.VIOLATION)
    near = iso.treatment_bias(simulated(2_000), **ROLES, tolerance=0.01)
    assert set(near.verdicts) == {Verdict.INCONCLUSIVE}
    wide = iso.treatment_bias(made, **ROLES, tolerance=5.0)
    assert wide.verdict is Verdict.WITHIN_TOLERANCE


def test_a_large_p_is_inconclusive_and_no_sentence_says_fair() -> None:
    result = iso.treatment_bias(simulated(3_000), **ROLES, adjust="none")
    assert result.verdict is Verdict.INCONCLUSIVE
    text = result.summary().lower()
    assert not any(word in text for word in ("is fair", "unbiased", "fixed"))


def test_critical_and_detectable_bias() -> None:
    result = iso.treatment_bias(simulated(), **ROLES, power=0.9)
    np.testing.assert_allclose(result.critical_bias / result.bias_se, 1.96, atol=0.001)
    np.testing.assert_allclose(result.detectable_bias / result.bias_se, 1.959964 + 1.281552, atol=1e-5)


def test_effects_brought_by_the_caller() -> None:
    made = simulated(30_000, error={"b": 0.5})
    known = {"a": (1.29, 0.02), "group=b": (1.29, 0.02), "c": (1.29, 0.03)}
    roles = {"effect": "effect", "groups": "group", "baseline": "baseline"}
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
        simulated(),
        effect="effect",
        groups="group",
        baseline="baseline",
        observed_effects={"a": (1, 0.1), "b": (1, 0.1)},
    )
    assert result.status[2] is Status.UNSUPPORTED
    assert np.isfinite(result.bias[:2]).all()


def test_counts_stand_for_rows() -> None:
    rng = np.random.default_rng(5)
    n = 3_000
    made = {"g": rng.integers(0, 3, n), "t": rng.integers(0, 2, n), "y": rng.integers(0, 2, n)}
    made["f"] = rng.choice([1.1, 1.2, 1.4], n)
    made["k"] = rng.integers(0, 4, n)
    roles = {"effect": "f", "treatment": "t", "outcome": "y", "groups": "g"}
    repeated = {name: np.repeat(v, made["k"]) for name, v in made.items()}
    counted, plain = iso.treatment_bias(made, **roles, count="k"), iso.treatment_bias(repeated, **roles)
    for name in ("n", "error", "error_se", "bias", "bias_low", "adjusted_pvalue"):
        np.testing.assert_allclose(getattr(counted, name), getattr(plain, name), rtol=1e-9)
    split = iso.treatment_bias(made, **roles, count="k", split="independent", rng=1)
    assert split.n.sum() == made["k"].sum()


def broken() -> dict[str, Any]:
    """Three sound groups, and one of every kind that cannot be answered."""
    made = simulated(12_000)
    n = 40

    def more(name: str, t: Any, y: Any) -> dict[str, Any]:
        return {
            "group": np.full(n, name), "x": np.full(n, 0.5), "treatment": np.broadcast_to(t, n),
            "outcome": np.broadcast_to(y, n), "effect": np.full(n, 1.2), "baseline": np.full(n, 0.1),
        }  # fmt: skip

    half = np.arange(n) % 2
    extra = [
        more("no control", 1, half),
        more("no treated", 0, half),
        more("no event", half, half),  # outcomes among the treated only
        more("constant", half, 1),
        more("one each", (np.arange(n) == 0).astype(int), half),
    ]
    return {name: np.concatenate([made[name], *(e[name] for e in extra)]) for name in made}


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
    alone = iso.treatment_bias(simulated(12_000), **ROLES)
    np.testing.assert_allclose(result.error[sound], alone.error)
    assert len(result.warnings) >= 5
    # A difference has no denominator: the group without control events is answered.
    difference = iso.treatment_bias(broken(), **ROLES, measure="difference")
    answered = {g.label.split("=")[1]: s for g, s in zip(difference.groups, difference.status, strict=True)}
    assert answered["no event"] is Status.CONSTANT  # outcomes are a function of treatment here
    for options in ({"variance": "bootstrap"}, {"rest": "pooled"}, {"split": "independent"}):
        again = iso.treatment_bias(broken(), **ROLES, **options, rng=1, resamples=50)
        assert np.isfinite(again.bias_se[sound]).all()


def test_few_events_are_warned_about() -> None:
    made = simulated(3_000, baseline=0.01)
    assert any("Fewer than 10 rows" in w for w in iso.treatment_bias(made, **ROLES).warnings)


def test_a_control_mean_near_zero_leaves_the_interval_open() -> None:
    t, y = np.repeat([0, 1], 50), np.zeros(100)
    y[[0, 60, 61]] = 1
    made = {
        "g": np.repeat(["a", "b"], 100),
        "t": np.tile(t, 2),
        "y": np.r_[y, np.tile([0, 1], 50)],
        "f": np.linspace(1, 2, 200),
    }
    result = iso.treatment_bias(made, effect="f", treatment="t", outcome="y", groups="g")
    assert result.status[0] is Status.UNBOUNDED
    assert np.isinf(result.error_high[0])
    assert np.isfinite(result.error_high[1])


def test_one_group_has_an_error_and_no_bias() -> None:
    result = iso.treatment_bias(simulated(groups=1), **ROLES)
    assert np.isfinite(result.error).all()
    assert np.isnan(result.bias).all()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert any("Nothing to compare" in w for w in result.warnings)


def test_conditions_cuts_and_intersections() -> None:
    made = simulated(30_000)
    result = iso.treatment_bias(made, **{**ROLES, "groups": ["group", iso.cut("x", [0.5])]}, depth=2)
    assert len(result.groups) == 3 + 2 + 6
    named = iso.treatment_bias(made, **{**ROLES, "groups": iso.where("upper half", iso.col("x") >= 0.5)})
    halves = iso.treatment_bias(made, **{**ROLES, "groups": iso.cut("x", [0.5])})
    assert named.bias[0] == pytest.approx(halves.bias[1])  # those outside the condition are its rest
    assert named.groups[0].label == "upper half"


def test_json_comes_back() -> None:
    result = iso.treatment_bias(broken(), **ROLES)
    back = iso.from_json(result.to_json())
    np.testing.assert_array_equal(back.bias, result.bias)
    assert back.status == result.status
    assert back.summary() == result.summary()


def test_small_groups_can_be_suppressed() -> None:
    result = iso.treatment_bias(broken(), **ROLES).suppressed(100)
    hidden = [s is Status.SUPPRESSED for s in result.status]
    assert sum(hidden) == 5
    assert np.isnan(result.n[hidden]).all()
    assert np.isfinite(result.bias[~np.array(hidden)]).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"effect": "efect"}, UnknownColumn, "Did you mean 'effect'"),
        ({"measure": "odds"}, UnknownOption, "measure"),
        ({"collapse": "control_outcome", "measure": "difference"}, UsageError, "difference"),
        ({"collapse": "normalised"}, MissingRole, "baseline"),
        ({"estimator": "regression"}, MissingRole, "features"),
        ({"features": ["x"]}, MissingRole, "features"),
        ({"variance": "jackknife"}, UnknownOption, "variance"),
        ({"rest": "all"}, UnknownOption, "rest"),
        ({"adjust": "fdr"}, UnknownOption, "method|adjust"),
        ({"alpha": 1.5}, UsageError, "alpha"),
        ({"power": 0}, UsageError, "power"),
        ({"tolerance": -1.0}, UsageError, "tolerance"),
        ({"resamples": 1}, UsageError, "resamples"),
        ({"split": "halves"}, UnknownColumn, "split"),
        ({"outcome": None}, MissingRole, "observed_effects"),
        ({"treatment": None, "outcome": None, "observed_effects": {"a": (1, 0.1)}}, MissingRole, "baseline"),
        ({"observed_effects": {"a": (1.0, -0.1)}}, UsageError, "standard error"),
        ({"observed_effects": {"a": 1.0}}, UsageError, "standard error"),
        ({"observed_effects": {"a": (1.0, 0.1)}, "rest": "pooled"}, UsageError, "standardised"),
        ({"observed_effects": {"a": (1.0, 0.1)}, "variance": "bootstrap"}, UsageError, "influence"),
        ({"variance": "bootstrap_rows", "split": "independent"}, UsageError, "bootstrap_rows"),
        ({"outcome": "group"}, WrongType, "numbers"),
    ],
)
def test_bad_calls(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.treatment_bias(simulated(500), **{**ROLES, **change})


def test_bad_data() -> None:
    made = simulated(500)
    with pytest.raises(NotBinary, match="treatment"):
        iso.treatment_bias({**made, "treatment": np.arange(500) % 3}, **ROLES)
    holes = made["effect"].copy()
    holes[:7] = np.nan
    with pytest.raises(MissingValues, match=r"effect.*7 rows"):
        iso.treatment_bias({**made, "effect": holes}, **ROLES)
    dropped = iso.treatment_bias({**made, "effect": holes}, **ROLES, missing="drop")
    assert dropped.n.sum() == 493
    assert dropped.provenance.dropped == {"effect": 7}
    aipw = iso.treatment_bias({**made, "effect": holes}, **ROLES, missing="drop", estimator="aipw", features="x", rng=1)
    assert aipw.n.sum() == 493
    zero = made["effect"].copy()
    zero[np.flatnonzero((made["outcome"] == 1) & (made["treatment"] == 1))[0]] = 0
    with pytest.raises(DataError, match="divides by it"):
        iso.treatment_bias({**made, "effect": zero}, **ROLES, collapse="positives_inverse")


def test_a_source_can_be_shared() -> None:
    source = iso.open_source(simulated())
    one, two = iso.treatment_bias(source, **ROLES), iso.treatment_bias(source, **ROLES)
    np.testing.assert_array_equal(one.bias, two.bias)


def test_the_pass_can_be_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    from isonomy.treatment.plan import make_plan
    from isonomy.treatment.tally import requests

    source = iso.open_source(simulated())
    source.prefetch(requests(source, make_plan(**ROLES)))
    monkeypatch.setattr(source, "_pass", None)  # another pass would fail
    assert np.isfinite(iso.treatment_bias(source, **ROLES).bias).all()


def test_positives_alone_with_the_sizes_of_the_arms() -> None:
    """Zero outcomes weigh nothing in the default collapse: one line a group and arm can stand for all of them."""
    made = simulated()
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
    for name in ("n", "predicted", "observed", "error_se", "bias_low", "adjusted_pvalue"):
        np.testing.assert_allclose(getattr(result, name), getattr(everything, name), rtol=1e-9)


def test_a_baseline_that_nothing_looks_at_is_refused() -> None:
    made = simulated()
    for options in ({}, {"measure": "difference"}, {"collapse": "average"}):
        with pytest.raises(UsageError, match=r"baseline: .* does not look at it"):
            iso.treatment_bias(made, **ROLES, baseline="baseline", **options)


def test_differences_taken_for_ratios_are_noticed() -> None:
    made = dict(iso.simulate.uplift(20_000, groups=["a", "b"], baseline=0.3, measure="difference").columns)
    taken, said = iso.treatment_bias(made, **ROLES), "look like differences"
    assert any(said in warning for warning in taken.warnings)
    right = iso.treatment_bias(made, **ROLES, measure="difference")
    assert not any(said in warning for warning in right.warnings)
