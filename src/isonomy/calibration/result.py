"""What the calls of this folder return."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from isonomy.calibration import wording
from isonomy.calibration.decide import Decisions, FamilyDecisions, ThresholdsDecisions
from isonomy.calibration.estimate import (
    Curves,
    Estimates,
    MarginalEstimates,
    Margins,
    MetricsEstimates,
    Pairs,
    ThresholdsEstimates,
)
from isonomy.calibration.plan import MarginalPlan, MetricsPlan, Plan, ThresholdsPlan
from isonomy.calibration.smoothing.orders import Order
from isonomy.calibration.tally import Tally, ThresholdsTally
from isonomy.frames import Group
from isonomy.inference import rejected, settle
from isonomy.inference.multiplicity import smallest
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.results import Call, Columns, GroupResult, Result, Status, Verdict, storable
from isonomy.results.shape import as_frame, read_only

if TYPE_CHECKING:
    import altair as alt

MOST_PAIRS = 5  # in the findings
storable(Order)


@dataclass(frozen=True, eq=False, kw_only=True)
class Family(ABC):
    """What the families of both tests share: pairs of groups, their verdicts, and how they are laid out."""

    __slots__ = ()  # its fields have theirs in the two families
    # Numbers that are withheld with a small group, and with a pair that has one.
    of_groups: ClassVar[tuple[str, ...]] = ("size", "users", "effective")
    of_pairs: ClassVar[tuple[str, ...]] = ("difference", "low", "high", "pair_pvalue", "pair_adjusted")

    groups: tuple[Group, ...]
    size: FloatArray
    effective: FloatArray
    pairs: IntArray
    difference: FloatArray
    low: FloatArray
    high: FloatArray
    pair_adjusted: FloatArray
    pair_verdicts: tuple[Verdict, ...]
    verdict: Verdict

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(cls, estimates: Pairs, decisions: FamilyDecisions) -> Self:
        """The estimates of a family as they are, with what was shown; its p-value is the adjusted one."""
        numbers: dict[str, Any] = {item.name: getattr(estimates, item.name) for item in fields(estimates)}
        numbers |= {"pvalue": decisions.pvalue, "pair_adjusted": decisions.adjusted}
        return cls(**numbers, pair_verdicts=decisions.verdicts, verdict=decisions.verdict)

    @abstractmethod
    def table(self) -> Columns:
        """One row for each pair of groups (and grid point)."""

    def without(self, small: BoolArray) -> Self:
        """A copy that withholds the numbers of the groups marked ``small``."""
        concerned = small[self.pairs].any(axis=1)
        masks = dict.fromkeys(self.of_groups, small) | dict.fromkeys(self.of_pairs, concerned)
        changes: dict[str, Any] = {n: np.where(mask, np.nan, getattr(self, n).T).T for n, mask in masks.items()}
        return replace(self, **changes)

    @property
    def supported(self) -> BoolArray:
        """Where each pair is compared: enough users near the score in both groups."""
        return np.isfinite(self.difference)

    def labels(self, pair: int) -> tuple[str, str]:
        """The names of the two groups of a pair."""
        i, j = self.pairs[pair]
        return self.groups[i].label, self.groups[j].label

    def ranked(self) -> list[int]:
        """The compared pairs whose verdict is the family's, by adjusted p-value; then the others."""
        others = np.array([verdict is not self.verdict for verdict in self.pair_verdicts])
        order = [int(pair) for pair in np.lexsort([self.pair_adjusted, others])]
        return [pair for pair in order if self.supported[pair].any() and not np.isnan(self.pair_adjusted[pair])]

    def statuses(self) -> list[Status]:
        """Of each difference."""
        hidden = np.atleast_1d(np.isnan(self.size[self.pairs]).any(axis=1))
        return [
            Status.SUPPRESSED if hide else Status.OK if known else Status.UNSUPPORTED
            for hide, row in zip(hidden, self.supported.reshape(len(self.pairs), -1), strict=True)
            for known in row
        ]

    def numbers(self, estimates: Sequence[FloatArray], errors: Sequence[FloatArray]) -> dict[str, FloatArray]:
        """The columns of both tests' tables.

        ``estimates``: of each group, with the ends of their intervals; ``errors``: the differences' standard errors,
        p-values and adjusted p-values.
        """
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        columns = {f"estimate{end}": values[i] for end, values in zip(_ENDS, estimates, strict=True)}
        columns |= {f"reference{end or '_estimate'}": values[j] for end, values in zip(_ENDS, estimates, strict=True)}
        se, pvalue, adjusted = errors
        columns |= {"difference": self.difference, "se": se, "ci_low": self.low, "ci_high": self.high}
        columns |= {"pvalue": pvalue, "adjusted_pvalue": adjusted}
        columns |= {"effective_n": self.effective[i], "reference_effective_n": self.effective[j]}
        return {name: values.ravel() for name, values in columns.items()}


