"""Reading a score: the scores, outcomes, groups and users of a table become votes at sites of the score axis.

Tables of many rows are read in parts that have all the rows of their users: sums and products of parts add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial, reduce
from operator import add, and_, mul, or_
from typing import Any, ClassVar, TypeVar

import narwhals as nw
import numpy as np

from isonomy.errors import EmptyFrame, MissingRole, MissingValues, OneGroup, UnknownOption, UsageError
from isonomy.frames import COUNT, Group, Grouping, Groups, Request, Source, aggregate, missing
from isonomy.frames.adapt import Lazy
from isonomy.frames.expressions import LARGEST, flag
from isonomy.frames.groups import CONDITION, ROW_COUNT, ROW_GROUP, Partition, compared, group_number
from isonomy.frames.source import refuse_nested
from isonomy.frames.sums import code_array, ends_at, has_workers, off_binary, split, summed_parts, sums_at
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.results import Plan
from isonomy.results.progress import tracked
from isonomy.scores.options import CurvesOption, Level
from isonomy.scores.smoothing.kernels import BINS, Axis, Bins
from isonomy.scores.smoothing.moments import FEW, MANY, VoteMoments
from isonomy.scores.smoothing.products import Products

K = TypeVar("K")
HELD = 2**24  # rows that are read at once; more are read in parts
MOST_GROUPS = 100
NO_USER, NOT_BINARY = "no user", "not binary"
NO_ROW_LEFT = "data: no rows are left; the user is missing in every row."
SCORE, OUTCOME, VOTE, USER, COUNTED, USER_ROWS = "__s", "__y", "__w", "__u", "__n", "__e"
_FAMILY = 2**40  # places of the sums of one table: the products of 100 groups have 2^36


# ---- which rows


@dataclass(frozen=True, eq=False)
class ScoreRows:
    """The columns that a question about a score reads, and whether users or rows have one vote each.

    ``user_rows``: a column with the number of all rows of a row's user, if not all of them are read.
    """

    source: Source
    outcome: str
    score: str
    grouping: Grouping
    user: str | None
    level: Level
    user_rows: str | None = None
    in_force: Mapping[Group, float] = field(default_factory=dict)  # thresholds; if any, scores are distances from them

    @property
    def person(self) -> str | None:
        return self.user or self.source.cluster

    @property
    def provenance(self) -> dict[str, Any]:
        return {"level": self.level, "grouping": self.grouping}

    @cached_property
    def checks(self) -> Request:
        """The rows of each group, and how many outcomes are not 0/1 or have no user."""
        values = {NOT_BINARY: off_binary(self.outcome)}
        if self.user is not None:
            values[NO_USER] = flag(missing(nw.col(self.user), self.source.schema[self.user]))
        return Request(grouping=self.grouping, numeric={"outcome": self.outcome, "score": self.score}, values=values)

    @property
    def requests(self) -> tuple[Request, ...]:
        """The passes an audit can share: an engine that holds the rows is first asked for their number."""
        return (self.checks,) if self.source.lazy else ()


@dataclass(frozen=True, eq=False, kw_only=True)
class ScorePlan(Plan):
    uses: ClassVar[tuple[str, ...]] = ()  # the fields of `CurvesOption` that have an effect, besides the level
    kinds: ClassVar[tuple[str, ...]] = ()  # those of ``method``; the first is the default

    groups: Groups
    user: str | None
    method: str | CurvesOption | None
    depth: int = 1
    outcome: str | None = None
    score: Any = None  # a column; several in `calibration_metrics`
    reference: Mapping[str, object] | None = None
    tolerance: float | None = None
    alpha: float = 0.05

    def __post_init__(self) -> None:
        _ = self.rows
        if self.user is not None and self.source.cluster not in (None, self.user):
            raise UsageError(
                f"cluster: {self.source.cluster!r} cannot be combined with user={self.user!r}, which already says "
                "which rows belong together. Give one of the two, or the same column for both."
            )

    @cached_property
    def curves(self) -> CurvesOption:
        curves = self.method if isinstance(self.method, CurvesOption) else CurvesOption(self.method)  # type: ignore[arg-type]
        if curves.kind is not None and not self.kinds:
            raise UsageError(f"method: {curves.kind!r} has no effect here; leave it out.")
        if curves.kind not in (None, *self.kinds):
            raise UnknownOption("method", curves.kind, self.kinds)
        for part in fields(curves)[2:]:
            if part.name not in self.uses and getattr(curves, part.name) != part.default:
                raise UsageError(f"method: {part.name} has no effect here; leave it out of iso.curves().")
        return curves

    @property
    def chosen(self) -> dict[str, str]:
        """What the provenance records besides the call: the test, if it stands among other options."""
        return {"kind": self.kind} if isinstance(self.method, CurvesOption) else {}

    @property
    def kind(self) -> str:
        return self.curves.kind or self.kinds[0]

    @cached_property
    def rows(self) -> ScoreRows:
        """The columns that are read; without an outcome, the score takes its place."""
        return self.reading(self.score if self.outcome is None else self.outcome, self.score)

    @cached_property
    def points(self) -> FloatArray | None:
        if (grid := self.curves.grid) is None:
            return None
        try:
            points = np.atleast_1d(np.asarray(grid, dtype=np.float64))
        except (TypeError, ValueError):  # refused below
            points = np.empty(0)
        if not points.size or not np.all(np.abs(points) <= LARGEST) or np.any(np.diff(points) <= 0):
            raise UsageError(f"grid: {grid!r} is not allowed; give None or finite scores in increasing order.")
        return points

    def reading(self, outcome: str, score: str) -> ScoreRows:
        """The columns to read, checked against the schema. The level is "user" if a user is given, else "aggregate"."""
        source, user = self.source, self.user
        source.require(outcome=outcome, score=score, user=user)
        if user is not None:
            refuse_nested(source.schema, "user", user)
        level: Level = self.curves.level or ("aggregate" if user is None else "user")
        if level == "user" and user is None:
            raise MissingRole('level: "user" needs a column that identifies users; pass user=<column>.')
        rows = ScoreRows(source, outcome, score, source.grouping(self.groups, self.depth), user, level)
        source.check(rows.checks)
        return rows


@dataclass(frozen=True, eq=False, kw_only=True)
class ThresholdPlan(ScorePlan):
    """A plan with the threshold that decides: one for everybody, or that of each group."""

    threshold: float | Mapping[Any, float]

    @cached_property
    def rows(self) -> ScoreRows:
        """As above; with thresholds by group, the score is the distance from the group's threshold."""
        rows = self.reading(self.score if self.outcome is None else self.outcome, self.score)
        if not isinstance(self.threshold, Mapping):
            return rows
        if self.depth == 1:
            refuse_several(rows.grouping, " with a threshold for each group")
        return from_thresholds(rows, self.threshold)

    @property
    def present(self) -> float:
        """The threshold on the scale of ``rows.score``."""
        return 0.0 if isinstance(self.threshold, Mapping) else float(self.threshold)

    @property
    def in_force(self) -> float | dict[str, float]:
        return {group.label: t for group, t in self.rows.in_force.items()} or self.present


