"""What a call asks: the metric, the groups, the reference, the hypothesis; checked together, and against the schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from numbers import Real
from typing import Annotated, Literal

import numpy as np

from isonomy.errors import UnknownOption, UsageError, refuse_percent
from isonomy.frames import Group, Groups, MetricLike, Request, Source
from isonomy.frames.checks import flag
from isonomy.frames.levels import belongs
from isonomy.frames.metrics import Measure, measure
from isonomy.likelihood.ratio.disparity import Against, Hypothesis, Interval
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Form, Number

Uncertainty = Literal["joint", "plugin", "fixed"]
Adjustment = Literal["bh", "by", "holm", "bonferroni", "none", "bh-tree"]
Method = Literal["el", "eel"]
Correction = Literal["bartlett", "adjusted"]
# One number for all groups, one each in order, or a mapping from group labels.
Disparities = float | Sequence[float] | FloatArray | Mapping[str, float]

# Fewer resamples than this give Bartlett's factor an error as large as the correction itself.
RESAMPLES = 100


@dataclass(frozen=True, slots=True)
class Estimate:
    """A reference the caller estimated: any asymptotically linear estimate (condition C6 of the paper).

    ``value`` is the estimate and ``influence`` names the column with each row's influence value, so that
    value - truth is the mean of the influence values up to smaller terms. The population mean, for
    example, has the influence values M - mean. They must come from the same rows as the audit.
    """

    value: float
    influence: str


ReferenceLike = Annotated[str | float | Mapping[str, object] | Group | Estimate, Form("reference")]


class To(StrEnum):
    """The kinds of reference."""

    POPULATION = "population"
    REST = "rest"
    GROUP = "group"
    NUMBER = "number"
    ESTIMATE = "estimate"

    @property
    def is_value(self) -> bool:
        """Whether it is a value itself, and not people who have one."""
        return self in (To.NUMBER, To.ESTIMATE)


@dataclass(frozen=True, slots=True)
class Reference:
    """A checked reference: its kind, and the number, group or estimate it is; ``joint`` when its error counts."""

    to: To
    joint: bool
    number: float | None = None
    group: Group | None = None
    estimate: Estimate | None = None

    @property
    def label(self) -> str:
        """What it is called in a sentence."""
        match self.to:
            case To.POPULATION:
                return "the population"
            case To.REST:
                return "the rest of the population"
            case To.GROUP:
                return str(self.group)
        value = self.number if self.estimate is None else self.estimate.value
        shown = np.format_float_positional(value or 0.0, precision=6, fractional=False, trim="-")
        return shown if self.estimate is None else f"the estimate {shown}"


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What was asked. ``hypothesis`` is that of each group alone, and None where only the joint ``null`` is tested."""

    measure: Measure
    request: Request
    reference: Reference
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

    @property
    def by_row(self) -> bool:
        """Whether values are needed row by row; counts are enough for a 0/1 metric with a plain reference."""
        return not self.measure.binary or self.reference.to is To.ESTIMATE

    @property
    def requests(self) -> tuple[Request, ...]:
        """The grouped pass over the rows, where counts are enough."""
        return () if self.by_row else (self.request,)

    @property
    def overlapping(self) -> bool:
        """Whether a row can be in several groups."""
        return self.request.grouping is not None and len(list(self.request.grouping.subsets)) > 1


def plan(
    source: Source,
    *,
    metric: MetricLike,
    groups: Groups,
    outcome: str | None = None,
    prediction: str | None = None,
    score: str | None = None,
    reference: ReferenceLike = "population",
    uncertainty: Uncertainty = "joint",
    null: Disparities = 0.0,
    alternative: Against | None = None,
    tolerance: float | None = None,
    interval: Interval = "simultaneous",
    alpha: float = 0.05,
    adjust: Adjustment = "holm",
    depth: int = 1,
    min_size: int = 10,
    method: Method = "el",
    correction: Correction | None = None,
    resamples: int = 1_000,
) -> Plan:
    """The plan of `flag`, or without an ``alternative`` of `certify`: one joint null, and Holm over the tolerance."""
    hypothesis = _hypothesis(null, alternative, tolerance)
    if interval == "one-sided" and alternative not in ("greater", "less"):
        raise UsageError("interval: 'one-sided' needs alternative='greater' (a lower bound) or 'less' (an upper one).")
    grouping = source.grouping(groups, depth)
    bound = measure(source, metric, grouping=grouping, outcome=outcome, prediction=prediction, score=score)
    refuse_percent(bound.binary, tolerance)
    target = _reference(reference, uncertainty, binary=bound.binary)
    _refuse_correction(correction, method, resamples, target, joint_test=alternative is None)
    request = bound.request
    if target.group is not None:
        condition = flag(belongs(target.group, grouping, source.schema))
        request = replace(request, keys={**request.keys, "reference": condition})
    if target.estimate is not None:
        source.require(reference=target.estimate.influence)
        request = replace(request, numeric={**request.numeric, "influence": target.estimate.influence})
    return Plan(
        measure=bound,
        request=request,
        reference=target,
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
    )


