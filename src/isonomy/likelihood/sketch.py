"""A sketch of very many rows: a few thousand weighted values with nearly the same smooth sums.

It serves the rest of a small group in a large table far from its estimate, where power series do not converge and
reading all rows for each of thousands of groups would cost the product of the two.
"""

from __future__ import annotations

import numpy as np

from isonomy.numerics.arrays import FloatArray

# A bin's share of the rows between it and the nearer end.
BIN_SHARE = 0.01


def sketch(values: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Weighted values with nearly the same smooth sums: the outermost rows as they are, the others in bins.

    A bin holds at most a fixed share of the rows between it and the nearer end, so bins are narrow in the tails too.
    Each is replaced by two values with its mean and variance.

    Examples
    --------
    >>> x = np.random.default_rng(0).exponential(size=50_000)
    >>> values, mass = sketch(x, None)
    >>> bool(values.size < 5_000), bool(abs(np.sum(mass / (1 + values)) / np.sum(1 / (1 + x)) - 1) < 1e-9)
    (True, True)
    """
    order = np.argsort(values, kind="stable")
    x = values[order]
    mass = np.ones(x.size) if weights is None else weights[order]
    ranks = [0]
    while ranks[-1] < x.size // 2:
        ranks.append(ranks[-1] + max(1, int(BIN_SHARE * ranks[-1])))
    half = np.array([r for r in ranks if r < x.size // 2])
    starts = np.unique(np.concatenate([half, x.size - half[half > 0]]))
    total = np.add.reduceat(mass, starts)
    mean = np.add.reduceat(mass * x, starts) / total
    spread = np.add.reduceat(mass * (x - np.repeat(mean, np.diff(np.append(starts, x.size)))) ** 2, starts) / total
    away = np.sqrt(spread)
    return np.concatenate([mean - away, mean + away]), np.concatenate([total, total]) / 2.0
