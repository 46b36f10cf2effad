"""More than plain sums, asked of an engine: sums of products, nested by person, and functions joined from small tables.

No row leaves polars, DuckDB, Spark or a warehouse: nested grouped sums and joins, then a few numbers are collected.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations_with_replacement, product

import narwhals as nw
import numpy as np

from isonomy.frames.adapt import Lazy
from isonomy.frames.sums import COUNT, aggregate, collect, extremes
from isonomy.numerics.arrays import FloatArray, IntArray

Terms = Mapping[str, nw.Expr]
_OTHER, _PLACE = "__other", "__place"


def sums_at(frame: Lazy, keys: Mapping[str, tuple[nw.Expr, int]], values: Terms) -> dict[str, FloatArray]:
    """Sums by keys that are whole numbers from 0 up, as arrays with one axis per key; COUNT is among them.

    ``keys`` has the expression of each key and how many values it can have; where no row has them the sums are 0.
    """
    table = collect(aggregate(frame, {name: key for name, (key, _) in keys.items()}, values))
    at = tuple(table[name].to_numpy().astype(np.intp) for name in keys)
    arrays = {}
    for name in (COUNT, *values):
        arrays[name] = np.zeros([size for _, size in keys.values()])
        if len(table):
            arrays[name][at if at else ...] = table[name].to_numpy() if at else table[name][0]
    return arrays


def gram(frame: Lazy, blocks: Sequence[Sequence[str]]) -> list[FloatArray]:
    """For each block of columns the matrix of the sums of their products."""
    pairs = [(a, b) for block in blocks for a, b in combinations_with_replacement(block, 2)]
    totals = sums_at(frame, {}, {f"{a} {b}": nw.col(a) * nw.col(b) for a, b in pairs})
    matrices = [np.zeros((len(block), len(block))) for block in blocks]
    for block, matrix in zip(blocks, matrices, strict=True):
        for i, j in combinations_with_replacement(range(len(block)), 2):
            matrix[i, j] = matrix[j, i] = totals[f"{block[i]} {block[j]}"]
    return matrices


def cross_gram(first: Lazy, second: Lazy, on: str, blocks: Sequence[Sequence[str]]) -> list[FloatArray]:
    """The same between columns of two frames, over the rows of equal ``on``."""
    both = first.join(second, on=on, how="inner", suffix=_OTHER)
    pairs = [(a, b) for block in blocks for a, b in product(block, block)]
    totals = sums_at(both, {}, {f"{a} {b}": nw.col(a) * nw.col(f"{b}{_OTHER}") for a, b in pairs})
    return [np.array([[float(totals[f"{a} {b}"]) for b in block] for a in block]) for block in blocks]


def gram_by_cell(frame: Lazy, on: str, cell: nw.Expr, value: nw.Expr, size: int) -> FloatArray:
    """Products of the sums of ``value`` in each two of ``size`` cells, added up over the values of ``on``."""
    each = aggregate(frame, {"on": nw.col(on), "cell": cell}, {"value": value}).drop(COUNT)
    both = each.join(each, on="on", how="inner", suffix=_OTHER)
    cells = {"a": (nw.col("cell"), size), "b": (nw.col(f"cell{_OTHER}"), size)}
    return sums_at(both, cells, {"value": nw.col("value") * nw.col(f"value{_OTHER}")})["value"]


def count_persons(frame: Lazy, person: str, group: str, size: int) -> tuple[FloatArray, int]:
    """Persons of each of ``size`` groups, and how many appear in several."""
    each = aggregate(frame, {"person": nw.col(person), "group": nw.col(group)}, {})
    persons = sums_at(each, {"group": (nw.col("group"), size)}, {})[COUNT]
    several = aggregate(each, {"person": nw.col("person")}, {}).filter(nw.col(COUNT) > 1)
    return persons, round(float(sums_at(several, {}, {})[COUNT]))


def ends_at(frame: Lazy, key: nw.Expr, size: int, value: nw.Expr) -> tuple[FloatArray, FloatArray]:
    """The least and the largest ``value`` for each ``key``, a whole number below ``size``; NaN without a row."""
    table = extremes(frame, value, {"key": key})
    ends = np.full((2, size), np.nan)
    ends[:, table["key"].to_numpy().astype(np.intp)] = table["low"].to_numpy(), table["high"].to_numpy()
    return ends[0], ends[1]


def off_binary(column: str) -> nw.Expr:
    """Above 0 where a number is neither 0 nor 1: (y (1 - y))^2, so that a sum of them is 0 only if all are."""
    y = nw.col(column).cast(nw.Float64)
    return (y * (1.0 - y)) * (y * (1.0 - y))


def position(column: nw.Expr, start: float, step: float, size: int) -> nw.Expr:
    """Which of ``size`` intervals from ``start`` on a number lies in, those beyond in the outer ones; a whole float."""
    return ((column - start) * step).floor().clip(0, size - 1)


def with_table(frame: Lazy, place: nw.Expr, columns: Mapping[str, FloatArray | IntArray]) -> Lazy:
    """The frame with further columns: the entries of arrays at the place that a whole number says."""
    size = len(next(iter(columns.values())))
    small = {name: np.asarray(values, dtype=np.float64) for name, values in columns.items()}
    table = _beside(frame, {_PLACE: np.arange(size, dtype=np.float64)} | small)
    return frame.with_columns(place.alias(_PLACE)).join(table, on=_PLACE, how="inner").drop(_PLACE)


def _beside(frame: Lazy, columns: Mapping[str, FloatArray]) -> Lazy:
    """A small table of numbers in the same session as ``frame``, to be joined to it."""
    import polars as pl

    small = pl.DataFrame(dict(columns))
    engine = frame.implementation
    if engine.is_polars():
        return nw.from_native(small.lazy())
    native = frame.to_native()
    if engine.is_duckdb():
        arrow = small.to_arrow()
        assert arrow is not None  # DuckDB finds it by its name
        return nw.from_native(native.query("_", "select * from arrow"))
    if engine.is_pyspark():
        return nw.from_native(native.sparkSession.createDataFrame(small.rows(), small.columns))
    import ibis

    return nw.from_native(ibis.memtable(small.to_arrow()))
