"""Several scores calibrated together, so that every weighted sum of them means the same thing in every group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, TransformerMixin, clone
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted, has_fit_parameter

from isonomy.calibration.mitigate import Size, by_group, required, same_length, warn_unknown
from isonomy.calibration.smoothing.surfaces import fit_surface
from isonomy.errors import UsageError
from isonomy.frames.estimators import (
    Column,
    Columns,
    about,
    as_tuple,
    eager,
    names_of,
    outcomes,
    read_columns,
    refuse_empty,
    votes,
)
from isonomy.numerics.arrays import FloatArray, IntArray, ObjectArray
from isonomy.options import Positive, check_parameters


class Model(Protocol):
    """A model of one outcome or of all."""

    def predict(self, scores: FloatArray, /) -> FloatArray:
        """Expected outcomes."""


class Together:
    """One regressor per outcome, as one model."""

    def __init__(self, regressors: Sequence[Model]) -> None:
        self.regressors = regressors

    def predict(self, scores: FloatArray) -> FloatArray:
        """Expected outcomes, one column each."""
        return np.column_stack([regressor.predict(scores) for regressor in self.regressors])


class MultiObjectiveCalibrator(TransformerMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Calibrate scores S^1..S^K of outcomes Y^1..Y^K together, so that every weighted sum of them is in parity.

    Each score is replaced by an estimate of E[Y^k | S^1..S^K, G]. By Theorem 2 of the paper the combined score
    sum_k w_k S^k then means the same thing in every group whatever the weights. Calibration is estimated: at large n a
    test can still reject, while the parity error falls.

    Parameters
    ----------
    score_columns : sequence of str or int, optional
        Columns of X by name or number, in the order of the outcomes. None: the first K that are neither group nor user.
    group_columns, user_column
        As in `GroupCalibrator`.
    estimator : regressor, optional
        Any scikit-learn regressor with ``fit(X, y, sample_weight=...)``, cloned for each group and outcome. None:
        product-kernel regression, meant for up to three scores.
    bandwidth : float, optional
        In standard deviations of each score (between its 1 and 99 % quantiles, so that a score far out does not widen
        it); None: n^(-1/(K + 4)).
    min_size : int, default 100
        As in `GroupCalibrator`.

    Attributes
    ----------
    groups_, pooled_groups_, models_, pooled_
        As in `GroupCalibrator`; a model predicts all outcomes.

    Notes
    -----
    When it misleads: with more than three scores a product kernel has few neighbours, and every score is pulled towards
    the mean.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 5, Theorem 2.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import MultiObjectiveCalibrator
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
        estimator: object = None,
        bandwidth: Positive | None = None,
        min_size: Size = 100,
    ) -> None:
        self.score_columns = score_columns
        self.group_columns = group_columns
        self.user_column = user_column
        self.estimator = estimator
        self.bandwidth = bandwidth
        self.min_size = min_size

    def fit(self, X: object, y: object, sample_weight: object = None) -> MultiObjectiveCalibrator:
        """Fit; ``y`` has one column per outcome (a frame, or an array); ``sample_weight`` as in `GroupCalibrator`."""
        check_parameters(self, self.get_params(deep=False))
        refuse_empty(eager(X))
        if self.estimator is not None:
            _check_regressor(self.estimator)
        with about("y", (TypeError, ValueError)):
            values = outcomes(check_array(required(self, y), dtype=None, ensure_2d=False, input_name="y"))
        self._flat = values.ndim == 1
        values = values[:, None] if self._flat else values
        if self.score_columns is not None and len(as_tuple(self.score_columns)) != values.shape[1]:
            raise UsageError(
                f"score_columns: {len(as_tuple(self.score_columns))} scores for {values.shape[1]} outcomes; give one "
                "score for each outcome, in the same order."
            )
        columns = self._read(X, values.shape[1], reset=True)
        same_length(values, columns)
        vote = votes(columns, sample_weight)

        def model(rows: IntArray) -> Model:
            scores, own, weight = columns.numbers[rows], values[rows], vote.among(rows)
            if self.estimator is None:
                return fit_surface(scores, own, weight, self.bandwidth)
            return Together([clone(self.estimator).fit(scores, outcome, sample_weight=weight) for outcome in own.T])

        self.pooled_, self.models_, self.pooled_groups_ = by_group(columns, vote, self.min_size, model)
        self.groups_ = columns.keys
        self.n_outputs_ = values.shape[1]
        return self

    def predict(self, X: object) -> FloatArray:
        """Calibrated scores, one column per outcome, from the score and group columns alone."""
        check_is_fitted(self)
        columns = self._read(X, self.n_outputs_, reset=False)
        warn_unknown(columns, self.groups_)
        calibrated = np.empty((len(columns.numbers), self.n_outputs_))
        for number, key in enumerate(columns.keys):
            mine = columns.group == number
            calibrated[mine] = self.models_.get(key, self.pooled_).predict(columns.numbers[mine])
        return calibrated[:, 0] if self._flat else calibrated

    def transform(self, X: object) -> FloatArray:
        """Calibrated scores as columns, for a pipeline that goes on."""
        return self.predict(X).reshape(-1, self.n_outputs_)

    def get_feature_names_out(self, input_features: object = None) -> ObjectArray:
        """The names of the columns that `transform` makes."""
        check_is_fitted(self)
        return np.array([f"calibrated_score_{k}" for k in range(self.n_outputs_)], dtype=object)

    def combine(self, X: object, weights: object) -> FloatArray:
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # it uses one column per outcome
        return tags

    def _read(self, X: object, outcomes: int, *, reset: bool) -> Columns:
        groups = as_tuple(self.group_columns)
        names = names_of(X)  # a lazy table is refused before its columns are asked for
        scores = self._first(X, names, outcomes) if self.score_columns is None else as_tuple(self.score_columns)
        user = self.user_column if reset else None
        return read_columns(self, X, numbers=scores, groups=groups, user=user, reset=reset)

    def _first(self, X: object, names: Sequence[str] | None, outcomes: int) -> tuple[Column, ...]:
        """The first columns that are neither group nor user."""
        shape: tuple[int, ...] = getattr(X, "shape", ())
        width = len(names) if names is not None else shape[1] if len(shape) == 2 else outcomes
        taken = {*as_tuple(self.group_columns), *(() if self.user_column is None else (self.user_column,))}
        free = [k for k in range(width) if k not in taken and (names is None or names[k] not in taken)]
        if width and len(free) < outcomes:
            raise UsageError(
                f"score_columns: {outcomes} outcomes need as many score columns; X has {len(free)} that are free "
                f"(n_features = {width})."
            )
        return tuple(free[:outcomes]) or (0,)  # an X without columns is refused with scikit-learn's own words


def _check_regressor(estimator: object) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise UsageError(f"estimator: {estimator!r} is not allowed; give None or a scikit-learn regressor.")
    if not has_fit_parameter(estimator, "sample_weight"):
        raise UsageError(
            f"estimator: {type(estimator).__name__}.fit takes no sample_weight, which carries the votes of users; "
            "choose a regressor that does."
        )
