"""Thresholds that make a metric equal: rows by bins of the score, responses to a threshold, lotteries, the search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.optimize import isotonic_regression

from isonomy.inference.effect import Wald
from isonomy.inference.multiplicity import beyond_rounding
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.roots import root
from isonomy.numerics.status import Status
from isonomy.scores.smoothing.comparisons import EFFECTIVE, EVENTS, MOST_LEVERAGE
from isonomy.scores.smoothing.kernels import Bandwidth, Bins, Smoother, kernel, local_polynomial, power_sums

# ---- cells

COARSE = 2**10  # bins of the score axis in which samples are drawn again
FINE = 2**13  # bins of the score axis in which thresholds are found
PARTS = 100  # into which people with several rows are dealt: as many independent parts of the table
SUMS = ("rows", "known", "total", "square", "vote", "voted")


def threshold_bins(low: float, high: float, present: float) -> Bins:
    """`FINE` bins from ``low`` to ``high`` that can be joined to `COARSE` ones; the present threshold is an edge."""
    low, high = min(low, present), max(high, present)
    join, step = FINE // COARSE, (high - low if high > low else 1.0) / (COARSE - 1)
    return Bins(present, step / join, FINE, join * int(np.ceil((present - low) / step)))


def join_bins(bins: Bins) -> Bins:
    join = bins.size // COARSE
    return Bins(bins.anchor, bins.step * join, COARSE, bins.before // join)


@dataclass(frozen=True, slots=True, eq=False)
class ScoreCells:
    """Sums over rows; axes: (part,) group, bin. The anchor of the bins is the present threshold."""

    bins: Bins
    rows: FloatArray
    known: FloatArray  # rows whose outcome is known
    total: FloatArray  # of their outcomes
    square: FloatArray  # of the squares of their outcomes
    vote: FloatArray  # votes of the rows from which outcomes at the margin are read
    voted: FloatArray  # votes times outcomes

    def mapped(self, change: Callable[[FloatArray], FloatArray]) -> ScoreCells:
        return ScoreCells(self.bins, *(change(getattr(self, name)) for name in SUMS))

    def pooled(self, blocks: IntArray) -> ScoreCells:
        """The groups of each block pooled; a group with the number -1 belongs to none."""
        member = (blocks[None, :] == np.arange(int(blocks.max()) + 1)[:, None]).astype(np.float64)
        return self.mapped(lambda values: np.asarray(member @ values))

    @property
    def joined(self) -> ScoreCells:
        if self.bins.size == COARSE:
            return self
        wide = self.mapped(lambda values: values.reshape(*values.shape[:-1], COARSE, -1).sum(axis=-1))
        return replace(wide, bins=join_bins(self.bins))

    @property
    def above(self) -> FloatArray:
        """Rows, known outcomes and their total (first axis) from each edge of the bins up."""
        return above(np.stack([self.rows, self.known, self.total]))

    @property
    def votes(self) -> tuple[FloatArray, FloatArray]:
        """Votes and votes times outcomes in the bins from the present threshold up."""
        return self.vote[..., self.bins.before :], self.voted[..., self.bins.before :]


def scatter(contribution: FloatArray) -> FloatArray:
    size = contribution.shape[0]
    centered = contribution - contribution.mean(axis=0)
    return np.asarray(size / max(size - 1, 1) * centered.T @ centered)


def above(values: FloatArray) -> FloatArray:
    reached = np.flip(np.cumsum(np.flip(values, axis=-1), axis=-1), axis=-1)
    return np.concatenate([reached, np.zeros((*values.shape[:-1], 1))], axis=-1)


def resampled(
    cells: ScoreCells, parts: ScoreCells | None, draws: int, rng: np.random.Generator
) -> Iterator[ScoreCells]:
    """Bootstrap samples in joined bins, of rows (Poisson numbers in each bin, with its mean and spread) or of parts."""
    if parts is not None:
        size = parts.rows.shape[0]
        for _ in range(draws):
            weight = rng.multinomial(size, np.full(size, 1 / size)).astype(np.float64)
            yield parts.mapped(lambda values, weight=weight: np.asarray(np.tensordot(weight, values, axes=1)))  # type: ignore[misc]
        return
    wide = cells.joined
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.nan_to_num(wide.total / wide.known)
        spread = np.sqrt(np.maximum(np.nan_to_num(wide.square / wide.known) - mean**2, 0.0))
        votes = np.nan_to_num(wide.vote / wide.known)  # of rows that are not split: 1 where outcomes are read, else 0
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


def metrics_of(target: Target) -> tuple[str, ...]:
    return ("tpr", "fpr") if target == "equalized_odds" else (target,)


def ratio(metric: str, selected: FloatArray, everybody: FloatArray) -> tuple[FloatArray, FloatArray]:
    """A metric's numerator and denominator. Arguments: rows, known outcomes and their total (first axis)."""
    if metric == "selection_rate":
        return selected[0], everybody[0]
    if metric == "tpr":
        return selected[2], everybody[2]
    return (selected[1] - selected[2], everybody[1] - everybody[2]) if metric == "fpr" else (selected[2], selected[1])


