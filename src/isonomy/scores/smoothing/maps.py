"""Functions from scores to calibrated scores, and how they are fitted: of one score, or of several together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.resampling import quantiles
from isonomy.scores.smoothing.kernels import Axis, Bandwidth, line_sums, local_line

# ---- maps

Map = Callable[[FloatArray], FloatArray]  # one of the functions below, partially applied: it can be pickled
Calibration = Literal["near_unbiased", "published", "binning", "isotonic", "platt"]


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
        held = mass > 0  # ties can leave a bin empty: it takes the value of its neighbor
        value = np.interp(np.arange(mass.size), np.flatnonzero(held), total[held] / mass[held])
        return partial(steps, inner, self._rising(value, mass))

    def _smoothed(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, at: FloatArray) -> FloatArray:
        width = Bandwidth.of(self.axis, float(vote.sum()), self.bandwidth, at).at(at)
        weights, pieces = np.stack([vote, vote * outcome]), range(0, score.size, 2**16)
        parts = [line_sums(at, width, score[i : i + 2**16], weights[:, i : i + 2**16]) for i in pieces]
        sums = np.sum(parts, axis=0)
        value = sums[3] / sums[0] if self.method == "published" else local_line(*sums)
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
    center, scale = spread(score, vote)
    # The mean of equal scores is off by some rounding, and so is their spread: never exactly zero.
    if mean in (0.0, 1.0) or scale <= 1e-12 * float(np.abs(score).max()):
        return partial(lines, np.array([0.0]), np.array([mean]))
    # Platt's own targets pull 0 and 1 a little inwards, which vanishes as n grows; this is plain logistic regression.
    model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000)
    model.fit(((score - center) / scale)[:, None], outcome, sample_weight=vote)
    slope = float(model.coef_[0, 0]) / scale
    if rising and slope < 0:
        return partial(lines, np.array([0.0]), np.array([mean]))
    return partial(sigmoid, slope, float(model.intercept_[0]) - slope * center)


def onto(target: Map, score: FloatArray, vote: FloatArray, axis: Axis) -> Callable[[Map], Map]:
    """How a group's map becomes one onto the score scale of the group whose map is ``target``."""
    # Equal steps cover the axis; quantiles are where the scores are, should one of them be far out.
    shares = np.linspace(0, 1, 1001)
    at = np.unique(np.concatenate([axis.low + (axis.high - axis.low) * shares, quantiles(score, vote, shares)]))
    value = np.maximum.accumulate(target(at))
    return lambda own: partial(at_value, own, at, value)


def spread(score: FloatArray, vote: FloatArray) -> tuple[float, float]:
    """Weighted mean and standard deviation."""
    center = float(np.average(score, weights=vote))
    return center, float(np.sqrt(np.average((score - center) ** 2, weights=vote)))


# ---- surfaces

GRID = {1: 201, 2: 41, 3: 21}  # knots per score, by number of scores: values in between are interpolated


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """Local-linear fits on a lattice of scores, linear in between, constant beyond."""

    knots: tuple[FloatArray, ...]
    values: FloatArray  # (knots of each score..., outcomes)

    def predict(self, scores: FloatArray) -> FloatArray:
        """Expected outcomes, one column each."""
        from scipy.interpolate import RegularGridInterpolator

        inside = np.column_stack([np.clip(s, k[0], k[-1]) for s, k in zip(scores.T, self.knots, strict=True)])
        return np.asarray(RegularGridInterpolator(self.knots, self.values)(inside))


@dataclass(frozen=True, slots=True, eq=False)
class Neighbors:
    """Product-kernel means evaluated at each row: for more scores than a lattice can hold."""

    scores: FloatArray
    outcomes: FloatArray
    vote: FloatArray
    width: FloatArray

    def predict(self, scores: FloatArray) -> FloatArray:
        """Expected outcomes, one column each."""
        means = np.empty((len(scores), self.outcomes.shape[1]))
        for start in range(0, len(scores), 512):
            u = (scores[start : start + 512, None, :] - self.scores) / self.width
            distance = np.einsum("ijk,ijk->ij", u, u)
            # Relative to the nearest row, so that a far row still has a neighbor.
            k = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True))) * self.vote
            means[start : start + 512] = (k @ self.outcomes) / k.sum(axis=1, keepdims=True)
        return means


def fit_surface(
    scores: FloatArray, outcomes: FloatArray, vote: FloatArray, bandwidth: float | None = None
) -> Surface | Neighbors:
    """Product-kernel regression; ``bandwidth`` in standard deviations of each score, by default n^(-1/(K + 4))."""
    many = scores.shape[1]
    factor = bandwidth or float(vote.sum()) ** (-1 / (many + 4))
    width = np.array([_scale(score, vote) for score in scores.T]) * factor
    if many not in GRID:
        return Neighbors(scores, outcomes, vote, width)
    return _surface(scores, outcomes, vote, width)


