"""The nonparametric bootstrap: from sums, whatever the number of rows, and from the rows themselves.

From sums: the counts of all cells are multinomial, exactly as when rows are drawn with replacement. Given its count
m, the sum of m draws from a cell has mean m * mean and covariance m * covariance, and is drawn normal. For a 0/1
outcome the counts of events are therefore exact, and only the predictions within a cell are approximated.
"""

from __future__ import annotations

import numpy as np

from isonomy.errors import NotEnoughData
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.effects.moments import Moments, column
from isonomy.treatment.effects.sums import Lines, Sums

_BLOCK = 4_000_000  # numbers held at once


def resample_sums(sums: Sums, resamples: int, rng: np.random.Generator) -> Moments:
    """Moments (means only) of ``resamples`` samples drawn with replacement; all buckets together."""
    n, totals, products = (a.sum(1) for a in (sums.n, sums.sums, sums.products))
    groups, arms, kinds = n.shape
    width = len(sums.columns)
    there = np.flatnonzero(n.ravel())
    if not there.size:
        raise NotEnoughData("data: no row is left to draw from; there are too few for a split of them.")
    count = n.ravel()[there]
    mean = totals.reshape(-1, width)[there] / count[:, None]
    covariance = products.reshape(-1, width, width)[there] / count[:, None, None]
    root = _root(covariance - mean[:, :, None] * mean[:, None, :])
    rows = round(float(count.sum()))
    drawn_n = np.zeros((resamples, groups * arms))
    drawn = np.zeros((resamples, groups * arms, width))
    owner = there // kinds
    starts = np.flatnonzero(np.r_[True, owner[1:] != owner[:-1]])
    step = max(1, _BLOCK // max(1, len(there) * width))
    for first in range(0, resamples if rows else 0, step):
        here = slice(first, min(resamples, first + step))
        m = rng.multinomial(rows, count / count.sum(), size=here.stop - here.start).astype(float)
        noise = rng.standard_normal((*m.shape, width))
        moved = m[..., None] * mean + np.sqrt(m)[..., None] * np.einsum("cij,zcj->zci", root, noise)
        drawn_n[here, owner[starts]] = np.add.reduceat(m, starts, axis=1)
        drawn[here, owner[starts]] = np.add.reduceat(moved, starts, axis=1)
    shape = (resamples, groups, arms)
    return Moments.from_sums(sums.columns, drawn_n.reshape(shape), drawn.reshape(*shape, width), None)


def resample_rows(
    lines: Lines, columns: tuple[str, ...], resamples: int, rng: np.random.Generator
) -> tuple[Moments, ...]:
    """The same from the rows themselves, one `Moments` per partition."""
    values = np.stack([lines.values(column(name)) for name in columns])
    rows, chance = round(float(lines.weight.sum())), lines.weight / lines.weight.sum()
    n: list[list[FloatArray]] = [[] for _ in lines.groups]
    sums: list[list[FloatArray]] = [[] for _ in lines.groups]
    for _ in range(resamples):
        drawn = rng.multinomial(rows, chance).astype(float)
        for i, (group, groups) in enumerate(lines.groups):
            at = group * 2 + lines.arm
            totals = [np.bincount(at, w, 2 * groups).reshape(groups, 2) for w in (drawn, *(drawn * values))]
            n[i].append(totals[0].astype(float))
            sums[i].append(np.stack(totals[1:], -1))
    return tuple(Moments.from_sums(columns, np.stack(a), np.stack(b), None) for a, b in zip(n, sums, strict=True))


def draw_moments(draws: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variance and mean square of resampled estimates (first axis); resamples that gave no number are left out."""
    finite = np.isfinite(draws)
    number = np.maximum(finite.sum(0), 2)
    kept = np.where(finite, draws, 0.0)
    mean = kept.sum(0) / number
    variance = np.where(finite, (kept - mean) ** 2, 0.0).sum(0) / (number - 1)
    return variance, (kept**2).sum(0) / number


def _root(covariance: FloatArray) -> FloatArray:
    """A square root of each covariance; rounding may leave tiny negative eigenvalues."""
    values, vectors = np.linalg.eigh((covariance + np.swapaxes(covariance, -1, -2)) / 2)
    return vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]
