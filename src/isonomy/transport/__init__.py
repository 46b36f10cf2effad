"""How little would have to change for this classifier to look fair, and for whom? Optimal-transport projection."""

from isonomy.transport import distances, estimators
from isonomy.transport.criteria import Discerning
from isonomy.transport.project import project
from isonomy.transport.result import Plan, ProjectionResult

__all__ = ["Discerning", "Plan", "ProjectionResult", "distances", "estimators", "project"]
