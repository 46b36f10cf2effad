"""What a call asks: the metric, the groups, the reference, the hypothesis; checked together, and against the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Annotated, Literal

import numpy as np

from isonomy.errors import UsageError, refuse_percent, shown
from isonomy.frames import Groups, MetricLike, Request, Source
from isonomy.frames.conditions import Scalar
from isonomy.frames.groups import in_words
from isonomy.frames.metrics import ERRORS, Measure, listed, measure, together
from isonomy.likelihood.plan_reference import (
    Reference,
    ReferenceLike,
    To,
    Uncertainty,
    facing,
    reference_of,
    with_reference,
)
from isonomy.likelihood.ratio.disparity import Against, Hypothesis, Interval
from isonomy.likelihood.ratio.links import LINKS, Link
from isonomy.likelihood.ratio.standardised import Sigma
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Form

Adjustment = Literal["bh", "by", "holm", "bonferroni", "none", "bh-tree", "bh-siblings", "max-t"]
Method = Literal["el", "eel"]
Better = Literal["higher", "lower"] | None
Scale = Literal["difference", "ratio", "odds_ratio"]
Correction = Literal["auto", "bartlett", "adjusted"]
FlagScale = Scale | Literal["standardised"]
# One number for all groups, one each in order, or a mapping from group labels.
Disparities = float | Sequence[float] | FloatArray | Mapping[str, float]

# Fewer resamples than this give Bartlett's factor an error as large as the correction itself.
RESAMPLES = 100


# A value of the outcome and the prediction.
Label = str | int | float | bool | None
# Legitimate factors that groups are compared within: columns, cuts or conditions.
Given = Annotated[object, Form("given")] | None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What was asked. ``hypothesis`` is that of each group alone, and None where only the joint ``null`` is tested.

    ``jointly``: all groups are tested at once. ``others`` are the plans of further metrics, which differ in
    ``measure``, ``request`` and ``better`` alone. ``scored``: rates of few cases are tested by their score. ``sigma``
    is the unit of standardised differences, None elsewhere. ``bands`` has those of ``given`` that are cut into bands.
    """

    measure: Measure
    request: Request
    reference: Reference
    scale: Scale
    null: Disparities
    hypothesis: Hypothesis | None
    tolerance: float | None
    interval: Interval
    alpha: float
    adjust: Adjustment
    min_size: int
    method: Method
    correction: Correction | None
    resamples: int
    better: Literal["higher", "lower"]
    jointly: bool
    scored: bool = False
    given: tuple[str, ...] = ()
    bands: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sigma: Sigma | None = None
    others: tuple[Plan, ...] = ()

    @property
    def each(self) -> tuple[Plan, ...]:
        """The plan of each metric alone."""
        return (replace(self, others=()), *self.others) if self.others else (self,)

    @property
    def shared(self) -> Request | None:
        """One request for all metrics that need counts, if there is one."""
        counted = [one.request for one in self.each if not one.by_row]
        return together(counted) if len(counted) > 1 else None

    @property
    def link(self) -> Link:
        """The scale as the likelihoods know it."""
        return LINKS[self.scale]

    @property
    def reach(self) -> float | None:
        """The tolerance on the scale of the link, where it has one size on both sides of no difference."""
        return self.link.reach(self.tolerance)

    @property
    def by_row(self) -> bool:
        """Whether values are needed row by row; counts are enough for a 0/1 metric with a plain reference."""
        return self.measure.by_row or self.reference.to is To.ESTIMATE

    @property
    def likely(self) -> bool:
        """Whether the disparities of all groups are tested by their joint likelihood."""
        return not (self.given or any(one.by_covariance(several=bool(self.others)) for one in self.each))

    def by_covariance(self, *, several: bool) -> bool:
        """Whether one metric's groups are tested jointly by the covariance of their differences.

        Where there is no joint likelihood; and for the values of one metric of several, whose likelihood has no
        correction for skewed groups of few rows then: the law of the other test (Welch's) is for these too.
        """
        measure = self.measure
        return bool(self.given or measure.functional or (several and not measure.binary))

    @property
    def side_by_side(self) -> bool:
        """Whether several metrics are tested jointly that need the same rows, one by one: counts are not enough."""
        several = self.jointly and bool(self.others)
        counted = not any(one.by_row for one in self.each)
        return several and not (counted and together([one.request for one in self.each]) is not None)

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped passes over the rows, where counts are enough."""
        if self.side_by_side:
            return ()
        shared = self.shared
        return (shared,) if shared is not None else tuple(one.request for one in self.each if not one.by_row)

    @property
    def overlapping(self) -> bool:
        """Whether a row can be in several groups."""
        return self.request.grouping is not None and len(list(self.request.grouping.subsets)) > 1


def plan(
    source: Source,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: str | None,
    prediction: str | None,
    score: str | None,
    reference: ReferenceLike,
    uncertainty: Uncertainty,
    scale: FlagScale,
    null: Disparities | None,
    tolerance: float | None,
    alpha: float,
    depth: int,
    min_size: int,
    method: Method,
    correction: Correction | None,
    resamples: int,
    alternative: Against | None = None,
    interval: Interval = "simultaneous",
    adjust: Adjustment = "holm",
    given: Given = None,
    better: Better = None,
    sigma: Sigma = "population",
    positive: Scalar | None = None,
) -> Plan:
    """The plan of `flag`, or without an ``alternative`` of `certify`: one joint null, and Holm over the tolerance."""
    scored = correction == "auto" and method == "el"
    only_each = alternative is not None or method == "eel" or source.designed
    if correction == "auto" and (only_each or given is not None):
        correction = None
    standardised = scale == "standardised"
    if not standardised and sigma != "population":
        raise UsageError(f"sigma: {sigma!r} needs scale='standardised', saw scale={scale!r}.")
    scale = "difference" if scale == "standardised" else scale
    link = LINKS[scale]
    null = link.equal if null is None else null
    alternative = facing(reference, alternative)
    hypothesis = _hypothesis(null, alternative, tolerance, link)
    if interval == "one-sided" and alternative not in ("greater", "less"):
        raise UsageError("interval: 'one-sided' needs alternative='greater' (a lower bound) or 'less' (an upper one).")
    if interval == "one-sided" and tolerance is not None:
        raise UsageError(
            "interval: 'one-sided' bounds a disparity on the side of the alternative alone, and no group could be "
            "shown within the tolerance; leave it out."
        )
    if adjust == "max-t" and reference in ("highest", "lowest"):
        raise UsageError(f"adjust: 'max-t' is not available with reference={reference!r}; use 'holm'.")
    grouping = source.grouping(groups, depth)
    if given is not None:
        grouping = grouping.within(source.grouping(given, argument="given"))
    plans, words = [], source.labels.columns
    for one in listed(metric):
        bound = measure(
            source, one, grouping=grouping, outcome=outcome, prediction=prediction, score=score, positive=positive
        )
        _refuse_scale(scale, bound, tolerance)
        target = reference_of(reference, uncertainty, binary=bound.binary)
        if target.to.best and alternative is None and not _all_equal(null, link):
            raise UsageError(
                f"null: leave it out with reference={reference!r}; jointly only equal groups can be tested."
            )
        if standardised:
            _refuse_standardised(bound, target, sigma, correction, given)
        _refuse_functional(bound, target, scale, correction, given)
        if alternative is None:
            _refuse_jointly(bound, target, method, null, link, given=given is not None, standardised=standardised)
        if given is not None:
            target = _within(target, method, correction)
        if source.labels.population:
            target = replace(target, everybody=source.labels.population)
        if target.group is not None:
            target = replace(target, group=source.labels.named([target.group])[0])
        _refuse_correction(correction, method, resamples, target, joint_test=alternative is None)
        plans.append(
            Plan(
                measure=bound,
                request=with_reference(bound.request, target, grouping, source),
                reference=target,
                scale=scale,
                null=null,
                hypothesis=hypothesis,
                tolerance=tolerance,
                interval=interval,
                alpha=alpha,
                adjust=adjust,
                min_size=min_size,
                method=method,
                correction=correction,
                resamples=resamples,
                better=better or ("lower" if isinstance(one, str) and one in ERRORS else "higher"),
                jointly=alternative is None,
                scored=scored,
                given=tuple(words.get(one.name, one.name) for one in grouping.strata),
                bands={
                    words.get(one.name, one.name): tuple(
                        source.labels.values.get(one.name, {}).get(label, in_words(label)) for label in one.labels
                    )
                    for one in grouping.strata
                    if one.labels
                },
                sigma=sigma if standardised else None,
            )
        )
    if correction is not None and source.designed:
        raise UsageError("correction: not available with weight or cluster, whose own law is for small samples too.")
    _refuse_several(plans, joint_test=alternative is None)
    return replace(plans[0], others=tuple(plans[1:]))


def _refuse_jointly(
    measure: Measure,
    target: Reference,
    method: Method,
    null: Disparities,
    link: Link,
    *,
    given: bool,
    standardised: bool,
) -> None:
    """Refuse what can be asked of groups one by one, and not of all at once."""
    what = "with given" if given else f"of {measure.name!r}" if measure.functional else ""
    if (what or standardised) and not _all_equal(null, link):
        where = what or "with scale='standardised'"
        raise UsageError(f"null: leave it out {where}; jointly only no difference can be tested then.")
    if what:
        _refuse_likelihood(what, method, target)


def _refuse_likelihood(what: str, method: Method, target: Reference) -> None:
    """Refuse options of the likelihood where the joint test is by covariance."""
    if method == "eel" or not (target.joint or target.to is To.NUMBER):
        option = "method='eel'" if method == "eel" else "uncertainty='plugin'"
        raise UsageError(f"{option.split('=')[0]}: {option} is not available in a joint test {what}; leave it out.")


def _refuse_functional(
    measure: Measure, target: Reference, scale: Scale, correction: Correction | None, given: Given
) -> None:
    """Refuse what a metric that is no mean over rows cannot be asked."""
    if not measure.functional:
        return
    name = measure.name
    if given is not None:
        raise UsageError(f"given: {name!r} is no mean over rows, and cannot be compared within strata; leave it out.")
    if target.estimate is not None:
        raise UsageError(f"reference: an Estimate cannot be the reference of {name!r}, which is no mean over rows.")
    if correction not in (None, "auto"):
        raise UsageError(f"correction: not available for {name!r}, which is no mean over rows.")
    if measure.functional in ("r2", "quantile") and scale != "difference":
        raise UsageError(f"scale: {scale!r} needs values that are never negative; {name!r} can be. Use 'difference'.")


def _refuse_standardised(
    measure: Measure, target: Reference, sigma: Sigma, correction: Correction | None, given: Given
) -> None:
    """Refuse what a standardised difference cannot be asked."""
    if measure.binary or measure.functional:
        kind = "a 0/1 metric" if measure.binary else "no mean over rows"
        raise UsageError(
            f"scale: 'standardised' needs a metric with a value for each row, such as a score; {measure.name!r} is "
            f"{kind}. Use scale='difference'."
        )
    if given is not None or correction not in (None, "auto"):
        raise UsageError(
            f"{'correction' if given is None else 'given'}: not available with scale='standardised'; leave it out."
        )
    if target.estimate is not None or not (target.joint or target.to is To.NUMBER):
        raise UsageError(
            "scale: 'standardised' counts the error of its reference; leave uncertainty='plugin' and an Estimate out."
        )
    if sigma == "reference" and target.group is None:
        raise UsageError("sigma: 'reference' needs a reference group, such as reference={'race': 'White'}.")
    if sigma == "pooled" and target.group is None and target.to is not To.REST:
        raise UsageError(
            "sigma: 'pooled' needs two groups; give reference='rest', or a group such as {'race': 'White'}."
        )


def _refuse_several(plans: Sequence[Plan], *, joint_test: bool) -> None:
    """Several metrics at once: not against one number, nor jointly where their rows cannot be laid side by side."""
    if len(plans) < 2:
        return
    if plans[0].reference.to.is_value:
        raise UsageError("reference: one number cannot be the reference of several metrics; ask for them one by one.")
    if plans[0].given:
        raise UsageError("metric: with given one metric is compared at a time; ask for them one by one.")
    if not joint_test:
        return
    if any(plan.by_covariance(several=True) for plan in plans):
        _refuse_likelihood("of several metrics that are not all 0/1", plans[0].method, plans[0].reference)
    if plans[0].correction not in (None, "auto") or not _all_equal(plans[0].null, plans[0].link):
        raise UsageError(
            "metric: several can be certified jointly for no difference, with correction='auto' or None; ask for them "
            "one by one."
        )


def _all_equal(null: Disparities, link: Link) -> bool:
    return isinstance(null, Real) and null == link.equal


def _refuse_scale(scale: Scale, measure: Measure, tolerance: float | None) -> None:
    """Refuse a scale that the metric does not have, and a tolerance that is not in its unit."""
    if scale == "odds_ratio" and not measure.binary:
        raise UsageError(
            f"scale: 'odds_ratio' needs a 0/1 metric; {measure.name!r} is not one. Use 'ratio' or 'difference'."
        )
    if not LINKS[scale].ratio:
        refuse_percent(measure.binary, tolerance)
    elif tolerance is not None and not 0 < tolerance < 1:
        raise UsageError(
            f"tolerance: {tolerance!r} is not allowed for scale={scale!r}; give a ratio between 0 and 1: 0.8 tolerates "
            "ratios from 0.8 to 1.25."
        )


def _within(reference: Reference, method: Method, correction: Correction | None) -> Reference:
    """The reference of a comparison within strata: people of the same stratum, the group's own not among them."""
    if reference.to.is_value or reference.to.best:
        raise UsageError(
            "given: a comparison within strata needs people to compare with; give reference='rest', or a group such as "
            "{'race': 'White'}."
        )
    if not reference.joint:
        raise UsageError("given: uncertainty='plugin' is not available within strata; leave it out.")
    if method == "eel" or correction is not None:
        option = "method='eel'" if method == "eel" else f"correction={correction!r}"
        raise UsageError(f"given: {option} is not available within strata; leave it out.")
    return replace(reference, to=To.REST) if reference.to is To.POPULATION else reference


