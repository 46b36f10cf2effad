"""Functions from a score to a calibrated score, and how some of them are fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from isonomy.calibration.smoothing import Floats


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Linear between knots, constant beyond them."""

    score: Floats
    value: Floats

    def __call__(self, score: Floats) -> Floats:
        """The calibrated scores."""
        return np.interp(score, self.score, self.value)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """One value a bin."""

    edges: Floats  # between bins
    value: Floats

    def __call__(self, score: Floats) -> Floats:
        """The calibrated scores."""
        return self.value[np.searchsorted(self.edges, score, side="right")]


@dataclass(frozen=True, slots=True, eq=False)
class Sigmoid:
    """1 / (1 + exp(-(slope score + intercept)))."""

    slope: float
    intercept: float

    def __call__(self, score: Floats) -> Floats:
        """The calibrated scores."""
        from scipy.special import expit

        return np.asarray(expit(self.slope * score + self.intercept))


@dataclass(frozen=True, slots=True, eq=False)
class Onto:
    """The score at which the target group's curve has the value that this group's curve has here."""

    own: Any
    score: Floats
    value: Floats  # of the target's curve, nondecreasing

    def __call__(self, score: Floats) -> Floats:
        """The mapped scores."""
        rising = np.concatenate(([True], np.diff(self.value) > 0))
        return np.interp(self.own(score), self.value[rising], self.score[rising])


Map = Lines | Steps | Sigmoid | Onto


def platt(score: Floats, outcome: Floats, vote: Floats, *, rising: bool = False) -> Map:
    """Logistic regression of the outcome on the score; the mean outcome if the curve falls and may not."""
    mean = float(np.average(outcome, weights=vote))
    if mean in (0.0, 1.0):
        return Lines(np.array([0.0]), np.array([mean]))
    # Platt's own targets pull 0 and 1 a little inwards, which vanishes as n grows; this is plain logistic regression.
    centre, scale = float(np.average(score, weights=vote)), float(np.std(score)) or 1.0
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    model.fit(((score - centre) / scale)[:, None], outcome, sample_weight=vote)
    slope = float(model.coef_[0, 0]) / scale
    if rising and slope < 0:
        return Lines(np.array([0.0]), np.array([mean]))
    return Sigmoid(slope, float(model.intercept_[0]) - slope * centre)


def quantiles(score: Floats, vote: Floats, fractions: Floats) -> Floats:
    """Distinct weighted quantiles; a weight of two is the same as two rows."""
    order = np.argsort(score, kind="stable")
    reached = np.cumsum(vote[order])
    place = np.searchsorted(reached, fractions * reached[-1] * (1 - 1e-12), side="left")
    return np.unique(score[order][np.minimum(place, score.size - 1)])


def nearest_mass(score: Floats, vote: Floats, knots: Floats) -> Floats:
    """Votes nearest to each knot."""
    nearest = np.searchsorted((knots[1:] + knots[:-1]) / 2, score)
    return np.maximum(np.bincount(nearest, vote, knots.size), 1e-12)