@dataclass(frozen=True, slots=True, eq=False)
class Response:
    """How some people's metric, and how many of them are selected, respond to their threshold."""

    edges: FloatArray
    value: FloatArray  # at each edge, monotone
    selected: FloatArray  # rows with a score of at least each edge
    rising: bool

    def metric(self, threshold: float) -> float:
        return float(np.interp(threshold, self.edges, self.value))

    def positives(self, threshold: float) -> float:
        return float(np.interp(threshold, self.edges, self.selected))

    def threshold(self, value: float) -> float:
        """The lowest threshold at which a rising metric reaches ``value``, the highest at which a falling one does."""
        if not self.rising:
            return float(np.interp(value, self.value[::-1], self.edges[::-1]))
        rounding = 1e-12 * max(float(np.abs(self.value[[0, -1]]).max()), 1e-300)  # a level stretch is level up to this
        steps = np.concatenate(([True], np.diff(self.value) > rounding))
        return float(np.interp(value, self.value[steps], self.edges[steps]))


def responses(cells: ScoreCells, target: Target) -> list[Response]:
    """The response of each group to its threshold, for every target except outcomes at the margin."""
    selected, tiny = cells.above, np.finfo(float).tiny
    parts = [ratio(metric, selected, selected[..., :1]) for metric in metrics_of(target)]
    values = np.mean([hit / np.maximum(rows, tiny) for hit, rows in parts], axis=0)
    if target == "predictive_value":
        values = np.stack([_rising_precision(*group) for group in zip(values, *parts[0], strict=True)])
    return [Response(cells.bins.edges, *pair, target in RISING) for pair in zip(values, selected[0], strict=True)]


def _rising_precision(value: FloatArray, positive: FloatArray, known: FloatArray) -> FloatArray:
    """The share of positives among the selected, made nondecreasing; constant beyond the last informative rows."""
    rarer = np.minimum(positive, known - positive)
    informative = (rarer >= min(EVENTS, 0.5 * float(rarer[0]))) & (known > 0)
    if not informative.any():
        return np.full(value.size, value[0])
    rising = isotonic_regression(value[informative], weights=known[informative]).x
    return np.concatenate([rising, np.full(value.size - rising.size, rising[-1])])


def common_value(curves: Sequence[Response], wanted: float) -> tuple[float, bool]:
    """The value of the metric at which all groups together select ``wanted`` rows, and whether there is one."""
    low, high = (float(end([end(curve.value) for curve in curves])) for end in (np.min, np.max))
    if high - low < 1e-12:
        return low, False
    solution = root(lambda value: sum(c.positives(c.threshold(value)) for c in curves) - wanted, low, high)
    return float(solution.x), solution.status is Status.OK


