"""Flagging: which groups are treated differently, by how much, and is that more than chance?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, Unpack

import numpy as np

from isonomy.frames import Group, Groups, MetricLike, Source
from isonomy.frames.expressions import Scalar
from isonomy.frames.metrics import ERRORS, RATES, canonical, listed
from isonomy.frames.proxies import proxy_of
from isonomy.groups import proxy_words, words
from isonomy.groups.disparities import MOST_GROUPS, ComparisonPlan, Given, GroupEvidence, common, names_of, read
from isonomy.groups.likelihood import comparison
from isonomy.groups.likelihood.comparison import ComparedGroups, able_groups
from isonomy.groups.likelihood.lines import MetricRows
from isonomy.groups.likelihood.profile import Corrected, OnScale
from isonomy.groups.likelihood.strata import SHOWN, account_for_strata
from isonomy.groups.options import MOVED, NO_DIFFERENCE, Method, NullOption, ReferenceLike, ScaleLike, To
from isonomy.groups.proxy import ProxyPlan, flag_by_proxy, flag_columns
from isonomy.groups.shrunk import ShrunkResult, Toward, shrink
from isonomy.inference import Verdict, conclude, inside, rejected
from isonomy.inference.decide import Alternative, Decisions
from isonomy.inference.designs import FEWEST
from isonomy.inference.effect import Against, Bent, Effect, Hypothesis, Rescaled, Wald, too_skewed
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.inference.multiplicity import false_discoveries, intersections, max_t, siblings
from isonomy.numerics.arrays import BoolArray, FloatArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, RowOptions, Seeded, Tolerance, Whole, check
from isonomy.results import Evidence, Note, column, note_if, open_call, question

if TYPE_CHECKING:
    import altair as alt

Adjustment = Literal["bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t"]
Better = Literal["higher", "lower"] | None


# ---- call


@question(
    "plan_flag",
    moved=MOVED,
    asks="Which groups are treated differently, by how much, and is that more than chance?",
    topic="{}",
    from_counts=True,
    further=("shrunk",),
)
def flag(
    data: object = None,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Scalar | None = None,
    reference: ReferenceLike = "population",
    scale: ScaleLike = "difference",
    null: float | tuple[float, float] | NullOption | None = None,
    tolerance: Tolerance = None,
    given: Given = None,
    method: Method = "el",
    alpha: Alpha = 0.05,
    adjust: Adjustment = "bh",
    better: Better = None,
    depth: Whole = 1,
    min_size: Whole = 10,
    rng: Seeded = None,
    **rows: Unpack[RowOptions],
) -> FlagResult:
    """Which groups are treated differently, by how much, and is that more than chance?

    The disparity of a group is the mean of the metric in the group minus the reference, or divided by it (see
    ``scale``). Null hypothesis, for each group: the disparity equals ``null``. T is an empirical likelihood ratio:
    chi-square with one degree of freedom at the true disparity, whatever the distribution of the metric.

    Parameters
    ----------
    data : frame, mapping or path
        Any table: pandas, polars, pyarrow, a DuckDB relation, PySpark, a mapping of arrays, a path.
    metric : str, Metric or sequence of these
        A name (``"ppv"``, ``"selection_rate"``, ``"mse"``, ...), also a common synonym such as ``"recall"``, or an
        `isonomy.Metric`: a mean or a quantile. Several metrics are tested together, in one result with a column
        ``metric``. ``"equalized_odds"`` is ``["tpr", "fpr"]``.
    groups : str, cut, where or sequence of these, or proxy
        The columns, cuts and conditions that form the groups; or `isonomy.proxy`, groups known only by probability.
    outcome, prediction, score : str, optional
        The columns with these roles, as the metric needs them.
    positive : str, int, float or bool, optional
        The label of the outcome and the prediction that counts as 1; all others count as 0. For text, and for one class
        of several. Default: both columns hold 0 and 1.
    reference : str, float, mapping, Group or Estimate, default "population"
        ``"population"``, ``"rest"`` (all rows outside the group), ``"highest"`` or ``"lowest"`` (of the groups formed
        by the same columns; tests and intervals account for its choice), a number, a group such as
        ``{"race": "Caucasian"}`` (for a named condition ``{"young men": True}``, or ``False``), or an `Estimate` with a
        column of influence values.
    scale : {"difference", "ratio", "odds_ratio", "standardized"} or iso.standardized(sigma), default "difference"
        How a group is compared with the reference: its mean minus the reference, divided by it (for metrics that are
        never negative), or its odds divided by those of the reference (for 0/1 metrics). T does not depend on the
        scale; intervals, ``null`` and ``tolerance`` are in its unit. ``"standardized"`` is the difference in standard
        deviations, for metrics that are not 0/1.
    null : float, (float, float) or iso.null(low, high, side), optional
        The disparity under the null hypothesis, or the ends of an interval; groups that differ from it, or lie outside
        it, are flagged. ``iso.null(0.1, side="greater")`` flags only groups above 0.1. Default: no difference, which is
        0, or a ratio of 1.
    tolerance : float, optional
        The largest disparity that does not matter. The null hypothesis becomes abs(disparity) <= tolerance, and a group
        whose interval lies inside the tolerance is shown to be within it. For ratios it is a ratio: 0.8 tolerates 0.8
        to 1.25.
    given : str, cut, where or sequence of these, or iso.comparable(...), optional
        Legitimate factors. Each group is compared with people of the same stratum, a combination of their levels; see
        the notes. ``iso.comparable("income", "score")`` compares by regression, for numbers without bands.
    method : {"el", "eel", "published"} or iso.likelihood(kind, correction, ...), default "el"
        Empirical or Euclidean likelihood; ``"published"`` is the paper's procedure. ``iso.likelihood`` also sets the
        correction for small groups and the kind of intervals.
    alpha : float, default 0.05
        The error rate of tests and intervals.
    adjust : {"bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t"}, default "bh"
        The adjustment of p-values for the number of groups, over all metrics. ``"bh-tree"`` is Benjamini-Hochberg level
        by level down the tree of intersections; ``"bh-siblings"`` among the children of each node, as in the authors'
        code (groups that differ only in the last of their columns, in the order of ``groups``). ``"max-t"`` controls
        the probability of any false flag, as Holm's does, using the covariance of all disparities (Romano and Wolf).
    better : {"higher", "lower"}, optional
        Which values of the metric are better for the people concerned. It determines which flagged groups are *favored*
        and which *disfavored*, relative to the reference, or to the null if it is not zero. Default: lower is better
        for error metrics, higher otherwise, also for an `iso.Metric`: give ``better`` with one whose values are bad.
    depth : int, default 1
        How many of the columns, cuts and conditions are intersected.
    min_size : int, default 10
        Groups with fewer rows that meet the metric's condition are listed, not tested.
    rng : int or Generator, optional
        The seed of resamples and draws.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    FlagResult
        ``to_frame()`` has one row per group: group, size, n, estimate, estimate_low, estimate_high, reference,
        disparity, ci_low, ci_high, statistic, pvalue, adjusted_pvalue, verdict, direction, status, detectable (the
        smallest disparity that these rows would show in 80 % of samples) and, with a tolerance, rows_needed (the rows
        that would show in 80 % of samples that a group without a difference is within it). ``wide("estimate")`` has one
        row per group and one column per metric. ``widest()`` is the largest gap between groups. With ``given``,
        ``estimate`` and ``reference`` are adjusted for the factors, estimate_low and estimate_high are absent, and
        further columns hold the unadjusted numbers and how much of the disparity the factors account for.

    Notes
    -----
    Assumes independent rows (or clusters, if they are named) and groups large enough for the limit. With weights or
    clusters, ``statistic`` is the chi-square with the tail that T over its design effect has under F(1, nu), and
    `to_frame` has the columns clusters, effective_clusters and design_effect. Without them, T of a metric that is not
    0/1 is compared with F on Welch's degrees of freedom and, with fewer than 30 rows on a side, is Welch's t squared.
    T of a skewed difference is reduced by Hall's transformation; groups with too few rows even for that have the status
    ``skewed`` and no verdict.

    estimate_low and estimate_high are the limits of the metric itself, one group at a time: Wilson's for a rate,
    Student's for a mean; with weights or clusters, at the critical value of the design.

    The reference is estimated from the same rows, and its error is part of the test. The paper's Theorem 2 ignores it,
    and so does ``method="published"``. The statistic is that of the paper's sections 3 and 4, its Algorithms G.2 to
    G.5; the joint treatment of the reference and the p-value of an interval null are corrections, described on the
    method's page.

    Within strata (``given``) the disparity is the common Mantel-Haenszel difference, ratio or odds ratio. The p-value
    of equality is that of Cochran, Mantel and Haenszel without continuity correction. Other p-values and the intervals
    are those of Miettinen and Nurminen's stratified score for differences of rates, and Wald's otherwise. ``estimate``
    and ``reference`` are averages with the weights n1 n0 / (n1 + n0), so that their difference (ratio) is the common
    one; on the scale of odds ratios, ``estimate`` is the rate with the common odds ratio to ``reference``. Against the
    population or the rest, a group is compared with the rest of its stratum. Strata in which one side is empty carry no
    information; they are counted. Whether a factor is legitimate is not a statistical question.

    When it misleads: if rows belong together and no ``cluster`` says so; if groups were chosen after looking at the
    data; in groups of a few dozen rows with a skewed metric, where T is too large (see `isonomy.likelihood`).

    References
    ----------
    Tang, J., Xie, C., Zeng, X. and Zhu, L. (2026). Empirical likelihood-based fairness auditing: distribution-free
    certification and flagging. arXiv:2601.20269.

    Examples
    --------
    >>> import isonomy as iso
    >>> table = {"approved": [1] * 60 + [0] * 40 + [1] * 90 + [0] * 10, "sex": ["f"] * 100 + ["m"] * 100}
    >>> result = iso.flag(table, metric="selection_rate", groups="sex", prediction="approved", reference={"sex": "m"})
    >>> result.to_frame().select("group", "disparity", "status").rows()
    [('sex=f', -0.30000000000000004, 'ok'), ('sex=m', 0.0, 'reference')]
    >>> [str(group) for group in result.flagged]
    ['sex=f']
    """
    metric = canonical(metric)
    plan, rng, record = open_call("flag", plan_flag, locals())
    if isinstance(plan, ProxyPlan):
        return FlagResult(**flag_columns(plan, record))
    rows_read = read(plan)
    parts = plan.compare(rows_read, rng)
    columns, tests = estimate(parts, plan)
    columns |= decide(columns, tests, plan)
    random = plan.adjust == "max-t" or (plan.correction == "bartlett" and plan.target.joint)
    return FlagResult(
        **columns,
        **common(record, plan, parts, random=random),
        null=words.null(plan),
        notes=notes(columns, tests, plan, rows_read),
        null_low=plan.hypothesis.low,
        null_high=plan.hypothesis.high,
        alternative=plan.hypothesis.alternative,
        adjust=plan.adjust,
        interval=plan.interval,
    )


# ---- plan


def plan_flag(source: Source, **options: Any) -> FlagPlan | ProxyPlan:
    proxy = proxy_of(options["groups"])
    return FlagPlan(source, **options) if proxy is None else flag_by_proxy(source, proxy, options)


@dataclass(frozen=True, eq=False, kw_only=True)
class FlagPlan(ComparisonPlan):
    """The call: each group has a null hypothesis of its own."""

    jointly: ClassVar[bool] = False

    null: float | tuple[float, float] | NullOption | None
    adjust: Adjustment
    better: Better

    def refusals(self) -> Iterator[tuple[bool, str]]:
        nulls, best = self.null_option, self.target.to.best
        faced = {To.HIGHEST: "less", To.LOWEST: "greater"}.get(self.target.to, "")
        if best and (nulls.high is not None or nulls.side not in ("two-sided", faced)):
            yield (
                True,
                f"null: {nulls} is not allowed with reference={self.reference!r}, beyond which no group lies; use "
                f"side={faced!r}, or leave it out.",
            )
        yield (
            self.tolerance is not None and (nulls.high is not None or nulls.low not in (None, self.link.equal)),
            "null: a tolerance sets the null hypothesis; give only one of them, or iso.null(side=...) for one side.",
        )
        yield (
            self.link.ratio and nulls.low is not None and nulls.low <= 0,
            f"null: {self.null!r} is not allowed for scale={self.base_scale!r}; give ratios above 0 (1 is equality).",
        )
        yield (
            self.interval == "one-sided" and not best and (nulls.high is not None or nulls.side == "two-sided"),
            "interval: 'one-sided' needs null=iso.null(side='greater') (a lower bound) or side='less' (an upper one).",
        )
        yield from ComparisonPlan.refusals(self)

    @cached_property
    def null_option(self) -> NullOption:
        if self.null is None:
            return NO_DIFFERENCE
        return self.null if isinstance(self.null, NullOption) else NullOption(*np.atleast_1d(self.null).tolist())

    @cached_property
    def hypothesis(self) -> Hypothesis:
        """A group can only lie below the highest, or above the lowest."""
        null, to = self.null_option, self.target.to
        side: Against = null.side if null.high is None else self.outside
        if to.best:
            side = "less" if to is To.HIGHEST else "greater"
        low = self.link.equal if null.low is None else float(null.low)
        high = low if null.high is None else float(null.high)
        return self.tolerated(side) or Hypothesis(low, high, side)


# ---- read: see `isonomy.groups.disparities.read`

# ---- estimate

# A skewed group is judged only if its p-value is this small, relative to alpha, with the variance of all rows if its
# own is smaller: a group that lacks the rare large amounts has hardly any. With several groups it must be smaller: for
# 20 lognormal rows its probability falls only with its eighth root. The variance of a ratio depends on the ratio
# itself, and clusters may lie in both groups, so that no such variance is known there and no group is judged.
OVERWHELMING, ROOT = 1e-3, 8.0


def estimate(parts: Sequence[ComparedGroups], plan: ComparisonPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compare each group with its reference and test it, for all metrics; NaN for groups that are not tested.

    Returns the columns of the evidence, and facts that only decisions need: ``tested`` groups; tests of the ``same``
    hypothesis; groups with too few rows for so ``skewed`` a metric, and the ``moments`` behind that; groups whose T is
    ``uncorrected`` because the Bartlett factor could not be computed; the p-values with the error of the reference
    treated ``otherwise``; and p-values ``drawn`` (draws x groups) under the null hypotheses with their dependence, if
    the adjustment needs them.
    """
    totals = comparison.combined_spread(parts) if plan.source.designed else None
    if totals is not None:
        for part in parts:
            few = ~(totals.effective[part.places] >= FEWEST)
            part.status[able_groups(part.status) & few] = Status.FEW_CLUSTERS
    plain, null, given = comparison.likelihoods(parts), plan.hypothesis, plan.given is not None
    tested, same = plain.tested, comparison.same_hypotheses(parts, null)
    among = 1 if plan.adjust == "none" else np.unique(same[tested]).size
    moments = comparison.moments(parts, tested, plan.alpha, among)
    skewed = tested & too_skewed(moments.third, moments.variance, plan.alpha, among)
    bent = (skewed & moments.bend.trusted) | (tested & moments.bend.few)
    skewed = tested & (skewed & ~moments.bend.trusted | moments.lacking)
    excess, level = np.where(bent, moments.bend[:2], 0.0)
    plain = effects = replace(plain, df=moments.df)
    design, law = None, None
    if totals is not None:
        law = comparison.law_of_design(parts, totals)
        effects, design = effects if plan.target.to.best else plain.under(law), totals.effect(law)
    disparity, error = effects.value, effects.standard_error

    judged: Effect = Bent(effects, excess, level) if bent.any() else effects
    status = comparison.stacked(parts, "status")
    statistic, pvalue = np.full((2, tested.size), np.nan)
    otherwise: FloatArray | None = None
    drawn: tuple[FloatArray, ...] = ()
    side: Alternative = "two-sided" if null is None else null.side
    if null is not None:
        statistic, pvalue = np.where(tested, judged.test(null), np.nan)
        pvalue[np.isnan(statistic)] = np.nan
    if isinstance(plan, FlagPlan):
        other: Effect | None = None if given else comparison.treated_otherwise(parts, plain)
        if other is not None:
            other = Bent(other, excess, level) if bent.any() else other
            otherwise = np.where(tested, other.test(plan.hypothesis)[1], np.nan)
        if plan.adjust == "max-t" and not plan.target.to.best:
            drawn = comparison.max_t_draws(parts, plan.hypothesis, effects)
        elif plan.adjust == "bh" and plan.sigma is None and plan.dependent and not plan.target.to.best:
            drawn = comparison.rate_draws(parts, plan.hypothesis, effects, alpha=plan.alpha, one_pass=plan.one_pass)
    # Two groups that share one hypothesis still have two intervals.
    low, high = judged.limits(plan.alpha, plan.interval, side, int(tested.sum()))
    groups = [group for part in parts for group in part.partition.groups]
    uncorrected = []
    for where, inner in plain.parts:
        while isinstance(inner, (Rescaled, OnScale)):
            inner = inner.inner
        if design is None:
            skewed[where] |= inner.lopsided(plan.alpha, among)
        if isinstance(inner, Corrected):
            uncorrected += [str(groups[i]) for i in where[np.isnan(inner.factor)]]
    if null is not None and design is None and plan.link.equal == 0 and skewed.any():
        with np.errstate(all="ignore"):
            widened = Wald(disparity, error / np.sqrt(moments.narrow), effects.df)
            largest = np.maximum(pvalue, widened.test(null)[1])
            skewed &= ~(largest <= OVERWHELMING * plan.alpha / max(among, 1) ** ROOT)
    # One hypothesis has one answer: the clusters of two groups may hide the skewness of one of them.
    skewed = tested & np.isin(same, same[skewed])
    metrics: list[tuple[object, ...]] = []
    for (places, _), measure, kind in zip(comparison.by_metric(parts), plan.measures, listed(plan.metric), strict=True):
        metrics += [(measure.name, measure.binary, kind in RATES, kind in ERRORS)] * (places.stop - places.start)
    names, binary, shares, errors = np.array(metrics, dtype=object).T
    binary, shared = binary.astype(bool), shares.astype(bool)
    reference = comparison.stacked(parts, "reference_value")
    spread_out = [part.means.variance[: len(part.size)] for part in parts]
    columns: dict[str, Any] = {
        "metrics": tuple(names),
        "shares": tuple(shares),
        "groups": tuple(groups),
        "size": comparison.stacked(parts, "size"),
        "n": comparison.stacked(parts, "rows"),
        "estimate": comparison.stacked(parts, "estimate"),
        "reference_value": reference,
        "disparity": disparity,
        "standard_error": error,
        "ci_low": low,
        "ci_high": high,
        "statistic": statistic,
        "pvalue": pvalue,
        "status": status,
        "design": design,
        "sigma_value": None if plan.sigma is None else np.concatenate([part.deviations() for part in parts]),
        "planning_error": comparison.planning_error(
            parts, effects, np.ones(tested.size) if law is None else law.effect, binary
        ),
        "planning_rate": np.where(binary & (not given), reference, np.nan),
        "planning_df": moments.df if law is None else law.df,
        "variance": None if all(shares) or any(m.functional for m in plan.measures) else np.concatenate(spread_out),
    }
    if given:
        columns |= _accounts(parts, plan) | {
            "deviations": np.where(tested, judged.root(plan.link.equal), np.nan),
            "shortfall": np.where(shared, (reference - columns["estimate"]) * columns["n"], np.nan),
        }
    else:
        columns["estimate_low"], columns["estimate_high"] = comparison.metric_limits(parts, plan.alpha)
    tests = {
        "tested": tested,
        "status": status,
        "binary": binary,
        "errors": errors.astype(bool),
        "same": same,
        "skewed": skewed,
        "moments": moments,
        "uncorrected": tuple(uncorrected),
        "otherwise": otherwise,
        "drawn": drawn,
    }
    return columns, tests


