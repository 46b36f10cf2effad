"""`MultiObjectiveCalibrator`: several scores calibrated together, so that any weighted sum of them is in parity."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted, has_fit_parameter

from isonomy.calibration.columns import (
    Column,
    Columns,
    as_tuple,
    check_min_size,
    eager,
    numbers_of,
    positive,
    read,
    weights,
)
from isonomy.calibration.maps import quantiles, spread
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray

GRID = {1: 201, 2: 41, 3: 21}  # knots a score, by number of scores: values in between are interpolated


@dataclass(frozen=True, slots=True, eq=False)
class Surface:
    """Local-linear fits on a lattice of scores, linear in between, constant beyond."""

    knots: tuple[FloatArray, ...]
    values: FloatArray  # (knots of each score..., outcomes)

    def predict(self, scores: FloatArray) -> FloatArray:
        """Expected outcomes, one column each."""
        from scipy.interpolate import RegularGridInterpolator

        inside = np.column_stack([np.clip(s, k[0], k[-1]) for s, k in zip(scores.T, self.knots, strict=True)])
        return np.asarray(RegularGridInterpolator(self.knots, self.values)(inside))


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """Product-kernel means evaluated at each row: for more scores than a lattice can hold."""

    scores: FloatArray
    outcomes: FloatArray
    vote: FloatArray
    width: FloatArray

    def predict(self, scores: FloatArray) -> FloatArray:
        """Expected outcomes, one column each."""
        found = np.empty((len(scores), self.outcomes.shape[1]))
        for start in range(0, len(scores), 512):
            u = (scores[start : start + 512, None, :] - self.scores) / self.width
            distance = np.einsum("ijk,ijk->ij", u, u)
            # Relative to the nearest row, so that a far row still has a neighbour.
            k = np.exp(-0.5 * (distance - distance.min(axis=1, keepdims=True))) * self.vote
            found[start : start + 512] = (k @ self.outcomes) / k.sum(axis=1, keepdims=True)
        return found


class MultiObjectiveCalibrator(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Calibrate scores S^1..S^K of outcomes Y^1..Y^K together, so that every weighted sum of them is in parity.

    Each score is replaced by an estimate of E[Y^k | S^1..S^K, G]. By Theorem 2 of the paper the combined score
    sum_k w_k S^k then means the same thing in every group whatever the weights. Calibration is estimated: at large n a
    test can still reject, while the parity error falls.

    Parameters
    ----------
    score_columns
        Columns of X by name or number, in the order of the outcomes. None: the first K that are neither group nor user.
    group_columns, user_column, min_size
        As in `GroupCalibrator`.
    estimator
        Any scikit-learn regressor with ``fit(X, y, sample_weight=...)``, cloned for each group and outcome. None:
        product-kernel regression, meant for up to three scores.
    bandwidth
        In standard deviations of each score (between its 1 and 99 % quantiles, so that a score far out does not widen
        it); None: n^(-1/(K + 4)).

    Attributes
    ----------
    groups_, pooled_groups_, models_, pooled_
        As in `GroupCalibrator`; a model predicts all outcomes.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration.objectives import MultiObjectiveCalibrator
    >>> rng = np.random.default_rng(0)
    >>> S = rng.random((3000, 2))
    >>> Y = rng.random((3000, 2)) < S[:, ::-1]  # each score predicts the other outcome
    >>> calibrator = MultiObjectiveCalibrator().fit(S, Y)
    >>> calibrator.predict([[0.2, 0.8]]).round(1)
    array([[0.8, 0.2]])
    >>> calibrator.combine([[0.2, 0.8]], weights=[1, 1]).round(1)
    array([1.])
    """

    def __init__(
        self,
        *,
        score_columns: Sequence[Column] | None = None,
        group_columns: Column | Sequence[Column] = (),
        user_column: Column | None = None,
        estimator: Any = None,
        bandwidth: float | None = None,
        min_size: int = 100,
    ) -> None:
        self.score_columns = score_columns
        self.group_columns = group_columns
        self.user_column = user_column
        self.estimator = estimator
        self.bandwidth = bandwidth
        self.min_size = min_size

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MultiObjectiveCalibrator:
        """Fit; ``y`` has one column an outcome (a frame, or an array)."""
        if y is None:
            raise ValueError(
                "This MultiObjectiveCalibrator estimator requires y to be passed, but the target y is None."
            )
        positive("bandwidth", self.bandwidth)
        check_min_size(self.min_size)
        if self.estimator is not None:
            _check_estimator(self.estimator)
        outcomes = numbers_of(check_array(y, dtype=None, ensure_2d=False, input_name="y"))
        self._flat = outcomes.ndim == 1
        outcomes = outcomes[:, None] if self._flat else outcomes
        if self.score_columns is not None and len(as_tuple(self.score_columns)) != outcomes.shape[1]:
            raise UsageError(
                f"score_columns: {len(as_tuple(self.score_columns))} scores for {outcomes.shape[1]} outcomes; give one "
                "score for each outcome, in the same order."
            )
        columns = self._read(X, outcomes.shape[1], reset=True)
        if len(outcomes) != len(columns.scores):
            raise ValueError(
                f"y: {len(outcomes)} rows for {len(columns.scores)} rows of X (inconsistent numbers of samples)."
            )
        vote = weights(columns.scores, columns, sample_weight)
        self.pooled_ = self._model(columns.scores, outcomes, vote)
        self.models_: dict[tuple[Hashable, ...], Any] = {}
        small = []
        for number, key in enumerate(columns.keys):
            mine = columns.group == number
            if columns.keys == ((),):
                self.models_[key] = self.pooled_
            elif vote[mine].sum() < self.min_size:
                small.append(key)
            else:
                self.models_[key] = self._model(columns.scores[mine], outcomes[mine], vote[mine])
        self.groups_ = columns.keys
        self.pooled_groups_ = tuple(small)
        self.n_outputs_ = outcomes.shape[1]
        return self

    def predict(self, X: Any) -> FloatArray:
        """Calibrated scores, one column an outcome."""
        check_is_fitted(self)
        columns = self._read(X, self.n_outputs_, reset=False)
        found = np.empty((len(columns.scores), self.n_outputs_))
        for number, key in enumerate(columns.keys):
            mine = columns.group == number
            found[mine] = _predict(self.models_.get(key, self.pooled_), columns.scores[mine])
        return found[:, 0] if self._flat else found

    def combine(self, X: Any, weights: Any) -> FloatArray:
        """The combined score sum_k w_k S^k, from calibrated scores."""
        check_is_fitted(self)
        try:
            chosen = np.asarray(weights, dtype=np.float64).ravel()
        except (TypeError, ValueError):
            chosen = np.empty(0)
        if chosen.size != self.n_outputs_ or not np.all(np.isfinite(chosen)):
            raise UsageError(
                f"weights: {weights!r}; give one finite number for each of the {self.n_outputs_} outcomes."
            )
        return self.predict(X).reshape(-1, self.n_outputs_) @ chosen

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # it uses one column an outcome
        return tags

    def _read(self, X: Any, outcomes: int, *, reset: bool) -> Columns:
        eager(X)  # a lazy table is refused before its columns are asked for
        groups = as_tuple(self.group_columns)
        scores = self._first(X, outcomes, groups) if self.score_columns is None else as_tuple(self.score_columns)
        user = self.user_column if reset else None
        return read(self, X, scores=scores, groups=groups, user=user, reset=reset)

    def _first(self, X: Any, outcomes: int, groups: tuple[Column, ...]) -> tuple[Column, ...]:
        names = getattr(X, "columns", None)
        names = getattr(X, "column_names", names) if names is None or not hasattr(names, "__len__") else names
        width = len(names) if names is not None else (X.shape[1] if getattr(X, "ndim", 0) == 2 else outcomes)
        taken = {*groups, *(() if self.user_column is None else (self.user_column,))}
        free = [k for k in range(width) if k not in taken and (names is None or names[k] not in taken)]
        if width and len(free) < outcomes:
            raise UsageError(
                f"score_columns: {outcomes} outcomes need as many score columns; X has {len(free)} that are free "
                f"(n_features = {width})."
            )
        return tuple(free[:outcomes]) or (0,)  # an X without columns is refused with scikit-learn's own words

    def _model(self, scores: FloatArray, outcomes: FloatArray, vote: FloatArray) -> Any:
        held = vote > 0
        if not held.any():
            raise ValueError("sample_weight: every weight is zero; nothing is left to fit.")
        scores, outcomes, vote = scores[held], outcomes[held], vote[held]
        if self.estimator is not None:
            return [clone(self.estimator).fit(scores, y, sample_weight=vote) for y in outcomes.T]
        many = scores.shape[1]
        factor = self.bandwidth or float(vote.sum()) ** (-1 / (many + 4))
        width = np.array([_scale(score, vote) for score in scores.T]) * factor
        if many not in GRID:
            return Neighbours(scores, outcomes, vote, width)
        return _surface(scores, outcomes, vote, width)


