"""Rows of an experiment added up, the means and covariances of each arm, and smooth functions of the means.

A *column* is a function of one row: the outcome ``y``, the predicted effect ``f``, the baseline ``h``, and products
of these. `COLUMNS` says how each is formed, and how it changes when ``f`` is corrected by a constant, so that a
correction never needs a second pass over the rows, except for the one column with ``1/f``.

Sums are kept by group, bucket, arm and kind of outcome. The kind separates outcomes that are exactly 0, exactly 1 and
anything else: moments add over kinds, so estimates do not depend on it, but the bootstrap over cells is then exact in
the counts of a 0/1 outcome. Buckets are parts of the rows: a random half of the rows is a random half of random
buckets, so one pass serves every split and both of its swaps.

Every estimator is a smooth function of a few means within the two arms of each group. A `Smooth` holds its value and
its derivative with respect to those means, which is the influence function: a row of arm ``a`` moves the estimate by
``gradient[a] @ (row - mean[a]) / n[a]``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import mul
from typing import Annotated, ClassVar, Literal

import numpy as np

from isonomy.errors import NotEnoughData
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.options import Number, Option

CONTROL, TREATED = 0, 1


@dataclass(frozen=True, slots=True)
class Product:
    """``y`` to some power times the product of ``factors``; ``slope``: the column it loses per unit of correction."""

    power: int
    factors: tuple[str, ...]
    slope: str | None = ""  # "": does not depend on f; None: not linear in f

    @property
    def terms(self) -> tuple[str, ...]:
        """What is multiplied, in order."""
        return (*("y",) * self.power, *self.factors)

    @property
    def name(self) -> str:
        """Equal for equal products."""
        return " ".join(self.terms)

    def __mul__(self, other: Product) -> Product:
        return Product(self.power + other.power, tuple(sorted((*self.factors, *other.factors))))


COLUMNS: Mapping[str, Product] = {
    "y": Product(1, ()),
    "yf": Product(1, ("f",), "y"),
    "y/f": Product(1, ("1/f",), None),
    "f": Product(0, ("f",), "1"),
    "h": Product(0, ("h",)),
    "hf": Product(0, ("f", "h"), "h"),
    # Predicted outcomes in either arm, for AIPW; "fp0" is the prediction of y f among controls.
    "p0": Product(0, ("p0",)),
    "p1": Product(0, ("p1",)),
    "fp0": Product(0, ("f", "p0"), "p0"),
}


CUBE = Product(3, ())


def column(name: str) -> Product:
    """How a column is formed. A name that is not in `COLUMNS` is a feature of the user's."""
    return COLUMNS.get(name, Product(0, (name,)))


def products(columns: Sequence[str]) -> dict[str, Product]:
    """Every first and second moment of the columns, and the third of the outcome, by name."""
    singles = [column(name) for name in columns]
    pairs = [left * right for i, left in enumerate(singles) for right in singles[i:]]
    cubes = [CUBE] if "y" in columns else []
    return {product.name: product for product in (*singles, *pairs, *cubes)}


