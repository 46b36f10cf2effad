"""Is there an alternative that is at least as accurate and less unequal? (Auerbach et al. 2025)"""

from isonomy.alternatives.followup import Recommendation, SurfaceResult
from isonomy.alternatives.improvability import ImprovabilityResult, improvability
from isonomy.alternatives.options import above, crossfit, gain, group_aware, protected, splits
from isonomy.alternatives.planning import (
    Game,
    Protocols,
    compare_protocols,
    enough_splits,
    false_rejection,
    manipulation,
    splits_bound,
)
from isonomy.alternatives.rules.algorithm import Algorithm, People, SelectionRule, Training
from isonomy.alternatives.rules.milp import MILPRule
from isonomy.alternatives.rules.named import NAMES as RULES
from isonomy.alternatives.rules.named import EstimatorRule, ReductionsRule, ThresholdsRule
from isonomy.alternatives.rules.utilities import CRITERIA, READY, Utility

__all__ = [
    "CRITERIA",
    "READY",
    "RULES",
    "Algorithm",
    "EstimatorRule",
    "Game",
    "ImprovabilityResult",
    "MILPRule",
    "People",
    "Protocols",
    "Recommendation",
    "ReductionsRule",
    "SelectionRule",
    "SurfaceResult",
    "ThresholdsRule",
    "Training",
    "Utility",
    "above",
    "compare_protocols",
    "crossfit",
    "enough_splits",
    "false_rejection",
    "gain",
    "group_aware",
    "improvability",
    "manipulation",
    "protected",
    "splits",
    "splits_bound",
]
