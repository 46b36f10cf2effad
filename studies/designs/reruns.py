"""Analysts who rerun a test: p-values of splits, drawn from the model of section 5."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from isonomy.alternatives.rules.comparison import level


def simulate_reruns(
    reruns: int, *, splits: int, correlation: float, replications: int, rng: np.random.Generator, alpha: float = 0.05
) -> float:
    """Share of ``replications`` simulated tables in which at least one of ``reruns`` runs rejects.

    Checks `isonomy.alternatives.false_rejection`, which has the same parameters.
    """
    wins = 0
    for _ in range(replications):
        shared = math.sqrt(correlation) * rng.standard_normal()
        own = math.sqrt(1 - correlation) * rng.standard_normal((reruns, splits))
        below = (ndtr(shared + own) <= level(alpha, splits)).sum(axis=1)
        wins += bool((2 * below >= splits).any())
    return wins / replications