def _check_estimator(estimator: Any) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise UsageError(f"estimator: {estimator!r} is not allowed; give None or a scikit-learn regressor.")
    if not has_fit_parameter(estimator, "sample_weight"):
        raise UsageError(
            f"estimator: {type(estimator).__name__}.fit takes no sample_weight, which carries the votes of users; "
            "choose a regressor that does."
        )


def _scale(score: FloatArray, vote: FloatArray) -> float:
    """Standard deviation without the last percent on either side; of all scores if the rest are equal; else 1."""
    ends = quantiles(score, vote, np.array([0.01, 0.99]))
    floor = 1e-12 * float(np.abs(score).max())  # equal scores have a spread of some rounding
    for values in (np.clip(score, ends[0], ends[-1]), score):
        if (found := spread(values, vote)[1]) > floor:
            return found
    return 1.0


def _predict(model: Any, scores: FloatArray) -> FloatArray:
    if isinstance(model, list):
        return np.column_stack([one.predict(scores) for one in model])
    return np.asarray(model.predict(scores))


def _surface(scores: FloatArray, outcomes: FloatArray, vote: FloatArray, width: FloatArray) -> Surface:
    """Local-linear regression on a lattice. The kernel is a product, so sums over rows are matrix products."""
    many = scores.shape[1]
    knots = tuple(_knots(s, vote, GRID[many]) for s in scores.T)
    # Monomials of degree up to 2 in the scores, and outcomes times those up to 1; centred, for the sake of rounding.
    centre = np.average(scores, axis=0, weights=vote)
    linear = np.column_stack([np.ones(len(scores)), scores - centre])
    columns = [linear[:, a] * linear[:, b] for a in range(many + 1) for b in range(a, many + 1)]
    columns += [outcomes[:, k] * linear[:, a] for k in range(outcomes.shape[1]) for a in range(many + 1)]
    shape = tuple(k.size for k in knots)
    sums = np.zeros((len(columns), *shape))
    for start in range(0, len(scores), 2**13):
        part = slice(start, start + 2**13)
        each = [np.exp(-0.5 * ((s[part, None] - k) / h) ** 2) for s, k, h in zip(scores.T, knots, width, strict=True)]
        front = each[0]
        for more in each[1:-1]:
            front = (front[:, :, None] * more[:, None, :]).reshape(len(front), -1)
        for c, column in enumerate(columns):
            value = (vote[part] * column[part])[:, None]
            total = (front * value).sum(axis=0) if many == 1 else (front * value).T @ each[-1]
            sums[c] += total.reshape(shape)
    return Surface(knots, _solve(sums, knots, centre, outcomes, vote))


