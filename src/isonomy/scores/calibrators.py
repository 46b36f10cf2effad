"""Estimators that correct scores: one score calibrated by group, several together, and thresholds for every group.

They follow scikit-learn's interface, and importing this module loads scikit-learn.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, TransformerMixin, clone
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.utils import Tags, _safe_indexing
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, has_fit_parameter

from isonomy.errors import UsageError
from isonomy.frames import estimators, open_source
from isonomy.frames.estimators import Column, Columns, Key, Renamed, Votes, about, as_tuple, eager, outcomes
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status
from isonomy.options import Alpha, Draws, Finite, Fraction, Number, Positive, Seeded, check_parameters, checked, resolve
from isonomy.scores import words
from isonomy.scores.options import CurvesOption, moved
from isonomy.scores.read import threshold_of_each
from isonomy.scores.smoothing.kernels import Axis
from isonomy.scores.smoothing.maps import Calibration, Map, each_predicted, fit_map, fit_surface, identity, onto
from isonomy.scores.smoothing.targets import Direction, Target
from isonomy.scores.thresholds import Change, ThresholdsPlan, decide, estimate, read

Size = Annotated[float, Number(least=0)]
Named = Mapping[str, Hashable] | Mapping[int, Hashable]  # a group: the value of each column
# Options a method does not read, with their defaults: another value is refused rather than ignored.
_UNUSED: dict[Calibration, dict[str, object]] = {
    "binning": {"bandwidth": None},
    "isotonic": {"bins": 20, "bandwidth": None},
    "platt": {"bins": 20, "bandwidth": None},
}


# ---- what estimators share


class GroupEstimator(Renamed):
    """A mixin: one function for each group that has enough users (``calibrators_``), and one for everybody."""

    moved: ClassVar[Mapping[str, str]] = {"group_columns": "groups=", "user_column": "user="}
    groups: Column | Sequence[Column]
    user: Column | None
    min_size: float
    groups_: tuple[Key, ...]

    def _columns(self, X: object, numbers: Sequence[Column], *, reset: bool) -> Columns:
        """The numbers and groups of X; users are needed by ``fit`` only."""
        groups, user = as_tuple(self.groups), self.user if reset else None
        return estimators.read_columns(self, X, numbers=tuple(numbers), groups=groups, user=user, reset=reset)

    def _required(self, y: object) -> object:
        if y is None:
            name = type(self).__name__
            raise UsageError(f"y: This {name} estimator requires y to be passed, but the target y is None.")
        return estimators.target(y)

    def _same_length(self, y: FloatArray, columns: Columns) -> None:
        rows = len(columns.numbers)
        if len(y) != rows:
            raise UsageError(f"y: {len(y)} rows for {rows} rows of X (inconsistent numbers of samples).")

    def _fit_groups(self, columns: Columns, vote: Votes, fit: Callable[[IntArray], Map]) -> None:
        """Fit the function of everybody, and that of each group with at least ``min_size`` votes."""
        counted = vote.weighted > 0
        if not counted.any():
            raise ValueError("sample_weight: every weight is zero; nothing is left to fit.")
        self.pooled_ = fit(np.flatnonzero(counted))
        self.calibrators_: dict[Key, Map] = {(): self.pooled_} if columns.keys == ((),) else {}
        for number, key in enumerate(columns.keys):
            members = columns.group == number
            if key and vote.among(members).sum() >= max(self.min_size, np.finfo(float).tiny):
                self.calibrators_[key] = fit(np.flatnonzero(members & counted))
        self.groups_ = columns.keys
        self.pooled_groups_ = tuple(key for key in columns.keys if key not in self.calibrators_)

    def _predict_groups(self, columns: Columns, scores: FloatArray) -> FloatArray:
        """Predictions group by group; warns about groups that ``fit`` did not have: they get everybody's function."""
        unknown = [key for key in columns.keys if key not in set(self.groups_)]
        if unknown:
            warnings.warn(words.unseen_groups(unknown, "pooled"), UserWarning, stacklevel=3)
        predicted = np.empty(scores.shape)
        for number, key in enumerate(columns.keys):
            rows = columns.group == number
            predicted[rows] = self.calibrators_.get(key, self.pooled_)(scores[rows])
        return predicted

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()  # type: ignore[misc]
        if tags.regressor_tags is not None:
            tags.regressor_tags.poor_score = True  # it uses few columns: not a model of the outcome from many features
        return tags


