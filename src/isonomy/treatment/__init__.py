"""Errors of predicted treatment effects: which groups' effects an uplift model gets wrong, and how to correct them.

tally       rows to cells: sums by group, bucket, arm and kind of outcome, in one pass
moments     cells to means and covariances of a few columns
collapse    predicted effects of rows to predicted effects of groups
estimate    error and rest, as ratios of means (ratio: tests, intervals)
resample    the bootstrap, from cells or from rows
detect      `treatment_bias`
mitigate    how much of an error to subtract, and the risk of each answer
corrector   `EffectCorrector`
evaluate    `evaluate_corrections`
"""

from typing import TYPE_CHECKING, Any

from isonomy.treatment.adapters import predicted_effects
from isonomy.treatment.detect import treatment_bias
from isonomy.treatment.evaluate import evaluate_corrections
from isonomy.treatment.mitigate import correction_risk
from isonomy.treatment.result import CorrectionsResult, TreatmentBiasResult

if TYPE_CHECKING:
    from isonomy.treatment.corrector import EffectCorrector

__all__ = [
    "CorrectionsResult",
    "EffectCorrector",
    "TreatmentBiasResult",
    "correction_risk",
    "evaluate_corrections",
    "predicted_effects",
    "treatment_bias",
]


def __getattr__(name: str) -> Any:
    # Loads scikit-learn, which nothing else here needs.
    if name == "EffectCorrector":
        from isonomy.treatment.corrector import EffectCorrector

        return EffectCorrector
    raise AttributeError(f"module 'isonomy.treatment' has no attribute {name!r}")
