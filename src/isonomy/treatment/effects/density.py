"""Kernel densities as the paper draws them: Gaussian kernel, twice Silverman's bandwidth, standardised."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import FloatArray

REACH = 4.0  # standard deviations drawn on either side of zero
_POINTS, _BINS = 161, 2_400


@dataclass(frozen=True, slots=True, eq=False)
class Densities:
    """Densities of several samples on one axis, in standard deviations of the first sample."""

    at: FloatArray
    density: FloatArray
    scale: float

    @classmethod
    def of(cls, samples: Sequence[FloatArray]) -> Densities:
        """Densities of ``samples``, all divided by the standard deviation of the first; NaN is left out."""
        at = np.linspace(-REACH, REACH, _POINTS)
        kept = [s[np.isfinite(s)] for s in samples]
        scale = float(np.std(kept[0])) if len(kept[0]) > 1 else np.nan
        if not (np.isfinite(scale) and scale > 0):
            return cls(at, np.full((len(samples), _POINTS), np.nan), np.nan)
        return cls(at, np.stack([density(s / scale, at) for s in kept]), scale)


def beside_normal(statistics: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The density of statistics, and the standard normal one, on an axis that holds most of them."""
    known = statistics[np.isfinite(statistics)]
    reach = max(REACH, min(float(np.abs(known).max(initial=0.0)), 3 * REACH))
    at = np.linspace(-reach, reach, _POINTS)
    normal = np.exp(-(at**2) / 2) / np.sqrt(2 * np.pi)
    return at, np.stack([density(known, at) if len(known) > 1 else np.full(at.shape, np.nan), normal])


def density(sample: FloatArray, at: FloatArray) -> FloatArray:
    """Gaussian kernel density at the points ``at``; values are binned first, far finer than the bandwidth."""
    width = 2 * silverman(sample)
    if not width > 0:
        return np.full(at.shape, np.nan)
    edges = np.linspace(-3 * REACH, 3 * REACH, _BINS + 1)
    counts = np.histogram(sample, edges)[0]
    middles = (edges[1:] + edges[:-1]) / 2
    used = counts > 0
    z = (at[:, None] - middles[used]) / width
    return np.exp(-(z**2) / 2) @ counts[used] / (len(sample) * width * np.sqrt(2 * np.pi))


def silverman(sample: FloatArray) -> float:
    """Silverman's rule of thumb (1986, p. 48): 0.9 min(sd, IQR / 1.34) n^(-1/5)."""
    low, high = np.quantile(sample, [0.25, 0.75])
    spread = min(float(np.std(sample)), float(high - low) / 1.34)
    return 0.9 * spread * len(sample) ** -0.2
