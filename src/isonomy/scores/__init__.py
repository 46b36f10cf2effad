"""Predictive rate parity: does a score mean the same thing for every group, when users appear many times?

The estimators that correct scores load scikit-learn and are imported only when they are used.
"""

from typing import TYPE_CHECKING

from isonomy.scores.composites import CompositeResult, composite_parity
from isonomy.scores.evaluation import evaluate_calibrators
from isonomy.scores.margins import MarginalResult, marginal_outcomes
from isonomy.scores.measures import CalibrationMetrics, calibration_metrics
from isonomy.scores.parity import ParityResult, predictive_parity
from isonomy.scores.thresholds import ThresholdsResult, equalize_thresholds

if TYPE_CHECKING:
    from isonomy.scores.calibrators import GroupCalibrator, GroupThresholds, MultiObjectiveCalibrator, split_users

__all__ = [
    "CalibrationMetrics",
    "CompositeResult",
    "GroupCalibrator",
    "GroupThresholds",
    "MarginalResult",
    "MultiObjectiveCalibrator",
    "ParityResult",
    "ThresholdsResult",
    "calibration_metrics",
    "composite_parity",
    "equalize_thresholds",
    "evaluate_calibrators",
    "marginal_outcomes",
    "predictive_parity",
    "split_users",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from isonomy.scores import calibrators

    return getattr(calibrators, name)
