"""How rows stand for people: what each line weighs, and which rows belong together.

``count`` says that a line is k equal, independent rows; ``weight`` that a row stands for w people; ``cluster`` that
some rows belong to one person, household or branch. A `Design` carries what a variance needs of all three.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
from scipy import sparse

from isonomy.errors import BadWeight, UsageError
from isonomy.frames.adapt import Lazy
from isonomy.frames.sums import aggregate, collect, plain_keys
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

Sums = TypeVar("Sums")
Matrix = Any  # a scipy.sparse.csr_array, which has no element type of its own
MASS, SECOND, FOURTH, CLUSTER, CELL = "mass", "second", "fourth", "cluster", "cell"
# Rows of an engine that are brought into memory at once, in parts of whole clusters, come to an eighth of the table
# within these bounds: every part is a pass over it. MEMORY: bytes of what is read that stay there.
FEWEST_AT_ONCE, MOST_AT_ONCE, MEMORY = 1_000_000, 16_000_000, 1_000_000_000
# Entries of a matrix that is multiplied at once: more do not fit a processor's cache with their products.
AT_ONCE = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Whole clusters, one after the other: the line of each of their rows, and its mass (None: 1 each).

    The rows of cluster c are those from ``starts[c]`` to ``starts[c + 1]``; there are ``width`` lines.
    """

    starts: IntArray
    line: IntArray
    mass: FloatArray | None
    width: int

    @classmethod
    def of(cls, codes: IntArray, number: int, line: IntArray, mass: FloatArray | None, width: int) -> Block:
        """Rows with the ``codes`` of their clusters, from 0 to ``number`` - 1, in any order."""
        # A matrix with one entry in each column is turned into one by rows by counting: no sort is as quick.
        ends = np.arange(codes.size + 1, dtype=codes.dtype)
        rows = sparse.csc_array((line.astype(whole(width)), codes, ends), shape=(number, codes.size)).tocsr()
        starts = rows.indptr[np.append(np.diff(rows.indptr) > 0, True)]  # without numbers that stand for no cluster
        return cls(starts, rows.data, None if mass is None else mass[rows.indices], width)

    @property
    def size(self) -> int:
        """Bytes in memory."""
        return self.starts.nbytes + self.line.nbytes + (0 if self.mass is None else self.mass.nbytes)

    def ranges(self) -> list[tuple[int, int]]:
        """The first and the last cluster (which is not in it) of each part that is multiplied at once."""
        last = self.starts.size - 1
        wanted = np.arange(AT_ONCE, int(self.starts[-1]), AT_ONCE)
        ends = np.unique(np.append(np.searchsorted(self.starts, wanted.astype(self.starts.dtype)), last))
        return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))

    def matrix(self, first: int, last: int) -> Matrix:
        """Masses by cluster and line; a cluster may have several entries in a line, which count together."""
        low, high = int(self.starts[first]), int(self.starts[last])
        mass = np.ones(high - low) if self.mass is None else self.mass[low:high]
        pointers = (self.starts[first : last + 1] - low).astype(np.int32)
        entries = (mass, self.line[low:high].astype(np.int32), pointers)
        return sparse.csr_array(entries, shape=(last - first, self.width))


class Clusters:
    """Masses by cluster and line. What is read is kept, unless it is too much, and what was summed is remembered."""

    def __init__(self, read: Callable[[], Iterator[Block]]) -> None:
        self._read = read
        self._kept: list[Block] | None = None
        self.remembered: list[tuple[dict[bytes, int], Any]] = []

    @classmethod
    def of_rows(cls, codes: IntArray, mass: FloatArray) -> Clusters:
        """Rows that are lines of their own, with the number of their cluster."""
        number, rows = int(codes.max(initial=-1)) + 1, np.arange(codes.size)
        return cls(lambda: iter([Block.of(codes, number, rows, mass, codes.size)]))

    def each(self, function: Callable[[Matrix], Sums]) -> Iterator[Sums]:
        """What ``function`` makes of each matrix of whole clusters, in their order; in several threads where there are
        many."""
        with ThreadPoolExecutor(os.process_cpu_count() if hasattr(os, "process_cpu_count") else None) as pool:
            for block in self._read_once() if self._kept is None else self._kept:
                ranges = block.ranges()
                many = pool.map if len(ranges) > 1 else map
                yield from many(partial(_applied, function, block), ranges)

    def _read_once(self) -> Iterator[Block]:
        blocks: list[Block] = []
        left = MEMORY
        for block in self._read():
            left -= block.size
            if left >= 0:
                blocks.append(block)
            else:
                blocks.clear()
            yield block
        self._kept = blocks if left >= 0 else None


