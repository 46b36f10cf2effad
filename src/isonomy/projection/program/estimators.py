"""The distance that belongs to a fitted scikit-learn estimator.

Linear classifiers (anything with one row of ``coef_``), SVC, a single decision tree, forests and boosting (on the axis
of their score), and a Pipeline of scalers in front of one of these. Distances in features are in the units of the
user's columns: scalers are folded in. For any other classifier with two classes (nearest neighbors, networks, other
pipelines) the boundary is searched by its decisions alone; such a distance is marked as approximate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from isonomy.errors import DataError, UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Finite, checked
from isonomy.projection.program.distances import Distance, Kernel, Linear, ModelScore, Norm, Searched, Tree

SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")
ENSEMBLES = (
    "RandomForestClassifier",
    "ExtraTreesClassifier",
    "GradientBoostingClassifier",
    "HistGradientBoostingClassifier",
    "AdaBoostClassifier",
    "BaggingClassifier",
)
TREES = ("DecisionTreeClassifier", "ExtraTreeClassifier")
LOGISTIC = ("LogisticRegression", "LogisticRegressionCV")
KERNELS = ("linear", "rbf", "poly")  # of SVC: those that are positive definite
Scaler = Callable[[FloatArray], FloatArray]


@checked
def distance(
    estimator: object,
    features: Sequence[str] | None = None,
    *,
    norm: Norm = "l2",
    threshold: Finite | None = None,
    squared: bool = False,
    immutable: Sequence[str] = (),
    costs: Mapping[str, float] | None = None,
) -> Distance:
    """Which distance fits this estimator?

    Parameters
    ----------
    estimator : scikit-learn classifier
        A fitted LogisticRegression, LinearSVC, SVC, RidgeClassifier, DecisionTreeClassifier or the like with two
        classes, a forest or boosting (measured on its score), or a Pipeline of scalers and one of these. The boundary
        of any other classifier is searched by its decisions alone.
    features : sequence of str, optional
        The columns it was fitted on; read from ``feature_names_in_`` if it was fitted on a frame.
    norm : {"l1", "l2", "linf"}, default "l2"
        The norm of a move in feature space. A kernel classifier has its own and accepts only the default.
    threshold : float, optional
        The cut-off, if it is not the estimator's own: a value of ``decision_function`` for other linear classifiers and
        SVC, a probability for all others.
    squared : bool, default False
        For a kernel classifier (any SVC): the paper's squared cost, which gives a plan but no p-value.
    immutable : sequence of str, optional
        Features that nobody can change, for linear classifiers and trees.
    costs : mapping of feature to float, optional
        The cost per unit of each feature, default 1, for linear classifiers and trees.

    Returns
    -------
    Distance
        A `Linear`, `Kernel` or `Tree` in the units of the columns, a `ModelScore`, or a `Searched`.

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> model = RidgeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> distance(model, ["x"]).evaluate(np.array([[2.5]])).round(6)
    array([1.])
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        raise UsageError(
            f"distance: {type(estimator).__name__} is not a fitted estimator. Give the name of a column of distances, "
            "a fitted scikit-learn classifier, or an object of isonomy.projection.distances."
        ) from None
    columns = getattr(estimator, "feature_names_in_", None) if features is None else features
    if columns is None:
        raise UsageError(
            "distance: the estimator was fitted without column names; give "
            "isonomy.projection.estimators.distance(estimator, features=[...])."
        )
    names = tuple(map(str, columns))
    expected = getattr(estimator, "n_features_in_", len(names))
    if len(names) != expected:
        raise UsageError(f"features: {len(names)} names for an estimator fitted on {expected} columns.")
    *steps, model = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
    scalers = [step for step in steps if step not in (None, "passthrough")]
    kind = type(model).__name__
    if len(getattr(model, "classes_", ())) != 2:
        raise UsageError(f"distance: {kind} has no two classes, so there is no boundary between two decisions.")
    if not all(type(step).__name__ in SCALERS and not getattr(step, "clip", False) for step in scalers):
        return _searched(estimator, names, threshold, norm, squared or immutable or costs)
    scale, center, shift = _affine(scalers, len(names))

    def scaled(rows: FloatArray) -> FloatArray:
        return scale * (rows - center) + shift  # in the order that loses no digits far from 0

    kernel = kind == "SVC" and (squared or model.kernel != "linear")
    given = 0.5 if threshold is None else float(threshold)
    refusals = {
        f"immutable, costs: {kind} is not measured in its features; leave them out.": (len(immutable) or costs)
        and (kind in ENSEMBLES or kernel or squared),
        f"squared: True is for kernel classifiers (SVC); {kind} has no squared cost. Use squared=False.": squared
        and not kernel,
        f"norm: {norm!r} is not allowed for a kernel classifier, which is measured in its own space; use 'l2'.": kernel
        and norm != "l2",
        f"threshold: {threshold!r} is not a probability strictly between 0 and 1.": kind
        in (*TREES, *ENSEMBLES, *LOGISTIC)
        and not 0 < given < 1,
    }
    for message, refused in refusals.items():
        if refused:
            raise UsageError(message)
    if kernel:
        return _kernel(model, names, scaled, threshold or 0.0, squared)
    if hasattr(model, "intercept_") and len(np.atleast_2d(getattr(model, "coef_", [[], []]))) == 1:  # one hyperplane
        theta = np.ravel(_dense(model.coef_))
        level = float(np.log(given) - np.log1p(-given)) if kind in LOGISTIC else threshold or 0.0
        intercept = float(np.ravel(model.intercept_)[0]) + float(theta @ shift) - level
        origin = tuple(center.tolist()) if center.any() else ()
        return Linear(names, tuple((theta * scale).tolist()), intercept, norm, origin, tuple(immutable), costs or {})
    if kind in TREES:
        low, high, share = _leaves(model.tree_, scale, center, shift)
        # A tie goes to the first class, as in the tree's own argmax; with a cut of the user's, to the second.
        decision = share > 0.5 if threshold is None else share >= threshold
        return Tree(names, low, high, decision, norm, tuple(immutable), costs or {})
    if kind not in ENSEMBLES:
        return _searched(estimator, names, threshold, norm, squared or immutable or costs)

    def score(rows: FloatArray) -> FloatArray:
        """The probability of the second class, minus the threshold."""
        with warnings.catch_warnings(), np.errstate(over="ignore"):
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            try:
                return np.asarray(model.predict_proba(scaled(rows))[:, 1] - given)
            except ValueError:
                raise DataError(
                    f"distance: {kind} cannot score these rows; forests take numbers up to 3.4e38."
                ) from None

    return ModelScore(names, score, kind)


