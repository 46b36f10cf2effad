"""Work on rows where Spark's workers hold them: what comes back is added up, never a row.

The workers import this package, so it has to be installed there; every other question asks Spark for sums alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

import narwhals as nw
import numpy as np

from isonomy.errors import DataError, UsageError
from isonomy.frames.adapt import Lazy
from isonomy.frames.sums import aggregate, collect
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray

if TYPE_CHECKING:
    import pyarrow as pa

Entries = tuple[IntArray, FloatArray]  # numbers, and the places of an array that they are added to
Work = Callable[[Mapping[str, AnyArray]], Iterable[Entries]]

PART_ROWS = 2**20  # of one part: a worker holds the columns of that many rows
_PLACE, _VALUE = "place", "value"


def has_workers(frame: Lazy) -> bool:
    """Whether the rows are Spark's."""
    return frame.implementation.is_pyspark() or frame.implementation.is_pyspark_connect()


def summed_parts(frame: Lazy, together: str | None, rows: int, work: Work) -> Entries:
    """What ``work`` makes of each part of the rows, added up by place; places in order.

    Parameters
    ----------
    frame : Lazy
        The rows and columns that ``work`` is given, as arrays.
    together : str or None
        Rows with equal values of this column are in one part.
    rows : int
        About how many there are: parts have `PART_ROWS` at most.
    work : callable
        A function that workers can import, with its arguments bound.
    """
    native = frame.to_native()
    if together is not None:
        native = native.repartition(math.ceil(rows / PART_ROWS), together)
    each = nw.from_native(native.mapInArrow(partial(_entries, work), f"{_PLACE} long, {_VALUE} double"))
    try:
        table = collect(aggregate(each, {_PLACE: nw.col(_PLACE)}, {_VALUE: nw.col(_VALUE)}))
    except DataError as error:
        if "No module named 'isonomy'" in str(error.__cause__):
            raise UsageError(
                "data: Spark's workers cannot import isonomy, which this test needs there; install it on them."
            ) from error
        raise
    table = table.sort(_PLACE)
    return table[_PLACE].to_numpy(), table[_VALUE].to_numpy()


def _entries(work: Work, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One part of the rows, on a worker."""
    import polars as pl
    import pyarrow as pa

    held = list(batches)
    if not sum(batch.num_rows for batch in held):
        return
    table = pl.from_arrow(pa.Table.from_batches(held))
    assert isinstance(table, pl.DataFrame)
    held.clear()
    for place, value in work({name: table[name].rechunk().to_numpy() for name in table.columns}):
        yield pa.RecordBatch.from_arrays(
            [pa.array(place.astype(np.int64)), pa.array(value.astype(np.float64))], names=[_PLACE, _VALUE]
        )
