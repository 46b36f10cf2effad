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


@pytest.mark.parametrize("target", ["outcome_at_margin", "selection_rate"])
def test_rows_without_a_weight_are_left_out(target: Any) -> None:
    rng = np.random.default_rng(0)
    s = rng.random(8_000)
    data = {"s": s, "y": (rng.random(8_000) < s).astype(float), "g": rng.choice(["a", "b"], 8_000)}
    data |= {"m": rng.integers(0, 2_000, 8_000), "w": 0.5 + rng.random(8_000)}
    kept = rng.random(8_000) < 0.9
    options: dict[str, Any] = {
        "outcome": "y",
        "score": "s",
        "groups": "g",
        "threshold": 0.5,
        "user": "m",
        "weight": "w",
    }
    options |= {"target": target, "change": "all", "missing": "drop", "resamples": 100, "rng": 0}
    expected = iso.equalize_thresholds({name: values[kept] for name, values in data.items()}, **options)
    result = iso.equalize_thresholds(data | {"w": np.where(kept, data["w"], np.nan)}, **options)
    np.testing.assert_allclose(result.thresholds, expected.thresholds, rtol=1e-9)
    assert result.size.tolist() == expected.size.tolist()
