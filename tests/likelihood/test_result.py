"""What results say about themselves, and what they keep."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.likelihood.ratio.disparity import Against
from isonomy.results import Status

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}


def test_columns_and_their_order(lender: dict[str, Any]) -> None:
    frame = iso.flag(lender, **RATE).to_frame()
    assert frame.columns == [
        *("group", "size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "statistic"),
        *("pvalue", "adjusted_pvalue", "verdict", "status"),
    ]


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
    assert np.array_equal(hidden.estimate[~small], result.estimate[~small])
    chart = result.plot().to_dict()
    assert chart["layer"]


def test_a_detectable_disparity_lies_beyond_the_tolerance() -> None:
    """At the detectable disparity the estimate exceeds the critical one with the power asked for."""
    rng = np.random.default_rng(0)
    g = np.repeat(["a", "b"], [1_000, 2_000])
    data = {"g": g, "c": (rng.random(3_000) < 0.3).astype(int)}
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c", "reference": {"g": "b"}}
    plain, wide = (iso.flag(data, tolerance=t, **options) for t in (None, 0.05))
    se = float(plain.standard_error[0])
    assert plain.detectable(0.8)[0] == pytest.approx((1.959964 + 0.841621) * se, rel=1e-6)
    # A tolerance of three standard errors: the far end does not matter, and the level is one-sided.
    assert wide.detectable(0.8)[0] == pytest.approx(0.05 + (1.644854 + 0.841621) * se, rel=1e-3)


@pytest.mark.parametrize(("side", "words"), [("greater", "not to exceed"), ("less", "not to fall below")])
def test_a_tolerance_with_one_side_is_told_as_such(side: Against, words: str) -> None:
    data = {"g": np.repeat(["a", "b"], 4_000), "c": np.tile([0, 1], 4_000)}
    options: dict[str, Any] = {"metric": "selection_rate", "groups": "g", "prediction": "c"}
    result = iso.flag(data, alternative=side, tolerance=0.05, **options)
    assert result.verdict is iso.Verdict.WITHIN_TOLERANCE
    assert words in result.headline()
    assert words in result.summary()


def test_why_the_rows_behind_a_result_are_gone() -> None:
    result = iso.certify(THREE, **RATE_P)
    for copy in (result.suppressed(5), iso.from_json(result.to_json())):
        assert copy.region is None
        with pytest.raises(UsageError, match=r"keep the result in memory, or store it with to_json\(rows=True\)"):
            copy.contains(0.0)
    with pytest.raises(UsageError, match="withheld"):
        result.suppressed(50).contains(0.0)


def test_no_row_is_stored_unless_asked_for(lender: dict[str, Any]) -> None:
    data = lender | {"loss": lender["loss"] + 0.123456789}
    result = iso.certify(data, metric=iso.Metric("loss", value=iso.col("loss")), groups="race")
    assert result.region is not None
    without: Any = result.to_dict()["result"]
    whole: Any = result.to_dict(rows=True)["result"]
    assert without["region"] is None
    assert whole["region"]["lines"]["value"]["shape"] == [600]
    assert len(result.to_json()) < 6_000
    assert result.suppressed(1).region is None


def test_a_round_trip_keeps_the_region_on_request(lender: dict[str, Any]) -> None:
    loss: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": ["race", "sex"]}
    for options in (RATE, loss):
        result = iso.certify(lender, **options)
        again = iso.from_json(result.to_json(rows=True))
        for disparity in (0.01, 0.2):
            assert again.contains(disparity) == result.contains(disparity)
        assert again.to_frame().equals(result.to_frame())
        assert result.plot().to_dict()["layer"]


def test_a_tolerance_decides_and_not_the_joint_p_value(lender: dict[str, Any]) -> None:
    summary = iso.certify(lender, **RATE, tolerance=0.2).summary()
    assert "rests on the tolerance" in summary
