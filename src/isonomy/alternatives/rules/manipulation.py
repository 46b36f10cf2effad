"""Can an analyst who re-runs the test until it rejects win? (section 5)

An analyst may repeat the whole procedure in secret and report the run that suits. Under the null, and with the best
number of re-runs for the analyst, how often does the test reject falsely: with one split (reject when p <= alpha), and
with the median of K (reject when it is at most alpha / 2)?

p-values of splits of one table are exchangeable. They are modelled as p = Phi(sqrt(r) Z + sqrt(1 - r) e), with one Z
for the table and one e for each split; r = 0 is the independent case of Proposition 1, in which re-running pays most.
Given Z splits are independent, so probabilities are one-dimensional integrals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from isonomy.alternatives.rules.rounds import level
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Alpha, Draws, Number, checked

_NODES = 401
Cost = float | Callable[[int], float]
Correlation = Annotated[float, Number(least=0, below=1, unit="1 itself excluded")]


@dataclass(frozen=True, slots=True)
class Game:
    """The analyst's best reply to a protocol, and what it does to the error rate."""

    splits: int
    alpha: float
    correlation: float
    reruns: int  # the analyst's best number of runs
    false_rejection: float  # probability of a false rejection at that number
    honest: float  # the same with one run
    payoff: float  # the analyst's


@checked
def splits_bound(alpha: Alpha = 0.05) -> int:
    """The smallest K above -2 ln(alpha) / (1 - alpha)^2 (Proposition 1).

    Parameters
    ----------
    alpha : float, default 0.05
        The error rate.

    Examples
    --------
    >>> splits_bound(0.05)
    7
    """
    return math.floor(-2 * math.log(alpha) / (1 - alpha) ** 2) + 1


@checked
def false_rejection(reruns: Draws, *, splits: Draws = 7, alpha: Alpha = 0.05, correlation: Correlation = 0.0) -> float:
    """Probability that at least one of ``reruns`` runs rejects a true null.

    With one split a run rejects when p <= alpha; with more when at least half of the p-values are at most alpha / 2.

    Parameters
    ----------
    reruns : int
        How often the analyst runs the whole test.
    splits : int, default 7
        Splits of one run.
    alpha : float, default 0.05
        The error rate.
    correlation : float, default 0
        Of the splits' p-values on the normal scale, 0 to below 1.

    Examples
    --------
    >>> round(false_rejection(1, splits=1), 6), round(false_rejection(10, splits=1), 4)
    (0.05, 0.4013)
    """
    weights, rejects = _run(splits, alpha, correlation)
    return _at_least_once(reruns, weights, rejects)


@checked
def manipulation(
    *,
    splits: Draws = 7,
    alpha: Alpha = 0.05,
    cost: Cost = 0.01,
    correlation: Correlation = 0.0,
    most: Draws = 10_000,
) -> Game:
    """The analyst's best number of re-runs, and the probability of a false rejection there.

    Parameters
    ----------
    splits : int, default 7
        Splits of one run.
    alpha : float, default 0.05
        The error rate.
    cost : float or callable, default 0.01
        Of one train-test split, in units of the analyst's gain from a rejection: a run costs ``cost * splits``. Or a
        function of the number of runs, increasing and convex.
    correlation : float, default 0
        Of the splits' p-values on the normal scale, 0 to below 1.
    most : int, default 10_000
        Runs are searched up to this number.

    Examples
    --------
    >>> one, seven = manipulation(splits=1, cost=0.005), manipulation(splits=7, cost=0.005)
    >>> one.reruns, round(one.false_rejection, 2), seven.reruns, seven.false_rejection < 0.05
    (45, 0.9, 1, True)
    """
    charge = cost if callable(cost) else (lambda m, each=float(cost): each * splits * m)
    weights, rejects = _run(splits, alpha, correlation)
    best, payoff = 1, -math.inf
    for m in range(1, most + 1):
        value = _at_least_once(m, weights, rejects) - float(charge(m))
        if value > payoff:  # ties go to the fewer runs, as in the paper
            best, payoff = m, value
        elif 1 - float(charge(m)) < payoff:  # even a sure rejection would not pay any more
            break
    chosen = _at_least_once(best, weights, rejects)
    return Game(splits, alpha, correlation, best, chosen, float(weights @ rejects), payoff)


@checked
def enough_splits(
    *, alpha: Alpha = 0.05, cost: Cost = 0.01, correlation: Correlation = 0.0, most: Draws = 1001
) -> Game:
    """How many splits are enough: the smallest odd K > 1 whose best-reply false rejection is at most alpha.

    Odd, because the smallest median of an even number needs only half of the p-values below the level. The parameters
    are those of `manipulation`; K is searched up to ``most``.

    Examples
    --------
    >>> enough_splits(alpha=0.05, cost=0.001).splits
    3
    """
    for splits in range(3, most + 1, 2):
        game = manipulation(splits=splits, alpha=alpha, cost=cost, correlation=correlation)
        if game.false_rejection <= alpha:
            return game
    raise UsageError(f"no K up to {most} holds false rejections at {alpha:g}: re-running costs too little.")


def _at_least_once(reruns: int, weights: FloatArray, rejects: FloatArray) -> float:
    return float(weights @ -np.expm1(reruns * np.log1p(-np.minimum(rejects, 1 - 1e-16))))


def _run(splits: int, alpha: float, correlation: float) -> tuple[FloatArray, FloatArray]:
    """Integration weights over Z and, at each node, the probability that one run rejects."""
    from scipy.special import bdtrc, ndtr, ndtri, roots_hermitenorm

    nodes, weights = roots_hermitenorm(_NODES) if correlation else (np.zeros(1), np.ones(1))
    below = ndtr((ndtri(level(alpha, splits)) - math.sqrt(correlation) * nodes) / math.sqrt(1 - correlation))
    needed = (splits + 1) // 2
    return weights / weights.sum(), np.asarray(bdtrc(needed - 1, splits, below))
