"""Ratios of means with their covariance: tests, intervals by inversion, the standardized rest, differences.

An error is B = (M - m1) / m0, so B = b holds exactly when M - m1 - b m0 = 0: a linear contrast of means, tested with
Welch's degrees of freedom. The interval contains the b that are not rejected (Fieller), so testing an end of the
interval gives p = alpha. A difference is a ratio whose bottom is 1, and all formulas then reduce to estimate +- t se.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from isonomy.effects.estimators.moments import ArmMoments, Smooth
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.roots import bisection, fieller


@dataclass(frozen=True, slots=True, eq=False)
class Ratio:
    """top / bottom for each group, the covariance of the two, and Welch's degrees of freedom."""

    top: FloatArray
    bottom: FloatArray
    tt: FloatArray  # variance of the top
    tb: FloatArray  # covariance
    bb: FloatArray  # variance of the bottom
    df: FloatArray

    @property
    def value(self) -> FloatArray:
        """The ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.top / self.bottom

    @property
    def variance(self) -> FloatArray:
        """Variance of the ratio to first order: that of its influence function."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return self.contrast_variance(self.value) / self.bottom**2

    @property
    def se(self) -> FloatArray:
        """Standard error to first order."""
        return np.sqrt(self.variance)

    def contrast_variance(self, null: FloatArray | float) -> FloatArray:
        """Variance of top - null * bottom."""
        return np.maximum(self.tt - 2 * null * self.tb + null**2 * self.bb, 0.0)

    def statistic(self, null: FloatArray | float = 0.0) -> FloatArray:
        """Welch's statistic of top = null * bottom, with the sign of value - null."""
        with np.errstate(divide="ignore", invalid="ignore"):
            signed = (self.top - null * self.bottom) * np.sign(self.bottom)
            return signed / np.sqrt(self.contrast_variance(null))

    def limits(self, t: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """The nulls whose statistic is within +-t; unbounded where the bottom may be zero (Fieller)."""
        square = np.asarray(t, dtype=float) ** 2
        low, high = fieller(self.top, self.bottom, self.tt, self.bb, self.tb, square)
        undefined = np.isnan(self.top + self.tt + square)
        return np.where(undefined, np.nan, low), np.where(undefined, np.nan, high)

    def at(self, groups: BoolArray) -> Ratio:
        """Some groups alone."""
        return Ratio(*(getattr(self, part.name)[..., groups] for part in fields(self)))

    def under(self, effect: FloatArray, df: FloatArray) -> Ratio:
        """The same ratio, its covariance multiplied by a design effect, with other degrees of freedom."""
        return Ratio(self.top, self.bottom, self.tt * effect, self.tb * effect, self.bb * effect, df)

    def minus(self, other: Ratio) -> Ratio:
        """The difference of two independent ratios, to first order."""
        return plain(self.value - other.value, self.variance + other.variance, _welch(self, other))

    def together(self, size: FloatArray, usable: BoolArray) -> Ratio:
        """All usable groups as one, each with its share of rows: the rest of a further group that has no rows."""
        further = Ratio(*(np.append(getattr(self, part.name), 1.0) for part in fields(self)))
        rest = standardized_rest(further, np.append(size, 0.0), np.append(usable, False))
        return Ratio(*(getattr(rest, part.name)[-1:] for part in fields(rest)))


def plain(value: FloatArray, variance: FloatArray, df: FloatArray | float = np.inf) -> Ratio:
    """An estimate with a variance, as the ratio whose bottom is one."""
    value = np.asarray(value, dtype=float)
    zero = np.zeros(value.shape)
    return Ratio(value, np.ones(value.shape), np.asarray(variance, dtype=float), zero, zero, zero + df)


def ratio(top: Smooth, bottom: Smooth, moments: ArmMoments, lost: int = 0) -> Ratio:
    """The ratio of two smooth functions of arm means. ``lost``: coefficients estimated in each arm."""
    cov, up, down = moments.cov, top.gradient, bottom.gradient
    assert cov is not None
    assert up is not None
    assert down is not None
    used = ((up != 0) | (down != 0)).any(-1)
    free = np.where(used, moments.n - 1 - lost, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(used, (moments.n - 1) / free / moments.n, 0.0)
        value = top.value / bottom.value

        def product(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.einsum("...i,...ij,...j->...", left, cov, right) * scale

        contrast = up - value[..., None, None] * down
        per_arm = np.maximum(product(contrast, contrast), 0.0)
        df = per_arm.sum(-1) ** 2 / (per_arm**2 / free).sum(-1)
        # No variance at all: any law will do, and the normal one has no further parameter.
        df = np.where(per_arm.sum(-1) > 0, df, np.inf)
        tt = product(up, up).sum(-1)
        tb = product(up, down).sum(-1)
        bb = product(down, down).sum(-1)
    bad = (free < 1).any(-1)
    tt, df = np.where(bad, np.nan, np.maximum(tt, 0.0)), np.where(bad, np.nan, df)
    return Ratio(top.value, bottom.value, tt, tb, np.maximum(bb, 0.0), df)


def of_others(values: FloatArray, usable: BoolArray) -> FloatArray:
    """The total over usable groups (last axis) minus each group's own part."""
    kept = np.where(usable, values, 0.0)
    return kept.sum(-1, keepdims=True) - kept


def standardized_rest(groups: Ratio, size: FloatArray, usable: BoolArray) -> Ratio:
    """All other groups as one, each with its share of their rows: sum share top / sum share bottom.

    Pooling the rows instead is confounded when treated shares differ between groups. Shares are estimated too, and
    their multinomial variance is counted. Groups that are not usable are left out of every rest.
    """

    def others(values: FloatArray) -> FloatArray:
        return of_others(values, usable)

    with np.errstate(divide="ignore", invalid="ignore"):
        total = others(size)
        total = np.where(total > 0, total, np.nan)
        top, bottom = others(size * groups.top) / total, others(size * groups.bottom) / total

        def covariance(
            within: FloatArray, left: FloatArray, right: FloatArray, mean_left: FloatArray, mean_right: FloatArray
        ) -> FloatArray:
            shares = others(size * left * right) / total - mean_left * mean_right
            return others(size**2 * within) / total**2 + shares / total

        tt = covariance(groups.tt, groups.top, groups.top, top, top)
        tb = covariance(groups.tb, groups.top, groups.bottom, top, bottom)
        bb = covariance(groups.bb, groups.bottom, groups.bottom, bottom, bottom)
        # Satterthwaite over groups; evaluated at one common value, since df only matters where rows are few.
        common = np.where(usable, size * groups.top, 0).sum(-1) / np.where(usable, size * groups.bottom, 0).sum(-1)
        within = size**2 * groups.contrast_variance(common[..., None])
        df = others(within) ** 2 / others(within**2 / groups.df)
    df = np.where(np.isfinite(total) & ~np.isfinite(df), np.inf, df)
    return Ratio(top, bottom, np.maximum(tt, 0.0), tb, np.maximum(bb, 0.0), np.where(np.isfinite(total), df, np.nan))


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """The difference of two independent ratios, its limits built from theirs (Zou and Donner's MOVER).

    It keeps the skewness of both; the same answer, up to sign, whichever of the two is called the group.
    """

    left: Ratio
    right: Ratio
    freedom: FloatArray | None = None  # of the law of a design; Satterthwaite's otherwise

    @property
    def value(self) -> FloatArray:
        """left - right."""
        with np.errstate(invalid="ignore"):
            return self.left.value - self.right.value

    @property
    def se(self) -> FloatArray:
        """Standard error to first order."""
        return np.sqrt(self.left.variance + self.right.variance)

    @property
    def df(self) -> FloatArray:
        """Degrees of freedom."""
        return _welch(self.left, self.right) if self.freedom is None else self.freedom

    def limits(self, t: FloatArray | float) -> tuple[FloatArray, FloatArray]:
        """Lower and upper limit at the critical value ``t``."""
        low_left, high_left = self.left.limits(t)
        low_right, high_right = self.right.limits(t)
        left, right, value = self.left.value, self.right.value, self.value
        with np.errstate(invalid="ignore"):
            below = np.hypot(left - low_left, high_right - right)
            above = np.hypot(high_left - left, right - low_right)
            return value - below, value + above

    def statistic(self, null: FloatArray | float = 0.0) -> FloatArray:
        """The critical value at which a limit reaches ``null``, with the sign of value - null."""
        sign = np.sign(self.value - null)
        low, high = np.zeros(sign.shape), np.ones(sign.shape)
        reached = np.isnan(self.se) | (sign == 0)
        with np.errstate(invalid="ignore"):
            for _ in range(20):  # double until the limit has passed the null: up to a million standard errors
                reached = reached | (self._margin(high, sign, null) <= 0)
                if reached.all():
                    break
                low, high = np.where(reached, low, high), np.where(reached, high, 2 * high)
            high = bisection(lambda t: self._margin(t, sign, null) > 0, low, high)
        statistic = np.where(sign == 0, 0.0, np.copysign(np.where(reached, high, np.inf), sign))
        return np.where(np.isnan(self.se), np.nan, statistic)

    def _margin(self, t: FloatArray, sign: FloatArray, null: FloatArray | float) -> FloatArray:
        """How far the limit on the null's side still is from it."""
        low, high = self.limits(t)
        return np.where(sign > 0, low - null, null - high)


def _welch(left: Ratio, right: Ratio) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = left.variance, right.variance
        df = (first + second) ** 2 / (first**2 / left.df + second**2 / right.df)
    return np.where(np.isnan(df) & np.isfinite(first + second), np.inf, df)
