"""Tables of people: rows in clusters, weights, and decisions in which groups do not differ."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from isonomy.frames.design import Block, Clusters, Design
from isonomy.numerics.arrays import FloatArray

# Where people are selected by their score.
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
    """0/1 decisions at one ``rate`` in two groups; about ``rows`` of them in each of the ``clusters``.

    (Ten, or four where there are more than 200 clusters.)

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
    """People with a score, a worse one, an outcome and an experiment; groups do not differ in any of it.

    Scores are alike within a cluster, and so are outcomes besides: ``correlation`` is that of what lies behind both.
    The treatment, drawn row by row, has no effect, and none is predicted. ``related``: positive outcomes weigh more.
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
    # Two draws, of which one is used: lines that were run before it was not have the same people.
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
    """The same people with both scores raised alike in one group: selected by either, groups are equally unequal."""
    raised = {name: stats.norm.ppf(table[name]) + 0.5 * table["group"] for name in ("score", "worse")}
    return table | raised


@dataclass(frozen=True, eq=False)
class Many:
    """Several tables as one: a line for each table, group and decision, and rows by these three."""

    design: Design
    rows: FloatArray


def many_tables(tables: Iterable[dict[str, Any]]) -> Many:
    """Tables of two groups and 0/1 decisions, whose clusters are those of no other table."""
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
    block = Block.of(cluster, last, line, weight, width)
    return Many(Design(first, second, fourth, rows, Clusters(lambda: iter([block]))), rows.reshape(-1, 2, 2))