def blocks_of(value: FloatArray, shown: BoolArray, known: BoolArray) -> IntArray:
    """Groups that share a threshold: neighbors in ``value``, no two of them shown to differ; -1 if unknown."""
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
Rule = tuple[float, float, float]  # low, high, probability: selected from high up, with the probability from low up


def split_tie(threshold: float, curve: Response, *, randomize: bool) -> Rule:
    """The rule at a threshold inside a bin with many equal scores: a lottery, or the nearer edge of the bin."""
    edges, selected = curve.edges, curve.selected
    place = int(np.clip(np.searchsorted(edges, threshold, side="right") - 1, 0, edges.size - 2))
    low, high = float(edges[place]), float(edges[place + 1])
    if selected[place] - selected[place + 1] <= SHARE * selected[0]:
        return threshold, threshold, 1.0
    share = min(max((high - threshold) / (high - low), 0.0), 1.0)
    if randomize:
        return low, high, share
    edge = low if share >= 0.5 else high
    return edge, edge, 1.0


def equal_odds(cells: ScoreCells, wanted: float) -> tuple[list[Rule], FloatArray, bool]:
    """Lotteries with equal true and false positive rates that select ``wanted`` rows, the rates, and whether any do.

    A group can have any pair of rates under the concave hull of its curve; the best pair that all can have lies on the
    lowest of the hulls (Hardt, Price, Srebro 2016).
    """
    selected = cells.above
    (tp, positive), (fp, negative) = (ratio(metric, selected, selected[..., :1]) for metric in ("tpr", "fpr"))
    tpr, fpr = tp / positive, fp / negative
    hulls = [_hull(x[::-1], y[::-1]) for x, y in zip(fpr, tpr, strict=True)]
    positives, negatives = float(positive.sum()), float(negative.sum())
    scale = float(cells.rows.sum()) / (positives + negatives)

    def best(x: float) -> float:
        return min(float(np.interp(x, *hull)) for hull in hulls)

    solution = root(lambda x: scale * (positives * best(x) + negatives * x) - wanted, 0.0, 1.0)
    x = float(solution.x)
    pair = np.array([best(x), x])
    rules = [_chord(pair, tpr[g], fpr[g], selected[0, g], cells.bins.edges, hulls[g]) for g in range(len(hulls))]
    return rules, pair, solution.status is Status.OK


def _hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    corners: list[int] = []
    for c in range(x.size):
        while len(corners) > 1:
            a, b = corners[-2:]
            if (x[b] - x[a]) * (y[c] - y[a]) < (y[b] - y[a]) * (x[c] - x[a]):
                break
            corners.pop()
        corners.append(c)
    return x[corners], y[corners]


