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

    ``n`` and ``selected`` count rows. With weights, ``weighted_n`` and ``weighted_selected`` count the people these
    rows stand for, and the shortfalls count the same people; without weights the two are None.

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
    weighted_n: FloatArray | None = None
    weighted_selected: FloatArray | None = None

    @classmethod
    def of(
        cls, call: Call, plan: ImpactPlan, sums: ImpactTally, estimates: ImpactEstimates, decisions: ImpactDecisions
    ) -> AdverseImpactResult:
        """Lay out what was estimated and decided."""
        dropped = phrases.dropped(sums.dropped)
        weighted = call.source.reading.weight is not None
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
            unknown={counts.name: round(counts.unknown_rows) for counts in sums.tables},
            weighted_n=estimates.weighted_n if weighted else None,
            weighted_selected=estimates.weighted_selected if weighted else None,
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
        people = [
            None if values is None else np.where(shown, values, np.nan)
            for values in (self.weighted_n, self.weighted_selected)
        ]
        return replace(
            hidden,
            weighted_n=people[0],
            weighted_selected=people[1],
            below_threshold=self.below_threshold & shown,
            difference_shown=self.difference_shown & shown,
            comparator=tuple(name if show else "" for name, show in zip(self.comparator, shown, strict=True)),
        )

    def table(self) -> Columns:
        """One row per category of every table."""
        columns = {"table": self.tables, **GroupResult.table(self)}
        if self.weighted_n is None or self.weighted_selected is None:
            return columns
        people = {"weighted_n": self.weighted_n, "weighted_selected": self.weighted_selected}
        names = [name for column in columns for name in ((column, *people) if column == "selected" else (column,))]
        return {name: (columns | people)[name] for name in names}

    def units(self) -> Mapping[str, str]:
        """Rates in percent, and their differences in points."""
        return {"rate": "%", "difference": "points"}

    def headings(self) -> Mapping[str, str]:
        """With weights, which columns count rows and which the people they stand for."""
        return {} if self.weighted_n is None else wording.WEIGHTED_HEADINGS

    def pages(self) -> Mapping[str, Columns]:
        """The table as it is published, then what the data show, what unknown categories leave open, shortfalls."""
        last = sorted(range(len(self.status)), key=lambda i: self.status[i] is Status.SUPPRESSED)
        whole = {name: [values[i] for i in last] for name, values in self.table().items()}
        people = () if self.weighted_n is None else ("weighted_n", "weighted_selected")
        parts = {
            wording.PUBLISHED: ("table", "group", "n", "selected", *people, "rate", "impact_ratio", "comparator"),
            wording.SHOWN: (
                *("table", "group", "impact_ratio", "ci_low", "ci_high", "difference", "pvalue"),
                *("below_threshold", "difference_shown", "verdict", "status"),
            ),
            wording.BOUNDS: ("table", "group", "impact_ratio", "bound_low", "bound_high"),
            wording.SHORTFALLS: ("table", "group", *(people or ("n", "selected")), "shortfall", "shortfall_parity"),
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
        people = None
        if self.weighted_n is not None and self.weighted_selected is not None:
            people = float(self.weighted_selected[i]), float(self.weighted_n[i])
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
                people=people,
            )
        ]
        if self.shortfall_parity[i] > 0:
            need = float(self.shortfall[i]), float(self.shortfall_parity[i])
            sentences.append(wording.shortfall(*need, self.threshold, weighted=people is not None))
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
