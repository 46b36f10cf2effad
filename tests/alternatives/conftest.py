"""A simulated care programme, and the questions usually asked of it."""

from __future__ import annotations

from typing import Any

import pytest

from support.tables import programme

Columns = dict[str, Any]


@pytest.fixture(scope="session")
def data() -> Columns:
    return programme()


@pytest.fixture
def ask() -> Columns:
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


@pytest.fixture
def fit(ask: Columns) -> Columns:
    """The same question to a rule that fits two features."""
    return ask | {"candidate": None, "features": ["x1", "x2"], "splits": 2, "resamples": 100}
