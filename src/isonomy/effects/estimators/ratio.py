"""Ratios of means with their covariance, the standardized rest of each group, and differences of two ratios.

An error is B = (M - m1) / m0, so B = b holds exactly when M - m1 - b m0 = 0: a linear contrast of means, tested with
Welch's degrees of freedom. The interval contains the b that are not rejected (`Fieller`), so testing an end of the
interval gives p = alpha. A difference is a ratio whose bottom is 1, and all formulas then reduce to estimate +- t se.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import numpy as np
import numpy.typing as npt

from isonomy.effects.estimators.moments import ArmMoments, Smooth
from isonomy.inference.designs import Law
from isonomy.inference.effect import Effect, Fieller, Limits
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray
from isonomy.numerics.roots import bisection


def fieller_ratio(top: Smooth, bottom: Smooth, moments: ArmMoments, lost: int = 0) -> Fieller:
    """The ratio of two smooth functions of arm means. ``lost``: coefficients estimated in each arm."""
    cov, up, down = moments.cov, top.gradient, bottom.gradient
    assert cov is not None
    used = ((up != 0) | (down != 0)).any(-1)
    free = np.where(used, moments.n - 1 - lost, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(used, (moments.n - 1) / free / moments.n, 0.0)

        def product(left: FloatArray, right: FloatArray) -> FloatArray:
            return np.einsum("...i,...ij,...j->...", left, cov, right) * scale

        contrast = up - (top.value / bottom.value)[..., None, None] * down
        per_arm = np.maximum(product(contrast, contrast), 0.0)
        df = per_arm.sum(-1) ** 2 / (per_arm**2 / free).sum(-1)
        # No variance at all: any law will do, and the normal law has no further parameter.
        df = np.where(per_arm.sum(-1) > 0, df, np.inf)
        tt, tb, bb = (product(*pair).sum(-1) for pair in ((up, up), (up, down), (down, down)))
    bad = (free < 1).any(-1)
    tt, df = np.where(bad, np.nan, np.maximum(tt, 0.0)), np.where(bad, np.nan, df)
    return Fieller(top.value, bottom.value, tt, tb, np.maximum(bb, 0.0), df)


def plain_ratio(value: FloatArray, variance: FloatArray, df: FloatArray | float = np.inf) -> Fieller:
    """An estimate with a variance, as the ratio whose bottom is one."""
    value = np.asarray(value, dtype=float)
    zero = np.zeros(value.shape)
    return Fieller(value, np.ones(value.shape), np.asarray(variance, dtype=float), zero, zero, zero + df)


def select(ratios: Fieller, groups: AnyArray | slice) -> Fieller:
    """Some groups alone."""
    return Fieller(*(np.asarray(getattr(ratios, part.name))[..., groups] for part in fields(ratios)))


def under(ratios: Fieller, law: Law) -> Fieller:
    """The same ratios, their covariance multiplied by a design effect, with the design's degrees of freedom."""
    effect = law.effect
    return replace(ratios, tt=ratios.tt * effect, tb=ratios.tb * effect, bb=ratios.bb * effect, df=law.df)


def total_of_others(values: FloatArray, usable: BoolArray) -> FloatArray:
    """The total over usable groups (last axis) minus each group's part."""
    values = np.where(usable, values, 0.0)
    return values.sum(-1, keepdims=True) - values


