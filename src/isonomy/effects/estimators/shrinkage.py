"""How much to subtract from a group's predictions: the correction of each strategy.

The paper's corrected prediction is f - gamma B (equation 33), where B is the detected error of the row's group. What
remains of a true error b is b - gamma B. No factor is best for every b: `correction_risk` gives the mean squared
remainder of each as a function of b / sd.

Other strategies use all groups together: the errors of the other groups show where a group's error is likely to lie,
so errors are shrunk toward their common mean. Shrinking toward 0 instead creates a bias wherever all groups share one
error, because small groups are shrunk more.

Corrections are found on one half of the rows and judged on the other, so that no row judges what it found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
from scipy import special

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.errors import Errors, errors_of, under_design
from isonomy.effects.estimators.events import events_behind
from isonomy.effects.estimators.moments import Clustered, Sums, draw_moments
from isonomy.errors import UsageError, choose
from isonomy.frames.design import Clusters, Design
from isonomy.inference.effect import Wald
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.shrinkage import posterior_means, weighted_fit
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_sf
from isonomy.options import Draws, Number, Option, shown

Center = Literal["zero", "near", "anywhere"]

_ROUNDS = 8
_WIDEST = 30.0  # the widest spread, in standard errors of a typical group
_CENTER = 3.0  # scale of the Cauchy law of a center other than 0, in the same unit


# A law of true errors around their center is a mixture of normal laws, one for every spread that is tried: its prior
# probability; the variances of the mixture's parts, in squared spreads; the chances of the parts; and the spreads, in
# standard errors of a typical group.
Shape = tuple[float, FloatArray, FloatArray, FloatArray]
_ONE = np.ones(1)
_EVERY = np.r_[0.0, np.geomspace(0.1, _WIDEST, 16)]
# Normal, or Student's law with one degree of freedom (by quantiles of its scale). The Cauchy law lets a few groups lie
# far out without shrinking them, and without loosening the others.
_HEAVY: tuple[Shape, ...] = (
    (1.0, _ONE, _ONE, _EVERY),
    (1.0, 1 / (2 * special.gammaincinv(0.5, (np.arange(8) + 0.5) / 8)), np.full(8, 1 / 8), _EVERY),
)
# Normal, or equal in all but a tenth or three tenths of the groups.
_MIXED: tuple[Shape, ...] = (
    (1.0, _ONE, _ONE, np.r_[0.0, np.geomspace(0.3, _WIDEST, 10)]),
    (0.5, np.array([0.0, 1.0]), np.array([0.9, 0.1]), np.geomspace(1.0, _WIDEST, 8)),
    (0.5, np.array([0.0, 1.0]), np.array([0.7, 0.3]), np.geomspace(1.0, _WIDEST, 8)),
)


def normal_means(error: FloatArray, se: FloatArray) -> FloatArray:
    """Posterior means for true errors normal around a common mean, with DerSimonian and Laird's variance."""
    weight = 1 / se**2
    total = weight.sum()
    q = (weight * (error - (weight * error).sum() / total) ** 2).sum()
    scale = total - (weight**2).sum() / total
    between = max((q - (len(error) - 1)) / scale, 0.0) if scale > 0 else 0.0
    mean, _ = weighted_fit(np.ones((len(error), 1)), error, 1 / (se**2 + between))
    return posterior_means(error, mean, se**2, between)


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
    prior, scales, chances, spreads = shape
    between = (spreads[:, None, None] * typical) ** 2 * scales[:, None]
    variance = se**2 + between
    chance = np.log(chances)[:, None]
    start = 0.0 if center == "zero" else float((error / se**2).sum() / (1 / se**2).sum())
    mean = np.full((len(spreads), 1, 1), start)
    for _ in range(1 if center == "zero" else _ROUNDS):
        logs = chance - 0.5 * (np.log(variance) + (error - mean) ** 2 / variance)
        top = logs.max(1, keepdims=True)
        density = np.exp(logs - top)
        share = density / density.sum(1, keepdims=True)
        if center != "zero":
            mean = ((share * error / variance).sum((1, 2)) / (share / variance).sum((1, 2)))[:, None, None]
    score = (top[:, 0] + np.log(density.sum(1))).sum(-1) + np.log(prior / len(spreads))
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


