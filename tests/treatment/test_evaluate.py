"""The split, swap and bootstrap evaluation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UnknownOption, UsageError
from isonomy.results import Status, Verdict

ROLES = {"effect": "effect", "treatment": "treatment", "outcome": "outcome", "groups": "group"}


def table(rows: int = 30_000, **design: Any) -> dict[str, Any]:
    return dict(iso.simulate.uplift(rows, **{"groups": 6, "baseline": 0.3, **design}).columns)


def test_shapes_and_strategies() -> None:
    result = iso.evaluate_corrections(table(), **ROLES, splits=3, resamples=20, rng=1)
    assert result.strategies == ("none", "mean", "significant", "mse_plus", "mse_minus", "positive_part")
    assert result.error.shape == (6, 6, 6)
    assert result.detection_statistic.shape == (6, 6)
    np.testing.assert_array_equal(result.factor[0], 0)
    np.testing.assert_array_equal(result.factor[1], 1)
    assert result.to_frame()["strategy"].to_list() == list(result.strategies)
    step = result.density_at[1] - result.density_at[0]
    np.testing.assert_allclose(result.bias_density.sum(1) * step, 1, atol=0.03)


def test_a_swap_is_the_other_half() -> None:
    """Both halves together: without correction, the two errors of a split average to about the error of all rows."""
    made = table(60_000)
    result = iso.evaluate_corrections(made, **ROLES, splits=4, resamples=10, rng=2, strategies=["none"])
    whole = iso.treatment_bias(made, **ROLES)
    averaged = result.error[0].reshape(4, 2, -1).mean(1)
    np.testing.assert_allclose(averaged, np.tile(whole.error, (4, 1)), atol=0.02)


def test_what_remains_after_the_mean_correction_is_the_difference_of_halves() -> None:
    result = iso.evaluate_corrections(table(), **ROLES, splits=2, resamples=10, rng=3, strategies=["none", "mean"])
    none, mean = result.error
    # Detection half and held-out half swap roles, so the remainder of one run is minus that of the other.
    np.testing.assert_allclose(mean[0], none[0] - none[1], atol=1e-12)
    np.testing.assert_allclose(mean[0], -mean[1], atol=1e-12)


def test_a_seed_gives_the_same_numbers() -> None:
    one, two, other = (iso.evaluate_corrections(table(), **ROLES, splits=2, resamples=10, rng=s) for s in (1, 1, 2))
    np.testing.assert_allclose(one.bias, two.bias, rtol=1e-9)
    np.testing.assert_allclose(one.bias_density, two.bias_density, rtol=1e-9)
    assert not np.allclose(one.bias, other.bias)


def test_corrections_help_where_errors_are_large() -> None:
    made = table(120_000, error={"b": 0.6, "d": -0.5})
    result = iso.evaluate_corrections(made, **ROLES, splits=4, rng=1)
    spread = dict(zip(result.strategies, result.spread("bias"), strict=True))
    assert result.verdict is Verdict.VIOLATION
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
    made = table(error={"b": 0.6})
    rows = iso.evaluate_corrections(made, **ROLES, splits=2, rng=1)
    single = iso.evaluate_corrections(made, **ROLES, splits=2, rng=1, rest_correction="single")
    np.testing.assert_allclose(rows.error, single.error, rtol=1e-9)
    assert not np.allclose(rows.bias, single.bias, equal_nan=True)
    np.testing.assert_allclose(rows.bias[0], single.bias[0])  # without correction they are one


def test_alpha_decides_what_is_significant() -> None:
    options = {**ROLES, "splits": 2, "resamples": 20, "rng": 1, "strategies": ["significant"]}
    strict, loose = (iso.evaluate_corrections(table(), **options, alpha=a) for a in (0.001, 0.9))
    assert strict.factor[1].mean() < 0.2 < 0.6 < loose.factor[1].mean()


@pytest.mark.parametrize(
    "options",
    [
        {"measure": "difference"},
        {"collapse": "weighted", "baseline": "baseline"},
        {"collapse": "positives"},
        {"rest": "pooled"},
        {"buckets": 2},
    ],
)
def test_options(options: dict[str, Any]) -> None:
    result = iso.evaluate_corrections(table(), **ROLES, splits=2, resamples=10, rng=1, **options)
    assert np.isfinite(result.bias).all()
    assert np.isfinite(result.bias_pvalue).all()


def test_groups_that_cannot_be_answered_leave_the_others_alone() -> None:
    made = table()
    extra = {name: np.concatenate([v, v[:50]]) for name, v in made.items()}
    extra["group"] = extra["group"].astype("<U2")
    extra["group"][-50:] = "zz"
    extra["treatment"][-50:] = 1
    result = iso.evaluate_corrections(extra, **ROLES, splits=2, resamples=10, rng=1)
    assert result.status[-1] is Status.NO_CONTROL
    assert np.isnan(result.bias[..., -1]).all()
    assert np.isfinite(result.bias[..., :-1]).all()
    assert any("group=zz" in w for w in result.warnings)


def test_counts_progress_json_and_words(capsys: pytest.CaptureFixture[str]) -> None:
    made = {**table(2_000), "k": np.full(2_000, 3)}
    result = iso.evaluate_corrections(made, **ROLES, splits=1, resamples=5, rng=1, count="k", progress=True)
    assert result.n.sum() == 6_000
    back = iso.from_json(result.to_json())
    np.testing.assert_array_equal(back.bias, result.bias)
    assert back.summary() == result.summary()
    assert result.suppressed(10**6).status[0] is Status.SUPPRESSED
    assert "Splits and swaps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"strategies": ["shrink"]}, UnknownOption, "strategies"),
        ({"rest_correction": "none"}, UnknownOption, "rest_correction"),
        ({"splits": 0}, UsageError, "splits"),
        ({"buckets": 7}, UsageError, "even"),
        ({"resamples": 1}, UsageError, "resamples"),
        ({"collapse": "positives_inverse"}, UsageError, "another pass"),
        ({"alpha": 0}, UsageError, "alpha"),
    ],
)
def test_bad_calls(change: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        iso.evaluate_corrections(table(500), **{**ROLES, **change})
