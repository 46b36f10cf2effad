"""A simulated care programme: the score in use serves one group worse than the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest


def programme(n: int = 4000, seed: int = 0, groups: int = 2) -> dict[str, Any]:
    """The score in use knows the need of the first group better; `need_score` knows everyone's, equally well."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    x1, x2 = rng.normal(size=n), rng.normal(size=n)
    need = rng.poisson(np.exp(0.8 + 0.5 * x1 + 0.2 * x2))
    noise = np.array([2.0, 10.0, 6.0, 4.0])[group]
    score = (need - 2.5 + rng.normal(0, noise)) / np.sqrt(4 + noise**2)
    return {
        "group": group,
        "race": np.array(["Black", "White", "Asian", "Other"])[group],
        "x1": x1,
        "x2": x2,
        "lab": need + rng.normal(0, 1.0, n),
        "need": need,
        "sick": (need >= 2).astype(int),
        "cost": 100.0 * np.maximum(score + 2, 0),
        "cost_score": score,
        "need_score": need + rng.normal(0, 0.3, n),
        "decision": (score > 0.5).astype(int),
        "better": (need + rng.normal(0, 0.3, n) > 2.5).astype(int),
    }


@pytest.fixture(scope="session")
def data() -> dict[str, Any]:
    return programme()


@pytest.fixture
def ask() -> dict[str, Any]:
    """The usual question: a ready candidate score, capacity 10 %, three small rounds."""
    return {
        "outcome": "need",
        "groups": "race",
        "status_quo": "cost_score",
        "candidate": "need_score",
        "capacity": 0.1,
        "splits": 3,
        "resamples": 300,
        "rng": 7,
    }
