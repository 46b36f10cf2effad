"""Rows and cells added up: counts, sums and sums of products by group, bucket, arm and kind of outcome.

The kind separates outcomes that are exactly 0, exactly 1 and anything else. Moments add over kinds, so estimates do
not depend on it; the bootstrap over cells does, and is then exact in the counts of a 0/1 outcome.

Buckets are parts of the rows. A random half of the rows is a random half of random buckets, so one pass serves every
split and both of its swaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from operator import mul

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.treatment.effects.events import Counts
from isonomy.treatment.effects.moments import CUBE, Column, Moments, column, products

KINDS = 3  # 0, 1, any other


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
    def counts(self) -> Counts:
        """Rows and outcomes of 1, by group and arm."""
        return Counts(self.n.sum((1, 3)), self.n[..., 1].sum(1))

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

    def moments(self, buckets: IntArray | slice = slice(None)) -> Moments:
        """Moments of each group over the given buckets."""
        n, sums, products = (a[:, buckets].sum((1, 3)) for a in (self.n, self.sums, self.products))
        return Moments.from_sums(self.columns, n, sums, products)

    def part(self, buckets: IntArray) -> Sums:
        """The same sums over the given buckets only, as one bucket."""
        parts = (self.n, self.sums, self.products, self.cubes)
        return Sums(self.columns, *(a[:, buckets].sum(1, keepdims=True) for a in parts))


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Rows in memory: what columns are made of, each row's arm and kind, and its group in every partition."""

    factors: Mapping[str, FloatArray]  # "y", "f", "h", features and predictions
    arm: IntArray
    kind: IntArray
    weight: FloatArray  # rows each line stands for
    groups: tuple[tuple[IntArray, int], ...]  # for each partition: the group of each line, and how many there are

    def values(self, product: Column) -> FloatArray:
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
