"""Reading a score: the scores, outcomes, groups and users of a table become votes at sites of the score axis.

Tables of many rows are read in parts that have all the rows of their users: sums and products of parts add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add, or_
from typing import Any, Literal

import narwhals as nw
import numpy as np

from isonomy.errors import EmptyFrame, MissingRole, MissingValues, OneGroup, UsageError
from isonomy.frames import Group, Grouping, Groups, Request, Sample, Source, missing
from isonomy.frames.adapt import Lazy
from isonomy.frames.checks import refuse_nested
from isonomy.frames.groups import CONDITION, Partition
from isonomy.frames.membership import GROUP, LINES, code_of, compared, complete_rows, person_codes, without_value
from isonomy.frames.sums import LARGEST, ends_at, off_binary, position, split, sums_at
from isonomy.frames.workers import has_workers, summed_parts
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.results import Plan
from isonomy.results.progress import tracked
from isonomy.scores.smoothing.families import Family
from isonomy.scores.smoothing.kernels import BINS, Axis
from isonomy.scores.smoothing.moments import VoteMoments

Level = Literal["user", "aggregate"]
HELD = 2**24  # rows of a query or file that are read at once; more are read in parts
MOST_GROUPS = 100
NO_USER, NOT_BINARY = "no user", "not binary"
NO_ROW_LEFT = "data: no rows are left; the user is missing in every row."
SCORE, OUTCOME, VOTE, USER, COUNTED, EACH = "__s", "__y", "__w", "__u", "__n", "__e"
_FAMILY = 2**40  # places of the sums of one family: the products of 100 groups have 2^36


# ---- which rows


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """The columns that a question about a score reads, and whether users or rows have one vote each.

    ``each``: a column with the number of all rows of a row's user, where not all of them are read.
    """

    source: Source
    outcome: str
    score: str
    grouping: Grouping
    user: str | None
    level: Level
    each: str | None = None

    @property
    def person(self) -> str | None:
        """The column of whom or what is independent of the others: the user, or the cluster."""
        return self.user or self.source.cluster

    @cached_property
    def checks(self) -> Request:
        """The rows of each group, and how many outcomes are not 0/1 or have no user."""
        values = {NOT_BINARY: off_binary(self.outcome)}
        if self.user is not None:
            values[NO_USER] = without_value(self.source, self.user)
        return Request(grouping=self.grouping, numeric={"outcome": self.outcome, "score": self.score}, values=values)

    @property
    def requests(self) -> tuple[Request, ...]:
        """The passes an audit can share: where an engine holds the rows, how many there are is asked first."""
        return (self.checks,) if self.source.lazy else ()


def score_rows(
    source: Source,
    *,
    outcome: str,
    score: str,
    groups: Groups,
    user: str | None,
    level: Level | None,
    depth: int = 1,
) -> ScoreRows:
    """Check the columns of a call against the schema. The level is "user" if a user is given, else "aggregate"."""
    source.require(outcome=outcome, score=score, user=user)
    refuse_nested(source.schema, "user", user)
    chosen: Level = level or ("aggregate" if user is None else "user")
    if chosen == "user" and user is None:
        raise MissingRole('level: "user" needs a column that identifies users; pass user=<column>.')
    rows = ScoreRows(source, outcome, score, source.grouping(groups, depth), user, chosen)
    source.check(rows.checks)
    return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class ScorePlan(Plan):
    """The call of a question that compares the outcomes of groups at the same score."""

    outcome: str
    score: str
    groups: Groups
    user: str | None
    level: Level | None
    depth: int

    def __post_init__(self) -> None:
        _ = self.rows
        refuse_user_and_cluster(self.source, self.user)

    @cached_property
    def rows(self) -> ScoreRows:
        """The columns that are read."""
        roles: Any = {"outcome": self.outcome, "score": self.score, "user": self.user, "level": self.level}
        return score_rows(self.source, **roles, groups=self.groups, depth=self.depth)


def refuse_user_and_cluster(source: Source, user: str | None) -> None:
    """Refuse two columns that say which rows belong together."""
    if user is not None and source.cluster not in (None, user):
        raise UsageError(
            f"cluster: {source.cluster!r} cannot be combined with user={user!r}, which already says which rows belong "
            "together. Give one of the two, or the same column for both."
        )


def refuse_several(grouping: Grouping, reason: str = "") -> None:
    """Refuse groups that are not those of one column."""
    if len(grouping.dimensions) != 1:
        raise UsageError(f"groups: give one column (or one named condition){reason}.")


def grid_points(grid: float | Sequence[float] | None) -> FloatArray | None:
    """The scores of a grid, checked."""
    if grid is None:
        return None
    try:
        points = np.atleast_1d(np.asarray(grid, dtype=np.float64))
    except (TypeError, ValueError):  # refused below
        points = np.empty(0)
    if not points.size or not np.all(np.abs(points) <= LARGEST) or np.any(np.diff(points) <= 0):
        raise UsageError(f"grid: {grid!r} is not allowed; give None or finite scores in increasing order.")
    return points


# ---- all rows


@dataclass(frozen=True, slots=True, eq=False)
class ScoreSums:
    """The sums over the rows of every table of groups, how many rows were read, and how many were left out."""

    families: tuple[Family, ...]
    rows: int
    dropped: Mapping[str, int]


def read_sums(rows: ScoreRows, axis: Axis | None = None) -> ScoreSums:
    """Read the rows and add them up; many of them part by part, so that no more than a part is ever held.

    A part has all the rows of some users, so that the sums of parts add up; Spark's workers read them. The axis is that
    of the rows' own scores unless one is given.
    """
    source = rows.source
    if has_workers(source.frame):
        return _by_workers(rows, axis)
    number = source.cells(rows.checks).rows if source.lazy else 0
    if number <= HELD:
        return _held(rows, axis, None)
    axis = axis or axis_of(complete_rows(source, {SCORE: rows.score, OUTCOME: rows.outcome}))
    known = tuple(compared(partition)[0] for partition in source.cells(rows.checks).partitions)
    parts = split(source.frame, rows.person or rows.score, -(-number // HELD))
    read = [
        _held(replace(rows, source=source.derived(part)), axis, known)
        for part in tracked(parts, "Part of the rows", len(parts), bar=False)
    ]
    families = tuple(
        replace(
            part[0], sums=reduce(add, (family.sums for family in part)), binary=all(family.binary for family in part)
        )
        for part in zip(*(sums.families for sums in read), strict=True)
    )
    dropped = Counter[str]()
    for sums in read:
        dropped.update(sums.dropped)
    return ScoreSums(families, sum(sums.rows for sums in read), dict(dropped))


def axis_of(frame: Lazy) -> Axis:
    """The axis of the scores of a table."""
    low, high = ends_at(frame, nw.lit(0), 1, nw.col(SCORE))
    if np.isnan(low[0]):
        return Axis.of(0.0, 1.0)  # there is no score; reading the rows will raise
    whole = Axis.of(float(low[0]), float(high[0]))

    def histogram(axis: Axis) -> FloatArray:
        bins = position(nw.col(SCORE), axis.low, BINS / axis.length, BINS)
        return sums_at(frame, {"bin": (bins, BINS)}, {"n": nw.col(LINES)})["n"]

    return whole.focused(histogram)


def without_users(rows: ScoreRows, n: int, dropped: Mapping[str, int]) -> dict[str, int]:
    """The rows dropped, ``n`` of them more because they have no user."""
    if n and rows.source.missing == "raise":
        raise MissingValues(
            f"user: column {rows.user!r} has {n:,} rows with no value. "
            'Fix them, or use missing="drop" to leave these rows out; the result counts them.'
        )
    column = str(rows.user)
    return {**dropped, **({column: dropped.get(column, 0) + n} if n else {})}


@dataclass(frozen=True, slots=True, eq=False)
class RowVotes:
    """What each row that has a user counts. Weights are not scaled, so that the parts of a table have one scale."""

    vote: FloatArray
    lines: FloatArray | None  # rows that each line stands for, where they are counted
    user: IntArray | None
    kept: BoolArray | slice  # the rows with a user
    rows: int
    dropped: Mapping[str, int]


def read_votes(rows: ScoreRows, numeric: Mapping[str, str | nw.Expr]) -> tuple[Sample, RowVotes]:
    """The rows in which the columns ``numeric`` have values, and the vote of each."""
    source = rows.source
    keys = {} if rows.person is None else {"user": nw.col(rows.person)}
    weights = {} if source.reading.weight is None else {"weight": source.reading.weight}
    each = {} if rows.each is None else {"each": nw.col(rows.each)}
    request = Request(grouping=rows.grouping, numeric={**numeric, **weights}, keys=keys, values=each)
    sample = source.rows(request)
    user, known = (None, None) if rows.person is None else person_codes(sample.columns["user"])
    kept: BoolArray | slice = slice(None)
    lines, dropped = sample.count, dict(sample.dropped)
    if user is not None and known is not None:
        userless = round(float((~known).sum() if lines is None else lines[~known].sum()))
        dropped = without_users(rows, userless, dropped)
        user, kept = user[known], known
    lines = None if lines is None else lines[kept]
    vote = sample.columns.get("weight", np.ones(sample.size))[kept] * (1.0 if lines is None else lines)
    if user is not None and rows.level == "user":
        vote = vote / (np.bincount(user, weights=lines)[user] if rows.each is None else sample.columns["each"][kept])
    number = vote.size if lines is None else round(float(lines.sum()))
    return sample, RowVotes(vote, lines, user, kept, number, dropped)


def _held(rows: ScoreRows, axis: Axis | None, known: Sequence[tuple[Group, ...]] | None) -> ScoreSums:
    """The sums of a table (or of a part of one, whose groups are ``known``) that fits into memory."""
    sample, votes = read_votes(rows, rows.checks.numeric)
    score, outcome = (sample.columns[name][votes.kept] for name in ("score", "outcome"))
    if not score.size and axis is None:
        raise EmptyFrame(NO_ROW_LEFT)
    if axis is None:
        axis = Axis.of(float(score.min()), float(score.max())).focused_on(score, votes.lines)
    binary = bool(np.all(outcome * (1 - outcome) == 0))
    families = []
    for number, partition in enumerate(sample.partitions):
        groups, codes = compared(partition) if known is None else _among(known[number], partition)
        refuse_many(partition, groups)
        lines = (score, outcome, votes.vote, votes.lines, votes.user)
        sums = VoteMoments.of(axis, codes[votes.kept], len(groups), *lines, products=None if known is None else True)
        families.append(Family(partition.titles or partition.dimensions, groups, sums, binary))
    return ScoreSums(tuple(families), votes.rows, votes.dropped)


def refuse_many(partition: Partition, groups: Sequence[Group]) -> None:
    """Refuse more groups than can be compared with one another."""
    if len(groups) > MOST_GROUPS:
        name = " & ".join(partition.dimensions)
        raise UsageError(
            f"groups: {name!r} has {len(groups):,} groups, and at most {MOST_GROUPS} can be compared with one "
            "another. Combine some of them; for a column of numbers, use iso.cut."
        )


def _among(groups: tuple[Group, ...], partition: Partition) -> tuple[tuple[Group, ...], IntArray]:
    """The groups of a whole table, and the codes of a part of it among them."""
    places = np.array([groups.index(group) for group in partition.groups], dtype=np.intp)
    rest = len(groups) - 1 if groups[-1].items[0][0] == CONDITION else -1
    return groups, np.append(places, rest)[partition.codes]


def _by_workers(rows: ScoreRows, axis: Axis | None) -> ScoreSums:
    """The same on workers: only sums leave them."""
    source = rows.source
    checks = source.cells(rows.checks)
    userless = 0 if rows.user is None else round(float(checks.values[NO_USER].sum()))
    dropped = without_users(rows, userless, checks.dropped)
    if checks.rows == userless:
        raise EmptyFrame(NO_ROW_LEFT)
    numbers = {SCORE: rows.score, OUTCOME: rows.outcome} | ({} if source.count is None else {COUNTED: source.count})
    numbers |= {} if rows.each is None else {EACH: rows.each}
    labels = {} if rows.person is None else {USER: rows.person}
    people = complete_rows(source, numbers, labels, rows.grouping)
    axis = axis or axis_of(people)
    families = []
    for partition in checks.partitions:
        families.append((partition.titles or partition.dimensions, compared(partition)[0]))
        refuse_many(partition, families[-1][1])
    codes = [code_of(rows.grouping, groups).alias(f"{GROUP}{i}") for i, (_, groups) in enumerate(families)]
    lines = people.select(*numbers, *labels, nw.col(LINES).alias(VOTE), *codes)
    sizes = tuple(len(groups) for _, groups in families)
    work = partial(_part_entries, axis, sizes, by_user=rows.person is not None and rows.level == "user")
    place, value = summed_parts(lines, USER if labels else None, checks.rows, work)
    ends = np.searchsorted(place, _FAMILY * np.arange(len(sizes) + 1))
    sums = [
        VoteMoments.from_entries(axis, size, place[a:b] - k * _FAMILY, value[a:b], users=bool(labels))
        for k, (size, a, b) in enumerate(zip(sizes, ends[:-1], ends[1:], strict=True))
    ]
    binary = not float(checks.values[NOT_BINARY].sum()) > 0
    read = tuple(Family(*family, moments, binary) for family, moments in zip(families, sums, strict=True))
    return ScoreSums(read, checks.rows - userless, dropped)


def _part_entries(
    axis: Axis, sizes: tuple[int, ...], columns: Mapping[str, AnyArray], *, by_user: bool
) -> Iterator[tuple[IntArray, FloatArray]]:
    """The moments of every family of groups among some users' rows, family after family."""
    lines, vote = columns.get(COUNTED), columns[VOTE]
    user = None if USER not in columns else person_codes(columns[USER])[0]
    if by_user and user is not None:
        vote = vote / (columns[EACH] if EACH in columns else np.bincount(user, weights=lines)[user])
    for k, size in enumerate(sizes):
        values = (columns[SCORE], columns[OUTCOME], vote, lines, user)
        sums = VoteMoments.of(axis, columns[f"{GROUP}{k}"], size, *values, products=True)
        yield from ((place + k * _FAMILY, value) for place, value in sums.entries())


