"""Can an analyst who re-runs the test until it rejects win? (section 5)

An analyst may repeat the whole procedure in secret and report the run that suits. Under the null, and with the number
of re-runs that is best for the analyst, how often does the test reject falsely: with one split (reject if p <= alpha),
and with the median of K (reject if it is at most alpha / 2)?

The p-values of splits of one table are exchangeable. They are modeled as p = Phi(sqrt(r) Z + sqrt(1 - r) e), with one Z
for the table and one e for each split; r = 0 is the independent case of Proposition 1, in which re-running pays most.
Given Z, splits are independent, so probabilities are one-dimensional integrals. The probability that a run rejects
falls from 1 to 0 as Z grows, in a step that narrows to nothing as r tends to 1: only the step is integrated
numerically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from scipy.special import betainc, betaincinv, ndtr, ndtri

from isonomy.alternatives.rules.comparison import level
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.options import Alpha, Draws, Number, checked

_PANELS, _NODES = 32, 16  # Gauss-Legendre panels over the step, and nodes in each: relative error below 1e-10
_TAIL = 1e-60  # the step ends where the probability that a run rejects is this close to 0 or 1
_FAR = 16.0  # |Z| beyond which the normal law has no more mass than that
Cost = float | Callable[[int], float]
Correlation = Annotated[float, Number(least=0, most=1)]


@dataclass(frozen=True, slots=True)
class Game:
    """The analyst's best reply to a protocol, and the error rate that results."""

    splits: int
    alpha: float
    correlation: float
    reruns: int  # the analyst's best number of runs
    false_rejection: float  # probability of a false rejection at that number
    honest: float  # the same with one run
    payoff: float  # the analyst's

    @property
    def policymaker(self) -> float:
        """The policymaker's payoff: the probability that the null, which holds, is not rejected."""
        return 1.0 - self.false_rejection


@dataclass(frozen=True, slots=True)
class Protocols:
    """The policymaker's choice between one split and the median of several (section 5)."""

    single: Game
    repeated: Game
    reruns_pay: bool  # Assumption 4: a second run of a single split is worth more than it costs
    limit: float  # the false rejections of the median of ever more splits, however often it is run (Theorem 3)

    @property
    def chosen(self) -> str:
        """The protocol that is more robust to manipulation (Definition 5): "single", "repeated", or "either"."""
        first, second = self.single.policymaker, self.repeated.policymaker
        return "either" if first == second else "repeated" if second > first else "single"


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
        Correlation of the splits' p-values on the normal scale, from 0 to 1.

    Examples
    --------
    >>> round(false_rejection(1, splits=1), 6), round(false_rejection(10, splits=1), 4)
    (0.05, 0.4013)
    """
    return _at_least_once(reruns, *_run(splits, alpha, correlation))


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
        The cost of one train-test split, in units of the analyst's gain from a rejection: a run costs ``cost *
        splits``. Or an increasing, convex function of the number of runs.
    correlation : float, default 0
        Correlation of the splits' p-values on the normal scale, from 0 to 1.
    most : int, default 10_000
        The largest number of runs considered.

    Examples
    --------
    >>> one, seven = manipulation(splits=1, cost=0.005), manipulation(splits=7, cost=0.005)
    >>> one.reruns, round(one.false_rejection, 2), seven.reruns, seven.false_rejection < 0.05
    (45, 0.9, 1, True)
    """
    charge = cost if callable(cost) else (lambda m, price=float(cost): price * splits * m)
    run = _run(splits, alpha, correlation)
    best, payoff, rejects = 1, -math.inf, 0.0
    for m in range(1, most + 1):
        rejected, price = _at_least_once(m, *run), float(charge(m))
        if rejected - price > payoff:  # ties go to the fewer runs, as in the paper
            best, payoff, rejects = m, rejected - price, rejected
        elif 1 - price < payoff:  # even a certain rejection would no longer pay
            break
    return Game(splits, alpha, correlation, best, rejects, _at_least_once(1, *run), payoff)


