"""Search for an improving linear classifier by mixed integer programming (appendix F), on HiGHS.

The classifier is 1(x'b >= 0) with x scaled to [-1, 1], a constant first, and b in the box [-1, 1]. Decisions D tie
to b by two inequalities a row, of which the paper's first is strict: X'b / C < D. No solver knows "<": with a margin
e the program asks X'b <= -e where D = 0, X'b >= 0 where D = 1. The margin must exceed the solver's integrality
tolerance (1e-6) times C, or a D of 1e-6 would buy any sign; and because b is bounded, a margin rules out classifiers
that separate rows by less than e. Both are stated in the rule. The returned classifier cuts half-way, at -e/2, and its
decisions are checked against the program's D on every training row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isonomy.alternatives.utilities import FloatArray
from isonomy.errors import MethodError, UsageError
from isonomy.numerics.status import Status

MARGIN = 1e-3  # of the largest C; HiGHS holds integrality to 1e-6 and rows to 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A linear expression in the program's variables: ``constant + row @ variables``."""

    row: FloatArray
    constant: float = 0.0

    def __sub__(self, other: Linear) -> Linear:
        return Linear(self.row - other.row, self.constant - other.constant)


@dataclass(slots=True, eq=False)
class Program:
    """Variables ``b, D, t`` and the extra ones of the calibration utility; constraints added row by row.

    ``t`` is the unfairness. Rows are ``low <= row @ variables <= high``.
    """

    x: FloatArray  # scaled, constant first: (people, coefficients)
    extra: int
    margin: float
    rows: list[FloatArray] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Number of variables."""
        return self.x.shape[1] + self.x.shape[0] + 1 + self.extra

    @property
    def epsilon(self) -> float:
        """The margin in units of x'b."""
        return self.margin * float(np.abs(self.x).sum(axis=1).max())

    def decision(self, person: int) -> int:
        """Index of D for a person."""
        return self.x.shape[1] + person

    @property
    def unfairness(self) -> int:
        """Index of t."""
        return self.x.shape[1] + self.x.shape[0]

    def unit(self, index: int) -> Linear:
        """One variable as an expression."""
        row = np.zeros(self.size)
        row[index] = 1.0
        return Linear(row)

    def require(self, expression: Linear, low: float = -np.inf, high: float = np.inf) -> None:
        """Add ``low <= expression <= high``."""
        self.rows.append(expression.row)
        self.low.append(low - expression.constant)
        self.high.append(high - expression.constant)

    def tie_decisions(self) -> None:
        """X'b - (C + e) D <= -e and X'b - C D >= -C, with C = sup |X'b| over the box."""
        width, people = self.x.shape[1], self.x.shape[0]
        for i in range(people):
            bound = float(np.abs(self.x[i]).sum())
            score = np.zeros(self.size)
            score[:width] = self.x[i]
            upper, lower = score.copy(), score.copy()
            upper[width + i] = -(bound + self.epsilon)
            lower[width + i] = -bound
            self.require(Linear(upper), high=-self.epsilon)
            self.require(Linear(lower), low=-bound)


def _classification(program: Program, group: NDArray[np.intp], y: FloatArray, n_groups: int) -> list[Linear]:
    """U_g = mean of (1 - Y) + (2Y - 1) D (F.4)."""
    found = []
    for code in range(n_groups):
        members = np.flatnonzero(group == code)
        row = np.zeros(program.size)
        row[program.x.shape[1] + members] = (2 * y[members] - 1) / len(members)
        found.append(Linear(row, float(np.mean(1 - y[members]))))
    return found


def _calibration(
    program: Program, group: NDArray[np.intp], y: FloatArray, n_groups: int, capacity: float
) -> list[Linear]:
    """U_g = z's with s = t D linearised (P'); the extra variables are the t of each group, then each person's s."""
    people = len(y)
    first_t = program.unfairness + 1
    first_s = first_t + n_groups
    everyone = np.zeros(program.size)
    everyone[program.x.shape[1] : program.x.shape[1] + people] = 1.0
    selected = float(round(capacity * people))
    program.require(Linear(everyone), low=selected, high=selected)
    found = []
    for code in range(n_groups):
        members = np.flatnonzero(group == code)
        t = program.unit(first_t + code)
        for i in members:
            s, d = program.unit(first_s + int(i)), program.unit(program.decision(int(i)))
            program.require(s - t, high=0.0)
            program.require(s - d, high=0.0)
            program.require(s - t - d, low=-1.0)  # s >= t - (1 - D)
        total, value = np.zeros(program.size), np.zeros(program.size)
        total[first_s + members] = 1.0
        value[first_s + members] = y[members]
        program.require(Linear(total), low=1.0, high=1.0)
        found.append(Linear(value))
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """What the solver found: coefficients on the original features, constant first, and how sure it is.

    ``value`` is the optimum reached and ``bound`` the best any classifier of the class could do; ``gap`` is the
    difference between them. ``status`` is ``time_limit`` where the solver stopped early with the gap certified.
    """

    coefficients: FloatArray | None
    decisions: FloatArray | None
    value: float
    bound: float
    gap: float
    status: Status
    margin: float

    def improves(self, status_quo: float, delta: float = 0.0) -> bool:
        """Whether the optimum of the accuracy program exceeds (1 + delta) times the status quo's accuracy.

        The paper's text prints (1 - delta); its Definition 2 has (1 + delta).
        """
        return self.value > (1 + delta) * status_quo


