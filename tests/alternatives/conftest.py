"""A simulated care program, and the usual calls about it."""

from __future__ import annotations

from typing import Any

import pytest

import isonomy as iso
from isonomy.alternatives import ImprovabilityResult
from support.tables import programme

Columns = dict[str, Any]


@pytest.fixture(scope="session")
def data() -> Columns:
    return programme()


@pytest.fixture
def ask() -> Columns:
    """The usual call with the bootstrap: a fixed candidate score, a capacity of 10 %, three small rounds."""
    return {
        "outcome": "need",
        "groups": "race",
        "status_quo": "cost_score",
        "candidate": "need_score",
        "capacity": 0.1,
        "method": iso.splits(3, resamples=300),
        "rng": 7,
    }


@pytest.fixture
def ready(ask: Columns) -> Columns:
    """The same call on all rows."""
    return {name: value for name, value in ask.items() if name != "method"}


@pytest.fixture
def crossfit(ready: Columns) -> Columns:
    """The same call with a rule that fits three features, cross-fitted once in five folds."""
    return ready | {"candidate": None, "features": ["x1", "x2", "lab"], "method": iso.crossfit(repeats=1)}


@pytest.fixture
def fit(ask: Columns) -> Columns:
    """The same call with a rule that fits two features."""
    return ask | {"candidate": None, "features": ["x1", "x2"], "method": iso.splits(2, resamples=100)}


@pytest.fixture(scope="session")
def result(data: Columns) -> ImprovabilityResult:
    """The result of the usual call."""
    return iso.improvability(
        data,
        outcome="need",
        groups="race",
        status_quo="cost_score",
        candidate="need_score",
        capacity=0.1,
        method=iso.splits(3, resamples=300),
        rng=7,
    )
