"""The public functions from end to end: what they return, their options, and bad input."""

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
    NotEnoughData,
    UnknownColumn,
    UnknownOption,
    UsageError,
    WrongType,
)
from isonomy.results import Status, Verdict
from support.tables import experiment, uplift

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


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
    made = experiment(8_000, error={"b": 0.3})
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
    roles: dict[str, Any] = {"effect": "f", "treatment": "t", "outcome": "y", "groups": "g", "measure": measure}
    plain = iso.treatment_bias(made, **roles)
    for estimator in ("regression", "aipw"):
        adjusted = iso.treatment_bias(made, **roles, estimator=estimator, features=["x"], rng=2)
        assert (adjusted.error_se < 0.5 * plain.error_se).all()
        truth = (1.1 - (5.5 / 5)) if measure == "relative" else 0.0
        assert (np.abs(adjusted.error - truth) < 4 * adjusted.error_se).all()


def test_an_independent_split_is_random_or_a_column() -> None:
    made = experiment(40_000)
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


def test_counts_stand_for_rows() -> None:
    rng = np.random.default_rng(5)
    n = 3_000
    made = {"g": rng.integers(0, 3, n), "t": rng.integers(0, 2, n), "y": rng.integers(0, 2, n)}
    made["f"] = rng.choice([1.1, 1.2, 1.4], n)
    made["k"] = rng.integers(0, 4, n)
    roles: dict[str, Any] = {"effect": "f", "treatment": "t", "outcome": "y", "groups": "g"}
    repeated = {name: np.repeat(v, made["k"]) for name, v in made.items()}
    counted, plain = iso.treatment_bias(made, **roles, count="k"), iso.treatment_bias(repeated, **roles)
    for name in ("n", "error", "error_se", "bias", "bias_low", "adjusted_pvalue"):
        np.testing.assert_allclose(getattr(counted, name), getattr(plain, name), rtol=1e-9)
    split = iso.treatment_bias(made, **roles, count="k", split="independent", rng=1)
    assert split.n.sum() == made["k"].sum()


def test_conditions_cuts_and_intersections() -> None:
    made = experiment(30_000)
    result = iso.treatment_bias(made, **{**ROLES, "groups": ["group", iso.cut("x", [0.5])]}, depth=2)
    assert len(result.groups) == 3 + 2 + 6
    named = iso.treatment_bias(made, **{**ROLES, "groups": iso.where("upper half", iso.col("x") >= 0.5)})
    halves = iso.treatment_bias(made, **{**ROLES, "groups": iso.cut("x", [0.5])})
    assert named.bias[0] == pytest.approx(halves.bias[1])  # those outside the condition are its rest
    assert named.groups[0].label == "upper half"


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"effect": "efect"}, UnknownColumn, "Did you mean 'effect'"),
        ({"measure": "odds"}, UnknownOption, "measure"),
        ({"measure": "uplift"}, UnknownOption, "difference"),
        ({"collapse": "control_outcome", "measure": "difference"}, UsageError, "difference"),
        ({"collapse": "normalised"}, MissingRole, "baseline"),
        ({"estimator": "regression"}, MissingRole, "features"),
        ({"features": ["x"]}, MissingRole, "features"),
        ({"variance": "jackknife"}, UnknownOption, "variance"),
        ({"rest": "all"}, UnknownOption, "rest"),
        ({"adjust": "fdr"}, UnknownOption, "adjust"),
        ({"alpha": 1.5}, UsageError, "alpha"),
        ({"power": 0}, UsageError, "power"),
        ({"tolerance": -1.0}, UsageError, "tolerance"),
        ({"tolerance": True}, UsageError, "tolerance: True is not allowed; give a number above 0"),
        ({"depth": 0}, UsageError, "depth"),
        ({"adjust": "hom"}, UnknownOption, "Did you mean 'holm'"),
        ({"split": 5}, UsageError, "split: 5 is not allowed; give the name of a column"),
        ({"estimator": "aipw", "features": ["xx"]}, UnknownColumn, "Did you mean 'x'"),
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
    aipw = iso.treatment_bias({**made, "effect": holes}, **ROLES, missing="drop", estimator="aipw", features="x", rng=1)
    assert aipw.n.sum() == 493
    zero = made["effect"].copy()
    zero[np.flatnonzero((made["outcome"] == 1) & (made["treatment"] == 1))[0]] = 0
    with pytest.raises(DataError, match="divides by it"):
        iso.treatment_bias({**made, "effect": zero}, **ROLES, collapse="positives_inverse")


