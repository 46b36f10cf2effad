"""The distance that belongs to a fitted scikit-learn estimator.

Linear classifiers (anything with one row of ``coef_``), SVC, a single decision tree, and a Pipeline of scalers in front
of one of these. Distances are in the units of the columns the user has: scalers are folded in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError
from isonomy.results.wording import transport as wording
from isonomy.transport.cost import Norm
from isonomy.transport.distances import Distance, Kernel, Linear, Tree

FloatArray = npt.NDArray[np.float64]
SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


def of(
    estimator: Any,
    features: Sequence[str] | None = None,
    *,
    norm: Norm = "l2",
    threshold: float | None = None,
    squared: bool = False,
) -> Distance:
    """Which distance fits this estimator?

    Parameters
    ----------
    estimator
        A fitted LogisticRegression, LinearSVC, SVC, RidgeClassifier, DecisionTreeClassifier or the like with two
        classes, or a Pipeline of scalers and one of these.
    features
        The columns it was fitted on; read from ``feature_names_in_`` when it was fitted on a frame.
    norm
        "l1", "l2" or "linf": how a move in feature space is measured. A kernel classifier has its own and takes none
        but the default.
    threshold
        The cut, where it is not the estimator's own: a probability for a classifier with ``predict_proba`` that is
        logistic or a tree, else a value of ``decision_function``.
    squared
        For a kernel classifier (any SVC): the paper's squared cost, for a plan only. Others have none.

    Examples
    --------
    >>> from sklearn.linear_model import RidgeClassifier
    >>> model = RidgeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> of(model, ["x"]).evaluate(np.array([[2.5]])).round(6)
    array([1.])
    """
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    try:
        check_is_fitted(estimator)
    except (NotFittedError, TypeError):
        raise UsageError(wording.not_fitted(type(estimator).__name__)) from None
    steps = [step for _, step in estimator.steps] if hasattr(estimator, "steps") else [estimator]
    names = _names(estimator, features)
    scale, shift = _affine(steps[:-1], len(names))
    model = steps[-1]
    if len(getattr(model, "classes_", ())) != 2:
        raise UsageError(wording.no_distance(type(model).__name__))
    kernel = type(model).__name__ == "SVC" and (squared or model.kernel != "linear")
    if squared and not kernel:
        raise UsageError(wording.not_squared(type(model).__name__))
    if kernel:
        if norm != "l2":
            raise UsageError(wording.kernel_norm(norm))
        return _kernel(model, names, scale, shift, threshold or 0.0, squared)
    if _is_linear(model):
        theta = np.ravel(model.coef_.toarray() if hasattr(model.coef_, "toarray") else model.coef_)
        cut = 0.0 if threshold is None else _logit(threshold) if _logistic(model) else threshold
        intercept = float(np.ravel(model.intercept_)[0]) + float(theta @ shift) - cut
        return Linear(names, tuple((theta * scale).tolist()), intercept, norm)
    if type(model).__name__ in ("DecisionTreeClassifier", "ExtraTreeClassifier"):
        if threshold is not None and not 0 < threshold <= 1:
            raise UsageError(f"threshold: {threshold!r} is not a probability above 0 and up to 1.")
        return _tree(model, names, scale, shift, 0.5 if threshold is None else threshold, norm, threshold is None)
    raise UsageError(wording.no_distance(type(model).__name__))


def _names(estimator: Any, features: Sequence[str] | None) -> tuple[str, ...]:
    fitted = getattr(estimator, "feature_names_in_", None)
    if features is None and fitted is None:
        raise UsageError(
            "distance: the estimator was fitted without column names; give "
            "isonomy.transport.estimators.of(estimator, features=[...])."
        )
    given: Any = fitted if features is None else features
    names = tuple(str(name) for name in given)
    expected = getattr(estimator, "n_features_in_", len(names))
    if len(names) != expected:
        raise UsageError(f"features: {len(names)} names for an estimator fitted on {expected} columns.")
    return names


def _is_linear(model: Any) -> bool:
    """One hyperplane."""
    return hasattr(model, "coef_") and hasattr(model, "intercept_") and np.shape(np.atleast_2d(model.coef_))[0] == 1


def _logistic(model: Any) -> bool:
    return type(model).__name__ in ("LogisticRegression", "LogisticRegressionCV")


def _logit(p: float) -> float:
    if not 0 < p < 1:
        raise UsageError(f"threshold: {p!r} is not a probability strictly between 0 and 1.")
    return float(np.log(p) - np.log1p(-p))


def _affine(scalers: Sequence[Any], size: int) -> tuple[FloatArray, FloatArray]:
    """The pipeline's scalers as one map x -> scale * x + shift."""
    scale, shift = np.ones(size), np.zeros(size)
    zero, one = np.zeros((1, size)), np.ones((1, size))
    for step in scalers:
        if step in (None, "passthrough"):
            continue
        if type(step).__name__ not in SCALERS or getattr(step, "clip", False):
            raise UsageError(wording.no_pipeline(type(step).__name__))
        # Ask the scaler itself what it does to 0 and to 1, without its warning about column names.
        low, high = (np.asarray(_plain_transform(step, x), dtype=float).ravel() for x in (zero, one))
        scale, shift = (high - low) * scale, (high - low) * shift + low
    return scale, shift


def _plain_transform(step: Any, x: FloatArray) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return step.transform(x)


def _kernel(
    model: Any, names: tuple[str, ...], scale: FloatArray, shift: FloatArray, threshold: float, squared: bool
) -> Kernel:
    from sklearn.metrics.pairwise import pairwise_kernels

    if callable(model.kernel) or model.kernel == "precomputed":
        raise UsageError(wording.no_distance("SVC with a kernel of its own"))
    options = {"gamma": model._gamma, "degree": model.degree, "coef0": model.coef0}
    support = np.asarray(model.support_vectors_)
    gram = pairwise_kernels(support, metric=model.kernel, filter_params=True, **options)
    alpha = np.ravel(model.dual_coef_)
    length = float(np.sqrt(alpha @ gram @ alpha))

    def decision(features: FloatArray) -> FloatArray:
        similar = pairwise_kernels(
            features * scale + shift, support, metric=model.kernel, filter_params=True, **options
        )
        return np.asarray(similar @ alpha + model.intercept_[0] - threshold)

    return Kernel(names, decision, length, squared)


def _tree(
    model: Any,
    names: tuple[str, ...],
    scale: FloatArray,
    shift: FloatArray,
    threshold: float,
    norm: Norm,
    majority: bool,
) -> Tree:
    """The leaves of a tree as boxes in the user's units. Thresholds are of float32 values in scikit-learn."""
    tree = model.tree_
    size = len(names)
    low, high, decision = [], [], []
    stack = [(0, np.full(size, -np.inf), np.full(size, np.inf))]
    while stack:
        node, lower, upper = stack.pop()
        if tree.children_left[node] == -1:
            share = float(tree.value[node, 0, 1] / tree.value[node, 0].sum())
            low.append(lower)
            high.append(upper)
            # A tie goes to the first class, as in the tree's own argmax; with a cut of the user's, to the second.
            decision.append(share > threshold if majority else share >= threshold)
            continue
        j = tree.feature[node]
        cut = (tree.threshold[node] - shift[j]) / scale[j]
        left_upper, right_lower = upper.copy(), lower.copy()
        left_upper[j], right_lower[j] = min(upper[j], cut), max(lower[j], cut)
        stack.append((tree.children_left[node], lower, left_upper))
        stack.append((tree.children_right[node], right_lower, upper))
    return Tree(names, np.array(low), np.array(high), np.array(decision, dtype=bool), norm)
