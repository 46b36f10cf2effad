"""The nonparametric bootstrap of sums, over distinct rows instead of rows.

Resampling n rows with replacement gives equal rows multinomial counts. So equal rows are collapsed to one weighted
cell and the counts of cells are drawn: the same law, exactly, at the cost of the cells.

Quantiles of values that count several times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from isonomy.errors import BadCount, LengthMismatch, UsageError
from isonomy.numerics.arrays import FloatArray

# A cell's binomial draw costs about as much as this many draws of a row (measured: equal between 8 and 24).
BINOMIAL_COST = 12
# Memory of the samples drawn at once.
BLOCK_BYTES = 2**27


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Distinct rows: ``values`` (cells x columns), in ascending order of the columns, and their ``counts``."""

    values: FloatArray
    counts: FloatArray

    @property
    def total(self) -> float:
        return float(self.counts.sum())


def collapse(columns: Sequence[npt.ArrayLike], weights: npt.ArrayLike | None = None) -> Cells:
    """The distinct rows, and how often each occurs.

    The order of the cells does not depend on the order of the rows, so neither do draws from them. ``weights`` say how
    often each row counts; rows with weight 0 are left out.
    """
    arrays = [np.asarray(c, dtype=float) + 0.0 for c in columns]  # -0.0 becomes 0.0, which is the same row
    mass = np.ones(arrays[0].shape) if weights is None else np.asarray(weights, dtype=float)
    if len({a.shape for a in (*arrays, mass)}) != 1:
        raise LengthMismatch("columns and weights of cells differ in length.")
    if not np.all(mass >= 0):
        raise BadCount("weights: negative or missing numbers are not allowed.")
    lines = pl.DataFrame([*arrays, mass])
    *names, last = lines.columns
    cells = lines.filter(pl.col(last) > 0).group_by(names).agg(pl.col(last).sum()).sort(names)
    return Cells(cells.select(names).to_numpy(order="c"), cells[last].to_numpy())


def bootstrap_sums(cells: Cells, resamples: int, rng: np.random.Generator) -> FloatArray:
    """Column sums of ``resamples`` bootstrap samples: an array (resamples x columns).

    Each sample is as many rows as there are, drawn with replacement. Few cells: multinomial counts over the cells.
    About as many cells as rows: row numbers, counted. Both are the same law, and both work in blocks of at most about
    `BLOCK_BYTES` (one sample at the least). The draws are taken in sequence from ``rng``, so the size of the blocks
    does not change them. Counts must be whole numbers: a fractional weight is not a number of rows.
    """
    counts = np.rint(cells.counts)
    if not np.all(np.isfinite(cells.counts)) or np.any(counts != cells.counts) or np.any(counts < 0):
        raise BadCount("counts: the bootstrap needs whole numbers of rows.")
    result = np.zeros((resamples, cells.values.shape[1]))
    n, size = int(counts.sum()), counts.size
    if n == 0:
        return result
    by_row = n < BINOMIAL_COST * size
    owner = np.repeat(np.arange(size), counts.astype(np.intp)) if by_row else None
    block = max(1, BLOCK_BYTES // (8 * (3 * n + 2 * size if by_row else 2 * size)))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        if owner is None:
            drawn = rng.multinomial(n, counts / n, size=rows)
        else:
            cell = owner[rng.integers(n, size=(rows, n))]
            cell += np.arange(rows)[:, None] * size
            drawn = np.bincount(cell.ravel(), minlength=rows * size).reshape(rows, size)
        result[start : start + rows] = drawn.astype(float) @ cells.values
    return result


def pvalue(exceeding: npt.ArrayLike, resamples: int) -> FloatArray:
    """The resampled p-value (1 + exceeding) / (1 + resamples): never 0, as the observed statistic is a draw too."""
    if resamples < 0 or np.any(np.asarray(exceeding) < 0) or np.any(np.asarray(exceeding) > resamples):
        raise UsageError(f"exceeding: must lie in 0..{resamples}.")
    return (1 + np.asarray(exceeding, dtype=float)) / (1 + resamples)


def resampled_pvalues(statistics: npt.ArrayLike, ascending: FloatArray) -> FloatArray:
    """The resampled p-value of each statistic among draws of it under the null, in ascending order; NaN for NaN."""
    values = np.asarray(statistics, dtype=float)
    exceeding = ascending.size - np.searchsorted(ascending, values, side="left")
    return np.where(np.isnan(values), np.nan, pvalue(exceeding, ascending.size))


def drawn_pvalues(drawn: FloatArray, statistic: float) -> FloatArray:
    """The p-value of each draw among the other draws and the observed ``statistic``: all of them are exchangeable."""
    return resampled_pvalues(drawn, np.sort(drawn)) - (drawn > statistic) / (drawn.size + 1)


def quantiles(
    values: FloatArray, weight: npt.NDArray[np.generic], levels: npt.ArrayLike, *, linear: bool = False
) -> FloatArray:
    """The quantiles of ``values``, each repeated ``weight`` times.

    Without ``linear``, the smallest value that a share ``levels`` of the weight does not exceed; weights may then be
    any numbers. With it, numpy's default: linear between neighbors, for weights that are whole numbers.

    Examples
    --------
    >>> quantiles(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 2]), [0.5, 1.0]).tolist()
    [2.0, 4.0]
    >>> quantiles(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 2]), [0.5, 1.0], linear=True).tolist()
    [3.0, 4.0]
    """
    order = np.argsort(values, kind="stable")
    reached, ordered = np.cumsum(weight[order]), values[order]
    if not linear:
        # Sums of weights have rounding errors: a level reached up to rounding counts as reached.
        place = np.searchsorted(reached, np.asarray(levels) * reached[-1] * (1 - 1e-12), side="left")
        return ordered[np.minimum(place, values.size - 1)]
    position = np.asarray(levels) * (int(reached[-1]) - 1)
    ends = np.floor(position), np.ceil(position)
    low, high = (ordered[np.searchsorted(reached, end, side="right")] for end in ends)
    return np.asarray(low + (position - ends[0]) * (high - low))
