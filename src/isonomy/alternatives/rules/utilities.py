"""Utilities: what an algorithm is worth to a group. Criteria: what counts as accurate and as unfair.

A utility is U = E[u | group] / E[w | group] (equation 1 of the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isonomy.alternatives.options import Scale
from isonomy.errors import DataError, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import check, shown

CANDIDATE, STATUS_QUO = 1, 0  # where each algorithm stands on an axis of both

Columns = Mapping[str, FloatArray]
Values = Callable[[Columns, FloatArray, FloatArray], tuple[ArrayLike, ArrayLike]]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Utility:
    """A utility u and its normalisation w, as functions of (x, y, decision).

    Parameters
    ----------
    name : str
        The word used in tables and sentences.
    function : callable
        ``function(x, y, decision) -> (u, w)``: ``x`` maps the name of each feature to its values; ``y`` and
        ``decision`` are arrays; ``u`` and ``w`` are arrays of the same length or constants. ``w >= 0``.
    better : {"higher", "lower"}, default "higher"
        A utility that is better when lower may measure unfairness, never accuracy.
    binary : bool, default True
        Decisions are 0/1; False when a decision is a number, such as a price.
    binary_outcome : bool, default False
        The outcome must be 0/1.
    outcome : str, optional
        The column to use as y; None means the outcome named in the call.
    instead : str, optional
        The utility to use for accuracy when this one is better when lower.

    Examples
    --------
    >>> import numpy as np
    >>> net = Utility("net_benefit", lambda x, y, d: (d * (y - 0.2), 1.0))
    >>> u, w = net.values({}, np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0]))
    >>> u.tolist(), w.tolist()
    ([0.8, -0.2, 0.0], [1.0, 1.0, 1.0])
    """

    name: str
    function: Values
    better: Better = "higher"
    binary: bool = True
    binary_outcome: bool = False
    outcome: str | None = None
    instead: str | None = None

    def __post_init__(self) -> None:
        check("name", self.name, str)
        check(f"better of utility {self.name!r}", self.better, Better)
        if not callable(self.function):
            raise UsageError(f"utility {self.name!r}: function must be callable as function(x, y, decision).")

    def on(self, outcome: str) -> Utility:
        """The same utility with another column as the outcome, such as cost in place of health."""
        return replace(self, name=f"{self.name} of {outcome}", outcome=outcome)

    def values(self, x: Columns, y: FloatArray, decision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``u`` and ``w`` for every row, checked: finite, one value per row, w not negative."""
        try:
            u, w = (np.broadcast_to(np.asarray(part, dtype=float), y.shape) for part in self.function(x, y, decision))
        except Exception as error:
            raise DataError(
                f"utility {self.name!r} must return u and w, one number per row each: {type(error).__name__}: {error}"
            ) from error
        if not (np.isfinite(u).all() and np.isfinite(w).all()):
            raise DataError(f"utility {self.name!r} returned NaN or infinite values.")
        if (w < 0).any():
            raise DataError(f"utility {self.name!r} returned a negative w; it is a denominator and must be >= 0.")
        return u, w


READY: Mapping[str, Utility] = {
    utility.name: utility
    for utility in (
        Utility("accuracy", lambda x, y, d: (y == d, 1.0), binary_outcome=True),  # Example 1, the classification rate
        Utility("outcome_among_selected", lambda x, y, d: (y * d, d)),  # Example 2, calibration
        Utility(
            "outcome_among_unselected",
            lambda x, y, d: (y * (1 - d), 1 - d),
            better="lower",
            instead="outcome_among_selected",
        ),
        Utility("tpr", lambda x, y, d: (y * d, y), binary_outcome=True),
        Utility("tnr", lambda x, y, d: ((1 - y) * (1 - d), 1 - y), binary_outcome=True),
        Utility(  # Example 3
            "fpr", lambda x, y, d: ((1 - y) * d, 1 - y), better="lower", binary_outcome=True, instead="tnr"
        ),
        Utility("selection_rate", lambda x, y, d: (d, 1.0)),
        # Example 4: the decision is the price, paid by those to whom the thing is worth as much.
        Utility("profit", lambda x, y, d: (np.where(y >= d, d, 0.0), 1.0), binary=False),
    )
}

CRITERIA: Mapping[str, tuple[str, ...]] = {
    "equal_opportunity": ("tpr",),
    "predictive_equality": ("fpr",),
    "equalized_odds": ("tpr", "fpr"),
    "statistical_parity": ("selection_rate",),
}

UtilityLike = str | Utility | Mapping[str, object]
Weights = Literal["pooled"] | Mapping[str, float]  # of the groups in one accuracy; pooled: all rows together


def utility(argument: str, given: object) -> Utility:
    """One utility from its name, from ``{"utility": name, "outcome": column}``, or as it is."""
    if isinstance(given, Utility):
        return given
    if isinstance(given, Mapping):
        if set(given) - {"utility", "outcome"} or "utility" not in given:
            raise UsageError(f'{argument}: {dict(given)!r} is not allowed; give {{"utility", "outcome"}}.')
        named = utility(argument, given["utility"])
        return named.on(str(given["outcome"])) if given.get("outcome") else named
    if not isinstance(given, str) or given not in READY:
        raise UnknownOption(argument, given, (*READY, "a Utility"))
    return READY[given]


