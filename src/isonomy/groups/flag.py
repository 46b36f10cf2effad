"""Flagging: which groups are treated differently, by how much, and is that more than chance?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, Unpack

import numpy as np
import numpy.typing as npt

from isonomy.errors import BadWeight, UsageError, near, refuse_percent
from isonomy.frames import Group, Grouping, Groups, MetricLike, Request, Sample, checks
from isonomy.frames.conditions import Scalar
from isonomy.frames.groups import CONDITION, in_words
from isonomy.frames.labels import belongs
from isonomy.frames.metrics import (
    BUNDLES,
    ERRORS,
    RATES,
    Measure,
    beside,
    listed,
    measure,
    own_columns,
    together,
)
from isonomy.groups import words
from isonomy.groups.likelihood import correction as corrections
from isonomy.groups.likelihood.comparison import Solver, likelihoods
from isonomy.groups.likelihood.correction import Corrected
from isonomy.groups.likelihood.disparity import Against, Hypothesis, Interval, Rescaled, intervals
from isonomy.groups.likelihood.families import (
    Gaps,
    Widest,
    combined_spread,
    law_of_design,
    mark_few_clusters,
    max_t_draws,
    places_of,
    planning_error,
    rate_draws,
    same_hypotheses,
    treated_otherwise,
)
from isonomy.groups.likelihood.lines import Lines, MetricRows, rows_or_bins
from isonomy.groups.likelihood.links import LINKS, Link
from isonomy.groups.likelihood.overlap import Sigma
from isonomy.groups.likelihood.planning import Question, detectable, within_rows
from isonomy.groups.likelihood.reference import (
    Disparities,
    Reference,
    ReferenceLike,
    To,
    Uncertainty,
    facing,
    hypothesis_of,
    reference_of,
)
from isonomy.groups.likelihood.strata import Scale
from isonomy.groups.likelihood.within import SHOWN, Effects, account_for_strata, published_effects
from isonomy.inference import Verdict, conclude, inside, rejected
from isonomy.inference.decide import Alternative
from isonomy.inference.multiplicity import adjust as adjust_pvalues
from isonomy.inference.multiplicity import false_discoveries, intersections, max_t, siblings
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Column, Draws, Form, Power, RowOptions, Seeded, Tolerance, Whole, check
from isonomy.results import Columns, Evidence, Note, Plan, column, note_if, open_call, question, storable
from isonomy.results.evidence import as_frame

if TYPE_CHECKING:
    import altair as alt

Adjustment = Literal["bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t"]
Method = Literal["el", "eel"]
Better = Literal["higher", "lower"] | None
Correction = Literal["auto", "bartlett", "adjusted"]
FlagScale = Scale | Literal["standardised"]
# A value of the outcome and the prediction.
Label = str | int | float | bool | None
# Legitimate factors that groups are compared within: columns, cuts or conditions.
Given = Annotated[object, Form("given")] | None

# Fewer resamples than this give Bartlett's factor an error as large as the correction itself.
RESAMPLES = 100


# ---- call


@question(
    "FlagPlan",
    asks="Which groups does this model treat differently, by how much, and is that more than chance?",
    topic="{}",
    from_counts=True,
)
def flag(
    data: object = None,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: Column | None = None,
    prediction: Column | None = None,
    score: Column | None = None,
    positive: Label = None,
    reference: ReferenceLike = "population",
    uncertainty: Uncertainty = "joint",
    scale: FlagScale = "difference",
    sigma: Sigma = "population",
    null: float | tuple[float, float] | None = None,
    alternative: Against = "two-sided",
    tolerance: Tolerance = None,
    interval: Interval = "pointwise",
    alpha: Alpha = 0.05,
    adjust: Adjustment = "bh",
    better: Better = None,
    depth: Whole = 1,
    min_size: Whole = 10,
    method: Method = "el",
    correction: Literal["auto", "bartlett", "adjusted"] | None = "auto",
    resamples: Draws = 1_000,
    rng: Seeded = None,
    given: Given = None,
    **rows: Unpack[RowOptions],
) -> FlagResult:
    """Which groups does this model treat differently, by how much, and is that more than chance?

    The disparity of a group is the mean of the metric inside it less the reference, or divided by it (see ``scale``).
    Null hypothesis, for each group: the disparity equals ``null`` (or is at most, at least, or between; see
    ``alternative``). T is an empirical likelihood ratio, chi-square with one degree of freedom at the true disparity,
    whatever the metric's distribution.

    Parameters
    ----------
    data : frame, mapping or path
        Any table: pandas, polars, pyarrow, a DuckDB relation, PySpark, a mapping of arrays, a path.
    metric : str, Metric or sequence of these
        A name (``"ppv"``, ``"selection_rate"``, ``"mse"``, ...) or an `isonomy.Metric`, a mean or (in `flag`) a
        quantile; several are tested together, in one result with a column ``metric``. ``"equalized_odds"`` is
        ``["tpr", "fpr"]``.
    groups : str, cut, where or sequence of these
        Columns, cuts and conditions that make groups.
    outcome, prediction, score : str, optional
        The columns with these roles, as the metric needs them.
    positive : str, int, float or bool, optional
        The label of the outcome and the prediction that counts as 1, any other as 0: for text, and for one class of
        many. Without it both hold 0 and 1.
    reference : str, float, mapping, Group or Estimate, default "population"
        ``"population"``, ``"rest"`` (all rows outside the group), ``"highest"`` or ``"lowest"`` (the best-off of the
        groups that the same columns make, whichever it is: that it is unknown counts), a number, a group such as
        ``{"race": "Caucasian"}`` (for a named condition ``{"young men": True}``, or ``False``), or an `Estimate` with
        a column of influence values.
    uncertainty : {"joint", "plugin", "fixed"}, default "joint"
        Whether the reference's error counts (``"joint"``) or not (``"plugin"``). A number has no error:
        ``"fixed"``, to which the default comes down then.
    scale : {"difference", "ratio", "odds_ratio", "standardised"}, default "difference"
        How a group is set beside the reference: its mean less the reference, over it (for metrics that are never
        negative), or its odds over the reference's (for 0/1 metrics). T is the same, so p-values of "no difference"
        are; intervals, ``null`` and ``tolerance`` are in the scale's own unit. ``"standardised"`` is the difference in
        standard deviations, for metrics that are not 0/1; the error of the standard deviation counts.
    sigma : {"population", "pooled", "reference"}, default "population"
        Whose standard deviation is the unit of ``scale="standardised"``: that of all rows, that of the group and its
        reference about their own means (against a group, or the rest), or that of a reference group.
    null : float or (float, float), optional
        The disparity tested, or the ends of an interval of them; without it no difference, which is 0, or a ratio of 1.
    alternative : {"two-sided", "greater", "less", "outside", "outside-published"}, default "two-sided"
        ``"two-sided"`` tests disparity = null; ``"greater"`` flags groups above it, ``"less"`` below it;
        ``"outside"`` takes ``null=(low, high)`` and flags groups outside; ``"outside-published"`` does so with the
        paper's p-value.
    tolerance : float, optional
        The largest disparity that does not matter. The null becomes abs(disparity) <= tolerance, and a group whose
        interval lies inside the tolerance is shown to be within it. A ratio's tolerance is a ratio: 0.8 tolerates 0.8
        to 1.25.
    interval : {"pointwise", "simultaneous", "one-sided"}, default "pointwise"
        Intervals of one group at a time, of all tested groups together (Sidak's level), or a bound facing the
        alternative (without a tolerance, within which such a bound could show nothing).
    alpha : float, default 0.05
        The error rate of tests and intervals.
    adjust : {"bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t"}, default "bh"
        How p-values are adjusted for the number of groups, over all metrics; ``"bh-tree"`` is Benjamini-Hochberg level
        by level down the tree of intersections, ``"bh-siblings"`` among the children of each node, as the paper's
        authors do (groups that differ in the last of their columns alone, in the order of ``groups``). ``"max-t"``
        holds the chance of any false flag, as Holm's does, with the known covariance of all disparities (Romano and
        Wolf), from normal draws.
    better : {"higher", "lower"}, optional
        Which values of the metric are better for the people concerned: it says which flagged groups are *favoured* and
        which *disfavoured*, beside their reference or the disparity tested, if that is another than none. Without it
        lower ones of errors, higher ones of anything else.
    depth : int, default 1
        How many of the groups' columns, cuts and conditions are intersected.
    min_size : int, default 10
        Groups with fewer rows inside the metric's condition are listed, not tested.
    method : {"el", "eel"}, default "el"
        Empirical or Euclidean likelihood.
    correction : {"auto", "bartlett", "adjusted"}, optional
        For small groups. ``"auto"``, the default: where a group of a 0/1 metric or its reference has fewer than 20
        cases, or rows that are none, p-value and interval are by the score statistic with its skewness counted.
        ``"bartlett"``: T over its mean (with an estimated reference from resamples). ``"adjusted"``: one row more.
        None: the likelihood ratio throughout, as in the paper.
    resamples : int, default 1000
        Resamples behind a correction, at least 100.
    rng : int or Generator, optional
        The seed of the resamples.
    given : str, cut, where or sequence of these, optional
        Legitimate factors: each group is compared with people of the same stratum, a combination of their levels.
        See the notes on comparisons within strata.
    **rows
        count, weight, cluster, missing, missing_group: how rows are read; see `isonomy.RowOptions`.

    Returns
    -------
    FlagResult
        ``to_frame()`` has one row per group: group, size, n, estimate, reference, disparity, ci_low, ci_high,
        statistic, pvalue, adjusted_pvalue, verdict, direction, status, detectable (the smallest disparity that these
        rows would have shown four times in five) and, with a tolerance, rows_needed (rows with which a group that does
        not differ would as often be shown within it). ``widest()`` is the largest gap between groups.
        With ``given``, ``estimate`` and ``reference`` are adjusted for the factors and give ``disparity``;
        ``raw_estimate`` and ``raw_reference`` are not and give ``unconditional``. Further columns say how much of that
        the factors account for.

    Notes
    -----
    Assumes independent rows (or clusters, where they are named) and groups large enough for the limit. With weights or
    clusters ``statistic`` is the chi-square that is as far out as T over its design effect is under F(1, nu), and
    `to_frame` has the columns clusters, effective_clusters and design_effect.

    The reference is estimated from the same rows, and by default its error is part of the test. The paper's Theorem
    2 leaves it out; ``uncertainty="plugin"`` does the same and is wrong by as much as that error is large. The
    statistic is that of the paper's sections 3 and 4, its Algorithms G.2 to G.5; the joint reference and the
    interval null's p-value are corrections of it, described on the method's page.

    Within strata (``given``) the disparity is Mantel and Haenszel's common difference, ratio or odds ratio with the
    variances of Sato, of Greenland and Robins, and of Robins, Breslow and Greenland; the p-value of equality is
    Cochran, Mantel and Haenszel's, without a correction for continuity, and any other p-value and the intervals count
    standard errors. ``estimate`` and ``reference`` average the means of the group and of its reference over the
    strata, both with Mantel and Haenszel's weights n1 n0 / (n1 + n0), so that their difference (ratio) is the common
    one. No such averages give an odds ratio; on that scale ``estimate`` is the rate with the common odds ratio to
    ``reference``. Against the population or the rest, a group is compared with the rest of its stratum, and the
    unconditional disparity is that from the rest too. Strata in which one side is empty carry no information; they are
    counted. Whether a factor is legitimate is not a question of statistics.

    When it misleads: rows that belong together in ways no ``cluster`` says; groups chosen after looking at the data;
    groups of a few dozen rows with a skewed metric, where T is too large (see ``correction``).

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
    call = open_call("flag", locals())
    plan = FlagPlan(call.source, **call.options)
    rows_read = read(plan)
    solvers = [plan.solver(sums, call.rng) for sums in rows_read]
    columns, tests = estimate(solvers, plan)
    if plan.given is not None:
        columns |= account_for_strata(rows_read[0], plan.base_scale, plan.alpha)
    decided = decide(columns, tests, plan)
    tested = plan.hypothesis
    assert tested is not None
    random = plan.adjust == "max-t" or (plan.small_sample == "bartlett" and plan.target.joint)
    return FlagResult(
        **columns | decided,
        **laid_out(plan, solvers),
        null=plan.null_sentence(words.null, tested.low, tested.high, tested.alternative),
        notes=notes(columns, tests, decided, plan, rows_read),
        provenance=call.provenance(**counted_rows(rows_read), random=random),
        null_low=tested.low,
        null_high=tested.high,
        alternative=tested.alternative,
        adjust=plan.adjust,
        corrected=plan.small_sample is not None,
    )


