"""Rows with weights, propensities, strata or clusters: their masses, and the influence of each on errors and biases.

Known propensities and strata of the randomization are weights: a treated row stands for 1 / p people of its group, a
control row for 1 / (1 - p). Means are then weighted by mass (Hajek), and every estimate is a smooth function of them.
Its variance is the sum over clusters of squared sums of influences, as in `isonomy.inference.designs`.

A sample of C clusters is resampled as C - 1 of them, with replacement (Rao and Wu 1988): the variance of a mean over
such samples is the usual estimate, without the factor (C - 1) / C that drawing C clusters would leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from isonomy.effects.estimators.collapse import Formula, Pieces
from isonomy.effects.estimators.errors import Errors, errors_of, pieces_of
from isonomy.effects.estimators.moments import BLOCK, ArmMoments, ExperimentRows, Sums, column
from isonomy.effects.estimators.ratio import Gap, Ratio, of_others
from isonomy.frames.design import Clusters, Design
from isonomy.inference.designs import FEWEST, Influence, Law, Spread, spread
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray


def shares_within(group: IntArray, stratum: IntArray, arm: IntArray, mass: FloatArray) -> FloatArray:
    """The treated share of each line's stratum within its group; 0 or 1 where the stratum has one arm."""
    _, cell = np.unique(group * (int(stratum.max(initial=0)) + 1) + stratum, return_inverse=True)
    total, treated = np.bincount(cell, mass), np.bincount(cell, mass * arm)
    share: FloatArray = (treated / total)[cell]
    return share


@dataclass(frozen=True, slots=True, eq=False)
class RandomizedStrata:
    """Strata of the randomization, line by line (all 0 if there are none), and the chance of each line's own arm."""

    code: IntArray
    chance: FloatArray


