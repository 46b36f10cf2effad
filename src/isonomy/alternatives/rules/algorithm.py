"""What a rule is given, what it returns, and how both are guarded.

A rule is any callable ``rule(training) -> algorithm``; an algorithm is any callable ``algorithm(people) -> values``,
where values are 0/1 decisions, or scores that the capacity or the threshold turns into decisions. The test is valid
whatever the rule is; a better rule finds more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.rules.utilities import Utility
from isonomy.errors import RuleFailed, UsageError
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.status import Status

R = TypeVar("R")


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """What an algorithm may look at: features, and the group for rules that are group-aware."""

    features: Mapping[str, FloatArray]
    group: IntArray
    labels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.group)

    def matrix(self, *, group_aware: bool = False) -> FloatArray:
        """Features as columns, then one 0/1 column per group (but the first) if group-aware."""
        columns = list(self.features.values())
        if group_aware:
            columns += [(self.group == code).astype(float) for code in range(1, len(self.labels))]
        return np.column_stack(columns) if columns else np.empty((len(self), 0))

    def take(self, index: IntArray) -> People:
        """The people at ``index``, repeats allowed."""
        return People({n: v[index] for n, v in self.features.items()}, self.group[index], self.labels)


Decide = Callable[[People], ArrayLike]


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """The training part of one round, one entry per person. A rule may use all of it."""

    people: People
    outcome: FloatArray
    status_quo: FloatArray  # the status quo's decisions
    accuracy: Utility
    capacity: float | None
    scored: bool  # a capacity or a threshold will turn scores into decisions
    rng: np.random.Generator


@dataclass(frozen=True, slots=True, eq=False)
class Algorithm:
    """A candidate algorithm with what its rule has to say about it.

    A rule may return this in place of a bare callable: ``decide`` is None where nothing was found, and the round's
    p-value is then 1.
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
    """The algorithm that the rule makes of the training part; whatever goes wrong names the rule."""
    algorithm: object = _guarded(name, "failed", partial(rule, training))
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not callable(algorithm):
        raise RuleFailed(f"rule {name!r} returned a {type(algorithm).__name__}; a callable algorithm needed.")
    return Algorithm(algorithm)


def values_of(algorithm: Algorithm, name: str, people: People, training: BoolArray) -> FloatArray:
    """Scores or decisions for everybody, checked: one finite number per person; NaN where nothing was found.

    The algorithm sees the two parts apart: one that ranks what it is given must not rank test with training rows.
    """
    result = np.full(len(people), np.nan)
    if algorithm.decide is None:
        return result
    for index in (np.flatnonzero(training), np.flatnonzero(~training)):
        if len(index):
            returned = _guarded(name, "failed to decide", partial(algorithm, people.take(index)))
            result[index] = _checked(returned, len(index), name)
    return result


def _guarded(name: str, what: str, action: Callable[[], R]) -> R:
    try:
        return action()
    except Exception as error:
        raise RuleFailed(f"rule {name!r} {what}: {type(error).__name__}: {error}") from error


def _checked(returned: ArrayLike, size: int, name: str) -> FloatArray:
    try:
        numbers = np.asarray(returned, dtype=float)
    except (TypeError, ValueError):
        raise RuleFailed(f"rule {name!r} returned values that are not numbers; numbers needed.") from None
    if numbers.shape != (size,):
        raise RuleFailed(f"rule {name!r} returned shape {numbers.shape}; one value for {size} rows needed.")
    if not np.isfinite(numbers).all():
        n = int((~np.isfinite(numbers)).sum())
        raise RuleFailed(f"rule {name!r} returned {n} NaN or infinite values; finite numbers needed.")
    return numbers
