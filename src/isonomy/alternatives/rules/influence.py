"""What each row contributes to every utility, and the covariance of the utilities that follows.

A group's utility is R = U / W, sums over the rows it is judged on. With t the cut-off at which the share k of these
rows is selected, d the decision and m = E[1_g (du - R dw) | score = t] (du, dw: what selecting a row adds to u and w),

    influence of a row on R = (1_g (u - R w) - m (d - k)) / E[1_g w].

The second part is the error of a cut-off that was learned from the same rows. The density of scores at the cut-off
cancels: only a mean over the rows near it is needed. It is 0 if nothing was learned.

With more than two groups the status quo's worst pair q is unknown, and a pair chosen and judged on the same rows looks
too unequal. With noise e drawn from the law of the estimates, q is chosen on the estimates plus e and judged on the
estimates minus e, which are independent (data fission: Leiner, Duan, Wasserman and Ramdas 2025). The mean over e uses
all rows and depends on no draw. Its expectation is at most the largest gap. Its variance is taken to be that of the
pair's gap, and was smaller in all simulations, including ties of up to 25 pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from isonomy.alternatives.rules.algorithm import Mass, Selection
from isonomy.alternatives.rules.utilities import CANDIDATE, STATUS_QUO, Criteria, group_sums
from isonomy.inference.multiplicity import RANK_TOLERANCE
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

BLOCK = 2**16  # lines whose influence values are held at once
NOISE = 4_096  # points of the mean over the noise that chooses the worst pair: the same for every seed


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """The lines two algorithms are judged on, and what the decisions of both are worth there.

    ``selections`` are the status quo's and the candidate's. ``weight`` is the total weight of a line, ``squares`` the
    sum of the squared weights of its rows (the same if rows weigh 1). Utilities are linear in a 0/1 decision, so a
    randomized decision is worth the mean of both.
    """

    criteria: Criteria
    features: Mapping[str, FloatArray]
    outcomes: Mapping[str | None, FloatArray]
    group: IntArray
    weight: Mass
    selections: tuple[Selection, Selection]
    squares: FloatArray | None = None
    cluster: IntArray | None = None
    values: FloatArray = field(init=False)  # u and w: (lines, utilities, 2 algorithms, 2)
    slopes: FloatArray = field(init=False)  # what selecting adds to u and w, 0 for prices: (lines, utilities, 2)
    sums: FloatArray = field(init=False)  # of the values, by group: (utilities, 2 algorithms, 2, groups)

    def __post_init__(self) -> None:
        values, slopes = [], []
        shares = [selection.share for selection in self.selections]
        for utility in self.criteria.utilities:
            y = self.outcomes[utility.outcome]
            decisions = [np.full(len(y), d) for d in (0.0, 1.0)] if utility.binary else shares
            first, second = (np.stack(utility.values(self.features, y, d), axis=-1) for d in decisions)
            slopes.append(second - first if utility.binary else np.zeros((len(y), 2)))
            both = [first + share[:, None] * slopes[-1] for share in shares] if utility.binary else [first, second]
            values.append(np.stack(both, axis=1))
        object.__setattr__(self, "values", np.stack(values, axis=1))
        object.__setattr__(self, "slopes", np.stack(slopes, axis=1))
        sums = group_sums(self.values, self.group, self.weight, len(self.criteria.labels))
        object.__setattr__(self, "sums", sums)

    @property
    def rows(self) -> int:
        return round(float(self.weight.sum()))

    @property
    def real(self) -> BoolArray:
        """Which utilities have values other than 0 and 1."""
        shares = np.stack([selection.share for selection in self.selections], axis=-1)[:, None]
        slope = self.slopes[:, :, None, 0]
        no = self.values[..., 0] - shares * slope
        return ~np.all([np.isin(np.round(u, 9), (0.0, 1.0)).all(axis=(0, 2)) for u in (no, no + slope)], axis=0)

    @property
    def effective_clusters(self) -> FloatArray:
        """The effective number of clusters of each group, by weight; infinite without clusters."""
        if self.cluster is None:
            return np.full(len(self.criteria.labels), np.inf)
        size = np.zeros((int(self.cluster.max()) + 1, len(self.criteria.labels)))
        np.add.at(size, (self.cluster, self.group), self.weight)
        return np.asarray(size.sum(axis=0) ** 2 / (size**2).sum(axis=0))

    @property
    def denominators(self) -> FloatArray:
        """Rows in every denominator (utilities, 2, groups). The largest w counts as one row, whatever the unit of w."""
        slope = self.slopes[:, :, None, 1]
        shares = np.stack([selection.share for selection in self.selections], axis=-1)[:, None]
        no = self.values[..., 1] - shares * slope
        unit = np.maximum(no, no + slope).max(axis=(0, 2))
        return self.sums[:, :, 1] / np.where(unit > 0, unit, 1.0)[:, None, None]


@dataclass(frozen=True, slots=True, eq=False)
class RateMoments:
    """Estimates and their covariance: rates (utilities, 2, groups), pooled accuracies, the status quo's worst gaps."""

    estimates: FloatArray
    covariance: FloatArray
    rows: int
    worst: tuple[int, ...]  # the status quo's worst pair, for each fairness utility
    df: float = np.inf
    spread: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))  # estimates as forms of rates and accuracies


