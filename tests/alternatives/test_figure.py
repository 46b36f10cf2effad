"""The charts."""

from __future__ import annotations

from typing import Any

import isonomy as iso
from isonomy.results.theme import specification


def test_charts(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask)
    drawn = specification(result.plot())
    surface = specification(result.surface().plot())
    assert drawn["vconcat"]
    assert len(str(surface)) > 1000
    nothing = iso.improvability(data, **ask, accuracy_gain=0.9, fairness_gain=0.9)
    assert specification(nothing.plot())["vconcat"]


def test_the_frontier_of_several_candidates(data: dict[str, Any], ready: dict[str, Any]) -> None:
    result = iso.improvability(data, **(ready | {"candidate": ["need_score", "lab", "cost_score"]}))
    drawn = str(specification(result.plot()))
    assert "shown to be an alternative" in drawn
    assert "cut in unfairness" in drawn
