"""Errors of predicted treatment effects: which groups' effects an uplift model gets wrong, and how to correct them."""

from typing import TYPE_CHECKING

from isonomy.effects.bias import TreatmentBiasResult, treatment_bias
from isonomy.effects.corrections import CorrectionsResult, evaluate_corrections
from isonomy.effects.estimators.collapse import Aipw as aipw
from isonomy.effects.estimators.collapse import ArmMeans as arm_means
from isonomy.effects.estimators.collapse import Arms as arms
from isonomy.effects.estimators.collapse import Regression as regression
from isonomy.effects.estimators.collapse import Relative as relative
from isonomy.effects.estimators.moments import Bootstrap as bootstrap
from isonomy.effects.estimators.shrinkage import Heldout as heldout
from isonomy.effects.estimators.shrinkage import LeastRisk as least_risk
from isonomy.effects.estimators.shrinkage import Online as online
from isonomy.effects.estimators.shrinkage import Published as published
from isonomy.effects.planning import Planned as planned
from isonomy.effects.planning import bias_sample_size, correction_risk
from isonomy.effects.price import Budget as budget
from isonomy.effects.price import PriceResult, price_of_fairness

if TYPE_CHECKING:
    from isonomy.effects.corrector import EffectCorrector, predicted_effects

__all__ = [
    "CorrectionsResult",
    "EffectCorrector",
    "PriceResult",
    "TreatmentBiasResult",
    "aipw",
    "arm_means",
    "arms",
    "bias_sample_size",
    "bootstrap",
    "budget",
    "correction_risk",
    "evaluate_corrections",
    "heldout",
    "least_risk",
    "online",
    "planned",
    "predicted_effects",
    "price_of_fairness",
    "published",
    "regression",
    "relative",
    "treatment_bias",
]


def __getattr__(name: str) -> object:
    # Loads scikit-learn, which nothing else here needs.
    if name in ("EffectCorrector", "predicted_effects"):
        from isonomy.effects import corrector

        return getattr(corrector, name)
    raise AttributeError(f"module 'isonomy.effects' has no attribute {name!r}")
