"""Predictive rate parity: does a score mean the same thing for every group, when users appear many times?

The estimators (`GroupCalibrator` in `mitigate`, `MultiObjectiveCalibrator` in `objectives`) load scikit-learn and are
imported from their modules only when they are asked for.
"""

from typing import Any

from isonomy.calibration.marginal import marginal_outcomes
from isonomy.calibration.margins import MarginalResult, ThresholdsResult
from isonomy.calibration.metrics import CalibrationMetrics, calibration_metrics, split_users
from isonomy.calibration.parity import predictive_parity
from isonomy.calibration.result import ParityResult
from isonomy.calibration.thresholds import equalize_thresholds

__all__ = [
    "CalibrationMetrics",
    "GroupCalibrator",
    "MarginalResult",
    "MultiObjectiveCalibrator",
    "ParityResult",
    "ThresholdsResult",
    "calibration_metrics",
    "equalize_thresholds",
    "marginal_outcomes",
    "predictive_parity",
    "split_users",
]


def __getattr__(name: str) -> Any:
    if name == "GroupCalibrator":
        from isonomy.calibration.mitigate import GroupCalibrator

        return GroupCalibrator
    if name == "MultiObjectiveCalibrator":
        from isonomy.calibration.objectives import MultiObjectiveCalibrator

        return MultiObjectiveCalibrator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
