"""Quantiles of values that count several times."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from isonomy.numerics.arrays import FloatArray


def quantiles(
    values: FloatArray, weight: npt.NDArray[np.generic], levels: npt.ArrayLike, *, linear: bool = False
) -> FloatArray:
    """The quantiles of ``values``, each repeated ``weight`` times.

    Without ``linear``, the smallest value that a share ``levels`` of the weight does not exceed; weights may then be
    any numbers. With it, numpy's default: linear between the neighbours, for weights that are whole numbers.

    Examples
    --------
    >>> quantiles(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 2]), [0.5, 1.0]).tolist()
    [2.0, 4.0]
    >>> quantiles(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 2]), [0.5, 1.0], linear=True).tolist()
    [3.0, 4.0]
    """
    order = np.argsort(values, kind="stable")
    reached, ordered = np.cumsum(weight[order]), values[order]
    if not linear:
        # Sums of weights are off by some rounding: a level that is reached but for that is reached.
        place = np.searchsorted(reached, np.asarray(levels) * reached[-1] * (1 - 1e-12), side="left")
        return ordered[np.minimum(place, values.size - 1)]
    position = np.asarray(levels) * (int(reached[-1]) - 1)
    ends = np.floor(position), np.ceil(position)
    low, high = (ordered[np.searchsorted(reached, end, side="right")] for end in ends)
    return np.asarray(low + (position - ends[0]) * (high - low))
