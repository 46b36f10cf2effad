"""The p-values over every gain that could be required."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from isonomy.alternatives import wording
from isonomy.alternatives.rules import rounds as together
from isonomy.alternatives.rules.criteria import Scale
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.results import Columns, Result, storable

if TYPE_CHECKING:
    import altair as alt


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SurfaceResult(Result):
    """Combined p-values over required gains, with the contour of the level and its crossings.

    A point is ``supported`` where its p-value is at most ``level``, which is alpha.
    ``fairness_gain`` is where the contour crosses delta_a = 0, ``accuracy_gain`` where it crosses delta_f = 0; NaN
    where even (0, 0) is not supported.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = wording.SURFACE_LIMITS

    accuracy_gains: FloatArray
    fairness_gains: FloatArray
    pvalues: FloatArray
    supported: BoolArray
    level: float
    alpha: float
    scale: Scale
    fairness_gain: float
    accuracy_gain: float

    @property
    def contour(self) -> FloatArray:
        """For each fairness gain the largest accuracy gain supported without a break from below; NaN where none."""
        return together.reach(self.supported, self.accuracy_gains)

    def table(self) -> Columns:
        """One row per grid point."""
        a, f = np.meshgrid(self.accuracy_gains, self.fairness_gains, indexing="ij")
        return {
            "accuracy_gain": a.ravel(),
            "fairness_gain": f.ravel(),
            "pvalue": self.pvalues.ravel(),
            "supported": self.supported.ravel(),
        }

    def findings(self) -> tuple[str, ...]:
        """The two crossings."""
        return (
            wording.supported("fairness", self.fairness_gain, self.scale, self.alpha),
            wording.supported("accuracy", self.accuracy_gain, self.scale, self.alpha),
        )

    def plot(self) -> alt.TopLevelMixin:
        """Heat map with the contour and the crossings."""
        from isonomy.alternatives.figure import surface_chart
        from isonomy.results.theme import finish

        return finish(surface_chart(self))