def standardized_rest(groups: Fieller, size: FloatArray, usable: BoolArray) -> Fieller:
    """All other groups as one, each with its share of their rows: sum share top / sum share bottom.

    Pooling the rows instead is confounded when treated shares differ between groups. Shares are estimated too, and
    their multinomial variance is counted. Groups that are not usable are left out of every rest.
    """

    def others(values: FloatArray) -> FloatArray:
        return total_of_others(values, usable)

    with np.errstate(divide="ignore", invalid="ignore"):
        total = others(size)
        total = np.where(total > 0, total, np.nan)
        mean = {name: others(size * getattr(groups, name)) / total for name in ("top", "bottom")}

        def covariance(within: FloatArray, left: str, right: str) -> FloatArray:
            shares = others(size * getattr(groups, left) * getattr(groups, right)) / total - mean[left] * mean[right]
            return others(size**2 * within) / total**2 + shares / total

        tt, tb = covariance(groups.tt, "top", "top"), covariance(groups.tb, "top", "bottom")
        bb = covariance(groups.bb, "bottom", "bottom")
        # Satterthwaite over groups; evaluated at one common value, since df only matters where rows are few.
        common = np.where(usable, size * groups.top, 0).sum(-1) / np.where(usable, size * groups.bottom, 0).sum(-1)
        within = size**2 * groups.contrast_variance(common[..., None])
        df = others(within) ** 2 / others(within**2 / groups.df)
    df = np.where(np.isfinite(total), np.where(np.isfinite(df), df, np.inf), np.nan)
    return Fieller(mean["top"], mean["bottom"], np.maximum(tt, 0.0), tb, np.maximum(bb, 0.0), df)


def all_groups(groups: Fieller, size: FloatArray, usable: BoolArray) -> Fieller:
    """All usable groups as one, each with its share of rows: the rest of a further group that has no rows."""
    further = Fieller(*(np.append(getattr(groups, part.name), 1.0) for part in fields(groups)))
    return select(standardized_rest(further, np.append(size, 0.0), np.append(usable, False)), slice(-1, None))


def satterthwaite(left: Fieller, right: Fieller) -> FloatArray:
    """Degrees of freedom of the difference of two independent ratios."""
    with np.errstate(divide="ignore", invalid="ignore"):
        first, second = left.standard_error**2, right.standard_error**2
        df = (first + second) ** 2 / (first**2 / left.df + second**2 / right.df)
    return np.where(np.isnan(df) & np.isfinite(first + second), np.inf, df)


def mover(left: Effect, right: Effect, critical: npt.ArrayLike) -> Limits:
    """Limits of left - right, built from theirs (Zou and Donner's MOVER), which keeps the skewness of both."""
    (low_left, high_left), (low_right, high_right) = left.interval(critical), right.interval(critical)
    with np.errstate(invalid="ignore"):
        below = np.hypot(left.value - low_left, high_right - right.value)
        above = np.hypot(high_left - left.value, right.value - low_right)
        return left.value - right.value - below, left.value - right.value + above


@dataclass(frozen=True, slots=True, eq=False)
class Gap(Effect):
    """The difference of two independent ratios: the same, up to sign, whichever of the two is called the group."""

    left: Fieller
    right: Fieller
    df: FloatArray = field()

    @property
    def value(self) -> FloatArray:
        """The left ratio minus the right one."""
        with np.errstate(invalid="ignore"):
            return self.left.value - self.right.value

    @property
    def standard_error(self) -> FloatArray:
        """Standard error to first order."""
        return np.hypot(self.left.standard_error, self.right.standard_error)

    def interval(self, critical: npt.ArrayLike) -> Limits:
        """Lower and upper limits at a squared critical value."""
        return mover(self.left, self.right, critical)

    def statistic(self, null: npt.ArrayLike) -> FloatArray:
        """The square of `root`."""
        return np.square(self.root(null))

    def root(self, null: npt.ArrayLike = 0.0) -> FloatArray:
        """The critical value at which a limit reaches ``null``, with the sign of value - null."""
        target, unknown = np.asarray(null, dtype=float), np.isnan(self.standard_error)
        sign = np.sign(self.value - target)

        def short(t: FloatArray) -> BoolArray:
            """Whether the limit on the null's side has not reached it yet."""
            low, high = self.interval(t**2)
            return np.asarray(np.where(sign > 0, low - target, target - high) > 0)

        low, high, reached = np.zeros(sign.shape), np.ones(sign.shape), unknown | (sign == 0)
        with np.errstate(invalid="ignore"):
            for _ in range(20):  # double until the limit has passed the null: up to a million standard errors
                reached = reached | ~short(high)
                if reached.all():
                    break
                low, high = np.where(reached, low, high), np.where(reached, high, 2 * high)
            high = bisection(short, low, high)
        root = np.where(sign == 0, 0.0, np.copysign(np.where(reached, high, np.inf), sign))
        return np.where(unknown, np.nan, root)
