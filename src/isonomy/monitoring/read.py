"""The rows of batches: sums by batch and group, and how they enter the state."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import polars as pl

from isonomy.errors import EmptyFrame, MissingGroups, UsageError, WrongType
from isonomy.frames import Group, Request, Sample
from isonomy.frames.expressions import flag, missing
from isonomy.frames.groups import CONDITION, belongs
from isonomy.frames.metrics import ERRORS, Measure, listed
from isonomy.monitoring.sequences.score import BUCKETS, bucket_spread, bucket_terms
from isonomy.monitoring.sequences.strata import central_sums, closes
from isonomy.monitoring.state import Batch, MonitorState, now
from isonomy.numerics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from isonomy.monitoring.monitor import MonitorPlan

MOST_BATCHES = 100_000
FEWEST, FIRST = 50, 1_000  # rows whose identifiers can tell batches apart, and how many of them are looked at


def batch_request(plan: MonitorPlan, bound: Measure) -> Request:
    """The request of a metric, with the batch, the reference group and the person as further keys."""
    keys, labels = dict(bound.request.keys), dict(bound.request.labels)
    if plan.batch is not None:
        plan.source.require(batch=plan.batch)
        keys["batch"] = nw.col(plan.batch)
    if plan.group is not None:
        keys["reference"] = flag(belongs(plan.group, plan.grouping, plan.source.schema))
    if plan.source.cluster is not None:
        keys["person"], labels["cluster"] = nw.col(plan.source.cluster), plan.source.cluster
    return replace(bound.request, keys=keys, labels=labels)


@dataclass
class BatchTally:
    """The sums of some batches; see `Batch`. ``sums`` are batches x groups x sides x sums, for each metric."""

    names: tuple[str, ...]
    rows: list[int]
    dropped: dict[str, int] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    sizes: FloatArray = field(default_factory=lambda: np.zeros((1, 0)))
    sums: list[FloatArray] = field(default_factory=list)
    totals: list[FloatArray] = field(default_factory=list)
    buckets: list[FloatArray] = field(default_factory=list)  # batches x groups x sides x sums x buckets
    fingerprint: str = ""


def read(plan: MonitorPlan, name: str | None = None) -> BatchTally:
    """The sums of every batch of a table; of a single batch, if it has a ``name``."""
    tally: BatchTally | None = None
    source = plan.source.reread(cluster=None) if plan.source.cluster is not None else plan.source
    try:
        for bound, request in zip(plan.measures, plan.metric_requests, strict=True):
            sample = source.cells(request, plan.shared) if bound.binary else _powers(source, bound, request)
            bound.refuse_absent(sample)
            tally = _tally(tally, sample, bound, plan, name)
    except EmptyFrame:
        if name is None:
            raise
        return BatchTally((name,), [0], totals=[np.zeros((1, 3)) for _ in plan.measures])
    assert tally is not None
    return tally if name is None else replace(tally, fingerprint=_fingerprint(plan, tally))


def _powers(source: Any, bound: Measure, request: Request) -> Sample:
    """Sums of the first three powers of the value, about its mean over all rows: those about 0 lose digits."""
    value = request.values.get("value", request.numeric.get("value")).cast(nw.Float64)  # type: ignore[union-attr]
    first = source.cells(replace(request, values={"x": value}))
    counted = bound.inside(first)
    pivot = float(first.values["x"][counted].sum() / max(first.counts[counted].sum(), 1.0))
    x = value - pivot
    sample = source.cells(replace(request, values={"x": x, "xx": x * x, "xxx": x * x * x}))
    return replace(sample, columns={**sample.columns, "pivot": np.full(sample.size, pivot)})


def _tally(tally: BatchTally | None, sample: Sample, bound: Measure, plan: MonitorPlan, name: str | None) -> BatchTally:
    mass, size, everybody = sample.counts, sample.size, np.zeros(sample.size, dtype=np.intp)
    names, batch = ((name,), everybody) if name is not None else _batches(sample)
    values = [mass * bound.value(sample)] if bound.binary else [sample.values[power] for power in ("x", "xx", "xxx")]
    lines = np.where(bound.inside(sample), np.stack([mass, *values]), 0.0)
    chosen = sample.columns["reference"] == 1 if plan.group is not None else np.ones(size, dtype=bool)
    people = sample.columns.get("person")
    buckets, bucket = (1, everybody) if people is None else (BUCKETS, _buckets(people))

    def added(lines: FloatArray, group: IntArray, groups: int) -> FloatArray:
        """Batches x groups x sums x buckets."""
        place, inside = (batch * groups + group) * buckets + bucket, group >= 0
        shape = (len(names), groups, buckets)
        sums = [np.bincount(place[inside], part[inside], minlength=int(np.prod(shape))) for part in lines]
        return np.stack([part.reshape(shape) for part in sums], axis=2).astype(float)

    parts = []
    for partition in sample.partitions:
        wide = len(partition.groups)
        mine = added(lines, partition.codes, wide)
        theirs = added(lines * chosen, everybody, 1) - added(lines * chosen, partition.codes, wide)
        theirs *= (theirs[:, :, :1] > 0) & (plan.number is None)  # rounding of sums, or no people to compare with
        parts.append(np.stack([mine, theirs], axis=2))
    both, whole = np.concatenate(parts, axis=1), added(lines, everybody, 1).sum(axis=-1)[:, 0]
    sums = both.sum(axis=-1)
    if not bound.binary:
        pivot = np.array([0.0, sample.columns["pivot"][0], 0.0, 0.0])
        sums, whole = (part + pivot * (part[..., :1] > 0) for part in (central_sums(sums), central_sums(whole)))
    if tally is None:
        sizes = [added(mass[None], part.codes, len(part.groups)).sum(axis=(2, 3)) for part in sample.partitions]
        groups = tuple(group for partition in sample.partitions for group in partition.groups)
        rows = [round(n) for n in np.bincount(batch, mass, minlength=len(names))]
        tally = BatchTally(tuple(names), rows, groups=groups, sizes=np.concatenate(sizes, axis=1))
    tally.dropped |= sample.dropped
    tally.sums.append(sums)
    tally.totals.append(whole[:, :3])
    if people is not None:
        tally.buckets.append(both)
    return tally


def _batches(sample: Sample) -> tuple[tuple[str, ...], IntArray]:
    """The names of the batches, in the order of their values, and the batch of each line."""
    values = pl.Series(sample.columns["batch"], nan_to_null=True, strict=False)
    if values.dtype.is_nested() or values.dtype in (pl.Object, pl.Binary):
        raise WrongType("batch: the column holds lists, bytes or objects; use text, numbers or dates.")
    if values.null_count():
        absent = float(sample.counts[values.is_null().to_numpy()].sum())
        raise MissingGroups(f"batch: {absent:,.0f} rows have no value. Fill in the batch, or leave these rows out.")
    distinct = values.unique().sort()
    if len(distinct) > MOST_BATCHES:
        raise UsageError(f"batch: {len(distinct):,} different values; a batch is a day or a week, not a row.")
    places = pl.DataFrame({"v": values}).join(distinct.to_frame("v").with_row_index("i"), on="v", how="left")
    return tuple(_digits(value) for value in distinct), places["i"].to_numpy().astype(np.intp)


def _digits(value: object) -> str:
    """An identifier as text: numbers by their digits, dates in ISO form."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    iso = getattr(value, "isoformat", None)
    return str(value) if iso is None else str(iso())


