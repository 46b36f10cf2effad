"""Expected calibration error and area under the curve, from sums over distinct scores."""

from __future__ import annotations

import numpy as np

from isonomy.numerics.arrays import FloatArray

BINS = 10
ROUNDING = 1e-9  # of a bin, or of all votes: engines add votes up in other orders, and must come to the same bins


def ece_and_auc(gap: FloatArray, votes: float, positive: float, pairs: float) -> tuple[float, float]:
    """From outcomes less scores by bin; votes; votes of positives; pairs of which the positive scores higher."""
    if not votes > 0:
        return float("nan"), float("nan")
    every = positive * (votes - positive)
    # Votes of 1/n add up to whole numbers only almost: a group with one outcome must not seem to have two.
    known = min(positive, votes - positive) > ROUNDING * votes
    return float(np.abs(gap).sum() / votes), pairs / every if known else float("nan")
