"""Results: JSON, tables, wording, suppression, charts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.calibration import equalize_thresholds, marginal_outcomes, predictive_parity
from isonomy.results import storage, theme

ROLES = {"outcome": "y", "score": "s", "groups": "g"}


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    g = np.repeat(["<b>a</b>", "b"], [2_500, 1_500])
    s = rng.beta(2, 2, 4_000)
    return {"s": s, "g": g, "y": (rng.random(4_000) < np.where(g == "b", 0.7 * s, s)).astype(int)}


@pytest.fixture(scope="module")
def results(columns: dict[str, Any]) -> list[Any]:
    return [
        predictive_parity(columns, **ROLES, rng=1),
        marginal_outcomes(columns, **ROLES, threshold=0.5),
        equalize_thresholds(columns, **ROLES, threshold=0.5),
    ]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return a == b or (a != a and b != b)


def test_json_brings_a_result_back(results: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for result in results:
        monkeypatch.setitem(storage._STORABLE, type(result).__name__, type(result))
        again = storage.from_json(result.to_json())
        assert type(again) is type(result)
        for name, column in result.table().items():
            mine, other = np.asarray(column), np.asarray(again.table()[name])
            assert all(same(a, b) for a, b in zip(mine, other, strict=True)), name
        assert again.summary() == result.summary()


def test_sentences_are_careful(results: list[Any]) -> None:
    for result in results:
        text = " ".join([result.summary(), *(" ".join(pair) for pair in result.assumptions())]).lower()
        assert result.findings()
        assert result.limits()
        assert "nan" not in text.split()
        for word in ("unbiased", "is fair", "are fair", "fixed"):
            assert word not in text


def test_charts_have_their_data_inside(results: list[Any]) -> None:
    for result in results:
        specification = theme.specification(result.plot())
        assert "datasets" in specification or "data" in str(specification)
        assert theme.to_svg(result.plot()).startswith("<svg")
    assert "svg" in theme.to_svg(results[0].plot(beside=results[0], names=("user level", "aggregate")))


def test_small_groups_are_withheld(results: list[Any]) -> None:
    parity, marginal, thresholds = (result.suppressed(2_000) for result in results)
    assert np.all(np.isnan(parity.families[0].curve[1]))
    assert set(parity.to_frame()["status"]) == {"suppressed"}
    assert np.isnan(marginal.to_frame()["difference"][0])
    assert np.isnan(thresholds.thresholds[1])
    assert not np.isnan(thresholds.thresholds[0])
    for result in (parity, marginal, thresholds):
        assert result.summary()
        assert result.plot()


def test_arrays_are_read_only(results: list[Any]) -> None:
    with pytest.raises(ValueError, match="read-only"):
        results[0].families[0].curve[0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        results[2].thresholds[0] = 1.0