def accuracy_utility(given: UtilityLike) -> tuple[Utility, Weights | None]:
    """The accuracy utility and the weights of groups in it, None where every group must gain.

    A utility that is better when lower is refused with a pointer to its counterpart.
    """
    weights: object = None
    if isinstance(given, Mapping):
        weights = given.get("weights")
        given = {name: value for name, value in given.items() if name != "weights"}
        check("weights of accuracy", weights, Literal["pooled"] | Mapping[str, float] | None)
        if isinstance(weights, Mapping) and any(weight <= 0 for weight in weights.values()):
            raise UsageError(f"accuracy: weights {dict(weights)!r} are not allowed; give weights above 0.")
    wanted = utility("accuracy", given)
    if wanted.better == "lower":
        pointer = f" Use {wanted.instead!r}." if wanted.instead else ""
        raise UsageError(
            f"accuracy: {wanted.name!r} is better when lower, and accuracy is something to raise.{pointer}"
        )
    return wanted, weights  # type: ignore[return-value]


def fairness_utilities(given: UtilityLike | Sequence[UtilityLike] | None, accuracy: Utility) -> tuple[Utility, ...]:
    """The fairness utilities: None means the accuracy utility; criteria such as equalized_odds are opened."""
    if given is None:
        return (accuracy,)
    if not isinstance(given, (str, Utility, Mapping, Sequence)):
        raise UsageError(f"fairness: {shown(given)} is not allowed; give a utility or a criterion, or a list of them.")
    listed: Sequence[UtilityLike] = [given] if isinstance(given, (str, Utility, Mapping)) else list(given)
    opened = [name for one in listed for name in (CRITERIA.get(one, (one,)) if isinstance(one, str) else (one,))]
    if not opened:
        raise UsageError("fairness: give at least one utility or criterion.")
    for one in opened:
        if isinstance(one, str) and one not in READY:
            raise UnknownOption("fairness", one, (*READY, *CRITERIA, "a Utility"))
    utilities = tuple(utility("fairness", one) for one in opened)
    if len({u.name for u in utilities}) < len(utilities):
        raise UsageError(f"fairness: {', '.join(u.name for u in utilities)} names the same utility twice.")
    return utilities


# ---- criteria


@dataclass(frozen=True, slots=True, eq=False)
class Criteria:
    """What counts as accurate and as unfair, and what gains are required.

    ``weights`` is None (every group must gain), an array with one weight per group, or "pooled" (all rows together).
    ``protected`` is the code of the group that one-sided unfairness protects, None for two-sided.
    ``harm`` is, for each fairness utility, +1 where the protected group is harmed by having less of it, else -1.
    The gains are those required of each accuracy component and of each fairness utility.
    """

    accuracy: Utility
    fairness: tuple[Utility, ...]
    labels: tuple[str, ...]
    weights: FloatArray | Literal["pooled"] | None = None
    scale: Scale = "ratio"
    protected: int | None = None
    harm: tuple[int, ...] = ()
    accuracy_gains: tuple[float, ...] = ()
    fairness_gains: tuple[float, ...] = ()

    @property
    def utilities(self) -> tuple[Utility, ...]:
        """The distinct utilities, accuracy first."""
        return tuple(dict.fromkeys((self.accuracy, *self.fairness)))

    @property
    def priced(self) -> bool:
        """Whether decisions are numbers (prices), not 0/1."""
        return not all(utility.binary for utility in self.utilities)

    @property
    def accuracies(self) -> tuple[str, ...]:
        """What the accuracy components are called."""
        if self.weights is None:
            return self.labels
        return ("all rows",) if isinstance(self.weights, str) else ("weighted groups",)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """Pairs of groups whose utilities are compared."""
        codes = range(len(self.labels))
        if self.protected is None:
            return tuple(combinations(codes, 2))
        return tuple((other, self.protected) for other in codes if other != self.protected)

    def accuracy_of(self, rates: FloatArray, sums: FloatArray) -> FloatArray:
        """Accuracy components of both algorithms: (..., 2, components)."""
        if isinstance(self.weights, str):
            pooled = sums[..., 0, :, :, :].sum(axis=-1, keepdims=True)
            return rates_of(pooled)
        by_group: FloatArray = rates[..., 0, :, :]
        return by_group if self.weights is None else (by_group @ self.weights)[..., None]

    def gaps(self, rates: FloatArray, utility: int) -> FloatArray:
        """Gap between the groups of each pair, for both algorithms: (..., 2, pairs).

        One-sided, a positive gap is the protected group's disadvantage.
        """
        by_group = rates[..., self.utilities.index(self.fairness[utility]), :, :]
        first, second = np.array(self.pairs).T
        gap: FloatArray = by_group[..., first] - by_group[..., second]
        return gap if self.protected is None else self.harm[utility] * gap

    def unfairness(self, gap: FloatArray) -> FloatArray:
        """|gap|, or its positive part when one group is protected."""
        return np.abs(gap) if self.protected is None else np.maximum(gap, 0.0)


def group_sums(
    values: FloatArray, group: IntArray, weight: NDArray[np.int64] | FloatArray, n_groups: int
) -> FloatArray:
    """Sums of u and w by group: (utilities, algorithms, 2, groups)."""
    flat = values.reshape(len(values), -1) * weight[:, None]
    sums = np.zeros((n_groups, flat.shape[1]))
    np.add.at(sums, group, flat)
    return sums.T.reshape(*values.shape[1:], n_groups)


def rates_of(sums: FloatArray) -> FloatArray:
    """U = sum of u / sum of w, NaN where nothing is in the denominator: (..., utilities, algorithms, groups)."""
    u, w = sums[..., 0, :], sums[..., 1, :]
    return np.divide(u, w, out=np.full(np.shape(u), np.nan), where=w > 0)