def _accounts(parts: Sequence[ComparedGroups], plan: ComparisonPlan) -> dict[str, Any]:
    if plan.comparable is None:
        return account_for_strata(parts[0].sums, plan.base_scale, plan.alpha)
    accounts = [
        (part.comparable.account(part.link, part.sums.design, plan.alpha), np.full(len(part.size), np.nan))
        for part in parts
        if part.comparable is not None
    ]
    names = dict.fromkeys(name for account, _ in accounts for name in account)
    return {name: np.concatenate([account.get(name, blank) for account, blank in accounts]) for name in names}


# ---- decide


POINT = 0.01  # a percentage point, or about one percent of a ratio


def decide(columns: Mapping[str, Any], tests: Mapping[str, Any], plan: FlagPlan) -> dict[str, Any]:
    adjusted = _adjusted(columns["pvalue"], columns, tests, plan)
    shown, status = conclude_groups(adjusted, columns, tests, plan)
    otherwise: tuple[str, ...] = ()
    if tests["otherwise"] is not None:
        other = rejected(_adjusted(tests["otherwise"], columns, tests, plan), plan.alpha)
        otherwise = names_of(columns, other != rejected(adjusted, plan.alpha))
    lower = tests["errors"] if plan.better is None else plan.better == "lower"
    better = plan.hypothesis.direction(columns["disparity"]) * np.where(lower, -1.0, 1.0)
    direction = np.where(better > 0, words.FAVORED, words.DISFAVORED)
    unrecorded = np.array([None in dict(group.items).values() for group in columns["groups"]], dtype=bool)
    direction[unrecorded | (np.array(shown.verdicts, dtype=object) != Verdict.VIOLATION)] = ""
    return {
        "adjusted_pvalue": adjusted,
        "verdict": shown.verdict,
        "verdicts": shown.verdicts,
        "direction": tuple(direction.tolist()),
        "status": status,
        "otherwise": otherwise,
    }


