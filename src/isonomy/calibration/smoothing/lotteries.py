"""Rules with a lottery between two thresholds: equal true and false positive rates, and ties that are cut up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from isonomy.calibration.smoothing.cells import Cells, above
from isonomy.calibration.smoothing.targets import Response, ratio
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status

SHARE = 2e-3  # of a group: a bin with more of it is cut up by lot, one with less is not worth a lottery
_ENDS = 256  # candidates for the upper threshold of a lottery


@dataclass(frozen=True, slots=True)
class Lottery:
    """Selected from ``high`` up, with ``probability`` from ``low`` up, and not below."""

    low: float
    high: float
    probability: float

    @classmethod
    def none(cls, threshold: float) -> Lottery:
        """One threshold for everybody."""
        return cls(threshold, threshold, 1.0)


def cut_up(threshold: float, curve: Response, *, randomize: bool) -> Lottery:
    """The rule at a threshold inside a bin with many equal scores: a lottery, or the nearer end of the bin."""
    edges, selected = curve.edges, curve.selected
    place = int(np.clip(np.searchsorted(edges, threshold, side="right") - 1, 0, edges.size - 2))
    low, high = float(edges[place]), float(edges[place + 1])
    if selected[place] - selected[place + 1] <= SHARE * selected[0]:
        return Lottery.none(threshold)
    share = min(max((high - threshold) / (high - low), 0.0), 1.0)
    if randomize:
        return Lottery(low, high, share)
    return Lottery.none(low if share >= 0.5 else high)


def equal_odds(cells: Cells, wanted: float) -> tuple[list[Lottery], FloatArray, bool]:
    """Lotteries with equal true and false positive rates that select ``wanted`` rows, these rates, and whether there
    are any.

    A group can have any pair of rates under the concave hull of its curve; the best pair that all can have lies on the
    lowest of the hulls (Hardt, Price, Srebro 2016).
    """
    (tp, positive), (fp, negative) = ratio(cells, "tpr"), ratio(cells, "fpr")
    tpr, fpr = tp / positive, fp / negative
    hulls = [_hull(x[::-1], y[::-1]) for x, y in zip(fpr, tpr, strict=True)]
    positives, negatives = float(positive[:, 0].sum()), float(negative[:, 0].sum())
    scale = float(cells.rows.sum()) / (positives + negatives)

    def best(x: float) -> float:
        return min(float(np.interp(x, *hull)) for hull in hulls)

    solution = root(lambda x: scale * (positives * best(x) + negatives * x) - wanted, 0.0, 1.0)
    x = float(solution.x)
    pair = np.array([best(x), x])
    selected = above(cells.rows)
    rules = [_chord(pair, tpr[g], fpr[g], selected[g], cells.bins.edges, hulls[g]) for g in range(len(hulls))]
    return rules, pair, solution.status is Status.OK


def _hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The upper concave hull of points in order of ``x``."""
    keep: list[int] = []
    for i in range(x.size):
        while len(keep) > 1 and _cross(x, y, keep[-2], keep[-1], i) >= 0:
            keep.pop()
        keep.append(i)
    return x[keep], y[keep]


def _cross(x: FloatArray, y: FloatArray, a: int, b: int, c: int) -> float:
    return float((x[b] - x[a]) * (y[c] - y[a]) - (y[b] - y[a]) * (x[c] - x[a]))


def _chord(
    pair: FloatArray,
    tpr: FloatArray,
    fpr: FloatArray,
    selected: FloatArray,
    edges: FloatArray,
    hull: tuple[FloatArray, FloatArray],
) -> Lottery:
    """The lottery between two thresholds that has a pair of rates, for as few people as possible."""
    y, x = float(pair[0]), float(pair[1])
    if float(np.interp(x, *hull)) - y <= 1e-9:  # on the hull: between the two corners around it
        right = int(np.clip(np.searchsorted(hull[0], x, side="left"), 1, hull[0].size - 1))
        ends = [int(np.flatnonzero((fpr == hull[0][k]) & (tpr == hull[1][k]))[0]) for k in (right - 1, right)]
        run = float(hull[0][right] - hull[0][right - 1])
        share = (x - float(hull[0][right - 1])) / run if run > 0 else 1.0
        return Lottery(float(edges[ends[1]]), float(edges[ends[0]]), share)
    strict = np.flatnonzero((fpr <= x) & ((fpr < x) | (tpr < y)))  # thresholds above the pair's, the highest last
    first = np.unique(strict[np.linspace(0, strict.size - 1, _ENDS).astype(np.intp)])
    later = np.arange(int(strict[0]) + 1)[::-1]  # lower thresholds, going down
    # Where the line from the upper threshold's rates through the pair meets the curve again.
    side = (x - fpr[first, None]) * (tpr[later] - tpr[first, None]) - (y - tpr[first, None]) * (
        fpr[later] - fpr[first, None]
    )
    crossing = (side[:, :-1] >= 0) & (side[:, 1:] < 0) & (fpr[later][1:] > x)
    has = crossing.any(axis=1)
    at = crossing[has].argmax(axis=1)
    a, b, line = first[has], later[at], side[has]
    share = line[np.arange(at.size), at] / (line[np.arange(at.size), at] - line[np.arange(at.size), at + 1])
    c = later[at + 1]
    low, reached = edges[b] + share * (edges[c] - edges[b]), fpr[b] + share * (fpr[c] - fpr[b])
    top = tpr[b] + share * (tpr[c] - tpr[b])
    beyond = (reached >= x) & (top >= y)  # the pair lies between the two ends
    if not beyond.any():  # a curve below that of chance
        return Lottery(float(edges[0]), float(edges[-1]), (x + y) / 2)
    concerned = selected[b] + share * (selected[c] - selected[b]) - selected[a]
    best = int(np.argmin(np.where(beyond, concerned, np.inf)))
    start = int(a[best])
    runs = reached[best] - fpr[start], top[best] - tpr[start]
    # Along the axis on which the two ends are further apart.
    chance = (x - fpr[start]) / runs[0] if runs[0] >= runs[1] else (y - tpr[start]) / runs[1]
    return Lottery(float(low[best]), float(edges[start]), float(chance))
