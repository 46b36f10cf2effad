"""The rows of a test as lines: cells with counts for a 0/1 metric, else rows; and the units they are solved in."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isonomy.likelihood.ratio.joint import Patterns
from isonomy.likelihood.ratio.means import Binary, Real
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged


@dataclass(frozen=True, slots=True)
class Units:
    """A value x of the metric is (x - ``centre``) / ``scale`` in these units, a disparity ε is ε / ``scale``.

    Sums of squares about a distant origin lose the digits that tell functions apart, and what a solver may leave undone
    is an absolute amount. So a joint likelihood takes the metric less its mean, in standard deviations.
    """

    centre: float = 0.0
    scale: float = 1.0

    @property
    def zero(self) -> float:
        """How far the metric's zero lies below the origin, in these units."""
        return self.centre / self.scale

    def standard(self, value: FloatArray) -> FloatArray:
        """Values of the metric in these units."""
        return (value - self.centre) / self.scale


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """One ``value`` of the metric per line, ``weight`` rows to a line (None: one), and the rows' ``influence`` on a
    reference that the caller estimated."""

    binary: bool
    value: FloatArray
    weight: FloatArray | None = None
    influence: FloatArray | None = None

    @property
    def mass(self) -> FloatArray:
        """How many rows each line stands for."""
        return np.ones(self.value.size) if self.weight is None else self.weight

    def means(self, codes: IntArray, size: int) -> Binary | Real:
        """The groups 0..size-1 of ``codes``, one code per line; lines with code -1 are left out."""
        if not self.binary:
            return Real(Ragged.from_codes(codes, size, self.value, weights=self.weight))
        n, ones = (
            np.bincount(codes + 1, weights=weight, minlength=size + 1)[1:]
            for weight in (self.mass, self.mass * self.value)
        )
        return Binary(n, ones)

    def patterns(self, codes: IntArray, size: int) -> Patterns:
        """The lines arranged for a joint likelihood; lines with code -1 are left out."""
        if self.binary and self.influence is None:
            return Patterns.of_counts(codes, size, self.value, self.mass)
        columns = (self.value,) if self.influence is None else (self.value, self.influence)
        return Patterns(codes, size, columns, self.weight)

    def collapsed(self, codes: IntArray) -> tuple[IntArray, Lines]:
        """Equal lines of one code as one, in an order of their own: how the rows came must not change a draw."""
        columns = [codes, self.value, *(() if self.influence is None else (self.influence,))]
        order = np.lexsort(columns[::-1])
        columns = [column[order] for column in columns]
        starts = np.flatnonzero(np.any([np.diff(column, prepend=np.nan) != 0 for column in columns], axis=0))
        weight = np.add.reduceat(self.mass[order], starts)
        influence = None if self.influence is None else columns[2][starts]
        return columns[0][starts], Lines(self.binary, columns[1][starts], weight, influence)

    def standard(self, inside: BoolArray | None) -> tuple[Units, Lines]:
        """The units in which a joint likelihood is solved, and the lines in them: 0 outside the metric's condition.

        A 0/1 metric keeps its own units, in which counts are enough.
        """
        if self.binary:
            return Units(), self
        units = self._units(inside)
        value = units.standard(self.value)
        influence = None if self.influence is None else self.influence / units.scale
        value = value if inside is None else np.where(inside, value, 0.0)
        return units, replace(self, value=value, influence=influence)

    def _units(self, inside: BoolArray | None) -> Units:
        value, weight = self.value, self.weight
        if inside is not None:
            value, weight = value[inside], None if weight is None else weight[inside]
        low, high = float(value.min()), float(value.max())
        if low == high:
            return Units(low)
        centre = float(np.average(value, weights=weight))
        reach = max(high - centre, centre - low)
        spread = reach * np.sqrt(np.average(((value - centre) / reach) ** 2, weights=weight))
        # The nearest power of two: scaling then rounds nothing.
        return Units(centre, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)