def _searched(estimator: Any, names: tuple[str, ...], threshold: float | None, norm: Norm, refused: object) -> Searched:
    kind = type(getattr(estimator, "steps", [("", estimator)])[-1][1]).__name__
    if refused:
        raise UsageError(
            f"squared, immutable, costs: the boundary of {kind} is searched by its decisions; leave them out."
        )
    if threshold is not None and not hasattr(estimator, "predict_proba"):
        raise UsageError(f"threshold: {kind} predicts no probabilities; leave it out.")
    if threshold is not None and not 0 < threshold < 1:
        raise UsageError(f"threshold: {threshold!r} is not strictly between 0 and 1.")

    def decision(rows: FloatArray) -> FloatArray:
        # A pipeline may choose columns by their names.
        named = hasattr(estimator, "feature_names_in_")
        table = pl.DataFrame(rows, schema=list(names)) if named else rows
        if threshold is None:
            return np.asarray(estimator.predict(table) == estimator.classes_[1], dtype=float)
        return np.asarray(estimator.predict_proba(table)[:, 1] >= threshold, dtype=float)

    return Searched(names, decision, kind, norm)


def _affine(scalers: Sequence[Any], size: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The pipeline's scalers as one map, scale * (x - center) + shift, from their fitted attributes.

    (Applying a scaler to 0 and to 1 instead loses the digits that times in seconds have beyond their mean.)
    """
    scale, center, shift = np.ones(size), np.zeros(size), np.zeros(size)
    for step in scalers:
        kind = type(step).__name__
        # This scaler is factor * (x - origin) + target.
        factor, origin, target = np.ones(size), np.zeros(size), np.zeros(size)
        if kind == "MinMaxScaler":
            factor, origin, target = step.scale_, step.data_min_, np.full(size, float(step.feature_range[0]))
        elif step.scale_ is not None:
            factor = 1 / np.asarray(step.scale_)
        if getattr(step, "with_mean", False) or getattr(step, "with_centering", False):
            origin = step.mean_ if kind == "StandardScaler" else step.center_
        center, shift, scale = center + (origin - shift) / scale, target, factor * scale
    return scale, center, shift


def _dense(matrix: Any) -> FloatArray:
    """As an array: a model fitted on a sparse matrix holds sparse ones."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=float)


def _kernel(model: Any, names: tuple[str, ...], scaled: Scaler, threshold: float, squared: bool) -> Kernel:
    from sklearn.metrics.pairwise import pairwise_kernels

    if model.kernel not in KERNELS or (model.kernel == "poly" and model.coef0 < 0):
        raise UsageError(
            f"distance: SVC(kernel={model.kernel!r}, coef0={model.coef0!r}) is not known to be positive definite, so "
            f"it has no distance. Allowed: {', '.join(map(repr, KERNELS))} (with coef0 from 0 up). Otherwise give "
            "score, such as the column of decision_function."
        )
    options = {"gamma": model._gamma, "degree": model.degree, "coef0": model.coef0}
    support, alpha = _dense(model.support_vectors_), np.ravel(_dense(model.dual_coef_))
    gram = pairwise_kernels(support, metric=model.kernel, filter_params=True, **options)
    square = float(alpha @ gram @ alpha)
    if not 0 < square < np.inf:
        raise UsageError(
            f"distance: this SVC makes the same decision for all rows (its squared norm is {square:g}); there is no "
            "boundary."
        )

    def decision(features: FloatArray) -> FloatArray:
        similar = pairwise_kernels(scaled(features), support, metric=model.kernel, filter_params=True, **options)
        return np.asarray(similar @ alpha + model.intercept_[0] - threshold)

    return Kernel(names, decision, float(np.sqrt(square)), squared)


def _leaves(
    tree: Any, scale: FloatArray, center: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The leaves of a tree as boxes in the user's units: lower and upper corners, and the share of the second class."""
    low, high, share = [], [], []
    stack = [(0, np.full(scale.size, -np.inf), np.full(scale.size, np.inf))]
    while stack:
        node, lower, upper = stack.pop()
        if tree.children_left[node] == -1:
            low.append(lower)
            high.append(upper)
            share.append(float(tree.value[node, 0, 1] / tree.value[node, 0].sum()))
            continue
        j = tree.feature[node]
        cut = (largest_left(tree.threshold[node]) - shift[j]) / scale[j] + center[j]
        left_upper, right_lower = upper.copy(), lower.copy()
        left_upper[j], right_lower[j] = min(upper[j], cut), max(lower[j], cut)
        stack.append((tree.children_left[node], lower, left_upper))
        stack.append((tree.children_right[node], right_lower, upper))
    return np.array(low), np.array(high), np.array(share)


def largest_left(threshold: float) -> float:
    """The largest number that goes left: scikit-learn rounds rows to 32 bits before it compares."""
    below = np.float32(threshold)
    if below > threshold:
        below = np.nextafter(below, np.float32(-np.inf))
    middle = (float(below) + float(np.nextafter(below, np.float32(np.inf)))) / 2
    return middle if np.float32(middle) == below else float(np.nextafter(middle, -np.inf))
