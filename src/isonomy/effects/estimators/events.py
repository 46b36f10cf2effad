"""Tests and intervals of 0/1 outcomes with few events: from the law of the counts, not from estimated variances.

An arm without events has an estimated variance of 0, and a difference of means that looks certain. Here the law under
the null value b is used instead.

Ratios: x1 events among n1 treated rows and x0 among n0 controls. If the effect is r = P - b, x1 given x1 + x0 is
binomial with probability r n1 / (r n1 + n0): exactly for rare events, and with counts and sizes divided by 1 - m (the
binomial variance over the Poisson variance) otherwise. P-values are mid-p.

Differences: the score statistic, with the variance and skewness of two binomials whose means differ by P - b and have
the observed total; Pearson's type III law has all three moments.

The rest of a group is a weighted sum of many such arms: the same laws, with as many events as give a sum of the same
mean and variance. Limits of a bias combine those of both, as in `Gap`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.errors import Errors, constant_arm, events_expected, null_effect, with_rest, worth
from isonomy.effects.estimators.moments import EventCounts, Sums
from isonomy.effects.estimators.ratio import Ratio, of_others
from isonomy.effects.estimators.shrinkage import welch_q
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.tails import t_isf, t_sf

MANY_EVENTS = 400  # from so many on, Welch's law and that of the counts agree to what a table shows
SKEW_EVENTS = 25.0  # equivalents of events that Welch's law needs at 0.05 (Cochran 1977, section 2.15)
_WELCH = 8.0  # events of a 0/1 outcome that it needs there
FAR = 37.0  # tails beyond this standard normal quantile are taken to be those at it, about 1e-299
_STEPS = 60
INNER = float(special.ndtri(0.8))  # the quantile of the power that most studies ask for


def least_events(groups: int, alpha: float, *, binary: bool = True, counted: bool = True) -> float:
    """Events in the smaller arm below which a group is not tested; they grow with the number of groups.

    With fewer than log(2 groups / alpha) expected events of a 0/1 outcome, not even an arm without any could be
    distinguished from chance, since that has probability exp(-expected). Without the law of the counts (``counted``) a
    test rests on means that are nearly normal as far out as the adjusted quantile z: tails of a skewed mean of m events
    are off by a share of about z^6 / m. Any other outcome is measured by its own skewness.
    """
    needed = float(np.log(2 * max(groups, 1) / alpha))
    if not binary:
        return SKEW_EVENTS * needed / float(np.log(2 / alpha))
    if counted:
        return needed
    quantiles = special.ndtri([alpha / (2 * max(groups, 1)), 0.025])
    return max(needed, _WELCH * float(quantiles[0] / quantiles[1]) ** 6)


@dataclass(frozen=True, slots=True, eq=False)
class CountLaw:
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
class CountGap:
    """left - right for laws of any shape: limits by Zou and Donner, and the quantile of every null."""

    left: CountLaw
    right: CountLaw

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


def law_of(counts: EventCounts, error: Ratio, common: FloatArray, *, relative: bool) -> CountLaw:
    """The law of each group's error. ``common``: the error that the null of no bias gives it."""
    return _ratio_of_group(counts, error, common) if relative else _difference_of_group(counts, error)


