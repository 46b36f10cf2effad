"""The projection as a linear program: which rows would have to move, at the least total cost.

Rows fall into classes (cells): within one, every row changes the moment by the same vector when it flips, so the
nearest rows flip first and only the mass that moves in each class is unknown. With a_k the vector of class k and b the
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

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product

import numpy as np

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray
from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status
from isonomy.projection.program.criteria import total

ROUNDS = 200  # a safeguard: each round splits at least one segment, in practice 3 to 8 are enough
GAP = 1e-11  # of a plan's cost over the dual value, relative: what lies between is rounding
REFINEMENTS = 8  # of the dual solution, each some digits better than the one before
SURE = 1e6  # reduced costs this many times the error of the dual solution are not in doubt
FREE = 1e-11  # a reduced cost this small, relative to the largest reach, is 0
PARTLY = 1e-9  # a smaller part of a segment is the solver's rounding
SLACK = 1e-12  # a need this much (relative) above what can be moved is a rounding error, not infeasible
MOST_OPEN = 12  # classes that may be rounded either way
_OPTIMAL, _INFEASIBLE = 0, 2  # of scipy's linprog; 1 is a limit of time or iterations, 4 numerical trouble

SEGMENTS = 256  # segments of the first round, over all classes: few enough that the small program takes milliseconds
QUARTILES = (0.25, 0.75)
PIECES = 256  # bins a pass cuts an interval into: a power of two
SPAN = 8.0  # the first pass bins distances up to this many times their mean; the rest is one segment
LINES = 2**14  # rows of an interval that is grouped by value instead of cut
# An interval this narrow holds ties, however many rows: relative to the first bins and to the distance itself.
NARROW, CLOSE = 2.0**-16, 2.0**-24
LEAST = 2.0**-900  # finer bins could not be counted


# ---- rows in segments


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Neighboring rows of one class held together: their number, mean distance, and range of distances."""

    group: IntArray  # the class
    count: FloatArray
    cost: FloatArray
    low: FloatArray
    high: FloatArray

    def where(self, mask: BoolArray | IntArray) -> Segments:
        return Segments(*(getattr(self, name)[mask] for name in self.__slots__))

    def __add__(self, other: Segments) -> Segments:
        return Segments(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


class SingleRows:
    """Rows in memory, each its own segment: all that one moment needs."""

    def __init__(self, distance: FloatArray, group: IntArray, weight: FloatArray | None = None) -> None:
        mass = np.broadcast_to(1.0, distance.shape) if weight is None else weight
        self.coarse = Segments(group, mass, distance, distance, distance)

    def split(self, cut: Segments) -> Segments:
        return cut


class SortedRows:
    """Rows in memory with finite distance, sorted by it within their class, in segments of equally many rows."""

    def __init__(self, distance: FloatArray, group: IntArray, classes: int, weight: FloatArray | None = None) -> None:
        rows = Ragged.from_codes(np.where(np.isfinite(distance), group, -1), classes, distance, weights=weight)
        self._offsets, self._distance, self._weight = rows.offsets, rows.columns[0], rows.weights
        for start, stop in pairwise(rows.offsets):
            part = slice(start, stop)
            if self._weight is None:
                self._distance[part].sort()
            else:
                order = np.argsort(self._distance[part], kind="stable")
                self._distance[part] = self._distance[part][order]
                self._weight[part] = self._weight[part][order]
        self._pieces = max(8, SEGMENTS // max(1, classes))
        groups = np.flatnonzero(np.diff(self._offsets))
        self.coarse = self._cut(groups, self._offsets[groups], self._offsets[groups + 1])

    def split(self, cut: Segments) -> Segments:
        parts = [self._distance[self._offsets[g] : self._offsets[g + 1]] for g in cut.group]
        starts = [np.searchsorted(p, low, "left") for p, low in zip(parts, cut.low, strict=True)]
        stops = [np.searchsorted(p, high, "right") for p, high in zip(parts, cut.high, strict=True)]
        first = self._offsets[cut.group]
        return self._cut(cut.group, first + np.array(starts), first + np.array(stops))

    def _cut(self, groups: IntArray, starts: IntArray, stops: IntArray) -> Segments:
        pieces = []
        for start, stop in zip(starts, stops, strict=True):
            edges = np.unique(np.linspace(start, stop, self._pieces + 1).astype(np.intp))
            # Inner edges move to the start of a run of equal distances, so that a tie is never in two segments; the end
            # of the first run is an edge too, because a long tie at the start would otherwise never come apart.
            part = self._distance[start:stop]
            inner = start + np.searchsorted(part, self._distance[edges[1:-1]], "left")
            after = start + np.searchsorted(part, part[0], "right")
            pieces.append(np.unique(np.concatenate([[start, after, stop], inner])).astype(np.intp))
        if not pieces:  # no row can move
            none = np.empty(0)
            return Segments(groups, none, none, none, none)
        begin = np.concatenate([edges[:-1] for edges in pieces])
        end = np.concatenate([edges[1:] for edges in pieces])
        # Sums from each begin to its end, by reduceat over both; the sums in between are thrown away.
        ends, weight = np.column_stack([begin, end]).ravel(), self._weight
        weighted = self._distance if weight is None else self._distance * weight
        paid = np.add.reduceat(np.append(weighted, 0.0), ends)[::2]
        mass = (end - begin).astype(float) if weight is None else np.add.reduceat(np.append(weight, 0.0), ends)[::2]
        low, high = self._distance[begin], self._distance[end - 1]
        cost = np.where(low == high, low, np.clip(paid / mass, low, high))
        return Segments(np.repeat(groups, [edges.size - 1 for edges in pieces]), mass, cost, low, high)


class BinnedRows:
    """Rows that an engine holds, in bins that grouped passes count.

    Each round of the program is one pass, made by ``count``, that splits the segments that the dual solution cuts, and
    with them the bins that hold the quartiles. A bin with few rows comes apart by value, so the rounds end at the same
    segments as sorting would. A bin that is split for one cell is split for all of them: ``_finest`` holds the present
    partition. Ends of bins are multiples of powers of two, so that ``(distance - low) * pieces / width`` has no
    rounding error, and no row is on one side of an end when it is counted and on the other when it is compared.
    """

    def __init__(self, count: Callable[..., Segments], side: FloatArray, mean: float) -> None:
        self._count, self._side = count, side
        end = float(2.0 ** np.clip(np.ceil(np.log2(SPAN * mean)), -900, 1000)) if mean else 1.0
        self._width, zero = end / PIECES, np.zeros(1)
        # Equal bins out to a few times the mean, finer where all rows are near the boundary, and one for the rest.
        self.coarse = self._finest = count(zero, np.array([end]), zero, zero > 0, rest=True, zeros=True)
        while self._width > LEAST:
            _, bins = self._quartiles()
            if not bins.count.size or bins.low.any():
                break
            # Both quartiles are in the bin at the boundary, which is wide only because some rows are far.
            self._refine(bins)
            self.coarse, self._width = self._finest, self._width / PIECES

    @property
    def quartiles(self) -> tuple[float, float]:
        """The least signed distances with a quarter and three quarters of the rows up to them."""
        for _ in range(ROUNDS):
            ends, bins = self._quartiles()
            if not bins.count.size:
                break
            self._refine(bins)
        return ends

    def split(self, cut: Segments) -> Segments:
        """The rows of ``cut`` in finer bins, or by value; the same pass splits the bins that may hold the quartiles."""
        self._refine(cut + self._quartiles()[1])
        # Each bin with the last segment of ``cut`` that begins at or before it, in the same cell.
        bins = self._finest.where(self._finest.high > 0)
        lows = np.unique(np.append(bins.low, cut.low))
        cut = cut.where(np.lexsort((cut.low, cut.group)))
        begin, place = (part.group * lows.size + np.searchsorted(lows, part.low) for part in (cut, bins))
        last = np.searchsorted(begin, place, "right") - 1
        return bins.where((last >= 0) & (cut.group[last] == bins.group) & (bins.low < cut.high[last]))

    def radius(self, moved: FloatArray, goal: float, most: float) -> float:
        """A distance within which ``goal`` rows flip, and not many more than ``most`` rows lie."""
        segments, radius = self.coarse, 0.0
        for _ in range(ROUNDS):
            segments = segments.where(np.lexsort((segments.low, segments.group)))
            begins = np.searchsorted(segments.group, segments.group)
            before = np.append(0.0, np.cumsum(segments.count))
            flips = np.clip(moved[segments.group] - before[:-1] + before[begins], 0.0, segments.count)
            outward = np.argsort(segments.high, kind="stable")
            last = int(np.searchsorted(np.cumsum(flips[outward]), goal * (1 - SLACK)))
            radius = float(segments.high[outward[min(last, outward.size - 1)]])
            edge = (segments.low < radius) & (segments.high >= radius)
            if segments.count[segments.high <= radius].sum() <= most or not edge.any():
                break
            segments = segments.where(~edge) + self.split(segments.where(edge))
        return radius

    def _quartiles(self) -> tuple[tuple[float, float], Segments]:
        """The quartiles of the signed distance as far as they are known, and the bins to split until they are."""
        bins = self._finest
        if not bins.count.size:
            return (0.0, 0.0), bins
        selected = self._side[bins.group] > 0
        low, high = np.where(selected, bins.low, -bins.high), np.where(selected, bins.high, -bins.low)
        order = np.argsort(low, kind="stable")
        reached = np.cumsum(bins.count[order])
        quarters = [order[int(np.searchsorted(reached, q * reached[-1]))] for q in QUARTILES]
        cut = np.isin(low, low[quarters]) & np.isin(high, high[quarters]) & (low < high)
        return (float(low[quarters[0]]), float(low[quarters[1]])), bins.where(cut)

    def _refine(self, cut: Segments) -> None:
        """One pass that splits the bins of ``cut``, except those that are split already."""
        wide = self._finest.low < self._finest.high
        starts, first, place = np.unique(self._finest.low[wide], return_index=True, return_inverse=True)
        stops, rows = self._finest.high[wide][first], total(place, self._finest.count[wide], starts.size)
        chosen = np.isin(starts, cut.low) & np.isin(stops, cut.high)
        low, high = starts[chosen], stops[chosen]
        if not low.size:
            return
        by_value = (rows[chosen] <= LINES) | (high - low <= np.maximum(self._width * NARROW, low * CLOSE))
        # The rest has no end: its first part is cut in bins as wide as all that came before.
        rest = np.isinf(high) & ~by_value
        origin, high = np.where(rest, 0.0, low), np.where(rest, low * PIECES, high)
        finer = self._count(low, high, origin, by_value, rest=bool(rest.any()), zeros=False)
        self._finest = self._finest.where(~(wide & np.isin(self._finest.low, low))) + finer


Pool = SingleRows | SortedRows | BinnedRows


def fractions(distance: FloatArray, group: IntArray, moved: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Share p_i of each row that flips, when ``moved`` rows of each class do and the nearest go first."""
    share = np.zeros(distance.size)
    for k in np.flatnonzero(moved > 0):
        rows = np.flatnonzero((group == k) & np.isfinite(distance))
        # A line stands for at least one row, or has a weight.
        least = 1.0 if weight is None else min(1.0, float(weight[rows].min(initial=1.0, where=weight[rows] > 0)))
        rows = rows[smallest(distance[rows], np.ceil(moved[k] / least))]
        rows = rows[np.argsort(distance[rows], kind="stable")]
        mass = np.ones(rows.size) if weight is None else weight[rows]
        before = np.cumsum(mass) - mass
        share[rows] = np.clip((moved[k] - before) / mass, 0.0, 1.0)
    return share


def smallest(values: FloatArray, number: float) -> IntArray:
    """Places of the ``number`` smallest values, and of all that tie with the last of them."""
    if number >= values.size // 2:
        return np.arange(values.size)
    last = int(number)
    return np.flatnonzero(values <= np.partition(values, last)[last])


# ---- the program


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


def solve(pool: Pool, constraint: Constraint) -> LeastChange:
    moment, classes = constraint.moment, len(constraint.vectors)
    nothing = np.zeros(classes)
    if ((constraint.low <= moment) & (moment <= constraint.high)).all():
        return LeastChange(0.0, nothing, nothing, np.zeros(moment.size), nothing, Status.OK)
    master = _fill if moment.size == 1 else _master
    segments, status = pool.coarse, Status.NOT_CONVERGED
    for _ in range(ROUNDS):
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
            status = Status.OK
            break
        segments = segments.where(~cut) + pool.split(segments.where(cut))
    if status is not Status.OK:  # no plan: the value is infinite if none exists, and unknown if the solver gave up
        unknown, value = np.full(classes, np.nan), np.inf if status is Status.INFEASIBLE else np.nan
        return LeastChange(value, unknown, unknown, np.full(moment.size, np.nan), unknown, status)
    if moment.size > 1:
        moved = _polish(_fewest(moved, dual, segments, constraint), segments, constraint)
    flipped = np.flatnonzero(moved)
    paid = total(segments.group[flipped], segments.cost[flipped] * moved[flipped], classes)
    mass = total(segments.group[flipped], moved[flipped], classes)
    return LeastChange(float(segments.cost[flipped] @ moved[flipped]), mass, paid, dual, reach, Status.OK)


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
    moved, moment = np.zeros(segments.count.size), float(constraint.moment[0])
    need = max(moment - float(constraint.high[0]), float(constraint.low[0]) - moment)
    direction = -1.0 if moment > constraint.high[0] else 1.0
    change = direction * constraint.vectors[:, 0]
    rows = np.flatnonzero((change > 0)[segments.group] & (segments.cost < np.inf))
    gain = change[segments.group[rows]]
    price = segments.cost[rows] / gain
    # A segment holds at least a row, or the least weight, so no more than this many are needed: only they are sorted.
    least = min(1.0, float(segments.count[rows].min(initial=1.0, where=segments.count[rows] > 0)))
    order = smallest(price, need / (gain.min() * least)) if gain.size else np.arange(0)
    # Among equal prices those that change most go first: the fewest rows move.
    order = order[np.lexsort((-gain[order], price[order]))]
    rows, count = rows[order], segments.count[rows[order]]
    reached = np.cumsum(gain[order] * count)
    if not reached.size or need > reached[-1] * (1 + SLACK):
        return Status.INFEASIBLE
    last = min(int(np.searchsorted(reached, need)), reached.size - 1)
    moved[rows[:last]] = count[:last]
    before = reached[last - 1] if last else 0.0
    moved[rows[last]] = count[last] * min(1.0, (need - before) / (gain[order[last]] * count[last]))
    return moved, np.array([-direction * price[order[last]]])


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
    low = np.concatenate([np.zeros(capacity.size), constraint.low / scale])
    bounds = np.column_stack([low, np.concatenate([capacity, constraint.high / scale])])
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
