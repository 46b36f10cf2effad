"""Rows in: the distinct lines the method needs, each with the number of rows it stands for.

Splits are drawn over these lines in canonical order, so the order of rows, the engine that holds them, and whether
equal rows come once with a count or many times make no difference to any number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isonomy.alternatives.plan import Plan, intersections
from isonomy.alternatives.rules.algorithm import People
from isonomy.alternatives.rules.cutoffs import Weight
from isonomy.errors import OneGroup, UsageError
from isonomy.frames import Group, Request, Source
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.resampling import collapse

LARGEST = 10**9  # numpy's hypergeometric draws, which make the splits, stop here


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tally:
    """Distinct lines in canonical order: arrays of one value per line, and ``weight``, the rows it stands for."""

    outcomes: Mapping[str | None, FloatArray]  # None: the outcome of the call; else the column a utility names
    status_quo: FloatArray
    candidate: FloatArray | None
    features: Mapping[str, FloatArray]
    group: IntArray
    groups: tuple[Group, ...]
    weight: Weight
    dropped: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Rows, the count column honoured."""
        return int(self.weight.sum())

    @property
    def people(self) -> People:
        """What algorithms may see of the lines."""
        return People(self.features, self.group, tuple(group.label for group in self.groups))

    def sizes(self, weight: Weight) -> IntArray:
        """How many rows of each group ``weight`` counts."""
        return np.bincount(self.group, weights=weight, minlength=len(self.groups)).astype(np.int64)


def tally(source: Source, plan: Plan) -> Tally:
    """Read the table: one grouped pass where nothing is fitted, the needed columns where a rule fits features."""
    if plan.features:
        rows = source.rows(plan.request)
        weight = np.ones(rows.size) if rows.weight is None else rows.weight
        partition, held, dropped = rows.partitions[-1], dict(rows.columns), rows.dropped
    else:
        cells = source.cells(plan.request)
        weight, partition, dropped = cells.count, cells.partitions[-1], cells.dropped
        held = {role.removesuffix(" value"): column for role, column in cells.keys.items()}
    if len(partition.groups) < 2:
        raise OneGroup(
            f"groups: the rows form one group ({partition.groups[0]}); improvability compares at least two. "
            "Name a column with two values or more."
        )
    columns = [partition.codes, *(held[role] for role in plan.columns)]
    lines = collapse(columns, weights=np.where(partition.codes >= 0, weight, 0.0))
    if lines.total >= LARGEST:
        raise UsageError(f"data: {lines.total:,.0f} rows; splits are drawn over fewer than {LARGEST:,}.")
    codes, *read = np.ascontiguousarray(lines.values.T)
    values = dict(zip(plan.columns, read, strict=True))
    outcomes: dict[str | None, FloatArray] = {None: values["outcome"]}
    outcomes |= {u.outcome: values[f"outcome of {u.name}"] for u in plan.criteria.utilities if u.outcome is not None}
    return Tally(
        outcomes=outcomes,
        status_quo=values["status_quo"],
        candidate=values.get("candidate"),
        features={name: values[f"features[{name}]"] for name in plan.features},
        group=codes.astype(np.intp),
        groups=partition.groups,
        weight=np.rint(lines.counts).astype(np.int64),
        dropped=dropped,
    )


def read_people(source: Source, plan: Plan, labels: Sequence[str]) -> People:
    """The rows of another table as an algorithm made under ``plan`` sees them, in their own order."""
    numeric = {f"features[{name}]": name for name in plan.features}
    rows = source.rows(Request(grouping=intersections(source, plan.groups), numeric=numeric))
    partition = rows.partitions[-1]
    unknown = [group.label for group in partition.groups if group.label not in labels]
    if unknown:
        raise UsageError(f"decide: groups {unknown} were not in the data the algorithm was made from.")
    codes = np.array([labels.index(group.label) for group in partition.groups], dtype=np.intp)
    features = {name: rows.columns[f"features[{name}]"] for name in plan.features}
    return People(features, codes[partition.codes], tuple(labels))
