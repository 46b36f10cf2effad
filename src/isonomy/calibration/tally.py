"""Rows in: the scores, outcomes, groups and users of a table become votes at sites of the score axis.

Tables of many rows are read in parts that have all the rows of their users: sums and products of parts add up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import (
    NO_USER,
    NOT_BINARY,
    CompositePlan,
    MarginalPlan,
    MetricsPlan,
    Plan,
    RowsPlan,
    ThresholdsPlan,
)
from isonomy.calibration.smoothing import ranks
from isonomy.calibration.smoothing.axis import BINS, Axis
from isonomy.calibration.smoothing.cells import PARTS, SUMS, Bins
from isonomy.calibration.smoothing.cells import Cells as BinnedRows
from isonomy.calibration.smoothing.moments import Moments
from isonomy.errors import EmptyFrame, MissingValues, NotBinary, NotEnoughData, OneGroup, UsageError, refuse_percent
from isonomy.frames import COUNT, Group, Reading, Request, Source, aggregate, missing
from isonomy.frames.adapt import Adapted, Lazy
from isonomy.frames.checks import flag
from isonomy.frames.groups import CONDITION, Partition
from isonomy.frames.membership import GROUP, LINES, code_of, coded, compared, complete_rows, person_codes
from isonomy.frames.products import count_persons, ends_at, position, split, sums_at
from isonomy.frames.workers import has_workers, summed_parts
from isonomy.numerics.arrays import AnyArray, FloatArray, IntArray
from isonomy.results.progress import tracked

HELD = 2**24  # rows of a query or file that are read at once; more are read in parts
MOST_GROUPS = 100
NO_ROW_LEFT = "data: no rows are left; the user of every row is missing."
MANY = 2**20  # rows on which composite scores are compared
SCORE, OUTCOME, VOTE, USER, COUNTED = "__s", "__y", "__w", "__u", "__n"
_KNOWN, _PART, _TOGETHER = "__k", "__p", "__t"
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


@dataclass(frozen=True, slots=True, eq=False)
class CompositeTally:
    """The families of groups of a call, each under every composite score."""

    families: tuple[tuple[Family, ...], ...]
    rows: int
    dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Rows of each group, counted and not smoothed: all, and those selected. First axis: present, low, high."""

    rows: FloatArray  # (3, G)
    known: FloatArray  # with an outcome
    total: FloatArray  # of their outcomes
    lowest: FloatArray  # the lowest score from the upper threshold up (NaN: none)
    size: FloatArray  # (3, G): rows, rows with an outcome and the total of their outcomes, selected or not

    def mixed(self, probability: FloatArray) -> FloatArray:
        """Rows, known and total (first axis) that are selected after a lottery between the two thresholds."""
        each = np.stack([self.rows, self.known, self.total])
        return np.asarray(probability * each[:, 1] + (1 - probability) * each[:, 2])

    @property
    def before(self) -> FloatArray:
        """Rows, known and total (first axis) that are selected at the present threshold."""
        return np.stack([self.rows, self.known, self.total])[:, 0]


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsTally:
    """The scores of everybody by group, with the outcomes that are known."""

    groups: tuple[Group, ...]
    cells: BinnedRows
    parts: BinnedRows | None  # of independent parts of the table, where people may have several rows
    margin: Tally | None  # the rows from the present threshold up, for outcomes at the margin
    axis: Axis
    average: float  # users (or rows) of the average group whose outcomes at the margin are read
    binary: bool
    dropped: Mapping[str, int]
    people: Lazy

    def selected(self, present: float, low: FloatArray, high: FloatArray) -> Selected:
        """Count who is selected at the present threshold, and from two thresholds of each group up."""
        size, group, score = high.size, nw.col(GROUP), nw.col(SCORE)
        sums = {"rows": nw.col(LINES), "known": nw.col(_KNOWN), "total": nw.col(_KNOWN) * nw.col(OUTCOME)}
        limits = [np.full(size, present), low, high]
        passed = [score >= _by_group(group, limit) for limit in limits]
        values = {
            f"{name} {k}": nw.when(above).then(value).otherwise(nw.lit(0.0))
            for k, above in enumerate(passed)
            for name, value in sums.items()
        }
        counts = sums_at(self.people, {"group": (group, size)}, sums | values)
        lowest, _ = ends_at(self.people.filter(passed[2]), group, size, score)
        each = {name: np.stack([counts[f"{name} {k}"] for k in range(3)]) for name in sums}
        return Selected(**each, lowest=lowest, size=np.stack([counts[name] for name in sums]))


