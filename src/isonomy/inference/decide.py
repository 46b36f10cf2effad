"""The one rule that turns p-values and intervals into verdicts, for every test.

*Violation*: the p-value, adjusted for the other tests, is at most alpha. *Within tolerance*: the whole interval lies
inside the tolerance, or the p-value of "at least as large as the tolerance" is at most alpha. Anything else is
*inconclusive*: a large p-value shows nothing. A violation takes precedence.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from isonomy.inference import multiplicity
from isonomy.numerics.arrays import BoolArray, FloatArray

Alternative = Literal["two-sided", "greater", "less"]


class Verdict(StrEnum):
    """What was shown."""

    VIOLATION = "violation"
    WITHIN_TOLERANCE = "within_tolerance"
    INCONCLUSIVE = "inconclusive"


class Decisions(NamedTuple):
    """Adjusted p-values (NaN: not tested), the verdict on each hypothesis, and the overall verdict."""

    adjusted: FloatArray
    verdicts: tuple[Verdict, ...]
    verdict: Verdict


def conclude(
    pvalue: npt.ArrayLike,
    *,
    alpha: float,
    adjust: str = "none",
    same: npt.ArrayLike | None = None,
    within: npt.ArrayLike | None = None,
    within_pvalue: npt.ArrayLike | None = None,
    concerned: npt.ArrayLike | None = None,
) -> Decisions:
    """Adjust p-values for multiplicity, and conclude.

    ``pvalue`` is NaN for a hypothesis that was not tested; ``adjust`` and ``same`` are as in
    `isonomy.inference.multiplicity.adjust`. ``within`` says which effects were shown to lie within the tolerance (None:
    there is none); instead, ``within_pvalue`` are p-values of "at least as large as the tolerance", adjusted in the
    same way. ``concerned`` are the hypotheses that count in the overall verdict: the reference itself does not.

    Examples
    --------
    >>> decisions = conclude([0.01, 0.5, float("nan")], alpha=0.05, adjust="holm", within=[False, True, False])
    >>> [verdict.value for verdict in decisions.verdicts], decisions.verdict.value
    (['violation', 'within_tolerance', 'inconclusive'], 'violation')
    """
    adjusted = multiplicity.adjust(pvalue, adjust, same)
    if within_pvalue is not None:
        within = rejected(multiplicity.adjust(within_pvalue, adjust, same), alpha)
    verdicts = settle(adjusted, alpha, within)
    if Verdict.VIOLATION in verdicts or concerned is None:
        return Decisions(adjusted, verdicts, overall(verdicts))
    counted = np.flatnonzero(np.asarray(concerned, dtype=bool))
    return Decisions(adjusted, verdicts, overall([verdicts[i] for i in counted]))


def rejected(pvalue: npt.ArrayLike, alpha: float) -> BoolArray:
    """Which hypotheses are rejected: p at most alpha. A hypothesis without a p-value is not.

    >>> rejected([0.05, 0.051, float("nan")], 0.05)
    array([ True, False, False])
    """
    return np.asarray(pvalue, dtype=float) <= alpha


def settle(adjusted: npt.ArrayLike, alpha: float, within: npt.ArrayLike | None = None) -> tuple[Verdict, ...]:
    """The verdict for each adjusted p-value; ``within``: whether the tolerance was shown to hold."""
    pvalues = np.atleast_1d(np.asarray(adjusted, dtype=float))
    shown = np.zeros(pvalues.shape, dtype=bool) if within is None else np.atleast_1d(np.asarray(within, dtype=bool))
    kinds = np.where(pvalues <= alpha, 0, np.where(shown, 1, 2))
    return tuple(map((Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE).__getitem__, kinds))


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """A violation if there is any; within tolerance if there are verdicts and all of them are; else inconclusive."""
    if Verdict.VIOLATION in verdicts:
        return Verdict.VIOLATION
    tolerated = bool(verdicts) and all(verdict is Verdict.WITHIN_TOLERANCE for verdict in verdicts)
    return Verdict.WITHIN_TOLERANCE if tolerated else Verdict.INCONCLUSIVE


def inside(
    low: npt.ArrayLike, high: npt.ArrayLike, tolerance: float | None, alternative: Alternative = "two-sided"
) -> BoolArray:
    """Which intervals lie inside the tolerance; an unknown interval (NaN) does not.

    A one-sided alternative limits one end only: *greater* the upper end, *less* the lower.

    >>> inside([-0.01, -0.2, float("nan")], [0.02, 0.02, 0.02], 0.05)
    array([ True, False, False])
    """
    lower, upper = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    if tolerance is None:
        return np.zeros(lower.shape, dtype=bool)
    known = ~(np.isnan(lower) | np.isnan(upper))
    above = (upper <= tolerance) | (alternative == "less")
    below = (lower >= -tolerance) | (alternative == "greater")
    result: BoolArray = known & above & below
    return result


def answered(verdict: Verdict, pvalues: npt.ArrayLike) -> bool:
    """Whether anything was tested: a missing p-value is not a large p-value."""
    return verdict is not Verdict.INCONCLUSIVE or not bool(np.isnan(np.asarray(pvalues, dtype=float)).all())
