"""People who apply to two departments, one of which admits fewer."""

from __future__ import annotations

from typing import Any

import numpy as np

import isonomy as iso


def admissions(rows: int = 2_000, seed: int = 0) -> dict[str, Any]:
    """Women apply to the department that admits fewer; within departments there is no difference."""
    rng = np.random.default_rng(seed)
    sex = np.where(rng.random(rows) < 0.5, "f", "m")
    hard = rng.random(rows) < np.where(sex == "f", 0.8, 0.3)
    admitted = (rng.random(rows) < np.where(hard, 0.2, 0.6)).astype(int)
    return {
        "sex": sex,
        "department": np.where(hard, "hard", "easy"),
        "admitted": admitted,
        "score": rng.normal(size=rows),
    }


RATE: dict[str, Any] = {"metric": "selection_rate", "prediction": "admitted", "groups": "sex"}


def stratified(data: object, **options: Any) -> Any:
    """`flag` with ``given``, whose result has columns that are None without it."""
    return iso.flag(data, **options)