def _by_group(group: nw.Expr, values: FloatArray) -> nw.Expr:
    """The value of each row's group."""
    expr: nw.Expr = nw.lit(float(values[-1]))
    for g in range(values.size - 1):
        expr = nw.when(group == g).then(nw.lit(float(values[g]))).otherwise(expr)
    return expr


def tally(source: Source, plan: Plan) -> Tally:
    """All rows with a score and an outcome."""
    rows = tally_rows(source, plan.rows)
    refuse_percent(rows.families[0].binary, plan.tolerance)
    return rows


def tally_composite(source: Source, plan: CompositePlan) -> CompositeTally:
    """The moments of each composite score, of rows with all scores and outcomes."""
    numbers = {f"scores[{k}]": name for k, name in enumerate(plan.scores)}
    numbers |= {f"outcomes[{k}]": name for k, name in enumerate(plan.outcomes)}
    weights = {} if source.reading.weight is None else {"weight": source.reading.weight}
    keys = {} if plan.rows.person is None else {"user": nw.col(plan.rows.person)}
    rows = source.rows(Request(grouping=plan.rows.grouping, numeric={**numbers, **weights}, keys=keys))
    if rows.size > MANY:
        raise UsageError(f"data: {rows.size:,} rows; composite scores are compared on up to {MANY:,}: take some users.")
    user, kept = (np.arange(rows.size), None) if not keys else person_codes(rows.columns["user"])
    lines, dropped = rows.count, dict(rows.dropped)
    vote = rows.columns.get("weight", np.ones(rows.size)) * (1.0 if lines is None else lines)
    if kept is not None:
        dropped = _missing_users(source, plan.rows, int((~kept).sum()), dropped)
        vote = np.where(kept, vote, 0.0)
    if plan.rows.level == "user":
        vote = vote / np.bincount(user, weights=lines)[user]
    score, outcome = (
        np.column_stack([rows.columns[f"{name}[{k}]"] for k in range(len(plan.scores))])
        for name in ("scores", "outcomes")
    )
    families = []
    for partition in rows.partitions:
        groups, codes = compared(partition)
        _refuse_many(partition, groups)
        codes = codes if kept is None else np.where(kept, codes, -1)
        own = []
        for weight in plan.weights:
            s, y = score @ weight, outcome @ weight
            axis = Axis.of(float(s.min()), float(s.max())).focused(partial(_counted, s, lines))
            sums = Moments.of(axis, codes, len(groups), s, y, vote, lines, user, products=False)
            own.append(Family(partition.dimensions, groups, sums, binary=False))
        families.append(tuple(own))
    return CompositeTally(tuple(families), rows.rows, dropped)


def _counted(score: FloatArray, lines: FloatArray | None, axis: Axis) -> FloatArray:
    return axis.histogram(score, lines)


def tally_marginal(source: Source, plan: MarginalPlan) -> Tally:
    """The rows from the threshold up, and the groups that have none."""
    rows = _above(source, plan.rows, plan.threshold)
    refuse_percent(rows.families[0].binary, plan.tolerance)
    return replace(rows, nobody=_nobody(source, plan.rows, plan.threshold))