# ---- plan


@dataclass(frozen=True, eq=False, kw_only=True)
class FlagPlan(Plan):
    """The call, and what follows from it and the schema. Without an ``alternative`` all groups are tested at once.

    `certify` asks so: one joint null, simultaneous intervals, and Holm's adjustment over the tolerance.
    """

    metric: MetricLike
    groups: Groups
    outcome: str | None
    prediction: str | None
    score: str | None
    positive: Scalar | None
    reference: ReferenceLike
    uncertainty: Uncertainty
    scale: FlagScale
    sigma: Sigma
    null: Disparities | None
    tolerance: float | None
    alpha: float
    depth: int
    min_size: int
    method: Method
    correction: Correction | None
    resamples: int
    given: Given
    alternative: Against | None = None
    interval: Interval = "simultaneous"
    adjust: Adjustment = "holm"
    better: Better = None

    def __post_init__(self) -> None:
        for refused, message in self._refusals():
            if refused:
                raise UsageError(message)
        _ = self.metric_requests

    def _refusals(self) -> Iterator[tuple[bool, str]]:
        """What cannot be asked together, and what is said then; in this order."""
        yield (
            self.sigma != "population" and not self.standardised,
            f"sigma: {self.sigma!r} needs scale='standardised', saw scale={self.scale!r}.",
        )
        one_sided, side = self.interval == "one-sided", self.side  # refuses an alternative that the reference excludes
        _ = self.hypothesis
        yield (
            one_sided and side not in ("greater", "less"),
            "interval: 'one-sided' needs alternative='greater' (a lower bound) or 'less' (an upper one).",
        )
        yield (
            one_sided and self.tolerance is not None,
            "interval: 'one-sided' bounds a disparity on the side of the alternative alone, and no group could be "
            "shown within the tolerance; leave it out.",
        )
        yield (
            self.adjust == "max-t" and self.reference in ("highest", "lowest"),
            f"adjust: 'max-t' is not available with reference={self.reference!r}; use 'holm'.",
        )
        for one in self.measures:
            yield from self._refusals_of(one)
        yield (
            self.small_sample is not None and self.source.designed,
            "correction: not available with weight or cluster, whose own law is for small samples too.",
        )
        if len(self.measures) > 1:
            yield from self._refusals_of_several()

    def _refusals_of(self, measure: Measure) -> Iterator[tuple[bool, str]]:
        """What cannot be asked of one metric."""
        name, link, tolerance = measure.name, self.link, self.tolerance
        yield (
            self.scale == "odds_ratio" and not measure.binary,
            f"scale: 'odds_ratio' needs a 0/1 metric; {name!r} is not one. Use 'ratio' or 'difference'.",
        )
        if not link.ratio:
            refuse_percent(measure.binary, tolerance)
        yield (
            link.ratio and tolerance is not None and not 0 < tolerance < 1,
            f"tolerance: {tolerance!r} is not allowed for scale={self.scale!r}; give a ratio between 0 and 1: 0.8 "
            "tolerates ratios from 0.8 to 1.25.",
        )
        target = reference_of(self.reference, self.uncertainty, binary=measure.binary)
        yield (
            target.to.best and self.jointly and not self.no_difference,
            f"null: leave it out with reference={self.reference!r}; jointly only equal groups can be tested.",
        )
        known = target.joint or target.to is To.NUMBER
        if self.standardised:
            kind = "a 0/1 metric" if measure.binary else "no mean over rows"
            yield (
                measure.binary or bool(measure.functional),
                f"scale: 'standardised' needs a metric with a value for each row, such as a score; {name!r} is {kind}. "
                "Use scale='difference'.",
            )
            yield (
                self.given is not None or self.small_sample not in (None, "auto"),
                f"{'correction' if self.given is None else 'given'}: not available with scale='standardised'; leave it "
                "out.",
            )
            yield (
                target.estimate is not None or not known,
                "scale: 'standardised' counts the error of its reference; leave uncertainty='plugin' and an Estimate "
                "out.",
            )
            yield (
                self.sigma == "reference" and target.group is None,
                "sigma: 'reference' needs a reference group, such as reference={'race': 'White'}.",
            )
            yield (
                self.sigma == "pooled" and target.group is None and target.to is not To.REST,
                "sigma: 'pooled' needs two groups; give reference='rest', or a group such as {'race': 'White'}.",
            )
        if measure.functional:
            yield (
                self.given is not None,
                f"given: {name!r} is no mean over rows, and cannot be compared within strata; leave it out.",
            )
            yield (
                target.estimate is not None,
                f"reference: an Estimate cannot be the reference of {name!r}, which is no mean over rows.",
            )
            yield (
                self.small_sample not in (None, "auto"),
                f"correction: not available for {name!r}, which is no mean over rows.",
            )
            yield (
                measure.functional in ("r2", "quantile") and self.base_scale != "difference",
                f"scale: {self.base_scale!r} needs values that are never negative; {name!r} can be. Use 'difference'.",
            )
        if self.jointly:
            what = "with given" if self.given is not None else f"of {name!r}" if measure.functional else ""
            where = what or "with scale='standardised'"
            yield (
                (bool(what) or self.standardised) and not self.no_difference,
                f"null: leave it out {where}; jointly only no difference can be tested then.",
            )
            if what:
                yield self._no_likelihood(what, known)
        if self.given is not None:
            yield (
                target.to.is_value or target.to.best,
                "given: a comparison within strata needs people to compare with; give reference='rest', or a group "
                "such as {'race': 'White'}.",
            )
            yield not target.joint, "given: uncertainty='plugin' is not available within strata; leave it out."
            option = "method='eel'" if self.method == "eel" else f"correction={self.small_sample!r}"
            yield (
                self.method == "eel" or self.small_sample is not None,
                f"given: {option} is not available within strata; leave it out.",
            )
        if self.small_sample is None:
            return
        yield self.method == "eel", "correction: it belongs to method='el'; the Euclidean likelihood has none."
        yield (
            self.resamples < RESAMPLES and self.small_sample != "adjusted",
            f"resamples: {self.resamples} are too few for the mean of T; give at least {RESAMPLES}, better 1,000.",
        )
        yield (
            target.joint and target.to is To.ESTIMATE and not self.jointly,
            "correction: not available for a reference that brings influence values.",
        )
        yield (
            target.joint and self.small_sample == "adjusted",
            "correction: 'adjusted' needs a known or plugged-in reference; with an estimated one use 'bartlett'.",
        )

    def _refusals_of_several(self) -> Iterator[tuple[bool, str]]:
        """Several metrics: not against one number, nor jointly where their rows cannot be laid side by side."""
        yield (
            self.target.to.is_value,
            "reference: one number cannot be the reference of several metrics; ask for them one by one.",
        )
        yield self.given is not None, "metric: with given one metric is compared at a time; ask for them one by one."
        if not self.jointly:
            return
        if not self.likely:
            known = self.target.joint or self.target.to is To.NUMBER
            yield self._no_likelihood("of several metrics that are not all 0/1", known)
        yield (
            self.small_sample not in (None, "auto") or not self.no_difference,
            "metric: several can be certified jointly for no difference, with correction='auto' or None; ask for them "
            "one by one.",
        )

    def _no_likelihood(self, what: str, known: bool) -> tuple[bool, str]:
        """Options of the likelihood are refused where the joint test is by covariance."""
        option = "method='eel'" if self.method == "eel" else "uncertainty='plugin'"
        return (
            self.method == "eel" or not known,
            f"{option.split('=')[0]}: {option} is not available in a joint test {what}; leave it out.",
        )

    # What is asked of each group.

    @property
    def jointly(self) -> bool:
        """Whether all groups are tested at once."""
        return self.alternative is None

    @property
    def standardised(self) -> bool:
        """Whether disparities are in standard deviations."""
        return self.scale == "standardised"

    @property
    def base_scale(self) -> Scale:
        """The scale, whatever the unit."""
        return "difference" if self.scale == "standardised" else self.scale

    @property
    def link(self) -> Link:
        """The scale as the likelihoods know it."""
        return LINKS[self.base_scale]

    @property
    def reach(self) -> float | None:
        """The tolerance on the scale of the link, where it has one size on both sides of no difference."""
        return self.link.reach(self.tolerance)

    @cached_property
    def side(self) -> Against | None:
        """The alternative: against the highest a group can only be below, against the lowest only above."""
        return facing(self.reference, self.alternative)

    @property
    def tested_null(self) -> Disparities:
        """The disparities tested."""
        return self.link.equal if self.null is None else self.null

    @property
    def no_difference(self) -> bool:
        """Whether equality is tested."""
        return isinstance(self.tested_null, Real) and self.tested_null == self.link.equal

    @property
    def small_sample(self) -> Correction | None:
        """The correction of T for small groups; that of rates is by their score, and needs none."""
        alone = not self.jointly or self.method == "eel" or self.source.designed or self.given is not None
        return None if self.correction == "auto" and alone else self.correction

    @cached_property
    def hypothesis(self) -> Hypothesis | None:
        """The null of each group alone; None where only the joint one is tested."""
        return hypothesis_of(self.tested_null, self.side, self.tolerance, self.link)

    # What is read.

    @cached_property
    def grouping(self) -> Grouping:
        """The groups, and the strata they are compared within."""
        grouping = self.source.grouping(self.groups, self.depth)
        if self.given is None:
            return grouping
        return grouping.within(self.source.grouping(self.given, argument="given"))

    @cached_property
    def measures(self) -> tuple[Measure, ...]:
        """What reads each metric."""
        roles = {"outcome": self.outcome, "prediction": self.prediction, "score": self.score}
        grouping = self.grouping
        return tuple(
            measure(self.source, metric, grouping=grouping, positive=self.positive, **roles)
            for metric in listed(self.metric)
        )

    @property
    def all_shares(self) -> bool:
        """Whether every metric is 0/1."""
        return all(measure.binary for measure in self.measures)

    @cached_property
    def better_signs(self) -> Mapping[str, float]:
        """Of each metric, 1 if higher values are better for the people concerned, and -1 if lower ones are."""
        default = ["lower" if isinstance(one, str) and one in ERRORS else "higher" for one in listed(self.metric)]
        signs = [1.0 if (self.better or word) == "higher" else -1.0 for word in default]
        return {measure.name: sign for measure, sign in zip(self.measures, signs, strict=True)}

    @cached_property
    def target(self) -> Reference:
        """What groups are compared with; within strata people of the same stratum, the group's own not among them."""
        target = reference_of(self.reference, self.uncertainty, binary=self.measures[0].binary)
        labels = self.source.labels
        if self.given is not None and target.to is To.POPULATION:
            target = replace(target, to=To.REST)
        if labels.population:
            target = replace(target, everybody=labels.population)
        return target if target.group is None else replace(target, group=labels.named([target.group])[0])

    @cached_property
    def metric_requests(self) -> tuple[Request, ...]:
        """What is asked of the rows for each metric, and for a reference that is a group or an estimate."""
        requests = [measure.request for measure in self.measures]
        if self.target.group is not None:
            condition = checks.flag(belongs(self.target.group, self.grouping, self.source.schema))
            requests = [replace(one, keys={**one.keys, "reference": condition}) for one in requests]
        if self.target.estimate is not None:
            influence = self.target.estimate.influence
            self.source.require(reference=influence)
            requests = [replace(one, numeric={**one.numeric, "influence": influence}) for one in requests]
        return tuple(requests)

    def by_row(self, measure: Measure) -> bool:
        """Whether values are needed row by row; counts are enough for a 0/1 metric with a plain reference."""
        return measure.by_row or self.target.to is To.ESTIMATE

    @cached_property
    def shared(self) -> Request | None:
        """One request for all metrics that need counts, if there is one."""
        pairs = zip(self.measures, self.metric_requests, strict=True)
        counted = [request for measure, request in pairs if not self.by_row(measure)]
        return together(counted) if len(counted) > 1 else None

    @cached_property
    def side_by_side(self) -> bool:
        """Whether several metrics are tested jointly that need the same rows, one by one: counts are not enough."""
        if not self.jointly or len(self.measures) < 2:
            return False
        return any(map(self.by_row, self.measures)) or self.shared is None

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped passes over the rows, where counts are enough."""
        if self.side_by_side:
            return ()
        if self.shared is not None:
            return (self.shared,)
        pairs = zip(self.measures, self.metric_requests, strict=True)
        return tuple(request for measure, request in pairs if not self.by_row(measure))

    @property
    def overlapping(self) -> bool:
        """Whether a row can be in several groups."""
        return len(list(self.grouping.subsets)) > 1

    @property
    def dependent(self) -> bool:
        """Whether groups depend on one another, through common rows or a reference that is estimated."""
        return self.overlapping or self.target.to is not To.NUMBER

    # How it is tested.

    def by_covariance(self, measure: Measure) -> bool:
        """Whether one metric's groups are tested jointly by the covariance of their differences.

        Where there is no joint likelihood; and for the values of one metric of several, whose likelihood has no
        correction for skewed groups of few rows then: the law of the other test (Welch's) is for these too.
        """
        several = len(self.measures) > 1
        return bool(self.given is not None or measure.functional or (several and not measure.binary))

    @property
    def likely(self) -> bool:
        """Whether the disparities of all groups are tested by their joint likelihood."""
        return not any(map(self.by_covariance, self.measures))

    def solver(self, sums: MetricRows, rng: np.random.Generator) -> Solver:
        """The likelihoods of one metric's groups; a joint test corrects its own statistic, not the groups'."""
        _refuse_values(sums, self)
        solver = Solver(
            sums,
            self.target,
            self.method,
            None if self.jointly else self.small_sample,
            self.resamples,
            rng,
            self.link,
            self.base_scale,
            self.sigma if self.standardised else None,
            scored=self.correction == "auto" and self.method == "el",
        )
        return solver.beside(self.min_size)

    # Its words.

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """What the strata are made of, in the readers' words."""
        return tuple(self.source.labels.columns.get(one.name, one.name) for one in self.grouping.strata)

    @cached_property
    def bands(self) -> Mapping[str, tuple[str, ...]]:
        """The bands of those that are cut into bands."""
        labels = self.source.labels
        return {
            name: tuple(labels.values.get(one.name, {}).get(label, in_words(label)) for label in one.labels)
            for name, one in zip(self.factors, self.grouping.strata, strict=True)
            if one.labels
        }

    @property
    def reference_name(self) -> str:
        """What groups are compared with, in words."""
        target = self.target
        value = target.number if target.estimate is None else target.estimate.value
        return words.reference(target.to, str(target.group), value, target.everybody)

    def null_sentence(self, sentence: Callable[..., str], *numbers: Any, **more: Any) -> str:
        """The null hypothesis: ``sentence`` takes what a disparity is in words, and what two equal numbers are."""
        names, value = words.said(measure.name for measure in self.measures), self.target.to.is_value
        sigma = self.sigma if self.standardised else None
        measured = words.comparison(names, self.reference_name, self.base_scale, value=value, sigma=sigma)
        other = self.reference_name if value else f"that of {self.reference_name}"
        equal = f"{names} {{}} {other}" if self.base_scale == "difference" and sigma is None else ""
        text = sentence(*numbers, measured, equal, share=self.all_shares, **more)
        return text if self.given is None else words.null_within(text, words.alike(self.factors, self.bands))


# ---- read


def read(plan: FlagPlan) -> tuple[MetricRows, ...]:
    """One pass over the rows, for all metrics that need counts; each metric's lines."""
    if plan.side_by_side:
        rows = plan.source.rows(beside(plan.metric_requests))
        return tuple(_lines_of(own_columns(rows, i), one, plan) for i, one in enumerate(plan.measures))
    pairs = zip(plan.measures, plan.metric_requests, strict=True)
    return tuple(_lines_of(_answer(plan, measure, request), measure, plan) for measure, request in pairs)


def _answer(plan: FlagPlan, measure: Measure, request: Request) -> Sample:
    if not plan.by_row(measure):
        # Metrics that are tested together are those of the same rows.
        return plan.source.cells(plan.shared if plan.jointly and plan.shared is not None else request, plan.shared)
    in_full = plan.small_sample == "bartlett" or plan.target.estimate is not None
    return plan.source.rows(request) if in_full else rows_or_bins(plan.source, measure, request)


def _lines_of(answer: Sample, measure: Measure, plan: FlagPlan) -> MetricRows:
    """The lines of one metric, and the groups they belong to."""
    weight, keys = answer.weight, answer.columns
    measure.refuse_absent(answer)
    inside, value = measure.inside(answer), measure.value(answer)
    mass = np.ones(value.size) if weight is None else weight
    rows = mass if answer.design is None else answer.design.rows
    chosen = keys["reference"] == 1 if plan.target.to is To.GROUP else None
    influence, kept = None, slice(None) if inside.all() else inside
    if plan.target.estimate is not None:
        influence, kept = np.asarray(keys["influence"], dtype=float), slice(None)
        value = np.where(inside, value, 0.0)
        plan.target.estimate.refuse_uncentred(influence, mass)
    partitions = tuple(replace(partition, codes=partition.codes[kept]) for partition in answer.partitions)
    groups = len(partitions) - (plan.given is not None)
    sums = MetricRows(
        measure=measure,
        lines=Lines(measure.binary, value[kept], None if weight is None else weight[kept], influence),
        partitions=partitions[:groups],
        strata=None if plan.given is None else partitions[-1],
        sizes=tuple(partition.sum(rows) for partition in answer.partitions[:groups]),
        inside=None if influence is None else inside,
        in_reference=None if chosen is None else chosen[kept],
        rows=answer.rows,
        used=round(float(rows[inside].sum())),
        dropped=answer.dropped,
        design=None if answer.design is None else answer.design.restricted(kept),
        whole=answer.design,
        lines_kept=np.arange(value.size)[kept],
        roles={role: column[kept] for role, column in measure.roles(answer).items()} if measure.functional else {},
    )
    _refuse_missing(sums, plan)
    return sums


def _refuse_missing(sums: MetricRows, plan: FlagPlan) -> None:
    """Somebody must count for the metric, and in the reference group."""
    if sums.design is not None and sums.mass.size and not sums.mass.any():
        raise BadWeight(
            f"weight: every row that {sums.measure.name!r} is about weighs 0; give rows that count a weight."
        )
    if sums.in_reference is None or bool(sums.mass[sums.in_reference].any()):
        return
    label = str(plan.target.group)
    known = [str(group) for partition in sums.partitions for group in partition.groups[:1000]]
    if label in known:
        weighing = "" if sums.design is None else " and weighs more than 0"
        raise UsageError(f"reference: no row of {label} lies inside the metric's condition{weighing}.")
    raise UsageError(f"reference: no row inside the metric's condition has {label}.{near(label, known)}")


def _refuse_values(sums: MetricRows, plan: FlagPlan) -> None:
    """A ratio of means needs values that are never negative, and a standard deviation of 0 is no unit."""
    values, name = sums.lines.value if sums.inside is None else sums.lines.value[sums.inside], sums.measure.name
    if plan.link.ratio and not sums.measure.binary and values.size and (least := float(values.min())) < 0:
        raise UsageError(
            f"scale: {plan.scale!r} needs values that are never negative; {name!r} goes down to {least:g}. Use "
            "scale='difference'."
        )
    chosen = sums.in_reference if plan.standardised and plan.sigma == "reference" else None
    if chosen is not None and not np.ptp(sums.lines.value[chosen]):
        raise UsageError(
            f"sigma: {name!r} is the same in every row of {plan.target.group}, whose standard deviation is 0. Use "
            "sigma='population'."
        )


# ---- estimate


def estimate(solvers: Sequence[Solver], plan: FlagPlan) -> tuple[dict[str, Any], dict[str, Any]]:
    """Set every group beside its reference, and test it; all metrics at once. T and intervals of others are NaN.

    The columns of the evidence, and what only decisions need: which groups were ``tested``, which tests are of the
    ``same`` hypothesis, which groups have too few rows for so ``skewed`` a metric, those whose Bartlett factor could
    not be had, the p-values with the reference's error treated ``otherwise``, and p-values ``drawn`` (draws x groups)
    under the nulls with the dependence they have, where the adjustment needs them.
    """
    totals = combined_spread(solvers)
    if totals is not None:
        mark_few_clusters(solvers, totals)
    plain = parts = likelihoods(solvers)
    sides, design, law = [side for solver in solvers for side in solver.sides], None, None
    if totals is not None:
        law = law_of_design(solvers, totals)
        parts, design = parts if plan.target.to.best else parts.under(law), totals.effect(law)
    tested, disparity, error = parts.tested, parts.disparity, parts.standard_error
    groups = tuple(group for side in sides for group in side.partition.groups)
    same = same_hypotheses(solvers, plan.hypothesis)
    number_of_tests = np.unique(same[tested]).size
    statistic, pvalue = np.full(tested.shape, np.nan), np.full(tested.shape, np.nan)
    otherwise: FloatArray | None = None
    drawn: tuple[FloatArray, ...] = ()
    if plan.hypothesis is not None:
        statistic, pvalue = (np.where(tested, values, np.nan) for values in plan.hypothesis.test(parts))
        pvalue = np.where(np.isnan(statistic), np.nan, pvalue)
        other = None if plan.given is not None or plan.jointly else treated_otherwise(solvers, plain)
        otherwise = None if other is None else np.where(tested, plan.hypothesis.test(other)[1], np.nan)
        drawn = _drawn(solvers, plan, disparity, error, tested)
    side = "two-sided" if plan.hypothesis is None else plan.hypothesis.side
    # Each interval is of a disparity of its own: one hypothesis about two groups has two intervals.
    low, high = intervals(parts, plan.interval, side, plan.alpha, int(tested.sum()))
    inner = [(where, part.inner if isinstance(part, Rescaled) else part) for where, part in plain.parts]
    missing = [where[np.isnan(part.factor)] for where, part in inner if isinstance(part, Corrected)]
    skewed = np.zeros(tested.shape, dtype=bool)
    if design is None:  # with one the law is that of its clusters, and too few of them are not tested
        for where, part in plain.parts:
            skewed[where] = corrections.lopsided(part, plan.alpha, 1 if plan.adjust == "none" else number_of_tests)
    effect = np.ones(disparity.shape) if law is None else law.effect
    places = list(zip(solvers, places_of(solvers), strict=True))
    reference = np.concatenate([side.reference for side in sides])
    binary = np.concatenate([np.full(at.stop - at.start, one.sums.measure.binary) for one, at in places])
    deviations = [one.deviation(side) for one in solvers for side in one.sides if one.sigma is not None]
    columns: dict[str, Any] = {
        "metrics": tuple(one.sums.measure.name for one, at in places for _ in range(at.start, at.stop)),
        "groups": groups,
        "size": np.concatenate([side.size for side in sides]),
        "n": np.concatenate([side.rows for side in sides]),
        "estimate": np.concatenate([side.estimate for side in sides]),
        "reference_value": reference,
        "disparity": disparity,
        "standard_error": error,
        "ci_low": low,
        "ci_high": high,
        "statistic": statistic,
        "pvalue": pvalue,
        "status": np.concatenate([side.status for side in sides]),
        "design": design,
        "sigma_value": np.concatenate(deviations) if deviations else None,
        "planning_error": np.concatenate(
            [planning_error(one, disparity[at], error[at], tested[at], effect[at]) for one, at in places]
        ),
        "planning_rate": None if plan.given is not None else np.where(binary, reference, np.nan),
        "planning_df": None if law is None else law.df,
    }
    tests = {
        "tested": tested,
        "binary": binary,
        "same": same,
        "skewed": skewed,
        "uncorrected": tuple(str(groups[i]) for where in missing for i in where),
        "otherwise": otherwise,
        "drawn": drawn,
    }
    return columns, tests


def _drawn(
    solvers: Sequence[Solver], plan: FlagPlan, disparity: FloatArray, error: FloatArray, tested: BoolArray
) -> tuple[FloatArray, ...]:
    """P-values of all groups together under their nulls, if the adjustment is about their dependence."""
    assert plan.hypothesis is not None
    if plan.target.to.best:
        return ()
    if plan.adjust == "max-t":
        return max_t_draws(solvers, plan.hypothesis, disparity, error, tested)
    if plan.adjust != "bh" or plan.standardised or not plan.dependent:
        return ()
    one_pass = plan.shared is not None and not any(map(plan.by_row, plan.measures))
    return rate_draws(solvers, plan.hypothesis, disparity, error, tested, alpha=plan.alpha, one_pass=one_pass)


def widest_gap(solvers: Sequence[Solver], plan: FlagPlan) -> Gaps | Widest | None:
    """The widest gap, later where counts are enough for it; where a result would have to keep rows until then, now."""
    if plan.given is not None and not plan.jointly:
        return None
    later = Gaps(solvers, plan.alpha, plan.min_size)
    by_row = any(plan.by_row(one.sums.measure) or one.sums.design is not None for one in solvers)
    return later.widest if by_row else later


# ---- decide


# A skewed group's p-value that is this small, relative to alpha, decides nevertheless. By simulation of lognormal
# groups of 20 rows and more at the edge of a tolerance, true hypotheses have one in at most 0.6 % of tables. Of several
# groups one must be smaller still: of 20 lognormal rows the chance of a p-value falls only with its eighth root.
OVERWHELMING, ROOT = 1e-3, 8.0
POINT = 0.01  # a percentage point, or about one percent of a ratio


def decide(columns: Mapping[str, Any], tests: Mapping[str, Any], plan: FlagPlan) -> dict[str, Any]:
    """Each group's verdict, its p-value adjusted for the other groups'."""
    assert plan.hypothesis is not None
    adjusted = _adjusted(columns["pvalue"], columns, tests, plan)
    low, high = (plan.link.delta(columns[end]) for end in ("ci_low", "ci_high"))
    withheld = too_skewed(columns, tests, plan)
    shown = conclude(
        np.where(withheld, np.nan, adjusted),
        alpha=plan.alpha,
        within=inside(low, high, plan.reach, plan.hypothesis.side) & ~withheld,
        concerned=columns["status"] != Status.REFERENCE,
    )
    status = columns["status"].copy()
    status[np.isinf(columns["statistic"])] = Status.OUTSIDE_RANGE
    mark_intervals(status, columns, tests["tested"], one_sided=plan.interval == "one-sided")
    status[withheld & (status == Status.OK)] = Status.SKEWED
    status[tests["tested"] & np.isnan(columns["statistic"])] = Status.NOT_CONVERGED
    better = np.array([plan.better_signs[metric] for metric in columns["metrics"]])
    signs = better * plan.hypothesis.side_of(plan.link.delta(columns["disparity"]), plan.link)
    otherwise: tuple[str, ...] = ()
    if tests["otherwise"] is not None and plan.given is None:
        other = rejected(_adjusted(tests["otherwise"], columns, tests, plan), plan.alpha)
        otherwise = names_of(columns, other != rejected(adjusted, plan.alpha))
    return {
        "adjusted_pvalue": adjusted,
        "verdict": shown.verdict,
        "verdicts": shown.verdicts,
        "direction": tuple(
            "" if verdict is not Verdict.VIOLATION else words.FAVOURED if sign > 0 else words.DISFAVOURED
            for sign, verdict in zip(signs, shown.verdicts, strict=True)
        ),
        "status": status,
        "otherwise": otherwise,
    }


def _adjusted(pvalue: FloatArray, columns: Mapping[str, Any], tests: Mapping[str, Any], plan: FlagPlan) -> FloatArray:
    """P-values adjusted over all tested groups, or level by level down the tree of intersections.

    Max-t is within each metric, and Bonferroni's over them.
    """
    if plan.adjust == "max-t":
        number = len(tests["drawn"])
        parts, same = np.split(pvalue, number), np.split(tests["same"], number)
        each = [number * max_t(p, drawn, s) for p, drawn, s in zip(parts, tests["drawn"], same, strict=True)]
        return np.minimum(np.concatenate(each), 1.0)
    named = list(zip(columns["groups"], columns["metrics"], strict=True))  # metrics do not meet
    if plan.adjust == "bh-siblings":
        return siblings(pvalue, [(("metric", name), *group.items) for group, name in named])
    if plan.adjust == "bh-tree":
        return intersections(pvalue, [(*group.items, ("metric", name)) for group, name in named], plan.alpha).adjusted
    return adjust_pvalues(pvalue, plan.adjust, tests["same"])


def too_skewed(columns: Mapping[str, Any], tests: Mapping[str, Any], plan: FlagPlan) -> BoolArray:
    """Groups on which no verdict is given: too few rows for so skewed a metric, and no overwhelming evidence."""
    number = 1 if plan.adjust == "none" else max(np.unique(tests["same"][tests["tested"]]).size, 1)
    decided = columns["pvalue"] <= OVERWHELMING * plan.alpha / number**ROOT
    return np.asarray(tests["skewed"] & ~decided, dtype=bool)


def mark_intervals(
    status: ObjectArray, columns: Mapping[str, Any], tested: BoolArray, *, one_sided: bool = False
) -> None:
    """Mark the tested groups whose interval has no end where it should, or was not found."""
    low, high = columns["ci_low"], columns["ci_high"]
    fine = tested & (status == Status.OK)
    if not one_sided:
        # A constant 0/1 group too: that it is constant has its own note.
        endless = np.isinf(low) | np.isinf(high)  # a ratio's lower end is never below 0
        status[(fine | (tested & (status == Status.CONSTANT))) & endless] = Status.UNBOUNDED
    status[fine & (np.isnan(low) | np.isnan(high))] = Status.NOT_CONVERGED


def large_differences(columns: Mapping[str, Any], plan: FlagPlan) -> BoolArray:
    """Differences of shares that cannot be ones that nobody would call a difference: at least a point."""
    low, high = (plan.link.delta(columns[end]) for end in ("ci_low", "ci_high"))
    large: BoolArray = (np.sign(low) == np.sign(high)) & (np.minimum(np.abs(low), np.abs(high)) >= POINT)
    return large if plan.all_shares else np.zeros_like(large)


def names_of(columns: Mapping[str, Any], which: npt.ArrayLike) -> tuple[str, ...]:
    """What lines are called, by their places or a mask: the group and, of several metrics, the metric."""
    chosen, groups, metrics = np.asarray(which), columns["groups"], columns["metrics"]
    places = (np.flatnonzero(chosen) if chosen.dtype == bool else chosen).tolist()
    several = len(set(metrics)) > 1
    return tuple(f"{groups[i]} ({metrics[i]})" if several else str(groups[i]) for i in places)


def notes(
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    decided: Mapping[str, Any],
    plan: FlagPlan,
    rows: Sequence[MetricRows],
) -> tuple[Note, ...]:
    """What the reader must know."""
    assert plan.hypothesis is not None
    several, adjusted, tested = len(plan.measures) > 1, decided["adjusted_pvalue"], tests["tested"]
    more = [*common_notes(columns, tests, decided["status"], plan, rows), *note_if("uncorrected", tests["uncorrected"])]
    if plan.adjust.startswith("bh") and plan.dependent and int(tested.sum()) > 1:
        more += _dependence(adjusted, tests, plan)
    if plan.adjust == "bh-tree":
        unreached = int((np.isnan(adjusted) & ~np.isnan(columns["pvalue"])).sum())
        more.append(Note("tree_levels", values={"unreached": unreached, "several": several}))
    flagged = np.array([verdict is Verdict.VIOLATION for verdict in decided["verdicts"]], dtype=bool)
    equality = plan.hypothesis.low == plan.hypothesis.high == plan.link.equal
    if equality and (flagged & ~large_differences(columns, plan)).any():
        more.append(Note("large_sample"))
    close = (adjusted > plan.alpha / 1.5) & (adjusted < 1.5 * plan.alpha)
    if plan.small_sample == "bartlett" and plan.target.joint and close.any():
        more.append(Note("resampled", values={"resamples": plan.resamples}))
    return tuple(more)


def _dependence(adjusted: FloatArray, tests: Mapping[str, Any], plan: FlagPlan) -> list[Note]:
    """What the dependence of the tests does to the false flagging rate: measured, and noted only if it matters."""
    if len(tests["drawn"]) != 1:
        return [Note("dependence")]
    drawn = tests["drawn"][0][:, tests["tested"]]
    rate = false_discoveries(drawn, plan.alpha, rejected(adjusted, plan.alpha)[tests["tested"]])
    error = float(np.sqrt(plan.alpha * (1.0 - plan.alpha) / len(drawn)))
    measured = Note("dependence_measured", values={"rate": rate, "alpha": plan.alpha})
    return [measured] if rate > plan.alpha + 3.0 * error else []


def common_notes(
    columns: Mapping[str, Any],
    tests: Mapping[str, Any],
    status: ObjectArray,
    plan: FlagPlan,
    rows: Sequence[MetricRows],
) -> Iterator[Note]:
    """Rows that were left out, strata, groups that are not plainly fine, a reference whose error is left out."""
    dropped = {column: n for part in rows for column, n in part.dropped.items()}
    if any(dropped.values()):
        yield Note("dropped", values=dropped)
    if plan.given is not None:
        yield from _strata_notes(columns, tests["tested"], plan)
    yield from note_if("small_groups", names_of(columns, status == Status.TOO_SMALL), least=plan.min_size)
    constant = columns["status"] == Status.CONSTANT
    yield from note_if("constant_shares", names_of(columns, constant & tests["binary"]))
    yield from note_if("constant_values", names_of(columns, constant & ~tests["binary"]))
    known = columns["status"] != Status.TOO_SMALL
    if plan.measures[0].name == "tpr" and known.any() and (columns["estimate"][known] == 1).all():
        yield Note("always_selected")
    for kind, code in words.CONCERNS.items():
        undefined = kind is Status.UNSUPPORTED and plan.given is None
        yield from note_if("undefined_metric" if undefined else code, names_of(columns, status == kind))
    if not plan.target.joint and plan.target.to is not To.NUMBER:
        yield Note("plugin_reference")


def _strata_notes(columns: Mapping[str, Any], tested: BoolArray, plan: FlagPlan) -> Iterator[Note]:
    """Whether effects differ between strata, and what strata say nothing."""
    found, one_sided = columns["homogeneity_pvalue"], tested & (columns["one_sided"] > 0)
    differ = rejected(adjust_pvalues(np.where(tested, found, np.nan), "holm"), plan.alpha)
    yield from note_if("strata_differ", names_of(columns, differ), scale=plan.base_scale)
    designed = columns["design"] is not None
    yield from note_if("strata_unjudged", names_of(columns, tested & np.isnan(found)), designed=designed)
    most = int(columns["one_sided"][tested].max(initial=0))
    yield from note_if("strata_one_sided", names_of(columns, one_sided), most=most)
    if not columns["effects"].complete and columns["effects"].group.size == SHOWN:
        yield Note("strata_shown", values={"shown": SHOWN})


# ---- evidence


for _part in (To, Widest, Effects):
    storable(_part)

MOST_GROUPS = 1_000  # groups described in words; the table has them all
SHARES = tuple(RATES)  # metrics that are shares of people


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GroupEvidence(Evidence):
    """What both results hold about each group; arrays have one entry per group.

    Within strata (``given``) ``estimate`` and ``reference_value`` are adjusted: averages over the strata with Mantel
    and Haenszel's weights, whose difference (ratio) is the disparity. On the scale of odds ratios the group's is the
    rate with the common odds ratio to its reference's. ``raw_estimate`` and ``raw_reference`` are not adjusted; they
    give ``unconditional``. ``accounted`` is the unconditional disparity less the conditional one (for ratios, the one
    over the other), and ``share`` its share of the unconditional one; ``strata`` is the number of strata with rows on
    both sides, ``one_sided`` that of the others; `by_stratum` has the strata one by one. Without ``given`` all of
    these are None.
    """

    never_shown: ClassVar[tuple[str, ...]] = words.LIMITS

    metrics: tuple[str, ...] = column("Metric", name="metric", withheld=False)
    size: FloatArray = column("Rows in group", count=True)
    n: FloatArray = column("Rows counted", count=True)
    estimate: FloatArray = column()
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
    standard_error: FloatArray = column(listed=False)
    sigma_value: FloatArray | None = column(name="sigma", default=None)
    # For `detectable`: the standard error, on the scale of the link, of a group that does not differ; the rate it then
    # has, of 0/1 metrics; and the degrees of freedom of the error.
    planning_error: FloatArray | None = column(listed=False, default=None)
    planning_rate: FloatArray | None = column(listed=False, default=None)
    planning_df: FloatArray | None = column(listed=False, default=None)
    reference: str
    reference_kind: To
    scale: str
    joint: bool
    overlapping: bool
    alpha: float
    tolerance: float | None
    sigma: Sigma | None = None  # whose standard deviation is the unit of standardised differences
    given: tuple[str, ...] = ()
    bands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    effects: Effects | None = None  # the strata one by one
    _widest_gap: Widest | Gaps | None  # worked out when asked for, where no rows must be kept for it

    # What can be asked of it.

    def widest(self) -> Widest:
        """The largest difference (the smallest ratio) between any two groups that the same columns make.

        Which two groups differ most is not known, and the interval counts that: without any difference it reaches down
        to 0 (up to 1, for a ratio). ``value``, ``ci_low``, ``ci_high``, the pair of ``groups``, the lower one first,
        and the ``metric``: of several, that with the largest gap.
        """
        if (gap := self.widest_gap) is None:
            raise UsageError(
                "widest: there are no two groups to compare, or one of them is withheld, or they were compared within "
                "strata (given), of which no widest gap is worked out."
            )
        return gap

    @property
    def widest_gap(self) -> Widest | None:
        """The same, None where there is none."""
        gap = self._widest_gap
        return gap.widest if isinstance(gap, Gaps) else gap

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The smallest disparity each group would show at ``alpha`` with this power, other groups aside.

        With a tolerance: the smallest that would be shown to lie beyond it. Two-sided the larger difference, and of
        ratios the one below 1; infinite (0, of ratios) where not even the largest would be.
        """
        check("power", power, Power)
        error, df = self._planning
        rate = np.full(error.shape, np.nan) if self.planning_rate is None else self.planning_rate
        return detectable(error, rate, Question(self._side, self.alpha, self.reach or 0.0), power, df, self.link)

    def rows_for_tolerance(self, power: float = 0.8) -> FloatArray:
        """The rows each group would need to be shown within the tolerance with this power, if it does not differ.

        Other groups aside, and its reference as many times as large as now.
        """
        check("power", power, Power)
        if self.reach is None:
            raise UsageError("rows_for_tolerance: there is no tolerance; give one to flag or certify.")
        error, df = self._planning
        return within_rows(error, self.n, self.reach, self.alpha, power, df, both=self._side == "two-sided")

    @property
    def _side(self) -> Alternative:
        """The side that is asked about: both, where all groups are tested at once."""
        return "two-sided"

    @property
    def _planning(self) -> tuple[FloatArray, FloatArray]:
        """The standard errors, and their degrees of freedom."""
        error = self.standard_error if self.planning_error is None else self.planning_error
        return error, np.full(error.shape, np.inf) if self.planning_df is None else self.planning_df

    def by_stratum(self, backend: str | None = None) -> Any:
        """The strata with enough rows on both sides, one row per group and stratum."""
        if self.effects is None:
            raise UsageError("by_stratum: nothing was compared within strata; ask with given=<column>.")
        return as_frame(self._by_stratum(self.effects), backend, self.provenance.backend)

    def _by_stratum(self, effects: Effects) -> Columns:
        known = np.flatnonzero(~np.isnan(effects.estimate))
        labels = {"group": [self.labels[i] for i in effects.group[known]]}
        numbers = ("n", "estimate", "reference_n", "reference", "disparity")
        return {
            **labels,
            "stratum": [effects.stratum[i] for i in known],
            **{name: getattr(effects, name)[known] for name in numbers},
        }

    # The table.

    @property
    def metric(self) -> str:
        """The metrics asked for: "tpr and fpr"."""
        return words.every(list(dict.fromkeys(self.metrics)))

    @property
    def names(self) -> tuple[str, ...]:
        """What each line is called: its group and, of several metrics, the metric."""
        return names_of({"groups": self.labels, "metrics": self.metrics}, np.arange(len(self.labels)))

    def table(self) -> Columns:
        """One row per group, and of several metrics per metric."""
        columns = {**Evidence.table(self), "detectable": self.detectable()}
        if self.tolerance is not None:
            columns["rows_needed"] = self.rows_for_tolerance()
        return {name: v for name, v in columns.items() if name != "metric" or len(set(self.metrics)) > 1}

    def pages(self) -> Mapping[str, Columns]:
        """Within strata, the table, and the strata one by one if any are listed; their numbers are raw."""
        strata = {} if self.effects is None else self._by_stratum(self.effects)
        if not len(strata.get("stratum", ())):
            return {}
        raw = {"estimate": "raw_estimate", "reference": "raw_reference"}
        return {
            words.NUMBERS: self.table(),
            words.BY_STRATUM: {raw.get(name, name): values for name, values in strata.items()},
        }

    def headings(self) -> Mapping[str, str]:
        """The columns that are worked out, and those that are adjusted within strata."""
        return {**Evidence.headings(self), **words.WORKED_OUT, **(words.ADJUSTED if self.given else {})}

    def units(self) -> Mapping[str, str]:
        """Shares in percent, and their differences in points."""
        if not self.all_shares:
            return {}
        rates = dict.fromkeys(("estimate", "reference", "raw_estimate", "raw_reference"), "%")
        strata = ("unconditional", "accounted", "accounted_low", "accounted_high")
        differences = ("disparity", "ci_low", "ci_high", "detectable", *strata)
        return rates | (dict.fromkeys(differences, "points") if self.scale == "difference" else {})

    def table_note(self) -> str:
        """Within strata, what adjusted numbers are."""
        return words.adjusted_note(self.scale) if self.given else ""

    @property
    def shares(self) -> tuple[bool, ...]:
        """Whether each line's metric is a share of people, reported in percent."""
        asked = self.provenance.options.get("metric")
        names = [asked] if isinstance(asked, str) else list(asked or ())
        known = [one for name in names for one in BUNDLES.get(name, (name,))]
        named = dict(zip(dict.fromkeys(self.metrics), known, strict=False))  # in the readers' words, and in ours
        return tuple(named.get(metric, metric) in SHARES for metric in self.metrics)

    @property
    def all_shares(self) -> bool:
        """Whether every metric is a share of people."""
        return bool(self.shares) and all(self.shares)

    @property
    def link(self) -> Link:
        """The scale of the disparities."""
        return LINKS["difference" if self.sigma is not None else self.scale]

    @property
    def reach(self) -> float | None:
        """The tolerance on that scale."""
        return self.link.reach(self.tolerance)

    # Words.

    @property
    def method(self) -> str:  # type: ignore[override]
        """The name of the method."""
        return words.STRATA_METHOD if self.given else words.METHOD

    @property
    def references(self) -> tuple[str, ...]:  # type: ignore[override]
        """Where the method is described."""
        return (*words.REFERENCES, *(words.STRATA_REFERENCES if self.given else ()))

    @property
    def measured(self) -> str:
        """What a disparity is, in words."""
        value, metrics = self.reference_kind.is_value, words.said(self.metrics)
        return words.comparison(metrics, self.reference, self.scale, value=value, sigma=self.sigma).rstrip(",")

    def alone(self) -> tuple[str, ...]:
        """The groups with nobody to compare them with, in a sentence."""
        pairs = zip(self.labels, self.status, strict=True)
        named = [label for label, status in pairs if status is Status.REFERENCE and label != self.reference]
        return (words.alone(list(dict.fromkeys(named))),) if named else ()

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        strata = [words.STRATA_ASSUMED] if self.given else []
        return (*words.assumptions(self), *strata)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return (*self.never_shown, *([words.LEGITIMATE] if self.given else []))

    def banded(self) -> tuple[str, ...]:
        """The bands that numbers are cut into, one sentence each."""
        return tuple(words.banded(name, bands) for name, bands in self.bands.items())

    # Disclosure.

    def compared_with(self) -> BoolArray:
        """Which groups others are compared with: the one named, or the best."""
        best = np.zeros(len(self.groups), dtype=bool)
        if self.reference_kind.best:
            for metric in set(self.metrics):
                own = np.array([name == metric for name in self.metrics])
                best |= own & np.isin(self.estimate, self.reference_value[own])
        return best | Evidence.compared_with(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``.

        Strata are withheld where a cell is small, or would follow.
        """
        hidden = Evidence.suppressed(self, minimum, also)
        if hidden is not self:
            gap = self.widest_gap
            told = gap is not None and bool(Evidence.withheld_labels(hidden)[0] & set(gap.groups))
            hidden = replace(hidden, _widest_gap=None if told else gap)
        if self.effects is None:
            return hidden
        named = [any(name == CONDITION for name, _ in group.items) for group in self.groups]
        to_group = self.reference_kind is To.GROUP
        return replace(hidden, effects=published_effects(self.effects, hidden.n, minimum, named, to_group=to_group))

    def withheld_labels(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of the groups that are withheld, and of those that are not; with their metrics, of several."""
        hidden, others = Evidence.withheld_labels(self)
        named = {name for name, label in zip(self.names, self.labels, strict=True) if label in hidden}
        return hidden | named, others


def laid_out(plan: FlagPlan, solvers: Sequence[Solver]) -> dict[str, Any]:
    """The fields of both results that do not depend on what was found."""
    return {
        "reference": plan.reference_name,
        "reference_kind": plan.target.to,
        "scale": plan.scale,
        "joint": plan.target.joint,
        "overlapping": plan.overlapping,
        "alpha": plan.alpha,
        "tolerance": plan.tolerance,
        "sigma": plan.sigma if plan.standardised else None,
        "given": plan.factors,
        "bands": plan.bands,
        "_widest_gap": widest_gap(solvers, plan),
    }


def counted_rows(rows: Sequence[MetricRows]) -> dict[str, Any]:
    """The rows that the metrics are computed on, and those dropped, for the record of the call."""
    used = rows[0].used if len(rows) == 1 else max(part.rows for part in rows)
    return {"rows": used, "dropped": {column: n for part in rows for column, n in part.dropped.items()}}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlagResult(GroupEvidence):
    """Every group's disparity, tested. `to_frame` has one row per group.

    ``statistic``, ``pvalue`` and ``adjusted_pvalue`` are NaN, and ``verdicts`` inconclusive, for groups that were
    not tested. ``otherwise`` are the groups that another treatment of the reference's error would decide otherwise.
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
    otherwise: tuple[str, ...] = ()
    corrected: bool = False  # whether T is corrected for small groups

    @property
    def _side(self) -> Alternative:
        """The side that is asked about."""
        return "greater" if self.alternative == "greater" else "less" if self.alternative == "less" else "two-sided"

    @property
    def flagged(self) -> tuple[Group, ...]:
        """The groups whose null was rejected, for one metric at least."""
        named = zip(self.groups, self.verdicts, strict=True)
        return tuple(dict.fromkeys(group for group, verdict in named if verdict is Verdict.VIOLATION))

    @property
    def tested(self) -> str:
        """The disparity tested, in words, where it is neither none nor a tolerance."""
        if self.tolerance is not None or self.null_low == self.null_high == self.link.equal:
            return ""
        return words.tested(self.null_low, self.null_high, self.alternative, self.scale, share=self.all_shares)

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn."""
        from isonomy.groups.charts import flagged

        return flagged(self)

    def headline(self) -> str:
        """The verdict as a sentence; a one-sided tolerance says nothing about the other side."""
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.alternative in words.WITHIN:
            return words.within_one_side(self.alternative)
        if self.tested and self.answered:
            return words.other_null_verdict(self, self.tested)
        return Evidence.headline(self)

    def findings(self) -> tuple[str, ...]:
        """An overview, within strata what factors account for, the groups, worst first, then what else matters."""
        order = self._worst_first()
        described = order[:MOST_GROUPS]
        accounts = [words.accounts(self, i) for i in described] if self.given else []
        best = [words.against_best("group", self.reference_kind.value)] if self.reference_kind.best else []
        return (
            words.flag_overview(self, order),
            *accounts,
            *(words.group_finding(self, i) for i in described),
            *best,
            *self.alone(),
            *([words.decided_otherwise(self)] if self.otherwise else []),
            *self.banded(),
        )

    def _worst_first(self) -> list[int]:
        """The tested groups: those worse off by most to least, those better off, then the others by their p-values."""
        places = {words.DISFAVOURED: 0, words.FAVOURED: 1}
        size = np.abs(self.link.delta(self.disparity))

        def place(i: int) -> tuple[float, float]:
            rank = places.get(self.direction[i], 2)
            return (rank, float(self.pvalue[i] if rank == 2 else -size[i]))

        return sorted(np.flatnonzero(~np.isnan(self.pvalue)).tolist(), key=place)

    def hide(self, small: BoolArray) -> Self:
        """A copy without the numbers of the lines that are ``small``, nor the sentence that names groups."""
        return replace(Evidence.hide(self, small), otherwise=())