def test_a_source_can_be_shared() -> None:
    source = iso.open_source(experiment())
    one, two = iso.treatment_bias(source, **ROLES), iso.treatment_bias(source, **ROLES)
    np.testing.assert_array_equal(one.bias, two.bias)


def test_positives_alone_with_the_sizes_of_the_arms() -> None:
    """Zero outcomes weigh nothing in the default collapse: one line a group and arm can stand for all of them."""
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
    for name in ("n", "predicted", "observed", "error_se", "bias_low", "adjusted_pvalue"):
        np.testing.assert_allclose(getattr(result, name), getattr(everything, name), rtol=1e-9)


def test_a_seed_gives_the_same_numbers() -> None:
    one, two, other = (iso.evaluate_corrections(uplift(), **ROLES, splits=2, resamples=10, rng=s) for s in (1, 1, 2))
    np.testing.assert_allclose(one.bias, two.bias, rtol=1e-9)
    np.testing.assert_allclose(one.bias_density, two.bias_density, rtol=1e-9)
    assert not np.allclose(one.bias, other.bias)


def test_corrections_help_where_errors_are_large() -> None:
    made = uplift(120_000, error={"b": 0.6, "d": -0.5})
    result = iso.evaluate_corrections(made, **ROLES, splits=4, rng=1)
    spread = dict(zip(result.strategies, result.spread("bias"), strict=True))
    assert result.headline().startswith("Less bias shown: less remains after 8 of 8 corrections")
    assert result.verdict is Verdict.INCONCLUSIVE  # of corrections, not of the model
    assert (result.bias_left[1:] < 0.3 * result.bias_left[0]).all()
    assert all(spread[name] < 0.5 * spread["none"] for name in spread if name != "none")
    planted = [1, 3]
    rejected = (result.bias_pvalue[:, :, planted] <= 0.05).mean((1, 2))
    assert rejected[0] == 1
    # The remainder b - B has the variance of the detection half and is judged with that of the held-out half:
    # P(|N(0, 2)| > 1.96) = 0.17 for a correction that is right on average; sixteen dependent tests.
    assert rejected[1:].max() < 0.6


def test_tests_of_what_remains_keep_their_size_without_error() -> None:
    """No error, no correction: the held-out tests (50) and (51) are ordinary tests. 60 tables of one split each."""
    rejected = []
    for seed in range(30):
        made = dict(iso.simulate.uplift(12_000, seed, groups=6, baseline=0.3).columns)
        run = iso.evaluate_corrections(made, **ROLES, splits=1, resamples=60, rng=seed, strategies=["none"])
        rejected.append([(run.error_pvalue[0, 0] <= 0.05).mean(), (run.bias_pvalue[0, 0] <= 0.05).mean()])
    # 180 tests each (within a table the biases are dependent, which widens the margin a little).
    assert (np.mean(rejected, axis=0) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 180)).all()


def test_one_factor_for_the_whole_rest_stays_by_name() -> None:
    made = uplift(error={"b": 0.6})
    factors = ["mean", "significant", "mse_plus", "mse_minus", "positive_part"]
    rows = iso.evaluate_corrections(made, **ROLES, splits=2, rng=1, strategies=factors)
    single = iso.evaluate_corrections(made, **ROLES, splits=2, rng=1, rest_correction="single")
    np.testing.assert_allclose(rows.error, single.error, rtol=1e-9)
    assert not np.allclose(rows.bias, single.bias, equal_nan=True)
    np.testing.assert_allclose(rows.bias[0], single.bias[0])  # without correction they are one


