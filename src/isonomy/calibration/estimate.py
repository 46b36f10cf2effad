"""What follows from the sums: curves and differences with their errors and p-values, margins, thresholds, measures.

P-values are as if there were no other family of groups; what is shown by all of them together is for `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from isonomy.calibration.plan import DEGREES, CompositePlan, MarginalPlan, MetricsPlan, Plan, ThresholdsPlan, Widths
from isonomy.calibration.smoothing.bands import Band, Judgement, Test, beyond, student_width
from isonomy.calibration.smoothing.cells import FINE, PARTS, above, resampled
from isonomy.calibration.smoothing.cells import Cells as BinnedRows
from isonomy.calibration.smoothing.composites import Compared, Uniform, uniform
from isonomy.calibration.smoothing.contrasts import Pooled, common_sites, means, orthogonal, welch
from isonomy.calibration.smoothing.kernels import POOLED, RESIDUAL, Bandwidth, cross_validated
from isonomy.calibration.smoothing.lotteries import Lottery, cut_up, equal_odds
from isonomy.calibration.smoothing.margins import Margin, scatter
from isonomy.calibration.smoothing.margins import Margins as MarginCurves
from isonomy.calibration.smoothing.orders import Order, interval_means, ordering
from isonomy.calibration.smoothing.sums import EFFECTIVE, Fit, Smoother, enough, fit_curves, users_near
from isonomy.calibration.smoothing.targets import (
    EVENTS,
    Response,
    blocks_of,
    common_value,
    metrics_of,
    one_way,
    ratio,
    responses,
    within,
)
from isonomy.calibration.smoothing.walks import walk
from isonomy.calibration.tally import CompositeTally, Family, Selected, Tally, ThresholdsTally
from isonomy.errors import NotEnoughData, UsageError
from isonomy.frames import Group
from isonomy.inference import multiplicity, rejected
from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

FEWEST = 2.0  # effective users at a score, where the paper's method has no rule of its own
TESTS: Mapping[str, Test] = {
    "cumulative": "walk",
    "trend": "trend",
    "omnibus": "all",
}  # the others compare points alone
FALL = 3.0  # standard errors
BESIDE = 0.25  # of a bandwidth: how near to a threshold some rows must be
APART = 0.1  # of a bandwidth: scores nearer than this are one point of a curve


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pairs:
    """The groups made by one set of dimensions, and the differences of their pairs; NaN where they are unsupported."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray
    users: FloatArray
    spanning: int
    effective: FloatArray
    pairs: IntArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    pair_pvalue: FloatArray
    pvalue: float  # of all pairs together


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Curves(Pairs):
    """Curves and bands. Arrays are (groups, points) or (pairs, points).

    Curves have pointwise intervals, differences bands that hold at all supported points together.
    """

    grid: FloatArray
    bandwidth: FloatArray
    curve: FloatArray
    curve_low: FloatArray
    curve_high: FloatArray
    se: FloatArray
    pointwise_low: FloatArray  # of the interval that two one-sided tests at alpha are
    pointwise_high: FloatArray
    pvalue_at: FloatArray
    adjusted_at: FloatArray
    pair_statistic: FloatArray
    order: Order


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Margins(Pairs):
    """Outcomes at the threshold."""

    bandwidth: float
    estimate: FloatArray
    se: FloatArray
    estimate_low: FloatArray
    estimate_high: FloatArray
    difference_se: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Estimates:
    """The curves of every family of groups. ``unit``: all scores lie in [0, 1]."""

    families: tuple[Curves, ...]
    unit: bool


@dataclass(frozen=True, slots=True, eq=False)
class Composites:
    """The pairs of one family of groups, each under all weights."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray
    pairs: IntArray
    tests: tuple[Uniform, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CompositeEstimates:
    """The pairs of every family of groups, under all weights."""

    families: tuple[Composites, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MarginalEstimates:
    """The outcomes at the threshold of every family of groups. ``unit``: all scores lie in [0, 1]."""

    families: tuple[Margins, ...]
    unit: bool
    nobody: tuple[str, ...]  # groups of which no row has a score from the threshold up


@dataclass(frozen=True, slots=True, eq=False)
class Present:
    """The metrics (first axis) of each group at the present threshold, and how far pairs of groups differ."""

    value: FloatArray
    se: FloatArray
    rows: FloatArray  # effective denominators
    known: BoolArray  # which groups have enough events and non-events
    pvalue: FloatArray  # (G, G): of each pair, not adjusted; NaN where a group is not known


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The rules of some blocks of groups, and the value that they aim at."""

    rules: list[Lottery]
    aim: FloatArray  # of each metric
    target: float  # the one number that is made equal
    curves: list[Response]
    reached: bool


