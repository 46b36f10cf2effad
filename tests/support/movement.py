"""The rows that a projection lists, which a stored result no longer has."""

from __future__ import annotations

from isonomy.transport import Movement, ProjectionResult


def listed(result: ProjectionResult) -> Movement:
    """Who would have to move."""
    assert result.plan is not None
    return result.plan
