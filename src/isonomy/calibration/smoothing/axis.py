"""A fine axis of scores: its bins, its quantiles, and the functions that are linear between its bins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray

BINS = 1024  # of the score axis, for the pooled curve and the default grid
PERCENTS = (1, *range(5, 100, 5), 99)
_ZOOMS = 8  # of the axis, each by up to 512
_PIECE = 2**15


@dataclass(frozen=True, slots=True)
class Axis:
    """The range of scores from ``low`` to ``high``, cut into `BINS` equal bins; scores beyond it are in the outer ones.

    ``whole`` is [0, 1], or the scores' range if a score lies outside that. ``span`` is where the scores lie, stray ones
    aside: bandwidths follow it.
    """

    low: float
    high: float
    span: tuple[float, float]
    whole: tuple[float, float]

    @classmethod
    def of(cls, low: float, high: float) -> Axis:
        """The axis for scores from ``low`` to ``high``."""
        ends = (0.0, 1.0) if 0 <= low <= high <= 1 else (low, high)
        return cls(*ends, ends, ends)

    def focused(self, histogram: Callable[[Axis], FloatArray]) -> Axis:
        """The axis for the scores that ``histogram`` counts in the bins of any axis.

        The span is the range of the central 90 % and a quarter of it more at either end: [0, 1] for scores that fill
        it. Where the central 98 % fill less than a quarter of the axis, the axis is narrowed to twice their range.
        """
        axis = self
        for _ in range(_ZOOMS):
            counts = histogram(axis)
            if not counts.any():
                return self  # no score weighs anything: whoever reads the rows will say so
            first, low, high, last = axis.quantiles(counts, (0.01, 0.05, 0.95, 0.99))
            if last - first >= axis.length / 4:
                more = (high - low) / 4
                return replace(axis, span=(max(axis.low, low - more), min(axis.high, high + more)))
            more = (last - first) / 2
            axis = replace(axis, low=max(axis.low, first - more), high=min(axis.high, last + more))
        return self  # nearly every score is one and the same number

    def focused_on(self, score: FloatArray, weight: FloatArray | None = None) -> Axis:
        """The axis for these scores."""
        return self.focused(lambda axis: axis.histogram(score, weight))

    @property
    def published(self) -> Axis:
        """The axis with the bandwidths of the paper, which follow [0, 1]."""
        return replace(self, span=self.whole)

    @property
    def length(self) -> float:
        """Length of the axis; 1 when every score is the same, so that nothing is divided by zero."""
        return self.high - self.low if self.high > self.low else 1.0

    @property
    def unit(self) -> bool:
        """Whether scores can be read as probabilities."""
        return self.whole == (0.0, 1.0)

    @property
    def centres(self) -> FloatArray:
        """The middle of each bin."""
        return self.low + self.length * (np.arange(BINS) + 0.5) / BINS

    def bin(self, score: FloatArray) -> IntArray:
        """The bin of each score."""
        return np.clip(np.floor((score - self.low) * (BINS / self.length)), 0, BINS - 1).astype(np.intp)

    def histogram(self, score: FloatArray, weight: FloatArray | None = None) -> FloatArray:
        """Weight (rows, without one) in each bin, some thousand at a time: the steps in between stay in the cache."""
        total = np.zeros(BINS)
        for start in range(0, score.size, _PIECE):
            part = slice(start, start + _PIECE)
            total += np.bincount(self.bin(score[part]), None if weight is None else weight[part], BINS)
        return total

    def quantiles(self, weight: FloatArray, fractions: Sequence[float]) -> FloatArray:
        """Quantiles of a histogram on this axis, linear inside a bin."""
        reached = np.cumsum(weight)
        wanted = np.asarray(fractions) * reached[-1]
        place = np.minimum(np.searchsorted(reached, wanted), int(np.flatnonzero(weight)[-1]))
        inside = (wanted - (reached - weight)[place]) / weight[place]
        return self.low + self.length * (place + np.clip(inside, 0, 1)) / BINS

    def grid(self, weight: FloatArray) -> FloatArray:
        """The paper's quantiles of a histogram; points in one bin of the axis are taken once."""
        points = self.quantiles(weight, [percent / 100 for percent in PERCENTS])
        _, first = np.unique(self.bin(points), return_index=True)
        return points[first]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A function of the score: linear between the centres of the axis's bins, constant beyond the ends."""

    axis: Axis
    values: FloatArray  # at `Axis.centres`

    def __call__(self, score: FloatArray) -> FloatArray:
        """Value at each score."""
        centres = self.axis.centres
        position = np.floor((score - centres[0]) * (BINS / self.axis.length))
        index = np.clip(position, 0, BINS - 2).astype(np.intp)
        intercept, slope = self.pieces
        return intercept[index] + slope[index] * np.clip(score, centres[0], centres[-1])

    @property
    def pieces(self) -> tuple[FloatArray, FloatArray]:
        """Intercept and slope of each of the BINS - 1 linear pieces."""
        slope = np.diff(self.values) * (BINS / self.axis.length)
        return self.values[:-1] - slope * self.axis.centres[:-1], slope
