"""Functions from scores to calibrated scores, and how they are fitted: for one score, or for several jointly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.resampling import quantiles
from isonomy.scores.smoothing.kernels import BINS, Axis, Bandwidth, Smoother, local_line, power_sums

if TYPE_CHECKING:
    from isonomy.scores.calibrators import GroupCalibrator

# ---- maps

Map = Callable[[FloatArray], FloatArray]  # one of the functions below, partially applied: it can be pickled
Calibration = Literal["near_unbiased", "published", "binning", "isotonic", "platt"]
_PIECE = 2**16  # rows at a time


def lines(knot: FloatArray, value: FloatArray, score: FloatArray) -> FloatArray:
    """Linear between the knots, constant beyond them; never outside the range of the values, not even by rounding."""
    return np.clip(np.interp(score, knot, value), value.min(), value.max())


def steps(edges: FloatArray, value: FloatArray, score: FloatArray) -> FloatArray:
    """One value per bin; ``edges`` are those between bins."""
    return value[np.searchsorted(edges, score, side="right")]


def sigmoid(slope: float, intercept: float, score: FloatArray) -> FloatArray:
    return np.asarray(expit(slope * score + intercept))


def identity(score: FloatArray) -> FloatArray:
    """Scores unchanged, also beyond the fitted range."""
    return score


def matched(source: Map, knot: FloatArray, value: FloatArray, score: FloatArray) -> FloatArray:
    """The score at which the target's nondecreasing curve (``knot``, ``value``) has this group's value."""
    rising = np.concatenate(([True], np.diff(value) > 0))
    return np.interp(source(score), value[rising], knot[rising])


def fit_map(score: FloatArray, outcome: FloatArray, vote: FloatArray, axis: Axis, calibrator: GroupCalibrator) -> Map:
    """The map of one group, by the method and options of the ``calibrator``.

    Votes are in the unit of users (or rows): their total is the group's number of them.
    """
    method, bandwidth, monotone = calibrator.method, calibrator.bandwidth, calibrator.monotone
    if method == "isotonic":
        fitted = IsotonicRegression(out_of_bounds="clip").fit(score, outcome, sample_weight=vote)
        return partial(lines, fitted.X_thresholds_, fitted.y_thresholds_)
    if method == "platt":
        return platt(score, outcome, vote, rising=monotone)
    edges = np.unique(quantiles(score, vote, np.arange(calibrator.bins + 1) / calibrator.bins))
    binning = method == "binning"
    # Bins between the inner edges, or the scores nearest to each edge.
    between = edges[1:-1] if binning else (edges[1:] + edges[:-1]) / 2
    place = np.searchsorted(between, score, side="right" if binning else "left")
    mass = np.bincount(place, vote, between.size + 1).astype(np.float64)
    if binning:
        total, occupied = np.bincount(place, vote * outcome, mass.size).astype(np.float64), mass > 0
        # Ties can leave a bin empty: it takes the value of its neighbor.
        value = np.interp(np.arange(mass.size), np.flatnonzero(occupied), total[occupied] / mass[occupied])
    else:
        width = Bandwidth.checked(axis, float(vote.sum()), bandwidth, edges)
        if bandwidth is None and method == "near_unbiased":  # steep curves and scores on a lattice need narrower ones
            width = width.cross_validated(*joined(score, outcome, vote, axis))
        smoother = Smoother(edges, width.widths(edges))
        power, total = np.zeros((3, edges.size)), np.zeros((2, edges.size))
        for start in range(0, score.size, _PIECE):
            part = slice(start, start + _PIECE)
            sums = power_sums(smoother.powers(smoother.scaled(score[part])), vote[part], vote[part] * outcome[part])
            power, total = power + sums[0], total + sums[1]
        value = total[0] / power[0] if method == "published" else local_line(power, total)
        # Between two score scales a curve need not be an outcome: bounds would only map unlike scores onto one.
        value = np.clip(value, outcome.min(), outcome.max()) if calibrator.onto is None else value
    if monotone:
        weight = np.maximum(mass, 1e-12)
        value = np.asarray(IsotonicRegression().fit_transform(np.arange(value.size), value, sample_weight=weight))
    return partial(steps, between, value) if binning else partial(lines, edges, value)


def joined(score: FloatArray, outcome: FloatArray, vote: FloatArray, axis: Axis) -> tuple[FloatArray, ...]:
    """The mean score, the votes and the votes times outcomes in each of 256 bins of the axis that has rows."""
    place = axis.bins.index(score) // (BINS // 256)
    weighted = (vote, vote * outcome, vote * score)
    mass, total, moment = (np.bincount(place, values, 256).astype(np.float64) for values in weighted)
    occupied = mass > 0
    return moment[occupied] / mass[occupied], mass[occupied], total[occupied]


def platt(score: FloatArray, outcome: FloatArray, vote: FloatArray, *, rising: bool = False) -> Map:
    """Logistic regression; the mean outcome if scores are all equal, or if the curve falls and may not."""
    mean = float(np.average(outcome, weights=vote))
    center, scale = mean_and_deviation(score, vote)
    # Equal scores have a mean, and hence a spread, that is off by rounding: never exactly zero.
    if mean not in (0.0, 1.0) and scale > 1e-12 * float(np.abs(score).max()):
        # Platt's targets pull 0 and 1 inwards, which vanishes as n grows; this is plain logistic regression.
        # Newton's method converges to the last digits, so that no machine's rounding shows in an answer.
        model = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-12, max_iter=1000)
        model.fit(((score - center) / scale)[:, None], outcome, sample_weight=vote)
        slope = float(model.coef_[0, 0]) / scale
        if not rising or slope >= 0:
            return partial(sigmoid, slope, float(model.intercept_[0]) - slope * center)
    return partial(lines, np.array([0.0]), np.array([mean]))


def onto(target: Map, score: FloatArray, vote: FloatArray, axis: Axis) -> Callable[[Map], Map]:
    """How a group's map becomes one onto the score scale of the group whose map is ``target``."""
    # Equal steps cover the axis; quantiles follow the scores if one of them is far out.
    shares = np.linspace(0, 1, 1001)
    knot = np.unique(np.concatenate([axis.low + (axis.high - axis.low) * shares, quantiles(score, vote, shares)]))
    value = np.maximum.accumulate(target(knot))
    return lambda source: partial(matched, source, knot, value)


