"""Scores on a lattice (rounded, or counted in points), spread over its steps so that they have a density.

The rows at one place are laid out evenly from halfway to the place before to halfway to the next. Either side of the
boundary begins where its first step does: whether the threshold is on the lattice or between two places of it then does
not matter. Steps must be equal and no place near the boundary heaped: neither leaves of trees nor round numbers that
people prefer are such a lattice. Nothing is drawn, and however many rows there are, they cost no more than the places.
"""

from __future__ import annotations

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.transport.program.cells import Cells, total

PLACES = 2**16  # a lattice has at most this many places
PIECES = 2**20  # parts that all places together are cut into, about
LEAST = 3  # places on either side of the boundary from which there is a step to speak of
SHARED = 0.9  # share of the rows that have company where they are, from which their places are a lattice
AROUND = 5  # places on either side that are looked at for heaps
UNEVEN, CHANCE = 0.25, 3.5  # bend of their rows that does not matter, relative, and in standard deviations
ROUNDING = 1e-9  # places this close (in units of the spread) are one


def spread_out(
    cells: Cells, cell: IntArray, distance: FloatArray, count: FloatArray
) -> tuple[FloatArray, IntArray, FloatArray] | None:
    """Distance, cell and mass of the parts that the places are cut into; None where there is no lattice.

    One entry per cell and place in ``cell``, ``distance`` and ``count``. Rows that cannot move stay as they are.
    """
    finite = np.isfinite(distance)
    start, width = distance.copy(), np.zeros(distance.size)
    alone, steps, masses = 0.0, [], []
    for decision in (0, 1):
        side = np.flatnonzero(finite & (cells.selected[cell] == decision))
        place, near = _places(distance[side])
        if not LEAST <= place.size <= PLACES:
            return None
        rows = total(near, count[side], place.size)
        alone += float(rows[rows < 2].sum())
        middle = (place[1:] + place[:-1]) / 2
        steps += [*np.diff(place)[: LEAST - 1], float(np.median(np.diff(place)))]
        masses.append(rows)
        ends = np.concatenate([[2 * place[0] - middle[0]], middle, [2 * place[-1] - middle[-1]]])
        start[side], width[side] = (ends[:-1] - ends[0])[near], np.diff(ends)[near]
    if alone > (1 - SHARED) * float(count[finite].sum()) or not (_equal(np.array(steps)) and _even(masses)):
        return None
    parts = np.where(finite, np.clip(count, 1, max(1, PIECES // distance.size)), 1).astype(np.intp)
    which = np.repeat(np.arange(distance.size), parts)
    number = np.arange(which.size) - np.repeat(np.cumsum(parts) - parts, parts)
    with np.errstate(invalid="ignore"):
        laid = start[which] + width[which] * (number + 0.5) / parts[which]
    return laid, cell[which], (count / parts)[which]


def _equal(steps: FloatArray) -> bool:
    """Whether the steps at the boundary are those of everywhere, on both sides: leaves of a tree are not."""
    return bool(np.ptp(steps) <= 0.01 * steps.max())


def _even(masses: list[FloatArray]) -> bool:
    """Whether rows rise and fall smoothly across the boundary, up to chance: scores heaped on round numbers do not."""
    across = np.concatenate([masses[0][:AROUND][::-1], masses[1][:AROUND]])
    mean = float(across.mean())
    return bool(np.abs(np.diff(across, 2)).max() <= UNEVEN * mean + CHANCE * np.sqrt(6 * mean))


def _places(distance: FloatArray) -> tuple[FloatArray, IntArray]:
    """The distinct distances, those apart by rounding as one, and which of them each is."""
    value, inverse = np.unique(distance, return_inverse=True)
    if not value.size:
        return value, inverse
    new: BoolArray = np.append(True, np.diff(value) > ROUNDING * (value[-1] - value[0]))
    return value[new], (np.cumsum(new) - 1)[inverse.ravel()]
