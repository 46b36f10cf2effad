"""Cells: the rows that agree on every group, the outcome, the decision and U, counted.

Everything a criterion asks is constant on a cell, so all but the distances is a small matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

CODES = 2**22  # codes up to which cells are found by counting; beyond, by sorting


@dataclass(frozen=True, slots=True, eq=False)
class Attribute:
    """One thing that rows are compared by: its levels, and what they are called."""

    name: str
    levels: tuple[object, ...]
    labels: tuple[str, ...]

    @property
    def rest(self) -> str:
        """What everybody outside a named condition is called."""
        return f"not {self.labels[0]}"


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells, in the order of their codes. Arrays have one entry per cell."""

    count: FloatArray
    selected: IntArray  # the decision, 0 or 1
    outcome: IntArray | None
    attributes: tuple[Attribute, ...]
    codes: tuple[IntArray, ...]  # one array per attribute: the level, -1 outside a named condition
    u: FloatArray  # (cells, components) for a criterion of one's own, else (cells, 0)
    u_names: tuple[str, ...] = ()
    number: FloatArray | None = None  # rows, where ``count`` is what they weigh

    def rows_of(self, member: BoolArray) -> float:
        """How many rows some cells hold, whatever they weigh."""
        return float((self.count if self.number is None else self.number)[member].sum())

    @property
    def rows(self) -> float:
        """N."""
        return float(self.count.sum())

    @property
    def side(self) -> FloatArray:
        """1 where the decision is 1, else -1."""
        return np.where(self.selected == 1, 1.0, -1.0)

    @property
    def names(self) -> list[str]:
        """Every group a cell belongs to, as one label; without groups, the value of each component of U."""
        if not self.attributes:
            return [" & ".join(f"{name}={v:g}" for name, v in zip(self.u_names, u, strict=True)) for u in self.u]
        labels = [(*attribute.labels, attribute.rest) for attribute in self.attributes]  # -1 is the last
        return [
            " & ".join(names[code] for names, code in zip(labels, cell, strict=True))
            for cell in zip(*self.codes, strict=True)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Coding:
    """One whole number for everything that makes a cell."""

    attributes: tuple[Attribute, ...]
    outcome: bool  # whether there is one
    u_names: tuple[str, ...]
    u: tuple[FloatArray, ...]  # the distinct values of each component of U, sorted

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many values each part of the code has: attributes (and none of their levels), 0/1 columns, U."""
        levels = (len(attribute.levels) + 1 for attribute in self.attributes)
        return (*levels, *(2,) * (1 + self.outcome), *(values.size for values in self.u))

    def code(self, codes: Sequence[IntArray], binary: Sequence[IntArray], u: Sequence[FloatArray]) -> IntArray:
        """The code of each row, given its level of each attribute, outcome and decision, and U."""
        places = [np.searchsorted(values, column) for values, column in zip(self.u, u, strict=True)]
        return np.ravel_multi_index((*(code + 1 for code in codes), *binary, *places), self.sizes)

    def cells(self, code: IntArray, count: FloatArray, number: FloatArray | None = None) -> Cells:
        """Take the codes of the cells apart again."""
        parts = np.unravel_index(code, self.sizes)
        groups, rest = parts[: len(self.attributes)], parts[len(self.attributes) :]
        places = rest[1 + self.outcome :]
        u = [values[place] for values, place in zip(self.u, places, strict=True)]
        return Cells(
            count=count,
            selected=rest[self.outcome],
            outcome=rest[0] if self.outcome else None,
            attributes=self.attributes,
            codes=tuple(part - 1 for part in groups),
            u=np.column_stack(u) if u else np.empty((code.size, 0)),
            u_names=self.u_names,
            number=number,
        )

    def dense(self, code: IntArray) -> tuple[IntArray, IntArray]:
        """The cell of each row, and the code of each cell, in order; by counting where the range is small."""
        if np.prod(self.sizes, dtype=float) > CODES:
            codes, cell = np.unique(code, return_inverse=True)
            return cell.astype(np.intp), codes
        present = np.bincount(code, minlength=1) > 0
        return (np.cumsum(present) - 1)[code], np.flatnonzero(present)


def total(group: IntArray, values: FloatArray | None, size: int) -> FloatArray:
    """Sum of ``values`` (or the number of rows) in each of ``size`` classes."""
    return np.bincount(group, values, size).astype(float)