@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """A number of each group, or of all, with its ends."""

    value: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsEstimates:
    """The new thresholds, what they do and what they cost. Groups on the last axis, metrics on the one before."""

    groups: tuple[Group, ...]
    metrics: tuple[str, ...]
    binary: bool  # whether every outcome is 0 or 1
    known: BoolArray  # which groups have enough events and non-events at the present threshold
    blocks: IntArray  # groups of one number share a threshold; -1 keeps the present one
    adjusted: FloatArray  # (G, G): p-value of each pair of groups at the present threshold
    pvalue: float
    thresholds: FloatArray
    thresholds_low: FloatArray
    thresholds_high: FloatArray
    lottery: FloatArray  # from here up to the threshold people are selected with the probability; equal: no lottery
    lottery_low: FloatArray
    lottery_high: FloatArray
    probability: FloatArray
    lowered: BoolArray
    target: float
    reached: bool  # whether the common value can be had while selecting as many as wanted
    before: FloatArray
    after: FloatArray
    se: FloatArray  # of the metrics after; of outcomes at the margin at the present threshold, where extrapolated
    met: BoolArray  # whether a group's block has the common value
    falling: BoolArray  # whether outcomes fall as the score rises, so that a rising curve is not theirs
    beyond: BoolArray  # whether no threshold at all gives a group's block the common outcome
    selected: Selected
    rate_before: FloatArray
    rate_after: FloatArray
    overall_before: float
    overall_after: float
    selected_change: Interval  # rows of each group
    accuracy_before: float
    accuracy_after: float
    accuracy_change: Interval


@dataclass(frozen=True, slots=True, eq=False)
class Measures:
    """Measures of one score: overall first, then by group."""

    family: Family
    values: FloatArray  # columns: calibration error, parity error, ECE, AUC
    far: IntArray  # grid points near which a group has no row
    points: int


@dataclass(frozen=True, slots=True, eq=False)
class MetricsEstimates:
    """The measures of every score, by the name it is reported under."""

    scores: Mapping[str, Measures]


def estimate(tally: Tally, plan: Plan, rng: np.random.Generator) -> Estimates:
    """Compare the groups of each family."""
    children = zip(tally.families, rng.spawn(len(tally.families)), strict=True)
    curves = tuple(_curves(family, plan, child) for family, child in children)
    return Estimates(curves, tally.families[0].axis.unit)


def _curves(family: Family, plan: Plan, rng: np.random.Generator) -> Curves:
    sums = family.sums
    weight = sums.weight.sum(axis=0)
    grid = plan.grid if plan.grid is not None else family.axis.grid(weight)
    plain = plan.method == "nadaraya-watson"
    bandwidth = _widths(family, plan.bandwidth, grid, published=plain)
    smoother = Smoother(grid, bandwidth.at(grid), 0 if plain else 1, plan.kernel)
    fit = fit_curves(sums, smoother)
    # An interval around a local line misses curves that bend; one around a local parabola does not.
    robust = fit if plain else fit_curves(sums, replace(smoother, degree=2))
    supported = fit.users >= FEWEST if plain else enough(fit.effective, fit.mean, binary=family.binary)
    pairs = reference_pairs(family.groups, plan.reference)
    draws, order_draws = rng.spawn(2)
    bands = tuple(
        _band(family, plan, bandwidth, smoother, fit, pair, child)
        for pair, child in zip(pairs, draws.spawn(len(pairs)), strict=True)
    )
    half = float(tails.normal_isf(plan.alpha)) * robust.errors(sums)
    ends = (fit.beta[0], robust.beta[0] - half, robust.beta[0] + half)
    limits = (0.0, 1.0) if family.binary else (-np.inf, np.inf)
    curve, low, high = (np.where(supported, np.clip(end, *limits), np.nan) for end in ends)
    by_interval = interval_means(sums, binary=family.binary)
    names = ("difference", "low", "high", "pointwise_low", "pointwise_high", "se")
    return Curves(
        dimensions=family.dimensions,
        groups=family.groups,
        size=family.size,
        users=family.users,
        spanning=family.spanning,
        effective=fit.effective,
        pairs=np.array(pairs),
        pair_pvalue=np.array([band.overall for band in bands]),
        pvalue=multiplicity.smallest(multiplicity.adjust([band.overall for band in bands], "holm")),
        grid=grid,
        bandwidth=smoother.width,
        curve=curve,
        curve_low=low,
        curve_high=high,
        pvalue_at=np.stack([band.pvalue for band in bands]),
        adjusted_at=np.stack([band.adjusted for band in bands]),
        pair_statistic=np.array([band.statistic for band in bands]),
        order=ordering(by_interval, plan.order_tolerance, plan.alpha, plan.draws, order_draws),
        **{name: np.stack([getattr(band, name) for band in bands]) for name in names},
    )


