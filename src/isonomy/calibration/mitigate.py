"""Scores that mean the same thing in every group: one score calibrated by group, or several scores together."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Annotated, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, column_or_1d

from isonomy.calibration import wording
from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.maps import Calibration, Fitter, LocalFit, Map, onto, same
from isonomy.errors import UsageError
from isonomy.frames.estimators import (
    Column,
    Columns,
    Key,
    Votes,
    about,
    as_tuple,
    outcomes,
    read_columns,
    series_of,
    target,
    user_codes,
    votes,
)
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.randomness import resolve
from isonomy.options import Draws, Fraction, Number, Positive, Seeded, check_parameters, checked

Size = Annotated[float, Number(least=0)]
Target = Mapping[str, Hashable] | Mapping[int, Hashable] | Sequence[Hashable]  # a group, by column or in their order
M = TypeVar("M")
# Options a method does not read, with their defaults: another value is refused rather than ignored.
_KERNEL: dict[str, object] = {"bandwidth": None, "smoother": "local-linear"}
_UNUSED: dict[Calibration, dict[str, object]] = {
    "near_unbiased": {},
    "binning": _KERNEL,
    "isotonic": {"bins": 20} | _KERNEL,
    "platt": {"bins": 20} | _KERNEL,
}


class GroupCalibrator(TransformerMixin, RegressorMixin, BaseEstimator):
    """Make a score mean the same thing in every group, by calibrating each group on its own.

    Each group's score s is replaced by an estimate of E[Y | S = s, G = g]; two groups with equal calibrated scores then
    have equal expected outcomes (section 4 of the paper). Fit it on rows the score's model has not seen, and judge it
    on users it has not seen (`isonomy.split_users`).

    Parameters
    ----------
    method : {"near_unbiased", "binning", "isotonic", "platt"}, default "near_unbiased"
        ``"near_unbiased"``: kernel estimates at the ends of score bins, linear in between (section 4.1). ``"binning"``:
        mean outcome of each bin. ``"isotonic"`` and ``"platt"``: scikit-learn's, by group.
    score_column : str or int, default 0
        The score, a column of X by name (frames) or number.
    group_columns : str, int or sequence of them, default ()
        The columns that make the groups. None: one calibrator for everybody.
    user_column : str or int, optional
        Whom a row belongs to: each user has one vote, however many rows.
    bins : int, default 20
        Number of bins with equal shares of the scores ("near_unbiased" and "binning").
    bandwidth : float, optional
        Of the kernel ("near_unbiased"); None: the paper's rule with the group's number of users (or rows),
        scaled to where most scores lie if some are not in [0, 1].
    smoother : {"local-linear", "nadaraya-watson"}, default "local-linear"
        ``"local-linear"``, or ``"nadaraya-watson"`` as in the paper, which is biased where scores are not spread evenly
        ("near_unbiased").
    monotone : bool, default False
        Whether calibrated scores may not fall as the score rises. ("isotonic" never lets them; a falling "platt" curve
        is replaced by the group's mean outcome.)
    onto : mapping or tuple, optional
        A group, such as ``{"sex": "Male"}`` or a tuple of the group columns' values: other groups' scores are mapped
        onto its score scale (no further than the scores seen in fit) instead of onto outcomes, and its own scores stay.
    min_size : int, default 50
        A group with fewer users (rows) than this, or not seen in fit, gets the calibrator of everybody together.

    Attributes
    ----------
    groups_ : tuple
        The groups seen in fit (values of the group columns).
    pooled_groups_ : tuple
        Those of them that are too small for their own calibrator.
    calibrators_ : dict
        The function of each group that has its own.
    pooled_ : function
        That of everybody together.

    Notes
    -----
    Calibrated scores lie within the range of the group's outcomes, so that those of 0/1 outcomes are probabilities. A
    local line can leave this range where the curve bends; at the end of a bin where it does, the estimate is the
    nearest end of the range. Outcomes of any other kind are bounded by their own smallest and largest value. A score
    below or above all those seen in fit gets the value of the nearest one that was seen. With ``onto`` the result is a
    score of that group instead of an outcome, and these bounds do not apply.

    When it misleads: on rows it was fitted on, and on groups so small that they get everybody's calibrator
    (`pooled_groups_`).

    References
    ----------
    C. DiCiccio, B. Hsu, Y. Yu, P. Nandy, K. Basu, "Detection and Mitigation of Algorithmic Bias via Predictive Rate
    Parity", section 4.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import GroupCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(4000), rng.integers(0, 2, 4000)
    >>> y = rng.random(4000) < np.where(g == 0, s, s**2)
    >>> calibrator = GroupCalibrator(group_columns=1).fit(np.column_stack([s, g]), y)
    >>> calibrator.predict([[0.5, 0], [0.5, 1]]).round(1)
    array([0.5, 0.3])
    """

    def __init__(
        self,
        method: Calibration = "near_unbiased",
        *,
        score_column: Column = 0,
        group_columns: Column | Sequence[Column] = (),
        user_column: Column | None = None,
        bins: Draws = 20,
        bandwidth: Positive | None = None,
        smoother: LocalFit = "local-linear",
        monotone: bool = False,
        onto: Target | None = None,
        min_size: Size = 50,
    ) -> None:
        self.method = method
        self.score_column = score_column
        self.group_columns = group_columns
        self.user_column = user_column
        self.bins = bins
        self.bandwidth = bandwidth
        self.smoother = smoother
        self.monotone = monotone
        self.onto = onto
        self.min_size = min_size

    def fit(self, X: object, y: object, sample_weight: object = None) -> GroupCalibrator:
        """Fit one calibrator per group, and one for everybody.

        ``sample_weight`` counts rows, as scikit-learn has it; with ``user_column`` it is the people that a user stands
        for, such as a survey's weights: only the proportions matter, and unequal ones make a group worth fewer users.
        """
        check_parameters(self, self.get_params(deep=False))
        for name, default in _UNUSED[self.method].items():
            if (value := getattr(self, name)) != default:
                raise UsageError(
                    f"{name}: {value!r} has no effect with method={self.method!r}; leave it at {default!r}, or choose "
                    "another method."
                )
        columns = self._read(X, reset=True)
        with about("y", (TypeError, ValueError)):
            outcome = outcomes(column_or_1d(required(self, y), warn=True))
        same_length(outcome, columns)
        if not np.all(np.isfinite(outcome)):
            raise UsageError("y: Input y contains NaN or infinity.")
        if self.method == "platt" and not np.all((outcome == 0) | (outcome == 1)):
            raise UsageError('method: "platt" needs outcomes of 0 and 1; choose another method.')
        vote = votes(columns, sample_weight)
        each = vote.each
        held = each > 0
        score = columns.numbers[:, 0]
        axis = _axis(score[held], each[held])
        options = (self.method, self.bins, self.bandwidth, self.smoother, self.monotone)
        # Between two score scales a curve need not be an outcome: bounds would only map unlike scores onto one.
        fitter = Fitter(*options, axis, bounded=self.onto is None)

        def calibrate(rows: IntArray) -> Map:
            return fitter(score[rows], outcome[rows], vote.among(rows))

        self.pooled_, self.calibrators_, self.pooled_groups_ = by_group(columns, vote, self.min_size, calibrate)
        self.groups_ = columns.keys
        if self.onto is not None:
            target = self._target(self.onto)
            mapped = onto(self.calibrators_[target], score[held], each[held], axis)
            self.pooled_ = mapped(self.pooled_)
            self.calibrators_ = {k: same if k == target else mapped(own) for k, own in self.calibrators_.items()}
        return self

    def predict(self, X: object) -> FloatArray:
        """Calibrated scores, from the score and group columns alone.

        A group not seen in fit gets the calibrator of everybody together, with a warning.
        """
        check_is_fitted(self)
        columns = self._read(X, reset=False)
        warn_unknown(columns, self.groups_)
        score = columns.numbers[:, 0]
        calibrated = np.empty(score.size)
        for number, key in enumerate(columns.keys):
            mine = columns.group == number
            calibrated[mine] = self.calibrators_.get(key, self.pooled_)(score[mine])
        return calibrated

    def transform(self, X: object) -> FloatArray:
        """Calibrated scores as a column, for a pipeline that goes on."""
        return self.predict(X)[:, None]

    def get_feature_names_out(self, input_features: object = None) -> ObjectArray:
        """The name of the column that `transform` makes."""
        check_is_fitted(self)
        return np.array(["calibrated_score"], dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # it uses one column: not a model of the outcome from many features
        return tags

    def _read(self, X: object, *, reset: bool) -> Columns:
        groups, user = as_tuple(self.group_columns), self.user_column if reset else None
        return read_columns(self, X, numbers=(self.score_column,), groups=groups, user=user, reset=reset)

    def _target(self, wanted: Target) -> Key:
        """The group that scores are mapped onto."""
        names = as_tuple(self.group_columns)
        if isinstance(wanted, Mapping):
            values: dict[Column, Hashable] = dict(wanted.items())
            if set(values) != set(names):
                raise UsageError(f"onto: {wanted!r}; give a value for each of the group columns {list(names)}.")
            wanted = [values[name] for name in names]
        key = tuple(wanted)
        try:
            known = key in self.calibrators_
        except TypeError:  # a list or a mapping among the values
            known = False
        if not known:
            raise UsageError(f"onto: no calibrated group {self.onto!r}; groups: {list(self.calibrators_)[:20]}.")
        return key


def by_group(
    columns: Columns, vote: Votes, least: float, fit: Callable[[IntArray], M]
) -> tuple[M, dict[Key, M], tuple[Key, ...]]:
    """The model of everybody, that of each group with ``least`` votes or more, and the groups with fewer.

    ``fit`` makes a model of the rows it is given; rows without a vote take no part.
    """
    held = vote.each > 0
    if not held.any():
        raise ValueError("sample_weight: every weight is zero; nothing is left to fit.")
    pooled = fit(np.flatnonzero(held))
    if columns.keys == ((),):
        return pooled, {(): pooled}, ()
    models: dict[Key, M] = {}
    for number, key in enumerate(columns.keys):
        mine = columns.group == number
        if vote.among(mine).sum() >= max(least, np.finfo(float).tiny):
            models[key] = fit(np.flatnonzero(mine & held))
    return pooled, models, tuple(key for key in columns.keys if key not in models)


def warn_unknown(columns: Columns, known: Sequence[Key]) -> None:
    """Warn of groups that were not there in the fit: they get what everybody together would get."""
    unknown = [key for key in columns.keys if key not in set(known)]
    if unknown:
        warnings.warn(wording.unknown_groups(unknown), UserWarning, stacklevel=3)


def required(estimator: BaseEstimator, y: object) -> object:
    """The outcomes given to ``fit``; refused if there are none."""
    if y is None:
        name = type(estimator).__name__
        raise UsageError(f"y: This {name} estimator requires y to be passed, but the target y is None.")
    return target(y)


def same_length(y: FloatArray, columns: Columns) -> None:
    """Refuse outcomes that are not those of the rows."""
    if len(y) != len(columns.numbers):
        raise UsageError(f"y: {len(y)} rows for {len(columns.numbers)} rows of X (inconsistent numbers of samples).")


def _axis(score: FloatArray, vote: FloatArray) -> Axis:
    if not score.size:
        return Axis.of(0.0, 1.0)
    axis = Axis.of(float(score.min()), float(score.max()))
    # One score far out must not widen every kernel.
    return axis if axis.unit else axis.focused_on(score, vote)


@checked
def split_users(user: object, *, held_out: Fraction = 0.5, rng: Seeded = None) -> BoolArray:
    """Mark a random share of users as held out: True for all rows of a held-out user.

    Rows of one user are alike; splitting them between fit and test would make a calibrator look better than it is.
    Rows without a user are refused: they are not all one person.

    Parameters
    ----------
    user : array_like
        Who each row belongs to: an array, a list, or a series of any frame library.
    held_out : float, default 0.5
        The share of users that are held out; at least one, and not all.
    rng : int or numpy.random.Generator, optional
        Where the draw comes from.

    Returns
    -------
    numpy.ndarray of bool
        One entry per row.

    Examples
    --------
    >>> from isonomy.calibration import split_users
    >>> split_users(["a", "b", "a", "c", "b"], held_out=0.5, rng=0).sum() in (1, 2, 3)
    True
    """
    codes = user_codes(series_of(user), "user")
    size = int(codes.max()) + 1 if codes.size else 0
    if size < 2:
        raise UsageError("user: a split needs at least two users.")
    generator, _ = resolve(rng)
    chosen = np.zeros(size, dtype=bool)
    many = min(max(1, round(held_out * size)), size - 1)
    chosen[generator.permutation(size)[:many]] = True
    return chosen[codes]
