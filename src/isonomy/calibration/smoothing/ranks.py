"""Expected calibration error and area under the curve, from sums over distinct scores."""

from __future__ import annotations

import numpy as np

from isonomy.numerics.arrays import FloatArray

BINS = 10
ROUNDING = 1e-9  # of a bin, or of all votes: engines add votes up in other orders, and must come to the same bins


def rank(score: FloatArray, outcome: FloatArray, vote: FloatArray, *, unit: bool) -> tuple[float, float]:
    """ECE and AUC of one group of rows. ``unit``: scores lie in [0, 1]."""
    distinct, place = np.unique(score, return_inverse=True)
    weight, total = np.bincount(place, vote), np.bincount(place, vote * outcome)
    reached, passed = np.cumsum(weight), np.cumsum(weight - total)
    votes = float(weight.sum())
    position = distinct if unit else (reached - weight) / votes
    bins = np.minimum(np.floor(position * BINS + (0.0 if unit else ROUNDING)), BINS - 1)
    gap = np.bincount(bins.astype(np.intp), total - weight * distinct).astype(np.float64)
    return ece_and_auc(gap, votes, float(total.sum()), float(total @ (passed - (weight - total) / 2)))


def ece_and_auc(gap: FloatArray, votes: float, positive: float, pairs: float) -> tuple[float, float]:
    """From outcomes less scores by bin; votes; votes of positives; pairs of which the positive scores higher."""
    if not votes > 0:
        return float("nan"), float("nan")
    every = positive * (votes - positive)
    # Votes of 1/n add up to whole numbers only almost: a group with one outcome must not seem to have two.
    known = min(positive, votes - positive) > ROUNDING * votes
    return float(np.abs(gap).sum() / votes), pairs / every if known else float("nan")
