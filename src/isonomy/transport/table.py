"""What is read of the rows, and what every way of reading them gives: cells, sums at the boundary, rows that move."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.errors import DataError
from isonomy.frames import Grouping, Partition
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.transport import wording
from isonomy.transport.criteria import Cells
from isonomy.transport.distances import Distance
from isonomy.transport.program import Pool

PLAN_ROWS = 10_000  # rows listed in a plan, nearest first
TRACE = 1e-9  # a smaller share of a row is rounding, not a move
AGREEMENT = 1e-6  # a row this close to the boundary (in units of the spread) may be on either side of it


@dataclass(frozen=True, slots=True, eq=False)
class Options:
    """What is read: who is grouped how, what was decided, how far each row is from the boundary."""

    grouping: Grouping | None
    outcome: str | None
    prediction: str
    distance: Distance
    u: Mapping[str, nw.Expr]

    @property
    def binary(self) -> dict[str, str]:
        """The 0/1 columns."""
        roles = {"outcome": self.outcome, "prediction": self.prediction}
        return {role: column for role, column in roles.items() if column is not None}

    @property
    def signed(self) -> nw.Expr | None:
        """The (signed) distance as an expression, None where it is computed from arrays."""
        plain, factor = self.distance.expression(), self.distance.factor()
        return plain if plain is None or factor is None else plain * factor

    @property
    def features(self) -> dict[str, str]:
        """The columns that the distance measures."""
        return {f"feature {i}": column for i, column in enumerate(self.distance.columns, start=1)}

    @property
    def numeric(self) -> dict[str, str | nw.Expr]:
        """What must not be missing: the distance or what it is computed from, its factor, a user-made U."""
        plain, factor = self.distance.expression(), self.distance.factor()
        told = f"distance (from {' '.join(map(repr, self.distance.columns[:3]))}{' ...' * (len(self.features) > 3)})"
        checked: dict[str, str | nw.Expr] = {**self.features} if plain is None else {told: stand_in(plain)}
        if factor is not None:
            checked["factors"] = factor
        return checked | {f"criterion {name!r}": expr.cast(nw.Float64) for name, expr in self.u.items()}

    @property
    def keys(self) -> dict[str, nw.Expr]:
        """The components of a user-made U, as numbers."""
        return {f"u{i}": expr.cast(nw.Float64) for i, expr in enumerate(self.u.values())}


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """What was seen near the boundary with one bandwidth."""

    kernel: FloatArray  # (cells,): sum of the Gaussian kernel of distance / bandwidth
    near: FloatArray  # (cells,): rows within one bandwidth
    tie: float  # how many other rows a row within one bandwidth shares its exact distance with, on average


@dataclass(frozen=True, slots=True, eq=False)
class Movers:
    """Rows that flip, nearest first: where they are, their cell, distance, the share that flips, where they go."""

    row: IntArray  # position in the data, -1 where an engine has no order
    cell: IntArray
    distance: FloatArray
    fraction: FloatArray
    start: FloatArray  # (rows, features) as they are; no columns where the distance knows no points
    end: FloatArray  # (rows, features) on the boundary
    complete: bool  # False where only the nearest are listed


class Measured(Protocol):
    """Rows and their distances, wherever they are: what inference asks of them."""

    cells: Cells
    spread: float  # of the signed distance, over the rows that can move: min(sd, IQR / 1.349)

    def boundary(self, bandwidth: float) -> Boundary:
        """Kernel sums, rows and ties within one bandwidth."""
        ...

    def pool(self, vectors: FloatArray) -> Pool:
        """The rows behind the program."""
        ...


class Table(Measured, Protocol):
    """The same for a user's table: what the report adds."""

    dropped: Mapping[str, int]

    def movers(self, moved: FloatArray, reach: FloatArray) -> Movers:
        """The rows that flip when ``moved`` rows of each cell do, out to distance ``reach``."""
        ...


def cell_codes(
    partitions: tuple[Partition, ...],
    columns: Mapping[str, Any],
    options: Options,
    u: list[npt.NDArray[Any]] | None = None,
) -> tuple[IntArray, tuple[int, ...]]:
    """One integer for everything that makes a cell, and the number of values of each part."""
    parts = [(p.codes + 1, len(p.groups) + 1) for p in partitions]
    parts += [(np.asarray(columns[role]).astype(np.intp), 2) for role in options.binary]
    for i, name in enumerate(options.keys):
        values = np.unique(columns[name]) if u is None else u[i]
        parts.append((np.searchsorted(values, columns[name]), values.size))
    code = np.zeros(parts[0][0].size, dtype=np.intp)
    for part, size in parts:
        code = code * size + part
    return code, tuple(size for _, size in parts)


def dense(code: IntArray, size: int) -> tuple[IntArray, IntArray]:
    """Codes as 0, 1, 2, ... in order, and what each stands for; by counting where the range is small."""
    if size > 2**22:
        found, cell = np.unique(code, return_inverse=True)
        return cell.astype(np.intp), found
    present = np.bincount(code, minlength=1) > 0
    return (np.cumsum(present) - 1)[code], np.flatnonzero(present)


def make_cells(
    found: IntArray,
    sizes: tuple[int, ...],
    partitions: tuple[Partition, ...],
    options: Options,
    count: FloatArray,
    columns: Mapping[str, Any],
) -> Cells:
    """Take the codes of the cells apart again."""
    parts = []
    rest = found
    for size in reversed(sizes):
        rest, part = np.divmod(rest, size)
        parts.append(part)
    parts.reverse()
    groups, binary = parts[: len(partitions)], parts[len(partitions) :]
    roles = dict(zip(options.binary, binary, strict=False))
    levels = [np.unique(columns[name]) for name in options.keys]
    u = [level[part] for level, part in zip(levels, binary[len(roles) :], strict=True)]
    return Cells(
        count=count,
        selected=roles["prediction"],
        outcome=roles.get("outcome"),
        codes=tuple(part - 1 for part in groups),
        groups=tuple(p.groups for p in partitions),
        u=np.column_stack(u) if u else np.empty((found.size, 0)),
        u_names=tuple(options.u),
    )


def stand_in(expression: nw.Expr) -> nw.Expr:
    """Infinite distances are allowed; put a number in their place, so that only missing ones are refused."""
    return nw.when(expression.abs() == np.inf).then(nw.lit(0.0)).otherwise(expression)


def points(distance: Distance, start: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Where rows are and where they would go; no columns where the distance does not know."""
    end, unknown = distance.move(start), np.empty((len(start), 0))
    return (unknown, unknown) if end is None else (start, end)


def refuse_negative(rows: float) -> None:
    """Raise about negative distances."""
    if rows:
        raise DataError(wording.negative(rows))


def refuse_disagreement(rows: float) -> None:
    """Raise about rows whose decision is not on their side of the boundary."""
    if rows:
        raise DataError(wording.disagreement(rows))


def tie(square: float, total: float) -> float:
    """Mean number of other rows with the same value."""
    return square / total - 1.0 if total > 0 else 0.0