def whole(number: int) -> type[np.unsignedinteger[Any]]:
    """The smallest type of numbers from 0 to ``number`` - 1."""
    return np.uint8 if number <= 1 << 8 else np.uint16 if number <= 1 << 16 else np.uint32


def _applied(function: Callable[[Matrix], Sums], block: Block, clusters: tuple[int, int]) -> Sums:
    return function(block.matrix(*clusters))


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The lines of an answer (cells or rows) as they stand for people.

    ``mass`` is the sum of the weights of a line's rows, scaled so that all of them sum to the number of rows;
    ``second`` and ``fourth`` are the sums of the second and fourth powers. ``clusters`` has the masses by cluster and
    line; it is None where every row is a cluster of its own. Where the lines are some of those only, or their masses
    multiplied, ``placed`` says by what: all lines by these. ``people`` is the mean weight of a row.
    """

    mass: FloatArray
    second: FloatArray
    fourth: FloatArray
    rows: FloatArray
    clusters: Clusters | None
    placed: Matrix | None = None
    people: float = 1.0

    def restricted(self, lines: slice | AnyArray) -> Design:
        """The same for some of the lines."""
        if isinstance(lines, slice) and lines == slice(None):
            return self
        placed = None if self.clusters is None else self._placed[:, lines]
        return Design(self.mass[lines], self.second[lines], self.fourth[lines], self.rows[lines], self.clusters, placed)

    def scaled(self, factor: FloatArray) -> Design:
        """The same with every line's mass multiplied by ``factor``."""
        placed = None if self.clusters is None else self._placed @ sparse.diags_array(factor)
        powers = self.mass * factor, self.second * factor**2, self.fourth * factor**4
        return Design(*powers, self.rows, self.clusters, placed)

    @property
    def _placed(self) -> Matrix:
        return sparse.eye_array(self.mass.size, format="csc") if self.placed is None else self.placed


def designed(
    count: FloatArray, sums: dict[str, FloatArray], blocks: Callable[[float], Iterator[Block]] | None
) -> Design:
    """A design whose masses sum to the rows. ``blocks`` reads the clusters, given the scale of the masses."""
    total = float(sums[MASS].sum())
    if not total > 0:
        raise BadWeight("weight: all weights are 0; give the rows that count a weight above 0.")
    scale = float(count.sum()) / total
    if not (1e-60 < scale < 1e60 and np.isfinite(sums[FOURTH]).all()):
        raise BadWeight("weight: the weights are too large or too small to compute with; rescale them.")
    return Design(
        mass=sums[MASS] * scale,
        second=sums[SECOND] * scale**2,
        fourth=sums[FOURTH] * scale**4,
        rows=count,
        clusters=None if blocks is None else Clusters(partial(blocks, scale)),
        people=1.0 / scale,
    )


def parts_of(rows: float) -> int:
    """How many parts a table that an engine holds is read in."""
    return math.ceil(rows / min(max(rows / 8, FEWEST_AT_ONCE), MOST_AT_ONCE))