# ---- rows from a threshold up


def rows_above(rows: ScoreRows, threshold: float) -> ScoreSums:
    """The rows from the threshold up. Missing scores stay, so that they are reported as elsewhere.

    A user's vote is split over all of the user's rows that have a score, including those below the threshold, but not
    over rows that are left out because something is missing.
    """
    source = rows.source
    column, unknown = nw.col(rows.score), missing(nw.col(rows.score), source.schema[rows.score])
    kept = (column >= threshold) | unknown
    axis = axis_of(complete_rows(source, {SCORE: rows.score}))  # of all rows with a score
    if rows.level == "user" and (user := rows.user) is not None:
        lost = unknown | ((column >= threshold) & missing(nw.col(rows.outcome), source.schema[rows.outcome]))
        if (weight := source.reading.weight) is not None:
            lost = lost | missing(nw.col(weight), source.schema[weight])
        if source.missing_group == "drop":
            lost = reduce(or_, (key.is_null() for key in rows.grouping.keys.values()), lost)
        each = source.fresh("rows of the user")
        number = nw.when(lost).then(nw.lit(0.0)).otherwise(source.number)
        source, rows = source.with_columns({each: number.sum().over(user)}), replace(rows, each=each)
    with from_threshold(rows, threshold):
        return read_sums(replace(rows, source=source.filter(kept)), axis)


@contextmanager
def from_threshold(rows: ScoreRows, threshold: float) -> Iterator[None]:
    """Make errors say that only the rows from the threshold up are read."""
    try:
        yield
    except EmptyFrame:
        raise EmptyFrame(
            f"threshold: no row has a score of {threshold:g} or more; choose one on the scale of {rows.score!r}."
        ) from None
    except OneGroup as error:
        raise OneGroup(f"{error} Only rows with a score of {threshold:g} or more are compared.") from None