def _scale(score: FloatArray, vote: FloatArray) -> float:
    """Standard deviation without the last percent on either side; of all scores if the rest are equal; else 1."""
    ends = quantiles(score, vote, np.array([0.01, 0.99]))
    floor = 1e-12 * float(np.abs(score).max())  # equal scores have a spread of some rounding
    for values in (np.clip(score, ends[0], ends[-1]), score):
        if (deviation := spread(values, vote)[1]) > floor:
            return deviation
    return 1.0


def _surface(scores: FloatArray, outcomes: FloatArray, vote: FloatArray, width: FloatArray) -> Surface:
    """Local-linear regression on a lattice. The kernel is a product, so sums over rows are matrix products."""
    many = scores.shape[1]
    knots = tuple(_knots(s, vote, GRID[many]) for s in scores.T)
    # Monomials of degree up to 2 in the scores, and outcomes times those up to 1; centered, for the sake of rounding.
    center = np.average(scores, axis=0, weights=vote)
    linear = np.column_stack([np.ones(len(scores)), scores - center])
    columns = [linear[:, a] * linear[:, b] for a in range(many + 1) for b in range(a, many + 1)]
    columns += [outcomes[:, k] * linear[:, a] for k in range(outcomes.shape[1]) for a in range(many + 1)]
    shape = tuple(k.size for k in knots)
    sums = np.zeros((len(columns), *shape))
    for start in range(0, len(scores), 2**13):
        part = slice(start, start + 2**13)
        each = [np.exp(-0.5 * ((s[part, None] - k) / h) ** 2) for s, k, h in zip(scores.T, knots, width, strict=True)]
        front = each[0]
        for more in each[1:-1]:
            front = (front[:, :, None] * more[:, None, :]).reshape(len(front), -1)
        for c, column in enumerate(columns):
            value = (vote[part] * column[part])[:, None]
            total = (front * value).sum(axis=0) if many == 1 else (front * value).T @ each[-1]
            sums[c] += total.reshape(shape)
    return Surface(knots, _solve(sums, knots, center, outcomes, vote))


def _solve(
    sums: FloatArray, knots: tuple[FloatArray, ...], center: FloatArray, outcomes: FloatArray, vote: FloatArray
) -> FloatArray:
    many, shape = len(knots), sums.shape[1:]
    pairs = [(a, b) for a in range(many + 1) for b in range(a, many + 1)]
    gram = np.zeros((*shape, many + 1, many + 1))
    for c, (a, b) in enumerate(pairs):
        gram[..., a, b] = gram[..., b, a] = sums[c]
    right = np.moveaxis(sums[len(pairs) :], 0, -1).reshape(*shape, outcomes.shape[1], many + 1)
    mass = np.maximum(gram[..., 0, 0], np.finfo(float).tiny)[..., None, None]
    # A little ridge on the slopes: where a knot has hardly any neighbors the fit falls back to their mean.
    # (The median knot's scale: one far out would set it for all.)
    scale = np.median(np.einsum("...ii->...i", gram / mass)[..., 1:], axis=tuple(range(many)))
    ridge = np.zeros((many + 1, many + 1))
    ridge[np.arange(1, many + 1), np.arange(1, many + 1)] = 1e-6 * np.maximum(scale, 1e-12)
    mean = np.average(outcomes, axis=0, weights=vote)
    coefficients = np.linalg.solve(
        gram / mass + ridge + 1e-12 * np.eye(many + 1), np.swapaxes(right / mass, -1, -2)
    )  # (..., many + 1, outcomes)
    lattice = np.stack(np.meshgrid(*knots, indexing="ij"), axis=-1) - center
    values = coefficients[..., 0, :] + np.einsum("...a,...ak->...k", lattice, coefficients[..., 1:, :])
    near = gram[..., 0, 0] > 1e-6 * gram[..., 0, 0].max()
    low, high = outcomes.min(axis=0), outcomes.max(axis=0)
    return np.where(near[..., None], np.clip(values, low, high), mean)


def _knots(score: FloatArray, vote: FloatArray, size: int) -> FloatArray:
    """Half of them at quantiles, where the scores are, half in equal steps between the 1 and 99 % quantiles.

    Equal steps alone would leave the bulk between two knots if one score lay far out, quantiles alone would leave the
    tails between two knots if many scores were equal.
    """
    low, high = float(score.min()), float(score.max())
    if not high > low:
        half = max(0.5, 1e-9 * abs(low))
        return np.array([low - half, low + half])
    ends = quantiles(score, vote, np.array([0.01, 0.99]))
    steps = np.linspace(ends[0], ends[-1], size // 2)
    return np.unique(np.concatenate([[low, high], steps, quantiles(score, vote, np.linspace(0, 1, size - size // 2))]))