def _hypothesis(null: Disparities, alternative: Against | None, tolerance: float | None) -> Hypothesis | None:
    """A tolerance makes the null |ε| <= tolerance (or ε <= tolerance, ε >= -tolerance for a one-sided alternative)."""
    if tolerance is not None:
        if not (isinstance(null, Real) and null == 0):
            raise UsageError("null: leave it at 0 when tolerance is given; the tolerance sets the null.")
        if alternative == "greater":
            return Hypothesis(tolerance, tolerance, "greater")
        if alternative == "less":
            return Hypothesis(-tolerance, -tolerance, "less")
        published = alternative == "outside-published"
        return Hypothesis(-tolerance, tolerance, "outside-published" if published else "outside")
    if alternative is None:
        return None
    if isinstance(null, (Sequence, Mapping, np.ndarray)):
        ends = [float(end) for end in null]
    elif alternative.startswith("outside"):
        raise UsageError(f"null: the alternative {alternative!r} needs (low, high), saw {null!r}.")
    else:
        ends = [float(null)] * 2
    if len(ends) != 2 or ends[0] > ends[1]:
        raise UsageError(f"null: {null!r} is not allowed; give a finite number, or (low, high) with low <= high.")
    if ends[0] != ends[1] and not alternative.startswith("outside"):
        raise UsageError(f"alternative: the null {null!r} is an interval; pass alternative='outside'.")
    return Hypothesis(ends[0], ends[1], alternative)


def _refuse_correction(
    correction: Correction | None, method: Method, resamples: int, reference: Reference, *, joint_test: bool
) -> None:
    """Refuse a correction that the likelihood or the reference does not have."""
    if correction is None:
        return
    if method == "eel":
        raise UsageError("correction: it belongs to method='el'; the Euclidean likelihood has none.")
    if correction == "bartlett" and resamples < RESAMPLES:
        raise UsageError(
            f"resamples: {resamples} are too few for the mean of T; give at least {RESAMPLES}, better 1,000."
        )
    if reference.joint and reference.to is To.ESTIMATE and not joint_test:
        raise UsageError("correction: not available for a reference that brings influence values.")
    if reference.joint and correction == "adjusted":
        raise UsageError(
            "correction: 'adjusted' needs a known or plugged-in reference; with an estimated one use 'bartlett'."
        )


def _reference(reference: ReferenceLike, uncertainty: Uncertainty, *, binary: bool) -> Reference:
    joint = uncertainty == "joint"
    if isinstance(reference, Real) and not isinstance(reference, bool):
        # The default cannot be told from an explicit "joint": for a number both mean that there is no error to count.
        if uncertainty == "plugin":
            raise UsageError(
                "uncertainty: 'plugin' needs an estimated reference; for a number leave it out, or give 'fixed'."
            )
        return Reference(To.NUMBER, False, number=_number(reference, binary))
    if uncertainty == "fixed":
        raise UsageError("uncertainty: 'fixed' needs a known reference; pass reference=<number>.")
    if isinstance(reference, Estimate):
        estimate = replace(reference, value=_number(reference.value, binary))
        return Reference(To.ESTIMATE, joint, estimate=estimate)
    if isinstance(reference, Group):
        return Reference(To.GROUP, joint, group=reference)
    if isinstance(reference, Mapping):
        if not reference:
            raise UsageError('reference: an empty mapping; give for instance {"race": "Caucasian"}.')
        return Reference(To.GROUP, joint, group=Group.of(reference))
    if not isinstance(reference, str) or reference not in ("population", "rest"):
        allowed = ("population", "rest", "a number", "a mapping such as {'race': 'Caucasian'}", "an Estimate")
        raise UnknownOption("reference", reference, allowed)
    return Reference(To(reference), joint)


def _number(value: Real | float, binary: bool) -> float:
    if not Number().admits(value):
        raise UsageError(f"reference: {value!r} is not a finite number.")
    number = float(value)
    if binary and not 0 <= number <= 1:
        raise UsageError(f"reference: {number:g} cannot be a rate; this metric lies between 0 and 1.")
    return number


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
