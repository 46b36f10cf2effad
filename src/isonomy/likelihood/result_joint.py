"""What `certify` returns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from isonomy.errors import UsageError
from isonomy.inference import Verdict, inside, rejected
from isonomy.likelihood import wording, wording_joint
from isonomy.likelihood.decide import Decisions
from isonomy.likelihood.estimate_joint import JointEstimates
from isonomy.likelihood.plan import Disparities, Plan, per_group
from isonomy.likelihood.ratio.contrasts import NoDifference
from isonomy.likelihood.ratio.lines import Lines
from isonomy.likelihood.ratio.region import Region, Stacked
from isonomy.likelihood.result import LikelihoodResult, comparison_of, equality_of
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.results import Call, Result, storable
from isonomy.results.storage import OF_ROWS

if TYPE_CHECKING:
    import altair as alt

for part in (Lines, Region, Stacked, NoDifference):
    storable(part)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CertifyResult(LikelihoodResult):
    """One joint test of all groups, with simultaneous intervals. `to_frame` has one row per group.

    ``region`` holds the values behind `contains`: it is stored by ``to_json(rows=True)`` only, and None otherwise.
    """

    question: ClassVar[str] = wording_joint.QUESTION
    decisive: ClassVar[tuple[str, ...]] = ("pvalue", "tolerance_pvalue")
    withheld: ClassVar[tuple[str, ...]] = (*LikelihoodResult.withheld, "tolerance_pvalue")

    likelihood: str
    statistic: float
    df: int
    pvalue: float
    tolerance_pvalue: FloatArray
    null_disparity: FloatArray
    joint_status: Status
    region: Region | Stacked | NoDifference | None = field(metadata=OF_ROWS)

    @classmethod
    def of(
        cls,
        call: Call,
        plan: Plan,
        sums: Sequence[Tally],
        estimates: JointEstimates,
        decisions: Decisions,
    ) -> CertifyResult:
        """Lay out what was estimated and decided."""
        measured = comparison_of(plan)
        common = float(plan.null) if isinstance(plan.null, Real) else None
        return cls.of_groups(
            call,
            plan,
            sums,
            estimates.each,
            decisions,
            random=plan.correction == "bartlett" or estimates.factor != 1,
            null=wording_joint.joint_null(
                measured,
                estimates.region.groups,
                common,
                equality_of(plan),
                share=all(one.measure.binary for one in plan.each),
                several=bool(plan.others),
            ),
            likelihood="cmh" if plan.given else plan.method if plan.likely else "covariance",
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
        reach, null = self.reach or 0.0, self.link.delta(self.null_disparity)
        low, high = (self.link.reported(null + sign * reach) for sign in (-1.0, 1.0))
        beyond = (self.ci_low > high) | (self.ci_high < low)
        within = inside(*self._beyond(self.ci_low, self.ci_high), self.reach)
        verdicts = tuple(
            Verdict.VIOLATION if out else Verdict.WITHIN_TOLERANCE if kept else Verdict.INCONCLUSIVE
            for out, kept in zip(beyond, within, strict=True)
        )
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
        labels = [label for label, null in zip(self.names, self.null_disparity, strict=True) if not np.isnan(null)]
        joint = self.region.test(per_group(disparities, labels, "disparities"))
        if joint.df == 0:
            return bool(joint.statistic <= 0)
        return bool(joint.statistic <= self.region.critical(self.alpha, joint.df))

    def headline(self) -> str:
        """The verdict as a sentence; disparities that were given are what groups are held against."""
        if self._tested and self.answered:
            return wording.other_null_verdict(self.provenance.call, self.verdict, self._tested)
        return Result.headline(self)

    @property
    def _tested(self) -> str:
        """The disparities tested, in words, where they are neither none nor a tolerance."""
        given = np.unique(self.null_disparity[~np.isnan(self.null_disparity)])
        if self.tolerance is not None or (given == self.link.equal).all():
            return ""
        one = float(given[0])
        share = bool(self.shares) and all(self.shares)
        return wording.tested(one, one, "", self.scale, share=share) if given.size == 1 else "the disparities tested"

    def findings(self) -> tuple[str, ...]:
        """What decided: the joint statistic, or with a tolerance the intervals; then the largest difference."""
        differ = rejected(self.pvalue, self.alpha)
        numbers = self.statistic, self.df, self.pvalue, self.likelihood
        joint = wording_joint.certify_finding(*numbers, shown=bool(differ), tested=self._tested)
        known = np.flatnonzero(~np.isnan(self.ci_low))
        largest = []
        if known.size:
            i = known[np.argmax(np.abs(self.link.delta(self.disparity[known])))]
            ends, value = (float(self.ci_low[i]), float(self.ci_high[i])), float(self.disparity[i])
            share = self.shares[i]
            largest = [wording_joint.largest_finding(self.names[i], value, self.scale, ends, self.alpha, share=share)]
        alone = [self._alone()] if self._alone() else []
        if self.tolerance is None:
            return (joint, *largest, *alone)
        names = self.names
        outside = [names[i] for i in known if rejected(self.tolerance_pvalue[i], self.alpha)]
        within = int(inside(*self._beyond(self.ci_low[known], self.ci_high[known]), self.reach).sum())
        reach = (self.tolerance, 1.0 / self.tolerance) if self.link.ratio else (-self.tolerance, self.tolerance)
        decided = wording_joint.tolerance_finding(
            outside,
            within,
            known.size,
            reach,
            self.scale,
            share=bool(self.shares) and all(self.shares),
            several=len(set(self.metrics)) > 1,
        )
        return (decided, *largest, joint, wording_joint.RESTS_ON_THE_TOLERANCE, *alone)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy without the rows behind `contains`, and without the numbers of small groups and those in ``also``."""
        return replace(LikelihoodResult.suppressed(self, minimum, also), region=None)
