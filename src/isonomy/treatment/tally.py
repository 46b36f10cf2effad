"""Rows to cells: counts, sums and sums of products by group, bucket, arm and kind of outcome, in one grouped pass.

The kind separates outcomes that are exactly 0, exactly 1 and anything else. Moments add over kinds, so estimates do
not depend on it; the bootstrap over cells does, and is then exact in the counts of a 0/1 outcome.

Buckets are random, equal parts of the rows. A random half of the rows is a random half of the buckets, so one pass
serves every split and both of its swaps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.errors import DataError, UsageError
from isonomy.frames import Group, Partition, Request, Rows, Source
from isonomy.frames.adapt import Adapted
from isonomy.numerics.arrays import FloatArray
from isonomy.treatment.moments import Column, Moments, column
from isonomy.treatment.plan import FEATURE, Plan

KINDS = 3
_ROW, _BUCKET = "__row", "__bucket"
_PRIME = 2**31 - 1


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Sums of one partition. Axes: group, bucket, arm, kind, then columns. The last group may be everybody else."""

    columns: tuple[str, ...]
    groups: tuple[Group, ...]
    n: FloatArray
    sums: FloatArray
    products: FloatArray

    def moments(self, buckets: NDArray[np.intp] | slice = slice(None)) -> Moments:
        """Moments of each group over the given buckets."""
        n, sums, products = (a[:, buckets].sum((1, 3)) for a in (self.n, self.sums, self.products))
        return Moments.from_sums(self.columns, n, sums, products)

    @property
    def events(self) -> FloatArray:
        """Rows with an outcome other than zero in the arm that has fewer of them."""
        return self.n[..., 1:].sum((1, 3)).min(-1)

    def part(self, buckets: NDArray[np.intp]) -> Cells:
        """The same cells over the given buckets only, as one bucket."""
        n, sums, products = (a[:, buckets].sum(1, keepdims=True) for a in (self.n, self.sums, self.products))
        return Cells(self.columns, self.groups, n, sums, products)


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Everything one analysis needs of the rows."""

    partitions: tuple[Cells, ...]
    rows: int
    dropped: Mapping[str, int]


def requests(source: Source, plan: Plan) -> tuple[Request, ...]:
    """The one grouped pass of a plan without random splits. (AIPW makes columns of its own first.)"""
    return () if plan.estimator == "aipw" else (base_request(source, plan),)


def base_request(source: Source, plan: Plan) -> Request:
    """What a plan asks of the rows."""
    return _request(source, plan, {}, {})


def row_names(plan: Plan) -> tuple[str, ...]:
    """Where the values of ``plan.columns`` are found among the columns of `base_request`'s rows."""
    return tuple(_name(column(name)) for name in plan.columns)


def tally(source: Source, plan: Plan, *, split: str | None = None) -> Sample:
    """Cells of every partition. ``split``: a 0/1 column that becomes two buckets."""
    return _read(source, _request(source, plan, {"split": split} if split else {}, {}), plan, 2 if split else 1)


def tally_buckets(source: Source, plan: Plan, buckets: int, rng: np.random.Generator) -> Sample:
    """Cells with the rows spread at random over equal buckets; one pass."""
    coefficients = rng.integers(1, _PRIME, size=6)
    if source.count is not None:  # a line may stand for many rows: each of them has its own bucket
        rows = source.rows(base_request(source, plan))
        return _spread(rows, plan, buckets, rng)
    mixed = extended(source, _with_row(source))
    key = _hashed(nw.col(_ROW).cast(nw.Int64), [int(c) for c in coefficients], buckets)
    return _read(mixed, _request(mixed, plan, {}, {_BUCKET: key}), plan, buckets)


def _request(source: Source, plan: Plan, binary: Mapping[str, str], keys: Mapping[str, nw.Expr]) -> Request:
    experiment = plan.treatment is not None and plan.outcome is not None
    numeric = {"effect": plan.effect}
    numeric |= {"outcome": plan.outcome} if plan.outcome is not None else {}
    numeric |= {"baseline": plan.baseline} if plan.baseline is not None and _needs(plan, "h") else {}
    numeric |= {f"features[{i}]": name for i, name in enumerate(plan.features)}
    values = {name: _expression(plan, powers) for name, powers in _wanted(plan.columns).items()}
    return Request(
        grouping=source.grouping(plan.groups, plan.depth),
        binary={**({"treatment": plan.treatment} if plan.treatment is not None else {}), **binary},
        numeric=numeric,
        keys={**({"kind": _kind(plan.outcome)} if experiment and plan.outcome is not None else {}), **keys},
        values=values,
    )


def _needs(plan: Plan, factor: str) -> bool:
    return any(factor in column(name).factors for name in plan.columns)


def _wanted(columns: tuple[str, ...]) -> dict[str, Column]:
    """Every first and second moment, by a name that is equal for equal products."""
    singles = [column(name) for name in columns]
    pairs = [_times(a, b) for i, a in enumerate(singles) for b in singles[i:]]
    return {_name(c): c for c in (*singles, *pairs)}


def _times(left: Column, right: Column) -> Column:
    return Column(left.power + right.power, tuple(sorted((*left.factors, *right.factors))))


def _name(product: Column) -> str:
    return f"sum y^{product.power} {' '.join(sorted(product.factors))}".rstrip()


