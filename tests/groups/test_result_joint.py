"""One joint test: its region, its rows, several metrics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import isonomy as iso
from isonomy.errors import UsageError
from support.tables import several

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
THREE = {"p": np.tile([1, 0, 0], 60), "g": np.repeat(["a", "b", "c"], [80, 80, 20])}
BOTH: dict[str, Any] = {"outcome": "y", "prediction": "p", "groups": "g"}


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


def test_certifying_several_metrics_adds_what_is_independent() -> None:
    table = several()
    both = iso.certify(table, metric="equalized_odds", **BOTH)
    alone = [iso.certify(table, metric=metric, **BOTH) for metric in ("tpr", "fpr")]
    assert both.statistic == pytest.approx(sum(one.statistic for one in alone))
    assert both.pvalue == pytest.approx(chi2.sf(both.statistic, 4))  # no row counts for both
    assert both.contains(both.disparity)
    assert not both.contains(0.0)
    # The same metric twice over, but for its sign: one chi-square of 2 df counted twice.
    twice = iso.certify(table, metric=["tpr", "fnr"], **BOTH)
    assert twice.pvalue == pytest.approx(chi2.sf(alone[0].statistic, 2), rel=1e-6)