def _widths(family: Family, given: Widths, points: FloatArray, *, published: bool = False) -> Bandwidth:
    axis = family.axis.published if published else family.axis
    if not isinstance(given, str):
        return Bandwidth.of(axis, family.average, given, points)
    votes, outcomes = family.sums.weight.sum(axis=0), family.sums.total.sum(axis=0)
    return cross_validated(Bandwidth(axis, family.average), votes, outcomes)


def _pooled(family: Family, pair: tuple[int, int], bandwidth: Bandwidth, part: float = POOLED) -> Pooled:
    """The outcome curve of two groups together, and the share of the first, at each site."""
    chosen = list(pair)
    weight, total, site = family.sums.weight[chosen], family.sums.total[chosen], family.sums.site
    outcome = bandwidth.smooth(weight.sum(axis=0), total.sum(axis=0), part)
    common = common_sites(weight, family.sums.square[chosen], site, bandwidth.at(site))
    return Pooled(outcome(site), bandwidth.share(weight, part)(site), common)


def _usable(family: Family, pair: tuple[int, int], pooled: Pooled, smoother: Smoother, fit: Fit) -> BoolArray:
    """Points near which both groups have users enough at common scores, by the events that the pair's rate expects."""
    chosen = list(pair)
    effective = users_near(family.sums, pair, smoother, pooled.common)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.nansum(fit.mean[chosen] * fit.mass[chosen], axis=0) / fit.mass[chosen].sum(axis=0)
    return np.asarray(np.all(enough(effective, mean, binary=family.binary), axis=0))


def _band(
    family: Family,
    plan: Plan,
    bandwidth: Bandwidth,
    smoother: Smoother,
    fit: Fit,
    pair: tuple[int, int],
    rng: np.random.Generator,
) -> Band:
    sums, chosen = family.sums, list(pair)
    bounds = (-1.0, 1.0) if family.binary else (-np.inf, np.inf)
    test = TESTS.get(plan.method, "points")
    judgement = Judgement(plan.adjust, plan.alpha, plan.tolerance, plan.draws, bounds, test)
    average = replace(smoother, degree=0)
    if plan.method == "nadaraya-watson":
        contrast = means(sums, pair, None, average, fit.users[chosen])
        return judgement.band(sums, pair, contrast, None, np.all(fit.users[chosen] >= FEWEST, axis=0), None, rng)
    pooled = _pooled(family, pair, bandwidth, RESIDUAL if plan.method == "residual" else POOLED)
    usable = _usable(family, pair, pooled, smoother, fit)
    if plan.method == "residual":
        contrast = means(sums, pair, pooled, average, fit.users[chosen])
        return judgement.band(sums, pair, contrast, None, usable, None, rng)
    contrast, robust = (
        orthogonal(sums, pair, pooled, replace(smoother, degree=degree), binary=family.binary) for degree in (0, 2)
    )
    path = None if test == "points" else walk(sums, pair, pooled, binary=family.binary)
    return judgement.band(sums, pair, contrast, robust, usable, path, rng)