@dataclass(frozen=True, slots=True, eq=False)
class ArmMoments:
    """Rows, means and covariances of ``columns`` in each arm of each group.

    Shapes: ``n`` (..., G, 2), ``mean`` (..., G, 2, k), ``cov`` (..., G, 2, k, k); the arm axis is (control, treated).
    """

    columns: tuple[str, ...]
    n: FloatArray
    mean: FloatArray
    cov: FloatArray | None  # None where only values are wanted

    @classmethod
    def from_sums(
        cls, columns: tuple[str, ...], n: FloatArray, sums: FloatArray, products: FloatArray | None
    ) -> ArmMoments:
        """Means and unbiased covariances from counts, sums and sums of products; 0 where rows are too few."""
        mean = sums / np.where(n > 0, n, 1.0)[..., None]
        if products is None:
            return cls(columns, n, mean, None)
        centered = products - sums[..., :, None] * mean[..., None, :]
        # What rounding leaves of a constant column is not variance.
        varies = np.diagonal(centered, axis1=-2, axis2=-1) > 1e-13 * np.diagonal(products, axis1=-2, axis2=-1)
        centered = centered * (varies[..., :, None] & varies[..., None, :])
        cov = np.where((n > 1)[..., None, None], centered / np.maximum(n - 1, 1)[..., None, None], 0.0)
        return cls(columns, n, mean, cov)

    def others(self) -> ArmMoments:
        """For each group, the rows of all other groups pooled into one (the paper's rest)."""
        n, sums = _others(self.n, -2), _others(self.n[..., None] * self.mean, -3)
        if self.cov is None:
            return ArmMoments.from_sums(self.columns, n, sums, None)
        weight = self.n[..., None, None]
        products = np.maximum(weight - 1, 0) * self.cov + weight * self.mean[..., :, None] * self.mean[..., None, :]
        return ArmMoments.from_sums(self.columns, n, sums, _others(products, -4))

    def shifted(self, delta: FloatArray) -> ArmMoments:
        """The moments if ``delta`` (one per group) had been subtracted from every predicted effect."""
        matrix = np.zeros((*np.shape(delta), len(self.columns), len(self.columns)))
        matrix[...] = np.eye(len(self.columns))
        constant = np.zeros((*np.shape(delta), len(self.columns)))
        for i, name in enumerate(self.columns):
            slope = column(name).slope
            if slope is None:
                raise ValueError(f"column {name} is not linear in the effect")
            if slope == "1":
                constant[..., i] = -delta
            elif slope:
                matrix[..., i, self.columns.index(slope)] = -delta
        wide = matrix[..., None, :, :]
        mean = (wide @ self.mean[..., None])[..., 0] + constant[..., None, :]
        cov = None if self.cov is None else wide @ self.cov @ np.swapaxes(wide, -1, -2)
        return ArmMoments(self.columns, self.n, mean, cov)

    def scaled(self, factor: FloatArray) -> ArmMoments:
        """The moments if every predicted effect had been multiplied by ``factor`` (one per group)."""
        powers = np.array([0 if column(name).slope == "" else -1 if name == "y/f" else 1 for name in self.columns])
        scale = np.asarray(factor, dtype=float)[..., None] ** powers
        mean = self.mean * scale[..., None, :]
        cov = None if self.cov is None else self.cov * scale[..., None, :, None] * scale[..., None, None, :]
        return ArmMoments(self.columns, self.n, mean, cov)


def _others(values: FloatArray, axis: int) -> FloatArray:
    """The total over groups (the given axis) minus each group's own part."""
    return values.sum(axis, keepdims=True) - values


KINDS = 3  # 0, 1, any other


