"""How much to subtract from a group's predictions: the correction of each strategy, and its risk.

The paper's corrected prediction is f - gamma B (equation 33), where B is the detected error of the row's group. What
remains of a true error b is b - gamma B. No factor is best for every b: `risk_of` gives the mean squared remainder of
each as a function of b / sd.

Other strategies use all groups together: the errors of the other groups show where a group's error is likely to lie,
so errors are shrunk toward their common mean. Shrinking toward 0 instead creates a bias wherever all groups share one
error, because small groups are shrunk more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np
from scipy import special

from isonomy.effects.estimators.moments import draw_moments
from isonomy.errors import UsageError, choose
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import t_isf
from isonomy.options import shown

Center = Literal["zero", "near", "anywhere"]

_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A law of true errors around their center: a mixture of normal laws, one for every spread that is tried."""

    weight: float  # how likely the shape is beforehand
    scales: FloatArray  # variances of the mixture's parts, in squared spreads
    chances: FloatArray  # of the parts
    spreads: FloatArray  # in standard errors of a typical group


_WIDEST = 30.0  # the widest spread, in standard errors of a typical group


def _normal(spreads: FloatArray) -> Shape:
    return Shape(1.0, np.ones(1), np.ones(1), spreads)


def _spike(share: float) -> Shape:
    """Most groups have the common error, and a share of them any other."""
    return Shape(0.5, np.array([0.0, 1.0]), np.array([1 - share, share]), np.geomspace(1.0, _WIDEST, 8))


def _or_none(spreads: FloatArray) -> FloatArray:
    return np.concatenate([[0.0], spreads])


_EVERY = _or_none(np.geomspace(0.1, _WIDEST, 16))
# Student's law with one degree of freedom, by quantiles of its scale.
_CAUCHY = Shape(1.0, 1 / (2 * special.gammaincinv(0.5, (np.arange(8) + 0.5) / 8)), np.full(8, 1 / 8), _EVERY)
_HEAVY = (_normal(_EVERY), _CAUCHY)
_MIXED = (_normal(_or_none(np.geomspace(0.3, _WIDEST, 10))), _spike(0.1), _spike(0.3))
_CENTER = 3.0  # scale of the Cauchy law of a center other than 0, in standard errors of a typical group


def spread_of(error: FloatArray, se: FloatArray) -> float:
    """The variance of the true errors between groups, by DerSimonian and Laird's moments; not below 0."""
    weight = 1 / se**2
    total = weight.sum()
    q = (weight * (error - (weight * error).sum() / total) ** 2).sum()
    scale = total - (weight**2).sum() / total
    return float(max((q - (len(error) - 1)) / scale, 0.0)) if scale > 0 else 0.0


def normal_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means where true errors are normal around a common mean."""
    between = spread_of(error, se)
    variance = se**2 + between
    mean = (error / variance).sum() / (1 / variance).sum()
    return mean + between / variance * (error - mean)


def heavy_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means where true errors are normal or, as likely, Cauchy around a common mean.

    The Cauchy law lets a few groups lie far out without shrinking them, and without loosening the others. The spread is
    averaged over, each value with the likelihood it gives to the errors.
    """
    return _averaged(error, se, _HEAVY, zero=False)