def from_thresholds(rows: ScoreRows, thresholds: Mapping[Any, float]) -> ScoreRows:
    """Rows whose score is the distance from the threshold of their group.

    The difference of two floats has the right sign, so that exactly those who reach their threshold are at 0 or above.
    """
    source = rows.source
    partition = source.cells(Request(grouping=rows.grouping, numeric={"score": rows.score})).partitions[-1]
    groups, _ = compared(partition)
    names = {group: (" & ".join(str(value) for _, value in group.items), group.label) for group in groups}
    in_force = threshold_of_each(names, thresholds)
    dimensions = {dimension.name: dimension for dimension in rows.grouping.dimensions}
    *some, last = in_force.items()
    limit: nw.Expr = nw.lit(last[1])  # also for a row without a group, which is left out or refused
    for group, threshold in some:
        levels = [dimensions[str(v) if name == CONDITION else name].holds(v) for name, v in group.items]
        limit = nw.when(reduce(and_, levels)).then(nw.lit(threshold)).otherwise(limit)
    distance = source.fresh("distance from the threshold")
    return replace(
        rows,
        source=source.with_columns({distance: nw.col(rows.score).cast(nw.Float64) - limit}),
        score=distance,
        in_force=in_force,
    )


def threshold_of_each(names: Mapping[K, tuple[str, ...]], thresholds: Mapping[Any, float]) -> dict[K, float]:
    """The threshold of each group, which the mapping calls by one of its ``names``, or by a tuple of its values."""
    given = {" & ".join(map(str, key)) if isinstance(key, tuple) else str(key): t for key, t in thresholds.items()}
    known = {group: next((name for name in called if name in given), None) for group, called in names.items()}
    without = [names[group][0] for group, name in known.items() if name is None]
    others = [name for name in given if name not in known.values()]
    if without or others:
        problem = f"no threshold for {', '.join(without)}" if without else f"there is no group {others[0]!r}"
        listed = ", ".join(called[0] for called in names.values())
        raise UsageError(f"threshold: {problem}; give a number, or a threshold for each of the groups: {listed}.")
    return {group: float(given[str(name)]) for group, name in known.items()}


