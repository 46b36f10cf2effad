"""Two groups compared under many composite scores at once: one law for all weights, from the same sums by user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isonomy.calibration.smoothing.axis import BINS
from isonomy.calibration.smoothing.bands import beyond
from isonomy.calibration.smoothing.contrasts import Contrast, Pair
from isonomy.calibration.smoothing.moments import Moments
from isonomy.calibration.smoothing.walks import Walk, span
from isonomy.inference.simultaneous import normal_draws
from isonomy.numerics import resampling
from isonomy.numerics.arrays import BoolArray, FloatArray

STEPS = {1: 1, 2: 10, 3: 5, 4: 3}  # of the lattice of weights, by the number of scores
_LINES = 2**11
NAN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class CompositePair:
    """Two groups under one composite score."""

    moments: Moments
    contrast: Contrast
    usable: BoolArray
    walk: Walk

    def functionals(self, which: int) -> FloatArray:
        """(2 BINS, P) of the first or the second group: the points that are usable, then the walk."""
        steps = self.walk.functionals[which] if self.walk.known else np.empty((2, BINS, 0))
        joined = np.concatenate([self.contrast.functionals[which][..., self.usable], steps], axis=-1)
        return joined.reshape(2 * BINS, -1)


@dataclass(frozen=True, slots=True, eq=False)
class Uniform:
    """P-value of "equal under every weight", of each weight alone, and the clearest difference under each."""

    pvalue: float
    each: FloatArray  # (W,)
    difference: FloatArray  # (W,)
    at: FloatArray  # (W,): the point of the grid where it is


def simplex(scores: int) -> FloatArray:
    """Weights of at least 0 that sum to 1, on a lattice: (W, scores)."""
    steps = STEPS[scores]
    bars = combinations(range(steps + scores - 1), scores - 1)
    ends = [(-1, *bar, steps + scores - 1) for bar in bars]
    return np.array([np.diff(end) - 1 for end in ends], dtype=np.float64) / steps


def uniform(parts: Sequence[CompositePair], pair: Pair, draws: int, rng: np.random.Generator) -> Uniform:
    """The smallest p-value over all weights of points and walk, by the joint law of all of them."""
    functionals = [[part.functionals(which) for which in (0, 1)] for part in parts]
    sizes = np.array([own[0].shape[1] for own in functionals])
    ends = np.concatenate([[0], np.cumsum(sizes)])
    if not ends[-1]:
        none = np.full(len(parts), NAN)
        return Uniform(NAN, none, none, none)
    covariance = _covariance(parts, pair, functionals, int(ends[-1]))
    scale = np.sqrt(np.maximum(np.diagonal(covariance), np.finfo(float).tiny))
    z = normal_draws(covariance / scale[:, None] / scale[None, :], draws, rng)
    each, difference, at = np.full((3, len(parts)), NAN)
    smallest = np.ones(draws)
    for k, part in enumerate(parts):
        many = int(part.usable.sum())
        own, own_scale = z[:, ends[k] : ends[k + 1]], scale[ends[k] : ends[k + 1]]
        pvalues, drawn = [], []
        if many:
            own_covariance, df = part.contrast.law(part.moments, pair)
            se = np.where(part.usable, part.contrast.errors(own_covariance), np.nan)
            score, _ = beyond(part.contrast.estimate, se, df, None)
            clearest = int(np.nanargmax(np.abs(score)))
            difference[k], at[k] = part.contrast.estimate[clearest], clearest
            maxima = np.abs(own[:, :many]).max(axis=1)
            ascending = np.sort(maxima)
            pvalues.append(float(resampling.among(np.abs(score[clearest]), ascending)))
            drawn.append(resampling.among(maxima, ascending))
        if part.walk.known:
            ranges = span(np.cumsum(own[:, many:] * own_scale[many:], axis=1))
            ascending = np.sort(ranges)
            pvalues.append(float(resampling.among(part.walk.statistic(None) * (1 - 1e-12), ascending)))
            drawn.append(resampling.among(ranges, ascending))
        if pvalues:
            least = np.min(drawn, axis=0)
            each[k] = resampling.pvalue(int((least <= min(pvalues)).sum()), draws)
            # A draw's rank under this weight alone: weights with one test and with two are compared fairly.
            ranks = resampling.among(-least, np.sort(-least))
            smallest = np.minimum(smallest, ranks)
    pvalue = float(resampling.pvalue(int((smallest <= np.nanmin(each) * (1 + 1e-12)).sum()), draws))
    return Uniform(pvalue, each, difference, at)


def _covariance(
    parts: Sequence[CompositePair], pair: Pair, functionals: Sequence[Sequence[FloatArray]], size: int
) -> FloatArray:
    """Products, over users, of what they add to each number under each weight."""
    covariance = np.zeros((size, size))
    users = parts[0].moments.tables[0].shape[0]
    for start in range(0, users, _LINES):
        lines = slice(start, start + _LINES)
        influence = np.hstack(
            [
                sum(part.moments.tables[g][lines] @ f for g, f in zip(pair, own, strict=True))
                for part, own in zip(parts, functionals, strict=True)
            ]
        )
        covariance += influence.T @ influence
    return covariance
