"""What follows from the sums: curves and differences with their errors and p-values, margins, thresholds, measures.

P-values are as if there were no other family of groups; what is shown by all of them together is for `decide`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from isonomy.calibration.plan import DEGREES, CompositePlan, MarginalPlan, MetricsPlan, Plan, Widths
from isonomy.calibration.smoothing.bands import Band, Judgement, Test, beyond
from isonomy.calibration.smoothing.composites import CompositePair, Uniform, uniform
from isonomy.calibration.smoothing.contrasts import Pooled, common_sites, means, orthogonal
from isonomy.calibration.smoothing.kernels import POOLED, RESIDUAL, Bandwidth, cross_validated
from isonomy.calibration.smoothing.orders import Order, interval_means, ordering
from isonomy.calibration.smoothing.sums import Fit, Smoother, enough, fit_curves, users_near
from isonomy.calibration.smoothing.walks import walk
from isonomy.calibration.tally import Family, Tally
from isonomy.calibration.tally_composite import CompositeTally
from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.inference import multiplicity
from isonomy.numerics import tails
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

FEWEST = 2.0  # effective users at a score, where the paper's method has no rule of its own
TESTS: Mapping[str, Test] = {
    "cumulative": "walk",
    "trend": "trend",
    "omnibus": "all",
}  # the others compare points alone
BESIDE = 0.25  # of a bandwidth: how near to a threshold some rows must be


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
    plain = plan.averages
    within = None if plan.range is None else sums.between(*plan.range)
    bandwidth = _widths(family, plan.bandwidth, grid, published=plain)
    smoother = Smoother(grid, bandwidth.at(grid), 0 if plain else 1, plan.kernel)
    fit = fit_curves(sums, smoother)
    # An interval around a local line misses curves that bend; one around a local parabola does not.
    robust = fit if plain else fit_curves(sums, replace(smoother, degree=2))
    supported = _averaged(fit) if plain else enough(fit.effective, fit.mean, binary=family.binary)
    pairs = reference_pairs(family.groups, plan.reference)
    draws, order_draws = rng.spawn(2)
    bands = tuple(
        _band(family, plan, bandwidth, smoother, fit, pair, within, child)
        for pair, child in zip(pairs, draws.spawn(len(pairs)), strict=True)
    )
    half = float(tails.normal_isf(plan.alpha)) * robust.errors(sums)
    ends = (fit.beta[0], robust.beta[0] - half, robust.beta[0] + half)
    limits = (0.0, 1.0) if family.binary else (-np.inf, np.inf)
    curve, low, high = (np.where(supported, np.clip(end, *limits), np.nan) for end in ends)
    order = Order(np.nan)
    if plan.order:
        by_interval = interval_means(sums, binary=family.binary, within=within)
        order = ordering(by_interval, plan.order_tolerance, plan.alpha, plan.draws, order_draws)
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
        order=order,
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


def _averaged(fit: Fit) -> BoolArray:
    """Where the paper's average is compared: the group has enough people, and some of them are near the score."""
    supported: BoolArray = (fit.users >= FEWEST) & (fit.effective >= 1.0)
    return supported


def _band(
    family: Family,
    plan: Plan,
    bandwidth: Bandwidth,
    smoother: Smoother,
    fit: Fit,
    pair: tuple[int, int],
    within: BoolArray | None,
    rng: np.random.Generator,
) -> Band:
    sums, chosen = family.sums, list(pair)
    bounds = (-1.0, 1.0) if family.binary else (-np.inf, np.inf)
    test = TESTS.get(plan.method, "points")
    judgement = Judgement(plan.adjust, plan.alpha, plan.tolerance, plan.draws, bounds, test)
    average = replace(smoother, degree=0)
    if plan.averages:
        contrast = means(sums, pair, None, average, fit.users[chosen])
        return judgement.band(sums, pair, contrast, None, np.all(_averaged(fit)[chosen], axis=0), None, rng)
    pooled = _pooled(family, pair, bandwidth, RESIDUAL if plan.method == "residual" else POOLED)
    usable = _usable(family, pair, pooled, smoother, fit)
    if plan.method == "residual":
        contrast = means(sums, pair, pooled, average, fit.users[chosen])
        return judgement.band(sums, pair, contrast, None, usable, None, rng)
    contrast, robust = (
        orthogonal(sums, pair, pooled, replace(smoother, degree=degree), binary=family.binary) for degree in (0, 2)
    )
    path = None if test == "points" else walk(sums, pair, pooled, binary=family.binary, within=within)
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


def _under(family: Family, pair: tuple[int, int]) -> CompositePair:
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
    return CompositePair(sums, contrast, usable, walk(sums, pair, pooled, binary=False))


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
    wide = tails.t_as_rare(critical, df) * apart
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
