"""Rows into two parts, and scores into decisions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from isonomy.errors import DataError
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.quantiles import quantiles

Weight = NDArray[np.int64]  # how many rows each line stands for


def split(weight: Weight, fraction: float, rng: np.random.Generator) -> tuple[Weight, Weight]:
    """Rows of each line in the training and in the test part; floor(fraction n) rows train, drawn uniformly."""
    if not fraction:
        return np.zeros_like(weight), weight
    train = rng.multivariate_hypergeometric(weight, int(fraction * weight.sum()), method="marginals")
    return train, weight - train


def decisions(
    values: FloatArray, learn: Weight, what: str, *, capacity: float | None, threshold: float | None
) -> tuple[FloatArray, float]:
    """0/1 as they are; scores strictly above the threshold, or above the training part's 1 - capacity quantile.

    With the cut-off, NaN where decisions came ready. ``what`` the values are is said in the error.
    """
    if np.isin(values, (0.0, 1.0)).all():
        return values, np.nan
    if threshold is not None:
        cutoff = threshold
    elif capacity is not None:
        cutoff = float(quantiles(values, learn, 1 - capacity, linear=True))
    else:
        raise DataError(
            f"{what}: the values are not all 0 or 1, so they are scores; give capacity (the share to select) or "
            "threshold (select scores above it), or 0/1 decisions."
        )
    return (values > cutoff).astype(float), cutoff
