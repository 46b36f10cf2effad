"""Fairness beside accuracy in a model search: disparities as scikit-learn scorers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from isonomy.errors import UsageError
from isonomy.frames import Cells, MetricLike, open_source
from isonomy.frames.metrics import Metric, listed, measure
from isonomy.options import checked

Scorer = Callable[[Any, Any, Any], float]


@checked
def disparity_scorer(
    metric: MetricLike,
    *,
    groups: object,
    between: Literal["groups", "population"] = "groups",
    depth: int = 1,
    min_size: int = 10,
) -> Scorer:
    """How unequal a fitted model is between groups, as a scorer for ``GridSearchCV`` and ``cross_validate``.

    Parameters
    ----------
    metric : str, Metric or sequence of these
        What is compared: a name that `isonomy.flag` takes, such as ``"tpr"``, or several, of which the widest gap
        counts. ``y`` is the outcome, the model's
        ``predict`` the prediction, its ``predict_proba`` of class 1 the score.
    groups : object
        Whom to compare: names of columns of X, `isonomy.cut` or `isonomy.where`. X has to be a frame that has them.
    between : {"groups", "population"}, default "groups"
        The widest gap between two groups of one kind, or the largest distance of a group from everybody.
    depth : int, default 1
        Intersections of so many groupings are compared too.
    min_size : int, default 10
        Groups with fewer rows inside the metric's condition are left out: folds are small.

    Returns
    -------
    callable
        ``scorer(estimator, X, y)``: minus the disparity, so that larger is better; NaN where fewer than two groups
        are left.

    Notes
    -----
    A search over a score is no test: the disparity of the chosen model has to be audited on rows that no fold had.

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
        gaps = [_widest(estimator, X, y, one, groups, between, depth, min_size) for one in listed(metric)]
        return -float(np.max(gaps))

    return scorer


def _widest(
    estimator: Any, X: Any, y: Any, metric: str | Metric, groups: object, between: str, depth: int, min_size: int
) -> float:
    source = open_source(X)
    if source.lazy:
        raise UsageError("X: a model cannot predict from a lazy frame; collect it first.")
    names = {role: source.fresh(role) for role in ("outcome", "prediction", "score")}
    columns = {name: column.to_numpy() for name, column in zip(source.schema, source.head(len(y)), strict=True)}
    columns[names["outcome"]] = np.asarray(y)
    columns[names["prediction"]] = np.asarray(estimator.predict(X))
    if hasattr(estimator, "predict_proba"):
        columns[names["score"]] = np.asarray(estimator.predict_proba(X))[:, -1]
    told = {role: name if name in columns else None for role, name in names.items()}
    table = open_source(columns, missing_group="level")
    bound = measure(table, metric, grouping=table.grouping(groups, depth), **told)
    answer = table.cells(bound.request) if bound.binary else table.rows(bound.request)
    counted = (answer.count if isinstance(answer, Cells) else np.ones(answer.size)) * bound.inside(answer)
    totals = counted * bound.value(answer)
    gaps = []
    for partition in answer.partitions:
        n = partition.sum(counted)
        enough = n >= min_size
        means = partition.sum(totals)[enough] / n[enough]
        if between == "population":
            gaps += np.abs(means - totals.sum() / counted.sum()).tolist()
        elif means.size > 1:
            gaps.append(float(np.ptp(means)))
    return max(gaps, default=np.nan)
