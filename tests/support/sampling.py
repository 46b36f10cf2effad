"""The distance of a sample from the truth in standard errors, and margins of simulated rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from isonomy.numerics.arrays import BoolArray, FloatArray


def standard_errors(values: ArrayLike, truth: float) -> float:
    """How many standard errors the mean of independent values lies from the truth."""
    sample = np.asarray(values, dtype=float)
    spread = np.std(sample) / np.sqrt(sample.size)
    return 0.0 if spread == 0 and np.mean(sample) == truth else float((np.mean(sample) - truth) / spread)


def clustered(values: FloatArray, user: Any) -> float:
    """A sum that should be zero, in standard errors that allow for dependent rows of a user."""
    sums = np.bincount(user, values)
    return float(sums.sum() / np.sqrt((sums**2).sum())) if sums.any() else 0.0


def rows_of(columns: Mapping[str, Any], label: str) -> BoolArray:
    """The rows in the group of a label, for example "race=Black & sex=Female"."""
    parts = (part.split("=") for part in label.split(" & "))
    return np.asarray(np.logical_and.reduce([columns[column] == level for column, level in parts]))


def binomial_margin(rate: float, tables: int, errors: float = 3.0) -> float:
    """A multiple of the standard error of a rate that is measured on simulated tables.

    >>> round(binomial_margin(0.05, 1_000), 4)
    0.0207
    """
    return errors * float(np.sqrt(rate * (1 - rate) / tables))
