"""All recorded calls, by topic."""

from __future__ import annotations

from collections.abc import Mapping

from recorded import (
    calls_alternatives,
    calls_audit,
    calls_discover,
    calls_effects,
    calls_groups,
    calls_impact,
    calls_monitoring,
    calls_planning,
    calls_projection,
    calls_proxies,
    calls_scores,
)
from recorded.recording import Thunk

TOPICS: Mapping[str, Mapping[str, Thunk]] = {
    "groups": calls_groups.CALLS,
    "impact": calls_impact.CALLS,
    "discover": calls_discover.CALLS,
    "projection": calls_projection.CALLS,
    "proxies": calls_proxies.CALLS,
    "alternatives": calls_alternatives.CALLS,
    "effects": calls_effects.CALLS,
    "scores": calls_scores.CALLS,
    "planning": calls_planning.CALLS,
    "audit": calls_audit.CALLS,
    "monitoring": calls_monitoring.CALLS,
}
