"""Functions from a score to a calibrated score, and how they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.kernels import Bandwidth, line_sums, local_line
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.quantiles import quantiles

Map = Callable[[FloatArray], FloatArray]  # one of the functions below, partially applied: it can be pickled
Calibration = Literal["near_unbiased", "binning", "isotonic", "platt"]
LocalFit = Literal["nadaraya-watson", "local-linear"]


def lines(at: FloatArray, value: FloatArray, score: FloatArray) -> FloatArray:
    """Linear between the scores ``at``, constant beyond them; never outside the values, not even by some rounding."""
    return np.clip(np.interp(score, at, value), value.min(), value.max())


def steps(edges: FloatArray, value: FloatArray, score: FloatArray) -> FloatArray:
    """One value per bin; ``edges`` are those between bins."""
    return value[np.searchsorted(edges, score, side="right")]


def sigmoid(slope: float, intercept: float, score: FloatArray) -> FloatArray:
    """1 / (1 + exp(-(slope score + intercept)))."""
    return np.asarray(expit(slope * score + intercept))


def same(score: FloatArray) -> FloatArray:
    """Scores as they are, those beyond the fitted range too."""
    return score


def at_value(own: Map, at: FloatArray, value: FloatArray, score: FloatArray) -> FloatArray:
    """The score at which the target group's curve has the value that this group's curve has here.

    ``at``, ``value``: the target's curve, nondecreasing.
    """
    rising = np.concatenate(([True], np.diff(value) > 0))
    return np.interp(own(score), value[rising], at[rising])


@dataclass(frozen=True, slots=True, eq=False)
class Fitter:
    """How a group's calibrated scores are found from its scores, outcomes and votes."""

    method: Calibration
    bins: int
    bandwidth: float | None
    smoother: LocalFit
    monotone: bool
    axis: Axis
    bounded: bool = True  # whether a map stays within the range of the outcomes, as expected outcomes do

    def __call__(self, score: FloatArray, outcome: FloatArray, vote: FloatArray) -> Map:
        """The map of one group. Votes are in the unit of users (or rows): their total is the group's number of them."""
        if self.method == "isotonic":
            fitted = IsotonicRegression(out_of_bounds="clip").fit(score, outcome, sample_weight=vote)
            return partial(lines, fitted.X_thresholds_, fitted.y_thresholds_)
        if self.method == "platt":
            return platt(score, outcome, vote, rising=self.monotone)
        edges = np.unique(quantiles(score, vote, np.arange(self.bins + 1) / self.bins))
        if self.method == "binning":
            return self._binned(score, outcome, vote, edges[1:-1])
        nearest = np.searchsorted((edges[1:] + edges[:-1]) / 2, score)
        mass = np.bincount(nearest, vote, edges.size).astype(np.float64)
        return partial(lines, edges, self._rising(self._smoothed(score, outcome, vote, edges), mass))

    def _binned(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, inner: FloatArray) -> Map:
        place = np.searchsorted(inner, score, side="right")
        mass = np.bincount(place, vote, inner.size + 1).astype(np.float64)
        total = np.bincount(place, vote * outcome, inner.size + 1)
        held = mass > 0  # ties can leave a bin empty: it takes the value of its neighbour
        value = np.interp(np.arange(mass.size), np.flatnonzero(held), total[held] / mass[held])
        return partial(steps, inner, self._rising(value, mass))

    def _smoothed(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, at: FloatArray) -> FloatArray:
        width = Bandwidth.of(self.axis, float(vote.sum()), self.bandwidth, at).at(at)
        weights, pieces = np.stack([vote, vote * outcome]), range(0, score.size, 2**16)
        parts = [line_sums(at, width, score[i : i + 2**16], weights[:, i : i + 2**16]) for i in pieces]
        sums = np.sum(parts, axis=0)
        value = sums[3] / sums[0] if self.smoother == "nadaraya-watson" else local_line(*sums)
        return np.clip(value, outcome.min(), outcome.max()) if self.bounded else value

    def _rising(self, value: FloatArray, mass: FloatArray) -> FloatArray:
        if not self.monotone:
            return value
        weight = np.maximum(mass, 1e-12)
        return np.asarray(IsotonicRegression().fit_transform(np.arange(value.size), value, sample_weight=weight))


def platt(score: FloatArray, outcome: FloatArray, vote: FloatArray, *, rising: bool = False) -> Map:
    """Logistic regression of the outcome on the score; the mean outcome if the curve falls and may not.

    The mean outcome, too, where every score is the same: there is no slope to estimate.
    """
    mean = float(np.average(outcome, weights=vote))
    centre, scale = spread(score, vote)
    # The mean of equal scores is off by some rounding, and so is their spread: never exactly zero.
    if mean in (0.0, 1.0) or scale <= 1e-12 * float(np.abs(score).max()):
        return partial(lines, np.array([0.0]), np.array([mean]))
    # Platt's own targets pull 0 and 1 a little inwards, which vanishes as n grows; this is plain logistic regression.
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    model.fit(((score - centre) / scale)[:, None], outcome, sample_weight=vote)
    slope = float(model.coef_[0, 0]) / scale
    if rising and slope < 0:
        return partial(lines, np.array([0.0]), np.array([mean]))
    return partial(sigmoid, slope, float(model.intercept_[0]) - slope * centre)


def onto(target: Map, score: FloatArray, vote: FloatArray, axis: Axis) -> Callable[[Map], Map]:
    """How a group's map becomes one onto the score scale of the group whose map is ``target``."""
    # Equal steps cover the axis; quantiles are where the scores are, should one of them be far out.
    shares = np.linspace(0, 1, 1001)
    at = np.unique(np.concatenate([axis.low + (axis.high - axis.low) * shares, quantiles(score, vote, shares)]))
    value = np.maximum.accumulate(target(at))
    return lambda own: partial(at_value, own, at, value)


def spread(score: FloatArray, vote: FloatArray) -> tuple[float, float]:
    """Weighted mean and standard deviation."""
    centre = float(np.average(score, weights=vote))
    return centre, float(np.sqrt(np.average((score - centre) ** 2, weights=vote)))
