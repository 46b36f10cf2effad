"""One result of each question, of a table with a planted difference and hostile labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from isonomy.calibration import (
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
)

ROLES: dict[str, Any] = {"outcome": "y", "score": "s", "groups": "g"}


@pytest.fixture(scope="session")
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    g = np.repeat(["<b>a</b>", "b"], [2_500, 1_500])
    s = rng.beta(2, 2, 4_000)
    return {"s": s, "g": g, "y": (rng.random(4_000) < np.where(g == "b", 0.7 * s, s)).astype(int)}


@pytest.fixture(scope="session")
def results(columns: dict[str, Any]) -> list[Any]:
    return [
        predictive_parity(columns, **ROLES, rng=1),
        marginal_outcomes(columns, **ROLES, threshold=0.5),
        equalize_thresholds(columns, **ROLES, threshold=0.5),
    ]
