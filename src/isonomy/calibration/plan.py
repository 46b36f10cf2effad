"""What was asked about a score, checked against the schema: which rows, compared how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Required, TypedDict, Unpack

import numpy as np

from isonomy.calibration.smoothing.bands import Adjustment
from isonomy.calibration.smoothing.composites import STEPS, simplex
from isonomy.calibration.smoothing.kernels import Kernel
from isonomy.calibration.smoothing.targets import Direction, Target
from isonomy.calibration.wording import AVERAGES
from isonomy.calibration.wording_thresholds import in_words
from isonomy.errors import MissingRole, UsageError
from isonomy.frames import Grouping, Request, Source
from isonomy.frames.checks import refuse_nested
from isonomy.frames.membership import without_value
from isonomy.frames.products import off_binary
from isonomy.frames.sums import LARGEST
from isonomy.numerics.arrays import FloatArray
from isonomy.results import phrases

Level = Literal["user", "aggregate"]
Comparison = Literal["omnibus", "orthogonal", "cumulative", "trend", "residual", "nadaraya-watson", "published"]
EdgeFit = Literal["local-quadratic", "local-linear", "nadaraya-watson"]
Change = Literal["shown", "all"]
PairAdjustment = Literal["holm", "bonferroni", "bh", "by", "none"]
DataDriven = Literal["cross-validation"]
Widths = float | Sequence[float] | DataDriven | None
MOST_SCORES = max(STEPS)
NO_USER, NOT_BINARY = "no user", "not binary"
DEGREES: dict[EdgeFit, int] = {"local-quadratic": 2, "local-linear": 1, "nadaraya-watson": 0}


@dataclass(frozen=True, slots=True, eq=False)
class RowsPlan:
    """What every question about a score asks: which columns are read, and whether users or rows have one vote each."""

    outcome: str
    score: str
    grouping: Grouping
    user: str | None
    person: str | None  # the column of whom or what is independent of the others: the user, or the cluster
    level: Level
    checks: Request  # the rows of each group, and how many outcomes are not 0/1 or have no user
    requests: tuple[Request, ...]  # the same where an engine holds the rows: how many there are is asked first
    each: str | None = None  # column with the number of all rows of a row's user, where not all of them are read


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonPlan:
    """What both tests are told: the rows, and how the groups of each family are compared."""

    rows: RowsPlan
    kernel: Kernel
    alpha: float
    tolerance: float | None
    reference: Mapping[str, object] | None


@dataclass(frozen=True, slots=True, eq=False)
class Plan(ComparisonPlan):
    """The question of `predictive_parity`."""

    method: Comparison
    adjust: Adjustment
    draws: int
    grid: FloatArray | None
    bandwidth: Widths
    order: bool
    order_tolerance: float | None

    @property
    def averages(self) -> bool:
        """Whether groups' kernel means are compared, as in the paper."""
        return self.method in AVERAGES

    @property
    def range(self) -> tuple[float, float] | None:
        """The lowest and the highest score that are compared; None: all scores."""
        return None if self.grid is None else (float(self.grid[0]), float(self.grid[-1]))

    @property
    def requests(self) -> tuple[Request, ...]:
        """The passes an audit can share."""
        return self.rows.requests


@dataclass(frozen=True, slots=True, eq=False)
class CompositePlan:
    """The question of `composite_parity`."""

    rows: RowsPlan  # of the first outcome and score; the groups and users are those of all
    outcomes: tuple[str, ...]
    scores: tuple[str, ...]
    weights: FloatArray  # (W, scores)
    reference: Mapping[str, object] | None
    alpha: float
    draws: int
    requests: tuple[Request, ...] = ()  # rows are read, once for all weights


@dataclass(frozen=True, slots=True, eq=False)
class MarginalPlan(ComparisonPlan):
    """The question of `marginal_outcomes`."""

    threshold: float
    method: EdgeFit
    adjust: PairAdjustment
    bandwidth: float | None
    requests: tuple[Request, ...] = ()  # only rows above the threshold are read: passes of their own


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ThresholdsPlan:
    """The question of `equalize_thresholds`."""

    rows: RowsPlan
    outcome: str | None  # None: there is none, and selection rates are made equal
    target: Target
    threshold: float
    capacity: float | None
    direction: Direction
    change: Change
    randomize: bool
    bandwidth: float | None
    alpha: float
    draws: int
    words: Mapping[str, str]  # what metrics are called in a sentence
    chosen: str  # what people above their threshold are
    requests: tuple[Request, ...] = ()

    @property
    def margin(self) -> bool:
        """Whether outcomes at the margin are made equal, for which those below the threshold need not be known."""
        return self.target == "outcome_at_margin"

    @property
    def marginal(self) -> MarginalPlan:
        """The question of `marginal_outcomes` at the present threshold."""
        return MarginalPlan(
            rows=self.rows,
            kernel="gaussian",
            alpha=self.alpha,
            tolerance=None,
            reference=None,
            threshold=self.threshold,
            method="local-quadratic",
            adjust="holm",
            bandwidth=self.bandwidth,
        )


