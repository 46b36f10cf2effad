"""Thresholds for every target, on tables with a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.calibration import (
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
)
from support.tables import margins, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


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
    for target in ("tpr", "outcome_at_margin"):
        # Margins of a given width: without one it is chosen by errors, which are estimated in another way with weights.
        width_given = {"bandwidth": 0.1} if target == "outcome_at_margin" else {}
        ask: dict[str, Any] = AT_HALF | {"resamples": 100, "rng": 0} | width_given
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


@pytest.mark.parametrize("target", ["selection_rate", "fpr", "predictive_value"])
def test_a_group_without_events(target: Any) -> None:
    data = scored(2_000)
    data["y"] = np.where(np.asarray(data["g"]) == data["g"][0], 0, data["y"])
    assert predictive_parity(data, **ROLES, rng=1).verdict == "violation"
    assert marginal_outcomes(data, **ROLES, threshold=0.5).verdict == "violation"
    options: dict[str, Any] = {"threshold": 0.5, "target": target, "resamples": 100, "rng": 1}
    assert equalize_thresholds(data, **ROLES, **options).thresholds.size == 2


@pytest.mark.parametrize("target", ["selection_rate", "tpr", "outcome_at_margin"])
def test_numbers_of_rows_are_without_weights(target: str) -> None:
    data = margins(3_000, power=2.0)
    groups, size = np.unique(data["g"], return_counts=True)
    heavy = data | {"w": np.where(data["g"] == groups[0], 2.0, 0.2), "n": np.full(data["s"].size, 3)}
    ask: dict[str, Any] = AT_HALF | {"resamples": 100, "rng": 0, "target": target, "weight": "w"}
    for counted, times in (({}, 1), ({"count": "n"}, 3)):
        result = equalize_thresholds(heavy, **(ask | counted))
        assert result.size.tolist() == (times * size).tolist()
        shares = (result.rate_after - result.rate_before) * times * size
        np.testing.assert_allclose(result.selected_change, shares)
        assert np.all(result.selected_change_low <= result.selected_change)
        assert np.all(result.selected_change <= result.selected_change_high)
        assert result.provenance.rows == times * size.sum()
