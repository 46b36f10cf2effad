"""Errors of predicted treatment effects: which groups' effects an uplift model gets wrong, and how to correct them."""

from typing import TYPE_CHECKING

from isonomy.treatment.api import evaluate_corrections, price_of_fairness, treatment_bias
from isonomy.treatment.api_planning import bias_sample_size, correction_risk, predicted_effects
from isonomy.treatment.result import CorrectionsResult, PriceResult, TreatmentBiasResult

if TYPE_CHECKING:
    from isonomy.treatment.mitigate import EffectCorrector

__all__ = [
    "CorrectionsResult",
    "EffectCorrector",
    "PriceResult",
    "TreatmentBiasResult",
    "bias_sample_size",
    "correction_risk",
    "evaluate_corrections",
    "predicted_effects",
    "price_of_fairness",
    "treatment_bias",
]


def __getattr__(name: str) -> object:
    # Loads scikit-learn, which nothing else here needs.
    if name == "EffectCorrector":
        from isonomy.treatment.mitigate import EffectCorrector

        return EffectCorrector
    raise AttributeError(f"module 'isonomy.treatment' has no attribute {name!r}")
