"""Rows in: the distinct lines the method needs, each with the number of rows it stands for.

Splits are drawn over these lines in canonical order, so the order of rows, the engine that holds them, and whether
equal rows come once with a count or many times make no difference to any number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives.utilities import FloatArray, Utility
from isonomy.errors import OneGroup, UsageError
from isonomy.frames import Group, Grouping, Partition, Request, Source

Weight = NDArray[np.int64]  # rows a line stands for

LARGEST = 10**9  # numpy's hypergeometric draws, which make the splits, stop here


@dataclass(frozen=True, slots=True)
class Roles:
    """Which columns the method reads."""

    outcome: str
    groups: object
    status_quo: str
    candidate: str | None
    features: tuple[str, ...]
    utilities: tuple[Utility, ...]

    @property
    def numbers(self) -> dict[str, str]:
        """Role of each column read as a number; the role is the argument an error names."""
        found = {"status_quo": self.status_quo}
        if self.candidate is not None:
            found["candidate"] = self.candidate
        for utility in self.utilities:
            if utility.outcome is not None:
                found[f"outcome of {utility.name}"] = utility.outcome
        return found | {f"features[{name}]": name for name in self.features}

    @property
    def binary_outcome(self) -> bool:
        """Whether some utility needs the outcome to be 0/1."""
        return any(u.binary_outcome and u.outcome is None for u in self.utilities)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Distinct lines in canonical order: arrays of one value a line, and ``weight``, the rows it stands for."""

    outcomes: Mapping[str | None, FloatArray]  # None: the outcome of the call; else the column a utility names
    status_quo: FloatArray
    candidate: FloatArray | None
    features: Mapping[str, FloatArray]
    group: NDArray[np.intp]
    groups: tuple[Group, ...]
    weight: Weight
    dropped: Mapping[str, int]

    @property
    def rows(self) -> int:
        """Rows, the count column honoured."""
        return int(self.weight.sum())

    @property
    def labels(self) -> tuple[str, ...]:
        """What the groups are called."""
        return tuple(group.label for group in self.groups)


def requests(source: Source, roles: Roles) -> tuple[Request, ...]:
    """The grouped pass that `tally` needs; none when features are fitted, which reads rows."""
    return () if roles.features else (_request(source, roles),)


def tally(source: Source, roles: Roles) -> Table:
    """Read the table: one grouped pass where nothing is fitted, the needed columns where a rule fits features."""
    request = _request(source, roles)
    if roles.features:
        rows = source.rows(request)
        weight = np.ones(rows.size) if rows.weight is None else rows.weight
        partition, found, dropped = rows.partitions[-1], dict(rows.columns), rows.dropped
    else:
        cells = source.cells(request)
        weight, partition, dropped = cells.count, cells.partitions[-1], cells.dropped
        found = {role.removesuffix(" value"): column for role, column in cells.keys.items()}
    columns = {role: np.asarray(found[role], dtype=float) for role in ("outcome", *roles.numbers)}
    return _table(roles, columns, partition, weight, dropped)


def _request(source: Source, roles: Roles) -> Request:
    binary = {"outcome": roles.outcome} if roles.binary_outcome else {}
    numeric = roles.numbers if binary else {"outcome": roles.outcome, **roles.numbers}
    source.require(**binary, **numeric)
    keys = {f"{role} value": nw.col(column).cast(nw.Float64) for role, column in numeric.items()}
    return Request(
        grouping=_grouping(source, roles.groups),
        binary=binary,
        numeric=numeric,
        keys={} if roles.features else keys,
    )


def _grouping(source: Source, groups: object) -> Grouping:
    """Several columns mean their intersection: improvability compares one set of disjoint groups."""
    return source.grouping(groups, depth=len(source.grouping(groups).dimensions))


def _table(
    roles: Roles,
    columns: Mapping[str, FloatArray],
    partition: Partition,
    weight: NDArray[np.float64],
    dropped: Mapping[str, int],
) -> Table:
    if len(partition.groups) < 2:
        raise OneGroup(
            f"groups: the rows form one group ({partition.groups[0]}); improvability compares at least two. "
            "Name a column with two values or more."
        )
    inside = partition.codes >= 0
    merged, counts = _merge([partition.codes.astype(float), *columns.values()], inside, weight)
    if counts.sum() >= LARGEST:
        raise UsageError(f"data: {counts.sum():,} rows; splits are drawn over fewer than {LARGEST:,}.")
    held = dict(zip(columns, merged[1:], strict=True))
    outcomes: dict[str | None, FloatArray] = {None: held["outcome"]}
    outcomes |= {u.outcome: held[f"outcome of {u.name}"] for u in roles.utilities if u.outcome is not None}
    return Table(
        outcomes=outcomes,
        status_quo=held["status_quo"],
        candidate=held.get("candidate"),
        features={name: held[f"features[{name}]"] for name in roles.features},
        group=merged[0].astype(np.intp),
        groups=partition.groups,
        weight=counts,
        dropped=dropped,
    )


def _merge(
    columns: Sequence[FloatArray], inside: NDArray[np.bool_], weight: FloatArray
) -> tuple[list[FloatArray], NDArray[np.int64]]:
    """Equal lines become one with the sum of their weights; lines come in ascending order, first column first."""
    kept = [column[inside] + 0.0 for column in columns]  # + 0.0 turns -0.0 into 0.0: one value, one line
    order = np.lexsort(kept[::-1])
    kept = [column[order] for column in kept]
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([column[1:] != column[:-1] for column in kept], axis=0)
    starts = np.flatnonzero(new)
    counts = np.add.reduceat(weight[inside][order], starts)
    return [column[starts] for column in kept], np.rint(counts).astype(np.int64)