def moments(judged: Judged, worst: Sequence[int] | None = None) -> RateMoments:
    """Every estimate with its covariance. ``worst``: the status quo's worst pairs, if chosen on other rows."""
    criteria, cluster = judged.criteria, judged.cluster
    u, w = np.moveaxis(judged.sums, 2, 0).reshape(2, -1)
    if isinstance(criteria.weights, str):
        total = judged.sums[0].sum(axis=-1)
        u, w = np.append(u, total[:, 0]), np.append(w, total[:, 1])
    estimates = np.divide(u, w, out=np.zeros_like(u), where=w > 0)  # pooled accuracy needs no group's own
    size, squares = len(estimates), judged.weight if judged.squares is None else judged.squares
    covariance = np.zeros((size, size))
    clusters = np.zeros((0 if cluster is None else int(cluster.max()) + 1, size))
    for part, residuals in _residuals(judged, estimates):
        psi = residuals / (np.where(w > 0, w, 1.0) / judged.rows)
        if cluster is None:
            covariance += psi.T @ (squares[part][:, None] * psi)
        else:
            np.add.at(clusters, cluster[part], judged.weight[part][:, None] * psi)
    if cluster is not None:
        covariance = clusters.T @ clusters * (len(clusters) / (len(clusters) - 1))
    covariance = covariance / judged.rows**2
    forms = gap_forms(criteria, size)[:, :, STATUS_QUO]  # (utilities, columns, pairs)
    fixed = (0,) * len(forms) if worst is None and forms.shape[2] == 1 else worst
    chosen = fixed or tuple(int(np.argmax(criteria.unfairness(estimates @ form))) for form in forms)
    gaps = [
        _worst_gap(criteria, estimates, covariance, form, None if fixed is None else fixed[k])
        for k, form in enumerate(forms)
    ]
    values, means, variances = zip(*gaps, strict=True)
    spread = np.concatenate([np.eye(size), np.stack(means)])
    whole = spread @ covariance @ spread.T
    places = np.arange(size, len(spread))
    whole[places, places] = variances
    df = float(judged.effective_clusters.min()) - 1
    return RateMoments(np.concatenate([estimates, values]), whole, judged.rows, tuple(chosen), df, spread)


