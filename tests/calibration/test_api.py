"""The public questions: what they find in tables with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.calibration import (
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


def test_a_test_over_all_scores_is_told_where_no_single_score_has_people_enough() -> None:
    rng = np.random.default_rng(0)
    g = np.repeat([0, 1], 800)
    s = rng.random(1_600)
    y = rng.random(1_600) < np.where(g == 1, 0.06, 0.015)
    result = predictive_parity({"s": s, "g": g, "y": y}, **ROLES, rng=1)
    assert result.parity_pvalue < 0.01
    assert not result.families[0].supported.any()
    summary = " ".join(result.summary().split())
    assert "2 groups compared over all scores together" in summary
    assert "only the order" not in summary


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
