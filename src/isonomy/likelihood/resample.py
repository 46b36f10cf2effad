"""Bartlett's factor of a joint test: the mean of T over its degrees of freedom, by resampling rows that meet the null.

At the estimates the rank of the estimating functions is another one where, as against the population, it depends on
the disparities. So the rows are made to meet the tested null first, and each resample is tested at that null.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from isonomy.likelihood.correction import mean_of_usable
from isonomy.likelihood.joint import Joint
from isonomy.likelihood.region import Region
from isonomy.numerics.arrays import FloatArray

# Lines of all resamples that are held at once.
BLOCK = 2_000_000


def null_mean(region: Region, found: Joint, target: FloatArray, resamples: int, rng: np.random.Generator) -> float:
    """The mean of T over its degrees of freedom when ``target`` holds; NaN if it cannot be had."""
    if found.scale is None or found.move is None:
        return np.nan
    centred, target = met(ordered(region), found.scale, found.move), target / region.unit
    assert centred.weight is not None
    rows = round(float(centred.weight.sum()))
    chance = centred.weight / centred.weight.sum()
    usable: list[float] = []
    step = max(1, BLOCK // chance.size)
    for start in range(0, resamples, step):
        counts = rng.multinomial(rows, chance, size=min(step, resamples - start)).astype(float)
        for statistic, df in _tested(centred, counts, target):
            if df == found.df and np.isfinite(statistic):
                usable.append(statistic)
    return mean_of_usable(usable, resamples) / found.df


def ordered(region: Region) -> Region:
    """The region with equal lines as one, in an order of their own: how the rows came must not change the draws."""
    columns = [region.pattern, region.value, *(() if region.influence is None else (region.influence,))]
    order = np.lexsort(columns[::-1])
    columns = [column[order] for column in columns]
    new = np.any([np.diff(column, prepend=np.nan) != 0 for column in columns], axis=0)
    starts = np.flatnonzero(new)
    weight = np.ones(order.size) if region.weight is None else region.weight[order]
    influence = None if region.influence is None else columns[2][starts]
    together = np.add.reduceat(weight, starts)
    return replace(region, pattern=columns[0][starts], value=columns[1][starts], weight=together, influence=influence)


def met(region: Region, scale: FloatArray, move: FloatArray) -> Region:
    """The region with rows that meet a null exactly: reweighted (0/1), or moved pattern by pattern (any other)."""
    if region.binary and region.influence is None:
        data = region.patterns
        filled = np.flatnonzero(data.n > 0)
        ones = np.clip((data.first[0, filled] / data.n[filled]) + move[0, filled], 0.0, 1.0)
        weight = (data.n * scale)[filled, None] * np.column_stack([1.0 - ones, ones])
        value = np.tile([0.0, 1.0], filled.size)
        return replace(region, pattern=np.repeat(filled, 2), value=value, weight=weight.ravel())
    weight = np.ones(region.value.size) if region.weight is None else region.weight
    influence = None if region.influence is None else region.influence + move[1, region.pattern]
    value = region.value + move[0, region.pattern]
    return replace(region, value=value, weight=weight * scale[region.pattern], influence=influence)


def _tested(region: Region, counts: FloatArray, target: FloatArray) -> list[tuple[float, int]]:
    """T and its degrees of freedom in each resample; a resample is a line of ``counts``."""
    which, line = np.nonzero(counts)
    if region.quick(target):
        problem = region.shifted(target, which, line, counts[which, line], counts.shape[0])
        return list(zip(problem.solve()[0].tolist(), problem.df.tolist(), strict=True))
    found = []
    for one in counts:
        keep = one > 0
        influence = None if region.influence is None else region.influence[keep]
        again = replace(
            region, pattern=region.pattern[keep], value=region.value[keep], weight=one[keep], influence=influence
        ).solve(target)
        found.append((again.statistic, again.df))
    return found
