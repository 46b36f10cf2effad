"""Rows into parts, and scores into decisions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives.rules.utilities import Criteria
from isonomy.errors import DataError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.resampling import quantiles

UNEQUAL = 0.05  # by how much the share that ready decisions select may differ from the capacity

Weight = NDArray[np.int64]  # how many rows each line stands for
Mass = Weight | FloatArray  # what they weigh


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The decisions of an algorithm on the rows it is judged on.

    ``share`` is the probability that a line is selected: 0 or 1, or a fraction for lines tied at the cut-off and for
    mixtures of several rules; or it is the price. ``edge`` has the weights of the lines at the cut-off, summing to 1:
    they determine the error of a cut-off that was learned from these rows. It is 0 throughout if none was.
    """

    share: FloatArray
    edge: FloatArray
    capacity: float = 0.0
    cutoff: float = np.nan


def split(
    weight: Weight, fraction: float, rng: np.random.Generator, cluster: IntArray | None = None
) -> tuple[Weight, Weight]:
    """How many rows of each line are in the training part and in the test part.

    floor(fraction n) rows train, drawn uniformly. Clusters stay whole, so with clusters it is about that many rows.
    """
    if not fraction:
        return np.zeros_like(weight), weight
    if cluster is not None:
        train = np.where(_before(weight, cluster, rng) < fraction, weight, 0)
    else:
        train = rng.multivariate_hypergeometric(weight, int(fraction * weight.sum()), method="marginals")
    return train, weight - train


def fold(weight: Weight, number: int, rng: np.random.Generator, cluster: IntArray | None = None) -> Weight:
    """How many rows of each line are in each fold, which are of about equal size: (folds, lines)."""
    if cluster is not None:
        part = np.floor(_before(weight, cluster, rng) * number)
        return np.stack([np.where(part == k, weight, 0) for k in range(number)])
    parts, left = [], weight
    for remaining in range(number, 1, -1):
        part, left = split(left, 1 / remaining, rng)
        parts.append(part)
    return np.stack([*parts, left])


def _before(weight: Weight, cluster: IntArray, rng: np.random.Generator) -> FloatArray:
    """For each line, the share of rows that precede its cluster in a random order of clusters."""
    sizes = np.bincount(cluster, weights=weight)
    order = rng.permutation(len(sizes))
    before = np.empty(len(sizes))
    before[order] = np.cumsum(sizes[order]) - sizes[order]
    return np.asarray(before[cluster] / sizes.sum())


def are_scores(values: FloatArray, criteria: Criteria, what: str) -> bool:
    """Whether values need a cut-off, because they are not all 0 or 1. ``what`` names them in the error."""
    if np.isin(values, (0.0, 1.0)).all():
        return False
    if not criteria.scored:
        raise DataError(
            f"{what}: the values are not all 0 or 1, so they are scores; give capacity (the share to select, or "
            "isonomy.above(threshold)), or 0/1 decisions."
        )
    return True


def select(
    values: FloatArray, weight: Mass, criteria: Criteria, what: str, *, scores: bool = False, learn: bool = False
) -> Selection:
    """The decisions on the rows of ``weight``: with a capacity, exactly that share of them is selected.

    Prices are used as they are. Values of 0 and 1 are decisions, unless they are known to be ``scores``. ``learn``: the
    paper's cut-off, the 1 - capacity quantile of these rows, which is then used for other rows.
    """
    none, capacity = np.zeros(len(values)), criteria.capacity
    if criteria.priced:
        return Selection(values, none)
    known = scores and not learn and capacity is not None
    if not (known or are_scores(values, criteria, what)):
        selected = float(values @ weight / weight.sum())
        if capacity is not None and not learn and abs(selected - capacity) > UNEQUAL:
            raise DataError(
                f"{what}: the 0/1 decisions select {selected:.1%}, but the capacity is {capacity:.1%}. An algorithm "
                "that selects fewer people selects the best ones; give the capacity of the decisions, or scores."
            )
        return Selection(values, none)
    if capacity is None or learn:
        cutoff = float(criteria.threshold or 0.0)
        if capacity is not None:
            cutoff = float(quantiles(values, np.rint(weight).astype(np.int64), 1 - capacity, linear=True))
        return Selection((values > cutoff).astype(float), none, cutoff=cutoff)
    share, near, cutoff = at_capacity(values, weight, capacity, reach(capacity, round(float(weight.sum()))))
    return Selection(share, near / near.sum(), capacity, cutoff)


def reach(capacity: float, rows: int) -> float:
    """How far from the cut-off, as a share of the rows, lines count as being at it; it vanishes as rows grow."""
    return min(0.5 * min(capacity, 1 - capacity), 0.25 * rows**-0.2)


def at_capacity(values: FloatArray, weight: Mass, capacity: float, near: float) -> tuple[FloatArray, FloatArray, float]:
    """Select exactly the share ``capacity``. Returns the share of each line, rows near the cut-off, and the cut-off.

    Lines tied at the cut-off are selected with equal probability. If they are fewer than a share of 2 ``near``, all
    lines within ``near`` of the cut-off count as being at it.

    >>> share, near, cutoff = at_capacity(np.array([1.0, 2.0, 2.0, 3.0]), np.ones(4, dtype=np.int64), 0.5, 0.1)
    >>> share.tolist(), near.tolist(), cutoff
    ([0.0, 0.5, 0.5, 1.0], [0.0, 1.0, 1.0, 0.0], 2.0)
    """
    order = np.argsort(-values, kind="stable")
    reached = np.cumsum(weight[order])
    wanted, width = capacity * reached[-1], near * reached[-1]
    place = int(np.searchsorted(reached, wanted * (1 - 1e-12)))
    cutoff = values[order][min(place, len(order) - 1)]
    above, tied = values > cutoff, values == cutoff
    ties = weight[tied].sum()
    share = above + tied * np.clip((wanted - weight[above].sum()) / ties, 0.0, 1.0)
    close = tied
    if ties < 2 * width:
        close = np.zeros(len(values), dtype=bool)
        close[order] = (reached > wanted - width) & (reached - weight[order] < wanted + width)
    return share, (close | tied) * weight.astype(float), float(cutoff)
