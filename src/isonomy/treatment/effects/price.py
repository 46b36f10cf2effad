"""What a correction costs for the ranking of persons: Qini, transformed-outcome loss, and value of a policy.

With p the probability of treatment, Z = Y (T - p) / (p (1 - p)) has the person's effect on Y as its mean (Athey and
Imbens 2016). Every quantity below is a mean over rows, or a smooth function of ranks; its influence on each row
gives the standard error, and the difference of two influences that of a change on the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray

QUANTITIES = ("qini", "loss", "policy_value")


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """One quantity of one column of predictions: its value, and the influence of each row on it (mean 0)."""

    value: float
    influence: FloatArray


def scores(
    transformed: FloatArray, effect: FloatArray, rank_by: FloatArray, weight: FloatArray, budget: float
) -> tuple[Score, ...]:
    """The quantities of one column. ``effect``: predicted differences, NaN where they are not known."""
    return (
        qini(transformed, rank_by, weight),
        loss(transformed, effect, weight),
        policy_value(transformed, rank_by, weight, budget),
    )


def loss(transformed: FloatArray, effect: FloatArray, weight: FloatArray) -> Score:
    """Mean of (Z - f)^2: that of the error of the predicted effects, and the variance of Z, which no model changes."""
    square = (transformed - effect) ** 2
    value = float(np.average(square, weights=weight))
    return Score(value, square - value)


def qini(transformed: FloatArray, rank_by: FloatArray, weight: FloatArray) -> Score:
    """Area between the gain from treating those ranked highest and that from treating as many at random.

    With u the share of rows ranked above (ties count half) it is the mean of Z (1/2 - u). A row moves the ranks of the
    others too: its influence has a second term, the mean of Z over the rows it stands above.
    """
    codes, share = _ranks(rank_by, weight)
    above = 1 - np.cumsum(share) + share / 2
    gain = np.bincount(codes, weight * transformed) / weight.sum()
    below = np.cumsum(gain) - gain / 2
    own = transformed * (0.5 - above[codes])
    value = float(np.average(own, weights=weight))
    others = below[codes]
    return Score(value, own - value - (others - np.average(others, weights=weight)))


def policy_value(transformed: FloatArray, rank_by: FloatArray, weight: FloatArray, budget: float) -> Score:
    """Gain per person over treating nobody when the ``budget`` share ranked highest is treated, ties at random."""
    codes, share = _ranks(rank_by, weight)
    above = 1 - np.cumsum(share)
    treated = np.clip((budget - above) / share, 0.0, 1.0)[codes]
    own = transformed * treated
    value = float(np.average(own, weights=weight))
    # Rows that join push others below the threshold: by the effect there, from the rows nearest to it.
    distance = np.abs(above + share / 2 - budget)[codes]
    near = distance <= np.quantile(distance, min(1.0, len(distance) ** -0.2))
    margin = float(np.average(transformed[near], weights=weight[near]))
    return Score(value, own - value - margin * (treated - budget))


def _ranks(values: FloatArray, weight: FloatArray) -> tuple[IntArray, FloatArray]:
    """The position of each row's value among the distinct ones, and the share of rows at each."""
    _, codes = np.unique(values, return_inverse=True)
    return codes.astype(np.intp), np.bincount(codes, weight) / weight.sum()


def standard_error(influence: FloatArray, weight: FloatArray) -> float:
    """Of a mean with this influence, where lines stand for ``weight`` rows."""
    total = float(weight.sum())
    return float(np.sqrt((weight * influence**2).sum() / max(total - 1, 1) / total))
