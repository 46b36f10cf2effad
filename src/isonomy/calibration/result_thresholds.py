"""What `equalize_thresholds` returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from isonomy.calibration import wording, wording_thresholds
from isonomy.calibration.decide import ThresholdsDecisions
from isonomy.calibration.estimate_thresholds import ThresholdsEstimates, ThresholdsNumbers
from isonomy.calibration.plan import ThresholdsPlan
from isonomy.calibration.tally_thresholds import ThresholdsTally
from isonomy.numerics.arrays import AnyArray, FloatArray
from isonomy.results import Call, Columns, GroupResult, Status, Verdict

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ThresholdsResult(ThresholdsNumbers, GroupResult):
    """Group thresholds at which a metric is equal; see `isonomy.equalize_thresholds`.

    ``before``, ``after`` and ``se`` have one line for each of the ``metrics``.
    """

    question: ClassVar[str] = wording_thresholds.THRESHOLDS_QUESTION
    method: ClassVar[str] = wording_thresholds.THRESHOLDS_METHOD
    references: ClassVar[tuple[str, ...]] = (*wording.REFERENCES, wording_thresholds.HARDT)
    never_shown: ClassVar[tuple[str, ...]] = wording_thresholds.THRESHOLDS_LIMITS
    counts: ClassVar[tuple[str, ...]] = ("size",)
    withheld: ClassVar[tuple[str, ...]] = (
        *("thresholds", "thresholds_low", "thresholds_high", "lottery", "lottery_low", "lottery_high", "probability"),
        *("before", "after", "se", "rate_before", "rate_after", "size"),
        *("selected_change", "selected_change_low", "selected_change_high"),
    )

    metric: str  # what was asked to be equal
    size: FloatArray
    threshold: float
    selected_change: FloatArray
    selected_change_low: FloatArray
    selected_change_high: FloatArray
    accuracy_change_low: float
    accuracy_change_high: float
    direction: str
    change: str
    alpha: float
    binary: bool = False  # whether every outcome is 0 or 1
    words: Mapping[str, str] = field(default_factory=lambda: wording_thresholds.METRICS)  # what metrics are called
    chosen: str = "selected"  # what people above their threshold are

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
        gained, right = estimates.selected_change, estimates.accuracy_change
        rows = round(float(estimates.selected.lines.sum()))
        unknown = 0 if plan.outcome is None else tally.dropped.get(plan.outcome, 0)
        told = () if plan.margin or not unknown else (wording_thresholds.left_out(unknown),)
        return cls.gather(
            decisions,
            estimates,
            plan,
            null=wording_thresholds.thresholds_null(plan.target, plan.threshold, plan.words),
            provenance=call.provenance(
                rows=rows, dropped=tally.dropped, level=plan.rows.level, grouping=plan.rows.grouping
            ),
            warnings=(*told, *decisions.warnings),
            metric=plan.target,
            target=estimates.target,
            size=estimates.selected.lines,
            se=np.where(plan.margin & estimates.lowered, np.nan, estimates.se),
            selected_change=gained.value,
            selected_change_low=gained.low,
            selected_change_high=gained.high,
            accuracy_change_low=float(right.low),
            accuracy_change_high=float(right.high),
        )

    @property
    def marginal_before(self) -> FloatArray:
        """The outcomes at the present margin, if these were made equal."""
        return self._margin(self.before)

    @property
    def marginal_after(self) -> FloatArray:
        """The outcomes at the new margins, if these were made equal."""
        return self._margin(self.after)

    @property
    def marginal_se(self) -> FloatArray:
        """Their standard errors; NaN where they are extrapolated."""
        return self._margin(self.se)

    def _margin(self, values: FloatArray) -> FloatArray:
        return values[0] if self.metric == "outcome_at_margin" else np.full(len(self.groups), np.nan)

    @property
    def drawn(self) -> bool:
        """Whether a group has a lottery."""
        return bool(np.any(self.lottery < self.thresholds))

    def units(self) -> Mapping[str, str]:
        """Rates, and outcomes of 0 and 1, in percent, with errors in points."""
        names = ["marginal" if metric == "outcome_at_margin" else metric for metric in self.metrics]
        units = {"rate_before": "%", "rate_after": "%", "probability": "%"}
        for name in names if self.binary else [name for name in names if name != "marginal"]:
            units |= {f"{name}_before": "%", f"{name}_after": "%", f"{name}_se": "points"}
        return units

    def headings(self) -> Mapping[str, str]:
        """Metrics as sentences call them."""
        return wording_thresholds.headings(self.metrics, self.words)

    def table(self) -> Columns:
        """One row per group."""
        size = len(self.groups)
        columns: dict[str, Sequence[object] | AnyArray] = {"group": self.labels, "size": self.size}
        columns |= {"threshold": np.full(size, self.threshold), "new_threshold": self.thresholds}
        columns |= {"new_threshold_low": self.thresholds_low, "new_threshold_high": self.thresholds_high}
        if self.drawn:
            columns |= {"lottery": self.lottery, "lottery_low": self.lottery_low, "lottery_high": self.lottery_high}
            columns |= {"probability": self.probability}
        for k, metric in enumerate(self.metrics):
            name = "marginal" if metric == "outcome_at_margin" else metric
            columns |= {f"{name}_before": self.before[k], f"{name}_after": self.after[k], f"{name}_se": self.se[k]}
        columns |= {"rate_before": self.rate_before, "rate_after": self.rate_after}
        names = ("selected_change", "selected_change_low", "selected_change_high", "status")
        return columns | {name: getattr(self, name) for name in names}

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """Of all targets, and of outcomes at the margin."""
        own = wording_thresholds.MARGIN_ASSUMPTIONS if self.metric == "outcome_at_margin" else ()
        return (*wording_thresholds.THRESHOLDS_ASSUMPTIONS, *own)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return (*self.never_shown, *([wording_thresholds.EXTRAPOLATED] if Status.EXTRAPOLATED in self.status else []))

    @property
    def _moved(self) -> list[int]:
        """Places of the groups that get another threshold, as far as they are told."""
        others = (self.thresholds != self.threshold) & ~np.isnan(self.size)
        return [int(k) for k in np.flatnonzero(others)]

    def headline(self) -> str:
        """What was shown of the present threshold, and what was done."""
        moved = bool(self._moved)
        return wording_thresholds.thresholds_headline(self.verdict is Verdict.VIOLATION, moved, self.change)

    def findings(self) -> tuple[str, ...]:
        """The common value, the thresholds and what they do, and what they cost."""
        feasible = Status.INFEASIBLE not in self.status
        findings = [
            wording_thresholds.common_target(
                *(self.metric, self.target, self.overall_before, self.overall_after),
                binary=self.binary,
                feasible=feasible,
                moved=bool(self._moved),
                words=self.words,
                chosen=self.chosen,
            )
        ]
        told = [k for k, status in enumerate(self.status) if status is not Status.SUPPRESSED]
        blocks = [[self.labels[k] for k in told if self.blocks[k] == block] for block in range(self.blocks.max() + 1)]
        if self._moved and any(len(block) > 1 for block in blocks):
            findings.append(wording_thresholds.shared([block for block in blocks if len(block) > 1]))
        for k in told:
            label = self.labels[k]
            by_lot = self.lottery[k] < self.thresholds[k]
            findings.append(
                wording_thresholds.threshold_finding(
                    label,
                    self.status[k],
                    (self.threshold, self.thresholds[k]),
                    (self.thresholds_low[k], self.thresholds_high[k]),
                    (self.lottery[k], self.probability[k]) if by_lot else None,
                    [(name, (self.before[j, k], self.after[j, k])) for j, name in enumerate(self.metrics)],
                    (self.rate_before[k], self.rate_after[k]),
                    self.alpha,
                    binary=self.binary,
                    words=self.words,
                )
            )
        moved = self._moved
        for k in moved:
            ends = (self.selected_change_low[k], self.selected_change_high[k])
            change = self.selected_change[k]
            findings.append(wording_thresholds.selected_finding(self.labels[k], change, ends, self.alpha, self.chosen))
        if moved and not np.isnan(self.accuracy_after):
            ends = (self.accuracy_change_low, self.accuracy_change_high)
            accuracy = (self.accuracy_before, self.accuracy_after)
            findings.append(wording_thresholds.cost_finding(*accuracy, ends, self.alpha))
        return tuple(findings)

    def plot(self) -> alt.TopLevelMixin:
        """Thresholds before and after, with the metric at each."""
        from isonomy.calibration import figure

        return figure.thresholds(self)
