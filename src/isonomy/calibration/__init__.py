"""Predictive rate parity: does a score mean the same thing for every group, when users appear many times?

What corrects scores loads scikit-learn and is imported only when it is asked for.
"""

from typing import TYPE_CHECKING

from isonomy.calibration.api import (
    calibration_metrics,
    composite_parity,
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
)
from isonomy.calibration.result import (
    CalibrationMetrics,
    CompositeResult,
    MarginalResult,
    ParityResult,
    ThresholdsResult,
)

if TYPE_CHECKING:
    from isonomy.calibration.mitigate import GroupCalibrator, GroupThresholds, MultiObjectiveCalibrator, split_users

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
    if name in ("GroupCalibrator", "GroupThresholds", "MultiObjectiveCalibrator", "split_users"):
        from isonomy.calibration import mitigate

        return getattr(mitigate, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
