"""`GroupCalibrator`: scores that mean the same thing in every group, by calibrating each group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.isotonic import IsotonicRegression
from sklearn.utils.validation import check_is_fitted, column_or_1d

from isonomy.calibration.columns import Column, Columns, as_tuple, check_min_size, numbers_of, positive, read, weights
from isonomy.calibration.maps import Lines, Map, Onto, Same, Steps, nearest_mass, platt, quantiles
from isonomy.calibration.smoothing import Axis, kernel, published
from isonomy.calibration.tally import bin_sums
from isonomy.errors import UsageError, choose
from isonomy.numerics.arrays import FloatArray

METHODS = ("near_unbiased", "binning", "isotonic", "platt")
SMOOTHERS = ("nadaraya-watson", "local-linear")
# Options a method does not read, with their defaults: another value is refused rather than ignored.
_KERNEL = {"bandwidth": None, "smoother": "nadaraya-watson"}
UNUSED: dict[str, dict[str, Any]] = {
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
    method
        ``"near_unbiased"``: kernel estimates at the ends of score bins, linear in between (section 4.1). ``"binning"``:
        mean outcome of each bin. ``"isotonic"`` and ``"platt"``: scikit-learn's, by group.
    score_column, group_columns, user_column
        Columns of X by name (frames) or number. No group column: one calibrator for everybody. With a user column each
        user has one vote, however many rows.
    bins
        Number of bins with equal shares of the scores ("near_unbiased" and "binning").
    bandwidth
        Of the kernel ("near_unbiased"); None: the paper's rule with the group's number of users (or rows),
        scaled to where most scores lie if some are not in [0, 1].
    smoother
        ``"nadaraya-watson"`` as in the paper, or ``"local-linear"``, which has no bias at the ends ("near_unbiased").
    monotone
        Whether calibrated scores may not fall as the score rises. ("isotonic" never lets them; a falling "platt" curve
        is replaced by the group's mean outcome.)
    onto
        A group, such as ``{"sex": "Male"}`` or a tuple of the group columns' values: other groups' scores are mapped
        onto its score scale (no further than the scores seen in fit) instead of onto outcomes, and its own scores stay.
    min_size
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

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration.mitigate import GroupCalibrator
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(4000), rng.integers(0, 2, 4000)
    >>> y = rng.random(4000) < np.where(g == 0, s, s**2)
    >>> calibrator = GroupCalibrator(group_columns=1).fit(np.column_stack([s, g]), y)
    >>> calibrator.predict([[0.5, 0], [0.5, 1]]).round(1)
    array([0.5, 0.3])
    """

    def __init__(
        self,
        method: str = "near_unbiased",
        *,
        score_column: Column = 0,
        group_columns: Column | Sequence[Column] = (),
        user_column: Column | None = None,
        bins: int = 20,
        bandwidth: float | None = None,
        smoother: str = "nadaraya-watson",
        monotone: bool = False,
        onto: Mapping[str, Hashable] | tuple[Hashable, ...] | None = None,
        min_size: int = 50,
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> GroupCalibrator:
        """Fit one calibrator a group, and one for everybody. ``sample_weight`` counts rows."""
        self._check()
        columns = self._read(X, reset=True)
        if y is None:
            raise ValueError("This GroupCalibrator estimator requires y to be passed, but the target y is None.")
        outcome = numbers_of(column_or_1d(y, warn=True))
        if len(outcome) != len(columns.scores):
            raise ValueError(
                f"y: {len(outcome)} outcomes for {len(columns.scores)} rows of X (inconsistent numbers of samples)."
            )
        if not np.all(np.isfinite(outcome)):
            raise ValueError("Input y contains NaN or infinity.")
        if self.method == "platt" and not np.all((outcome == 0) | (outcome == 1)):
            raise UsageError('method: "platt" needs outcomes of 0 and 1; choose another method.')
        vote = weights(columns.scores, columns, sample_weight)
        held = vote > 0
        score = columns.scores[:, 0]
        axis = _axis(score[held], vote[held])
        # Votes in the unit of users (or rows): a group's total is its number of users.
        self.pooled_ = self._calibrate(score, outcome, vote, axis)
        self.calibrators_: dict[tuple[Hashable, ...], Map] = {}
        small = []
        for number, key in enumerate(columns.keys):
            mine = columns.group == number
            if vote[mine].sum() < self.min_size and columns.keys != ((),):
                small.append(key)
            else:
                self.calibrators_[key] = self._calibrate(score[mine], outcome[mine], vote[mine], axis)
        self.groups_ = columns.keys
        self.pooled_groups_ = tuple(small)
        if self.onto is not None:
            self._map_onto(score[held], vote[held], axis)
        return self

    def predict(self, X: Any) -> FloatArray:
        """Calibrated scores. A group not seen in fit gets the calibrator of everybody together."""
        check_is_fitted(self)
        columns = self._read(X, reset=False)
        score = columns.scores[:, 0]
        calibrated = np.empty(score.size)
        for number, key in enumerate(columns.keys):
            mine = columns.group == number
            calibrated[mine] = self.calibrators_.get(key, self.pooled_)(score[mine])
        return calibrated

    def transform(self, X: Any) -> FloatArray:
        """Calibrated scores as a column, for a pipeline that goes on."""
        return self.predict(X)[:, None]

    def get_feature_names_out(self, input_features: object = None) -> Any:
        """The name of the column that `transform` makes."""
        check_is_fitted(self)
        return np.array(["calibrated_score"], dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # it uses one column: not a model of the outcome from many features
        return tags

    def _check(self) -> None:
        choose("method", self.method, METHODS)
        choose("smoother", self.smoother, SMOOTHERS)
        if isinstance(self.bins, bool) or not isinstance(self.bins, (int, np.integer)) or self.bins < 1:
            raise UsageError(f"bins: {self.bins!r} is not allowed; give a whole number from 1 up.")
        positive("bandwidth", self.bandwidth)
        check_min_size(self.min_size)
        for name, default in UNUSED[self.method].items():
            if (seen := getattr(self, name)) != default:
                raise UsageError(
                    f"{name}: {seen!r} has no effect with method={self.method!r}; leave it at {default!r}, or choose "
                    "another method."
                )

    def _read(self, X: Any, *, reset: bool) -> Columns:
        return read(
            self,
            X,
            scores=(self.score_column,),
            groups=as_tuple(self.group_columns),
            user=self.user_column if reset else None,
            reset=reset,
        )

    def _calibrate(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, axis: Axis) -> Map:
        score, outcome, vote = score[vote > 0], outcome[vote > 0], vote[vote > 0]
        if not score.size:
            raise ValueError("sample_weight: every weight is zero; nothing is left to fit.")
        if self.method == "isotonic":
            fitted = IsotonicRegression(out_of_bounds="clip").fit(score, outcome, sample_weight=vote)
            return Lines(fitted.X_thresholds_, fitted.y_thresholds_)
        if self.method == "platt":
            return platt(score, outcome, vote, rising=self.monotone)
        edges = quantiles(score, vote, np.arange(self.bins + 1) / self.bins)
        if self.method == "binning":
            return self._binned(score, outcome, vote, edges)
        value = self._smoothed(score, outcome, vote, edges, axis)
        return Lines(edges, self._rising(value, nearest_mass(score, vote, edges)))

    def _binned(self, score: FloatArray, outcome: FloatArray, vote: FloatArray, edges: FloatArray) -> Steps:
        inner = edges[1:-1]
        place = np.searchsorted(inner, score, side="right")
        mass = np.bincount(place, vote, inner.size + 1)
        total = np.bincount(place, vote * outcome, inner.size + 1)
        held = mass > 0  # ties can leave a bin empty: it takes the value of its neighbour
        value = np.interp(np.arange(mass.size), np.flatnonzero(held), total[held] / mass[held])
        return Steps(inner, self._rising(value, np.maximum(mass, 1e-12)))

    def _smoothed(
        self, score: FloatArray, outcome: FloatArray, vote: FloatArray, at: FloatArray, axis: Axis
    ) -> FloatArray:
        n = float(vote.sum())
        width = published(at, n, axis) if self.bandwidth is None else np.full(at.size, float(self.bandwidth))
        sums = np.zeros((5, at.size))
        for start in range(0, score.size, 2**16):
            part = slice(start, start + 2**16)
            u = (score[part, None] - at) / width
            k = kernel(u) * vote[part, None]
            ku = k * u
            y = outcome[part]
            sums += np.stack([k.sum(axis=0), ku.sum(axis=0), (ku * u).sum(axis=0), y @ k, y @ ku])
        s0, s1, s2, t0, t1 = sums
        if self.smoother == "nadaraya-watson":
            return t0 / s0
        spread = s0 * s2 - s1 * s1
        enough = spread > 1e-8 * s0 * s0
        return np.where(enough, (s2 * t0 - s1 * t1) / np.where(enough, spread, 1.0), t0 / s0)

    def _rising(self, value: FloatArray, mass: FloatArray) -> FloatArray:
        if not self.monotone:
            return value
        return np.asarray(IsotonicRegression().fit_transform(np.arange(value.size), value, sample_weight=mass))

    def _map_onto(self, score: FloatArray, vote: FloatArray, axis: Axis) -> None:
        names = as_tuple(self.group_columns)
        wanted: Any = self.onto
        if isinstance(wanted, Mapping):
            unknown = [name for name in wanted if name not in names]
            if unknown or len(wanted) != len(names):
                raise UsageError(f"onto: {wanted!r}; give a value for each of the group columns {list(names)}.")
            wanted = tuple(wanted[name] for name in names)
        wanted = tuple(wanted) if isinstance(wanted, (list, tuple)) else wanted
        try:
            known = wanted in self.calibrators_
        except TypeError:  # a list or a mapping among the values
            known = False
        if not known:
            raise UsageError(f"onto: no calibrated group {self.onto!r}; groups: {list(self.calibrators_)[:20]}.")
        target = self.calibrators_[wanted]
        # Equal steps cover the axis; quantiles are where the scores are, should one of them be far out.
        shares = np.linspace(0, 1, 1001)
        at = np.unique(np.concatenate([axis.low + (axis.high - axis.low) * shares, quantiles(score, vote, shares)]))
        value = np.maximum.accumulate(target(at))
        self.pooled_ = Onto(self.pooled_, at, value)
        self.calibrators_ = {
            key: Same() if key == wanted else Onto(own, at, value) for key, own in self.calibrators_.items()
        }


def _axis(score: FloatArray, vote: FloatArray) -> Axis:
    if not score.size:
        return Axis.of(0.0, 1.0)
    axis = Axis.of(float(score.min()), float(score.max()))
    if axis.unit:
        return axis

    # One score far out must not widen every kernel.
    return axis.focused(lambda on: bin_sums(on.bin(score).astype(np.intp), vote))
