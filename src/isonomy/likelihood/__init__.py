"""Which groups are treated differently, and is it more than chance? Empirical likelihood: certify and flag."""

from isonomy.likelihood.api import certify, flag
from isonomy.likelihood.api_impact import adverse_impact
from isonomy.likelihood.api_planning import detectable_disparity, power_of, rows_needed
from isonomy.likelihood.plan_reference import Estimate
from isonomy.likelihood.result import FlagResult
from isonomy.likelihood.result_given import StratifiedCertifyResult, StratifiedResult
from isonomy.likelihood.result_impact import AdverseImpactResult
from isonomy.likelihood.result_joint import CertifyResult

__all__ = [
    "AdverseImpactResult",
    "CertifyResult",
    "Estimate",
    "FlagResult",
    "StratifiedCertifyResult",
    "StratifiedResult",
    "adverse_impact",
    "certify",
    "detectable_disparity",
    "flag",
    "power_of",
    "rows_needed",
]
