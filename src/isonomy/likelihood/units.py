"""The units of a joint likelihood: the metric less its mean, in standard deviations.

Sums of squares about a distant origin lose the digits that tell functions apart, and what a solver may leave undone is
an absolute amount. So the rows are centred and scaled once, before patterns are made of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from isonomy.likelihood.tally import Evidence
from isonomy.numerics.arrays import FloatArray


@dataclass(frozen=True, slots=True)
class Units:
    """A value x of the metric is (x - ``centre``) / ``scale`` in these units, a disparity ε is ε / ``scale``."""

    centre: float = 0.0
    scale: float = 1.0

    @classmethod
    def of(cls, evidence: Evidence) -> Units:
        """Of the rows inside the metric's condition; a 0/1 metric keeps its own, in which counts are enough."""
        if evidence.binary:
            return cls()
        value, weight = evidence.value, evidence.weight
        if evidence.inside is not None:
            value, weight = value[evidence.inside], None if weight is None else weight[evidence.inside]
        low, high = float(value.min()), float(value.max())
        if low == high:
            return cls(low)
        centre = float(np.average(value, weights=weight))
        reach = max(high - centre, centre - low)
        spread = reach * np.sqrt(np.average(((value - centre) / reach) ** 2, weights=weight))
        # The nearest power of two: scaling then rounds nothing.
        return cls(centre, float(np.exp2(np.rint(np.log2(spread)))) if spread > 0 else 1.0)

    def standard(self, evidence: Evidence) -> Evidence:
        """The same rows in these units."""
        if self == Units():
            return evidence
        value = self.turned(evidence.value)
        influence = None if evidence.influence is None else evidence.influence / self.scale
        inside = evidence.inside
        return replace(evidence, value=value if inside is None else np.where(inside, value, 0.0), influence=influence)

    def turned(self, value: FloatArray) -> FloatArray:
        """Values of the metric in these units."""
        return (value - self.centre) / self.scale
