"""Tests and intervals of 0/1 outcomes where events are few: from the law of the counts, not from estimated variances.

An arm without events has an estimated variance of 0, and a difference of means that looks certain. Here the law under
the null value b is used instead.

Ratios: x1 events among n1 treated and x0 among n0 controls. Where the effect is r = P - b, x1 given x1 + x0 is binomial
with probability r n1 / (r n1 + n0): exactly so for rare events, and with counts and sizes divided by 1 - m (the
binomial's variance over the Poisson's) for others. P-values are mid-p.

Differences: the score statistic, its variance and skewness those of two binomials whose means differ by P - b and have
the observed total; Pearson's type III law has all three moments.

The rest of a group is many such arms added up, each with its share: the same laws, with as many events as give a sum of
its mean and variance. Limits of a bias combine those of both, as in `Gap`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special

from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.treatment.effects.ratio import Ratio, of_others

MANY_EVENTS = 400  # from so many on, Welch's law and that of the counts agree to what a table shows
SKEW_EVENTS = 25.0  # equivalents of events that Welch's law needs at 0.05 (Cochran 1977, section 2.15)
_WELCH = 8.0  # events of a 0/1 outcome that it needs there
FAR = 37.0  # tails beyond this standard normal quantile are taken to be those at it, about 1e-299
_STEPS = 60


def least_events(groups: int, alpha: float, *, binary: bool = True, counted: bool = True) -> float:
    """Events in the smaller arm below which a group is not tested; they grow with the number of groups.

    With fewer than log(2 groups / alpha) expected events of a 0/1 outcome not even an arm without any could be told
    from chance, since that has probability exp(-expected). Without the law of the counts (``counted``) a test rests on
    means that are nearly normal as far out as the adjusted quantile z: tails of a skewed mean of m events are off by a
    share of about z^6 / m. Any other outcome is measured by its own skewness.
    """
    needed = float(np.log(2 * max(groups, 1) / alpha))
    if not binary:
        return SKEW_EVENTS * needed / float(np.log(2 / alpha))
    if counted:
        return needed
    quantiles = special.ndtri([alpha / (2 * max(groups, 1)), 0.025])
    return max(needed, _WELCH * float(quantiles[0] / quantiles[1]) ** 6)


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """An estimate, and the standard normal quantile of the p-value of every null: falling, 0 near the estimate."""

    value: FloatArray
    low: FloatArray  # no null below and above these is possible
    high: FloatArray
    quantile: Callable[[FloatArray], FloatArray]

    def limits(self, t: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """The nulls whose quantile is t, and -t."""
        t = np.broadcast_to(np.asarray(t, dtype=float), self.value.shape)
        low = crossing(lambda null: self.quantile(null) - t, self.low, self.value)
        return low, crossing(lambda null: self.quantile(null) + t, self.value, self.high)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """left - right for laws of any shape: limits by Zou and Donner, and the quantile of every null."""

    left: Law
    right: Law

    @property
    def value(self) -> FloatArray:
        """left - right."""
        return self.left.value - self.right.value

    def limits(self, t: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limit at the standard normal quantile ``t``."""
        (left_low, left_high), (right_low, right_high) = self.left.limits(t), self.right.limits(t)
        below = np.hypot(self.left.value - left_low, right_high - self.right.value)
        above = np.hypot(left_high - self.left.value, self.right.value - right_low)
        return self.value - below, self.value + above

    def quantile(self, null: FloatArray | float = 0.0) -> FloatArray:
        """The quantile at which a limit reaches ``null``, with the sign of value - null.

        There the limits of left and right lie on a circle around the estimates, whose radius is the distance to the
        null, and their quantiles are equal: one equation for the angle.
        """
        distance = self.value - null
        sign, radius = np.sign(distance), np.abs(distance)

        def ends(angle: FloatArray) -> tuple[FloatArray, FloatArray]:
            left = self.left.quantile(self.left.value - sign * radius * np.cos(angle))
            return sign * left, -sign * self.right.quantile(self.right.value + sign * radius * np.sin(angle))

        angle = crossing(lambda at: np.subtract(*ends(at)), np.zeros(sign.shape), np.full(sign.shape, np.pi / 2))
        left, right = ends(angle)
        # A law may end at its estimate (no event in an arm): the other one then decides.
        return np.where(np.isnan(distance), np.nan, sign * np.maximum(np.where(left < FAR, left, right), 0.0))


