"""What the caller requires of an alternative, resolved against the groups of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from isonomy.alternatives import wording
from isonomy.alternatives.evidence import Criteria
from isonomy.alternatives.utilities import FloatArray, Utility
from isonomy.errors import UnknownOption, UsageError, choose, fraction
from isonomy.frames import Group

Gain = float | Mapping[Any, float]


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What every round does; ``rule`` is None where the candidate is a column."""

    criteria: Criteria
    accuracy_gains: tuple[float, ...]
    fairness_gains: tuple[float, ...]
    rule: Any
    capacity: float | None
    threshold: float | None
    train_fraction: float  # 0: no training part, every row is tested
    resamples: int
    pvalue_form: str
    min_size: int

    @property
    def numbers(self) -> bool:
        """Whether decisions are numbers (prices), not 0/1."""
        return not all(u.binary for u in self.criteria.utilities)

    @property
    def rule_name(self) -> str:
        """What the rule is called in tables and sentences."""
        return wording.CANDIDATE if self.rule is None else str(getattr(self.rule, "name", type(self.rule).__name__))


def check_numbers(
    *,
    capacity: float | None,
    threshold: float | None,
    train_fraction: float,
    alpha: float,
    resamples: int,
    splits: int,
    min_size: int,
    n_jobs: int,
) -> None:
    """Refuse numbers that no round could work with, before any row is read."""
    fraction("alpha", alpha)
    fraction("train_fraction", train_fraction)
    if capacity is not None:
        fraction("capacity", capacity)
    if capacity is not None and threshold is not None:
        raise UsageError("capacity, threshold: give one of them; both turn scores into decisions.")
    if threshold is not None:
        _finite("threshold", threshold)
    for name, value, low in (("resamples", resamples, 1), ("splits", splits, 1), ("min_size", min_size, 1)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < low:
            raise UsageError(f"{name}: {value!r} is not allowed; give a whole number from {low} up.")
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, int) or n_jobs == 0:
        raise UsageError(f"n_jobs: {n_jobs!r} is not allowed; give a number of processes, or -1 for every core.")


def code_of(argument: str, groups: Sequence[Group], given: object) -> int:
    """Which group is meant: by its label, by its value, or by ``{column: value}``."""
    for code, group in enumerate(groups):
        values = tuple(group.mapping.values())
        if isinstance(given, Mapping):
            if {k: str(v) for k, v in given.items()} == {k: str(v) for k, v in group.mapping.items()}:
                return code
        elif group.label == given or (len(values) == 1 and str(values[0]) == str(given)):
            return code
    raise UnknownOption(argument, given, [group.label for group in groups])


def weights_of(groups: Sequence[Group], given: str | Mapping[Any, float] | None) -> FloatArray | str | None:
    """One weight a group, "pooled", or None."""
    if given is None or isinstance(given, str):
        return given if given is None else choose("accuracy_weights", given, ("pooled",))
    found = _by_group("accuracy_weights", groups, given)
    if (found <= 0).any():
        raise UsageError(f"accuracy_weights: {dict(given)!r}; weights must be above 0.")
    return found


def harm_of(utility: Utility, disadvantage: str | None) -> int:
    """+1 where having less of the utility is the disadvantage, -1 where having more is."""
    if disadvantage is not None:
        return 1 if choose("disadvantage", disadvantage, ("lower", "higher")) == "lower" else -1
    return 1 if utility.better == "higher" else -1


def accuracy_gains(criteria: Criteria, groups: Sequence[Group], given: Gain) -> tuple[float, ...]:
    """The required gain of each accuracy component."""
    if isinstance(given, Mapping):
        if criteria.weights is not None:
            raise UsageError("accuracy_gain: one accuracy is asked for (accuracy_weights), so give one number.")
        found = _by_group("accuracy_gain", groups, given)
    else:
        found = np.full(len(criteria.accuracies), _finite("accuracy_gain", given))
    if criteria.scale == "ratio" and (found <= -1).any():
        raise UsageError(f"accuracy_gain: {given!r}; a loss of everything requires nothing. Give more than -1.")
    return tuple(found.tolist())


def fairness_gains(criteria: Criteria, given: Gain) -> tuple[float, ...]:
    """The required cut of each unfairness."""
    names = [u.name for u in criteria.fairness]
    if isinstance(given, Mapping):
        if set(given) != set(names):
            raise UsageError(f"fairness_gain: {dict(given)!r}; give one number for each of {', '.join(names)}.")
        found = [_finite(f"fairness_gain of {name}", given[name]) for name in names]
    else:
        found = [_finite("fairness_gain", given)] * len(names)
    if criteria.scale == "ratio" and max(found) >= 1:
        raise UsageError(
            f"fairness_gain: {given!r}; unfairness cannot fall by all of itself or more. Give less than 1."
        )
    return tuple(found)


def _by_group(argument: str, groups: Sequence[Group], given: Mapping[Any, float]) -> FloatArray:
    found = np.full(len(groups), np.nan)
    for key, value in given.items():
        found[code_of(argument, groups, key)] = _finite(f"{argument}[{key!r}]", value)
    if np.isnan(found).any():
        absent = [g.label for g, value in zip(groups, found, strict=True) if np.isnan(value)]
        raise UsageError(f"{argument}: nothing given for {', '.join(absent)}; give a number for every group.")
    return found


def _finite(argument: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.number)) or not np.isfinite(value):
        raise UsageError(f"{argument}: {value!r} is not allowed; give a finite number.")
    return float(value)