class ScoredByModel(GroupEstimator):
    """A mixin: the score is a column of X, or that of an ``estimator`` which sees all columns but groups and people.

    An estimator scores the rows of ``fit`` out of fold, so that no row is scored by a model that has seen it.
    """

    estimator: object
    cv: object
    score_column: Column

    def _scored(self, X: object, y: object = None, sample_weight: object = None, *, reset: bool) -> Columns:
        """The scores and groups of X, after the estimator has been fitted if this is a fit (``reset``)."""
        if self.estimator is None:
            return self._columns(X, (self.score_column,), reset=reset)
        refuse_unfit(self.estimator, "classifier or regressor")
        if self.score_column != 0:
            raise UsageError(f"score_column: {self.score_column!r} has no effect with an estimator.")
        columns, frame = self._columns(X, (), reset=reset), eager(X)
        people = [column for column in (self.user, getattr(self, "cluster", None)) if column is not None]
        taken = estimators.known_columns(self, X, (*as_tuple(self.groups), *people))
        if frame is None:
            table = np.asarray(X)
            features: object = np.delete(table, [int(column) % table.shape[1] for column in taken], axis=1)
        else:
            named = {column if isinstance(column, str) else frame.columns[column] for column in taken}
            fit_names = [str(name) for name in getattr(self, "feature_names_in_", frame.columns)]
            features = frame.select([name for name in fit_names if name not in named]).to_native()
        score = self._out_of_fold(features, y, sample_weight, columns.user) if reset else self._responses(features)
        return replace(columns, numbers=score[:, None])

    def _out_of_fold(self, features: object, y: object, sample_weight: object, user: IntArray | None) -> FloatArray:
        """Fit the estimator, and score every row by a model of the other folds; rows without an outcome by it."""
        outcome = outcomes(np.asarray(self._required(y)).ravel())
        known = np.flatnonzero(np.isfinite(outcome))
        rows = _safe_indexing(features, known)
        user = None if user is None else user[known]
        folds = (GroupKFold() if user is not None else 5) if self.cv is None else self.cv
        weighted = sample_weight is not None and has_fit_parameter(self.estimator, "sample_weight")
        params = {"sample_weight": np.asarray(sample_weight)[known]} if weighted else {}
        target = outcome[known].astype(int) if np.all(outcome[known] * (1 - outcome[known]) == 0) else outcome[known]
        held_out = cross_val_predict(
            self.estimator, rows, target, groups=user, cv=folds, method=response_of(self.estimator), params=params
        )
        self.estimator_ = clone(self.estimator).fit(rows, target, **params)
        score = self._responses(features)
        score[known] = held_out[:, 1] if held_out.ndim == 2 else held_out
        return score

    def _responses(self, features: object) -> FloatArray:
        response = np.asarray(getattr(self.estimator_, response_of(self.estimator_))(features), dtype=np.float64)
        return response[:, 1] if response.ndim == 2 else response


def response_of(estimator: object) -> str:
    return next(name for name in ("predict_proba", "decision_function", "predict") if hasattr(estimator, name))


def refuse_unfit(estimator: object, kind: str) -> None:
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise UsageError(f"estimator: {estimator!r} is not allowed; give None or a scikit-learn {kind}.")


# ---- one score


