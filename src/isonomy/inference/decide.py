"""The one rule that turns p-values and intervals into verdicts, for every test.

*Violation*: the p-value, adjusted for everything else that was tested, is at most alpha. *Within tolerance*: the other
way round was shown, that the whole interval lies inside the tolerance or that the p-value of "at least as large as the
tolerance" is at most alpha. Anything else is *inconclusive*: a large p-value shows nothing. A violation outranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import numpy as np
import numpy.typing as npt

from isonomy.inference import multiplicity
from isonomy.numerics.arrays import BoolArray, FloatArray

Alternative = Literal["two-sided", "greater", "less"]


class Verdict(StrEnum):
    """What was shown. A large p-value shows nothing: it is inconclusive."""

    VIOLATION = "violation"
    WITHIN_TOLERANCE = "within_tolerance"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """The verdict on each hypothesis, and on all of them together; NaN for a hypothesis that was not tested."""

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
    """Adjust p-values for one another, and conclude.

    Parameters
    ----------
    pvalue : array_like
        One per hypothesis; NaN for one that was not tested.
    alpha : float
        The error rate.
    adjust : str, default "none"
        A method of `isonomy.inference.multiplicity.adjust`; "none" for p-values that are adjusted already.
    same : array_like, optional
        A label for each p-value, as in `isonomy.inference.multiplicity.adjust`: equal labels are one hypothesis.
    within : array_like of bool, optional
        Which hypotheses were shown to lie within the tolerance; None where there is no tolerance.
    within_pvalue : array_like, optional
        In place of ``within``: p-values of "at least as large as the tolerance", adjusted in the same way.
    concerned : array_like of bool, optional
        Which hypotheses count in the overall verdict; all, unless one is the reference itself.

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
    counted = np.ones(len(verdicts), dtype=bool) if concerned is None else np.asarray(concerned, dtype=bool)
    violated = Verdict.VIOLATION in verdicts
    return Decisions(
        adjusted,
        verdicts,
        Verdict.VIOLATION if violated else overall([v for v, c in zip(verdicts, counted, strict=True) if c]),
    )


def rejected(pvalue: npt.ArrayLike, alpha: float) -> BoolArray:
    """Which hypotheses are rejected: p at most alpha. A hypothesis without a p-value is not.

    >>> rejected([0.05, 0.051, float("nan")], 0.05)
    array([ True, False, False])
    """
    return np.asarray(pvalue, dtype=float) <= alpha


def settle(adjusted: npt.ArrayLike, alpha: float, within: npt.ArrayLike | None = None) -> tuple[Verdict, ...]:
    """The verdict that follows from each adjusted p-value, and from whether the tolerance was shown to hold."""
    pvalues = np.atleast_1d(np.asarray(adjusted, dtype=float))
    shown = np.zeros(pvalues.shape, dtype=bool) if within is None else np.atleast_1d(np.asarray(within, dtype=bool))
    kinds = np.where(rejected(pvalues, alpha), 0, np.where(shown, 1, 2))
    names = (Verdict.VIOLATION, Verdict.WITHIN_TOLERANCE, Verdict.INCONCLUSIVE)
    return tuple(names[kind] for kind in kinds)


def overall(verdicts: Sequence[Verdict]) -> Verdict:
    """A violation anywhere is one; within tolerance only if everything was shown to be, and there was something."""
    if Verdict.VIOLATION in verdicts:
        return Verdict.VIOLATION
    every = bool(verdicts) and all(verdict is Verdict.WITHIN_TOLERANCE for verdict in verdicts)
    return Verdict.WITHIN_TOLERANCE if every else Verdict.INCONCLUSIVE


def inside(
    low: npt.ArrayLike, high: npt.ArrayLike, tolerance: float | None, alternative: Alternative = "two-sided"
) -> BoolArray:
    """Which intervals lie inside the tolerance; an interval that could not be had (NaN) lies inside nothing.

    A one-sided alternative asks about one side only: *greater* about the upper end, *less* about the lower.

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
    """Whether anything was tested: no p-value at all is not a large p-value."""
    return verdict is not Verdict.INCONCLUSIVE or not bool(np.isnan(np.asarray(pvalues, dtype=float)).all())