def _hypothesis(
    null: Disparities, alternative: Against | None, tolerance: float | None, link: Link
) -> Hypothesis | None:
    """A tolerance makes the null |ε| <= tolerance (or ε <= tolerance, ε >= -tolerance for a one-sided alternative).

    On the scale of ratios a tolerance t is the null t <= ratio <= 1/t.
    """
    if tolerance is not None:
        if not (isinstance(null, Real) and null == link.equal):
            raise UsageError(f"null: leave it at {link.equal:g} when tolerance is given; the tolerance sets the null.")
        low, high = (tolerance, 1.0 / tolerance) if link.ratio else (-tolerance, tolerance)
        if alternative == "greater":
            return Hypothesis(high, high, "greater")
        if alternative == "less":
            return Hypothesis(low, low, "less")
        published = alternative == "outside-published"
        return Hypothesis(low, high, "outside-published" if published else "outside")
    _refuse_negative_null(null, link)
    if alternative is None:
        return None
    if isinstance(null, (Sequence, Mapping, np.ndarray)):
        ends = [float(end) for end in null]
    elif not isinstance(null, (Real, Decimal)):
        raise UsageError(f"null: {shown(null)} is not allowed; give a finite number, or (low, high) with low <= high.")
    elif alternative.startswith("outside"):
        raise UsageError(f"null: the alternative {alternative!r} needs (low, high), saw {null!r}.")
    else:
        ends = [float(null)] * 2
    if len(ends) != 2 or ends[0] > ends[1]:
        raise UsageError(f"null: {null!r} is not allowed; give a finite number, or (low, high) with low <= high.")
    if ends[0] != ends[1] and not alternative.startswith("outside"):
        raise UsageError(f"alternative: the null {null!r} is an interval; pass alternative='outside'.")
    return Hypothesis(ends[0], ends[1], alternative)


