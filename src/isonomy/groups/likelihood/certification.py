"""All groups at once: the region of their disparities, small-sample corrections, and contrasts without a likelihood.

A joint T is divided by the mean of T over its degrees of freedom (Bartlett). At the estimates the rank of the
estimating functions may be another one, if it depends on the disparities, as against the population. So the rows are
first made to meet the tested null, and each resample is tested at that null.

Whether a joint test needs the correction follows from the second-order term of T. The mean of T over its degrees of
freedom is about 1 + A, with A the mean over groups of a/n (`variants`): T is chi-square times 1 + A, so a nominal level
becomes P(χ² > critical / (1 + A)). With many degrees of freedom a small A matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from isonomy.frames import Design
from isonomy.groups.likelihood.comparison import Solver
from isonomy.groups.likelihood.joint import Joint, quadratic
from isonomy.groups.likelihood.lines import Lines, MetricRows, refuse_many
from isonomy.groups.likelihood.means import IDENTITY, Binary, Real
from isonomy.groups.likelihood.profile import SKEWED, bartlett_constant, mean_of_usable
from isonomy.groups.likelihood.region import HANDFUL, Region, patterned
from isonomy.groups.options import Reference, To
from isonomy.numerics.arrays import BoolArray, FloatArray
from isonomy.numerics.tails import chi2_isf, chi2_sf

# Lines of all resamples of a joint test that are in memory at once.
BLOCK = 2_000_000
# The correction is needed if the level would be missed by more than this factor.
MISSED = 1.1
# Lines of all resamples, and the fewest resamples worth drawing; beyond that, the closed form is used.
LINES, FEWEST = 20_000_000, 100
# Overlapping groups are solved one resample at a time: this many, and only if the p-value may depend on them.
SLOW, SETTLED = 200, 1e-6


def independent_rows(sums: MetricRows) -> Design:
    """The rows as if they were independent of one another."""
    return Design(sums.mass, sums.mass, sums.mass, sums.counts, None)


def directions(assumed: FloatArray, most: int) -> int:
    """The number of directions, at most ``most``, in which contrasts with this covariance vary."""
    return min(most, quadratic(np.zeros(len(assumed)), assumed)[1])


def padded_weights(weights: FloatArray, df: int) -> FloatArray:
    """One weight for each of ``df`` directions.

    A 0/1 group with equal rows has a likelihood, and so counts in T and in its degrees of freedom, but its rows do not
    show how it varies. Directions that several such groups leave open get the mean weight.
    """
    return np.append(weights, np.full(df - weights.size, weights.mean() if weights.size else 1.0))


def whitened(influences: Sequence[FloatArray], sizes: Sequence[int]) -> FloatArray:
    """The influence of each line on several metrics' statistics, with the columns of a metric uncorrelated.

    ``influences`` hold the influence of each line (a row, times the root of its mass) on the disparities of one metric,
    which vary in ``sizes[i]`` directions.
    """
    parts = []
    for values, size in zip(influences, sizes, strict=True):
        scale, vectors = np.linalg.eigh(values.T @ values)
        parts.append(values @ (vectors[:, scale.size - size :] / np.sqrt(scale[scale.size - size :])))
    return np.hstack(parts)


def without_reference(solver: Solver) -> Solver:
    """The same groups, for the influence of lines on a group's own value."""
    return replace(solver, reference=Reference(To.HIGHEST, True))


