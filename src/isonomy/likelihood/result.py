"""What `flag` and `certify` return."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Group
from isonomy.frames.metrics import BUNDLES, RATES
from isonomy.inference import Verdict
from isonomy.inference.decide import Alternative
from isonomy.likelihood import wording
from isonomy.likelihood.decide import Decisions
from isonomy.likelihood.estimate import Estimates
from isonomy.likelihood.estimate_widest import Gaps, Widest, gaps
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import Reference, To
from isonomy.likelihood.ratio.links import LINKS, Link
from isonomy.likelihood.ratio.planning import Question, detectable, within_rows
from isonomy.likelihood.ratio.standardised import Sigma
from isonomy.likelihood.tally import Tally
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.options import Power, check
from isonomy.results import Call, Columns, GroupResult, Result, phrases, storable

if TYPE_CHECKING:
    import altair as alt

for part in (To, Widest):
    storable(part)

MOST_GROUPS = 1_000  # groups described in words; the table has them all
SHARES = tuple(RATES)  # metrics that are shares of people


def _named(reference: Reference) -> str:
    value = reference.number if reference.estimate is None else reference.estimate.value
    return wording.reference(reference.to, str(reference.group), value, reference.everybody)


def comparison_of(plan: Plan) -> str:
    """What a disparity is, in words."""
    reference, metrics = _named(plan.reference), wording.said(one.measure.name for one in plan.each)
    value = plan.reference.to.is_value
    return wording.comparison(metrics, reference, plan.scale, value=value, sigma=plan.sigma)


def equality_of(plan: Plan) -> str:
    """'selection rate {} that of the population', where disparities are differences."""
    if plan.scale != "difference" or plan.sigma is not None:
        return ""
    reference = _named(plan.reference)
    other = reference if plan.reference.to.is_value else f"that of {reference}"
    return f"{wording.said(one.measure.name for one in plan.each)} {{}} {other}"


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
    metrics: tuple[str, ...]
    reference: str
    reference_kind: To
    scale: str
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
    _widest_gap: Widest | Gaps | None  # worked out when asked for, where no rows must be kept for it
    sigma: Sigma | None = None  # whose standard deviation is the unit of standardised differences
    sigma_value: FloatArray | None = None
    # For `detectable`: the standard error, on the scale of the link, of a group that does not differ; the rate it then
    # has, of 0/1 metrics; and the degrees of freedom of the error.
    planning_error: FloatArray | None = None
    planning_rate: FloatArray | None = None
    planning_df: FloatArray | None = None

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

    @property
    def names(self) -> tuple[str, ...]:
        """What each entry is called: its group and, of several metrics, the metric."""
        several = len(set(self.metrics)) > 1
        pairs = zip(self.labels, self.metrics, strict=True)
        return tuple(f"{label} ({metric})" if several else label for label, metric in pairs)

    def table(self) -> Columns:
        """One row per group, and of several metrics per metric."""
        columns = {**GroupResult.table(self), "detectable": self.detectable()}
        if self.tolerance is not None:
            columns |= {"rows_needed": self.rows_for_tolerance()}
        if self.sigma_value is not None:
            columns = {**columns, "sigma": self.sigma_value}
        return {"metric": self.metrics, **columns} if len(set(self.metrics)) > 1 else columns

    def compared_with(self) -> BoolArray:
        """Which groups others are compared with: the one named, or the best."""
        best = np.zeros(len(self.groups), dtype=bool)
        if self.reference_kind.best:
            for metric in set(self.metrics):
                own = np.array([name == metric for name in self.metrics])
                best |= own & np.isin(self.estimate, self.reference_value[own])
        return best | GroupResult.compared_with(self)

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``."""
        hidden = GroupResult.suppressed(self, minimum, also)
        if hidden is self:
            return self
        small, gap = np.array([status is Status.SUPPRESSED for status in hidden.status]), self.widest_gap

        def kept(values: FloatArray | None) -> FloatArray | None:
            return None if values is None else np.where(small, np.nan, values)

        return replace(
            hidden,
            sigma_value=kept(self.sigma_value),
            planning_error=kept(self.planning_error),
            planning_rate=kept(self.planning_rate),
            planning_df=kept(self.planning_df),
            _widest_gap=None if gap is None or hidden.withheld_labels()[0] & set(gap.groups) else gap,
        )

    @property
    def measured(self) -> str:
        """What a disparity is, in words."""
        value, metrics = self.reference_kind.is_value, wording.said(self.metrics)
        return wording.comparison(metrics, self.reference, self.scale, value=value, sigma=self.sigma).rstrip(",")

    @property
    def shares(self) -> tuple[bool, ...]:
        """Whether each entry's metric is a share of people, told in percent."""
        asked = self.provenance.options.get("metric")
        names = [asked] if isinstance(asked, str) else list(asked or ())
        known = [one for name in names for one in BUNDLES.get(name, (name,))]
        named = dict(zip(dict.fromkeys(self.metrics), known, strict=False))  # in the readers' words, and in ours
        return tuple(named.get(metric, metric) in SHARES for metric in self.metrics)

    def units(self) -> Mapping[str, str]:
        """Shares in percent, and their differences in points."""
        if not self.shares or not all(self.shares):
            return {}
        rates = dict.fromkeys(("estimate", "reference", "raw_estimate", "raw_reference"), "%")
        strata = ("unconditional", "accounted", "accounted_low", "accounted_high")
        differences = ("disparity", "ci_low", "ci_high", "detectable", *strata)
        return rates | (dict.fromkeys(differences, "points") if self.scale == "difference" else {})

    @property
    def link(self) -> Link:
        """The scale of the disparities."""
        return LINKS["difference" if self.sigma is not None else self.scale]

    def _beyond(self, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The ends of intervals on the scale on which a tolerance has one size on both sides."""
        return self.link.delta(low), self.link.delta(high)

    @property
    def reach(self) -> float | None:
        """The tolerance on that scale."""
        return self.link.reach(self.tolerance)

    @classmethod
    def of_groups(
        cls,
        call: Call,
        plan: Plan,
        sums: Sequence[Tally],
        each: Estimates,
        decisions: Decisions,
        *,
        random: bool,
        **own: object,
    ) -> Self:
        """The fields of both results, and the ``own`` ones of one of them."""
        left_out = {column: n for part in sums for column, n in part.dropped.items()}
        used = sums[0].used if len(sums) == 1 else max(part.rows for part in sums)
        dropped = phrases.dropped(left_out)
        return cls.gather(
            decisions,
            each,
            plan,
            warnings=(*([dropped] if dropped else []), *decisions.warnings),
            provenance=call.provenance(rows=used, dropped=left_out, random=random),
            metric=wording.every([one.measure.name for one in plan.each]),
            _widest_gap=gaps(sums, plan),
            reference=_named(plan.reference),
            reference_kind=plan.reference.to,
            joint=plan.reference.joint,
            scale=plan.scale if plan.sigma is None else "standardised",
            reference_value=each.reference,
            ci_low=each.low,
            ci_high=each.high,
            **own,
        )

    def _alone(self) -> str:
        """The groups with nobody to compare them with, in a sentence; nothing where there are none."""
        pairs = zip(self.labels, self.status, strict=True)
        named = [label for label, status in pairs if status is Status.REFERENCE and label != self.reference]
        return wording.alone(list(dict.fromkeys(named))) if named else ""

    def detectable(self, power: float = 0.8) -> FloatArray:
        """The smallest disparity each group would show at ``alpha`` with this power, other groups aside.

        With a tolerance: the smallest that would be shown to lie beyond it. Two-sided the larger difference, and of
        ratios the one below 1; infinite (0, of ratios) where not even the largest would be.
        """
        check("power", power, Power)
        error, df = self._planning
        rate = np.full(error.shape, np.nan) if self.planning_rate is None else self.planning_rate
        question = Question(self._side, self.alpha, self.reach or 0.0)
        return detectable(error, rate, question, power, df, self.link)

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

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        return wording.assumptions(
            joint=self.joint, reference=self.reference, overlapping=self.overlapping, rows=self.rows_assumed()
        )

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
        *("statistic", "pvalue", "adjusted_pvalue", "verdict", "direction", "status"),
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
    direction: tuple[str, ...]
    contrast: str

    @classmethod
    def of(
        cls,
        call: Call,
        plan: Plan,
        sums: Sequence[Tally],
        estimates: Estimates,
        decisions: Decisions,
    ) -> FlagResult:
        """Lay out what was estimated and decided."""
        assert plan.hypothesis is not None
        null = plan.hypothesis
        measured = comparison_of(plan)
        return cls.of_groups(
            call,
            plan,
            sums,
            estimates,
            decisions,
            random=plan.adjust == "max-t" or (plan.correction == "bartlett" and plan.reference.joint),
            null=wording.null(
                null.low,
                null.high,
                null.alternative,
                measured,
                equality_of(plan),
                share=all(one.measure.binary for one in plan.each),
            ),
            null_low=null.low,
            null_high=null.high,
            alternative=null.alternative,
            adjusted_pvalue=decisions.adjusted,
        )

    @property
    def _side(self) -> Alternative:
        """The side that is asked about."""
        return "greater" if self.alternative == "greater" else "less" if self.alternative == "less" else "two-sided"

    @property
    def flagged(self) -> tuple[Group, ...]:
        """The groups whose null was rejected, for one metric at least."""
        named = zip(self.groups, self.verdicts, strict=True)
        return tuple(dict.fromkeys(group for group, verdict in named if verdict is Verdict.VIOLATION))

    def plot(self) -> alt.TopLevelMixin:
        """Intervals by group, sorted, with the null and the tolerance drawn."""
        low, high = (np.full(self.n.shape, end) for end in (self.null_low, self.null_high))
        return self._drawn(self.verdicts, low, high, str(self.provenance.options.get("interval", "pointwise")))

    def headline(self) -> str:
        """The verdict as a sentence; a one-sided tolerance says nothing about the other side."""
        if self.verdict is Verdict.WITHIN_TOLERANCE and self.alternative in wording.WITHIN:
            return wording.within_one_side(self.alternative)
        if self._tested and self.answered:
            return wording.other_null_verdict(self.provenance.call, self.verdict, self._tested)
        return Result.headline(self)

    @property
    def _tested(self) -> str:
        """The disparity tested, in words, where it is neither none nor a tolerance."""
        if self.tolerance is not None or self.null_low == self.null_high == self.link.equal:
            return ""
        share = bool(self.shares) and all(self.shares)
        return wording.tested(self.null_low, self.null_high, self.alternative, self.scale, share=share)

    def findings(self) -> tuple[str, ...]:
        """An overview, then the groups, worst first, then what the reference's error changed if it changed any."""
        tested = np.flatnonzero(~np.isnan(self.pvalue))
        within = sum(v is Verdict.WITHIN_TOLERANCE for v in self.verdicts)
        listed = sum(s is not Status.REFERENCE for s in self.status)
        order = self._worst_first()
        names = self.names
        titles = {i: names[i].replace(f"({self.metrics[i]})", f"({phrases.metric(self.metrics[i])})") for i in order}
        flagged = {
            wording.BESIDE_TESTED[word] if self._tested else word: [
                titles[i] for i in order if self.direction[i] == word
            ]
            for word in (wording.DISFAVOURED, wording.FAVOURED)
        }
        beyond = " by more than the tolerance" if self.tolerance is not None else ""
        against = f"{self._tested or self.reference}{beyond}"
        several = len(set(self.metrics)) > 1
        overview = wording.flag_overview(
            flagged, within, tested.size, listed, self.alternative, against, several=several
        )
        described = [wording.group_finding(self._finding(i)) for i in order[:MOST_GROUPS]]
        best = wording.against_best("group", self.reference_kind.value) if self.reference_kind.best else ""
        return (overview, *described, *filter(None, (best, self._alone(), self.contrast)))

    def _worst_first(self) -> list[int]:
        """The tested groups: those worse off by most to least, those better off, then the others by their p-values."""
        places = {wording.DISFAVOURED: 0, wording.FAVOURED: 1}
        size = np.abs(self.link.delta(self.disparity))

        def place(i: int) -> tuple[float, float]:
            rank = places.get(self.direction[i], 2)
            return (rank, float(self.pvalue[i] if rank == 2 else -size[i]))

        return sorted(np.flatnonzero(~np.isnan(self.pvalue)).tolist(), key=place)

    def _finding(self, i: int) -> wording.Finding:
        return wording.Finding(
            group=str(self.groups[i]),
            metric=self.metrics[i],
            scale=self.scale,
            estimate=float(self.estimate[i]),
            n=float(self.n[i]),
            reference=float(self.reference_value[i]),
            disparity=float(self.disparity[i]),
            interval=(float(self.ci_low[i]), float(self.ci_high[i])),
            alpha=self.alpha,
            pvalue=float(self.pvalue[i]),
            adjusted=float(self.adjusted_pvalue[i]),
            verdict=self.verdicts[i],
            direction=self.direction[i],
            alternative="" if self.reference_kind.best else self.alternative,
            against=self.reference,
            share=self.shares[i],
            tested=self._tested,
            tolerant=self.tolerance is not None,
            best=bool(self.reference_kind.best and self.compared_with()[i]),
            weighted=self.provenance.options.get("weight") is not None,
        )

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of groups with fewer than ``minimum`` rows, and of those in ``also``."""
        hidden = LikelihoodResult.suppressed(self, minimum, also)
        # The sentence about the reference's error names groups.
        if hidden is self:
            return hidden
        shown = zip(self.direction, hidden.status, strict=True)
        direction = tuple("" if status is Status.SUPPRESSED else word for word, status in shown)
        return replace(hidden, contrast="", direction=direction)
