"""What follows from the sums: curves and differences with their errors and p-values, margins, thresholds, measures.

P-values are as if there were no other family of groups; what is shown by all of them together is for `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from isonomy.calibration.plan import DEGREES, MarginalPlan, MetricsPlan, Plan, ThresholdsPlan
from isonomy.calibration.smoothing.bands import Band, Judgement, Smoothed, attenuation, beyond, student_width, welch
from isonomy.calibration.smoothing.kernels import Bandwidth
from isonomy.calibration.smoothing.margins import Outcomes, common_outcome, fit_margins
from isonomy.calibration.smoothing.orders import Order, cumulative, joint_pvalue, ordering
from isonomy.calibration.smoothing.sums import Marks, Smoother, solve, support
from isonomy.calibration.tally import Family, Selected, Tally, ThresholdsTally
from isonomy.errors import NotEnoughData, UsageError
from isonomy.frames import Group
from isonomy.inference import multiplicity
from isonomy.inference.simultaneous import beyond_rounding
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

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
class MarginalEstimates:
    """The outcomes at the threshold of every family of groups. ``unit``: all scores lie in [0, 1]."""

    families: tuple[Margins, ...]
    unit: bool
    nobody: tuple[str, ...]  # groups of which no row has a score from the threshold up


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsEstimates:
    """The new thresholds, and what they do."""

    groups: tuple[Group, ...]
    known: BoolArray  # which groups have enough outcomes just above the present threshold
    thresholds: FloatArray
    lowered: BoolArray
    target: float
    reached: bool  # whether the common outcome can be had while keeping the rate
    outcomes: Outcomes
    se: FloatArray  # of the outcome after; at the present threshold, where the new one is extrapolated
    marginal_se: FloatArray  # the same; NaN where the new threshold is extrapolated
    selected: Selected


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
    weight, total = family.sums.histogram()
    grid = plan.grid if plan.grid is not None else family.axis.grid(weight.sum(axis=0))
    plain = plan.method == "nadaraya-watson"
    axis = family.axis.published if plain else family.axis
    bandwidth = Bandwidth.of(axis, family.average, plan.bandwidth, grid)
    marks = None if plain else Marks(bandwidth.smooth(weight.sum(axis=0), total.sum(axis=0)))
    smoother = Smoother(grid, bandwidth.at(grid), 0 if plain else 1, plan.kernel, marks)
    smoothed = Smoothed.of(family.sums, smoother, binary=family.binary)
    pairs = reference_pairs(family.groups, plan.reference)
    draws, order_draws, joint_draws = rng.spawn(3)
    bands = tuple(
        _band(family, plan, smoother, smoothed, bandwidth, (weight, total), pair, child)
        for pair, child in zip(pairs, draws.spawn(len(pairs)), strict=True)
    )
    joint = len(family.groups) > 2 and plan.reference is None and plan.adjust == "sup-t"
    if joint and plan.tolerance is None and plan.method in ("residual", "nadaraya-watson"):
        pvalue = joint_pvalue(smoothed, plan.draws, joint_draws)
    else:
        pvalue = multiplicity.smallest(multiplicity.adjust([band.overall for band in bands], "holm"))
    half = float(tails.normal_isf(plan.alpha)) * np.sqrt(np.einsum("ggjj->gj", smoothed.covariance))
    curve = np.where(smoothed.supported, smoothed.curve, np.nan)
    return Curves(
        dimensions=family.dimensions,
        groups=family.groups,
        size=family.size,
        users=family.users,
        spanning=family.spanning,
        effective=smoothed.effective,
        pairs=np.array(pairs),
        difference=np.stack([band.difference for band in bands]),
        low=np.stack([band.low for band in bands]),
        high=np.stack([band.high for band in bands]),
        pair_pvalue=np.array([band.overall for band in bands]),
        pvalue=pvalue,
        grid=grid,
        bandwidth=smoother.width,
        curve=curve,
        curve_low=curve - half,
        curve_high=curve + half,
        se=np.stack([band.se for band in bands]),
        pvalue_at=np.stack([band.pvalue for band in bands]),
        adjusted_at=np.stack([band.adjusted for band in bands]),
        pair_statistic=np.array([band.statistic for band in bands]),
        order=ordering(smoothed, grid, plan.draws, order_draws),
    )


def _band(
    family: Family,
    plan: Plan,
    smoother: Smoother,
    smoothed: Smoothed,
    bandwidth: Bandwidth,
    histogram: tuple[FloatArray, FloatArray],
    pair: tuple[int, int],
    rng: np.random.Generator,
) -> Band:
    """Compare two groups, pooled with each other only: a third group would bias the pooled curve."""
    judgement = Judgement(plan.adjust, plan.alpha, plan.tolerance, plan.draws)
    unit = np.ones(smoother.points.size)
    if smoother.marks is None:
        return judgement.band(smoothed, pair, unit, rng)
    weight, total = (values[list(pair)] for values in histogram)
    alone = len(family.groups) == 2 and pair == (0, 1)
    sums = family.sums.pair(*pair)
    outcome = smoother.marks.outcome if alone else bandwidth.smooth(weight.sum(axis=0), total.sum(axis=0))
    share = bandwidth.share(weight)
    orthogonal = plan.method == "orthogonal"
    if orthogonal or not alone:
        marks = Marks(outcome, share if orthogonal else None)
        own = Smoother(smoother.points, smoother.width, 0, plan.kernel, marks, curves=False)
        smoothed = Smoothed.of(sums, own, binary=family.binary)
    unit = unit if orthogonal else attenuation(family.axis, smoother, share, weight)
    band = judgement.band(smoothed, (0, 1), unit, rng)
    if plan.method != "cumulative":
        return band
    statistic, pvalue = cumulative(sums, Marks(outcome, share), weight, plan.draws, rng)
    return replace(band, overall=pvalue, statistic=statistic)


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
    point, degree = np.array([plan.threshold]), DEGREES[plan.method]
    axis = family.axis if degree else family.axis.published
    width = Bandwidth.of(axis, family.average, plan.bandwidth, point).at(point)
    smoother = Smoother(point, width, degree, plan.kernel)
    fit = solve(smoother, family.sums.totals(smoother))
    products = family.sums.products(smoother, fit)
    effective, supported = support(fit, products, binary=family.binary)
    effective, supported = effective[:, 0], supported[:, 0]
    covariance = products.curve[:, :, 0, 0]
    own = np.diagonal(covariance)
    estimate = np.where(supported, fit.beta[0][:, 0], np.nan)
    se = np.where(supported, np.sqrt(own), np.nan)
    pairs = np.array(reference_pairs(family.groups, plan.reference))
    i, j = pairs[:, 0], pairs[:, 1]
    difference = estimate[i] - estimate[j]
    parts = own[i] + own[j]
    apart = np.sqrt(beyond_rounding(parts - 2 * covariance[i, j], parts))
    df = welch(own[i], own[j], effective[i], effective[j])
    df = df if degree else np.full(df.shape, np.inf)  # the paper's method is kept as it is
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
        pairs=pairs,
        difference=difference,
        low=difference - wide,
        high=difference + wide,
        pair_pvalue=pvalue,
        pvalue=multiplicity.smallest(pvalue),
        bandwidth=float(width[0]),
        estimate=estimate,
        se=se,
        estimate_low=estimate - critical * se,
        estimate_high=estimate + critical * se,
        difference_se=apart,
    )


def estimate_thresholds(tally: ThresholdsTally, plan: ThresholdsPlan) -> ThresholdsEstimates:
    """The thresholds at which the outcomes at the margin are equal."""
    family, present = tally.family, plan.threshold
    known, present_se = _at_present(family, plan)
    if known.sum() < 2:
        raise NotEnoughData(
            f"threshold: {known.sum()} groups have enough outcomes just above {present:g} (10 effective events and "
            "non-events are needed); thresholds are set by comparing two or more."
        )
    bandwidth = _bandwidth(family, plan)
    every = fit_margins(family.sums, bandwidth, present, tally.edges, tally.counts)
    margins = [margin for margin, ok in zip(every, known, strict=True) if ok]
    target, reached = common_outcome(margins, plan.direction)
    # A group whose outcomes at the margin are not known keeps its threshold.
    thresholds = np.full(known.size, present)
    thresholds[known] = [margin.moved(target, plan.direction) for margin in margins]
    selected = tally.selected(thresholds, present)
    # Scores on a lattice: a threshold that selects the same people as before is the present one, and where the lowest
    # score selected is another point of the curve, that is the threshold.
    width = bandwidth.at(np.maximum(thresholds, present))
    chosen = np.where(selected.lowest - thresholds > APART * width, selected.lowest, thresholds)
    thresholds = np.where(known & (selected.after != selected.before), chosen, present)
    se = _errors(family, bandwidth, np.maximum(thresholds, present))
    lowered = thresholds < present - 1e-12 * max(1.0, abs(present))
    return ThresholdsEstimates(
        family.groups,
        known,
        thresholds,
        lowered,
        target,
        reached,
        Outcomes.at(margins, known, thresholds, present_se, se),
        np.where(known, se, np.nan),
        np.where(known & ~lowered, se, np.nan),
        selected,
    )


def _bandwidth(family: Family, plan: ThresholdsPlan) -> Bandwidth:
    return Bandwidth.of(family.axis, family.average, plan.bandwidth, np.array([plan.threshold]))


def _at_present(family: Family, plan: ThresholdsPlan) -> tuple[BoolArray, FloatArray]:
    """Which groups have enough outcomes just above the present threshold, and the standard errors of those there."""
    point = np.array([plan.threshold])
    smoother = Smoother(point, _bandwidth(family, plan).at(point))
    fit = solve(smoother, family.sums.totals(smoother))
    products = family.sums.products(smoother, fit)
    _, supported = support(fit, products, binary=family.binary)
    return supported[:, 0], np.sqrt(np.einsum("ggjj->gj", products.curve)[:, 0])


def _errors(family: Family, bandwidth: Bandwidth, points: FloatArray) -> FloatArray:
    """Standard error of each group's outcome at its own point."""
    smoother = Smoother(points, bandwidth.at(points))
    products = family.sums.products(smoother, solve(smoother, family.sums.totals(smoother)))
    return np.sqrt(np.einsum("gggg->g", products.curve))


def estimate_metrics(tallies: Mapping[str, Tally], plan: MetricsPlan) -> MetricsEstimates:
    """Measures of each score."""
    return MetricsEstimates({name: _measures(tally.families[0], plan) for name, tally in tallies.items()})


def _measures(family: Family, plan: MetricsPlan) -> Measures:
    points = family.axis.grid(family.sums.histogram()[0].sum(axis=0)) if plan.grid is None else plan.grid
    axis = family.axis.published if family.axis.unit else family.axis
    smoother = Smoother(points, Bandwidth.of(axis, family.average, plan.bandwidth, points).at(points), 0)
    curve = solve(smoother, family.sums.totals(smoother)).mean
    own = np.abs(curve - points).mean(axis=1)
    apart = np.abs(curve[:, None] - curve[None, :]).mean(axis=2).sum(axis=1)
    values = np.empty((len(family.groups) + 1, 4))
    values[0, :2], values[1:, 0], values[1:, 1] = (own.sum(), apart.sum()), own, apart
    values[:, 2:] = family.sums.ranked(family.axis.unit)
    if not family.binary:
        values[:, 3] = np.nan
    return Measures(family, values, np.count_nonzero(np.isnan(curve), axis=1), points.size)
