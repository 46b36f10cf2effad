"""Disparities as scikit-learn scorers, for a model search that considers fairness as well as accuracy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import MetricLike, Source, open_source
from isonomy.frames.metrics import Metric, listed, measure
from isonomy.options import checked

Scorer = Callable[[Any, Any, Any], float]


@checked
def disparity_scorer(metric: MetricLike, *, groups: object, depth: int = 1, min_size: int = 10) -> Scorer:
    """How unequal a fitted model is between groups, as a scorer for ``GridSearchCV`` and ``cross_validate``.

    Parameters
    ----------
    metric : str, Metric or sequence of these
        The metric to compare, by a name that `isonomy.flag` takes, such as ``"tpr"``. With several metrics, the widest
        gap counts. ``y`` is the outcome, the model's ``predict`` the prediction, its ``predict_proba`` of class 1 the
        score.
    groups : object
        The groups to compare: names of columns of X, `isonomy.cut` or `isonomy.where`. X must be a frame with these
        columns.
    depth : int, default 1
        The number of groupings whose intersections are compared.
    min_size : int, default 10
        Groups with fewer rows inside the metric's condition are left out, because folds are small.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``: minus the widest gap between two groups of one grouping, so that larger is better;
        NaN if fewer than two groups are left.

    Notes
    -----
    A search over a score is not a test: audit the chosen model on rows that were in no fold.

    >>> import isonomy as iso
    >>> import polars as pl
    >>> from sklearn.dummy import DummyClassifier
    >>> rows = pl.DataFrame({"sex": ["f", "m"] * 50, "x": range(100)})
    >>> outcome = [0, 1] * 50
    >>> model = DummyClassifier(strategy="constant", constant=1).fit(rows, outcome)
    >>> iso.disparity_scorer("selection_rate", groups="sex")(model, rows, outcome)
    -0.0
    """

    def scorer(estimator: Any, X: Any, y: Any) -> float:
        table, roles = _predicted(estimator, X, y)
        return -float(np.max([widest_gap(table, name, roles) for name in listed(metric)]))

    def widest_gap(table: Source, name: str | Metric, roles: dict[str, str | None]) -> float:
        bound = measure(table, name, grouping=table.grouping(groups, depth), **roles)
        answer = table.cells(bound.request) if bound.binary else table.rows(bound.request)
        counted = (np.ones(answer.size) if answer.count is None else answer.count) * bound.inside(answer)
        totals = counted * bound.value(answer)
        gaps = []
        for partition in answer.partitions:
            n = partition.sum(counted)
            enough = n >= min_size
            if enough.sum() > 1:
                gaps.append(float(np.ptp(partition.sum(totals)[enough] / n[enough])))
        return max(gaps, default=np.nan)

    return scorer


def _predicted(estimator: Any, X: Any, y: Any) -> tuple[Source, dict[str, str | None]]:
    """The rows of X with outcome, prediction and score, and the columns of these roles."""
    source = open_source(X)
    if source.lazy:
        raise UsageError("X: a model cannot predict from a lazy frame; collect it first.")
    names = {role: source.fresh(role) for role in ("outcome", "prediction", "score")}
    columns = {name: column.to_numpy() for name, column in zip(source.schema, source.head(len(y)), strict=True)}
    columns[names["outcome"]] = np.asarray(y)
    columns[names["prediction"]] = np.asarray(estimator.predict(X))
    if hasattr(estimator, "predict_proba"):
        columns[names["score"]] = np.asarray(estimator.predict_proba(X))[:, -1]
    roles = {role: name if name in columns else None for role, name in names.items()}
    return open_source(columns, missing_group="level"), roles
