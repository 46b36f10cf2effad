"""Fixtures of the tests of the projection."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import isonomy as iso
from isonomy.projection import ProjectionResult


@pytest.fixture(scope="module")
def people() -> pl.DataFrame:
    rng = np.random.default_rng(2)
    n = 600
    x, z = rng.normal(size=n) * 3 + 1, rng.normal(size=n)
    return pl.DataFrame(
        {
            "x": x,
            "z": z,
            "g": rng.choice(["a", "b"], n),
            "y": (x + 3 * z + rng.normal(size=n) * 2 > 1).astype(int),
        }
    )


@pytest.fixture(scope="module")
def result() -> ProjectionResult:
    rng = np.random.default_rng(4)
    n = 3_000
    group = rng.choice(["big", "<b>mid</b>", "small"], n, p=[0.7, 0.26, 0.04])
    score = rng.normal(size=n) + 0.4 * (group != "big")
    data = pl.DataFrame({"g": group, "s": score, "c": score >= 0, "y": rng.integers(0, 2, n)})
    return iso.project(
        data, outcome="y", prediction="c", groups="g", score="s", threshold=0.0, criterion="equalized_odds"
    )
