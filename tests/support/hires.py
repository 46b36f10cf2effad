"""Applicants of three races and two sexes, hired by a score that is lower for one race."""

from __future__ import annotations

from typing import Any

import numpy as np


def hires(seed: int = 0, rows: int = 3_000) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    race = rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2])
    sex = rng.choice(["f", "m"], rows)
    score = rng.normal(size=rows) - 0.6 * (race == "b")
    return {"race": race, "sex": sex, "score": score, "hired": (score > 0.3).astype(int)}
