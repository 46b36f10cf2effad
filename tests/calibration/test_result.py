"""Results: JSON, tables, suppression, measures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isonomy as iso
from isonomy.calibration import (
    calibration_metrics,
)
from isonomy.errors import (
    UnknownColumn,
    UnknownOption,
)
from isonomy.results import storage
from support.same import same
from support.tables import measured

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


def test_json_brings_a_result_back(results: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for result in results:
        monkeypatch.setitem(storage._STORABLE, type(result).__name__, type(result))
        again = storage.from_json(result.to_json())
        assert type(again) is type(result)
        for name, column in result.table().items():
            same({name: np.asarray(again.table()[name])}, {name: np.asarray(column)}, rel=0, abs=0)
        assert again.summary() == result.summary()


def test_small_groups_are_withheld(results: list[Any]) -> None:
    parity, marginal, thresholds = (result.suppressed(2_000) for result in results)
    assert np.all(np.isnan(parity.families[0].curve[1]))
    assert set(parity.to_frame()["status"]) == {"suppressed"}
    assert np.isnan(marginal.to_frame()["difference"][0])
    assert np.all(np.isnan(thresholds.thresholds))  # of two groups, one would give the other away
    for result in (parity, marginal, thresholds):
        assert result.summary()
        assert result.plot()


def test_arrays_are_read_only(results: list[Any]) -> None:
    with pytest.raises(ValueError, match="read-only"):
        results[0].families[0].curve[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        results[2].thresholds[0] = 1.0


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


def test_thresholds_of_withheld_groups_are_not_told() -> None:
    rng = np.random.default_rng(2)
    group = np.repeat(["a", "b", "c", "d"], [400, 300, 200, 40])
    score = rng.random(group.size).round(3)
    table = {"g": group, "s": score, "y": rng.random(group.size) < score}
    result = iso.equalize_thresholds(
        table, outcome="y", score="s", groups="g", threshold=0.5, target="tpr", resamples=100, rng=0
    )
    summary = result.published(60).summary()
    assert "nan" not in summary
    assert "g=d" in result.summary()
    assert "g=d" not in summary