def mixed_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means where true errors are normal, or all alike but for a tenth or three tenths of the groups.

    Their center is 0 or, as likely, anywhere. Shapes, spreads and centers are averaged over.
    """
    return _averaged(error, se, _MIXED, zero=True)


def _averaged(error: FloatArray, se: FloatArray, shapes: tuple[Shape, ...], *, zero: bool) -> FloatArray:
    if len(error) < 2:
        return error
    # The precise groups decide which spreads can be distinguished, but the widest must reach the furthest group.
    reach = float(np.abs(error - np.median(error)).max()) / _WIDEST
    typical = max(float(np.sqrt(1 / np.mean(1 / se**2))), reach)
    centers: tuple[Center, ...] = ("zero", "near") if zero else ("anywhere",)
    parts = [_posterior(error, se, typical, shape, center) for shape in shapes for center in centers]
    score = np.concatenate([scores for scores, _ in parts])
    weight = np.exp(score - score.max())
    return np.asarray(weight @ np.concatenate([means for _, means in parts]) / weight.sum(), dtype=np.float64)


def _posterior(
    error: FloatArray, se: FloatArray, typical: float, shape: Shape, center: Center
) -> tuple[FloatArray, FloatArray]:
    """For each spread: its log likelihood, and the posterior mean of every group. Axes: spread, scale, group."""
    between = (shape.spreads[:, None, None] * typical) ** 2 * shape.scales[:, None]
    variance = se**2 + between
    chance = np.log(shape.chances)[:, None]
    start = 0.0 if center == "zero" else float((error / se**2).sum() / (1 / se**2).sum())
    mean = np.full((len(shape.spreads), 1, 1), start)
    for _ in range(1 if center == "zero" else _ROUNDS):
        logs = chance - 0.5 * (np.log(variance) + (error - mean) ** 2 / variance)
        top = logs.max(1, keepdims=True)
        density = np.exp(logs - top)
        share = density / density.sum(1, keepdims=True)
        if center != "zero":
            mean = ((share * error / variance).sum((1, 2)) / (share / variance).sum((1, 2)))[:, None, None]
    score = (top[:, 0] + np.log(density.sum(1))).sum(-1) + np.log(shape.weight / len(shape.spreads))
    if center != "zero":
        # The mean was fitted: its own uncertainty keeps narrow spreads from being too likely.
        score -= 0.5 * np.log((share / variance).sum((1, 2)))
    if center == "near":  # a center other than 0 needs a law of its own
        scale = _CENTER * typical
        score += np.log(np.sqrt(2 / np.pi) / scale) - np.log1p((mean[:, 0, 0] / scale) ** 2)
    return score, (share * (mean + between / variance * (error - mean))).sum(1)


def welch_q(error: FloatArray, variance: FloatArray, df: FloatArray) -> tuple[float, float]:
    """Cochran's Q over its degrees of freedom with Welch's (1951) correction, and its p-value; NaN for one group."""
    k = len(error)
    if k < 2:
        return np.nan, np.nan
    weight = 1 / variance
    share = weight / weight.sum()
    slack = float(((1 - share) ** 2 / df).sum())
    q = float((weight * (error - (share * error).sum()) ** 2).sum()) / (k - 1)
    statistic = q / (1 + 2 * (k - 2) / (k**2 - 1) * slack)
    freedom = (k**2 - 1) / (3 * slack) if slack > 0 else np.inf
    if not np.isfinite(freedom):
        return statistic, float(special.chdtrc(k - 1, statistic * (k - 1)))
    return statistic, float(special.fdtrc(k - 1, freedom, statistic))


Strategy = Literal["none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"]
Borrowing = Literal["empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture"]
# The correction of every group, from the errors of all of them and their standard errors.
Custom = Callable[[FloatArray, FloatArray], FloatArray]
AnyStrategy = Strategy | Borrowing | Custom
Form = Literal["additive", "multiplicative"]
Loss = Literal["squared", "absolute"]


@dataclass(frozen=True, slots=True, eq=False)
class Detected:
    """A detected error with its law: estimate, standard error, degrees of freedom, E[B^2] as resampled.

    Without resamples, ``square`` is B^2 + sd^2, which is what the bootstrap mean of B*^2 estimates.
    """

    error: FloatArray
    se: FloatArray
    df: FloatArray | float
    square: FloatArray

    @classmethod
    def from_law(cls, error: FloatArray, se: FloatArray, df: FloatArray | float = np.inf) -> Detected:
        """Moments from the estimate and its standard error."""
        return cls(error, se, df, error**2 + se**2)

    @classmethod
    def from_draws(cls, error: FloatArray, draws: FloatArray, df: FloatArray | float = np.inf) -> Detected:
        """Moments from resamples of the estimate (first axis)."""
        variance, square = draw_moments(draws)
        return cls(error, np.sqrt(variance), df, square)


# The share of a detected error that each strategy subtracts, given the error rate; `factor` keeps it in [0, 1].
STRATEGIES: Mapping[Strategy, Callable[[Detected, float], FloatArray]] = {
    "none": lambda detected, alpha: np.zeros(np.shape(detected.error)),
    "mean": lambda detected, alpha: np.ones(np.shape(detected.error)),
    # All of it if |B / sd| exceeds Student's critical value; equation (42), with its absolute value.
    "significant": lambda detected, alpha: (
        np.abs(detected.error) > t_isf(alpha / 2, detected.df) * detected.se
    ).astype(float),
    # B^2 / E[B*^2], equation (46).
    "mse_plus": lambda detected, alpha: detected.error**2 / detected.square,
    # (E[B*^2] - sd^2) / E[B*^2], equation (47). Equal to (46) up to the resamples' own error.
    "mse_minus": lambda detected, alpha: (detected.square - detected.se**2) / detected.square,
    # The unbiased estimate of b^2 is B^2 - sd^2: its positive part over B^2.
    "positive_part": lambda detected, alpha: 1 - detected.se**2 / detected.error**2,
}


PAPER: tuple[Strategy, ...] = ("none", "mean", "significant", "mse_plus", "mse_minus")
BORROWING: Mapping[Borrowing, Custom] = {
    "empirical_bayes": normal_means,
    "empirical_bayes_t": heavy_means,
    "empirical_bayes_mixture": mixed_means,
}
NAMES = (*STRATEGIES, *BORROWING)
DEFAULT: Borrowing = "empirical_bayes_mixture"


def strategies_of(given: Iterable[str | Custom] | None, names: Iterable[str] = NAMES) -> tuple[AnyStrategy, ...]:
    """The given strategies, or all of ``names``."""
    allowed = tuple(names)
    chosen = [
        one if callable(one) else choose("strategies", one, allowed) for one in (allowed if given is None else given)
    ]
    if not chosen:
        raise UsageError(f"strategies: none given; name some of {', '.join(allowed)}.")
    return cast("tuple[AnyStrategy, ...]", tuple(chosen))


def name_of(strategy: AnyStrategy) -> str:
    """What a strategy is called; a function by its own name."""
    return strategy if isinstance(strategy, str) else getattr(strategy, "__name__", type(strategy).__name__)


def correction(strategy: AnyStrategy, detected: Detected, alpha: float = 0.05) -> FloatArray:
    """What is subtracted from the predicted effect of each group; 0 where nothing could be detected."""
    known = np.isfinite(detected.error + detected.se) & (detected.se > 0)
    if isinstance(strategy, str) and strategy in STRATEGIES:
        return np.nan_to_num(factor(cast("Strategy", strategy), detected, alpha) * detected.error)
    rule = BORROWING[cast("Borrowing", strategy)] if isinstance(strategy, str) else strategy
    corrections = np.zeros(detected.error.shape)
    if known.any():
        chosen = _called(rule, detected.error[known], detected.se[known])
        if chosen.shape != (int(known.sum()),) or not np.isfinite(chosen).all():
            raise UsageError(
                f"strategy: {name_of(strategy)} gave {shown(chosen)} for {int(known.sum())} groups; a strategy takes "
                "the errors and their standard errors as arrays and returns one finite correction per group."
            )
        corrections[known] = chosen
    return corrections


def _called(rule: Custom, error: FloatArray, se: FloatArray) -> FloatArray:
    try:
        return np.asarray(rule(error, se), dtype=float)
    except Exception as problem:  # whatever a caller's function raises
        raise UsageError(
            f"strategy: {name_of(rule)} raised {type(problem).__name__}: {problem}; a strategy takes the errors and "
            "their standard errors as arrays and returns one finite correction per group."
        ) from problem


def factor(strategy: Strategy, detected: Detected, alpha: float = 0.05) -> FloatArray:
    """The share of the detected error to subtract, in [0, 1]; 0 where nothing could be detected."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma = STRATEGIES[strategy](detected, alpha)
    return np.where(np.isfinite(detected.error + detected.se), np.clip(np.nan_to_num(gamma), 0.0, 1.0), 0.0)


def risk_of(strategy: Strategy, ratios: FloatArray, alpha: float, loss: Loss) -> FloatArray:
    """The mean remainder over ``ratios`` = b / sd when the estimate is N(b, sd^2), in units of sd."""
    # The integrand jumps (significant) and has kinks: a fine midpoint rule, error below 1e-4 at this step.
    step = 1e-3
    grid = np.arange(-9, 9, step) + step / 2
    weight = np.exp(-(grid**2) / 2) * (step / np.sqrt(2 * np.pi))
    remaining = np.empty(ratios.shape)
    for i, b in enumerate(ratios):
        estimate = b + grid
        left = b - factor(strategy, Detected.from_law(estimate, np.ones(grid.shape)), alpha) * estimate
        remaining[i] = weight @ (left**2 if loss == "squared" else np.abs(left))
    return remaining
