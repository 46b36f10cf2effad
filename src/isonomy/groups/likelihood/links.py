"""Scales on which a group's mean is set beside its reference: difference, ratio, odds ratio.

Each is a difference δ = φ(μ) - φ(θ) on the scale of a link φ: the mean itself, its logarithm, its log odds. A ratio is
exp δ. With λ the multiplier of a mean m, dT/dφ(m) = -2 n λ/φ'(m): a `Linked` mean, φ(m) with the multiplier λ/φ'(m),
is again a mean with a likelihood, and whatever holds of differences of means (`profile`, `blocks`) holds of it. T does
not change, only the names of the points along its curve, so a test of "equal" is the same on every scale.

Along the curve λ/φ'(m) falls as m rises: for 0/1 rows λ m = (p - m)/(1 - m) and λ m (1 - m) = p - m; for rows that are
never negative s = λ m solves Σ (x/m - 1)/(1 - s + s x/m) = 0, whose left side falls in s and in m.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.groups.likelihood.means import Binary, Means, Point
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import roots

Values = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """φ (``forward``), its ``inverse``, and 1/φ' (``unit``) with its derivative, all as functions of arrays.

    ``ratio``: whether a disparity is reported as exp δ, 1 where there is no difference, and not as δ itself.
    """

    name: str
    ratio: bool
    forward: Values
    inverse: Values
    unit: Values
    dunit: Values

    @property
    def equal(self) -> float:
        """The disparity of groups that do not differ."""
        return 1.0 if self.ratio else 0.0

    def reported(self, delta: npt.ArrayLike) -> FloatArray:
        """A disparity from its δ."""
        values = np.asarray(delta, dtype=float)
        with np.errstate(over="ignore"):
            return np.exp(values) if self.ratio else values

    def delta(self, disparity: npt.ArrayLike) -> FloatArray:
        """The δ of a disparity; a ratio below 0 is as far as 0."""
        values = np.asarray(disparity, dtype=float)
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(values, 0.0)) if self.ratio else values

    def reach(self, tolerance: float | None) -> float | None:
        """A tolerance on the scale of δ, where it has one size on both sides of no difference."""
        return float(-self.delta(tolerance)) if tolerance and self.ratio else tolerance

    def compared(self, mean: npt.ArrayLike, reference: npt.ArrayLike) -> FloatArray:
        """The disparity of means from references; NaN where there is nothing to compare with."""
        mean, reference = np.asarray(mean, dtype=float), np.asarray(reference, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self is IDENTITY:
                return mean - reference
            if self is LOG:
                return np.where(self.comparable(reference), mean / reference, np.nan)
            odds = (mean / (1.0 - mean)) / (reference / (1.0 - reference))
            return np.where(self.comparable(reference), odds, np.nan)

    def comparable(self, reference: npt.ArrayLike) -> BoolArray:
        """Whether anything can be compared with a reference: nothing is a ratio to 0, nor to infinite odds."""
        values = np.asarray(reference, dtype=float)
        nothing = (values == 0) | ((values == 1) & (self is LOGIT))
        return ~(nothing & self.ratio)

    def moved(self, reference: npt.ArrayLike, delta: npt.ArrayLike) -> FloatArray:
        """The mean at ``delta`` from a reference."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return self.inverse(self.forward(np.asarray(reference, dtype=float)) + np.asarray(delta, dtype=float))


def _itself(x: FloatArray) -> FloatArray:
    return x


def _logit(p: FloatArray) -> FloatArray:
    return np.log(p) - np.log1p(-p)


def _expit(x: FloatArray) -> FloatArray:
    return np.where(x > 0, 1.0 / (1.0 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1.0 + np.exp(-np.abs(x))))


IDENTITY = Link("difference", False, _itself, _itself, np.ones_like, np.zeros_like)
LOG = Link("ratio", True, np.log, np.exp, _itself, np.ones_like)
LOGIT = Link("odds_ratio", True, _logit, _expit, lambda m: m * (1.0 - m), lambda m: 1.0 - 2.0 * m)
LINKS = {link.name: link for link in (IDENTITY, LOG, LOGIT)}


class Linked(Means):
    """Means on the scale of a link: ``mean``, ``low`` and ``high`` are φ of theirs; the variance is theirs over φ'²."""

    def __init__(self, natural: Means, link: Link) -> None:
        self.natural, self.link, self.n = natural, link, natural.n
        with np.errstate(divide="ignore", invalid="ignore"):
            self.mean, self.low, self.high = (link.forward(x) for x in (natural.mean, natural.low, natural.high))
            self.variance = natural.variance / link.unit(natural.mean) ** 2

    def ends(self, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """The coordinate is that of the means themselves."""
        return self.natural.ends(index)

    def at(self, coordinate: FloatArray, index: IntArray) -> Point:
        """The same point of the curve under other names."""
        return self.renamed(self.natural.at(coordinate, index))

    def locate(self, mean: FloatArray, index: IntArray) -> Point:
        """The point at which φ of the mean is ``mean``."""
        with np.errstate(over="ignore"):
            return self.renamed(self.natural.locate(self.link.inverse(mean), index))

    def renamed(self, point: Point) -> Point:
        """A point of the means' own curve on this scale."""
        with np.errstate(all="ignore"):
            unit, dunit = self.link.unit(point.mean), self.link.dunit(point.mean)
            return Point(
                multiplier=point.multiplier * unit,
                mean=self.link.forward(point.mean),
                statistic=point.statistic,
                dmultiplier=point.dmultiplier * unit + point.multiplier * dunit * point.dmean,
                dmean=np.where(point.dmean == 0, 0.0, point.dmean / unit),
            )

    def coordinate(self, multiplier: FloatArray, index: IntArray) -> FloatArray:
        """Where λ/φ' has this value; infinite where it never does, and no mean is so far out."""
        if isinstance(self.natural, Binary):
            return self._counted(multiplier, self.natural.mean[index])
        low, high = self.ends(index)
        w = np.zeros(multiplier.shape)
        moving = np.flatnonzero(multiplier != 0)

        def gap(x: FloatArray, active: IntArray) -> tuple[FloatArray, FloatArray]:
            point = self.at(x, index[moving[active]])
            return point.multiplier - multiplier[moving[active]], point.dmultiplier

        with np.errstate(all="ignore"):
            start = multiplier[moving] / self.link.unit(self.natural.mean[index[moving]])
        solution = roots(gap, low[moving], high[moving], x0=start, direction="increasing")
        w[moving] = np.where(solution.ok, solution.x, np.sign(multiplier[moving]) * np.inf)
        return w

    def _counted(self, multiplier: FloatArray, p: FloatArray) -> FloatArray:
        """The mean is explicit: (p - a)/(1 - a) for a ratio, p - a for odds."""
        with np.errstate(all="ignore"):
            mean = (p - multiplier) / (1.0 - multiplier) if self.link is LOG else p - multiplier
            inside = (mean > 0) & (mean < 1) & ((multiplier < 1.0) | (self.link is not LOG))
            away = np.where(inside, multiplier / self.link.unit(mean), np.sign(multiplier) * np.inf)
        if self.link is LOG:  # rows that are all 1 keep their mean while λ m = λ is below 1
            away = np.where((p == 1) & (multiplier < 1.0), multiplier, away)
        return np.where(multiplier == 0, 0.0, away)
