"""The moments of composite scores."""

from __future__ import annotations

from typing import Any

import numpy as np

from isonomy.calibration import composite_parity
from support.tables import two_scores

ROLES: dict[str, Any] = {"outcomes": ["u", "v"], "scores": ["a", "b"], "groups": "g", "resamples": 300}


def test_users_decide_the_variance() -> None:
    data = two_scores(500)
    twice = {name: np.repeat(values, 3) for name, values in data.items()} | {"m": np.repeat(np.arange(1_000), 3)}
    once = composite_parity(data, **ROLES, rng=1)
    same = composite_parity(twice, **ROLES, user="m", rng=1)
    np.testing.assert_allclose(same.difference, once.difference, rtol=1e-6)
    np.testing.assert_allclose(same.pvalue_at, once.pvalue_at, atol=0.02)
