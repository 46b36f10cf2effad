"""What `flag` and `certify` return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.inference import Verdict, inside, rejected, settle
from isonomy.likelihood import wording
from isonomy.likelihood.decide import Decisions
from isonomy.likelihood.estimate import Estimates, JointEstimates
from isonomy.likelihood.plan import Disparities, Plan, To, per_group
from isonomy.likelihood.ratio.lines import Lines
from isonomy.likelihood.ratio.planning import detectable
from isonomy.likelihood.ratio.region import Region
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import chi2_isf
from isonomy.options import Power, check
from isonomy.results import Call, GroupResult, Result, phrases, storable
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

for part in (To, Lines, Region):
    storable(part)

DESCRIBED = 10  # groups described in words; the table has them all


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LikelihoodResult(GroupResult):
    """What both results hold about each group; arrays have one entry per group."""

    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = wording.LIMITS
    columns: ClassVar[tuple[str, ...]] = (
        *("size", "n", "estimate", "reference", "disparity", "ci_low", "ci_high", "status"),
    )
    fields_shown: ClassVar[Mapping[str, str]] = {"reference": "reference_value", "verdict": "verdicts"}
    counts: ClassVar[tuple[str, ...]] = ("size", "n")
    withheld: ClassVar[tuple[str, ...]] = (
        *("size", "n", "estimate", "reference_value", "disparity", "standard_error", "ci_low", "ci_high"),
    )

    metric: str
    reference: str
    reference_kind: To
    joint: bool
    overlapping: bool
    alpha: float
    tolerance: float | None
    size: FloatArray
    n: FloatArray
    estimate: FloatArray
    reference_value: FloatArray
    disparity: FloatArray
    standard_error: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray

    @property
    def measured(self) -> str:
        """What a disparity is, in words."""
        return wording.difference(self.metric, self.reference, value=self.reference_kind.is_value)

    @classmethod
    def of_groups(
        cls, call: Call, plan: Plan, sums: Tally, each: Estimates, decisions: Decisions, *, random: bool, **own: object
    ) -> Self:
        """The fields of both results, and the ``own`` ones of one of them."""
        dropped = phrases.dropped(sums.dropped)
        return cls.gather(
            decisions,
            each,
            plan,
            warnings=(*([dropped] if dropped else []), *decisions.warnings),
            provenance=call.provenance(rows=sums.rows, dropped=sums.dropped, random=random),
            metric=plan.measure.name,
            reference=plan.reference.label,
            reference_kind=plan.reference.to,
            joint=plan.reference.joint,
            reference_value=each.reference,
            ci_low=each.low,
            ci_high=each.high,
            **own,
        )

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The smallest disparity each group would show two-sided at ``alpha`` with this power, other groups aside.

        With a tolerance: the smallest that would be shown to lie beyond it.
        """
        check("power", power, Power)
        return detectable(self.standard_error, self.tolerance or 0.0, self.alpha, power)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        return wording.assumptions(joint=self.joint, reference=self.reference, overlapping=self.overlapping)

    def _drawn(self, verdicts: tuple[Verdict, ...], low: FloatArray, high: FloatArray, kind: str) -> alt.TopLevelMixin:
        """Intervals by group, coloured by ``verdicts``, with each group's null from ``low`` to ``high``."""
        from isonomy.likelihood.figure import intervals

        return intervals(self, verdicts, low, high, wording.intervals(kind, self.alpha))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlagResult(LikelihoodResult):
    """Every group's disparity, tested. `to_frame` has one row per group.

    ``statistic``, ``pvalue`` and ``adjusted_pvalue`` are NaN, and ``verdicts`` inconclusive, for groups that were
    not tested.
    """

    question: ClassVar[str] = wording.FLAG_QUESTION
    columns: ClassVar[tuple[str, ...]] = (
        *LikelihoodResult.columns[:-1],
        *("statistic", "pvalue", "adjusted_pvalue", "verdict", "status"),
    )
    withheld: ClassVar[tuple[str, ...]] = (*LikelihoodResult.withheld, "statistic", "pvalue", "adjusted_pvalue")

    null_low: float
    null_high: float
    alternative: str
    adjust: str
    statistic: FloatArray
    pvalue: FloatArray
    adjusted_pvalue: FloatArray
    verdicts: tuple[Verdict, ...]
    contrast: str

    @classmethod
    def of(cls, call: Call, plan: Plan, sums: Tally, estimates: Estimates, decisions: Decisions) -> FlagResult:
        """Lay out what was estimated and decided."""
        assert plan.hypothesis is not None
        null = plan.hypothesis
        measured = wording.difference(plan.measure.name, plan.reference.label, value=plan.reference.to.is_value)
        return cls.of_groups(
            call,
            plan,
            sums,
            estimates,
            decisions,
            random=plan.correction == "bartlett" and plan.reference.joint,
            null=wording.null(null.low, null.high, null.alternative, measured),
            null_low=null.low,
            null_high=null.high,
            alternative=null.alternative,
            adjusted_pvalue=decisions.adjusted,
        )

    @property
    def flagged(self) -> tuple[Group, ...]:
        """The groups whose null was rejected."""
        return tuple(g for g, v in zip(self.groups, self.verdicts, strict=True) if v is Verdict.VIOLATION)

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn."""
        low, high = (np.full(self.n.shape, end) for end in (self.null_low, self.null_high))
        return self._drawn(self.verdicts, low, high, str(self.provenance.options.get("interval", "pointwise")))

    def headline(self) -> str:
        """The verdict as a sentence; a one-sided tolerance says nothing about the other side."""
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.alternative in wording.WITHIN:
            return wording.within_one_side(self.alternative)
        return Result.headline(self)

    def findings(self) -> tuple[str, ...]:
        """An overview, then the groups with the smallest p-values, then what the reference's error changed."""
        tested = np.flatnonzero(~np.isnan(self.pvalue))
        order = tested[np.argsort(self.pvalue[tested], kind="stable")][:DESCRIBED]
        within = sum(v is Verdict.WITHIN_TOLERANCE for v in self.verdicts)
        listed = sum(s is not Status.REFERENCE for s in self.status)
        overview = wording.flag_overview(
            [str(group) for group in self.flagged], within, tested.size, listed, self.alternative
        )
        described = [wording.group_finding(self, i) for i in order]
        return (overview, *described, *([self.contrast] if self.contrast else []))

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows."""
        hidden = GroupResult.suppressed(self, minimum)
        # The sentence about the reference's error names groups.
        return hidden if hidden is self else replace(hidden, contrast="")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CertifyResult(LikelihoodResult):
    """One joint test of all groups, with simultaneous intervals. `to_frame` has one row per group.

    ``region`` holds the values behind `contains`: it is stored by ``to_json(rows=True)`` only, and None otherwise.
    """

    question: ClassVar[str] = wording.CERTIFY_QUESTION
    decisive: ClassVar[tuple[str, ...]] = ("pvalue", "tolerance_pvalue")
    withheld: ClassVar[tuple[str, ...]] = (*LikelihoodResult.withheld, "tolerance_pvalue")

    likelihood: str
    statistic: float
    df: int
    pvalue: float
    tolerance_pvalue: FloatArray
    null_disparity: FloatArray
    joint_status: Status
    region: Region | None = field(metadata=OF_ROWS)

    @classmethod
    def of(cls, call: Call, plan: Plan, sums: Tally, estimates: JointEstimates, decisions: Decisions) -> CertifyResult:
        """Lay out what was estimated and decided."""
        measured = wording.difference(plan.measure.name, plan.reference.label, value=plan.reference.to.is_value)
        common = float(plan.null) if isinstance(plan.null, Real) else None
        return cls.of_groups(
            call,
            plan,
            sums,
            estimates.each,
            decisions,
            random=plan.correction is not None,
            null=wording.joint_null(measured, estimates.region.groups, common),
            likelihood=plan.method,
            statistic=estimates.statistic,
            df=estimates.joint.df,
            pvalue=estimates.pvalue,
            tolerance_pvalue=decisions.adjusted,
            null_disparity=estimates.null,
            joint_status=estimates.joint.status,
            region=estimates.region,
        )

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn.

        A group's colour says whether its simultaneous interval lies beyond the null (or the tolerance), within the
        tolerance, or neither.
        """
        reach = self.tolerance or 0.0
        low, high = self.null_disparity - reach, self.null_disparity + reach
        beyond = (self.ci_low > high) | (self.ci_high < low)
        verdicts = settle(np.where(beyond, 0.0, 1.0), self.alpha, inside(self.ci_low, self.ci_high, self.tolerance))
        return self._drawn(verdicts, low, high, "simultaneous")

    def contains(self, disparities: Disparities) -> bool:
        """Whether the joint confidence region of level 1 - alpha holds these disparities.

        One number for all groups, one per tested group in the order of `to_frame`, or a mapping from group labels.
        The degrees of freedom are the rank of the estimating functions at these disparities.
        """
        if self.region is None:
            if Status.SUPPRESSED in self.status:
                raise UsageError("contains: the rows behind this result are withheld with the small groups.")
            raise UsageError(
                "contains: the rows behind this result are not stored with it; keep the result in memory, or store it "
                "with to_json(rows=True)."
            )
        labels = [label for label, null in zip(self.labels, self.null_disparity, strict=True) if not np.isnan(null)]
        joint = self.region.test(per_group(disparities, labels, "disparities"))
        if joint.df == 0:
            return bool(joint.statistic <= 0)
        return bool(joint.statistic / self.region.factor <= chi2_isf(self.alpha, joint.df))

    def findings(self) -> tuple[str, ...]:
        """What decided: the joint statistic, or with a tolerance the intervals; then the largest difference."""
        joint = wording.certify_finding(self.statistic, self.df, self.pvalue, self.likelihood)
        known = np.flatnonzero(~np.isnan(self.ci_low))
        largest = []
        if known.size:
            i = known[np.argmax(np.abs(self.disparity[known]))]
            ends = float(self.ci_low[i]), float(self.ci_high[i])
            largest = [wording.largest_finding(str(self.groups[i]), float(self.disparity[i]), ends, self.alpha)]
        if self.tolerance is None:
            return (joint, *largest, wording.LARGE_SAMPLE)
        outside = [str(self.groups[i]) for i in known if rejected(self.tolerance_pvalue[i], self.alpha)]
        within = int(inside(self.ci_low[known], self.ci_high[known], self.tolerance).sum())
        decided = wording.tolerance_finding(outside, within, known.size, self.tolerance)
        return (decided, *largest, joint, wording.RESTS_ON_THE_TOLERANCE)

    def suppressed(self, minimum: int) -> Self:
        """A copy without the rows behind `contains`, and the numbers of groups with fewer than ``minimum`` rows."""
        return replace(GroupResult.suppressed(self, minimum), region=None)
