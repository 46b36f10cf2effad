"""Who is selected at a threshold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import isonomy as iso


@pytest.mark.parametrize("name", ["__y", "__k", "__s", "__w", "known", "outcome"])
def test_columns_of_thresholds_may_have_names_used_inside(name: str) -> None:
    rng = np.random.default_rng(0)
    score = rng.random(800)
    columns = {"y": (rng.random(800) < score).astype(int), "s": score, "g": rng.choice(["a", "b"], 800)}
    options: dict[str, Any] = {"outcome": "y", "score": "s", "threshold": 0.5, "target": "tpr", "rng": 0}
    expected = iso.equalize_thresholds(columns, **options, groups="g")
    renamed = {name if key == "g" else key: values for key, values in columns.items()}
    result = iso.equalize_thresholds(renamed, **options, groups=name)
    assert result.thresholds == pytest.approx(expected.thresholds)
