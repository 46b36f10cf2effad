"""What each row contributes to every utility, and the comparison that follows in closed form.

A group's utility is R = U / W, sums over the rows it is judged on. With t the cut-off at which the share k of these
rows is selected, d the decision and m = E[1_g (du - R dw) | score = t] (du, dw: what selecting a row adds to u and w),

    influence of a row on R = (1_g (u - R w) - m (d - k)) / E[1_g w].

The second part is the error of a cut-off that was learned from the same rows. The density of scores at the cut-off
cancels: only a mean over the rows near it is needed. It is 0 if nothing was learned.

Every requirement is linear in the utilities, or a ratio of two linear forms: a gain g must exceed delta times a base c.
So the utilities and their covariance give a normal law for every requirement, at every delta.

With more than two groups the status quo's worst pair q is unknown, and a pair chosen and judged on the same rows looks
too large. With noise e of the estimates' own law, q is chosen on the estimates plus e and judged on the estimates less
e, which are independent of them (data fission: Leiner, Duan, Wasserman and Ramdas 2025). The mean over e of what is
judged uses all rows and depends on no draw. Its expectation is at most the largest gap. Its variance is taken to be
that of the pair's gap, and was smaller in all simulations, including ties of up to 25 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.alternatives.rules.cutoffs import Mass, Selection
from isonomy.alternatives.rules.utilities import STATUS_QUO, Criteria, group_sums
from isonomy.numerics.arrays import FloatArray, IntArray

BLOCK = 2**16  # lines whose influence values are held at once
NOISE = 4_096  # points of the mean over noise that chooses the worst pair: the same for every seed


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The lines two algorithms are judged on: ``selections`` are the status quo's and the candidate's.

    ``weight`` is the total weight of a line, ``squares`` the sum of the squared weights of its rows (the same if rows
    weigh 1); ``cluster`` says which lines belong together.
    """

    features: Mapping[str, FloatArray]
    outcomes: Mapping[str | None, FloatArray]
    group: IntArray
    weight: Mass
    selections: tuple[Selection, Selection]
    squares: FloatArray | None = None
    cluster: IntArray | None = None

    @property
    def rows(self) -> int:
        """Rows the lines stand for: weights sum to them."""
        return round(float(self.weight.sum()))

    def effective(self, groups: int) -> FloatArray:
        """The effective number of clusters of each group, by weight; infinite where there are none."""
        if self.cluster is None:
            return np.full(groups, np.inf)
        size = np.zeros((int(self.cluster.max()) + 1, groups))
        np.add.at(size, (self.cluster, self.group), self.weight)
        return np.asarray(size.sum(axis=0) ** 2 / (size**2).sum(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Worth:
    """u and w of each line under both algorithms, averaged over random decisions; and what selecting adds to them."""

    values: FloatArray  # (lines, utilities, 2 algorithms, 2)
    slopes: FloatArray  # (lines, utilities, 2)
    sums: FloatArray  # by group: (utilities, 2 algorithms, 2, groups)


def worth(criteria: Criteria, lines: Judged) -> Worth:
    """Utilities are linear in a 0/1 decision, so a randomized one is worth the mean of both. Prices are as they are."""
    values, slopes = [], []
    for utility in criteria.utilities:
        y = lines.outcomes[utility.outcome]
        shares = [selection.share for selection in lines.selections]
        if utility.binary:
            no, yes = (np.stack(utility.values(lines.features, y, np.full(len(y), d)), axis=-1) for d in (0.0, 1.0))
            slopes.append(yes - no)
            values.append(np.stack([no + share[:, None] * (yes - no) for share in shares], axis=1))
        else:
            slopes.append(np.zeros((len(y), 2)))
            parts = [np.stack(utility.values(lines.features, y, share), axis=-1) for share in shares]
            values.append(np.stack(parts, axis=1))
    stacked = np.stack(values, axis=1)
    sums = group_sums(stacked, lines.group, lines.weight, len(criteria.labels))
    return Worth(stacked, np.stack(slopes, axis=1), sums)


@dataclass(frozen=True, slots=True, eq=False)
class RateMoments:
    """Estimates and their covariance: rates (utilities, 2, groups), pooled accuracies, the status quo's worst gaps."""

    estimates: FloatArray
    covariance: FloatArray
    rows: int
    worst: tuple[int, ...]  # the status quo's worst pair, for each fairness utility
    df: float = np.inf


@dataclass(frozen=True, slots=True, eq=False)
class _Influence:
    """Influence values, block by block: one column for each rate, and for each algorithm's pooled accuracy."""

    lines: Judged
    worth: Worth
    pooled: bool

    @property
    def sums(self) -> FloatArray:
        """u and w of every column: (2, columns)."""
        by_group = np.moveaxis(self.worth.sums, 2, 0).reshape(2, -1)
        total = self.worth.sums[0].sum(axis=-1).T if self.pooled else np.empty((2, 0))
        return np.concatenate([by_group, total], axis=1)

    def blocks(self) -> Iterator[tuple[slice, FloatArray]]:
        """Lines, and their influence values (lines, columns), scaled so that their mean is the estimate's error."""
        lines, values = self.lines, self.worth.values
        _, n_utilities, n_algorithms, _ = values.shape
        n_groups = self.worth.sums.shape[-1]
        u, w = self.sums
        defined = w > 0  # pooled accuracy needs no group's own
        rate = np.divide(u, w, out=np.zeros_like(u), where=defined)
        mass = np.where(defined, w, 1.0) / lines.rows
        cells = n_utilities * n_algorithms * n_groups
        columns = np.arange(cells).reshape(n_utilities, n_algorithms, n_groups)
        at_edge = self._edge(rate, columns, cells)
        for start in range(0, len(lines.weight), BLOCK):
            part = slice(start, start + BLOCK)
            group = lines.group[part]
            psi = np.zeros((len(group), len(u)))
            own = columns[:, :, group]  # (utilities, algorithms, lines)
            value = np.moveaxis(values[part], 0, 2)
            np.put_along_axis(
                psi,
                np.moveaxis(own.reshape(-1, len(group)), 0, 1),
                np.moveaxis((value[..., 0] - rate[own] * value[..., 1]).reshape(-1, len(group)), 0, 1),
                axis=1,
            )
            for a in range(n_algorithms if self.pooled else 0):
                psi[:, cells + a] = value[0, a, :, 0] - rate[cells + a] * value[0, a, :, 1]
            for a, selection in enumerate(lines.selections):
                psi -= np.outer(selection.share[part] - selection.capacity, at_edge[a])
            yield part, psi / mass

    def _edge(self, rate: FloatArray, columns: IntArray, cells: int) -> FloatArray:
        """m of every column, by the algorithm whose cut-off it is: (algorithms, columns)."""
        lines, slopes = self.lines, self.worth.slopes
        result = np.zeros((len(lines.selections), len(rate)))
        for a, selection in enumerate(lines.selections):
            near = np.flatnonzero(selection.edge)
            weighted = selection.edge[near, None, None] * slopes[near]
            for k in range(slopes.shape[1]):
                for j in (0, 1):
                    sums = np.bincount(lines.group[near], weights=weighted[:, k, j], minlength=columns.shape[2])
                    result[a, columns[k, a]] += sums if j == 0 else -rate[columns[k, a]] * sums
            if self.pooled:
                du, dw = weighted[:, 0].sum(axis=0)
                result[a, cells + a] = du - rate[cells + a] * dw
        return result


def moments(criteria: Criteria, lines: Judged, worths: Worth, worst: Sequence[int] | None = None) -> RateMoments:
    """Every estimate with its covariance.

    ``worst`` are the status quo's worst pairs if they were chosen on other rows; None: they are chosen on all rows.
    """
    influence = _Influence(lines, worths, isinstance(criteria.weights, str))
    u, w = influence.sums
    estimates = np.divide(u, w, out=np.zeros_like(u), where=w > 0)
    size, squares = len(estimates), lines.weight if lines.squares is None else lines.squares
    covariance = np.zeros((size, size))
    clusters = np.zeros((0 if lines.cluster is None else int(lines.cluster.max()) + 1, size))
    for part, psi in influence.blocks():
        if lines.cluster is None:
            covariance += psi.T @ (squares[part][:, None] * psi)
        else:
            np.add.at(clusters, lines.cluster[part], lines.weight[part][:, None] * psi)
    if lines.cluster is not None:
        covariance = clusters.T @ clusters * (len(clusters) / (len(clusters) - 1))
    covariance = covariance / lines.rows**2
    gaps = gap_forms(criteria, size)[:, :, STATUS_QUO]  # (utilities, columns, pairs)
    chosen = worst if worst is not None or gaps.shape[2] > 1 else (0,) * len(gaps)
    if chosen is None:
        worst = tuple(int(np.argmax(criteria.unfairness(estimates @ form))) for form in gaps)
        worst_gaps = [_worst_gap(criteria, estimates, covariance, form) for form in gaps]
    else:
        worst = tuple(chosen)
        pairs = [form[:, q] for form, q in zip(gaps, worst, strict=True)]
        worst_gaps = [_single(criteria, estimates, covariance, pair) for pair in pairs]
    values, forms, variances = zip(*worst_gaps, strict=True)
    spread = np.concatenate([np.eye(size), np.stack(forms)])
    whole = spread @ covariance @ spread.T
    places = np.arange(size, len(spread))
    whole[places, places] = variances
    df = float(lines.effective(len(criteria.labels)).min()) - 1
    return RateMoments(np.concatenate([estimates, values]), whole, lines.rows, worst, df)


WorstGap = tuple[float, FloatArray, float]  # the estimate, the (mean) linear form behind it, and its variance


def _single(criteria: Criteria, estimates: FloatArray, covariance: FloatArray, pair: FloatArray) -> WorstGap:
    gap = float(estimates @ pair)
    form = -pair if criteria.protected is None and gap < 0 else pair
    return abs(gap) if criteria.protected is None else gap, form, float(form @ covariance @ form)


def _worst_gap(criteria: Criteria, estimates: FloatArray, covariance: FloatArray, form: FloatArray) -> WorstGap:
    """The worst of several pairs (columns of ``form``), chosen on the estimates plus noise, judged on them less it.

    Noise is assigned to groups in the order of their rates, so that the names of groups do not matter.
    """
    used = np.flatnonzero(form.any(axis=1))
    variances, vectors = np.linalg.eigh(covariance[np.ix_(used, used)])
    root = (vectors * np.sqrt(np.maximum(variances, 0.0))) @ vectors.T
    points = np.random.default_rng(0).standard_normal((NOISE // 2, len(used)))
    points[:, np.argsort(estimates[used], kind="stable")] = points.copy()
    noise = np.concatenate([points, -points]) @ root @ form[used]
    gaps = estimates @ form
    chosen = np.argmax(criteria.unfairness(gaps + noise), axis=1)
    rows = np.arange(NOISE)
    sign = np.where((criteria.protected is None) & ((gaps + noise)[rows, chosen] < 0), -1.0, 1.0)
    value = float(np.mean(sign * (gaps - noise)[rows, chosen]))
    mean = form @ np.bincount(chosen, weights=sign, minlength=form.shape[1]) / NOISE
    share = np.bincount(chosen, minlength=form.shape[1]) / NOISE
    return value, mean, float(share @ np.einsum("cp,cd,dp->p", form, covariance, form))


def gap_forms(criteria: Criteria, columns: int) -> FloatArray:
    """Each gap as a linear form of the columns: (fairness utilities, columns, 2 algorithms, pairs)."""
    shape = (len(criteria.utilities), 2, len(criteria.labels))
    unit = np.eye(columns)[:, : int(np.prod(shape))].reshape(columns, *shape)
    return np.stack([criteria.gaps(unit, k) for k in range(len(criteria.fairness))])


def denominators(lines: Judged, worths: Worth) -> FloatArray:
    """Rows in every denominator (utilities, 2, groups). The largest w counts as one row, whatever the unit of w."""
    slope = worths.slopes[:, :, None, 1]
    shares = np.stack([selection.share for selection in lines.selections], axis=-1)[:, None]
    no = worths.values[..., 1] - shares * slope
    unit = np.maximum(no, no + slope).max(axis=(0, 2))
    return worths.sums[:, :, 1] / np.where(unit > 0, unit, 1.0)[:, None, None]
