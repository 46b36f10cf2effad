"""What results say about themselves, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import false_discovery_control

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.groups.likelihood.disparity import Against
from isonomy.results import Status
from support.tables import several

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}


def test_columns_and_their_order(lender: dict[str, Any]) -> None:
    frame = iso.flag(lender, **RATE).to_frame()
    assert frame.columns == [
        *("group", "size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "statistic"),
        *("pvalue", "adjusted_pvalue", "verdict", "direction", "status", "detectable"),
    ]
    assert iso.flag(lender, **RATE, tolerance=0.1).to_frame().columns[-2:] == ["detectable", "rows_needed"]


def test_round_trip_suppression_and_plot(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, **{**RATE, "groups": ["race", "sex"], "depth": 2}, tolerance=0.02)
    again = iso.from_json(result.to_json())
    assert again.to_frame().equals(result.to_frame())
    assert again.summary() == result.summary()
    hidden = result.suppressed(80)
    small = result.n < 80
    assert small.any()
    assert np.isnan(hidden.estimate[small]).all()
    assert {hidden.status[i] for i in np.flatnonzero(small)} == {Status.SUPPRESSED}
    withheld = np.isnan(hidden.estimate)  # and groups that would give a small one away
    assert withheld[small].all()
    assert np.array_equal(hidden.estimate[~withheld], result.estimate[~withheld])
    chart = result.plot().to_dict()
    assert chart["layer"]


def test_a_detectable_disparity_lies_beyond_the_tolerance() -> None:
    """At the detectable disparity the estimate exceeds the critical one with the power asked for."""
    rng = np.random.default_rng(0)
    data = {"g": np.repeat(["a", "b"], [1_000, 2_000]), "c": rng.normal(size=3_000)}
    options: dict[str, Any] = {"metric": "mean_prediction", "groups": "g", "prediction": "c", "reference": {"g": "b"}}
    plain, wide = (iso.flag(data, tolerance=t, **options) for t in (None, 0.15))
    se = float(plain.standard_error[0])
    assert plain.detectable(0.8)[0] == pytest.approx((1.959964 + 0.841621) * se, rel=1e-6)
    # A tolerance of three standard errors: the far end does not matter, and the level is one-sided.
    assert wide.detectable(0.8)[0] == pytest.approx(0.15 + (1.644854 + 0.841621) * se, rel=1e-3)
    variance = float(np.var(data["c"][:1_000])), float(np.var(data["c"][1_000:]))
    needed = iso.rows_needed(
        0.0, reference="group", ratio=2.0, variance=variance[0], reference_variance=variance[1], tolerance=0.15
    )
    assert wide.rows_for_tolerance()[0] == pytest.approx(needed, abs=1)
    assert wide.to_frame()["rows_needed"][0] == wide.rows_for_tolerance()[0]
    with pytest.raises(UsageError, match="rows_for_tolerance: there is no tolerance"):
        plain.rows_for_tolerance()


@pytest.mark.parametrize("alternative", ["two-sided", "less"])
@pytest.mark.parametrize(("rows", "others", "rate"), [(400, 1_600, 0.05), (100, 100, 0.5), (100, 900, 0.8)])
@pytest.mark.parametrize(("scale", "tolerance"), [("difference", None), ("ratio", None), ("ratio", 0.9)])
def test_a_detectable_difference_of_rates_is_found_four_times_in_five(
    scale: Any, tolerance: float | None, rows: int, others: int, rate: float, alternative: Any
) -> None:
    """A group that differs has another variance: by the error as observed a ratio was found 56 times in 100."""
    cases = [int(rows * rate), int(others * rate)]
    data = {
        "g": np.repeat(["a", "b"], [rows, others]),
        "p": np.concatenate([np.arange(n) < k for n, k in zip((rows, others), cases, strict=True)]).astype(int),
    }
    options: dict[str, Any] = {"scale": scale, "tolerance": tolerance, "alternative": alternative}
    smallest = float(iso.flag(data, **RATE_P, reference={"g": "b"}, **options).detectable()[0])
    if scale == "difference" and alternative == "two-sided" and rate > 0.5:
        smallest = -smallest  # the larger difference is that below
    plan: dict[str, Any] = {"n": rows, "reference": "group", "reference_n": others, "rate": rate, **options}
    assert iso.power_of(smallest, **plan) == pytest.approx(0.8, abs=0.04)


def test_a_group_that_differs_needs_the_rows_of_one_that_does_not() -> None:
    data = {"g": np.repeat(["a", "b"], [500, 2_000]), "p": np.r_[np.arange(500) < 50, np.arange(2_000) < 600]}
    result = iso.flag(data, **RATE_P, reference={"g": "b"}, tolerance=0.05)
    needed = iso.rows_needed(0.0, reference="group", ratio=4.0, rate=0.3, tolerance=0.05)
    assert result.rows_for_tolerance()[0] == pytest.approx(needed, rel=0.02)


def test_few_clusters_show_less() -> None:
    rng = np.random.default_rng(1)
    people = {"g": np.repeat(["a", "b"], [300, 3_000]), "c": np.r_[np.arange(300) // 20, 100 + np.arange(3_000) // 20]}
    data = {**people, "p": rng.normal(size=3_300)}
    options: dict[str, Any] = {"metric": "mean_prediction", "groups": "g", "prediction": "p", "reference": {"g": "b"}}
    result = iso.flag(data, **options, cluster="c", tolerance=0.5)
    error = float(result.standard_error[0])
    beyond = (result.detectable()[0] - 0.5) / error
    assert beyond > 1.08 * (1.644854 + 0.841621)  # fifteen clusters, Student's law
    large = result.rows_for_tolerance()[0] / (300 * ((1.959964 + 1.281552) * error / 0.5) ** 2)
    assert large > 1.08


@pytest.mark.parametrize("scale", ["difference", "ratio"])
def test_a_group_without_a_case_could_not_have_shown_nothing(scale: Any) -> None:
    data = {"g": np.repeat(["a", "b"], [50, 1_000]), "p": np.r_[np.zeros(50), np.tile([1, 0, 0, 0], 250)]}
    result = iso.flag(data, **RATE_P, reference={"g": "b"}, scale=scale, tolerance=0.8 if scale == "ratio" else 0.05)
    smallest = result.detectable()[0]
    assert 0.2 < smallest < 0.25 if scale == "difference" else 0 < smallest < 0.5
    assert result.rows_for_tolerance()[0] > 500


@pytest.mark.parametrize(("side", "words"), [("greater", "not to exceed"), ("less", "not to fall below")])
def test_a_tolerance_with_one_side_is_told_as_such(side: Against, words: str) -> None:
    data = {"g": np.repeat(["a", "b"], 4_000), "c": np.tile([0, 1], 4_000)}
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c"}
    result = iso.flag(data, alternative=side, tolerance=0.05, **options)
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert words in result.headline()
    assert words in result.summary()


BOTH: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}


def test_several_metrics_are_those_of_single_calls_adjusted_together() -> None:
    table = several()
    result = iso.flag(table, metric="equalized_odds", **BOTH)
    singles = [iso.flag(table, metric=metric, **BOTH) for metric in ("tpr", "fpr")]
    assert result.to_frame()["metric"].to_list() == ["tpr"] * 3 + ["fpr"] * 3
    for name in ("estimate", "disparity", "ci_low", "ci_high", "pvalue", "n"):
        assert getattr(result, name) == pytest.approx(np.concatenate([getattr(one, name) for one in singles]))
    assert result.adjusted_pvalue == pytest.approx(false_discovery_control(result.pvalue))
    again = iso.from_json(result.to_json())
    assert again.metrics == result.metrics
    assert again.widest() == result.widest()
    assert "metric" not in singles[0].to_frame().columns


def test_the_direction_follows_what_is_better() -> None:
    result = iso.flag(several(), metric=["tpr", "fpr"], **BOTH)
    word = dict(zip(zip(result.metrics, result.labels, strict=True), result.direction, strict=True))
    assert (word["tpr", "g=a"], word["fpr", "g=a"]) == ("disfavoured", "favoured")
    turned = iso.flag(several(), metric="tpr", **BOTH, better="lower")
    assert turned.direction[0] == "favoured"
    assert iso.flag(several(), metric="tpr", **BOTH, tolerance=0.5).direction == ("", "", "")


def test_metrics_with_other_rows_missing_keep_their_own() -> None:
    """Outcomes are known of the selected only: their selection rate is that of everybody all the same."""
    table = several()
    table["y"] = np.where(table["p"] == 1, table["y"].astype(float), np.nan)
    result = iso.flag(table, metric=["selection_rate", "ppv"], **BOTH, missing="drop")
    alone = iso.flag(table, metric="selection_rate", prediction="p", groups="g")
    assert result.estimate[:3] == pytest.approx(alone.estimate)


def test_the_widest_gap_is_that_of_the_pairs() -> None:
    table = several()
    scales: list[Any] = ["difference", "ratio"]
    for scale in scales:
        wide = iso.flag(table, metric=["tpr", "fpr"], **BOTH, scale=scale).widest()
        pair = iso.flag(table, metric=wide.metric, **BOTH, scale=scale, reference={"g": wide.groups[1][2:]})
        at = pair.labels.index(wide.groups[0])
        assert wide.value == pytest.approx(abs(pair.disparity[at]))
        assert wide.ci_low < wide.value < wide.ci_high
    small = iso.flag({"p": [1, 0] * 30, "g": ["a"] * 60}, metric="selection_rate", prediction="p", groups="g")
    with pytest.raises(UsageError, match="widest"):
        small.widest()


def test_every_group_is_in_the_findings_worst_first() -> None:
    rng = np.random.default_rng(0)
    group = np.arange(24_000) % 12
    data = {"g": [f"g{i:02}" for i in group], "p": (rng.random(24_000) < 0.2 + 0.05 * group).astype(int)}
    result = iso.flag(data, metric="selection_rate", prediction="p", groups="g")
    told = [text.split(":")[0] for text in result.findings() if text.startswith("g=")]
    assert set(told) == set(result.labels)
    assert told[0] == "g=g00"
    impact = iso.adverse_impact(data, prediction="p", groups="g")
    told = [text.split(":")[0] for text in impact.findings() if text.startswith("g=")]
    assert told == [f"g=g{i:02}" for i in range(11)]  # all but the one selected most often