def _adjusted(pvalue: FloatArray, columns: Mapping[str, Any], tests: Mapping[str, Any], plan: FlagPlan) -> FloatArray:
    """P-values adjusted over all tested groups; max-t within each metric, with Bonferroni over the metrics."""
    if plan.adjust == "max-t":
        number = len(tests["drawn"])
        parts = zip(np.split(pvalue, number), tests["drawn"], np.split(tests["same"], number), strict=True)
        return np.minimum(np.concatenate([number * max_t(*part) for part in parts]), 1.0)
    named = list(zip(columns["groups"], columns["metrics"], strict=True))  # a family has one metric
    if plan.adjust == "bh-siblings":
        return siblings(pvalue, [(("metric", name), *group.items) for group, name in named])
    if plan.adjust == "bh-tree":
        return intersections(pvalue, [(*group.items, ("metric", name)) for group, name in named], plan.alpha).adjusted
    return adjust_pvalues(pvalue, plan.adjust, tests["same"])


def conclude_groups(
    adjusted: FloatArray, columns: Mapping[str, Any], tests: Mapping[str, Any], plan: ComparisonPlan
) -> tuple[Decisions, ObjectArray]:
    """The verdicts, and the status of each group: why it has no verdict, or an interval without an end."""
    tested, statistic, low, high = tests["tested"], columns["statistic"], columns["ci_low"], columns["ci_high"]
    skewed = tests["skewed"]
    side = "two-sided" if plan.hypothesis is None else plan.hypothesis.side
    within = inside(plan.link.delta(low), plan.link.delta(high), plan.link.reach(plan.tolerance), side)
    shown = conclude(
        np.where(skewed, np.nan, adjusted),
        alpha=plan.alpha,
        within=within & ~skewed,
        concerned=columns["status"] != Status.REFERENCE,
    )
    status = columns["status"].copy()
    if not plan.jointly:
        status[np.isinf(statistic)] = Status.OUTSIDE_RANGE
    normal = tested & (status == Status.OK)
    if plan.interval != "one-sided":
        endless = np.isinf(low) | np.isinf(high)  # the lower end of a ratio is never below 0
        status[(normal | (tested & (status == Status.CONSTANT))) & endless] = Status.UNBOUNDED
    status[normal & (np.isnan(low) | np.isnan(high))] = Status.NOT_CONVERGED
    status[skewed & (status == Status.OK)] = Status.SKEWED
    if not plan.jointly:
        status[tested & np.isnan(statistic)] = Status.NOT_CONVERGED
    return shown, status