@dataclass(eq=False, repr=False)
class GroupCalibrator(ScoredByModel, TransformerMixin, RegressorMixin, BaseEstimator):
    """Make a score mean the same thing in every group, by calibrating each group separately.

    Each group's score s is replaced by an estimate of E[Y | S = s, G = g]; two groups with equal calibrated scores then
    have equal expected outcomes (section 4 of the paper). Fit it on rows that the score's model has not seen, and judge
    it on users that it has not seen (`isonomy.split_users`).

    Parameters
    ----------
    method : {"near_unbiased", "published", "binning", "isotonic", "platt"}, default "near_unbiased"
        ``"near_unbiased"``: local-linear estimates at the edges of score bins, linear in between. ``"published"``: the
        same with Nadaraya-Watson estimates (section 4.1 of the paper), which are biased if scores are not spread
        evenly. ``"binning"``: the mean outcome of each bin. ``"isotonic"`` and ``"platt"``: scikit-learn's, by group.
    score_column : str or int, default 0
        The score, a column of X by name (frames) or number. (``score`` is the name of a method in scikit-learn.)
    groups : str, int or sequence of them, default ()
        The columns that define the groups. Without any, everybody gets the same calibrator.
    user : str or int, optional
        The column that identifies users: each user has one vote, however many rows.
    bins : int, default 20
        Number of bins with equal shares of the scores; not used by "isotonic" and "platt".
    bandwidth : float, optional
        Of the kernel ("near_unbiased" and "published"). Default: the rule of `predictive_parity` with the number of
        users (or rows) of the group, times a factor from 1/4 to 2 by cross-validation; "published" has the rule alone.
    monotone : bool, default False
        Whether calibrated scores must not fall as the score rises. ("isotonic" always ensures this; a falling "platt"
        curve is replaced by the group's mean outcome.)
    onto : mapping, optional
        A group, such as ``{"sex": "Male"}``: other groups' scores are mapped onto its score scale instead of onto
        outcomes. Its own scores do not change.
    min_size : int, default 50
        A group with fewer users (rows) than this, or not seen in fit, gets the calibrator of everybody together.
    estimator : classifier or regressor, optional
        A scikit-learn estimator that makes the score from all columns of X except ``groups`` and ``user``, by
        ``predict_proba``, ``decision_function`` or ``predict``. ``fit`` calibrates scores out of fold, and then fits it
        on all rows (``estimator_``); ``sample_weight`` is passed on if its ``fit`` takes one. Default: X has the score.
    cv : int, splitter or None, default None
        The folds, as in scikit-learn. Default: five; with ``user``, a user's rows are in one fold.

    Attributes
    ----------
    groups_, pooled_groups_ : tuple
        The groups seen in fit, and those of them that are too small for their own calibrator.
    calibrators_, pooled_ : dict, function
        The function of each group that has its own, and the function of everybody together.

    Notes
    -----
    Calibrated scores lie within the range of the group's outcomes, except with ``onto``. A score beyond all those seen
    in fit gets the value of the nearest one that was seen.

    When it misleads: on the rows it was fitted on, and on groups so small that they get everybody's calibrator.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import GroupCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(4000), rng.integers(0, 2, 4000)
    >>> y = rng.random(4000) < np.where(g == 0, s, s**2)
    >>> calibrator = GroupCalibrator(groups=1).fit(np.column_stack([s, g]), y)
    >>> calibrator.predict([[0.5, 0], [0.5, 1]]).round(1)
    array([0.5, 0.3])
    """

    moved: ClassVar = {**GroupEstimator.moved, "smoother": 'method="published" for "nadaraya-watson"'}
    method: Calibration = "near_unbiased"
    _: KW_ONLY
    score_column: Column = 0
    groups: Column | Sequence[Column] = ()
    user: Column | None = None
    bins: Draws = 20
    bandwidth: Positive | None = None
    monotone: bool = False
    onto: Named | None = None
    min_size: Size = 50
    estimator: object = None
    cv: object = None

    def fit(self, X: object, y: object, sample_weight: object = None) -> GroupCalibrator:
        """Fit one calibrator per group, and one for everybody.

        ``sample_weight`` counts rows, as scikit-learn has it; with ``user`` it is the number of people that a user
        stands for, such as a survey weight: only the proportions matter, and unequal ones make a group worth fewer
        users.
        """
        check_parameters(self, self.get_params(deep=False))
        for name, default in _UNUSED.get(self.method, {}).items():
            if (value := getattr(self, name)) != default:
                raise UsageError(
                    f"{name}: {value!r} has no effect with method={self.method!r}; leave it at {default!r}, or choose "
                    "another method."
                )
        columns = self._scored(X, y, sample_weight, reset=True)
        with about("y", (TypeError, ValueError)):
            outcome = outcomes(column_or_1d(self._required(y), warn=True))
        self._same_length(outcome, columns)
        if not np.all(np.isfinite(outcome)):
            raise UsageError("y: Input y contains NaN or infinity.")
        if self.method == "platt" and not np.all((outcome == 0) | (outcome == 1)):
            raise UsageError('method: "platt" needs outcomes of 0 and 1; choose another method.')
        vote = estimators.votes(columns, sample_weight)
        score, counted = columns.numbers[:, 0], vote.weighted > 0
        axis = Axis.between(float(score[counted].min(initial=np.inf)), float(score[counted].max(initial=-np.inf)))
        if counted.any() and not (axis.unit and self.method == "published"):
            # One score far out must not widen every kernel.
            axis = axis.focused_on(score[counted], vote.weighted[counted])
        self._fit_groups(columns, vote, lambda rows: fit_map(score[rows], outcome[rows], vote.among(rows), axis, self))
        if self.onto is not None:
            wanted: Mapping[Any, Hashable] = self.onto
            target = tuple(wanted.get(name) for name in as_tuple(self.groups))
            if len(wanted) != len(target) or target not in self.calibrators_:
                known = list(self.calibrators_)[:20]
                raise UsageError(f"onto: no calibrated group {self.onto!r}; the groups by {self.groups!r}: {known}.")
            mapped = onto(self.calibrators_[target], score[counted], vote.weighted[counted], axis)
            self.pooled_ = mapped(self.pooled_)
            self.calibrators_ = {k: identity if k == target else mapped(m) for k, m in self.calibrators_.items()}
        return self

    def predict(self, X: object) -> FloatArray:
        """Calibrated scores, from the score and group columns alone.

        A group not seen in fit gets the calibrator of everybody together, with a warning.
        """
        check_is_fitted(self)
        columns = self._scored(X, reset=False)
        return self._predict_groups(columns, columns.numbers[:, 0])

    def transform(self, X: object) -> FloatArray:
        """Calibrated scores as a column, for the next step of a pipeline."""
        return self.predict(X)[:, None]

    def get_feature_names_out(self, input_features: object = None) -> ObjectArray:
        """The name of the column that `transform` makes."""
        check_is_fitted(self)
        return np.array(["calibrated_score"], dtype=object)


