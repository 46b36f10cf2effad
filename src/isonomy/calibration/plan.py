"""What was asked about a score, checked against the schema: which rows, compared how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Required, TypedDict, Unpack

import numpy as np

from isonomy.calibration.smoothing.bands import Adjustment
from isonomy.calibration.smoothing.kernels import Kernel
from isonomy.calibration.smoothing.margins import Direction
from isonomy.errors import MissingRole, UsageError
from isonomy.frames import Grouping, Request, Source
from isonomy.frames.membership import without_value
from isonomy.frames.products import off_binary
from isonomy.numerics.arrays import FloatArray

Level = Literal["user", "aggregate"]
Comparison = Literal["residual", "orthogonal", "nadaraya-watson", "cumulative"]
EdgeFit = Literal["local-quadratic", "local-linear", "nadaraya-watson"]
PairAdjustment = Literal["holm", "bonferroni", "bh", "by", "none"]
Widths = float | Sequence[float] | None
NO_USER, NOT_BINARY = "no user", "not binary"
DEGREES: dict[EdgeFit, int] = {"local-quadratic": 2, "local-linear": 1, "nadaraya-watson": 0}


@dataclass(frozen=True, slots=True, eq=False)
class RowsPlan:
    """What every question about a score asks: which columns are read, and whether users or rows have one vote each."""

    outcome: str
    score: str
    grouping: Grouping
    user: str | None
    level: Level
    checks: Request  # the rows of each group, and how many outcomes are not 0/1 or have no user
    requests: tuple[Request, ...]  # the same where an engine holds the rows: kernel sums are passes of their own


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """What both tests are told: the rows, and how the groups of each family are compared."""

    rows: RowsPlan
    kernel: Kernel
    alpha: float
    tolerance: float | None
    reference: Mapping[str, object] | None


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Compared):
    """The question of `predictive_parity`."""

    method: Comparison
    adjust: Adjustment
    draws: int
    grid: FloatArray | None
    bandwidth: Widths

    @property
    def requests(self) -> tuple[Request, ...]:
        """The passes an audit can share."""
        return self.rows.requests


@dataclass(frozen=True, slots=True, eq=False)
class MarginalPlan(Compared):
    """The question of `marginal_outcomes`."""

    threshold: float
    method: EdgeFit
    adjust: PairAdjustment
    bandwidth: float | None
    requests: tuple[Request, ...] = ()  # only rows above the threshold are read: passes of their own


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdsPlan:
    """The question of `equalize_thresholds`."""

    rows: RowsPlan
    threshold: float
    direction: Direction
    bandwidth: float | None
    requests: tuple[Request, ...] = ()


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


class Common(TypedDict, total=False):
    """Options that every question has: which columns are read, and who has a vote."""

    outcome: Required[str]
    groups: Required[object]
    user: str | None
    level: Level | None
    depth: int


def plan_rows(source: Source, score: str, **rows: Unpack[Common]) -> RowsPlan:
    """The columns of a call. ``level`` is "user" if a user is given, else "aggregate"."""
    outcome, user, level = rows["outcome"], rows.get("user"), rows.get("level")
    source.require(outcome=outcome, score=score, user=user)
    chosen: Level = level or ("aggregate" if user is None else "user")
    if chosen == "user" and user is None:
        raise MissingRole('level: "user" needs the column that says who each row belongs to; pass user=.')
    grouping = source.grouping(rows["groups"], rows.get("depth", 1))
    values = {NOT_BINARY: off_binary(outcome)} | ({} if user is None else {NO_USER: without_value(source, user)})
    checks = Request(grouping=grouping, numeric={"outcome": outcome, "score": score}, values=values)
    return RowsPlan(outcome, score, grouping, user, chosen, checks, (checks,) if source.lazy else ())


def plan(
    source: Source,
    *,
    score: str,
    grid: float | Sequence[float] | None,
    bandwidth: Widths,
    method: Comparison,
    kernel: Kernel,
    reference: Mapping[str, object] | None,
    adjust: Adjustment,
    tolerance: float | None,
    alpha: float,
    resamples: int,
    **rows: Unpack[Common],
) -> Plan:
    """Check the options of `predictive_parity` against one another and the schema."""
    if tolerance is not None and method == "cumulative":
        raise UsageError('tolerance: the cumulative test has none; choose another method, such as "residual".')
    read = plan_rows(source, score, **rows)
    points = _grid(grid)
    compared = (read, kernel, alpha, tolerance, reference)
    return Plan(*compared, method, adjust, resamples, points, bandwidth)


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
    read = plan_rows(source, score, **rows)
    compared = (read, kernel, alpha, tolerance, reference)
    return MarginalPlan(*compared, float(threshold), method, adjust, bandwidth)


def plan_thresholds(
    source: Source,
    *,
    score: str,
    threshold: float,
    direction: Direction,
    bandwidth: float | None,
    **rows: Unpack[Common],
) -> ThresholdsPlan:
    """Check the options of `equalize_thresholds` against one another and the schema."""
    read = plan_rows(source, score, **rows)
    _one_set(read, ": thresholds are set for disjoint groups")
    return ThresholdsPlan(read, float(threshold), direction, bandwidth)


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


def _one_set(rows: RowsPlan, reason: str = "") -> None:
    if len(rows.grouping.dimensions) != 1:
        raise UsageError(f"groups: give one column (or one named condition){reason}.")


def _grid(grid: float | Sequence[float] | None) -> FloatArray | None:
    if grid is None:
        return None
    points = np.atleast_1d(np.asarray(grid, dtype=np.float64))
    if not points.size or not np.all(np.isfinite(points)) or np.any(np.diff(points) <= 0):
        raise UsageError(f"grid: {grid!r} is not allowed; give None or finite scores in increasing order.")
    return points


def _named(score: object) -> dict[str, str]:
    """Score columns by the name they are reported under."""
    if isinstance(score, str):
        return {score: score}
    if isinstance(score, Mapping):
        columns = dict(score)
    else:
        columns = {name: name for name in score} if isinstance(score, (Sequence, np.ndarray)) else {}
    if not columns or not all(isinstance(name, str) for name in columns):
        raise UsageError(
            f"score: {score!r} is not allowed; give a column, several, or names for them such as "
            '{"before": "s", "after": "s_calibrated"}.'
        )
    return columns
