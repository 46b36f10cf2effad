"""The algorithm to adopt, made of all rows once the test has rejected."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso
from isonomy.alternatives import Recommendation
from isonomy.errors import UsageError


def test_recommended(data: dict[str, Any], ask: dict[str, Any]) -> None:
    ask |= {"candidate": None, "rule": "linear", "features": ["x1", "x2", "lab"], "group_aware": True}
    result = iso.improvability(data, **ask)
    assert result.reject
    best = result.recommended
    assert isinstance(best, Recommendation)
    assert not best.independent
    decided = best.decide(data)
    assert decided.mean() == pytest.approx(0.1, abs=0.002)
    for i, g in enumerate(("Black", "White")):
        chosen = (data["race"] == g) & (decided == 1)
        assert best.accuracy[i, 0] == pytest.approx(data["need"][chosen].mean())
    assert "not independent" in " ".join(result.findings())
    fewer = {name: column[:50] for name, column in data.items()}
    np.testing.assert_array_equal(best.decide(fewer), decided[:50])
    with pytest.raises(UsageError, match="groups"):
        best.decide(fewer | {"race": np.full(50, "Martian")})


def test_no_recommendation_without_rejection(data: dict[str, Any], ask: dict[str, Any]) -> None:
    result = iso.improvability(data, **ask, accuracy_gain=0.9)
    assert not result.reject
    assert result.recommended is None
    assert result.verdict == "inconclusive"
    assert "No less discriminatory alternative was shown" in result.summary()
