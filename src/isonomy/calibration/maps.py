"""Functions from a score to a calibrated score, and how some of them are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from isonomy.numerics.arrays import FloatArray


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
    """One value a bin."""

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
        from scipy.special import expit

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

    own: Any
    score: FloatArray
    value: FloatArray  # of the target's curve, nondecreasing

    def __call__(self, score: FloatArray) -> FloatArray:
        """The mapped scores."""
        rising = np.concatenate(([True], np.diff(self.value) > 0))
        return np.interp(self.own(score), self.value[rising], self.score[rising])


Map = Lines | Steps | Sigmoid | Same | Onto


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


def nearest_mass(score: FloatArray, vote: FloatArray, knots: FloatArray) -> FloatArray:
    """Votes nearest to each knot."""
    nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, score)
    return np.maximum(np.bincount(nearest, vote, knots.size), 1e-12)
