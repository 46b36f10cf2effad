"""Rows to evidence: counts for a 0/1 metric, values sorted by group for any other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from isonomy.errors import UsageError, near
from isonomy.frames import Grouping, Request, Rows, Source
from isonomy.frames.checks import flag
from isonomy.frames.groups import Partition
from isonomy.frames.metrics import Measure, Metric, measure
from isonomy.likelihood.joint import Patterns
from isonomy.likelihood.means import Binary, Real
from isonomy.likelihood.reference import Reference, To, membership, resolve
from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged

# Standard errors by which the mean of influence values may differ from zero: one-step estimates leave smaller ones.
OFF_CENTRE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """What a call asks of the rows, checked against the schema."""

    measure: Measure
    grouping: Grouping
    reference: Reference
    request: Request

    @property
    def by_row(self) -> bool:
        """Whether values are needed row by row; counts are enough for a 0/1 metric with a plain reference."""
        return not self.measure.binary or self.reference.to is To.ESTIMATE


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Lines of the metric's condition (cells of a 0/1 metric, else rows) and the groups they belong to.

    ``value`` and ``weight`` (how many rows a line stands for; None: one each) per line; ``partitions`` with one
    code a line; ``sizes`` the groups' rows whether or not the metric's condition holds; ``inside`` which lines it
    holds for (all, unless the reference brings ``influence`` values, which count for every row); ``in_reference``
    the named reference's lines.
    """

    binary: bool
    value: FloatArray
    weight: FloatArray | None
    partitions: tuple[Partition, ...]
    sizes: tuple[FloatArray, ...]
    inside: BoolArray | None
    in_reference: BoolArray | None
    influence: FloatArray | None
    rows: int
    dropped: Mapping[str, int]

    @property
    def mass(self) -> FloatArray:
        """Rows each line stands for inside the metric's condition."""
        weight = np.ones(self.value.size) if self.weight is None else self.weight
        return weight if self.inside is None else weight * self.inside

    @property
    def n(self) -> float:
        """Rows inside the metric's condition."""
        plain = self.weight is None and self.inside is None
        return float(self.value.size) if plain else float(self.mass.sum())

    def means(self, codes: IntArray, size: int) -> Binary | Real:
        """The groups 0..size-1 of ``codes``; lines with code -1, or outside the condition, are left out."""
        if self.inside is not None:
            codes = np.where(self.inside, codes, -1)
        if self.binary:
            mass = self.mass
            n = np.bincount(codes + 1, weights=mass, minlength=size + 1)[1:]
            return Binary(n, np.bincount(codes + 1, weights=mass * self.value, minlength=size + 1)[1:])
        return Real(Ragged.from_codes(codes, size, self.value, weights=self.weight))

    def patterns(self, codes: IntArray, size: int) -> Patterns:
        """The same lines for a joint likelihood, with the influence values where the reference brings them."""
        weight = np.ones(self.value.size) if self.weight is None else self.weight
        if self.influence is None:
            if self.binary:
                return Patterns.of_counts(codes, size, self.value, weight)
            return Patterns(codes, size, (self.value,), self.weight)
        # Equal lines are one weighted line: a 0/1 metric has few distinct ones.
        lines, where = np.unique(np.stack([codes, self.value, self.influence]), axis=1, return_inverse=True)
        together = np.bincount(where.ravel(), weights=weight).astype(float)
        return Patterns(lines[0].astype(np.intp), size, (lines[1], lines[2]), together)


def plan(
    source: Source,
    *,
    metric: str | Metric,
    groups: object,
    outcome: str | None,
    prediction: str | None,
    score: str | None,
    reference: object,
    uncertainty: str,
    depth: int,
) -> Plan:
    """Check a call's roles, groups and reference. Reads the schema only."""
    grouping = source.grouping(groups, depth)
    bound = measure(source, metric, grouping=grouping, outcome=outcome, prediction=prediction, score=score)
    target = resolve(reference, uncertainty, binary=bound.binary)
    request = bound.request
    if target.group is not None:
        condition = flag(membership(target.group, grouping, source.schema))
        request = replace(request, keys={**request.keys, "reference": condition})
    if target.estimate is not None:
        source.require(reference=target.estimate.influence)
        request = replace(request, numeric={**request.numeric, "influence": target.estimate.influence})
    return Plan(bound, grouping, target, request)


def tally(source: Source, plan: Plan) -> Evidence:
    """One pass over the rows."""
    got = source.rows(plan.request) if plan.by_row else source.cells(plan.request)
    weight, keys = (got.weight, got.columns) if isinstance(got, Rows) else (got.count, got.keys)
    inside = plan.measure.inside(got)
    value = plan.measure.value(got)
    sizes = tuple(_sizes(p, weight) for p in got.partitions)
    chosen = keys["reference"] == 1 if plan.reference.to is To.GROUP else None
    influence = np.asarray(keys["influence"], dtype=float) if plan.reference.to is To.ESTIMATE else None
    partitions = got.partitions
    every = bool(inside.all())
    if influence is None and not every:
        partitions = tuple(replace(p, codes=p.codes[inside]) for p in partitions)
        value, weight = value[inside], None if weight is None else weight[inside]
        chosen = None if chosen is None else chosen[inside]
    evidence = Evidence(
        binary=plan.measure.binary,
        value=np.where(inside, value, 0.0) if influence is not None else value,
        weight=weight,
        partitions=partitions,
        sizes=sizes,
        inside=inside if influence is not None else None,
        in_reference=chosen,
        influence=influence,
        rows=got.rows,
        dropped=got.dropped,
    )
    _refuse_missing_reference(evidence, plan.reference)
    _refuse_uncentred_influence(evidence, plan.reference)
    return evidence


def _sizes(partition: Partition, weight: FloatArray | None) -> FloatArray:
    if weight is not None:
        return partition.sum(weight)
    counts: IntArray = np.bincount(partition.codes + 1, minlength=len(partition.groups) + 1)
    return counts[1:].astype(float)


def _refuse_missing_reference(evidence: Evidence, reference: Reference) -> None:
    if evidence.in_reference is None or bool(evidence.mass[evidence.in_reference].any()):
        return
    label = str(reference.group)
    known = [str(group) for partition in evidence.partitions for group in partition.groups[:1000]]
    raise UsageError(f"reference: no row inside the metric's condition has {label}.{near(label, known)}")


def _refuse_uncentred_influence(evidence: Evidence, reference: Reference) -> None:
    """Influence values average to zero at the estimate, or the likelihood would test another reference."""
    if evidence.influence is None or reference.estimate is None:
        return
    column = reference.estimate.influence
    mean = float(np.average(evidence.influence, weights=evidence.weight))
    variance = float(np.average((evidence.influence - mean) ** 2, weights=evidence.weight))
    rows = float(evidence.value.size if evidence.weight is None else evidence.weight.sum())
    error = np.sqrt(variance / rows)
    if error == 0 and mean == 0:
        raise UsageError(
            f"reference: the influence values in {column!r} are all 0; pass a reference without error as a number."
        )
    if abs(mean) > OFF_CENTRE * error:
        raise UsageError(
            f"reference: the influence values in {column!r} must average to zero, but their mean is {mean:.6g} with a "
            f"standard error of {error:.3g}; take their mean from them, or check that they belong to the estimate "
            f"{reference.estimate.value:g}."
        )