def estimate_composite(tally: CompositeTally, plan: CompositePlan, rng: np.random.Generator) -> CompositeEstimates:
    """Every pair of groups of each family, under every weight."""
    results = []
    for family, child in zip(tally.families, rng.spawn(len(tally.families)), strict=True):
        pairs = reference_pairs(family[0].groups, plan.reference)
        tests = [
            uniform([_under(one, pair) for one in family], pair, plan.draws, own)
            for pair, own in zip(pairs, child.spawn(len(pairs)), strict=True)
        ]
        results.append(
            Composites(family[0].dimensions, family[0].groups, family[0].size, np.array(pairs), tuple(tests))
        )
    return CompositeEstimates(tuple(results))


def _under(family: Family, pair: tuple[int, int]) -> Compared:
    """Two groups under one composite score, by the orthogonal comparison at the published bandwidth."""
    sums = family.sums
    grid = family.axis.grid(sums.weight.sum(axis=0))
    bandwidth = Bandwidth(family.axis, family.average)
    smoother = Smoother(grid, bandwidth.at(grid), 0)
    fit = fit_curves(sums, smoother)
    usable = np.all(enough(fit.effective[list(pair)], fit.mean[list(pair)], binary=False), axis=0)
    pooled = _pooled(family, pair, bandwidth)
    contrast = orthogonal(sums, pair, pooled, smoother, binary=False)
    usable &= np.isfinite(np.diagonal(contrast.law(sums, pair)[0]))
    return Compared(sums, contrast, usable, walk(sums, pair, pooled, binary=False))


def reference_pairs(groups: tuple[Group, ...], reference: Mapping[str, object] | None) -> list[tuple[int, int]]:
    """Every pair (the later group against the earlier one), or each group against the reference."""
    if reference is None:
        return list(combinations(range(len(groups)), 2))
    wanted = {str(name): value for name, value in reference.items()}
    base = next((i for i, group in enumerate(groups) if dict(group.mapping) == wanted), None)
    if base is None:
        labels = ", ".join(group.label for group in groups[:20])
        raise UsageError(f"reference: no group {reference!r}; groups: {labels}.")
    return [(i, base) for i in range(len(groups)) if i != base]


def estimate_marginal(tally: Tally, plan: MarginalPlan) -> MarginalEstimates:
    """Outcomes at the threshold in each family."""
    margins = tuple(_margins(family, plan) for family in tally.families)
    return MarginalEstimates(margins, tally.families[0].axis.unit, tally.nobody)


def _margins(family: Family, plan: MarginalPlan) -> Margins:
    sums, point, degree = family.sums, np.array([plan.threshold]), DEGREES[plan.method]
    bandwidth = _widths(family, plan.bandwidth, point, published=not degree)
    smoother = Smoother(point, bandwidth.at(point), degree, plan.kernel)
    fit = fit_curves(sums, smoother)
    effective = fit.effective[:, 0]
    # A curve that begins far from the threshold does not tell what it is there.
    reach = replace(smoother, width=BESIDE * smoother.width)
    beside = users_near(sums, range(sums.size), reach)[:, 0] >= FEWEST
    supported = enough(fit.effective, fit.mean, binary=family.binary)[:, 0] & beside
    estimate = np.where(supported, fit.beta[0][:, 0], np.nan)
    se = np.where(supported, fit.errors(sums)[:, 0], np.nan)
    pairs = reference_pairs(family.groups, plan.reference)
    contrasts = [_margin(family, plan, bandwidth, smoother, fit, pair) for pair in pairs]
    compared = (beside if degree else supported)[pairs].all(axis=1)  # a group without events can be compared
    difference, apart, df = (np.where(compared, values, np.nan) for values in zip(*contrasts, strict=True))
    _, pvalue = beyond(difference, apart, df, plan.tolerance)
    critical = float(tails.normal_isf(plan.alpha))
    wide = student_width(critical, df) * apart
    return Margins(
        dimensions=family.dimensions,
        groups=family.groups,
        size=family.size,
        users=family.users,
        spanning=family.spanning,
        effective=effective,
        pairs=np.array(pairs),
        difference=difference,
        low=difference - wide,
        high=difference + wide,
        pair_pvalue=pvalue,
        pvalue=multiplicity.smallest(pvalue),
        bandwidth=float(smoother.width[0]),
        estimate=estimate,
        se=se,
        estimate_low=estimate - critical * se,
        estimate_high=estimate + critical * se,
        difference_se=apart,
    )


