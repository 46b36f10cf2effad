"""Rows with weights, propensities, strata or clusters: their masses, and the influence of each on errors and biases.

Known propensities and strata of the randomization are weights: a treated row stands for 1 / p people of its group, a
control row for 1 / (1 - p). Means are then weighted by mass (Hajek), and every estimate is a smooth function of them.
Its variance is the sum over clusters of squared sums of influences, as in `isonomy.inference.designs`.

A sample of C clusters is resampled as C - 1 of them, with replacement (Rao and Wu 1988): the variance of a mean over
such samples is the usual estimate, without the factor (C - 1) / C that drawing C clusters would leave.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from isonomy.effects.estimators.collapse import Formula, pieces
from isonomy.effects.estimators.errors import Errors, errors_of
from isonomy.effects.estimators.moments import BLOCK, ArmMoments, ExperimentRows, Sums
from isonomy.effects.estimators.ratio import all_groups, total_of_others, under
from isonomy.frames.design import Clusters, Design
from isonomy.inference.designs import FEWEST, Influence, Spread, spread
from isonomy.inference.effect import Fieller
from isonomy.numerics.arrays import FloatArray, IntArray


def under_design(
    errors: Errors, lines: ExperimentRows, formula: Formula, moments: ArmMoments
) -> tuple[Errors, Fieller, Spread]:
    """Errors under the law of the design, all groups as one, and the sums over clusters behind the biases.

    ``lines`` has one partition alone, with its design; ``errors`` are those without the design.
    """
    ((group, groups),) = lines.groups
    assert lines.design is not None
    predicted, observed, bottom = pieces(moments, formula)
    values = np.stack([lines.values(name) for name in moments.columns], -1)
    tops = (predicted - observed, bottom)
    # What a unit of each line's mass adds to the top and bottom of its group's error, and to the sums over groups of
    # size times top and size times bottom.
    parts = [_influence(values, lines, moments, smooth.gradient) for smooth in tops]
    size = moments.n.sum(-1)
    added = [size[group] * part + smooth.value[group] for part, smooth in zip(parts, tops, strict=True)]

    usable, rest = errors.in_rest, errors.rest
    with np.errstate(divide="ignore", invalid="ignore"):
        error = np.nan_to_num((parts[0] - errors.error.value[group] * parts[1]) / bottom.value[group])
        total = total_of_others(size, usable) * rest.bottom
        loading = np.nan_to_num(np.stack([-1 / total, rest.value / total]))
        base = np.nan_to_num(np.stack(added, -1) * usable[group][:, None])
        shared = np.einsum("li,il->l", base, loading[:, group])
        whole = all_groups(errors.error, size, errors.usable)
        answered = np.nan_to_num(np.stack(added, -1) * errors.usable[group][:, None])
        influence = (answered[:, 0] - whole.value * answered[:, 1]) / (whole.bottom * size[errors.usable].sum())
    alone = spread(lines.design, Influence.from_groups(group, error, groups))
    both = spread(lines.design, Influence.from_groups(group, error - shared, groups, base, loading, usable[group]))
    law = spread(lines.design, Influence.from_values(np.nan_to_num(influence))).law(whole.standard_error**2)
    laws = alone.law(errors.error.standard_error**2), both.law(errors.gap.standard_error**2)
    return errors.under(*laws, both.effective < FEWEST), under(whole, law), both


def _influence(values: FloatArray, lines: ExperimentRows, moments: ArmMoments, gradient: FloatArray) -> FloatArray:
    """The influence of one unit of each line's mass on a smooth function of arm means.

    Within strata, apart from what its stratum adds to both arms.
    """
    ((group, _),) = lines.groups
    arm, stratum = lines.arm, lines.stratum
    assert stratum is not None
    n = np.maximum(moments.n, 1e-300)
    if not stratum.any():
        centered = values - moments.mean[group, arm]
        return np.einsum("lk,lk->l", gradient[group, arm], centered) / n[group, arm]
    width = int(stratum.max()) + 1
    cell, cells = group * width + stratum, moments.n.shape[0] * width
    columns = [np.ones(arm.size), *values.T]
    mass, *sums = (np.bincount(cell * 2 + arm, lines.weight * v, 2 * cells).reshape(cells, 2) for v in columns)
    mean = np.stack(sums, -1) / np.maximum(mass, 1e-300)[..., None]
    owner = np.arange(cells) // width
    within = np.einsum("lk,lk->l", gradient[group, arm], values - mean[cell, arm]) / n[group, arm]
    # A row of a stratum moves the stratum's share, and with it the means of both arms. A row has mass 1 / chance.
    between = (np.einsum("cak,cak->ca", gradient[owner], mean - moments.mean[owner]) / n[owner]).sum(-1)
    return np.asarray(within + between[cell] * lines.chance)


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Sums of masses by bucket, and the lines behind them. All lines of a cluster are in one bucket."""

    sums: Sums
    lines: ExperimentRows  # of this partition alone; weights are masses
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

    def moments(self) -> ArmMoments:
        """Moments of each group."""
        return self.sums.moments()

    def errors(self, formula: Formula) -> Errors:
        """Errors and biases under the law of the design."""
        moments, mass, size = self.moments(), self.lines.weight, self.cluster.size
        errors = errors_of(moments, formula)
        if not size:  # fewer clusters than buckets: this half has none
            return errors
        design = Design(mass, mass**2, mass**4, np.ones(size), Clusters.from_rows(self.cluster, mass))
        lines = replace(self.lines, design=design, stratum=np.zeros(size, dtype=np.intp), chance=np.full(size, 0.5))
        return under_design(errors, lines, formula, moments)[0]

    def resampled(self, resamples: int, rng: np.random.Generator) -> ArmMoments:
        """Moments (means only) of ``resamples`` samples of whole clusters."""
        ((group, groups),) = self.lines.groups
        columns, number, size = self.sums.columns, int(self.cluster.max(initial=-1)) + 1, self.cluster.size
        values = [np.ones(size), *map(self.lines.values, columns)]
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