def _buckets(people: Any) -> IntArray:
    """The bucket of each person, for ever: a hash of the identifier."""
    column = pl.Series(people, strict=False)
    known = {value: zlib.crc32(_digits(value).encode()) % BUCKETS for value in column.unique()}
    return np.fromiter((known[value] for value in column), dtype=np.intp, count=len(column))


def _fingerprint(plan: MonitorPlan, tally: BatchTally) -> str:
    """A digest of the rows, if a column of numbers identifies them; without one, two batches may well be equal.

    The sums of the identifiers over all rows, and over the rows of each outcome: the same people may come every week.
    """
    schema, used = plan.source.schema, dict.fromkeys(plan.grouping.keys)
    used |= dict.fromkeys(str(part) for request in plan.metric_requests for part in request.binary.values())
    numbers = [name for name, kind in schema.items() if kind.is_numeric() and name not in {*used, plan.source.count}]
    first = plan.source.head(FIRST).select(numbers) if numbers and sum(tally.rows) >= FEWEST else pl.DataFrame()
    identifiers = [column.name for column in first if column.n_unique() == len(first)][:2]

    def number(name: str) -> nw.Expr:
        column = nw.col(name)
        plain = column.str.len_chars() if schema[name] == nw.String else column
        return nw.when(~missing(column, schema[name])).then(plain.cast(nw.Float64)).otherwise(nw.lit(0.0))

    readable = [name for name in used if name in schema and (schema[name] == nw.String or schema[name].is_numeric())]
    values = {f"{a} {b}": number(a) * (number(b) if b else 1.0) for a in identifiers for b in ("", *readable[:8])}
    if not values:
        return ""
    totals = plan.source.reread(count=None, cluster=None).sums({}, values)
    text = [sum(tally.rows), *(f"{name} {float(totals[name].sum()):.9g}" for name in values)]
    return hashlib.sha256(str(text).encode()).hexdigest()


