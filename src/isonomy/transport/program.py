"""The projection as a linear program: who would have to move, at the least total cost.

Rows fall into classes: within one, every row changes the moment by the same vector when it flips, so the nearest
rows flip first and only the mass that moves in each class is unknown. With a_k the vector of class k and b the
moment seen, the program of Propositions 1 and 4 is

    minimise   sum over rows of p_i d_i,    0 <= p_i <= 1,
    subject to b + sum over rows of a_k(i) p_i = y,    low <= y <= high,

where low = high = 0 is the equality null, high = -low = N tol the two-sided and low = -inf the one-sided tolerance.

One moment: fill by d_i / a_i until the need is met (Algorithm 1, with d_i = 0 and d_i = inf allowed). Several: the
dual is concave and piecewise linear in as many variables as there are moments. Rows are first held in a few hundred
*segments* of neighbouring distances, each priced at its mean; that prices every plan at least as high as the rows
do, and exactly where no segment is cut. Each round solves the small program and splits the segments that its
dual solution cuts; when none is cut the solution is that of the rows. It takes three or four rounds at a million rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from isonomy.numerics.ragged import Ragged
from isonomy.numerics.status import Status

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

ROUNDS = 200  # a safeguard: each round splits at least one segment, in practice 3 to 8 are enough
GAP = 1e-12  # stop when the segments still cut could change the value by less than this, relative
SLACK = 1e-12  # a need this much (relative) above what can be moved is a rounding error, not infeasible
SEGMENTS = 256  # segments of the first round, over all classes: few enough that the small program takes milliseconds
_OPTIMAL, _INFEASIBLE = 0, 2  # of scipy's linprog; 1 is a limit of time or iterations, 4 numerical trouble


@dataclass(frozen=True, slots=True, eq=False)
class Constraint:
    """What the flips have to achieve: ``moment + vectors.T @ moved`` between ``low`` and ``high``."""

    vectors: FloatArray  # (classes, m): change of the moment when one row of the class flips
    moment: FloatArray  # (m,)
    low: FloatArray  # (m,)
    high: FloatArray  # (m,)


@dataclass(frozen=True, slots=True, eq=False)
class Segments:
    """Neighbouring rows of one class held together: their number, mean distance, and range of distances."""

    group: IntArray  # the class
    count: FloatArray
    cost: FloatArray
    low: FloatArray
    high: FloatArray

    @property
    def exact(self) -> bool:
        """True for segments made of single distances, whose ends are one array."""
        return self.low is self.high

    def where(self, mask: npt.NDArray[np.bool_]) -> Segments:
        """The segments for which ``mask`` holds."""
        return Segments(*(getattr(self, name)[mask] for name in self.__slots__))

    def __add__(self, other: Segments) -> Segments:
        return Segments(*(np.concatenate([getattr(self, n), getattr(other, n)]) for n in self.__slots__))


class Pool(Protocol):
    """Rows behind segments: arrays in memory, or passes over a lazy engine. Rows with infinite distance are out."""

    def coarse(self) -> Segments:
        """All rows, in a few segments."""
        ...

    def split(self, cut: Segments) -> Segments:
        """The same rows as those of ``cut``, in finer segments."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """The optimum: its value, the mass that moves in each class, and the dual variables."""

    value: float
    moved: FloatArray  # (classes,)
    cost: FloatArray  # (classes,): distance that the moved rows of each class go in all
    dual: FloatArray  # (m,)
    reach: FloatArray  # (classes,): rows nearer than this flip, rows further do not
    status: Status
    rounds: int


def solve(pool: Pool, constraint: Constraint) -> Solution:
    """Solve the projection program over the rows in ``pool``."""
    master = _fill if constraint.moment.size == 1 else _master
    segments = pool.coarse()
    price = 0.0
    for rounds in range(1, ROUNDS + 1):
        found = master(segments, constraint, price)
        if isinstance(found, Status):
            return _unsolved(constraint, found, rounds)
        moved, dual = found
        reach = -constraint.vectors @ dual
        price = float(reach.max())
        flipped = np.flatnonzero(moved)
        value = float(segments.cost[flipped] @ moved[flipped])
        if segments.exact:
            break
        at = reach[segments.group]
        # Pricing a cut segment at its mean is wrong by at most this much.
        error = segments.count * np.minimum(at - segments.low, segments.high - at)
        cut = error > 0
        if error[cut].sum() <= GAP * value:
            break
        segments = segments.where(~cut) + pool.split(segments.where(cut))
    else:
        return _unsolved(constraint, Status.NOT_CONVERGED, ROUNDS)
    classes = len(constraint.vectors)
    mass = _polish(total(segments.group[flipped], moved[flipped], classes), segments, constraint)
    paid = total(segments.group[flipped], segments.cost[flipped] * moved[flipped], classes)
    return Solution(value, mass, paid, dual, reach, Status.OK, rounds)


def dual_value(dual: FloatArray, distance: FloatArray, group: IntArray, constraint: Constraint) -> float:
    """The dual function of Propositions 2 and 5 at ``dual``, straight from the rows: a lower bound on the value."""
    finite = np.isfinite(distance)
    excess = np.minimum(0.0, distance[finite] + (constraint.vectors @ dual)[group[finite]])
    bound = np.where(dual > 0, constraint.high, constraint.low)
    with np.errstate(invalid="ignore"):
        penalty = np.where(dual == 0, 0.0, dual * bound)
    return float(dual @ constraint.moment - penalty.sum() + excess.sum())


def fractions(distance: FloatArray, group: IntArray, moved: FloatArray, weight: FloatArray | None = None) -> FloatArray:
    """Share p_i of each row that flips, when ``moved`` rows of each class do and the nearest go first."""
    share = np.zeros(distance.size)
    for k in np.flatnonzero(moved > 0):
        rows = np.flatnonzero((group == k) & np.isfinite(distance))
        rows = rows[_smallest(distance[rows], np.ceil(moved[k]))]  # a line stands for at least one row
        rows = rows[np.argsort(distance[rows], kind="stable")]
        mass = np.ones(rows.size) if weight is None else weight[rows]
        before = np.cumsum(mass) - mass
        share[rows] = np.clip((moved[k] - before) / mass, 0.0, 1.0)
    return share


def total(group: IntArray, values: FloatArray | None, size: int) -> FloatArray:
    """Sum of ``values`` (or the number of rows) in each of ``size`` classes."""
    return np.bincount(group, values, size).astype(float)


class SortedRows:
    """Rows in memory, sorted by distance within their class."""

    def __init__(self, distance: FloatArray, group: IntArray, classes: int, weight: FloatArray | None = None) -> None:
        usable = np.where(np.isfinite(distance), group, -1)
        rows = Ragged.from_codes(usable, classes, distance, weights=weight)
        self._offsets = rows.offsets
        self._distance: FloatArray = rows.columns[0]
        self._weight = rows.weights
        for start, stop in zip(rows.offsets, rows.offsets[1:], strict=False):
            part = slice(start, stop)
            if self._weight is None:
                self._distance[part].sort()
            else:
                order = np.argsort(self._distance[part], kind="stable")
                self._distance[part] = self._distance[part][order]
                self._weight[part] = self._weight[part][order]
        self._total = self._distance if self._weight is None else self._distance * self._weight
        self._pieces = max(8, SEGMENTS // max(1, classes))

    def coarse(self) -> Segments:
        """Each class in segments of equally many rows."""
        groups = np.flatnonzero(np.diff(self._offsets))
        return self._cut(groups, self._offsets[groups], self._offsets[groups + 1])

    def split(self, cut: Segments) -> Segments:
        """Each segment in smaller ones of equally many rows."""
        parts = [self._distance[self._offsets[g] : self._offsets[g + 1]] for g in cut.group]
        starts = [np.searchsorted(p, low, "left") for p, low in zip(parts, cut.low, strict=True)]
        stops = [np.searchsorted(p, high, "right") for p, high in zip(parts, cut.high, strict=True)]
        first = self._offsets[cut.group]
        return self._cut(cut.group, first + np.array(starts), first + np.array(stops))

    def _cut(self, groups: IntArray, starts: IntArray, stops: IntArray) -> Segments:
        pieces = [
            np.unique(np.linspace(a, b, self._pieces + 1).astype(np.intp)) for a, b in zip(starts, stops, strict=True)
        ]
        pieces = [self._between_ties(edges) for edges in pieces]
        begin = np.concatenate([edges[:-1] for edges in pieces])
        end = np.concatenate([edges[1:] for edges in pieces])
        group = np.repeat(groups, [edges.size - 1 for edges in pieces])
        low, high = self._distance[begin], self._distance[end - 1]
        mass = _sums(self._weight, begin, end)
        total = _sums(self._total, begin, end)
        return Segments(group, mass, np.where(low == high, low, np.clip(total / mass, low, high)), low, high)

    def _between_ties(self, edges: IntArray) -> IntArray:
        """Move inner edges to the start of a run of equal distances, so that a tie is never in two segments."""
        part = self._distance[edges[0] : edges[-1]]
        inner = edges[0] + np.searchsorted(part, self._distance[edges[1:-1]], "left")
        # The end of the first run as well: a long tie at the start would otherwise never come apart.
        after = edges[0] + np.searchsorted(part, part[0], "right")
        return np.unique(np.concatenate([edges[:1], [after], inner, edges[-1:]])).astype(np.intp)


class SingleRows:
    """Rows in memory, each its own segment: all that one moment needs."""

    def __init__(self, distance: FloatArray, group: IntArray, weight: FloatArray | None = None) -> None:
        self._all = (distance, group, weight)

    def coarse(self) -> Segments:
        """Every row by itself."""
        distance, group, weight = self._all
        mass = np.broadcast_to(1.0, distance.shape) if weight is None else weight
        return Segments(group, mass, distance, distance, distance)

    def split(self, cut: Segments) -> Segments:
        """A row cannot be split."""
        return cut


def _fill(segments: Segments, constraint: Constraint, _price: float) -> tuple[FloatArray, FloatArray] | Status:
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
    # A segment holds at least one row, so no more than this many are needed: only they are sorted.
    order = _smallest(price, need / gain.min()) if gain.size else np.arange(0)
    order = order[np.argsort(price[order])]
    rows, gain, price = rows[order], gain[order], price[order]
    count = segments.count[rows]
    gain = gain * count
    reached = np.cumsum(gain)
    if not reached.size or need > reached[-1] * (1 + SLACK):
        return Status.INFEASIBLE
    last = min(int(np.searchsorted(reached, need)), reached.size - 1)
    moved[rows[:last]] = count[:last]
    before = reached[last - 1] if last else 0.0
    moved[rows[last]] = count[last] * min(1.0, (need - before) / gain[last])
    return moved, np.array([-direction * price[last]])


def _master(segments: Segments, constraint: Constraint, price: float) -> tuple[FloatArray, FloatArray] | Status:
    """Several moments: the small program over segments, by HiGHS; a status where it found no optimum.

    HiGHS's tolerances are absolute, so vectors and costs are brought to the order of one: costs by ``price``, the
    furthest reach of the round before.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csc_array

    size = constraint.moment.size
    scale = np.maximum(np.abs(constraint.vectors).max(axis=0), np.finfo(float).tiny)
    if price <= 0.0:
        price = float(np.median(segments.cost[segments.cost > 0])) if segments.cost.any() else 1.0
    columns = np.hstack([(constraint.vectors / scale)[segments.group].T, -np.eye(size)])
    bounds = np.concatenate(
        [
            np.column_stack([np.zeros(segments.count.size), segments.count]),
            np.column_stack([constraint.low, constraint.high]) / scale[:, None],
        ]
    )
    precision = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # Presolve may say no more than "unbounded or infeasible"; without it HiGHS decides which.
    for presolve in (True, False):
        answer = linprog(  # type: ignore[call-overload]
            np.concatenate([segments.cost / price, np.zeros(size)]),
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
    moved = np.clip(answer.x[: segments.count.size], 0.0, segments.count)
    return moved, -answer.eqlin.marginals * price / scale


def _polish(moved: FloatArray, segments: Segments, constraint: Constraint) -> FloatArray:
    """Remove the solver's last rounding error, so that the plan meets the constraints to machine precision."""
    reached = constraint.moment + constraint.vectors.T @ moved
    gap = np.clip(reached, constraint.low, constraint.high) - reached
    if segments.exact or not gap.any():
        return moved
    capacity = total(segments.group, segments.count, moved.size)
    free = (moved > 0) & (moved < capacity)
    if not free.any():
        return moved
    step = np.linalg.lstsq(constraint.vectors[free].T, gap, rcond=None)[0]
    polished = moved.copy()
    polished[free] = np.clip(moved[free] + step, 0.0, capacity[free])
    return polished


def _smallest(values: FloatArray, number: float) -> IntArray:
    """Places of the ``number`` smallest values, and of all that tie with the last of them."""
    if number >= values.size // 2:
        return np.arange(values.size)
    last = int(number)
    return np.flatnonzero(values <= np.partition(values, last)[last])


def _unsolved(constraint: Constraint, status: Status, rounds: int) -> Solution:
    """No plan: the value is infinite where none exists, and unknown where the solver gave up."""
    unknown, dual = np.full(len(constraint.vectors), np.nan), np.full(constraint.moment.size, np.nan)
    value = np.inf if status is Status.INFEASIBLE else np.nan
    return Solution(value, unknown, unknown, dual, unknown, status, rounds)


def _sums(values: FloatArray | None, begin: IntArray, end: IntArray) -> FloatArray:
    """Sum of ``values[begin:end]`` for each pair; the number of rows when there are no values."""
    if values is None:
        return (end - begin).astype(float)
    # reduceat on interleaved begins and ends; the sums between the pairs are thrown away.
    padded = np.append(values, 0.0)
    return np.asarray(np.add.reduceat(padded, np.column_stack([begin, end]).ravel())[::2], dtype=float)
