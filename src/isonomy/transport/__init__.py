"""How little would have to change for this classifier to look fair, and for whom? Optimal-transport projection."""

import sys

from isonomy.transport.api import project
from isonomy.transport.program import distances, estimators
from isonomy.transport.program.criteria import Discerning
from isonomy.transport.program.curve import ToleranceCurve
from isonomy.transport.result import Movement, ProjectionResult

# What users construct is found here, whichever way it is imported.
sys.modules |= {f"{__name__}.distances": distances, f"{__name__}.estimators": estimators}

__all__ = ["Discerning", "Movement", "ProjectionResult", "ToleranceCurve", "distances", "estimators", "project"]
