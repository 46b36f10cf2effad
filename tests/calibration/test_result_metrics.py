"""Measures of calibration as they are returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from isonomy.calibration import (
    calibration_metrics,
)
from isonomy.errors import (
    UnknownColumn,
    UnknownOption,
)
from support.tables import measured

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def test_unknown_columns_and_libraries() -> None:
    with pytest.raises(UnknownColumn, match="score"):
        calibration_metrics(measured(100), outcome="y", score={"before": "nope"}, groups="g")
    found = calibration_metrics(pd.DataFrame(measured(500)), **ROLES)
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert isinstance(found.to_frame("polars"), pl.DataFrame)
    with pytest.raises(UnknownOption, match="backend"):
        found.to_frame("nonsense")


def test_metrics_say_what_was_read() -> None:
    data = measured(500)
    data["s"] = np.where(np.arange(data["s"].size) < 3, np.nan, data["s"])
    found = calibration_metrics(data, outcome="y", score="s", groups="g", missing="drop")
    assert found.dropped == {"s": 3}
    assert found.size[0] == found.size[1:].sum() == data["s"].size - 3
    assert not found.auc.flags.writeable
    real = calibration_metrics(data | {"y": data["y"] * 2.5}, outcome="y", score="s", groups="g", missing="drop")
    assert np.isnan(real.auc).all()