def crossing(function: Callable[[FloatArray], FloatArray], low: FloatArray, high: FloatArray) -> FloatArray:
    """Where each of many falling functions crosses zero; the end that is nearest to it where none does.

    Regula falsi with the Illinois weights, and the middle of the bracket wherever that is slow or not finite.
    """
    a, b = np.array(low, dtype=float), np.array(high, dtype=float)
    at_a, at_b = function(a), function(b)
    a, b = np.where(at_b >= 0, b, a), np.where(at_a <= 0, a, b)  # no crossing: both ends are the answer
    for step in range(_STEPS):
        width = b - a
        if not (width > 1e-10 * (np.abs(a) + np.abs(b)) + 1e-12).any():
            break
        with np.errstate(divide="ignore", invalid="ignore"):
            x = b - at_b * width / (at_b - at_a)
        middle = a + width / 2
        x = np.where(np.isfinite(x) & (x > a) & (x < b) & (step % 3 < 2), x, middle)
        value = function(x)
        above = value > 0
        at_b = np.where(above, np.where(at_b < 0, at_b / 2, at_b), value)
        at_a = np.where(above, value, at_a / 2)
        a, b = np.where(above, x, a), np.where(above, b, x)
    return a


def normal_quantile(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The standard normal quantile of two tails, from the smaller of them; positive where ``lower`` is the smaller."""
    size = -special.ndtri(np.clip(np.minimum(lower, upper), 1e-299, 0.5))
    return np.where(lower < upper, size, -size)


def binomial_tails(x: FloatArray, n: FloatArray, chance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mid-p tails P(X < x) + P(X = x) / 2 and P(X > x) + P(X = x) / 2; neither count need be whole."""
    a, b = np.maximum(x, 1e-12), np.maximum(n - x, 1e-12)
    lower = (special.betainc(b, a + 1, 1 - chance) + special.betainc(b + 1, a, 1 - chance)) / 2
    upper = (special.betainc(a, b + 1, chance) + special.betainc(a + 1, b, chance)) / 2
    return lower, upper


def skewed_tails(z: FloatArray, skewness: FloatArray) -> tuple[FloatArray, FloatArray]:
    """P(Z < z) and P(Z > z) of Pearson's type III law with mean 0, variance 1 and this skewness."""
    size = np.maximum(np.abs(skewness), 1e-4)
    shape = 4 / size**2
    at = np.maximum(shape + np.sign(np.where(skewness == 0, 1.0, skewness)) * z * np.sqrt(shape), 0.0)
    lower, upper = special.gammainc(shape, at), special.gammaincc(shape, at)
    swap = skewness < 0
    return np.where(swap, upper, lower), np.where(swap, lower, upper)


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Rows and events of a 0/1 outcome in each arm (last axis: control, treated) of each group."""

    n: FloatArray
    x: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Unbiased variance of each arm's event rate: 0 in an arm without events."""
        rate = self.x / np.maximum(self.n, 1)
        return rate * (1 - rate) / np.maximum(self.n - 1, 1)

    @property
    def smooth(self) -> FloatArray:
        """Event rates that are never 0 or 1."""
        return (self.x + 0.5) / (self.n + 1)

    def at(self, groups: BoolArray) -> Counts:
        """Some groups alone."""
        return Counts(self.n[..., groups, :], self.x[..., groups, :])

    def expected(self, effect: FloatArray, *, relative: bool) -> FloatArray:
        """Events expected in the arm that has fewer, given all events of the group and its true effect.

        Or rows without the event, if those are fewer: an arm in which nearly everybody has it is known no better.
        """
        (n0, n1), total, rows = _arms(self.n), self.x.sum(-1), self.n.sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.maximum(effect, 0) * n1 / (np.maximum(effect, 0) * n1 + n0)
            treated = total * share if relative else n1 * (total + n0 * effect) / rows
            others = np.minimum(n1 - treated, n0 - total + treated)
            # An effect that no two rates have says nothing about the rows without the event: as without effect.
            others = np.where(others < 0, (rows - total) * np.minimum(n0, n1) / rows, others)
        return np.clip(np.minimum(np.minimum(treated, total - treated), others), 0, None)

    @property
    def fewest(self) -> FloatArray:
        """The smallest number of events, or of rows without the event, in an arm."""
        return np.minimum(self.x, self.n - self.x).min(-1)


def law_of(counts: Counts, error: Ratio, common: FloatArray, *, relative: bool) -> Law:
    """The law of each group's error. ``common``: the error that the null of no bias gives it."""
    return _ratio_of_group(counts, error, common) if relative else _difference_of_group(counts, error)


def rest_of(counts: Counts, rest: Ratio, size: FloatArray, usable: BoolArray, at: BoolArray, *, relative: bool) -> Law:
    """The law of the error of the rest of the groups ``at``: all other groups, each with its share of their rows."""
    total = of_others(size, usable)
    smooth, own = counts.smooth, counts.smooth * (1 - counts.smooth) / np.maximum(counts.n, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not relative:
            third = (of_others(size**3 * _third(counts.n, smooth), usable) / total**3)[..., at]
            extra = of_others(size**2 * (own - counts.variance).sum(-1), usable) / total**2
            value, variance = rest.value[..., at], (rest.tt + np.maximum(extra, 0.0))[..., at]
            reach = FAR * np.sqrt(variance)
            return Law(value, value - reach, value + reach, lambda null: _skewed(value - null, variance, third))
        rate, n = np.empty(counts.n.shape), np.empty(counts.n.shape)
        for arm in (0, 1):
            rate[..., arm] = of_others(size * counts.x[..., arm] / counts.n[..., arm], usable) / total
            mean, square = (of_others(a, usable) for a in (size * smooth[..., arm], size**2 * own[..., arm]))
            n[..., arm] = total * mean / square
        x = n * rate
        share = (1 / np.maximum(x, 0.5)).sum(-1)
        whole = rest.contrast_variance(rest.value) / np.maximum(rate[..., 1], 0.5 / n[..., 1]) ** 2
        shrink = np.sqrt(share / np.maximum(share, whole))
        predicted = rest.value + rate[..., 1] / rate[..., 0]
    return _ratio(Counts(n, x).at(at), predicted[..., at], shrink[..., at], binomial=False)


def _ratio_of_group(counts: Counts, error: Ratio, common: FloatArray) -> Law:
    (n0, n1), (x0, x1) = _arms(counts.n), _arms(counts.x)
    with np.errstate(divide="ignore", invalid="ignore"):
        predicted = error.value + x1 / n1 * n0 / x0
        # Predictions vary among the controls with an event, which the counts do not know of.
        effect = np.maximum(predicted - common, 1e-6)
        control = error.contrast_variance(common) - counts.variance[..., 1]
        beyond = np.maximum(control / (effect * x0 / n0) ** 2 - (1 / x0 - 1 / n0), 0.0)
        own = 1 / np.maximum(effect * x0 * n1 / n0, 0.5) + 1 / x0
        shrink = np.sqrt(own / (own + beyond))
    return _ratio(counts, predicted, shrink, binomial=True)


def _ratio(counts: Counts, predicted: FloatArray, shrink: FloatArray, *, binomial: bool) -> Law:
    (n0, n1), (x0, x1) = _arms(counts.n), _arms(counts.x)

    def quantile(null: FloatArray) -> FloatArray:
        r = predicted - null
        effect = np.maximum(r, 1e-12)
        y0, y1, size0, size1 = x0, x1, n0, n1
        if binomial:
            # The means with this ratio that fit both arms best (Farrington and Manning 1990).
            b, c = effect * (n1 + x0) + x1 + n0, x0 + x1
            m0 = 2 * c / (b + np.sqrt(np.maximum(b**2 - 4 * (n0 + n1) * effect * c, 0.0)))
            spread0, spread1 = np.maximum(1 - m0, 1e-9), np.maximum(1 - effect * m0, 1e-9)
            y0, y1, size0, size1 = x0 / spread0, x1 / spread1, n0 / spread0, n1 / spread1
        z = normal_quantile(*binomial_tails(y1, y0 + y1, effect * size1 / (effect * size1 + size0)))
        return np.where(r >= 0, shrink * z, -FAR)

    with np.errstate(divide="ignore", invalid="ignore"):
        value = predicted - x1 / n1 * n0 / x0
        low = predicted - (x1 + 1) / n1 * (n0 / x0) * 1e4
    return Law(value, low, predicted, quantile)


def _difference_of_group(counts: Counts, error: Ratio) -> Law:
    (n0, n1), total = _arms(counts.n), counts.x.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = counts.x[..., 1] / n1 - counts.x[..., 0] / n0
        further = error.tt - counts.variance.sum(-1)  # of the predictions, and their covariance with outcomes

    def quantile(null: FloatArray) -> FloatArray:
        effect = error.value + observed - null
        # The means with this difference and the observed total (Dunnett and Gent 1977).
        m0 = np.clip((total - n1 * effect) / (n0 + n1), np.maximum(0.0, -effect), np.minimum(1.0, 1 - effect))
        means = np.clip(np.stack([m0, m0 + effect], -1), 0.0, 1.0)
        variance = (means * (1 - means) / counts.n).sum(-1)
        return _skewed(error.value - null, np.maximum(variance + further, 0.1 * variance), _third(counts.n, means))

    return Law(error.value, error.value + observed - 1, error.value + observed + 1, quantile)


def _third(n: FloatArray, mean: FloatArray) -> FloatArray:
    """Third cumulant of the control rate minus the treated rate."""
    arms = mean * (1 - mean) * (1 - 2 * mean) / n**2
    return arms[..., 0] - arms[..., 1]


def _skewed(deviation: FloatArray, variance: FloatArray, third: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        z, skewness = deviation / np.sqrt(variance), third / variance**1.5
    known = variance > 0
    lower, upper = skewed_tails(np.where(known, z, 0.0), np.where(known, skewness, 0.0))
    return np.where(known, normal_quantile(upper, lower), FAR * np.sign(deviation))


def _arms(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    return values[..., 0], values[..., 1]
