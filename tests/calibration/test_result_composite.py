"""What a comparison of composite scores says."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso
from isonomy.calibration import composite_parity
from support.tables import two_scores

ROLES: dict[str, Any] = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g", "resamples": 300}


def test_the_score_that_differs_has_the_worst_weight() -> None:
    result = composite_parity(two_scores(slope=0.7), **ROLES, rng=1)
    assert result.verdict is iso.Verdict.VIOLATION
    assert result.worst_weights[0, 1] >= 0.5
    frame = result.to_frame()
    assert len(frame) == 11
    assert "Clearest with the weights" in result.summary()
    result.plot()
    again = iso.from_json(result.to_json())
    np.testing.assert_array_equal(again.pvalue_at, result.pvalue_at)
