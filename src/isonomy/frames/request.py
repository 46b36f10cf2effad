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
class Sample:
    """What comes back from the rows: the finest cells in canonical order, or single rows.

    A line is a cell or a row. ``columns`` has one entry per line: binary roles (0 and 1), keys and, for rows, numbers
    and values; ``values`` has the sums over the rows of each cell. ``count`` is how many rows each line stands for;
    None: one each. ``design`` is there where rows have weights or clusters; ``values`` are then weighted by its masses.
    """

    columns: Mapping[str, AnyArray]
    count: FloatArray | None
    partitions: tuple[Partition, ...]
    dropped: Mapping[str, int]
    size: int
    values: Mapping[str, FloatArray] = field(default_factory=dict)
    design: Design | None = None

    @property
    def rows(self) -> int:
        """Rows used, the ``count`` column honored."""
        return self.size if self.count is None else round(float(self.count.sum()))

    @property
    def counts(self) -> FloatArray:
        """How many rows each line stands for, as an array."""
        return np.ones(self.size) if self.count is None else self.count

    @property
    def weight(self) -> FloatArray | None:
        """What each line weighs: its rows, or their weights scaled to sum to the rows; None: 1 each."""
        return self.count if self.design is None else self.design.mass

    @property
    def mass(self) -> FloatArray:
        """What each line weighs, as an array."""
        return np.ones(self.size) if self.weight is None else self.weight

    def weighing(self) -> Sample:
        """The lines that weigh anything."""
        if self.design is None or bool((self.design.mass > 0).all()):
            return self
        lines = np.flatnonzero(self.design.mass > 0)
        return replace(
            self,
            columns={name: column[lines] for name, column in self.columns.items()},
            count=None if self.count is None else self.count[lines],
            partitions=tuple(replace(part, codes=part.codes[lines]) for part in self.partitions),
            size=lines.size,
            values={name: column[lines] for name, column in self.values.items()},
            design=self.design.restricted(lines),
        )
