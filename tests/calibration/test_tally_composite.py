"""The moments of composite scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.calibration import composite_parity
from support.tables import two_scores

ROLES: dict[str, Any] = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g", "resamples": 300}


def test_users_decide_the_variance() -> None:
    data = two_scores(500)
    twice = {name: np.repeat(values, 3) for name, values in data.items()} | {"m": np.repeat(np.arange(1_000), 3)}
    once = composite_parity(data, **ROLES, rng=1)
    same = composite_parity(twice, **ROLES, user="m", rng=1)
    np.testing.assert_allclose(same.difference, once.difference, rtol=1e-6)
    np.testing.assert_allclose(same.pvalue_at, once.pvalue_at, atol=0.02)


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
        options: dict[str, Any] = {**ROLES, "user": "m", "level": "user", "count": count, "rng": 1}
        whole, part = composite_parity(data, **options, missing="drop"), composite_parity(kept, **options)
        np.testing.assert_allclose(whole.difference, part.difference, rtol=1e-12)
        assert whole.provenance.rows == part.provenance.rows
        lines = np.isnan(who) if count is None else data["n"] * np.isnan(who)
        assert whole.provenance.dropped == {"m": lines.sum()}
