"""Tables of people with clusters, weights, and decisions that do not differ between groups."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from isonomy.frames.design import Block, Clusters, Design
from isonomy.numerics.arrays import FloatArray

# People with a higher score are selected.
CUT = 0.5


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
    rows: int | None = None,
) -> dict[str, Any]:
    """0/1 decisions at the same ``rate`` in two groups.

    Parameters
    ----------
    heavy : bool
        Cluster sizes have a log-sd of 1, and one cluster has a fifth of all rows; otherwise all sizes are equal.
    correlation : float
        The intraclass correlation. Clusters have their own rates, from a beta distribution.
    within : bool
        Whether every cluster lies in one group; otherwise the group is drawn row by row.
    spread, related : float, bool
        The standard deviation of the log weights; if ``related``, positive decisions have larger weights.
    rows : int
        The mean number of rows of a cluster: by default 10, or 4 if there are more than 200 clusters.
    """
    rows = (10 if clusters <= 200 else 4) if rows is None else rows
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


def subjects(rng: np.random.Generator, *, correlation: float = 0.0, **design: Any) -> dict[str, Any]:
    """People with a score, a worse score, an outcome and a randomized treatment; groups do not differ in any of these.

    ``correlation`` is the intraclass correlation of the latent variables behind scores and outcomes. The treatment is
    drawn row by row; it has no effect, and none is predicted. If ``related``, positive outcomes have larger weights.
    """
    related = design.pop("related", False)
    table = people(rng, correlation=0.0, **design)
    cluster, size = table["cluster"], table["cluster"].size

    def latent() -> FloatArray:
        common = rng.normal(size=int(cluster.max()) + 1)[cluster]
        return np.asarray(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * rng.normal(size=size))

    merit = latent()
    outcome = (0.8 * merit + 0.6 * latent() > 0.3).astype(int)
    if related:
        table["weight"] = table["weight"] * np.exp(0.7 * design["spread"] * outcome)
    # The second draw is unused; it keeps the random numbers of lines that were run when it was used.
    score, _ = (stats.norm.cdf((merit + 0.3 * rng.normal(size=size)) / np.hypot(1, 0.3)) for _ in range(2))
    treatment = rng.integers(0, 2, size)
    return table | {
        "score": score,
        "worse": stats.norm.cdf((merit + 1.5 * rng.normal(size=size)) / np.hypot(1, 1.5)),
        "decision": (score > CUT).astype(int),
        "outcome": outcome,
        "treatment": treatment,
        "effect": np.zeros(size),
    }


def unequal(table: dict[str, Any]) -> dict[str, Any]:
    """Raise both scores equally in one group, so that either score selects the groups equally unequally."""
    raised = {name: stats.norm.ppf(table[name]) + 0.5 * table["group"] for name in ("score", "worse")}
    return table | raised


@dataclass(frozen=True, eq=False)
class Many:
    """Several tables as one: a line for each table, group and decision, and the number of rows by these three."""

    design: Design
    rows: FloatArray


def many_tables(tables: Iterable[dict[str, Any]]) -> Many:
    """Combine tables of two groups and 0/1 decisions; no cluster belongs to two tables."""
    clusters, lines, weights, last = [], [], [], 0
    for number, table in enumerate(tables):
        clusters.append(table["cluster"] + last)
        last += int(table["cluster"].max()) + 1
        lines.append(4 * number + 2 * table["group"] + table["decision"])
        weights.append(table["weight"] * table["weight"].size / table["weight"].sum())
    cluster, line, weight = (np.concatenate(part) for part in (clusters, lines, weights))
    width = 4 * len(lines)
    first, second, fourth = (np.bincount(line, weight**power, minlength=width).astype(float) for power in (1, 2, 4))
    rows = np.bincount(line, minlength=width).astype(float)
    block = Block.from_codes(cluster, last, line, weight, width)
    return Many(Design(first, second, fourth, rows, Clusters(lambda: iter([block]))), rows.reshape(-1, 2, 2))
