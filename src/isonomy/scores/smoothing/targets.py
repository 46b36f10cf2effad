"""Thresholds that make a metric equal: rows by bins of the score, responses to a threshold, lotteries, the search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status
from isonomy.scores.smoothing.bands import beyond

# ---- cells

COARSE = 2**10  # bins of the score axis in which samples are drawn again
FINE = 2**13  # bins of the score axis in which thresholds are found
PARTS = 100  # into which people with several rows are dealt: as many independent parts of the table


@dataclass(frozen=True, slots=True)
class ScoreBins:
    """Equal bins of the score. The present threshold is the lower edge of a bin, so nobody is on its wrong side."""

    present: float
    before: int  # bins below the present threshold
    step: float
    size: int

    @classmethod
    def of(cls, low: float, high: float, present: float) -> ScoreBins:
        """Bins from ``low`` to ``high`` that can be joined to `COARSE` ones."""
        low, high = min(low, present), max(high, present)
        join, step = FINE // COARSE, (high - low if high > low else 1.0) / (COARSE - 1)
        return cls(present, join * int(np.ceil((present - low) / step)), step / join, FINE)

    @property
    def joined(self) -> ScoreBins:
        """The same range in `COARSE` bins."""
        join = self.size // COARSE
        return ScoreBins(self.present, self.before // join, self.step * join, COARSE)

    @property
    def edges(self) -> FloatArray:
        """The ends of the bins, one more than there are bins."""
        return np.asarray(self.present + self.step * (np.arange(self.size + 1.0) - self.before))

    @property
    def centers(self) -> FloatArray:
        """The middle of each bin."""
        return np.asarray(self.present + self.step * (np.arange(self.size) - self.before + 0.5), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCells:
    """Sums over the rows in each bin (last axis) of each group (the axis before), perhaps of each part (first axis)."""

    bins: ScoreBins
    rows: FloatArray
    known: FloatArray  # rows whose outcome is known
    total: FloatArray  # of their outcomes
    square: FloatArray  # of the squares of their outcomes
    vote: FloatArray  # votes of the rows from which outcomes at the margin are read
    voted: FloatArray  # votes times outcomes

    def pooled(self, blocks: IntArray) -> ScoreCells:
        """The groups of each block together; a group with the number -1 is in none."""
        size = int(blocks.max()) + 1
        member = (blocks[None, :] == np.arange(size)[:, None]).astype(np.float64)
        return self._each(lambda values: np.asarray(member @ values))

    @property
    def joined(self) -> ScoreCells:
        """The same in `COARSE` bins."""
        if self.bins.size == COARSE:
            return self
        wide = self._each(lambda values: values.reshape(*values.shape[:-1], COARSE, -1).sum(axis=-1))
        return replace(wide, bins=self.bins.joined)

    def rated(self, factor: float) -> ScoreCells:
        """The same with votes times a ``factor``."""
        return replace(self, vote=self.vote * factor, voted=self.voted * factor)

    def weighted(self, weight: FloatArray) -> ScoreCells:
        """The sum of the parts, each times its ``weight``."""
        return self._each(lambda values: np.asarray(np.tensordot(weight, values, axes=1)))

    def _each(self, change: Callable[[FloatArray], FloatArray]) -> ScoreCells:
        return ScoreCells(self.bins, *(change(getattr(self, name)) for name in SUMS))


SUMS = ("rows", "known", "total", "square", "vote", "voted")


def scatter(each: FloatArray) -> FloatArray:
    """The covariance of a sum of independent parts, from what each part contributes (first axis)."""
    size = each.shape[0]
    centered = each - each.mean(axis=0)
    return np.asarray(size / max(size - 1, 1) * centered.T @ centered)


def above(values: FloatArray) -> FloatArray:
    """Sums over the bins from each edge up."""
    reached = np.flip(np.cumsum(np.flip(values, axis=-1), axis=-1), axis=-1)
    return np.concatenate([reached, np.zeros((*values.shape[:-1], 1))], axis=-1)


def resampled(
    cells: ScoreCells, parts: ScoreCells | None, draws: int, rng: np.random.Generator
) -> Iterator[ScoreCells]:
    """Bootstrap samples in joined bins: rows are drawn one by one, or the parts of the table as a whole.

    Rows of a bin are alike, so that Poisson numbers of them are the bootstrap of the rows. Outcomes that are not 0/1
    have the mean and the spread of their bin.
    """
    if parts is not None:
        size = parts.rows.shape[0]
        for _ in range(draws):
            yield parts.weighted(rng.multinomial(size, np.full(size, 1 / size)).astype(np.float64))
        return
    wide = cells.joined
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.nan_to_num(wide.total / wide.known)
        spread = np.sqrt(np.maximum(np.nan_to_num(wide.square / wide.known) - mean**2, 0.0))
        votes = np.nan_to_num(wide.vote / wide.known)  # of rows that are not cut up: 1 where outcomes are read, else 0
    binary = bool(np.all(wide.square == wide.total))
    for _ in range(draws):
        known = rng.poisson(wide.known).astype(np.float64)
        if binary:
            total = rng.binomial(known.astype(np.int64), np.clip(mean, 0, 1)).astype(np.float64)
        else:
            total = mean * known + spread * np.sqrt(known) * rng.standard_normal(known.shape)
        rows = known + rng.poisson(np.maximum(wide.rows - wide.known, 0.0))
        yield ScoreCells(wide.bins, rows, known, total, total, votes * known, votes * total)


# ---- targets

Target = Literal["outcome_at_margin", "selection_rate", "tpr", "fpr", "equalized_odds", "predictive_value"]
Direction = Literal["both", "raise", "lower"]
RISING = ("outcome_at_margin", "predictive_value")  # metrics that rise with the threshold; the others fall
EVENTS = 10.0  # a group takes part from this many expected events and non-events

# The numerator and the denominator of each metric: of the rows with a score from the threshold up, and of these or all.
Ratio = tuple[FloatArray, FloatArray, bool]
RATIOS: dict[str, Callable[[ScoreCells], Ratio]] = {
    "selection_rate": lambda cells: (cells.rows, cells.rows, False),
    "tpr": lambda cells: (cells.total, cells.total, False),
    "fpr": lambda cells: (cells.known - cells.total, cells.known - cells.total, False),
    "predictive_value": lambda cells: (cells.total, cells.known, True),
}


def metrics_of(target: Target) -> tuple[str, ...]:
    """The metrics that are made equal."""
    return ("tpr", "fpr") if target == "equalized_odds" else (target,)


def ratio(cells: ScoreCells, metric: str) -> tuple[FloatArray, FloatArray]:
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


def responses(cells: ScoreCells, target: Target) -> list[Response]:
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
    """The share of positives among those selected, made nondecreasing; constant beyond the last informative rows."""
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
    """Groups that share a threshold: neighbors in ``value`` of which no two were shown to differ; -1 where unknown."""
    block = np.full(value.size, -1)
    members: list[list[int]] = [[]]
    for g in [int(g) for g in np.argsort(value, kind="stable") if known[g]]:
        if any(shown[g, other] for other in members[-1]):
            members.append([])
        members[-1].append(g)
        block[g] = len(members) - 1
    return block


# ---- lotteries

SHARE = 2e-3  # of a group: only a bin with a larger share of the group is worth a lottery
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
    """The rule at a threshold inside a bin with many equal scores: a lottery, or the nearer edge of the bin."""
    edges, selected = curve.edges, curve.selected
    place = int(np.clip(np.searchsorted(edges, threshold, side="right") - 1, 0, edges.size - 2))
    low, high = float(edges[place]), float(edges[place + 1])
    if selected[place] - selected[place + 1] <= SHARE * selected[0]:
        return Lottery.none(threshold)
    share = min(max((high - threshold) / (high - low), 0.0), 1.0)
    if randomize:
        return Lottery(low, high, share)
    return Lottery.none(low if share >= 0.5 else high)


def equal_odds(cells: ScoreCells, wanted: float) -> tuple[list[Lottery], FloatArray, bool]:
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


# ---- the search


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The rule of each block of groups, and the value that the rules aim at."""

    rules: list[Lottery]
    aim: FloatArray  # of each metric
    target: float  # the one number that is made equal
    curves: list[Response]
    reached: bool

    def by_group(self, blocks: IntArray, present: float) -> FloatArray:
        """The lower end, the upper end and the probability of each group's rule (3, G)."""
        stay = Lottery.none(present)
        rules = [self.rules[block] if block >= 0 else stay for block in blocks]
        return np.array([[rule.low, rule.high, rule.probability] for rule in rules]).T


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSearch:
    """Finds the rules of blocks of groups, in the table or in a sample of it.

    ``curves`` gives the response of each block to its threshold; ``margin``: the response is that of the outcomes at
    the margin, which are read from a curve and not counted.
    """

    target: Target
    present: float
    capacity: float | None
    direction: Direction
    randomize: bool
    blocks: IntArray
    curves: Callable[[ScoreCells], list[Response]]
    margin: bool

    @property
    def still(self) -> bool:
        """Whether no threshold moves."""
        return int(self.blocks.max()) == 0 and self.capacity is None

    def solve(self, cells: ScoreCells) -> Solution:
        """The rule of each block."""
        present, pooled = self.present, cells.pooled(self.blocks)
        curves = self.curves(pooled)
        if self.still:
            value = np.array([curves[0].at(present)])
            return Solution([Lottery.none(present)], value, float(value[0]), curves, True)
        now = above(cells.rows)[:, cells.bins.before]
        if self.capacity is None:
            wanted = float(now[self.blocks >= 0].sum())
        else:
            wanted = float(self.capacity * cells.rows.sum() - now[self.blocks < 0].sum())
        if self.target == "equalized_odds" and self.randomize:
            rules, pair, reached = equal_odds(pooled, wanted)
            return Solution(rules, pair, float(pair.mean()), curves, reached)
        target, reached = common_value(curves, wanted)
        if self.direction != "both":
            target, reached = one_way(curves, present, self.direction), True
        exact = cells.bins.size == FINE and not self.margin  # joined bins hold many scores, which are not equal
        thresholds = [within(curve.threshold(target), present, self.direction) for curve in curves]
        rules = [
            cut_up(t, curve, randomize=self.randomize) if exact and t != present else Lottery.none(t)
            for t, curve in zip(thresholds, curves, strict=True)
        ]
        return Solution(rules, np.array([target]), target, curves, reached)

    def intervals(
        self, cells: ScoreCells, parts: ScoreCells | None, draws: int, alpha: float, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Percentile intervals over samples drawn again, each with the same blocks; lower and upper ends first.

        Of the thresholds (``high``), of the scores from which lotteries begin (``low``), of the change in the share of
        each group that is selected (``share``) and of the change in accuracy (``accuracy``).
        """
        size = self.blocks.size
        if self.still or not draws:
            stay = np.full((2, size), self.present)
            return {"high": stay, "low": stay, "share": np.zeros((2, size)), "accuracy": np.zeros(2)}
        samples: list[FloatArray] = []
        for drawn in resampled(cells, parts, draws, rng):
            low, high, chance = self.solve(drawn).by_group(self.blocks, self.present)
            edges, numbers = drawn.bins.edges, [above(v) for v in (drawn.rows, drawn.known, drawn.total)]
            from_low, from_high = (
                np.array([[np.interp(t, edges, v[g]) for g, t in enumerate(ends)] for v in numbers])
                for ends in (low, high)
            )
            after = chance * from_low + (1 - chance) * from_high
            before = np.stack([v[:, drawn.bins.before] for v in numbers])
            whole = np.stack([v[:, 0] for v in numbers])
            share = (after[0] - before[0]) / np.maximum(whole[0], 1.0)
            samples.append(np.concatenate([high, low, share, [accuracy(after, whole) - accuracy(before, whole)]]))
        ends = np.nanquantile(np.array(samples), [alpha / 2, 1 - alpha / 2], axis=0)
        return {
            "high": ends[:, :size],
            "low": ends[:, size : 2 * size],
            "share": ends[:, 2 * size : 3 * size],
            "accuracy": ends[:, -1],
        }


def accuracy(selected: FloatArray, size: FloatArray) -> float:
    """The share of right decisions. First axis: rows, rows with a known outcome, and the total of their outcomes."""
    wrong = selected[1] - selected[2] + size[2] - selected[2]
    return float(1 - wrong.sum() / size[1].sum()) if size[1].sum() else float("nan")


def metric_values(target: Target, selected: FloatArray, size: FloatArray) -> FloatArray:
    """The metrics of a target (first axis), from rows, known outcomes and their total: of the selected, and of all."""
    parts = {
        "selection_rate": (selected[0], size[0]),
        "tpr": (selected[2], size[2]),
        "fpr": (selected[1] - selected[2], size[1] - size[2]),
        "predictive_value": (selected[2], selected[1]),
    }
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.array([np.divide(*parts[metric]) for metric in metrics_of(target)])


def present_rates(cells: ScoreCells, parts: ScoreCells | None, target: Target) -> dict[str, Any]:
    """The metrics at the present threshold, and p-values of pairs of groups by the score test.

    ``rows`` are effective denominators: fewer than the rows, where people have several. A group is ``known`` if it has
    enough events and non-events.
    """
    at, values, errors, known, pvalues, denominators = cells.bins.before, [], [], [], [], []
    for metric in metrics_of(target):
        hit, rows = (part[..., at] for part in ratio(cells, metric))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = hit / rows
        effective, shared, df = rows, np.zeros((rows.size, rows.size)), np.inf
        if parts is not None:
            own = [part[..., parts.bins.before] for part in ratio(parts, metric)]
            with np.errstate(divide="ignore", invalid="ignore"):
                covariance = scatter(np.nan_to_num((own[0] - value * own[1]) / rows))
                effective = np.fmin(rows, value * (1 - value) / np.diagonal(covariance))
            effective = np.where((value > 0) & (value < 1), np.nan_to_num(effective), rows)
            if own[0].shape[0] < PARTS:  # few people: their rows are no more than they are
                effective = np.minimum(effective, own[0].shape[0])
            shared, df = covariance - np.diag(np.diagonal(covariance)), float(max(own[0].shape[0] - 1, 1))
        together = np.nansum(value * effective) / max(float(effective.sum()), 1.0)
        known.append(effective * min(together, 1 - together) >= EVENTS)
        n, m = np.maximum(effective, 1e-300)[:, None], np.maximum(effective, 1e-300)[None, :]
        pooled = (n * value[:, None] + m * value[None, :]) / (n + m)
        spread = pooled * (1 - pooled) * (1 / n + 1 / m)
        with np.errstate(divide="ignore", invalid="ignore"):
            se = np.sqrt(beyond_rounding(spread - 2 * shared, spread))
            _, pvalue = beyond(value[:, None] - value[None, :], se, np.full(se.shape, df), None)
            errors.append(np.sqrt(value * (1 - value) / effective))
        values.append(value)
        pvalues.append(np.where(spread > 0, pvalue, 1.0))
        denominators.append(effective)
    every = np.all(known, axis=0)
    pvalue = np.minimum(len(pvalues) * np.min(pvalues, axis=0), 1.0)
    return {
        "value": np.array(values),
        "se": np.array(errors),
        "rows": np.array(denominators),
        "known": every,
        "pvalue": np.where(every[:, None] & every[None, :], pvalue, np.nan),
    }


def rates_after(
    target: Target,
    selected: FloatArray,
    size: FloatArray,
    rows: FloatArray,
    blocks: IntArray,
    solution: Solution,
    *,
    exact: bool,
) -> dict[str, Any]:
    """The metrics at the new thresholds, their errors, and whether those of each group's block are the common ones.

    ``selected``, ``size``: as in `metric_values`; ``rows``: effective denominators; ``exact``: each metric is to be
    equal by itself, and not the mean of several.
    """
    value = metric_values(target, selected, size)
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.sqrt(value * (1 - value) / rows)
    member = (blocks[None, :] == np.arange(int(blocks.max()) + 1)[:, None]).astype(float)
    together = metric_values(target, selected @ member.T, size @ member.T)
    off = np.abs((together if exact else together.mean(axis=0)) - (solution.aim[:, None] if exact else solution.target))
    off = np.atleast_2d(off).max(axis=0)
    allowed = np.nanmax(se, axis=0)
    met = np.array([off[block] <= max(allowed[g], 1e-6) if block >= 0 else True for g, block in enumerate(blocks)])
    falling, beyond_reach = np.zeros((2, blocks.size), dtype=bool)
    return {"after": value, "se": se, "met": met, "falling": falling, "beyond_reach": beyond_reach}
