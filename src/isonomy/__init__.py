"""Statistical evidence about the fairness of model decisions, from any table.

Names are resolved on first use, so that importing isonomy loads no engine, no plotting and no model library.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

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
    "FlagResult": "isonomy.likelihood",
    "certify": "isonomy.likelihood",
    "flag": "isonomy.likelihood",
    # transport
    "ProjectionResult": "isonomy.transport",
    "project": "isonomy.transport",
    # improvability
    "ImprovabilityResult": "isonomy.improvability",
    "improvability": "isonomy.improvability",
    # treatment
    "EffectCorrector": "isonomy.treatment",
    "TreatmentBiasResult": "isonomy.treatment",
    "treatment_bias": "isonomy.treatment",
    # calibration
    "GroupCalibrator": "isonomy.calibration",
    "MultiObjectiveCalibrator": "isonomy.calibration",
    "ParityResult": "isonomy.calibration",
    "equalize_thresholds": "isonomy.calibration",
    "marginal_outcomes": "isonomy.calibration",
    "predictive_parity": "isonomy.calibration",
    # audit
    "Audit": "isonomy.audit",
    "AuditResult": "isonomy.audit",
}

__all__ = sorted([*_EXPORTS, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'isonomy' has no attribute {name!r}")
    home = _EXPORTS[name]
    value = import_module(f"isonomy.{name}") if home == "isonomy" else getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
