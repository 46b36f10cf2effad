"""The public questions: what they find in tables with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.calibration import (
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
    split_users,
)
from isonomy.errors import (
    MissingValues,
    UsageError,
)
from support.tables import margins, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


METHODS = ("residual", "orthogonal", "nadaraya-watson", "cumulative")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("user", [None, "m"])
def test_a_planted_difference_is_found(method: Any, user: str | None) -> None:
    result = predictive_parity(scored(slope=0.6), **ROLES, user=user, method=method, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.pvalue < 1e-3
    assert result.ordering_pvalue < 0.05
    family = result.families[0]
    at = int(np.nanargmax(np.abs(family.difference[0] / family.se[0])))
    true = 0.4 * family.grid[at]
    assert family.low[0, at] < true + 0.05
    assert family.high[0, at] > true - 0.05


def test_three_groups_by_pair_against_a_base_and_overall() -> None:
    data = scored(slope=0.6, groups=3)
    pairs = predictive_parity(data, **ROLES, rng=1).families[0]
    assert pairs.pairs.tolist() == [[0, 1], [0, 2], [1, 2]]
    assert pairs.pair_adjusted[0] > 0.05 > max(pairs.pair_adjusted[1:])
    assert pairs.pvalue < 1e-3
    base = predictive_parity(data, **ROLES, reference={"g": "c"}, rng=1).families[0]
    assert base.pairs.tolist() == [[0, 2], [1, 2]]
    np.testing.assert_allclose(base.difference, pairs.difference[1:], rtol=1e-12)


def test_user_level_and_aggregate_differ_when_activity_follows_the_outcome() -> None:
    rng = np.random.default_rng(0)
    many = np.where(rng.random(3_000) < 0.3, 10, 1)
    m = np.repeat(np.arange(3_000), many)
    g = np.repeat(rng.integers(0, 2, 3_000), many)
    s = rng.beta(2, 2, m.size)
    busy = np.repeat(many == 10, many)
    y = (rng.random(m.size) < np.where(busy & (g == 1), 0.9 * s, s)).astype(int)
    data = {"s": s, "y": y, "g": g, "m": m}
    user = predictive_parity(data, **ROLES, user="m", rng=1).families[0]
    aggregate = predictive_parity(data, **ROLES, user="m", level="aggregate", rng=1).families[0]
    at = user.grid.size // 2
    assert abs(aggregate.curve[1, at] - 0.92 * aggregate.grid[at]) < 0.06
    assert user.curve[1, at] > aggregate.curve[1, at]


def test_numeric_outcomes() -> None:
    data = scored(slope=0.6)
    data["y"] = 10 + 3 * data["y"] + np.random.default_rng(0).normal(size=3_000)
    assert predictive_parity(data, **ROLES, rng=1).verdict is iso.Verdict.VIOLATION


@pytest.mark.parametrize("kernel", ["gaussian4", "gaussian6"])
@pytest.mark.parametrize("method", ["nadaraya-watson", "residual"])
def test_higher_order_kernels(kernel: Any, method: Any) -> None:
    result = predictive_parity(scored(slope=0.5), **ROLES, kernel=kernel, method=method, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION


def test_constant_scores_compare_means() -> None:
    data = scored(slope=0.6) | {"s": np.full(3_000, 0.4)}
    result = predictive_parity(data, **ROLES, rng=1)
    family = result.families[0]
    a, b = (data["y"][data["g"] == g].mean() for g in "ab")
    assert family.grid.size == 1
    np.testing.assert_allclose(family.difference, a - b, rtol=1e-9)
    assert any("single score" in warning for warning in result.warnings)


def test_nearly_every_score_the_same() -> None:
    data = scored()
    s = np.where(np.arange(data["s"].size) % 100 == 0, data["s"], 0.5)
    family = predictive_parity(data | {"s": s}, **ROLES, rng=1).families[0]
    assert np.isfinite(family.curve).any()


def test_scores_outside_the_unit_interval() -> None:
    data = scored(slope=0.6)
    plain = predictive_parity(data, **ROLES, bandwidth=0.1, grid=[0.3, 0.5], rng=1)
    data["s"] = 100 * data["s"] - 20
    moved = predictive_parity(data, **ROLES, bandwidth=10, grid=[10, 30], rng=1)
    np.testing.assert_allclose(moved.families[0].difference, plain.families[0].difference, rtol=0.02)
    assert any("below 0 or above 1" in warning for warning in moved.warnings)
    ruled = predictive_parity(data, **ROLES, rng=1)
    assert np.all(ruled.families[0].bandwidth > 1)


def test_the_seed_repeats_the_result() -> None:
    first, second = (predictive_parity(scored(), **ROLES, rng=7) for _ in range(2))
    assert first.to_json() == second.to_json()
    drawn = predictive_parity(scored(), **ROLES)
    assert drawn.provenance.seed is not None
    again = predictive_parity(scored(), **ROLES, rng=drawn.provenance.seed.entropy)
    assert again.pvalue == drawn.pvalue


@pytest.mark.parametrize("method", ["local-quadratic", "local-linear", "nadaraya-watson"])
@pytest.mark.parametrize("user", [None, "m"])
def test_a_planted_difference_at_the_margin_is_found(method: Any, user: str | None) -> None:
    result = marginal_outcomes(margins(8_000, power=3.0), **AT_HALF, method=method, user=user)
    assert result.verdict is iso.Verdict.VIOLATION
    family = result.families[0]
    if method != "nadaraya-watson":
        assert np.all(np.abs(family.estimate - [0.5, 0.125]) < 4 * family.se)
    assert "higher" in " ".join(result.findings())


def test_thresholds_equalize_and_keep_the_rate() -> None:
    found = equalize_thresholds(margins(20_000, power=1.5), **AT_HALF, resamples=100)
    assert abs(found.overall_after - found.overall_before) < 1e-3
    np.testing.assert_allclose(found.marginal_after, found.target, atol=1e-6)
    true = found.thresholds[0], found.thresholds[1] ** 1.5
    assert abs(true[0] - true[1]) < 0.03
    assert found.status[0] is iso.Status.EXTRAPOLATED
    assert np.isnan(found.marginal_se[0])
    assert found.status[1] is iso.Status.OK
    assert not found.warnings


def test_thresholds_one_way() -> None:
    data = margins(20_000, power=1.5)
    up = equalize_thresholds(data, **AT_HALF, direction="raise", resamples=100)
    down = equalize_thresholds(data, **AT_HALF, direction="lower", resamples=100)
    assert up.thresholds[0] == 0.5 < up.thresholds[1]
    assert up.overall_after < up.overall_before
    assert down.thresholds[1] == 0.5 > down.thresholds[0]
    assert down.overall_after > down.overall_before
    assert "cannot also be kept" in up.warnings[0]


def test_equal_groups_keep_their_threshold() -> None:
    data = margins(20_000)
    found = equalize_thresholds(data, **AT_HALF, rng=0)
    np.testing.assert_array_equal(found.thresholds, 0.5)
    assert found.verdict is iso.Verdict.INCONCLUSIVE
    assert "keep a common one" in found.headline()
    moved = equalize_thresholds(data, **AT_HALF, change="all", rng=0)
    assert np.all((moved.thresholds != 0.5) & (np.abs(moved.thresholds - 0.5) < 0.05))
    assert "may make equal groups unequal" in moved.headline()


def rate(metric: str, s: Any, y: Any, t: float) -> float:
    """A metric by hand."""
    chosen = s >= t
    of = {"selection_rate": chosen, "tpr": chosen[y == 1], "fpr": chosen[y == 0], "predictive_value": y[chosen]}
    return float(np.mean(of[metric]))


@pytest.mark.parametrize("target", ["selection_rate", "tpr", "fpr", "predictive_value"])
@pytest.mark.parametrize("capacity", [None, 0.2])
def test_every_target_is_met(target: Any, capacity: float | None) -> None:
    data = margins(20_000, power=2.0)
    found = equalize_thresholds(data, **AT_HALF, target=target, capacity=capacity, resamples=100, rng=0)
    assert found.metrics == (target,)
    assert found.verdict is iso.Verdict.VIOLATION
    wanted = np.mean(data["s"] >= 0.5) if capacity is None else capacity
    assert found.overall_after == pytest.approx(wanted, abs=1e-3)
    for g, name in enumerate("ab"):
        s, y = data["s"][data["g"] == name], data["y"][data["g"] == name]
        assert found.before[0, g] == pytest.approx(rate(target, s, y, 0.5))
        assert found.after[0, g] == pytest.approx(rate(target, s, y, found.thresholds[g]))
        assert found.after[0, g] == pytest.approx(found.target, abs=0.005)
        assert found.thresholds_low[g] <= found.thresholds[g] <= found.thresholds_high[g]
        assert found.selected_change[g] == np.sum(s >= found.thresholds[g]) - np.sum(s >= 0.5)
    right = [np.mean((data["s"] >= 0.5) == data["y"]), 0.0]
    right[1] = np.mean(np.where(data["g"] == "a", *(data["s"] >= t for t in found.thresholds)) == data["y"])
    assert [found.accuracy_before, found.accuracy_after] == pytest.approx(right)


def test_equal_odds_with_one_threshold_and_by_lot() -> None:
    data = margins(20_000, power=2.0)
    plain = equalize_thresholds(data, **AT_HALF, target="equalized_odds", resamples=100, rng=0)
    drawn = equalize_thresholds(data, **AT_HALF, target="equalized_odds", randomize=True, resamples=100, rng=0)
    assert plain.metrics == drawn.metrics == ("tpr", "fpr")
    assert any("drawing lots near it can" in text for text in plain.warnings)
    assert not drawn.warnings
    assert np.ptp(drawn.after, axis=1).max() < 1e-3 < np.ptp(plain.after, axis=1).max()
    assert {"lottery", "probability"} <= set(drawn.to_frame().columns)
    assert "by lot from" in drawn.summary()
    assert abs(drawn.overall_after - drawn.overall_before) < 1e-3


def test_groups_that_do_not_differ_share_a_threshold() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(30_000), np.repeat(["a", "b", "c"], 10_000)
    y = (rng.random(30_000) < np.where(g == "c", s**2, s)).astype(int)
    found = equalize_thresholds({"s": s, "g": g, "y": y}, **AT_HALF, target="tpr", resamples=100, rng=0)
    assert found.blocks[0] == found.blocks[1] != found.blocks[2]
    assert found.thresholds[0] == found.thresholds[1] != found.thresholds[2]


def test_weights_and_clusters_of_thresholds() -> None:
    data = margins(3_000, power=2.0)
    size = data["s"].size
    ask: dict[str, Any] = AT_HALF | {"resamples": 100, "rng": 0}
    for target in ("tpr", "outcome_at_margin"):
        plain = equalize_thresholds(data, **ask, target=target)
        doubled = [
            equalize_thresholds(data | {"w": np.full(size, w)}, **ask, target=target, weight="w") for w in (1.0, 2.0)
        ]
        for found in doubled:
            np.testing.assert_allclose(found.thresholds, plain.thresholds)
            assert found.pvalue == doubled[0].pvalue
        twice = {name: np.tile(values, 2) for name, values in data.items()} | {"m": np.tile(np.arange(size), 2)}
        alike = equalize_thresholds(twice, **ask, target=target, cluster="m")
        counted = equalize_thresholds(data | {"m": np.arange(size)}, **ask, target=target, cluster="m")
        width = [np.mean(one.thresholds_high - one.thresholds_low) for one in (alike, counted)]
        assert width[0] > 0.9 * width[1]  # copies of a row are not more rows


@pytest.mark.parametrize(
    "user",
    [
        ["a", None, "b"],
        [1.0, float("nan"), 2.0],
        pd.Series(["a", None, "b"]),
        pd.Series([1, None, 2], dtype="Int64"),
        pl.Series([1, None, 2]),
        np.array(["a", None, "b"], dtype=object),
    ],
)
def test_missing_users_cannot_be_split(user: Any) -> None:
    with pytest.raises(MissingValues, match=r"^user: 1 rows"):
        split_users(user, rng=0)


def test_split_users_never_splits_a_user() -> None:
    user = np.random.default_rng(0).integers(0, 50, 400)
    held_out = split_users(user, held_out=0.3, rng=1)
    assert not set(user[held_out]) & set(user[~held_out])
    assert len(set(user[held_out])) == 15
    with pytest.raises(UsageError):
        split_users(np.zeros(4))


def test_groups_without_a_common_score_are_judged_by_their_order() -> None:
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 2_000)
    s = 0.4 * rng.random(4_000) + 0.6 * g
    y = rng.random(4_000) < 1 / (1 + np.exp(-20 * (s - 0.5)))
    result = predictive_parity({"s": s, "g": g, "y": y}, **ROLES, rng=1)
    assert np.isnan(result.parity_pvalue)
    assert result.verdict == "inconclusive"
    assert "only the order of scores can be judged" in " ".join(result.summary().split())
    reversed_order = predictive_parity({"s": s, "g": g, "y": ~y}, **ROLES, rng=1)
    assert reversed_order.verdict == "violation"
    assert "The order is reversed" in " ".join(reversed_order.summary().split())


@pytest.mark.parametrize("bandwidth", [None, 0.3])
def test_scores_that_begin_away_from_the_threshold_do_not_tell_its_outcome(bandwidth: float | None) -> None:
    rng = np.random.default_rng(0)
    s = 0.6 + 0.4 * rng.random(4_000)
    data = {"s": s, "g": np.repeat([0, 1], 2_000), "y": rng.random(4_000) < s}
    result = marginal_outcomes(data, **ROLES, threshold=0.5, bandwidth=bandwidth)
    assert not result.answered
    assert any("Too few people just above the threshold" in warning for warning in result.warnings)


def test_a_score_that_ranks_everybody_the_wrong_way_round_is_a_violation_of_the_order_alone() -> None:
    rng = np.random.default_rng(1)
    s = rng.random(6_000)
    data = {"s": s, "g": np.repeat([0, 1], 3_000), "y": rng.random(6_000) < 0.8 - 0.6 * s}
    result = predictive_parity(data, **ROLES, tolerance=0.1, rng=1)
    assert result.verdict == result.ordering_verdict == "violation"
    assert "were shown to have expected outcomes that differ" not in " ".join(result.summary().split())


@pytest.mark.parametrize("target", ["selection_rate", "fpr", "predictive_value"])
def test_a_group_without_events(target: Any) -> None:
    data = scored(2_000)
    data["y"] = np.where(np.asarray(data["g"]) == data["g"][0], 0, data["y"])
    assert predictive_parity(data, **ROLES, rng=1).verdict == "violation"
    assert marginal_outcomes(data, **ROLES, threshold=0.5).verdict == "violation"
    options: dict[str, Any] = {"threshold": 0.5, "target": target, "resamples": 100, "rng": 1}
    assert equalize_thresholds(data, **ROLES, **options).thresholds.size == 2
