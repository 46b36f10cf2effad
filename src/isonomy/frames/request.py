"""What a test asks of the rows, and what it gets: sums over the finest cells, or columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import narwhals as nw
import numpy as np

from isonomy.frames.design import Design
from isonomy.frames.groups import Grouping, Partition
from isonomy.numerics.arrays import AnyArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What one test needs of the rows. Every mapping goes from a short role name.

    ``binary`` columns must hold 0 and 1 and become keys of the pass; ``numeric`` columns must be finite and may be
    used by the expressions in ``values``, which are summed; the expressions in ``keys`` are further keys; ``labels``
    are columns of any type that must have a value. ``binary`` and ``numeric`` name a column, or give an expression
    that is checked in the same way.
    """

    grouping: Grouping | None = None
    binary: Mapping[str, str | nw.Expr] = field(default_factory=dict)
    numeric: Mapping[str, str | nw.Expr] = field(default_factory=dict)
    keys: Mapping[str, nw.Expr] = field(default_factory=dict)
    values: Mapping[str, nw.Expr] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    probabilities: tuple[str, ...] = ()  # numeric roles that must lie in [0, 1]

    @property
    def needed(self) -> dict[str, str | nw.Expr]:
        """What a row must have a value of, besides the binary roles."""
        return {**self.numeric, **self.labels}


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums over the finest cells, in canonical order. Binary roles are among the keys, as 0 and 1."""

    count: FloatArray
    keys: Mapping[str, AnyArray]
    values: Mapping[str, FloatArray]
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]
    design: Design | None = None  # where rows have weights or clusters; ``values`` are then weighted as its masses

    @property
    def rows(self) -> int:
        """Rows used, the ``count`` column honoured."""
        return round(float(self.count.sum()))

    @property
    def mass(self) -> FloatArray:
        """What each cell weighs: its rows, or their weights scaled to sum to the rows."""
        return self.count if self.design is None else self.design.mass


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns row by row, for the methods that have to sort or to fit."""

    columns: Mapping[str, AnyArray]
    count: FloatArray | None  # the ``count`` column, where there is one
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]
    size: int  # lines held; `rows` differs where lines stand for several rows
    design: Design | None = None  # where rows have weights or clusters

    @property
    def rows(self) -> int:
        """Rows used, the ``count`` column honoured."""
        return self.size if self.count is None else round(float(self.count.sum()))

    def weighing(self) -> Rows:
        """The lines that weigh anything."""
        if self.design is None or bool((self.design.mass > 0).all()):
            return self
        lines = np.flatnonzero(self.design.mass > 0)
        return Rows(
            columns={name: column[lines] for name, column in self.columns.items()},
            count=None if self.count is None else self.count[lines],
            partitions=tuple(replace(part, codes=part.codes[lines]) for part in self.partitions),
            dropped=self.dropped,
            size=lines.size,
            design=self.design.restricted(lines),
        )

    @property
    def weight(self) -> FloatArray | None:
        """What each line weighs: the rows it stands for, or their weights scaled to sum to the rows; None: 1 each."""
        return self.count if self.design is None else self.design.mass
