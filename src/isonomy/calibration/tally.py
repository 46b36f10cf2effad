"""Rows in: the scores, outcomes, groups and users of a table, ready to be summed in memory or by their engine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from isonomy.calibration.engine import GROUP, LINES, OUTCOME, SCORE, USER, VOTE, Engine
from isonomy.calibration.memory import Memory, spanning
from isonomy.calibration.smoothing import BINS, Axis
from isonomy.errors import MissingRole, MissingValues, OneGroup, choose
from isonomy.frames import COUNT, Group, Grouping, Partition, Request, Source, aggregate, collect, missing
from isonomy.frames.groups import CONDITION
from isonomy.numerics.arrays import FloatArray

LEVELS = ("user", "aggregate")
HELD = 2**24  # rows of a polars query (or file) that are read into memory, where sums are several times as fast
_PIECE = 2**15
_NO_USER, _NOT_BINARY, _LOW, _HIGH = "no_user", "not_binary", "low", "high"


@dataclass(frozen=True, slots=True, eq=False)
class Roles:
    """Which columns to read, and whether users or rows have one vote each."""

    outcome: str
    score: str
    groups: object
    user: str | None = None
    level: str = "aggregate"
    depth: int = 1

    @classmethod
    def of(
        cls, source: Source, outcome: str, score: str, groups: object, user: str | None, level: str | None, depth: int
    ) -> Roles:
        """Check the arguments of a call. ``level`` is "user" if a user is given, else "aggregate"."""
        source.require(outcome=outcome, score=score, user=user)
        chosen = choose("level", level or ("aggregate" if user is None else "user"), LEVELS)
        if chosen == "user" and user is None:
            raise MissingRole('level: "user" needs the column that says who each row belongs to; pass user=.')
        return cls(outcome, score, groups, user, chosen, depth)

    def request(self, source: Source) -> Request:
        """The rows or sums this needs."""
        return Request(
            grouping=source.grouping(self.groups, self.depth),
            numeric={"outcome": self.outcome, "score": self.score},
        )


def requests(source: Source, roles: Roles) -> tuple[Request, ...]:
    """Passes an audit can share: the check of the columns that an engine makes first. Kernel sums are their own."""
    return (_checks(source, roles),) if source.lazy else ()


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Disjoint groups to be compared with one another, and their rows."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray  # rows of each group
    users: FloatArray  # users of each group; its rows, when there are no users
    rows: Memory | Engine
    axis: Axis
    binary: bool  # whether every outcome is 0 or 1
    spanning: int  # users who appear in more than one group

    @property
    def average(self) -> float:
        """What the bandwidth calls n: users (rows at aggregate level without users) in the average group."""
        return float(self.users.sum()) / len(self.groups)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The families of groups of a call, and what was read."""

    families: tuple[Family, ...]
    rows: int
    dropped: Mapping[str, int]


def tally(source: Source, roles: Roles, axis: Axis | None = None) -> Table:
    """Read the rows of a table in memory (or one that this process reads anyway), or prepare the sums of an engine.

    The axis is that of the rows' own scores unless one is given.
    """
    held = not source.lazy or (
        source.frame.implementation.is_polars() and source.cells(_checks(source, roles)).rows <= HELD
    )
    return _from_memory(source, roles, axis) if held else _from_engine(source, roles, axis)


def score_axis(source: Source, roles: Roles) -> Axis:
    """The axis of the scores of all rows, whatever else of a row is missing."""
    column = nw.col(roles.score)
    lines = nw.lit(1.0) if source.count is None else nw.col(source.count).cast(nw.Float64)
    frame = source.frame.filter(~missing(column, source.schema[roles.score]))
    return _focused(frame.select(column.cast(nw.Float64).alias(SCORE), lines.alias(LINES)))


def _focused(frame: Any) -> Axis:
    ends = collect(frame.select(nw.col(SCORE).min().alias(_LOW), nw.col(SCORE).max().alias(_HIGH)))
    if ends[_LOW][0] is None:
        return Axis.of(0.0, 1.0)  # no score at all: whoever reads the rows will say so

    def histogram(axis: Axis) -> FloatArray:
        cells = collect(aggregate(frame, {"bin": axis.bin(nw.col(SCORE))}, {"lines": nw.col(LINES)}))
        return bin_sums(cells["bin"].to_numpy().astype(np.intp), cells["lines"].to_numpy())

    return Axis.of(float(ends[_LOW][0]), float(ends[_HIGH][0])).focused(histogram)


def _bins(axis: Axis, score: FloatArray, lines: FloatArray | None) -> FloatArray:
    """Rows in each bin, some thousand at a time: the steps in between stay in the cache."""
    found = np.zeros(BINS)
    for start in range(0, score.size, _PIECE):
        part = slice(start, start + _PIECE)
        found += bin_sums(axis.bin(score[part]).astype(np.intp), None if lines is None else lines[part])
    return found


def bin_sums(bins: NDArray[np.intp], values: FloatArray | None = None) -> FloatArray:
    """Sums of ``values`` (rows, without them) in the bins of an axis."""
    return np.bincount(bins, values, BINS).astype(np.float64)


