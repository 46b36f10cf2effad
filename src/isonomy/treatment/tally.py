"""Rows to sums by group, bucket, arm and kind of outcome: one grouped pass, or rows in memory where they are needed.

Rows are needed in memory for AIPW (outcome models are fitted to them), for the bootstrap over rows, and for random
splits of lines that stand for several rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import narwhals as nw
import numpy as np
import numpy.typing as npt

from isonomy.errors import DataError
from isonomy.frames import Cells, Group, Partition, Request, Rows, Source, open_source
from isonomy.frames.estimators import Column, column_of, eager
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.treatment.effects.adjust import cross_fitted
from isonomy.treatment.effects.moments import CONTROL, TREATED
from isonomy.treatment.effects.sums import Lines, Sums
from isonomy.treatment.plan import INDEPENDENT, CorrectionsPlan, Plan

_PRIME = 2**31 - 1

Numbers = TypeVar("Numbers", nw.Expr, IntArray)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """What the rows say, partition by partition: its named groups, and sums that may end with everybody else."""

    groups: tuple[tuple[Group, ...], ...]
    sums: tuple[Sums, ...]
    rows: int
    dropped: Mapping[str, int]
    lines: Lines | None = None  # for the bootstrap over rows


def tally(source: Source, plan: Plan, rng: np.random.Generator) -> Tally:
    """Sums of every partition; in two buckets where predicted and observed effects come from different rows."""
    if plan.formula.estimator == "aipw":
        return _tally_predicted(source, plan, rng)
    if plan.split == INDEPENDENT:
        return _tally_buckets(source, plan, 2, rng)
    sums = _tally_cells(source, plan.request(), plan, 1 if plan.split is None else 2)
    if plan.variance == "bootstrap_rows":
        return replace(sums, lines=_lines(source.rows(plan.request(sums=False)), plan))
    return sums


def tally_corrections(source: Source, plan: CorrectionsPlan, rng: np.random.Generator) -> Tally:
    """Sums of every partition with the rows spread at random over equal buckets."""
    return _tally_buckets(source, plan.errors, plan.buckets, rng)


def _tally_buckets(source: Source, plan: Plan, buckets: int, rng: np.random.Generator) -> Tally:
    coefficients = _coefficients(rng)
    if source.count is not None:  # a line may stand for many rows: each of them has its own bucket
        rows = source.rows(plan.request(sums=False))
        return _tally_lines(rows, _lines(rows, plan), plan, buckets, *_spread(rows, buckets, rng))
    row = source.fresh("row")
    numbered = source.numbered(row)
    bucket = _hashed(nw.col(row).cast(nw.Int64), coefficients, buckets)
    request = plan.request()
    return _tally_cells(numbered, replace(request, keys={**request.keys, "bucket": bucket}), plan, buckets)


def _tally_cells(source: Source, request: Request, plan: Plan, buckets: int) -> Tally:
    cells = source.cells(request)
    bucket = "split" if "split" in cells.keys else "bucket"
    half, arm, kind = (_codes(cells.keys, name, len(cells.count)) for name in (bucket, "treatment", "kind"))
    sums = tuple(
        Sums.added(plan.formula.columns, (groups, buckets), (group, half, arm, kind), cells.count, cells.values)
        for group, groups in map(_group_codes, cells.partitions)
    )
    return _tallied(cells, sums, plan)


def _tally_predicted(source: Source, plan: Plan, rng: np.random.Generator) -> Tally:
    """Sums with the outcomes that models fitted on other rows predict in either arm (AIPW)."""
    rows = source.rows(plan.request(sums=False))
    lines = _lines(rows, plan)
    features = np.stack([lines.factors[name] for name in plan.formula.covariates], -1)
    predictions = {
        name: cross_fitted(features, lines.factors["y"], lines.arm == arm, lines.weight, rng)
        for name, arm in (("p0", CONTROL), ("p1", TREATED))
    }
    lines = replace(lines, factors={**lines.factors, **predictions})
    line, weight, bucket = np.arange(rows.size), lines.weight, _codes(rows.columns, "split", rows.size)
    if plan.split == INDEPENDENT:
        coefficients = _coefficients(rng)
        if rows.weight is None:
            bucket = _hashed(line, coefficients, 2)
        else:
            line, weight, bucket = _spread(rows, 2, rng)
    return _tally_lines(rows, lines, plan, 1 if plan.split is None else 2, line, weight, bucket)


def _tally_lines(
    rows: Rows, lines: Lines, plan: Plan, buckets: int, line: IntArray, weight: FloatArray, bucket: IntArray
) -> Tally:
    return _tallied(rows, lines.sums(plan.formula.columns, line, weight, bucket, buckets), plan, lines)


def _tallied(read: Cells | Rows, sums: tuple[Sums, ...], plan: Plan, lines: Lines | None = None) -> Tally:
    if not all(np.isfinite(one.products).all() and np.isfinite(one.sums).all() for one in sums):
        raise DataError(
            f"effect: column {plan.effect!r} holds 0, and collapse={plan.formula.collapse!r} divides by it; choose "
            "another."
        )
    return Tally(tuple(partition.groups for partition in read.partitions), sums, read.rows, read.dropped, lines)


def _lines(rows: Rows, plan: Plan) -> Lines:
    return Lines(
        factors={term: np.asarray(rows.columns[role], dtype=float) for term, role in plan.terms.items()},
        arm=_codes(rows.columns, "treatment", rows.size),
        kind=_codes(rows.columns, "kind", rows.size),
        weight=np.ones(rows.size) if rows.weight is None else rows.weight,
        groups=tuple(_group_codes(partition) for partition in rows.partitions),
    )


def _codes(columns: Mapping[str, AnyArray], name: str, size: int) -> IntArray:
    return columns[name].astype(np.intp) if name in columns else np.zeros(size, dtype=np.intp)


def _group_codes(partition: Partition) -> tuple[IntArray, int]:
    """The group of each entry, and how many there are. Rows in no group become one last group: part of every rest."""
    outside, named = partition.codes < 0, len(partition.groups)
    return np.where(outside, named, partition.codes), named + bool(outside.any())


def _coefficients(rng: np.random.Generator) -> list[int]:
    return [int(number) for number in rng.integers(1, _PRIME, size=6)]


def _hashed(row: Numbers, coefficients: Sequence[int], buckets: int) -> Numbers:
    """A random bucket from a row's number, by arithmetic that is equal on every engine.

    Two rounds of a random line and a square modulo a prime; every product fits 64 bits.
    """
    a, b, c, d, e, f = coefficients
    mixed = (row % _PRIME * a + b) % _PRIME
    mixed = (mixed * mixed + c) % _PRIME
    mixed = (mixed * d + e) % _PRIME
    mixed = (mixed * mixed + f) % _PRIME
    return mixed % buckets


def _spread(rows: Rows, buckets: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray, IntArray]:
    """Lines that stand for several rows: each line's rows spread over the buckets, as line, rows and bucket."""
    assert rows.weight is not None
    spread = rng.multinomial(rows.weight.astype(np.int64), np.full(buckets, 1 / buckets)).astype(float)
    line, bucket = np.nonzero(spread)
    return line, spread[line, bucket], bucket


