"""Who is selected: the rule's candidate, the cut-offs, and everybody's decision under both algorithms."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from isonomy.alternatives import wording
from isonomy.alternatives.requirements import Plan
from isonomy.alternatives.rules import Algorithm, People, Training
from isonomy.alternatives.tally import Table, Weight
from isonomy.alternatives.utilities import FloatArray
from isonomy.errors import DataError, RuleFailed


def split(weight: Weight, fraction: float, rng: np.random.Generator) -> tuple[Weight, Weight]:
    """Rows of each line in the training and in the test part; floor(fraction n) rows train, drawn uniformly."""
    if not fraction:
        return np.zeros_like(weight), weight
    rows = int(fraction * weight.sum())
    train = rng.multivariate_hypergeometric(weight, rows, method="marginals")
    return train, weight - train


def select(table: Table, plan: Plan, learn: Weight, a0: FloatArray, rng: np.random.Generator) -> Algorithm:
    """Run the rule on the training part; the candidate column stands for itself."""
    if plan.rule is None:
        values = table.candidate
        return Algorithm(lambda people: values)
    rows = np.repeat(np.arange(len(learn)), learn)
    training = Training(
        people=people_of(table).take(rows),
        outcome=table.outcomes[None][rows],
        status_quo=a0[rows],
        accuracy=plan.criteria.accuracy,
        capacity=plan.capacity,
        scored=plan.capacity is not None or plan.threshold is not None,
        rng=rng,
    )
    algorithm = _guard(plan, "failed", partial(plan.rule, training))
    if isinstance(algorithm, Algorithm):
        return algorithm
    if not callable(algorithm):
        raise RuleFailed(wording.rule_returned(plan.rule_name, f"a {type(algorithm).__name__}", "a callable algorithm"))
    return Algorithm(algorithm)


def people_of(table: Table) -> People:
    """What algorithms may see of the table."""
    return People(table.features, table.group, table.labels)


def status_quo(table: Table, plan: Plan, learn: Weight) -> tuple[FloatArray, float]:
    """Decisions of the status quo on every line, and its cut-off."""
    return _decisions(table.status_quo, learn, plan, "status_quo")


def candidate(table: Table, plan: Plan, algorithm: Algorithm, learn: Weight) -> tuple[FloatArray, float]:
    """Decisions of the candidate on every line, and its cut-off."""
    if algorithm.decide is None:
        return np.full(len(learn), np.nan), np.nan
    if plan.rule is None:
        assert table.candidate is not None
        return _decisions(table.candidate, learn, plan, "candidate")
    people = people_of(table)
    values = np.empty(len(people))
    # The algorithm sees the two parts apart: one that ranks what it is given must not rank test with training rows.
    for part in (learn > 0, learn == 0):
        if part.any():
            index = np.flatnonzero(part)
            returned = _guard(plan, "failed to decide", partial(algorithm, people.take(index)))
            values[index] = _checked(returned, len(index), plan)
    return _decisions(values, learn, plan, f"rule {plan.rule_name!r}")


def _guard(plan: Plan, what: str, action: Callable[[], Any]) -> Any:
    try:
        return action()
    except Exception as error:
        raise RuleFailed(wording.rule_failed(plan.rule_name, what, error)) from error


def _checked(returned: Any, size: int, plan: Plan) -> FloatArray:
    try:
        values = np.asarray(returned, dtype=float)
    except (TypeError, ValueError):
        raise RuleFailed(wording.rule_returned(plan.rule_name, "values that are not numbers", "numbers")) from None
    if values.shape != (size,):
        raise RuleFailed(wording.rule_returned(plan.rule_name, f"shape {values.shape}", f"one value for {size} rows"))
    if not np.isfinite(values).all():
        n = int((~np.isfinite(values)).sum())
        raise RuleFailed(wording.rule_returned(plan.rule_name, f"{n} NaN or infinite values", "finite numbers"))
    return values


def _decisions(values: FloatArray, learn: Weight, plan: Plan, what: str) -> tuple[FloatArray, float]:
    """0/1 as they are; scores strictly above the threshold, or above the training part's 1 - capacity quantile."""
    if plan.numbers or np.isin(values, (0.0, 1.0)).all():
        return values, np.nan
    if plan.threshold is None and plan.capacity is None:
        raise DataError(wording.needs_cut(what))
    if plan.threshold is not None:
        cut = plan.threshold
    else:
        assert plan.capacity is not None
        cut = quantile(values, learn, 1 - plan.capacity)
    return (values > cut).astype(float), cut


def quantile(values: FloatArray, weight: Weight, level: float) -> float:
    """numpy's default quantile of values each repeated ``weight`` times."""
    order = np.argsort(values, kind="stable")
    ends = np.cumsum(weight[order])
    position = level * (int(ends[-1]) - 1)
    low, high = values[order[np.searchsorted(ends, (np.floor(position), np.ceil(position)), side="right")]]
    return float(low + (position - np.floor(position)) * (high - low))
