"""Frozen results: errors and biases of groups, and the evaluation of corrections."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np

from isonomy.inference import rejected
from isonomy.numerics.arrays import FloatArray
from isonomy.results import Call, Columns, GroupResult, Verdict
from isonomy.treatment import wording
from isonomy.treatment.decide import CorrectionsDecisions, Decisions
from isonomy.treatment.effects.collapse import Measure
from isonomy.treatment.estimate import CorrectionsEstimates, Estimates
from isonomy.treatment.plan import CorrectionsPlan, Plan
from isonomy.treatment.tally import Tally

if TYPE_CHECKING:
    import altair as alt

Quantity = Literal["bias", "error"]

# The documented table, in order: each name is a field of the result.
_ERROR = ("error", "error_se", "error_low", "error_high", "error_pvalue")
_BIAS = ("bias", "bias_se", "bias_low", "bias_high", "bias_pvalue")
_NUMBERS = ("n", "predicted", "observed", *_ERROR, *_BIAS, "adjusted_pvalue")
_FURTHER = ("treated", "error_adjusted_pvalue", "critical_bias", "detectable_bias")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class TreatmentBiasResult(GroupResult):
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
    withheld: ClassVar[tuple[str, ...]] = (*_NUMBERS, *_FURTHER, "statistic")

    n: FloatArray
    treated: FloatArray
    predicted: FloatArray
    observed: FloatArray
    error: FloatArray
    error_se: FloatArray
    error_low: FloatArray
    error_high: FloatArray
    error_pvalue: FloatArray
    error_adjusted_pvalue: FloatArray
    bias: FloatArray
    bias_se: FloatArray
    bias_low: FloatArray
    bias_high: FloatArray
    bias_pvalue: FloatArray
    adjusted_pvalue: FloatArray
    statistic: FloatArray
    critical_bias: FloatArray
    detectable_bias: FloatArray
    verdicts: tuple[Verdict, ...]
    measure: Measure
    alpha: float
    tolerance: float | None
    power: float
    experiment: bool

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
                collapse=formula.collapse,
                features=plan.features,
            ),
            measure=formula.measure,
            experiment=plan.observed_effects is None,
        )

    def findings(self) -> tuple[str, ...]:
        """The count of shown biases, then groups by adjusted p-value, the smallest first."""
        tested = np.isfinite(self.adjusted_pvalue)
        shown = sum(v is Verdict.VIOLATION for v in self.verdicts)
        within = sum(v is Verdict.WITHIN_TOLERANCE for v in self.verdicts)
        sentences = [wording.count(shown, within, int(tested.sum()))]
        order = np.lexsort((-np.abs(self.statistic), self.adjusted_pvalue))
        sentences += [wording.finding(self, i) for i in order[:20] if tested[i]]
        detectable = self.detectable_bias[np.isfinite(self.detectable_bias)]
        if len(detectable):
            sentences.append(wording.detectable(detectable.min(), detectable.max(), self.power))
        return tuple(sentences)

    def assumptions(self) -> tuple[tuple[str, str], ...]:
        """What is assumed, and how it was checked or why it cannot be."""
        with np.errstate(invalid="ignore"):
            share = self.treated / self.n
        share = share[np.isfinite(share)]
        return wording.assumptions(self.experiment, bool(len(share) and np.ptp(share) > 0.05))

    def limits(self) -> tuple[str, ...]:
        """What this result does not show."""
        return wording.limits(self.measure)

    def plot(self, quantity: Quantity = "bias") -> alt.TopLevelMixin:
        """Biases (or ``quantity="error"``) by group with their intervals."""
        from isonomy.treatment.figure import groups

        return groups(self, quantity)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CorrectionsResult(GroupResult):
    """What remains of group errors and biases after each correction, on rows it has not seen.

    Axes: strategy, then split and swap (``runs``), then group. Densities are over groups, runs and bootstrap
    replicates, in units of the standard deviation before correction, as in the paper's Figures 1 and 3.
    """

    question: ClassVar[str] = wording.EVALUATION_QUESTION
    method: ClassVar[str] = wording.EVALUATION_METHOD
    references: ClassVar[tuple[str, ...]] = wording.REFERENCES
    always_assumed: ClassVar[tuple[tuple[str, str], ...]] = wording.assumptions(experiment=True, arms_differ=False)[:3]
    never_shown: ClassVar[tuple[str, ...]] = wording.EVALUATION_LIMITS
    withheld: ClassVar[tuple[str, ...]] = (
        *("n", "factor", "error", "bias", "error_pvalue", "bias_pvalue", "detection_statistic"),
    )

    n: FloatArray
    strategies: tuple[str, ...]
    factor: FloatArray  # (strategy, run, group): share of the detected error that was subtracted
    error: FloatArray  # (strategy, run, group): remaining error on held-out rows
    bias: FloatArray
    error_pvalue: FloatArray  # test (50)
    bias_pvalue: FloatArray  # test (51)
    detection_statistic: FloatArray  # (run, group): t statistics of bias before correction, on the detection rows
    density_at: FloatArray  # (point,), in standard deviations before correction
    error_density: FloatArray  # (strategy, point)
    bias_density: FloatArray
    error_scale: float  # the standard deviations the densities are measured in
    bias_scale: float
    alpha: float

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
                collapse=plan.errors.formula.collapse,
                strategies=plan.strategies,
            ),
            detection_statistic=estimates.statistic,
            density_at=estimates.bias_densities.at,
            error_density=estimates.error_densities.density,
            bias_density=estimates.bias_densities.density,
            error_scale=estimates.error_densities.scale,
            bias_scale=estimates.bias_densities.scale,
        )

    def spread(self, quantity: Quantity = "bias") -> FloatArray:
        """Root mean square of what remains, over groups and runs; one entry per strategy."""
        return np.sqrt(_mean(getattr(self, quantity) ** 2))

    def rejected(self, quantity: Quantity = "bias") -> FloatArray:
        """Share of tests of what remains that reject, over groups and runs; one entry per strategy."""
        pvalue = self.bias_pvalue if quantity == "bias" else self.error_pvalue
        return _mean(np.where(np.isfinite(pvalue), rejected(pvalue, self.alpha), np.nan))

    def table(self) -> Columns:
        """One row per strategy."""
        columns: dict[str, Sequence[str] | FloatArray] = {
            "strategy": list(self.strategies),
            "factor": _mean(self.factor),
        }
        quantities: dict[Quantity, FloatArray] = {"error": self.error, "bias": self.bias}
        for quantity, remaining in quantities.items():
            columns |= {
                f"{quantity}_mean": _mean(remaining),
                f"{quantity}_rms": self.spread(quantity),
                f"{quantity}_mae": _mean(np.abs(remaining)),
                f"{quantity}_rejected": self.rejected(quantity),
            }
        return columns

    def findings(self) -> tuple[str, ...]:
        """One sentence per strategy, the best first."""
        spread, rejected = self.spread(), self.rejected()
        order = np.argsort(spread)
        before = float(spread[self.strategies.index("none")])
        sentences = [
            wording.remaining(self.strategies[i], before, float(spread[i]), float(rejected[i]), self.alpha)
            for i in order
        ]
        return (wording.best(self.strategies[order[0]]), *sentences)

    def plot(self, quantity: Literal["bias", "error", "statistic"] = "bias") -> alt.TopLevelMixin:
        """Densities of what remains ("bias", "error"), or t statistics before correction ("statistic")."""
        from isonomy.treatment.figure import densities, statistics

        return statistics(self) if quantity == "statistic" else densities(self, quantity)


def _mean(array: FloatArray) -> FloatArray:
    """Mean over runs and groups that were answered; NaN where none was."""
    answered = np.isfinite(array)
    number = answered.sum((1, 2))
    return np.where(number > 0, np.where(answered, array, 0.0).sum((1, 2)) / np.maximum(number, 1), np.nan)
