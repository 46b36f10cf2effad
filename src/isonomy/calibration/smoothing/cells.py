"""Rows of some groups by bins of the score: what thresholds are found from, and how it varies from sample to sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray

COARSE = 2**10  # bins of the score axis in which samples are drawn again
FINE = 2**13  # bins of the score axis in which thresholds are found
PARTS = 100  # into which people with several rows are dealt: as many independent parts of the table


@dataclass(frozen=True, slots=True)
class Bins:
    """Equal bins of the score. The present threshold is the lower edge of one, so that nobody is on its wrong side."""

    present: float
    before: int  # bins below the present threshold
    step: float
    size: int

    @classmethod
    def of(cls, low: float, high: float, present: float) -> Bins:
        """Bins from ``low`` to ``high`` that can be joined to `COARSE` ones."""
        low, high = min(low, present), max(high, present)
        join, step = FINE // COARSE, (high - low if high > low else 1.0) / (COARSE - 1)
        return cls(present, join * int(np.ceil((present - low) / step)), step / join, FINE)

    @property
    def joined(self) -> Bins:
        """The same range in `COARSE` bins."""
        join = self.size // COARSE
        return Bins(self.present, self.before // join, self.step * join, COARSE)

    @property
    def edges(self) -> FloatArray:
        """The ends of the bins, one more than there are bins."""
        return np.asarray(self.present + self.step * (np.arange(self.size + 1.0) - self.before))

    @property
    def centres(self) -> FloatArray:
        """The middle of each bin."""
        return np.asarray(self.present + self.step * (np.arange(self.size) - self.before + 0.5), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums over the rows in each bin (last axis) of each group (the axis before); of each part first, where cut up."""

    bins: Bins
    rows: FloatArray
    known: FloatArray  # rows whose outcome is known
    total: FloatArray  # of their outcomes
    square: FloatArray  # of the squares of their outcomes
    vote: FloatArray  # votes of the rows from which outcomes at the margin are read
    voted: FloatArray  # votes times outcomes

    def pooled(self, blocks: IntArray) -> Cells:
        """The groups of each block together; a group with the number -1 is in none."""
        size = int(blocks.max()) + 1
        member = (blocks[None, :] == np.arange(size)[:, None]).astype(np.float64)
        return self._each(lambda values: np.asarray(member @ values))

    @property
    def joined(self) -> Cells:
        """The same in `COARSE` bins."""
        if self.bins.size == COARSE:
            return self
        wide = self._each(lambda values: values.reshape(*values.shape[:-1], COARSE, -1).sum(axis=-1))
        return replace(wide, bins=self.bins.joined)

    def rated(self, factor: float) -> Cells:
        """The same with votes times a ``factor``."""
        return replace(self, vote=self.vote * factor, voted=self.voted * factor)

    def weighted(self, weight: FloatArray) -> Cells:
        """The parts together, each counted as often as its ``weight`` says."""
        return self._each(lambda values: np.asarray(np.tensordot(weight, values, axes=1)))

    def _each(self, change: Callable[[FloatArray], FloatArray]) -> Cells:
        return Cells(self.bins, *(change(getattr(self, name)) for name in SUMS))


SUMS = ("rows", "known", "total", "square", "vote", "voted")


def above(values: FloatArray) -> FloatArray:
    """Sums over the bins from each edge up."""
    reached = np.flip(np.cumsum(np.flip(values, axis=-1), axis=-1), axis=-1)
    return np.concatenate([reached, np.zeros((*values.shape[:-1], 1))], axis=-1)


def resampled(cells: Cells, parts: Cells | None, draws: int, rng: np.random.Generator) -> Iterator[Cells]:
    """Samples like this one, in joined bins: rows drawn again one by one, or the parts of the table as wholes.

    Rows of a bin are alike, so that Poisson numbers of them are the bootstrap of the rows. Outcomes that are not 0/1
    have the mean and the spread of their bin.
    """
    if parts is not None:
        size = parts.rows.shape[0]
        for _ in range(draws):
            yield parts.weighted(rng.multinomial(size, np.full(size, 1 / size)).astype(np.float64))
        return
    wide = cells.joined
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.nan_to_num(wide.total / wide.known)
        spread = np.sqrt(np.maximum(np.nan_to_num(wide.square / wide.known) - mean**2, 0.0))
        votes = np.nan_to_num(wide.vote / wide.known)  # of rows that are not cut up: 1 where outcomes are read, else 0
    binary = bool(np.all(wide.square == wide.total))
    for _ in range(draws):
        known = rng.poisson(wide.known).astype(np.float64)
        if binary:
            total = rng.binomial(known.astype(np.int64), np.clip(mean, 0, 1)).astype(np.float64)
        else:
            total = mean * known + spread * np.sqrt(known) * rng.standard_normal(known.shape)
        rows = known + rng.poisson(np.maximum(wide.rows - wide.known, 0.0))
        yield Cells(wide.bins, rows, known, total, total, votes * known, votes * total)
