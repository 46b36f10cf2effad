"""Frozen results: errors and biases of groups, and the evaluation of corrections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.results import Call, Columns, GroupResult, Result, Verdict
from isonomy.treatment import wording
from isonomy.treatment.decide import CorrectionsDecisions, Decisions, PriceDecisions
from isonomy.treatment.effects.collapse import Measure
from isonomy.treatment.effects.price import QUANTITIES
from isonomy.treatment.effects.shrinkage import name_of
from isonomy.treatment.estimate import BiasNumbers, Estimates
from isonomy.treatment.estimate_corrections import CorrectionsEstimates, CorrectionsNumbers
from isonomy.treatment.estimate_price import PriceEstimates, PriceNumbers
from isonomy.treatment.plan import CorrectionsPlan, Plan, PricePlan
from isonomy.treatment.tally import PriceTally, Tally

if TYPE_CHECKING:
    import altair as alt

Quantity = Literal["bias", "error"]

# The documented table, in order: each name is a field of the result.
_ERROR = ("error", "error_se", "error_low", "error_high", "error_pvalue")
_BIAS = ("bias", "bias_se", "bias_low", "bias_high", "bias_pvalue")
_NUMBERS = ("n", "predicted", "observed", *_ERROR, *_BIAS, "adjusted_pvalue")
_REMAINING = (
    *("error_mean", "error_rms", "error_mae", "error_rejected"),
    *("bias_mean", "bias_rms", "bias_mae", "bias_rejected", "bias_left", "less_pvalue"),
)
_FURTHER = ("treated", "error_adjusted_pvalue", "critical_bias", "detectable_bias")


def shares_of(plan: Plan) -> wording.Shares:
    """How the comparison of a group with the others takes it that treated shares differ."""
    return "propensity" if plan.propensity is not None else plan.formula.rest


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TreatmentBiasResult(BiasNumbers, GroupResult):
    """Error of each group's predicted effect, and its bias against all other groups. One entry per group.

    ``error`` is predicted minus observed; ``bias`` is the group's error minus that of the others. ``critical_bias`` is
    the smallest estimate that rejects (half of the time a true bias of that size does); ``detectable_bias`` the true
    bias found with probability ``power``. Both are before adjustment.
    """

    question: ClassVar[str] = wording.QUESTION
    method: ClassVar[str] = wording.METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    decisive: ClassVar[tuple[str, ...]] = ("adjusted_pvalue",)
    columns: ClassVar[tuple[str, ...]] = (*_NUMBERS, "verdict", "status", *_FURTHER)
    withheld: ClassVar[tuple[str, ...]] = (*_NUMBERS, *_FURTHER, "statistic", "rest_error", "events")

    error_adjusted_pvalue: FloatArray
    adjusted_pvalue: FloatArray
    verdicts: tuple[Verdict, ...]
    measure: Measure
    alpha: float
    tolerance: float | None
    power: float
    experiment: bool
    shares: wording.Shares  # how the comparison takes that

    @classmethod
    def of(cls, call: Call, plan: Plan, tally: Tally, estimates: Estimates, decisions: Decisions) -> Self:
        """The result of a call."""
        formula = plan.formula
        return cls.gather(
            decisions,
            estimates,
            plan,
            null=wording.null(plan.tolerance, formula.measure),
            provenance=call.provenance(
                rows=tally.rows,
                dropped=tally.dropped,
                random=plan.random,
                measure=formula.measure,
                collapse=formula.collapse,
                features=plan.features,
            ),
            measure=formula.measure,
            experiment=plan.observed_effects is None,
            shares=shares_of(plan),
        )

    def findings(self) -> tuple[str, ...]:
        """The count of shown biases, then groups by adjusted p-value, the smallest first."""
        tested = np.isfinite(self.adjusted_pvalue)
        order = np.lexsort((-np.abs(self.statistic), self.adjusted_pvalue))
        shown = [self.labels[i] for i in order if self.verdicts[i] is Verdict.VIOLATION]
        within = sum(v is Verdict.WITHIN_TOLERANCE for v in self.verdicts)
        sentences = [wording.count(shown, within, int(tested.sum()))]
        sentences += [self._finding(i) for i in order if tested[i]]
        omnibus = zip(self.families, self.omnibus_statistic, self.omnibus_pvalue, strict=True)
        sentences += [wording.omnibus(name, q, p) for name, q, p in omnibus if np.isfinite(p)]
        detectable = self.detectable_bias[np.isfinite(self.detectable_bias)]
        if len(detectable):
            sentences.append(wording.detectable(detectable.min(), detectable.max(), self.power, self._unit))
        return tuple(sentences)

    def _finding(self, i: int) -> str:
        return wording.finding(
            self.groups[i].label,
            unit=self._unit,
            rows=self.n[i],
            predicted=self.predicted[i],
            observed=self.observed[i],
            error=self.error[i],
            rest_error=self.rest_error[i],
            bias=self.bias[i],
            limits=(self.bias_low[i], self.bias_high[i]),
            alpha=self.alpha,
            pvalue=self.adjusted_pvalue[i],
            verdict=self.verdicts[i],
        )

    def units(self) -> Mapping[str, str]:
        """Differences of shares are in points."""
        names = ("predicted", "observed", "error", "error_low", "error_high", "bias", "bias_low", "bias_high")
        further = ("error_se", "bias_se", "critical_bias", "detectable_bias")
        return dict.fromkeys((*names, *further), "points") if self._unit == "points" else {}

    @property
    def _unit(self) -> wording.Unit:
        return wording.unit(self.measure, binary=self.binary)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return wording.assumptions(self.experiment, self.arms_differ, self.rows_assumed(), self.shares)

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return wording.limits(self.measure)

    def plot(self, quantity: Quantity = "bias") -> alt.TopLevelMixin:
        """Biases (or ``quantity="error"``) by group with their intervals."""
        from isonomy.treatment.figure import groups

        return groups(self, quantity)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsResult(CorrectionsNumbers, GroupResult):
    """What remains of group errors and biases after each correction, on rows it has not seen.

    Axes: strategy, then split and swap (``runs``), then group. Densities are over groups, runs and bootstrap
    replicates, in units of the standard deviation before correction, as in the paper's Figures 1 and 3.
    """

    question: ClassVar[str] = wording.EVALUATION_QUESTION
    method: ClassVar[str] = wording.EVALUATION_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    never_shown: ClassVar[tuple[str, ...]] = wording.EVALUATION_LIMITS
    withheld: ClassVar[tuple[str, ...]] = (
        *("n", "factor", "error", "bias", "bias_se", "error_pvalue", "bias_pvalue", "detection_statistic"),
    )
    decisive: ClassVar[tuple[str, ...]] = ("less_pvalue",)

    strategies: tuple[str, ...]
    factor: FloatArray  # (strategy, run, group): share of the detected error that was subtracted
    error: FloatArray  # (strategy, run, group): remaining error on held-out rows
    bias: FloatArray
    bias_se: FloatArray
    error_pvalue: FloatArray  # test (50)
    bias_pvalue: FloatArray  # test (51)
    detection_statistic: FloatArray  # (run, group): t statistics of bias before correction, on the detection rows
    density_at: FloatArray  # (point,), in standard deviations before correction
    error_density: FloatArray  # (strategy, point)
    bias_density: FloatArray
    error_scale: float  # the standard deviations the densities are measured in
    bias_scale: float
    less_pvalue: FloatArray  # that no less bias is left than without correction, adjusted over strategies
    shown: tuple[bool, ...]  # whether less was shown to be left
    best: str
    alpha: float
    shares: wording.Shares

    @classmethod
    def of(
        cls,
        call: Call,
        plan: CorrectionsPlan,
        tally: Tally,
        estimates: CorrectionsEstimates,
        decisions: CorrectionsDecisions,
    ) -> Self:
        """The result of a call."""
        return cls.gather(
            decisions,
            estimates,
            estimates.remainders,
            plan,
            plan.errors,
            null=wording.EVALUATION_NULL,
            provenance=call.provenance(
                rows=tally.rows,
                dropped=tally.dropped,
                grouping=plan.errors.grouping,
                measure=plan.errors.formula.measure,
                collapse=plan.errors.formula.collapse,
                strategies=tuple(map(name_of, plan.strategies)),
            ),
            strategies=tuple(map(name_of, plan.strategies)),
            shares=shares_of(plan.errors),
            detection_statistic=estimates.statistic,
            density_at=estimates.bias_densities.at,
            error_density=estimates.error_densities.density,
            bias_density=estimates.bias_densities.density,
            error_scale=estimates.error_densities.scale,
            bias_scale=estimates.bias_densities.scale,
        )

    def spread(self, quantity: Quantity = "bias") -> FloatArray:
        """Root mean square of what remains, over groups and runs; one entry per strategy."""
        return self.bias_rms if quantity == "bias" else self.error_rms

    def rejected(self, quantity: Quantity = "bias") -> FloatArray:
        """Share of tests of what remains that reject, over groups and runs; one entry per strategy."""
        return self.bias_rejected if quantity == "bias" else self.error_rejected

    def table(self) -> Columns:
        """One row per strategy."""
        return {
            "strategy": list(self.strategies),
            "factor": self.factor_mean,
            **{name: getattr(self, name) for name in _REMAINING},
        }

    def headline(self) -> str:
        """Whether less bias was shown to be left."""
        if not self.answered and len(self.strategies) > 1:
            return super(CorrectionsResult, self).headline()
        return wording.less(sum(self.shown), len(self.strategies) - 1, self.best)

    def findings(self) -> tuple[str, ...]:
        """One sentence per strategy, the best first."""
        if not self.answered and len(self.strategies) > 1:
            return ()
        none = self.strategies.index("none")
        return tuple(
            wording.unchanged(self.bias_left[i], self.bias_rms[i], self.bias_rejected[i], self.alpha)
            if i == none
            else wording.remaining(
                self.strategies[i],
                left=self.bias_left[i],
                before=self.bias_left[none],
                raw=self.bias_rms[i],
                rejected=self.bias_rejected[i],
                alpha=self.alpha,
                pvalue=self.less_pvalue[i],
            )
            for i in np.lexsort((self.bias_rms, self.bias_left))
        )

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return wording.assumptions(True, self.arms_differ, self.rows_assumed(), self.shares)[:3]

    def plot(self, quantity: Literal["bias", "error", "statistic"] = "bias") -> alt.TopLevelMixin:
        """Densities of what remains ("bias", "error"), or t statistics before correction ("statistic")."""
        from isonomy.treatment.figure import densities, statistics

        return statistics(self) if quantity == "statistic" else densities(self, quantity)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PriceResult(PriceNumbers, Result):
    """What corrected effects cost in the ranking of persons. Axes: corrected column, then quantity.

    Quantities: ``qini``, ``loss`` (transformed-outcome; less is better) and ``policy_value`` at the budget.
    """

    question: ClassVar[str] = wording.PRICE_QUESTION
    method: ClassVar[str] = wording.PRICE_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES[:1]
    never_shown: ClassVar[tuple[str, ...]] = wording.PRICE_LIMITS
    decisive: ClassVar[tuple[str, ...]] = ("adjusted_pvalue",)

    corrected: tuple[str, ...]
    quantities: tuple[str, ...]
    adjusted_pvalue: FloatArray
    shown: tuple[tuple[bool, ...], ...]
    budget: float
    alpha: float
    shares: wording.Shares

    @classmethod
    def of(
        cls, call: Call, plan: PricePlan, tally: PriceTally, estimates: PriceEstimates, decisions: PriceDecisions
    ) -> Self:
        """The result of a call."""
        return cls.gather(
            decisions,
            estimates,
            plan,
            plan.errors,
            null=wording.PRICE_NULL,
            provenance=call.provenance(
                rows=tally.rows,
                dropped=tally.dropped,
                random=False,
                grouping=plan.errors.grouping,
                measure=plan.errors.formula.measure,
            ),
            quantities=QUANTITIES,
            shares="one share" if plan.propensity is None else "propensity",
        )

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        return wording.assumptions(True, self.arms_differ, self.rows_assumed(), self.shares)[:3]

    def table(self) -> Columns:
        """One row per column and quantity."""
        pairs = [(i, j) for i in range(len(self.corrected)) for j in range(len(self.quantities))]
        names = ("after", "change", "change_se", "change_low", "change_high", "adjusted_pvalue")
        return {
            "corrected": [self.corrected[i] for i, _ in pairs],
            "quantity": [self.quantities[j] for _, j in pairs],
            "before": np.array([self.before[j] for _, j in pairs]),
            **{name: np.array([getattr(self, name)[i, j] for i, j in pairs]) for name in names},
            "bias_before": np.full(len(pairs), self.bias_before),
            "bias_after": np.array([self.bias_after[i] for i, _ in pairs]),
        }

    def headline(self) -> str:
        """How many changes were shown."""
        if not self.answered:
            return super(PriceResult, self).headline()
        return wording.price_headline(sum(map(sum, self.shown)), int(np.isfinite(self.adjusted_pvalue).sum()))

    def findings(self) -> tuple[str, ...]:
        """For each column what is left of the bias, and what changed."""
        sentences = []
        for i, column in enumerate(self.corrected):
            sentences.append(wording.trade(column, self.bias_before, self.bias_after[i]))
            for j, name in enumerate(self.quantities):
                ends = (self.change_low[i, j], self.change_high[i, j])
                if np.isfinite(self.change[i, j]):
                    sentences.append(wording.price(column, name, self.before[j], self.change[i, j], ends, self.alpha))
        return tuple(sentences)

    def plot(self, quantity: Literal["qini", "loss", "policy_value"] = "policy_value") -> alt.TopLevelMixin:
        """The trade-off: bias left on one axis, the change of a quantity with its interval on the other."""
        from isonomy.treatment.figure import trade

        return trade(self, quantity)