def _from_memory(source: Source, roles: Roles, axis: Axis | None) -> Table:
    request = roles.request(source)
    keys = {} if roles.user is None else {"user": nw.col(roles.user)}
    rows = source.rows(Request(grouping=request.grouping, numeric=request.numeric, keys=keys))
    score, outcome = rows.columns["score"], rows.columns["outcome"]
    lines = rows.weight
    user, known = (None, None) if roles.user is None else _user_codes(rows.columns["user"])
    dropped = dict(rows.dropped)
    if known is not None and not known.all():
        gone = round(float((~known).sum() if lines is None else lines[~known].sum()))
        _missing_user(source, roles, gone, dropped)
        score, outcome, user = score[known], outcome[known], None if user is None else user[known]
        lines = None if lines is None else lines[known]
    each = np.bincount(user, weights=lines) if user is not None and roles.level == "user" else None
    if axis is None:
        whole = Axis.of(float(score.min()), float(score.max()))
        axis = whole.focused(lambda on: _bins(on, score, lines))
    binary = bool(np.all(outcome * (1 - outcome) == 0))
    families = []
    for partition in rows.partitions:
        groups, codes = _completed(partition)
        codes = codes if known is None else codes[known]
        memory, size, users = _sorted(score, outcome, lines, user, each, codes, len(groups), axis, binary)
        families.append(Family(partition.dimensions, groups, size, users, memory, axis, binary, memory.shared.size))
    total = score.size if lines is None else round(float(lines.sum()))
    return Table(tuple(families), total, dropped)


def _sorted(
    score: FloatArray,
    outcome: FloatArray,
    lines: FloatArray | None,
    user: NDArray[np.int64] | None,
    each: NDArray[Any] | None,
    codes: NDArray[np.intp],
    size: int,
    axis: Axis,
    binary: bool,
) -> tuple[Memory, FloatArray, FloatArray]:
    """Rows in order of group, then user; the rows and the users of each group. ``each``: rows of each user."""
    import polars as pl

    lowest = min(int(codes.min()), 0)
    sizes = np.bincount(codes - lowest, minlength=size - lowest)[-lowest:]  # -1: in no group
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    most = 1 if user is None else int(user.max()) + 1
    columns = {"key": codes if user is None else codes * most + user, "score": score, "outcome": outcome}
    table = pl.DataFrame(columns | ({} if lines is None else {"lines": lines})).sort("key", maintain_order=True)
    table = table.slice(codes.size - offsets[-1])  # rows in no group have negative keys and come first
    score, outcome = table["score"].to_numpy(), table["outcome"].to_numpy()
    count = None if lines is None else table["lines"].to_numpy()
    rows = sizes.astype(float)
    if count is not None:
        rows = np.array([count[a:b].sum() for a, b in itertools.pairwise(offsets)])
    if user is None:
        vote = np.ones(score.size) if count is None else count
        return Memory(score, outcome, vote, count, None, offsets, axis, spanning(None, offsets), binary), rows, rows
    key = table["key"].to_numpy(writable=True)
    users = np.zeros(size)
    for group, (a, b) in enumerate(itertools.pairwise(offsets)):
        own = key[a:b]
        users[group] = 1 + np.count_nonzero(own[1:] != own[:-1]) if b > a else 0
        own -= group * most
    if each is None:
        vote = np.ones(score.size) if count is None else count
    else:
        vote = (1 / np.maximum(each, 1))[key]  # a number that no user has counts no row
        vote = vote if count is None else vote * count
    return Memory(score, outcome, vote, count, key, offsets, axis, spanning(key, offsets), binary), rows, users