def _margin(
    family: Family, plan: MarginalPlan, bandwidth: Bandwidth, smoother: Smoother, fit: Fit, pair: tuple[int, int]
) -> tuple[float, float, float]:
    """The difference of two groups at the threshold, its standard error and its degrees of freedom."""
    if plan.method == "nadaraya-watson":
        contrast = means(family.sums, pair, None, smoother, fit.users[list(pair)])
    else:
        pooled = _pooled(family, pair, bandwidth)
        if not _usable(family, pair, pooled, smoother, fit).all():
            return np.nan, np.nan, np.nan
        contrast = orthogonal(family.sums, pair, pooled, smoother, binary=family.binary)
    covariance, df = contrast.law(family.sums, pair)
    return float(contrast.estimate[0]), float(contrast.errors(covariance)[0]), float(df[0])


def estimate_thresholds(tally: ThresholdsTally, plan: ThresholdsPlan, rng: np.random.Generator) -> ThresholdsEstimates:
    """The thresholds at which the metric is equal, for groups that were shown to differ (or for all)."""
    cells, present = tally.cells, plan.threshold
    bandwidth = Bandwidth.of(tally.axis, tally.average, plan.bandwidth, np.array([present]))
    now = _margin_now(tally, plan, bandwidth) if plan.margin else _rates_now(tally, plan)
    if now.known.sum() < 2:
        near = " Give a threshold among the scores; where few of them differ, one of them." if plan.margin else ""
        raise NotEnoughData(
            f"threshold: {'one group has' if now.known.any() else 'no group has'} enough rows to know the "
            f"{plan.target} at {present:g} (10 effective events and non-events are needed); thresholds are "
            f"set by comparing two or more groups.{near}"
        )
    above_diagonal = np.triu_indices(now.known.size, 1)
    adjusted = np.full(now.pvalue.shape, np.nan)
    adjusted[above_diagonal] = multiplicity.adjust(now.pvalue[above_diagonal], "holm")
    adjusted = np.fmin(adjusted, adjusted.T)
    apart = rejected(adjusted, plan.alpha) if plan.change == "shown" else ~np.eye(now.known.size, dtype=bool)
    blocks = blocks_of(now.value.mean(axis=0), apart, now.known)
    solver = _Solver(tally, plan, blocks, bandwidth)
    solution = solver.solve(cells)
    every = [solution.rules[block] if block >= 0 else Lottery.none(present) for block in blocks]
    low, high = np.array([[rule.low, rule.high] for rule in every]).T
    probability = np.array([rule.probability for rule in every])
    selected = tally.selected(present, low, high)
    plain = low == high
    # Scores on a lattice: a threshold that selects the same people as before is the present one, and where the lowest
    # score selected is another point of the curve, that is the threshold.
    width = bandwidth.at(np.maximum(high, present))
    chosen = np.where(selected.lowest - high > APART * width, selected.lowest, high)
    chosen = np.where((blocks >= 0) & (selected.rows[2] != selected.rows[0]), chosen, present)
    low, high = np.where(plain, chosen, low), np.where(plain, chosen, high)
    lowered = np.minimum(low, high) < present - 1e-12 * max(1.0, abs(present))
    after = selected.mixed(probability)
    ends = solver.ends(tally, rng)
    if plan.margin:
        told = _margins_after(tally, plan, solver, high, now)
    else:
        told = _rates_after(plan, selected, after, blocks, solution, now)
    accuracy = [_accuracy(counts, selected.size) for counts in (selected.before, after)]
    certain = tally.binary and plan.outcome is not None and bool(np.all(selected.size[0] == selected.size[1]))
    right = accuracy if certain else [np.nan, np.nan]
    return ThresholdsEstimates(
        groups=tally.groups,
        metrics=metrics_of(plan.target),
        binary=tally.binary,
        known=now.known,
        blocks=blocks,
        adjusted=adjusted,
        pvalue=multiplicity.smallest(adjusted),
        thresholds=high,
        thresholds_low=_end(high, ends.high[0], plain, -1),
        thresholds_high=_end(high, ends.high[1], plain, 1),
        lottery=low,
        lottery_low=_end(low, ends.low[0], plain, -1),
        lottery_high=_end(low, ends.low[1], plain, 1),
        probability=probability,
        lowered=lowered,
        target=solution.target,
        reached=solution.reached,
        before=now.value,
        after=told.value,
        se=told.se,
        met=told.met,
        falling=told.falling,
        beyond=told.beyond,
        selected=selected,
        rate_before=selected.before[0] / selected.size[0],
        rate_after=after[0] / selected.size[0],
        overall_before=float(selected.before[0].sum() / selected.size[0].sum()),
        overall_after=float(after[0].sum() / selected.size[0].sum()),
        selected_change=Interval(after[0] - selected.before[0], *(ends.share * selected.size[0])),
        accuracy_before=right[0],
        accuracy_after=right[1],
        accuracy_change=Interval(np.array(right[1] - right[0]), *(ends.accuracy if certain else np.full(2, np.nan))),
    )


