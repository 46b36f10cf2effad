"""What an algorithm is worth to a group: U = E[u | group] / E[w | group] (equation 1 of the paper).

A `Utility` is a function of (x, y, decision) that returns ``u`` and ``w``, one value a row, and what is known
about it: whether more of it is better, and whether decisions are 0/1 or a number (a price).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from isonomy.errors import DataError, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray

Columns = Mapping[str, FloatArray]
Values = Callable[[Columns, FloatArray, FloatArray], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class Utility:
    """A utility u and its normalisation w, as functions of (x, y, decision).

    Parameters
    ----------
    name
        The word used in tables and sentences.
    function
        ``function(x, y, decision) -> (u, w)``: ``x`` maps each feature's name to its values; ``y`` and
        ``decision`` are arrays; ``u`` and ``w`` are arrays of the same length or constants. ``w >= 0``.
    better
        ``"higher"`` or ``"lower"``. A utility that is better when lower may measure unfairness, never accuracy.
    binary
        Decisions are 0/1 (the default); False when a decision is a number, such as a price.
    binary_outcome
        The outcome must be 0/1.
    outcome
        The column to use as y; None means the outcome named in the call.
    instead
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
    better: str = "higher"
    binary: bool = True
    binary_outcome: bool = False
    outcome: str | None = None
    instead: str | None = None

    def __post_init__(self) -> None:
        if self.better not in ("higher", "lower"):
            raise UnknownOption(f"better of utility {self.name!r}", self.better, ("higher", "lower"))
        if not callable(self.function):
            raise UsageError(f"utility {self.name!r}: function must be callable as function(x, y, decision).")

    def on(self, outcome: str) -> Utility:
        """The same utility with another column as the outcome, such as cost in place of health."""
        return replace(self, name=f"{self.name} of {outcome}", outcome=outcome)

    def values(self, x: Columns, y: FloatArray, decision: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``u`` and ``w`` for every row, checked: finite, one value a row, w not negative."""
        try:
            returned = self.function(x, y, decision)
            u, w = (np.broadcast_to(np.asarray(part, dtype=float), y.shape) for part in returned)
        except Exception as error:
            raise DataError(
                f"utility {self.name!r} must return u and w, one number a row each: {type(error).__name__}: {error}"
            ) from error
        if not (np.isfinite(u).all() and np.isfinite(w).all()):
            raise DataError(f"utility {self.name!r} returned NaN or infinite values.")
        if (w < 0).any():
            raise DataError(f"utility {self.name!r} returned a negative w; it is a denominator and must be >= 0.")
        return u, w


def _accuracy(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return y == d, 1.0


def _tpr(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return y * d, y


def _tnr(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return (1 - y) * (1 - d), 1 - y


def _fpr(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return (1 - y) * d, 1 - y


def _selection_rate(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return d, 1.0


def _among_selected(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return y * d, d


def _among_unselected(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return y * (1 - d), 1 - d


def _profit(x: Columns, y: FloatArray, d: FloatArray) -> tuple[Any, Any]:
    return np.where(y >= d, d, 0.0), 1.0


READY: Mapping[str, Utility] = {
    utility.name: utility
    for utility in (
        Utility("accuracy", _accuracy, binary_outcome=True),  # Example 1, the classification rate
        Utility("outcome_among_selected", _among_selected),  # Example 2, calibration
        Utility("outcome_among_unselected", _among_unselected, better="lower", instead="outcome_among_selected"),
        Utility("tpr", _tpr, binary_outcome=True),
        Utility("tnr", _tnr, binary_outcome=True),
        Utility("fpr", _fpr, better="lower", binary_outcome=True, instead="tnr"),  # Example 3
        Utility("selection_rate", _selection_rate),
        Utility("profit", _profit, binary=False),  # Example 4: the decision is the price
    )
}

CRITERIA: Mapping[str, tuple[str, ...]] = {
    "equal_opportunity": ("tpr",),
    "predictive_equality": ("fpr",),
    "equalized_odds": ("tpr", "fpr"),
    "statistical_parity": ("selection_rate",),
}

UtilityLike = str | Utility | Mapping[str, str]


def utility(argument: str, given: UtilityLike) -> Utility:
    """One utility from its name, from ``{"utility": name, "outcome": column}``, or as it is."""
    if isinstance(given, Utility):
        return given
    if isinstance(given, Mapping):
        if set(given) - {"utility", "outcome"} or "utility" not in given:
            raise UsageError(f'{argument}: {dict(given)!r} is not allowed; give {{"utility", "outcome"}}.')
        named = utility(argument, given["utility"])
        return named.on(given["outcome"]) if given.get("outcome") else named
    if not isinstance(given, str) or given not in READY:
        raise UnknownOption(argument, given, (*READY, "a Utility"))
    return READY[given]


def accuracy_utility(given: UtilityLike) -> Utility:
    """The accuracy utility; one that is better when lower is refused with a pointer to its counterpart."""
    found = utility("accuracy", given)
    if found.better == "lower":
        pointer = f" Use {found.instead!r}." if found.instead else ""
        raise UsageError(f"accuracy: {found.name!r} is better when lower, and accuracy is something to raise.{pointer}")
    return found


def fairness_utilities(given: UtilityLike | Sequence[UtilityLike] | None, accuracy: Utility) -> tuple[Utility, ...]:
    """The fairness utilities: None means the accuracy utility; criteria such as equalized_odds are opened."""
    if given is None:
        return (accuracy,)
    listed: Sequence[UtilityLike] = [given] if isinstance(given, (str, Utility, Mapping)) else list(given)
    opened = [name for one in listed for name in (CRITERIA.get(one, (one,)) if isinstance(one, str) else (one,))]
    if not opened:
        raise UsageError("fairness: give at least one utility or criterion.")
    for one in opened:
        if isinstance(one, str) and one not in READY:
            raise UnknownOption("fairness", one, (*READY, *CRITERIA, "a Utility"))
    found = tuple(utility("fairness", one) for one in opened)
    if len({u.name for u in found}) < len(found):
        raise UsageError(f"fairness: {', '.join(u.name for u in found)} names the same utility twice.")
    return found
