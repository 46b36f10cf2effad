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
from functools import partial
from typing import Literal, NamedTuple, cast

import numpy as np
from scipy import special

from isonomy.effects.estimators.moments import draw_moments
from isonomy.errors import UsageError, choose
from isonomy.inference.effect import Wald
from isonomy.numerics.arrays import FloatArray
from isonomy.options import shown

Center = Literal["zero", "near", "anywhere"]

_ROUNDS = 8
_WIDEST = 30.0  # the widest spread, in standard errors of a typical group
_CENTER = 3.0  # scale of the Cauchy law of a center other than 0, in the same unit


class Shape(NamedTuple):
    """A law of true errors around their center: a mixture of normal laws, one for every spread that is tried."""

    weight: float  # prior probability of the shape
    scales: FloatArray  # variances of the mixture's parts, in squared spreads
    chances: FloatArray  # of the parts
    spreads: FloatArray  # in standard errors of a typical group


_ONE = np.ones(1)
_EVERY = np.r_[0.0, np.geomspace(0.1, _WIDEST, 16)]
# Normal, or Student's law with one degree of freedom (by quantiles of its scale). The Cauchy law lets a few groups lie
# far out without shrinking them, and without loosening the others.
_HEAVY = (
    Shape(1.0, _ONE, _ONE, _EVERY),
    Shape(1.0, 1 / (2 * special.gammaincinv(0.5, (np.arange(8) + 0.5) / 8)), np.full(8, 1 / 8), _EVERY),
)
# Normal, or equal in all but a tenth or three tenths of the groups.
_MIXED = (
    Shape(1.0, _ONE, _ONE, np.r_[0.0, np.geomspace(0.3, _WIDEST, 10)]),
    *(
        Shape(0.5, np.array([0.0, 1.0]), np.array([1 - share, share]), np.geomspace(1.0, _WIDEST, 8))
        for share in (0.1, 0.3)
    ),
)


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


def mixture_means(
    error: FloatArray, se: FloatArray, *, shapes: tuple[Shape, ...], centers: tuple[Center, ...]
) -> FloatArray:
    """Posterior means averaged over shapes, spreads and centers, each with the likelihood it gives to the errors."""
    if len(error) < 2:
        return error
    # The precise groups decide which spreads can be distinguished, but the widest must reach the furthest group.
    reach = float(np.abs(error - np.median(error)).max()) / _WIDEST
    typical = max(float(np.sqrt(1 / np.mean(1 / se**2))), reach)
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


Strategy = Literal["none", "mean", "significant", "mse_plus", "mse_minus", "positive_part"]
Borrowing = Literal["empirical_bayes", "empirical_bayes_t", "empirical_bayes_mixture"]
# The correction of every group, from the errors of all of them and their standard errors.
Custom = Callable[[FloatArray, FloatArray], FloatArray]
AnyStrategy = Strategy | Borrowing | Custom
Form = Literal["additive", "multiplicative"]
Loss = Literal["squared", "absolute"]


@dataclass(frozen=True, slots=True, eq=False)
class Detected(Wald):
    """Detected errors with their law, and E[B^2] as resampled.

    Without resamples ``square`` is B^2 + sd^2, which is what the bootstrap mean of B*^2 estimates.
    """

    square: FloatArray | None = None

    @classmethod
    def from_draws(cls, error: FloatArray, draws: FloatArray, df: FloatArray | float = np.inf) -> Detected:
        """Moments from resamples of the estimate (first axis)."""
        variance, square = draw_moments(draws)
        return cls(error, np.sqrt(variance), df, square)


