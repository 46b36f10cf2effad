"""Many hypotheses at once: adjusted p-values, Benjamini-Hochberg down a tree of groups, and simultaneous bands.

NaN stands for a hypothesis that was not tested (too small, no variance): it stays NaN and is not counted.

Statistics t_1 ... t_p that are jointly normal with known correlation under the null have max |t_j| distributed as
the maximum of N(0, correlation). Its quantile is the critical value of a band that covers at all points at once,
never wider than Bonferroni's and much narrower when points are highly correlated (Montiel Olea and
Plagborg-Moller 2019).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.errors import UnknownOption, UsageError
from isonomy.numerics import resampling
from isonomy.numerics.arrays import BoolArray, FloatArray

METHODS = ("bh", "by", "holm", "bonferroni", "none")
# Eigenvalues below this share of the largest are rounding (in a correlation made from sums) and set to 0.
RANK_TOLERANCE = 1e-10
BLOCK_BYTES = 2**26


def adjust(
    pvalues: npt.ArrayLike, method: str = "bh", same: npt.ArrayLike | None = None, *, ranked: bool = False
) -> FloatArray:
    """P-values adjusted for multiplicity: reject where the adjusted p-value is at most alpha.

    ``method`` is ``"bh"`` (Benjamini and Hochberg 1995): false discovery rate under independence or positive
    dependence; ``"by"`` (Benjamini and Yekutieli 2001): the same under any dependence, at the price of a factor of
    about log m; ``"holm"`` or ``"bonferroni"``: any false rejection at all, under any dependence; or ``"none"``.
    P-values with the same label in ``same`` test one hypothesis, such as two groups compared with each other; it
    counts once, with the largest of its p-values. If the hypotheses are ``ranked``, the most promising first, Holm's
    procedure gives them the weights 1, 1/2, 1/3, ...; the ranks must come from other data.

    Examples
    --------
    >>> adjust([0.01, 0.04, 0.03, float("nan")], "bh")
    array([0.03, 0.04, 0.04,  nan])
    >>> adjust([0.01, 0.04, 0.03], "holm")
    array([0.03, 0.06, 0.06])
    >>> adjust([0.01, 0.01, 0.03], "holm", same=[0, 0, 1])
    array([0.02, 0.02, 0.03])
    >>> adjust([0.02, 0.02], "holm", ranked=True)
    array([0.03, 0.03])
    """
    if method not in METHODS:
        raise UnknownOption("adjust", method, METHODS)
    if ranked and method != "holm":
        raise UsageError("ranked: only Holm's procedure takes ranks.")
    given = np.asarray(pvalues, dtype=float)
    if same is not None:
        labels, place = np.unique(np.asarray(same), return_inverse=True)
        largest = np.full(labels.size, np.nan)
        np.fmax.at(largest, place, given)
        return np.where(np.isnan(given), np.nan, adjust(largest, method)[place])
    tested = ~np.isnan(given)
    p = given[tested]
    if np.any((p < 0) | (p > 1)):
        raise UsageError("pvalues: numbers outside 0..1 are not allowed.")
    m = p.size
    weight = 1.0 / np.arange(1, m + 1) if ranked else np.ones(m)
    order = np.argsort(p / weight, kind="stable")
    raw = p[order]
    if method in ("bh", "by"):
        factor = np.sum(1 / np.arange(1, m + 1)) if method == "by" else 1.0
        # Step up: the smallest m p_(k) / k over all ranks k at or above this one.
        raw = np.minimum.accumulate((raw * (factor * m / np.arange(1, m + 1)))[::-1])[::-1]
    elif method == "holm":
        # Step down: the largest p_(k) times the weights not yet rejected over its own, over all ranks k up to this one.
        left = np.cumsum(weight[order][::-1])[::-1]
        raw = np.maximum.accumulate(raw * (left / weight[order]))
    elif method == "bonferroni":
        raw = raw * m
    result = np.full(given.shape, np.nan)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(raw, 1.0)
    result[tested] = adjusted
    return result


@dataclass(frozen=True, slots=True, eq=False)
class TreeDecisions:
    """The outcome of testing down a tree; ``adjusted`` is adjusted within the level, NaN where not tested."""

    rejected: BoolArray
    adjusted: FloatArray
    tested: BoolArray


def tree(
    pvalues: npt.ArrayLike, levels: npt.ArrayLike, parents: Sequence[Iterable[int]], alpha: float = 0.05
) -> TreeDecisions:
    """Which hypotheses are rejected down a tree, with each level adjusted by Benjamini-Hochberg separately?

    A hypothesis without parents is tested at its level. Any other is tested if at least one of its parents was
    rejected; the group race=Black & sex=Female has the parents race=Black and sex=Female. Only those tested
    count in their level's adjustment.

    The false discovery rate over the whole tree is therefore not controlled at ``alpha``. ``levels`` are integers,
    lowest first; ``parents`` has the positions of each hypothesis's parents, all at lower levels.

    Examples
    --------
    >>> result = tree([0.001, 0.6, 0.01, 0.0001], [1, 1, 2, 2], [(), (), (0, 1), (1,)], 0.05)
    >>> result.rejected
    array([ True, False,  True, False])
    >>> result.adjusted
    array([0.002, 0.6  , 0.01 ,   nan])
    """
    p, level = np.asarray(pvalues, dtype=float), np.asarray(levels)
    if not p.shape == level.shape == (len(parents),):
        raise UsageError(f"pvalues, levels, parents: {p.size}, {level.size} and {len(parents)} entries.")
    above = [np.fromiter(group, dtype=np.intp) for group in parents]
    for child, group in enumerate(above):
        if np.any((group < 0) | (group >= p.size)) or np.any(level[group] >= level[child]):
            raise UsageError(f"parents: those of hypothesis {child} must be at a lower level, saw {group.tolist()}.")
    rejected, tested = np.zeros(p.size, dtype=bool), np.zeros(p.size, dtype=bool)
    adjusted = np.full(p.size, np.nan)
    for current in np.unique(level):
        here = np.flatnonzero(level == current)
        open_ = np.array([above[i].size == 0 or bool(rejected[above[i]].any()) for i in here], dtype=bool)
        here = here[open_ & ~np.isnan(p[here])]
        tested[here] = True
        adjusted[here] = adjust(p[here], "bh")
        rejected[here] = adjusted[here] <= alpha
    return TreeDecisions(rejected, adjusted, tested)


def intersections(pvalues: npt.ArrayLike, items: Sequence[Sequence[Hashable]], alpha: float = 0.05) -> TreeDecisions:
    """`tree` over intersections of ``items``: the parents of a hypothesis are those with one item less.

    >>> intersections([0.001, 0.6, 0.02], [["a"], ["b"], ["a", "b"]]).adjusted
    array([0.002, 0.6  , 0.02 ])
    """
    sets = [frozenset(group) for group in items]
    place = {group: i for i, group in enumerate(sets)}
    parents = [[place[group - {item}] for item in group if group - {item} in place] for group in sets]
    return tree(pvalues, [len(group) for group in items], parents, alpha)


def siblings(pvalues: npt.ArrayLike, items: Sequence[Sequence[tuple[Hashable, Hashable]]]) -> FloatArray:
    """Benjamini-Hochberg among the children of each node, with every family adjusted separately.

    A hypothesis intersects ``items``, as (column, level). Siblings share all but the level of the last.

    >>> siblings([0.01, 0.04, 0.03], [[("a", 1)], [("a", 2)], [("b", 1)]])
    array([0.02, 0.04, 0.03])
    """
    p = np.asarray(pvalues, dtype=float)
    families: dict[Hashable, list[int]] = {}
    for i, group in enumerate(items):
        families.setdefault((tuple(group[:-1]), group[-1][0] if group else None), []).append(i)
    adjusted = np.full(p.shape, np.nan)
    for family in families.values():
        adjusted[family] = adjust(p[family], "bh")
    return adjusted


def max_t(pvalues: npt.ArrayLike, drawn: npt.ArrayLike, same: npt.ArrayLike | None = None) -> FloatArray:
    """P-values adjusted step down by the law of the smallest of them; controls the familywise error rate.

    Romano and Wolf (2005), in terms of p-values. ``drawn`` holds p-values of the same tests (draws x tests) where every
    hypothesis is true, with the tests' dependence: the k-th smallest p-value is compared with the smallest drawn among
    those not yet rejected. Never above Holm's, which allows any dependence, nor below the p-value itself, which the
    draws only estimate. ``same``: as in `adjust`, for Holm's.

    >>> max_t([0.01, 0.2], [[0.5, 0.5], [0.3, 0.3], [0.004, 0.004]])
    array([0.02, 0.2 ])
    """
    p, draws = np.asarray(pvalues, dtype=float), np.asarray(drawn, dtype=float)
    if draws.ndim != 2 or draws.shape[1] != p.size:
        raise UsageError(f"drawn: give draws of {p.size} p-values, saw shape {draws.shape}.")
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    adjusted, holm = np.full(p.shape, np.nan), adjust(p, "holm", same)
    least, size = np.ones(len(draws)), np.empty(order.size)
    for k in range(order.size - 1, -1, -1):  # the smallest over those from the k-th on
        np.minimum(least, draws[:, order[k]], out=least)
        size[k] = (1.0 + np.count_nonzero(least <= p[order[k]])) / (1.0 + len(draws))
    adjusted[order] = np.maximum.accumulate(np.maximum(size, p[order]))
    return np.fmin(adjusted, holm)


def false_discoveries(drawn: npt.ArrayLike, alpha: float, rejected: npt.ArrayLike) -> float:
    """The false discovery rate of Benjamini-Hochberg in p-values ``drawn`` (draws x tests) with their dependence.

    The larger of two rates: with every hypothesis true, and with those ``rejected`` false and always found.
    """
    p, false = np.asarray(drawn, dtype=float), np.asarray(rejected, dtype=bool)
    size = p.shape[1]
    place = np.flatnonzero(p <= alpha)  # larger ones are never rejected
    rates = []
    for known in (np.zeros_like(false), false)[: 1 + bool(false.any())]:
        least, rejections = int(known.sum()), np.full(len(p), size)
        draw, test = np.divmod(place, size)
        draw, values = draw[~known[test]], p.ravel()[place[~known[test]]]
        while True:  # the largest number r of p-values that are at most alpha r / size
            below = values <= alpha * rejections[draw] / size
            draw, values = draw[below], values[below]
            fewer = least + np.bincount(draw, minlength=len(p))
            if (fewer == rejections).all():
                break
            rejections = fewer
        rates.append(np.mean((rejections - least) / np.maximum(rejections, 1)))
    return float(max(rates))


def smallest(pvalues: npt.ArrayLike) -> float:
    """The smallest p-value; NaN if nothing was tested."""
    given = np.asarray(pvalues, dtype=float)
    known = given[~np.isnan(given)]
    return float(known.min()) if known.size else float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class SupT:
    """The law of the largest statistic: its ``critical`` value at ``alpha`` and the simulated ``maxima``, ascending.

    A statistic is significant when it is strictly above ``critical``; that is the same as `pvalue` <= alpha.
    """

    critical: float
    maxima: FloatArray
    alpha: float

    def pvalue(self, statistics: npt.ArrayLike) -> float:
        """The p-value of the largest statistic; NaN if every statistic is NaN."""
        return smallest(self.adjusted(statistics))

    def adjusted(self, statistics: npt.ArrayLike) -> FloatArray:
        """A p-value per point, adjusted for all of them: (1 + #{maxima >= statistic}) / (1 + draws)."""
        return resampling.resampled_pvalues(np.abs(np.asarray(statistics, dtype=float)), self.maxima)


def sup_t(correlation: npt.ArrayLike, *, alpha: float = 0.05, draws: int = 10_000, rng: np.random.Generator) -> SupT:
    """How large is the largest absolute value of many correlated normal statistics by chance?

    ``correlation`` (points x points) may be singular; points whose row is NaN (unsupported, no variance) are left out.
    The Monte Carlo error of a p-value p is sqrt(p (1 - p) / draws).

    Examples
    --------
    >>> law = sup_t(np.eye(3), alpha=0.05, draws=20_000, rng=np.random.default_rng(0))
    >>> round(law.critical, 1)  # exactly 2.39 for three independent points
    2.4
    >>> law.adjusted([0.0, 9.0]) < 0.05
    array([False,  True])
    """
    matrix = np.asarray(correlation, dtype=float)
    used = ~np.isnan(np.diagonal(matrix))
    if not used.any():
        return SupT(float("nan"), np.empty(0), alpha)
    factor = square_root(matrix[np.ix_(used, used)])
    maxima = np.empty(draws)
    block = max(1, BLOCK_BYTES // (16 * factor.shape[0]))
    for start in range(0, draws, block):
        rows = min(block, draws - start)
        z = rng.standard_normal((rows, factor.shape[0])) @ factor
        maxima[start : start + rows] = np.abs(z).max(axis=1)
    maxima.sort()
    # p <= alpha means at most k - 1 maxima reach the statistic, k = floor(alpha (draws + 1)): it lies above the
    # k-th largest. With too few draws for that no statistic is significant.
    k = int(np.floor(alpha * (draws + 1) + 1e-9))
    return SupT(float(maxima[-k]) if k > 0 else float("inf"), maxima, alpha)


def square_root(covariance: npt.ArrayLike) -> FloatArray:
    """The symmetric square root R of a covariance matrix: R R = covariance.

    Unlike a Cholesky factor it exists for singular matrices, and unlike raw eigenvectors it is continuous, so a
    difference in the last digit of the matrix (another engine's summation order) leaves the draws z @ R nearly unmoved.
    """
    matrix = np.asarray(covariance, dtype=float)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.all(np.isfinite(matrix)):
        raise UsageError(f"covariance: give a finite square matrix, saw shape {matrix.shape}.")
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    largest = max(float(values[-1]), 0.0) if values.size else 0.0
    if values.size and values[0] < -1e-6 * max(largest, np.finfo(float).tiny):
        raise UsageError(
            "data: the covariance of its estimates is not positive semi-definite (smallest eigenvalue "
            f"{values[0]:.3g}); the numbers are too large, or hardly differ."
        )
    return (vectors * np.sqrt(np.where(values > RANK_TOLERANCE * largest, values, 0.0))) @ vectors.T


def beyond_rounding(variance: npt.ArrayLike, parts: npt.ArrayLike) -> FloatArray:
    """The variances of differences; NaN where only rounding is left of the ``parts`` they come from.

    Two estimates from the same rows do not differ and have no variance: there is nothing to test, although sums leave
    some last digits. ``variance`` is v + w - 2 c for two estimates with variances v and w and covariance c, and
    ``parts`` is v + w.

    >>> beyond_rounding([0.5, 3e-17], [2.0, 2.0])
    array([0.5, nan])
    """
    left = np.asarray(variance, dtype=float)
    return np.where(left > RANK_TOLERANCE * np.asarray(parts, dtype=float), left, np.nan)


def normal_draws(covariance: npt.ArrayLike, draws: int, rng: np.random.Generator) -> FloatArray:
    """Draws (draws x points) from N(0, covariance), for statistics other than the plain maximum.

    >>> normal_draws([[1.0, 1.0], [1.0, 1.0]], 3, np.random.default_rng(0)).shape
    (3, 2)
    """
    factor = square_root(covariance)
    return rng.standard_normal((draws, factor.shape[0])) @ factor


def weighted_holm(pvalues: FloatArray, weight: FloatArray) -> FloatArray:
    """Holm's (1979) adjusted p-values if hypotheses have shares of the error rate proportional to ``weight``."""
    adjusted, tested = np.full(pvalues.shape, np.nan), np.flatnonzero(np.isfinite(pvalues))
    order = tested[np.argsort(pvalues[tested] / weight[tested], kind="stable")]
    rest = np.cumsum(weight[order][::-1])[::-1]
    adjusted[order] = np.minimum(np.maximum.accumulate(pvalues[order] / weight[order] * rest), 1.0)
    return adjusted
