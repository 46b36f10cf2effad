"""What lies behind a joint test: the weighting it implies, the shape of its region, and the bootstrap of its rivals.

Empirical likelihood gives row i the weight 1 / (1 + λ (x_i - μ)), relative to an equal share, where μ is the mean that
the null hypothesis asks for and λ the multiplier that yields it. Values with weights far from 1 carry the disparity.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.optimize import brentq

from isonomy.groups.likelihood.region import Region
from isonomy.numerics.arrays import FloatArray, IntArray

# Directions in which the boundary of a region of two groups is looked for.
DIRECTIONS = 32
# T is capped here: beyond the range of the values it is infinite, and a root finder needs numbers.
LARGEST = 1e9
# Counts of resampled lines that are in memory at once.
BLOCK = 4_000_000
# A region that reaches this many times the starting distance is unbounded.
FARTHEST = 2.0**40


def implied_weights(region: Region, group: int, target: FloatArray) -> tuple[FloatArray, ...] | None:
    """Value, rows, weight and multiplier of the distinct values of one tested group; None if no weighting exists.

    ``target`` holds the disparities tested. A group that overlaps others has one multiplier for each set of groups that
    its rows belong to, so a value can be listed several times.
    """
    target = region.inner(target)
    inside = np.flatnonzero((region.slots == group).any(axis=1))
    pattern, lines = region.lines.collapsed(region.pattern)
    means = lines.means(pattern, region.slots.shape[0])
    scale: FloatArray | None
    if region.theta is not None and region.disjoint:
        scale, mean = np.ones(region.slots.shape[0]), np.full(region.slots.shape[0], np.nan)
        mean[inside] = region.known(target, region.theta)[group]
    else:
        joint = region.solve(target)
        if joint.scale is None or joint.move is None:
            return None
        scale, mean = joint.scale, means.mean + joint.move[0]
    if not ((mean[inside] >= means.low[inside]) & (mean[inside] <= means.high[inside])).all():
        return None
    multiplier = np.zeros(scale.size)
    varied = inside[means.low[inside] < means.high[inside]]
    multiplier[varied] = means.locate(mean[varied], varied).multiplier
    chosen = np.flatnonzero(np.isin(pattern, inside))
    place, value = pattern[chosen], lines.value[chosen]
    weight = scale[place] / (1 + multiplier[place] * (value - mean[place]))
    return value * region.unit + region.origin, lines.mass[chosen], weight, multiplier[place] / region.unit


def of_groups(region: Region, groups: IntArray) -> Region:
    """The region of some groups, whatever the disparities of the others: their rows count as rows of no tested group.

    T of the restricted null hypothesis is the minimum of T over the disparities of the other groups.
    """
    place = np.full(region.groups + 1, -1)
    place[groups] = np.arange(groups.size)
    theta = None if region.theta is None else region.theta[groups]
    return replace(region, groups=groups.size, slots=place[region.slots], theta=theta)


def boundary(region: Region, center: FloatArray, spread: FloatArray, critical: float) -> FloatArray:
    """Where T crosses ``critical`` on the way from the estimates: two points for one group, a curve for two.

    Rows are points, columns the groups of ``region``; ``spread`` is a typical distance. Infinite if T stays below.
    """
    angle = np.linspace(0, 2 * np.pi, DIRECTIONS, endpoint=False)
    ways = np.array([[-1.0], [1.0]]) if region.groups == 1 else np.column_stack([np.cos(angle), np.sin(angle)])
    return np.array([center + _crossing(region, center, way * spread, critical) * way * spread for way in ways])


def _crossing(region: Region, center: FloatArray, step: FloatArray, critical: float) -> float:
    def above(distance: float) -> float:
        return min(region.test(center + distance * step).statistic, LARGEST) - critical

    end = np.sqrt(critical / max(above(1.0) + critical, critical / FARTHEST))  # T is nearly quadratic
    while above(end := 1.1 * end) < 0:
        end *= 2
        if end > FARTHEST:
            return np.inf
    return float(brentq(above, 0.0, end, xtol=1e-6 * end))


def bootstrap_bound(region: Region, alpha: float, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Half the width of each group's interval in Cherian and Candès' simultaneous bootstrap region.

    The region is |e_j - truth_j| <= t / P_j² with the groups' shares P_j, and t the 1 - alpha quantile, over resamples,
    of max_j P_j P*_j (e*_j - e_j). P*_j (e*_j - e_j) is the sum of the drawn rows' deviations from e_j, divided by n.
    """
    pattern, lines = region.lines.collapsed(region.pattern)
    mass, value, members = lines.mass, lines.value, region.members()[pattern]
    n, rows = float(mass.sum()), mass @ members
    deviation = members * (value[:, None] - (mass * value) @ members / rows)

    def drawn(size: int) -> IntArray:
        """How often each line is drawn in ``size`` resamples; lines of single rows by number, six times as fast."""
        if np.any(mass != 1):
            return rng.multinomial(round(n), mass / n, size)
        number = rng.integers(0, mass.size, (size, mass.size)) + mass.size * np.arange(size)[:, None]
        return np.bincount(number.ravel(), minlength=number.size).reshape(number.shape)

    blocks = np.diff(np.append(np.arange(0, resamples, max(1, BLOCK // mass.size)), resamples))
    largest = [(drawn(size) @ deviation * rows / n**2).max(axis=1) for size in blocks]
    critical = np.sort(np.concatenate(largest))[int(np.ceil(resamples * (1 - alpha))) - 1]
    return critical * (n / rows) ** 2 * region.unit
