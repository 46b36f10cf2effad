"""Arm means and covariances of the few columns an estimator is made of, and what can be done with them alone.

A *column* is a function of one row: the outcome ``y``, the predicted effect ``f``, the baseline ``h``, and products
of these. `COLUMNS` says how each is formed, and how it moves when ``f`` is corrected by a constant: that is why a
correction never needs a second look at the rows, save for the one column with ``1/f``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.smooth import Smooth

CONTROL, TREATED = 0, 1


@dataclass(frozen=True, slots=True)
class Column:
    """``y`` to some power times the product of ``factors``; ``slope``: the column it loses per unit of correction."""

    power: int
    factors: tuple[str, ...]
    slope: str | None = ""  # "": does not depend on f; None: not linear in f


COLUMNS: Mapping[str, Column] = {
    "y": Column(1, ()),
    "yf": Column(1, ("f",), "y"),
    "y/f": Column(1, ("1/f",), None),
    "f": Column(0, ("f",), "1"),
    "h": Column(0, ("h",)),
    "hf": Column(0, ("h", "f"), "h"),
    # Predicted outcomes in either arm, for AIPW; "fp" is the prediction of y f among controls.
    "p0": Column(0, ("p0",)),
    "p1": Column(0, ("p1",)),
    "fp0": Column(0, ("f", "p0"), "p0"),
}


def column(name: str) -> Column:
    """How a column is formed. A name that is not in `COLUMNS` is a feature of the user's."""
    return COLUMNS.get(name, Column(0, (name,)))


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
        mean = sums / np.maximum(n, 1)[..., None]
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
        """The moments had ``delta`` (one a group) been subtracted from every predicted effect."""
        matrix = np.zeros((*np.shape(delta), len(self.columns), len(self.columns)))
        matrix[...] = np.eye(len(self.columns))
        constant = np.zeros((*np.shape(delta), len(self.columns)))
        for i, name in enumerate(self.columns):
            slope = column(name).slope
            if slope is None:
                raise UsageError(
                    f"collapse: column {name} is not linear in the effect, so a correction needs a second pass over "
                    'the rows; use another collapse, for instance "control_outcome".'
                )
            if slope == "1":
                constant[..., i] = -delta
            elif slope:
                matrix[..., i, self.columns.index(slope)] = -delta
        wide = matrix[..., None, :, :]
        mean = (wide @ self.mean[..., None])[..., 0] + constant[..., None, :]
        cov = None if self.cov is None else wide @ self.cov @ np.swapaxes(wide, -1, -2)
        return Moments(self.columns, self.n, mean, cov)


def _others(values: FloatArray, axis: int) -> FloatArray:
    """The total over groups (the given axis) minus each group's own part."""
    return values.sum(axis, keepdims=True) - values


@dataclass(frozen=True, slots=True, eq=False)
class Arms:
    """The means of `Moments` as ingredients of formulas, with gradients or without.

    ``slopes`` adjusts a mean for the chance imbalance of covariates between the arms: mean + slope @ (overall - arm).
    Keys are (arm, column), values coefficients on all columns, shape ``(G, k)``. Adjusting by a slope that was itself
    estimated costs nothing to first order (Lin 2013).
    """

    moments: Moments
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
        value = (share * self.moments.mean[..., self._index(name)]).sum(-1)
        return Smooth(value, share[..., None] * self._unit(name) if self.gradients else None)

    def constant(self, value: float) -> Smooth:
        """A known number."""
        flat = np.zeros(self.moments.mean.shape) if self.gradients else None
        return Smooth(np.full(self.moments.n.shape[:-1], value), flat)

    def _mean(self, arm: int, name: str) -> Smooth:
        mean, slope = self.moments.mean, self.slopes.get((arm, name))
        value = mean[..., arm, self._index(name)]
        if slope is not None:
            overall = (self._share()[..., None] * mean).sum(-2)
            value = value + (slope * (overall - mean[..., arm, :])).sum(-1)
        return Smooth(value, self._gradient(arm, name, slope) if self.gradients else None)

    def _gradient(self, arm: int, name: str, slope: FloatArray | None) -> FloatArray:
        gradient = np.zeros(self.moments.mean.shape)
        gradient[..., arm, :] = self._unit(name)
        if slope is not None:
            gradient += self._share()[..., None] * slope[..., None, :]
            gradient[..., arm, :] -= slope
        return gradient

    def _share(self) -> FloatArray:
        n = self.moments.n
        return n / np.maximum(n.sum(-1, keepdims=True), 1.0)

    def _index(self, name: str) -> int:
        return self.moments.columns.index(name)

    def _unit(self, name: str) -> FloatArray:
        unit = np.zeros(len(self.moments.columns))
        unit[self._index(name)] = 1.0
        return unit
