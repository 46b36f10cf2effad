"""Predictive rate parity: does a score mean the same thing for every group, when users appear many times?

The estimators load scikit-learn and are imported only when they are asked for.
"""

from typing import TYPE_CHECKING

from isonomy.calibration.api import (
    calibration_metrics,
    equalize_thresholds,
    marginal_outcomes,
    predictive_parity,
    split_users,
)
from isonomy.calibration.result import CalibrationMetrics, MarginalResult, ParityResult, ThresholdsResult

if TYPE_CHECKING:
    from isonomy.calibration.mitigate import GroupCalibrator, MultiObjectiveCalibrator

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


def __getattr__(name: str) -> object:
    if name in ("GroupCalibrator", "MultiObjectiveCalibrator"):
        from isonomy.calibration import mitigate

        return getattr(mitigate, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
