"""Thresholds for every target: on tables with a known truth, on lattices of scores, with weights, and in words."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.errors import NotEnoughData, UsageError
from isonomy.scores import equalize_thresholds, marginal_outcomes, predictive_parity
from support.tables import margins, rated, rising, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
FEW = iso.curves(resamples=100)
AT_HALF: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5}


def test_thresholds_equalize_and_keep_the_rate() -> None:
    found = equalize_thresholds(margins(20_000, power=1.5), **AT_HALF, method=FEW)
    assert abs(found.overall_after - found.overall_before) < 1e-3
    np.testing.assert_allclose(found.after[0], found.target, atol=1e-6)
    true = found.thresholds[0], found.thresholds[1] ** 1.5
    assert abs(true[0] - true[1]) < 0.03
    assert found.status[0] is iso.Status.EXTRAPOLATED
    assert np.isnan(found.se[0][0])
    assert found.status[1] is iso.Status.OK
    assert not found.warnings


def test_thresholds_one_way() -> None:
    data = margins(20_000, power=1.5)
    up = equalize_thresholds(data, **AT_HALF, direction="raise", method=FEW)
    down = equalize_thresholds(data, **AT_HALF, direction="lower", method=FEW)
    assert up.thresholds[0] == 0.5 < up.thresholds[1]
    assert up.overall_after < up.overall_before
    assert down.thresholds[1] == 0.5 > down.thresholds[0]
    assert down.overall_after > down.overall_before
    assert up.warnings[0].endswith("instead of being kept.")


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
    found = equalize_thresholds(data, **AT_HALF, target=target, capacity=capacity, method=FEW, rng=0)
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
    plain = equalize_thresholds(data, **AT_HALF, target="equalized_odds", method=FEW, rng=0)
    drawn = equalize_thresholds(data, **AT_HALF, target="equalized_odds", randomize=True, method=FEW, rng=0)
    assert plain.metrics == drawn.metrics == ("tpr", "fpr")
    assert any("a lottery near the threshold can" in text for text in plain.warnings)
    assert not drawn.warnings
    assert np.ptp(drawn.after, axis=1).max() < 1e-3 < np.ptp(plain.after, axis=1).max()
    assert {"lottery", "probability"} <= set(drawn.to_frame().columns)
    assert "by lottery from" in drawn.summary()
    assert abs(drawn.overall_after - drawn.overall_before) < 1e-3


def test_groups_that_do_not_differ_share_a_threshold() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.random(30_000), np.repeat(["a", "b", "c"], 10_000)
    y = (rng.random(30_000) < np.where(g == "c", s**2, s)).astype(int)
    found = equalize_thresholds({"s": s, "g": g, "y": y}, **AT_HALF, target="tpr", method=FEW, rng=0)
    assert found.blocks[0] == found.blocks[1] != found.blocks[2]
    assert found.thresholds[0] == found.thresholds[1] != found.thresholds[2]


def test_weights_and_clusters_of_thresholds() -> None:
    data = margins(3_000, power=2.0)
    size = data["s"].size
    for target in ("tpr", "outcome_at_margin"):
        # Margins of a given width: without one it is chosen by errors, which are estimated in another way with weights.
        width = 0.1 if target == "outcome_at_margin" else None
        ask: dict[str, Any] = AT_HALF | {"method": iso.curves(bandwidth=width, resamples=100), "rng": 0}
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
        lengths = [np.mean(one.thresholds_high - one.thresholds_low) for one in (alike, counted)]
        assert lengths[0] > 0.9 * lengths[1]  # copies of a row are not more rows


@pytest.mark.parametrize("target", ["selection_rate", "fpr", "predictive_value"])
def test_a_group_without_events(target: Any) -> None:
    data = scored(2_000)
    data["y"] = np.where(np.asarray(data["g"]) == data["g"][0], 0, data["y"])
    assert predictive_parity(data, **ROLES, rng=1).verdict == "violation"
    assert marginal_outcomes(data, **ROLES, threshold=0.5).verdict == "violation"
    options: dict[str, Any] = {"threshold": 0.5, "target": target, "method": FEW, "rng": 1}
    assert equalize_thresholds(data, **ROLES, **options).thresholds.size == 2


@pytest.mark.parametrize("target", ["selection_rate", "tpr", "outcome_at_margin"])
def test_numbers_of_rows_are_without_weights(target: str) -> None:
    data = margins(1_000, power=2.0)
    groups, size = np.unique(data["g"], return_counts=True)
    heavy = data | {"w": np.where(data["g"] == groups[0], 2.0, 0.2), "n": np.full(data["s"].size, 3)}
    ask: dict[str, Any] = AT_HALF | {"method": FEW, "rng": 0, "target": target, "weight": "w"}
    for counted, times in (({}, 1), ({"count": "n"}, 3)):
        result = equalize_thresholds(heavy, **(ask | counted))
        assert result.size.tolist() == (times * size).tolist()
        shares = (result.rate_after - result.rate_before) * times * size
        np.testing.assert_allclose(result.selected_change, shares)
        assert np.all(result.selected_change_low <= result.selected_change)
        assert np.all(result.selected_change <= result.selected_change_high)
        assert result.provenance.rows == times * size.sum()


def test_a_group_without_outcomes_at_the_margin_keeps_its_threshold() -> None:
    data = margins(5_000)
    few = {k: np.append(v, v[:2]) for k, v in data.items()}
    few["g"] = np.append(data["g"].astype("U9"), ["few", "few"])
    few["s"][-2:] = 0.9
    result = equalize_thresholds(few, **AT_HALF)
    at = [group.label for group in result.groups].index("g=few")
    assert result.thresholds[at] == result.threshold
    assert result.status[at] is iso.Status.UNSUPPORTED
    assert np.isnan(result.after[0][at])
    assert any("g=few" in warning for warning in result.warnings)
    with pytest.raises(NotEnoughData, match="fewer than two groups have enough"):
        equalize_thresholds(data | {"y": np.ones(data["y"].size)}, **AT_HALF)
    few["s"][-2:] = 0.3
    with pytest.raises(NotEnoughData, match="g=few has no row at or above the threshold"):
        equalize_thresholds(few, **AT_HALF)


def test_few_distinct_scores() -> None:
    data = rated(rising)
    data["s"] = np.ceil(data["s"] * 10) / 10
    found = equalize_thresholds(data, **AT_HALF, method=FEW)
    steps = np.arange(1, 11) / 10
    for g, name in enumerate("ab"):
        assert np.min(np.abs(steps - found.thresholds[g])) < 1e-9  # the scores selected, not a point in between
        mine = data["s"][data["g"] == name]
        assert found.rate_after[g] == np.mean(mine >= found.thresholds[g])
    # b moves by a step, and its margin with it: the decile (0.5, 0.6] has a mean of s^1.5 near 0.408.
    assert found.thresholds[1] == pytest.approx(0.6)
    assert found.after[0][1] == pytest.approx((0.6**2.5 - 0.5**2.5) / 2.5 / 0.1, abs=0.04)
    apart = np.abs(found.after[0] - found.target) > np.nan_to_num(found.se[0], nan=0.02)
    assert [status is iso.Status.INFEASIBLE for status in found.status] == apart.tolist()
    assert any("still differ" in said for said in found.warnings)


def test_fine_lattices_count_as_continuous() -> None:
    data = rated(rising)
    plain = equalize_thresholds(data, **AT_HALF, method=FEW)
    fine = equalize_thresholds(data | {"s": np.ceil(data["s"] * 1000) / 1000}, **AT_HALF, method=FEW)
    np.testing.assert_allclose(fine.thresholds, plain.thresholds, atol=0.003)
    assert fine.status == plain.status


def test_one_stray_score_changes_little() -> None:
    data = rated(rising)
    plain = equalize_thresholds(data, **AT_HALF, method=FEW)
    found = equalize_thresholds(data | {"s": np.where(np.arange(20_000) == 0, 1e6, data["s"])}, **AT_HALF, method=FEW)
    np.testing.assert_allclose(found.thresholds, plain.thresholds, atol=0.01)
    assert abs(found.overall_after - found.overall_before) < 1e-3
    assert found.status == plain.status


def test_the_scale_of_the_score_does_not_matter() -> None:
    data, ask = rated(rising), AT_HALF | {"method": FEW}
    plain = equalize_thresholds(data, **ask)
    for scale in (10.0, 1000.0):
        found = equalize_thresholds(data | {"s": data["s"] * scale}, **(ask | {"threshold": 0.5 * scale}))
        np.testing.assert_allclose(found.thresholds / scale, plain.thresholds, atol=1e-3)


def test_a_group_that_selects_the_same_people_keeps_its_threshold() -> None:
    rng = np.random.default_rng(0)
    s, g = rng.integers(1, 10, 20_000) / 10, np.repeat(["a", "b"], 10_000)
    y = (rng.random(20_000) < np.where(g == "a", s, s**1.5)).astype(int)
    found = equalize_thresholds(
        {"s": s, "g": g, "y": y}, outcome="y", score="s", groups="g", threshold=0.5, direction="lower", method=FEW
    )
    kept = found.rate_after == found.rate_before
    assert kept.any()
    np.testing.assert_array_equal(found.thresholds[kept], 0.5)
    np.testing.assert_allclose(found.after[0][kept], found.before[0][kept])


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
    ask: dict[str, Any] = AT_HALF | {"target": target, "threshold": threshold, "method": FEW, "rng": 0}
    result = equalize_thresholds(data, **ask)
    for block in set(result.blocks.tolist()):
        for name in ("thresholds", "thresholds_low", "thresholds_high", "lottery"):
            assert np.unique(getattr(result, name)[result.blocks == block]).size == 1, name
    for g, name in enumerate("abc"):
        mine = data["s"][data["g"] == name]
        assert result.rate_after[g] == np.mean(mine >= result.thresholds[g])  # the rates are those of these thresholds


READ: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "threshold": 0.5, "rng": 0, "method": FEW}


def test_equal_scores_leave_every_estimate_inside_its_interval_and_say_that_groups_still_differ() -> None:
    """With five distinct scores, samples and thresholds fall between scores in different ways."""
    data = rated(lambda s, g: np.where(g == "a", 0.8, 0.3) * s)
    data["s"] = np.round(data["s"] * 4) / 4
    for options in ({"target": "tpr"}, {"target": "predictive_value"}, {"target": "equalized_odds", "randomize": True}):
        found = equalize_thresholds(data, **(AT_HALF | options), change="all", method=FEW, rng=1)
        for name in ("thresholds", "lottery", "selected_change"):
            low, value, high = (getattr(found, name + end) for end in ("_low", "", "_high"))
            assert np.all((low <= value) & (value <= high)), name
        gain = found.accuracy_after - found.accuracy_before
        assert found.accuracy_change_low <= gain <= found.accuracy_change_high
        differ = iso.Status.INFEASIBLE in found.status or any("still differ" in text for text in found.warnings)
        assert ("would agree" in found.headline()) != differ


def test_rates_that_are_equal_as_printed_are_unchanged(columns: dict[str, Any]) -> None:
    found = equalize_thresholds(columns, **READ, target="tpr", change="all")
    after = found.before + 1e-9  # less than a sentence shows
    sentence = replace(found, after=after, rate_after=found.rate_before + 1e-9).findings()[1]
    assert sentence.count("unchanged at") == 2
    assert " from " not in sentence.split(";", 1)[1]


def _of_the_selected(seed: int = 0) -> dict[str, Any]:
    """Outcomes of those with a score of one half or more alone."""
    rng = np.random.default_rng(seed)
    score, group = rng.random(4_000), np.repeat(["a", "b"], 2_000)
    outcome = (rng.random(4_000) < score).astype(float)
    return {"s": score, "g": group, "y": np.where(score < 0.5, np.nan, outcome)}


def test_outcomes_known_of_the_selected_alone_are_told() -> None:
    asked: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5, "groups": "g", "rng": 0}
    data = _of_the_selected()
    result = equalize_thresholds(data, **asked)
    known = float(np.mean(data["s"] >= 0.5))
    assert f"The outcome is known for {100 * known:.1f} % of everybody." in result.warnings[0]
    assert "accuracy is not known" in result.warnings[0]
    keeps = f"Every group keeps the present threshold. Selected overall: {100 * known:.1f} %."
    assert result.findings()[0] == keeps
    with pytest.raises(UsageError, match=r"not known for anybody with a score below the threshold.*outcome_at_margin"):
        equalize_thresholds(data, target="tpr", missing="drop", **asked)


def test_a_rate_of_those_whose_outcome_is_known_says_so() -> None:
    data = _of_the_selected()
    data["y"] = np.where(np.arange(4_000) % 2 == 0, data["s"] > 0.4, data["y"])
    asked: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5, "groups": "g", "rng": 0}
    result = equalize_thresholds(data, target="tpr", missing="drop", **asked)
    left_out = int(np.isnan(data["y"]).sum())
    assert result.warnings[0].startswith(f"{left_out:,} rows without an outcome were left out")
    unasked = {**asked, "outcome": None, "target": "selection_rate"}
    assert equalize_thresholds(data, **unasked).warnings == ()
    data["s"][:50] = np.nan
    assert not any("outcome" in told for told in equalize_thresholds(data, missing="drop", **unasked).warnings)


def test_too_few_rows_are_told_in_words() -> None:
    data = {"s": np.tile([0.4, 0.6], 8), "g": np.repeat(["a", "b"], 8), "y": np.tile([0, 1], 8)}
    with pytest.raises(NotEnoughData, match=r"to estimate the outcome at the margin at 0.5.*combine small groups"):
        equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g")


def test_too_few_cases_of_a_rate_are_told_in_words() -> None:
    """Most of those with the outcome are selected: there are many of them, and few that the rate does not count."""
    rng = np.random.default_rng(1)
    group, outcome = np.repeat(["a", "b"], 300), np.tile([0, 1, 1], 200)
    data = {"s": np.where((outcome == 1) & (rng.random(600) < 0.98), 0.7, 0.3), "g": group, "y": outcome}
    with pytest.raises(NotEnoughData, match=r"10 of the rows behind the true positive rate must be expected"):
        equalize_thresholds(data, outcome="y", score="s", threshold=0.5, groups="g", target="tpr")


@pytest.mark.parametrize("name", ["__y", "__k", "__s", "__w", "known", "outcome"])
def test_columns_of_thresholds_may_have_names_used_inside(name: str) -> None:
    rng = np.random.default_rng(0)
    score = rng.random(800)
    columns = {"y": (rng.random(800) < score).astype(int), "s": score, "g": rng.choice(["a", "b"], 800)}
    options: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5, "target": "tpr", "rng": 0}
    expected = iso.equalize_thresholds(columns, **options, groups="g")
    renamed = {name if key == "g" else key: values for key, values in columns.items()}
    result = iso.equalize_thresholds(renamed, **options, groups=name)
    assert result.thresholds == pytest.approx(expected.thresholds)


@pytest.mark.parametrize("target", ["outcome_at_margin", "selection_rate"])
def test_rows_without_a_weight_are_left_out(target: Any) -> None:
    rng = np.random.default_rng(0)
    s = rng.random(8_000)
    data = {"s": s, "y": (rng.random(8_000) < s).astype(float), "g": rng.choice(["a", "b"], 8_000)}
    data |= {"m": rng.integers(0, 2_000, 8_000), "w": 0.5 + rng.random(8_000)}
    kept = rng.random(8_000) < 0.9
    options: dict[str, Any] = {
        "outcome": "y",
        "score": "s",
        "groups": "g",
        "threshold": 0.5,
        "user": "m",
        "weight": "w",
    }
    options |= {"target": target, "change": "all", "missing": "drop", "method": FEW, "rng": 0}
    expected = iso.equalize_thresholds({name: values[kept] for name, values in data.items()}, **options)
    result = iso.equalize_thresholds(data | {"w": np.where(kept, data["w"], np.nan)}, **options)
    np.testing.assert_allclose(result.thresholds, expected.thresholds, rtol=1e-9)
    assert result.size.tolist() == expected.size.tolist()


def test_thresholds_with_tied_scores_say_so() -> None:
    data = margins(5_000, power=1.5)
    data["s"] = np.round(data["s"], 1)
    found = equalize_thresholds(data, **AT_HALF, method=FEW)
    assert abs(found.overall_after - found.overall_before) > 1e-3
    assert "could not be kept" in found.warnings[0]


@pytest.mark.parametrize("seed", range(2))
def test_flat_outcomes_cannot_be_made_equal(seed: int) -> None:
    data = rated(lambda s, g: np.where(g == "a", 0.3, 0.6), seed=seed)
    for direction in ("both", "raise", "lower"):
        found = equalize_thresholds(data, **AT_HALF, direction=direction, method=FEW)
        assert found.status.count(iso.Status.INFEASIBLE) == (2 if direction == "both" else 1)
        for g, status in enumerate(found.status):
            if status is not iso.Status.INFEASIBLE:
                # A group that stays has the outcome of `marginal_outcomes`, with its error.
                assert abs(found.after[0][g] - found.target) < max(0.03, 3 * np.nan_to_num(found.se[0][g]))
                assert 0 < found.rate_after[g] < 1
        kept = {"raise": 1, "lower": 0}.get(direction)  # the group whose outcome is aimed at
        assert kept is None or found.thresholds[kept] == pytest.approx(0.5, abs=1e-9)
        assert any("still differ" in said for said in found.warnings)
        for rate, whom in ((0.0, "Nobody"), (1.0, "Everybody")):
            assert any(said.startswith(whom) for said in found.warnings) == bool(np.any(found.rate_after == rate))
        assert "infeasible" in found.summary()


def test_falling_outcomes_are_seen() -> None:
    data = rated(lambda s, g: rising(1 - s, g))
    found = equalize_thresholds(data, **AT_HALF, method=FEW)
    assert found.status == (iso.Status.INFEASIBLE, iso.Status.INFEASIBLE)
    assert any("fall as the score rises in g=a and g=b" in said for said in found.warnings)
    # The outcomes at the present threshold are those seen there, not those of a curve made to rise.
    np.testing.assert_allclose(found.before[0], [0.5, 0.5**1.5], atol=0.05)
    fine = equalize_thresholds(rated(rising), **AT_HALF, method=FEW)
    assert fine.status == (iso.Status.EXTRAPOLATED, iso.Status.OK)
    assert fine.warnings == ()


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"threshold": -1.0, "target": "tpr"}, UsageError, "threshold: every score reaches -1.0"),
    ],
)
def test_thresholds_say_what_is_wrong(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        equalize_thresholds(margins(500), **(AT_HALF | options))


def test_thresholds_of_groups_without_events() -> None:
    data = margins(2_000)
    data["y"] = np.where(data["g"] == "b", 0, data["y"])
    with pytest.raises(NotEnoughData, match="fewer than two groups have enough rows to estimate the true"):
        equalize_thresholds(data, **AT_HALF, target="tpr")
    one = data | {"m": np.zeros(data["s"].size, dtype=int)}
    with pytest.raises(NotEnoughData, match="fewer than two groups have enough"):
        equalize_thresholds(one, **AT_HALF, target="selection_rate", user="m")


@pytest.mark.parametrize("threshold", [np.float32(0.5), np.array(0.5)[()]])
def test_thresholds_of_numpy_are_numbers(threshold: Any) -> None:
    data, ask = rated(rising, n=1_000), AT_HALF | {"method": FEW}
    plain = equalize_thresholds(data, **ask)
    found = equalize_thresholds(data, **(ask | {"threshold": threshold}))
    np.testing.assert_array_equal(found.thresholds, plain.thresholds)
    whole = equalize_thresholds(data | {"s": data["s"] * 10}, **(ask | {"threshold": np.int64(5)}))
    assert whole.threshold == 5.0
    with pytest.raises(iso.errors.UsageError, match="threshold"):
        equalize_thresholds(data, **(ask | {"threshold": np.True_}))


def test_thresholds_of_withheld_groups_are_not_told() -> None:
    rng = np.random.default_rng(2)
    group = np.repeat(["a", "b", "c", "d"], [400, 300, 200, 40])
    score = rng.random(group.size).round(3)
    table = {"g": group, "s": score, "y": rng.random(group.size) < score}
    result = iso.equalize_thresholds(
        table, outcome="y", score="s", groups="g", threshold=0.5, target="tpr", method=FEW, rng=0
    )
    summary = result.published(60).summary()
    assert "nan" not in summary
    assert "g=d" in result.summary()
    assert "g=d" not in summary


def duck(columns: dict[str, Any]) -> Any:
    return pytest.importorskip("duckdb").connect().from_arrow(pl.DataFrame(columns).to_arrow())


@pytest.mark.parametrize(
    ("engine", "value"),
    [*product([dict, pl.LazyFrame], [np.inf, -np.inf, np.nan]), (pd.DataFrame, np.nan), (duck, -np.inf)],
)
def test_infinite_scores_are_missing(engine: Any, value: float) -> None:
    data, ask = rated(rising, n=1_000), AT_HALF | {"method": FEW}
    keep = np.arange(2_000) % 10 > 0
    expected = equalize_thresholds({k: v[keep] for k, v in data.items()}, **ask)
    found = equalize_thresholds(engine(data | {"s": np.where(keep, data["s"], value)}), **ask, missing="drop")
    np.testing.assert_allclose(found.thresholds, expected.thresholds, rtol=1e-9)
    np.testing.assert_allclose(found.rate_after, expected.rate_after, rtol=1e-9)
    assert found.size.tolist() == expected.size.tolist()
    assert found.provenance.dropped == {"s": 200}


# ---- thresholds in force


def test_thresholds_in_force_are_the_test_at_shifted_scores() -> None:
    """Each group's outcomes at its own threshold, as if its scores were distances from it."""
    data = margins(4_000, power=1.5)
    roles: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "user": "m"}
    in_force = {"a": 0.4, "b": 0.55}
    shifted = data | {"s": data["s"] - np.where(data["g"] == "a", 0.4, 0.55)}
    found, by_hand = (
        marginal_outcomes(columns, threshold=t, **roles) for columns, t in ((data, in_force), (shifted, 0.0))
    )
    for name in ("estimate", "reference", "disparity", "se", "pvalues"):
        np.testing.assert_array_equal(getattr(found, name), getattr(by_hand, name))
    assert found.threshold == {"g=a": 0.4, "g=b": 0.55}
    assert "0.400 for g=a and 0.550 for g=b" in found.null


