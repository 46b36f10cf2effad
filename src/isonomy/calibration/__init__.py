"""Predictive rate parity: does a score mean the same thing for every group, when users appear many times?

What corrects scores loads scikit-learn and is imported only when it is asked for.
"""

from typing import TYPE_CHECKING

from isonomy.calibration.api import calibration_metrics, composite_parity, marginal_outcomes, predictive_parity
from isonomy.calibration.api_thresholds import equalize_thresholds
from isonomy.calibration.result import CompositeResult, MarginalResult, ParityResult
from isonomy.calibration.result_metrics import CalibrationMetrics
from isonomy.calibration.result_thresholds import ThresholdsResult

if TYPE_CHECKING:
    from isonomy.calibration.mitigate import GroupCalibrator, MultiObjectiveCalibrator, split_users
    from isonomy.calibration.mitigate_thresholds import GroupThresholds

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
    "marginal_outcomes",
    "predictive_parity",
    "split_users",
]


def __getattr__(name: str) -> object:
    if name == "GroupThresholds":
        from isonomy.calibration.mitigate_thresholds import GroupThresholds

        return GroupThresholds
    if name in ("GroupCalibrator", "MultiObjectiveCalibrator", "split_users"):
        from isonomy.calibration import mitigate

        return getattr(mitigate, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