def masses_by(
    frame: Lazy, cluster: nw.Expr, keys: Mapping[str, nw.Expr], mass: nw.Expr | None, place: pl.DataFrame
) -> pl.DataFrame:
    """Masses by `CLUSTER` and `CELL`, the number in ``place`` of the keys' values; rows of no such cell are left out.

    Where polars has the rows they are joined to their cells as they are (and have no masses, where ``mass`` is None):
    a table by cluster and all keys takes much longer to make. Other engines make that table, and bring it here.
    """
    import polars as pl

    if not frame.implementation.is_polars():
        summed = {MASS: nw.lit(1.0) if mass is None else mass}
        table = plain_keys(collect(aggregate(frame, {CLUSTER: cluster, **keys}, summed)), list(keys))
        table = table.with_columns(_typed_as(place, table, list(keys)))
        return table.join(place, on=list(keys), how="inner", nulls_equal=True)
    named = {f"key {i}": key for i, key in enumerate(keys.values())}
    masses = () if mass is None else (mass.alias(MASS),)
    rows = frame.select(cluster.alias(CLUSTER), *masses, *(key.alias(name) for name, key in named.items()))
    cells = collect(rows.select(*named).unique())  # in the rows' own types, which those of ``place`` may not be
    plain = plain_keys(cells, list(named)).rename(dict(zip(named, keys, strict=True)))
    plain = plain.with_columns(_typed_as(place, plain, list(keys)))
    position = plain.join(place, on=list(keys), how="left", nulls_equal=True, maintain_order="left")[CELL]
    numbered = cells.with_columns(position)
    joined = rows.to_native().join(numbered.lazy(), on=list(named), how="inner", nulls_equal=True)
    return collect(nw.from_native(joined.filter(pl.col(CELL).is_not_null()).drop(*named)))


def _typed_as(place: pl.DataFrame, table: pl.DataFrame, keys: list[str]) -> list[pl.Series]:
    """The 0/1 keys that an engine has as true and false, as the numbers that their cells have."""
    import polars as pl

    truths = [key for key in keys if table.schema[key] == pl.Boolean != place.schema[key]]
    return [table[key].cast(place.schema[key]) for key in truths]


def block_of(cluster: pl.Series, line: IntArray, mass: FloatArray | None, width: int) -> Block:
    """The rows given, cluster by cluster; ``width`` is the number of lines."""
    return Block.of(*cluster_codes(cluster), line, mass, width)


def cluster_codes(cluster: pl.Series) -> tuple[IntArray, int]:
    """A number from 0 up for each cluster, some of which may stand for none; and how many numbers there are."""
    import polars as pl

    if cluster.dtype in (pl.Int128, pl.UInt128):
        cluster = cluster.cast(pl.String)
    if cluster.dtype == pl.String:
        cluster = cluster.cast(pl.Categorical)
    if isinstance(cluster.dtype, (pl.Categorical, pl.Enum)):
        cluster = cluster.to_physical()
    if cluster.dtype.is_integer() and len(cluster):
        low, high = int(cluster.min()), int(cluster.max())  # type: ignore[arg-type]
        if high - low < 4 * len(cluster):  # dense enough to be its own number
            wide = cluster if cluster.dtype == pl.UInt64 else cluster.cast(pl.Int64)
            return (wide - low).cast(_whole(high - low + 1)).to_numpy(), high - low + 1
    codes = cluster.rank("dense").cast(_whole(len(cluster))).to_numpy() - 1
    return codes, int(codes.max(initial=-1)) + 1


def _whole(most: int) -> type[pl.Int32 | pl.Int64]:
    """The smallest type of whole numbers that a matrix may be indexed by."""
    import polars as pl

    return pl.Int32 if most < 1 << 31 else pl.Int64


def refuse_bad_weights(column: str, n: float) -> None:
    """Raise if ``n`` rows have a negative weight."""
    if n:
        raise BadWeight(f"weight: column {column!r} has {n:,.0f} rows with a negative weight; weights are 0 or more.")


def refuse_cluster(cluster: str | None, names: set[str]) -> None:
    """Raise if the clusters are the groups: a group would be one cluster, whose mean has no spread to judge by."""
    if cluster is not None and cluster in names:
        raise UsageError(
            f"cluster: {cluster!r} is also a group; each group would be a single cluster, and nothing could be tested. "
            "Name the column that says which rows belong together."
        )