def tally_thresholds(source: Source, plan: ThresholdsPlan) -> ThresholdsTally:
    """Where the scores of all rows lie, and the outcomes that the target needs."""
    rows, present = plan.rows, plan.threshold
    groups, dropped, binary, size = _checked(source, plan)
    margin = _above(source, rows, present) if plan.margin else None
    column = nw.col(rows.outcome)
    lost = missing(column, source.schema[rows.outcome])
    known, outcome = source.fresh("known"), source.fresh("outcome")
    told = source.with_columns(
        {known: 1.0 - flag(lost), outcome: nw.when(lost).then(nw.lit(0.0)).otherwise(column.cast(nw.Float64))}
    )
    numbers = {SCORE: rows.score, _KNOWN: known, OUTCOME: outcome}
    labels = {} if rows.user is None else {USER: rows.user}
    together = source.cluster or rows.user  # rows that vary together
    if together is None and source.reading.weight is not None:
        told = told.numbered(together := source.fresh("row"))  # weighted rows, each by itself
    labels |= {} if together is None else {_TOGETHER: together}
    people = coded(complete_rows(told, numbers, labels, rows.grouping), rows.grouping, groups)
    if source.reading.weight is not None:  # only the proportions of weights matter
        weight = float(sums_at(people, {}, {"weight": nw.col(LINES)})["weight"])
        people = people.with_columns((nw.col(LINES) * (size / weight)).alias(LINES))
    if not plan.margin:  # rows without the outcome have been reported; with missing="drop" they take no part
        people = people.filter(nw.col(_KNOWN) > 0)
    read = nw.col(LINES) * nw.col(_KNOWN) * flag(nw.col(SCORE) >= present)
    people = people.with_columns((nw.col(LINES) * nw.col(_KNOWN)).alias(_KNOWN), read.alias(VOTE))
    if rows.user is not None and rows.level == "user":
        own = nw.col(VOTE).sum().over(USER)
        people = people.with_columns(nw.when(own > 0).then(nw.col(VOTE) / own).otherwise(nw.lit(0.0)).alias(VOTE))
    axis = _axis(people)
    bins = Bins.of(axis.low, axis.high, present)
    cells = _binned(people, bins, len(groups))
    if together is None:
        return ThresholdsTally(
            groups, cells, None, margin, axis, cells.vote.sum() / len(groups), binary, dropped, people
        )
    voting = people.filter(nw.col(VOTE) > 0)
    named = USER if rows.user is not None else _TOGETHER if source.cluster is not None else None
    users = cells.vote.sum() if named is None else count_persons(voting, named, GROUP, len(groups))[0].sum()
    everybody = aggregate(people, {_TOGETHER: nw.col(_TOGETHER)}, {})
    numbered = everybody.with_columns((nw.col(COUNT) * 0.0 + 1.0).cum_sum().over(order_by=_TOGETHER).alias(_PART))
    pieces = min(PARTS, round(float(sums_at(everybody, {}, {})[COUNT])))
    dealt = people.join(numbered.select(_TOGETHER, nw.col(_PART) % pieces), on=_TOGETHER, how="inner")
    parts = _binned(dealt, bins.joined, len(groups), pieces)
    return ThresholdsTally(groups, cells, parts, margin, axis, users / len(groups), binary, dropped, people)


