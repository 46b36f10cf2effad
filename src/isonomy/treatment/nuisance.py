"""Predicted outcomes in either arm, for AIPW: fitted on other rows than those they are used on.

This step needs rows in memory: the roles, the features and the group columns of the table.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.frames import Request, Source, collect
from isonomy.frames.checks import check_types
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.moments import CONTROL, TREATED
from isonomy.treatment.plan import Plan
from isonomy.treatment.tally import base_request, extended

FOLDS = 3


def with_predictions(source: Source, plan: Plan, rng: np.random.Generator) -> Source:
    """The table with columns ``p0`` and ``p1``: predicted outcomes without and with treatment."""
    import polars as pl

    request = base_request(source, plan)
    check_types(source.schema, request, source.frame)
    table = collect(source.frame.select(*_columns(source, request)))
    roles = {role: table[str(name)].cast(pl.Float64).to_numpy() for role, name in _roles(request).items()}
    features = np.stack([roles[f"features[{i}]"] for i in range(len(plan.features))], -1)
    weight = np.ones(len(table)) if source.count is None else table[source.count].cast(pl.Float64).to_numpy()
    complete = np.isfinite(np.stack(list(roles.values()))).all(0) & (weight > 0)
    made = {"p0": np.full(len(table), np.nan), "p1": np.full(len(table), np.nan)}
    for name, arm in (("p0", CONTROL), ("p1", TREATED)):
        made[name][complete] = cross_fitted(
            features[complete], roles["outcome"][complete], roles["treatment"][complete] == arm, weight[complete], rng
        )
    return extended(source, nw.from_native(table.with_columns(pl.Series(n, v) for n, v in made.items()).lazy()))


def cross_fitted(
    features: FloatArray, outcome: FloatArray, in_arm: NDArray[np.bool_], weight: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """For every row, the mean outcome of one arm as predicted by a model fitted on the other folds of that arm."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    fold = rng.permutation(np.arange(len(outcome)) % FOLDS)
    predicted = np.full(len(outcome), np.average(outcome, weights=weight) if len(outcome) else np.nan)
    for k in range(FOLDS):
        fit, use = in_arm & (fold != k), fold == k
        if fit.sum() >= 2 and use.any():
            model: Any = HistGradientBoostingRegressor(
                max_iter=50, early_stopping=False, random_state=int(rng.integers(2**31))
            )
            predicted[use] = model.fit(features[fit], outcome[fit], sample_weight=weight[fit]).predict(features[use])
    return predicted


def _columns(source: Source, request: Request) -> list[str]:
    """The columns to bring into memory: those with a role, or all of them where a group is a condition."""
    dimensions = request.grouping.dimensions if request.grouping else ()
    if any(d.condition for d in dimensions):
        return list(source.schema)
    names = [d.name for d in dimensions]
    roles = map(str, _roles(request).values())
    return list(dict.fromkeys([*names, *roles, *([source.count] if source.count else [])]))


def _roles(request: Request) -> dict[str, object]:
    return {**request.binary, **request.numeric}