@dataclass(frozen=True, slots=True, eq=False)
class MetricsPlan:
    """The question of `calibration_metrics`."""

    scores: Mapping[str, RowsPlan]  # by the name each score is reported under
    grid: FloatArray | None
    bandwidth: Widths

    @property
    def requests(self) -> tuple[Request, ...]:
        """The passes an audit can share."""
        return tuple(request for plan in self.scores.values() for request in plan.requests)


class GroupOptions(TypedDict, total=False):
    """Options that every question has: the groups, and whom a row belongs to."""

    groups: Required[object]
    user: str | None


class Common(GroupOptions, total=False):
    """Options of most questions: the outcome, and who has a vote."""

    outcome: Required[str]
    level: Level | None
    depth: int


def plan_rows(source: Source, score: str, **rows: Unpack[Common]) -> RowsPlan:
    """The columns of a call. ``level`` is "user" if a user is given, else "aggregate"."""
    outcome, user, level = rows["outcome"], rows.get("user"), rows.get("level")
    source.require(outcome=outcome, score=score, user=user)
    refuse_nested(source.schema, "user", user)
    chosen: Level = level or ("aggregate" if user is None else "user")
    if chosen == "user" and user is None:
        raise MissingRole('level: "user" needs the column that says who each row belongs to; pass user=.')
    grouping = source.grouping(rows["groups"], rows.get("depth", 1))
    values = {NOT_BINARY: off_binary(outcome)} | ({} if user is None else {NO_USER: without_value(source, user)})
    checks = Request(grouping=grouping, numeric={"outcome": outcome, "score": score}, values=values)
    source.check(checks)
    return RowsPlan(
        outcome, score, grouping, user, user or source.cluster, chosen, checks, (checks,) if source.lazy else ()
    )


def plan(
    source: Source,
    *,
    score: str,
    grid: float | Sequence[float] | None,
    bandwidth: Widths,
    method: Comparison,
    kernel: Kernel,
    reference: Mapping[str, object] | None,
    adjust: Adjustment | None,
    tolerance: float | None,
    order: bool | None,
    order_tolerance: float | None,
    alpha: float,
    resamples: int,
    **rows: Unpack[Common],
) -> Plan:
    """Check the options of `predictive_parity` against one another and the schema."""
    read = _refuse_both(source, plan_rows(source, score, **rows))
    points = _grid(grid)
    single = points is not None and points.size == 1
    if single and (order or method in ("cumulative", "trend")):
        needs = "order=True" if order else f"method={method!r}"
        raise UsageError(f"grid: {grid!r} is a single score, and {needs} needs a range of scores; give two or more.")
    ordered = method != "published" and not single if order is None else bool(order)
    if order_tolerance is not None and not ordered:
        raise UsageError(
            f"order_tolerance: {order_tolerance!r} has no effect where the order is not tested; leave it at None, or "
            "pass order=True."
        )
    compared = (read, kernel, alpha, tolerance, reference)
    reversal = tolerance if order_tolerance is None else order_tolerance
    usual: Adjustment = "bonferroni" if method in AVERAGES else "sup-t"
    return Plan(*compared, method, adjust or usual, resamples, points, bandwidth, ordered, reversal)


def plan_composite(
    source: Source,
    *,
    outcomes: str | Sequence[str],
    scores: str | Sequence[str],
    reference: Mapping[str, object] | None,
    alpha: float,
    resamples: int,
    level: Level | None,
    depth: int,
    **rows: Unpack[GroupOptions],
) -> CompositePlan:
    """Check the options of `composite_parity` against one another and the schema."""
    results, columns = (tuple([names] if isinstance(names, str) else names) for names in (outcomes, scores))
    if len(results) != len(columns) or not 2 <= len(columns) <= MOST_SCORES:
        raise UsageError(
            f"scores: {len(columns)} scores for {len(results)} outcomes; give 2 to {MOST_SCORES} scores, and an "
            "outcome for each, in the same order."
        )
    for outcome, score in zip(results, columns, strict=True):
        source.require(outcomes=outcome, scores=score)
    read = _refuse_both(source, plan_rows(source, columns[0], outcome=results[0], level=level, depth=depth, **rows))
    return CompositePlan(read, results, columns, simplex(len(columns)), reference, alpha, resamples)


