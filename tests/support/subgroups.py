"""A table with a planted subgroup, and its reference numbers: women under 30 are selected less often."""

from __future__ import annotations

from typing import Any

import numpy as np

AGES = (26, 33, 41, 48, 56, 63, 71)
HOURS = (7, 13, 19, 25, 32, 38, 44)


def reference_table() -> dict[str, Any]:
    """2,400 rows without chance, as the specification of the search defines them."""
    i = np.arange(2_400)
    sex, age = np.where(i % 2 == 1, "f", "m"), 18 + 7 * i % 60
    u = ((37 * i + 11) % 101) / 101
    y = u < np.where((sex == "f") & (age < 30), 0.25, 0.45)
    region = np.array(["north", "south", "east"])[i // 2 % 3]
    return {"sex": sex, "region": region, "age": age, "hours": 13 * i % 50, "y": y.astype(int)}


def planted(rows: int = 2_000, seed: int = 5, gap: float = 0.25) -> dict[str, Any]:
    """Women under 30 have a rate of 0.5 - gap, all others of 0.5; weights, persons, strata and gaps for options."""
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["f", "m"], rows), rng.integers(18, 78, rows)
    chance = np.where((sex == "f") & (age < 30), 0.5 - gap, 0.5)
    return {
        "sex": sex,
        "age": age,
        "region": rng.choice(["north", "south", "east"], rows),
        "hours": rng.normal(40, 10, rows).round(1),
        "children": rng.integers(0, 4, rows),
        "approved": (rng.random(rows) < chance).astype(int),
        "outcome": rng.integers(0, 2, rows),
        "score": np.clip(chance + rng.normal(0, 0.1, rows), 0.01, 0.99).round(3),
        "amount": (1_000 * chance * rng.gamma(4, 0.25, rows)).round(2),
        "weight": rng.integers(8, 48, rows) / 16,
        "person": np.arange(rows) // 2,
        "stratum": rng.choice(["a", "b"], rows),
        "count": rng.integers(1, 3, rows),
    }