def large_differences(columns: Mapping[str, Any], plan: ComparisonPlan) -> BoolArray:
    """Which groups differ by at least a percentage point, with confidence; none if a metric is not 0/1."""
    low, high = (plan.link.delta(columns[end]) for end in ("ci_low", "ci_high"))
    large = (np.sign(low) == np.sign(high)) & (np.minimum(np.abs(low), np.abs(high)) >= POINT)
    return np.asarray(large & all(measure.binary for measure in plan.measures), dtype=bool)


def notes(
    columns: Mapping[str, Any], tests: Mapping[str, Any], plan: FlagPlan, rows: Sequence[MetricRows]
) -> tuple[Note, ...]:
    adjusted, several = columns["adjusted_pvalue"], len(plan.measures) > 1
    more = [*common_notes(columns, tests, plan, rows), *note_if("uncorrected", tests["uncorrected"])]
    if plan.adjust.startswith("bh") and plan.dependent and int(tests["tested"].sum()) > 1:
        if len(tests["drawn"]) != 1:
            more.append(Note("dependence"))
        else:  # the effect on the false discovery rate is measured, and reported only if it matters
            drawn = tests["drawn"][0]
            rate = false_discoveries(drawn, plan.alpha, rejected(adjusted, plan.alpha)[tests["tested"]])
            if rate > plan.alpha + 3.0 * float(np.sqrt(plan.alpha * (1.0 - plan.alpha) / len(drawn))):
                more.append(Note("dependence_measured", values={"rate": rate, "alpha": plan.alpha}))
    if plan.adjust == "bh-tree":
        unreached = int((np.isnan(adjusted) & ~np.isnan(columns["pvalue"])).sum())
        more.append(Note("tree_levels", values={"unreached": unreached, "several": several}))
    flagged = np.array(columns["verdicts"], dtype=object) == Verdict.VIOLATION
    equality = plan.hypothesis.low == plan.hypothesis.high == plan.link.equal
    if equality and (flagged & ~large_differences(columns, plan)).any():
        more.append(Note("large_sample"))
    close = (adjusted > plan.alpha / 1.5) & (adjusted < 1.5 * plan.alpha)
    if plan.correction == "bartlett" and plan.target.joint and close.any():
        more.append(Note("resampled", values={"resamples": plan.likelihood.resamples}))
    return tuple(more)


