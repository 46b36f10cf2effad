"""Where does a function cross zero? One bracketed problem, or very many at once.

Nothing here raises because a problem has no root: the answer carries a `Status`, so that one odd group
among a thousand is reported as odd and the others are still solved.

    OK             a sign change was found and narrowed to the tolerance
    INFEASIBLE     no sign change between the ends
    NOT_CONVERGED  the iteration limit was reached first
    FAILED         the function returned NaN
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy import optimize

from isonomy.numerics.arrays import BoolArray, FloatArray, IntArray, ObjectArray
from isonomy.numerics.status import Status

Values = Callable[[FloatArray, IntArray], tuple[FloatArray, FloatArray]]
Direction = Literal["increasing", "decreasing"]

# Each expansion of an open end goes four times as far as the last: 1e36 after 60.
EXPANSIONS = 60
# A step within this many tolerances may stop shrinking: that is rounding in the function, not a step gone wrong.
NEAR = 1e4
# brentq refuses a relative tolerance below four units in the last place.
FINEST = 4 * float(np.finfo(float).eps)


class _Missing(Exception):
    """The function returned NaN inside the bracket."""


@dataclass(frozen=True, slots=True)
class Root:
    """One root. ``x`` is the best point known whatever the status (NaN when nothing could be evaluated)."""

    x: float
    status: Status
    iterations: int


@dataclass(frozen=True, slots=True, eq=False)
class Roots:
    """Many roots: ``x``, ``status`` (an object array of `Status`) and ``iterations``, one each per problem."""

    x: FloatArray
    status: ObjectArray
    iterations: IntArray

    @property
    def ok(self) -> BoolArray:
        """Which problems were solved."""
        return np.asarray(self.status == Status.OK, dtype=bool)


def root(
    function: Callable[[float], float],
    low: float,
    high: float,
    *,
    rtol: float = FINEST,
    maxiter: int = 200,
) -> Root:
    """Where does ``function`` cross zero between ``low`` and ``high``?

    Brent's method. An infinite end is replaced by a finite one found by going four times as far at each step.
    Infinite function values are allowed at the ends: only their sign is used. ``rtol`` is as in `roots`.
    """
    low, high = float(low), float(high)
    if not low <= high:
        return Root(float("nan"), Status.INFEASIBLE, 0)
    centre = high if np.isfinite(high) else low if np.isfinite(low) else 0.0
    reach = max(1.0, abs(centre))
    a = low if np.isfinite(low) else centre - reach
    b = high if np.isfinite(high) else centre + reach
    at_a, at_b = float(function(a)), float(function(b))
    for _ in range(EXPANSIONS):
        if (np.isfinite(low) and np.isfinite(high)) or not np.sign(at_a) * np.sign(at_b) > 0:
            break
        reach *= 4.0
        if not np.isfinite(low):
            at_a = float(function(a := centre - reach))
        if not np.isfinite(high):
            at_b = float(function(b := centre + reach))
    if np.isnan(at_a) or np.isnan(at_b):
        return Root(float("nan"), Status.FAILED, 0)
    if at_a == 0 or at_b == 0:
        return Root(a if at_a == 0 else b, Status.OK, 0)
    if np.sign(at_a) == np.sign(at_b):
        return Root(a if abs(at_a) < abs(at_b) else b, Status.INFEASIBLE, 0)

    def checked(t: float) -> float:
        value = float(function(t))
        if np.isnan(value):
            raise _Missing  # brentq would raise ValueError, which the function itself may raise too
        return value

    least = max(float(floor(np.array(a), np.array(b), rtol)), 1e-300)
    rtol = max(rtol, FINEST)
    try:
        x, report = optimize.brentq(checked, a, b, xtol=least, rtol=rtol, maxiter=maxiter, full_output=True, disp=False)
    except _Missing:
        return Root(float("nan"), Status.FAILED, 0)
    return Root(float(x), Status.OK if report.converged else Status.NOT_CONVERGED, int(report.iterations))


def roots(
    function: Values,
    low: npt.ArrayLike,
    high: npt.ArrayLike,
    *,
    x0: npt.ArrayLike | None = None,
    direction: Direction | None = None,
    rtol: float = 1e-13,
    maxiter: int = 200,
) -> Roots:
    """Where does each of many functions cross zero between its own two ends?

    Safeguarded Newton: a Newton step is taken when it stays inside the bracket and is at most half the step
    before it, a bisection otherwise, so the worst case is bisection and the usual case is quadratic.

    Parameters
    ----------
    function
        ``function(x, index) -> (value, derivative)`` for the problems ``index`` (integers into ``low``), called
        only for those still being solved. A derivative that is 0 or NaN is answered by a bisection.
    low, high
        Ends of the brackets, one per problem or one for all; the longest of ``low``, ``high`` and ``x0`` says how
        many problems there are. Infinite ends are replaced by finite ones found by
        expansion from the other end, or from ``x0``.
    x0
        Starting points; the middle of the bracket when outside it or not given.
    direction
        ``"increasing"`` or ``"decreasing"`` if every function is known to be monotone. Then finite ends are never
        evaluated, so they may be poles, and two evaluations are saved.
    rtol
        A problem ends when its step is below ``rtol * abs(x)``; where the bracket straddles 0, below ``rtol / 100``
        times the nearer end more, because rounding in the function leaves a root at 0 without any relative accuracy.
    """
    a, b, start = (
        np.array(v, dtype=float, ndmin=1) for v in np.broadcast_arrays(low, high, np.nan if x0 is None else x0)
    )
    known = {None: 0.0, "increasing": 1.0, "decreasing": -1.0}[direction]
    search = Search(function, a, b, start, known)
    search.bracket()
    search.solve(rtol, np.broadcast_to(floor(search.a, search.b, rtol), a.shape), maxiter)
    return Roots(search.x, search.status, search.iterations)


def bisection(short: Callable[[FloatArray], BoolArray], near: FloatArray, far: FloatArray) -> FloatArray:
    """The first points, from ``near`` to ``far``, that do not fall ``short``; `far` where all do. Sixty halvings."""
    for _ in range(60):
        halfway = (near + far) / 2.0
        before = short(halfway)
        near, far = np.where(before, halfway, near), np.where(before, far, halfway)
    return far


def fieller(
    top: FloatArray,
    bottom: FloatArray,
    v_top: FloatArray,
    v_bottom: FloatArray,
    both: FloatArray,
    critical: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """The ratios r with (top - r bottom)² at most ``critical`` times its variance; infinite where bottom may be 0.

    ``both`` is the covariance of top and bottom (Fieller 1954).
    """
    with np.errstate(all="ignore"):
        a = bottom**2 - critical * v_bottom
        b = top * bottom - critical * both
        c = top**2 - critical * v_top
        half = np.sqrt(np.maximum(b**2 - a * c, 0.0))
        low, high = (b - half) / a, (b + half) / a
    return np.where(a > 0, low, -np.inf), np.where(a > 0, high, np.inf)


class Search:
    """Brackets, orientation, current points and how each problem stands."""

    def __init__(self, function: Values, a: FloatArray, b: FloatArray, x0: FloatArray, known: float) -> None:
        self.function, self.a, self.b, self.x, self.known = function, a, b, x0, known
        self.low, self.high = a.copy(), b.copy()
        self.up = np.full(a.shape, known)  # +1: negative at a, positive at b; -1: the other way round
        self.status = np.empty(a.shape, dtype=object)
        self.finish(np.arange(a.size), Status.NOT_CONVERGED)
        self.iterations = np.zeros(a.shape, dtype=np.intp)

    def evaluate(self, x: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Values and derivatives of the problems ``index``; none are asked for when there are none."""
        if index.size == 0:
            return np.empty(0), np.empty(0)
        with np.errstate(all="ignore"):  # poles and overflow are handled by their sign
            value, slope = self.function(x, index)
        return np.asarray(value, dtype=float), np.asarray(slope, dtype=float)

    def finish(self, index: IntArray, status: Status, x: FloatArray | None = None) -> None:
        """Record how the problems ``index`` ended, and where."""
        self.status[index] = status
        if x is not None:
            self.x[index] = x

    def bracket(self) -> None:
        """Make both ends finite and find which way each function crosses."""
        self.finish(np.flatnonzero(~(self.a <= self.b)), Status.INFEASIBLE)
        index = np.flatnonzero(self.a <= self.b)
        open_a, open_b = np.isinf(self.a), np.isinf(self.b)
        centre = np.where(open_a, np.where(open_b, np.nan_to_num(self.x), self.b), self.a)
        reach = np.maximum(1.0, np.abs(centre))
        self.a[open_a], self.b[open_b] = (centre - reach)[open_a], (centre + reach)[open_b]
        # A known direction gives the sign at finite ends without evaluating there.
        at_a, at_b = np.full(self.a.shape, -self.known), np.full(self.a.shape, self.known)
        pending_a = index if not self.known else index[open_a[index]]
        pending_b = index if not self.known else index[open_b[index]]
        for _ in range(EXPANSIONS + 1):
            at_a[pending_a] = self.evaluate(self.a[pending_a], pending_a)[0]
            at_b[pending_b] = self.evaluate(self.b[pending_b], pending_b)[0]
            same = (np.sign(at_a) * np.sign(at_b) > 0)[index]
            again = index[same & (open_a | open_b)[index]]
            if again.size == 0:
                break
            pending_a, pending_b = again[open_a[again]], again[open_b[again]]
            reach[again] *= 4.0
            self.a[pending_a] = (centre - reach)[pending_a]
            self.b[pending_b] = (centre + reach)[pending_b]
        self._orient(index, at_a[index], at_b[index])

    def _orient(self, index: IntArray, at_a: FloatArray, at_b: FloatArray) -> None:
        self.up[index] = np.sign(at_b)
        missing = np.isnan(at_a) | np.isnan(at_b)
        wrong = (np.sign(at_a) == np.sign(at_b)) | (self.known * np.sign(at_b) < 0)
        nearer = np.where(np.abs(at_a) < np.abs(at_b), self.a[index], self.b[index])
        self.finish(index[wrong], Status.INFEASIBLE, nearer[wrong])
        zero_a, zero_b = at_a == 0, at_b == 0
        self.finish(index[zero_a], Status.OK, self.a[index[zero_a]])
        self.finish(index[zero_b], Status.OK, self.b[index[zero_b]])
        self.finish(index[missing], Status.FAILED, np.full(int(missing.sum()), np.nan))

    def solve(self, rtol: float, atol: FloatArray, maxiter: int) -> None:
        """Newton inside the brackets until every problem has ended."""
        active = np.flatnonzero(self.status == Status.NOT_CONVERGED)
        inside = (self.x > self.a) & (self.x < self.b)
        self.x[active] = np.where(inside, self.x, middle(self.a, self.b))[active]
        previous = self.b - self.a
        for _ in range(maxiter):
            if active.size == 0:
                return
            self.iterations[active] += 1
            x = self.x[active]
            value, slope = self.evaluate(x, active)
            above = value * self.up[active] > 0
            self.b[active] = np.where(above, x, self.b[active])
            self.a[active] = np.where(above, self.a[active], x)
            a, b = self.a[active], self.b[active]
            tolerance = rtol * np.abs(x) + atol[active]
            target = propose(x, value, slope, a, b, previous[active], tolerance)
            step = np.abs(target - x)
            exact, missing = value == 0, np.isnan(value)
            close = (step <= tolerance) & ~exact & ~missing
            previous[active] = step
            self.x[active] = np.where(exact | missing, x, target)
            self.finish(active[close | exact], Status.OK)
            self.finish(active[missing], Status.FAILED)
            if self.known:
                self._at_ends(active[close], tolerance[close])
            active = active[~(close | exact | missing)]

    def _at_ends(self, index: IntArray, tolerance: FloatArray) -> None:
        """A monotone function without a root runs into an end that was never evaluated: look there."""
        for end, bound, sign in ((self.a, self.low, -self.known), (self.b, self.high, self.known)):
            near = (end[index] == bound[index]) & (np.abs(self.x[index] - bound[index]) <= 2 * tolerance)
            suspect = index[near]
            value = self.evaluate(bound[suspect], suspect)[0]
            self.finish(suspect[~(value * sign >= 0)], Status.INFEASIBLE)


