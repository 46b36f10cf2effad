"""Statistical evidence about the fairness of model decisions, from any table.

Names are resolved on first use, so that importing isonomy loads no engine, no plotting and no model library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what a type checker sees; a test compares it with the table below
    from narwhals import col

    from isonomy import errors, simulate
    from isonomy.audit import Audit, AuditResult
    from isonomy.calibration import (
        CalibrationMetrics,
        GroupCalibrator,
        MarginalResult,
        MultiObjectiveCalibrator,
        ParityResult,
        ThresholdsResult,
        calibration_metrics,
        equalize_thresholds,
        marginal_outcomes,
        predictive_parity,
        split_users,
    )
    from isonomy.frames import Group, cut, open_source, where
    from isonomy.frames.metrics import Metric
    from isonomy.improvability import ImprovabilityResult, MILPRule, SurfaceResult, Utility, improvability
    from isonomy.likelihood import CertifyResult, Estimate, FlagResult, detectable_disparity, power_of, rows_needed
    from isonomy.likelihood.certify import certify
    from isonomy.likelihood.flag import flag
    from isonomy.results import Result, Status, Verdict, from_json
    from isonomy.transport import Discerning, ProjectionResult
    from isonomy.transport.project import project
    from isonomy.treatment import (
        CorrectionsResult,
        EffectCorrector,
        TreatmentBiasResult,
        correction_risk,
        evaluate_corrections,
        predicted_effects,
        treatment_bias,
    )

__version__ = "0.1.0"

_EXPORTS = {
    # frames and results
    "Group": "isonomy.frames",
    "Metric": "isonomy.frames.metrics",
    "Result": "isonomy.results",
    "Status": "isonomy.results",
    "Verdict": "isonomy.results",
    "col": "narwhals",
    "cut": "isonomy.frames",
    "errors": "isonomy",
    "from_json": "isonomy.results",
    "open_source": "isonomy.frames",
    "simulate": "isonomy",
    "where": "isonomy.frames",
    # likelihood
    "CertifyResult": "isonomy.likelihood",
    "Estimate": "isonomy.likelihood",
    "FlagResult": "isonomy.likelihood",
    "certify": "isonomy.likelihood.certify",
    "detectable_disparity": "isonomy.likelihood",
    "flag": "isonomy.likelihood.flag",
    "power_of": "isonomy.likelihood",
    "rows_needed": "isonomy.likelihood",
    # transport
    "Discerning": "isonomy.transport",
    "ProjectionResult": "isonomy.transport",
    "project": "isonomy.transport.project",
    # improvability
    "ImprovabilityResult": "isonomy.improvability",
    "MILPRule": "isonomy.improvability",
    "SurfaceResult": "isonomy.improvability",
    "Utility": "isonomy.improvability",
    "improvability": "isonomy",  # the package, which can be called
    # treatment
    "CorrectionsResult": "isonomy.treatment",
    "EffectCorrector": "isonomy.treatment",
    "TreatmentBiasResult": "isonomy.treatment",
    "correction_risk": "isonomy.treatment",
    "evaluate_corrections": "isonomy.treatment",
    "predicted_effects": "isonomy.treatment",
    "treatment_bias": "isonomy.treatment",
    # calibration
    "CalibrationMetrics": "isonomy.calibration",
    "GroupCalibrator": "isonomy.calibration",
    "MarginalResult": "isonomy.calibration",
    "MultiObjectiveCalibrator": "isonomy.calibration",
    "ParityResult": "isonomy.calibration",
    "ThresholdsResult": "isonomy.calibration",
    "calibration_metrics": "isonomy.calibration",
    "equalize_thresholds": "isonomy.calibration",
    "marginal_outcomes": "isonomy.calibration",
    "predictive_parity": "isonomy.calibration",
    "split_users": "isonomy.calibration",
    # audit
    "Audit": "isonomy.audit",
    "AuditResult": "isonomy.audit",
}

__all__ = [
    "Audit",
    "AuditResult",
    "CalibrationMetrics",
    "CertifyResult",
    "CorrectionsResult",
    "Discerning",
    "EffectCorrector",
    "Estimate",
    "FlagResult",
    "Group",
    "GroupCalibrator",
    "ImprovabilityResult",
    "MILPRule",
    "MarginalResult",
    "Metric",
    "MultiObjectiveCalibrator",
    "ParityResult",
    "ProjectionResult",
    "Result",
    "Status",
    "SurfaceResult",
    "ThresholdsResult",
    "TreatmentBiasResult",
    "Utility",
    "Verdict",
    "__version__",
    "calibration_metrics",
    "certify",
    "col",
    "correction_risk",
    "cut",
    "detectable_disparity",
    "equalize_thresholds",
    "errors",
    "evaluate_corrections",
    "flag",
    "from_json",
    "improvability",
    "marginal_outcomes",
    "open_source",
    "power_of",
    "predicted_effects",
    "predictive_parity",
    "project",
    "rows_needed",
    "simulate",
    "split_users",
    "treatment_bias",
    "where",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'isonomy' has no attribute {name!r}")
    home = _EXPORTS[name]
    value = import_module(f"isonomy.{name}") if home == "isonomy" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