def common_notes(
    columns: Mapping[str, Any], tests: Mapping[str, Any], plan: ComparisonPlan, rows: Sequence[MetricRows]
) -> Iterator[Note]:
    status, first = columns["status"], tests["status"]
    dropped: dict[str, int] = {}
    for part in rows:
        dropped |= part.dropped
    if any(dropped.values()):
        yield Note("dropped", values=dropped)
    if plan.comparable is not None:
        some = columns["lacking"] > 0
        most = columns["lacking"][some].max(initial=0.0)
        yield from note_if("lacking_people", names_of(columns, some), most=float(most))
    elif plan.given is not None:
        yield from _strata_notes(columns, tests["tested"], plan)
    yield from note_if("small_groups", names_of(columns, status == Status.TOO_SMALL), least=plan.min_size)
    few = (status == Status.REFERENCE) & (columns["n"] < plan.min_size)
    yield from note_if("small_reference", names_of(columns, few), least=plan.min_size)
    constant = first == Status.CONSTANT
    yield from note_if("constant_shares", names_of(columns, constant & tests["binary"]))
    yield from note_if("constant_values", names_of(columns, constant & ~tests["binary"]))
    known = first != Status.TOO_SMALL
    if plan.measures[0].name == "tpr" and known.any() and (columns["estimate"][known] == 1).all():
        yield Note("always_selected")
    for kind, code in words.CONCERNS.items():
        if kind is Status.UNSUPPORTED and plan.given is None:
            code = "undefined_metric"
        elif kind is Status.FEW_EVENTS and plan.comparable is not None:
            code = "few_for_factors"
        yield from note_if(code, names_of(columns, status == kind))
    if plan.plugged_in:
        yield Note("plugin_reference")


