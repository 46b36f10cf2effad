"""What thresholds can make equal: each metric as a function of the threshold, and the thresholds where all agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.calibration.smoothing.cells import Cells, above
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status

Target = Literal["outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value"]
Direction = Literal["both", "raise", "lower"]
RISING = ("outcome_at_margin", "predictive_value")  # metrics that rise with the threshold; the others fall
EVENTS = 10.0  # a group takes part from this many expected events and non-events

# The numerator and the denominator of each metric: of the rows with a score from the threshold up, and of these or all.
Ratio = tuple[FloatArray, FloatArray, bool]
RATIOS: dict[str, Callable[[Cells], Ratio]] = {
    "selection_rate": lambda cells: (cells.rows, cells.rows, False),
    "tpr": lambda cells: (cells.total, cells.total, False),
    "fpr": lambda cells: (cells.known - cells.total, cells.known - cells.total, False),
    "predictive_value": lambda cells: (cells.total, cells.known, True),
}


def metrics_of(target: Target) -> tuple[str, ...]:
    """The metrics that are made equal."""
    return ("tpr", "fpr") if target == "equalized_odds" else (target,)


def ratio(cells: Cells, metric: str) -> tuple[FloatArray, FloatArray]:
    """The numerator and the denominator of a metric at every edge of the bins."""
    numerator, denominator, selected_only = RATIOS[metric](cells)
    reached = above(numerator)
    whole = above(denominator) if selected_only else denominator.sum(axis=-1, keepdims=True)
    return reached, np.broadcast_to(whole, reached.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """What follows from the threshold of some people: their metric, and how many are selected."""

    edges: FloatArray
    value: FloatArray  # at each edge, monotone
    selected: FloatArray  # rows with a score of at least each edge
    rising: bool

    def at(self, threshold: float) -> float:
        """The metric at a threshold."""
        return float(np.interp(threshold, self.edges, self.value))

    def positives(self, threshold: float) -> float:
        """The rows selected at a threshold."""
        return float(np.interp(threshold, self.edges, self.selected))

    def threshold(self, value: float) -> float:
        """The lowest threshold at which a rising metric reaches ``value``, the highest at which a falling one does."""
        if not self.rising:
            return float(np.interp(value, self.value[::-1], self.edges[::-1]))
        rounding = 1e-12 * max(float(np.abs(self.value[[0, -1]]).max()), 1e-300)  # a level stretch is level up to this
        steps = np.concatenate(([True], np.diff(self.value) > rounding))
        return float(np.interp(value, self.value[steps], self.edges[steps]))


def responses(cells: Cells, target: Target) -> list[Response]:
    """The response of each group to its threshold, for every target but the outcomes at the margin."""
    edges, selected = cells.bins.edges, above(cells.rows)
    if target == "predictive_value":
        values = [_precision(*pair) for pair in zip(*ratio(cells, target), strict=True)]
    else:
        values = list(np.mean([_share(*ratio(cells, metric)) for metric in metrics_of(target)], axis=0))
    return [Response(edges, *pair, target in RISING) for pair in zip(values, selected, strict=True)]


def _share(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    return np.asarray(numerator / np.maximum(denominator, np.finfo(float).tiny))


def _precision(positive: FloatArray, known: FloatArray) -> FloatArray:
    """The share of positives among those selected, made nondecreasing; level beyond the last rows that tell it."""
    value = _share(positive, known)
    rarer = np.minimum(positive, known - positive)
    held = (rarer >= min(EVENTS, 0.5 * float(rarer[0]))) & (known > 0)
    rising = isotonic_regression(value[held], weights=known[held]).x if held.any() else value[:1]
    return np.concatenate([rising, np.full(value.size - rising.size, rising[-1])])


def common_value(curves: Sequence[Response], wanted: float) -> tuple[float, bool]:
    """The value of the metric at which all together select ``wanted`` rows, and whether there is one."""
    low, high = (float(end([end(curve.value) for curve in curves])) for end in (np.min, np.max))

    def surplus(value: float) -> float:
        return sum(curve.positives(curve.threshold(value)) for curve in curves) - wanted

    if high - low < 1e-12:
        return low, False
    solution = root(surplus, low, high)
    return float(solution.x), solution.status is Status.OK


def one_way(curves: Sequence[Response], present: float, direction: Direction) -> float:
    """The value that all can have when thresholds move one way only: the present one of the group that stays."""
    now = [curve.at(present) for curve in curves]
    return max(now) if curves[0].rising == (direction == "raise") else min(now)


def within(threshold: float, present: float, direction: Direction) -> float:
    """A threshold no further than the direction allows."""
    if direction == "both":
        return threshold
    return max(threshold, present) if direction == "raise" else min(threshold, present)


def blocks_of(value: FloatArray, shown: BoolArray, known: BoolArray) -> IntArray:
    """Groups that share a threshold: neighbours in ``value`` of which no two were shown to differ; -1 where unknown."""
    block = np.full(value.size, -1)
    members: list[list[int]] = [[]]
    for g in [int(g) for g in np.argsort(value, kind="stable") if known[g]]:
        if any(shown[g, other] for other in members[-1]):
            members.append([])
        members[-1].append(g)
        block[g] = len(members) - 1
    return block
