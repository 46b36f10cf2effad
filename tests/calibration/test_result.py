"""Results: JSON, tables, suppression, measures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.report import Document, Entry, html
from isonomy.results import storage
from support.same import same


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


def test_every_group_is_in_the_findings() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(8_000)
    data = {"s": score, "g": np.arange(8_000) % 5, "y": rng.random(8_000) < score}
    pairs = {frozenset((f"g={i}", f"g={j}")) for i in range(5) for j in range(i)}
    roles: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}
    parity = iso.predictive_parity(data, **roles, rng=0, resamples=200)
    marginal = iso.marginal_outcomes(data, **roles, threshold=0.5)
    for result in (parity, marginal):
        told = [text.split(":")[0] for text in result.findings()]
        assert {frozenset(text.split(" against ")) for text in told if " against " in text} == pairs
    thresholds = iso.equalize_thresholds(data, **roles, threshold=0.5, target="tpr", rng=0, resamples=100)
    assert all(any(text.startswith(f"g={i}: threshold") for text in thresholds.findings()) for i in range(5))


def test_groups_that_no_score_compares_are_not_counted() -> None:
    rng = np.random.default_rng(0)
    size = [1_500, 1_500, 4]
    s = rng.random(sum(size))
    data = {"s": s, "g": np.repeat(["a", "b", "few"], size), "y": (rng.random(s.size) < s).astype(int)}
    first = iso.predictive_parity(data, outcome="y", score="s", groups="g", rng=0).findings()[0]
    assert "2 groups compared" in first


def test_a_difference_is_said_not_to_be_that_of_the_two_estimates(results: list[Any]) -> None:
    parity, marginal, thresholds = results
    frame = parity.to_frame()
    assert abs(frame["difference"] - (frame["estimate"] - frame["reference_estimate"])).max() > 1e-6
    for result in (parity, marginal):
        page = html(Document(title="", entries=(Entry(name="a", kind="predictive_parity", result=result),)))
        assert page.count("is not exactly the estimate less that of the reference") == 1
    assert thresholds.table_note() == ""
    assert replace(parity, test="nadaraya-watson").table_note() == ""  # there it is the difference of the two


def test_clusters_are_among_the_assumptions() -> None:
    rng = np.random.default_rng(0)
    score = rng.random(3_000)
    table = {"s": score, "g": np.arange(3_000) % 2, "y": rng.random(3_000) < score, "h": np.arange(3_000) // 3}
    asked: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g", "rng": 0}
    clustered = iso.predictive_parity(table, cluster="h", **asked).assumptions()[0]
    assert clustered[0].startswith("Rows with the same 'h' belong together")
    assert "name it as the user" in iso.predictive_parity(table, **asked).assumptions()[0][1]