def _solve(
    sums: FloatArray, knots: tuple[FloatArray, ...], centre: FloatArray, outcomes: FloatArray, vote: FloatArray
) -> FloatArray:
    many, shape = len(knots), sums.shape[1:]
    pairs = [(a, b) for a in range(many + 1) for b in range(a, many + 1)]
    gram = np.zeros((*shape, many + 1, many + 1))
    for c, (a, b) in enumerate(pairs):
        gram[..., a, b] = gram[..., b, a] = sums[c]
    right = np.moveaxis(sums[len(pairs) :], 0, -1).reshape(*shape, outcomes.shape[1], many + 1)
    mass = np.maximum(gram[..., 0, 0], np.finfo(float).tiny)[..., None, None]
    # A little ridge on the slopes: where a knot has hardly any neighbours the fit falls back to their mean.
    # (The median knot's scale: one far out would set it for all.)
    scale = np.median(np.einsum("...ii->...i", gram / mass)[..., 1:], axis=tuple(range(many)))
    ridge = np.zeros((many + 1, many + 1))
    ridge[np.arange(1, many + 1), np.arange(1, many + 1)] = 1e-6 * np.maximum(scale, 1e-12)
    mean = np.average(outcomes, axis=0, weights=vote)
    coefficients = np.linalg.solve(
        gram / mass + ridge + 1e-12 * np.eye(many + 1), np.swapaxes(right / mass, -1, -2)
    )  # (..., many + 1, outcomes)
    lattice = np.stack(np.meshgrid(*knots, indexing="ij"), axis=-1) - centre
    values = coefficients[..., 0, :] + np.einsum("...a,...ak->...k", lattice, coefficients[..., 1:, :])
    near = gram[..., 0, 0] > 1e-6 * gram[..., 0, 0].max()
    low, high = outcomes.min(axis=0), outcomes.max(axis=0)
    return np.where(near[..., None], np.clip(values, low, high), mean)


def _knots(score: FloatArray, vote: FloatArray, size: int) -> FloatArray:
    """Half of them at quantiles, where the scores are, half in equal steps between the 1 and 99 % quantiles.

    Equal steps alone would leave the bulk between two knots if one score lay far out, quantiles alone would leave the
    tails between two knots if many scores were equal.
    """
    low, high = float(score.min()), float(score.max())
    if not high > low:
        return np.array([low - 0.5, low + 0.5])
    ends = quantiles(score, vote, np.array([0.01, 0.99]))
    steps = np.linspace(ends[0], ends[-1], size // 2)
    return np.unique(np.concatenate([[low, high], steps, quantiles(score, vote, np.linspace(0, 1, size - size // 2))]))
