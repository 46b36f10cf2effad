"""More than plain sums, asked of an engine: arrays of sums, extremes by key, and rows in parts by a hash."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from isonomy.frames.adapt import Lazy
from isonomy.frames.sums import COUNT, aggregate, collect, extremes
from isonomy.numerics.arrays import FloatArray

Terms = Mapping[str, nw.Expr]


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


def split(frame: Lazy, column: str, parts: int) -> list[Lazy]:
    """The rows in parts of about equal size, by a hash of one column: rows of equal values are in one part."""
    native, engine = frame.to_native(), frame.implementation
    conditions: list[Any]
    if engine.is_polars():
        import polars as pl

        conditions = [pl.col(column).hash() % parts == k for k in range(parts)]
    elif engine.is_duckdb():
        quoted = column.replace('"', '""')
        conditions = [f'hash("{quoted}") % {parts} = {k}' for k in range(parts)]
    elif engine.is_pyspark():
        from pyspark.sql import functions

        conditions = [functions.pmod(functions.hash(column), functions.lit(parts)) == k for k in range(parts)]
    else:
        conditions = [(native[column].hash() % parts + parts) % parts == k for k in range(parts)]
    return [nw.from_native(native.filter(condition)) for condition in conditions]