def add_batches(state: MonitorState, plan: MonitorPlan, tally: BatchTally, note: str = "") -> None:
    """Append the batches of a tally to the state; groups are listed in the order in which they appear."""
    state.metrics = state.metrics or [
        {"name": m.name, "binary": m.binary, "lower": kind in ERRORS, "share": m.binary}
        for m, kind in zip(plan.measures, listed(plan.metric), strict=True)
    ]
    if "" in tally.names:
        raise UsageError("batch: '' is not allowed; a batch needs a name, such as '2026-W07'.")
    places = {group: j for j, group in enumerate(tally.groups)}
    conditions = [any(part == CONDITION for part, _ in group.items) for group in tally.groups]
    known = set(state.groups)
    for t, name in enumerate(tally.names):
        fresh = [g for j, g in enumerate(tally.groups) if (tally.sizes[t, j] > 0 or conditions[j]) and g not in known]
        state.groups += fresh
        known.update(fresh)
        lines = np.array([places.get(group, -1) for group in state.groups], dtype=np.intp)

        def placed(values: FloatArray, lines: IntArray = lines) -> FloatArray:
            """In the order of the state; zero for groups without rows."""
            return np.concatenate([values, np.zeros_like(values, shape=(1, *values.shape[1:]))])[lines]

        people = [placed(part[t]) for part in tally.buckets]
        state.batches.append(
            Batch(
                id=name,
                at=now(),
                rows=tally.rows[t],
                sizes=placed(tally.sizes[t]).tolist(),
                totals=[part[t].tolist() for part in tally.totals],
                sums=[placed(part[t]).reshape(len(lines), -1).tolist() for part in tally.sums],
                spread=_count_people(state, people) if plan.source.cluster is not None else [],
                dropped=tally.dropped if t == 0 else {},
                fingerprint=tally.fingerprint,
                note=note,
            )
        )


def _count_people(state: MonitorState, people: Sequence[FloatArray]) -> list[Any]:
    """Add a batch to the sums by bucket, and return their spread to date: metrics x groups x 4."""
    spreads, stored = [], state.buckets or [[] for _ in state.metrics]
    for k, before in enumerate(stored):
        sums = np.zeros((7, len(state.groups), BUCKETS))  # A, C, rows of the group, and the four of the open stratum
        if len(before) and len(before[0]):
            sums[:, : len(before[0])] = before
        if people:
            sums[3:] += np.moveaxis(people[k].reshape(len(state.groups), 4, BUCKETS), 0, 1)
        full = closes(sums[3].sum(axis=-1), sums[5].sum(axis=-1))
        sums[:3, full] += np.stack([*bucket_terms(sums[3:, full]), sums[3, full]])
        sums[3:, full] = 0.0
        spreads.append(np.stack([*bucket_spread(sums[0], sums[1]), (sums[2] > 0).sum(axis=-1)], axis=-1).tolist())
        stored[k] = sums.tolist()
    state.buckets = stored
    return spreads
