"""Is there an alternative that is at least as accurate and less unequal? (Auerbach et al. 2025)

The package and its entry point share a name, so the package can be called: ``iso.improvability(data, ...)`` works
whether or not something in it was imported before.
"""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any

from isonomy.improvability.manipulation import (
    Game,
    enough_splits,
    false_rejection,
    manipulation,
    simulate_reruns,
    splits_bound,
)
from isonomy.improvability.milp import MILPRule
from isonomy.improvability.mitigate import Recommendation
from isonomy.improvability.procedure import improvability
from isonomy.improvability.result import ImprovabilityResult
from isonomy.improvability.rules import Algorithm, EstimatorRule, People, ReductionsRule, SelectionRule, Training
from isonomy.improvability.surface import SurfaceResult
from isonomy.improvability.utilities import CRITERIA, READY, Utility

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


class _CallablePackage(ModuleType):
    """A package that is also its entry point."""

    def __call__(self, *args: Any, **kwargs: Any) -> ImprovabilityResult:
        return improvability(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(improvability)


sys.modules[__name__].__class__ = _CallablePackage
