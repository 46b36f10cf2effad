"""Which groups are treated differently, and is it more than chance? Empirical likelihood: certify and flag."""

from isonomy.likelihood.api import certify, detectable_disparity, flag, power_of, rows_needed
from isonomy.likelihood.plan import Estimate
from isonomy.likelihood.result import CertifyResult, FlagResult

__all__ = [
    "CertifyResult",
    "Estimate",
    "FlagResult",
    "certify",
    "detectable_disparity",
    "flag",
    "power_of",
    "rows_needed",
]