@dataclass(frozen=True, slots=True, eq=False)
class Detected(Wald):
    """Detected errors with their law, and E[B^2] as resampled.

    Without resamples ``square`` is B^2 + sd^2, which is what the bootstrap mean of B*^2 estimates.
    """

    square: FloatArray | None = None

    @classmethod
    def from_draws(cls, error: FloatArray, draws: FloatArray, df: FloatArray | float = np.inf) -> Detected:
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
    allowed = tuple(names)
    chosen = [s if callable(s) else choose("strategies", s, allowed) for s in (allowed if given is None else given)]
    if not chosen:
        raise UsageError(f"strategies: none given; name some of {', '.join(allowed)}.")
    return cast("tuple[AnyStrategy, ...]", tuple(chosen))


def name_of(strategy: AnyStrategy) -> str:
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


# Corrections found on one half of the rows and judged on the other.


@dataclass(frozen=True)
class Heldout(Option):
    """Corrections are found on one random half of the rows and judged on the other; then the halves swap roles.

    Parameters
    ----------
    splits : int, default 10
        Random splits, each followed by its swap.
    resamples : int, default 50
        Bootstrap replicates on each half.
    over : {"cells", "rows"}, default "cells"
        What is resampled: cells, for any number of rows, or rows in memory.
    split : {"independent", "swapped"}, optional
        Steps 5 to 7 of the paper's Algorithm 1: within each half, predicted effects come from one half of the rows and
        observed effects from the other; "swapped" averages over both ways round (Appendix E). It is not needed,
        because variances count the covariance of the two.
    buckets : int, default 20
        Random parts that the rows are spread over: an even number, and a multiple of 4 with ``split``. A half of the
        rows is a half of the parts, so the table is read once, whatever the number of splits.
    """

    name: ClassVar[str] = "heldout"
    splits: Draws = 10
    resamples: Annotated[int, Number(least=2, most=100_000, whole=True)] = 50
    over: Literal["cells", "rows"] = "cells"
    split: Literal["independent", "swapped"] | None = None
    buckets: Annotated[int, Number(least=2, most=1_000, whole=True)] = 20

    def __post_init__(self) -> None:
        Option.__post_init__(self)
        parts = 2 if self.split is None else 4
        if self.buckets % parts:
            raise UsageError(
                f"buckets: {self.buckets!r} is not allowed with split={self.split!r}; give a multiple of {parts}."
            )


def judged(sums: Sums, formula: Formula, least: float, known: FloatArray | None = None) -> Errors:
    """The errors of a sample under the law that applies to them; ``known``: compared with effects that are given.

    An arm without events shows no spread, so any estimate from it looks certain. Groups that may expect fewer than
    ``least`` events in an arm are not answered, and neither are those with an arm in which outcomes do not vary.
    """
    moments, rows = sums.moments(), None
    errors = errors_of(moments, formula, known)
    if known is not None:
        return errors
    if isinstance(sums, Clustered):
        ((group, groups),) = sums.lines.groups
        rows, mass, size = np.bincount(group, minlength=groups).astype(float), sums.lines.weight, sums.cluster.size
        if size:  # with fewer clusters than buckets a half may have none
            design = Design(mass, mass**2, mass**4, np.ones(size), Clusters.from_rows(sums.cluster, mass))
            zero, half = np.zeros(size, dtype=np.intp), np.full(size, 0.5)
            lines = replace(sums.lines, design=design, stratum=zero, chance=half)
            errors = under_design(errors, lines, formula, moments)[0]
    few = events_behind(errors, sums, formula, rows=rows) < least
    return errors.without(few | sums.constant_arm, Status.FEW_EVENTS)