_ENDS = ("", "_low", "_high")


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityFamily(Family, Curves):
    """Curves, bands and tests for the groups made by one set of dimensions.

    Arrays are (groups, points) or (pairs, points). Curves have pointwise intervals, differences bands that hold at all
    supported points together; unsupported points are NaN.
    """

    of_groups: ClassVar[tuple[str, ...]] = (*Family.of_groups, "curve", "curve_low", "curve_high")
    of_pairs: ClassVar[tuple[str, ...]] = (*Family.of_pairs, "se", "pvalue_at", "adjusted_at", "pair_statistic")

    def without(self, small: BoolArray) -> Self:
        """A copy that withholds the numbers of the groups marked ``small``."""
        concerned = self.order.better >= 0 and (small[self.order.better] or small[self.order.worse])
        return replace(Family.without(self, small), order=Order(self.order.pvalue) if concerned else self.order)

    def table(self) -> Columns:
        """One row for each pair of groups and grid point."""
        points, size = self.grid.size, len(self.pairs)
        curves = (self.curve, self.curve_low, self.curve_high)
        return {
            "group": [self.groups[g].label for g in self.pairs[:, 0] for _ in range(points)],
            "reference": [self.groups[g].label for g in self.pairs[:, 1] for _ in range(points)],
            "score": np.tile(self.grid, size),
            **self.numbers(curves, (self.se, self.pvalue_at, self.adjusted_at)),
            "bandwidth": np.tile(self.bandwidth, size),
            "status": self.statuses(),
        }

    def findings(self, alpha: float, tolerance: float | None, families: int) -> list[str]:
        """The family's test, its clearest pairs, and the order."""
        if not self.supported.any():
            return [wording.not_compared(self.dimensions)]
        sizes = (len(self.groups), self.grid.size, families)
        first = wording.family_finding(self.dimensions, self.verdict, self.pvalue, tolerance, *sizes)
        return [first, *(self._pair(pair, alpha) for pair in self.ranked()[:MOST_PAIRS]), self._order(alpha)]

    def _pair(self, pair: int, alpha: float) -> str:
        at = int(np.nanargmax(np.abs(self.difference[pair] / self.se[pair])))
        ends = self.low[pair, at], self.high[pair, at]
        tested = self.labels(pair), self.pair_verdicts[pair], self.pair_adjusted[pair]
        return wording.pair_finding(*tested, self.grid[at], self.difference[pair, at], ends, alpha)

    def _order(self, alpha: float) -> str:
        order = self.order
        if order.better < 0 or not rejected(order.pvalue, alpha):
            return wording.order_not_shown(order.pvalue)
        better, worse = self.groups[order.better].label, self.groups[order.worse].label
        return wording.order_reversed(order.pvalue, better, order.at, order.difference, worse, order.above)