def _chord(
    pair: FloatArray,
    tpr: FloatArray,
    fpr: FloatArray,
    selected: FloatArray,
    edges: FloatArray,
    hull: tuple[FloatArray, FloatArray],
) -> Rule:
    """The lottery between two thresholds that has a pair of rates, for as few people as possible."""
    y, x = float(pair[0]), float(pair[1])
    if float(np.interp(x, *hull)) - y <= 1e-9:  # on the hull: between the two corners around it
        right = int(np.clip(np.searchsorted(hull[0], x, side="left"), 1, hull[0].size - 1))
        ends = [int(np.flatnonzero((fpr == hull[0][k]) & (tpr == hull[1][k]))[0]) for k in (right - 1, right)]
        run = float(hull[0][right] - hull[0][right - 1])
        share = (x - float(hull[0][right - 1])) / run if run > 0 else 1.0
        return float(edges[ends[1]]), float(edges[ends[0]]), share
    strict = np.flatnonzero((fpr <= x) & ((fpr < x) | (tpr < y)))  # thresholds above the pair's, the highest last
    first = np.unique(strict[np.linspace(0, strict.size - 1, _ENDS).astype(np.intp)])
    later = np.arange(int(strict[0]) + 1)[::-1]  # lower thresholds, going down
    # Where the line from the upper threshold's rates through the pair meets the curve again.
    side = (x - fpr[first, None]) * (tpr[later] - tpr[first, None]) - (y - tpr[first, None]) * (
        fpr[later] - fpr[first, None]
    )
    crossing = (side[:, :-1] >= 0) & (side[:, 1:] < 0) & (fpr[later][1:] > x)
    crosses = crossing.any(axis=1)
    place = crossing[crosses].argmax(axis=1)
    a, b, c, line = first[crosses], later[place], later[place + 1], side[crosses]
    lines = np.arange(place.size)
    part = line[lines, place] / (line[lines, place] - line[lines, place + 1])
    low, reached, top, many = (values[b] + part * (values[c] - values[b]) for values in (edges, fpr, tpr, selected))
    beyond = (reached >= x) & (top >= y)  # the pair lies between the two ends
    if not beyond.any():  # a curve below that of chance
        return float(edges[0]), float(edges[-1]), (x + y) / 2
    best = int(np.argmin(np.where(beyond, many - selected[a], np.inf)))
    start = int(a[best])
    runs = reached[best] - fpr[start], top[best] - tpr[start]
    # Along the axis on which the two ends are further apart.
    chance = (x - fpr[start]) / runs[0] if runs[0] >= runs[1] else (y - tpr[start]) / runs[1]
    return float(low[best]), float(edges[start]), float(chance)