def propose(
    x: FloatArray,
    value: FloatArray,
    slope: FloatArray,
    a: FloatArray,
    b: FloatArray,
    previous: FloatArray,
    tolerance: FloatArray,
) -> FloatArray:
    """The next points: by Newton where that stays inside and halves the step, otherwise by bisection."""
    with np.errstate(all="ignore"):
        step = -value / slope
        target = x + step
        # Rounding may put a converged step on the end itself, hence the weak inequalities.
        good = (target >= a) & (target <= b) & (np.abs(step) <= 0.5 * previous)
        # A bisection here, of a bracket that is still wide, would lose the place; going on narrows it from both
        # sides. Strictly inside only: two points must not be visited in turn for ever.
        near = (target > a) & (target < b) & (np.abs(step) <= NEAR * tolerance)
    return np.where(good | near, target, middle(a, b))


def floor(a: FloatArray, b: FloatArray, rtol: float) -> FloatArray:
    """The absolute tolerance: above 0 only where the bracket straddles 0."""
    nearer = np.minimum(np.abs(a), np.abs(b))
    return np.where((a < 0) & (b > 0), 0.01 * rtol * nearer, 0.0)


def middle(a: FloatArray, b: FloatArray) -> FloatArray:
    """The midpoint, or the geometric mean when the ends have one sign and differ by orders of magnitude."""
    with np.errstate(all="ignore"):
        wide = (np.sign(a) * np.sign(b) > 0) & (
            np.maximum(np.abs(a), np.abs(b)) > 100 * np.minimum(np.abs(a), np.abs(b))
        )
        return np.where(wide, np.sign(a) * np.sqrt(np.abs(a)) * np.sqrt(np.abs(b)), a + 0.5 * (b - a))
