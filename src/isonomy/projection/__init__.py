"""How little would have to change for this classifier to look fair, and for whom? Optimal-transport projection."""

import sys

from isonomy.projection.program import distances, estimators
from isonomy.projection.program.criteria import Discerning
from isonomy.projection.program.tolerance import ToleranceCurve
from isonomy.projection.project import MovedRows, ProjectionResult, project

# What users construct is found here, whichever way it is imported.
sys.modules |= {f"{__name__}.distances": distances, f"{__name__}.estimators": estimators}

__all__ = ["Discerning", "MovedRows", "ProjectionResult", "ToleranceCurve", "distances", "estimators", "project"]
