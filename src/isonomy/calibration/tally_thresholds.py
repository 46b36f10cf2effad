"""Who is selected at a threshold, and where the scores of all rows lie, with the outcomes that are known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import NO_USER, NOT_BINARY, ThresholdsPlan
from isonomy.calibration.smoothing.axis import Axis
from isonomy.calibration.smoothing.cells import PARTS, SUMS, Bins
from isonomy.calibration.smoothing.cells import Cells as BinnedRows
from isonomy.calibration.tally import (
    COUNTED,
    OUTCOME,
    SCORE,
    USER,
    VOTE,
    Tally,
    axis_of,
    from_threshold,
    rows_above,
    without_users,
)
from isonomy.errors import NotBinary, NotEnoughData, UsageError
from isonomy.frames import COUNT, Group, Request, Source, aggregate, missing
from isonomy.frames.adapt import Lazy
from isonomy.frames.checks import flag
from isonomy.frames.membership import GROUP, LINES, coded, compared, complete_rows
from isonomy.frames.products import count_persons, ends_at, sums_at
from isonomy.numerics.arrays import FloatArray

_KNOWN, _PART, _TOGETHER, _WEIGHT = "__k", "__p", "__t", "__v"


@dataclass(frozen=True, slots=True, eq=False)
class SelectionCounts:
    """Rows of each group, counted and not smoothed: all, and those selected. First axis: present, low, high."""

    rows: FloatArray  # (3, G)
    known: FloatArray  # with an outcome
    total: FloatArray  # of their outcomes
    lowest: FloatArray  # the lowest score from the upper threshold up (NaN: none)
    size: FloatArray  # (3, G): rows, rows with an outcome and the total of their outcomes, selected or not
    lines: FloatArray  # (G,): rows whatever they weigh

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

    def selected(self, present: float, low: FloatArray, high: FloatArray) -> SelectionCounts:
        """Count who is selected at the present threshold, and from two thresholds of each group up."""
        size, group, score = high.size, nw.col(GROUP), nw.col(SCORE)
        sums = {"rows": nw.col(LINES), "known": nw.col(_KNOWN), "total": nw.col(_KNOWN) * nw.col(OUTCOME)}
        limits = [np.full(size, present), low, high]
        conditions = [score >= _by_group(group, limit) for limit in limits]
        values = {
            f"{name} {k}": nw.when(above).then(value).otherwise(nw.lit(0.0))
            for k, above in enumerate(conditions)
            for name, value in sums.items()
        }
        counts = sums_at(self.people, {"group": (group, size)}, sums | values | {"lines": nw.col(COUNTED)})
        lowest, _ = ends_at(self.people.filter(conditions[2]), group, size, score)
        each = {name: np.stack([counts[f"{name} {k}"] for k in range(3)]) for name in sums}
        size_by = np.stack([counts[name] for name in sums])
        return SelectionCounts(**each, lowest=lowest, size=size_by, lines=counts["lines"])


def _by_group(group: nw.Expr, values: FloatArray) -> nw.Expr:
    """The value of each row's group."""
    expr: nw.Expr = nw.lit(float(values[-1]))
    for g in range(values.size - 1):
        expr = nw.when(group == g).then(nw.lit(float(values[g]))).otherwise(expr)
    return expr