def tally_experiment(
    X: object, y: npt.ArrayLike, weight: npt.ArrayLike | None, groups: Sequence[Column], roles: Mapping[str, Column]
) -> tuple[Source, dict[str, str]]:
    """The columns of X that a corrector is fitted on, as a table, and the names of its roles there.

    Group columns keep their names, which the labels of groups show; the roles have names that no group column has.
    """
    keys = {str(name): _values(X, name, "group_columns") for name in groups}
    fresh = open_source(keys).fresh
    names, count = {role: fresh(role) for role in (*roles, "outcome")}, fresh("count")
    table = keys | {names[role]: _values(X, name, f"{role}_column") for role, name in roles.items()}
    table[names["outcome"]] = np.asarray(y).ravel()
    if weight is None:
        return open_source(table), names
    return open_source(table | {count: np.asarray(weight).ravel()}, count=count), names


def tally_rows(X: object, effect: Column, groups: Sequence[Column]) -> tuple[FloatArray, tuple[Group, ...], IntArray]:
    """The predicted effect of each row of X, the groups that occur, and which of them each row belongs to."""
    effects = np.asarray(_values(X, effect, "effect_column"), dtype=float)
    if not np.isfinite(effects).all():
        raise DataError(f"effect: {int((~np.isfinite(effects)).sum()):,} predictions are NaN or infinite.")
    names = [str(name) for name in groups]
    source = open_source({str(name): _values(X, name, "group_columns") for name in groups}, missing_group="level")
    partition = source.rows(Request(grouping=source.grouping(names, len(names)))).partitions[-1]
    return effects, partition.groups, partition.codes


def _values(X: object, column: Column, argument: str) -> object:
    """One column of X, in a form that every frame library shares."""
    frame = eager(X)
    values = column_of(np.asarray(X) if frame is None else frame, column, argument)
    if isinstance(values, nw.Series):
        if not values.implementation.is_pandas():
            return values.to_polars()
        values = values.to_numpy()
    try:
        return values.astype(float) if values.dtype == object else values  # numbers held as objects
    except (TypeError, ValueError):
        return values
