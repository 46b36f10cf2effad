"""How rows stand for people: the weight of each line, and which rows belong together.

``count`` says that a line is k equal, independent rows; ``weight`` that a row stands for w people; ``cluster`` that
some rows belong to one person, household or branch. A `Design` carries what a variance needs of all three.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw
import numpy as np
from scipy import sparse

from isonomy.errors import BadWeight
from isonomy.frames.adapt import Lazy
from isonomy.frames.sums import aggregate, code_column, collect, plain_keys, split
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    import polars as pl

Sums = TypeVar("Sums")
Matrix = Any  # a scipy.sparse.csr_array, which has no element type
MASS, SECOND, FOURTH, CLUSTER, CELL = "mass", "second", "fourth", "cluster", "cell"
# An engine's rows are read in parts of whole clusters, an eighth of the table each within these bounds, as every part
# is a pass over it. MEMORY: bytes of what was read that are kept.
FEWEST_AT_ONCE, MOST_AT_ONCE, MEMORY = 1_000_000, 16_000_000, 1_000_000_000
# Rows of a block, which are sorted by cluster. Entries of a matrix multiplied at once: more do not fit
# into a processor's cache with their products.
BLOCK_ROWS, AT_ONCE = 250_000, 25_000


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Whole clusters in a row: the number of rows of each, the line of each row, and its mass (None: 1 each).

    There are ``width`` lines. Numbers have the smallest type that holds them: blocks are kept.
    """

    sizes: IntArray
    line: IntArray
    mass: FloatArray | None
    width: int

    @classmethod
    def from_codes(cls, codes: IntArray, number: int, line: IntArray, mass: FloatArray | None, width: int) -> Block:
        """Rows with the ``codes`` of their clusters, from 0 to ``number`` - 1, in any order."""
        # Converting a matrix with one entry per column to rows counts instead of sorting, which is faster.
        ends = np.arange(codes.size + 1, dtype=codes.dtype)
        rows = sparse.csc_array((line.astype(smallest_type(width)), codes, ends), shape=(number, codes.size)).tocsr()
        sizes = np.diff(rows.indptr)
        sizes = sizes[sizes > 0].astype(smallest_type(int(sizes.max(initial=0)) + 1))
        return cls(sizes, rows.data, None if mass is None else mass[rows.indices], width)

    @property
    def size(self) -> int:
        return self.sizes.nbytes + self.line.nbytes + (0 if self.mass is None else self.mass.nbytes)

    def parts(self) -> list[IntArray]:
        """The rows at which the clusters of each part begin, and at which its last one ends."""
        starts = np.append(0, np.cumsum(self.sizes, dtype=np.int64))
        wanted = np.searchsorted(starts, np.arange(AT_ONCE, int(starts[-1]), AT_ONCE))
        ends = np.unique(np.append(wanted, self.sizes.size)).tolist()
        return [starts[first : last + 1] for first, last in pairwise([0, *ends])]

    def matrix(self, starts: IntArray) -> Matrix:
        """Masses by cluster and line; several entries of a cluster in a line add up."""
        rows = slice(int(starts[0]), int(starts[-1]))
        mass = np.ones(rows.stop - rows.start) if self.mass is None else self.mass[rows]
        entries = (mass, self.line[rows].astype(np.int32), (starts - starts[0]).astype(np.int32))
        return sparse.csr_array(entries, shape=(starts.size - 1, self.width))


def blocks(table: pl.DataFrame, scale: float, width: int) -> Iterator[Block]:
    """The rows of a table with the columns `CLUSTER`, `CELL` and perhaps `MASS`, a block of clusters at a time."""
    import polars as pl

    if table.is_empty():
        return
    if table.schema[CLUSTER] not in (pl.Int64, pl.UInt64, pl.Int32, pl.UInt32):
        table = table.with_columns(pl.Series(CLUSTER, code_column(table[CLUSTER])[0]))
    low, high = table.select(pl.min(CLUSTER).alias("low"), pl.max(CLUSTER).alias("high")).row(0)
    step = (high - low) // max(len(table) // BLOCK_ROWS, 1) + 1
    for first in range(low, high + 1, step):
        rows = table.filter(pl.col(CLUSTER).is_between(first, min(first + step - 1, high)))
        masses = rows[MASS].to_numpy() * scale if MASS in rows.columns else None
        yield Block.from_codes(*code_column(rows[CLUSTER]), rows[CELL].to_numpy(), masses, width)