def test_alpha_decides_what_is_significant() -> None:
    options = {**ROLES, "splits": 2, "resamples": 20, "rng": 1, "strategies": ["significant"]}
    strict, loose = (iso.evaluate_corrections(uplift(), **options, alpha=a) for a in (0.001, 0.9))
    assert strict.factor[1].mean() < 0.2 < 0.6 < loose.factor[1].mean()


@pytest.mark.parametrize(
    "options",
    [
        {"measure": "difference"},
        {"collapse": "weighted", "baseline": "baseline"},
        {"collapse": "positives"},
        {"rest": "pooled"},
        {"buckets": 2},
        {"split": "independent"},
        {"split": "swapped"},
        {"form": "multiplicative"},
        {"estimator": "regression", "features": ["x"]},
        {"estimator": "aipw", "features": ["x"]},
        {"propensity": "p"},
        {"variance": "bootstrap_rows"},
        {"observed_effects": dict.fromkeys("abcdef", (1.3, 0.05))},
        {"depth": 2, "groups": ["group", iso.cut("x", [0.5])]},
    ],
)
def test_options(options: dict[str, Any]) -> None:
    made = uplift()
    made["p"] = np.full(made["effect"].size, 0.5)
    result = iso.evaluate_corrections(made, **{**ROLES, **options}, splits=2, resamples=10, rng=1)
    assert np.isfinite(result.bias).all()
    assert np.isfinite(result.bias_pvalue).all()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"strategies": ["shrink"]}, UnknownOption, "strategies"),
        ({"rest_correction": "none"}, UnknownOption, "rest_correction"),
        ({"splits": 0}, UsageError, "splits"),
        ({"buckets": 7}, UsageError, "a multiple of 2"),
        ({"buckets": 10, "split": "independent"}, UsageError, "a multiple of 4"),
        ({"form": "multiplicative", "measure": "difference"}, UsageError, "relative effects"),
        ({"strategies": ["empirical_bayes"], "rest_correction": "single"}, UsageError, "single"),
        ({"resamples": 1}, UsageError, "resamples"),
        ({"collapse": "positives_inverse"}, UsageError, "another pass"),
        ({"alpha": 0}, UsageError, "alpha"),
        ({"variance": "influence"}, UnknownOption, "variance"),
        ({"variance": "bootstrap_rows", "split": "swapped"}, UsageError, "not available with split"),
        ({"variance": "bootstrap_rows", "estimator": "aipw", "features": ["x"]}, UsageError, "arm_means"),
        ({"observed_effects": {"a": 1.0}}, UsageError, "observed_effects"),
    ],
)
def test_bad_calls_of_evaluate_corrections(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.evaluate_corrections(uplift(500), **{**ROLES, **change})


def test_rows_and_cells_are_resampled_to_the_same_standard_errors() -> None:
    made = uplift(12_000, error={"b": 0.4})
    cells, rows = (
        iso.evaluate_corrections(made, **ROLES, splits=3, resamples=200, rng=1, strategies=["mean"], variance=v)
        for v in ("bootstrap", "bootstrap_rows")
    )
    np.testing.assert_allclose(cells.bias, rows.bias, rtol=1e-9)  # the same halves
    np.testing.assert_allclose(np.mean(cells.bias_se / rows.bias_se), 1, atol=0.05)


def test_corrections_by_effects_from_elsewhere_are_judged_on_rows() -> None:
    """Right effects take the bias away, wrong ones do not, and a group without one is not answered."""
    made = uplift(60_000, error={"b": 0.5})
    right, wrong = ({**dict.fromkeys("acdef", (1.2917, 0.01)), "b": (effect, 0.01)} for effect in (1.2917, 1.7917))
    helped, hindered = (
        iso.evaluate_corrections(made, **ROLES, splits=2, rng=1, strategies=["mean"], observed_effects=effects)
        for effects in (right, wrong)
    )
    assert helped.bias_left[1] < 0.3 * helped.bias_left[0]
    assert hindered.bias_left[1] > 0.7 * hindered.bias_left[0]
    del right["c"]
    some = iso.evaluate_corrections(made, **ROLES, splits=2, rng=1, observed_effects=right)
    assert some.status[2] is Status.UNSUPPORTED
    assert np.isnan(some.bias[..., 2]).all()


def test_a_run_that_corrects_nothing_is_no_missing_answer() -> None:
    """Significant in some halves only: those without a correction show no less bias, and the others still count."""
    result = iso.evaluate_corrections(uplift(6_000, error=0.0), **ROLES, splits=5, rng=2, strategies=["significant"])
    assert (result.factor[1] == 0).all(-1).any()
    assert result.less_pvalue[1] == 1
    one_arm = {**uplift(500), "treatment": np.ones(500)}
    assert iso.evaluate_corrections(one_arm, **ROLES, splits=1, rng=1).headline().startswith("Not answered")


def test_a_correction_that_does_harm_is_not_headlined_as_help() -> None:
    """Equal errors in all groups: there is no bias to take away, and every correction adds some noise."""
    result = iso.evaluate_corrections(uplift(error=0.3), **ROLES, splits=3, rng=1)
    assert result.headline().startswith("Corrections compared: none of 8")
    assert (result.less_pvalue[1:] > 0.05).all()
    left = dict(zip(result.strategies, result.bias_rms, strict=True))
    assert left["empirical_bayes_mixture"] < left["positive_part"]


def test_inner_splits_of_algorithm_1_cost_precision_and_the_swap_regains_some() -> None:
    made = uplift(60_000, error={"b": 0.4})
    runs = [iso.evaluate_corrections(made, **ROLES, splits=3, rng=1, split=s) for s in (None, "independent", "swapped")]
    plain, independent, swapped = (float(run.bias_se[0].mean()) for run in runs)
    assert plain < swapped < independent
    np.testing.assert_allclose([run.bias_left[0] for run in runs], runs[0].bias_left[0], rtol=0.3)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_table_of_a_few_rows_is_answered_or_refused_in_words(rows: int) -> None:
    made = {name: values[:rows] for name, values in uplift(100).items()}
    if rows < 3:
        with pytest.raises(NotEnoughData, match="too few for a split"):
            iso.evaluate_corrections(made, **ROLES, splits=1, resamples=5, rng=1)
        return
    result = iso.evaluate_corrections(made, **ROLES, splits=1, resamples=5, rng=1)
    assert np.isnan(result.bias).all()
    assert "Not answered" in result.headline() or "Inconclusive" in result.headline()


def test_one_test_for_all_groups_together() -> None:
    none, some = (iso.treatment_bias(uplift(error=e), **ROLES) for e in (0.0, {"b": 0.6}))
    assert none.families == ("group",)
    assert none.omnibus_pvalue[0] > 0.05 > 1e-4 > some.omnibus_pvalue[0]
    assert any("errors of all groups by group are equal" in sentence for sentence in some.findings())
    both = iso.treatment_bias(uplift(), **{**ROLES, "groups": ["group", iso.cut("x", [0.5])]}, depth=2)
    assert both.families == ("group", "x", "group & x")


def priced(measure: Any = "relative", rows: int = 20_000, **options: Any) -> iso.PriceResult:
    made = uplift(rows, error={"b": 1.0}, measure=measure, baseline=0.3)
    shift = np.where(made["group"] == "b", 1.0, 0.0)
    made |= {"right": made["effect"] - shift, "same": made["effect"], "p": np.full(rows, 0.5)}
    return iso.price_of_fairness(made, **ROLES, corrected=["right", "same"], measure=measure, **options)


def test_the_price_of_a_right_correction_is_negative() -> None:
    """Predictions that were far too high for one group sent the budget there: the correction wins it back."""
    price = priced(baseline="baseline", budget=0.2)
    right = dict(zip(price.quantities, price.change[0], strict=True))
    assert right["loss"] < 0 < right["qini"]
    assert price.bias_after[0] < 0.2 * price.bias_before
    np.testing.assert_array_equal(price.change[1], 0)
    np.testing.assert_array_equal(price.adjusted_pvalue[1], 1)
    assert "were shown to be more than chance" in price.headline()
    back = iso.from_json(price.to_json())
    assert back.summary() == price.summary()
    assert price.to_frame().shape == (6, 11)
    for quantity in price.quantities:
        assert price.plot(quantity).to_dict()  # type: ignore[arg-type]


def test_a_price_without_a_baseline_says_what_is_not_known() -> None:
    price = priced()
    assert np.isnan(price.change[:, 1]).all()
    assert any("without a baseline column" in warning for warning in price.warnings)
    known = priced(measure="difference", propensity="p")
    share = priced(measure="difference")
    np.testing.assert_allclose(known.before, share.before, rtol=0.05)


def test_a_price_honours_weights_and_clusters() -> None:
    """Doubled weights are no weights; repeated rows in clusters are worth their clusters."""
    made = uplift(3_000, error={"b": 1.0}, measure="difference", baseline=0.3)
    made |= {"right": made["effect"] - (made["group"] == "b"), "w": np.full(3_000, 2.0), "who": np.arange(3_000)}
    options: dict[str, Any] = {**ROLES, "corrected": "right", "measure": "difference"}
    plain, doubled = (iso.price_of_fairness(made, **options, weight=weight) for weight in (None, "w"))
    repeated = {name: np.tile(values, 4) for name, values in made.items()}
    clustered, counted = (iso.price_of_fairness(repeated, **options, cluster=cluster) for cluster in ("who", None))
    for price in (doubled, clustered):
        np.testing.assert_allclose(price.change, plain.change, rtol=1e-9)
        np.testing.assert_allclose(price.change_se, plain.change_se, rtol=0.01)
        assert price.bias_before == pytest.approx(plain.bias_before, rel=0.01)
    np.testing.assert_allclose(counted.change_se, plain.change_se / 2, rtol=0.01)
    few = iso.price_of_fairness({**made, "who": made["who"] % 5}, **options, cluster="who")
    assert few.headline().startswith("Not answered")
    assert any("Fewer than 10 effective clusters" in warning for warning in few.warnings)


def test_a_price_with_known_propensities_compares_like_with_like() -> None:
    """Half of each group treated nine times as often, and better off: without propensities a bias is seen."""
    rng = np.random.default_rng(3)
    made = uplift(40_000, measure="difference", baseline=0.3)
    p = np.where((made["group"] == "a") & (made["x"] > 0.5), 0.9, 0.5)
    treated = (rng.random(p.size) < p).astype(int)
    outcome = (rng.random(p.size) < 0.2 + 0.4 * (made["x"] > 0.5) + 0.05 * treated).astype(int)
    made |= {"p": p, "treatment": treated, "outcome": outcome, "effect": np.full(p.size, 0.05), "same": p * 0 + 0.05}
    options: dict[str, Any] = {**ROLES, "corrected": "same", "measure": "difference"}
    known, unknown = (iso.price_of_fairness(made, **options, propensity=propensity) for propensity in ("p", None))
    assert known.bias_before < 0.02 < unknown.bias_before


def test_bad_calls_of_price_of_fairness() -> None:
    made = {**uplift(500), "p": np.full(500, 0.5)}
    with pytest.raises(UnknownColumn, match="corrected"):
        iso.price_of_fairness(made, **ROLES, corrected="corected")
    made["p"][:3] = 1.0
    with pytest.raises(DataError, match=r"propensity.*3 rows"):
        iso.price_of_fairness(made, **ROLES, corrected="effect", propensity="p")
    with pytest.raises(DataError, match="one arm"):
        iso.price_of_fairness({**made, "treatment": np.ones(500)}, **ROLES, corrected="effect")
    with pytest.raises(UsageError, match="budget"):
        iso.price_of_fairness(made, **ROLES, corrected="effect", budget=1.5)