def laws_of(
    lines: ExperimentRows,
    design: Design,
    errors: Errors,
    formula: Formula,
    moments: ArmMoments,
    strata: RandomizedStrata,
) -> tuple[Law, Law, Spread]:
    """The laws of the errors and of the biases of one partition, and the sums over clusters behind the latter.

    ``lines`` has that partition alone.
    """
    ((group, groups),) = lines.groups
    own = pieces_of(moments, formula)
    bottom, parts = own.bottom, _parts(lines, own, moments, strata)
    size = moments.n.sum(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        b = errors.error.value
        error = np.nan_to_num((parts[0] - b[group] * parts[1]) / bottom.value[group])
        usable, rest = errors.in_rest, errors.rest
        total = of_others(size, usable) * rest.bottom
        base = _base(parts, own, size, group, usable)
        loading = np.nan_to_num(np.stack([-1 / total, rest.value / total]))
    shared = np.einsum("li,il->l", base, loading[:, group])
    gap = Gap(errors.error, errors.rest)
    alone = spread(design, Influence.of_groups(group, error, groups))
    both = spread(design, Influence.of_groups(group, error - shared, groups, base, loading, usable[group]))
    return alone.law(errors.error.variance), both.law(gap.se**2), both


def together(
    lines: ExperimentRows,
    design: Design,
    errors: Errors,
    formula: Formula,
    moments: ArmMoments,
    strata: RandomizedStrata,
) -> Ratio:
    """All groups as one, under the law of the design; ``errors`` are those without it."""
    ((group, _),) = lines.groups
    own, size = pieces_of(moments, formula), moments.n.sum(-1)
    base = _base(_parts(lines, own, moments, strata), own, size, group, errors.usable)
    whole = errors.error.together(size, errors.usable)
    with np.errstate(divide="ignore", invalid="ignore"):
        influence = (base[:, 0] - whole.value * base[:, 1]) / (whole.bottom * size[errors.usable].sum())
    law = spread(design, Influence.of(np.nan_to_num(influence))).law(whole.variance)
    return whole.under(law.effect, law.df)


def _parts(
    lines: ExperimentRows, own: Pieces, moments: ArmMoments, strata: RandomizedStrata
) -> tuple[FloatArray, FloatArray]:
    """What a unit of each line's mass adds to the top and to the bottom of its group's error.

    Within strata, apart from what its stratum adds to both arms.
    """
    ((group, _),) = lines.groups
    values = np.stack([lines.values(column(name)) for name in moments.columns], -1)
    top, bottom = (
        _centered(values, lines, group, lines.arm, strata, moments, piece.gradient)
        for piece in (own.predicted - own.observed, own.bottom)
    )
    return top, bottom


def _base(
    parts: tuple[FloatArray, FloatArray], own: Pieces, size: FloatArray, group: IntArray, usable: BoolArray
) -> FloatArray:
    """What a unit of each line's mass adds to the sums over groups of size times top, and of size times bottom."""
    tops = (own.predicted.value - own.observed.value, own.bottom.value)
    base = np.stack([size[group] * part + top[group] for part, top in zip(parts, tops, strict=True)], -1)
    return np.nan_to_num(base * usable[group][:, None])


def _centered(
    values: FloatArray,
    lines: ExperimentRows,
    group: IntArray,
    arm: IntArray,
    strata: RandomizedStrata,
    moments: ArmMoments,
    gradient: FloatArray | None,
) -> FloatArray:
    """The influence of one unit of each line's mass on a smooth function of arm means."""
    assert gradient is not None
    n = np.maximum(moments.n, 1e-300)
    if not strata.code.any():
        centered = values - moments.mean[group, arm]
        return np.einsum("lk,lk->l", gradient[group, arm], centered) / n[group, arm]
    width = int(strata.code.max()) + 1
    cell = group * width + strata.code
    place = cell * 2 + arm
    cells = moments.n.shape[0] * width
    mass = np.bincount(place, lines.weight, 2 * cells).reshape(cells, 2)
    sums = [np.bincount(place, lines.weight * v, 2 * cells).reshape(cells, 2) for v in values.T]
    mean = np.stack(sums, -1) / np.maximum(mass, 1e-300)[..., None]
    owner = np.arange(cells) // width
    within = np.einsum("lk,lk->l", gradient[group, arm], values - mean[cell, arm]) / n[group, arm]
    # A row of a stratum moves the stratum's share, and with it the means of both arms. A row has mass 1 / chance.
    between = (np.einsum("cak,cak->ca", gradient[owner], mean - moments.mean[owner]) / n[owner]).sum(-1)
    return within + between[cell] * strata.chance


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Sums of masses by bucket, and the lines behind them. All lines of a cluster are in one bucket."""

    sums: Sums
    lines: ExperimentRows  # of this partition alone; what a line weighs is its mass
    cluster: IntArray  # number of each line's cluster
    bucket: IntArray

    def part(self, buckets: IntArray) -> Clustered:
        """The same over the given buckets only."""
        chosen = np.isin(self.bucket, buckets)
        ((group, groups),) = self.lines.groups
        lines = ExperimentRows(
            factors={name: values[chosen] for name, values in self.lines.factors.items()},
            arm=self.lines.arm[chosen],
            kind=self.lines.kind[chosen],
            weight=self.lines.weight[chosen],
            groups=((group[chosen], groups),),
        )
        codes = np.unique(self.cluster[chosen], return_inverse=True)[1]
        return Clustered(self.sums.part(buckets), lines, codes, np.zeros(codes.size, dtype=np.intp))

    @property
    def rows(self) -> FloatArray:
        """Lines of each group."""
        ((group, groups),) = self.lines.groups
        return np.bincount(group, minlength=groups).astype(float)

    def moments(self) -> ArmMoments:
        """Moments of each group."""
        return self.sums.moments()

    def errors(self, formula: Formula) -> Errors:
        """Errors and biases, held against the law of the design."""
        moments, mass, size = self.moments(), self.lines.weight, self.cluster.size
        errors = errors_of(moments, formula)
        if not size:  # fewer clusters than buckets: this half has none
            return errors
        design = Design(mass, mass**2, mass**4, np.ones(size), Clusters.of_rows(self.cluster, mass))
        strata = RandomizedStrata(np.zeros(size, dtype=np.intp), np.full(size, 0.5))
        error, bias, totals = laws_of(self.lines, design, errors, formula, moments, strata)
        return errors.under(error, bias, totals.effective < FEWEST)

    def resampled(self, resamples: int, rng: np.random.Generator) -> ArmMoments:
        """Moments (means only) of ``resamples`` samples of whole clusters."""
        ((group, groups),) = self.lines.groups
        columns, number, size = self.sums.columns, int(self.cluster.max(initial=-1)) + 1, self.cluster.size
        values = [np.ones(size), *(self.lines.values(column(name)) for name in columns)]
        place = group * 2 + self.lines.arm
        rows = np.concatenate([place + k * 2 * groups for k in range(len(values))])
        entries = np.concatenate([self.lines.weight * value for value in values])
        shape = (2 * groups * len(values), number)
        totals = sparse.csr_array((entries, (rows, np.tile(self.cluster, len(values)))), shape=shape)
        drawn = np.zeros((resamples, len(values), groups, 2))
        step = max(1, BLOCK // max(number, 1))
        for first in range(0, resamples if number > 1 else 0, step):
            last = min(resamples, first + step)
            chosen = [rng.integers(0, number, number - 1) for _ in range(first, last)]
            draws = np.stack([np.bincount(sample, minlength=number).astype(np.float64) for sample in chosen], -1)
            drawn[first:last] = (totals @ draws).T.reshape(last - first, *drawn.shape[1:])
        return ArmMoments.from_sums(columns, drawn[:, 0], np.moveaxis(drawn[:, 1:], 1, -1), None)
