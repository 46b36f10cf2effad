"""Thresholds that are found, and those that stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import (
    equalize_thresholds,
)
from isonomy.errors import (
    NotEnoughData,
)
from support.tables import margins, rated, rising

AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def test_a_group_without_outcomes_at_the_margin_keeps_its_threshold() -> None:
    data = margins(5_000)
    few = {k: np.append(v, v[:2]) for k, v in data.items()}
    few["g"] = np.append(data["g"].astype("U9"), ["few", "few"])
    few["s"][-2:] = 0.9
    result = equalize_thresholds(few, **AT_HALF)
    at = [group.label for group in result.groups].index("g=few")
    assert result.thresholds[at] == result.threshold
    assert result.status[at] is iso.Status.UNSUPPORTED
    assert np.isnan(result.marginal_after[at])
    assert any("g=few" in warning for warning in result.warnings)
    with pytest.raises(NotEnoughData, match="no group has enough"):
        equalize_thresholds(data | {"y": np.ones(data["y"].size)}, **AT_HALF)


def test_few_distinct_scores() -> None:
    data = rated(rising)
    data["s"] = np.ceil(data["s"] * 10) / 10
    found = equalize_thresholds(data, **AT_HALF)
    steps = np.arange(1, 11) / 10
    for g, name in enumerate("ab"):
        assert np.min(np.abs(steps - found.thresholds[g])) < 1e-9  # the scores selected, not a point in between
        mine = data["s"][data["g"] == name]
        assert found.rate_after[g] == np.mean(mine >= found.thresholds[g])
    # b moves by a step, and its margin with it: the decile (0.5, 0.6] has a mean of s^1.5 near 0.408.
    assert found.thresholds[1] == pytest.approx(0.6)
    assert found.marginal_after[1] == pytest.approx((0.6**2.5 - 0.5**2.5) / 2.5 / 0.1, abs=0.04)
    apart = np.abs(found.marginal_after - found.target) > np.nan_to_num(found.marginal_se, nan=0.02)
    assert [status is iso.Status.INFEASIBLE for status in found.status] == apart.tolist()
    assert any("still differ" in said for said in found.warnings)


def test_fine_lattices_count_as_continuous() -> None:
    data = rated(rising)
    plain = equalize_thresholds(data, **AT_HALF)
    fine = equalize_thresholds(data | {"s": np.ceil(data["s"] * 1000) / 1000}, **AT_HALF)
    np.testing.assert_allclose(fine.thresholds, plain.thresholds, atol=0.003)
    assert fine.status == plain.status


def test_one_stray_score_changes_little() -> None:
    data = rated(rising)
    plain = equalize_thresholds(data, **AT_HALF)
    found = equalize_thresholds(data | {"s": np.where(np.arange(20_000) == 0, 1e6, data["s"])}, **AT_HALF)
    np.testing.assert_allclose(found.thresholds, plain.thresholds, atol=0.01)
    assert abs(found.overall_after - found.overall_before) < 1e-3
    assert found.status == plain.status


def test_the_scale_of_the_score_does_not_matter() -> None:
    data, ask = rated(rising), AT_HALF | {"resamples": 100}
    plain = equalize_thresholds(data, **ask)
    for scale in (10.0, 1000.0):
        found = equalize_thresholds(data | {"s": data["s"] * scale}, **(ask | {"threshold": 0.5 * scale}))
        np.testing.assert_allclose(found.thresholds / scale, plain.thresholds, atol=1e-3)


def test_a_group_that_selects_the_same_people_keeps_its_threshold() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.integers(1, 10, 20_000) / 10, np.repeat(["a", "b"], 10_000)
    y = (rng.random(20_000) < np.where(g == "a", s, s**1.5)).astype(int)
    found = equalize_thresholds(
        {"s": s, "g": g, "y": y}, outcome="y", score="s", groups="g", threshold=0.5, direction="lower"
    )
    kept = found.rate_after == found.rate_before
    assert kept.any()
    np.testing.assert_array_equal(found.thresholds[kept], 0.5)
    np.testing.assert_allclose(found.marginal_after[kept], found.marginal_before[kept])


def gaps(n: int = 6_000) -> dict[str, Any]:
    """Groups a and b have the same outcomes, and below 0.5 scores that never coincide; c has worse outcomes."""
    rng = np.random.default_rng(0)
    g, s = np.repeat(["a", "b", "c"], n), rng.random(3 * n)
    below = np.floor(10 * s) / 10 + np.where(g == "b", 0.05, 0.0)
    s = np.where((s < 0.5) & (g != "c"), below, s)
    return {"s": s, "g": g, "y": (rng.random(3 * n) < np.where(g == "c", 0.7 * s, 0.1 + 0.9 * s)).astype(float)}


@pytest.mark.parametrize("target", ["outcome_at_margin", "selection_rate", "tpr", "predictive_value", "equalized_odds"])
@pytest.mark.parametrize("threshold", [0.5, 0.55])
def test_groups_that_share_a_threshold_have_one(target: Any, threshold: float) -> None:
    data = gaps()
    ask: dict[str, Any] = AT_HALF | {"target": target, "threshold": threshold, "resamples": 100, "rng": 0}
    result = equalize_thresholds(data, **ask)
    for block in set(result.blocks.tolist()):
        for name in ("thresholds", "thresholds_low", "thresholds_high", "lottery"):
            assert np.unique(getattr(result, name)[result.blocks == block]).size == 1, name
    for g, name in enumerate("abc"):
        mine = data["s"][data["g"] == name]
        assert result.rate_after[g] == np.mean(mine >= result.thresholds[g])  # the rates are those of these thresholds
