"""Rows to lines: counts for a 0/1 metric, values for any other, and the groups they belong to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from isonomy.errors import BadWeight, DataError, UsageError, near
from isonomy.frames import Cells, Design, Partition, Request, Rows, Source
from isonomy.frames.expressions import number
from isonomy.frames.metrics import beside, own_columns
from isonomy.likelihood.plan import Plan
from isonomy.likelihood.plan_reference import Estimate, To
from isonomy.likelihood.ratio.lines import Lines
from isonomy.likelihood.ratio.means import Binary, Real
from isonomy.likelihood.ratio.nodes import bins
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray

# Standard errors by which the mean of influence values may differ from zero: one-step estimates leave smaller ones.
OFF_CENTRE = 0.5
# Rows of an engine up to which values are read: of more, bins with matched moments stand for them.
READ = 2_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Lines of the metric's condition (cells of a 0/1 metric, else rows) and the groups they belong to.

    ``partitions`` have one code per line; ``sizes`` are the groups' rows whether or not the metric's condition holds;
    ``inside`` says which lines it holds for (all, unless the reference brings influence values, which count for every
    row); ``in_reference`` which are the named reference's; ``strata`` are what groups are compared within;
    ``design`` is there where rows have weights or clusters; ``lines_kept`` are the places of the lines among all that
    the pass gave, whose design is ``whole``. A metric that is no mean over rows has its name in ``functional`` and its
    columns in ``roles``.
    """

    lines: Lines
    partitions: tuple[Partition, ...]
    strata: Partition | None
    sizes: tuple[FloatArray, ...]
    inside: BoolArray | None
    in_reference: BoolArray | None
    rows: int
    used: int  # rows inside the metric's condition: those it is computed on
    dropped: Mapping[str, int]
    design: Design | None = None
    whole: Design | None = None
    functional: str = ""
    roles: Mapping[str, FloatArray] = field(default_factory=dict)
    lines_kept: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    @property
    def counts(self) -> FloatArray:
        """Rows of each line inside the metric's condition, whatever they weigh."""
        rows = self.lines.mass if self.design is None else self.design.rows
        return rows if self.inside is None else rows * self.inside

    @property
    def mass(self) -> FloatArray:
        """What each line weighs inside the metric's condition."""
        return self.lines.mass if self.inside is None else self.lines.mass * self.inside

    def means(self, codes: IntArray, size: int) -> Binary | Real:
        """The groups 0..size-1 of ``codes``; lines with code -1, or outside the condition, are left out."""
        return self.lines.means(codes if self.inside is None else np.where(self.inside, codes, -1), size)


def tally(source: Source, plan: Plan) -> tuple[Tally, ...]:
    """One pass over the rows, for all metrics that need counts; each metric's lines."""
    if plan.side_by_side:
        rows = source.rows(beside([one.request for one in plan.each]))
        return tuple(_tallied(own_columns(rows, i), one) for i, one in enumerate(plan.each))
    return tuple(_tallied(_answer(source, one, plan.shared), one) for one in plan.each)


def _answer(source: Source, plan: Plan, shared: Request | None) -> Cells | Rows:
    if plan.by_row:
        return _by_row(source, plan)
    # Metrics that are tested together are those of the same rows.
    return source.cells(shared if plan.jointly and shared is not None else plan.request, shared)


def _tallied(answer: Cells | Rows, plan: Plan) -> Tally:
    weight, keys = (answer.weight, answer.columns) if isinstance(answer, Rows) else (answer.mass, answer.keys)
    plan.measure.refuse_absent(answer)
    inside, value = plan.measure.inside(answer), plan.measure.value(answer)
    mass = np.ones(value.size) if weight is None else weight
    rows = mass if answer.design is None else answer.design.rows
    chosen = keys["reference"] == 1 if plan.reference.to is To.GROUP else None
    influence, kept = None, slice(None) if inside.all() else inside
    if plan.reference.estimate is not None:
        influence, kept = np.asarray(keys["influence"], dtype=float), slice(None)
        value = np.where(inside, value, 0.0)
        _refuse_uncentred(influence, mass, plan.reference.estimate)
    partitions = tuple(replace(partition, codes=partition.codes[kept]) for partition in answer.partitions)
    groups = len(partitions) - bool(plan.given)
    sums = Tally(
        lines=Lines(plan.measure.binary, value[kept], None if weight is None else weight[kept], influence),
        partitions=partitions[:groups],
        strata=partitions[-1] if plan.given else None,
        sizes=tuple(partition.sum(rows) for partition in answer.partitions[:groups]),
        inside=None if influence is None else inside,
        in_reference=None if chosen is None else chosen[kept],
        rows=answer.rows,
        used=round(float(rows[inside].sum())),
        dropped=answer.dropped,
        design=None if answer.design is None else answer.design.restricted(kept),
        whole=answer.design,
        lines_kept=np.arange(value.size)[kept],
    )
    if plan.measure.functional:
        roles = {role: values[kept] for role, values in plan.measure.roles(answer).items()}
        sums = replace(sums, functional=plan.measure.functional, roles=roles)
    _refuse_missing(sums, plan)
    return sums


