"""Thresholds of groups as an object that decides new rows."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from isonomy.calibration import wording
from isonomy.calibration.decide import decide_thresholds
from isonomy.calibration.estimate_thresholds import estimate_thresholds
from isonomy.calibration.mitigate import required, same_length
from isonomy.calibration.plan import Change, plan_thresholds
from isonomy.calibration.smoothing.targets import Target as Equalized
from isonomy.calibration.tally_thresholds import tally_thresholds
from isonomy.errors import UsageError
from isonomy.frames import open_source
from isonomy.frames.estimators import Column, Columns, as_tuple, outcomes, read_columns
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import Alpha, Finite, Fraction, Seeded, check_parameters


class GroupThresholds(BaseEstimator):
    """Decide new rows by thresholds of each group at which a rate, or the outcomes at the margin, are equal.

    `isonomy.equalize_thresholds` as a scikit-learn estimator: ``fit`` finds the thresholds, ``predict`` decides.

    Parameters
    ----------
    target : str, default "outcome_at_margin"
        What is made equal, as in `isonomy.equalize_thresholds`.
    threshold : float, default 0.5
        The present threshold.
    score_column : str or int, default 0
        The score, a column of X by name (frames) or number.
    group_columns : str, int or sequence of them
        The columns that make the groups. Several mean their intersection.
    user_column : str or int, optional
        Whom a row belongs to; needed by ``fit`` only.
    capacity, change, randomize, alpha
        As in `isonomy.equalize_thresholds`.
    unknown : {"present", "error"}, default "present"
        What to do with a group that was not there in ``fit``: decide it by the present threshold and warn, or refuse.
    random_state : int, Generator or None, default None
        Seed of the lotteries, if there are any: an int decides the same rows alike each time.

    Attributes
    ----------
    groups_ : tuple
        The groups seen in fit (values of the group columns).
    thresholds_, lottery_, probability_ : numpy.ndarray
        One entry per group: selected from the threshold up, and with the probability from ``lottery_`` up to it.
    pvalue_ : float
        Of equality at the present threshold.
    target_ : float
        The common value aimed at.
    status_ : tuple
        How each threshold is to be taken.

    Notes
    -----
    When it misleads: as `isonomy.equalize_thresholds`. `predict` gives decisions, not predictions of the outcome.

    References
    ----------
    As in `isonomy.equalize_thresholds`.

    Examples
    --------
    >>> import numpy as np
    >>> from isonomy.calibration import GroupThresholds
    >>> rng = np.random.default_rng(0)
    >>> s, g = rng.random(20_000), rng.integers(0, 2, 20_000)
    >>> y = rng.random(20_000) < np.where(g == 0, s, s**2)
    >>> rule = GroupThresholds("tpr", group_columns=1).fit(np.column_stack([s, g]), y)
    >>> rule.predict([[0.5, 0], [0.5, 1]])
    array([1, 0])
    """

    def __init__(
        self,
        target: Equalized = "outcome_at_margin",
        *,
        threshold: Finite = 0.5,
        score_column: Column = 0,
        group_columns: Column | Sequence[Column] = (),
        user_column: Column | None = None,
        capacity: Fraction | None = None,
        change: Change = "shown",
        randomize: bool = False,
        alpha: Alpha = 0.05,
        unknown: Literal["present", "error"] = "present",
        random_state: Seeded = None,
    ) -> None:
        self.target: Equalized = target
        self.threshold = threshold
        self.score_column = score_column
        self.group_columns = group_columns
        self.user_column = user_column
        self.capacity = capacity
        self.change: Change = change
        self.randomize = randomize
        self.alpha = alpha
        self.unknown = unknown
        self.random_state = random_state

    def fit(self, X: object, y: object = None, sample_weight: object = None) -> GroupThresholds:
        """Find the thresholds.

        ``y``: outcomes, NaN where they are not known (for outcomes at the margin, below the present threshold); none
        for selection rates. ``sample_weight``: the people each row stands for; only their proportions matter.
        """
        check_parameters(self, self.get_params(deep=False))
        if not as_tuple(self.group_columns):
            raise UsageError("group_columns: none given; name the columns of X that say which group a row belongs to.")
        columns = self._read(X, reset=True)
        table: dict[str, object] = {"score": columns.numbers[:, 0], "group": columns.group}
        if columns.user is not None:
            table["user"] = columns.user
        if y is not None or self.target != "selection_rate":
            outcome = outcomes(np.asarray(required(self, y)).ravel())
            same_length(outcome, columns)
            table["outcome"] = outcome
        if sample_weight is not None:
            table["weight"] = np.asarray(sample_weight).ravel()
        source = open_source(table, weight=None if sample_weight is None else "weight")
        asked = plan_thresholds(
            source,
            outcome="outcome" if "outcome" in table else None,
            score="score",
            threshold=self.threshold,
            target=self.target,
            capacity=self.capacity,
            direction="both",
            change=self.change,
            randomize=self.randomize,
            level=None,
            bandwidth=None,
            alpha=self.alpha,
            resamples=0,
            groups="group",
            user="user" if columns.user is not None else None,
        )
        estimates = estimate_thresholds(tally_thresholds(source, asked), asked, np.random.default_rng(0))
        decisions = decide_thresholds(estimates, asked)
        place = [int(str(group.items[0][1])) for group in estimates.groups]
        self.groups_ = tuple(columns.keys[k] for k in place)
        self.thresholds_, self.lottery_ = estimates.thresholds, estimates.lottery
        self.probability_, self.status_ = estimates.probability, decisions.status
        self.pvalue_, self.target_ = estimates.pvalue, estimates.target
        return self

    def predict(self, X: object) -> IntArray:
        """1 for those who are selected, 0 for the others, from the score and group columns alone."""
        chance = self.predict_chance(X)
        drawn = (chance > 0) & (chance < 1)
        if drawn.any():
            chance = np.where(drawn, np.random.default_rng(self.random_state).random(chance.size) < chance, chance)
        return chance.astype(np.intp)

    def predict_chance(self, X: object) -> FloatArray:
        """The chance of being selected: 0 or 1, and between them in a lottery."""
        check_is_fitted(self)
        columns = self._read(X, reset=False)
        place = {key: k for k, key in enumerate(self.groups_)}
        unknown = [key for key in columns.keys if key not in place]
        if unknown and self.unknown == "error":
            raise UsageError(f"group_columns: {wording.undecided_groups(unknown)}")
        if unknown:
            warnings.warn(wording.present_groups(unknown), UserWarning, stacklevel=2)
        at = np.array([place.get(key, len(place)) for key in columns.keys])[columns.group]
        high, low = (np.append(values, self.threshold)[at] for values in (self.thresholds_, self.lottery_))
        score = columns.numbers[:, 0]
        return np.where(score >= high, 1.0, np.where(score >= low, np.append(self.probability_, 1.0)[at], 0.0))

    def _read(self, X: object, *, reset: bool) -> Columns:
        groups, user = as_tuple(self.group_columns), self.user_column if reset else None
        return read_columns(self, X, numbers=(self.score_column,), groups=groups, user=user, reset=reset)