def search(
    x: FloatArray,
    y: FloatArray,
    group: NDArray[np.intp],
    status_quo: Sequence[float] | FloatArray,
    *,
    utility: str,
    objective: str = "fairness",
    target: int | None = None,
    capacity: float | None = None,
    iota: float = 0.0,
    margin: float = MARGIN,
    time_limit: float = 60.0,
) -> Solution:
    """Solve (F.5), (F.6), (P') or the accuracy form of (P') on one training part.

    ``status_quo`` is its utility for each group here. ``objective="fairness"`` makes the largest gap between groups
    smallest while no group loses accuracy (by ``iota`` at least each gains); ``"accuracy"`` makes the accuracy of
    group ``target`` largest while no other loses and the gap does not grow.
    """
    n_groups = len(status_quo)
    calibrated = utility == "outcome_among_selected"
    if calibrated and capacity is None:
        raise UsageError("capacity: the calibration program selects a share of the people; give it.")
    if calibrated and round((capacity or 0.0) * len(y)) < n_groups:
        raise UsageError(f"capacity: {capacity} of {len(y)} rows selects too few for {n_groups} groups.")
    scaled, centre, half = _scale(x)
    program = Program(scaled, n_groups + len(y) if calibrated else 0, margin)
    program.tie_decisions()
    utilities = (
        _calibration(program, group, y, n_groups, float(capacity or 0.0))
        if calibrated
        else _classification(program, group, y, n_groups)
    )
    cost = _objective(program, utilities, status_quo, objective, target, iota)
    answer, status = _run(program, cost, n_groups if calibrated else 0, time_limit)
    sign, shift = (1.0, 0.0) if objective == "fairness" else (-1.0, utilities[target or 0].constant)
    bound = np.nan if answer.mip_dual_bound is None else sign * float(answer.mip_dual_bound) + shift
    if answer.x is None:
        return Solution(None, None, np.nan, bound, np.nan, status, margin)
    beta, decisions = _classifier(program, answer.x)
    reached = _reached(decisions, y, group, n_groups, calibrated)
    value = float(np.ptp(reached)) if objective == "fairness" else float(reached[target or 0])
    slopes = beta[1:] / half
    coefficients = np.concatenate([[beta[0] - slopes @ centre], slopes])
    return Solution(coefficients, decisions, value, bound, abs(value - bound), status, margin)


def _scale(x: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    low, high = x.min(axis=0), x.max(axis=0)
    centre, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    return np.column_stack([np.ones(len(x)), (x - centre) / half]), centre, half


def _objective(
    program: Program,
    utilities: Sequence[Linear],
    status_quo: Sequence[float] | FloatArray,
    objective: str,
    target: int | None,
    iota: float,
) -> FloatArray:
    """Add the constraints of (F.5) or (F.6); return the cost to make smallest."""
    t = program.unit(program.unfairness)
    for g, h in permutations(range(len(utilities)), 2):
        program.require(t - (utilities[g] - utilities[h]), low=0.0)
    for g, utility in enumerate(utilities):
        if objective == "fairness" or g != target:
            program.require(utility, low=status_quo[g] + iota)
    if objective == "fairness":
        return t.row
    program.require(t, high=max(status_quo) - min(status_quo) - iota)
    return -utilities[target or 0].row


def _run(program: Program, cost: FloatArray, calibrated_groups: int, time_limit: float) -> tuple[Any, Status]:
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    width, people = program.x.shape[1], program.x.shape[0]
    low, high = np.zeros(program.size), np.ones(program.size)
    low[:width] = -1.0
    high[program.unfairness] = np.inf
    # 1/m <= t <= 1; s between 0 and 1. The paper's U >= 0 is left out: outcomes may be negative.
    low[program.unfairness + 1 : program.unfairness + 1 + calibrated_groups] = 1.0 / people
    integrality = np.zeros(program.size, dtype=np.intp)
    integrality[width : width + people] = 1
    answer: Any = milp(
        cost,
        integrality=integrality,
        bounds=Bounds(low, high),
        constraints=LinearConstraint(csr_array(np.array(program.rows)), program.low, program.high),
        options={"time_limit": time_limit},
    )
    return answer, {0: Status.OK, 1: Status.TIME_LIMIT, 2: Status.INFEASIBLE}.get(answer.status, Status.FAILED)


def _classifier(program: Program, solution: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients on the scaled features, cut half-way through the margin, and the decisions they make."""
    width = program.x.shape[1]
    decisions = np.rint(solution[width : program.unfairness])
    beta = np.clip(solution[:width], -1.0, 1.0)
    beta[0] += program.epsilon / 2
    if not np.array_equal(program.x @ beta >= 0, decisions == 1):
        raise MethodError("the program's decisions are not those of its classifier: enlarge the margin.")
    return beta, decisions


def _reached(
    decisions: FloatArray, y: FloatArray, group: NDArray[np.intp], n_groups: int, calibrated: bool
) -> FloatArray:
    """Each group's utility under the decisions, free of the solver's tolerance."""
    u, w = (y * decisions, decisions) if calibrated else ((y == decisions).astype(float), np.ones(len(y)))
    return np.bincount(group, weights=u, minlength=n_groups) / np.bincount(group, weights=w, minlength=n_groups)