def contrasts_of(solver: Solver, columns: Mapping[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Contrasts that are 0 if no group differs, for a metric that is not a mean over rows; and each line's influence.

    Against a group or a number, these are the groups' differences from it. Otherwise the groups of a partition are
    compared with its first group: whether the value of all rows follows from theirs depends on the metric.
    """
    values, influences, start = [], [], 0
    for side in solver.sides:
        size = side.status.size
        tested = np.flatnonzero(columns["tested"][start : start + size])
        refuse_many("groups", side.partition.codes.size, size)
        among = tested.size > 1 and solver.reference.to not in (To.GROUP, To.NUMBER)
        influence = (without_reference(solver) if among else solver).influence(side).dense()[:, tested]
        means = columns["estimate"][start : start + size][tested]
        values.append(means[1:] - means[0] if among else means - side.reference[tested])
        influences.append(influence[:, 1:] - influence[:, :1] if among else influence)
        start += size
    return np.concatenate(values), np.hstack(influences)


def equal_lines(sums: MetricRows, unvaried: BoolArray) -> BoolArray:
    """Lines of groups that are not tested because all their rows are equal, except those of a named reference.

    If the other groups have the mean of the population, so do these, and a likelihood takes that mean as known exactly:
    a group in which nobody happens to have a loss would contradict every other group.
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
    """The region of all lines except those ``dropped``, by the tested groups, and the reference, that they are in."""
    used = ~dropped if dropped.any() else slice(None)
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
    pattern, slots, referent = patterned([code[used] for code in codes], chosen[used].astype(np.intp))
    reference, joint = solver.reference, solver.reference.joint
    if reference.to in (To.POPULATION, To.REST):
        outside = slots.max(axis=1, initial=-1)[pattern] < 0
        few = 0 < float(sums.mass[used][outside].sum()) < min(min_size, HANDFUL)
        referent = np.full(referent.size, 0.0 if few or equal[used][outside].any() else 1.0)
    elif reference.to.best:  # the tested groups are compared with each other
        referent = np.zeros(referent.size)
    units, lines = sums.lines.standard(sums.inside)
    weight, influence = (None if part is None else part[used] for part in (lines.weight, lines.influence))
    value = None if reference.estimate is None or not joint else np.array(reference.estimate.value)
    return Region(
        groups=int(tested.sum()),
        method=solver.method,
        lines=replace(lines, value=lines.value[used], weight=weight, influence=influence if joint else None),
        pattern=pattern,
        slots=slots,
        referent=referent,
        theta=None if joint else units.standard(columns["reference_value"][tested]),
        estimate=None if value is None else float(units.standard(value)),
        rest=reference.to is To.REST,
        least=min_size,
        unit=units.scale,
        center=units.zero if solver.link is not IDENTITY else 0.0,
        scale=solver.link.name,
    )


# ---- small samples


def joint_factor(region: Region, joint: Joint, target: FloatArray, resamples: int, rng: np.random.Generator) -> float:
    """The mean of T over its degrees of freedom under the null, by which T is divided; NaN if it is not available.

    In closed form for known references of disjoint groups, by resampling otherwise.
    """
    if not joint.df:
        return 1.0
    if region.theta is not None and region.disjoint:
        groups, every = region.group_means(), np.arange(region.groups)
        return 1.0 + float(np.mean(bartlett_constant(groups, every) / groups.n[every]))
    if joint.scale is None or joint.move is None:
        return np.nan
    pattern, lines = region.lines.collapsed(region.pattern)
    null = meeting_null(replace(region, pattern=pattern, lines=lines), joint.scale, joint.move)
    mass, inner = null.lines.mass, region.inner(target)
    rows, chance = round(float(mass.sum())), mass / mass.sum()
    usable: list[float] = []
    step = max(1, BLOCK // chance.size)
    for start in range(0, resamples, step):
        counts = rng.multinomial(rows, chance, size=min(step, resamples - start)).astype(float)
        tests = _resampled_tests(null, counts, inner)
        usable += [statistic for statistic, df in tests if df == joint.df and np.isfinite(statistic)]
    return mean_of_usable(usable, resamples) / joint.df


def meeting_null(region: Region, scale: FloatArray, move: FloatArray) -> Region:
    """The region with rows that meet a null exactly: reweighted (0/1), or moved pattern by pattern (any other)."""
    lines = region.lines
    if lines.binary and lines.influence is None:
        data = region.patterns
        filled = np.flatnonzero(data.n > 0)
        ones = np.clip((data.first[0, filled] / data.n[filled]) + move[0, filled], 0.0, 1.0)
        weight = (data.n * scale)[filled, None] * np.column_stack([1.0 - ones, ones])
        value = np.tile([0.0, 1.0], filled.size)
        return replace(region, pattern=np.repeat(filled, 2), lines=Lines(True, value, weight.ravel()))
    influence = None if lines.influence is None else lines.influence + move[1, region.pattern]
    value = lines.value + move[0, region.pattern]
    return replace(region, lines=Lines(lines.binary, value, lines.mass * scale[region.pattern], influence))


def _resampled_tests(region: Region, counts: FloatArray, target: FloatArray) -> list[tuple[float, int]]:
    """T and its degrees of freedom in each resample, a row of ``counts``."""
    if region.quick(target):
        which, line = np.nonzero(counts)
        problem = region.shifted(target, which, line, counts[which, line], counts.shape[0])
        return list(zip(problem.solve()[0].tolist(), problem.df.tolist(), strict=True))
    tests, lines = [], region.lines
    for resample in counts:
        drawn = resample > 0
        influence = None if lines.influence is None else lines.influence[drawn]
        again = Lines(lines.binary, lines.value[drawn], resample[drawn], influence)
        joint = replace(region, pattern=region.pattern[drawn], lines=again).solve(target)
        tests.append((joint.statistic, joint.df))
    return tests


def second_order_term(region: Region) -> float:
    """A: the mean over the tested groups of a/n."""
    terms = []
    for column in region.slots.T:
        groups = np.unique(column[column >= 0])
        means = region.lines.means(column[region.pattern], region.groups)
        if isinstance(means, Binary):
            # No group's true rate is 0 or 1 if others' are not: add half a row on each side.
            means = Binary(means.n + 1.0, means.ones + 0.5)
        terms.append(bartlett_constant(means, groups) / means.n[groups])
    every = np.concatenate(terms) if terms else np.zeros(0)
    return float(every.mean()) if every.size else 0.0


def automatic_factor(
    region: Region, joint: Joint, target: FloatArray, alpha: float, resamples: int, rng: np.random.Generator
) -> float:
    """The factor by which T is divided if the level would be missed, else 1; NaN if needed but not available."""
    if not joint.df:
        return 1.0
    closed = 1.0 + second_order_term(region)
    if chi2_sf(float(chi2_isf(alpha, joint.df)) / closed, joint.df) <= MISSED * alpha:
        return 1.0
    known = region.theta is not None
    if known and region.disjoint and isinstance(means := region.group_means(), Real):
        # Skewed groups err in the same direction, which resampling accounts for if they are compared with each other,
        # but no factor does if they are compared with a number.
        m2, m3, n = means.moments.central(2)[:-1], means.moments.central(3)[:-1], means.n[:-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            if SKEWED * np.where(m2 > 0, m3**2 / m2**3 / n, 0.0).mean() > 1:
                return np.nan
    number = min(resamples, max(LINES // max(region.pattern.size, 1), 1))
    if not np.isfinite(joint.statistic) or number < FEWEST:
        return closed
    if not known and not region.quick(region.inner(target)):
        plain, corrected = (float(chi2_sf(joint.statistic / factor, joint.df)) for factor in (1.0, closed))
        if plain > alpha or corrected < SETTLED:
            return closed
        number = min(number, SLOW)
    if known and not region.disjoint:
        number = min(number, SLOW)
    return joint_factor(region, joint, target, number, rng)
