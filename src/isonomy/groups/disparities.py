"""What `flag` and `certify` share: the plan of a comparison, the rows it reads, and the evidence about each group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from isonomy.errors import BadWeight, UsageError, choose, near, refuse_percent, require_ratio
from isonomy.frames import Grouping, Groups, MetricLike, Request, Sample
from isonomy.frames.expressions import Scalar, flag
from isonomy.frames.groups import CONDITION, belongs, in_words
from isonomy.frames.metrics import ERRORS, Measure, listed, measure, metric_columns, shared_cells, shared_rows
from isonomy.groups import proxy_words, words
from isonomy.groups.likelihood.comparison import ComparedGroups, Gaps, Widest, by_metric
from isonomy.groups.likelihood.functionals import ranked
from isonomy.groups.likelihood.lines import MetricRows, rows_or_bins
from isonomy.groups.likelihood.means import LINKS, Link
from isonomy.groups.likelihood.regression import Terms
from isonomy.groups.likelihood.strata import Effects, Scale, published_effects
from isonomy.groups.options import (
    METHODS,
    ComparableOption,
    Correction,
    LikelihoodOption,
    Method,
    Reference,
    ReferenceLike,
    ScaleLike,
    Sigma,
    StandardizedOption,
    To,
    reference_of,
)
from isonomy.groups.planning import Goal, detectable
from isonomy.groups.proxy import ProxyEvidence
from isonomy.inference.decide import Alternative
from isonomy.inference.effect import Against, Hypothesis, Interval, Wald
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.options import Form, Power, check
from isonomy.results import Columns, Evidence, Plan, Provenance, column, storable
from isonomy.results.evidence import as_frame

# Legitimate factors that groups are compared within: columns, cuts or conditions; or by which people are comparable.
Given = Annotated[object, Form("given")] | ComparableOption | None


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class ComparisonPlan(Plan):
    jointly: ClassVar[bool]  # whether all groups are tested at once

    metric: MetricLike
    groups: Groups
    outcome: str | None
    prediction: str | None
    score: str | None
    positive: Scalar | None
    reference: ReferenceLike
    scale: ScaleLike
    tolerance: float | None
    alpha: float
    depth: int
    min_size: int
    method: Method
    given: Given
    adjust: str = "holm"
    # From the options.
    likelihood: LikelihoodOption = field(init=False)
    correction: Correction = field(init=False)  # of T
    interval: Interval = field(init=False)
    outside: Against = field(init=False)  # the alternative to an interval
    base_scale: Scale = field(init=False)  # before standardization
    link: Link = field(init=False)
    sigma: Sigma | None = field(init=False)  # whose standard deviation is the unit
    target: Reference = field(init=False)
    plugged_in: bool = field(init=False)  # the error of the reference is left out
    comparable: ComparableOption | None = field(init=False)
    # From the schema too.
    numbers: tuple[str, ...] = field(init=False)  # factors of comparable people that are numbers
    grouping: Grouping = field(init=False)
    measures: tuple[Measure, ...] = field(init=False)
    metric_requests: tuple[Request, ...] = field(init=False)  # what is read for each metric
    counted: tuple[Request, ...] = field(init=False)  # those that need counts
    shared: Request | None = field(init=False)  # one request for all counts, if one pass can serve them
    one_pass: bool = field(init=False)  # it serves every metric
    side_by_side: bool = field(init=False)
    overlapping: bool = field(init=False)
    dependent: bool = field(init=False)  # tests depend on one another, through common rows or an estimated reference

    def __post_init__(self) -> None:
        given = self.given
        method = self.method if isinstance(self.method, LikelihoodOption) else METHODS[self.method]
        if isinstance(given, ComparableOption) and given.model == "strata":
            given = given.factors
        if isinstance(given, (list, tuple)) and not given:
            raise UsageError("given: no factor is named; give at least one, or leave it out.")
        scale = StandardizedOption() if self.scale == "standardized" else self.scale
        base: Scale = "difference" if isinstance(scale, StandardizedOption) else scale
        correction = method.correction
        if correction == "auto":
            # The automatic correction of `flag` is not one of T: rates with few cases use their score.
            plain = method.kind == "el" and not (method.published or self.source.designed or given is not None)
            correction = "auto" if self.jointly and plain else None
        target = reference_of(self.reference, joint=not method.published)
        labels = self.source.labels
        if given is not None and target.to is To.POPULATION:  # within strata, it is the rest of each stratum
            target = replace(target, to=To.REST)
        if labels.population or target.group is not None:
            group = None if target.group is None else labels.named([target.group])[0]
            target = replace(target, everybody=labels.population or target.everybody, group=group)
        self.__dict__.update(
            given=given,
            likelihood=method,
            correction=correction,
            interval="simultaneous" if self.jointly else method.interval,
            outside="outside-published" if method.published else "outside",
            base_scale=base,
            link=LINKS[base],
            sigma=scale.sigma if isinstance(scale, StandardizedOption) else None,
            target=target,
            plugged_in=not target.joint and target.to is not To.NUMBER,
            comparable=given if isinstance(given, ComparableOption) else None,
        )
        self._bind()
        for refused, message in self.refusals():
            if refused:
                raise UsageError(message)

    def _bind(self) -> None:
        """The groups, the metrics and what is read for each, by the schema alone."""
        source, schema, levels, numbers = self.source, self.source.schema, self.given, []
        if self.comparable is not None:
            factors = self.comparable.factors
            numbers = [f for f in factors if isinstance(f, str) and f in schema and schema[f].is_numeric()]
            levels = [factor for factor in factors if factor not in numbers] or None
        grouping = source.grouping(self.groups, self.depth)
        if levels is not None:
            grouping = grouping.within(source.grouping(levels, argument="given"))
        more: dict[str, str] = {}
        keys = {}
        for name in numbers:
            more[f"given[{name!r}]"] = name
        if self.target.group is not None:
            keys["reference"] = flag(belongs(self.target.group, grouping, source.schema))
        if self.target.estimate is not None:
            source.require(reference=self.target.estimate.influence)
            more["influence"] = self.target.estimate.influence
        measures, requests, counted = [], [], []
        for metric in listed(self.metric):
            bound = measure(
                source,
                metric,
                grouping=grouping,
                positive=self.positive,
                outcome=self.outcome,
                prediction=self.prediction,
                score=self.score,
            )
            request = bound.request
            if keys or more:
                request = replace(request, keys={**request.keys, **keys}, numeric={**request.numeric, **more})
            measures.append(bound)
            requests.append(request)
            # Counts are enough for a 0/1 metric with a plain reference; otherwise values are needed row by row.
            if not (bound.by_row or self.target.to is To.ESTIMATE or self.comparable is not None):
                counted.append(request)
        shared = shared_cells(counted) if len(counted) > 1 else None
        one_pass = shared is not None and len(counted) == len(measures)
        self.__dict__.update(
            numbers=tuple(numbers),
            grouping=grouping,
            measures=tuple(measures),
            metric_requests=tuple(requests),
            counted=tuple(counted),
            shared=shared,
            one_pass=one_pass,
            # Several metrics need the values of the same rows; counts are not enough then.
            side_by_side=(self.jointly or self.comparable is not None) and len(measures) > 1 and not one_pass,
            overlapping=len(grouping.dimensions) > 1,
            dependent=self.target.to is not To.NUMBER or len(grouping.dimensions) > 1,
        )

    def refusals(self) -> Iterator[tuple[bool, str]]:
        target, link, tolerance, value = self.target, self.link, self.tolerance, self.target.value
        given, published, method = self.given is not None, self.plugged_in, self.likelihood
        estimate, best, standard = target.estimate is not None, target.to.best, self.sigma is not None
        corrected, several = self.correction in ("bartlett", "adjusted"), len(self.measures) > 1
        binary, real, special, not_mean, signed = "", "", False, "", False
        for bound in self.measures:
            binary, real = (binary or bound.name, real) if bound.binary else (binary, real or bound.name)
            if bound.functional:
                not_mean = not_mean or f"{bound.name!r}, which is not a mean over rows"
                special, signed = True, signed or bound.functional in ("r2", "quantile")
        refuse_percent(bool(binary) and not link.ratio, tolerance)
        one_bound = "a tolerance, because one bound cannot show that a disparity is within it"
        reference, by_method = f"reference={self.reference!r}", published or method.kind == "eel" or corrected
        for both, first, second in (
            (self.interval == "one-sided" and tolerance is not None, "interval: 'one-sided' is", one_bound),
            (best and self.adjust == "max-t", "adjust: 'max-t' is", reference),
            (published and best, "method: 'published' is", f"{reference}, an estimated choice"),
            (standard and bool(binary), "scale: 'standardized' is", "a 0/1 metric"),
            (standard and special, "scale: 'standardized' is", not_mean),
            (standard and corrected, "correction:", "scale='standardized'"),
            (standard and given, "given:", "scale='standardized'"),
            (standard and published, "method: 'published' is", "scale='standardized'"),
            (standard and estimate, "reference: an Estimate is", "scale='standardized'"),
            (special and given, "given:", not_mean),
            (special and estimate, "reference: an Estimate is", not_mean),
            (special and corrected, "correction:", not_mean),
            (signed and link.ratio, f"scale: {link.name!r} is", f"{not_mean} and can be negative"),
            (method.kind == "eel" and link.ratio, f"scale: {link.name!r} is", "the Euclidean likelihood"),
            (given and by_method, "given:", f"method={self.method}"),
            (given and several and self.comparable is None, "given:", "several metrics"),
            (corrected and self.source.designed, "correction:", "weight or cluster, which have their own law"),
            (corrected and estimate and target.joint and not self.jointly, "correction:", "an Estimate as reference"),
            (
                target.joint and self.correction == "adjusted",
                "correction: 'adjusted' is",
                "an estimated reference; use 'bartlett'",
            ),
            (several and value is not None, "reference: a number is", "several metrics"),
        ):
            yield both, f"{first} not available with {second}; leave one of them out."
        if link.ratio:
            require_ratio(link.name, tolerance)
        if link.name == "odds_ratio" and real:
            yield True, f"scale: 'odds_ratio' needs a 0/1 metric; {real!r} is not one. Use 'ratio' or 'difference'."
        if binary and value is not None:
            yield not 0 <= value <= 1, f"reference: {value} cannot be a rate; {binary!r} lies between 0 and 1."
        yield (
            self.sigma == "reference" and target.group is None,
            "scale: standardized('reference') needs a reference group, such as reference={'race': 'White'}.",
        )
        yield (
            self.sigma == "pooled" and target.group is None and target.to is not To.REST,
            "scale: standardized('pooled') needs two groups; give reference='rest', or a group.",
        )
        yield (
            given and (value is not None or best),
            "given: needs people to compare with; give reference='rest', or a group such as {'race': 'White'}.",
        )
        yield (
            self.jointly and self.comparable is not None,
            "given: iso.comparable(...) is for iso.flag and iso.adverse_impact; certify compares within strata.",
        )
        dimensions = {part.name for part in self.grouping.dimensions} if self.numbers else set()
        shared = sorted(dimensions.intersection(self.numbers))
        yield (
            len(shared) > 0,
            f"given: {', '.join(map(repr, shared))} makes the groups too; leave it out of one of the two.",
        )

    def tolerated(self, side: Against = "two-sided") -> Hypothesis | None:
        """|ε| <= t, or t <= ε <= 1/t for ratios, with t the tolerance; one end if only one side is looked at."""
        if self.tolerance is None:
            return None
        low, high = (self.tolerance, 1.0 / self.tolerance) if self.link.ratio else (-self.tolerance, self.tolerance)
        if side in ("greater", "less"):
            low = high = high if side == "greater" else low
            return Hypothesis(low, high, side)
        return Hypothesis(low, high, self.outside)

    @cached_property
    def hypothesis(self) -> Hypothesis | None:
        """None if only a joint hypothesis is tested."""
        return self.tolerated()

    @property
    def requests(self) -> tuple[Request, ...]:
        if self.side_by_side:
            return ()
        return self.counted if self.shared is None else (self.shared,)

    def compare(self, rows: Sequence[MetricRows], rng: np.random.Generator) -> list[ComparedGroups]:
        """The groups of all metrics; a joint test corrects its own statistic, not those of the groups."""
        method, start = self.likelihood, 0
        as_published = method.published and self.target.to is To.NUMBER
        options: dict[str, Any] = {
            "reference": self.target,
            "method": method.kind,
            "correction": None if self.jointly else self.correction,
            "resamples": method.resamples,
            "rng": rng,
            "min_size": self.min_size,
            "link": self.link,
            "scale": self.base_scale,
            "sigma": self.sigma,
            "scored": method.correction == "auto" and method.kind == "el" and not as_published,
            "model": "" if self.comparable is None else self.comparable.model,
        }
        parts = []
        for sums in rows:
            values, name = sums.value if sums.inside is None else sums.value[sums.inside], sums.measure.name
            if self.link.ratio and not sums.binary and values.size and (least := float(values.min())) < 0:
                raise UsageError(
                    f"scale: {self.scale!r} needs values that are never negative; {name!r} goes down to {least:g}. "
                    "Use scale='difference'."
                )
            if self.sigma == "reference" and not np.ptp(sums.value[sums.in_reference]):
                raise UsageError(
                    f"scale: {name!r} is the same in every row of {self.target.group}, whose standard deviation is 0. "
                    "Use scale='standardized'."
                )
            options["terms"] = None if sums.factors is None else Terms.of_factors(*sums.factors, sums.mass)
            for partition, size in zip(sums.partitions, sums.sizes, strict=True):
                places = slice(start, start + size.size)
                part = ComparedGroups(sums=sums, partition=partition, size=size, places=places, **options)
                parts.append(part.prepared())
                start = places.stop
        return parts

    def described(self) -> dict[str, Any]:
        return {
            "reference": words.reference(self.target),
            "reference_kind": self.target.to,
            "scale": self.base_scale if self.sigma is None else "standardized",
            "joint": self.target.joint,
            "overlapping": self.overlapping,
            "alpha": self.alpha,
            "tolerance": self.tolerance,
            "sigma": self.sigma,
            **({} if self.given is None else {"given": self.factors, "bands": self.bands}),
            **({} if self.comparable is None else {"model": self.comparable.model}),
        }

    @property
    def factors(self) -> tuple[str, ...]:
        names = (*self.numbers, *(factor.name for factor in self.grouping.strata))
        return tuple(self.source.labels.columns.get(name, name) for name in names)

    @property
    def bands(self) -> Mapping[str, tuple[str, ...]]:
        labels = self.source.labels
        return {
            name: tuple(labels.values.get(factor.name, {}).get(label, in_words(label)) for label in factor.labels)
            for name, factor in zip(self.factors[len(self.numbers) :], self.grouping.strata, strict=True)
            if factor.labels
        }


# ---- read


def read(plan: ComparisonPlan) -> tuple[MetricRows, ...]:
    if plan.side_by_side:
        rows = plan.source.rows(shared_rows(plan.metric_requests))
        return tuple(_rows_of(metric_columns(rows, i), bound, plan) for i, bound in enumerate(plan.measures))
    parts = []
    for bound, request in zip(plan.measures, plan.metric_requests, strict=True):
        if request in plan.counted:
            # A joint test of several metrics needs the cells of the same rows.
            cells = plan.shared if plan.jointly and plan.shared is not None else request
            answer = plan.source.cells(cells, plan.shared)
        elif plan.correction == "bartlett" or plan.target.estimate is not None or plan.comparable is not None:
            answer = plan.source.rows(request)
        else:
            answer = rows_or_bins(plan.source, bound, request)
        parts.append(_rows_of(answer, bound, plan))
    return tuple(parts)


def _rows_of(answer: Sample, measure: Measure, plan: ComparisonPlan) -> MetricRows:
    weight, keys = answer.weight, answer.columns
    measure.refuse_absent(answer)
    inside, value = measure.inside(answer), measure.value(answer)
    mass = np.ones(value.size) if weight is None else weight
    rows = mass if answer.design is None else answer.design.rows
    chosen = keys["reference"] == 1 if plan.target.to is To.GROUP else None
    influence, lines = None, slice(None) if inside.all() else inside
    if plan.target.estimate is not None:
        influence, lines = np.asarray(keys["influence"], dtype=float), slice(None)
        value = np.where(inside, value, 0.0)
        plan.target.estimate.refuse_uncentered(influence, mass)
    partitions = tuple(replace(partition, codes=partition.codes[lines]) for partition in answer.partitions)
    groups = len(partitions) - bool(plan.grouping.strata)
    factors, levels = None, partitions[-1] if plan.grouping.strata else None
    if plan.comparable is not None:
        numbers = {name: np.asarray(keys[f"given[{name!r}]"], dtype=float)[lines] for name in plan.numbers}
        factors, levels = (numbers, {} if levels is None else levels.by_dimension()), None
    sums = MetricRows(
        binary=measure.binary,
        value=value[lines],
        weight=None if weight is None else weight[lines],
        influence=influence,
        measure=measure,
        partitions=partitions[:groups],
        strata=levels,
        factors=factors,
        sizes=tuple(partition.sum(rows) for partition in answer.partitions[:groups]),
        inside=None if influence is None else inside,
        in_reference=None if chosen is None else chosen[lines],
        rows=answer.rows,
        used=round(float(rows[inside].sum())),
        dropped=answer.dropped,
        design=None if answer.design is None else answer.design.restricted(lines),
        whole=answer.design,
        lines_kept=np.arange(value.size)[lines],
        roles=ranked({role: values[lines] for role, values in measure.roles(answer).items()})
        if measure.functional
        else {},
    )
    if sums.design is not None and sums.mass.size and not sums.mass.any():
        raise BadWeight(f"weight: all rows that {measure.name!r} counts have weight 0.")
    if sums.in_reference is not None and not sums.mass[sums.in_reference].any():
        label = str(plan.target.group)
        known = [str(group) for partition in sums.partitions for group in partition.groups[:1000]]
        if label in known:
            weighing = "" if sums.design is None else " with a weight above 0"
            raise UsageError(f"reference: no row of {label}{weighing} meets the metric's condition.")
        raise UsageError(f"reference: no row that meets the metric's condition has {label}.{near(label, known)}")
    return sums


# ---- evidence


for _part in (To, Widest, Effects):
    storable(_part)

RATES = ("estimate", "estimate_low", "estimate_high", "reference", "raw_estimate", "raw_reference")
EXAMPLES = 20  # of many strata, the largest and the most different ones that a report shows
MOST_GROUPS = 1_000  # groups described in words; the table has them all


def names_of(columns: Mapping[str, Any], which: npt.ArrayLike) -> tuple[str, ...]:
    """The names of lines, given by their positions or a mask: the group and, if there are several, the metric."""
    chosen, groups, metrics = np.asarray(which), columns["groups"], columns["metrics"]
    places = (np.flatnonzero(chosen) if chosen.dtype == bool else chosen).tolist()
    several = len(set(metrics)) > 1
    return tuple(f"{groups[i]} ({metrics[i]})" if several else str(groups[i]) for i in places)


def common(
    record: Callable[..., Provenance], plan: ComparisonPlan, parts: Sequence[ComparedGroups], *, random: bool
) -> dict[str, Any]:
    """The fields of both results that do not depend on decisions; ``random``: whether anything was drawn."""
    gaps: Gaps | Widest | None = Gaps(parts, plan.alpha) if plan.given is None or plan.jointly else None
    dropped: dict[str, int] = {}
    used, counted = parts[0].sums.used, {"size": parts[0].sums.rows}
    for (_, each), request in zip(by_metric(parts), plan.metric_requests, strict=True):
        sums = each[0].sums
        counted[sums.measure.name] = sums.used
        used = used if len(plan.measures) == 1 else max(used, sums.rows)
        dropped |= sums.dropped
        if isinstance(gaps, Gaps) and (request not in plan.counted or sums.design is not None):
            gaps = gaps.widest  # later it would need the rows
    return {
        "provenance": record(rows=used, dropped=dropped, random=random, counted=counted),
        "_widest_gap": gaps,
        **plan.described(),
    }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupEvidence(ProxyEvidence):
    """What both results hold about each group; arrays have one entry per group.

    Within strata (``given``), ``estimate`` and ``reference_value`` are adjusted, as in `isonomy.flag`; ``raw_estimate``
    and ``raw_reference`` are not, and ``unconditional`` is their disparity. ``accounted`` is the unconditional
    disparity minus the conditional one (for ratios, divided by it), and ``share`` the share of the unconditional
    disparity that this is. ``strata`` counts the strata with rows on both sides, ``one_sided`` the others; `by_stratum`
    lists them. Without ``given`` all of these are None.
    """

    never_shown: ClassVar[tuple[str, ...]] = words.LIMITS

    metrics: tuple[str, ...] = column("Metric", name="metric", withheld=False)
    shares: tuple[bool, ...] = column(listed=False, withheld=False)  # lines whose metric is a share of people
    size: FloatArray = column("Rows in group", count=True)
    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column()
    estimate_low: FloatArray | None = column("Estimate from", default=None)
    estimate_high: FloatArray | None = column("Estimate to", default=None)
    reference_value: FloatArray = column(name="reference")
    disparity: FloatArray = column("Difference")
    ci_low: FloatArray = column("Interval from")
    ci_high: FloatArray = column("Interval to")
    raw_estimate: FloatArray | None = column(default=None)
    raw_reference: FloatArray | None = column(default=None)
    unconditional: FloatArray | None = column("Without regard to factors", default=None)
    accounted: FloatArray | None = column("Accounted for by factors", default=None)
    accounted_low: FloatArray | None = column("Accounted for, from", default=None)
    accounted_high: FloatArray | None = column("Accounted for, to", default=None)
    homogeneity_pvalue: FloatArray | None = column("Same in all strata: p‑value", default=None)
    strata: FloatArray | None = column("Strata compared", count=True, sizes=False, default=None)
    one_sided: FloatArray | None = column("Strata with one side only", count=True, sizes=False, default=None)
    homogeneity: FloatArray | None = column(listed=False, default=None)
    homogeneity_df: IntArray | FloatArray | None = column(listed=False, default=None)
    share: FloatArray | None = column(listed=False, default=None)
    share_low: FloatArray | None = column(listed=False, default=None)
    share_high: FloatArray | None = column(listed=False, default=None)
    deviations: FloatArray | None = column("Standard deviations from no difference", default=None)
    shortfall: FloatArray | None = column("Number short of the rate of comparable people", default=None)
    lacking: FloatArray | None = column("Share without a comparable person", default=None)
    overlap_difference: FloatArray | None = column("Difference without these people", default=None)
    conditional_odds: FloatArray | None = column("Conditional odds ratio", default=None)
    conditional_odds_low: FloatArray | None = column("Conditional odds ratio, from", default=None)
    conditional_odds_high: FloatArray | None = column("Conditional odds ratio, to", default=None)
    standard_error: FloatArray = column(listed=False)
    sigma_value: FloatArray | None = column(name="sigma", default=None)
    # For `detectable`: of a group that does not differ, the standard error on the scale of the link and, for 0/1
    # metrics, the rate; and the degrees of freedom of the error.
    planning_error: FloatArray = column(listed=False)
    planning_rate: FloatArray = column(listed=False)
    planning_df: FloatArray = column(listed=False)
    variance: FloatArray | None = column(listed=False, default=None)  # of values within groups; None for rates
    reference: str
    reference_kind: To
    scale: str
    joint: bool
    overlapping: bool
    alpha: float
    tolerance: float | None
    sigma: Sigma | None = None  # whose standard deviation is the unit of standardized differences
    given: tuple[str, ...] = ()
    model: str = ""  # by which people are comparable; empty within strata
    bands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    effects: Effects | None = None  # the strata one by one
    _widest_gap: Widest | Gaps | None  # computed on demand where that needs no rows

    # Further numbers.

    def widest(self) -> Widest:
        """The largest difference (the smallest ratio) between any two groups formed by the same columns.

        The interval accounts for the choice of the pair: without any difference it reaches 0 (a ratio of 1). The result
        has ``value``, ``ci_low``, ``ci_high``, the pair of ``groups``, the lower one first, and the ``metric``; of
        several metrics, the one with the largest gap.
        """
        if (gap := self.widest_gap) is None:
            raise UsageError(
                "widest: not available. It needs two groups that are not withheld, and is not computed within strata "
                "(given)."
            )
        return gap

    @property
    def widest_gap(self) -> Widest | None:
        """The largest gap as `widest` returns it; None if there is none."""
        gap = self._widest_gap
        return gap.widest if isinstance(gap, Gaps) else gap

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The smallest disparity that each group alone would show at ``alpha`` with this power.

        With a tolerance, the smallest that would be shown to lie beyond it. For a two-sided test, the larger difference
        (for ratios, the one below 1); infinite (0) if none is detectable.
        """
        check("power", power, Power)
        goal = Goal(self._side, self.alpha, self.reach or 0.0)
        return detectable(self.planning_error, self.planning_rate, goal, power, self.planning_df, self.link)

    def rows_for_tolerance(self, power: float = 0.8) -> FloatArray:
        """The rows with which each group alone, if it does not differ, would be shown within the tolerance.

        ``power`` is the probability of that. The reference grows with the group.
        """
        check("power", power, Power)
        if self.reach is None:
            raise UsageError("rows_for_tolerance: there is no tolerance; give one to flag or certify.")
        failure = (1.0 - power) / (2.0 if self._side == "two-sided" else 1.0)
        planned = Wald(self.disparity, self.planning_error, self.planning_df)
        return planned.rows_needed(self.reach, self.n, self.alpha / 2.0, failure)

    @property
    def _side(self) -> Alternative:
        side = getattr(self, "alternative", "")
        return "greater" if side == "greater" else "less" if side == "less" else "two-sided"

    def by_stratum(self, backend: str | None = None) -> Any:
        """The strata with enough rows on both sides, one row per group and stratum."""
        if self.effects is None:
            raise UsageError("by_stratum: there are no strata; call flag or certify with given=<column>.")
        return as_frame(self._by_stratum(self.effects), backend, self.provenance.backend, ("n", "reference_n"))

    def _by_stratum(self, effects: Effects) -> Columns:
        known = np.flatnonzero(~np.isnan(effects.estimate))
        names = ("n", "estimate", "reference_n", "reference", "disparity", "ci_low", "ci_high")
        return {
            "group": [self.labels[i] for i in effects.group[known]],
            "stratum": [effects.stratum[i] for i in known],
            **{name: getattr(effects, name)[known] for name in names},
        }

    # The table.

    def wide(self, column: str = "estimate", backend: str | None = None) -> Any:
        """One row per group and one column per metric: the ``column`` of `to_frame`, such as ``"disparity"``."""
        table = self.table()
        choose("column", column, [name for name in table if name not in ("group", "metric")])
        values, blank = table[column], np.nan if isinstance(table[column], np.ndarray) else ""
        cells = dict(zip(zip(self.groups, self.metrics, strict=True), values, strict=True))
        groups, metrics = list(dict.fromkeys(self.groups)), list(dict.fromkeys(self.metrics))
        columns: dict[str, Any] = {"group": [group.label for group in groups]}
        columns |= {name: np.array([cells.get((group, name), blank) for group in groups]) for name in metrics}
        counts = metrics if self.described([column])[column].count else ()
        return as_frame(columns, backend, self.provenance.backend, counts)

    def table(self) -> Columns:
        if self.proxy:
            without = ("metric", "size", "n", "statistic", "design_effect")
            return {name: v for name, v in Evidence.table(self).items() if name not in without}
        columns = dict(Evidence.table(self))
        if self.estimate_low is not None:  # next to the estimate
            ends = {name: columns.pop(name) for name in ("estimate_low", "estimate_high")}
            place = list(columns).index("estimate") + 1
            columns = dict([*list(columns.items())[:place], *ends.items(), *list(columns.items())[place:]])
        columns["detectable"] = self.detectable()
        if self.tolerance is not None:
            columns["rows_needed"] = self.rows_for_tolerance()
        return {name: v for name, v in columns.items() if name != "metric" or len(set(self.metrics)) > 1}

    def ranking(self) -> list[int]:
        """Metric by metric, the groups that are worst off first; lines without a number last."""
        metrics = list(dict.fromkeys(self.metrics))
        better, asked = self.provenance.options.get("better"), self.provenance.options.get("metric")
        named = [asked] if isinstance(asked, str) else list(asked or ())
        names = dict(zip(metrics, named if len(named) == len(metrics) else metrics, strict=True))
        lower = [str(names[metric]) in ERRORS if better is None else better == "lower" for metric in self.metrics]
        size = np.where(lower, -1.0, 1.0) * self.link.delta(self.disparity)
        return np.lexsort((size, np.array([metrics.index(metric) for metric in self.metrics]), np.isnan(size))).tolist()

    def key_line(self) -> int | None:
        """The line furthest from the reference among the disfavored; if there are none, among all that were tested."""
        known = np.flatnonzero(~np.isnan(self.ci_low))
        if words.DISFAVORED in (directions := getattr(self, "direction", ())):
            known = np.flatnonzero(np.array(directions) == words.DISFAVORED)
        return int(known[np.argmax(np.abs(self.link.delta(self.disparity[known])))]) if known.size else None

    def pages(self) -> Mapping[str, Columns]:
        """Within strata, the table and, if any are listed, the strata with unadjusted numbers; otherwise empty."""
        if self.proxy:
            return self.proxy_pages()
        strata: dict[str, Any] = {} if self.effects is None else dict(self._by_stratum(self.effects))
        number = len(strata.get("stratum", ()))
        if not number:
            return {}
        raw = {"estimate": "raw_estimate", "reference": "raw_reference"}
        places: Sequence[int] = range(number)
        if number > 2 * EXAMPLES:
            ranks = np.minimum(strata["n"], strata["reference_n"]), np.abs(self.link.delta(strata["disparity"]))
            places = sorted({i for part in ranks for i in np.argsort(-part, kind="stable")[:EXAMPLES].tolist()})
        strata["stratum"] = [words.stratum(label) for label in strata["stratum"]]
        return {
            words.NUMBERS: self.table(),
            words.BY_STRATUM if len(places) == number else words.SOME_STRATA: {
                raw.get(name, name): [values[i] for i in places] for name, values in strata.items()
            },
        }

    def headings(self) -> Mapping[str, str]:
        """What readers call the columns, including computed ones and those adjusted within strata."""
        more = proxy_words.HEADINGS if self.proxy else words.WORKED_OUT
        adjusted = () if not self.given else ("reference",) if self.model else ("estimate", "reference")
        scale = {"disparity": words.NOUNS[self.scale].capitalize()}
        return {**Evidence.headings(self), **scale, **more, **{name: f"Adjusted {name}" for name in adjusted}}

    def units(self) -> Mapping[str, str]:
        """Shares in percent, and their differences in points."""
        if not self.all_shares:
            return {}
        rates = dict.fromkeys(RATES, "%")
        strata = ("unconditional", "accounted", "accounted_low", "accounted_high")
        differences = ("disparity", "ci_low", "ci_high", "detectable", *strata, *proxy_words.DIFFERENCES)
        rates |= {"lacking": "%", "overlap_difference": "points"}
        return rates | (dict.fromkeys(differences, "points") if self.scale == "difference" else {})

    def table_note(self) -> str:
        return words.adjusted_note(self.scale, self.model) if self.given else ""

    @property
    def all_shares(self) -> bool:
        return bool(self.shares) and all(self.shares)

    @property
    def link(self) -> Link:
        return LINKS["difference" if self.sigma is not None else self.scale]

    @property
    def reach(self) -> float | None:
        """The tolerance on the scale of `link`; None if there is no tolerance."""
        return self.link.reach(self.tolerance)

    # Words.

    @property
    def method(self) -> str:  # type: ignore[override]
        if self.model:
            return words.COMPARABLE_METHODS[self.model]
        return proxy_words.METHOD if self.proxy else words.STRATA_METHOD if self.given else words.METHOD

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        if self.proxy:
            return proxy_words.REFERENCES
        if self.model:
            return words.COMPARABLE_REFERENCES
        return (*words.REFERENCES, *(words.STRATA_REFERENCES if self.given else ()))

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        return proxy_words.assumptions(self) if self.proxy else words.assumptions(self)

    def limits(self) -> tuple[str, ...]:
        more = proxy_words.limits(self) if self.proxy else (words.LEGITIMATE,) if self.given else ()
        return (*self.never_shown, *more)

    # Disclosure.

    def compared_with(self) -> BoolArray:
        """Which groups others are compared with: the one named, or the best."""
        best = np.zeros(len(self.groups), dtype=bool)
        if self.reference_kind.best:
            for metric in set(self.metrics):
                lines = np.array([name == metric for name in self.metrics])
                best |= lines & np.isin(self.estimate, self.reference_value[lines])
        return best | Evidence.compared_with(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``.

        Strata are withheld if a cell is small, or would follow from others.
        """
        hidden = Evidence.suppressed(self, minimum, also)
        if hidden is not self:
            gap = self.widest_gap
            revealing = gap is not None and bool(hidden.withheld_labels()[0] & set(gap.groups))
            hidden = replace(hidden, _widest_gap=None if revealing else gap)
        if self.effects is None:
            return hidden
        named = [any(name == CONDITION for name, _ in group.items) for group in self.groups]
        to_group = self.reference_kind is To.GROUP
        return replace(hidden, effects=published_effects(self.effects, hidden.n, minimum, named, to_group=to_group))