# ---- the search


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The rule of each group (3, G): low, high, probability; and the value of each metric that the rules aim at."""

    rules: FloatArray
    aim: FloatArray
    curves: list[Response]  # of each block
    reached: bool


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdSearch:
    """Finds the rules of blocks of groups; ``curves`` gives the response of each block to its threshold."""

    target: Target
    present: float
    capacity: float | None
    direction: Direction
    randomize: bool
    blocks: IntArray
    curves: Callable[[ScoreCells], list[Response]]

    @property
    def still(self) -> bool:
        return int(self.blocks.max()) == 0 and self.capacity is None

    def solve(self, cells: ScoreCells) -> Solution:
        present, pooled = self.present, cells.pooled(self.blocks)
        curves = self.curves(pooled)
        keep: Rule = (present, present, 1.0)

        def by_group(rules: list[Rule]) -> FloatArray:
            return np.array([*rules, keep])[self.blocks].T  # block -1 keeps the present threshold

        if self.still:
            return Solution(by_group([keep]), np.array([curves[0].metric(present)]), curves, True)
        selected = above(cells.rows)[:, cells.bins.before]
        if self.capacity is None:
            wanted = float(selected[self.blocks >= 0].sum())
        else:
            wanted = float(self.capacity * cells.rows.sum() - selected[self.blocks < 0].sum())
        if self.target == "equalized_odds" and self.randomize:
            rules, pair, reached = equal_odds(pooled, wanted)
            return Solution(by_group(rules), pair, curves, reached)
        if self.direction == "both":
            value, reached = common_value(curves, wanted)
            bounds = (-np.inf, np.inf)
        else:  # the present value of the group that stays: all can have it when thresholds move one way only
            up = self.direction == "raise"
            now = [curve.metric(present) for curve in curves]
            value, reached = max(now) if curves[0].rising == up else min(now), True
            bounds = (present, np.inf) if up else (-np.inf, present)
        thresholds = [float(np.clip(curve.threshold(value), *bounds)) for curve in curves]
        # Joined bins hold many scores that are not equal, and outcomes at the margin are read from a curve.
        exact = cells.bins.size == FINE and self.target != "outcome_at_margin"
        rules = [
            split_tie(t, curve, randomize=self.randomize) if exact and t != present else (t, t, 1.0)
            for t, curve in zip(thresholds, curves, strict=True)
        ]
        return Solution(by_group(rules), np.array([value]), curves, reached)

    def intervals(
        self, cells: ScoreCells, parts: ScoreCells | None, draws: int, alpha: float, rng: np.random.Generator
    ) -> dict[str, FloatArray]:
        """Percentile intervals over bootstrap samples with the same blocks; lower and upper ends first.

        Of thresholds (``high``), of scores where lotteries begin (``low``), and of changes in the selected share of
        each group (``share``) and in accuracy.
        """
        size = self.blocks.size
        if self.still or not draws:
            stay = np.full((2, size), self.present)
            return {"high": stay, "low": stay, "share": np.zeros((2, size)), "accuracy": np.zeros(2)}
        samples: list[FloatArray] = []
        for drawn in resampled(cells, parts, draws, rng):
            low, high, chance = self.solve(drawn).rules
            edges, reached = drawn.bins.edges, drawn.above
            from_low, from_high = (
                np.array([[np.interp(t, edges, v[g]) for g, t in enumerate(ends)] for v in reached])
                for ends in (low, high)
            )
            after = chance * from_low + (1 - chance) * from_high
            before, everybody = reached[..., drawn.bins.before], reached[..., 0]
            share = (after[0] - before[0]) / np.maximum(everybody[0], 1.0)
            change = accuracy(after, everybody) - accuracy(before, everybody)
            samples.append(np.concatenate([high, low, share, [change]]))
        ends = np.nanquantile(np.array(samples), [alpha / 2, 1 - alpha / 2], axis=0)
        numbers = ends[:, :-1].reshape(2, 3, size)
        return {"high": numbers[:, 0], "low": numbers[:, 1], "share": numbers[:, 2], "accuracy": ends[:, -1]}


def accuracy(selected: FloatArray, everybody: FloatArray) -> float:
    wrong = selected[1] - selected[2] + everybody[2] - selected[2]
    return float(1 - wrong.sum() / everybody[1].sum()) if everybody[1].sum() else float("nan")


def present_rates(cells: ScoreCells, parts: ScoreCells | None, target: Target) -> dict[str, Any]:
    """The metrics at the present threshold, and p-values of pairs of groups by the score test.

    ``rows`` are effective denominators: fewer than the rows if people have several. A group is ``known`` if it has
    enough events and non-events.
    """
    values, errors, known, pvalues, denominators = [], [], [], [], []
    reached = cells.above
    part_sums = None if parts is None else parts.above
    with np.errstate(divide="ignore", invalid="ignore"):
        for metric in metrics_of(target):
            hit, rows = ratio(metric, reached[..., cells.bins.before], reached[..., 0])
            value = hit / rows
            effective, shared, df = rows, np.zeros((rows.size, rows.size)), np.inf
            if parts is not None and part_sums is not None:
                size = len(parts.rows)
                part_hit, part_rows = ratio(metric, part_sums[..., parts.bins.before], part_sums[..., 0])
                covariance = scatter(np.nan_to_num((part_hit - value * part_rows) / rows))
                effective = np.fmin(rows, value * (1 - value) / np.diagonal(covariance))
                effective = np.where((value > 0) & (value < 1), np.nan_to_num(effective), rows)
                if size < PARTS:  # few people: their rows are worth no more than they are
                    effective = np.minimum(effective, size)
                shared, df = covariance - np.diag(np.diagonal(covariance)), float(max(size - 1, 1))
            rate = np.nansum(value * effective) / max(float(effective.sum()), 1.0)
            known.append(effective * min(rate, 1 - rate) >= EVENTS)
            n, m = np.maximum(effective, 1e-300)[:, None], np.maximum(effective, 1e-300)[None, :]
            pooled = (n * value[:, None] + m * value[None, :]) / (n + m)
            spread = pooled * (1 - pooled) * (1 / n + 1 / m)
            se = np.sqrt(beyond_rounding(spread - 2 * shared, spread))
            pvalue = Wald(value[:, None] - value[None, :], se, df).pvalue()
            errors.append(np.sqrt(value * (1 - value) / effective))
            values.append(value)
            pvalues.append(np.where(spread > 0, pvalue, 1.0))
            denominators.append(effective)
    everywhere = np.all(known, axis=0)
    pvalue = np.minimum(len(pvalues) * np.min(pvalues, axis=0), 1.0)
    return {
        "value": np.array(values),
        "se": np.array(errors),
        "rows": np.array(denominators),
        "known": everywhere,
        "pvalue": np.where(everywhere[:, None] & everywhere[None, :], pvalue, np.nan),
    }


def rates_after(
    target: Target,
    selected: FloatArray,
    everybody: FloatArray,
    rows: FloatArray,
    blocks: IntArray,
    solution: Solution,
    *,
    exact: bool,
) -> dict[str, Any]:
    """The metrics at the new thresholds, their errors, and whether those of each group's block are the common ones.

    ``selected``, ``everybody``: as in `ratio`; ``rows``: effective denominators; ``exact``: each metric is to be equal
    by itself, and not only the mean of several.
    """
    member = (blocks[:, None] == np.arange(int(blocks.max()) + 1)).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        value, pooled = (
            np.array([np.divide(*ratio(metric, *sums)) for metric in metrics_of(target)])
            for sums in ((selected, everybody), (selected @ member, everybody @ member))
        )
        se = np.sqrt(value * (1 - value) / rows)
    off = (
        np.abs(pooled - solution.aim[:, None]).max(axis=0)
        if exact
        else np.abs(pooled.mean(axis=0) - solution.aim.mean())
    )
    allowed = np.maximum(np.nanmax(se, axis=0), 1e-6)
    met = np.where(blocks >= 0, off[blocks] <= allowed, True)
    falling, beyond_reach = np.zeros((2, blocks.size), dtype=bool)
    return {"after": value, "se": se, "met": met, "falling": falling, "beyond_reach": beyond_reach}


# ---- outcomes at the margin

FALL = 3.0  # standard errors
DEGREE = 2  # at one score, as in `marginal_outcomes`
CURVE = 1  # of curves, whose error is smaller and whose bias matters less: they are read at other scores
POINTS = 201  # of a curve
FACTORS = (1.0, 1.4, 2.0, 2.8, 4.0)  # widths that a curve may have, in bandwidths
SLOPE = 2.0  # the factor on widths for slopes, which are harder to estimate than levels
# Standard errors, of a level and of a slope. At two a steep curve is read from too far, at one half a straight one from
# too near. The slope of a line is harder to estimate, and it is multiplied by a short distance.
CONTRADICTION = (1.0, 2.0)
_EMPTY = 1e-3  # of the largest mass: beyond a group's last scores a local parabola runs wild
# The width at each point, and K u^k at each bin from the present threshold up (first axis) around each point.
Design = tuple[FloatArray, list[FloatArray]]


def margin_design(points: FloatArray, width: FloatArray, bins: Bins, degree: int = CURVE) -> Design:
    smoother = Smoother(points, width, degree)
    return width, smoother.powers(smoother.scaled(bins.centers[bins.before :]))


def fit_margins(design: Design, vote: FloatArray, voted: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Coefficients, inverse Gram matrices, and kernel masses. Numbers far from a group are not used."""
    with np.errstate(over="ignore", invalid="ignore"):
        power, outcome = power_sums(design[1], vote, voted)
        return *local_polynomial(power, outcome), power[0]


