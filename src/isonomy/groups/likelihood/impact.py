"""Impact ratios: rates over one another, over the best of many, with bounds for unknown categories, and by cut-off.

A ratio's logarithm has the likelihood of `profile`, on the scale of `links`; the group selected most often is itself
unknown, which `best` counts: "below the threshold" is shown by the smallest of a group's one-sided p-values against the
others, times their number, and "at least the threshold" by the largest of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from isonomy.groups.likelihood.disparity import AgainstBest, Designed, Hypothesis, Likelihood, every_pair
from isonomy.groups.likelihood.links import LOG
from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import Kind, Profile, linked
from isonomy.inference.decide import Alternative
from isonomy.inference.designs import Law
from isonomy.inference.simultaneous import sup_t
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf

# Selections a group must have at a cut-off for its ratio there: the band counts standard errors of its logarithm.
SELECTED = 10
# Groups up to which the band uses the correlation between cut-offs; beyond, Bonferroni's critical value.
CORRELATED, DRAWS = 20, 4_000


@dataclass(frozen=True, slots=True, eq=False)
class Impact:
    """Each group's rate over that of its comparator, the place ``comparator``; NaN for groups not compared.

    ``pvalue`` is that of no difference, ``below`` that of a ratio of at least the threshold (small: it was shown to be
    below), ``at_least`` that of a ratio of at most it.
    """

    comparator: IntArray
    ratio: FloatArray
    low: FloatArray
    high: FloatArray
    difference: FloatArray
    pvalue: FloatArray
    below: FloatArray
    at_least: FloatArray


Laws = Callable[[IntArray, IntArray], Law]  # of T for pairs of groups, where rows have weights or clusters


def against_best(n: FloatArray, k: FloatArray, alpha: float, threshold: float, laws: Laws | None = None) -> Impact:
    """Every group against the one selected most often, whichever that is.

    ``k`` of ``n`` rows of each group were selected; ``laws`` are there where rows have weights or clusters.
    """
    first, second = every_pair(n.size)
    likelihood = AgainstBest(log_ratios(n, k, first, second, laws), first)
    best = int(np.argmax(k / n))
    return _impact(n, k, np.full(n.size, best), likelihood, np.arange(n.size), alpha, threshold, "less")


def against_one(
    n: FloatArray, k: FloatArray, reference: int, alpha: float, threshold: float, laws: Laws | None = None
) -> Impact:
    """Every group against one that was named beforehand; the reference itself has no p-values and no interval."""
    others = np.flatnonzero(np.arange(n.size) != reference)
    comparator = np.full(n.size, reference)
    likelihood = log_ratios(n, k, others, comparator[others], laws)
    return _impact(n, k, comparator, likelihood, others, alpha, threshold, "two-sided")


def log_ratios(n: FloatArray, k: FloatArray, first: IntArray, second: IntArray, laws: Laws | None) -> Likelihood:
    """The likelihood of the logarithm of each pair's ratio; few selections, or refusals, have their score."""
    rates = linked(Binary(n, k), LOG)
    pairs = Profile(Kind.DISJOINT, rates, first, other=rates, other_index=second)
    return pairs.few_scored() if laws is None else Designed(pairs, laws(first, second))


def _impact(
    n: FloatArray,
    k: FloatArray,
    comparator: IntArray,
    likelihood: Likelihood,
    tested: IntArray,
    alpha: float,
    threshold: float,
    equality: Alternative,
) -> Impact:
    """Intervals and p-values of the ratios of the groups ``tested``, whose logarithms the likelihood is about."""
    rate, limit = k / n, float(np.log(threshold))

    def placed(values: FloatArray) -> FloatArray:
        result = np.full(n.size, np.nan)
        result[tested] = values
        return result

    def tail(at: float, side: Alternative) -> FloatArray:
        statistic, pvalue = Hypothesis(at, at, side).test(likelihood)
        return placed(np.where(np.isnan(statistic), np.nan, pvalue))

    with np.errstate(all="ignore"):
        low, high = (placed(np.exp(end)) for end in likelihood.interval(chi2_isf(alpha, 1)))
        ratio = rate / rate[comparator]
    # Which of two is the best is for the data to say: no difference is rejected in either direction.
    equal = np.minimum(2.0 * tail(0.0, "less"), 1.0) if equality == "less" else tail(0.0, equality)
    pvalues = equal, tail(limit, "less"), tail(limit, "greater")
    return Impact(comparator, ratio, low, high, rate - rate[comparator], *pvalues)


def shortfall(n: FloatArray, k: FloatArray, rate: float) -> FloatArray:
    """How many more of each group would have to be selected to reach ``rate``; 0 if it is reached."""
    # 0.8 x 0.5 x 100 is 40.000000000000004 in binary arithmetic; nobody more is needed to reach 40.
    need = rate * n - k
    return np.maximum(np.ceil(need - 1e-9 * np.maximum(n, 1.0)), 0.0)


