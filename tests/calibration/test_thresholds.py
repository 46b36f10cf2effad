"""Thresholds that cannot be had are said to be so."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.calibration import equalize_thresholds

ROLES = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def table(rate: Any, n: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """Groups a and b with uniform scores and E[Y | s, g] = rate(s, g)."""
    rng = np.random.default_rng(seed)
    s, g = rng.random(2 * n), np.repeat(["a", "b"], n)
    return {"s": s, "g": g, "y": (rng.random(2 * n) < rate(s, g)).astype(float)}


def duck(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("duckdb").connect().from_arrow(pl.DataFrame(columns).to_arrow())


def rising(s: Any, g: Any) -> Any:
    return np.where(g == "a", s, s**1.5)


@pytest.mark.parametrize("seed", range(3))
def test_flat_outcomes_cannot_be_made_equal(seed: int) -> None:
    data = table(lambda s, g: np.where(g == "a", 0.3, 0.6), seed=seed)
    for direction in ("both", "raise", "lower"):
        found = equalize_thresholds(data, **ROLES, direction=direction)
        assert found.status.count(iso.Status.INFEASIBLE) == (2 if direction == "both" else 1)
        for g, status in enumerate(found.status):
            if status is not iso.Status.INFEASIBLE:
                assert abs(found.marginal_after[g] - found.target) < 0.03
                assert 0 < found.rate_after[g] < 1
        kept = {"raise": 1, "lower": 0}.get(direction)  # the group whose outcome is aimed at
        assert kept is None or found.thresholds[kept] == pytest.approx(0.5, abs=1e-9)
        assert any("still differ" in said for said in found.warnings)
        for rate, whom in ((0.0, "Nobody"), (1.0, "Everybody")):
            assert any(said.startswith(whom) for said in found.warnings) == bool(np.any(found.rate_after == rate))
        assert "infeasible" in found.summary()


def test_falling_outcomes_are_seen() -> None:
    data = table(lambda s, g: rising(1 - s, g))
    found = equalize_thresholds(data, **ROLES)
    assert found.status == (iso.Status.INFEASIBLE, iso.Status.INFEASIBLE)
    assert any("fall as the score rises: g=a and g=b" in said for said in found.warnings)
    # The outcomes at the present threshold are those seen there, not those of a curve made to rise.
    np.testing.assert_allclose(found.marginal_before, [0.5, 0.5**1.5], atol=0.05)
    fine = equalize_thresholds(table(rising), **ROLES)
    assert fine.status == (iso.Status.EXTRAPOLATED, iso.Status.OK)
    assert fine.warnings == ()


def test_few_distinct_scores() -> None:
    data = table(rising)
    data["s"] = np.ceil(data["s"] * 10) / 10
    found = equalize_thresholds(data, **ROLES)
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
    data = table(rising)
    plain = equalize_thresholds(data, **ROLES)
    fine = equalize_thresholds(data | {"s": np.ceil(data["s"] * 1000) / 1000}, **ROLES)
    np.testing.assert_allclose(fine.thresholds, plain.thresholds, atol=0.003)
    assert fine.status == plain.status


@pytest.mark.parametrize(
    ("engine", "value"),
    [*product([dict, pd.DataFrame, pl.DataFrame, pl.LazyFrame], [np.inf, -np.inf, np.nan]), (duck, -np.inf)],
)
def test_infinite_scores_are_missing(engine: Any, value: float) -> None:
    data = table(rising, n=3_000)
    keep = np.arange(6_000) % 10 > 0
    expected = equalize_thresholds({k: v[keep] for k, v in data.items()}, **ROLES)
    found = equalize_thresholds(engine(data | {"s": np.where(keep, data["s"], value)}), **ROLES, missing="drop")
    np.testing.assert_allclose(found.thresholds, expected.thresholds, rtol=1e-9)
    np.testing.assert_allclose(found.rate_after, expected.rate_after, rtol=1e-9)
    assert found.size.tolist() == expected.size.tolist()
    assert found.provenance.dropped == {"s": 600}


def test_one_stray_score_changes_little() -> None:
    data = table(rising)
    plain = equalize_thresholds(data, **ROLES)
    found = equalize_thresholds(data | {"s": np.where(np.arange(20_000) == 0, 1e6, data["s"])}, **ROLES)
    np.testing.assert_allclose(found.thresholds, plain.thresholds, atol=0.01)
    assert abs(found.overall_after - found.overall_before) < 1e-3
    assert found.status == plain.status


def test_the_scale_of_the_score_does_not_matter() -> None:
    data = table(rising)
    plain = equalize_thresholds(data, **ROLES)
    for scale in (10.0, 1000.0):
        found = equalize_thresholds(data | {"s": data["s"] * scale}, **(ROLES | {"threshold": 0.5 * scale}))
        np.testing.assert_allclose(found.thresholds / scale, plain.thresholds, atol=1e-3)


@pytest.mark.parametrize("threshold", [np.float32(0.5), np.float64(0.5), np.array(0.5)[()]])
def test_thresholds_of_numpy_are_numbers(threshold: Any) -> None:
    data = table(rising, n=3_000)
    plain = equalize_thresholds(data, **ROLES)
    found = equalize_thresholds(data, **(ROLES | {"threshold": threshold}))
    np.testing.assert_array_equal(found.thresholds, plain.thresholds)
    whole = equalize_thresholds(data | {"s": data["s"] * 10}, **(ROLES | {"threshold": np.int64(5)}))
    assert whole.threshold == 5.0
    with pytest.raises(iso.errors.UsageError, match="threshold"):
        equalize_thresholds(data, **(ROLES | {"threshold": np.True_}))


def test_a_group_that_selects_the_same_people_keeps_its_threshold() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.integers(1, 10, 20_000) / 10, np.repeat(["a", "b"], 10_000)
    y = (rng.random(20_000) < np.where(g == "a", s, s**1.5)).astype(int)
    found = equalize_thresholds(
        {"s": s, "g": g, "y": y}, outcome="y", score="s", groups="g", threshold=0.45, direction="lower"
    )
    kept = found.rate_after == found.rate_before
    assert kept.any()
    np.testing.assert_array_equal(found.thresholds[kept], 0.45)
    np.testing.assert_allclose(found.marginal_after[kept], found.marginal_before[kept])
