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
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import numpy as np
from scipy import special

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.errors import Errors, errors_of, under_design
from isonomy.effects.estimators.events import events_behind, skewed_tails
from isonomy.effects.estimators.moments import Clustered, Sums, draw_moments
from isonomy.errors import UsageError, choose
from isonomy.inference.effect import Wald
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.options import COLUMN, Draws, Number, Option, shown

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
    q = (weight * (error - (weight * error).sum(-1, keepdims=True) / total) ** 2).sum(-1, keepdims=True)
    scale = total - (weight**2).sum() / total
    between = np.maximum((q - (se.size - 1)) / scale, 0.0) if scale > 0 else np.zeros(q.shape)
    precision = 1 / (se**2 + between)
    mean = (precision * error).sum(-1, keepdims=True) / precision.sum(-1, keepdims=True)
    return np.asarray(mean + between * precision * (error - mean))


def mixture_means(
    error: FloatArray, se: FloatArray, *, shapes: tuple[Shape, ...], centers: tuple[Center, ...]
) -> FloatArray:
    """Posterior means averaged over shapes, spreads and centers, each with the likelihood it gives to the errors."""
    if se.size < 2:
        return error
    # The precise groups decide which spreads can be distinguished, but the widest must reach the furthest group.
    reach = np.abs(error - np.median(error, -1, keepdims=True)).max(-1) / _WIDEST
    typical = np.maximum(np.sqrt(1 / np.mean(1 / se**2)), reach)
    parts = [_posterior(error, se, typical, shape, center) for shape in shapes for center in centers]
    score = np.concatenate([scores for scores, _ in parts], -1)
    weight = np.exp(score - score.max(-1, keepdims=True))[..., None]
    return np.asarray((weight * np.concatenate([means for _, means in parts], -2)).sum(-2) / weight.sum(-2))


def _posterior(
    error: FloatArray, se: FloatArray, typical: FloatArray, shape: Shape, center: Center
) -> tuple[FloatArray, FloatArray]:
    """For each spread: its log likelihood, and the posterior mean of every group. Axes: ..., spread, scale, group."""
    prior, scales, chances, spreads = shape
    error, typical = error[..., None, None, :], typical[..., None]
    between = (spreads * typical)[..., None, None] ** 2 * scales[:, None]
    variance = se**2 + between
    chance = np.log(chances)[:, None]
    mean = np.zeros((*typical.shape[:-1], len(spreads), 1, 1))
    if center != "zero":
        mean = mean + (error / se**2).sum(-1, keepdims=True) / (1 / se**2).sum()
    for _ in range(1 if center == "zero" else _ROUNDS):
        logs = chance - 0.5 * (np.log(variance) + (error - mean) ** 2 / variance)
        top = logs.max(-2, keepdims=True)
        density = np.exp(logs - top)
        share = density / density.sum(-2, keepdims=True)
        if center != "zero":
            mean = (share * error / variance).sum((-1, -2), keepdims=True)
            mean = mean / (share / variance).sum((-1, -2), keepdims=True)
    score = (top[..., 0, :] + np.log(density.sum(-2))).sum(-1) + np.log(prior / len(spreads))
    if center != "zero":
        # The mean was fitted: its own uncertainty keeps narrow spreads from being too likely.
        score -= 0.5 * np.log((share / variance).sum((-1, -2)))
    if center == "near":  # a center other than 0 needs a law of its own
        scale = _CENTER * typical
        score += np.log(np.sqrt(2 / np.pi) / scale) - np.log1p((mean[..., 0, 0] / scale) ** 2)
    return score, (share * (mean + between / variance * (error - mean))).sum(-2)


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
Loss = Callable[[FloatArray, FloatArray], FloatArray]
_NODES = np.arange(-6.0, 6.01, 0.05)
_MASSES = np.exp(-(_NODES**2) / 2) / np.exp(-(_NODES**2) / 2).sum()


