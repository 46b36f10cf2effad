"""Which groups are treated differently, and is it more than chance? Empirical likelihood: certify and flag."""

from isonomy.groups.certify import CertifyResult, certify
from isonomy.groups.discover import DiscoverResult, discover
from isonomy.groups.flag import FlagResult, flag
from isonomy.groups.impact import AdverseImpactResult, adverse_impact
from isonomy.groups.models import ModelComparison, compare_models
from isonomy.groups.options import Estimate
from isonomy.groups.planning import detectable_disparity, power_of, rows_needed
from isonomy.groups.shrunk import ShrunkResult

__all__ = [
    "AdverseImpactResult",
    "CertifyResult",
    "DiscoverResult",
    "Estimate",
    "FlagResult",
    "ModelComparison",
    "ShrunkResult",
    "adverse_impact",
    "certify",
    "compare_models",
    "detectable_disparity",
    "discover",
    "flag",
    "power_of",
    "rows_needed",
]
