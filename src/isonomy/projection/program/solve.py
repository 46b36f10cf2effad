"""The projection as a linear program: which rows would have to move, at the least total cost.

Rows fall into classes: within one, every row changes the moment by the same vector when it flips, so the nearest
rows flip first and only the mass that moves in each class is unknown. With a_k the vector of class k and b the
moment seen, the program of Propositions 1 and 4 is

    minimize   sum over rows of p_i d_i,    0 <= p_i <= 1,
    subject to b + sum over rows of a_k(i) p_i = y,    low <= y <= high,

where low = high = 0 is the equality null, high = -low = N tol the two-sided and low = -inf the one-sided tolerance.

One moment: fill by d_i / a_i until the need is met (Algorithm 1, with d_i = 0 and d_i = inf allowed). Several: the
dual is concave and piecewise linear in as many variables as there are moments. Rows are first held in a few hundred
*segments* of neighboring distances, each priced at its mean; that prices every plan at least as high as the rows
do, and exactly where no segment is cut. Each round solves the small program, until its plan costs no more than its
dual value, and splits the segments that the dual solution cuts or the plan fills in part; when none is left the dual
value is that of the rows, which no plan can beat. It takes three or four rounds at a million rows.

Among the plans of the same cost, one that moves the fewest rows is taken: rows on the boundary move free, and would
otherwise be listed without need.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from isonomy.numerics.arrays import FloatArray, IntArray
from isonomy.numerics.status import Status
from isonomy.projection.program.criteria import total
from isonomy.projection.program.rows import Pool, Segments, smallest

ROUNDS = 200  # a safeguard: each round splits at least one segment, in practice 3 to 8 are enough
GAP = 1e-11  # of a plan's cost over the dual value, relative: what lies between is rounding
REFINEMENTS = 8  # of the dual solution, each some digits better than the one before
SURE = 1e6  # reduced costs this many times the error of the dual solution are not in doubt
FREE = 1e-11  # a reduced cost this small, relative to the largest reach, is 0
PARTLY = 1e-9  # a smaller part of a segment is the solver's rounding
SLACK = 1e-12  # a need this much (relative) above what can be moved is a rounding error, not infeasible
MOST_OPEN = 12  # classes that may be rounded either way
_OPTIMAL, _INFEASIBLE = 0, 2  # of scipy's linprog; 1 is a limit of time or iterations, 4 numerical trouble


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """What the flips have to achieve: ``moment + vectors.T @ moved`` between ``low`` and ``high``."""

    vectors: FloatArray  # (classes, m): change of the moment when one row of the class flips
    moment: FloatArray  # (m,)
    low: FloatArray  # (m,)
    high: FloatArray  # (m,)


@dataclass(frozen=True, slots=True, eq=False)
class LeastChange:
    """The optimum: its value, the mass that moves in each class, and the dual variables."""

    value: float
    moved: FloatArray  # (classes,)
    cost: FloatArray  # (classes,): distance that the moved rows of each class go in all
    dual: FloatArray  # (m,)
    reach: FloatArray  # (classes,): rows nearer than this flip, rows further do not
    status: Status
    rounds: int


def solve(pool: Pool, constraint: Constraint) -> LeastChange:
    """Solve the projection program over the rows in ``pool``."""
    moment, classes = constraint.moment, len(constraint.vectors)
    nothing = np.zeros(classes)
    if ((constraint.low <= moment) & (moment <= constraint.high)).all():
        return LeastChange(0.0, nothing, nothing, np.zeros(moment.size), nothing, Status.OK, 0)
    master = _fill if moment.size == 1 else _master
    segments = pool.coarse()
    status, moved, dual = Status.OK, nothing, np.zeros(moment.size)
    rounds = 0
    while rounds < ROUNDS:
        rounds += 1
        optimum = master(segments, constraint)
        if isinstance(optimum, Status):
            status = optimum
            break
        moved, dual = optimum
        reach = -constraint.vectors @ dual
        # Segments whose rows are not priced alike: the dual solution ends inside them, or the plan does.
        least, end = PARTLY * segments.count, reach[segments.group]
        partly = (moved > least) & (segments.count - moved > least)
        inside = (segments.low < end) & (end < segments.high)
        cut = (inside | partly) & (segments.low < segments.high)
        if not cut.any():
            break
        segments = segments.where(~cut) + pool.split(segments.where(cut))
    else:
        status = Status.NOT_CONVERGED
    if status is not Status.OK:  # no plan: the value is infinite if none exists, and unknown if the solver gave up
        unknown, value = np.full(classes, np.nan), np.inf if status is Status.INFEASIBLE else np.nan
        return LeastChange(value, unknown, unknown, np.full(moment.size, np.nan), unknown, status, rounds)
    if moment.size > 1:
        moved = _polish(_fewest(moved, dual, segments, constraint), segments, constraint)
    flipped = np.flatnonzero(moved)
    paid = total(segments.group[flipped], segments.cost[flipped] * moved[flipped], classes)
    mass = total(segments.group[flipped], moved[flipped], classes)
    return LeastChange(float(segments.cost[flipped] @ moved[flipped]), mass, paid, dual, reach, Status.OK, rounds)


def round_to_rows(solution: LeastChange, constraint: Constraint) -> FloatArray:
    """Whole rows to move in each class: of all ways to round, the one nearest to the null, then the cheapest."""
    down = np.floor(solution.moved + PARTLY)
    open_ = np.flatnonzero(solution.moved - down > PARTLY)[:MOST_OPEN]  # at most as many as there are moments
    best, moved = (np.inf, np.inf), down
    for up in product((0.0, 1.0), repeat=open_.size):
        trial = down.copy()
        trial[open_] += up
        reached = constraint.moment + constraint.vectors.T @ trial
        over = float(np.maximum(reached - constraint.high, constraint.low - reached).max())
        rank = (max(over, 0.0), float(np.array(up) @ solution.reach[open_]))
        if rank < best:
            best, moved = rank, trial
    return moved


def _fill(segments: Segments, constraint: Constraint) -> tuple[FloatArray, FloatArray] | Status:
    """One moment: flip in the order of distance per unit of change, the last one in part (Algorithm 1)."""
    moved = np.zeros(segments.count.size)
    moment = float(constraint.moment[0])
    need = max(moment - float(constraint.high[0]), float(constraint.low[0]) - moment, 0.0)
    if need == 0.0:
        return moved, np.zeros(1)
    direction = -1.0 if moment > constraint.high[0] else 1.0
    change = direction * constraint.vectors[:, 0]
    rows = np.flatnonzero((change > 0)[segments.group] & (segments.cost < np.inf))
    gain = change[segments.group[rows]]
    price = segments.cost[rows] / gain
    # A segment holds at least a row, or the least weight, so no more than this many are needed: only they are sorted.
    least = min(1.0, float(segments.count[rows].min(initial=1.0, where=segments.count[rows] > 0)))
    order = smallest(price, need / (gain.min() * least)) if gain.size else np.arange(0)
    order = order[np.argsort(price[order])]
    rows, gain, price = rows[order], gain[order], price[order]
    count = segments.count[rows]
    gain = gain * count
    reached = np.cumsum(gain)
    if not reached.size or need > reached[-1] * (1 + SLACK):
        return Status.INFEASIBLE
    last = min(int(np.searchsorted(reached, need)), reached.size - 1)
    # Among equal prices those that change most go first: the fewest rows move.
    first, end = np.searchsorted(price, price[last], "left"), np.searchsorted(price, price[last], "right")
    if end - first > 1:
        order = first + np.argsort(-change[segments.group[rows[first:end]]], kind="stable")
        rows[first:end], gain[first:end], count[first:end] = rows[order], gain[order], count[order]
        reached = np.cumsum(gain)
        last = min(int(np.searchsorted(reached, need)), reached.size - 1)
    moved[rows[:last]] = count[:last]
    before = reached[last - 1] if last else 0.0
    moved[rows[last]] = count[last] * min(1.0, (need - before) / gain[last])
    return moved, np.array([-direction * price[last]])


def _master(segments: Segments, constraint: Constraint) -> tuple[FloatArray, FloatArray] | Status:
    """Several moments: the small program over segments, by HiGHS; a status if it found no optimum.

    HiGHS's tolerances are absolute, and distances may differ by any factor. The program is therefore solved again with
    the reduced costs of the previous solution, on the scale of their error, until the plan costs as much as the dual
    value.
    """
    dual = np.zeros(constraint.moment.size)
    error = float(np.median(segments.cost[segments.cost > 0])) if (segments.cost > 0).any() else 1.0
    best: tuple[FloatArray, FloatArray] | None = None
    gap = np.inf
    for _ in range(REFINEMENTS):
        reduced = segments.cost + constraint.vectors[segments.group] @ dual
        with np.errstate(over="ignore"):
            sure = np.clip(reduced / error, -SURE, SURE)
        answer = _highs(sure, dual / error, segments.count, segments.group, constraint)
        if isinstance(answer, Status):
            # Infeasibility depends on the constraints alone: it shows in the first round or not at all.
            return answer if best is None else Status.NOT_CONVERGED
        moved, step = answer
        dual = dual + step * error
        # A bound at infinity has no price; a price that the solver gives it is rounding.
        free = ((dual > 0) & np.isinf(constraint.high)) | ((dual < 0) & np.isinf(constraint.low))
        dual = np.where(free, 0.0, dual)
        value = float(segments.cost @ moved)
        short = value - dual_value(dual, segments, constraint)
        if best is None or short < gap:
            best, gap = (moved, dual), short
        if gap <= GAP * value:
            return best
        # The largest reduced cost of the wrong sign: how far the dual variables are from pricing the plan.
        reduced = segments.cost + (constraint.vectors @ dual)[segments.group]
        least = PARTLY * segments.count
        wrong = np.where(moved > least, reduced, 0.0), np.where(segments.count - moved > least, -reduced, 0.0)
        error = float(max(wrong[0].max(), wrong[1].max(), 0.0)) or error * GAP
    return Status.NOT_CONVERGED


def _highs(
    cost: FloatArray, tilt: FloatArray, capacity: FloatArray, group: IntArray, constraint: Constraint
) -> tuple[FloatArray, FloatArray] | Status:
    """The plan and the dual variables where a segment costs ``cost`` and a unit of the final moment ``-tilt``."""
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    size = constraint.moment.size
    # HiGHS's tolerances are absolute: vectors are brought to the order of one.
    scale = np.maximum(np.abs(constraint.vectors).max(axis=0), np.finfo(float).tiny)
    columns = np.hstack([(constraint.vectors / scale)[group].T, -np.eye(size)])
    bounds = np.concatenate(
        [
            np.column_stack([np.zeros(capacity.size), capacity]),
            np.column_stack([constraint.low, constraint.high]) / scale[:, None],
        ]
    )
    precision = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # Presolve may report no more than "unbounded or infeasible"; without it HiGHS decides which.
    for presolve in (True, False):
        answer = linprog(  # type: ignore[call-overload]
            np.concatenate([cost, -tilt * scale]),
            A_eq=csc_array(columns),
            b_eq=-constraint.moment / scale,
            bounds=bounds,
            method="highs-ds",
            options={**precision, "presolve": presolve},
        )
        if answer.status in (_OPTIMAL, _INFEASIBLE):
            break
    if answer.status != _OPTIMAL:
        return Status.INFEASIBLE if answer.status == _INFEASIBLE else Status.NOT_CONVERGED
    return np.clip(answer.x[: capacity.size], 0.0, capacity), -answer.eqlin.marginals / scale


def dual_value(dual: FloatArray, segments: Segments, constraint: Constraint) -> float:
    """The dual function of Propositions 2 and 5 at ``dual``: a lower bound on the program over these segments."""
    excess = np.minimum(0.0, segments.cost + (constraint.vectors @ dual)[segments.group])
    end = np.where(dual > 0, constraint.high, constraint.low)
    with np.errstate(invalid="ignore"):
        penalty = np.where(dual == 0, 0.0, dual * end)
    return float(dual @ constraint.moment - penalty.sum() + segments.count @ excess)


def _fewest(moved: FloatArray, dual: FloatArray, segments: Segments, constraint: Constraint) -> FloatArray:
    """A plan of the same cost that moves the fewest rows: another program, over the free choices."""
    reach = -(constraint.vectors @ dual)
    reduced = segments.cost - reach[segments.group]
    free = np.abs(reduced) <= FREE * max(float(reach.max()), 0.0)
    choice = np.flatnonzero(free & (segments.count > 0))
    at_end = np.where(reduced < 0, segments.count, 0.0)
    at_end[choice] = 0.0
    reached = constraint.moment + constraint.vectors.T @ total(segments.group, at_end, len(constraint.vectors))
    # A moment with a price stays at the end of its range.
    low = np.where(dual > 0, constraint.high, constraint.low)
    high = np.where(dual < 0, constraint.low, constraint.high)
    fixed = low == high
    columns = constraint.vectors[segments.group[choice]]
    if not choice.size or (fixed.any() and np.linalg.matrix_rank(columns[:, fixed]) == choice.size):
        return moved  # there is no other
    rest = Constraint(constraint.vectors, reached, low, high)
    answer = _highs(np.ones(choice.size), np.zeros(dual.size), segments.count[choice], segments.group[choice], rest)
    if isinstance(answer, Status):
        return moved
    fewer = at_end.copy()
    fewer[choice] = answer[0]
    cost, fewest = float(segments.cost @ moved), float(segments.cost @ fewer)
    return fewer if fewest <= cost * (1 + GAP) and fewer.sum() < moved.sum() else moved


def _polish(moved: FloatArray, segments: Segments, constraint: Constraint) -> FloatArray:
    """Remove the solver's last rounding error, so that the plan meets the constraints to machine precision."""
    least = PARTLY * segments.count
    moved = np.where(moved <= least, 0.0, np.where(segments.count - moved <= least, segments.count, moved))
    for _ in range(2):
        reached = constraint.moment + constraint.vectors.T @ total(segments.group, moved, len(constraint.vectors))
        gap = np.clip(reached, constraint.low, constraint.high) - reached
        partly = np.flatnonzero((moved > 0) & (moved < segments.count))
        if not gap.any() or not partly.size:
            break
        step = np.linalg.lstsq(constraint.vectors[segments.group[partly]].T, gap, rcond=None)[0]
        moved[partly] = np.clip(moved[partly] + step, 0.0, segments.count[partly])
    return moved
