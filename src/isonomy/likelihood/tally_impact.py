"""Rows to tables of categories: how many there are, how many were selected, and how many of them are above cut-offs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isonomy.frames import Design, Group, Partition, Rows, Source
from isonomy.likelihood.plan_impact import ImpactPlan
from isonomy.numerics.arrays import FloatArray, IntArray

# Cut-offs at which ratios are worked out: quantiles of all scores, so that they say nothing of single people.
CUTOFFS = np.arange(2, 100, 2) / 100


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """One table: its categories with ``rows`` rows and ``chosen`` of them selected; the rows whose category is unknown.

    ``n`` and ``selected`` are the same by weight, and so are ``unknown`` and ``unknown_selected`` beside
    ``unknown_rows``; ``codes`` is the category of each line. ``above`` counts the rows above each cut-off
    (cut-offs x groups), where there is a score.
    """

    name: str
    groups: tuple[Group, ...]
    codes: IntArray
    rows: FloatArray
    chosen: FloatArray
    n: FloatArray
    selected: FloatArray
    unknown: float
    unknown_selected: float
    unknown_rows: float
    above: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ImpactTally:
    """Every table; ``selected`` says which lines are, ``design`` is there where rows have weights or clusters, and
    ``median`` is that of all scores, if selection means to be above it. ``people`` is how many people a row of average
    weight stands for: weights whose average is less than 1 cannot count people, and stand for 1."""

    tables: tuple[Counts, ...]
    selected: FloatArray
    design: Design | None
    cutoffs: FloatArray
    median: float | None
    rows: int
    dropped: Mapping[str, int]
    people: float = 1.0


def tally_impact(source: Source, plan: ImpactPlan) -> ImpactTally:
    """One pass over the rows."""
    answer = source.rows(plan.request) if plan.by_row else source.cells(plan.request)
    weight = answer.weight if isinstance(answer, Rows) else answer.mass
    mass = np.ones(answer.size) if weight is None and isinstance(answer, Rows) else np.asarray(weight, dtype=float)
    rows = mass if answer.design is None else answer.design.rows
    score, median, cutoffs = np.zeros(mass.size), None, np.empty(0)
    if isinstance(answer, Rows):
        score = np.asarray(answer.columns["score"], dtype=float)
        cutoffs = np.unique(_quantiles(score, mass, CUTOFFS))
    if plan.measure is None:
        median = float(_quantiles(score, mass, np.array([0.5]))[0])
        selected = (score > median).astype(float)
    else:
        selected = plan.measure.value(answer)
    return ImpactTally(
        tables=tuple(_counts(partition, rows, mass, selected, score, cutoffs) for partition in answer.partitions),
        selected=selected,
        design=answer.design,
        cutoffs=cutoffs,
        median=median,
        rows=answer.rows,
        dropped=answer.dropped,
        people=1.0 if answer.design is None else max(answer.design.people, 1.0),
    )


def _quantiles(values: FloatArray, mass: FloatArray, at: FloatArray) -> FloatArray:
    """Quantiles of rows that each stand for ``mass``; halfway between two rows where one ends exactly there."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(mass[order])
    target = at * total[-1]
    close = 1e-9 * total[-1]
    low, high = (np.searchsorted(total, target + shift, side="left") for shift in (-close, close))
    last = values.size - 1
    return 0.5 * (values[order][np.minimum(low, last)] + values[order][np.minimum(high, last)])


def _counts(
    partition: Partition,
    rows: FloatArray,
    mass: FloatArray,
    selected: FloatArray,
    score: FloatArray,
    cutoffs: FloatArray,
) -> Counts:
    n, chosen = partition.sum(mass), partition.sum(mass * selected)
    unknown = np.array([any(value is None for _, value in group.items) for group in partition.groups], dtype=bool)
    above = np.array([partition.sum(mass * (score > cutoff)) for cutoff in cutoffs]).reshape(cutoffs.size, n.size)
    known = ~unknown & (n > 0)
    return Counts(
        name=partition.title,
        groups=tuple(group for group, keep in zip(partition.groups, known, strict=True) if keep),
        codes=np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[partition.codes],
        rows=partition.sum(rows)[known],
        chosen=partition.sum(rows * selected)[known],
        n=n[known],
        selected=chosen[known],
        unknown=float(n[unknown].sum()),
        unknown_selected=float(chosen[unknown].sum()),
        unknown_rows=float(partition.sum(rows)[unknown].sum()),
        above=above[:, known],
    )