def _user_codes(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """A number for each user from 0 up, and which rows have one (None: all)."""
    import polars as pl

    if values.dtype.kind in "iu" and values.size:
        low, high = int(values.min()), int(values.max())
        if high - low < 4 * values.size:  # dense enough to be its own code
            return (values - values.dtype.type(low)).astype(np.int64), None
    column = pl.Series(values, strict=False)
    if column.dtype.is_float():
        column = column.fill_nan(None)
    known = column.is_not_null().to_numpy()
    if column.dtype == pl.String:
        column = column.cast(pl.Categorical).to_physical()
    codes = (column.rank("dense").fill_null(1).cast(pl.Int64) - 1).to_numpy()
    return codes, None if known.all() else known


def _completed(partition: Partition) -> tuple[tuple[Group, ...], NDArray[np.intp]]:
    """Groups and codes; a named condition is compared with everybody else."""
    groups, codes = partition.groups, partition.codes
    if len(groups) == 1 and groups[0].items[0][0] == CONDITION:
        rest = Group.of({CONDITION: f"not {groups[0].label}"})
        return (*groups, rest), np.where(codes < 0, 1, codes)
    if len(groups) < 2:
        names = " & ".join(partition.dimensions)
        raise OneGroup(f"groups: {names!r} has one group ({groups[0].label}); a comparison needs two.")
    return groups, codes


def _missing_user(source: Source, roles: Roles, n: int, dropped: dict[str, int]) -> None:
    if source.missing == "raise":
        raise MissingValues(
            f"user: column {roles.user!r} has {n:,} rows with no value. "
            'Fix them, or pass missing="drop" to leave those rows out and have them counted.'
        )
    dropped[str(roles.user)] = dropped.get(str(roles.user), 0) + n


def _checks(source: Source, roles: Roles) -> Request:
    y = nw.col(roles.outcome).cast(nw.Float64)
    values = {_NOT_BINARY: (y * (1.0 - y)) * (y * (1.0 - y))}
    if roles.user is not None:
        gone = missing(nw.col(roles.user), source.schema[roles.user])
        values[_NO_USER] = nw.when(gone).then(nw.lit(1.0)).otherwise(nw.lit(0.0))
    base = roles.request(source)
    return Request(grouping=base.grouping, numeric=base.numeric, values=values)


def _from_engine(source: Source, roles: Roles, axis: Axis | None) -> Table:
    request = _checks(source, roles)
    cells = source.cells(request)
    grouping = request.grouping
    assert grouping is not None
    dropped = dict(cells.dropped)
    if roles.user is not None and (gone := round(float(cells.values[_NO_USER].sum()))):
        _missing_user(source, roles, gone, dropped)
    frame = _prepared(source, roles, grouping)
    axis = _focused(frame) if axis is None else axis
    binary = not float(cells.values[_NOT_BINARY].sum()) > 0
    families = []
    for partition in cells.partitions:
        groups, codes = _completed(partition)
        coded = frame.with_columns(membership(grouping, groups).alias(GROUP)).filter(nw.col(GROUP) >= 0)
        held = codes >= 0
        size = np.bincount(codes[held], cells.count[held], len(groups)).astype(np.float64)
        users, spanning = (size, 0) if roles.user is None else _count_users(coded, size)
        rows = Engine(coded, len(groups), roles.user is not None, spanning > 0, axis)
        families.append(Family(partition.dimensions, groups, size, users, rows, axis, binary, spanning))
    return Table(tuple(families), cells.rows, dropped)


def _prepared(source: Source, roles: Roles, grouping: Grouping) -> Any:
    """Complete rows only, with the columns of `engine` and the keys of the groups."""
    schema = source.schema
    kept = ~(missing(nw.col(roles.score), schema[roles.score]) | missing(nw.col(roles.outcome), schema[roles.outcome]))
    if roles.user is not None:
        kept = kept & ~missing(nw.col(roles.user), schema[roles.user])
    lines = nw.lit(1.0) if source.count is None else nw.col(source.count).cast(nw.Float64)
    frame = source.frame.filter(kept).select(
        nw.col(roles.score).cast(nw.Float64).alias(SCORE),
        nw.col(roles.outcome).cast(nw.Float64).alias(OUTCOME),
        lines.alias(LINES),
        *([] if roles.user is None else [nw.col(roles.user).alias(USER)]),
        *(key.alias(f"__d{i}") for i, key in enumerate(grouping.keys.values())),
    )
    if source.count is not None:
        frame = frame.filter(nw.col(LINES) > 0)
    if source.missing_group == "drop":
        for i in range(len(grouping.dimensions)):
            frame = frame.filter(~nw.col(f"__d{i}").is_null())
    vote = nw.col(LINES)
    if roles.level == "user":
        vote = vote / nw.col(LINES).sum().over(USER)
    return frame.with_columns(vote.alias(VOTE))


def membership(grouping: Grouping, groups: tuple[Group, ...]) -> Any:
    """The number of each row's group, -1 for none, from the keys of the finest cells (columns ``__d0``, ...)."""
    rest = len(groups) == 2 and groups[1].items[0][0] == CONDITION
    code: Any = nw.lit(1 if rest else -1)
    for number, group in reversed(list(enumerate(groups[:1] if rest else groups))):
        member: Any = None
        for name, value in group.items:
            for i, dimension in enumerate(grouping.dimensions):
                if (dimension.condition and name == CONDITION and value == dimension.name) or (
                    not dimension.condition and dimension.name == name
                ):
                    key, level = nw.col(f"__d{i}"), value
                    if dimension.labels and value is not None:
                        level = dimension.labels.index(str(value))
                    is_level = key if dimension.condition else key.is_null() if level is None else key == level
                    member = is_level if member is None else member & is_level
        code = nw.when(member).then(nw.lit(number)).otherwise(code)
    return code


def _count_users(frame: Any, size: FloatArray) -> tuple[FloatArray, int]:
    """Users of each group, and how many appear in several."""
    each = aggregate(frame, {"user": nw.col(USER), "group": nw.col(GROUP)}, {})
    counted = collect(aggregate(each, {"group": nw.col("group")}, {}))
    users = np.zeros(size.size)
    users[counted["group"].to_numpy().astype(np.intp)] = counted[COUNT].to_numpy()
    twice = aggregate(each, {"user": nw.col("user")}, {}).filter(nw.col(COUNT) > 1)
    found = collect(aggregate(twice, {}, {}))
    return users, round(float(found[COUNT].sum())) if len(found) else 0