def shapes(judged: Judged, known: RateMoments, forms: FloatArray) -> FloatArray:
    """Third and second central moments of linear ``forms`` (columns, forms) of the estimates: (2, 2, forms).

    By the influence of each row, and if the rows that either algorithm selects in a group are equally skewed: few rows
    without an outlier do not show how skewed an outcome is. Only utilities count whose values are not 0 and 1: those
    are judged by the rows in their denominators.
    """
    size, cells = known.spread.shape[1], judged.sums[:, :, 0].shape
    w = np.append(judged.sums[:, :, 1], judged.sums[0].sum(axis=-1)[:, 1])[:size]
    w = np.where(w > 0, w, 1.0)
    real = np.repeat(judged.real, cells[1] * cells[2])
    forms = known.spread.T @ forms * np.append(real, np.repeat(real[0], size - len(real)))[:, None]
    weight, cluster = judged.weight, judged.cluster
    squares = weight if judged.squares is None else judged.squares
    cubes = squares**2 / np.maximum(weight, 1e-300)
    # If equally skewed: the moments of u - R w per unit of w, over both algorithms.
    rates = known.estimates[: len(real)].reshape(cells)
    residual = judged.values[..., 0] - np.moveaxis(rates[..., judged.group], -1, 0) * judged.values[..., 1]
    null = []
    for power, mass in ((3, cubes), (2, squares)):
        both = np.stack([residual, judged.values[..., 1]], axis=-1) ** power
        top, bottom = np.moveaxis(group_sums(both, judged.group, mass, cells[2]), 2, 0)
        unit = top.sum(axis=1) / np.maximum(bottom.sum(axis=1), 1e-300)
        moments_of = bottom * unit[:, None]
        null.append(np.append(moments_of, moments_of[0].sum(axis=-1))[:size] / w**power @ forms**power)
    own = np.einsum("cf,cd,df->f", forms, known.covariance[:size, :size], forms)
    forms = forms / (w / judged.rows)[:, None]
    clusters = np.zeros((0 if cluster is None else int(cluster.max()) + 1, forms.shape[1]))
    third = np.zeros(forms.shape[1])
    for part, residuals in _residuals(judged, known.estimates[:size]):
        psi = residuals @ forms
        if cluster is None:
            third += cubes[part] @ psi**3
        else:
            np.add.at(clusters, cluster[part], weight[part][:, None] * psi)
    total = third if cluster is None else (clusters**3).sum(axis=0)
    return np.array([[total / judged.rows**3, own], null])