def _end(value: FloatArray, end: FloatArray, plain: BoolArray, side: int) -> FloatArray:
    """One end of the interval of a threshold, which holds the threshold where that was moved to a score."""
    return np.where(plain, np.fmin(value, end) if side < 0 else np.fmax(value, end), end)


def _accuracy(selected: FloatArray, size: FloatArray) -> float:
    """The share of right decisions; rows, known and total on the first axis."""
    wrong = selected[1] - selected[2] + size[2] - selected[2]
    return float(1 - wrong.sum() / size[1].sum()) if size[1].sum() else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class _Ends:
    """Ends of intervals (first axis): of both thresholds, of the share selected more than now, of the accuracy."""

    high: FloatArray
    low: FloatArray
    share: FloatArray
    accuracy: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class _Told:
    """What the metrics are after."""

    value: FloatArray
    se: FloatArray
    met: BoolArray
    falling: BoolArray
    beyond: BoolArray


class _Solver:
    """Finds the rules of blocks of groups in any sample of the table."""

    def __init__(self, tally: ThresholdsTally, plan: ThresholdsPlan, blocks: IntArray, bandwidth: Bandwidth) -> None:
        self.plan, self.blocks, self.bandwidth = plan, blocks, bandwidth
        self.still = int(blocks.max()) == 0 and plan.capacity is None  # nobody moves
        parts = None if tally.parts is None else tally.parts.pooled(blocks)
        self.margins = MarginCurves.of(tally.cells.pooled(blocks), parts, bandwidth) if plan.margin else None

    def solve(self, cells: BinnedRows) -> Solution:
        """The rule of each block."""
        plan, present, pooled = self.plan, self.plan.threshold, cells.pooled(self.blocks)
        curves = self.margins.responses(pooled) if self.margins else responses(pooled, plan.target)
        if self.still:
            value = np.array([curves[0].at(present)])
            return Solution([Lottery.none(present)], value, float(value[0]), curves, True)
        wanted = self._wanted(cells)
        if plan.target == "equalized_odds" and plan.randomize:
            rules, pair, reached = equal_odds(pooled, wanted)
            return Solution(rules, pair, float(pair.mean()), curves, reached)
        target, reached = common_value(curves, wanted)
        if plan.direction != "both":
            target, reached = one_way(curves, present, plan.direction), True
        exact = cells.bins.size == FINE and not plan.margin  # joined bins hold many scores, which are not equal
        thresholds = [within(curve.threshold(target), present, plan.direction) for curve in curves]
        rules = [
            cut_up(t, curve, randomize=plan.randomize) if exact and t != present else Lottery.none(t)
            for t, curve in zip(thresholds, curves, strict=True)
        ]
        return Solution(rules, np.array([target]), target, curves, reached)

    def _wanted(self, cells: BinnedRows) -> float:
        """How many rows the groups that take part are to have selected."""
        now = above(cells.rows)[:, cells.bins.before]
        if self.plan.capacity is None:
            return float(now[self.blocks >= 0].sum())
        return float(self.plan.capacity * cells.rows.sum() - now[self.blocks < 0].sum())

    def ends(self, tally: ThresholdsTally, rng: np.random.Generator) -> _Ends:
        """Percentile intervals over samples drawn again, each with the same blocks."""
        size, present, plan = self.blocks.size, self.plan.threshold, self.plan
        if self.still or not plan.draws:  # without draws nobody asks for the ends
            stay = np.full((2, size), present)
            return _Ends(stay, stay, np.zeros((2, size)), np.zeros(2))
        draws: list[FloatArray] = []
        for cells in resampled(tally.cells, tally.parts, plan.draws, rng):
            rules = self.solve(cells).rules
            each = [rules[block] if block >= 0 else Lottery.none(present) for block in self.blocks]
            edges, numbers = cells.bins.edges, [above(v) for v in (cells.rows, cells.known, cells.total)]
            at = {
                end: np.array([[np.interp(t, edges, v[g]) for g, t in enumerate(limits)] for v in numbers])
                for end, limits in (("low", [r.low for r in each]), ("high", [r.high for r in each]))
            }
            lot = np.array([r.probability for r in each])
            after = lot * at["low"] + (1 - lot) * at["high"]
            before = np.stack([v[:, cells.bins.before] for v in numbers])
            whole = np.stack([v[:, 0] for v in numbers])
            gained = (after[0] - before[0]) / np.maximum(whole[0], 1.0)
            right = _accuracy(after, whole) - _accuracy(before, whole)
            draws.append(np.concatenate([[r.high for r in each], [r.low for r in each], gained, [right]]))
        ends = np.nanquantile(np.array(draws), [plan.alpha / 2, 1 - plan.alpha / 2], axis=0)
        return _Ends(ends[:, :size], ends[:, size : 2 * size], ends[:, 2 * size : 3 * size], ends[:, -1])


