"""Projections in tests: the plan of a call, and the rows that a result lists (a stored result does not)."""

from __future__ import annotations

from typing import Any

from isonomy.frames import Source
from isonomy.projection import MovedRows, ProjectionResult
from isonomy.projection.project import ProjectPlan
from isonomy.results import QUESTIONS


def planned(source: Source, **options: Any) -> ProjectPlan:
    """The plan of a call with these options."""
    asked = QUESTIONS["project"].planned(source, options)
    assert isinstance(asked, ProjectPlan)
    return asked


def listed(result: ProjectionResult) -> MovedRows:
    """The rows that would have to move."""
    assert result.plan is not None
    return result.plan
