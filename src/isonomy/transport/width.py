"""How wide the signed distances are: the scale on which a bandwidth is chosen."""

from __future__ import annotations

import numpy as np

from isonomy.numerics.arrays import FloatArray

QUARTILES = (0.25, 0.75)
NORMAL_IQR = 1.3489795003921634  # distance between the quartiles of a standard normal


def robust(deviation: float, low: float, high: float) -> float:
    """The smaller of the standard deviation and its normal value by the quartiles, so that far rows do not blow it up.

    Quartiles that coincide say that half of the rows are tied, not that there is no width.
    """
    between = (high - low) / NORMAL_IQR
    return min(deviation, between) if between > 0 else deviation


def spread_of(value: FloatArray, weight: FloatArray | None) -> float:
    """`robust` of an array."""
    if not value.size:
        return 0.0
    mean = np.average(value, weights=weight)
    with np.errstate(over="ignore"):
        deviation = float(np.sqrt(np.average((value - mean) ** 2, weights=weight)))
    return robust(deviation, *_quartiles(value, weight))


def _quartiles(value: FloatArray, weight: FloatArray | None) -> tuple[float, float]:
    """The least values with a quarter and three quarters of the mass up to them: a row counted twice is two rows."""
    if weight is None:
        first, third = (int(np.ceil(q * value.size)) - 1 for q in QUARTILES)
        parts = np.partition(value, (first, third))
        return float(parts[first]), float(parts[third])
    order = np.argsort(value, kind="stable")
    reached = np.cumsum(weight[order])
    first, third = (int(np.searchsorted(reached, q * reached[-1])) for q in QUARTILES)
    return float(value[order[first]]), float(value[order[third]])