def _rates_now(tally: ThresholdsTally, plan: ThresholdsPlan) -> Present:
    """Rates at the present threshold; pairs by the score test, with effective rows where people have several."""
    at, values, errors, known, pvalues, denominators = tally.cells.bins.before, [], [], [], [], []
    for metric in metrics_of(plan.target):
        hit, rows = (part[..., at] for part in ratio(tally.cells, metric))
        with np.errstate(divide="ignore", invalid="ignore"):
            value = hit / rows
        effective, shared, df = rows, np.zeros((rows.size, rows.size)), np.inf
        if tally.parts is not None:
            own = [part[..., tally.parts.bins.before] for part in ratio(tally.parts, metric)]
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
    pvalue = np.where(every[:, None] & every[None, :], pvalue, np.nan)
    return Present(np.array(values), np.array(errors), np.array(denominators), every, pvalue)


def _margin_now(tally: ThresholdsTally, plan: ThresholdsPlan, bandwidth: Bandwidth) -> Present:
    """Outcomes at the present threshold, as `marginal_outcomes` estimates them."""
    size = len(tally.groups)
    margin = Margin.at(np.full(size, plan.threshold), tally.cells, tally.parts, bandwidth)
    rarer = np.nan_to_num(np.minimum(margin.mean, 1 - margin.mean))
    known = margin.effective * rarer >= EVENTS if tally.binary else margin.effective >= EFFECTIVE
    own = np.diagonal(margin.covariance)
    parts = own[:, None] + own[None, :]
    apart = np.sqrt(beyond_rounding(parts - 2 * margin.covariance, parts))
    i, j = np.indices((size, size))
    df = welch(own[i], own[j], margin.effective[i], margin.effective[j])
    with np.errstate(divide="ignore", invalid="ignore"):
        _, pvalue = beyond(margin.value[:, None] - margin.value[None, :], apart, df, None)
    pvalue = np.where(known[:, None] & known[None, :], pvalue, np.nan)
    value, se = (np.where(known, values, np.nan)[None] for values in (margin.value, np.sqrt(own)))
    return Present(value, se, margin.effective[None], known, pvalue)