# ---- several scores


@dataclass(eq=False, repr=False, kw_only=True)
class MultiObjectiveCalibrator(GroupEstimator, TransformerMixin, MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Calibrate scores S^1..S^K of outcomes Y^1..Y^K jointly, so that every weighted sum of them is in parity.

    Each score is replaced by an estimate of E[Y^k | S^1..S^K, G]. By Theorem 2 of the paper the combined score
    sum_k w_k S^k then means the same thing in every group, whatever the weights. Calibration is estimated: at large n a
    test can still reject, while the parity error falls.

    Parameters
    ----------
    scores : sequence of str or int, optional
        Columns of X by name or number, in the order of the outcomes. Default: the first K that are neither group nor
        user.
    groups, user
        As in `GroupCalibrator`.
    estimator : regressor, optional
        Any scikit-learn regressor with ``fit(X, y, sample_weight=...)``, cloned for each group and outcome. Default:
        product-kernel regression, meant for up to three scores.
    bandwidth : float, optional
        In standard deviations of each score (between its 1 % and 99 % quantiles, so that an outlying score does not
        widen it). Default: n^(-1/(K + 4)).
    min_size : int, default 100
        As in `GroupCalibrator`.

    Attributes
    ----------
    groups_, pooled_groups_, calibrators_, pooled_
        As in `GroupCalibrator`; a function predicts all outcomes.

    Notes
    -----
    When it misleads: with more than three scores a product kernel has few neighbors, and every score is pulled toward
    the mean.

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 5, Theorem 2.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import MultiObjectiveCalibrator
    >>> rng = np.random.default_rng(0)
    >>> S = rng.random((3000, 2))
    >>> Y = rng.random((3000, 2)) < S[:, ::-1]  # each score predicts the other outcome
    >>> calibrator = MultiObjectiveCalibrator().fit(S, Y)
    >>> calibrator.predict([[0.2, 0.8]]).round(1)
    array([[0.8, 0.2]])
    >>> calibrator.combine([[0.2, 0.8]], weights=[1, 1]).round(1)
    array([1.])
    """

    moved: ClassVar = {**GroupEstimator.moved, "score_columns": "scores="}
    scores: Sequence[Column] | None = None
    groups: Column | Sequence[Column] = ()
    user: Column | None = None
    estimator: object = None
    bandwidth: Positive | None = None
    min_size: Size = 100

    def fit(self, X: object, y: object, sample_weight: object = None) -> MultiObjectiveCalibrator:
        """Fit; ``y`` has one column per outcome (a frame, or an array); ``sample_weight`` as in `GroupCalibrator`."""
        check_parameters(self, self.get_params(deep=False))
        estimators.refuse_empty(eager(X))
        if self.estimator is not None:
            refuse_unfit(self.estimator, "regressor")
            if not has_fit_parameter(self.estimator, "sample_weight"):
                raise UsageError(
                    f"estimator: {type(self.estimator).__name__}.fit takes no sample_weight, which carries the votes "
                    "of users; choose a regressor that does."
                )
        with about("y", (TypeError, ValueError)):
            values = outcomes(check_array(self._required(y), dtype=None, ensure_2d=False, input_name="y"))
        self._flat = values.ndim == 1
        values = values[:, None] if self._flat else values
        if self.scores is not None and len(as_tuple(self.scores)) != values.shape[1]:
            raise UsageError(
                f"scores: {len(as_tuple(self.scores))} given, and {values.shape[1]} outcomes; give one score for each "
                "outcome, in the same order."
            )
        columns = self._columns(X, self._score_columns(X, values.shape[1]), reset=True)
        self._same_length(values, columns)
        vote = estimators.votes(columns, sample_weight)

        def surface(rows: IntArray) -> Map:
            scores, observed, weight = columns.numbers[rows], values[rows], vote.among(rows)
            if self.estimator is None:
                return fit_surface(scores, observed, weight, self.bandwidth)
            fitted = [clone(self.estimator).fit(scores, outcome, sample_weight=weight) for outcome in observed.T]
            return partial(each_predicted, fitted)

        self._fit_groups(columns, vote, surface)
        self.n_outputs_ = values.shape[1]
        return self

    def predict(self, X: object) -> FloatArray:
        """Calibrated scores, one column per outcome, from the score and group columns alone."""
        check_is_fitted(self)
        columns = self._columns(X, self._score_columns(X, self.n_outputs_), reset=False)
        calibrated = self._predict_groups(columns, columns.numbers)
        return calibrated[:, 0] if self._flat else calibrated

    def transform(self, X: object) -> FloatArray:
        """Calibrated scores as columns, for the next step of a pipeline."""
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
        return self.transform(X) @ chosen

    def _score_columns(self, X: object, outcomes: int) -> tuple[Column, ...]:
        frame = eager(X)  # a lazy table is refused before its columns are read
        if self.scores is not None:
            return as_tuple(self.scores)
        shape: tuple[int, ...] = getattr(X, "shape", ())
        names = frame.columns if frame is not None else range(shape[1] if len(shape) == 2 else outcomes)
        width, taken = len(names), {*as_tuple(self.groups), self.user}
        free = [k for k in range(width) if k not in taken and names[k] not in taken]
        if width and len(free) < outcomes:
            raise UsageError(
                f"scores: {outcomes} outcomes need as many score columns; X has {len(free)} that are free "
                f"(n_features = {width})."
            )
        return tuple(free[:outcomes]) or (0,)  # an X without columns is refused with scikit-learn's own words


# ---- thresholds


@dataclass(eq=False, repr=False)
class GroupThresholds(ScoredByModel, BaseEstimator):
    """Decide new rows by group thresholds at which a rate, or the outcomes at the margin, are equal.

    `isonomy.equalize_thresholds` as a scikit-learn estimator: ``fit`` finds the thresholds, ``predict`` decides.

    Parameters
    ----------
    target : str, default "outcome_at_margin"
        What is made equal, as in `isonomy.equalize_thresholds`.
    threshold : float or mapping, default 0.5
        The present threshold, or that of each group.
    score_column : str or int, default 0
        The score, a column of X by name (frames) or number. (``score`` is the name of a method in scikit-learn.)
    groups : str, int or sequence of them
        The columns that define the groups. Several mean their intersection.
    user : str or int, optional
        The column that identifies users; needed by ``fit`` only.
    cluster : str or int, optional
        The column of rows that vary together, if these are wider than users; needed by ``fit`` only.
    capacity, change, direction, randomize, method, alpha
        As in `isonomy.equalize_thresholds`; without ``resamples`` in ``method`` there are no intervals.
    estimator, cv
        As in `GroupCalibrator`: a classifier that makes the score.
    unknown : {"present", "error"}, default "present"
        What to do with a group that was not seen in ``fit``: decide it by the present threshold and warn, or refuse.
    random_state : int, Generator or None, default None
        Seed of the intervals, and of lotteries: with an int the same rows get the same decisions each time.

    Attributes
    ----------
    groups_ : tuple
        The groups seen in fit (values of ``groups``).
    thresholds_, lottery_, probability_ : numpy.ndarray
        One entry per group: people are selected from the threshold up, and with the probability from ``lottery_`` up
        to the threshold.
    thresholds_low_, thresholds_high_ : numpy.ndarray
        The intervals of the thresholds, with ``method=iso.curves(resamples=...)``.
    pvalue_, target_ : float
        The p-value of equality at the present threshold, and the common value aimed at.
    status_ : tuple
        How far each threshold can be relied on.

    Notes
    -----
    See `isonomy.equalize_thresholds`, also for references. `predict` gives decisions, not predictions of the outcome.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.scores import GroupThresholds
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(20_000), rng.integers(0, 2, 20_000)
    >>> y = rng.random(20_000) < np.where(g == 0, s, s**2)
    >>> rule = GroupThresholds("tpr", groups=1).fit(np.column_stack([s, g]), y)
    >>> rule.predict([[0.5, 0], [0.5, 1]])
    array([1, 0])
    """

    moved: ClassVar = {**GroupEstimator.moved, **moved("level", "bandwidth", "resamples", value="...")}
    target: Target = "outcome_at_margin"
    _: KW_ONLY
    threshold: Finite | Mapping[Any, Finite] = 0.5
    score_column: Column = 0
    groups: Column | Sequence[Column] = ()
    user: Column | None = None
    cluster: Column | None = None
    capacity: Fraction | None = None
    change: Change = "shown"
    direction: Direction = "both"
    randomize: bool = False
    method: CurvesOption = CurvesOption()  # noqa: RUF009
    alpha: Alpha = 0.05
    estimator: object = None
    cv: object = None
    unknown: Literal["present", "error"] = "present"
    random_state: Seeded = None

    def fit(self, X: object, y: object = None, sample_weight: object = None) -> GroupThresholds:
        """Find the thresholds.

        ``y``: outcomes, NaN where they are not known (for outcomes at the margin, below the present threshold); none
        for selection rates. ``sample_weight``: the number of people each row stands for; only the proportions matter.
        """
        check_parameters(self, self.get_params(deep=False))
        if not as_tuple(self.groups):
            raise UsageError("groups: none given; name the columns of X that say which group a row belongs to.")
        rows = self._scored(X, y, sample_weight, reset=True)
        table: dict[str, object] = {"score": rows.numbers[:, 0], "group": rows.group}
        table |= {} if rows.user is None else {"user": rows.user}
        if self.cluster is not None:
            frame = eager(X)
            values = estimators.column_of(np.asarray(X) if frame is None else frame, self.cluster, "cluster")
            table["cluster"] = estimators.user_codes(values, "cluster")
        if y is not None or self.target != "selection_rate":
            outcome = outcomes(np.asarray(self._required(y)).ravel())
            self._same_length(outcome, rows)
            table["outcome"] = outcome
        if sample_weight is not None:
            table["weight"] = np.asarray(sample_weight).ravel()
        names = {code: (" & ".join(map(str, key)),) for code, key in enumerate(rows.keys)}
        given = self.threshold
        reading: Any = {name: name for name in ("weight", "cluster") if name in table}
        shared = ("target", "capacity", "change", "direction", "randomize", "method", "alpha")
        plan = ThresholdsPlan(
            open_source(table, **reading),
            **{name: getattr(self, name) for name in shared},
            threshold=threshold_of_each(names, given) if isinstance(given, Mapping) else given,
            outcome="outcome" if "outcome" in table else None,
            score="score",
            groups="group",
            user="user" if "user" in table else None,
            default_draws=0,
        )
        sample = read(plan)
        columns = decide(estimate(sample, plan, np.random.default_rng(self.random_state)), sample, plan)
        self.groups_ = tuple(rows.keys[int(str(group.items[0][1]))] for group in columns["groups"])
        for name in ("thresholds", "lottery", "probability", "pvalue", "target"):
            setattr(self, f"{name}_", columns[name])
        if self.method.resamples:
            self.thresholds_low_, self.thresholds_high_ = columns["thresholds_low"], columns["thresholds_high"]
        self.status_ = tuple(map(Status, map(str, columns["status"])))
        return self

    def predict(self, X: object) -> IntArray:
        """1 for those who are selected, 0 for the others, from the score and group columns alone."""
        chance = self.predict_chance(X)
        drawn = (chance > 0) & (chance < 1)
        if drawn.any():
            chance = np.where(drawn, np.random.default_rng(self.random_state).random(chance.size) < chance, chance)
        return chance.astype(np.intp)

    def predict_chance(self, X: object) -> FloatArray:
        """The chance of being selected: 0 or 1, or a value in between in a lottery."""
        check_is_fitted(self)
        columns = self._scored(X, reset=False)
        place = {key: k for k, key in enumerate(self.groups_)}
        unknown = [key for key in columns.keys if key not in place]
        by_group = isinstance(self.threshold, Mapping)
        if unknown and (self.unknown == "error" or by_group):
            raise UsageError(words.unseen_groups(unknown, "no threshold" if by_group else "error"))
        if unknown:
            warnings.warn(words.unseen_groups(unknown, "present"), UserWarning, stacklevel=2)
        code = np.array([place.get(key, len(place)) for key in columns.keys])[columns.group]
        present = np.nan if isinstance(self.threshold, Mapping) else self.threshold
        high, low = (np.append(values, present)[code] for values in (self.thresholds_, self.lottery_))
        score = columns.numbers[:, 0]
        return np.where(score >= high, 1.0, np.where(score >= low, np.append(self.probability_, 1.0)[code], 0.0))


# ---- held-out users


@checked
def split_users(user: object, *, held_out: Fraction = 0.5, rng: Seeded = None) -> BoolArray:
    """Mark a random share of users as held out: True for all rows of a held-out user.

    Rows of one user are alike; splitting them between fit and test would make a calibrator look better than it is.
    Rows without a user are refused, because they do not all belong to one person.

    Parameters
    ----------
    user : array_like
        The user of each row: an array, a list, or a series of any frame library.
    held_out : float, default 0.5
        The share of users that are held out; at least one, and not all.
    rng : int or numpy.random.Generator, optional
        The seed of the draw.

    Returns
    -------
    numpy.ndarray of bool
        One entry per row.

    Examples
    --------
    >>> from isonomy.scores import split_users
    >>> split_users(["a", "b", "a", "c", "b"], held_out=0.5, rng=0).sum() in (1, 2, 3)
    True
    """
    codes = estimators.user_codes(estimators.series_of(user), "user")
    size = int(codes.max()) + 1 if codes.size else 0
    if size < 2:
        raise UsageError("user: a split needs at least two users.")
    many = min(max(1, round(held_out * size)), size - 1)
    return np.isin(codes, resolve(rng).permutation(size)[:many])
