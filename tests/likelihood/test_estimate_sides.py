"""What groups are set beside, and which can be tested."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from isonomy.results import Status

RATE: dict[str, Any] = {"metric": "selection_rate", "groups": "race", "prediction": "selected"}
RATE_P: dict[str, Any] = {"metric": "selection_rate", "prediction": "p", "groups": "g"}
M = iso.Metric("m", iso.col("x"))
VALUE: dict[str, Any] = {"metric": M, "groups": "g"}
# One group that varies beside 30 equal rows; and two of them.
ONE = {"x": np.r_[np.linspace(-1, 1, 30), np.full(30, 0.25)], "g": ["a"] * 30 + ["b"] * 30}
TWO = {
    "x": np.r_[np.linspace(-1, 1, 30), np.linspace(-1.1, 1.5, 40), np.full(30, 0.1)],
    "g": ["a"] * 30 + ["b"] * 40 + ["c"] * 30,
}
LOSS: dict[str, Any] = {"metric": iso.Metric("loss", value=iso.col("loss")), "groups": "race"}


def test_the_reference_level_itself_is_not_tested(lender: dict[str, Any]) -> None:
    result = iso.flag(lender, reference={"race": "b"}, **RATE)
    assert result.status == (Status.OK, Status.REFERENCE, Status.OK)
    assert np.isnan(result.pvalue[1])
    assert result.disparity[1] == 0
