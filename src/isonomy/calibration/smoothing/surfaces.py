"""Several outcomes as functions of several scores: local lines on a lattice, or means of the neighbours."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.calibration.smoothing.maps import spread
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.quantiles import quantiles

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
class Neighbours:
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
            # Relative to the nearest row, so that a far row still has a neighbour.
            k = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True))) * self.vote
            means[start : start + 512] = (k @ self.outcomes) / k.sum(axis=1, keepdims=True)
        return means


def fit_surface(
    scores: FloatArray, outcomes: FloatArray, vote: FloatArray, bandwidth: float | None = None
) -> Surface | Neighbours:
    """Product-kernel regression; ``bandwidth`` in standard deviations of each score, by default n^(-1/(K + 4))."""
    many = scores.shape[1]
    factor = bandwidth or float(vote.sum()) ** (-1 / (many + 4))
    width = np.array([_scale(score, vote) for score in scores.T]) * factor
    if many not in GRID:
        return Neighbours(scores, outcomes, vote, width)
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
    # Monomials of degree up to 2 in the scores, and outcomes times those up to 1; centred, for the sake of rounding.
    centre = np.average(scores, axis=0, weights=vote)
    linear = np.column_stack([np.ones(len(scores)), scores - centre])
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
    return Surface(knots, _solve(sums, knots, centre, outcomes, vote))


def _solve(
    sums: FloatArray, knots: tuple[FloatArray, ...], centre: FloatArray, outcomes: FloatArray, vote: FloatArray
) -> FloatArray:
    many, shape = len(knots), sums.shape[1:]
    pairs = [(a, b) for a in range(many + 1) for b in range(a, many + 1)]
    gram = np.zeros((*shape, many + 1, many + 1))
    for c, (a, b) in enumerate(pairs):
        gram[..., a, b] = gram[..., b, a] = sums[c]
    right = np.moveaxis(sums[len(pairs) :], 0, -1).reshape(*shape, outcomes.shape[1], many + 1)
    mass = np.maximum(gram[..., 0, 0], np.finfo(float).tiny)[..., None, None]
    # A little ridge on the slopes: where a knot has hardly any neighbours the fit falls back to their mean.
    # (The median knot's scale: one far out would set it for all.)
    scale = np.median(np.einsum("...ii->...i", gram / mass)[..., 1:], axis=tuple(range(many)))
    ridge = np.zeros((many + 1, many + 1))
    ridge[np.arange(1, many + 1), np.arange(1, many + 1)] = 1e-6 * np.maximum(scale, 1e-12)
    mean = np.average(outcomes, axis=0, weights=vote)
    coefficients = np.linalg.solve(
        gram / mass + ridge + 1e-12 * np.eye(many + 1), np.swapaxes(right / mass, -1, -2)
    )  # (..., many + 1, outcomes)
    lattice = np.stack(np.meshgrid(*knots, indexing="ij"), axis=-1) - centre
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
