"""Rows of many groups in one array: sorted by group, with the places where each group begins.

One sort, then every per-group sum is a segment sum over contiguous memory, and a solver that works on a
shrinking set of groups takes just their rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from isonomy.errors import LengthMismatch
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Ragged:
    """Rows sorted by group: ``offsets[g]:offsets[g + 1]`` are those of group ``g``, in the order they came."""

    offsets: IntArray
    columns: tuple[AnyArray, ...]
    weights: FloatArray | None

    @classmethod
    def from_codes(
        cls, codes: npt.ArrayLike, n_groups: int, *columns: npt.ArrayLike, weights: npt.ArrayLike | None = None
    ) -> Ragged:
        """Sort ``columns`` (and ``weights``) by ``codes`` in 0..n_groups-1; rows with code -1 are left out."""
        keys = np.asarray(codes)
        arrays = tuple(np.asarray(c) for c in columns)
        mass = None if weights is None else np.asarray(weights, dtype=float)
        for array in (*arrays, *(() if mass is None else (mass,))):
            if array.shape[0] != keys.shape[0]:
                raise LengthMismatch(f"codes have {keys.shape[0]} rows, a column has {array.shape[0]}.")
        if keys.size and (keys.min() < -1 or keys.max() >= n_groups):
            raise IndexError(f"codes must lie in -1..{n_groups - 1}, saw {keys.min()}..{keys.max()}.")
        order, offsets = _order(keys, n_groups)
        return cls(offsets, tuple(a[order] for a in arrays), None if mass is None else mass[order])

    @property
    def n_groups(self) -> int:
        return self.offsets.size - 1

    @property
    def n_rows(self) -> int:
        return int(self.offsets[-1])

    @property
    def sizes(self) -> IntArray:
        return np.diff(self.offsets)

    @property
    def totals(self) -> FloatArray:
        """Weight per group: the number of rows when there are no weights."""
        return self.sizes.astype(float) if self.weights is None else self.sum(self.weights)

    def sum(self, array: npt.ArrayLike) -> FloatArray:
        """Sum of ``array`` (one entry per row, in group order; further axes are kept) over each group."""
        return self._reduce(np.add, np.asarray(array, dtype=float), 0.0)

    def weighted_sum(self, array: npt.ArrayLike) -> FloatArray:
        """Sum of weight times ``array`` over each group; the plain sum when there are no weights."""
        values = np.asarray(array, dtype=float)
        if self.weights is None:
            return self.sum(values)
        return self.sum(values * self.weights.reshape(-1, *(1,) * (values.ndim - 1)))

    def min(self, array: npt.ArrayLike) -> FloatArray:
        """Smallest entry of each group; +inf for an empty group."""
        return self._reduce(np.minimum, np.asarray(array, dtype=float), np.inf)

    def max(self, array: npt.ArrayLike) -> FloatArray:
        """Largest entry of each group; -inf for an empty group."""
        return self._reduce(np.maximum, np.asarray(array, dtype=float), -np.inf)

    def repeat(self, per_group: npt.ArrayLike) -> AnyArray:
        return np.repeat(np.asarray(per_group), self.sizes, axis=0)

    def positions(self, index: npt.ArrayLike) -> IntArray:
        groups = np.asarray(index, dtype=np.intp)
        sizes = self.offsets[groups + 1] - self.offsets[groups]
        before = np.cumsum(sizes) - sizes
        return np.repeat(self.offsets[groups] - before, sizes) + np.arange(int(sizes.sum()))

    def _reduce(self, ufunc: np.ufunc, array: FloatArray, identity: float) -> FloatArray:
        if array.shape[:1] != (self.n_rows,):
            raise LengthMismatch(f"{self.n_rows} rows are held, the array has shape {array.shape}.")
        starts = self.offsets[:-1]
        filled = self.offsets[1:] > starts
        # reduceat returns the first element for an empty segment. Leaving empty segments out does not move the
        # ends of the others, since an empty segment ends where it begins.
        if filled.all():
            return ufunc.reduceat(array, starts, axis=0) if starts.size else np.empty(array.shape)
        result = np.full((self.n_groups, *array.shape[1:]), identity)
        if filled.any():
            result[filled] = ufunc.reduceat(array, starts[filled], axis=0)
        return result


def _order(codes: AnyArray, n_groups: int) -> tuple[IntArray, IntArray]:
    """Stable order of the rows by code, and the offsets of the groups in it."""
    # -1 sorts as unsigned after every group, and is then cut off.
    keys = np.where(codes < 0, np.uint32(n_groups), codes.astype(np.uint32))
    sizes = np.bincount(keys, minlength=n_groups + 1)[:n_groups]
    offsets = np.zeros(n_groups + 1, dtype=np.intp)
    np.cumsum(sizes, out=offsets[1:])
    if np.all(keys[1:] >= keys[:-1]):
        return np.arange(offsets[-1]), offsets
    # numpy sorts integers of at most 16 bits by radix, in linear time: once for few groups, twice for many.
    order = np.argsort(keys.astype(np.uint16), kind="stable")
    if n_groups >= 2**16:
        order = order[np.argsort((keys >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
    return order[: offsets[-1]], offsets