@dataclass(frozen=True, slots=True, eq=False)
class EventCounts:
    """Rows and events of a 0/1 outcome in each arm (last axis: control, treated) of each group."""

    n: FloatArray
    x: FloatArray

    @property
    def variance(self) -> FloatArray:
        """Unbiased variance of each arm's event rate: 0 in an arm without events."""
        rate = self.x / np.maximum(self.n, 1)
        return rate * (1 - rate) / np.maximum(self.n - 1, 1)

    def at(self, groups: BoolArray) -> EventCounts:
        """Some groups alone."""
        return EventCounts(self.n[..., groups, :], self.x[..., groups, :])

    def expected(self, effect: FloatArray, *, relative: bool) -> FloatArray:
        """Events expected in the arm that has fewer, given all events of the group and its true effect.

        Or rows without the event, if those are fewer: an arm in which nearly everybody has it is known no better.
        """
        n0, n1, total, rows = self.n[..., 0], self.n[..., 1], self.x.sum(-1), self.n.sum(-1)
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


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """Sums of one partition. Axes: group, bucket, arm, kind, then columns. The last group may be everybody else."""

    columns: tuple[str, ...]
    n: FloatArray
    sums: FloatArray
    products: FloatArray
    cubes: FloatArray  # of the outcome; no columns

    @classmethod
    def added(
        cls,
        columns: tuple[str, ...],
        size: tuple[int, int],
        place: tuple[IntArray, IntArray, IntArray, IntArray],
        count: FloatArray,
        values: Mapping[str, FloatArray],
    ) -> Sums:
        """Add entries into their cells. ``size``: groups and buckets; ``place``: group, bucket, arm and kind of each.

        ``values``: the sum of each of `products` in every entry, by its name.
        """
        shape = (*size, 2, KINDS)
        at = np.ravel_multi_index(place, shape)

        def total(weights: FloatArray) -> FloatArray:
            return np.bincount(at, weights=weights, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)

        totals = {name: total(values[name]) for name in products(columns)}
        singles = [column(name) for name in columns]
        sums = np.stack([totals[single.name] for single in singles], -1)
        pairs = [np.stack([totals[(left * right).name] for right in singles], -1) for left in singles]
        cubes = totals[CUBE.name] if CUBE.name in totals else np.zeros(shape)
        return cls(columns, total(count), sums, np.stack(pairs, -2), cubes)

    @property
    def binary(self) -> bool:
        """Whether every outcome is 0 or 1."""
        return not self.n[..., 2].any()

    @property
    def counts(self) -> EventCounts:
        """Rows and outcomes of 1, by group and arm."""
        return EventCounts(self.n.sum((1, 3)), self.n[..., 1].sum(1))

    @property
    def nonzero(self) -> FloatArray:
        """Rows of each group with an outcome other than zero."""
        return self.n[..., 1:].sum((1, 2, 3))

    def skewness(self, effect: FloatArray) -> FloatArray:
        """Of the treated mean less ``effect`` times the control mean of each group, in size; NaN if nothing varies.

        Variances and third moments are those of the arms of all groups together, or, if that is more, of both arms: a
        small arm may not have met its tail yet.
        """
        y = self.columns.index("y")
        n, first, second, third = (
            a.sum((1, 3)) for a in (self.n, self.sums[..., y], self.products[..., y, y], self.cubes)
        )
        mean, rows = first / np.maximum(n, 1), np.maximum(n.sum(0), 1)
        square = (second - n * mean**2).sum(0) / rows
        cube = (third - 3 * mean * second + 2 * n * mean**3).sum(0) / rows
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = effect**2 * square[0] / n[:, 0] + square[1] / n[:, 1]
            own = (cube[1] / n[:, 1] ** 2 - effect**3 * cube[0] / n[:, 0] ** 2) / spread**1.5
            alike = (rows @ cube / rows.sum()) / (rows @ square / rows.sum()) ** 1.5
            both = alike * (n[:, 1] ** -2.0 - n[:, 0] ** -2.0) / (1 / n[:, 1] + 1 / n[:, 0]) ** 1.5
            return np.fmax(np.abs(own), np.abs(both))

    def moments(self, buckets: IntArray | slice = slice(None)) -> ArmMoments:
        """Moments of each group over the given buckets."""
        n, sums, products = (a[:, buckets].sum((1, 3)) for a in (self.n, self.sums, self.products))
        return ArmMoments.from_sums(self.columns, n, sums, products)

    def part(self, buckets: IntArray) -> Sums:
        """The same sums over the given buckets only, as one bucket."""
        parts = (self.n, self.sums, self.products, self.cubes)
        return Sums(self.columns, *(a[:, buckets].sum(1, keepdims=True) for a in parts))


