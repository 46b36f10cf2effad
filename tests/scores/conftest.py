"""A table with a planted difference and hostile labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def columns() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    g = np.repeat(["<b>a</b>", "b"], [2_500, 1_500])
    s = rng.beta(2, 2, 4_000)
    return {"s": s, "g": g, "y": (rng.random(4_000) < np.where(g == "b", 0.7 * s, s)).astype(int)}
