"""Tables of people: rows in clusters, weights, and decisions in which groups do not differ."""

from __future__ import annotations

from typing import Any

import numpy as np


def people(
    rng: np.random.Generator,
    *,
    clusters: int,
    heavy: bool = False,
    correlation: float = 0.0,
    within: bool = False,
    spread: float = 0.0,
    related: bool = False,
    rate: float = 0.3,
    rows: int = 10,
) -> dict[str, Any]:
    """0/1 decisions at one ``rate`` in two groups; about ``rows`` of them in each of the ``clusters``.

    Parameters
    ----------
    heavy : bool
        Cluster sizes of log-sd 1, and one cluster with a fifth of all rows; otherwise all are equal.
    correlation : float
        The intraclass correlation: clusters have their own rates, from a beta distribution.
    within : bool
        Whether every cluster is in one group; otherwise each row draws its own.
    spread : float
        The standard deviation of the logarithm of the weights; ``related``: positive decisions weigh more.
    """
    sizes = np.full(clusters, rows)
    if heavy:
        sizes = np.maximum(1, rng.lognormal(np.log(rows) - 0.5, 1.0, clusters).astype(int))
        sizes[0] = max(1, round(0.25 * sizes[1:].sum()))
    cluster = np.repeat(np.arange(clusters), sizes)
    rates = np.full(clusters, rate)
    if correlation:
        shape = (1 - correlation) / correlation
        rates = rng.beta(rate * shape, (1 - rate) * shape, clusters)
    decision = (rng.random(cluster.size) < rates[cluster]).astype(int)
    group = (rng.permutation(clusters) % 2)[cluster] if within else rng.integers(0, 2, cluster.size)
    weight = np.exp(spread * (rng.normal(size=cluster.size) + (0.7 * decision if related else 0.0)))
    return {"group": group, "decision": decision, "cluster": cluster, "weight": weight}