def unknown_bounds(
    n: FloatArray, k: FloatArray, selected: float, refused: float, reference: int | None
) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest impact ratios, whichever categories the unknown rows belong to.

    ``selected`` and ``refused`` unknown rows may belong to any category, each to one. A group's ratio is least when
    all that were refused are its own and all that were selected the comparator's; it is largest when those selected
    are its own and those refused bring down the comparator, or all groups that could be the best.
    """
    size = n.size
    least, most = np.full(size, np.nan), np.full(size, np.nan)
    for g in range(size):
        others = np.arange(size) != g
        if reference is not None:
            others &= np.arange(size) == reference
        if not others.any():
            continue
        with np.errstate(all="ignore"):
            low = k[g] / (n[g] + refused) / ((k[others] + selected) / (n[others] + selected))
            top = _lowest_best(n[others], k[others], refused)
            high = (k[g] + selected) / (n[g] + selected) / top
        least[g], most[g] = float(np.nanmin(low, initial=np.inf)), high
    if reference is None:
        least, most = np.minimum(least, 1.0), np.minimum(most, 1.0)
    return least, most


def _lowest_best(n: FloatArray, k: FloatArray, refused: float) -> float:
    """The least that the largest rate can be when ``refused`` whole rows more, none selected, are shared out."""
    low, high = 0.0, float(np.max(k / n))
    if high == 0.0 or refused == 0.0:
        return high
    for _ in range(100):  # bisection to the last digit
        middle = 0.5 * (low + high)
        with np.errstate(all="ignore"):
            needed = np.maximum(np.ceil(k / middle - n - 1e-9), 0.0).sum() if middle > 0 else np.inf
        low, high = (low, middle) if needed <= refused else (middle, high)
    added = np.maximum(np.ceil(k / high - n - 1e-9), 0.0)
    return float(np.max(k / (n + added)))


def band(
    n: FloatArray,
    above: FloatArray,
    reference: int | None,
    alpha: float,
    rng: np.random.Generator,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Impact ratios at many cut-offs at once (cut-offs x groups), with a band that holds at all of them together.

    ``above`` (cut-offs x groups) counts each group's rows above each cut-off, which increases. For every group and
    everyone it may be compared with, the logarithm of the ratio has a normal limit whose correlation between cut-offs
    is known; the critical value is that of the largest deviation, at alpha over the number of comparators.
    """
    points, size = above.shape
    with np.errstate(all="ignore"):
        share = above / n
        variance = np.where(above >= SELECTED, (1.0 - share) / above, np.nan)
        rate = np.log(np.where(above >= SELECTED, share, np.nan))
        best = np.nanmax(np.where(np.isnan(rate), -np.inf, rate), axis=1)
    ratio, low, high = (np.full((points, size), np.nan) for _ in range(3))
    for g in range(size):
        others = [reference] if reference is not None else [j for j in range(size) if j != g]
        if others == [g] or not np.isfinite(rate[:, g]).any():
            continue
        ratio[:, g] = rate[:, g] - (best if reference is None else rate[:, reference])
        lows, highs = [], []
        for j in others:
            error = np.sqrt(variance[:, g] + variance[:, j])
            critical = _critical(variance[:, [g, j]], alpha / len(others), rng, size)
            lows.append(rate[:, g] - rate[:, j] - critical * error)
            highs.append(rate[:, g] - rate[:, j] + critical * error)
        # A comparator too seldom selected for a limit of its own could be anything: the lower limit is then unknown.
        low[:, g] = np.min(lows, axis=0)
        high[:, g] = np.fmin.reduce(highs)
    ratio, low, high = np.exp(ratio), np.exp(low), np.exp(high)
    if reference is None:
        low, high = np.minimum(low, 1.0), np.minimum(high, 1.0)
    return ratio, low, high


def _critical(variance: FloatArray, alpha: float, rng: np.random.Generator, groups: int) -> float:
    """Of the largest deviation over cut-offs of a difference of two logarithms of rates, in standard errors.

    The logarithm of the share S above c has the variance (1 - S)/(n S), which increases with c and is also its
    covariance with the logarithm at any higher cut-off.
    """
    known = np.flatnonzero(~np.isnan(variance).any(axis=1))
    if not known.size:
        return float("nan")
    if groups > CORRELATED:
        return float(np.sqrt(chi2_isf(alpha / known.size, 1)))
    both = variance[known].sum(axis=1)
    covariance = np.minimum.outer(both, both)
    deviation = np.sqrt(both)
    correlation = np.where(covariance > 0, covariance / np.maximum(np.outer(deviation, deviation), 1e-300), np.nan)
    return sup_t(correlation, alpha=alpha, draws=DRAWS, rng=rng).critical