def _refuse_negative_null(null: Disparities, link: Link) -> None:
    """No ratio is 0 or less."""
    values = list(null.values()) if isinstance(null, Mapping) else np.ravel(np.asarray(null, dtype=object)).tolist()
    if link.ratio and any(isinstance(value, Real) and value <= 0 for value in values):
        raise UsageError(
            f"null: {null!r} is not allowed for scale={link.name!r}; give ratios above 0 (1: no difference)."
        )


def _refuse_correction(
    correction: Correction | None, method: Method, resamples: int, reference: Reference, *, joint_test: bool
) -> None:
    """Refuse a correction that the likelihood or the reference does not have."""
    if correction is None:
        return
    if method == "eel":
        raise UsageError("correction: it belongs to method='el'; the Euclidean likelihood has none.")
    if resamples < RESAMPLES and correction != "adjusted":
        raise UsageError(
            f"resamples: {resamples} are too few for the mean of T; give at least {RESAMPLES}, better 1,000."
        )
    if reference.joint and reference.to is To.ESTIMATE and not joint_test:
        raise UsageError("correction: not available for a reference that brings influence values.")
    if reference.joint and correction == "adjusted":
        raise UsageError(
            "correction: 'adjusted' needs a known or plugged-in reference; with an estimated one use 'bartlett'."
        )


def per_group(disparities: Disparities, labels: Sequence[str], argument: str) -> FloatArray:
    """One disparity for each of the tested groups, from any of the forms a caller may give."""
    if isinstance(disparities, Mapping):
        given = {str(key): value for key, value in disparities.items()}
        unknown = [key for key in given if key not in labels]
        absent = [label for label in labels if label not in given]
        if unknown or absent:
            raise UsageError(f"{argument}: unknown groups {unknown[:5]}, groups without a value {absent[:5]}.")
        disparities = [given[label] for label in labels]
    try:
        values = np.asarray(np.nan if isinstance(disparities, bool) else disparities, dtype=float)
    except (TypeError, ValueError):
        values = np.array(np.nan)
    groups = len(labels)
    if values.shape not in ((), (groups,)) or not np.isfinite(values).all():
        raise UsageError(
            f"{argument}: {disparities!r} is not allowed; give one finite number, or one for each of {groups:,} groups."
        )
    return np.broadcast_to(values, (groups,)).astype(float)
