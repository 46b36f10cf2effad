"""Arm means and covariances of the few columns an estimator is made of, and what can be done with them alone.

A *column* is a function of one row: the outcome ``y``, the predicted effect ``f``, the baseline ``h``, and products
of these. `COLUMNS` says how each is formed, and how it moves when ``f`` is corrected by a constant: that is why a
correction never needs a second look at the rows, save for the one column with ``1/f``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import FloatArray

CONTROL, TREATED = 0, 1


@dataclass(frozen=True, slots=True)
class Column:
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

    def __mul__(self, other: Column) -> Column:
        return Column(self.power + other.power, tuple(sorted((*self.factors, *other.factors))))


COLUMNS: Mapping[str, Column] = {
    "y": Column(1, ()),
    "yf": Column(1, ("f",), "y"),
    "y/f": Column(1, ("1/f",), None),
    "f": Column(0, ("f",), "1"),
    "h": Column(0, ("h",)),
    "hf": Column(0, ("f", "h"), "h"),
    # Predicted outcomes in either arm, for AIPW; "fp0" is the prediction of y f among controls.
    "p0": Column(0, ("p0",)),
    "p1": Column(0, ("p1",)),
    "fp0": Column(0, ("f", "p0"), "p0"),
}


CUBE = Column(3, ())


def column(name: str) -> Column:
    """How a column is formed. A name that is not in `COLUMNS` is a feature of the user's."""
    return COLUMNS.get(name, Column(0, (name,)))


def products(columns: Sequence[str]) -> dict[str, Column]:
    """Every first and second moment of the columns, and the third of the outcome, by name."""
    singles = [column(name) for name in columns]
    pairs = [left * right for i, left in enumerate(singles) for right in singles[i:]]
    cubes = [CUBE] if "y" in columns else []
    return {product.name: product for product in (*singles, *pairs, *cubes)}


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
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
    ) -> Moments:
        """Means and unbiased covariances from counts, sums and sums of products; 0 where rows are too few."""
        mean = sums / np.where(n > 0, n, 1.0)[..., None]
        if products is None:
            return cls(columns, n, mean, None)
        centred = products - sums[..., :, None] * mean[..., None, :]
        # What rounding leaves of a constant column is not variance.
        varies = np.diagonal(centred, axis1=-2, axis2=-1) > 1e-13 * np.diagonal(products, axis1=-2, axis2=-1)
        centred = centred * (varies[..., :, None] & varies[..., None, :])
        cov = np.where((n > 1)[..., None, None], centred / np.maximum(n - 1, 1)[..., None, None], 0.0)
        return cls(columns, n, mean, cov)

    def others(self) -> Moments:
        """For each group, the rows of all other groups pooled into one (the paper's rest)."""
        n, sums = _others(self.n, -2), _others(self.n[..., None] * self.mean, -3)
        if self.cov is None:
            return Moments.from_sums(self.columns, n, sums, None)
        weight = self.n[..., None, None]
        products = np.maximum(weight - 1, 0) * self.cov + weight * self.mean[..., :, None] * self.mean[..., None, :]
        return Moments.from_sums(self.columns, n, sums, _others(products, -4))

    def shifted(self, delta: FloatArray) -> Moments:
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
        return Moments(self.columns, self.n, mean, cov)

    def scaled(self, factor: FloatArray) -> Moments:
        """The moments if every predicted effect had been multiplied by ``factor`` (one per group)."""
        powers = np.array([0 if column(name).slope == "" else -1 if name == "y/f" else 1 for name in self.columns])
        scale = np.asarray(factor, dtype=float)[..., None] ** powers
        mean = self.mean * scale[..., None, :]
        cov = None if self.cov is None else self.cov * scale[..., None, :, None] * scale[..., None, None, :]
        return Moments(self.columns, self.n, mean, cov)


def _others(values: FloatArray, axis: int) -> FloatArray:
    """The total over groups (the given axis) minus each group's own part."""
    return values.sum(axis, keepdims=True) - values
