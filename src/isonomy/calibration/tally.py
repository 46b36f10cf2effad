"""Rows in: the scores, outcomes, groups and users of a table become votes at sites of the score axis.

Tables of many rows are read in parts that have all the rows of their users: sums and products of parts add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add, or_

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import NO_USER, NOT_BINARY, MarginalPlan, Plan, RowsPlan
from isonomy.calibration.smoothing.axis import BINS, Axis
from isonomy.calibration.smoothing.moments import Moments
from isonomy.errors import EmptyFrame, MissingValues, OneGroup, UsageError, refuse_percent
from isonomy.frames import Group, Reading, Request, Source, missing
from isonomy.frames.adapt import Input, Lazy
from isonomy.frames.checks import flag
from isonomy.frames.groups import CONDITION, Partition
from isonomy.frames.membership import GROUP, LINES, code_of, compared, complete_rows, person_codes
from isonomy.frames.products import ends_at, position, split, sums_at
from isonomy.frames.request import Rows
from isonomy.frames.workers import has_workers, summed_parts
from isonomy.numerics.arrays import AnyArray, BoolArray, FloatArray, IntArray
from isonomy.results.progress import tracked

HELD = 2**24  # rows of a query or file that are read at once; more are read in parts
MOST_GROUPS = 100
NO_ROW_LEFT = "data: no rows are left; the user of every row is missing."
SCORE, OUTCOME, VOTE, USER, COUNTED, EACH = "__s", "__y", "__w", "__u", "__n", "__e"
_FAMILY = 2**40  # places of the sums of one family: the products of 100 groups have 2^36


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Disjoint groups to be compared with one another, and the sums over their rows."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    sums: Moments
    binary: bool  # whether every outcome is 0 or 1

    @property
    def axis(self) -> Axis:
        """The axis of scores that the sums are taken on."""
        return self.sums.axis

    @property
    def size(self) -> FloatArray:
        """Rows of each group."""
        return self.sums.rows

    @property
    def users(self) -> FloatArray:
        """Users of each group; its rows, where there are no users."""
        return self.sums.users

    @property
    def spanning(self) -> int:
        """Users who appear in more than one group."""
        return self.sums.spanning

    @property
    def average(self) -> float:
        """What the bandwidth calls n: users (rows at aggregate level without users) in the average group."""
        return float(self.users.sum()) / len(self.groups)


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """The families of groups of a call, and what was read."""

    families: tuple[Family, ...]
    rows: int
    dropped: Mapping[str, int]
    nobody: tuple[str, ...] = ()  # groups of which no row has a score from the threshold up
    ranks: FloatArray | None = None  # ECE and AUC of everybody, then of each group, where they are asked for


def tally(source: Source, plan: Plan) -> Tally:
    """All rows with a score and an outcome."""
    rows = tally_rows(source, plan.rows)
    refuse_percent(rows.families[0].binary, plan.tolerance)
    return rows


def tally_marginal(source: Source, plan: MarginalPlan) -> Tally:
    """The rows from the threshold up, and the groups that have none."""
    rows = rows_above(source, plan.rows, plan.threshold)
    refuse_percent(rows.families[0].binary, plan.tolerance)
    return replace(rows, nobody=_nobody(source, plan.rows, plan.threshold))


def tally_rows(source: Source, plan: RowsPlan, axis: Axis | None = None) -> Tally:
    """Read the rows and add them up; many of them part by part, so that no more than a part is ever held.

    A part has all the rows of some users, so that the sums of parts add up; Spark's workers read them. The axis is that
    of the rows' own scores unless one is given.
    """
    if has_workers(source.frame):
        return _by_workers(source, plan, axis)
    rows = source.cells(plan.checks).rows if source.lazy else 0
    if rows <= HELD:
        return _read(source, plan, axis, None)
    axis = axis or axis_of(complete_rows(source, {SCORE: plan.score, OUTCOME: plan.outcome}))
    known = tuple(compared(partition)[0] for partition in source.cells(plan.checks).partitions)
    parts = split(source.frame, plan.person or plan.score, -(-rows // HELD))
    each = tracked(parts, "Part of the rows", len(parts), bar=False)
    tallies = [_read(source.derived(part), plan, axis, known) for part in each]
    families = tuple(
        replace(own[0], sums=reduce(add, (family.sums for family in own)), binary=all(f.binary for f in own))
        for own in zip(*(tally.families for tally in tallies), strict=True)
    )
    dropped = Counter[str]()
    for one in tallies:
        dropped.update(one.dropped)
    return Tally(families, sum(one.rows for one in tallies), dict(dropped))


def _by_workers(source: Source, plan: RowsPlan, axis: Axis | None) -> Tally:
    """The same where workers hold the rows, of which none leaves them."""
    checks = source.cells(plan.checks)
    userless = 0 if plan.user is None else round(float(checks.values[NO_USER].sum()))
    dropped = without_users(source, plan, userless, checks.dropped)
    if checks.rows == userless:
        raise EmptyFrame(NO_ROW_LEFT)
    numbers = {SCORE: plan.score, OUTCOME: plan.outcome} | ({} if source.count is None else {COUNTED: source.count})
    numbers |= {} if plan.each is None else {EACH: plan.each}
    labels = {} if plan.person is None else {USER: plan.person}
    people = complete_rows(source, numbers, labels, plan.grouping)
    axis = axis or axis_of(people)
    families = []
    for partition in checks.partitions:
        families.append((partition.titles or partition.dimensions, compared(partition)[0]))
        refuse_many(partition, families[-1][1])
    codes = [code_of(plan.grouping, groups).alias(f"{GROUP}{i}") for i, (_, groups) in enumerate(families)]
    rows = people.select(*numbers, *labels, nw.col(LINES).alias(VOTE), *codes)
    sizes = tuple(len(groups) for _, groups in families)
    work = partial(_part_entries, axis, sizes, by_user=plan.person is not None and plan.level == "user")
    place, value = summed_parts(rows, USER if labels else None, checks.rows, work)
    ends = np.searchsorted(place, _FAMILY * np.arange(len(sizes) + 1))
    sums = [
        Moments.from_entries(axis, size, place[a:b] - k * _FAMILY, value[a:b], users=bool(labels))
        for k, (size, a, b) in enumerate(zip(sizes, ends[:-1], ends[1:], strict=True))
    ]
    binary = not float(checks.values[NOT_BINARY].sum()) > 0
    tallied = tuple(Family(*family, own, binary) for family, own in zip(families, sums, strict=True))
    return Tally(tallied, checks.rows - userless, dropped)


def _part_entries(
    axis: Axis, sizes: tuple[int, ...], columns: Mapping[str, AnyArray], *, by_user: bool
) -> Iterator[tuple[IntArray, FloatArray]]:
    """The moments of every family of groups among some users' rows, family after family."""
    lines, vote = columns.get(COUNTED), columns[VOTE]
    user = None if USER not in columns else person_codes(columns[USER])[0]
    if by_user and user is not None:
        vote = vote / (columns[EACH] if EACH in columns else np.bincount(user, weights=lines)[user])
    for k, size in enumerate(sizes):
        rows = (columns[SCORE], columns[OUTCOME], vote, lines, user)
        sums = Moments.of(axis, columns[f"{GROUP}{k}"], size, *rows, products=True)
        yield from ((place + k * _FAMILY, value) for place, value in sums.entries())


