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

from isonomy.errors import BadCount, LengthMismatch, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray

# A cell's binomial draw costs about as much as this many draws of a row (measured: equal between 8 and 24).
BINOMIAL_COST = 12
# Keys are counted without a sort when there are at most this many possible ones per row.
DENSE = 4
# Memory of the samples drawn at once.
BLOCK_BYTES = 2**27
# Mixed-radix keys stay below this, so that int64 never overflows.
LARGEST_KEY = 2**62


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
    mass = None if weights is None else np.asarray(weights, dtype=float)
    if len({a.shape for a in arrays} | ({mass.shape} if mass is not None else set())) != 1:
        raise LengthMismatch("columns and weights of cells differ in length.")
    if mass is not None:
        if not np.all(mass >= 0):
            raise BadCount("weights: negative or missing numbers are not allowed.")
        keep = mass > 0
        if not keep.all():
            arrays, mass = [a[keep] for a in arrays], mass[keep]
    member, counts = _identify(arrays, mass)
    return Cells(np.stack([a[member] for a in arrays], axis=1), counts)


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


def _identify(arrays: list[FloatArray], mass: FloatArray | None) -> tuple[IntArray, FloatArray]:
    """One row of each cell and the weight of each cell; cells in lexicographic order.

    Columns are coded one by one and joined into one integer key (mixed radix), which is far cheaper than sorting
    whole rows; the key is coded again whenever it would overflow.
    """
    key = np.zeros(arrays[0].size, dtype=np.int64)
    size = 1
    for array in arrays:
        codes, levels = _code(array)
        if size * levels >= LARGEST_KEY:
            distinct, key = np.unique(key, return_inverse=True)
            size = distinct.size
        key = key * levels + codes
        size *= levels
    if size <= DENSE * key.size:
        # Few possible keys: count them all, without a sort.
        member = np.full(size, -1, dtype=np.intp)
        member[key] = np.arange(key.size)
        filled = member >= 0
        return member[filled], np.bincount(key, weights=mass, minlength=size)[filled].astype(float)
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    counts = np.bincount(inverse.ravel(), weights=mass, minlength=first.size)
    return first.astype(np.intp), counts.astype(float)


def _code(array: FloatArray) -> tuple[npt.NDArray[np.int64], int]:
    """Codes 0, 1, ... in the order of the values; whole numbers of a small range need no sort."""
    if array.size == 0:
        return np.empty(0, dtype=np.int64), 1
    low, high = array.min(), array.max()
    if high - low < 2**20 and np.all(array == np.floor(array)):
        return (array - low).astype(np.int64), int(high - low) + 1
    distinct, codes = np.unique(array, return_inverse=True)
    return codes.astype(np.int64), distinct.size


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
