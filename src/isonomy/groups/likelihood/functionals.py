"""Metrics that are no mean over rows: f1, balanced accuracy, AUC, RMSE, R², quantiles.

Each has a value and influence values.

The influence value of a row is what it adds to the estimate, in units of one over the rows: the estimate less the truth
is the mean of the influence values, up to smaller terms, and they average to 0. So value + influence are rows of a mean
like any other (the pseudo-values of jackknife empirical likelihood: Jing, Yuan and Zhou 2009), and all that `flag` does
with means follows. Ratios of sums have theirs by the quotient rule, AUC those of DeLong, DeLong and Clarke-Pearson
(1988).

What one row adds to a group's disparity, for the variance of rows with weights or clusters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from scipy import special

from isonomy.frames import Design
from isonomy.groups.likelihood.means import Means
from isonomy.inference.designs import Influence, Spread, covariance, spread
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

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
    """The smallest value that as much of the mass does not exceed, its influence values as large as its error is.

    The error is that of Maritz and Jarrett (1978): of the k-th smallest of so many rows drawn from these, which is
    known without drawing. A density, the slope of the quantiles beside it, would be too small where the tail is long.
    """
    value, level = columns["value"], float(columns["level"][0])
    order, total = np.argsort(value, kind="stable"), float(mass.sum())
    ordered, below = value[order], np.cumsum(mass[order]) / total
    quantile = ordered[min(int(np.searchsorted(below, level - ROUNDING)), value.size - 1)]
    if mass @ (value == quantile) > _reach(level, total) * total:
        return np.nan, np.zeros(value.size)
    rank = np.ceil(total * level - total * ROUNDING)
    chance = np.diff(special.betainc(rank, total - rank + 1.0, np.minimum(below, 1.0)), prepend=0.0)
    away = ordered - quantile  # the same error, without the digits that a large value would cost
    error = np.sqrt(max(float(chance @ away**2 - (chance @ away) ** 2), 0.0))
    under = value <= quantile
    share = float(mass @ under / total)
    return float(quantile), (share - under) * error * np.sqrt(total / (share * (1.0 - share)))


def _reach(level: float, rows: float) -> float:
    """How much of the mass on either side says how dense values are at a quantile (Hall and Sheather 1988)."""
    z = special.ndtri(level)
    height = np.exp(-(z**2) / 2.0) / np.sqrt(2.0 * np.pi)
    reach = (NORMAL**2 * 1.5 * height**2 / (2.0 * z**2 + 1.0) / rows) ** (1.0 / 3.0)
    return float(min(reach, 0.9 * level, 0.9 * (1.0 - level)))


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

    One class has no AUC, and the quantile of values that repeat has no error that falls as rows are added.
    """
    plain = {role: np.asarray(values, dtype=float) for role, values in columns.items()}
    with np.errstate(all="ignore"):
        value, influence = FUNCTIONALS[name](plain, mass) if mass.sum() > 0 else (np.nan, np.zeros(mass.size))
    known = bool(np.isfinite(value) and np.isfinite(influence).all())
    return (value, influence) if known else (np.nan, np.zeros(mass.size))


def alone(codes: IntArray, value: FloatArray, own: Means, groups: int) -> Influence:
    """Against a reference without error: (x - mean) / mass in each group."""
    return Influence.of_groups(codes, _own(codes, value, own), groups)


def against(codes: IntArray, value: FloatArray, own: Means, groups: int, reference: FloatArray) -> Influence:
    """Against a reference on which each line has the influence ``reference``, NaN for lines that have none."""
    reached = ~np.isnan(reference)
    base, loading = np.where(reached, reference, 0.0)[:, None], np.full((1, groups), -1.0)
    return Influence.of_groups(codes, _own(codes, value, own), groups, base, loading, reached)


def against_rest(codes: IntArray, value: FloatArray, own: Means, groups: int, inside: BoolArray) -> Influence:
    """Against all rows outside the group, whose mean m and mass V differ from group to group.

    A line outside has -(x - m) / V. Written for all lines it is a base of (x - centre) and 1, and what a line of the
    group has too much by it is taken back in its own part.
    """
    total = own.n * np.nan_to_num(own.mean)
    centre = float(total.sum() / own.n.sum())
    with np.errstate(all="ignore"):
        others = own.n.sum() - own.n
        mean = (total.sum() - total) / others
    mean, others = mean[:groups], np.where(others > 0, others, np.nan)[:groups]
    own_part = _own(codes, value, own) + (value - mean[codes]) / others[codes]
    base = np.where(inside[:, None], np.column_stack([value - centre, np.ones(value.size)]), 0.0)
    return Influence.of_groups(
        codes, own_part, groups, base, np.stack([-1.0 / others, (mean - centre) / others]), inside
    )


def pair_effect(
    design: Design, influence: Influence, variance: FloatArray, first: IntArray, second: IntArray
) -> tuple[FloatArray, Spread]:
    """The design effect on differences of two groups, which vary together where clusters are in both.

    ``variance`` is what each group's estimate is assumed to have. With the spread of each group alone.
    """
    joint, totals = covariance(design, influence), spread(design, influence)
    actual = joint[first, first] + joint[second, second] - 2.0 * joint[first, second]
    assumed = variance[first] + variance[second]
    with np.errstate(all="ignore"):
        return np.where(assumed > 0, actual / assumed, (totals.squared_mass / totals.mass)[first]), totals


def _own(codes: IntArray, value: FloatArray, own: Means) -> FloatArray:
    with np.errstate(all="ignore"):
        return (value - own.mean[codes]) / own.n[codes]
