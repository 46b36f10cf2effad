"""The rows of batches: sums by batch and group, and how they enter the state."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from isonomy.errors import EmptyFrame, MissingGroups, UsageError
from isonomy.frames import Group, Request, Sample
from isonomy.frames.expressions import flag
from isonomy.frames.groups import CONDITION, Partition, belongs
from isonomy.frames.metrics import ERRORS, RATES, Measure, listed
from isonomy.frames.profile import fingerprint
from isonomy.monitoring.sequences.score import BUCKETS, bucket_spread, bucket_terms
from isonomy.monitoring.sequences.strata import closes
from isonomy.monitoring.state import Batch, MonitorState, now
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from isonomy.monitoring.monitor import MonitorPlan

MOST_BATCHES = 100_000


def batch_request(plan: MonitorPlan, bound: Measure) -> Request:
    keys: dict[str, nw.Expr] = {}
    labels = dict(bound.request.labels)
    if plan.batch is not None:
        plan.source.require(batch=plan.batch)
        keys["batch"] = nw.col(plan.batch)
    if plan.group is not None:
        keys["reference"] = flag(belongs(plan.group, plan.grouping, plan.source.schema))
    if plan.source.cluster is not None:
        keys["person"], labels["cluster"] = nw.col(plan.source.cluster), plan.source.cluster
    return replace(bound.request, keys={**bound.request.keys, **keys}, labels=labels)


@dataclass
class BatchTally:
    """The sums of some batches: a mapping from groups, in order, to arrays batches x ... for each metric."""

    names: tuple[str, ...]
    rows: list[int]
    dropped: Mapping[str, int]
    groups: tuple[Group, ...] = ()
    sizes: FloatArray = field(default_factory=lambda: np.zeros((1, 0)))
    sums: list[FloatArray] = field(default_factory=list)  # of each metric: batches x groups x sums of both sides
    totals: list[FloatArray] = field(default_factory=list)
    buckets: list[FloatArray] = field(default_factory=list)  # batches x 4 x groups x buckets
    fingerprint: str = ""
    note: str = ""


def read(plan: MonitorPlan, name: str | None = None) -> BatchTally:
    """The sums of every batch of a table; of a single batch, if it has a ``name``."""
    tally: BatchTally | None = None
    source = plan.source.reread(cluster=None) if plan.source.cluster is not None else plan.source
    try:
        for bound, request in zip(plan.measures, plan.metric_requests, strict=True):
            shared = plan.shared if bound.binary and plan.source.cluster is None else None
            sample = _power_sums(source, bound, request) if not bound.binary else source.cells(request, shared)
            bound.refuse_absent(sample)
            tally = _tally(tally, sample, bound, plan, name)
    except EmptyFrame:
        if name is None:
            raise
        return BatchTally((name,), [0], {}, totals=[np.zeros((1, 3)) for _ in plan.measures])
    assert tally is not None
    return tally if name is None else replace(tally, fingerprint=_fingerprint(plan))


def _power_sums(source: Any, bound: Measure, request: Request) -> Sample:
    """Sums of the first three powers of the value, about its mean over all rows: those about 0 lose digits."""
    value = request.values.get("value", request.numeric.get("value")).cast(nw.Float64)  # type: ignore[union-attr]
    first = source.cells(replace(request, values={"x": value}))
    counted = bound.inside(first)
    pivot = float(first.values["x"][counted].sum() / max(first.counts[counted].sum(), 1.0))
    x = value - pivot
    sample = source.cells(replace(request, values={"x": x, "xx": x * x, "xxx": x * x * x}))
    return replace(sample, columns={**sample.columns, "pivot": np.full(sample.size, pivot)})


def _tally(tally: BatchTally | None, sample: Sample, bound: Measure, plan: MonitorPlan, name: str | None) -> BatchTally:
    mass = sample.counts
    names, codes = ((name,), np.zeros(sample.size, dtype=np.intp)) if name is not None else _batches(sample, mass)
    size = len(names)
    counted = bound.inside(sample)
    if bound.binary:
        hit = bound.value(sample)
        lines = np.where(counted, np.stack([mass, mass * hit, mass * hit]), 0.0)
    else:
        lines = np.where(counted, np.stack([mass, *(sample.values[power] for power in ("x", "xx", "xxx"))]), 0.0)
    chosen = sample.columns["reference"] == 1 if plan.group is not None else np.ones(sample.size, dtype=bool)
    buckets, bucket = 1, np.zeros(sample.size, dtype=np.intp)
    if "person" in sample.columns:
        buckets, bucket = BUCKETS, _buckets(sample.columns["person"])
    groups: list[Group] = []
    parts, sizes = [], []
    for partition in sample.partitions:
        mine, theirs = _sides(partition, lines, chosen, codes, bucket, size, buckets, plan)
        parts.append(np.stack([mine, theirs]))
        sizes.append(_added(mass[None], partition.codes, codes, bucket * 0, len(partition.groups), size, 1)[0, ..., 0])
        groups += partition.groups
    both, rows = np.concatenate(parts, axis=3), np.concatenate(sizes, axis=1)  # 2 x sums x batches x groups x buckets
    pivot = float(sample.columns["pivot"][0]) if "pivot" in sample.columns else 0.0
    plain = both.sum(axis=-1)
    whole: FloatArray = np.stack([np.bincount(codes, part, minlength=size) for part in lines]).astype(float)
    if bound.binary:
        sums, total = np.stack([plain[0, 0], plain[0, 1], plain[1, 0], plain[1, 1]], axis=-1), whole.T
    else:
        sums = np.concatenate([_central(plain[0], pivot), _central(plain[1], pivot)], axis=-1)
        total = _central(whole, pivot)[:, :3]
    if tally is None:
        tally = BatchTally(
            tuple(names),
            [round(n) for n in np.bincount(codes, mass, minlength=size)],
            dict(sample.dropped),
            tuple(groups),
            rows,
        )
    tally.dropped = {**tally.dropped, **sample.dropped}
    tally.sums.append(sums)
    tally.totals.append(total)
    if buckets > 1:
        tally.buckets.append(np.stack([both[0, 0], both[0, 1], both[1, 0], both[1, 1]], axis=1))
    return tally


def _sides(
    partition: Partition,
    lines: FloatArray,
    chosen: BoolArray,
    codes: IntArray,
    bucket: IntArray,
    size: int,
    buckets: int,
    plan: MonitorPlan,
) -> tuple[FloatArray, FloatArray]:
    """The sums of each group, and of those it is compared with: the rest of the batch, or the rows of a group."""
    wide = len(partition.groups)
    mine = _added(lines, partition.codes, codes, bucket, wide, size, buckets)
    if plan.number is not None:
        return mine, np.zeros_like(mine)
    facing = _added(lines * chosen, np.zeros(codes.size, dtype=np.intp), codes, bucket, 1, size, buckets)
    common = _added(lines * chosen, partition.codes, codes, bucket, wide, size, buckets)
    theirs = facing - common
    theirs[:, theirs[0] <= 0] = 0.0  # rounding of sums
    return mine, theirs


def _added(
    lines: FloatArray, group: IntArray, batch: IntArray, bucket: IntArray, groups: int, batches: int, buckets: int
) -> FloatArray:
    """StratumSums x batches x groups x buckets."""
    inside_ = group >= 0
    place = (batch * groups + group) * buckets + bucket
    sums = [np.bincount(place[inside_], part[inside_], minlength=batches * groups * buckets) for part in lines]
    return np.stack(sums).astype(float).reshape(len(lines), batches, groups, buckets)


def _central(sums: FloatArray, pivot: float) -> FloatArray:
    """Rows, mean and central sums from sums of powers about ``pivot``, which come first; they go last."""
    n, x, xx, xxx = sums
    safe = np.where(n > 0, n, 1.0)
    mean = x / safe
    square = np.maximum(xx - n * mean**2, 0.0)
    cube = xxx - 3.0 * mean * xx + 2.0 * n * mean**3
    return np.stack([n, np.where(n > 0, pivot + mean, 0.0), square, cube], axis=-1)


def _batches(sample: Sample, mass: FloatArray) -> tuple[tuple[str, ...], IntArray]:
    """The names of the batches, in the order of their values, and the batch of each line."""
    import polars as pl

    values = pl.Series(sample.columns["batch"], nan_to_null=True, strict=False)
    if values.null_count():
        absent = float(mass[values.is_null().to_numpy()].sum())
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
    import polars as pl

    column = pl.Series(people, strict=False)
    known = {value: zlib.crc32(_digits(value).encode()) % BUCKETS for value in column.unique()}
    return np.fromiter((known[value] for value in column), dtype=np.intp, count=len(column))


def _fingerprint(plan: MonitorPlan) -> str:
    """A digest of the rows, if a further column of numbers tells them apart; counts of two batches may be equal."""
    used = {
        *plan.grouping.keys,
        *(part for request in plan.metric_requests for part in map(str, request.binary.values())),
    }
    schema = plan.source.schema
    further = [name for name, kind in schema.items() if kind.is_numeric() and name not in used | {plan.source.count}]
    if not further:
        return ""
    columns = [name for name in schema if name in used][:8] + further[:4]
    plain = plan.source.reread(count=None, cluster=None)
    return fingerprint(plain.derived(plan.source.frame.select(*columns))).digest


def add_batches(state: MonitorState, plan: MonitorPlan, tally: BatchTally) -> None:
    """Append the batches of a tally to the state; groups are listed in the order in which they appear."""
    facts = [
        {"name": m.name, "binary": m.binary, "lower": kind in ERRORS, "share": m.binary and (kind in RATES or m.binary)}
        for m, kind in zip(plan.measures, listed(plan.metric), strict=True)
    ]
    state.metrics = state.metrics or facts
    for t, name in enumerate(tally.names):
        for j, group in enumerate(tally.groups):
            listed_ = any(part == CONDITION for part, _ in group.items)
            if (tally.sizes[t, j] > 0 or listed_) and group not in state.groups:
                state.groups.append(group)
        places = [tally.groups.index(group) if group in tally.groups else -1 for group in state.groups]

        def placed(values: FloatArray, places: Sequence[int] = tuple(places)) -> list[Any]:
            return [values[j].tolist() if j >= 0 else np.zeros(values.shape[1:]).tolist() for j in places]

        state.batches.append(
            Batch(
                id=name,
                at=now(),
                rows=tally.rows[t],
                sizes=placed(tally.sizes[t]) if tally.groups else [],
                totals=[part[t].tolist() for part in tally.totals],
                sums=[placed(part[t]) for part in tally.sums],
                spread=_count_people(state, tally, t, places) if plan.source.cluster is not None else [],
                dropped=dict(tally.dropped) if t == 0 else {},
                fingerprint=tally.fingerprint,
                note=tally.note,
            )
        )


def _count_people(state: MonitorState, tally: BatchTally, t: int, places: Sequence[int]) -> list[Any]:
    """Add a batch to the sums by bucket, and return their spread to date: metrics x groups x 4."""
    spreads, number = [], len(state.metrics)
    stored = state.buckets or [[] for _ in range(number)]
    for k in range(number):
        sums = np.zeros((7, len(state.groups), BUCKETS))  # A, C, rows of the group, and the four of the open stratum
        if len(stored[k]):
            before = np.asarray(stored[k], dtype=float)
            sums[:, : before.shape[1]] = before
        if tally.buckets:
            for i, j in enumerate(places):
                sums[3:, i] += tally.buckets[k][t][:, j] if j >= 0 else 0.0
        full = closes(sums[3].sum(axis=-1), sums[5].sum(axis=-1), number=False)
        if full.any():
            a, c = bucket_terms(sums[3:, full])
            sums[0, full] += a
            sums[1, full] += c
            sums[2, full] += sums[3, full]
            sums[3:, full] = 0.0
        spreads.append(np.stack([*bucket_spread(sums[0], sums[1]), (sums[2] > 0).sum(axis=-1)], axis=-1).tolist())
        stored[k] = sums.tolist()
    state.buckets = stored
    return spreads