@dataclass(frozen=True)
class LeastRisk:
    """A strategy: the share of each error that has the least risk under your own loss (equations 38 and 39).

    Parameters
    ----------
    loss : callable
        A function of two arrays, the true error b and the correction that is subtracted, which returns the loss of
        each, such as ``lambda b, c: np.maximum(np.abs(b - c) - 0.05, 0.0)``. The risk of a share gamma is the mean
        loss over estimates that are normal around the detected error with its standard error; gamma is searched in
        steps of 0.01 between 0 and 1. With ``lambda b, c: (b - c) ** 2`` it is "mse_plus".
    """

    name: ClassVar[str] = "least_risk"
    loss: Loss

    @property
    def __name__(self) -> str:
        return f"least_risk({getattr(self.loss, '__name__', type(self.loss).__name__)})"

    def __call__(self, error: FloatArray, se: FloatArray) -> FloatArray:
        estimates, truth = error[:, None] + se[:, None] * _NODES, np.repeat(error[:, None], _NODES.size, 1)
        shares = np.linspace(0.0, 1.0, 101)
        risks = [np.asarray(self.loss(truth, share * estimates), dtype=float) @ _MASSES for share in shares]
        return shares[np.argmin(risks, axis=0)] * error


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
    if isinstance(strategy, str) and strategy in STRATEGIES:
        return np.nan_to_num(factor(cast("Strategy", strategy), detected, alpha) * detected.value)
    rule = BORROWING[cast("Borrowing", strategy)] if isinstance(strategy, str) else strategy
    error, se = detected.value, detected.standard_error
    known, corrections = np.isfinite(error + se).all(tuple(range(error.ndim - 1))) & (se > 0), np.zeros(error.shape)
    if known.any():
        takes = (
            "a strategy takes the errors and their standard errors as arrays and returns one finite correction per "
            "group."
        )
        samples = error[..., known]
        try:
            if isinstance(strategy, str):
                chosen = rule(samples, se[known])
            else:
                lines = samples.reshape(-1, samples.shape[-1])
                chosen = np.asarray([rule(sample, se[known]) for sample in lines], dtype=float).reshape(samples.shape)
        except Exception as problem:  # whatever a caller's function raises
            raise UsageError(
                f"strategy: {name_of(rule)} raised {type(problem).__name__}: {problem}; {takes}"
            ) from problem
        if not np.isfinite(chosen).all():
            raise UsageError(
                f"strategy: {name_of(strategy)} gave {shown(chosen)} for {int(known.sum())} groups; {takes}"
            )
        corrections[..., known] = chosen
    return corrections


def factor(strategy: Strategy, detected: Detected, alpha: float = 0.05) -> FloatArray:
    """The share of the detected error to subtract, in [0, 1]; 0 where nothing could be detected."""
    error, se = detected.value, detected.standard_error
    square = error**2 + se**2 if detected.square is None else detected.square
    with np.errstate(divide="ignore", invalid="ignore"):
        gamma = STRATEGIES[strategy](detected, square, alpha)
    return np.where(np.isfinite(error + se), np.clip(np.nan_to_num(gamma), 0.0, 1.0), 0.0)


# Corrections found on one half of the rows and judged on the other, or each on people of its own.

# Random parts that the rows are spread over. A half of the rows is a half of the parts, so the table is read once for
# all splits; a multiple of 4, because halves may be halved again.
BUCKETS = 20


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
        observed effects from the other, and every replicate is divided anew; "swapped" averages over both ways round
        (Appendix E). It is not needed, because variances count the covariance of the two.
    progress : bool, default False
        Show a progress bar.
    """

    name: ClassVar[str] = "heldout"
    splits: Draws = 10
    resamples: Annotated[int, Number(least=2, most=100_000, whole=True)] = 50
    over: Literal["cells", "rows"] = "cells"
    split: Literal["independent", "swapped"] | None = None
    progress: bool = field(default=False, compare=False, kw_only=True)


@dataclass(frozen=True)
class Published(Heldout):
    """The paper's Algorithm 1 as printed: `heldout` with a bootstrap over rows and independent sets in every half.

    Comparisons are with the pooled rest, which has a single correction factor. The fields are those of `heldout`;
    ``over="cells"`` is for tables that are too large to resample row by row.
    """

    name: ClassVar[str] = "published"
    over: Literal["cells", "rows"] = "rows"
    split: Literal["independent", "swapped"] | None = "independent"


@dataclass(frozen=True)
class Online(Option):
    """Corrections are compared online: people were assigned at random to arms, each with a correction of its own.

    Parameters
    ----------
    arm : str
        Column with the name of the correction that was used for the person. The predicted effects are those that were
        used, so they are corrected already.
    control : str, default "none"
        The arm without correction.
    """

    name: ClassVar[str] = "online"
    arm: Annotated[Any, COLUMN]
    control: str = "none"


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
        ((group, groups),), design = sums.lines.groups, sums.lines.design
        assert design is not None
        rows = np.bincount(group, design.rows, groups).astype(float)
        if group.size:  # with fewer clusters than buckets a half may have none
            errors = under_design(errors, sums.lines, formula, moments)[0]
    few = events_behind(errors, sums, formula, rows=rows) < least
    return errors.without(few | sums.constant_arm, Status.FEW_EVENTS)


def multiple_of(correction: FloatArray, predicted: FloatArray) -> FloatArray:
    """The multiple of predicted ratios whose collapsed effect is lower by ``correction``; never below 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = 1 - correction / predicted
    return np.where(np.isfinite(multiple) & (predicted > 0), np.maximum(multiple, 0.0), 1.0)


