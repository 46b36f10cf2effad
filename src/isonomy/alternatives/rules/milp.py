"""The rule that searches linear classifiers by mixed integer programming (appendix F), on HiGHS.

The classifier is 1(x'b >= 0) with x scaled to [-1, 1], a constant first, and b in the box [-1, 1]. Two inequalities per
row tie the decision D to b. The paper's first is strict, X'b / C < D, which no solver can express: with a margin e the
program requires X'b <= -e if D = 0, and X'b >= 0 if D = 1. The margin must exceed the solver's integrality tolerance
(1e-6) times C, or a D of 1e-6 would allow any sign; and because b is bounded, the margin excludes classifiers that
separate rows by less than e. The returned classifier cuts halfway, at -e/2, and its decisions are compared with the
program's D on every training row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import permutations
from typing import Annotated, Literal

import numpy as np

from isonomy.alternatives.rules.algorithm import Algorithm, People, Training, stratified
from isonomy.errors import MethodError, UnknownOption, UsageError
from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.options import Finite, Number, Positive, Whole, check_parameters

Objective = Literal["fairness", "accuracy"]
Constraint = tuple[FloatArray, float, float]  # low <= row @ variables <= high
MARGIN = 1e-3  # of the largest C; HiGHS holds integrality to 1e-6 and rows to 1e-7


@dataclass(frozen=True, slots=True, eq=False)
class MILPRule:
    """A linear classifier found by mixed integer programming on the training part (appendix F).

    It handles utilities whose denominator does not depend on the decision and, by the linearized calibration program,
    the outcome among the selected, which needs a capacity. With a capacity, the linear score is cut there. The program
    is only for training parts of at most a few hundred rows (``sample`` draws that many). The result's details have
    the value reached, the bound, and the gap between them.

    Parameters
    ----------
    objective : {"fairness", "accuracy"}, default "fairness"
        ``"fairness"`` (F.5, P'): the smallest gap between groups without a loss of accuracy.
        ``"accuracy"`` (F.6): the highest accuracy of ``group`` without a larger gap or a loss to the other groups.
    group : str, optional
        The label of the group whose accuracy is maximized.
    iota : float, default 0
        How much every constrained accuracy must gain on the training part.
    margin : float, default 0.001
        x'b must be below -margin times the largest C if the decision is 0; see `isonomy.alternatives.rules.milp`.
    time_limit : float, default 60
        Seconds. The best classifier found by then is used, and its certified gap is reported.
    sample : int or None, default 200
        Fit on about this many training rows, drawn in equal proportion from every group, outcome and decision; None:
        on all.
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
        criteria, labels = training.criteria, training.people.labels
        if self.group is not None and self.group not in labels:
            raise UnknownOption("group of the milp rule", self.group, labels)
        if criteria.priced:
            raise UsageError("accuracy: the milp rule needs 0/1 decisions; it cannot set prices.")
        n, part = len(training.outcome), training
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
            raise UsageError("a utility of the status quo is undefined in the sample for a group; enlarge `sample`.")
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
        coefficients, _, details, status = search(
            people.matrix(group_aware=self.group_aware),
            people.group,
            worths[0],
            worths[1:],
            mix=mix,
            required=required,
            largest_gaps=[(gap * (1 - gain) if ratio else gap - gain) - self.iota for gap, gain in cuts],
            objective=self.objective,
            target=None if self.group is None else labels.index(self.group),
            capacity=criteria.capacity,
            margin=self.margin,
            time_limit=self.time_limit,
        )
        if coefficients is None:
            why = f" within {self.time_limit:g} seconds" if status is Status.TIME_LIMIT else ""
            return Algorithm(None, status, f"no linear classifier was found{why}", details)
        scored = criteria.capacity is not None
        decide = partial(linear_values, model=coefficients, group_aware=self.group_aware, scored=scored)
        return Algorithm(decide, status, "", details)


def linear_values(people: People, *, model: FloatArray, group_aware: bool, scored: bool) -> FloatArray:
    """A linear score, constant first, if a capacity cuts it; else whether it is at least 0."""
    score = model[0] + people.matrix(group_aware=group_aware) @ model[1:]
    return np.asarray(score if scored else score >= 0, dtype=float)


# ---- the program


@dataclass(frozen=True, slots=True, eq=False)
class DecisionValues:
    """A utility of every row at the decisions 0 and 1: u and w, each (rows, 2)."""

    u: FloatArray
    w: FloatArray

    @property
    def linear(self) -> bool:
        """Whether the denominator does not depend on the decision."""
        return bool((self.w[:, 0] == self.w[:, 1]).all())

    def reached(self, members: Sequence[IntArray], decisions: FloatArray) -> FloatArray:
        """The utility of each group under these decisions, which may be fractions."""
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
) -> tuple[FloatArray | None, FloatArray | None, dict[str, float], Status]:
    """Solve (F.5), (F.6), (P') or the accuracy form of (P') on one training part.

    Returns the coefficients on the original features (constant first) and the decisions, or None if there are none; the
    ``value`` reached, the ``bound`` that no classifier of the class can pass, and the ``gap`` between them; the status.

    ``required`` is what the accuracy of each group must reach, or each ``mix`` of groups. ``objective="fairness"``
    minimizes the largest gap between groups in the fairness utilities; ``"accuracy"`` maximizes the accuracy of group
    ``target`` if the others reach theirs and no gap exceeds its ``largest_gaps``.
    """
    n_groups, aim, worths = int(group.max()) + 1, target or 0, (accuracy, *fairness)
    nonlinear = [worth for worth in worths if not worth.linear]
    # Means over those selected are made linear by the program (P').
    if any((worth.w != [0, 1]).any() or worth.u[:, 0].any() for worth in nonlinear):
        raise UsageError("the program needs utilities whose denominator is fixed, or is the number selected.")
    if nonlinear and capacity is None:
        raise UsageError("capacity: the calibration program selects a share of the people; give it.")
    selected = round((capacity or 0.0) * len(x))
    if nonlinear and selected < n_groups:
        raise UsageError(f"capacity: {capacity} of {len(x)} rows selects too few for {n_groups} groups.")
    low, high = x.min(axis=0), x.max(axis=0)
    center, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
    scaled = np.column_stack([np.ones(len(x)), (x - center) / half])
    members = [np.flatnonzero(group == code) for code in range(n_groups)]
    # The variables, as rows of a unit matrix: the coefficients b, the decisions d, the unfairness t and, for means over
    # those selected, one over the number selected of each group and the product s = inverse d of each person.
    n, k, calibrated = *scaled.shape, n_groups if nonlinear else 0
    ends = [k, k + n, k + n + 1, k + n + 1 + calibrated]
    b, d, t, inverse, s = np.split(np.eye(ends[-1] + (n if calibrated else 0)), ends)
    bounds = np.abs(scaled).sum(axis=1)  # C = sup |X'b| over the box
    epsilon = margin * float(bounds.max())
    constraints: list[Constraint] = []
    for score, decision, bound in zip(scaled @ b, d, bounds, strict=True):
        constraints.append((score - (bound + epsilon) * decision, -np.inf, -epsilon))
        constraints.append((score - bound * decision, -bound, np.inf))
    if capacity is not None:
        constraints.append((d.sum(axis=0), selected, selected))
    for rows, size in zip(members, inverse, strict=False):  # none unless a utility is nonlinear
        for product, decision in zip(s[rows], d[rows], strict=True):
            constraints.append((product - size, -np.inf, 0.0))
            constraints.append((product - decision, -np.inf, 0.0))
            constraints.append((product - size - decision, -1.0, np.inf))  # s >= inverse - (1 - D)
        constraints.append((s[rows].sum(axis=0), 1.0, 1.0))
    (mixed, constants), *gap_forms = [_form(d, s, members, worth) for worth in worths]
    if mix is not None:
        mixed, constants = mix @ mixed, mix @ constants
    fair = objective == "fairness"
    for place, (gap_rows, gap_constants) in enumerate(gap_forms):
        for g, h in permutations(range(n_groups), 2):
            difference, constant = gap_rows[g] - gap_rows[h], gap_constants[g] - gap_constants[h]
            if fair:
                constraints.append((t[0] - difference, constant, np.inf))
            else:
                constraints.append((difference, -np.inf, largest_gaps[place] - constant))
    constraints += [(row, required[g] - constants[g], np.inf) for g, row in enumerate(mixed) if fair or g != target]
    # b in [-1, 1], t from 0, inverse in [1/m, 1]. The paper's U >= 0 is omitted: outcomes may be negative.
    box = (inverse.sum(axis=0) / n - b.sum(axis=0), np.where(t[0] == 1, np.inf, 1.0))
    cost = t[0] if fair else -mixed[aim]
    variables, dual, status = _minimize(cost, constraints, box, d.sum(axis=0), time_limit)
    best = dual if fair else float(constants[aim]) - dual
    if variables is None:
        return None, None, {"value": np.nan, "bound": best, "gap": np.nan}, status
    decisions, beta = np.rint(d @ variables), np.clip(b @ variables, -1.0, 1.0)
    beta[0] += epsilon / 2
    if not np.array_equal(scaled @ beta >= 0, decisions == 1):
        raise MethodError("the program's decisions are not those of its classifier: enlarge the margin.")
    gaps = [float(np.ptp(worth.reached(members, decisions))) for worth in fairness]  # free of the solver's tolerance
    value = max(gaps) if fair else float(accuracy.reached(members, decisions)[aim])
    slopes = beta[1:] / half
    coefficients = np.concatenate([[beta[0] - slopes @ center], slopes])
    return coefficients, decisions, {"value": value, "bound": best, "gap": abs(value - best)}, status


