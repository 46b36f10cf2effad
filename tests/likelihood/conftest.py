"""Small tables with known answers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


@pytest.fixture(scope="session")
def lender() -> dict[str, Any]:
    """600 decisions: two races, two sexes, rates that differ, and a real-valued loss."""
    rng = np.random.default_rng(11)
    race = rng.choice(["a", "b", "c"], size=600, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["f", "m"], size=600)
    rate = 0.4 + 0.15 * (race == "b") - 0.1 * (sex == "f")
    return {
        "race": race,
        "sex": sex,
        "selected": (rng.random(600) < rate).astype(int),
        "outcome": (rng.random(600) < 0.5).astype(int),
        "loss": rng.exponential(1 + 0.3 * (race == "c"), size=600),
    }