@dataclass(frozen=True, slots=True, eq=False)
class ExperimentRows:
    """Rows in memory: what columns are made of, each row's arm and kind, and its group in every partition."""

    factors: Mapping[str, FloatArray]  # "y", "f", "h", features and predictions
    arm: IntArray
    kind: IntArray
    weight: FloatArray  # rows each line stands for
    groups: tuple[tuple[IntArray, int], ...]  # for each partition: the group of each line, and how many there are

    def values(self, product: Product) -> FloatArray:
        """A product of factors, line by line."""
        return reduce(mul, (1.0 / self.factors["f"] if term == "1/f" else self.factors[term] for term in product.terms))

    def sums(
        self, columns: tuple[str, ...], line: IntArray, weight: FloatArray, bucket: IntArray, buckets: int
    ) -> tuple[Sums, ...]:
        """Sums of every partition. An entry is ``weight`` rows of a ``line``, in a ``bucket``."""
        with np.errstate(divide="ignore"):
            values = {name: self.values(product)[line] * weight for name, product in products(columns).items()}
        arm, kind = self.arm[line], self.kind[line]
        return tuple(
            Sums.added(columns, (groups, buckets), (group[line], bucket, arm, kind), weight, values)
            for group, groups in self.groups
        )


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """A value for each group (shape ``(..., G)``) and its gradient (shape ``(..., G, 2, k)``), or None."""

    value: FloatArray
    gradient: FloatArray | None

    def __add__(self, other: Smooth) -> Smooth:
        return Smooth(self.value + other.value, _sum(self.gradient, other.gradient))

    def __sub__(self, other: Smooth) -> Smooth:
        return self + other * -1.0

    def __mul__(self, other: Smooth | FloatArray | float) -> Smooth:
        if not isinstance(other, Smooth):
            return Smooth(self.value * other, _scale(other, self.gradient))
        gradient = _sum(_scale(other.value, self.gradient), _scale(self.value, other.gradient))
        return Smooth(self.value * other.value, gradient)

    def __truediv__(self, other: Smooth) -> Smooth:
        ratio = self.value / other.value
        gradient = _sum(self.gradient, _scale(-ratio, other.gradient))
        return Smooth(ratio, _scale(1 / other.value, gradient))


def _sum(left: FloatArray | None, right: FloatArray | None) -> FloatArray | None:
    return None if left is None or right is None else left + right


def _scale(factor: FloatArray | float, gradient: FloatArray | None) -> FloatArray | None:
    return None if gradient is None else np.asarray(factor, dtype=float)[..., None, None] * gradient


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """The means of `ArmMoments` as ingredients of formulas, with gradients or without.

    ``slopes`` adjusts a mean for the chance imbalance of covariates between the arms: mean + slope @ (overall - arm).
    Keys are (arm, column), values coefficients on all columns, shape ``(G, k)``. Adjusting by a slope that was itself
    estimated costs nothing to first order (Lin 2013).
    """

    moments: ArmMoments
    slopes: Mapping[tuple[int, str], FloatArray]
    gradients: bool = True

    def control(self, name: str) -> Smooth:
        """Mean of a column among the control rows."""
        return self._mean(CONTROL, name)

    def treated(self, name: str) -> Smooth:
        """Mean of a column among the treated rows."""
        return self._mean(TREATED, name)

    def overall(self, name: str) -> Smooth:
        """Mean of a column over both arms."""
        share = self._share()
        value = (share * self.moments.mean[..., self.moments.columns.index(name)]).sum(-1)
        return Smooth(value, share[..., None] * self._unit(name) if self.gradients else None)

    def constant(self, value: float) -> Smooth:
        """A known number."""
        flat = np.zeros(self.moments.mean.shape) if self.gradients else None
        return Smooth(np.full(self.moments.n.shape[:-1], value), flat)

    def _mean(self, arm: int, name: str) -> Smooth:
        mean, slope, share = self.moments.mean, self.slopes.get((arm, name)), self._share()[..., None]
        value = mean[..., arm, self.moments.columns.index(name)]
        if slope is not None:
            value = value + (slope * ((share * mean).sum(-2) - mean[..., arm, :])).sum(-1)
        if not self.gradients:
            return Smooth(value, None)
        gradient = np.zeros(mean.shape)
        gradient[..., arm, :] = self._unit(name)
        if slope is not None:
            gradient += share * slope[..., None, :]
            gradient[..., arm, :] -= slope
        return Smooth(value, gradient)

    def _share(self) -> FloatArray:
        n = self.moments.n
        return n / np.maximum(n.sum(-1, keepdims=True), 1.0)

    def _unit(self, name: str) -> FloatArray:
        unit = np.zeros(len(self.moments.columns))
        unit[self.moments.columns.index(name)] = 1.0
        return unit


BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True)
class Bootstrap(Option):
    """Standard errors come from the nonparametric bootstrap.

    Parameters
    ----------
    resamples : int, default 1000
        How many samples are drawn.
    over : {"cells", "rows"}, default "cells"
        "cells" works for any number of rows: the counts of all cells are multinomial, exactly as if rows were drawn
        with replacement. Given its count m, the sum of m draws from a cell has mean m * mean and covariance
        m * covariance, and is drawn normal. For a 0/1 outcome the counts of events are therefore exact, and only the
        predictions within a cell are approximated. "rows" draws rows in memory.
    """

    name: ClassVar[str] = "bootstrap"
    resamples: Annotated[int, Number(least=2, most=100_000, whole=True)] = 1_000
    over: Literal["cells", "rows"] = "cells"


def resample_sums(sums: Sums, resamples: int, rng: np.random.Generator) -> ArmMoments:
    """Moments (means only) of ``resamples`` samples drawn with replacement; all buckets together."""
    n, totals, products = (a.sum(1) for a in (sums.n, sums.sums, sums.products))
    groups, arms, kinds = n.shape
    width = len(sums.columns)
    there = np.flatnonzero(n.ravel())
    if not there.size:
        raise NotEnoughData("data: no row is left to draw from; there are too few for a split of them.")
    count = n.ravel()[there]
    mean = totals.reshape(-1, width)[there] / count[:, None]
    covariance = products.reshape(-1, width, width)[there] / count[:, None, None]
    root = _root(covariance - mean[:, :, None] * mean[:, None, :])
    rows = round(float(count.sum()))
    drawn_n = np.zeros((resamples, groups * arms))
    drawn = np.zeros((resamples, groups * arms, width))
    owner = there // kinds
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    step = max(1, BLOCK // max(1, len(there) * width))
    for first in range(0, resamples if rows else 0, step):
        here = slice(first, min(resamples, first + step))
        m = rng.multinomial(rows, count / count.sum(), size=here.stop - here.start).astype(float)
        noise = rng.standard_normal((*m.shape, width))
        moved = m[..., None] * mean + np.sqrt(m)[..., None] * np.einsum("cij,zcj->zci", root, noise)
        drawn_n[here, owner[starts]] = np.add.reduceat(m, starts, axis=1)
        drawn[here, owner[starts]] = np.add.reduceat(moved, starts, axis=1)
    shape = (resamples, groups, arms)
    return ArmMoments.from_sums(sums.columns, drawn_n.reshape(shape), drawn.reshape(*shape, width), None)


def resample_rows(
    lines: ExperimentRows, columns: tuple[str, ...], resamples: int, rng: np.random.Generator
) -> tuple[ArmMoments, ...]:
    """The same from the rows themselves, one `ArmMoments` per partition."""
    values = np.stack([lines.values(column(name)) for name in columns])
    rows, chance = round(float(lines.weight.sum())), lines.weight / lines.weight.sum()
    n: list[list[FloatArray]] = [[] for _ in lines.groups]
    sums: list[list[FloatArray]] = [[] for _ in lines.groups]
    for _ in range(resamples):
        drawn = rng.multinomial(rows, chance).astype(float)
        for i, (group, groups) in enumerate(lines.groups):
            at = group * 2 + lines.arm
            totals = [np.bincount(at, w, 2 * groups).reshape(groups, 2) for w in (drawn, *(drawn * values))]
            n[i].append(totals[0].astype(float))
            sums[i].append(np.stack(totals[1:], -1))
    return tuple(ArmMoments.from_sums(columns, np.stack(a), np.stack(b), None) for a, b in zip(n, sums, strict=True))


def draw_moments(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance and mean square of resampled estimates (first axis); resamples that gave no number are left out."""
    finite = np.isfinite(draws)
    number = np.maximum(finite.sum(0), 2)
    kept = np.where(finite, draws, 0.0)
    mean = kept.sum(0) / number
    variance = np.where(finite, (kept - mean) ** 2, 0.0).sum(0) / (number - 1)
    return variance, (kept**2).sum(0) / number


def _root(covariance: FloatArray) -> FloatArray:
    """A square root of each covariance; rounding may leave tiny negative eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + np.swapaxes(covariance, -1, -2)) / 2)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
