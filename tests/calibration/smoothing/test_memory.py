"""Sums over rows in memory: the fast path gives the same numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.calibration import (
    predictive_parity,
)
from isonomy.calibration.smoothing import memory
from support.tables import scored

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


@pytest.mark.parametrize("unit", [1, 0.3])
@pytest.mark.parametrize("user", [None, "m"])
def test_many_rows_take_the_fast_path_to_the_same_numbers(
    user: str | None, unit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outcomes 0 and 1, and other numbers, which have another way through the sums."""
    data = scored()
    data["y"] = data["y"] * unit
    exact = predictive_parity(data, **ROLES, user=user, rng=1).families[0]
    monkeypatch.setattr(memory, "MANY", 10)
    fast = predictive_parity(data, **ROLES, user=user, rng=1).families[0]
    for name in ("curve", "difference", "se", "effective", "curve_low"):
        np.testing.assert_allclose(getattr(fast, name), getattr(exact, name), rtol=1e-8, atol=1e-10, err_msg=name)
    assert not np.array_equal(fast.difference, exact.difference, equal_nan=True)  # it was another path
