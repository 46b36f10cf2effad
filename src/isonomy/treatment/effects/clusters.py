"""Rows of one partition with weights or clusters: parts of them are whole clusters, and so is what is drawn from them.

A sample of C clusters is drawn again as C - 1 of them, with replacement (Rao and Wu 1988): the variance of a mean over
such samples is the usual estimate, without the factor (C - 1) / C that drawing C of them would leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from isonomy.frames.design import Clusters, Design
from isonomy.inference.designs import FEWEST
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.treatment.effects.collapse import Formula
from isonomy.treatment.effects.designs import Strata, laws_of
from isonomy.treatment.effects.errors import Errors, errors_of
from isonomy.treatment.effects.moments import Moments, column
from isonomy.treatment.effects.sums import Lines, Sums

_BLOCK = 4_000_000  # numbers held at once


@dataclass(frozen=True, slots=True, eq=False)
class Clustered:
    """Sums of masses by bucket, and the lines behind them. All lines of a cluster are in one bucket."""

    sums: Sums
    lines: Lines  # of this partition alone; what a line weighs is its mass
    cluster: IntArray  # number of each line's cluster
    bucket: IntArray

    def part(self, buckets: IntArray) -> Clustered:
        """The same over the given buckets only."""
        chosen = np.isin(self.bucket, buckets)
        ((group, groups),) = self.lines.groups
        lines = Lines(
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

    def moments(self) -> Moments:
        """Moments of each group."""
        return self.sums.moments()

    def errors(self, formula: Formula) -> Errors:
        """Errors and biases, held against the law of the design."""
        moments, mass, size = self.moments(), self.lines.weight, self.cluster.size
        errors = errors_of(moments, formula)
        if not size:  # fewer clusters than buckets: this half has none
            return errors
        design = Design(mass, mass**2, mass**4, np.ones(size), Clusters.of_rows(self.cluster, mass))
        strata = Strata(np.zeros(size, dtype=np.intp), np.full(size, 0.5))
        error, bias, totals = laws_of(self.lines, design, errors, formula, moments, strata)
        return errors.under(error, bias, totals.effective < FEWEST)

    def resampled(self, resamples: int, rng: np.random.Generator) -> Moments:
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
        step = max(1, _BLOCK // max(number, 1))
        for first in range(0, resamples if number > 1 else 0, step):
            last = min(resamples, first + step)
            draws = np.stack([_drawn(number, rng) for _ in range(first, last)], -1)
            drawn[first:last] = (totals @ draws).T.reshape(last - first, *drawn.shape[1:])
        return Moments.from_sums(columns, drawn[:, 0], np.moveaxis(drawn[:, 1:], 1, -1), None)


def _drawn(number: int, rng: np.random.Generator) -> FloatArray:
    """How often each cluster is in one sample."""
    return np.bincount(rng.integers(0, number, number - 1), minlength=number).astype(np.float64)
