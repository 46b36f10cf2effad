"""The p-values over every gain that could be required."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from isonomy.alternatives import words
from isonomy.alternatives.options import Scale
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.results import Evidence, column, storable

if TYPE_CHECKING:
    import altair as alt


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SurfaceResult(Evidence):
    """The p-value at every point of a grid of required gains, with the contour of alpha and its crossings.

    The lines run over fairness gains first, then accuracy gains. A point is ``supported`` if its p-value is at most
    ``alpha``. The contour crosses an accuracy gain of 0 at ``supported_fairness_gain`` and a fairness gain of 0 at
    ``supported_accuracy_gain``; both are NaN if the test does not reject even without a required gain.
    """

    method: ClassVar[str] = words.METHOD
    references: ClassVar[tuple[str, ...]] = words.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = words.SURFACE_LIMITS

    accuracy_gain: FloatArray = column("Required gain in accuracy")
    fairness_gain: FloatArray = column("Required cut in unfairness")
    pvalue: FloatArray = column()
    supported: BoolArray = column("Supported")
    alpha: float
    scale: Scale
    supported_fairness_gain: float
    supported_accuracy_gain: float

    @property
    def grids(self) -> tuple[FloatArray, FloatArray]:
        """The accuracy gains and the fairness gains."""
        return np.unique(self.accuracy_gain), np.unique(self.fairness_gain)

    @property
    def contour(self) -> FloatArray:
        """For each fairness gain, the accuracy gain up to which every smaller one is supported; NaN if none is."""
        gains, cuts = self.grids
        steps = np.cumprod(self.supported.reshape(len(gains), len(cuts)), axis=0).sum(axis=0)
        return np.where(steps > 0, gains[np.maximum(steps, 1) - 1], np.nan)

    def findings(self) -> tuple[str, ...]:
        """The two crossings."""
        return (
            words.supported("fairness", self.supported_fairness_gain, self.scale, self.alpha),
            words.supported("accuracy", self.supported_accuracy_gain, self.scale, self.alpha),
        )

    def plot(self) -> alt.TopLevelMixin:
        """Heat map with the contour and the crossings."""
        from isonomy.alternatives.charts import surface_chart
        from isonomy.results.theme import finish

        return finish(surface_chart(self))