def _expression(plan: Plan, product: Column) -> nw.Expr:
    roles = {"f": plan.effect, "h": plan.baseline, "p0": "p0", "p1": "p1"}
    result: Any = nw.lit(1.0)
    factors: Iterable[str] = (*("y",) * product.power, *product.factors)
    for i, factor in enumerate(factors):
        if factor == "1/f":
            term: Any = 1.0 / nw.col(plan.effect).cast(nw.Float64)
        elif factor == "y":
            term = nw.col(str(plan.outcome)).cast(nw.Float64)
        else:
            name = factor.removeprefix(FEATURE) if factor.startswith(FEATURE) else roles[factor]
            term = nw.col(str(name)).cast(nw.Float64)
        result = term if i == 0 else result * term
    return result


def _kind(outcome: str | None) -> nw.Expr:
    y = nw.col(str(outcome)).cast(nw.Float64)
    return nw.when(y == 0).then(nw.lit(0)).otherwise(nw.when(y == 1).then(nw.lit(1)).otherwise(nw.lit(2)))


def _read(source: Source, request: Request, plan: Plan, buckets: int) -> Sample:
    cells = source.cells(request)
    zeros = np.zeros(len(cells.count), dtype=np.intp)
    arm, kind, bucket = (
        np.asarray(cells.keys.get(name, zeros)).astype(np.intp) for name in ("treatment", "kind", _BUCKET)
    )
    bucket = np.asarray(cells.keys["split"]).astype(np.intp) if "split" in cells.keys else bucket
    made = tuple(_dense(plan, p, arm, kind, bucket, buckets, cells.count, cells.values) for p in cells.partitions)
    return Sample(made, cells.rows, cells.dropped)


def _dense(
    plan: Plan,
    partition: Partition,
    arm: NDArray[np.intp],
    kind: NDArray[np.intp],
    bucket: NDArray[np.intp],
    buckets: int,
    count: FloatArray,
    values: Mapping[str, FloatArray],
) -> Cells:
    """Sums by cell, added into arrays. Rows in no group become one last group: part of every rest."""
    outside = bool((partition.codes < 0).any())
    codes = np.where(partition.codes < 0, len(partition.groups), partition.codes)
    shape = (len(partition.groups) + outside, buckets, 2, KINDS)
    at = np.ravel_multi_index((codes, bucket, arm, kind), shape)

    def total(weights: FloatArray) -> FloatArray:
        return np.bincount(at, weights=weights, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)

    made = {name: total(values[name]) for name in _wanted(plan.columns)}
    if not all(np.isfinite(a).all() for a in made.values()):
        raise DataError(
            f"effect: column {plan.effect!r} holds 0, and collapse={plan.collapse!r} divides by it; choose another."
        )
    singles = [column(name) for name in plan.columns]
    sums = np.stack([made[_name(c)] for c in singles], -1)
    products = np.stack([np.stack([made[_name(_times(a, b))] for b in singles], -1) for a in singles], -2)
    return Cells(plan.columns, partition.groups, total(count), sums, products)


def _spread(rows: Rows, plan: Plan, buckets: int, rng: np.random.Generator) -> Sample:
    """Lines that stand for several rows: each line's count is spread over the buckets."""
    assert rows.weight is not None
    spread = rng.multinomial(rows.weight.astype(np.int64), np.full(buckets, 1 / buckets)).astype(float)
    line, bucket = np.nonzero(spread)
    weight = spread[line, bucket]
    zeros = np.zeros(rows.size, dtype=np.intp)
    arm, kind = (np.asarray(rows.columns.get(name, zeros)).astype(np.intp)[line] for name in ("treatment", "kind"))
    values = {name: np.asarray(rows.columns[name], dtype=float)[line] * weight for name in _wanted(plan.columns)}
    made = tuple(
        _dense(plan, Partition(p.dimensions, p.groups, p.codes[line]), arm, kind, bucket, buckets, weight, values)
        for p in rows.partitions
    )
    return Sample(made, rows.rows, rows.dropped)


def extended(source: Source, frame: Any) -> Source:
    """The same table under the same options, with columns of ours added."""
    adapted = Adapted(frame, source.backend, source.lazy)
    return Source(adapted, count=source.count, missing=source.missing, missing_group=source.missing_group)


def _with_row(source: Source) -> Any:
    """The frame with a number for each row, in the order the engine holds them."""
    frame = source.frame
    if isinstance(frame, nw.DataFrame):
        return frame.with_row_index(_ROW)
    native: Any = frame.to_native()
    kind = frame.implementation
    if kind.is_polars():
        return nw.from_native(native.with_row_index(_ROW))
    if kind.is_duckdb():
        return nw.from_native(native.project(f'*, row_number() over () - 1 as "{_ROW}"'))
    if kind.is_pyspark():
        from pyspark.sql import functions

        return nw.from_native(native.withColumn(_ROW, functions.monotonically_increasing_id()))
    raise UsageError(
        f"data: rows of {source.backend} cannot be numbered for a random split; bring a split column, or another table."
    )


def _hashed(row: nw.Expr, coefficients: list[int], buckets: int) -> nw.Expr:
    """A random bucket from a row's number, by arithmetic that is equal on every engine.

    Two rounds of a random line and a square modulo a prime; every product fits 64 bits.
    """
    a, b, c, d, e, f = coefficients
    mixed = (row % _PRIME * a + b) % _PRIME
    mixed = (mixed * mixed + c) % _PRIME
    mixed = (mixed * d + e) % _PRIME
    mixed = (mixed * mixed + f) % _PRIME
    return mixed % buckets
