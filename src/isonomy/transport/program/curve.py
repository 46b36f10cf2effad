"""The tolerance curve: for every tolerance, whether it is rejected and whether it is shown to hold.

The smallest tolerance that is not rejected is a confidence limit from below for the largest difference, the smallest
that is shown to hold one from above: each is wrong with probability at most alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.transport.program.criteria import Moments
from isonomy.transport.program.inference import Edge, Inference, infer
from isonomy.transport.program.measured import Measured, Remembered
from isonomy.transport.program.tolerance import ToleranceSide, tolerated

POINTS = 15  # of the curve, between 0 and beyond both limits
DRAWS = 10_000  # of each p-value
HALVINGS = 12  # of the interval that holds the smaller limit


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToleranceCurve:
    """p-values of every tolerance, and what they say of the largest difference.

    Attributes
    ----------
    tolerance, pvalue, within_pvalue : ndarray
        The tolerances, the p-value of "every difference is within it", and that of "some difference is at least it".
    least : float
        The smallest tolerance that is not rejected: with confidence 1 - alpha some difference is larger. 0 where
        equality is not rejected, NaN where nothing was tested.
    most : float
        The smallest tolerance that is shown to hold: with confidence 1 - alpha no difference is larger. Infinite where
        none is.
    """

    tolerance: FloatArray
    pvalue: FloatArray
    within_pvalue: FloatArray
    least: float
    most: float

    def __post_init__(self) -> None:
        for values in (self.tolerance, self.pvalue, self.within_pvalue):
            values.flags.writeable = False


def tolerance_curve(
    rows: Measured, asked: Moments, side: ToleranceSide, *, alpha: float, rng: np.random.Generator, **options: Any
) -> ToleranceCurve:
    """Test every tolerance, with the same draws for all."""
    kept, seed = Remembered(rows), int(rng.integers(2**63))

    def null(tolerance: float) -> Any:
        return tolerated(tolerance, side, asked.keys)

    @cache
    def inferred(tolerance: float) -> Inference:
        return infer(kept, asked, null(tolerance), draws=DRAWS, rng=np.random.default_rng(seed), **options)

    def pvalue(tolerance: float) -> float:
        return inferred(tolerance).pvalue

    def within(tolerance: float) -> float:
        equal = inferred(0.0)
        if np.isnan(equal.wald_pvalue):  # nothing varies, or too few clusters to judge by
            return float("nan")
        error = None if rows.sample is None else equal.standard_error
        return Edge(rows.cells, asked, null(tolerance)).within(error, equal.df)

    beyond = {"both": np.abs(asked.value), "upper": asked.value, "lower": -asked.value}[side]
    largest = max(0.0, float(beyond.max()))
    least, high = 0.0, largest
    if np.isnan(pvalue(0.0)):
        least = np.nan
    elif pvalue(0.0) <= alpha and largest > 0:
        for _ in range(HALVINGS):
            middle = (least + high) / 2
            least, high = (middle, high) if pvalue(middle) <= alpha else (least, middle)
    # A tolerance of 0 cannot be shown to hold, whatever was seen.
    bottom, top = largest + 1e-12, 1.0 - 1e-9 if asked.events else 100 * (largest + 1e-12)
    shown = within(top) <= alpha  # as far as tolerances go
    most = root(lambda t: within(t) - alpha, bottom, top).x if shown and within(bottom) > alpha else np.inf
    end = 1.5 * (most if np.isfinite(most) else max(largest, 1e-3))
    grid = np.linspace(0.0, min(end, top), POINTS)
    return ToleranceCurve(
        tolerance=grid,
        pvalue=np.array([pvalue(float(t)) for t in grid]),
        within_pvalue=np.array([within(float(t)) for t in grid]),
        least=float(least),
        most=float(most),
    )
