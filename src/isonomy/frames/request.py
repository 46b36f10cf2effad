"""What a test asks of the rows, and what it gets: sums over the finest cells, or columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import narwhals as nw

from isonomy.frames.groups import Grouping, Partition
from isonomy.numerics.arrays import AnyArray, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """What one test needs of the rows. Every mapping goes from a short role name.

    ``binary`` columns must hold 0 and 1 and become keys of the pass; ``numeric`` columns must be finite and may be
    used by the expressions in ``values``, which are summed; the expressions in ``keys`` are further keys. ``binary``
    and ``numeric`` name a column, or give an expression that is checked in the same way.
    """

    grouping: Grouping | None = None
    binary: Mapping[str, str | nw.Expr] = field(default_factory=dict)
    numeric: Mapping[str, str | nw.Expr] = field(default_factory=dict)
    keys: Mapping[str, nw.Expr] = field(default_factory=dict)
    values: Mapping[str, nw.Expr] = field(default_factory=dict)
    probabilities: tuple[str, ...] = ()  # numeric roles that must lie in [0, 1]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums over the finest cells, in canonical order. Binary roles are among the keys, as 0 and 1."""

    count: FloatArray
    keys: Mapping[str, AnyArray]
    values: Mapping[str, FloatArray]
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Rows used, the ``count`` column honoured."""
        return round(float(self.count.sum()))


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns row by row, for the methods that have to sort or to fit."""

    columns: Mapping[str, AnyArray]
    weight: FloatArray | None  # the ``count`` column, where there is one
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]
    size: int  # lines held; `rows` differs where lines stand for several rows

    @property
    def rows(self) -> int:
        """Rows used, the ``count`` column honoured."""
        return self.size if self.weight is None else round(float(self.weight.sum()))
