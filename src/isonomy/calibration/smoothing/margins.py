"""Outcomes at the margin as a function of the threshold, and the thresholds at which they are equal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from isonomy.calibration.smoothing.kernels import Bandwidth
from isonomy.calibration.smoothing.sums import KernelSums, Smoother, solve
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status

Direction = Literal["both", "raise", "lower"]
FALL = 3.0  # standard errors


@dataclass(frozen=True, slots=True, eq=False)
class Margin:
    """One group: its outcome curve from the present threshold up, its slope there, its scores."""

    points: FloatArray  # from the present threshold up
    curve: FloatArray  # expected outcome there, nondecreasing
    line: FloatArray  # the same as it was fitted
    slope: float  # at the present threshold; outcomes below it are extrapolated along it
    edges: FloatArray
    share_above: FloatArray  # of the group's rows with a score of at least each edge
    size: float

    def threshold(self, outcome: float) -> float:
        """The lowest score at which the expected outcome reaches ``outcome``."""
        start, value = float(self.points[0]), float(self.curve[0])
        rounding = 1e-12 * float(np.abs(self.curve).max())  # a level stretch is level up to this only
        if outcome < value - rounding:
            lowest = float(self.edges[0])
            return max(lowest, start - (value - outcome) / self.slope) if self.slope > 0 else lowest
        if outcome > self.curve[-1] + rounding:
            return float(self.points[-1])
        rising = np.concatenate(([True], np.diff(self.curve) > rounding))
        return float(np.interp(outcome, self.curve[rising], self.points[rising]))

    def outcome(self, threshold: float) -> float:
        """The expected outcome at a threshold; extrapolated below the present one."""
        start = float(self.points[0])
        if threshold < start:
            return float(self.curve[0]) + self.slope * (threshold - start)
        return float(np.interp(threshold, self.points, self.curve))

    def positives(self, threshold: float) -> float:
        """Rows with a score of at least ``threshold``."""
        return self.size * float(np.interp(threshold, self.edges, self.share_above))

    def moved(self, target: float, direction: Direction) -> float:
        """The threshold at which the outcome is ``target``, no further than the direction allows."""
        present, threshold = float(self.points[0]), self.threshold(target)
        if direction == "raise":
            return max(threshold, present)
        return min(threshold, present) if direction == "lower" else threshold


def fit_margins(
    sums: KernelSums, bandwidth: Bandwidth, present: float, edges: FloatArray, counts: FloatArray
) -> list[Margin]:
    """Curves of all groups from the present threshold up. ``counts``: rows by group between ``edges`` of the score."""
    from sklearn.isotonic import IsotonicRegression

    highest = float(edges[-1])
    points = np.linspace(present, highest, 201) if highest > present else np.array([present])
    smoother = Smoother(points, bandwidth.at(points), 1)
    with np.errstate(over="ignore", invalid="ignore"):  # at points far from a group, which are left out below
        fit = solve(smoother, sums.totals(smoother))
    # Slopes of lines through outcomes near the threshold, at twice the bandwidth: slopes are harder than levels.
    wide = Smoother(points[:1], 2 * bandwidth.at(points[:1]), 1)
    slopes = solve(wide, sums.totals(wide)).beta[1, :, 0] / wide.width[0]
    margins = []
    for g, own in enumerate(counts):
        mass = fit.mass[g]
        # Beyond a group's last scores a local line runs wild; there the curve stays where the data end.
        held = mass > 1e-3 * mass.max()
        line = fit.beta[0, g][held]
        rising = IsotonicRegression().fit(points[held], line, sample_weight=mass[held]).predict(points[held])
        curve, line = (np.interp(points, points[held], values) for values in (rising, line))
        size = float(own.sum())
        share = 1 - np.concatenate(([0.0], np.cumsum(own))) / size
        margins.append(Margin(points, curve, line, float(slopes[g]), edges, share, size))
    return margins


def common_outcome(margins: list[Margin], direction: Direction) -> tuple[float, bool]:
    """The common marginal outcome, and whether it can be reached while keeping the rate."""
    now = [float(margin.curve[0]) for margin in margins]
    if direction != "both":
        return (max(now) if direction == "raise" else min(now)), True
    wanted = sum(margin.positives(float(margin.points[0])) for margin in margins)

    def surplus(outcome: float) -> float:
        return sum(margin.positives(margin.threshold(outcome)) for margin in margins) - wanted

    low, high = min(now), max(now)
    if high - low < 1e-12:
        return low, True
    # At the lowest present outcome no threshold rises and at the highest none falls: the root lies between.
    solution = root(surplus, low, high)
    return float(solution.x), solution.status is Status.OK


@dataclass(frozen=True, slots=True, eq=False)
class Outcomes:
    """Outcomes at the margin of each group, NaN where they are not known."""

    before: FloatArray
    after: FloatArray
    falling: BoolArray  # whether outcomes fall as the score rises, so that the rising curve is not theirs

    @classmethod
    def at(
        cls, margins: list[Margin], known: BoolArray, thresholds: FloatArray, present_se: FloatArray, se: FloatArray
    ) -> Outcomes:
        """At the new thresholds. Of groups that fall, the outcomes are those of the line as it was fitted.

        ``present_se``, ``se``: standard errors of the outcomes at the present and at the new thresholds.
        """
        before, after = np.full((2, known.size), np.nan)
        falling = np.zeros(known.size, dtype=bool)
        for margin, g in zip(margins, np.flatnonzero(known), strict=True):
            fitted, present = replace(margin, curve=margin.line), float(margin.points[0])
            at = max(float(thresholds[g]), present)
            # Making a rising curve nondecreasing moves it by a part of its error; three standard errors are a fall.
            apart = [abs(margin.outcome(x) - fitted.outcome(x)) for x in (present, at)]
            falling[g] = apart[0] > FALL * present_se[g] or apart[1] > FALL * se[g]
            shown = fitted if falling[g] else margin
            before[g], after[g] = shown.outcome(present), shown.outcome(float(thresholds[g]))
        return cls(before, after, falling)