def plan_marginal(
    source: Source,
    *,
    score: str,
    threshold: float,
    bandwidth: float | None,
    method: EdgeFit,
    kernel: Kernel,
    reference: Mapping[str, object] | None,
    adjust: PairAdjustment,
    tolerance: float | None,
    alpha: float,
    **rows: Unpack[Common],
) -> MarginalPlan:
    """Check the options of `marginal_outcomes` against one another and the schema."""
    read = _refuse_both(source, plan_rows(source, score, **rows))
    compared = (read, kernel, alpha, tolerance, reference)
    return MarginalPlan(*compared, float(threshold), method, adjust, bandwidth)


def plan_thresholds(
    source: Source,
    *,
    outcome: str | None,
    score: str,
    threshold: float,
    target: Target,
    capacity: float | None,
    direction: Direction,
    change: Change,
    randomize: bool,
    level: Level | None,
    bandwidth: float | None,
    alpha: float,
    resamples: int,
    **rows: Unpack[GroupOptions],
) -> ThresholdsPlan:
    """Check the options of `equalize_thresholds` against one another and the schema."""
    margin = target == "outcome_at_margin"
    if outcome is None and target != "selection_rate":
        raise MissingRole(f"outcome: needed for target={target!r}; name the column that says what happened.")
    for name, value in (("bandwidth", bandwidth), ("level", level)):
        if value is not None and not margin:
            raise UsageError(
                f"{name}: {value!r} has no effect with target={target!r}, which counts rows; leave it at None, or "
                'choose target="outcome_at_margin".'
            )
    if randomize and margin:
        raise UsageError('randomize: True is not allowed with target="outcome_at_margin": a lottery has no margin.')
    if direction != "both" and (capacity is not None or randomize):
        other = "capacity" if capacity is not None else "randomize"
        raise UsageError(f'{other}: thresholds that only move one way cannot keep a rate; leave direction at "both".')
    read = plan_rows(source, score, outcome=score if outcome is None else outcome, level=level, **rows)
    _one_set(read, ": thresholds are set for disjoint groups")
    read = _refuse_both(source, read) if margin else read
    return ThresholdsPlan(
        rows=read,
        outcome=outcome,
        target=target,
        threshold=float(threshold),
        capacity=capacity,
        direction=direction,
        change=change,
        randomize=bool(randomize),
        bandwidth=bandwidth,
        alpha=alpha,
        draws=resamples,
        words=in_words(source.labels.metrics),
        chosen=phrases.chosen(source.labels.metrics),
    )


def plan_metrics(
    source: Source,
    *,
    score: str | Sequence[str] | Mapping[str, str],
    grid: float | Sequence[float] | None,
    bandwidth: Widths,
    **rows: Unpack[Common],
) -> MetricsPlan:
    """Check the options of `calibration_metrics` against one another and the schema."""
    columns = _named(score)
    scores = {name: plan_rows(source, column, **rows) for name, column in columns.items()}
    for read in scores.values():
        _one_set(read)
    return MetricsPlan(scores, _grid(grid), bandwidth)


def _refuse_both(source: Source, rows: RowsPlan) -> RowsPlan:
    if rows.user is not None and source.cluster not in (None, rows.user):
        raise UsageError(
            f"cluster: {source.cluster!r}; user={rows.user!r} says already which rows belong together. Give one of the "
            "two, or the same column for both."
        )
    return rows


def _one_set(rows: RowsPlan, reason: str = "") -> None:
    if len(rows.grouping.dimensions) != 1:
        raise UsageError(f"groups: give one column (or one named condition){reason}.")


def _grid(grid: float | Sequence[float] | None) -> FloatArray | None:
    if grid is None:
        return None
    try:
        points = np.atleast_1d(np.asarray(grid, dtype=np.float64))
    except (TypeError, ValueError):  # what is no list of numbers has no point
        points = np.empty(0)
    if not points.size or not np.all(np.abs(points) <= LARGEST) or np.any(np.diff(points) <= 0):
        raise UsageError(f"grid: {grid!r} is not allowed; give None or finite scores in increasing order.")
    return points


def _named(score: object) -> dict[str, str]:
    """Score columns by the name they are reported under."""
    if isinstance(score, str):
        return {score: score}
    if isinstance(score, Mapping):
        columns = dict(score)
    else:
        listed = isinstance(score, (Sequence, np.ndarray)) and all(isinstance(name, str) for name in score)
        columns = {name: name for name in score} if listed else {}  # type: ignore[attr-defined]
    if not columns or not all(isinstance(name, str) for name in columns):
        raise UsageError(
            f"score: {score!r} is not allowed; give a column, several, or names for them such as "
            '{"before": "s", "after": "s_calibrated"}.'
        )
    return columns