def mean_and_deviation(score: FloatArray, vote: FloatArray) -> tuple[float, float]:
    center = float(np.average(score, weights=vote))
    return center, float(np.sqrt(np.average((score - center) ** 2, weights=vote)))


# ---- surfaces

GRID = {1: 201, 2: 41, 3: 21}  # knots per score, by number of scores: values in between are interpolated


def interpolated(knots: tuple[FloatArray, ...], values: FloatArray, scores: FloatArray) -> FloatArray:
    """Linear between the knots, constant beyond; ``values``: (knots of each score..., outcomes)."""
    from scipy.interpolate import RegularGridInterpolator

    inside = np.column_stack([np.clip(s, k[0], k[-1]) for s, k in zip(scores.T, knots, strict=True)])
    return np.asarray(RegularGridInterpolator(knots, values)(inside))


def neighbor_means(
    fitted: FloatArray, outcomes: FloatArray, vote: FloatArray, width: FloatArray, scores: FloatArray
) -> FloatArray:
    """Product-kernel means evaluated at each row: for more scores than a lattice can hold."""
    means = np.empty((len(scores), outcomes.shape[1]))
    for start in range(0, len(scores), 512):
        u = (scores[start : start + 512, None, :] - fitted) / width
        distance = np.einsum("ijk,ijk->ij", u, u)
        # Relative to the nearest row, so that a far row still has a neighbor.
        k = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True))) * vote
        means[start : start + 512] = (k @ outcomes) / k.sum(axis=1, keepdims=True)
    return means


def each_predicted(regressors: Sequence[Any], scores: FloatArray) -> FloatArray:
    return np.column_stack([regressor.predict(scores) for regressor in regressors])


def fit_surface(scores: FloatArray, outcomes: FloatArray, vote: FloatArray, bandwidth: float | None = None) -> Map:
    """Product-kernel regression; ``bandwidth`` in standard deviations of each score, by default n^(-1/(K + 4))."""
    many = scores.shape[1]
    factor = bandwidth or float(vote.sum()) ** (-1 / (many + 4))
    width = np.array([_scale(score, vote) for score in scores.T]) * factor
    if many not in GRID:
        return partial(neighbor_means, scores, outcomes, vote, width)
    knots = tuple(_knots(s, vote, GRID[many]) for s in scores.T)
    return partial(interpolated, knots, _lattice(scores, outcomes, vote, width, knots))