def _checked(source: Source, plan: ThresholdsPlan) -> tuple[tuple[Group, ...], Mapping[str, int], bool, int]:
    """The groups, the rows left out, whether every outcome is 0 or 1, and how many rows there are.

    Raises where the table cannot answer.
    """
    rows, at = plan.rows, f"{plan.threshold:g}"
    column = nw.col(rows.score)
    above = source.filter((column >= plan.threshold) | missing(column, source.schema[rows.score]))
    scores = source.cells(Request(grouping=rows.grouping, numeric={"score": rows.score}))
    try:
        read = (above if plan.margin else source).cells(rows.checks)
        selected = read if plan.margin else above.cells(rows.checks)
        groups, _ = compared(read.partitions[0])
    except EmptyFrame:
        raise EmptyFrame(
            f"threshold: no row has a score of {at} or more; give one on the scale of {rows.score!r}."
        ) from None
    except OneGroup as error:
        raise OneGroup(f"{error} Only rows with a score of {at} or more are compared.") from None
    if not plan.margin and plan.capacity is None and selected.rows == read.rows:
        raise UsageError(
            f"threshold: every score is {at} or more, so that everybody is selected; give one among the scores of "
            f"{rows.score!r}, or a capacity."
        )
    for group in scores.partitions[0].groups:
        if group not in groups:
            raise NotEnoughData(
                f"groups: {group.label} has no row from the threshold up; its margin cannot be estimated.",
                "groups: one has no row from the threshold up; its margin cannot be estimated.",
            )
    binary = not float(read.values[NOT_BINARY].sum()) > 0
    if not binary and plan.target not in ("outcome_at_margin", "selection_rate"):
        raise NotBinary(
            f"outcome: column {rows.outcome!r} has values that are neither 0 nor 1, and target={plan.target!r} counts "
            "positives. Recode the column."
        )
    gone = 0 if rows.user is None else round(float(read.values[NO_USER].sum()))
    whole = scores if plan.margin else read
    return groups, _missing_users(source, rows, gone, whole.dropped), binary, whole.rows


def _binned(people: Lazy, bins: Bins, groups: int, parts: int | None = None) -> BinnedRows:
    """The rows of each group in each bin, of each part of the table if there are ``parts``."""
    # From the present threshold, so that a score that equals it is not below it by some rounding.
    place = ((nw.col(SCORE) - bins.present) * (1.0 / bins.step)).floor() + bins.before
    keys = {} if parts is None else {"part": (nw.col(_PART), parts)}
    keys |= {"group": (nw.col(GROUP), groups), "bin": (place.clip(0, bins.size - 1), bins.size)}
    y, known = nw.col(OUTCOME), nw.col(_KNOWN)
    values = {"rows": nw.col(LINES), "known": known, "total": known * y, "square": known * y * y}
    values |= {"vote": nw.col(VOTE), "voted": nw.col(VOTE) * y}
    sums = sums_at(people, keys, values)
    return BinnedRows(bins, *(sums[name] for name in SUMS))


def tally_metrics(source: Source, plan: MetricsPlan) -> dict[str, Tally]:
    """All rows, once for each score."""
    tallies = {name: tally_rows(source, rows) for name, rows in plan.scores.items()}
    families = {name: tally.families[0] for name, tally in tallies.items()}
    return {
        name: replace(tally, ranks=_ranked(source, plan.scores[name], families[name].groups, families[name].axis))
        for name, tally in tallies.items()
    }


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
    axis = axis or _axis(complete_rows(source, {SCORE: plan.score, OUTCOME: plan.outcome}))
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
    gone = 0 if plan.user is None else round(float(checks.values[NO_USER].sum()))
    dropped = _missing_users(source, plan, gone, checks.dropped)
    if checks.rows == gone:
        raise EmptyFrame(NO_ROW_LEFT)
    numbers = {SCORE: plan.score, OUTCOME: plan.outcome} | ({} if source.count is None else {COUNTED: source.count})
    labels = {} if plan.person is None else {USER: plan.person}
    people = complete_rows(source, numbers, labels, plan.grouping)
    axis = axis or _axis(people)
    families = []
    for partition in checks.partitions:
        families.append((partition.dimensions, compared(partition)[0]))
        _refuse_many(partition, families[-1][1])
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
    return Tally(tallied, checks.rows - gone, dropped)