# The share of a detected error B that each strategy subtracts, from the law of B, E[B*^2] and the error rate; `factor`
# keeps it in [0, 1].
STRATEGIES: Mapping[Strategy, Callable[[Wald, FloatArray, float], FloatArray]] = {
    "none": lambda law, square, alpha: np.zeros(np.shape(law.value)),
    "mean": lambda law, square, alpha: np.ones(np.shape(law.value)),
    # All of it if |B / sd| exceeds Student's critical value; equation (42), with its absolute value.
    "significant": lambda law, square, alpha: (law.pvalue() < alpha).astype(float),
    # B^2 / E[B*^2], equation (46).
    "mse_plus": lambda law, square, alpha: law.value**2 / square,
    # (E[B*^2] - sd^2) / E[B*^2], equation (47). Equal to (46) up to the resamples' own error.
    "mse_minus": lambda law, square, alpha: (square - law.standard_error**2) / square,
    # The unbiased estimate of b^2 is B^2 - sd^2: its positive part over B^2.
    "positive_part": lambda law, square, alpha: 1 - law.standard_error**2 / law.value**2,
}
PAPER: tuple[Strategy, ...] = ("none", "mean", "significant", "mse_plus", "mse_minus")
BORROWING: Mapping[Borrowing, Custom] = {
    "empirical_bayes": normal_means,
    "empirical_bayes_t": partial(mixture_means, shapes=_HEAVY, centers=("anywhere",)),
    "empirical_bayes_mixture": partial(mixture_means, shapes=_MIXED, centers=("zero", "near")),
}
NAMES = (*STRATEGIES, *BORROWING)
DEFAULT: Borrowing = "empirical_bayes_mixture"


def strategies_of(given: Iterable[str | Custom] | None, names: Iterable[str] = NAMES) -> tuple[AnyStrategy, ...]:
    """The given strategies, or all of ``names``."""
    allowed = tuple(names)
    chosen = [s if callable(s) else choose("strategies", s, allowed) for s in (allowed if given is None else given)]
    if not chosen:
        raise UsageError(f"strategies: none given; name some of {', '.join(allowed)}.")
    return cast("tuple[AnyStrategy, ...]", tuple(chosen))


def name_of(strategy: AnyStrategy) -> str:
    """The name of a strategy; of a function, its own."""
    return strategy if isinstance(strategy, str) else getattr(strategy, "__name__", type(strategy).__name__)


def correction(strategy: AnyStrategy, detected: Detected, alpha: float = 0.05) -> FloatArray:
    """What is subtracted from the predicted effect of each group; 0 where nothing could be detected."""
    if isinstance(strategy, str) and strategy in STRATEGIES:
        return np.nan_to_num(factor(cast("Strategy", strategy), detected, alpha) * detected.value)
    rule = BORROWING[cast("Borrowing", strategy)] if isinstance(strategy, str) else strategy
    error, se = detected.value, detected.standard_error
    known, corrections = np.isfinite(error + se) & (se > 0), np.zeros(error.shape)
    if known.any():
        takes = (
            "a strategy takes the errors and their standard errors as arrays and returns one finite correction per "
            "group."
        )
        try:
            chosen = np.asarray(rule(error[known], se[known]), dtype=float)
        except Exception as problem:  # whatever a caller's function raises
            raise UsageError(
                f"strategy: {name_of(rule)} raised {type(problem).__name__}: {problem}; {takes}"
            ) from problem
        if chosen.shape != (int(known.sum()),) or not np.isfinite(chosen).all():
            raise UsageError(
                f"strategy: {name_of(strategy)} gave {shown(chosen)} for {int(known.sum())} groups; {takes}"
            )
        corrections[known] = chosen
    return corrections


def factor(strategy: Strategy, detected: Detected, alpha: float = 0.05) -> FloatArray:
    """The share of the detected error to subtract, in [0, 1]; 0 where nothing could be detected."""
    error, se = detected.value, detected.standard_error
    square = error**2 + se**2 if detected.square is None else detected.square
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma = STRATEGIES[strategy](detected, square, alpha)
    return np.where(np.isfinite(error + se), np.clip(np.nan_to_num(gamma), 0.0, 1.0), 0.0)


def risk_of(strategy: Strategy, ratios: FloatArray, alpha: float, loss: Loss) -> FloatArray:
    """The mean remainder over ``ratios`` = b / sd when the estimate is N(b, sd^2), in units of sd."""
    # The integrand jumps (significant) and has kinks: a fine midpoint rule, error below 1e-4 at this step.
    step = 1e-3
    grid = np.arange(-9, 9, step) + step / 2
    weight = np.exp(-(grid**2) / 2) * (step / np.sqrt(2 * np.pi))
    remaining = np.empty(ratios.shape)
    for i, b in enumerate(ratios):
        estimate = b + grid
        left = b - factor(strategy, Detected(estimate, np.ones(grid.shape)), alpha) * estimate
        remaining[i] = weight @ (left**2 if loss == "squared" else np.abs(left))
    return remaining