def margin_at(
    points: FloatArray, cells: ScoreCells, parts: ScoreCells | None, bandwidth: Bandwidth
) -> tuple[FloatArray, FloatArray]:
    """The outcome of each group at one score each, from the rows above the present threshold; covariances."""
    width, groups = bandwidth.widths(points), np.arange(points.size)
    beta, inverse, _ = fit_margins(margin_design(points, width, cells.bins, DEGREE), *cells.votes)
    beta, inverse = beta[:, groups, groups].T, inverse[groups, groups]
    bins = cells.bins if parts is None else parts.bins
    u = (bins.centers - points[:, None]) / width[:, None]
    k = np.where(np.arange(bins.size) >= bins.before, kernel(u), 0.0)
    powers = u[..., None] ** np.arange(DEGREE + 1)
    lever, fit = np.einsum("gbp,gpq->gbq", powers, inverse), np.einsum("gbp,gp->gb", powers, beta)
    weight = k * lever[..., 0]
    if parts is not None:
        return beta[:, 0], scatter(np.sum(weight * (parts.voted - fit * parts.vote), axis=-1))
    leverage = np.clip(k * np.einsum("gbp,gbp->gb", lever, powers), 0, MOST_LEVERAGE)
    spread = np.maximum(cells.square - 2 * fit * cells.total + fit**2 * cells.known, 0.0)
    return beta[:, 0], np.diag(np.sum(weight**2 * spread / (1 - leverage), axis=-1))


