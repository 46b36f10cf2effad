"""Functions from a score to a calibrated score, and how they are fitted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.kernels import kernel, local_line, published
from isonomy.numerics.arrays import FloatArray

Map = Callable[[FloatArray], FloatArray]  # one of the classes below: functions that can be pickled
Calibration = Literal["near_unbiased", "binning", "isotonic", "platt"]
LocalFit = Literal["nadaraya-watson", "local-linear"]


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Linear between knots, constant beyond them."""

    score: FloatArray
    value: FloatArray

    def __call__(self, score: FloatArray) -> FloatArray:
        """The calibrated scores."""
        return np.interp(score, self.score, self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """One value per bin."""

    edges: FloatArray  # between bins
    value: FloatArray

    def __call__(self, score: FloatArray) -> FloatArray:
        """The calibrated scores."""
        return self.value[np.searchsorted(self.edges, score, side="right")]


@dataclass(frozen=True, slots=True, eq=False)
class Sigmoid:
    """1 / (1 + exp(-(slope score + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, score: FloatArray) -> FloatArray:
        """The calibrated scores."""
        return np.asarray(expit(self.slope * score + self.intercept))


@dataclass(frozen=True, slots=True, eq=False)
class Same:
    """Scores as they are, those beyond the fitted range too."""

    def __call__(self, score: FloatArray) -> FloatArray:
        """The scores."""
        return score


@dataclass(frozen=True, slots=True, eq=False)
class Onto:
    """The score at which the target group's curve has the value that this group's curve has here."""

    own: Map
    score: FloatArray
    value: FloatArray  # of the target's curve, nondecreasing

    def __call__(self, score: FloatArray) -> FloatArray:
        """The mapped scores."""
        rising = np.concatenate(([True], np.diff(self.value) > 0))
        return np.interp(self.own(score), self.value[rising], self.score[rising])


@dataclass(frozen=True, slots=True, eq=False)
class Fitter:
    """How a group's calibrated scores are found from its scores, outcomes and votes."""

    method: Calibration
    bins: int
    bandwidth: float | None
    smoother: LocalFit
    monotone: bool
    axis: Axis

    def __call__(self, score: FloatArray, outcome: FloatArray, vote: FloatArray) -> Map:
        """The map of one group. Votes are in the unit of users (or rows): their total is the group's number of them."""
        if self.method == "isotonic":
            fitted = IsotonicRegression(out_of_bounds="clip").fit(score, outcome, sample_weight=vote)
            return Lines(fitted.X_thresholds_, fitted.y_thresholds_)
        if self.method == "platt":
            return platt(score, outcome, vote, rising=self.monotone)
        edges = quantiles(score, vote, np.arange(self.bins + 1) / self.bins)
        if self.method == "binning":
            return self._binned(score, outcome, vote, edges[1:-1])
        nearest = np.searchsorted((edges[1:] + edges[:-1]) / 2, score)
        mass = np.bincount(nearest, vote, edges.size).astype(np.float64)
        return Lines(edges, self._rising(self._smoothed(score, outcome, vote, edges), mass))

    def _binned(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, inner: FloatArray) -> Steps:
        place = np.searchsorted(inner, score, side="right")
        mass = np.bincount(place, vote, inner.size + 1).astype(np.float64)
        total = np.bincount(place, vote * outcome, inner.size + 1)
        held = mass > 0  # ties can leave a bin empty: it takes the value of its neighbour
        value = np.interp(np.arange(mass.size), np.flatnonzero(held), total[held] / mass[held])
        return Steps(inner, self._rising(value, mass))

    def _smoothed(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, at: FloatArray) -> FloatArray:
        n = float(vote.sum())
        width = published(at, n, self.axis) if self.bandwidth is None else np.full(at.size, float(self.bandwidth))
        sums = np.zeros((5, at.size))
        for start in range(0, score.size, 2**16):
            part = slice(start, start + 2**16)
            u = (score[part, None] - at) / width
            k = kernel(u) * vote[part, None]
            ku = k * u
            y = outcome[part]
            sums += np.stack([k.sum(axis=0), ku.sum(axis=0), (ku * u).sum(axis=0), y @ k, y @ ku])
        return sums[3] / sums[0] if self.smoother == "nadaraya-watson" else local_line(*sums)

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
        return Lines(np.array([0.0]), np.array([mean]))
    # Platt's own targets pull 0 and 1 a little inwards, which vanishes as n grows; this is plain logistic regression.
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    model.fit(((score - centre) / scale)[:, None], outcome, sample_weight=vote)
    slope = float(model.coef_[0, 0]) / scale
    if rising and slope < 0:
        return Lines(np.array([0.0]), np.array([mean]))
    return Sigmoid(slope, float(model.intercept_[0]) - slope * centre)


def onto(target: Map, score: FloatArray, vote: FloatArray, axis: Axis) -> Callable[[Map], Onto]:
    """How a group's map becomes one onto the score scale of the group whose map is ``target``."""
    # Equal steps cover the axis; quantiles are where the scores are, should one of them be far out.
    shares = np.linspace(0, 1, 1001)
    at = np.unique(np.concatenate([axis.low + (axis.high - axis.low) * shares, quantiles(score, vote, shares)]))
    value = np.maximum.accumulate(target(at))
    return lambda own: Onto(own, at, value)


def spread(score: FloatArray, vote: FloatArray) -> tuple[float, float]:
    """Weighted mean and standard deviation."""
    centre = float(np.average(score, weights=vote))
    return centre, float(np.sqrt(np.average((score - centre) ** 2, weights=vote)))


def quantiles(score: FloatArray, vote: FloatArray, fractions: FloatArray) -> FloatArray:
    """Distinct weighted quantiles; a weight of two is the same as two rows."""
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(vote[order])
    place = np.searchsorted(reached, fractions * reached[-1] * (1 - 1e-12), side="left")
    return np.unique(score[order][np.minimum(place, score.size - 1)])