class Clusters:
    """Masses by cluster and line. What was read is kept, unless it is too much; so are ``sums`` of some columns."""

    def __init__(self, read: Callable[[], Iterator[Block]]) -> None:
        self._read = read
        self._blocks: list[Block] | None = None
        self.sums: list[tuple[FloatArray, list[Any]]] = []

    @classmethod
    def from_rows(cls, codes: IntArray, mass: FloatArray) -> Clusters:
        number, rows = int(codes.max(initial=-1)) + 1, np.arange(codes.size)
        return cls(lambda: iter([Block.from_codes(codes, number, rows, mass, codes.size)]))

    def apply(self, function: Callable[[Matrix], Sums]) -> Iterator[Sums]:
        """The results of ``function`` on each matrix of whole clusters, in order; several matrices run in threads."""

        def run(block: Block, starts: IntArray) -> Sums:
            return function(block.matrix(starts))

        with ThreadPoolExecutor(os.process_cpu_count() if hasattr(os, "process_cpu_count") else None) as pool:
            for block in self._read_once() if self._blocks is None else self._blocks:
                parts = block.parts()
                yield from (pool.map if len(parts) > 1 else map)(partial(run, block), parts)

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
        self._blocks = blocks if left >= 0 else None


def smallest_type(number: int) -> type[np.unsignedinteger[Any]]:
    return np.uint8 if number <= 1 << 8 else np.uint16 if number <= 1 << 16 else np.uint32


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """The lines of an answer (cells or rows) as they stand for people.

    ``mass`` is the sum of the weights of a line's rows, scaled so that all of them sum to the number of rows;
    ``second`` and ``fourth`` are the sums of the second and fourth powers. ``clusters`` has the masses by cluster and
    line, None if every row is a cluster of its own. If the lines are only some of those, or their masses are
    multiplied, ``placed`` maps them (all lines x these lines). ``people`` is the mean weight of a row.
    """

    mass: FloatArray
    second: FloatArray
    fourth: FloatArray
    rows: FloatArray
    clusters: Clusters | None
    placed: Matrix | None = None
    people: float = 1.0

    def restricted(self, lines: slice | AnyArray) -> Design:
        if isinstance(lines, slice) and lines == slice(None):
            return self
        placed = None if self.clusters is None else self._placed[:, lines]
        return Design(self.mass[lines], self.second[lines], self.fourth[lines], self.rows[lines], self.clusters, placed)

    def scaled(self, factor: FloatArray) -> Design:
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


def number_of_parts(rows: float) -> int:
    return ceil(rows / min(max(rows / 8, FEWEST_AT_ONCE), MOST_AT_ONCE))


def masses_by(
    frame: Lazy, parts: int, cluster: str, keys: Mapping[str, nw.Expr], mass: nw.Expr | None, place: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    """Masses by `CLUSTER` and `CELL`, the number in ``place`` of the keys' values, for each part of whole clusters.

    Rows in no such cell are left out. If polars holds the rows, they are joined to their cells as they are (without
    masses, if ``mass`` is None): a table by cluster and all keys takes much longer. Other engines make that table.
    """
    import polars as pl

    def alike(table: pl.DataFrame) -> pl.DataFrame:
        """0/1 keys that an engine returns as true and false, in the type of their cells."""
        truths = [key for key in keys if table.schema[key] == pl.Boolean != place.schema[key]]
        return table.with_columns(table[key].cast(place.schema[key]) for key in truths)

    frames = split(frame, cluster, parts) if parts > 1 else [frame]
    if not frame.implementation.is_polars():
        summed = {MASS: nw.lit(1.0) if mass is None else mass}
        for part in frames:
            table = collect(aggregate(part, {CLUSTER: nw.col(cluster), **keys}, summed))
            yield alike(plain_keys(table, list(keys))).join(place, on=list(keys), how="inner", nulls_equal=True)
        return
    named = {f"key {i}": key for i, key in enumerate(keys.values())}
    by = [key.alias(name) for name, key in named.items()]
    cells = collect(frame.select(*by).unique())  # in the rows' own types, which may differ from those of ``place``
    plain = alike(plain_keys(cells, list(named)).rename(dict(zip(named, keys, strict=True))))
    position = plain.join(place, on=list(keys), how="left", nulls_equal=True, maintain_order="left")[CELL]
    numbered = cells.with_columns(position).lazy()
    number = pl.col(CLUSTER)
    if parts > 1 and frame.collect_schema()[cluster].is_integer():  # half the memory
        names = nw.col(cluster)
        low, high = collect(frame.select(names.min().alias("low"), names.max().alias("high"))).row(0)
        number = (number - low).cast(pl.UInt32) if low is not None and high - low < 2**32 else number
    masses = () if mass is None else (mass.alias(MASS),)
    for part in frames:
        rows = part.select(nw.col(cluster).alias(CLUSTER), *masses, *by).to_native()
        joined = rows.join(numbered, on=list(named), how="inner", nulls_equal=True)
        chosen = joined.filter(pl.col(CELL).is_not_null()).with_columns(number).drop(*named)
        yield collect(nw.from_native(chosen))
