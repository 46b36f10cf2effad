"""The public names, and where each of them lives: read by type checkers, and by ``__init__.py`` to load them."""

from narwhals import col

from isonomy import errors, simulate
from isonomy.alternatives import ImprovabilityResult, MILPRule, SurfaceResult, Utility, improvability
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
from isonomy.frames import Group, Metric, cut, open_source, where
from isonomy.likelihood import (
    CertifyResult,
    Estimate,
    FlagResult,
    certify,
    detectable_disparity,
    flag,
    power_of,
    rows_needed,
)
from isonomy.results import Result, Status, Verdict, from_json
from isonomy.transport import Discerning, ProjectionResult, project
from isonomy.treatment import (
    CorrectionsResult,
    EffectCorrector,
    TreatmentBiasResult,
    correction_risk,
    evaluate_corrections,
    predicted_effects,
    treatment_bias,
)

__version__: str

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