def _minimize(
    cost: FloatArray,
    constraints: Sequence[Constraint],
    box: tuple[FloatArray, FloatArray],
    whole: FloatArray | IntArray,
    time_limit: float,
) -> tuple[FloatArray | None, float, Status]:
    """The variables at the optimum (None: none found), a lower bound of the cost, and the status."""
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import csr_array

    rows, *limits = zip(*constraints, strict=True)
    linear = LinearConstraint(csr_array(np.stack(rows)), *limits)
    whole = whole.astype(np.intp)
    answer = milp(cost, integrality=whole, bounds=Bounds(*box), constraints=linear, options={"time_limit": time_limit})
    status = {0: Status.OK, 1: Status.TIME_LIMIT, 2: Status.INFEASIBLE}.get(answer.status, Status.FAILED)
    return answer.x, np.nan if answer.mip_dual_bound is None else float(answer.mip_dual_bound), status


def _form(
    d: FloatArray, s: FloatArray, members: Sequence[IntArray], worth: DecisionValues
) -> tuple[FloatArray, FloatArray]:
    """The utility of each group: coefficients of the variables, and constants.

    U_g = (sum of u(0) + (u(1) - u(0)) D) / sum of w if the denominator is fixed (F.4), and the sum of u(1) s if it is
    the number selected (P').
    """
    if not worth.linear:
        return np.array([worth.u[i, 1] @ s[i] for i in members]), np.zeros(len(members))
    step, total = worth.u[:, 1] - worth.u[:, 0], [worth.w[i, 0].sum() for i in members]
    rows = [step[i] / w @ d[i] for i, w in zip(members, total, strict=True)]
    return np.array(rows), np.array([worth.u[i, 0].sum() / w for i, w in zip(members, total, strict=True)])
