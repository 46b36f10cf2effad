"""What a rule is given, what it returns, and what happens if it fails.

A rule is any callable ``rule(training) -> algorithm``; an algorithm is any callable ``algorithm(people) -> values``,
where values are 0/1 decisions, or scores that the capacity or the threshold turns into decisions. A rule that fails has
found nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.rules.utilities import Criteria
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status


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
        """The people at ``index``, repeats allowed."""
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
        """Scores or decisions."""
        if self.decide is None:
            raise UsageError(f"no algorithm was found: {self.note}")
        return self.decide(people)


@runtime_checkable
class SelectionRule(Protocol):
    """Anything that makes an algorithm from the training part."""

    def __call__(self, training: Training, /) -> Decide:
        """Find an algorithm."""


def find(rule: SelectionRule, name: str, training: Training) -> Algorithm:
    """The algorithm that the rule makes from the training part; a rule that fails has found nothing."""
    try:
        algorithm: object = rule(training)
    except Exception as error:
        return _failed(f"rule {name!r} failed: {type(error).__name__}: {error}")
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not callable(algorithm):
        return _failed(f"rule {name!r} returned a {type(algorithm).__name__}; a callable algorithm is needed.")
    return Algorithm(algorithm)


def applied(algorithm: Algorithm, name: str, people: People) -> tuple[Algorithm, FloatArray]:
    """Scores or decisions, one finite number per person; if that fails, NaN and an algorithm that found nothing."""
    nothing = np.full(len(people), np.nan)
    if algorithm.decide is None:
        return algorithm, nothing
    try:
        returned = algorithm(people)
    except Exception as error:
        return _failed(f"rule {name!r} failed to decide: {type(error).__name__}: {error}"), nothing
    try:
        numbers = np.asarray(returned, dtype=float)
    except (TypeError, ValueError):
        return _failed(f"rule {name!r} returned values that are not numbers; numbers are needed."), nothing
    if numbers.shape != (len(people),):
        needed = f"one value for each of {len(people)} rows is needed."
        return _failed(f"rule {name!r} returned shape {numbers.shape}; {needed}"), nothing
    if wrong := int((~np.isfinite(numbers)).sum()):
        return _failed(f"rule {name!r} returned {wrong} NaN or infinite values; finite numbers are needed."), nothing
    return algorithm, numbers


def _failed(note: str) -> Algorithm:
    return Algorithm(None, Status.FAILED, note)
