"""The rule that searches linear classifiers by mixed integer programming (appendix F), on HiGHS.

The classifier is 1(x'b >= 0) with x scaled to [-1, 1], a constant first, and b in the box [-1, 1]. Decisions D are tied
to b by two inequalities per row, of which the paper's first is strict: X'b / C < D. No solver knows "<": with a margin
e the program requires X'b <= -e where D = 0, and X'b >= 0 where D = 1. The margin must exceed the solver's integrality
tolerance (1e-6) times C, or a D of 1e-6 would buy any sign; and because b is bounded, a margin rules out classifiers
that separate rows by less than e. The returned classifier cuts half-way, at -e/2, and its decisions are checked against
the program's D on every training row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike

from isonomy.alternatives.rules.algorithm import Algorithm, People, Training, stratified
from isonomy.errors import MethodError, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Finite, Number, Positive, Whole, check_parameters

Objective = Literal["fairness", "accuracy"]
MARGIN = 1e-3  # of the largest C; HiGHS holds integrality to 1e-6 and rows to 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class MILPRule:
    """A linear classifier found by mixed integer programming on the training part (appendix F).

    It handles utilities whose denominator does not depend on the decision and, by the linearized calibration program,
    the outcome among the selected, which needs a capacity. With a capacity, the linear score is cut there. The program
    is only for small training parts of at most a few hundred rows (``sample`` draws that many). Status, value, bound
    and gap are in the details.

    Parameters
    ----------
    objective : {"fairness", "accuracy"}, default "fairness"
        ``"fairness"`` (F.5, P'): the smallest gap between groups at no loss of accuracy.
        ``"accuracy"`` (F.6): the highest accuracy of ``group`` at no larger gap and no loss to the others.
    group : str, optional
        The label of the group whose accuracy is made highest.
    iota : float, default 0
        How much every constrained accuracy must gain on the training part.
    margin : float, default 0.001
        x'b must be below -margin times the largest C where the decision is 0; see `isonomy.alternatives.rules.milp`.
    time_limit : float, default 60
        Seconds. The best classifier found by then is used, and its certified gap is reported.
    sample : int, default 200
        Fit on about this many training rows, drawn in equal proportion from every group and outcome; None: on all.
    group_aware : bool, default False
        Whether the group is among the features.
    """

    objective: Objective = "fairness"
    group: str | None = None
    iota: Finite = 0.0
    margin: Annotated[float, Number(above=1e-6, unit="the solver's integrality tolerance")] = MARGIN
    time_limit: Positive = 60.0
    sample: Whole | None = 200
    group_aware: bool = False
    name: str = "milp"

    def __post_init__(self) -> None:
        check_parameters(self, {name: getattr(self, name) for name in self.__slots__})
        if self.objective == "accuracy" and self.group is None:
            raise UsageError('group: objective="accuracy" needs the label of the group whose accuracy to raise.')

    def __call__(self, training: Training) -> Algorithm:
        """Solve the program on the training part (or the sample of it)."""
        criteria, labels = training.criteria, training.people.labels
        if self.group is not None and self.group not in labels:
            raise UnknownOption("group of the milp rule", self.group, labels)
        if criteria.priced:
            raise UsageError("accuracy: the milp rule needs 0/1 decisions; a price is none.")
        n = len(training.outcome)
        part = training
        if self.sample is not None and n > self.sample:
            part = training.take(stratified(training, self.sample / n)[0])
        people = part.people
        worths = []
        for utility in (criteria.accuracy, *criteria.fairness):
            y = part.outcomes[utility.outcome]
            no, yes = (utility.values(people.features, y, np.full(len(y), decision)) for decision in (0.0, 1.0))
            worths.append(DecisionValues(*(np.column_stack(both) for both in zip(no, yes, strict=True))))
        members = [np.flatnonzero(people.group == code) for code in range(len(labels))]
        with np.errstate(invalid="ignore", divide="ignore"):
            before = np.array([worth.reached(members, part.status_quo) for worth in worths])
        if np.isnan(before).any():
            raise UsageError("the sampled training rows have a group without status-quo utility; enlarge `sample`.")
        ratio = criteria.scale == "ratio"
        mix = np.eye(len(labels))
        if isinstance(criteria.weights, str):  # pooled: by each group's part of the denominator
            if not worths[0].linear:
                raise UsageError('accuracy: the milp rule needs a fixed denominator for weights="pooled".')
            mix = np.array([[worths[0].w[i, 0].sum() for i in members]]) / worths[0].w[:, 0].sum()
        elif criteria.weights is not None:
            mix = criteria.weights[None]
        level = mix @ before[0]
        required = level + np.array(criteria.accuracy_gains) * (np.abs(level) if ratio else 1.0) + self.iota
        gaps = [np.ptp(rates) for rates in before[1:]]
        cuts = zip(gaps, criteria.fairness_gains, strict=True)
        solution = search(
            people.matrix(group_aware=self.group_aware),
            people.group,
            worths[0],
            worths[1:],
            mix=mix,
            required=required,
            largest_gaps=[(gap * (1 - gain) if ratio else gap - gain) - self.iota for gap, gain in cuts],
            objective=self.objective,
            target=None if self.group is None else labels.index(self.group),
            capacity=training.capacity,
            margin=self.margin,
            time_limit=self.time_limit,
        )
        details = {"value": solution.value, "bound": solution.bound, "gap": solution.gap}
        if solution.coefficients is None:
            why = f" within {self.time_limit:g} seconds" if solution.status is Status.TIME_LIMIT else ""
            return Algorithm(None, solution.status, f"no linear classifier was found{why}", details)
        linear = FittedClassifier(solution.coefficients, self.group_aware, training.capacity is not None)
        return Algorithm(linear, solution.status, "", details)


@dataclass(frozen=True, slots=True, eq=False)
class FittedClassifier:
    """A linear classifier, constant first: its score if a capacity cuts it, else whether the score is at least 0."""

    model: FloatArray
    group_aware: bool
    scores: bool

    def __call__(self, people: People) -> FloatArray:
        """One number per person."""
        score = self.model[0] + people.matrix(group_aware=self.group_aware) @ self.model[1:]
        return np.asarray(score if self.scores else score >= 0, dtype=float)


# ---- the program


@dataclass(slots=True, eq=False)
class Program:
    """Constraints ``low <= rows @ variables <= high``, each variable being a row of the unit matrix ``unit``.

    The variables are b, D, the unfairness t, and for the calibration utility a t for each group and an s for each
    person.
    """

    x: FloatArray  # scaled, constant first: (people, coefficients)
    extra: int
    margin: float
    rows: list[FloatArray] = field(default_factory=list)
    low: list[FloatArray] = field(default_factory=list)
    high: list[FloatArray] = field(default_factory=list)

    @property
    def unit(self) -> FloatArray:
        """Each variable as a row of coefficients."""
        return np.eye(self.unfairness + 1 + self.extra)

    @property
    def decisions(self) -> slice:
        """Where the D are among the variables."""
        return slice(self.x.shape[1], self.unfairness)

    @property
    def unfairness(self) -> int:
        """Where t is among the variables."""
        return self.x.shape[1] + self.x.shape[0]

    @property
    def epsilon(self) -> float:
        """The margin in units of x'b."""
        return self.margin * float(np.abs(self.x).sum(axis=1).max())

    def require(self, rows: FloatArray, low: ArrayLike = -np.inf, high: ArrayLike = np.inf) -> None:
        """Add constraints, one or several."""
        rows = np.atleast_2d(rows)
        self.rows.append(rows)
        self.low.append(np.broadcast_to(np.asarray(low, dtype=float), len(rows)))
        self.high.append(np.broadcast_to(np.asarray(high, dtype=float), len(rows)))

    def tie_decisions(self) -> None:
        """X'b - (C + e) D <= -e and X'b - C D >= -C, with C = sup |X'b| over the box."""
        unit, margin = self.unit, self.epsilon
        bounds = np.abs(self.x).sum(axis=1)
        for score, d, bound in zip(self.x @ unit[: self.x.shape[1]], unit[self.decisions], bounds, strict=True):
            self.require(score - (bound + margin) * d, high=-margin)
            self.require(score - bound * d, low=-bound)


@dataclass(frozen=True, slots=True, eq=False)
class Classifier:
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


@dataclass(frozen=True, slots=True, eq=False)
class DecisionValues:
    """A utility as the program sees it: u and w of every row at the decisions 0 and 1, each (rows, 2)."""

    u: FloatArray
    w: FloatArray

    @property
    def linear(self) -> bool:
        """Whether the denominator does not depend on the decision."""
        return bool((self.w[:, 0] == self.w[:, 1]).all())

    @property
    def among_selected(self) -> bool:
        """Whether it is a mean over those selected, which the program (P') makes linear."""
        return bool((self.w[:, 0] == 0).all() and (self.w[:, 1] == 1).all() and (self.u[:, 0] == 0).all())

    def reached(self, members: Sequence[IntArray], decisions: FloatArray) -> FloatArray:
        """The utility of each group under these decisions, fractions for those selected by lot."""
        u, w = (part[:, 0] + decisions * (part[:, 1] - part[:, 0]) for part in (self.u, self.w))
        return np.array([u[i].sum() / w[i].sum() for i in members])


def search(
    x: FloatArray,
    group: IntArray,
    accuracy: DecisionValues,
    fairness: Sequence[DecisionValues],
    *,
    required: Sequence[float] | FloatArray,
    mix: FloatArray | None = None,
    largest_gaps: Sequence[float] = (),
    objective: Objective = "fairness",
    target: int | None = None,
    capacity: float | None = None,
    margin: float = MARGIN,
    time_limit: float = 60.0,
) -> Classifier:
    """Solve (F.5), (F.6), (P') or the accuracy form of (P') on one training part.

    ``required`` is what the accuracy of each group must reach, or each ``mix`` of groups. ``objective="fairness"``
    makes the largest gap between groups smallest, over the fairness utilities; ``"accuracy"`` makes the accuracy of
    group ``target`` largest while the others reach theirs and no gap is above its ``largest_gaps``.
    """
    n_groups, aim, worths = int(group.max()) + 1, target or 0, (accuracy, *fairness)
    calibrated = any(not worth.linear for worth in worths)
    if not all(worth.linear or worth.among_selected for worth in worths):
        raise UsageError("the program needs utilities whose denominator is fixed, or is the number selected.")
    if calibrated and capacity is None:
        raise UsageError("capacity: the calibration program selects a share of the people; give it.")
    selected = round((capacity or 0.0) * len(x))
    if calibrated and selected < n_groups:
        raise UsageError(f"capacity: {capacity} of {len(x)} rows selects too few for {n_groups} groups.")
    low, high = x.min(axis=0), x.max(axis=0)
    centre, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    scaled = np.column_stack([np.ones(len(x)), (x - centre) / half])
    program = Program(scaled, n_groups + len(x) if calibrated else 0, margin)
    program.tie_decisions()
    members = [np.flatnonzero(group == code) for code in range(n_groups)]
    if capacity is not None:
        program.require(program.unit[program.decisions].sum(axis=0), low=selected, high=selected)
    if calibrated:
        _calibration(program, members)
    forms = [_form(program, members, worth) for worth in worths]
    mixed = [part if mix is None else mix @ part for part in forms[0]]
    cost = _objective(program, (mixed[0], mixed[1]), forms[1:], np.asarray(required), largest_gaps, objective, target)
    variables, dual, status = _run(program, cost, n_groups if calibrated else 0, time_limit)
    bound = dual if objective == "fairness" else float(mixed[1][aim]) - dual
    if variables is None:
        return Classifier(None, None, np.nan, bound, np.nan, status)
    beta, decisions = _classifier(program, variables)
    gaps = [float(np.ptp(worth.reached(members, decisions))) for worth in fairness]  # free of the solver's tolerance
    value = max(gaps) if objective == "fairness" else float(accuracy.reached(members, decisions)[aim])
    slopes = beta[1:] / half
    coefficients = np.concatenate([[beta[0] - slopes @ centre], slopes])
    return Classifier(coefficients, decisions, value, bound, abs(value - bound), status)


def _form(program: Program, members: Sequence[IntArray], worth: DecisionValues) -> tuple[FloatArray, FloatArray]:
    """A utility of each group: coefficients of the variables, and constants.

    U_g = (sum of u(0) + (u(1) - u(0)) D) / sum of w where the denominator is fixed (F.4); z's with s = t D linearised
    where it is the number selected (P').
    """
    if worth.linear:
        d, step = program.unit[program.decisions], worth.u[:, 1] - worth.u[:, 0]
        rows = [step[i] / worth.w[i, 0].sum() @ d[i] for i in members]
        return np.array(rows), np.array([worth.u[i, 0].sum() / worth.w[i, 0].sum() for i in members])
    s = program.unit[program.unfairness + 1 + len(members) :]
    return np.array([worth.u[i, 1] @ s[i] for i in members]), np.zeros(len(members))


def _calibration(program: Program, members: Sequence[IntArray]) -> None:
    """Tie s = t D, with t one over the number selected of each group (P')."""
    d, (t, s) = program.unit[program.decisions], np.split(program.unit[program.unfairness + 1 :], [len(members)])
    for code, group in enumerate(members):
        for i in group:
            program.require(s[i] - t[code], high=0.0)
            program.require(s[i] - d[i], high=0.0)
            program.require(s[i] - t[code] - d[i], low=-1.0)  # s >= t - (1 - D)
        program.require(s[group].sum(axis=0), low=1.0, high=1.0)


def _objective(
    program: Program,
    accuracy: tuple[FloatArray, FloatArray],
    fairness: Sequence[tuple[FloatArray, FloatArray]],
    required: FloatArray,
    largest_gaps: Sequence[float],
    objective: Objective,
    target: int | None,
) -> FloatArray:
    """Add the constraints of (F.5) or (F.6); return the cost to make smallest."""
    t = program.unit[program.unfairness]
    rows, constants = accuracy
    for k, (gap_rows, gap_constants) in enumerate(fairness):
        for g, h in permutations(range(len(gap_rows)), 2):
            difference, constant = gap_rows[g] - gap_rows[h], gap_constants[g] - gap_constants[h]
            if objective == "fairness":
                program.require(t - difference, low=constant)
            else:
                program.require(difference, high=largest_gaps[k] - constant)
    for g, row in enumerate(rows):
        if objective == "fairness" or g != target:
            program.require(row, low=required[g] - constants[g])
    return t if objective == "fairness" else -rows[target or 0]


def _run(
    program: Program, cost: FloatArray, calibrated_groups: int, time_limit: float
) -> tuple[FloatArray | None, float, Status]:
    """The variables at the optimum (None: none found), the best value the cost could have, and the status."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    low, high = np.zeros(len(cost)), np.ones(len(cost))
    low[: program.x.shape[1]] = -1.0
    high[program.unfairness] = np.inf
    # 1/m <= t <= 1; s between 0 and 1. The paper's U >= 0 is left out: outcomes may be negative.
    low[program.unfairness + 1 : program.unfairness + 1 + calibrated_groups] = 1.0 / len(program.x)
    integrality = np.zeros(len(cost), dtype=np.intp)
    integrality[program.decisions] = 1
    ends = np.concatenate(program.low), np.concatenate(program.high)
    answer = milp(
        cost,
        integrality=integrality,
        bounds=Bounds(low, high),
        constraints=LinearConstraint(csr_array(np.concatenate(program.rows)), *ends),
        options={"time_limit": time_limit},
    )
    status = {0: Status.OK, 1: Status.TIME_LIMIT, 2: Status.INFEASIBLE}.get(answer.status, Status.FAILED)
    return answer.x, np.nan if answer.mip_dual_bound is None else float(answer.mip_dual_bound), status


def _classifier(program: Program, variables: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Coefficients on the scaled features, cut half-way through the margin, and the decisions they make."""
    decisions = np.rint(variables[program.decisions])
    beta = np.clip(variables[: program.x.shape[1]], -1.0, 1.0)
    beta[0] += program.epsilon / 2
    if not np.array_equal(program.x @ beta >= 0, decisions == 1):
        raise MethodError("the program's decisions are not those of its classifier: enlarge the margin.")
    return beta, decisions