def multiple_of(correction: FloatArray, predicted: FloatArray) -> FloatArray:
    """The multiple of predicted ratios whose collapsed effect is lower by ``correction``; never below 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = 1 - correction / predicted
    return np.where(np.isfinite(multiple) & (predicted > 0), np.maximum(multiple, 0.0), 1.0)


def mean_answered(array: FloatArray, axis: int | tuple[int, ...] = -1) -> FloatArray:
    """The mean of the finite entries; 0 where there are none."""
    answered = np.isfinite(array)
    return np.where(answered, array, 0.0).sum(axis) / np.maximum(answered.sum(axis), 1)


def fewer_squares(remainders: dict[str, FloatArray], none: int, *, clusters: bool) -> FloatArray:
    """P-values of "at least as much squared bias as without correction", one per strategy.

    Given the half that found it, a correction moves each bias by a known amount d: its square falls by 2 d A - d^2,
    which is linear in the bias A on held-out rows, so the noise of A has mean 0 there. Splits reuse rows, and their
    p-values are dependent: twice the median is a p-value whatever the dependence. With ``clusters`` the law is
    Student's, with the degrees of freedom of the group that has fewest.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        decrease = mean_answered(remainders["bias"][none] ** 2 - remainders["bias"] ** 2)
        draws = mean_answered(remainders["bias_draws"][none] ** 2 - remainders["bias_draws"] ** 2)
        fewest = np.min(np.where(np.isfinite(remainders["bias_df"]), remainders["bias_df"], np.inf), axis=-1)
        df = fewest if clusters else np.array(np.inf)
        pvalue = t_sf(decrease / np.std(draws, axis=-1, ddof=1), df)
        idle = np.isfinite(remainders["bias"]).any(-1) & (decrease == 0)  # nothing was corrected in this run
        pvalue = np.where(idle, 1.0, pvalue)
    pvalue[none] = np.nan
    known = np.asarray(np.isfinite(pvalue).all(-1))
    return np.where(known, np.minimum(2 * np.median(np.where(known[:, None], pvalue, 1.0), axis=-1), 1.0), np.nan)


# Kernel densities as the paper draws them: Gaussian kernel, twice Silverman's bandwidth, standardized.

REACH = 4.0  # standard deviations drawn on either side of zero
_POINTS, _BINS = 161, 2_400


def densities(samples: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray, float]:
    """Points, the densities of ``samples`` there, and the standard deviation of the first sample, the unit of both."""
    points = np.linspace(-REACH, REACH, _POINTS)
    first = samples[0][np.isfinite(samples[0])]
    scale = float(np.std(first)) if len(first) > 1 else 0.0
    if not scale > 0:
        return points, np.full((len(samples), _POINTS), np.nan), np.nan
    return points, np.stack([density(sample / scale, points) for sample in samples]), scale


def density_and_normal(statistics: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The density of statistics, and the standard normal one, on an axis that holds most of them."""
    largest = float(np.abs(statistics[np.isfinite(statistics)]).max(initial=REACH))
    points = np.linspace(-1, 1, _POINTS) * min(largest, 3 * REACH)
    normal = np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)
    return points, np.stack([density(statistics, points), normal])


def density(values: FloatArray, points: FloatArray) -> FloatArray:
    """Gaussian kernel density of the finite values at ``points``; they are binned first, far finer than the bandwidth.

    The bandwidth is twice Silverman's rule of thumb (1986, p. 48), 0.9 min(sd, IQR / 1.34) n^(-1/5).
    """
    sample, width = values[np.isfinite(values)], 0.0
    if sample.size > 1:
        quartiles = np.quantile(sample, [0.25, 0.75])
        width = 2 * 0.9 * min(float(np.std(sample)), float(np.ptp(quartiles)) / 1.34) * len(sample) ** -0.2
    if not width > 0:
        return np.full(points.shape, np.nan)
    edges = np.linspace(-3 * REACH, 3 * REACH, _BINS + 1)
    counts = np.histogram(sample, edges)[0]
    middles, used = (edges[1:] + edges[:-1]) / 2, counts > 0
    z = (points[:, None] - middles[used]) / width
    return np.exp(-(z**2) / 2) @ counts[used] / (len(sample) * width * np.sqrt(2 * np.pi))
