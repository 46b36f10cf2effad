"""Rows in: the distinct lines the method needs, each with the number of rows it stands for.

Splits are drawn over these lines in canonical order, so the order of rows, the engine that holds them, and whether
equal rows come once with a count or many times make no difference to any number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from isonomy.alternatives.plan import CLUSTER, WEIGHT, Plan, feature, intersections
from isonomy.alternatives.rules.algorithm import People
from isonomy.alternatives.rules.cutoffs import Mass, Weight
from isonomy.errors import OneGroup, UsageError
from isonomy.frames import Group, Request, Source
from isonomy.frames.expressions import text
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.resampling import collapse

LARGEST = 10**9  # numpy's hypergeometric draws, which make the splits, stop here


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tally:
    """Distinct lines in canonical order: arrays of one value per line, and ``weight``, the rows it stands for."""

    outcomes: Mapping[str | None, FloatArray]  # None: the outcome of the call; else the column a utility names
    status_quo: FloatArray
    candidates: Mapping[str, FloatArray]
    features: Mapping[str, FloatArray]
    levels: Mapping[str, tuple[str, ...]]  # of the features that are text: the value of each number
    group: IntArray
    groups: tuple[Group, ...]
    weight: Weight
    mass: FloatArray  # what each of a line's rows weighs, scaled so that all rows weigh their number
    cluster: IntArray | None
    dropped: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Rows, the count column honoured."""
        return int(self.weight.sum())

    @property
    def people(self) -> People:
        """What algorithms may see of the lines."""
        return People(self.features, self.group, tuple(group.label for group in self.groups), self.levels)

    def masses(self, weight: Weight) -> Mass:
        """What so many rows of each line weigh."""
        return weight if np.ptp(self.mass) == 0 else weight * self.mass

    def sizes(self, weight: Weight) -> IntArray:
        """How many rows of each group ``weight`` counts."""
        return np.bincount(self.group, weights=weight, minlength=len(self.groups)).astype(np.int64)


def tally(source: Source, plan: Plan) -> Tally:
    """Read the table: one grouped pass where nothing is fitted, the needed columns where a rule fits features."""
    if plan.by_row:
        rows = source.rows(plan.request)
        weight = np.ones(rows.size) if rows.count is None else rows.count
        partition, held, dropped = rows.partitions[-1], dict(rows.columns), rows.dropped
        coded = {name: np.unique(held[f"text {name}"].astype(str), return_inverse=True) for name in plan.texts}
        held |= {feature(name): codes for name, (_, codes) in coded.items()}
        levels = {name: tuple(values.tolist()) for name, (values, _) in coded.items()}
    else:
        cells, levels = source.cells(plan.request), {}
        weight, partition, dropped = cells.count, cells.partitions[-1], cells.dropped
        held = {role.removesuffix(" value"): column for role, column in cells.keys.items()}
    if len(partition.groups) < 2:
        raise OneGroup(
            f"groups: the rows form one group ({partition.groups[0]}); improvability compares at least two. "
            "Name a column with two values or more."
        )
    mass = held.get(WEIGHT, np.ones(len(weight)))
    cluster = np.unique(held[CLUSTER].astype(str), return_inverse=True)[1] if CLUSTER in held else None
    columns = [partition.codes, *(held[role] for role in plan.columns), mass]
    columns += [] if cluster is None else [cluster]
    lines = collapse(columns, weights=np.where((partition.codes >= 0) & (mass > 0), weight, 0.0))
    if lines.total >= LARGEST:
        raise UsageError(f"data: {lines.total:,.0f} rows; splits are drawn over fewer than {LARGEST:,}.")
    codes, *read = np.ascontiguousarray(lines.values.T)
    clusters = None if cluster is None else np.unique(read.pop(), return_inverse=True)[1]
    each = read.pop()
    count = np.rint(lines.counts).astype(np.int64)
    values = dict(zip(plan.columns, read, strict=True))
    outcomes: dict[str | None, FloatArray] = {None: values["outcome"]}
    outcomes |= {u.outcome: values[f"outcome of {u.name}"] for u in plan.criteria.utilities if u.outcome is not None}
    return Tally(
        outcomes=outcomes,
        status_quo=values["status_quo"],
        candidates={name: values[f"candidate[{name}]"] for name in plan.candidates},
        features={name: values[feature(name)] for name in plan.features},
        levels=levels,
        group=codes.astype(np.intp),
        groups=partition.groups,
        weight=count,
        mass=each * (count.sum() / (each @ count)),
        cluster=clusters,
        dropped=dropped,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Inputs:
    """The columns that an algorithm looks at: its features, the levels of those of text, the groups if it uses them."""

    features: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    groups: object
    labels: tuple[str, ...]

    def read(self, source: Source) -> People:
        """The rows of another table as the algorithm sees them, in their own order."""
        source.require(**{feature(name): name for name in self.features})
        numeric = {name: name for name in self.features if name not in self.levels}
        labels = {name: name for name in self.levels}
        keys = {f"text {name}": text(name) for name in self.levels}
        grouping = None if self.groups is None else intersections(source, self.groups)
        rows = source.rows(Request(grouping=grouping, numeric=numeric, keys=keys, labels=labels))
        features = dict(rows.columns)
        for name, levels in self.levels.items():
            known = {level: float(code) for code, level in enumerate(levels)}
            features[name] = np.array([known.get(str(value), -1.0) for value in rows.columns[f"text {name}"]])
        group = np.zeros(rows.size, dtype=np.intp)
        if grouping is not None:
            partition = rows.partitions[-1]
            unknown = [group.label for group in partition.groups if group.label not in self.labels]
            if unknown:
                raise UsageError(f"decide: groups {unknown} were not in the data the algorithm was made from.")
            group = np.array([self.labels.index(g.label) for g in partition.groups], dtype=np.intp)[partition.codes]
        return People({name: features[name] for name in self.features}, group, self.labels, self.levels)