@storable
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalFamily(Family, Margins):
    """Outcomes at the threshold for the groups made by one set of dimensions, and their differences by pair."""

    of_groups: ClassVar[tuple[str, ...]] = (*Family.of_groups, "estimate", "se", "estimate_low", "estimate_high")
    of_pairs: ClassVar[tuple[str, ...]] = (*Family.of_pairs, "difference_se")

    def table(self) -> Columns:
        """One row for each pair of groups."""
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        estimates = (self.estimate, self.estimate_low, self.estimate_high)
        return {
            "group": [self.groups[g].label for g in i],
            "reference": [self.groups[g].label for g in j],
            "n": self.size[i],
            "reference_n": self.size[j],
            **self.numbers(estimates, (self.difference_se, self.pair_pvalue, self.pair_adjusted)),
            "verdict": self.pair_verdicts,
            "status": self.statuses(),
        }

    def findings(self, alpha: float) -> list[str]:
        """Each pair, then the outcome at the threshold by group."""
        findings = [self._pair(pair, alpha) for pair in self.ranked()[:MOST_PAIRS]]
        if not self.supported.any():
            findings.append(wording.not_compared(self.dimensions, margin=True))
        numbers = zip(self.groups, self.estimate, self.estimate_low, self.estimate_high, self.size, strict=True)
        return findings + [
            wording.group_margin(group.label, estimate, (low, high), alpha, rows)
            for group, estimate, low, high, rows in numbers
            if not np.isnan(estimate)
        ]

    def _pair(self, pair: int, alpha: float) -> str:
        tested = self.labels(pair), self.pair_verdicts[pair], self.pair_adjusted[pair]
        return wording.margin_finding(*tested, self.difference[pair], (self.low[pair], self.high[pair]), alpha)


