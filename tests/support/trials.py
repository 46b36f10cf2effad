"""The numbers of an improvability result by trial: (trials, criteria, 3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.numerics.arrays import FloatArray


def accuracy(result: Any) -> FloatArray:
    """The alternative's accuracy, the status quo's, and the p-value."""
    return _columns(result, "accuracy", "estimate", "reference", "pvalues")


def unfairness(result: Any) -> FloatArray:
    """The alternative's unfairness, the status quo's, and the p-value."""
    return _columns(result, "unfairness", "estimate", "reference", "pvalues")


def gains(result: Any, criterion: str = "accuracy") -> FloatArray:
    """The gain in accuracy, or the cut in unfairness, with its limits."""
    return _columns(result, criterion, "disparity", "ci_low", "ci_high")


def _columns(result: Any, criterion: str, *names: str) -> FloatArray:
    return np.stack([result.values(criterion, name) for name in names], axis=-1)
