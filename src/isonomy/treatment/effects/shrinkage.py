"""How much of a detected error to subtract: the correction factor of each strategy, and its risk.

The corrected prediction is f - gamma B (equation 33), with B the detected error of the row's group. What remains of a
true error b is b - gamma B. No factor is best for every b: `risk_of` gives each one's mean squared remainder
over b / sd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, cast

import numpy as np

from isonomy.errors import choose
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.ratio import t_critical
from isonomy.treatment.effects.resample import draw_moments

Strategy = Literal["none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"]
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
        np.abs(detected.error) > t_critical(alpha / 2, detected.df) * detected.se
    ).astype(float),
    # B^2 / E[B*^2], equation (46).
    "mse_plus": lambda detected, alpha: detected.error**2 / detected.square,
    # (E[B*^2] - sd^2) / E[B*^2], equation (47). Equal to (46) up to the resamples' own error.
    "mse_minus": lambda detected, alpha: (detected.square - detected.se**2) / detected.square,
    # The unbiased estimate of b^2 is B^2 - sd^2: its positive part over B^2.
    "positive_part": lambda detected, alpha: 1 - detected.se**2 / detected.error**2,
}


def strategies_of(names: Iterable[str] | None) -> tuple[Strategy, ...]:
    """The named strategies, or all of them."""
    chosen = [choose("strategies", name, STRATEGIES) for name in names or STRATEGIES]
    return cast("tuple[Strategy, ...]", tuple(chosen))


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
