"""Impact ratios: rates over one another, over the best of many, with bounds for unknown categories, and by cutoff.

A ratio's logarithm has the likelihood of `profile` on the scale of `LOG`. The group that is selected most often is
itself unknown, which `AgainstBest` accounts for: "below the threshold" is shown by the smallest of a group's one-sided
p-values against the others, times their number, and "at least the threshold" by the largest of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from isonomy.groups.likelihood.means import Binary
from isonomy.groups.likelihood.profile import LOG, Kind, ProfileLikelihood, linked
from isonomy.inference.decide import Alternative
from isonomy.inference.designs import Law
from isonomy.inference.effect import AgainstBest, Designed, Effect, Hypothesis, every_pair
from isonomy.inference.multiplicity import sup_t
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.tails import chi2_isf

# Selections that a group must have at a cutoff for a ratio there: the band uses standard errors of its logarithm.
SELECTED = 10
# Groups up to which the band uses the correlation between cutoffs; beyond, Bonferroni's critical value.
CORRELATED, DRAWS = 20, 4_000

Laws = Callable[[IntArray, IntArray], Law]  # of T for pairs of groups, for rows with weights or clusters


def impact_ratios(
    n: FloatArray, k: FloatArray, reference: int | None, alpha: float, threshold: float, laws: Laws | None = None
) -> tuple[int, dict[str, FloatArray]]:
    """Each group's rate over that of its comparator, and the place of the comparator.

    ``k`` of ``n`` rows of each group were selected. Groups are compared with the one selected most often, whichever
    that is, or with a ``reference`` that was named beforehand, which has no p-values and no interval. ``pvalue`` is
    that of no difference, ``below_pvalue`` that of a ratio of at least the threshold (small: it was shown to be below),
    ``at_least_pvalue`` that of a ratio of at most the threshold.
    """
    rate, size, limit = k / n, n.size, float(np.log(threshold))
    best = int(np.argmax(rate)) if reference is None else reference
    if reference is None:
        tested, (first, second) = np.arange(size), every_pair(size)
        effect: Effect = AgainstBest(log_ratios(n, k, first, second, laws), first)
    else:
        tested = np.flatnonzero(np.arange(size) != reference)
        effect = log_ratios(n, k, tested, np.full(tested.size, reference), laws)

    def placed(values: FloatArray) -> FloatArray:
        result = np.full(size, np.nan)
        result[tested] = values
        return result

    def tail(null: float, side: Alternative) -> FloatArray:
        statistic, pvalue = effect.test(Hypothesis(null, null, side))
        return placed(np.where(np.isnan(statistic), np.nan, pvalue))

    with np.errstate(all="ignore"):
        low, high = (placed(np.exp(end)) for end in effect.interval(chi2_isf(alpha, 1)))
        # The data decide which of two groups is the best: no difference is rejected in either direction.
        equal = np.minimum(2.0 * tail(0.0, "less"), 1.0) if reference is None else tail(0.0, "two-sided")
        return best, {
            "disparity": rate / rate[best],
            "ci_low": low,
            "ci_high": high,
            "difference": rate - rate[best],
            "pvalue": equal,
            "below_pvalue": tail(limit, "less"),
            "at_least_pvalue": tail(limit, "greater"),
        }


def log_ratios(n: FloatArray, k: FloatArray, first: IntArray, second: IntArray, laws: Laws | None) -> Effect:
    """The logarithm of each pair's ratio; few selections, or few refusals, have the score statistic."""
    rates = linked(Binary(n, k), LOG)
    pairs = ProfileLikelihood(Kind.DISJOINT, rates, first, other=rates, partner=second)
    return pairs.scoring_few() if laws is None else Designed(pairs, laws(first, second))


def shortfall(n: FloatArray, k: FloatArray, rate: float) -> FloatArray:
    """How many more people of each group would have to be selected to reach ``rate``; 0 if it is reached."""
    # 0.8 x 0.5 x 100 is 40.000000000000004 in binary arithmetic, but 40 selections are enough.
    need = rate * n - k
    return np.maximum(np.ceil(need - 1e-9 * np.maximum(n, 1.0)), 0.0)


def unknown_bounds(
    n: FloatArray, k: FloatArray, selected: float, refused: float, reference: int | None
) -> tuple[FloatArray, FloatArray]:
    """The smallest and the largest impact ratios, whichever categories the unknown rows belong to.

    ``selected`` and ``refused`` unknown rows may belong to any category, each to one. A group's ratio is smallest if
    all that were refused are its own and all that were selected are the comparator's. It is largest if those selected
    are its own and those refused lower the rate of the comparator, or of all groups that could be the best.
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
            most[g] = (k[g] + selected) / (n[g] + selected) / _lowest_best(n[others], k[others], refused)
        least[g] = float(np.nanmin(low, initial=np.inf))
    if reference is None:
        least, most = np.minimum(least, 1.0), np.minimum(most, 1.0)
    return least, most


def _lowest_best(n: FloatArray, k: FloatArray, refused: float) -> float:
    """The smallest possible largest rate if ``refused`` whole rows more, none selected, are shared out."""
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
    n: FloatArray, above: FloatArray, reference: int | None, alpha: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Impact ratios at many cutoffs (cutoffs x groups), with a simultaneous band.

    ``above`` (cutoffs x groups) counts each group's rows above each cutoff; cutoffs increase. For every group and each
    possible comparator, the logarithm of the ratio has a normal limit with a known correlation between cutoffs; the
    critical value is that of the largest deviation, at alpha over the number of comparators.
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
            margin = _critical(variance[:, [g, j]], alpha / len(others), rng, size)
            margin = margin * np.sqrt(variance[:, g] + variance[:, j])
            lows.append(rate[:, g] - rate[:, j] - margin)
            highs.append(rate[:, g] - rate[:, j] + margin)
        # A comparator with too few selections for a limit could be anything: the lower limit is then unknown.
        low[:, g] = np.min(lows, axis=0)
        high[:, g] = np.fmin.reduce(highs)
    ratio, low, high = np.exp(ratio), np.exp(low), np.exp(high)
    if reference is None:
        low, high = np.minimum(low, 1.0), np.minimum(high, 1.0)
    return ratio, low, high


def _critical(variance: FloatArray, alpha: float, rng: np.random.Generator, groups: int) -> float:
    """The critical value of the largest deviation over cutoffs of a difference of two logarithms of rates.

    The logarithm of the share S above c has the variance (1 - S)/(n S), which increases with c and is also its
    covariance with the logarithm at any higher cutoff.
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
