"""Projections in tests: the plan of a call, and the rows that a result lists, which a stored one no longer has."""

from __future__ import annotations

from typing import Any

from isonomy.frames import Source
from isonomy.results import QUESTIONS
from isonomy.transport import Movement, ProjectionResult
from isonomy.transport.plan import Plan


def planned(source: Source, **options: Any) -> Plan:
    """What a call with these options asks."""
    asked = QUESTIONS["project"].planned(source, options)
    assert isinstance(asked, Plan)
    return asked


def listed(result: ProjectionResult) -> Movement:
    """Who would have to move."""
    assert result.plan is not None
    return result.plan