def rows_above(source: Source, plan: RowsPlan, threshold: float) -> Tally:
    """The rows from the threshold up. Missing scores stay, so that they are reported as elsewhere.

    A user's vote is split over all of its rows that have a score, those below the threshold included; rows that are
    left out because something is missing are none.
    """
    column, unknown = nw.col(plan.score), missing(nw.col(plan.score), source.schema[plan.score])
    kept = (column >= threshold) | unknown
    axis = axis_of(complete_rows(source, {SCORE: plan.score}))  # of all rows, whatever else of a row is missing
    if plan.level == "user" and (user := plan.user) is not None:
        lost = unknown | ((column >= threshold) & missing(nw.col(plan.outcome), source.schema[plan.outcome]))
        if (weight := source.reading.weight) is not None:
            lost = lost | missing(nw.col(weight), source.schema[weight])
        if source.missing_group == "drop":
            lost = reduce(or_, (key.is_null() for key in plan.grouping.keys.values()), lost)
        each = source.fresh("rows of the user")
        number = nw.when(lost).then(nw.lit(0.0)).otherwise(source.number)
        source, plan = source.with_columns({each: number.sum().over(user)}), replace(plan, each=each)
    with from_threshold(plan, threshold):
        return tally_rows(source.filter(kept), plan, axis)


@contextmanager
def from_threshold(plan: RowsPlan, threshold: float) -> Iterator[None]:
    """Say of an error that it is about the rows from the threshold up."""
    try:
        yield
    except EmptyFrame:
        raise EmptyFrame(
            f"threshold: no row has a score of {threshold:g} or more; give one on the scale of {plan.score!r}."
        ) from None
    except OneGroup as error:
        raise OneGroup(f"{error} Only rows with a score of {threshold:g} or more are compared.") from None


def _nobody(source: Source, plan: RowsPlan, threshold: float) -> tuple[str, ...]:
    """Groups of which no row has a score from the threshold up."""
    # Rows below the threshold are not part of the test: a group that is missing there is no error.
    origin = Input(source.frame, source.backend, source.lazy)
    unknown = source.missing_group if source.missing_group == "level" else "drop"
    whole = Source(origin, Reading(missing="drop", missing_group=unknown))
    above = flag(nw.col(plan.score) >= threshold)
    cells = whole.cells(Request(grouping=plan.grouping, keys={"above": above}))
    counts = [partition.sum(cells.keys["above"] * cells.count) for partition in cells.partitions]
    return tuple(
        group.label
        for partition, sizes in zip(cells.partitions, counts, strict=True)
        for group, n in zip(partition.groups, sizes, strict=True)
        if n == 0
    )


