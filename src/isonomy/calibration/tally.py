"""Rows in: the scores, outcomes, groups and users of a table, ready to be summed in memory or by their engine.

Both kinds of rows answer the same requests (`KernelSums`), so that nothing after this file knows where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import narwhals as nw
import numpy as np

from isonomy.calibration.plan import NO_USER, NOT_BINARY, MarginalPlan, MetricsPlan, Plan, RowsPlan, ThresholdsPlan
from isonomy.calibration.smoothing import ranks
from isonomy.calibration.smoothing.axis import BINS, Axis
from isonomy.calibration.smoothing.kernels import KERNELS, Kernel
from isonomy.calibration.smoothing.memory import Memory
from isonomy.calibration.smoothing.sums import Fit, KernelSums, Marks, Products, Smoother, Totals
from isonomy.errors import EmptyFrame, MissingValues, NotEnoughData, OneGroup, refuse_percent
from isonomy.frames import COUNT, Group, Request, Source, aggregate, missing
from isonomy.frames.adapt import Adapted, Lazy
from isonomy.frames.checks import flag
from isonomy.frames.membership import GROUP, LINES, coded, compared, complete_rows, in_key_order, person_codes
from isonomy.frames.products import (
    count_persons,
    cross_gram,
    ends_at,
    gram,
    gram_by_cell,
    position,
    sums_at,
    with_table,
)
from isonomy.numerics.arrays import FloatArray, IntArray

HELD = 2**24  # rows of a polars query (or file) that are read into memory, where sums are several times as fast
FINE = 2**14  # bins of the score axis behind the share of each group above a threshold
SCORE, OUTCOME, VOTE, USER = "__s", "__y", "__w", "__u"
_MARK, _DENOMINATOR = "__m", "__q"


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """Disjoint groups to be compared with one another, and the sums over their rows."""

    dimensions: tuple[str, ...]
    groups: tuple[Group, ...]
    size: FloatArray  # rows of each group
    users: FloatArray  # users of each group; its rows, when there are no users
    spanning: int  # users who appear in more than one group
    sums: KernelSums
    axis: Axis
    binary: bool  # whether every outcome is 0 or 1

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


@dataclass(frozen=True, slots=True, eq=False)
class Selected:
    """Rows of each group and how many are positive, counted and not smoothed."""

    rows: FloatArray
    before: FloatArray  # at the present threshold
    after: FloatArray  # at the new thresholds
    lowest: FloatArray  # the lowest score that is positive at the new ones (NaN: none)

    @property
    def rates(self) -> tuple[FloatArray, FloatArray]:
        """The share of each group that is positive, before and after."""
        return self.before / self.rows, self.after / self.rows

    @property
    def overall(self) -> tuple[float, float]:
        """The share of all that is positive, before and after."""
        return float(self.before.sum() / self.rows.sum()), float(self.after.sum() / self.rows.sum())


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsTally:
    """Outcomes from the present threshold up, and the scores of everybody, whether their outcome is known or not."""

    family: Family
    edges: FloatArray  # of fine bins of the score
    counts: FloatArray  # rows of each group in each bin
    dropped: Mapping[str, int]
    scores: Lazy

    def selected(self, thresholds: FloatArray, present: float) -> Selected:
        """Count who is positive at new thresholds, one per group."""
        size, group, score = thresholds.size, nw.col(GROUP), nw.col(SCORE)
        limit: nw.Expr = nw.lit(float(thresholds[-1]))
        for g in range(size - 1):
            limit = nw.when(group == g).then(nw.lit(float(thresholds[g]))).otherwise(limit)
        values = {
            "rows": nw.col(LINES),
            "before": nw.when(score >= present).then(nw.col(LINES)).otherwise(nw.lit(0.0)),
            "after": nw.when(score >= limit).then(nw.col(LINES)).otherwise(nw.lit(0.0)),
        }
        counts = sums_at(self.scores, {"group": (group, size)}, values)
        lowest, _ = ends_at(self.scores.filter(score >= limit), group, size, score)
        return Selected(counts["rows"], counts["before"], counts["after"], lowest)


def tally(source: Source, plan: Plan) -> Tally:
    """All rows with a score and an outcome."""
    rows = tally_rows(source, plan.rows)
    refuse_percent(rows.families[0].binary, plan.tolerance)
    return rows


def tally_marginal(source: Source, plan: MarginalPlan) -> Tally:
    """The rows from the threshold up, and the groups that have none."""
    rows = _above(source, plan.rows, plan.threshold)
    refuse_percent(rows.families[0].binary, plan.tolerance)
    return replace(rows, nobody=_nobody(source, plan.rows, plan.threshold))


def tally_thresholds(source: Source, plan: ThresholdsPlan) -> ThresholdsTally:
    """The rows from the threshold up, and where the scores of all rows lie."""
    family = _above(source, plan.rows, plan.threshold).families[0]
    axis, grouping, score = family.axis, plan.rows.grouping, plan.rows.score
    # Missing scores are left out by the pass itself; until then they need a bin (Spark has no floor of infinity).
    lost = missing(nw.col(score), source.schema[score])
    known = nw.when(lost).then(nw.lit(axis.low)).otherwise(nw.col(score).cast(nw.Float64))
    bins = position(known, axis.low, FINE / axis.length, FINE)
    cells = source.cells(Request(grouping=grouping, numeric={"score": score}, keys={"bin": bins}))
    partition = cells.partitions[0]
    for group in partition.groups:
        if group not in family.groups:
            raise NotEnoughData(
                f"groups: {group.label} has no row from the threshold up; its margin cannot be estimated."
            )
    place = [family.groups.index(group) for group in partition.groups]
    rest = np.append(np.array(place, dtype=np.intp), len(family.groups) - 1)  # -1: everybody else
    counts = np.zeros((len(family.groups), FINE))
    np.add.at(counts, (rest[partition.codes], cells.keys["bin"].astype(np.intp)), cells.count)
    edges = axis.low + axis.length * np.arange(FINE + 1) / FINE
    everyone = complete_rows(source, {SCORE: score}, grouping=grouping)
    return ThresholdsTally(family, edges, counts, cells.dropped, coded(everyone, grouping, family.groups))


def tally_metrics(source: Source, plan: MetricsPlan) -> dict[str, Tally]:
    """All rows, once for each score."""
    return {name: tally_rows(source, rows) for name, rows in plan.scores.items()}


def tally_rows(source: Source, plan: RowsPlan, axis: Axis | None = None) -> Tally:
    """Read the rows of a table in memory (or one that this process reads anyway), or prepare the sums of an engine.

    The axis is that of the rows' own scores unless one is given.
    """
    held = not source.lazy or (source.frame.implementation.is_polars() and source.cells(plan.checks).rows <= HELD)
    return _from_memory(source, plan, axis) if held else _from_engine(source, plan, axis)


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
    whole = Source(adapted, count=None, missing="drop", missing_group=unknown)
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


def _from_memory(source: Source, plan: RowsPlan, axis: Axis | None) -> Tally:
    keys = {} if plan.user is None else {"user": nw.col(plan.user)}
    rows = source.rows(Request(grouping=plan.grouping, numeric=plan.checks.numeric, keys=keys))
    columns = {"score": rows.columns["score"], "outcome": rows.columns["outcome"]}
    columns |= {} if rows.weight is None else {"lines": rows.weight}
    user, known = (None, None) if plan.user is None else person_codes(rows.columns["user"])
    dropped = dict(rows.dropped)
    if known is not None and user is not None:
        gone = round(float((~known).sum() if rows.weight is None else rows.weight[~known].sum()))
        dropped = _missing_users(source, plan, gone, dropped)
        columns, user = {name: values[known] for name, values in columns.items()}, user[known]
    score, outcome, lines = columns["score"], columns["outcome"], columns.get("lines")
    each = np.bincount(user, weights=lines).astype(np.float64) if user is not None and plan.level == "user" else None
    most = None if user is None else int(user.max()) + 1
    if axis is None:
        axis = Axis.of(float(score.min()), float(score.max())).focused(lambda on: on.histogram(score, lines))
    binary = bool(np.all(outcome * (1 - outcome) == 0))
    families = []
    for partition in rows.partitions:
        groups, codes = compared(partition)
        codes = codes if known is None else codes[known]
        part = in_key_order(codes if user is None or most is None else codes * most + user, columns)
        sums = Memory.of(part, len(groups), most, each, axis, binary)
        own = (partition.dimensions, groups, sums.rows, sums.users, sums.shared.size)
        families.append(Family(*own, sums, axis, binary))
    return Tally(tuple(families), score.size if lines is None else round(float(lines.sum())), dropped)


def _from_engine(source: Source, plan: RowsPlan, axis: Axis | None) -> Tally:
    cells = source.cells(plan.checks)
    gone = 0 if plan.user is None else round(float(cells.values[NO_USER].sum()))
    dropped = _missing_users(source, plan, gone, cells.dropped)
    labels = {} if plan.user is None else {USER: plan.user}
    frame = complete_rows(source, {SCORE: plan.score, OUTCOME: plan.outcome}, labels, plan.grouping)
    vote = nw.col(LINES) / nw.col(LINES).sum().over(USER) if plan.level == "user" else nw.col(LINES)
    frame = frame.with_columns(vote.alias(VOTE))
    axis = _axis(frame) if axis is None else axis
    binary = not float(cells.values[NOT_BINARY].sum()) > 0
    families = []
    for partition in cells.partitions:
        groups, codes = compared(partition)
        rows = coded(frame, plan.grouping, groups)
        held = codes >= 0
        size = np.bincount(codes[held], cells.count[held], len(groups)).astype(np.float64)
        users, spanning = (size, 0) if plan.user is None else count_persons(rows, USER, GROUP, len(groups))
        sums = Engine(rows, len(groups), plan.user is not None, spanning > 0, axis)
        families.append(Family(partition.dimensions, groups, size, users, spanning, sums, axis, binary))
    return Tally(tuple(families), cells.rows, dropped)


@dataclass(frozen=True, slots=True, eq=False)
class Engine:
    """Kernel sums over rows that stay in their engine: added up by user, then by group, in nested grouped sums.

    The frame has the columns named above; groups are coded 0 upwards. ``clustered``: it has users.
    """

    frame: Lazy
    size: int
    clustered: bool
    spanning: bool  # whether a user appears in several groups
    axis: Axis

    def pair(self, first: int, second: int) -> Engine:
        """The rows of two groups, as groups 0 and 1."""
        if self.size == 2 and (first, second) == (0, 1):
            return self
        group = nw.col(GROUP)
        kept = self.frame.filter((group == first) | (group == second))
        code = nw.when(group == first).then(nw.lit(0)).otherwise(nw.lit(1))
        return replace(self, frame=kept.with_columns(code.alias(GROUP)), size=2)

    def histogram(self) -> tuple[FloatArray, FloatArray]:
        """Votes, and votes times outcomes, by group and bin of the axis."""
        keys = {"group": (nw.col(GROUP), self.size), "bin": (_bin(self.axis), BINS)}
        sums = sums_at(self.frame, keys, {"weight": nw.col(VOTE), "total": nw.col(VOTE) * nw.col(OUTCOME)})
        return sums["weight"], sums["total"]

    def totals(self, smoother: Smoother) -> Totals:
        """First pass; see `sums`."""
        d, points = smoother.degree, range(smoother.points.size)
        values: dict[str, nw.Expr] = {}
        for j in points:
            term, u = nw.col(f"k{j}"), _scaled(smoother, j)
            values[f"m{j}"] = term * nw.col(_MARK if smoother.marks else OUTCOME)
            values[f"q{j}"] = term * nw.col(_DENOMINATOR) if smoother.shared else term
            for power in range(2 * d + 1):
                values[f"p{power}_{j}"] = term
                if power <= d:
                    values[f"y{power}_{j}"] = term * nw.col(OUTCOME)
                term = term * u
        sums = sums_at(self._weighted(smoother), {"group": (nw.col(GROUP), self.size)}, values)

        def table(prefix: str) -> FloatArray:
            return np.stack([sums[f"{prefix}{j}"] for j in points], axis=1)

        powers = np.stack([table(f"p{k}_") for k in range(2 * d + 1)])
        outcome = np.stack([table(f"y{k}_") for k in range(d + 1)])
        return Totals(powers, outcome, table("m") if smoother.marks else None, table("q") if smoother.shared else None)

    def products(self, smoother: Smoother, fit: Fit) -> Products:
        """Second pass; see `sums`. One query per group, and one per pair of groups that share users."""
        points = range(smoother.points.size)
        blocks = [[f"{kind}{j}" for j in points] for kind in ("ef" if smoother.curves else "e")]
        second = np.zeros((len(blocks), self.size, self.size, len(points), len(points)))
        square = np.zeros((self.size, len(points)))
        influences = [self._influences(smoother, fit, g) for g in range(self.size)]
        for g, by_user in enumerate(influences):
            matrices = gram(by_user, [*blocks, *([f"n{j}"] for j in points)])
            second[:, g, g] = matrices[: len(blocks)]
            square[g] = np.ravel(matrices[len(blocks) :])
        for a, b in combinations(range(self.size), 2) if self.spanning else ():
            second[:, a, b] = cross_gram(influences[a], influences[b], USER, blocks)
            second[:, b, a] = np.swapaxes(second[:, a, b], -1, -2)
        return Products(second[0], second[1] if smoother.curves else np.empty(0), square)

    def increments(self, marks: Marks, cell: IntArray, cells: int) -> tuple[FloatArray, FloatArray, float]:
        """Sums of the marks in each score interval, of products over users, and of squares over rows."""
        frame = with_table(self._marked(marks), _bin(self.axis), {"cell": cell})
        value = nw.col(VOTE) * nw.col(_MARK)
        square = value * value if self.clustered else value * value / nw.col(LINES)
        sums = sums_at(frame, {"cell": (nw.col("cell"), cells)}, {"total": value, "square": square})
        second = gram_by_cell(frame, USER, nw.col("cell"), value, cells) if self.clustered else np.diag(sums["square"])
        return sums["total"], second, float(sums["square"].sum())

    def ranked(self, unit: bool) -> FloatArray:
        """ECE and AUC; the engine sums by score, ranks the scores and sums again."""
        lines = []
        weight, total, score = nw.col("weight"), nw.col("total"), nw.col("score")
        for frame, size in ((self.frame.with_columns(nw.lit(0).alias(GROUP)), 1), (self.frame, self.size)):
            keys = {"group": nw.col(GROUP), "score": nw.col(SCORE)}
            by_score = aggregate(frame, keys, {"weight": nw.col(VOTE), "total": nw.col(VOTE) * nw.col(OUTCOME)})
            ranked = by_score.with_columns((weight - total).alias("negative")).with_columns(
                weight.cum_sum().over("group", order_by="score").alias("reached"),
                nw.col("negative").cum_sum().over("group", order_by="score").alias("passed"),
                weight.sum().over("group").alias("all"),
            )
            place = score if unit else (nw.col("reached") - weight) / nw.col("all")
            bins = (place * ranks.BINS + (0.0 if unit else ranks.ROUNDING)).floor().clip(0, ranks.BINS - 1)
            pairs = total * (nw.col("passed") - nw.col("negative") / 2)
            values = {"weight": weight, "total": total, "gap": total - weight * score, "pairs": pairs}
            sums = sums_at(ranked, {"group": (nw.col("group"), size), "bin": (bins, ranks.BINS)}, values)
            for g in range(size):
                votes, positive, above = (float(sums[name][g].sum()) for name in ("weight", "total", "pairs"))
                lines.append(ranks.ece_and_auc(sums["gap"][g], votes, positive, above))
        return np.array(lines)

    def _weighted(self, smoother: Smoother) -> Lazy:
        """Add the vote times the kernel at each grid point as columns: an engine then computes each once."""
        return self._marked(smoother.marks).with_columns(
            (nw.col(VOTE) * _kernel(_scaled(smoother, j), smoother.kernel)).alias(f"k{j}")
            for j in range(smoother.points.size)
        )

    def _marked(self, marks: Marks | None) -> Lazy:
        """Add the mark and its denominator; the curves are joined piece by piece."""
        if marks is None:
            return self.frame
        curves = {"outcome": marks.outcome} | ({} if marks.share is None else {"share": marks.share})
        pieces: dict[str, FloatArray] = {}
        for name, curve in curves.items():
            pieces[f"{name}_intercept"], pieces[f"{name}_slope"] = curve.pieces
        score, centres = nw.col(SCORE), self.axis.centres
        place = position(score, float(centres[0]), BINS / self.axis.length, BINS - 1)
        inside = score.clip(float(centres[0]), float(centres[-1]))
        outcome, share = (
            nw.col(f"{name}_intercept") + nw.col(f"{name}_slope") * inside for name in ("outcome", "share")
        )
        residual = nw.col(OUTCOME) - outcome
        frame = with_table(self.frame, place, pieces)
        if marks.share is None:
            return frame.with_columns(residual.alias(_MARK))
        mark = nw.when(nw.col(GROUP) == 0).then((1 - share) * residual).otherwise(-share * residual)
        return frame.with_columns(mark.alias(_MARK), (share * (1 - share)).alias(_DENOMINATOR))

    def _influences(self, smoother: Smoother, fit: Fit, g: int) -> Lazy:
        """One row per user of group ``g`` (per row, if there are no users): its influence on every number."""
        frame = self._weighted(smoother).filter(nw.col(GROUP) == g)
        y = nw.col(OUTCOME)
        values: dict[str, nw.Expr] = {}
        for j in range(smoother.points.size):
            k, u = nw.col(f"k{j}"), _scaled(smoother, j)
            # A line that stands for c rows is c independent rows, not one row of weight c.
            k = k if self.clustered else k * (1.0 / nw.col(LINES).sqrt())
            centre, divisor = float(fit.centre[g, j]), float(fit.divisor[g, j])
            mark = nw.col(_MARK) if smoother.marks else y
            off = mark - (nw.col(_DENOMINATOR) * centre if smoother.shared else centre)
            values[f"e{j}"] = k * off * (1.0 / divisor if divisor else float("nan"))
            values[f"n{j}"] = k
            if smoother.curves:
                lever, value = (_polynomial(c[:, g, j].tolist(), u) for c in (fit.lever, fit.beta))
                values[f"f{j}"] = k * lever * (y - value)
        if self.clustered:
            return aggregate(frame, {USER: nw.col(USER)}, values).drop(COUNT)
        return frame.select(*(expr.alias(name) for name, expr in values.items()))


def _scaled(smoother: Smoother, j: int) -> nw.Expr:
    return (nw.col(SCORE) - float(smoother.points[j])) * (1.0 / float(smoother.width[j]))


def _kernel(u: nw.Expr, name: Kernel) -> nw.Expr:
    """`kernels.kernel` as an expression."""
    bell = (u * u * -0.5).exp()
    return bell if name == "gaussian" else bell * _polynomial(KERNELS[name], u * u)


def _polynomial(coefficients: Sequence[float], u: nw.Expr) -> nw.Expr:
    value: nw.Expr = nw.lit(float(coefficients[-1]))
    for coefficient in reversed(coefficients[:-1]):
        value = u * value + coefficient
    return value
