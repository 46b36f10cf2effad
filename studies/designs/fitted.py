"""Classifiers fitted on separate rows, with every kind of distance, and applicants to be classified."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from isonomy.numerics.arrays import FloatArray
from isonomy.projection import distances, estimators

FEATURES = ("x1", "x2", "b")


@cache
def models() -> dict[str, Any]:
    """Every kind of distance, each for a classifier that was fitted on separate rows."""
    from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.svm import SVC
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(2021)
    x = applicants(rng, 600, 0.0)[1]
    y = (x @ [1.0, 0.5, 0.7] + rng.normal(size=len(x)) > 0.3).astype(int)
    line, names = LogisticRegression().fit(x, y), list(FEATURES)
    plane: Any = estimators.distance(line, names)
    forest = RandomForestClassifier(200, min_samples_leaf=5, random_state=1).fit(x, y)
    fitted = {
        "linear": (line, plane),
        "linear, immutable and costs": (line, estimators.distance(line, names, immutable=["b"], costs={"x2": 3.0})),
        "linear, by group (1 and 3)": (line, distances.PerGroup(plane, "group", {"0": 1.0, "1": 3.0})),
        "mixed": (line, distances.Mixed(plane, ("b",), ((0.0,), (1.0,)), 0.3)),
        "kernel": (svc := SVC().fit(x, y), estimators.distance(svc, names)),
        "tree": (tree := DecisionTreeClassifier(max_leaf_nodes=12).fit(x, y), estimators.distance(tree, names)),
        "forest, on its score": (forest, estimators.distance(forest, names)),
        "boosting, on its score": (
            boosted := GradientBoostingClassifier(random_state=1).fit(x, y),
            estimators.distance(boosted, names),
        ),
        "nearest neighbors, searched": (
            near := KNeighborsClassifier(25).fit(x, y),
            estimators.distance(near, names),
        ),
    }
    return dict(fitted)


def applicants(rng: np.random.Generator, rows: int, shift: float) -> tuple[Any, FloatArray]:
    """Two groups with two normal features, which differ by ``shift`` between the groups, and one 0/1 feature."""
    group = rng.choice(["0", "1"], rows, p=[0.7, 0.3])
    x = rng.normal(size=(rows, 2)) + shift * (group == "1")[:, None]
    return group, np.column_stack([x, rng.random(rows) < 0.4]).astype(float)
