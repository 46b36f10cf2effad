"""Many p-values at once: adjusted p-values, and Benjamini-Hochberg down a tree of groups.

NaN stands for a hypothesis that was not tested (too small, no variance): it stays NaN and is not counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.errors import UsageError, choose
from isonomy.numerics.arrays import BoolArray, FloatArray

METHODS = ("bh", "by", "holm", "bonferroni", "none")


def adjust(pvalues: npt.ArrayLike, method: str = "bh", same: npt.ArrayLike | None = None) -> FloatArray:
    """P-values adjusted for multiplicity: reject where the adjusted p-value is at most alpha.

    Parameters
    ----------
    pvalues
        One per hypothesis, in any order; NaN for one that was not tested.
    method
        ``"bh"`` (Benjamini and Hochberg 1995): false discovery rate under independence or positive dependence;
        ``"by"`` (Benjamini and Yekutieli 2001): the same under any dependence, at the price of a factor of about log m;
        ``"holm"`` and ``"bonferroni"``: any false rejection at all, under any dependence; ``"none"``.
    same
        A label for each p-value. P-values with the same label test one hypothesis, such as two groups compared with
        each other; it counts once, with the largest of its p-values.

    Examples
    --------
    >>> adjust([0.01, 0.04, 0.03, float("nan")], "bh")
    array([0.03, 0.04, 0.04,  nan])
    >>> adjust([0.01, 0.04, 0.03], "holm")
    array([0.03, 0.06, 0.06])
    >>> adjust([0.01, 0.01, 0.03], "holm", same=[0, 0, 1])
    array([0.02, 0.02, 0.03])
    """
    choose("adjust", method, METHODS)
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
    order = np.argsort(p, kind="stable")
    ranked = p[order]
    if method in ("bh", "by"):
        factor = np.sum(1 / np.arange(1, m + 1)) if method == "by" else 1.0
        # Step up: the smallest m p_(k) / k over all ranks k at or above this one.
        raw = ranked * (factor * m / np.arange(1, m + 1))
        ranked = np.minimum.accumulate(raw[::-1])[::-1]
    elif method == "holm":
        # Step down: the largest (m - k + 1) p_(k) over all ranks k up to this one.
        ranked = np.maximum.accumulate(ranked * np.arange(m, 0, -1))
    elif method == "bonferroni":
        ranked = ranked * m
    result = np.full(given.shape, np.nan)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(ranked, 1.0)
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

    The false discovery rate over the whole tree is therefore not controlled at ``alpha``.

    Parameters
    ----------
    pvalues, levels
        One per hypothesis; levels are integers, lowest first.
    parents
        For each hypothesis, the positions of its parents, all at lower levels.

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
    rates = []
    for known in (np.zeros_like(false), false)[: 1 + bool(false.any())]:
        least = int(known.sum())
        draw, test = np.nonzero((p <= alpha) & ~known)  # larger ones are never rejected
        values = p[draw, test]
        order = np.lexsort((values, draw))
        draw, values = draw[order], values[order]
        rank = least + 1 + np.arange(draw.size) - np.searchsorted(draw, draw)
        number = np.full(len(p), least)
        below = values <= alpha * rank / p.shape[1]
        number[draw[below]] = rank[below]  # the largest of each draw comes last
        rates.append(np.mean((number - least) / np.maximum(number, 1)))
    return float(max(rates))


def smallest(pvalues: npt.ArrayLike) -> float:
    """The smallest p-value; NaN if nothing was tested."""
    given = np.asarray(pvalues, dtype=float)
    known = given[~np.isnan(given)]
    return float(known.min()) if known.size else float("nan")
