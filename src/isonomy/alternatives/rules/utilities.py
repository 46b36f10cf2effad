"""Utilities: what an algorithm is worth to a group. Criteria: what counts as accurate and as unfair.

The utility of a group is U = E[u | group] / E[w | group] (equation 1 of the paper).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.options import Scale
from isonomy.errors import DataError, UnknownOption, UsageError
from isonomy.frames import Group
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.options import check, shown

CANDIDATE, STATUS_QUO = 1, 0  # where each algorithm stands on an axis of both

Columns = Mapping[str, FloatArray]
Values = Callable[[Columns, FloatArray, FloatArray], tuple[ArrayLike, ArrayLike]]
Better = Literal["higher", "lower"]


@dataclass(frozen=True, slots=True)
class Utility:
    """A utility u and its normalization w, as functions of (x, y, decision).

    Parameters
    ----------
    name : str
        The word used in tables and sentences.
    function : callable
        ``function(x, y, decision) -> (u, w)``: ``x`` maps the name of each feature to its values; ``y`` and
        ``decision`` are arrays; ``u`` and ``w >= 0`` are arrays of the same length or constants.
    better : {"higher", "lower"}, default "higher"
        A utility that is better when lower can measure unfairness, but not accuracy.
    binary : bool, default True
        Whether decisions are 0/1; False if a decision is a number such as a price.
    binary_outcome : bool, default False
        Whether the outcome must be 0/1.
    outcome : str, optional
        The column used as y; by default the outcome of the call.
    instead : str, optional
        For a utility that is better when lower: the one to use for accuracy.

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
        """The same utility with another column as the outcome, such as cost instead of health."""
        return replace(self, name=f"{self.name} of {outcome}", outcome=outcome)

    def values(self, x: Columns, y: FloatArray, decision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``u`` and ``w`` for every row, checked: finite, one value per row, w not negative."""
        try:
            u, w = (np.broadcast_to(np.asarray(part, dtype=float), y.shape) for part in self.function(x, y, decision))
        except Exception as error:
            raise DataError(
                f"utility {self.name!r} must return u and w, one number per row each: {type(error).__name__}: {error}"
            ) from error
        if not (np.isfinite(u).all() and np.isfinite(w).all() and (w >= 0).all()):
            raise DataError(f"utility {self.name!r} must return finite numbers; w is a denominator, and at least 0.")
        if not self.ready:
            self._refuse_other_rows(x, y, decision, u, w)
        return u, w

    @property
    def ready(self) -> bool:
        """Whether it is one of `READY`, perhaps with another outcome."""
        return any(self.function is known.function for known in READY.values())

    def _refuse_other_rows(self, x: Columns, y: FloatArray, d: FloatArray, u: FloatArray, w: FloatArray) -> None:
        """Raise if a row's values depend on the other rows: the error of a mean inside would be left out."""
        some = slice(None, None, 2)
        half = self.function({name: values[some] for name, values in x.items()}, y[some], d[some])
        alone = [np.broadcast_to(np.asarray(part, dtype=float), y[some].shape) for part in half]
        if not all(np.allclose(part, whole[some], rtol=1e-9) for part, whole in zip(alone, (u, w), strict=True)):
            raise UsageError(
                f"utility {self.name!r}: the values of a row depend on the other rows, such as a mean computed inside "
                "it, whose error no test would count. Use a fixed number, or a ratio: return u and w, and the mean of "
                "w is estimated with its error."
            )


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
        # Example 4: the decision is a price, paid by those who value the product at least that much.
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
Weights = Literal["pooled"] | Mapping[str, float]  # of the groups in a single accuracy; "pooled": all rows together


def utility(argument: str, given: object, criteria: Iterable[str] = ()) -> Utility:
    """A utility by its name, as ``{"utility": name, "outcome": column}``, or as an object."""
    if isinstance(given, Utility):
        return given
    if isinstance(given, Mapping):
        if set(given) - {"utility", "outcome"} or "utility" not in given:
            raise UsageError(f'{argument}: {dict(given)!r} is not allowed; give {{"utility", "outcome"}}.')
        named = utility(argument, given["utility"])
        return named.on(str(given["outcome"])) if given.get("outcome") else named
    if not isinstance(given, str) or given not in READY:
        raise UnknownOption(argument, given, (*READY, *criteria, "a Utility"))
    return READY[given]


def accuracy_utility(given: UtilityLike) -> tuple[Utility, Weights | None]:
    """The accuracy utility, and the weights of the groups in it (None: every group must gain)."""
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
        raise UsageError(f"accuracy: {wanted.name!r} is better when lower, so it cannot measure accuracy.{pointer}")
    return wanted, weights  # type: ignore[return-value]


def fairness_utilities(given: UtilityLike | Sequence[UtilityLike] | None, accuracy: Utility) -> tuple[Utility, ...]:
    """The fairness utilities, by default the accuracy utility; criteria such as equalized_odds stand for several."""
    if given is None:
        return (accuracy,)
    listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    opened = [part for item in listed for part in (CRITERIA.get(item, (item,)) if isinstance(item, str) else (item,))]
    utilities = tuple(utility("fairness", item, CRITERIA) for item in opened)
    names = {u.name for u in utilities}
    if not names or len(names) < len(utilities):
        raise UsageError(f"fairness: {shown(given)} is not allowed; give one or more different utilities or criteria.")
    return utilities


def by_group(argument: str, groups: Sequence[Group], given: Mapping[str, float]) -> FloatArray:
    numbers = np.full(len(groups), np.nan)
    for key, value in given.items():
        numbers[group_code(argument, groups, key)] = value
    absent = [group.label for group, value in zip(groups, numbers, strict=True) if np.isnan(value)]
    if absent:
        raise UsageError(f"{argument}: nothing given for {', '.join(absent)}; give a number for every group.")
    return numbers


def group_code(argument: str, groups: Sequence[Group], given: object) -> int:
    """The group with this label, this value, or this ``{column: value}``."""
    for code, group in enumerate(groups):
        values = tuple(group.mapping.values())
        if isinstance(given, Mapping):
            if {k: str(v) for k, v in given.items()} == {k: str(v) for k, v in group.mapping.items()}:
                return code
        elif str(given) == group.label or (len(values) == 1 and str(given) == str(values[0])):
            return code
    raise UnknownOption(argument, given, [group.label for group in groups])


# ---- criteria


@dataclass(frozen=True, slots=True, eq=False)
class Criteria:
    """What counts as accurate and as unfair, which gains are required, and how scores become decisions.

    ``weights`` is None (every group must gain), an array with one weight per group, or "pooled" (all rows together).
    ``protected`` is the code of the group that one-sided unfairness protects, or None if it is two-sided; ``harm`` is
    +1 for each fairness utility whose lower values harm the protected group, and -1 for the others.
    The highest scores are selected up to the ``capacity``, or those above the ``threshold``.
    """

    accuracy: Utility
    fairness: tuple[Utility, ...]
    labels: tuple[str, ...]
    weights: FloatArray | Literal["pooled"] | None = None
    scale: Scale = "ratio"
    protected: int | None = None
    harm: tuple[int, ...] = ()
    accuracy_gains: tuple[float, ...] = ()  # the gain required of each accuracy, the margin subtracted
    fairness_gains: tuple[float, ...] = ()  # the cut required of each unfairness
    capacity: float | None = None
    threshold: float | None = None

    @property
    def utilities(self) -> tuple[Utility, ...]:
        return tuple(dict.fromkeys((self.accuracy, *self.fairness)))

    @property
    def priced(self) -> bool:
        """Whether decisions are numbers such as prices, and not 0/1."""
        return not all(utility.binary for utility in self.utilities)

    @property
    def scored(self) -> bool:
        return self.capacity is not None or self.threshold is not None

    @property
    def accuracies(self) -> tuple[str, ...]:
        if self.weights is None:
            return self.labels
        return ("all rows",) if isinstance(self.weights, str) else ("weighted groups",)

    @property
    def protected_label(self) -> str:
        return "" if self.protected is None else self.labels[self.protected]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        codes = range(len(self.labels))
        if self.protected is None:
            return tuple(combinations(codes, 2))
        return tuple((other, self.protected) for other in codes if other != self.protected)

    def accuracy_of(self, rates: FloatArray, sums: FloatArray) -> FloatArray:
        """The accuracies of both algorithms: (..., 2, accuracies)."""
        if isinstance(self.weights, str):
            return rates_of(sums[..., 0, :, :, :].sum(axis=-1, keepdims=True))
        by_group: FloatArray = rates[..., 0, :, :]
        return by_group if self.weights is None else (by_group @ self.weights)[..., None]

    def gaps(self, rates: FloatArray) -> FloatArray:
        """Gaps (..., fairness utilities, 2 algorithms, pairs); positive: a protected group's disadvantage."""
        by_group = rates[..., [self.utilities.index(utility) for utility in self.fairness], :, :]
        first, second = np.array(self.pairs).T
        gap: FloatArray = by_group[..., first] - by_group[..., second]
        return gap if self.protected is None else np.array(self.harm)[:, None, None] * gap

    def unfairness(self, gap: FloatArray) -> FloatArray:
        """|gap|, or its positive part if a group is protected."""
        return np.abs(gap) if self.protected is None else np.maximum(gap, 0.0)

    def measured(self, sums: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The accuracies and the largest unfairness in each fairness utility, of both algorithms: (components, 2)."""
        rates = rates_of(sums)
        return self.accuracy_of(rates, sums).T, self.unfairness(self.gaps(rates)).max(axis=-1)


def group_sums(values: FloatArray, group: IntArray, weight: FloatArray | IntArray, n_groups: int) -> FloatArray:
    """Sums of u and w by group: (utilities, algorithms, 2, groups)."""
    flat = values.reshape(len(values), -1) * weight[:, None]
    sums = np.zeros((n_groups, flat.shape[1]))
    np.add.at(sums, group, flat)
    return sums.T.reshape(*values.shape[1:], n_groups)


def rates_of(sums: FloatArray) -> FloatArray:
    """U = sum of u / sum of w, NaN if the denominator is 0: (..., utilities, algorithms, groups)."""
    u, w = sums[..., 0, :], sums[..., 1, :]
    return np.divide(u, w, out=np.full(np.shape(u), np.nan), where=w > 0)
