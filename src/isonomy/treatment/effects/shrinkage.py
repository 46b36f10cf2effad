"""How much to subtract from a group's predictions: the correction of each strategy, and its risk.

The paper's corrected prediction is f - gamma B (equation 33), with B the detected error of the row's group. What
remains of a true error b is b - gamma B. No factor is best for every b: `risk_of` gives each one's mean squared
remainder over b / sd. Other strategies look at all groups together (`borrow`), or are the caller's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from isonomy.errors import UsageError, choose
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.tails import t_isf
from isonomy.options import shown
from isonomy.treatment.effects.borrow import heavy_means, mixed_means, normal_means
from isonomy.treatment.effects.resample import draw_moments

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


BORROWING: Mapping[Borrowing, Custom] = {
    "empirical_bayes": normal_means,
    "empirical_bayes_t": heavy_means,
    "empirical_bayes_mixture": mixed_means,
}
NAMES = (*STRATEGIES, *BORROWING)
DEFAULT: Borrowing = "empirical_bayes_mixture"


def strategies_of(given: Iterable[str | Custom] | None, names: Iterable[str] = NAMES) -> tuple[AnyStrategy, ...]:
    """The strategies named or brought, or all of ``names``."""
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


def ratios_of(given: object) -> FloatArray:
    """Ratios b / sd as numbers."""
    try:
        ratios = np.asarray(given, dtype=float)
    except (TypeError, ValueError, OverflowError):
        ratios = np.empty((0, 0))
    if ratios.ndim != 1 or not np.isfinite(ratios).all():
        raise UsageError(f"ratios: {shown(given)}; give a list of finite numbers.")
    return ratios


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