def rest_of(
    counts: EventCounts, rest: Ratio, size: FloatArray, usable: BoolArray, at: BoolArray, *, relative: bool
) -> CountLaw:
    """The law of the error of the rest of the groups ``at``: all other groups, each with its share of their rows."""
    total = of_others(size, usable)
    smooth = (counts.x + 0.5) / (counts.n + 1)  # event rates that are never 0 or 1
    own = smooth * (1 - smooth) / np.maximum(counts.n, 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        if not relative:
            third = (of_others(size**3 * _third(counts.n, smooth), usable) / total**3)[..., at]
            extra = of_others(size**2 * (own - counts.variance).sum(-1), usable) / total**2
            value, variance = rest.value[..., at], (rest.tt + np.maximum(extra, 0.0))[..., at]
            reach = FAR * np.sqrt(variance)
            return CountLaw(value, value - reach, value + reach, lambda null: _skewed(value - null, variance, third))
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
    return _ratio(EventCounts(n, x).at(at), predicted[..., at], shrink[..., at], binomial=False)


def _ratio_of_group(counts: EventCounts, error: Ratio, common: FloatArray) -> CountLaw:
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


def _ratio(counts: EventCounts, predicted: FloatArray, shrink: FloatArray, *, binomial: bool) -> CountLaw:
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
    return CountLaw(value, low, predicted, quantile)


def _difference_of_group(counts: EventCounts, error: Ratio) -> CountLaw:
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

    return CountLaw(error.value, error.value + observed - 1, error.value + observed + 1, quantile)


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


# Which law a group is tested by.


def tests_of(
    part: Errors, plain: Errors, sums: Sums, formula: Formula, *, alpha: float, tolerance: float, counted: bool
) -> tuple[dict[str, FloatArray], CountLaw | None]:
    """Statistics and limits of the errors and biases of one partition, and the law of the errors of counted groups.

    ``counted``: groups with few events of a 0/1 outcome are tested by the law of the counts, the others by Welch's.
    ``plain``: the errors with the variances of influence functions, which the law of the counts starts from. ``above``
    and ``below`` are the statistics of a bias at the upper and at the lower edge of the tolerance; ``inner_low`` and
    ``inner_high`` the limits of a counted group's bias at the quantile `INNER`, NaN for the others.
    """
    error, gap, shape = part.error, part.gap, part.error.value.shape
    error_low, error_high = error.limits(t_isf(alpha / 2, error.df))
    low, high = gap.limits(t_isf(alpha / 2, gap.df))
    tests = {
        "error_low": error_low,
        "error_high": error_high,
        "error_statistic": error.statistic(),
        "error_df": error.df,
        "ci_low": low,
        "ci_high": high,
        "statistic": gap.statistic(),
        "above": gap.statistic(tolerance),
        "below": gap.statistic(-tolerance),
        "df": gap.df,
        "inner_low": np.full(shape, np.nan),
        "inner_high": np.full(shape, np.nan),
    }
    if not (counted and sums.binary):
        return tests, None
    counts, others = sums.counts, of_others(np.concatenate([sums.counts.x, sums.counts.n], -1).T, part.in_rest)
    rest = EventCounts(others[2:].T, others[:2].T).fewest  # two groups are each other's rest: one law for both
    fewest = np.minimum(counts.fewest, np.where(others[2:].sum(0) > 0, rest, np.inf))
    few = part.usable & (fewest < MANY_EVENTS)
    if not few.any():
        return tests, None
    relative = formula.measure == "relative"
    common = np.where(np.isfinite(plain.rest.value), plain.rest.value, plain.error.value)
    own = law_of(counts.at(few), plain.error.at(few), common[few], relative=relative)
    if few.size == 2 and few.all() and plain.in_rest.all():  # each is the other's rest: one law for both
        other = np.array([1, 0])
        beside = law_of(counts.at(other), plain.error.at(other), common[other], relative=relative)
    else:
        beside = rest_of(counts, plain.rest, counts.n.sum(-1), plain.in_rest, few, relative=relative)
    bias = CountGap(own, beside)
    critical, normal = float(t_isf(alpha / 2, np.inf)), np.full(own.value.shape, np.inf)
    changes = {
        **dict(zip(("error_low", "error_high"), own.limits(critical), strict=True)),
        **dict(zip(("ci_low", "ci_high"), bias.limits(critical), strict=True)),
        **dict(zip(("inner_low", "inner_high"), bias.limits(INNER), strict=True)),
        "error_statistic": own.quantile(np.zeros(own.value.shape)),
        "error_df": normal,
        "statistic": bias.quantile(),
        "above": bias.quantile(tolerance),
        "below": bias.quantile(-tolerance),
        "df": normal,
    }
    for name, values in changes.items():
        tests[name] = np.array(tests[name], dtype=float)
        tests[name][few] = values
    return tests, own


def events_behind(
    part: Errors, sums: Sums, formula: Formula, *, alpha: float, counted: bool, rows: FloatArray | None
) -> FloatArray:
    """How many events the smaller arm of each group, and of its rest, stands on.

    For a 0/1 outcome, as many as the null expects. For any other, as many as would make the comparison of the arms
    equally skewed, since the skewness of m events is 1 / sqrt(m): the tails of equal arms cancel out. And no more than
    are worth the outcomes other than zero that the smaller arm may expect. ``rows``: of each group, where sums are of
    masses.
    """
    events = events_expected(part, sums, formula)
    if not sums.binary:
        effect = null_effect(part)
        skewness = sums.skewness(effect if formula.measure == "relative" else np.ones(effect.shape))
        with np.errstate(divide="ignore", invalid="ignore"):
            events = np.fmin(1 / skewness**2, events * SKEW_EVENTS / np.log(2 / alpha))
    elif not counted:  # an arm that is all 0 or all 1 shows no spread to judge by
        events = np.where(constant_arm(sums), 0.0, events)
    return with_rest(events if rows is None else worth(events, part, sums, rows), part)


def equal_errors(errors: Ratio, used: BoolArray, counted: BoolArray, law: CountLaw | None) -> tuple[float, float]:
    """Cochran's Q over its degrees of freedom and its p-value: that all ``used`` groups share one error.

    Where the law of counts is used, the sum over groups of the squared quantiles at the error that fits all best.
    ``law``: of the ``counted`` groups.
    """
    error = errors.at(used)
    if law is None or used.sum() < 2:
        return welch_q(error.value, error.variance, error.df)
    among, welch = used[counted], errors.at(used & ~counted)

    def q(common: float) -> float:
        t = welch.statistic(common)
        quantiles = normal_quantile(t_sf(t, welch.df), t_sf(-t, welch.df))
        return float((law.quantile(np.full(among.shape, common))[among] ** 2).sum() + (quantiles**2).sum())

    ends = float(error.value.min()), float(error.value.max())
    total = q(ends[0]) if ends[0] == ends[1] else float(optimize.minimize_scalar(q, bounds=ends, method="bounded").fun)
    freedom = int(used.sum()) - 1
    return total / freedom, float(special.chdtrc(freedom, total))