def tally_thresholds(source: Source, plan: ThresholdsPlan) -> ThresholdsTally:
    """Where the scores of all rows lie, and the outcomes that the target needs."""
    rows, present = plan.rows, plan.threshold
    groups, dropped, binary, size = _checked(source, plan)
    margin = rows_above(source, rows, present) if plan.margin else None
    column = nw.col(rows.outcome)
    lost = missing(column, source.schema[rows.outcome])
    known, outcome = source.fresh("known"), source.fresh("outcome")
    table = source.with_columns(
        {known: 1.0 - flag(lost), outcome: nw.when(lost).then(nw.lit(0.0)).otherwise(column.cast(nw.Float64))}
    )
    counted = {} if source.count is None else {COUNTED: source.count}
    numbers = {SCORE: rows.score, _KNOWN: known, OUTCOME: outcome} | counted
    if (weight := source.reading.weight) is not None:
        numbers[_WEIGHT] = weight  # a row without one is left out
    labels = {} if rows.user is None else {USER: rows.user}
    together = source.cluster or rows.user  # rows that vary together
    if together is None and source.reading.weight is not None:
        table = table.numbered(together := source.fresh("row"))  # weighted rows, each by itself
    labels |= {} if together is None else {_TOGETHER: together}
    people = coded(complete_rows(table, numbers, labels, rows.grouping), rows.grouping, groups)
    people = people if counted else people.with_columns(nw.lit(1.0).alias(COUNTED))
    if source.reading.weight is not None:  # only the proportions of weights matter
        total = float(sums_at(people, {}, {"weight": nw.col(LINES)})["weight"])
        people = people.with_columns((nw.col(LINES) * (size / total)).alias(LINES))
    if not plan.margin:  # rows without the outcome have been reported; with missing="drop" they take no part
        people = people.filter(nw.col(_KNOWN) > 0)
    above = flag(nw.col(SCORE) >= present)
    read = nw.col(LINES) * nw.col(_KNOWN) * above
    by_user = rows.user is not None and rows.level == "user"
    if by_user:  # votes are those of `rows_above`
        own = (nw.col(COUNTED) * (1.0 - above * (1.0 - nw.col(_KNOWN)))).sum().over(USER)
        read = nw.when(read > 0).then(read / own).otherwise(nw.lit(0.0))
    people = people.with_columns((nw.col(LINES) * nw.col(_KNOWN)).alias(_KNOWN), read.alias(VOTE))
    axis = axis_of(people)
    bins = Bins.of(axis.low, axis.high, present)
    cells = _binned(people, bins, len(groups))
    if together is None:
        average = cells.vote.sum() / len(groups)
        return ThresholdsTally(groups, cells, None, margin, axis, average, binary, dropped, people)
    voting = people.filter(nw.col(VOTE) > 0)
    named = USER if rows.user is not None else _TOGETHER if source.cluster is not None else None
    users = cells.vote.sum() if named is None else count_persons(voting, named, GROUP, len(groups))[0].sum()
    everybody = aggregate(people, {_TOGETHER: nw.col(_TOGETHER)}, {})
    numbered = everybody.with_columns((nw.col(COUNT) * 0.0 + 1.0).cum_sum().over(order_by=_TOGETHER).alias(_PART))
    pieces = min(PARTS, round(float(sums_at(everybody, {}, {})[COUNT])))
    people_in_parts = people.join(numbered.select(_TOGETHER, nw.col(_PART) % pieces), on=_TOGETHER, how="inner")
    parts = _binned(people_in_parts, bins.joined, len(groups), pieces)
    if by_user and cells.vote.any():  # only proportions matter: in the unit of users with a row from the threshold up
        cells, parts = (one.rated(users / cells.vote.sum()) for one in (cells, parts))
    return ThresholdsTally(groups, cells, parts, margin, axis, users / len(groups), binary, dropped, people)


def _checked(source: Source, plan: ThresholdsPlan) -> tuple[tuple[Group, ...], Mapping[str, int], bool, int]:
    """The groups, the rows left out, whether every outcome is 0 or 1, and how many rows there are.

    Raises where the table cannot answer.
    """
    rows = plan.rows
    column = nw.col(rows.score)
    above = source.filter((column >= plan.threshold) | missing(column, source.schema[rows.score]))
    scores = source.cells(Request(grouping=rows.grouping, numeric={"score": rows.score}))
    with from_threshold(rows, plan.threshold):
        read = (above if plan.margin else source).cells(rows.checks)
        selected = read if plan.margin else above.cells(rows.checks)
        groups, _ = compared(read.partitions[0])
    if not plan.margin and plan.capacity is None and selected.rows == read.rows:
        if scores.rows > read.rows and plan.outcome is not None:
            raise UsageError(
                f"outcome: {rows.outcome!r} is known of nobody with a score below {plan.threshold:g}, and "
                f"target={plan.target!r} looks at them too; ask for target='outcome_at_margin', which needs the "
                "outcomes of the selected alone, or for target='selection_rate' without an outcome."
            )
        raise UsageError(
            f"threshold: every score is {plan.threshold:g} or more, so that everybody is selected; give one among the "
            f"scores of {rows.score!r}, or a capacity."
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
    userless = 0 if rows.user is None else round(float(read.values[NO_USER].sum()))
    whole = scores if plan.margin else read
    return groups, without_users(source, rows, userless, whole.dropped), binary, whole.rows


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
