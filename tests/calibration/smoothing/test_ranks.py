"""Exact ranks, and bins that no stray score moves."""

from __future__ import annotations

from typing import Any

import pytest

from isonomy.calibration import (
    calibration_metrics,
)
from support.tables import measured

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def test_one_stray_score_counts_as_one_row() -> None:
    data = measured()
    data["s"][0] = 1.001
    before = calibration_metrics(data, **ROLES).ece[0]
    data["s"][0] = 100.0
    # The row's own gap over the number of rows, and no more.
    assert calibration_metrics(data, **ROLES).ece[0] == pytest.approx(100 / 4_000, abs=before + 0.001)