F = TypeVar("F", ParityFamily, MarginalFamily)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tested(Result, Generic[F]):
    """What the results of both tests share."""

    references: ClassVar[tuple[str, ...]] = wording.REFERENCES

    families: tuple[F, ...]
    pvalue: float
    alpha: float
    test: str
    clustered: bool
    minimum: int = 0  # groups with fewer rows are withheld

    def table(self) -> Columns:
        """One row for each pair of groups (and grid point), family after family."""
        parts = [family.table() for family in self.families]
        columns = {name: [part[name] for part in parts] for name in parts[0]}
        return {
            name: np.concatenate(values) if isinstance(values[0], np.ndarray) else list(chain(*values))  # type: ignore[arg-type]
            for name, values in columns.items()
        }

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return (wording.independent(self.clustered), *self.always_assumed)

    def deciding_first(self) -> list[F]:
        """The families; what decides the verdict comes first.

        One family that was not compared keeps all from being within tolerance.
        """
        return sorted(self.families, key=lambda f: (f.verdict is not self.verdict, np.nan_to_num(f.pvalue, nan=np.inf)))

    def suppressed(self, minimum: int) -> Self:
        """A copy that withholds groups with fewer than ``minimum`` rows (from the threshold up)."""
        families = tuple(family.without(family.size < minimum) for family in self.families)
        return replace(self, families=families, minimum=minimum)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ParityResult(Tested[ParityFamily]):
    """Whether a score means the same thing for every group; see `isonomy.predictive_parity`."""

    question: ClassVar[str] = wording.PARITY_QUESTION
    method: ClassVar[str] = wording.PARITY_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.PARITY_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = wording.PARITY_LIMITS

    tolerance: float | None
    level: str

    @classmethod
    def of(cls, call: Call, plan: Plan, tally: Tally, estimates: Estimates, decisions: Decisions) -> ParityResult:
        """Lay out what was found."""
        parts = zip(estimates.families, decisions.families, decisions.orders, strict=True)
        return cls.gather(
            decisions,
            plan,
            plan.rows,
            null=wording.parity_null(plan.rows.level, plan.tolerance),
            provenance=call.provenance(rows=tally.rows, dropped=tally.dropped, level=plan.rows.level),
            families=tuple(
                ParityFamily.of(replace(curves, order=replace(curves.order, pvalue=order)), own)
                for curves, own, order in parts
            ),
            test=plan.method,
            clustered=plan.rows.user is not None,
        )

    @property
    def ordering_pvalue(self) -> float:
        """P-value of the order (Definition 2): the smallest of the families', each adjusted for all of them."""
        return smallest([family.order.pvalue for family in self.families])

    @property
    def ordering_verdict(self) -> Verdict:
        """Violation if a reversed order was shown."""
        return settle(self.ordering_pvalue, self.alpha)[0]

    def findings(self) -> tuple[str, ...]:
        """Each family's test, its largest differences, and the order."""
        several = len(self.families)
        return tuple(chain(*(f.findings(self.alpha, self.tolerance, several) for f in self.deciding_first())))

    def plot(
        self, beside: ParityResult | None = None, names: tuple[str, str] = ("before", "after")
    ) -> alt.TopLevelMixin:
        """Curves with intervals, and differences with their bands and the null.

        With ``beside`` another result, the curves of both side by side: before and after a correction, or user level
        against aggregate; ``names`` are their titles.
        """
        from isonomy.calibration import figure

        if beside is not None:
            return figure.side_by_side(list(zip(self.families, beside.families, strict=False)), names)
        return figure.parity(self.families, pointwise=self.provenance.options.get("adjust") == "none")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MarginalResult(Tested[MarginalFamily]):
    """Outcomes of those at the threshold, by group; see `isonomy.marginal_outcomes`."""

    question: ClassVar[str] = wording.MARGINAL_QUESTION
    method: ClassVar[str] = wording.MARGINAL_METHOD
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.MARGINAL_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = wording.MARGINAL_LIMITS

    threshold: float

    @classmethod
    def of(
        cls, call: Call, plan: MarginalPlan, tally: Tally, estimates: MarginalEstimates, decisions: Decisions
    ) -> MarginalResult:
        """Lay out what was found."""
        parts = zip(estimates.families, decisions.families, strict=True)
        return cls.gather(
            decisions,
            plan,
            null=wording.marginal_null(plan.threshold, plan.tolerance),
            provenance=call.provenance(rows=tally.rows, dropped=tally.dropped, random=False, level=plan.rows.level),
            families=tuple(MarginalFamily.of(*part) for part in parts),
            test=plan.method,
            clustered=plan.rows.user is not None,
        )

    def findings(self) -> tuple[str, ...]:
        """Each pair, then the outcome at the threshold by group."""
        return tuple(chain(*(family.findings(self.alpha) for family in self.deciding_first())))

    def plot(self) -> alt.TopLevelMixin:
        """The outcome at the threshold in each group, with its interval."""
        from isonomy.calibration import figure

        return figure.marginal(self.families)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ThresholdsResult(GroupResult):
    """Group thresholds with equal marginal outcomes; see `isonomy.equalize_thresholds`."""

    question: ClassVar[str] = wording.THRESHOLDS_QUESTION
    method: ClassVar[str] = wording.THRESHOLDS_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.THRESHOLDS_ASSUMPTIONS
    never_shown: ClassVar[tuple[str, ...]] = wording.THRESHOLDS_LIMITS
    columns: ClassVar[tuple[str, ...]] = (
        *("size", "threshold", "new_threshold", "marginal_before", "marginal_after", "marginal_se"),
        *("rate_before", "rate_after", "status"),
    )
    fields_shown: ClassVar[Mapping[str, str]] = {"new_threshold": "thresholds"}
    counts: ClassVar[tuple[str, ...]] = ("size",)
    withheld: ClassVar[tuple[str, ...]] = (
        *("thresholds", "marginal_before", "marginal_after", "marginal_se", "rate_before", "rate_after", "size"),
    )

    size: FloatArray
    threshold: float
    thresholds: FloatArray
    marginal_before: FloatArray
    marginal_after: FloatArray
    marginal_se: FloatArray
    target: float
    rate_before: FloatArray
    rate_after: FloatArray
    overall_before: float
    overall_after: float
    direction: str

    @classmethod
    def of(
        cls,
        call: Call,
        plan: ThresholdsPlan,
        tally: ThresholdsTally,
        estimates: ThresholdsEstimates,
        decisions: ThresholdsDecisions,
    ) -> ThresholdsResult:
        """Lay out the thresholds and what they do."""
        selected, rows = estimates.selected, round(float(estimates.selected.rows.sum()))
        return cls.gather(
            decisions,
            estimates,
            plan,
            null=wording.THRESHOLDS_NULL,
            verdict=Verdict.INCONCLUSIVE,
            provenance=call.provenance(rows=rows, dropped=tally.dropped, random=False, level=plan.rows.level),
            size=selected.rows,
            marginal_before=estimates.outcomes.before,
            marginal_after=estimates.outcomes.after,
            rate_before=selected.rates[0],
            rate_after=selected.rates[1],
            overall_before=selected.overall[0],
            overall_after=selected.overall[1],
        )

    def summary(self) -> str:
        """The thresholds in words. Nothing is tested, so there is no verdict to give."""
        return wording.threshold_summary([self.question, *self.findings(), *self.warnings, *self.limits()])

    def findings(self) -> tuple[str, ...]:
        """The thresholds and what they do."""
        feasible = Status.INFEASIBLE not in self.status
        common = wording.common_margin(self.target, self.overall_before, self.overall_after, feasible=feasible)
        return common, *(
            wording.threshold_finding(
                label,
                self.status[k],
                (self.threshold, self.thresholds[k]),
                (self.marginal_before[k], self.marginal_after[k]),
                (self.rate_before[k], self.rate_after[k]),
            )
            for k, label in enumerate(self.labels)
        )

    def plot(self) -> alt.TopLevelMixin:
        """Thresholds before and after, with the outcome at each."""
        from isonomy.calibration import figure

        return figure.thresholds(self)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CalibrationMetrics:
    """One row for each score and group (``overall`` first): see `calibration_metrics`."""

    score: tuple[str, ...]
    group: tuple[str, ...]
    size: FloatArray  # rows
    calibration_error: FloatArray
    parity_error: FloatArray
    ece: FloatArray
    auc: FloatArray
    dropped: Mapping[str, int]  # rows left out, by the column whose value is missing
    backend: str = "polars"
    warnings: tuple[str, ...] = ()  # why some numbers are NaN

    def __post_init__(self) -> None:
        read_only(self)

    @classmethod
    def of(
        cls,
        call: Call,
        plan: MetricsPlan,
        tallies: Mapping[str, Tally],
        estimates: MetricsEstimates,
        warnings: tuple[str, ...],
    ) -> CalibrationMetrics:
        """Lay out the measures of all scores."""
        families = {name: measures.family for name, measures in estimates.scores.items()}
        values = np.concatenate([measures.values for measures in estimates.scores.values()])
        return cls(
            score=tuple(name for name, family in families.items() for _ in range(len(family.groups) + 1)),
            group=tuple(
                label
                for family in families.values()
                for label in ("overall", *(group.label for group in family.groups))
            ),
            size=np.concatenate([[family.size.sum(), *family.size] for family in families.values()]),
            calibration_error=values[:, 0],
            parity_error=values[:, 1],
            ece=values[:, 2],
            auc=values[:, 3],
            dropped={name: n for tally in tallies.values() for name, n in tally.dropped.items()},
            backend=call.source.backend,
            warnings=warnings,
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """The table in the caller's library (pandas, polars or pyarrow); polars for any other input."""
        return as_frame({item.name: getattr(self, item.name) for item in fields(self)[:7]}, backend, self.backend)
