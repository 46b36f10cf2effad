"""What a rule is given, what it returns, what happens if it fails, and how scores become decisions.

A rule is any callable ``rule(training) -> algorithm``; an algorithm is any callable ``algorithm(people) -> values``,
where values are 0/1 decisions, or scores that the capacity or the threshold turns into decisions. A rule that fails has
found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives.rules.utilities import Criteria
from isonomy.errors import DataError, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.resampling import quantiles
from isonomy.numerics.status import Status

UNEQUAL = 0.05  # by how much the share that ready decisions select may differ from the capacity

Weight = NDArray[np.int64]  # how many rows each line stands for
Mass = Weight | FloatArray  # what they weigh


# ---- what a rule is given


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """What an algorithm may use: features, and the group if its rule is group-aware.

    A text feature holds the position of its value among ``levels``, -1 for an unknown value.
    """

    features: Mapping[str, FloatArray]
    group: IntArray
    labels: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.group)

    def matrix(self, *, group_aware: bool = False) -> FloatArray:
        """Features as columns; text features and the group as one 0/1 column per level except the first."""
        columns: list[FloatArray] = []
        for name, values in self.features.items():
            levels = range(1, len(self.levels.get(name, ())))
            columns += [(values == code).astype(float) for code in levels] if name in self.levels else [values]
        if group_aware:
            columns += [(self.group == code).astype(float) for code in range(1, len(self.labels))]
        return np.column_stack(columns) if columns else np.empty((len(self), 0))

    def take(self, index: IntArray) -> People:
        """The people at ``index``; repeats are allowed."""
        return replace(self, features={n: v[index] for n, v in self.features.items()}, group=self.group[index])


Decide = Callable[[People], ArrayLike]


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The rows a rule may learn from, one entry per person, and what its algorithm must achieve.

    ``criteria`` holds the utilities, the required gains, the protected group, the capacity and the threshold.
    """

    people: People
    outcomes: Mapping[str | None, FloatArray]  # None: the outcome of the call; else the column a utility names
    status_quo: FloatArray  # the status quo's decisions
    criteria: Criteria
    rng: np.random.Generator
    weight: FloatArray | None = None  # what each row weighs; None: all the same

    @property
    def outcome(self) -> FloatArray:
        """The outcome of the call."""
        return self.outcomes[None]

    @property
    def masses(self) -> FloatArray:
        """What each row weighs."""
        return np.ones(len(self.people)) if self.weight is None else self.weight

    def take(self, index: IntArray) -> Training:
        """The training rows at ``index``."""
        outcomes = {name: values[index] for name, values in self.outcomes.items()}
        weight = None if self.weight is None else self.weight[index]
        people, status_quo = self.people.take(index), self.status_quo[index]
        return replace(self, people=people, outcomes=outcomes, status_quo=status_quo, weight=weight)


def stratified(training: Training, share: float) -> tuple[IntArray, IntArray]:
    """Row numbers in two parts: the first has ``share`` of each group, outcome and decision, and at least one row."""
    y = training.outcome
    high = y > np.median(y) if len(np.unique(y)) > 2 else y == y.max()
    strata = 4 * training.people.group + 2 * high + (training.status_quo > 0.5)
    order = np.lexsort((training.rng.random(len(y)), strata))
    sizes = np.bincount(strata)
    place = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = place < np.maximum(1, np.rint(share * np.repeat(sizes, sizes)))
    return np.sort(order[first]), np.sort(order[~first])


# ---- what a rule returns


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """A candidate algorithm with remarks of its rule, which may return this instead of a bare callable.

    ``decide`` is None if nothing was found; the p-value is then 1.
    """

    decide: Decide | None
    status: Status = Status.OK
    note: str = ""
    details: Mapping[str, float] = field(default_factory=dict)

    def __call__(self, people: People) -> ArrayLike:
        if self.decide is None:
            raise UsageError(f"no algorithm was found: {self.note}")
        return self.decide(people)


SelectionRule = Callable[[Training], Decide]  # makes an algorithm from the training part


def find(rule: SelectionRule, name: str, training: Training) -> Algorithm:
    """The algorithm that the rule makes from the training part; a rule that fails has found nothing."""
    try:
        algorithm: object = rule(training)
    except Exception as error:
        return Algorithm(None, Status.FAILED, f"rule {name!r} failed: {type(error).__name__}: {error}")
    if isinstance(algorithm, Algorithm):
        return algorithm
    if callable(algorithm):
        return Algorithm(algorithm)
    note = f"rule {name!r} returned a {type(algorithm).__name__}; a callable algorithm is needed."
    return Algorithm(None, Status.FAILED, note)


def applied(algorithm: Algorithm, name: str, people: People) -> tuple[Algorithm, FloatArray]:
    """Scores or decisions, one finite number per person; if that fails, NaN and an algorithm that found nothing."""
    nothing = np.full(len(people), np.nan)
    if algorithm.decide is None:
        return algorithm, nothing
    try:
        numbers = np.asarray(algorithm(people), dtype=float)
    except Exception as error:
        note = f"rule {name!r} failed to decide: {type(error).__name__}: {error}"
        return Algorithm(None, Status.FAILED, note), nothing
    if numbers.shape == (len(people),) and np.isfinite(numbers).all():
        return algorithm, numbers
    seen = f"{numbers.size:,} values, {np.isfinite(numbers).sum():,} of them finite"
    if numbers.ndim != 1:  # as many values in another shape
        seen = f"an array of shape {numbers.shape}"
    note = f"rule {name!r} returned {seen}; it must return one finite number for each of {len(people):,} rows."
    return Algorithm(None, Status.FAILED, note), nothing


# ---- scores into decisions


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
            "iso.above(threshold)), or 0/1 decisions."
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
    share, near, cutoff = at_capacity(values, weight, capacity, round(float(weight.sum())))
    return Selection(share, near / near.sum(), capacity, cutoff)


def at_capacity(values: FloatArray, weight: Mass, capacity: float, rows: int) -> tuple[FloatArray, FloatArray, float]:
    """Select exactly the share ``capacity``. Returns the share of each line, rows near the cut-off, and the cut-off.

    Lines tied at the cut-off are selected with equal probability. If they are few, all lines within a share of the
    table that vanishes as its ``rows`` grow count as being at the cut-off.

    >>> share, near, cutoff = at_capacity(np.array([1.0, 2.0, 2.0, 3.0]), np.ones(4, dtype=np.int64), 0.5, 4)
    >>> share.tolist(), near.tolist(), cutoff
    ([0.0, 0.5, 0.5, 1.0], [0.0, 1.0, 1.0, 0.0], 2.0)
    """
    order = np.argsort(-values, kind="stable")
    reached = np.cumsum(weight[order])
    wanted = capacity * reached[-1]
    width = min(0.5 * min(capacity, 1 - capacity), 0.25 * rows**-0.2) * reached[-1]
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