def _by_row(source: Source, plan: Plan) -> Cells | Rows:
    """Every row's value; where an engine holds very many, three passes and a few thousand values per group instead."""
    request, measure = plan.request, plan.measure
    resampled = plan.correction == "bartlett"
    if not source.lazy or source.designed or measure.functional or plan.reference.estimate is not None or resampled:
        return source.rows(request)
    value = number(request.values["value"] if "value" in request.values else request.numeric["value"])
    cells = source.cells(replace(request, values={"first": value, "second": value * value}))
    inside = measure.inside(cells)
    if cells.rows <= READ or not inside.any():
        return source.rows(request)
    ends = source.extremes(value, {})
    first, second = (cells.values[name][inside] for name in ("first", "second"))
    sorting = bins(cells.count[inside], first, second, float(ends["low"][0]), float(ends["high"][0]))
    if sorting is None:
        return source.rows(request)
    numeric = request.numeric if cells.dropped else {}  # the first pass found nothing missing
    binned = replace(request, numeric=numeric, probabilities=(), keys={**request.keys, **sorting.keys(value)})
    apart = sorting.parts(value, cells.rows, cells.count.size) if source.in_process else []
    answer = source.cells(replace(binned, values=sorting.sums(value)), apart=apart)
    if answer.rows != cells.rows:
        raise DataError("data: the table changed between two passes; audit a copy that does not change.")
    line, values, weight = sorting.nodes(answer.keys["bin"].astype(float), answer.count, answer.values)
    return Cells(
        count=weight,
        keys={**{name: codes[line] for name, codes in answer.keys.items()}, "value": values},
        values={},
        partitions=tuple(replace(partition, codes=partition.codes[line]) for partition in answer.partitions),
        dropped=answer.dropped,
    )


def _refuse_missing(sums: Tally, plan: Plan) -> None:
    """Somebody must count for the metric, and in the reference group."""
    if sums.design is not None and sums.mass.size and not sums.mass.any():
        raise BadWeight(
            f"weight: every row that {plan.measure.name!r} is about weighs 0; give rows that count a weight."
        )
    if sums.in_reference is None or bool(sums.mass[sums.in_reference].any()):
        return
    label = str(plan.reference.group)
    known = [str(group) for partition in sums.partitions for group in partition.groups[:1000]]
    if label in known:
        weighing = "" if sums.design is None else " and weighs more than 0"
        raise UsageError(f"reference: no row of {label} lies inside the metric's condition{weighing}.")
    raise UsageError(f"reference: no row inside the metric's condition has {label}.{near(label, known)}")


def _refuse_uncentred(influence: FloatArray, mass: FloatArray, estimate: Estimate) -> None:
    """Influence values average to zero at the estimate, or the likelihood would test another reference."""
    column = estimate.influence
    mean = float(np.average(influence, weights=mass))
    error = np.sqrt(float(np.average((influence - mean) ** 2, weights=mass)) / float(mass.sum()))
    if error == 0 and mean == 0:
        raise UsageError(
            f"reference: the influence values in {column!r} are all 0; pass a reference without error as a number."
        )
    if abs(mean) > OFF_CENTRE * error:
        raise UsageError(
            f"reference: the influence values in {column!r} must average to zero, but their mean is {mean:.6g} with a "
            f"standard error of {error:.3g}; take their mean from them, or check that they belong to the estimate "
            f"{estimate.value:g}."
        )
