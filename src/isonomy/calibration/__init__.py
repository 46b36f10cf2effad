"""Predictive rate parity: does a score mean the same thing for every group, when users appear many times?

What corrects scores loads scikit-learn and is imported only when it is asked for.
"""

from typing import TYPE_CHECKING

from isonomy.calibration.api import calibration_metrics, composite_parity, marginal_outcomes, predictive_parity
from isonomy.calibration.api_thresholds import equalize_thresholds
from isonomy.calibration.result import MarginalResult, ParityResult
from isonomy.calibration.result_composite import CompositeResult
from isonomy.calibration.result_metrics import CalibrationMetrics
from isonomy.calibration.result_thresholds import ThresholdsResult

if TYPE_CHECKING:
    from isonomy.calibration.mitigate import GroupCalibrator, split_users
    from isonomy.calibration.mitigate_composite import MultiObjectiveCalibrator
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
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from isonomy.calibration import mitigate, mitigate_composite, mitigate_thresholds

    modules = {"GroupThresholds": mitigate_thresholds, "MultiObjectiveCalibrator": mitigate_composite}
    return getattr(modules.get(name, mitigate), name)