def regularity(judged: Judged, known: RateMoments) -> dict[str, float]:
    """What the paper's assumptions are about: see `ImprovabilityResult`."""
    cells, criteria = judged.sums[:, :, 0].shape, judged.criteria
    size = int(np.prod(cells))
    covariance = known.covariance[:size, :size]
    error = np.sqrt(np.diagonal(covariance))
    varies = np.flatnonzero(error > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        correlation = covariance / np.outer(error, error)
        place = np.arange(size).reshape(cells)
        pairs = correlation[place[:, STATUS_QUO], place[:, CANDIDATE]]
        forms = gap_forms(criteria, known.covariance.shape[0])[:, :, CANDIDATE]
        gaps = np.einsum("kcp,c->kp", forms, known.estimates)
        spread = np.sqrt(np.einsum("kcp,cd,kdp->kp", forms, known.covariance, forms))
        widest = np.argmax(np.abs(gaps), axis=1)
        distance = np.abs(np.take_along_axis(gaps / spread, widest[:, None], axis=1)).min()
    rows = np.bincount(judged.group, weights=judged.weight, minlength=cells[2])
    eigenvalue = float(np.linalg.eigvalsh(correlation[np.ix_(varies, varies)])[0]) if varies.size else 0.0
    return {
        "candidate_distance": float(distance),
        "correlation": float(np.nanmax(pairs)) if np.isfinite(pairs).any() else np.nan,
        "eigenvalue": eigenvalue if eigenvalue > RANK_TOLERANCE else 0.0,
        "least_share": float((judged.denominators / rows).min()),
    }


def changes(judged: Judged, known: RateMoments, form: FloatArray) -> FloatArray | None:
    """What each changed row adds to a gain: a linear ``form`` that the decisions of both algorithms enter alike.

    None if it has another form, or if decisions change its denominators.
    """
    cells, size = judged.sums[:, :, 0].shape, known.spread.shape[1]
    base = known.spread.T @ form
    by_group, pooled = base[: int(np.prod(cells))].reshape(cells), base[int(np.prod(cells)) : size]
    if np.abs(by_group.sum(axis=1)).max() > 1e-12 or abs(pooled.sum()) > 1e-12 or not base.any():
        return None
    used = np.append(by_group[:1, CANDIDATE].any() | pooled.any(), by_group[1:, CANDIDATE].any(axis=1))
    if np.any(judged.values[:, used, CANDIDATE, 1] != judged.values[:, used, STATUS_QUO, 1]):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = np.nan_to_num(by_group[:, CANDIDATE] / judged.sums[:, CANDIDATE, 1])
        overall = pooled[CANDIDATE] / judged.sums[0, CANDIDATE, 1].sum() if pooled.size else 0.0
    gained = judged.values[:, :, CANDIDATE, 0] - judged.values[:, :, STATUS_QUO, 0]
    return np.asarray(np.einsum("lk,kl->l", gained, unit[:, judged.group]) + overall * gained[:, 0])


def _residuals(judged: Judged, estimates: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
    """Blocks of lines with the numerators of their influence values: (lines, rates and both pooled accuracies)."""
    n_utilities, n_algorithms, _, n_groups = judged.sums.shape
    rates, pooled = np.split(estimates, [n_utilities * n_algorithms * n_groups])
    rates = rates.reshape(n_utilities, n_algorithms, n_groups)
    edges = []
    for a, selection in enumerate(judged.selections):
        near = group_sums(judged.slopes[:, :, None], judged.group, selection.edge, n_groups)
        du, dw = np.moveaxis(near[:, 0], 1, 0)  # (utilities, groups)
        m, m_pooled = np.zeros_like(rates), np.zeros_like(pooled)
        m[:, a] = du - rates[:, a] * dw
        m_pooled[a : a + 1] = du[0].sum() - pooled[a : a + 1] * dw[0].sum()
        edges.append(np.append(m, m_pooled))
    for start in range(0, len(judged.weight), BLOCK):
        part = slice(start, start + BLOCK)
        u, w = np.moveaxis(judged.values[part], -1, 0)  # (lines, utilities, algorithms)
        member = judged.group[part, None] == np.arange(n_groups)
        by_group = (u[..., None] - rates * w[..., None]) * member[:, None, None]
        pooled_part = u[:, 0, : len(pooled)] - pooled * w[:, 0, : len(pooled)]
        residuals = np.concatenate([by_group.reshape(len(u), -1), pooled_part], axis=1)
        for edge, selection in zip(edges, judged.selections, strict=True):
            residuals -= np.outer(selection.share[part] - selection.capacity, edge)
        yield part, residuals


def _worst_gap(
    criteria: Criteria, estimates: FloatArray, covariance: FloatArray, form: FloatArray, pair: int | None
) -> tuple[float, FloatArray, float]:
    """The gap of a known ``pair``, or of the worst: the estimate, the (mean) linear form behind it, and its variance.

    ``form`` has a column for each pair. The worst is chosen on the estimates plus noise, and judged on them minus it.
    Noise is assigned to groups in the order of their rates, so that the names of groups do not matter.
    """
    two_sided, gaps = criteria.protected is None, estimates @ form
    if pair is not None:
        side = -1.0 if two_sided and gaps[pair] < 0 else 1.0
        known = side * form[:, pair]
        return float(side * gaps[pair]), known, float(known @ covariance @ known)
    used = np.flatnonzero(form.any(axis=1))
    variances, vectors = np.linalg.eigh(covariance[np.ix_(used, used)])
    root = (vectors * np.sqrt(np.maximum(variances, 0.0))) @ vectors.T
    points = np.random.default_rng(0).standard_normal((NOISE // 2, len(used)))
    points[:, np.argsort(estimates[used], kind="stable")] = points.copy()
    noise = np.concatenate([points, -points]) @ root @ form[used]
    chosen = np.argmax(criteria.unfairness(gaps + noise), axis=1)
    rows = np.arange(NOISE)
    sign = np.where(two_sided & ((gaps + noise)[rows, chosen] < 0), -1.0, 1.0)
    value = float(np.mean(sign * (gaps - noise)[rows, chosen]))
    mean = form @ np.bincount(chosen, weights=sign, minlength=form.shape[1]) / NOISE
    share = np.bincount(chosen, minlength=form.shape[1]) / NOISE
    return value, mean, float(share @ np.einsum("cp,cd,dp->p", form, covariance, form))


def gap_forms(criteria: Criteria, columns: int) -> FloatArray:
    """Each gap as a linear form of the columns: (fairness utilities, columns, 2 algorithms, pairs)."""
    shape = (len(criteria.utilities), 2, len(criteria.labels))
    unit = np.eye(columns)[:, : int(np.prod(shape))].reshape(columns, *shape)
    return np.moveaxis(criteria.gaps(unit), 1, 0)