def mean_answered(array: FloatArray, axis: int | tuple[int, ...] = -1) -> FloatArray:
    answered = np.isfinite(array)
    return np.where(answered, array, 0.0).sum(axis) / np.maximum(answered.sum(axis), 1)


@dataclass(frozen=True, slots=True, eq=False)
class NormalErrors:
    """The errors of a partition as normal means, found on one half of the rows and judged on the other."""

    detected: Detected  # the mean of the errors found on all halves, with the standard errors of a half
    others: FloatArray  # the weights of all groups in the rest of each
    named: int  # groups that are judged
    one_factor: bool  # for the whole rest, as in Algorithm 1

    def gains(self, strategy: AnyStrategy, alpha: float, noise: FloatArray, share: float) -> FloatArray:
        """How much less squared bias is left in each draw, if ``share`` of the detected errors is true.

        ``noise``: (draws, groups) of the whole sample, and of its split into halves.
        """
        law, others = self.detected, self.others.T
        whole, split = law.standard_error / np.sqrt(2) * noise
        total = np.zeros(len(whole))
        for half in (split, -split):
            first, second = share * law.value + whole + half, share * law.value + whole - half
            amount = correction(strategy, Detected(first, law.standard_error, law.df), alpha)
            moved = amount @ others
            if self.one_factor:
                error = np.sqrt(law.standard_error**2 @ others**2)
                moved = correction(strategy, Detected(first @ others, error, law.df), alpha)
            bias = (second - second @ others)[:, : self.named]
            total += (bias**2 - (bias - (amount - moved)[:, : self.named]) ** 2).sum(-1)
        return total / 2


def less_bias(
    decrease: float, strategy: AnyStrategy, models: Sequence[NormalErrors], alpha: float, rng: np.random.Generator
) -> float:
    """P-value of "on average over samples like this one, no less squared bias is left than without correction".

    ``decrease``: of the mean over groups of the squared bias on held-out rows, averaged over splits and swaps; it
    estimates that average without bias. Its law under the null is simulated for groups whose errors are normal. Their
    true errors are the share of the detected errors at which the strategy gains nothing on average: the variance of a
    gain grows with the errors, so that at the estimates themselves would be too large. The law is Pearson's type III
    with the simulated moments. Partitions describe the same people, so their gains are added in their order.
    """
    groups = sum(model.named for model in models)
    if not decrease > 0:
        return 1.0
    draws, laws = int(np.clip(4_000 // groups, 50, 150)), [model.detected for model in models]
    noise = [rng.standard_t(np.minimum(law.df, 1e6), (2, draws, law.value.size)) for law in laws]

    def gains(share: float) -> FloatArray:
        parts = [model.gains(strategy, alpha, z, share) for model, z in zip(models, noise, strict=True)]
        return np.asarray(np.sum([np.sort(part) for part in parts], axis=0) / groups)

    # The squared share at which the mean gain is 0, by secants: the mean is nearly linear in it.
    low, high, law = 0.0, 1.0, gains(1.0)
    bottom, top = float(gains(0.0).mean()), float(law.mean())
    if top <= 0:
        return 1.0
    for _ in range(4 if bottom < 0 else 0):
        middle = low - bottom * (high - low) / (top - bottom)
        law = gains(np.sqrt(middle))
        mean = float(law.mean())
        if abs(mean) < 0.05 * law.std():
            break
        low, high, bottom, top = (low, middle, bottom / 2, mean) if mean > 0 else (middle, high, mean, top / 2)
    spread = float(law.std(ddof=1))
    if not spread > 0:
        return 1.0
    # The noise of a single split hides the skewness of the rest; with a negative one large gains would seem impossible.
    skewness = max(float(((law - law.mean()) ** 3).mean()) / spread**3, 0.0)
    return float(skewed_tails(np.array(decrease / spread), np.array(skewness))[1])


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
    largest = float(np.abs(statistics[np.isfinite(statistics)]).max(initial=REACH))
    points = np.linspace(-1, 1, _POINTS) * min(largest, 3 * REACH)
    normal = np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)
    return points, np.stack([density(statistics, points), normal])


def density(values: FloatArray, points: FloatArray) -> FloatArray:
    """Gaussian kernel density of the finite values; the bandwidth is twice Silverman's rule of thumb (1986, p. 48)."""
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
