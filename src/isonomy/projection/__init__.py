"""How little would have to change for this classifier to look fair, and for whom? Optimal-transport projection."""

import sys

from isonomy.projection.program import distances, estimators
from isonomy.projection.program.criteria import Discerning
from isonomy.projection.program.inference import ToleranceCurve
from isonomy.projection.project import MovedRows, ProjectionResult, corrected, project

# Users may import these modules from here or as modules of the package.
sys.modules |= {f"{__name__}.distances": distances, f"{__name__}.estimators": estimators}

__all__ = [
    "Discerning",
    "MovedRows",
    "ProjectionResult",
    "ToleranceCurve",
    "corrected",
    "distances",
    "estimators",
    "project",
]
