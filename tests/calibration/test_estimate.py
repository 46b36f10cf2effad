"""The numbers: bandwidths, bands, support, thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import (
    marginal_outcomes,
    predictive_parity,
)
from isonomy.calibration.smoothing.sums import EVENTS
from support.tables import margins, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


@pytest.mark.parametrize("change", ["narrow", "wide", "stray", "far"])
def test_the_bandwidth_follows_where_the_scores_lie(change: str) -> None:
    data = scored()
    plain = predictive_parity(data, **ROLES, rng=1).families[0]
    factor = {"narrow": 0.01, "wide": 1e6}.get(change, 1.0)
    s = factor * data["s"]
    if factor == 1:
        s[7] = 10 if change == "stray" else 1e9
    moved = predictive_parity(data | {"s": s}, **ROLES, rng=1).families[0]
    middle = slice(3, -3)
    np.testing.assert_allclose(moved.grid[middle], factor * plain.grid[middle], rtol=0.05)
    np.testing.assert_allclose(moved.bandwidth[middle], factor * plain.bandwidth[middle], rtol=0.1)
    np.testing.assert_allclose(moved.curve[:, middle], plain.curve[:, middle], atol=0.03)
    paper = predictive_parity(data | {"s": s}, **ROLES, rng=1, method="nadaraya-watson").families[0]
    assert paper.bandwidth.max() >= moved.bandwidth.max()  # by name, the paper's rule for [0, 1] or the whole range


@pytest.mark.parametrize("adjust", ["sup-t", "bonferroni", "holm", "none"])
def test_adjustments_are_ordered(adjust: Any) -> None:
    family = predictive_parity(scored(), **ROLES, adjust=adjust, rng=1).families[0]
    plain = predictive_parity(scored(), **ROLES, adjust="none", rng=1).families[0]
    assert np.all(family.adjusted_at[family.supported] >= plain.pvalue_at[plain.supported] - 1e-15)
    assert np.nanmax(family.high - family.low) >= np.nanmax(plain.high - plain.low) - 1e-15


def test_sup_t_is_narrower_than_bonferroni() -> None:
    sup, bonferroni = (
        predictive_parity(scored(), **ROLES, adjust=a, rng=1).families[0] for a in ("sup-t", "bonferroni")
    )
    assert np.nanmax((sup.high - sup.low) / (bonferroni.high - bonferroni.low)) < 1
    assert sup.pvalue <= bonferroni.pvalue


@pytest.mark.parametrize("method", ["residual", "orthogonal"])
def test_a_difference_has_its_size_when_groups_score_differently(method: Any) -> None:
    """f is s in one group and s^2 in the other, scores Beta(2, 5) and Beta(5, 2): 0.25 apart at 0.5."""
    found = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        s = np.concatenate([rng.beta(2, 5, 5_000), rng.beta(5, 2, 5_000)])
        g = np.repeat(["a", "b"], 5_000)
        y = (rng.random(s.size) < np.where(g == "a", s, s**2)).astype(int)
        family = predictive_parity({"s": s, "g": g, "y": y}, **ROLES, method=method, grid=[0.4, 0.5], rng=1).families[0]
        found.append(np.append(family.difference[0], family.se[0]))
    difference, se = np.split(np.mean(found, axis=0), 2)
    # Three standard errors of a mean of ten, and the bias of smoothing s - s^2 over the bandwidth of 0.1: its square.
    assert np.all(np.abs(difference - [0.24, 0.25]) < 3 * se / np.sqrt(10) + 0.01)


def test_a_third_group_does_not_enter_a_pair() -> None:
    two, three = scored(), scored()
    extra = scored(seed=5, slope=0.3)
    for name in three:
        more = np.full(extra["g"].size, "z") if name == "g" else extra[name]
        three[name] = np.concatenate([three[name], more])
    grid = [0.3, 0.5]
    alone = predictive_parity(two, **ROLES, grid=grid, bandwidth=0.1, rng=1).families[0]
    beside = predictive_parity(three, **ROLES, grid=grid, bandwidth=0.1, rng=1).families[0]
    # Bins stand at the mean of everybody's scores, which the third group moves by a part of a bin.
    np.testing.assert_allclose(alone.difference[0], beside.difference[0], rtol=1e-3)


def test_a_point_with_few_users_is_not_estimated() -> None:
    data = scored()
    keep = (data["g"] == "a") | (data["s"] > 0.5)
    result = predictive_parity({k: v[keep] for k, v in data.items()}, **ROLES, grid=[0.1, 0.7], rng=1)
    family = result.families[0]
    assert family.supported.tolist() == [[False, True]]
    assert np.isnan(family.curve[1, 0])
    assert not np.isnan(family.curve[0, 0])
    frame = result.to_frame()
    assert frame["status"].to_list() == ["unsupported", "ok"]
    assert any("were not made" in warning for warning in result.warnings)


def test_the_support_rule_counts_the_rarer_outcome() -> None:
    data = scored(n=400)
    data["y"] = (np.arange(800) % 100 == 0).astype(int)  # 4 events a group
    result = predictive_parity(data, **ROLES, rng=1)
    assert EVENTS == 10
    assert np.isnan(result.pvalue)
    assert result.verdict is iso.Verdict.INCONCLUSIVE


def test_a_score_above_one_changes_little() -> None:
    data = margins(10_000, power=1.5)
    plain = marginal_outcomes(data, **AT_HALF)
    data["s"][np.argmax(data["s"])] = 1.0001
    beyond = marginal_outcomes(data, **AT_HALF)
    assert beyond.families[0].bandwidth == pytest.approx(plain.families[0].bandwidth, rel=0.02)
    assert beyond.pvalue == pytest.approx(plain.pvalue, rel=0.5)


def test_few_people_at_the_margin() -> None:
    data = margins(100)
    keep = (data["g"] == "a") | (data["s"] > 0.8) | (data["s"] < 0.5)
    result = marginal_outcomes({k: v[keep] for k, v in data.items()}, **AT_HALF)
    assert result.to_frame()["status"].to_list() == ["unsupported"]
    assert result.verdict is iso.Verdict.INCONCLUSIVE
    assert "Too few" in " ".join(result.warnings)
