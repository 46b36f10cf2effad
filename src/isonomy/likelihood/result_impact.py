"""What `adverse_impact` returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from isonomy.inference import Verdict
from isonomy.likelihood import wording_impact as wording
from isonomy.likelihood.decide_impact import ImpactDecisions
from isonomy.likelihood.estimate_impact import ImpactEstimates, ImpactNumbers
from isonomy.likelihood.plan_impact import ImpactPlan
from isonomy.likelihood.tally_impact import ImpactTally
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.status import Status
from isonomy.results import Call, Columns, GroupResult, phrases

if TYPE_CHECKING:
    import altair as alt

MOST_GROUPS = 1_000  # categories described in words; the table has them all


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class AdverseImpactResult(ImpactNumbers, GroupResult):
    """The table of impact ratios, one row per category of every table, and what the data show of them.

    ``unknown`` is the number of rows without a category in each table. With a score, ``cutoffs`` are quantiles of all
    scores, and ``cutoff_ratio``, ``cutoff_low``, ``cutoff_high`` (cut-offs x categories) the ratios there with a
    simultaneous band.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = wording.LIMITS
    decisive: ClassVar[tuple[str, ...]] = ("below_pvalue",)
    columns: ClassVar[tuple[str, ...]] = (
        *("n", "selected", "rate", "impact_ratio", "ci_low", "ci_high", "difference", "pvalue", "shortfall"),
        *("verdict", "status", "comparator", "below_threshold", "difference_shown", "below_pvalue"),
        *("at_least_pvalue", "adjusted_pvalue", "shortfall_parity", "bound_low", "bound_high"),
    )
    withheld: ClassVar[tuple[str, ...]] = (
        *("n", "selected", "rate", "impact_ratio", "ci_low", "ci_high", "difference", "pvalue", "shortfall"),
        *("below_pvalue", "at_least_pvalue", "adjusted_pvalue", "shortfall_parity", "bound_low", "bound_high"),
        *("cutoff_ratio", "cutoff_low", "cutoff_high"),
    )

    threshold: float
    alpha: float
    median: float | None
    named: bool
    unknown: Mapping[str, int]
    verdicts: tuple[Verdict, ...]
    below_threshold: BoolArray
    difference_shown: BoolArray
    adjusted_pvalue: FloatArray
    cutoffs: FloatArray
    chosen: str = "selected"

    @classmethod
    def of(
        cls, call: Call, plan: ImpactPlan, sums: ImpactTally, estimates: ImpactEstimates, decisions: ImpactDecisions
    ) -> AdverseImpactResult:
        """Lay out what was estimated and decided."""
        dropped = phrases.dropped(sums.dropped)
        return cls.gather(
            decisions,
            estimates,
            sums,
            plan,
            null=wording.null(plan.threshold),
            warnings=(*([dropped] if dropped else []), *decisions.warnings),
            provenance=call.provenance(rows=sums.rows, dropped=sums.dropped, random=plan.by_row),
            tables=estimates.tables,
            named=plan.reference is not None,
            unknown={counts.name: round(counts.unknown) for counts in sums.tables},
            adjusted_pvalue=decisions.adjusted,
        )

    def given_away(self, references: BoolArray, shown: BoolArray) -> bool:
        """Whether a comparison that is shown, in the same table, gives one of the withheld ``references`` away."""
        tables = np.array(self.tables)
        return bool(np.isin(tables[references], tables[shown]).any())

    def suppressed(self, minimum: int, also: Collection[str] = ()) -> Self:
        """A copy that withholds the numbers of small categories and of those in ``also``, and what was said of them."""
        hidden = GroupResult.suppressed(self, minimum, also)
        shown = np.array([status is not Status.SUPPRESSED for status in hidden.status], dtype=bool)
        return replace(
            hidden,
            below_threshold=self.below_threshold & shown,
            difference_shown=self.difference_shown & shown,
            comparator=tuple(name if show else "" for name, show in zip(self.comparator, shown, strict=True)),
        )

    def table(self) -> Columns:
        """One row per category of every table."""
        return {"table": self.tables, **GroupResult.table(self)}

    def units(self) -> Mapping[str, str]:
        """Rates in percent, and their differences in points."""
        return {"rate": "%", "difference": "points"}

    def pages(self) -> Mapping[str, Columns]:
        """The table as it is published, then what the data show, what unknown categories leave open, shortfalls."""
        last = sorted(range(len(self.status)), key=lambda i: self.status[i] is Status.SUPPRESSED)
        whole = {name: [values[i] for i in last] for name, values in self.table().items()}
        parts = {
            wording.PUBLISHED: ("table", "group", "n", "selected", "rate", "impact_ratio", "comparator"),
            wording.SHOWN: (
                *("table", "group", "impact_ratio", "ci_low", "ci_high", "difference", "pvalue"),
                *("below_threshold", "difference_shown", "verdict", "status"),
            ),
            wording.BOUNDS: ("table", "group", "impact_ratio", "bound_low", "bound_high"),
            wording.SHORTFALLS: ("table", "group", "n", "selected", "shortfall", "shortfall_parity"),
        }
        if not any(self.unknown.values()):
            del parts[wording.BOUNDS]
        return {title: {name: whole[name] for name in names} for title, names in parts.items()}

    def findings(self) -> tuple[str, ...]:
        """Three separate facts, then the categories with the smallest ratios."""
        compared = np.flatnonzero(~np.isnan(self.impact_ratio))
        if not compared.size:
            return ()
        others = [int(i) for i in compared if self.status[i] is not Status.REFERENCE]
        shown = [i for i in others if self.verdicts[i] is Verdict.VIOLATION]
        facts = [[self.labels[i] for i in others if flag[i]] for flag in (self.below_threshold, self.difference_shown)]
        overview = wording.overview(facts[0], facts[1], [self.labels[i] for i in shown], compared.size, self.threshold)
        order = sorted(others, key=lambda i: float(self.impact_ratio[i]))[:MOST_GROUPS]
        scored = [] if self.median is None else [wording.median(self.median)]
        best = [] if self.named else [wording.BEST]
        return (overview, *scored, *(self._described(i) for i in order), *best)

    def _described(self, i: int) -> str:
        """One category in words."""
        rates = float(self.selected[i]), float(self.n[i]), float(self.rate[i])
        ratio = float(self.impact_ratio[i]), float(self.ci_low[i]), float(self.ci_high[i])
        sentences = [
            wording.finding(
                self.labels[i],
                rates,
                self.comparator[i],
                ratio,
                self.alpha,
                float(self.pvalue[i]),
                float(self.adjusted_pvalue[i]),
                self.threshold,
                self.chosen,
                weighted=self.provenance.options.get("weight") is not None,
            )
        ]
        if self.shortfall_parity[i] > 0:
            need = float(self.shortfall[i]), float(self.shortfall_parity[i])
            sentences.append(wording.shortfall(*need, self.threshold))
        if not np.isnan(self.bound_low[i]):
            sentences.append(wording.bounds(float(self.bound_low[i]), float(self.bound_high[i])))
        return " ".join(sentences)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or that it cannot be."""
        compared = wording.ASSUMED_NAMED if self.named else wording.ASSUMED_BEST
        return (self.rows_assumed(), phrases.SAMPLE, compared)

    def plot(self) -> alt.TopLevelMixin:
        """Impact ratios with intervals and the threshold; with a score, the ratios at every cut-off too."""
        from isonomy.likelihood.figure_impact import impact

        return impact(self)