def axis_of(frame: Lazy) -> Axis:
    """The axis of the scores of a table."""
    low, high = ends_at(frame, nw.lit(0), 1, nw.col(SCORE))
    if np.isnan(low[0]):
        return Axis.of(0.0, 1.0)  # no score at all: whoever reads the rows will say so
    whole = Axis.of(float(low[0]), float(high[0]))
    return whole.focused(lambda on: sums_at(frame, {"bin": (_bin(on), BINS)}, {"n": nw.col(LINES)})["n"])


def _bin(axis: Axis) -> nw.Expr:
    return position(nw.col(SCORE), axis.low, BINS / axis.length, BINS)


def without_users(source: Source, plan: RowsPlan, n: int, dropped: Mapping[str, int]) -> dict[str, int]:
    """The rows dropped, ``n`` of them more because they have no user."""
    if n and source.missing == "raise":
        raise MissingValues(
            f"user: column {plan.user!r} has {n:,} rows with no value. "
            'Fix them, or leave those rows out and have them counted, with missing="drop".'
        )
    column = str(plan.user)
    return {**dropped, **({column: dropped.get(column, 0) + n} if n else {})}


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """What each row that has a user counts: weights as they are, for parts of a table have one scale."""

    vote: FloatArray
    lines: FloatArray | None  # rows that each line stands for, where they are counted
    user: IntArray | None
    kept: BoolArray | slice  # the rows with a user
    dropped: Mapping[str, int]

    @classmethod
    def of(cls, source: Source, plan: RowsPlan, rows: Rows) -> Votes:
        """The votes of rows whose columns are a user, a weight and all rows of the user, where there are any."""
        user, known = (None, None) if plan.person is None else person_codes(rows.columns["user"])
        kept: BoolArray | slice = slice(None)
        lines, dropped = rows.count, dict(rows.dropped)
        if user is not None and known is not None:
            userless = round(float((~known).sum() if lines is None else lines[~known].sum()))
            dropped = without_users(source, plan, userless, dropped)
            user, kept = user[known], known
        lines = None if lines is None else lines[kept]
        vote = rows.columns.get("weight", np.ones(rows.size))[kept] * (1.0 if lines is None else lines)
        if user is not None and plan.level == "user":
            own = np.bincount(user, weights=lines)[user] if plan.each is None else rows.columns["each"][kept]
            vote = vote / own
        return cls(vote, lines, user, kept, dropped)

    @property
    def rows(self) -> int:
        """How many rows vote."""
        return self.vote.size if self.lines is None else round(float(self.lines.sum()))


def _read(source: Source, plan: RowsPlan, axis: Axis | None, known: Sequence[tuple[Group, ...]] | None) -> Tally:
    """The moments of a table (or of a part of one, whose groups are ``known``)."""
    keys = {} if plan.person is None else {"user": nw.col(plan.person)}
    weights = {} if source.reading.weight is None else {"weight": source.reading.weight}
    each = {} if plan.each is None else {"each": nw.col(plan.each)}
    numeric = {**plan.checks.numeric, **weights}
    rows = source.rows(Request(grouping=plan.grouping, numeric=numeric, keys=keys, values=each))
    votes = Votes.of(source, plan, rows)
    score, outcome = (rows.columns[name][votes.kept] for name in ("score", "outcome"))
    if not score.size and axis is None:
        raise EmptyFrame(NO_ROW_LEFT)
    vote, lines, user = votes.vote, votes.lines, votes.user
    if axis is None:
        axis = Axis.of(float(score.min()), float(score.max())).focused_on(score, lines)
    binary = bool(np.all(outcome * (1 - outcome) == 0))
    families = []
    for number, partition in enumerate(rows.partitions):
        groups, codes = compared(partition) if known is None else _among(known[number], partition)
        refuse_many(partition, groups)
        own = (score, outcome, vote, lines, user)
        sums = Moments.of(axis, codes[votes.kept], len(groups), *own, products=None if known is None else True)
        families.append(Family(partition.titles or partition.dimensions, groups, sums, binary))
    return Tally(tuple(families), votes.rows, votes.dropped)


def refuse_many(partition: Partition, groups: Sequence[Group]) -> None:
    """Refuse more groups than can be compared with one another."""
    if len(groups) > MOST_GROUPS:
        name = " & ".join(partition.dimensions)
        raise UsageError(
            f"groups: {name!r} has {len(groups):,} groups, and at most {MOST_GROUPS} can be compared with one "
            "another; join some, for a number with iso.cut."
        )


def _among(groups: tuple[Group, ...], partition: Partition) -> tuple[tuple[Group, ...], IntArray]:
    """The groups of a whole table, and the codes of a part of it among them."""
    places = np.array([groups.index(group) for group in partition.groups], dtype=np.intp)
    rest = len(groups) - 1 if groups[-1].items[0][0] == CONDITION else -1
    return groups, np.append(places, rest)[partition.codes]