def _scale(score: FloatArray, vote: FloatArray) -> float:
    """Standard deviation without the last percent on either side; of all scores if the rest are equal; else 1."""
    ends = quantiles(score, vote, np.array([0.01, 0.99]))
    floor = 1e-12 * float(np.abs(score).max())  # the spread of equal scores is rounding
    for values in (np.clip(score, ends[0], ends[-1]), score):
        if (deviation := mean_and_deviation(values, vote)[1]) > floor:
            return deviation
    return 1.0


def _knots(score: FloatArray, vote: FloatArray, size: int) -> FloatArray:
    """Half of them at quantiles, where the scores are, half in equal steps between the 1 and 99 % quantiles.

    Equal steps alone would leave most scores between two knots if one score lay far out; quantiles alone would leave
    the tails between two knots if many scores were equal.
    """
    low, high = float(score.min()), float(score.max())
    if not high > low:
        half = max(0.5, 1e-9 * abs(low))
        return np.array([low - half, low + half])
    ends = quantiles(score, vote, np.array([0.01, 0.99]))
    even = np.linspace(ends[0], ends[-1], size // 2)
    return np.unique(np.concatenate([[low, high], even, quantiles(score, vote, np.linspace(0, 1, size - size // 2))]))


def _lattice(
    scores: FloatArray, outcomes: FloatArray, vote: FloatArray, width: FloatArray, knots: tuple[FloatArray, ...]
) -> FloatArray:
    """Local-linear regression at the knots. The kernel is a product, so sums over rows are matrix products."""
    many, shape = len(knots), tuple(knot.size for knot in knots)
    # Monomials of degree up to 2 in the scores, and outcomes times those up to 1; centered, against rounding.
    center = np.average(scores, axis=0, weights=vote)
    linear = np.column_stack([np.ones(len(scores)), scores - center])
    pairs = [(a, b) for a in range(many + 1) for b in range(a, many + 1)]
    columns = [linear[:, a] * linear[:, b] for a, b in pairs]
    columns += [outcomes[:, k] * linear[:, a] for k in range(outcomes.shape[1]) for a in range(many + 1)]
    sums = np.zeros((len(columns), *shape))
    for start in range(0, len(scores), 2**13):
        part = slice(start, start + 2**13)
        kernels = [
            np.exp(-0.5 * ((s[part, None] - k) / h) ** 2) for s, k, h in zip(scores.T, knots, width, strict=True)
        ]
        front = kernels[0]
        for more in kernels[1:-1]:
            front = (front[:, :, None] * more[:, None, :]).reshape(len(front), -1)
        for c, column in enumerate(columns):
            value = (vote[part] * column[part])[:, None]
            total = (front * value).sum(axis=0) if many == 1 else (front * value).T @ kernels[-1]
            sums[c] += total.reshape(shape)
    gram = np.zeros((*shape, many + 1, many + 1))
    for c, (a, b) in enumerate(pairs):
        gram[..., a, b] = gram[..., b, a] = sums[c]
    right = np.moveaxis(sums[len(pairs) :], 0, -1).reshape(*shape, outcomes.shape[1], many + 1)
    mass = np.maximum(gram[..., 0, 0], np.finfo(float).tiny)[..., None, None]
    # A small ridge on the slopes: where a knot has hardly any neighbors the fit falls back to their mean.
    # (The scale of the median knot: one far out would set it for all.)
    scale = np.median(np.einsum("...ii->...i", gram / mass)[..., 1:], axis=tuple(range(many)))
    ridge = np.diag([0.0, *(1e-6 * np.maximum(scale, 1e-12))]) + 1e-12 * np.eye(many + 1)
    coefficients = np.linalg.solve(gram / mass + ridge, np.swapaxes(right / mass, -1, -2))  # (..., many + 1, outcomes)
    lattice = np.stack(np.meshgrid(*knots, indexing="ij"), axis=-1) - center
    values = coefficients[..., 0, :] + np.einsum("...a,...ak->...k", lattice, coefficients[..., 1:, :])
    near = gram[..., 0, 0] > 1e-6 * gram[..., 0, 0].max()
    bounded = np.clip(values, outcomes.min(axis=0), outcomes.max(axis=0))
    return np.where(near[..., None], bounded, np.average(outcomes, axis=0, weights=vote))