def _strata_notes(columns: Mapping[str, Any], tested: BoolArray, plan: ComparisonPlan) -> Iterator[Note]:
    """Whether disparities differ between strata, and which strata carry no information."""
    pvalue, one_sided = columns["homogeneity_pvalue"], columns["one_sided"]
    differ = rejected(adjust_pvalues(np.where(tested, pvalue, np.nan), "holm"), plan.alpha)
    yield from note_if("strata_differ", names_of(columns, differ), scale=plan.base_scale)
    designed = columns["design"] is not None
    yield from note_if("strata_unjudged", names_of(columns, tested & np.isnan(pvalue)), designed=designed)
    most = int(one_sided[tested].max(initial=0))
    yield from note_if("strata_one_sided", names_of(columns, tested & (one_sided > 0)), most=most)
    if not columns["effects"].complete and columns["effects"].group.size == SHOWN:
        yield Note("strata_shown", values={"shown": SHOWN})


# ---- evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlagResult(GroupEvidence):
    """The disparity of every group, tested. `to_frame` has one row per group.

    For groups that were not tested, ``statistic``, ``pvalue`` and ``adjusted_pvalue`` are NaN, and ``verdicts`` are
    inconclusive. ``otherwise`` lists the groups on which another treatment of the reference's error would decide
    differently.
    """

    statistic: FloatArray = column()
    pvalue: FloatArray = column("p‑value")
    adjusted_pvalue: FloatArray = column("Adjusted p‑value")
    verdicts: tuple[Verdict, ...] = column(name="verdict")
    direction: tuple[str, ...] = column("Favored or disfavored")
    null_low: float
    null_high: float
    alternative: str
    adjust: str
    interval: str = "pointwise"
    otherwise: tuple[str, ...] = ()

    @property
    def flagged(self) -> tuple[Group, ...]:
        """The groups whose null hypothesis was rejected, for at least one metric."""
        named = zip(self.groups, self.verdicts, strict=True)
        return tuple(dict.fromkeys(group for group, verdict in named if verdict is Verdict.VIOLATION))

    def shrunk(
        self, toward: Toward = "main_effects", of: Sequence[str] | None = None, alpha: float | None = None
    ) -> ShrunkResult:
        """Estimates for many small groups, each drawn toward what the groups have in common. No verdict rests on them.

        Robust empirical Bayes (Armstrong, Kolesár and Plagborg-Møller 2022, Econometrica 90, 2567-2602): the fewer rows
        a group has, the more its raw estimate is drawn. Estimates and intervals are better on average over the groups;
        a group that really is unusual is drawn toward the others too. Groups below ``min_size`` are used and shown,
        withheld groups are neither.

        Parameters
        ----------
        toward : {"main_effects", "mean"}, default "main_effects"
            The sum of the effects of the columns, for at least ten groups more than it has parameters; or the mean of
            all groups, for at least eight groups. Groups formed by one column are drawn toward their mean.
        of : sequence of str, optional
            The columns whose intersections are used. Default: the deepest set, if there is only one.
        alpha : float, optional
            Intervals contain the true value in a share 1 - alpha of the groups. Default: that of the result.

        Returns
        -------
        ShrunkResult
            ``to_frame()`` has one row per group, with the raw estimate and the shrunk one; ``beyond_parts`` tests
            whether the groups differ beyond what they are drawn toward.

        Examples
        --------
        >>> import isonomy as iso
        >>> table = {"branch": [f"b{i}" for i in range(8)] * 25, "approved": [0, 1, 1, 0, 1] * 40}
        >>> result = iso.flag(table, metric="selection_rate", prediction="approved", groups="branch")
        >>> result.shrunk().to_frame().select("group", "estimate", "shrunk").rows()[0]
        ('branch=b0', 0.6, 0.6)
        """
        check("toward", toward, Toward)
        check("of", of, Sequence[str] | None)
        check("alpha", alpha, Alpha | None)
        return shrink(self, toward, None if of is None else tuple(of), self.alpha if alpha is None else alpha)

    @property
    def tested(self) -> str:
        """The null hypothesis in words, if it is neither equality nor a tolerance."""
        if self.tolerance is not None or self.null_low == self.null_high == self.link.equal:
            return ""
        return words.null_phrase(self, self.null_low, self.null_high, self.alternative)

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null hypothesis and the tolerance."""
        from isonomy.groups.charts import flagged

        return flagged(self)

    def headline(self) -> str:
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.alternative in words.BEYOND:
            return words.within_one_side(self)
        if self.tested and self.answered:
            return words.other_null_verdict(self, self.tested)
        return Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """An overview; within strata, what the factors account for; the groups, worst first; then what else matters."""
        if self.proxy:
            points = self.all_shares and self.scale == "difference"
            return proxy_words.findings(self, self.reference, points, self.link.ratio)
        order = [i for i in self.ranking() if not np.isnan(self.pvalue[i])]
        described = order[:MOST_GROUPS]
        return (
            words.flag_overview(self, order),
            *(words.accounts(self, i) for i in described if self.given),
            *(words.group_finding(self, i) for i in described),
            *([words.against_best(f"{self.reference_kind} group of a column")] if self.reference_kind.best else []),
            *words.alone(self),
            *([words.decided_otherwise(self)] if self.otherwise else []),
            *words.banded(self),
        )

    def screen(self) -> tuple[str, ...]:
        """Of several metrics in many groups, the disparities: groups by metrics, worst first."""
        many = len(set(self.metrics)) > 1 and len(self.groups) > words.SENTENCES and not self.proxy
        return words.matrix(self, [i for i in self.ranking() if not np.isnan(self.pvalue[i])]) if many else ()

    def hide(self, small: BoolArray) -> Self:
        """A copy without the numbers of the lines that are ``small``, and without the sentence that names groups."""
        return replace(GroupEvidence.hide(self, small), otherwise=())
