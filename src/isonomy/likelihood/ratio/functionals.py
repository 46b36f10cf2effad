"""Metrics that are no mean over rows: f1, balanced accuracy, AUC, RMSE, R², quantiles.

Each has a value and influence values.

The influence value of a row is what it adds to the estimate, in units of one over the rows: the estimate less the truth
is the mean of the influence values, up to smaller terms, and they average to 0. So value + influence are rows of a mean
like any other (the pseudo-values of jackknife empirical likelihood: Jing, Yuan and Zhou 2009), and all that `flag` does
with means follows. Ratios of sums have theirs by the quotient rule, AUC those of DeLong, DeLong and Clarke-Pearson
(1988).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from isonomy.numerics.arrays import FloatArray

Columns = Mapping[str, Any]
# The normal deviate of 95 % intervals; and what sums of masses may be wrong by.
NORMAL, ROUNDING = 1.959964, 1e-12


def _ratio(above: FloatArray, below: FloatArray, mass: FloatArray) -> tuple[float, FloatArray]:
    """A ratio of sums, Σ above / Σ below."""
    value = float(mass @ above / (mass @ below))
    return value, (above - value * below) / (mass @ below / mass.sum())


def _f1(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    y, p = columns["outcome"], columns["prediction"]
    return _ratio(2.0 * y * p, y + p, mass)


def _balanced_accuracy(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    y, p = columns["outcome"], columns["prediction"]
    hit, first = _ratio(y * p, y, mass)
    kept, second = _ratio((1.0 - y) * (1.0 - p), 1.0 - y, mass)
    return 0.5 * (hit + kept), 0.5 * (first + second)


def _auc(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    """P(a positive's score exceeds a negative's), ties counted half; by ranks, in one sort."""
    y, score = columns["outcome"], columns["score"]
    _, place = np.unique(score, return_inverse=True)
    size = int(place.max()) + 1
    ones, zeros = (np.bincount(place, weights=mass * part, minlength=size) for part in (y, 1.0 - y))
    below, above = np.cumsum(zeros) - 0.5 * zeros, ones.sum() - np.cumsum(ones) + 0.5 * ones
    positives, negatives = ones.sum(), zeros.sum()
    share = np.where(y == 1, below[place] / negatives, above[place] / positives)
    value = float(mass @ (y * share) / positives)
    total = positives + negatives
    return value, (share - value) * np.where(y == 1, total / positives, total / negatives)


def _mse(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    square = (columns["prediction"] - columns["outcome"]) ** 2
    value = float(np.average(square, weights=mass))
    return value, square - value


def _rmse(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    square, influence = _mse(columns, mass)
    return float(np.sqrt(square)), influence / (2.0 * np.sqrt(square))


def _r2(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    error, by_error = _mse(columns, mass)
    away = (columns["outcome"] - np.average(columns["outcome"], weights=mass)) ** 2
    spread = float(np.average(away, weights=mass))
    return 1.0 - error / spread, error / spread**2 * (away - spread) - by_error / spread


def _quantile(columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    """The smallest value that as much of the mass does not exceed; its influence values need the density there.

    The density is the slope of the quantiles beside it, as far to either side as Hall and Sheather (1988) advise.
    """
    value, level = columns["value"], float(columns["level"][0])
    order = np.argsort(value, kind="stable")
    below = np.cumsum(mass[order]) / mass.sum()

    def at(share: FloatArray) -> FloatArray:
        return value[order][np.minimum(np.searchsorted(below, share - ROUNDING), value.size - 1)]

    z = special.ndtri(level)
    height = np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi)
    reach = (NORMAL**2 * 1.5 * height**2 / (2.0 * z**2 + 1.0) / mass.sum()) ** (1.0 / 3.0)
    reach = min(reach, 0.9 * level, 0.9 * (1.0 - level))
    quantile, low, high = at(np.array([level, level - reach, level + reach]))
    under = value <= quantile
    if mass @ (value == quantile) > reach * mass.sum():  # as many rows are equal as the slope is taken over
        return np.nan, np.zeros(value.size)
    return float(quantile), (float(mass @ under / mass.sum()) - under) * (high - low) / (2.0 * reach)


FUNCTIONALS: Mapping[str, Callable[[Columns, FloatArray], tuple[float, FloatArray]]] = {
    "balanced_accuracy": _balanced_accuracy,
    "f1": _f1,
    "auc": _auc,
    "rmse": _rmse,
    "r2": _r2,
    "quantile": _quantile,
}


def evaluate(name: str, columns: Columns, mass: FloatArray) -> tuple[float, FloatArray]:
    """The metric's value over some rows, and their influence values; NaN where it is not defined.

    One class has no AUC, and values that repeat have no density that a quantile's error could be judged by.
    """
    plain = {role: np.asarray(values, dtype=float) for role, values in columns.items()}
    with np.errstate(all="ignore"):
        value, influence = FUNCTIONALS[name](plain, mass) if mass.sum() > 0 else (np.nan, np.zeros(mass.size))
    known = bool(np.isfinite(value) and np.isfinite(influence).all())
    return (value, influence) if known else (np.nan, np.zeros(mass.size))
