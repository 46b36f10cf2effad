"""Rows of an experiment added up, the means and covariances of each arm, and resamples of both.

A *column* is a function of one row: the outcome ``y``, the predicted effect ``f``, the baseline ``h``, and products
of these. `COLUMNS` lists their factors, and `SLOPES` how each changes when ``f`` is corrected by a constant, so that a
correction never needs a second pass over the rows, except for the one column with ``1/f``.

Sums are kept by group, bucket, arm and kind of outcome. The kind separates outcomes that are exactly 0, exactly 1 and
anything else: moments add over kinds, so estimates do not depend on it, but the bootstrap over cells is then exact in
the counts of a 0/1 outcome. Buckets are parts of the rows: a random half of the rows is a random half of random
buckets, so one pass serves every split and both of its swaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import mul
from typing import Annotated, ClassVar, Literal

import numpy as np
from scipy import sparse

from isonomy.errors import NotEnoughData
from isonomy.frames.design import Clusters, Design
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.options import Number, Option

CONTROL, TREATED = 0, 1
# The factors of each column that is not a single factor. "fp0" is the prediction of y f among controls, for AIPW.
COLUMNS: Mapping[str, str] = {"yf": "y f", "y/f": "y 1/f", "hf": "f h", "fp0": "f p0"}
# What a column loses per unit subtracted from f. Corrections refuse "y/f", which is not linear in f.
SLOPES: Mapping[str, str] = {"yf": "y", "f": "1", "hf": "h", "fp0": "p0"}
CUBE = "y y y"
BLOCK = 4_000_000  # numbers of resamples held at once


def product(*columns: str) -> str:
    factors = " ".join(COLUMNS.get(name, name) for name in columns).split()
    return " ".join(sorted(factors, key=lambda factor: (factor != "y", factor)))


def products(columns: Sequence[str]) -> tuple[str, ...]:
    """Every first and second moment of the columns, and the third of the outcome."""
    pairs = [product(left, right) for i, left in enumerate(columns) for right in columns[i:]]
    return tuple(dict.fromkeys((*map(product, columns), *pairs, *([CUBE] if "y" in columns else []))))


@dataclass(frozen=True, slots=True, eq=False)
class ArmMoments:
    """Rows, means and covariances of ``columns`` in each arm of each group.

    Shapes: ``n`` (..., G, 2), ``mean`` (..., G, 2, k), ``cov`` (..., G, 2, k, k); the arm axis is (control, treated).
    ``slopes`` adjusts a mean for the chance imbalance of covariates between the arms: mean + slope @ (overall - arm).
    Keys are (arm, column), values coefficients on all columns, shape ``(G, k)``. Adjusting by a slope that was itself
    estimated costs nothing to first order (Lin 2013).
    """

    columns: tuple[str, ...]
    n: FloatArray
    mean: AnyArray
    cov: FloatArray | None  # None where only values are wanted
    slopes: Mapping[tuple[int, str], FloatArray] = field(default_factory=dict)

    def overall(self, name: str) -> AnyArray:
        return self._both[..., self.columns.index(name)]

    def arm_mean(self, arm: int, name: str) -> AnyArray:
        value, slope = self.mean[..., arm, self.columns.index(name)], self.slopes.get((arm, name))
        return value if slope is None else value + (slope * (self._both - self.mean[..., arm, :])).sum(-1)

    @property
    def _both(self) -> AnyArray:
        share = self.n / np.maximum(self.n.sum(-1, keepdims=True), 1.0)
        return (share[..., None] * self.mean).sum(-2)

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

    def others(self, in_rest: BoolArray) -> ArmMoments:
        """For each group, the rows of all other groups ``in_rest`` pooled into one (the paper's rest)."""

        def total_of_others(values: FloatArray, axis: int) -> FloatArray:
            return values.sum(axis, keepdims=True) - values

        rows = np.where(in_rest[..., None], self.n, 0.0)
        n, sums = total_of_others(rows, -2), total_of_others(rows[..., None] * self.mean, -3)
        if self.cov is None:
            return ArmMoments.from_sums(self.columns, n, sums, None)
        weight = rows[..., None, None]
        products = np.maximum(weight - 1, 0) * self.cov + weight * self.mean[..., :, None] * self.mean[..., None, :]
        return ArmMoments.from_sums(self.columns, n, sums, total_of_others(products, -4))

    def corrected(self, multiple: FloatArray, shift: FloatArray) -> ArmMoments:
        """The moments if every predicted effect f of a group had been ``multiple`` f - ``shift``."""
        width = len(self.columns)
        matrix = np.tile(np.eye(width), (*shift.shape, 1, 1))
        constant = np.zeros((*shift.shape, width))
        for i, name in enumerate(self.columns):
            if name in SLOPES:
                matrix[..., i, i] = multiple
            if SLOPES.get(name) == "1":
                constant[..., i] = -shift
            elif name in SLOPES:
                matrix[..., i, self.columns.index(SLOPES[name])] = -shift
        wide = matrix[..., None, :, :]
        mean = (wide @ self.mean[..., None])[..., 0] + constant[..., None, :]
        cov = None if self.cov is None else wide @ self.cov @ np.swapaxes(wide, -1, -2)
        return ArmMoments(self.columns, self.n, mean, cov)


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

    def select(self, groups: BoolArray | IntArray) -> EventCounts:
        return EventCounts(self.n[..., groups, :], self.x[..., groups, :])

    def expected(self, effect: FloatArray, *, relative: bool) -> FloatArray:
        """Events (or rows without the event, if fewer) expected in the smaller arm, given all events and the effect."""
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
        """Add entries into their cells. ``place``: group, bucket, arm and kind; ``values``: the sums of `products`."""
        shape = (*size, 2, KINDS)
        cell = np.ravel_multi_index(place, shape)

        def total(weights: FloatArray) -> FloatArray:
            return np.bincount(cell, weights=weights, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)

        totals = {name: total(values[name]) for name in products(columns)}
        sums = np.stack([totals[product(name)] for name in columns], -1)
        pairs = [np.stack([totals[product(left, right)] for right in columns], -1) for left in columns]
        return cls(columns, total(count), sums, np.stack(pairs, -2), totals.get(CUBE, np.zeros(shape)))

    @property
    def binary(self) -> bool:
        return not self.n[..., 2].any()

    @property
    def counts(self) -> EventCounts:
        return EventCounts(self.n.sum((1, 3)), self.n[..., 1].sum(1))

    @property
    def constant_arm(self) -> BoolArray:
        """Groups with an arm in which outcomes do not vary, so that it shows no spread to judge by."""
        cov, y = self.moments().cov, self.columns.index("y")
        assert cov is not None
        return np.asarray((cov[..., y, y] <= 0).any(-1))

    def skewness(self, effect: FloatArray) -> FloatArray:
        """Absolute skewness of the treated mean minus ``effect`` times the control mean; NaN if nothing varies.

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
            by_arm = (cube[1] / n[:, 1] ** 2 - effect**3 * cube[0] / n[:, 0] ** 2) / spread**1.5
            alike = (rows @ cube / rows.sum()) / (rows @ square / rows.sum()) ** 1.5
            both = alike * (n[:, 1] ** -2.0 - n[:, 0] ** -2.0) / (1 / n[:, 1] + 1 / n[:, 0]) ** 1.5
            return np.fmax(np.abs(by_arm), np.abs(both))

    def moments(self, buckets: IntArray | slice = slice(None)) -> ArmMoments:
        n, sums, products = (a[:, buckets].sum((1, 3)) for a in (self.n, self.sums, self.products))
        return ArmMoments.from_sums(self.columns, n, sums, products)

    def part(self, buckets: IntArray) -> Sums:
        parts = (self.n, self.sums, self.products, self.cubes)
        return Sums(self.columns, *(a[:, buckets].sum(1, keepdims=True) for a in parts))

    def resampled(self, resamples: int, rng: np.random.Generator, share: float = 1.0) -> ArmMoments:
        """Moments (means only) of ``resamples`` samples drawn with replacement; each has this ``share`` of the rows."""
        n, totals, products = (a.sum(1) for a in (self.n, self.sums, self.products))
        groups, arms, kinds = n.shape
        width = len(self.columns)
        there = np.flatnonzero(n.ravel())
        if not there.size:
            raise NotEnoughData("data: no rows to resample; the table is too small to be split.")
        count = n.ravel()[there]
        mean = totals.reshape(-1, width)[there] / count[:, None]
        covariance = (
            products.reshape(-1, width, width)[there] / count[:, None, None] - mean[:, :, None] * mean[:, None, :]
        )
        # A square root of each covariance; rounding may leave tiny negative eigenvalues.
        values, vectors = np.linalg.eigh((covariance + np.swapaxes(covariance, -1, -2)) / 2)
        root = vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
        rows = round(share * float(count.sum()))
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
        return ArmMoments.from_sums(self.columns, drawn_n.reshape(shape), drawn.reshape(*shape, width), None)


@dataclass(frozen=True, slots=True, eq=False)
class ExperimentRows:
    """Rows in memory. Where they have weights, clusters, propensities or strata, each partition has a copy with its
    ``design``, whose masses are the weights.
    """

    factors: Mapping[str, FloatArray]  # "y", "f", "h", features and predictions
    arm: IntArray
    kind: IntArray
    weight: FloatArray  # rows each line stands for
    groups: tuple[tuple[IntArray, int], ...]  # for each partition: the group of each line, and the number of groups
    design: Design | None = None
    stratum: IntArray | None = None  # of the randomization; all 0 without strata
    chance: FloatArray | None = None  # of the arm that the row is in

    def values(self, column: str) -> FloatArray:
        factors = product(column).split()
        return reduce(mul, (1.0 / self.factors["f"] if name == "1/f" else self.factors[name] for name in factors))

    def sums(
        self,
        columns: tuple[str, ...],
        line: IntArray | None = None,
        weight: FloatArray | None = None,
        bucket: IntArray | None = None,
        buckets: int = 1,
    ) -> tuple[Sums, ...]:
        """Sums of every partition. An entry is ``weight`` rows of a ``line``, in a ``bucket``; by default, a line."""
        line = np.arange(self.arm.size) if line is None else line
        weight = self.weight if weight is None else weight
        bucket = np.zeros(line.size, dtype=np.intp) if bucket is None else bucket
        with np.errstate(divide="ignore"):
            values = {name: self.values(name)[line] * weight for name in products(columns)}
        arm, kind = self.arm[line], self.kind[line]
        return tuple(
            Sums.added(columns, (groups, buckets), (group[line], bucket, arm, kind), weight, values)
            for group, groups in self.groups
        )


@dataclass(frozen=True, slots=True, eq=False)
class Clustered(Sums):
    """Sums of masses by bucket, and the lines behind them. All lines of a cluster are in one bucket."""

    lines: ExperimentRows  # of this partition alone; weights are masses
    cluster: IntArray  # number of each line's cluster
    bucket: IntArray

    @classmethod
    def from_lines(
        cls, columns: tuple[str, ...], lines: ExperimentRows, cluster: IntArray, bucket: IntArray, buckets: int
    ) -> Clustered:
        (sums,) = lines.sums(columns, bucket=bucket, buckets=buckets)
        return cls(columns, sums.n, sums.sums, sums.products, sums.cubes, lines, cluster, bucket)

    def part(self, buckets: IntArray) -> Clustered:
        chosen = np.isin(self.bucket, buckets)
        ((group, groups),) = self.lines.groups
        whole = self.lines
        assert whole.design is not None
        codes, design = np.unique(self.cluster[chosen], return_inverse=True)[1], whole.design.restricted(chosen)
        if design.clusters is not None:  # those of the part alone: 5 times as fast
            design = replace(design, clusters=Clusters.from_rows(codes, design.mass), placed=None)
        lines = ExperimentRows(
            factors={name: values[chosen] for name, values in whole.factors.items()},
            arm=whole.arm[chosen],
            kind=whole.kind[chosen],
            weight=whole.weight[chosen],
            groups=((group[chosen], groups),),
            design=design,
        )
        return Clustered.from_lines(self.columns, lines, codes, np.zeros(codes.size, dtype=np.intp), 1)

    def resampled(self, resamples: int, rng: np.random.Generator, share: float = 1.0) -> ArmMoments:
        """Moments (means only) of ``resamples`` samples of whole clusters.

        A sample of C clusters is resampled as C - 1 of them, with replacement (Rao and Wu 1988): the variance of a mean
        over such samples is the usual estimate, without the factor (C - 1) / C that drawing C clusters would leave.
        """
        ((group, groups),) = self.lines.groups
        number, size = int(self.cluster.max(initial=-1)) + 1, self.cluster.size
        values = [np.ones(size), *map(self.lines.values, self.columns)]
        place = group * 2 + self.lines.arm
        rows = np.concatenate([place + k * 2 * groups for k in range(len(values))])
        entries = np.concatenate([self.lines.weight * value for value in values])
        shape = (2 * groups * len(values), number)
        totals = sparse.csr_array((entries, (rows, np.tile(self.cluster, len(values)))), shape=shape)
        drawn = np.zeros((resamples, len(values), groups, 2))
        step = max(1, BLOCK // max(number, 1))
        for first in range(0, resamples if number > 1 else 0, step):
            last = min(resamples, first + step)
            chosen = [rng.integers(0, number, round(share * (number - 1))) for _ in range(first, last)]
            draws = np.stack([np.bincount(sample, minlength=number).astype(np.float64) for sample in chosen], -1)
            drawn[first:last] = (totals @ draws).T.reshape(last - first, *drawn.shape[1:])
        return ArmMoments.from_sums(self.columns, drawn[:, 0], np.moveaxis(drawn[:, 1:], 1, -1), None)


@dataclass(frozen=True)
class Bootstrap(Option):
    """Standard errors come from the nonparametric bootstrap.

    Parameters
    ----------
    resamples : int, default 1000
        Number of samples drawn.
    over : {"cells", "rows"}, default "cells"
        "cells" works for any number of rows: the counts of all cells are multinomial, exactly as if rows were drawn
        with replacement. Given its count m, the sum of m draws from a cell has mean m * mean and covariance
        m * covariance, and is drawn normal. For a 0/1 outcome the counts of events are therefore exact, and only the
        predictions within a cell are approximated. "rows" draws rows in memory.
    """

    name: ClassVar[str] = "bootstrap"
    resamples: Annotated[int, Number(least=2, most=100_000, whole=True)] = 1_000
    over: Literal["cells", "rows"] = "cells"


def resample_rows(
    lines: ExperimentRows, columns: tuple[str, ...], resamples: int, rng: np.random.Generator
) -> tuple[ArmMoments, ...]:
    """Moments (means only) of rows drawn with replacement, one `ArmMoments` per partition."""
    values = np.stack([np.ones(lines.weight.size), *map(lines.values, columns)])
    rows, chance = round(float(lines.weight.sum())), lines.weight / lines.weight.sum()
    totals: list[list[FloatArray]] = [[] for _ in lines.groups]
    for _ in range(resamples):
        drawn = rng.multinomial(rows, chance).astype(float)
        for (group, groups), draws in zip(lines.groups, totals, strict=True):
            cells = [np.bincount(group * 2 + lines.arm, w, 2 * groups) for w in drawn * values]
            draws.append(np.stack(cells, -1).reshape(groups, 2, -1).astype(float))
    stacked = [np.stack(draws) for draws in totals]
    return tuple(ArmMoments.from_sums(columns, part[..., 0], part[..., 1:], None) for part in stacked)


def draw_moments(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance and mean square of resampled estimates (first axis); resamples that gave no number are left out."""
    finite = np.isfinite(draws)
    number = np.maximum(finite.sum(0), 2)
    values = np.where(finite, draws, 0.0)
    mean = values.sum(0) / number
    variance = np.where(finite, (values - mean) ** 2, 0.0).sum(0) / (number - 1)
    return variance, (values**2).sum(0) / number