def _part_entries(
    axis: Axis, sizes: tuple[int, ...], columns: Mapping[str, AnyArray], *, by_user: bool
) -> Iterator[tuple[IntArray, FloatArray]]:
    """The moments of every family of groups among some users' rows, family after family."""
    lines, vote = columns.get(COUNTED), columns[VOTE]
    user = None if USER not in columns else person_codes(columns[USER])[0]
    if by_user and user is not None:
        vote = vote / np.bincount(user, weights=lines)[user]
    for k, size in enumerate(sizes):
        rows = (columns[SCORE], columns[OUTCOME], vote, lines, user)
        sums = Moments.of(axis, columns[f"{GROUP}{k}"], size, *rows, products=True)
        yield from ((place + k * _FAMILY, value) for place, value in sums.entries())


def _above(source: Source, plan: RowsPlan, threshold: float) -> Tally:
    """The rows from the threshold up. Missing scores stay, so that they are reported as elsewhere."""
    column = nw.col(plan.score)
    kept = (column >= threshold) | missing(column, source.schema[plan.score])
    axis = _axis(complete_rows(source, {SCORE: plan.score}))  # of all rows, whatever else of a row is missing
    try:
        return tally_rows(source.filter(kept), plan, axis)
    except EmptyFrame:
        raise EmptyFrame(
            f"threshold: no row has a score of {threshold:g} or more; give one on the scale of {plan.score!r}."
        ) from None
    except OneGroup as error:
        raise OneGroup(f"{error} Only rows with a score of {threshold:g} or more are compared.") from None


def _nobody(source: Source, plan: RowsPlan, threshold: float) -> tuple[str, ...]:
    """Groups of which no row has a score from the threshold up."""
    # Rows below the threshold are not part of the test: a group that is missing there is no error.
    adapted = Adapted(source.frame, source.backend, source.lazy)
    unknown = source.missing_group if source.missing_group == "level" else "drop"
    whole = Source(adapted, Reading(missing="drop", missing_group=unknown))
    above = flag(nw.col(plan.score) >= threshold)
    cells = whole.cells(Request(grouping=plan.grouping, keys={"above": above}))
    counts = [partition.sum(cells.keys["above"] * cells.count) for partition in cells.partitions]
    return tuple(
        group.label
        for partition, sizes in zip(cells.partitions, counts, strict=True)
        for group, n in zip(partition.groups, sizes, strict=True)
        if n == 0
    )


def _axis(frame: Lazy) -> Axis:
    low, high = ends_at(frame, nw.lit(0), 1, nw.col(SCORE))
    if np.isnan(low[0]):
        return Axis.of(0.0, 1.0)  # no score at all: whoever reads the rows will say so
    whole = Axis.of(float(low[0]), float(high[0]))
    return whole.focused(lambda on: sums_at(frame, {"bin": (_bin(on), BINS)}, {"n": nw.col(LINES)})["n"])


def _bin(axis: Axis) -> nw.Expr:
    return position(nw.col(SCORE), axis.low, BINS / axis.length, BINS)


def _missing_users(source: Source, plan: RowsPlan, n: int, dropped: Mapping[str, int]) -> dict[str, int]:
    """The rows dropped, ``n`` of them more because they have no user."""
    if n and source.missing == "raise":
        raise MissingValues(
            f"user: column {plan.user!r} has {n:,} rows with no value. "
            'Fix them, or pass missing="drop" to leave those rows out and have them counted.'
        )
    column = str(plan.user)
    return {**dropped, **({column: dropped.get(column, 0) + n} if n else {})}