@pytest.mark.parametrize("target", ["tpr", "outcome_at_margin"])
def test_moving_thresholds_again_arrives_where_one_threshold_does(target: Any) -> None:
    """With the share selected kept, the equal thresholds do not depend on those before."""
    data = margins(20_000, power=1.5)
    roles = {"outcome": "y", "score": "s", "groups": "g", "target": target, "rng": 0, "method": FEW}
    again = equalize_thresholds(data, threshold={"a": 0.4, "b": 0.45}, **roles)
    once = equalize_thresholds(data, threshold=0.4, capacity=again.overall_before, **roles)
    np.testing.assert_allclose(again.thresholds, once.thresholds, atol=0.001 if target == "tpr" else 0.03)
    assert again.verdict is iso.Verdict.VIOLATION
    np.testing.assert_array_equal(again.to_frame()["reference"], [0.4, 0.45])
    assert np.all(again.thresholds_low <= again.thresholds)
    assert np.all(again.thresholds <= again.thresholds_high)
    selected = data["s"] >= np.where(data["g"] == "a", 0.4, 0.45)
    np.testing.assert_allclose(again.rate_before, [selected[data["g"] == g].mean() for g in ("a", "b")])
    again.plot()
    assert "threshold moves from 0.4" in again.summary()


def test_groups_that_were_not_shown_to_differ_move_together() -> None:
    data = margins(5_000)
    result = equalize_thresholds(data, **(AT_HALF | {"threshold": {"a": 0.5, "b": 0.5}}), capacity=0.3, rng=0)
    steps = result.thresholds - result.present
    assert steps[0] == pytest.approx(steps[1])


def test_all_combinations_of_several_columns_get_a_threshold() -> None:
    data = margins(8_000, power=1.5)
    data["h"] = np.where(np.arange(16_000) % 2 == 0, "m", "f")
    both = equalize_thresholds(data, **(AT_HALF | {"groups": ["g", "h"]}), target="tpr", rng=0, method=FEW)
    joined = {**data, "gh": np.char.add(data["g"], data["h"])}
    one = equalize_thresholds(joined, **(AT_HALF | {"groups": "gh"}), target="tpr", rng=0, method=FEW)
    np.testing.assert_array_equal(both.thresholds, one.thresholds)
    assert both.labels == tuple(f"g={g} & h={h}" for g in "ab" for h in "fm")


def test_thresholds_in_force_name_every_group() -> None:
    data = margins(500)
    with pytest.raises(UsageError, match=r"threshold: no threshold for b; .* each of the groups: a, b"):
        equalize_thresholds(data, **(AT_HALF | {"threshold": {"a": 0.4}}))
    with pytest.raises(UsageError, match="threshold: there is no group 'c'"):
        marginal_outcomes(data, **(AT_HALF | {"threshold": {"a": 0.4, "b": 0.5, "c": 0.6}}))