def margin_curves(
    cells: ScoreCells, parts: ScoreCells | None, bandwidth: Bandwidth
) -> tuple[FloatArray, list[Design], list[Design]]:
    """How the curve of each group is read, from the present threshold up to the last bin, and its line there.

    At each point, each group's curve has the widest kernel that no narrower one contradicts (Lepski), and so has its
    line: a straight curve is read from many rows, one that bends from those nearby. A bandwidth given by the caller is
    not changed.
    """
    wide = cells.joined
    bins, (vote, voted) = wide.bins, wide.votes
    points = np.linspace(bins.anchor, float(bins.edges[-1]), POINTS)
    widths = bandwidth.widths(points)
    # Outcomes of 0 and 1 bound a curve even far from a group's scores.
    limits = (0.0, 1.0) if np.array_equal(wide.square, wide.total) else (-np.inf, np.inf)
    values = np.clip(fit_margins(margin_design(points, widths, bins), vote, voted)[0][0], *limits)
    fit = np.stack([np.interp(bins.centers[bins.before :], points, curve) for curve in values])
    if parts is None:
        known, total, square = (part[:, bins.before :] for part in (wide.known, wide.total, wide.square))
        spread = np.maximum(square - 2 * fit * total + fit**2 * known, 0.0)
    else:
        part_vote, part_voted = parts.votes
        spread = part_voted - fit * part_vote
    factors = FACTORS if bandwidth.given is None else (1.0,)

    def designs(points: FloatArray, width: FloatArray, power: int) -> list[Design]:
        lines = [(factor, margin_design(points, factor * width, bins)) for factor in factors]
        return [margin_design(points, each, bins) for each in _widest(lines, vote, voted, spread, power)]

    return points, designs(points, widths, 0), designs(points[:1], SLOPE * widths[:1], 1)


def _widest(
    lines: Sequence[tuple[float, Design]], vote: FloatArray, voted: FloatArray, spread: FloatArray, power: int
) -> FloatArray:
    """The widths (G, J) of local lines whose level (power 0) or slope (1) no narrower one contradicts.

    If both estimate the same value, the variance of the narrower one is that of the wider one plus that of their
    difference. ``spread``: squares of residuals from a first curve (G, bins); of parts of the table (parts, G, bins),
    their sums.
    """
    chosen = np.broadcast_to(lines[0][1][0], (len(vote), lines[0][1][0].size))
    going = np.ones(chosen.shape, dtype=bool)
    narrower: list[tuple[FloatArray, FloatArray]] = []
    for factor, (width, powers) in lines:
        beta, inverse, mass = fit_margins((width, powers), vote, voted)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            lever = np.moveaxis(inverse[..., power, :], -1, 0)
            k, ku = powers[:2]
            effective = np.nan_to_num(mass**2 / (vote @ (k * k)))
            if spread.ndim == 2:
                squares = [spread @ (k * k), spread @ (k * ku), spread @ (ku * ku)]
                variance = (
                    lever[0] ** 2 * squares[0] + 2 * lever[0] * lever[1] * squares[1] + lever[1] ** 2 * squares[2]
                )
            else:
                sums = lever[0] * (spread @ k) + lever[1] * (spread @ ku)
                variance = len(sums) / max(len(sums) - 1, 1) * np.sum((sums - sums.mean(axis=0)) ** 2, axis=0)
        value, variance = beta[power] / factor**power, variance / factor ** (2 * power)
        for other, more in narrower:
            going &= ~(np.abs(value - other) > CONTRADICTION[power] * np.sqrt(np.maximum(more - variance, 0.0)))
        chosen = np.where(going, width, chosen)
        # Few rows lie on any line: they do not contradict a wider one.
        narrower.append((np.where(effective < EFFECTIVE, np.nan, value), variance))
    return chosen


