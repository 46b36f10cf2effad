"""Corrections found on one half of the rows and judged on the other: options, tests and densities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from isonomy.effects.estimators.collapse import Formula
from isonomy.effects.estimators.designs import Clustered
from isonomy.effects.estimators.errors import Errors, errors_of, events_expected, independent_events, with_rest
from isonomy.effects.estimators.moments import Sums
from isonomy.errors import UsageError
from isonomy.numerics.arrays import FloatArray
from isonomy.numerics.status import Status
from isonomy.numerics.tails import t_sf
from isonomy.options import Draws, Number, Option


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


def judged(sample: Sums | Clustered, formula: Formula, least: float, known: FloatArray | None = None) -> Errors:
    """The errors of a sample under the law that applies to them; ``known``: compared with effects that are given.

    An arm without events shows no spread, so any estimate from it looks certain. Groups that may expect fewer than
    ``least`` events in an arm are not answered, and neither are those with an arm in which outcomes do not vary.
    """
    if known is not None:
        return errors_of(sample.moments(), formula, known)
    if isinstance(sample, Clustered):
        ((group, groups),) = sample.lines.groups
        errors, sums = sample.errors(formula), sample.sums
        rows = np.bincount(group, minlength=groups).astype(float)
        events = independent_events(events_expected(errors, sums, formula), errors, sums, rows)
    else:
        errors, sums = errors_of(sample.moments(), formula), sample
        events = events_expected(errors, sums, formula)
    return errors.without((with_rest(events, errors) < least) | sums.constant_arm, Status.FEW_EVENTS)


def multiple_of(correction: FloatArray, predicted: FloatArray) -> FloatArray:
    """The multiple of predicted ratios whose collapsed effect is lower by ``correction``; never below 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        multiple = 1 - correction / predicted
    return np.where(np.isfinite(multiple) & (predicted > 0), np.maximum(multiple, 0.0), 1.0)


def fewer_squares(remainders: dict[str, FloatArray], none: int, *, clusters: bool) -> FloatArray:
    """P-values of "at least as much squared bias as without correction", one per strategy.

    Given the half that found it, a correction moves each bias by a known amount d: its square falls by 2 d A - d^2,
    which is linear in the bias A on held-out rows, so the noise of A has mean 0 there. Splits reuse rows, and their
    p-values are dependent: twice the median is a p-value whatever the dependence. With ``clusters`` the law is
    Student's, with the degrees of freedom of the group that has fewest.
    """

    def over_groups(array: FloatArray) -> FloatArray:
        answered = np.isfinite(array)
        return np.where(answered, array, 0.0).sum(-1) / np.maximum(answered.sum(-1), 1)

    with np.errstate(divide="ignore", invalid="ignore"):
        decrease = over_groups(remainders["bias"][none] ** 2 - remainders["bias"] ** 2)
        draws = over_groups(remainders["bias_draws"][none] ** 2 - remainders["bias_draws"] ** 2)
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
    """Points, the densities of ``samples`` there, and the standard deviation of the first sample, the unit of both.

    NaN is left out.
    """
    points = np.linspace(-REACH, REACH, _POINTS)
    known = [sample[np.isfinite(sample)] for sample in samples]
    scale = float(np.std(known[0])) if len(known[0]) > 1 else np.nan
    if not (np.isfinite(scale) and scale > 0):
        return points, np.full((len(samples), _POINTS), np.nan), np.nan
    return points, np.stack([density(sample / scale, points) for sample in known]), scale


def density_and_normal(statistics: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The density of statistics, and the standard normal one, on an axis that holds most of them."""
    known = statistics[np.isfinite(statistics)]
    reach = max(REACH, min(float(np.abs(known).max(initial=0.0)), 3 * REACH))
    points = np.linspace(-reach, reach, _POINTS)
    normal = np.exp(-(points**2) / 2) / np.sqrt(2 * np.pi)
    return points, np.stack([density(known, points), normal])


def density(sample: FloatArray, points: FloatArray) -> FloatArray:
    """Gaussian kernel density at ``points``; values are binned first, far finer than the bandwidth.

    The bandwidth is twice Silverman's rule of thumb (1986, p. 48), 0.9 min(sd, IQR / 1.34) n^(-1/5).
    """
    if sample.size < 2:
        return np.full(points.shape, np.nan)
    quartiles = np.quantile(sample, [0.25, 0.75])
    width = 2 * 0.9 * min(float(np.std(sample)), float(np.ptp(quartiles)) / 1.34) * len(sample) ** -0.2
    if not width > 0:
        return np.full(points.shape, np.nan)
    edges = np.linspace(-3 * REACH, 3 * REACH, _BINS + 1)
    counts = np.histogram(sample, edges)[0]
    middles = (edges[1:] + edges[:-1]) / 2
    used = counts > 0
    z = (points[:, None] - middles[used]) / width
    return np.exp(-(z**2) / 2) @ counts[used] / (len(sample) * width * np.sqrt(2 * np.pi))
