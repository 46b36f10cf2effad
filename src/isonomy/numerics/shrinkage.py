"""Estimates drawn toward a linear fit, each by its share of noise: posterior means of normal laws."""

from __future__ import annotations

import numpy as np

from isonomy.numerics.arrays import FloatArray


def weighted_fit(design: FloatArray, value: FloatArray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The fit by weighted least squares, and its variances if those of ``value`` are 1 / ``weight``.

    Columns of the design may depend on one another.
    """
    root = np.sqrt(weight)
    left, size, _ = np.linalg.svd(root[:, None] * design, full_matrices=False)
    left = left[:, size > size.max() * max(design.shape) * np.finfo(float).eps]
    return left @ (left.T @ (root * value)) / root, (left**2).sum(axis=1) / weight


def posterior_means(value: FloatArray, expected: FloatArray, variance: FloatArray, between: float) -> FloatArray:
    return expected + between / (between + variance) * (value - expected)
