"""All groups at once: the region their disparities have a likelihood in, and contrasts where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from isonomy.frames import Design
from isonomy.groups.likelihood.comparison import Solver
from isonomy.groups.likelihood.joint import quadratic
from isonomy.groups.likelihood.lines import MetricRows
from isonomy.groups.likelihood.links import IDENTITY
from isonomy.groups.likelihood.reference import Reference, To
from isonomy.groups.likelihood.region import HANDFUL, Region, patterned
from isonomy.groups.likelihood.within import refuse_many
from isonomy.numerics.arrays import BoolArray, FloatArray


def independent_rows(sums: MetricRows) -> Design:
    """The rows as if they were independent of one another."""
    return Design(sums.mass, sums.mass, sums.mass, sums.counts, None)


def directions(assumed: FloatArray, most: int) -> int:
    """In how many directions, at most ``most``, contrasts with this covariance vary."""
    return min(most, quadratic(np.zeros(len(assumed)), assumed)[1])


def padded_weights(weights: FloatArray, df: int) -> FloatArray:
    """One weight for each of ``df`` directions.

    A 0/1 group all of whose rows are equal has a likelihood, and so counts in T and in its degrees of freedom, but its
    rows do not say how it varies. Where several groups leave directions open in this way, these have the mean weight.
    """
    return np.append(weights, np.full(df - weights.size, weights.mean() if weights.size else 1.0))


def contrasts_of(solver: Solver, columns: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """What is 0 if no group differs, of a metric that is no mean over rows; and what each line adds to it.

    Against a group or a number, the groups' differences from it. Else the groups of a partition are set beside the
    first of them: whether the value of all rows together follows from theirs depends on the metric.
    """
    values, influences, start = [], [], 0
    for side in solver.sides:
        size = side.status.size
        tested = np.flatnonzero(columns["tested"][start : start + size])
        refuse_many("groups", side.partition.codes.size, size)
        among = tested.size > 1 and solver.reference.to not in (To.GROUP, To.NUMBER)
        added = (compared_with_none(solver) if among else solver).influence(side).dense()[:, tested]
        means = columns["estimate"][start : start + size][tested]
        values.append(means[1:] - means[0] if among else means - side.reference[tested])
        influences.append(added[:, 1:] - added[:, :1] if among else added)
        start += size
    return np.concatenate(values), np.hstack(influences)


def compared_with_none(solver: Solver) -> Solver:
    """The same, for what lines add to a group's own value alone."""
    return replace(solver, reference=Reference(To.HIGHEST, True))


def equal_lines(sums: MetricRows, unvaried: BoolArray) -> BoolArray:
    """Lines of groups that are not tested because all their rows are equal; those of a reference that was named aside.

    Where the other groups have the mean of the population, so have they, and a likelihood takes that mean as known
    exactly: a group in which nobody happens to have lost anything would contradict every other.
    """
    start, equal = 0, np.zeros(sums.lines.value.size, dtype=bool)
    for partition in sums.partitions:
        size = len(partition.groups)
        equal |= np.append(unvaried[start : start + size], False)[partition.codes]
        start += size
    return equal if sums.in_reference is None else equal & ~sums.in_reference


def region_of(
    solver: Solver, columns: Mapping[str, Any], equal: BoolArray, dropped: BoolArray, min_size: int
) -> Region:
    """Lines, but for those ``dropped``, by which tested groups, and the reference, they belong to, in own units."""
    kept = ~dropped if dropped.any() else slice(None)
    sums, tested = solver.sums, columns["tested"]
    position = np.where(tested, np.cumsum(tested) - 1, -1)
    start, codes = 0, []
    for partition in sums.partitions:
        size = len(partition.groups)
        # Lines outside every tested group of this partition share one code.
        code = np.append(position[start : start + size], -1)[partition.codes]
        codes.append(code if sums.inside is None else np.where(sums.inside, code, -1))
        start += size
    chosen = np.zeros(sums.lines.value.size) if sums.in_reference is None else sums.in_reference
    pattern, slots, referent = patterned([code[kept] for code in codes], chosen[kept].astype(np.intp))
    reference, joint = solver.reference, solver.reference.joint
    if reference.to in (To.POPULATION, To.REST):
        outside = slots.max(axis=1, initial=-1)[pattern] < 0
        few = 0 < float(sums.mass[kept][outside].sum()) < min(min_size, HANDFUL)
        referent = np.full(referent.size, 0.0 if few or equal[kept][outside].any() else 1.0)
    elif reference.to.best:  # the tested groups are compared with each other
        referent = np.zeros(referent.size)
    units, lines = sums.lines.standard(sums.inside)
    weight, influence = (None if part is None else part[kept] for part in (lines.weight, lines.influence))
    lines = replace(lines, value=lines.value[kept], weight=weight, influence=influence)
    value = None if reference.estimate is None or not joint else np.array(reference.estimate.value)
    return Region(
        groups=int(tested.sum()),
        method=solver.method,
        lines=lines if joint else replace(lines, influence=None),
        pattern=pattern,
        slots=slots,
        referent=referent,
        theta=None if joint else units.standard(columns["reference_value"][tested]),
        estimate=None if value is None else float(units.standard(value)),
        rest=reference.to is To.REST,
        least=min_size,
        unit=units.scale,
        centre=units.zero if solver.link is not IDENTITY else 0.0,
        scale=solver.link.name,
    )
