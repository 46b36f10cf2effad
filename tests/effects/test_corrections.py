"""Corrections: the remaining bias on held-out rows, and bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData, UsageError
from isonomy.results import Status, Verdict
from support.sampling import binomial_margin
from support.tables import observed

ROLES: dict[str, Any] = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def uplift(rows: int = 30_000, **design: Any) -> dict[str, Any]:
    return dict(iso.simulate.uplift(rows, **{"groups": 6, "baseline": 0.3, **design}).columns)


def test_a_seed_gives_the_same_numbers() -> None:
    one, two, other = (iso.evaluate_corrections(uplift(), **ROLES, method=iso.heldout(2, 10), rng=s) for s in (1, 1, 2))
    np.testing.assert_allclose(one.bias, two.bias, rtol=1e-9)
    np.testing.assert_allclose(one.bias_density, two.bias_density, rtol=1e-9)
    assert not np.allclose(one.bias, other.bias)


def test_corrections_help_where_errors_are_large() -> None:
    made = uplift(120_000, error={"b": 0.6, "d": -0.5})
    result = iso.evaluate_corrections(made, **ROLES, method=iso.heldout(4), rng=1)
    spread = dict(zip(result.strategies, result.bias_rms, strict=True))
    assert result.headline().startswith("Less bias shown: by 8 of 8 corrections.")
    assert result.verdict is Verdict.INCONCLUSIVE  # of corrections, not of the model
    assert (result.estimate[1:] < 0.3 * result.estimate[0]).all()
    assert all(spread[name] < 0.5 * spread["none"] for name in spread if name != "none")
    planted = [1, 3]
    rejected = (result.bias_pvalue[:, :, planted] <= 0.05).mean((1, 2))
    assert rejected[0] == 1
    # The remainder b - B has the variance of both halves, but is tested with that of the held-out half:
    # P(|N(0, 2)| > 1.96) = 0.17 for a correction that is right on average; sixteen dependent tests.
    assert rejected[1:].max() < 0.6


@pytest.mark.validity
def test_tests_of_what_remains_keep_their_size_without_error() -> None:
    """Without error and correction, the held-out tests (50) and (51) are ordinary tests; 100 tables with one split."""
    rejected = []
    for seed in range(100):
        made = dict(iso.simulate.uplift(12_000, seed, groups=6, baseline=0.3).columns)
        run = iso.evaluate_corrections(made, **ROLES, method=iso.heldout(1, 60), rng=seed, strategies=["none"])
        rejected.append([(run.error_pvalue[0, 0] <= 0.05).mean(), (run.bias_pvalue[0, 0] <= 0.05).mean()])
    # 600 tests each (within a table the biases are dependent, which widens the margin a little).
    assert (np.mean(rejected, axis=0) <= 0.05 + binomial_margin(0.05, 600, errors=4.0)).all()


def test_alpha_decides_what_is_significant() -> None:
    options = {**ROLES, "method": iso.heldout(2, 20), "rng": 1, "strategies": ["significant"]}
    strict, loose = (iso.evaluate_corrections(uplift(), **options, alpha=a) for a in (0.001, 0.9))
    assert strict.factor[1].mean() < 0.2 < 0.6 < loose.factor[1].mean()


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"method": iso.online("group", control="z")}, UsageError, "name the one without correction"),
        ({"method": iso.heldout(over="rows"), "estimator": iso.aipw(["x"])}, UsageError, "arm_means"),
        ({"estimator": observed({"a": 1.0})}, UsageError, "observed_effects"),
    ],
)
def test_bad_calls_of_evaluate_corrections(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.evaluate_corrections(uplift(500), **{**ROLES, **change})


def test_rows_and_cells_are_resampled_to_the_same_standard_errors() -> None:
    made = uplift(12_000, error={"b": 0.4})
    cells, rows = (
        iso.evaluate_corrections(made, **ROLES, method=method, rng=1, strategies=["mean"])
        for method in (iso.heldout(3, 200), iso.heldout(3, 200, over="rows"))
    )
    np.testing.assert_allclose(cells.bias, rows.bias, rtol=1e-9)  # the same halves
    np.testing.assert_allclose(np.mean(cells.bias_se / rows.bias_se), 1, atol=0.05)


def test_corrections_by_effects_from_elsewhere_are_judged_on_rows() -> None:
    """Right effects remove the bias, wrong ones do not, and a group without an effect is not answered."""
    made = uplift(60_000, error={"b": 0.5})
    right, wrong = ({**dict.fromkeys("acdef", (1.2917, 0.01)), "b": (effect, 0.01)} for effect in (1.2917, 1.7917))
    helped, hindered = (
        iso.evaluate_corrections(
            made,
            **ROLES,
            method=iso.heldout(2),
            rng=1,
            strategies=["mean"],
            estimator=observed(effects),
        )
        for effects in (right, wrong)
    )
    assert helped.estimate[1] < 0.3 * helped.estimate[0]
    assert hindered.estimate[1] > 0.7 * hindered.estimate[0]
    del right["c"]
    some = iso.evaluate_corrections(made, **ROLES, method=iso.heldout(2), rng=1, estimator=observed(right))
    assert some.status[2] is Status.UNSUPPORTED
    assert np.isnan(some.bias[..., 2]).all()


def test_a_run_that_corrects_nothing_is_no_missing_answer() -> None:
    """Significant only in some halves: those without a correction show no reduction, and the others still count."""
    result = iso.evaluate_corrections(
        uplift(6_000, error=0.0), **ROLES, method=iso.heldout(5), rng=2, strategies=["significant"]
    )
    assert (result.factor[1] == 0).all(-1).any()
    assert result.adjusted_pvalue[1] == 1
    one_arm = {**uplift(500), "treatment": np.ones(500)}
    assert (
        iso.evaluate_corrections(one_arm, **ROLES, method=iso.heldout(1), rng=1).headline().startswith("Not answered")
    )


def test_a_correction_that_does_harm_is_not_headlined_as_help() -> None:
    """With equal errors in all groups there is no bias to remove, and every correction adds noise."""
    result = iso.evaluate_corrections(uplift(error=0.3), **ROLES, method=iso.heldout(3), rng=1)
    assert result.headline().startswith("Corrections compared: none of 8")
    assert (result.adjusted_pvalue[1:] > 0.05).all()
    left = dict(zip(result.strategies, result.bias_rms, strict=True))
    assert left["empirical_bayes_mixture"] < left["positive_part"]


def test_inner_splits_of_algorithm_1_cost_precision_and_the_swap_regains_some() -> None:
    made = uplift(60_000, error={"b": 0.4})
    methods = (iso.heldout(3), iso.heldout(3, split="independent"), iso.heldout(3, split="swapped"))
    runs = [iso.evaluate_corrections(made, **ROLES, method=method, rng=1) for method in methods]
    plain, independent, swapped = (float(run.bias_se[0].mean()) for run in runs)
    assert max(plain, swapped) < 0.9 * independent
    assert swapped == pytest.approx(plain, rel=0.1)
    np.testing.assert_allclose([run.estimate[0] for run in runs], runs[0].estimate[0], rtol=0.3)


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_table_of_a_few_rows_is_answered_or_refused_in_words(rows: int) -> None:
    made = {name: values[:rows] for name, values in uplift(100).items()}
    if rows < 3:
        with pytest.raises(NotEnoughData, match="too small to be split"):
            iso.evaluate_corrections(made, **ROLES, method=iso.heldout(1, 5), rng=1)
        return
    result = iso.evaluate_corrections(made, **ROLES, method=iso.heldout(1, 5), rng=1)
    assert np.isnan(result.bias).all()
    assert "Not answered" in result.headline() or "Inconclusive" in result.headline()


def test_a_swap_is_the_other_half() -> None:
    """Without correction, the two errors of a split average to about the error of all rows."""
    made = uplift(60_000)
    result = iso.evaluate_corrections(made, **ROLES, method=iso.heldout(4, 10), rng=2, strategies=["none"])
    whole = iso.treatment_bias(made, **ROLES)
    averaged = result.error[0].reshape(4, 2, -1).mean(1)
    np.testing.assert_allclose(averaged, np.tile(whole.estimate, (4, 1)), atol=0.02)


def test_what_remains_after_the_mean_correction_is_the_difference_of_halves() -> None:
    result = iso.evaluate_corrections(uplift(), **ROLES, method=iso.heldout(2, 10), rng=3, strategies=["none", "mean"])
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
    result = iso.evaluate_corrections(extra, **ROLES, method=iso.heldout(2, 10), rng=1)
    assert result.status[-1] is Status.NO_CONTROL
    assert np.isnan(result.bias[..., -1]).all()
    assert np.isfinite(result.bias[..., :-1]).all()
    assert any("group=zz" in w for w in result.warnings)


def beside_a_small_group(rng: np.random.Generator, treated: int, measure: str) -> dict[str, Any]:
    """No errors, nearly constant predictions: two groups of 2,000, and one with few treated rows."""
    group = np.repeat(["a", "b", "z"], [2_000, 2_000, 200 + treated])
    arm = np.r_[np.tile([0, 1], 2_000), np.ones(treated, dtype=int), np.zeros(200, dtype=int)]
    outcome = (rng.random(group.size) < np.where(arm == 1, 0.25, 0.2)).astype(int)
    effect = (1.25 if measure == "relative" else 0.05) + 0.001 * rng.random(group.size)
    return {"group": group, "treatment": arm, "outcome": outcome, "effect": effect}


@pytest.mark.parametrize("measure", ["relative", "difference"])
@pytest.mark.parametrize("cluster", [None, "who"])
def test_an_arm_without_events_is_not_certainty(measure: Any, cluster: str | None) -> None:
    """With 0 of 8 treated in both halves, the estimated variance is 0, and a correction would look certain to help."""
    table = beside_a_small_group(np.random.default_rng(0), 8, measure)
    table["outcome"][4_000:4_008] = 0
    table["who"] = np.arange(table["outcome"].size)
    result = iso.evaluate_corrections(
        table,
        **ROLES,
        measure=measure,
        method=iso.heldout(3, 20),
        rng=1,
        cluster=cluster,
    )
    assert not any(result.shown)
    assert result.status == (Status.OK, Status.OK, Status.FEW_EVENTS)
    assert np.isnan(result.bias[..., 2]).all()
    assert np.isfinite(result.bias[..., :2]).all()
    assert any("group=z: an arm" in warning for warning in result.warnings)


@pytest.mark.parametrize(("treated", "measure"), [(8, "relative"), (60, "difference")])
def test_the_size_of_less_bias_beside_a_group_of_few_events(treated: int, measure: Any) -> None:
    """About 2 and about 15 treated events in the small group, that is 1 and 7 per half; 12 tables."""
    rng, tables = np.random.default_rng(7), 12
    shown = [
        any(
            iso.evaluate_corrections(
                beside_a_small_group(rng, treated, measure),
                **ROLES,
                measure=measure,
                method=iso.heldout(3, 20),
                rng=rng,
            ).shown
        )
        for _ in range(tables)
    ]
    assert np.mean(shown) <= 0.05 + binomial_margin(0.05, tables)


def test_amounts_that_nobody_spent_are_no_certainty_either() -> None:
    table = beside_a_small_group(np.random.default_rng(0), 8, "difference")
    table["outcome"] = table["outcome"] * np.random.default_rng(1).exponential(10, table["outcome"].size)
    table["outcome"][4_000:4_008] = 0
    result = iso.evaluate_corrections(table, **ROLES, measure="difference", method=iso.heldout(2, 20), rng=1)
    assert result.status[2] is Status.FEW_EVENTS
    assert not any(result.shown)


def test_differences_are_not_taken_for_ratios() -> None:
    made = dict(iso.simulate.uplift(8_000, 3, groups=3, measure="difference", error={"b": 0.05}).columns)
    with pytest.raises(UsageError, match=r'measure: none given.*measure="difference".*measure="relative"'):
        iso.evaluate_corrections(made, **ROLES, method=iso.heldout(2), rng=1)
    with pytest.raises(UsageError, match="measure: none given"):
        iso.evaluate_corrections(
            made | {"who": np.arange(8_000) // 2}, **ROLES, method=iso.heldout(2), rng=1, cluster="who"
        )
    named = iso.evaluate_corrections(made, **ROLES, method=iso.heldout(2), rng=1, measure="difference")
    assert named.provenance.options["measure"] == "difference"


def algorithm_1(table: dict[str, Any], splits: int, resamples: int, rng: np.random.Generator) -> dict[str, float]:
    """Algorithm 1 in plain numpy, for differences: standard errors of detection, and what remains after "mean"."""
    group, t = np.unique(table["group"], return_inverse=True)[1], table["treatment"] == 1
    y, f = table["outcome"].astype(float), table["effect"]
    groups = group.max() + 1

    def errors(rows: Any) -> tuple[Any, Any]:
        order = rng.permutation(rows)  # step 5
        prediction, estimation = order[: order.size // 2], order[order.size // 2 :]

        def error(inside: Any) -> float:
            p, e = prediction[inside(prediction)], estimation[inside(estimation)]
            return float(f[p].mean() - (y[e[t[e]]].mean() - y[e[~t[e]]].mean()))

        own = np.array([error(lambda rows, g=g: group[rows] == g) for g in range(groups)])
        rest = np.array([error(lambda rows, g=g: group[rows] != g) for g in range(groups)])
        return own, rest

    spread, left = [], []
    for _ in range(splits):
        order = rng.permutation(y.size)  # step 3
        halves = order[: y.size // 2], order[y.size // 2 :]
        for detection, mitigation in (halves, halves[::-1]):
            own, rest = errors(detection)
            drawn = np.array([errors(rng.choice(detection, detection.size))[0] for _ in range(resamples)])  # step 11
            spread.append(drawn.std(0, ddof=1))
            new, new_rest = errors(mitigation)
            left.append((new - own) - (new_rest - rest))  # steps 17 to 19 with gamma = 1
    return {"se": float(np.mean(spread)), "left": float(np.sqrt(np.mean(np.square(left))))}


def test_algorithm_1_as_printed() -> None:
    design: dict[str, Any] = {"groups": 3, "measure": "difference", "noise": 0.5, "error": {"b": 0.1}}
    table = uplift(4_000, **design)
    expected = algorithm_1(table, 6, 30, np.random.default_rng(0))
    for over in ("rows", "cells"):
        method = iso.published(splits=6, resamples=30, over=over)
        result = iso.evaluate_corrections(
            table, **ROLES, measure="difference", method=method, strategies=["mean"], rng=1
        )
        assert result.detection_se.shape == result.detection_error.shape == (12, 3)
        assert float(result.detection_se.mean()) == pytest.approx(expected["se"], rel=0.08)
        assert result.bias_rms[1] == pytest.approx(expected["left"], rel=0.35)
    named = iso.evaluate_corrections(table, **ROLES, measure="difference", method="published", rng=1)
    assert named.strategies == ("none", "mean", "significant", "mse_plus", "mse_minus")
    assert named.detection_bias.shape == (20, 3)


def test_a_bias_that_is_found_is_shown_to_be_corrected() -> None:
    """The comparison of corrections has power where the test of the bias has."""
    found = []
    for seed in range(6):
        table = dict(iso.simulate.uplift(20_000, seed, groups=4, baseline=0.2, error={"b": 0.42}).columns)
        result = iso.evaluate_corrections(
            table, **ROLES, method=iso.heldout(5, 20), strategies=["empirical_bayes", "positive_part"], rng=seed
        )
        found.append(bool(result.shown.any()))
    assert sum(found) >= 4
