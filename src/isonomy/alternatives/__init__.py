"""Is there an alternative that is at least as accurate and less unequal? (Auerbach et al. 2025)"""

from typing import Any

from isonomy.alternatives.api import improvability
from isonomy.alternatives.mitigate import Recommendation
from isonomy.alternatives.result import ImprovabilityResult
from isonomy.alternatives.result_surface import SurfaceResult
from isonomy.alternatives.rules import NAMES as RULES
from isonomy.alternatives.rules.algorithm import Algorithm, People, SelectionRule, Training
from isonomy.alternatives.rules.manipulation import (
    Game,
    enough_splits,
    false_rejection,
    manipulation,
    splits_bound,
)
from isonomy.alternatives.rules.milp import MILPRule
from isonomy.alternatives.rules.named import EstimatorRule, ReductionsRule
from isonomy.alternatives.rules.thresholds import ThresholdsRule
from isonomy.alternatives.rules.utilities import CRITERIA, READY, Utility

# The procedure of the paper, for ``improvability(..., **PAPER)``.
PAPER: dict[str, Any] = {"evidence": "paper", "fairness_test": "paper", "pvalue_form": "paper"}

__all__ = [
    "CRITERIA",
    "PAPER",
    "READY",
    "RULES",
    "Algorithm",
    "EstimatorRule",
    "Game",
    "ImprovabilityResult",
    "MILPRule",
    "People",
    "Recommendation",
    "ReductionsRule",
    "SelectionRule",
    "SurfaceResult",
    "ThresholdsRule",
    "Training",
    "Utility",
    "enough_splits",
    "false_rejection",
    "improvability",
    "manipulation",
    "splits_bound",
]