def margin_responses(
    cells: ScoreCells, curves: tuple[FloatArray, list[Design], list[Design]], *, rising: bool = True
) -> list[Response]:
    """How each group's outcome at the margin responds to its threshold: its curve made to rise, or as it is.

    ``cells``: those from which the curves of `margin_curves` were built, or a sample of them in the same bins. Below
    the present threshold outcomes continue along a line.
    """
    points, bins, edges = curves[0], cells.bins, cells.bins.edges
    answers = []
    groups = zip(*curves[1:], *cells.joined.votes, above(cells.rows), strict=True)
    for curve, line, vote, voted, rows in groups:
        beta, _, mass = fit_margins(curve, vote, voted)
        mass = mass / curve[0]
        near = mass > _EMPTY * mass.max() if mass.max() > 0 else np.ones(mass.size, dtype=bool)
        values = beta[0][near]
        if rising:
            values = isotonic_regression(values, weights=np.maximum(mass[near], 1e-300)).x
        # Never quite level: a group that already has the common outcome keeps its threshold.
        least = 1e-9 * max(float(np.abs(values).max()), 1e-300) / bins.step
        slope = float(fit_margins(line, vote, voted)[0][1, 0]) / line[0][0]
        below = np.minimum(edges - bins.anchor, 0.0) * max(slope, least)
        answers.append(Response(edges, np.interp(edges, points[near], values) + below, rows, True))
    return answers


def margins_after(
    cells: ScoreCells,
    parts: ScoreCells | None,
    bandwidth: Bandwidth,
    search: ThresholdSearch,
    solution: Solution,
    thresholds: FloatArray,
    now: Mapping[str, Any],
) -> dict[str, Any]:
    """Outcomes at the new margins, by the curve as fitted if a group's outcomes fall. ``now``: at the present ones."""
    known, present, target = now["known"], search.present, float(solution.aim.mean())
    _, covariance = margin_at(np.maximum(thresholds, present), cells, parts, bandwidth)
    se = np.where(known, np.sqrt(np.diagonal(covariance)), np.nan)
    curves = margin_curves(cells, parts, bandwidth)
    rising, fitted = (margin_responses(cells, curves, rising=rising) for rising in (True, False))
    after, met = np.full(known.size, np.nan), np.ones(known.size, bool)
    falling, beyond_reach = np.zeros((2, known.size), bool)
    for g in np.flatnonzero(known):
        t, block = float(thresholds[g]), solution.curves[search.blocks[g]]
        # Making a rising curve nondecreasing moves it by a fraction of its error; three standard errors are a fall.
        apart = [abs(rising[g].metric(x) - fitted[g].metric(x)) for x in (present, max(t, present))]
        falling[g] = apart[0] > FALL * now["se"][0, g] or apart[1] > FALL * se[g]
        after[g] = now["value"][0, g] if t == present else (fitted if falling[g] else rising)[g].metric(t)
        allowed = max(float(se[g]), 1e-6)
        met[g] = abs(block.metric(t) - target) <= allowed
        beyond_reach[g] = not block.value[0] - allowed <= target <= block.value[-1] + allowed
    return {"after": after[None], "se": se[None], "met": met, "falling": falling, "beyond_reach": beyond_reach}
