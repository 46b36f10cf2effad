"""Composite parity through the public call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.errors import UsageError
from isonomy.scores import composite_parity
from support.tables import two_scores

ROLES: dict[str, Any] = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g", "resamples": 300, "rng": 1}


def test_the_score_that_differs_has_the_worst_weight() -> None:
    result = composite_parity(two_scores(slope=0.7), **ROLES)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.worst_weights[0, 1] >= 0.5
    frame = result.to_frame()
    assert len(frame) == 11
    np.testing.assert_allclose(frame["weight a"] + frame["weight b"], 1.0)
    assert "The difference is clearest with weights of" in " ".join(result.summary().split())
    result.plot()
    again = iso.from_json(result.to_json())
    np.testing.assert_array_equal(again.to_frame()["pvalue"], frame["pvalue"])


def test_users_decide_the_variance() -> None:
    data = two_scores(500)
    twice = {name: np.repeat(values, 3) for name, values in data.items()} | {"m": np.repeat(np.arange(1_000), 3)}
    once, same = composite_parity(data, **ROLES), composite_parity(twice, **ROLES, user="m")
    np.testing.assert_allclose(same.disparity, once.disparity, rtol=1e-6)
    np.testing.assert_allclose(same.pvalues, once.pvalues, atol=0.02)


def test_rows_without_a_user_are_no_rows() -> None:
    """They shape neither the axis of scores nor the vote of the first user, and are counted by what they stand for."""
    data: dict[str, Any] = two_scores(400)
    rows = data["g"].size
    who = (np.arange(rows) // 2).astype(float)
    who[::7] = np.nan
    data |= {"m": who, "n": 1 + np.arange(rows) % 3}
    data["a"][::7] += 5.0
    kept = {name: values[~np.isnan(who)] for name, values in data.items()}
    for count in (None, "n"):
        options: dict[str, Any] = {**ROLES, "user": "m", "level": "user", "count": count}
        whole, part = composite_parity(data, **options, missing="drop"), composite_parity(kept, **options)
        np.testing.assert_allclose(whole.disparity, part.disparity, rtol=1e-12)
        assert whole.provenance.rows == part.provenance.rows
        lines = np.isnan(who) if count is None else data["n"] * np.isnan(who)
        assert whole.provenance.dropped == {"m": lines.sum()}


def test_many_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isonomy.scores.composites.MOST_ROWS", 100)
    with pytest.raises(UsageError, match="data: 200 rows; composite scores are compared on at most 100"):
        composite_parity(two_scores(100), **ROLES)