def _read(source: Source, plan: RowsPlan, axis: Axis | None, known: Sequence[tuple[Group, ...]] | None) -> Tally:
    """The moments of a table (or of a part of one, whose groups are ``known``)."""
    keys = {} if plan.person is None else {"user": nw.col(plan.person)}
    weights = {} if source.reading.weight is None else {"weight": source.reading.weight}
    rows = source.rows(Request(grouping=plan.grouping, numeric={**plan.checks.numeric, **weights}, keys=keys))
    columns = {name: rows.columns[name] for name in ("score", "outcome", *weights)}
    columns |= {} if rows.count is None else {"lines": rows.count}
    dropped, kept, user = dict(rows.dropped), None, None
    if plan.person is not None:
        user, kept = person_codes(rows.columns["user"])
        if kept is not None:
            gone = round(float((~kept).sum() if rows.count is None else rows.count[~kept].sum()))
            dropped = _missing_users(source, plan, gone, dropped)
            columns, user = {name: values[kept] for name, values in columns.items()}, user[kept]
    score, outcome, lines = columns["score"], columns["outcome"], columns.get("lines")
    if not score.size and axis is None:
        raise EmptyFrame(NO_ROW_LEFT)
    # Weights as they are: parts of a table have one scale, and no number depends on it.
    vote = columns.get("weight", np.ones(score.size)) * (1.0 if lines is None else lines)
    if user is not None and plan.level == "user":
        vote = vote / np.bincount(user, weights=lines)[user]
    if axis is None:
        axis = Axis.of(float(score.min()), float(score.max())).focused(lambda on: on.histogram(score, lines))
    binary = bool(np.all(outcome * (1 - outcome) == 0))
    families = []
    for number, partition in enumerate(rows.partitions):
        groups, codes = compared(partition) if known is None else _among(known[number], partition)
        _refuse_many(partition, groups)
        codes = codes if kept is None else codes[kept]
        own = (score, outcome, vote, lines, user)
        sums = Moments.of(axis, codes, len(groups), *own, products=None if known is None else True)
        families.append(Family(partition.dimensions, groups, sums, binary))
    return Tally(tuple(families), score.size if lines is None else round(float(lines.sum())), dropped)


def _refuse_many(partition: Partition, groups: Sequence[Group]) -> None:
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


def _ranked(source: Source, plan: RowsPlan, groups: tuple[Group, ...], axis: Axis) -> FloatArray:
    """ECE and AUC of everybody, then of each group: sums by score are ranked, and summed again."""
    labels = {} if plan.user is None else {USER: plan.user}
    counted = {} if source.count is None else {COUNTED: source.count}
    numbers = {SCORE: plan.score, OUTCOME: plan.outcome, **counted}
    frame = complete_rows(source, numbers, labels, plan.grouping)
    frame = frame if counted else frame.with_columns(nw.lit(1.0).alias(COUNTED))
    vote = nw.col(LINES) / nw.col(COUNTED).sum().over(USER) if plan.level == "user" else nw.col(LINES)
    frame = coded(frame.with_columns(vote.alias(VOTE)), plan.grouping, groups)
    weight, total, score = nw.col("weight"), nw.col("total"), nw.col("score")
    lines = []
    for rows, size in ((frame.with_columns(nw.lit(0).alias(GROUP)), 1), (frame, len(groups))):
        keys = {"group": nw.col(GROUP), "score": nw.col(SCORE)}
        by_score = aggregate(rows, keys, {"weight": nw.col(VOTE), "total": nw.col(VOTE) * nw.col(OUTCOME)})
        ranked = by_score.with_columns((weight - total).alias("negative")).with_columns(
            weight.cum_sum().over("group", order_by="score").alias("reached"),
            nw.col("negative").cum_sum().over("group", order_by="score").alias("passed"),
            weight.sum().over("group").alias("all"),
        )
        place = score if axis.unit else (nw.col("reached") - weight) / nw.col("all")
        bins = (place * ranks.BINS + (0.0 if axis.unit else ranks.ROUNDING)).floor().clip(0, ranks.BINS - 1)
        pairs = total * (nw.col("passed") - nw.col("negative") / 2)
        values = {"weight": weight, "total": total, "gap": total - weight * score, "pairs": pairs}
        sums = sums_at(ranked, {"group": (nw.col("group"), size), "bin": (bins, ranks.BINS)}, values)
        for g in range(size):
            votes, positive, above = (float(sums[name][g].sum()) for name in ("weight", "total", "pairs"))
            lines.append(ranks.ece_and_auc(sums["gap"][g], votes, positive, above))
    return np.array(lines)
