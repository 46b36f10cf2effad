"""What the tests of the simulated designs share."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest


@pytest.fixture
def off() -> Callable[..., float]:
    """How many standard errors a sample mean lies from the truth."""

    def distance(values: np.ndarray, truth: float) -> float:
        spread = np.std(values) / np.sqrt(len(values))
        return 0.0 if spread == 0 and np.mean(values) == truth else float((np.mean(values) - truth) / spread)

    return distance


@pytest.fixture
def clustered() -> Callable[[np.ndarray, np.ndarray], float]:
    """A sum that should be zero, in standard errors, when the rows of a user depend on each other."""

    def distance(values: np.ndarray, user: np.ndarray) -> float:
        sums = np.bincount(user, values)
        return float(sums.sum() / np.sqrt((sums**2).sum())) if sums.any() else 0.0

    return distance


@pytest.fixture
def rows_of() -> Callable[[Mapping[str, np.ndarray], str], np.ndarray]:
    """The rows that a label such as "race=Black & sex=Female" holds."""

    def inside(columns: Mapping[str, np.ndarray], label: str) -> np.ndarray:
        parts = (part.split("=") for part in label.split(" & "))
        return np.logical_and.reduce([columns[column] == level for column, level in parts])

    return inside
