"""Is there an alternative that is at least as accurate and less unequal? (Auerbach et al. 2025)"""

from isonomy.alternatives.manipulation import (
    Game,
    enough_splits,
    false_rejection,
    manipulation,
    simulate_reruns,
    splits_bound,
)
from isonomy.alternatives.milp import MILPRule
from isonomy.alternatives.mitigate import Recommendation
from isonomy.alternatives.procedure import improvability
from isonomy.alternatives.result import ImprovabilityResult
from isonomy.alternatives.rules import Algorithm, EstimatorRule, People, ReductionsRule, SelectionRule, Training
from isonomy.alternatives.surface import SurfaceResult
from isonomy.alternatives.utilities import CRITERIA, READY, Utility

__all__ = [
    "CRITERIA",
    "READY",
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
    "Training",
    "Utility",
    "enough_splits",
    "false_rejection",
    "improvability",
    "manipulation",
    "simulate_reruns",
    "splits_bound",
]