def _rates_after(
    plan: ThresholdsPlan,
    selected: Selected,
    after: FloatArray,
    blocks: IntArray,
    solution: Solution,
    now: Present,
) -> _Told:
    """Rates at the new thresholds, and whether those of each block are the common ones."""

    def rates(chosen: FloatArray, size: FloatArray) -> FloatArray:
        parts = {
            "selection_rate": (chosen[0], size[0]),
            "tpr": (chosen[2], size[2]),
            "fpr": (chosen[1] - chosen[2], size[1] - size[2]),
            "predictive_value": (chosen[2], chosen[1]),
        }
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.array([np.divide(*parts[metric]) for metric in metrics_of(plan.target)])

    value = rates(after, selected.size)
    with np.errstate(divide="ignore", invalid="ignore"):
        se = np.sqrt(value * (1 - value) / now.rows)
    member = (blocks[None, :] == np.arange(int(blocks.max()) + 1)[:, None]).astype(float)
    together = rates(after @ member.T, selected.size @ member.T)
    exact = plan.target != "equalized_odds" or plan.randomize
    off = np.abs((together if exact else together.mean(axis=0)) - (solution.aim[:, None] if exact else solution.target))
    off = np.atleast_2d(off).max(axis=0)
    allowed = np.nanmax(se, axis=0)
    met = np.array([off[block] <= max(allowed[g], 1e-6) if block >= 0 else True for g, block in enumerate(blocks)])
    return _Told(value, se, met, *np.zeros((2, blocks.size), dtype=bool))


def _margins_after(
    tally: ThresholdsTally, plan: ThresholdsPlan, solver: _Solver, thresholds: FloatArray, now: Present
) -> _Told:
    """Outcomes at the new margins. Of groups whose outcomes fall, those of the curve as it was fitted."""
    known, present = now.known, plan.threshold
    margins = MarginCurves.of(tally.cells, tally.parts, solver.bandwidth)
    margin = Margin.at(np.maximum(thresholds, present), tally.cells, tally.parts, solver.bandwidth)
    se = np.where(known, np.sqrt(np.diagonal(margin.covariance)), np.nan)
    own, fitted = (margins.responses(tally.cells, rising=rising) for rising in (True, False))
    after, met = np.full(known.size, np.nan), np.ones(known.size, bool)
    falling, beyond = np.zeros((2, known.size), bool)
    solution = solver.solve(tally.cells)
    for g in np.flatnonzero(known):
        t, block = float(thresholds[g]), solution.curves[solver.blocks[g]]
        # Making a rising curve nondecreasing moves it by a part of its error; three standard errors are a fall.
        apart = [abs(own[g].at(x) - fitted[g].at(x)) for x in (present, max(t, present))]
        falling[g] = apart[0] > FALL * now.se[0, g] or apart[1] > FALL * se[g]
        after[g] = now.value[0, g] if t == present else (fitted if falling[g] else own)[g].at(t)
        allowed = max(float(se[g]), 1e-6)
        met[g] = abs(block.at(t) - solution.target) <= allowed
        beyond[g] = not block.value[0] - allowed <= solution.target <= block.value[-1] + allowed
    return _Told(after[None], se[None], met, falling, beyond)


def estimate_metrics(tallies: Mapping[str, Tally], plan: MetricsPlan) -> MetricsEstimates:
    """Measures of each score."""
    return MetricsEstimates({name: _measures(tally, plan) for name, tally in tallies.items()})


def _measures(tally: Tally, plan: MetricsPlan) -> Measures:
    family = tally.families[0]
    points = family.axis.grid(family.sums.weight.sum(axis=0)) if plan.grid is None else plan.grid
    width = _widths(family, plan.bandwidth, points, published=family.axis.unit).at(points)
    curve = fit_curves(family.sums, Smoother(points, width, 0)).mean
    own = np.abs(curve - points).mean(axis=1)
    apart = np.abs(curve[:, None] - curve[None, :]).mean(axis=2).sum(axis=1)
    values = np.empty((len(family.groups) + 1, 4))
    values[0, :2], values[1:, 0], values[1:, 1] = (own.sum(), apart.sum()), own, apart
    values[:, 2:] = tally.ranks
    if not family.binary:
        values[:, 3] = np.nan
    return Measures(family, values, np.count_nonzero(np.isnan(curve), axis=1), points.size)