def refuse_several(grouping: Grouping, reason: str = "") -> None:
    if len(grouping.dimensions) != 1:
        raise UsageError(f"groups: give one column (or one named condition){reason}.")


# ---- all rows


@dataclass(frozen=True, slots=True, eq=False)
class ScoreSums:
    """The sums over the rows of every table of groups, the number of rows read, and the rows left out."""

    tables: tuple[VoteMoments, ...]
    rows: int
    dropped: Mapping[str, int]


def read_sums(rows: ScoreRows, axis: Axis | None = None) -> ScoreSums:
    """Sum the rows; many rows part by part. A part has all rows of some users, so that the sums of parts add up."""
    source = rows.source
    if has_workers(source.frame):
        return _by_workers(rows, axis)
    number = source.cells(rows.checks).rows if source.lazy else round(float(sums_at(source.frame, {}, {})[COUNT]))
    if number <= HELD:
        return _sum_rows(rows, axis)
    axis = axis or axis_of(source.complete_rows({SCORE: rows.score, OUTCOME: rows.outcome}))
    checks = source.cells(rows.checks)
    known = [compared(partition)[0] for partition in checks.partitions]
    binary = not float(checks.values[NOT_BINARY].sum()) > 0
    products = [Products(len(groups), binary=binary) for groups in known] if rows.person is not None else None
    parts = split(source.frame, rows.person or rows.score, -(-number // HELD))
    read = [
        _sum_rows(replace(rows, source=source.derived(part)), axis, known, products)
        for part in tracked(parts, "Part of the rows", len(parts), bar=False)
    ]
    tables = [reduce(add, part) for part in zip(*(sums.tables for sums in read), strict=True)]
    if products is not None:
        tables = [table.with_products(sums) for table, sums in zip(tables, products, strict=True)]
    dropped = Counter[str]()
    for sums in read:
        dropped.update(sums.dropped)
    return ScoreSums(tuple(tables), sum(sums.rows for sums in read), dict(dropped))


def axis_of(frame: Lazy) -> Axis:
    low, high = ends_at(frame, nw.lit(0), 1, nw.col(SCORE))
    if np.isnan(low[0]):
        return Axis.between(0.0, 1.0)  # there is no score; reading the rows will raise

    def histogram(axis: Axis) -> FloatArray:
        return sums_at(frame, {"bin": (bin_of(axis.bins), BINS)}, {"n": nw.col(ROW_COUNT)})["n"]

    return Axis.between(float(low[0]), float(high[0])).focused(histogram)


def bin_of(bins: Bins) -> nw.Expr:
    """The bin of each score, as `Bins.index`: a whole number as a float."""
    place = ((nw.col(SCORE) - bins.anchor) * (1.0 / bins.step)).floor() + bins.before
    return place.clip(0, bins.size - 1)


def dealt(frame: Lazy, unit: str, part: str, most: int) -> tuple[Lazy, int]:
    """The rows with the number of their ``part``, and how many parts there are: whole units are dealt to each."""
    units = aggregate(frame.filter(~nw.col(unit).is_null()), {unit: nw.col(unit)}, {})
    numbered = units.with_columns((nw.col(COUNT) * 0.0 + 1.0).cum_sum().over(order_by=unit).alias(part))
    parts = min(most, round(float(sums_at(units, {}, {})[COUNT])))
    return frame.join(numbered.select(unit, nw.col(part) % parts), on=unit, how="inner"), parts


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
    """The rows that have a user, and their votes. Weights are not scaled, so the parts of a table have one scale."""

    numbers: Mapping[str, FloatArray]
    partitions: Sequence[Partition]  # with the codes of these rows
    vote: FloatArray
    lines: FloatArray | None  # the number of rows that each line stands for, if they are counted
    user: IntArray | None
    rows: int
    dropped: Mapping[str, int]

    def axis(self, score: FloatArray) -> Axis:
        if not score.size:
            raise EmptyFrame(NO_ROW_LEFT)
        return Axis.between(float(score.min()), float(score.max())).focused_on(score, self.lines)


def read_votes(rows: ScoreRows, numeric: Mapping[str, str | nw.Expr]) -> RowVotes:
    source = rows.source
    keys = {} if rows.person is None else {"user": nw.col(rows.person)}
    weights = {} if source.reading["weight"] is None else {"weight": source.reading["weight"]}
    sizes = {} if rows.user_rows is None else {"user_rows": nw.col(rows.user_rows)}
    request = Request(grouping=rows.grouping, numeric={**numeric, **weights}, keys=keys, values=sizes)
    sample = source.rows(request)
    user, known = (None, None) if rows.person is None else code_array(sample.columns["user"])
    dropped, lines = dict(sample.dropped), sample.count
    if known is not None and user is not None:
        userless = round(float((~known).sum() if lines is None else lines[~known].sum()))
        dropped, user = without_users(rows, userless, dropped), user[known]
    chosen = slice(None) if known is None or known.all() else known
    lines = None if lines is None else lines[chosen]
    columns = {name: sample.columns[name][chosen] for name in (*numeric, *weights, *sizes)}
    factors = [column for column in (lines, columns.get("weight")) if column is not None]
    if user is not None and rows.level == "user":
        with np.errstate(divide="ignore"):  # some codes stand for no user
            shares = 1.0 / (np.bincount(user, weights=lines) if rows.user_rows is None else columns["user_rows"])
        factors.append(shares[user] if rows.user_rows is None else shares)
    vote = reduce(mul, factors) if factors else np.ones(sample.size)[chosen]
    number = vote.size if lines is None else round(float(lines.sum()))
    partitions = [replace(partition, codes=partition.codes[chosen]) for partition in sample.partitions]
    return RowVotes(columns, partitions, vote, lines, user, number, dropped)


def _sum_rows(
    rows: ScoreRows,
    axis: Axis | None,
    known: Sequence[tuple[Group, ...]] | None = None,
    products: Sequence[Products] | None = None,
) -> ScoreSums:
    """The sums of a table that fits into memory, or of a part of one: ``known`` and ``products`` are the table's."""
    votes = read_votes(rows, rows.checks.numeric)
    score, outcome = votes.numbers["score"], votes.numbers["outcome"]
    if axis is None:
        axis = votes.axis(score)
    binary = bool(np.all((outcome == 0) | (outcome == 1)))
    tables = []
    for number, partition in enumerate(votes.partitions):
        groups, codes = table_groups(partition, None if known is None else known[number])
        table = (partition.title, groups, binary, axis, codes, score, outcome, votes.vote, votes.lines, votes.user)
        if products is not None:
            tables.append(VoteMoments.from_rows(*table, products=products[number]))
        elif votes.user is not None and codes.size > MANY and len(groups) <= FEW:
            sums = Products(len(groups), binary=binary)
            tables.append(VoteMoments.from_rows(*table, products=sums).with_products(sums))
        else:
            tables.append(VoteMoments.from_rows(*table))
    return ScoreSums(tuple(tables), votes.rows, votes.dropped)


def table_groups(partition: Partition, known: tuple[Group, ...] | None = None) -> tuple[tuple[Group, ...], IntArray]:
    if known is None:
        groups, codes = compared(partition)
    else:
        places = np.array([known.index(group) for group in partition.groups], dtype=np.intp)
        rest = len(known) - 1 if known[-1].items[0][0] == CONDITION else -1
        groups, codes = known, np.append(places, rest)[partition.codes]
    if len(groups) > MOST_GROUPS:
        name = " & ".join(partition.dimensions)
        raise UsageError(
            f"groups: {name!r} has {len(groups):,} groups, and at most {MOST_GROUPS} can be compared with one "
            "another. Combine some of them; for a column of numbers, use iso.cut(column, edges)."
        )
    return groups, codes


def _by_workers(rows: ScoreRows, axis: Axis | None) -> ScoreSums:
    """The same on workers: only sums leave them."""
    source = rows.source
    checks = source.cells(rows.checks)
    userless = 0 if rows.user is None else round(float(checks.values[NO_USER].sum()))
    dropped = without_users(rows, userless, checks.dropped)
    if checks.rows == userless:
        raise EmptyFrame(NO_ROW_LEFT)
    numbers = {SCORE: rows.score, OUTCOME: rows.outcome} | ({} if source.count is None else {COUNTED: source.count})
    numbers |= {} if rows.user_rows is None else {USER_ROWS: rows.user_rows}
    labels = {} if rows.person is None else {USER: rows.person}
    people = source.complete_rows(numbers, labels, rows.grouping)
    axis = axis or axis_of(people)
    titles = [partition.title for partition in checks.partitions]
    tables = [table_groups(partition)[0] for partition in checks.partitions]
    codes = [group_number(rows.grouping, groups).alias(f"{ROW_GROUP}{i}") for i, groups in enumerate(tables)]
    lines = people.select(*numbers, *labels, nw.col(ROW_COUNT).alias(VOTE), *codes)
    by_user = rows.person is not None and rows.level == "user"
    binary = not float(checks.values[NOT_BINARY].sum()) > 0
    work = partial(_part_entries, axis, tuple(tables), by_user=by_user, binary=binary)
    place, value = summed_parts(lines, USER if labels else None, checks.rows, work)
    ends = np.searchsorted(place, _FAMILY * np.arange(len(tables) + 1))
    read = [
        VoteMoments.from_entries(title, groups, binary, axis, place[a:b] - k * _FAMILY, value[a:b], users=bool(labels))
        for k, (title, groups, a, b) in enumerate(zip(titles, tables, ends[:-1], ends[1:], strict=True))
    ]
    return ScoreSums(tuple(read), checks.rows - userless, dropped)


def _part_entries(
    axis: Axis, tables: Sequence[tuple[Group, ...]], columns: Mapping[str, AnyArray], *, by_user: bool, binary: bool
) -> Iterator[tuple[IntArray, FloatArray]]:
    lines, vote = columns.get(COUNTED), columns[VOTE]
    user = None if USER not in columns else code_array(columns[USER])[0]
    if by_user and user is not None:
        vote = vote / (columns[USER_ROWS] if USER_ROWS in columns else np.bincount(user, weights=lines)[user])
    for k, groups in enumerate(tables):
        values = (columns[f"{ROW_GROUP}{k}"], columns[SCORE], columns[OUTCOME], vote, lines, user)
        products = None if user is None else Products(len(groups), binary=binary)
        sums = VoteMoments.from_rows("", groups, binary, axis, *values, products=products)
        yield from ((place + k * _FAMILY, value) for place, value in sums.entries(products))


# ---- rows from a threshold up


def rows_above(rows: ScoreRows, threshold: float) -> ScoreSums:
    """The rows from the threshold up. Missing scores stay, so that they are reported as elsewhere.

    A user's vote is split over all of the user's rows that have a score, including those below the threshold, but not
    over rows that are left out because something is missing.
    """
    source = rows.source
    column, unknown = nw.col(rows.score), missing(nw.col(rows.score), source.schema[rows.score])
    read = (column >= threshold) | unknown
    axis = axis_of(source.complete_rows({SCORE: rows.score}))  # of all rows with a score
    if rows.level == "user" and (user := rows.user) is not None:
        lost = unknown | ((column >= threshold) & missing(nw.col(rows.outcome), source.schema[rows.outcome]))
        if (weight := source.reading["weight"]) is not None:
            lost = lost | missing(nw.col(weight), source.schema[weight])
        if source.missing_group == "drop":
            lost = reduce(or_, (key.is_null() for key in rows.grouping.keys.values()), lost)
        column_name = source.fresh("rows of the user")
        number = nw.when(lost).then(nw.lit(0.0)).otherwise(source.number)
        source, rows = source.with_columns({column_name: number.sum().over(user)}), replace(rows, user_rows=column_name)
    with from_threshold(rows, threshold):
        return read_sums(replace(rows, source=source.filter(read)), axis)


@contextmanager
def from_threshold(rows: ScoreRows, threshold: float) -> Iterator[None]:
    """Make errors say that only the rows from the threshold up are read."""
    reached = "that reaches the threshold of its group" if rows.in_force else f"of {threshold:g} or more"
    try:
        yield
    except EmptyFrame:
        scale = "choose lower ones." if rows.in_force else f"choose one on the scale of {rows.score!r}."
        raise EmptyFrame(f"threshold: no row has a score {reached}; {scale}") from None
    except OneGroup as error:
        raise OneGroup(f"{error} Only rows with a score {reached} are compared.") from None
