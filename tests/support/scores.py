"""Scored rows of two groups."""

from __future__ import annotations

from typing import Any

import numpy as np


def scored_rows(n: int = 4_000, seed: int = 0) -> dict[str, Any]:
    """Group a: E[Y | s] = s; group b: s^2."""
    rng = np.random.default_rng(seed)
    g = np.where(rng.random(n) < 0.5, "a", "b")
    s = rng.random(n)
    y = (rng.random(n) < np.where(g == "a", s, s**2)).astype(int)
    return {"s": s, "g": g, "m": rng.integers(0, n // 4, n), "y": y, "other": rng.random(n)}
