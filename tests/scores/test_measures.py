"""Measures of calibration: exact ranks of scores on every engine, what was read, and why numbers are not known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.metrics import roc_auc_score

from isonomy.errors import UnknownColumn, UnknownOption, UsageError
from isonomy.frames import open_source
from isonomy.results.questions import QUESTIONS
from isonomy.scores import calibration_metrics
from support.tables import measured, scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
SCORES: dict[str, Any] = {
    "all near 0.001": lambda s: 0.001 + 1e-5 * s,
    "one at 1e6": lambda s: np.where(np.arange(s.size) == 5, 1e6, s),
    "tied": lambda s: np.round(s, 1),
    "below zero": lambda s: -np.exp(5 * s),
}


def by_hand(s: Any, y: Any, w: Any, unit: bool) -> float:
    """ECE row by row, over tenths of [0, 1], or of the votes in order of the score, equal scores together."""
    order = np.argsort(s, kind="stable")
    s, y, w = s[order], y[order], w[order]
    below = np.array([w[s < value].sum() for value in np.unique(s)])[np.unique(s, return_inverse=True)[1]]
    place = np.minimum(np.floor(10 * (s if unit else below / w.sum() + 1e-9)), 9)
    return float(sum(abs((w * (y - s))[place == k].sum()) for k in range(10)) / w.sum())


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("user", [None, "m"])
def test_auc_and_ece_are_exact(scores: str, user: str | None) -> None:
    data = measured()
    data["s"] = SCORES[scores](data["s"])
    weight = np.ones(4_000) if user is None else 1 / np.bincount(data["m"])[data["m"]]
    found = calibration_metrics(data, **ROLES, user=user)
    for line, mine in enumerate([np.full(4_000, True), data["g"] == "a", data["g"] == "b"]):
        y, s, w = data["y"][mine], data["s"][mine], weight[mine]
        assert found.auc[line] == pytest.approx(roc_auc_score(y, s, sample_weight=w), rel=1e-9)
        assert found.ece[line] == pytest.approx(by_hand(s, y, w, scores in ("all near 0.001", "tied")), rel=1e-9)


def test_clusters_change_errors_and_no_measure() -> None:
    data = measured()
    plain, clustered = calibration_metrics(data, **ROLES), calibration_metrics(data, **ROLES, cluster="m")
    for name in ("calibration_error", "parity_error", "ece", "auc"):
        np.testing.assert_allclose(getattr(clustered, name), getattr(plain, name), rtol=1e-12)
        assert not np.allclose(getattr(clustered, f"{name}_se"), getattr(plain, f"{name}_se"), rtol=1e-3)


@pytest.mark.parametrize("scores", SCORES)
def test_they_are_exact_in_an_engine(scores: str, monkeypatch: pytest.MonkeyPatch) -> None:
    duckdb = pytest.importorskip("duckdb")
    monkeypatch.setattr("isonomy.scores.read.HELD", 2_000)
    data = measured()
    data["s"] = SCORES[scores](data["s"])
    frame = pl.DataFrame(data)
    expected = calibration_metrics(frame, **ROLES, user="m")
    engines = [frame.lazy()]
    if scores == "tied":  # an engine beyond polars is asked the same passes
        engines.append(duckdb.connect().from_arrow(frame.to_arrow()))
    for engine in engines:
        found = calibration_metrics(engine, **ROLES, user="m")
        np.testing.assert_allclose(found.auc, expected.auc, rtol=1e-9)
        np.testing.assert_allclose(found.ece, expected.ece, rtol=1e-9)


def test_unknown_columns_and_libraries() -> None:
    with pytest.raises(UnknownColumn, match="score"):
        calibration_metrics(measured(100), outcome="y", score={"before": "nope"}, groups="g")
    found = calibration_metrics(pd.DataFrame(measured(500)), **ROLES)
    assert isinstance(found.to_frame(), pd.DataFrame)
    assert isinstance(found.to_frame("polars"), pl.DataFrame)
    with pytest.raises(UnknownOption, match="backend"):
        found.to_frame("nonsense")


@pytest.mark.parametrize("score", [[], {}, 5, None, [5], {1: "s"}])
def test_scores_are_columns(score: Any) -> None:
    with pytest.raises(UsageError, match=r"^score:"):
        calibration_metrics(measured(100), outcome="y", score=score, groups="g")


def test_every_score_has_a_pass() -> None:
    plan = QUESTIONS["calibration_metrics"].planned(
        open_source(pl.LazyFrame(scored(100))), ROLES | {"score": {"a": "s", "b": "y"}}
    )
    assert len(plan.requests) == 2


def test_metrics_say_what_was_read() -> None:
    data = measured(500)
    data["s"] = np.where(np.arange(data["s"].size) < 3, np.nan, data["s"])
    found = calibration_metrics(data, **ROLES, missing="drop")
    assert found.provenance.dropped == {"s": 3}
    assert found.size[0] == found.size[1:].sum() == data["s"].size - 3
    assert not found.auc.flags.writeable
    assert "CalibrationMetrics of s: 3 rows" in repr(found)


def test_what_is_not_known_has_a_reason() -> None:
    data = measured()
    assert calibration_metrics(data, **ROLES).warnings == ()
    apart = data | {"s": np.where(data["g"] == "a", 0.001, 0.998) + 0.001 * data["s"]}
    found = calibration_metrics(apart, **ROLES)
    assert np.isnan(found.parity_error).all()
    assert "g=a" in found.warnings[0]
    assert "grid" in found.warnings[0]
    assert np.isfinite(found.auc).all()
    one = calibration_metrics(data | {"y": np.where(data["g"] == "a", 1, data["y"])}, **ROLES)
    assert np.isnan(one.auc[1])
    assert "only one occurs in g=a" in one.warnings[0]
    real = calibration_metrics(data | {"y": data["y"] * 2.5}, **ROLES)
    assert np.isnan(real.auc).all()
    assert "0 and 1" in real.warnings[0]