@checked
def compare_protocols(
    *, splits: Draws = 7, alpha: Alpha = 0.05, cost: Cost = 0.01, correlation: Correlation = 0.0, most: Draws = 10_000
) -> Protocols:
    """Which protocol should a policymaker choose: one split, or the median of several?

    The parameters are those of `manipulation`. A callable cost is that of so many runs of a single split; a run of the
    repeated protocol costs ``splits`` times as much.

    Examples
    --------
    >>> game = compare_protocols(splits=7, cost=0.005)
    >>> game.chosen, game.reruns_pay, round(game.single.policymaker, 2), game.repeated.policymaker > 0.95
    ('repeated', True, 0.1, True)
    """
    charge = cost if callable(cost) else (lambda m, price=float(cost): price * m)
    options: dict[str, Any] = {"alpha": alpha, "correlation": correlation, "most": most}
    single = manipulation(splits=1, cost=charge, **options)
    repeated = manipulation(splits=splits, cost=lambda m: splits * float(charge(m)), **options)
    run = _run(1, alpha, correlation)
    second = _at_least_once(2, *run) - _at_least_once(1, *run)
    limit = float(ndtr(ndtri(alpha / 2) / math.sqrt(correlation))) if correlation else 0.0
    return Protocols(single, repeated, second > float(charge(2)) - float(charge(1)), limit)


@checked
def enough_splits(
    *, alpha: Alpha = 0.05, cost: Cost = 0.01, correlation: Correlation = 0.0, most: Draws = 1001
) -> Game:
    """How many splits are enough: the smallest odd K > 1 at which the analyst's best reply rejects at most alpha.

    K is odd because the smallest median of an even number needs only half of the p-values below the level. The
    parameters are those of `manipulation`; K is searched up to ``most``.

    Examples
    --------
    >>> enough_splits(alpha=0.05, cost=0.001).splits
    3
    """
    for splits in range(3, most + 1, 2):
        game = manipulation(splits=splits, alpha=alpha, cost=cost, correlation=correlation)
        if game.false_rejection <= alpha:
            return game
    raise UsageError(f"no K up to {most} keeps false rejections at {alpha:g}: re-running costs too little.")


def _at_least_once(reruns: int, weights: FloatArray, spared: FloatArray) -> float:
    return float(weights @ -np.expm1(reruns * spared))


def _run(splits: int, alpha: float, correlation: float) -> tuple[FloatArray, FloatArray]:
    """Integration weights over Z and, at each node, the logarithm of the probability that one run does not reject."""
    needed, cut = (splits + 1) // 2, float(ndtri(level(alpha, splits)))
    if correlation == 0:
        return np.ones(1), _spared(splits, needed, np.array([cut]))
    if correlation == 1:  # every split has the same p-value
        return np.array([level(alpha, splits)]), np.array([-np.inf])
    # One p-value is below the level with probability Phi(t), t = (cut - sqrt(r) Z) / sqrt(1 - r).
    shared, single = math.sqrt(correlation), math.sqrt(1 - correlation)
    never = float(ndtri(betaincinv(needed, splits - needed + 1, _TAIL)))
    always = -float(ndtri(betaincinv(splits - needed + 1, needed, _TAIL)))
    low, high = (min(max((cut - single * t) / shared, -_FAR), _FAR) for t in (always, never))
    places, shares = np.polynomial.legendre.leggauss(_NODES)
    edges = np.linspace(low, high, _PANELS + 1)
    half = (high - low) / (2 * _PANELS)
    z = ((edges[:-1] + edges[1:]) / 2 + half * places[:, None]).ravel()
    weights = np.repeat(half * shares, _PANELS) * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    spared = _spared(splits, needed, (cut - shared * z) / single)
    # Below the step every run rejects.
    return np.append(weights, ndtr(low)), np.append(spared, -np.inf)


def _spared(splits: int, needed: int, t: FloatArray) -> FloatArray:
    """log P(fewer than ``needed`` of ``splits`` p-values are below the level), each with probability Phi(t)."""
    rejects, holds = betainc(needed, splits - needed + 1, ndtr(t)), betainc(splits - needed + 1, needed, ndtr(-t))
    return np.where(rejects < 0.5, np.log1p(-np.minimum(rejects, 0.5)), np.log(np.maximum(holds, 1e-300)))
